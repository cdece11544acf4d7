package restate

import (
	"html"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxBytes is the length beyond which only an equal text matches: a long text
// holds more than one claim.
const maxBytes = 2000

// maxTokens bounds the work done on the structure of one sentence.
const maxTokens = 48

// Statement is a text prepared for [Compare]. It is a value, safe to share
// between goroutines. The zero Statement, which [Of] never returns, equals
// nothing.
type Statement struct {
	text       string // canonical text; equal means Same
	set        bool
	opaque     bool // must match itself only
	long       bool
	attributed bool // "the user said that"
	quoted     bool // all of it stood in quotation marks: they are somebody's words
	confirms   int  // words that claim somebody checked
	items      []token
	category   string // category noun of a preference statement
	object     string // what is preferred, to judge the category
	typed      []string
	negations  int
}

// Of analyses text. The result does not depend on anything but text, so it may
// be cached.
func Of(text string) Statement {
	s := Statement{set: true}
	if opaque(text) {
		s.text, s.opaque = text, true
		return s
	}
	s.text = canonical(text)
	if len(text) > maxBytes {
		s.long = true
		return s
	}
	text, quoted := unquoted(s.text)
	if s.quoted = quoted; !quoted {
		text = s.text
	}
	toks, attributed := unframe(spelled(scan(text)))
	s.attributed = attributed
	for i := range toks {
		t := &toks[i]
		switch t.key {
		case "are", "am":
			if t.kind == word && t.key == "are" || i > 0 && toks[i-1].key == "i" {
				t.key = "is"
			}
		case "were":
			t.key = "was"
		case "=":
			t.kind = punct
		}
		for _, c := range confirming {
			if strings.HasPrefix(t.key, c) {
				s.confirms++
			}
		}
		if denies(toks, i) {
			s.negations++
		}
	}
	toks = quantities(toks)
	for _, t := range toks {
		switch t.kind {
		case number, unit, date, link:
			s.typed = append(s.typed, t.key)
		}
	}
	slices.Sort(s.typed)
	toks = articles(toks)
	s.items = make([]token, 0, len(toks)+2)
	for start := 0; start <= len(toks); {
		end := start
		for end < len(toks) && toks[end].key != "." {
			end++
		}
		if start > 0 && end > start {
			s.items = append(s.items, token{key: ".", orig: ".", kind: punct})
		}
		s.items = append(s.items, s.sentence(toks[start:end:end])...)
		start = end + 1
	}
	for i := range s.items {
		classify(&s.items[i])
	}
	return s
}

// foreign are words of negation of other languages: German, Dutch, French, Spanish,
// Portuguese, Italian, Polish, Czech, Russian, Swedish, Danish and Norwegian; then Turkish,
// Greek, Hindi, Arabic, Hebrew and Korean.
var foreign = set("nein nicht nich nix keinerlei weder nimmer keineswegs mitnichten nadie ningún ninguno ninguna nada guère nao kein keine keinen keinem keiner nie niemals nichts niet geen nooit pas jamais aucun aucune ni nunca jamás tampoco não nem jamais non mai nessun nessuna nigdy není ne не нет никогда inte aldrig ingen ikke " +
	"ohne niemand niemanden niemandem nirgends nirgendwo keinesfalls kaum nee falsch unwahr sans nulle sin incorrecto incorrecta לא " +
	"değil değilim değiliz δεν όχι οχι नहीं لا ليس ليست لست 안 못")

// within finds characters of negation of Japanese, Chinese and Korean. They are looked for
// anywhere, since no blank parts the words. So they also stand in words that deny nothing.
var within = regexp.MustCompile(`ない|なかっ|ません|[不没沒非않]|아[니닙닌]`)

// numbered are words behind which "no" stands for number.
var numbered = set("account building bus case contract customer flight gate house id invoice item order part phone platform policy room serial street ticket")

// untrue are further words that deny what is said beside them.
var untrue = set("nope nah nvr donot rarely seldom scarcely nowhere noone false untrue incorrect wrong invalid unable except excluding")

// unmarked are contractions of "not" that people type without the apostrophe, and that
// [contractions] does not have.
var unmarked = set("dnt cant aint wont mustnt neednt hadnt shant")

// elision finds the French "ne" before a vowel: n'est, n'habite.
var elision = regexp.MustCompile(`^n'[aeéèêiîoôuyh]`)

// respelled makes what people type for an apostrophe one.
var respelled = strings.NewReplacer("`", "'", "´", "'", "′", "'", "ʹ", "'", "ʼ", "'", "ʻ", "'", "‘", "'", "’", "'", "‛", "'", "ꞌ", "'", "❛", "'", "❜", "'", "＇", "'",
	`\'`, "'", "ʽ", "'", "՚", "'", "ˈ", "'", "׳", "'", "‵", "'", "â€™", "'", "Â´", "'", `\u2019`, "'")

// apart finds marks between two letters with no blank beside them, such as those of "not,like".
// An apostrophe and an underline are parts of words.
var apart = regexp.MustCompile(`\pL[^\p{L}\p{N}\p{M}\s'_]+\pL`)

// compound finds words with a hyphen that are known to name a kind of thing, and to deny
// nothing. Others ("non-member", "not-like") count as words of negation.
var compound = regexp.MustCompile(`(?i)\b(?:non[-‐‑](?:alcoholic|binary|dairy|disclosure|executive|fat|fiction|governmental|linear|profits?|refundable|slip|smoking|stick|stop|toxic)|no[-‐‑](?:brainers?|code|frills|fuss|nonsense|reply|smoking)|not[-‐‑]for[-‐‑]profits?)\b`)

// numbering finds a "No" that a hyphen joins to a word, before a number: Oslo-No 5.
var numbering = regexp.MustCompile(`(\pL)-No\.? ?(\d)`)

// yesOrNo finds the kind of a question. "Football: yes/no" is none: it is not answered.
var yesOrNo = regexp.MustCompile(`(?i)\byes[/-]no(\s+(?:answer|field|poll|question|quiz|vote))`)

// address finds where something is on the web, and code the "no" in it that is the one of
// Norway, or of its language.
var (
	address = regexp.MustCompile(`(?i)\b(?:https?://|www\.)[^\s,;]+`)
	code    = regexp.MustCompile(`(?i)(//|[\pL\pN][./])no([./?#]|$)`)
)

// unjoined takes out the words of negation that are known to be parts of other words.
func unjoined(text string) string {
	text = address.ReplaceAllStringFunc(text, func(s string) string {
		return code.ReplaceAllString(code.ReplaceAllString(s, "${1}norway$2"), "${1}norway$2")
	})
	text = yesOrNo.ReplaceAllString(numbering.ReplaceAllString(text, "$1 $2"), "$1")
	return compound.ReplaceAllString(text, "compound")
}

// struck finds words that are struck out, and signs for "not". It reads text whose characters
// are taken apart, so that the stroke of ≢ is one.
var struck = regexp.MustCompile(`(?i)</?(?:s|del|strike)(?:[\s/>]|$)|~~|[\x{335}-\x{338}\x{20D2}\x{20D3}\x{20E0}\x{20E5}]|!=|/=|<>|¬|(?:^|\s)!\pL`)

// unescaped takes the HTML entities out of a text, also those that were escaped again. ok is
// false if there is no end to that.
func unescaped(text string) (plain string, ok bool) {
	for range 4 {
		plain = html.UnescapeString(text)
		if plain == text {
			return text, true
		}
		text = plain
	}
	return text, false
}

// blank makes blanks of quotation marks, marks of emphasis and the like.
func blank(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || strings.ContainsRune(".,;:!?'%@()_", r) || !unicode.IsPunct(r) && !unicode.IsSymbol(r) || unicode.Is(unicode.Sc, r) {
			return r
		}
		return ' '
	}, text)
}

