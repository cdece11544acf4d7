package admission

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission/restate"
)

// unnamed veils the names in words where they stand, if they have a word of negation or what
// begins like one. A place in two names is one place.
func unnamed(words string, names ...string) string {
	if !utf8.ValidString(words) {
		return words
	}
	said := []rune(words)
	veiled := make([]bool, len(said))
	for _, name := range names {
		if n, _ := restate.Negations(name); n == 0 && !hyphenated.MatchString(name) {
			continue
		}
		for _, start := range named(said, name) {
			for i := range []rune(name) {
				veiled[start+i] = true
			}
		}
	}
	if !slices.Contains(veiled, true) {
		return words
	}
	var out strings.Builder
	for i, r := range said {
		if veiled[i] {
			r = veil(r)
		}
		if r >= 0 {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// veil makes a letter, or a sign, one that says nothing. Marks go; digits and punctuation stay.
func veil(r rune) rune {
	switch {
	case unicode.IsMark(r):
		return -1
	case unicode.IsUpper(r):
		return 'X'
	case unicode.IsLetter(r), unicode.Is(unicode.So, r):
		return 'x'
	}
	return r
}

// named are the places where a name stands in words as it is, or else the first one where it
// does but for its capitals: "I eat no fish at No Fish". A name that is nothing but a word of
// negation counts once, and as it is: the other "no" may be none of it.
func named(said []rune, name string) []int {
	exact := places(said, []rune(name))
	switch {
	case alone(name):
		return exact[:min(1, len(exact))]
	case len(exact) > 0:
		return exact
	}
	folded := places([]rune(strings.ToLower(string(said))), []rune(strings.ToLower(name)))
	return folded[:min(1, len(folded))]
}

// alone reports whether a name with a word of negation has no other word. In a script without
// blanks it is then a single one of [restate.Denials].
func alone(name string) bool {
	words, _ := restate.Denials(name)
	return len(words) == 1 && (words[0] == strings.ToLower(name) ||
		name[0] < utf8.RuneSelf && !strings.ContainsFunc(name, func(r rune) bool { return !inWord(r) && r != '\'' && r != '’' }))
}

// places are where a name stands in a text, as a word or several. In a script without blanks it
// may stand anywhere.
func places(text, name []rune) (starts []int) {
	for i := 0; i+len(name) <= len(text); i++ {
		end := i + len(name)
		if slices.Equal(text[i:end], name) && (i == 0 || parted(text[i-1], text[i])) && (end == len(text) || parted(text[end-1], text[end])) {
			starts = append(starts, i)
		}
	}
	return starts
}

// parted reports whether a word may end between two characters.
func parted(a, b rune) bool {
	return !inWord(a) || !inWord(b) || unicode.In(a, unicode.Han, unicode.Hiragana, unicode.Katakana) || unicode.In(b, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

// hyphenated finds words that begin like a negation.
var hyphenated = regexp.MustCompile(`(?i)\bno[nt]?[-‐‑][\pL‐‑-]+`)

// opened parts the words of negation with a hyphen that are about the triple: of a
// "non-smoking flat" it is denied that smoking is allowed.
func opened(words string, c memory.Content) string {
	about := letters(c.Subject + " " + c.Predicate + " " + c.Object)
	return hyphenated.ReplaceAllStringFunc(words, func(s string) string {
		parts := letters(s)
		for _, part := range parts[1:] {
			if part != "for" && slices.ContainsFunc(about, func(w string) bool { return akin(part, w) }) { // works_for a not-for-profit
				return strings.Join(parts, " ")
			}
		}
		return s
	})
}

// letters are the runs of letters in a text, in lower case.
func letters(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
}

// akin reports whether two words are one, or begin with the same four letters: smoking, smokes.
func akin(a, b string) bool {
	const stem = 4
	return a == b || len(a) >= stem && len(b) >= stem && a[:stem] == b[:stem]
}
