package verifier_test

import (
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

const (
	same      = verifier.MatchSame
	different = verifier.MatchDifferent
	unknown   = verifier.MatchUnknown
)

func TestValuesAreComparedByType(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want verifier.Match
	}{
		// text
		{"Berlin", " berlin ", unknown}, {"Berlin", "Paris", different}, {"Paris", "Paris, France", unknown},
		{"Smith, John", "John Smith", unknown}, {"approved", "not approved", unknown}, {"DE89 3704", "DE893704", unknown},
		{"bob@X.org", "bob@x.org", unknown}, {"caf\u00e9", "cafe\u0301", same}, {"Ber\u200blin", "berlin", unknown}, {"Ber\u200blin", "Ber\u200blin", same},
		{"the the cat", "the cat cat", different}, {"+", "-", unknown}, {"Lyon", "", unknown},
		// numbers
		{"1,000 km", "1000km", same}, {"1 000 km", "1000 km", same}, {"1\u202f000 km", "1,000 km", same}, {"1'000", "1000", same},
		{"1000 km", "999 km", different}, {"1000 km", "621 mi", unknown}, {"1000 km", "1000 KM", unknown}, {"1000 km", "1000", unknown},
		{"5 Mg", "5 mg", unknown}, {"5 MW", "5 mW", unknown}, {"€5", "5 EUR", same}, {"EUR 5", "5€", same}, {"$5", "5 USD", unknown}, {"-5 %", "\u22125%", same},
		{"5 %", "5 percent", same}, {"+5", "5", same}, {"-5", "5", different}, {"-$5", "$-5", same}, {"5 \u00b5m", "5 \u03bcm", same},
		{"1.5", "1,5", same}, {"1.234,56", "1,234.56", same}, {"1,234,567", "1234567", same},
		{"1.000", "1000", unknown}, {"1,000", "1", unknown}, {"1,000", "2,000", different}, {"0,125", "0.125", same},
		{"1.10", "1.1", unknown}, {"1.10 EUR", "1.1 EUR", unknown}, {"1e3", "1000", unknown}, {"1e3", "1e3", same}, {"1e3", "2000", different}, {"1e999", "2e999", different},
		{"1e9999", "2e9999", different /* as text */}, {"0.1", "0.10000000000000001", unknown}, {"9007199254740993", "9007199254740992", different},
		{"007", "7", unknown}, {"007", "008", different}, {"1.2.3", "1.2.4", different}, {"192.168.100.200", "192168100200", unknown},
		{"+49 30 1234", "49301234", unknown}, {"five", "5", unknown}, {"5", "five", unknown}, {"10\u200b00", "1000", unknown}, {"$5 EUR", "5 EUR", unknown},
		// truth
		{"yes", "True", same}, {"no", "true", different}, {"yes", "1", unknown}, {"yes", "perhaps", unknown},
		// dates
		{"2026-03-14", "14 March 2026", same}, {"2026-03-14", "Mar 14, 2026", same}, {"2026/03/14", "14.03.2026", same},
		{"March 14th, 2026", "14. March 2026", same}, {"2026-03-14", "Saturday, 14 March 2026", same}, {"2026-03-14", "14/03/2026", same},
		{"2026-03-14", "2026-03-15", different}, {"2026-03-04", "03/04/2026", unknown}, {"2026-03-04", "05/06/2026", different}, {"04/04/2026", "2026-04-04", same},
		{"03/04/2026", "04/03/2026", unknown}, {"2026-03", "2026-03-14", unknown}, {"2026-03", "2026-04-14", different}, {"March 2026", "2026-03", same},
		{"2026-03-14T10:00:00Z", "2026-03-14T11:00:00+01:00", same}, {"2026-03-14T10:00:00Z", "Sat, 14 Mar 2026 10:00:00 GMT", same},
		{"2026-03-14T10:00:00Z", "2026-03-14T10:00:00.000Z", same}, {"2026-03-14T10:00:00Z", "2026-03-14T12:00:00Z", different},
		{"2026-03-14T23:30:00Z", "2026-03-15", unknown}, {"2026-03-14", "2026-03-15T23:30:00Z", different}, {"2026-03-14", "2026-03-15T10:00:00Z", unknown},
		{"2026-03-14 10:00", "2026-03-14T10:00", same}, {"2026-03-14 10:00", "2026-03-14 11:00", different},
		{"2026-03-14", "next Tuesday", unknown}, {"2026", "2026-03-14", unknown}, {"2026-02-30", "2026-03-02", unknown},
	} {
		if got := verifier.CompareByType(c.a, c.b); got != c.want {
			t.Errorf("%q and %q are %v, want %v", c.a, c.b, got, c.want)
		}
		if got := verifier.CompareByType(c.b, c.a); got != c.want {
			t.Errorf("%q and %q are %v the other way round, want %v", c.a, c.b, got, c.want)
		}
	}
}

