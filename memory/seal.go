package memory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Token is a keyed digest: it stands for an identity inside one store, and says
// nothing to who has not its keys.
type Token [16]byte

// String returns the token in hexadecimal.
func (t Token) String() string { return hex.EncodeToString(t[:]) }

// scope derives the keys of one tenant and namespace from the secrets of the
// store, so that equal words of two tenants are blinded to different tokens.
type scope struct {
	tenant, namespace string
	index             [32]byte
}

func newScope(root [32]byte, tenant, namespace string) scope {
	return scope{tenant: tenant, namespace: namespace, index: derive(root, "index/1", tenant, namespace)}
}

func derive(secret [32]byte, domain string, parts ...string) [32]byte {
	mac := hmac.New(sha256.New, secret[:])
	k := digest(domain, parts...)
	mac.Write(k[:])
	return [32]byte(mac.Sum(nil))
}

// blind returns the token of a value of some kind.
func (s *scope) blind(kind, value string) Token {
	mac := hmac.New(sha256.New, s.index[:])
	mac.Write([]byte(kind))
	mac.Write([]byte{0})
	mac.Write([]byte(value))
	var sum [sha256.Size]byte
	return Token(mac.Sum(sum[:0])[:16])
}

func (s *scope) claim(k Key) Token { return s.blind("claim", string(k[:])) }

// group blinds an independence group, folded as [Sufficient] compares it.
func (s *scope) group(g string) Token { return s.folded(fold(g)) }

func (s *scope) folded(g string) Token { return s.blind("group", g) }

// subject names a data subject to the keys: one of this scope, and of no other.
// Erasing somebody here destroys nothing that another tenant has of a namesake.
func (s *scope) subject(canonical string) string {
	e := encoder{}
	e.str(s.tenant)
	e.str(s.namespace)
	e.str(canonical)
	return string(e.b)
}

// associated binds a sealed value to its place.
func (s *scope) associated(key string, revision uint64) []byte {
	e := encoder{b: make([]byte, 0, 64)}
	e.str("hearsay/sealed/1")
	e.str(s.tenant)
	e.str(s.namespace)
	e.str(key)
	e.num(revision)
	return e.b
}

// seal encrypts a value under the data key of a class, for one revision of one
// key. The class goes with it.
func (s *Store) seal(ctx context.Context, c Class, key string, revision uint64, plain []byte) ([]byte, error) {
	sealed, err := s.keys.Seal(ctx, c, plain, s.scope.associated(key, revision))
	if err != nil {
		return nil, fmt.Errorf("seal %s: %w", key, err)
	}
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(sealed)), uint64(c)), sealed...), nil
}

// unseal undoes seal.
func (s *Store) unseal(ctx context.Context, key string, revision uint64, b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%w: %s is cut short", ErrStore, key)
	}
	plain, err := s.keys.Open(ctx, Class(binary.BigEndian.Uint64(b)), b[8:], s.scope.associated(key, revision))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return plain, nil
}

// classMark is the object that exists once a class is being erased. What is sealed
// under a class is written in an atom that checks that it does not: so nothing
// escapes an erasure that began between the reading of a row and the writing of
// what was made from it.
func classMark(c Class) string { return classKey.named(c.String()) }

func termClass(c Class) string {
	return "k" + string(binary.BigEndian.AppendUint64(nil, uint64(c)))
}
