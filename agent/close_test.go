package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// TestNoCallFiresOnceCloseHasReturned: the gate may be asked before and answer after.
func TestNoCallFiresOnceCloseHasReturned(t *testing.T) {
	for name, closes := range map[string]func(run *agent.Run, fork *agent.Run){
		"the run":        func(run, _ *agent.Run) { run.Close() },
		"the fork":       func(_, fork *agent.Run) { fork.Close() },
		"with a context": func(run, _ *agent.Run) { _ = run.CloseContext(context.Background()) },
		"more than once": func(run, fork *agent.Run) { run.Close(); fork.Close(); run.Close() },
		"with a dead one": func(run, _ *agent.Run) {
			ctx, stop := context.WithCancel(context.Background())
			stop()
			_ = run.CloseContext(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			asked, answer := make(chan struct{}), make(chan struct{})
			a := w.agentWith(t, "a", deciderFunc(func(ctx context.Context, r gate.Request) gate.Decision {
				d := w.gate.Decide(ctx, r)
				close(asked)
				<-answer
				return d
			}), w.tools(), nil)
			run := a.Start("ana")
			fork := must(run.Fork())
			typed(t, fork, "write to ops@acme.example")
			gone := make(chan error)
			var res agent.Result
			go func() {
				var err error
				res, err = fork.Call(context.Background(), "send_email", args(mailIn{To: "ops@acme.example"}))
				gone <- err
			}()
			<-asked
			closes(run, fork)
			close(answer)
			if err := <-gone; !errors.Is(err, agent.ErrClosed) || w.ran("send_email") != 0 {
				t.Errorf("%v; it ran %d times", err, w.ran("send_email"))
			}
			if got, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || got.Outcome != memory.CallNotMade {
				t.Errorf("recorded as %q, %v", got.Outcome, err)
			}
		})
	}
}

// TestCloseWaitsForWhatIsBeingDone, and for nothing else: a tool may close the run that
// called it.
func TestCloseWaitsForWhatIsBeingDone(t *testing.T) {
	build := func(t *testing.T, tool func(ctx context.Context, run *agent.Run)) (*agent.Run, *atomic.Bool) {
		w := newWorld(t)
		var run *agent.Run
		done := new(atomic.Bool)
		a := w.agentWith(t, "a", w.gate, []agent.Tool{agent.Raw("work", "", must(agent.ReadSchema([]byte(`{"type":"object"}`))), func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			tool(ctx, run)
			done.Store(true)
			return json.RawMessage("null"), nil
		}, agent.ReadOnly())}, nil)
		run = a.Start("ana")
		return run, done
	}
	t.Run("a call that is being made", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			run, done := build(t, func(context.Context, *agent.Run) { time.Sleep(time.Minute) })
			fork := must(run.Fork())
			go fork.Call(context.Background(), "work", nil) //nolint:errcheck // it ends
			synctest.Wait()
			ctx, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			if err := run.CloseContext(ctx); !errors.Is(err, context.DeadlineExceeded) || done.Load() {
				t.Errorf("%v, done %t", err, done.Load())
			}
			if run.Close(); !done.Load() {
				t.Error("Close came back before the call did")
			}
			if _, err := run.Call(t.Context(), "work", nil); !errors.Is(err, agent.ErrClosed) {
				t.Error(err)
			}
		})
	})
	for name, closes := range map[string]func(ctx context.Context, run *agent.Run){
		"inside a tool":                   func(_ context.Context, run *agent.Run) { run.Close() },
		"inside a tool, deep":             func(_ context.Context, run *agent.Run) { deep(300, run.Close) },
		"inside a tool, with its context": func(ctx context.Context, run *agent.Run) { _ = run.CloseContext(ctx) },
		"beside a tool, with its context": func(ctx context.Context, run *agent.Run) {
			gone := make(chan error)
			go func() { gone <- run.CloseContext(ctx) }()
			<-gone
		},
		"by a fork of the run that called": func(_ context.Context, run *agent.Run) { must(run.Fork()).Close(); run.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			run, done := build(t, closes)
			ended := make(chan error, 1)
			go func() { _, err := run.Call(context.Background(), "work", nil); ended <- err }()
			select {
			case err := <-ended:
				if err != nil || !done.Load() {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("it waits for itself")
			}
			if _, err := run.Call(t.Context(), "work", nil); !errors.Is(err, agent.ErrClosed) {
				t.Error(err)
			}
		})
	}
}

func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
}
