package recall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Store is what recall reads from; a [*memory.Store] is one.
type Store interface {
	// Find returns the rows that match; more reports that others do.
	Find(ctx context.Context, l memory.Lookup) (rows []memory.Row, more bool, err error)
	// Rows lists the rows a filter selects, newest first.
	Rows(ctx context.Context, f memory.Filter) iter.Seq2[memory.Row, error]
	// Now is the clock that ages are judged by.
	Now() time.Time
	// Lineage is what the rows were made from.
	Lineage
}

// Channel is a set of the three channels of X-18. Join them with |.
type Channel uint8

// The channels.
const (
	// Context has the rows that are fit to rely on.
	Context Channel = 1 << iota
	// Uncertain has the rows that are readable and not fit: unverified,
	// unavailable at write time, stale, restricted. After them come the quotations of
	// the rows in all channels, the words that those were taken from.
	Uncertain
	// Contradictions has contradicted rows, and the open rivals of the rows in
	// the other channels.
	Contradictions

	// All is the three of them.
	All = Context | Uncertain | Contradictions
)

// Purpose says what a context is assembled for (LS-15). It is recorded with the
// result and lets nothing in: no purpose is a way round the policy.
type Purpose uint8

// The purposes.
const (
	PurposePlanning    Purpose = iota // to plan the next step; the zero value
	PurposeDecision                   // to decide on a call
	PurposeExtraction                 // to take claims out of a text
	PurposeExplanation                // to explain to a person
)

var purposes = [...]string{"planning", "decision", "extraction", "explanation"}

// String returns planning, decision, extraction or explanation.
func (p Purpose) String() string {
	if int(p) < len(purposes) {
		return purposes[p]
	}
	return fmt.Sprintf("purpose(%d)", uint8(p))
}

// Defaults of a [Policy], and its hard limit.
const (
	DefaultMaxAge = 30 * 24 * time.Hour // LS-19
	DefaultLimit  = 20
	MaxLimit      = 500
)

// Policy says which rows may be shown. The zero Policy is usable and the
// strictest: the context channel only, looked at within 30 days, internal at most,
// no privileged rows, 20 rows (LS-16..LS-20).
type Policy struct {
	Purpose  Purpose
	Channels Channel       // 0 = Context
	MaxAge   time.Duration // longest that a row of the context channel was not looked at, inclusive; 0 = 30 days
	// Ceiling is the highest sensitivity shown, in any channel; unset = internal.
	Ceiling memory.Sensitivity
	// Clearance shows privileged_only rows. The ceiling holds for them too.
	Clearance bool
	// Limit is the most rows in each channel; 0 = 20, at most 500.
	Limit int
}

// Query selects rows by their words, or by subject and predicate.
type Query struct {
	Text      string
	Subject   string // with Predicate, instead of Text
	Predicate string
	Limit     int // may only lower the policy's; 0 = the policy's
	// Principal is whom the context is for: the word that somebody gave about itself
	// counts as verified for that principal, and for nobody else (I-13).
	Principal string
}

// Result has each row in one channel at most. What nobody verified and a fit row says
// exactly is in none: the fit row speaks for it.
type Result struct {
	Context        []memory.Row
	Uncertain      []memory.Row
	Contradictions []memory.Row
	// Outranked are rows that [Result.Settled] took out of the channels.
	Outranked []memory.Row

	Policy Policy    // the policy applied, defaults filled in
	At     time.Time // the clock that freshness was judged by
	// Truncated is set if a row that matches was not looked at, or is readable and beyond
	// the limit of its channel.
	Truncated bool
	// Unshown is how many rows match and are readable, and are in no channel that the
	// policy shows, or were outranked.
	Unshown int
}

