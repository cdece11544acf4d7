// Package admission is the write path. Every draft enters memory through one of
// three channels, and the channel, not the caller's label, decides what it may
// claim to be:
//
//   - Model: drafts a model wrote. Whatever label the caller gives, the draft is
//     model_derived, or the re-entry of what the run was served (MP-22, UD-6). It
//     is derived from everything the run has read (I-8) and is never born
//     verified (I-3).
//   - Tool: outputs recorded by the runtime when it called a tool.
//   - Principal: words recorded from the principal's own channel (I-13).
//
// The amplification guard stands in the Model channel. A draft that restates a
// row the run has read collapses onto that row: exactly, by the claim key, or
// reworded, if it adds nothing typed (package restate). A collapse moves no
// state, count or confidence; the wording is kept in the corroboration record.
// In doubt a draft becomes a derived row: unverified, one hop deeper, supporting
// nothing. A draft with a triple collapses only onto the same triple, so that a
// near-miss contradiction never merges.
//
// A row is a triple or free text. The words that a triple was taken from are given beside
// the draft, and become a row of their own that quotes it: never verified with the claim,
// and kept also where the claim collapses.
package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission/restate"
)

// ErrChannel: a draft came through a channel that may not carry its origin.
var ErrChannel = errors.New("admission: the channel does not carry this origin")

// Store is what admission writes through; [*memory.Store] is one.
type Store interface {
	Put(ctx context.Context, d memory.Draft) (memory.Receipt, error)
	Echo(ctx context.Context, row memory.ID, by memory.Asserter, run, wording string) (memory.Receipt, error)
}

// Served is a row whose text reached a run, analysed once.
type Served struct {
	ID        memory.ID
	claim     memory.Key
	typed     bool
	statement restate.Statement
}

// NewServed analyses a row as it was served.
func NewServed(row *memory.Row) Served {
	return Served{ID: row.ID, claim: row.Content.ClaimKey(), typed: row.Content.Typed(), statement: restate.Of(row.Content.String())}
}

// Writer admits drafts to a store. It is safe for concurrent use.
type Writer struct{ store Store }

// New returns a writer over a store.
func New(store Store) *Writer { return &Writer{store: store} }

// Model admits a draft that a model wrote in a run that was served these rows.
// The receipt names the row that holds the claim now: a new one, or the one the
// draft restates.
func (w *Writer) Model(ctx context.Context, d memory.Draft, served []Served) (memory.Receipt, error) {
	relabel(&d)
	for i := range served {
		d.DerivedFrom = append(d.DerivedFrom, served[i].ID)
	}
	asText(&d)
	if err := d.Check(); err != nil {
		return memory.Receipt{}, err
	}
	if id, wording := restated(d.Content, served); id != "" {
		return w.store.Echo(ctx, id, d.Asserter, d.Run, wording)
	}
	return w.store.Put(ctx, d)
}

// ModelQuoting is Model for a draft with a triple, and the words that the model took it
// from. The words become a row that quotes the one that holds the claim, of the same
// origin and lineage; the same words of the same source are one row. The receipt is of
// the claim. If it comes with an error, the claim was written and the words were not; the
// same call again is safe.
func (w *Writer) ModelQuoting(ctx context.Context, d memory.Draft, words string, served []Served) (memory.Receipt, error) {
	if err := quotable(&d, words); err != nil {
		return memory.Receipt{}, err
	}
	claim, err := w.Model(ctx, d, served)
	if err != nil {
		return memory.Receipt{}, err
	}
	relabel(&d)
	for i := range served {
		d.DerivedFrom = append(d.DerivedFrom, served[i].ID)
	}
	_, err = w.store.Put(ctx, memory.Quotation(claim.ID, d, words))
	return claim, err
}

// PrincipalQuoting is Principal for a draft with a triple, and the words in which the
// principal said it; see [Writer.ModelQuoting].
func (w *Writer) PrincipalQuoting(ctx context.Context, d memory.Draft, words string) (memory.Receipt, error) {
	if err := quotable(&d, words); err != nil {
		return memory.Receipt{}, err
	}
	claim, err := w.Principal(ctx, d)
	if err != nil {
		return memory.Receipt{}, err
	}
	_, err = w.store.Put(ctx, memory.Quotation(claim.ID, d, words))
	return claim, err
}

// Denies reports whether words deny more than a triple does that was taken from them: they
// have a word of negation for which the triple has none. It understands no sentence, so it
// also says so of words that deny something else, and of words with characters that nobody
// sees, but for those of some emoji. See [restate.Denials] for what it knows, and for words
// that it takes for ones of negation though they are names or abbreviations.
//
// Subject and object are taken off where they stand, each place once. The predicate takes off
// a word that it has itself; words of English such as "not" and "never" stand for one another.
func Denies(words string, c memory.Content) bool {
	said, legible := restate.Denials(opened(unnamed(words, c.Subject, c.Object), c))
	own, _ := restate.Denials(verb(c.Predicate, words))
	for _, w := range own {
		if i := slices.IndexFunc(said, func(s string) bool { return s == w || restate.Negates(s) && restate.Negates(w) }); i >= 0 {
			said = slices.Delete(said, i, i+1)
		}
	}
	return len(said) > 0 || !legible
}

