package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// booking is a tool that may be made by itself later.
func (w *world) booking() agent.Tool {
	return agent.Func("book", "books a room", func(_ context.Context, in searchIn) (string, error) {
		w.fire("book")
		return "booked " + in.Words, nil
	}, agent.StateChanging(), agent.FiresWhenFree())
}

// promote moves a row to verified, as a worker does.
func (w *world) promote(t testing.TB, id memory.ID) {
	t.Helper()
	w.probed(t, id, memory.TruthSupported, memory.RelationSupports)
}

// probed moves a row, as a worker does that has asked the system of record.
func (w *world) probed(t testing.TB, id memory.ID, to memory.Truth, as memory.Relation) {
	t.Helper()
	if _, err := w.store.Apply(t.Context(), memory.Transition{Row: id, Revision: w.row(t, id).Revision, To: to, Authority: memory.AuthorityProbe, Actor: "worker",
		Source: "crm", Reason: "it says so", Evidence: []memory.Evidence{{Relation: as, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm",
			Anchor: memory.Anchor{URI: "crm://1"}, At: w.store.Now()}}}); err != nil {
		t.Fatal(err)
	}
}

// waiting is a run that has read a pending row and parked a call that rests on it.
func waiting(t testing.TB) (*world, *agent.Run, memory.ID, *gate.DeniedError) {
	w := newWorld(t)
	row := w.pending(t, fact("acme", "room", "Blue"))
	run := w.agent(t, w.booking()).Start("ana")
	typed(t, run, "book the room")
	read(t, run, "acme", "room")
	_, err := run.CallWithID(t.Context(), "call_7", "book", args(searchIn{"Blue"}))
	var denied *gate.DeniedError
	if !errors.As(err, &denied) || !denied.Decision.Parked || w.ran("book") != 0 {
		t.Fatalf("%v", err)
	}
	return w, run, row, denied
}

