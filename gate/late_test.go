package gate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/gate/confirm"
	"github.com/hearsay-go/hearsay/memory"
)

// late is a store that takes its time to write that a call fires.
type late struct {
	*memory.Store
	write func(ctx context.Context, fires func() error) error
}

func (s *late) Record(ctx context.Context, r memory.DecisionRecord) error {
	if !r.Fired {
		return s.Store.Record(ctx, r)
	}
	return s.write(ctx, func() error { return s.Store.Record(context.WithoutCancel(ctx), r) })
}

// TestAPermitThatCameTooLateIsSettled: a call whose record was written and that is not
// made all the same has an outcome that says so, and no barrier waits for it.
func TestAPermitThatCameTooLateIsSettled(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, fires func() error) error{
		"the write takes longer than a row of the permit lasts": func(_ context.Context, fires func() error) error {
			err := fires()
			time.Sleep(2 * time.Second)
			return err
		},
		"the write is done and its answer is lost": func(_ context.Context, fires func() error) error {
			if err := fires(); err != nil {
				return err
			}
			return errors.New("connection reset")
		},
		"the write takes longer than a decision may": func(ctx context.Context, fires func() error) error {
			err := fires()
			time.Sleep(6 * time.Second)
			return errors.Join(err, ctx.Err())
		},
		"the write goes on when nobody waits for it any more": func(ctx context.Context, fires func() error) error {
			<-ctx.Done()
			go func() {
				time.Sleep(200 * time.Millisecond)
				fires() //nolint:errcheck // nobody hears it
			}()
			return ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				draft := w.fromTool(triple("acme", "address", "1 Main St"))
				draft.ValidUntil = w.Now().Add(time.Second)
				row := w.put(t, draft)
				start := time.Now()
				d := newGate(t, &late{w.Store, write}, declared(), nil).Decide(t.Context(), mail(row))
				if !d.Fault || !d.Blocked() {
					t.Fatalf("%+v, %v", d, d.Err())
				}
				if took := time.Since(start); took > 7*time.Second {
					t.Errorf("it took %s", took)
				}
				time.Sleep(time.Second)
				if _, err := w.Apply(t.Context(), memory.Transition{Row: row, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "wrong"}); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				calls, err := confirm.Barrier(ctx, w.Store, row)
				if err != nil || len(calls) != 1 || calls[0].Outcome != memory.CallNotMade {
					t.Errorf("%+v, %v", calls, err)
				}
			})
		})
	}
}

// TestAPermitThatIsRefusedLeavesNothingToSettle: what the store did not write it is not
// asked about.
func TestAPermitThatIsRefusedLeavesNothingToSettle(t *testing.T) {
	for name, refuses := range map[string]error{"its rows moved": memory.ErrConflict, "a row expired": memory.ErrExpired} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(verified("a"))
				f.record = func(_ context.Context, r memory.DecisionRecord) error {
					if r.Fired {
						return refuses
					}
					return nil
				}
				d := newGate(t, f, declared(), &gate.Options{Timeout: time.Second}).Decide(t.Context(), mail(id("a")))
				if !d.Fault || len(f.outcomes) != 0 {
					t.Errorf("%v, outcomes %q", d.Err(), f.outcomes)
				}
			})
		})
	}
}

// noting is a store that keeps the last record it was given.
type noting struct {
	*memory.Store
	last memory.DecisionRecord
}

func (n *noting) Record(ctx context.Context, r memory.DecisionRecord) error {
	n.last = r
	return n.Store.Record(ctx, r)
}

// TestI7AParkedCallIsNotConsumedAfterItsTime: its time is a limit of the permit, which
// the store holds against its clock.
func TestI7AParkedCallIsNotConsumedAfterItsTime(t *testing.T) {
	w := newWorld(t)
	row := w.put(t, w.fromModel(triple("acme", "address", "1 Main St")))
	s := &noting{Store: w.Store}
	g := newGate(t, s, declared(), nil)
	req := mail(row)
	req.Contract.Effect, req.Park = gate.StateChanging, true
	parked := g.Decide(t.Context(), req)
	if !parked.Parked {
		t.Fatal(parked.Err())
	}
	if _, err := w.Apply(t.Context(), memory.Transition{Row: row, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityProbe, Actor: "worker",
		Source: "crm", Reason: "it agrees", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm",
			Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: clock0}}}); err != nil {
		t.Fatal(err)
	}
	req.Resumes = parked.HoldID
	if d := g.Decide(t.Context(), req); d.Blocked() || !s.last.NotAfter.Equal(parked.ExpiresAt) {
		t.Errorf("%v, the record ends at %v, not at %v", d.Err(), s.last.NotAfter, parked.ExpiresAt)
	}
}

