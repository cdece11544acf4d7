package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Apply makes one transition: the move, its audit entry, its evidence and the
// due mark are one transaction, compared and swapped on t.Revision (I-6). It returns the new
// head. It refuses
//
//   - an illegal move: [*IllegalMoveError];
//   - a promotion without sufficient independent evidence: [ErrInsufficient] (I-4), and one by
//     a source that repeats what a call set: [ErrOwnWrite];
//   - one by a user without authority over the subject: [ErrNoAuthority] (I-13);
//   - one of a claim that a user rejected: [ErrRejected];
//   - a demotion on a word of no higher rank: [ErrOutranked];
//   - the word of who was revoked: [ErrRevoked].
//
// What the clock had made of a row that is verified anew, its entry says: by that move the
// row is fresh again. A row that was noted to be stale stays so until it is moved to fresh.
//
// Moving a verified row to TruthSupported again reaffirms it: the evidence is
// added and the freshness window starts anew. Evidence of a lower rank than what
// verified the row does not suffice for that.
//
// A promotion settles its rivals on a functional predicate, by rank alone. A verified
// row with another object is demoted and re-queued if the new evidence is of higher rank
// (SR-2.5). If it is equal, both are contested. If it is lower, or a tool speaks against a
// user, no state moves: the evidence is kept, the row is marked contested, and the error
// is [ErrContested]. Confidence plays no part.
//
// What a source says now of a functional predicate supersedes what it said before, where
// that stood on its word alone: the older row is outdated ([FlagOutdated]), and not
// contradicted. So is a row that its only source contradicts. Whatever was verified since
// the source was asked counts as newer: [ErrOvertaken].
//
// What cannot be read beside the row stands against it where it is to be verified, and
// does not stop what takes from it. Then the new head comes with a [*DamagedError] that
// names what could not be read; of such rows, only the heads were moved.
func (s *Store) Apply(ctx context.Context, t Transition) (Head, error) {
	if err := t.check(); err != nil {
		return Head{}, err
	}
	for range conflictRetries {
		h, err := s.apply(ctx, t)
		var conflict *ConflictError
		if err == nil || !errors.As(err, &conflict) || conflict.Key == headKey.of(t.Row) {
			return h, err // done, or the row itself moved on, which trying again cannot mend
		}
		if ctx.Err() != nil {
			return Head{}, ctx.Err()
		}
	}
	return Head{}, &ConflictError{Key: headKey.of(t.Row)}
}

