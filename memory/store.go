package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/text/unicode/norm"
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
	// closed. nil: a fail-over or a restored copy that loses one goes unnoticed; a
	// store that has had one keeps its gate closed ([ErrWitnessMissing]).
	Witness Witness
	// Clock is the store's clock; nil = time.Now. Every time limit is judged by it.
	Clock func() time.Time
	// Authority says whether a principal may speak for a subject and predicate
	// with rank user (I-13). nil = [OwnSubject]. Asked with the subject "" it says whether
	// the principal may speak for everybody: the word of any other about the subject of its
	// own name counts in calls made for that principal.
	Authority func(principal, subject, predicate string) bool
	// Predicates is the registry: what the operator says of a predicate, by its exact name.
	// Of one that is not registered nothing is known: two different objects that one person
	// asserts of a subject are then both contested, since nobody said that both can be so.
	Predicates map[string]Predicate
}

// OwnSubject is the default authority of a user: a principal speaks for the
// subject that bears exactly its name, and for nothing else (I-13). No case is
// folded and nothing invisible is dropped: "Ana" is not "ana" (I-9).
func OwnSubject(principal, subject, _ string) bool {
	return Canonical(principal) != "" && SameName(subject, principal)
}

// Store keeps rows and owns every rule about them; its [Driver] keeps bytes. It
// is safe for concurrent use. Three doors only: Put makes rows, Apply moves an
// axis, Record writes a decision.
type Store struct {
	driver *authentic
	keys   Keys
	scope
	clock     func() time.Time
	authority func(principal, subject, predicate string) bool
	registry  predicates
	chains    chains
	auditor   *Auditor
	classes   cache[Class, *sealing]
	sets      cache[uint64, Class] // of subjects
	subjects  cache[string, KeyID]
	moved     cache[string, Object] // claims, lines and fences, as they were a moment ago
	ledgers   ledgers
	madeCalls callMarks
	turns     turns
	revoked   atomic.Pointer[revocations] // as they were read last
	looked    atomic.Int64                // when they were read last, in ns since 1970
	outages   atomic.Pointer[knownOutages]
	known     atomic.Bool   // the store was written with these keys
	fresh     atomic.Uint64 // the incarnation that classes and subjects are of, plus 1

	witness    Witness
	confirming sync.Mutex
	confirmed  atomic.Uint64 // the incarnation that has every acknowledged demotion, plus 1
	attended   atomic.Uint64 // the incarnation whose own word of its witness was read, plus 1
	noted      atomic.Uint64 // the incarnation that has an entry about its witness, plus 1

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
	s := &Store{keys: k, clock: o.Clock, authority: o.Authority, witness: o.Witness}
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
	var err error
	if s.registry, err = checked(o.Predicates); err != nil {
		return nil, err
	}
	if s.clock == nil {
		s.clock = time.Now
	}
	if s.authority == nil {
		s.authority = OwnSubject
	}
	if o.Namespace != "" {
		d = spaced{Driver: d, prefix: spacePrefix(o.Namespace)}
	}
	s.scope = newScope(k.Root(), tenant, o.Namespace)
	s.auditor = &Auditor{keys: k, scope: s.scope}
	s.driver = &authentic{Driver: d, keys: k, scope: &s.scope}
	s.freshen()
	return s, nil
}

// Close closes the driver; later calls give [ErrClosed]. Keys that are an [io.Closer] are
// closed too: those of memory/keyring only give up what they hold open.
func (s *Store) Close() error {
	err := s.driver.Close()
	if keys, ok := s.keys.(io.Closer); ok {
		err = errors.Join(err, keys.Close())
	}
	return err
}

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