// misspelt finds a contraction with its apostrophe in the wrong place, or with something else
// for it: do'nt, don;t, don t.
var misspelt = regexp.MustCompile(`(?i)\b(do|does|did|is|are|was|were|wo|ca|could|should|would|have|has|had|ai|must|need|sha|might)(?:'nt| nt|n[^\p{L}\p{N}]{1,3}t)\b`)

// spaced finds a "not" whose letters stand apart.
var spaced = regexp.MustCompile(`(?i)\bn[^\p{L}\p{N}]{1,2}o[^\p{L}\p{N}]{1,2}t\b`)

// unpaired finds an apostrophe that is no part of a word, but a quotation mark, and a mark of
// emphasis beside a word.
var unpaired = regexp.MustCompile(`(^|[^\p{L}\p{N}])['_-]+|['_-]+([^\p{L}\p{N}]|$)`)

// harmless finds emoji that deny nothing and are written with characters which nobody sees: a
// red heart, a family. Of others it is not known what they say.
var harmless = regexp.MustCompile(`[❤♥☺☀✈☕👍🙏👋👏💪👨👩👦👧🧑🧒👶🧔💻🍳🎓🎨🚀🏫🌾💕💖💙💚💛💜🧡🖤🤍🔥][\x{1F3FB}-\x{1F3FF}]?\x{FE0F}?(?:\x{200D}[❤♥👨👩👦👧🧑🧒👶🔥💻🍳🎓🎨🚀🏫🌾][\x{1F3FB}-\x{1F3FF}]?\x{FE0F}?)*`)