func (s *Store) apply(ctx context.Context, t Transition) (Head, error) {
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
	if old.Revision == 0 {
		return Head{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	if old.Revision != t.Revision {
		return Head{}, &ConflictError{Key: headKey.of(id)}
	}
	if old.Has(FlagErased) {
		return Head{}, fmt.Errorf("%w: %s", ErrErased, id)
	}
	b, err := s.body(ctx, objs[1])
	if err != nil {
		return Head{}, err
	}
	evid, err := s.evidenceOf(ctx, &old, objs[2])
	if err != nil {
		return Head{}, err
	}
	evidence := evid.list
	revoked, err := s.current(ctx, id, objs[4], evidence, t.Evidence)
	if err != nil {
		return Head{}, err
	}
	claims, known, lost, err := s.claimFor(ctx, &old, b.Content, t.To)
	if err != nil {
		return Head{}, err
	}
	if t.To == AxisValue(TruthSupported) && t.Authority != AuthorityUser {
		if err := s.repeated(ctx, &known, &b.Content, claims[2:]); err != nil {
			return Head{}, err
		}
	}
	rejected := known.Rejection != nil
	about, err := s.rejection(ctx, &known, id, b.Content)
	if err != nil {
		return Head{}, err
	}
	from := old.axisOf(t.To.axis())
	reaffirm := t.To == AxisValue(TruthSupported) && from == t.To
	// A user may reject what a tool contradicted already: that is more, and sticks.
	again := t.Reject && from == t.To
	authority := t.Authority
	if b.Quotes != "" && t.To == AxisValue(TruthSupported) { // it is verified with no claim
		return Head{}, &IllegalMoveError{Axis: AxisTruth, From: from.String(), To: t.To.String(), Authority: authority}
	}
	if old.Truth == TruthSuperseded && !old.Has(FlagOutdated) && t.To.axis() == AxisTruth { // it was retracted
		return Head{}, &IllegalMoveError{Axis: AxisTruth, From: from.String(), To: t.To.String(), Authority: authority}
	}
	if reaffirm && !Legal(TruthUnverified, TruthSupported, authority) || !reaffirm && !again && !Legal(from, t.To, authority) {
		return Head{}, &IllegalMoveError{Axis: t.To.axis(), From: from.String(), To: t.To.String(), Authority: authority}
	}
	if err := outranked(old, evidence, t); err != nil {
		return Head{}, err
	}
	if authority == AuthorityUser && (t.To.axis() == AxisTruth || raises(from, t.To)) && !s.authority(t.Actor, b.Content.Subject, b.Content.Predicate) {
		return Head{}, fmt.Errorf("%w: %q over %q", ErrNoAuthority, t.Actor, b.Content.Subject)
	}

	if authority != AuthorityUser && slices.ContainsFunc(t.Evidence, func(e Evidence) bool { return e.Rank == RankUser }) {
		return Head{}, invalid("evidence.rank", "not_earned", "a user speaks with the authority of a user (I-13)")
	}

	own := authority == AuthorityUser && t.To == AxisValue(TruthSupported) && s.own(t.Actor, b.Content.Subject, b.Content.Predicate)
	if own {
		t.Evidence = asOwn(t.Evidence)
	}
	tx, next := s.begin(ctx, now), old
	tx.check(revokedKey, revoked.Revision)
	said, voided, voids := evidence, false, voidsNothing
	if t.Reject {
		said, voided = voidAll(evidence)
		voids = voidsEverything
	} else if old.Truth == TruthSupported && t.To.axis() == AxisTruth && !reaffirm {
		said, voided = voidSupports(evidence)
		voids = voidsSupports
	}
	merged := mergeEvidence(said, t.Evidence)
	rank, renews := old.Rank, reaffirm
	agrees := own && reaffirm && !old.Has(FlagOwnWord) // it adds nothing to what counts for everybody
	if t.To == AxisValue(TruthSupported) {
		if about.withholds(RankPrimarySource) && authority != AuthorityUser {
			return Head{}, fmt.Errorf("%w by %s", ErrRejected, known.Rejection.By)
		}
		basis := merged
		if !own { // what stands on somebody's own word alone is not verified yet
			basis, renews = everybodys(merged), reaffirm && !old.Has(FlagOwnWord)
		}
		if agrees {
			basis, renews = t.Evidence, false
		}
		if rank, err = s.sufficient(ctx, old, b.Content, basis, t, renews); err != nil {
			return Head{}, err
		}
		if about.withholds(rank) && rank != RankUser {
			return Head{}, fmt.Errorf("%w by %s", ErrRejected, known.Rejection.By)
		}
		if !renews && rank != RankUser && openContradiction(merged) >= rank { // SR-7.14
			return Head{}, fmt.Errorf("%w: a source of rank %s disagrees", ErrInsufficient, openContradiction(merged))
		}
		if !renews && rank != RankUser {
			switch against, why, err := s.disputed(ctx, &known, id, b.Content, merged); {
			case err != nil:
				return Head{}, err
			case against >= rank:
				return Head{}, fmt.Errorf("%w: %s", ErrInsufficient, why)
			}
		}
	}
	outdated := t.outdates(&old, evidence) && s.registry.turns(b.Content.Predicate, nil)
	if next.set(t.To, now); outdated {
		next.set(TruthSuperseded, now)
		next.Flags |= FlagOutdated
	}
	var contested error
	if t.To == AxisValue(TruthSupported) {
		next.Rank = rank
		next.Flags &^= FlagOwnWord
		if next.Speaker = (Token{}); next.Has(FlagOwnDispute) {
			next.Speaker = old.Speaker
		}
		if own {
			next.Flags = next.Flags&^FlagOwnDispute | FlagOwnWord
			next.Speaker = s.Speaker(t.Actor)
		}
		// A contest with a user's word ends by a user's word.
		if open := openContradiction(merged); authority == AuthorityUser && rank == RankUser || open < RankTool || rank != RankUser && open < rank {
			next.Flags &^= FlagContested
		}
		if next.Outage == OutageRecorded {
			next.Outage = OutageResolved // a verifier answered
		}
		if err := tx.settle(claims[1], &next, b.Content, merged, t.Actor, b.Asserter.Group(), t.Asked); err != nil {
			return Head{}, err
		}
		if next.Truth != TruthSupported {
			// The evidence is kept and the contradiction shows; no state moves.
			contested = fmt.Errorf("%w: a verified row of the same or a higher rank says otherwise", ErrContested)
			next = old
			next.Flags |= FlagContested
		}
		if agrees {
			next = old
			if next.Has(FlagOwnDispute) {
				next.Flags &^= FlagOwnDispute
				next.Speaker = Token{}
			}
		}
	}
	if old.Has(FlagOwnWord) && next.Truth != TruthSupported {
		if err := tx.undispute(claims[1], b.Content, AuditEntry{Actor: t.Actor, Authority: authority, Source: t.Source, Reason: "what disputed it is said no more"}); err != nil {
			return Head{}, err
		}
	}
	if t.To == AxisValue(TruthContradicted) {
		unread, err := s.siblings(ctx, tx, &known, old, b.Content, t, now)
		if err != nil {
			return Head{}, err
		}
		lost = append(lost, unread...)
	}
	if t.Reject {
		known.Rejection, known.Rejected, known.class = &Rejection{By: t.Actor, Reason: t.Reason, At: now}, id, old.Class
		next.Flags &^= FlagContested
	} else if about == ofThisName && next.Truth == TruthSupported && (!own || s.own(known.Rejection.By, b.Content.Subject, b.Content.Predicate)) {
		known.Rejection, known.Rejected = nil, ""
	}
	joins := t.To.axis() == AxisTruth && next.decides() && !slices.Contains(known.Rows, id)
	if joins {
		listed, err := tx.join(&known, id, true)
		if err != nil {
			return Head{}, err
		}
		if !listed && next.Truth == TruthSupported {
			next.Flags |= FlagContested
		}
	}
	if t.To == AxisValue(TruthContradicted) || rejected != (known.Rejection != nil) || joins {
		// Put and not only checked: a sibling that is being verified meets it.
		known.said = known.said || t.To == AxisValue(TruthContradicted)
		tx.claim(claims[0].Key, claims[0].Revision, known)
	} else if t.To.axis() == AxisTruth { // one claim's rows are verified and contradicted in turn
		tx.check(claims[0].Key, claims[0].Revision)
	}

	nonce, kind, to := newNonce(), EntryTransition, t.To
	switch {
	case outdated:
		to = TruthSuperseded
	case contested != nil:
		kind, to = EntryContest, from
	case reaffirm:
		kind = EntryReaffirm
	case t.Reject:
		kind = EntryReject
	}
	entry := AuditEntry{Kind: kind, Row: id, Revision: old.Revision + 1, At: now, Actor: t.Actor, Authority: authority,
		Source: t.Source, Reason: t.Reason, Axis: to.axis(), From: from.String(), To: to.String(), Nonce: nonce}
	if t.To == AxisValue(TruthSupported) {
		entry.Reason = old.wasStale(&next, now, entry.Reason)
	}
	var c change
	if voided || len(merged) > len(evidence) {
		if !voided {
			voids = voidsNothing
		}
		c = tx.evidence(&old, evid, voids, merged[len(said):])
	}
	tx.head(old, next, &b.Content, entry, c)
	switch {
	case contested != nil, t.To.axis() != AxisTruth:
	case agrees:
	case next.Truth == TruthSupported && next.Has(FlagOwnWord):
		tx.due(&old, objs[3], due{Reason: dueAgain}, now)
	case next.Truth == TruthSupported:
		tx.due(&old, objs[3], due{Reason: dueAgain}, next.StaleAt)
	case next.Truth == TruthSuperseded && !outdated:
		tx.notDue(id, objs[3])
	default:
		tx.due(&old, objs[3], due{Reason: "demoted: " + t.Reason}, now)
	}
	if err := tx.commit(headKey.of(id), old.Revision+1, nonce); err != nil {
		return Head{}, err
	}
	next.Revision = old.Revision + 1
	if len(lost) > 0 {
		return next, fmt.Errorf("the row was moved, and what cannot be read beside it may still stand: %w", &DamagedError{Keys: lost})
	}
	return next, contested
}

// claimFor reads the claim and the line of a row that is to be moved and, if it is to be
// verified, what calls set about its subject. A row is verified
// only beside a claim and a line that are as they were written and know of it. To take
// from a row needs neither: then lost names what is damaged, and nothing is believed of it.
func (s *Store) claimFor(ctx context.Context, h *Head, c Content, to AxisValue) (objs []Object, known claimRecord, lost []string, err error) {
	keys := []string{claimKey.at(h.Claim), s.line(c)}
	verifies := to == AxisValue(TruthSupported)
	var damaged []int
	if verifies {
		objs, damaged, err = s.each(ctx, append(keys, s.ownKeys(c.Subject)...))
	} else { // one that was put back stands in the way no more than one that is damaged
		objs, damaged, err = s.driver.asStored(ctx, s.scope.tenant, keys)
	}
	if err != nil {
		return nil, known, nil, err
	}
	if !slices.Contains(damaged, 0) {
		known, err = s.claimOf(ctx, objs[0])
	}
	if err != nil && !unreadable(err) {
		return nil, known, nil, err
	}
	if err != nil || slices.Contains(damaged, 0) || known.misses(h.ID) {
		lost = append(lost, keys[0])
	}
	line, err := lineOf(objs[1])
	if err != nil || slices.Contains(damaged, 1) || h.Truth == TruthSupported && c.Typed() && line.misses(h.ID) {
		lost = append(lost, keys[1])
	}
	for _, i := range damaged {
		if i > 1 {
			lost = append(lost, objs[i].Key)
		}
	}
	switch {
	case len(lost) == 0 || to.axis() != AxisTruth:
		return objs, known, nil, nil
	case verifies:
		return nil, known, nil, &DamagedError{Keys: lost}
	}
	if lost[0] == keys[0] {
		known.distrust(h.ID)
	}
	return objs, known, lost, nil
}

// current refuses new evidence that was revoked, and sees to it that no standing
// evidence of a row is: of a row that the walk has not reached it is taken away
// first, and the caller looks again.
func (s *Store) current(ctx context.Context, row ID, o Object, standing, added []Evidence) (*revocations, error) {
	r, err := s.revocationsOf(o)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.damaged, row) {
		return nil, &DamagedError{Keys: []string{headKey.of(row)}}
	}
	if err := r.refuse(added); err != nil {
		return nil, err
	}
	if r.touched(standing) == nil {
		return r, nil
	}
	if _, _, err := s.withdraw(ctx, row); err != nil {
		return nil, err
	}
	return nil, &ConflictError{Key: evidKey.of(row)}
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
// and has not supported it since, at no lower rank.
func openContradiction(evidence []Evidence) Rank {
	open := map[string]Rank{}
	for _, e := range evidence {
		switch {
		case e.Void:
		case e.Relation == RelationContradicts:
			open[e.Group] = e.Rank
		case e.Relation == RelationSupports && e.Rank >= open[e.Group]:
			delete(open, e.Group)
		}
	}
	var worst Rank
	for _, r := range open {
		worst = max(worst, r)
	}
	return worst
}

// raises reports whether a move of an axis other than truth gives something
// back: only a user with authority over the subject does that as a user.
func raises(from, to AxisValue) bool {
	switch to := to.(type) {
	case Security:
		return to == SecurityClean
	case Freshness:
		return to == FreshnessFresh
	case Retrieval:
		return from == AxisValue(RetrievalBlocked) || from == AxisValue(RetrievalHidden) && to == RetrievalRestricted || to == RetrievalNormal
	}
	return false
}

func voidAll(evidence []Evidence) (out []Evidence, any bool) {
	out = slices.Clone(evidence)
	for i := range out {
		any = any || !out[i].Void
		out[i].Void = true
	}
	return out, any
}

// sufficient gathers the kin of the claim and applies I-4. To verify again what
// is verified takes new evidence that would suffice alone and is of no lower rank, or
// the new word of the very source that the row came from.
func (s *Store) sufficient(ctx context.Context, h Head, c Content, evidence []Evidence, t Transition, reaffirm bool) (Rank, error) {
	if reaffirm {
		evidence = t.Evidence
	}
	evidence = slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool {
		return e.Rank != RankUser && c.Typed() && !s.registry.speaks(c.Predicate, e.Group)
	})
	if t.Authority == AuthorityAutoObservation {
		evidence = observed(evidence)
	}
	kin, err := s.kin(ctx, h, evidence)
	if err != nil {
		return 0, err
	}
	rank, err := Sufficient(kin, evidence)
	own := t.Authority == AuthorityProbe && (reaffirm && h.Rank == RankTool || !reaffirm && t.again || h.Has(FlagOutdated))
	if !reaffirm && !own {
		return rank, err
	}
	if err != nil && own {
		kin.Claim.Group = Token{} // its own source may say it again, if it does not only repeat the row
		own := slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool { return e.Rank < RankTool || s.scope.group(e.Group) != h.Group })
		rank, err = Sufficient(kin, own)
	}
	if err == nil && rank < h.Rank {
		err = fmt.Errorf("%w: what rank %s verified is not renewed at rank %s", ErrInsufficient, h.Rank, rank)
	}
	if err != nil {
		return 0, err
	}
	return rank, nil
}