// verb are the words of a predicate that may deny as words do that were said. Of a predicate a
// verb is denied: likes_not, never_closes, does not like. "No" is a number in account_no, and
// not_before denies no verb. "Wrong" belongs to wrong_address where "wrong address" was said,
// and not in "it is wrong that".
func verb(predicate, said string) string {
	words := strings.Fields(spaced.Replace(strings.ToLower(predicate)))
	if len(words) > 0 && words[0] == "not" {
		words = words[1:]
	}
	var verb []string
	for i, w := range words {
		judges := slices.Contains([]string{"wrong", "false", "untrue", "incorrect"}, w) && i+1 < len(words)
		if w != "no" && (!judges || HasWord(strings.ToLower(said), w+" "+words[i+1])) {
			verb = append(verb, w)
		}
	}
	return strings.Join(verb, " ")
}

// HasWord reports whether a word, or several, stands in a text with no letter or digit beside
// it. Letters have to be the same.
func HasWord(text, word string) bool {
	for from := 0; word != ""; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(word)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		if !inWord(before) && !inWord(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
	return false
}

// inWord reports a character of words.
func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }

// spaced makes words of the parts of a name: likes_not, is-no-member.
var spaced = strings.NewReplacer("_", " ", "-", " ", ".", " ", "/", " ")

// quotable asks that words can be a row beside a draft, before anything is written.
func quotable(d *memory.Draft, words string) error {
	if !d.Content.Typed() {
		return &memory.FieldError{Field: "quote", Rule: "conflict", Text: "words are quoted beside a triple; free text is its own"}
	}
	q := memory.Quotation("", *d, words)
	return q.Check()
}

// relabel takes from a model's draft everything a model cannot vouch for.
func relabel(d *memory.Draft) {
	if d.Origin.External() {
		d.Origin = memory.OriginModelDerived
	}
	if d.State == memory.StateVerified {
		d.State = memory.StateUnverified
	}
	d.Evidence, d.Anchor = nil, ""
	d.Asserter.Tool = ""
}

// restated finds the served row that a content restates. Exact claims first, the
// latest read first. wording is empty if the content is the same.
func restated(c memory.Content, served []Served) (id memory.ID, wording string) {
	claim := c.ClaimKey()
	for i := len(served) - 1; i >= 0; i-- {
		if served[i].claim == claim {
			return served[i].ID, ""
		}
	}
	statement := restate.Of(c.String())
	for i := len(served) - 1; i >= 0; i-- {
		if c.Typed() && served[i].typed {
			continue // two triples that differ are two claims
		}
		if restate.Compare(served[i].statement, statement).Merges() {
			return served[i].ID, c.String()
		}
	}
	return "", ""
}

// asText turns a triple whose subject or predicate is no name that a person can tell from
// another ([memory.CheckName]) into free text, which nothing verifies: nobody's word is
// lost, and none counts for a namesake.
func asText(d *memory.Draft) {
	c := d.Content
	if !c.Typed() || memory.CheckName("subject", c.Subject) == nil && memory.CheckName("predicate", c.Predicate) == nil {
		return
	}
	said := c.Subject + "." + c.Predicate + " = " + c.Object
	if c.Text != "" {
		said = c.Text + "\n" + said
	}
	d.Content = memory.Content{Text: said, Cardinality: memory.CardinalityUnknown}
	if d.State == memory.StateVerified {
		d.State = memory.StateUnverified
	}
	d.Evidence = nil
}

// Tool admits what a tool returned, as recorded by the runtime that called it. A typed
// field whose subject nobody can tell from another name is recorded as free text.
func (w *Writer) Tool(ctx context.Context, d memory.Draft) (memory.Receipt, error) {
	if d.Origin != memory.OriginFirstHand {
		return memory.Receipt{}, fmt.Errorf("%w: a tool output is first_hand, not %s", ErrChannel, d.Origin)
	}
	asText(&d)
	return w.store.Put(ctx, d)
}

// Principal admits words of the principal: typed by an authenticated person
// (user_asserted), or quoted from elsewhere by one (first_hand, unverified).
func (w *Writer) Principal(ctx context.Context, d memory.Draft) (memory.Receipt, error) {
	switch {
	case d.Origin == memory.OriginUserAsserted:
	case d.Origin == memory.OriginFirstHand && d.State == memory.StateUnverified:
	default:
		return memory.Receipt{}, fmt.Errorf("%w: the principal's channel carries no %s %s draft", ErrChannel, d.State, d.Origin)
	}
	return w.store.Put(ctx, d)
}
