package memory

import (
	"context"
	"errors"
	"fmt"
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
	Reason string
	Tries  int     // checks since the row last moved
	Heat   float64 // decayed reads, see [Store.AddHeat]
	// Generation numbers the rounds of checks of a row. Whoever marks the row anew begins the
	// next round: a move, [Store.Reschedule], [Store.Postpone]. [Store.Note] does not. No
	// number comes twice for a row.
	Generation uint64
	Sources    []SourceMark // by name
}

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
	if m.Until.IsZero() {
		return invalid("until", "missing", "want a time")
	}
	return checkTime("until", m.Until)
}

// DueRows lists the rows due at a moment, in the order they fell due, starting
// after a cursor ("" = from the start). Parked rows are listed by [Store.ParkedRows]. A
// mark that cannot be read is listed with its time alone.
func (s *Store) DueRows(ctx context.Context, at time.Time, after string, limit int) (rows []Due, next string, err error) {
	return s.marks(ctx, Query{Term: termDue, After: after, To: uint64(at.UnixMicro()), Limit: limit})
}

// ParkedRows lists the rows that nobody could be asked about: their time is zero
// and their reason says why. They stay what they are until [Store.Reschedule]
// marks them due again.
func (s *Store) ParkedRows(ctx context.Context, after string, limit int) (rows []Due, next string, err error) {
	return s.marks(ctx, Query{Term: termParked, After: after, Limit: limit})
}

func (s *Store) marks(ctx context.Context, q Query) (rows []Due, next string, err error) {
	hits, ids, next, err := s.queryRows(ctx, q)
	if err != nil {
		return nil, "", err
	}
	keys := make([]string, 0, 2*len(ids))
	for _, id := range ids {
		keys = append(keys, dueKey.of(id), heatKey.of(id))
	}
	objs, damaged, err := s.each(ctx, keys)
	if err != nil {
		return nil, "", err
	}
	for i, id := range ids {
		var d due
		if slices.Contains(damaged, 2*i) {
			err = ErrDamaged
		} else if objs[2*i].Data == nil {
			continue // it moved between the listing and the read
		} else {
			d, err = s.dueOf(ctx, objs[2*i])
		}
		switch {
		case errors.Is(err, ErrDamaged), errors.Is(err, ErrKey):
			// One that cannot be read hides no other. The index knows when it is due.
			if d = (due{}); q.Term == termDue {
				d.At = time.UnixMicro(int64(hits[i].Sort)).UTC()
			}
		case err != nil:
			return nil, "", err
		}
		rows = append(rows, d.of(id, decodeHeat(objs[2*i+1]).at(s.Now())))
	}
	return rows, next, nil
}

// DueMark returns the due mark of a row: when it wants its next check, and why.
// ok is false if it wants none; a parked row has a zero time.
func (s *Store) DueMark(ctx context.Context, row ID) (mark Due, ok bool, err error) {
	objs, err := s.get(ctx, dueKey.of(row), heatKey.of(row))
	if err != nil {
		return Due{}, false, err
	}
	if objs[0].Data == nil {
		return Due{}, false, nil
	}
	d, err := s.dueOf(ctx, objs[0])
	if err != nil {
		return Due{}, false, err
	}
	return d.of(row, decodeHeat(objs[1]).at(s.Now())), true, nil
}

// Reschedule says when a row wants its next check, and why. A zero time parks
// it: it stays what it is, visible with its reason, until something re-marks it.
// tries is kept for the operator. It moves no state and no fitness version.
func (s *Store) Reschedule(ctx context.Context, row ID, at time.Time, tries int, reason string) error {
	if err := checkTime("at", at); err != nil {
		return err
	}
	return s.remark(ctx, row, func(due) (due, error) {
		return due{At: at, Parked: at.IsZero(), Reason: reason, Tries: tries}, nil
	})
}

