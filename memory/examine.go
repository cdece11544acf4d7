package memory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"
)

// Verifying is how [Store.VerifyAll] goes about it. Every member may be zero.
type Verifying struct {
	// Begin is given each log before it is read, Seen once it holds. What Seen returns
	// is a finding if it wraps [ErrTampered], and else ends the verification.
	Begin func(*Log)
	Seen  func(*Log) error
	// Found hears of each thing that is not what was written. What it returns ends the
	// verification. nil: the first finding ends it.
	Found func(error) error
	// Pause is called between parts of the work with how many entries and objects were
	// read so far, for whoever goes slowly. An error ends the verification.
	Pause func(ctx context.Context, read int) error
	// Progress hears, between parts of the work, how much was verified so far.
	Progress func(Verification)
	// Window is how much later than a move of a row a decision may bear its moment and
	// still have come before it: clocks differ, and a write takes time. 0 = one minute.
	Window time.Duration
}

// VerifyAll holds everything that is stored against what the logs say: each entry and
// each logged object against its chain; each body against the commitments of its row;
// each decision that fired against the logs of the rows that it cites, and against the
// hold that it fired out of; what stands in the way of a call, claims, identities, lines,
// due marks and fences against the logs that imply them; and the index of terms against
// what [Store.Rebuild] would write. It goes on after what it finds.
//
// Others may write, erase and compact meanwhile; the store must not be rebuilt. What does
// not fit together because of them is looked at a second time. It keeps some 200 bytes of
// each row in memory.
func (s *Store) VerifyAll(ctx context.Context, o Verifying) (Verification, error) {
	if _, err := s.admit(ctx); err != nil {
		return Verification{}, err
	}
	if o.Window <= 0 {
		o.Window = time.Minute
	}
	first := newExamination(s, o)
	if err := first.run(ctx); err != nil {
		return first.Verification, err
	}
	if len(first.suspects) == 0 {
		return first.Verification, nil
	}
	// What was written between two reads fits together the next time, and moves on.
	quiet := o
	quiet.Begin, quiet.Seen, quiet.Progress, quiet.Found = nil, nil, nil, func(error) error { return nil }
	second := newExamination(s, quiet)
	second.seed = first.seed // the same sums
	if err := second.run(ctx); err != nil {
		return first.Verification, err
	}
	for _, name := range first.order {
		if _, again := second.suspects[name]; again {
			if err := first.found(first.suspects[name]); err != nil {
				return first.Verification, err
			}
		}
	}
	return first.Verification, nil
}

// packedRow is the id of a row as keys have it.
type packedRow [packedID]byte

// step is what the log of a row says of it at one revision.
type step struct {
	mark     rowMark
	sequence Sequence
	takes    bool // the row may be less fit than before
}

// rowFacts are what the log of a row says.
type rowFacts struct {
	steps   []step
	created time.Time
	class   Class
	commit  Token
	claim   Token
	group   Token
	origin  Origin
	truth   Truth
	depth   uint32
	erased  bool
	above   []byte // ancestors
	traced  bool

	offer   offer
	offers  uint64 // a sum of the terms that go with it
	over    uint64 // and of those that the head carries beside what its log tells
	carried bool   // the head was met

	body, due bool // were met
	named     bool // its content was read, and so its identity is known
	claimed   bool // the record of its claim lists it
	lined     bool // an object of a line does
}

// claimFacts are what the logs of its rows say of a claim.
type claimFacts struct {
	live          bool // a row holds it
	row           packedRow
	rejected      bool
	everRejected  bool
	at            Sequence    // of what decided it
	begun, erased Sequence    // of the first row that is left, and of the last erasure of a row
	met, standing bool        // the record, and that a rejection stands in it
	record        claimRecord // without its rows
}

// lineFacts are the rows that the object of a line should list, and whether it was met.
type lineFacts struct {
	met               bool
	record            lineRecord  // without its rows
	functional, plain []packedRow // verified rows
}

