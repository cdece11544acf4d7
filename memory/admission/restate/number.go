package restate

import (
	"strconv"
	"strings"
)

// numberWords gives the value of number words; zero means none.
var numberWords = map[string]int{
	"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10,
	"eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
	"eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
	"eighty": 80, "ninety": 90, "hundred": 100, "thousand": 1000,
}

var ordinalWords = map[string]int{
	"first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9,
	"tenth": 10, "eleventh": 11, "twelfth": 12,
}

// magnitudes shift the decimal point of the number before them.
var magnitudes = map[string]int{"thousand": 3, "million": 6, "billion": 9, "trillion": 12}

// timeUnits are the units that also occur in compounds such as "30-second".
var timeUnits = table(`
	s: s sec secs second seconds
	ms: ms msec millisecond milliseconds
	min: min mins minute minutes
	h: h hr hrs hour hours
	day: day days
	week: week weeks
	month: month months
	year: year years yr yrs
`)

// units are recognised after a number only. Symbols keep their case, since MB
// is not Mb; a symbol that is not listed compares as a word.
var units = table(`
	%: % percent
	$: dollar dollars
	€: euro euros
	£: pound-sterling
	USD: USD
	EUR: EUR
	GBP: GBP
	times: time times
	GB: GB gigabyte gigabytes
	MB: MB megabyte megabytes
	KB: KB kB kilobyte kilobytes
	TB: TB terabyte terabytes
	GiB: GiB gibibyte gibibytes
	MiB: MiB mebibyte mebibytes
	km: km kilometer kilometers kilometre kilometres
	metre: meter meters metre metres
	cm: cm centimeter centimeters centimetre centimetres
	mm: mm millimeter millimeters millimetre millimetres
	mile: mi mile miles
	kg: kg kgs kilo kilos kilogram kilograms
	gram: gram grams
	mg: mg milligram milligrams
	lb: lb lbs
	litre: liter liters litre litres
	ml: ml mL milliliter milliliters millilitre millilitres
`)

var months = map[string]int{
	"january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7, "august": 8, "september": 9,
	"october": 10, "november": 11, "december": 12,
	"jan": 1, "feb": 2, "mar": 3, "apr": 4, "jun": 6, "jul": 7, "aug": 8, "sep": 9, "sept": 9, "oct": 10, "nov": 11, "dec": 12,
}

var weekdays = map[string]string{
	"monday": "monday", "tuesday": "tuesday", "wednesday": "wednesday", "thursday": "thursday", "friday": "friday",
	"saturday": "saturday", "sunday": "sunday",
}

// frequencies are the periods whose "every x" has an adverb.
var frequencies = map[string]string{
	"day": "daily", "night": "nightly", "week": "weekly", "month": "monthly", "year": "yearly", "hour": "hourly",
}

var frequencyAdverbs = map[string]string{
	"daily": "daily", "nightly": "nightly", "weekly": "weekly", "monthly": "monthly", "yearly": "yearly", "annually": "yearly", "hourly": "hourly",
}

var zones = set("UTC GMT CET CEST EST EDT CST CDT MST MDT PST PDT BST IST JST ET PT")

// table reads "key: form form" lines into a map from form to key.
func table(s string) map[string]string {
	m := make(map[string]string)
	for line := range strings.Lines(s) {
		key, forms, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		for f := range strings.FieldsSeq(forms) {
			m[f] = key
		}
	}
	return m
}

