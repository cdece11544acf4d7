package memory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is what happens to a row. The zero Event is refused.
type Event uint8

// The events.
const (
	_              Event = iota
	EventWritten         // the row is written, or imported
	EventMoved           // somebody moves an axis: [Store.Apply]
	EventSaidAgain       // its own first-hand source says again what the row says: may that lift what took its state?
	EventRenewed         // a source that did not verify it agrees: [Store.Renew]
	EventHeard           // evidence is added that moves no state by itself: [Store.AddEvidence]
	EventRetracted       // it is taken back: [Store.Rollback]
	EventReturned        // the row that it was displaced by is taken back
	EventRevoked         // evidence of it was revoked
	EventRecovered       // an acknowledged demotion of it was lost
	EventAnswered        // a verifier has answered about it: what is asked of the store?
)

// Reach is what the rejection of a claim is to one row of it. A rejection attaches to
// the claim in its canonical form, so that respelling does not escape it, and to one
// exact subject, so that nobody rejects for a namesake (I-9).
type Reach uint8

// The reaches.
const (
	ReachesNot      Reach = iota // the claim is not rejected
	ReachesName                  // the rejection is of the very subject and predicate of the row
	ReachesClaim                 // it is of a name spelled alike, by somebody who speaks for this one too, or whose reach is not known
	ReachesNamesake              // it is of a name spelled alike, by somebody who does not speak for this one
)

// withholds reports whether the row cannot be verified by a source of a rank while the
// rejection stands.
func (r Reach) withholds(rank Rank) bool {
	return r == ReachesName || r == ReachesClaim || r == ReachesNamesake && rank < RankTool
}

// Answer is what a verifier says of a row.
type Answer struct {
	Outcome Outcome
	// Evidence is what decides, and Heard are the other voices of a quorum.
	Evidence Evidence
	Heard    []Evidence
	Exact    bool // it gave the very value of the row
	Nothing  bool // what it gave instead says that nothing is known
}

// Outcome is how a verifier answered. The zero value says nothing.
type Outcome uint8

// The outcomes.
const (
	_              Outcome = iota
	AnswerSupports         // the source says so too
	AnswerRefutes          // the source says otherwise
	AnswerGone             // what the row was verified by is gone, or is not what was pinned
	AnswerUnclear          // nobody could tell
)

// Ask is what an answer asks of the store. The zero value asks nothing.
type Ask uint8

// What can be asked.
const (
	AskNothing Ask = iota // the answer says nothing about the claim
	AskKeep               // keep the evidence; no state moves by it
	AskPromote            // verify the row, if that suffices
	AskDemote             // take the verified state away, or record a refutation
	AskAge                // what verified the row is gone: it is stale, and still verified
	AskRenew              // the row is fresh for longer; who verified it stays
)

var askNames = [...]string{"nothing", "keep", "promote", "demote", "age", "renew"}

// String returns nothing, keep, promote, demote, age or renew.
func (a Ask) String() string {
	if int(a) < len(askNames) {
		return askNames[a]
	}
	return askNames[AskNothing]
}

// Beside is another row that an event may move too.
type Beside struct {
	Row      Head
	Content  Content
	Evidence []Evidence
	Unread   bool // it cannot be read: only its head is known, and of that nothing if it is at no revision
}

// Effect is what becomes of another row. The zero Effect leaves it as it is.
type Effect struct {
	Do      Do
	By      Authority
	Source  string // on whose word
	Reason  string
	Speaker Token // of a dispute
}

// Do is what is done to another row.
type Do uint8

// What is done.
const (
	DoNothing   Do = iota
	DoDemote       // it is contradicted, its supports are void, and it is due
	DoOutdate      // it is superseded by the newer word of its own source
	DoContest      // it stays what it is, contested
	DoDispute      // the own word of a principal says otherwise
	DoUndispute    // nobody's own word says otherwise any more
)

// Facts are all that decides what becomes of a row. What does not matter for an event is left
// out. Whoever calls [Judge] has looked for all that does: a fact that is left out is taken for
// one that is not so.
type Facts struct {
	Event Event
	Now   time.Time
	// Row is the row as it stands. Of EventWritten it is as the draft describes it, and its
	// truth, rank, retrieval, security and flags are what [Judge] decides.
	Row     Head
	Content Content
	Quotes  bool // its claim was taken from the words of another row

	Standing []Evidence // the evidence of the row, oldest first; what was revoked is void
	Said     []Evidence // what comes with the event
	Answer   Answer     // of EventAnswered

	// Of EventWritten.
	Wanted         State // that the draft asks for
	LineageUnknown bool
	Parents        []Head // what the row was made from directly; of EventSaidAgain all that is above what its source says
	Quoted         *Head  // the row that it quotes
	Imported       *Imported

	// Who moves the row, and where to.
	To        AxisValue
	By        Authority
	Actor     string // a principal, if By is AuthorityUser
	MaySpeak  bool   // the principal has authority over the subject
	OwnName   bool   // and only since it bears its name (I-13)
	Speaker   Token  // that stands for the principal
	Source    string // on whose word
	Reason    string
	Asserter  string // the independence group of who wrote the row; of EventSaidAgain of who speaks now
	Reject    bool   // the claim is rejected as well
	SaidAgain bool   // EventSaidAgain was judged, and lifts
	BornSo    bool   // the row was verified when it was written

	// What the registry of predicates says.
	Critical bool     // one source alone makes no history of what it said
	Silent   []string // groups among the evidence whose word does not verify the predicate
	Mute     bool     // the asserter's does not
	Nothing  bool     // the object says that nothing is known: see [SaysNothing]

	// Groups whose word does not count for this subject: see [ErrRejectedElsewhere] and [ErrRespelt].
	Elsewhere []string
	Respelt   []string

	Revoked error // some of what is said was revoked; nil = none of it
	Repeats bool  // the source repeats what a call set that rested on what nobody verified. No person vouches for it, unless it is EventRenewed

	// Of the claim.
	Kin         Kin
	Reach       Reach // of a rejection
	RejectedBy  string
	RejecterOwn bool         // who rejected spoke only for the subject of its own name
	Disputed    bool         // a row of the claim was contradicted, or rejected, at some time
	Against     [][]Evidence // of each other row of the claim about the same subject that was contradicted, oldest first
	Unknown     string       // why it is not known what stands against a claim that was disputed; "" = it is known
	Full        bool         // the record of the claim has no room for the row

	// Line are the verified rows of the subject and predicate, the row too if it is verified, and
	// Claimed the other verified rows of the claim.
	Line      []Beside
	Claimed   []Beside
	Whole     bool  // Line are all that there are
	Overtaken error // something else was verified since the source was asked

	all []Evidence // see merged
}

