package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
	"golang.org/x/text/width"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

const (
	maxClaim   = 160 // characters of a claim on one line
	maxName    = 40  // of a name in a table
	maxMessage = 600 // of an error
	maxMarks   = 2   // combining marks on one character
)

// oneLine makes a text from outside safe to show: one line of visible characters,
// at most limit of them. White space becomes a space; what a terminal would obey
// or nobody would see (control, escape, bidi, zero width) is shown as its code,
// so that an operator sees that it is there.
func oneLine(s string, limit int) string {
	var b strings.Builder
	n, marks, gap := 0, 0, false
	for _, c := range s { // invalid UTF-8 arrives as U+FFFD
		if unicode.IsSpace(c) {
			gap = b.Len() > 0
			continue
		}
		if unicode.IsMark(c) {
			if marks++; marks > maxMarks || b.Len() == 0 {
				continue
			}
		} else {
			marks = 0
		}
		piece := string(c)
		if visible.Hidden(c) {
			piece = fmt.Sprintf("<U+%04X>", c)
		}
		if gap {
			piece, gap = " "+piece, false
		}
		if n += len([]rune(piece)); n > limit {
			return b.String() + "…"
		}
		b.WriteString(piece)
	}
	return b.String()
}

// whole makes a text from outside safe to show and keeps all of it, for what a person
// signs. A plain text stands as it is. Any other is in double quotes. What a terminal would
// obey, nobody would see or a line would not show is written as its code. A run of spaces
// is written with its length. If the text is not in Unicode NFC, so is each
// character that looks like another spelling of itself. So is a letter that may be taken for
// one of another script; see [disguised]. No two texts look the same because of any of these.
func whole(s string) string {
	if plainText(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	marks, start, composed, coded := 0, true, norm.NFC.IsNormalString(s), disguised(s)
	for i, c := range s {
		if c == ' ' && strings.HasPrefix(s[i+1:], " ") {
			continue // the last one of a run says how many there are
		}
		if unicode.IsMark(c) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case c == '\n':
			b.WriteString(`\n`)
		case c == ' ' && strings.HasSuffix(s[:i], " "):
			fmt.Fprintf(&b, `\s{%d}`, i+1-len(strings.TrimRight(s[:i], " ")))
		case c != ' ' && (visible.Hidden(c) || unicode.IsSpace(c)), marks > maxMarks, marks > 0 && start,
			coded[i], !composed && (!norm.NFC.PropertiesString(string(c)).BoundaryBefore() || norm.NFC.String(string(c)) != string(c)):
			fmt.Fprintf(&b, `\u{%04X}`, c)
		default:
			b.WriteRune(c)
		}
		start = false
	}
	b.WriteByte('"')
	return b.String()
}

// quotedWhole is whole, in quotes at any rate.
func quotedWhole(s string) string {
	if plainText(s) || s == "" {
		return `"` + s + `"`
	}
	return whole(s)
}

