package verifier

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/hearsay-go/hearsay/memory"
)

// Match is how two values compare.
type Match uint8

// The matches. The zero value decides nothing.
const (
	MatchUnknown   Match = iota // they cannot be compared, or may be the same in other words
	MatchSame                   // they mean the same
	MatchDifferent              // they cannot mean the same
)

// String returns the name in lower case.
func (m Match) String() string {
	switch m {
	case MatchSame:
		return "same"
	case MatchDifferent:
		return "different"
	default:
		return "unknown"
	}
}

// Compare compares the claimed value with an observed one. It is pure, safe for
// concurrent use, symmetric, and answers [MatchUnknown] when in doubt.
//
// What is verified is the claim as it is spelled, and it is handed on so: "/srv/Data" and
// "/srv/data" are two files. Words that differ in letter case or in blanks alone are
// therefore unknown, but to [CompareText]; numbers, dates and truths are compared by what
// they mean. A value with characters that memory.Canonical drops is the same as one that
// is spelled exactly alike only; else, what would be the same is unknown. Every comparison
// of this package keeps the last, and [NewTool] sees to it for any other.
type Compare func(claimed, observed string) Match

// spelled takes back that two values are the same, if one of them hides characters
// that the other does not have.
func spelled(m Match, claimed, observed string) Match {
	if m == MatchSame && claimed != observed && (memory.Hides(claimed) || memory.Hides(observed)) {
		return MatchUnknown
	}
	return m
}

// spelling is a comparison that keeps to the spelling.
func (c Compare) spelling() Compare {
	return func(claimed, observed string) Match { return spelled(c(claimed, observed), claimed, observed) }
}

// CompareByType compares by what both values look like: dates as [CompareDate],
// numbers as [CompareNumber], true and false (or yes and no) as such, all else as
// [CompareText] but by its exact spelling: what CompareText takes for the same in other
// blanks or another letter case is unknown. Values of different kinds are unknown:
// "five" may be "5".
//
// It does not know whether a number counts something or names a version, so
// "1.10" and "1.1" are unknown to it, and "1e3" and "1000"; CompareNumber, chosen
// for the predicate, takes them for the same.
func CompareByType(claimed, observed string) Match {
	return compareTyped(read(claimed), read(observed))
}

// typed is a value, and what it looks like.
type typed struct {
	text      string
	canonical string
	words     []string // of a text
	kind      kind
	dates     []span
	num       number
	truth     bool
}

type kind uint8

const (
	kindText kind = iota
	kindDate
	kindNumber
	kindTruth
)

func read(s string) typed {
	v := typed{text: s, canonical: memory.Canonical(s)}
	if v.dates = dates(s); v.dates != nil {
		v.kind = kindDate
		return v
	}
	var ok bool
	if v.num, ok = parseNumber(s); ok {
		v.kind = kindNumber
	} else if v.truth, ok = truths[v.canonical]; ok {
		v.kind = kindTruth
	} else {
		v.words = words(v.canonical)
	}
	return v
}

func compareTyped(a, b typed) Match { return spelled(compareKinds(a, b), a.text, b.text) }

func compareKinds(a, b typed) Match {
	switch {
	case memory.SameName(a.text, b.text):
		return MatchSame
	case a.kind != b.kind:
		return MatchUnknown
	case a.kind == kindDate:
		return compareDates(a.dates, b.dates)
	case a.kind == kindNumber:
		m := compareNumbers(a.num, b.num)
		if m == MatchSame && a.num.spelled != b.num.spelled {
			return MatchUnknown
		}
		return m
	case a.kind == kindTruth && a.truth == b.truth:
		return MatchSame
	case a.kind == kindTruth:
		return MatchDifferent
	}
	if m := compareProse(a.canonical, b.canonical, a.words, b.words); m != MatchSame {
		return m
	}
	return MatchUnknown // spelled otherwise
}

var truths = map[string]bool{"true": true, "yes": true, "false": false, "no": false}

// CompareExact compares byte by byte in Unicode NFC: for identifiers and closed lists of
// words, where "approved" and "not approved" differ. What differs in its memory.Canonical
// form too is different; "Evil" and "evil", and "a" and " a", are unknown.
func CompareExact(claimed, observed string) Match {
	switch {
	case memory.SameName(claimed, observed):
		return MatchSame
	case memory.Canonical(claimed) == memory.Canonical(observed):
		return MatchUnknown
	}
	return MatchDifferent
}

