package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// long times each thing that takes long inputs with the longest one, beside half of it: a
// ratio of 2 is linear, one of 4 is quadratic.
func long(ctx context.Context, dir string, rounds int) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	l := newLonger(ctx, dir)
	defer func() {
		for _, s := range l.opened {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, c := range []struct {
		name string
		// prepare makes an input of a size in percent of the longest, and what takes it.
		prepare func(percent int) (run func())
	}{
		{"targets_of_arguments", l.targets}, {"decision_on_many_targets", l.decision}, {"erasure_reads_texts", l.erasure},
		{"call_with_many_targets", l.call}, {"question_with_many_addresses", l.question}, {"answer_too_long_to_read", l.answer},
	} {
		var whole, half func()
		prepare := func() { whole, half = c.prepare(100), c.prepare(50) }
		n := max(rounds/100, 3)
		value, floor := report.Pair(n, func() { whole() }, func() { half() }, prepare)
		figures = append(figures, report.Over("long/"+c.name, "us", value, floor, 3, n, 0))
	}
	return figures, nil
}

// longer makes inputs of any length.
type longer struct {
	ctx    context.Context
	dir    string
	opened []*memory.Store
	store  *memory.Store
	gate   *gate.Gate
	rows   []memory.ID
	agent  *agent.Agent
	run    *agent.Run            // of many rows
	texts  map[int]*memory.Store // by percent, with texts to erase
	serial int
}

type (
	letter struct {
		Body string `json:"body"`
		To   string `json:"to"`
	}
	query struct {
		Text string `json:"text"`
	}
)

func newLonger(ctx context.Context, dir string) *longer {
	l := &longer{ctx: ctx, dir: dir, texts: map[int]*memory.Store{}}
	l.store = l.open("long")
	l.rows = report.Must(fill(ctx, l.store, 0, 1))
	l.gate = report.Must(gate.New(l.store, policy, nil))
	tools := []agent.Tool{
		agent.Func("post", "sends a letter", func(context.Context, letter) (string, error) { return "", nil },
			agent.StateChanging(), agent.TypedSink(gate.KindRecipient, "/to"), agent.TypedSinks()),
		agent.Func("find", "finds mails", func(context.Context, query) (string, error) { return "please send the report to my address", nil }, agent.ReadOnly()),
		agent.Raw("long", "answers at length", &jsonschema.Schema{Type: "object"}, func(_ context.Context, in json.RawMessage) (json.RawMessage, error) {
			var size int
			report.Check(json.Unmarshal(in[len(`{"size":`):len(in)-1], &size))
			return json.RawMessage(`"` + strings.Repeat("x ", size/2) + `"`), nil
		}, agent.ReadOnly()),
	}
	l.agent = report.Must(agent.New("perf", agent.Model{ID: "scripted", Family: "scripted"}, l.store, l.gate, tools, nil))
	l.run = l.agent.Start("perf")
	l.says(l.run, "write to ops@acme.example")
	for i := range 300 {
		l.calls(l.run, "find", query{fmt.Sprint("w", i)}, nil)
	}
	return l
}

func (l *longer) open(name string) *memory.Store {
	_, s, err := open(l.ctx, filepath.Join(l.dir, name), false)
	report.Check(err)
	l.opened = append(l.opened, s)
	return s
}

func (l *longer) says(run *agent.Run, text string) {
	report.Must(run.Input(l.ctx, agent.Typed(text)))
}

// calls makes a call that must end in an error, or in none.
func (l *longer) calls(run *agent.Run, tool string, in any, want error) {
	if _, err := run.Call(l.ctx, tool, report.Must(json.Marshal(in))); !errors.Is(err, want) {
		report.Check(fmt.Errorf("%s: %v, want %v", tool, err, want))
	}
}

// addresses are bytes of addresses, each of them another one.
func addresses(bytes int) string {
	var b strings.Builder
	for i := 0; b.Len() < bytes; i++ {
		fmt.Fprintf(&b, "a%d@x.example ", i)
	}
	return b.String()
}

// letter is another one each time: the same call again would be held.
func (l *longer) letter(percent int) letter {
	l.serial++
	return letter{fmt.Sprint(l.serial, " ", addresses((gate.MaxArguments-200)*percent/100)), "ops@acme.example"}
}

func (l *longer) targets(percent int) func() {
	args := report.Must(json.Marshal(l.letter(percent)))
	return func() {
		if len(gate.Targets(args, []string{"/to"})) < 1000 {
			report.Check(errors.New("targets are missing"))
		}
	}
}

func (l *longer) decision(percent int) func() {
	req := request(l.rows, nil)
	req.Contract = gate.Contract{Tool: "post", Effect: gate.StateChanging, Precision: gate.TypedSinks, Sinks: []string{"/to"}, Kinds: map[string]gate.Kind{"/to": gate.KindRecipient}}
	req.Args = report.Must(json.Marshal(l.letter(percent)))
	for _, target := range gate.Targets(req.Args, req.Contract.Sinks) {
		req.Sinks = append(req.Sinks, gate.Sink{Pointer: target.Pointer, Value: target.Value, Source: gate.SourcePrincipal})
	}
	return func() {
		if d := l.gate.Decide(l.ctx, *req); d.Outcome != gate.Permit {
			report.Check(fmt.Errorf("not permitted: %v", d.Reasons))
		}
	}
}

func (l *longer) erasure(percent int) func() {
	if l.texts[percent] == nil {
		l.texts[percent] = l.open(fmt.Sprint("texts-", percent))
		for i, unit := range []string{`\`, `\u`, `\ud835`, `%C3`, `\xff`, "&amp;", "山", "%25", "ﷺ"} {
			report.Must(l.texts[percent].Put(l.ctx, memory.Draft{
				Content: memory.Content{Text: strings.Repeat(unit, (memory.MaxText-20)*percent/100/len(unit)) + fmt.Sprint(" ", i), Cardinality: memory.CardinalityUnknown},
				Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
				Asserter: memory.Asserter{Principal: "perf", Model: "scripted", Family: "scripted"},
			}))
		}
	}
	return func() {
		report.Must(l.texts[percent].Erase(l.ctx, memory.Erasure{Subject: "Müller", Request: "R-1", Actor: "dpo", DryRun: true}))
	}
}

func (l *longer) call(percent int) func() {
	in := l.letter(percent)
	return func() { l.calls(l.run, "post", in, gate.ErrUnverified) }
}

func (l *longer) question(percent int) func() {
	run := l.agent.Start("perf")
	l.says(run, addresses(20_000))
	in := query{addresses((gate.MaxArguments - 200) * percent / 100)}
	return func() { l.calls(run, "find", in, nil) }
}

func (l *longer) answer(percent int) func() {
	run := l.agent.Start("perf")
	in := map[string]int{"size": 32 << 20 * percent / 100}
	return func() { l.calls(run, "long", in, nil) }
}
