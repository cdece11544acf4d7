package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"
)

// What a run has read feeds each of its calls, so that the decisions of a run cite the
// same rows again and again. They are kept once, as segments of the ledger of the run:
// a decision cites segments, and besides them the few rows that are in none, or that
// are at another fitness version than there. A segment is written with the first
// decision that cites it and never changes; it is named by what is in it, so that
// another process which writes the same one meets it, and so that a decision commits
// to it. It is sealed under the class of its rows, and is erased with any of them.

const (
	segmentFrom = 8   // so many rows are worth a segment
	segmentUpTo = 512 // and so many are in one
)

// segment is a part of a ledger. It is immutable.
type segment struct {
	key   string
	class Class
	rows  []Cited // in the order in which a decision cited them first
	known bool    // it is in the store
}

// segmentKey names a segment of a run by what is in it.
func (s *Store) segmentKey(run string, rows []Cited) string {
	return ledgerKey.at(s.scope.blind("ledger", run+"\x00"+string(encodeSegment(rows))))
}

func encodeSegment(rows []Cited) []byte {
	const each = packedID + 2
	e := encoder{b: make([]byte, 0, each*len(rows))}
	for _, c := range rows {
		e.b = appendID(e.b, c.Row)
		e.num(c.Revision)
	}
	return e.b
}

func decodeSegment(b []byte) (rows []Cited, err error) {
	d := decoder{b: b}
	for len(d.b) > 0 && !d.bad {
		id := d.take(packedID)
		if revision := d.num(); !d.bad {
			rows = append(rows, Cited{Row: unpackIDs(id)[0], Revision: revision})
		}
	}
	return rows, d.end()
}

// ledgers are the segments that are known, by run.
type ledgers struct {
	mu   sync.Mutex
	runs map[string][]*segment
	rows int
}

// ledgersRows is how many rows of segments are kept: some 30 MB at most.
const ledgersRows = 1 << 18

func (l *ledgers) of(run string) []*segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[run]
}

// put keeps the segments that a decision of a run cited, and of the others as many
// as a decision may have use for.
func (l *ledgers) put(run string, cited []*segment) {
	const others = 16
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := slices.Clone(cited)
	for _, s := range l.runs[run] {
		if len(kept) < len(cited)+others && !slices.ContainsFunc(kept, func(k *segment) bool { return k.key == s.key }) {
			kept = append(kept, s)
		}
	}
	l.rows -= rowsOf(l.runs[run])
	if l.rows += rowsOf(kept); l.rows > ledgersRows || l.runs == nil {
		l.runs, l.rows = map[string][]*segment{}, rowsOf(kept)
	}
	l.runs[run] = kept
}

func rowsOf(list []*segment) (n int) {
	for _, s := range list {
		n += len(s.rows)
	}
	return n
}

// forget drops a segment that is not what it was taken for.
func (l *ledgers) forget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for run, list := range l.runs {
		if i := slices.IndexFunc(list, func(s *segment) bool { return s.key == key }); i >= 0 {
			l.rows -= len(list[i].rows)
			l.runs[run] = slices.Delete(slices.Clone(list), i, i+1)
		}
	}
}

// citation is how a decision cites its rows.
type citation struct {
	segments []*segment
	rest     []Cited // beside them
}

// cite finds the segments that hold the rows of a decision, and makes those that are
// worth it. A row that is at another version than in its segment is cited beside it.
func (s *Store) cite(run string, rows []Cited) citation {
	known := s.ledgers.of(run)
	if c, ok := inOrder(known, rows); ok {
		return c
	}
	if run == "" || len(rows) < segmentFrom {
		return citation{rest: rows}
	}
	at := make(map[ID]uint64, len(rows))
	for _, r := range rows {
		at[r.Row] = r.Revision
	}
	if len(at) != len(rows) {
		return citation{rest: rows}
	}
	var c citation
	moved := map[ID]bool{}
	for _, g := range known {
		if n, ok := g.fits(at); !ok || n > len(g.rows)/4 {
			continue
		}
		c.segments = append(c.segments, g)
		for _, r := range g.rows {
			switch {
			case at[r.Row] != r.Revision:
				moved[r.Row] = true
			case !moved[r.Row]: // else another segment says otherwise, and what is cited beside them counts
				delete(at, r.Row)
			}
		}
	}
	var fresh []Cited
	for _, r := range rows {
		switch _, left := at[r.Row]; {
		case !left:
		case r.Revision == 0 || moved[r.Row]:
			c.rest = append(c.rest, r)
		default:
			fresh = append(fresh, r)
		}
	}
	return c.grow(s, run, fresh, moved)
}

