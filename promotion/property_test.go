package promotion_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// No sequence of reads, heat, confidence, re-entries and verdicts of the model's
// own family makes a row verified, of whatever rank those verdicts say they are.
func TestI3NothingButIndependentEvidenceVerifiesARow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		draft := func(d *memory.Draft) {
			d.ValueConfidence = rapid.Float64Range(0, 1).Draw(t, "confidence")
			d.Criticality = rapid.SampledFrom([]memory.Criticality{0, memory.CriticalityLow, memory.CriticalityCritical}).Draw(t, "criticality")
			d.State = rapid.SampledFrom([]memory.State{memory.StateUnverified, memory.StateUnavailableAtWriteTime}).Draw(t, "state")
		}
		id := w.claim("acme", "Oslo", draft)
		crm := verifiertest.New("kin")
		crm.Rank = rapid.SampledFrom([]memory.Rank{memory.RankModel, memory.RankSecondModel, memory.RankTool, memory.RankPrimarySource}).Draw(t, "rank")
		crm.Group = rapid.SampledFrom([]string{"family:m", "family:M", "m", "tool:m", " family:m "}).Draw(t, "group")
		worker := w.worker(&promotion.Options{Budget: -1, VerdictLifetime: time.Hour}, source(crm))
		heater := promotion.NewHeater(w.store, nil, nil)
		steps := map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				heater.ObserveReads(t.Context(), []memory.ID{id}, rapid.Float64Range(0, 1e9).Draw(t, "reads"))
				if err := heater.Flush(w.ctx); err != nil {
					t.Fatal(err)
				}
			},
			"block": func(*rapid.T) { heater.ObserveBlocked(t.Context(), []memory.ID{id}) },
			"echo": func(t *rapid.T) {
				again := w.claim("acme", "Oslo", func(d *memory.Draft) {
					draft(d)
					d.Origin = memory.OriginRecallReentry
				})
				if again != id {
					t.Fatalf("the claim came back as another row")
				}
			},
			"wake": func(t *rapid.T) {
				if _, _, err := w.store.WakeDue(w.ctx, memory.MaxWoken); err != nil {
					t.Fatal(err)
				}
			},
			"verdict": func(t *rapid.T) {
				crm.Set(rapid.SampledFrom([]verifiertest.Step{verifiertest.Supports(), verifiertest.Supports(), verifiertest.Unclear(),
					verifiertest.Malformed(), verifiertest.Down(0), verifiertest.Refutes("Rome")}).Draw(t, "says"))
				w.check(worker, id)
			},
			"wait": func(t *rapid.T) { w.pass(time.Duration(rapid.IntRange(1, 400).Draw(t, "hours")) * time.Hour) },
			"": func(t *rapid.T) {
				if row := w.row(id); row.State() == memory.StateVerified || row.Rank != 0 {
					t.Fatalf("verified by its own echo: %+v", row)
				}
			},
		}
		t.Repeat(steps)
	})
}

// Whatever two independent sources say in whatever order, the history tells every
// move, one by one.
func TestI6EveryMoveOfARowIsInItsHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		tool, doc := verifiertest.New("crm"), ranked("doc", memory.RankPrimarySource)
		says := rapid.SampledFrom([]verifiertest.Step{verifiertest.Supports(), verifiertest.Refutes("Rome"), verifiertest.Unclear(), verifiertest.Down(0)})
		worker := w.worker(&promotion.Options{Budget: -1}, source(tool), source(doc))
		for range rapid.IntRange(1, 12).Draw(t, "checks") {
			tool.Set(says.Draw(t, "crm"))
			doc.Set(says.Draw(t, "doc"))
			w.check(worker, id)
			w.pass(40 * 24 * time.Hour)
		}
		state := "unverified"
		for i, e := range w.moves(id) {
			if e.Kind == memory.EntryTransition && e.Axis == memory.AxisTruth {
				if e.From != state {
					t.Fatalf("entry %d goes from %s, but the row was %s", i, e.From, state)
				}
				state = e.To
			}
		}
		if got := fmt.Sprint(w.row(id).Truth); got != state {
			t.Fatalf("the row is %s, its history ends at %s", got, state)
		}
	})
}
