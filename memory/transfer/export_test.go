package transfer

import (
	"bytes"
	"io"
)

// Dump makes a dump of objects as an attacker could: each with the hash that it
// takes. The first is the header; a trailer is not needed.
func Dump(objects ...string) []byte {
	var out []byte
	var prev *sum
	for _, o := range objects {
		line, own := chained([]byte(o), prev)
		out = append(append(out, line...), '\n')
		prev = &own
	}
	return out
}

// Rechain is a dump whose lines were changed, with the hashes that they then take.
func Rechain(dump []byte) []byte {
	var objects []string
	for line := range bytes.Lines(dump) {
		own := bytes.LastIndex(line, []byte(`,"prev":"`))
		if own < 0 { // the header
			own = bytes.LastIndex(line, []byte(`,"hash":"`))
		}
		objects = append(objects, string(line[:own])+"}")
	}
	return Dump(objects...)
}

// Parse and ParseLegacy are what a line goes through.
var (
	Parse       = parse
	ParseLegacy = parseLegacy
)

// Stream is a dump of n rows that is made while it is read.
func Stream(header string, n int, object func(i int) string) io.Reader {
	line, prev := chained([]byte(header), nil)
	s := &stream{rest: append(line, '\n'), n: n, object: object, prev: prev}
	return s
}

type stream struct {
	rest   []byte
	i, n   int
	object func(int) string
	prev   sum
}

func (s *stream) Read(b []byte) (int, error) {
	if len(s.rest) == 0 {
		if s.i == s.n {
			return 0, io.EOF
		}
		s.i++
		var line []byte
		line, s.prev = chained([]byte(s.object(s.i)), &s.prev)
		s.rest = append(line, '\n')
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
