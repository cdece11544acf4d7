package gate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// pass moves the clock.
func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// TestWhatNobodyKnowsTheEndOfIsNotMadeAgain: the same call is held at once, for as long as its
// effect and the policy say.
func TestWhatNobodyKnowsTheEndOfIsNotMadeAgain(t *testing.T) {
	const hold, note, plain = "held", "made, with a note", "made"
	for name, c := range map[string]struct {
		effect gate.Effect
		policy time.Duration
		mode   gate.Mode
		passes time.Duration
		want   string
	}{
		"at once":                                  {gate.StateChanging, 0, gate.Enforce, 0, hold},
		"a moment before a day":                    {gate.StateChanging, 0, gate.Enforce, 24*time.Hour - time.Second, hold},
		"after a day":                              {gate.StateChanging, 0, gate.Enforce, 24 * time.Hour, note},
		"after the policy's hour":                  {gate.StateChanging, time.Hour, gate.Enforce, time.Hour, note},
		"before the policy's hour":                 {gate.StateChanging, time.Hour, gate.Enforce, 59 * time.Minute, hold},
		"a policy that waits for a person":         {gate.StateChanging, -1, gate.Enforce, 1000 * time.Hour, hold},
		"what cannot be undone, at once":           {gate.Irreversible, 0, gate.Enforce, 0, hold},
		"what cannot be undone, after a year":      {gate.Irreversible, time.Hour, gate.Enforce, 365 * 24 * time.Hour, hold},
		"what changes nothing":                     {gate.ReadOnly, 0, gate.Enforce, 0, plain},
		"a gate that observes":                     {gate.StateChanging, 0, gate.Observe, 0, note},
		"a gate that observes, what can't be back": {gate.Irreversible, 0, gate.Observe, 0, hold},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				p := declared()
				p.UnknownFor = c.policy
				g := newGate(t, w.Store, p, &gate.Options{Mode: c.mode})
				req := gate.Request{Contract: gate.Contract{Tool: "book", Effect: c.effect, Sinks: []string{}}, Args: json.RawMessage(`{"room":"blue"}`), Agent: "a", Run: "r", Principal: "ana",
					Lineage: gate.Known(nil, nil), Sinks: []gate.Sink{{Pointer: "/room", Source: gate.SourcePrincipal}}, Park: true}
				first := g.Decide(t.Context(), req)
				if first.Blocked() {
					t.Fatal(first.Err())
				}
				w.pass(c.passes)
				start := time.Now()
				d := g.Decide(t.Context(), req)
				switch {
				case time.Since(start) > 0:
					t.Errorf("it waited %s", time.Since(start))
				case c.want == hold && (!errors.Is(d.Err(), gate.ErrOutcomeUnknown) || !errors.Is(d.Err(), gate.ErrHeld) || d.Parked || d.HoldID == ""):
					t.Errorf("%v, parked %t", d.Err(), d.Parked)
				case c.want == note && (d.Blocked() || !d.Has(gate.OutcomeUnknown) || !strings.Contains(fmt.Sprint(d.Reasons), first.ID)):
					t.Errorf("%v, %v", d.Err(), d.Reasons)
				case c.want == plain && (d.Blocked() || len(d.Reasons) > 0):
					t.Errorf("%v, %v", d.Err(), d.Reasons)
				}
				if c.want == hold {
					again := g.Decide(t.Context(), req)
					if again.HoldID != d.HoldID || !errors.Is(again.Err(), gate.ErrOutcomeUnknown) {
						t.Errorf("asked for once more: %v in %s", again.Err(), again.HoldID)
					}
					return
				}
				if c.want == note {
					if again := g.Decide(t.Context(), req); c.mode == gate.Enforce && !errors.Is(again.Err(), gate.ErrOutcomeUnknown) {
						t.Errorf("the second call leaves no mark: %v", again.Err())
					}
				}
			})
		})
	}
}

