package memory

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode"
)

const maxScope = 1 << 10

func checkScope(field, name string) error {
	if err := checkText(field, name, maxScope); err != nil {
		return err
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return invalid(field, "malformed", "contains a control character")
	}
	return nil
}

// spaced is a driver as one namespace of a tenant sees it: every key and term
// bears the namespace in front. A scope holds no control character, so that no
// key of one namespace is a key of another.
type spaced struct {
	Driver
	prefix string
}

// spaceMark stands before and after the name of a namespace. No key of the store
// itself begins with it.
const spaceMark = "\x01"

func spacePrefix(namespace string) string { return spaceMark + namespace + spaceMark }

func (d spaced) Apply(ctx context.Context, tenant string, b Batch) error {
	in := Batch{Checks: make([]Check, len(b.Checks)), Puts: make([]Put, len(b.Puts))}
	for i, c := range b.Checks {
		in.Checks[i] = Check{Key: d.prefix + c.Key, Revision: c.Revision}
	}
	for i, p := range b.Puts {
		p.Key = d.prefix + p.Key
		p.Add = d.terms(p.Add)
		remove := make([]string, len(p.Remove))
		for j, t := range p.Remove {
			remove[j] = d.prefix + t
		}
		p.Remove = remove
		in.Puts[i] = p
	}
	return d.conflict(d.Driver.Apply(ctx, tenant, in))
}

// conflict is an error without the namespace in the key that it names.
func (d spaced) conflict(err error) error {
	var conflict *ConflictError
	if errors.As(err, &conflict) { // its text has the prefix too
		return &ConflictError{Key: strings.TrimPrefix(conflict.Key, d.prefix)}
	}
	return err
}

func (d spaced) terms(terms []Term) []Term {
	out := make([]Term, len(terms))
	for i, t := range terms {
		out[i] = Term{Name: d.prefix + t.Name, Sort: t.Sort}
	}
	return out
}

func (d spaced) Get(ctx context.Context, tenant string, keys []string) ([]Object, error) {
	in := make([]string, len(keys))
	for i, k := range keys {
		in[i] = d.prefix + k
	}
	objects, err := d.Driver.Get(ctx, tenant, in)
	for i := range objects {
		objects[i].Key = keys[i]
	}
	return objects, err
}

func (d spaced) Query(ctx context.Context, tenant string, q Query) ([]Hit, string, error) {
	q.Term = d.prefix + q.Term
	hits, next, err := d.Driver.Query(ctx, tenant, q)
	for i := range hits {
		hits[i].Key = strings.TrimPrefix(hits[i].Key, d.prefix)
	}
	return hits, next, err
}

func (d spaced) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]LogEntry, error) {
	return d.Driver.History(ctx, tenant, d.prefix+key, after, limit)
}

func (d spaced) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	if after != "" {
		after = d.prefix + after
	}
	keys, next, err := d.Driver.Logs(ctx, tenant, d.prefix+prefix, after, limit)
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], d.prefix)
	}
	return keys, strings.TrimPrefix(next, d.prefix), err
}

func (d spaced) Scan(ctx context.Context, tenant, prefix string, after LogPlace, limit int) ([]Logged, bool, error) {
	if after.Key != "" {
		after.Key = d.prefix + after.Key
	}
	entries, more, err := d.Driver.Scan(ctx, tenant, d.prefix+prefix, after, limit)
	for i := range entries {
		entries[i].Key = strings.TrimPrefix(entries[i].Key, d.prefix)
	}
	return entries, more, err
}

