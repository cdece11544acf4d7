package agent

import (
	"math"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// What it may cost to hold the arguments of a call to a schema, in units of about ten
// nanoseconds.
const (
	maxCost   = 24 << 20
	visitCost = 32   // one value, one schema
	maxStack  = 1000 // schemas that are at work at once
)

// sized is a JSON value with what it costs to print or to compare it.
type sized struct {
	value   any
	size    int
	members map[string]*sized
	items   []*sized
}

func measured(v any) *sized {
	n := &sized{value: v, size: 8}
	switch node := v.(type) {
	case map[string]any:
		n.members = make(map[string]*sized, len(node))
		for name, child := range node {
			c := measured(child)
			n.members[name] = c
			n.size += 16 + len(name) + c.size
		}
	case []any:
		for _, child := range node {
			c := measured(child)
			n.items = append(n.items, c)
			n.size += 8 + c.size
		}
	case string:
		n.size += len(node)
	}
	return n
}

// affordable reports whether a value can be held to the schema in bounded time. It goes
// where the validation may go, as if no branch ended early, and gives up when that
// costs too much.
func (s *shape) affordable(v any) bool {
	b := budget{shape: s, left: maxCost}
	return b.visit(s.root, measured(v), 0)
}

type budget struct {
	*shape
	left int
}

func (b *budget) pay(cost int) bool {
	b.left -= cost
	return b.left >= 0
}

func (b *budget) visit(s *jsonschema.Schema, n *sized, depth int) bool {
	if depth > maxStack || !b.pay((b.weights[s]+n.size)*(1+depth/16)) {
		return false
	}
	for _, next := range b.first(s) {
		if !b.visit(next, n, depth+1) {
			return false
		}
	}
	if excluded(s, n.value) {
		return true // the validation ends here too
	}
	if text, ok := n.value.(string); ok && s.Pattern != "" && !b.pay(b.programs[s.Pattern]*len(text)) {
		return false
	}
	for _, c := range b.parts[s] {
		if c.inPlace && !b.visit(c.schema, n, depth+1) {
			return false
		}
	}
	return b.list(s, n, depth) && b.object(s, n, depth)
}

// first is what comes before the type of a value is looked at: what the schema refers to.
func (b *budget) first(s *jsonschema.Schema) []*jsonschema.Schema {
	if to := b.refs[s]; to != nil {
		return []*jsonschema.Schema{to}
	}
	return nil
}

// excluded reports whether a value is of none of the types of a schema.
func excluded(s *jsonschema.Schema, v any) bool {
	types := s.Types
	if s.Type != "" {
		types = []string{s.Type}
	}
	if types == nil {
		return false
	}
	is := "null"
	switch node := v.(type) {
	case map[string]any:
		is = "object"
	case []any:
		is = "array"
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case float64:
		if is = "number"; node == math.Trunc(node) && slices.Contains(types, "integer") {
			return false
		}
	}
	return !slices.Contains(types, is)
}

func (b *budget) list(s *jsonschema.Schema, n *sized, depth int) bool {
	if s.UniqueItems && !b.pay(8*n.size+200*len(n.items)) {
		return false
	}
	for i, item := range n.items {
		for _, fixed := range [][]*jsonschema.Schema{s.PrefixItems, s.ItemsArray} {
			if i < len(fixed) && !b.visit(fixed[i], item, depth+1) {
				return false
			}
		}
		for _, each := range []*jsonschema.Schema{s.Items, s.AdditionalItems, s.Contains, s.UnevaluatedItems} {
			if each != nil && !b.visit(each, item, depth+1) {
				return false
			}
		}
	}
	return true
}

func (b *budget) object(s *jsonschema.Schema, n *sized, depth int) bool {
	for name, member := range n.members {
		declared := s.Properties[name]
		if declared != nil && !b.visit(declared, member, depth+1) {
			return false
		}
		for pattern, each := range s.PatternProperties {
			if !b.pay(b.programs[pattern]*(1+len(name))) || !b.visit(each, member, depth+1) {
				return false
			}
		}
		if s.PropertyNames != nil && !b.visit(s.PropertyNames, measured(name), depth+1) {
			return false
		}
		for _, each := range []*jsonschema.Schema{s.AdditionalProperties, s.UnevaluatedProperties} {
			if each != nil && declared == nil && !b.visit(each, member, depth+1) {
				return false
			}
		}
	}
	return b.pay(visitCost * len(s.Properties))
}
