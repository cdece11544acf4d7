package keyring

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"math"

	"github.com/hearsay-go/hearsay/memory"
)

// The form of the file of a wrapping key, and of the list of audit keys.
//
// A file is magic, version, kind, body and a SHA-256 of all of that. Integers are big
// endian, lists ascend and repeat nothing: what parses re-encodes to the same bytes.
const (
	magic      = "HrsyKeys"
	version    = 1
	headerSize = len(magic) + 2
	sumSize    = sha256.Size
	keySize    = 32
	tokenSize  = 16
)

type (
	secret [keySize]byte
	summer func(parts ...[]byte) [sumSize]byte
)

func (t Token) compare(other Token) int { return bytes.Compare(t[:], other[:]) }

func plainSum(parts ...[]byte) (out [sumSize]byte) {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(out[:0])
	return out
}

func pack(kind byte, body []byte, sum summer) []byte {
	out := make([]byte, 0, headerSize+len(body)+sumSize)
	out = append(append(append(out, magic...), version, kind), body...)
	s := sum(out)
	return append(out, s[:]...)
}

func unpack(kind byte, data []byte, sum summer) (body []byte, err error) {
	start := data[:min(len(data), len(magic))]
	switch {
	case string(start) != magic[:len(start)]:
		return nil, memory.ErrForeign
	case len(data) < headerSize:
		return nil, ErrDamaged
	case data[len(magic)] > version:
		return nil, memory.ErrSchema
	case data[len(magic)] != version, data[len(magic)+1] != kind, len(data) < headerSize+sumSize:
		return nil, ErrDamaged
	}
	end := len(data) - sumSize
	if s := sum(data[:end]); string(s[:]) != string(data[end:]) {
		return nil, ErrDamaged
	}
	return data[headerSize:end], nil
}

type storedAudit struct {
	id   uint32
	made int64 // Unix time, seconds
	key  secret
}

const storedAuditSize = 4 + 8 + keySize

// encodeAudit is a list of audit keys, parseAudit undoes it.
func encodeAudit(body []byte, list []storedAudit) []byte {
	body = binary.BigEndian.AppendUint32(body, uint32(len(list)))
	for _, a := range list {
		body = binary.BigEndian.AppendUint32(body, a.id)
		body = binary.BigEndian.AppendUint64(body, uint64(a.made))
		body = append(body, a.key[:]...)
	}
	return body
}

func parseAudit(body []byte) (list []storedAudit, err error) {
	n, body, ok := count(body, storedAuditSize)
	if !ok || len(body) != n*storedAuditSize {
		return nil, ErrDamaged
	}
	last := uint32(0) // an id is never 0
	for ; len(body) > 0; body = body[storedAuditSize:] {
		a := storedAudit{binary.BigEndian.Uint32(body), int64(binary.BigEndian.Uint64(body[4:])), secret(body[12:])}
		if a.id <= last {
			return nil, ErrDamaged
		}
		last = a.id
		list = append(list, a)
	}
	return list, nil
}

// count cuts the length of a list off and checks that the list can be there.
func count(body []byte, size int) (n int, rest []byte, ok bool) {
	if len(body) < 4 {
		return 0, nil, false
	}
	c := binary.BigEndian.Uint32(body)
	rest = body[4:]
	if c > math.MaxInt32 || int(c) > len(rest)/size {
		return 0, nil, false
	}
	return int(c), rest, true
}
