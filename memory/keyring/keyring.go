// Package keyring keeps the keys of a store in a folder: the secret that the store
// is blinded with, the keys of its audit, and one data key for each set of data
// subjects. Who has a copy of the store and not of the keyring can read nothing in
// it and change nothing unseen.
//
//	keys, err := keyring.OpenOrCreate("agent.keys", nil)
//
// Keep it apart from the store and from the store's backups: what is erased is
// erased by destroying data keys, and a key in a backup is not destroyed. Losing it
// is losing what the store says.
//
// Several processes on one machine may use one folder at once. The names of data
// subjects are in none of its files, only keyed digests of them.
package keyring

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"

	"github.com/hearsay-go/hearsay/memory"
)

// secret is 32 bytes that print as nothing.
type secret [32]byte

// String hides the secret; so do GoString and MarshalText.
func (secret) String() string               { return "(secret)" }
func (secret) GoString() string             { return "(secret)" }
func (secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

func newSecret() (s secret) {
	rand.Read(s[:]) // never fails (crypto/rand)
	return s
}

// Ring is the keys of a store; it implements [memory.Keys]. It is safe for
// concurrent use.
type Ring struct {
	root   secret
	tokens secret  // of subjects
	names  secret  // of classes
	files  *folder // nil: nothing outlives the process

	mu      sync.RWMutex
	audit   []auditKey // the current one last
	classes map[memory.Class]*class
	known   map[string]memory.Class // by what Class was asked for
	changes int64                   // of the folder, when the caches were filled
	looked  time.Time
}

var _ memory.Keys = (*Ring)(nil)

type auditKey struct {
	id   uint32
	key  secret
	made time.Time
}

// token stands for one generation of a subject.
type token [16]byte

// class is a set of subjects and its data key.
type class struct {
	set     []token // sorted
	key     secret
	aead    *subtle.AESGCM // nil once the key is destroyed
	retired bool
}

func (c *class) has(t token) bool {
	_, ok := slices.BinarySearchFunc(c.set, t, compareTokens)
	return ok
}

func compareTokens(a, b token) int { return slices.Compare(a[:], b[:]) }

// Ephemeral returns keys that end with the process: for tests and demonstrations.
// What a store was written with them nobody can read afterwards.
func Ephemeral() *Ring {
	return newRing(newSecret(), []auditKey{{id: 1, key: newSecret(), made: time.Now()}}, nil)
}

func newRing(root secret, audit []auditKey, files *folder) *Ring {
	r := &Ring{root: root, audit: audit, files: files, classes: map[memory.Class]*class{}, known: map[string]memory.Class{}}
	r.tokens, r.names = mac(root, "subjects/1"), mac(root, "classes/1")
	return r
}

func mac(key secret, parts ...string) (sum secret) {
	h := hmac.New(sha256.New, key[:])
	var n [8]byte
	for _, p := range parts {
		binary.BigEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}

// Root returns the secret that the store is blinded with.
func (r *Ring) Root() [32]byte { return r.root }

// Audit returns the current audit key and its id.
func (r *Ring) Audit() (id uint32, key [32]byte) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k := r.audit[len(r.audit)-1]
	return k.id, k.key
}

// AuditKey returns the audit key with an id, current or retired.
func (r *Ring) AuditKey(id uint32) (key [32]byte, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, k := range r.audit {
		if k.id == id {
			return k.key, true
		}
	}
	return key, false
}

// token is the digest of a subject in one of its generations.
func (r *Ring) token(subject string, generation uint64) (t token) {
	m := mac(r.tokens, subject, string(binary.BigEndian.AppendUint64(nil, generation)))
	copy(t[:], m[:])
	return t
}

// Class returns the class of the subjects of some classes and some more, making its
// data key if it is new. What another process retired or destroyed before the call
// is known to it.
func (r *Ring) Class(ctx context.Context, parents []memory.Class, subjects []string) (memory.Class, error) {
	if err := r.fresh(0); err != nil {
		return 0, err
	}
	ask := question(parents, subjects)
	r.mu.RLock()
	id, ok := r.known[ask]
	r.mu.RUnlock()
	if ok {
		return id, nil
	}
	if slices.Contains(subjects, "") {
		return 0, errors.New("keyring: a subject has no name")
	}
	// Under the lock of the folder nothing is retired between the look at the parents
	// and the making of their child.
	return locked(ctx, r, func() (memory.Class, error) {
		set, err := r.union(parents, subjects)
		if err != nil {
			return 0, err
		}
		id := r.nameOf(set)
		c, err := r.load(id)
		switch {
		case errors.Is(err, memory.ErrKey) && !errors.Is(err, ErrDamaged):
			c, err = r.make(id, set)
			if err != nil {
				return 0, err
			}
		case err != nil:
			return 0, err
		case !slices.Equal(c.set, set):
			return 0, fmt.Errorf("%w: class %s is of another set of subjects", ErrDamaged, id)
		case c.aead == nil || c.retired:
			return 0, memory.ErrErased
		}
		r.mu.Lock()
		if len(r.known) >= maxKnown {
			clear(r.known)
		}
		r.known[ask] = id
		r.mu.Unlock()
		return id, nil
	})
}

// maxKnown bounds the cache of questions.
const maxKnown = 1 << 16

func question(parents []memory.Class, subjects []string) string {
	parents = slices.Compact(slices.Sorted(slices.Values(parents)))
	subjects = slices.Compact(slices.Sorted(slices.Values(subjects)))
	var b strings.Builder
	for _, p := range parents {
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(p)))
	}
	for _, s := range subjects {
		b.WriteByte(0)
		b.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		b.WriteString(s)
	}
	return b.String()
}

