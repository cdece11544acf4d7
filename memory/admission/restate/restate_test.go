package restate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCompareGivesTheReason(t *testing.T) {
	for _, c := range []struct {
		name, row, text string
		want            Relation
		reason          string
	}{
		{"equal text is the same", "User prefers Vim", "User  prefers Vim.", Same, reasonSame},
		{"composed and decomposed letters are the same", "Ren\u00e9 left", "Rene\u0301 left", Same, reasonSame},
		{"the article of the user is filler", "User prefers Vim", "The user prefers Vim", Restates, reasonRestates},
		{"number words are numbers", "The retry limit is 25", "The retry limit is twenty-five", Restates, reasonRestates},
		{"grouping commas are notation", "The fee is $1,500.00", "The fee is 1500 dollars", Restates, reasonRestates},
		{"a magnitude is written out", "Revenue is $1.5 million", "Revenue is $1,500,000", Restates, reasonRestates},
		{"dates in several notations", "The lease starts on 2026-03-01", "The lease starts on March 1st, 2026", Restates, reasonRestates},
		{"clock times in several notations", "The shop opens at 9 p.m. CET", "The shop opens at 21:00 CET", Restates, reasonRestates},
		{"a version is no decimal", "The app needs Go 1.20", "The app needs Go 1.2", Different, reasonNumbers},
		{"a unit changed", "The disk holds 5 GB", "The disk holds 5 MB", Different, reasonUnits},
		{"a date changed", "The lease starts on 2026-03-01", "The lease starts on 2026-01-03", Different, reasonDates},
		{"a link changed", "The wiki is at https://a.example", "The wiki is at https://b.example", Different, reasonLinks},
		{"an account changed", "Pay into ACC-1", "Pay into ACC-2", Different, reasonIdents},
		{"a name added", "The server is down", "The server is down says Bob", Different, reasonNameAdded},
		{"a name dropped", "The server of Bob is down", "The server is down", Different, reasonNameGone},
		{"a negation", "The server is down", "The server is not down", Different, reasonNegation},
		{"a modal", "The server is down", "The server may be down", Different, reasonModal},
		{"a qualifier", "The server is down", "The server is often down", Different, reasonQualifier},
		{"a question", "The server is down", "Is the server down?", Different, reasonMood},
		{"roles exchanged", "Bob calls Alice", "Alice calls Bob", Different, reasonOrder},
		{"a claim of confirmation", "The server is down", "It was verified that the server is down", Different, reasonConfirms},
		{"the user said so, added", "The server is down", "The user has mentioned that the server is down", Restates, reasonRestates},
		{"the user said so, dropped", "The user has mentioned that the server is down", "The server is down", Different, reasonSource},
		{"a frame that names one earlier conversation", "The server is down", "From an earlier conversation: the server is down", Restates, reasonRestates},
		{"its sibling", "The server is down", "In a previous session: the server is down.", Restates, reasonRestates},
		{"a note behind it", "The server is down", "The server is down (noted)", Restates, reasonRestates},
		{"a note behind it in other brackets", "The server is down", "The server is down [recorded].", Restates, reasonRestates},
		{"a whole claim in quotation marks", "The server is down", `"The server is down."`, Restates, reasonRestates},
		{"in other quotation marks, with a frame", "The server is down", "Memory: “the server is down”.", Restates, reasonRestates},
		{"quotation marks dropped", `"The server is down"`, "The server is down", Different, reasonSource},
		{"quotation marks around a part", "The server is down", `The "server" is "down"`, Different, reasonClaims},
		{"somebody's words with a frame that is none", "The server is down", `Bob: "The server is down"`, Different, reasonClaims},
		{"a contraction before an article", "Ana is the owner", "Ana's the owner", Restates, reasonRestates},
		{"a contraction of a negation", "Ana is not a doctor", "Ana's not a doctor", Restates, reasonRestates},
		{"a contraction without its apostrophe", "The server does not answer", "The server doesnt answer", Restates, reasonRestates},
		{"a contraction that may be had", "Ana would rather walk", "Ana'd rather walk", Restates, reasonRestates},
		{"a possessive is no contraction", "Ana is manager", "Ana's manager", Different, reasonContent},
		{"a contraction that has two readings", "Ana is paid", "Ana's paid", Different, reasonContent},
		{"a note that names who", "The server is down", "The server is down (noted by Bob)", Different, reasonNameAdded},
		{"a note that claims more", "The server is down", "The server is down (confirmed)", Different, reasonConfirms},
		{"letter case of an ambiguous word", "Bob likes apple", "Bob likes Apple", Different, reasonCase},
		{"letter case of an identifier", "The token is aB3x", "The token is Ab3x", Different, reasonIdents},
		{"a is not the", "Bob drives a truck", "Bob drives the truck", Different, reasonArticle},
		{"a category that is not implied", "User prefers Vim", "The user's preferred shell is Vim", Different, reasonCategory},
		{"a zero-width character", "User prefers Vim", "User prefers V\u200bim", Different, reasonOpaque},
		{"a bidirectional override", "User prefers Vim", "User prefers \u202eVim", Different, reasonOpaque},
		{"broken UTF-8", "User prefers Vim", "User prefers Vim\xff", Different, reasonOpaque},
		{"nothing", "", "...", Different, reasonEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := Compare(Of(c.row), Of(c.text))
			if v.Relation() != c.want || v.Reason() != c.reason {
				t.Errorf("Compare(%q, %q) = %s (%s), want %s (%s)", c.row, c.text, v.Relation(), v.Reason(), c.want, c.reason)
			}
		})
	}
}

