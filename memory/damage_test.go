package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestARowThatAVerificationFoundIsDamagedToEveryProcess(t *testing.T) {
	d, keys := storetest.NewMap(), keyring.Ephemeral()
	open := func() *memory.Store { return storeOn(t, d, keys) }
	a, b := open(), open()
	r, err := a.Put(t.Context(), modelDraft(says("ana", "likes", "tea")))
	if err != nil {
		t.Fatal(err)
	}
	before, err := b.Fitness(t.Context(), []memory.ID{r.ID})
	if err != nil || before.Heads[0].Revision == 0 {
		t.Fatal(before, err)
	}
	if err := a.MarkDamaged(t.Context(), "worker", "a byte differs", r.ID); err != nil {
		t.Fatal(err)
	}
	f, err := b.Fitness(t.Context(), []memory.ID{r.ID})
	if err != nil || f.Heads[0].Revision != 0 || !f.Heads[0].Has(memory.FlagDamaged) {
		t.Errorf("another process reads it as %+v, %v", f.Heads, err)
	}
	if f.Epoch == before.Epoch || f.Fence == before.Fence {
		t.Error("what was read before it counts on")
	}
	err = b.Record(t.Context(), memory.DecisionRecord{ID: b.NewDecisionID(), Tool: "pay", Fired: true, Epoch: before.Epoch, Rows: []memory.Cited{before.Heads[0].Cite()}, Data: []byte("{}")})
	if !errors.Is(err, memory.ErrConflict) {
		t.Errorf("a call fired on what was read before: %v", err)
	}
	_, err = b.Apply(t.Context(), memory.Transition{Row: r.ID, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityProbe, Actor: "worker", Source: "crm", Reason: "asked",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: time.Now()}}})
	if !errors.Is(err, memory.ErrDamaged) {
		t.Errorf("a damaged row was moved: %v", err)
	}
	rows, at, err := open().DamagedRows(t.Context())
	if err != nil || len(rows) != 1 {
		t.Error(rows, err)
	}
	if err := a.ClearDamaged(t.Context(), r.ID, "cleo", "it was put right", at-1); !errors.Is(err, memory.ErrConflict) {
		t.Fatalf("a clearance of another record: %v", err)
	}
	if err := a.ClearDamaged(t.Context(), r.ID, "cleo", "it was put right", at); err != nil {
		t.Fatal(err)
	}
	if f, err := b.Fitness(t.Context(), []memory.ID{r.ID}); err != nil || f.Heads[0].Revision != 1 || f.Heads[0].Has(memory.FlagDamaged) {
		t.Errorf("once cleared it is read as %+v, %v", f.Heads, err)
	}
	if err := a.ClearDamaged(t.Context(), r.ID, "cleo", "again", at+1); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	if _, err := open().Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}