func (r *Ring) union(parents []memory.Class, subjects []string) ([]token, error) {
	var set []token
	for _, p := range parents {
		c, err := r.load(p)
		if err != nil {
			return nil, err
		}
		if c.retired || c.aead == nil {
			return nil, memory.ErrErased
		}
		set = append(set, c.set...)
	}
	for _, s := range subjects {
		generation, err := r.generation(s)
		if err != nil {
			return nil, err
		}
		set = append(set, r.token(s, generation))
	}
	slices.SortFunc(set, compareTokens)
	return slices.Compact(set), nil
}

func (r *Ring) nameOf(set []token) memory.Class {
	parts := make([]string, len(set))
	for i := range set {
		parts[i] = string(set[i][:])
	}
	m := mac(r.names, parts...)
	return max(memory.Class(binary.BigEndian.Uint64(m[:])), 1) // 0 is no class
}

func (r *Ring) make(id memory.Class, set []token) (*class, error) {
	c := &class{set: set, key: newSecret()}
	if r.files != nil {
		if err := r.files.putClass(id, c); err != nil {
			return nil, err
		}
	}
	if err := c.arm(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.classes[id] = c
	r.mu.Unlock()
	return c, nil
}

// arm makes the cipher of a class: AES-256-GCM as Tink has it, 28 bytes more than
// the plaintext.
func (c *class) arm() (err error) {
	c.aead, err = subtle.NewAESGCM(c.key[:])
	return err
}

// load returns a class, from its file if it is not at hand.
func (r *Ring) load(id memory.Class) (*class, error) {
	r.mu.RLock()
	c := r.classes[id]
	r.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	if r.files == nil {
		return nil, fmt.Errorf("%w: no class %s", memory.ErrKey, id)
	}
	c, err := r.files.getClass(id)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.classes[id] = c
	r.mu.Unlock()
	return c, nil
}

// staleness is how long a process may go on opening what another one destroyed.
const staleness = 100 * time.Millisecond

// Seal encrypts and authenticates plaintext under the key of a class.
func (r *Ring) Seal(_ context.Context, id memory.Class, plaintext, associated []byte) ([]byte, error) {
	c, err := r.usable(id)
	if err != nil {
		return nil, err
	}
	return c.Encrypt(plaintext, associated)
}

// Open undoes Seal. A key that another process destroyed is used no longer than
// 100 milliseconds after.
func (r *Ring) Open(_ context.Context, id memory.Class, ciphertext, associated []byte) ([]byte, error) {
	c, err := r.usable(id)
	if err != nil {
		return nil, err
	}
	plain, err := c.Decrypt(ciphertext, associated)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not of class %s, or was changed", memory.ErrKey, id)
	}
	if plain == nil {
		plain = []byte{}
	}
	return plain, nil
}

func (r *Ring) usable(id memory.Class) (*subtle.AESGCM, error) {
	if err := r.fresh(staleness); err != nil {
		return nil, err
	}
	c, err := r.load(id)
	if err != nil {
		return nil, err
	}
	if c.aead == nil {
		return nil, memory.ErrErased
	}
	return c.aead, nil
}

