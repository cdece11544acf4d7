package gate_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
				if err != nil || len(calls) != 1 || calls[0].Outcome != memory.OutcomeNotFired {
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
			f := newFake(verified("a"))
			f.record = func(_ context.Context, r memory.DecisionRecord) error {
				if r.Fired {
					return refuses
				}
				return nil
			}
			d := newGate(t, f, declared(), nil).Decide(t.Context(), mail(id("a")))
			if !d.Fault || len(f.outcomes) != 0 {
				t.Errorf("%v, outcomes %q", d.Err(), f.outcomes)
			}
		})
	}
}
