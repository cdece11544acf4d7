package memory

import (
	"context"
	"fmt"
	"strings"
)

// Rebuilt is what [Store.Rebuild] made again.
type Rebuilt struct {
	Rows      int `json:"rows"`
	Erased    int `json:"erased"`    // of them, skeletons
	Decisions int `json:"decisions"` // whose index was made again
	Lost      int `json:"lost"`      // rows and decisions whose content is gone without an erasure
}

// Rebuild makes everything that is a projection again from the logs and the
// contents: heads byte by byte as they were, evidence, corroboration records,
// identities, claims, lines, due marks, and every index. A log that does not hold against
// its chain stops it with a [*TamperError].
//
// Due marks come back on the safe side: a verified row is checked when its
// freshness ends, any other one now. Heat starts cold.
//
// Nothing else may write meanwhile. Open permits are voided at the end. It may be
// interrupted, and run again. progress, if not nil, hears the number of rows done.
func (s *Store) Rebuild(ctx context.Context, actor string, progress func(rows int)) (Rebuilt, error) {
	if _, err := s.admit(ctx); err != nil {
		return Rebuilt{}, err
	}
	b := rebuilding{s: s, auditor: NewAuditor(s.keys, s.scope.tenant, s.scope.namespace), claims: map[Token]*claimed{}, lines: map[string]bool{}, classes: map[Class]bool{}, calls: map[Digest]standing{}}
	for key, err := range s.Logs(ctx) {
		if err != nil {
			return b.Rebuilt, err
		}
		switch p, _ := placeOf(key); p {
		case headKey:
			err = b.row(ctx, rowOf(key))
			if progress != nil && err == nil {
				progress(b.Rows)
			}
		case echoKey:
			err = b.echo(ctx, key)
		case decisionKey:
			err = b.decision(ctx, key)
		case holdKey:
			err = b.hold(ctx, key)
		case ledgerKey:
			err = b.ledger(ctx, key)
		case systemKey, erasureKey:
			err = b.plain(ctx, key)
		}
		if err != nil {
			return b.Rebuilt, err
		}
	}
	if err := b.claimRecords(ctx); err != nil {
		return b.Rebuilt, err
	}
	if err := b.marks(ctx); err != nil {
		return b.Rebuilt, err
	}
	if err := b.flush(ctx); err != nil {
		return b.Rebuilt, err
	}
	return b.Rebuilt, s.BumpEpoch(ctx, actor, "the store was rebuilt")
}

// rebuilding gathers what is restored, some rows at a time.
type rebuilding struct {
	Rebuilt
	s       *Store
	auditor *Auditor
	claims  map[Token]*claimed
	lines   map[string]bool // that have a verified row
	classes map[Class]bool
	calls   map[Digest]standing
	batch   []Restored
	size    int
}

// claimed is what the rows of a claim say of it.
type claimed struct {
	first    ID
	class    Class
	rejected ID
	by       Rejection
	at       Sequence // of what decided whether a rejection stands
	class2   Class    // of the rejected row
}

func (b *rebuilding) restore(ctx context.Context, o Restored) error {
	b.batch = append(b.batch, o)
	b.size += len(o.Key) + len(o.Data)
	for _, t := range o.Terms {
		b.size += len(t.Name) + 8
	}
	if len(b.batch) < 500 && b.size < MaxBatchBytes/4 {
		return nil
	}
	return b.flush(ctx)
}

// logged restores an object at the end of its log.
func (b *rebuilding) logged(ctx context.Context, log *Log, data []byte, terms ...Term) error {
	return b.restore(ctx, Restored{Object: log.object(data), Terms: append(terms, log.term())})
}

func (l *Log) term() Term { return Term{termLog, uint64(l.sequence)} }

func (b *rebuilding) flush(ctx context.Context) error {
	if len(b.batch) == 0 {
		return nil
	}
	err := b.s.driver.Restore(ctx, b.s.scope.tenant, b.batch)
	b.batch, b.size = b.batch[:0], 0
	return err
}

// read verifies a log and returns what it adds up to.
func (b *rebuilding) read(ctx context.Context, key string, entry func(LogEntry) error) (*Log, error) {
	log := &Log{Key: key}
	for l, err := range b.s.entries(ctx, key, 0) {
		if err != nil {
			return nil, err
		}
		if err := b.auditor.Next(log, l); err != nil {
			return nil, err
		}
		if entry != nil {
			if err := entry(l); err != nil {
				return nil, err
			}
		}
	}
	return log, nil
}

func (l *Log) link() link { return link{l.sequence, l.MAC} }

// object is a logged object at the end of its log.
func (l *Log) object(data []byte) Object {
	last := l.link()
	return Object{Key: l.Key, Revision: l.Revision, Data: append(last.append(nil), data...)}
}

