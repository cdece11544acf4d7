package gate_test

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// repeated asks that a call is held because a decision let the same one through, which was
// done.
func repeated(t *testing.T, d gate.Decision, done string) {
	t.Helper()
	if d.Outcome != gate.Hold || d.HoldID == "" || d.Reasons[0].Code != gate.AlreadyDone || !strings.HasPrefix(d.Reasons[0].Detail, done+" at 20") {
		t.Fatalf("%v, hold %q, reasons %+v; it was done by %s", d.Err(), d.HoldID, d.Reasons, done)
	}
}

// A run does not do again what cannot be undone and was done. Another run may.
func TestARunDoesNotRepeatWhatCannotBeUndone(t *testing.T) {
	teststore.Each(t, func(t *testing.T, d memory.Driver) {
		w := newScene(t, d)
		start := func() *gate.Gate { return newGate(t, w.Store, declared(), &gate.Options{Approvals: anybody{}}) }
		g := start()
		first := fired(t, g.Decide(t.Context(), payment("monday")))
		if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			d := g.Decide(t.Context(), payment("monday"))
			repeated(t, d, first)
			text := d.ToolText()
			for _, want := range []string{"pay was not run a second time", first, "Nothing is missing", "Do not call it again", "A person can approve", d.HoldID} {
				if !strings.Contains(text, strings.Replace(want, "A person", "a person", 1)) {
					t.Errorf("the model is not told %q:\n%s", want, text)
				}
			}
			if strings.Contains(text, "waiting") {
				t.Errorf("the model is told that it waits:\n%s", text)
			}
			if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); err != nil || done {
				t.Errorf("it comes free by itself: %+v, %v", r, err)
			}
			h, err := w.Hold(t.Context(), d.HoldID)
			if err != nil || h.Done != first {
				t.Errorf("%+v, %v", h, err)
			}
			if tried, ok, err := gate.Try(t.Context(), w.Store, &h); err != nil || !ok || !tried.Has(gate.AlreadyDone) {
				t.Errorf("a person's word about a row would free it: %v, %t, %+v", err, ok, tried.Reasons)
			}
			g = start() // in another process, too
		}
		fired(t, g.Decide(t.Context(), payment("tuesday")))
	})
}

