package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// RevokedKind says what a revocation is of. The zero value is none.
type RevokedKind uint8

// The kinds of what can be revoked: what a piece of evidence names.
const (
	_               RevokedKind = iota
	RevokedVerifier             // who asked: Evidence.Verifier
	RevokedSource               // who was asked: Evidence.Source
	RevokedDocument             // what it rests on: Evidence.Anchor.URI, and its version if the revocation names one
)

var revokedKindEnum = enum[RevokedKind]{"kind", []string{"", "verifier", "source", "document"}}

// String returns verifier, source or document, or "unset".
func (k RevokedKind) String() string { return revokedKindEnum.text(k) }

// MarshalText returns the same; an unset kind is an error.
func (k RevokedKind) MarshalText() ([]byte, error) { return revokedKindEnum.marshal(k) }

// UnmarshalText accepts exactly the names.
func (k *RevokedKind) UnmarshalText(b []byte) error { return revokedKindEnum.unmarshal(k, b) }

// ErrRevoked: the evidence is of a verifier, source or document that was revoked.
// Nothing was written.
var ErrRevoked = errors.New("memory: revoked")

// ErrUnwalked: rows may still rest on what was revoked, so that it cannot be reinstated
// yet. [Store.WalkRevocations] looks at them. Nothing was written.
var ErrUnwalked = errors.New("memory: not every row was held against the revocation")

// MaxRevocations is how many revocations a store holds.
const MaxRevocations = 1000

// Revocation says that a verifier, a source or a document is not to be believed:
// what it said at Since or later counts no more. Names are compared byte by byte. One
// that was mended comes back under another name, or, a document, with another version,
// or it is reinstated: what it says from then on is heard again, and what it said
// before never is.
type Revocation struct {
	Kind    RevokedKind `json:"kind"`
	Name    string      `json:"name"`
	Version string      `json:"version,omitempty"` // of a document; "" = every version
	Since   time.Time   `json:"since"`
	By      string      `json:"by"`     // the principal
	Reason  string      `json:"reason"` // why, for people
	At      time.Time   `json:"at"`     // when it was acknowledged; set by the store
	// Walked says that every row was looked at since, and moved if it rested on what
	// was revoked. Until then readers hold the evidence of each row against it. Set by
	// the store.
	Walked bool `json:"walked"`
	// Reinstated ends the revocation; zero = it was not. Set by [Store.Reinstate], once.
	Reinstated Reinstatement `json:"reinstated,omitzero"`
}

// Reinstatement says that what was revoked is believed again, from At on. What was said
// in between counts no more, ever.
type Reinstatement struct {
	At     time.Time `json:"at"`     // set by the store: when it was acknowledged
	By     string    `json:"by"`     // the principal
	Reason string    `json:"reason"` // why, for people
}

func (r *Revocation) check() error {
	if err := revokedKindEnum.check(r.Kind); err != nil {
		return err
	}
	for _, f := range [...]struct{ name, value string }{{"name", r.Name}, {"by", r.By}, {"reason", r.Reason}} {
		if strings.TrimSpace(f.value) == "" {
			return invalid(f.name, "required", "a revocation says what is revoked, by whom and why")
		}
	}
	for _, f := range [...]struct{ name, value string }{{"name", r.Name}, {"version", r.Version}, {"by", r.By}, {"reason", r.Reason}} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	if r.Version != "" && r.Kind != RevokedDocument {
		return invalid("version", "conflict", "only a document has a version")
	}
	if r.Since.IsZero() {
		return invalid("since", "required", "from when on it is not to be believed")
	}
	return checkTime("since", r.Since)
}

// covers reports whether a piece of evidence is of what was revoked.
func (r *Revocation) covers(e *Evidence) bool {
	if e.At.Before(r.Since) || r.ended() && !e.At.Before(r.Reinstated.At) {
		return false
	}
	switch r.Kind {
	case RevokedVerifier:
		return e.Verifier == r.Name
	case RevokedSource:
		return e.Source == r.Name
	case RevokedDocument:
		return e.Anchor.URI == r.Name && (r.Version == "" || e.Anchor.Version == r.Version)
	}
	return false
}

// ended reports whether it was reinstated.
func (r *Revocation) ended() bool { return !r.Reinstated.At.IsZero() }

// of reports whether it is a revocation, which was not ended, of that and of nothing else.
func (r *Revocation) of(kind RevokedKind, name, version string) bool {
	return !r.ended() && r.Kind == kind && r.Name == name && r.Version == version
}

