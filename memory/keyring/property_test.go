package keyring_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"pgregory.net/rapid"
)

// modelled is what the model knows of a key: its subject and which one of it, and
// what became of it.
type modelled struct {
	subject    string
	generation int
	sealed     []byte
	destroyed  bool
}

func (m *modelled) text() string { return fmt.Sprintf("%s#%d", m.subject, m.generation) }

// After any calls, of two rings on one folder that are opened anew now and then,
// a key opens iff it was not destroyed, and is the one of its subject iff that was
// not retired since.
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
		present := map[string]memory.KeyID{}
		keys := func() []memory.KeyID { return slices.Sorted(maps.Keys(known)) }
		retired := func(m *modelled) bool { return m.generation < generation[m.subject] }
		of := func(s string) (list []memory.KeyID) {
			for _, id := range keys() {
				if known[id].subject == s && !known[id].destroyed {
					list = append(list, id)
				}
			}
			return list
		}
		ctx := t.Context()
		ring := func() *keyring.Ring { return rings[rapid.IntRange(0, len(rings)-1).Draw(t, "ring")] }
		t.Repeat(map[string]func(*rapid.T){
			"key": func(t *rapid.T) {
				s := subject.Draw(t, "subject")
				k := ring()
				id, err := k.Key(ctx, s)
				was, ok := present[s]
				if ok && known[was].destroyed { // and not retired
					if !errors.Is(err, memory.ErrErased) {
						t.Fatalf("key %x, %v, want ErrErased", id, err)
					}
					return
				}
				if err != nil || ok != (known[id] != nil) || ok && was != id {
					t.Fatalf("the subject %q has the key %x, had %x (%v)", s, id, was, err)
				}
				if present[s] = id; known[id] == nil {
					m := &modelled{subject: s, generation: generation[s]}
					if m.sealed, err = k.Seal(ctx, id, []byte(m.text()), nil); err != nil {
						t.Fatal(err)
					}
					known[id] = m
				}
			},
			"retire": func(t *rapid.T) {
				s := subject.Draw(t, "subject")
				got, err := ring().Retire(ctx, s)
				if want := of(s); err != nil || !slices.Equal(got, want) {
					t.Fatalf("retired %x, want %x (%v)", got, want, err)
				}
				if id, ok := present[s]; ok && slices.Contains(got, id) { // one that is in use
					generation[s]++
					delete(present, s)
				}
			},
			"destroy": func(t *rapid.T) {
				if len(known) == 0 {
					t.Skip("no key is known")
				}
				list := rapid.SliceOfN(rapid.SampledFrom(keys()), 0, 2).Draw(t, "keys")
				if rapid.IntRange(0, 2).Draw(t, "how") > 0 { // as an erasure does
					list = slices.DeleteFunc(list, func(c memory.KeyID) bool { return !retired(known[c]) })
				}
				k := ring()
				if _, err := k.Destroy(ctx, list...); err != nil {
					t.Fatal(err)
				}
				for _, c := range list {
					known[c].destroyed = true
					// Not after Staleness: at once, where it was destroyed.
					if _, err := k.Open(ctx, c, known[c].sealed, nil); !errors.Is(err, memory.ErrErased) {
						t.Fatalf("key %x: %v", c, err)
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
					if m.destroyed && !errors.Is(err, memory.ErrErased) || !m.destroyed && (err != nil || string(got) != m.text()) {
						t.Fatalf("key %x (%+v): %q, %v", c, m, got, err)
					}
				}
			},
		})
	})
}
