package keyring

import (
	"cmp"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

// state is all of a ring. What a data key is and what was ended are read without a
// lock; whatever changes them holds the gate and the lock of the folder.
type state struct {
	disk    *folder // nil: the keys end with the process
	options Options
	root    secret
	tokens  *mac // of subjects
	ids     *mac // of tokens
	sums    *mac // of files

	gate  chan struct{} // holds one value while somebody is in
	used  sync.Map      // memory.KeyID → *dataKey: those that were used and are not destroyed
	view  atomic.Pointer[view]
	audit atomic.Pointer[auditView]
}

// dataKey is one that is not destroyed; never written to.
type dataKey struct {
	of   token
	aead *subtle.AESGCM
}

// look is when and how a file was last seen.
type look struct {
	size    int64
	changed time.Time
	at      atomic.Int64 // since the epoch below, nanoseconds
}

// epoch is where the monotonic clock of this package begins.
var epoch = time.Now()

// view is what was ended, as of one state of the file, and what was found out
// from it.
type view struct {
	ended
	look

	mu    sync.RWMutex
	known map[string]memory.KeyID // by subject
}

type auditView struct {
	*auditKeys
	look
}

func newRingFile(withAudit bool) *ringFile {
	f := &ringFile{root: random()}
	if withAudit {
		f.audit = []storedAudit{{1, time.Now().Unix(), random()}}
	}
	return f
}

func random() (s secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

func newState(disk *folder, root secret, o Options) *state {
	derive := func(use string) *mac {
		key, err := hkdf.Key(sha256.New, root[:], nil, "hearsay memory/keyring 1: "+use, sha256.Size)
		if err != nil {
			panic(err) // only for a length that HKDF cannot give
		}
		return &mac{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
	}
	return &state{
		disk: disk, options: o, root: root, gate: make(chan struct{}, 1),
		tokens: derive("subject"), ids: derive("class"), sums: derive("file"),
	}
}

// mac computes an HMAC under one key.
type mac struct{ pool sync.Pool }

func (m *mac) sum(parts ...[]byte) (out [sumSize]byte) {
	h := m.pool.Get().(hash.Hash)
	defer m.pool.Put(h)
	h.Reset()
	for _, p := range parts {
		h.Write(p)
	}
	h.Sum(out[:0])
	return out
}

// locked runs act with the gate and the lock of the folder held and what was
// ended read anew. act does not look at the context: what it began, it finishes.
func (s *state) locked(ctx context.Context, act func() error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	select {
	case s.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("keyring: %w", ctx.Err())
	}
	defer func() { <-s.gate }()
	if s.disk != nil {
		unlock, err := s.disk.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.reload(); err != nil {
			return err
		}
	}
	return act()
}

// refresh reads what was ended, if the file changed and was not looked at for a
// while.
func (s *state) refresh(ctx context.Context, while time.Duration) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	v := s.view.Load()
	if s.disk == nil {
		return nil
	}
	now := time.Since(epoch) // before the look: it is as old as that
	if while > 0 && now-time.Duration(v.at.Load()) < while {
		return nil
	}
	same, err := v.unchanged(s.disk, fileEnded)
	if err != nil {
		return err
	}
	if !same {
		return s.locked(ctx, func() error { return nil })
	}
	v.at.Store(int64(now))
	return nil
}

// unchanged reports whether a file is as it was when it was read. (Both files
// that are looked at this way only ever grow.)
func (l *look) unchanged(f *folder, name string) (bool, error) {
	info, err := f.stat(f.path(name))
	if err != nil {
		return false, err
	}
	return info.Size() == l.size && info.ModTime().Equal(l.changed), nil
}

// reload reads what was ended, if the file changed, under the lock.
func (s *state) reload() error {
	now := time.Since(epoch)
	if v := s.view.Load(); v != nil {
		same, err := v.unchanged(s.disk, fileEnded)
		if err != nil {
			return err
		}
		if same {
			v.at.Store(int64(now))
			return nil
		}
	}
	path := s.disk.path(fileEnded)
	data, err := s.disk.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &FileError{Path: path, Err: fmt.Errorf("%w: it is gone", ErrDamaged), Fix: "bring the folder back as a whole"}
	}
	if err != nil {
		return err
	}
	e, err := parseEnded(data, s.sums.sum)
	if err != nil {
		return &FileError{Path: path, Err: err}
	}
	if v := s.view.Load(); v != nil && !e.covers(v.ended) {
		return &FileError{Path: path, Err: fmt.Errorf("%w: it is older than the one before", ErrDamaged), Fix: "end the process before you bring a copy of the folder back"}
	}
	info, err := s.disk.stat(path)
	if err != nil {
		return err
	}
	s.setView(e, info)
	return nil
}

// setView makes e what is known to have ended, and forgets the keys of it.
func (s *state) setView(e ended, info fs.FileInfo) {
	v := &view{ended: e, known: map[string]memory.KeyID{}}
	if info != nil {
		v.size, v.changed = info.Size(), info.ModTime()
		v.at.Store(int64(time.Since(epoch)))
	}
	s.view.Store(v)
	s.used.Range(func(id, _ any) bool {
		if e.isDestroyed(id.(memory.KeyID)) {
			s.used.Delete(id)
		}
		return true
	})
}

// end records what has ended.
func (s *state) end(e ended) error {
	if s.disk == nil {
		s.setView(e, nil)
		return nil
	}
	if err := s.disk.replace(s.disk.path(fileEnded), e.encode(s.sums.sum)); err != nil {
		return err
	}
	return s.reload()
}

// load returns a data key that is not destroyed, under the lock.
func (s *state) load(id memory.KeyID) (*dataKey, error) {
	if s.view.Load().isDestroyed(id) {
		return nil, fmt.Errorf("keyring: key %016x: %w", uint64(id), memory.ErrErased)
	}
	if k, ok := s.used.Load(id); ok {
		return k.(*dataKey), nil
	}
	file, err := s.readKey(id)
	if err != nil {
		return nil, err
	}
	return s.keep(file)
}

func (s *state) keep(f *keyFile) (*dataKey, error) {
	// The primitive itself, not a keyset handle: a keyset's prefix of 5 bytes in
	// every ciphertext says which key of a set it is of, and here the row says that.
	aead, err := subtle.NewAESGCM(f.key[:])
	if err != nil {
		return nil, fmt.Errorf("keyring: the cipher is not available")
	}
	k := &dataKey{f.of, aead}
	s.used.Store(f.id, k)
	return k, nil
}

func (s *state) readKey(id memory.KeyID) (*keyFile, error) {
	unknown := fmt.Errorf("keyring: key %016x: %w", uint64(id), memory.ErrKey)
	if s.disk == nil {
		return nil, unknown
	}
	path := s.disk.keyPath(id)
	data, err := s.disk.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, unknown
	}
	if err != nil {
		return nil, err
	}
	file, err := parseKey(data, s.sums.sum)
	if err == nil && (file.id != id || s.id(file.of) != id) {
		err = fmt.Errorf("%w: it is the file of another key", ErrDamaged)
	}
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	return file, nil
}

