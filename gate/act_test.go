package gate_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// payment is a call that cannot be undone, in a run. It rests on no row.
func payment(run string) gate.Request {
	return gate.Request{Contract: gate.Contract{Tool: "pay", Effect: gate.Irreversible, Sinks: []string{"/to"}}, Args: []byte(`{"to":"acme"}`),
		Agent: "clerk", Run: run, Principal: "ana", Lineage: gate.Known(nil, nil), Sinks: []gate.Sink{{Pointer: "/to", Value: "acme", Source: gate.SourcePrincipal}}}
}

// held asks that a call waits for what became of another one.
func held(t *testing.T, d gate.Decision, prior string) {
	t.Helper()
	if d.Outcome != gate.Hold || d.HoldID == "" || d.Reasons[0].Code != gate.OutcomeUnknown || d.Reasons[0].Detail != prior {
		t.Fatalf("%v, hold %q, reasons %+v; it waits for %s", d.Err(), d.HoldID, d.Reasons, prior)
	}
}

// jump lets time pass.
func (w *scene) jump(d time.Duration) { w.at(w.Now().Add(d)) }

func fired(t *testing.T, d gate.Decision) string {
	t.Helper()
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return d.ID
}

// While nobody knows how a call ended that cannot be undone, no run makes the same one. It
// waits for the outcome, or for the word of a person.
func TestWhatCannotBeUndoneIsDoneByOneRun(t *testing.T) {
	teststore.Each(t, func(t *testing.T, d memory.Driver) {
		w := newScene(t, d)
		start := func() *gate.Gate { return newGate(t, w.Store, declared(), nil) } // as a program that starts again does
		ends := map[string]struct {
			how  func(id string) error
			free bool // the waiting call may be made
			as   gate.How
		}{
			"the run says that it was done": {func(id string) error { return w.RecordOutcome(t.Context(), id, "done") }, true, gate.HowSettled},
			"the run says that it failed":   {func(id string) error { return w.RecordOutcome(t.Context(), id, "failed") }, true, gate.HowSettled},
			"a person says that it was not": {func(id string) error {
				return w.Settle(t.Context(), memory.Settlement{Decision: id, Actor: "cleo", Reason: "looked"})
			}, true, gate.HowSettled},
			"a person says that it was done": {func(id string) error {
				return w.Settle(t.Context(), memory.Settlement{Decision: id, Done: true, Actor: "cleo", Reason: "the bank shows it"})
			}, false, gate.HowRejected},
		}
		for name, end := range ends {
			request := func(run string) gate.Request {
				r := payment(run)
				r.Args = fmt.Appendf(nil, `{"to":%q}`, name)
				r.Sinks[0].Value = name
				return r
			}
			first := fired(t, start().Decide(t.Context(), request("monday")))
			d := start().Decide(t.Context(), request("tuesday"))
			held(t, d, first)
			held(t, start().Decide(t.Context(), request("tuesday")), first) // asked again
			held(t, start().Decide(t.Context(), request("wednesday")), first)
			if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); err != nil || done {
				t.Fatalf("%s: it waits no more: %+v, %v", name, r, err)
			}
			w.jump(memory.UnknownAfter)
			if err := end.how(first); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r, done, err := gate.Look(t.Context(), w.Store, d.HoldID)
			if err != nil || !done || r.How != end.as {
				t.Fatalf("%s: done %t, %s, %v", name, done, r.How, err)
			}
			again := start().Decide(t.Context(), request("tuesday"))
			if end.free {
				fired(t, again)
			} else if !again.Has(gate.ApprovalRejected) || again.Words != "it was done already: the bank shows it" {
				t.Fatalf("%s: %v, in the words %q", name, again.Err(), again.Words)
			}
		}
	})
}

