package keyring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
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

// defaultCache is how many data keys a ring keeps in memory: some 10 MB.
const defaultCache = 8192

// Options of [Open] and [Create]. Every zero field has a usable default.
type Options struct {
	// AuditKeys are the audit keys, if the program keeps them elsewhere than in
	// the ring ([ParseAuditKeys]); the first is the current one. [Create] then
	// writes none, and each Open must be given them. Those of a ring that has
	// some still verify.
	AuditKeys []AuditKey
	// StorePath is the path of the store that the keys are for. It is only looked
	// at by [Ring.Findings].
	StorePath string
	// Wrapping is the key that the ring is wrapped under; nil = the file "wrap" in the
	// folder. A ring that is in no folder needs one.
	Wrapping Wrapping
	// Cache is how many data keys are kept in memory, ready for use; 0 = 8,192, which
	// takes some 10 MB. A key that is not is read again.
	Cache int
}

// Ring is a [memory.Keys]. It is safe for concurrent use, and several, in one
// process or in many, may use one folder or database. It prints as its place.
type Ring struct {
	s func() *state // fmt, with one verb or another, prints what is behind a pointer
}

var _ memory.Keys = (*Ring)(nil)

// Ephemeral makes a ring of random keys that are in no file and end with the
// process: for tests and demonstrations. What is sealed under it, nobody opens
// after that.
func Ephemeral() *Ring {
	r, err := CreateOn(background, newInMemory(), &Options{Wrapping: &momentary{r: ratchet{1, random()}}})
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return r
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
	options := optionsOf(o)
	c, err := newContent(options)
	if err != nil {
		return nil, err
	}
	if err := f.do("make", f.dir, func() error { return os.MkdirAll(f.dir, 0o700) }); err != nil {
		return nil, err
	}
	if err := f.private(f.dir, "700"); err != nil {
		return nil, err
	}
	unlock, err := f.lock(background)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := f.vacant(); err != nil {
		return nil, err
	}
	if err := f.build(options, c); err != nil {
		return nil, err
	}
	if err := f.publish(); err != nil {
		return nil, err
	}
	if err := f.syncDir(filepath.Dir(f.dir)); err != nil {
		return nil, err
	}
	return open(f, o)
}

