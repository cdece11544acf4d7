package gate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// corpusCase is one section of testdata/corpus.
type corpusCase struct{ file, name, body string }

// corpus reads all cases. Two cases of one name would hide each other.
func corpus(t *testing.T) []corpusCase {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var out []corpusCase
	names := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections(string(b)) {
			if names[s.name] {
				t.Errorf("%s: %q is there twice", file, s.name)
			}
			names[s.name] = true
			out = append(out, corpusCase{filepath.Base(file), s.name, s.body})
		}
	}
	if len(out) < 200 {
		t.Fatalf("only %d cases", len(out))
	}
	return out
}

// TestDecisionCorpus runs every case of testdata/corpus against the pure
// function. What a line means stands in the README there.
func TestDecisionCorpus(t *testing.T) {
	ran := 0
	outcomes, seen := map[string]int{}, map[string]bool{}
	for _, s := range corpus(t) {
		t.Run(s.name, func(t *testing.T) {
			c, err := parseCase(s.body)
			if err != nil {
				t.Fatalf("%s: %v", s.file, err)
			}
			for _, line := range []string{c.want, c.gate} {
				for _, w := range strings.Fields(line)[min(1, len(strings.Fields(line))):] {
					seen[strings.FieldsFunc(w, func(r rune) bool { return r == '@' || r == '?' })[0]] = true
				}
			}
			outcomes[strings.Fields(c.want)[0]]++
			ran++
			c.fixed()
			d := c.policy.Evaluate(&c.req, c.fitness)
			if got := outcome(&d); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (d.Err() == nil) != strings.HasPrefix(c.want, "permitted") {
				t.Errorf("Err is %v", d.Err())
			}
		})
	}
	t.Logf("%d decisions: %v; %d reason codes", ran, outcomes, len(seen))
	const codes = 21
	if len(outcomes) != 3 || len(seen) != codes {
		t.Errorf("not every outcome and reason code is among them: %v", seen)
	}
}

type section struct{ name, body string }

// sections reads a txtar archive: prose, then "-- name --" before each file.
func sections(text string) []section {
	var out []section
	for line := range strings.Lines(text) {
		name, begins := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- ")
		name, ends := strings.CutSuffix(name, " --")
		switch {
		case begins && ends:
			out = append(out, section{name: name})
		case len(out) > 0:
			out[len(out)-1].body += line
		}
	}
	return out
}

// outcome writes a decision as a want line does.
func outcome(d *gate.Decision) string {
	names := strings.NewReplacer("mem_", "", "0", "")
	parts := []string{d.Outcome.String()}
	for _, r := range d.Reasons {
		s := string(r.Code)
		if r.Row != "" {
			s += "@" + names.Replace(string(r.Row))
		} else if r.Argument != "" {
			s += "@" + r.Argument
		}
		if r.Outcome == gate.Permit {
			s += "?"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, " ")
}

// testCase is a case as it was written. Its rows go by the ids that [id] makes of
// their names.
type testCase struct {
	policy         gate.Policy
	req            gate.Request
	fitness        memory.Fitness
	rows, above    []memory.Head
	says           map[memory.ID]string // what a row says, besides its triple
	lineage, fault string
	want           string // of Evaluate
	gate           string // of a gate on a store; as want if it is empty
	unheld         string // why no store can hold the rows
}

func parseCase(body string) (*testCase, error) {
	c := &testCase{policy: declared(), fitness: memory.Fitness{Now: clock0}}
	c.policy.Tools = map[string]gate.Rule{}
	tools := 0
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		word := f[0]
		rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), word))
		var err error
		if word != "args" && word != "says" {
			if rest, err = unquote(f); err != nil {
				return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
			}
		}
		more, options := append(f[1:], "", ""), f[min(len(f), 3):] // a line that is too short names nothing
		switch word {
		case "tool":
			tools++
			err = c.tool(more[0], more[1], options)
		case "policy":
			if reach, ok := strings.CutPrefix(rest, "max_blast="); ok {
				err = c.policy.MaxBlastRadius.UnmarshalText([]byte(reach))
			} else {
				c.policy.Declared = false
			}
		case "rule":
			err = c.rule(more[0], f[min(len(f), 2):])
		case "args":
			c.req.Args = []byte(rest)
		case "lineage":
			c.lineage = rest
		case "row", "above":
			var h memory.Head
			if h, err = parseHead(more[0], more[1], options); word == "row" {
				c.rows = append(c.rows, h)
			} else {
				c.above = append(c.above, h)
			}
		case "says":
			if c.says == nil {
				c.says = map[memory.ID]string{}
			}
			c.says[id(more[0])], err = strconv.Unquote(strings.TrimSpace(strings.TrimPrefix(rest, more[0])))
		case "sink":
			err = c.sink(more[0], more[1])
		case "choice":
			err = c.choice(more[0])
		case "fault":
			c.fault = rest
		case "want":
			c.want = rest
		case "gate":
			c.gate = rest
		case "unheld":
			c.unheld = rest
		default:
			err = fmt.Errorf("no such line")
		}
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", strings.TrimSpace(line), err)
		}
	}
	if c.want == "" || tools != 1 {
		return nil, fmt.Errorf("a case has one tool and says what it wants")
	}
	if _, ok := lineages[c.lineage]; !ok {
		return nil, fmt.Errorf("lineage %q", c.lineage)
	}
	if _, ok := faults[c.fault]; !ok && gateFaults[c.fault] == nil {
		return nil, fmt.Errorf("fault %q", c.fault)
	}
	return c, nil
}

