package keyring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

// Staleness is how long after a Destroy has returned another process may still
// seal and open with the key, and how long after a Rotate it may still use the
// audit key of before.
const Staleness = 10 * time.Millisecond

// Overhead is how many bytes longer than its plaintext a ciphertext is.
const Overhead = subtle.AESGCMIVSize + subtle.AESGCMTagSize

// Options of [Open] and [Create]. Every zero field has a usable default.
type Options struct {
	// AuditKeys are the audit keys, if the program keeps them elsewhere than in
	// the folder ([ParseAuditKeys]); the first is the current one. [Create] then
	// writes none, and each Open must be given them. Those of a folder that has
	// some still verify.
	AuditKeys []AuditKey
	// StorePath is the path of the store that the keys are for. It is only looked
	// at by [Ring.Findings].
	StorePath string
}

// Ring is a [memory.Keys]. It is safe for concurrent use, and several, in one
// process or in many, may use one folder. It holds no file open and needs no
// closing. It prints as its folder.
//
// A data key that was used stays in memory until it is destroyed.
type Ring struct {
	s func() *state // fmt, with one verb or another, prints what is behind a pointer
}

var _ memory.Keys = (*Ring)(nil)

// Ephemeral makes a ring of random keys that are in no file and end with the
// process: for tests and demonstrations. What is sealed under it, nobody opens
// after that.
func Ephemeral() *Ring {
	f := newRingFile(true)
	s := newState(nil, f.root, Options{})
	s.setView(ended{}, nil)
	keys, err := newAuditKeys(nil, f.audit)
	if err != nil {
		panic(err) // a file of ours has a key
	}
	s.audit.Store(&auditView{auditKeys: keys})
	return newRing(s)
}

// Create makes a ring of new keys in a folder, which must be empty or not be
// there; the folders above it are made too. Anything in it gives [ErrExists]:
// nothing is ever overwritten. A folder that others may use gives [ErrExposed].
func Create(dir string, o *Options) (*Ring, error) {
	f, err := at(dir)
	if err != nil {
		return nil, err
	}
	return create(f, o)
}

func create(f *folder, o *Options) (*Ring, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if err := f.lay(); err != nil {
		return nil, err
	}
	unlock, err := f.lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := f.vacant(); err != nil {
		return nil, err
	}
	content := newRingFile(len(options.AuditKeys) == 0)
	s := newState(f, content.root, options)
	if _, err := newAuditKeys(options.AuditKeys, content.audit); err != nil {
		return nil, err
	}
	if err := f.makeKeys(); err != nil {
		return nil, err
	}
	if err := f.replace(f.path(fileEnded), ended{}.encode(s.sums.sum)); err != nil {
		return nil, err
	}
	// The last file: with it, and not before, there is a ring.
	if err := f.replace(f.path(fileRing), content.encode()); err != nil {
		return nil, err
	}
	if err := f.syncDir(filepath.Dir(f.dir)); err != nil {
		return nil, err
	}
	return load(f, options)
}

// Open opens the ring in a folder.
//
// A folder without one gives [ErrNotFound]; one that others than its owner may
// use, [ErrExposed]; a file that is not as it was written, [ErrDamaged],
// [memory.ErrForeign] or [memory.ErrSchema]; each in a [*FileError] that names the
// path. Nothing is changed by that. Open finishes what a process that was killed
// while it destroyed a key had begun.
func Open(dir string, o *Options) (*Ring, error) {
	f, err := at(dir)
	if err != nil {
		return nil, err
	}
	return open(f, o)
}

func open(f *folder, o *Options) (*Ring, error) {
	var options Options
	if o != nil {
		options = *o
	}
	_, err := f.stat(f.path(fileRing))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{Path: f.dir, Err: ErrNotFound, Fix: "make one (Create or OpenOrCreate); if there was one, bring it back: without its keys the store says nothing"}
	}
	if err != nil {
		return nil, err
	}
	// Refused before anything is touched, the lock included.
	if err := f.private(f.dir, "700"); err != nil {
		return nil, err
	}
	unlock, err := f.lock(context.Background())
	if err != nil {
		return nil, err
	}
	defer unlock()
	return load(f, options)
}

