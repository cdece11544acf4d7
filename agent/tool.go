package agent

import (
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// Tool is a sealed handle: the function inside is reachable only through
// [Run.Call]. Make one with [Func] or [Raw].
type Tool struct {
	name, description string
	contract          gate.Contract
	schema            *jsonschema.Schema
	answers           *jsonschema.Schema // the schema of the output; nil = it is not known
	arguments, output *shape
	parks             bool                                                    // a held call may be made by itself later
	words             []string                                                // by which the principal names the tool
	limit             int                                                     // of an answer, in bytes
	media             func(answer json.RawMessage) int                        // what does not count for it; nil = nothing
	cuts              func(answer json.RawMessage, limit int) json.RawMessage // leaves media and cuts the rest; nil = cannot
	call              func(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
	audience          string // the process it sends calls on to; see SendsTo
	discloses         disclosure
	delegates         bool              // it asks another agent
	claimed           bool              // answers is what a server says of its own output
	withholds         bool              // what no declaration covers is kept from the model
	told              *gate.OutputField // of another tool: what it says shows whether a call was made
	system            string            // of record, that it reads; "" = it is its own
	unnamed           bool              // and so nobody said it
	err               error             // of its declaration; New reports it
}

// Option declares something about a tool. What is not declared is assumed to be
// the worst: an undeclared effect is irreversible, an undeclared output field is
// third-party text (design D-23).
type Option func(*Tool)

// Effect declares what the tool does to the world.
func Effect(e gate.Effect) Option {
	return func(t *Tool) { t.contract.Effect, t.contract.Undeclared = e, false }
}

// ReadOnly declares that the tool changes nothing. It may be called with pending
// rows, up to its sensitivity ceiling.
func ReadOnly() Option { return Effect(gate.ReadOnly) }

// StateChanging declares that the tool changes something that can be put back.
func StateChanging() Option { return Effect(gate.StateChanging) }

// Irreversible declares that what the tool does cannot be undone. It is also
// what an undeclared tool counts as.
func Irreversible() Option { return Effect(gate.Irreversible) }

// AtLeast treats the tool as no milder than e, whatever the options before it
// declare. It is for adapters: what a server says of its own tool may tighten
// what the embedder declares, never loosen it.
func AtLeast(e gate.Effect) Option {
	return func(t *Tool) { t.contract.Effect = min(t.contract.Effect, e) }
}

// BlastRadius declares how far what one call changes may reach; undeclared, the
// outside world. A policy may hold calls that reach too far.
func BlastRadius(b gate.BlastRadius) Option { return func(t *Tool) { t.contract.BlastRadius = b } }

// Sinks declares, as JSON pointers into the arguments, where the harm of a call
// is decided: recipient, account, amount, path. Undeclared, every scalar
// argument is a sink.
func Sinks(pointers ...string) Option {
	return func(t *Tool) { t.contract.Sinks = append(t.contract.Sinks, pointers...) }
}

// Optional says that a call may leave out the sinks at these pointers, which [Sinks] or
// [TypedSink] declare. A sink that is not optional and is absent or empty leaves the call
// to its whole run and makes every scalar argument a sink, as if none was declared; so
// do optional sinks if no other sink is there. What is left out clears nothing: what the
// tool does without it must be harmless, and no schema says that.
func Optional(pointers ...string) Option {
	return func(t *Tool) { t.contract.Optional = append(t.contract.Optional, pointers...) }
}

// TypedSink declares sinks as [Sinks] does, and what they pick, which is a word of a
// closed list. A tool with [TypedSinks] needs it for each of its sinks.
func TypedSink(kind gate.Kind, pointers ...string) Option {
	return func(t *Tool) {
		if t.contract.Kinds == nil {
			t.contract.Kinds = map[string]gate.Kind{}
		}
		for _, p := range pointers {
			t.contract.Sinks, t.contract.Kinds[p] = append(t.contract.Sinks, p), kind
		}
	}
}

// TypedSinks has a call of the tool judged by the rows that its sinks came from, where
// the runtime can show that of each of them, and by the whole run where it cannot. Such a
// tool declares its effect and, with [TypedSink], at least one sink; if it cannot be undone,
// [Named] or [WaiveNamed] too. Each sink stands in the argument schema as a scalar, a list
// of scalars or an object of declared members. An agent with any other one is refused.
// docs/precision.md says what this clears and what it does not cover.
func TypedSinks() Option { return func(t *Tool) { t.contract.Precision = gate.TypedSinks } }

// Corroborated lets a verified row of memory that holds the very value of a sink, and
// that the run was not shown, vouch for the value if the run has it from an unverified
// row. It wants [TypedSinks], does not hold for what selects one of several genuine
// objects, and is off unless it is declared.
func Corroborated() Option { return func(t *Tool) { t.contract.Corroborate = true } }

// Named holds a call of the tool unless the principal typed its name, or one of the
// words, in this run, or a verified row that a person endorsed names it: one with the
// predicate [ChoicePredicate] and the tool's name as object. Letter case does not
// count. It does not understand a sentence: "do not delete it" names delete.
func Named(words ...string) Option {
	return func(t *Tool) { t.contract.Named, t.words = true, append(t.words, words...) }
}

// WaiveNamed says of an irreversible tool with [TypedSinks] that it does without [Named]:
// whoever wrote what a run has read may be the one who asks for the call, as long as all
// that it does it to was named by the principal or stands in fit rows.
func WaiveNamed() Option { return func(t *Tool) { t.contract.NamedWaived = true } }

// ChoicePredicate is the predicate of a row that names a tool to use, for [Named].
const ChoicePredicate = "tool"

// SameBy declares which arguments, by JSON pointer, say that two calls are the same one:
// a call with the same order and another wording is not another call. Undeclared, all of
// them do. While it is not known how a call ended, the same call is held, and one that
// cannot be undone after it was done, too. A refusal stands for each that is the same. An
// approval is for exactly its arguments: asked for in another wording, the call takes the
// place of the one that waits or was approved.
func SameBy(pointers ...string) Option {
	return func(t *Tool) { t.contract.Identity = append(t.contract.Identity, pointers...) }
}

// Repeatable lets a run make the same call of an irreversible tool again after it was done:
// of one that is meant to be, such as a message to a queue. Without it such a call is held
// (gate.AlreadyDone), since a model that repeats it has most often lost the first answer. A
// policy can take it back.
func Repeatable() Option { return func(t *Tool) { t.contract.Repeatable = true } }

// ShownBy declares what shows whether a call was made: what the system of record says of a
// predicate, in an [Authoritative] field of another tool. Its subject is what the arguments
// at the pointers name. A call that ended in doubt holds the same call. If it
// can be undone, a later reading of the run ends that. Declare it only of a system that shows
// a call as soon as it was made, and makes no call later that it does not show yet.
func ShownBy(predicate, subjectPointer string, more ...string) Option {
	return func(t *Tool) {
		t.contract.Shown = predicate
		t.told = &gate.OutputField{Predicate: predicate, Subject: append([]string{subjectPointer}, more...)}
	}
}

// Ceiling declares how sensitive the inputs of a call may be; undeclared, internal.
func Ceiling(s memory.Sensitivity) Option { return func(t *Tool) { t.contract.Ceiling = s } }

// MaxAge declares how long ago, at most, the rows that feed a call were verified.
func MaxAge(d time.Duration) Option { return func(t *Tool) { t.contract.MaxAge = d } }

// Authoritative declares that the output field at a JSON pointer is the system of
// record for a predicate. The subject is the argument at subjectPointer, or, if there are
// more pointers, all of them together: ["BER","MUC"]. The field is written as a verified
// row of rank tool; the rest of the output stays third-party text. A value that says that nothing
// is known ([memory.SaysNothing], [memory.Predicate]) is no answer: it becomes no row, and takes
// nothing from what was said before.
//
// What the tool says now supersedes what it said before of the same subject (I-16), unless the
// predicate is registered as set-valued: then both are so. So
// each argument must be part of the subject, or have the one value that [Fixed] gives it:
// of a call with any other argument nothing is believed, since that argument may choose
// which of several truths is told: as of when, in which currency, how many.
func Authoritative(field, predicate, subjectPointer string, more ...string) Option {
	return func(t *Tool) {
		t.contract.Output = append(t.contract.Output, gate.OutputField{Pointer: field, Trust: gate.Authoritative,
			Predicate: predicate, Subject: append([]string{subjectPointer}, more...), Cardinality: memory.CardinalityFunctional})
	}
}

// SystemOfRecord names the system that the tool reads, by an id that the operator gives it:
// "crm". Tools of one system, and a verifier of its name, count as one: what one of them says now
// supersedes what another said before, and none of them corroborates another. Evidence of a call
// names "call" as its verifier and the tool as its source. To stop believing a system, revoke each
// of its tools with --kind source. Undeclared, each tool counts by itself, under its name: tools of
// one name on two servers are one source.
func SystemOfRecord(id string) Option { return func(t *Tool) { t.system = id } }

// Server names the server that has the tool, by an id that the operator gives it, and the
// tool as the server knows it. Calls of tools of one name on two servers are different calls:
// neither holds the other. An id of "" is this program. A tool of "" changes nothing: the
// server knows the tool by the agent's name for it, or by the name that package agent/mcp
// found it under.
func Server(id, tool string) Option {
	return func(t *Tool) {
		if t.contract.Server = id; tool != "" {
			t.contract.AtServer = tool
		}
	}
}

// Fixed says that the argument at a JSON pointer, in exactly this value, leaves the
// [Authoritative] fields of the tool what they are without it. value is the text of a
// string, number or boolean. An argument that is null need not be fixed.
func Fixed(pointer, value string) Option {
	return func(t *Tool) {
		if t.contract.Fixed == nil {
			t.contract.Fixed = map[string]string{}
		}
		t.contract.Fixed[pointer] = value
	}
}

// Identifier declares that the output field at a JSON pointer is an id the system
// assigned. It taints nothing and vouches for nothing: that an id is genuine does
// not say that it is the right one to act on. A step of the pointer that is * stands for
// every element of a list. A value counts as one if it has at most 64
// bytes, all of A-Z, a-z, 0-9 and ._:- ; see [IdentifierForm].
func Identifier(field string) Option {
	return func(t *Tool) {
		t.contract.Output = append(t.contract.Output, gate.OutputField{Pointer: field, Trust: gate.Identifier})
	}
}

// OutputSchema declares the JSON Schema of what the tool returns. Pointers into the
// output are held to it when the agent is built; the output itself is not.
func OutputSchema(s *jsonschema.Schema) Option {
	return func(t *Tool) { t.answers, t.claimed = s, false }
}

// Func makes a tool from a Go function. The argument schema is taken from In,
// which must be a struct; arguments are validated against it before the gate is
// asked, and decoded into the function's own copy.
func Func[In, Out any](name, description string, fn func(ctx context.Context, in In) (Out, error), opts ...Option) Tool {
	schema, err := jsonschema.For[In](nil)
	t := newTool(name, description, schema, opts)
	if t.answers == nil {
		t.answers = returned(reflect.TypeFor[Out]())
	}
	if err != nil {
		t.err = fmt.Errorf("agent: tool %q: %w", name, err)
	}
	t.call = func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		var in In
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, fmt.Errorf("agent: tool %q: arguments do not decode", name)
		}
		out, err := fn(ctx, in)
		if err != nil {
			return nil, err
		}
		b, err := json.Marshal(out)
		if err != nil { // the function gave no error: it was done
			return nil, &unwrittenError{err}
		}
		return b, nil
	}
	return t
}

