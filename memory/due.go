package memory

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"
)

// Due is the due mark of a row: when it wants its next check, and what is known of the sources
// that can be asked.
type Due struct {
	ID     ID
	At     time.Time // not before; zero = the row is parked
	Parked ParkedFor // why it is parked; unset = it is not
	Reason string    // for people
	Tries  int       // checks since the row last moved
	Heat   float64   // the decayed count of reads to a millionth, see [Store.AddHeat]
	// Generation numbers the rounds of checks of a row. Whoever marks the row anew begins the
	// next round: a move, [Store.Reschedule], [Store.Postpone]. [Store.Note] does not. No
	// number comes twice for a row.
	Generation uint64
	Sources    []SourceMark // by name
}

// ParkedFor is why a row is parked: nobody is asked about it until something marks it anew.
type ParkedFor uint8

// Why rows are parked.
const (
	_               ParkedFor = iota
	ParkedAsked               // it was asked about often enough, and nobody reads it; a read brings it back
	ParkedUncovered           // no verifier covers the claim; so does a worker that has one
	ParkedStuck               // its check crashes, or it cannot be read; a person brings it back
)

var parkedForEnum = enum[ParkedFor]{"parked", []string{"", "asked", "uncovered", "stuck"}}

// String returns asked, uncovered, stuck, or "unset".
func (p ParkedFor) String() string { return parkedForEnum.text(p) }

// MarshalText returns the same; an unset value is an error.
func (p ParkedFor) MarshalText() ([]byte, error) { return parkedForEnum.marshal(p) }

// UnmarshalText accepts exactly the names.
func (p *ParkedFor) UnmarshalText(b []byte) error { return parkedForEnum.unmarshal(p, b) }

// Of is what the mark says of a source; zero = nothing, so that it can be asked.
func (d *Due) Of(source string) SourceMark {
	for _, m := range d.Sources {
		if m.Source == source {
			return m
		}
	}
	return SourceMark{}
}

// SourceMark is what a due mark says of one source.
type SourceMark struct {
	Source string // its name, 1 to 256 bytes
	// Until is when the source may be asked about the row again: its answer stands until
	// then, or the row is set aside for it. A mark keeps it over rounds until that time.
	Until time.Time
	// Failures is how many questions to it about the row have failed in a row; 0 = it answered.
	Failures int
	// Crashes is how many processes have died in a question about the row. It is written before the question,
	// of rows that are suspected of it; 0 to 255.
	Crashes int
}

// Limits of a mark.
const (
	maxMarkSource  = 256 // bytes of a name
	maxMarkSources = 64  // beyond, the one that may be asked first is forgotten, which costs a question
)

func (m *SourceMark) check() error {
	if m.Source == "" || len(m.Source) > maxMarkSource {
		return invalid("source", "out_of_range", "%d bytes: want 1 to %d", len(m.Source), maxMarkSource)
	}
	if m.Failures < 0 || m.Failures > math.MaxInt32 {
		return invalid("failures", "out_of_range", "%d: want 0 to %d", m.Failures, math.MaxInt32)
	}
	if m.Crashes < 0 || m.Crashes > math.MaxUint8 {
		return invalid("crashes", "out_of_range", "%d: want 0 to %d", m.Crashes, math.MaxUint8)
	}
	if m.Until.IsZero() {
		return invalid("until", "missing", "want a time")
	}
	return checkTime("until", m.Until)
}

// DueNow lists the rows that are due, the most read first: those with the highest decayed count of
// reads and, of rows that nobody has read, the one written first. With predicates it lists only
// rows about one of them, as [Canonical] writes it. A row whose predicate is not known, since it
// had no mark before or a damaged one, is listed for every predicate.
//
// A row whose time came later than it was marked is listed once [Store.WakeDue] has found it. A
// row that is read or marked anew meanwhile may be listed twice or not at all. A mark that cannot
// be read is listed with its row alone. The first error ends the list.
func (s *Store) DueNow(ctx context.Context, predicates ...string) iter.Seq2[Due, error] {
	if len(predicates) == 0 {
		return s.marks(ctx, Query{Term: termHot})
	}
	lists := []Query{{Term: termAbout}}
	for _, p := range predicates {
		if q := (Query{Term: s.scope.termAbout(p)}); !slices.Contains(lists, q) {
			lists = append(lists, q)
		}
	}
	return s.marks(ctx, lists...)
}

