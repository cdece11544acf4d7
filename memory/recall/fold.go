package recall

import (
	"strings"
	"unicode"
)

// skeleton reduces a text to what it looks like: lower-case ASCII where a
// character can pass for one. It is compared with, and never shown.
func skeleton(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range s {
		if unicode.IsMark(c) {
			continue // é passes for e
		}
		b.WriteRune(fold(c))
	}
	return strings.ReplaceAll(b.String(), "rn", "m")
}

// fold maps a character to the ASCII one that it can pass for.
func fold(c rune) rune {
	switch {
	case c < 0x80:
		if c == '[' || c == '{' || c == '<' {
			return '('
		}
		if c == ']' || c == '}' || c == '>' {
			return ')'
		}
		if i := strings.IndexByte("013", byte(c)); i >= 0 {
			return rune("oie"[i])
		}
		return unicode.ToLower(c)
	case c >= 0xFF01 && c <= 0xFF5E: // full width
		return fold(c - 0xFEE0)
	case c >= 0x1D400 && c <= 0x1D6A3: // mathematical alphabets, 52 letters each
		if i := (c - 0x1D400) % 52; i < 26 {
			return 'a' + i
		} else {
			return 'a' + i - 26
		}
	case c >= 0x24B6 && c <= 0x24CF: // circled
		return 'a' + c - 0x24B6
	case c >= 0x24D0 && c <= 0x24E9:
		return 'a' + c - 0x24D0
	case c >= 0x249C && c <= 0x24B5: // in parentheses
		return 'a' + c - 0x249C
	case c >= 0x1F1E6 && c <= 0x1F1FF: // regional indicators
		return 'a' + c - 0x1F1E6
	case c >= 0x1F110 && c <= 0x1F189 && (c-0x1F110)%32 < 26: // squared, negative
		return 'a' + (c-0x1F110)%32
	case strings.ContainsRune("∶ː˸։׃܃܄፡᛬⁚⁝꞉ꓽ︓︰﹕𝈺᠃᠉ះៈ፥፦⸱·∷", c):
		return ':'
	case unicode.In(c, unicode.Ps, unicode.Pi) && !strings.ContainsRune("‘‛‚", c):
		if strings.ContainsRune("“„‟«", c) {
			return '"'
		}
		return '('
	case unicode.In(c, unicode.Pe, unicode.Pf) && c != '’':
		if strings.ContainsRune("”»", c) {
			return '"'
		}
		return ')'
	case strings.ContainsRune("⎛⎜⎝⏜◜❲", c):
		return '('
	case strings.ContainsRune("⎞⎟⎠⏝◝❳", c):
		return ')'
	}
	c = unicode.ToLower(c)
	if c >= 0x1E00 && c <= 0x1EFF { // Latin with marks, which stands in alphabetic order of the letter
		for _, g := range additional {
			if c <= g.last {
				return g.letter
			}
		}
	}
	if to, ok := passesFor[c]; ok {
		return to
	}
	return c
}

// passesFor has lower-case letters of other scripts that look like Latin ones.
var passesFor = func() map[rune]rune {
	m := map[rune]rune{}
	for to, from := range map[rune]string{
		'a': "аɑαａᴀɐÀàáâãäåāăąǎ⍺ᵃₐ", 'b': "вƅЬьᏏβʙᵇ", 'c': "сϲᴄⅽçćčᶜ", 'd': "ԁᏧɗⅾᴅďđᵈꓒ",
		'e': "ȅȇȩɇеёєεəèéêëēĕėęěᴇҽⅇℯᵉₑɛ℮ꬲѐ", 'f': "ƒſẝꬵꜰᶠϝғ", 'h': "һհнʜĥħᏂℎʰₕ", 'i': "ǐȉȋɨіïíìîɩιıĩīįɪⅰᎥⁱᵢӏ|ǀ∣ⲓ", 'k': "кκᴋķᵏₖ",
		'l': "ⅼʟⲗןłĺļľˡₗ", 'm': "мⅿᴍɱṃṁḿᵐₘⲙʍ៣μ", 'n': "пոռηɴñńņňŋⁿₙնὴ", 'o': "ȍȏȫȭȯȱǫǭǿꝋꝍоοσօᴏøöóòôõōŏőơ०੦০ഠဝ০οⲟ๐໐ͻ0ᵒₒꬽѳөө",
		'p': "рρⲣᴩþᵖₚ", 'r': "ȑȓɍꞃгᴦʀɾŕřŗꭇⲅꮁᵣʳгр", 's': "șꞅѕꜱśŝşšʂˢₛƽ", 't': "тτᴛţťŧᵗₜ", 'u': "υսᴜùúûüũūŭůűųʋᵘᵤц", 'v': "νѵᴠⅴ∨ᵛᵥ", 'w': "ԝѡաᴡŵʷ",
		'y': "ȳɏуүγýÿŷỿʏყỵỳʸӱῠ", 'z': "ᴢźżžʐᶻ",
	} {
		for _, c := range from {
			if c != to && c >= 0x80 {
				m[c] = to
			}
		}
	}
	return m
}()

// additional are the groups of Latin Extended Additional, each up to its last character.
// What is no plain letter with marks keeps itself.
var additional = [...]struct{ last, letter rune }{
	{0x1E01, 'a'}, {0x1E07, 'b'}, {0x1E09, 'c'}, {0x1E13, 'd'}, {0x1E1D, 'e'}, {0x1E1F, 'f'}, {0x1E21, 'g'}, {0x1E2B, 'h'},
	{0x1E2F, 'i'}, {0x1E35, 'k'}, {0x1E3D, 'l'}, {0x1E43, 'm'}, {0x1E4B, 'n'}, {0x1E53, 'o'}, {0x1E57, 'p'}, {0x1E5F, 'r'},
	{0x1E69, 's'}, {0x1E71, 't'}, {0x1E7B, 'u'}, {0x1E7F, 'v'}, {0x1E89, 'w'}, {0x1E8D, 'x'}, {0x1E8F, 'y'}, {0x1E95, 'z'},
	{0x1E96, 'h'}, {0x1E97, 't'}, {0x1E98, 'w'}, {0x1E99, 'y'}, {0x1E9A, 'a'}, {0x1E9B, 's'},
	{0x1E9F, 's'}, {0x1EB7, 'a'}, {0x1EC7, 'e'}, {0x1ECB, 'i'}, {0x1EE3, 'o'}, {0x1EF1, 'u'}, {0x1EFF, 'y'},
}