// build makes the files of a ring, aside.
func (f *folder) build(o Options, c content) error {
	aside := &folder{dir: f.path(dirNew), fault: f.fault}
	if err := f.do("clear", aside.dir, func() error { return os.RemoveAll(aside.dir) }); err != nil {
		return err
	}
	if err := f.do("make", aside.dir, func() error { return os.Mkdir(aside.dir, 0o700) }); err != nil {
		return err
	}
	if o.Wrapping == nil {
		w := &wrapFile{disk: aside, path: aside.path(fileWrap)}
		if err := w.create(); err != nil {
			return err
		}
		o.Wrapping = w
	}
	b := &inFile{disk: aside, path: aside.path(fileRing)}
	err := b.found()
	if err == nil {
		err = foundOn(background, b, o.Wrapping, c)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	return f.syncDir(aside.dir)
}

// publish puts the files of a ring that was built in their places, the ring itself last:
// with it, and not before, there is a ring.
func (f *folder) publish() error {
	for _, name := range [...]string{fileWrap, fileRing} {
		from := filepath.Join(f.path(dirNew), name)
		err := f.do("rename", from, func() error { return os.Rename(from, f.path(name)) })
		if err != nil && (name == fileRing || !errors.Is(err, fs.ErrNotExist)) { // its wrapping key may be elsewhere
			return err
		}
	}
	if err := f.syncDir(f.dir); err != nil {
		return err
	}
	return f.do("clear", f.path(dirNew), func() error { return os.RemoveAll(f.path(dirNew)) })
}

// Open opens the ring in a folder.
//
// A folder without one gives [ErrNotFound]; one that an older version wrote, [ErrOldForm]; one
// that others than its owner may use, [ErrExposed]; a file that is not as it was written,
// [ErrDamaged], [memory.ErrForeign] or [memory.ErrSchema]; each in a [*FileError] that
// names the path. Nothing is changed by that. A wrapping key that is not the ring's
// gives [ErrWrapping].
func Open(dir string, o *Options) (*Ring, error) {
	f, err := at(dir)
	if err != nil {
		return nil, err
	}
	return open(f, o)
}

func open(f *folder, o *Options) (*Ring, error) {
	options := optionsOf(o)
	_, err := f.stat(f.path(fileRing))
	if errors.Is(err, fs.ErrNotExist) {
		if f.exists(oldRing) {
			return nil, &FileError{Path: f.dir, Err: ErrOldForm, Fix: oldFix}
		}
		return nil, &FileError{Path: f.dir, Err: ErrNotFound, Fix: "if there was one, bring it back: without its keys the store says nothing; for a new store, hearsay keyring create makes one"}
	}
	if err != nil {
		return nil, err
	}
	// Refused before anything is touched.
	if err := f.private(f.dir, "700"); err != nil {
		return nil, err
	}
	if err := f.private(f.path(fileRing), "600"); err != nil {
		return nil, err
	}
	if options.Wrapping == nil {
		options.Wrapping = &wrapFile{disk: f, path: f.path(fileWrap)}
	}
	return OpenOn(background, &inFile{disk: f, path: f.path(fileRing), tx: f.tx}, &options)
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

// CreateOn makes a ring of new keys on a backend, which must hold none: [ErrExists].
func CreateOn(ctx context.Context, b Backend, o *Options) (*Ring, error) {
	options := optionsOf(o)
	if options.Wrapping == nil {
		return nil, fmt.Errorf("keyring: %s: %w: none was given", b, ErrWrapping)
	}
	c, err := newContent(options)
	if err != nil {
		return nil, err
	}
	if err := foundOn(ctx, b, options.Wrapping, c); err != nil {
		return nil, err
	}
	return OpenOn(ctx, b, &options)
}

// OpenOn opens the ring that a backend holds: [ErrNotFound] if there is none. Errors are
// those of [Open].
func OpenOn(ctx context.Context, b Backend, o *Options) (*Ring, error) {
	options := optionsOf(o)
	if options.Wrapping == nil {
		return nil, fmt.Errorf("keyring: %s: %w: none was given", b, ErrWrapping)
	}
	s := &state{backend: b, wrapping: options.Wrapping, options: options}
	if err := s.read(ctx, nil); err != nil {
		return nil, err
	}
	return &Ring{func() *state { return s }}, nil
}

func optionsOf(o *Options) (options Options) {
	if o != nil {
		options = *o
	}
	if options.Cache <= 0 {
		options.Cache = defaultCache
	}
	return options
}

func at(dir string) (*folder, error) {
	abs, err := filepath.Abs(dir)
	if dir == "" || err != nil {
		return nil, &FileError{Path: dir, Err: ErrNotFound, Fix: "give the path of a folder"}
	}
	return &folder{dir: abs}, nil
}

// Close gives up what the ring holds open. A later call opens it again: a ring that is
// not closed closes its file by itself when nobody uses it.
func (k *Ring) Close() error { return k.s().backend.Close() }

// String returns the place of the ring.
func (k Ring) String() string { return "keyring " + k.s().backend.String() }

// Format writes what String returns, whatever the verb.
func (k Ring) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, k.String()) }

// LogValue returns what String returns.
func (k Ring) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalText returns what String returns: keys are not written this way.
func (k Ring) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Root returns the root key.
func (k *Ring) Root() [32]byte { return k.s().view.Load().root }

// Audit returns the current audit key and its id. After a Rotate in another
// process it is the one of before for up to [Staleness].
func (k *Ring) Audit() (id uint32, key [32]byte) {
	a := k.s().lately().audit.current
	return a.id, *a.key()
}