// unquote reads the words that are quoted as Go strings, so that what cannot be
// seen can be read, and returns all but the first as one text.
func unquote(words []string) (rest string, err error) {
	for i, w := range words {
		if strings.HasPrefix(w, `"`) {
			if words[i], err = strconv.Unquote(w); err != nil {
				return "", err
			}
		}
	}
	return strings.Join(words[1:], " "), nil
}

// fixed gives the request and the fitness of the rows as they were written.
func (c *testCase) fixed() {
	c.req.Lineage = lineages[c.lineage](idsOf(c.rows), idsOf(c.above))
	for _, id := range slices.Concat(c.req.Lineage.Direct(), c.req.Lineage.Ancestors()) {
		h := memory.Head{ID: id}
		for _, known := range slices.Concat(c.above, c.rows) {
			if known.ID == id {
				h = known
			}
		}
		c.fitness.Heads = append(c.fitness.Heads, h)
	}
	if spoil := faults[c.fault]; spoil != nil {
		c.fitness = spoil(c.fitness)
	}
}

func idsOf(heads []memory.Head) (ids []memory.ID) {
	for i := range heads {
		ids = append(ids, heads[i].ID)
	}
	return ids
}

// lineages are how much a caller knows of what its call was made from.
var lineages = map[string]func(direct, ancestors []memory.ID) gate.Lineage{
	"": gate.Known,
	"unknown": func(_, _ []memory.ID) gate.Lineage {
		return gate.Unknown("history of another program")
	},
	"partial": func(direct, ancestors []memory.ID) gate.Lineage {
		return gate.Partial("history of another program", direct, ancestors)
	},
	"zero": func(_, _ []memory.ID) gate.Lineage { return gate.Lineage{} },
	"twice": func(direct, ancestors []memory.ID) gate.Lineage {
		return gate.Known(slices.Concat(direct, direct), slices.Concat(ancestors, direct, ancestors))
	},
	"too_large": func(direct, ancestors []memory.ID) gate.Lineage {
		return gate.Known(direct, slices.Concat(ancestors, strangers(gate.MaxLineage+1-len(direct)-len(ancestors))))
	},
	"too_large_partial": func(direct, ancestors []memory.ID) gate.Lineage {
		return gate.Partial("history of another program", slices.Concat(direct, strangers(gate.MaxLineage+1)), ancestors)
	},
}

// strangers are n ids of rows that are not there.
func strangers(n int) []memory.ID {
	ids := make([]memory.ID, n)
	for i := range ids {
		ids[i] = memory.ID(fmt.Sprintf("mem_%025d0", i+1_000_000))
	}
	return ids
}

// faults are what a store can do wrong in its answer.
var faults = map[string]func(memory.Fitness) memory.Fitness{
	"": nil,
	"lost": func(f memory.Fitness) memory.Fitness {
		f.Heads = f.Heads[1:]
		return f
	},
	"lost_last": func(f memory.Fitness) memory.Fitness {
		f.Heads = f.Heads[:len(f.Heads)-1]
		return f
	},
	"empty": func(f memory.Fitness) memory.Fitness {
		f.Heads = nil
		return f
	},
	"extra": func(f memory.Fitness) memory.Fitness {
		f.Heads = append(f.Heads, verified("extra"))
		return f
	},
	"swapped": func(f memory.Fitness) memory.Fitness {
		slices.Reverse(f.Heads)
		return f
	},
	"doubled": func(f memory.Fitness) memory.Fitness {
		f.Heads[len(f.Heads)-1] = f.Heads[0]
		return f
	},
	"nameless": func(f memory.Fitness) memory.Fitness {
		f.Heads[0].ID = ""
		return f
	},
	"no_clock": func(f memory.Fitness) memory.Fitness {
		f.Now = time.Time{}
		return f
	},
}

