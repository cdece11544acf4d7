package restate

import "slices"

// Relation says how a text stands to a row that was read.
type Relation uint8

// The values of [Relation]. The zero value is the safe one.
const (
	Different Relation = iota // adds, drops or changes something, or may do so
	Same                      // canonically equal text
	Restates                  // other words, nothing typed added or dropped
)

// String returns the name of r.
func (r Relation) String() string {
	switch r {
	case Same:
		return "same"
	case Restates:
		return "restates"
	}
	return "different"
}

// Verdict is the answer of [Compare]. The zero Verdict is [Different].
type Verdict struct {
	relation Relation
	reason   string
}

// Relation returns what was found.
func (v Verdict) Relation() Relation { return v.relation }

// Merges reports whether the restatement may collapse onto the incumbent.
func (v Verdict) Merges() bool { return v.relation == Same || v.relation == Restates }

// Reason returns a short stable code, such as "numbers differ" or "name added".
func (v Verdict) Reason() string {
	if v.reason == "" {
		return "not compared"
	}
	return v.reason
}

// The codes of [Verdict.Reason].
const (
	reasonSame      = "same text"
	reasonRestates  = "adds nothing typed"
	reasonTooLong   = "too long"
	reasonOpaque    = "hidden or broken characters"
	reasonEmpty     = "no words"
	reasonConfirms  = "claims confirmation"
	reasonSource    = "attribution dropped"
	reasonNumbers   = "numbers differ"
	reasonUnits     = "units differ"
	reasonDates     = "dates differ"
	reasonLinks     = "links differ"
	reasonIdents    = "identifiers differ"
	reasonNegation  = "polarity"
	reasonMood      = "mood"
	reasonModal     = "modality"
	reasonQualifier = "qualifier"
	reasonNameAdded = "name added"
	reasonNameGone  = "name dropped"
	reasonClaims    = "claim count"
	reasonPrep      = "role differs"
	reasonAdded     = "content added"
	reasonDropped   = "content dropped"
	reasonContent   = "content differs"
	reasonOrder     = "order differs"
	reasonCase      = "letter case"
	reasonArticle   = "article"
	reasonCategory  = "category"
)

// Compare says whether restated, a text about to be stored, says what incumbent,
// a row that was read, says, and nothing more. The answer is the same with the
// arguments exchanged, save for three things a restatement may not do: claim that
// something was confirmed, drop "the user said that", and drop the quotation marks
// around all of it.
func Compare(incumbent, restated Statement) Verdict {
	a, b := &incumbent, &restated
	switch {
	case !a.set || !b.set:
		return Verdict{}
	case a.text == b.text:
		return Verdict{Same, reasonSame}
	case a.opaque || b.opaque:
		return Verdict{Different, reasonOpaque}
	case a.long || b.long:
		return Verdict{Different, reasonTooLong}
	case len(a.items) == 0 || len(b.items) == 0:
		return Verdict{Different, reasonEmpty}
	}
	if r := differ(a, b); r != "" {
		return Verdict{Different, r}
	}
	return Verdict{Restates, reasonRestates}
}

// differ gives the first reason why b does not restate a, or "".
func differ(a, b *Statement) string {
	equal := len(a.items) == len(b.items)
	for i := 0; equal && i < len(a.items); i++ {
		equal = a.items[i].key == b.items[i].key
	}
	switch {
	case b.confirms > a.confirms:
		return reasonConfirms
	case !equal:
		return explain(a, b)
	case !categoryAllowed(a, b):
		return reasonCategory
	// The canonical forms agree. What follows does not trust them: it compares
	// what was noted before any rewording.
	case !slices.Equal(a.typed, b.typed):
		return reasonNumbers
	case a.negations != b.negations:
		return reasonNegation
	case a.attributed && !b.attributed, a.quoted && !b.quoted:
		return reasonSource
	}
	for i := range a.items {
		if !sameCase(&a.items[i], &b.items[i]) {
			return reasonCase
		}
		if !sameArticle(&a.items[i], &b.items[i], i == 0) {
			return reasonArticle
		}
	}
	return ""
}

