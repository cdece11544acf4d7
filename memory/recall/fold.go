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
		'e': "еёєεəèéêëēĕėęěᴇҽⅇℯᵉₑɛ℮ꬲѐ", 'f': "ƒſẝꬵꜰᶠϝғ", 'h': "һհнʜĥħᏂℎʰₕ", 'i': "іïíìîɩιıĩīįɪⅰᎥⁱᵢӏ|ǀ∣ⲓ", 'k': "кκᴋķᵏₖ",
		'l': "ⅼʟⲗןłĺļľˡₗ", 'm': "мⅿᴍɱṃṁḿᵐₘⲙʍ៣μ", 'n': "пոռηɴñńņňŋⁿₙնὴ", 'o': "оοσօᴏøöóòôõōŏőơ०੦০ഠဝ০οⲟ๐໐ͻ0ᵒₒꬽѳөө",
		'p': "рρⲣᴩþᵖₚ", 'r': "гᴦʀɾŕřŗꭇⲅꮁᵣʳгр", 's': "ѕꜱśŝşšʂˢₛƽ", 't': "тτᴛţťŧᵗₜ", 'u': "υսᴜùúûüũūŭůűųʋᵘᵤц", 'v': "νѵᴠⅴ∨ᵛᵥ", 'w': "ԝѡաᴡŵʷ",
		'y': "уүγýÿŷỿʏყỵỳʸӱῠ", 'z': "ᴢźżžʐᶻ",
	} {
		for _, c := range from {
			if c != to && c >= 0x80 {
				m[c] = to
			}
		}
	}
	return m
}()