// revocations is the object that holds them all: one key, read in the gate's own
// trip.
type revocations struct {
	Object // as it was read
	prev   link
	list   []Revocation
	// damaged are rows that a verification found not to be what was written.
	damaged []ID
}

// revokedKey holds the revocations, and walkKey how far the walk over the rows is.
// The epoch is bumped in the transaction that adds a revocation, so that no permit decided
// before it is consumed after it (I-7).
var (
	revokedKey = systemKey.named("revoked")
	walkKey    = systemKey.named("revoking")
)

// revocationsOf decodes the object, unless it is the one that was decoded last.
func (s *Store) revocationsOf(o Object) (*revocations, error) {
	if last := s.revoked.Load(); last != nil && last.Revision == o.Revision && bytes.Equal(last.Data, o.Data) {
		s.looked.Store(time.Now().UnixNano())
		return last, nil
	}
	r := &revocations{Object: o}
	if o.Data != nil {
		rest, err := r.prev.decode(o.Data)
		if err != nil {
			return nil, faulty(err, "revocations")
		}
		plain, err := s.scope.revoked.Open(nil, nil, rest, s.scope.associated(o.Key, o.Revision))
		if err != nil {
			return nil, &DamagedError{Keys: []string{o.Key}}
		}
		d := decoder{b: plain}
		n := d.num()
		if n > MaxRevocations {
			return nil, faulty(errWire, "revocations")
		}
		r.list = make([]Revocation, n)
		for i := range r.list {
			v := &r.list[i]
			kind, marks := RevokedKind(d.byte()), d.byte()
			if marks > markWalked|markEnded {
				return nil, faulty(errWire, "revocations")
			}
			v.Kind, v.Walked, v.Since, v.At = kind, marks&markWalked != 0, d.time(), d.time()
			for _, s := range [...]*string{&v.Name, &v.Version, &v.By, &v.Reason} {
				*s = d.str()
			}
			if marks&markEnded != 0 {
				v.Reinstated = Reinstatement{At: d.time(), By: d.str(), Reason: d.str()}
			}
		}
		r.damaged = d.ids()
		if err := d.end(); err != nil {
			return nil, faulty(err, "revocations")
		}
	}
	s.revoked.Store(r)
	s.looked.Store(time.Now().UnixNano())
	return r, nil
}

// Marks of a revocation as it is stored.
const (
	markWalked = 1 << iota
	markEnded  // what ended it follows
)

// sealRevocations returns what the object holds at its revision after from. It is sealed under
// a key that is derived from the root of the keyring, and under no class: an erasure takes
// nothing from it, and every row is read by it.
func (s *scope) sealRevocations(from uint64, list []Revocation, damaged []ID) []byte {
	e := encoder{}
	e.num(uint64(len(list)))
	for i := range list {
		v := &list[i]
		marks := byte(0)
		if v.Walked {
			marks |= markWalked
		}
		if v.ended() {
			marks |= markEnded
		}
		e.byte(byte(v.Kind))
		e.byte(marks)
		e.time(v.Since)
		e.time(v.At)
		for _, s := range [...]string{v.Name, v.Version, v.By, v.Reason} {
			e.str(s)
		}
		if v.ended() {
			e.time(v.Reinstated.At)
			e.str(v.Reinstated.By)
			e.str(v.Reinstated.Reason)
		}
	}
	e.ids(damaged)
	return s.revoked.Seal(nil, nil, e.b, s.associated(revokedKey, from+1))
}

// knownRevocations are those that were read last. A transaction that relies on them checks
// that they are the present ones.
func (s *Store) knownRevocations(ctx context.Context) (*revocations, error) {
	if last := s.revoked.Load(); last != nil {
		return last, nil
	}
	objs, err := s.get(ctx, revokedKey)
	if err != nil {
		return nil, err
	}
	return s.revocationsOf(objs[0])
}

// open reports whether rows may still rest on what was revoked.
func (r *revocations) open() bool {
	return slices.ContainsFunc(r.list, func(v Revocation) bool { return !v.Walked })
}

// refuse gives [ErrRevoked] if a piece of evidence is of what was revoked.
func (r *revocations) refuse(evidence []Evidence) error {
	for i := range evidence {
		for j := range r.list {
			if v := &r.list[j]; v.covers(&evidence[i]) {
				return fmt.Errorf("%w: %s %s, by %s", ErrRevoked, v.Kind, clip(v.Name, 100), v.By)
			}
		}
	}
	return nil
}

