//go:build unix

package storeurl_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// Two machines have nothing in common but the store and a keyring in PostgreSQL: each
// reads what the other writes about new subjects, an erasure on one holds on both, and
// one that joins later reads all.
func TestMachinesShareAKeyring(t *testing.T) {
	db, err := server.Postgres(t.Context())
	server.Need(t, err)
	t.Cleanup(func() {
		if err := db.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	store := "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
	wrap := filepath.Join(t.TempDir(), "wrap")
	wrapping, err := keyring.CreateWrappingFile(wrap)
	if err != nil {
		t.Fatal(err)
	}
	open := func(wrap string) (*memory.Store, error) {
		w, err := keyring.ParseWrapping("file:" + wrap)
		if err != nil {
			return nil, err
		}
		return storeurl.Open(t.Context(), store, &storeurl.Options{Keyring: db.URL(), Wrapping: w})
	}
	must := func(wrap string) *memory.Store {
		t.Helper()
		s, err := open(wrap)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if _, err := open(wrap); !errors.Is(err, keyring.ErrNotFound) { // none is made unasked
		t.Fatal(err)
	}
	ring, err := storeurl.CreateKeyring(t.Context(), db.URL(), &keyring.Options{Wrapping: wrapping}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
	copied := func() string {
		t.Helper()
		data, err := os.ReadFile(wrap)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(t.TempDir(), "wrap")
		if err := os.WriteFile(to, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return to
	}
	other := copied()
	a, b := must(wrap), must(other)
	put := func(s *memory.Store, subject string) {
		t.Helper()
		_, err := s.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: subject, Predicate: "is", Object: "here", Cardinality: memory.CardinalitySetValued},
			Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "m", Family: "f"},
			Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityMedium})
		if err != nil {
			t.Fatal(err)
		}
	}
	for n := range 6 {
		put([]*memory.Store{a, b}[n%2], fmt.Sprint("customer ", n))
		put([]*memory.Store{b, a}[n%2], fmt.Sprint("shared ", n/2))
	}
	rows := func(s *memory.Store) (n int) {
		t.Helper()
		for _, err := range s.Rows(t.Context(), memory.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	before := rows(a)
	if before < 9 || rows(b) != before {
		t.Fatalf("%d rows on one machine, %d on the other", before, rows(b))
	}
	erase := memory.Erasure{Subject: "customer 0", Request: "R", Actor: "dpo"}
	c, err := a.Erase(t.Context(), erase)
	if errors.Is(err, memory.ErrPending) { // until the other one has looked
		put(b, "customer 7")
		before++
		c, err = a.Erase(t.Context(), erase)
	}
	if err != nil || c.Version == "" || c.Gone.IsZero() {
		t.Fatalf("%+v, %v", c, err)
	}
	later := must(copied())
	for _, s := range []*memory.Store{a, b, later} {
		if got := rows(s); got != before-1 {
			t.Fatalf("%d rows, want %d", got, before-1)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// A machine with another wrapping key, or with none, is told so and makes nothing.
	if _, err := keyring.CreateWrappingFile(filepath.Join(t.TempDir(), "wrap")); err != nil {
		t.Fatal(err)
	}
	if _, err := storeurl.Open(t.Context(), store, &storeurl.Options{Keyring: db.URL()}); !errors.Is(err, storeurl.ErrNoKeyring) {
		t.Fatal(err)
	}
	if _, err := storeurl.Open(t.Context(), store, &storeurl.Options{Keyring: filepath.Join(t.TempDir(), "keys")}); !errors.Is(err, memory.ErrKey) {
		t.Fatal(err)
	}
}