// Verdict is what becomes of a row.
type Verdict struct {
	// Err refuses the event: nothing is written.
	Err error
	// Next is the row as it is to be written. Its revision is not moved.
	Next Head
	// Contested is the error of a move that found a verified row of the same or a higher rank in
	// its way: the evidence is kept, and no state moved.
	Contested error
	// Reason says why the row is less than was asked for; "" = it is not.
	Reason string

	Voids    bool // what supported the row before supports it no more
	VoidsAll bool // nothing that was said before counts
	Outdated bool // it is history, and not contradicted
	Kept     bool // the row stays verified as it was: its own principal agrees, and disputes it no more
	Rejects  bool // the claim is rejected from now on
	Clears   bool // the rejection of the claim ends

	Line    []Effect // on Facts.Line, in its order
	Claimed []Effect // on Facts.Claimed

	Ask      Ask  // of EventAnswered
	Answered bool // somebody answered, whatever it was
}

// Judge decides what state a row is born in, may move to or must fall to. It is the only
// code that does. It is pure: it reads no store and no clock, and equal facts give equal
// verdicts. docs/trust.md lists its rules.
func Judge(f Facts) Verdict {
	switch f.Event {
	case EventWritten:
		return f.born()
	case EventMoved:
		if f.To == nil {
			return Verdict{Err: invalid("to", "required", "where the axis moves to")}
		}
		return f.moves()
	case EventSaidAgain:
		return f.saidAgain()
	case EventRenewed:
		return f.renews()
	case EventHeard:
		return f.hears()
	case EventRetracted:
		return f.retracts()
	case EventReturned:
		return f.returns()
	case EventRevoked:
		return f.loses()
	case EventRecovered:
		return f.recovers()
	case EventAnswered:
		return f.answers()
	}
	return Verdict{Err: invalid("event", "required", "what happens to the row")}
}

// born decides how a row is written.
func (f *Facts) born() Verdict {
	h := f.Row
	h.Truth, h.Retrieval, h.Security, h.Freshness, h.Outage, h.Rank = TruthUnverified, RetrievalNormal, SecurityClean, FreshnessFresh, OutageNone, 0
	f.inherits(&h)
	var v Verdict
	state := f.Wanted
	if state == StateVerified {
		if v.Reason = f.unborn(); v.Reason != "" {
			state = StateUnverified
		}
	}
	switch state {
	case StateUnavailableAtWriteTime:
		h.Outage = OutageRecorded
	case StateVerified:
		h.Truth, h.VerifiedAt, h.Rank = TruthSupported, f.Now, RankTool
		if h.Origin == OriginUserAsserted {
			h.Rank = RankUser
		}
		if f.OwnName {
			h.Flags |= FlagOwnWord
			h.Speaker = f.Speaker
		}
		v.Reason = "a source of higher rank says otherwise"
		if err := f.settle(&h, &v, f.said()); err != nil { // what was verified meanwhile is newer
			v.Reason = plain(err)
			h.set(TruthSuperseded, f.Now)
			h.Flags |= FlagOutdated
		}
		if h.Truth == TruthSupported {
			v.Reason = ""
		} else {
			h.Flags &^= FlagOwnWord
			h.Speaker = Token{}
		}
	}
	supported := h.Truth == TruthSupported
	if f.Reach.withholds(RankTool) && !supported || f.Full && supported {
		h.Flags |= FlagContested
	}
	if f.Imported != nil {
		f.Imported.lower(&h)
	}
	v.Next, v.Voids = h, !supported // what did not verify the row now does not do so later
	v.Clears = supported && f.clears()
	return v
}

// plain is an error without the name of the package.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "memory: ") }

