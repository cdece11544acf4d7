package memory

import (
	"context"
	"math"
	"slices"
	"strings"
)

// A row that may be relied on is found before those that may not, however many of them
// there are: its head carries terms of its words and of its line beside those that its
// body carries, and they move in the transaction in which the head does. They decide nothing:
// what is found is read and judged.

// offer says for whom a row may be relied on, and since when; the zero offer is for nobody.
type offer struct {
	is    bool
	whose Token  // of the only principal for whom it counts; zero = for all
	at    uint64 // its place among others: what was looked at last comes first
}

// offer is what the head says of it.
func (h *Head) offer() offer {
	if h.Truth != TruthSupported || h.Security != SecurityClean || h.Flags&(FlagTainted|FlagErased) != 0 ||
		h.Retrieval != RetrievalNormal && h.Retrieval != RetrievalPrivilegedOnly {
		return offer{}
	}
	o := offer{is: true, at: newestFirst(h.LookedAt())}
	if h.Has(FlagOwnWord) {
		o.whose = h.Speaker
	}
	return o
}

// offerTerms are what a row that may be relied on is found by before others. They are a
// function of what is stored.
func (s *scope) offerTerms(o offer, c Content) []Term {
	if !o.is {
		return nil
	}
	words := searchWords(c)
	terms := make([]Term, 0, len(words)+1)
	for _, w := range words {
		terms = append(terms, Term{s.termOffered(o.whose, w), o.at})
	}
	if c.Typed() {
		terms = append(terms, Term{s.termOfferedLine(o.whose, c), o.at})
	}
	return terms
}

func (s *scope) termOffered(whose Token, word string) string {
	if whose == (Token{}) {
		return s.blindTerm("f", "offered word", word)
	}
	return s.blindTerm("f", "own word", string(whose[:])+word)
}

func (s *scope) termOfferedLine(whose Token, c Content) string {
	t := s.blind("offered line", string(whose[:])+c.line())
	return "F" + string(t[:])
}

// offered moves the terms of a head with it.
func (t *transaction) offered(p *Put, old, next *Head, says *Content) {
	was, is := old.offer(), next.offer()
	if was == is {
		return
	}
	if was.is && (!is.is || was.whose != is.whose) { // whatever they are
		p.Remove, p.Clear = nil, true
		p.Add = []Term{{termState(next.stateOnce(old.Revision + 1)), newestFirst(next.CreatedAt)}}
	}
	if !is.is {
		return
	}
	if says == nil {
		if t.err == nil {
			t.err = invalid("content", "required", "row %s is moved to where it is found by what it says", next.ID)
		}
		return
	}
	p.Add = append(p.Add, t.store.scope.offerTerms(is, *says)...)
}

// Lookup asks for rows by their words, or by an exact subject and predicate.
type Lookup struct {
	Text      string
	Subject   string // with Predicate, in place of Text
	Predicate string
	// Principal is for whom: what stands on its word about itself alone is relied on for
	// that principal, and for nobody else (I-13).
	Principal string
	Limit     int // the most rows; 0 = 1,000
}

// How far a [Store.Find] looks.
const (
	DefaultLookup = 1000 // rows
	searchDepth   = 200  // rows that one word contributes, newest first
	offerDepth    = 500  // and rows that may be relied on
)

// Search is [Store.Find] by words, for who does not ask whether that was all.
func (s *Store) Search(ctx context.Context, text string, limit int) ([]Row, error) {
	rows, _, err := s.Find(ctx, Lookup{Text: text, Limit: limit})
	return rows, err
}

// Find returns the rows that match. Rows that may be relied on come into the answer
// whatever the number of others that match as well, and in a time that does not grow with
// it: verified ones that are neither held nor kept from recall, what was looked at last
// first. Among rows by their words the best match comes first; a word carried by few rows
// weighs more than one carried by many, and of equal matches the newer row comes first.
// Rows by subject and predicate come newest first.
//
// more reports whether a row that matches is not in the answer: it was not looked at, is
// beyond the limit, or cannot be read. What may be shown is the reader's policy to say.
func (s *Store) Find(ctx context.Context, l Lookup) (rows []Row, more bool, err error) {
	if err := l.check(); err != nil {
		return nil, false, err
	}
	if l.Limit == 0 {
		l.Limit = DefaultLookup
	}
	var ids []ID
	if l.Text == "" && l.Subject != "" {
		ids, more, err = s.findLine(ctx, l)
	} else {
		ids, more, err = s.findWords(ctx, l)
	}
	if err != nil {
		return nil, false, err
	}
	rows, lost, err := s.readable(ctx, ids)
	return rows, more || lost, err
}

func (l *Lookup) check() error {
	for _, f := range [...]struct{ name, value string }{{"query", l.Text}, {"subject", l.Subject}, {"predicate", l.Predicate}, {"principal", l.Principal}} {
		if err := checkText(f.name, f.value, MaxField); err != nil {
			return err
		}
	}
	switch {
	case l.Text != "" && l.Subject != "":
		return invalid("query", "conflict", "words, or a subject and a predicate")
	case (l.Subject == "") != (l.Predicate == ""):
		return invalid("query", "required", "a subject and a predicate go together")
	case l.Limit < 0:
		return invalid("limit", "out_of_range", "negative")
	}
	return nil
}

