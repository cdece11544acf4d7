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
//     a source that repeats what a call set: [ErrOwnWrite]; an object that says that nothing
//     is known: [ErrPlaceholder]; one whose source said the same of another spelling:
//     [ErrRespelt]; an identifier that a person rejected elsewhere: [ErrRejectedElsewhere];
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
	j := judging{store: s, row: id, Facts: Facts{Event: EventMoved, Now: now, Row: old, Content: b.Content, Quotes: b.Quotes != "",
		Standing: evidence, Said: t.Evidence, To: t.To, By: t.Authority, Actor: t.Actor, Source: t.Source, Reason: t.Reason, Asserter: b.Asserter.Group(),
		Reject: t.Reject, SaidAgain: t.again, Revoked: revoked.refuse(t.Evidence)}}
	if j.Revoked != nil {
		return Head{}, Judge(j.Facts).Err
	}
	claims, near, known, lost, err := s.claimFor(ctx, &old, b.Content, t.To)
	if err != nil {
		return Head{}, err
	}
	j.known, j.line = &known, claims[1]
	j.whoMoves()
	j.registered()
	if t.To == AxisValue(TruthSupported) && t.Authority != AuthorityUser {
		if j.Repeats, err = s.repeats(ctx, &known, &b.Content, claims[2:]); err != nil {
			return Head{}, err
		}
	}
	if t.To == AxisValue(TruthSupported) {
		var groups []string
		if t.Authority != AuthorityUser {
			groups = supporters(evidence, t.Evidence)
		}
		spelled, err := s.alikeIn(ctx, &b.Content, &known, near, t.exact || b.Exact == 1, groups)
		if err != nil {
			return Head{}, err
		}
		j.spelled(spelled)
	}
	if j.Reach, err = s.reach(ctx, &known, id, b.Content); err != nil {
		return Head{}, err
	}
	if err := j.gather(ctx, t.Asked); err != nil {
		return Head{}, err
	}
	v := Judge(j.Facts)
	if v.Err != nil {
		return Head{}, v.Err
	}
	tx, next := s.begin(ctx, now), v.Next
	tx.check(revokedKey, revoked.Revision)
	tx.affect(j.rivals, v.Line, t.Actor)
	if err := tx.enter(&j, id, v.Contested == nil); err != nil {
		return Head{}, err
	}
	tx.affect(j.claimed, v.Claimed, t.Actor)
	for i := range j.claimed {
		if j.claimed[i].unread {
			lost = append(lost, headKey.of(j.claimed[i].ID))
		}
	}
	if v.Contested == nil && j.verifies() {
		if err := tx.lift(&j, old.Claim, v.Clears); err != nil {
			return Head{}, err
		}
	}
	rejected := known.Rejection != nil
	switch {
	case v.Rejects:
		if err := tx.reject(&known, old.Claim, &b.Content, j.OwnName); err != nil {
			return Head{}, err
		}
		known.Rejection, known.Rejected, known.class = &Rejection{By: t.Actor, Reason: t.Reason, At: now}, id, old.Class
	case v.Clears:
		known.Rejection, known.Rejected = nil, ""
	}
	joins := t.To.axis() == AxisTruth && next.decides() && !slices.Contains(known.Rows, id)
	if joins {
		known.join(id, true, j.kept)
	}
	if t.To == AxisValue(TruthContradicted) || rejected != (known.Rejection != nil) || joins {
		// Put and not only checked: a sibling that is being verified meets it.
		known.said = known.said || t.To == AxisValue(TruthContradicted)
		tx.claim(claims[0].Key, claims[0].Revision, known)
	} else if t.To.axis() == AxisTruth { // one claim's rows are verified and contradicted in turn
		tx.check(claims[0].Key, claims[0].Revision)
	}

	from := old.axisOf(t.To.axis())
	nonce, kind, to := newNonce(), EntryTransition, t.To
	switch {
	case v.Outdated:
		to = TruthSuperseded
	case v.Contested != nil:
		kind, to = EntryContest, from
	case t.To == AxisValue(TruthSupported) && from == t.To:
		kind = EntryReaffirm
	case t.Reject:
		kind = EntryReject
	}
	entry := AuditEntry{Kind: kind, Row: id, Revision: old.Revision + 1, At: now, Actor: t.Actor, Authority: t.Authority,
		Source: t.Source, Reason: t.Reason, Axis: to.axis(), From: from.String(), To: to.String(), Nonce: nonce}
	if t.To == AxisValue(TruthSupported) {
		entry.Reason = old.wasStale(&next, now, entry.Reason)
	}
	said, voids := evidence, voidsNothing
	switch {
	case v.VoidsAll:
		said, _ = voidAll(evidence)
		voids = voidsEverything
	case v.Voids:
		said, _ = voidSupports(evidence)
		voids = voidsSupports
	}
	added := mergeEvidence(said, j.said())[len(said):]
	var c change
	if voids != voidsNothing || len(added) > 0 {
		c = tx.evidence(&old, evid, voids, added)
	}
	tx.head(old, next, &b.Content, entry, c)
	switch {
	case v.Contested != nil, t.To.axis() != AxisTruth, v.Kept:
	case next.Truth == TruthSupported && next.Has(FlagOwnWord):
		tx.due(&old, objs[3], due{Reason: dueAgain}, now)
	case next.Truth == TruthSupported:
		tx.due(&old, objs[3], due{Reason: dueAgain}, next.StaleAt)
	case next.Truth == TruthSuperseded && !v.Outdated:
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
	return next, v.Contested
}

