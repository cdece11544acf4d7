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
		if len(wordings) < 600 {
			t.Errorf("seed %d: only %d wordings", seed, len(wordings))
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
		"append":     {Name: "append", Rows: Writes, Supports: Writes, Belief: "0.99", Call: "ran"},
		"hash-dedup": {Name: "hash-dedup", Rows: stores["hash-dedup"].Rows, Supports: Writes, Belief: "0.99", Call: "ran"},
		"hearsay":    {Name: "hearsay", Rows: 1, Derived: stores["hearsay"].Derived, Belief: "unverified", Call: "blocked"},
	} {
		if stores[name] != want {
			t.Errorf("%s: %+v, want %+v", name, stores[name], want)
		}
	}
	if n := stores["hash-dedup"].Rows; n < 500 || n > Reworded+1 {
		t.Errorf("hash dedup kept %d wordings", n)
	}
	if n := stores["hearsay"].Derived; n > Reworded/10 {
		t.Errorf("%d of %d restatements were not recognised", n, Reworded)
	}
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