// CompareText compares prose that people read, and nothing that a program acts on: the
// same memory.Canonical form is the same, whatever blanks it has and whatever the letter
// case of its plain words. Choose it for no path, name, address or identifier. If the
// words of one are all among the words of the other ("Paris" and "Paris,
// France"; "Smith, John" and "John Smith"), whatever their order, case and
// punctuation, it is unknown. All else is different.
func CompareText(claimed, observed string) Match {
	a, b := memory.Canonical(claimed), memory.Canonical(observed)
	return spelled(compareProse(a, b, words(a), words(b)), claimed, observed)
}

func compareProse(a, b string, inA, inB []string) Match {
	switch {
	case a == b:
		return MatchSame
	case within(inA, inB) || within(inB, inA) || strings.Join(inA, "") == strings.Join(inB, ""):
		return MatchUnknown
	}
	return MatchDifferent
}

func words(canonical string) []string {
	return strings.FieldsFunc(strings.ToLower(canonical), func(r rune) bool {
		return !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Number)
	})
}

// within reports whether b has all the words of a, as often as a has them.
func within(a, b []string) bool {
	if len(a) > len(b) {
		return false
	}
	left := map[string]int{}
	for _, w := range b {
		left[w]++
	}
	for _, w := range a {
		if left[w]--; left[w] < 0 {
			return false
		}
	}
	return true
}

// CompareNumber compares amounts exactly, each a number with an optional unit or
// currency: "1,000 km" is "1000km", "1.5" is "1.50". Amounts in different units
// are unknown, since nothing is converted; so is what can be read in two ways
// ("1.000" against "1000"), what differs only by the noise of floating point, and
// what is no number. Digits with a leading zero are a name, not a number.
func CompareNumber(claimed, observed string) Match {
	a, isA := parseNumber(claimed)
	b, isB := parseNumber(observed)
	if !isA || !isB {
		return MatchUnknown
	}
	return spelled(compareNumbers(a, b), claimed, observed)
}

// number is an amount. The first reading has a point as decimal separator; the
// second, if there is one, a comma.
type number struct {
	readings []*big.Rat
	spelled  string // the digits of the first reading, ungrouped
	unit     string
	noisy    bool // has a fraction as long as floating point makes them
}

var (
	numberForm = regexp.MustCompile(`^([+\-\x{2212}]?)([A-Z]{3} ?|\p{Sc} ?)?([+\-\x{2212}]?)(\d[\d., '\x{2019}]*?)(?:[eE]([+\-]?\d{1,3}))? ?([\p{L}\p{Sc}%\x{2030}°][\p{L}\p{Sc}%°/\x{00B2}\x{00B3}·*^\-\d]{0,15})?$`)
	spaceGroup = regexp.MustCompile(`^\d{1,3}(?:[ '\x{2019}]\d{3})+(?:[.,]\d+)?$`)
	plainForm  = regexp.MustCompile(`^\d+(?:[.,]\d+)?$`)
	commaGroup = regexp.MustCompile(`^\d{1,3}(?:,\d{3})+(?:\.\d+)?$`)
	pointGroup = regexp.MustCompile(`^\d{1,3}(?:\.\d{3})+,\d+$`)
	onePoint   = regexp.MustCompile(`^\d{1,3}\.\d{3}$`)
	oneComma   = regexp.MustCompile(`^\d{1,3},\d{3}$`)
	ungroup    = strings.NewReplacer(" ", "", "'", "", "\u2019", "")
	units      = map[string]string{"€": "EUR", "percent": "%"}
)

