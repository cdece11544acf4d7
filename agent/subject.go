package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// subject is what an authoritative field of an answer speaks of, "" if the arguments do
// not name it alone. Several arguments together are a list in JSON, so that no two lists
// have one text.
func (r *Run) subject(t *Tool, f *gate.OutputField, args any) string {
	switch {
	case t.chooses(f, args):
		return ""
	case f.About != "":
		return f.About
	case len(f.Subject) == 0: // what the principal's own account says
		return r.principal
	}
	return together(f.Subject, args)
}

// together is the subject that arguments name: one, or all of them as a list.
func together(pointers []string, args any) string {
	parts := make([]string, len(pointers))
	for i, p := range pointers {
		v, _ := lookup(args, p)
		part, ok := scalar(v)
		if !ok || strings.TrimSpace(part) == "" {
			return ""
		}
		parts[i] = part
	}
	if len(parts) == 1 && !strings.HasPrefix(parts[0], "[") { // what looks like a list is one of one
		return parts[0]
	}
	text, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	return string(text)
}

// chooses reports whether the arguments have anything besides the subject of a field and
// what is fixed. It may choose which of several truths the tool tells.
func (t *Tool) chooses(f *gate.OutputField, args any) bool {
	known := map[string]bool{}
	for _, p := range f.Subject {
		known[p] = true
	}
	other := hollow(args)
	walk("", args, t.schema, func(p string, leaf any) {
		fixed, is := t.contract.Fixed[p]
		value, typed := scalar(leaf)
		switch {
		case known[p], leaf == nil:
		case is && typed && value == fixed:
		default:
			other = true
		}
	})
	return other
}

// hollow reports whether an argument has an empty object or list in it: it is given, and has
// no leaf that could be looked at.
func hollow(args any) bool {
	var empty func(v any) bool
	empty = func(v any) bool {
		switch node := v.(type) {
		case map[string]any:
			for _, child := range node {
				if empty(child) {
					return true
				}
			}
			return len(node) == 0
		case []any:
			return len(node) == 0 || slices.ContainsFunc(node, empty)
		}
		return false
	}
	given, _ := args.(map[string]any)
	for _, v := range given {
		if empty(v) {
			return true
		}
	}
	return false
}

// maxWrites is up to how many arguments each is held against each other one. Of a call with
// more, whatever is said of any of them counts as set by it.
const maxWrites = 24

// writes are what a call sets in systems of record. That is what its tool declares, with each
// value in an argument that is no scalar. Every other argument may be a value too, and each
// other one its subject. One that picks an object ([gate.KindObjectID]) names what was there
// before. The principal, and what the agent's tools speak of by a name of its own, are subjects
// too. A declaration whose subject is not given declares nothing.
func (r *Run) writes(t *Tool, args json.RawMessage) (out []gate.Write) {
	if t.contract.Unknown || t.contract.Effect == gate.ReadOnly && !t.contract.Undeclared {
		return nil
	}
	given := decode(args)
	all := t.values(given)
	told := map[string]bool{} // arguments of which a declaration says what they are
	for _, s := range t.contract.Sets {
		subject := together(s.Subject, given)
		if subject == "" {
			continue
		}
		for i := range all {
			a := &all[i]
			if !covers(s.Pointer, a.pointer) {
				continue
			}
			w := gate.Write{Pointer: a.pointer, OwnWrite: memory.OwnWrite{Subject: subject, Predicate: s.Predicate, Value: a.text}}
			if a.pointer != s.Pointer { // where in the record it will stand is not said
				w.Predicate = ""
			}
			out, told[a.pointer] = append(out, w), true
		}
		for _, p := range s.Subject {
			told[p] = true
		}
	}
	subjects := append([]string{r.principal}, r.agent.about...)
	untold := false
	for i := range all {
		a := &all[i]
		if told[a.pointer] {
			continue
		}
		untold = true
		picked := t.contract.PicksObject(a.pointer)
		for _, name := range subjects {
			out = append(out, gate.Write{Pointer: a.pointer, OwnWrite: memory.OwnWrite{Subject: name, Value: a.text, Picked: picked}})
		}
		for j := range all {
			if i != j && len(all) <= maxWrites {
				out = append(out, gate.Write{Pointer: a.pointer, OwnWrite: memory.OwnWrite{Subject: all[j].text, Value: a.text, Picked: picked}})
			}
		}
	}
	if untold && len(all) > maxWrites {
		for i := range all {
			out = append(out, gate.Write{OwnWrite: memory.OwnWrite{Subject: all[i].text, Any: true}})
		}
	}
	return out
}

// argument is a scalar argument and where it stands.
type argument struct{ pointer, text string }

func (t *Tool) values(given any) (all []argument) {
	walk("", given, t.schema, func(p string, leaf any) {
		if text, ok := scalar(leaf); ok && text != "" { // a long one may be little but blanks
			all = append(all, argument{p, text})
		}
	})
	return all
}

// maxMade is how many names in an answer may be that of a thing that the call made.
const maxMade = 200

// made are what a call sets about the things that its answer names, or the words of its
// error: one that it made has a name that no argument had. In a text that is any word with
// a digit in it.
func (t *Tool) made(args json.RawMessage, output any) (out []memory.OwnWrite) {
	given := t.values(decode(args))
	var names []string
	add := func(name string) {
		if strings.TrimSpace(name) != "" && len(names) < maxMade && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	walk("", output, nil, func(_ string, leaf any) {
		text, ok := scalar(leaf)
		if !ok {
			return
		}
		if len(text) <= maxIdentifier {
			add(text)
		}
		for _, word := range strings.FieldsFunc(text, func(c rune) bool {
			return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._:-", c)
		}) {
			if word = strings.Trim(word, "._:-"); len(word) <= maxIdentifier && strings.ContainsFunc(word, unicode.IsDigit) {
				add(word)
			}
		}
	})
	for _, name := range names {
		if len(given) > maxWrites {
			out = append(out, memory.OwnWrite{Subject: name, Any: true})
			continue
		}
		for _, a := range given {
			if a.text != name {
				out = append(out, memory.OwnWrite{Subject: name, Value: a.text})
			}
		}
	}
	return out
}

// marks are where lines stood before a tool was asked about them.
type marks map[string]memory.LineMark

// lineOf names the line of a content within a run.
func lineOf(c *memory.Content) string {
	return memory.ExactName(c.Subject) + "\x00" + memory.ExactName(c.Predicate)
}

// mark notes where the lines stand that a call is about to ask a system of record about.
// A slow answer then does not pass for a newer one than what is verified meanwhile.
func (r *Run) mark(ctx context.Context, t *Tool, args json.RawMessage) (marks, error) {
	var about []memory.Content
	given := decode(args)
	for i := range t.contract.Output {
		f := &t.contract.Output[i]
		if !f.Trust.Claims() {
			continue
		}
		if subject := r.subject(t, f, given); subject != "" {
			about = append(about, memory.Content{Subject: subject, Predicate: f.Predicate})
		}
	}
	if len(about) == 0 {
		return nil, nil
	}
	at, err := r.agent.store.MarkLines(ctx, about...)
	if err != nil {
		return nil, err
	}
	out := marks{}
	for i := range about {
		out[lineOf(&about[i])] = at[i]
	}
	return out, nil
}
