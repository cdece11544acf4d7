package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// A program that starts again, or a second run, does not repeat a call that cannot be undone
// while the first one is at work, or when it was cut off.
func TestARestartDoesNotRepeatWhatCannotBeUndone(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	first := true
	w := newWorld(t)
	pay := agent.Func("pay", "pays", func(context.Context, searchIn) (nothing, error) {
		w.fire("pay")
		if first {
			first = false
			close(began)
			<-goOn
		}
		return nothing{}, nil
	}, agent.Irreversible(), agent.Sinks("/words"))
	start := func() *agent.Run { // a process of its own
		run := w.agent(t, pay).Start("ana")
		typed(t, run, "pay invoice-4711")
		return run
	}
	ended := make(chan error)
	go func() {
		_, err := start().Call(t.Context(), "pay", args(searchIn{"invoice-4711"}))
		ended <- err
	}()
	<-began
	again := start()
	denied := mustBlock(t, again, "pay", searchIn{"invoice-4711"}, gate.ErrOutcomeUnknown)
	if denied.Decision.Outcome != gate.Hold || denied.Decision.HoldID == "" {
		t.Errorf("%+v", denied.Decision)
	}
	fork, err := again.Fork()
	if err != nil {
		t.Fatal(err)
	}
	mustBlock(t, fork, "pay", searchIn{"invoice-4711"}, gate.ErrOutcomeUnknown)
	helper := w.agentWith(t, "helper", w.gate, append(w.tools(), pay), nil).Start("ana") // another agent, another act
	typed(t, helper, "pay invoice-4711")
	mustFire(t, helper, "pay", searchIn{"invoice-4711"})
	close(goOn)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	mustFire(t, again, "pay", searchIn{"invoice-4711"})

	// The process dies while the tool works: nobody records its outcome.
	var store *losing
	store, dying := doubtful(t, w, agent.Func("wipe", "wipes", func(context.Context, searchIn) (nothing, error) {
		store.lostOutcome.Store(true)
		return nothing{}, nil
	}, agent.Irreversible(), agent.Sinks("/words")))
	dead := dying.Start("ana")
	typed(t, dead, "wipe disk-9")
	if _, err := dead.Call(t.Context(), "wipe", args(searchIn{"disk-9"})); !errors.Is(err, agent.ErrUnrecorded) {
		t.Fatal(err)
	}
	run := w.agent(t, w.counting("wipe", agent.Irreversible(), agent.Sinks("/words"))).Start("ana")
	typed(t, run, "wipe disk-9")
	denied = mustBlock(t, run, "wipe", searchIn{"disk-9"}, gate.ErrOutcomeUnknown)
	w.pass(memory.UnknownAfter)
	prior := denied.Decision.Reasons[0].Detail
	if err := w.store.Settle(t.Context(), memory.Settlement{Decision: prior, Actor: "cleo", Reason: "the disk is there"}); err != nil {
		t.Fatal(err)
	}
	mustFire(t, run, "wipe", searchIn{"disk-9"})
}