// Which calls are held, which are let through with a note, and which without.
func TestWhatIsHeldAsDoneBefore(t *testing.T) {
	const held, noted, free = "held", "noted", "free"
	irreversible := gate.Irreversible
	rule := func(r gate.Rule) func(*gate.Policy) {
		return func(p *gate.Policy) { p.Tools = map[string]gate.Rule{"pay": r} }
	}
	both := func(change func(*gate.Request)) func(first, second *gate.Request) {
		return func(first, second *gate.Request) { change(first); change(second) }
	}
	second := func(change func(*gate.Request)) func(first, second *gate.Request) {
		return func(_, second *gate.Request) { change(second) }
	}
	for name, c := range map[string]struct {
		change  func(first, second *gate.Request)
		outcome memory.CallOutcome // unset = it was done
		note    string
		policy  func(*gate.Policy)
		mode    gate.Mode
		want    string
	}{
		"the same call":             {want: held},
		"while the gate observes":   {mode: gate.Observe, want: held},
		"its output was not kept":   {note: "output not recorded", want: held},
		"a person says it was done": {outcome: memory.CallSettledDone, want: held},
		"it failed":                 {outcome: memory.CallFailed, want: free},
		"it was not made":           {outcome: memory.CallNotMade, want: free},
		"the agent is another one":  {change: second(func(r *gate.Request) { r.Agent = "other" }), want: free},
		"the principal is":          {change: second(func(r *gate.Request) { r.Principal = "bob" }), want: free},
		"the server is":             {change: second(func(r *gate.Request) { r.Contract.Server = "other" }), want: free},
		"the prefix is":             {change: second(func(r *gate.Request) { r.Contract.Tool, r.Contract.AtServer = "bank.pay", "pay" }), want: held},
		"the run is":                {change: second(func(r *gate.Request) { r.Run = "tuesday" }), want: free},
		"the arguments are":         {change: second(func(r *gate.Request) { r.Args, r.Sinks[0].Value = []byte(`{"to":"other"}`), "other" }), want: free},
		"one that counts for nothing": {
			change: func(first, second *gate.Request) {
				first.Args, second.Args = []byte(`{"note":"a","to":"acme"}`), []byte(`{"note":"b","to":"acme"}`)
				first.Contract.Identity, second.Contract.Identity = []string{"/to"}, []string{"/to"}
			}, want: held,
		},
		"it is of one run elsewhere":      {change: func(first, second *gate.Request) { first.SentBy, second.SentBy, second.Run = "x", "x", "tuesday" }, want: held},
		"it can be put back":              {change: both(func(r *gate.Request) { r.Contract.Effect = gate.StateChanging }), want: free},
		"the policy says that it cannot":  {change: both(func(r *gate.Request) { r.Contract.Effect = gate.StateChanging }), policy: rule(gate.Rule{Effect: &irreversible}), want: held},
		"it may be repeated":              {change: both(func(r *gate.Request) { r.Contract.Repeatable = true }), want: free},
		"it may from now on":              {change: second(func(r *gate.Request) { r.Contract.Repeatable = true }), want: free},
		"the policy says that it may not": {change: both(func(r *gate.Request) { r.Contract.Repeatable = true }), policy: rule(gate.Rule{Once: true}), want: held},
		"nobody declared it":              {change: both(func(r *gate.Request) { r.Contract.Undeclared = true }), want: noted},
		"but the policy did":              {change: both(func(r *gate.Request) { r.Contract.Undeclared = true }), policy: rule(gate.Rule{Effect: &irreversible}), want: held},
		"nor may it be repeated":          {change: both(func(r *gate.Request) { r.Contract.Undeclared = true }), policy: rule(gate.Rule{Once: true}), want: held},
		"it is asked for inside the same": {change: second(func(r *gate.Request) { r.Within = true }), want: "nested"},
	} {
		w := newScene(t, storetest.NewMap())
		p := declared()
		p.Tools = map[string]gate.Rule{"pay": {}}
		if c.policy != nil {
			c.policy(&p)
		}
		g := newGate(t, w.Store, p, &gate.Options{Mode: c.mode})
		one, two := payment("monday"), payment("monday")
		if c.change != nil {
			c.change(&one, &two)
		}
		first := fired(t, g.Decide(t.Context(), one))
		outcome := cmp.Or(c.outcome, memory.CallDone)
		settled := outcome == memory.CallSettledDone
		if settled {
			outcome = memory.CallUnknown
		}
		err := w.RecordOutcome(t.Context(), first, outcome, c.note)
		if err == nil && settled {
			err = w.Settle(t.Context(), memory.Settlement{Decision: first, Done: true, Actor: "cleo", Reason: "looked"})
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		d := g.Decide(t.Context(), two)
		got := free
		switch {
		case d.Has(gate.NestedCall):
			got = "nested"
		case d.Has(gate.AlreadyDone) && d.Err() == nil:
			got = noted
		case d.Has(gate.AlreadyDone):
			got = held
		case d.Err() != nil:
			got = fmt.Sprint(d.Err())
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, c.want, d.Reasons)
		}
		if v, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { t.Errorf("%s: %v", name, err); return nil }}); err != nil || v.Found != 0 {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// A repetition that also waits for a row does not come free when the row is verified.
func TestWhatWasDoneBeforeWaitsForNoRow(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), nil)
	first := fired(t, g.Decide(t.Context(), payment("monday")))
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	receipt, err := w.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "city", Object: "Berlin", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
		State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "a", Model: "m", Family: "f"}})
	if err != nil {
		t.Fatal(err)
	}
	again := payment("monday")
	again.Lineage = gate.Known([]memory.ID{receipt.ID}, nil)
	d := g.Decide(t.Context(), again)
	repeated(t, d, first)
	if !d.Has(gate.UnverifiedInput) {
		t.Fatalf("%+v", d.Reasons)
	}
	f, err := w.Fitness(t.Context(), []memory.ID{receipt.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(t.Context(), memory.Transition{Row: receipt.ID, Revision: f.Heads[0].Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe, Actor: "worker", Source: "crm", Reason: "it agrees",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: w.Now()}}}); err != nil {
		t.Fatal(err)
	}
	if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); err != nil || done {
		t.Errorf("it comes free: %+v, %v", r, err)
	}
	d = g.Decide(t.Context(), again)
	repeated(t, d, first)
	if d.Has(gate.UnverifiedInput) {
		t.Errorf("%+v", d.Reasons)
	}
}