func TestLookalikeLettersDoNotMerge(t *testing.T) {
	for _, text := range []string{
		"User prefers V\u0456m", // Cyrillic i
		"User prefers \u2164im", // Roman numeral five
		"User prefers \uff36im", // full-width V
		"User prefers Vi\u0301m",
	} {
		if v := Compare(Of("User prefers Vim"), Of(text)); v.Merges() {
			t.Errorf("%+q merged", text)
		}
	}
}

func TestZeroValuesAreDifferent(t *testing.T) {
	if v := Compare(Statement{}, Statement{}); v.Merges() || v != (Verdict{}) {
		t.Errorf("zero statements: %v", v)
	}
	if v := Compare(Statement{}, Of("")); v.Merges() {
		t.Errorf("zero statement and empty text: %v", v)
	}
	if (Verdict{}).Merges() || (Verdict{}).Reason() == "" {
		t.Error("the zero verdict is not the safe one")
	}
}

func TestLongTextMatchesOnlyItself(t *testing.T) {
	long := strings.Repeat("the user prefers Vim and ", 100)
	if v := Compare(Of(long), Of(long)); v.Relation() != Same {
		t.Errorf("equal long text: %v", v)
	}
	if v := Compare(Of(long), Of("The "+long)); v.Reason() != reasonTooLong {
		t.Errorf("long text: %v", v)
	}
}

// Rewordings by template of a plain preference, with things the categories know
// and things they do not.
func TestTemplateRewordingsOfPreferences(t *testing.T) {
	type fact struct{ subject, object, category string }
	facts := []fact{
		{"user", "Vim", "editor"}, {"user", "Emacs", "text editor"}, {"operator", "Telegram", "messenger"}, {"user", "Firefox", "browser"},
		{"customer", "Zorblax", "choice"}, {"user", "PostgreSQL", "database"}, {"user", "tea", "drink"}, {"user", "Rust", "programming language"},
	}
	templates := []string{
		"%[1]s prefers %[2]s", "The %[1]s favors %[2]s.", "The %[1]s has a preference for %[2]s.", "%[2]s is preferred by the %[1]s.",
		"The %[1]s's preferred %[3]s is %[2]s.", "%[2]s is the %[1]s's preferred %[3]s.", "The %[1]s's favorite %[3]s is %[2]s",
		"%[2]s is the %[1]s's favourite %[3]s.", "The %[1]s's %[3]s of choice is %[2]s.", "The %[1]s's go-to %[3]s is %[2]s.",
		"The %[1]s prefers %[2]s as their %[3]s.", "The %[1]s prefers %[2]s as %[3]s.", "The %[1]s prefers using %[2]s.",
		"The %[1]s prefers to use %[2]s.", "The %[1]s likes %[2]s best.", "%[2]s is what the %[1]s prefers.",
		"The %[3]s the %[1]s prefers is %[2]s.", "As noted earlier, the %[1]s prefers %[2]s.", "Remember: the %[1]s prefers %[2]s.",
		"The user has mentioned that the %[1]s prefers %[2]s.", "Note: %[1]s prefers %[2]s", "According to memory, the %[1]s's preferred %[3]s is %[2]s.",
	}
	n, merged := 0, 0
	for _, f := range facts {
		row := Of("The " + f.subject + " prefers " + f.object)
		for _, tmpl := range templates {
			text := fmt.Sprintf(tmpl, f.subject, f.object, f.category)
			n++
			if v := Compare(row, Of(text)); v.Merges() {
				merged++
			} else {
				t.Logf("%q: %s", text, v.Reason())
			}
		}
	}
	t.Logf("%d of %d template rewordings recognised", merged, n)
	if n == 0 || merged*100 < 95*n {
		t.Errorf("%d of %d template rewordings recognised, want 95 %%", merged, n)
	}
}