// OpenOrCreate opens the ring in a folder, and makes it if there is none. Use it
// for a store and a ring that are made together: a program that makes new keys
// for a store that had others can read nothing of it.
func OpenOrCreate(dir string, o *Options) (*Ring, error) {
	r, err := Open(dir, o)
	if errors.Is(err, ErrNotFound) {
		r, err = Create(dir, o)
		if errors.Is(err, ErrExists) { // by another process, perhaps
			r, err = Open(dir, o)
		}
	}
	return r, err
}

func at(dir string) (*folder, error) {
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return nil, &FileError{Path: dir, Err: ErrNotFound, Fix: "give the path of a folder"}
	}
	return &folder{dir: abs}, nil
}

func newRing(s *state) *Ring { return &Ring{func() *state { return s }} }

// String returns the folder.
func (k Ring) String() string {
	if k.s().disk == nil {
		return "keyring (ephemeral)"
	}
	return "keyring " + k.s().disk.dir
}

// Format writes what String returns, whatever the verb.
func (k Ring) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue returns the folder.
func (k Ring) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns the folder: keys are not written this way.
func (k Ring) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Root returns the root key.
func (k *Ring) Root() [32]byte { return k.s().root }

// Audit returns the current audit key and its id. After a Rotate in another
// process it is the one of before for up to [Staleness].
func (k *Ring) Audit() (id uint32, key [32]byte) {
	a := k.s().auditNow(Staleness).current
	return a.id, *a.key()
}

// AuditKey returns the audit key with an id, current or not.
func (k *Ring) AuditKey(id uint32) (key [32]byte, ok bool) {
	a, ok := k.s().audit.Load().byID[id]
	if !ok {
		a, ok = k.s().auditNow(Staleness).byID[id]
	}
	if !ok {
		return key, false
	}
	return *a.key(), true
}

