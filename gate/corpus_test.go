package gate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// TestDecisionCorpus runs every case of testdata/corpus against the pure
// function. What a line means stands in the README there.
func TestDecisionCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	seen := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range sections(string(b)) {
			ran++
			t.Run(s.name, func(t *testing.T) {
				c, err := parseCase(s.body)
				if err != nil {
					t.Fatalf("%s: %v", file, err)
				}
				for _, w := range strings.Fields(c.want)[1:] {
					seen[strings.FieldsFunc(w, func(r rune) bool { return r == '@' || r == '?' })[0]] = true
				}
				d := c.policy.Evaluate(&c.req, c.fitness)
				if got := outcome(&d); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if (d.Err() == nil) != strings.HasPrefix(c.want, "permitted") {
					t.Errorf("Err is %v", d.Err())
				}
			})
		}
	}
	t.Logf("%d decisions in %d files, %d reason codes", ran, len(files), len(seen))
	if ran < 60 {
		t.Fatalf("only %d decisions were run", ran)
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

type testCase struct {
	policy  gate.Policy
	req     gate.Request
	fitness memory.Fitness
	want    string
}

func parseCase(body string) (*testCase, error) {
	c := &testCase{policy: declared(), fitness: memory.Fitness{Now: clock0}}
	var (
		rows, above       []memory.Head
		lineage, fault    string
		direct, ancestors []memory.ID
	)
	c.policy.Tools = map[string]gate.Rule{}
	for line := range strings.Lines(body) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		var err error
		switch f[0] {
		case "tool":
			err = c.tool(f[1], f[2], f[3:])
		case "policy":
			c.policy.Declared = false
		case "rule":
			err = c.rule(f[1], f[2:])
		case "lineage":
			lineage = f[1]
		case "row", "above":
			var h memory.Head
			if h, err = parseHead(f[1], f[2], f[3:]); f[0] == "row" {
				rows, direct = append(rows, h), append(direct, h.ID)
			} else {
				above, ancestors = append(above, h), append(ancestors, h.ID)
			}
		case "sink":
			err = c.sink(f[1], f[2])
		case "fault":
			fault = f[1]
		case "want":
			c.want = strings.Join(f[1:], " ")
		default:
			err = fmt.Errorf("line %q", line)
		}
		if err != nil {
			return nil, err
		}
	}
	if c.want == "" || c.req.Contract.Effect == 0 && !strings.Contains(body, "tool ") {
		return nil, fmt.Errorf("a case without tool or want")
	}
	switch lineage {
	case "":
		c.req.Lineage = gate.Known(direct, ancestors)
	case "unknown":
		c.req.Lineage = gate.Unknown("history of another program")
	case "partial":
		c.req.Lineage = gate.Partial("history of another program", direct, ancestors)
	case "zero":
	default:
		return nil, fmt.Errorf("lineage %q", lineage)
	}
	c.fitness.Heads = slices.Concat(rows, above)
	switch fault {
	case "":
	case "lost":
		c.fitness.Heads = c.fitness.Heads[1:]
	case "extra":
		c.fitness.Heads = append(c.fitness.Heads, verified("extra"))
	case "swapped":
		slices.Reverse(c.fitness.Heads)
	case "no_clock":
		c.fitness.Now = time.Time{}
	default:
		return nil, fmt.Errorf("fault %q", fault)
	}
	return c, nil
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
		case "max_age":
			t.MaxAge, err = time.ParseDuration(value)
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
	s := gate.Sink{Pointer: pointer}
	kind, row, _ := strings.Cut(source, "=")
	if row != "" {
		s.Row = id(row)
	}
	if kind == "source99" {
		s.Source = 99
	} else if err := s.Source.UnmarshalText([]byte(kind)); err != nil {
		return err
	}
	c.req.Sinks = append(c.req.Sinks, s)
	return nil
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
	case "expires_in":
		h.ExpiresAt = clock0.Add(d)
	case "valid_in":
		h.ValidUntil = clock0.Add(d)
	default:
		return fmt.Errorf("axis %q", axis)
	}
	return err
}