// fresh drops what is cached if another process changed the folder. It looks at
// most once in a time; 0 = now.
func (r *Ring) fresh(every time.Duration) error {
	if r.files == nil {
		return nil
	}
	if every > 0 {
		r.mu.RLock()
		recent := time.Since(r.looked) < every
		r.mu.RUnlock()
		if recent {
			return nil
		}
	}
	n, err := r.files.changed()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n != r.changes {
		clear(r.classes)
		clear(r.known)
		r.changes = n
	}
	r.looked = time.Now()
	return nil
}

// locked runs work while no other process changes the folder, and no other
// goroutine this ring's.
func locked[T any](ctx context.Context, r *Ring, work func() (T, error)) (v T, err error) {
	if r.files == nil {
		ephemeral.Lock()
		defer ephemeral.Unlock()
		return work()
	}
	release, err := r.files.lock(ctx)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := r.fresh(0); err != nil {
		return v, err
	}
	return work()
}

// ephemeral stands for the folder's lock where there is none.
var ephemeral sync.Mutex

// generation is how often a subject was retired.
func (r *Ring) generation(subject string) (uint64, error) {
	if r.files == nil {
		r.mu.RLock()
		defer r.mu.RUnlock()
		var n uint64
		for {
			if _, retired := r.known[retiredAs(r.token(subject, n))]; !retired {
				return n, nil
			}
			n++
		}
	}
	return r.files.generation(r.token(subject, 0))
}

// retiredAs is the cache key that marks a token retired where there is no folder.
func retiredAs(t token) string { return "retired " + string(t[:]) }

// Retire ends the present classes of a subject and returns them.
func (r *Ring) Retire(ctx context.Context, subject string) ([]memory.Class, error) {
	return locked(ctx, r, func() ([]memory.Class, error) {
		generation, err := r.generation(subject)
		if err != nil {
			return nil, err
		}
		old, err := r.holding(subject, generation) // of earlier generations, not destroyed yet
		if err != nil {
			return nil, err
		}
		if len(old) == 0 {
			if old, err = r.holding(subject, generation+1); err != nil || len(old) == 0 {
				return nil, err
			}
			// From here on what is written about the subject is of a new generation.
			if err := r.setGeneration(subject, generation); err != nil {
				return nil, err
			}
		}
		for _, id := range old {
			c, err := r.load(id)
			if err != nil {
				return nil, err
			}
			if c.retired {
				continue
			}
			changed := *c
			changed.retired = true
			if err := r.replace(id, &changed); err != nil {
				return nil, err
			}
		}
		return old, r.bump()
	})
}

