package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// losing is a store that an agent cannot write to while it is lost.
type losing struct {
	*memory.Store
	lost, lostOutcome atomic.Bool
}

var errLost = errors.New("the server is gone")

func (s *losing) Put(ctx context.Context, d memory.Draft) (memory.Receipt, error) {
	if s.lost.Load() {
		return memory.Receipt{}, errLost
	}
	return s.Store.Put(ctx, d)
}

func (s *losing) RecordOutcome(ctx context.Context, decision string, outcome memory.CallOutcome, note string, answer ...memory.ID) error {
	if s.lost.Load() || s.lostOutcome.Load() {
		return errLost
	}
	return s.Store.RecordOutcome(ctx, decision, outcome, note, answer...)
}

// doubtful is an agent over a store that its tools may lose.
func doubtful(t *testing.T, w *world, tools ...agent.Tool) (*losing, *agent.Agent) {
	t.Helper()
	s := &losing{Store: w.store}
	a, err := agent.New("billing", agent.Model{ID: "sonnet-4.6", Family: "claude"}, s, w.gate, append(w.tools(), tools...), &agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// TestAToolThatRanIsNeverCalledFailed: the store is lost while the tool runs. The model is
// told that the call was done or may have been, and the same call is held at once.
func TestAToolThatRanIsNeverCalledFailed(t *testing.T) {
	for name, c := range map[string]struct {
		effect      agent.Option
		gives       error
		onlyOutcome bool
		begins      string
		says        string
		holds       bool
	}{
		"it can be put back":            {agent.StateChanging(), nil, false, "DONE: ", "Do not call it again", true},
		"it cannot be undone":           {agent.Irreversible(), nil, false, "DONE: ", "Do not call it again", true},
		"only its outcome is lost":      {agent.StateChanging(), nil, true, "DONE: ", "It answered: reminded 7", true},
		"and its answer is long":        {func(t *agent.Tool) { agent.StateChanging()(t); agent.AnswerLimit(8)(t) }, nil, true, "DONE: ", "It answered: reminded\nNote of the system: the answer is longer than the 8 bytes that are shown. Its last 2 bytes are left out.\n", true},
		"it gave an error":              {agent.StateChanging(), errors.New("no such thing"), false, "MAY HAVE BEEN DONE: ", "no such thing", true},
		"it was cut off":                {agent.StateChanging(), context.DeadlineExceeded, false, "MAY HAVE BEEN DONE: ", "Do not call it again", true},
		"it asked another run in doubt": {agent.StateChanging(), agent.ErrUnrecorded, false, "MAY HAVE BEEN DONE: ", "Do not call it again", true},
		"it changes nothing":            {agent.ReadOnly(), nil, false, "NOT SHOWN: ", "you may call it again", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var store *losing
				store, a := doubtful(t, w, agent.Func("remind", "reminds", func(context.Context, searchIn) (string, error) {
					w.fire("remind")
					store.lost.Store(!c.onlyOutcome)
					store.lostOutcome.Store(true)
					return "reminded 7", c.gives
				}, c.effect))
				run := a.Start("ana")
				typed(t, run, "remind 7")
				res, err := run.Call(t.Context(), "remind", args(searchIn{"7"}))
				text := agent.ToolText(res, err)
				if !errors.Is(err, agent.ErrUnrecorded) || !errors.Is(err, agent.ErrTool) || !errors.Is(err, errLost) || c.gives != nil && !errors.Is(err, c.gives) {
					t.Errorf("%v", err)
				}
				if !strings.HasPrefix(text, c.begins) || !strings.Contains(text, c.says) || strings.Contains(strings.ToLower(text+err.Error()), "fail") {
					t.Errorf("%s\n%v", text, err)
				}
				store.lost.Store(false)
				store.lostOutcome.Store(false)
				start := time.Now()
				_, err = run.Call(t.Context(), "remind", args(searchIn{"7"}))
				if errors.Is(err, gate.ErrOutcomeUnknown) != c.holds || errors.Is(err, gate.ErrDenied) != c.holds || time.Since(start) > 0 {
					t.Errorf("the same call again, after %s: %v", time.Since(start), err)
				}
				if n := w.ran("remind"); n != 1 && c.holds || n != 2 && !c.holds {
					t.Errorf("it ran %d times", n)
				}
			})
		})
	}
}

