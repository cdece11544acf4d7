package gate

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// Target is what a text points its reader to: a web address or a host, a mail
// address, a name on a platform, an account number, a telephone number.
type Target struct {
	Pointer string // RFC 6901, of the argument whose text holds it
	Value   string // as it looks there: see [memory.Plain]
}

// pointing finds what a text can point its reader to. It takes too much rather than
// too little: a file name has the form of a host, and a list of prices that of a
// telephone number.
var pointing = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S+` + // a URL of any scheme
	`|(?:mailto|tel|data|javascript):\S+` +
	`|\bwww\.\S+` +
	`|[\pL\pN._%+'-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*` + // a mail address, or a handle with a host
	`|@[\pL\pN_][\pL\pN._-]{2,}` + // or without
	`|\[[0-9a-f:.]*:[0-9a-f:.]*(?:%[a-z0-9]+)?\](?::[0-9]+)?(?:/\S*)?` + // a host by its number, in its long form
	`|\b(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}\b` +
	`|(?:\b[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6}\b` +
	`|[\pL\pN_-]+(?:\.[\pL\pN_-]+)*\.\pL[\pL\pN-]+(?::[0-9]+)?(?:[/?#]\S*)?` + // a host by its name
	`|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?(?:/\S*)?` + // or by its number
	`|(?-i:\b[A-Z]{2}[0-9]{2}(?:[ .-]?[A-Z0-9]{2,4}){3,8}\b)` + // an IBAN in groups
	`|\b[a-z]{2}[0-9]{2}[a-z0-9]{8,30}\b` + // or not
	`|\b[a-z0-9]{25,}\b` + // where a currency without a bank is paid to
	`|\+?\(?[0-9](?:[ ()./-]{0,2}[0-9]){7,}`) // a number of a card, an account or a telephone

// dated is a form of numbers that points nobody anywhere: a day, also with an hour, and
// two years.
var dated = regexp.MustCompile(`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{1,2}[./-][0-9]{1,2}[./-][0-9]{4})(?:[ T(-]{1,2}[0-9]{1,2})?$` +
	`|^(?:19|20)[0-9]{2}[-/](?:19|20)[0-9]{2}$`)

// worded is a long word of letters alone, which is nobody's address.
var worded = regexp.MustCompile(`^\pL+$`)

// Targets lists what the arguments of a call point their reader to where no sink is
// declared: in typed-sink precision each is a sink too, since a message to a friend
// with a stranger's link in it is a message of the stranger's. args must be in
// canonical form; anything else has no targets, and is denied as such.
//
// It finds forms, so what is spelled out ("evil dot example") or drawn is not found.
func Targets(args []byte, sinks []string) []Target {
	v, ok := parsed(args)
	if !ok {
		return nil
	}
	var out []Target
	seen := map[Target]bool{}
	texts("", v, func(at, text string) {
		if slices.ContainsFunc(sinks, func(p string) bool { return under(at, p) }) {
			return
		}
		for _, value := range pointingIn(text) {
			if t := (Target{at, value}); !seen[t] {
				seen[t] = true
				out = append(out, t)
			}
		}
	})
	return out
}

// pointingIn finds the targets of one text. Characters that nobody sees, and forms
// that only look different, are put right first.
func pointingIn(text string) (out []string) {
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '。':
			return '.'
		case r == '⁄', r == '∕':
			return '/'
		case r == '−', unicode.Is(unicode.Pd, r):
			return '-'
		}
		return r
	}, memory.Plain(text))
	for _, found := range pointing.FindAllString(text, -1) {
		found = strings.TrimRight(found, ".,;:!?)]}>\"'”’")
		if utf8.RuneCountInString(found) < 4 || dated.MatchString(found) || worded.MatchString(found) {
			continue
		}
		out = append(out, found)
	}
	return out
}

// under reports whether an argument is the one a pointer names, or a part of it.
func under(at, pointer string) bool { return at == pointer || strings.HasPrefix(at, pointer+"/") }

// texts visits the strings of a value, names of members included, and numbers.
func texts(at string, v any, visit func(pointer, text string)) {
	switch node := v.(type) {
	case map[string]any:
		names := make([]string, 0, len(node))
		for n := range node {
			names = append(names, n)
		}
		slices.Sort(names)
		for _, n := range names {
			visit(join(at, n), n)
			texts(join(at, n), node[n], visit)
		}
	case []any:
		for i, child := range node {
			texts(join(at, strconv.Itoa(i)), child, visit)
		}
	case string:
		visit(at, node)
	case json.Number:
		visit(at, node.String())
	}
}

// unspokenTargets are the targets that nobody said anything of: they came from
// nowhere.
func unspokenTargets(c *Contract, args []byte, spoken []Sink) (out []Sink) {
	if c.Precision != TypedSinks {
		return nil
	}
	said := make(map[Target]bool, len(spoken))
	for i := range spoken {
		said[Target{spoken[i].Pointer, spoken[i].Value}] = true
	}
	for _, t := range Targets(args, c.Sinks) {
		if !said[t] {
			out = append(out, Sink{Pointer: t.Pointer, Value: t.Value, Source: SourceNowhere})
		}
	}
	return out
}