func (d spaced) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[Restored, error] {
	return func(yield func(Restored, error) bool) {
		for o, err := range d.Driver.Objects(ctx, tenant, d.prefix+prefix) {
			o.Key = strings.TrimPrefix(o.Key, d.prefix)
			for i := range o.Terms { // one of another namespace keeps its mark
				o.Terms[i].Name = strings.TrimPrefix(o.Terms[i].Name, d.prefix)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// Carriers leaves the mark of another namespace on a key: what is listed under a term
// of this one and is not of it is to be seen.
func (d spaced) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[Carrier, error] {
	return func(yield func(Carrier, error) bool) {
		for c, err := range d.Driver.Carriers(ctx, tenant, d.prefix+prefix) {
			c.Name = strings.TrimPrefix(c.Name, d.prefix)
			c.Key = strings.TrimPrefix(c.Key, d.prefix)
			if !yield(c, err) {
				return
			}
		}
	}
}

func (d spaced) Restore(ctx context.Context, tenant string, objects []Restored) error {
	in := make([]Restored, len(objects))
	for i, o := range objects {
		o.Key = d.prefix + o.Key
		o.Terms = d.terms(o.Terms)
		in[i] = o
	}
	return d.Driver.Restore(ctx, tenant, in)
}

func (d spaced) Rewrite(ctx context.Context, tenant, key string, entries []Rewritten) error {
	return d.conflict(d.Driver.Rewrite(ctx, tenant, d.prefix+key, entries))
}

// fingerprint is what the keys of the store are known by.
func (s *Store) fingerprint() []byte {
	f := derive(s.keys.Root(), "fingerprint/1", s.scope.tenant, s.scope.namespace)
	return f[:16]
}

// keysObject is what the first object of a scope holds: what its keys are known by, and
// [Form].
func (s *Store) keysObject() []byte { return binary.AppendUvarint(s.fingerprint(), Form) }

// formOf reads the form behind the fingerprint. Versions that knew none wrote nothing there.
func formOf(b []byte) int {
	form, n := binary.Uvarint(b)
	if n != len(b) {
		return 0
	}
	return int(form)
}

// admit makes sure that the store was written with these keys and is all there, or is
// empty and was never written with them.
func (s *Store) admit(ctx context.Context) (empty bool, err error) {
	if s.known.Load() {
		return false, nil
	}
	// The keys first: whoever makes the store meanwhile writes it before it tells them.
	made, err := s.keys.Subject(ctx, s.scope.mark())
	if err != nil {
		return false, err
	}
	objs, err := s.driver.Driver.Get(ctx, s.scope.tenant, []string{keysKey})
	if err != nil {
		return false, err
	}
	o, f := objs[0], s.fingerprint()
	switch {
	case o.Revision == 0 && len(made) == 0:
		return true, nil
	case o.Revision == 0:
		return false, fmt.Errorf("%w: the keyring belongs to a store that was written, and there is none here: it is another one, or what is in it was deleted", ErrDamaged)
	case len(o.Data) < len(f) || !hmac.Equal(o.Data[:len(f)], f):
		return false, &WrongKeyError{Tenant: s.scope.tenant, Namespace: s.scope.namespace}
	case len(o.Data) == len(f) && len(made) == 0:
		return false, &FormError{}
	case !s.driver.unsealed(&o):
		return false, &DamagedError{Keys: []string{keysKey}}
	}
	if err := CheckForm(formOf(o.Data[len(f):])); err != nil {
		return false, err
	}
	if len(made) == 0 { // whoever made the store was cut off
		if _, err := s.keys.Key(ctx, s.scope.mark()); err != nil {
			return false, fmt.Errorf("the keyring: %w", err)
		}
	}
	s.known.Store(true)
	return false, nil
}

// mark names, to the keys, that this scope was written in the present form. The keys
// remember it, so that a store which was emptied or put back to an older form is not
// taken for a new or an old one. It is the name of no data subject.
func (s *scope) mark() string {
	e := encoder{}
	for _, part := range [...]string{s.tenant, s.namespace, "", fmt.Sprint("form ", Form)} {
		e.str(part)
	}
	return string(e.b)
}

// ready is admit for who is about to write or to decide: a store that was never written
// is made.
func (s *Store) ready(ctx context.Context) error {
	empty, err := s.admit(ctx)
	if err != nil || !empty {
		return err
	}
	err = s.establish(ctx)
	if empty, again := s.admit(ctx); again != nil {
		return again
	} else if empty {
		return err
	}
	return nil
}

// establish makes what must exist in every scope, in one transaction. From then on a part of
// it that is missing was deleted.
func (s *Store) establish(ctx context.Context) error {
	tx := &transaction{ctx: ctx, store: s, now: s.Now()}
	tx.put(Put{Key: keysKey, Data: s.keysObject()})
	tx.singletons(func(string) bool { return true })
	if err := tx.complete(); err != nil {
		return err
	}
	return s.driver.Apply(ctx, s.scope.tenant, tx.Batch)
}

// singletons puts those of the epoch, the revocations and the fences that are missing.
func (t *transaction) singletons(missing func(key string) bool) {
	made := func(reason string) AuditEntry {
		return AuditEntry{Kind: EntryMade, Revision: 1, At: t.now, Actor: "store", Authority: AuthoritySystem, Source: "store", Reason: reason, Nonce: newNonce()}
	}
	nobody := t.nobody()
	if missing(epochKey) {
		t.log(Put{Key: epochKey}, link{}, nil, nil, nobody, made("the first epoch"), change{})
	}
	if missing(revokedKey) {
		data := t.store.scope.sealRevocations(0, nil, nil)
		t.log(Put{Key: revokedKey}, link{}, data, data, nobody, made("nothing is revoked"), change{})
	}
	for _, key := range fenceKeys {
		if missing(key) {
			t.put(Put{Key: key, Data: fenceData})
		}
	}
}

// WrongKeyError: the store was written with other keys than those at hand.
// errors.Is(err, ErrKey) holds. Nothing was written.
type WrongKeyError struct{ Tenant, Namespace string }

func (e *WrongKeyError) Error() string {
	return "memory: the store of tenant " + e.Tenant + " was written with other keys; give the keyring it was made with"
}

// Is reports whether target is [ErrKey].
func (e *WrongKeyError) Is(target error) bool { return target == ErrKey }

func (s *Store) get(ctx context.Context, keys ...string) ([]Object, error) {
	empty, err := s.admit(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, nil
	}
	objs, err := s.driver.Get(ctx, s.scope.tenant, keys)
	if err == nil && !empty && slices.ContainsFunc(objs, gone) {
		err = &DamagedError{Keys: []string{revokedKey}}
	}
	var damaged *DamagedError
	if errors.As(err, &damaged) {
		for _, key := range damaged.Keys {
			s.forget(key)
		}
	}
	return objs, err
}

// gone reports whether the revocations, which are made with the store, are missing. A store
// that was empty before the read has none, also if another goroutine has made it since.
func gone(o Object) bool { return o.Key == revokedKey && o.Revision == 0 }

// each is get for who can do without some of the objects: damaged are the indices of
// those that are not what was written.
func (s *Store) each(ctx context.Context, keys []string) (objs []Object, damaged []int, err error) {
	empty, err := s.admit(ctx)
	if err != nil {
		return nil, nil, err
	}
	objs, damaged, err = s.driver.each(ctx, s.scope.tenant, keys)
	if at := slices.IndexFunc(objs, gone); at >= 0 && !empty {
		damaged = append(damaged, at)
		slices.Sort(damaged)
	}
	for _, i := range damaged {
		s.forget(keys[i])
	}
	return objs, damaged, err
}

func (s *Store) query(ctx context.Context, q Query) ([]Hit, string, error) {
	return s.driver.Query(ctx, s.scope.tenant, q)
}

// queryOf is query of a term that keys of one kind carry. Lines of the index bear no MAC:
// one that somebody added of anything else is passed over, and a verification finds it.
func (s *Store) queryOf(ctx context.Context, q Query, kind func(key string) bool) ([]Hit, string, error) {
	hits, next, err := s.query(ctx, q)
	return slices.DeleteFunc(hits, func(h Hit) bool { return !kind(h.Key) }), next, err
}

// queryRows is query of a term that rows carry.
func (s *Store) queryRows(ctx context.Context, q Query) (hits []Hit, ids []ID, next string, err error) {
	hits, next, err = s.queryOf(ctx, q, func(key string) bool { return rowOf(key) != "" })
	ids = make([]ID, len(hits))
	for i, h := range hits {
		ids[i] = rowOf(h.Key)
	}
	return hits, ids, next, err
}

func (s *Store) write(ctx context.Context, b Batch) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.driver.Apply(ctx, s.scope.tenant, b)
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		s.forget(conflict.Key)
	}
	return err
}