// DueRows lists the rows due at a moment, in the order they fell due, whether or not
// [Store.WakeDue] has found them. Otherwise it is as [Store.DueNow]. Parked rows are listed by
// [Store.ParkedRows].
func (s *Store) DueRows(ctx context.Context, at time.Time) iter.Seq2[Due, error] {
	to := uint64(max(at.UnixMicro(), 1))
	return s.marks(ctx, Query{Term: termDue, To: to}, Query{Term: termLater, To: to})
}

// OldestDue returns the row that fell due first; ok is false if none is due.
func (s *Store) OldestDue(ctx context.Context) (mark Due, ok bool, err error) {
	for mark, err := range s.DueRows(ctx, s.Now()) {
		return mark, err == nil, err
	}
	return Due{}, false, nil
}

// ParkedRows lists the rows that nobody could be asked about: their time is zero
// and their reason says why. They stay what they are until [Store.Reschedule]
// marks them due again.
func (s *Store) ParkedRows(ctx context.Context) iter.Seq2[Due, error] {
	return s.marks(ctx, Query{Term: termParked})
}

// Sizes of the pages in which marks are listed: a look at the first few rows reads few marks.
const (
	firstMarks = 32
	mostMarks  = 1024
)

// listed is a mark, and its place in the list that it was found in.
type listed struct {
	Due
	hit Hit
}

// marks lists the marks of some lists as one, in the order of the lists.
func (s *Store) marks(ctx context.Context, lists ...Query) iter.Seq2[Due, error] {
	return func(yield func(Due, error) bool) {
		lists, ends := slices.Clone(lists), make([]bool, len(lists))
		pages := make([][]listed, len(lists))
		for {
			first := -1
			for i := range lists {
				for len(pages[i]) == 0 && !ends[i] {
					q := &lists[i]
					q.Limit = min(max(2*q.Limit, firstMarks), mostMarks)
					var err error
					if pages[i], q.After, err = s.page(ctx, *q); err != nil {
						yield(Due{}, err)
						return
					}
					ends[i] = q.After == ""
				}
				if len(pages[i]) > 0 && (first < 0 || pages[i][0].hit.before(pages[first][0].hit)) {
					first = i
				}
			}
			if first < 0 || !yield(pages[first][0].Due, nil) {
				return
			}
			pages[first] = pages[first][1:]
		}
	}
}

func (h Hit) before(o Hit) bool { return h.Sort < o.Sort || h.Sort == o.Sort && h.Key < o.Key }

// page reads a page of one list of marks.
func (s *Store) page(ctx context.Context, q Query) (page []listed, next string, err error) {
	hits, ids, next, err := s.queryRows(ctx, q)
	if err != nil || len(ids) == 0 {
		return nil, next, err
	}
	keys := make([]string, 0, len(ids))
	for _, id := range ids {
		keys = append(keys, dueKey.of(id))
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return nil, "", err
	}
	for i, id := range ids {
		var d due
		if slices.Contains(damaged, i) {
			err = ErrDamaged
		} else if objs[i].Data == nil {
			continue // it moved between the listing and the read
		} else {
			d, err = s.dueOf(ctx, objs[i])
		}
		switch {
		case unreadable(err): // it hides no other; the index may know when it is due
			if d = (due{}); q.Term == termDue || q.Term == termLater {
				d.At = time.UnixMicro(int64(hits[i].Sort)).UTC()
			}
		case err != nil:
			return nil, "", err
		}
		page = append(page, listed{d.of(id, s.Now()), hits[i]})
	}
	return page, next, nil
}