// inherits gives a row what flows down to it from the rows that it was made from.
func (f *Facts) inherits(h *Head) {
	if h.Origin == OriginRecallReentry { // recall that matched nothing stays out of the main channel
		h.Retrieval = RetrievalRestricted
	}
	if h.Depth = 0; !h.Origin.External() || len(f.Parents) > 0 {
		h.Depth = 1
	}
	for i := range f.Parents {
		p := &f.Parents[i]
		h.Depth = max(h.Depth, p.Depth+1)
		// What is made from content under suspicion is under suspicion itself.
		if p.Security != SecurityClean || p.Has(FlagTainted) {
			h.Security = SecuritySuspicious
			h.Flags |= p.Flags & FlagTainted
			if p.Security >= SecurityQuarantined {
				h.Flags |= FlagTainted
			}
		}
		h.Sensitivity = max(h.Sensitivity, p.Sensitivity)
		if p.Has(FlagLineageUnknown) && p.Truth != TruthSupported { // a verified parent is known by itself (I-8)
			h.Flags |= FlagLineageUnknown
		}
	}
	if f.LineageUnknown {
		h.Flags |= FlagLineageUnknown
	}
	if f.Quoted != nil {
		h.Sensitivity = max(h.Sensitivity, f.Quoted.Sensitivity)
	}
}

// unborn says why a row is not written as verified, "" if it may be.
func (f *Facts) unborn() string {
	user := f.Row.Origin == OriginUserAsserted
	switch {
	case f.Repeats && !user:
		return ownWriteReason
	case f.Revoked != nil:
		return plain(f.Revoked)
	case user && !f.MaySpeak:
		return "the principal has no authority over this subject"
	case !user && f.Mute:
		return "the source does not speak for this predicate"
	case !user && f.Nothing:
		return placeholderReason
	case f.Reach.withholds(RankTool) && !user:
		return "a user rejected this claim"
	case !user && slices.Contains(f.Elsewhere, f.Asserter):
		return elsewhereReason
	case !user && slices.Contains(f.Respelt, f.Asserter):
		return respeltReason
	}
	if why := f.restsOnItself(f.Kin.Ancestors); why != "" {
		return why
	}
	if !user {
		if against, why := f.disputed(); against >= RankTool {
			return why
		}
	}
	return ""
}

// restsOnItself says why a row is not independent enough of its lineage to be verified by its
// own source, or "": one that was fed the claim, or its own earlier output, says nothing
// new (I-4).
func (f *Facts) restsOnItself(above []Head) string {
	for i := range above {
		switch a := &above[i]; {
		case a.Claim == f.Row.Claim:
			return "the claim rests on itself"
		case f.Row.Origin != OriginUserAsserted && a.Group == f.Row.Group:
			return "the claim rests on its own source"
		}
	}
	return ""
}

// moves decides about a move of one axis.
func (f *Facts) moves() Verdict {
	if err := f.refuses(); err != nil {
		return Verdict{Err: err}
	}
	old, truth, verifies := f.Row, f.To.axis() == AxisTruth, f.verifies()
	_, voids, all := f.voided()
	merged := f.merged()
	v := Verdict{Voids: voids, VoidsAll: all, Rejects: f.Reject}
	_, _, agrees := f.basis()
	next := old
	if next.set(f.To, f.Now); f.outdates() {
		v.Outdated = true
		next.set(TruthSuperseded, f.Now)
		next.Flags |= FlagOutdated
	}
	if verifies {
		rank, err := f.earns()
		if err != nil {
			return Verdict{Err: err}
		}
		next.Rank = rank
		next.Flags &^= FlagOwnWord
		if next.Speaker = (Token{}); next.Has(FlagOwnDispute) {
			next.Speaker = old.Speaker
		}
		if f.own() {
			next.Flags = next.Flags&^FlagOwnDispute | FlagOwnWord
			next.Speaker = f.Speaker
		}
		// A contest with a user's word ends by a user's word.
		if open := openContradiction(merged); f.By == AuthorityUser && rank == RankUser || open < RankTool || rank != RankUser && open < rank {
			next.Flags &^= FlagContested
		}
		if next.Outage == OutageRecorded {
			next.Outage = OutageResolved // a verifier answered
		}
		if err := f.settle(&next, &v, merged); err != nil {
			return Verdict{Err: err}
		}
		if next.Truth != TruthSupported {
			// The evidence is kept and the contradiction shows; no state moves.
			v.Contested = fmt.Errorf("%w: a verified row of the same or a higher rank says otherwise", ErrContested)
			next = old
			next.Flags |= FlagContested
		}
		if v.Kept = agrees; agrees {
			next = old
			if next.Has(FlagOwnDispute) {
				next.Flags &^= FlagOwnDispute
				next.Speaker = Token{}
			}
		}
	}
	if old.Has(FlagOwnWord) && next.Truth != TruthSupported {
		f.undisputes(&v)
	}
	if f.To == AxisValue(TruthContradicted) {
		f.siblings(&v)
	}
	switch {
	case f.Reject:
		next.Flags &^= FlagContested
	case next.Truth == TruthSupported && f.clears():
		v.Clears = true
	}
	if f.Full && truth && next.Truth == TruthSupported {
		next.Flags |= FlagContested
	}
	v.Next = next
	return v
}

func (f *Facts) verifies() bool { return f.To == AxisValue(TruthSupported) }

// reaffirms reports whether a verified row is verified again.
func (f *Facts) reaffirms() bool { return f.verifies() && f.Row.Truth == TruthSupported }

// own reports whether a principal verifies the row by its own word about itself.
func (f *Facts) own() bool {
	return f.Event == EventWritten && f.OwnName || f.By == AuthorityUser && f.verifies() && f.OwnName
}

// said is the evidence that comes, marked if it is a principal's own word about itself.
func (f *Facts) said() []Evidence {
	if f.own() {
		return asOwn(f.Said)
	}
	return f.Said
}

