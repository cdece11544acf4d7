package keyring

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

// Every file is magic, version, kind, body and a checksum of all of that: a
// SHA-256 in the file of the root key, an HMAC under a key made from the root in
// the others, so that files of two rings are not mixed unseen. Integers are big
// endian, lists ascend and repeat nothing: what parses re-encodes to the same bytes.
const (
	magic      = "HrsyKeys"
	version    = 1
	headerSize = len(magic) + 2
	sumSize    = sha256.Size
	keySize    = 32
	tokenSize  = 16
)

const (
	kindRing  = 'R'
	kindKey   = 'C'
	kindEnded = 'E'
)

type (
	secret [keySize]byte
	token  [tokenSize]byte // stands for one generation of one subject
	summer func(parts ...[]byte) [sumSize]byte
)

func (a token) compare(b token) int { return bytes.Compare(a[:], b[:]) }

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

// ringFile is the file of the root key and the audit keys.
type ringFile struct {
	root  secret
	audit []storedAudit // ids ascend; the last is the current one
}

type storedAudit struct {
	id   uint32
	made int64 // Unix time, seconds
	key  secret
}

const storedAuditSize = 4 + 8 + keySize

func (f *ringFile) encode() []byte {
	body := append([]byte(nil), f.root[:]...)
	body = binary.BigEndian.AppendUint32(body, uint32(len(f.audit)))
	for _, a := range f.audit {
		body = binary.BigEndian.AppendUint32(body, a.id)
		body = binary.BigEndian.AppendUint64(body, uint64(a.made))
		body = append(body, a.key[:]...)
	}
	return pack(kindRing, body, plainSum)
}

func parseRing(data []byte) (*ringFile, error) {
	body, err := unpack(kindRing, data, plainSum)
	if err != nil {
		return nil, err
	}
	if len(body) < keySize {
		return nil, ErrDamaged
	}
	f := &ringFile{root: secret(body)}
	n, body, ok := count(body[keySize:], storedAuditSize)
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
		f.audit = append(f.audit, a)
	}
	return f, nil
}

// keyFile is the file of one data key that is not destroyed. Its body ends in a list
// of tokens, which is always of one.
type keyFile struct {
	id  memory.KeyID
	key secret
	of  token
}

func (f *keyFile) encode(sum summer) []byte {
	body := make([]byte, 0, 8+keySize+4+tokenSize)
	body = binary.BigEndian.AppendUint64(body, uint64(f.id))
	body = append(body, f.key[:]...)
	body = appendTokens(body, []token{f.of})
	return pack(kindKey, body, sum)
}

func parseKey(data []byte, sum summer) (*keyFile, error) {
	body, err := unpack(kindKey, data, sum)
	if err != nil {
		return nil, err
	}
	if len(body) < 8+keySize {
		return nil, ErrDamaged
	}
	id, key := memory.KeyID(binary.BigEndian.Uint64(body)), secret(body[8:])
	of, rest, ok := cutTokens(body[8+keySize:])
	if !ok || len(of) != 1 || len(rest) > 0 || id == 0 {
		return nil, ErrDamaged
	}
	return &keyFile{id, key, of[0]}, nil
}

// ended is all that was ended in the life of a ring. It only ever grows, and its
// slices are never written to once they are in one.
type ended struct {
	retired   []token
	destroyed []memory.KeyID
}

func (e ended) encode(sum summer) []byte {
	body := make([]byte, 0, 8+len(e.retired)*tokenSize+len(e.destroyed)*8)
	body = appendTokens(body, e.retired)
	body = binary.BigEndian.AppendUint32(body, uint32(len(e.destroyed)))
	for _, c := range e.destroyed {
		body = binary.BigEndian.AppendUint64(body, uint64(c))
	}
	return pack(kindEnded, body, sum)
}

func parseEnded(data []byte, sum summer) (e ended, err error) {
	body, err := unpack(kindEnded, data, sum)
	if err != nil {
		return ended{}, err
	}
	retired, body, ok := cutTokens(body)
	if !ok {
		return ended{}, ErrDamaged
	}
	n, body, ok := count(body, 8)
	if !ok || len(body) != n*8 {
		return ended{}, ErrDamaged
	}
	e.retired = retired
	last := memory.KeyID(0)
	for ; len(body) > 0; body = body[8:] {
		c := memory.KeyID(binary.BigEndian.Uint64(body))
		if c <= last {
			return ended{}, ErrDamaged
		}
		last = c
		e.destroyed = append(e.destroyed, c)
	}
	return e, nil
}

func (e ended) isRetired(t token) bool {
	_, ok := slices.BinarySearchFunc(e.retired, t, token.compare)
	return ok
}

func (e ended) isDestroyed(c memory.KeyID) bool {
	_, ok := slices.BinarySearch(e.destroyed, c)
	return ok
}

// union sorts a and b into a new list, each element once.
func union[T any](a, b []T, compare func(T, T) int) []T {
	out := slices.Concat(a, b)
	slices.SortFunc(out, compare)
	return slices.CompactFunc(out, func(x, y T) bool { return compare(x, y) == 0 })
}

func (e ended) with(retired []token, destroyed []memory.KeyID) ended {
	return ended{union(e.retired, retired, token.compare), union(e.destroyed, destroyed, cmp.Compare[memory.KeyID])}
}

// covers reports whether e has all that another has.
func (e ended) covers(other ended) bool {
	both := e.with(other.retired, other.destroyed)
	return len(both.retired) == len(e.retired) && len(both.destroyed) == len(e.destroyed)
}

func appendTokens(body []byte, set []token) []byte {
	body = binary.BigEndian.AppendUint32(body, uint32(len(set)))
	for _, t := range set {
		body = append(body, t[:]...)
	}
	return body
}

func cutTokens(body []byte) (set []token, rest []byte, ok bool) {
	n, body, ok := count(body, tokenSize)
	if !ok {
		return nil, nil, false
	}
	set = make([]token, n)
	for i := range set {
		set[i] = token(body[i*tokenSize:])
		if i > 0 && set[i].compare(set[i-1]) <= 0 {
			return nil, nil, false
		}
	}
	return set, body[n*tokenSize:], true
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
