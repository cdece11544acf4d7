package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// tooLong says, in the place of an answer, that it was too long.
func tooLong(what string, size int) string {
	return fmt.Sprintf("The tool ran. Its %s has %d bytes, more than the %d that are read, and none of it was read.", what, size, MaxOutput)
}

// longError is an error whose text is not told.
type longError struct {
	error
	size int
}

func (e *longError) Error() string { return tooLong("error", e.size) }
func (e *longError) Unwrap() error { return e.error }

// short is an error whose text is short enough to be told.
func short(err error) error {
	if size := len(err.Error()); size > MaxOutput {
		return &longError{err, size}
	}
	return err
}

// record turns what a call gave into rows and puts them into the ledger. shown is the
// output as it gets out: all of it stands in the rows, byte for byte. If declared fields
// became rows of their own, it is written anew from what was recorded, so that nothing
// rides in its spacing, escapes or order. words says that the output is the runtime's word
// about a call that failed, or whose answer was not read: no field of the tool's is in it.
// closed says that nobody else has a word in it: it is an error that the tool declares, or a
// sentinel.
func (r *Run) record(ctx context.Context, t *Tool, args, output json.RawMessage, words, closed bool, now snapshot, asked marks, asks []string, d gate.Decision) (got recorded, err error) {
	v := decode(output)
	a := answer{run: r, tool: t, rest: v, shown: v, gone: map[string]bool{}, now: now, asked: asked}
	apart := -1 // of the drafts, the first of what no declaration covers
	if words {
		if closed {
			return recorded{shown: output}, nil // one of a closed set, and no words of anybody else
		}
		a.documents = t.documents(decode(args), nil)
		a.say(legible(output), t.worst())
	} else {
		a.documents = t.documents(decode(args), v)
		a.declared(decode(args), v, d)
		if !bare(legible(output)) {
			a.part(decode(args), v, d)
		}
		apart = len(a.drafts)
		shown := output
		if a.parted {
			shown = encode(a.shown)
		}
		text := legible(shown)
		if strings.TrimSpace(text) == "" { // it is shown as nothing, whatever blanks it has
			return recorded{shown: json.RawMessage(`""`)}, nil
		}
		if limit, size := a.exceeded(shown, text); limit > 0 {
			output, got.left, got.note = a.shorten(v, output, limit, size, d)
			apart = len(a.drafts) // nothing is withheld
		} else if level := a.split(v); a.parted {
			output = encode(a.shown)
			if !accounted(a.rest) {
				a.say(legible(encode(a.rest)), level)
			}
		} else if !bare(text) {
			a.say(text, level)
		}
	}
	var hidden []memory.Row
	if t.withholds && apart >= 0 {
		if hidden, err = r.put(ctx, a.drafts[apart:], r.agent.write.Tool); err != nil {
			return recorded{shown: output}, err
		}
		a.drafts = a.drafts[:apart]
	}
	got.shown = output
	rows, err := r.put(ctx, a.drafts, r.agent.write.Tool)
	for i := range rows {
		got.rows = append(got.rows, rows[i].ID)
	}
	if err == nil {
		got.withheld, err = r.entrust(ctx, a.open, hidden, asks)
	}
	if err != nil {
		return got, err
	}
	if slices.ContainsFunc(rows, func(row memory.Row) bool { return row.State() == memory.StateVerified }) {
		r.ledger.found(a.ids) // of a record, and not of an empty answer
	}
	if err := r.enter(ctx, rows); err != nil {
		return got, err
	}
	r.ledger.overtaken(rows)
	return got, nil
}

// recorded is what became of an output: what is shown of it, the rows of that, and handles
// for what is not.
type recorded struct {
	shown    json.RawMessage
	rows     []memory.ID
	withheld []Handle
	left     int    // the bytes that are not shown
	note     string // the last line, which says so
}

// answer is what a call gave, on its way to become rows.
type answer struct {
	run       *Run
	tool      *Tool
	documents []string
	now       snapshot
	asked     marks
	rest      any    // what no draft holds yet
	shown     any    // what the model sees
	open      []open // what it does not
	gone      map[string]bool
	parted    bool     // declared fields were taken out of rest
	ids       []string // that the system assigned, of declared fields
	records   []string // pointers of the records that became drafts
	drafts    []memory.Draft
	repeated  []memory.ID // what a call of ours rested on whose values the source repeats
	unsure    bool        // and something else that is not known
}