// TestWhatIsMadeIsNotShownAsWhatWaited: of two calls that are declared to be the same one waits,
// and the other is made with other arguments.
func TestWhatIsMadeIsNotShownAsWhatWaited(t *testing.T) {
	w := newWorld(t)
	g := newGate(t, w.Store, declared(), nil)
	pending := w.put(t, w.fromModel(triple("acme", "address", "1 Main St")))
	ask := func(note string, rows ...memory.ID) gate.Decision {
		return g.Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "refund", Effect: gate.StateChanging, Identity: []string{"/order"}}, Args: fmt.Appendf(nil, `{"note":%q,"order":7}`, note),
			Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known(rows, nil)})
	}
	waits := ask("late", pending)
	if !errors.Is(waits.Err(), gate.ErrUnverified) {
		t.Fatal(waits.Err())
	}
	if again := ask("late", pending); again.HoldID != waits.HoldID {
		t.Errorf("it waits in %s and %s", waits.HoldID, again.HoldID)
	}
	made := ask("sorry")
	if made.Blocked() || made.HoldID != "" {
		t.Fatalf("%v, %s", made.Err(), made.HoldID)
	}
	if h, err := w.Hold(t.Context(), waits.HoldID); err != nil || h.State != memory.HoldStale || !strings.Contains(h.Why, "other arguments") {
		t.Errorf("%s: %s, %v", h.State, h.Why, err)
	}
	if third := ask("really", pending); !errors.Is(third.Err(), gate.ErrOutcomeUnknown) || !strings.Contains(fmt.Sprint(third.Reasons), made.ID) {
		t.Errorf("%v", third.Err())
	}
	if err := w.RecordOutcome(t.Context(), made.ID, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
}

// TestACallThatIsDeniedIsSaidToBePerhapsDone: whatever denies it comes first, and the model is
// told not to repeat it all the same.
func TestACallThatIsDeniedIsSaidToBePerhapsDone(t *testing.T) {
	w := newWorld(t)
	g := newGate(t, w.Store, declared(), nil)
	req := gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known(nil, nil)}
	if d := g.Decide(t.Context(), req); d.Blocked() {
		t.Fatal(d.Err())
	}
	req.Lineage = gate.Unknown("the output of a tool could not be recorded")
	d := g.Decide(t.Context(), req)
	if !errors.Is(d.Err(), gate.ErrLineageUnknown) || !errors.Is(d.Err(), gate.ErrOutcomeUnknown) || errors.Is(d.Err(), gate.ErrHeld) || !strings.Contains(d.ToolText(), "it may have been done") {
		t.Errorf("%v\n%s", d.Err(), d.ToolText())
	}
}

// TestACallMadeAgainInTimeIsNoTampering: what the policy let pass is no mark that was taken
// away.
func TestACallMadeAgainInTimeIsNoTampering(t *testing.T) {
	for _, passes := range []time.Duration{0, 24 * time.Hour} {
		w := newWorld(t)
		mode := gate.Enforce
		if passes == 0 {
			mode = gate.Observe
		}
		g := newGate(t, w.Store, declared(), &gate.Options{Mode: mode})
		req := gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known(nil, nil)}
		for range 2 {
			d := g.Decide(t.Context(), req)
			if d.Blocked() {
				t.Fatal(d.Err())
			}
			w.pass(passes)
		}
		_, err := w.Verify(t.Context(), nil, nil)
		if err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestAHeldCallIsTriedByTheTermsItWasHeldBy: with its rows as they are now, and all that held
// it.
func TestAHeldCallIsTriedByTheTermsItWasHeldBy(t *testing.T) {
	w := newWorld(t)
	pending := w.put(t, w.fromModel(triple("acme", "address", "1 Main St")))
	fine := w.put(t, w.fromTool(triple("acme", "city", "Berlin")))
	p := declared()
	p.Tools = map[string]gate.Rule{"book": {MaxAge: time.Hour}, "nobody": {Never: true}}
	g := newGate(t, w.Store, p, nil)
	ask := func(c gate.Contract, sinks ...gate.Sink) *memory.Hold {
		t.Helper()
		c.Tool = "book"
		d := g.Decide(t.Context(), gate.Request{Contract: c, Args: json.RawMessage(`{"to":"1 Main St"}`), Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known([]memory.ID{pending}, []memory.ID{fine}), Sinks: sinks})
		h, err := w.Hold(t.Context(), d.HoldID)
		if err != nil {
			t.Fatal(d.Err(), err)
		}
		return &h
	}
	plain := ask(gate.Contract{Effect: gate.StateChanging})
	sent := ask(gate.Contract{Effect: gate.Irreversible, Sinks: []string{"/to"}}, gate.Sink{Pointer: "/to", Value: "1 Main St", Source: gate.SourceNowhere})
	try := func(h *memory.Hold) gate.Decision {
		t.Helper()
		d, ok, err := gate.Try(t.Context(), w.Store, h)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return d
	}
	if d := try(plain); !errors.Is(d.Err(), gate.ErrUnverified) {
		t.Errorf("%v", d.Err())
	}
	rows, err := w.Get(t.Context(), pending)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Apply(t.Context(), memory.Transition{Row: pending, Revision: rows[0].Revision, To: memory.TruthSupported, Authority: memory.AuthorityUser, Actor: "cleo", Source: "confirm", Reason: "r",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:cleo", Verifier: "confirm", Group: "user:cleo", Anchor: memory.Anchor{URI: "confirm:1"}, At: w.Now()}}}); err != nil {
		t.Fatal(err)
	}
	if d := try(plain); d.Blocked() {
		t.Errorf("its row is verified now: %v", d.Err())
	}
	if d := try(sent); !errors.Is(d.Err(), gate.ErrFromNowhere) || errors.Is(d.Err(), gate.ErrUnverified) {
		t.Errorf("an argument of it came from nowhere: %v", d.Err())
	}
	w.pass(time.Hour)
	if d := try(plain); !errors.Is(d.Err(), gate.ErrStale) {
		t.Errorf("the rule's limit of age does not hold: %v", d.Err())
	}
	doubt := *plain
	doubt.Prior = "blk_before"
	if d := try(&doubt); !errors.Is(d.Err(), gate.ErrOutcomeUnknown) {
		t.Errorf("%v", d.Err())
	}
	if strings.Contains(string(sent.Asked), "1 Main St") || strings.Contains(string(sent.Asked), "nobody") {
		t.Errorf("it keeps a value, or another tool's rule: %s", sent.Asked)
	}
	for name, h := range map[string]memory.Hold{"that has ended": {}, "of a newer form": {Asked: json.RawMessage(`{"direct":0,"limit":3}`)}, "of another form": {Asked: json.RawMessage(`{"direct":9}`)}, "damaged": {Asked: json.RawMessage(`[]`)}} {
		if _, ok, err := gate.Try(t.Context(), w.Store, &h); ok || err != nil {
			t.Errorf("%s: %t, %v", name, ok, err)
		}
	}
}

// TestAPolicyFileSaysHowLongWhatNobodyKnowsIsWaitedFor.
func TestAPolicyFileSaysHowLongWhatNobodyKnowsIsWaitedFor(t *testing.T) {
	for value, want := range map[string]time.Duration{`"2h"`: 2 * time.Hour, `"settled"`: -1, `"0s"`: 0, `"-1h"`: 0, `3`: 0, `"soon"`: 0} {
		p, err := gate.ParsePolicy(fmt.Appendf(nil, `{"schema":"hearsay.policy/1","name":"p","version":"1","unknown_for":%s}`, value))
		var wrong *gate.PolicyError
		if want == 0 && (!errors.As(err, &wrong) || wrong.Field != "unknown_for") || want != 0 && (err != nil || p.UnknownFor != want) {
			t.Errorf("%s: %v, %v", value, p.UnknownFor, err)
		}
	}
}

// trips counts the calls of a driver.
type trips struct {
	memory.Driver
	n int
}

func (d *trips) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	d.n++
	return d.Driver.Apply(ctx, tenant, b)
}

func (d *trips) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	d.n++
	return d.Driver.Get(ctx, tenant, keys)
}

