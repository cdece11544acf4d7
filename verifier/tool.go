package verifier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// Ask puts a question to a tool or a system of record. It obeys ctx, is safe for
// concurrent use, and should be idempotent: a question may be asked again. An
// error is an outage unless it is [ErrMisconfigured], [ErrGone] or [ErrAnswer]; a
// [*UnavailableError] with RetryAfter says when to come back. Its text is logged: what may
// repeat the question goes into a [*Quote]. That the source knows nothing is no error:
// leave Found false.
type Ask func(ctx context.Context, q Question) (Answer, error)

// Question is what is asked. It is blind: it never contains the claimed object,
// so that a source cannot be led and an echoing one supports nothing (T12).
type Question struct {
	Subject     string
	Predicate   string
	Cardinality memory.Cardinality // as the row states it
}

// Answer is what the source says. The zero Answer says that it knows nothing.
type Answer struct {
	Found  bool
	Value  string   // the one value; joined with Values if both are given
	Values []string // the values, each at most 4 KiB, at most [MaxValues]
	// Complete says that the source knows of no other value. Only then does the
	// absence of a value from a set refute it.
	Complete bool
	URI      string // where this is written; "" = "tool:" and the name of the verifier
	Version  string // of the document or record, if it has one
	// Excerpt is what the values were read from; "" = the values. Only its hash is kept.
	Excerpt string
}

// MaxValues is how many values one answer may hold.
const MaxValues = 1000

// ToolOptions are the options of [NewTool]. Every zero field has a usable
// default.
type ToolOptions struct {
	Rank    memory.Rank   // RankTool or RankPrimarySource; unset = RankTool
	Group   string        // independence group (D-22); "" = "tool:" and the name
	Source  string        // what is asked, for the evidence; "" = the name
	Timeout time.Duration // for one question; 0 = 5 s
	// Cardinality is what this source answers for rows that do not state one.
	// Unset or unknown: another value contradicts only if the answer is complete.
	Cardinality memory.Cardinality
	// Compare compares the claimed value with the observed one; nil =
	// [CompareByType]. CompareBy overrides it for single predicates.
	Compare   Compare
	CompareBy map[string]Compare
	Clock     func() time.Time // nil = time.Now
}

// ToolVerifier verifies typed rows against a tool or a system of record
// (SR-4.3). It is safe for concurrent use.
type ToolVerifier struct {
	name string
	ask  Ask
	o    ToolOptions
}

// NewTool returns a verifier that asks a tool. It panics if name is empty, ask
// is nil, or the rank is not one a tool can have: a program with such a line
// cannot work. nil options are usable.
//
// A triple is supported when the source gives the claimed object. It is refuted when the
// source gives another object, and either the predicate has only one object or the source
// says that its list is complete. All else is unclear:
//   - a row of free text, about which nothing can be asked;
//   - a source that knows nothing, or says so in a word ([memory.SaysNothing]);
//   - values that cannot be compared;
//   - an answer that is not of the form of [Ask];
//   - a name that looks like another one ([memory.CheckName]).
func NewTool(name string, ask Ask, o *ToolOptions) *ToolVerifier {
	t := &ToolVerifier{name: name, ask: ask}
	if o != nil {
		t.o = *o
		t.o.CompareBy = make(map[string]Compare, len(o.CompareBy))
		for predicate, compare := range o.CompareBy {
			t.o.CompareBy[memory.Canonical(predicate)] = compare
		}
	}
	if t.o.Rank == 0 {
		t.o.Rank = memory.RankTool
	}
	if t.o.Group == "" {
		t.o.Group = "tool:" + name
	}
	if t.o.Source == "" {
		t.o.Source = name
	}
	if t.o.Timeout <= 0 {
		t.o.Timeout = 5 * time.Second
	}
	if t.o.Compare == nil {
		t.o.Compare = CompareByType
	}
	if t.o.Clock == nil {
		t.o.Clock = time.Now
	}
	switch {
	case strings.TrimSpace(name) == "":
		panic("verifier: NewTool: no name")
	case ask == nil:
		panic("verifier: NewTool: nothing to ask")
	case t.o.Rank != memory.RankTool && t.o.Rank != memory.RankPrimarySource:
		panic("verifier: NewTool: a tool has rank tool or primary source, not " + t.o.Rank.String())
	}
	return t
}

// Name returns the name the verifier was made with.
func (t *ToolVerifier) Name() string { return t.name }

// Verify asks the tool about the triple of the row and compares by type.
func (t *ToolVerifier) Verify(ctx context.Context, row memory.Row) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, classify(ctx, t.name, err)
	}
	c := row.Content
	if !c.Typed() {
		return unclear("nothing to ask: free text has no subject and predicate"), nil
	}
	if memory.CheckName("subject", c.Subject) != nil || memory.CheckName("predicate", c.Predicate) != nil {
		// A source would answer for whoever it takes the name for.
		return unclear("the subject or the predicate holds what nobody sees"), nil
	}
	asking, cancel := context.WithTimeout(ctx, t.o.Timeout)
	defer cancel()
	answer, err := t.ask(asking, Question{Subject: c.Subject, Predicate: c.Predicate, Cardinality: c.Cardinality})
	if err == nil {
		// An answer that came after the deadline may belong to another question.
		err = asking.Err()
	}
	if err == nil {
		err = answer.check()
	}
	if errors.Is(err, ErrGone) && ctx.Err() == nil {
		return t.evident(Gone, "", Answer{URI: answer.URI, Version: answer.Version, Excerpt: err.Error()}), nil
	}
	if errors.Is(err, ErrAnswer) && ctx.Err() == nil {
		return unclear(clip(err.Error())), nil
	}
	if err != nil {
		return Verdict{}, classify(ctx, t.name, err)
	}
	return t.judge(c, answer), nil
}