// TestACallWithoutAnAnswerMayHaveBeenDone: the outcome is recorded, as unknown.
func TestACallWithoutAnAnswerMayHaveBeenDone(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, agent.Func("remind", "reminds", func(context.Context, searchIn) (string, error) {
		w.fire("remind")
		return "", fmt.Errorf("the connection broke: %w", agent.ErrNoAnswer)
	}, agent.StateChanging(), agent.FiresWhenFree())).Start("ana")
	res, err := run.Call(t.Context(), "remind", args(searchIn{"7"}))
	if text := agent.ToolText(res, err); !errors.Is(err, agent.ErrNoAnswer) || !errors.Is(err, agent.ErrTool) || errors.Is(err, agent.ErrUnrecorded) ||
		!strings.HasPrefix(text, "MAY HAVE BEEN DONE: ") || !strings.Contains(text, "the connection broke") || strings.Contains(text, "fail") {
		t.Errorf("%v\n%s", err, text)
	}
	denied := mustBlock(t, run, "remind", searchIn{"7"}, gate.ErrOutcomeUnknown)
	if denied.Decision.Parked || len(run.Parked()) != 0 {
		t.Error("what may have been done waits to be made by itself")
	}
	if text := denied.ToolText(); !strings.Contains(text, "nobody knows whether it went through") || !strings.Contains(text, "Do not call it again") {
		t.Errorf("%s", text)
	}
	mustBlock(t, run, "remind", searchIn{"8"}, gate.ErrUnverified) // over the error that was read
	if _, err := run.Call(t.Context(), "remind", args(searchIn{"8"})); errors.Is(err, gate.ErrOutcomeUnknown) || w.ran("remind") != 1 {
		t.Errorf("another call is held with it: %v", err)
	}
	if other := w.agent(t, w.counting("remind")).Start("ana"); mustFire(t, other, "remind", searchIn{"7"}).Decision.ID == "" {
		t.Error("the call of another run is held")
	}

	t.Run("a person who says that it was done has the same call refused in her words", func(t *testing.T) {
		w.settle(t, res.Decision.ID, true)
		again := mustBlock(t, run, "remind", searchIn{"7"}, gate.ErrApprovalRejected)
		if text := again.ToolText(); !strings.Contains(text, "it was done already: it is in the list") {
			t.Errorf("%s", text)
		}
	})
	t.Run("a person who says that it was not done has the same call made again", func(t *testing.T) {
		w.pass(memory.UnknownAfter)
		s, a := doubtful(t, w, w.counting("remind"))
		run := a.Start("ana")
		s.lostOutcome.Store(true)
		res, err := run.Call(t.Context(), "remind", args(searchIn{"9"}))
		if !errors.Is(err, agent.ErrUnrecorded) {
			t.Fatal(err)
		}
		s.lostOutcome.Store(false)
		held := mustBlock(t, run, "remind", searchIn{"9"}, gate.ErrOutcomeUnknown)
		if err := w.store.Settle(t.Context(), memory.Settlement{Decision: res.Decision.ID, Actor: "cleo", Reason: "nothing there"}); !errors.Is(err, memory.ErrHold) {
			t.Errorf("it is said not to be done while it may be at work: %v", err)
		}
		w.pass(memory.UnknownAfter)
		w.settle(t, res.Decision.ID, false)
		if r, err := run.Wait(t.Context(), held.Decision.HoldID); err != nil || r.How != gate.HowSettled || !r.May() {
			t.Errorf("%+v, %v", r, err)
		}
		mustFire(t, run, "remind", searchIn{"9"})
	})
}

// counting is a tool that can be put back, and only counts.
func (w *world) counting(name string, o ...agent.Option) agent.Tool {
	return agent.Func(name, "counts", func(context.Context, searchIn) (nothing, error) {
		w.fire(name)
		return nothing{}, nil
	}, append([]agent.Option{agent.StateChanging()}, o...)...)
}

