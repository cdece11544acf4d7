package agent

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
)

// ledger is what reached a run's context. It only grows. It is safe for
// concurrent use: a model may call several tools at once.
type ledger struct {
	mu        sync.Mutex
	served    []admission.Served // each row once, in the order it was first read
	rows      map[memory.ID]memory.Row
	says      map[string][]said // what the typed ones of rows say, by the value, in that order
	facts     map[memory.ID][]fact
	seen      map[memory.ID]bool // of rows: the run was shown the text itself
	ancestors map[memory.ID]bool
	rivals    map[memory.ID]memory.Row // not shown, since a better row says otherwise
	handles   map[string]referred      // by token; none of them is in rows by that
	typed     []string                 // what the principal typed
	asked     map[string]bool          // words of it that a third party was asked about; see ask
	ids       map[string]bool          // identifiers of records that were found
	lines     map[string]*line         // by lineOf, of functional predicates
	unknown   string                   // why part of the lineage is not known; "" = all is known

	saysNothing func(predicate, object string) bool // such a value vouches for no argument
}

// line is what a run read of one subject and functional predicate.
type line struct {
	rows []memory.ID
	last memory.ID // of them, the one that the run itself read last, as verified; "" = none since
}

func newLedger(saysNothing func(predicate, object string) bool) *ledger {
	return &ledger{saysNothing: saysNothing, rows: map[memory.ID]memory.Row{}, says: map[string][]said{}, facts: map[memory.ID][]fact{}, seen: map[memory.ID]bool{}, ancestors: map[memory.ID]bool{}, rivals: map[memory.ID]memory.Row{}, handles: map[string]referred{}, asked: map[string]bool{}, lines: map[string]*line{}, ids: map[string]bool{}}
}

// fork is a copy that grows by itself. What its run has read last of a line, it has to read
// for itself.
func (l *ledger) fork() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	says := maps.Clone(l.says)
	for object, rows := range says {
		says[object] = slices.Clip(rows) // what either adds is its own
	}
	lines := make(map[string]*line, len(l.lines))
	for name, of := range l.lines {
		lines[name] = &line{rows: slices.Clip(of.rows)}
	}
	return &ledger{lines: lines, ids: maps.Clone(l.ids), served: slices.Clone(l.served), rows: maps.Clone(l.rows), says: says, facts: maps.Clone(l.facts), seen: maps.Clone(l.seen), ancestors: maps.Clone(l.ancestors),
		rivals: maps.Clone(l.rivals), handles: maps.Clone(l.handles), typed: slices.Clone(l.typed), asked: maps.Clone(l.asked), unknown: l.unknown, saysNothing: l.saysNothing}
}

// outranked notes rows that were found and not shown, since a better one says otherwise.
func (l *ledger) outranked(rows []memory.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		if rows[i].Content.Typed() {
			l.rivals[rows[i].ID] = rows[i]
		}
	}
}

// rival finds those of them that have a value which no row of the run has.
func (l *ledger) rival(value string) (ids []memory.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.rivals) == 0 || len(l.says[value]) > 0 {
		return nil
	}
	for id, row := range l.rivals {
		if _, read := l.rows[id]; !read && plain(row.Content.Object) == plain(value) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (l *ledger) refer(token string, to referred) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handles[token] = to
}

func (l *ledger) referred(token string) (referred, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ref, have := l.handles[token]
	return ref, have
}

// read adds rows whose text the run is shown, and their closure.
func (l *ledger) read(rows []memory.Row, ancestors []memory.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(rows, ancestors, true)
	for i := range rows {
		l.seen[rows[i].ID] = true
		l.reads(&rows[i])
	}
}

// reads notes that the run is shown a row now: of its line, this is what it was told
// last. What it was told before is not fit any more.
func (l *ledger) reads(r *memory.Row) {
	if old := l.rows[r.ID]; old.Revision != r.Revision {
		l.replace(r)
	}
	of := l.line(r)
	switch {
	case of == nil || r.Truth != memory.TruthSupported && r.Truth != memory.TruthUnverified:
		return // that it is history, or wrong, is said beside it
	case r.Truth == memory.TruthUnverified:
		of.last = ""
		return
	}
	of.last = r.ID
	for _, id := range of.rows {
		if old := l.rows[id]; old.Content.Object != r.Content.Object && old.Truth == memory.TruthSupported {
			old.Truth, old.Rank = memory.TruthSuperseded, 0
			l.replace(&old)
		}
	}
}

