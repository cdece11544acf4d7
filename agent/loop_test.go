package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// TestALoopStallsOnTheThirdSameDenial, and not if a call was made in between, or the denials
// are of different calls.
func TestALoopStallsOnTheThirdSameDenial(t *testing.T) {
	for name, c := range map[string]struct {
		calls  string // letters: which call; x is made, y and z have arguments that do not fit, upper case is held
		stalls int    // after how many; 0 = it does not
	}{
		"the same":                  {"AAAA", 3},
		"two, one after the other":  {"ABABAB", 5},
		"others":                    {"ABC", 0},
		"one is made in between":    {"AAxAA", 0},
		"and then three":            {"AAxAAA", 6},
		"made":                      {"xxxx", 0},
		"arguments that do not fit": {"yyy", 3},
		"others that do not fit":    {"yzy", 0},
		"they and what is held":     {"yAyAy", 5},
		"made between them":         {"yyxyxyy", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pending(t, fact("acme", "billing.email", "ops@acme.example"))
			// What it answers is no row, so that the others are denied for the same rows before and after.
			silent := agent.Func("silent", "", func(context.Context, nothing) (nothing, error) { return nothing{}, nil }, agent.ReadOnly())
			run := w.agent(t, silent).Start("ana")
			read(t, run, "acme", "billing.email")
			var loop agent.Loop
			for i, letter := range strings.Split(c.calls, "") {
				tool, with := "send_email", args(mailIn{To: letter + "@acme.example"})
				switch letter {
				case "x":
					tool, with = "silent", args(nothing{})
				case "y", "z":
					with = json.RawMessage(`{"nobody":"` + letter + `"}`)
				}
				res, err := run.Call(t.Context(), tool, with)
				if (err == nil) != (letter == "x") {
					t.Fatalf("%s: %v", letter, err)
				}
				loop.Note(tool, with, res, err)
				stalled := loop.Stalled(run)
				if (stalled != nil) != (c.stalls > 0 && i+1 >= c.stalls) {
					t.Fatalf("after %d calls: %v", i+1, stalled)
				}
				var e *agent.StalledError
				if stalled == nil {
					continue
				}
				if !errors.As(stalled, &e) || !errors.Is(stalled, agent.ErrStalled) || e.Tool != "send_email" || !strings.Contains(stalled.Error(), "send_email") {
					t.Fatalf("%v", stalled)
				}
				if letter == "y" {
					if !errors.Is(stalled, gate.ErrArguments) {
						t.Fatalf("%v", stalled)
					}
				} else if !errors.Is(stalled, gate.ErrUnverified) || len(e.Held) == 0 || !strings.Contains(stalled.Error(), e.Held[0].Hold) {
					t.Fatalf("%v", stalled)
				}
			}
			if made := loop.Made(); len(made) != strings.Count(c.calls, "x") {
				t.Errorf("made %+v", made)
			}
			loop.Reset()
			if len(loop.Made()) != 0 || loop.Stalled(run) != nil || loop.Wrap(errLost) != errLost {
				t.Error("it forgot nothing")
			}
		})
	}
}

// TestADenialCountsThoughItsMessageMadeAnotherCall: the model repeats the denied call all the
// same. A message with calls that are made alone begins the count anew.
func TestADenialCountsThoughItsMessageMadeAnotherCall(t *testing.T) {
	refused := &gate.ArgumentError{Rule: "schema"}
	run := newWorld(t).agent(t).Start("ana")
	for name, c := range map[string]struct {
		messages string // A and B are denied, x is made
		stalls   int
	}{
		"beside it":            {"Ax Ax Ax", 3},
		"before it":            {"xA xA xA", 3},
		"with and without":     {"A xA A", 3},
		"another denied one":   {"xA xB xA xB xA", 0},
		"alone in between":     {"Ax Ax x Ax Ax", 0},
		"and then three times": {"Ax x Ax Ax Ax", 5},
		"two denied, one made": {"ABx ABx ABx", 3},
	} {
		var loop agent.Loop
		for i, message := range strings.Fields(c.messages) {
			for _, letter := range message {
				if letter == 'x' {
					loop.Note("search", json.RawMessage(fmt.Sprint(i)), agent.Result{}, nil)
				} else {
					loop.Note("pay", json.RawMessage(string(letter)), agent.Result{}, refused)
				}
			}
			if err := loop.Stalled(run); (err != nil) != (i+1 == c.stalls) {
				t.Errorf("%s, after %d messages: %v", name, i+1, err)
			}
		}
	}
}