// WakeDue puts rows whose time has come on the list of [Store.DueNow]: those that fell due first,
// up to limit, which is 1 to [MaxWoken]. It returns how many there were, and when it is to be called
// again: when the next row is due; zero = no row is to come. A mark that cannot be read is written
// anew. Several processes may call it at once.
func (s *Store) WakeDue(ctx context.Context, limit int) (woken int, next time.Time, err error) {
	if limit < 1 || limit > MaxWoken {
		return 0, next, invalid("limit", "out_of_range", "%d: want 1 to %d", limit, MaxWoken)
	}
	_, err = retry(ctx, func() (struct{}, error) {
		woken, next, err = s.wakeDue(ctx, limit)
		return struct{}{}, err
	})
	return woken, next, err
}

// MaxWoken is the highest limit of [Store.WakeDue].
const MaxWoken = 500

func (s *Store) wakeDue(ctx context.Context, limit int) (woken int, next time.Time, err error) {
	now, b := s.Now(), Batch{}
	for q := (Query{Term: termLater, Limit: limit}); next.IsZero(); {
		hits, ids, after, err := s.queryRows(ctx, q)
		if err != nil {
			return 0, next, err
		}
		var keys []string
		for i, h := range hits {
			if at := time.UnixMicro(int64(h.Sort)).UTC(); at.After(now) {
				next = at
				break
			}
			keys = append(keys, dueKey.of(ids[i]))
		}
		var objs []Object
		var damaged []int
		if len(keys) > 0 {
			if objs, damaged, err = s.each(ctx, keys); err != nil {
				return 0, next, err
			}
		}
		for i, o := range objs {
			d, err := decodeDue(o.Data)
			switch lost := slices.Contains(damaged, i); {
			case o.Data == nil && !lost: // it is gone, or was never there
				continue
			case err != nil || lost:
				d = due{At: now, Reason: dueAgain, Generation: uint64(max(now.UnixMicro(), 1)), About: termAbout}
			case d.State != dueLater:
				continue
			}
			if d.State = dueNow; len(b.Puts) == limit {
				next = now
				break
			}
			b.Puts = append(b.Puts, d.put(o))
		}
		if q.After = after; after == "" {
			break
		}
	}
	if len(b.Puts) > 0 {
		err = s.write(ctx, b)
	}
	return len(b.Puts), next, err
}

// DueMark returns the due mark of a row: when it wants its next check, and why.
// ok is false if it wants none; a parked row has a zero time.
func (s *Store) DueMark(ctx context.Context, row ID) (mark Due, ok bool, err error) {
	objs, err := s.get(ctx, dueKey.of(row))
	if err != nil || objs[0].Data == nil {
		return Due{}, false, err
	}
	d, err := s.dueOf(ctx, objs[0])
	if err != nil {
		return Due{}, false, err
	}
	return d.of(row, s.Now()), true, nil
}

// DueMarks returns the due marks of rows, in one round trip. A row that wants no check is left out.
// A mark that cannot be read is there with its row alone.
func (s *Store) DueMarks(ctx context.Context, rows ...ID) (map[ID]Due, error) {
	for _, id := range rows {
		if err := id.check("rows"); err != nil {
			return nil, err
		}
	}
	objs, damaged, err := s.each(ctx, dueKey.each(nil, rows))
	if err != nil {
		return nil, err
	}
	marks := make(map[ID]Due, len(rows))
	for i, id := range rows {
		var d due
		if !slices.Contains(damaged, i) {
			if objs[i].Data == nil {
				continue
			}
			if d, err = s.dueOf(ctx, objs[i]); unreadable(err) {
				d = due{}
			} else if err != nil {
				return nil, err
			}
		}
		marks[id] = d.of(id, s.Now())
	}
	return marks, nil
}

