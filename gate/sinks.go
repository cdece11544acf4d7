package gate

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// GivenSinks are the declared sinks that the arguments of a call give. ok is false if the
// declaration narrows nothing, since the arguments do not say where the harm of the call
// is decided: a declared sink is not there or holds nothing, but for those that are
// declared optional and are left out, or none is there. What decides is then up to the
// tool: every scalar argument is a sink, as if none was declared, and the call is judged
// by its whole run. args must be in canonical form; anything else gives none.
//
// A sink is left out if it is absent, null, "", [] or {}. One that holds nothing but
// such values and white space is not left out and holds nothing, declared optional or
// not.
func (c *Contract) GivenSinks(args json.RawMessage) (pointers []string, ok bool) {
	v, ok := parsed(args)
	if !ok {
		return nil, false
	}
	return c.given(v)
}

func (c *Contract) given(args any) (pointers []string, ok bool) {
	for _, p := range c.Sinks {
		switch v, found := find(args, p); {
		case found && !hollow(v):
			pointers = append(pointers, p)
		case leftOut(v) && slices.Contains(c.Optional, p) && !respelled(args, p): // find gives nil for what is absent
		default:
			return nil, false
		}
	}
	return pointers, len(pointers) > 0
}

// respelled reports whether the arguments have a member that a decoder of the tool takes for
// one that a pointer names, and that is spelled otherwise.
func respelled(v any, pointer string) bool {
	if pointer == "" {
		return false
	}
	steps := strings.Split(pointer, "/")[1:]
	step := unescapePointer.Replace(steps[0])
	rest := strings.Join(append([]string{""}, steps[1:]...), "/")
	switch node := v.(type) {
	case map[string]any:
		for name, child := range node {
			if name == step && respelled(child, rest) || name != step && memory.FoldMember(name) == memory.FoldMember(step) {
				return true
			}
		}
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node) {
			return respelled(node[i], rest)
		}
	}
	return false
}

// leftOut reports whether a value is one that says "none".
func leftOut(v any) bool {
	switch node := v.(type) {
	case nil:
		return true
	case string:
		return node == ""
	case []any:
		return len(node) == 0
	case map[string]any:
		return len(node) == 0
	}
	return false
}

// hollow reports whether nothing in a value says anything. The name of a member does.
func hollow(v any) bool {
	switch node := v.(type) {
	case string:
		return strings.TrimSpace(node) == ""
	case []any:
		return !slices.ContainsFunc(node, func(child any) bool { return !hollow(child) })
	}
	return leftOut(v)
}

// find is the value that an RFC 6901 pointer names in a JSON value.
func find(v any, pointer string) (any, bool) {
	if pointer == "" {
		return v, true
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = unescapePointer.Replace(step)
		switch node := v.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) || strconv.Itoa(i) != step {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

var unescapePointer = strings.NewReplacer("~1", "/", "~0", "~")

// covered reports whether every declared sink is among the sinks that were shown, but
// for optional ones, and at least one is.
func (r *Request) covered(t *terms) bool {
	any := false
	for _, p := range r.Contract.Sinks {
		switch {
		case slices.ContainsFunc(r.Sinks, func(s Sink) bool { return under(s.Pointer, p) }):
			any = true
		case t.everySink || !slices.Contains(r.Contract.Optional, p):
			return false
		}
	}
	return any
}

// leftOut is a declared sink of the call that nothing was given for; "" if there is none.
func (r *Request) leftOut() string {
	for _, p := range r.Contract.Optional {
		if !slices.ContainsFunc(r.Sinks, func(s Sink) bool { return under(s.Pointer, p) }) {
			return p
		}
	}
	return ""
}
