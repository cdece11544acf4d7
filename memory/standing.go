package memory

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Standing is what became of a call before.
type Standing struct {
	Revision uint64 // of the mark of the call; what is recorded next checks it
	Hold     *Hold  // that was opened for it last, if the call was not let through since without it
	// Prior is the last decision that let the same call through, if nobody knows how that
	// call ended, held before or not; "" if there is none. PriorAt is when that was.
	Prior   string
	PriorAt time.Time
	// Done is the last decision that let the same call through and that was done, if the call
	// is not to be made twice ([CallStep.Once]); "" if there is none. DoneAt is when it was
	// let through, and Answer are the rows that its answer became; these are empty if its
	// record cannot be read any more.
	Done   string
	DoneAt time.Time
	Answer []ID
	// Settled is set if it is a person who says that Done was done.
	Settled *Settled
}

// CallStep is what a decision does to the standing of its call, in the transaction that
// records it.
type CallStep struct {
	// Slot stands for the call in its run.
	Slot Digest
	// Act stands for the call in any run: what is done if it is made. While nobody knows how
	// a call of an act ended, its mark names the decision. Zero = the call may be made in two
	// runs at once. ActSeen is ActMark.Revision as it was read; 0 if it was not read: then
	// there must be none.
	Act     Digest
	ActSeen uint64
	// ActDone and ActSettled are ActMark.Done and ActMark.Settled as they were read: the mark
	// of a call that fires keeps them.
	ActDone    string
	ActSettled time.Time
	// Seen is Standing.Revision as it was read; 0 if it was not read: then there
	// must be none.
	Seen uint64
	// Track marks a call that fires, so that it is not made again before its
	// outcome is known.
	Track bool
	// Once keeps the name of a tracked call that was done: [Standing.Done]. Without it the
	// outcome leaves nothing.
	Once bool
	// Hold is the hold as it will be; its Revision is the one that was read, 0 for
	// a new one.
	Hold *Hold
	// Stale is a hold that ends: Hold takes its place, or its call is denied.
	Stale *Hold
}

// callMark is what is known of a call in a run, or of an act in any run. The zero mark says
// that nothing stands in the way. An outcome that changes what is known moves the mark, so
// that nobody decides by what was true before it.
type callMark struct {
	hold  string    // was opened for the call last
	fired string    // the decision that let it through last, while nobody knows how it ended
	done  string    // the decision whose call was done last, of a call that is not to be made twice
	at    time.Time // when fired let the call through
	// Of the mark of an act: what the slot of fired is known by, and when a person said that
	// done was done. The mark names no other call that was done: another run may do the same.
	slot    Token
	settled time.Time
}

// encode is nil for the zero mark.
func (m *callMark) encode() []byte {
	if *m == (callMark{}) {
		return nil
	}
	e := encoder{}
	e.members(m.members)
	return e.b
}

func callMarkOf(data []byte) (m callMark, err error) {
	if len(data) == 0 {
		return m, nil
	}
	d := decoder{b: data}
	d.members(m.members)
	if m == (callMark{}) {
		d.bad = true
	}
	if err := d.end(); err != nil {
		return callMark{}, faulty(err, "mark of a call")
	}
	return m, nil
}

// members lists the members, all of them optional.
func (m *callMark) members(o *members) {
	o.str(1, &m.hold)
	o.str(2, &m.fired)
	o.str(3, &m.done)
	o.time(4, &m.at)
	member(o, 5, &m.slot, zero, (*encoder).token, (*decoder).token)
	o.time(6, &m.settled)
}

func (e *encoder) token(v Token) { e.b = append(e.b, v[:]...) }

func (d *decoder) token() (v Token) {
	copy(v[:], d.take(uint64(len(v))))
	return v
}

// slotMark is the mark of a call in its run that a decision lets through.
func slotMark(r *DecisionRecord) callMark {
	return callMark{fired: r.ID, at: fromMicros(micros(r.At))}
}

// actMark is the mark of an act that a decision lets through.
func (s *scope) actMark(r *DecisionRecord) callMark {
	m := slotMark(r)
	m.slot = s.slot(r.Slot)
	return m
}

// slot is what a slot is known by: it is a digest of arguments, which could be guessed.
func (s *scope) slot(slot Digest) Token { return s.blind("call", string(slot[:])) }

// actOf is the key of the mark of an act. It is a mark of a call like that of a slot.
func (s *Store) actOf(act Digest) string { return callKey.at(s.scope.blind("act", string(act[:]))) }

// marksOf are the keys of the marks that stand for a call that fired.
func (s *Store) marksOf(r *DecisionRecord) []string {
	keys := []string{s.markOf(r.Slot)}
	if !r.Act.IsZero() {
		keys = append(keys, s.actOf(r.Act))
	}
	return keys
}

func (s *Store) markOf(slot Digest) string { return callKey.at(s.scope.slot(slot)) }