// TestCallsOfOneMessageCountOnce: the model has read no answer before it made the others.
func TestCallsOfOneMessageCountOnce(t *testing.T) {
	var loop agent.Loop
	refused := &gate.ArgumentError{Rule: "schema"}
	run := newWorld(t).agent(t).Start("ana")
	for message := range agent.StalledAfter {
		for range 5 {
			loop.Note("pay\nlevel=INFO", nil, agent.Result{}, refused)
		}
		if err := loop.Stalled(run); (err != nil) != (message == agent.StalledAfter-1) {
			t.Fatalf("after %d messages: %v", message+1, err)
		} else if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("not one line: %q", err)
		}
	}
}

// TestARunListsItsHeldCalls: each once, oldest first, until it is let through.
func TestARunListsItsHeldCalls(t *testing.T) {
	w := newWorldWith(t, anybody)
	id := w.pending(t, fact("acme", "billing.email", "ops@acme.example"))
	run := w.agent(t).Start("ana")
	typed(t, run, "write to acme and bob")
	read(t, run, "acme", "billing.email")
	call := func(to string) error {
		_, err := run.CallWithID(t.Context(), "call-"+to, "send_email", args(mailIn{To: to}))
		return err
	}
	var want []string
	for _, to := range []string{"ops@acme.example", "bob@acme.example", "ops@acme.example"} {
		var denied *gate.DeniedError
		if err := call(to); !errors.As(err, &denied) {
			t.Fatal(err)
		}
		want = append(want, denied.Decision.HoldID)
	}
	fork, err := run.Fork()
	if err != nil {
		t.Fatal(err)
	}
	read(t, fork, "acme", "billing.email")
	if _, err := fork.Call(t.Context(), "send_email", args(mailIn{To: "ops@acme.example"})); err == nil {
		t.Fatal("it was made")
	}
	held := run.Held()
	if len(held) != 3 || held[0].Hold != want[1] || held[1].Hold != want[2] || want[2] != want[0] || len(fork.Held()) != 1 || held[2].Hold != fork.Held()[0].Hold {
		t.Fatalf("%+v, want %q", held, want)
	}
	if h := held[0]; h.Tool != "send_email" || h.CallID != "call-bob@acme.example" || !strings.Contains(string(h.Args), "bob@acme.example") || !slices.Contains(h.Codes, gate.UnverifiedInput) || h.Parked {
		t.Errorf("%+v", h)
	}
	held[0].Args[0] = 'x'
	if run.Held()[0].Args[0] == 'x' {
		t.Error("who lists them can change them")
	}
	w.confirm(t, id)
	if err := call("ops@acme.example"); err != nil {
		t.Fatal(err)
	}
	if held = run.Held(); len(held) != 2 || held[0].Hold != want[1] {
		t.Errorf("%+v", held)
	}
	if (&agent.Run{}).Held() != nil {
		t.Error("a zero run holds calls")
	}
}

// TestAHeldCallSaysWhatHoldsIt, and not what is only noted.
func TestAHeldCallSaysWhatHoldsIt(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, agent.Func("say", "", func(context.Context, searchIn) (string, error) { return "", nil })).Start("ana")
	typed(t, run, "say hello")
	mustFire(t, run, "say", searchIn{"hello"})
	w.pending(t, fact("acme", "billing.email", "ops@acme.example"))
	read(t, run, "acme", "billing.email")
	_, err := run.Call(t.Context(), "say", args(searchIn{"hello"}))
	var denied *gate.DeniedError
	if !errors.As(err, &denied) || !denied.Decision.Has(gate.AlreadyDone) {
		t.Fatalf("%v", err)
	}
	if held := run.Held(); len(held) != 1 || !slices.Equal(held[0].Codes, []gate.Code{gate.UnverifiedInput}) {
		t.Errorf("%+v", held)
	}
}