// rows gives every text of the corpus.
func rows(t *testing.T) []string {
	var out []string
	for _, f := range []string{"testdata/restatements.txt", "testdata/nearmisses.txt", "testdata/heldout.txt"} {
		for _, p := range corpus(t, f) {
			out = append(out, p.row, p.text)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) < 500 {
		t.Fatalf("only %d texts", len(out))
	}
	return out
}

// Every word of every text of the corpus is a place to put one more, and none
// of these may pass in either direction.
func TestInsertedWordIsNeverMerged(t *testing.T) {
	n := 0
	for _, row := range rows(t) {
		a, words := Of(row), strings.Fields(row)
		for i := range len(words) + 1 {
			for _, w := range []string{"not", "never", "no", "without", "only", "Zorblax", "Bob", "42", "$5", "probably", "formerly", "unless", "confirmed"} {
				text := strings.Join(slices.Insert(slices.Clone(words), i, w), " ")
				b := Of(text)
				n++
				if Compare(a, b).Merges() || Compare(b, a).Merges() {
					t.Errorf("%q merged with %q", text, row)
				}
			}
		}
	}
	t.Logf("%d insertions", n)
}

func TestPropertiesOfCompare(t *testing.T) {
	texts := rows(t)
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.OneOf(rapid.SampledFrom(texts), rapid.String()).Draw(t, "row")
		a := Of(row)
		if v := Compare(a, Of(row)); v.Relation() != Same {
			t.Fatalf("%q is not the same as itself: %s", row, v.Reason())
		}
		other := rapid.OneOf(rapid.SampledFrom(texts), rapid.String()).Draw(t, "other")
		b := Of(other)
		v, w := Compare(a, b), Compare(b, a)
		if v.Merges() != w.Merges() && v.Reason() != reasonSource && w.Reason() != reasonSource && v.Reason() != reasonConfirms && w.Reason() != reasonConfirms {
			t.Fatalf("Compare(%q, %q) = %s, exchanged %s", row, other, v.Reason(), w.Reason())
		}

		// One digit changed.
		if i := strings.IndexAny(row, "0123456789"); i >= 0 {
			d := byte('0' + rapid.IntRange(1, 9).Draw(t, "digit"))
			if d != row[i] {
				changed := row[:i] + string(d) + row[i+1:]
				if v := Compare(a, Of(changed)); v.Merges() {
					t.Fatalf("%q merged with %q", changed, row)
				}
			}
		}
		// A capitalised unknown word added.
		words := strings.Fields(row)
		i := rapid.IntRange(0, len(words)).Draw(t, "at")
		name := rapid.StringMatching(`[A-Z][a-z]{2,8}q`).Draw(t, "name")
		added := strings.Join(slices.Insert(words, i, name), " ")
		if v := Compare(a, Of(added)); v.Merges() {
			t.Fatalf("%q merged with %q", added, row)
		}
	})
}

// typedOf gives what FuzzCompare holds against a verdict, read from the text by
// the scanner alone.
func typedOf(text string) (names, links []string, negated int) {
	toks, _ := unframe(scan(canonical(text)))
	for i, t := range toks {
		switch {
		case denies(toks, i):
			negated++
		case t.kind == link:
			links = append(links, t.key)
		case t.kind == name:
			names = append(names, strings.ToLower(t.key))
		}
	}
	slices.Sort(names)
	slices.Sort(links)
	return names, links, negated
}