func (w *world) settle(t *testing.T, decision string, done bool) {
	t.Helper()
	if err := w.store.Settle(t.Context(), memory.Settlement{Decision: decision, Done: done, Actor: "cleo", Reason: "it is in the list"}); err != nil {
		t.Fatal(err)
	}
}

// TestACallInsideTheVerySameCallIsDenied: it would wait for itself, or go on for ever.
func TestACallInsideTheVerySameCallIsDenied(t *testing.T) {
	for name, inner := range map[string]func(*world, *agent.Agent, *agent.Run) func(context.Context, string) error{
		"by the run itself": func(_ *world, _ *agent.Agent, run *agent.Run) func(context.Context, string) error {
			return func(ctx context.Context, words string) error {
				_, err := run.Call(ctx, "book", args(searchIn{words}))
				return err
			}
		},
		"by another run of the agent": func(_ *world, a *agent.Agent, _ *agent.Run) func(context.Context, string) error {
			return func(ctx context.Context, words string) error {
				_, err := a.Start("ana").Call(ctx, "book", args(searchIn{words}))
				return err
			}
		},
		"by a delegate": func(w *world, a *agent.Agent, _ *agent.Run) func(context.Context, string) error {
			ask := agent.Delegate("ask", "asks", a, func(ctx context.Context, run *agent.Run, in searchIn) (string, error) {
				_, err := run.Call(ctx, "book", args(in))
				return "", err
			}, agent.ReadOnly())
			run := must(agent.New("middle", agent.Model{ID: "m", Family: "f"}, w.store, w.gate, []agent.Tool{ask}, nil)).Start("ana")
			return func(ctx context.Context, words string) error {
				_, err := run.Call(ctx, "ask", args(searchIn{words}))
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var call func(context.Context, string) error
			var same, other error
			a := w.agent(t, agent.Func("book", "books", func(ctx context.Context, in searchIn) (nothing, error) {
				w.fire("book")
				if in.Words == "Blue" {
					other, same = call(ctx, "Red"), call(ctx, "Blue")
				}
				return nothing{}, nil
			}, agent.StateChanging()))
			run := a.Start("ana")
			call = inner(w, a, run)
			done := make(chan struct{})
			go func() {
				defer close(done)
				mustFire(t, run, "book", searchIn{"Blue"})
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it waits for itself")
			}
			if !errors.Is(same, gate.ErrNestedCall) || errors.Is(same, gate.ErrHeld) || other != nil || w.ran("book") != 2 {
				t.Errorf("the same call: %v; another one: %v; ran %d times", same, other, w.ran("book"))
			}
		})
	}
}

// TestADelegateTellsThatItsCallMayHaveBeenDone: what it asked for ran, and it passes the error on.
func TestADelegateTellsThatItsCallMayHaveBeenDone(t *testing.T) {
	for _, effect := range []gate.Effect{gate.ReadOnly, gate.StateChanging} {
		w := newWorld(t)
		s, to := doubtful(t, w, w.counting("remind"))
		s.lostOutcome.Store(true)
		ask := agent.Delegate("ask", "asks", to, func(ctx context.Context, run *agent.Run, in searchIn) (string, error) {
			_, err := run.Call(ctx, "remind", args(in))
			return "", err
		}, agent.Effect(effect))
		run := w.agentWith(t, "desk", w.gate, []agent.Tool{ask}, nil).Start("ana")
		res, err := run.Call(t.Context(), "ask", args(searchIn{"7"}))
		text := agent.ToolText(res, err)
		if !errors.Is(err, agent.ErrUnrecorded) || !errors.Is(err, agent.ErrNoAnswer) || strings.HasPrefix(text, "FAILED") || !strings.Contains(text, "remind ran") || !strings.Contains(text, "Do not call it again") {
			t.Errorf("%s: %v\n%s", effect, err, text)
		}
		if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || d.Outcome != memory.CallUnknown {
			t.Errorf("%s: %q, %v", effect, d.Outcome, err)
		}
		if _, err := run.Call(t.Context(), "ask", args(searchIn{"7"})); effect == gate.StateChanging && !errors.Is(err, gate.ErrOutcomeUnknown) {
			t.Errorf("the delegate is asked again: %v", err)
		}
	}
}

