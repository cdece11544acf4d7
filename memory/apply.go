package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Apply makes one transition: the move, its audit entry, its evidence and the
// due mark are one atom, compared and swapped on t.Revision (I-6). It refuses an
// illegal move ([*IllegalMoveError]), a promotion without sufficient independent
// evidence ([ErrInsufficient], I-4), one by a user without authority over the
// subject ([ErrNoAuthority], I-13), one of a claim that a user rejected
// ([ErrRejected]), a demotion on a word of no higher rank ([ErrOutranked]), and the
// word of who was revoked ([ErrRevoked]).
// It returns the new head.
//
// Moving a verified row to TruthSupported again reaffirms it: the evidence is
// added and the freshness window starts anew. Evidence of a lower rank than what
// verified the row does not suffice for that.
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
	evid, err := s.evidenceOf(ctx, objs[2])
	if err != nil {
		return Head{}, err
	}
	evidence := evid.list
	revoked, err := s.current(ctx, id, objs[4], evidence, t.Evidence)
	if err != nil {
		return Head{}, err
	}
	claims, err := s.get(ctx, claimKey.at(old.Claim), s.line(b.Content))
	if err != nil {
		return Head{}, err
	}
	known, err := s.claimOf(ctx, claims[0])
	if err != nil {
		return Head{}, err
	}

	rejected := known.Rejection != nil

	from := old.axisOf(t.To.axis())
	reaffirm := t.To == AxisValue(TruthSupported) && from == t.To
	// A user may reject what a tool contradicted already: that is more, and sticks.
	again := t.Reject && from == t.To
	authority := t.Authority
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
	rank := old.Rank
	if t.To == AxisValue(TruthSupported) {
		if known.Rejection != nil && authority != AuthorityUser {
			return Head{}, fmt.Errorf("%w by %s", ErrRejected, known.Rejection.By)
		}
		if rank, err = s.sufficient(ctx, old, merged, t, reaffirm); err != nil {
			return Head{}, err
		}
		if known.Rejection != nil && rank != RankUser {
			return Head{}, fmt.Errorf("%w by %s", ErrRejected, known.Rejection.By)
		}
		if !reaffirm && rank != RankUser && openContradiction(merged) >= rank { // SR-7.14
			return Head{}, fmt.Errorf("%w: a source of rank %s disagrees", ErrInsufficient, openContradiction(merged))
		}
		if !reaffirm && rank != RankUser {
			switch against, err := s.disputed(ctx, old.Claim, id, claims[0], merged); {
			case err != nil:
				return Head{}, err
			case against >= rank:
				return Head{}, fmt.Errorf("%w: a source of rank %s contradicted another row of the claim", ErrInsufficient, against)
			}
		}
	}
	next.set(t.To, now)
	var contested error
	if t.To == AxisValue(TruthSupported) {
		next.Rank = rank
		// A contest with a user's word ends by a user's word.
		if open := openContradiction(merged); authority == AuthorityUser && rank == RankUser || open < RankTool || rank != RankUser && open < rank {
			next.Flags &^= FlagContested
		}
		if next.Outage == OutageRecorded {
			next.Outage = OutageResolved // a verifier answered
		}
		if err := tx.settle(claims[1], &next, b.Content, merged, t.Actor, b.Asserter.Group()); err != nil {
			return Head{}, err
		}
		if next.Truth != TruthSupported {
			// The evidence is kept and the contradiction shows; no state moves.
			contested = fmt.Errorf("%w: a verified row of the same or a higher rank says otherwise", ErrContested)
			next = old
			next.Flags |= FlagContested
		}
	}
	if t.To == AxisValue(TruthContradicted) {
		if err := s.siblings(ctx, tx, old, t, now); err != nil {
			return Head{}, err
		}
	}
	if t.Reject {
		known.Rejection, known.Rejected = &Rejection{By: t.Actor, Reason: t.Reason, At: now}, id
		next.Flags &^= FlagContested
	} else if known.Rejection != nil && next.Truth == TruthSupported {
		known.Rejection, known.Rejected = nil, ""
	}
	if t.To == AxisValue(TruthContradicted) || rejected != (known.Rejection != nil) {
		// Put and not only checked: a sibling that is being verified meets it.
		tx.claim(claimKey.at(old.Claim), claims[0].Revision, known, old.Class)
	} else if t.To.axis() == AxisTruth { // one claim's rows are verified and contradicted in turn
		tx.check(claimKey.at(old.Claim), claims[0].Revision)
	}

	nonce, kind, to := newNonce(), EntryTransition, t.To
	switch {
	case contested != nil:
		kind, to = EntryContest, from
	case reaffirm:
		kind = EntryReaffirm
	case t.Reject:
		kind = EntryReject
	}
	entry := AuditEntry{Kind: kind, Row: id, Revision: old.Revision + 1, At: now, Actor: t.Actor, Authority: authority,
		Source: t.Source, Reason: t.Reason, Axis: to.axis(), From: from.String(), To: to.String(), Nonce: nonce}
	var c change
	if voided || len(merged) > len(evidence) {
		if !voided {
			voids = voidsNothing
		}
		c = tx.evidence(&old, evid, voids, merged[len(said):])
	}
	tx.head(old, next, entry, c)
	switch {
	case contested != nil, t.To.axis() != AxisTruth:
	case next.Truth == TruthSupported:
		tx.due(&old, objs[3], due{Reason: dueAgain}, next.StaleAt)
	case next.Truth == TruthSuperseded:
		tx.notDue(id, objs[3])
	default:
		tx.due(&old, objs[3], due{Reason: "demoted: " + t.Reason}, now)
	}
	if err := tx.commit(headKey.of(id), old.Revision+1, nonce); err != nil {
		return Head{}, err
	}
	next.Revision = old.Revision + 1
	return next, contested
}

