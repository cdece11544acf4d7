package memory_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// unsettled lists the calls of which nobody knows.
func (w *hall) unsettled() (ids []string) {
	w.t.Helper()
	for d, err := range w.UnsettledCalls(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	return ids
}

func (w *hall) standing() memory.Standing {
	w.t.Helper()
	at, err := w.Standing(w.t.Context(), w.slot)
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}

// TestACallIsListedUntilItIsKnownHowItEnded, whoever says it.
func TestACallIsListedUntilItIsKnownHowItEnded(t *testing.T) {
	settle := func(done bool) func(*hall, string) error {
		return func(w *hall, id string) error {
			w.now = w.now.Add(memory.UnknownAfter)
			return w.Settle(w.t.Context(), memory.Settlement{Decision: id, Done: done, Actor: "ana", Reason: "I looked"})
		}
	}
	outcome := func(o memory.CallOutcome, note string) func(*hall, string) error {
		return func(w *hall, id string) error { return w.RecordOutcome(w.t.Context(), id, o, note) }
	}
	for name, c := range map[string]struct {
		says  func(*hall, string) error
		known bool
		state memory.HoldState
	}{
		"nobody says anything":           {func(*hall, string) error { return nil }, false, memory.HoldFired},
		"the run does not know":          {outcome(memory.CallUnknown, "cut off"), false, memory.HoldUnknown},
		"the run says that it was done":  {outcome(memory.CallDone, ""), true, memory.HoldDone},
		"the run says that it failed":    {outcome(memory.CallFailed, ""), true, memory.HoldFailed},
		"a person says that it was done": {settle(true), true, memory.HoldDone},
		"a person says that it was not":  {settle(false), true, memory.HoldFailed},
		"the run does not know, after her": {func(w *hall, id string) error {
			return errors.Join(settle(false)(w, id), outcome(memory.CallUnknown, "")(w, id))
		}, true, memory.HoldFailed},
		"another process says it": {func(w *hall, id string) error { w.reopen(); return outcome(memory.CallDone, "")(w, id) }, true, memory.HoldDone},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHall(t)
			id, err := w.record(true, memory.CallStep{Track: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := w.unsettled(); len(got) != 1 || got[0] != id {
				t.Fatalf("%v", got)
			}
			if err := c.says(w, id); err != nil {
				t.Fatal(err)
			}
			d, err := w.Decision(t.Context(), id)
			if err != nil || d.Unsettled() == c.known || (len(w.unsettled()) == 0) != c.known || (w.standing().Prior == "") != c.known || d.StateAt(w.now) != c.state {
				t.Errorf("%q: unsettled %t, listed %v, in the way %q, %s; %v", d.Outcome, d.Unsettled(), w.unsettled(), w.standing().Prior, d.StateAt(w.now), err)
			}
			if _, err := w.Verify(t.Context(), nil, nil); err != nil { // the index too
				t.Error(err)
			}
			if !c.known && !w.standing().PriorAt.Equal(d.At) {
				t.Errorf("it was at %v, not %v", w.standing().PriorAt, d.At)
			}
		})
	}
}

// TestAPersonSettlesWhatNobodyKnows, and nothing else.
func TestAPersonSettlesWhatNobodyKnows(t *testing.T) {
	w := newHall(t)
	id, err := w.record(true, memory.CallStep{Track: true})
	if err != nil {
		t.Fatal(err)
	}
	good := memory.Settlement{Decision: id, Actor: "ana", Reason: "I looked"}
	if err := w.Settle(t.Context(), good); !errors.Is(err, memory.ErrHold) {
		t.Errorf("it may be at work: %v", err)
	}
	w.now = w.now.Add(memory.UnknownAfter)
	for field, change := range map[string]func(*memory.Settlement){
		"decision": func(m *memory.Settlement) { m.Decision = " " }, "actor": func(m *memory.Settlement) { m.Actor = "" },
		"reason": func(m *memory.Settlement) { m.Reason = strings.Repeat("x", memory.MaxField+1) },
	} {
		m := good
		change(&m)
		var f *memory.FieldError
		if err := w.Settle(t.Context(), m); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := w.Settle(t.Context(), memory.Settlement{Decision: "blk_none", Actor: "ana", Reason: "r"}); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
	refused, err := w.record(false, memory.CallStep{Seen: w.standing().Revision})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context(), memory.Settlement{Decision: refused, Actor: "ana", Reason: "r"}); !errors.Is(err, memory.ErrHold) {
		t.Errorf("nothing was let through: %v", err)
	}
	if err := w.Settle(t.Context(), good); err != nil {
		t.Fatal(err)
	}
	var hold *memory.HoldError
	if err := w.Settle(t.Context(), good); !errors.As(err, &hold) || hold.State != memory.HoldFailed {
		t.Errorf("it is settled twice: %v", err)
	}
}

// TestWhoWaitsForACallIsToldThatItWasDone: of the hold that waits for its outcome.
func TestWhoWaitsForACallIsToldThatItWasDone(t *testing.T) {
	for _, done := range []bool{true, false} {
		w := newHall(t)
		id, err := w.record(true, memory.CallStep{Track: true})
		if err != nil {
			t.Fatal(err)
		}
		held, err := w.record(false, memory.CallStep{Seen: w.standing().Revision, Hold: &memory.Hold{Epoch: 1, State: memory.HoldWaiting, Slot: w.slot, Tool: "send", Run: "r", Prior: id,
			OpenedAt: w.now, ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held"}})
		if err != nil {
			t.Fatal(err)
		}
		if at := w.standing(); at.Prior != id || at.Hold == nil {
			t.Errorf("%+v", at)
		}
		w.now = w.now.Add(memory.UnknownAfter)
		if err := w.Settle(t.Context(), memory.Settlement{Decision: id, Done: done, Actor: "ana", Reason: "I looked"}); err != nil {
			t.Fatal(err)
		}
		h := w.hold(held)
		if h.Prior != "" || h.Rejected(w.now) != done || done && (h.Why != "it was done already: I looked" || h.By != "ana" || h.Round == 0) || !done && h.State != memory.HoldWaiting {
			t.Errorf("done %t: %s, %q by %s, round %d", done, h.State, h.Why, h.By, h.Round)
		}
	}
}

// TestNoHoldOfARunThatHasEndedIsApproved: it would free nothing.
func TestNoHoldOfARunThatHasEndedIsApproved(t *testing.T) {
	w := newHall(t)
	h := w.open() // of no run
	for range 2 {
		if err := w.EndRun(t.Context(), "other"); err != nil {
			t.Fatal(err)
		}
	}
	if ended, err := w.RunEnded(t.Context(), h.Run); err != nil || ended {
		t.Errorf("%t, %v", ended, err)
	}
	if err := w.move(h, memory.HoldGranted); err != nil {
		t.Error(err)
	}
	if err := w.EndRun(t.Context(), h.Run); err != nil {
		t.Fatal(err)
	}
	if err := w.move(h, memory.HoldWaiting); err != nil {
		t.Errorf("a grant is taken back at any time: %v", err)
	}
	var ended *memory.HoldError
	if err := w.move(h, memory.HoldGranted); !errors.As(err, &ended) || !ended.Ended || ended.State != memory.HoldWaiting {
		t.Errorf("%v", err)
	}
	if err := w.move(h, memory.HoldRejected); err != nil {
		t.Error(err)
	}
	if _, err := w.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
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

// TestTheMarkOfACallCostsNoTrip: neither a permit, nor its outcome, nor the same call made
// again by the process that knows how it ended.
func TestTheMarkOfACallCostsNoTrip(t *testing.T) {
	d := &trips{Driver: storetest.NewMap()}
	w := newHallOn(t, d)
	w.keys = keyring.Ephemeral()
	count := func(does func()) int {
		d.n = 0
		does()
		return d.n
	}
	call := func(track bool) (permit, outcome int) {
		var id string
		permit = count(func() {
			var err error
			if id, err = w.record(true, memory.CallStep{Track: track}); err != nil {
				t.Fatal(err)
			}
		})
		outcome = count(func() {
			if err := w.RecordOutcome(t.Context(), id, memory.CallDone, ""); err != nil {
				t.Fatal(err)
			}
		})
		return permit, outcome
	}
	call(false) // classes and keys are known after it
	permit, outcome := call(false)
	for i := range 3 {
		if p, o := call(true); p != permit || o != outcome {
			t.Errorf("call %d: %d and %d trips with a mark, %d and %d without", i, p, o, permit, outcome)
		}
	}
}
