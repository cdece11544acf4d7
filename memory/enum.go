package memory

import "fmt"

// enum names the values of one closed enumeration. Index 0 is always "unset":
// the value of a field nobody chose, which is refused on input and is unfit.
type enum[T ~uint8] struct {
	field string
	names []string
}

func (e enum[T]) text(v T) string {
	if int(v) < len(e.names) && v != 0 {
		return e.names[v]
	}
	if v == 0 {
		return "unset"
	}
	return fmt.Sprintf("%s(%d)", e.field, uint8(v))
}

// valid reports whether v was chosen on purpose.
func (e enum[T]) valid(v T) bool { return v != 0 && int(v) < len(e.names) }

func (e enum[T]) marshal(v T) ([]byte, error) {
	if !e.valid(v) {
		return nil, invalid(e.field, "required", "%s is not a value that can be written", e.text(v))
	}
	return []byte(e.names[v]), nil
}

func (e enum[T]) parse(s string) (T, error) {
	for i, n := range e.names {
		if i > 0 && n == s {
			return T(i), nil
		}
	}
	return 0, invalid(e.field, "unknown_value", "%q is none of %q", s, e.names[1:])
}

func (e enum[T]) unmarshal(dst *T, b []byte) error {
	v, err := e.parse(string(b))
	if err != nil {
		return err
	}
	*dst = v
	return nil
}

// check gives the error of a required field that holds v.
func (e enum[T]) check(v T) error {
	if v == 0 {
		return invalid(e.field, "required", "choose one of %q", e.names[1:])
	}
	if int(v) >= len(e.names) {
		return invalid(e.field, "unknown_value", "%d is no value of %s", uint8(v), e.field)
	}
	return nil
}
