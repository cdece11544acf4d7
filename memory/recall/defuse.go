package recall

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// openTag finds the beginning of a tag in the skeleton of a text. Brackets that JSON is
// made of are none of it.
var openTag = regexp.MustCompile(`memor(?:y|ies)[^a-z0-9"({\[<]{0,12}\(`)

// Defuse takes the beginning of a tag out of a text that is no memory, such as what a
// tool returned: in each "Memory (", however it is spelt, the bracket becomes "[".
// Nothing else changes, so that JSON stays the JSON it was. It is for what a model is
// shown, and decides nothing.
func Defuse(text string) string {
	look := make([]byte, 0, len(text))
	from := make([]int, 0, len(text)) // where in the text each byte of look comes from
	for i, c := range text {
		if invisible(c) || unicode.IsMark(c) {
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
		_, size := utf8.DecodeRuneInString(text[at:])
		kept = at + size
	}
	b.WriteString(text[kept:])
	return b.String()
}
