package rlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// odd is a memory that answers well for some writes, and then does what it was made for.
type odd struct {
	notebook
	oddity
}

// oddity is what an odd memory does; nil = as it should.
type oddity struct {
	after  int
	write  func(ctx context.Context) (string, error)
	recall func(ctx context.Context) ([]Memory, error)
	look   func(ids []string) ([]Memory, error)
	decide func() (Verdict, error)
	settle func(ctx context.Context) error
	close  func() error
}

func (o *odd) due() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.texts) >= o.after
}

func (o *odd) Write(ctx context.Context, t Turn, s Statement) (string, error) {
	if o.write != nil && o.due() {
		return o.write(ctx)
	}
	return o.notebook.Write(ctx, t, s)
}

func (o *odd) Recall(ctx context.Context, t Turn, q Query) ([]Memory, error) {
	if o.recall != nil && o.due() {
		return o.recall(ctx)
	}
	return o.notebook.Recall(ctx, t, q)
}

func (o *odd) Look(ctx context.Context, ids []string) ([]Memory, error) {
	if o.look != nil {
		return o.look(ids)
	}
	return o.notebook.Look(ctx, ids)
}

func (o *odd) Decide(context.Context, Turn, Action) (Verdict, error) {
	if o.decide != nil {
		return o.decide()
	}
	return Verdict{}, nil
}

func (o *odd) Settle(ctx context.Context) error {
	if o.settle != nil {
		return o.settle(ctx)
	}
	return nil
}

func (o *odd) Close() error {
	if o.close != nil {
		return o.close()
	}
	return nil
}

// TestASystemThatAnswersBadlyIsReportedAndTheRunGoesOn: nonsense, late, not at all. Time is
// that of a bubble.
func TestASystemThatAnswersBadlyIsReportedAndTheRunGoesOn(t *testing.T) {
	forever := make(chan struct{})
	many := func(m ...Memory) func(context.Context) ([]Memory, error) {
		return func(context.Context) ([]Memory, error) { return m, nil }
	}
	long := strings.Repeat("x", maxText+1)
	for name, c := range map[string]struct {
		system oddity
		fault  string
		says   string
	}{
		"no id":                  {oddity{write: func(context.Context) (string, error) { return " ", nil }}, "nonsense", "write: nonsense: id: empty"},
		"a long id":              {oddity{write: func(context.Context) (string, error) { return long, nil }}, "nonsense", "write: nonsense: id: 65537 bytes"},
		"an id of no text":       {oddity{write: func(context.Context) (string, error) { return "\xff", nil }}, "nonsense", "not UTF-8"},
		"a panic":                {oddity{write: func(context.Context) (string, error) { panic("index out of range") }}, "nonsense", "write: nonsense: panic: index"},
		"its own error":          {oddity{write: func(context.Context) (string, error) { return "", errors.New("disk\x1b[2J full\nnow") }}, "error", "disk"},
		"it is gone":             {oddity{write: func(context.Context) (string, error) { return "", fmt.Errorf("%w: refused", ErrNoAnswer) }}, "no answer", "refused"},
		"late, and it hears":     {oddity{write: func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }}, "late", "write: late: no answer within 1m0s"},
		"late, and it is deaf":   {oddity{write: func(context.Context) (string, error) { <-forever; return "1", nil }}, "late", "no answer within 1m0s"},
		"late, and it answers":   {oddity{write: func(context.Context) (string, error) { time.Sleep(time.Minute + time.Second); return "1", nil }}, "late", "write: late: no answer within 1m0s"},
		"the play is late":       {oddity{settle: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }}, "late", "the play has not ended after 4h0m0s"},
		"too many":               {oddity{recall: many(make([]Memory, Shown+1)...)}, "nonsense", "recall: nonsense: 11 memories"},
		"twice the same":         {oddity{recall: many(Memory{ID: "1"}, Memory{ID: "1"})}, "nonsense", `"1" is there twice`},
		"less than nothing":      {oddity{recall: many(Memory{ID: "1", Supports: -1})}, "nonsense", "supports: -1"},
		"more than all":          {oddity{recall: many(Memory{ID: "1", Supports: maxSupports + 1})}, "nonsense", "supports: 1000000001"},
		"a long text":            {oddity{recall: many(Memory{ID: "1", Text: long})}, "nonsense", "text: 65537 bytes"},
		"a state of no text":     {oddity{recall: many(Memory{ID: "1", State: "\xff"})}, "nonsense", "state: not UTF-8"},
		"what nobody asked for":  {oddity{look: func([]string) ([]Memory, error) { return []Memory{{ID: "999999"}}, nil }}, "nonsense", "look: nonsense: memory \"999999\" was not"},
		"a look that fails":      {oddity{look: func([]string) ([]Memory, error) { return nil, errors.New("no index") }}, "error", "look: no index"},
		"a long word at a call":  {oddity{decide: func() (Verdict, error) { return Verdict{Told: long}, nil }}, "nonsense", "decide: nonsense: told"},
		"allowed, and held":      {oddity{decide: func() (Verdict, error) { return Verdict{Allowed: true, Held: true}, nil }}, "nonsense", "decide: nonsense: held"},
		"a decision that panics": {oddity{decide: func() (Verdict, error) { panic(1) }}, "nonsense", "decide: nonsense: panic: 1"},
		"it does not close":      {oddity{close: func() error { <-forever; return nil }}, "late", "close: late"},
		"it panics at its end":   {oddity{close: func() error { panic("end") }}, "nonsense", "close: nonsense: panic: end"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, scenario := range []Scenario{c0, s3, s4, s7, s9} { // the others are fed by the same functions
				if c.system.look != nil && scenario.ID == s9.ID { // it looks at nothing
					continue
				}
				synctest.Test(t, func(t *testing.T) {
					forever = make(chan struct{})
					bad := func() System {
						s := &odd{oddity: c.system}
						s.after = 20
						return s
					}
					o := Options{Scenarios: []Scenario{scenario}, Entrants: []Entrant{entrant("bad", bad), entrant("good", func() System { return &notebook{} })}, Seeds: []uint64{1}}
					got, err := Run(t.Context(), o)
					close(forever)
					if err != nil || len(got) != 2 || got[1].Err != nil || got[0].Err == nil || Fault(got[0].Err) != c.fault || !strings.Contains(got[0].Err.Error(), c.says) {
						// A write that fails by an error of its own is a measure of the burst.
						if scenario.ID == s3.ID && c.fault == "error" && c.system.write != nil {
							return
						}
						t.Fatalf("%s: %v, %q: %v", scenario.ID, err, Fault(got[0].Err), got[0].Err)
					}
					if !got[1].NoGate || got[0].NoGate {
						t.Errorf("%s: %+v", scenario.ID, got)
					}
					figures := Figures(got, o.Scenarios, Small, nil)
					for _, f := range figures {
						if (f.System == "bad") != (f.Fault == c.fault) || f.OK == (f.System == "bad") || strings.ContainsAny(f.Err, "\n\x1b") || f.NoGate != (f.System == "good") {
							t.Fatalf("%+v", f)
						}
					}
					var table bytes.Buffer
					if err := WriteTable(&table, figures, o.Scenarios); err != nil || !strings.Contains(table.String(), "failed, "+c.fault+": ") || !strings.Contains(table.String(), "good (no gate)") || strings.Contains(table.String(), "\x1b") {
						t.Errorf("%v\n%s", err, &table)
					}
					if text, err := json.Marshal(figures); err != nil || !strings.Contains(string(text), `"fault":"`+c.fault) || !strings.Contains(string(text), `"no_gate":true`) {
						t.Errorf("%v", err)
					}
				})
			}
		})
	}
}