// touched is the first revocation that standing evidence of a row falls under, or nil.
func (r *revocations) touched(evidence []Evidence) *Revocation {
	for i := range evidence {
		if evidence[i].Void {
			continue
		}
		for j := range r.list {
			if r.list[j].covers(&evidence[i]) {
				return &r.list[j]
			}
		}
	}
	return nil
}

// harm un-fits a verified row if support that may carry its rank was revoked.
// Whether what is left would do is for the walk to find out.
func (r *revocations) harm(h *Head, evidence []Evidence) {
	if h.Truth != TruthSupported {
		return
	}
	least := h.Rank
	if h.Rank == RankSecondModel {
		least = RankModel
	}
	for _, e := range evidence { // a quorum has its rank from its highest member, and stands on all of them
		if !e.Void && e.Relation == RelationSupports && e.Rank >= h.Rank && e.Quorum > 1 {
			least = min(least, RankTool)
		}
	}
	for i := range evidence {
		e := &evidence[i]
		carries := e.Rank >= least
		if e.Void || e.Relation != RelationSupports || !carries {
			continue
		}
		if r.refuse(evidence[i:i+1]) != nil {
			h.revoke()
			return
		}
	}
}

// revoke makes a head that was read one of a row that nothing verifies.
func (h *Head) revoke() { h.Truth, h.Rank, h.Flags = TruthUnverified, 0, h.Flags|FlagRevoked }

// unfit holds the heads of verified rows against open revocations. It costs nothing
// unless one is open, and then one more trip.
func (s *Store) unfit(ctx context.Context, heads []Head, o Object) error {
	r, err := s.revocationsOf(o)
	if err != nil {
		return err
	}
	r.deny(heads)
	if !r.open() {
		return nil
	}
	var keys []string
	var at []int
	for i := range heads {
		if heads[i].Truth == TruthSupported {
			keys, at = append(keys, headKey.of(heads[i].ID), evidKey.of(heads[i].ID)), append(at, i)
		}
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return err
	}
	for i, at := range at {
		h := &heads[at]
		if objs[2*i].Revision != h.Revision || slices.Contains(damaged, 2*i) || slices.Contains(damaged, 2*i+1) { // the walk, or somebody else, was here in between
			h.revoke()
			continue
		}
		evid, err := s.evidenceOf(ctx, h, objs[2*i+1])
		switch {
		case isErased(err), errors.Is(err, ErrDamaged): // what it rests on cannot be looked at
			h.revoke()
		case err != nil:
			return err
		default:
			r.harm(h, evid.list)
		}
	}
	return nil
}

// Revocations lists what was revoked, oldest first, and the revision that
// [Store.Revoke] is compared and swapped on. A store that was never written is made.
func (s *Store) Revocations(ctx context.Context) (list []Revocation, revision uint64, err error) {
	if err := s.ready(ctx); err != nil {
		return nil, 0, err
	}
	objs, err := s.get(ctx, revokedKey)
	if err != nil {
		return nil, 0, err
	}
	r, err := s.revocationsOf(objs[0])
	if err != nil {
		return nil, 0, err
	}
	return slices.Clone(r.list), r.Revision, nil
}