// TestADeniedParkedCallEndsItsHold, whatever it is denied for. One that is held still, or that
// could not be decided, does not.
func TestADeniedParkedCallEndsItsHold(t *testing.T) {
	move := func(to memory.AxisValue) func(*testing.T, *world, *gate.Request, memory.ID) {
		return func(t *testing.T, w *world, _ *gate.Request, row memory.ID) {
			if _, err := w.Apply(t.Context(), memory.Transition{Row: row, Revision: 1, To: to, Authority: memory.AuthorityUser, Actor: "boss", Source: "test", Reason: "test"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		then  func(*testing.T, *world, *gate.Request, memory.ID)
		code  gate.Code
		state memory.HoldState
	}{
		"a quarantine":                    {move(memory.SecurityQuarantined), gate.QuarantinedInput, memory.HoldStale},
		"a hidden row":                    {move(memory.RetrievalHidden), gate.NotRetrievable, memory.HoldStale},
		"another schema":                  {func(_ *testing.T, _ *world, r *gate.Request, _ memory.ID) { r.Contract.Schema[0]++ }, gate.HoldEnded, memory.HoldStale},
		"an effect that cannot be undone": {func(_ *testing.T, _ *world, r *gate.Request, _ memory.ID) { r.Contract.Effect = gate.Irreversible }, gate.HoldEnded, memory.HoldStale},
		"a call inside the same call":     {func(_ *testing.T, _ *world, r *gate.Request, _ memory.ID) { r.Within = true }, gate.NestedCall, memory.HoldStale},
		"a tool that is not known":        {func(_ *testing.T, _ *world, r *gate.Request, _ memory.ID) { r.Contract.Unknown = true }, gate.ToolNotNamed, memory.HoldStale},
		"a lineage that is not known": {func(_ *testing.T, _ *world, r *gate.Request, row memory.ID) {
			r.Lineage = gate.Partial("lost", []memory.ID{row}, nil)
		}, gate.LineageUnknown, memory.HoldStale},
		"nothing": {func(*testing.T, *world, *gate.Request, memory.ID) {}, gate.UnverifiedInput, memory.HoldWaiting},
		"the hold of another": {func(_ *testing.T, _ *world, r *gate.Request, _ memory.ID) {
			r.Resumes = "blk_" + strings.Repeat("0", 26)
		}, gate.HoldEnded, memory.HoldWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			row := w.put(t, w.fromModel(triple("acme", "address", "1 Main St")))
			g := newGate(t, w.Store, declared(), nil)
			req := mail(row)
			req.Contract.Effect, req.Park = gate.StateChanging, true
			parked := g.Decide(t.Context(), req)
			if !parked.Parked {
				t.Fatal(parked.Err())
			}
			req.Resumes = parked.HoldID
			c.then(t, w, &req, row)
			d := g.Decide(t.Context(), req)
			if !d.Blocked() || !d.Has(c.code) || d.Fault {
				t.Errorf("%v", d.Err())
			}
			h, err := w.Hold(t.Context(), parked.HoldID)
			if err != nil || h.State != c.state || (h.State == memory.HoldStale) != strings.Contains(h.Why, "denied by "+d.ID+": ") {
				t.Errorf("the hold is %s, %q, %v", h.State, h.Why, err)
			}
		})
	}
	t.Run("a store that fails", func(t *testing.T) {
		w := newWorld(t)
		row := w.put(t, w.fromModel(triple("acme", "address", "1 Main St")))
		req := mail(row)
		req.Contract.Effect, req.Park = gate.StateChanging, true
		parked := newGate(t, w.Store, declared(), nil).Decide(t.Context(), req)
		req.Resumes = parked.HoldID
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if d := newGate(t, w.Store, declared(), nil).Decide(ended, req); !d.Fault {
			t.Fatalf("%+v", d)
		}
		if h, err := w.Hold(t.Context(), parked.HoldID); err != nil || h.State != memory.HoldWaiting {
			t.Errorf("the hold is %s, %v", h.State, err)
		}
	})
}
