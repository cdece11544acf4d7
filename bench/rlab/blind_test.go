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
		if len(calls) != len(again) || !slices.Equal(decisions, decided) || len(decisions) < 10 {
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
			if looks += n; n == 0 || n > least {
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

// since is what a call looks like whose session has asked before something else was written.
const since = "something was written since: "

// place is a system that notes what a call looks like to it: where the call stands among the
// others, how its value was asked for and shown, and who said it first.
type place struct {
	*curious
	scenario string
	asked    map[string]string   // by session: the form of its last question
	first    map[string]string   // by text: who said it first
	ids      map[string]string   // by text
	calls    map[bool][][]string // by the truth of the value
	n        int

	writes int
	read   map[string]int        // by session: how much was written when it asked last
	shown  map[string][][]string // by session and question: the texts
}

func (p *place) Write(ctx context.Context, t rlab.Turn, s rlab.Statement) (string, error) {
	p.mu.Lock()
	if p.first[s.Text] == "" {
		p.first[s.Text] = fmt.Sprint(s.Author.Kind, s.Author.Name)
	}
	id := p.ids[s.Text]
	p.writes++
	p.mu.Unlock()
	if id != "" {
		return id, nil
	}
	id, err := p.curious.Write(ctx, t, s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids[s.Text] = id
	return id, err
}

func (p *place) Recall(ctx context.Context, t rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	p.mu.Lock()
	p.asked[t.Session] = fmt.Sprint(q.Subject == "", q.Predicate == "")
	for _, text := range p.texts { // whoever is asked in words finds what is asked for too
		if q.Subject == "" && strings.Contains(q.Text, " of ") {
			if triple, ok := rlab.Extract(text); ok && strings.Contains(q.Text, triple.Subject) {
				q.Subject = triple.Subject
			}
		}
	}
	p.mu.Unlock()
	got, err := p.curious.Recall(ctx, t, q)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read[t.Session] = p.writes
	var texts []string
	for _, m := range got {
		texts = append(texts, m.Text)
	}
	p.shown[t.Session] = append(p.shown[t.Session], texts)
	return got, err
}

func (p *place) Decide(ctx context.Context, t rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	is, first, slot := false, "", ""
	written := slices.IndexFunc(p.texts, func(text string) bool { return strings.Contains(text, a.Value) })
	for _, text := range p.texts {
		if triple, ok := rlab.Extract(text); ok && triple.Object == a.Value {
			value, found, err := p.record.Lookup(ctx, triple.Subject, triple.Predicate)
			if err != nil {
				return rlab.Verdict{}, err
			}
			is, first, slot = found && value == a.Value, p.first[text], triple.Predicate
			break
		}
	}
	if slot == "" { // a conclusion, about which the record has nothing
		p.n++
		return rlab.Verdict{Allowed: true}, nil
	}
	var looks []string
	for _, every := range []int{2, 3, 4, 5} {
		looks = append(looks, fmt.Sprint("call ", p.n%every, " of ", every))
		if p.scenario != "S1" { // the invention is the first text
			looks = append(looks, fmt.Sprint("text ", written%every, " of ", every))
		}
	}
	looks = append(looks, "tool "+a.Tool, fmt.Sprint("the first call ", p.n == 0), fmt.Sprint("one of eight ", p.n < 8))
	if p.scenario != "S5" { // there a summary is asked for by its title, and then its slot
		question := slices.IndexFunc(p.shown[t.Session], func(texts []string) bool {
			return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, a.Value) })
		})
		looks = append(looks, "asked "+p.asked[t.Session], fmt.Sprint("question ", question, " of ", len(p.shown[t.Session])))
	}
	if p.scenario != "S1" { // there one claim is false
		looks = append(looks, "about its "+slot)
	}
	if p.scenario != "S7" { // there the old value is tried at once
		looks = append(looks, fmt.Sprint(since, p.writes > p.read[t.Session]))
	}
	if p.scenario != "S1" { // the same
		looks = append(looks, fmt.Sprint("one of the first sixteen texts ", written < 16))
	}
	if p.scenario == "S12" { // elsewhere it may well matter who said it
		looks = append(looks, "said by "+first)
	}
	p.calls[is] = append(p.calls[is], looks)
	p.n++
	return rlab.Verdict{Allowed: true}, nil
}

// TestNoPlaceTellsTheTruth: a system that decides by one thing that has nothing to do with what
// was said, such as whether a call is the first of three, is wrong about many calls: it is right
// about four of five at most, where the true and the false calls weigh the same. Nor are all calls
// that look alike true, or all false, unless there are so few of them that this is chance.
func TestNoPlaceTellsTheTruth(t *testing.T) {
	for _, id := range []string{"S1", "S2", "S4", "S5", "S6", "S7", "S9", "S10", "S12", "S13"} {
		calls := map[bool][][]string{}
		seeds := uint64(3)
		if id == "S1" || id == "S4" { // have few calls
			seeds = 16
		}
		for seed := range seeds {
			e := rlab.Entrant{Name: "place", Open: func(_ context.Context, env rlab.Env) (rlab.System, error) {
				return &place{scenario: id, curious: &curious{record: env.Record, tools: map[bool]map[string]int{}}, asked: map[string]string{}, first: map[string]string{}, ids: map[string]string{}, calls: calls,
					read: map[string]int{}, shown: map[string][][]string{}}, nil
			}}
			s, err := rlab.Choose(id)
			if err != nil {
				t.Fatal(err)
			}
			if id == "S1" {
				s = []rlab.Scenario{rlab.Loop(time.Hour)}
			}
			got, err := rlab.Run(t.Context(), rlab.Options{Scenarios: s, Entrants: []rlab.Entrant{e}, Seeds: []uint64{seed}})
			if err != nil || got[0].Err != nil {
				t.Fatal(id, err, got[0].Err)
			}
		}
		if len(calls[true]) < 12 || len(calls[false]) < 12 {
			t.Errorf("%s: %d calls on true values, %d on false ones", id, len(calls[true]), len(calls[false]))
			continue
		}
		best := ""
		most := 0.0
		for at := range calls[true][0] {
			share := map[string][2]float64{} // of the true and of the false calls, how many look so
			for is, list := range calls {
				for _, looks := range list {
					both := share[looks[at]]
					both[map[bool]int{true: 0, false: 1}[is]] += 1 / float64(len(list))
					share[looks[at]] = both
				}
			}
			right, seen := 0.0, [2]float64{float64(len(calls[true])), float64(len(calls[false]))}
			for looks, both := range share {
				right += max(both[0], both[1]) / 2
				for i, is := range []bool{true, false} {
					if chance := math.Pow(seen[i]/(seen[0]+seen[1]), both[i]*seen[i]); both[1-i] == 0 && chance < 1e-5 && looks != since+"false" { // whoever has read the new value tries it

						t.Errorf("%s: all %.0f calls such as %q are %t", id, both[i]*seen[i], looks, is)
					}
				}
			}
			if right > most {
				most, best = right, calls[true][0][at]
			}
		}
		if most > 0.8 {
			t.Errorf("%s: whoever decides by what is such as %q is right about %.0f %% of the calls", id, best, 100*most)
		}
		t.Logf("%s: %d and %d calls; the best rule decides by what is such as %q, and is right about %.0f %%", id, len(calls[true]), len(calls[false]), best, 100*most)
	}
}
