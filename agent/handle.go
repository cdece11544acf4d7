package agent

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// Errors of handles and forks.
var (
	// ErrNoHandle: the run was not given this handle.
	ErrNoHandle = errors.New("agent: no handle of this run")
	// ErrNotForked: the run is nobody's fork; see Run.Fork.
	ErrNotForked = errors.New("agent: not a fork")
)

// Handle stands for a row whose text its holder has not read. It says of the row only
// what a closed set of words can say. It is a value of one run and of its forks, and
// worth nothing elsewhere; the zero Handle is none.
type Handle struct {
	token string
	row   memory.ID
	label string
}

// Token is what the model puts in place of an argument, as the whole value. It holds
// 128 random bits and nothing of the row.
func (h Handle) Token() string { return h.token }

// Row is the row behind the handle. An id says nothing of what the row says.
func (h Handle) Row() memory.ID { return h.row }

// String is the line that a model may be shown: the token, and in words of a closed
// set what the value looks like, its verification state and its origin.
func (h Handle) String() string { return h.token + " (" + h.label + ")" }

// referred is what a handle stands for, kept in the ledger.
type referred struct {
	// rows are the row, and after it whatever else it was made from that its own closure
	// does not name; ancestors are the strict ancestors of them together.
	rows      []memory.Row
	ancestors []memory.ID
	unknown   string // why part of that is not known; "" = all is known
	part      string // what it stands for, if that is a part of what the rows say; see Withheld
	// asked is what was asked for when it was found, and words that a third party was asked
	// about; both count once the row is opened. See ledger.ask.
	asked, words []string
}

func (f *referred) direct() []memory.ID {
	ids := make([]memory.ID, len(f.rows))
	for i := range f.rows {
		ids[i] = f.rows[i].ID
	}
	return ids
}

// handlePrefix begins every handle, so that a model can tell one.
const handlePrefix = "hdl_"

// tokens finds what has the form of a handle.
var tokens = regexp.MustCompile(handlePrefix + `[a-z2-7]{26}`)

// RecallHandles reads memory as [Run.Recall] does, and gives a handle for each row in
// place of its text. The rows do not enter the run's context, so they are not in its
// ledger: a call that uses a handle rests on the row, and no other call does. Rows
// that are not fit are found too, whatever channels the agent's policy shows; its
// other limits hold.
//
// What a handle's holder learns is that there is a row, and its label.
func (r *Run) RecallHandles(ctx context.Context, q recall.Query) ([]Handle, error) {
	if err := r.readyIn(ctx); err != nil {
		return nil, err
	}
	policy := r.agent.opts.Recall
	policy.Channels = recall.Context | recall.Uncertain
	q.Principal = r.principal
	res, err := recall.Recall(ctx, r.agent.store, q, policy)
	if err != nil {
		return nil, fmt.Errorf("agent: recall: %w", err)
	}
	var out []Handle
	for _, row := range slices.Concat(res.Context, res.Uncertain) {
		h, err := r.refer(ctx, referred{rows: []memory.Row{row}, asked: r.asks(q)})
		if err != nil {
			return nil, err
		}
		out = append(out, h)
	}
	return out, nil
}

// refer makes a handle of the run for the first of some rows, which rests on the others
// too.
func (r *Run) refer(ctx context.Context, to referred) (Handle, error) {
	rows := slices.Clone(to.rows)
	for i := range rows {
		rows[i] = rows[i].For(r.principal)
	}
	to.rows = rows
	var err error
	if to.ancestors, err = r.agent.store.Closure(ctx, to.direct()...); err != nil {
		return Handle{}, fmt.Errorf("agent: tracing lineage: %w", err)
	}
	h := Handle{token: handlePrefix + strings.ToLower(rand.Text()), row: rows[0].ID, label: label(&rows[0])}
	r.ledger.refer(h.token, to)
	if r.agent.opts.Reads != nil {
		r.agent.opts.Reads.ObserveReads(ctx, []memory.ID{h.row}, 1)
	}
	return h, nil
}

// entrust makes handles of what an answer keeps from the model: each rests on all rows that
// hold it.
func (r *Run) entrust(ctx context.Context, parts []open, rows []memory.Row, asks []string) ([]Handle, error) {
	if len(parts) == 0 || len(rows) == 0 {
		return nil, nil
	}
	to := referred{asked: asks}
	for i := range rows {
		to.rows = append(to.rows, rows[i].For(r.principal))
	}
	var err error
	if to.ancestors, err = r.agent.store.Closure(ctx, to.direct()...); err != nil {
		return nil, fmt.Errorf("agent: tracing lineage: %w", err)
	}
	out := make([]Handle, len(parts))
	for i, p := range parts {
		to.part = p.text
		r.ledger.refer(p.token, to)
		out[i] = Handle{token: p.token, row: rows[0].ID, label: label(&rows[0])}
	}
	return out, nil
}

// label describes a row in words of a closed set: four looks, three states, four
// origins.
func label(row *memory.Row) string {
	value, look := row.Content.Object, "text"
	if !row.Content.Typed() {
		value = row.Content.Text
	}
	switch _, isNumber := number(value); {
	case isNumber:
		look = "number"
	case strings.Contains(value, "://") && identifier(value):
		look = "url"
	case strings.Contains(value, "@") && identifier(value):
		look = "address"
	}
	return look + ", " + row.State().String() + ", " + row.Origin.String()
}

// maxNumber is the length, in bytes, above which a text is read as no number.
const maxNumber = 64

