package product

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	if id := say(1001, rlab.Tool, "Acme's account is DE-12", account); id == "" || id == fact {
		t.Errorf("what a tool says is %q", id)
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
		if done, err := s.(rlab.Decider).Decide(t.Context(), at, rlab.Action{Tool: "pay", Value: value}); err != nil || done != c.done {
			t.Errorf("%s: done %t, %v", value, done, err)
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