func (b *rebuilding) row(ctx context.Context, id ID) error {
	s := b.s
	var moves []AuditEntry
	changes := map[uint64]change{}
	log, err := b.read(ctx, headKey.of(id), func(l LogEntry) error {
		e, c, err := s.entry(ctx, headKey.of(id), l)
		moves = append(moves, e)
		changes[c.number] = c
		return err
	})
	if err != nil {
		return err
	}
	h, err := replay(log.first, log.state, log.erased)
	if err != nil {
		return &TamperError{log.Key, log.Revision, "the head does not add up"}
	}
	h.ID, h.Revision, h.link = id, log.Revision, log.link()
	b.Rows++
	if err := b.class(ctx, h.Class); err != nil {
		return err
	}
	if log.erased {
		b.Erased++
		return b.logged(ctx, log, h.encode())
	}
	if err := b.logged(ctx, log, h.encode(), Term{termState(h.State()), newestFirst(h.CreatedAt)}); err != nil {
		return err
	}
	objs, err := s.get(ctx, bodyKey.of(id), dueKey.of(id))
	if err != nil {
		return err
	}
	if objs[0].Data == nil {
		b.Lost++
		return nil
	}
	about, err := s.body(ctx, objs[0])
	if isErased(err) { // an erasure of it began; it goes on with what is there
		return nil
	}
	if err != nil {
		return err
	}
	d := Draft{Content: about.Content, Origin: about.Origin, Asserter: about.Asserter, Run: about.Run, Anchor: about.Anchor}
	if err := b.restore(ctx, Restored{Object: objs[0], Terms: s.bodyTerms(d, &h, about.DerivedFrom)}); err != nil {
		return err
	}
	if err := b.restore(ctx, Restored{Object: Object{Key: identKey.at(s.ident(d)), Revision: 1, Data: []byte(id)}}); err != nil {
		return err
	}
	if err := b.evidence(ctx, &h, changes); err != nil {
		return err
	}
	b.claim(&h, moves)
	if err := b.line(ctx, &h, about.Content); err != nil {
		return err
	}
	return b.due(ctx, &h, objs[1])
}

// line makes the object of a line with a verified row again, if it is lost: where it
// is missing nobody looks for rivals.
func (b *rebuilding) line(ctx context.Context, h *Head, c Content) error {
	if h.Truth != TruthSupported || !c.Typed() {
		return nil
	}
	key := b.s.line(c)
	if b.lines[key] {
		return nil
	}
	b.lines[key] = true
	objs, err := b.s.get(ctx, key)
	if err != nil || objs[0].Revision > 0 {
		return err
	}
	return b.restore(ctx, Restored{Object: Object{Key: key, Revision: 1, Data: lineLost}})
}

// class restores what the class of a row is found by.
func (b *rebuilding) class(ctx context.Context, class Class) error {
	if b.classes[class] {
		return nil
	}
	b.classes[class] = true
	objs, err := b.s.get(ctx, classObject(class))
	if err != nil || objs[0].Data == nil {
		return err
	}
	c, _, err := decodeClass(class, objs[0].Data)
	if err != nil {
		return err
	}
	o, set := Restored{Object: objs[0]}, b.s.setOf(c.keys)
	for _, k := range c.keys {
		o.Terms = append(o.Terms, Term{termKey(k), set})
	}
	return b.restore(ctx, o)
}

// evidence restores the list and the note. changes are those of the head's log.
func (b *rebuilding) evidence(ctx context.Context, h *Head, changes map[uint64]change) error {
	log, err := b.read(ctx, noteKey.of(h.ID), func(l LogEntry) error {
		_, c, err := b.s.entry(ctx, noteKey.of(h.ID), l)
		changes[c.number] = c
		return err
	})
	if err != nil {
		return err
	}
	if log.Revision > 0 {
		if err := b.logged(ctx, log, log.state); err != nil {
			return err
		}
	}
	delete(changes, 0)
	n := uint64(len(changes))
	for i := range n {
		if _, ok := changes[i+1]; !ok {
			return &TamperError{headKey.of(h.ID), h.Revision, "a change of its evidence is missing"}
		}
	}
	if n == 0 {
		return nil
	}
	key := evidKey.of(h.ID)
	t := b.s.begin(ctx, b.s.Now())
	sealed := t.seal(h.Class, key, n-1, encodeEvidence(addUp(changes, 1, n)))
	if t.err != nil {
		return t.err
	}
	return b.restore(ctx, Restored{Object: Object{Key: key, Revision: n, Data: sealed}})
}

func (b *rebuilding) due(ctx context.Context, h *Head, old Object) error {
	t := b.s.begin(ctx, b.s.Now())
	switch {
	case h.Truth == TruthSuperseded:
		t.notDue(h.ID, old)
	case h.Truth == TruthSupported:
		t.due(h, old, due{Reason: dueAgain}, h.StaleAt)
	default:
		t.due(h, old, due{Reason: dueRebuilt}, b.s.Now())
	}
	if t.err != nil || len(t.Puts) == 0 {
		return t.err
	}
	p := t.Puts[0]
	return b.restore(ctx, Restored{Object: Object{Key: dueKey.of(h.ID), Revision: p.From + 1, Data: p.Data}, Terms: p.Add})
}

