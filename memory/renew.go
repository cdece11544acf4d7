package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// personLooks is for how many of its windows others may renew what a person confirmed, or
// what a better source verified, before that one has to look again: a year, if the window
// is 30 days.
const personLooks = 12

// renewed is the head after a source agreed at a moment. ok is false if that gives it no
// more time: it never lasts longer than whoever verified it may go without a look.
func (h *Head) renewed(now time.Time) (next Head, ok bool) {
	next = *h
	window := h.window()
	next.ExpiresAt = now.Add(expiryFactor * window)
	if last := h.VerifiedAt.Add(personLooks * window); next.ExpiresAt.After(last) {
		next.ExpiresAt = last
	}
	next.StaleAt = next.ExpiresAt.Add(-(expiryFactor - 1) * window)
	next.Freshness = FreshnessFresh
	return next, next.StaleAt.After(now) && (next.StaleAt.After(h.StaleAt) || h.Freshness != FreshnessFresh)
}

// Renew notes that a source which did not verify a row, and is of rank tool or higher,
// agrees with it still: the row is fresh again, and stays so for a window. t moves to
// FreshnessFresh, with the evidence of the source, which must be independent (I-4).
//
// Truth, rank and [Head.VerifiedAt] are left alone: freshness is an axis of its own. Nor
// is the row renewed past twelve of its windows from there: then whoever verified it
// looks again. It refuses
//
//   - a row that is not verified: [*IllegalMoveError];
//   - evidence that is not independent or of too low a rank, a row that somebody of rank
//     tool or higher contradicts, and one whose last window it is: [ErrInsufficient];
//   - the word of who was revoked: [ErrRevoked];
//   - an answer that something else was verified since: [ErrOvertaken].
func (s *Store) Renew(ctx context.Context, t Transition) (Head, error) {
	if err := t.check(); err != nil {
		return Head{}, err
	}
	switch {
	case t.To != AxisValue(FreshnessFresh):
		return Head{}, invalid("to", "conflict", "a row is renewed to fresh")
	case len(t.Evidence) == 0:
		return Head{}, invalid("evidence", "required", "who agrees")
	}
	for range conflictRetries {
		h, err := s.renew(ctx, t)
		var conflict *ConflictError
		if err == nil || !errors.As(err, &conflict) || conflict.Key == headKey.of(t.Row) {
			return h, err
		}
		if ctx.Err() != nil {
			return Head{}, ctx.Err()
		}
	}
	return Head{}, &ConflictError{Key: headKey.of(t.Row)}
}

func (s *Store) renew(ctx context.Context, t Transition) (Head, error) {
	id, now := t.Row, s.Now()
	objs, err := s.get(ctx, headKey.of(id), bodyKey.of(id), evidKey.of(id), dueKey.of(id), revokedKey)
	if err != nil {
		return Head{}, err
	}
	heads, err := decodeHeads(objs[:1], []ID{id})
	if err != nil {
		return Head{}, err
	}
	old := heads[0]
	switch {
	case old.Revision == 0:
		return Head{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	case old.Revision != t.Revision:
		return Head{}, &ConflictError{Key: headKey.of(id)}
	case old.Has(FlagErased):
		return Head{}, fmt.Errorf("%w: %s", ErrErased, id)
	}
	j := judging{store: s, row: id, Facts: Facts{Event: EventRenewed, Now: now, Row: old, Said: t.Evidence, To: t.To, By: t.Authority}}
	if err := j.refusesRenewal(); err != nil {
		return Head{}, err
	}
	b, err := s.body(ctx, objs[1])
	if err != nil {
		return Head{}, err
	}
	evid, err := s.evidenceOf(ctx, &old, objs[2])
	if err != nil {
		return Head{}, err
	}
	revoked, err := s.current(ctx, id, objs[4], evid.list, t.Evidence)
	if err != nil {
		return Head{}, err
	}
	j.Content, j.Standing, j.Revoked = b.Content, evid.list, revoked.refuse(t.Evidence)
	j.registered()
	if j.Revoked == nil {
		if err := j.lineage(ctx); err != nil {
			return Head{}, err
		}
		if _, _, err := j.sufficient(); err == nil && b.Content.Typed() {
			if err := j.unmoved(ctx, t.Asked); err != nil {
				return Head{}, err
			}
		}
	}
	v := Judge(j.Facts)
	if v.Err != nil {
		return Head{}, v.Err
	}
	next := v.Next
	tx := s.begin(ctx, now)
	tx.check(revokedKey, revoked.Revision)
	if j.line.Key != "" {
		tx.check(j.line.Key, j.line.Revision)
	}
	nonce := newNonce()
	was := old.FreshnessAt(now)
	entry := AuditEntry{Kind: EntryTransition, Row: id, Revision: old.Revision + 1, At: now, Actor: t.Actor, Authority: t.Authority,
		Source: t.Source, Reason: t.Reason, Axis: AxisFreshness, From: was.String(), To: FreshnessFresh.String(), Nonce: nonce}
	if was == FreshnessFresh {
		entry.Kind = EntryReaffirm
	}
	var c change
	if added := mergeEvidence(evid.list, t.Evidence)[len(evid.list):]; len(added) > 0 {
		c = tx.evidence(&old, evid, voidsNothing, added)
	}
	tx.head(old, next, &b.Content, entry, c)
	tx.due(&old, objs[3], due{Reason: dueAgain}, next.StaleAt)
	if err := tx.commit(headKey.of(id), old.Revision+1, nonce); err != nil {
		return Head{}, err
	}
	next.Revision = old.Revision + 1
	return next, nil
}

// unmoved reads the line of a row, and whether something else was verified since its source was
// asked, or a call set what it says.
func (j *judging) unmoved(ctx context.Context, asked LineMark) error {
	c := &j.Content
	objs, err := j.store.get(ctx, append([]string{j.store.line(*c)}, j.store.ownKeys(c.Subject)...)...)
	if err != nil {
		return err
	}
	j.line = objs[0]
	line, err := lineOf(j.line)
	if err != nil {
		return err
	}
	notes, err := j.store.scope.ownNotes(objs[1:])
	if err != nil {
		return err
	}
	j.Repeats = notes.of(c) != nil
	if asked.key != j.line.Key || asked.revision == j.line.Revision || c.Cardinality != CardinalityFunctional {
		return nil
	}
	ids, whole := line.rivals(true)
	rivals, err := j.store.listed(ctx, without(ids, j.row), TruthSupported)
	if err != nil {
		return err
	}
	if !whole || slices.ContainsFunc(rivals, func(r bystander) bool { return r.unread || r.Claim != j.Row.Claim }) {
		j.Overtaken = fmt.Errorf("%w: something else was verified since the source was asked", ErrOvertaken)
	}
	return nil
}