// A call that is denied for its rows says all the same that it was done before, and so does
// one of which a later call's end is not known.
func TestWhatWasDoneBeforeIsSaidBesideOtherReasons(t *testing.T) {
	w := newScene(t, storetest.NewMap())
	g := newGate(t, w.Store, declared(), nil)
	first := fired(t, g.Decide(t.Context(), payment("monday")))
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	denied := payment("monday")
	denied.Lineage = gate.Unknown("lost")
	d := g.Decide(t.Context(), denied)
	if d.Outcome != gate.Deny || !d.Has(gate.AlreadyDone) || strings.Contains(d.ToolText(), "Nothing was changed") {
		t.Errorf("%v: %+v\n%s", d.Err(), d.Reasons, d.ToolText())
	}
	other := fired(t, g.Decide(t.Context(), payment("tuesday")))
	d = g.Decide(t.Context(), payment("monday"))
	if d.Outcome != gate.Hold || d.Reasons[0].Code != gate.OutcomeUnknown || d.Reasons[0].Detail != other || !d.Has(gate.AlreadyDone) {
		t.Errorf("%v: %+v", d.Err(), d.Reasons)
	}
	w.jump(time.Minute)
	if err := w.RecordOutcome(t.Context(), other, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	if r, done, err := gate.Look(t.Context(), w.Store, d.HoldID); err != nil || done {
		t.Errorf("it comes free once the other call has ended: %+v, %v", r, err)
	}
	repeated(t, g.Decide(t.Context(), payment("monday")), first)
}

// Callers of one run that ask for a call at the same moment, after a person has said that the
// first one was not done, make it once.
func TestARunThatAsksFromManySidesMakesACallOnce(t *testing.T) {
	made, rounds, raced := 0, 60, 0
	for range rounds {
		w := newScene(t, storetest.NewMap())
		g := newGate(t, w.Store, declared(), nil)
		first := fired(t, g.Decide(t.Context(), payment("monday")))
		if err := w.RecordOutcome(t.Context(), first, memory.CallUnknown, ""); err != nil {
			t.Fatal(err)
		}
		held(t, g.Decide(t.Context(), payment("monday")), first)
		w.jump(memory.UnknownAfter)
		if err := w.Settle(t.Context(), memory.Settlement{Decision: first, Actor: "cleo", Reason: "looked"}); err != nil {
			t.Fatal(err)
		}
		var fires, waits atomic.Int32
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 4 {
					d := g.Decide(t.Context(), payment("monday"))
					if d.Err() != nil {
						waits.Add(1)
						continue
					}
					fires.Add(1)
					if err := w.RecordOutcome(t.Context(), d.ID, memory.CallDone, ""); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if fires.Load() != 1 {
			t.Fatalf("the call was made %d times", fires.Load())
		}
		made += int(fires.Load())
		if waits.Load() > 0 {
			raced++
		}
		if v, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { t.Error(err); return nil }}); err != nil || v.Found != 0 {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	t.Logf("%d calls in %d rounds, others waited in %d", made, rounds, raced)
	if raced == 0 {
		t.Error("nobody was in the way")
	}
}

// A block for another reason says all the same that the call was done, or may have been.
func TestABlockTellsOfTheCallBeforeIt(t *testing.T) {
	for name, c := range map[string]struct {
		outcome       memory.CallOutcome
		settled, says string
	}{
		"it was done":        {outcome: memory.CallDone, says: "it was done (blk_"},
		"nobody knows":       {outcome: memory.CallUnknown, says: "nobody knows whether it went through"},
		"a person says done": {outcome: memory.CallUnknown, settled: "the bank shows it", says: `A person (cleo) says: "the bank shows it".`},
		"it came to nothing": {outcome: memory.CallFailed},
	} {
		w := newScene(t, storetest.NewMap())
		g := newGate(t, w.Store, declared(), nil)
		call := payment("monday")
		call.Contract.Undeclared = true // then a repetition is a note beside what blocks
		id := fired(t, g.Decide(t.Context(), call))
		if err := w.RecordOutcome(t.Context(), id, c.outcome, ""); err != nil {
			t.Fatal(err)
		}
		if c.settled != "" {
			if err := w.Settle(t.Context(), memory.Settlement{Decision: id, Done: true, Actor: "cleo", Reason: c.settled}); err != nil {
				t.Fatal(err)
			}
		}
		row, err := w.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "iban", Object: "x", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
			State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "a", Model: "m", Family: "f"}})
		if err != nil {
			t.Fatal(err)
		}
		held, denied := call, call
		held.Lineage, denied.Lineage = gate.Known([]memory.ID{row.ID}, nil), gate.Unknown("lost")
		for _, again := range []gate.Request{held, denied} {
			d := g.Decide(t.Context(), again)
			text := d.ToolText()
			if !d.Blocked() || c.says != "" && strings.Contains(text, "not done") || strings.Contains(text, "same call") != (c.says != "") || !strings.Contains(text, c.says) {
				t.Errorf("%s: %+v; the model is not told %q:\n%s", name, d.Reasons, c.says, text)
			}
		}
	}
}
