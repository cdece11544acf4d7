package memory

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options of a [Store]. Every zero field has a usable default.
type Options struct {
	// Tenant is the scope of the store: no call reads or writes another tenant's
	// rows. "" = "default".
	Tenant string
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
	tenant    string
	clock     func() time.Time
	authority func(principal, subject, predicate string) bool

	mu   sync.Mutex
	seq  uint16
	last int64
}

// New returns a Store over a driver. The store owns the driver: Close closes it.
func New(d Driver, o *Options) *Store {
	s := &Store{driver: d, tenant: "default", clock: time.Now, authority: OwnSubject}
	if o != nil {
		if o.Tenant != "" {
			s.tenant = o.Tenant
		}
		if o.Clock != nil {
			s.clock = o.Clock
		}
		if o.Authority != nil {
			s.authority = o.Authority
		}
	}
	return s
}

// Close closes the driver. Later calls give [ErrClosed].
func (s *Store) Close() error { return s.driver.Close() }

// Now is the store's clock, in UTC, to the microsecond.
func (s *Store) Now() time.Time { return s.clock().UTC().Truncate(time.Microsecond) }

// Tenant is the scope of the store.
func (s *Store) Tenant() string { return s.tenant }

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

// Keys of the objects a row is made of. Heat, echoes, evidence and due marks are
// objects of their own, so that they conflict with nothing and move no fitness
// version.
const (
	headKey = "head/"
	bodyKey = "body/"
	evidKey = "evid/"
	dueKey  = "due/"
	heatKey = "heat/"

	epochKey    = "sys/epoch"
	decisionKey = "decision/"
)

func identKey(k Key) string { return "ident/" + string(k[:]) }
func claimKey(k Key) string { return "claim/" + string(k[:]) }
func echoKey(k Key) string  { return "echo/" + string(k[:]) }
func lineKey(k Key) string  { return "line/" + string(k[:]) }

func termState(v State) string { return "state=" + v.String() }
func termClaim(k Key) string   { return "claim=" + string(k[:]) }
func termLine(k Key) string    { return "line=" + string(k[:]) }

const (
	termRow      = "row"
	termDue      = "due"
	termParked   = "parked"
	termDecision = "decision"
)

// newestFirst sorts the carriers of a term by descending time.
func newestFirst(t time.Time) uint64 { return math.MaxUint64 - uint64(t.UnixMicro()) }

// body is the immutable part of a row.
type body struct {
	Content             Content       `json:"content"`
	Origin              Origin        `json:"origin"`
	Asserter            Asserter      `json:"asserter"`
	DerivedFrom         []ID          `json:"derived_from,omitempty"`
	SelectedBy          []ID          `json:"selected_by,omitempty"`
	Anchor              string        `json:"anchor,omitempty"`
	ValueConfidence     float64       `json:"value_confidence"`
	ValidTimeConfidence float64       `json:"valid_time_confidence"`
	ValidFrom           time.Time     `json:"valid_from,omitzero"`
	ValidUntil          time.Time     `json:"valid_until,omitzero"`
	CheckEvery          time.Duration `json:"check_every,omitempty"`
	Source              string        `json:"source"`
	Category            string        `json:"category,omitempty"`
	Run                 string        `json:"run,omitempty"`
	Depth               uint32        `json:"depth"`
	Identity            string        `json:"identity"`
}

// claimRecord is what is known of a claim key, whatever rows carry it.
type claimRecord struct {
	First     ID         `json:"first"`
	Rejection *Rejection `json:"rejection,omitempty"`
}

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

// commit applies a batch whose log entry at (key, revision) holds nonce. A
// driver may have applied a batch although it reported an error or, having sent
// it twice, a conflict against itself: the history tells.
func (s *Store) commit(ctx context.Context, b Batch, key string, revision uint64, nonce string) error {
	err := s.driver.Apply(ctx, s.tenant, b)
	if err == nil || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalidBatch) || errors.Is(err, ErrClosed) {
		return err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	log, lookErr := s.driver.History(look, s.tenant, key, revision-1, 1)
	if lookErr == nil && len(log) == 1 && log[0].Revision == revision {
		var e AuditEntry
		if json.Unmarshal(log[0].Data, &e) == nil && e.Nonce == nonce {
			return nil
		}
	}
	return err
}

