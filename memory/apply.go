package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// EntryKind says what an audit entry records.
type EntryKind string

// The kinds of audit entries.
const (
	EntryWrite      EntryKind = "write"      // a row was written
	EntryTransition EntryKind = "transition" // an axis moved
	EntryReaffirm   EntryKind = "reaffirm"   // a verified row was verified again
	EntryEcho       EntryKind = "echo"       // the claim came back
	EntryEvidence   EntryKind = "evidence"   // evidence was added; no state moved
	EntryContest    EntryKind = "contest"    // a contradiction of the same rank stands open
	EntryDecision   EntryKind = "decision"   // the gate decided
	EntryOutcome    EntryKind = "outcome"    // a call that fired ended
)

// AuditEntry is one line of a row's history: who moved what, in which capacity,
// on whose word and why. It is written in the same atom as the move (I-6) and is
// never changed.
type AuditEntry struct {
	Kind      EntryKind  `json:"kind"`
	Row       ID         `json:"row,omitempty"`
	Revision  uint64     `json:"revision"` // of the object after the entry
	At        time.Time  `json:"at"`
	Actor     string     `json:"actor"`
	Authority Authority  `json:"authority"`
	Source    string     `json:"source"`
	Reason    string     `json:"reason"`
	Axis      Axis       `json:"axis,omitzero"`
	From      string     `json:"from,omitempty"`
	To        string     `json:"to,omitempty"`
	Evidence  []Evidence `json:"evidence,omitempty"`
	Wording   string     `json:"wording,omitempty"` // of an echo
	Run       string     `json:"run,omitempty"`
	Nonce     string     `json:"nonce"`
}

// Apply makes one transition: the move, its audit entry, its evidence and the
// due mark are one atom, compared and swapped on t.Revision (I-6). It refuses an
// illegal move ([*IllegalMoveError]), a promotion without sufficient independent
// evidence ([ErrInsufficient], I-4), one by a user without authority over the
// subject ([ErrNoAuthority], I-13), and one of a claim that a user rejected
// ([ErrRejected]), and a demotion on a word of no higher rank ([ErrOutranked]).
// It returns the new head.
//
// Moving a verified row to TruthSupported again reaffirms it: the evidence is
// added and the freshness window starts anew.
//
// A promotion settles its rivals on a functional predicate: a verified row with
// another object is demoted and re-queued if the new evidence is of higher rank
// (SR-2.5), both are contested if it is equal, and if it is lower, or a tool
// speaks against a user, no state moves: the evidence is kept, the row is marked
// contested, and the error is [ErrContested]. Confidence plays no part.
func (s *Store) Apply(ctx context.Context, t Transition) (Head, error) {
	if err := t.check(); err != nil {
		return Head{}, err
	}
	for range conflictRetries {
		h, err := s.apply(ctx, t)
		var conflict *ConflictError
		if err == nil || !errors.As(err, &conflict) || conflict.Key == headKey+string(t.Row) {
			return h, err // done, or the row itself moved on, which trying again cannot mend
		}
		if ctx.Err() != nil {
			return Head{}, ctx.Err()
		}
	}
	return Head{}, &ConflictError{Key: headKey + string(t.Row)}
}

