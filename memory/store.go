package memory

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a [Store]. Every zero field has a usable default.
type Options struct {
	// Tenant and Namespace are the scope of the store: no call reads or writes what
	// is in another one. Lineage never leaves a namespace. Each is at most 1,024
	// bytes of UTF-8 without control characters. Tenant "" = "default".
	Tenant    string
	Namespace string
	// Witness remembers demotions and erasures outside the store, before they are
	// acknowledged; with it a store that lost one is noticed, and the gate stays
	// closed. nil: a fail-over or a restored copy that loses one goes unnoticed.
	Witness Witness
	// Clock is the store's clock; nil = time.Now. Every time limit is judged by it.
	Clock func() time.Time
	// Authority says whether a principal may speak for a subject and predicate
	// with rank user (I-13). nil = [OwnSubject].
	Authority func(principal, subject, predicate string) bool
}

// OwnSubject is the default authority of a user: a principal speaks for the
// subject that bears exactly its name, and for nothing else (I-13). No case is
// folded and nothing invisible is dropped: "Ana" is not "ana" (I-9).
func OwnSubject(principal, subject, _ string) bool {
	return Canonical(principal) != "" && subject == principal
}

// Store keeps rows and owns every rule about them; its [Driver] keeps bytes. It
// is safe for concurrent use. Three doors only: Put makes rows, Apply moves an
// axis, Record writes a decision.
type Store struct {
	driver    Driver
	keys      Keys
	scope     scope
	clock     func() time.Time
	authority func(principal, subject, predicate string) bool
	chains    chains
	classes   shelf[Class, *sealing]
	sets      shelf[uint64, Class] // of subjects
	subjects  shelf[string, KeyID]
	moved     shelf[string, Object] // claims, lines and fences, as they were a moment ago
	ledgers   ledgers
	revoked   atomic.Pointer[revocations] // as they were read last
	known     atomic.Bool                 // the store was written with these keys
	fresh     atomic.Uint64               // the incarnation that classes and subjects are of, plus 1

	witness    Witness
	confirming sync.Mutex
	confirmed  atomic.Uint64 // the incarnation that has every acknowledged demotion, plus 1

	mu       sync.Mutex
	seq      uint16
	last     int64
	sequence Sequence
}

// New returns a store over a driver, sealed and authenticated with keys. The store
// owns the driver: Close closes it. A scope that is not well formed gives a
// [*FieldError].
func New(d Driver, k Keys, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	s := &Store{driver: d, keys: k, clock: o.Clock, authority: o.Authority, witness: o.Witness}
	tenant := firstNonEmpty(o.Tenant, "default")
	switch {
	case d == nil:
		return nil, invalid("driver", "required", "a store keeps its bytes with a driver")
	case k == nil:
		return nil, invalid("keys", "required", "a store has keys; see memory/keyring")
	}
	if err := checkScope("tenant", tenant); err != nil {
		return nil, err
	}
	if err := checkScope("namespace", o.Namespace); err != nil {
		return nil, err
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.authority == nil {
		s.authority = OwnSubject
	}
	if o.Namespace != "" {
		s.driver = spaced{Driver: d, prefix: spacePrefix(o.Namespace)}
	}
	s.scope = newScope(k.Root(), tenant, o.Namespace)
	s.freshen()
	return s, nil
}

// Close closes the driver. Later calls give [ErrClosed].
func (s *Store) Close() error { return s.driver.Close() }

// Now is the store's clock, in UTC, to the microsecond.
func (s *Store) Now() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }

// Tenant is the tenant of the store's scope.
func (s *Store) Tenant() string { return s.scope.tenant }

// Namespace is the namespace of the store's scope; "" is one like any other.
func (s *Store) Namespace() string { return s.scope.namespace }

func (s *Store) newID(prefix string, now time.Time) string {
	var random [8]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	s.mu.Lock()
	defer s.mu.Unlock()
	t := now.UnixMicro()
	if t <= s.last { // two ids of one microsecond, or a clock that went back: order by sequence
		t = s.last
		s.seq++
		if s.seq == 0 {
			t++
		}
	} else {
		s.seq = 0
	}
	s.last = t
	return newID(prefix, t, s.seq, random)
}