func parseNumber(s string) (number, bool) {
	m := numberForm.FindStringSubmatch(strings.Join(strings.Fields(s), " "))
	if m == nil || m[1] != "" && m[3] != "" || m[2] != "" && m[6] != "" {
		return number{}, false
	}
	sign, digits := "", m[4]
	if s := m[1] + m[3]; s != "" && s != "+" {
		sign = "-"
	}
	if spaceGroup.MatchString(digits) {
		digits = ungroup.Replace(digits)
	}
	var spellings []string
	switch {
	case commaGroup.MatchString(digits) && digits[0] != '0':
		spellings = append(spellings, strings.ReplaceAll(digits, ",", ""))
		if oneComma.MatchString(digits) {
			spellings = append(spellings, strings.Replace(digits, ",", ".", 1))
		}
	case pointGroup.MatchString(digits) && digits[0] != '0':
		spellings = append(spellings, strings.Replace(strings.ReplaceAll(digits, ".", ""), ",", ".", 1))
	case plainForm.MatchString(digits):
		spellings = append(spellings, strings.Replace(digits, ",", ".", 1))
		if onePoint.MatchString(digits) && digits[0] != '0' {
			spellings = append(spellings, strings.ReplaceAll(digits, ".", ""))
		}
	default:
		return number{}, false
	}
	if d := spellings[0]; len(d) > 1 && d[0] == '0' && d[1] != '.' {
		return number{}, false
	}
	n := number{spelled: sign + spellings[0], unit: strings.TrimSpace(m[2]) + m[6]}
	if u, ok := units[n.unit]; ok {
		n.unit = u
	}
	n.unit = strings.ReplaceAll(n.unit, "\u00b5", "\u03bc") // the two code points of micro
	exponent := "0"
	if m[5] != "" {
		exponent = m[5]
		n.spelled += "e" + exponent
	}
	for _, text := range spellings {
		// The form bounds the exponent, so that no text costs much to evaluate.
		r, ok := new(big.Rat).SetString(sign + text + "e" + exponent)
		if !ok {
			return number{}, false
		}
		n.readings = append(n.readings, r)
	}
	n.noisy = strings.Contains(spellings[0], ".") && len(spellings[0]) > 15
	return n, true
}

func compareNumbers(a, b number) Match {
	if a.unit != b.unit {
		return MatchUnknown
	}
	if a.readings[0].Cmp(b.readings[0]) == 0 {
		return MatchSame
	}
	for _, x := range a.readings {
		for _, y := range b.readings {
			if x.Cmp(y) == 0 || (a.noisy || b.noisy) && near(x, y) {
				return MatchUnknown
			}
		}
	}
	return MatchDifferent
}

// near reports whether two numbers agree to twelve digits, which is as far as
// floating point can be trusted.
func near(x, y *big.Rat) bool {
	gap := new(big.Rat).Sub(x, y)
	size := new(big.Rat).Add(new(big.Rat).Abs(x), new(big.Rat).Abs(y))
	return gap.Abs(gap).Cmp(size.Mul(size, big.NewRat(1, 1_000_000_000_000))) < 0
}

// CompareDate compares points in time and calendar dates: "2026-03-14",
// "14 March 2026", "Mar 14, 2026", "14.03.2026", RFC 3339. Dates are the same if
// they name the same span; different if their spans cannot meet, in whatever time
// zone an unzoned one is; unknown if one is less exact than the other, if
// 03/04/2026 can be read in two ways, or if one is no date.
func CompareDate(claimed, observed string) Match {
	a, b := dates(claimed), dates(observed)
	if a == nil || b == nil {
		return MatchUnknown
	}
	return spelled(compareDates(a, b), claimed, observed)
}

// span is what a date names: from the first instant up to the last, not included.
type span struct {
	from, to time.Time
	zoned    bool
}

var (
	ordinal = regexp.MustCompile(`(\d)(?:st|nd|rd|th)\b`)
	layouts = []struct {
		layout string
		zoned  bool
		last   func(time.Time) time.Time
	}{
		{time.RFC3339Nano, true, second},
		{"2006-01-02 15:04:05Z07:00", true, second},
		{"2006-01-02T15:04Z07:00", true, minute},
		{time.RFC1123Z, true, second},
		{"Mon, 02 Jan 2006 15:04:05 GMT", true, second},
		{"2006-01-02T15:04:05", false, second},
		{"2006-01-02 15:04:05", false, second},
		{"2006-01-02T15:04", false, minute},
		{"2006-01-02 15:04", false, minute},
		{"2006-01-02", false, day},
		{"2006/01/02", false, day},
		{"2.1.2006", false, day},
		{"2 January 2006", false, day},
		{"2 Jan 2006", false, day},
		{"2. January 2006", false, day},
		{"January 2, 2006", false, day},
		{"January 2 2006", false, day},
		{"Jan 2, 2006", false, day},
		{"Jan 2 2006", false, day},
		{"Monday, 2 January 2006", false, day},
		{"Monday, January 2, 2006", false, day},
		{"2/1/2006", false, day}, // both readings of a slashed date
		{"1/2/2006", false, day},
		{"2006-01", false, month},
		{"January 2006", false, month},
		{"Jan 2006", false, month},
	}
)