// claim notes what a row says of its claim: logs come in the order of ids, so the
// first row is the one that was written first.
func (b *rebuilding) claim(h *Head, moves []AuditEntry) {
	c := b.claims[h.Claim]
	if c == nil {
		c = &claimed{first: h.ID, class: h.Class}
		b.claims[h.Claim] = c
	}
	for _, e := range moves {
		if e.Sequence < c.at {
			continue
		}
		switch {
		case e.Kind == EntryReject:
			c.at, c.rejected, c.class2 = e.Sequence, h.ID, h.Class
			c.by = Rejection{By: e.Actor, Reason: e.Reason, At: e.At}
		case e.Axis == AxisTruth && e.Kind != EntryContest && (e.To == TruthSupported.String() || e.To == StateVerified.String()):
			c.at, c.rejected = e.Sequence, "" // who may verify what was rejected ends the rejection
		}
	}
}

func (b *rebuilding) claimRecords(ctx context.Context) error {
	for token, c := range b.claims {
		key := claimKey.at(token)
		objs, err := b.s.get(ctx, key)
		if err != nil {
			return err
		}
		r, class := claimRecord{First: c.first}, c.class
		if c.rejected != "" {
			r.Rejected, r.Rejection, class = c.rejected, &c.by, c.class2
		}
		t := b.s.begin(ctx, b.s.Now())
		// A record that was lost counts as one that was put again: whether something was
		// said against the claim is looked up.
		t.claim(key, max(objs[0].Revision, 1), r, class)
		if t.err != nil {
			return t.err
		}
		p := t.Puts[0]
		if err := b.restore(ctx, Restored{Object: Object{Key: key, Revision: p.From + 1, Data: p.Data}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *rebuilding) echo(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	data, _ := projected(log)
	return b.logged(ctx, log, data)
}

// plain restores an object whose log has all of its data.
func (b *rebuilding) plain(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	return b.logged(ctx, log, log.state)
}

func (b *rebuilding) decision(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	objs, err := b.s.get(ctx, key)
	if err != nil {
		return err
	}
	if objs[0].Data == nil {
		b.Lost++
		return nil
	}
	if log.erased {
		return b.logged(ctx, log, nil)
	}
	if err := b.auditor.End(log, objs[0]); err != nil {
		return err
	}
	r, _, class, ok, err := b.s.decisionOf(ctx, objs[0])
	if err != nil || !ok {
		return err
	}
	if err := b.class(ctx, class); err != nil {
		return err
	}
	b.Decisions++
	if (objs[0].Revision == 1 || strings.HasPrefix(r.Outcome, OutcomeUnknown)) && !r.Slot.IsZero() {
		if at, have := b.calls[r.Slot]; !have || at.ended {
			b.calls[r.Slot] = standing{mark: mark(markFired, r.ID)}
		}
	}
	return b.restore(ctx, Restored{Object: objs[0], Terms: append(b.s.decisionTerms(&r, class), log.term())})
}

// standing is what the mark of a call is made again of.
type standing struct {
	mark  []byte
	ended bool // nothing stands in the way of the call
}

// marks makes the marks of calls again that are gone.
func (b *rebuilding) marks(ctx context.Context) error {
	for slot, at := range b.calls {
		objs, err := b.s.get(ctx, b.s.markOf(slot))
		if err != nil {
			return err
		}
		if objs[0].Revision == 0 {
			if err := b.restore(ctx, Restored{Object: Object{Key: objs[0].Key, Revision: 1, Data: at.mark}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// hold restores what a hold is found by. Holds come before decisions do, and later
// ones after earlier ones.
func (b *rebuilding) hold(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	objs, err := b.s.get(ctx, key)
	if err != nil {
		return err
	}
	if objs[0].Data == nil {
		b.Lost++
		return nil
	}
	if log.erased {
		return b.logged(ctx, log, nil)
	}
	if err := b.auditor.End(log, objs[0]); err != nil {
		return err
	}
	h, _, class, err := b.s.holdOf(ctx, objs[0])
	if isErased(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.class(ctx, class); err != nil {
		return err
	}
	if h.State != HoldStale {
		b.calls[h.Slot] = standing{mark(markHold, h.ID), h.State != HoldWaiting && h.State != HoldGranted && h.State != HoldFired && h.State != HoldUnknown}
	}
	return b.restore(ctx, Restored{Object: objs[0], Terms: append(b.s.holdTerms(&h, class), log.term())})
}

// String is a line for people.
func (r Rebuilt) String() string {
	return fmt.Sprintf("%d rows (%d erased), %d decisions, %d without content", r.Rows, r.Erased, r.Decisions, r.Lost)
}