// kin gathers what the independence of evidence for a row is judged against.
func (s *Store) kin(ctx context.Context, h Head, evidence []Evidence) (Kin, error) {
	kin := Kin{Claim: h, EvidenceLineage: map[string][]Head{}, Group: s.scope.folded}
	ids, err := s.closure(ctx, []Head{h})
	if err != nil {
		return kin, err
	}
	if kin.Ancestors, err = s.heads(ctx, ids); err != nil {
		return kin, err
	}
	for i := range evidence {
		e := &evidence[i]
		if len(e.DerivedFrom) == 0 {
			continue
		}
		up, err := s.Closure(ctx, e.DerivedFrom...)
		if errors.Is(err, ErrNotFound) {
			kin.EvidenceLineage[e.ID()] = []Head{{}} // what it rests on is unknown
			continue
		}
		if err != nil {
			return kin, err
		}
		if kin.EvidenceLineage[e.ID()], err = s.heads(ctx, dedupe(append(slices.Clone(e.DerivedFrom), up...))); err != nil {
			return kin, err
		}
	}
	return kin, nil
}

// observed is the evidence that counts where nobody asked a source and rows were
// only seen side by side: structured results of tools, and never of one group (D-30). A
// document that somebody read is none.
func observed(evidence []Evidence) []Evidence {
	const groups = 2
	out := slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool { return e.Rank != RankTool })
	for i := range out {
		out[i].Quorum = max(out[i].Quorum, groups)
	}
	return out
}

