package memory

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// FoldMember folds the name of a JSON member as the most lenient of decoders does when
// it looks for the field of a struct: letters that differ in case only are one, the long
// s is s and the Kelvin sign k. Two members of one object whose names fold to the same
// text can be read as one, and which of them counts is up to the reader.
func FoldMember(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		return least
	}, name)
}

// Plain writes a text in the characters that it looks like: compatibility forms
// (full width, circled, ligatures) as what they stand for, digits of any script as
// 0 to 9, and nothing that nobody sees. It is for finding what a text holds. No name and
// no value is compared by it.
func Plain(text string) string {
	text = strings.Map(visible, norm.NFKC.String(strings.Map(visible, text)))
	return strings.Map(func(r rune) rune {
		switch {
		case r <= unicode.MaxASCII || !unicode.Is(unicode.Nd, r):
			return r
		default:
			return '0' + digit(r)
		}
	}, norm.NFKC.String(text))
}

// digit is the value of a decimal digit: those of a script follow one another from zero.
func digit(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	return 0
}