func TestAParkedCallIsMadeOnceItsRowsAreVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run, row, denied := waiting(t)
		if !strings.Contains(denied.ToolText(), "made by itself once the statement is verified") || !denied.Decision.ExpiresAt.Equal(denied.Decision.At.Add(gate.DefaultParkFor)) {
			t.Errorf("%s\n%s", denied.Decision.ExpiresAt, denied.ToolText())
		}
		results := make(chan agent.Resumed, 3)
		var group sync.WaitGroup
		for range 3 { // whoever asks, it is made once
			group.Go(func() {
				r, err := run.Resume(t.Context())
				if err == nil {
					results <- r
				} else if !errors.Is(err, agent.ErrNothingParked) {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute) // of the bubble: nobody decides in it
		if w.ran("book") != 0 {
			t.Fatal("it was made on a row that nobody verified")
		}
		w.promote(t, row)
		group.Wait()
		r := <-results
		if w.ran("book") != 1 || len(results) != 0 || r.Err != nil || r.CallID != "call_7" || string(r.Args) != string(args(searchIn{"Blue"})) || r.Hold != denied.Decision.HoldID || r.Text() != "booked Blue" || len(r.Result.Rows) == 0 {
			t.Errorf("%d times: %+v", w.ran("book"), r)
		}
		if h, err := w.store.Hold(t.Context(), r.Hold); err != nil || h.State != memory.HoldDone {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

func TestAParkedCallIsNotMade(t *testing.T) {
	for name, c := range map[string]struct {
		then func(*testing.T, *world, *agent.Run, memory.ID, string)
		want error
	}{
		"after its time, although its row is verified then": {func(t *testing.T, w *world, _ *agent.Run, row memory.ID, _ string) {
			w.pass(gate.DefaultParkFor)
			w.promote(t, row)
		}, gate.ErrHoldEnded},
		"after the run was closed": {func(t *testing.T, w *world, run *agent.Run, row memory.ID, _ string) {
			run.Close()
			run.Close()
			w.promote(t, row)
		}, agent.ErrClosed},
		"after a person refused it": {func(t *testing.T, w *world, _ *agent.Run, row memory.ID, hold string) {
			if _, err := w.store.MoveHold(t.Context(), memory.HoldMove{Hold: hold, To: memory.HoldRejected, Actor: "ana", Reason: "wrong room"}); err != nil {
				t.Fatal(err)
			}
			w.promote(t, row)
		}, gate.ErrApprovalRejected},
		"after an identical call was made by hand": {func(t *testing.T, w *world, run *agent.Run, row memory.ID, _ string) {
			w.promote(t, row)
			mustFire(t, run, "book", searchIn{"Blue"})
		}, gate.ErrHoldEnded},
	} {
		t.Run(name, func(t *testing.T) {
			w, run, row, denied := waiting(t)
			c.then(t, w, run, row, denied.Decision.HoldID)
			before := w.ran("book")
			r, err := run.Resume(t.Context())
			if err == nil {
				err = r.Err
			}
			if !errors.Is(err, c.want) || w.ran("book") != before {
				t.Errorf("%v; it was made %d times", err, w.ran("book")-before)
			}
			if len(run.Parked()) != 0 {
				t.Error("it is parked yet")
			}
		})
	}
	t.Run("once its row is contradicted, and it waits no longer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, run, row, denied := waiting(t)
			asked := time.Now()
			time.AfterFunc(time.Minute, func() { w.probed(t, row, memory.TruthContradicted, memory.RelationContradicts) })
			r, err := run.Resume(t.Context())
			if err != nil || !errors.Is(r.Err, gate.ErrContradicted) || r.Hold != denied.Decision.HoldID || w.ran("book") != 0 || len(run.Parked()) != 0 {
				t.Errorf("%+v, %v", r, err)
			}
			if waited := time.Since(asked); waited > 2*time.Minute { // of the bubble
				t.Errorf("it waited for %s", waited)
			}
			if h, err := w.store.Hold(t.Context(), denied.Decision.HoldID); err != nil || h.State != memory.HoldStale || !strings.HasPrefix(h.Why, "its parked call was denied by "+r.Result.Decision.ID) || !strings.HasSuffix(h.Why, ": contradicted_input") {
				t.Errorf("its hold is %+v, %v", h, err)
			}
			if d := mustBlock(t, run, "book", searchIn{"Blue"}, gate.ErrContradicted); d.Decision.Outcome != gate.Deny || d.Decision.HoldID != "" {
				t.Errorf("asked anew it is %+v", d.Decision)
			}
		})
	})
	t.Run("when it looks denied by what was known, and then it waits on and is asked for once a minute", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			row := w.pending(t, fact("acme", "room", "Blue"))
			asked := 0
			run := w.agentWith(t, "support", deciderFunc(func(ctx context.Context, r gate.Request) gate.Decision {
				if r.Resumes != "" {
					asked++
					return gate.Decision{Outcome: gate.Hold, HoldID: r.Resumes, Parked: true, Reasons: []gate.Reason{{Code: gate.UnverifiedInput, Outcome: gate.Hold}}}
				}
				return w.gate.Decide(ctx, r)
			}), []agent.Tool{w.booking()}, &agent.Options{Recall: recall.Policy{Channels: recall.All}}).Start("ana")
			typed(t, run, "book the room")
			read(t, run, "acme", "room")
			mustBlock(t, run, "book", searchIn{"Blue"}, gate.ErrUnverified)
			w.probed(t, row, memory.TruthContradicted, memory.RelationContradicts)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if r, err := run.Resume(ctx); !errors.Is(err, context.DeadlineExceeded) || asked < 2 || asked > 5 || len(run.Parked()) != 1 {
				t.Errorf("%+v, %v, asked %d times", r, err, asked)
			}
		})
	})
	t.Run("when whoever waits goes while it is decided, and then it waits on", func(t *testing.T) {
		w := newWorld(t)
		row := w.pending(t, fact("acme", "room", "Blue"))
		gone, cancel := context.WithCancel(t.Context())
		run := w.agentWith(t, "support", deciderFunc(func(ctx context.Context, r gate.Request) gate.Decision {
			if r.Resumes != "" {
				cancel()
			}
			return w.gate.Decide(ctx, r)
		}), []agent.Tool{w.booking()}, &agent.Options{Recall: recall.Policy{Channels: recall.All}}).Start("ana")
		typed(t, run, "book the room")
		read(t, run, "acme", "room")
		denied := mustBlock(t, run, "book", searchIn{"Blue"}, gate.ErrUnverified)
		w.promote(t, row)
		if r, err := run.Resume(gone); !errors.Is(err, context.Canceled) || len(run.Parked()) != 1 {
			t.Fatalf("%+v, %v, %d calls wait", r, err, len(run.Parked()))
		}
		if r, err := run.Resume(t.Context()); err != nil || r.Err != nil || r.Hold != denied.Decision.HoldID || w.ran("book") != 1 {
			t.Errorf("%+v, %v, made %d times", r, err, w.ran("book"))
		}
	})
	t.Run("while another of its rows is pending, and it waits no longer for that", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, run, row, denied := waiting(t)
			more := w.pending(t, fact("acme", "day", "Monday"))
			read(t, run, "acme", "day")
			w.pass(5 * time.Minute)
			w.promote(t, row)
			done := make(chan agent.Resumed)
			go func() {
				r, err := run.Resume(t.Context())
				if err != nil {
					t.Error(err)
				}
				done <- r
			}()
			time.Sleep(time.Minute)
			if w.ran("book") != 0 || len(run.Parked()) != 1 || run.Parked()[0] == denied.Decision.HoldID {
				t.Fatalf("made %d times; parked %v", w.ran("book"), run.Parked())
			}
			h, err := w.store.Hold(t.Context(), run.Parked()[0])
			if err != nil || !h.ExpiresAt.Equal(denied.Decision.ExpiresAt) {
				t.Errorf("%+v, %v", h, err)
			}
			w.promote(t, more)
			if r := <-done; r.Err != nil || w.ran("book") != 1 {
				t.Errorf("%+v", r)
			}
		})
	})
	t.Run("by an agent that calls it irreversible, or does not say", func(t *testing.T) {
		w := newWorld(t)
		noop := func(context.Context, searchIn) (string, error) { return "", nil }
		for _, o := range [][]agent.Option{{agent.Irreversible()}, nil, {agent.StateChanging(), agent.AtLeast(gate.Irreversible)}} {
			_, err := agent.New("a", agent.Model{ID: "m", Family: "f"}, w.store, w.gate, []agent.Tool{agent.Func("t", "", noop, append(o, agent.FiresWhenFree())...)}, nil)
			if err == nil || !strings.Contains(err.Error(), "never fires by itself") {
				t.Errorf("%v", err)
			}
		}
	})
	t.Run("under a policy that calls it irreversible", func(t *testing.T) {
		w := newWorld(t)
		grave := gate.Irreversible
		g, err := gate.New(w.store, gate.Policy{Name: "p", Tools: map[string]gate.Rule{"book": {Effect: &grave}}}, &gate.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		w.pending(t, fact("acme", "room", "Blue"))
		run := w.agentWith(t, "a", g, []agent.Tool{w.booking()}, &agent.Options{Recall: recall.Policy{Channels: recall.All}}).Start("ana")
		typed(t, run, "Blue")
		read(t, run, "acme", "room")
		if denied := mustBlock(t, run, "book", searchIn{"Blue"}, gate.ErrUnverified); denied.Decision.Parked {
			t.Error("it is parked")
		}
		if _, err := run.Resume(t.Context()); !errors.Is(err, agent.ErrNothingParked) {
			t.Error(err)
		}
	})
}