// Open puts the rows behind handles into the run's context, and returns their tagged
// lines. From then on they feed the run like any row it has read.
func (r *Run) Open(ctx context.Context, handles ...Handle) (string, error) {
	if err := r.readyIn(ctx); err != nil {
		return "", err
	}
	var rows []memory.Row
	for _, h := range handles {
		ref, have := r.ledger.referred(h.token)
		if !have || h.row == "" {
			return "", ErrNoHandle
		}
		shown, err := r.rows(ctx, []memory.ID{ref.rows[0].ID}) // as it is now, not as it was
		if err != nil {
			return "", err
		}
		if err := r.enter(ctx, append(shown, ref.rows[1:]...)); err != nil {
			return "", err
		}
		if ref.unknown != "" {
			r.ledger.lose(ref.unknown)
		}
		if r.ledger.unfit(ref.direct()) {
			r.ledger.ask(append(ref.asked, shown[0].Content.Subject))
			r.ledger.askedBefore(ref.words)
		}
		if ref.part != "" {
			shown[0].Content = memory.Content{Text: ref.part, Cardinality: memory.CardinalityUnknown}
		}
		rows = append(rows, shown[0])
	}
	return recall.Instructed(r.agent.store.Now(), rows...), nil
}

// bound is a call's arguments with what its handles stand for in their place.
type bound struct {
	args    json.RawMessage
	given   json.RawMessage     // the same with the handles in them, as the model knows them
	handles map[string]referred // by the pointer of the argument
}

// bind puts what handles stand for in their place. Only a whole value is a handle: a
// token inside a longer text, or in the name of a member, is refused, and so is a
// value in the form of a token that is no handle of this run.
func (r *Run) bind(t *Tool, args json.RawMessage) (bound, error) {
	b := bound{args: args, given: args}
	if !strings.Contains(string(args), handlePrefix) {
		return b, nil
	}
	v, err := r.substitute(&b, "", decode(args), t)
	if err != nil {
		return bound{}, err
	}
	if len(b.handles) == 0 {
		return b, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return bound{}, handleError("", "cannot be put in place")
	}
	if b.args, err = gate.Canonical(text); err != nil {
		return bound{}, handleError("", "make arguments that are not valid")
	}
	return b, nil
}

func handleError(at, text string) error {
	return &gate.ArgumentError{Pointer: at, Rule: "handle", Text: "what handles stand for " + text}
}

// substitute walks a value and puts contents in the place of tokens.
func (r *Run) substitute(b *bound, at string, v any, t *Tool) (any, error) {
	switch node := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for name, child := range node {
			if tokens.MatchString(name) {
				return nil, handleError(at, "is a value, not a name")
			}
			var err error
			if out[name], err = r.substitute(b, at+"/"+escape.Replace(name), child, t); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(node))
		for i, child := range node {
			var err error
			if out[i], err = r.substitute(b, fmt.Sprintf("%s/%d", at, i), child, t); err != nil {
				return nil, err
			}
		}
		return out, nil
	case string:
		found := tokens.FindString(node)
		if found == "" {
			return node, nil
		}
		ref, have := r.ledger.referred(found)
		switch {
		case !have:
			return nil, handleError(at, "is not known: no handle of this run")
		case found != node:
			return nil, handleError(at, "takes the whole value, and no text beside it")
		}
		if b.handles == nil {
			b.handles = map[string]referred{}
		}
		b.handles[at] = ref
		schema := t.schema
		for _, step := range pointer(at) {
			schema = below(schema, step)
		}
		return ref.value(schema), nil
	}
	return v, nil
}

// value is what a tool gets for a handle: the typed object, a number where the schema
// wants one, or else the text.
func (f *referred) value(schema *jsonschema.Schema) any {
	c := f.rows[0].Content
	if f.part != "" {
		c = memory.Content{Object: f.part}
	}
	if !c.Typed() {
		return c.Text
	}
	wantsNumber := schema != nil && (schema.Type == "number" || schema.Type == "integer" ||
		slices.Contains(schema.Types, "number") || slices.Contains(schema.Types, "integer"))
	if n := json.Number(c.Object); wantsNumber && len(n) <= maxNumber && json.Valid([]byte(n)) {
		return n
	}
	return c.Object
}

// says reports whether a leaf is what the handle stands for, or stands in it. The name
// of a member has the pointer of its value, and the model chose the name.
func (f *referred) says(leaf any) bool {
	text, isText := leaf.(string)
	whole, _ := f.value(nil).(string)
	return !isText || text == whole || utf8.RuneCountInString(text) > shortToken && containsWord(whole, text)
}

// untrusted is the tool with nothing declared of its output: all of it is third-party
// text, and derived from what fed the call.
func (t *Tool) untrusted() *Tool {
	u := *t
	u.contract.Output, u.contract.ErrorTexts = nil, nil
	return &u
}

// rows are the rows that the handles add to a call, each once.
func (b *bound) rows() (direct, ancestors []memory.ID, unknown string) {
	for _, ref := range b.handles {
		direct, ancestors = append(direct, ref.direct()...), append(ancestors, ref.ancestors...)
		if unknown == "" {
			unknown = ref.unknown
		}
	}
	slices.Sort(direct)
	slices.Sort(ancestors)
	return slices.Compact(direct), slices.Compact(ancestors), unknown
}

// feeding is the ledger that feeds what a call starts: that of the run, and what its
// handles stand for.
func (b *bound) feeding(l *ledger) *ledger {
	if len(b.handles) == 0 {
		return l
	}
	l = l.fork()
	for _, ref := range b.handles {
		l.read(ref.rows, ref.ancestors)
		if ref.unknown != "" {
			l.lose(ref.unknown)
		}
	}
	return l
}
