package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// hall is a store with one held call, and a clock.
type hall struct {
	driver memory.Driver
	keys   memory.Keys
	*memory.Store
	t    *testing.T
	now  time.Time
	row  memory.Head
	slot memory.Digest
}

func newHall(t *testing.T) *hall { return newHallOn(t, storetest.NewMap()) }

func newHallOn(t *testing.T, d memory.Driver) *hall {
	w := &hall{t: t, now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC), slot: memory.Digest{1}}
	w.driver, w.keys = d, keyring.Ephemeral()
	w.reopen()
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := w.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "p", Object: "x", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
		State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "a", Model: "m", Family: "f"}})
	if err != nil {
		t.Fatal(err)
	}
	f, err := w.Fitness(t.Context(), []memory.ID{r.ID})
	if err != nil {
		t.Fatal(err)
	}
	w.row = f.Heads[0]
	return w
}

// reopen is another process on the same store.
func (w *hall) reopen() {
	w.t.Helper()
	s, err := memory.New(w.driver, w.keys, &memory.Options{Clock: func() time.Time { return w.now }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Store = s
}

// record writes a decision about the call, and returns its id.
func (w *hall) record(fired bool, step memory.CallStep) (string, error) {
	w.t.Helper()
	id := w.NewDecisionID()
	step.Slot = w.slot
	if step.Hold != nil && step.Hold.ID == "" {
		step.Hold.ID = id
	}
	return id, w.Record(w.t.Context(), memory.DecisionRecord{Epoch: 1, ID: id, Tool: "send", Run: "r", Fired: fired, Data: json.RawMessage(`{}`), Call: &step,
		Rows: []memory.Cited{{Row: w.row.ID, Revision: w.row.Revision}}})
}

// open opens a hold that ends in an hour.
func (w *hall) open() memory.Hold {
	w.t.Helper()
	at, err := w.Standing(w.t.Context(), w.slot)
	if err != nil {
		w.t.Fatal(err)
	}
	id, err := w.record(false, memory.CallStep{Seen: at.Revision, Hold: &memory.Hold{Epoch: 1, State: memory.HoldWaiting, Slot: w.slot, Tool: "send", Args: json.RawMessage(`{"to":"x"}`),
		OpenedAt: w.now, ExpiresAt: w.now.Add(time.Hour), AtFault: []memory.ID{w.row.ID}, Rows: []memory.Cited{{Row: w.row.ID, Revision: w.row.Revision}}, By: "gate", Why: "held"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.hold(id)
}

func (w *hall) hold(id string) memory.Hold {
	w.t.Helper()
	h, err := w.Hold(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return h
}

func (w *hall) move(h memory.Hold, to memory.HoldState) error {
	_, err := w.MoveHold(w.t.Context(), memory.HoldMove{Hold: h.ID, Round: w.hold(h.ID).Round, To: to, Actor: "ana", Reason: "why", Grant: json.RawMessage(`{}`), Ends: w.now.Add(time.Minute)})
	return err
}

// fire lets the call through out of its hold.
func (w *hall) fire(h memory.Hold) string {
	w.t.Helper()
	at, err := w.Standing(w.t.Context(), w.slot)
	if err != nil {
		w.t.Fatal(err)
	}
	next := w.hold(h.ID)
	next.State, next.Fired = memory.HoldFired, w.NewDecisionID()
	err = w.Record(w.t.Context(), memory.DecisionRecord{Epoch: 1, ID: next.Fired, Tool: "send", Run: "r", Fired: true, Data: json.RawMessage(`{}`), Call: &memory.CallStep{Slot: w.slot, Seen: at.Revision, Hold: &next},
		Rows: []memory.Cited{{Row: w.row.ID, Revision: w.row.Revision}}})
	if err != nil {
		w.t.Fatal(err)
	}
	return next.Fired
}

// TestAPersonMovesAHoldOnlyWhereItMayGo tries every decision in every state.
func TestAPersonMovesAHoldOnlyWhereItMayGo(t *testing.T) {
	reach := map[memory.HoldState]func(*hall, memory.Hold) error{
		memory.HoldWaiting:  func(*hall, memory.Hold) error { return nil },
		memory.HoldGranted:  func(w *hall, h memory.Hold) error { return w.move(h, memory.HoldGranted) },
		memory.HoldRejected: func(w *hall, h memory.Hold) error { return w.move(h, memory.HoldRejected) },
		memory.HoldFired:    func(w *hall, h memory.Hold) error { w.fire(h); return nil },
		memory.HoldDone: func(w *hall, h memory.Hold) error {
			return w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallDone, "")
		},
		memory.HoldFailed: func(w *hall, h memory.Hold) error {
			return w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallFailed, "")
		},
		memory.HoldUnknown: func(w *hall, h memory.Hold) error {
			return w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallUnknown, "")
		},
		memory.HoldExpired: func(w *hall, _ memory.Hold) error { w.now = w.now.Add(time.Hour); return nil },
	}
	legal := map[memory.HoldState][]memory.HoldState{
		memory.HoldWaiting: {memory.HoldGranted, memory.HoldRejected},
		memory.HoldGranted: {memory.HoldWaiting, memory.HoldRejected},
	}
	for from, get := range reach {
		for _, to := range []memory.HoldState{memory.HoldGranted, memory.HoldWaiting, memory.HoldRejected} {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				w := newHall(t)
				h := w.open()
				if err := get(w, h); err != nil {
					t.Fatal(err)
				}
				before := w.hold(h.ID)
				if before.StateAt(w.now) != from {
					t.Fatalf("it is %s", before.StateAt(w.now))
				}
				err := w.move(h, to)
				after := w.hold(h.ID)
				if may := slices.Contains(legal[from], to); may {
					if err != nil || after.State != to || after.Round != before.Round+1 || after.By != "ana" {
						t.Errorf("%v: %+v", err, after)
					}
					return
				}
				var hold *memory.HoldError
				if !errors.As(err, &hold) || !errors.Is(err, memory.ErrHold) || hold.State != from || after.Revision != before.Revision {
					t.Errorf("%v: %+v", err, after)
				}
			})
		}
	}
}

func TestAHoldKeepsItsArgumentsWhileTheyAreNeeded(t *testing.T) {
	for to, keeps := range map[memory.HoldState]bool{memory.HoldGranted: true, memory.HoldRejected: false} {
		w := newHall(t)
		h := w.open()
		if err := w.move(h, to); err != nil || (w.hold(h.ID).Args != nil) != keeps {
			t.Errorf("%s: %v", to, err)
		}
	}
	for outcome, keeps := range map[memory.CallOutcome]bool{memory.CallDone: false, memory.CallFailed: false, memory.CallUnknown: true} {
		w := newHall(t)
		h := w.open()
		if err := w.RecordOutcome(t.Context(), w.fire(h), outcome, ""); err != nil || (w.hold(h.ID).Args != nil) != keeps {
			t.Errorf("%s: %v", outcome, err)
		}
	}
}

func TestADecisionOfAPersonIsChecked(t *testing.T) {
	w := newHall(t)
	h := w.open()
	good := memory.HoldMove{Hold: h.ID, To: memory.HoldGranted, Actor: "ana", Reason: "why", Grant: json.RawMessage(`{}`), Ends: w.now.Add(time.Minute)}
	for field, change := range map[string]func(*memory.HoldMove){
		"hold": func(m *memory.HoldMove) { m.Hold = "" }, "actor": func(m *memory.HoldMove) { m.Actor = " " }, "reason": func(m *memory.HoldMove) { m.Reason = strings.Repeat("x", memory.MaxField+1) },
		"to": func(m *memory.HoldMove) { m.To = memory.HoldDone }, "grant": func(m *memory.HoldMove) { m.Grant = nil },
	} {
		m := good
		change(&m)
		_, err := w.MoveHold(t.Context(), m)
		var f *memory.FieldError
		if !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := w.hold(h.ID); got.Revision != h.Revision {
		t.Errorf("it moved: %+v", got)
	}
	early := good
	early.Round = 7
	var moved *memory.HoldError
	if _, err := w.MoveHold(t.Context(), early); !errors.As(err, &moved) || !moved.Moved {
		t.Errorf("of another round: %v", err)
	}
	late := good
	late.Ends = w.now
	if _, err := w.MoveHold(t.Context(), late); !errors.Is(err, memory.ErrHold) {
		t.Error(err)
	}
	if _, err := w.MoveHold(t.Context(), good); err != nil {
		t.Error(err)
	}
	if got := w.hold(h.ID); !got.GrantEnds.Equal(good.Ends) {
		t.Errorf("%+v", got)
	}
}

// TestTheMarkOfACallStandsUntilItsOutcome: a call that cannot be undone is not
// recorded again by who did not look, and its mark can be made again.
func TestTheMarkOfACallStandsUntilItsOutcome(t *testing.T) {
	w := newHall(t)
	track := memory.CallStep{Track: true}
	first, err := w.record(true, track)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.record(true, track); !errors.Is(err, memory.ErrConflict) {
		t.Fatalf("it is recorded twice: %v", err)
	}
	standing := func() memory.Standing {
		t.Helper()
		at, err := w.Standing(t.Context(), w.slot)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := standing(); at.Prior != first || at.Hold != nil {
		t.Errorf("%+v", at)
	}
	if err := w.RecordOutcome(t.Context(), first, memory.CallUnknown, "cut off"); err != nil || standing().Prior != first {
		t.Errorf("%+v, %v", standing(), err)
	}
	if open, err := w.OpenCalls(t.Context(), first); err != nil || len(open) != 0 {
		t.Errorf("%v, %v", open, err)
	}
	if err := w.RecordOutcome(t.Context(), first, memory.CallDone, ""); err != nil || standing().Prior != "" {
		t.Errorf("%+v, %v", standing(), err)
	}
	track.Seen = standing().Revision
	second, err := w.record(true, track)
	if err != nil || standing().Prior != second {
		t.Errorf("%+v, %v", standing(), err)
	}
	if r, err := w.Decision(t.Context(), first); err != nil || r.Outcome != memory.CallDone || len(r.Rows) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.Decision(t.Context(), "blk_none"); !errors.Is(err, memory.ErrNotFound) {
		t.Error(err)
	}
}

func TestAHoldIsRecordedOnlyAsItWasRead(t *testing.T) {
	w := newHall(t)
	h := w.open()
	at, err := w.Standing(t.Context(), w.slot)
	if err != nil || at.Hold == nil || at.Hold.ID != h.ID {
		t.Fatalf("%+v, %v", at, err)
	}
	stale := *at.Hold
	if err := w.move(h, memory.HoldGranted); err != nil {
		t.Fatal(err)
	}
	stale.State = memory.HoldFired
	if _, err := w.record(true, memory.CallStep{Seen: at.Revision, Hold: &stale}); !errors.Is(err, memory.ErrConflict) {
		t.Errorf("a hold that moved is overwritten: %v", err)
	}
	if _, err := w.record(true, memory.CallStep{}); !errors.Is(err, memory.ErrConflict) {
		t.Errorf("a held call is recorded by who did not look: %v", err)
	}
	if got := w.hold(h.ID); got.State != memory.HoldGranted {
		t.Errorf("%+v", got)
	}
}

func TestADigestIsWrittenInHexadecimal(t *testing.T) {
	d := memory.Digest{0xab, 1}
	b, err := json.Marshal(d)
	var back memory.Digest
	if err != nil || json.Unmarshal(b, &back) != nil || back != d || d.IsZero() || !(memory.Digest{}).IsZero() {
		t.Errorf("%s, %v", b, err)
	}
	for _, bad := range []string{`""`, `"ab"`, `"` + strings.Repeat("g", 64) + `"`} {
		if err := json.Unmarshal([]byte(bad), &back); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	var s memory.HoldState
	if _, err := s.MarshalText(); err == nil || s.UnmarshalText([]byte("open")) == nil || s.UnmarshalText([]byte("granted")) != nil || s != memory.HoldGranted {
		t.Errorf("%s", s)
	}
}

// forgetful is a driver that has lost the marks of calls until they are restored.
type forgetful struct {
	memory.Driver
	lost     bool
	restored int
}

func (d *forgetful) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := d.Driver.Get(ctx, tenant, keys)
	for i := range objs {
		if d.lost && strings.HasPrefix(memory.KeyText(objs[i].Key), "call/") {
			objs[i].Revision, objs[i].Data = 0, nil
		}
	}
	return objs, err
}

func (d *forgetful) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	for _, o := range objects {
		if strings.HasPrefix(memory.KeyText(o.Key), "call/") {
			d.restored++
		}
	}
	return d.Driver.Restore(ctx, tenant, objects)
}

func TestARebuildMakesTheMarksOfCallsAgain(t *testing.T) {
	for name, play := range map[string]func(*hall) (hold, fired string){
		"of a call without an outcome":       func(w *hall) (string, string) { id, _ := w.record(true, memory.CallStep{Track: true}); return "", id },
		"of a call that waits":               func(w *hall) (string, string) { return w.open().ID, "" },
		"of a call that fired out of a hold": func(w *hall) (string, string) { h := w.open(); return h.ID, w.fire(h) },
		"of a call that fired again after a hold had ended": func(w *hall) (string, string) {
			h := w.open()
			if err := w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallDone, ""); err != nil {
				w.t.Fatal(err)
			}
			at, err := w.Standing(w.t.Context(), w.slot)
			if err != nil {
				w.t.Fatal(err)
			}
			id, err := w.record(true, memory.CallStep{Track: true, Seen: at.Revision})
			if err != nil {
				w.t.Fatal(err)
			}
			return "", id
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := &forgetful{Driver: storetest.NewMap()}
			w := newHallOn(t, d)
			hold, fired := play(w)
			d.lost = true
			if _, err := w.Standing(t.Context(), w.slot); !errors.Is(err, memory.ErrBehind) {
				t.Errorf("who made the mark does not miss it: %v", err)
			}
			w.reopen()
			if at, err := w.Standing(t.Context(), w.slot); err != nil || at.Revision != 0 {
				t.Fatalf("%+v, %v", at, err)
			}
			if _, err := w.Rebuild(t.Context(), "ops", nil); err != nil || d.restored != 1 {
				t.Fatalf("%d marks, %v", d.restored, err)
			}
			d.lost = false
			at, err := w.Standing(t.Context(), w.slot)
			if err != nil || at.Prior != fired || (at.Hold != nil) != (hold != "") || at.Hold != nil && at.Hold.ID != hold {
				t.Errorf("%+v, %v", at, err)
			}
		})
	}
}