// Reschedule says when a row wants its next check, and why, for people.
// tries is kept for the operator. It moves no state and no fitness version.
func (s *Store) Reschedule(ctx context.Context, row ID, at time.Time, tries int, reason string) error {
	if err := checkMoment("at", at); err != nil {
		return err
	}
	return s.remark(ctx, row, func(due) (due, error) {
		return due{At: at, Reason: reason, Tries: tries}, nil
	})
}

// Postpone is [Store.Reschedule] for whoever looked at the mark before. If the row has been
// marked anew since, by a demotion say, nothing is written and the error is a [*ConflictError].
// What was noted of a source since is kept.
func (s *Store) Postpone(ctx context.Context, mark Due, at time.Time, tries int, reason string) error {
	if err := checkMoment("at", at); err != nil {
		return err
	}
	return s.remark(ctx, mark.ID, func(now due) (due, error) {
		if now.Generation != mark.Generation {
			return due{}, &ConflictError{Key: dueKey.of(mark.ID)}
		}
		return due{At: at, Reason: reason, Tries: tries}, nil
	})
}

// checkMoment refuses a time that is none.
func checkMoment(field string, at time.Time) error {
	if at.IsZero() {
		return invalid(field, "required", "a time; Park parks a row")
	}
	return checkTime(field, at)
}

// Park parks a row: it stays what it is, visible with its reason, until something marks it anew.
// If the row has been marked anew since the mark was read, nothing is written and the error is
// a [*ConflictError]. A mark without a generation stands for whatever mark there is, also for one
// that cannot be read.
func (s *Store) Park(ctx context.Context, mark Due, why ParkedFor, reason string) error {
	if err := parkedForEnum.check(why); err != nil {
		return err
	}
	return s.remark(ctx, mark.ID, func(now due) (due, error) {
		if mark.Generation != 0 && now.Generation != mark.Generation {
			return due{}, &ConflictError{Key: dueKey.of(mark.ID)}
		}
		return due{Parked: why, Reason: reason, Tries: mark.Tries}, nil
	})
}

// Note notes in a mark what became of a question to one source, in the place of what the mark
// said of it. The round goes on: the time and the generation of the mark stay. If the row has
// been marked anew since the mark was read, nothing is written and the error is a
// [*ConflictError]. It returns the mark as it is then, with what others noted meanwhile.
func (s *Store) Note(ctx context.Context, mark Due, m SourceMark) (Due, error) {
	if err := m.check(); err != nil {
		return mark, err
	}
	if mark.Generation == 0 {
		return mark, invalid("generation", "missing", "want that of a mark that was read")
	}
	m.Until = m.Until.UTC().Truncate(time.Microsecond)
	var written due
	err := s.remark(ctx, mark.ID, func(now due) (due, error) {
		if now.Generation != mark.Generation {
			return due{}, &ConflictError{Key: dueKey.of(mark.ID)}
		}
		at, is := slices.BinarySearchFunc(now.Sources, m.Source, func(have SourceMark, name string) int { return strings.Compare(have.Source, name) })
		if is {
			now.Sources[at] = m
		} else {
			now.Sources = slices.Insert(now.Sources, at, m)
		}
		if len(now.Sources) > maxMarkSources {
			first := slices.MinFunc(now.Sources, func(a, b SourceMark) int { return a.Until.Compare(b.Until) })
			now.Sources = slices.DeleteFunc(now.Sources, func(have SourceMark) bool { return have == first })
		}
		written = now
		return now, nil
	})
	if err != nil {
		return mark, err
	}
	return written.of(mark.ID, s.Now()), nil
}

