package keyring

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/tink-crypto/tink-go/v2/aead/subtle"
)

// state is all of a ring in this process.
type state struct {
	backend  Backend
	wrapping Wrapping
	options  Options

	view atomic.Pointer[view]
	seen atomic.Int64 // the last epoch that this machine was told of, and let go of what it could
}

// view is a ring at one revision, and what was looked up of it. What is looked up is
// forgotten with it, so nothing outlives what ended it.
type view struct {
	State
	root   secret
	audit  *auditKeys
	stored []storedAudit
	watch  []memory.Token
	inner  *subtle.AESGCM // the key that all of the ring is sealed under
	tokens *mac           // of subjects

	ciphers *lru.Cache[memory.KeyID, *subtle.AESGCM]
	known   *lru.Cache[string, memory.KeyID] // by subject
	at      atomic.Int64                     // when it was last seen, since the epoch below, nanoseconds
}

// epoch is where the monotonic clock of this package begins.
var epoch = time.Now()

// records are what a change makes of a ring's state.
type records struct {
	State
	audit   []storedAudit
	watch   []memory.Token
	inner   *subtle.AESGCM
	changed bool
}

// content is what a ring is made with.
type content struct {
	root    secret
	audit   []storedAudit
	watch   []memory.Token
	entries []plainEntry
}

// plainEntry is an entry with its key. One that is damaged or destroyed has none.
type plainEntry struct {
	Entry
	key *secret
}

func newContent(o Options) (c content, err error) {
	c.root = random()
	if len(o.AuditKeys) == 0 {
		c.audit = []storedAudit{{1, time.Now().Unix(), random()}}
	}
	_, err = newAuditKeys(o.AuditKeys, c.audit)
	return c, err
}

func random() (s secret) {
	_, _ = rand.Read(s[:]) // never fails
	return s
}

// mac computes an HMAC under one key.
type mac struct{ pool sync.Pool }

func newMAC(root secret, use string) *mac {
	key, err := hkdf.Key(sha256.New, root[:], nil, "hearsay memory/keyring 1: "+use, sha256.Size)
	if err != nil {
		panic(err) // only for a length that HKDF cannot give
	}
	return &mac{sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}}
}

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

func newAEAD(key []byte) (*subtle.AESGCM, error) {
	// The primitive itself, not a keyset handle: a keyset's prefix of 5 bytes in
	// every ciphertext says which key of a set it is of, and here the row says that.
	aead, err := subtle.NewAESGCM(key)
	if err != nil {
		return nil, fmt.Errorf("keyring: the cipher is not available")
	}
	return aead, nil
}

