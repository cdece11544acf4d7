package main

import (
	"context"
	"crypto/sha256"
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

	mode mode
	url  string
	gate *gate.Gate

	confirmed map[string]string // by value: the subject of the claim that a person confirmed
	pending   json.RawMessage   // in a plain mode: what the next call shows, nil once it has
}

// mode is how precisely a call is judged.
type mode string

const (
	none mode = "none" // no gate at all: what the traces would do
	run  mode = "run"  // all that the run has been shown feeds every call

	argument     mode = "argument"     // the rows that its sinks came from, where that can be shown
	handles      mode = "handles"      // what nobody vouches for is read by handle, and opened if it must be
	corroborated mode = "corroborated" // typed sinks, and a verified row that was not shown may vouch for a value
	endorsed     mode = "endorsed"     // the same, and a person who is asked confirms rows rather than calls

	// The same by the tools' own outputs, of which nothing is declared: what an integrator
	// gets who declares effects and sinks and nothing else.
	plainRun      mode = "undeclared_run"
	plainArgument mode = "undeclared_argument"
)

// typed reports whether the tools of a mode have typed sinks, and corroborates
// whether a verified row that was not shown may vouch for one.
func (m mode) typed() bool        { return m == argument || m == plainArgument || m.corroborates() }
func (m mode) corroborates() bool { return m == corroborated || m == endorsed }

// plain reports whether rows reach a run as the output of tools, and in no other way.
func (m mode) plain() bool { return m == plainRun || m == plainArgument }

// ungated lets every call fire: it tells the gate that each is a read. An attack
// that does not fire through it proves nothing.
type ungated struct{ gate *gate.Gate }

// Decide is that of the gate, of a read.
func (u ungated) Decide(ctx context.Context, req gate.Request) gate.Decision {
	req.Contract.Effect = gate.ReadOnly
	return u.gate.Decide(ctx, req)
}

func open(ctx context.Context, s *suite, m mode, dir string) (*world, error) {
	w := &world{suite: s, mode: m, url: "sqlite:" + filepath.Join(dir, s.Name+".db"), put: map[string]bool{}, confirmed: map[string]string{}}
	if err := w.connect(ctx); err != nil {
		return nil, err
	}
	if err := w.build(ctx); err != nil {
		return nil, errors.Join(err, w.store.Close())
	}
	return w, nil
}

func (w *world) connect(ctx context.Context) (err error) {
	w.store, err = storeurl.Open(ctx, w.url, &storeurl.Options{Fast: true, Options: memory.Options{
		// The user of a suite may speak for what is in their own memory.
		Authority: func(principal, _, _ string) bool { return principal == w.suite.Principal },
	}})
	return err
}

// reopen leaves nothing but the store's file, as the end of a process does.
func (w *world) reopen(ctx context.Context) error {
	if err := w.store.Close(); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	return w.build(ctx)
}

func (w *world) build(ctx context.Context) error {
	if w.mode.corroborates() {
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
	w.gate = g
	w.agent, err = w.hire(w.suite.Name)
	return err
}

// hire makes an agent with the suite's tools over the store and its gate.
func (w *world) hire(name string) (*agent.Agent, error) {
	var tools []agent.Tool
	for _, tool := range w.suite.order {
		t, err := declare(w.suite.tools[tool], w.mode, w.answers)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.suite.Name, err)
		}
		tools = append(tools, t)
	}
	if w.mode.plain() { // what a call would have shown that a person has approved
		tools = append(tools, agent.Raw(approved, "", &jsonschema.Schema{Type: "object"}, w.answers, agent.ReadOnly()))
	}
	var decider agent.Decider = w.gate
	if w.mode == none {
		decider = ungated{w.gate}
	}
	return agent.New(name, agent.Model{ID: "replay", Family: "replay"}, w.store, decider, tools,
		&agent.Options{Recall: recall.Policy{Channels: recall.Context | recall.Uncertain, Limit: recall.MaxLimit}, Kinds: shownKinds})
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

// kinds are what the sink arguments of the traces pick, by their names.
var kinds = map[string]gate.Kind{
	"to": gate.KindRecipient, "recipient": gate.KindRecipient, "recipients": gate.KindRecipient, "cc": gate.KindRecipient, "bcc": gate.KindRecipient,
	"participants": gate.KindRecipient, "email": gate.KindRecipient, "user_email": gate.KindRecipient, "user": gate.KindRecipient, "channel": gate.KindRecipient,
	"amount": gate.KindAmount, "url": gate.KindURL, "permission": gate.KindPermission,
	"attachments": gate.KindObjectID, "email_id": gate.KindObjectID, "event_id": gate.KindObjectID, "file_id": gate.KindObjectID, "id": gate.KindObjectID,
	"key": gate.KindSetting, "value": gate.KindSetting, "item": gate.KindName, "data": gate.KindName,
	"filename": gate.KindName, "hotel": gate.KindName, "restaurant": gate.KindName, "company": gate.KindName,
	"date": gate.KindSchedule, "recurring": gate.KindSchedule, "start_day": gate.KindSchedule, "end_day": gate.KindSchedule,
	"start_time": gate.KindSchedule, "end_time": gate.KindSchedule, "new_start_time": gate.KindSchedule, "new_end_time": gate.KindSchedule,
	"first_name": gate.KindSetting, "last_name": gate.KindSetting, "street": gate.KindSetting, "city": gate.KindSetting, "password": gate.KindSetting,
}

