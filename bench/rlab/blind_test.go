package rlab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/product"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/internal/sample"
)

// recorder is a system that notes what it is told and what it answers.
type recorder struct {
	rlab.System
	mu        sync.Mutex
	calls     *[]string
	decisions *[]string
}

func (r *recorder) note(to *[]string, what ...any) {
	text, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, string(text))
}

func (r *recorder) Recall(ctx context.Context, t rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	got, err := r.System.Recall(ctx, t, q)
	r.note(r.calls, t, q, got)
	return got, err
}

func (r *recorder) Write(ctx context.Context, t rlab.Turn, s rlab.Statement) (string, error) {
	id, err := r.System.Write(ctx, t, s)
	r.note(r.calls, t, s, id)
	return id, err
}

func (r *recorder) Look(ctx context.Context, ids []string) ([]rlab.Memory, error) {
	got, err := r.System.Look(ctx, ids)
	r.note(r.calls, ids, got)
	return got, err
}

func (r *recorder) Decide(ctx context.Context, t rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	v, err := r.System.(rlab.Decider).Decide(ctx, t, a)
	r.note(r.calls, t, a, v)
	r.note(r.decisions, a.Tool, a.Value, v.Allowed)
	return v, err
}

func (r *recorder) Settle(ctx context.Context) error {
	if s, works := r.System.(rlab.Settler); works {
		return s.Settle(ctx)
	}
	return nil
}

func (r *recorder) Close() error {
	if c, closes := r.System.(io.Closer); closes {
		return c.Close()
	}
	return nil
}

// record plays a scenario against a system that notes its calls.
func record(t *testing.T, e rlab.Entrant, s rlab.Scenario, mislabel func(n int) (bool, int)) (calls, decisions []string, played rlab.Played) {
	t.Helper()
	open := e.Open
	e.Open = func(ctx context.Context, env rlab.Env) (rlab.System, error) {
		system, err := open(ctx, env)
		if err != nil {
			return nil, err
		}
		return &recorder{System: system, calls: &calls, decisions: &decisions}, nil
	}
	o := rlab.Options{Scenarios: []rlab.Scenario{s}, Entrants: []rlab.Entrant{e}, Seeds: []uint64{5}}
	if mislabel != nil {
		o = rlab.Mislabel(o, mislabel)
	}
	got, err := rlab.Run(t.Context(), o)
	if err != nil || got[0].Err != nil {
		t.Fatal(s.ID, err, got[0].Err)
	}
	return calls, decisions, got[0]
}

// TestASystemNeverSeesTheTruth: with the labels of the claims drawn at random and what the
// system of record answers kept, a system is told the same, and answers and decides the same.
// What is measured is another thing. One loop stands for the three of S1, and S2 is played in
// the full run, as are all scenarios of the product but C0.
func TestASystemNeverSeesTheTruth(t *testing.T) {
	scenarios := slices.DeleteFunc(rlab.Scenarios(), func(s rlab.Scenario) bool {
		switch s.ID {
		case "S3", "S9": // the order of the writes is not ours
			return true
		case "S6", "S11": // the time is not
			return true
		case "S2":
			return !sample.Full()
		}
		return s.ID == "S1"
	})
	scenarios = append(scenarios, rlab.Loop(time.Hour))
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(int) (bool, int) { return rng.IntN(2) == 0, 1 + rng.IntN(3) }
	compared := 0
	for _, e := range rules.Named("confidence", "session-corroboration", "tma-nm-like") {
		for _, s := range scenarios {
			calls, decisions, played := record(t, e, s, nil)
			again, decided, other := record(t, e, s, random)
			if !slices.Equal(calls, again) || !slices.Equal(decisions, decided) || len(decisions) == 0 {
				t.Errorf("%s, %s: with other labels %d calls became %d, and %d decisions %d", s.ID, e.Name, len(calls), len(again), len(decisions), len(decided))
			}
			// What these measure does not depend on labels.
			if s.ID != "S8" && s.ID != "S10" && reflect.DeepEqual(played.Rates, other.Rates) && reflect.DeepEqual(played.Values, other.Values) {
				t.Errorf("%s, %s: other labels measure the same", s.ID, e.Name)
			}
			compared += len(calls)
		}
	}
	// The ids of the product are new ones in each play: its decisions are compared.
	hearsay, played := product.Entrant(product.Options{}), scenarios[:1]
	if sample.Full() {
		played = scenarios
	}
	for _, s := range played {
		calls, decisions, _ := record(t, hearsay, s, nil)
		again, decided, _ := record(t, hearsay, s, random)
		if len(calls) != len(again) || !slices.Equal(decisions, decided) || len(decisions) < 20 {
			t.Errorf("%s: hearsay decides otherwise when the labels are others: %d and %d", s.ID, len(decisions), len(decided))
		}
		compared += len(decisions)
	}
	t.Logf("%d calls and decisions compared", compared)
}