// unheard reports whether a support does not count for this subject.
func (f *Facts) unheard(e *Evidence) bool {
	return e.Relation == RelationSupports && e.Rank != RankUser && (slices.Contains(f.Elsewhere, e.Group) || slices.Contains(f.Respelt, e.Group))
}

// heard is evidence without what does not count for this subject.
func (f *Facts) heard(evidence []Evidence) []Evidence {
	return slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool { return f.unheard(&e) })
}

// clears reports whether the rejection of the claim ends if the row is verified: a user with
// authority says so again, and wins. Nobody's own word ends what somebody with a larger
// scope rejected.
func (f *Facts) clears() bool {
	return f.Reach == ReachesName && (!f.own() || f.RejecterOwn)
}

// refuses is why a move is not to be made, whatever else is known.
func (f *Facts) refuses() error {
	old, from := &f.Row, f.Row.axisOf(f.To.axis())
	illegal := &IllegalMoveError{Axis: f.To.axis(), From: from.String(), To: f.To.String(), Authority: f.By}
	truth, user := f.To.axis() == AxisTruth, f.By == AuthorityUser
	switch {
	case f.Revoked != nil:
		return f.Revoked
	case f.Repeats && f.verifies() && !user:
		return ErrOwnWrite
	case f.Nothing && f.verifies() && !user:
		return ErrPlaceholder
	case f.Quotes && f.verifies(): // a quotation is verified with no claim
		return illegal
	case truth && old.Truth == TruthSuperseded && !old.Has(FlagOutdated): // it was retracted
		return illegal
	case f.reaffirms():
		if !Legal(TruthUnverified, TruthSupported, f.By) {
			return illegal
		}
	case f.Reject && from == f.To: // a user may reject what a tool contradicted already: that is more, and sticks
	case !Legal(from, f.To, f.By):
		return illegal
	}
	if err := f.outranked(); err != nil {
		return err
	}
	switch {
	case user && (truth || raises(from, f.To)) && !f.MaySpeak:
		return fmt.Errorf("%w: %q over %q", ErrNoAuthority, f.Actor, f.Content.Subject)
	case !user && slices.ContainsFunc(f.Said, func(e Evidence) bool { return e.Rank == RankUser }):
		return invalid("evidence.rank", "not_earned", "a user speaks with the authority of a user (I-13)")
	case f.verifies() && f.Reach.withholds(RankPrimarySource) && !user:
		return fmt.Errorf("%w by %s", ErrRejected, f.RejectedBy)
	}
	return nil
}

// outranked refuses a move that would take the verified state away on a word of
// no higher rank. A user's word ends by a user's word alone; the source that
// verified a row may take its own word back.
func (f *Facts) outranked() error {
	h := &f.Row
	if h.Truth != TruthSupported || f.To.axis() != AxisTruth || f.verifies() || f.By == AuthorityUser {
		return nil
	}
	if h.Rank == RankUser {
		return fmt.Errorf("%w: a user verified the row", ErrOutranked)
	}
	if f.To != AxisValue(TruthContradicted) {
		return nil // the evidence no longer stands; nothing is claimed instead
	}
	for i := range f.Said {
		e := &f.Said[i]
		if e.Relation == RelationContradicts && (e.Rank > h.Rank || e.Rank == h.Rank && f.saidIt(e.Group)) {
			return nil
		}
	}
	return fmt.Errorf("%w: no contradicting evidence above rank %s", ErrOutranked, h.Rank)
}

// saidIt reports whether the support of a group stands behind the row.
func (f *Facts) saidIt(group string) bool {
	return slices.ContainsFunc(f.Standing, func(e Evidence) bool {
		return e.Relation == RelationSupports && !e.Void && e.Group == group
	})
}

// voided is what of the evidence still counts after the move.
func (f *Facts) voided() (standing []Evidence, supports, all bool) {
	switch {
	case f.Reject:
		standing, all = voidAll(f.Standing)
	case f.Row.Truth == TruthSupported && f.To.axis() == AxisTruth && !f.reaffirms():
		standing, supports = voidSupports(f.Standing)
	default:
		standing = f.Standing
	}
	return standing, supports, all
}

// merged is all evidence of the row that counts after the move. It is made once, as each piece
// is named by a digest.
func (f *Facts) merged() []Evidence {
	if f.all == nil {
		standing, _, _ := f.voided()
		f.all = mergeEvidence(standing, f.said())
	}
	return f.all
}

// outdates reports whether a source that alone verified a row contradicts it: what it said
// was so, and is history. That takes the state as a contradiction does (I-16).
func (f *Facts) outdates() bool {
	h := &f.Row
	if h.Truth != TruthSupported || f.To != AxisValue(TruthContradicted) || f.By == AuthorityUser || h.Rank < RankTool || h.Rank >= RankUser || f.Critical {
		return false
	}
	return slices.ContainsFunc(f.Said, func(e Evidence) bool {
		return e.Relation == RelationContradicts && e.Rank >= h.Rank && restsOn(f.Standing, []string{e.Group}, h.Rank)
	})
}

// restsOn reports whether a row of some rank stands on the word of these sources and of no
// other: each support of that rank or a higher one is of a group that is among them.
func restsOn(standing []Evidence, groups []string, rank Rank) bool {
	any := false
	for i := range standing {
		e := &standing[i]
		if e.Relation != RelationSupports || e.Void || e.Rank < rank {
			continue
		}
		if !slices.Contains(groups, e.Group) {
			return false
		}
		any = true
	}
	return any
}

