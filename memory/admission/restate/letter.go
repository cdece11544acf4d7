package restate

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// latin makes Latin letters of small capitals, and of white ones in black squares and circles.
// No language is written in them.
var latin = func() *strings.Replacer {
	var pairs []string
	add := func(r rune, letter byte) { pairs = append(pairs, string(r), string(letter)) }
	for i, r := range []rune("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡxʏᴢ") {
		if r >= utf8.RuneSelf { // there is no small capital x
			add(r, 'a'+byte(i))
		}
	}
	for i := range byte(26) {
		add('🅐'+rune(i), 'a'+i)
		add('🅰'+rune(i), 'a'+i)
	}
	return strings.NewReplacer(pairs...)
}()

// lettered finds words that may have accents.
var lettered = regexp.MustCompile(`[\p{L}\p{M}]+(?:'[\p{L}\p{M}]+)*`)

// strokes are accents that Unicode takes for a part of the letter.
var strokes = strings.NewReplacer("ø", "o", "ɵ", "o", "ŧ", "t", "ƫ", "t", "ƞ", "n", "ŋ", "n", "ɳ", "n", "ɲ", "n", "ꞥ", "n", "ɔ", "o", "ł", "l", "đ", "d", "ħ", "h", "ı", "i", "ɇ", "e", "ɍ", "r")

// lookalikes are Cyrillic and Greek letters that look like Latin ones.
var lookalikes = strings.NewReplacer("а", "a", "е", "e", "о", "o", "т", "t", "һ", "h", "і", "i", "ѕ", "s", "г", "r", "с", "c", "ԁ", "d", "п", "n", "ѵ", "v",
	"ο", "o", "σ", "o", "θ", "o", "ո", "n", "օ", "o", "ν", "v", "τ", "t", "ε", "e", "ι", "i", "α", "a", "η", "n")

// plainly is a word without accents if it is then an English one of negation, and else as it
// is: Danish "nød" stays. A word of which no letter is Latin is none that looks like one.
func plainly(word string) string {
	if isASCII(word) {
		return word
	}
	bare := strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return r
	}, norm.NFD.String(strings.ToLower(word)))
	bare = strokes.Replace(bare)
	if strings.ContainsFunc(bare, func(r rune) bool { return 'a' <= r && r <= 'z' }) {
		bare = lookalikes.Replace(bare)
	}
	_, contracted := contractions[bare]
	if negations[bare] || untrue[bare] || unmarked[bare] || contracted || strings.HasSuffix(bare, "n't") {
		return bare
	}
	return word
}
