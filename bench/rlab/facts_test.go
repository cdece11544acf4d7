package rlab

import (
	"math/rand/v2"
	"testing"
)

// TestEachFactIsOfAnotherSubject: there are more names than names of three parts.
func TestEachFactIsOfAnotherSubject(t *testing.T) {
	p := &play{rng: rand.New(rand.NewPCG(1, 2)), taken: map[string]bool{}}
	seen := map[string]bool{}
	for i := range 3 * len(factFirst) * len(factMiddle) * len(factLast) {
		subject := p.slot(i).Subject
		if seen[subject] {
			t.Fatalf("%q has two facts", subject)
		}
		seen[subject] = true
	}
}
