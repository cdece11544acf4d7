package agent

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/gate"
)

// shortToken is the length, in characters, under which a value vouches for
// nothing: it stands in too many texts by chance (gate lesson L2).
const shortToken = 3

// smallInteger is the size under which an integer vouches for nothing.
const smallInteger = 1000

// sinks says where each sink argument came from, as far as the runtime itself
// can show it. The model is not asked.
func (r *Run) sinks(t *Tool, args json.RawMessage) []gate.Sink {
	v := decode(args)
	var out []gate.Sink
	visit := func(p string, leaf any) { out = append(out, r.sink(p, leaf)) }
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
	return out
}

func (r *Run) sink(p string, leaf any) gate.Sink {
	s := gate.Sink{Pointer: p}
	value, ok := scalar(leaf)
	s.Value = value
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
		s.Source, s.Row = gate.SourceRow, row
	}
	return s
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
			p := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(k)
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