func (r *Ring) setGeneration(subject string, from uint64) error {
	if r.files != nil {
		return r.files.setGeneration(r.token(subject, 0), from+1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for ask := range r.known {
		if !strings.HasPrefix(ask, "retired ") {
			delete(r.known, ask)
		}
	}
	r.known[retiredAs(r.token(subject, from))] = 1
	return nil
}

// replace sets a class that is there.
func (r *Ring) replace(id memory.Class, c *class) error {
	if r.files != nil {
		if err := r.files.replaceClass(id, c); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.classes[id] = c
	for ask, known := range r.known {
		if known == id && !strings.HasPrefix(ask, "retired ") {
			delete(r.known, ask)
		}
	}
	return nil
}

// bump tells other processes that the folder changed.
func (r *Ring) bump() error {
	if r.files == nil {
		return nil
	}
	if err := r.files.bump(); err != nil {
		return err
	}
	return r.fresh(0)
}

// holding lists the classes, not destroyed, that have a part in a subject in one of
// its generations below a number.
func (r *Ring) holding(subject string, below uint64) ([]memory.Class, error) {
	tokens := make([]token, 0, below)
	for g := range below {
		tokens = append(tokens, r.token(subject, g))
	}
	ids, err := r.all()
	if err != nil {
		return nil, err
	}
	var out []memory.Class
	for _, id := range ids {
		c, err := r.load(id)
		if err != nil {
			return nil, err
		}
		if c.aead != nil && slices.ContainsFunc(tokens, c.has) {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (r *Ring) all() ([]memory.Class, error) {
	if r.files != nil {
		return r.files.listClasses()
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	ids := make([]memory.Class, 0, len(r.classes))
	for id := range r.classes {
		ids = append(ids, id)
	}
	return ids, nil
}

// Subject lists the classes of a subject that are not destroyed, retired or not.
func (r *Ring) Subject(ctx context.Context, subject string) ([]memory.Class, error) {
	return locked(ctx, r, func() ([]memory.Class, error) {
		generation, err := r.generation(subject)
		if err != nil {
			return nil, err
		}
		return r.holding(subject, generation+1)
	})
}

// Destroy makes the data keys of classes unrecoverable: the bytes of each are
// overwritten where they lie, and the file is replaced by one that says so. What a
// disk or file system keeps of overwritten blocks is out of its reach. It returns
// once no process that asks anew gets the keys; a process that has one uses it no
// longer than 100 milliseconds.
func (r *Ring) Destroy(ctx context.Context, ids ...memory.Class) error {
	_, err := locked(ctx, r, func() (struct{}, error) {
		for _, id := range ids {
			c, err := r.load(id)
			if err != nil {
				return struct{}{}, err
			}
			if c.aead == nil {
				continue
			}
			if r.files != nil {
				if err := r.files.wipe(id); err != nil {
					return struct{}{}, err
				}
			}
			if err := r.replace(id, &class{set: c.set, retired: true}); err != nil {
				return struct{}{}, err
			}
			clear(c.key[:])
		}
		return struct{}{}, r.bump()
	})
	return err
}

// Rotate makes a new audit key the current one. The old ones stay, so that what
// they authenticated can be verified. It returns the id of the new key.
func (r *Ring) Rotate(ctx context.Context) (id uint32, err error) {
	return locked(ctx, r, func() (uint32, error) {
		r.mu.RLock()
		keys := slices.Clone(r.audit)
		r.mu.RUnlock()
		if r.files != nil {
			stored, err := r.files.read()
			if err != nil {
				return 0, err
			}
			if len(stored.audit) == 0 {
				return 0, fmt.Errorf("%w: the audit keys are not in the folder", ErrAuditKeys)
			}
			keys = stored.audit // another process may have rotated
		}
		next := auditKey{id: 1, key: newSecret(), made: time.Now().UTC().Truncate(time.Second)}
		for _, k := range keys {
			next.id = max(next.id, k.id+1)
		}
		keys = append(keys, next)
		if r.files != nil {
			if err := r.files.write(ringFile{root: r.root, audit: keys}); err != nil {
				return 0, err
			}
		}
		r.mu.Lock()
		r.audit = keys
		r.mu.Unlock()
		return next.id, nil
	})
}

// ErrAuditKeys: audit keys that are given do not parse, or are not where they are
// wanted.
var ErrAuditKeys = errors.New("keyring: audit keys")

// AuditKeys are audit keys that a program has from elsewhere than the folder. They
// print as nothing.
type AuditKeys struct{ list []auditKey }

// String hides the keys.
func (AuditKeys) String() string { return "(secret)" }

// GoString hides the keys.
func (AuditKeys) GoString() string { return "(secret)" }

// ParseAuditKeys reads audit keys as they are given in an environment variable:
// "2:HEX,1:HEX", 64 hexadecimal digits each, the current one first.
func ParseAuditKeys(text string) (AuditKeys, error) {
	var out AuditKeys
	for i, part := range strings.Split(text, ",") {
		number, digits, ok := strings.Cut(part, ":")
		var id uint32
		if _, err := fmt.Sscanf(number, "%d", &id); !ok || err != nil || id == 0 || fmt.Sprint(id) != number {
			return AuditKeys{}, fmt.Errorf("%w: the %d. is not ID:HEX with an id from 1", ErrAuditKeys, i+1)
		}
		key, err := hex.DecodeString(digits)
		if err != nil || len(key) != len(secret{}) {
			return AuditKeys{}, fmt.Errorf("%w: the %d. is not 64 hexadecimal digits", ErrAuditKeys, i+1)
		}
		if slices.ContainsFunc(out.list, func(k auditKey) bool { return k.id == id }) {
			return AuditKeys{}, fmt.Errorf("%w: id %d is given twice", ErrAuditKeys, id)
		}
		out.list = append(out.list, auditKey{id: id, key: secret(key)})
	}
	slices.Reverse(out.list)
	return out, nil
}
