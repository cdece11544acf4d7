package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
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

// fromCRM is a verified row of a system of record.
func (w *scene) fromCRM(t *testing.T, subject, predicate, object string) memory.ID {
	t.Helper()
	r, err := w.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginFirstHand,
		State: memory.StateVerified, Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "ana", Tool: "crm"},
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: "tool:crm", Anchor: memory.Anchor{URI: "call:1"}, At: w.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
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
			"the run says that it was done": {func(id string) error { return w.RecordOutcome(t.Context(), id, memory.CallDone, "") }, true, gate.HowSettled},
			"the run says that it failed":   {func(id string) error { return w.RecordOutcome(t.Context(), id, memory.CallFailed, "") }, true, gate.HowSettled},
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
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
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
	irreversible := gate.Irreversible
	for name, c := range map[string]struct {
		declared bool
		rule     gate.Rule
		keys     gate.Approvals
		run      string
		after    time.Duration
		free     bool
	}{
		"after a day":                        {run: "tuesday", after: 24 * time.Hour, free: true},
		"before a day is over":               {run: "tuesday", after: 24*time.Hour - time.Second},
		"in the same run":                    {run: "monday", after: 48 * time.Hour},
		"a person could settle it":           {keys: anybody{}, run: "tuesday", after: 48 * time.Hour},
		"the tool says what it does":         {declared: true, run: "tuesday", after: 48 * time.Hour},
		"the policy says what it does":       {rule: gate.Rule{Effect: &irreversible}, run: "tuesday", after: 48 * time.Hour},
		"the policy says how often it fires": {rule: gate.Rule{Once: true}, run: "tuesday", after: 48 * time.Hour},
	} {
		w := newScene(t, storetest.NewMap())
		ask := func(run string) gate.Decision {
			r := payment(run)
			r.Contract.Undeclared = !c.declared
			p := declared()
			p.Tools = map[string]gate.Rule{"pay": c.rule}
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
			w.jump(48 * time.Hour) // the run's own call stands in its way, whatever another run has made since
			held(t, ask("monday"), d.ID)
			if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
				t.Fatal(err)
			}
			w.jump(-48 * time.Hour)
			held(t, ask("wednesday"), d.ID)
		}
	}
}

// TestWhatAPersonSettledAsDoneIsNotDoneByTheNextRun: a program whose process died starts again
// after she has looked. Nobody had asked for the call meanwhile.
func TestWhatAPersonSettledAsDoneIsNotDoneByTheNextRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*gate.Request)
		not    bool          // she says that it was not done
		erased bool          // and the record of the call is
		after  time.Duration // she said so
		want   gate.Outcome
		noted  bool
	}{
		"at once":                   {want: gate.Hold, noted: true},
		"within a day":              {after: memory.RejectedFor - time.Second, want: gate.Hold, noted: true},
		"after a day":               {after: memory.RejectedFor, want: gate.Permit},
		"it was not done":           {not: true, want: gate.Permit},
		"another call":              {change: func(r *gate.Request) { r.Args = []byte(`{"to":"bolt"}`); r.Sinks[0].Value = "bolt" }, want: gate.Permit},
		"it may be repeated":        {change: func(r *gate.Request) { r.Contract.Repeatable = true }, want: gate.Permit},
		"nobody declared the tool":  {change: func(r *gate.Request) { r.Contract.Undeclared = true }, want: gate.Permit, noted: true},
		"something else denies it":  {change: func(r *gate.Request) { r.Lineage = gate.Unknown("lost") }, want: gate.Deny, noted: true},
		"its record was erased":     {erased: true, want: gate.Hold, noted: true},
		"its record is erased then": {erased: true, after: time.Hour, want: gate.Hold, noted: true},
	} {
		w := newScene(t, storetest.NewMap())
		g := newGate(t, w.Store, declared(), nil)
		row := w.fromCRM(t, "eve", "iban", "x")
		first := payment("monday")
		first.Lineage = gate.Known([]memory.ID{row}, nil)
		id := fired(t, g.Decide(t.Context(), first))
		erase := func() {
			if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
		}
		if c.erased && c.after == 0 {
			erase()
		}
		w.jump(memory.UnknownAfter)
		if err := w.Settle(t.Context(), memory.Settlement{Decision: id, Done: !c.not, Actor: "cleo", Reason: "the bank shows it"}); err != nil {
			t.Fatal(name, err)
		}
		if c.erased && c.after > 0 {
			erase()
		}
		w.jump(c.after)
		call := payment("tuesday")
		if c.change != nil {
			c.change(&call)
		}
		d := g.Decide(t.Context(), call)
		if d.Outcome != c.want || d.Has(gate.AlreadyDone) != c.noted || c.noted && !strings.Contains(fmt.Sprint(d.Reasons), id) {
			t.Errorf("%s: %s, %+v", name, d.Outcome, d.Reasons)
		}
		r, err := w.Decision(t.Context(), d.ID)
		if err != nil || strings.Contains(string(r.Data), "bank") {
			t.Errorf("%s: her words are in the record of another call: %s, %v", name, r.Data, err)
		}
		sound := func(when string) {
			if v, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { t.Errorf("%s, %s: %v", name, when, err); return nil }}); err != nil || v.Found != 0 {
				t.Errorf("%s, %s: %+v, %v", name, when, v, err)
			}
		}
		sound("before it is rebuilt")
		if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
			t.Fatal(name, err)
		}
		sound("rebuilt")
	}
}