// basis is the evidence by which a row is to be verified. renews says that it is verified
// already, and that the evidence has to suffice alone. agrees says that its own principal
// adds nothing to what counts for everybody.
func (f *Facts) basis() (evidence []Evidence, renews, agrees bool) {
	switch f.Event {
	case EventRenewed:
		evidence = f.Said
	case EventRevoked:
		if evidence = f.Standing; !f.Row.Has(FlagOwnWord) {
			evidence = everybodys(evidence)
		}
	default:
		own, said := f.own(), f.said()
		evidence, renews = f.merged(), f.reaffirms()
		if agrees = own && renews && !f.Row.Has(FlagOwnWord); agrees {
			evidence, renews = said, false
		} else if !own { // what stands on somebody's own word alone is not verified yet
			evidence, renews = everybodys(evidence), renews && !f.Row.Has(FlagOwnWord)
		}
		if renews {
			evidence = said
		}
	}
	evidence = slices.DeleteFunc(f.heard(evidence), func(e Evidence) bool { return e.Rank != RankUser && slices.Contains(f.Silent, e.Group) })
	if f.By == AuthorityAutoObservation {
		evidence = observed(evidence)
	}
	return evidence, renews, agrees
}

// earns is the rank at which a row is verified, or why it is not.
func (f *Facts) earns() (Rank, error) {
	rank, renews, err := f.sufficient()
	if err != nil {
		return 0, f.silenced(err)
	}
	if rank == RankUser {
		return rank, nil
	}
	if f.Reach.withholds(rank) {
		return 0, fmt.Errorf("%w by %s", ErrRejected, f.RejectedBy)
	}
	if renews {
		return rank, nil
	}
	if open := openContradiction(f.merged()); open >= rank { // SR-7.14
		return 0, fmt.Errorf("%w: a source of rank %s disagrees", ErrInsufficient, open)
	}
	if against, why := f.disputed(); against >= rank {
		return 0, fmt.Errorf("%w: %s", ErrInsufficient, why)
	}
	return rank, nil
}

// silenced is an error that says so if the evidence would suffice, and does not count for this subject.
func (f *Facts) silenced(err error) error {
	suffices := func(elsewhere, respelt []string) bool {
		g := *f
		g.Elsewhere, g.Respelt = elsewhere, respelt
		_, _, err := g.sufficient()
		return err == nil
	}
	switch {
	case len(f.Elsewhere)+len(f.Respelt) == 0 || !suffices(nil, nil):
		return err
	case suffices(nil, f.Respelt):
		return ErrRejectedElsewhere
	}
	return ErrRespelt
}

// sufficient applies I-4. To verify again what is verified takes new evidence that would
// suffice alone and is of no lower rank, or the new word of the very source that the row
// came from.
func (f *Facts) sufficient() (rank Rank, renews bool, err error) {
	evidence, renews, _ := f.basis()
	h, kin := &f.Row, f.Kin
	rank, err = Sufficient(kin, evidence)
	own := f.By == AuthorityProbe && (renews && h.Rank == RankTool || !renews && f.SaidAgain || h.Has(FlagOutdated))
	if !renews && !own {
		return rank, renews, err
	}
	if err != nil && own {
		rank, err = Sufficient(f.ownSource(evidence, RankTool))
	}
	if err == nil && rank < h.Rank {
		err = fmt.Errorf("%w: what rank %s verified is not renewed at rank %s", ErrInsufficient, h.Rank, rank)
	}
	return rank, renews, err
}

// ownSource is the evidence of the source that the row came from, of a rank at least, and kin by
// which it counts: it may say the row again, if it does not only repeat it.
func (f *Facts) ownSource(evidence []Evidence, least Rank) (Kin, []Evidence) {
	kin := f.Kin
	kin.Claim.Group = Token{}
	return kin, slices.DeleteFunc(slices.Clone(evidence), func(e Evidence) bool {
		return e.Rank < least || kin.Group == nil || kin.Group(fold(e.Group)) != f.Row.Group
	})
}

// disputed is the highest rank at which a source contradicted another row of the
// claim, and has supported neither that one nor this one since: what is said against a claim is
// said against all of its rows about that exact subject (I-9). What is said now is the newest. Of
// what was said before of two rows only the clocks of those who asked tell the order. Where it is
// not known what was said, nothing below a user's word stands against it. why is for people.
func (f *Facts) disputed() (against Rank, why string) {
	switch {
	case !f.Disputed:
		return 0, ""
	case f.Unknown != "":
		return RankUser, f.Unknown
	}
	for _, list := range f.Against {
		said := slices.Concat(list, f.Standing)
		slices.SortStableFunc(said, func(a, b Evidence) int { return a.At.Compare(b.At) })
		against = max(against, openContradiction(slices.Concat(said, f.said())))
	}
	return against, fmt.Sprintf("a source of rank %s contradicted another row of the claim", against)
}

