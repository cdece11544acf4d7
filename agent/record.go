package agent

import (
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// Record declares that the value at a JSON pointer of the output, "" for all of it, is a
// record of the system of record: an object, a list, a map. It becomes one verified row of
// rank tool. The subject is what the arguments at the pointers say, as with
// [Authoritative]; with none it is the principal, whose account the tool then reads.
//
// The row holds what the output schema closes: numbers, booleans, strings of an enum or a
// const, dates and times. Any other string, and a member that the schema does not name,
// may have been written by a stranger, and stays third-party text unless
// [WrittenByOperator] or [Identifier] names its place. The schema is that of the Go type,
// or the one given with [OutputSchema]; a server's own does not close anything.
//
// A value in the record vouches for an argument as an authoritative field does, with its
// place behind the predicate: that of "/items/3/price" in a record "order" counts as
// "order/items/*/price" in [Options.Kinds].
func Record(field, predicate string, subject ...string) Option {
	return func(t *Tool) {
		t.contract.Output = append(t.contract.Output, gate.OutputField{Pointer: field, Trust: gate.Record,
			Predicate: predicate, Subject: slices.Clone(subject), Cardinality: memory.CardinalityFunctional})
	}
}

// RecordAbout is [Record] of a tool that tells everybody the same: its subject is the given
// name, whoever asks and whatever account the tool uses.
func RecordAbout(subject, field, predicate string) Option {
	return func(t *Tool) {
		t.contract.Output = append(t.contract.Output, gate.OutputField{Pointer: field, Trust: gate.Record,
			Predicate: predicate, About: subject, Cardinality: memory.CardinalityFunctional})
	}
}

// WrittenByOperator says that whoever runs the system of record, and nobody else, writes
// the strings at these JSON pointers of a [Record]: the title of a product, the text of a
// status. A step that is * stands for every element of a list, and for every member of a
// map, whose name then is the operator's too. Nothing but this option makes free text part
// of a record.
func WrittenByOperator(pointers ...string) Option {
	return func(t *Tool) { t.contract.Operator = append(t.contract.Operator, pointers...) }
}

// Sets declares that the argument at a JSON pointer sets what a system of record says under a
// predicate, of the subject at the other pointers. The predicate may be that of a [Record]
// ("order"), of which any value may then be ours, or a place in one ("order/status",
// "order/items/0/price"). A call that can be put back may then set a thing to what the run knows it
// was before. Anywhere else a value that is history is held as superseded.
func Sets(argument, predicate string, subject ...string) Option {
	return func(t *Tool) {
		t.contract.Sets = append(t.contract.Sets, gate.Setting{Pointer: argument, Predicate: predicate, Subject: slices.Clone(subject)})
	}
}

// Withheld keeps from the model what no declaration of the output covers. In its place
// stands the token of a [Handle], which the model may pass on as a whole argument; the call
// then rests on the text, and no other call does until somebody opens it ([Run.Open]).
// Result.Withheld has the handles. Without it the model reads all, and what a stranger may
// have written feeds whatever the run does next.
func Withheld() Option { return func(t *Tool) { t.withholds = true } }

// ErrorTexts declares errors of the tool that say nothing of anybody else's: one whose whole
// text is one of these becomes no row, and taints nothing.
func ErrorTexts(texts ...string) Option {
	return func(t *Tool) { t.contract.ErrorTexts = append(t.contract.ErrorTexts, texts...) }
}

// ServerOutputSchema is [OutputSchema] as the server that offers the tool describes its
// output. Pointers are held to it, and it closes no [Record]: a server does not choose how
// far it is believed.
func ServerOutputSchema(s *jsonschema.Schema) Option {
	return func(t *Tool) { t.answers, t.claimed = s, true }
}

// maxWithheld is how many handles one answer gets. What is withheld beyond them is in its
// row, and has no handle.
const maxWithheld = 200

// withheldMember is the name under which an object shows the members that its schema does
// not name.
const withheldMember = "withheld"

// parting takes an output apart: into records, into the rest, and into what is shown.
type parting struct {
	tool    *Tool
	gone    map[string]bool             // what fields of their own hold, by pointer
	records map[string]any              // what the schema closes, by the pointer of the record; to be filled
	open    []open                      // what is withheld
	repeats func(at string, v any) bool // a value, or a name, that a call of ours set, and nobody vouches for
}

// open is a text that is withheld: its token, and the text.
type open struct{ token, text string }

// part takes the value at a place apart. held are the schemas that it is held to; in says
// that it lies in a record. kept is what belongs to the record, rest what nobody vouches
// for, shown what the model sees; taken stands for nothing.
func (p *parting) part(v any, at string, held []*jsonschema.Schema, in bool) (kept, rest, shown any) {
	if p.gone[at] {
		return taken{}, taken{}, v
	}
	if _, is := p.records[at]; is && !in {
		kept, rest, shown = p.part(v, at, held, true)
		p.records[at] = kept
		return taken{}, rest, shown
	}
	if !in && !p.within(at) {
		return taken{}, v, p.withhold(v)
	}
	switch node := v.(type) {
	case map[string]any:
		return p.object(node, at, held, in)
	case []any:
		return p.list(node, at, held, in)
	}
	if in && p.tool.closes(v, at, held) && !p.repeats(at, v) {
		return v, taken{}, v
	}
	return taken{}, v, p.withhold(v)
}

func (p *parting) object(node map[string]any, at string, held []*jsonschema.Schema, in bool) (kept, rest, shown any) {
	k, r, s, strange := map[string]any{}, map[string]any{}, map[string]any{}, map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(node)) {
		path := at + "/" + escape.Replace(name)
		next := p.member(held, name)
		if len(next) == 0 && in && p.tool.operators(path, true) && !p.repeats(at, name) && !p.repeats(path, name) {
			next = p.mapped(held, name)
		}
		if len(next) == 0 && !p.gone[path] && !p.within(path) {
			strange[name], r[name] = node[name], node[name]
			continue
		}
		ck, cr, cs := p.part(node[name], path, next, in)
		if _, nothing := ck.(taken); !nothing {
			k[name] = ck
		}
		if !accounted(cr) {
			r[name] = cr
		}
		s[name] = cs
	}
	switch {
	case len(strange) == 0:
	case p.tool.withholds:
		name := withheldMember
		for node[name] != nil {
			name += "_"
		}
		s[name] = p.withhold(strange)
	default:
		maps.Copy(s, strange)
	}
	kept, rest, shown = k, r, s
	if len(k) == 0 && (len(node) > 0 || !in) {
		kept = taken{}
	}
	if len(r) == 0 {
		rest = taken{}
	}
	return kept, rest, shown
}