// inOrder is the citation of rows that known segments hold one after the other.
func inOrder(known []*segment, rows []Cited) (citation, bool) {
	var c citation
	for _, g := range known {
		if len(rows) == 0 {
			break
		}
		if len(g.rows) <= len(rows) && slices.EqualFunc(g.rows, rows[:len(g.rows)], func(a, b Cited) bool { return a.Row == b.Row && a.Revision == b.Revision }) {
			c.segments, rows = append(c.segments, g), rows[len(g.rows):]
		}
	}
	return c, len(rows) == 0
}

// fits reports whether all rows of a segment are among those of a decision, and how
// many of them are at another version there.
func (g *segment) fits(at map[ID]uint64) (moved int, ok bool) {
	for _, r := range g.rows {
		revision, ok := at[r.Row]
		switch {
		case !ok:
			return 0, false
		case revision != r.Revision:
			moved++
		}
	}
	return moved, true
}

// grow makes segments of rows that are in none yet. Small segments grow with them, so
// that a ledger that grows by a row a call is in few, and a row is written again once
// for each time that the ledger doubled.
func (c citation) grow(s *Store, run string, fresh []Cited, moved map[ID]bool) citation {
	if len(fresh) < segmentFrom {
		c.rest = append(c.rest, fresh...)
		return c
	}
	kept := c.segments[:0:0]
	for _, g := range c.segments {
		whole := !slices.ContainsFunc(g.rows, func(r Cited) bool { return moved[r.Row] })
		if whole && len(g.rows) <= len(fresh) && len(g.rows)+len(fresh) <= segmentUpTo {
			fresh = append(slices.Clone(g.rows), fresh...)
		} else {
			kept = append(kept, g)
		}
	}
	c.segments = kept
	for part := range slices.Chunk(fresh, segmentUpTo) {
		if len(part) < segmentFrom {
			c.rest = append(c.rest, part...)
			continue
		}
		c.segments = append(c.segments, &segment{key: s.segmentKey(run, part), rows: slices.Clone(part)})
	}
	return c
}

// classOfCitation is the class of what cites rows: of the subjects of all of them.
func (t *transaction) classOfCitation(c citation) Class {
	var classes []Class
	for _, g := range c.segments {
		if g.class == 0 {
			g.class = t.classOfCited(g.rows)
		}
		if !slices.Contains(classes, g.class) {
			classes = append(classes, g.class)
		}
	}
	if t.err != nil {
		return 0
	}
	beside, err := t.classesOf(c.rest)
	if err != nil {
		t.err = err
		return 0
	}
	return t.classFor(append(classes, beside...), nil)
}

// segments checks the segments of a citation, and puts those that are new.
func (t *transaction) segments(c citation) {
	for _, g := range c.segments {
		if g.known {
			t.check(g.key, 1)
			continue
		}
		data := t.seal(g.class, g.key, 0, encodeSegment(g.rows))
		if t.err != nil {
			return
		}
		digest := sha256.Sum256(data)
		t.log(Put{Key: g.key, Add: segmentTerms(g, t.now)}, link{}, data, digest[:], g.class, AuditEntry{Kind: EntryLedger, Revision: 1, At: t.now,
			Actor: "gate", Authority: AuthorityPolicy, Source: "ledger", Reason: "cited", Nonce: newNonce()}, change{})
	}
}

func segmentTerms(g *segment, at time.Time) []Term {
	sort := newestFirst(at)
	terms := make([]Term, 0, len(g.rows)+1)
	terms = append(terms, Term{termClass(g.class), sort})
	for _, r := range g.rows {
		terms = append(terms, Term{termCites(r.Row), sort})
	}
	return terms
}