// settle decides what a row that is about to be verified does to the verified
// rows that contradict it: other objects of the same subject and functional
// predicate. By rank alone (SR-4.4, X-5): a higher rank demotes; the same source with a
// newer word supersedes what stood on its word alone (I-16); an equal rank stands beside,
// both contested; a lower one is not verified (h.Truth says so) and demotes nobody.
//
// A rival that cannot be read stands, and so may one that the line had no room for: the
// row is contested.
func (f *Facts) settle(h *Head, v *Verdict, evidence []Evidence) error {
	if !f.Content.Typed() {
		return nil
	}
	if f.Overtaken != nil && f.Content.Cardinality == CardinalityFunctional {
		return f.Overtaken
	}
	v.Line = make([]Effect, len(f.Line))
	if !f.Whole {
		h.Flags |= FlagContested
	}
	unsure := f.unsure(h.Rank)
	rank, stands := h.Rank, true
	own := backers(f.heard(evidence), rank)
	var rivals []rival
	for i := range f.Line {
		r := rival{Beside: &f.Line[i], effect: &v.Line[i]}
		b := r.Beside
		switch {
		case b.Row.Claim == h.Claim:
			if b.Row.ID != h.ID && h.Has(FlagOwnWord) && b.Row.Has(FlagOwnDispute) {
				*r.effect = Effect{Do: DoUndispute, By: AuthorityUser, Source: f.Asserter, Reason: "agreed with by " + string(h.ID)}
			}
			continue
		case unsure && !b.Unread && b.Content.Cardinality == CardinalityUnknown: // what one person says twice, of what may have one object or many
			if b.Row.Rank == RankUser && b.Row.Origin == OriginUserAsserted && shares(backers(b.Evidence, RankUser), backers(evidence, RankUser)) {
				h.Flags |= FlagContested
				r.stands = true
				rivals = append(rivals, r)
			}
			continue
		case b.Unread: // what it says is not known: it is not beaten, and only its rank counts
			h.Flags |= FlagContested
			stands = stands && rank >= b.Row.Rank
			r.stands = true
		default:
			stands = f.against(h, &r, own) && stands
		}
		rivals = append(rivals, r)
	}
	if !stands {
		h.Truth, h.Rank = TruthUnverified, 0
	}
	for i := range rivals {
		f.affects(&rivals[i], h, rank, stands)
	}
	return nil
}

// unsure reports whether nobody said if the subject may have two objects, and a person asserts one.
func (f *Facts) unsure(rank Rank) bool {
	return f.Content.Cardinality == CardinalityUnknown && rank == RankUser && f.Row.Origin == OriginUserAsserted
}