// Rotate makes a new audit key and makes it the current one; the others stay, to
// verify what was written with them. It returns the id of the new one. A ring
// whose audit keys the program gave cannot rotate them: it gives [ErrAuditKeys].
func (k *Ring) Rotate(ctx context.Context) (id uint32, err error) {
	s := k.s()
	if len(s.options.AuditKeys) > 0 {
		return 0, fmt.Errorf("%w: these are given by the program: put a new one in front of them", ErrAuditKeys)
	}
	err = s.locked(ctx, func() error {
		if s.disk != nil {
			if err := s.reloadAudit(); err != nil {
				return err
			}
		}
		keys := s.audit.Load()
		last := keys.lastID()
		if last == math.MaxUint32 {
			return fmt.Errorf("%w: no id is left", ErrAuditKeys)
		}
		content := &ringFile{root: s.root}
		for _, id := range slices.Sorted(maps.Keys(keys.byID)) {
			a := keys.byID[id]
			content.audit = append(content.audit, storedAudit{id, a.made.Unix(), *a.key()})
		}
		id = last + 1
		content.audit = append(content.audit, storedAudit{id, time.Now().Unix(), random()})
		if s.disk != nil {
			if err := s.disk.replace(s.disk.path(fileRing), content.encode()); err != nil {
				return err
			}
			return s.reloadAudit()
		}
		next, err := newAuditKeys(nil, content.audit)
		if err != nil {
			return err
		}
		s.audit.Store(&auditView{auditKeys: next})
		return nil
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

// Seal encrypts and authenticates plaintext (AES-256-GCM, a random nonce) under
// a data key, bound to associated data. The ciphertext is [Overhead] bytes longer. A
// key is good for 2^32 of them.
func (k *Ring) Seal(ctx context.Context, id memory.KeyID, plaintext, associated []byte) ([]byte, error) {
	key, err := k.s().use(ctx, id)
	if err != nil {
		return nil, err
	}
	out, err := key.aead.Encrypt(plaintext, associated)
	if err != nil {
		return nil, fmt.Errorf("keyring: seal: the plaintext is too long")
	}
	return out, nil
}

// Open undoes Seal. It gives [memory.ErrKey] for whatever was not sealed under
// the key with this associated data, and does not say why not.
func (k *Ring) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) ([]byte, error) {
	key, err := k.s().use(ctx, id)
	if err != nil {
		return nil, err
	}
	out, err := key.aead.Decrypt(ciphertext, associated)
	if err != nil {
		return nil, fmt.Errorf("keyring: open: %w", memory.ErrKey)
	}
	return out, nil
}

// Key returns the id of the present data key of a subject, and makes the key if it
// is new: it is on disk before Key returns. An empty subject gives
// [memory.ErrInvalid]; a key that was destroyed though its subject was not retired,
// [memory.ErrErased].
func (k *Ring) Key(ctx context.Context, subject string) (memory.KeyID, error) {
	if subject == "" {
		return 0, &memory.FieldError{Field: "subject", Rule: "required", Text: "a subject is empty"}
	}
	s := k.s()
	if err := s.refresh(ctx, 0); err != nil {
		return 0, err
	}
	v := s.view.Load()
	v.mu.RLock()
	id, ok := v.known[subject]
	v.mu.RUnlock()
	if ok {
		return id, nil
	}
	of, _ := s.generations(v, subject)
	id = s.id(of)
	if _, ok = s.used.Load(id); ok {
		v.remember(subject, id)
		return id, nil
	}
	err := s.locked(ctx, func() error {
		v := s.view.Load()
		of, _ := s.generations(v, subject)
		id = s.id(of)
		if err := s.ensure(id, of); err != nil {
			return err
		}
		v.remember(subject, id)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

// Retire ends the present key of a subject. It returns all keys of the subject that
// are not destroyed, of this and of earlier calls, ascending; the one that Key returns
// from now on is new. A subject without a key has nothing to end.
func (k *Ring) Retire(ctx context.Context, subject string) (list []memory.KeyID, err error) {
	return k.s().ofSubject(ctx, subject, true)
}

// Subject lists the keys of a subject that are not destroyed, ascending.
func (k *Ring) Subject(ctx context.Context, subject string) ([]memory.KeyID, error) {
	return k.s().ofSubject(ctx, subject, false)
}

// Destroy makes data keys unrecoverable, as far as the disk goes along. When it
// returns without an error, they are recorded as destroyed and overwritten; with an
// error, call it again. A key that there never was gives [memory.ErrKey], and then
// none is destroyed.
func (k *Ring) Destroy(ctx context.Context, keys ...memory.KeyID) error {
	s := k.s()
	return s.locked(ctx, func() error {
		v := s.view.Load()
		var fresh []memory.KeyID
		for _, id := range keys {
			if v.isDestroyed(id) {
				continue
			}
			there, err := s.exists(id)
			if err != nil {
				return err
			}
			if !there {
				return fmt.Errorf("keyring: destroy %016x: %w", uint64(id), memory.ErrKey)
			}
			fresh = append(fresh, id)
		}
		if len(fresh) > 0 {
			if err := s.end(v.with(nil, fresh)); err != nil {
				return err
			}
		}
		return s.wipe(keys)
	})
}

// load reads the files of a ring, under the lock.
func load(f *folder, o Options) (*Ring, error) {
	content, err := f.ring()
	if err != nil {
		return nil, err
	}
	s := newState(f, content.root, o)
	if err := s.reload(); err != nil {
		return nil, err
	}
	if err := s.reloadAudit(); err != nil {
		return nil, err
	}
	// Only now that all of it is known to be ours is anything changed.
	if _, err := s.listKeys(); err != nil {
		return nil, err
	}
	if err := f.removeTemp(); err != nil {
		return nil, err
	}
	return newRing(s), nil
}