// segmentsOf reads segments. An erased one is not among them.
func (s *Store) segmentsOf(ctx context.Context, keys []string, into map[string]*segment) error {
	want := slices.DeleteFunc(slices.Compact(slices.Sorted(slices.Values(keys))), func(k string) bool { return into[k] != nil })
	for part := range slices.Chunk(want, 1000) {
		objs, err := s.get(ctx, part...)
		if err != nil {
			return err
		}
		for _, o := range objs {
			g, _, err := s.segmentOf(ctx, o)
			if isErased(err) {
				continue
			}
			if err != nil {
				return err
			}
			into[o.Key] = g
		}
	}
	return nil
}

// segmentOf opens a segment.
func (s *Store) segmentOf(ctx context.Context, o Object) (*segment, link, error) {
	g := &segment{key: o.Key, known: true}
	var prev link
	if o.Revision == 0 {
		return nil, prev, faulty(errWire, "a ledger that is not there")
	}
	rest, err := prev.decode(o.Data)
	if err != nil {
		return nil, prev, faulty(err, "ledger")
	}
	if len(rest) < 8 {
		return nil, prev, ErrErased
	}
	g.class = Class(binary.BigEndian.Uint64(rest))
	plain, err := s.unseal(ctx, o.Key, o.Revision, rest)
	if err != nil {
		return g, prev, err
	}
	g.rows, err = decodeSegment(plain)
	return g, prev, faulty(err, "ledger")
}

// keptDecision is a decision as it is stored: Rows are those that are in none of the
// segments.
type keptDecision struct {
	DecisionRecord
	Ledger []byte `json:"ledger,omitempty"` // the tokens of segments, one after the other
	// Seen stands for what was read of each row, in the order in which they are cited.
	Seen []byte `json:"seen,omitempty"`
}

// seen stands for what a call that fires was decided on; nil if whoever decided does not
// say.
func (c *citation) seen(r *DecisionRecord) []byte {
	if !r.Fired || len(r.Rows) == 0 {
		return nil
	}
	read := make(map[ID]rowMark, len(r.Rows))
	for i := range r.Rows {
		if r.Rows[i].mark == (rowMark{}) {
			return nil
		}
		read[r.Rows[i].Row] = r.Rows[i].mark
	}
	kept := keptDecision{DecisionRecord: DecisionRecord{Rows: c.rest}}
	segments := map[string]*segment{}
	for _, g := range c.segments {
		kept.Ledger = append(kept.Ledger, g.key[len(ledgerKey):]...)
		segments[g.key] = g
	}
	rows := kept.whole(segments).Rows
	marks := make([]byte, 0, len(rows)*len(rowMark{}))
	for i := range rows {
		m := read[rows[i].Row]
		marks = append(marks, m[:]...)
	}
	return seenDigest(marks)
}

func (k *keptDecision) segments() (keys []string) {
	var t Token
	for part := range slices.Chunk(k.Ledger, len(t)) {
		keys = append(keys, ledgerKey.named(string(part)))
	}
	return keys
}

// whole is the decision with all rows that it cites.
func (k *keptDecision) whole(segments map[string]*segment) DecisionRecord {
	r := k.DecisionRecord
	keys := k.segments()
	if len(keys) == 0 {
		return r
	}
	beside := make(map[ID]bool, len(r.Rows))
	for _, c := range r.Rows {
		beside[c.Row] = true
	}
	var rows []Cited
	for _, key := range keys {
		if g := segments[key]; g != nil {
			for _, c := range g.rows {
				if !beside[c.Row] {
					rows = append(rows, Cited{Row: c.Row, Revision: c.Revision})
				}
			}
		}
	}
	r.Rows = append(rows, r.Rows...)
	return r
}

