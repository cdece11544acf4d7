package memory

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"sync"
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
	index             *keyed
	revoked           cipher.AEAD       // of the revocations
	met               map[string]string // terms by letter and value, for who makes the same ones again; nil = not kept
}

func newScope(root [32]byte, tenant, namespace string) scope {
	return scope{
		tenant: tenant, namespace: namespace,
		index:   newKeyed(derive(root, "index/1", tenant, namespace)),
		revoked: cipherOf(derive(root, "revocations/1", tenant, namespace)),
	}
}

// cipherOf is AES-256-GCM under a key.
func cipherOf(key [32]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // not with 32 bytes
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // not with AES
	}
	return aead
}

// keyed computes HMACs under one key. The states of it, with the key worked in, are
// used again: half of the cost of a short message is the key.
type keyed struct{ pool sync.Pool }

type keyedState struct {
	hash.Hash
	b   []byte // what is hashed: a string as bytes would be an allocation of its own
	sum [sha256.Size]byte
}

func newKeyed(key [32]byte) *keyed {
	return &keyed{sync.Pool{New: func() any { return &keyedState{Hash: hmac.New(sha256.New, key[:])} }}}
}

// sum is the HMAC of what fill appends.
func (k *keyed) sum(fill func(b []byte) []byte) [sha256.Size]byte {
	h := k.pool.Get().(*keyedState)
	defer k.pool.Put(h)
	h.b = fill(h.b[:0])
	h.Reset()
	h.Write(h.b)
	h.Sum(h.sum[:0])
	if cap(h.b) > 1<<16 {
		h.b = nil
	}
	return h.sum
}

func derive(secret [32]byte, domain string, parts ...string) [32]byte {
	mac := hmac.New(sha256.New, secret[:])
	k := digest(domain, parts...)
	mac.Write(k[:])
	return [32]byte(mac.Sum(nil))
}

// remembering is the scope, for one goroutine, with a memory of the terms it makes: most
// words of a text were in another one.
func (s scope) remembering() scope {
	s.met = map[string]string{}
	return s
}

// blind returns the token of a value of some kind.
func (s *scope) blind(kind, value string) Token {
	sum := s.index.sum(func(b []byte) []byte { return append(append(append(b, kind...), 0), value...) })
	return Token(sum[:16])
}

func (s *scope) claim(k Key) Token { return s.blind("claim", string(k[:])) }

// group blinds an independence group, folded as [Sufficient] compares it.
func (s *scope) group(g string) Token { return s.folded(fold(g)) }

func (s *scope) folded(g string) Token { return s.blind("group", g) }

// subject names a data subject to the keys: one exact name of this scope, and of no
// other. Erasing somebody here destroys nothing that another tenant has of a namesake.
// Nobody has the empty name.
func (s *scope) subject(name string) string {
	e := encoder{}
	e.str(s.tenant)
	e.str(s.namespace)
	e.str(ExactName(name))
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

// unseal opens what a transaction sealed for one revision of one key.
func (s *Store) unseal(ctx context.Context, key string, revision uint64, b []byte) ([]byte, error) {
	if len(b) < 8 {
		return nil, fmt.Errorf("%w: %s is cut short", ErrDamaged, KeyText(key))
	}
	c, err := s.sealing(ctx, Class(binary.BigEndian.Uint64(b)))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", KeyText(key), err)
	}
	plain, err := c.open(b[8:], s.scope.associated(key, revision))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", KeyText(key), err)
	}
	return plain, nil
}