func (s *Store) get(ctx context.Context, keys ...string) ([]Object, error) {
	return s.driver.Get(ctx, s.tenant, keys)
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
	return retry(ctx, func() (Receipt, error) { return s.put(ctx, d) })
}

func (s *Store) put(ctx context.Context, d Draft) (Receipt, error) {
	now := s.Now()
	claim, ident := d.Content.ClaimKey(), d.Content.IdentityKey(d.Anchor)
	parents := dedupe(d.DerivedFrom)
	keys := []string{identKey(ident), claimKey(claim), echoKey(claim)}
	for _, p := range parents {
		keys = append(keys, headKey+string(p))
	}
	for _, p := range d.SelectedBy {
		keys = append(keys, headKey+string(p))
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return Receipt{}, err
	}
	known, err := decodeClaim(objs[1])
	if err != nil {
		return Receipt{}, err
	}
	if objs[0].Revision > 0 {
		return s.again(ctx, d, ID(objs[0].Data), objs[2], now)
	}
	if objs[1].Revision > 0 && !d.Origin.External() {
		return s.collapse(ctx, d, known.First, objs[2], now)
	}

	heads, err := decodeHeads(objs[3:], append(slices.Clone(parents), d.SelectedBy...))
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
	}
	return s.create(ctx, d, known, objs, heads[:len(parents)], now)
}

// create writes a row that no identity holds yet.
func (s *Store) create(ctx context.Context, d Draft, known claimRecord, objs []Object, parents []Head, now time.Time) (Receipt, error) {
	claim, ident := d.Content.ClaimKey(), d.Content.IdentityKey(d.Anchor)
	closure, err := s.closureOf(ctx, parents)
	if err != nil {
		return Receipt{}, err
	}
	state, reason := d.State, ""
	if state == StateVerified {
		switch {
		case d.Origin == OriginUserAsserted && !s.authority(d.Asserter.Principal, d.Content.Subject, d.Content.Predicate):
			state, reason = StateUnverified, "the principal has no authority over this subject"
		case known.Rejection != nil && d.Origin != OriginUserAsserted:
			state, reason = StateUnverified, "a user rejected this claim"
		default:
			if reason, err = s.ownWord(ctx, d, claim, closure); err != nil {
				return Receipt{}, err
			}
			if reason != "" {
				state = StateUnverified
			}
		}
	}

	id := ID(s.newID(idPrefix, now))
	h := newHead(id, d, state, parents, closure, now)
	tx := batch{}
	if state == StateVerified {
		h.Rank = RankTool
		if d.Origin == OriginUserAsserted {
			h.Rank = RankUser
		}
		if err := s.settle(ctx, &tx, &h, d.Content, d.Evidence, d.Asserter.Principal, now); err != nil {
			return Receipt{}, err
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
		To: state.String(), Evidence: d.Evidence, Nonce: nonce}
	tx.head(Head{ID: id}, h, entry)
	tx.put(Put{Key: bodyKey + string(id), Data: mustJSON(newBody(d, h.Depth, ident)), Add: bodyTerms(d, parents, claim, now)})
	if len(d.Evidence) > 0 {
		evidence := mergeEvidence(nil, d.Evidence)
		if h.Truth != TruthSupported { // what did not verify the row now does not do so later
			evidence, _ = voidSupports(evidence)
		}
		tx.put(Put{Key: evidKey + string(id), Data: mustJSON(evidence)})
	}
	if h.Truth == TruthSupported {
		tx.due(id, Object{}, due{Reason: "to be checked again"}, h.StaleAt)
	} else {
		tx.due(id, Object{}, due{Reason: "written " + state.String()}, now)
	}
	tx.put(Put{Key: identKey(ident), Data: []byte(id)})
	if objs[1].Revision == 0 {
		tx.put(Put{Key: claimKey(claim), Data: mustJSON(claimRecord{First: id})})
	} else if known.Rejection != nil && h.Truth == TruthSupported {
		known.Rejection = nil // a user with authority says so again, and wins
		tx.put(Put{Key: claimKey(claim), From: objs[1].Revision, Data: mustJSON(known)})
	} else {
		tx.check(claimKey(claim), objs[1].Revision)
	}
	if err := s.commit(ctx, tx.Batch, headKey+string(id), 1, nonce); err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: id, State: h.stateOnce(1), Revision: 1, Disposition: Created, Reason: reason}, nil
}