// TestAParkedCallThatAToolMakesFeedsTheToolsRun: what it gave is told by the tool.
func TestAParkedCallThatAToolMakesFeedsTheToolsRun(t *testing.T) {
	w, waits, row, _ := waiting(t)
	w.promote(t, row)
	run := w.agentWith(t, "other", w.gate, append(w.tools(), agent.Func("ask", "", func(ctx context.Context, _ searchIn) (string, error) {
		r, err := waits.Resume(ctx)
		return r.Text(), err
	}, agent.ReadOnly())), nil).Start("ana")
	mustFire(t, run, "ask", searchIn{"x"})
	if l := run.Lineage(); !slices.Contains(l.Direct(), row) {
		t.Errorf("the run rests on %v", l.Direct())
	}
}

func TestWaitTellsWhenACallMayBeTriedAgain(t *testing.T) {
	w, run, row, denied := waiting(t)
	w.promote(t, row)
	r, err := run.Wait(t.Context(), denied.Decision.HoldID)
	if err != nil || r.How != gate.HowPromoted || !r.May() {
		t.Errorf("%+v, %v", r, err)
	}
	mustFire(t, run, "book", searchIn{"Blue"})
}

// TestACallThatWasCutOffIsNotMadeAgain: a tool that cannot be undone ran out of
// time, so nobody knows what it did.
func TestACallThatWasCutOffIsNotMadeAgain(t *testing.T) {
	w := newWorld(t)
	called := make(chan struct{})
	a := w.agent(t, agent.Func("pay", "pays", func(ctx context.Context, _ searchIn) (string, error) {
		w.fire("pay")
		close(called)
		<-ctx.Done()
		return "", ctx.Err()
	}, agent.Irreversible()))
	run := a.Start("ana")
	typed(t, run, "pay Acme")
	ctx, cancel := context.WithCancel(t.Context())
	a2 := args(searchIn{"Acme"})
	go func() {
		<-called
		cancel()
	}()
	if _, err := run.Call(ctx, "pay", a2); !errors.Is(err, agent.ErrTool) || !errors.Is(err, agent.ErrNoAnswer) || !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	_, err := run.Call(t.Context(), "pay", a2)
	if !errors.Is(err, gate.ErrOutcomeUnknown) || w.ran("pay") != 1 {
		t.Errorf("made %d times, then %v", w.ran("pay"), err)
	}
}

