package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
)

// Rebuilt is what [Store.Rebuild] made again.
type Rebuilt struct {
	Rows      int `json:"rows"`
	Erased    int `json:"erased"`    // of them, skeletons
	Decisions int `json:"decisions"` // whose index was made again
	Lost      int `json:"lost"`      // rows, decisions and the like whose content is gone without an erasure, or cannot be opened
}

// Rebuild makes everything that is a projection again from the logs and the
// contents: heads byte by byte as they were, evidence, corroboration records,
// identities, claims, lines, due marks, the objects of the whole store, and every index. A log
// that does not hold against its chain stops it with a [*TamperError], and so does one that ends
// before its object, which is looked for first.
//
// What lies in one place only does not come back: the body of a row, the record of a decision,
// the class of some subjects. It counts as [Rebuilt.Lost], and what is there is left as it is.
// A rejection by a person stands although what was rejected is lost.
//
// Due marks come back on the safe side: a verified row is checked when its
// freshness ends, any other one now. Heat starts cold.
//
// Nothing else may write meanwhile. Open permits are voided at the end. It may be
// interrupted, and run again. progress, if not nil, hears the number of rows done.
func (s *Store) Rebuild(ctx context.Context, actor string, progress func(rows int)) (Rebuilt, error) {
	if err := s.readmit(ctx); err != nil {
		return Rebuilt{}, err
	}
	s.driver.floor.clear() // what comes back may begin anew
	b := s.rebuilding()
	if err := b.all(ctx, progress); err != nil {
		return b.Rebuilt, err
	}
	return b.Rebuilt, s.BumpEpoch(ctx, actor, "the store was rebuilt")
}

// readmit is admit, and makes the first object of a scope again that was damaged or is gone: the
// keys know the scope, and the log of the epoch was begun with them.
func (s *Store) readmit(ctx context.Context) error {
	_, err := s.admit(ctx)
	var wrong *WrongKeyError
	if !errors.Is(err, ErrDamaged) && !errors.As(err, &wrong) {
		return err
	}
	if made, keyErr := s.keys.Subject(ctx, s.scope.mark()); keyErr != nil || len(made) == 0 {
		return err
	}
	log, logErr := s.driver.History(ctx, s.scope.tenant, epochKey, 0, 1)
	if logErr != nil || len(log) == 0 || s.auditor.Next(&Log{Key: epochKey}, log[0]) != nil {
		return err
	}
	first := Restored{Object: Object{Key: keysKey, Revision: 1, Data: s.keysObject()}}
	if err := s.driver.Restore(ctx, s.scope.tenant, []Restored{first}); err != nil {
		return err
	}
	_, err = s.admit(ctx)
	return err
}

func (s *Store) rebuilding() *rebuilding {
	return &rebuilding{s: s, auditor: NewAuditor(s.keys, s.scope.tenant, s.scope.namespace), claims: map[Token]*claimed{}, lines: map[string]*lineRecord{}, names: map[string]*alikeRecord{}, rejected: map[string]*alikeRecord{}, classes: map[Class]bool{}, calls: map[Digest]*callHistory{}, acts: map[Digest]*callHistory{}, own: map[string][][]ID{}, dues: map[string][]Term{}}
}

// all makes everything again that has a log, or that is a function of what has one.
func (b *rebuilding) all(ctx context.Context, progress func(rows int)) error {
	if err := b.logsReach(ctx); err != nil {
		return err
	}
	for key, err := range b.s.Logs(ctx) {
		if err != nil {
			return err
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
		case handKey:
			err = b.hand(ctx, key)
		case systemKey, erasureKey:
			err = b.plain(ctx, key)
		}
		if err != nil {
			return err
		}
	}
	if err := b.claimRecords(ctx); err != nil {
		return err
	}
	if err := b.lineRecords(ctx); err != nil {
		return err
	}
	for _, made := range [...]map[string]*alikeRecord{b.names, b.rejected} {
		if err := b.spelled(ctx, made); err != nil {
			return err
		}
	}
	if err := b.marks(ctx); err != nil {
		return err
	}
	if err := b.fences(ctx); err != nil {
		return err
	}
	return b.strays(ctx)
}