// ownWord says why a draft is not independent enough of its lineage to be born
// verified, or "": a source that was fed the claim, or its own earlier output,
// says nothing new (I-4).
func (s *Store) ownWord(ctx context.Context, d Draft, claim Key, closure []ID) (string, error) {
	above, err := s.heads(ctx, closure)
	if err != nil {
		return "", err
	}
	for _, h := range above {
		switch {
		case h.Claim == claim:
			return "the claim rests on itself", nil
		case d.Origin != OriginUserAsserted && fold(h.Group) == fold(d.Asserter.Group()):
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
		ValidUntil: d.ValidUntil, ContentHash: d.Content.Hash(), Claim: d.Content.ClaimKey(), Group: d.Asserter.Group(),
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

func newBody(d Draft, depth uint32, ident Key) body {
	return body{
		Content: d.Content, Origin: d.Origin, Asserter: d.Asserter, DerivedFrom: dedupe(d.DerivedFrom), SelectedBy: dedupe(d.SelectedBy),
		Anchor: d.Anchor, ValueConfidence: d.ValueConfidence, ValidTimeConfidence: d.ValidTimeConfidence,
		ValidFrom: d.ValidFrom.UTC(), ValidUntil: d.ValidUntil.UTC(), CheckEvery: d.CheckEvery,
		Source: firstNonEmpty(d.Source, "explicit"), Category: d.Category, Run: d.Run, Depth: depth, Identity: ident.String(),
	}
}

func bodyTerms(d Draft, parents []Head, claim Key, now time.Time) []Term {
	at := newestFirst(now)
	terms := []Term{{termRow, at}, {termClaim(claim), at}, {"by=" + d.Asserter.Group(), at}}
	if d.Asserter.Model != "" {
		terms = append(terms, Term{"model=" + d.Asserter.Model, at})
	}
	if d.Content.Typed() {
		terms = append(terms, Term{termLine(d.Content.lineKey()), at})
	}
	if d.Run != "" {
		terms = append(terms, Term{"run=" + d.Run, at})
	}
	for _, p := range parents {
		terms = append(terms, Term{"child=" + string(p.ID), uint64(now.UnixMicro())})
	}
	for _, w := range searchWords(d.Content) {
		terms = append(terms, Term{"word=" + w, at})
	}
	return terms
}

// again handles an identity that is already there.
func (s *Store) again(ctx context.Context, d Draft, id ID, echo Object, now time.Time) (Receipt, error) {
	if !d.Origin.External() || d.State != StateVerified {
		return s.collapse(ctx, d, id, echo, now)
	}
	heads, err := s.heads(ctx, []ID{id})
	if err != nil {
		return Receipt{}, err
	}
	authority := AuthorityProbe
	if d.Origin == OriginUserAsserted {
		authority = AuthorityUser
	}
	evidence := slices.Clone(d.Evidence)
	for i := range evidence { // what the draft was made from, its evidence rests on
		evidence[i].DerivedFrom = dedupe(append(slices.Clone(evidence[i].DerivedFrom), d.DerivedFrom...))
	}
	h, err := s.Apply(ctx, Transition{Row: id, Revision: heads[0].Revision, To: TruthSupported, Authority: authority,
		Actor: d.Asserter.Principal, Source: d.Asserter.Group(), Reason: "said again by its own first-hand source", Evidence: evidence})
	switch {
	case err == nil:
		return Receipt{ID: id, State: h.State(), Revision: h.Revision, Disposition: Reaffirmed}, nil
	case errors.Is(err, ErrInsufficient), errors.Is(err, ErrContested), errors.Is(err, ErrNoAuthority), errors.Is(err, ErrRejected), errors.Is(err, ErrIllegalMove):
		// The word of its own source does not lift what took the state away.
		r, echoErr := s.collapse(ctx, d, id, echo, now)
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
		objs, err := s.get(ctx, echoKey(heads[0].Claim))
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
	var e Echoes
	if record.Data != nil {
		if err := json.Unmarshal(record.Data, &e); err != nil {
			return Receipt{}, fmt.Errorf("%w: corroboration record", ErrStore)
		}
	} else {
		e.First = now
	}
	e.Count++
	if wording != "" {
		e.Reworded++
	}
	e.Last = now
	nonce := newNonce()
	entry := AuditEntry{Kind: EntryEcho, Row: row.ID, Revision: record.Revision + 1, At: now, Actor: by.Principal, Authority: AuthoritySystem,
		Source: by.Group(), Reason: "the claim came back", Wording: wording, Run: run, Nonce: nonce}
	b := Batch{Puts: []Put{{Key: record.Key, From: record.Revision, Data: mustJSON(e), Entry: mustJSON(entry)}}}
	if err := s.commit(ctx, b, record.Key, record.Revision+1, nonce); err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: row.ID, State: row.State(), Revision: row.Revision, Disposition: Collapsed,
		Reason: "the claim is already stored; reading it back adds nothing"}, nil
}

func (s *Store) heads(ctx context.Context, ids []ID) ([]Head, error) {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = headKey + string(id)
	}
	objs, err := s.get(ctx, keys...)
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
			return nil, fmt.Errorf("%w: %w", ErrStore, err)
		}
	}
	return heads, nil
}

