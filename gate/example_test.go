package gate_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A model made up where Acme wants its bills. A search may be made with it; an
// e-mail may not be sent with it.
func Example() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	claim, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "billing.email", Object: "ops@acme.example", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "assistant", Model: "sonnet-4.6", Family: "claude"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	g, err := gate.New(store, gate.Policy{Name: "prod", Version: "7", Declared: true}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range []gate.Contract{{Tool: "search", Effect: gate.ReadOnly}, {Tool: "send_email", Effect: gate.Irreversible, Sinks: []string{"/to"}}} {
		args, err := gate.Canonical([]byte(`{"to": "ops@acme.example"}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		d := g.Decide(ctx, gate.Request{Contract: c, Args: args, Principal: "ana", Lineage: gate.Known([]memory.ID{claim.ID}, nil),
			Sinks: []gate.Sink{{Pointer: "/to", Source: gate.SourceRow, Row: claim.ID}}})
		fmt.Println(c.Tool, d.Outcome, errors.Is(d.Err(), gate.ErrUnverified))
	}
	// Output:
	// search permitted false
	// send_email held true
}

// Observing is how a team starts: it sees what would have been blocked, and
// nothing that can be undone is.
func ExampleOptions_observe() {
	store := storetest.NewStore(nil)
	defer store.Close()
	g, err := gate.New(store, gate.Policy{Name: "trial", Declared: true}, &gate.Options{Mode: gate.Observe})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, effect := range []gate.Effect{gate.StateChanging, gate.Irreversible} {
		d := g.Decide(context.Background(), gate.Request{Contract: gate.Contract{Tool: "t", Effect: effect}, Lineage: gate.Unknown("history of another program")})
		fmt.Println(effect, d.Outcome, d.Observed, d.Reasons[0].Code)
	}
	// Output:
	// state_changing permitted true lineage_unknown
	// irreversible denied false lineage_unknown
}

// Arguments have one form, so that what is judged is what the tool gets.
func ExampleCanonical() {
	args, err := gate.Canonical([]byte(`{"to": "a\u0040b.example", "amount": 40.0}`))
	fmt.Println(string(args), err)
	_, err = gate.Canonical([]byte(`{"to": "a", "to": "b"}`))
	fmt.Println(err)
	// Output:
	// {"amount":40,"to":"a@b.example"} <nil>
	// gate: invalid argument "/to": named twice (duplicate_key)
}

// A policy is data. What is wrong with a file is said by line and field, and what
// comes with an error denies everything.
func ExampleParsePolicy() {
	p, err := gate.ParsePolicy([]byte(`{
	  "schema": "hearsay.policy/1", "name": "prod", "version": "7",
	  "tools": {"search": {}, "send_email": {"max_age": "24h"}, "wipe": {"never": "ask operations"}}
	}`))
	fmt.Println(p.String(), len(p.Tools), err)
	p, err = gate.ParsePolicy([]byte(`{
	  "schema": "hearsay.policy/1", "name": "prod", "version": "7",
	  "tools": {
	    "send_email": {"max_age": "1 day", "cieling": "public"}
	  }
	}`))
	fmt.Println(err)
	d := p.Evaluate(&gate.Request{Contract: gate.Contract{Tool: "search", Effect: gate.ReadOnly}, Lineage: gate.Known(nil, nil)}, memory.Fitness{})
	fmt.Println(d.Outcome, d.Has(gate.ToolNotNamed))
	// Output:
	// prod@7 3 <nil>
	// gate: policy: line 4: tools.send_email.max_age: want a duration such as 24h or 30m
	// gate: policy: line 4: tools.send_email.cieling: no such field; a rule has never, effect, max_age, ceiling, from_nowhere, precision, corroboration, optional_sinks, trusted_output, computed_arguments, repeatable, named, max_blast_radius
	// denied true
}