// fences makes those again that are gone or damaged. Each was moved by fewer transactions than
// there are entries.
func (b *rebuilding) fences(ctx context.Context) error {
	objs, err := b.get(ctx, fenceKeys[:]...)
	if err != nil {
		return err
	}
	for _, o := range objs {
		if o.Revision > 0 {
			continue
		}
		if err := b.restore(ctx, Restored{Object: Object{Key: o.Key, Revision: b.steps + 1, Data: fenceData}}); err != nil {
			return err
		}
	}
	return nil
}

// get reads objects to make others of. One that is not what was written is read as one
// that is not there.
func (b *rebuilding) get(ctx context.Context, keys ...string) ([]Object, error) {
	objs, damaged, err := b.s.each(ctx, keys)
	for _, i := range damaged {
		objs[i] = Object{Key: objs[i].Key}
	}
	return objs, err
}

// lasting reads the object of a log whose content no log has. Data is nil if it is gone or
// damaged. If only its revision was altered, it gets the revision of its log again.
func (b *rebuilding) lasting(ctx context.Context, log *Log) (Object, error) {
	objs, damaged, err := b.s.each(ctx, []string{log.Key})
	if err != nil {
		return Object{}, err
	}
	if len(damaged) == 0 {
		return objs[0], nil
	}
	for o, err := range b.s.driver.Driver.Objects(ctx, b.s.scope.tenant, log.Key) {
		if err != nil {
			return Object{}, err
		}
		if o.Revision = log.Revision; o.Key == log.Key && b.s.driver.unsealed(&o.Object) {
			return o.Object, b.s.driver.Restore(ctx, b.s.scope.tenant, []Restored{o})
		}
	}
	return Object{Key: log.Key}, nil
}

// rebuilding gathers what is restored, some rows at a time.
type rebuilding struct {
	Rebuilt
	s       *Store
	auditor *Auditor
	claims  map[Token]*claimed
	lines   map[string]*lineRecord // that have a verified row
	names   map[string]*alikeRecord
	classes map[Class]bool
	// Of the claims whose rejection stands.
	rejected map[string]*alikeRecord
	calls    map[Digest]*callHistory // by slot
	acts     map[Digest]*callHistory
	steps    uint64            // entries of the logs that may have moved a fence
	dues     map[string][]Term // of the due marks that were made again, by key; nil = there is none
	own      map[string][][]ID // by object, what each call rested on that noted there what it set
	batch    []Restored
	size     int
}

// claimed is what the rows of a claim say of it.
type claimed struct {
	rows     []ID // all of them
	decide   []ID // those that are verified or contradicted
	rejected ID
	by       Rejection
	at       Sequence // of the rejection
	class2   Class    // of the rejected row
	lifts    []lift
	as       string  // what the object of the claim is known by when it is rejected; "" = no row says it
	gave     []Token // the groups of who gave it; zero = any
}

