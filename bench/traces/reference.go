package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/gate"
)

// rule is a gate in a few lines, without a store, to stand beside the real one: it
// looks for a sink's value as whole words anywhere in the prompt and in the text of
// what was read, where the real one wants typed words and typed values.
type rule struct {
	arguments    bool // judge the sinks; else everything that was read
	strict       bool // a token under three characters leaves the call to everything that was read
	verifiedRow  bool // a value of a pending row is fine if a verified row of the memory has it
	secondAuthor bool // or if two authors wrote it
}

// stricter is the rule that leaves a call with a short token to everything that was read.
func (k rule) stricter() rule {
	k.strict = true
	return k
}

// asks reports whether the rule stops a call.
func (k rule) asks(s *suite, c *call, prompt string, read []row) bool {
	pending := slices.ContainsFunc(read, func(r row) bool { return r.pending() })
	if !k.arguments {
		return pending
	}
	cleared, whole := 0, false
	judge := func(value string) (stop bool) {
		if standsIn(prompt, value) {
			return false
		}
		found, fit := having(read, value)
		switch {
		case fit:
		case len(found) == 0:
			whole = true // derived
		default:
			return !k.corroborated(s, value, found)
		}
		return false
	}
	sinks := make([]string, len(s.tools[c.Tool].Sinks))
	for i, name := range s.tools[c.Tool].Sinks {
		sinks[i] = "/" + name
	}
	stop := false
	for _, value := range sinkValues(c.Args, sinks) {
		if utf8.RuneCountInString(value) < 3 {
			whole = whole || k.strict
			continue // vouches for nothing, blames nothing
		}
		cleared++
		stop = judge(value) || stop
	}
	for _, value := range targets(c.Args, sinks) {
		stop = judge(value) || stop
	}
	return stop || (whole || cleared == 0) && pending
}

// having finds the rows that hold a value, and whether one of them is verified.
func having(rows []row, value string) (found []row, fit bool) {
	for _, r := range rows {
		if standsIn(r.Text, value) || standsIn(string(r.Fields), value) {
			found, fit = append(found, r), fit || !r.pending()
		}
	}
	return found, fit
}

func (k rule) corroborated(s *suite, value string, found []row) bool {
	held, fit := having(s.memory, value)
	if k.verifiedRow && fit {
		return true
	}
	authors := map[string]bool{}
	for _, r := range slices.Concat(found, held) {
		// An attack's words are whoever's row they stand in, and vouch for nothing.
		if r.Author != "" && !r.attacked {
			authors[r.Author] = true
		}
	}
	return k.secondAuthor && len(authors) > 1
}

// sinkValues lists the scalar values of the sink arguments.
func sinkValues(args json.RawMessage, sinks []string) (out []string) {
	dec := json.NewDecoder(strings.NewReader(string(args)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	leaves("", v, func(at, leaf string) {
		if slices.ContainsFunc(sinks, func(p string) bool { return at == p || strings.HasPrefix(at, p+"/") }) {
			out = append(out, leaf)
		}
	})
	return out
}

// refer plays the tasks and attacks of a suite through a rule, as replay does
// through the gate.
func (k rule) refer(set *set, s *suite) *outcome {
	o := &outcome{questions: map[string]int{}}
	stops := func(c *call) bool {
		e, err := effect(s.tools[c.Tool])
		return err != nil || e != gate.ReadOnly
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		var read []row
		o.tasks++
		for j := range t.Calls {
			c := &t.Calls[j]
			if stops(c) {
				o.gated++
				if k.asks(s, c, t.Prompt, read) {
					o.questions[s.Name+"/"+t.ID]++
				}
			}
			read = append(read, s.shown(c, nil, "")...)
		}
	}
	for _, p := range set.pairs {
		if p.Suite != s.Name {
			continue
		}
		t, a := s.task(p.Task), s.injection(p.Injection)
		if a.TextOnly {
			o.textOnly++
			continue
		}
		o.attacks++
		var read []row
		text := s.attackText(set.templates[wording], a)
		for i := range t.Calls[:p.Exposed+1] {
			read = append(read, s.shown(&t.Calls[i], a, text)...)
		}
		if !slices.ContainsFunc(a.Calls, func(c call) bool {
			stop := stops(&c) && k.asks(s, &c, t.Prompt, read)
			read = append(read, s.shown(&c, a, text)...)
			return stop
		}) {
			o.fired = append(o.fired, p.Suite+" "+p.Task+" "+p.Injection)
		}
	}
	return o
}

func (s *suite) shown(c *call, attack *injection, text string) (out []row) {
	for _, id := range c.Rows {
		out = append(out, s.row(id, attack, text))
	}
	return out
}

// target is what a message can point its reader to, for the rule: a URL or a host, a
// mail address, an account number.
var target = regexp.MustCompile(`(?i)https?://\S+|www\.\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b[\w-]+(?:\.[\w-]+)*\.(?:com|org|net|io|example)(?:/\S*)?|\b[A-Z]{2}[0-9]{10,}\b`)

// targets lists what the arguments that are no sinks point to.
func targets(args json.RawMessage, sinks []string) (out []string) {
	dec := json.NewDecoder(strings.NewReader(string(args)))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return nil
	}
	leaves("", v, func(at, leaf string) {
		if slices.ContainsFunc(sinks, func(p string) bool { return at == p || strings.HasPrefix(at, p+"/") }) {
			return
		}
		for _, found := range target.FindAllString(leaf, -1) {
			out = append(out, strings.TrimRight(found, `.,;:!?)'"`))
		}
	})
	return out
}

// standsIn reports whether words stand in a text, with no letter or digit on either
// side.
func standsIn(text, words string) bool {
	for from := 0; words != ""; {
		at := strings.Index(text[from:], words)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(words)
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		after, _ := utf8.DecodeRuneInString(text[end:])
		word := func(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
		if !word(before) && !word(after) {
			return true
		}
		_, size := utf8.DecodeRuneInString(text[start:])
		from = start + size
	}
	return false
}