// shownAs finds a picture that a phone asks to be shown in colours.
var shownAs = regexp.MustCompile(`[\x{2600}-\x{27BF}\x{1F300}-\x{1F6FF}\x{1F900}-\x{1FAFF}]\x{FE0F}`)

// answers are words that answer a question with no.
var answers = set("no nein όχι οχι")

// answer finds "No." before what somebody says.
var answer = regexp.MustCompile(`(?i)^\s*(?:no|nein|όχι|οχι)[.!]\s+(?-i:\p{Lu})`)

// crossed are signs that deny what they stand beside, or say that somebody does not like it.
const crossed = "❌❎✕✖✗✘☒☓⨯🗙🛑🆖🚫⛔🚭🚷👎🙅🤷☹🙁😠😡🤮🤢💔"

// Negates reports whether a word, in lower case, is an English one of negation.
func Negates(word string) bool { return negations[word] }

// Negations counts the [Denials] of a text.
func Negations(text string) (n int, legible bool) {
	words, legible := Denials(text)
	return len(words), legible
}

// Denials are the words of a text that deny something, in lower case. They are English words with
// the contractions ("not" for each), a word or a character for each of some other languages, and
// signs such as a cross. Some uses of "no" deny nothing:
//
//   - "No" between the name of a thing and a number;
//   - "no," or "No." before a sentence as an answer, also in German and Greek;
//   - "no less than", and the "no" of a web address.
//
// Nor do some words with a hyphen, such as "non-profit". legible is false of a text of which
// nobody knows what it denies: it is no UTF-8, has words that are struck out, or has characters
// that nobody sees, but for those of some emoji.
//
// Its limits are on the side of denial, but for languages and spellings that it does not
// know. A word that is one of negation in any language counts in all of them, also as a name
// or an abbreviation: "nie" (an identity number in Spain), "Mai", "PAS". So does a foreign word
// that is an English one but for its accents: Swedish "nöt". Chinese "非常" (very) has a
// character that denies.
func Denials(text string) (words []string, legible bool) {
	if !utf8.ValidString(text) {
		return nil, false
	}
	text, legible = unescaped(text)
	if !legible {
		return nil, false
	}
	for _, sign := range text {
		if strings.ContainsRune(crossed, sign) {
			words = append(words, string(sign))
		}
	}
	for _, at := range harmless.FindAllStringIndex(text, -1) {
		before, _ := utf8.DecodeLastRuneInString(text[:at[0]])
		after, _ := utf8.DecodeRuneInString(text[at[1]:])
		if unicode.IsLetter(before) && unicode.IsLetter(after) { // within a word
			return nil, false
		}
	}
	text = shownAs.ReplaceAllStringFunc(harmless.ReplaceAllString(text, " "), func(s string) string {
		if strings.ContainsAny(s, crossed) {
			return s
		}
		return " "
	})
	if opaque(text) {
		return nil, false
	}
	text = latin.Replace(norm.NFKC.String(respelled.Replace(text))) // wide letters, and those of mathematics, are letters
	if struck.MatchString(norm.NFKD.String(text)) {
		return nil, false
	}
	text = lettered.ReplaceAllStringFunc(text, plainly)
	words = append(words, within.FindAllString(text, -1)...)
	text = misspelt.ReplaceAllString(spaced.ReplaceAllString(text, "not"), "${1}n't")
	answered := answer.MatchString(text)
	text = unjoined(text)
	for apart.MatchString(text) {
		text = apart.ReplaceAllStringFunc(text, func(s string) string {
			first, n := utf8.DecodeRuneInString(s)
			last, _ := utf8.DecodeLastRuneInString(s[n:])
			return string(first) + " " + string(last)
		})
	}
	text = blank(text)
	text = unpaired.ReplaceAllString(unpaired.ReplaceAllString(text, "$1 $2"), "$1 $2")
	toks := spelled(scan(canonical(text)))
	for i := range toks {
		if word := denial(toks, i, answered); word != "" {
			words = append(words, word)
		}
	}
	return words, true
}