// unwrittenError is of an answer that is no JSON. The call was done.
type unwrittenError struct{ cause error }

func (e *unwrittenError) Error() string {
	return "The tool ran and gave no error. Its answer cannot be written as JSON, so it is not shown: " + errorLine(e.cause)
}

func (e *unwrittenError) Unwrap() error { return e.cause }

// Raw makes a tool from a function over JSON, with the JSON Schema of its
// arguments. Adapters to other people's tools use it.
func Raw(name, description string, schema *jsonschema.Schema, fn func(ctx context.Context, args json.RawMessage) (json.RawMessage, error), opts ...Option) Tool {
	t := newTool(name, description, schema, opts)
	t.call = fn
	if fn == nil {
		t.err = fmt.Errorf("agent: tool %q has no function", name)
	}
	return t
}

func newTool(name, description string, schema *jsonschema.Schema, opts []Option) Tool {
	t := Tool{name: name, description: description, schema: schema, limit: DefaultAnswerLimit}
	t.contract.Tool, t.contract.Undeclared = name, true
	for _, o := range opts {
		o(&t)
	}
	if strings.TrimSpace(name) == "" {
		t.err = errors.New("agent: a tool without a name")
	}
	return t
}

// seal checks the declaration and pins the schema.
func (t *Tool) seal() error {
	if t.err != nil {
		return t.err
	}
	if t.call == nil {
		return fmt.Errorf("agent: tool %q is a zero Tool; make one with Func or Raw", t.name)
	}
	if t.parks && (t.contract.Undeclared || t.contract.Effect != gate.StateChanging && t.contract.Effect != gate.ReadOnly) {
		return fmt.Errorf("agent: tool %q: what cannot be undone never fires by itself; drop FiresWhenFree", t.name)
	}
	if t.system == "" {
		t.unnamed, t.system = true, t.name
	}
	if err := memory.CheckName("system_of_record", t.system); err != nil {
		return &DeclarationError{Tool: t.name, Field: "system_of_record", Text: clean(err.Error(), 300)}
	}
	if t.schema == nil {
		return fmt.Errorf("agent: tool %q has no argument schema", t.name)
	}
	var err error
	if t.arguments, err = newShape(t.schema); err != nil {
		return &DeclarationError{Tool: t.name, Field: "argument_schema", Text: clean(err.Error(), 300)}
	}
	if t.answers != nil {
		if t.output, err = newShape(t.answers); err != nil {
			return &DeclarationError{Tool: t.name, Field: "output_schema", Text: clean(err.Error(), 300)}
		}
	}
	text, err := json.Marshal(t.schema)
	if err != nil {
		return fmt.Errorf("agent: tool %q: argument schema: %w", t.name, err)
	}
	t.contract.Schema = sha256.Sum256(text)
	return errors.Join(t.sealPrecision(), t.sealPointers(), t.sealOutput(), t.sealLimit(), t.sealDelegate())
}

