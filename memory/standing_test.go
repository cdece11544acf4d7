package memory_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// waits opens a hold in slot 1, by a standing that was read.
func (w *hall) waits(at memory.Standing) (memory.Hold, error) {
	h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{1}, State: memory.HoldWaiting, Tool: "pay", Run: "run", Agent: "clerk", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held", Done: at.Done, Prior: at.Prior}
	if err := w.Record(w.t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "run", Call: &memory.CallStep{Slot: h.Slot, Seen: at.Revision, Hold: &h}}); err != nil {
		return h, err
	}
	return w.hold(h.ID), nil
}

// out lets the call through out of its hold, and returns the decision.
func (w *hall) out(h memory.Hold) string {
	w.t.Helper()
	id, err := w.once(w.standing().Revision, func(r *memory.DecisionRecord) {
		h.State, h.Fired, h.Prior, h.Made = memory.HoldFired, r.ID, "", ""
		r.Call.Hold, r.Call.Track = &h, false
	})
	must(w.t, err)
	return id
}

// Who looked at a call before its outcome was recorded does not decide by what it saw: the
// outcome moves the mark, also when the call went out of a hold.
func TestAnOutcomeMovesTheMarkOfItsCall(t *testing.T) {
	for _, outcome := range []memory.CallOutcome{memory.CallDone, memory.CallFailed, memory.CallNotMade} {
		w := newHall(t)
		first, err := w.once(0, nil)
		must(t, err)
		must(t, w.RecordOutcome(t.Context(), first, memory.CallUnknown, ""))
		h, err := w.waits(w.standing())
		must(t, err)
		w.now = w.now.Add(memory.UnknownAfter)
		must(t, w.Settle(t.Context(), memory.Settlement{Decision: first, Actor: "cleo", Reason: "looked"}))
		second := w.out(w.hold(h.ID))
		before := w.standing()
		if before.Prior != second {
			t.Fatalf("%+v", before)
		}
		must(t, w.RecordOutcome(t.Context(), second, outcome, ""))
		var conflict *memory.ConflictError
		if _, err := w.waits(before); !errors.As(err, &conflict) {
			t.Errorf("%s: a hold is opened by what was true before: %v", outcome, err)
		}
		if _, err := w.once(before.Revision, nil); !errors.As(err, &conflict) {
			t.Errorf("%s: the call is let through by what was true before: %v", outcome, err)
		}
		if at := w.standing(); at.Prior != "" || (at.Done == second) != (outcome == memory.CallDone) {
			t.Errorf("%s: %+v", outcome, at)
		}
		w.sound(t)
	}
}

// A hold that another one took the place of while its call was made hears how the call ended,
// and so does the other one.
func TestEachHoldHearsHowItsCallEnded(t *testing.T) {
	w := newHall(t)
	one, err := w.waits(w.standing())
	must(t, err)
	made := w.out(one)
	two, err := w.waits(w.standing())
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), made, memory.CallDone, ""))
	if h := w.hold(one.ID); h.State != memory.HoldDone {
		t.Errorf("the call's own hold is %s", h.State)
	}
	if h := w.hold(two.ID); h.State != memory.HoldWaiting || h.Prior != "" || h.Done != made {
		t.Errorf("%+v", h)
	}
	w.sound(t)
}

