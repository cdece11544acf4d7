package gate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// addresses are the arguments of a call whose text holds as many addresses as fit, each
// of them another one.
func addresses(t *testing.T) (args []byte, n int) {
	t.Helper()
	var body strings.Builder
	for body.Len() < gate.MaxArguments-100 {
		fmt.Fprintf(&body, "a%d@x.example ", n)
		n++
	}
	args, err := json.Marshal(map[string]string{"body": body.String(), "to": "ops@acme.example"})
	if err != nil {
		t.Fatal(err)
	}
	return args, n
}

// TestTargetsOfTheLongestArgumentsAreFound: each target once. How long it takes is a figure
// of bench/perf, as it is of the tests of long inputs in agent and memory.
func TestTargetsOfTheLongestArgumentsAreFound(t *testing.T) {
	args, n := addresses(t)
	if got := gate.Targets(args, []string{"/to"}); len(got) != n {
		t.Errorf("%d targets, want %d", len(got), n)
	}
	twice := []byte(`{"body":"eve@x.example eve@x.example","cc":"eve@x.example"}`)
	if got := gate.Targets(twice, nil); len(got) != 2 {
		t.Errorf("what stands in one argument twice is one target: %v", got)
	}
}

// TestACallWithManyTargetsIsDecided: also where the caller says of each of
// them where it came from.
func TestACallWithManyTargetsIsDecided(t *testing.T) {
	args, _ := addresses(t)
	req := mail()
	req.Contract = gate.Contract{Tool: "send_email", Effect: gate.StateChanging, Precision: gate.TypedSinks, Sinks: []string{"/to"}, Kinds: map[string]gate.Kind{"/to": gate.KindRecipient}}
	req.Args = args
	for _, target := range gate.Targets(args, req.Contract.Sinks) {
		req.Sinks = append(req.Sinks, gate.Sink{Pointer: target.Pointer, Value: target.Value, Source: gate.SourcePrincipal})
	}
	heads := []memory.Head{unverified("note")}
	req.Lineage = gate.Known([]memory.ID{heads[0].ID}, nil)
	g := newGate(t, newFake(heads...), declared(), nil)
	d := g.Decide(t.Context(), req)
	if d.Blocked() || d.Precision != gate.TypedSinks {
		t.Errorf("what the principal typed is held: %v", d.Err())
	}
	req.Sinks = req.Sinks[:len(req.Sinks)-1]
	if d := g.Decide(t.Context(), req); !d.Blocked() {
		t.Error("an address that nobody said anything of went out")
	}
}
