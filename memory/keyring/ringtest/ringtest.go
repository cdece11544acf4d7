// Package ringtest holds what every form of a ring must do, for the tests of each.
package ringtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// Opener opens a ring once more, as another process or machine that shares it does.
type Opener func() (*keyring.Ring, error)

// Run runs the cases. fresh makes a new ring for a test, and says how to open it again.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, open: fresh(t)}
			c.run(w)
		})
	}
}

type world struct {
	*testing.T
	open Opener
}

func (w *world) ring() *keyring.Ring {
	w.Helper()
	k, err := w.open()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := k.Close(); err != nil {
			w.Error(err)
		}
	})
	return k
}

func (w *world) key(k *keyring.Ring, subject string) memory.KeyID {
	w.Helper()
	id, err := k.Key(w.Context(), subject)
	if err != nil || id == 0 {
		w.Fatal(id, err)
	}
	return id
}

var row = []byte("row 1")

func (w *world) seal(k *keyring.Ring, id memory.KeyID, text string) []byte {
	w.Helper()
	sealed, err := k.Seal(w.Context(), id, []byte(text), row)
	if err != nil {
		w.Fatal(err)
	}
	return sealed
}

func (w *world) opens(k *keyring.Ring, id memory.KeyID, sealed []byte, want string) {
	w.Helper()
	if got, err := k.Open(w.Context(), id, sealed, row); err != nil || string(got) != want {
		w.Fatalf("opened %q, want %q (%v)", got, want, err)
	}
}

func (w *world) wrong(err, want error) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("error is %v, want %v", err, want)
	}
}

// destroy destroys keys, and goes on until nothing of it is pending: each of the others
// that share the ring looks at it in between.
func (w *world) destroy(k *keyring.Ring, others []*keyring.Ring, keys ...memory.KeyID) memory.Destruction {
	w.Helper()
	for range 3 {
		d, err := k.Destroy(w.Context(), keys...)
		if err != nil {
			w.Fatal(err)
		}
		if d.Pending == "" {
			return d
		}
		time.Sleep(keyring.Staleness)
		for _, other := range others {
			if _, err := other.Subject(w.Context(), "somebody"); err != nil {
				w.Fatal(err)
			}
			if _, err := other.Witnesses(w.Context()); err != nil {
				w.Fatal(err)
			}
		}
	}
	w.Fatal("the destruction stays pending")
	return memory.Destruction{}
}