// remark writes the mark of a row as change makes it of the mark that is there. If another
// write comes first, change is asked again. It is given no generation if there is no mark that
// can be read.
func (s *Store) remark(ctx context.Context, row ID, change func(now due) (due, error)) error {
	if err := row.check("row"); err != nil {
		return err
	}
	var refused error
	_, err := retry(ctx, func() (struct{}, error) {
		objs, damaged, err := s.each(ctx, []string{headKey.of(row), dueKey.of(row)})
		switch {
		case err != nil:
			return struct{}{}, err
		case slices.Contains(damaged, 0):
			return struct{}{}, &DamagedError{Keys: []string{objs[0].Key}}
		case objs[0].Revision == 0:
			return struct{}{}, fmt.Errorf("%w: %s", ErrNotFound, row)
		}
		heads, err := decodeHeads(objs[:1], []ID{row})
		if err != nil {
			return struct{}{}, err
		}
		if heads[0].Has(FlagErased) {
			return struct{}{}, fmt.Errorf("%w: %s", ErrErased, row)
		}
		var now due
		if !slices.Contains(damaged, 1) && objs[1].Data != nil {
			now, err = s.dueOf(ctx, objs[1])
			if errors.Is(err, ErrDamaged) || errors.Is(err, ErrKey) {
				now, err = due{}, nil
			}
			if err != nil {
				return struct{}{}, err
			}
		}
		var d due
		if d, refused = change(now); refused != nil {
			return struct{}{}, nil
		}
		tx := s.begin(ctx, s.Now())
		tx.due(&heads[0], objs[1], d, d.At)
		if tx.err != nil || len(tx.Puts) == 0 {
			return struct{}{}, tx.err
		}
		return struct{}{}, s.write(ctx, tx.Batch)
	})
	return errors.Join(err, refused)
}

// due is the mark of a row that wants a check.
type due struct {
	At         time.Time // zero = parked
	State      byte      // the list that it is on
	Parked     ParkedFor // unset = it is not parked
	Reason     string
	Tries      int    // verdicts asked for since the last move
	Generation uint64 // 0 = of the next round
	Heat       heat
	// About is the term under which it is listed with its predicate while it is due; "" = it has
	// none, [termAbout] = it is not known.
	About   string
	Sources []SourceMark

	sealed []byte // the reason as it is stored, if it is not one of dueReasons
}

// States of a mark.
const (
	dueLater  byte = iota // its time is to come, or nobody has looked since it came
	dueNow                // on the list of DueNow
	dueParked             // nobody could be asked
)

func (d *due) of(id ID, now time.Time) Due {
	return Due{ID: id, At: d.At, Parked: d.Parked, Reason: d.Reason, Tries: d.Tries, Heat: math.Round(d.Heat.at(now)*1e6) / 1e6, Generation: d.Generation, Sources: d.Sources}
}

// terms are what the object of a mark carries.
func (d *due) terms() []Term {
	at := uint64(d.At.UnixMicro())
	switch d.State {
	case dueParked:
		return []Term{{termParked, 0}}
	case dueLater:
		return []Term{{termLater, at}}
	}
	order := math.MaxUint64 - uint64(d.Heat)
	terms := []Term{{termDue, at}, {termHot, order}}
	if d.About != "" {
		terms = append(terms, Term{d.About, order})
	}
	return terms
}

// put writes a mark in the place of another, or of none.
func (d *due) put(old Object) Put {
	e := encoder{}
	e.time(d.At)
	e.byte(d.State)
	e.byte(byte(d.Parked))
	e.num(uint64(d.Tries))
	e.num(d.Generation)
	e.num(uint64(d.Heat))
	e.str(d.About)
	e.num(uint64(len(d.Sources)))
	for _, m := range d.Sources {
		e.str(m.Source)
		e.time(m.Until)
		e.num(uint64(m.Failures) | uint64(m.Crashes)<<crashBits)
	}
	code := max(slices.Index(dueReasons[:], d.Reason), 0)
	if d.sealed != nil {
		code = 0
	}
	e.byte(byte(code))
	return Put{Key: old.Key, From: old.Revision, Data: append(e.b, d.sealed...), Add: d.terms(), Clear: old.Revision > 0}
}