func TestAComparisonChosenForThePredicate(t *testing.T) {
	for _, c := range []struct {
		name    string
		compare verifier.Compare
		a, b    string
		want    verifier.Match
	}{
		{"number", verifier.CompareNumber, "1.10 EUR", "1.1 EUR", same},
		{"number", verifier.CompareNumber, "1e3", "1000", same},
		{"number", verifier.CompareNumber, "1.5", "1.6", different},
		{"number", verifier.CompareNumber, "five", "five", unknown},
		{"date", verifier.CompareDate, "2026-03-14", "14 March 2026", same},
		{"date", verifier.CompareDate, "soon", "soon", unknown},
		{"date", verifier.CompareDate, "2026-03-14", strings.Repeat("9", 100), unknown},
		{"exact", verifier.CompareExact, "approved", "not approved", different},
		{"exact", verifier.CompareExact, "Approved", "approved", unknown},
		{"set", verifier.CompareSet, "red, green", "green, red, green", same},
		{"set", verifier.CompareSet, `["red","green"]`, "green; red", same},
		{"set", verifier.CompareSet, "1,000; 2,000", "2000; 1000", same},
		{"set", verifier.CompareSet, "red, green", "red", different},
		{"set", verifier.CompareSet, "red", "red, green", different},
		{"set", verifier.CompareSet, "Paris, Rome", "Rome, Paris (France)", unknown},
		{"set", verifier.CompareSet, `["red"`, "red", unknown},
		{"set", verifier.CompareSet, "", "red", unknown},
		{"set", verifier.CompareSet, strings.Repeat("a,", 300), "a", unknown},
	} {
		if got := c.compare(c.a, c.b); got != c.want {
			t.Errorf("as %s, %q and %q are %v, want %v", c.name, c.a, c.b, got, c.want)
		}
		if got := c.compare(c.b, c.a); got != c.want {
			t.Errorf("as %s, %q and %q are %v the other way round, want %v", c.name, c.a, c.b, got, c.want)
		}
	}
}

// TestASpellingThatTheSourceDoesNotHaveIsNotVerified: a path, a user or a branch that
// differs in letter case or in blanks is another one. Only what is declared to be prose
// may be spelled otherwise.
func TestASpellingThatTheSourceDoesNotHaveIsNotVerified(t *testing.T) {
	for _, s := range [...][2]string{
		{"Evil", "evil"}, {" a", "a"}, {"a ", "a"}, {"a  b", "a b"}, {"a\u00a0b", "a b"}, {"a\tb", "a b"}, {"a\nb", "a b"}, {"a\u3000b", "a b"},
		{"Main", "main"}, {"Billing address", "billing Address"}, {"\u00c9mile", "\u00e9mile"},
	} {
		for name, c := range map[string]struct {
			compare verifier.Compare
			want    verifier.Match
		}{
			"type": {verifier.CompareByType, unknown}, "exact": {verifier.CompareExact, unknown}, "text": {verifier.CompareText, same},
		} {
			if got, back := c.compare(s[0], s[1]), c.compare(s[1], s[0]); got != c.want || back != c.want {
				t.Errorf("%s: %q and %q are %v and %v, want %v", name, s[0], s[1], got, back, c.want)
			}
		}
		if got := verifier.CompareSet(s[0]+"; x", "x; "+strings.TrimSpace(s[1])); got == same && strings.TrimSpace(s[0]) != s[1] {
			t.Errorf("as a set, %q and %q are %v", s[0], s[1], got)
		}
	}
	for _, compare := range []verifier.Compare{verifier.CompareByType, verifier.CompareExact} {
		if got := compare("caf\u00e9 Evil", "cafe\u0301 Evil"); got != same {
			t.Errorf("two ways to write the same letters are %v", got)
		}
	}
	if got := verifier.CompareByType("1 000 km ", "1000 km"); got != same {
		t.Errorf("an amount is compared by what it means: %v", got)
	}
}

