package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// record turns the output of a call into rows and puts them into the ledger.
func (r *Run) record(ctx context.Context, t *Tool, args, output json.RawMessage, failed bool, now snapshot, d gate.Decision) ([]memory.ID, error) {
	var drafts []memory.Draft
	rest := decode(output)
	if !failed {
		drafts, rest = r.authoritative(t, decode(args), rest, now, d)
	}
	if !empty(rest) {
		drafts = append(drafts, memory.Draft{
			Content: memory.Content{Text: visible(clean(text(rest), memory.MaxText)), Cardinality: memory.CardinalityUnknown},
			Origin:  memory.OriginFirstHand, State: memory.StateUnverified,
			Asserter:    memory.Asserter{Principal: r.principal, Tool: t.name},
			DerivedFrom: now.direct, LineageUnknown: now.unknown != "", Anchor: "tool:" + t.name,
			Sensitivity: memory.SensitivityInternal, Source: "tool:" + t.name, Run: r.id,
		})
	}
	var ids []memory.ID
	for _, draft := range drafts {
		receipt, err := r.agent.write.Tool(ctx, draft)
		if err != nil {
			return ids, fmt.Errorf("agent: recording output: %w", err)
		}
		ids = append(ids, receipt.ID)
	}
	rows, err := r.agent.store.Get(ctx, ids...)
	if err != nil {
		return ids, err
	}
	return ids, r.enter(ctx, rows)
}

// authoritative makes verified drafts of the fields for which the tool is the
// system of record, and returns what is left of the output. The call's inputs
// chose which object was looked up; they are no ancestors of what the source
// says of it (design section 4).
func (r *Run) authoritative(t *Tool, args, output any, now snapshot, d gate.Decision) (drafts []memory.Draft, rest any) {
	rest = output
	for _, f := range t.contract.Output {
		value, found := lookup(output, f.Pointer)
		if !found {
			continue
		}
		if f.Trust == gate.Identifier {
			if identifier(value) {
				rest = without(rest, f.Pointer)
			}
			continue
		}
		if f.Trust != gate.Authoritative {
			continue
		}
		subject := f.Subject
		if f.SubjectPointer != "" {
			v, _ := lookup(args, f.SubjectPointer)
			subject, _ = scalar(v)
		}
		object, typed := scalar(value)
		if !typed || strings.TrimSpace(object) == "" || strings.TrimSpace(subject) == "" || len(object) > memory.MaxField || len(subject) > memory.MaxField {
			continue // not a typed value: it stays third-party text
		}
		content := memory.Content{Subject: subject, Predicate: f.Predicate, Object: object, Cardinality: f.Cardinality}
		if content.Cardinality == 0 {
			content.Cardinality = memory.CardinalityUnknown
		}
		hash := content.Hash()
		asserter := memory.Asserter{Principal: r.principal, Tool: t.name}
		drafts = append(drafts, memory.Draft{
			Content: content, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: asserter,
			SelectedBy: now.direct, Anchor: "tool:" + t.name, Sensitivity: memory.SensitivityInternal, Source: "tool:" + t.name, Run: r.id,
			Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: t.name, Verifier: "call",
				Group: asserter.Group(), Anchor: memory.Anchor{URI: "call:" + d.ID, Hash: fmt.Sprintf("%x", hash)}, At: r.agent.store.Now()}},
		})
		rest = without(rest, f.Pointer)
	}
	return drafts, rest
}

// maxDepth bounds how deep an output is taken apart; a deeper one is text.
const maxDepth = 100

// decode reads one JSON value with exact numbers. Anything else is text: not
// JSON, more than one value, an object that names a member twice. What is
// recorded must be all that the model sees (I-8).
func decode(b json.RawMessage) any {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	v, ok := decodeValue(dec, maxDepth)
	if _, err := dec.Token(); !ok || !errors.Is(err, io.EOF) {
		return string(b)
	}
	return v
}

func decodeValue(dec *json.Decoder, depth int) (v any, ok bool) {
	t, err := dec.Token()
	if err != nil || depth == 0 {
		return nil, false
	}
	switch t {
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			t, err := dec.Token()
			name, isName := t.(string)
			if _, twice := object[name]; err != nil || !isName || twice {
				return nil, false
			}
			if object[name], ok = decodeValue(dec, depth-1); !ok {
				return nil, false
			}
		}
		v = object
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			child, ok := decodeValue(dec, depth-1)
			if !ok {
				return nil, false
			}
			list = append(list, child)
		}
		v = list
	default:
		return t, true
	}
	_, err = dec.Token() // the closing bracket
	return v, err == nil
}

// escape writes a name as a step of an RFC 6901 pointer.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// pointer splits an RFC 6901 pointer.
func pointer(p string) []string {
	if p == "" {
		return nil
	}
	parts := strings.Split(p[1:], "/")
	for i, s := range parts {
		parts[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return parts
}

func lookup(v any, p string) (any, bool) {
	for _, step := range pointer(p) {
		switch node := v.(type) {
		case map[string]any:
			next, ok := node[step]
			if !ok {
				return nil, false
			}
			v = next
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node) {
				return nil, false
			}
			v = node[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// without copies a value less the field a pointer names, and less the objects
// that held nothing else. Elements of arrays are blanked, not moved, so that
// other pointers keep their meaning.
func without(v any, p string) any {
	steps := pointer(p)
	if len(steps) == 0 {
		return nil
	}
	rest := ""
	if len(steps) > 1 {
		rest = p[1+strings.IndexByte(p[1:], '/'):]
	}
	switch node := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(node))
		for k, child := range node {
			switch {
			case k != steps[0]:
				out[k] = child
			case rest != "":
				if left := without(child, rest); !empty(left) {
					out[k] = left
				}
			}
		}
		return out
	case []any:
		out := make([]any, len(node))
		for i, child := range node {
			switch {
			case strconv.Itoa(i) != steps[0]:
				out[i] = child
			case rest != "":
				out[i] = without(child, rest)
			}
		}
		return out
	}
	return v
}

// empty reports whether nothing is left that says anything.
func empty(v any) bool {
	switch node := v.(type) {
	case nil:
		return true
	case string:
		return strings.TrimSpace(node) == ""
	case map[string]any:
		return len(node) == 0 // a key is text too
	case []any:
		for _, child := range node {
			if !empty(child) {
				return false
			}
		}
		return true
	}
	return false
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// visible spells out a text of nothing but characters that nobody sees: a model
// reads them all the same.
func visible(s string) string {
	if memory.Canonical(s) == "" {
		return clean(strconv.QuoteToASCII(s), memory.MaxText)
	}
	return s
}

// maxIdentifier is the length, in bytes, above which a value is no identifier.
const maxIdentifier = 200

// identifier reports whether a value has the form of an id: one short word.
func identifier(v any) bool {
	s, ok := scalar(v)
	return ok && len(s) <= maxIdentifier && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	})
}

// scalar is the exact text of a string, number or boolean.
func scalar(v any) (string, bool) {
	switch s := v.(type) {
	case string:
		return s, true
	case json.Number:
		return s.String(), true
	case bool:
		return strconv.FormatBool(s), true
	}
	return "", false
}

func mustString(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil {
		return json.RawMessage(`"error"`)
	}
	return b
}

// clean makes bytes from outside storable: valid UTF-8, no NUL, at most n bytes.
func clean(s string, n int) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	s = strings.ReplaceAll(s, "\x00", string(unicode.ReplacementChar))
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
