package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/gate"
)

// Limits of a tool's answer, in bytes.
const (
	// MaxOutput is the most of an answer, in JSON, and of an error, in text, that is read. Of
	// a longer one nothing is recorded or shown but how long it was: the tool has run, and the
	// run rests on that as on any answer. A message of an MCP server has 16 MiB at most, and
	// often holds a structured answer twice.
	MaxOutput = 6 << 20
	// MaxShown is the most of an answer that is recorded and shown, whatever [AnswerLimit] and
	// [Media] say, and the most that [Withheld] keeps.
	MaxShown = 1 << 20
	// DefaultAnswerLimit is the [AnswerLimit] of a tool that declares none: some 16,000 tokens
	// of English text.
	DefaultAnswerLimit = 64 << 10
)

// AnswerLimit declares how many bytes of an answer the model is shown, from 1 to [MaxShown];
// undeclared, [DefaultAnswerLimit]. What [ToolText] puts before a line of it does not count.
// A longer text is cut. A longer object or list is not:
// the model is shown its declared fields ([Authoritative], [Identifier], [Record]), which are
// read from the whole answer, or nothing of it if they are longer than the limit too. A last
// line, which does not count, says how much was left out. The rows of the answer hold what
// the model was shown and no more. Sometimes a declared field is not what is declared, or an
// element of a list has none. Then the fields beside that line are a row of their own too, which
// nobody has verified.
func AnswerLimit(bytes int) Option { return func(t *Tool) { t.limit = bytes } }

// Media declares how many bytes of an answer, as it would be shown, no model reads as text:
// images or audio that an adapter passes as such. They do not count for [AnswerLimit]. size is
// asked of each answer; what it says beyond the answer's length counts as all of it. cut gives
// the answer with its media and so much of its text that no more than limit bytes count; nil
// if it cannot, and a nil cut never can. Such an answer is held to its limit as any other. With
// a nil size all of an answer counts, and cut gives what a model is shown of a longer one.
func Media(size func(answer json.RawMessage) int, cut func(answer json.RawMessage, limit int) json.RawMessage) Option {
	return func(t *Tool) { t.media, t.cuts = size, cut }
}

// sealLimit refuses a limit that is none.
func (t *Tool) sealLimit() error {
	if t.limit < 1 || t.limit > MaxShown {
		return &DeclarationError{Tool: t.name, Field: "answer_limit", Text: fmt.Sprintf("%d: want 1 to %d bytes", t.limit, MaxShown)}
	}
	return nil
}

// exceeded is the limit that an answer exceeds, and the answer's size; 0 = none. shown is the
// answer as it would get out, text what the model would see of it.
func (a *answer) exceeded(shown json.RawMessage, text string) (limit, size int) {
	switch size = a.counted(shown, text); {
	case size > a.tool.limit:
		return a.tool.limit, len(text)
	case len(text) > MaxShown:
		return MaxShown, len(text)
	case a.tool.withholds && len(legible(encode(a.rest))) > MaxShown:
		return MaxShown, len(legible(encode(a.rest)))
	}
	return 0, 0
}

// counted is how many bytes of an answer count for the limit. text is what the model would
// see of it.
func (a *answer) counted(shown json.RawMessage, text string) int {
	if a.tool.media == nil {
		return len(text)
	}
	return len(text) - max(0, a.tool.media(shown))
}

// around is an answer with its media, of which only text is cut; nil if it cannot be cut so.
// What is declared, or withheld, is no text.
func (a *answer) around(output json.RawMessage) json.RawMessage {
	if a.tool.cuts == nil || a.parted {
		return nil
	}
	short := a.tool.cuts(output, a.tool.limit)
	if text := legible(short); !json.Valid(short) || strings.TrimSpace(text) == "" || len(text) > MaxShown || len(text) >= len(legible(output)) || a.counted(short, text) > a.tool.limit {
		return nil
	}
	return short
}

