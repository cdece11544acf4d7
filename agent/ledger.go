package agent

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
)

// ledger is what reached a run's context. It only grows. It is safe for
// concurrent use: a model may call several tools at once.
type ledger struct {
	mu        sync.Mutex
	served    []admission.Served // each row once, in the order it was first read
	rows      map[memory.ID]memory.Row
	ancestors map[memory.ID]bool
	handles   map[string]referred // by token; none of them is in rows by that
	typed     []string            // what the principal typed
	unknown   string              // why part of the lineage is not known; "" = all is known
}

func newLedger() *ledger {
	return &ledger{rows: map[memory.ID]memory.Row{}, ancestors: map[memory.ID]bool{}, handles: map[string]referred{}}
}

// fork is a copy that grows by itself.
func (l *ledger) fork() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{served: slices.Clone(l.served), rows: maps.Clone(l.rows), ancestors: maps.Clone(l.ancestors),
		handles: maps.Clone(l.handles), typed: slices.Clone(l.typed), unknown: l.unknown}
}

func (l *ledger) refer(token string, to referred) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handles[token] = to
}

func (l *ledger) referred(token string) (referred, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref, have := l.handles[token]
	return ref, have
}

// read adds rows and their closure.
func (l *ledger) read(rows []memory.Row, ancestors []memory.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		r := rows[i]
		if _, have := l.rows[r.ID]; have {
			continue
		}
		l.rows[r.ID] = r
		l.served = append(l.served, admission.NewServed(&r))
	}
	for _, id := range ancestors {
		l.ancestors[id] = true
	}
}

func (l *ledger) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unknown == "" {
		l.unknown = why
	}
}

func (l *ledger) heard(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed = append(l.typed, text)
}

// snapshot is the lineage of a call or a write at this moment.
type snapshot struct {
	served            []admission.Served
	direct, ancestors []memory.ID
	lineage           gate.Lineage
	unknown           string
}

func (l *ledger) snapshot() snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{served: slices.Clone(l.served), unknown: l.unknown}
	s.direct = make([]memory.ID, len(l.served))
	for i := range l.served {
		s.direct[i] = l.served[i].ID
	}
	s.ancestors = make([]memory.ID, 0, len(l.ancestors))
	for id := range l.ancestors {
		if _, direct := l.rows[id]; !direct {
			s.ancestors = append(s.ancestors, id)
		}
	}
	slices.Sort(s.ancestors)
	s.seal()
	return s
}

// seal makes the lineage of what the snapshot holds.
func (s *snapshot) seal() {
	if s.unknown != "" {
		s.lineage = gate.Partial(s.unknown, s.direct, s.ancestors) // what is known is judged all the same
	} else {
		s.lineage = gate.Known(s.direct, s.ancestors)
	}
}

// add puts in what one call rests on besides the ledger. It narrows nothing.
func (s *snapshot) add(direct, ancestors []memory.ID, unknown string) {
	if s.unknown == "" {
		s.unknown = unknown
	}
	if len(direct) == 0 && unknown == "" {
		return
	}
	for _, id := range direct {
		if !slices.Contains(s.direct, id) {
			s.direct = append(s.direct, id)
		}
	}
	s.ancestors = append(s.ancestors, ancestors...)
	s.seal()
}

// typedSpan reports whether words stand verbatim, as whole words, in something
// the principal typed.
func (l *ledger) typedSpan(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(text string) bool { return containsWord(text, words) })
}

// typedWord reports whether the principal typed the words, in any letter case.
func (l *ledger) typedWord(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(text string) bool { return containsWord(strings.ToLower(text), strings.ToLower(words)) })
}

// choosing finds the served row that names a tool to use: of several the one that
// stands best.
func (l *ledger) choosing(tool string) (id memory.ID, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rank memory.Rank
	for i := range l.served {
		r := l.rows[l.served[i].ID]
		if r.Content.Predicate == ChoicePredicate && r.Content.Object == tool && standing(&r) > rank {
			id, found, rank = r.ID, true, standing(&r)
		}
	}
	return id, found
}