// denial is the word of negation that a token is, or "". answered says that the text begins with
// an answer.
func denial(toks []token, i int, answered bool) string {
	is := func(i int, match func(key string) bool) bool {
		return i >= 0 && i < len(toks) && match(strings.ToLower(toks[i].key))
	}
	k := strings.ToLower(toks[i].key)
	switch {
	case answers[k] && is(i+1, func(next string) bool { return next == "," }):
	case answers[k] && i == 0 && answered:
	case k == "no" && is(i-1, func(before string) bool { return numbered[before] }) && is(i+1, func(next string) bool { return strings.ContainsAny(next, "0123456789") }):
	case negations[k] && !denies(toks, i) && is(i+2, func(than string) bool { return than == "than" }):
	case unmarked[k]:
		return "not"
	case elision.MatchString(k):
		return "ne"
	case negations[k], foreign[k], untrue[k]:
		return k
	}
	return ""
}

// denies reports a word of negation, but not the "no" of "no less than".
func denies(toks []token, i int) bool {
	k := strings.ToLower(toks[i].key)
	if !negations[k] {
		return false
	}
	if (k == "no" || k == "not") && i+1 < len(toks) {
		switch toks[i+1].key {
		case "less", "fewer", "more", "greater":
			return false
		}
	}
	return true
}

// unframe takes off the frames at both ends of a text.
func unframe(toks []token) ([]token, bool) {
	attributed := false
	for range 4 {
		if n, _ := frameTrie.longest(toks); n > 0 && n < len(toks) {
			toks = toks[n:]
			toks[0].initial = true
			continue
		}
		n, _ := attributionTrie.longest(toks)
		if n == 0 || n >= len(toks) || attributed {
			break
		}
		attributed = true
		subject := "user"
		if toks[0].key == "customer" || toks[0].key == "the" && toks[1].key == "customer" {
			subject = "customer"
		}
		toks = toks[n:]
		toks[0].initial = true
		if len(toks) > 1 && toks[0].key == "they" {
			toks[0] = token{key: subject, orig: subject, initial: true}
			switch v := &toks[1]; {
			case v.key == "are":
				v.key = "is"
			case v.kind == word && !modals[v.key] && v.key != "is" && v.key != "had" && !strings.HasSuffix(v.key, "ed") &&
				!strings.HasSuffix(v.key, "ly") && !qualifiers[v.key] && isASCII(v.key):
				v.key = third(v.key)
				v.orig = v.key
			}
		} else if toks[0].key == "their" {
			toks = append([]token{{key: subject, orig: subject, initial: true}, {key: "'s", orig: "'s"}}, toks[1:]...)
		}
	}
	for i := max(0, len(toks)-9); i < len(toks); i++ {
		if i == 0 {
			continue
		}
		if n, _ := trailerTrie.longest(toks[i:]); n == len(toks)-i {
			return toks[:i], attributed
		}
	}
	return toks, attributed
}

// articles takes a, an and the out and notes them on the word that follows.
func articles(in []token) []token {
	out := in[:0]
	var art byte
	initial := false
	for _, t := range in {
		if t.kind == word && !t.quoted {
			switch t.key {
			case "a", "an":
				art, initial = 'a', initial || t.initial
				continue
			case "the":
				art, initial = 't', initial || t.initial
				continue
			}
		}
		// "a few" is not "few", "a little" not "little".
		if art == 'a' && (t.key == "few" || t.key == "little" || t.key == "lot" || t.key == "couple" || t.key == "number") {
			t.key = "a-" + t.key
		} else {
			t.article = art
		}
		t.initial = t.initial || initial
		art, initial = 0, false
		out = append(out, t)
	}
	if art != 0 {
		out = append(out, token{key: "the", orig: "the"})
	}
	return out
}