// claimFor reads the claim and the line of a row that is to be moved and, if it is to be
// verified, what calls set about its subject, and what is spelled alike. A row is verified
// only beside a claim and a line that are as they were written and know of it. To take
// from a row needs neither: then lost names what is damaged, and nothing is believed of it.
func (s *Store) claimFor(ctx context.Context, h *Head, c Content, to AxisValue) (objs []Object, near nearby, known claimRecord, lost []string, err error) {
	keys := []string{claimKey.at(h.Claim), s.line(c)}
	verifies := to == AxisValue(TruthSupported)
	var damaged []int
	if verifies {
		keys = append(keys, s.ownKeys(c.Subject)...)
		objs, damaged, err = s.each(ctx, append(keys, s.alikeKeys(&c)...))
		near = nearbyIn(objs, damaged, len(keys))
		objs, damaged = objs[:min(len(keys), len(objs))], slices.DeleteFunc(damaged, func(i int) bool { return i >= len(keys) })
	} else { // one that was put back stands in the way no more than one that is damaged
		objs, damaged, err = s.driver.asStored(ctx, s.scope.tenant, keys)
	}
	if err != nil {
		return nil, near, known, nil, err
	}
	if !slices.Contains(damaged, 0) {
		known, err = s.claimOf(ctx, objs[0])
	}
	if err != nil && !unreadable(err) {
		return nil, near, known, nil, err
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
		return objs, near, known, nil, nil
	case verifies:
		return nil, near, known, nil, &DamagedError{Keys: lost}
	}
	if lost[0] == keys[0] {
		known.distrust(h.ID)
	}
	return objs, near, known, lost, nil
}

