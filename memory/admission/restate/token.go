package restate

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// kind says what a token is for the comparison. The kinds above word are typed:
// a restatement may neither add nor drop one.
type kind uint8

const (
	word kind = iota
	punct
	prep
	name
	number
	unit
	date
	link // URLs and e-mail addresses
	ident
	qualifier
	modal
	negation
	mood // question marks, "if"
	conj
	nKinds
)

// token is one item of the canonical sequence.
type token struct {
	key     string // what is compared
	orig    string // as written, for the rules about letter case
	kind    kind
	article byte // 'a', 't' (the) or 0, of the noun phrase the token opens
	initial bool // opens a sentence, so that a capital says nothing
	quoted  bool // stood in quotation marks
}

// canonical brings text to the form in which equal means Same: NFC, single
// blanks, no full stop at the end. Letter case, format characters and broken
// UTF-8 stay as they are.
func canonical(text string) string {
	if !norm.NFC.IsNormalString(text) {
		text = norm.NFC.String(text)
	}
	text = strings.Join(strings.Fields(text), " ")
	if strings.HasSuffix(text, ".") && !strings.HasSuffix(text, "..") {
		text = strings.TrimRight(text[:len(text)-1], " ")
	}
	return text
}

// opaque reports text that must only ever match itself: broken UTF-8, and
// characters that do not show (zero-width, bidirectional, fillers), since what
// a reader sees of it is not what is stored.
func opaque(s string) bool {
	ascii := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c >= utf8.RuneSelf {
			ascii = false
		} else if c < ' ' && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return true
		}
	}
	if ascii {
		return false
	}
	for i, r := range s {
		if r == utf8.RuneError {
			if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
				return true
			}
		}
		if unicode.In(r, unicode.Cf, unicode.Cc, unicode.Co, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) && r != '\u0085' {
			return true
		}
	}
	return false
}

// plain maps typographic marks to ASCII.
var plain = strings.NewReplacer("’", "'", "‘", "'", "“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`,
	"—", " -- ", " – ", " -- ", "–", "-", "‑", "-", "−", "-", "…", "...", "：", ":", "，", ",", "。", ".")

// contractions are written out before anything looks at the words. An "'s" that
// is not listed is a possessive.
var contractions = map[string][]string{
	"can't": {"can", "not"}, "cannot": {"can", "not"}, "won't": {"will", "not"}, "shan't": {"shall", "not"}, "ain't": {"is", "not"},
	"it's": {"it", "is"}, "that's": {"that", "is"}, "there's": {"there", "is"}, "what's": {"what", "is"}, "who's": {"who", "is"},
	"he's": {"he", "is"}, "she's": {"she", "is"}, "here's": {"here", "is"}, "where's": {"where", "is"}, "let's": {"let", "us"},
	"i'm":  {"i", "is"},
	"isnt": {"is", "not"}, "arent": {"is", "not"}, "wasnt": {"was", "not"}, "werent": {"was", "not"}, "dont": {"do", "not"}, "doesnt": {"does", "not"},
	"didnt": {"did", "not"}, "hasnt": {"has", "not"}, "havent": {"have", "not"}, "couldnt": {"could", "not"}, "shouldnt": {"should", "not"}, "wouldnt": {"would", "not"},
}

// spelled writes out the contractions that only what follows tells from others: "'s"
// before an article is no possessive, and "'d rather" is no "had".
func spelled(toks []token) []token {
	follows := func(i int, words ...string) bool {
		return i < len(toks) && !toks[i].quoted && toks[i].kind == word && slices.Contains(words, toks[i].key)
	}
	for i := 1; i < len(toks); i++ {
		switch t := &toks[i]; {
		case t.quoted || t.kind != word:
		case t.key == "'s" && (follows(i+1, "a", "an", "the") || follows(i+1, "not") && follows(i+2, "a", "an", "the")):
			t.key, t.orig = "is", "is"
		case t.key == "'d" && follows(i+1, "rather", "like", "prefer", "love"):
			t.key, t.orig = "would", "would"
		}
	}
	return toks
}

