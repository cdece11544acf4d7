// Package visible shows text of others so that whoever looks at it sees what is there:
// what a terminal obeys or nobody would see is shown as its code. Servers, verifiers,
// files and rows say what they like; none of it is to move a cursor, hide a word or turn
// a line around.
package visible

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a terminal obeys a character, or does not draw it: control and
// escape characters, directions of writing, what has no width, what has no meaning.
func Hidden(c rune) bool {
	return !unicode.IsGraphic(c) || unicode.In(c, unicode.Cf, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) ||
		slices.Contains(blank, c)
}

// blank are characters that count as graphic and have no ink: the braille blank, the null
// notehead, two Egyptian blanks, the Khitan filler.
var blank = []rune{0x2800, 0x1D159, 0x13441, 0x13442, 0x16FE4}

// JSON escapes in JSON text what is [Hidden]. Such a character stands inside a string
// only, so the value stays the same. Line feeds and tabs stay as they are.
func JSON(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		c, n := utf8.DecodeRune(b)
		switch {
		case c == '\n' || c == '\t' || c == '\r' || c < unicode.MaxASCII || !Hidden(c):
			out = append(out, b[:n]...)
		case c > 0xFFFF:
			c -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+(c>>10), 0xDC00+(c&0x3FF))
		default:
			out = fmt.Appendf(out, `\u%04x`, c)
		}
		b = b[n:]
	}
	return out
}

// Text shows what is [Hidden] as its code, <U+001B>, and keeps line feeds and tabs. What
// is no UTF-8 is shown as the bytes it has, <0x9B>: some terminals obey them too.
func Text(s string) string {
	out := make([]byte, 0, len(s))
	for len(s) > 0 {
		c, n := utf8.DecodeRuneInString(s)
		out = appendRune(out, c, []byte(s[:n]))
		s = s[n:]
	}
	return string(out)
}

func appendRune(out []byte, c rune, raw []byte) []byte {
	switch {
	case c == utf8.RuneError && len(raw) == 1:
		return fmt.Appendf(out, "<0x%02X>", raw[0])
	case c == '\n' || c == '\t' || !Hidden(c):
		return append(out, raw...)
	default:
		return fmt.Appendf(out, "<U+%04X>", c)
	}
}

// Writer returns a writer that passes on what is written to it as [Text] shows it. A
// character that is cut between two writes is put together. A carriage return before a
// line feed is dropped. It is safe for concurrent use.
func Writer(w io.Writer) io.Writer { return &writer{w: w} }

type writer struct {
	w    io.Writer
	mu   sync.Mutex
	rest []byte // the beginning of a character, or a carriage return
}

// Write implements io.Writer.
func (v *writer) Write(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	b := append(v.rest, p...)
	v.rest = nil
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if b[0] == '\r' && (len(b) == 1 || b[1] == '\n') {
			if len(b) == 1 {
				v.rest = []byte{'\r'}
			}
			b = b[1:]
			continue
		}
		if !utf8.FullRune(b) {
			v.rest = append([]byte(nil), b...)
			break
		}
		c, n := utf8.DecodeRune(b)
		out = appendRune(out, c, b[:n])
		b = b[n:]
	}
	if _, err := v.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// JSONWriter returns a writer that passes on JSON text as [JSON] escapes it. Each write
// is of whole characters, as those of a logger are.
func JSONWriter(w io.Writer) io.Writer { return jsonWriter{w} }

type jsonWriter struct{ w io.Writer }

// Write implements io.Writer.
func (v jsonWriter) Write(p []byte) (int, error) {
	if _, err := v.w.Write(JSON(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