// bound is what a sealed record is bound to: the ring, what it is, and of which entry.
func (st *State) bound(what string, parts ...[]byte) []byte {
	out := append([]byte("hearsay memory/keyring 2: "+what+"\x00"), st.ID[:]...)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func (st *State) boundEntry(e Entry) []byte { return st.bound("data key", number(e.ID), e.Of[:]) }

// foundOn makes a ring on a backend that has none.
func foundOn(ctx context.Context, b Backend, w Wrapping, c content) error {
	next := records{State: State{Revision: 1, Epoch: 1}, audit: c.audit, watch: c.watch}
	_, _ = rand.Read(next.ID[:]) // never fails
	if err := next.newInner(ctx, w); err != nil {
		return err
	}
	if err := next.seal(c.root); err != nil {
		return err
	}
	entries := make([]Entry, len(c.entries))
	for i, e := range c.entries {
		if entries[i] = e.Entry; e.key != nil {
			var err error
			if entries[i].Sealed, err = next.inner.Encrypt(e.key[:], next.boundEntry(e.Entry)); err != nil {
				return err
			}
		}
	}
	return b.Do(ctx, Alone, func(tx Tx) error {
		switch _, there, err := tx.State(); {
		case err != nil:
			return err
		case there:
			return &FileError{Path: b.String(), Err: ErrExists, Fix: "open it instead"}
		}
		for part := range slices.Chunk(entries, atOnce) {
			if err := tx.Insert(part...); err != nil {
				return err
			}
		}
		return tx.SetState(next.State)
	})
}

// newInner makes a new inner key, wrapped under a newer version than that of the state.
// The ring's id is wrapped with it: it opens no other ring.
func (r *records) newInner(ctx context.Context, w Wrapping) error {
	inner := random()
	version, wrapped, err := w.Wrap(ctx, r.Version, append(r.ID[:], inner[:]...))
	if err != nil {
		return err
	}
	r.Version, r.Inner = version, wrapped
	r.inner, err = newAEAD(inner[:])
	return err
}

// seal seals the records of the state under the inner key.
func (r *records) seal(root secret) (err error) {
	watch := []byte{}
	for _, id := range r.watch {
		watch = append(watch, id[:]...)
	}
	for _, one := range [...]struct {
		to    *[]byte
		what  string
		plain []byte
	}{{&r.Root, "root", root[:]}, {&r.Audit, "audit keys", encodeAudit(nil, r.audit)}, {&r.Watch, "witnesses", watch}} {
		if *one.to, err = r.inner.Encrypt(one.plain, r.bound(one.what)); err != nil {
			return err
		}
	}
	return nil
}

var errOvertaken = errors.New("keyring: what was read is older than what is known")

// see is the ring as a state says; have is what was known before the state was read.
func (s *state) see(ctx context.Context, have *view, st State, began int64) (*view, error) {
	if have != nil {
		switch {
		case st.ID != have.ID:
			return nil, fmt.Errorf("%w: another ring was put in its place", ErrDamaged)
		case st.Revision < have.Revision:
			return nil, &FileError{Path: s.backend.String(), Err: fmt.Errorf("%w: it is older than the one before", ErrDamaged), Fix: "end the process before you bring a copy of the ring back"}
		case st.Revision == have.Revision:
			have.at.Store(began)
			return have, nil
		}
		if now := s.view.Load(); st.Revision < now.Revision {
			return nil, errOvertaken
		}
	}
	v := &view{State: st}
	v.at.Store(began)
	if have != nil && have.Epoch == st.Epoch {
		v.inner = have.inner
	} else {
		key, err := s.wrapping.Unwrap(ctx, st.Version, st.Inner)
		if err != nil {
			return nil, &unwrapError{st.Revision, err}
		}
		if len(key) != len(st.ID)+keySize || !bytes.Equal(key[:len(st.ID)], st.ID[:]) {
			return nil, fmt.Errorf("%w: its key is of another ring", ErrDamaged)
		}
		if v.inner, err = newAEAD(key[len(st.ID):]); err != nil {
			return nil, err
		}
	}
	if err := v.unseal(s.options); err != nil {
		return nil, err
	}
	if have != nil && have.root != v.root {
		return nil, fmt.Errorf("%w: another ring was put in its place", ErrDamaged)
	}
	for {
		now := s.view.Load()
		if now != nil && now.Revision >= st.Revision {
			return v, nil
		}
		if s.view.CompareAndSwap(now, v) {
			return v, nil
		}
	}
}

func (v *view) unseal(o Options) error {
	var root, watch []byte
	var audit []byte
	for _, one := range [...]struct {
		to     *[]byte
		what   string
		sealed []byte
	}{{&root, "root", v.Root}, {&audit, "audit keys", v.Audit}, {&watch, "witnesses", v.Watch}} {
		plain, err := v.inner.Decrypt(one.sealed, v.bound(one.what))
		if err != nil {
			return fmt.Errorf("%w: its %s", ErrDamaged, one.what)
		}
		*one.to = plain
	}
	const tokenLen = len(memory.Token{})
	if len(root) != keySize || len(watch)%tokenLen != 0 {
		return fmt.Errorf("%w: its records", ErrDamaged)
	}
	v.root = secret(root)
	for part := range slices.Chunk(watch, tokenLen) {
		v.watch = append(v.watch, memory.Token(part))
	}
	var err error
	if v.stored, err = parseAudit(audit); err != nil {
		return err
	}
	if v.audit, err = newAuditKeys(o.AuditKeys, v.stored); err != nil {
		return err
	}
	v.tokens = newMAC(v.root, "subject")
	if v.ciphers, err = lru.New[memory.KeyID, *subtle.AESGCM](o.Cache); err != nil {
		return err
	}
	v.known, err = lru.New[string, memory.KeyID](o.Cache)
	return err
}

// current reads the state in a transaction.
func (s *state) current(ctx context.Context, tx Tx, have *view) (*view, error) {
	began := int64(time.Since(epoch)) // before the look: it is as old as that
	st, ok, err := tx.State()
	switch {
	case err != nil:
		return nil, err
	case !ok && have == nil:
		return nil, &FileError{Path: s.backend.String(), Err: ErrNotFound, Fix: "make one (hearsay keyring create); if there was one, bring it back: without its keys the store says nothing"}
	case !ok:
		return nil, fmt.Errorf("%w: it is gone", ErrDamaged)
	}
	return s.see(ctx, have, st, began)
}

// unwrapError says which revision of the ring the wrapping key at hand does not open.
type unwrapError struct {
	revision int64
	err      error
}

func (e *unwrapError) Error() string { return e.err.Error() }
func (e *unwrapError) Unwrap() error { return e.err }

// read looks at the ring as it is now. work may be nil.
func (s *state) read(ctx context.Context, work func(v *view, tx Tx) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	refused := int64(-1) // the revision that the wrapping key did not open
	for {
		have := s.view.Load()
		err := s.backend.Do(ctx, Read, func(tx Tx) error {
			v, err := s.current(ctx, tx, have)
			if err != nil || work == nil {
				return err
			}
			return work(v, tx)
		})
		// Between the read and the unwrapping another process may wrap the ring anew and
		// destroy the version that was read. It commits the new ring first, so the next
		// read finds a later revision. If it finds the same one, the key is a wrong one.
		var unwrap *unwrapError
		overtaken := errors.Is(err, errOvertaken)
		if errors.As(err, &unwrap) && errors.Is(err, ErrWrapping) && unwrap.revision != refused {
			refused, overtaken = unwrap.revision, true
		}
		if overtaken {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("keyring: %w", err)
			}
			continue
		}
		if err == nil {
			if v := s.view.Load(); s.seen.Swap(v.Epoch) != v.Epoch {
				// What fails is done by the next destruction, which says so.
				_, _ = s.settle(ctx, v)
			}
		}
		return err
	}
}

