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

// once lets a call of slot 1 through that is not to be made twice, and returns the decision.
func (w *hall) once(seen uint64, change func(*memory.DecisionRecord)) (string, error) {
	w.t.Helper()
	f, err := w.FitnessFor(w.t.Context(), nil, memory.Digest{2}, memory.Digest{1})
	must(w.t, err)
	r := memory.DecisionRecord{ID: w.NewDecisionID(), Epoch: f.Epoch, Tool: "pay", Run: "run", Fired: true, Data: json.RawMessage(`{}`),
		Call: &memory.CallStep{Slot: memory.Digest{1}, Act: memory.Digest{2}, Seen: seen, ActSeen: f.Act.Revision, Track: true, Once: true}}
	if change != nil {
		change(&r)
	}
	return r.ID, w.Record(w.t.Context(), r)
}

func (w *hall) sound(t *testing.T) {
	t.Helper()
	if v, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { t.Error(err); return nil }}); err != nil || v.Found != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// A call that is not to be made twice leaves a mark when it was done, and none when it was
// not. Who did not read it cannot make the call again.
func TestACallThatWasDoneLeavesAMark(t *testing.T) {
	type ending struct {
		outcome memory.CallOutcome
		note    string
	}
	for outcome, want := range map[ending]struct{ done, prior bool }{
		{memory.CallDone, ""}:                    {done: true},
		{memory.CallDone, "output not recorded"}: {done: true},
		{memory.CallFailed, ""}:                  {},
		{memory.CallNotMade, ""}:                 {},
		{memory.CallUnknown, ""}:                 {prior: true},
		{memory.CallUnknown, "it"}:               {prior: true},
	} {
		w := newHall(t)
		id, err := w.once(0, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Minute)
		if err := w.RecordOutcome(t.Context(), id, outcome.outcome, outcome.note, w.row.ID); err != nil {
			t.Fatal(err)
		}
		at := w.standing()
		if (at.Done == id) != want.done || (at.Prior == id) != want.prior || at.Done != "" && !want.done {
			t.Errorf("%v: %+v", outcome, at)
		}
		if want.done && (!at.DoneAt.Equal(w.now.Add(-time.Minute)) || !slices.Equal(at.Answer, []memory.ID{w.row.ID})) {
			t.Errorf("%v: it was let through at %s, answer %v", outcome, at.DoneAt, at.Answer)
		}
		var conflict *memory.ConflictError
		_, err = w.once(0, nil)
		if stands := want.done || want.prior; stands != errors.As(err, &conflict) {
			t.Errorf("%v: who did not look gets %v", outcome, err)
		}
		if err == nil {
			w.sound(t)
		}
	}
	// A call that may be repeated leaves none.
	w := newHall(t)
	id, err := w.once(0, func(r *memory.DecisionRecord) { r.Call.Once = false })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.RecordOutcome(t.Context(), id, memory.CallDone, "", w.row.ID); err != nil {
		t.Fatal(err)
	}
	d, err := w.Decision(t.Context(), id)
	if at := w.standing(); at.Done != "" || err != nil || d.Answer != nil {
		t.Errorf("%+v, %v, answer %v", at, err, d.Answer)
	}
	// Only rows are an answer.
	if err := w.RecordOutcome(t.Context(), id, memory.CallDone, "", "row 7"); err == nil {
		t.Error("an answer that is no row is taken")
	}
}

