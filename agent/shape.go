package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits of a schema. Servers write schemas, and whatever holds a call to one must come
// to an end, soon.
const (
	maxSchemaText = 512 << 10 // bytes of the schema in JSON
	maxSchemas    = 10_000    // schemas within it
	maxNesting    = 64        // of schemas within schemas
	maxPaths      = 8 << 20   // bytes of the pointers to all of them
	maxBranches   = 4096      // schemas that one value is held to at once
	maxChain      = 64        // of schemas that hand the same value on to one another
	maxPattern    = 1000      // bytes of a regular expression
	maxPatterns   = 100       // regular expressions
	maxProgram    = 10_000    // steps that one is compiled to
)

// shape is a schema within the limits, with what is needed to walk it. The nil shape is
// that of what nobody described: it has room for everything.
type shape struct {
	root     *jsonschema.Schema
	resolved *jsonschema.Resolved
	paths    map[*jsonschema.Schema]string
	parts    map[*jsonschema.Schema][]part
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	programs map[string]int // what a regular expression costs for each byte, by its text
	weights  map[*jsonschema.Schema]int
}

// ReadSchema reads a JSON Schema that somebody else wrote, such as a server. One that
// may not be used is an error: more than 512 KiB, too deep, a reference that leaves the
// schema or leads back to itself without taking the value apart, too many branches for
// one value, or a regular expression that is too large.
func ReadSchema(text []byte) (*jsonschema.Schema, error) {
	if len(text) > maxSchemaText {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), maxSchemaText)
	}
	if nesting(text) > 3*maxNesting {
		return nil, errors.New("nested too deeply")
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	_, err := newShape(&s)
	return &s, err
}