// dueReasons are the store's own words, by their stored number. Any other reason
// is sealed: it may quote a verifier, and a verifier may quote the row.
var dueReasons = [...]string{1: dueAgain, dueRebuilt, "written " + "unverified", "written " + "unavailable_at_write_time", "written " + "verified"}

const (
	dueAgain   = "to be checked again"
	dueRebuilt = "the store was rebuilt"
)

// crashBits is where the number of crashes begins in the number that is stored with the failures.
const crashBits = 32

// due marks a row. Without a generation in d the mark is that of the next round. How often the
// row was read and what it is about, the mark before says.
func (t *transaction) due(h *Head, old Object, d due, at time.Time) {
	before, err := decodeDue(old.Data)
	if err != nil || old.Data == nil {
		before = due{About: termAbout}
	}
	d.Heat, d.About = before.Heat, before.About
	t.dueAbout(h, old, d, at)
}

// dueAbout is due of a row about which no mark says anything yet.
func (t *transaction) dueAbout(h *Head, old Object, d due, at time.Time) {
	if h.Layer == LayerWorking { // it is gone before an answer comes
		t.notDue(h.ID, old)
		return
	}
	if d.Generation == 0 {
		d.Generation, d.Sources = nextRound(old, t.now)
	}
	switch d.At = at; {
	case at.IsZero():
		d.State = dueParked
	case at.After(t.now):
		d.State = dueLater
	default:
		d.State = dueNow
	}
	old.Key = dueKey.of(h.ID)
	if d.sealed = nil; !slices.Contains(dueReasons[1:], d.Reason) {
		d.sealed = binary.AppendUvarint(nil, old.Revision+1)
		d.sealed = append(d.sealed, t.seal(h.Class, old.Key, old.Revision, []byte(d.Reason))...)
	}
	t.put(d.put(old))
}

// nextRound is the generation of the round after that of a mark, and what holds in it too: of
// sources that may not be asked yet. A mark that cannot be read says nothing.
func nextRound(old Object, now time.Time) (generation uint64, kept []SourceMark) {
	generation = uint64(max(now.UnixMicro(), 1))
	d, err := decodeDue(old.Data)
	if old.Data == nil || err != nil {
		return generation, nil
	}
	return max(generation, d.Generation+1), slices.DeleteFunc(d.Sources, func(m SourceMark) bool { return !m.Until.After(now) })
}

// decodeDue decodes a mark, but for a reason that is sealed.
func decodeDue(data []byte) (due, error) {
	r := decoder{b: data}
	d := due{At: r.time(), State: r.byte(), Parked: ParkedFor(r.byte()), Tries: int(min(r.num(), math.MaxInt32)), Generation: r.num(), Heat: heat(r.num()), About: r.str()}
	for range min(r.num(), maxMarkSources) {
		m := SourceMark{Source: r.str(), Until: r.time()}
		n := r.num()
		m.Failures, m.Crashes = int(min(n&(1<<crashBits-1), math.MaxInt32)), int(min(n>>crashBits, math.MaxUint8))
		d.Sources = append(d.Sources, m)
	}
	code := int(r.byte())
	if r.bad || code >= len(dueReasons) || d.State > dueParked || d.At.IsZero() != (d.State == dueParked) || (d.Parked != 0) != (d.State == dueParked) || d.Parked > ParkedStuck {
		return due{}, errWire
	}
	if code == 0 {
		d.sealed = r.b
		return d, nil
	}
	d.Reason = dueReasons[code]
	return d, r.end()
}

// dueOf opens a mark. Of a row that is being erased it has no reason.
func (s *Store) dueOf(ctx context.Context, o Object) (due, error) {
	d, err := decodeDue(o.Data)
	if err != nil || d.sealed == nil {
		return d, faulty(err, "due mark")
	}
	r := decoder{b: d.sealed}
	revision := r.num() // another one does not open it
	plain, err := s.unseal(ctx, o.Key, revision, r.b)
	if isErased(err) {
		return d, nil
	}
	d.Reason = string(plain)
	return d, err
}

