package memory_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// What nobody can know of at once, since no object says that another is missing, is found
// by a verification also after it was used and made again.
func TestWhatWasDeletedIsFoundAfterItWasMadeAgain(t *testing.T) {
	for name, c := range map[string]struct {
		place string
		setup func(t *testing.T, s *memory.Store)
		use   func(t *testing.T, s *memory.Store)
		says  string
	}{
		"the object of a line, and a source says something else": {"l/",
			func(t *testing.T, s *memory.Store) { put(t, s, toolDraft(functional("acme", "email", "old"), "crm")) },
			func(t *testing.T, s *memory.Store) { put(t, s, toolDraft(functional("acme", "email", "new"), "crm")) },
			"which is verified: a rival would not meet it"},
		"the record of a claim that a user rejected, and a tool says it": {"c/",
			func(t *testing.T, s *memory.Store) {
				r := put(t, s, modelDraft(functional("acme", "email", "evil")))
				reject(t, s, r.ID, "cleo")
			},
			func(t *testing.T, s *memory.Store) {
				if r := put(t, s, toolDraft(functional("acme", "email", "evil"), "crm")); r.State != memory.StateVerified {
					t.Fatalf("it is %s: nothing was used", r.State)
				}
			}, "a user rejected the claim, and it does not say so"},
		"the mark of a call whose end nobody knows, and it is made again": {"a/",
			func(t *testing.T, s *memory.Store) { fire(t, s) },
			func(t *testing.T, s *memory.Store) { fire(t, s) }, "of which nobody knew how it ended"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, d, keys := t.Context(), storetest.NewMap(), keyring.Ephemeral()
			open := func() *memory.Store {
				s, err := memory.New(d, keys, &memory.Options{Authority: func(p, _, _ string) bool { return p == "cleo" }})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			c.setup(t, open())
			if _, err := open().VerifyAll(ctx, memory.Verifying{}); err != nil {
				t.Fatal(err)
			}
			deleted := 0
			for o, err := range d.Objects(ctx, open().Tenant(), c.place) {
				if err != nil {
					t.Fatal(err)
				}
				deleted++
				if err := d.Restore(ctx, open().Tenant(), []memory.Restored{{Object: memory.Object{Key: o.Key}}}); err != nil {
					t.Fatal(err)
				}
			}
			if deleted == 0 {
				t.Fatal("nothing was deleted")
			}
			c.use(t, open())
			var found []string
			if _, err := open().VerifyAll(ctx, memory.Verifying{Found: func(err error) error { found = append(found, err.Error()); return nil }}); err != nil || !strings.Contains(strings.Join(found, "\n"), c.says) {
				t.Errorf("found %q, %v", found, err)
			}
		})
	}
}

// TestAStoreWithoutItsRevocations: nobody reads or writes rows when the object that says what
// was revoked is deleted, and a rebuild makes it again.
func TestAStoreWithoutItsRevocations(t *testing.T) {
	d, ring := storetest.NewMap(), keyring.Ephemeral()
	id := put(t, storeOn(t, d, ring), modelDraft(says("ana", "likes", "jazz"))).ID
	for o, err := range d.Objects(t.Context(), "default", "") {
		if err != nil {
			t.Fatal(err)
		}
		if memory.KeyText(o.Key) != "system/revoked" {
			continue
		}
		if err := d.Restore(t.Context(), "default", []memory.Restored{{Object: memory.Object{Key: o.Key}}}); err != nil {
			t.Fatal(err)
		}
	}
	s := storeOn(t, d, ring)
	if _, err := s.Get(t.Context(), id); !errors.Is(err, memory.ErrDamaged) {
		t.Errorf("a row is read: %v", err)
	}
	if _, err := s.Put(t.Context(), modelDraft(says("ana", "likes", "rock"))); !errors.Is(err, memory.ErrDamaged) {
		t.Errorf("a row is written: %v", err)
	}
	if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), id); err != nil {
		t.Errorf("after a rebuild: %v", err)
	}
	put(t, s, modelDraft(says("ana", "likes", "rock")))
}

// A rebuild makes a rejection again though a namesake was verified after it.
func TestARebuildKeepsARejectionBesideANamesake(t *testing.T) {
	d, keys := storetest.NewMap(), keyring.Ephemeral()
	s, err := memory.New(d, keys, &memory.Options{Authority: func(p, subject, _ string) bool {
		return p == "cleo" && subject == "acme" || p == "ben" && subject == "Acme"
	}})
	if err != nil {
		t.Fatal(err)
	}
	rejected := put(t, s, modelDraft(functional("acme", "email", "evil")))
	reject(t, s, rejected.ID, "cleo")
	if r := put(t, s, toolDraft(functional("Acme", "email", "evil"), "crm")); r.State != memory.StateVerified {
		t.Fatalf("a namesake is %s: %s", r.State, r.Reason)
	}
	if r := put(t, s, userDraft("ben", functional("Acme", "email", "evil"))); r.State != memory.StateVerified {
		t.Fatalf("a namesake by a user is %s: %s", r.State, r.Reason)
	}
	if _, err := s.Rebuild(t.Context(), "operator", nil); err != nil {
		t.Fatal(err)
	}
	if r := put(t, s, toolDraft(functional("acme", "email", "evil"), "ledger")); r.State == memory.StateVerified {
		t.Error("what a user rejected is born verified after a rebuild")
	}
	if _, err := s.VerifyAll(t.Context(), memory.Verifying{}); err != nil {
		t.Error(err)
	}
}

func functional(subject, predicate, object string) memory.Content {
	c := says(subject, predicate, object)
	c.Cardinality = memory.CardinalityFunctional
	return c
}

func put(t *testing.T, s *memory.Store, d memory.Draft) memory.Receipt {
	t.Helper()
	r, err := s.Put(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func reject(t *testing.T, s *memory.Store, id memory.ID, by string) {
	t.Helper()
	f, err := s.Fitness(t.Context(), []memory.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), memory.Transition{Row: id, Revision: f.Heads[0].Revision, To: memory.TruthContradicted, Reject: true, Authority: memory.AuthorityUser,
		Actor: by, Source: "confirm", Reason: "it is wrong"}); err != nil && !errors.Is(err, memory.ErrContested) {
		t.Fatal(err)
	}
}

// fire records a call that cannot be undone, whose end is not told.
func fire(t *testing.T, s *memory.Store) {
	t.Helper()
	slot := memory.Digest{9}
	f, err := s.Fitness(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Standing(t.Context(), slot)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Record(t.Context(), memory.DecisionRecord{Epoch: f.Epoch, ID: s.NewDecisionID(), Tool: "pay", Run: "run 1", Fired: true,
		Call: &memory.CallStep{Slot: slot, Seen: at.Revision, Track: true}, Data: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
}

// A sweep commits to a log that the index does not list any more.
func TestASweepLeansOnNoIndex(t *testing.T) {
	ctx, d := t.Context(), storetest.NewMap()
	s, err := memory.New(d, keyring.Ephemeral(), nil)
	if err != nil {
		t.Fatal(err)
	}
	row := put(t, s, modelDraft(functional("acme", "email", "a")))
	for o, err := range d.Objects(ctx, s.Tenant(), memory.HeadKey(row.ID)) {
		if err != nil {
			t.Fatal(err)
		}
		o.Terms = nil
		if err := d.Restore(ctx, s.Tenant(), []memory.Restored{o}); err != nil {
			t.Fatal(err)
		}
	}
	listed := false
	for l, err := range s.Changed(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		listed = listed || l.Key == memory.HeadKey(row.ID)
	}
	if !listed {
		t.Error("the log is not listed")
	}
}
