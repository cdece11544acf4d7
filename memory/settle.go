package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// A call whose outcome nobody knows may have been done. Until it is known, the same call is
// held: the run records it late, or a person who has looked settles it.

// CallOutcome is how a call ended that was let through. The zero value says that nobody has
// said.
type CallOutcome uint8

// The outcomes of a call.
const (
	_                  CallOutcome = iota
	CallDone                       // it was made
	CallFailed                     // it was made, and came to nothing
	CallUnknown                    // it was cut off: it may have been done, and is not made again until a person says so
	CallNotMade                    // it was let through and then not made: who asked had gone, or the permit had run out
	CallSettledDone                // a person says that it was done
	CallSettledNotDone             // a person says that it was not
)

var callOutcomeEnum = enum[CallOutcome]{"outcome", []string{"", "done", "failed", "unknown", "not_made", "settled_done", "settled_not_done"}}

// String returns done, failed, unknown, not_made, settled_done, settled_not_done, or "unset".
func (o CallOutcome) String() string { return callOutcomeEnum.text(o) }

// MarshalText returns the same; an unset outcome is an error.
func (o CallOutcome) MarshalText() ([]byte, error) { return callOutcomeEnum.marshal(o) }

// UnmarshalText accepts exactly the names.
func (o *CallOutcome) UnmarshalText(b []byte) error { return callOutcomeEnum.unmarshal(o, b) }

// doneAlready begins what the model is told that asked for a call again which a person
// says was done.
const doneAlready = "it was done already: "

// isOpen reports whether nobody knows how the call ended.
func (o CallOutcome) isOpen() bool { return o == 0 || o == CallUnknown }

// Unsettled reports whether the decision let a call through of which nobody knows how it
// ended, so that the same call is held.
func (r *DecisionRecord) Unsettled() bool {
	return r.Fired && !r.Slot.IsZero() && r.Outcome.isOpen()
}

// once reports whether the call was done, and is not to be made twice.
func (r *DecisionRecord) once() bool { return r.Once && r.StateAt(r.At) == HoldDone }

// StateAt is the state of a call that was let through without a hold, at a moment:
// HoldFired, HoldUnknown, HoldDone or HoldFailed. Of a decision that let nothing through it
// is the zero state.
func (r *DecisionRecord) StateAt(now time.Time) HoldState {
	switch {
	case !r.Fired:
		return 0
	case r.Outcome == 0 && now.Sub(r.At) < UnknownAfter:
		return HoldFired
	}
	return r.Outcome.state()
}

// state is what an outcome says: HoldUnknown, HoldDone, or HoldFailed if the call was
// not made or came to nothing.
func (o CallOutcome) state() HoldState {
	switch o {
	case CallDone, CallSettledDone:
		return HoldDone
	case CallFailed, CallNotMade, CallSettledNotDone:
		return HoldFailed
	}
	return HoldUnknown
}

// counts reports whether a later outcome takes the place of one: it does while nobody knows,
// and that a call was done takes the place of anybody's word that it was not. So nothing
// that was done becomes undone, whoever reports later.
func counts(later, outcome CallOutcome) bool {
	switch outcome.state() {
	case HoldUnknown:
		return true
	case HoldFailed:
		return later.state() == HoldDone
	}
	return false
}

// Settlement is a person's word on how a call ended of which nobody knew.
type Settlement struct {
	Decision string // that let the call through
	Done     bool   // it was done; else it was not
	Actor    string
	Reason   string // of one that was done: what the model is told that asked for it again
}

