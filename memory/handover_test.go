package memory_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func nonce() (n memory.Token) {
	rand.Read(n[:])
	return n
}

func TestANonceIsSpentOnce(t *testing.T) {
	until := time.Now().Add(time.Hour)
	path := filepath.Join(t.TempDir(), "agent.db")
	ring := keyring.Ephemeral()
	open := func() *memory.Store {
		d, err := sqlitestore.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := memory.New(d, ring, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := open()
	second := open() // another process has a driver of its own
	t.Run("of many who try at once, in two processes, one gets it", func(t *testing.T) {
		for name, left := range map[string][]byte{"nothing left": nil, "something left": []byte("rows")} {
			n := nonce()
			if left != nil {
				if err := first.Leave(t.Context(), n, until, left); err != nil {
					t.Fatal(err)
				}
			}
			var won atomic.Int32
			var wg sync.WaitGroup
			for i := range 8 {
				s := first
				if i%2 == 0 {
					s = second
				}
				wg.Go(func() {
					switch got, err := s.Spend(t.Context(), n); {
					case err == nil && bytes.Equal(got, left):
						won.Add(1)
					case !errors.Is(err, memory.ErrSpent):
						t.Errorf("%s: %q, %v", name, got, err)
					}
				})
			}
			wg.Wait()
			if won.Load() != 1 {
				t.Errorf("%s: %d took it", name, won.Load())
			}
		}
	})
	n := nonce()
	if _, err := first.Spend(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := first.Leave(t.Context(), n, until, []byte("x")); !errors.Is(err, memory.ErrConflict) {
		t.Errorf("left under a nonce that was spent: %v", err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	third := open()
	defer third.Close()
	t.Run("it stays spent when the store is closed, opened, compacted and rebuilt", func(t *testing.T) {
		if _, err := third.Compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := third.Rebuild(t.Context(), "operator", nil); err != nil {
			t.Fatal(err)
		}
		if _, err := third.Spend(t.Context(), n); !errors.Is(err, memory.ErrSpent) {
			t.Error(err)
		}
	})
}

func TestANonceIsSpentOnceWhateverTheDriverSays(t *testing.T) {
	// The driver writes and says that it does not know.
	d := &doubtful{Driver: storetest.NewMap()}
	s := storetest.On(d, nil)
	if _, err := s.Spend(t.Context(), nonce()); err != nil {
		t.Fatal(err)
	}
	n := nonce()
	d.err = fmt.Errorf("%w: the line broke", memory.ErrStore)
	if _, err := s.Spend(t.Context(), n); err != nil {
		t.Errorf("its own write is not known again: %v", err)
	}
	d.err = nil
	if _, err := s.Spend(t.Context(), n); !errors.Is(err, memory.ErrSpent) {
		t.Errorf("a second time: %v", err)
	}
}

// doubtful reports an error although it wrote.
type doubtful struct {
	memory.Driver
	err error
}

func (d *doubtful) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return errors.Join(d.Driver.Apply(ctx, tenant, b), d.err)
}

func TestWhatNobodyTakesIsDropped(t *testing.T) {
	now := time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)
	s := storetest.NewStore(&memory.Options{Clock: func() time.Time { return now }})
	old, fresh := nonce(), nonce()
	if err := s.Leave(t.Context(), old, now.Add(time.Minute), []byte("old")); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	if err := s.Leave(t.Context(), fresh, now.Add(time.Minute), []byte("fresh")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Spend(t.Context(), old); !errors.Is(err, memory.ErrSpent) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := s.Spend(t.Context(), fresh); err != nil || string(got) != "fresh" {
		t.Errorf("%q, %v", got, err)
	}
	var field *memory.FieldError
	if err := s.Leave(t.Context(), nonce(), now, make([]byte, memory.MaxLeft+1)); !errors.As(err, &field) || field.Field != "left" {
		t.Errorf("too much: %v", err)
	}
}

func TestTheIdentityIsOfTheScope(t *testing.T) {
	d, ring := storetest.NewMap(), keyring.Ephemeral()
	on := func(o memory.Options) *memory.Store {
		s, err := memory.New(d, ring, &o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, again, tenant, space := on(memory.Options{}), on(memory.Options{}), on(memory.Options{Tenant: "b"}), on(memory.Options{Namespace: "n"})
	if a.Identity() != again.Identity() {
		t.Error("one store has two identities")
	}
	if a.Identity() == tenant.Identity() || a.Identity() == space.Identity() || a.Identity() == (memory.Token{}) {
		t.Error("two scopes have one identity")
	}
	n := nonce()
	for _, s := range []*memory.Store{a, tenant, space} { // each has nonces of its own
		if _, err := s.Spend(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
}