func (p *parting) list(node []any, at string, held []*jsonschema.Schema, in bool) (kept, rest, shown any) {
	k, r, s := make([]any, len(node)), make([]any, len(node)), make([]any, len(node))
	some, whole := len(node) == 0 && in, true
	for i, child := range node {
		k[i], r[i], s[i] = p.part(child, at+"/"+strconv.Itoa(i), p.element(held, i), in)
		if _, nothing := k[i].(taken); !nothing {
			some = true
		}
		whole = whole && accounted(r[i])
	}
	kept, rest, shown = k, r, s
	if !some {
		kept = taken{}
	}
	if whole {
		rest = taken{}
	}
	return kept, rest, shown
}

// within reports whether something is declared at a place or below it.
func (p *parting) within(at string) bool {
	for declared := range p.gone {
		if covers(at, declared) {
			return true
		}
	}
	for declared := range p.records {
		if covers(at, declared) {
			return true
		}
	}
	return false
}

// withhold is what is shown of what nobody vouches for.
func (p *parting) withhold(v any) any {
	if !p.tool.withholds {
		return v
	}
	if len(p.open) == maxWithheld {
		return "(withheld)"
	}
	token := handlePrefix + strings.ToLower(rand.Text())
	p.open = append(p.open, open{token, legible(encode(v))})
	return token
}

