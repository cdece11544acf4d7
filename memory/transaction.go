package memory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// transaction composes one batch. What is sealed in it, it seals; each object that has a
// log gets its entry, chained to the one before. The first fault sticks, and commit
// gives it.
type transaction struct {
	Batch
	ctx     context.Context
	store   *Store
	now     time.Time
	logged  []logged
	classes map[Class]*sealing  // that it writes under
	made    map[uint64]*sealing // of them, those that it puts, by their subjects
	untold  error               // why the witness is not told of what it takes away
	own     map[string]int      // if not nil, where it puts which key: a check of one is of what it puts itself
	err     error
}

// logged is a put whose entry is written when the transaction is complete.
type logged struct {
	put    int
	prev   link
	entry  AuditEntry
	class  Class
	state  []byte
	data   []byte
	change change
	mac    [sha256.Size]byte // once it is complete
	untold bool              // of an object that has what the entries before it take away

	takesNothing bool // of a head: it is not less fit than it was
}

func (s *Store) begin(ctx context.Context, now time.Time) *transaction {
	s.freshen()
	return &transaction{ctx: ctx, store: s, now: now, err: s.ready(ctx)}
}

// freshen forgets the classes and data keys that are known, if the driver may talk to
// another server than before: one that lacks a class, or has it with another key.
func (s *Store) freshen() {
	if now := s.driver.Incarnation() + 1; s.fresh.Swap(now) != now {
		s.classes.clear()
		s.sets.clear()
		s.subjects.clear()
		s.moved.clear()
		s.revoked.Store(nil)
		s.driver.floor.clear()
	}
}

func (t *transaction) check(key string, revision uint64) {
	if _, puts := t.own[key]; !puts {
		t.Checks = append(t.Checks, Check{Key: key, Revision: revision})
	}
}

func (t *transaction) put(p Put) {
	t.Puts = append(t.Puts, p)
	if t.own != nil {
		t.own[p.Key] = len(t.Puts) - 1
	}
}

// seal encrypts what will be the data of key at its next revision, and puts the
// class in front of it.
func (t *transaction) seal(class Class, key string, from uint64, plain []byte) []byte {
	c := t.under(class)
	if t.err != nil {
		return nil
	}
	sealed := c.seal(plain, t.store.scope.associated(key, from+1))
	return append(binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(sealed)), uint64(class)), sealed...)
}

// log puts an object that has a log. state is what the chain covers of its data;
// class is of the entry's payload.
func (t *transaction) log(p Put, prev link, data, state []byte, class Class, e AuditEntry, c change) {
	t.put(p)
	t.under(class)
	t.logged = append(t.logged, logged{put: len(t.Puts) - 1, prev: prev, entry: e, class: class, state: state, data: data, change: c})
}

// complete writes the entries.
func (t *transaction) complete() error {
	if t.err != nil || len(t.logged) == 0 {
		return t.err
	}
	if err := t.fence(); err != nil {
		return err
	}
	if t.harms() { // on the way here, so that what waits for the witness is in the same transaction
		if t.untold = t.store.Attend(t.ctx); t.untold != nil {
			if t.leaveUntold(); t.err != nil {
				return t.err
			}
		}
	}
	floor := Sequence(0)
	for i := range t.logged {
		floor = max(floor, t.logged[i].prev.sequence)
	}
	sequence := t.store.nextSequence(t.now, floor)
	id, _ := t.store.keys.Audit()
	chain, err := t.store.chains.of(t.store.keys, &t.store.scope, id)
	if err != nil {
		return err
	}
	for i := range t.logged {
		l := &t.logged[i]
		p := &t.Puts[l.put]
		revision := p.From + 1
		if l.untold {
			l.data = encodeUntold(t.taken())
			l.state = l.data
		}
		r := record{kind: byte(slices.Index(entryKinds[:], l.entry.Kind)), authority: byte(l.entry.Authority), axis: byte(l.entry.Axis),
			sequence: sequence, at: t.now, key: id, class: l.class, state: l.state}
		r.from, r.to = l.entry.codes()
		if _, err := hex.Decode(r.nonce[:], []byte(l.entry.Nonce)); err != nil {
			return err
		}
		r.payload = t.classes[l.class].seal(l.entry.detail(l.change), t.store.scope.associated(entryPlace+p.Key, revision))
		r.digest = digestOf(r.payload)
		b, covered := r.encode()
		mac := chain.sum(p.Key, revision, &l.prev.mac, b[:covered])
		l.mac = mac
		p.Entry = append(b, mac[:]...)
		p.Add = append(p.Add, Term{termLog, uint64(sequence)})
		next := link{sequence: sequence, mac: mac}
		p.Data = append(next.append(make([]byte, 0, linkSize+len(l.data))), l.data...)
	}
	return nil
}