// lift is a user's word that verified a row of a claim.
type lift struct {
	row ID
	at  Sequence
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

// logsReach gives a [*TamperError] if an object is ahead of the log that it would be made again
// from. Its log is gone, or its tail is cut, and what that said against a row would be forgotten.
func (b *rebuilding) logsReach(ctx context.Context) error {
	for o, err := range b.s.driver.Objects(ctx, b.s.scope.tenant, "") {
		switch {
		case unreadable(err):
			continue
		case err != nil:
			return err
		case !hasLog(o) || o.Revision == 0:
			continue
		}
		reached := false
		for _, err := range b.s.unpacked(ctx, o.Key, o.Revision-1) {
			if err != nil {
				return err
			}
			reached = true
			break
		}
		if !reached {
			return &TamperError{o.Key, o.Revision, "the log ends before the object: its tail is cut"}
		}
	}
	return nil
}

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
	for l, err := range b.s.unpacked(ctx, key, 0) {
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
	changes, shut := map[uint64]change{}, false // shut: an entry cannot be opened
	log, err := b.read(ctx, headKey.of(id), func(l LogEntry) error {
		e, c, err := s.entry(ctx, headKey.of(id), l)
		if unreadable(err) {
			shut, e.Actor, e.Reason, err = true, "(unreadable)", "(unreadable)", nil
		}
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
	b.steps += log.Revision
	if err := b.class(ctx, h.Class); err != nil {
		return err
	}
	if log.erased {
		b.Erased++
		return cmp.Or(b.note(ctx, id, nil), b.logged(ctx, log, h.encode()))
	}
	terms := []Term{{termState(h.State()), newestFirst(h.CreatedAt)}}
	objs, err := b.get(ctx, bodyKey.of(id), dueKey.of(id))
	if err != nil {
		return err
	}
	var about body
	if objs[0].Data != nil {
		about, err = s.body(ctx, objs[0])
	}
	if shut = shut || objs[0].Data == nil || unreadable(err); shut {
		b.Lost++
		b.claim(&h, moves, shut) // a rejection stands
		b.gave(&h, Token{})
		return cmp.Or(b.note(ctx, id, nil), b.logged(ctx, log, h.encode(), terms...))
	}
	if isErased(err) { // an erasure of it began; it goes on with what is there
		b.claim(&h, moves, true)
		b.gave(&h, Token{})
		return cmp.Or(b.note(ctx, id, nil), b.logged(ctx, log, h.encode(), terms...))
	}
	if err != nil {
		return err
	}
	if err := b.logged(ctx, log, h.encode(), append(terms, s.offerTerms(h.offer(), about.Content)...)...); err != nil {
		return err
	}
	d := about.draft()
	if err := b.restore(ctx, Restored{Object: objs[0], Terms: s.bodyTerms(d, &h, about.DerivedFrom)}); err != nil {
		return err
	}
	_, ident := s.tokens(&d)
	if err := b.restore(ctx, Restored{Object: Object{Key: identKey.at(ident), Revision: 1, Data: []byte(id)}}); err != nil {
		return err
	}
	said, err := b.evidence(ctx, &h, changes)
	if err != nil {
		return err
	}
	b.claim(&h, moves, false)
	b.gave(&h, s.scope.gave(&h, about.Origin, said)...)
	if key := s.rejectedAs(&about.Content); key != "" {
		b.claims[h.Claim].as = key
	}
	b.line(&h, about.Content)
	if about.Quotes != "" { // nobody is asked about it
		return nil
	}
	return b.due(ctx, &h, objs[1], about.Content)
}

// line notes a verified row for the object of its line. What may contradict others is
// listed however much it is.
func (b *rebuilding) line(h *Head, c Content) {
	if h.Truth != TruthSupported || !c.Typed() {
		return
	}
	key := b.s.line(c)
	recordAt(b.names, b.s.namesOf(&c)).add(alikeEntry{of: lineToken(key)})
	l := recordAt(b.lines, key)
	switch {
	case c.Cardinality == CardinalityFunctional:
		l.functional = append(l.functional, h.ID)
	case len(l.plain) < maxListed:
		l.plain = append(l.plain, h.ID)
	default:
		l.morePlain = true
	}
}

// recordAt is the record of a key, which is made if there is none.
func recordAt[R any](all map[string]*R, key string) *R {
	if all[key] == nil {
		all[key] = new(R)
	}
	return all[key]
}

// spurned notes that the rejection of a claim stands, and who gave its object.
func (b *rebuilding) spurned(ctx context.Context, claim Token, c *claimed) error {
	if c.as == "" {
		return nil
	}
	r := recordAt(b.rejected, c.as)
	objs, err := b.get(ctx, bodyKey.of(c.rejected))
	if err != nil {
		return err
	}
	if says, err := b.s.body(ctx, objs[0]); err == nil && b.s.own(c.by.By, says.Content.Subject, says.Content.Predicate) {
		r.add(alikeEntry{claim, forOneself})
		return nil
	}
	for _, g := range append(c.gave, claim) {
		r.add(alikeEntry{claim, g})
	}
	return nil
}

// gave notes who gave what a claim says.
func (b *rebuilding) gave(h *Head, groups ...Token) {
	c := b.claims[h.Claim]
	for _, g := range groups {
		if !slices.Contains(c.gave, g) {
			c.gave = append(c.gave, g)
		}
	}
}

// spelled makes the objects again that say which names are spelled alike and what was rejected. What is
// there and can be read stays in them: rows that said more may be erased.
func (b *rebuilding) spelled(ctx context.Context, made map[string]*alikeRecord) error {
	for key, r := range made {
		objs, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		if was, err := alikeOf(objs[0]); err == nil {
			for _, e := range r.list {
				was.add(e)
			}
			was.more = was.more || r.more
			r = &was
		}
		if err := b.restore(ctx, Restored{Object: Object{Key: key, Revision: objs[0].Revision + 1, Data: r.encode()}}); err != nil {
			return err
		}
	}
	return nil
}

func (b *rebuilding) lineRecords(ctx context.Context) error {
	for key, l := range b.lines {
		objs, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		if err := b.restore(ctx, Restored{Object: Object{Key: key, Revision: objs[0].Revision + 1, Data: l.encode()}}); err != nil {
			return err
		}
	}
	return nil
}

// class restores what the class of a row is found by.
func (b *rebuilding) class(ctx context.Context, class Class) error {
	if b.classes[class] {
		return nil
	}
	b.classes[class] = true
	objs, err := b.get(ctx, classObject(class))
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

// note restores the object of the log of evidence that moved no state.
func (b *rebuilding) note(ctx context.Context, row ID, entry func(LogEntry) error) error {
	log, err := b.read(ctx, noteKey.of(row), entry)
	if err != nil || log.Revision == 0 {
		return err
	}
	return b.logged(ctx, log, log.state)
}

// evidence restores the list and the note, and returns the list. changes are those of the head's log.
func (b *rebuilding) evidence(ctx context.Context, h *Head, changes map[uint64]change) ([]Evidence, error) {
	err := b.note(ctx, h.ID, func(l LogEntry) error {
		_, c, err := b.s.entry(ctx, noteKey.of(h.ID), l)
		changes[c.number] = c
		return err
	})
	if err != nil {
		return nil, err
	}
	delete(changes, 0)
	n := uint64(len(changes))
	for i := range n {
		if _, ok := changes[i+1]; !ok {
			return nil, &TamperError{headKey.of(h.ID), h.Revision, "a change of its evidence is missing"}
		}
	}
	if n == 0 {
		return nil, nil
	}
	key := evidKey.of(h.ID)
	t := b.s.begin(ctx, b.s.Now())
	list := addUp(changes, 1, n)
	sealed := t.seal(h.Class, key, n-1, encodeEvidence(list))
	if t.err != nil {
		return nil, t.err
	}
	return list, b.restore(ctx, Restored{Object: Object{Key: key, Revision: n, Data: sealed}})
}

func (b *rebuilding) due(ctx context.Context, h *Head, old Object, c Content) error {
	t := b.s.begin(ctx, b.s.Now())
	about := b.s.scope.about(c)
	switch {
	case h.Truth == TruthSuperseded && !h.Has(FlagOutdated):
		t.notDue(h.ID, old)
	case h.Truth == TruthSupported:
		t.dueAbout(h, old, due{Reason: dueAgain, About: about}, h.StaleAt)
	default:
		t.dueAbout(h, old, due{Reason: dueRebuilt, About: about}, b.s.Now())
	}
	key := dueKey.of(h.ID)
	b.dues[key] = nil
	if t.err != nil || len(t.Puts) == 0 {
		return t.err
	}
	p := t.Puts[0]
	b.dues[key] = p.Add
	return b.restore(ctx, Restored{Object: Object{Key: key, Revision: p.From + 1, Data: p.Data}, Terms: p.Add})
}

// strays takes lines out of the index by which due marks are found that were lost: only these
// come back with other terms than they had. A mark carries such a line first, so that the
// driver knows of it when the mark is put as it is.
func (b *rebuilding) strays(ctx context.Context) error {
	if err := b.flush(ctx); err != nil {
		return err
	}
	var strays []Carrier
	for _, name := range []string{termDue, termHot, termAbout, termLater, termParked} {
		for c, err := range b.s.driver.Carriers(ctx, b.s.scope.tenant, name) {
			if err != nil {
				return err
			}
			if is, made := b.dues[c.Key]; made && !slices.Contains(is, c.Term) {
				strays = append(strays, c)
			}
		}
	}
	for _, c := range strays {
		objs, err := b.get(ctx, c.Key)
		if err != nil {
			return err
		}
		mark := Restored{Object: objs[0], Terms: b.dues[c.Key]}
		with := mark
		with.Revision, with.Terms = max(mark.Revision, 1), []Term{c.Term}
		for _, o := range []Restored{with, mark} {
			if err := b.s.driver.Restore(ctx, b.s.scope.tenant, []Restored{o}); err != nil {
				return err
			}
		}
	}
	return nil
}

// claim notes what a row says of its claim: logs come in the order of ids, so the
// first row is the one that was written first. shut says that its class cannot be opened, so
// that nothing can be sealed under it.
func (b *rebuilding) claim(h *Head, moves []AuditEntry, shut bool) {
	c := b.claims[h.Claim]
	if c == nil {
		c = &claimed{}
		b.claims[h.Claim] = c
	}
	c.rows = append(c.rows, h.ID)
	if h.decides() {
		c.decide = append(c.decide, h.ID)
	}
	for _, e := range moves {
		switch {
		case e.Kind == EntryReject && e.Sequence >= c.at:
			c.at, c.rejected, c.class2 = e.Sequence, h.ID, h.Class
			c.by = Rejection{By: e.Actor, Reason: e.Reason, At: e.At}
			if shut {
				c.class2 = 0
			}
		case e.Axis == AxisTruth && e.Kind != EntryContest && lifts(e.Authority, e.Kind, h.Origin) && (e.To == TruthSupported.String() || e.To == StateVerified.String()):
			c.lifts = append(c.lifts, lift{h.ID, e.Sequence})
		}
	}
}

// stands reports whether the last rejection of a claim stands: only a user's later word on
// a row of the very subject that was rejected ends it.
func (b *rebuilding) stands(ctx context.Context, c *claimed) (bool, error) {
	if c.rejected == "" {
		return false, nil
	}
	for _, l := range c.lifts {
		if l.at < c.at {
			continue
		}
		if l.row == c.rejected {
			return false, nil
		}
		objs, err := b.get(ctx, bodyKey.of(l.row), bodyKey.of(c.rejected))
		if err != nil {
			return false, err
		}
		of, err := b.s.body(ctx, objs[0])
		if err != nil {
			continue
		}
		if rejected, err := b.s.body(ctx, objs[1]); err == nil && of.Content.beside(rejected.Content) {
			return false, nil
		}
	}
	return true, nil
}

func (b *rebuilding) claimRecords(ctx context.Context) error {
	for token, c := range b.claims {
		key := claimKey.at(token)
		objs, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		// Whether something was said against the claim is looked up. Rows that decide are
		// listed however many they are: none of them was contested for want of room.
		r := claimRecord{Rows: c.rows, said: true}
		if len(c.rows) > maxListed {
			r.Rows, r.more = append(c.rows[:1:1], without(c.decide, c.rows[0])...), true
		}
		rejected, err := b.stands(ctx, c)
		if err != nil {
			return err
		}
		if rejected {
			r.Rejected, r.Rejection, r.class = c.rejected, &c.by, c.class2
			if err := b.spurned(ctx, token, c); err != nil {
				return err
			}
		}
		t := b.s.begin(ctx, b.s.Now())
		t.claim(key, max(objs[0].Revision, 1), r)
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
	b.steps += log.Revision
	if untoldKey.holds(key) {
		return b.logged(ctx, log, log.state, log.untoldTerms()...)
	}
	return b.logged(ctx, log, log.state)
}

// hand restores what a hand-over left, or that its nonce is spent. What was left and is
// gone stays so: its log keeps the nonce from being used.
func (b *rebuilding) hand(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	if len(log.state) > 0 && log.state[0] == spentMark && len(log.state) < sha256.Size {
		return b.logged(ctx, log, log.state)
	}
	o, err := b.lasting(ctx, log)
	if err != nil {
		return err
	}
	if o.Data == nil {
		b.Lost++
		return nil
	}
	if err := b.auditor.End(log, o); err != nil {
		return err
	}
	h, err := decodeHanded(o)
	if err != nil {
		return err
	}
	return b.restore(ctx, Restored{Object: o, Terms: append(h.terms(), log.term())})
}

func (b *rebuilding) decision(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	o, err := b.lasting(ctx, log)
	if err != nil {
		return err
	}
	if o.Data == nil {
		b.Lost++
		return nil
	}
	if log.erased {
		return b.logged(ctx, log, nil)
	}
	if err := b.auditor.End(log, o); err != nil {
		return err
	}
	r, _, class, ok, err := b.s.decisionOf(ctx, o)
	if unreadable(err) {
		b.Lost++
		return nil
	}
	if err != nil || !ok {
		return err
	}
	if err := b.class(ctx, class); err != nil {
		return err
	}
	b.Decisions++
	for _, key := range r.marked() {
		b.own[key] = append(b.own[key], r.Unvouched)
	}
	if !r.Slot.IsZero() {
		c := historyOf(b.calls, r.Slot)
		if c.letThrough(&r.DecisionRecord, log.begun, slotMark(&r.DecisionRecord)); r.once() {
			c.done = append(c.done, doneCall{id: r.ID})
		}
	}
	if !r.Act.IsZero() {
		c := historyOf(b.acts, r.Act)
		if c.letThrough(&r.DecisionRecord, log.begun, b.s.scope.actMark(&r.DecisionRecord)); r.settledDone() {
			c.done = append(c.done, doneCall{r.ID, r.settledAt()})
		}
	}
	return b.restore(ctx, Restored{Object: o, Terms: append(b.s.decisionTerms(&r, class), log.term())})
}

// historyOf is the history that is kept of a call.
func historyOf(all map[Digest]*callHistory, call Digest) *callHistory {
	c := all[call]
	if c == nil {
		c = &callHistory{}
		all[call] = c
	}
	return c
}

// marks makes the marks of calls again that are gone or damaged.
func (b *rebuilding) marks(ctx context.Context) error {
	again := func(key string, c *callHistory) error {
		objs, damaged, err := b.s.each(ctx, []string{key})
		if err != nil {
			return err
		}
		mark := c.mark()
		made := Object{Key: key, Revision: 1, Data: mark.encode()}
		if made.Data == nil {
			made.Revision = 0 // the call has none
		}
		if len(damaged) == 0 && (objs[0].Revision > 0 || made.Data == nil) {
			return nil
		}
		return b.restore(ctx, Restored{Object: made})
	}
	for slot, c := range b.calls {
		if err := again(b.s.markOf(slot), c); err != nil {
			return err
		}
	}
	for act, c := range b.acts {
		if err := again(b.s.actOf(act), c); err != nil {
			return err
		}
	}
	return b.ownWrites(ctx)
}

// ownWrites puts back what calls noted of what they set, where it is gone: what it was no
// log says, so it stands for any value.
func (b *rebuilding) ownWrites(ctx context.Context) error {
	for key, calls := range b.own {
		objs, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		if objs[0].Revision > 0 {
			continue
		}
		any := ownWrite{anywhere: true, whatever: true}
		for _, rows := range calls {
			any.join(&ownWrite{rows: rows})
		}
		if err := b.restore(ctx, Restored{Object: Object{Key: key, Revision: uint64(len(calls)), Data: ownWrites{any}.encode()}}); err != nil {
			return err
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
	o, err := b.lasting(ctx, log)
	if err != nil {
		return err
	}
	if o.Data == nil {
		b.Lost++
		return nil
	}
	if log.erased {
		return b.logged(ctx, log, nil)
	}
	if err := b.auditor.End(log, o); err != nil {
		return err
	}
	h, _, class, err := b.s.holdOf(ctx, o)
	if unreadable(err) {
		b.Lost++
		return nil
	}
	if isErased(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := b.class(ctx, class); err != nil {
		return err
	}
	historyOf(b.calls, h.Slot).holds(h.ID, log.begun)
	return b.restore(ctx, Restored{Object: o, Terms: append(b.s.holdTerms(&h, class), log.term())})
}

// String is a line for people.
func (r Rebuilt) String() string {
	return fmt.Sprintf("%d rows (%d erased), %d decisions, %d without content", r.Rows, r.Erased, r.Decisions, r.Lost)
}
