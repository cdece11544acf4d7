package gate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// policyCase is one call that the author of a policy wrote down, and what must
// come of it.
type policyCase struct {
	line    int // where it stands
	field   string
	req     Request
	fitness memory.Fitness
	want    Outcome
}

// caseClock is where the clock of the cases stands; only differences count.
var caseClock = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (r *policyReader) policyCase(n *node, field string) policyCase {
	c := policyCase{line: n.line, field: field, fitness: memory.Fitness{Now: caseClock}}
	contract := &c.req.Contract
	contract.Undeclared = true
	given, sinks, wrong := map[string]bool{}, map[string]caseSink{}, len(r.errs)
	var (
		ids    []memory.ID
		choice *caseSink
	)
	r.each(n, field, func(name, field string, n *node) {
		given[name] = true
		switch name {
		case "tool":
			contract.Tool = r.text(n, field)
		case "effect":
			r.choice(n, field, &contract.Effect, effectNames[:]...)
			contract.Undeclared = false
		case "blast_radius":
			r.choice(n, field, &contract.BlastRadius, blastNames[:]...)
		case "ceiling":
			r.choice(n, field, &contract.Ceiling, sensitivities...)
		case "max_age":
			contract.MaxAge = r.duration(n, field)
		case "want":
			r.choice(n, field, &c.want, outcomeNames[:]...)
		case "sinks":
			r.each(n, field, func(pointer, field string, n *node) {
				if !strings.HasPrefix(pointer, "/") {
					r.wrong(n, field, "want a JSON pointer into the arguments, such as /to")
				}
				sinks[pointer] = r.caseSink(n, field, pointer)
			})
		case "kinds":
			contract.Precision, contract.Kinds = TypedSinks, map[string]Kind{}
			r.each(n, field, func(pointer, field string, n *node) {
				var k Kind
				wrong := len(r.errs)
				if r.choice(n, field, &k, kindNames[1:]...); k == KindNone && len(r.errs) == wrong {
					r.wrong(n, field, "want one of %s", strings.Join(kindNames[1:], ", "))
				}
				contract.Sinks, contract.Kinds[pointer] = append(contract.Sinks, pointer), k
			})
		case "corroborate":
			contract.Corroborate = r.flag(n, field)
		case "optional":
			r.list(n, field, func(field string, n *node) { contract.Optional = append(contract.Optional, r.text(n, field)) })
		case "named":
			contract.Named = r.flag(n, field)
		case "named_waived":
			contract.NamedWaived = r.flag(n, field)
		case "chosen_by":
			s := r.caseSink(n, field, "")
			choice = &s
		case "rows":
			r.list(n, field, func(field string, n *node) {
				h := r.caseRow(n, field)
				h.ID = memory.ID(fmt.Sprintf("mem_%025d0", len(ids)))
				ids, c.fitness.Heads = append(ids, h.ID), append(c.fitness.Heads, h)
			})
		default:
			r.wrong(n, field, "no such field; a case has tool, effect, blast_radius, ceiling, max_age, sinks, kinds, optional, corroborate, named, named_waived, chosen_by, rows, want")
		}
	})
	for _, name := range []string{"tool", "want"} {
		if !given[name] && n.value == json.Delim('{') {
			r.wrong(n, within(field, name), "is missing")
		}
	}
	for _, pointer := range slices.Sorted(maps.Keys(sinks)) {
		c.req.Sinks = append(c.req.Sinks, sinks[pointer].of(ids, r))
	}
	if choice != nil {
		c.req.Choice = choice.of(ids, r)
	}
	if err := contract.CheckPrecision(); err != nil && len(r.errs) == wrong {
		r.wrong(n, within(field, "kinds"), "%s", strings.TrimPrefix(err.Error(), "gate: "))
	}
	c.req.Lineage = Known(ids, nil)
	return c
}

// caseSink is where a case says that something came from: a source, and for a row
// which of its rows, counted from 0.
type caseSink struct {
	node  *node
	field string
	sink  Sink
	row   int // -1 = none
}