// appendNumber appends what starts with a digit, sign or currency sign: a
// number and its unit, a clock time, an ISO date, or an identifier.
func appendNumber(out []token, w, currency string, initial, quoted bool) []token {
	add := func(key string, k kind) {
		out = append(out, token{key: key, orig: key, kind: k, initial: initial, quoted: quoted})
		initial = false
	}
	s := w
	if strings.HasPrefix(s, "~") {
		add("about", qualifier)
		s = s[1:]
	}
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, s = s[:1], s[1:]
		if sign == "+" {
			add(w, ident) // a phone number or an offset
			return out
		}
	}
	if strings.HasPrefix(s, "$") {
		currency, s = "$", s[1:]
	}
	if isoDate(s) && sign == "" && currency == "" {
		add("date:"+s, date)
		return out
	}
	if t, ok := clock(s); ok && sign == "" && currency == "" {
		add(t, date)
		return out
	}
	n := 0
	for n < len(s) && (digit(s[n]) || (s[n] == '.' || s[n] == ',') && n+1 < len(s) && digit(s[n+1])) {
		n++
	}
	digits, rest := s[:n], s[n:]
	if strings.Contains(digits, ",") {
		if !grouped(digits) {
			add(w, ident)
			return out
		}
		digits = strings.ReplaceAll(digits, ",", "")
	}
	if strings.Count(digits, ".") > 1 || digits == "" {
		add(w, ident)
		return out
	}
	if currency != "" {
		if whole, cents, ok := strings.Cut(digits, "."); ok && strings.Trim(cents, "0") == "" {
			digits = whole
		}
	}
	num := func() {
		add("#"+sign+digits, number)
		if currency != "" {
			add(currency, unit)
		}
	}
	rest = strings.TrimPrefix(rest, "-")
	switch low := strings.ToLower(rest); {
	case rest == "":
		num()
	case low == "k" && currency != "":
		digits = shift(digits, 3)
		num()
	case (low == "m" || low == "mn") && currency != "":
		digits = shift(digits, 6)
		num()
	case (low == "bn" || low == "b") && currency != "":
		digits = shift(digits, 9)
		num()
	case currency == "" && (low == "st" || low == "nd" || low == "rd" || low == "th"):
		add("ord"+digits, number)
	case currency == "" && timeUnits[rest] != "":
		num()
		add(timeUnits[rest], unit)
	case currency == "" && units[rest] != "":
		num()
		add(units[rest], unit)
	default:
		add(w, ident)
	}
	return out
}

func grouped(s string) bool {
	whole, _, _ := strings.Cut(s, ".")
	parts := strings.Split(whole, ",")
	for i, p := range parts {
		if i > 0 && len(p) != 3 || p == "" || len(p) > 3 {
			return false
		}
	}
	return !strings.Contains(s[len(whole):], ",")
}

// shift multiplies a decimal by ten to the n.
func shift(digits string, n int) string {
	whole, frac, _ := strings.Cut(digits, ".")
	for range n {
		if frac != "" {
			whole, frac = whole+frac[:1], frac[1:]
		} else {
			whole += "0"
		}
	}
	if frac != "" {
		return whole + "." + frac
	}
	return whole
}

func isoDate(s string) bool {
	if len(s) != 10 || s[4] != '-' || s[7] != '-' {
		return false
	}
	for i := 0; i < 10; i++ {
		if i != 4 && i != 7 && !digit(s[i]) {
			return false
		}
	}
	return true
}

// clock reads 9:30, 09:30, 9am, 9:30pm and the like.
func clock(s string) (string, bool) {
	low := strings.ToLower(strings.ReplaceAll(s, ".", ""))
	half := ""
	for _, h := range []string{"am", "pm"} {
		if b, ok := strings.CutSuffix(low, h); ok {
			low, half = b, h
		}
	}
	h, m, colon := strings.Cut(low, ":")
	if !colon && half == "" || len(h) == 0 || len(h) > 2 {
		return "", false
	}
	hour, err := strconv.Atoi(h)
	if err != nil || hour < 0 {
		return "", false
	}
	minute := 0
	if colon {
		if len(m) != 2 || !digit(m[0]) || !digit(m[1]) || strings.Contains(s, ".") && half == "" {
			return "", false
		}
		minute, _ = strconv.Atoi(m)
	}
	if half == "" && len(h) == 1 && hour > 0 {
		return "oclock:" + h + ":" + m, true // morning or afternoon is not said
	}
	return clockKey(hour, minute, half)
}

func clockKey(hour, minute int, half string) (string, bool) {
	if half != "" {
		if hour < 1 || hour > 12 {
			return "", false
		}
		hour %= 12
		if half == "pm" {
			hour += 12
		}
	}
	return "time:" + two(hour) + ":" + two(minute), true
}