// TestAnErrorHasTheCallsBeforeIt.
func TestAnErrorHasTheCallsBeforeIt(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t).Start("ana")
	var loop agent.Loop
	if err := loop.Wrap(errLost); err != errLost { //nolint:errorlint // the very error
		t.Error(err)
	}
	for i := range 12 {
		words := args(searchIn{fmt.Sprint("acme", i)})
		res, err := run.Call(t.Context(), "search", words)
		loop.Note("search", words, res, err)
		words[0] = 'x'
	}
	loop.Note("broken", nil, agent.Result{}, fmt.Errorf("%w: it broke", agent.ErrTool))
	loop.Note("none", nil, agent.Result{}, &gate.ArgumentError{Rule: "schema"})
	loop.Note("gone", nil, agent.Result{}, context.Canceled)
	err := loop.Wrap(errLost)
	var calls *agent.CallsError
	if !errors.As(err, &calls) || !errors.Is(err, errLost) || len(calls.Calls) != 13 {
		t.Fatalf("%v", err)
	}
	if c := calls.Calls[0]; c.Tool != "search" || string(c.Args) != string(args(searchIn{"acme0"})) || c.Decision == "" || c.Text == "" || c.Err != nil {
		t.Errorf("%+v", c)
	}
	if c := calls.Calls[12]; c.Tool != "broken" || !errors.Is(c.Err, agent.ErrTool) {
		t.Errorf("%+v", c)
	}
	if text := err.Error(); !strings.HasPrefix(text, errLost.Error()) || !strings.Contains(text, "search, and 3 more") {
		t.Error(text)
	}
	if loop.Wrap(nil) != nil {
		t.Error("no error is one")
	}
}

// A loop that was reset begins anew: also the message that was being answered.
func TestALoopThatWasResetBeginsAnew(t *testing.T) {
	var loop agent.Loop
	refused := &gate.ArgumentError{Rule: "schema"}
	run := newWorld(t).agent(t).Start("ana")
	tool := strings.Repeat("x", 300)
	loop.Note(tool, nil, agent.Result{}, refused)
	loop.Reset()
	for message := range agent.StalledAfter {
		loop.Note(tool, nil, agent.Result{}, refused)
		if err := loop.Stalled(run); (err != nil) != (message == agent.StalledAfter-1) {
			t.Fatalf("after %d messages: %v", message+1, err)
		} else if err != nil && strings.Count(err.Error(), "x") > 64 {
			t.Errorf("the name of the tool is not cut: %q", err)
		}
	}
}

// memoIn are arguments of which the memo says nothing of what is done.
type memoIn struct {
	Words string `json:"words"`
	Memo  string `json:"memo"`
}

// TestALoopStallsWhateverIsReadBesideTheDeniedCall: what is read adds rows to its reasons, and
// calls that are one by agent.SameBy have other arguments.
func TestALoopStallsWhateverIsReadBesideTheDeniedCall(t *testing.T) {
	w := newWorld(t)
	w.pending(t, fact("acme", "billing.email", "ops@acme.example"))
	run := w.agent(t).Start("ana")
	read(t, run, "acme", "billing.email")
	var loop agent.Loop
	for i := range agent.StalledAfter {
		res, err := run.Call(t.Context(), "search", args(searchIn{fmt.Sprint("now ", i)}))
		loop.Note("search", args(searchIn{fmt.Sprint("now ", i)}), res, err)
		with := args(mailIn{To: "ops@acme.example"})
		res, err = run.Call(t.Context(), "send_email", with)
		loop.Note("send_email", with, res, err)
		if stalled := loop.Stalled(run); (stalled != nil) != (i+1 == agent.StalledAfter) {
			t.Errorf("after %d messages: %v", i+1, stalled)
		}
	}

	ring := agent.Func("ring", "", func(context.Context, memoIn) (nothing, error) { return nothing{}, nil }, agent.Irreversible(), agent.SameBy("/words"), agent.Sinks("/words"))
	once := w.agent(t, ring).Start("ana")
	typed(t, once, "ring 7")
	mustFire(t, once, "ring", memoIn{"7", "first"})
	loop = agent.Loop{}
	for i := range agent.StalledAfter {
		with := args(memoIn{"7", fmt.Sprint("again ", i)})
		res, err := once.Call(t.Context(), "ring", with)
		loop.Note("ring", with, res, err)
		if stalled := loop.Stalled(once); (stalled != nil) != (i+1 == agent.StalledAfter) {
			t.Errorf("done before, after %d messages: %v", i+1, stalled)
		}
	}
}