// What was done stays done, whoever says later that it was not. A word that it was not done
// gives way to one that it was.
func TestWhatWasDoneStaysDone(t *testing.T) {
	const done, not, lost = memory.CallDone, memory.CallFailed, memory.CallUnknown
	for name, c := range map[string]struct {
		words   []memory.CallOutcome // the last two are a person's word
		done    bool
		outcome memory.CallOutcome
		entries int
	}{
		"done, then failed":               {[]memory.CallOutcome{done, not}, true, done, 2},
		"done, then unknown":              {[]memory.CallOutcome{done, lost}, true, done, 1},
		"done twice":                      {[]memory.CallOutcome{done, done}, true, done, 1},
		"failed, then done":               {[]memory.CallOutcome{not, done}, true, done, 2},
		"failed, then unknown":            {[]memory.CallOutcome{not, lost}, false, not, 1},
		"failed, then not made":           {[]memory.CallOutcome{not, memory.CallNotMade}, false, not, 2},
		"unknown, then failed":            {[]memory.CallOutcome{lost, not}, false, not, 2},
		"settled as done, then failed":    {[]memory.CallOutcome{memory.CallSettledDone, not}, true, memory.CallSettledDone, 2},
		"settled as done, then done":      {[]memory.CallOutcome{memory.CallSettledDone, done}, true, memory.CallSettledDone, 2},
		"settled as not done, then done":  {[]memory.CallOutcome{memory.CallSettledNotDone, done}, true, done, 2},
		"settled as not done, and failed": {[]memory.CallOutcome{memory.CallSettledNotDone, not}, false, memory.CallSettledNotDone, 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHall(t)
			id, err := w.once(0, nil)
			must(t, err)
			w.now = w.now.Add(memory.UnknownAfter)
			for _, word := range c.words {
				switch word {
				case memory.CallSettledDone, memory.CallSettledNotDone:
					must(t, w.Settle(t.Context(), memory.Settlement{Decision: id, Done: word == memory.CallSettledDone, Actor: "cleo", Reason: "looked"}))
				default:
					must(t, w.RecordOutcome(t.Context(), id, word, ""))
				}
				w.now = w.now.Add(time.Second)
			}
			d, err := w.Decision(t.Context(), id)
			if at := w.standing(); err != nil || d.Outcome != c.outcome || (at.Done == id) != c.done || at.Prior != "" {
				t.Errorf("%q, %v, %+v", d.Outcome, err, at)
			}
			// A word that changes nothing is in the log, if it says something else.
			log, err := w.driver.History(t.Context(), w.Tenant(), memory.DecisionKey(id), 0, 10)
			if err != nil || len(log) != 1+c.entries {
				t.Errorf("%d entries, %v", len(log), err)
			}
			w.sound(t)
		})
	}
}

// A call that was done stays in the way whatever became of later ones that were let through
// with a note, also where its answer was erased.
func TestALaterCallDoesNotHideTheOneThatWasDone(t *testing.T) {
	noted := func(r *memory.DecisionRecord) {
		r.Data = json.RawMessage(`{"reasons":[{"code":"already_done","outcome":"permitted"}]}`)
	}
	for _, outcome := range []memory.CallOutcome{memory.CallFailed, memory.CallNotMade} {
		w := newHall(t)
		first, err := w.once(0, nil)
		must(t, err)
		must(t, w.RecordOutcome(t.Context(), first, memory.CallDone, ""))
		w.now = w.now.Add(time.Minute)
		second, err := w.once(w.standing().Revision, noted)
		must(t, err)
		if at := w.standing(); at.Done != first || at.Prior != second {
			t.Errorf("while it is made: %+v", at)
		}
		must(t, w.RecordOutcome(t.Context(), second, outcome, ""))
		if at := w.standing(); at.Done != first || at.Prior != "" {
			t.Errorf("%+v", at)
		}
		w.now = w.now.Add(time.Minute)
		third, err := w.once(w.standing().Revision, noted)
		must(t, err)
		must(t, w.RecordOutcome(t.Context(), third, memory.CallDone, ""))
		if at := w.standing(); at.Done != third {
			t.Errorf("%+v", at)
		}
		// One that may be repeated does not hide it either.
		w.now = w.now.Add(time.Minute)
		fourth, err := w.once(w.standing().Revision, func(r *memory.DecisionRecord) { r.Call.Once = false })
		must(t, err)
		must(t, w.RecordOutcome(t.Context(), fourth, memory.CallDone, ""))
		if at := w.standing(); at.Done != third {
			t.Errorf("%+v", at)
		}
		w.sound(t)
	}
}

