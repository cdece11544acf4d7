package keyring_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
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

func class(t *testing.T, k *keyring.Ring, parents []memory.KeyID, subjects ...string) memory.KeyID {
	t.Helper()
	return must(k.Class(t.Context(), parents, subjects))(t)
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

func TestTheSameSubjectsHaveTheSameClass(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		a, b, none := class(t, k, nil, "ann"), class(t, k, nil, "bob"), class(t, k, nil)
		both := class(t, k, nil, "ann", "bob")
		if all := []memory.KeyID{a, b, none, both}; slices.Contains(all, 0) || len(slices.Compact(slices.Sorted(slices.Values(all)))) != 4 {
			t.Fatalf("four sets have the classes %x", all)
		}
		for name, got := range map[string]memory.KeyID{
			"again":                     class(t, k, nil, "ann", "bob"),
			"in another order":          class(t, k, nil, "bob", "ann", "bob"),
			"of parents":                class(t, k, []memory.KeyID{b, a}),
			"of a parent and a subject": class(t, k, []memory.KeyID{b}, "ann"),
			"of itself":                 class(t, k, []memory.KeyID{both, none, a}, "ann"),
		} {
			if got != both {
				t.Errorf("%s: class %x, want %x", name, got, both)
			}
		}
		if got := class(t, k, []memory.KeyID{none}); got != none {
			t.Errorf("the empty set has the classes %x and %x", none, got)
		}
	})
}

func TestWhatIsSealedOpensUnderItsClassAndDataOnly(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		a, b := class(t, k, nil, "ann"), class(t, k, nil, "bob")
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
		a, b := class(t, k, nil, "ann"), class(t, k, nil, "bob")
		both := class(t, k, []memory.KeyID{a, b})
		old := seal(t, k, both, "they met")
		want := []memory.KeyID{min(a, both), max(a, both)}
		for range 2 {
			if got := must(k.Retire(t.Context(), "ann"))(t); !slices.Equal(got, want) {
				t.Fatalf("retired %x, want %x", got, want)
			}
		}
		for _, parent := range want {
			_, err := k.Class(t.Context(), []memory.KeyID{parent, b}, []string{"ann"})
			wrong(t, err, memory.ErrErased)
		}
		if class(t, k, []memory.KeyID{b}) != b {
			t.Fatal("bob was retired too")
		}
		opens(t, k, both, old, "they met") // until it is destroyed
		anew := class(t, k, nil, "ann")
		if slices.Contains(want, anew) || class(t, k, []memory.KeyID{b}, "ann") == both {
			t.Fatal("what is written now is of a retired class")
		}
		if err := k.Destroy(t.Context(), want...); err != nil {
			t.Fatal(err)
		}
		for _, c := range want {
			_, err := k.Open(t.Context(), c, old, []byte("row 1"))
			wrong(t, err, memory.ErrErased)
			_, err = k.Seal(t.Context(), c, nil, nil)
			wrong(t, err, memory.ErrErased)
			_, err = k.Class(t.Context(), []memory.KeyID{c}, nil)
			wrong(t, err, memory.ErrErased)
		}
		opens(t, k, anew, seal(t, k, anew, "she came back"), "she came back")
		if got := must(k.Subject(t.Context(), "ann"))(t); len(got) != 2 || !slices.Contains(got, anew) {
			t.Fatalf("classes %x, want %x and the one with bob", got, anew)
		}
		if err := k.Destroy(t.Context(), want...); err != nil {
			t.Fatalf("destroyed twice: %v", err)
		}
		wrong(t, k.Destroy(t.Context(), a, 12345), memory.ErrKey)
	})
}

func TestARingOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	dir := fresh(t)
	k := create(t, dir)
	a := class(t, k, nil, "ann")
	gone := class(t, k, nil, "gone")
	kept, lost := seal(t, k, a, "kept"), seal(t, k, gone, "lost")
	must(k.Retire(t.Context(), "gone"))(t)
	if err := k.Destroy(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	id, key := k.Audit()
	again := reopen(t, dir)
	opens(t, again, a, kept, "kept")
	_, err := again.Open(t.Context(), gone, lost, []byte("row 1"))
	wrong(t, err, memory.ErrErased)
	if got := class(t, again, nil, "ann"); got != a {
		t.Fatalf("class %x, was %x", got, a)
	}
	if got := class(t, again, nil, "gone"); got == gone {
		t.Fatal("a destroyed class was made again")
	}
	againID, againKey := again.Audit()
	if again.Root() != k.Root() || id != againID || key != againKey {
		t.Fatal("another root or audit key")
	}
}

func TestAnEmptySubjectIsRefused(t *testing.T) {
	t.Parallel()
	everyRing(t, func(t *testing.T, k *keyring.Ring) {
		_, err := k.Class(t.Context(), nil, []string{"ann", ""})
		wrong(t, err, memory.ErrInvalid)
		_, err = k.Retire(t.Context(), "")
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