// shown reports whether the run was shown the row, and fit whether it was verified
// when it was.
func (l *ledger) shown(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, have := l.rows[id]
	return have
}

func (l *ledger) fit(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, have := l.rows[id]
	return have && standing(&r) > 0
}

// rowWith finds a served row whose typed object is exactly the value: of several the
// one that stands best, and of equals the newest.
func (l *ledger) rowWith(value string) (memory.Row, bool) {
	return l.best(func(object string) bool { return object == value })
}

// best is the served row that stands best among those whose typed object is wanted.
func (l *ledger) best(wanted func(object string) bool) (best memory.Row, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.served) - 1; i >= 0; i-- {
		if r := l.rows[l.served[i].ID]; r.Content.Typed() && wanted(r.Content.Object) && (!found || standing(&r) > standing(&best)) {
			best, found = r, true
		}
	}
	return best, found
}

// standing orders rows by how far they can vouch, as they were read: 0 is a row that
// is not fit, and then the rank of its evidence. The gate reads it anew.
func standing(r *memory.Row) memory.Rank {
	if r.Truth != memory.TruthSupported || r.Security != memory.SecurityClean {
		return 0
	}
	return r.Rank
}

// written finds numbers as people write them: 1000, 1,000, 12.50.
var written = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?`)

// typedNumber reports whether the principal typed a number of this value. A
// currency sign beside it is fine; a letter, a digit or any other joining sign is
// not, so that 900 is not found in ACC-900 or in 1900.
func (l *ledger) typedNumber(n json.Number) bool {
	const currency = "$€£¥"
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.typed {
		for _, at := range written.FindAllStringIndex(text, -1) {
			before, after := strings.TrimRight(text[:at[0]], currency), strings.TrimLeft(text[at[1]:], currency+"%")
			if joined(lastRunes(before)) || joined(firstRunes(after)) {
				continue
			}
			got, ok := new(big.Rat).SetString(strings.ReplaceAll(text[at[0]:at[1]], ",", ""))
			if ok && strings.HasSuffix(before, "-") {
				got.Neg(got)
			}
			if ok && got.Cmp(want) == 0 {
				return true
			}
		}
	}
	return false
}

// rowWithNumber finds a served row whose typed object is a number of this value, as
// rowWith does.
func (l *ledger) rowWithNumber(n json.Number) (memory.Row, bool) {
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return memory.Row{}, false
	}
	return l.best(func(object string) bool {
		got, ok := number(object)
		return ok && got.Cmp(want) == 0
	})
}

// plainNumber is a number as a row holds one: a short exponent at most, since eight
// characters with a long one take longer to read than a page.
var plainNumber = regexp.MustCompile(`^[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$`)

// number reads a text of a row as a number. The text is hostile.
func number(text string) (*big.Rat, bool) {
	if len(text) > maxNumber || !plainNumber.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// containsWord reports whether words occur in text with no letter, digit or
// joining sign on either side, so that "a@b.example" is not found in
// "xa@b.example" or "a@b.example.evil".
func containsWord(text, words string) bool {
	if words == "" {
		return false
	}
	for from := 0; ; {
		at := strings.Index(text[from:], words)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(words)
		if !joined(lastRunes(text[:start])) && !joined(firstRunes(text[end:])) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
}

// joined reports whether the rune next to a match, and the one beyond it, make
// the match a part of a longer token: a letter or digit, or a sign with one behind.
func joined(next, beyond rune) bool {
	word := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) }
	return word(next) || strings.ContainsRune(`_@/\#%&=~$€£`, next) && next != 0 || strings.ContainsRune(`.-+:,'’`, next) && next != 0 && word(beyond)
}

func firstRunes(s string) (a, b rune) {
	a, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return 0, 0
	}
	if b, size = utf8.DecodeRuneInString(s[size:]); size == 0 {
		b = 0
	}
	return a, b
}

func lastRunes(s string) (a, b rune) {
	a, size := utf8.DecodeLastRuneInString(s)
	if size == 0 {
		return 0, 0
	}
	if b, size = utf8.DecodeLastRuneInString(s[:len(s)-size]); size == 0 {
		b = 0
	}
	return a, b
}