// settle decides what a row that is about to be verified does to the verified
// rows that contradict it: other objects of the same subject and functional
// predicate. By rank alone (SR-4.4, X-5): a higher rank demotes; the same source with a
// newer word supersedes what stood on its word alone (I-16); an equal rank stands beside,
// both contested; a lower one is not verified (h.Truth says so) and demotes nobody. The line is put in the
// same transaction, so that of two rivals verified at once one sees the other; it lists the
// rows that were verified, so that nobody looks for rivals where there are none.
//
// A rival that cannot be read stands, and so may one that the line had no room for: the
// row is contested.
func (t *transaction) settle(line Object, h *Head, c Content, evidence []Evidence, actor, source string, asked LineMark) error {
	if !c.Typed() {
		return nil
	}
	l, err := lineOf(line)
	if err != nil {
		return err
	}
	functional := c.Cardinality == CardinalityFunctional
	unsure := c.Cardinality == CardinalityUnknown && h.Rank == RankUser && h.Origin == OriginUserAsserted
	ids, whole := l.rivals(functional || unsure)
	verified, err := t.store.listed(t.ctx, ids, TruthSupported)
	if err != nil {
		return err
	}
	l.drop(ids, verified)
	rivals, err := t.store.standing(t.ctx, verified)
	if err != nil {
		return err
	}
	if functional {
		if err := asked.overtaken(line, h.Claim, rivals); err != nil {
			return err
		}
	}
	its := AuditEntry{Actor: actor, Authority: AuthorityUser, Source: source, Reason: "agreed with by " + string(h.ID)}
	rivals = slices.DeleteFunc(rivals, func(r bystander) bool {
		if r.Claim == h.Claim && r.ID != h.ID && h.Has(FlagOwnWord) && r.Has(FlagOwnDispute) {
			r.agree(t, its, t.now)
		}
		return r.Claim == h.Claim
	})
	if unsure { // what one person says twice, of what may have one object or many
		for i := range rivals {
			r := &rivals[i]
			r.unsure = !r.unread && r.body.Content.Cardinality == CardinalityUnknown
		}
		rivals = slices.DeleteFunc(rivals, func(r bystander) bool {
			return r.unsure && (r.Rank != RankUser || r.Origin != OriginUserAsserted || !slices.ContainsFunc(backers(r.evid.list, RankUser), func(g string) bool { return slices.Contains(backers(evidence, RankUser), g) }))
		})
	}
	if !whole {
		h.Flags |= FlagContested
	}
	t.rival(h, c, rivals, evidence, actor, source)
	if h.Truth != TruthSupported { // nobody need meet it, and what was verified before stands
		t.check(line.Key, line.Revision)
		return nil
	}
	if err := t.enlist(&l, h.ID, functional); err != nil {
		return err
	}
	l.By = h.ID
	t.put(Put{Key: line.Key, From: line.Revision, Data: l.encode()})
	return nil
}

