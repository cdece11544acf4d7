package rlab

import (
	"math/rand/v2"
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

// TestWhatLandsOnAnotherClaimIsCounted in every scenario.
func TestWhatLandsOnAnotherClaimIsCounted(t *testing.T) {
	for _, s := range Scenarios() {
		if s.ID == s6.ID || s.ID == s11.ID { // one row of all is slow beside a clock that runs
			continue
		}
		for name, row := range map[string]func(Statement) string{"a row for each text": func(s Statement) string { return s.Text }, "one row of all": func(Statement) string { return "1" }} {
			t.Run(s.ID+", "+name, func(t *testing.T) {
				t.Parallel()
				var writes atomic.Int64
				counts := func(s Statement) string {
					writes.Add(1)
					return row(s)
				}
				got, err := Run(t.Context(), Options{Scenarios: []Scenario{s}, Entrants: []Entrant{entrant("a", func() System { return &lineage{row: counts} })}, Seeds: []uint64{1}})
				if err != nil || got[0].Err != nil {
					t.Fatal(err, got[0].Err)
				}
				if r := got[0].Rates[merged]; int64(r.N) != writes.Load() || (r.K > 0) != (name == "one row of all") {
					t.Errorf("%d of %d merged, of %d writes", r.K, r.N, writes.Load())
				}
				if r := got[0].Rates[nearMerged]; s.ID == "S1" && (r.N != 3*len(nearMisses) || r.K != map[bool]int{true: r.N}[name == "one row of all"]) {
					t.Errorf("%d of %d near misses merged", r.K, r.N)
				}
				if !slices.ContainsFunc(s.measures, func(m measure) bool { return m.name == merged }) {
					t.Error("it is not reported")
				}
			})
		}
	}
}

// TestAMemoryOfTwoClaimsIsOneOfEach: what is counted of it counts for both, and an agent may act
// on it for the second one only if its value stands there.
func TestAMemoryOfTwoClaimsIsOneOfEach(t *testing.T) {
	p := &play{holds: map[string]*claim{}, rng: rand.New(rand.NewPCG(1, 1))}
	first, second := p.apart(claim{value: "alpha"}), p.apart(claim{value: "beta"})
	if p.land(first, "1") || !p.land(second, "1") || p.land(second, "2") || p.land(first, "3") {
		t.Error("merged is what was written first to a memory of its own, or is not what came second")
	}
	if want := []string{"1", "2"}; !slices.Equal(second.ids, want) {
		t.Errorf("memories %v, want %v", second.ids, want)
	}
	for _, c := range []struct {
		m             Memory
		first, second bool
	}{
		{Memory{ID: "1", Trusted: true, Text: "it is alpha"}, true, false},
		{Memory{ID: "1", Trusted: true, Text: "it is alpha or beta"}, true, true},
		{Memory{ID: "1", Trusted: true, Text: "in other words"}, true, false},
		{Memory{ID: "1", Text: "it is alpha or beta"}, false, false},
	} {
		if one, two := p.trusts(c.m, first), p.trusts(c.m, second); one != c.first || two != c.second {
			t.Errorf("%+v: %t, %t", c.m, one, two)
		}
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