func decodeClaim(o Object) (claimRecord, error) {
	var c claimRecord
	if o.Data == nil {
		return c, nil
	}
	if err := json.Unmarshal(o.Data, &c); err != nil {
		return c, fmt.Errorf("%w: claim record", ErrStore)
	}
	return c, nil
}

// mustJSON marshals a value of this package. Every field was checked on the way
// in, so a failure is a programming error.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("memory: " + err.Error())
	}
	return b
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

// batch composes one atom.
type batch struct{ Batch }

func (t *batch) check(key string, revision uint64) {
	t.Checks = append(t.Checks, Check{Key: key, Revision: revision})
}

func (t *batch) put(p Put) { t.Puts = append(t.Puts, p) }

// head moves a head and its state term, with the audit entry in the same atom (I-6).
func (t *batch) head(old, next Head, e AuditEntry) {
	p := Put{Key: headKey + string(next.ID), From: old.Revision, Data: next.encode(), Entry: mustJSON(e)}
	was, is := old.State(), next.stateOnce(old.Revision+1)
	if was != is {
		if was != 0 {
			p.Remove = []string{termState(was)}
		}
		p.Add = []Term{{termState(is), newestFirst(next.CreatedAt)}}
	}
	t.put(p)
}

// due is the mark of a row that wants a check.
type due struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	Parked bool      `json:"parked,omitempty"`
	Tries  int       `json:"tries,omitempty"` // verdicts asked for since the last move
}

func (t *batch) due(id ID, old Object, d due, at time.Time) {
	d.At = at
	p := Put{Key: dueKey + string(id), From: old.Revision, Data: mustJSON(d)}
	if d.Parked {
		p.Remove, p.Add = []string{termDue}, []Term{{termParked, 0}}
	} else {
		p.Remove, p.Add = []string{termParked}, []Term{{termDue, uint64(at.UnixMicro())}}
	}
	if old.Revision == 0 {
		p.Remove = nil // it carries nothing yet
	}
	t.put(p)
}

func (t *batch) notDue(id ID, old Object) {
	if old.Data != nil {
		t.put(Put{Key: dueKey + string(id), From: old.Revision, Remove: []string{termDue, termParked}})
	}
}