// Revoke records that a verifier, a source or a document is not to be believed. Once
// it returns, no row that rests on it is fit, none is verified by it, and no permit
// decided before is consumed: it is one record, read with the rows, however many
// there are. [Store.WalkRevocations] moves their states afterwards. revision is what
// [Store.Revocations] gave; if it moved on, the error is a [*ConflictError].
//
// Whoever calls it vouches that r.By may revoke; gate/confirm asks for a signature.
func (s *Store) Revoke(ctx context.Context, r Revocation, revision uint64) error {
	if err := r.check(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil { // the revision that is named is of a store that was made
		return err
	}
	_ = s.Attend(ctx) // what it may write is written before; whether it succeeds is judged with the revocation
	if err := s.ready(ctx); err != nil {
		return err
	}
	now := s.Now()
	r.At, r.Walked, r.Since, r.Reinstated = now, false, r.Since.UTC().Truncate(time.Microsecond), Reinstatement{}
	objs, err := s.get(ctx, append([]string{revokedKey, epochKey}, fenceKeys[:]...)...)
	if err != nil {
		return err
	}
	have, err := s.revocationsOf(objs[0])
	if err != nil {
		return err
	}
	switch {
	case have.Revision != revision:
		return &ConflictError{Key: revokedKey}
	case slices.ContainsFunc(have.list, func(o Revocation) bool { return o.of(r.Kind, r.Name, r.Version) && o.Since.Equal(r.Since) }):
		return invalid("name", "duplicate", "it was revoked since that moment already")
	case len(have.list) >= MaxRevocations:
		return invalid("name", "too_many", "%d revocations, at most %d", len(have.list), MaxRevocations)
	}
	var prev link
	if objs[1].Data != nil {
		if _, err := prev.decode(objs[1].Data); err != nil {
			return faulty(err, "epoch")
		}
	}
	tx := s.begin(ctx, now)
	nonce := tx.revocations(EntryRevoke, have, append(slices.Clone(have.list), r), r.By, r.Kind.String()+" "+r.Name, r.Reason)
	epoch := AuditEntry{Kind: EntryEpoch, Revision: objs[1].Revision + 1, At: now, Actor: r.By, Authority: AuthorityPolicy, Source: "revocation", Reason: r.Reason, Nonce: newNonce()}
	tx.log(Put{Key: epochKey, From: objs[1].Revision}, prev, nil, nil, tx.nobody(), epoch, change{})
	for _, o := range objs[2:] { // whoever kept heads by a fence looks again
		tx.put(Put{Key: o.Key, From: o.Revision, Data: fenceData})
	}
	return tx.commit(revokedKey, have.Revision+1, nonce)
}

// Reinstate ends every revocation of a verifier, a source or a document, of the version
// that is named or of "" if that is what was revoked: what it says from now on is heard
// again. What it said since it was revoked counts no more, whatever is revoked and
// reinstated later, and no row moves: each is verified anew by new evidence. Times are
// those in the evidence, so that the clock of who gathers it matters.
//
// It is [ErrNotFound] if it is not revoked, [ErrUnwalked] while rows may still rest on
// what it said, and [ErrBehind] on a store that lost what was acknowledged. revision is
// what [Store.Revocations] gave; if it moved on, the error is a [*ConflictError].
//
// Whoever calls it vouches that r.By may revoke; gate/confirm asks for a signature.
func (s *Store) Reinstate(ctx context.Context, kind RevokedKind, name, version string, r Reinstatement, revision uint64) error {
	now := s.Now()
	if err := (&Revocation{Kind: kind, Name: name, Version: version, Since: now, By: r.By, Reason: r.Reason}).check(); err != nil {
		return err
	}
	if _, err := s.confirm(ctx); err != nil {
		return err
	}
	objs, err := s.get(ctx, revokedKey)
	if err != nil {
		return err
	}
	have, err := s.revocationsOf(objs[0])
	if err != nil {
		return err
	}
	if have.Revision != revision {
		return &ConflictError{Key: revokedKey}
	}
	list, found := slices.Clone(have.list), false
	for i := range list {
		v := &list[i]
		if !v.of(kind, name, version) {
			continue
		}
		if !v.Walked { // evidence with a time to come might stand again
			return fmt.Errorf("%w of %s %s", ErrUnwalked, kind, clip(name, 100))
		}
		found = true
		r.At = now
		if r.At.Before(v.At) { // a clock that went back takes nothing back
			r.At = v.At
		}
		v.Reinstated = r
	}
	if !found {
		return fmt.Errorf("%w: %s %s is not revoked", ErrNotFound, kind, clip(name, 100))
	}
	tx := s.begin(ctx, now)
	nonce := tx.revocations(EntryReinstate, have, list, r.By, kind.String()+" "+name, r.Reason)
	return tx.commit(revokedKey, have.Revision+1, nonce)
}

// revocations puts the list.
func (t *transaction) revocations(kind EntryKind, old *revocations, list []Revocation, actor, source, reason string) (nonce string) {
	nonce = newNonce()
	data := t.store.scope.sealRevocations(old.Revision, list, old.damaged)
	e := AuditEntry{Kind: kind, Revision: old.Revision + 1, At: t.now, Actor: actor, Authority: AuthorityPolicy, Source: clip(source, MaxField), Reason: reason, Nonce: nonce}
	t.log(Put{Key: revokedKey, From: old.Revision}, old.prev, data, data, t.nobody(), e, change{})
	return nonce
}

// RevocationWalk is how far the walk over the rows is.
type RevocationWalk struct {
	Rows      int  `json:"rows"`      // looked at
	Touched   int  `json:"touched"`   // of them, with evidence that was revoked
	Withdrawn int  `json:"withdrawn"` // of them, that lost the verified state
	Damaged   int  `json:"damaged"`   // of them, that cannot be read, so that the walk does not end
	Done      bool `json:"done"`
	// Lost are the rows that lost the verified state since the last time that progress
	// was told: what was made from them, and the calls that ran on them, depend on a
	// reading that no longer holds ([Store.DecisionsCiting]).
	Lost []ID `json:"-"`

	revision uint64 // of the revocations that the walk is for
	after    string
}

// WalkRevocations looks at every row and takes away what was revoked: the evidence is
// void, a row that the rest does not verify loses its state, and a row that only what
// was revoked contradicted is unverified again; each is due at once. It may be
// interrupted and goes on where it was; run twice at once it does the same work twice.
// progress, if not nil, hears of it every few hundred rows. Without an open revocation
// there is nothing to do, and Done is set. A row that cannot be read is passed over; the
// error is then [ErrDamaged], and the walk is not over.
func (s *Store) WalkRevocations(ctx context.Context, progress func(RevocationWalk)) (RevocationWalk, error) {
	for {
		w, err := s.walkRevocations(ctx, progress)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || ctx.Err() != nil {
			return w, err
		}
	}
}

// revocationPage is how many rows are looked at between two notes of how far it is.
const revocationPage = 200

func (s *Store) walkRevocations(ctx context.Context, progress func(RevocationWalk)) (RevocationWalk, error) {
	objs, damaged, err := s.each(ctx, []string{revokedKey, walkKey}) // a walk that was lost begins anew
	if err != nil {
		return RevocationWalk{}, err
	}
	if slices.Contains(damaged, 0) {
		return RevocationWalk{}, &DamagedError{Keys: []string{revokedKey}}
	}
	r, err := s.revocationsOf(objs[0])
	if err != nil {
		return RevocationWalk{}, err
	}
	w := decodeWalk(objs[1])
	if !r.open() {
		w.Done = true
		return w, nil
	}
	if w.revision != r.Revision { // another revocation came since: from the start
		w = RevocationWalk{revision: r.Revision}
	}
	mark := objs[1].Revision
	var untold error // what was done and the witness does not know
	for {
		_, ids, next, err := s.queryRows(ctx, Query{Term: termRow, After: w.after, Limit: revocationPage})
		if err != nil {
			return w, err
		}
		for _, id := range ids {
			touched, withdrawn, err := s.withdraw(ctx, id)
			if errors.Is(err, ErrUnwitnessed) { // it is done
				untold, err = err, nil
			}
			if err != nil && !errors.Is(err, ErrDamaged) {
				return w, err
			}
			w.Rows++
			if err != nil { // it holds nobody up
				w.Damaged++
				continue
			}
			if touched {
				w.Touched++
			}
			if withdrawn {
				w.Withdrawn++
				w.Lost = append(w.Lost, id)
			}
		}
		w.after = next
		if progress != nil {
			progress(w)
		}
		w.Lost = nil
		if next == "" {
			break
		}
		if err := s.write(ctx, Batch{Checks: []Check{{Key: revokedKey, Revision: r.Revision}}, Puts: []Put{{Key: walkKey, From: mark, Data: w.encode()}}}); err != nil {
			return w, err
		}
		mark++
	}
	if w.Damaged > 0 {
		// Were the walk over, nobody would ask any more what such a row rests on. It
		// begins anew with the next call, and what was revoked is unfit until then.
		anew := RevocationWalk{revision: r.Revision}
		if err := s.write(ctx, Batch{Checks: []Check{{Key: revokedKey, Revision: r.Revision}}, Puts: []Put{{Key: walkKey, From: mark, Data: anew.encode()}}}); err != nil {
			return w, err
		}
		return w, fmt.Errorf("%w: %d of %d rows; what was revoked stays unfit, and the walk is not over", ErrDamaged, w.Damaged, w.Rows)
	}
	tx, list := s.begin(ctx, s.Now()), slices.Clone(r.list)
	for i := range list {
		list[i].Walked = true
	}
	nonce := tx.revocations(EntryRevoke, r, list, "store", "walk", fmt.Sprintf("%d rows looked at, %d touched, %d withdrawn", w.Rows, w.Touched, w.Withdrawn))
	w.Done, w.revision, w.after = true, r.Revision+1, ""
	tx.put(Put{Key: walkKey, From: mark, Data: w.encode()})
	if err := tx.commit(revokedKey, r.Revision+1, nonce); err != nil {
		return w, err
	}
	return w, untold
}

func (w *RevocationWalk) encode() []byte {
	e := encoder{}
	for _, n := range [...]int{w.Rows, w.Touched, w.Withdrawn, w.Damaged} {
		e.num(uint64(n))
	}
	e.num(w.revision)
	e.str(w.after)
	return e.b
}

// decodeWalk reads how far a walk is. One that cannot be read starts anew.
func decodeWalk(o Object) RevocationWalk {
	d := decoder{b: o.Data}
	w := RevocationWalk{Rows: int(d.num()), Touched: int(d.num()), Withdrawn: int(d.num()), Damaged: int(d.num()), revision: d.num(), after: d.str()}
	if d.end() != nil {
		return RevocationWalk{}
	}
	return w
}

// withdraw takes from one row what was revoked, in one transaction.
func (s *Store) withdraw(ctx context.Context, id ID) (touched, withdrawn bool, err error) {
	_, err = retry(ctx, func() (struct{}, error) {
		touched, withdrawn, err = s.withdrawOnce(ctx, id)
		return struct{}{}, err
	})
	return touched, withdrawn, err
}

func (s *Store) withdrawOnce(ctx context.Context, id ID) (touched, withdrawn bool, err error) {
	objs, err := s.get(ctx, headKey.of(id), evidKey.of(id), dueKey.of(id), revokedKey)
	if err != nil {
		return false, false, err
	}
	heads, err := decodeHeads(objs[:1], []ID{id})
	if err != nil {
		return false, false, err
	}
	old := heads[0]
	if old.Revision == 0 || old.Has(FlagErased) {
		return false, false, nil
	}
	evid, err := s.evidenceOf(ctx, &old, objs[1])
	if isErased(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	r, err := s.revocationsOf(objs[3])
	if err != nil {
		return false, false, err
	}
	why := r.touched(evid.list)
	if why == nil {
		return false, false, nil
	}
	rest := slices.Clone(evid.list)
	for i := range rest {
		rest[i].Void = rest[i].Void || r.refuse(rest[i:i+1]) != nil
	}
	now := s.Now()
	e := AuditEntry{Kind: EntryRevoke, Row: id, Revision: old.Revision + 1, At: now, Actor: why.By, Authority: AuthorityPolicy,
		Source: clip(why.Kind.String()+" "+why.Name, MaxField), Reason: clip("revoked: "+why.Reason, MaxField), Nonce: newNonce()}
	j := judging{store: s, row: id, Facts: Facts{Event: EventRevoked, Now: now, Row: old, Standing: rest}}
	if old.Truth == TruthSupported {
		if err := j.lineage(ctx); err != nil {
			return false, false, err
		}
		if slices.ContainsFunc(rest, func(e Evidence) bool { return e.Relation == RelationSupports && r.refuse([]Evidence{e}) != nil }) {
			if err := j.spelledStill(ctx); err != nil {
				return false, false, err
			}
		}
	}
	v := Judge(j.Facts)
	if v.Voids && (old.Origin == OriginFirstHand || old.Origin == OriginUserAsserted) {
		if j.BornSo, err = s.bornVerified(ctx, id); err != nil {
			return false, false, err
		}
		v = Judge(j.Facts)
	}
	next := v.Next
	if withdrawn = v.Voids; withdrawn {
		rest, _ = voidSupports(rest)
	}
	if old.Truth != next.Truth {
		e.Kind, e.Axis, e.From, e.To = EntryTransition, AxisTruth, old.Truth.String(), next.Truth.String()
	}
	tx := s.begin(ctx, now)
	tx.check(revokedKey, r.Revision)
	tx.head(old, next, nil, e, tx.evidence(&old, evid, replacesAll, rest))
	if old.Truth != TruthSuperseded {
		tx.due(&old, objs[2], due{Reason: "demoted: " + e.Reason}, now)
	}
	return true, withdrawn, tx.commit(headKey.of(id), old.Revision+1, e.Nonce)
}

// bornVerified reports whether a row was verified when it was written.
func (s *Store) bornVerified(ctx context.Context, id ID) (bool, error) {
	for l, err := range s.entries(ctx, headKey.of(id), 0) {
		if err != nil {
			return false, err
		}
		var first record
		if _, err := first.decode(l.Data); err != nil {
			return false, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, KeyText(headKey.of(id)))
		}
		return first.entry(l.Revision).To == StateVerified.String(), nil
	}
	return false, nil
}