func (c *testCase) tool(name, effect string, more []string) error {
	t := &c.req.Contract
	if name != "-" {
		t.Tool = name
	}
	if err := t.Effect.UnmarshalText([]byte(effect)); err != nil {
		if effect != "effect9" {
			return err
		}
		t.Effect = 9
	}
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		var err error
		switch key {
		case "ceiling":
			err = t.Ceiling.UnmarshalText([]byte(value))
		case "blast":
			if value == "blast9" {
				t.BlastRadius = 9
				break
			}
			err = t.BlastRadius.UnmarshalText([]byte(value))
		case "max_age":
			t.MaxAge, err = time.ParseDuration(value)
		case "sinks":
			t.Sinks = strings.Split(value, ",")
		case "typed": // typed=/to:recipient,/amount:amount
			t.Precision, t.Kinds, t.NamedWaived = gate.TypedSinks, map[string]gate.Kind{}, true
			for one := range strings.SplitSeq(value, ",") {
				pointer, kind, _ := strings.Cut(one, ":")
				var k gate.Kind
				if err = k.UnmarshalText([]byte(kind)); err != nil {
					return err
				}
				t.Sinks, t.Kinds[pointer] = append(t.Sinks, pointer), k
			}
		case "corroborate":
			t.Corroborate = true
		case "named":
			t.Named = true
		case "unwaived":
			t.NamedWaived = false
		case "optional":
			t.Optional = strings.Split(value, ",")
		case "privileged":
			t.Privileged = true
		case "undeclared":
			t.Undeclared = true
		case "unknown":
			t.Unknown = true
		default:
			err = fmt.Errorf("tool %q", m)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *testCase) rule(name string, more []string) error {
	var r gate.Rule
	for _, m := range more {
		key, value, _ := strings.Cut(m, "=")
		var err error
		switch key {
		case "never":
			r.Never, r.Why = true, value
		case "effect":
			r.Effect = new(gate.Effect)
			err = r.Effect.UnmarshalText([]byte(value))
		case "max_age":
			r.MaxAge, err = time.ParseDuration(value)
		case "ceiling":
			err = r.Ceiling.UnmarshalText([]byte(value))
		case "from_nowhere":
			r.FromNowhere = true
		case "whole_run":
			r.WholeRun = true
		case "uncorroborated":
			r.Uncorroborated = true
		case "named":
			r.Named = true
		case "all_sinks":
			r.AllSinks = true
		case "plain_output":
			r.PlainOutput = true
		case "max_blast":
			err = r.MaxBlastRadius.UnmarshalText([]byte(value))
		default:
			err = fmt.Errorf("rule %q", m)
		}
		if err != nil {
			return err
		}
	}
	c.policy.Tools[name] = r
	return nil
}

func (c *testCase) sink(pointer, source string) error {
	if !strings.HasPrefix(pointer, "/") {
		return fmt.Errorf("sink %q", pointer)
	}
	s, err := came(pointer, source)
	c.req.Sinks = append(c.req.Sinks, s)
	return err
}

func (c *testCase) choice(source string) (err error) {
	c.req.Choice, err = came("", source)
	return err
}

// came reads where something came from: a source, and the row after an equals sign.
func came(pointer, source string) (gate.Sink, error) {
	s := gate.Sink{Pointer: pointer}
	kind, row, _ := strings.Cut(source, "=")
	if row != "" {
		s.Row = id(row)
	}
	if kind == "source99" {
		s.Source = 99
	} else if err := s.Source.UnmarshalText([]byte(kind)); err != nil {
		return s, err
	}
	return s, nil
}

func parseHead(name, preset string, more []string) (memory.Head, error) {
	h := verified(name)
	switch preset {
	case "verified":
	case "unverified":
		h = unverified(name)
	case "down":
		h = unverified(name)
		h.Outage = memory.OutageRecorded
	case "contradicted":
		h = unverified(name)
		h.Truth = memory.TruthContradicted
	case "superseded":
		h = unverified(name)
		h.Truth = memory.TruthSuperseded
	case "missing":
		return memory.Head{ID: id(name)}, nil
	case "blank":
		h = memory.Head{ID: id(name), Revision: 1}
	default:
		return h, fmt.Errorf("preset %q", preset)
	}
	for _, m := range more {
		axis, value, _ := strings.Cut(m, "=")
		if err := setAxis(&h, axis, value); err != nil {
			return h, err
		}
	}
	return h, nil
}

func setAxis(h *memory.Head, axis, value string) error {
	text, unset := []byte(value), value == "unset"
	switch axis {
	case "retrieval":
		return h.Retrieval.UnmarshalText(text)
	case "security":
		if unset {
			h.Security = 0
			return nil
		}
		return h.Security.UnmarshalText(text)
	case "freshness":
		return h.Freshness.UnmarshalText(text)
	case "outage":
		return h.Outage.UnmarshalText(text)
	case "sensitivity":
		if unset {
			h.Sensitivity = 0
			return nil
		}
		return h.Sensitivity.UnmarshalText(text)
	case "rank":
		if unset {
			h.Rank = 0
			return nil
		}
		return h.Rank.UnmarshalText(text)
	case "flags":
		flags := map[string]memory.Flags{"contested": memory.FlagContested, "tainted": memory.FlagTainted, "lineage_unknown": memory.FlagLineageUnknown}
		for f := range strings.SplitSeq(value, ",") {
			if flags[f] == 0 {
				return fmt.Errorf("flag %q", f)
			}
			h.Flags |= flags[f]
		}
		return nil
	}
	d, err := time.ParseDuration(value)
	switch axis {
	case "verified_ago":
		h.VerifiedAt = clock0.Add(-d)
	case "stale_in":
		h.StaleAt = clock0.Add(d)
	case "expires_in":
		h.ExpiresAt = clock0.Add(d)
	case "valid_in":
		h.ValidUntil = clock0.Add(d)
	default:
		return fmt.Errorf("axis %q", axis)
	}
	return err
}