// current refuses new evidence that was revoked, and sees to it that no standing
// evidence of a row is: of a row that the walk has not reached it is taken away
// first, and the caller looks again.
func (s *Store) current(ctx context.Context, row ID, o Object, standing, added []Evidence) (*revocations, error) {
	r, err := s.revocationsOf(ctx, o)
	if err != nil {
		return nil, err
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
func (s *Store) sufficient(ctx context.Context, h Head, evidence []Evidence, t Transition, reaffirm bool) (Rank, error) {
	if reaffirm {
		evidence = t.Evidence
	}
	if t.Authority == AuthorityAutoObservation {
		evidence = observed(evidence)
	}
	kin := Kin{Claim: h, EvidenceLineage: map[string][]Head{}, Group: s.scope.folded}
	ids, err := s.closure(ctx, []Head{h})
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
		if errors.Is(err, ErrNotFound) {
			kin.EvidenceLineage[e.ID()] = []Head{{}} // what it rests on is unknown
			continue
		}
		if err != nil {
			return 0, err
		}
		if kin.EvidenceLineage[e.ID()], err = s.heads(ctx, dedupe(append(slices.Clone(e.DerivedFrom), up...))); err != nil {
			return 0, err
		}
	}
	rank, err := Sufficient(kin, evidence)
	if !reaffirm {
		return rank, err
	}
	if err != nil && t.Authority == AuthorityProbe && h.Rank == RankTool {
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

// observed is the evidence that counts where nobody asked a source and rows were
// only seen side by side: of rank tool or higher, and never of one group (D-30).
func observed(evidence []Evidence) []Evidence {
	const groups = 2
	out := slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool { return e.Rank != RankTool && e.Rank != RankPrimarySource })
	for i := range out {
		out[i].Quorum = max(out[i].Quorum, groups)
	}
	return out
}

// What the object of a line says. A line that has none has no verified row.
var (
	lineLost       = []byte{1} // made again by Rebuild: a row was verified
	linePlain      = []byte{2} // no row that was verified calls the predicate functional
	lineFunctional = []byte{3} // one did
)

// line is the key of the object of a line.
func (s *Store) line(c Content) string { return lineKey.at(s.scope.blind("line", c.line())) }

// settle decides what a row that is about to be verified does to the verified
// rows that contradict it: other objects of the same subject and functional
// predicate. By rank alone (SR-4.4, X-5): a higher rank, or the same source with a
// newer word, demotes; an equal rank stands beside, both contested; a lower one
// is not verified (h.Truth says so) and demotes nobody. The line is put in the
// same atom, so that of two rivals verified at once one sees the other; it says
// whether a verified row calls the predicate functional, so that where none does,
// and where no row was ever verified, nobody looks for rivals.
func (t *atom) settle(line Object, h *Head, c Content, evidence []Evidence, actor, source string) error {
	if !c.Typed() {
		return nil
	}
	functional := c.Cardinality == CardinalityFunctional || bytes.HasPrefix(line.Data, lineFunctional)
	var rivals []bystander
	if line.Revision > 0 && (functional || !bytes.HasPrefix(line.Data, linePlain)) {
		var err error
		if rivals, err = t.store.beside(t.ctx, c); err != nil {
			return err
		}
	}
	mark := linePlain
	if functional || len(rivals) > 0 {
		mark = lineFunctional
	}
	rivals = slices.DeleteFunc(rivals, func(r bystander) bool { return r.Claim == h.Claim })
	t.put(Put{Key: line.Key, From: line.Revision, Data: append(slices.Clone(mark), h.ID...)}) // and who made it, see presume
	if len(rivals) == 0 {
		return nil
	}
	rank, stands := h.Rank, true
	own := backers(evidence, rank)
	beaten := make([]bool, len(rivals))
	for i := range rivals {
		r := &rivals[i]
		same := rank == r.Rank && slices.ContainsFunc(backers(r.evid.list, r.Rank), func(g string) bool { return slices.Contains(own, g) })
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
		case stands && beaten[i]:
			entry.Reason = "contradicted by " + string(h.ID)
			r.demote(t, entry, t.now)
		case !beaten[i] && (rank == r.Rank || rank >= RankTool):
			entry.Reason = "contested by " + string(h.ID)
			r.contest(t, entry, t.now)
		}
	}
	return nil
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
}

func (r *bystander) entry(e AuditEntry, kind EntryKind, to Truth, now time.Time) AuditEntry {
	e.Kind, e.Row, e.Revision, e.At, e.Nonce = kind, r.ID, r.Revision+1, now, newNonce()
	e.Axis, e.From, e.To = AxisTruth, r.Truth.String(), to.String()
	return e
}

// demote contradicts the row: its supports are void, and it is due for a check.
func (r *bystander) demote(tx *atom, e AuditEntry, now time.Time) {
	next := r.Head
	next.set(TruthContradicted, now)
	var c change
	if _, any := voidSupports(r.evid.list); any {
		c = tx.evidence(&r.Head, r.evid, voidsSupports, nil)
	}
	tx.head(r.Head, next, r.entry(e, EntryTransition, TruthContradicted, now), c)
	tx.due(&r.Head, r.mark, due{Reason: "demoted: " + e.Reason}, now)
}

func (r *bystander) contest(tx *atom, e AuditEntry, now time.Time) {
	if r.Has(FlagContested) {
		return
	}
	next := r.Head
	next.Flags |= FlagContested
	tx.head(r.Head, next, r.entry(e, EntryContest, r.Truth, now), change{})
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

// siblings moves the other verified rows of a claim that was contradicted: a
// demotion attaches to the claim, and respelling does not escape it (I-9). A
// user's word demotes all of them; evidence demotes those of a lower rank and
// contests the others.
func (s *Store) siblings(ctx context.Context, tx *atom, of Head, t Transition, now time.Time) error {
	rank := Rank(0)
	for _, e := range t.Evidence {
		if e.Relation == RelationContradicts {
			rank = max(rank, e.Rank)
		}
	}
	if t.Authority != AuthorityUser && rank == 0 {
		return nil
	}
	same, err := s.verified(ctx, s.termClaim(of.Claim), func(h *Head, _ *body) bool { return h.ID != of.ID })
	if err != nil {
		return err
	}
	for i := range same {
		entry := AuditEntry{Actor: t.Actor, Authority: t.Authority, Source: t.Source, Reason: t.Reason}
		switch r := &same[i]; {
		case t.Authority == AuthorityUser || rank > r.Rank:
			r.demote(tx, entry, now)
		case rank >= RankTool:
			r.contest(tx, entry, now)
		}
	}
	return nil
}

// disputed is the highest rank at which a source contradicted another row of the
// claim, and has supported neither that one nor this one since: what is said against
// a claim is said against all of its rows (I-9). Of a claim whose record was put once
// nothing was said.
func (s *Store) disputed(ctx context.Context, claim Token, row ID, record Object, evidence []Evidence) (Rank, error) {
	if record.Revision < 2 {
		return 0, nil
	}
	said := slices.Clone(evidence)
	for after := ""; ; {
		hits, next, err := s.query(ctx, Query{Term: s.termClaim(claim), After: after, Limit: 200})
		if err != nil {
			return 0, err
		}
		heads, err := s.heads(ctx, idsOf(hits))
		if err != nil {
			return 0, err
		}
		keys := make([]string, 0, len(heads))
		for _, h := range heads {
			if h.Truth == TruthContradicted && h.ID != row && !h.Has(FlagErased) {
				keys = append(keys, evidKey.of(h.ID))
			}
		}
		objs, err := s.get(ctx, keys...)
		if err != nil {
			return 0, err
		}
		for _, o := range objs {
			other, err := s.evidenceOf(ctx, o)
			if err != nil {
				return 0, err
			}
			said = append(said, other.list...)
		}
		if after = next; after == "" {
			break
		}
	}
	slices.SortStableFunc(said, func(a, b Evidence) int { return a.At.Compare(b.At) })
	return openContradiction(said), nil
}

// beside returns the verified rows of a line: all of them if the content calls its
// predicate functional, else those that do.
func (s *Store) beside(ctx context.Context, c Content) ([]bystander, error) {
	term := s.termFunctional(c)
	if c.Cardinality == CardinalityFunctional {
		term = s.termLine(c)
	}
	return s.verified(ctx, term, func(*Head, *body) bool { return true })
}

// verified returns the verified carriers of a term that are wanted, without those
// that rest on what was revoked.
func (s *Store) verified(ctx context.Context, term string, want func(*Head, *body) bool) ([]bystander, error) {
	var out []bystander
	revoked, err := s.knownRevocations(ctx)
	if err != nil {
		return nil, err
	}
	for after := ""; ; {
		hits, next, err := s.query(ctx, Query{Term: term, After: after, Limit: 200})
		if err != nil {
			return nil, err
		}
		heads, err := s.heads(ctx, idsOf(hits))
		if err != nil {
			return nil, err
		}
		heads = slices.DeleteFunc(heads, func(h Head) bool { return h.Truth != TruthSupported })
		const per = 3
		keys := make([]string, 0, per*len(heads))
		for _, h := range heads {
			keys = append(keys, bodyKey.of(h.ID), evidKey.of(h.ID), dueKey.of(h.ID))
		}
		objs, err := s.get(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for i := range heads {
			r := bystander{Head: heads[i], mark: objs[per*i+2]}
			if r.body, err = s.body(ctx, objs[per*i]); err != nil {
				return nil, err
			}
			if r.evid, err = s.evidenceOf(ctx, objs[per*i+1]); err != nil {
				return nil, err
			}
			if revoked.harm(&r.Head, r.evid.list); r.Truth == TruthSupported && want(&r.Head, &r.body) {
				out = append(out, r)
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
		have, err := s.evidenceOf(ctx, objs[1])
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
			tx.head(h, next, contest, change{})
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