// sentence brings one sentence to canonical order.
func (s *Statement) sentence(in []token) []token {
	toks := rewrite(in)
	toks = bounds(toks)
	if len(toks) == 0 || len(toks) > maxTokens {
		return toks
	}
	if elided[toks[0].key] && toks[0].kind == word && len(toks) > 1 {
		toks = append([]token{{key: "user", orig: "user"}}, toks...)
	}
	toks = lists(toks)
	if n := len(toks); toks[n-1].key == "?" {
		return toks
	}
	toks = fronted(toks)
	toks = passive(toks)
	for range 3 {
		next, ok := s.reshape(toks)
		if !ok {
			break
		}
		toks = next
	}
	return trailing(possessives(toks))
}

// rewrite applies the table of wordings.
func rewrite(in []token) []token {
	out := make([]token, 0, len(in)+6)
	for i := 0; i < len(in); {
		n, repl := rewriteTrie.longest(in[i:])
		// "Max is 10" may be about a Max.
		if t := in[i]; n == 0 || n == 1 && ambiguous[t.key] && t.initial && t.article == 0 && letters(t.orig) != 'l' {
			out = append(out, in[i])
			i++
			continue
		}
		for j, w := range repl {
			t := token{key: w, orig: w}
			if j == 0 {
				t.article, t.initial = in[i].article, in[i].initial
			} else if j == len(repl)-1 && in[i+n-1].kind == word {
				t.article = in[i+n-1].article
			}
			out = append(out, t)
		}
		i += n
	}
	return out
}

// boundWords are one bound when a number follows and a preposition otherwise.
var boundWords = map[string]string{
	"about": "about", "around": "about", "approximately": "about", "roughly": "about", "circa": "about",
	"over": "more-than", "above": "more-than", "exceeding": "more-than", "under": "less-than", "below": "less-than",
}

// bounds names what limits a number: about, more than, less than, at most.
func bounds(in []token) []token {
	out := in[:0]
	for i := 0; i < len(in); i++ {
		t := in[i]
		follows := func(n int) bool { return i+n < len(in) && in[i+n].kind == number }
		switch {
		// "over three years" may mean during, "for over three years" may not.
		case boundWords[t.key] != "" && boundWords[t.key] != "about" && follows(1) && i+2 < len(in) && in[i+2].kind == unit &&
			timeUnits[in[i+2].key] != "" && !(i > 0 && in[i-1].key == "for"):
		case boundWords[t.key] != "" && follows(1):
			t.key, t.orig, t.kind = boundWords[t.key], boundWords[t.key], qualifier
		case (t.key == "more" || t.key == "greater") && i+1 < len(in) && in[i+1].key == "than" && follows(2):
			t.key, t.orig, t.kind = "more-than", "more-than", qualifier
			i++
		case (t.key == "less" || t.key == "fewer") && i+1 < len(in) && in[i+1].key == "than" && follows(2):
			t.key, t.orig, t.kind = "less-than", "less-than", qualifier
			i++
		case t.key == "up" && i+1 < len(in) && in[i+1].key == "to" && follows(2):
			t.key, t.orig, t.kind = "at-most", "at-most", qualifier
			i++
		case t.key == "of" && len(out) > 0 && (out[len(out)-1].key == "at-least" || out[len(out)-1].key == "at-most" || out[len(out)-1].kind == unit && out[len(out)-1].key != "%"):
			continue // "20 mg of" is "20 mg"
		case t.key == "held" && len(out) > 0 && out[len(out)-1].key == "is" && timeChunk(in[i+1:]) > 0:
			continue // an event that is held on Monday is on Monday
		}
		// "refunds of more than $500" is "refunds over $500".
		if (t.key == "more-than" || t.key == "less-than") && len(out) > 0 && out[len(out)-1].key == "of" {
			out = out[:len(out)-1]
		}
		out = append(out, t)
	}
	return out
}

