package gate

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hearsay-go/hearsay/memory"
)

// PolicySchema is the first field of a policy file: the format and its version.
const PolicySchema = "hearsay.policy/1"

// MaxPolicy is the most bytes of a policy file.
const MaxPolicy = 1 << 20

// ErrPolicy is the sentinel of every [*PolicyError].
var ErrPolicy = errors.New("gate: not a policy")

// PolicyError says what is wrong with a policy file, and where.
type PolicyError struct {
	Line  int    // from 1
	Field string // "tools.send_email.max_age"; "" = the file as a whole
	Text  string // for people
}

// Error is one line.
func (e *PolicyError) Error() string {
	field := ""
	if e.Field != "" {
		field = neutral(e.Field, 160) + ": "
	}
	return fmt.Sprintf("gate: policy: line %d: %s%s", e.Line, field, e.Text)
}

// Is reports whether target is [ErrPolicy].
func (e *PolicyError) Is(target error) bool { return target == ErrPolicy }

// LoadPolicy reads the policy file at a path, as [ParsePolicy] does.
func LoadPolicy(path string) (Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return Policy{}, fmt.Errorf("gate: policy: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxPolicy+1))
	if err != nil {
		return Policy{}, fmt.Errorf("gate: policy: %w", err)
	}
	return ParsePolicy(b)
}

// ParsePolicy reads a policy file: one JSON object, as docs/policy.md describes it.
//
//	{
//	  "schema": "hearsay.policy/1",
//	  "name": "prod",
//	  "version": "7",
//	  "declared": false,
//	  "tools": {
//	    "search": {},
//	    "send_email": {"max_age": "24h", "ceiling": "internal"},
//	    "wipe": {"never": "ask operations"}
//	  },
//	  "verifies": {"billing.email": "crm_contact"},
//	  "predicates": {"billing.iban": {"cardinality": "functional", "criticality": "critical", "kinds": ["account"]}}
//	}
//
// It is strict: a field that does not exist, one that is given twice, one of
// another type, and a value that would change nothing where it seems to tighten are
// refused, each as a [*PolicyError] with its line and field. All of them are
// reported, joined. With an error comes the zero Policy, which denies everything
// (I-5).
func ParsePolicy(b []byte) (Policy, error) {
	f, err := parsePolicy(b)
	if err != nil {
		return Policy{}, err
	}
	return f.policy, nil
}

// policyFile is all that a file says.
type policyFile struct {
	policy Policy
	root   *node
	cases  []policyCase
}

func parsePolicy(b []byte) (policyFile, error) {
	root, err := readPolicy(b)
	if err != nil {
		return policyFile{}, err
	}
	r := policyReader{}
	f := policyFile{policy: r.policy(root), root: root, cases: r.cases}
	if len(r.errs) > 0 {
		return policyFile{}, errors.Join(r.errs...)
	}
	if err := f.policy.check(); err != nil { // what a file can say has been checked; this is for what it cannot
		return policyFile{}, &PolicyError{Line: 1, Text: err.Error()}
	}
	return f, nil
}

// node is a JSON value that knows its line.
type node struct {
	line    int
	value   any // json.Delim, string, bool, json.Number or nil
	names   []string
	members []*node
}

const maxPolicyDepth = 8

// readPolicy reads one JSON object, and where each of its values stands.
func readPolicy(b []byte) (*node, error) {
	if len(b) > MaxPolicy {
		return nil, &PolicyError{Line: 1, Text: fmt.Sprintf("more than %d bytes", MaxPolicy)}
	}
	if !utf8.Valid(b) {
		return nil, &PolicyError{Line: 1, Text: "not UTF-8"}
	}
	s := policyScanner{d: json.NewDecoder(bytes.NewReader(b)), text: b}
	s.d.UseNumber()
	root, err := s.value("", 0)
	if err != nil {
		return nil, err
	}
	if _, err := s.d.Token(); !errors.Is(err, io.EOF) {
		return nil, &PolicyError{Line: s.line(), Text: "something follows the object"}
	}
	if root.value != json.Delim('{') {
		return nil, &PolicyError{Line: root.line, Text: "a policy is one JSON object"}
	}
	return root, nil
}

type policyScanner struct {
	d     *json.Decoder
	text  []byte
	until int64 // lines are counted up to here
	lines int
}

// line is the line that the last token stands on.
func (s *policyScanner) line() int {
	at := s.d.InputOffset()
	s.lines += bytes.Count(s.text[s.until:at], []byte("\n"))
	s.until = at
	return s.lines + 1
}

func (s *policyScanner) token(field string) (json.Token, error) {
	t, err := s.d.Token()
	if err == nil {
		return t, nil
	}
	line := s.line()
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) && syntax.Offset <= int64(len(s.text)) {
		line = 1 + bytes.Count(s.text[:syntax.Offset], []byte("\n"))
	}
	text := "not JSON"
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		line, text = 1+bytes.Count(s.text, []byte("\n")), "it ends too soon"
	}
	return nil, &PolicyError{Line: line, Field: field, Text: text}
}