// unquoted takes the quotation marks from a text that is in them as a whole, but for
// frames. ok is false if it is not.
func unquoted(text string) (inner string, ok bool) {
	text = plain.Replace(text)
	from, to := strings.IndexByte(text, '"'), strings.LastIndexByte(text, '"')
	if from < 0 || to <= from+1 || strings.IndexByte(text[from+1:to], '"') >= 0 || strings.Trim(text[to+1:], ". ") != "" {
		return "", false
	}
	for before := scan(text[:from]); len(before) > 0; {
		n, _ := frameTrie.longest(before)
		if n == 0 {
			return "", false
		}
		before = before[n:]
	}
	return text[:from] + text[from+1:to], true
}

// suffixes of contractions in general.
var suffixes = []struct{ end, add string }{{"n't", "not"}, {"'re", "is"}, {"'ll", "will"}, {"'ve", "have"}, {"'d", "'d"}}

// abbreviations end in a full stop that ends no sentence.
var abbreviations = set("mr mrs ms dr prof st inc ltd co corp jr sr vs etc e.g i.e a.m p.m no dept approx u.s u.k")

const opening = "([{\"'`*_<"
const closing = ")]}\"'`*,;:!?.>"

// scan splits text into tokens. Hyphens, dots, slashes and the like inside a
// word belong to it.
func scan(text string) []token {
	if strings.IndexFunc(text, func(r rune) bool { return r >= utf8.RuneSelf }) >= 0 {
		text = plain.Replace(text)
	}
	out := make([]token, 0, 24)
	initial, quoted, quoteAt, quoteMark := true, false, 0, byte(0)
	mark := func(p string) {
		k := punct
		if p == "?" {
			k = mood
		}
		out = append(out, token{key: p, orig: p, kind: k})
	}
	first := true
	for f := range strings.FieldsSeq(text) {
		if first && (f == "-" || f == "*" || f == "•") {
			continue // a list bullet
		}
		first = false
		if len(f) == 1 && strings.IndexByte("*_<>|'", f[0]) >= 0 {
			mark(f)
			continue
		}
		core, isURL := f, strings.Contains(f, "://")
		for core != "" && strings.IndexByte(opening, core[0]) >= 0 {
			switch c := core[0]; c {
			case '"', '\'', '`':
				quoted, quoteAt, quoteMark = true, len(out), c
			case '(', '[', '{', '<':
				mark("(")
			case '_':
				if len(core) > 1 && !strings.HasSuffix(strings.TrimRight(core, ".,;:!?"), "_") {
					goto opened // _name is an identifier, _name_ is emphasis
				}
			}
			core = core[1:]
		}
	opened:
		end := len(core)
		for end > 0 && strings.IndexByte(closing, core[end-1]) >= 0 {
			if core[end-1] == '\'' && end > 1 && core[end-2] == 's' && !quoted {
				break // users'
			}
			end--
		}
		tail := core[end:]
		core = core[:end]
		if core != "" {
			if strings.HasPrefix(tail, ".") && len(tail) == 1 && (abbreviations[strings.ToLower(core)] || len(core) == 1 && core >= "A" && core <= "Z" && !initial) {
				tail = ""
			}
			out = appendWord(out, core, initial, quoted, isURL)
			initial = false
		}
		for i := 0; i < len(tail); i++ {
			switch c := tail[i]; c {
			case '"', '\'', '`':
				if quoted {
					out = unquote(out, quoteAt, quoteMark)
				}
				quoted = false
			case ')', ']', '}', '>':
				mark(")")
			case ',', ';', ':', '?':
				mark(string(c))
				initial = initial || c == '?' || c == ';' || c == ':'
			case '.', '!':
				mark(".")
				initial = true
			}
		}
	}
	for len(out) > 0 && out[len(out)-1].key == "." {
		out = out[:len(out)-1]
	}
	return out
}

// unquote keeps the quotation marks, as tokens, of everything but a single name,
// number or identifier: quoting a word may distance the writer from it, quoting
// a sentence makes it somebody's.
func unquote(out []token, at int, mark byte) []token {
	if n := len(out) - at; n == 1 && (mark == '`' || out[at].kind != word || out[at].orig != "" && out[at].orig[0] < 'a') {
		return out
	}
	q := token{key: `"`, orig: `"`, kind: punct}
	return append(slices.Insert(out, at, q), q)
}