// What is verified is handed on as the claimant spelled it, so a spelling that the
// source does not have is never the same.
func TestAValueWithHiddenCharactersIsTheSameAsNoOtherSpelling(t *testing.T) {
	tags := "\U000e0062\U000e0063\U000e0063" // "bcc", as tag characters
	for _, c := range []struct {
		name    string
		compare verifier.Compare
		a, b    string
		want    verifier.Match
	}{
		{"an address with an instruction in tag characters", verifier.CompareText, "billing@acme.example" + tags, "billing@acme.example", unknown},
		{"one with a zero-width space inside", verifier.CompareText, "billing@ac\u200bme.example", "billing@acme.example", unknown},
		{"one with a right-to-left override in front", verifier.CompareText, "\u202ebilling@acme.example", "billing@acme.example", unknown},
		{"one with a control character", verifier.CompareText, "billing@acme.example\x08", "billing@acme.example", unknown},
		{"one with variation selectors behind", verifier.CompareByType, "billing@acme.example\ufe00\U000e0101", "billing@acme.example", unknown},
		{"an identifier", verifier.CompareExact, "DE89\u2060", "DE89", unknown},
		{"one that differs beside", verifier.CompareExact, "DE89\u2060", "DE90", different},
		{"a date", verifier.CompareByType, "2026-03-14\u200b", "2026-03-14", unknown},
		{"a truth", verifier.CompareByType, "tr\u00adue", "yes", unknown},
		{"a set with a hidden item", verifier.CompareSet, "red; \u200b\u200b", "red", unknown},
		{"a set with one in an escape", verifier.CompareSet, `["red","\u200b"]`, "red", unknown},
		{"a set whose item hides some", verifier.CompareSet, "red\u200b, green", "green, red", unknown},
		{"a source that spells it so itself", verifier.CompareText, "می\u200cخواهم", "می\u200cخواهم", same},
	} {
		if got, back := c.compare(c.a, c.b), c.compare(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%s: %v and %v, want %v", c.name, got, back, c.want)
		}
	}
}

// Whatever is hidden in a value, wherever it stands: no comparison takes it for one
// that is spelled otherwise.
func TestNoComparisonSeesThroughHiddenCharacters(t *testing.T) {
	hidden := []rune{'\u200b', '\u200d', '\u2060', '\u202e', '\u2066', '\u00ad', '\ufeff', '\ufe0f', '\U000e0041', '\U000e0101', '\u034f', '\x00', '\x1b', '\u009b', '\u3164'}
	values := []string{"billing@acme.example", "1,000 km", "5 EUR", "2026-03-14", "true", "red, green", `["red","green"]`, "Berlin", "+49 30 1234", "5"}
	all := []verifier.Compare{verifier.CompareByType, verifier.CompareText, verifier.CompareExact, verifier.CompareNumber, verifier.CompareDate, verifier.CompareSet}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.SampledFrom(values).Draw(t, "value")
		at := rapid.IntRange(0, len(value)).Draw(t, "at")
		spelled := value[:at] + string(rapid.SliceOfN(rapid.SampledFrom(hidden), 1, 4).Draw(t, "hidden")) + value[at:]
		for i, compare := range all {
			if compare(spelled, value) == same || compare(value, spelled) == same {
				t.Fatalf("comparison %d takes %q for %q", i, spelled, value)
			}
		}
	})
}

func TestAnUnknownMatchIsTheZeroOne(t *testing.T) {
	var zero verifier.Match
	if zero != unknown || zero.String() != "unknown" || same.String() != "same" || different.String() != "different" {
		t.Error("a match is misnamed")
	}
}

// An amount that is written in groups is the amount, whatever it is.
func TestGroupingNeverChangesAnAmount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<60).Draw(t, "n")
		plain := big.NewInt(n).String()
		grouped := plain
		for i := len(grouped) - 3; i > 0; i -= 3 {
			grouped = grouped[:i] + "," + grouped[i:]
		}
		if got := verifier.CompareByType(grouped+" km", plain+"km"); got != same {
			t.Fatalf("%s and %s are %v", grouped, plain, got)
		}
		if got := verifier.CompareByType(grouped, big.NewInt(n+1).String()); got == same {
			t.Fatalf("%s is not %d", grouped, n+1)
		}
	})
}

func FuzzCompare(f *testing.F) {
	for _, s := range [...][2]string{
		{"1,000 km", "1000km"}, {"2026-03-14", "14 March 2026"}, {"red, green", "[\"green\",\"red\"]"}, {"Paris", "Paris, France"},
		{"1e999", "-$5"}, {"0.30000000000000004", "0.3"}, {"yes", "no"}, {"\xff", "\u200b"}, {"03/04/2026", "2026-03-04T10:00:00+14:00"},
	} {
		f.Add(s[0], s[1])
	}
	all := map[string]verifier.Compare{
		"type": verifier.CompareByType, "text": verifier.CompareText, "exact": verifier.CompareExact,
		"number": verifier.CompareNumber, "date": verifier.CompareDate, "set": verifier.CompareSet,
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a) > memory.MaxField || len(b) > memory.MaxField {
			return
		}
		for name, compare := range all {
			got := compare(a, b)
			if back := compare(b, a); back != got {
				t.Errorf("%s: %q and %q are %v one way and %v the other", name, a, b, got, back)
			}
			if self := compare(a, a); self == different {
				t.Errorf("%s: %q differs from itself", name, a)
			}
			// Two spellings of one claim are never a contradiction (I-9).
			if got == different && memory.Canonical(a) == memory.Canonical(b) {
				t.Errorf("%s: %q and %q are one claim and differ", name, a, b)
			}
		}
	})
}
