package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// Digest is a SHA-256 that stands for a call, or for all that a permit of it is
// bound to. In JSON it is 64 hexadecimal digits.
type Digest [32]byte

// String returns the digest in hexadecimal.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether the digest is of nothing.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText returns 64 hexadecimal digits.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText accepts exactly 64 hexadecimal digits.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != hex.EncodedLen(len(d)) {
		return invalid("digest", "malformed", "not 64 hexadecimal digits")
	}
	if _, err := hex.Decode(d[:], b); err != nil {
		return invalid("digest", "malformed", "not 64 hexadecimal digits")
	}
	return nil
}

// HoldState says how far a held call is. The zero value is no state.
type HoldState uint8

// The states of a held call. Time alone makes a hold expired, and one that fired
// unknown; see [Hold.StateAt].
const (
	_            HoldState = iota
	HoldWaiting            // nobody has decided, and its rows are not fit
	HoldGranted            // a person approved this one call, which has not been made since
	HoldFired              // it was let through, and how it ended is not recorded yet
	HoldDone               // it was let through and ended well
	HoldFailed             // it was let through, and the tool gave an error or was not called after all
	HoldRejected           // a person refused it
	HoldStale              // something it was bound to moved and another hold took its place, or its parked call was denied
	HoldExpired            // nobody decided in time, or what was approved was not called in time
	HoldUnknown            // it was let through long ago, and nobody knows how it ended
)

var holdEnum = enum[HoldState]{"state", []string{"", "waiting", "granted", "fired", "done", "failed", "rejected", "stale", "expired", "unknown"}}

// String returns the name, or "unset".
func (v HoldState) String() string { return holdEnum.text(v) }

// MarshalText returns the name; an unset state is an error.
func (v HoldState) MarshalText() ([]byte, error) { return holdEnum.marshal(v) }

// UnmarshalText accepts exactly the names.
func (v *HoldState) UnmarshalText(b []byte) error { return holdEnum.unmarshal(v, b) }

// Limits of holds.
const (
	// UnknownAfter is how long after a call was let through its outcome is called
	// unknown, if none was recorded. The call is not made again before that either.
	UnknownAfter = 5 * time.Minute
	// RejectedFor is how long a person's refusal of a call stands.
	RejectedFor = 24 * time.Hour
)