// nextSequence is later than every sequence this store gave out, than floor, and
// than the clock.
func (s *Store) nextSequence(now time.Time, floor Sequence) Sequence {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence = max(s.sequence, floor, Sequence(now.UnixMicro())<<sequenceBits-1) + 1
	return s.sequence
}

// commit applies the transaction; its log entry at (key, revision) holds nonce. A driver
// may have applied a batch although it reported an error or, having sent it
// twice, a conflict against itself: the history tells.
func (t *transaction) commit(key string, revision uint64, nonce string) error {
	if err := t.complete(); err != nil {
		return err
	}
	s := t.store
	err := s.write(t.ctx, t.Batch)
	if err == nil {
		t.settled()
		return t.witnessed()
	}
	if errors.Is(err, ErrTooLarge) || errors.Is(err, ErrInvalidBatch) || errors.Is(err, ErrClosed) {
		return err
	}
	patience := 2 * time.Second
	if t.ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) { // a server that hangs must not hold back who has no time left
		patience = 200 * time.Millisecond
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), patience)
	defer cancel()
	log, lookErr := s.driver.History(look, s.scope.tenant, key, revision-1, 1)
	if lookErr == nil && len(log) == 1 && log[0].Revision == revision {
		var r record
		if _, err := r.decode(log[0].Data); err == nil && hex.EncodeToString(r.nonce[:]) == nonce {
			t.settled()
			return t.witnessed()
		}
	}
	return err
}

// head moves a head and the terms that hang on its state. The audit entry is in the same
// transaction (I-6), and so is the fence, unless nothing is taken from the row. The first entry
// has the whole head, a later one what can move of it. says is what the row says; it may be nil
// where the row cannot come to be relied on.
func (t *transaction) head(old, next Head, says *Content, e AuditEntry, c change) {
	if c.number > 0 {
		next.evidence = uint32(c.number)
	}
	p := Put{Key: headKey.of(next.ID), From: old.Revision}
	was, is := old.State(), next.stateOnce(old.Revision+1)
	if was != is {
		if was != 0 {
			p.Remove = []string{termState(was)}
		}
		p.Add = []Term{{termState(is), newestFirst(next.CreatedAt)}}
	}
	t.offered(&p, &old, &next, says)
	data := next.encode()
	state := data
	if old.Revision > 0 {
		state = next.encodeMoving()
	}
	t.log(p, old.link, data, state, next.Class, e, c)
	t.logged[len(t.logged)-1].takesNothing = !next.TakesFrom(&old)
}

// evidence puts the list of evidence of a row, and returns what changed in it for
// the entry that says why.
func (t *transaction) evidence(row *Head, old evidenceObject, void voiding, added []Evidence) change {
	c := change{number: old.Revision + 1, void: void, added: added}
	key, list := evidKey.of(row.ID), c.apply(old.list)
	t.put(Put{Key: key, From: old.Revision, Data: t.seal(row.Class, key, old.Revision, encodeEvidence(list))})
	if c.number%snapshotEvery == 0 {
		c.void, c.added = replacesAll, list
	}
	return c
}

// note puts the object that has the log of evidence which moved no state.
func (t *transaction) note(row *Head, old Object, prev link, e AuditEntry, c change) {
	w := encoder{}
	w.num(c.number)
	t.log(Put{Key: noteKey.of(row.ID), From: old.Revision}, prev, w.b, w.b, row.Class, e, c)
}

// evidenceObject is the object that holds the evidence of a row. Its revision is
// the number of changes that were made to the list.
type evidenceObject struct {
	Revision uint64
	list     []Evidence
}

// evidenceOf opens the evidence of a row. A list that is gone, or older than the one that
// the head was written with, is damaged.
func (s *Store) evidenceOf(ctx context.Context, of *Head, o Object) (evidenceObject, error) {
	e := evidenceObject{Revision: o.Revision}
	if o.Revision < uint64(of.evidence) || o.Data == nil && of.evidence > 0 && !of.Has(FlagErased) {
		return e, &DamagedError{Keys: []string{o.Key}}
	}
	if o.Data == nil {
		return e, nil
	}
	plain, err := s.unseal(ctx, o.Key, o.Revision, o.Data)
	if err == nil {
		d := decoder{b: plain}
		e.list = d.evidence()
		err = d.end()
	}
	return e, faulty(err, "row evidence")
}