// overtaken notes those rows of an answer that were history when they were written. The run was told
// them last, and not that they are: what it was told before may be so, and it cannot know.
func (l *ledger) overtaken(rows []memory.Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range rows {
		if of := l.line(&rows[i]); of != nil && rows[i].Truth == memory.TruthSuperseded {
			of.last = ""
		}
	}
}

// line is that of a row, with the row in it; nil if its predicate is not functional.
func (l *ledger) line(r *memory.Row) *line {
	if !r.Content.Typed() || r.Content.Cardinality != memory.CardinalityFunctional {
		return nil
	}
	name := lineOf(&r.Content)
	of := l.lines[name]
	if of == nil {
		of = &line{}
		l.lines[name] = of
	}
	if !slices.Contains(of.rows, r.ID) {
		of.rows = append(of.rows, r.ID)
	}
	return of
}

// replace puts a newer copy of a row in the place of the one that was read before.
func (l *ledger) replace(r *memory.Row) {
	fresh := *r
	l.rows[r.ID] = fresh
	for _, f := range l.facts[r.ID] {
		all := slices.Clone(l.says[f.object])
		for i := range all {
			if all[i].row.ID == r.ID {
				all[i].row = &fresh
			}
		}
		l.says[f.object] = all
	}
}

// said is a value that a row holds, and under which predicate.
type said struct {
	row       *memory.Row
	predicate string
}

// carry adds rows that the run rests on, and their closure. Somebody else was shown
// their text: another agent, another process.
func (l *ledger) carry(rows []memory.Row, ancestors []memory.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(rows, ancestors, false)
}

// add adds rows, which the run itself reads now or not.
func (l *ledger) add(rows []memory.Row, ancestors []memory.ID, own bool) {
	for i := range rows {
		r := rows[i]
		if of := l.line(&r); of != nil && of.last != r.ID && !own {
			of.last = "" // somebody was told it since, and may tell it
		}
		if _, have := l.rows[r.ID]; have {
			continue
		}
		l.rows[r.ID] = r
		l.facts[r.ID] = slices.DeleteFunc(facts(&r), func(f fact) bool { return l.saysNothing(f.predicate, f.object) })
		for _, f := range l.facts[r.ID] {
			l.says[f.object] = append(l.says[f.object], said{&r, f.predicate})
		}
		l.served = append(l.served, admission.NewServed(&r))
	}
	for _, id := range ancestors {
		l.ancestors[id] = true
	}
}

// found notes the identifiers that a found record names itself by, and identified reports
// whether a value is one, byte for byte.
func (l *ledger) found(ids []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.ids[id] = true
	}
}

func (l *ledger) identified(value string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[value]
}

func (l *ledger) lose(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unknown == "" {
		l.unknown = why
	}
}

func (l *ledger) heard(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.typed = append(l.typed, text)
}

// snapshot is the lineage of a call or a write at this moment.
type snapshot struct {
	served            []admission.Served
	direct, ancestors []memory.ID
	lineage           gate.Lineage
	newer             []gate.Newer
	unknown           string
}

func (l *ledger) snapshot() snapshot {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := snapshot{served: slices.Clone(l.served), unknown: l.unknown}
	s.direct = make([]memory.ID, len(l.served))
	for i := range l.served {
		s.direct[i] = l.served[i].ID
	}
	s.ancestors = make([]memory.ID, 0, len(l.ancestors))
	for id := range l.ancestors {
		if _, direct := l.rows[id]; !direct {
			s.ancestors = append(s.ancestors, id)
		}
	}
	slices.Sort(s.ancestors)
	for _, of := range l.lines {
		if of.last == "" {
			continue
		}
		for _, id := range of.rows {
			if id != of.last {
				s.newer = append(s.newer, gate.Newer{Row: id, By: of.last})
			}
		}
	}
	s.seal()
	return s
}

// seal makes the lineage of what the snapshot holds.
func (s *snapshot) seal() {
	if s.unknown != "" {
		s.lineage = gate.Partial(s.unknown, s.direct, s.ancestors) // what is known is judged all the same
	} else {
		s.lineage = gate.Known(s.direct, s.ancestors)
	}
}

// add puts in what one call rests on besides the ledger. It narrows nothing.
func (s *snapshot) add(direct, ancestors []memory.ID, unknown string) {
	if s.unknown == "" {
		s.unknown = unknown
	}
	if len(direct) == 0 && unknown == "" {
		return
	}
	for _, id := range direct {
		if !slices.Contains(s.direct, id) {
			s.direct = append(s.direct, id)
		}
	}
	s.ancestors = append(s.ancestors, ancestors...)
	s.seal()
}