// current sees to it that no standing evidence of a row was revoked: of a row that the walk
// has not reached it is taken away first, and the caller looks again. Evidence that is added and
// was revoked is refused, whatever the row is.
func (s *Store) current(ctx context.Context, row ID, o Object, standing, added []Evidence) (*revocations, error) {
	r, err := s.revocationsOf(o)
	if err != nil {
		return nil, err
	}
	if slices.Contains(r.damaged, row) {
		return nil, &DamagedError{Keys: []string{headKey.of(row)}}
	}
	if r.touched(standing) == nil || r.refuse(added) != nil { // else nothing is written
		return r, nil
	}
	if _, _, err := s.withdraw(ctx, row); err != nil {
		return nil, err
	}
	return nil, &ConflictError{Key: evidKey.of(row)}
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

// judging gathers the facts of an event of a row, and the rows beside it.
type judging struct {
	store *Store
	Facts
	known *claimRecord
	row   ID     // "" = it is not written yet
	line  Object // of the subject and predicate

	rivals  []bystander // of Line
	claimed []bystander // of Claimed
	listed  lineRecord
	alike   *alike // what is spelled alike; nil = nothing matters
	settles bool   // the row may enter the line
	kept    []ID   // that stay in a record of the claim that is full
	revoked *revocations
}

// whoMoves looks up what the actor may say, and who rejected the claim.
func (j *judging) whoMoves() {
	s, c := j.store, &j.Content
	if j.By == AuthorityUser {
		j.MaySpeak, j.OwnName, j.Speaker = s.authority(j.Actor, c.Subject, c.Predicate), s.own(j.Actor, c.Subject, c.Predicate), s.Speaker(j.Actor)
	}
	if r := j.known.Rejection; r != nil {
		j.RejectedBy, j.RejecterOwn = r.By, s.own(r.By, c.Subject, c.Predicate)
	}
}

// registered looks up what the registry says of the predicate.
func (j *judging) registered() {
	if !j.Content.Typed() || j.Event == EventMoved && j.To.axis() != AxisTruth {
		return
	}
	r, predicate := j.store.registry, j.Content.Predicate
	j.Critical, j.Nothing = r.isCritical(predicate), j.store.SaysNothing(predicate, j.Content.Object)
	for _, e := range slices.Concat(j.Standing, j.Said) {
		if e.Rank != RankUser && !slices.Contains(j.Silent, e.Group) && !r.speaks(predicate, e.Group) {
			j.Silent = append(j.Silent, e.Group)
		}
	}
}

// gather reads what matters for a move.
func (j *judging) gather(ctx context.Context, asked LineMark) (err error) {
	if j.refuses() != nil {
		return nil
	}
	if j.verifies() {
		if err := j.lineage(ctx); err != nil {
			return err
		}
		switch rank, renews, err := j.sufficient(); {
		case err != nil:
			return nil
		case !renews && rank != RankUser:
			if err := j.readAgainst(ctx); err != nil {
				return err
			}
		}
		rank, err := j.earns()
		if err != nil {
			return nil
		}
		if err := j.beside(ctx, rank, asked); err != nil {
			return err
		}
	} else if j.To.axis() == AxisTruth && j.Row.Has(FlagOwnWord) {
		if err := j.disputes(ctx); err != nil {
			return err
		}
	}
	if j.To == AxisValue(TruthContradicted) && (j.By == AuthorityUser || slices.ContainsFunc(j.Said, func(e Evidence) bool { return e.Relation == RelationContradicts })) {
		if j.claimed, err = j.store.fitOf(ctx, without(j.known.Rows, j.row)); err != nil {
			return err
		}
		j.Claimed = asBeside(j.claimed)
	}
	if j.verifies() || j.To == AxisValue(TruthContradicted) {
		err = j.room(ctx)
	}
	return err
}

// room reads which rows stay in a record of the claim that is full.
func (j *judging) room(ctx context.Context) (err error) {
	if len(j.known.Rows) < maxListed || slices.Contains(j.known.Rows, j.Row.ID) {
		return nil
	}
	j.kept, err = j.store.deciding(ctx, j.known)
	j.Full = len(j.kept) >= maxListed
	return err
}

// lineage reads what the evidence rests on, and the row.
func (j *judging) lineage(ctx context.Context) (err error) {
	evidence, _, _ := j.basis()
	j.Kin, err = j.store.kin(ctx, j.Row, evidence)
	return err
}

// readAgainst reads what was said against the other rows of the claim.
func (j *judging) readAgainst(ctx context.Context) error {
	switch j.Disputed = j.known.said; {
	case !j.Disputed:
		return nil
	case j.known.beyond:
		j.Unknown = "the claim has more rows than its record lists, and one of them was contradicted"
		return nil
	}
	others, err := j.store.listed(ctx, without(j.known.Rows, j.row), TruthContradicted, TruthSuperseded)
	if err != nil {
		return err
	}
	for i := range others {
		r := &others[i]
		if r.unread {
			j.Unknown = fmt.Sprintf("row %s of the claim cannot be read, and counts as contradicted", r.ID)
			return nil
		}
		if r.body.Content.beside(j.Content) && (r.Truth == TruthContradicted || r.Has(FlagOutdated)) {
			j.Against = append(j.Against, r.evid.list)
		}
	}
	return nil
}

// beside reads the verified rows that a row of a rank meets if it is verified.
func (j *judging) beside(ctx context.Context, rank Rank, asked LineMark) (err error) {
	if !j.Content.Typed() {
		return nil
	}
	if j.listed, err = lineOf(j.line); err != nil {
		return err
	}
	functional := j.Content.Cardinality == CardinalityFunctional
	ids, whole := j.listed.rivals(functional || j.unsure(rank))
	verified, err := j.store.listed(ctx, ids, TruthSupported)
	if err != nil {
		return err
	}
	j.listed.drop(ids, verified)
	if j.rivals, err = j.store.standing(ctx, verified); err != nil {
		return err
	}
	if functional {
		j.Overtaken = asked.overtaken(j.line, j.Row.Claim, j.rivals)
	}
	j.Line, j.Whole, j.settles = asBeside(j.rivals), whole, true
	return nil
}

// disputes reads the verified rows that the own word of a principal may dispute.
func (j *judging) disputes(ctx context.Context) error {
	if !j.Content.Typed() || j.line.Revision == 0 {
		return nil
	}
	l, err := lineOf(j.line)
	if err != nil { // what is disputed stays so
		return nil
	}
	ids, _ := l.rivals(j.Content.Cardinality == CardinalityFunctional)
	if j.rivals, err = j.store.fitOf(ctx, ids); err != nil {
		return err
	}
	j.Line = asBeside(j.rivals)
	return nil
}

// fitOf are those of some rows that are verified and do not rest on what was revoked.
func (s *Store) fitOf(ctx context.Context, ids []ID) ([]bystander, error) {
	verified, err := s.listed(ctx, ids, TruthSupported)
	if err != nil {
		return nil, err
	}
	return s.standing(ctx, verified)
}

// asBeside are the facts of rows.
func asBeside(rows []bystander) []Beside {
	out := make([]Beside, len(rows))
	for i := range rows {
		r := &rows[i]
		out[i] = Beside{Row: r.Head, Content: r.body.Content, Evidence: r.evid.list, Unread: r.unread}
	}
	return out
}

// affect moves other rows as a verdict says.
func (t *transaction) affect(rows []bystander, effects []Effect, actor string) {
	for i, e := range effects {
		r, entry := &rows[i], AuditEntry{Actor: actor, Authority: e.By, Source: e.Source, Reason: e.Reason}
		switch e.Do {
		case DoDemote:
			r.demote(t, entry, t.now)
		case DoOutdate:
			r.outdate(t, entry, t.now)
		case DoContest:
			r.contest(t, entry, t.now)
		case DoDispute:
			r.dispute(t, entry, e.Speaker, t.now)
		case DoUndispute:
			r.agree(t, entry, t.now)
		}
	}
}

// enter puts the line of a row that met its rivals, in the same transaction: of two rivals
// verified at once one sees the other. It lists the row if it is verified, so that nobody looks
// for rivals where there are none.
func (t *transaction) enter(j *judging, id ID, verified bool) error {
	if !j.settles {
		return nil
	}
	if !verified { // nobody need meet it, and what was verified before stands
		t.check(j.line.Key, j.line.Revision)
		return nil
	}
	if err := t.enlist(&j.listed, id, j.Content.Cardinality == CardinalityFunctional); err != nil {
		return err
	}
	j.listed.By = id
	t.put(Put{Key: j.line.Key, From: j.line.Revision, Data: j.listed.encode()})
	t.joinNames(j)
	return nil
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

func without(ids []ID, one ID) []ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id ID) bool { return id == one })
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
	}
	if err := (&Facts{Said: evidence}).refusesToAdd(); err != nil || len(evidence) == 0 {
		return err
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
		v := Judge(Facts{Event: EventHeard, Now: s.Now(), Row: h, Standing: have.list, Said: evidence, Revoked: revoked.refuse(evidence)})
		if v.Err != nil {
			return struct{}{}, v.Err
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
		if v.Next.Flags != h.Flags {
			contest := entry
			contest.Kind, contest.Revision, contest.Axis = EntryContest, h.Revision+1, AxisTruth
			contest.From, contest.To = h.Truth.String(), h.Truth.String()
			tx.head(h, v.Next, nil, contest, change{})
		}
		return struct{}{}, tx.commit(objs[2].Key, objs[2].Revision+1, nonce)
	})
	return err
}

// mergeEvidence appends what is new; the same evidence counts once (KN-7). It is
// new again if it was voided, or if its source has said something else since. What comes later in a
// list was said later: no clock orders it. What bears the very time of what is there is that one, replayed.
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
	since, then := false, false // its source has said something else, and at that very time
	for i, h := range slices.Backward(have) {
		switch {
		case h.Void:
		case ids[i] == id && (!since || !then && e.At.Equal(h.At)):
			return true
		case h.Group == e.Group && h.Relation != e.Relation:
			since, then = true, then || e.At.Equal(h.At)
		}
	}
	return false
}