// alone changes the ring. work says in the records what becomes of the state.
func (s *state) alone(ctx context.Context, work func(v *view, tx Tx, next *records) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	have := s.view.Load()
	changed := false
	err := s.backend.Do(ctx, Alone, func(tx Tx) error {
		v, err := s.current(ctx, tx, have)
		if err != nil {
			return err
		}
		next := records{State: v.State, audit: v.stored, watch: v.watch, inner: v.inner}
		if err := work(v, tx, &next); err != nil || !next.changed {
			return err
		}
		changed = true
		next.Revision++
		if err := next.seal(v.root); err != nil {
			return err
		}
		return tx.SetState(next.State)
	})
	if err != nil || !changed {
		return err
	}
	return s.read(context.WithoutCancel(ctx), nil)
}

// fresh is the ring as it was at most a while ago; 0 = as it is now.
func (s *state) fresh(ctx context.Context, while time.Duration) (*view, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	if v := s.view.Load(); v != nil && while > 0 && time.Since(epoch)-time.Duration(v.at.Load()) < while {
		return v, nil
	}
	if err := s.read(ctx, nil); err != nil {
		return nil, err
	}
	return s.view.Load(), nil
}

// lately is the ring as it was a moment ago. If it cannot be read, that of before still
// serves.
func (s *state) lately() *view {
	v, err := s.fresh(background, Staleness)
	if err != nil {
		return s.view.Load()
	}
	return v
}

// settle has this machine let go of the versions of the wrapping key that are older than
// the ring's, and tells the others that share the ring.
func (s *state) settle(ctx context.Context, v *view) (gone bool, err error) {
	gone, err = s.wrapping.Forget(ctx, v.Version)
	name := s.backend.Holder()
	now := Holder{Name: name, Epoch: v.Epoch, Seen: time.Now().Unix()}
	if err != nil || name == "" {
		return gone, err
	}
	said := false
	err = s.backend.Do(ctx, Read, func(tx Tx) error {
		list, err := tx.Holders()
		for _, h := range list {
			if h.Name != name {
				continue
			}
			if !gone { // it holds what it held
				now.Epoch = h.Epoch
			}
			said = h.Epoch >= now.Epoch
			return err
		}
		if !gone {
			now.Epoch = 0
		}
		return err
	})
	if err == nil && !said {
		err = s.backend.Do(ctx, Add, func(tx Tx) error { return tx.Hold(now) })
	}
	return gone, err
}