// throughSegments lists the decisions that cite a row, by themselves or through a segment, in
// the order newest first. hits are the carriers of the row's term.
func (s *Store) throughSegments(ctx context.Context, hits []Hit) ([]Hit, error) {
	var out []Hit
	seen := map[string]bool{}
	add := func(h Hit) {
		if decisionKey.holds(h.Key) && !seen[h.Key] {
			seen[h.Key] = true
			out = append(out, h)
		}
	}
	for _, h := range hits {
		add(h)
		if !ledgerKey.holds(h.Key) {
			continue
		}
		through, err := s.hits(ctx, termLedger(h.Key))
		if err != nil {
			return nil, err
		}
		for _, h := range through {
			add(h)
		}
	}
	slices.SortFunc(out, func(a, b Hit) int { return cmp.Or(cmp.Compare(a.Sort, b.Sort), cmp.Compare(a.Key, b.Key)) })
	return out, nil
}

// hits are all carriers of a term.
func (s *Store) hits(ctx context.Context, term string) (all []Hit, err error) {
	for after := ""; ; {
		page, next, err := s.query(ctx, Query{Term: term, After: after, Limit: 1000})
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if after = next; after == "" {
			return all, nil
		}
	}
}

// eraseSegment erases a segment and the decisions that cite it: first those, since by
// it they are found, and at the end those that came meanwhile.
func (x *erasing) eraseSegment(ctx context.Context, key string) error {
	if err := x.eraseDecisions(ctx, termLedger(key)); err != nil {
		return err
	}
	s := x.s
	_, err := retry(ctx, func() (struct{}, error) {
		objs, damaged, err := s.each(ctx, []string{key})
		if err != nil {
			return struct{}{}, err
		}
		if objs[0].Revision == 0 { // it is gone; those that cite it go
			return struct{}{}, nil
		}
		var prev link
		if len(damaged) > 0 {
			if prev, err = s.lastLink(ctx, objs[0]); err != nil {
				return struct{}{}, err
			}
		} else {
			var g *segment
			g, prev, err = s.segmentOf(ctx, objs[0])
			if g == nil { // it is erased already
				if isErased(err) {
					err = nil
				}
				return struct{}{}, err
			}
			if err != nil && !isErased(err) && !unreadable(err) {
				return struct{}{}, err
			}
		}
		tx := s.begin(ctx, s.Now())
		tx.log(Put{Key: key, From: objs[0].Revision, Clear: true}, prev, nil, nil, tx.nobody(), AuditEntry{Kind: EntryErase, At: tx.now, Actor: "eraser", Authority: AuthoritySystem, Source: "erasure",
			Reason: "erased", Nonce: newNonce()}, change{})
		x.stripping = key
		nonce, err := x.note(ctx, tx, "ledger erased")
		if err == nil {
			err = x.commit(tx, nonce)
		}
		if err != nil {
			return struct{}{}, errors.Join(err, x.reload(ctx))
		}
		return struct{}{}, nil
	})
	if err != nil {
		return err
	}
	s.ledgers.forget(key)
	if err := x.eraseDecisions(ctx, termLedger(key)); err != nil {
		return err
	}
	return s.stripLog(ctx, key)
}

// ledger restores a segment and what it is found by.
func (b *rebuilding) ledger(ctx context.Context, key string) error {
	log, err := b.read(ctx, key, nil)
	if err != nil {
		return err
	}
	if log.erased {
		return b.logged(ctx, log, nil)
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
	g, _, err := b.s.segmentOf(ctx, o)
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
	if err := b.class(ctx, g.class); err != nil {
		return err
	}
	return b.restore(ctx, Restored{Object: o, Terms: append(segmentTerms(g, log.at), log.term())})
}

// meets reports whether a decision that conflicted may be recorded after another look
// at the ledger: another process has written the segment, or erased it. One that was
// known is forgotten by now; see Store.forget.
func (s *Store) meets(run string, c citation, err error) bool {
	var conflict *ConflictError
	if !errors.As(err, &conflict) || !ledgerKey.holds(conflict.Key) {
		return false
	}
	for _, g := range c.segments {
		if g.key == conflict.Key && !g.known {
			there := *g
			there.known = true
			s.ledgers.put(run, []*segment{&there})
		}
	}
	return true
}