func (s *policyScanner) value(field string, depth int) (*node, error) {
	t, err := s.token(field)
	if err != nil {
		return nil, err
	}
	n := &node{line: s.line(), value: t}
	if _, open := t.(json.Delim); !open {
		return n, nil
	}
	if depth == maxPolicyDepth {
		return nil, &PolicyError{Line: n.line, Field: field, Text: "nested too deeply"}
	}
	seen := map[string]bool{}
	for s.d.More() {
		name, at := "", field
		if t == json.Delim('{') {
			key, err := s.token(field)
			if err != nil {
				return nil, err
			}
			name, _ = key.(string) // the decoder has no other keys
			at = within(field, name)
			if seen[name] {
				return nil, &PolicyError{Line: s.line(), Field: at, Text: "given twice"}
			}
			seen[name] = true
		}
		child, err := s.value(at, depth+1)
		if err != nil {
			return nil, err
		}
		n.names, n.members = append(n.names, name), append(n.members, child)
	}
	if _, err := s.token(field); err != nil {
		return nil, err
	}
	return n, nil
}

func within(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

// policyReader makes a policy of what was read, and collects what is wrong.
type policyReader struct {
	errs  []error
	cases []policyCase
}

func (r *policyReader) wrong(n *node, field, format string, args ...any) {
	r.errs = append(r.errs, &PolicyError{Line: n.line, Field: field, Text: fmt.Sprintf(format, args...)})
}

// each calls read for every member of an object.
func (r *policyReader) each(n *node, field string, read func(name, field string, n *node)) {
	if n.value != json.Delim('{') {
		r.wrong(n, field, "want an object")
		return
	}
	for i, name := range n.names {
		read(name, within(field, name), n.members[i])
	}
}

// list calls read for every element of a list.
func (r *policyReader) list(n *node, field string, read func(field string, n *node)) {
	if n.value != json.Delim('[') {
		r.wrong(n, field, "want a list")
		return
	}
	for i, child := range n.members {
		read(within(field, strconv.Itoa(i)), child)
	}
}

// choice reads one of a few words.
func (r *policyReader) choice(n *node, field string, into encoding.TextUnmarshaler, words ...string) {
	if s := r.text(n, field); s != "" && into.UnmarshalText([]byte(s)) != nil {
		r.wrong(n, field, "want one of %s", strings.Join(words, ", "))
	}
}

// duration reads a time that is more than nothing.
func (r *policyReader) duration(n *node, field string) time.Duration {
	s := r.text(n, field)
	d, err := time.ParseDuration(s)
	switch {
	case s == "":
	case err != nil:
		r.wrong(n, field, "want a duration such as 24h or 30m")
	case d <= 0:
		r.wrong(n, field, "want more than 0: a limit of 0 is none")
	}
	return d
}

// text reads a string that says something.
func (r *policyReader) text(n *node, field string) string {
	s, ok := n.value.(string)
	switch {
	case !ok:
		r.wrong(n, field, "want a string")
	case strings.TrimSpace(s) == "":
		r.wrong(n, field, "is empty")
	case len(s) > memory.MaxField:
		r.wrong(n, field, "%d bytes, at most %d", len(s), memory.MaxField)
	default:
		return s
	}
	return ""
}

func (r *policyReader) flag(n *node, field string) bool {
	v, ok := n.value.(bool)
	if !ok {
		r.wrong(n, field, "want true or false")
	}
	return v
}

// name checks the name of a tool or predicate. Names are compared bytewise, so one
// that cannot be told from another by eye is a trap.
func (r *policyReader) name(n *node, field, name, what string) {
	switch {
	case strings.TrimSpace(name) == "":
		r.wrong(n, field, "a %s without a name", what)
	case strings.TrimSpace(name) != name, strings.ContainsRune(name, utf8.RuneError), neutral(name, len(name)+1) != name:
		r.wrong(n, field, "the name of the %s holds a quote, or what cannot be seen", what)
	}
}

func (r *policyReader) policy(root *node) Policy {
	var p Policy
	given := map[string]bool{}
	r.each(root, "", func(name, field string, n *node) {
		given[name] = true
		switch name {
		case "schema":
			if s := r.text(n, field); s != "" && s != PolicySchema {
				r.wrong(n, field, "want %q", PolicySchema)
			}
		case "name":
			p.Name = r.text(n, field)
		case "version":
			p.Version = r.text(n, field)
		case "declared":
			p.Declared = r.flag(n, field)
		case "max_blast_radius":
			p.MaxBlastRadius = r.reach(n, field)
		case "unknown_for":
			if n.value == "settled" {
				p.UnknownFor = -1
			} else {
				p.UnknownFor = r.duration(n, field)
			}
		case "tools":
			p.Tools = map[string]Rule{}
			r.each(n, field, func(tool, field string, n *node) {
				r.name(n, field, tool, "tool")
				p.Tools[tool] = r.rule(n, field)
			})
		case "verifies":
			p.Verifies = map[string]string{}
			r.each(n, field, func(predicate, field string, n *node) {
				r.name(n, field, predicate, "predicate")
				tool := r.text(n, field)
				if tool != "" {
					r.name(n, field, tool, "tool")
				}
				p.Verifies[predicate] = tool
			})
		case "predicates":
			p.Predicates = map[string]Predicate{}
			r.each(n, field, func(predicate, field string, n *node) {
				r.name(n, field, predicate, "predicate")
				p.Predicates[predicate] = r.predicate(n, field)
			})
		case "cases":
			r.list(n, field, func(field string, n *node) { r.cases = append(r.cases, r.policyCase(n, field)) })
		default:
			r.wrong(n, field, "no such field; there are schema, name, version, declared, max_blast_radius, unknown_for, tools, verifies, predicates, cases")
		}
	})
	for _, name := range []string{"schema", "name", "version"} {
		if !given[name] {
			r.wrong(root, name, "is missing")
		}
	}
	return p
}

var sensitivities = []string{"public", "internal", "confidential", "secret"}

func (r *policyReader) rule(n *node, field string) Rule {
	var rule Rule
	r.each(n, field, func(name, field string, n *node) {
		switch name {
		case "never":
			rule.Why = r.text(n, field)
			rule.Never = true
		case "effect":
			rule.Effect = new(Effect)
			r.choice(n, field, rule.Effect, effectNames[:]...)
		case "max_age":
			rule.MaxAge = r.duration(n, field)
		case "ceiling":
			r.choice(n, field, &rule.Ceiling, sensitivities...)
		case "from_nowhere":
			if rule.FromNowhere = r.flag(n, field); !rule.FromNowhere && n.value == false {
				r.wrong(n, field, "want true, or leave it out: a rule cannot lift what an irreversible tool is held for")
			}
		case "precision":
			var p Precision
			if r.choice(n, field, &p, precisionNames[:]...); p == TypedSinks {
				r.wrong(n, field, "want run, or leave it out: a rule cannot judge a call by less than the tool declares")
			}
			rule.WholeRun = true
		case "corroboration":
			if rule.Uncorroborated = !r.flag(n, field); !rule.Uncorroborated {
				r.wrong(n, field, "want false, or leave it out: a rule cannot let a row vouch that the tool does not")
			}
		case "optional_sinks":
			if rule.AllSinks = !r.flag(n, field); !rule.AllSinks {
				r.wrong(n, field, "want false, or leave it out: a rule cannot let a call leave out a sink that the tool wants")
			}
		case "trusted_output":
			if rule.PlainOutput = !r.flag(n, field); !rule.PlainOutput {
				r.wrong(n, field, "want false, or leave it out: a rule cannot have fields believed that the tool does not declare")
			}
		case "computed_arguments":
			if rule.Underived = !r.flag(n, field); !rule.Underived {
				r.wrong(n, field, "want false, or leave it out: a rule cannot have an argument computed that the tool does not declare")
			}
		case "repeatable":
			if rule.Once = !r.flag(n, field); !rule.Once {
				r.wrong(n, field, "want false, or leave it out: a rule cannot let a call be repeated that the tool does not")
			}
		case "named":
			if rule.Named = r.flag(n, field); !rule.Named && n.value == false {
				r.wrong(n, field, "want true, or leave it out: a rule cannot lift what the tool declares")
			}
		case "max_blast_radius":
			rule.MaxBlastRadius = r.reach(n, field)
		default:
			r.wrong(n, field, "no such field; a rule has never, effect, max_age, ceiling, from_nowhere, precision, corroboration, optional_sinks, trusted_output, computed_arguments, repeatable, named, max_blast_radius")
		}
	})
	return rule
}

// predicate reads what is said of a predicate.
func (r *policyReader) predicate(n *node, field string) Predicate {
	var p Predicate
	r.each(n, field, func(name, field string, n *node) {
		switch name {
		case "cardinality":
			if r.choice(n, field, &p.Cardinality, "functional", "set_valued"); p.Cardinality == memory.CardinalityUnknown {
				r.wrong(n, field, "want functional or set_valued, or leave it out")
			}
		case "criticality":
			r.choice(n, field, &p.Criticality, "low", "medium", "high", "critical")
		case "check_every":
			p.CheckEvery = r.duration(n, field)
		case "sources":
			p.Sources = []string{}
			r.list(n, field, func(field string, n *node) { p.Sources = append(p.Sources, r.text(n, field)) })
			if len(p.Sources) == 0 {
				r.wrong(n, field, "want at least one, or leave it out: then any source speaks for it")
			}
		case "placeholders":
			r.list(n, field, func(field string, n *node) { p.Placeholders = append(p.Placeholders, r.text(n, field)) })
		case "exact_subjects":
			p.ExactSubjects = r.flag(n, field)
		case "identifier":
			p.Identifier = r.flag(n, field)
		case "kinds":
			r.list(n, field, func(field string, n *node) {
				var k Kind
				if r.choice(n, field, &k, kindNames[1:]...); k == KindNone && n.value == kindNames[0] {
					r.wrong(n, field, "want one of %s", strings.Join(kindNames[1:], ", "))
				}
				p.Kinds = append(p.Kinds, k)
			})
		default:
			r.wrong(n, field, "no such field; a predicate has cardinality, criticality, check_every, sources, placeholders, exact_subjects, identifier, kinds")
		}
	})
	return p
}

// reach reads a limit of how far tools may reach. One of outside_world would be none.
func (r *policyReader) reach(n *node, field string) BlastRadius {
	var b BlastRadius
	wrong := len(r.errs)
	if r.choice(n, field, &b, blastNames[1:]...); b == OutsideWorld && len(r.errs) == wrong {
		r.wrong(n, field, "want one of %s, or leave it out: any tool may reach as far as outside_world", strings.Join(blastNames[1:], ", "))
	}
	return b
}

// RuleLine is the line of a policy file on which the rule of a tool begins, from 1;
// 0 if it has none. What is no JSON object gives a [*PolicyError].
func RuleLine(b []byte, tool string) (int, error) {
	root, err := readPolicy(b)
	if err != nil {
		return 0, err
	}
	for i, name := range root.names {
		if name != "tools" {
			continue
		}
		for j, rule := range root.members[i].names {
			if rule == tool {
				return root.members[i].members[j].line, nil
			}
		}
	}
	return 0, nil
}
