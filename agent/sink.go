package agent

import (
	"context"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
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
	shown := r.sinks(t, call)
	unseen, above, unknown := call.rows()
	if rivals := r.rivals(t, call); len(rivals) > 0 {
		up, err := r.agent.store.Closure(ctx, rivals...)
		if err != nil {
			unknown = "the lineage of a row that it takes a value from could not be traced"
		}
		unseen, above = append(unseen, rivals...), append(above, up...)
	}
	for i := range shown {
		if t.contract.Corroborate {
			if id, up, found := r.corroborate(ctx, &shown[i]); found {
				unseen, above = append(unseen, id), append(above, up...)
			}
		}
		sinks = append(sinks, shown[i].Sink)
	}
	now.add(unseen, above, unknown)
	unseen = slices.DeleteFunc(slices.Clone(now.direct), r.ledger.shown)
	return now, sinks, unseen
}

// rivals are the rows that were not shown, since a better one says otherwise, and that an
// argument has the value of: one that the principal did not type and no row of the run has.
func (r *Run) rivals(t *Tool, call *bound) (ids []memory.ID) {
	walk("", decode(call.args), t.schema, func(_ string, leaf any) {
		if value, ok := scalar(leaf); ok && !r.ledger.typedSpan(value) {
			ids = append(ids, r.ledger.rival(value)...)
		}
	})
	return ids
}

// shownSink is a sink with what its value may be cleared by.
type shownSink struct {
	gate.Sink
	kind    gate.Kind // what the sink picks; none for an address in a text
	typed   bool      // only a value of that kind clears it
	hearsay bool      // some row of the run has the value, and none that clears it
}

// sinks says where each sink argument came from, as far as the runtime itself
// can show it. The model is not asked.
func (r *Run) sinks(t *Tool, call *bound) []shownSink {
	v := decode(call.args)
	var out []shownSink
	typed := t.contract.Precision == gate.TypedSinks
	given, narrowed := t.contract.GivenSinks(call.args)
	if !narrowed {
		walk("", v, t.schema, func(p string, leaf any) { out = append(out, r.sink(t, call, p, leaf, gate.KindNone, false)) })
	}
	for _, p := range given {
		sub, _ := lookup(v, p)
		schema := t.schema
		for _, step := range pointer(p) {
			schema = below(schema, step)
		}
		walk(p, sub, schema, func(p2 string, leaf any) { out = append(out, r.sink(t, call, p2, leaf, t.contract.Kinds[p], typed)) })
	}
	if typed {
		for _, target := range gate.Targets(call.args, t.contract.Sinks) {
			s := r.sink(t, call, target.Pointer, target.Value, gate.KindNone, true)
			s.Value = target.Value
			out = append(out, s)
		}
	}
	return out
}

func (r *Run) sink(t *Tool, call *bound, p string, leaf any, kind gate.Kind, typed bool) shownSink {
	s := shownSink{Sink: gate.Sink{Pointer: p}, kind: kind, typed: typed}
	value, ok := scalar(leaf)
	s.Value = value
	if ref, bound := call.handles[p]; bound && ref.says(leaf) {
		if s.Source = gate.SourceShort; ref.part == "" && r.clears(&s, &ref.rows[0]) {
			s.Source, s.Row = gate.SourceHandle, ref.rows[0].ID
		}
		return s
	}
	_, isBool := leaf.(bool)
	if !ok || isBool || strings.TrimSpace(value) == "" {
		s.Source = gate.SourceShort // it names nothing that somebody could have given
		r.blames(t, call, &s, leaf)
		return s
	}
	spoken := r.ledger.typedSpan(value)
	if n, isNumber := leaf.(json.Number); isNumber {
		spoken = r.ledger.typedNumber(n) // by value: the sign and the size count, the spelling does not
	}
	row, found := r.rowOf(leaf, value, func(predicate string) bool { return r.picks(&s, predicate) })
	_, said := r.rowOf(leaf, value, func(string) bool { return true })
	s.hearsay = said && !found
	switch {
	case !spoken && !said && r.ledger.identified(value):
		s.Source = gate.SourceIdentifier
	case !spoken && !said && r.proves(&s, t, leaf):
		s.Source = gate.SourceComputed
	case !spoken && !said: // from nowhere, however small: an invented amount is an invention
	case vouchesNothing(leaf, value):
		if s.Source, s.hearsay = gate.SourceShort, false; !spoken {
			r.blames(t, call, &s, leaf)
		}
	case spoken && !(typed && (kind == gate.KindNone || kind.Directs()) && r.ledger.wasAsked(value)):
		s.Source = gate.SourcePrincipal
	case found:
		s.Source, s.Row = gate.SourceRow, row.ID
		s.Restores = r.restores(t, call, &s, &row)
	default: // somebody gave it, and nobody who can clear it
		s.Source = gate.SourceShort
	}
	return s
}