// about is the term under which a row that says this is listed while it is due.
func (s *scope) about(c Content) string {
	if c.Predicate == "" {
		return ""
	}
	return s.termAbout(c.Predicate)
}

// notDue takes the mark of a row away.
func (t *transaction) notDue(id ID, old Object) {
	if old.Data != nil {
		t.put(Put{Key: dueKey.of(id), From: old.Revision, Clear: true})
	}
}

// HeatHalfLife is how long it takes a read to count half (D-21).
const HeatHalfLife = 24 * time.Hour

// heat is the decayed count of reads of a row, in a form that time does not change:
// log2(count at t) + t/HeatHalfLife, in units of 2^-32; 0 = never read.
type heat uint64

const (
	heatUnit = 1 << 32
	maxHeat  = 1 << 60 // reads; a clock that was set back makes no more of them
)

func halfLives(t time.Time) float64 {
	return float64(t.UnixMicro()) / float64(HeatHalfLife.Microseconds())
}

func (h heat) at(now time.Time) float64 {
	if h == 0 {
		return 0
	}
	return min(math.Exp2(float64(h)/heatUnit-halfLives(now)), maxHeat)
}

// add counts reads, which are more than 0.
func (h heat) add(reads float64, now time.Time) heat {
	return heat(max((math.Log2(min(h.at(now)+reads, maxHeat))+halfLives(now))*heatUnit, 1))
}

// AddHeat counts reads of rows, and returns the marks of those that have one; of the others
// nothing is counted, since none of them wants a check. Heat orders the queue of checks, and is
// never evidence. A lost count costs order, not truth: callers batch it off the tool-call
// path and may drop it. After an error some of the reads may have been counted. Marks that cannot
// be read are named by a [*DamagedError], beside those of the other rows.
func (s *Store) AddHeat(ctx context.Context, reads map[ID]float64) ([]Due, error) {
	ids := make([]ID, 0, len(reads))
	for id, weight := range reads {
		if err := id.check("reads"); err != nil {
			return nil, err
		}
		if math.IsNaN(weight) || math.IsInf(weight, 0) || weight < 0 {
			return nil, invalid("reads", "out_of_range", "%v is no count of reads", weight)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var marks []Due
	var lost []string
	for page := range slices.Chunk(ids, heatPage) {
		err := s.addHeat(ctx, page, reads, &marks, &lost)
		if err != nil {
			return marks, err
		}
	}
	if len(lost) > 0 {
		return marks, &DamagedError{Keys: lost}
	}
	return marks, nil
}

// heatPage is how many reads are counted in one transaction.
const heatPage = 500

func (s *Store) addHeat(ctx context.Context, ids []ID, reads map[ID]float64, marks *[]Due, lost *[]string) error {
	keys := dueKey.each(nil, ids)
	type counted struct {
		marks []Due
		lost  []string
	}
	c, err := retry(ctx, func() (c counted, err error) {
		objs, damaged, err := s.each(ctx, keys)
		if err != nil {
			return c, err
		}
		now, b := s.Now(), Batch{}
		for i, o := range objs {
			lost := slices.Contains(damaged, i)
			if o.Data == nil && !lost {
				continue
			}
			d, err := s.dueOf(ctx, o)
			switch {
			case lost || unreadable(err):
				c.lost = append(c.lost, keys[i])
				continue
			case err != nil:
				return c, err
			}
			if reads[ids[i]] > 0 {
				d.Heat = d.Heat.add(reads[ids[i]], now)
				p := d.put(o)
				if p.Clear = false; d.State != dueNow {
					p.Add = nil // its place does not depend on reads
				}
				b.Puts = append(b.Puts, p)
			}
			c.marks = append(c.marks, d.of(ids[i], now))
		}
		if len(b.Puts) == 0 {
			return c, nil
		}
		return c, s.write(ctx, b)
	})
	*marks, *lost = append(*marks, c.marks...), append(*lost, c.lost...)
	return err
}