// pending says who can still unwrap what was covered in an epoch, and what to do; ""
// if nobody can.
func (s *state) pending(ctx context.Context, covered int64, version string) (string, error) {
	v, err := s.fresh(ctx, 0)
	if err != nil {
		return "", err
	}
	gone, err := s.settle(ctx, v)
	if err != nil {
		return "", err
	}
	if !gone {
		return fmt.Sprintf("version %s of the wrapping key is still at hand here: destroy it where it is kept, and take it out of what is given", version), nil
	}
	holders, err := s.behind(ctx, covered)
	if err != nil || len(holders) == 0 {
		return "", err
	}
	return fmt.Sprintf("version %s of the wrapping key is still held by %s: start a program there, or take out a machine that is gone (hearsay keyring release)", version, strings.Join(holders, ", ")), nil
}

// behind are the machines that can unwrap an epoch.
func (s *state) behind(ctx context.Context, covered int64) (names []string, err error) {
	if s.backend.Holder() == "" {
		return nil, nil
	}
	err = s.backend.Do(ctx, Read, func(tx Tx) error {
		list, err := tx.Holders()
		for _, h := range list {
			if h.Epoch <= covered {
				names = append(names, h.Name)
			}
		}
		return err
	})
	return names, err
}

// rewrap makes a new inner key under a newer version of the wrapping key, and seals all
// keys that are left under it. One that is damaged stays as it is: nothing opens it.
func (s *state) rewrap(ctx context.Context, v *view, tx Tx, next *records) error {
	if err := next.newInner(ctx, s.wrapping); err != nil {
		return err
	}
	return s.reseal(v, tx, next)
}

// reseal seals all keys that are left under the new inner key.
func (s *state) reseal(v *view, tx Tx, next *records) error {
	next.Epoch++
	next.changed = true
	for after := memory.KeyID(0); ; {
		list, err := tx.Scan(after, atOnce)
		if err != nil || len(list) == 0 {
			return err
		}
		after = list[len(list)-1].ID
		kept := list[:0]
		for _, e := range list {
			key, err := v.inner.Decrypt(e.Sealed, v.boundEntry(e))
			if err != nil {
				continue
			}
			if e.Sealed, err = next.inner.Encrypt(key, next.boundEntry(e)); err != nil {
				return err
			}
			kept = append(kept, e)
		}
		if err := tx.Update(kept...); err != nil {
			return err
		}
	}
}

// use returns a data key to seal or open with.
func (s *state) use(ctx context.Context, id memory.KeyID) (key *subtle.AESGCM, err error) {
	v, err := s.fresh(ctx, Staleness)
	if err != nil {
		return nil, err
	}
	if key, ok := v.ciphers.Get(id); ok {
		return key, nil
	}
	err = s.read(ctx, func(v *view, tx Tx) error {
		list, err := tx.Find(id)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return fmt.Errorf("keyring: key %s: %w", id, memory.ErrKey)
		}
		if list[0].Sealed == nil {
			return fmt.Errorf("keyring: key %s: %w", id, memory.ErrErased)
		}
		plain, err := v.inner.Decrypt(list[0].Sealed, v.boundEntry(list[0]))
		if err != nil {
			// Of this subject alone: the others are read as ever.
			return fmt.Errorf("key %s is %w: %w", id, ErrDamaged, memory.ErrKey)
		}
		if key, err = newAEAD(plain); err != nil {
			return err
		}
		v.ciphers.Add(id, key)
		return nil
	})
	return key, err
}

// maxSubject bounds the subjects that are remembered.
const maxSubject = 1024

func (v *view) remember(subject string, id memory.KeyID) {
	if len(subject) <= maxSubject {
		v.known.Add(subject, id)
	}
}