// whose are the speakers whose rows may be relied on: everybody, and the principal that
// the answer is for.
func (s *Store) whose(principal string) []Token {
	if principal == "" {
		return []Token{{}}
	}
	return []Token{{}, s.Speaker(principal)}
}

// found are the rows of one term: those that may be relied on, and the newest of all.
type found struct {
	relied, newest []ID
	cut            bool // there are others
}

// findBy lists the carriers of a term, and before them those of the terms of the rows that
// may be relied on.
func (s *Store) findBy(ctx context.Context, term string, offers []string, depth, relied int) (f found, err error) {
	for _, o := range offers {
		_, ids, next, err := s.queryRows(ctx, Query{Term: o, Limit: relied})
		if err != nil {
			return f, err
		}
		f.relied, f.cut = append(f.relied, ids...), f.cut || next != ""
	}
	_, ids, next, err := s.queryRows(ctx, Query{Term: term, Limit: depth})
	if err != nil {
		return f, err
	}
	f.newest = ids
	if next == "" || f.cut {
		f.cut = f.cut || next != ""
		return f, nil
	}
	// Are those that are left the ones that may be relied on?
	older := slices.DeleteFunc(slices.Clone(f.relied), func(id ID) bool { return slices.Contains(f.newest, id) })
	_, ids, next, err = s.queryRows(ctx, Query{Term: term, After: next, Limit: len(older) + 1})
	f.cut = next != "" || slices.ContainsFunc(ids, func(id ID) bool { return !slices.Contains(older, id) })
	return f, err
}

// findWords lists the best matches of some words.
func (s *Store) findWords(ctx context.Context, l Lookup) (ids []ID, more bool, err error) {
	score, relied := map[ID]float64{}, map[ID]bool{}
	for _, w := range searchWords(Content{Text: l.Text}) {
		var offers []string
		for _, t := range s.whose(l.Principal) {
			offers = append(offers, s.termOffered(t, w))
		}
		f, err := s.findBy(ctx, s.termWord(w), offers, searchDepth, offerDepth)
		if err != nil {
			return nil, false, err
		}
		more = more || f.cut
		for _, id := range f.relied {
			relied[id] = true
		}
		for _, id := range dedupe(append(f.newest, f.relied...)) {
			score[id] += 1 / math.Sqrt(float64(max(len(f.newest), 1)))
		}
	}
	for id := range score {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b ID) int {
		switch {
		case score[a] > score[b]:
			return -1
		case score[a] < score[b]:
			return 1
		}
		return strings.Compare(string(b), string(a))
	})
	ids, cut := within(ids, relied, l.Limit)
	return ids, more || cut, nil
}

// findLine lists the rows of one subject and predicate, newest first.
func (s *Store) findLine(ctx context.Context, l Lookup) (ids []ID, more bool, err error) {
	c := Content{Subject: l.Subject, Predicate: l.Predicate}
	var offers []string
	for _, t := range s.whose(l.Principal) {
		offers = append(offers, s.termOfferedLine(t, c))
	}
	limit := min(l.Limit, DefaultLookup)
	f, err := s.findBy(ctx, s.termLine(c), offers, limit, limit)
	if err != nil {
		return nil, false, err
	}
	relied := map[ID]bool{}
	for _, id := range f.relied {
		relied[id] = true
	}
	ids = dedupe(append(f.newest, f.relied...))
	slices.SortFunc(ids, func(a, b ID) int { return strings.Compare(string(b), string(a)) })
	ids, cut := within(ids, relied, l.Limit)
	return ids, f.cut || cut, nil
}

// within are the first of some rows, up to a limit, those that may be relied on before
// the others. They stay in their order.
func within(ids []ID, relied map[ID]bool, limit int) (kept []ID, cut bool) {
	if len(ids) <= limit {
		return ids, false
	}
	room := limit - min(len(relied), limit)
	for _, id := range ids {
		switch {
		case relied[id]:
			kept = append(kept, id)
		case room > 0:
			kept = append(kept, id)
			room--
		}
	}
	return kept[:min(len(kept), limit)], true
}

// readable reads rows that were listed. One that cannot be read hides no other, and lost
// says so.
func (s *Store) readable(ctx context.Context, ids []ID) (rows []Row, lost bool, err error) {
	rows, err = s.present(ctx, ids)
	if !oneIsLost(err) {
		return rows, false, err
	}
	rows = nil
	for _, id := range ids {
		one, err := s.present(ctx, []ID{id})
		switch {
		case oneIsLost(err):
			lost = true
		case err != nil:
			return nil, false, err
		default:
			rows = append(rows, one...)
		}
	}
	return rows, lost, nil
}