// typedSpan reports whether words stand verbatim, as whole words, in something
// the principal typed.
func (l *ledger) typedSpan(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(text string) bool { return containsWord(text, words) })
}

// around are the parts, of what the principal typed, in which words stand verbatim: each from
// where its sentence begins to where the clause of the words ends, at a comma or with the
// sentence. Of several in one sentence it is the longest. asks says that a sentence of one of
// them, with the object in it, is a question.
func (l *ledger) around(words, object string) (parts []string, asks bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := strings.TrimRight(words, ".!?。！？ \t\r\n\"')]")
	for _, text := range l.typed {
		sentences, commas := sentencesOf(text), commas.FindAllStringIndex(text+" ", -1)
		first, last, comma, before := 0, 0, 0, -1
		for from := 0; ; {
			at := strings.Index(text[from:], words)
			if at < 0 || words == "" {
				break
			}
			start, end := from+at, from+at+len(words)
			_, size := utf8.DecodeRuneInString(text[start:])
			from = start + size
			if joined(lastRunes(text[:start])) || joined(firstRunes(text[end:])) {
				continue
			}
			for sentences[first].next <= start {
				first++
			}
			for last = max(last, first); sentences[last].end < start+len(said); {
				last++
			}
			for comma < len(commas) && commas[comma][0] < end {
				comma++
			}
			until := min(sentences[last].next, len(text))
			if comma < len(commas) && commas[comma][0] < until {
				until = commas[comma][0]
			}
			part := text[sentences[first].start:until]
			if first == before {
				parts[len(parts)-1] = part
			} else {
				parts, before = append(parts, part), first
			}
		}
	}
	for _, part := range parts {
		for _, s := range sentencesOf(part) {
			one := part[s.start:min(s.next, len(part))]
			asks = asks || strings.Contains(one, object) && (question.MatchString(one) || asking.MatchString(one))
		}
	}
	return parts, asks
}

// question finds a question mark, but none within a word, as in an address.
var question = regexp.MustCompile(`[？؟⁇⁈⁉‽\x{37E}❓❔⸮﹖՞፧¿]|\?(?:[^\p{L}\p{N}=&_%/]|$)`)

// asking finds a question by how it begins, since many people type no mark. English and German
// put an auxiliary verb before the subject, also after a word that asks. French begins with
// "est-ce que", or with a verb and "-je".
var asking = regexp.MustCompile(`(?i)^[^\p{L}\p{N}]*(?:(?:and|but|so|also|or|hi|hello|please|und|oder|et)\b[^\p{L}]*)?(?:` +
	`(?:(?:what|who|whose|which|where|when|why|how)\s+)?(?:` +
	`(?:is|are|am|was|were|isn't|aren't|wasn't|weren't)\s+(?:i|you|we|they|he|she|it|my|our|your|their|his|her|the|this|that|there)` +
	`|(?:do|don't|have|haven't)\s+(?:i|you|we|they)` +
	`|(?:does|doesn't|did|didn't|has|hasn't|had|can|can't|could|will|would|wouldn't|shall|should|shouldn't|may|might|must)\s+(?:i|you|we|they|he|she|it|my|our|your|their|his|her)` +
	`)|(?:bin|bist|ist|sind|seid|war|waren|habe|hab|hast|hat|haben|kann|kannst|können|soll|sollst|sollen|muss|darf|werde|wird|wohne|heiße|mag|stimmt)\s+(?:ich|du|wir|ihr|sie|er|es|mein|meine|dein|deine|unser|unsere|dies|diese|dieser|dieses)` +
	`|est-ce\s+qu['’e]|\pL+-(?:t-)?(?:je|tu|il|elle|ils|elles)` +
	`)(?:[^\pL]|$)`)

// sentence is where a sentence of a text begins, where the mark at its end begins, and where
// the next one does.
type sentence struct{ start, end, next int }

// sentencesOf are the sentences of a text. The last one goes to the end of it, and beyond.
func sentencesOf(text string) (all []sentence) {
	start := 0
	for _, at := range sentenceEnds.FindAllStringIndex(text+" ", -1) {
		next := min(at[1], len(text))
		if !goesOn(text[:at[0]], text[at[0]:next], text[next:]) {
			all = append(all, sentence{start, at[0], next})
			start = next
		}
	}
	return append(all, sentence{start, len(text), len(text) + 1})
}