// closes reports whether a scalar of a record is one that no stranger could have written:
// its schema says that it is a number, a boolean, null, a date or a time, or one of listed
// words, and it is; or the operator writes it.
func (t *Tool) closes(v any, at string, held []*jsonschema.Schema) bool {
	if s, is := v.(string); is && t.operators(at, false) && slices.ContainsFunc(held, text) {
		return len(s) <= memory.MaxField && !memory.Hides(s) && !strings.ContainsFunc(s, unicode.IsControl)
	}
	for _, schema := range held {
		types := slices.Clone(schema.Types)
		if schema.Type != "" {
			types = append(types, schema.Type)
		}
		only := func(names ...string) bool {
			return len(types) > 0 && !slices.ContainsFunc(types, func(name string) bool { return name != "null" && !slices.Contains(names, name) })
		}
		switch leaf := v.(type) {
		case nil:
			return true
		case bool:
			if only("boolean") {
				return true
			}
		case interface{ String() string }: // a number
			if text := leaf.String(); only("number", "integer") && len(text) <= maxNumber {
				return true
			}
		case string:
			if schema.Const != nil && *schema.Const == any(leaf) || slices.Contains(schema.Enum, any(leaf)) || dated(schema.Format, leaf) {
				return true
			}
		}
	}
	return false
}

// text reports whether a schema lets a string through.
func text(s *jsonschema.Schema) bool {
	return s.Type == "string" || slices.Contains(s.Types, "string") || s.Type == "" && len(s.Types) == 0
}

// dated reports whether a text is a date or a time, as the format of a schema says.
func dated(format, text string) bool {
	layout := map[string]string{"date": time.DateOnly, "date-time": time.RFC3339Nano, "time": time.TimeOnly}[format]
	if layout == "" || len(text) > maxNumber {
		return false
	}
	_, err := time.Parse(layout, text)
	return err == nil
}

// operators reports whether the operator writes the string at a place, or, if name is set,
// the name of the member there.
func (t *Tool) operators(at string, name bool) bool {
	steps := pointer(at)
	for _, p := range t.contract.Operator {
		of := pointer(p)
		if len(of) < len(steps) || !name && len(of) != len(steps) || name && of[len(steps)-1] != "*" {
			continue
		}
		if matches(of[:len(steps)], steps) {
			return true
		}
	}
	return false
}

// matches reports whether steps are those of a pattern, in which * is any step.
func matches(pattern, steps []string) bool {
	for i := range steps {
		if pattern[i] != "*" && pattern[i] != steps[i] {
			return false
		}
	}
	return true
}

// bound are all schemas that a value is held to because it is held to these. No branch of
// an alternative is among them.
func (p *parting) bound(held ...*jsonschema.Schema) (out []*jsonschema.Schema) {
	shape := p.tool.output
	if shape == nil || p.tool.claimed {
		return nil
	}
	for queue := held; len(queue) > 0; queue = queue[1:] {
		next := queue[0]
		if slices.Contains(out, next) {
			continue
		}
		out = append(out, next)
		if to := shape.refs[next]; to != nil {
			queue = append(queue, to)
		}
		queue = append(queue, next.AllOf...)
	}
	return out
}

// member and element are the schemas of a part, none if it is not named.
func (p *parting) member(held []*jsonschema.Schema, name string) (out []*jsonschema.Schema) {
	for _, s := range held {
		if of := s.Properties[name]; of != nil {
			out = append(out, p.bound(of)...)
		}
	}
	return out
}

// mapped are the schemas of a member of a map.
func (p *parting) mapped(held []*jsonschema.Schema, name string) (out []*jsonschema.Schema) {
	for _, s := range held {
		for pattern, of := range s.PatternProperties {
			if re, err := regexp.Compile(pattern); err == nil && re.MatchString(name) {
				out = append(out, p.bound(of)...)
			}
		}
		if s.AdditionalProperties != nil && !never(s.AdditionalProperties) {
			out = append(out, p.bound(s.AdditionalProperties)...)
		}
	}
	return out
}

func (p *parting) element(held []*jsonschema.Schema, i int) (out []*jsonschema.Schema) {
	for _, s := range held {
		switch {
		case i < len(s.PrefixItems):
			out = append(out, p.bound(s.PrefixItems[i])...)
		case i < len(s.ItemsArray):
			out = append(out, p.bound(s.ItemsArray[i])...)
		case s.Items != nil:
			out = append(out, p.bound(s.Items)...)
		}
	}
	return out
}