// TestDeclaredArgumentsSayWhichCallItIs: another wording of the same order is the same call.
func TestDeclaredArgumentsSayWhichCallItIs(t *testing.T) {
	w := newWorld(t)
	type refundIn struct {
		Order string `json:"order"`
		Note  string `json:"note"`
	}
	s, a := doubtful(t, w, agent.Func("refund", "refunds", func(context.Context, refundIn) (nothing, error) {
		w.fire("refund")
		return nothing{}, nil
	}, agent.StateChanging(), agent.SameBy("/order")))
	run := a.Start("ana")
	s.lostOutcome.Store(true)
	if _, err := run.Call(t.Context(), "refund", args(refundIn{"7", "late"})); !errors.Is(err, agent.ErrUnrecorded) {
		t.Fatal(err)
	}
	s.lostOutcome.Store(false)
	mustBlock(t, run, "refund", refundIn{"7", "sorry"}, gate.ErrOutcomeUnknown)
	mustFire(t, run, "refund", refundIn{"8", "late"})
	mustFire(t, run, "refund", refundIn{"8", "late"}) // it is known how that ended
	if w.ran("refund") != 3 {
		t.Errorf("it ran %d times", w.ran("refund"))
	}
	var wrong *agent.DeclarationError
	for field, o := range map[string]agent.Option{"same_by": agent.SameBy("/nope"), "shown_by": agent.ShownBy("order.state", "/nope")} {
		_, err := agent.New("b", agent.Model{ID: "m", Family: "f"}, w.store, w.gate, []agent.Tool{agent.Func("refund", "", func(context.Context, refundIn) (string, error) { return "", nil }, agent.StateChanging(), o)}, nil)
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestTheSourceSaysHowACallEnded: its declared system of record is read after it.
func TestTheSourceSaysHowACallEnded(t *testing.T) {
	type stateOut struct {
		State string `json:"state"`
	}
	for name, c := range map[string]struct {
		reads func(*testing.T, *world, *agent.Run)
		rule  gate.Rule
		free  bool
	}{
		"nobody has read it":        {func(*testing.T, *world, *agent.Run) {}, gate.Rule{}, false},
		"the run reads it":          {func(t *testing.T, _ *world, run *agent.Run) { mustFire(t, run, "state", searchIn{"7"}) }, gate.Rule{}, true},
		"the run reads another one": {func(t *testing.T, _ *world, run *agent.Run) { mustFire(t, run, "state", searchIn{"8"}) }, gate.Rule{}, false},
		"another run reads it": {func(t *testing.T, _ *world, run *agent.Run) {
			mustFire(t, run.Agent().Start("ana"), "state", searchIn{"7"})
		}, gate.Rule{}, false},
		"the policy does not believe":          {func(t *testing.T, _ *world, run *agent.Run) { mustFire(t, run, "state", searchIn{"7"}) }, gate.Rule{PlainOutput: true}, false},
		"the run recalls what was read before": {func(t *testing.T, _ *world, run *agent.Run) { read(t, run, "7", "order.state") }, gate.Rule{}, false},
	} {
		for _, effect := range []gate.Effect{gate.StateChanging, gate.Irreversible} {
			t.Run(name+", "+effect.String(), func(t *testing.T) {
				w := newWorld(t)
				g, err := gate.New(w.store, gate.Policy{Name: "p", Version: "1", Declared: true, Tools: map[string]gate.Rule{"pack": c.rule}}, &gate.Options{Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				s := &losing{Store: w.store}
				a := must(agent.New("a", agent.Model{ID: "m", Family: "f"}, s, g, []agent.Tool{
					w.counting("pack", agent.Effect(effect), agent.ShownBy("order.state", "/words")),
					agent.Func("state", "reads", func(context.Context, searchIn) (stateOut, error) { return stateOut{"open"}, nil }, agent.ReadOnly(), agent.Authoritative("/state", "order.state", "/words")),
				}, &agent.Options{Recall: recall.Policy{Channels: recall.All}}))
				run := a.Start("ana")
				typed(t, run, "pack 7")
				mustFire(t, run, "state", searchIn{"7"}) // before it: that shows nothing
				s.lostOutcome.Store(true)
				if _, err := run.Call(t.Context(), "pack", args(searchIn{"7"})); !errors.Is(err, agent.ErrUnrecorded) {
					t.Fatal(err)
				}
				s.lostOutcome.Store(false)
				c.reads(t, w, run)
				if !c.free || effect == gate.Irreversible { // which value says that it was done nobody has declared
					mustBlock(t, run, "pack", searchIn{"7"}, gate.ErrOutcomeUnknown)
					return
				}
				d := mustFire(t, run, "pack", searchIn{"7"}).Decision
				if !d.Has(gate.OutcomeUnknown) || w.ran("pack") != 2 {
					t.Errorf("the permit does not say so: %+v", d.Reasons)
				}
			})
		}
	}
}

// TestAReadingThatBeganBeforeSaysNothingOfHowACallEnded: it may be older than the call.
func TestAReadingThatBeganBeforeSaysNothingOfHowACallEnded(t *testing.T) {
	type stateOut struct {
		State string `json:"state"`
	}
	w := newWorld(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	s, a := doubtful(t, w, w.counting("pack", agent.ShownBy("order.state", "/words")),
		agent.Func("state", "reads", func(context.Context, searchIn) (stateOut, error) {
			close(asked)
			<-answer
			return stateOut{"open"}, nil
		}, agent.ReadOnly(), agent.Authoritative("/state", "order.state", "/words")))
	run := a.Start("ana")
	read := make(chan error, 1)
	go func() {
		_, err := run.Call(context.Background(), "state", args(searchIn{"7"}))
		read <- err
	}()
	<-asked
	s.lostOutcome.Store(true)
	if _, err := run.Call(t.Context(), "pack", args(searchIn{"7"})); !errors.Is(err, agent.ErrUnrecorded) {
		t.Fatal(err)
	}
	s.lostOutcome.Store(false)
	close(answer)
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	mustBlock(t, run, "pack", searchIn{"7"}, gate.ErrOutcomeUnknown)
}

// TestTheEndOfARunIsRecordedIfSomebodyCouldWaitForIt: no other run costs a write.
func TestTheEndOfARunIsRecordedIfSomebodyCouldWaitForIt(t *testing.T) {
	for name, c := range map[string]struct {
		use  func(*testing.T, *world, *agent.Run) *agent.Run
		ends bool
	}{
		"a run without a held call": {func(t *testing.T, _ *world, run *agent.Run) *agent.Run {
			mustFire(t, run, "search", searchIn{"x"})
			return run
		}, false},
		"a run with a held call": {func(t *testing.T, _ *world, run *agent.Run) *agent.Run {
			mustBlock(t, run, "send_email", mailIn{To: "x@y.example"}, gate.ErrFromNowhere)
			return run
		}, true},
		"a fork with a held call": {func(t *testing.T, _ *world, run *agent.Run) *agent.Run {
			fork := must(run.Fork())
			mustBlock(t, fork, "send_email", mailIn{To: "x@y.example"}, gate.ErrFromNowhere)
			return fork
		}, true},
		"a run that goes on elsewhere": {func(t *testing.T, _ *world, run *agent.Run) *agent.Run {
			mustBlock(t, run, "send_email", mailIn{To: "x@y.example"}, gate.ErrFromNowhere)
			if _, err := run.Save(t.Context(), []byte("history")); err != nil {
				t.Fatal(err)
			}
			return run
		}, false},
	} {
		for how, closes := range map[string]func(*agent.Run){"Close": func(r *agent.Run) { r.Close(); r.Close() }, "CloseContext": func(r *agent.Run) { _ = r.CloseContext(context.Background()) }} {
			t.Run(name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				tokens := must(agent.NewTokens(w.store, agent.TokenOptions{Audience: "a", KeyID: "a", Key: key("a"), Trusted: trust}))
				run := w.agentWith(t, "a", w.gate, w.tools(), &agent.Options{Tokens: tokens}).Start("ana")
				of := c.use(t, w, run)
				closes(run)
				if ended, err := w.store.RunEnded(t.Context(), of.ID()); err != nil || ended != c.ends {
					t.Errorf("%t, %v", ended, err)
				}
			})
		}
	}
}
