package recallloop

import (
	"testing"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

func TestTheScenarioHasTheShapeOfTheCase(t *testing.T) {
	for seed := range uint64(5) {
		same, reworded, facts, near := 0, 0, 0, 0
		wordings := map[string]bool{}
		s := New(seed)
		for i, w := range s.Writes {
			switch w.Label {
			case Invention:
				if i != 0 {
					t.Errorf("seed %d: the invention is write %d", seed, i)
				}
				same++
			case Echo:
				if w.Text == Claim {
					same++
				} else {
					reworded++
					wordings[w.Text] = true
				}
			case TrueFact:
				facts++
			case Contradiction:
				near++
			}
			if i > 0 && w.At.Before(s.Writes[i-1].At) {
				t.Fatalf("seed %d: write %d goes back in time", seed, i)
			}
		}
		if same != SameText || reworded != Reworded || facts != Facts || near != len(contradictions) {
			t.Errorf("seed %d: %d same, %d reworded, %d facts, %d contradictions", seed, same, reworded, facts, near)
		}
		if len(wordings) != len(Wordings) || len(wordings) < 150 {
			t.Errorf("seed %d: %d wordings of %d", seed, len(wordings), len(Wordings))
		}
	}
}

// TestTheLoopFailsToBecomeAFact is the whole system: MP-16, SR-6.2, I-3.
func TestTheLoopFailsToBecomeAFact(t *testing.T) {
	res, err := Run(t.Context(), Options{Seed: 7, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	stores := map[string]StoreResult{}
	for _, s := range res.Stores {
		stores[s.Name] = s
	}
	for name, want := range map[string]StoreResult{
		"append":     {Name: "append", Rows: Writes, Derived: stores["append"].Derived, Supports: Writes, Belief: "0.99", Call: "ran"},
		"hash-dedup": {Name: "hash-dedup", Rows: stores["hash-dedup"].Rows, Derived: stores["hash-dedup"].Rows - 1, Supports: Writes, Belief: "0.99", Call: "ran"},
		"hearsay":    {Name: "hearsay", Rows: 1 + res.Fate.OwnRow, Derived: res.Fate.OwnRow, Belief: "unverified", Call: "blocked"},
	} {
		if stores[name] != want {
			t.Errorf("%s: %+v, want %+v", name, stores[name], want)
		}
	}
	if n := stores["hash-dedup"].Rows; n < 150 || n > len(Wordings)+1 {
		t.Errorf("hash dedup kept %d wordings", n)
	}
	f := res.Fate
	if f.Sum() != Writes || f.First != 1 || f.Same >= SameText || f.Recognised+f.OwnRow > Reworded {
		t.Errorf("of %d writes this is said: %+v", Writes, f)
	}
	if res.KnownWordings == 0 || res.KnownWordings > len(Wordings) {
		t.Errorf("the rule knows %d wordings of %d", res.KnownWordings, len(Wordings))
	}
	if f.OwnRow > len(Wordings) || f.Recognised == 0 {
		t.Errorf("of %d wordings %d are rows of their own, and %d writes were recognised", len(Wordings), f.OwnRow, f.Recognised)
	}
	if want := 1 + f.OwnRow + res.Contradictions.Total + Facts; res.StoredRows != want {
		t.Errorf("the store has %d rows, and %d are told of", res.StoredRows, want)
	}
	t.Logf("of %d writes, %d of them in %d other wordings: %+v", Writes, Reworded, len(Wordings), f)
	if res.TrueFacts != (FactResult{Total: Facts, Usable: Facts}) || res.Verified != Facts {
		t.Errorf("true facts: %+v, %d verified", res.TrueFacts, res.Verified)
	}
	if res.Contradictions.Total == 0 || res.Contradictions.Merged != 0 {
		t.Errorf("contradictions: %+v", res.Contradictions)
	}
	if res.Row.State() != memory.StateUnverified || res.Row.Independent() != 0 || res.Row.Revision != 1 {
		t.Errorf("the row: %s, %d supports, revision %d", res.Row.State(), res.Row.Independent(), res.Row.Revision)
	}
	if !res.Block.Has(gate.UnverifiedInput) {
		t.Errorf("the call was blocked for %v", res.Block.Reasons)
	}
}