// plainText reports whether a text shows all of itself.
func plainText(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.ContainsAny(s, `"\`) && oneLine(s, len(s)) == s && !strings.Contains(s, "…") && norm.NFC.IsNormalString(s) && len(disguised(s)) == 0
}

// twins are the letters of other scripts that are drawn like one of ASCII, in most fonts.
var twins = map[rune]bool{}

func init() {
	for _, c := range "асеорхуіјѕһԁԛԝАВЕКМНОРСТХУЅІЈԚԜ" + "οναρϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ" + "օսհոցքՕՍ" {
		twins[c] = true
	}
}

// disguised gives the places of the letters of a text that may be taken for ones of another
// script. In a word with letters of several scripts these are all that are not Latin. Han,
// kana and Hangul, which are written beside Latin, count for none. Neither do µ, Ω and letters
// that modify others. A word of another script is disguised if each of its letters has a twin
// in ASCII. It is so too if its letters are mathematical, or of a script that looks like Latin.
func disguised(s string) map[int]bool {
	var all map[int]bool
	var word []int // places of letters that are not Latin
	var scripts []*unicode.RangeTable
	latin, alike := false, true
	end := func() {
		if len(word) > 0 && (latin || alike || len(scripts) > 1) {
			if all == nil {
				all = map[int]bool{}
			}
			for _, i := range word {
				all[i] = true
			}
		}
		word, scripts, latin, alike = word[:0], scripts[:0], false, true
	}
	for i, c := range s {
		switch {
		case unicode.Is(unicode.Latin, c):
			latin = true
		case unicode.IsMark(c), unicode.IsDigit(c), c == 'µ', c == 'Ω', unicode.Is(unicode.Lm, c), unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo):
		case !unicode.IsLetter(c):
			end()
		default:
			word = append(word, i)
			alike = alike && (twins[c] || c >= 0x1D400 && c <= 0x1D7FF || unicode.In(c, unicode.Lisu, unicode.Cherokee, unicode.Coptic, unicode.Deseret, unicode.Carian, unicode.Lycian, unicode.Lydian, unicode.Old_Italic, unicode.Osage))
			if of := scriptOf(c); !slices.Contains(scripts, of) {
				scripts = append(scripts, of)
			}
		}
	}
	end()
	return all
}

// scriptOf is the script of a letter.
func scriptOf(c rune) *unicode.RangeTable {
	for _, of := range unicode.Scripts {
		if unicode.Is(of, c) {
			return of
		}
	}
	return nil
}

// lineWidth is how many cells of a text stand on one line of a card.
const lineWidth = 100

// wrapped cuts a text into lines. Joined they are the text.
func wrapped(s string) (lines []string) {
	from, wide := 0, 0
	for i, c := range s {
		n := cells(string(c))
		if wide+n > lineWidth {
			end := i
			if s[i-1] == ' ' && i-1 > from { // nobody sees a blank at the end of a line
				end--
			}
			lines, from, wide = append(lines, s[from:end]), end, i-end
		}
		wide += n
	}
	return append(lines, s[from:])
}

// cells is how many cells of a terminal a text takes.
func cells(s string) int {
	n := 0
	for _, c := range s {
		switch k := width.LookupRune(c).Kind(); {
		case unicode.IsMark(c):
		case k == width.EastAsianWide || k == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}

// mark is the glyph and the word of a row's state.
type mark struct{ glyph, word, color string }

const (
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	red    = "\x1b[31m"
	dim    = "\x1b[2m"
	plain  = "\x1b[0m"
)

func markOf(r *memory.Row) mark {
	switch {
	case r.Security >= memory.SecurityQuarantined: // whatever its state, nothing rests on it
		return mark{"✗", r.Security.String(), red}
	case putAway(r):
		return mark{"✗", r.Retrieval.String(), red}
	case r.State() == memory.StateVerified:
		return mark{"✓", "verified", green}
	case r.Rejection != nil:
		return mark{"✗", "rejected", red}
	case r.Truth == memory.TruthContradicted:
		return mark{"✗", "contradicted", red}
	case r.Truth == memory.TruthSuperseded:
		return mark{"✗", "superseded", red}
	case r.State() == memory.StateUnavailableAtWriteTime:
		return mark{"⌛", "verifier was down", yellow}
	case r.Origin == memory.OriginRecallReentry:
		return mark{"~", "recalled", dim}
	default:
		return mark{"?", "unverified", yellow}
	}
}

// putAway reports whether a row may not be acted on, verified or not. What a model recalled and
// wrote down again is restricted of itself, which is said by its mark unless it is verified.
func putAway(r *memory.Row) bool {
	switch r.Retrieval {
	case memory.RetrievalHidden, memory.RetrievalBlocked:
		return true
	case memory.RetrievalRestricted:
		return r.Origin != memory.OriginRecallReentry || r.State() == memory.StateVerified
	}
	return false
}

func (a *app) paint(s, color string) string {
	if !a.color || color == "" {
		return s
	}
	return color + s + plain
}

// table prints columns of texts, the last one ragged.
type table struct {
	head []string
	rows [][]string
	tint []string // color of the first column, per row
}

func (t *table) add(color string, columns ...string) {
	t.rows = append(t.rows, columns)
	t.tint = append(t.tint, color)
}

func (a *app) print(t *table) error { return a.write(a.aligned(t)) }

// aligned is a table as text.
func (a *app) aligned(t *table) string {
	wide := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, s := range row {
			wide[i] = max(wide[i], cells(s))
		}
	}
	var b strings.Builder
	line := func(row []string, color string) {
		for i, s := range row {
			pad := strings.Repeat(" ", wide[i]-cells(s)+2)
			if i == len(row)-1 {
				pad = ""
			}
			if i == 0 {
				s = a.paint(s, color)
			}
			b.WriteString(s + pad)
		}
		b.WriteByte('\n')
	}
	line(t.head, "")
	for i, row := range t.rows {
		line(row, t.tint[i])
	}
	return b.String()
}

func (a *app) write(s string) error {
	_, err := io.WriteString(a.out, s)
	return err
}

// short is the end of an id: the part that differs between rows of one moment.
func short(id memory.ID) string {
	const n = 10
	if len(id) <= n {
		return string(id)
	}
	return "…" + string(id[len(id)-n:])
}

func claimOf(r *memory.Row) string { return oneLine(r.Content.String(), maxClaim) }

// saidBy names who made the claim, as one word or two.
func saidBy(a memory.Asserter) string {
	switch {
	case a.Model != "":
		return oneLine(a.Model, maxName)
	case a.Tool != "":
		return oneLine(a.Tool, maxName)
	default:
		return oneLine(a.Principal, maxName)
	}
}

func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// age says how long ago something was, in the largest unit that fits.
func age(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

// plural counts things: "1 row", "2 rows".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
