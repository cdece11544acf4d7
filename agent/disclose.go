package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// disclosure is what is declared of a tool's output besides its trust: how secret it
// is, and which document it is from.
type disclosure struct {
	level     memory.Sensitivity // of what no field names; 0 = undeclared
	fields    []secretField
	arguments []string // pointers to the arguments that name a document
	named     []string // pointers to the output fields that name one
}

type secretField struct {
	pointer string
	level   memory.Sensitivity
}

// OutputSensitivity declares how secret the output of the tool is, its errors
// included. Undeclared, it is as secret as the tool's inputs may be ([Ceiling]), and
// internal at least.
func OutputSensitivity(s memory.Sensitivity) Option {
	return func(t *Tool) { t.discloses.level = max(t.discloses.level, s) }
}

// FieldSensitivity declares how secret the output fields at JSON pointers are, with
// all that is below them: more or less than the rest. Each such field becomes a row
// apart from the rest. If a field is not there, the rest is as secret as the field.
func FieldSensitivity(s memory.Sensitivity, pointers ...string) Option {
	return func(t *Tool) {
		for _, p := range pointers {
			t.discloses.fields = append(t.discloses.fields, secretField{p, s})
		}
	}
}

// SourceArguments declares, as JSON pointers, the arguments that name the document a
// call reads: a path, an address, an id. A list names each of its elements. Rows of
// the output carry the names byte by byte, as the model wrote them. A revocation of
// the document reaches those rows, and the same words from another document are
// another row. Where the tool returns the name itself, [SourceFields] is better: a
// model can spell one path in many ways.
func SourceArguments(pointers ...string) Option {
	return func(t *Tool) { t.discloses.arguments = append(t.discloses.arguments, pointers...) }
}

// SourceFields declares, as JSON pointers, the output fields that name the document
// the output is from, as [SourceArguments] does for arguments.
func SourceFields(pointers ...string) Option {
	return func(t *Tool) { t.discloses.named = append(t.discloses.named, pointers...) }
}

// base is how secret what no field names is.
func (t *Tool) base() memory.Sensitivity {
	if t.discloses.level != 0 {
		return t.discloses.level
	}
	return max(memory.SensitivityInternal, t.contract.Ceiling)
}

// level is how secret the field at a pointer is: by the longest declared pointer that
// covers it.
func (t *Tool) level(p string) memory.Sensitivity {
	level, longest := t.base(), -1
	for _, f := range t.discloses.fields {
		if covers(f.pointer, p) && len(f.pointer) > longest {
			level, longest = f.level, len(f.pointer)
		}
	}
	return level
}

// worstIn is how secret the most secret part of the field at a pointer is.
func (t *Tool) worstIn(p string) memory.Sensitivity {
	level := t.level(p)
	for _, f := range t.discloses.fields {
		if covers(p, f.pointer) {
			level = max(level, f.level)
		}
	}
	return level
}

// worst is how secret the most secret part is.
func (t *Tool) worst() memory.Sensitivity {
	level := t.base()
	for _, f := range t.discloses.fields {
		level = max(level, f.level)
	}
	return level
}

// covers reports whether a pointer is to the same place as p, or to one above it.
func covers(above, p string) bool { return p == above || strings.HasPrefix(p, above+"/") }

// sealOutput refuses what cannot hold.
func (t *Tool) sealOutput() error {
	wrong := func(field, format string, args ...any) error {
		return fmt.Errorf("agent: tool %q: %w", t.name, &memory.FieldError{Field: field, Rule: "declaration", Text: fmt.Sprintf(format, args...)})
	}
	if t.discloses.level > memory.SensitivitySecret {
		return wrong("output_sensitivity", "%d is none", uint8(t.discloses.level))
	}
	seen := map[string]bool{}
	for _, f := range t.discloses.fields {
		switch {
		case t.output.lacks(f.pointer) != "":
			return t.refused("field_sensitivity", f.pointer, t.output.lacks(f.pointer))
		case f.level == 0 || f.level > memory.SensitivitySecret:
			return wrong("field_sensitivity", "%q: %d is none", f.pointer, uint8(f.level))
		case seen[f.pointer]:
			return wrong("field_sensitivity", "%q is declared twice", f.pointer)
		}
		seen[f.pointer] = true
	}
	for _, p := range t.discloses.arguments {
		if p == "" {
			return t.refused("source_arguments", p, "is no argument")
		}
		if why := t.arguments.lacks(p); why != "" {
			return t.refused("source_arguments", p, why)
		}
	}
	for _, p := range t.discloses.named {
		if why := t.output.lacks(p); why != "" {
			return t.refused("source_fields", p, why)
		}
	}
	for _, f := range t.contract.Output {
		if f.Trust == gate.Identifier && t.level(f.Pointer) > memory.SensitivityInternal {
			return wrong("identifier", "%q is %s, and no row is made of an identifier; declare it internal or less with FieldSensitivity, or no identifier",
				f.Pointer, t.level(f.Pointer))
		}
	}
	return nil
}

// maxDocuments is how many documents one output is said to be from.
const maxDocuments = 1000

// documents are the names of what an output is from, in the order they are declared.
func (t *Tool) documents(args, output any) (names []string) {
	add := func(v any, found bool) {
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, v := range list {
			if name, ok := scalar(v); found && ok && strings.TrimSpace(name) != "" && len(names) < maxDocuments && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, p := range t.discloses.arguments {
		add(lookup(args, p))
	}
	for _, p := range t.discloses.named {
		add(lookup(output, p))
	}
	return names
}

// anchor is where the output of a tool was seen: the tool, and the documents if it
// names any.
func anchor(tool string, documents []string) string {
	if len(documents) == 0 {
		return "tool:" + tool
	}
	names, err := json.Marshal(documents)
	if at := "tool:" + tool + " " + string(names); err == nil && len(at) <= memory.MaxField {
		return clean(at, memory.MaxField)
	}
	return "tool:" + tool + " " + digest(documents)
}