var cases = []struct {
	name string
	run  func(w *world)
}{
	{"a subject has one key and its own", func(w *world) {
		k := w.ring()
		names := []string{"ann", "bob", "Ann", "ann ", "ann\x00", string(bytes.Repeat([]byte("ann"), 5000))}
		of := map[memory.KeyID]string{}
		for range 2 {
			for _, name := range names {
				of[w.key(k, name)] = name
			}
		}
		if len(of) != len(names) {
			w.Fatalf("%d subjects have %d keys", len(names), len(of))
		}
		if _, err := k.Key(w.Context(), ""); !errors.Is(err, memory.ErrInvalid) {
			w.Fatal(err)
		}
	}},
	{"many keys are made at once and are those that each is given", func(w *world) {
		k := w.ring()
		known := w.key(k, "subject 7")
		var names []string
		for n := range 700 {
			names = append(names, fmt.Sprint("subject ", n))
		}
		ids, err := k.Prepare(w.Context(), names...)
		if err != nil || len(ids) != len(names) || ids[7] != known {
			w.Fatal(err, len(ids))
		}
		other := w.ring()
		for i, name := range names {
			if i%50 == 0 && w.key(other, name) != ids[i] {
				w.Fatalf("%s has another key", name)
			}
		}
		if unique := slices.Compact(slices.Sorted(slices.Values(ids))); len(unique) != len(names) || unique[0] == 0 {
			w.Fatal("two subjects have one key, or one has none")
		}
		w.opens(other, ids[3], w.seal(k, ids[3], "text"), "text")
	}},
	{"what is sealed opens under its key and data only", func(w *world) {
		k := w.ring()
		a, b := w.key(k, "ann"), w.key(k, "bob")
		sealed := w.seal(k, a, "she is allergic to nuts")
		w.opens(w.ring(), a, sealed, "she is allergic to nuts")
		_, err := k.Open(w.Context(), b, sealed, row)
		w.wrong(err, memory.ErrKey)
		_, err = k.Open(w.Context(), a, sealed, []byte("row 2"))
		w.wrong(err, memory.ErrKey)
		_, err = k.Seal(w.Context(), 12345, nil, nil)
		w.wrong(err, memory.ErrKey)
	}},
	{"a retired subject begins anew, everywhere", func(w *world) {
		here, there := w.ring(), w.ring()
		a, b := w.key(here, "ann"), w.key(here, "bob")
		if w.key(there, "ann") != a {
			w.Fatal("another key")
		}
		old := w.seal(there, a, "they met")
		for range 2 {
			if got, err := here.Retire(w.Context(), "ann"); err != nil || !slices.Equal(got, []memory.KeyID{a}) {
				w.Fatalf("retired %x, want %x (%v)", got, a, err)
			}
		}
		anew := w.key(there, "ann")
		if anew == a || w.key(here, "bob") != b {
			w.Fatal("a retired key is in use, or another was retired")
		}
		w.opens(here, a, old, "they met")
		if got, err := there.Subject(w.Context(), "ann"); err != nil || !slices.Equal(got, slices.Sorted(slices.Values([]memory.KeyID{a, anew}))) {
			w.Fatalf("keys %x (%v)", got, err)
		}
		if d := w.destroy(here, []*keyring.Ring{there}, a); d.Version == "" || d.At.IsZero() {
			w.Fatalf("%+v", d)
		}
		_, err := here.Open(w.Context(), a, old, row)
		w.wrong(err, memory.ErrErased)
		time.Sleep(keyring.Staleness)
		_, err = there.Open(w.Context(), a, old, row)
		w.wrong(err, memory.ErrErased)
		_, err = there.Seal(w.Context(), a, nil, nil)
		w.wrong(err, memory.ErrErased)
		third := w.ring()
		for _, k := range []*keyring.Ring{here, there, third} {
			w.opens(k, b, w.seal(there, b, "about bob"), "about bob")
			w.opens(k, anew, w.seal(here, anew, "she came back"), "she came back")
		}
		w.destroy(there, []*keyring.Ring{here, third}, a) // again
		_, err = here.Destroy(w.Context(), anew, 12345)
		w.wrong(err, memory.ErrKey)
		w.opens(here, anew, w.seal(here, anew, "still there"), "still there")
	}},
	{"rings that make a key at once have one", func(w *world) {
		rings := make([]*keyring.Ring, 6)
		for i := range rings {
			rings[i] = w.ring()
		}
		for round := range 8 {
			made := make([]memory.KeyID, len(rings))
			var all sync.WaitGroup
			for i, k := range rings {
				all.Go(func() {
					names := []string{fmt.Sprint("subject ", round), fmt.Sprint("other ", round)}
					if i%2 == 0 {
						slices.Reverse(names)
					}
					if _, err := k.Prepare(w.Context(), names...); err != nil {
						w.Error(err)
					}
					id, err := k.Key(w.Context(), fmt.Sprint("subject ", round))
					if err != nil {
						w.Error(err)
					}
					made[i] = id
				})
			}
			all.Wait()
			if slices.Min(made) != slices.Max(made) || made[0] == 0 {
				w.Fatalf("keys %x", made)
			}
			sealed := w.seal(rings[0], made[0], "text")
			for _, k := range rings {
				w.opens(k, made[0], sealed, "text")
			}
		}
	}},
	{"keys are made while others are destroyed, and none of either is lost", func(w *world) {
		rings := []*keyring.Ring{w.ring(), w.ring(), w.ring()}
		type one struct {
			id     memory.KeyID
			sealed []byte
		}
		var mu sync.Mutex
		var kept, gone []one
		var all sync.WaitGroup
		for i, k := range rings {
			all.Go(func() {
				for n := range 12 {
					name := fmt.Sprintf("subject %d of %d", n, i)
					id, err := k.Key(w.Context(), name)
					var sealed []byte
					if err == nil {
						sealed, err = k.Seal(w.Context(), id, []byte(name), row)
					}
					if err == nil && n%4 == 3 {
						var list []memory.KeyID
						if list, err = k.Retire(w.Context(), name); err == nil {
							_, err = k.Destroy(w.Context(), list...)
						}
					}
					if err != nil {
						w.Error(err)
						return
					}
					mu.Lock()
					if n%4 == 3 {
						gone = append(gone, one{id, sealed})
					} else {
						kept = append(kept, one{id, sealed})
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		for _, k := range append(rings, w.ring()) {
			for _, o := range kept {
				if _, err := k.Open(w.Context(), o.id, o.sealed, row); err != nil {
					w.Fatal(err)
				}
			}
		}
		time.Sleep(keyring.Staleness)
		for _, k := range append(rings, w.ring()) {
			for _, o := range gone {
				_, err := k.Open(w.Context(), o.id, o.sealed, row)
				w.wrong(err, memory.ErrErased)
			}
		}
	}},
	{"audit keys are rotated for all", func(w *world) {
		here, there := w.ring(), w.ring()
		first, key := here.Audit()
		id, err := here.Rotate(w.Context())
		if err != nil || id == first {
			w.Fatal(id, err)
		}
		time.Sleep(keyring.Staleness)
		if now, _ := there.Audit(); now != id || there.Root() != here.Root() {
			w.Fatalf("audit key %d, want %d", now, id)
		}
		if old, ok := there.AuditKey(first); !ok || old != key {
			w.Fatal("the key of before is gone")
		}
	}},
	{"a witness is recorded once", func(w *world) {
		here, there := w.ring(), w.ring()
		var won []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i, k := range []*keyring.Ring{here, there} {
			all.Go(func() {
				err := k.SetWitness(w.Context(), 0, memory.Token{byte(i + 1)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					won = append(won, i)
				case !errors.Is(err, memory.ErrConflict):
					w.Error(err)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			w.Fatalf("%d have recorded the first witness", len(won))
		}
		time.Sleep(keyring.Staleness)
		for _, k := range []*keyring.Ring{here, there, w.ring()} {
			if list, err := k.Witnesses(w.Context()); err != nil || !slices.Equal(list, []memory.Token{{byte(won[0] + 1)}}) {
				w.Fatal(list, err)
			}
		}
	}},
	{"a context that ends is heard", func(w *world) {
		k := w.ring()
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := k.Key(ctx, "ann")
		w.wrong(err, context.Canceled)
		w.key(k, "ann")
	}},
	{"a small cache serves many subjects", func(w *world) {
		k := w.ring() // Cache is whatever fresh chose
		ids, sealed := map[string]memory.KeyID{}, map[string][]byte{}
		for n := range 64 {
			name := fmt.Sprint("subject ", n)
			ids[name] = w.key(k, name)
			sealed[name] = w.seal(k, ids[name], name)
		}
		for name, id := range ids {
			if w.key(k, name) != id {
				w.Fatal("another key")
			}
			w.opens(k, id, sealed[name], name)
		}
	}},
}
