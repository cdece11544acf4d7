package memory

import (
	"encoding/base32"
	"encoding/binary"
	"strings"
)

// ID names a row for ever. It is "mem_" and 26 characters of 0-9 a-v that sort
// by the time of writing; it is never reused. Two ids are of one row if and only if
// they are the same text (I-9).
type ID string

const idPrefix = "mem_"

// idAlphabet keeps byte order: sorted ids are sorted times.
var idAlphabet = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newID makes a time-ordered name: 56 bits of microseconds past 2020, 16 bits
// of sequence, 56 random bits.
func newID(prefix string, micros int64, seq uint16, random [8]byte) string {
	const epoch2020 = 1_577_836_800_000_000
	t := max(micros-epoch2020, 0)
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(t)<<8|uint64(seq>>8)) // 56 bits of time reach the year 4303
	b[8] = byte(seq)
	copy(b[9:], random[1:])
	return prefix + idAlphabet.EncodeToString(b[:])
}

// packedID is the size of an id without its prefix, in bytes.
const packedID = 16

// idDigits are the letters of the alphabet as numbers; what is no letter is noDigit.
var idDigits = func() (digits [256]byte) {
	for c := range digits {
		digits[c] = noDigit
	}
	for n := range byte(32) {
		digits["0123456789abcdefghijklmnopqrstuv"[n]] = n
	}
	return digits
}()

const noDigit = 0xff

// appendID appends the bytes of an id, and nothing if it is none: every read packs
// each of its ids, so that this is not left to encoding/base32.
func appendID(out []byte, id ID) []byte {
	if !strings.HasPrefix(string(id), idPrefix) || len(id) != len(idPrefix)+26 {
		return out
	}
	start := len(out)
	bits, n := uint32(0), 0
	for i := len(idPrefix); i < len(id); i++ {
		d := idDigits[id[i]]
		if d == noDigit {
			return out[:start]
		}
		bits, n = bits<<5|uint32(d), n+5
		if n >= 8 {
			n -= 8
			out = append(out, byte(bits>>n))
		}
	}
	if bits&3 != 0 {
		return out[:start]
	}
	return out
}

func packIDs(ids []ID) []byte {
	out := make([]byte, 0, packedID*len(ids))
	for _, id := range ids {
		out = appendID(out, id)
	}
	return out
}

func unpackIDs(b []byte) []ID {
	if len(b) < packedID {
		return nil
	}
	ids := make([]ID, 0, len(b)/packedID)
	for ; len(b) >= packedID; b = b[packedID:] {
		ids = append(ids, ID(idPrefix+idAlphabet.EncodeToString(b[:packedID])))
	}
	return ids
}

// Valid reports whether id is one, in its only spelling. The last of its characters
// has two bits that spell nothing, so it is one of 0 4 8 c g k o s: otherwise four
// texts would name one row (I-9).
func (id ID) Valid() bool {
	var b [packedID]byte
	return len(appendID(b[:0], id)) == packedID
}

func (id ID) check(field string) error {
	if !id.Valid() {
		return invalid(field, "malformed", "%q is not a row id", clip(string(id), 40))
	}
	return nil
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n] + "…"
}