// TestAResumedCallSaysNoMoreThanTheModelKnew: a handle in its arguments stays one.
func TestAResumedCallSaysNoMoreThanTheModelKnew(t *testing.T) {
	w := newWorld(t)
	row := w.pending(t, fact("acme", "room", "Blue"))
	run := w.agent(t, w.booking()).Start("ana")
	typed(t, run, "book the room")
	token := handles(t, run, "acme", "room")[0].Token()
	mustBlock(t, run, "book", searchIn{token}, gate.ErrUnverified)
	w.promote(t, row)
	r, err := run.Resume(t.Context())
	if err != nil || r.Err != nil || w.ran("book") != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if string(r.Args) != string(args(searchIn{token})) {
		t.Errorf("made with %s", r.Args)
	}
}

// TestClosingARunClosesItsForks: what a fork has parked is not made after its parent
// was closed, and it makes no call.
func TestClosingARunClosesItsForks(t *testing.T) {
	w := newWorld(t)
	row := w.pending(t, fact("acme", "room", "Blue"))
	run := w.agent(t, w.booking()).Start("ana")
	typed(t, run, "book the room")
	fork, err := run.Fork()
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := fork.Fork()
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*agent.Run{"a fork": fork, "a fork of a fork": deeper} {
		read(t, r, "acme", "room")
		if denied := mustBlock(t, r, "book", searchIn{name}, gate.ErrUnverified); !denied.Decision.Parked {
			t.Fatalf("%s parks nothing", name)
		}
	}
	run.Close()
	w.promote(t, row)
	for name, r := range map[string]*agent.Run{"a fork": fork, "a fork of a fork": deeper} {
		if got, err := r.Resume(t.Context()); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("%s goes on: %+v, %v", name, got, err)
		}
		if _, err := r.Call(t.Context(), "book", args(searchIn{"Red"})); !errors.Is(err, agent.ErrClosed) {
			t.Errorf("%s makes a call: %v", name, err)
		}
		if len(r.Parked()) != 0 {
			t.Errorf("%s has parked %v", name, r.Parked())
		}
	}
	if w.ran("book") != 0 {
		t.Error("it was made")
	}
}

func TestClosingAForkLeavesItsParentOpen(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, w.booking()).Start("ana")
	fork, err := run.Fork()
	if err != nil {
		t.Fatal(err)
	}
	fork.Close()
	mustFire(t, run, "book", searchIn{"Blue"})
}