// What is not the very same call is not held.
func TestAnotherCallIsNotHeld(t *testing.T) {
	same := func(*gate.Request) {}
	changes := map[string]struct {
		change func(*gate.Request)
		free   bool
	}{
		"nothing":               {same, false},
		"another schema":        {func(r *gate.Request) { r.Contract.Schema[0] = 1 }, false},
		"other arguments":       {func(r *gate.Request) { r.Args, r.Sinks[0].Value = []byte(`{"to":"other"}`), "other" }, true},
		"another tool":          {func(r *gate.Request) { r.Contract.Tool = "remit" }, true},
		"another server":        {func(r *gate.Request) { r.Contract.Server = "other" }, true},
		"another prefix":        {func(r *gate.Request) { r.Contract.Tool, r.Contract.AtServer = "bank.pay", "pay" }, false},
		"another of the server": {func(r *gate.Request) { r.Contract.AtServer = "remit" }, true},
		"another agent":         {func(r *gate.Request) { r.Agent = "other" }, true},
		"another principal":     {func(r *gate.Request) { r.Principal = "bob" }, true},
		"it can be put back":    {func(r *gate.Request) { r.Contract.Effect = gate.StateChanging }, true},
		"it reads only":         {func(r *gate.Request) { r.Contract.Effect = gate.ReadOnly }, true},
	}
	for name, c := range changes {
		w := newScene(t, storetest.NewMap())
		first := fired(t, newGate(t, w.Store, declared(), nil).Decide(t.Context(), payment("monday")))
		r := payment("tuesday")
		c.change(&r)
		d := newGate(t, w.Store, declared(), nil).Decide(t.Context(), r)
		if c.free != (d.Err() == nil) {
			t.Errorf("%s: %v", name, d.Err())
		}
		if !c.free {
			held(t, d, first)
		}
	}
	// A policy can say that what reads only cannot be undone.
	w := newScene(t, storetest.NewMap())
	irreversible := gate.Irreversible
	strict := declared()
	strict.Tools = map[string]gate.Rule{"pay": {Effect: &irreversible}}
	r := payment("monday")
	r.Contract.Effect = gate.ReadOnly
	first := fired(t, newGate(t, w.Store, strict, nil).Decide(t.Context(), r))
	r.Run = "tuesday"
	held(t, newGate(t, w.Store, strict, nil).Decide(t.Context(), r), first)
	// What can be put back holds nothing either.
	w = newScene(t, storetest.NewMap())
	for _, run := range []string{"monday", "tuesday"} {
		r := payment(run)
		r.Contract.Effect = gate.StateChanging
		fired(t, newGate(t, w.Store, declared(), nil).Decide(t.Context(), r))
	}
}

// Of runs that ask for the same call at once, one makes it.
func TestOfRunsAtOnceOneFires(t *testing.T) {
	teststore.Each(t, func(t *testing.T, d memory.Driver) {
		w := newScene(t, d)
		for round := range 5 {
			var group sync.WaitGroup
			decided := make([]gate.Decision, 8)
			for i := range decided {
				r := payment(fmt.Sprint("run ", round, i))
				r.Args, r.Sinks[0].Value = fmt.Appendf(nil, `{"to":"%d"}`, round), fmt.Sprint(round)
				g := newGate(t, w.Store, declared(), nil)
				group.Go(func() { decided[i] = g.Decide(t.Context(), r) })
			}
			group.Wait()
			first := 0
			for _, d := range decided {
				switch {
				case d.Err() == nil:
					first++
				case !d.Has(gate.OutcomeUnknown) && !d.Fault:
					t.Error(d.Err())
				}
			}
			if first != 1 {
				t.Fatalf("round %d: %d runs made the call", round, first)
			}
		}
	})
}

// A run whose rows are remembered is held like any other.
func TestARunThatIsRememberedIsHeldToo(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), nil)
	other := payment("tuesday")
	other.Args, other.Sinks[0].Value = []byte(`{"to":"other"}`), "other"
	fired(t, g.Decide(t.Context(), other))
	first := fired(t, g.Decide(t.Context(), payment("monday")))
	held(t, g.Decide(t.Context(), payment("tuesday")), first)
	if err := w.RecordOutcome(t.Context(), first, "done"); err != nil {
		t.Fatal(err)
	}
	fired(t, g.Decide(t.Context(), payment("tuesday")))
}

// anybody verifies no grant.
type anybody struct{}

func (anybody) OpenGrant([]byte) (memory.Grant, error) { return memory.Grant{}, errors.New("nobody") }

// A call of a tool that nobody declared holds other runs for a day, where no key is known by
// which a person could settle it.
func TestWhatNobodyDeclaredHoldsOtherRunsForADay(t *testing.T) {
	for name, c := range map[string]struct {
		declared bool
		keys     gate.Approvals
		run      string
		after    time.Duration
		free     bool
	}{
		"after a day":                {false, nil, "tuesday", 24 * time.Hour, true},
		"before a day is over":       {false, nil, "tuesday", 24*time.Hour - time.Second, false},
		"in the same run":            {false, nil, "monday", 48 * time.Hour, false},
		"a person could settle it":   {false, anybody{}, "tuesday", 48 * time.Hour, false},
		"the tool says what it does": {true, nil, "tuesday", 48 * time.Hour, false},
	} {
		w := newScene(t, storetest.NewMap())
		ask := func(run string) gate.Decision {
			r := payment(run)
			r.Contract.Undeclared = !c.declared
			p := declared()
			p.Tools = map[string]gate.Rule{"pay": {}}
			return newGate(t, w.Store, p, &gate.Options{Approvals: c.keys}).Decide(context.Background(), r)
		}
		first := fired(t, ask("monday"))
		w.jump(c.after)
		d := ask(c.run)
		if c.free != (d.Err() == nil) || !d.Has(gate.OutcomeUnknown) {
			t.Errorf("%s: %v, %+v", name, d.Err(), d.Reasons)
		}
		if c.free { // and that call now stands in the way of others
			held(t, ask("wednesday"), d.ID)
			if err := w.RecordOutcome(t.Context(), first, "done"); err != nil {
				t.Fatal(err)
			}
			held(t, ask("wednesday"), d.ID)
		}
	}
}