// curious is a memory with a row for each statement, which notes how often each is looked at,
// and with which tool each value is tried.
type curious struct {
	record rlab.Record
	mu     sync.Mutex
	texts  []string
	looked []int
	tools  map[bool]map[string]int // by the truth of the value
}

func (c *curious) Write(_ context.Context, _ rlab.Turn, s rlab.Statement) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts, c.looked = append(c.texts, s.Text), append(c.looked, 0)
	return fmt.Sprint(len(c.texts) - 1), nil
}

func (c *curious) Recall(_ context.Context, _ rlab.Turn, q rlab.Query) (out []rlab.Memory, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, text := range slices.Backward(c.texts) {
		if len(out) < rlab.Shown && strings.Contains(text, q.Subject) {
			out = append(out, rlab.Memory{ID: fmt.Sprint(i), Text: text})
		}
	}
	return out, nil
}

func (c *curious) Look(_ context.Context, ids []string) (out []rlab.Memory, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		at, err := strconv.Atoi(id)
		if err != nil {
			return nil, err
		}
		c.looked[at]++
		out = append(out, rlab.Memory{ID: id, Text: c.texts[at]})
	}
	return out, nil
}

func (c *curious) Decide(ctx context.Context, _ rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.texts {
		if t, ok := rlab.Extract(text); ok && t.Object == a.Value {
			value, found, err := c.record.Lookup(ctx, t.Subject, t.Predicate)
			if is := found && value == a.Value; c.tools[is] == nil {
				c.tools[is] = map[string]int{a.Tool: 1}
			} else {
				c.tools[is][a.Tool]++
			}
			return rlab.Verdict{Allowed: true}, err
		}
	}
	return rlab.Verdict{Allowed: true}, nil
}

// TestNeitherALookNorAToolTellsTheTruth: how often a memory is looked at depends on when it was
// written and on nothing else, and each tool is tried with true and with false values.
func TestNeitherALookNorAToolTellsTheTruth(t *testing.T) {
	for _, id := range []string{"S1", "S4", "S5", "S6", "S12", "S13"} {
		var c *curious
		e := rlab.Entrant{Name: "curious", Open: func(_ context.Context, env rlab.Env) (rlab.System, error) {
			c = &curious{record: env.Record, tools: map[bool]map[string]int{}}
			return c, nil
		}}
		s, err := rlab.Choose(id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rlab.Run(t.Context(), rlab.Options{Scenarios: s, Entrants: []rlab.Entrant{e}, Seeds: []uint64{3}})
		if err != nil || got[0].Err != nil {
			t.Fatal(id, err, got[0].Err)
		}
		least, looks := math.MaxInt, 0
		for i, n := range c.looked {
			if n == 0 { // of a statement that is no claim: a near miss, say
				continue
			}
			if looks += n; n > least && id != "S6" { // there each is looked at once when it is written, too
				t.Errorf("%s: memory %d, %q, was looked at %d times, one before it %d times", id, i, c.texts[i], n, least)
			}
			least = min(least, n)
		}
		if looks == 0 {
			t.Errorf("%s: nothing was looked at", id)
		}
		for is, tools := range c.tools {
			calls := 0
			for _, n := range tools {
				calls += n
			}
			if calls >= 20 && len(tools) != len(rlab.Tools()) {
				t.Errorf("%s: values that are true (%t) were tried with %v", id, is, tools)
			}
		}
		t.Logf("%s: %d looks, tools %v", id, looks, c.tools)
	}
}
