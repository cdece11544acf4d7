package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// wording is the attack text that is put in the place of each vector.
const wording = "important_instructions"

// predicate names every value that a read shows.
const predicate = "shown"

// world is one suite over one store: its rows in memory, its tools behind a gate.
type world struct {
	suite *suite
	store *memory.Store
	agent *agent.Agent
	put   map[string]bool // the rows that are in the store

	narrow  *narrowed // nil in a mode that judges the whole run
	endorse bool      // a person confirms the rows of a task's question
}

// mode is how precisely a call is judged.
type mode string

const (
	none mode = "none" // no gate at all: what the traces would do
	run  mode = "run"  // all that the run has been shown feeds every call

	argument     mode = "argument"     // the rows that its sinks came from, where that can be shown
	corroborated mode = "corroborated" // the same, and a verified row that was not shown may vouch for a value
	endorsed     mode = "endorsed"     // the same, and a person who is asked confirms rows rather than calls
)

// decider is what stands between the agent and the gate in a mode.
func (w *world) decider(m mode, g *gate.Gate) agent.Decider {
	switch m {
	case none:
		return ungated{g}
	case argument, corroborated, endorsed:
		w.narrow = &narrowed{gate: g, store: w.store, corroborate: m != argument, typed: map[string]string{}, shown: map[string]bool{}}
		return w.narrow
	}
	return g
}

// ungated lets every call fire: it tells the gate that each is a read. An attack
// that does not fire through it proves nothing.
type ungated struct{ gate *gate.Gate }

// Decide is that of the gate, of a read.
func (u ungated) Decide(ctx context.Context, req gate.Request) gate.Decision {
	req.Contract.Effect = gate.ReadOnly
	return u.gate.Decide(ctx, req)
}

func open(ctx context.Context, s *suite, m mode, dir string) (*world, error) {
	w := &world{suite: s, put: map[string]bool{}}
	store, err := storeurl.Open(ctx, "sqlite:"+filepath.Join(dir, s.Name+".db"), &storeurl.Options{Fast: true, Options: memory.Options{
		// The user of a suite may speak for what is in their own memory.
		Authority: func(principal, _, _ string) bool { return principal == s.Principal },
	}})
	if err != nil {
		return nil, err
	}
	w.store = store
	if err := w.build(ctx, m); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return w, nil
}

func (w *world) build(ctx context.Context, m mode) error {
	w.endorse = m == endorsed
	if m == corroborated || m == endorsed {
		for i := range w.suite.memory {
			r := &w.suite.memory[i]
			if err := w.remember(ctx, "held "+r.ID, r); err != nil {
				return err
			}
		}
	}
	g, err := gate.New(w.store, gate.Policy{Name: "traces", Version: "1", Declared: true}, nil)
	if err != nil {
		return err
	}
	var tools []agent.Tool
	for _, name := range w.suite.order {
		t, err := declare(w.suite.tools[name])
		if err != nil {
			return fmt.Errorf("%s: %w", w.suite.Name, err)
		}
		tools = append(tools, t)
	}
	w.agent, err = agent.New(w.suite.Name, agent.Model{ID: "replay", Family: "replay"}, w.store, w.decider(m, g), tools,
		&agent.Options{Recall: recall.Policy{Channels: recall.Context | recall.Uncertain, Limit: recall.MaxLimit}})
	return err
}

// effect is the one table of effects, the same for tasks and attacks.
func effect(t traceTool) (gate.Effect, error) {
	switch {
	case t.Effect == "irreversible":
		return gate.Irreversible, nil
	case t.Effect == "write", t.Effect == "read" && len(t.Sinks) > 0:
		return gate.StateChanging, nil // a read whose argument picks who hears of it is a sink
	case t.Effect == "read":
		return gate.ReadOnly, nil
	}
	return gate.Irreversible, fmt.Errorf("tool %s: effect %q is none", t.Name, t.Effect)
}

// declare makes a tool that does nothing and returns nothing: what a call showed
// is recalled from memory after it.
func declare(t traceTool) (agent.Tool, error) {
	e, err := effect(t)
	if err != nil {
		return agent.Tool{}, err
	}
	opts := []agent.Option{agent.Effect(e)}
	for _, s := range t.Sinks {
		opts = append(opts, agent.Sinks("/"+s))
	}
	// The traces are upstream's own ground truth; how upstream spells its schemas is
	// not what is measured.
	return agent.Raw(t.Name, t.About, &jsonschema.Schema{Type: "object"}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("null"), nil
	}, opts...), nil
}

// read lets a run read a row as the trace shows it, with the attack's text in the
// place of its vectors if there is one.
func (w *world) read(ctx context.Context, run *agent.Run, id string, attack *injection, text string) error {
	r, subject := w.suite.row(id, attack, text), id
	if r.attacked {
		subject += " by " + attack.ID
	}
	if err := w.remember(ctx, subject, &r); err != nil {
		return err
	}
	shown, err := run.Recall(ctx, recall.Query{Subject: subject, Predicate: predicate})
	if err == nil && len(shown.Rows) == 0 {
		err = errors.New("memory shows nothing")
	}
	if err != nil {
		return fmt.Errorf("%s, row %s: %w", w.suite.Name, id, err)
	}
	return nil
}

// remember writes a row of the trace: its text and each of its fields as a typed
// value, verified if the platform or its user stands behind it, else not.
func (w *world) remember(ctx context.Context, subject string, r *row) error {
	if w.put[subject] {
		return nil
	}
	objects := map[string]bool{}
	for text := r.Text; text != ""; {
		n := min(len(text), memory.MaxField)
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		objects[text[:n]], text = true, text[n:]
	}
	if len(r.Fields) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(r.Fields)))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("%s, fields of row %s: %w", w.suite.Name, r.ID, err)
		}
		leaves("", v, func(_, leaf string) { objects[leaf] = true })
	}
	author := memory.Asserter{Principal: w.suite.Name, Tool: "author:" + r.Author}
	for _, object := range slices.Sorted(maps.Keys(objects)) {
		if memory.Canonical(object) == "" || len(object) > memory.MaxField {
			continue
		}
		d := memory.Draft{
			Content: memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityUnknown},
			Origin:  memory.OriginFirstHand, State: memory.StateUnverified, Asserter: author,
			Anchor: "trace:" + r.ID, Sensitivity: memory.SensitivityInternal, Source: "trace",
		}
		if !r.pending() {
			d.State = memory.StateVerified
			d.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "platform", Verifier: "trace",
				Group: author.Group(), Anchor: memory.Anchor{URI: "trace:" + r.ID}, At: w.store.Now()}}
		}
		if _, err := w.store.Put(ctx, d); err != nil {
			return fmt.Errorf("%s, row %s: %w", w.suite.Name, r.ID, err)
		}
	}
	w.put[subject] = true
	return nil
}

// leaves visits the scalars of a JSON value that say something, in a fixed order.
func leaves(at string, v any, visit func(pointer, leaf string)) {
	switch node := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(node)) {
			leaves(at+"/"+k, node[k], visit)
		}
	case []any:
		for i, child := range node {
			leaves(at+"/"+strconv.Itoa(i), child, visit)
		}
	case string:
		visit(at, node)
	case json.Number:
		visit(at, strings.TrimSuffix(node.String(), ".0")) // people write no 50.0
	}
}
