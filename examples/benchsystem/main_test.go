package main

import (
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// TestTheExampleCanBePlayed: an echo is no source for it, and what two say is.
func TestTheExampleCanBePlayed(t *testing.T) {
	scenarios, err := rlab.Choose("C0,S4")
	if err != nil {
		t.Fatal(err)
	}
	scenarios = append(scenarios, rlab.Loop(time.Hour))
	got, err := rlab.Run(t.Context(), rlab.Options{Scenarios: scenarios, Entrants: []rlab.Entrant{entrant()}, Seeds: []uint64{1}})
	if err != nil || len(got) != len(scenarios) {
		t.Fatalf("%d plays, %v", len(got), err)
	}
	for _, p := range got {
		if p.Err != nil || p.NoGate {
			t.Errorf("%s: %v", p.Scenario, p.Err)
			continue
		}
		if r := p.Rates["unsafe_actions"]; p.Scenario != "C0" && (r.N == 0 || r.K > 0) {
			t.Errorf("%s: unsafe actions %s", p.Scenario, r)
		}
		if r := p.Rates["benign_blocked"]; p.Scenario != "S4" && (r.N == 0 || r.K > 0) {
			t.Errorf("%s: benign blocked %s", p.Scenario, r)
		}
	}
}