// TestAPermitOfWhatCanBePutBackCostsNoTripForItsMark: one to read and one to record, one if its
// rows are remembered, and no more for the same call made again.
func TestAPermitOfWhatCanBePutBackCostsNoTripForItsMark(t *testing.T) {
	for _, effect := range []gate.Effect{gate.StateChanging, gate.Irreversible} {
		w := newWorld(t)
		d := &trips{Driver: storetest.NewMap()}
		s := storetest.On(d, nil)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		receipt, err := s.Put(t.Context(), w.fromTool(triple("acme", "city", "Berlin")))
		if err != nil {
			t.Fatal(err)
		}
		g := newGate(t, s, declared(), nil)
		call := func(run, room string) (permit, outcome int) {
			t.Helper()
			d.n = 0
			got := g.Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "book", Effect: effect, Repeatable: true}, Args: fmt.Appendf(nil, `{"room":%q}`, room), Agent: "a", Run: run, Principal: "ana",
				Lineage: gate.Known([]memory.ID{receipt.ID}, nil), Sinks: []gate.Sink{{Pointer: "/room", Source: gate.SourcePrincipal}}})
			if got.Blocked() {
				t.Fatal(got.Err())
			}
			permit, d.n = d.n, 0
			if err := s.RecordOutcome(t.Context(), got.ID, memory.CallDone, ""); err != nil {
				t.Fatal(err)
			}
			return permit, d.n
		}
		call("r0", "first") // classes and keys are known after it
		for _, c := range []struct {
			name, run, room string
			permit          int
		}{{"a run's first call", "r1", "blue", 2}, {"its next call", "r1", "red", 1}, {"the same call again", "r1", "red", 1}, {"and again", "r1", "blue", 1}} {
			if permit, outcome := call(c.run, c.room); permit != c.permit || outcome != 2 {
				t.Errorf("%s, %s: %d trips and %d for its outcome", effect, c.name, permit, outcome)
			}
		}
	}
}
