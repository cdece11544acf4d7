package agent

import (
	"encoding/json"
	"math/big"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
)

// shortToken is the length, in characters, under which a value vouches for
// nothing: it stands in too many texts by chance (gate lesson L2).
const shortToken = 3

// smallInteger is the size under which an integer vouches for nothing.
const smallInteger = 1000

// sinks says where each sink argument came from, as far as the runtime itself
// can show it. The model is not asked.
func (r *Run) sinks(c gate.Contract, args json.RawMessage) []gate.Sink {
	v := decode(args)
	var out []gate.Sink
	if c.Sinks == nil {
		walk("", v, func(p string, leaf any) { out = append(out, r.sink(p, leaf)) })
		return out
	}
	for _, p := range c.Sinks {
		if sub, found := lookup(v, p); found {
			walk(p, sub, func(p string, leaf any) { out = append(out, r.sink(p, leaf)) })
		}
	}
	return out
}

func (r *Run) sink(p string, leaf any) gate.Sink {
	s := gate.Sink{Pointer: p}
	value, ok := scalar(leaf)
	s.Value = value
	switch {
	case !ok || vouchesNothing(leaf, value):
		s.Source = gate.SourceShort
	case r.ledger.typedSpan(value):
		s.Source = gate.SourcePrincipal
	default:
		if id, found := r.ledger.rowWith(value); found {
			s.Source, s.Row = gate.SourceRow, id
		}
	}
	return s
}

// vouchesNothing reports whether a value is too small to show where it came from.
func vouchesNothing(leaf any, value string) bool {
	switch leaf.(type) {
	case bool:
		return true
	case json.Number:
		f, ok := new(big.Rat).SetString(value)
		return ok && f.IsInt() && f.Num().CmpAbs(big.NewInt(smallInteger)) < 0
	}
	return utf8.RuneCountInString(strings.TrimSpace(value)) < shortToken
}

// walk visits the scalar leaves of a JSON value in a fixed order, with their
// pointers. Keys of objects are leaves too where a tool takes free-form objects;
// a schema without additional properties has none that the model chose.
func walk(at string, v any, visit func(pointer string, leaf any)) {
	switch node := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(node))
		for k := range node {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			walk(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), node[k], visit)
		}
	case []any:
		for i, child := range node {
			walk(at+"/"+strconv.Itoa(i), child, visit)
		}
	default:
		visit(at, v)
	}
}