// inLexicon reports a word that stands in one of the tables.
func inLexicon(w string) bool {
	if lexicon == nil {
		lexicon = union(caseless, structural, kin, ownAttributes, elided, qualifiers, modals)
		walk(rewriteTrie)
		walk(frameTrie)
		for _, m := range []map[string]string{timeUnits, units, weekdays, frequencies, frequencyAdverbs, boundWords} {
			for k := range m {
				lexicon[strings.ToLower(k)] = true
			}
		}
		for _, m := range []map[string]int{months, numberWords, ordinalWords, magnitudes} {
			for k := range m {
				lexicon[k] = true
			}
		}
		for k, verb := range participles {
			lexicon[k], lexicon[verb.base], lexicon[verb.third], lexicon[verb.past] = true, true, true, true
		}
		for _, line := range allShapes {
			for _, e := range slices.Concat(line.pattern, line.out) {
				lexicon[e.lit] = true
			}
		}
		for _, cs := range categories {
			for c := range cs {
				lexicon[c] = true
			}
		}
	}
	return lexicon[w] || lexicon[strings.TrimSuffix(w, "s")] || zones[strings.ToUpper(w)] || contractions[w] != nil || hyphenated[w] != ""
}

var lexicon map[string]bool

func walk(t *trie) {
	for w, n := range t.next {
		lexicon[w] = true
		walk(n)
	}
}

func FuzzCompare(f *testing.F) {
	for _, s := range [][2]string{
		{"User prefers Vim", "The user's preferred editor is Vim."}, {"a", "b"}, {"", "\xff"}, {"The fee is $1,500", "The fee is 1500 dollars"},
		{"Bob is managed by Alice", "Alice manages Bob"}, {"x 's name is y", "y : z = 's 's of of"}, {"\"a b", "'a' b\""}, {"1,2.3:4", "-$5 -5 5% 5th"},
		{"On Mondays, the standup is at 9 am", "The standup is at 9:00 AM every Monday"}, {"As noted earlier, (recalled)", "they 's is"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, row, text string) {
		a, b := Of(row), Of(text)
		if Compare(a, a).Relation() != Same {
			t.Fatalf("%q differs from itself", row)
		}
		if Compare(a, b).Relation() != Restates {
			return
		}
		if !slices.Equal(a.typed, b.typed) {
			t.Fatalf("%q restates %q with typed %q, %q", text, row, a.typed, b.typed)
		}
		an, al, ap := typedOf(row)
		bn, bl, bp := typedOf(text)
		if !slices.Equal(al, bl) {
			t.Fatalf("%q restates %q with links %q, %q", text, row, al, bl)
		}
		if ap != bp {
			t.Fatalf("%q restates %q with %d and %d negations", text, row, ap, bp)
		}
		// A name of one must at least stand in the other: at the head of a
		// sentence, or for a name of the lexicon, a capital tells nothing.
		for _, p := range []struct {
			names []string
			text  string
		}{{an, text}, {bn, row}} {
			for _, n := range p.names {
				if !inLexicon(n) && !strings.Contains(strings.ToLower(p.text), n) {
					t.Fatalf("%q restates %q without the name %q", text, row, n)
				}
			}
		}
	})
}

func BenchmarkOf(b *testing.B) {
	for b.Loop() {
		Of("As noted earlier, the user's preferred text editor is Vim.")
	}
}

func BenchmarkOfPlain(b *testing.B) {
	for b.Loop() {
		Of("Refunds over $500 for customers in the production region must be approved by a manager within 3 days.")
	}
}

func BenchmarkOfHostile(b *testing.B) {
	for name, text := range map[string]string{
		"possessives": strings.Repeat("a's ", 20) + "is " + strings.Repeat("b of c's ", 8) + "is d",
		"frames":      strings.Repeat("note: as noted earlier, ", 80),
		"numbers":     strings.Repeat("one hundred and ", 120),
		"quotes":      strings.Repeat("\"a b\" ", 320),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Of(text)
			}
		})
	}
}

func BenchmarkCompare(b *testing.B) {
	x, y := Of("The user prefers Vim"), Of("As noted earlier, the user's preferred text editor is Vim.")
	for b.Loop() {
		Compare(x, y)
	}
}

func BenchmarkCompareDifferent(b *testing.B) {
	x, y := Of("Refunds over $500 must be approved by a manager within 3 days"), Of("The user's preferred text editor is Vim.")
	for b.Loop() {
		Compare(x, y)
	}
}

