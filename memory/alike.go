package memory

import (
	"context"
	"encoding/binary"
	"math"
)

// Alike is a name that a person may take for another one.
type Alike struct {
	Name string `json:"name"` // exact, as it is stored
	Rows int    `json:"rows"` // that are about it
}

// Alike lists the other names in the store that look like a name: those that fall
// together with it in canonical form, in letter case, or by letters of other scripts.
// It is for people to look at; nothing is decided by it.
func (s *Store) Alike(ctx context.Context, name string) ([]Alike, error) {
	var out []Alike
	term, looks := s.termAlike(name), lookAlike(name)
	for from := uint64(0); ; {
		hits, _, err := s.query(ctx, Query{Term: term, From: from, Limit: 1})
		if err != nil || len(hits) == 0 {
			return out, err
		}
		at := hits[0].Sort
		other, err := s.nameAt(ctx, hits[0], looks)
		if err != nil {
			return nil, err
		}
		if other != "" && !SameName(other, name) {
			rows, err := s.countAt(ctx, term, at)
			if err != nil {
				return nil, err
			}
			out = append(out, Alike{Name: other, Rows: rows})
		}
		from = at + 1
	}
}

// nameAt is the name by which a row carries the term of a look, or "" if it cannot be
// read any more.
func (s *Store) nameAt(ctx context.Context, h Hit, looks string) (string, error) {
	objs, damaged, err := s.each(ctx, []string{h.Key})
	if err != nil || objs[0].Data == nil || len(damaged) > 0 {
		return "", err
	}
	b, err := s.body(ctx, objs[0])
	if isErased(err) || unreadable(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	d := b.draft()
	for _, name := range d.subjects() {
		if lookAlike(name) == looks && s.nameSort(name) == h.Sort {
			return name, nil
		}
	}
	return "", nil
}

func (s *Store) countAt(ctx context.Context, term string, sort uint64) (n int, err error) {
	for after := ""; ; {
		hits, next, err := s.query(ctx, Query{Term: term, From: sort, To: sort, After: after, Limit: 1000})
		if err != nil {
			return 0, err
		}
		n += len(hits)
		if after = next; after == "" {
			return n, nil
		}
	}
}

// alikeTerms are the terms by which a row is found from a name that looks like one of
// its own.
func (s *scope) alikeTerms(d *Draft) (terms []Term) {
	have := map[string]bool{}
	for _, name := range d.subjects() {
		if t := s.termAlike(name); !have[t] {
			have[t] = true
			terms = append(terms, Term{t, s.nameSort(name)})
		}
	}
	return terms
}

// nameSort stands for an exact name in the order of a term.
func (s *scope) nameSort(name string) uint64 {
	t := s.blind("name", ExactName(name))
	return min(max(binary.BigEndian.Uint64(t[:]), 1), math.MaxUint64-2) // the ends of a query's range mean all
}