// Speaker is the token that heads have for the own word of a principal; see
// [FlagOwnWord]. Equal principals, byte by byte in NFC, have equal tokens.
func (s *Store) Speaker(principal string) Token {
	return s.scope.blind("speaker", norm.NFC.String(principal))
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
func (s *scope) blindTerm(letter, kind, value string) string {
	if s.met == nil {
		t := s.blind(kind, value)
		return letter + string(t[:len(t)/2])
	}
	var b [96]byte // a word has 64 bytes or fewer
	name := append(append(b[:0], letter...), value...)
	term, ok := s.met[string(name)]
	if !ok {
		if len(s.met) >= cacheSize {
			clear(s.met)
		}
		t := s.blind(kind, value)
		term = letter + string(t[:len(t)/2])
		s.met[string(name)] = term
	}
	return term
}

func (s *scope) termWord(w string) string      { return s.blindTerm("w", "word", w) }
func (s *scope) termRun(run string) string     { return s.blindTerm("r", "run", run) }
func (s *scope) termCalls(run string) string   { return s.blindTerm("q", "run", run) }
func (s *scope) termModel(model string) string { return s.blindTerm("m", "model", model) }
func (s *scope) termBy(group string) string    { return s.blindTerm("b", "by", group) }

// termAbout is carried by rows that are due, sorted by how often they were read.
func (s *scope) termAbout(predicate string) string {
	return s.blindTerm(termAbout, "due about", Canonical(predicate))
}

// Rows of one claim or line are listed by the whole token.
func (s *scope) termClaim(t Token) string { return "c" + string(t[:]) }

func (s *scope) termLine(c Content) string {
	t := s.blind("line", c.line())
	return "l" + string(t[:])
}

// termAlike is carried by rows about names that look alike, sorted by the exact name.
func (s *scope) termAlike(name string) string { return s.blindTerm("a", "alike", lookAlike(name)) }

const (
	termRow      = "R"
	termDue      = "D" // is due, by the time it fell due
	termHot      = "J" // the same, by how often it was read
	termAbout    = "j" // the same, of marks whose predicate is not known; begins those of a predicate
	termLater    = "T" // is due later, by that time
	termParked   = "P"
	termDecision = "X"
	termLeft     = "V" // what is left under a nonce, by the time it may be dropped
	termUntold   = "U" // what the witness was not told of, oldest first
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
	// Corroborated, of a claim that collapsed: a model of another family said it by itself,
	// and that is kept as evidence of the row. It verifies nothing.
	Corroborated bool `json:"corroborated,omitempty"`
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
//
// A store without readable revocations takes no row, as none could be read: [ErrDamaged]. A
// process looks at them, and at the class of a row, once a minute at least.
func (s *Store) Put(ctx context.Context, d Draft) (Receipt, error) {
	if err := d.Check(); err != nil {
		return Receipt{}, err
	}
	if err := s.registry.fill(&d); err != nil {
		return Receipt{}, err
	}
	claim, ident := s.tokens(&d)
	if objs, sure := s.presume(&d, claim, ident); objs != nil {
		r, err := s.create(ctx, s.labelled(d, s.Now()), claim, claimRecord{}, objs, nil, nil, s.Now(), sure)
		if !errors.Is(err, ErrConflict) {
			return r, err
		}
	}
	return s.retryInTurn(ctx, echoKey.at(claim), func() (Receipt, error) { return s.put(ctx, d, claim, ident) })
}

// presume is what put would read for a draft that is made from nothing and says what was not
// said before. It is nil if the draft may be another one. It spares most rows a round trip.
// It may be wrong: the transaction checks all of it, and then the draft is put again after a look.
//
// A server that a fail-over put back may have a line at the revision that is remembered,
// with another mark. So the transaction also checks, with sure, that the row is there that made
// the mark: its id is nobody else's.
func (s *Store) presume(d *Draft, claim, ident Token) (objs []Object, sure []Check) {
	if len(d.DerivedFrom)+len(d.SelectedBy) > 0 || d.Quotes != "" || d.LabelOutage && !s.outagesKnown() || !s.trusts() {
		return nil, nil
	}
	objs = []Object{{Key: identKey.at(ident)}, {Key: claimKey.at(claim)}, {Key: echoKey.at(claim)}, {Key: s.line(d.Content)}}
	if _, said := s.moved.get(objs[1].Key); said {
		return nil, nil
	}
	if d.State == StateVerified && d.Content.Typed() {
		o, ok := s.moved.get(objs[3].Key)
		line, err := lineOf(o)
		if d.alike = s.first(&d.Content); d.alike == nil || !ok || err != nil || d.Content.Cardinality == CardinalityFunctional || !line.quiet() || line.By == "" {
			return nil, nil
		}
		objs[3], sure = o, []Check{{Key: bodyKey.of(line.By), Revision: 1}}
	}
	if d.repeats() {
		for _, key := range s.ownKeys(d.Content.Subject) {
			sure = append(sure, Check{Key: key})
		}
	}
	return objs, sure
}

// first is what is known of other spellings, if nothing is against what the draft says: its own was
// the first one, and stays it. It is nil if that is not known.
func (s *Store) first(c *Content) *alike {
	keys := s.alikeKeys(c)
	o, ok := s.moved.get(keys[0])
	if len(keys) > 1 || !ok {
		return nil
	}
	list, err := alikeOf(o)
	if err != nil || list.at(lineToken(s.line(*c))) != 0 {
		return nil
	}
	return &alike{names: o, list: list}
}

// lost reports whether a verified row that nobody withheld says nothing any more: its body is
// gone, or cannot be opened.
func (s *Store) lost(ctx context.Context, h *Head) bool {
	if h.Truth != TruthSupported || h.Security != SecurityClean || h.Retrieval != RetrievalNormal || h.Has(FlagTainted) {
		return false
	}
	objs, damaged, err := s.each(ctx, []string{bodyKey.of(h.ID)})
	if err != nil || len(damaged) > 0 || objs[0].Data == nil {
		return err == nil
	}
	_, err = s.body(ctx, objs[0])
	return unreadable(err)
}

// trusts reports whether the revocations, without which no row is read, were read lately.
func (s *Store) trusts() bool {
	return s.revoked.Load() != nil && time.Since(time.Unix(0, s.looked.Load())) < trusted
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
	if d.Quotes != "" {
		keys = append(keys, headKey.of(d.Quotes))
	}
	read := append(slices.Clone(keys), outageKey, revokedKey)
	if d.repeats() {
		read = append(read, s.ownKeys(d.Content.Subject)...)
	}
	others := len(read)
	if d.State == StateVerified {
		read = append(read, s.alikeKeys(&d.Content)...)
	}
	objs, damaged, err := s.each(ctx, read)
	if err != nil {
		return Receipt{}, err
	}
	near := nearbyIn(objs, damaged, others)
	objs, damaged = objs[:others], slices.DeleteFunc(damaged, func(i int) bool { return i >= others })
	unknown := slices.Contains(damaged, len(keys)) // how the verifiers are; that stops no write
	for _, i := range damaged {
		if i != len(keys) {
			return Receipt{}, &DamagedError{Keys: []string{objs[i].Key}}
		}
	}
	s.noteOutages(objs[len(keys)], unknown)
	revoked, err := s.revocationsOf(objs[len(keys)+1])
	if err != nil { // no row would be readable
		return Receipt{}, err
	}
	notes, err := s.scope.ownNotes(objs[len(keys)+2:])
	if err != nil {
		return Receipt{}, err
	}
	d, objs = s.labelled(d, now), objs[:len(keys)]
	for i, o := range slices.Concat(near.objs, []Object{objs[1], objs[3]}) {
		if o.Revision > 0 && !slices.Contains(near.damaged, i) {
			s.remember(o)
		}
	}
	known, err := s.claimOf(ctx, objs[1])
	if err != nil {
		return Receipt{}, err
	}
	if w := notes.of(&d.Content); w != nil {
		switch vouched, err := s.vouched(ctx, &known); {
		case err != nil:
			return Receipt{}, err
		case !vouched:
			if err := s.living(ctx, notes); err != nil {
				return Receipt{}, err
			}
			w = notes.of(&d.Content)
			if d, err = s.disown(ctx, d, claim, objs[3], w); err != nil {
				return Receipt{}, err
			}
			r, err := s.put(ctx, d, claim, ident)
			r.Reason = firstNonEmpty(r.Reason, ownWriteReason)
			return r, err
		}
	}
	if d.alike, err = s.alikeIn(ctx, &d.Content, &known, near, d.Exact, d.speakers()); err != nil {
		return Receipt{}, err
	}
	switch unheard, err := s.onlyUnheard(ctx, &d, &known, revoked); {
	case err != nil:
		return Receipt{}, err
	case unheard: // what the source said before, it says no more
		if err := s.outdate(ctx, &d, claim, objs[3]); err != nil {
			return Receipt{}, err
		}
	}
	if objs[0].Data != nil {
		holder, err := s.heads(ctx, []ID{ID(objs[0].Data)})
		if err != nil {
			return Receipt{}, err
		}
		// An erasure that is made good for when its key is gone cannot tell what the
		// identity of the row was, and leaves it.
		if !holder[0].Has(FlagErased) {
			r, err := s.again(ctx, d, holder[0], objs[2], now)
			if !unreadable(err) || !s.lost(ctx, &holder[0]) {
				return r, err
			}
			// What the row said is lost, and nobody held anything against it: it is said anew.
		}
	}
	if objs[1].Data != nil && !d.Origin.External() {
		return s.collapse(ctx, d, known.holder(), objs[2], now)
	}

	above := append(slices.Clone(parents), d.SelectedBy...)
	var quoted *Head
	if d.Quotes != "" {
		if quoted, err = s.quoted(objs[len(objs)-1], d.Quotes); err != nil {
			return Receipt{}, err
		}
		switch full, err := s.full(ctx, d.Quotes); {
		case err != nil:
			return Receipt{}, err
		case full:
			return s.overflow(ctx, d, *quoted, now)
		}
	}
	heads, err := decodeHeads(objs[4:4+len(above)], above)
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
	return s.create(ctx, d, claim, known, objs, heads[:len(parents)], quoted, now, nil)
}

// repeats reports whether a draft is of a source that may repeat what a call set.
func (d *Draft) repeats() bool {
	return d.State == StateVerified && d.Origin != OriginUserAsserted && d.Content.Typed()
}

// speakers are the groups whose word is to verify a draft.
func (d *Draft) speakers() []string {
	if !d.repeats() {
		return nil
	}
	groups := supporters(d.Evidence)
	if by := d.Asserter.Group(); !slices.Contains(groups, by) {
		groups = append(groups, by)
	}
	return groups
}

// tokens are the claim and the identity of a draft.
func (s *scope) tokens(d *Draft) (claim, ident Token) {
	key := d.claimKey()
	k := d.identityKey(key)
	return s.claim(key), s.blind("identity", string(k[:]))
}

// classOf is the class of a row: of the subjects of its parents and of what it quotes,
// and its own.
func (t *transaction) classOf(d Draft, parents []Head, quoted *Head) Class {
	classes := make([]Class, 0, len(parents)+1)
	if quoted != nil {
		classes = append(classes, quoted.Class)
	}
	for i := range parents {
		if !slices.Contains(classes, parents[i].Class) {
			classes = append(classes, parents[i].Class)
		}
	}
	return t.classFor(classes, d.subjects())
}

// subjects are whom the row is about, by exact name: those that the draft names, the
// subject of its triple, and the person who asserts it.
func (d *Draft) subjects() []string {
	var out []string
	add := func(name string) {
		if name = ExactName(name); name != "" && !slices.Contains(out, name) {
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

// create writes a row that no identity holds yet, if what it is sure of is so. puts go with
// one that is verified.
func (s *Store) create(ctx context.Context, d Draft, claim Token, known claimRecord, objs []Object, parents []Head, quoted *Head, now time.Time, sure []Check, puts ...Put) (Receipt, error) {
	tx := s.begin(ctx, now)
	for _, c := range sure {
		tx.check(c.Key, c.Revision)
	}
	w, err := tx.row(d, claim, known, objs, parents, quoted, nil)
	if err != nil {
		return Receipt{}, err
	}
	if w.State == StateVerified {
		for _, p := range puts {
			tx.put(p)
		}
	}
	if err := tx.commit(headKey.of(w.ID), 1, w.nonce); err != nil {
		return Receipt{}, err
	}
	return w.Receipt, nil
}

// written is a row that a transaction puts.
type written struct {
	Receipt
	head  Head
	nonce string // of its entry
}

// row puts a row that no identity holds yet. objs are its identity and its claim, and
// of a row that may be verified the corroboration record of the claim and the line;
// quoted is the row that it quotes, if it does; from is set if it comes from another
// store. What it refuses has put nothing.
func (t *transaction) row(d Draft, claim Token, known claimRecord, objs []Object, parents []Head, quoted *Head, from *Imported) (written, error) {
	s, ctx, now := t.store, t.ctx, t.now
	closure, err := s.closureOf(ctx, parents)
	if err != nil {
		return written{}, err
	}
	class := t.classOf(d, parents, quoted)
	if t.err != nil {
		return written{}, t.err
	}
	id := ID(s.newID(idPrefix, now))
	h := newHead(id, d, closure, now)
	h.Commitment, h.Claim, h.Group, h.Class = s.commitment(d.Content), claim, s.scope.group(d.Asserter.Group()), class
	j, err := t.birth(d, h, &known, parents, closure)
	if err != nil {
		return written{}, err
	}
	if len(objs) > 3 {
		j.line = objs[3]
	}
	j.Quoted, j.Imported = quoted, from
	if j.Wanted == StateVerified {
		if err := j.gatherBirth(ctx, d.Asked); err != nil {
			return written{}, err
		}
	}
	v := Judge(j.Facts)
	if v.Err != nil {
		return written{}, v.Err
	}
	h = v.Next
	verified := h.Truth == TruthSupported
	for _, p := range parents { // what is being erased has no new children
		t.check(headKey.of(p.ID), p.Revision)
	}
	if quoted != nil {
		t.check(headKey.of(quoted.ID), quoted.Revision)
	}
	if d.State == StateVerified {
		t.check(revokedKey, j.revoked.Revision)
	}
	t.affect(j.rivals, v.Line, d.Asserter.Principal)
	if h.Truth != TruthSuperseded {
		if err := t.enter(j, id, verified); err != nil {
			return written{}, err
		}
	}
	known.join(id, verified, j.kept)

	nonce, state := newNonce(), h.stateOnce(1)
	entry := AuditEntry{Kind: EntryWrite, Row: id, Revision: 1, At: now, Actor: d.Asserter.Principal, Authority: AuthoritySystem,
		Source: d.Asserter.Group(), Reason: firstNonEmpty(v.Reason, "written as "+d.Origin.String()), Axis: AxisTruth,
		To: state.String(), Nonce: nonce}
	if from != nil {
		entry.Kind, entry.Actor, entry.Source, entry.Reason = EntryImport, from.actor, from.source, from.note()
	}
	says := newBody(d)
	t.put(Put{Key: bodyKey.of(id), Data: t.seal(class, bodyKey.of(id), 0, says.encode()), Add: s.bodyTerms(d, &h, dedupe(d.DerivedFrom))})
	if len(d.Evidence) > 0 {
		evidence := mergeEvidence(nil, j.said())
		if v.Voids {
			evidence, _ = voidSupports(evidence)
		}
		t.head(Head{ID: id}, h, &d.Content, entry, t.evidence(&h, evidenceObject{}, voidsNothing, evidence))
	} else {
		t.head(Head{ID: id}, h, &d.Content, entry, change{})
	}
	switch {
	case d.Quotes != "", h.Truth == TruthSuperseded, h.Layer == LayerWorking: // nobody is asked about it
	case verified && !h.Has(FlagOwnWord):
		t.dueAbout(&h, Object{}, due{Reason: dueAgain, About: s.scope.about(d.Content)}, h.StaleAt)
	default:
		t.dueAbout(&h, Object{}, due{Reason: "written " + state.String(), About: s.scope.about(d.Content)}, now)
	}
	t.put(Put{Key: objs[0].Key, From: objs[0].Revision, Data: []byte(id)})
	if verified {
		if err := t.lift(j, claim, v.Clears); err != nil {
			return written{}, err
		}
	}
	if v.Clears {
		known.Rejection, known.Rejected = nil, "" // a user with authority says so again, and wins
	}
	t.claim(objs[1].Key, objs[1].Revision, known)
	r := Receipt{ID: id, State: state, Revision: 1, Disposition: Created, Reason: v.Reason}
	h.Revision = 1
	return written{Receipt: r, head: h, nonce: nonce}, t.err
}

// birth gathers what is known of a row that is to be written.
func (t *transaction) birth(d Draft, h Head, known *claimRecord, parents []Head, closure []ID) (*judging, error) {
	s := t.store
	j := &judging{store: s, known: known, Facts: Facts{Event: EventWritten, Now: t.now, Row: h, Content: d.Content, Said: d.Evidence,
		Wanted: d.State, LineageUnknown: d.LineageUnknown, Parents: parents, Actor: d.Asserter.Principal, Asserter: d.Asserter.Group(), Repeats: d.ours}}
	if d.Origin == OriginUserAsserted {
		j.By = AuthorityUser
	}
	if d.ours { // it asked to be verified
		j.Wanted = StateVerified
	}
	j.whoMoves()
	j.spelled(d.alike)
	j.registered()
	j.Mute = !s.registry.speaks(d.Content.Predicate, d.Asserter.Group())
	var err error
	if j.Reach, err = s.reach(t.ctx, known, "", d.Content); err != nil || j.Wanted != StateVerified {
		return j, err
	}
	if j.revoked, err = s.knownRevocations(t.ctx); err != nil {
		return nil, err
	}
	j.Revoked = j.revoked.refuse(d.Evidence)
	if j.unborn() == "" {
		j.Kin.Ancestors, err = s.heads(t.ctx, closure)
	}
	return j, err
}

// gatherBirth reads what matters for a row that is written as verified.
func (j *judging) gatherBirth(ctx context.Context, asked LineMark) (err error) {
	if j.unborn() != "" {
		return nil
	}
	if j.By != AuthorityUser {
		if err := j.readAgainst(ctx); err != nil {
			return err
		}
	}
	if j.unborn() != "" {
		return nil
	}
	rank := RankTool
	if j.By == AuthorityUser {
		rank = RankUser
	}
	if err := j.beside(ctx, rank, asked); err != nil {
		return err
	}
	return j.room(ctx)
}

// commitment is the token of an exact content.
func (s *scope) commitment(c Content) Token {
	k := c.Hash()
	return s.blind("content", string(k[:]))
}

// stateOnce is State for a head about to be written at a revision.
func (h Head) stateOnce(revision uint64) State {
	h.Revision = revision
	return h.State()
}

// newHead is the head of a draft, without what [Judge] decides about it.
func newHead(id ID, d Draft, closure []ID, now time.Time) Head {
	window := d.CheckEvery
	if window == 0 {
		window = DefaultCheckEvery
	}
	h := Head{
		ID: id, Origin: d.Origin, Sensitivity: d.Sensitivity, Criticality: d.Criticality,
		Kind: d.Kind, Layer: d.Layer, CreatedAt: now, StaleAt: now.Add(window), ExpiresAt: now.Add(window * expiryFactor),
		ValidFrom: d.ValidFrom, ValidUntil: d.ValidUntil,
	}
	if h.Kind == 0 {
		h.Kind = KindRaw
	}
	if h.Criticality == 0 {
		h.Criticality = CriticalityCritical
	}
	if len(closure) <= MaxInlineClosure {
		h.ancestors = packIDs(closure)
		return h
	}
	h.Flags |= FlagTraced
	if direct := dedupe(d.DerivedFrom); len(direct) <= MaxInlineClosure {
		h.ancestors = packIDs(direct)
	}
	return h
}

func newBody(d Draft) body {
	var exact uint8
	if d.Exact {
		exact = 1
	}
	return body{Exact: exact,
		Content: d.Content, Origin: d.Origin, Asserter: d.Asserter, DerivedFrom: dedupe(d.DerivedFrom), SelectedBy: dedupe(d.SelectedBy),
		Anchor: d.Anchor, ValueConfidence: d.ValueConfidence, ValidTimeConfidence: d.ValidTimeConfidence,
		ValidFrom: d.ValidFrom.UTC(), ValidUntil: d.ValidUntil.UTC(), CheckEvery: d.CheckEvery,
		Source: firstNonEmpty(d.Source, "explicit"), Category: d.Category, Run: d.Run, Subjects: d.Subjects,
		Supersedes: d.Supersedes, Quotes: d.Quotes, DeclaredFrom: dedupe(d.DeclaredFrom), AgentVersion: d.AgentVersion, Task: d.Task,
		Purpose: d.Purpose, DataClass: d.DataClass, Domains: d.Domains, SaidAt: d.SaidAt.UTC(), ValidFromGrain: d.ValidFromGrain,
		ValidUntilGrain: d.ValidUntilGrain, ValidFromConfidence: d.ValidFromConfidence, ValidUntilConfidence: d.ValidUntilConfidence, Foreign: d.Foreign,
	}
}

// bodyTerms are what a row is found by. They are a function of what is stored.
func (s *scope) bodyTerms(d Draft, h *Head, parents []ID) []Term {
	at := newestFirst(h.CreatedAt)
	var words []string
	if d.Quotes == "" { // else it is found by its claim
		words = searchWords(d.Content)
	}
	terms := append(make([]Term, 0, 12+len(parents)+len(words)), []Term{{termRow, at}, {s.termClaim(h.Claim), at}, {s.termBy(d.Asserter.Group()), at}, {termClass(h.Class), at}}...)
	if d.Asserter.Model != "" {
		terms = append(terms, Term{s.termModel(d.Asserter.Model), at})
	}
	if d.Content.Typed() {
		terms = append(terms, Term{s.termLine(d.Content), at})
	}
	if d.Run != "" {
		terms = append(terms, Term{s.termRun(d.Run), at})
	}
	terms = append(terms, s.alikeTerms(&d)...)
	for _, p := range parents {
		terms = append(terms, Term{termChild(p), uint64(h.CreatedAt.UnixMicro())})
	}
	if d.Quotes != "" {
		terms = append(terms, Term{termQuotes(d.Quotes), at})
	}
	for _, w := range words {
		terms = append(terms, Term{s.termWord(w), at})
	}
	return terms
}

// again handles an identity that a row has already.
func (s *Store) again(ctx context.Context, d Draft, row Head, echo Object, now time.Time) (Receipt, error) {
	if !d.Origin.External() {
		return s.said(ctx, &d, row, echo, now)
	}
	if d.State != StateVerified {
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
	says, err := s.saysAgain(ctx, &d, &row)
	if err != nil {
		return Receipt{}, err
	}
	h, err := s.Apply(ctx, Transition{Row: row.ID, Revision: row.Revision, To: TruthSupported, Authority: authority, Asked: d.Asked, again: says, exact: d.Exact,
		Actor: d.Asserter.Principal, Source: d.Asserter.Group(), Reason: "said again by its own first-hand source", Evidence: evidence})
	if err == nil && h.Freshness != FreshnessFresh { // it was noted to be stale; the axes are moved one by one
		h, err = s.Apply(ctx, Transition{Row: row.ID, Revision: h.Revision, To: FreshnessFresh, Authority: authority,
			Actor: d.Asserter.Principal, Source: d.Asserter.Group(), Reason: "said again by its own first-hand source"})
	}
	switch {
	case err == nil:
		return Receipt{ID: row.ID, State: h.State(), Revision: h.Revision, Disposition: Reaffirmed}, nil
	case errors.Is(err, ErrInsufficient), errors.Is(err, ErrRevoked), errors.Is(err, ErrContested), errors.Is(err, ErrNoAuthority), errors.Is(err, ErrRejected), errors.Is(err, ErrIllegalMove), errors.Is(err, ErrOvertaken):
		// The word of its own source does not lift what took the state away.
		r, echoErr := s.echo(ctx, d.Asserter, d.Run, row, echo, "", now)
		r.Reason = plain(err)
		return r, echoErr
	}
	return Receipt{}, err
}

// saysAgain reports whether the word of a first-hand source counts for a row that is not
// verified now as it would for a new one (I-16).
func (s *Store) saysAgain(ctx context.Context, d *Draft, row *Head) (bool, error) {
	f := Facts{Event: EventSaidAgain, Now: s.Now(), Row: *row, Asserter: d.Asserter.Group()}
	f.Row.Origin, f.Row.Group = d.Origin, s.scope.group(f.Asserter)
	if row.Truth == TruthContradicted && d.Origin == OriginFirstHand {
		objs, err := s.get(ctx, evidKey.of(row.ID))
		if err != nil {
			return false, err
		}
		have, err := s.evidenceOf(ctx, row, objs[0])
		if err != nil {
			return false, err
		}
		f.Standing = have.list
	}
	if Judge(f).Err != nil {
		return false, nil
	}
	if len(d.DerivedFrom) > 0 {
		closure, err := s.Closure(ctx, d.DerivedFrom...)
		if err != nil {
			return false, err
		}
		if f.Parents, err = s.heads(ctx, append(closure, d.DerivedFrom...)); err != nil {
			return false, err
		}
	}
	return Judge(f).Err == nil, nil
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
	return s.retryInTurn(ctx, string(row), func() (Receipt, error) {
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
	return s.said(ctx, &d, heads[0], record, now)
}

// said is a claim that a model makes and a row has: evidence, if a model of another family
// says it by itself for the first time, and else an echo.
func (s *Store) said(ctx context.Context, d *Draft, row Head, record Object, now time.Time) (Receipt, error) {
	e := Evidence{Relation: RelationSupports, Rank: RankModel, Kind: SourceKindModel, Source: d.Asserter.Model, Verifier: "unasked", Group: d.Asserter.Group(),
		Anchor: Anchor{URI: "unasked:" + d.Asserter.Group()}, DerivedFrom: dedupe(d.DerivedFrom), At: now}
	switch its, err := s.byItself(ctx, d, row, &e); {
	case err != nil:
		return Receipt{}, err
	case !its:
		return s.echo(ctx, d.Asserter, d.Run, row, record, "", now)
	}
	err := s.AddEvidence(ctx, row.ID, d.Asserter.Principal, "a model of another family says so by itself", e)
	if errors.Is(err, ErrRevoked) {
		return s.echo(ctx, d.Asserter, d.Run, row, record, "", now)
	}
	if err != nil {
		return Receipt{}, err
	}
	r := collapsed(row)
	r.Corroborated, r.Reason = true, "the claim is already stored; that a model of another family says so by itself is kept, and verifies nothing"
	return r, nil
}

// byItself reports whether a draft corroborates a row independently. Its model states the
// same claim for the first time, its family is none of those that the row came from, and
// the two share no source.
func (s *Store) byItself(ctx context.Context, d *Draft, row Head, e *Evidence) (bool, error) {
	if d.Origin != OriginModelDerived || row.Origin.External() || d.LineageUnknown || d.Quotes != "" || row.Has(FlagErased) || row.Commitment != s.commitment(d.Content) {
		return false, nil
	}
	objs, err := s.get(ctx, evidKey.of(row.ID))
	if err != nil {
		return false, unlessUnknown(err)
	}
	have, err := s.evidenceOf(ctx, &row, objs[0])
	if err != nil {
		return false, unlessUnknown(err)
	}
	if slices.ContainsFunc(have.list, func(h Evidence) bool { return fold(h.Group) == fold(e.Group) }) {
		return false, nil // it was heard before
	}
	on := *e
	on.DerivedFrom = dedupe(append(slices.Clone(d.DerivedFrom), d.SelectedBy...))
	kin, err := s.kin(ctx, row, []Evidence{on})
	if err != nil || dependent(kin, &on) != "" {
		return false, unlessUnknown(err)
	}
	for _, h := range kin.EvidenceLineage[on.ID()] {
		if slices.ContainsFunc(kin.Ancestors, func(a Head) bool { return a.ID == h.ID }) {
			return false, nil // both were told it
		}
	}
	return true, nil
}

// unlessUnknown is an error, unless all that it says is that the past of a row is not known.
func unlessUnknown(err error) error {
	if isErased(err) || unreadable(err) || errors.Is(err, ErrClosureTooLarge) {
		return nil
	}
	return err
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
func (t *transaction) echo(by Asserter, run string, row Head, record Object, wording string, n int) (nonce string, err error) {
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