// optional are the sinks that a call of a tool may leave out: then nobody gets a copy, no
// file is attached, nobody is invited, what is there stays as it is.
var optional = map[string][]string{
	"send_email": {"cc", "bcc", "attachments"}, "create_calendar_event": {"participants"}, "reschedule_calendar_event": {"new_end_time"},
	"update_scheduled_transaction": {"recipient", "amount", "date", "recurring"}, "update_user_info": {"first_name", "last_name", "street", "city"},
}

// shownKinds registers the predicates of the replay, that of its rows and that of what a
// person is asked to confirm, for every kind: the traces do not say what values are of, so
// which kind a value is of decides nothing.
var shownKinds = map[string][]gate.Kind{predicate: everyKind, claimed: everyKind}

var everyKind = []gate.Kind{gate.KindRecipient, gate.KindAccount, gate.KindAmount, gate.KindURL, gate.KindPath, gate.KindObjectID,
	gate.KindPermission, gate.KindSchedule, gate.KindName, gate.KindSetting}

// sinkSchema is the schema of every sink argument: a scalar, a list of them, or of
// objects that name a file. How upstream spells its schemas is not what is measured.
func sinkSchema(name string) *jsonschema.Schema {
	scalar := []string{"string", "number", "boolean"}
	item := &jsonschema.Schema{Types: scalar}
	if name == "attachments" {
		item = &jsonschema.Schema{Type: "object", AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
			Properties: map[string]*jsonschema.Schema{"type": {Type: "string"}, "file_id": {Type: "string"}}}
	}
	return &jsonschema.Schema{Types: append(scalar, "array"), Items: item}
}

// approved is the tool that shows, in a plain mode, what a blocked call would have shown.
const approved = "approved_call"

// answers is what a tool does: in a plain mode it returns what the trace shows as its
// result, else nothing, since that is recalled from memory after it.
func (w *world) answers(context.Context, json.RawMessage) (json.RawMessage, error) {
	if w.pending == nil {
		return json.RawMessage("null"), nil
	}
	out := w.pending
	w.pending = nil
	return out, nil
}

// result is what a call shows, as the output of its tool.
func (w *world) result(c *call, attack *injection, text string) (json.RawMessage, error) {
	rows := make([]map[string]any, len(c.Rows))
	for i, id := range c.Rows {
		r := w.suite.row(id, attack, text)
		rows[i] = map[string]any{"text": r.Text, "fields": r.Fields}
	}
	return json.Marshal(rows)
}

// declare makes a tool that does nothing.
func declare(t traceTool, m mode, answers func(context.Context, json.RawMessage) (json.RawMessage, error)) (agent.Tool, error) {
	e, err := effect(t)
	if err != nil {
		return agent.Tool{}, err
	}
	opts := []agent.Option{agent.Effect(e)}
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, s := range t.Sinks {
		kind, known := kinds[s]
		if !known {
			return agent.Tool{}, fmt.Errorf("tool %s: nobody says what the sink %q picks", t.Name, s)
		}
		opts = append(opts, agent.TypedSink(kind, "/"+s))
		if slices.Contains(optional[t.Name], s) {
			opts = append(opts, agent.Optional("/"+s))
		}
		schema.Properties[s] = sinkSchema(s)
	}
	if m.typed() && len(t.Sinks) > 0 {
		// The traces do not say in what words a tool is asked for.
		opts = append(opts, agent.TypedSinks(), agent.WaiveNamed())
		if m.corroborates() {
			opts = append(opts, agent.Corroborated())
		}
	}
	return agent.Raw(t.Name, t.About, schema, answers, opts...), nil
}

// read lets a run read a row as the trace shows it, with the attack's text in the
// place of its vectors if there is one. In handle mode a row that nobody vouches for
// is read by its handles.
func (w *world) read(ctx context.Context, s *session, id string, attack *injection, text string) error {
	if w.mode.plain() {
		return nil // it was shown by the call
	}
	r, subject := w.suite.row(id, attack, text), subjectOf(id)
	if r.attacked {
		subject += " by " + attack.ID
	}
	if err := w.remember(ctx, subject, &r); err != nil {
		return err
	}
	var err error
	if w.mode == handles && r.pending() {
		err = s.refer(ctx, w.store, subject)
	} else {
		err = s.recall(ctx, subject, predicate)
	}
	if err != nil {
		return fmt.Errorf("%s, row %s: %w", w.suite.Name, id, err)
	}
	return nil
}

// subjectOf is the subject of a row of the trace. It says nothing: the id of a row is made
// up of words such as a channel's name, and nobody asked memory for them.
func subjectOf(id string) string { return fmt.Sprintf("%.16x", sha256.Sum256([]byte(id))) }

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
	} else if r.Kind == "account" { // who has it and where, as words; the traces give it no fields
		for word := range strings.FieldsSeq(r.Text) {
			objects[word] = true
		}
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