// Postpone is [Store.Reschedule] for whoever looked at the mark before. If the row has been
// marked anew since, by a demotion say, nothing is written and the error is a [*ConflictError].
// What was noted of a source since is kept.
func (s *Store) Postpone(ctx context.Context, mark Due, at time.Time, tries int, reason string) error {
	if err := checkTime("at", at); err != nil {
		return err
	}
	return s.remark(ctx, mark.ID, func(now due) (due, error) {
		if now.Generation != mark.Generation {
			return due{}, &ConflictError{Key: dueKey.of(mark.ID)}
		}
		return due{At: at, Parked: at.IsZero(), Reason: reason, Tries: tries}, nil
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
	return written.of(mark.ID, mark.Heat), nil
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
	At         time.Time
	Reason     string
	Parked     bool
	Tries      int    // verdicts asked for since the last move
	Generation uint64 // 0 = of the next round
	Sources    []SourceMark
}

func (d *due) of(id ID, heat float64) Due {
	return Due{ID: id, At: d.At, Reason: d.Reason, Tries: d.Tries, Heat: heat, Generation: d.Generation, Sources: d.Sources}
}

// dueReasons are the store's own words, by their stored number. Any other reason
// is sealed: it may quote a verifier, and a verifier may quote the row.
var dueReasons = [...]string{1: dueAgain, dueRebuilt, "written " + "unverified", "written " + "unavailable_at_write_time", "written " + "verified"}

const (
	dueAgain   = "to be checked again"
	dueRebuilt = "the store was rebuilt"
)

// due marks a row. Without a generation in d the mark is that of the next round.
func (t *transaction) due(h *Head, old Object, d due, at time.Time) {
	if h.Layer == LayerWorking { // it is gone before an answer comes
		t.notDue(h.ID, old)
		return
	}
	if d.Generation == 0 {
		d.Generation, d.Sources = nextRound(old, t.now)
	}
	key := dueKey.of(h.ID)
	e := encoder{}
	e.time(at)
	p := Put{Key: key, From: old.Revision}
	if d.Parked {
		e.byte(1)
		p.Remove, p.Add = []string{termDue}, []Term{{termParked, 0}}
	} else {
		e.byte(0)
		p.Remove, p.Add = []string{termParked}, []Term{{termDue, uint64(at.UnixMicro())}}
	}
	if old.Revision == 0 {
		p.Remove = nil // it carries nothing yet
	}
	e.num(uint64(d.Tries))
	e.num(d.Generation)
	e.num(uint64(len(d.Sources)))
	for _, m := range d.Sources {
		e.str(m.Source)
		e.time(m.Until)
		e.num(uint64(m.Failures))
	}
	code := max(slices.Index(dueReasons[:], d.Reason), 0)
	e.byte(byte(code))
	p.Data = e.b
	if code == 0 {
		p.Data = append(p.Data, t.seal(h.Class, key, old.Revision, []byte(d.Reason))...)
	}
	t.put(p)
}

// nextRound is the generation of the round after that of a mark, and what holds in it too: of
// sources that may not be asked yet. A mark that cannot be read says nothing.
func nextRound(old Object, now time.Time) (generation uint64, kept []SourceMark) {
	generation = uint64(max(now.UnixMicro(), 1))
	d, _, _, err := decodeDue(old.Data)
	if old.Data == nil || err != nil {
		return generation, nil
	}
	return max(generation, d.Generation+1), slices.DeleteFunc(d.Sources, func(m SourceMark) bool { return !m.Until.After(now) })
}

// decodeDue decodes what is not sealed of a mark. sealed is its reason if it has no code.
func decodeDue(data []byte) (d due, code int, sealed []byte, err error) {
	r := decoder{b: data}
	d = due{At: r.time(), Parked: r.byte() == 1, Tries: int(min(r.num(), math.MaxInt32)), Generation: r.num()}
	for range min(r.num(), maxMarkSources) {
		d.Sources = append(d.Sources, SourceMark{r.str(), r.time(), int(min(r.num(), math.MaxInt32))})
	}
	code = int(r.byte())
	if r.bad || code >= len(dueReasons) {
		return due{}, 0, nil, errWire
	}
	if code > 0 {
		d.Reason = dueReasons[code]
		return d, code, nil, r.end()
	}
	return d, 0, r.b, nil
}

// dueOf opens a mark.
func (s *Store) dueOf(ctx context.Context, o Object) (due, error) {
	d, code, sealed, err := decodeDue(o.Data)
	if err != nil || code > 0 {
		return d, faulty(err, "due mark")
	}
	plain, err := s.unseal(ctx, o.Key, o.Revision, sealed)
	if isErased(err) {
		return d, nil
	}
	d.Reason = string(plain)
	return d, err
}

// notDue takes the mark of a row away.
func (t *transaction) notDue(id ID, old Object) {
	if old.Data != nil {
		t.put(Put{Key: dueKey.of(id), From: old.Revision, Remove: []string{termDue, termParked}})
	}
}