// TestOneParkedCallIsResumedOrTakenBackByItsHold, the others stay.
func TestOneParkedCallIsResumedOrTakenBackByItsHold(t *testing.T) {
	w := newWorld(t)
	row := w.pending(t, fact("acme", "room", "Blue"))
	run := w.agent(t, w.booking()).Start("ana")
	typed(t, run, "book the rooms")
	read(t, run, "acme", "room")
	hold := map[string]string{}
	for _, room := range []string{"Blue", "Red", "Green"} {
		hold[room] = mustBlock(t, run, "book", searchIn{room}, gate.ErrUnverified).Decision.HoldID
	}
	if !run.Unpark(hold["Green"]) || run.Unpark(hold["Green"]) || run.Unpark("blk_none") {
		t.Error("taken back otherwise than once")
	}
	w.promote(t, row)
	if _, err := run.ResumeCall(t.Context(), hold["Green"]); !errors.Is(err, agent.ErrNothingParked) {
		t.Errorf("what was taken back: %v", err)
	}
	if r, err := run.ResumeCall(t.Context(), hold["Red"]); err != nil || r.Err != nil || r.Text() != "booked Red" || w.ran("book") != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if left := run.Parked(); !slices.Equal(left, []string{hold["Blue"]}) {
		t.Errorf("left %v of %v", left, hold)
	}
}

// TestACallThatWaitsForAnotherRowIsFoundByItsFirstHold: it is one call to who waits for it.
func TestACallThatWaitsForAnotherRowIsFoundByItsFirstHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run, row, denied := waiting(t)
		more := w.pending(t, fact("acme", "day", "Monday"))
		read(t, run, "acme", "day")
		w.promote(t, row)
		done := make(chan agent.Resumed)
		go func() {
			r, err := run.ResumeCall(t.Context(), denied.Decision.HoldID)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		time.Sleep(time.Minute)
		w.promote(t, more)
		if r := <-done; r.Err != nil || w.ran("book") != 1 || r.Hold == denied.Decision.HoldID {
			t.Errorf("%+v", r)
		}
	})
}

// cancelling is a gate during whose decision the caller goes away.
type cancelling struct {
	agent.Decider
	cancel context.CancelFunc
}

func (c cancelling) Decide(ctx context.Context, r gate.Request) gate.Decision {
	defer c.cancel()
	return c.Decider.Decide(ctx, r)
}

// TestACallerWhoHasGoneGetsNoFire: the permit was consumed before the tool could be
// called, and its record says that it was not.
func TestACallerWhoHasGoneGetsNoFire(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	run := w.agentWith(t, "a", cancelling{w.gate, cancel}, []agent.Tool{w.booking()}, nil).Start("ana")
	res, err := run.Call(ctx, "book", args(searchIn{"Blue"}))
	if !errors.Is(err, context.Canceled) || errors.Is(err, agent.ErrTool) || w.ran("book") != 0 || !strings.HasPrefix(agent.ToolText(res, err), "NOT EXECUTED: ") {
		t.Errorf("called %d times: %v", w.ran("book"), err)
	}
	if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || !d.Fired {
		t.Errorf("%+v, %v", d, err)
	}
	if open, err := w.store.OpenCalls(t.Context(), res.Decision.ID); err != nil || len(open) != 0 {
		t.Errorf("open: %v, %v", open, err)
	}
}

// TestAnIdenticalCallLosesNothingOfAParkedOne: it waits on in another hold, the same
// call is made again, and whoever knows it by its first hold finds it.
func TestAnIdenticalCallLosesNothingOfAParkedOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, run, row, denied := waiting(t)
		first := denied.Decision.HoldID
		more := w.pending(t, fact("acme", "day", "Monday"))
		read(t, run, "acme", "day")
		w.promote(t, row)
		done := make(chan agent.Resumed)
		go func() {
			r, err := run.ResumeCall(t.Context(), first)
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		time.Sleep(time.Minute)
		now := run.ParkedAs(first)
		if now == "" || now == first {
			t.Fatalf("it waits in %q", now)
		}
		if again := mustBlock(t, run, "book", searchIn{"Blue"}, gate.ErrUnverified); again.Decision.HoldID != now {
			t.Errorf("the same call waits in %s, not in %s", again.Decision.HoldID, now)
		}
		w.promote(t, more)
		if r := <-done; r.Err != nil || w.ran("book") != 1 {
			t.Errorf("%+v", r)
		}
		if left := run.ParkedAs(first); left != "" {
			t.Errorf("parked in %s yet", left)
		}
	})
}

