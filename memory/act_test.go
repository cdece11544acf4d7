package memory_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// act lets a call of an act through, in a run of its own, and returns the decision.
func (w *hall) act(act, slot byte, seen uint64, data string) (string, error) {
	w.t.Helper()
	id := w.NewDecisionID()
	return id, w.Record(w.t.Context(), memory.DecisionRecord{Epoch: 1, ID: id, Tool: "pay", Run: string('a' + rune(slot)), Fired: true, Data: json.RawMessage(data),
		Call: &memory.CallStep{Slot: memory.Digest{slot}, Act: memory.Digest{act}, ActSeen: seen, Track: true}})
}

func (w *hall) made(act byte) memory.ActMark {
	w.t.Helper()
	f, err := w.FitnessFor(w.t.Context(), []memory.ID{w.row.ID}, memory.Digest{act}, memory.Digest{10})
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Act
}

// The mark of an act stands from the decision that lets a call through until it is known how
// the call ended.
func TestAnActIsMarkedUntilItIsKnownHowItEnded(t *testing.T) {
	w := newHall(t)
	if at := w.made(1); at != (memory.ActMark{}) {
		t.Fatalf("%+v", at)
	}
	first, err := w.act(1, 10, 0, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	if at := w.made(1); at != (memory.ActMark{Revision: 1, Decision: first, At: w.now, Own: true}) {
		t.Fatalf("%+v", at)
	}
	// Another run that did not look conflicts, in this process and in another one.
	for range 2 {
		var conflict *memory.ConflictError
		if _, err := w.act(1, 11, 0, `{}`); !errors.As(err, &conflict) || conflict.Key != w.ActKey(memory.Digest{1}) {
			t.Fatal(err)
		}
		w.reopen()
	}
	if at := w.made(2); at != (memory.ActMark{}) {
		t.Fatalf("another act: %+v", at)
	}
	if err := w.RecordOutcome(t.Context(), first, memory.CallUnknown, ""); err != nil || w.made(1).Decision != first {
		t.Fatalf("%v, %+v", err, w.made(1))
	}
	second, err := w.act(1, 11, w.made(1).Revision, `{"reasons":[{"code":"outcome_unknown","outcome":"permitted"}]}`)
	if err != nil || w.made(1).Decision != second {
		t.Fatalf("%v, %+v", err, w.made(1))
	}
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil || w.made(1).Decision != second {
		t.Fatalf("the outcome of an earlier call: %v, %+v", err, w.made(1))
	}
	if err := w.RecordOutcome(t.Context(), second, memory.CallDone, ""); err != nil || w.made(1).Decision != "" {
		t.Fatalf("%v, %+v", err, w.made(1))
	}
	if _, err := w.act(1, 12, 0, `{}`); err != nil { // this process knows where the mark was taken away
		t.Error(err)
	}
	if v, err := w.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("%+v, %v", v, err)
	}
}

// An act that was done again although nobody knew how the first call ended is found, whichever
// run did it: its mark was taken away for a while.
func TestAnActThatIsDoneTwiceIsFound(t *testing.T) {
	w := newHall(t)
	if _, err := w.act(1, 10, 0, `{}`); err != nil {
		t.Fatal(err)
	}
	second, err := w.act(1, 11, w.made(1).Revision, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	var tamper *memory.TamperError
	if _, err := w.Verify(t.Context(), nil, nil); !errors.As(err, &tamper) || !strings.Contains(err.Error(), second) {
		t.Error(err)
	}
}

// A mark of an act that is gone, or put back, is found, and made again from the logs.
func TestTheMarkOfAnActIsMadeAgain(t *testing.T) {
	w := newHall(t)
	key := w.ActKey(memory.Digest{1})
	raw := func() memory.Object {
		objs, err := w.driver.Get(t.Context(), w.Tenant(), []string{key})
		if err != nil {
			t.Fatal(err)
		}
		return objs[0]
	}
	put := func(o memory.Object) {
		if err := w.driver.Restore(t.Context(), w.Tenant(), []memory.Restored{{Object: o}}); err != nil {
			t.Fatal(err)
		}
	}
	found := func(says string) {
		t.Helper()
		var list []string
		_, err := w.VerifyAll(t.Context(), memory.Verifying{Found: func(err error) error { list = append(list, err.Error()); return nil }})
		if all := strings.Join(list, "\n"); err != nil || (says == "") != (all == "") || !strings.Contains(all, says) {
			t.Errorf("%v; found %q, want %q", err, all, says)
		}
	}
	first, err := w.act(1, 10, 0, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	was, before := w.made(1), raw()
	put(memory.Object{Key: key})
	found("could be made a second time")
	if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	if at := w.made(1); at != was {
		t.Errorf("%+v, was %+v", at, was)
	}
	found("")
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil {
		t.Fatal(err)
	}
	found("")
	after := raw()
	put(before)
	found("an older one was put back")
	put(after)
	put(memory.Object{Key: key})
	if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil {
		t.Fatal(err)
	}
	if at := w.made(1); at.Decision != "" {
		t.Errorf("a call that has ended is marked: %+v", at)
	}
	found("")
}