// NewDecisionID returns a fresh, time-ordered decision id ("blk_…").
func (s *Store) NewDecisionID() string { return s.newID("blk_", s.Now()) }

func newNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func termState(v State) string   { return "s" + string(byte(v)) }
func termChild(id ID) string     { return place("p").of(id) }
func termCites(id ID) string     { return place("x").of(id) }
func termLedger(k string) string { return "g" + k[len(ledgerKey):] } // cites a segment

// blindTerm is a term made of words that say something of persons: who wrote a
// row, in which run, a word of it. Half a token is kept: two values that share it
// would share a listing, and nothing is decided by one.
func (s *Store) blindTerm(letter, kind, value string) string {
	t := s.scope.blind(kind, value)
	return letter + string(t[:len(t)/2])
}

func (s *Store) termWord(w string) string      { return s.blindTerm("w", "word", w) }
func (s *Store) termRun(run string) string     { return s.blindTerm("r", "run", run) }
func (s *Store) termCalls(run string) string   { return s.blindTerm("q", "run", run) }
func (s *Store) termModel(model string) string { return s.blindTerm("m", "model", model) }
func (s *Store) termBy(group string) string    { return s.blindTerm("b", "by", group) }

// Rows of one claim or line settle what becomes of each other: here the whole
// token is kept.
func (s *Store) termClaim(t Token) string { return "c" + string(t[:]) }

func (s *Store) termLine(c Content) string {
	t := s.scope.blind("line", c.line())
	return "l" + string(t[:])
}

// termFunctional is carried by the rows of a line that call its predicate
// functional.
func (s *Store) termFunctional(c Content) string { return "f" + s.termLine(c)[1:] }

const (
	termRow      = "R"
	termDue      = "D"
	termParked   = "P"
	termDecision = "X"
	termLeft     = "V" // what is left under a nonce, by the time it may be dropped
)

// newestFirst sorts the carriers of a term by descending time.
func newestFirst(t time.Time) uint64 { return math.MaxUint64 - uint64(t.UnixMicro()) }

// Disposition says what became of one write.
type Disposition uint8

// The dispositions.
const (
	_ Disposition = iota
	// Created: a new row was written.
	Created
	// Collapsed: the claim was there; its corroboration record counts one more
	// re-entry, and nothing else moved (MP-14).
	Collapsed
	// Reaffirmed: the claim was there, and its own first-hand source said it again.
	Reaffirmed
)

var dispositionEnum = enum[Disposition]{"disposition", []string{"", "created", "collapsed", "reaffirmed"}}

// String returns created, collapsed, reaffirmed or "unset".
func (d Disposition) String() string { return dispositionEnum.text(d) }

// MarshalText returns the same.
func (d Disposition) MarshalText() ([]byte, error) { return dispositionEnum.marshal(d) }

// Receipt is the honest result of a write: which row holds the claim now, in
// which state, and what happened.
type Receipt struct {
	ID          ID          `json:"id"`
	State       State       `json:"state"`
	Revision    uint64      `json:"revision"`
	Disposition Disposition `json:"disposition"`
	Reason      string      `json:"reason,omitempty"`
}

// conflictRetries bounds how often a write that lost a race starts again.
const conflictRetries = 256

// retry runs one optimistic attempt until it does not conflict.
func retry[T any](ctx context.Context, attempt func() (T, error)) (T, error) {
	var (
		v   T
		err error
	)
	for range conflictRetries {
		v, err = attempt()
		if err == nil || !errors.Is(err, ErrConflict) {
			return v, err
		}
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
	}
	return v, err
}