func appendWord(out []token, w string, initial, quoted, isURL bool) []token {
	add := func(t token) {
		t.initial, t.quoted = initial, quoted
		initial = false
		out = append(out, t)
	}
	switch {
	case isURL || strings.HasPrefix(w, "www."):
		add(token{key: w, orig: w, kind: link})
		return out
	case strings.IndexByte(w, '@') > 0:
		add(token{key: strings.ToLower(w), orig: strings.ToLower(w), kind: link})
		return out
	case w == "--" || w == "-" || w == "/":
		add(token{key: w, orig: w, kind: punct})
		return out
	case w == "&" || w == "+":
		add(token{key: "and", orig: "and", kind: conj})
		return out
	case !isASCII(w):
		// Unknown scripts and mixed ones compare exactly: no folding, no stems.
		k := word
		if r, _ := utf8.DecodeRuneInString(w); unicode.IsUpper(r) && !initial {
			k = name
		}
		if strings.HasSuffix(w, "'s") {
			add(token{key: w[:len(w)-2], orig: w[:len(w)-2], kind: k})
			add(token{key: "'s", orig: "'s"})
			return out
		}
		if r, n := utf8.DecodeRuneInString(w); (r == '€' || r == '£' || r == '¥') && n < len(w) && digit(w[n]) {
			return appendNumber(out, w[n:], w[:n], initial, quoted)
		}
		add(token{key: w, orig: w, kind: k})
		return out
	}
	if quoted && strings.IndexByte(w, '\'') >= 0 {
		add(token{key: w, orig: w, kind: ident})
		return out
	}
	low := strings.ToLower(w)
	if low == "twice" {
		add(token{key: "two", orig: "two"})
		add(token{key: "times", orig: "times"})
		return out
	}
	if c, ok := contractions[low]; ok {
		for _, p := range c {
			add(token{key: p, orig: p})
		}
		return out
	}
	if strings.IndexByte(low, '\'') >= 0 {
		for _, s := range suffixes {
			if b, ok := strings.CutSuffix(low, s.end); ok && b != "" {
				add(token{key: b, orig: w[:len(b)]})
				add(token{key: s.add, orig: s.add})
				return out
			}
		}
		if strings.HasSuffix(low, "'s") || strings.HasSuffix(low, "s'") {
			n := len(low) - 2
			if low[n] == 's' {
				n++
			}
			out = appendWord(out, w[:n], initial, quoted, false)
			out = append(out, token{key: "'s", orig: "'s"})
			return out
		}
	}
	if digit(w[0]) || len(w) > 1 && (w[0] == '$' || w[0] == '~' || w[0] == '-' || w[0] == '+' || w[0] == '.') && digit(w[1]) ||
		len(w) > 2 && w[0] == '-' && w[1] == '$' {
		return appendNumber(out, w, "", initial, quoted)
	}
	if i := strings.IndexByte(low, '-'); i > 0 && i < len(low)-1 {
		if numberWords[low[:i]] != 0 && (numberWords[low[i+1:]] != 0 || timeUnits[low[i+1:]] != "") {
			add(token{key: low[:i], orig: low[:i]})
			add(token{key: low[i+1:], orig: low[i+1:]})
			return out
		}
		if c, ok := hyphenated[low]; ok {
			add(token{key: c, orig: c})
			return out
		}
	}
	t := token{key: foldKey(w, low), orig: w, kind: letterKind(w, initial)}
	if t.kind == name && structural[low] {
		t.key = w // "By" or "IS" is part of a name, and no rule may read it as grammar
	}
	add(t)
	return out
}

// foldKey gives the lower-case key of a word, and the exact text of everything
// that looks like an identifier: letter case may matter there.
func foldKey(w, low string) string {
	for i := 0; i < len(w); i++ {
		if c := w[i]; !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '-' || c == '\'' || c == '.') {
			return w
		}
	}
	return low
}

func letterKind(w string, initial bool) kind {
	upper, other := 0, false
	for i := 0; i < len(w); i++ {
		switch c := w[i]; {
		case 'A' <= c && c <= 'Z':
			upper++
		case 'a' <= c && c <= 'z', c == '-', c == '\'', c == '.':
		default:
			other = true
		}
	}
	switch {
	case other:
		return ident
	case upper == 0 || w == "I" || w == "A":
		return word
	case initial && upper == 1 && 'A' <= w[0] && w[0] <= 'Z':
		return word
	}
	return name
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}