// The hold that stands in the slot of a call knows of the call that was done before it, and
// of the one that was let through out of it.
func TestAHoldKnowsTheCallThatWasDone(t *testing.T) {
	open := func(w *hall, change func(*memory.Hold)) memory.Hold {
		at := w.standing()
		h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{1}, State: memory.HoldWaiting, Tool: "pay", Run: "run", Agent: "clerk", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held", Done: at.Done, Prior: at.Prior}
		if change != nil {
			change(&h)
		}
		must(w.t, w.Record(w.t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "run", Call: &memory.CallStep{Slot: h.Slot, Seen: at.Revision, Hold: &h}}))
		h, err := w.Hold(w.t.Context(), h.ID)
		must(w.t, err)
		return h
	}
	through := func(w *hall, h memory.Hold) string {
		id, err := w.once(w.standing().Revision, func(r *memory.DecisionRecord) {
			h.State, h.Fired, h.Prior, h.Made = memory.HoldFired, r.ID, "", ""
			r.Call.Hold, r.Call.Track = &h, false
			r.Data = json.RawMessage(`{"block_id":"` + h.ID + `"}`)
		})
		must(w.t, err)
		return id
	}
	first := func(w *hall) string {
		id, err := w.once(0, nil)
		must(w.t, err)
		return id
	}
	for name, play := range map[string]func(w *hall) (done string){
		"done before it was opened": func(w *hall) string {
			id := first(w)
			must(w.t, w.RecordOutcome(w.t.Context(), id, memory.CallDone, ""))
			open(w, nil)
			return id
		},
		"done while it waited": func(w *hall) string {
			id := first(w)
			open(w, nil)
			must(w.t, w.RecordOutcome(w.t.Context(), id, memory.CallDone, ""))
			return id
		},
		"settled as done while it waited": func(w *hall) string {
			id := first(w)
			open(w, nil)
			must(w.t, w.Settle(w.t.Context(), memory.Settlement{Decision: id, Done: true, Actor: "cleo", Reason: "looked"}))
			return id
		},
		"done after it was let through once more": func(w *hall) string {
			id := first(w)
			again := through(w, open(w, nil))
			must(w.t, w.RecordOutcome(w.t.Context(), id, memory.CallDone, ""))
			if at := w.standing(); at.Done != id || at.Prior != again {
				w.t.Errorf("%+v", at)
			}
			must(w.t, w.RecordOutcome(w.t.Context(), again, memory.CallFailed, ""))
			return id
		},
		"let through out of it": func(w *hall) string {
			must(w.t, w.RecordOutcome(w.t.Context(), first(w), memory.CallDone, ""))
			again := through(w, open(w, nil))
			must(w.t, w.RecordOutcome(w.t.Context(), again, memory.CallDone, ""))
			return again
		},
		"let through out of it, and failed": func(w *hall) string {
			id := first(w)
			must(w.t, w.RecordOutcome(w.t.Context(), id, memory.CallDone, ""))
			must(w.t, w.RecordOutcome(w.t.Context(), through(w, open(w, nil)), memory.CallFailed, ""))
			return id
		},
		"settled as not done": func(w *hall) string {
			id := first(w)
			open(w, nil)
			w.now = w.now.Add(memory.UnknownAfter)
			must(w.t, w.Settle(w.t.Context(), memory.Settlement{Decision: id, Actor: "cleo", Reason: "looked"}))
			return ""
		},
	} {
		w := newHall(t)
		if done, at := play(w), w.standing(); at.Done != done {
			t.Errorf("%s: %+v, done by %q", name, at, done)
		}
		w.sound(t)
	}
}

// The mark of a call that was done is made again from the logs, and one that is gone, or a
// call that was made again all the same, is found.
func TestTheMarkOfACallThatWasDoneIsMadeAgain(t *testing.T) {
	w := newHall(t)
	key := w.MarkKey(memory.Digest{1})
	raw := func() memory.Object {
		objs, err := w.driver.Get(t.Context(), w.Tenant(), []string{key})
		must(t, err)
		return objs[0]
	}
	put := func(o memory.Object) {
		must(t, w.driver.Restore(t.Context(), w.Tenant(), []memory.Restored{{Object: o}}))
	}
	found := func(says string) {
		t.Helper()
		var list []string
		_, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { list = append(list, err.Error()); return nil }})
		if all := strings.Join(list, "\n"); err != nil || (says == "") != (all == "") || !strings.Contains(all, says) {
			t.Errorf("%v; found %q, want %q", err, all, says)
		}
	}
	again := func(want string) {
		t.Helper()
		put(memory.Object{Key: key})
		if want != "" {
			found("could be made a second time")
		}
		if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(time.Second)
		w.reopen()
		if at := w.standing(); at.Done != want {
			t.Errorf("made again: %+v, want done by %q", at, want)
		}
		found("")
	}
	id, err := w.once(0, nil)
	must(t, err)
	before := raw()
	must(t, w.RecordOutcome(t.Context(), id, memory.CallFailed, ""))
	again("")
	id, err = w.once(raw().Revision, nil)
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), id, memory.CallDone, ""))
	again(id)
	after := raw()
	put(before)
	found("an older one was put back")
	put(after)

	// A hold that ended before the call was made does not hide it.
	h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{1}, State: memory.HoldWaiting, Tool: "pay", Run: "run", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held", Done: id}
	must(t, w.Record(t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "run", Call: &memory.CallStep{Slot: h.Slot, Seen: raw().Revision, Hold: &h}}))
	again(id)
	w.now = w.now.Add(2 * time.Hour)
	last, err := w.once(raw().Revision, func(r *memory.DecisionRecord) {
		r.Data = json.RawMessage(`{"reasons":[{"code":"already_done","outcome":"permitted"}]}`)
	})
	must(t, err)
	must(t, w.RecordOutcome(t.Context(), last, memory.CallDone, ""))
	again(last)

	// The mark was taken away for a while.
	seen := raw().Revision
	third, err := w.once(seen, nil)
	must(t, err)
	found(third)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A call is settled though its record was erased: the marks and the holds that name it hear of
