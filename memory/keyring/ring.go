// Package keyring is a placeholder until its own lands.
package keyring

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

type Ring struct {
	mu      sync.Mutex
	derived bool
	root    [32]byte
	audit   [32]byte
	classes map[memory.Class]*class
	byset   map[string]memory.Class
	gen     map[string]int
}
type class struct {
	set     []string
	aead    *subtle.AESGCM
	retired bool
}

func Ephemeral() *Ring {
	r := &Ring{classes: map[memory.Class]*class{}, byset: map[string]memory.Class{}, gen: map[string]int{}}
	rand.Read(r.root[:])
	rand.Read(r.audit[:])
	return r
}
func (r *Ring) Root() [32]byte                      { return r.root }
func (r *Ring) Audit() (uint32, [32]byte)           { return 1, r.audit }
func (r *Ring) AuditKey(id uint32) ([32]byte, bool) { return r.audit, id == 1 }
func (r *Ring) Class(_ context.Context, parents []memory.Class, subjects []string) (memory.Class, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set := map[string]bool{}
	for _, p := range parents {
		c := r.classes[p]
		if c == nil {
			return 0, memory.ErrKey
		}
		if c.retired || c.aead == nil {
			return 0, memory.ErrErased
		}
		for _, t := range c.set {
			set[t] = true
		}
	}
	for _, s := range subjects {
		set[fmt.Sprintf("%d/%s", r.gen[s], s)] = true
	}
	var list []string
	for t := range set {
		list = append(list, t)
	}
	sort.Strings(list)
	k := strings.Join(list, "\x00")
	if id, ok := r.byset[k]; ok {
		return id, nil
	}
	key := make([]byte, 32)
	rand.Read(key)
	sum := sha256.Sum256(append(r.root[:], k...))
	if r.derived {
		copy(key, sum[:])
	}
	a, err := subtle.NewAESGCM(key)
	if err != nil {
		return 0, err
	}
	id := memory.Class(binary.BigEndian.Uint64(sum[:]))
	r.classes[id], r.byset[k] = &class{set: list, aead: a}, id
	return id, nil
}
func (r *Ring) get(id memory.Class) (*subtle.AESGCM, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.classes[id]
	if c == nil {
		return nil, memory.ErrKey
	}
	if c.aead == nil {
		return nil, memory.ErrErased
	}
	return c.aead, nil
}
func (r *Ring) Seal(_ context.Context, id memory.Class, p, ad []byte) ([]byte, error) {
	a, err := r.get(id)
	if err != nil {
		return nil, err
	}
	return a.Encrypt(p, ad)
}
func (r *Ring) Open(_ context.Context, id memory.Class, p, ad []byte) ([]byte, error) {
	a, err := r.get(id)
	if err != nil {
		return nil, err
	}
	out, err := a.Decrypt(p, ad)
	if err != nil {
		return nil, memory.ErrKey
	}
	return out, nil
}
func (r *Ring) Retire(ctx context.Context, s string) ([]memory.Class, error) {
	out, err := r.Subject(ctx, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range out {
		r.classes[id].retired = true
	}
	r.gen[s]++
	return out, err
}
func (r *Ring) Subject(_ context.Context, s string) ([]memory.Class, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []memory.Class
	for id, c := range r.classes {
		if c.aead != nil && slices.ContainsFunc(c.set, func(t string) bool { return strings.HasSuffix(t, "/"+s) }) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}
func (r *Ring) Destroy(_ context.Context, ids ...memory.Class) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if c := r.classes[id]; c != nil {
			c.aead = nil
		}
	}
	return nil
}
