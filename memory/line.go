package memory

import (
	"context"
	"fmt"
	"slices"
)

// LineMark is where a line stood at one moment: what is verified of a subject and a
// predicate. Whoever asks a source takes one before, so that a slow answer does not pass
// for a newer one than what was verified meanwhile. No clock orders readings (I-16). The
// zero LineMark marks nothing.
type LineMark struct {
	key      string
	revision uint64
	notes    *ownNotes
}

// OwnWrite reports whether a value is one that a call set which rested on what was not fit. The
// source then repeats our own word, and does not vouch for it (I-4). place is a predicate, or a
// place in a record such as "order/status"; "" means any predicate. rows are those it rested on and
// that are there still; whole reports whether these are all.
func (m LineMark) OwnWrite(place, value string) (rows []ID, whole, ours bool) {
	w := m.notes.says(place, value)
	if w == nil {
		return nil, false, false
	}
	return slices.Clone(w.rows), !w.more, true
}

// MarkLines gives the marks of the lines of some contents, in their order, in one round
// trip. Only subject and predicate count; the line of free text has the zero mark.
func (s *Store) MarkLines(ctx context.Context, contents ...Content) ([]LineMark, error) {
	marks := make([]LineMark, len(contents))
	var keys []string
	own := make([][]string, len(contents))
	for i, c := range contents {
		if c.Subject == "" || c.Predicate == "" {
			continue
		}
		marks[i].key, own[i] = s.line(c), s.ownKeys(c.Subject)
		keys = append(append(keys, marks[i].key), own[i]...)
	}
	if len(keys) == 0 {
		return marks, nil
	}
	objs, err := s.get(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for i := range marks {
		if marks[i].key == "" {
			continue
		}
		marks[i].revision = objs[0].Revision
		if marks[i].notes, err = s.scope.ownNotes(objs[1 : 1+len(own[i])]); err != nil {
			return nil, err
		}
		if err := s.living(ctx, marks[i].notes); err != nil {
			return nil, err
		}
		objs = objs[1+len(own[i]):]
	}
	return marks, nil
}

// overtaken reports whether the line has moved since it was marked, to a verified row of
// another claim. That it moved, and what it moved to is verified no more, counts as well.
func (m LineMark) overtaken(line Object, claim Token, verified []bystander) error {
	if m.key != line.Key || m.revision == line.Revision {
		return nil
	}
	if slices.ContainsFunc(verified, func(r bystander) bool { return !r.unread && r.Claim == claim }) {
		return nil
	}
	return fmt.Errorf("%w: something else was verified since the source was asked", ErrOvertaken)
}

// lineRecord is what the object of a line lists: its verified rows, those that call the
// predicate functional apart from the others. Rows that are verified no more may be among
// them. A line that has no object has no verified row.
type lineRecord struct {
	By                ID // the row that put it last, see presume; "" = none did
	functional, plain []ID
	// More rows of the kind are verified than are listed. It ends with a Rebuild alone:
	// which ones they are, and whether they still are, no list says.
	moreFunctional, morePlain bool
}

// The first byte of the object of a line.
const (
	lineMoreFunctional byte = 1 << iota
	lineMorePlain
	lineUnknown // and what is above it is in no object
)

// line is the key of the object of a line.
func (s *scope) line(c Content) string { return lineKey.at(s.blind("line", c.line())) }

func lineOf(o Object) (l lineRecord, err error) {
	if o.Data == nil {
		return l, nil
	}
	d := decoder{b: o.Data}
	flags := d.byte()
	l.functional, l.plain = d.ids(), d.ids()
	l.moreFunctional, l.morePlain = flags&lineMoreFunctional != 0, flags&lineMorePlain != 0
	d.members(l.members)
	if flags >= lineUnknown {
		d.bad = true
	}
	if err := d.end(); err != nil {
		return lineRecord{}, faulty(err, "line")
	}
	return l, nil
}

// members lists the optional members.
func (l *lineRecord) members(m *members) { m.id(1, &l.By) }

func (l *lineRecord) encode() []byte {
	var flags byte
	if l.moreFunctional {
		flags |= lineMoreFunctional
	}
	if l.morePlain {
		flags |= lineMorePlain
	}
	e := encoder{}
	e.byte(flags)
	e.ids(l.functional)
	e.ids(l.plain)
	e.members(l.members)
	return e.b
}

// rivals are the listed rows that may contradict one with another object: all if that one
// calls the predicate functional, else those that do. whole reports whether these are all
// that there are.
func (l *lineRecord) rivals(functional bool) (ids []ID, whole bool) {
	if !functional {
		return l.functional, !l.moreFunctional
	}
	return append(slices.Clone(l.functional), l.plain...), !l.moreFunctional && !l.morePlain
}

// misses reports whether a verified row should be listed and is not: the object is gone,
// or one of before the row was put back.
func (l *lineRecord) misses(id ID) bool {
	return !l.moreFunctional && !l.morePlain && !slices.Contains(l.functional, id) && !slices.Contains(l.plain, id)
}

// quiet reports whether no row that was verified calls the predicate functional.
func (l *lineRecord) quiet() bool { return len(l.functional) == 0 && !l.moreFunctional }

// drop takes from the list those of some rows that were read as verified no more.
func (l *lineRecord) drop(read []ID, verified []bystander) {
	lapsed := func(id ID) bool {
		return slices.Contains(read, id) && !slices.ContainsFunc(verified, func(r bystander) bool { return r.ID == id })
	}
	l.functional, l.plain = slices.DeleteFunc(l.functional, lapsed), slices.DeleteFunc(l.plain, lapsed)
}

// enlist lists a row that is verified, if there is room. Rows that are verified no more
// leave a list that is full; if it still is, whoever looks for rivals in it knows that it
// is not whole.
func (t *transaction) enlist(l *lineRecord, id ID, functional bool) error {
	list, more := &l.plain, &l.morePlain
	if functional {
		list, more = &l.functional, &l.moreFunctional
	}
	if slices.Contains(*list, id) {
		return nil
	}
	if len(*list) >= maxListed && !*more {
		heads, lost, err := t.store.headsOf(t.ctx, *list)
		if err != nil {
			return err
		}
		*list = (*list)[:0]
		for i, h := range heads {
			if lost[i] || h.Truth == TruthSupported {
				*list = append(*list, h.ID)
			}
		}
	}
	if len(*list) >= maxListed {
		*more = true
		return nil
	}
	*list = append(*list, id)
	return nil
}
