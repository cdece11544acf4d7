//go:build unix

package pgring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/keyring/pgring"
	"github.com/hearsay-go/hearsay/memory/keyring/ringtest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

var (
	shared  *server.PostgresServer
	missing error // why there is none
	schemas atomic.Int64
)

func TestMain(m *testing.M) {
	server.Together(4)
	shared, missing = server.Postgres(context.Background())
	testmain.Run(m, func() error {
		if shared == nil {
			return nil
		}
		return shared.Stop(context.Background())
	})
}

// place is a schema that no other test uses.
func place(t *testing.T) string {
	t.Helper()
	if missing != nil {
		server.Need(t, missing)
	}
	url := shared.URL()
	mark := "?"
	if strings.Contains(url, "?") {
		mark = "&"
	}
	return fmt.Sprintf("%s%sschema=keys_%d", url, mark, schemas.Add(1))
}

// machine is a machine with a copy of a wrapping key's file.
type machine struct {
	name, wrap string
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (m machine) options(t *testing.T) *pgring.Options {
	t.Helper()
	return &pgring.Options{Options: keyring.Options{Wrapping: must(keyring.WrappingFile(m.wrap))(t), Cache: 8}, Machine: m.name}
}

func (m machine) open(t *testing.T, url string) *keyring.Ring {
	t.Helper()
	k := must(pgring.Open(t.Context(), url, m.options(t)))(t)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// copied is another machine, whose file is a copy.
func (m machine) copied(t *testing.T, name string) machine {
	t.Helper()
	other := machine{name, filepath.Join(t.TempDir(), "wrap")}
	if err := os.WriteFile(other.wrap, must(os.ReadFile(m.wrap))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return other
}

// first makes a ring, and the machine that made it.
func first(t *testing.T, url string) machine {
	t.Helper()
	m := machine{"first", filepath.Join(t.TempDir(), "wrap")}
	must(keyring.CreateWrappingFile(m.wrap))(t)
	if err := must(pgring.Create(t.Context(), url, m.options(t)))(t).Close(); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestARingInPostgreSQLDoesWhatEveryRingDoes(t *testing.T) {
	ringtest.Run(t, func(t *testing.T) ringtest.Opener {
		url := place(t)
		m := first(t, url)
		n := 0
		return func() (*keyring.Ring, error) {
			n++ // each is a machine of its own, with a copy of the file as it is now
			other := m
			if n > 1 {
				other = m.copied(t, fmt.Sprint("machine ", n))
			}
			return pgring.Open(t.Context(), url, other.options(t))
		}
	})
}

func TestADestructionIsPendingUntilEveryMachineHasLetGo(t *testing.T) {
	t.Parallel()
	url := place(t)
	a := first(t, url)
	b := a.copied(t, "second")
	here, there := a.open(t, url), b.open(t, url)
	id := must(here.Key(t.Context(), "ann"))(t)
	stays := must(there.Key(t.Context(), "bob"))(t)
	sealed := must(here.Seal(t.Context(), stays, []byte("about bob"), nil))(t)
	if err := there.Close(); err != nil { // the machine is off
		t.Fatal(err)
	}
	old := must(os.ReadFile(b.wrap))(t)
	d := must(here.Destroy(t.Context(), id))(t)
	if !strings.Contains(d.Pending, "second") || strings.Contains(d.Pending, "first") {
		t.Fatalf("pending: %q", d.Pending)
	}
	if _, err := here.Seal(t.Context(), id, nil, nil); !errors.Is(err, memory.ErrErased) {
		t.Fatal(err)
	}
	unsafe := false
	for _, f := range here.Findings() {
		unsafe = unsafe || f.Name == "keys.classes" && !f.Safe && strings.Contains(f.Found, "second")
	}
	if !unsafe {
		t.Errorf("nothing tells of it: %+v", here.Findings())
	}
	back := b.open(t, url) // the machine is on again
	if got, err := back.Open(t.Context(), stays, sealed, nil); err != nil || string(got) != "about bob" {
		t.Fatal(got, err)
	}
	if string(must(os.ReadFile(b.wrap))(t)) == string(old) {
		t.Fatal("the second machine has kept its version")
	}
	if d = must(here.Destroy(t.Context(), id))(t); d.Pending != "" || d.Version != "1" {
		t.Fatalf("%+v", d)
	}

	// One that never comes back is taken out by name.
	lost := a.copied(t, "third")
	if err := lost.open(t, url).Close(); err != nil {
		t.Fatal(err)
	}
	if d = must(here.Destroy(t.Context(), stays))(t); !strings.Contains(d.Pending, "third") {
		t.Fatalf("pending: %q", d.Pending)
	}
	if err := here.Release(t.Context(), "nobody"); !errors.Is(err, memory.ErrNotFound) {
		t.Fatal(err)
	}
	if err := here.Release(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	if err := here.Release(t.Context(), "second"); err != nil {
		t.Fatal(err)
	}
	if d = must(here.Destroy(t.Context(), stays))(t); d.Pending != "" {
		t.Fatalf("pending: %q", d.Pending)
	}
}

// A base backup and the log after it hold every record that there ever was. With the
// wrapping keys that are left nothing of what was destroyed opens.
func TestWhatTheServersFilesKeepOfADestroyedKeyOpensWithNothing(t *testing.T) {
	t.Parallel()
	url := place(t)
	m := first(t, url)
	k := m.open(t, url)
	id := must(k.Key(t.Context(), "ann"))(t)
	stays := must(k.Key(t.Context(), "bob"))(t)
	before := keep(t, url)
	d := must(k.Destroy(t.Context(), id))(t)
	if d.Pending != "" {
		t.Fatal(d.Pending)
	}
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	bring(t, url, before) // the database as it was before, whole
	_, err := pgring.Open(t.Context(), url, m.options(t))
	if !errors.Is(err, keyring.ErrWrapping) {
		t.Fatalf("an old copy of the database opens: %v", err)
	}
	_ = stays
}

func TestWithoutTheTablesOrTheRightWrappingKeyARingIsRefused(t *testing.T) {
	t.Parallel()
	url := place(t)
	wrap := machine{"first", filepath.Join(t.TempDir(), "wrap")}
	must(keyring.CreateWrappingFile(wrap.wrap))(t)
	_, err := pgring.Open(t.Context(), url, wrap.options(t))
	if !errors.Is(err, keyring.ErrNotFound) {
		t.Fatal(err)
	}
	first(t, url)
	_, err = pgring.Open(t.Context(), url, wrap.options(t))
	if !errors.Is(err, keyring.ErrWrapping) {
		t.Fatal(err)
	}
	_, err = pgring.Create(t.Context(), url, wrap.options(t))
	if !errors.Is(err, keyring.ErrExists) {
		t.Fatal(err)
	}
	_, err = pgring.Open(t.Context(), url, nil)
	if !errors.Is(err, keyring.ErrWrapping) {
		t.Fatal(err)
	}
	_, err = pgring.Open(t.Context(), "postgres://ann:s3cret@127.0.0.1:1/x", wrap.options(t))
	if !errors.Is(err, memory.ErrStore) || strings.Contains(err.Error(), "s3cret") {
		t.Fatal(err)
	}
}

func TestARingMovesToAnotherWrappingKey(t *testing.T) {
	t.Parallel()
	url := place(t)
	m := first(t, url)
	k := m.open(t, url)
	id := must(k.Key(t.Context(), "ann"))(t)
	sealed := must(k.Seal(t.Context(), id, []byte("about ann"), nil))(t)
	next := machine{"first", filepath.Join(t.TempDir(), "wrap")}
	to := must(keyring.CreateWrappingFile(next.wrap))(t)
	if err := k.Rewrap(t.Context(), must(keyring.WrappingFile(m.wrap))(t)); !errors.Is(err, keyring.ErrSameWrapping) {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := k.Rewrap(stopped, to); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got, err := m.open(t, url).Open(t.Context(), id, sealed, nil); err != nil || string(got) != "about ann" {
		t.Fatalf("interrupted: %q %v", got, err)
	}
	if err := k.Rewrap(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if _, err := pgring.Open(t.Context(), url, m.options(t)); !errors.Is(err, keyring.ErrWrapping) {
		t.Fatalf("the key of before opens the ring: %v", err)
	}
	again := next.open(t, url)
	if got, err := again.Open(t.Context(), id, sealed, nil); err != nil || string(got) != "about ann" {
		t.Fatalf("%q %v", got, err)
	}
	if d := must(again.Destroy(t.Context(), id))(t); d.Pending != "" || d.Version != "1" {
		t.Fatalf("%+v", d)
	}
}