// nesting is how deep the brackets of a JSON text go.
func nesting(text []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// newShape holds a schema to the limits.
func newShape(root *jsonschema.Schema) (*shape, error) {
	s := &shape{root: root, paths: map[*jsonschema.Schema]string{}, parts: map[*jsonschema.Schema][]part{}, refs: map[*jsonschema.Schema]*jsonschema.Schema{},
		programs: map[string]int{}, weights: map[*jsonschema.Schema]int{}}
	at := map[string]*jsonschema.Schema{}
	if err := s.collect(root, "", 0, new(int), at); err != nil {
		return nil, err
	}
	if err := s.link(at); err != nil {
		return nil, err
	}
	if err := s.bounded(); err != nil {
		return nil, err
	}
	text, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	if len(text) > maxSchemaText {
		return nil, fmt.Errorf("%d bytes, at most %d", len(text), maxSchemaText)
	}
	if s.resolved, err = root.Resolve(nil); err != nil {
		return nil, err
	}
	return s, nil
}

// collect visits every schema of the tree, and refuses what is no tree.
func (s *shape) collect(schema *jsonschema.Schema, path string, depth int, bytes *int, at map[string]*jsonschema.Schema) error {
	if schema == nil {
		return fmt.Errorf("at %q: no schema", clean(path, 100))
	}
	if _, twice := s.paths[schema]; twice {
		return fmt.Errorf("at %q: a schema that stands elsewhere too", clean(path, 100))
	}
	*bytes += len(path)
	switch {
	case depth > maxNesting:
		return fmt.Errorf("more than %d schemas deep", maxNesting)
	case len(s.paths) == maxSchemas || *bytes > maxPaths:
		return fmt.Errorf("more than %d schemas in it, or names that are too long", maxSchemas)
	case schema.DynamicRef != "" || schema.DynamicAnchor != "":
		return fmt.Errorf("at %q: $dynamicRef is not supported", clean(path, 100))
	case schema.ID != "" && schema != s.root:
		return fmt.Errorf("at %q: an $id within a schema is not supported", clean(path, 100))
	case schema.Items != nil && schema.ItemsArray != nil:
		return fmt.Errorf("at %q: items twice", clean(path, 100))
	}
	s.paths[schema], at[path] = path, schema
	if err := s.weigh(schema, path); err != nil {
		return err
	}
	s.parts[schema] = within(schema)
	for _, c := range s.parts[schema] {
		if err := s.collect(c.schema, path+c.step, depth+1, bytes, at); err != nil {
			return err
		}
	}
	return nil
}

// weigh keeps what the words of one schema cost a value that is held to them.
func (s *shape) weigh(schema *jsonschema.Schema, path string) error {
	patterns := []string{schema.Pattern}
	for p := range schema.PatternProperties {
		patterns = append(patterns, p)
	}
	for _, p := range patterns {
		if _, have := s.programs[p]; have || p == "" {
			continue
		}
		size, err := program(p)
		if err != nil || len(s.programs) == maxPatterns {
			return fmt.Errorf("at %q: a regular expression that is wrong or too large, or one too many", clean(path, 100))
		}
		s.programs[p] = size
	}
	words := []any{schema.Enum, schema.Required, schema.DependentRequired, schema.DependencyStrings}
	if schema.Const != nil {
		words = append(words, *schema.Const)
	}
	text, err := json.Marshal(words)
	if err != nil {
		return fmt.Errorf("at %q: %w", clean(path, 100), err)
	}
	s.weights[schema] = visitCost + len(path) + len(text)
	return nil
}

// program is the size of a regular expression as it is run.
func program(pattern string) (int, error) {
	if len(pattern) > maxPattern {
		return 0, errors.New("too long")
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	if steps(parsed) > maxProgram {
		return 0, errors.New("too large")
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, err
	}
	if len(prog.Inst) > maxProgram {
		return 0, errors.New("too large")
	}
	return len(prog.Inst), nil
}

// steps is about how many steps an expression is compiled to, told without doing it.
func steps(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/2
	for _, sub := range re.Sub {
		n = min(n+steps(sub), maxProgram+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return min(n, maxProgram+1)
}

// part is a schema within a schema.
type part struct {
	step    string // of the pointer to it, with the slash before
	schema  *jsonschema.Schema
	inPlace bool // it is held against the same value, not against a part of it
}

// within are the schemas within one, one level down, in a fixed order of kinds.
func within(s *jsonschema.Schema) (out []part) {
	one := func(step string, c *jsonschema.Schema, inPlace bool) {
		if c != nil {
			out = append(out, part{"/" + step, c, inPlace})
		}
	}
	list := func(step string, cs []*jsonschema.Schema, inPlace bool) {
		for i, c := range cs {
			out = append(out, part{"/" + step + "/" + strconv.Itoa(i), c, inPlace})
		}
	}
	named := func(step string, cs map[string]*jsonschema.Schema, inPlace bool) {
		for name, c := range cs {
			out = append(out, part{"/" + step + "/" + escape.Replace(name), c, inPlace})
		}
	}
	list("allOf", s.AllOf, true)
	list("anyOf", s.AnyOf, true)
	list("oneOf", s.OneOf, true)
	one("not", s.Not, true)
	one("if", s.If, true)
	one("then", s.Then, true)
	one("else", s.Else, true)
	named("dependentSchemas", s.DependentSchemas, true)
	named("dependencies", s.DependencySchemas, true)
	named("properties", s.Properties, false)
	named("patternProperties", s.PatternProperties, false)
	one("additionalProperties", s.AdditionalProperties, false)
	one("propertyNames", s.PropertyNames, false)
	one("unevaluatedProperties", s.UnevaluatedProperties, false)
	list("prefixItems", s.PrefixItems, false)
	one("items", s.Items, false)
	list("items", s.ItemsArray, false)
	one("additionalItems", s.AdditionalItems, false)
	one("contains", s.Contains, false)
	one("unevaluatedItems", s.UnevaluatedItems, false)
	one("contentSchema", s.ContentSchema, false)
	named("$defs", s.Defs, false)
	named("definitions", s.Definitions, false)
	return out
}

// link finds what each $ref means: a place in the same schema, by its pointer.
func (s *shape) link(at map[string]*jsonschema.Schema) error {
	for schema, path := range s.paths {
		if schema.Ref == "" {
			continue
		}
		u, err := url.Parse(schema.Ref)
		if err != nil || !strings.HasPrefix(schema.Ref, "#") {
			return fmt.Errorf("at %q: a $ref that leaves the schema", clean(path, 100))
		}
		steps := strings.Split(u.Fragment, "/")
		for i := range steps {
			steps[i] = escape.Replace(strings.NewReplacer("~1", "/", "~0", "~").Replace(steps[i]))
		}
		target := at[strings.Join(steps, "/")]
		if target == nil {
			return fmt.Errorf("at %q: $ref %q is no pointer into the schema", clean(path, 100), clean(schema.Ref, 100))
		}
		s.refs[schema] = target
	}
	return nil
}

// inPlace are the schemas that a value is held to because it is held to this one.
func (s *shape) inPlace(schema *jsonschema.Schema) (out []*jsonschema.Schema) {
	if to := s.refs[schema]; to != nil {
		out = append(out, to)
	}
	for _, c := range s.parts[schema] {
		if c.inPlace {
			out = append(out, c.schema)
		}
	}
	return out
}

// bounded refuses a schema that hands a value round in a circle, or to too many.
func (s *shape) bounded() error {
	type reach struct{ branches, chain int }
	known, open := map[*jsonschema.Schema]reach{}, map[*jsonschema.Schema]bool{}
	var measure func(schema *jsonschema.Schema, depth int) (reach, error)
	measure = func(schema *jsonschema.Schema, depth int) (reach, error) {
		if r, have := known[schema]; have {
			return r, nil
		}
		if open[schema] {
			return reach{}, fmt.Errorf("at %q: it refers to itself and takes nothing apart", clean(s.paths[schema], 100))
		}
		open[schema] = true
		r := reach{branches: 1, chain: 1}
		for _, next := range s.inPlace(schema) {
			n, err := measure(next, depth+1)
			if err != nil {
				return reach{}, err
			}
			r.branches, r.chain = min(r.branches+n.branches, maxBranches+1), max(r.chain, n.chain+1)
		}
		delete(open, schema)
		known[schema] = r
		if r.branches > maxBranches || r.chain > maxChain {
			return reach{}, fmt.Errorf("at %q: more than %d branches, or %d in a chain, for one value", clean(s.paths[schema], 100), maxBranches, maxChain)
		}
		return r, nil
	}
	for schema := range s.paths {
		if _, err := measure(schema, 0); err != nil {
			return err
		}
	}
	return nil
}

// views are a schema and all that the same value is held to with it.
func (s *shape) views(schemas []*jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	for len(schemas) > 0 {
		next := schemas[0]
		schemas = schemas[1:]
		if slices.Contains(out, next) || never(next) {
			continue
		}
		out = append(out, next)
		for _, c := range s.inPlace(next) {
			if c != next.Not {
				schemas = append(schemas, c)
			}
		}
	}
	return out
}

// never reports whether a schema is false: it lets nothing through.
func never(s *jsonschema.Schema) bool {
	return s != nil && s.Not != nil && reflect.ValueOf(*s.Not).IsZero()
}

// lacks says why a pointer finds nothing in any value that the schema describes; "" if
// it may find something. Where the schema names members, a pointer to another one is a
// slip, whether or not the schema lets others through; where it names none and is not
// closed, nothing is known and any name may be right.
func (s *shape) lacks(p string) string { return s.lacking(p, false) }

// lacking is lacks; maps says that a step * may also be the name of any member that the
// schema does not name.
func (s *shape) lacking(p string, maps bool) string {
	if p != "" && p[0] != '/' || badEscape.MatchString(p) {
		return "is not a JSON pointer"
	}
	if s == nil {
		return ""
	}
	here := []*jsonschema.Schema{s.root}
	for i, step := range pointer(p) {
		views := s.views(here)
		var (
			next  []*jsonschema.Schema
			names []string
			open  bool
		)
		if step == "*" {
			next, open = s.any(views, maps)
		} else {
			next, names, open = s.step(views, step)
		}
		switch {
		case len(next) > 0:
			here = next
		case len(names) > 0:
			slices.Sort(names)
			names = slices.Compact(names)
			more := ""
			if len(names) > 20 {
				names, more = names[:20], ", …"
			}
			return fmt.Sprintf("the schema has no %q at %q, only %s%s", step, "/"+strings.Join(pointer(p)[:i], "/"), strings.Join(names, ", "), more)
		case open:
			return ""
		default:
			return fmt.Sprintf("the schema has no %q at %q", step, "/"+strings.Join(pointer(p)[:i], "/"))
		}
	}
	if len(s.views(here)) == 0 {
		return "the schema lets no value through there"
	}
	return ""
}

// any goes from a value to any element of the list that it is, or, if maps is set, to any
// member that is not named. open says that nothing is known of the value.
func (s *shape) any(views []*jsonschema.Schema, maps bool) (next []*jsonschema.Schema, open bool) {
	open = len(views) > 0
	for _, v := range views {
		open = open && v.Type == "" && len(v.Types) == 0
		next = append(append(next, v.PrefixItems...), v.ItemsArray...)
		next = append(next, v.Items, v.AdditionalItems)
		if maps {
			next = append(next, v.AdditionalProperties)
			for _, c := range v.PatternProperties {
				next = append(next, c)
			}
		}
	}
	return slices.DeleteFunc(next, func(c *jsonschema.Schema) bool { return c == nil || never(c) }), open
}

var badEscape = regexp.MustCompile(`~(?:[^01]|$)`)

// step goes from a value one step on: to the schemas of the part, if any names it. names
// are the members that are named in its place. open says that nothing is known of the
// parts.
func (s *shape) step(views []*jsonschema.Schema, step string) (next []*jsonschema.Schema, names []string, open bool) {
	var rest []*jsonschema.Schema
	index, err := strconv.Atoi(step)
	isIndex := err == nil && index >= 0 && strconv.Itoa(index) == step
	shut := false
	for _, v := range views {
		types := slices.Clone(v.Types)
		if v.Type != "" {
			types = append(types, v.Type)
		}
		object, list := len(types) == 0 || slices.Contains(types, "object"), len(types) == 0 || slices.Contains(types, "array")
		if object {
			for name, c := range v.Properties {
				if name == step {
					next = append(next, c)
				} else {
					names = append(names, name)
				}
			}
			for p, c := range v.PatternProperties {
				if re, err := regexp.Compile(p); err == nil && re.MatchString(step) {
					next = append(next, c)
				}
			}
			for _, c := range []*jsonschema.Schema{v.AdditionalProperties, v.UnevaluatedProperties} {
				shut = shut || never(c)
				if c != nil {
					rest = append(rest, c)
				}
			}
		}
		if list && isIndex {
			items := v.PrefixItems
			if v.ItemsArray != nil {
				items = v.ItemsArray
			}
			switch {
			case index < len(items):
				next = append(next, items[index])
			case v.Items != nil:
				next = append(next, v.Items)
			case v.AdditionalItems != nil:
				next = append(next, v.AdditionalItems)
			}
		}
		open = open || object && len(types) > 0 || list && len(types) > 0 && isIndex
	}
	// Nobody gave a type: then anything may be there.
	open = open || len(views) > 0 && !slices.ContainsFunc(views, func(v *jsonschema.Schema) bool { return v.Type != "" || len(v.Types) > 0 })
	next = slices.DeleteFunc(next, never)
	if len(next) == 0 && len(names) == 0 && !shut {
		next = slices.DeleteFunc(rest, never)
	}
	return next, names, open && !shut
}