func second(t time.Time) time.Time { return t.Add(time.Second) }
func minute(t time.Time) time.Time { return t.Add(time.Minute) }
func day(t time.Time) time.Time    { return t.AddDate(0, 0, 1) }
func month(t time.Time) time.Time  { return t.AddDate(0, 1, 0) }

// dates returns the readings of a date, nil if it is none.
func dates(s string) []span {
	if len(s) > 64 {
		return nil
	}
	s = ordinal.ReplaceAllString(strings.Join(strings.Fields(s), " "), "$1")
	var readings []span
	for _, l := range layouts {
		t, err := time.Parse(l.layout, s)
		if err != nil {
			continue
		}
		d := span{t, l.last(t), l.zoned}
		if !slices.ContainsFunc(readings, d.is) {
			readings = append(readings, d)
		}
	}
	return readings
}

func (d span) is(e span) bool {
	return d.zoned == e.zoned && d.from.Equal(e.from) && (d.zoned || d.to.Equal(e.to))
}

// meets reports whether some instant may be in both. Local time is at most 14
// hours ahead of UTC and 12 behind.
func (d span) meets(e span) bool {
	if d.zoned != e.zoned {
		local := &d
		if d.zoned {
			local = &e
		}
		local.from, local.to = local.from.Add(-14*time.Hour), local.to.Add(12*time.Hour)
	}
	return d.from.Before(e.to) && e.from.Before(d.to)
}

func compareDates(a, b []span) Match {
	if len(a) == 1 && len(b) == 1 && a[0].is(b[0]) {
		return MatchSame
	}
	for _, d := range a {
		for _, e := range b {
			if d.meets(e) {
				return MatchUnknown
			}
		}
	}
	return MatchDifferent
}

// CompareSet compares lists without regard to order and repetition: a JSON array
// of strings, or items between semicolons or line breaks, or else commas. Items
// are compared by type. It is for predicates whose one object is a list; where
// order matters, as on a route, use [CompareExact]. Lists of more than 256 items
// are unknown.
func CompareSet(claimed, observed string) Match {
	a, b := items(claimed), items(observed)
	if a == nil || b == nil {
		return MatchUnknown
	}
	x, y := covers(a, b), covers(b, a)
	switch {
	case x == MatchDifferent || y == MatchDifferent:
		return MatchDifferent
	case x == MatchUnknown || y == MatchUnknown:
		return MatchUnknown
	}
	return spelled(MatchSame, claimed, observed)
}

// covers says whether every item of b is in a; different as soon as one cannot be.
func covers(a, b []typed) Match {
	all := MatchSame
	for _, item := range b {
		best := MatchDifferent
		for _, other := range a {
			switch compareTyped(other, item) {
			case MatchSame:
				best = MatchSame
			case MatchUnknown:
				if best == MatchDifferent {
					best = MatchUnknown
				}
			}
		}
		if best == MatchDifferent {
			return MatchDifferent
		}
		if best == MatchUnknown {
			all = MatchUnknown
		}
	}
	return all
}

const maxItems = 256

func items(s string) []typed {
	var raw []string
	if s = strings.TrimSpace(s); strings.HasPrefix(s, "[") {
		if json.Unmarshal([]byte(s), &raw) != nil {
			return nil
		}
	} else {
		separators := ","
		if strings.ContainsAny(s, ";\n") {
			separators = ";\n"
		}
		raw = strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(separators, r) })
		for i := range raw {
			raw[i] = strings.TrimSpace(raw[i]) // the blanks are of the list, not of the item
		}
	}
	if len(raw) > maxItems {
		return nil
	}
	var kept []typed
	for _, item := range raw {
		switch {
		case memory.Canonical(item) != "":
			kept = append(kept, read(item))
		case memory.Hides(item): // it looks empty, and is not
			return nil
		}
	}
	return kept
}
