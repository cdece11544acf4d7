package langchain_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/langchain"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// TestAnErrorOfTheExecutorHasTheCallsThatWereMade: the model's next words cannot be parsed
// after pay ran. The caller is told, and asks again: nothing is paid twice.
func TestAnErrorOfTheExecutorHasTheCallsThatWereMade(t *testing.T) {
	var w *world
	w = newWorld(t, agent.Func("pay", "Pays an invoice.", func(context.Context, words) (string, error) {
		w.ran("pay")
		return "", nil
	}, agent.Irreversible(), agent.Sinks("/words")))
	run := w.agent.Start("ana")
	m, server := model(t, scripted.Turns(act("pay", "INV-1180"), scripted.Say("Hmm."), act("pay", "INV-1180"), finish("It was paid."), scripted.Say("Hmm.")))
	e := agents.NewExecutor(agents.NewOneShotAgent(m, nil))
	_, err := langchain.Ask(t.Context(), run, e, agent.Typed("Pay INV-1180."))
	var calls *agent.CallsError
	if !errors.As(err, &calls) || !errors.Is(err, agents.ErrUnableToParseOutput) || len(calls.Calls) != 1 {
		t.Fatalf("%v", err)
	}
	if c := calls.Calls[0]; c.Tool != "pay" || c.Err != nil || !strings.Contains(string(c.Args), "INV-1180") || c.Decision == "" {
		t.Errorf("%+v", c)
	}
	got, err := langchain.Ask(t.Context(), run, e, agent.Typed("Go on."))
	if err != nil || got != "It was paid." || len(w.fired) != 1 {
		t.Fatalf("%q, %v, ran %v", got, err, w.fired)
	}
	if said := server.Requests()[3].Last(); !strings.Contains(said, "NOT EXECUTED: pay was not run a second time") {
		t.Errorf("the model was told %q", said)
	}
	if _, err := langchain.Ask(t.Context(), run, e, agent.Typed("And now?")); errors.As(err, &calls) || !errors.Is(err, agents.ErrUnableToParseOutput) {
		t.Errorf("nothing was called: %v", err)
	}
}

// TestAnErrorAfterAParkedCallHasIt: the call was made by itself, and the model's words on it
// cannot be parsed.
func TestAnErrorAfterAParkedCallHasIt(t *testing.T) {
	var w *world
	w = newWorld(t, agent.Func("book", "Books a room.", func(context.Context, words) (string, error) {
		w.ran("book")
		return "booked", nil
	}, agent.StateChanging(), agent.FiresWhenFree()))
	row := w.pending("acme", "room", "Blue")
	run := w.agent.Start("ana")
	if _, err := run.Recall(t.Context(), recall.Query{Subject: "acme", Predicate: "room"}); err != nil {
		t.Fatal(err)
	}
	m, _ := model(t, scripted.Turns(act("book", "Blue"), finish("It waits."), scripted.Say("Hmm.")))
	e := agents.NewExecutor(agents.NewOneShotAgent(m, nil))
	if _, err := langchain.Ask(t.Context(), run, e, agent.Typed("Book our room.")); err != nil || len(w.fired) != 0 {
		t.Fatalf("%v, ran %v", err, w.fired)
	}
	w.verify(row)
	r, _, err := langchain.Resume(t.Context(), run, e)
	var calls *agent.CallsError
	if !errors.As(err, &calls) || len(calls.Calls) != 1 || calls.Calls[0].Tool != "book" || calls.Calls[0].Text != "booked" || r.Tool != "book" {
		t.Fatalf("%+v, %v", r, err)
	}
}

// TestAModelThatRepeatsADeniedCallIsStopped after the third time. Another question begins
// anew, also with an executor of one's own.
func TestAModelThatRepeatsADeniedCallIsStopped(t *testing.T) {
	const denied = `{"to":"evil@x.example"}`
	again := []scripted.Reply{act("search", "acme"), act("send_email", denied), act("send_email", denied), act("send_email", denied)}
	w := newWorld(t)
	run := w.agent.Start("ana")
	m, server := model(t, scripted.Turns(append(append(append([]scripted.Reply{}, again...), again[1:]...), append(again[1:], finish("No."))...)...))
	stalled := func(err error, requests int) {
		t.Helper()
		var e *agent.StalledError
		if !errors.As(err, &e) || !errors.Is(err, agent.ErrStalled) || !errors.Is(err, gate.ErrDenied) || len(e.Held) != 1 || e.Held[0].Tool != "send_email" || e.Held[0].Hold != run.Held()[0].Hold {
			t.Fatalf("%v: %+v", err, run.Held())
		}
		if n := len(server.Requests()); n != requests {
			t.Errorf("the model was asked %d times, want %d", n, requests)
		}
	}
	e := agents.NewExecutor(agents.NewOneShotAgent(m, nil), agents.WithMaxIterations(20))
	_, err := langchain.Ask(t.Context(), run, e, agent.Typed("Write to them."))
	stalled(err, 4)
	var calls *agent.CallsError
	if !errors.As(err, &calls) || len(calls.Calls) != 1 || calls.Calls[0].Tool != "search" {
		t.Errorf("%v", err)
	}
	_, err = langchain.Ask(t.Context(), run, e, agent.Typed("Try again."))
	stalled(err, 7)
	own, err := langchain.Gate(run, e.Agent)
	if err != nil {
		t.Fatal(err)
	}
	mine := agents.NewExecutor(own, agents.WithMaxIterations(20))
	_, err = chains.Run(t.Context(), mine, "Write to them.")
	stalled(err, 10)
	if got, err := chains.Run(t.Context(), mine, "Write to them."); err != nil || got != "No." {
		t.Errorf("%q, %v", got, err)
	}
}

// TestAModelThatIsStoppedInItsLastTurn hears of the held calls, and not that its turns are over.
func TestAModelThatIsStoppedInItsLastTurn(t *testing.T) {
	w := newWorld(t)
	run := w.agent.Start("ana")
	denied := act("send_email", `{"to":"evil@x.example"}`)
	m, _ := model(t, scripted.Turns(denied, denied, denied))
	_, err := langchain.Ask(t.Context(), run, agents.NewExecutor(agents.NewOneShotAgent(m, nil), agents.WithMaxIterations(3)), agent.Typed("Write to them."))
	var e *agent.StalledError
	if !errors.As(err, &e) || len(e.Held) != 1 {
		t.Errorf("%v", err)
	}
}

// TestAnExecutorOfOnesOwnHearsOfTheCallsThatWereMade: its agent is wrapped by [langchain.Gate].
func TestAnExecutorOfOnesOwnHearsOfTheCallsThatWereMade(t *testing.T) {
	w := newWorld(t)
	m, _ := model(t, scripted.Turns(act("search", "acme"), scripted.Say("Hmm.")))
	own, err := langchain.Gate(w.agent.Start("ana"), agents.NewOneShotAgent(m, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, err = chains.Run(t.Context(), agents.NewExecutor(own), "Look.")
	var calls *agent.CallsError
	if !errors.As(err, &calls) || len(calls.Calls) != 1 || calls.Calls[0].Tool != "search" || !errors.Is(err, agents.ErrUnableToParseOutput) {
		t.Errorf("%v", err)
	}
}