// wanted is a subject whose present key is looked for.
type wanted struct {
	subject string
	id      memory.KeyID // 0: there is none yet
	now     Token        // of its present generation
	erased  bool         // its present key was destroyed
}

// keysOf returns the present keys of subjects, and makes those that there are not. One
// that was destroyed though its subject was not retired is 0.
func (s *state) keysOf(ctx context.Context, subjects ...string) ([]memory.KeyID, error) {
	list := make([]wanted, len(subjects))
	for i, subject := range subjects {
		if err := given(subject); err != nil {
			return nil, err
		}
		list[i].subject = subject
	}
	known := true
	for _, w := range list {
		known = known && s.view.Load().known.Contains(w.subject)
	}
	var (
		of      *view
		missing []*wanted
		err     error
	)
	if known {
		err = s.read(ctx, func(v *view, tx Tx) (err error) {
			of = v
			missing, err = v.look(tx, list)
			return err
		})
	}
	if err == nil && (!known || len(missing) > 0) { // most that are not known here are new
		of, err = s.create(ctx, list)
	}
	if err != nil {
		return nil, err
	}
	ids := make([]memory.KeyID, len(list))
	for i, w := range list {
		if !w.erased {
			ids[i] = w.id
			of.remember(w.subject, w.id)
		}
	}
	return ids, nil
}

// look finds the keys of subjects, and returns those that have none.
func (v *view) look(tx Tx, list []wanted) (missing []*wanted, err error) {
	var open []*wanted
	for i := range list {
		w := &list[i]
		w.id, w.erased = 0, false
		if id, ok := v.known.Get(w.subject); ok {
			w.id = id
		} else {
			open = append(open, w)
		}
	}
	for n := uint64(0); len(open) > 0; n++ {
		tokens := make([]Token, len(open))
		for i, w := range open {
			tokens[i] = v.token(n, w.subject)
		}
		entries, err := tx.Of(tokens...)
		if err != nil {
			return nil, err
		}
		by := make(map[Token]Entry, len(entries))
		for _, e := range entries {
			by[e.Of] = e
		}
		var later []*wanted
		for i, w := range open {
			e, ok := by[tokens[i]]
			switch {
			case !ok:
				w.now = tokens[i]
				missing = append(missing, w)
			case e.Retired:
				later = append(later, w)
			case e.Sealed == nil:
				w.erased = true
			default:
				w.id = e.ID
			}
		}
		open = later
	}
	return missing, nil
}

// create makes the keys of those subjects that have none, and returns the ring as it was
// then. Of two machines that make the key of one subject at once, both get the one that
// was first.
func (s *state) create(ctx context.Context, list []wanted) (v *view, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("keyring: %w", err)
	}
	have := s.view.Load()
	made := map[memory.KeyID]secret{}
	err = s.backend.Do(ctx, Add, func(tx Tx) error {
		if v, err = s.current(ctx, tx, have); err != nil {
			return err
		}
		missing, err := v.look(tx, list)
		if err != nil || len(missing) == 0 {
			return err
		}
		// In one order, so that two who make many do not wait for each other.
		slices.SortFunc(missing, func(a, b *wanted) int { return a.now.compare(b.now) })
		entries := make([]Entry, len(missing))
		for i, w := range missing {
			var id [8]byte
			_, _ = rand.Read(id[:])                                                         // never fails
			e := Entry{ID: memory.KeyID(max(binary.BigEndian.Uint64(id[:]), 1)), Of: w.now} // 0 is no key
			key := random()
			made[e.ID] = key
			if e.Sealed, err = v.inner.Encrypt(key[:], v.boundEntry(e)); err != nil {
				return err
			}
			entries[i] = e
		}
		if err := tx.Insert(entries...); err != nil {
			return err
		}
		if missing, err = v.look(tx, list); err == nil && len(missing) > 0 {
			err = fmt.Errorf("keyring: %s: a key was not kept; try again", s.backend)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, w := range list { // it is used next
		if key, ok := made[w.id]; ok {
			aead, err := newAEAD(key[:])
			if err != nil {
				return nil, err
			}
			v.ciphers.Add(w.id, aead)
		}
	}
	return v, nil
}