// recorded are the records that the answer has.
func (a *answer) recorded(args any, d gate.Decision) (fields []*gate.OutputField) {
	for i := range a.tool.contract.Output {
		f := &a.tool.contract.Output[i]
		if f.Trust == gate.Record && d.Believes(f) && len(a.documents) <= 1 && a.run.subject(a.tool, f, args) != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// part makes records of what is declared one, and keeps the rest from the model if the tool
// withholds it.
func (a *answer) part(args, output any, d gate.Decision) {
	t := a.tool
	fields := a.recorded(args, d)
	if len(fields) == 0 && !t.withholds {
		return
	}
	for {
		p := parting{tool: t, gone: a.gone, records: map[string]any{}, repeats: func(at string, v any) bool { return a.repeats(fields, args, at, v) }}
		for _, f := range fields {
			p.records[f.Pointer] = taken{}
		}
		var root []*jsonschema.Schema
		if t.output != nil {
			root = p.bound(t.output.root)
		}
		_, rest, shown := p.part(output, "", root, false)
		var drafts []memory.Draft
		var made []string
		at := slices.IndexFunc(fields, func(f *gate.OutputField) bool {
			kept := p.records[f.Pointer]
			if _, nothing := kept.(taken); nothing {
				return false
			}
			draft := a.claim(f, a.run.subject(t, f, args), string(encode(kept)), t.worstIn(f.Pointer), d)
			draft.Category = recordCategory
			drafts, made = append(drafts, draft), append(made, f.Pointer)
			return draft.Check() != nil
		})
		if at >= 0 { // the store takes no such claim: it stays third-party text
			fields = slices.Delete(fields, at, at+1)
			continue
		}
		a.drafts, a.records, a.rest, a.shown, a.open, a.parted = append(a.drafts, drafts...), made, rest, shown, p.open, true
		return
	}
}

// repeats reports whether a value of a record is one that a call set which rested on what was
// not fit. What the answer leaves to third parties is then made from the rows of that call.
func (a *answer) repeats(fields []*gate.OutputField, args any, at string, v any) (ours bool) {
	text, ok := scalar(v)
	if !ok {
		return false
	}
	for _, f := range fields {
		if !covers(f.Pointer, at) {
			continue
		}
		mark := a.asked[lineOf(&memory.Content{Subject: a.run.subject(a.tool, f, args), Predicate: f.Predicate})]
		ours = a.ours(mark, f.Predicate+at[len(f.Pointer):], text) || ours
	}
	return ours
}

// ours reports whether a value at a place in a record is one that a call set, as a mark knows.
func (a *answer) ours(mark memory.LineMark, place, value string) bool {
	rows, whole, ours := mark.OwnWrite(place, value)
	if ours {
		a.repeated, a.unsure = append(a.repeated, rows...), a.unsure || !whole
	}
	return ours
}

// recordCategory is the category of a row that is a record: it alone is taken apart. A text
// that looks like one is a text.
const recordCategory = "record"

// facts are what a row says, one by one: of a record each value in it, under its predicate
// and the place, in which * is any element of a list.
func facts(r *memory.Row) []fact {
	if !r.Content.Typed() {
		return nil
	}
	whole := fact{r.Content.Predicate, r.Content.Object}
	if r.Origin != memory.OriginFirstHand || r.Category != recordCategory {
		return []fact{whole}
	}
	out := []fact{whole}
	var visit func(at string, v any)
	visit = func(at string, v any) {
		switch node := v.(type) {
		case map[string]any:
			for name, child := range node {
				visit(at+"/"+escape.Replace(name), child)
			}
		case []any:
			for _, child := range node {
				visit(at+"/*", child)
			}
		default:
			if text, ok := scalar(v); ok && at != whole.predicate {
				out = append(out, fact{at, text})
			}
		}
	}
	visit(whole.predicate, decode([]byte(r.Content.Object)))
	return out
}

// fact is a value under a predicate.
type fact struct{ predicate, object string }
