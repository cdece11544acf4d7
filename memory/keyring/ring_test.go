package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

func fresh(t *testing.T) string { return filepath.Join(t.TempDir(), "keys") }

func create(t *testing.T, dir string) *keyring.Ring {
	t.Helper()
	return must(keyring.Create(dir, nil))(t)
}

func reopen(t *testing.T, dir string) *keyring.Ring {
	t.Helper()
	return must(keyring.Open(dir, nil))(t)
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

func key(t *testing.T, k *keyring.Ring, subject string) memory.KeyID {
	t.Helper()
	return must(k.Key(t.Context(), subject))(t)
}

func seal(t *testing.T, k *keyring.Ring, c memory.KeyID, text string) []byte {
	t.Helper()
	return must(k.Seal(t.Context(), c, []byte(text), []byte("row 1")))(t)
}

func opens(t *testing.T, k *keyring.Ring, c memory.KeyID, sealed []byte, want string) {
	t.Helper()
	if got := must(k.Open(t.Context(), c, sealed, []byte("row 1")))(t); string(got) != want {
		t.Fatalf("opened %q, want %q", got, want)
	}
}

// destroy destroys keys, and asks that nothing of it is pending.
func destroy(t *testing.T, k *keyring.Ring, keys ...memory.KeyID) {
	t.Helper()
	if d := must(k.Destroy(t.Context(), keys...))(t); d.Pending != "" || d.Version == "" || d.At.IsZero() {
		t.Fatalf("destroyed: %+v", d)
	}
}

func wrong(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// everyRing runs a test on a ring in memory and on one in a folder.
func everyRing(t *testing.T, f func(t *testing.T, k *keyring.Ring)) {
	t.Run("ephemeral", func(t *testing.T) { t.Parallel(); f(t, keyring.Ephemeral()) })
	t.Run("folder", func(t *testing.T) { t.Parallel(); f(t, create(t, fresh(t))) })
}

func TestASubjectHasOneKeyAndItsOwn(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		names := []string{"ann", "bob", "Ann", "ann ", "ann\x00", strings.Repeat("ann", 5000)}
		of := map[memory.KeyID]string{}
		for range 2 {
			for _, name := range names {
				of[key(t, k, name)] = name
			}
		}
		if len(of) != len(names) || of[0] != "" {
			t.Fatalf("%d subjects have %d keys", len(names), len(of))
		}
	})
}

func TestWhatIsSealedOpensUnderItsKeyAndDataOnly(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		a, b := key(t, k, "ann"), key(t, k, "bob")
		sealed := seal(t, k, a, "she is allergic to nuts")
		opens(t, k, a, sealed, "she is allergic to nuts")
		opens(t, k, a, seal(t, k, a, ""), "")
		if bytes.Equal(sealed, seal(t, k, a, "she is allergic to nuts")) {
			t.Fatal("two ciphertexts of one text are the same")
		}
		if len(sealed) != len("she is allergic to nuts")+keyring.Overhead {
			t.Fatalf("%d bytes", len(sealed))
		}
		bad := func(c memory.KeyID, sealed []byte, associated string) {
			t.Helper()
			_, err := k.Open(t.Context(), c, sealed, []byte(associated))
			wrong(t, err, memory.ErrKey)
		}
		bad(b, sealed, "row 1")
		bad(a, sealed, "row 2")
		bad(a, sealed, "")
		bad(0, sealed, "row 1")
		bad(12345, sealed, "row 1")
		for i := range sealed {
			bad(a, sealed[:i], "row 1")
			flipped := slices.Clone(sealed)
			flipped[i] ^= 1 << (i % 8)
			bad(a, flipped, "row 1")
		}
		bad(a, append(slices.Clone(sealed), 0), "row 1")
		_, err := k.Seal(t.Context(), 12345, nil, nil)
		wrong(t, err, memory.ErrKey)
	})
}

func TestARetiredSubjectBeginsAnew(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		a, b := key(t, k, "ann"), key(t, k, "bob")
		old := seal(t, k, a, "they met")
		for range 2 {
			if got := must(k.Retire(t.Context(), "ann"))(t); !slices.Equal(got, []memory.KeyID{a}) {
				t.Fatalf("retired %x, want %x", got, a)
			}
		}
		if key(t, k, "bob") != b {
			t.Fatal("bob was retired too")
		}
		opens(t, k, a, old, "they met") // until it is destroyed
		anew := key(t, k, "ann")
		if anew == a {
			t.Fatal("what is written now is under a retired key")
		}
		if got := must(k.Subject(t.Context(), "ann"))(t); !slices.Equal(got, []memory.KeyID{min(a, anew), max(a, anew)}) {
			t.Fatalf("keys %x, want %x and %x", got, a, anew)
		}
		destroy(t, k, a)
		_, err := k.Open(t.Context(), a, old, []byte("row 1"))
		wrong(t, err, memory.ErrErased)
		_, err = k.Seal(t.Context(), a, nil, nil)
		wrong(t, err, memory.ErrErased)
		opens(t, k, anew, seal(t, k, anew, "she came back"), "she came back")
		if got := must(k.Subject(t.Context(), "ann"))(t); !slices.Equal(got, []memory.KeyID{anew}) {
			t.Fatalf("keys %x, want %x", got, anew)
		}
		destroy(t, k, a) // twice
		_, err = k.Destroy(t.Context(), anew, 12345)
		wrong(t, err, memory.ErrKey)
		opens(t, k, anew, seal(t, k, anew, "still there"), "still there")
	})
}

func TestARingOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	k := create(t, dir)
	a := key(t, k, "ann")
	gone := key(t, k, "gone")
	kept, lost := seal(t, k, a, "kept"), seal(t, k, gone, "lost")
	must(k.Retire(t.Context(), "gone"))(t)
	destroy(t, k, gone)
	id, auditKey := k.Audit()
	again := reopen(t, dir)
	opens(t, again, a, kept, "kept")
	_, err := again.Open(t.Context(), gone, lost, []byte("row 1"))
	wrong(t, err, memory.ErrErased)
	if got := key(t, again, "ann"); got != a {
		t.Fatalf("key %x, was %x", got, a)
	}
	if got := key(t, again, "gone"); got == gone {
		t.Fatal("a destroyed key was made again")
	}
	againID, againKey := again.Audit()
	if again.Root() != k.Root() || id != againID || auditKey != againKey {
		t.Fatal("another root or audit key")
	}
}

func TestAnEmptySubjectIsRefused(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		_, err := k.Key(t.Context(), "")
		wrong(t, err, memory.ErrInvalid)
		_, err = k.Retire(t.Context(), "")
		wrong(t, err, memory.ErrInvalid)
		_, err = k.Subject(t.Context(), "")
		wrong(t, err, memory.ErrInvalid)
	})
}

func TestAFolderIsRefusedAndSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	_, err := keyring.Open(dir, nil)
	wrong(t, err, keyring.ErrNotFound)
	create(t, dir)
	_, err = keyring.Create(dir, nil)
	wrong(t, err, keyring.ErrExists)
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	_, err = keyring.Open(dir, nil)
	wrong(t, err, keyring.ErrExposed)
}