// Settled is the result as a model is to see it before it acts: without the rows that
// speak against a fit row and stand lower, which are in Outranked. So nobody who writes
// a rival takes from what a better source verified. A rival that stands as high stays.
func (r Result) Settled() Result {
	best := map[lineName]memory.Rank{}
	for i := range r.Context {
		if row := &r.Context[i]; opposable(row) {
			best[nameOf(row)] = max(best[nameOf(row)], row.Rank)
		}
	}
	lost := map[memory.ID]bool{}
	settle := func(rows []memory.Row) (kept []memory.Row) {
		for i := range rows {
			row := &rows[i]
			rank, contested := best[nameOf(row)]
			lower := row.Truth != memory.TruthSupported || row.Rank < rank
			if contested && lower && opposable(row) || row.Quotes != "" && lost[row.Quotes] {
				lost[row.ID] = true
				r.Outranked = append(r.Outranked, *row)
				continue
			}
			kept = append(kept, *row)
		}
		return kept
	}
	r.Outranked = slices.Clip(r.Outranked)
	before := len(r.Outranked)
	r.Contradictions = settle(r.Contradictions) // before the quotations of its rows
	r.Uncertain = settle(r.Uncertain)
	r.Unshown += len(r.Outranked) - before
	return r
}

// lineName names a line by its exact subject and predicate.
type lineName struct{ subject, predicate string }

func nameOf(r *memory.Row) lineName {
	return lineName{memory.ExactName(r.Content.Subject), memory.ExactName(r.Content.Predicate)}
}

// Rows returns all rows of the result: context, uncertain, contradictions.
func (r Result) Rows() []memory.Row {
	return slices.Concat(r.Context, r.Uncertain, r.Contradictions)
}