// commas end a clause.
var commas = regexp.MustCompile(`[,;][\s"')\]]|[，、；]`)

// sentenceEnds ends a sentence: a blank line, or a mark with a blank behind it. Words go on
// over the end of a line.
var sentenceEnds = regexp.MustCompile(`\n[^\S\n]*\n|\r[^\S\n\r]*\r|[.!?。！？❓❔⸮﹖՞፧]+(?:[\s"')\]]|$)`)

// point begins a point of a list.
var point = regexp.MustCompile(`^\s*(?:[-*•+–—]|\d{1,3}[.)]|\p{L}[.)])\s`)

// shortened are words that end in a full stop and end no sentence.
var shortened = map[string]bool{"mr": true, "mrs": true, "ms": true, "dr": true, "prof": true, "st": true, "inc": true, "ltd": true, "co": true, "corp": true, "jr": true, "sr": true,
	"vs": true, "etc": true, "e.g": true, "i.e": true, "a.m": true, "p.m": true, "no": true, "nr": true, "approx": true, "u.s": true, "u.s.a": true, "u.k": true, "z.b": true,
	"gov": true, "capt": true, "gen": true, "lt": true, "sgt": true, "rev": true, "hon": true, "ave": true, "blvd": true, "rd": true, "vol": true, "fig": true, "pp": true,
	"mt": true, "ft": true, "esp": true, "incl": true, "univ": true, "viz": true, "cf": true, "messrs": true, "al": true, "dept": true, "est": true, "max": true, "min": true, "tel": true,
	"jan": true, "feb": true, "mar": true, "apr": true, "jun": true, "jul": true, "aug": true, "sep": true, "sept": true, "oct": true, "nov": true, "dec": true}

// maxGap is up to how many bytes of white space a point of a list is looked for.
const maxGap = 256

// goesOn reports whether a text goes on over the end of a sentence in it: behind a word that
// is shortened, and in a list whose head or earlier points stand before.
func goesOn(before, end, after string) bool {
	before = before[max(0, len(before)-64):] // no word that is shortened is as long
	if strings.ContainsAny(end, "?？") {
		return false
	}
	if strings.HasPrefix(end, "..") || strings.HasPrefix(strings.TrimLeft(end, ".!"), ")") { // a pause, or in brackets
		return true
	}
	if len(gap(after[:min(len(after), maxGap)])) == maxGap { // it is not looked behind so much white space
		return true
	}
	after = after[:min(len(after), 2*maxGap)]
	if tail := end[strings.LastIndexAny(end, " \t\r\n")+1:]; strings.ContainsAny(end, "\r\n") || strings.ContainsAny(gap(after), "\r\n") {
		if point.MatchString(tail + after) {
			return true
		}
	}
	if strings.HasPrefix(end, ".") {
		words := strings.FieldsFunc(before, func(r rune) bool { return unicode.IsSpace(r) || r == '(' })
		if len(words) == 0 {
			return false
		}
		last := strings.ToLower(words[len(words)-1])
		return shortened[last] || utf8.RuneCountInString(last) == 1 && last != "i"
	}
	if strings.ContainsAny(end, "\r\n") {
		before = strings.TrimRight(before, " \t\r\n")
		return strings.HasSuffix(before, ":") || strings.HasSuffix(before, ",")
	}
	return false
}

// gap is the white space that a text begins with.
func gap(text string) string {
	return text[:len(text)-len(strings.TrimLeftFunc(text, unicode.IsSpace))]
}

// typedWord reports whether the principal typed the words, in any letter case.
func (l *ledger) typedWord(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.typed, func(text string) bool { return containsWord(strings.ToLower(text), strings.ToLower(words)) })
}

// choosing finds the served row that names a tool to use: of several the one that
// stands best.
func (l *ledger) choosing(tool string) (id memory.ID, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var rank memory.Rank
	for i := range l.served {
		r := l.rows[l.served[i].ID]
		if r.Content.Predicate == ChoicePredicate && r.Content.Object == tool && standing(&r) > rank {
			id, found, rank = r.ID, true, standing(&r)
		}
	}
	return id, found
}

// shown reports whether the run was shown the text of the row, and fit whether the row
// was verified when the run came to rest on it.
func (l *ledger) shown(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[id]
}

func (l *ledger) fit(id memory.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, have := l.rows[id]
	return have && standing(&r) > 0
}