// AuditKey returns the audit key with an id, current or not.
func (k *Ring) AuditKey(id uint32) (key [32]byte, ok bool) {
	a, ok := k.s().view.Load().audit.byID[id]
	if !ok {
		a, ok = k.s().lately().audit.byID[id]
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
	err = s.alone(ctx, func(v *view, _ Tx, next *records) error {
		last := v.audit.lastID()
		if last == math.MaxUint32 {
			return fmt.Errorf("%w: no id is left", ErrAuditKeys)
		}
		id = last + 1
		next.audit = append(slices.Clone(next.audit), storedAudit{id, time.Now().Unix(), random()})
		next.changed = true
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
	out, err := key.Encrypt(plaintext, associated)
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
	out, err := key.Decrypt(ciphertext, associated)
	if err != nil {
		return nil, fmt.Errorf("keyring: open: %w", memory.ErrKey)
	}
	return out, nil
}

// Key returns the id of the present data key of a subject, and makes the key if it
// is new: it is durable before Key returns. An empty subject gives
// [memory.ErrInvalid]; a key that was destroyed though its subject was not retired,
// [memory.ErrErased].
func (k *Ring) Key(ctx context.Context, subject string) (memory.KeyID, error) {
	ids, err := k.s().keysOf(ctx, subject)
	if err != nil {
		return 0, err
	}
	if ids[0] == 0 {
		return 0, fmt.Errorf("keyring: the key of a subject: %w", memory.ErrErased)
	}
	return ids[0], nil
}

// Prepare does what Key does for many subjects in one transaction, or two if some are
// new. The id of one whose key was destroyed though it was not retired is 0.
func (k *Ring) Prepare(ctx context.Context, subjects ...string) ([]memory.KeyID, error) {
	return k.s().keysOf(ctx, subjects...)
}

// Retire ends the present key of a subject. It returns all keys of the subject that
// are not destroyed, of this and of earlier calls, ascending; the one that Key returns
// from now on is new. A subject without a key has nothing to end.
func (k *Ring) Retire(ctx context.Context, subject string) (list []memory.KeyID, err error) {
	if err := given(subject); err != nil {
		return nil, err
	}
	s := k.s()
	err = s.alone(ctx, func(v *view, tx Tx, next *records) error {
		all, err := s.generations(v, tx, subject)
		if err != nil {
			return err
		}
		list = living(all)
		if n := len(all); n > 0 && !all[n-1].Retired && all[n-1].Sealed != nil {
			all[n-1].Retired = true
			next.changed = true
			return tx.Update(all[n-1])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Subject lists the keys of a subject that are not destroyed, ascending.
func (k *Ring) Subject(ctx context.Context, subject string) (list []memory.KeyID, err error) {
	if err := given(subject); err != nil {
		return nil, err
	}
	s := k.s()
	err = s.read(ctx, func(v *view, tx Tx) error {
		all, err := s.generations(v, tx, subject)
		list = living(all)
		return err
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// living are the ids of the entries that are not destroyed, ascending.
func living(all []Entry) (list []memory.KeyID) {
	for _, e := range all {
		if e.Sealed != nil {
			list = append(list, e.ID)
		}
	}
	slices.Sort(list)
	return list
}

func given(subject string) error {
	if subject == "" {
		return &memory.FieldError{Field: "subject", Rule: "required", Text: "a subject is empty"}
	}
	return nil
}

// Destroy makes data keys unrecoverable: it drops them, wraps all others under a new
// version of the wrapping key, and destroys the version that covered them. When it
// returns without an error nobody opens anything under them with this ring. Pending in
// what it returns says who could still do so with a copy of the ring that was made
// before, and what to do; call it again then. A key that there never was gives
// [memory.ErrKey], and then none is destroyed.
func (k *Ring) Destroy(ctx context.Context, keys ...memory.KeyID) (memory.Destruction, error) {
	if len(keys) == 0 {
		return memory.Destruction{}, nil
	}
	s := k.s()
	var (
		covered int64 // the last epoch of one of the keys
		version string
		stuck   error // there is no newer version
	)
	err := s.alone(ctx, func(v *view, tx Tx, next *records) error {
		list, err := tx.Find(keys...)
		if err != nil {
			return err
		}
		there := map[memory.KeyID]bool{}
		var drop []Entry
		for _, e := range list {
			there[e.ID] = true
			if e.Sealed != nil {
				e.Sealed, e.Epoch, e.Version = nil, v.Epoch, v.Version
				drop = append(drop, e)
			}
			if e.Epoch >= covered {
				covered, version = e.Epoch, e.Version
			}
		}
		for _, id := range keys {
			if !there[id] {
				return fmt.Errorf("keyring: destroy %s: %w", id, memory.ErrKey)
			}
		}
		if len(drop) > 0 {
			next.changed, next.Dropped = true, max(next.Dropped, v.Epoch)
			if err := tx.Update(drop...); err != nil {
				return err
			}
		}
		if covered < v.Epoch {
			return nil
		}
		if err := s.rewrap(ctx, v, tx, next); !errors.Is(err, ErrNoVersion) {
			return err
		}
		stuck = ErrNoVersion
		return nil
	})
	if err == nil {
		err = s.backend.Scrub(ctx)
	}
	if err != nil {
		return memory.Destruction{}, err
	}
	d := memory.Destruction{Version: version, At: time.Now().UTC()}
	if stuck != nil {
		d.Pending = fmt.Sprintf("the wrapping key has no newer version than %s: put a new one in front of it", version)
		return d, nil
	}
	d.Pending, err = s.pending(ctx, covered, version)
	return d, err
}

// ErrSameWrapping: the ring is wrapped with that very key already.
var ErrSameWrapping = errors.New("the ring is wrapped with this key already")

// Rewrap moves the ring to another wrapping key, all in one transaction: whoever is
// interrupted finds a ring that opens with the key of before, or with the new one.
// Afterwards this ring, and each other process, must be opened with the new one.
//
// The key of before is needed no more, and must be destroyed where it is kept: with it
// and an older copy of the ring, what is erased later can be read. While it still covers
// what was erased, that is [memory.ErrPending] and nothing is changed. A key that opens
// the ring as it is gives [ErrSameWrapping].
func (k *Ring) Rewrap(ctx context.Context, to Wrapping) error {
	if to == nil {
		return fmt.Errorf("keyring: %w: none was given", ErrWrapping)
	}
	s := k.s()
	v, err := s.fresh(ctx, 0)
	if err != nil {
		return err
	}
	if v.Dropped > 0 {
		pending, err := s.pending(ctx, v.Dropped, v.Version)
		if err == nil && pending == "" && v.Dropped >= v.Epoch {
			pending = "version " + v.Version + " of the wrapping key still covers what was erased: erase again first"
		}
		if err != nil {
			return err
		}
		if pending != "" {
			return fmt.Errorf("keyring: %w: %s", memory.ErrPending, pending)
		}
	}
	have := s.view.Load()
	err = s.backend.Do(ctx, Alone, func(tx Tx) error {
		v, err := s.current(ctx, tx, have)
		if err != nil {
			return err
		}
		if v.Revision != have.Revision {
			return fmt.Errorf("keyring: the ring was changed meanwhile: %w", memory.ErrConflict)
		}
		if _, err := to.Unwrap(ctx, v.Version, v.Inner); err == nil {
			return fmt.Errorf("keyring: %w", ErrSameWrapping)
		}
		next := records{State: v.State, audit: v.stored, watch: v.watch}
		next.Version = "" // of another key: none of its versions is older
		if err := next.newInner(ctx, to); err != nil {
			return err
		}
		if err := s.reseal(v, tx, &next); err != nil {
			return err
		}
		next.Revision++
		if err := next.seal(v.root); err != nil {
			return err
		}
		return tx.SetState(next.State)
	})
	if err != nil {
		return err
	}
	return s.backend.Scrub(ctx)
}

// Release takes a machine out of those that share the ring: for one that is gone, with
// what it held of the wrapping key. [memory.ErrNotFound] if there is none by that name.
func (k *Ring) Release(ctx context.Context, name string) error {
	return k.s().backend.Do(ctx, Alone, func(tx Tx) error {
		list, err := tx.Holders()
		if err != nil {
			return err
		}
		for _, h := range list {
			if h.Name == name {
				return tx.Release(name)
			}
		}
		return fmt.Errorf("keyring: %w: no machine by the name %.200q shares the ring", memory.ErrNotFound, name)
	})
}

// Holders lists the machines that share the ring; none, if it is in a folder.
func (k *Ring) Holders(ctx context.Context) (list []Holder, err error) {
	err = k.s().backend.Do(ctx, Read, func(tx Tx) (err error) {
		list, err = tx.Holders()
		return err
	})
	return list, err
}

// Witnesses lists which witnesses the store has had, oldest first; the zero token where
// one was given up. What another process recorded is there after [Staleness].
func (k *Ring) Witnesses(ctx context.Context) ([]memory.Token, error) {
	v, err := k.s().fresh(ctx, Staleness)
	if err != nil {
		return nil, err
	}
	return slices.Clone(v.watch), nil
}

// SetWitness records, for good, that a witness follows on the first n records, or that
// with the zero token one was given up. It gives [memory.ErrConflict] if there are not n.
func (k *Ring) SetWitness(ctx context.Context, n int, id memory.Token) error {
	return k.s().alone(ctx, func(_ *view, _ Tx, next *records) error {
		if len(next.watch) != n {
			return fmt.Errorf("keyring: %d witnesses are recorded, not %d: %w", len(next.watch), n, memory.ErrConflict)
		}
		next.watch = append(slices.Clone(next.watch), id)
		next.changed = true
		return nil
	})
}

// generations are the entries of a subject, the oldest first. Only the last one may not
// be retired.
func (s *state) generations(v *view, tx Tx, subject string) (all []Entry, err error) {
	for n := uint64(0); ; n++ {
		list, err := tx.Of(v.token(n, subject))
		if err != nil || len(list) == 0 {
			return all, err
		}
		if all = append(all, list...); !list[0].Retired {
			return all, nil
		}
	}
}

// token stands for a generation of a subject.
func (v *view) token(n uint64, subject string) Token {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], n)
	sum := v.tokens.sum(number[:], []byte(subject))
	return Token(sum[:])
}