func (r *policyReader) caseSink(n *node, field, pointer string) caseSink {
	s := caseSink{node: n, field: field, sink: Sink{Pointer: pointer}, row: -1}
	text := r.text(n, field)
	word, row, numbered := strings.Cut(text, " ")
	if text == "" {
		return s
	}
	if numbered {
		at, err := strconv.Atoi(row)
		if err != nil || at < 0 {
			r.wrong(n, field, "want the number of one of its rows, from 0, after %q", neutral(word, 40))
			return s
		}
		s.row = at
	}
	if s.sink.Source.UnmarshalText([]byte(word)) != nil || s.sink.Source.row() != numbered {
		r.wrong(n, field, "want one of nowhere, principal, short, or row, field, handle or corroborated with the number of a row, such as row 0")
		s.sink.Source, s.row = SourceNowhere, -1
	}
	return s
}

// of is the sink with the id of its row.
func (s caseSink) of(ids []memory.ID, r *policyReader) Sink {
	if s.row >= len(ids) {
		r.wrong(s.node, s.field, "the case has no row %d", s.row)
	} else if s.row >= 0 {
		s.sink.Row = ids[s.row]
	}
	return s.sink
}

// caseRow is a row that is fit but for what the case says of it.
func (r *policyReader) caseRow(n *node, field string) memory.Head {
	h := memory.Head{
		Revision: 1, Truth: memory.TruthSupported, Retrieval: memory.RetrievalNormal, Security: memory.SecurityClean, Freshness: memory.FreshnessFresh,
		Outage: memory.OutageNone, Sensitivity: memory.SensitivityInternal, Rank: memory.RankTool, VerifiedAt: caseClock,
	}
	r.each(n, field, func(name, field string, n *node) {
		switch name {
		case "truth":
			r.choice(n, field, &h.Truth, "unverified", "supported", "contradicted", "superseded")
		case "security":
			r.choice(n, field, &h.Security, "clean", "suspicious", "quarantined", "malicious")
		case "sensitivity":
			r.choice(n, field, &h.Sensitivity, sensitivities...)
		case "rank":
			r.choice(n, field, &h.Rank, "second_model", "tool", "primary_source", "user")
		case "verified_ago":
			h.VerifiedAt = caseClock.Add(-r.duration(n, field))
		default:
			r.wrong(n, field, "no such field; a row has truth, security, sensitivity, rank, verified_ago")
		}
	})
	return h
}

// VetPolicy looks for what is wrong with a policy that can be read, by running the
// cases in its file against it. Each finding has its line and field. An error says
// that the file could not be read; see [ParsePolicy]. It finds
//
//   - a case that comes to something else than its author wrote;
//   - a rule without a case that fires, or without one that is blocked (a rule
//     that never allows its tool needs the second only);
//   - a field of a rule that changes no case: one that is lighter than what the
//     tool declares, or that nobody tried;
//   - a max_blast_radius for all tools that changes no case;
//   - a tool of a case whose effect nobody declares, so that it counts as
//     irreversible whatever it does;
//   - two tools whose names differ only in letter case, and a tool of verifies
//     that the policy does not let run.
//
// A policy without a finding does what its author wrote down; it may still be the
// wrong thing to want.
func VetPolicy(b []byte) ([]*PolicyError, error) {
	f, err := parsePolicy(b)
	if err != nil {
		return nil, err
	}
	v := vetting{policyFile: &f}
	v.expectations()
	if reach := f.root.member("max_blast_radius"); reach != nil {
		v.reach(reach)
	}
	if tools := f.root.member("tools"); tools != nil {
		for i, tool := range tools.names {
			v.rule(tool, tools.members[i])
		}
		v.alike(tools)
	}
	if verifies := f.root.member("verifies"); verifies != nil {
		for i, predicate := range verifies.names {
			v.verifier(predicate, verifies.members[i])
		}
	}
	slices.SortStableFunc(v.found, func(a, b *PolicyError) int { return cmp.Compare(a.Line, b.Line) })
	return v.found, nil
}

// member is the member of an object by its name, nil if there is none.
func (n *node) member(name string) *node {
	if i := slices.Index(n.names, name); i >= 0 {
		return n.members[i]
	}
	return nil
}

type vetting struct {
	*policyFile
	found []*PolicyError
}

func (v *vetting) say(line int, field, format string, args ...any) {
	v.found = append(v.found, &PolicyError{Line: line, Field: field, Text: fmt.Sprintf(format, args...)})
}

