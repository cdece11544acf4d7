package rlab

import (
	"slices"
	"sync/atomic"
	"testing"
)

func TestSeedsFollowTheFirstOne(t *testing.T) {
	if got := Seeds(7, 3); !slices.Equal(got, []uint64{7, 8, 9}) {
		t.Errorf("%v", got)
	}
}

// TestASeriesIsTheMeanOfItsPlays, of as many as have the point.
func TestASeriesIsTheMeanOfItsPlays(t *testing.T) {
	got := mean([]Point{{1, 2}, {2, 8}, {1, 4}, {1, 9}, {2, 2}})
	if want := []Point{{1, 5}, {2, 5}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAPlayHasAsManyStepsAsItSays, so that the time that is left is about right: an agent that
// is shown no memory tries no call.
func TestAPlayHasAsManyStepsAsItSays(t *testing.T) {
	for _, s := range Scenarios() {
		if s.ID == s6.ID || s.ID == s11.ID { // their clock runs
			continue
		}
		t.Run(s.ID, func(t *testing.T) {
			t.Parallel()
			var done, total atomic.Int64
			_, err := Run(t.Context(), Options{Scenarios: []Scenario{s}, Entrants: []Entrant{entrant("a", func() System { return &lineage{row: func(s Statement) string { return s.Text }} })}, Seeds: []uint64{1},
				Progress: func(n, of int) { done.Store(max(done.Load(), int64(n))); total.Store(int64(of)) }})
			if n, of := done.Load(), total.Load(); err != nil || of == 0 || n > of || n < of-of/20 {
				t.Errorf("%d of %d steps, %v", n, of, err)
			}
		})
	}
}

// TestTheMeanOfOnesIsOne: a target of 1 is met by it.
func TestTheMeanOfOnesIsOne(t *testing.T) {
	for n := 1; n <= 200; n++ {
		var f Figure
		f.average(slices.Repeat([]Value{{V: 1, Floor: 1, N: 1}}, n))
		if f.Value != 1 || f.Ratio != 1 || f.N != n {
			t.Errorf("the mean of %d ones is %v", n, f.Value)
		}
	}
}