// TestAReadingTellsOfItsOwnCallAlone: it frees the same call while the call that it is about is
// the one in doubt, and not the next one.
func TestAReadingTellsOfItsOwnCallAlone(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), nil)
	row := w.fromCRM(t, "7", "order.state", "open")
	effect := gate.StateChanging
	ask := func(run, of string) gate.Decision {
		r := payment(run)
		r.Contract.Shown, r.Contract.Effect = "order.state", effect
		r.Lineage, r.Told, r.ToldOf = gate.Known([]memory.ID{row}, nil), row, of
		return g.Decide(t.Context(), r)
	}
	first := fired(t, ask("monday", ""))
	held(t, ask("monday", ""), first)
	second := fired(t, ask("monday", first))
	held(t, ask("monday", first), second)
	fired(t, ask("monday", second))
	// It does not free what cannot be undone: the gate does not know which value says that the
	// call was made.
	effect = gate.Irreversible
	grave := fired(t, ask("tuesday", ""))
	held(t, ask("tuesday", grave), grave)
}

// TestAnApprovalUnderAnotherNameOfTheTool: a hold that was opened under one name of the tool
// gives way to one under the name that the tool has now.
func TestAnApprovalUnderAnotherNameOfTheTool(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), &gate.Options{Approvals: anybody{}})
	ask := func(name string) gate.Decision {
		r := payment("monday")
		r.Contract.Tool, r.Contract.AtServer, r.Contract.Server = name, "pay", "bank"
		r.Sinks[0].Source = gate.SourceNowhere
		return g.Decide(t.Context(), r)
	}
	before, now := ask("pay"), ask("bank.pay")
	if before.HoldID == "" || now.HoldID == before.HoldID || ask("bank.pay").HoldID != now.HoldID {
		t.Errorf("holds %s and %s", before.HoldID, now.HoldID)
	}
	old, err := w.Hold(t.Context(), before.HoldID)
	if err != nil || old.State != memory.HoldStale || old.Server != "bank" {
		t.Errorf("%+v, %v", old, err)
	}
}

// TestTheTimeOfACallOutlivesItsRecord: what can be put back is free after the policy's time,
// also if the record of the call in doubt was erased.
func TestTheTimeOfACallOutlivesItsRecord(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), nil)
	row := w.fromCRM(t, "eve", "iban", "x")
	call := payment("monday")
	call.Contract.Effect = gate.StateChanging
	first := call
	first.Lineage = gate.Known([]memory.ID{row}, nil)
	id := fired(t, g.Decide(t.Context(), first))
	if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	w.jump(24*time.Hour - time.Second)
	held(t, g.Decide(t.Context(), call), id)
	w.jump(time.Second)
	if d := g.Decide(t.Context(), call); d.Err() != nil || !d.Has(gate.OutcomeUnknown) {
		t.Errorf("%v, %+v", d.Err(), d.Reasons)
	}
}

// TestClocksThatDifferAreNoTampering: a call is made again by a process whose clock is behind
// that of the one which recorded the outcome of the first. A clock may differ by a minute.
func TestClocksThatDifferAreNoTampering(t *testing.T) {
	for behind, sound := range map[time.Duration]bool{5 * time.Second: true, 50 * time.Second: true, 90 * time.Second: false} {
		d, keys := storetest.NewMap(), keyring.Ephemeral()
		open := func(at time.Time) *memory.Store {
			s, err := memory.New(d, keys, &memory.Options{Clock: func() time.Time { return at }})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		first, ahead := open(clock0), open(clock0.Add(time.Second+behind))
		id := fired(t, newGate(t, first, declared(), nil).Decide(t.Context(), payment("monday")))
		if err := ahead.RecordOutcome(t.Context(), id, memory.CallFailed, ""); err != nil {
			t.Fatal(err)
		}
		fired(t, newGate(t, open(clock0.Add(time.Second)), declared(), nil).Decide(t.Context(), payment("tuesday")))
		found := 0
		if _, err := ahead.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error {
			found++
			t.Logf("%s behind: %v", behind, err)
			return nil
		}}); err != nil || (found == 0) != sound {
			t.Errorf("%s behind: %d found, %v", behind, found, err)
		}
	}
}
