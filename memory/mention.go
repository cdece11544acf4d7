package memory

import (
	"html"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// mention finds names in what rows say.
type mention struct{ exact, folded []string }

func newMention(names []string) *mention {
	m := &mention{}
	for _, name := range names {
		m.exact, m.folded = append(m.exact, ExactName(name)), append(m.folded, foldedText(name))
	}
	return m
}

// in reports whether any text of a row has the words of a name in it, one after the
// other: in a free text in any letter case and in any form of its letters, elsewhere as
// they are. What a program wrote in escapes is read as what they stand for.
func (m *mention) in(v *body) bool {
	if v.Content.Text != "" && holds(v.Content.Text, foldedText, m.folded) {
		return true
	}
	return slices.ContainsFunc(v.texts(), func(s string) bool { return s != "" && holds(s, ExactName, m.exact) })
}

// holds reports whether one of the readings of a text, in some form, has the words of one
// of some names, which are in that form.
func holds(text string, form func(string) string, names []string) bool {
	for _, read := range readings(text) {
		read = form(read)
		for _, name := range names {
			split := wordsIn
			if utf8.RuneCountInString(name) == 1 { // it stands in too many words that are written together
				split = wholeWordsIn
			}
			if words := split(name); strings.TrimSpace(words) != "" && strings.Contains(split(read), words) {
				return true
			}
		}
	}
	return false
}

// foldedText is a text in the characters that it looks like and without letter case:
// "STRASSE" is "Straße". The i of a Turkish name may have its dot or not.
func foldedText(s string) string {
	s = norm.NFKC.String(cases.Fold().String(Plain(s)))
	return strings.NewReplacer("i\u0307", "i", "ı", "i").Replace(s)
}

// writtenTogether are the scripts that are written without blanks between words. A character of
// theirs is a word of its own, so that a name is found wherever it stands; the sign that
// makes a Japanese vowel long is of no script.
var writtenTogether = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
	unicode.Tai_Le, unicode.New_Tai_Lue, unicode.Tai_Tham, unicode.Tai_Viet, unicode.Javanese, unicode.Balinese,
	{R16: []unicode.Range16{{Lo: 'ー', Hi: 'ー', Stride: 1}}},
}

// isTogether reports whether a character is of such a script; the first is Thai.
func isTogether(r rune) bool { return r >= 0x0e00 && unicode.In(r, writtenTogether...) }

// wordsIn is a text as its words, each between blanks. A text without any is its own word.
func wordsIn(s string) string {
	return wholeWordsIn(apart(s))
}

// apart puts blanks around the characters of scripts that have none between words.
func apart(s string) string {
	if !strings.ContainsFunc(s, isTogether) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isTogether(r) {
			b.WriteByte(' ')
		}
		if b.WriteRune(r); isTogether(r) {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// wholeWordsIn is wordsIn, with what is written together as one word.
func wholeWordsIn(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r)
	})
	if len(words) == 0 {
		return " " + strings.TrimSpace(s) + " "
	}
	return " " + strings.Join(words, " ") + " "
}

// maxEscaped is how often a text may have been escaped, one program after the other.
const maxEscaped = 4

// readings are a text as it is, and as it reads once its escapes are undone. A backslash
// in a path is no escape, so what is read before counts too.
func readings(s string) []string {
	out := []string{s}
	for range maxEscaped {
		next := unescaped(s)
		if next == s {
			break
		}
		out, s = append(out, next), next
	}
	return out
}

// unescaped undoes the escapes of JSON and of programs like it ("M\u00fcller"), of HTML
// ("M&uuml;ller") and of addresses ("M%C3%BCller").
func unescaped(s string) string {
	if strings.Contains(s, "&") {
		s = html.UnescapeString(s)
	}
	if !strings.ContainsAny(s, `\%`) {
		return s
	}
	var b strings.Builder
	for s != "" {
		at := strings.IndexAny(s, `\%`)
		if at < 0 {
			break
		}
		b.WriteString(s[:at])
		text, size := escaped(s[at:])
		b.WriteString(text)
		s = s[at+size:]
	}
	return b.String() + s
}

// escaped reads the escape that a text begins with, and says how long it is. What is none
// stands for itself.
func escaped(s string) (text string, size int) {
	if s[0] == '%' {
		return escapedBytes(s, "%")
	}
	if len(s) < 2 {
		return s[:1], 1
	}
	switch s[1] {
	case '"', '\'', '/', '\\':
		return s[1:2], 2
	case 'n', 'r', 't', 'b', 'f', 'v':
		return " ", 2
	case 'x':
		return escapedBytes(s, `\x`)
	case 'U':
		if r, ok := hexIn(s, 2, 8); ok && utf8.ValidRune(rune(r)) {
			return string(rune(r)), 10
		}
	case 'u':
		r, ok := hexIn(s, 2, 4)
		if !ok {
			break
		}
		if utf16.IsSurrogate(rune(r)) && strings.HasPrefix(s[6:], `\u`) {
			if low, ok := hexIn(s, 8, 4); ok {
				if both := utf16.DecodeRune(rune(r), rune(low)); both != unicode.ReplacementChar {
					return string(both), 12
				}
			}
		}
		return string(rune(r)), 6
	}
	return s[:1], 1
}

// escapedBytes reads bytes that each stand behind a mark: UTF-8 if they are, and else the
// characters of Latin-1.
func escapedBytes(s, mark string) (text string, size int) {
	var bytes []byte
	for strings.HasPrefix(s[size:], mark) {
		n, ok := hexIn(s, size+len(mark), 2)
		if !ok {
			break
		}
		bytes, size = append(bytes, byte(n)), size+len(mark)+2
	}
	switch {
	case size == 0:
		return s[:1], 1
	case utf8.Valid(bytes):
		return string(bytes), size
	}
	var b strings.Builder
	for _, c := range bytes {
		b.WriteRune(rune(c))
	}
	return b.String(), size
}

// hexIn reads a number of some hexadecimal digits in a text.
func hexIn(s string, at, digits int) (uint32, bool) {
	if len(s) < at+digits {
		return 0, false
	}
	n, err := strconv.ParseUint(s[at:at+digits], 16, 32)
	return uint32(n), err == nil
}