// rowWith finds a served row that says exactly the value, under a predicate that may: of
// several the one that stands best, and of equals the newest.
func (l *ledger) rowWith(value string, may func(predicate string) bool) (best memory.Row, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.says[value]
	for i := len(all) - 1; i >= 0; i-- {
		if r := all[i].row; may(all[i].predicate) && (!found || standing(r) > standing(&best)) {
			best, found = *r, true
		}
	}
	return best, found
}

// standing orders rows by how far they can vouch, as they were read: 0 is a row that
// is not fit, and then the rank of its evidence. The gate reads it anew.
func standing(r *memory.Row) memory.Rank {
	if r.Truth != memory.TruthSupported || r.Security != memory.SecurityClean {
		return 0
	}
	return r.Rank
}

// written finds numbers as people write them: 1000, 1,000, 12.50.
var written = regexp.MustCompile(`[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?`)

// typedNumber reports whether the principal typed a number of this value. A
// currency sign beside it is fine; a letter, a digit or any other joining sign is
// not, so that 900 is not found in ACC-900 or in 1900.
func (l *ledger) typedNumber(n json.Number) bool {
	const currency = "$€£¥"
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.typed {
		for _, at := range written.FindAllStringIndex(text, -1) {
			before, after := strings.TrimRight(text[:at[0]], currency), strings.TrimLeft(text[at[1]:], currency+"%")
			if joined(lastRunes(before)) || joined(firstRunes(after)) {
				continue
			}
			got, ok := new(big.Rat).SetString(strings.ReplaceAll(text[at[0]:at[1]], ",", ""))
			if sign, _ := utf8.DecodeLastRuneInString(before); ok && (sign == '−' || unicode.Is(unicode.Pd, sign)) {
				got.Neg(got)
			}
			if ok && got.Cmp(want) == 0 {
				return true
			}
		}
	}
	return false
}

// rowWithNumber finds a served row that says a number of this value, as rowWith does.
func (l *ledger) rowWithNumber(n json.Number, may func(predicate string) bool) (best memory.Row, found bool) {
	want, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return memory.Row{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.served) - 1; i >= 0; i-- {
		r := l.rows[l.served[i].ID]
		if found && standing(&r) <= standing(&best) {
			continue
		}
		for _, f := range l.facts[r.ID] {
			if got, ok := number(f.object); ok && got.Cmp(want) == 0 && may(f.predicate) {
				best, found = r, true
				break
			}
		}
	}
	return best, found
}

// plainNumber is a number as a row holds one: a short exponent at most, since eight
// characters with a long one take longer to read than a page.
var plainNumber = regexp.MustCompile(`^[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?$`)

// number reads a text of a row as a number. The text is hostile.
func number(text string) (*big.Rat, bool) {
	if len(text) > maxNumber || !plainNumber.MatchString(text) {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// containsWord reports whether words occur in text with no letter, digit or
// joining sign on either side, so that "a@b.example" is not found in
// "xa@b.example" or "a@b.example.evil".
func containsWord(text, words string) bool {
	if words == "" {
		return false
	}
	for from := 0; ; {
		at := strings.Index(text[from:], words)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(words)
		if !joined(lastRunes(text[:start])) && !joined(firstRunes(text[end:])) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
}

// joined reports whether the rune next to a match, and the one beyond it, make
// the match a part of a longer token: a letter or digit, a sign that stands within
// addresses and paths, one that nobody sees, or any other sign with one of these behind. A
// quotation mark and a bracket that closes end a token.
func joined(next, beyond rune) bool {
	const within, ends = `_@/\#%&=~$€£`, `"”“„«»<>)]}` + "`"
	if next == 0 || next == utf8.RuneError {
		return false
	}
	word := func(r rune) bool {
		return r != 0 && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || unicode.Is(unicode.Cf, r) || strings.ContainsRune(within, r))
	}
	return word(next) || (unicode.IsPunct(next) || unicode.IsSymbol(next)) && !strings.ContainsRune(ends, next) && word(beyond)
}

func firstRunes(s string) (a, b rune) {
	a, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return 0, 0
	}
	if b, size = utf8.DecodeRuneInString(s[size:]); size == 0 {
		b = 0
	}
	return a, b
}

func lastRunes(s string) (a, b rune) {
	a, size := utf8.DecodeLastRuneInString(s)
	if size == 0 {
		return 0, 0
	}
	if b, size = utf8.DecodeLastRuneInString(s[:len(s)-size]); size == 0 {
		b = 0
	}
	return a, b
}