// An erasure takes the hold of a call, and not what stands in the way of the same call.
func TestAnErasedHoldLeavesItsCallInTheWay(t *testing.T) {
	for _, outcome := range []memory.CallOutcome{0, memory.CallUnknown, memory.CallDone} {
		w := newHall(t)
		h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{1}, State: memory.HoldWaiting, Tool: "pay", Run: "run", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held", Args: json.RawMessage(`{"to":"acme"}`),
			Rows: []memory.Cited{{Row: w.row.ID, Revision: w.row.Revision}}, AtFault: []memory.ID{w.row.ID}}
		must(t, w.Record(t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "run", Rows: h.Rows, Call: &memory.CallStep{Slot: h.Slot, Hold: &h}}))
		id := w.out(w.hold(h.ID))
		if outcome != 0 {
			must(t, w.RecordOutcome(t.Context(), id, outcome, ""))
		}
		if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "acme", Actor: "ops", Request: "1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Hold(t.Context(), h.ID); !errors.Is(err, memory.ErrErased) {
			t.Fatalf("the hold is not erased: %v", err)
		}
		at := w.standing()
		if at.Hold != nil || (at.Done == id) != (outcome == memory.CallDone) || (at.Prior == id) != (outcome != memory.CallDone) {
			t.Errorf("%q: %+v", outcome, at)
		}
		if outcome == 0 { // it ends afterwards
			must(t, w.RecordOutcome(t.Context(), id, memory.CallDone, ""))
			if at := w.standing(); at.Done != id {
				t.Errorf("%+v", at)
			}
		}
		w.sound(t)
		if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
			t.Fatal(err)
		}
		w.sound(t)
	}
}

// Only the answer of a call that was done is its answer: an error is none.
func TestAnErrorIsNoAnswer(t *testing.T) {
	w := newHall(t)
	id, err := w.once(0, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), id, memory.CallUnknown, "", w.row.ID))
	must(t, w.Settle(t.Context(), memory.Settlement{Decision: id, Done: true, Actor: "cleo", Reason: "the bank shows it"}))
	at := w.standing()
	if at.Done != id || len(at.Answer) > 0 || at.Settled == nil || at.Settled.By != "cleo" || at.Settled.Reason != "the bank shows it" {
		t.Errorf("%+v", at)
	}
	w = newHall(t)
	id, err = w.once(0, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), id, memory.CallDone, "", w.row.ID))
	must(t, w.RecordOutcome(t.Context(), id, memory.CallFailed, ""))
	if at := w.standing(); !slices.Equal(at.Answer, []memory.ID{w.row.ID}) || at.Settled != nil {
		t.Errorf("%+v", at)
	}
	if open, err := w.OpenCalls(t.Context(), id); err != nil || slices.Contains(open, id) {
		t.Errorf("%v, %v", open, err)
	}
}

// A call that is let through without the hold that was opened for it before leaves that hold
// behind, and a late word about an earlier call is no end of it.
func TestALateWordMovesNothing(t *testing.T) {
	w := newHall(t)
	if _, err := w.waits(w.standing()); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(2 * time.Hour)
	first, err := w.once(w.standing().Revision, nil)
	must(t, err)
	if at := w.standing(); at.Hold != nil {
		t.Errorf("%+v", at)
	}
	w.sound(t)
	must(t, w.RecordOutcome(t.Context(), first, memory.CallFailed, ""))
	w.now = w.now.Add(time.Minute)
	second, err := w.once(w.standing().Revision, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), second, memory.CallDone, ""))
	w.now = w.now.Add(time.Minute)
	must(t, w.RecordOutcome(t.Context(), first, memory.CallNotMade, ""))
	w.sound(t)
	// The audit goes by when it was known first, and allows for clocks that differ by a minute.
	w.now = w.now.Add(time.Minute)
	third, err := w.once(w.standing().Revision, nil)
	must(t, err)
	w.now = w.now.Add(time.Minute)
	must(t, w.RecordOutcome(t.Context(), second, memory.CallFailed, ""))
	found := 0
	if _, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error {
		found++
		if !strings.Contains(err.Error(), third) {
			t.Error(err)
		}
		return nil
	}}); err != nil || found != 1 {
		t.Errorf("%d found, %v", found, err)
	}

	// Nobody knew that a call had been done when it was made again.
	w = newHall(t)
	first, err = w.once(0, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), first, memory.CallFailed, ""))
	w.now = w.now.Add(time.Minute)
	second, err = w.once(w.standing().Revision, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), second, memory.CallDone, ""))
	must(t, w.RecordOutcome(t.Context(), first, memory.CallDone, ""))
	w.sound(t)
}
