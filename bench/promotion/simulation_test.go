package main

import (
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// A run reads its own false row without end: 6,000 reads a minute beside 100 of all
// others. It buys one question for each verdict lifetime, and the waiting time of the
// others does not grow with the flood.
func TestAFloodOfReadsOfOneRowBuysNoBudget(t *testing.T) {
	calm := crowd{rows: 200, reads: 100, calls: 6, minutes: 90, seed: 11}
	quiet, err := calm.ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var last *ran
	for _, flood := range []float64{60, 6000, 600_000} {
		flooded := calm
		flooded.flood = flood
		got, err := flooded.ours(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// A lifetime is an hour, then two: it is asked about at the start and after an hour.
		if got.ofFlood != 2 {
			t.Errorf("%v reads a minute bought %d questions", flood, got.ofFlood)
		}
		// Two questions take two slots: that much later the others come, on average,
		// whatever the flood.
		slot := time.Minute / time.Duration(calm.calls)
		checked, late := 0, time.Duration(0)
		for row := range got.verified {
			if with, without := got.verified[row], quiet.verified[row]; with >= 0 && without >= 0 {
				checked, late = checked+1, late+with-without
			}
		}
		if checked < 150 || late > time.Duration(2*checked)*slot {
			t.Errorf("%v reads a minute: %d rows come %s later each", flood, checked, late/time.Duration(max(checked, 1)))
		}
		if last != nil {
			for row := range got.verified {
				if got.verified[row] != last.verified[row] {
					t.Errorf("a hundred times the flood moves row %d from %s to %s", row, last.verified[row], got.verified[row])
				}
			}
		}
		last = got
	}
}

func TestTheOrderOfTheQueueIsThatOfAnIdealOne(t *testing.T) {
	c := crowd{rows: 1000, reads: 1000, calls: 60, minutes: 10, seed: 3}
	ours, err := c.ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	best := c.ideal()
	if a, b := quantile(ours.waits(), 0.5), quantile(best.waits(), 0.5); a > 1.1*b+1 {
		t.Errorf("the hot rows wait %v s, ideally %v s", a, b)
	}
	if ours.useful < best.useful*95/100 {
		t.Errorf("%d promotions were of use, ideally %d", ours.useful, best.useful)
	}
}