func (s *Store) apply(ctx context.Context, t Transition) (Head, error) {
	id, now := t.Row, s.Now()
	objs, err := s.get(ctx, headKey+string(id), bodyKey+string(id), evidKey+string(id), dueKey+string(id))
	if err != nil {
		return Head{}, err
	}
	heads, err := decodeHeads(objs[:1], []ID{id})
	if err != nil {
		return Head{}, err
	}
	old := heads[0]
	if old.Revision == 0 {
		return Head{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if old.Revision != t.Revision {
		return Head{}, &ConflictError{Key: headKey + string(id)}
	}
	var b body
	if err := json.Unmarshal(objs[1].Data, &b); err != nil {
		return Head{}, fmt.Errorf("%w: row body", ErrStore)
	}
	var evidence []Evidence
	if objs[2].Data != nil {
		if err := json.Unmarshal(objs[2].Data, &evidence); err != nil {
			return Head{}, fmt.Errorf("%w: row evidence", ErrStore)
		}
	}
	claims, err := s.get(ctx, claimKey(old.Claim))
	if err != nil {
		return Head{}, err
	}
	known, err := decodeClaim(claims[0])
	if err != nil {
		return Head{}, err
	}

	from := old.axisOf(t.To.axis())
	reaffirm := t.To == AxisValue(TruthSupported) && from == t.To
	authority := t.Authority
	if reaffirm && !Legal(TruthUnverified, TruthSupported, authority) || !reaffirm && !Legal(from, t.To, authority) {
		return Head{}, &IllegalMoveError{Axis: t.To.axis(), From: from.String(), To: t.To.String(), Authority: authority}
	}
	if err := outranked(old, evidence, t); err != nil {
		return Head{}, err
	}
	if authority == AuthorityUser && t.To.axis() == AxisTruth && !s.authority(t.Actor, b.Content.Subject, b.Content.Predicate) {
		return Head{}, fmt.Errorf("%w: %q over %q", ErrNoAuthority, t.Actor, b.Content.Subject)
	}

	tx, next := batch{}, old
	merged := mergeEvidence(evidence, t.Evidence)
	rank := old.Rank
	if t.To == AxisValue(TruthSupported) {
		if known.Rejection != nil && authority != AuthorityUser {
			return Head{}, fmt.Errorf("%w by %s", ErrRejected, known.Rejection.By)
		}
		if rank, err = s.sufficient(ctx, old, merged, reaffirm, authority); err != nil {
			return Head{}, err
		}
	}
	next.set(t.To, now)
	var contested error
	if t.To == AxisValue(TruthSupported) {
		next.Rank = rank
		if rank == RankUser || openContradiction(merged) < rank {
			next.Flags &^= FlagContested
		}
		if next.Outage == OutageRecorded {
			next.Outage = OutageResolved // a verifier answered
		}
		if err := s.settle(ctx, &tx, &next, b.Content, t.Actor, now); err != nil {
			return Head{}, err
		}
		if next.Truth != TruthSupported {
			// The evidence is kept and the contradiction shows; no state moves.
			contested = fmt.Errorf("%w: a verified row of the same or a higher rank says otherwise", ErrContested)
			next = old
			next.Flags |= FlagContested
		}
	}
	if t.Reject {
		for i := range evidence {
			merged[i].Void = true // what was said so far; the rejection itself stands
		}
		known.Rejection = &Rejection{By: t.Actor, Reason: t.Reason, At: now}
		next.Flags &^= FlagContested
	} else if known.Rejection != nil && next.Truth == TruthSupported {
		known.Rejection = nil
	}
	if t.Reject || claimChanged(claims[0], known) {
		tx.put(Put{Key: claimKey(old.Claim), From: claims[0].Revision, Data: mustJSON(known)})
	} else if t.To == AxisValue(TruthSupported) {
		tx.check(claimKey(old.Claim), claims[0].Revision)
	}

	nonce, kind, to := newNonce(), EntryTransition, t.To
	switch {
	case contested != nil:
		kind, to = EntryContest, from
	case reaffirm:
		kind = EntryReaffirm
	}
	tx.head(old, next, AuditEntry{Kind: kind, Row: id, Revision: old.Revision + 1, At: now, Actor: t.Actor, Authority: authority,
		Source: t.Source, Reason: t.Reason, Axis: to.axis(), From: from.String(), To: to.String(), Evidence: t.Evidence, Nonce: nonce})
	if len(t.Evidence) > 0 || t.Reject && len(merged) > 0 {
		tx.put(Put{Key: evidKey + string(id), From: objs[2].Revision, Data: mustJSON(merged)})
	}
	switch {
	case contested != nil:
	case next.Truth == TruthSupported:
		tx.due(id, objs[3], due{Reason: "to be checked again"}, next.StaleAt)
	case next.Truth == TruthSuperseded:
		tx.notDue(id, objs[3])
	case t.To.axis() == AxisTruth:
		tx.due(id, objs[3], due{Reason: "demoted: " + t.Reason}, now)
	}
	if err := s.commit(ctx, tx.Batch, headKey+string(id), old.Revision+1, nonce); err != nil {
		return Head{}, err
	}
	next.Revision = old.Revision + 1
	return next, contested
}

// outranked refuses a move that would take the verified state away on a word of
// no higher rank. A user's word ends by a user's word alone; the source that
// verified a row may take its own word back.
func outranked(h Head, standing []Evidence, t Transition) error {
	if h.Truth != TruthSupported || t.To.axis() != AxisTruth || t.To == AxisValue(TruthSupported) || t.Authority == AuthorityUser {
		return nil
	}
	if h.Rank == RankUser {
		return fmt.Errorf("%w: a user verified the row", ErrOutranked)
	}
	if t.To != AxisValue(TruthContradicted) {
		return nil // the evidence no longer stands; nothing is claimed instead
	}
	for i := range t.Evidence {
		e := &t.Evidence[i]
		if e.Relation != RelationContradicts {
			continue
		}
		own := slices.ContainsFunc(standing, func(s Evidence) bool { return s.Relation == RelationSupports && !s.Void && s.Group == e.Group })
		if e.Rank > h.Rank || e.Rank == h.Rank && own {
			return nil
		}
	}
	return fmt.Errorf("%w: no contradicting evidence above rank %s", ErrOutranked, h.Rank)
}

// openContradiction is the highest rank at which somebody contradicts the claim
// and has not supported it since.
func openContradiction(evidence []Evidence) Rank {
	open := map[string]Rank{}
	for _, e := range evidence {
		switch {
		case e.Void:
		case e.Relation == RelationContradicts:
			open[e.Group] = e.Rank
		case e.Relation == RelationSupports:
			delete(open, e.Group)
		}
	}
	var worst Rank
	for _, r := range open {
		worst = max(worst, r)
	}
	return worst
}

func claimChanged(o Object, c claimRecord) bool {
	before, err := decodeClaim(o)
	return err != nil || (before.Rejection == nil) != (c.Rejection == nil)
}

// sufficient gathers the kin of the claim and applies I-4.
func (s *Store) sufficient(ctx context.Context, h Head, evidence []Evidence, reaffirm bool, authority Authority) (Rank, error) {
	kin := Kin{Claim: h, EvidenceLineage: map[string][]Head{}}
	ids, err := s.Closure(ctx, h.ID)
	if err != nil {
		return 0, err
	}
	if kin.Ancestors, err = s.heads(ctx, ids); err != nil {
		return 0, err
	}
	for i := range evidence {
		e := &evidence[i]
		if len(e.DerivedFrom) == 0 {
			continue
		}
		up, err := s.Closure(ctx, e.DerivedFrom...)
		if err != nil {
			return 0, err
		}
		if kin.EvidenceLineage[e.ID()], err = s.heads(ctx, dedupe(append(slices.Clone(e.DerivedFrom), up...))); err != nil {
			return 0, err
		}
	}
	rank, err := Sufficient(kin, evidence)
	if err != nil && reaffirm && authority == AuthorityProbe && h.Rank == RankTool {
		return h.Rank, nil // an authoritative source that says its own row again keeps the rank it was born with
	}
	return rank, err
}

// settle decides what a row that is about to be verified does to the verified
// rows that contradict it: other objects of the same subject and functional
// predicate. By rank alone (SR-4.4, X-5).
func (s *Store) settle(ctx context.Context, tx *batch, h *Head, c Content, actor string, now time.Time) error {
	if !c.Typed() || c.Cardinality != CardinalityFunctional {
		return nil
	}
	rivals, err := s.rivals(ctx, c, h.Claim)
	if err != nil {
		return err
	}
	for _, r := range rivals {
		next, entry := r, AuditEntry{Kind: EntryTransition, Row: r.ID, Revision: r.Revision + 1, At: now, Actor: actor,
			Authority: AuthorityProbe, Source: h.Group, Axis: AxisTruth, From: r.Truth.String(), Nonce: newNonce()}
		switch {
		case r.Group == h.Group && r.Rank <= h.Rank, h.Rank > r.Rank:
			// Higher rank, or the same source with newer word.
			entry.To, entry.Reason = TruthContradicted.String(), "contradicted by "+string(h.ID)
			if h.Rank == RankUser {
				entry.Authority = AuthorityUser
			}
			next.set(TruthContradicted, now)
			marks, err := s.get(ctx, dueKey+string(r.ID))
			if err != nil {
				return err
			}
			tx.due(r.ID, marks[0], due{Reason: "demoted: " + entry.Reason}, now)
		case h.Rank == r.Rank || r.Rank == RankUser && h.Rank >= RankTool:
			// Equal rank, or a tool against a user: both stand contested.
			if h.Rank < r.Rank {
				h.Truth, h.Rank = TruthUnverified, 0
			}
			h.Flags |= FlagContested
			next.Flags |= FlagContested
			if next.Flags == r.Flags {
				continue
			}
			entry.Kind, entry.To, entry.Reason = EntryContest, r.Truth.String(), "contested by "+string(h.ID)
		default:
			// Lower rank changes nothing; the newcomer is kept, unverified and visible.
			h.Truth, h.Rank = TruthUnverified, 0
			h.Flags |= FlagContested
			continue
		}
		tx.head(r, next, entry)
	}
	return nil
}

// rivals returns the verified rows of the same line with another claim.
func (s *Store) rivals(ctx context.Context, c Content, claim Key) ([]Head, error) {
	var out []Head
	for after := ""; ; {
		hits, next, err := s.driver.Query(ctx, s.tenant, Query{Term: termLine(c.lineKey()), After: after, Limit: 200})
		if err != nil {
			return nil, err
		}
		heads, err := s.heads(ctx, idsOf(hits))
		if err != nil {
			return nil, err
		}
		for _, h := range heads {
			if h.Truth == TruthSupported && h.Claim != claim {
				out = append(out, h)
			}
		}
		if after = next; after == "" {
			return out, nil
		}
	}
}

// AddEvidence appends evidence that moves no state by itself: a contradiction of
// the same or a lower rank, a dissent after a user's word, support that does not
// suffice yet, a context. The same evidence twice is one. A contradiction of rank
// tool or higher of a verified row contests it in the same atom; anything
// else moves no fitness version.
func (s *Store) AddEvidence(ctx context.Context, row ID, actor, reason string, evidence ...Evidence) error {
	if err := row.check("row"); err != nil {
		return err
	}
	for i := range evidence {
		if err := evidence[i].check(); err != nil {
			return err
		}
	}
	_, err := retry(ctx, func() (struct{}, error) {
		objs, err := s.get(ctx, headKey+string(row), evidKey+string(row))
		if err != nil {
			return struct{}{}, err
		}
		if objs[0].Revision == 0 {
			return struct{}{}, fmt.Errorf("%w: %s", ErrNotFound, row)
		}
		var have []Evidence
		if objs[1].Data != nil {
			if err := json.Unmarshal(objs[1].Data, &have); err != nil {
				return struct{}{}, fmt.Errorf("%w: row evidence", ErrStore)
			}
		}
		merged := mergeEvidence(have, evidence)
		if len(merged) == len(have) {
			return struct{}{}, nil
		}
		nonce := newNonce()
		entry := AuditEntry{Kind: EntryEvidence, Row: row, Revision: objs[1].Revision + 1, At: s.Now(), Actor: actor,
			Authority: AuthorityProbe, Source: evidence[0].Source, Reason: reason, Evidence: merged[len(have):], Nonce: nonce}
		tx := batch{}
		tx.put(Put{Key: objs[1].Key, From: objs[1].Revision, Data: mustJSON(merged), Entry: mustJSON(entry)})
		heads, err := decodeHeads(objs[:1], []ID{row})
		if err != nil {
			return struct{}{}, err
		}
		if h := heads[0]; h.Truth == TruthSupported && !h.Has(FlagContested) && openContradiction(merged) >= RankTool {
			next := h
			next.Flags |= FlagContested
			contest := entry
			contest.Kind, contest.Revision, contest.Axis = EntryContest, h.Revision+1, AxisTruth
			contest.From, contest.To = h.Truth.String(), h.Truth.String()
			tx.head(h, next, contest)
		}
		return struct{}{}, s.commit(ctx, tx.Batch, objs[1].Key, objs[1].Revision+1, nonce)
	})
	return err
}

// mergeEvidence appends what is new; the same evidence counts once (KN-7).
func mergeEvidence(have, more []Evidence) []Evidence {
	out := slices.Clone(have)
	seen := map[string]bool{}
	for i := range out {
		if !out[i].Void {
			seen[out[i].ID()] = true
		}
	}
	for i := range more {
		if id := more[i].ID(); !seen[id] {
			seen[id] = true
			e := more[i]
			e.At = e.At.UTC().Truncate(time.Microsecond)
			out = append(out, e)
		}
	}
	return out
}
