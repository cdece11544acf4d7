package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// ErrDeclaration is the sentinel of [*DeclarationError].
var ErrDeclaration = errors.New("agent: a declaration that cannot hold")

// DeclarationError says which declaration of a tool cannot hold, and why: a pointer to
// what the schema does not have, or a schema that may not be used. errors.Is(err,
// ErrDeclaration) holds.
type DeclarationError struct {
	Tool    string
	Field   string // a stable word: sink, optional, authoritative, record, operator, computed, sets, subject, identifier, same_by, shown_by, fixed, answer_limit, system_of_record, argument_schema, output_schema
	Pointer string // RFC 6901, of a declaration that has one
	Text    string // for people
}

// Error is one line.
func (e *DeclarationError) Error() string {
	if strings.HasSuffix(e.Field, "_schema") {
		return fmt.Sprintf("agent: tool %q: %s: %s", e.Tool, strings.ReplaceAll(e.Field, "_", " "), e.Text)
	}
	switch e.Field {
	case "answer_limit":
		return fmt.Sprintf("agent: tool %q: answer limit %s", e.Tool, e.Text)
	case "system_of_record":
		return fmt.Sprintf("agent: tool %q: system of record: %s", e.Tool, e.Text)
	}
	return fmt.Sprintf("agent: tool %q: %s %q: %s", e.Tool, e.Field, e.Pointer, e.Text)
}

// Is reports whether target is [ErrDeclaration].
func (e *DeclarationError) Is(target error) bool { return target == ErrDeclaration }

// Check reports what keeps an agent from taking the tool; [New] refuses it with the same
// error. An adapter calls it where the tool is made.
func (t Tool) Check() error { return t.seal() }

// sealPointers refuses a pointer that can find nothing in what the schemas let through:
// it is a slip of the pen, and would be a declaration that says nothing.
func (t *Tool) sealPointers() error {
	for _, p := range t.contract.Sinks {
		if why := t.arguments.lacks(p); why != "" {
			return t.refused("sink", p, why)
		}
	}
	for _, p := range t.contract.Optional {
		if !slices.Contains(t.contract.Sinks, p) {
			return t.refused("optional", p, "is no declared sink")
		}
	}
	for _, f := range t.contract.Output {
		field := f.Trust.String()
		if why := t.output.lacks(f.Pointer); why != "" {
			return t.refused(field, f.Pointer, why)
		}
		if !f.Trust.Claims() {
			continue
		}
		if f.Predicate == "" || f.Trust == gate.Authoritative && len(f.Subject) == 0 || slices.Contains(f.Subject, "") {
			return t.refused(field, f.Pointer, "names no predicate or no subject")
		}
		if f.Trust == gate.Record {
			if err := t.sealRecord(&f); err != nil {
				return err
			}
		}
		for _, p := range f.Subject {
			if why := t.arguments.lacks(p); why != "" {
				return t.refused("subject", p, why)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.contract.Derived)) {
		if err := t.contract.Derived[p].Check(); err != nil {
			return t.refused("computed", p, err.Error())
		}
		if why := t.arguments.lacks(p); why != "" {
			return t.refused("computed", p, why)
		}
	}
	for _, s := range t.contract.Sets {
		if s.Predicate == "" || len(s.Subject) == 0 || strings.Contains(s.Predicate, "*") {
			return t.refused("sets", s.Pointer, "names no predicate, no subject, or any element of a list")
		}
		for _, p := range append([]string{s.Pointer}, s.Subject...) {
			if why := t.arguments.lacks(p); why != "" {
				return t.refused("sets", p, why)
			}
		}
	}
	for _, p := range t.contract.Operator {
		if err := t.sealOperator(p); err != nil {
			return err
		}
	}
	for _, p := range t.contract.Identity {
		if why := t.arguments.lacks(p); why != "" {
			return t.refused("same_by", p, why)
		}
	}
	if t.told != nil {
		if t.told.Predicate == "" {
			return t.refused("shown_by", "", "names no predicate")
		}
		for _, p := range t.told.Subject {
			if why := t.arguments.lacks(p); why != "" {
				return t.refused("shown_by", p, why)
			}
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.contract.Fixed)) {
		if why := t.arguments.lacks(p); why != "" {
			return t.refused("fixed", p, why)
		}
	}
	return nil
}

func (t *Tool) refused(field, pointer, why string) error {
	return &DeclarationError{Tool: t.name, Field: field, Pointer: pointer, Text: why}
}

// registered takes what the registry of a store says of the predicates of a tool's fields. A
// record is one object, so that its predicate has one.
func (t *Tool) registered(store Store) error {
	for i := range t.contract.Output {
		f := &t.contract.Output[i]
		if !f.Trust.Claims() || store.Cardinality(f.Predicate) != memory.CardinalitySetValued {
			continue
		}
		if f.Trust == gate.Record {
			return t.refused("record", f.Pointer, "is one object, and its predicate "+strconv.Quote(f.Predicate)+" is registered as set_valued")
		}
		f.Cardinality = memory.CardinalitySetValued
	}
	return nil
}

// sealRecord refuses a record that nothing closes, and one within another.
func (t *Tool) sealRecord(f *gate.OutputField) error {
	if t.output == nil || t.claimed {
		return t.refused("record", f.Pointer, "wants an output schema that the operator gives: a Go type or OutputSchema")
	}
	for _, o := range t.contract.Output {
		if o.Trust == gate.Record && o.Pointer != f.Pointer && covers(o.Pointer, f.Pointer) {
			return t.refused("record", f.Pointer, "lies within the record at "+strconv.Quote(o.Pointer))
		}
	}
	if n := len(slices.DeleteFunc(slices.Clone(t.contract.Output), func(o gate.OutputField) bool { return o.Trust != gate.Record || o.Pointer != f.Pointer })); n > 1 {
		return t.refused("record", f.Pointer, "is declared twice")
	}
	return nil
}

// sealOperator refuses a place that lies in no record, or that the schema lacks.
func (t *Tool) sealOperator(p string) error {
	in := slices.ContainsFunc(t.contract.Output, func(o gate.OutputField) bool { return o.Trust == gate.Record && covers(o.Pointer, p) })
	if !in {
		return t.refused("operator", p, "lies in no record")
	}
	if why := t.output.lacking(p, true); why != "" {
		return t.refused("operator", p, why)
	}
	return nil
}