// ensure makes the data key of a token, unless there is one, under the lock.
func (s *state) ensure(id memory.KeyID, of token) error {
	k, err := s.load(id)
	switch {
	case err == nil:
		if k.of != of { // 64 bits: once in a very long while
			return fmt.Errorf("keyring: two subjects have the key %016x: %w", uint64(id), memory.ErrKey)
		}
		if s.disk == nil {
			return nil
		}
		// Whoever made the file may have died before it was durable.
		return s.disk.syncDir(s.disk.path(dirKeys))
	case !errors.Is(err, memory.ErrKey):
		return err
	}
	file := &keyFile{id: id, key: random(), of: of}
	if s.disk != nil {
		if err := s.disk.replace(s.disk.keyPath(id), file.encode(s.sums.sum)); err != nil {
			return err
		}
	}
	_, err = s.keep(file)
	return err
}

func (s *state) exists(id memory.KeyID) (bool, error) {
	if s.disk == nil {
		_, ok := s.used.Load(id)
		return ok, nil
	}
	_, err := s.disk.stat(s.disk.keyPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// tokenOf returns whose a data key is. It keeps nothing: there may be many.
func (s *state) tokenOf(id memory.KeyID) (token, error) {
	if k, ok := s.used.Load(id); ok {
		return k.(*dataKey).of, nil
	}
	file, err := s.readKey(id)
	if err != nil {
		return token{}, err
	}
	return file.of, nil
}

// listKeys lists the data keys that are not destroyed, ascending, and wipes what
// is left of those that are, under the lock.
func (s *state) listKeys() (list []memory.KeyID, err error) {
	if s.disk == nil {
		s.used.Range(func(id, _ any) bool {
			list = append(list, id.(memory.KeyID))
			return true
		})
		slices.SortFunc(list, cmp.Compare)
		return list, nil
	}
	all, err := s.disk.keys()
	if err != nil {
		return nil, err
	}
	v := s.view.Load()
	var left []memory.KeyID
	for _, id := range all {
		if v.isDestroyed(id) {
			left = append(left, id)
		} else {
			list = append(list, id)
		}
	}
	if len(left) > 0 {
		return list, s.wipe(left)
	}
	return list, nil
}

// wipe overwrites and removes the files of data keys that are recorded as
// destroyed, under the lock.
func (s *state) wipe(keys []memory.KeyID) error {
	if s.disk == nil || len(keys) == 0 {
		return nil
	}
	// First the record, by whomever: a key must not go before it is durable that it
	// is destroyed, or another one could be made in its place.
	if err := s.disk.syncDir(s.disk.dir); err != nil {
		return err
	}
	for _, id := range keys {
		if err := s.disk.wipe(s.disk.keyPath(id)); err != nil {
			return err
		}
	}
	return s.disk.syncDir(s.disk.path(dirKeys))
}

// reloadAudit reads the audit keys of the file, if it changed, under the lock.
func (s *state) reloadAudit() error {
	now := time.Since(epoch)
	info, err := s.disk.stat(s.disk.path(fileRing))
	if err != nil {
		return err
	}
	if a := s.audit.Load(); a != nil && info.Size() == a.size && info.ModTime().Equal(a.changed) {
		a.at.Store(int64(now))
		return nil
	}
	content, err := s.disk.ring()
	if err != nil {
		return err
	}
	if content.root != s.root {
		return &FileError{Path: s.disk.path(fileRing), Err: fmt.Errorf("%w: another ring was put in its place", ErrDamaged)}
	}
	keys, err := newAuditKeys(s.options.AuditKeys, content.audit)
	if err != nil {
		return err
	}
	a := &auditView{auditKeys: keys, look: look{size: info.Size(), changed: info.ModTime()}}
	a.at.Store(int64(now))
	s.audit.Store(a)
	return nil
}

// auditNow returns the audit keys, read anew if the file changed and was not
// looked at for a while. If it cannot be read, those of before still serve.
func (s *state) auditNow(while time.Duration) *auditView {
	a := s.audit.Load()
	now := time.Since(epoch)
	if s.disk == nil || now-time.Duration(a.at.Load()) < while {
		return a
	}
	if same, err := a.unchanged(s.disk, fileRing); err != nil || same {
		a.at.Store(int64(now))
		return a
	}
	_ = s.locked(context.Background(), s.reloadAudit)
	return s.audit.Load()
}

// ring reads the file of the root key and the audit keys.
func (f *folder) ring() (*ringFile, error) {
	path := f.path(fileRing)
	if err := f.private(path, "600"); err != nil {
		return nil, err
	}
	data, err := f.read(path)
	if err != nil {
		return nil, err
	}
	content, err := parseRing(data)
	if err != nil {
		return nil, &FileError{Path: path, Err: err}
	}
	return content, nil
}

// use returns a data key to seal or open with.
func (s *state) use(ctx context.Context, id memory.KeyID) (*dataKey, error) {
	if err := s.refresh(ctx, Staleness); err != nil {
		return nil, err
	}
	if k, ok := s.used.Load(id); ok {
		return k.(*dataKey), nil
	}
	var k *dataKey
	err := s.locked(ctx, func() (err error) {
		k, err = s.load(id)
		return err
	})
	return k, err
}

// Limits of what is remembered: it is a few megabytes at most, and starts anew
// when it is full.
const (
	maxKnown   = 4096
	maxSubject = 1024
)

func (v *view) remember(subject string, id memory.KeyID) {
	if len(subject) > maxSubject {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.known) >= maxKnown {
		clear(v.known)
	}
	v.known[subject] = id
}

// id names the data key of a token.
func (s *state) id(of token) memory.KeyID {
	sum := s.ids.sum(of[:])
	return max(1, memory.KeyID(binary.BigEndian.Uint64(sum[:]))) // 0 is no key
}

// generations returns the token of a subject's present generation, and those of
// the ones before it.
func (s *state) generations(v *view, subject string) (now token, before []token) {
	var number [8]byte
	for n := uint64(0); ; n++ {
		binary.BigEndian.PutUint64(number[:], n)
		sum := s.tokens.sum(number[:], []byte(subject))
		now = token(sum[:])
		if !v.isRetired(now) {
			return now, before
		}
		before = append(before, now)
	}
}

func (s *state) ofSubject(ctx context.Context, subject string, retire bool) (list []memory.KeyID, err error) {
	if subject == "" {
		return nil, &memory.FieldError{Field: "subject", Rule: "required", Text: "a subject is empty"}
	}
	err = s.locked(ctx, func() error {
		v := s.view.Load()
		now, before := s.generations(v, subject)
		inUse := false
		all, err := s.listKeys()
		if err != nil {
			return err
		}
		for _, id := range all {
			of, err := s.tokenOf(id)
			if err != nil {
				return err
			}
			inUse = inUse || of == now
			if of == now || slices.Contains(before, of) {
				list = append(list, id)
			}
		}
		switch {
		case retire && inUse:
			return s.end(v.with([]token{now}, nil))
		case retire && s.disk != nil:
			// The call that recorded it may have failed, or died, before it was durable.
			return s.disk.syncDir(s.disk.dir)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}
