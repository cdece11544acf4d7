package asynqqueue

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestATurnIsGivenByTheTimeOfPlaces plays turns of which nothing but their length is
// known, in a process of one place.
func TestATurnIsGivenByTheTimeOfPlaces(t *testing.T) {
	const quick, slow = 125 * time.Millisecond, 2 * time.Second
	for _, c := range []struct {
		name    string
		weights [2]int
		lasts   [2]time.Duration
		alone   time.Duration // how long the second is empty at first
		part    float64       // of the first, of the time that both have rows
	}{
		{"equal ones", [2]int{1, 1}, [2]time.Duration{quick, quick}, 0, 0.5},
		{"by weight", [2]int{3, 1}, [2]time.Duration{quick, quick}, 0, 0.75},
		{"one with slow checks", [2]int{1, 1}, [2]time.Duration{slow, quick}, 0, 0.5},
		{"one with slow checks and more weight", [2]int{4, 1}, [2]time.Duration{slow, quick}, 0, 0.8},
		{"one that had nothing for an hour is owed nothing", [2]int{1, 1}, [2]time.Duration{quick, quick}, time.Hour, 0.5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := turns{counted: time.Now()}
				var had [2]time.Duration
				for i := range 2 {
					all.shares = append(all.shares, &turn{Share: Share{Queue: &Queue{}, Weight: c.weights[i]}})
					all.shares[i].Queue.waits.Store(map[bool]int64{true: 1}[i == 0 || c.alone == 0])
				}
				play := func(lasts time.Duration) {
					for end := time.Now().Add(lasts); time.Now().Before(end); {
						s := all.begin(nil)
						for i := range 2 {
							if s == all.shares[i] {
								all.give(s, func() (int, error) { <-time.After(c.lasts[i]); return 1, nil })
								had[i] += c.lasts[i]
							}
						}
					}
				}
				if play(c.alone); had[1] > 0 {
					t.Errorf("without a row it had %s", had[1])
				}
				all.shares[1].Queue.waits.Store(1)
				had = [2]time.Duration{}
				play(time.Minute)
				if part := had[0].Seconds() / (had[0] + had[1]).Seconds(); part < c.part-0.04 || part > c.part+0.04 {
					t.Errorf("the first had %.2f of the time, want %.2f", part, c.part)
				}
			})
		})
	}
	t.Run("a queue that is paused has no turn, and one that woke the worker has", func(t *testing.T) {
		all := turns{shares: []*turn{{Share: Share{Queue: &Queue{}, Weight: 1}}}, counted: time.Now()}
		own := all.shares[0]
		if s := all.begin(nil); s != nil {
			t.Error("no row waits")
		}
		if s := all.begin(own); s != own {
			t.Error("its token came")
		}
		own.Queue.paused.Store(true)
		if s := all.begin(own); s != nil {
			t.Error("it is paused")
		}
	})
}