func TestNegations(t *testing.T) {
	for text, want := range map[string]int{
		"I like football": 0, "I do not like football": 1, "She doesn't like it": 1, "She doesn’t like it": 1, "they dont": 1, "it cannot be": 1, "never again": 1, "without sugar": 1, "no less than five": 0,
		"my order no 7": 0, "order no A-4711": 0, "I have no 5 star hotel": 1, "I want no more newsletters": 1, "not more than 5": 0, "No, my editor is Emacs": 0, "no sugar": 1, "I do not like it, and never did": 2, "": 0, "a knot": 0,
		"ich mag das nicht": 1, "je ne sais pas": 2, "no me gusta": 1, "não gosto": 1, "он не любит": 1,
		"She doesn`t like it": 1, "doesn´t": 1, "doesn′t": 1, "I do _not_ like it": 1, "does **not**": 1, "I like_football": 0,
		"No. My editor is Emacs": 0, "No... sugar in my tea": 1, "No.. Sugar": 1, "No! sugar": 1, "No. 5 Main Street": 1, "No.": 1,
		`"I don't like football"`: 1, "'cause I don't like it": 1, "'I don't'": 1, "I do'nt like it": 1, "I don;t like it": 1, "I don' t": 1, "I don t": 1, "I don-t": 1, "I don&#39;t": 1, "I do n o t": 1, "I do n_o_t": 1, "I do <b>not</b>": 1, "I do ｎｏｔ": 1, "I do 𝐧𝐨𝐭": 1, "I do |not|": 1,
		"My account_no is 5512": 0, "not_before is 2026-01-01": 0, "it is_not_null": 0, "no. football for me": 1, "No. one here": 1, "No.\nfootball": 1, "don the hat": 0, "a note to all": 0,
		"not…like": 1, "not...like": 1, "not,like": 1, "not.like": 1, "-not-": 1, "not/never": 2, "I do not&nbsp;like it": 1, "‹not›": 1, "「not」": 1, "not-like": 1, "I do +not+ like it": 1,
		"I don&#039;t": 1, "I don&#x27;t": 1, "I don&rsquo;t": 1, "I don&#8217;t": 1, "I donâ€™t": 1, "a well-known knot-maker": 0, "ana@acme.example/path?q=1": 0, "3.5, 4-5": 0,
		"I don‛t": 1, "I don❜t": 1, "I like the dogs' house": 0, "“I do not”": 1, "I ☹ football": 1, "football ❎": 1,
		"no! It is Emacs": 0, "No way. It is Emacs": 1, "I said no. It is Emacs": 1, "I ❤️ football": 0, "my family 👨‍👩‍👧 likes it": 0, "👍🏽 yes": 0, "football 👎🏽": 1, "football ❌": 1, "👩‍💻 by day": 0,
	} {
		if got, legible := Negations(text); got != want || !legible {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	if _, legible := Negations("I do n\u200bot"); legible {
		t.Error("of what nobody sees it is known what it denies")
	}
	for _, text := range []string{"I do n\u200dot ❤\ufe0f", "I do n\xffot like it", "I like it ✖\ufe0f", "I ☹\ufe0f it", "🤷‍♀\ufe0f it", "🏴‍☠\ufe0f", "I do \u2800not\ufe0f", "ⓝⓞⓣ\ufe0f", "I do n❤\ufe0fot like it", "I do no☀t like it",
		"likes ~~not~~", "I do n̶o̶t̶", "~~I like it~~", "I <del>like</del> it", "<s>I like it</s>", "I l̶ike it", "I ≠ it", "likes != it", "likes <> it"} {
		if _, legible := Negations(text); legible {
			t.Errorf("of %q it is known what it denies", text)
		}
	}
	long := strings.Repeat("word ", 1000) + "not"
	if n, _ := Negations(long); n != 1 {
		t.Error("not of a long text")
	}
}

// A word that only begins like a negation, or holds one between marks, denies nothing; a word
// with a mark beside it, or of another language or alphabet, does.
func TestNegationsWithinWordsAndInOtherLetters(t *testing.T) {
	for text, want := range map[string]int{
		"I work for a non-profit in Oslo": 0, "a not-for-profit": 0, "NOT-FOR-PROFITS": 0, "a no-frills flight": 0, "I fly non-stop to Oslo": 0, "a non‑stop flight": 0,
		"a non-smoking flat": 0, "a no-brainer": 0, "non-fiction": 0, "it is not non-stop": 1, "not-non-stop": 1, "non-stop-not": 1, "it is non stop": 1,
		"I am a non-member": 1, "a no-fan": 1, "no-longer": 1, "no-one": 1, "not-like": 1, "not- Oslo": 1, "not/ Oslo": 1, "not.Oslo": 1, "not -Oslo": 1, "no- frills": 1, "no--frills": 1,
		"https://no.wikipedia.org": 0, "see https://acme.no/no/a": 0, "see www.acme.no": 0, "https://acme.example/not/a": 1, "https://acme.example, not it": 1, "https://acme.example...no": 1, "no.wikipedia.org": 1,
		"yes/no questions": 0, "a yes-no question": 0, "football yes/no": 1, "yes/no or not questions": 2, "https://acme.example/no-way": 1, "https://acme.example/no?q=not": 1,
		"Oslo-No 5": 0, "Oslo-No. 5": 0, "Oslo-no 5 of them": 1, "Oslo-No Bergen": 1, "Oslo No 5": 1,
		"I don&amp;#39;t live in Oslo": 1, "I don&amp;amp;#39;t": 1, "I do &#10060; it": 1, "I &#10084;&#65039; it": 0, "Q&A, R&amp;D": 0,
		"I do ɴᴏᴛ": 1, "ᴅᴏɴ'ᴛ": 1, "I do 🅽🅾🆃": 1, "I do 🅝🅞🅣": 1, "I do 🄽🄾🅃": 1, "🅰 and 🅱": 0,
		"I do nót": 1, "I do nøt": 1, "NÓT": 1, "I dón't": 1, "I dø nèver": 1, "wróng": 1, "I do 'nót'": 1, "n̈ot": 1, "l'été": 0, "I do nоt": 1, "I do nοt": 1, "en nød": 0, "пот": 0, "Zoë lives in Århus": 0, "naïve": 0, "β-carotene, 5 µm": 0,
		"jeg bor ikke": 1, "nein": 1, "Nein, Oslo": 0, "Nein. Es ist Oslo": 0, "Όχι, Οσλο": 0, "δεν μένω": 1, "ΔΕΝ": 1, "ΟΧΙ": 1, "όχι Οσλο": 1, "Oslo değil": 1, "OSLO DEĞİL": 1, "मैं नहीं रहता": 1, "मैं ओस्लो में नहीं।": 1,
		"لا أسكن": 1, "ليس هنا": 1, "オスロに住んでいない": 1, "住んでいません": 1, "住んでいなかった": 1, "의사가 아닙니다": 1, "안 살아요": 1, "집 안에 살아요": 0, "Oslolu değilim": 1, "ليست هنا": 1, "لست هنا": 1, "Oslolu değiliz": 1, "못 살아요": 1, "I wónt": 1, "I cánnot": 1, "我不住在奥斯陆": 1, "我没有": 1, "我沒有": 1, "并非": 1, "살지 않아요": 1, "아니요": 1,
		"私はオスロに住んでいます": 0, "我住在奥斯陆": 0, "서울에 살아요": 0, "أسكن في أوسلو": 0, "मैं ओस्लो में रहता हूँ": 0, "Oslo'da oturuyorum": 0, "μένω στο Όσλο": 0,
		"I like football ⚽️": 0, "⚽️ I do not": 1, "ich wohne nich in Oslo": 1, "weder Oslo": 1, "nadie vive en Oslo": 1, "Nao moro em Oslo": 1, "I donot live in Oslo": 1, "☓ Oslo": 1, "I do nσt": 1, "I do ոot": 1, "I do ɳot": 1,
		"My nie is X1234567L": 1, "Send to Mai": 1, "The PAS station": 1, "我非常喜欢": 1, "jag äter nöt": 1, // the limits
	} {
		if got, legible := Negations(text); got != want || !legible {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
	for text, legible := range map[string]bool{
		"I <del datetime=1>live</del>": false, "I <strike class=x>live": false, "<s >I live": false, "<DEL class=x>": false, "<s/>": false, "live</s>": false, "<del\nclass=x>": false, "I &amp;lt;del&amp;gt;live": false,
		"<span>I live</span>": true, "<strong>I live</strong>": true, "<small >": true, "a<sum": true,
		"I =/= it": false, "I /= it": false, "I ≢ it": false, "I ¬ it": false, "Oslo ∉ mine": false, "Oslo\u20e0": false, "a = b": true, "a/b = c": true, "ø, ł, đ": true,
		"I do n&#8203;ot": false, "I do n&amp;shy;ot": false, "&amp;amp;amp;amp;amp;lt;": false,
	} {
		if _, got := Negations(text); got != legible {
			t.Errorf("it is known what %q denies: %t", text, got)
		}
	}
}