// check holds an answer against the limits of Answer: of one that breaks them nothing counts.
func (a *Answer) check() error {
	if len(a.Values) > MaxValues {
		return fmt.Errorf("%w: %d values, at most %d", ErrAnswer, len(a.Values), MaxValues)
	}
	for _, s := range append([]string{a.Value, a.URI, a.Version}, a.Values...) {
		if len(s) > memory.MaxField {
			return fmt.Errorf("%w: a field of %d bytes, at most %d", ErrAnswer, len(s), memory.MaxField)
		}
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return fmt.Errorf("%w: not text", ErrAnswer)
		}
	}
	return nil
}

// all returns the values that say something, each spelling once, sorted.
func (a *Answer) all() []string {
	var values []string
	for _, v := range append([]string{a.Value}, a.Values...) {
		if !memory.SaysNothing(v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	return slices.Compact(values)
}

// judge compares a well-formed answer with the claim.
func (t *ToolVerifier) judge(c memory.Content, a Answer) Verdict {
	values := a.all()
	if slices.ContainsFunc(append([]string{a.Value}, a.Values...), func(v string) bool { return memory.Canonical(v) != "" && memory.SaysNothing(v) }) {
		a.Complete = false // it does not know all
	}
	if !a.Found {
		return unclear("the source knows nothing of it")
	}
	if len(values) == 0 && !a.Complete {
		return unclear("the source gave no value")
	}
	cardinality := c.Cardinality
	if cardinality != memory.CardinalityFunctional && cardinality != memory.CardinalitySetValued {
		cardinality = t.o.Cardinality
	}
	compare := t.o.Compare
	if by := t.o.CompareBy[memory.Canonical(c.Predicate)]; by != nil {
		compare = by
	}
	compare = compare.spelling()
	match, same := MatchDifferent, ""
	for _, v := range values {
		switch compare(c.Object, v) {
		case MatchSame:
			if same == "" {
				same = v
			}
		case MatchDifferent:
		default:
			match = MatchUnknown
		}
	}
	observed := list(values)

	if cardinality == memory.CardinalityFunctional {
		switch {
		case len(values) == 0:
			return unclear("the source gave no value")
		case !agree(compare, values):
			return t.said(unclear("the source gives several values where there is one"), observed)
		case same != "":
			return t.evident(Supported, same, a)
		case match == MatchDifferent:
			return t.evident(Refuted, observed, a)
		}
		return t.said(unclear("the values cannot be compared"), observed)
	}
	switch {
	case same != "":
		return t.evident(Supported, same, a)
	case match != MatchDifferent:
		return t.said(unclear("the values cannot be compared"), observed)
	case !a.Complete:
		return t.said(unclear("not among the values given, and the source does not say that these are all"), observed)
	}
	return t.evident(Refuted, observed, a)
}

// agree reports whether all values are the same one.
func agree(compare Compare, values []string) bool {
	for _, v := range values[1:] {
		if compare(values[0], v) != MatchSame {
			return false
		}
	}
	return true
}

// list writes one value as it is, and several as a JSON array.
func list(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	b, err := json.Marshal(append([]string{}, values...))
	if err != nil { // strings always marshal
		return ""
	}
	return string(b)
}

func unclear(detail string) Verdict { return Verdict{Outcome: Unclear, Detail: detail} }

func (t *ToolVerifier) said(v Verdict, observed string) Verdict {
	v.Observed = clip(observed)
	return v
}

// evident fills the evidence of a verdict that decides.
func (t *ToolVerifier) evident(o Outcome, observed string, a Answer) Verdict {
	relation, detail := memory.RelationSupports, "the source says the same"
	switch o {
	case Refuted:
		relation, detail = memory.RelationContradicts, "the source says otherwise"
	case Gone:
		relation, detail = memory.RelationContextualizes, "what the source would answer from is gone"
	}
	rests := observed
	if a.Excerpt != "" {
		rests = a.Excerpt
	}
	sum := sha256.Sum256([]byte(rests))
	v := Verdict{Outcome: o, Observed: clip(observed), Detail: detail, Evidence: memory.Evidence{
		Relation: relation, Rank: t.o.Rank,
		Source: t.o.Source, Verifier: t.name, Group: t.o.Group,
		Anchor: memory.Anchor{URI: a.URI, Version: a.Version, Hash: hex.EncodeToString(sum[:])},
		At:     t.o.Clock().UTC().Round(0),
	}}
	if v.Evidence.Anchor.URI == "" {
		v.Evidence.Anchor.URI = "tool:" + t.name
	}
	return v
}