// Settle writes down a person's word on how a call ended. It is the caller who makes sure
// that it was she; see package gate/confirm. Then the same call is decided afresh: if it was
// not done, it may be made. If it was done, a hold that waits for the outcome is refused in
// her words, so that who asked again does not do it twice. The mark of the act says so too,
// for whoever asks later ([ActMark.Done]).
//
// A call whose outcome is known gives a [*HoldError]; that it was done takes the place of a
// person's word that it was not. So does the word that it was not done
// within [UnknownAfter] of a call that may still be at work. A call whose record was erased
// is settled all the same; that reads all marks and holds of the store.
func (s *Store) Settle(ctx context.Context, m Settlement) error {
	for _, f := range [...]struct{ name, value string }{{"decision", m.Decision}, {"actor", m.Actor}, {"reason", m.Reason}} {
		if strings.TrimSpace(f.value) == "" {
			return invalid(f.name, "required", "it is empty")
		}
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	err := s.recordOutcome(ctx, m.Decision, m.outcome(), "", nil, &m)
	if isErased(err) {
		_, err = retry(ctx, func() (struct{}, error) { return struct{}{}, s.settleErased(ctx, &m) })
	}
	return err
}

func (m *Settlement) outcome() CallOutcome {
	if m.Done {
		return CallSettledDone
	}
	return CallSettledNotDone
}

// words are those of the audit.
func (m *Settlement) words() string {
	if m.Done {
		return "done, settled by " + m.Actor
	}
	return "not done, settled by " + m.Actor
}

// settleErased is [Store.Settle] of a call whose record was erased. Nothing says any more
// which call it was: the marks and holds that name the decision are looked for among all.
func (s *Store) settleErased(ctx context.Context, m *Settlement) error {
	objs, err := s.get(ctx, decisionKey.named(m.Decision))
	if err != nil {
		return err
	}
	_, prev, _, _, err := s.decisionOf(ctx, objs[0])
	if err != nil {
		return err
	}
	tx := s.begin(ctx, s.Now())
	for o, err := range s.driver.Objects(ctx, s.scope.tenant, string(callKey)) {
		if errors.Is(err, ErrDamaged) {
			continue // verification names it, and the call that it stands for is held
		}
		if err != nil {
			return err
		}
		mark, err := callMarkOf(o.Data)
		if err != nil {
			return err
		}
		if mark.fired == m.Decision {
			next := callMark{hold: mark.hold, done: mark.done, settled: mark.settled}
			if m.Done {
				next.done = m.Decision
				if mark.slot != (Token{}) { // of an act
					next.settled = fromMicros(micros(tx.now))
				}
			}
			tx.put(Put{Key: o.Key, From: o.Revision, Data: next.encode()})
		}
	}
	for h, err := range s.heldCalls(ctx, termHold) {
		if errors.Is(err, ErrDamaged) {
			continue
		}
		if err != nil {
			return err
		}
		if h.Prior != m.Decision && h.Made != m.Decision {
			continue
		}
		held, err := s.get(ctx, holdKey.named(h.ID))
		if err != nil {
			return err
		}
		was, prev, class, err := s.holdOf(ctx, held[0])
		if isErased(err) {
			continue
		}
		if err != nil {
			return err
		}
		next := was
		if next.Made == m.Decision {
			next.Made = ""
		}
		if next.Prior == m.Decision {
			next.Prior = ""
			if m.Done {
				next.Done = m.Decision
			}
		}
		next.heard(m, tx.now)
		e := tx.holdEntry(was.State, &next, AuthorityUser)
		e.Actor, e.Reason = m.Actor, "outcome: "+m.words()
		if err := tx.hold(held[0], &was, prev, next, class, e); err != nil {
			return err
		}
	}
	if len(tx.Puts) == 0 {
		return fmt.Errorf("%w: decision %s, and nothing waits to know how its call ended", ErrErased, clip(m.Decision, 40))
	}
	if !m.Done && tx.now.Sub(prev.sequence.Time()) < UnknownAfter {
		return &HoldError{ID: m.Decision, State: HoldFired, By: "run", Text: "its record was erased so lately that it may still be at work"}
	}
	nonce := newNonce()
	tx.log(Put{Key: objs[0].Key, From: objs[0].Revision, Clear: true}, prev, nil, nil, tx.nobody(), AuditEntry{Kind: EntryOutcome, Revision: objs[0].Revision + 1, At: tx.now,
		Actor: m.Actor, Authority: AuthorityUser, Source: "settle", Reason: m.words() + ": " + m.Reason, Nonce: nonce}, change{})
	return tx.commit(objs[0].Key, objs[0].Revision+1, nonce)
}

// heard changes a hold as a person's word does on a call that it waits for. If that was done,
// who asks for it again is told so, and does not do it twice.
func (h *Hold) heard(m *Settlement, now time.Time) {
	if m == nil || !m.Done || h.State != HoldWaiting && h.State != HoldGranted {
		return
	}
	h.State, h.Args, h.Grant, h.GrantEnds = HoldRejected, nil, nil, time.Time{}
	h.Round++
	h.By, h.Why, h.At = m.Actor, doneAlready+m.Reason, now
}

// Settled is a person's word on a call, as its decision keeps it.
type Settled struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// presently is a hold as it is now. One that waits to know how another call ended says so
// only while nobody knows. If a person has said that it was done, it is refused in her words
// from then on.
func (s *Store) presently(ctx context.Context, h Hold) (Hold, error) {
	for _, prior := range [...]*string{&h.Prior, &h.Made} {
		if *prior == "" || h.State != HoldWaiting && h.State != HoldGranted {
			continue
		}
		d, err := s.Decision(ctx, *prior)
		switch {
		case errors.Is(err, ErrNotFound), isErased(err), unreadable(err): // nobody knows
			continue
		case err != nil:
			return h, err
		case d.Unsettled():
			continue
		}
		*prior = ""
		if w := d.Settled; w != nil && d.Outcome == CallSettledDone {
			h.State, h.Args, h.Asked, h.Grant, h.GrantEnds = HoldRejected, nil, nil, nil, time.Time{}
			h.By, h.Why, h.At = w.By, doneAlready+w.Reason, w.At
		}
	}
	return h, nil
}

// settles gives an error if the person's word is not wanted, or not yet.
func (m *Settlement) settles(r *DecisionRecord, now time.Time) error {
	fault := func(text string) error { return &HoldError{ID: r.ID, State: r.StateAt(now), By: "run", Text: text} }
	switch {
	case !r.Fired:
		return fault("the decision let no call through")
	case m.Done && r.Outcome == CallSettledNotDone: // a person has looked again
	case !r.Outcome.isOpen():
		return fault("how it ended is known: " + r.ending())
	case !m.Done && r.Outcome == 0 && now.Sub(r.At) < UnknownAfter:
		return fault("it may still be at work, so it cannot be said yet that it was not done")
	}
	return nil
}

// termOpenCall is carried by decisions that are [DecisionRecord.Unsettled].
const termOpenCall = "N"

// UnsettledCalls lists the calls that were let through and of which nobody knows how they
// ended, newest first: those that are being made, too. One that cannot be read comes as a
// [*DamagedError], and the listing goes on; any other error ends it.
func (s *Store) UnsettledCalls(ctx context.Context) iter.Seq2[DecisionRecord, error] {
	return func(yield func(DecisionRecord, error) bool) {
		for after := ""; ; {
			hits, next, err := s.queryOf(ctx, Query{Term: termOpenCall, After: after, Limit: 100}, decisionKey.holds)
			if err != nil {
				yield(DecisionRecord{}, err)
				return
			}
			keys := make([]string, len(hits))
			for i := range hits {
				keys[i] = hits[i].Key
			}
			objs, damaged, err := s.each(ctx, keys)
			if err != nil {
				yield(DecisionRecord{}, err)
				return
			}
			for i, o := range objs {
				var d []DecisionRecord
				err := error(nil)
				if !slices.Contains(damaged, i) {
					d, err = s.decisionsAt(ctx, hits[i:i+1])
				}
				switch {
				case slices.Contains(damaged, i), unreadable(err):
					if !yield(DecisionRecord{}, &DamagedError{Keys: []string{o.Key}}) {
						return
					}
				case err != nil:
					yield(DecisionRecord{}, err)
					return
				case len(d) == 0 || !d[0].Unsettled(): // it was erased, or ended meanwhile
				case !yield(d[0], nil):
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// runKeyOf is the key of the object that says that a run has ended.
func (s *Store) runKeyOf(run string) string { return runKey.at(s.scope.blind("ended run", run)) }

// EndRun notes that a run has ended: no call of it is asked for again, so that no approval
// of one of its holds would free anything, and [Store.MoveHold] takes none. It may be said
// more than once. A run that nobody ended, since its process died, is as one that goes on,
// and its holds end by their own time.
func (s *Store) EndRun(ctx context.Context, run string) error {
	if err := checkText("run", run, MaxField); err != nil {
		return err
	}
	err := s.write(ctx, Batch{Puts: []Put{{Key: s.runKeyOf(run), Data: []byte{1}}}})
	if errors.Is(err, ErrConflict) { // it was said before
		return nil
	}
	return err
}

// RunEnded reports whether a run has ended; see [Store.EndRun].
func (s *Store) RunEnded(ctx context.Context, run string) (bool, error) {
	objs, err := s.get(ctx, s.runKeyOf(run))
	return err == nil && objs[0].Revision > 0, err
}

// callMarks remembers which marks stand for a call that this process let through: its
// outcome then reads all in one trip. It remembers too at which revision a mark was taken
// away, so that the same call made again need not look first. Each is checked in the transaction
// that rests on it.
type callMarks struct {
	mu       sync.Mutex
	standing map[string][]string // by the key of the decision
	away     map[string]uint64   // by the key of the mark
}

// marksKept bounds each of the two: some 2 MB at most.
const marksKept = 1 << 13

// put notes what came of recording a decision with marks.
func (m *callMarks) put(decision string, marks []string, err error) {
	var conflict *ConflictError
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		if len(m.standing) >= marksKept || m.standing == nil {
			m.standing = map[string][]string{}
		}
		m.standing[decision] = marks
		for _, mark := range marks {
			delete(m.away, mark)
		}
	case errors.As(err, &conflict) && slices.Contains(marks, conflict.Key):
		delete(m.away, conflict.Key)
	}
}

// forget drops what is known of a mark.
func (m *callMarks) forget(mark string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.away, mark)
}

// of are the marks of a decision, none if they are not known.
func (m *callMarks) of(decision string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.standing[decision]
}

// gone is the revision at which a mark was taken away, 0 if it is not known to be.
func (m *callMarks) gone(mark string) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.away[mark]
}

// ended notes that an outcome was recorded, with what its transaction put.
func (m *callMarks) ended(decision string, puts []Put) {
	m.mu.Lock()
	defer m.mu.Unlock()
	marks := m.standing[decision]
	delete(m.standing, decision)
	for i := range puts {
		if p := &puts[i]; slices.Contains(marks, p.Key) && len(p.Data) == 0 {
			if len(m.away) >= marksKept || m.away == nil {
				m.away = map[string]uint64{}
			}
			m.away[p.Key] = p.From + 1
		}
	}
}