// returned is the schema of what a Go type is encoded as, nil if it cannot be told. A type
// that encodes itself may look like anything.
func returned(t reflect.Type) *jsonschema.Schema {
	own := map[reflect.Type]*jsonschema.Schema{}
	encodeThemselves(t, own, map[reflect.Type]bool{})
	schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{IgnoreInvalidTypes: true, TypeSchemas: own})
	if err != nil {
		return nil
	}
	return schema
}

// encodeThemselves collects the types within a type that encoding/json does not encode by
// their fields.
func encodeThemselves(t reflect.Type, own map[reflect.Type]*jsonschema.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	for _, it := range []reflect.Type{t, reflect.PointerTo(t)} {
		if it.Implements(reflect.TypeFor[json.Marshaler]()) || it.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			own[t] = &jsonschema.Schema{}
			return
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		encodeThemselves(t.Elem(), own, seen)
	case reflect.Struct:
		for i := range t.NumField() {
			encodeThemselves(t.Field(i).Type, own, seen)
		}
	}
}

// sealPrecision refuses typed sinks that are not typed or not closed.
func (t *Tool) sealPrecision() error {
	if err := t.contract.CheckPrecision(); err != nil {
		return fmt.Errorf("agent: tool %q: %w", t.name, err)
	}
	if t.contract.Precision != gate.TypedSinks {
		return nil
	}
	for _, p := range t.contract.Sinks {
		schema := t.schema
		for _, step := range pointer(p) {
			schema = below(schema, step)
		}
		if !closed(schema, maxDepth) {
			return fmt.Errorf("agent: tool %q: typed sink %q: the argument schema declares no scalar, list of scalars or object of declared members there", t.name, p)
		}
	}
	return nil
}