// rival holds a row against its rivals, and moves each of those that loses by it.
func (t *transaction) rival(h *Head, c Content, rivals []bystander, evidence []Evidence, actor, source string) {
	rank, stands := h.Rank, true
	own := backers(evidence, rank)
	beaten, beside, history := make([]bool, len(rivals)), make([]bool, len(rivals)), make([]bool, len(rivals))
	for i := range rivals {
		r := &rivals[i]
		history[i] = rank == r.Rank && rank >= RankTool && restsOn(r.evid.list, own, rank) && t.store.registry.turns(c.Predicate, own)
		same := history[i] || rank < RankTool && rank == r.Rank && slices.ContainsFunc(backers(r.evid.list, r.Rank), func(g string) bool { return slices.Contains(own, g) })
		switch itsOwn, theirOwn := h.Has(FlagOwnWord), r.Has(FlagOwnWord); {
		case r.unread: // what it says is not known: it is not beaten, and only its rank counts
			h.Flags |= FlagContested
			stands = stands && rank >= r.Rank
			continue
		case r.unsure:
			h.Flags |= FlagContested
			continue
		case itsOwn && theirOwn: // of one principal: a subject has one name
			beaten[i] = true
			continue
		case itsOwn: // a word that counts for one takes nothing from what counts for all
			beside[i] = true
			if r.Rank >= RankUser {
				h.Flags |= FlagContested
			}
			continue
		case theirOwn:
			beside[i] = true
			h.Flags |= FlagOwnDispute
			h.Speaker = r.Speaker
			continue
		}
		beaten[i] = rank > r.Rank || same
		stands = stands && (beaten[i] || rank == r.Rank)
		if !beaten[i] {
			h.Flags |= FlagContested
		}
	}
	if !stands {
		h.Truth, h.Rank = TruthUnverified, 0
	}
	authority := AuthorityProbe
	if rank == RankUser {
		authority = AuthorityUser
	}
	for i := range rivals {
		r := &rivals[i]
		entry := AuditEntry{Actor: actor, Authority: authority, Source: source}
		switch {
		case r.Revision == 0: // nothing can be put in the place of what is damaged
		case r.unread && h.Has(FlagOwnWord):
		case beside[i] && h.Has(FlagOwnWord):
			entry.Reason = "the own word of " + string(h.ID) + " says otherwise"
			r.dispute(t, entry, h.Speaker, t.now)
		case beside[i]: // an own word stands for its speaker; a source as good as a tool contests it
			if rank >= RankTool && stands {
				entry.Reason = "contested by " + string(h.ID)
				r.contest(t, entry, t.now)
			}
		case stands && beaten[i]:
			if history[i] {
				entry.Reason = "superseded by " + string(h.ID)
				r.outdate(t, entry, t.now)
				continue
			}
			entry.Reason = "contradicted by " + string(h.ID)
			r.demote(t, entry, t.now)
		case !beaten[i] && (rank == r.Rank || rank >= RankTool):
			entry.Reason = "contested by " + string(h.ID)
			r.contest(t, entry, t.now)
		}
	}
}

