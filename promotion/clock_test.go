package promotion_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// Workers whose clocks disagree, and jump by hours either way between two checks,
// cost each other questions or time, and never a state: one transition, logged once,
// and once the clocks are right again the row is what the source says.
func TestClocksThatDisagreeAndJumpMoveNoStateTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		driver, keys := storetest.NewMap(), keyring.Ephemeral()
		var off [3]time.Duration
		var stores [3]*memory.Store
		var workers [3]*promotion.Worker
		script := []verifiertest.Step{verifiertest.Unclear(), verifiertest.Down(time.Minute), verifiertest.Supports()}
		crm := verifiertest.New("crm", script[rapid.IntRange(0, 2).Draw(r, "first")])
		for i := range stores {
			var err error
			if stores[i], err = memory.New(driver, keys, &memory.Options{Clock: func() time.Time { return base.Add(off[i]) }}); err != nil {
				r.Fatal(err)
			}
			if workers[i], err = promotion.NewWorker(stores[i], []promotion.Source{source(crm)}, &promotion.Options{VerdictLifetime: time.Hour, Budget: -1}); err != nil {
				r.Fatal(err)
			}
		}
		ctx := context.Background()
		w := &world{t: r, ctx: ctx, store: stores[0]}
		id := w.claim("acme", "Oslo", nil)
		promoted := 0
		for range rapid.IntRange(1, 30).Draw(r, "checks") {
			i := rapid.IntRange(0, 2).Draw(r, "worker")
			off[i] = time.Duration(rapid.IntRange(-300, 300).Draw(r, "minutes")) * time.Minute
			crm.Set(script[rapid.IntRange(0, 2).Draw(r, "says")])
			res, err := workers[i].Check(ctx, id)
			if err != nil {
				r.Fatalf("check: %v", err)
			}
			if res.Status == promotion.Promoted && w.row(id).Revision == 2 {
				promoted++
			}
		}
		crm.Set(verifiertest.Supports())
		for i := range off { // later than any of them was
			off[i] = 400 * 24 * time.Hour
		}
		for range 3 { // a parked row is brought back by reads
			h := promotion.NewHeater(stores[1], nil, nil)
			h.ObserveReads(t.Context(), []memory.ID{id}, 1)
			if err := h.Flush(ctx); err != nil {
				r.Fatal(err)
			}
			if _, err := workers[1].Check(ctx, id); err != nil {
				r.Fatal(err)
			}
		}
		if row := w.row(id); row.State() != memory.StateVerified {
			r.Errorf("the row is %s, mark %+v", row.State(), w.mark(id))
		}
		transitions := 0
		for _, e := range w.moves(id) {
			if e.Kind == memory.EntryTransition && e.Axis == memory.AxisTruth {
				transitions++
			}
		}
		if transitions != 1 || promoted > 1 {
			r.Errorf("%d transitions, %d promotions: %+v", transitions, promoted, w.moves(id))
		}
	})
}
