package gate

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Target is what a text points its reader to: a web address or a host, a mail
// address, an account number.
type Target struct {
	Pointer string // RFC 6901, of the argument whose text holds it
	Value   string // as it stands there, without what cannot be seen
}

// pointing finds what a text can point its reader to. It takes too much rather than
// too little: a file name has the form of a host.
var pointing = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://\S+` + // a URL of any scheme
	`|(?:mailto|tel|data|javascript):\S+` +
	`|\bwww\.\S+` +
	`|[\pL\pN._%+'-]+@[\pL\pN-]+(?:\.[\pL\pN-]+)*` + // a mail address, or a handle with a host
	`|[\pL\pN_-]+(?:\.[\pL\pN_-]+)*\.\pL[\pL\pN-]+(?::[0-9]+)?(?:[/?#]\S*)?` + // a host by its name
	`|\b[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?::[0-9]+)?(?:/\S*)?` + // or by its number
	`|(?-i:\b[A-Z]{2}[0-9]{2}(?:[ -]?[A-Z0-9]{2,4}){3,8}\b)` + // an IBAN in groups
	`|\b[a-z]{2}[0-9]{2}[a-z0-9]{8,30}\b` + // or not
	`|\b0x[0-9a-f]{20,}\b` +
	`|\+?[0-9](?:[ -]?[0-9]){8,}`) // a number of a card, an account or a telephone

// dated is a form of numbers that points nobody anywhere.
var dated = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[ T-][0-9]{1,2})?$`)

// Targets lists what the arguments of a call point their reader to where no sink is
// declared: in typed-sink precision each is a sink too, since a message to a friend
// with a stranger's link in it is a message of the stranger's. args must be in
// canonical form; anything else has no targets, and is denied as such.
//
// It finds forms, so what is spelled out ("evil dot example") or drawn is not found.
func Targets(args []byte, sinks []string) []Target {
	var v any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	var out []Target
	texts("", v, func(at, text string) {
		if slices.ContainsFunc(sinks, func(p string) bool { return under(at, p) }) {
			return
		}
		for _, value := range pointingIn(text) {
			if t := (Target{at, value}); !slices.Contains(out, t) {
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
		case unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point) || unicode.IsControl(r) && !unicode.IsSpace(r):
			return -1
		case r >= 0xFF01 && r <= 0xFF5E: // full width
			return r - 0xFEE0
		case strings.ContainsRune("。｡․", r):
			return '.'
		}
		return r
	}, text)
	for _, found := range pointing.FindAllString(text, -1) {
		found = strings.TrimRight(found, ".,;:!?)]}>\"'”’")
		if utf8.RuneCountInString(found) < 4 || dated.MatchString(found) {
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
	for _, t := range Targets(args, c.Sinks) {
		if !slices.ContainsFunc(spoken, func(s Sink) bool { return s.Pointer == t.Pointer && s.Value == t.Value }) {
			out = append(out, Sink{Pointer: t.Pointer, Value: t.Value, Source: SourceNowhere})
		}
	}
	return out
}