// backers are the groups whose standing support carries a rank.
func backers(evidence []Evidence, rank Rank) []string {
	var out []string
	for _, e := range evidence {
		if e.Relation == RelationSupports && !e.Void && e.Rank == rank {
			out = append(out, e.Group)
		}
	}
	return out
}

// bystander is another verified row that a transition of one row moves too, with
// the objects that move with it.
type bystander struct {
	Head
	body body
	evid evidenceObject
	mark Object

	unread bool // it cannot be read; of its head, too, nothing is known if that is at no revision
	gone   bool // its content was erased
	unsure bool // nobody said whether both can be so
}

func (r *bystander) entry(e AuditEntry, kind EntryKind, to Truth, now time.Time) AuditEntry {
	e.Kind, e.Row, e.Revision, e.At, e.Nonce = kind, r.ID, r.Revision+1, now, newNonce()
	e.Axis, e.From, e.To = AxisTruth, r.Truth.String(), to.String()
	return e
}

// demote contradicts the row: its supports are void, and it is due for a check. Of one
// that cannot be read the head moves alone.
func (r *bystander) demote(tx *transaction, e AuditEntry, now time.Time) {
	next := r.Head
	next.set(TruthContradicted, now)
	var c change
	if _, any := voidSupports(r.evid.list); any && !r.unread {
		c = tx.evidence(&r.Head, r.evid, voidsSupports, nil)
	}
	tx.head(r.Head, next, nil, r.entry(e, EntryTransition, TruthContradicted, now), c)
	if r.unread { // it is due when it would have been
		return
	}
	tx.due(&r.Head, r.mark, due{Reason: "demoted: " + e.Reason}, now)
}