// taken stands in the place of a field that was taken out of an output.
type taken struct{}

// MarshalJSON returns null.
func (taken) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// take takes a field out of the rest.
func (a *answer) take(p string) { a.rest, a.parted, a.gone[p] = without(a.rest, p), true, true }

// draft is a row of the answer, with nothing said in it.
func (a *answer) draft(level memory.Sensitivity) memory.Draft {
	d := memory.Draft{
		Origin: memory.OriginFirstHand, State: memory.StateUnverified,
		Asserter:    memory.Asserter{Principal: a.run.principal, Tool: a.tool.system},
		Anchor:      anchor(a.tool.name, a.documents),
		Sensitivity: level, Source: "tool:" + a.tool.name, Run: a.run.id,
	}
	if len(a.documents) == 1 {
		d.Source = clean(a.documents[0], memory.MaxField)
	}
	return d
}

// say adds third-party text. It names each document that it is from, so that a
// revocation of one reaches it; that supports nothing.
func (a *answer) say(text string, level memory.Sensitivity) {
	for _, piece := range pieces(text) {
		d := a.draft(level)
		d.Content = memory.Content{Text: piece.text, Cardinality: memory.CardinalityUnknown}
		d.DerivedFrom, d.LineageUnknown = a.now.direct, a.now.unknown != "" || a.unsure
		if len(a.repeated) > 0 {
			d.DerivedFrom = slices.Compact(slices.Sorted(slices.Values(slices.Concat(a.now.direct, a.repeated))))
		}
		if piece.spelt {
			d.Anchor = clean(d.Anchor, memory.MaxField-len(speltOut)) + speltOut
		}
		d.Evidence = mentions(a.documents, "tool:"+a.tool.name, d.Asserter.Group(), a.run.agent.store.Now())
		a.drafts = append(a.drafts, d)
	}
}

// mentions is evidence that something is from documents. It supports nothing.
func mentions(documents []string, source, group string, at time.Time) (out []memory.Evidence) {
	for _, name := range documents {
		if strings.TrimSpace(name) != "" && clean(name, memory.MaxField) == name {
			out = append(out, memory.Evidence{Relation: memory.RelationContextualizes, Rank: memory.RankRecall, Source: source,
				Verifier: "call", Group: group, Anchor: memory.Anchor{URI: name}, At: at})
		}
	}
	return out
}

// declared makes verified drafts of the fields for which the tool is the system of
// record, and passes over identifiers. The call's inputs chose which object was looked
// up; they are no ancestors of what the source says of it (design section 4). An answer
// out of several documents is no record.
func (a *answer) declared(args, output any, d gate.Decision) {
	for _, f := range a.tool.contract.Output {
		if !d.Believes(&f) { // the policy takes it back
			continue
		}
		if f.Trust == gate.Identifier {
			for _, at := range places(output, f.Pointer) {
				if value, _ := lookup(output, at); identifies(&f, value) && !a.names(args, d, at, value) {
					a.take(at)
					if id, ok := scalar(value); ok && !memory.SaysNothing(id) {
						a.ids = append(a.ids, id)
					}
				}
			}
			continue
		}
		value, found := lookup(output, f.Pointer)
		if !found {
			continue
		}
		if f.Trust != gate.Authoritative || len(a.documents) > 1 {
			continue
		}
		subject := a.run.subject(a.tool, &f, args)
		object, typed := scalar(value)
		if typed && a.run.agent.store.SaysNothing(f.Predicate, object) {
			// It is no answer, and no words of anybody's, unless it is long enough for some.
			if len(object) <= maxPlaceholder && !memory.Hides(object) && a.tool.level(f.Pointer) <= a.tool.base() {
				a.take(f.Pointer)
			}
			continue
		}
		if !typed || strings.TrimSpace(object) == "" || strings.TrimSpace(subject) == "" || len(object) > memory.MaxField || len(subject) > memory.MaxField {
			continue // not a typed value, or of no one subject: it stays third-party text
		}
		draft := a.claim(&f, subject, object, a.tool.level(f.Pointer), d)
		if draft.Check() != nil {
			continue // the store takes no such claim: it stays third-party text
		}
		a.drafts = append(a.drafts, draft)
		a.take(f.Pointer)
	}
}

// maxPlaceholder is the length, in bytes, up to which a value that says nothing is shown without a row.
const maxPlaceholder = 16