// lists writes "a, b, and c" as "a and b and c" and sorts the members of a list
// that ends the sentence, if each is one word: their order says nothing.
func lists(in []token) []token {
	out := in[:0]
	for i, t := range in {
		if t.key == "," && i > 1 && i+1 < len(in) && (in[i+1].key == "and" || in[i+1].key == "or") && i >= 3 && in[i-2].key == "," {
			continue
		}
		out = append(out, t)
	}
	n := len(out)
	if n < 4 || out[n-2].key != "and" {
		return out
	}
	start := n - 3
	for start >= 2 && out[start-1].key == "," {
		start -= 2
	}
	if start < 1 {
		return out
	}
	for _, t := range out[:start] {
		if t.key == "," || t.key == "respectively" || t.key == "and" || t.key == "then" || t.key == "between" || t.key == "from" {
			return out
		}
	}
	// Only right after the verb is "x and y" surely a list of single words.
	if prev := out[start-1].key; !(barriers[prev] || strings.HasSuffix(prev, "s") && start == 2) || prev == "is" || prev == "was" {
		return out
	}
	members := make([]token, 0, 6)
	for i := start; i < n; i += 2 {
		if k := out[i].kind; k != word && k != name || barriers[out[i].key] || out[i].key == "then" || out[i].article != 0 {
			return out
		}
		members = append(members, out[i])
	}
	slices.SortStableFunc(members, func(a, b token) int { return strings.Compare(a.key, b.key) })
	for i, m := range members {
		out[start+2*i] = m
	}
	for i := start + 1; i < n; i += 2 {
		out[i] = token{key: "and", orig: "and", kind: conj}
	}
	return out
}

func isPrep(t token) bool { return prepositions[t.key] && t.kind != name && !t.quoted }

// timeChunk gives the length of the time phrase at the head of toks.
func timeChunk(toks []token) int {
	if len(toks) == 0 {
		return 0
	}
	if toks[0].kind == date {
		return 1
	}
	if len(toks) > 1 && toks[1].kind == date && (toks[0].key == "at" || toks[0].key == "on" || toks[0].key == "in") {
		return 2
	}
	if len(toks) > 1 && toks[0].key == "#2" && toks[1].kind == unit && strings.HasPrefix(toks[1].key, "per") {
		return 2
	}
	if len(toks) > 2 && toks[0].kind == number && toks[1].key == "times" && strings.HasPrefix(toks[2].key, "per") {
		return 3
	}
	return 0
}

// fronted moves a phrase that opens the sentence ("In 2019, ...", "For
// infrastructure, ...") to the end, unless the rest of the sentence has more
// than one place for it.
func fronted(in []token) []token {
	n := 0
	for {
		m := timeChunk(in[n:])
		if m == 0 {
			break
		}
		n += m
	}
	rest := n
	if n > 0 && n < len(in) && in[n].key == "," {
		rest++
	} else if n > 0 && (!isPrep(in[0]) && !relative(in[0].key) || in[0].article != 0 || frequencyAdverbs[in[0].key] != "" || n == len(in) || in[n].key == "is" || in[n].key == "was" || in[n].kind != word && in[n].kind != name || isPrep(in[n]) || barriers[in[n].key]) {
		return in
	}
	if n == 0 {
		if !isPrep(in[0]) {
			return in
		}
		for n < len(in) && in[n].key != "," {
			if n > 0 && barriers[in[n].key] && in[n].key != "of" || n > 5 {
				return in
			}
			n++
		}
		if n >= len(in)-1 || n < 2 {
			return in
		}
		switch in[0].key {
		case "as", "unlike", "despite", "according", "per", "than", "about", "among", "regarding", "except":
			return in
		}
		rest = n + 1
	}
	for _, t := range in[rest:] {
		if speech[t.key] || t.key == "," || t.key == ";" || t.key == ":" {
			return in
		}
	}
	out := make([]token, 0, len(in))
	out = append(out, in[rest:]...)
	return append(out, in[:n]...)
}

