package memory

import (
	"encoding/binary"
	"errors"
	"math"
	"time"
)

// What is stored is written field by field in a fixed order, each string with its
// length before it: one form for one value, so that digests and signatures of it
// mean something, and none of JSON's second keys.

var errWire = errors.New("memory: a stored value does not decode")

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
	b   []byte
	bad bool
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
	if d.bad || len(d.b) > 0 {
		return errWire
	}
	return nil
}