// outdate supersedes the row: its source says otherwise now. Its supports are void, and
// nobody is asked about it.
func (r *bystander) outdate(tx *transaction, e AuditEntry, now time.Time) {
	next := r.Head
	next.set(TruthSuperseded, now)
	next.Flags = next.Flags&^FlagContested | FlagOutdated
	var c change
	if _, any := voidSupports(r.evid.list); any {
		c = tx.evidence(&r.Head, r.evid, voidsSupports, nil)
	}
	tx.head(r.Head, next, nil, r.entry(e, EntryTransition, TruthSuperseded, now), c)
	tx.notDue(r.ID, r.mark)
}

func (r *bystander) contest(tx *transaction, e AuditEntry, now time.Time) {
	if r.Has(FlagContested) {
		return
	}
	next := r.Head
	next.Flags |= FlagContested
	tx.head(r.Head, next, nil, r.entry(e, EntryContest, r.Truth, now), change{})
}

// voidSupports ends what spoke for a row that is no longer verified, so that it
// does not verify the row again when something else is said.
func voidSupports(evidence []Evidence) (out []Evidence, any bool) {
	out = slices.Clone(evidence)
	for i := range out {
		if out[i].Relation == RelationSupports && !out[i].Void {
			out[i].Void, any = true, true
		}
	}
	return out, any
}

// siblings moves the other verified rows of a claim that was contradicted, of the same
// exact subject and predicate: respelling the object does not escape it, and a name that
// is only spelled alike loses nothing (I-9). A user's word demotes all of them; evidence
// demotes those of a lower rank and contests the others. One whose content cannot be read
// is moved by its head, whatever its exact subject; unread names those that cannot be read.
func (s *Store) siblings(ctx context.Context, tx *transaction, known *claimRecord, of Head, c Content, t Transition, now time.Time) (unread []string, err error) {
	rank := Rank(0)
	for _, e := range t.Evidence {
		if e.Relation == RelationContradicts {
			rank = max(rank, e.Rank)
		}
	}
	if t.Authority != AuthorityUser && rank == 0 {
		return nil, nil
	}
	same, err := s.listed(ctx, without(known.Rows, of.ID), TruthSupported)
	if err == nil {
		same, err = s.standing(ctx, same)
	}
	if err != nil {
		return nil, err
	}
	for i := range same {
		r := &same[i]
		if !r.unread && !r.body.Content.beside(c) {
			continue
		}
		entry := AuditEntry{Actor: t.Actor, Authority: t.Authority, Source: t.Source, Reason: t.Reason}
		switch {
		case r.Revision == 0:
		case t.Authority == AuthorityUser || rank > r.Rank:
			r.demote(tx, entry, now)
		case rank >= RankTool:
			r.contest(tx, entry, now)
		}
		if r.unread {
			unread = append(unread, headKey.of(r.ID))
		}
	}
	return unread, nil
}

func without(ids []ID, one ID) []ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return id == one })
}

// disputed is the highest rank at which a source contradicted another row of the
// claim, and has supported neither that one nor this one since: what is said against
// a claim is said against all of its rows about that exact subject (I-9). Where it is not
// known what was said, nothing below a user's word stands against it. why is for people.
func (s *Store) disputed(ctx context.Context, known *claimRecord, row ID, c Content, evidence []Evidence) (against Rank, why string, err error) {
	switch {
	case !known.said:
		return 0, "", nil
	case known.beyond:
		return RankUser, "the claim has more rows than its record lists, and one of them was contradicted", nil
	}
	others, err := s.listed(ctx, without(known.Rows, row), TruthContradicted, TruthSuperseded)
	if err != nil {
		return 0, "", err
	}
	said := slices.Clone(evidence)
	for i := range others {
		r := &others[i]
		if r.unread {
			return RankUser, fmt.Sprintf("row %s of the claim cannot be read, and counts as contradicted", r.ID), nil
		}
		if r.body.Content.beside(c) && (r.Truth == TruthContradicted || r.Has(FlagOutdated)) {
			said = append(said, r.evid.list...)
		}
	}
	slices.SortStableFunc(said, func(a, b Evidence) int { return a.At.Compare(b.At) })
	against = openContradiction(said)
	return against, fmt.Sprintf("a source of rank %s contradicted another row of the claim", against), nil
}