// Standing reads what became of a call before.
func (s *Store) Standing(ctx context.Context, slot Digest) (Standing, error) {
	objs, err := s.get(ctx, s.markOf(slot))
	if err != nil {
		return Standing{}, err
	}
	m, err := callMarkOf(objs[0].Data)
	if err != nil {
		return Standing{}, err
	}
	at := Standing{Revision: objs[0].Revision, Prior: m.fired, PriorAt: m.at, Done: m.done}
	if m.hold != "" {
		h, err := s.Hold(ctx, m.hold)
		switch {
		case err == nil:
			at.Hold = &h
		case !errors.Is(err, ErrNotFound) && !isErased(err):
			return Standing{}, err
		}
	}
	if at.Done != "" {
		d, err := s.recorded(ctx, at.Done)
		if err != nil {
			return Standing{}, err
		}
		at.DoneAt, at.Answer = d.At, d.Answer
		if d.Outcome == CallSettledDone {
			at.Settled = d.Settled
		}
	}
	return at, nil
}

// recorded is [Store.Decision]; the zero record if it was erased or is not there.
func (s *Store) recorded(ctx context.Context, id string) (DecisionRecord, error) {
	d, err := s.Decision(ctx, id)
	if errors.Is(err, ErrNotFound) || isErased(err) {
		return DecisionRecord{}, nil
	}
	return d, err
}

// call adds to the transaction of a decision what it does to the standing of its call.
func (t *transaction) call(r *DecisionRecord, class Class) error {
	c, key := r.Call, t.store.markOf(r.Call.Slot)
	keys := make([]string, 0, 3)
	if c.Seen > 0 {
		keys = append(keys, key)
	}
	var holds []*Hold
	for _, h := range [...]*Hold{c.Stale, c.Hold} {
		if h != nil {
			holds, keys = append(holds, h), append(keys, holdKey.named(h.ID))
		}
	}
	var objs []Object
	if len(keys) > 0 {
		var err error
		if objs, err = t.store.get(t.ctx, keys...); err != nil {
			return err
		}
	}
	was, seen := callMark{}, c.Seen
	if seen == 0 { // nobody looked: as far as this process knows nothing stands there
		seen = t.store.madeCalls.gone(key)
	} else {
		if objs[0].Revision != seen {
			return &ConflictError{Key: key}
		}
		var err error
		if was, err = callMarkOf(objs[0].Data); err != nil {
			return err
		}
		objs = objs[1:]
	}
	for i, h := range holds {
		if err := t.moved(h, objs[i], class); err != nil {
			return err
		}
	}
	next := was
	switch {
	case c.Hold != nil:
		next.hold = c.Hold.ID
	case c.Track && r.Fired:
		next.hold = ""
	}
	if !r.Slot.IsZero() {
		fires := slotMark(r)
		next.fired, next.at = fires.fired, fires.at
	}
	if next != was {
		t.put(Put{Key: key, From: seen, Data: next.encode()})
	} else {
		t.check(key, seen)
	}
	if c.Act.IsZero() {
		return nil
	}
	key, seen = t.store.actOf(c.Act), c.ActSeen
	switch {
	case !r.Act.IsZero():
		if seen == 0 {
			seen = t.store.madeCalls.gone(key)
		}
		mark := t.store.scope.actMark(r)
		mark.done, mark.settled = c.ActDone, c.ActSettled
		t.put(Put{Key: key, From: seen, Data: mark.encode()})
	case c.Hold != nil && c.Hold.Made != "": // it waits for what the mark says: who ends that finds the hold
		t.check(key, seen)
	}
	return nil
}

// moved puts a hold that a decision opens or moves; o is what is stored of it.
func (t *transaction) moved(h *Hold, o Object, class Class) error {
	if o.Revision != h.Revision {
		return &ConflictError{Key: o.Key}
	}
	next, was, prev, from := *h, (*Hold)(nil), link{}, HoldState(0)
	if o.Revision > 0 {
		old, link, sealed, err := t.store.holdOf(t.ctx, o)
		if err != nil {
			return err
		}
		was, prev, class, from = &old, link, sealed, old.State
	}
	next.At = t.now
	return t.hold(o, was, prev, next, class, t.holdEntry(from, &next, AuthorityPolicy))
}

// tracked is the slot that a decision's outcome must be told to.
func (r *DecisionRecord) tracked() Digest {
	if c := r.Call; c != nil && r.Fired && (c.Track || c.Hold != nil) {
		return c.Slot
	}
	return Digest{}
}