// blames keeps the row of a value that vouches for nothing, if that row is history, says it of
// the kind that the sink picks, and nothing that stands says it: what the run was told then
// is told no more, however short it is.
func (r *Run) blames(t *Tool, call *bound, s *shownSink, leaf any) {
	if s.Value == "" || s.kind == gate.KindNone {
		return
	}
	kind := func(predicate string) bool { return slices.Contains(r.agent.opts.Kinds[predicate], s.kind) }
	row, found := r.rowOf(leaf, s.Value, kind)
	if found && row.Truth == memory.TruthSuperseded {
		s.Source, s.Row = gate.SourceRow, row.ID
		s.Restores = r.restores(t, call, s, &row)
	}
}

// restores reports whether the argument sets the very thing that the row says.
func (r *Run) restores(t *Tool, call *bound, s *shownSink, row *memory.Row) bool {
	for _, set := range t.contract.Sets {
		if set.Pointer == s.Pointer && together(set.Subject, decode(call.args)) == row.Content.Subject &&
			slices.ContainsFunc(facts(row), func(f fact) bool { return f.predicate == set.Predicate && f.object == s.Value }) {
			return true
		}
	}
	return false
}

// proves reports whether an argument that may be computed is, and says from what.
func (r *Run) proves(s *shownSink, t *Tool, leaf any) bool {
	n, isNumber := leaf.(json.Number)
	if !isNumber || t.contract.Derivation(s.Pointer).Kind != gate.KindAmount {
		return false
	}
	how, found := r.computed(n)
	s.Computed = how
	return found
}

// pending are the rows that sinks were taken from and that are not verified.
func (r *Run) pending(sinks []gate.Sink) (ids []memory.ID) {
	for i := range sinks {
		if s := &sinks[i]; s.Source == gate.SourceRow && !r.ledger.fit(s.Row) && !slices.Contains(ids, s.Row) {
			ids = append(ids, s.Row)
		}
	}
	return ids
}

// rowOf finds the row of the run that holds a value: a number by what it is worth.
func (r *Run) rowOf(leaf any, value string, may func(predicate string) bool) (memory.Row, bool) {
	row, found := r.ledger.rowWith(value, may)
	if n, isNumber := leaf.(json.Number); isNumber && !found {
		row, found = r.ledger.rowWithNumber(n, may)
	}
	return row, found
}

// clears reports whether a row may clear a sink, if it is fit: with typed sinks only one
// whose predicate is registered for what the sink picks. That some verified row holds a
// number does not make it an amount. An address in a text is cleared by what says where
// something goes.
func (r *Run) clears(s *shownSink, row *memory.Row) bool {
	return !s.typed || row.Content.Typed() && r.picks(s, row.Content.Predicate)
}

// picks reports whether what stands under a predicate may clear a sink.
func (r *Run) picks(s *shownSink, predicate string) bool {
	return !s.typed || slices.ContainsFunc(r.agent.opts.Kinds[predicate], func(k gate.Kind) bool {
		return k == s.kind || s.kind == gate.KindNone && k.Directs()
	})
}

// corroborated is how many rows a value is looked for in.
const corroborated = 200

// corroborate looks in memory for a verified row that says what an unverified row of
// the run says, and lets it vouch in its place. It vouches for the value, as if the
// run had recalled it, and not for what is asked to be done with it.
func (r *Run) corroborate(ctx context.Context, s *shownSink) (id memory.ID, up []memory.ID, found bool) {
	if !s.hearsay && (s.Source != gate.SourceRow || r.ledger.fit(s.Row)) {
		return "", nil, false
	}
	known, _, err := r.agent.store.Find(ctx, memory.Lookup{Text: s.Value, Principal: r.principal, Limit: corroborated})
	if err != nil {
		return "", nil, false // what nobody could look up vouches for nothing
	}
	var best *memory.Row
	for i := range known {
		k := new(known[i].For(r.principal))
		if k.Content.Typed() && k.Content.Object == s.Value && r.clears(s, k) && standing(k) > 0 && (best == nil || standing(k) > standing(best)) {
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
// the same. A number in a string is read as the number that it is.
func vouchesNothing(leaf any, value string) bool {
	if _, isNumber := leaf.(json.Number); !isNumber && utf8.RuneCountInString(strings.TrimSpace(value)) < shortToken {
		return true
	}
	return slices.ContainsFunc(readings(value), func(n *big.Rat) bool {
		return n.IsInt() && n.Num().CmpAbs(big.NewInt(smallInteger)) < 0
	})
}

// readings are the numbers that a text can be read as: in the digits of any script, with
// a sign, a currency or a per cent beside it, with groups, and with a comma or a point
// before the fraction. None, if it is not a number.
func readings(text string) (out []*big.Rat) {
	text = strings.TrimFunc(memory.Plain(text), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.Sc, r) || strings.ContainsRune("+-−#%~=().,", r)
	})
	for _, spelling := range []string{
		text,
		strings.NewReplacer(",", "", " ", "", "'", "", "’", "", "_", "").Replace(text),
		strings.NewReplacer(".", "", ",", ".", " ", "", "'", "", "’", "", "_", "").Replace(text),
	} {
		if n, ok := number(spelling); ok {
			out = append(out, n)
		}
	}
	return out
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