// alikeFacts are what an object of what is spelled alike should list, and what it does.
type alikeFacts struct {
	lines, claims []Token
	alikeRecord
}

// callFacts are what the logs say of a call, and the mark that was found.
type callFacts struct {
	callHistory
	found []byte
	made  []made
}

// made is a call that was let through: when, and when it was known how it ended, and that it
// was done. One that fired out of a hold may follow one whose end is not known: a person
// said so.
type made struct {
	decision string
	at       Sequence
	known    Sequence // 0: it is not known
	done     Sequence // 0: it was not done, or may be made twice
	held     bool
	once     bool // it is not to be made twice
}

// identFacts are the row that has an identity, and what its object says.
type identFacts struct {
	want, have   packedRow
	wants, found bool
}

type examination struct {
	Verification
	s        *Store
	scope    scope
	o        Verifying
	a        *Auditor
	ctx      context.Context
	suspects map[string]error
	order    []string
	read     int

	log     *Log
	broken  bool
	damaged map[string]bool // objects that could not be read

	seed      maphash.Seed
	logs      map[string]uint64 // that hold, and a sum of the terms that their objects are to carry
	faulty    map[string]bool   // logs that do not hold
	rows      map[packedRow]*rowFacts
	segments  map[string][]Cited
	decided   map[Sequence]bool
	sequences map[string]Sequence // of decisions, by key
	fired     []firing
	holdFired map[string][]Sequence // by key of the hold
	claims    map[Token]*claimFacts
	idents    map[Token]*identFacts
	calls     map[string]*callFacts
	ended     map[string]bool       // that what was erased says; true once met
	gone      map[string]bool       // holds and decisions that were erased
	shut      map[string]bool       // logged objects that wait for their erasure: their key is gone
	classes   map[Class]bool        // that what entries say is sealed under; true once met
	last      Class                 // of those, of the entry before
	lines     map[string]*lineFacts // that must be there, or are
	alike     map[string]*alikeFacts
	own       map[string]uint64 // how many calls noted an own write in an object
	ownAt     map[string]uint64 // and its revision
	fences    [fences]map[Sequence]bool
	moved     [fences]uint64
	newest    uint64 // number of the newest checkpoint that is there
	head      uint64 // and what the head of checkpoints says

	scratch []byte
	index   [buckets]uint64 // what objects carry, less what the index has
	cur     logReading
}

// firing is a hold that a log says let its call through.
type firing struct {
	key      string
	revision uint64
	sequence Sequence
}

const buckets = 1 << 12

func newExamination(s *Store, o Verifying) *examination {
	x := &examination{s: s, scope: s.scope.remembering(), o: o, a: NewAuditor(s.keys, s.scope.tenant, s.scope.namespace), suspects: map[string]error{}, damaged: map[string]bool{},
		seed: maphash.MakeSeed(), logs: map[string]uint64{}, faulty: map[string]bool{}, rows: map[packedRow]*rowFacts{}, segments: map[string][]Cited{},
		decided: map[Sequence]bool{}, sequences: map[string]Sequence{}, holdFired: map[string][]Sequence{}, claims: map[Token]*claimFacts{},
		idents: map[Token]*identFacts{}, calls: map[string]*callFacts{}, gone: map[string]bool{}, ended: map[string]bool{}, shut: map[string]bool{}, classes: map[Class]bool{}, lines: map[string]*lineFacts{},
		own: map[string]uint64{}, ownAt: map[string]uint64{}, alike: map[string]*alikeFacts{}}
	for i := range x.fences {
		x.fences[i] = map[Sequence]bool{}
	}
	return x
}

