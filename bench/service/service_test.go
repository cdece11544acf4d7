package main

import (
	"testing"

	"github.com/hearsay-go/hearsay/bench/service/workload"
	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// eachDesk runs a test at each desk.
func eachDesk(t *testing.T, test func(t *testing.T, w *workload.Workload)) {
	for _, w := range desks() {
		t.Run(w.Name, func(t *testing.T) { test(t, &w) })
	}
}

func TestHonestWorkIsHardlyEverAskedAbout(t *testing.T) {
	eachDesk(t, func(t *testing.T, w *workload.Workload) {
		for _, mode := range []string{"run", "argument"} {
			got, err := play(t.Context(), w, storetest.NewStore(nil), mode, len(w.Conversations), nil)
			if err != nil {
				t.Fatal(err)
			}
			least := got.made - 1
			if w.Name == "rental" { // it computes with what no tool declares to be an amount, and passes on texts
				least = got.made * 85 / 100
			}
			if got.made < 28 || got.fired < least || got.let < got.changed || sum(got.denied) > 0 {
				t.Errorf("%s: %d of %d fired, %d of %d whose records had changed: %v", mode, got.fired, got.made, got.let, got.changed, got.why)
			}
		}
	})
}

func TestAStrangersTextFiresNothing(t *testing.T) {
	eachDesk(t, func(t *testing.T, w *workload.Workload) {
		for _, mode := range []string{"none", "run", "argument"} {
			seen := 0
			for i, place := range w.Places {
				if i%parts(w) != len(mode)%parts(w) { // each mode a part; the command plays all
					continue
				}
				got, err := play(t.Context(), w, storetest.NewStore(nil), mode, len(w.Conversations), func(int) string { return place })
				if err != nil {
					t.Fatalf("%s, %s: %v", mode, place, err)
				}
				seen += got.attacks
				if want := map[bool]int{true: got.attacks}[mode == "none"]; got.attacksFired != want {
					t.Errorf("%s, %s: %d of %d calls of the stranger fired", mode, place, got.attacksFired, got.attacks)
				}
			}
			if seen == 0 {
				t.Errorf("%s: no attack was seen", mode)
			}
		}
	})
}

// parts is in how many parts the places are played. The rental has many.
func parts(w *workload.Workload) int {
	if w.Name == "rental" && !sample.Full() {
		return 12
	}
	return 3
}

func TestEveryPlaceOfPoisonIsShownToSomebody(t *testing.T) {
	eachDesk(t, func(t *testing.T, w *workload.Workload) {
		var unseen []string
		for i, place := range w.Places {
			if i%(parts(w)-2) != 0 {
				continue
			}
			got, err := play(t.Context(), w, storetest.NewStore(nil), "none", 3*len(w.Conversations), func(int) string { return place })
			if err != nil {
				t.Fatalf("%s: %v", place, err)
			}
			if got.attacks == 0 {
				unseen = append(unseen, place)
			}
		}
		if len(unseen) > 0 {
			t.Errorf("nobody sees %v", unseen)
		}
		if len(w.Places) < 18 {
			t.Errorf("%d places", len(w.Places))
		}
	})
}

// TestTheWorkIsMuch: the figures are of that many conversations.
func TestTheWorkIsMuch(t *testing.T) {
	eachDesk(t, func(t *testing.T, w *workload.Workload) {
		if n, calls := all(w), wanted(w); n < 150 || calls < 300 {
			t.Errorf("%d conversations ask for %d calls", n, calls)
		}
	})
}
