package promotion

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// TestAStoreThatIsSlowEveryNowAndThenHidesNoOther: of the slow ones, that which was logged longest ago is logged next.
func TestAStoreThatIsSlowEveryNowAndThenHidesNoOther(t *testing.T) {
	a := &admission{places: 8}
	start := time.Now()
	slow := func() *hand { return &hand{storeWait: storeWait{mu: new(sync.Mutex), since: start}} }
	flaps, hangs := &share{admission: a}, &share{admission: a}
	a.shares = []*share{flaps, hangs}
	var told []*share
	for minute := range 4 {
		for _, s := range a.shares {
			s.hands = []*hand{slow()}
		}
		flaps.slow, flaps.told = false, false // it was fast meanwhile
		now := start.Add(time.Duration(minute+1) * outageEvery)
		for range 3 { // one is logged at a time
			if s, _ := a.relieve(now); s != nil {
				told = append(told, s)
			}
		}
	}
	if want := []*share{flaps, hangs, flaps, flaps}; !slices.Equal(told, want) {
		t.Errorf("logged %v", slices.Collect(func(yield func(bool) bool) {
			for _, s := range told {
				yield(s == flaps)
			}
		}))
	}
}
