package agent

import (
	"encoding/json"
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
	typed     []string // what the principal typed
	unknown   string   // why part of the lineage is not known; "" = all is known
}

func newLedger() *ledger {
	return &ledger{rows: map[memory.ID]memory.Row{}, ancestors: map[memory.ID]bool{}}
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
	served  []admission.Served
	direct  []memory.ID
	lineage gate.Lineage
	unknown string
}

func (l *ledger) snapshot() snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{served: slices.Clone(l.served), unknown: l.unknown}
	s.direct = make([]memory.ID, len(l.served))
	for i := range l.served {
		s.direct[i] = l.served[i].ID
	}
	up := make([]memory.ID, 0, len(l.ancestors))
	for id := range l.ancestors {
		if _, direct := l.rows[id]; !direct {
			up = append(up, id)
		}
	}
	slices.Sort(up)
	if l.unknown != "" {
		s.lineage = gate.Partial(l.unknown, s.direct, up) // what is known is judged all the same
	} else {
		s.lineage = gate.Known(s.direct, up)
	}
	return s
}

// typedSpan reports whether words stand verbatim, as whole words, in something
// the principal typed.
func (l *ledger) typedSpan(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(text string) bool { return containsWord(text, words) })
}

// rowWith finds a served row whose typed object is exactly the value.
func (l *ledger) rowWith(value string) (memory.ID, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.served) - 1; i >= 0; i-- {
		if r := l.rows[l.served[i].ID]; r.Content.Typed() && r.Content.Object == value {
			return r.ID, true
		}
	}
	return "", false
}

// written finds numbers as people write them: 1000, 1,000, 12.50.
var written = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?`)

// typedNumber reports whether the principal typed a number of this value. A
// currency sign beside it is fine; a letter, a digit or any other joining sign is
// not, so that 900 is not found in ACC-900 or in 1900.
func (l *ledger) typedNumber(n json.Number) bool {
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return false
	}
	const currency = "$€£¥"
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.typed {
		for _, at := range written.FindAllStringIndex(text, -1) {
			before := strings.TrimRight(text[:at[0]], currency)
			if joined(lastRunes(before)) || joined(firstRunes(strings.TrimLeft(text[at[1]:], currency+"%"))) {
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

// rowWithNumber finds a served row whose typed object is a number of this value.
func (l *ledger) rowWithNumber(n json.Number) (memory.ID, bool) {
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return "", false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.served) - 1; i >= 0; i-- {
		r := l.rows[l.served[i].ID]
		if !written.MatchString(r.Content.Object) || len(r.Content.Object) > 64 {
			continue
		}
		if got, ok := new(big.Rat).SetString(r.Content.Object); ok && r.Content.Typed() && got.Cmp(want) == 0 {
			return r.ID, true
		}
	}
	return "", false
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