func shares(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// rival is a verified row with another object.
type rival struct {
	*Beside
	effect  *Effect
	stands  bool // it is not beaten
	apart   bool // one of the two is a principal's own word, which takes nothing from the other
	history bool // it is what the same source said before
}

// against holds a row against a rival that can be read. It reports whether the row stands.
func (f *Facts) against(h *Head, r *rival, own []string) (stands bool) {
	rank, b := h.Rank, &r.Row
	r.history = rank == b.Rank && rank >= RankTool && restsOn(r.Evidence, own, rank) && (!f.Critical || several(own))
	same := r.history || rank < RankTool && rank == b.Rank && shares(backers(r.Evidence, b.Rank), own)
	switch itsOwn, theirOwn := h.Has(FlagOwnWord), b.Has(FlagOwnWord); {
	case itsOwn && theirOwn: // of one principal: a subject has one name
		return true
	case itsOwn: // a word that counts for one takes nothing from what counts for all
		r.stands, r.apart = true, true
		if b.Rank >= RankUser {
			h.Flags |= FlagContested
		}
		return true
	case theirOwn:
		r.stands, r.apart = true, true
		h.Flags |= FlagOwnDispute
		h.Speaker = b.Speaker
		return true
	}
	if rank > b.Rank || same {
		return true
	}
	r.stands = true
	h.Flags |= FlagContested
	return rank == b.Rank
}

// several reports whether groups are more than one.
func several(groups []string) bool {
	return len(slices.Compact(slices.Sorted(slices.Values(groups)))) > 1
}

// affects decides what becomes of a rival.
func (f *Facts) affects(r *rival, h *Head, rank Rank, stands bool) {
	e := Effect{By: AuthorityProbe, Source: f.Asserter}
	if rank == RankUser {
		e.By = AuthorityUser
	}
	contested := func() { e.Do, e.Reason = DoContest, "contested by "+string(h.ID) }
	switch {
	case r.Row.Revision == 0: // nothing can be put in the place of what is damaged
	case r.Unread && h.Has(FlagOwnWord):
	case r.apart && h.Has(FlagOwnWord):
		e.Do, e.Reason, e.Speaker = DoDispute, "the own word of "+string(h.ID)+" says otherwise", h.Speaker
	case r.apart: // an own word stands for its speaker; a source as good as a tool contests it
		if rank >= RankTool && stands {
			contested()
		}
	case stands && !r.stands && r.history:
		e.Do, e.Reason = DoOutdate, "superseded by "+string(h.ID)
	case stands && !r.stands:
		e.Do, e.Reason = DoDemote, "contradicted by "+string(h.ID)
	case r.stands && (rank == r.Row.Rank || rank >= RankTool):
		contested()
	}
	if e.Do != DoNothing {
		*r.effect = e
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

// undisputes ends the disputes of the rows of a line after the own word that disputed
// them is no more: nobody's own word may have said the last one.
func (f *Facts) undisputes(v *Verdict) {
	v.Line = make([]Effect, len(f.Line))
	for i := range f.Line {
		if r := &f.Line[i].Row; r.Revision > 0 && r.Has(FlagOwnDispute) && r.ID != f.Row.ID {
			v.Line[i] = Effect{Do: DoUndispute, By: f.By, Source: f.Source, Reason: "what disputed it is said no more"}
		}
	}
}

// siblings decides about the other verified rows of a claim that is contradicted, of the same
// exact subject and predicate: respelling the object does not escape it, and a name that
// is only spelled alike loses nothing (I-9). A user's word demotes all of them; evidence
// demotes those of a lower rank and contests the others. One whose content cannot be read
// is moved by its head, whatever its exact subject.
func (f *Facts) siblings(v *Verdict) {
	rank := Rank(0)
	for _, e := range f.Said {
		if e.Relation == RelationContradicts {
			rank = max(rank, e.Rank)
		}
	}
	v.Claimed = make([]Effect, len(f.Claimed))
	for i := range f.Claimed {
		r, e := &f.Claimed[i], Effect{By: f.By, Source: f.Source, Reason: f.Reason}
		switch {
		case r.Row.Revision == 0, !r.Unread && !r.Content.beside(f.Content):
		case f.By == AuthorityUser, rank > r.Row.Rank:
			e.Do = DoDemote
		case rank >= RankTool:
			e.Do = DoContest
		}
		if e.Do != DoNothing {
			v.Claimed[i] = e
		}
	}
}

// saidAgain decides whether the word of a first-hand source counts for a row that is not
// verified now as it would for a new one (I-16). It does not where somebody else took the
// state away: that a row is contradicted, its source lifts only if it said so itself. If it
// counts, the verdict has no error.
func (f *Facts) saidAgain() Verdict {
	not := Verdict{Err: errors.New("the word of its own source does not lift what took the state away")}
	if f.Row.Origin != OriginFirstHand {
		return not
	}
	switch f.Row.Truth {
	case TruthUnverified:
	case TruthContradicted:
		others := slices.DeleteFunc(slices.Clone(f.Standing), func(e Evidence) bool { return e.Group == f.Asserter })
		if openContradiction(f.Standing) == 0 || openContradiction(others) > 0 {
			return not
		}
	case TruthSuperseded:
		if !f.Row.Has(FlagOutdated) {
			return not
		}
	default:
		return not
	}
	if f.restsOnItself(f.Parents) != "" {
		return not
	}
	return Verdict{Next: f.Row}
}

// renews decides whether a source that did not verify a row makes it fresh for longer.
func (f *Facts) renews() Verdict {
	if err := f.refusesRenewal(); err != nil {
		return Verdict{Err: err}
	}
	if f.Revoked != nil {
		return Verdict{Err: f.Revoked}
	}
	old := f.Row
	rank, _, err := f.sufficient()
	next, ok := old.renewed(f.Now)
	switch {
	case err != nil:
	case rank < RankTool:
		err = fmt.Errorf("%w: rank %s renews nothing", ErrInsufficient, rank)
	case old.Has(FlagContested) || openContradiction(mergeEvidence(f.Standing, f.Said)) >= RankTool:
		err = fmt.Errorf("%w: somebody as good says otherwise", ErrInsufficient)
	case !ok:
		err = fmt.Errorf("%w: whoever verified it has to look again", ErrInsufficient)
	case f.Repeats: // the source that agrees may say it because we did
		err = ErrOwnWrite
	default:
		err = f.Overtaken
	}
	return Verdict{Next: next, Err: err}
}

// refusesRenewal is why a row is not renewed, whoever agrees.
func (f *Facts) refusesRenewal() error {
	switch {
	case f.Row.Truth != TruthSupported, f.By == AuthorityUser, !Legal(FreshnessStale, FreshnessFresh, f.By):
		return &IllegalMoveError{Axis: AxisFreshness, From: f.Row.Freshness.String(), To: FreshnessFresh.String(), Authority: f.By}
	}
	return nil
}

// refusesToAdd is why evidence is not added, whatever the row is.
func (f *Facts) refusesToAdd() error {
	if slices.ContainsFunc(f.Said, func(e Evidence) bool { return e.Rank == RankUser && e.Relation == RelationSupports }) {
		return invalid("evidence.rank", "not_earned", "a user's support is applied, with authority, and not added (I-13)")
	}
	return nil
}

// hears decides what evidence does that moves no state by itself: a contradiction of a verified
// row by a tool or better contests it.
func (f *Facts) hears() Verdict {
	if f.Revoked != nil {
		return Verdict{Err: f.Revoked}
	}
	if err := f.refusesToAdd(); err != nil {
		return Verdict{Err: err}
	}
	next := f.Row
	if next.Truth == TruthSupported && openContradiction(mergeEvidence(f.Standing, f.Said)) >= RankTool {
		next.Flags |= FlagContested
	}
	return Verdict{Next: next}
}

// retracts decides whether a row is taken back: it is superseded, by nothing.
func (f *Facts) retracts() Verdict {
	switch {
	case f.By != AuthorityUser && f.By != AuthorityPolicy, f.Row.Truth == TruthSuperseded && !f.Row.Has(FlagOutdated):
		return Verdict{Err: &IllegalMoveError{Axis: AxisTruth, From: f.Row.Truth.String(), To: TruthSuperseded.String(), Authority: f.By}}
	case f.By == AuthorityUser && !f.MaySpeak:
		return Verdict{Err: fmt.Errorf("%w: %q over %q", ErrNoAuthority, f.Actor, f.Content.Subject)}
	}
	next := f.Row
	next.set(TruthSuperseded, f.Now)
	next.Flags &^= FlagContested
	return Verdict{Next: next, Voids: true}
}

// returns decides whether a row comes back that was displaced by one that is taken back. It is
// unverified: to take something back is no evidence (I-3). What a user rejected stays so.
func (f *Facts) returns() Verdict {
	if f.Row.Truth != TruthContradicted && !f.Row.Has(FlagOutdated) || f.Reach != ReachesNot {
		return Verdict{Err: errors.New("nothing displaced the row, or a user rejected it")}
	}
	next := f.Row
	next.set(TruthUnverified, f.Now)
	return Verdict{Next: next}
}

// loses decides what a row is without the evidence that was revoked. A row that was verified when
// it was written stands on the word of its own source.
func (f *Facts) loses() Verdict {
	next := f.Row
	switch next.Truth {
	case TruthSupported:
		rank, _, err := f.sufficient()
		if err != nil && f.BornSo {
			evidence, _, _ := f.basis()
			rank, err = Sufficient(f.ownSource(evidence, 0))
		}
		if err != nil {
			next.set(TruthUnverified, f.Now)
			return Verdict{Next: next, Voids: true}
		}
		next.Rank = rank
	case TruthContradicted:
		if !slices.ContainsFunc(f.Standing, func(e Evidence) bool { return e.Relation == RelationContradicts && !e.Void }) {
			next.set(TruthUnverified, f.Now)
		}
	}
	return Verdict{Next: next}
}

// recovers makes a row one whose lost demotion is made good for: it is not verified, and hidden
// until a user looks at it.
func (f *Facts) recovers() Verdict {
	next := f.Row
	if next.Truth == TruthSupported {
		next.set(TruthContradicted, f.Now)
	}
	if next.Retrieval != RetrievalBlocked {
		next.Retrieval = min(next.Retrieval, RetrievalHidden)
	}
	return Verdict{Next: next, Voids: true}
}

// answers decides what an answer asks of the store. Rank decides, confidence does not
// occur (SR-4.1, SR-4.4).
func (f *Facts) answers() Verdict {
	ask, why := AskNothing, "no verdict"
	switch f.Answer.Outcome {
	case AnswerSupports:
		ask, why = f.supports()
	case AnswerRefutes:
		if ask, why = f.refutes(); f.Answer.Nothing {
			ask, why = AskNothing, "the source says that nothing is known, which refutes nothing"
		}
	case AnswerGone:
		if ask, why = AskKeep, "a source is gone, and the row does not rest on it"; f.Row.Truth == TruthSupported && f.Row.Freshness == FreshnessFresh &&
			f.Row.Rank == f.Answer.Evidence.Rank && f.saidIt(f.Answer.Evidence.Group) {
			ask, why = AskAge, "what verified the row is gone, or is not what was pinned"
		}
	case AnswerUnclear:
		if why = "the verifier could not tell"; len(f.Answer.Heard) > 0 {
			ask, why = AskKeep, "those who were asked do not agree, or are too few"
		}
	default:
		return Verdict{Next: f.Row, Reason: why}
	}
	return Verdict{Next: f.Row, Ask: ask, Answered: true, Reason: why}
}

func (f *Facts) supports() (Ask, string) {
	row, e := &f.Row, &f.Answer.Evidence
	verified := row.Truth == TruthSupported
	switch {
	case f.Nothing:
		return AskNothing, placeholderReason
	case f.Reach != ReachesNot:
		return AskKeep, "a user rejected the claim; dissent is reported"
	case row.Truth == TruthSuperseded && !row.Has(FlagOutdated):
		return AskKeep, "the row was superseded"
	case row.Has(FlagOwnWord):
		return AskPromote, "an independent source agrees with the principal's own word"
	case verified && e.Rank < row.Rank && e.Rank >= RankTool && f.Answer.Exact:
		return AskRenew, "a source agrees still with what was verified"
	case verified && row.Rank == RankUser:
		return AskKeep, "a user verified the row; agreement is reported"
	case !verified && f.disagreed():
		return AskKeep, "another source of the same or a higher rank says otherwise"
	case verified && e.Rank < row.Rank:
		return AskKeep, "a source of higher rank verified the row; agreement is kept"
	}
	return AskPromote, "an independent source agrees"
}

// disagreed reports whether the last word of a group, of the same rank as the answer
// or a higher one, contradicts the row, and the answer is not that group's new word.
func (f *Facts) disagreed() bool {
	said := slices.Concat(f.Standing, []Evidence{f.Answer.Evidence}, f.Answer.Heard)
	open := openContradiction(said)
	return open != 0 && open >= f.Answer.Evidence.Rank
}

func (f *Facts) refutes() (Ask, string) {
	row, e := &f.Row, &f.Answer.Evidence
	switch {
	case f.Reach != ReachesNot, row.Truth == TruthSuperseded:
		return AskKeep, "the row is not believed any more"
	case row.Truth == TruthContradicted:
		return AskKeep, "contradicted once more"
	case row.Truth == TruthUnverified && e.Rank >= RankTool:
		return AskDemote, "a source says otherwise"
	case row.Truth == TruthUnverified:
		return AskKeep, "a model disagrees"
	case row.Rank == RankUser:
		return AskKeep, "a user verified the row; dissent is reported"
	case e.Rank > row.Rank:
		return AskDemote, "a source of higher rank says otherwise"
	case e.Rank == row.Rank && f.saidIt(e.Group):
		return AskDemote, "the source that verified it now says otherwise"
	case e.Rank == row.Rank:
		return AskKeep, "a source of the same rank says otherwise"
	}
	return AskKeep, "a source of lower rank says otherwise"
}
