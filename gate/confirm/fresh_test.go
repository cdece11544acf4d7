package confirm_test

import (
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// A row that was noted to be stale, or to have expired, is fresh when a person confirms it.
func TestWhatIsConfirmedIsFresh(t *testing.T) {
	for _, to := range [][]memory.Freshness{{memory.FreshnessStale}, {memory.FreshnessStale, memory.FreshnessExpired}} {
		w := newWorld(t)
		row := w.known(t, fact("pay@acme.example"))
		w.pass(100 * 24 * time.Hour)
		for _, f := range to {
			if _, err := w.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: w.row(t, row.ID).Revision, To: f, Authority: memory.AuthoritySystem, Actor: "worker", Source: "clock", Reason: "test"}); err != nil {
				t.Fatal(err)
			}
		}
		row = w.row(t, row.ID)
		res, err := w.apply(t, sign(t, w.statement(confirm.Confirm, row, "cleo")))
		got := w.row(t, row.ID)
		if err != nil || got.FreshnessAt(w.Now()) != memory.FreshnessFresh || got.Rank != memory.RankUser || res.Revision != got.Revision {
			t.Errorf("%v: %s, rank %s, %+v, %v", to, got.FreshnessAt(w.Now()), got.Rank, res, err)
		}
	}
}
