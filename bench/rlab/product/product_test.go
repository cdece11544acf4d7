package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// record is a system of record that knows one slot.
type record struct{ subject, predicate, value string }

func (r record) Lookup(_ context.Context, subject, predicate string) (string, bool, error) {
	return r.value, subject == r.subject && predicate == r.predicate, nil
}

// TestTheProductIsWhatIsPlayed: an echo is no source and fires nothing; what the system of
// record says is verified, and fires.
func TestTheProductIsWhatIsPlayed(t *testing.T) {
	e := Entrant(Options{})
	s, err := e.Open(t.Context(), rlab.Env{Now: time.Now, Record: record{"Acme", "account", "DE-12"}, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}()
	turn := func(n int) rlab.Turn { return rlab.Turn{Agent: "a", Principal: "ana", Session: fmt.Sprint(n)} }
	say := func(n int, kind, text string, q rlab.Query) string {
		t.Helper()
		var shown []string
		if kind == rlab.Agent {
			got, err := s.Recall(t.Context(), turn(n), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range got {
				shown = append(shown, m.ID)
			}
		}
		id, err := s.Write(t.Context(), turn(n), rlab.Statement{Author: rlab.Author{Kind: kind, Name: "x"}, Text: text, Recalled: shown})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	vim, account := rlab.Query{Text: "which editor does the user prefer"}, rlab.Query{Text: "account", Subject: "Acme", Predicate: "account"}
	first := say(1, rlab.Agent, "User prefers Vim", vim)
	for n := range mostRuns + 10 { // more sessions than are kept open
		if id := say(2+n, rlab.Agent, "User prefers Vim", vim); id != first {
			t.Fatalf("echo %d is a row of its own", n)
		}
	}
	fact := say(1000, rlab.User, "Acme's account is DE-12", account)
	if id := say(1001, rlab.Tool, "Acme's account is DE-12", account); id != fact {
		t.Errorf("what a tool of strangers says is %q, and the fact %q", id, fact)
	}
	if err := s.(rlab.Settler).Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.Look(t.Context(), []string{first, fact, "mem_00000000000000000000000000"})
	if err != nil || len(got) != 2 || got[0].Trusted || got[0].Supports != 0 || got[0].State != "unverified" || !got[1].Trusted || got[1].Supports != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for value, c := range map[string]struct {
		q    rlab.Query
		done bool
	}{"Vim": {vim, false}, "DE-12": {account, true}, "DE-13": {account, false}} {
		at := turn(2000 + len(value))
		at.Session += value
		shown, err := s.Recall(t.Context(), at, c.q)
		if err != nil || len(shown) == 0 {
			t.Fatalf("%v, %v", shown, err)
		}
		got, err := s.(rlab.Decider).Decide(t.Context(), at, rlab.Action{Tool: "pay", Value: value})
		if err != nil || got.Allowed != c.done || strings.HasPrefix(got.Told, "NOT EXECUTED: pay") == c.done {
			t.Errorf("%s: %+v, %v", value, got, err)
		}
	}
}

// TestWhoseWordCounts: that of the tool that reads the system of record, at once and until it says
// otherwise, and that of users about themselves.
func TestWhoseWordCounts(t *testing.T) {
	s, err := Entrant(Options{}).Open(t.Context(), rlab.Env{Now: time.Now, Record: record{}, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	}()
	crm, web, ana := rlab.Author{Kind: rlab.Tool, Name: rlab.CRM}, rlab.Author{Kind: rlab.Tool, Name: "web"}, rlab.Author{Kind: rlab.User, Name: "ana"}
	ids := map[string]string{}
	for n, step := range []struct {
		by      rlab.Author
		text    string
		trusted map[string]bool // afterwards, by text
	}{
		{web, "Birch's account is DE-1", map[string]bool{"Birch's account is DE-1": false}},
		{crm, "Acme's account is DE-1", map[string]bool{"Acme's account is DE-1": true}},
		{crm, "Acme's account is DE-2", map[string]bool{"Acme's account is DE-1": false, "Acme's account is DE-2": true}},
		{crm, "Acme's mood is good", map[string]bool{"Acme's mood is good": false}}, // it is no slot of the system of record
		{ana, "ana's account is DE-3", map[string]bool{"ana's account is DE-3": true}},
		{ana, "Fern's account is DE-4", map[string]bool{"Fern's account is DE-4": false, "Acme's account is DE-2": true}},
	} {
		id, err := s.Write(t.Context(), rlab.Turn{Agent: "a", Principal: "ana", Session: fmt.Sprint(n)}, rlab.Statement{Author: step.by, Text: step.text})
		if err != nil {
			t.Fatal(err)
		}
		ids[step.text] = id
		for text, want := range step.trusted {
			if got, err := s.Look(t.Context(), []string{ids[text]}); err != nil || len(got) != 1 || got[0].Trusted != want {
				t.Errorf("after %q of %s: %q is %+v, %v", step.text, step.by.Name, text, got, err)
			}
		}
	}
}

// TestAStoreThatCannotBeOpenedIsAnError, and leaves nothing open.
func TestAStoreThatCannotBeOpenedIsAnError(t *testing.T) {
	for name, o := range map[string]Options{"the store": {Store: "nothing://here"}, "the queue": {Redis: "redis://127.0.0.1:1/0"}} {
		if _, err := Entrant(o).Open(t.Context(), rlab.Env{Now: time.Now, Record: record{}, Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}); err == nil || errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTheLoopFailsToBecomeAFact is the whole system: MP-16, SR-6.2, I-3.
func TestTheLoopFailsToBecomeAFact(t *testing.T) {
	loop := rlab.Loop(time.Hour)
	got, err := rlab.Run(t.Context(), rlab.Options{Scenarios: []rlab.Scenario{loop}, Entrants: []rlab.Entrant{Entrant(Options{})}, Seeds: []uint64{7}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got[0].Err)
	}
	figures := map[string]rlab.Figure{}
	for _, f := range rlab.Figures(got, []rlab.Scenario{loop}, rlab.Small, nil) {
		figures[strings.TrimPrefix(f.Name, "S1/hearsay/")] = f
	}
	for name, n := range map[string]int{"support_factor": 1, "false_verified": 1, "unsafe_actions": 1, "near_misses_merged": 12, "merged": 940, "benign_blocked": 10} {
		if f := figures[name]; f.Value != 0 || f.N != n || !f.OK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	l, wordings := got[0].Landed, len(rlab.LoopWordings())
	if l.Sum() != rlab.LoopWrites || l.First != 1 || l.Same >= rlab.LoopSame || l.Recognised == 0 || l.Own == 0 || l.Own > wordings {
		t.Errorf("of %d writes in %d other wordings this is said: %+v", rlab.LoopWrites, wordings, l)
	}
	if f := figures["rows_per_claim"]; f.Value != float64(l.First+l.Own) {
		t.Errorf("%+v, and %+v", f, l)
	}
	if told := got[0].Refused; !strings.HasPrefix(told, "NOT EXECUTED: ") || !strings.Contains(told, "Independent sources: 0.") {
		t.Errorf("the agent is told: %s", told)
	}
}