// Hold is a call that was blocked and can be released. It has the id of the
// decision that opened it, and moves only by [Store.Record], [Store.RecordOutcome],
// [Store.Settle] and [Store.MoveHold].
type Hold struct {
	ID string `json:"id"`
	// Slot stands for the call: server, tool, the arguments that count, agent, run and
	// principal. Binding
	// stands for all that a permit of it is bound to: those, the rows at their
	// fitness versions with their contents, the policy, the tool's schema, and the
	// epoch of the store; and for the reasons that stand against the call.
	Slot    Digest    `json:"slot"`
	Binding Digest    `json:"binding"`
	State   HoldState `json:"state"`
	// Round grows whenever a person decides, so that what she signed counts once.
	Round uint64 `json:"round"`

	Tool   string `json:"tool"`
	Server string `json:"server,omitempty"` // whose tool it is; "" = the program's own
	Effect string `json:"effect"`
	// BlastRadius is how far the tool may reach.
	BlastRadius string `json:"blast_radius,omitempty"`
	Agent       string `json:"agent"`
	Run         string `json:"run"`
	Principal   string `json:"principal"` // whom the agent acts for
	// Args are the canonical arguments; nil once the call has ended. ArgsSHA256 is
	// their digest, and stays.
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsSHA256 Digest          `json:"args_sha256"`
	// Asked is what the gate keeps of its question, to try it again; see gate.Try. It goes
	// with Args.
	Asked   json.RawMessage `json:"-"`
	Schema  Digest          `json:"schema"` // of the tool
	Policy  string          `json:"policy"` // "name@version"
	Epoch   uint64          `json:"epoch"`
	Rows    []Cited         `json:"rows"`     // all that fed the call
	AtFault []ID            `json:"at_fault"` // of them, those that block it
	Codes   []string        `json:"codes"`    // why, the gravest first

	OpenedAt  time.Time `json:"opened_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Tries     int       `json:"tries"`            // how often it was asked for
	Parked    bool      `json:"parked,omitempty"` // it fires by itself once its rows are fit
	// Prior is a decision that let the same call through before, in the same run, and whose
	// outcome is not known; Made is the last one that did so in another run. Done is the last
	// one that let it through in the same run, and that was done, if it is not to be made twice.
	// Fired is the one that let it through since.
	Prior string `json:"prior,omitempty"`
	Made  string `json:"made,omitempty"`
	Done  string `json:"done,omitempty"`
	Fired string `json:"fired,omitempty"`

	// By, Why and At are of the last move: who made it, in whose words, when.
	By    string          `json:"by"`
	Why   string          `json:"why"`
	At    time.Time       `json:"at"`
	Grant json.RawMessage `json:"grant,omitempty"` // as it was signed
	// GrantEnds is when the grant does, at the latest at ExpiresAt.
	GrantEnds time.Time `json:"grant_ends,omitzero"`
	Withdrawn bool      `json:"withdrawn,omitempty"` // a grant was taken back

	Revision uint64 `json:"-"` // of the object
}

// Unknown is the last decision that let the same call through and of which nobody knows how
// the call ended; "" if there is none.
func (h *Hold) Unknown() string { return cmp.Or(h.Made, h.Prior) }

// Open reports whether the call can still be released at a moment.
func (h *Hold) Open(now time.Time) bool {
	s := h.StateAt(now)
	return s == HoldWaiting || s == HoldGranted
}

// StateAt is the state that the hold is in at a moment.
func (h *Hold) StateAt(now time.Time) HoldState {
	switch {
	case (h.State == HoldWaiting || h.State == HoldGranted) && !now.Before(h.ExpiresAt),
		h.State == HoldGranted && !now.Before(h.GrantEnds):
		return HoldExpired
	case h.State == HoldFired && now.Sub(h.At) >= UnknownAfter:
		return HoldUnknown
	}
	return h.State
}

// Rejected reports whether a person's refusal of the call stands at a moment.
func (h *Hold) Rejected(now time.Time) bool {
	return h.State == HoldRejected && now.Sub(h.At) < RejectedFor
}

// Grant is what a person signed to approve one call. The store keeps the signed
// bytes and does not read them; who holds her public key verifies them, once when
// they come in and once more when the call is let through.
type Grant struct {
	Tenant    string
	Hold      string
	Round     uint64 // of the hold when she looked at it
	Binding   Digest
	Tool      string
	Principal string // she herself
	Expires   time.Time
}

// ErrHold is the sentinel of [*HoldError].
var ErrHold = errors.New("memory: the hold cannot move there")

// HoldError says why a hold did not move. errors.Is(err, ErrHold) holds.
type HoldError struct {
	ID    string
	State HoldState // that it is in
	By    string    // who moved it there
	// Moved is set if it is not at the round that was asked for, or a row of it is
	// not at the fitness version it was bound to.
	Moved bool
	// Ended is set if the run that asked for the call has ended.
	Ended bool
	Text  string
}

// Error is one line.
func (e *HoldError) Error() string {
	return fmt.Sprintf("memory: hold %s is %s: %s", e.ID, e.State, e.Text)
}

// Is reports whether target is [ErrHold].
func (e *HoldError) Is(target error) bool { return target == ErrHold }

// maxHoldArgs bounds the arguments that a hold keeps.
const maxHoldArgs = 1 << 20

func termWaits(id ID) string { return place("v").of(id) }

func (s *scope) termGranted(tool string) string { return s.blindTerm("G", "tool", tool) }

const (
	termHold     = "H" // all holds
	termOpenHold = "O" // those that wait, are granted, or fired without an outcome
)

// Hold returns the hold with an id. [ErrNotFound] if there is none, [ErrErased] if
// what it was about was erased.
func (s *Store) Hold(ctx context.Context, id string) (Hold, error) {
	objs, err := s.get(ctx, holdKey.named(id))
	if err != nil {
		return Hold{}, err
	}
	if objs[0].Revision == 0 {
		return Hold{}, fmt.Errorf("%w: hold %s", ErrNotFound, clip(id, 40))
	}
	h, _, _, err := s.holdOf(ctx, objs[0])
	if err != nil {
		return h, err
	}
	return s.presently(ctx, h)
}

// keptHold is a hold as it is stored.
type keptHold struct {
	*Hold
	Asked json.RawMessage `json:"asked,omitempty"`
}

// holdOf opens a hold.
func (s *Store) holdOf(ctx context.Context, o Object) (h Hold, prev link, class Class, err error) {
	b, prev, class, ok, err := s.opened(ctx, o)
	switch {
	case err != nil:
	case !ok:
		err = fmt.Errorf("%w: %s", ErrErased, KeyText(o.Key))
	default:
		kept := keptHold{Hold: &h}
		err = fromJSON(b, &kept)
		h.Asked = kept.Asked
	}
	h.Revision = o.Revision
	if isErased(err) {
		return h, prev, class, err
	}
	return h, prev, class, faulty(err, "hold")
}

// HoldFilter selects holds; the zero filter selects all.
type HoldFilter struct {
	Open bool // only those that wait, are granted, or fired without an outcome
	Row  ID   // of them, those that wait for this row; implies Open
}

// HeldCalls lists holds, newest first. One that time ended is listed as it is stored;
// [Hold.StateAt] tells. One that cannot be read comes as a [*DamagedError], and the listing
// goes on; any other error ends it.
func (s *Store) HeldCalls(ctx context.Context, f HoldFilter) iter.Seq2[Hold, error] {
	term := termHold
	switch {
	case f.Row != "":
		term = termWaits(f.Row)
	case f.Open:
		term = termOpenHold
	}
	return s.heldCalls(ctx, term)
}

func (s *Store) heldCalls(ctx context.Context, term string) iter.Seq2[Hold, error] {
	return func(yield func(Hold, error) bool) {
		for after := ""; ; {
			hits, next, err := s.queryOf(ctx, Query{Term: term, After: after, Limit: 100}, holdKey.holds)
			if err != nil {
				yield(Hold{}, err)
				return
			}
			keys := make([]string, len(hits))
			for i := range hits {
				keys[i] = hits[i].Key
			}
			objs, damaged, err := s.each(ctx, keys)
			if err != nil {
				yield(Hold{}, err)
				return
			}
			for i, o := range objs {
				h, _, _, err := s.holdOf(ctx, o)
				switch {
				case slices.Contains(damaged, i), o.Revision == 0, unreadable(err):
					if !yield(Hold{}, &DamagedError{Keys: []string{o.Key}}) {
						return
					}
					continue
				case isErased(err):
					continue
				}
				if err == nil {
					h, err = s.presently(ctx, h)
				}
				if !yield(h, err) || err != nil {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// Granted lists the calls of a tool that were approved and not made since, newest
// first, at most limit.
func (s *Store) Granted(ctx context.Context, tool string, limit int) ([]Hold, error) {
	var out []Hold
	for h, err := range s.heldCalls(ctx, s.termGranted(tool)) {
		if errors.Is(err, ErrDamaged) {
			continue // what cannot be read approves nothing
		}
		if err != nil {
			return nil, err
		}
		if h.Tool == tool && h.StateAt(s.Now()) == HoldGranted { // the term is half a token
			out = append(out, h)
		}
		if len(out) >= limit {
			break
		}
	}
	return out, nil
}

// holdTerms are what a hold is found by in its state.
func (s *Store) holdTerms(h *Hold, class Class) []Term {
	at := newestFirst(h.OpenedAt)
	terms := []Term{{termHold, at}, {termClass(class), at}}
	switch h.State {
	case HoldGranted:
		terms = append(terms, Term{s.termGranted(h.Tool), at})
		fallthrough
	case HoldWaiting:
		for _, id := range h.AtFault {
			terms = append(terms, Term{termWaits(id), at})
		}
		fallthrough
	case HoldFired, HoldUnknown:
		terms = append(terms, Term{termOpenHold, at})
	}
	return terms
}

// hold puts a hold, with the entry that says what moved.
func (t *transaction) hold(old Object, was *Hold, prev link, next Hold, class Class, e AuditEntry) error {
	if len(next.Args) > maxHoldArgs {
		return invalid("args", "too_long", "%d bytes, at most %d", len(next.Args), maxHoldArgs)
	}
	p := Put{Key: holdKey.named(next.ID), From: old.Revision, Add: t.store.holdTerms(&next, class)}
	if was != nil {
		for _, term := range t.store.holdTerms(was, class) {
			if !slices.ContainsFunc(p.Add, func(a Term) bool { return a.Name == term.Name }) {
				p.Remove = append(p.Remove, term.Name)
			}
		}
	}
	if next.Args == nil {
		next.Asked = nil
	}
	b, err := toJSON(keptHold{&next, next.Asked})
	if err != nil {
		return invalid("hold", "malformed", "%v", err)
	}
	data := t.seal(class, p.Key, old.Revision, b)
	digest := sha256.Sum256(data)
	t.log(p, prev, data, digest[:], class, e, change{})
	return t.err
}

func (t *transaction) holdEntry(was HoldState, next *Hold, authority Authority) AuditEntry {
	e := AuditEntry{Kind: EntryHold, At: t.now, Actor: next.By, Authority: authority, Source: next.Tool, Reason: next.Why, Nonce: newNonce()}
	if was != 0 {
		e.From = was.String()
	}
	e.To = next.State.String()
	return e
}

// HoldMove is what a person decides about a held call.
type HoldMove struct {
	Hold  string
	Round uint64 // of the hold as she saw it
	// To is HoldGranted, HoldWaiting (a grant is withdrawn) or HoldRejected.
	To     HoldState
	Actor  string
	Reason string
	Grant  json.RawMessage // of HoldGranted: what she signed
	Ends   time.Time       // of HoldGranted: when it ends
}

// MoveHold writes down what a person decided about a held call. It is the caller
// who makes sure that it was she; see package gate/confirm. A hold that is at
// another round, has ended, or is not in a state to move from, gives a
// [*HoldError]. So does an approval of a call if one of its rows has moved since, or
// its run has ended. A refusal may follow an approval; nothing follows a call
// that was made.
func (s *Store) MoveHold(ctx context.Context, m HoldMove) (Hold, error) {
	for _, f := range [...]struct{ name, value string }{{"hold", m.Hold}, {"actor", m.Actor}, {"reason", m.Reason}} {
		if strings.TrimSpace(f.value) == "" {
			return Hold{}, invalid(f.name, "required", "it is empty")
		}
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return Hold{}, err
		}
	}
	switch {
	case m.To != HoldGranted && m.To != HoldWaiting && m.To != HoldRejected:
		return Hold{}, invalid("to", "unknown_value", "%s is no decision of a person", m.To)
	case m.To == HoldGranted && (len(m.Grant) == 0 || m.Ends.IsZero()):
		return Hold{}, invalid("grant", "required", "an approval is signed, and ends")
	}
	return retry(ctx, func() (Hold, error) { return s.moveHold(ctx, &m) })
}

func (s *Store) moveHold(ctx context.Context, m *HoldMove) (Hold, error) {
	objs, err := s.get(ctx, holdKey.named(m.Hold))
	if err != nil {
		return Hold{}, err
	}
	if objs[0].Revision == 0 {
		return Hold{}, fmt.Errorf("%w: hold %s", ErrNotFound, clip(m.Hold, 40))
	}
	h, prev, class, err := s.holdOf(ctx, objs[0])
	if err != nil {
		return Hold{}, err
	}
	now := s.Now()
	is, err := s.presently(ctx, h)
	if err != nil {
		return Hold{}, err
	}
	next, err := is.move(m, now)
	if err != nil {
		return Hold{}, err
	}
	incarnation, err := s.confirm(ctx)
	if errors.Is(err, ErrWitnessMissing) && m.To != HoldGranted { // what takes leave away always works
		incarnation, err = s.driver.Incarnation(), nil
	}
	if err != nil {
		return Hold{}, err
	}
	tx := s.begin(ctx, now)
	if m.To == HoldGranted { // what she saw is still so
		tx.check(epochKey, h.Epoch)
		for _, c := range h.Rows {
			tx.check(headKey.of(c.Row), c.Revision)
		}
		tx.check(s.runKeyOf(h.Run), 0)
	}
	entry := tx.holdEntry(h.State, &next, AuthorityUser)
	if err := tx.hold(objs[0], &h, prev, next, class, entry); err != nil {
		return Hold{}, err
	}
	err = tx.commit(objs[0].Key, objs[0].Revision+1, entry.Nonce)
	var conflict *ConflictError
	if errors.As(err, &conflict) && runKey.holds(conflict.Key) {
		return Hold{}, &HoldError{ID: h.ID, State: h.StateAt(now), Ended: true, Text: "the run that asked for it has ended, and an approval counts for that run only"}
	}
	if errors.As(err, &conflict) && (headKey.holds(conflict.Key) || conflict.Key == epochKey) {
		return Hold{}, &HoldError{ID: h.ID, State: HoldStale, Moved: true, Text: "a row that it rests on has moved"}
	}
	if err != nil {
		return Hold{}, err
	}
	next.Revision = objs[0].Revision + 1
	return next, s.same(incarnation)
}

// move is the hold after a person's decision.
func (h Hold) move(m *HoldMove, now time.Time) (Hold, error) {
	state := h.StateAt(now)
	fault := func(moved bool, text string) error {
		return &HoldError{ID: h.ID, State: state, By: h.By, Moved: moved, Text: text}
	}
	switch {
	case state == HoldExpired:
		return h, fault(false, "it ended before anybody decided")
	case state != HoldWaiting && state != HoldGranted:
		return h, fault(false, "it is too late to decide")
	case m.Round != h.Round:
		return h, fault(true, "it was decided meanwhile by "+h.By)
	case m.To == HoldGranted && state != HoldWaiting:
		return h, fault(false, "it is approved already")
	case m.To == HoldWaiting && state != HoldGranted:
		return h, fault(false, "there is no approval to withdraw")
	case m.To == HoldGranted && !now.Before(m.Ends):
		return h, fault(false, "the approval has ended")
	}
	h.Round++
	h.State, h.By, h.Why, h.At = m.To, m.Actor, m.Reason, now
	h.Withdrawn = m.To == HoldWaiting
	h.Grant, h.GrantEnds = nil, time.Time{}
	if m.To == HoldGranted {
		h.Grant, h.GrantEnds = m.Grant, m.Ends.UTC()
		if h.ExpiresAt.Before(h.GrantEnds) {
			h.GrantEnds = h.ExpiresAt
		}
	}
	if m.To == HoldRejected {
		h.Args = nil
	}
	return h, nil
}

// OpenCalls returns those of some decisions that let a call through whose outcome
// is not recorded.
func (s *Store) OpenCalls(ctx context.Context, decisions ...string) ([]string, error) {
	keys := make([]string, len(decisions))
	for i, id := range decisions {
		keys[i] = decisionKey.named(id)
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	var open []string
	for i, o := range objs {
		if o.Data == nil {
			continue
		}
		r, _, _, ok, err := s.decisionOf(ctx, o)
		if err != nil {
			return nil, err
		}
		if ok && r.Fired && r.Outcome == 0 {
			open = append(open, decisions[i])
		}
	}
	return open, nil
}

// Decision returns what the gate recorded under an id. [ErrNotFound] if there is
// nothing, [ErrErased] if it was erased.
func (s *Store) Decision(ctx context.Context, id string) (DecisionRecord, error) {
	objs, err := s.get(ctx, decisionKey.named(id))
	if err != nil {
		return DecisionRecord{}, err
	}
	if objs[0].Revision == 0 {
		return DecisionRecord{}, fmt.Errorf("%w: decision %s", ErrNotFound, clip(id, 40))
	}
	found, err := s.decisionsAt(ctx, []Hit{{Key: objs[0].Key}})
	if err != nil {
		return DecisionRecord{}, err
	}
	if len(found) == 0 {
		return DecisionRecord{}, fmt.Errorf("%w: decision %s", ErrErased, clip(id, 40))
	}
	return found[0], nil
}