// categoryAllowed reports whether the category nouns of two preferences agree,
// or are implied by what is preferred.
func categoryAllowed(a, b *Statement) bool {
	if a.category == b.category {
		return true
	}
	implied := func(c, object string) bool {
		return c == "" || categories["*"][c] || categories[object][c]
	}
	return implied(a.category, a.object) && implied(b.category, b.object)
}

// sameCase reports whether two tokens with one key may be the same word.
func sameCase(a, b *token) bool {
	if a.orig == b.orig || a.kind == number || a.kind == unit || a.kind == date || a.kind == punct || caseless[a.key] {
		return true
	}
	if a.key == "" || !isASCII(a.key) {
		return a.key == b.key
	}
	ca, cb := letters(a.orig), letters(b.orig)
	switch {
	case ca == 0 || cb == 0: // written by the rewriting
		return true
	case ca == cb:
		return true
	case ambiguous[a.key]:
		return false
	case ca == 'U' || cb == 'U':
		return ca == 'C' || cb == 'C' || ca == 'T' && a.kind == name && len(a.key) > 2 || cb == 'T' && b.kind == name && len(a.key) > 2
	}
	return true
}

// letters classifies the letter case of a word: all capitals (U), a capital at
// the head (T), small (l), mixed (C), none of them (0).
func letters(s string) byte {
	upper, lower, head := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'A' <= c && c <= 'Z':
			upper++
			head = head || i == 0
		case 'a' <= c && c <= 'z':
			lower++
		}
	}
	switch {
	case upper+lower == 0:
		return 0
	case upper == 0:
		return 'l'
	case lower == 0 && upper > 1:
		return 'U'
	case upper == 1 && head:
		return 'T'
	}
	return 'C'
}

// roles are nouns that stand for one known party, with "the" or without.
var roles = set("user customer operator agent assistant client")

// sameArticle reports whether the articles agree. None goes with either, but "a"
// is not "the", and in the plural "the" picks some out.
func sameArticle(a, b *token, first bool) bool {
	x, y := a.article, b.article
	if x == y || a.kind != word && b.kind != word {
		return true
	}
	if x+y == 'a'+'t' {
		return false
	}
	if roles[a.key] {
		return x != 'a' && y != 'a'
	}
	if first || x == 'a' || y == 'a' {
		return true
	}
	return !plural(a.key)
}

// kindReasons orders the kinds by how much a difference tells.
var kindReasons = []struct {
	kind   kind
	reason string
}{
	{mood, reasonMood}, {negation, reasonNegation}, {number, reasonNumbers}, {unit, reasonUnits}, {date, reasonDates}, {link, reasonLinks},
	{ident, reasonIdents}, {modal, reasonModal}, {qualifier, reasonQualifier},
}

// explain finds the reason for two sequences that differ.
func explain(a, b *Statement) string {
	if len(a.items) > maxTokens || len(b.items) > maxTokens {
		return reasonContent
	}
	var gone, added [nKinds]int
	surplus(a.items, b.items, &gone)
	surplus(b.items, a.items, &added)
	for _, k := range kindReasons {
		if gone[k.kind]+added[k.kind] > 0 {
			return k.reason
		}
	}
	switch {
	case a.negations != b.negations:
		return reasonNegation
	case added[name] > 0:
		return reasonNameAdded
	case gone[name] > 0:
		return reasonNameGone
	case gone[conj]+added[conj]+gone[punct]+added[punct] > 0:
		return reasonClaims
	case gone[prep]+added[prep] > 0:
		return reasonPrep
	case added[word] > 0 && gone[word] > 0:
		return reasonContent
	case added[word] > 0:
		return reasonAdded
	case gone[word] > 0:
		return reasonDropped
	}
	return reasonOrder
}

// surplus counts by kind what a holds more often than b.
func surplus(a, b []token, n *[nKinds]int) {
	var used [maxTokens]bool
next:
	for i := range a {
		for j := range b {
			if !used[j] && a[i].key == b[j].key {
				used[j] = true
				continue next
			}
		}
		n[a[i].kind]++
	}
}