// TestAnErasureReachesAHoldInEveryState: its arguments may quote a row that names
// somebody, and it is found by that row though it waits for it no more.
func TestAnErasureReachesAHoldInEveryState(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, reach := range map[string]func(*hall, memory.Hold){
		"that waits": func(*hall, memory.Hold) {},
		"that fired": func(w *hall, h memory.Hold) { w.fire(h) },
		"that is over": func(w *hall, h memory.Hold) {
			must(w.t, w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallDone, ""))
		},
		"without a say": func(w *hall, h memory.Hold) {
			must(w.t, w.RecordOutcome(w.t.Context(), w.fire(h), memory.CallUnknown, ""))
		},
	} {
		t.Run("one "+name, func(t *testing.T) {
			w := newHall(t)
			r, err := w.Put(t.Context(), modelDraft(memory.Content{Text: "The call was for person1.", Cardinality: memory.CardinalityUnknown}))
			must(t, err)
			f, err := w.Fitness(t.Context(), []memory.ID{r.ID})
			must(t, err)
			w.row = f.Heads[0]
			h := w.open()
			reach(w, h)
			dry, err := w.Erase(t.Context(), memory.Erasure{Subject: "person1", Request: "1", Actor: "dpo", DryRun: true})
			must(t, err)
			c, err := w.Erase(t.Context(), memory.Erasure{Subject: "person1", Request: "1", Actor: "dpo"})
			must(t, err)
			if c.Decisions != dry.Decisions {
				t.Errorf("%d decisions, %d when tried", c.Decisions, dry.Decisions)
			}
			if left, err := w.Hold(t.Context(), h.ID); !errors.Is(err, memory.ErrErased) {
				t.Errorf("%+v, %v", left, err)
			}
			_, err = w.Verify(t.Context(), nil, nil)
			must(t, err)
		})
	}
}

// TestAnOutcomeIsOneOfAFew: what a person says is settled, and not recorded.
func TestAnOutcomeIsOneOfAFew(t *testing.T) {
	w := newHall(t)
	id, err := w.once(0, nil)
	must(t, err)
	for _, outcome := range []memory.CallOutcome{0, memory.CallSettledDone, memory.CallSettledNotDone, 99} {
		if err := w.RecordOutcome(t.Context(), id, outcome, ""); !errors.Is(err, memory.ErrInvalid) {
			t.Errorf("%s: %v", outcome, err)
		}
	}
	if err := w.RecordOutcome(t.Context(), id, memory.CallDone, strings.Repeat("x", memory.MaxField+1)); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
	must(t, w.RecordOutcome(t.Context(), id, memory.CallDone, "a note"))
	if d, err := w.Decision(t.Context(), id); err != nil || d.Outcome != memory.CallDone || d.Note != "a note" {
		t.Errorf("%s, %q, %v", d.Outcome, d.Note, err)
	}
}
