package keyring_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"pgregory.net/rapid"
)

// modelled is what the model knows of a class: its subjects with the generation
// they had, and what became of it.
type modelled struct {
	set       map[string]int
	sealed    []byte
	destroyed bool
}

// After any calls, of two rings on one folder that are opened anew now and then,
// a class opens iff it was not destroyed, and is a parent iff none of its subjects
// was retired since.
func TestARingDoesAsAModelDoes(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(base, "")
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(dir, "keys")
		rings := make([]*keyring.Ring, 2)
		for i := range rings {
			if rings[i], err = keyring.OpenOrCreate(dir, nil); err != nil {
				t.Fatal(err)
			}
		}
		subject := rapid.SampledFrom([]string{"a", "b", "c", "ä"})
		generation := map[string]int{}
		known := map[memory.KeyID]*modelled{}
		bySet := map[string]memory.KeyID{}
		classes := func() []memory.KeyID { return slices.Sorted(maps.Keys(known)) }
		retired := func(m *modelled) bool {
			for s, g := range m.set {
				if g < generation[s] {
					return true
				}
			}
			return false
		}
		of := func(s string) (list []memory.KeyID) {
			for _, c := range classes() {
				if _, ok := known[c].set[s]; ok && !known[c].destroyed {
					list = append(list, c)
				}
			}
			return list
		}
		ctx := t.Context()
		ring := func() *keyring.Ring { return rings[rapid.IntRange(0, len(rings)-1).Draw(t, "ring")] }
		t.Repeat(map[string]func(*rapid.T){
			"class": func(t *rapid.T) {
				subjects := rapid.SliceOfN(subject, 0, 2).Draw(t, "subjects")
				var parents []memory.KeyID
				if len(known) > 0 {
					parents = rapid.SliceOfN(rapid.SampledFrom(classes()), 0, 2).Draw(t, "parents")
				}
				set, erased := map[string]int{}, false
				for _, s := range subjects {
					set[s] = generation[s]
				}
				for _, p := range parents {
					erased = erased || known[p].destroyed || retired(known[p])
					maps.Copy(set, known[p].set)
				}
				text := setText(set)
				if c, ok := bySet[text]; ok && known[c].destroyed {
					erased = true
				}
				k := ring()
				c, err := k.Class(ctx, parents, subjects)
				if erased {
					if !errors.Is(err, memory.ErrErased) {
						t.Fatalf("class %x, %v, want ErrErased", c, err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if was, ok := bySet[text]; ok != (known[c] != nil) || ok && was != c {
					t.Fatalf("the set %s has the class %x, had %x", text, c, was)
				}
				if bySet[text] = c; known[c] == nil {
					sealed, err := k.Seal(ctx, c, []byte(text), nil)
					if err != nil {
						t.Fatal(err)
					}
					known[c] = &modelled{set: set, sealed: sealed}
				}
			},
			"retire": func(t *rapid.T) {
				s := subject.Draw(t, "subject")
				got, err := ring().Retire(ctx, s)
				if want := of(s); err != nil || !slices.Equal(got, want) {
					t.Fatalf("retired %x, want %x (%v)", got, want, err)
				}
				for _, c := range got {
					if known[c].set[s] == generation[s] { // a class that is in use
						generation[s]++
						break
					}
				}
			},
			"destroy": func(t *rapid.T) {
				if len(known) == 0 {
					t.Skip()
				}
				list := rapid.SliceOfN(rapid.SampledFrom(classes()), 0, 2).Draw(t, "classes")
				if rapid.IntRange(0, 2).Draw(t, "how") > 0 { // as an erasure does
					list = slices.DeleteFunc(list, func(c memory.KeyID) bool { return !retired(known[c]) })
				}
				k := ring()
				if err := k.Destroy(ctx, list...); err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					known[c].destroyed = true
					// Not after Staleness: at once, where it was destroyed.
					if _, err := k.Open(ctx, c, known[c].sealed, nil); !errors.Is(err, memory.ErrErased) {
						t.Fatalf("class %x: %v", c, err)
					}
				}
			},
			"reopen": func(t *rapid.T) {
				k, err := keyring.Open(dir, nil)
				if err != nil {
					t.Fatal(err)
				}
				rings[rapid.IntRange(0, len(rings)-1).Draw(t, "ring")] = k
			},
			"": func(t *rapid.T) {
				k := ring()
				for _, s := range []string{"a", "ä"} { // takes the lock, so that k is not stale
					got, err := k.Subject(ctx, s)
					if want := of(s); err != nil || !slices.Equal(got, want) {
						t.Fatalf("subject %q has %x, want %x (%v)", s, got, want, err)
					}
				}
				for c, m := range known {
					got, err := k.Open(ctx, c, m.sealed, nil)
					if m.destroyed && !errors.Is(err, memory.ErrErased) || !m.destroyed && (err != nil || string(got) != setText(m.set)) {
						t.Fatalf("class %x (%+v): %q, %v", c, m, got, err)
					}
				}
			},
		})
	})
}

func setText(set map[string]int) string {
	var out []string
	for _, s := range slices.Sorted(maps.Keys(set)) {
		out = append(out, fmt.Sprintf("%s#%d", s, set[s]))
	}
	return strings.Join(out, " ")
}