// standing are those of some verified rows that do not rest on what was revoked. One that
// cannot be read is among them.
func (s *Store) standing(ctx context.Context, verified []bystander) ([]bystander, error) {
	if len(verified) == 0 {
		return nil, nil
	}
	revoked, err := s.knownRevocations(ctx)
	if err != nil {
		return nil, err
	}
	var out []bystander
	for _, r := range verified {
		if !r.unread {
			revoked.harm(&r.Head, r.evid.list)
		}
		if r.unread || r.Truth == TruthSupported {
			out = append(out, r)
		}
	}
	return out, nil
}

// AddEvidence appends evidence that moves no state by itself: a contradiction of
// the same or a lower rank, a dissent after a user's word, support that does not
// suffice yet, a context. The same evidence twice is one. A contradiction of rank
// tool or higher of a verified row contests it in the same transaction; anything
// else moves no fitness version.
func (s *Store) AddEvidence(ctx context.Context, row ID, actor, reason string, evidence ...Evidence) error {
	if err := row.check("row"); err != nil {
		return err
	}
	for i := range evidence {
		if err := evidence[i].check(); err != nil {
			return err
		}
		if evidence[i].Rank == RankUser && evidence[i].Relation == RelationSupports {
			return invalid("evidence.rank", "not_earned", "a user's support is applied, with authority, and not added (I-13)")
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	_, err := retry(ctx, func() (struct{}, error) {
		objs, err := s.get(ctx, headKey.of(row), evidKey.of(row), noteKey.of(row), revokedKey)
		if err != nil {
			return struct{}{}, err
		}
		if objs[0].Revision == 0 {
			return struct{}{}, fmt.Errorf("%w: %s", ErrNotFound, row)
		}
		heads, err := decodeHeads(objs[:1], []ID{row})
		if err != nil {
			return struct{}{}, err
		}
		h := heads[0]
		if h.Has(FlagErased) {
			return struct{}{}, fmt.Errorf("%w: %s", ErrErased, row)
		}
		have, err := s.evidenceOf(ctx, &h, objs[1])
		if err != nil {
			return struct{}{}, err
		}
		revoked, err := s.current(ctx, row, objs[3], have.list, evidence)
		if err != nil {
			return struct{}{}, err
		}
		merged := mergeEvidence(have.list, evidence)
		if len(merged) == len(have.list) {
			return struct{}{}, nil
		}
		var prev link
		if objs[2].Data != nil {
			if _, err := prev.decode(objs[2].Data); err != nil {
				return struct{}{}, faulty(err, "row note")
			}
		}
		nonce, now := newNonce(), s.Now()
		entry := AuditEntry{Kind: EntryEvidence, Row: row, Revision: objs[2].Revision + 1, At: now, Actor: actor,
			Authority: AuthorityProbe, Source: evidence[0].Source, Reason: reason, Nonce: nonce}
		tx := s.begin(ctx, now)
		tx.check(revokedKey, revoked.Revision)
		tx.note(&h, objs[2], prev, entry, tx.evidence(&h, have, voidsNothing, merged[len(have.list):]))
		if h.Truth == TruthSupported && !h.Has(FlagContested) && openContradiction(merged) >= RankTool {
			next := h
			next.Flags |= FlagContested
			contest := entry
			contest.Kind, contest.Revision, contest.Axis = EntryContest, h.Revision+1, AxisTruth
			contest.From, contest.To = h.Truth.String(), h.Truth.String()
			tx.head(h, next, nil, contest, change{})
		}
		return struct{}{}, tx.commit(objs[2].Key, objs[2].Revision+1, nonce)
	})
	return err
}

// mergeEvidence appends what is new; the same evidence counts once (KN-7). It is
// new again if it was voided, or if its source has said something else since.
func mergeEvidence(have, more []Evidence) []Evidence {
	out := slices.Clone(have)
	ids := make([]string, len(out), len(out)+len(more))
	for i := range out {
		ids[i] = out[i].ID()
	}
	for _, e := range more {
		e.At = e.At.UTC().Truncate(time.Microsecond)
		id := e.ID()
		if !repeats(out, ids, &e, id) {
			out, ids = append(out, e), append(ids, id)
		}
	}
	return out
}

func repeats(have []Evidence, ids []string, e *Evidence, id string) bool {
	for i, h := range slices.Backward(have) {
		switch {
		case ids[i] == id:
			return !h.Void || e.At.Before(h.At)
		case !h.Void && h.Group == e.Group && h.Relation != e.Relation && !e.At.Before(h.At):
			return false
		}
	}
	return false
}