// trailing sorts the time phrases that end a sentence.
func trailing(toks []token) []token {
	end := len(toks)
	var chunks [][]token
	for end > 0 {
		n := 0
		for _, size := range []int{3, 2, 1} {
			if end >= size && timeChunk(toks[end-size:end]) == size {
				n = size
				break
			}
		}
		if n == 0 || n == 1 && end > 1 && isPrep(toks[end-2]) {
			break // the time of "until 9:00" stays with its preposition
		}
		chunks = append(chunks, toks[end-n:end])
		end -= n
	}
	if len(chunks) < 2 {
		return toks
	}
	slices.SortStableFunc(chunks, func(a, b []token) int { return strings.Compare(a[len(a)-1].key, b[len(b)-1].key) })
	out := make([]token, 0, len(toks))
	out = append(out, toks[:end]...)
	for _, c := range chunks {
		out = append(out, c...)
	}
	return out
}

// passive turns "B is managed by A" into "A manages B".
func passive(in []token) []token {
	for i := 1; i+2 < len(in); i++ {
		aux := in[i].key
		j := i + 1
		if aux == "must" || aux == "can" || aux == "will" || aux == "may" || aux == "should" || aux == "might" {
			if in[j].key != "be" {
				continue
			}
			j++
		} else if aux != "is" && aux != "was" {
			continue
		}
		if j >= len(in) || in[j].kind != word {
			continue
		}
		v, ok := participles[in[j].key]
		if !ok {
			continue
		}
		by := j + 1
		for by < len(in) && in[by].key != "by" {
			if barriers[in[by].key] {
				return in
			}
			by++
		}
		if by >= len(in)-1 || !nominal(in[:i]) {
			continue
		}
		end := by + 1
		for end < len(in) && !isPrep(in[end]) && in[end].kind != date {
			end++
		}
		// "the ministry of defence" and the like stay unresolved.
		agent := in[by+1 : end]
		if len(agent) == 0 || !nominal(agent) || agent[0].kind == number || agent[0].kind == date || len(agent) > 4 {
			return in
		}
		if end < len(in) && in[end].key == "of" {
			return in
		}
		key := v.past
		out := make([]token, 0, len(in))
		out = append(out, agent...)
		switch {
		case j > i+1:
			out = append(out, in[i])
			key = v.base
		case aux == "is":
			key = v.third
			if plural(agent[len(agent)-1].key) {
				key = v.base
			}
		}
		out = append(out, token{key: key, orig: key})
		out = append(out, in[:i]...)
		out = append(out, in[j+1:by]...)
		return append(out, in[end:]...)
	}
	return in
}

// nominal reports that toks can be a noun phrase.
func nominal(toks []token) bool {
	for _, t := range toks {
		if barriers[t.key] && t.key != "." || t.kind == mood || qualifiers[t.key] && t.key != "all" && t.key != "more-than" && t.key != "less-than" && t.key != "at-least" && t.key != "at-most" {
			return false
		}
	}
	return len(toks) > 0
}

func plural(w string) bool {
	return len(w) > 3 && strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is")
}

func singular(w string) string {
	switch {
	case len(w) > 4 && strings.HasSuffix(w, "ies"):
		return w[:len(w)-3] + "y"
	case plural(w):
		return w[:len(w)-1]
	}
	return w
}

// possessives drops the 's after a common noun: the API's timeout is the API
// timeout. After a name it stays.
func possessives(toks []token) []token {
	out := toks[:0:len(toks)]
	for i, t := range toks {
		if t.key == "'s" && i > 0 && i+1 < len(toks) && (letters(toks[i-1].orig) == 'l' && isASCII(toks[i-1].key) || caseless[toks[i-1].key]) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// classify names the kind of a word, for the reasons.
func classify(t *token) {
	if t.kind != word {
		return
	}
	switch {
	case negations[t.key]:
		t.kind = negation
	case modals[t.key]:
		t.kind = modal
	case qualifiers[t.key]:
		t.kind = qualifier
	case t.key == "if":
		t.kind = mood
	case conjunctions[t.key]:
		t.kind = conj
	case prepositions[t.key]:
		t.kind = prep
	}
}

// relative reports a day or period counted from now.
func relative(key string) bool {
	switch key {
	case "today", "tomorrow", "yesterday", "tonight":
		return true
	}
	head, _, ok := strings.Cut(key, " ")
	return ok && (head == "last" || head == "next" || head == "this")
}