// ended adds to the transaction of an outcome what it does to the standing of its call. read are
// the marks, if they were read with the decision. by is who settled it in a person's name;
// nil if it is the outcome that the run saw.
func (t *transaction) ended(r *DecisionRecord, read []Object, by *Settlement) error {
	if r.Slot.IsZero() {
		return nil
	}
	s := t.store
	keys := s.marksOf(r)
	if !slices.EqualFunc(keys, read, func(key string, o Object) bool { return o.Key == key }) {
		var err error
		if read, err = s.get(t.ctx, keys...); err != nil {
			return err
		}
	}
	var holds []string
	for i, o := range read {
		m, err := callMarkOf(o.Data)
		if err != nil {
			return err
		}
		next := m.after(r, i > 0)
		if next != m {
			t.put(Put{Key: o.Key, From: o.Revision, Data: next.encode()})
		}
		if m.hold != "" {
			holds = append(holds, m.hold)
		}
	}
	if r.Held != "" && !slices.Contains(holds, r.Held) {
		holds = append(holds, r.Held)
	}
	if len(holds) == 0 {
		return nil
	}
	for i, id := range holds {
		holds[i] = holdKey.named(id)
	}
	objs, err := s.get(t.ctx, holds...)
	if err != nil {
		return err
	}
	for _, o := range objs {
		h, prev, class, err := s.holdOf(t.ctx, o)
		if isErased(err) {
			continue
		}
		if err != nil {
			return err
		}
		next := h
		if !next.ended(r, by, t.now) {
			continue
		}
		e := t.holdEntry(h.State, &next, AuthoritySystem)
		e.Actor, e.Reason = "run", "outcome: "+r.ending()
		if by != nil {
			e.Actor, e.Authority = by.Actor, AuthorityUser
		}
		if err := t.hold(o, &h, prev, next, class, e); err != nil {
			return err
		}
	}
	return nil
}

// after is the mark after an outcome of a decision. Of an act it keeps that the call was done
// only if a person says so: the run that made it has not seen it, and is there no more.
func (m callMark) after(r *DecisionRecord, act bool) callMark {
	if m.fired == r.ID && !r.Outcome.isOpen() {
		m.fired, m.at, m.slot = "", time.Time{}, Token{}
	}
	switch {
	case !act && r.once():
		m.done = r.ID
	case act && r.settledDone():
		m.done, m.settled = r.ID, r.settledAt()
	}
	return m
}

// settledDone reports whether a person says that the call was done, and it is not to be made
// twice.
func (r *DecisionRecord) settledDone() bool {
	return r.once() && r.Settled != nil && r.Outcome == CallSettledDone
}

// settledAt is when a person settled the call, as a mark has it.
func (r *DecisionRecord) settledAt() time.Time { return fromMicros(micros(r.Settled.At)) }

// ended changes a hold of a call that a decision let through, out of it or before it was
// opened, and reports whether it changed. Whoever decided about the hold meanwhile has
// decided.
func (h *Hold) ended(r *DecisionRecord, by *Settlement, now time.Time) bool {
	changed := false
	if r.once() && h.Done != r.ID {
		h.Done, changed = r.ID, true
	}
	switch {
	case h.Fired == r.ID:
		if h.State = r.Outcome.state(); h.State != HoldUnknown {
			h.Args = nil
		}
		h.By, h.Why, h.At = "run", "outcome: "+r.ending(), now
		if by != nil {
			h.By, h.Why = by.Actor, by.Reason
		}
		return true
	case (h.Prior == r.ID || h.Made == r.ID) && !r.Outcome.isOpen():
		for _, prior := range [...]*string{&h.Prior, &h.Made} {
			if *prior == r.ID {
				*prior = ""
			}
		}
		h.heard(by, now)
		return true
	}
	return changed
}

// callHistory is what the logs say of a call in a run, or of an act: what its mark should be.
type callHistory struct {
	hold   string // that was opened last, and when
	opened Sequence
	last   callMark // of the decision that let it through last, and when
	fired  Sequence
	direct Sequence // of the last decision that did so without a hold
	done   []doneCall
}

// doneCall is a decision whose call was done, if it is not to be made twice. Of an act it is
// one that a person settled, with when.
type doneCall struct {
	id      string
	settled time.Time
}

// holds hears that a hold was opened.
func (c *callHistory) holds(id string, at Sequence) {
	if at >= c.opened {
		c.hold, c.opened = id, at
	}
}

// letThrough hears of a decision that let the call through. mark is what it leaves while
// nobody knows how the call ended.
func (c *callHistory) letThrough(r *DecisionRecord, at Sequence, mark callMark) {
	if at >= c.fired {
		if c.last, c.fired = mark, at; !r.Unsettled() {
			c.last = callMark{}
		}
	}
	if r.Held == "" && at >= c.direct {
		c.direct = at
	}
}

// mark is what the mark should be.
func (c *callHistory) mark() callMark {
	m := c.last
	if c.opened > c.direct {
		m.hold = c.hold
	}
	for _, d := range c.done { // the one that was settled last; of a slot, the last one
		if !d.settled.Before(m.settled) {
			m.done, m.settled = d.id, d.settled
		}
	}
	return m
}
