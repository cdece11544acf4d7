package memory

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ExactName is the one form that names are compared in, of subjects and of principals:
// Unicode NFC, and nothing else. Whoever takes something from a row, gives authority or
// answers a scope compares exact names (I-9); [Canonical] only finds what says nothing
// new.
func ExactName(name string) string { return norm.NFC.String(name) }

// SameName reports whether two names are of one subject or principal.
func SameName(a, b string) bool { return ExactName(a) == ExactName(b) }

// CheckName refuses a name that a person cannot tell from another one: an empty one,
// one that begins or ends with white space, and one with characters that nobody sees.
// A joiner is kept where a script is written with it. The error is a [*FieldError] that
// names the field.
func CheckName(field, name string) error {
	switch {
	case Canonical(name) == "":
		return invalid(field, "required", "a name has characters that can be seen")
	case outerBlank(name):
		return invalid(field, "outer_blank", "it begins or ends with white space")
	}
	if r, hidden := hiddenIn(name); hidden {
		return invalid(field, "invisible", "it holds %U, which nobody sees", r)
	}
	return nil
}

func outerBlank(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	return unicode.IsSpace(first) || unicode.IsSpace(last)
}

// hiddenIn is the first character of a name that nobody sees and no script needs.
func hiddenIn(name string) (rune, bool) {
	runes := []rune(name)
	for i, r := range runes {
		if visible(r) < 0 && !joins(runes, i) {
			return r, true
		}
	}
	return 0, false
}

const (
	nonJoiner     = '\u200c'
	joiner        = '\u200d'
	emojiSelector = '\ufe0f'
)

// joins reports whether the character at i belongs where it is: a joiner or non-joiner
// in the contexts that the identifier profile of Unicode allows (UAX 31, Arabic and
// Indic scripts), and what joins or selects the parts of an emoji.
func joins(runes []rune, i int) bool {
	if i == 0 {
		return false
	}
	before, after := runes[i-1], rune(-1)
	if i+1 < len(runes) {
		after = runes[i+1]
	}
	switch runes[i] {
	case nonJoiner:
		return unicode.IsLetter(after) && virama(before) || cursive(runes[:i], runes[i+1:])
	case joiner:
		return virama(before) && !unicode.IsMark(after) || emoji(before) && unicode.Is(unicode.So, after)
	case emojiSelector:
		return unicode.Is(unicode.So, before)
	}
	return false
}

// emoji reports whether a joiner may follow the character within an emoji.
func emoji(r rune) bool {
	return unicode.Is(unicode.So, r) || r == emojiSelector || r >= 0x1f3fb && r <= 0x1f3ff // tones of skin
}

// virama reports whether the character joins consonants of an Indic script.
func virama(r rune) bool {
	const class = 9
	return norm.NFC.PropertiesString(string(r)).CCC() == class
}

// cursive reports whether the letters around a place, without their marks, are joined
// in Arabic script, so that a non-joiner can be seen there.
func cursive(before, after []rune) bool {
	for len(before) > 0 && unicode.IsMark(before[len(before)-1]) {
		before = before[:len(before)-1]
	}
	for len(after) > 0 && unicode.IsMark(after[0]) {
		after = after[1:]
	}
	return len(before) > 0 && len(after) > 0 && arabic(before[len(before)-1]) && !endsJoining(before[len(before)-1]) &&
		arabic(after[0]) && after[0] != '\u0621'
}

// arabic reports whether it is a letter of the two blocks of Arabic letters.
func arabic(r rune) bool {
	return r >= 0x0620 && r <= 0x077f && unicode.Is(unicode.Arabic, r) && unicode.IsLetter(r)
}

// endsJoining reports whether an Arabic letter joins none that follows it.
func endsJoining(r rune) bool {
	for _, span := range [...][2]rune{{0x0621, 0x0625}, {0x0627, 0x0627}, {0x0629, 0x0629}, {0x062f, 0x0632}, {0x0648, 0x0648},
		{0x0671, 0x0677}, {0x0688, 0x0699}, {0x06c0, 0x06c0}, {0x06c3, 0x06cb}, {0x06cd, 0x06cd}, {0x06cf, 0x06cf}, {0x06d2, 0x06d5},
		{0x06dd, 0x06dd}, {0x06ee, 0x06ef}, {0x0759, 0x075b}, {0x076b, 0x076c}, {0x0771, 0x0771}, {0x0773, 0x0774}, {0x0778, 0x0779}} {
		if r >= span[0] && r <= span[1] {
			return true
		}
	}
	return false
}

// lookAlike is what a name looks like: equal for names that a person may take for one
// another. It finds what a person is shown, and decides nothing.
func lookAlike(name string) string {
	folded := strings.ToLower(Canonical(norm.NFKC.String(name)))
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if plain, ok := homoglyphs[r]; ok {
			return plain
		}
		return r
	}, folded))
}

// homoglyphs are the letters of other scripts, and the digits, that are commonest in
// the place of a Latin letter.
var homoglyphs = func() map[rune]rune {
	m := map[rune]rune{}
	for plain, like := range map[rune]string{'a': "аα", 'b': "ьЬ", 'c': "сϲ", 'd': "ԁ", 'e': "еε", 'g': "ɡ", 'h': "һ", 'i': "іι1l|ı", 'j': "јϳ",
		'k': "кκ", 'm': "м", 'n': "пη", 'o': "оο0օ", 'p': "рρ", 'q': "ԛ", 'r': "г", 's': "ѕ", 't': "тτ", 'u': "υս", 'v': "ν", 'w': "ԝω", 'x': "хχ", 'y': "уγү"} {
		for _, r := range like {
			m[r] = plain
		}
	}
	return m
}()