// Put writes a draft. If its claim is already there the claim comes back as what
// it is: a model's draft, however it is labelled, collapses onto the row that
// holds the claim (MP-14, MP-33); an external draft collapses on the full
// identity, anchor included, and reaffirms its own row. Otherwise a new row is
// written, with its lineage closure and depth computed here.
//
// A draft that asks for StateVerified without authority over its subject is
// written unverified, and the receipt says so. On any error nothing was written,
// except one that wraps [ErrStore]: then it may have been.
func (s *Store) Put(ctx context.Context, d Draft) (Receipt, error) {
	if err := d.Check(); err != nil {
		return Receipt{}, err
	}
	claim, ident := s.scope.claim(d.Content.ClaimKey()), s.ident(d)
	if objs, sure := s.presume(d, claim, ident); objs != nil {
		r, err := s.create(ctx, d, claim, claimRecord{}, objs, nil, s.Now(), sure...)
		if !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
	return retry(ctx, func() (Receipt, error) { return s.put(ctx, d, claim, ident) })
}

// presume is what put would read for a draft that is made from nothing and says what
// was not said before, or nil if it may not be so, or more has to be known. It spares
// most rows a round trip. It may be wrong: the atom checks all of it, and then the
// draft is put again after a look.
//
// A server that a fail-over put back may have a line at the revision that is remembered,
// with another mark. So the atom also checks, with sure, that the row is there that made
// the mark: its id is nobody else's.
func (s *Store) presume(d Draft, claim, ident Token) (objs []Object, sure []Check) {
	if len(d.DerivedFrom)+len(d.SelectedBy) > 0 {
		return nil, nil
	}
	objs = []Object{{Key: identKey.at(ident)}, {Key: claimKey.at(claim)}, {Key: echoKey.at(claim)}, {Key: s.line(d.Content)}}
	if _, said := s.moved.get(objs[1].Key); said {
		return nil, nil
	}
	if d.State == StateVerified && d.Content.Typed() {
		line, ok := s.moved.get(objs[3].Key)
		if !ok || d.Content.Cardinality == CardinalityFunctional || !bytes.HasPrefix(line.Data, linePlain) || len(line.Data) == len(linePlain) {
			return nil, nil
		}
		objs[3], sure = line, []Check{{Key: bodyKey.of(ID(line.Data[len(linePlain):])), Revision: 1}}
	}
	return objs, sure
}

func (s *Store) put(ctx context.Context, d Draft, claim, ident Token) (Receipt, error) {
	now := s.Now()
	parents := dedupe(d.DerivedFrom)
	keys := []string{identKey.at(ident), claimKey.at(claim), echoKey.at(claim), s.line(d.Content)}
	for _, p := range parents {
		keys = append(keys, headKey.of(p))
	}
	for _, p := range d.SelectedBy {
		keys = append(keys, headKey.of(p))
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return Receipt{}, err
	}
	for _, o := range [...]Object{objs[1], objs[3]} {
		if o.Revision > 0 {
			s.remember(o)
		}
	}
	known, err := s.claimOf(ctx, objs[1])
	if err != nil {
		return Receipt{}, err
	}
	if objs[0].Data != nil {
		holder, err := s.heads(ctx, []ID{ID(objs[0].Data)})
		if err != nil {
			return Receipt{}, err
		}
		// An erasure that is made good for when its key is gone cannot tell what the
		// identity of the row was, and leaves it.
		if !holder[0].Has(FlagErased) {
			return s.again(ctx, d, holder[0], objs[2], now)
		}
	}
	if objs[1].Data != nil && !d.Origin.External() {
		return s.collapse(ctx, d, known.First, objs[2], now)
	}

	heads, err := decodeHeads(objs[4:], append(slices.Clone(parents), d.SelectedBy...))
	if err != nil {
		return Receipt{}, err
	}
	for i, h := range heads {
		if h.Revision == 0 {
			field := "derived_from"
			if i >= len(parents) {
				field = "selected_by"
			}
			return Receipt{}, invalid(field, "not_found", "no row %s", h.ID)
		}
		if h.Has(FlagErased) {
			return Receipt{}, fmt.Errorf("%w: row %s, which this one is made from", ErrErased, h.ID)
		}
	}
	return s.create(ctx, d, claim, known, objs, heads[:len(parents)], now)
}

func (s *Store) ident(d Draft) Token {
	k := d.Content.IdentityKey(d.Anchor)
	return s.scope.blind("identity", string(k[:]))
}

// classOf is the class of a row: of the subjects of its parents and its own.
func (t *atom) classOf(d Draft, parents []Head) Class {
	classes := make([]Class, 0, len(parents))
	for i := range parents {
		if !slices.Contains(classes, parents[i].Class) {
			classes = append(classes, parents[i].Class)
		}
	}
	return t.classFor(classes, d.subjects())
}

// subjects are whom the row is about, in canonical form: those that the draft
// names, the subject of its triple, and the person who asserts it.
func (d *Draft) subjects() []string {
	var out []string
	add := func(name string) {
		if name = Canonical(name); name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, name := range d.Subjects {
		add(name)
	}
	add(d.Content.Subject)
	if d.Origin == OriginUserAsserted {
		add(d.Asserter.Principal)
	}
	return out
}

// create writes a row that no identity holds yet, if what it is sure of is so.
func (s *Store) create(ctx context.Context, d Draft, claim Token, known claimRecord, objs []Object, parents []Head, now time.Time, sure ...Check) (Receipt, error) {
	tx := s.begin(ctx, now)
	for _, c := range sure {
		tx.check(c.Key, c.Revision)
	}
	w, err := tx.row(d, claim, known, objs, parents, nil)
	if err != nil {
		return Receipt{}, err
	}
	if err := tx.commit(headKey.of(w.ID), 1, w.nonce); err != nil {
		return Receipt{}, err
	}
	return w.Receipt, nil
}

// written is a row that an atom puts.
type written struct {
	Receipt
	head  Head
	nonce string // of its entry
}

// row puts a row that no identity holds yet. objs are its identity and its claim, and
// of a row that may be verified the corroboration record of the claim and the line;
// from is set if it comes from another store. What it refuses has put nothing.
func (t *atom) row(d Draft, claim Token, known claimRecord, objs []Object, parents []Head, from *Imported) (written, error) {
	s, ctx, now := t.store, t.ctx, t.now
	closure, err := s.closureOf(ctx, parents)
	if err != nil {
		return written{}, err
	}
	class := t.classOf(d, parents)
	if t.err != nil {
		return written{}, t.err
	}
	state, reason := d.State, ""
	if state == StateVerified {
		revoked, err := s.knownRevocations(ctx)
		if err != nil {
			return written{}, err
		}
		t.check(revokedKey, revoked.Revision)
		switch refused := revoked.refuse(d.Evidence); {
		case refused != nil:
			state, reason = StateUnverified, strings.TrimPrefix(refused.Error(), "memory: ")
		case d.Origin == OriginUserAsserted && !s.authority(d.Asserter.Principal, d.Content.Subject, d.Content.Predicate):
			state, reason = StateUnverified, "the principal has no authority over this subject"
		case known.Rejection != nil && d.Origin != OriginUserAsserted:
			state, reason = StateUnverified, "a user rejected this claim"
		default:
			if reason, err = s.ownWord(ctx, d, claim, closure); err != nil {
				return written{}, err
			}
			if reason == "" && d.Origin != OriginUserAsserted {
				against, err := s.disputed(ctx, claim, "", objs[1], d.Evidence)
				if err != nil {
					return written{}, err
				}
				if against >= RankTool {
					reason = "a source of rank " + against.String() + " contradicted another row of the claim"
				}
			}
			if reason != "" {
				state = StateUnverified
			}
		}
	}

	id := ID(s.newID(idPrefix, now))
	h := newHead(id, d, state, parents, closure, now)
	h.Commitment, h.Claim, h.Group, h.Class = s.commitment(d.Content), claim, s.scope.group(d.Asserter.Group()), class
	for _, p := range parents { // what is being erased has no new children
		t.check(headKey.of(p.ID), p.Revision)
	}
	if state == StateVerified {
		h.Rank = RankTool
		if d.Origin == OriginUserAsserted {
			h.Rank = RankUser
		}
		if err := t.settle(objs[3], &h, d.Content, d.Evidence, d.Asserter.Principal, d.Asserter.Group()); err != nil {
			return written{}, err
		}
		if h.Truth != TruthSupported {
			state, reason = StateUnverified, "a source of higher rank says otherwise"
		}
	}
	if known.Rejection != nil && h.Truth != TruthSupported {
		h.Flags |= FlagContested
	}

	nonce := newNonce()
	entry := AuditEntry{Kind: EntryWrite, Row: id, Revision: 1, At: now, Actor: d.Asserter.Principal, Authority: AuthoritySystem,
		Source: d.Asserter.Group(), Reason: firstNonEmpty(reason, "written as "+d.Origin.String()), Axis: AxisTruth,
		To: state.String(), Nonce: nonce}
	if from != nil {
		from.lower(&h)
		entry.Kind, entry.Actor, entry.Source, entry.Reason = EntryImport, from.actor, from.source, from.note()
	}
	about := newBody(d)
	t.put(Put{Key: bodyKey.of(id), Data: t.seal(class, bodyKey.of(id), 0, about.encode()), Add: s.bodyTerms(d, &h, dedupe(d.DerivedFrom))})
	if len(d.Evidence) > 0 {
		evidence := mergeEvidence(nil, d.Evidence)
		if h.Truth != TruthSupported { // what did not verify the row now does not do so later
			evidence, _ = voidSupports(evidence)
		}
		t.head(Head{ID: id}, h, entry, t.evidence(&h, evidenceObject{}, voidsNothing, evidence))
	} else {
		t.head(Head{ID: id}, h, entry, change{})
	}
	if h.Truth == TruthSupported {
		t.due(&h, Object{}, due{Reason: dueAgain}, h.StaleAt)
	} else {
		t.due(&h, Object{}, due{Reason: "written " + state.String()}, now)
	}
	t.put(Put{Key: objs[0].Key, From: objs[0].Revision, Data: []byte(id)})
	if objs[1].Data == nil {
		t.claim(objs[1].Key, objs[1].Revision, claimRecord{First: id}, class)
	} else if known.Rejection != nil && h.Truth == TruthSupported {
		known.Rejection, known.Rejected = nil, "" // a user with authority says so again, and wins
		t.claim(objs[1].Key, objs[1].Revision, known, class)
	} else {
		t.check(objs[1].Key, objs[1].Revision)
	}
	r := Receipt{ID: id, State: h.stateOnce(1), Revision: 1, Disposition: Created, Reason: reason}
	h.Revision = 1
	return written{Receipt: r, head: h, nonce: nonce}, t.err
}

// commitment is the token of an exact content.
func (s *Store) commitment(c Content) Token {
	k := c.Hash()
	return s.scope.blind("content", string(k[:]))
}

// ownWord says why a draft is not independent enough of its lineage to be born
// verified, or "": a source that was fed the claim, or its own earlier output,
// says nothing new (I-4).
func (s *Store) ownWord(ctx context.Context, d Draft, claim Token, closure []ID) (string, error) {
	above, err := s.heads(ctx, closure)
	if err != nil {
		return "", err
	}
	for _, h := range above {
		switch {
		case h.Claim == claim:
			return "the claim rests on itself", nil
		case d.Origin != OriginUserAsserted && h.Group == s.scope.group(d.Asserter.Group()):
			return "the claim rests on its own source", nil
		}
	}
	return "", nil
}

// stateOnce is State for a head about to be written at a revision.
func (h Head) stateOnce(revision uint64) State {
	h.Revision = revision
	return h.State()
}

func newHead(id ID, d Draft, state State, parents []Head, closure []ID, now time.Time) Head {
	window := d.CheckEvery
	if window == 0 {
		window = DefaultCheckEvery
	}
	h := Head{
		ID: id, Origin: d.Origin, Truth: TruthUnverified, Retrieval: RetrievalNormal, Security: SecurityClean,
		Freshness: FreshnessFresh, Outage: OutageNone, Sensitivity: d.Sensitivity, Criticality: d.Criticality,
		Kind: d.Kind, Layer: d.Layer, CreatedAt: now, StaleAt: now.Add(window), ExpiresAt: now.Add(window * expiryFactor),
		ValidUntil: d.ValidUntil,
	}
	if h.Kind == 0 {
		h.Kind = KindRaw
	}
	if h.Layer == 0 {
		h.Layer = LayerEpisodic
	}
	if h.Criticality == 0 {
		h.Criticality = CriticalityCritical
	}
	switch state {
	case StateVerified:
		h.Truth, h.VerifiedAt = TruthSupported, now
	case StateUnavailableAtWriteTime:
		h.Outage = OutageRecorded
	}
	// Recall that matched nothing stays out of the main channel.
	if d.Origin == OriginRecallReentry {
		h.Retrieval = RetrievalRestricted
	}
	if !d.Origin.External() || len(parents) > 0 {
		h.Depth = 1
	}
	for _, p := range parents {
		h.Depth = max(h.Depth, p.Depth+1)
		// Secrecy and unknown lineage flow down (I-8).
		h.Sensitivity = max(h.Sensitivity, p.Sensitivity)
		if p.Has(FlagLineageUnknown) && p.Truth != TruthSupported {
			h.Flags |= FlagLineageUnknown
		}
	}
	if d.LineageUnknown {
		h.Flags |= FlagLineageUnknown
	}
	if len(closure) > MaxInlineClosure {
		h.Flags |= FlagTraced
	} else {
		h.ancestors = packIDs(closure)
	}
	return h
}

func newBody(d Draft) body {
	return body{
		Content: d.Content, Origin: d.Origin, Asserter: d.Asserter, DerivedFrom: dedupe(d.DerivedFrom), SelectedBy: dedupe(d.SelectedBy),
		Anchor: d.Anchor, ValueConfidence: d.ValueConfidence, ValidTimeConfidence: d.ValidTimeConfidence,
		ValidFrom: d.ValidFrom.UTC(), ValidUntil: d.ValidUntil.UTC(), CheckEvery: d.CheckEvery,
		Source: firstNonEmpty(d.Source, "explicit"), Category: d.Category, Run: d.Run, Subjects: d.Subjects,
	}
}

// bodyTerms are what a row is found by. They are a function of what is stored.
func (s *Store) bodyTerms(d Draft, h *Head, parents []ID) []Term {
	at := newestFirst(h.CreatedAt)
	terms := []Term{{termRow, at}, {s.termClaim(h.Claim), at}, {s.termBy(d.Asserter.Group()), at}, {termClass(h.Class), at}}
	if d.Asserter.Model != "" {
		terms = append(terms, Term{s.termModel(d.Asserter.Model), at})
	}
	if d.Content.Typed() {
		terms = append(terms, Term{s.termLine(d.Content), at})
		if d.Content.Cardinality == CardinalityFunctional {
			terms = append(terms, Term{s.termFunctional(d.Content), at})
		}
	}
	if d.Run != "" {
		terms = append(terms, Term{s.termRun(d.Run), at})
	}
	for _, p := range parents {
		terms = append(terms, Term{termChild(p), uint64(h.CreatedAt.UnixMicro())})
	}
	for _, w := range searchWords(d.Content) {
		terms = append(terms, Term{s.termWord(w), at})
	}
	return terms
}

// again handles an identity that a row has already.
func (s *Store) again(ctx context.Context, d Draft, row Head, echo Object, now time.Time) (Receipt, error) {
	if !d.Origin.External() || d.State != StateVerified {
		return s.echo(ctx, d.Asserter, d.Run, row, echo, "", now)
	}
	authority := AuthorityProbe
	if d.Origin == OriginUserAsserted {
		authority = AuthorityUser
	}
	evidence := slices.Clone(d.Evidence)
	for i := range evidence { // what the draft was made from, its evidence rests on
		evidence[i].DerivedFrom = dedupe(append(slices.Clone(evidence[i].DerivedFrom), d.DerivedFrom...))
	}
	h, err := s.Apply(ctx, Transition{Row: row.ID, Revision: row.Revision, To: TruthSupported, Authority: authority,
		Actor: d.Asserter.Principal, Source: d.Asserter.Group(), Reason: "said again by its own first-hand source", Evidence: evidence})
	switch {
	case err == nil:
		return Receipt{ID: row.ID, State: h.State(), Revision: h.Revision, Disposition: Reaffirmed}, nil
	case errors.Is(err, ErrInsufficient), errors.Is(err, ErrRevoked), errors.Is(err, ErrContested), errors.Is(err, ErrNoAuthority), errors.Is(err, ErrRejected), errors.Is(err, ErrIllegalMove):
		// The word of its own source does not lift what took the state away.
		r, echoErr := s.echo(ctx, d.Asserter, d.Run, row, echo, "", now)
		r.Reason = strings.TrimPrefix(err.Error(), "memory: ")
		return r, echoErr
	}
	return Receipt{}, err
}

// Echo records that the claim of a row came back in another wording. It moves no
// state, count of supports or confidence: one corroboration record per claim
// counts it, and its log keeps the wording (MP-16).
func (s *Store) Echo(ctx context.Context, row ID, by Asserter, run, wording string) (Receipt, error) {
	if err := row.check("row"); err != nil {
		return Receipt{}, err
	}
	if err := by.check(OriginRecallReentry); err != nil {
		return Receipt{}, err
	}
	if err := checkText("wording", wording, MaxText); err != nil {
		return Receipt{}, err
	}
	return retry(ctx, func() (Receipt, error) {
		heads, err := s.heads(ctx, []ID{row})
		if err != nil {
			return Receipt{}, err
		}
		if heads[0].Revision == 0 {
			return Receipt{}, fmt.Errorf("%w: %s", ErrNotFound, row)
		}
		objs, err := s.get(ctx, echoKey.at(heads[0].Claim))
		if err != nil {
			return Receipt{}, err
		}
		return s.echo(ctx, by, run, heads[0], objs[0], wording, s.Now())
	})
}

// collapse lets a draft come back as the row that holds its claim.
func (s *Store) collapse(ctx context.Context, d Draft, id ID, record Object, now time.Time) (Receipt, error) {
	heads, err := s.heads(ctx, []ID{id})
	if err != nil {
		return Receipt{}, err
	}
	return s.echo(ctx, d.Asserter, d.Run, heads[0], record, "", now)
}

// echo counts one re-entry of the claim of a row.
func (s *Store) echo(ctx context.Context, by Asserter, run string, row Head, record Object, wording string, now time.Time) (Receipt, error) {
	tx := s.begin(ctx, now)
	nonce, err := tx.echo(by, run, row, record, wording, 1)
	if err != nil {
		return Receipt{}, err
	}
	if err := tx.commit(record.Key, record.Revision+1, nonce); err != nil {
		return Receipt{}, err
	}
	return collapsed(row), nil
}

func collapsed(row Head) Receipt {
	return Receipt{ID: row.ID, State: row.State(), Revision: row.Revision, Disposition: Collapsed,
		Reason: "the claim is already stored; reading it back adds nothing"}
}

// echo counts n re-entries of the claim of a row, and returns the nonce of the entry.
func (t *atom) echo(by Asserter, run string, row Head, record Object, wording string, n int) (nonce string, err error) {
	e, prev, err := echoesOf(record)
	if err != nil {
		return "", err
	}
	if e.Count == 0 {
		e.First = t.now
	}
	e.Count += n
	if wording != "" {
		e.Reworded++
	}
	e.Last = t.now
	nonce = newNonce()
	entry := AuditEntry{Kind: EntryEcho, Row: row.ID, Revision: record.Revision + 1, At: t.now, Actor: by.Principal, Authority: AuthoritySystem,
		Source: by.Group(), Reason: "the claim came back", Wording: wording, Run: run, Nonce: nonce}
	if n > 1 {
		entry.Reason = fmt.Sprintf("the claim came back %d times", n)
	}
	data := e.encode()
	t.log(Put{Key: record.Key, From: record.Revision}, prev, data, data, row.Class, entry, change{})
	return nonce, nil
}

func (e *Echoes) encode() []byte {
	w := encoder{}
	w.num(uint64(e.Count))
	w.num(uint64(e.Reworded))
	w.time(e.First)
	w.time(e.Last)
	return w.b
}

func echoesOf(o Object) (e Echoes, prev link, err error) {
	if o.Data == nil {
		return e, prev, nil
	}
	rest, err := prev.decode(o.Data)
	if err == nil && len(rest) == 0 { // it was erased: what comes back begins anew
		return e, prev, nil
	}
	d := decoder{b: rest}
	e = Echoes{Count: int(d.num()), Reworded: int(d.num()), First: d.time(), Last: d.time()}
	if err == nil {
		err = d.end()
	}
	return e, prev, faulty(err, "corroboration record")
}

func (s *Store) heads(ctx context.Context, ids []ID) ([]Head, error) {
	objs, err := s.get(ctx, headKey.each(make([]string, 0, len(ids)), ids)...)
	if err != nil {
		return nil, err
	}
	return decodeHeads(objs, ids)
}

func decodeHeads(objs []Object, ids []ID) ([]Head, error) {
	heads := make([]Head, len(objs))
	for i, o := range objs {
		if o.Data == nil {
			heads[i].ID = ids[i]
			continue
		}
		if err := decodeHead(&heads[i], ids[i], o.Revision, o.Data); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return heads, nil
}

func firstNonEmpty(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func dedupe(ids []ID) []ID {
	seen := make(map[ID]bool, len(ids))
	var out []ID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	return out
}
