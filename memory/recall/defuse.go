package recall

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// openTag finds the beginning of a tag in the skeleton of a text without blanks: the
// word, in quotes or not, whatever signs and symbols, and a bracket. Brackets that JSON
// is made of are none of it, and neither is a value that follows a name.
var openTag = regexp.MustCompile(`memor(?:y|ies)(?:[^\p{L}\p{N}"({\[<]*|"[^\p{L}\p{N}"({\[<:,]*)\(`)

// Defuse takes the beginning of a tag out of a text that is no memory, such as what a
// tool returned: in each "Memory (", however it is spelt, spaced, escaped or broken over
// lines, the bracket becomes "[". Nothing else changes, so that JSON stays the JSON it
// was. It is for what a model is shown, and decides nothing.
func Defuse(text string) string {
	look := make([]byte, 0, len(text))
	from := make([]int, 0, len(text)) // where in the text each byte of look comes from
	size := 0
	for i := 0; i < len(text); i += size {
		var c rune
		c, size = letter(text[i:])
		if invisible(c) || unicode.IsMark(c) || unicode.IsSpace(c) {
			continue
		}
		if !strings.ContainsRune("[{<", c) {
			c = fold(c)
		}
		if n := len(look); c == 'n' && n > 0 && look[n-1] == 'r' { // passes for m, as in skeleton
			look[n-1] = 'm'
			continue
		}
		look = utf8.AppendRune(look, c)
		for len(from) < len(look) {
			from = append(from, i)
		}
	}
	found := openTag.FindAllIndex(look, -1)
	if found == nil {
		return text
	}
	var b strings.Builder
	kept := 0
	for _, m := range found {
		at := from[m[1]-1]
		b.WriteString(text[kept:at])
		b.WriteByte('[')
		_, size := letter(text[at:])
		kept = at + size
	}
	b.WriteString(text[kept:])
	return b.String()
}

// letter is the character that a text begins with, and its size. One that is written as
// an escape, as in JSON, is the character that it stands for.
func letter(s string) (c rune, size int) {
	if s[0] != '\\' || len(s) == 1 {
		return utf8.DecodeRuneInString(s)
	}
	switch s[1] {
	case 'n', 'r', 't', 'b', 'f':
		return ' ', 2
	case '"', '\\', '/':
		return rune(s[1]), 2
	case 'u':
		first, ok := escaped(s)
		if !ok {
			break
		}
		if second, pair := escaped(s[6:]); pair && utf16.IsSurrogate(first) {
			if c := utf16.DecodeRune(first, second); c != unicode.ReplacementChar {
				return c, 12
			}
		}
		return first, 6
	}
	return '\\', 1
}

// escaped is what the \u escape stands for that a text begins with.
func escaped(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), err == nil
}