// names reports whether an identifier is a value that a call of ours set: about the subject of a
// record that it stands in, or about that of any field of the tool, under whatever predicate.
func (a *answer) names(args any, d gate.Decision, at string, v any) bool {
	text, ok := scalar(v)
	if !ok {
		return false
	}
	ours := false
	for _, line := range slices.Sorted(maps.Keys(a.asked)) {
		ours = a.ours(a.asked[line], "", text) || ours
	}
	return ours
}

// claim is a verified draft of what the system of record says.
func (a *answer) claim(f *gate.OutputField, subject, object string, level memory.Sensitivity, d gate.Decision) memory.Draft {
	content := memory.Content{Subject: subject, Predicate: f.Predicate, Object: object, Cardinality: f.Cardinality}
	if content.Cardinality == 0 {
		content.Cardinality = memory.CardinalityUnknown
	}
	draft, at := a.draft(level), memory.Anchor{URI: "call:" + d.ID, Hash: fmt.Sprintf("%x", content.Hash())}
	if len(a.documents) == 1 {
		at.URI, at.Version = a.documents[0], at.URI
	}
	draft.Content, draft.State, draft.SelectedBy, draft.Asked = content, memory.StateVerified, a.now.direct, a.asked[lineOf(&content)]
	draft.Exact = len(f.Subject) == 0 // it is of the operator's own, or of the principal
	draft.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: a.tool.name, Verifier: "call",
		Group: draft.Asserter.Group(), Anchor: at, At: a.run.agent.store.Now()}}
	return draft
}

// split makes rows of the fields that are more or less secret than the rest, one for
// each level, and returns the level of the rest. A field that is not where it was
// declared may be anywhere: the rest is as secret as it.
func (a *answer) split(output any) memory.Sensitivity {
	rest := a.tool.base()
	fields := slices.Clone(a.tool.discloses.fields)
	for _, f := range fields {
		if _, found := lookup(output, f.pointer); !found {
			rest = max(rest, f.level)
		}
	}
	// The deeper first: what is declared apart within a field is not part of it.
	slices.SortFunc(fields, func(x, y secretField) int {
		return cmp.Or(cmp.Compare(len(pointer(y.pointer)), len(pointer(x.pointer))), cmp.Compare(x.pointer, y.pointer))
	})
	apart := map[memory.Sensitivity]map[string]any{}
	for _, f := range fields {
		value, found := lookup(a.rest, f.pointer)
		if !found || f.level == rest || accounted(value) {
			continue
		}
		if apart[f.level] == nil {
			apart[f.level] = map[string]any{}
		}
		apart[f.level][f.pointer] = value
		a.take(f.pointer)
	}
	for _, level := range slices.Sorted(maps.Keys(apart)) {
		a.say(legible(encode(apart[level])), level)
	}
	return rest
}

// errOtherBytes: a row that should say what was shown says something else.
var errOtherBytes = errors.New("agent: the store keeps other words than were shown")

// channel is a way into memory; see package admission.
type channel func(context.Context, memory.Draft) (memory.Receipt, error)

