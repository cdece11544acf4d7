package agent

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// shortToken is the length, in characters, under which a value vouches for
// nothing: it stands in too many texts by chance (gate lesson L2).
const shortToken = 3

// smallInteger is the size under which an integer vouches for nothing.
const smallInteger = 1000

// inputs are what a call is made from: the ledger with what its handles and its
// corroborating rows add, where each sink came from, and the rows among them that the
// run was not shown.
func (r *Run) inputs(ctx context.Context, t *Tool, call *bound) (now snapshot, sinks []gate.Sink, unseen []memory.ID) {
	now = r.ledger.snapshot()
	sinks = r.sinks(t, call)
	unseen, above, unknown := call.rows()
	if t.contract.Corroborate {
		for i := range sinks {
			if id, up, found := r.corroborate(ctx, &sinks[i]); found {
				unseen, above = append(unseen, id), append(above, up...)
			}
		}
	}
	now.add(unseen, above, unknown)
	unseen = slices.DeleteFunc(unseen, r.ledger.shown)
	return now, sinks, unseen
}

// sinks says where each sink argument came from, as far as the runtime itself
// can show it. The model is not asked.
func (r *Run) sinks(t *Tool, call *bound) []gate.Sink {
	v := decode(call.args)
	var out []gate.Sink
	visit := func(p string, leaf any) { out = append(out, r.sink(call, p, leaf)) }
	if t.contract.Sinks == nil {
		walk("", v, t.schema, visit)
		return out
	}
	for _, p := range t.contract.Sinks {
		if sub, found := lookup(v, p); found {
			schema := t.schema
			for _, step := range pointer(p) {
				schema = below(schema, step)
			}
			walk(p, sub, schema, visit)
		}
	}
	if t.contract.Precision == gate.TypedSinks {
		for _, target := range gate.Targets(call.args, t.contract.Sinks) {
			s := r.sink(call, target.Pointer, target.Value)
			s.Value = target.Value
			out = append(out, s)
		}
	}
	return out
}

func (r *Run) sink(call *bound, p string, leaf any) gate.Sink {
	s := gate.Sink{Pointer: p}
	value, ok := scalar(leaf)
	s.Value = value
	if ref, bound := call.handles[p]; bound && ref.says(leaf) {
		s.Source, s.Row = gate.SourceHandle, ref.rows[0].ID
		return s
	}
	_, isBool := leaf.(bool)
	if !ok || isBool || strings.TrimSpace(value) == "" {
		s.Source = gate.SourceShort // it names nothing that somebody could have given
		return s
	}
	spoken := r.ledger.typedSpan(value)
	row, found := r.ledger.rowWith(value)
	if n, isNumber := leaf.(json.Number); isNumber {
		spoken = r.ledger.typedNumber(n) // by value: the sign and the size count, the spelling does not
		if !found {
			row, found = r.ledger.rowWithNumber(n)
		}
	}
	switch {
	case !spoken && !found: // from nowhere, however small: an invented amount is an invention
	case vouchesNothing(leaf, value):
		s.Source = gate.SourceShort
	case spoken:
		s.Source = gate.SourcePrincipal
	default:
		s.Source, s.Row = gate.SourceRow, row.ID
	}
	return s
}

// corroborated is how many rows a value is looked for in.
const corroborated = 200

// corroborate looks in memory for a verified row that says what an unverified row of
// the run says, and lets it vouch in its place. It vouches for the value, as if the
// run had recalled it, and not for what is asked to be done with it.
func (r *Run) corroborate(ctx context.Context, s *gate.Sink) (id memory.ID, up []memory.ID, found bool) {
	if s.Source != gate.SourceRow || r.ledger.fit(s.Row) {
		return "", nil, false
	}
	known, err := r.agent.store.Search(ctx, s.Value, corroborated)
	if err != nil {
		return "", nil, false // what nobody could look up vouches for nothing
	}
	var best *memory.Row
	for i := range known {
		k := &known[i]
		if k.Content.Typed() && k.Content.Object == s.Value && standing(k) > 0 && (best == nil || standing(k) > standing(best)) {
			best = k
		}
	}
	if best == nil {
		return "", nil, false
	}
	if up, err = r.agent.store.Closure(ctx, best.ID); err != nil {
		return "", nil, false
	}
	s.Source, s.Row = gate.SourceCorroborated, best.ID
	return best.ID, up, true
}

// choice says who named the tool: the principal, or a row.
func (r *Run) choice(t *Tool) gate.Sink {
	if !t.contract.Named {
		return gate.Sink{}
	}
	if slices.ContainsFunc(append([]string{t.name}, t.words...), r.ledger.typedWord) {
		return gate.Sink{Source: gate.SourcePrincipal}
	}
	if row, found := r.ledger.choosing(t.name); found {
		return gate.Sink{Source: gate.SourceRow, Row: row}
	}
	return gate.Sink{}
}

// vouchesNothing reports whether a value is too small to show where it came from.
// It is not from nowhere if somebody gave it; the whole run answers for it all
// the same.
func vouchesNothing(leaf any, value string) bool {
	if n, ok := leaf.(json.Number); ok {
		f, ok := new(big.Rat).SetString(n.String())
		return ok && f.IsInt() && f.Num().CmpAbs(big.NewInt(smallInteger)) < 0
	}
	return utf8.RuneCountInString(strings.TrimSpace(value)) < shortToken
}

// walk visits the scalar leaves of a JSON value in a fixed order, with their
// pointers. A name in an object is a leaf too, unless the schema declares it:
// the model chose it.
func walk(at string, v any, schema *jsonschema.Schema, visit func(pointer string, leaf any)) {
	switch node := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(node)) {
			p := at + "/" + escape.Replace(k)
			if schema == nil || schema.Properties[k] == nil {
				visit(p, k)
			}
			walk(p, node[k], below(schema, k), visit)
		}
	case []any:
		for i, child := range node {
			walk(at+"/"+strconv.Itoa(i), child, below(schema, ""), visit)
		}
	default:
		visit(at, v)
	}
}

// below is the schema of a member or an element; nil = nothing is known of it.
func below(schema *jsonschema.Schema, name string) *jsonschema.Schema {
	switch {
	case schema == nil:
		return nil
	case schema.Properties[name] != nil:
		return schema.Properties[name]
	case schema.Items != nil:
		return schema.Items
	}
	return schema.AdditionalProperties
}