func (x *examination) run(ctx context.Context) error {
	x.ctx = ctx
	for _, part := range []func() error{x.readLogs, x.readObjects, x.missing, x.compareIndex} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// found tells of something that is not what was written.
func (x *examination) found(err error) error {
	x.Found++
	if x.o.Found == nil {
		return err
	}
	return x.o.Found(err)
}

// suspect notes what does not fit with something that was read at another moment.
func (x *examination) suspect(key string, revision uint64, format string, args ...any) {
	reason := fmt.Sprintf(format, args...)
	name := key + "\x00" + reason
	if _, twice := x.suspects[name]; !twice {
		x.order = append(x.order, name)
	}
	x.suspects[name] = &TamperError{key, revision, reason}
}

// pause lets others have their turn.
func (x *examination) pause(read int) error {
	x.read += read
	if x.o.Progress != nil {
		x.o.Progress(x.Verification)
	}
	if x.o.Pause == nil {
		return x.ctx.Err()
	}
	return x.o.Pause(x.ctx, x.read)
}

// opened sorts an error of opening an object: nil if it was erased; a finding if it is
// not what was sealed there; anything else ends the verification.
func (x *examination) unopened(key string, revision uint64, err error) error {
	switch {
	case err == nil, isErased(err):
		return nil
	case x.ctx.Err() != nil:
		return x.ctx.Err()
	case errors.Is(err, ErrDamaged), errors.Is(err, ErrKey), errors.Is(err, errNoClass):
		x.suspect(key, revision, "it cannot be opened: %s", strings.TrimPrefix(err.Error(), "memory: "))
		return nil
	}
	return err
}

// readLogs verifies the logs and gathers what they say.
func (x *examination) readLogs() error {
	return x.s.Walk(x.ctx, Walker{Entry: x.entry, End: x.end, Damaged: func(key string, err error) error {
		x.damaged[key] = true
		return x.found(err)
	}})
}

func (x *examination) entry(key string, l LogEntry) error {
	if x.log == nil {
		x.log, x.broken = &Log{Key: key}, false
		x.cur = logReading{}
		x.log.each = x.each
		if x.o.Begin != nil {
			x.o.Begin(x.log)
		}
	}
	if x.broken {
		return nil
	}
	if err := x.a.Next(x.log, l); err != nil {
		if !errors.Is(err, ErrTampered) {
			return err
		}
		x.broken = true
		return x.found(err)
	}
	return nil
}

// logReading is what the log of a row, or of a decision, has said so far.
type logReading struct {
	head  Head
	bad   bool
	facts *rowFacts

	known, done Sequence // when it was known how a call ended, and that it was done
}

// outcome hears how a call ended.
func (c *logReading) outcome(to HoldState, at Sequence) {
	if c.known == 0 && (to == HoldDone || to == HoldFailed) {
		c.known = at
	}
	if c.done == 0 && to == HoldDone {
		c.done = at
	}
}

// each hears of each entry that holds.
func (x *examination) each(revision uint64, r *record) {
	if r.payload != nil && r.class != x.last && r.class != 0 {
		x.last = r.class
		x.classes[r.class] = false
	}
	key := x.log.Key
	switch p, _ := placeOf(key); p {
	case headKey:
		x.rowEntry(revision, r)
	case holdKey:
		if HoldState(r.to) == HoldFired && HoldState(r.from) != HoldFired && kindOf(r.kind) == EntryHold {
			x.fired = append(x.fired, firing{key, revision, r.sequence})
			x.holdFired[key] = append(x.holdFired[key], r.sequence)
		}
	case decisionKey:
		if revision == 1 {
			x.decided[r.sequence] = true
			x.sequences[key] = r.sequence
		}
		if kindOf(r.kind) == EntryOutcome {
			x.cur.outcome(HoldState(r.to), r.sequence)
		}
	}
}

func (x *examination) rowEntry(revision uint64, r *record) {
	c := &x.cur
	if len(r.state) > 0 && !c.bad {
		old := c.head
		var err error
		if revision == 1 {
			c.facts = &rowFacts{}
			if err = c.head.decode(r.state); err == nil {
				h := &c.head
				c.facts.created, c.facts.class, c.facts.commit, c.facts.claim, c.facts.group = h.CreatedAt, h.Class, h.Commitment, h.Claim, h.Group
				c.facts.origin, c.facts.depth, c.facts.above, c.facts.traced = h.Origin, h.Depth, bytes.Clone(h.ancestors), h.Has(FlagTraced)
			}
		} else {
			err = c.head.decodeMoving(r.state)
		}
		if err != nil {
			c.bad = true
			return
		}
		takes := revision > 1 && c.head.TakesFrom(&old)
		c.facts.steps = append(c.facts.steps, step{mark: markOf(r.mac[:], c.head.encodeMoving()), sequence: r.sequence, takes: takes})
		if takes {
			if id := rowOf(x.log.Key); id != "" {
				x.fences[fenceOf(id)][r.sequence] = true
			}
		}
	}
	if c.facts == nil {
		return
	}
	claim := x.claim(c.facts.claim)
	verified := kindOf(r.kind) != EntryContest && Axis(r.axis) == AxisTruth && lifts(Authority(r.authority), kindOf(r.kind), c.facts.origin)
	switch kindOf(r.kind) {
	case EntryWrite, EntryImport:
		verified = verified && State(r.to) == StateVerified
	default:
		verified = verified && Truth(r.to) == TruthSupported
	}
	switch {
	case kindOf(r.kind) == EntryErase:
		claim.erased = max(claim.erased, r.sequence)
	case kindOf(r.kind) == EntryReject:
		claim.everRejected = true
		if r.sequence >= claim.at {
			claim.rejected, claim.at = true, r.sequence
		}
	case verified && r.sequence >= claim.at:
		claim.rejected, claim.at = false, r.sequence
	}
}

func (x *examination) claim(t Token) *claimFacts {
	c := x.claims[t]
	if c == nil {
		c = &claimFacts{}
		x.claims[t] = c
	}
	return c
}

func (x *examination) lineAt(key string) *lineFacts {
	l := x.lines[key]
	if l == nil {
		l = &lineFacts{}
		x.lines[key] = l
	}
	return l
}

// end holds a log that was read against its objects.
func (x *examination) end(key string, beside []Object) error {
	log := x.log
	x.log = nil
	x.Logs++
	x.Entries += int(log.Revision)
	if log.erased {
		x.Erased++
	}
	if err := x.pause(int(log.Revision)); err != nil {
		return err
	}
	whole := !x.broken
	if whole && !x.damaged[key] {
		err := x.a.End(log, beside[0])
		whole := !slices.ContainsFunc(beside, func(o Object) bool { return x.damaged[o.Key] })
		if err == nil && whole {
			err = evidenceFits(log, beside)
		}
		if err != nil {
			whole = false
			if err := x.found(err); err != nil {
				return err
			}
		}
	}
	if !whole {
		x.faulty[key] = true
	}
	if headKey.holds(key) && len(key) == len(headKey)+packedID && x.cur.facts != nil {
		f := x.cur.facts
		f.truth, f.erased, f.offer = x.cur.head.Truth, log.erased, x.cur.head.offer()
		f.due = x.cur.head.Layer == LayerWorking // nobody is asked about it
		id := packedRow([]byte(key[len(headKey):]))
		x.rows[id] = f
		if !f.erased {
			c := x.claim(f.claim)
			c.live, c.row = true, id
			if len(f.steps) > 0 && (c.begun == 0 || f.steps[0].sequence < c.begun) {
				c.begun = f.steps[0].sequence
			}
		}
	}
	if whole && !x.damaged[key] {
		terms, err := x.logged(log, beside[0])
		if err != nil {
			return err
		}
		x.logs[key] = x.sum(key, terms)
	} else {
		x.logs[key] = 0
	}
	if x.o.Seen == nil || x.broken {
		return nil
	}
	if err := x.o.Seen(log); err != nil {
		if !errors.Is(err, ErrTampered) {
			return err
		}
		return x.found(err)
	}
	return nil
}

// logged opens an object that its log vouches for, and returns the terms that it is to
// carry.
func (x *examination) logged(log *Log, o Object) ([]Term, error) {
	s, last := x.s, log.term()
	switch p, _ := placeOf(o.Key); p {
	case headKey:
		var h Head
		if log.erased || decodeHead(&h, "", o.Revision, o.Data) != nil {
			return []Term{last}, nil
		}
		return []Term{{termState(h.State()), newestFirst(h.CreatedAt)}, last}, nil
	case ledgerKey:
		g, _, err := s.segmentOf(x.ctx, o)
		if err != nil {
			x.shut[o.Key] = g != nil && isErased(err)
			return []Term{last}, x.unopened(o.Key, o.Revision, err)
		}
		x.segments[o.Key] = g.rows
		return append(segmentTerms(g, log.at), last), nil
	case holdKey:
		h, _, class, err := s.holdOf(x.ctx, o)
		if err != nil {
			x.gone[o.Key] = true
			x.shut[o.Key] = class != 0 && isErased(err)
			return []Term{last}, x.unopened(o.Key, o.Revision, err)
		}
		x.call(s.markOf(h.Slot)).holds(h.ID, log.begun)
		return append(s.holdTerms(&h, class), last), nil
	case decisionKey:
		r, _, class, ok, err := s.decisionOf(x.ctx, o)
		if err != nil || !ok {
			x.gone[o.Key] = true
			x.shut[o.Key] = class != 0
			return []Term{last}, x.unopened(o.Key, o.Revision, err)
		}
		x.decision(&r, o)
		return append(s.decisionTerms(&r, class), last), nil
	case erasureKey:
		var e erasing
		if err := e.decode(o); err == nil && !e.open {
			for _, k := range e.keys {
				x.ended[endedObject(k)] = x.ended[endedObject(k)]
			}
		}
		return []Term{last}, nil
	case handKey:
		h, err := decodeHanded(o)
		if err != nil {
			return []Term{last}, x.unopened(o.Key, o.Revision, err)
		}
		return append(h.terms(), last), nil
	}
	if untoldKey.holds(o.Key) {
		return append(log.untoldTerms(), last), nil
	}
	return []Term{last}, nil
}

// call is what is known of the call or act with a mark.
func (x *examination) call(key string) *callFacts {
	c := x.calls[key]
	if c == nil {
		c = &callFacts{}
		x.calls[key] = c
	}
	return c
}

// decision holds a decision that fired against the logs of what it cites. Rows and
// segments were read before.
func (x *examination) decision(r *keptDecision, o Object) {
	x.Decisions++
	if !r.Fired {
		return
	}
	for _, key := range r.marked() {
		x.own[key]++
	}
	at := x.sequences[o.Key]
	if !r.Slot.IsZero() {
		m := made{decision: o.Key, at: at, known: x.cur.known, held: r.Held != "" || madeAgain(r)}
		again := m
		if again.once = r.Once; r.Once {
			again.done = x.cur.done
		}
		c := x.call(x.s.markOf(r.Slot))
		c.made = append(c.made, again)
		if c.letThrough(&r.DecisionRecord, at, slotMark(&r.DecisionRecord)); again.done > 0 {
			c.done = append(c.done, doneCall{id: r.ID})
		}
		if !r.Act.IsZero() { // another run may make it
			c := x.call(x.s.actOf(r.Act))
			c.made = append(c.made, m)
			if c.letThrough(&r.DecisionRecord, at, x.s.scope.actMark(&r.DecisionRecord)); r.settledDone() {
				c.done = append(c.done, doneCall{r.ID, r.settledAt()})
			}
		}
	}
	var seen []byte
	segments := map[string]*segment{}
	for _, key := range r.segments() {
		rows, ok := x.segments[key]
		if !ok {
			if !x.gone[key] && !x.faulty[key] && x.logs[key] == 0 {
				x.suspect(o.Key, o.Revision, "it cites %s, which is not there", KeyText(key))
			}
			return // it was erased, or cannot be read; then so is the decision before long
		}
		segments[key] = &segment{rows: rows}
	}
	known := true
	for _, c := range r.whole(segments).Rows {
		var id packedRow
		copy(id[:], appendID(nil, c.Row))
		f := x.rows[id]
		switch {
		case x.faulty[headKey.of(c.Row)]:
			known = false
			continue
		case f == nil:
			x.suspect(o.Key, o.Revision, "it fired on row %s, which has no log", c.Row)
			known = false
			continue
		case c.Revision == 0 || c.Revision > uint64(len(f.steps)):
			x.suspect(o.Key, o.Revision, "it fired on row %s at revision %d, which its log does not have", c.Row, c.Revision)
			known = false
			continue
		}
		seen = append(seen, f.steps[c.Revision-1].mark[:]...)
		for i := int(c.Revision); i < len(f.steps); i++ {
			late := at > x.late(f.steps[i].sequence)
			if f.steps[i].takes && late {
				x.suspect(o.Key, o.Revision, "it fired on row %s at revision %d, after entry %d had taken from the row: an older copy was put back meanwhile", c.Row, c.Revision, i+1)
				break
			}
		}
	}
	if known && len(r.Seen) > 0 && !bytes.Equal(r.Seen, seenDigest(seen)) {
		x.suspect(o.Key, o.Revision, "what it read of its rows is not what their logs say they were: a row was changed while it was decided")
	}
	x.firedOut(r, o, at)
}

// madeAgain reports whether a decision says that it let a call through though the same one
// was done, or nobody knew how it had ended: what its policy, or the source, let pass.
func madeAgain(r *keptDecision) bool {
	var d struct {
		Reasons []struct{ Code, Outcome string }
	}
	return len(r.Data) > 0 && json.Unmarshal(r.Data, &d) == nil &&
		slices.ContainsFunc(d.Reasons, func(r struct{ Code, Outcome string }) bool {
			return r.Code == "outcome_unknown" || r.Code == "already_done"
		})
}

// firedOut holds a decision that fired against the hold that it fired out of.
func (x *examination) firedOut(r *keptDecision, o Object, at Sequence) {
	if r.Held == "" {
		return
	}
	key := holdKey.named(r.Held)
	if !x.faulty[key] && !slices.Contains(x.holdFired[key], at) {
		x.suspect(o.Key, o.Revision, "it fired out of hold %s, whose log has no such move: it was approved once and used more often, or the hold was put back", r.Held)
	}
}

// sum is a number for the terms of a key, whatever their order.
func (x *examination) sum(key string, terms []Term) (sum uint64) {
	for _, t := range terms {
		sum += x.line(t.Name, t.Sort, key)
	}
	return sum
}

// line is a number for one line of the index.
func (x *examination) line(name string, sort uint64, key string) uint64 {
	b := binary.BigEndian.AppendUint64(x.scratch[:0], sort)
	b = binary.BigEndian.AppendUint64(b, uint64(len(name)))
	x.scratch = append(append(b, name...), key...)
	return maphash.Bytes(x.seed, x.scratch)
}

func (x *examination) bucket(key string) int { return int(maphash.String(x.seed, key) % buckets) }

// rowMark stands for what a row was at a revision: its place in the chain, and
// everything of it that moves.
type rowMark [8]byte

func markOf(mac, moving []byte) (m rowMark) {
	var b [sha256.Size + headMoving]byte
	n := copy(b[:], mac)
	n += copy(b[n:], moving)
	sum := sha256.Sum256(b[:n])
	copy(m[:], sum[:])
	return m
}

// seenDigest stands for what a decision read of its rows, in the order in which it
// cites them.
func seenDigest(marks []byte) []byte {
	sum := sha256.Sum256(marks)
	return sum[:16]
}
