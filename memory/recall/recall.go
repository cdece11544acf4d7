package recall

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Store is what recall reads from; a [*memory.Store] is one.
type Store interface {
	// Search returns the rows whose words match the text best, best first.
	Search(ctx context.Context, text string, limit int) ([]memory.Row, error)
	// Rows lists the rows a filter selects, newest first.
	Rows(ctx context.Context, f memory.Filter) iter.Seq2[memory.Row, error]
	// Now is the clock that ages are judged by.
	Now() time.Time
}

// Channel is a set of the three channels of X-18. Join them with |.
type Channel uint8

// The channels.
const (
	// Context has the rows that are fit to rely on.
	Context Channel = 1 << iota
	// Uncertain has the rows that are readable and not fit: unverified,
	// unavailable at write time, stale, restricted.
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
// strictest: the context channel only, no older than 30 days, internal at most,
// no privileged rows, 20 rows (LS-16..LS-20).
type Policy struct {
	Purpose  Purpose
	Channels Channel       // 0 = Context
	MaxAge   time.Duration // oldest verification in the context channel, inclusive; 0 = 30 days
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
}

// Result has each row in one channel at most.
type Result struct {
	Context        []memory.Row
	Uncertain      []memory.Row
	Contradictions []memory.Row

	Policy Policy    // the policy applied, defaults filled in
	At     time.Time // the clock that freshness was judged by
	// Truncated is set if more rows matched than were looked at or returned.
	Truncated bool
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

// scanLimit is how many candidates are looked at before the policy sorts them.
// It is far above any limit, so that rows the policy drops do not crowd out
// rows that it lets through.
const scanLimit = 1000

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
	candidates, truncated, err := find(ctx, store, q)
	if err != nil {
		return Result{}, err
	}
	r := Result{Policy: p, At: at, Truncated: truncated}
	for _, row := range candidates {
		switch p.channel(&row, at) {
		case Context:
			r.Context = append(r.Context, row)
		case Uncertain:
			r.Uncertain = append(r.Uncertain, row)
		case Contradictions:
			r.Contradictions = append(r.Contradictions, row)
		}
	}
	if err := r.oppose(ctx, store); err != nil {
		return Result{}, err
	}
	for _, c := range [...]struct {
		channel Channel
		rows    *[]memory.Row
	}{{Context, &r.Context}, {Uncertain, &r.Uncertain}, {Contradictions, &r.Contradictions}} {
		if p.Channels&c.channel == 0 {
			*c.rows = nil
		} else if len(*c.rows) > p.Limit {
			*c.rows, r.Truncated = (*c.rows)[:p.Limit:p.Limit], true
		}
	}
	return r, nil
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

func find(ctx context.Context, store Store, q Query) (rows []memory.Row, truncated bool, err error) {
	if q.Text != "" {
		rows, err = store.Search(ctx, q.Text, scanLimit)
		return rows, len(rows) >= scanLimit, err
	}
	rows, truncated, err = line(ctx, store, q.Subject, q.Predicate)
	slices.SortStableFunc(rows, func(a, b memory.Row) int { return cmp.Compare(b.Rank, a.Rank) })
	return rows, truncated, err
}

// line lists the rows of one subject and predicate.
func line(ctx context.Context, store Store, subject, predicate string) (rows []memory.Row, truncated bool, err error) {
	for row, err := range store.Rows(ctx, memory.Filter{Subject: subject, Predicate: predicate}) {
		if err != nil {
			return nil, false, err
		}
		if len(rows) == scanLimit {
			return rows, true, nil
		}
		rows = append(rows, row)
	}
	return rows, false, nil
}

// channel sorts one row: 0 is "in none". It is pure, and confidence is no input.
func (p Policy) channel(r *memory.Row, at time.Time) Channel {
	if !p.readable(r) {
		return 0
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
	}
	return 0 // superseded: its successor speaks for it
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
	return r.Retrieval != memory.RetrievalRestricted &&
		r.FreshnessAt(at) == memory.FreshnessFresh && at.Sub(r.VerifiedAt) <= p.MaxAge
}

// oppose fills the contradictions: the open rivals of the rows in the other two
// channels, which are other objects of the same subject and predicate (LS-27). An
// uncertain row that is the rival of a row listed before it moves there; a fit
// row stays where it is, and its tag says that it is contested.
func (r *Result) oppose(ctx context.Context, store Store) error {
	if r.Policy.Channels&Contradictions == 0 {
		return nil
	}
	listed := map[memory.ID]bool{}
	for _, row := range r.Rows() {
		listed[row.ID] = true
	}
	type key struct{ subject, predicate string }
	lines := map[key][]memory.Row{}
	against := func(row *memory.Row) error {
		if !opposable(row) {
			return nil
		}
		k := key{memory.Canonical(row.Content.Subject), memory.Canonical(row.Content.Predicate)}
		rows, seen := lines[k]
		if !seen {
			var (
				cut bool
				err error
			)
			if rows, cut, err = line(ctx, store, row.Content.Subject, row.Content.Predicate); err != nil {
				return err
			}
			lines[k], r.Truncated = rows, r.Truncated || cut
		}
		for _, other := range rows {
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
	first := map[key]memory.Token{} // the claim that a line's channel rows make
	for _, row := range slices.Backward(r.Context) {
		if opposable(&row) {
			first[key{memory.Canonical(row.Content.Subject), memory.Canonical(row.Content.Predicate)}] = row.Claim
		}
	}
	r.Uncertain = nil
	for i := range uncertain {
		row := &uncertain[i]
		if !opposable(row) {
			r.Uncertain = append(r.Uncertain, *row)
			continue
		}
		k := key{memory.Canonical(row.Content.Subject), memory.Canonical(row.Content.Predicate)}
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