// IDs returns the ids of all rows of the result, in the order of Rows: what a
// reader adds to its ledger.
func (r Result) IDs() []memory.ID {
	rows := r.Rows()
	ids := make([]memory.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// Recall asks the store and sorts the answer by the policy. A bad policy or
// query gives a [*memory.FieldError]; an error of the store is returned as it
// is. On error the result is empty: no part of an answer is shown.
//
// By text, rows come in the order of the search; by subject and predicate, of
// the rank that verified them, then newest first. Confidence orders nothing
// here: it never lifts a row into a channel (X-5, LS-23).
func Recall(ctx context.Context, store Store, q Query, p Policy) (Result, error) {
	p, err := p.fill(q)
	if err != nil {
		return Result{}, err
	}
	at := store.Now()
	candidates, more, err := find(ctx, store, q)
	if err != nil {
		return Result{}, err
	}
	r := Result{Policy: p, At: at, Truncated: more}
	listed := candidates
	if q.Text == "" {
		listed = slices.Clone(candidates)
		slices.SortStableFunc(listed, func(a, b memory.Row) int { return cmp.Compare(b.Rank, a.Rank) })
	}
	for _, row := range listed {
		row = row.For(q.Principal)
		switch p.channel(&row, at) {
		case Context:
			r.Context = append(r.Context, row)
		case Uncertain:
			r.Uncertain = append(r.Uncertain, row)
		case Contradictions:
			r.Contradictions = append(r.Contradictions, row)
		}
	}
	r.once()
	read := map[lineName][]memory.Row{}
	if q.Text == "" { // the rivals of its rows are among them
		read[lineName{memory.ExactName(q.Subject), memory.ExactName(q.Predicate)}] = candidates
	}
	if err := r.oppose(ctx, store, q.Principal, read); err != nil {
		return Result{}, err
	}
	for _, c := range [...]struct {
		channel Channel
		rows    *[]memory.Row
	}{{Context, &r.Context}, {Uncertain, &r.Uncertain}, {Contradictions, &r.Contradictions}} {
		if p.Channels&c.channel == 0 {
			r.Unshown += len(*c.rows)
			*c.rows = nil
		} else if len(*c.rows) > p.Limit {
			*c.rows, r.Truncated = (*c.rows)[:p.Limit:p.Limit], true
		}
	}
	if err := r.quote(ctx, store); err != nil {
		return Result{}, err
	}
	return r, nil
}

// once leaves out what nobody verified where a fit row that is shown says exactly that.
// Such a row is reached by its id.
func (r *Result) once() {
	if r.Policy.Channels&Context == 0 {
		return
	}
	said := map[memory.Token]bool{}
	for _, row := range r.Context[:min(len(r.Context), r.Policy.Limit)] {
		said[row.Commitment] = true
	}
	delete(said, memory.Token{}) // of such content nothing is known
	same := func(row memory.Row) bool {
		return said[row.Commitment] && row.Truth == memory.TruthUnverified && row.Rejection == nil
	}
	r.Uncertain = slices.DeleteFunc(r.Uncertain, same)
}

// quote appends the quotations of the rows to the uncertain channel, as many as it has
// room for. They come last, and are looked up by the claim: no word of theirs ranks it.
// Beside a fit row a person's own span is left out: it would say the same, unverified.
func (r *Result) quote(ctx context.Context, store Store) error {
	if r.Policy.Channels&Uncertain == 0 {
		return nil
	}
	for i, claim := range r.Rows() {
		fit := i < len(r.Context)
		for q, err := range store.Rows(ctx, memory.Filter{Quotes: claim.ID}) {
			if unreadable(err) {
				r.Truncated = true
				continue
			}
			if err != nil {
				return err
			}
			if !r.Policy.readable(&q) || fit && q.Origin == memory.OriginUserAsserted {
				continue
			}
			if len(r.Uncertain) >= r.Policy.Limit {
				r.Truncated = true
				return nil
			}
			r.Uncertain = append(r.Uncertain, q)
		}
	}
	return nil
}

func (p Policy) fill(q Query) (Policy, error) {
	switch {
	case q.Text == "" && q.Subject == "" && q.Predicate == "":
		return p, field("query", "required", "a text, or a subject and a predicate")
	case q.Text != "" && (q.Subject != "" || q.Predicate != ""):
		return p, field("query", "conflict", "a text, or a subject and a predicate, not both")
	case q.Text == "" && (q.Subject == "" || q.Predicate == ""):
		return p, field("query", "required", "a subject and a predicate go together")
	case p.Channels&^All != 0:
		return p, field("policy.channels", "unknown_value", "no such channel")
	case int(p.Purpose) >= len(purposes):
		return p, field("policy.purpose", "unknown_value", "no such purpose")
	case p.Ceiling > memory.SensitivitySecret:
		return p, field("policy.ceiling", "unknown_value", "no such sensitivity")
	case p.MaxAge < 0:
		return p, field("policy.max_age", "out_of_range", "negative")
	case p.Limit < 0 || p.Limit > MaxLimit:
		return p, field("policy.limit", "out_of_range", fmt.Sprintf("not in 0..%d", MaxLimit))
	case q.Limit < 0:
		return p, field("query.limit", "out_of_range", "negative")
	}
	p.Channels = cmp.Or(p.Channels, Context)
	p.MaxAge = cmp.Or(p.MaxAge, DefaultMaxAge)
	p.Ceiling = cmp.Or(p.Ceiling, memory.SensitivityInternal)
	p.Limit = cmp.Or(p.Limit, DefaultLimit)
	if q.Limit > 0 {
		p.Limit = min(p.Limit, q.Limit)
	}
	return p, nil
}

func field(name, rule, text string) error {
	return &memory.FieldError{Field: name, Rule: rule, Text: text}
}

// find lists the rows that a query selects: what nobody verified hides nothing that
// somebody did.
func find(ctx context.Context, store Store, q Query) (rows []memory.Row, more bool, err error) {
	if q.Text == "" {
		return line(ctx, store, q.Subject, q.Predicate, q.Principal)
	}
	rows, more, err = store.Find(ctx, memory.Lookup{Text: q.Text, Principal: q.Principal})
	if err != nil {
		return nil, false, err
	}
	rows, err = Judge(ctx, store, rows)
	return rows, more, err
}

// line lists the rows of one subject and predicate, by exact name, newest first.
func line(ctx context.Context, store Store, subject, predicate, principal string) (rows []memory.Row, more bool, err error) {
	rows, more, err = store.Find(ctx, memory.Lookup{Subject: subject, Predicate: predicate, Principal: principal})
	if err != nil {
		return nil, false, err
	}
	rows, err = Judge(ctx, store, rows)
	return rows, more, err
}

// unreadable reports whether an error is of one row: it hides no other.
func unreadable(err error) bool {
	var one *memory.UnreadableError
	return errors.As(err, &one)
}

// channel sorts one row: 0 is "in none". It is pure, and confidence is no input.
func (p Policy) channel(r *memory.Row, at time.Time) Channel {
	if !p.readable(r) {
		return 0
	}
	if r.Quotes != "" { // whatever its state
		return Uncertain
	}
	switch r.Truth {
	case memory.TruthSupported:
		if p.fit(r, at) {
			return Context
		}
		return Uncertain
	case memory.TruthUnverified:
		if r.Rejection != nil { // respelled or written again: the rejection stands
			return Contradictions
		}
		return Uncertain
	case memory.TruthContradicted:
		return Contradictions
	case memory.TruthSuperseded:
		if r.Has(memory.FlagOutdated) && contradicted(r) {
			return Contradictions
		}
	}
	return 0 // superseded: its successor speaks for it
}

// contradicted reports whether evidence speaks against a row: its source took it back, and
// nothing may be known in its place.
func contradicted(r *memory.Row) bool {
	return slices.ContainsFunc(r.Evidence, func(e memory.Evidence) bool { return e.Relation == memory.RelationContradicts && !e.Void })
}

// readable says whether a row may be in any channel at all.
func (p Policy) readable(r *memory.Row) bool {
	return readable(r) && r.Sensitivity != 0 && r.Sensitivity <= p.Ceiling &&
		(r.Retrieval != memory.RetrievalPrivilegedOnly || p.Clearance)
}

// readable says whether the words of a row may be shown to anybody.
func readable(r *memory.Row) bool {
	if r.Revision == 0 || r.Security != memory.SecurityClean || r.Has(memory.FlagTainted) {
		return false
	}
	switch r.Retrieval {
	case memory.RetrievalNormal, memory.RetrievalRestricted, memory.RetrievalPrivilegedOnly:
		return true
	}
	return false
}

// fit says whether a verified, readable row belongs in the main context.
func (p Policy) fit(r *memory.Row, at time.Time) bool {
	looked := r.VerifiedAt
	if again := r.LookedAt(); again.After(looked) { // somebody agreed since
		looked = again
	}
	return r.Retrieval != memory.RetrievalRestricted && r.FreshnessAt(at) == memory.FreshnessFresh && at.Sub(looked) <= p.MaxAge
}

// oppose fills the contradictions: the open rivals of the rows in the other two
// channels, which are other objects of the same subject and predicate (LS-27). An
// uncertain row that is the rival of a row listed before it moves there; a fit
// row stays where it is, and its tag says that it is contested. lines are those that were read
// already, newest row first; oppose reads the others.
func (r *Result) oppose(ctx context.Context, store Store, principal string, lines map[lineName][]memory.Row) error {
	if r.Policy.Channels&Contradictions == 0 {
		return nil
	}
	listed := map[memory.ID]bool{}
	for _, row := range r.Rows() {
		listed[row.ID] = true
	}
	against := func(row *memory.Row) error {
		if !opposable(row) {
			return nil
		}
		k := nameOf(row)
		rows, seen := lines[k]
		if !seen {
			var (
				cut bool
				err error
			)
			if rows, cut, err = line(ctx, store, row.Content.Subject, row.Content.Predicate, principal); err != nil {
				return err
			}
			lines[k], r.Truncated = rows, r.Truncated || cut
		}
		for _, other := range rows {
			other = other.For(principal)
			open := other.Truth == memory.TruthUnverified || other.Truth == memory.TruthSupported || other.Truth == memory.TruthContradicted
			if other.Claim != row.Claim && open && opposable(&other) && !listed[other.ID] && r.Policy.readable(&other) {
				listed[other.ID] = true
				r.Contradictions = append(r.Contradictions, other)
			}
		}
		return nil
	}
	for i := range r.Context {
		if err := against(&r.Context[i]); err != nil {
			return err
		}
	}
	uncertain := r.Uncertain
	first := map[lineName]memory.Token{} // the claim that a line's channel rows make
	for _, row := range slices.Backward(r.Context) {
		if opposable(&row) {
			first[nameOf(&row)] = row.Claim
		}
	}
	r.Uncertain = nil
	for i := range uncertain {
		row := &uncertain[i]
		if !opposable(row) {
			r.Uncertain = append(r.Uncertain, *row)
			continue
		}
		k := nameOf(row)
		if claim, taken := first[k]; taken && claim != row.Claim {
			r.Contradictions = append(r.Contradictions, *row)
			continue
		}
		first[k] = row.Claim
		r.Uncertain = append(r.Uncertain, *row)
		if r.Policy.Channels&Uncertain != 0 {
			if err := against(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// opposable rows can contradict one another: triples of a predicate that is not
// known to have many objects.
func opposable(r *memory.Row) bool {
	return r.Content.Typed() && r.Content.Cardinality != memory.CardinalitySetValued
}