// TestABrokenSystemIsNotCalledAgain.
func TestABrokenSystemIsNotCalledAgain(t *testing.T) {
	calls := 0
	w := watch(&odd{oddity: oddity{write: func(context.Context) (string, error) { calls++; return "", nil }, settle: func(context.Context) error { calls++; return nil }}}, time.Minute)
	for range 3 {
		if _, err := w.Write(t.Context(), Turn{}, Statement{}); !errors.Is(err, ErrNonsense) {
			t.Error(err)
		}
		if _, err := w.Decide(t.Context(), Turn{}, Action{}); !errors.Is(err, ErrNonsense) {
			t.Error(err)
		}
		if err := w.Settle(t.Context()); !errors.Is(err, ErrNonsense) {
			t.Error(err)
		}
	}
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}

// TestASystemThatDoesNotOpen: an error, a panic, no system, no answer.
func TestASystemThatDoesNotOpen(t *testing.T) {
	for says, open := range map[string]func(context.Context, Env) (System, error){
		"open: disk full":        func(context.Context, Env) (System, error) { return nil, errors.New("disk full") },
		"open: nonsense: panic":  func(context.Context, Env) (System, error) { panic("open") },
		"open: nonsense: no sys": func(context.Context, Env) (System, error) { return nil, nil },
		"open: late":             func(ctx context.Context, _ Env) (System, error) { <-ctx.Done(); return nil, ctx.Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			got, err := Run(t.Context(), Options{Scenarios: chosen(t, "C0"), Entrants: []Entrant{{Name: "a", Open: open}}, Seeds: []uint64{1}})
			if err != nil || got[0].Err == nil || !strings.HasPrefix(got[0].Err.Error(), says) {
				t.Errorf("%s: %v, %v", says, err, got)
			}
		})
	}
}

// TestASystemThatOpensTooLateIsClosed, also if nobody waits for it any more.
func TestASystemThatOpensTooLateIsClosed(t *testing.T) {
	for _, late := range []time.Duration{time.Second, 2 * unwind} {
		synctest.Test(t, func(t *testing.T) {
			var closed atomic.Int64
			open := func(context.Context, Env) (System, error) {
				time.Sleep(time.Minute + late)
				return &odd{oddity: oddity{close: func() error { closed.Add(1); return nil }}}, nil
			}
			got, err := Run(t.Context(), Options{Scenarios: chosen(t, "C0"), Entrants: []Entrant{{Name: "a", Open: open}}, Seeds: []uint64{1}})
			if err != nil || !errors.Is(got[0].Err, ErrLate) {
				t.Errorf("%v, %v", err, got)
			}
			time.Sleep(2 * late)
			if n := closed.Load(); n != 1 {
				t.Errorf("%s too late: closed %d times", late, n)
			}
		})
	}
}
