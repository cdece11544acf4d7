package memory

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// What is stored is written field by field in a fixed order, each string with its
// length before it: one form for one value, so that digests and signatures of it
// mean something, and none of JSON's second keys.

var errWire = errors.New("memory: a stored value does not decode")

// unknownMember is an optional member that this version does not know: a newer one wrote it.
type unknownMember string

func (m unknownMember) Error() string { return "memory: unknown member " + string(m) }

// faulty says of what a decoding fault is: it is damage, or the work of a newer version. It
// leaves other errors alone.
func faulty(err error, what string) error {
	if err == errWire {
		return fmt.Errorf("%w: %s", ErrDamaged, what)
	}
	if m := unknownMember(""); errors.As(err, &m) {
		return fmt.Errorf("%w: a newer version wrote it: the member %s of a %s is unknown here", ErrSchema, string(m), what)
	}
	return err
}

type encoder struct{ b []byte }

func (e *encoder) num(v uint64)    { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) byte(v byte)     { e.b = append(e.b, v) }
func (e *encoder) float(v float64) { e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(v)) }
func (e *encoder) time(t time.Time) {
	e.b = binary.BigEndian.AppendUint64(e.b, uint64(micros(t)))
}

func (e *encoder) str(s string) {
	e.num(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) ids(ids []ID) {
	e.num(uint64(len(ids)))
	e.b = append(e.b, packIDs(ids)...)
}

func (e *encoder) strs(list []string) {
	e.num(uint64(len(list)))
	for _, s := range list {
		e.str(s)
	}
}

// decoder reads what encoder wrote. After a fault it gives zero values, and end
// tells.
type decoder struct {
	b       []byte
	bad     bool
	unknown uint64 // the tag of a member that this version does not know; 0 = there is none
}

func (d *decoder) take(n uint64) []byte {
	if d.bad || n > uint64(len(d.b)) {
		d.bad = true
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *decoder) num() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 || n > 1 && d.b[n-1] == 0 { // one form for one value
		d.bad = true
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) fixed() uint64 {
	if b := d.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func (d *decoder) float() float64  { return math.Float64frombits(d.fixed()) }
func (d *decoder) time() time.Time { return fromMicros(int64(d.fixed())) }
func (d *decoder) str() string     { return string(d.take(d.num())) }

func (d *decoder) strs() (list []string) {
	n := d.num()
	if n > uint64(len(d.b)) { // each takes a byte or more
		d.bad = true
	}
	for i := uint64(0); i < n && !d.bad; i++ {
		list = append(list, d.str())
	}
	return list
}

func (d *decoder) ids() []ID {
	n := d.num()
	if n > uint64(len(d.b))/packedID {
		d.bad = true
		return nil
	}
	return unpackIDs(d.take(n * packedID))
}

// end asks that everything was read and nothing was wrong.
func (d *decoder) end() error {
	switch {
	case d.unknown != 0:
		return unknownMember(fmt.Sprint(d.unknown))
	case d.bad || len(d.b) > 0:
		return errWire
	}
	return nil
}

// members are the optional members of a record: each a tag and a value, with ascending tags,
// and a zero after the last. A member that has the zero value of its type is left out.
//
// One function lists the members of a kind of record, in the order of their tags, for both
// directions. A new member takes a new tag, and no other [Form]: a version that does not know
// the tag refuses the record. A tag is never used again for something else.
type members struct {
	e    *encoder // it writes; nil = it reads
	d    *decoder
	next uint64 // the tag that d is at
}

func (e *encoder) members(list func(m *members)) {
	list(&members{e: e})
	e.num(0)
}

func (d *decoder) members(list func(m *members)) {
	m := members{d: d, next: d.num()}
	list(&m)
	if !d.bad && m.next != 0 {
		d.unknown, d.bad = m.next, true
	}
}

// member writes or reads one member. absent reports whether a value is the zero value.
func member[T any](m *members, tag uint64, v *T, absent func(T) bool, put func(*encoder, T), get func(*decoder) T) {
	if m.e != nil {
		if !absent(*v) {
			m.e.num(tag)
			put(m.e, *v)
		}
		return
	}
	if m.next != tag || m.d.bad {
		return
	}
	*v = get(m.d)
	m.next = m.d.num()
	if absent(*v) || m.next != 0 && m.next <= tag { // one form for one value
		m.d.bad = true
	}
}

func zero[T comparable](v T) bool { return v == *new(T) }
func empty[T any](v []T) bool     { return len(v) == 0 }

func (m *members) str(tag uint64, v *string) {
	member(m, tag, v, zero, (*encoder).str, (*decoder).str)
}

func (m *members) id(tag uint64, v *ID) {
	member(m, tag, v, zero, func(e *encoder, id ID) { e.str(string(id)) }, func(d *decoder) ID { return ID(d.str()) })
}

func (m *members) ids(tag uint64, v *[]ID) {
	member(m, tag, v, empty, (*encoder).ids, (*decoder).ids)
}

func (m *members) strs(tag uint64, v *[]string) {
	member(m, tag, v, empty, (*encoder).strs, (*decoder).strs)
}

func (m *members) float(tag uint64, v *float64) {
	member(m, tag, v, zero, (*encoder).float, (*decoder).float)
}

func (m *members) time(tag uint64, v *time.Time) {
	member(m, tag, v, func(t time.Time) bool { return micros(t) == 0 }, (*encoder).time, (*decoder).time)
}

func octet[T ~uint8](m *members, tag uint64, v *T) {
	member(m, tag, v, zero, func(e *encoder, v T) { e.byte(byte(v)) }, func(d *decoder) T { return T(d.byte()) })
}

// toJSON writes a record that is stored as JSON. What is JSON in it stays byte for byte what it
// was, if it is compact: [json.Marshal] writes "&" and "<" otherwise, and a digest of it would
// not hold.
func toJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// fromJSON reads a record that is stored as JSON. The names of its members are their tags:
// one that this version does not know is refused.
func fromJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return nil
		}
	} else if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return unknownMember(name)
	}
	return errWire
}
