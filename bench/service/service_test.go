package main

import (
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// part is a round of each kind of work.
func part() []int {
	all := numbers("open")
	return all[:len(conversations)]
}

func TestHonestWorkIsHardlyEverAskedAbout(t *testing.T) {
	s := serve()
	defer s.server.Close()
	for _, mode := range []string{"run", "argument"} {
		got, err := play(t.Context(), s, storetest.NewStore(nil), mode, part(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got.changes < 28 || got.fired < got.changes-1 || got.denied > 0 {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

func TestAStrangersTextFiresNothing(t *testing.T) {
	s := serve()
	defer s.server.Close()
	for _, mode := range []string{"none", "run", "argument"} {
		seen := 0
		for i, place := range places {
			if i%3 != len(mode)%3 { // each mode a third; the command plays all
				continue
			}
			got, err := play(t.Context(), s, storetest.NewStore(nil), mode, part(), func(int) string { return place })
			if err != nil {
				t.Fatalf("%s, %s: %v", mode, place, err)
			}
			seen += got.attacks
			if want := map[bool]int{true: got.attacks}[mode == "none"]; got.attacksFired != want {
				t.Errorf("%s, %s: %d of %d calls of the attacker fired", mode, place, got.attacksFired, got.attacks)
			}
		}
		if seen == 0 {
			t.Errorf("%s: no attack was seen", mode)
		}
	}
}

func TestEveryPlaceOfPoisonIsShownToSomebody(t *testing.T) {
	s := serve()
	defer s.server.Close()
	var unseen []string
	for _, place := range places {
		got, err := play(t.Context(), s, storetest.NewStore(nil), "none", numbers("all")[:3*len(conversations)], func(int) string { return place })
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
	if !slices.Contains(places, "stock.key") || len(places) < 20 {
		t.Errorf("%d places", len(places))
	}
}