// put writes drafts, and returns the rows that say just what they say. Where a draft
// came back as a row with other bytes, or as one that is less secret, what was shown is
// a row of its own.
func (r *Run) put(ctx context.Context, drafts []memory.Draft, write channel) (rows []memory.Row, err error) {
	for _, d := range drafts {
		row, err := r.putOne(ctx, d, write)
		if err != nil {
			return rows, err
		}
		if !slices.ContainsFunc(rows, func(have memory.Row) bool { return have.ID == row.ID }) {
			rows = append(rows, row)
		}
		if says(&row, &d) {
			continue
		}
		if row, err = r.putOne(ctx, asShown(d), write); err == nil && !says(&row, &d) {
			err = errOtherBytes
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *Run) putOne(ctx context.Context, d memory.Draft, write channel) (memory.Row, error) {
	receipt, err := write(ctx, d)
	if err != nil {
		return memory.Row{}, fmt.Errorf("agent: recording: %w", err)
	}
	rows, err := r.agent.store.Get(ctx, receipt.ID)
	if err != nil {
		return memory.Row{}, fmt.Errorf("agent: recording: %w", err)
	}
	return rows[0], nil
}

// says reports whether a row says what a draft says, byte by byte, and is as secret.
func says(row *memory.Row, d *memory.Draft) bool {
	return row.Content.String() == d.Content.String() && row.Sensitivity >= d.Sensitivity
}

// asShown is a draft as third-party text, at an anchor that no other words share.
func asShown(d memory.Draft) memory.Draft {
	d.Content = memory.Content{Text: d.Content.String(), Cardinality: memory.CardinalityUnknown}
	d.State = memory.StateUnverified
	d.DerivedFrom, d.SelectedBy = append(slices.Clone(d.DerivedFrom), d.SelectedBy...), nil
	for i := range d.Evidence {
		d.Evidence[i].Relation, d.Evidence[i].Rank = memory.RelationContextualizes, memory.RankRecall
	}
	suffix := " " + d.Sensitivity.String()
	d.Anchor = clean(d.Anchor, memory.MaxField-len(suffix)) + suffix
	return d
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

// places are where a pointer, in which * is any element of a list, points to in a value. The
// name of a member is never one of them: whoever writes a map writes its names.
func places(v any, pattern string) (out []string) {
	var visit func(v any, at string, steps []string)
	visit = func(v any, at string, steps []string) {
		if len(steps) == 0 {
			out = append(out, at)
			return
		}
		switch node := v.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(node)) {
				if steps[0] == name && name != "*" { // which is any element of a list, and no member
					visit(node[name], at+"/"+escape.Replace(name), steps[1:])
				}
			}
		case []any:
			for i, child := range node {
				if steps[0] == "*" || steps[0] == strconv.Itoa(i) {
					visit(child, at+"/"+strconv.Itoa(i), steps[1:])
				}
			}
		}
	}
	visit(v, "", pointer(pattern))
	return out
}

// without copies a value less the field a pointer names, and less the objects
// that held nothing else. Elements of arrays are blanked, not moved, so that
// other pointers keep their meaning.
func without(v any, p string) any {
	steps := pointer(p)
	if len(steps) == 0 {
		return taken{}
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
				if left := without(child, rest); !accounted(left) {
					out[k] = left
				}
			}
		}
		if len(out) == 0 {
			return taken{}
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
			default:
				out[i] = taken{}
			}
		}
		return out
	}
	return v
}

// accounted reports whether declared fields took out all that a value held. What was
// empty before they did says something all the same: how often it stands there.
func accounted(v any) bool {
	switch node := v.(type) {
	case taken:
		return true
	case []any: // an object of which nothing is left is taken itself
		for _, child := range node {
			if !accounted(child) {
				return false
			}
		}
		return len(node) > 0
	}
	return false
}

// bare reports whether an output that is not blank says nothing.
func bare(text string) bool { return text == "null" || text == "{}" || text == "[]" }

// encode writes a decoded value in its one form: names sorted, no white space, no
// escape that JSON does not ask for, numbers as they were.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil { // what was decoded encodes
		return mustString(fmt.Sprint(v))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// legible is the text of an output: what a model is shown, but for brackets that
// imitate a tag, and what is recorded. A JSON string is its content.
func legible(b json.RawMessage) string {
	var s *string
	if json.Unmarshal(b, &s) == nil && s != nil {
		return storable(*s)
	}
	return storable(string(b))
}

// piece is a part of a text that a row can hold.
type piece struct {
	text  string
	spelt bool // out, since nobody sees its characters
}

// speltOut ends the anchor of a row whose text is spelt out, so that it is no row of a
// tool that returned the spelling.
const speltOut = " spelt out"

// pieces cuts a text into what rows can hold. A piece of nothing but characters that
// nobody sees is spelt out: a model reads them all the same.
func pieces(text string) (out []piece) {
	for len(text) > 0 {
		part := clean(text, memory.MaxText)
		text = text[len(part):]
		if memory.Canonical(part) != "" {
			out = append(out, piece{text: part})
			continue
		}
		for part = strconv.QuoteToASCII(part); len(part) > 0; {
			end := min(len(part), memory.MaxText)
			out, part = append(out, piece{part[:end], true}), part[end:]
		}
	}
	return out
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

// storable makes bytes from outside valid UTF-8 without NUL.
func storable(s string) string {
	s = strings.ToValidUTF8(s, string(unicode.ReplacementChar))
	return strings.ReplaceAll(s, "\x00", string(unicode.ReplacementChar))
}

// clean makes bytes from outside storable, at most n of them.
func clean(s string, n int) string {
	if s = storable(s); len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// digest stands for a list of names, no two lists for one.
func digest(names []string) string {
	h := sha256.New()
	for _, name := range names {
		fmt.Fprintf(h, "%d:%s", len(name), name)
	}
	return fmt.Sprintf("sha256:%x", h.Sum(nil))
}