// shorten holds an answer to the limit that it exceeds: a text is cut, of an object or a list
// only what declared fields took out is shown. What is shown of a text and the last line are
// a row, and nothing else of the rest is. Declared fields and the line beside them have no
// words of anybody else. They are a row too if a field is missing that is declared, since
// whoever wrote in its place chose that it is.
func (a *answer) shorten(whole any, output json.RawMessage, limit, size int, d gate.Decision) (shown json.RawMessage, left int, note string) {
	less := "."
	if d.Effect == gate.ReadOnly { // of others a second call is no way to read the rest
		less = ". Ask for less at a time."
	}
	text := legible(output)
	if short := a.around(output); short != nil {
		left = len(text) - len(legible(short))
		note = fmt.Sprintf("Note of the system: the answer is longer than the %d bytes that are shown. %d bytes are left out%s", limit, left, less)
		a.say(legible(short)+"\n"+note, a.tool.worst())
		return short, left, note
	}
	if isText(whole) && !a.tool.withholds {
		cut := clean(text, limit)
		if strings.TrimSpace(cut) == "" || cut == "null" { // either would be shown as an empty answer
			cut = ""
		}
		left = len(text) - len(cut)
		a.drafts, a.ids = nil, nil // what was declared to be the whole text is not what is shown
		note = fmt.Sprintf("Note of the system: the answer is longer than the %d bytes that are shown. Its last %d bytes are left out%s", limit, left, less)
		if cut == "" {
			a.say(note, a.tool.worst())
		} else {
			a.say(cut+"\n"+note, a.tool.worst())
		}
		return mustString(cut), left, note
	}
	declared := declaredOf(whole, a.rest)
	fields, which := encode(declared), "Only its declared fields are shown"
	if string(fields) == "null" || len(fields) > limit {
		a.drafts, a.ids, fields, which = nil, nil, nil, "It is not shown"
	}
	left = len(text) - len(fields)
	note = fmt.Sprintf("Note of the system: the answer has %d bytes, more than the %d that are shown. %s, and %d bytes are left out%s", size, limit, which, left, less)
	switch {
	case fields == nil:
		a.say(note, a.tool.worst())
		fields = json.RawMessage(`""`)
	case gaps(declared) || a.misses(whole, d):
		a.say(legible(fields)+"\n"+note, a.tool.worst())
	}
	return fields, left, note
}

// misses reports whether an answer has something at a declared place that is not what is
// declared. A record holds free text by design, which is left out, but one that holds nothing else
// is none.
func (a *answer) misses(whole any, d gate.Decision) bool {
	for _, f := range a.tool.contract.Output {
		if !d.Believes(&f) {
			continue
		}
		if f.Trust == gate.Record {
			if value, _ := lookup(whole, f.Pointer); value != nil && !slices.Contains(a.records, f.Pointer) {
				return true
			}
			continue
		}
		for _, at := range places(whole, f.Pointer) {
			if left, has := lookup(a.rest, at); has && left != nil && !accounted(left) { // null says nothing
				return true
			}
		}
	}
	return false
}

// gaps reports whether a list in what [declaredOf] gives has an element with nothing declared.
func gaps(v any) bool {
	switch node := v.(type) {
	case taken:
		return true
	case []any:
		return slices.ContainsFunc(node, gaps)
	case map[string]any:
		for _, child := range node {
			if gaps(child) {
				return true
			}
		}
	}
	return false
}

// isText reports whether a decoded answer is neither an object nor a list.
func isText(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

// declaredOf is what declared fields took out of a value, of which rest is left. An element
// of a list of which they took nothing is null.
func declaredOf(v, rest any) any {
	if accounted(rest) {
		return v
	}
	switch node := v.(type) {
	case map[string]any:
		left, is := rest.(map[string]any)
		if !is {
			return taken{}
		}
		out := map[string]any{}
		for name, child := range node {
			if remains, has := left[name]; has {
				child = declaredOf(child, remains)
			}
			if _, nothing := child.(taken); !nothing {
				out[name] = child
			}
		}
		if len(out) > 0 {
			return out
		}
	case []any:
		left, is := rest.([]any)
		if !is {
			return taken{}
		}
		out := make([]any, len(node))
		for i, child := range node {
			out[i] = declaredOf(child, left[i])
		}
		if slices.ContainsFunc(out, func(v any) bool { _, nothing := v.(taken); return !nothing }) {
			return out
		}
	}
	return taken{}
}
