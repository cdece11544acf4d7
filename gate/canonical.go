package gate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"

	"github.com/hearsay-go/hearsay/memory"
)

// Limits of the arguments of a call.
const (
	MaxArguments = 1 << 20 // bytes
	MaxDepth     = 100     // nesting
	maxInteger   = 1 << 53 // above it two integers have one float64
)

// ErrArguments is the sentinel of [*ArgumentError].
var ErrArguments = errors.New("gate: invalid arguments")

// ArgumentError says which argument breaks which rule. errors.Is(err,
// ErrArguments) holds.
type ArgumentError struct {
	Pointer string // RFC 6901 into the arguments; "" = the arguments as a whole
	Rule    string // a stable word: malformed, not_object, duplicate_key, integer_range, too_deep, too_large, schema
	Text    string // for people
}

// Error is one line without the argument's value.
func (e *ArgumentError) Error() string {
	if e.Pointer == "" {
		return fmt.Sprintf("gate: invalid arguments: %s (%s)", e.Text, e.Rule)
	}
	return fmt.Sprintf("gate: invalid argument %q: %s (%s)", neutral(e.Pointer, 80), e.Text, e.Rule)
}

// Is reports whether target is [ErrArguments].
func (e *ArgumentError) Is(target error) bool { return target == ErrArguments }

// Canonical brings the arguments of a call to the form of RFC 8785. The gate judges,
// the permit binds and the tool receives the same bytes. Empty input and white space
// are {}.
//
// It refuses what two readers could read differently, as an [*ArgumentError]:
//   - text that is not one JSON object, or not UTF-8;
//   - a member that is named twice. Names that differ in letter case only are the same:
//     some decoders take them for one field;
//   - a number above 2^53, which float64 would round;
//   - more than [MaxArguments] bytes, or more than [MaxDepth] levels.
func Canonical(args []byte) ([]byte, error) {
	if len(args) > MaxArguments {
		return nil, &ArgumentError{Rule: "too_large", Text: fmt.Sprintf("%d bytes, at most %d", len(args), MaxArguments)}
	}
	if !utf8.Valid(args) {
		return nil, &ArgumentError{Rule: "malformed", Text: "not UTF-8"}
	}
	args = bytes.Trim(args, " \t\r\n")
	if len(args) == 0 {
		return []byte("{}"), nil
	}
	if args[0] != '{' {
		return nil, &ArgumentError{Rule: "not_object", Text: "arguments are one JSON object"}
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if err := checkValue(d, "", 0); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, malformed("")
	}
	out, err := jcs.Transform(args)
	if err != nil { // an unpaired surrogate, for one; its text may quote the arguments
		return nil, malformed("")
	}
	return out, nil
}

func malformed(at string) *ArgumentError {
	return &ArgumentError{Pointer: at, Rule: "malformed", Text: "not one well-formed JSON object"}
}

func checkValue(d *json.Decoder, at string, depth int) error {
	if depth > MaxDepth {
		return &ArgumentError{Rule: "too_deep", Text: fmt.Sprintf("more than %d levels", MaxDepth)}
	}
	t, err := d.Token()
	if err != nil {
		return malformed(at)
	}
	switch t := t.(type) {
	case json.Number:
		// 2^53 + 1 reads as 2^53, so only its own digits are 2^53.
		f, err := strconv.ParseFloat(t.String(), 64)
		if err != nil || math.Abs(f) >= maxInteger && strings.TrimPrefix(t.String(), "-") != "9007199254740992" {
			return &ArgumentError{Pointer: at, Rule: "integer_range", Text: "a number above 2^53; send it as a string"}
		}
	case json.Delim:
		return checkMembers(d, at, depth, t)
	}
	return nil
}

func checkMembers(d *json.Decoder, at string, depth int, open json.Delim) error {
	names := map[string]bool{}
	for i := 0; d.More(); i++ {
		child := strconv.Itoa(i)
		if open == '{' {
			t, err := d.Token()
			name, ok := t.(string)
			if err != nil || !ok {
				return malformed(at)
			}
			folded := memory.FoldMember(name)
			if names[folded] {
				return &ArgumentError{Pointer: join(at, name), Rule: "duplicate_key", Text: "named twice"}
			}
			names[folded], child = true, name
		}
		if err := checkValue(d, join(at, child), depth+1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return malformed(at)
	}
	return nil
}

var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func join(at, name string) string { return at + "/" + escapePointer.Replace(name) }

// unspoken returns the sink arguments of a call that nobody said anything of.
// They came from nowhere: a caller that forgets a sink is not better off than one
// that names it.
func unspoken(c *Contract, args []byte, spoken []Sink) []Sink {
	v, ok := parsed(args)
	if !ok { // Canonical has read them
		return nil
	}
	said := make(map[string]bool, len(spoken))
	for i := range spoken {
		said[spoken[i].Pointer] = true
	}
	sinks, ok := c.given(v)
	var out []Sink
	leaves("", v, func(at string) {
		if !ok || slices.ContainsFunc(sinks, func(p string) bool { return under(at, p) }) {
			if !said[at] {
				out = append(out, Sink{Pointer: at, Source: SourceNowhere})
			}
		}
	})
	return out
}

// parsed reads arguments in canonical form with exact numbers.
func parsed(args []byte) (v any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	return v, d.Decode(&v) == nil
}

// leaves visits the pointers of the scalars of a value, in a fixed order.
func leaves(at string, v any, visit func(pointer string)) {
	switch node := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(node))
		for n := range node {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			leaves(join(at, n), node[n], visit)
		}
	case []any:
		for i, child := range node {
			leaves(join(at, strconv.Itoa(i)), child, visit)
		}
	default:
		visit(at)
	}
}