func (v *vetting) expectations() {
	for i := range v.cases {
		c := &v.cases[i]
		if d := v.policy.Evaluate(&c.req, c.fitness); d.Outcome != c.want {
			why := ""
			if len(d.Reasons) > 0 {
				why = " (" + string(d.primary().Code) + ")"
			}
			v.say(c.line, c.field, "want %s, and it is %s%s", c.want, d.Outcome, why)
		}
		if c.req.Contract.Undeclared {
			v.say(c.line, within(c.field, "effect"), "nobody declares what %s does, so it counts as irreversible", neutral(c.req.Contract.Tool, 80))
		}
	}
}

// of are the cases of a tool.
func (v *vetting) of(tool string) (cases []*policyCase) {
	for i := range v.cases {
		if v.cases[i].req.Contract.Tool == tool {
			cases = append(cases, &v.cases[i])
		}
	}
	return cases
}

func (v *vetting) rule(tool string, n *node) {
	field := within("tools", tool)
	rule := v.policy.Tools[tool]
	cases := v.of(tool)
	fires, blocked := false, false
	for _, c := range cases {
		d := v.policy.Evaluate(&c.req, c.fitness)
		fires, blocked = fires || !d.Blocked(), blocked || d.Blocked()
	}
	if !fires && !rule.Never {
		v.say(n.line, field, "no case shows a call that it lets fire")
	}
	if !blocked {
		v.say(n.line, field, "no case shows a call that it blocks")
	}
	if len(cases) == 0 {
		return
	}
	for i, name := range n.names {
		without := rule
		switch name {
		case "trusted_output", "computed_arguments", "repeatable": // it is of what a call returns, or of another call, which no case says
			continue
		case "never":
			without.Never = false
		case "effect":
			without.Effect = nil
		case "max_age":
			without.MaxAge = 0
		case "ceiling":
			without.Ceiling = 0
		case "from_nowhere":
			without.FromNowhere = false
		case "precision":
			without.WholeRun = false
		case "corroboration":
			without.Uncorroborated = false
		case "optional_sinks":
			without.AllSinks = false
		case "named":
			without.Named = false
		case "max_blast_radius":
			without.MaxBlastRadius = OutsideWorld
		}
		p := v.policy
		p.Tools = maps.Clone(p.Tools)
		p.Tools[tool] = without
		if !v.matters(&p, cases) {
			v.say(n.members[i].line, within(field, name), "no case comes out otherwise without it: it is no stricter than what the tool declares, or nobody tried it")
		}
	}
}

// matters reports whether a case comes out otherwise under another policy.
func (v *vetting) matters(other *Policy, cases []*policyCase) bool {
	return slices.ContainsFunc(cases, func(c *policyCase) bool {
		return other.Evaluate(&c.req, c.fitness).Outcome != v.policy.Evaluate(&c.req, c.fitness).Outcome
	})
}

// reach finds a limit for all tools that nobody tried.
func (v *vetting) reach(n *node) {
	without := v.policy
	without.MaxBlastRadius = OutsideWorld
	var cases []*policyCase
	for i := range v.cases {
		cases = append(cases, &v.cases[i])
	}
	if !v.matters(&without, cases) {
		v.say(n.line, "max_blast_radius", "no case comes out otherwise without it")
	}
}

// alike finds names that a person takes for one another.
func (v *vetting) alike(tools *node) {
	seen := map[string]string{}
	for i, tool := range tools.names {
		folded := strings.ToLower(tool)
		if other, ok := seen[folded]; ok {
			v.say(tools.members[i].line, within("tools", tool), "differs from %s in letter case only, and is another tool", neutral(other, 80))
		}
		seen[folded] = tool
	}
}

func (v *vetting) verifier(predicate string, n *node) {
	tool := v.policy.Verifies[predicate]
	field := within("verifies", predicate)
	rule, named := v.policy.Tools[tool]
	switch {
	case rule.Never:
		v.say(n.line, field, "the policy never allows %s", neutral(tool, 80))
	case !named && !v.policy.Declared:
		v.say(n.line, field, "the policy does not name %s", neutral(tool, 80))
	}
}