// it, and the audit has the person's word.
func TestACallWhoseRecordWasErasedIsSettled(t *testing.T) {
	for name, c := range map[string]struct{ done, waits bool }{
		"it was done":                       {true, true},
		"it was not":                        {false, true},
		"it was done, and nobody waits":     {true, false},
		"it was not done, and nobody waits": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHall(t)
			id, err := w.once(0, func(r *memory.DecisionRecord) {
				r.Rows = []memory.Cited{{Row: w.row.ID, Revision: w.row.Revision}}
			})
			must(t, err)
			must(t, w.RecordOutcome(t.Context(), id, memory.CallUnknown, ""))
			var own, other string
			if c.waits {
				open := func(slot byte, prior, made string) string {
					at, err := w.Standing(t.Context(), memory.Digest{slot})
					must(t, err)
					h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{slot}, State: memory.HoldWaiting, Tool: "pay", Run: "run", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held",
						Prior: prior, Made: made, Args: json.RawMessage(`{"to":"acme"}`)}
					must(t, w.Record(t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "run", Call: &memory.CallStep{Slot: h.Slot, Seen: at.Revision, Hold: &h}}))
					return h.ID
				}
				own, other = open(1, id, ""), open(9, "", id)
			}
			w.now = w.now.Add(time.Minute)
			if _, err := w.Erase(t.Context(), memory.Erasure{Subject: "acme", Actor: "ops", Request: "1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Decision(t.Context(), id); !errors.Is(err, memory.ErrErased) {
				t.Fatal(err)
			}
			settle := memory.Settlement{Decision: id, Done: c.done, Actor: "cleo", Reason: "the bank shows it"}
			if err := w.Settle(t.Context(), settle); !c.done && !errors.Is(err, memory.ErrHold) {
				t.Fatalf("at once: %v", err)
			}
			w.now = w.now.Add(memory.UnknownAfter)
			if !c.done {
				must(t, w.Settle(t.Context(), settle))
			}
			if at := w.made(2); at.Decision != "" {
				t.Errorf("the act is marked: %+v", at)
			}
			if at := w.standing(); at.Prior != "" || (at.Done == id) != c.done {
				t.Errorf("%+v", at)
			}
			for _, id := range []string{own, other} {
				if id == "" {
					continue
				}
				h := w.hold(id)
				if h.Unknown() != "" || c.done != h.Rejected(w.now) || c.done && (h.Why != "it was done already: the bank shows it" || h.By != "cleo" || h.Args != nil) {
					t.Errorf("%+v", h)
				}
			}
			if err := w.Settle(t.Context(), settle); !errors.Is(err, memory.ErrErased) {
				t.Errorf("twice: %v", err)
			}
			w.sound(t)
			if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
				t.Fatal(err)
			}
			w.sound(t)
		})
	}
}

// A hold of another run that waits for a call is not opened once it is known how that call
// ended: who ended it did not find the hold.
func TestAHoldIsNotOpenedForACallThatHasEnded(t *testing.T) {
	for _, ended := range []bool{false, true} {
		w := newHall(t)
		id, err := w.once(0, nil)
		must(t, err)
		f, err := w.FitnessFor(t.Context(), nil, memory.Digest{2}, memory.Digest{3})
		must(t, err)
		if ended {
			must(t, w.RecordOutcome(t.Context(), id, memory.CallFailed, ""))
		}
		h := memory.Hold{ID: w.NewDecisionID(), Slot: memory.Digest{3}, State: memory.HoldWaiting, Tool: "pay", Run: "other", ExpiresAt: w.now.Add(time.Hour), By: "gate", Why: "held", Made: id}
		err = w.Record(t.Context(), memory.DecisionRecord{ID: h.ID, Tool: "pay", Run: "other", Call: &memory.CallStep{Slot: h.Slot, Act: memory.Digest{2}, ActSeen: f.Act.Revision, Hold: &h}})
		if errors.Is(err, memory.ErrConflict) != ended || err == nil == ended {
			t.Errorf("it has ended: %t, %v", ended, err)
		}
	}
}
