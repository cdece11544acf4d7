package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// snapshotEvery is how often the log of a row's evidence has the whole list, so
// that reading a moment of it costs the entries since (C12-5.7.3). An entry of a
// head always has all that can move of it.
const snapshotEvery = 64

// RowAt returns a row as it was at a moment of the store's history: what its axes
// were and what evidence it had. [SequenceAt] makes a sequence of a time. A row
// that was not written yet gives [ErrNotFound]. Of a row that was erased since,
// the skeleton comes back, with [FlagErased] and no content.
//
// It costs the entries since the last snapshot, however long the history is.
// Corroboration and rejection belong to the claim, and are left out.
func (s *Store) RowAt(ctx context.Context, id ID, at Sequence) (Row, error) {
	if err := id.check("id"); err != nil {
		return Row{}, err
	}
	objs, err := s.get(ctx, headKey.of(id), bodyKey.of(id), noteKey.of(id))
	if err != nil {
		return Row{}, err
	}
	if objs[0].Revision == 0 {
		return Row{}, fmt.Errorf("%w: %s", ErrNotFound, id)
	}
	var r Row
	if r.Head, err = s.headAt(ctx, id, objs[0].Revision, at); err != nil {
		return Row{}, err
	}
	if objs[1].Data == nil {
		r.Flags |= FlagErased
		return r, nil
	}
	b, err := s.body(ctx, objs[1])
	if isErased(err) {
		r.Flags |= FlagErased
		return r, nil
	}
	if err != nil {
		return Row{}, err
	}
	r.fill(&b)
	r.Evidence, err = s.evidenceAt(ctx, id, objs[0].Revision, objs[2].Revision, at)
	return r, err
}

// RowsAt lists the rows that were there at a moment, newest first, each as
// [Store.RowAt] gives it. A state in the filter is the state then.
func (s *Store) RowsAt(ctx context.Context, f Filter, at Sequence) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		state := f.State
		f.State = 0
		for id, err := range s.carriers(ctx, s.termOf(f)) {
			if err != nil {
				yield(Row{}, err)
				return
			}
			r, err := s.RowAt(ctx, id, at)
			if isNotFound(err) || err == nil && state != 0 && r.State() != state {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// carriers lists the rows that carry a term.
func (s *Store) carriers(ctx context.Context, term string) iter.Seq2[ID, error] {
	return func(yield func(ID, error) bool) {
		for after := ""; ; {
			_, ids, next, err := s.queryRows(ctx, Query{Term: term, After: after, Limit: 1000})
			if err != nil {
				yield("", err)
				return
			}
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// headAt is a head as its log had it at a moment.
func (s *Store) headAt(ctx context.Context, id ID, current uint64, at Sequence) (Head, error) {
	key := headKey.of(id)
	r, revision, err := s.find(ctx, key, current, at)
	if err != nil {
		return Head{}, err
	}
	if revision == 0 {
		return Head{}, fmt.Errorf("%w: %s was not written yet", ErrNotFound, id)
	}
	var first record
	for l, err := range s.entries(ctx, key, 0) {
		if err != nil {
			return Head{}, err
		}
		if _, err := first.decode(l.Data); err != nil {
			return Head{}, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, key)
		}
		break
	}
	h, err := replay(first.state, r.state, kindOf(r.kind) == EntryErase)
	if err != nil {
		return Head{}, fmt.Errorf("%w: entry %d of %s", ErrStore, revision, key)
	}
	h.ID, h.Revision = id, revision
	h.link = link{r.sequence, r.mac}
	return h, nil
}

// find is the last entry of a log that is not after a moment; revision 0 if there
// is none. It reads backwards from the end in steps that double.
func (s *Store) find(ctx context.Context, key string, current uint64, at Sequence) (found record, revision uint64, err error) {
	for step := uint64(snapshotEvery); current > 0; step *= 2 {
		from := current - min(step, current)
		for l, err := range s.entries(ctx, key, from) {
			if err != nil {
				return record{}, 0, err
			}
			if l.Revision > current {
				break
			}
			var r record
			if _, err := r.decode(l.Data); err != nil {
				return record{}, 0, fmt.Errorf("%w: entry %d of %s", ErrStore, l.Revision, key)
			}
			if r.sequence > at {
				break
			}
			found, revision = r, l.Revision
		}
		if revision > 0 {
			return found, revision, nil
		}
		current = from
	}
	return record{}, 0, nil
}

// evidenceAt is the evidence of a row as it was at a moment: the changes in the
// logs of its head and its note up to then, added up from the last snapshot.
func (s *Store) evidenceAt(ctx context.Context, id ID, head, note uint64, at Sequence) ([]Evidence, error) {
	changes := map[uint64]change{}
	last, seen := uint64(0), [2]uint64{head, note}
	for step := uint64(snapshotEvery); ; step *= 2 {
		for i, key := range [...]string{headKey.of(id), noteKey.of(id)} {
			until := seen[i]
			seen[i] -= min(step, until)
			if until == 0 {
				continue
			}
			for l, err := range s.entries(ctx, key, seen[i]) {
				if err != nil {
					return nil, err
				}
				if l.Revision > until {
					break
				}
				e, c, err := s.entry(ctx, key, l)
				if err != nil {
					return nil, err
				}
				if c.number > 0 && e.Sequence <= at {
					changes[c.number] = c
					last = max(last, c.number)
				}
			}
		}
		begin := max(last/snapshotEvery*snapshotEvery, 1)
		complete := true
		for n := begin; n <= last; n++ {
			_, ok := changes[n]
			complete = complete && ok
		}
		if done := seen == [2]uint64{}; complete && (last > 0 || done) {
			return addUp(changes, begin, last), nil
		} else if done {
			return nil, fmt.Errorf("%w: a change of the evidence of %s is missing", ErrStore, id)
		}
	}
}

func addUp(changes map[uint64]change, from, to uint64) (list []Evidence) {
	for n := from; n <= to; n++ {
		list = changes[n].apply(list)
	}
	return list
}

func isNotFound(err error) bool { return errors.Is(err, ErrNotFound) }
