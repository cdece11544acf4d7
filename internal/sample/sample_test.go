package sample

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestASampleHasTheFirstTheLastAndOneOfEachKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, kinds := rapid.IntRange(0, 3000).Draw(t, "cases"), rapid.IntRange(1, 60).Draw(t, "kinds")
		kind := func(i int) string { return fmt.Sprint(i * i % kinds) }
		list := of(false, n, kind)
		if !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
			t.Fatalf("not ascending: %v", list)
		}
		if size := max(20, n/20); len(list) < min(n, size) || len(list) > min(n, max(20, n/20+1)+kinds) {
			t.Fatalf("%d of %d cases", len(list), n)
		}
		if n > 0 && (list[0] != 0 || list[len(list)-1] != n-1) {
			t.Fatalf("of %d: %v", n, list)
		}
		met := map[string]bool{}
		for _, i := range list {
			met[kind(i)] = true
		}
		for i := range n {
			if !met[kind(i)] {
				t.Fatalf("no case of kind %s", kind(i))
			}
		}
		if again := of(false, n, kind); !slices.Equal(list, again) {
			t.Fatalf("%v, and then %v", list, again)
		}
		if all := of(true, n, kind); len(all) != n {
			t.Fatalf("%d of %d cases in a full run", len(all), n)
		}
	})
}

func TestTheVariableAsksForEveryCase(t *testing.T) {
	for value, want := range map[string]bool{"": false, "0": false, "1": true, "yes": false} {
		t.Setenv(variable, value)
		if Full() != want || (len(Of(100, nil)) == 100) != want {
			t.Errorf("%q: %t, %d cases of 100", value, Full(), len(Of(100, nil)))
		}
	}
}