func two(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// quantities merges number words, units, dates, times and frequencies, in place.
func quantities(in []token) []token {
	out := in[:0]
	for i := 0; i < len(in); {
		t, n := quantity(in[i:], out)
		if n == 0 {
			out = append(out, in[i])
			i++
			continue
		}
		t.article, t.initial = in[i].article, in[i].initial
		i += n
		out = append(out, t)
	}
	return out
}

// quantity reads one quantity from the head of in and gives the tokens used.
func quantity(in, before []token) (token, int) {
	t := in[0]
	if t.quoted {
		return t, 0
	}
	prev := token{}
	if len(before) > 0 {
		prev = before[len(before)-1]
	}
	is := func(i int, key string) bool { return i < len(in) && in[i].key == key }
	capital := t.orig != "" && 'A' <= t.orig[0] && t.orig[0] <= 'Z'

	// Dates: "March 5, 2024", "5th of March 2024", "March 2024".
	if m := months[t.key]; m != 0 && capital {
		if d := day(in, 1); d != 0 {
			n := 2
			if is(n, ",") && year(in, n+1) != "" {
				n++
			}
			if y := year(in, n); y != "" {
				return dateToken(y, m, d), n + 1
			}
			return dateToken("", m, d), 2
		}
		if y := year(in, 1); y != "" {
			return dateToken(y, m, 0), 2
		}
		if t.key != "may" && t.key != "march" || prev.kind == prep || prev.key == "in" {
			return dateToken("", m, 0), 1
		}
		return t, 0
	}
	if d := day(in, 0); d != 0 {
		n := 1
		if is(n, "of") {
			n++
		}
		if n < len(in) && months[in[n].key] != 0 && in[n].orig != "" && in[n].orig[0] < 'a' {
			m := months[in[n].key]
			n++
			if is(n, ",") && year(in, n+1) != "" {
				n++
			}
			if y := year(in, n); y != "" {
				return dateToken(y, m, d), n + 1
			}
			return dateToken("", m, d), n
		}
	}

	// Clock times: "9 am", and the zone after one.
	if t.kind == number && len(t.key) <= 3 && len(in) > 1 {
		half := strings.ReplaceAll(in[1].key, ".", "")
		if half == "am" || half == "pm" {
			if h, err := strconv.Atoi(t.key[1:]); err == nil {
				if k, ok := clockKey(h, 0, half); ok {
					return zoned(k, in, 2)
				}
			}
		}
	}
	if _, c, ok := strings.Cut(t.key, ":"); t.kind == date && ok && strings.Contains(c, ":") {
		if len(in) > 1 {
			if half := strings.ReplaceAll(in[1].key, ".", ""); half == "am" || half == "pm" {
				hs, ms, _ := strings.Cut(c, ":")
				h, _ := strconv.Atoi(hs)
				m, _ := strconv.Atoi(ms)
				if k, ok := clockKey(h, m, half); ok {
					return zoned(k, in, 2)
				}
			}
		}
		return zoned(t.key, in, 1)
	}
	switch t.key {
	case "noon", "midday":
		return zoned("time:12:00", in, 1)
	case "midnight":
		return zoned("time:00:00", in, 1)
	case "half", "quarter", "dozen", "thrice":
		return token{key: t.key, orig: t.key, kind: number}, 1
	case "percent":
		if prev.kind == number {
			return token{key: "%", orig: "%", kind: unit}, 1
		}
	case "per":
		if is(1, "cent") && prev.kind == number {
			return token{key: "%", orig: "%", kind: unit}, 2
		}
		if len(in) > 1 && frequencies[in[1].key] != "" {
			return token{key: "per" + in[1].key, orig: t.key, kind: unit}, 2
		}
	case "a", "an", "each":
		if len(in) > 1 && frequencies[in[1].key] != "" {
			if prev.kind == unit || prev.kind == number {
				return token{key: "per" + in[1].key, orig: t.key, kind: unit}, 2
			}
			if t.key == "each" {
				return freq(frequencies[in[1].key]), 2
			}
		}
		if t.key == "each" && len(in) > 1 && weekdays[in[1].key] != "" {
			return freq("every " + in[1].key), 2
		}
	case "every":
		if len(in) > 1 {
			if f := frequencies[in[1].key]; f != "" {
				return freq(f), 2
			}
			if weekdays[in[1].key] != "" {
				return freq("every " + in[1].key), 2
			}
		}
	case "once":
		if len(in) > 2 && (is(1, "a") || is(1, "per") || is(1, "every") || is(1, "each")) && frequencies[in[2].key] != "" {
			return freq(frequencies[in[2].key]), 3
		}
	case "on":
		if len(in) > 1 {
			if s, ok := strings.CutSuffix(in[1].key, "s"); ok && weekdays[s] != "" {
				return freq("every " + s), 2
			}
		}
	case "last", "next", "this":
		if len(in) > 1 && (frequencies[in[1].key] != "" || weekdays[in[1].key] != "") {
			return token{key: t.key + " " + in[1].key, orig: t.key, kind: date}, 2
		}
	case "today", "tomorrow", "yesterday", "tonight":
		return token{key: t.key, orig: t.key, kind: date}, 1
	}
	if f := frequencyAdverbs[t.key]; f != "" && t.kind == word {
		return freq(f), 1
	}
	if s := strings.TrimSuffix(t.key, "s"); weekdays[s] != "" {
		if s != t.key {
			return freq("every " + s), 1
		}
		return token{key: s, orig: s, kind: date}, 1
	}

	// Currency codes before the amount, units after it.
	if (t.orig == "USD" || t.orig == "EUR" || t.orig == "GBP") && prev.kind != number && len(in) > 1 && in[1].kind == number {
		// Emitted after the number, where the unit stands: swap.
		in[0], in[1] = in[1], in[0]
		return in[0], 1
	}
	if prev.kind == number && !strings.HasPrefix(prev.key, "ord") && t.kind != number {
		u := timeUnits[t.orig]
		if u == "" {
			u = units[t.orig]
		}
		if u == "" && len(t.key) > 3 {
			if u = timeUnits[t.key]; u == "" {
				u = units[t.key]
			}
		}
		if u != "" {
			return token{key: u, orig: u, kind: unit}, 1
		}
	}
	if o := ordinalWords[t.key]; o != 0 && t.kind != name {
		return token{key: "ord" + strconv.Itoa(o), orig: t.key, kind: number}, 1
	}

	// Years after a preposition, so that "in 2019" is a date.
	if y := year(in, 0); y != "" && prev.key == "in" {
		return token{key: "date:" + y, orig: t.key, kind: date}, 1
	}
	if t.kind == number && len(in) > 1 && magnitudes[in[1].key] != 0 && !strings.HasPrefix(t.key, "ord") {
		k := "#" + shift(t.key[1:], magnitudes[in[1].key])
		return token{key: k, orig: k, kind: number}, 2
	}
	if t.kind == unit && prev.kind == number && len(in) > 1 && magnitudes[in[1].key] != 0 {
		// "$5 million": the number is already out.
		p := &before[len(before)-1]
		p.key = "#" + shift(p.key[1:], magnitudes[in[1].key])
		p.orig = p.key
		return t, 2
	}
	return numberWord(in)
}

// numberWord reads "twenty five", "two hundred and four", "three million".
func numberWord(in []token) (token, int) {
	total, part, n := 0, 0, 0
	last := 0
	for n < len(in) && !in[n].quoted {
		v := numberWords[in[n].key]
		if in[n].key == "and" && last == 100 && n+1 < len(in) && numberWords[in[n+1].key] > 0 && numberWords[in[n+1].key] < 100 {
			n++
			continue
		}
		switch {
		case v == 0 || in[n].kind == name:
			v = -1
		case v == 100 && part > 0 && part < 100:
			part *= 100
		case v == 1000 && part > 0 && total == 0:
			total, part = part*1000, 0
		case v < 100 && (last == 0 || last >= 100 || last >= 20 && v < 10):
			part += v
		default:
			v = -1
		}
		if v < 0 {
			break
		}
		last = v
		n++
	}
	if n == 0 || in[n-1].key == "and" {
		return token{}, 0
	}
	k := strconv.Itoa(total + part)
	if n < len(in) && magnitudes[in[n].key] != 0 {
		k = shift(k, magnitudes[in[n].key])
		n++
	}
	return token{key: "#" + k, orig: "#" + k, kind: number}, n
}

func freq(key string) token { return token{key: key, orig: key, kind: date} }

func zoned(key string, in []token, n int) (token, int) {
	if n < len(in) && zones[in[n].orig] {
		return token{key: key + in[n].orig, orig: key, kind: date}, n + 1
	}
	return token{key: key, orig: key, kind: date}, n
}

func day(in []token, i int) int {
	if i >= len(in) || in[i].kind != number {
		return 0
	}
	s := strings.TrimPrefix(strings.TrimPrefix(in[i].key, "#"), "ord")
	if len(s) > 2 {
		return 0
	}
	d, err := strconv.Atoi(s)
	if err != nil || d < 1 || d > 31 {
		return 0
	}
	return d
}

func year(in []token, i int) string {
	if i >= len(in) || in[i].kind != number || len(in[i].key) != 5 || in[i].key[0] != '#' {
		return ""
	}
	if y := in[i].key[1:]; (y[0] == '1' || y[0] == '2') && !strings.Contains(y, ".") {
		return y
	}
	return ""
}

func dateToken(y string, m, d int) token {
	if y == "" {
		y = "-"
	}
	k := "date:" + y + "-" + two(m)
	if d != 0 {
		k += "-" + two(d)
	}
	return token{key: k, orig: k, kind: date}
}
