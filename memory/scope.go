package memory

import (
	"context"
	"crypto/hmac"
	"errors"
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

// admit makes sure that the store was written with these keys, or is empty.
func (s *Store) admit(ctx context.Context) (empty bool, err error) {
	if s.known.Load() {
		return false, nil
	}
	objs, err := s.driver.Get(ctx, s.scope.tenant, []string{keysKey})
	switch {
	case err != nil:
		return false, err
	case objs[0].Revision == 0:
		return true, nil
	case !hmac.Equal(objs[0].Data, s.fingerprint()):
		return false, &WrongKeyError{Tenant: s.scope.tenant, Namespace: s.scope.namespace}
	}
	s.known.Store(true)
	return false, nil
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
	if _, err := s.admit(ctx); err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		return nil, nil
	}
	return s.driver.Get(ctx, s.scope.tenant, keys)
}

func (s *Store) query(ctx context.Context, q Query) ([]Hit, string, error) {
	return s.driver.Query(ctx, s.scope.tenant, q)
}

func (s *Store) write(ctx context.Context, b Batch) error {
	empty, err := s.admit(ctx)
	if err != nil {
		return err
	}
	if empty {
		err := s.driver.Apply(ctx, s.scope.tenant, Batch{Puts: []Put{{Key: keysKey, Data: s.fingerprint()}}})
		if empty, again := s.admit(ctx); again != nil {
			return again
		} else if empty {
			return err
		}
	}
	err = s.driver.Apply(ctx, s.scope.tenant, b)
	var conflict *ConflictError
	if errors.As(err, &conflict) {
		s.forget(conflict.Key)
	}
	return err
}