// closed reports whether a schema lets through nothing but scalars in places that are
// named.
func closed(s *jsonschema.Schema, depth int) bool {
	if s == nil || depth == 0 || s.Ref != "" || len(s.PatternProperties) > 0 {
		return false
	}
	types := s.Types
	if s.Type != "" {
		types = append(types, s.Type)
	}
	for _, name := range types {
		switch name {
		case "string", "number", "integer", "boolean", "null":
		case "array":
			if !closed(s.Items, depth-1) {
				return false
			}
		case "object":
			if len(s.Properties) == 0 || s.AdditionalProperties == nil || s.AdditionalProperties.Not == nil {
				return false
			}
			for _, member := range s.Properties {
				if !closed(member, depth-1) {
					return false
				}
			}
		default:
			return false
		}
	}
	return len(types) > 0
}

// Declaration is what may be told about a tool: enough to offer it to a model,
// nothing to call it with.
type Declaration struct {
	Name        string
	Description string
	Effect      gate.Effect
	Schema      json.RawMessage // JSON Schema of the arguments
}

func (t *Tool) declaration() Declaration {
	schema, err := json.Marshal(t.schema)
	if err != nil { // seal has marshalled it before
		schema = json.RawMessage(`{"type":"object"}`)
	}
	return Declaration{Name: t.name, Description: t.description, Effect: t.contract.Effect, Schema: schema}
}