// TestAToolThatGotNoAnswerMayHaveDoneIt: nobody knows, so it is not made again, and the
// model is told.
func TestAToolThatGotNoAnswerMayHaveDoneIt(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, agent.Func("pay", "pays", func(context.Context, searchIn) (string, error) {
		w.fire("pay")
		return "", fmt.Errorf("%w: connection reset", agent.ErrNoAnswer)
	}, agent.Irreversible())).Start("ana")
	typed(t, run, "pay Acme")
	res, err := run.Call(t.Context(), "pay", args(searchIn{"Acme"}))
	if !errors.Is(err, agent.ErrTool) || !errors.Is(err, agent.ErrNoAnswer) || !strings.Contains(agent.ToolText(res, err), "it may have been done") {
		t.Fatal(err)
	}
	if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || d.Outcome != memory.CallUnknown {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := run.Call(t.Context(), "pay", args(searchIn{"Acme"})); !errors.Is(err, gate.ErrOutcomeUnknown) || w.ran("pay") != 1 {
		t.Errorf("made %d times, then %v", w.ran("pay"), err)
	}
}

// TestAParkedCallIsMadeOnceNothingHoldsIt, also if that moved no fitness version of a row that
// anybody may act on.
func TestAParkedCallIsMadeOnceNothingHoldsIt(t *testing.T) {
	mail := func(w *world) agent.Tool {
		return agent.Func("write", "writes a mail", func(context.Context, searchIn) (string, error) {
			w.fire("write")
			return "written", nil
		}, agent.StateChanging(), agent.FiresWhenFree(), agent.TypedSinks(), agent.TypedSink(gate.KindRecipient, "/words"))
	}
	parks := func(t *testing.T, run *agent.Run, words string) string {
		t.Helper()
		_, err := run.Call(t.Context(), "write", args(searchIn{words}))
		var denied *gate.DeniedError
		if !errors.As(err, &denied) || !denied.Decision.Parked {
			t.Fatalf("%v", err)
		}
		return denied.Decision.HoldID
	}
	resumes := func(t *testing.T, w *world, run *agent.Run, hold string) {
		t.Helper()
		r, err := gate.Wait(t.Context(), w.store, hold)
		if err != nil || r.How != gate.HowPromoted {
			t.Errorf("it waits for %q, %v", r.How, err)
		}
		got, err := run.Resume(t.Context())
		if err != nil || got.Err != nil || w.ran("write") != 1 {
			t.Errorf("%v, %v, made %d times", err, got.Err, w.ran("write"))
		}
	}
	kinds := func(t *testing.T, w *world) *agent.Agent {
		return w.agentWith(t, "bot", w.gate, []agent.Tool{mail(w)}, &agent.Options{Recall: recall.Policy{Channels: recall.All}, Kinds: map[string][]gate.Kind{"email": {gate.KindRecipient}}})
	}
	t.Run("by the principal's own word", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			says := agent.Assertion{Span: "my mail is ana@acme.example", Subject: "ana", Predicate: "email", Object: "ana@acme.example", Cardinality: memory.CardinalityFunctional}
			a := kinds(t, w)
			asks := a.Start("ana")
			typed(t, asks, "is it so that my mail is ana@acme.example?")
			if _, err := asks.Assert(t.Context(), says); err != nil {
				t.Fatal(err)
			}
			run := a.Start("ana")
			read(t, run, "ana", "email")
			hold := parks(t, run, "ana@acme.example")
			typed(t, run, "my mail is ana@acme.example")
			if _, err := run.Assert(t.Context(), says); err != nil {
				t.Fatal(err)
			}
			resumes(t, w, run, hold)
		})
	})
	t.Run("by the time from which a row holds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.promote(t, w.put(t, memory.Draft{Content: fact("acme", "email", "ops@acme.example"), Origin: memory.OriginModelDerived, State: memory.StateUnverified,
				Asserter: memory.Asserter{Principal: "writer", Model: "sonnet-4.6", Family: "claude"}, ValidFrom: w.store.Now().Add(time.Minute)}))
			run := kinds(t, w).Start("ana")
			read(t, run, "acme", "email")
			hold := parks(t, run, "ops@acme.example")
			if r, done, err := gate.Look(t.Context(), w.store, hold); done || err != nil {
				t.Errorf("it waits for %q, %v", r.How, err)
			}
			w.mu.Lock()
			w.now = w.now.Add(time.Minute)
			w.mu.Unlock()
			resumes(t, w, run, hold)
		})
	})
}
