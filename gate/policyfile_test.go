package gate_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// documented is the policy of docs/policy.md.
func documented(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../docs/policy.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "```json\n")
	text, _, found := strings.Cut(text, "```")
	if !found {
		t.Fatal("docs/policy.md shows no policy")
	}
	return []byte(text)
}

func TestTheDocumentedPolicyIsReadAsItSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	if err := os.WriteFile(path, documented(t), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := gate.LoadPolicy(path)
	if err != nil {
		t.Fatal(err)
	}
	irreversible := gate.Irreversible
	want := gate.Policy{Name: "prod", Version: "7", Verifies: map[string]string{"billing.email": "crm_contact"}, Tools: map[string]gate.Rule{
		"crm_contact": {},
		"search":      {Ceiling: memory.SensitivityPublic},
		"set_plan":    {Effect: &irreversible},
		"send_email":  {MaxAge: 24 * time.Hour, Ceiling: memory.SensitivityInternal},
		"pay":         {WholeRun: true},
		"rename":      {MaxBlastRadius: gate.OneObject},
		"tidy":        {Named: true},
		"wipe":        {Never: true, Why: "ask operations"},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if _, err := gate.New(newFake(), got, nil); err != nil {
		t.Error(err)
	}
}

func TestAPolicyFileThatIsWrongSaysWhereAndDeniesEverything(t *testing.T) {
	const head = "{\"schema\": \"hearsay.policy/1\", \"name\": \"prod\",\n\"version\": \"7\",\n"
	type at struct {
		line  int
		field string
	}
	for name, c := range map[string]struct {
		text string
		want []at
	}{
		"nothing":                               {"", []at{{1, ""}}},
		"white space":                           {"\n\n", []at{{3, ""}}},
		"a list":                                {"\n[]", []at{{2, ""}}},
		"a word":                                {`"policy"`, []at{{1, ""}}},
		"null":                                  {"null", []at{{1, ""}}},
		"YAML":                                  {"schema: hearsay.policy/1\n", []at{{1, ""}}},
		"a comment":                             {"{\n// no\n}", []at{{2, ""}}},
		"a comma too many":                      {"{\"name\": \"a\",\n}", []at{{2, ""}}},
		"an end too soon":                       {head + "\"tools\": {\n\"a\": {", []at{{4, "tools.a"}}},
		"two objects":                           {head + "\"tools\": {}}\n{}", []at{{4, ""}}},
		"not UTF-8":                             {"{\"\xff\": 1}", []at{{1, ""}}},
		"a deep one":                            {head + "\"tools\": " + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}", []at{{3, "tools"}}},
		"a long one":                            {head + "\"tools\": {" + strings.Repeat(" ", gate.MaxPolicy) + "}}", []at{{1, ""}}},
		"nothing in it":                         {"{}", []at{{1, "schema"}, {1, "name"}, {1, "version"}}},
		"another schema":                        {"{\"name\": \"p\", \"version\": \"1\",\n\"schema\": \"hearsay.policy/2\"}", []at{{2, "schema"}}},
		"a version that is a number":            {"{\"name\": \"p\", \"schema\": \"hearsay.policy/1\",\n\"version\": 7}", []at{{2, "version"}}},
		"an empty name":                         {"{\"version\": \"p\", \"schema\": \"hearsay.policy/1\",\n\"name\": \" \"}", []at{{2, "name"}}},
		"a field that does not exist":           {head + "\"rules\": {}}", []at{{3, "rules"}}},
		"a field in other letters":              {head + "\"Tools\": {}}", []at{{3, "Tools"}}},
		"a field that is given twice":           {head + "\"tools\": {},\n\"tools\": {}}", []at{{4, "tools"}}},
		"a tool that is given twice":            {head + "\"tools\": {\n\"a\": {\"never\": \"no\"},\n\"a\": {}}}", []at{{5, "tools.a"}}},
		"the same tool by an escape":            {head + "\"tools\": {\n\"a\": {\"never\": \"no\"},\n\"\\u0061\": {}}}", []at{{5, "tools.a"}}},
		"a limit that is given twice":           {head + "\"tools\": {\"a\": {\"max_age\": \"1h\",\n\"max_age\": \"9h\"}}}", []at{{4, "tools.a.max_age"}}},
		"declared by a word":                    {head + "\"declared\": \"no\"}", []at{{3, "declared"}}},
		"declared by nothing":                   {head + "\"declared\": null}", []at{{3, "declared"}}},
		"tools in a list":                       {head + "\"tools\": [\"a\"]}", []at{{3, "tools"}}},
		"a rule that is a word":                 {head + "\"tools\": {\"a\": \"allow\"}}", []at{{3, "tools.a"}}},
		"a rule that is nothing":                {head + "\"tools\": {\"a\": null}}", []at{{3, "tools.a"}}},
		"a tool without a name":                 {head + "\"tools\": {\"\": {}}}", []at{{3, "tools."}}},
		"a tool with a space at end":            {head + "\"tools\": {\"a \": {}}}", []at{{3, "tools.a "}}},
		"a tool nobody can tell apart":          {head + "\"tools\": {\"a\\u200b\": {}}}", []at{{3, "tools.a\u200b"}}},
		"a tool of half a character":            {head + "\"tools\": {\"a\\ud800\": {}}}", []at{{3, "tools.a\ufffd"}}},
		"a field of a rule that does not exist": {head + "\"tools\": {\n\"a\": {\"allow\": true}}}", []at{{4, "tools.a.allow"}}},
		"never without a reason":                {head + "\"tools\": {\"a\": {\"never\": \"\"}}}", []at{{3, "tools.a.never"}}},
		"never as a flag":                       {head + "\"tools\": {\"a\": {\"never\": true}}}", []at{{3, "tools.a.never"}}},
		"an effect that does not exist":         {head + "\"tools\": {\"a\": {\"effect\": \"readonly\"}}}", []at{{3, "tools.a.effect"}}},
		"an effect by number":                   {head + "\"tools\": {\"a\": {\"effect\": 2}}}", []at{{3, "tools.a.effect"}}},
		"an age that is none":                   {head + "\"tools\": {\"a\": {\"max_age\": \"0s\"}}}", []at{{3, "tools.a.max_age"}}},
		"an age below nothing":                  {head + "\"tools\": {\"a\": {\"max_age\": \"-1h\"}}}", []at{{3, "tools.a.max_age"}}},
		"an age by number":                      {head + "\"tools\": {\"a\": {\"max_age\": 3600}}}", []at{{3, "tools.a.max_age"}}},
		"a ceiling that does not exist":         {head + "\"tools\": {\"a\": {\"ceiling\": \"none\"}}}", []at{{3, "tools.a.ceiling"}}},
		"typed sinks, by a rule":                {head + "\"tools\": {\"a\": {\"precision\": \"typed_sinks\"}}}", []at{{3, "tools.a.precision"}}},
		"corroboration, by a rule":              {head + "\"tools\": {\"a\": {\"corroboration\": true}}}", []at{{3, "tools.a.corroboration"}}},
		"a name, lifted":                        {head + "\"tools\": {\"a\": {\"named\": false}}}", []at{{3, "tools.a.named"}}},
		"a radius that limits nothing":          {head + "\"tools\": {\"a\": {\"max_blast_radius\": \"outside_world\"}}}", []at{{3, "tools.a.max_blast_radius"}}},
		"a radius that does not exist":          {head + "\"tools\": {\"a\": {\"max_blast_radius\": \"city\"}}}", []at{{3, "tools.a.max_blast_radius"}}},
		"a radius by number":                    {head + "\"max_blast_radius\": 2}", []at{{3, "max_blast_radius"}}},
		"a radius for all that limits nothing":  {head + "\"max_blast_radius\": \"outside_world\"}", []at{{3, "max_blast_radius"}}},
		"from nowhere, lifted":                  {head + "\"tools\": {\"a\": {\"from_nowhere\": false}}}", []at{{3, "tools.a.from_nowhere"}}},
		"a predicate without a name":            {head + "\"verifies\": {\"\": \"crm\"}}", []at{{3, "verifies."}}},
		"a predicate without a tool":            {head + "\"verifies\": {\"a.b\": \"\"}}", []at{{3, "verifies.a.b"}}},
		"three things at once": {head + "\"tools\": {\n\"a\": {\"effect\": \"x\"},\n\"b\": {\"ceiling\": \"y\"}},\n\"other\": 1}",
			[]at{{4, "tools.a.effect"}, {5, "tools.b.ceiling"}, {6, "other"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := gate.ParsePolicy([]byte(c.text))
			if !reflect.DeepEqual(p, gate.Policy{}) {
				t.Errorf("what came with the error is %+v", p)
			}
			var got []at
			for _, e := range unjoin(err) {
				var w *gate.PolicyError
				if !errors.As(e, &w) || !errors.Is(e, gate.ErrPolicy) {
					t.Fatalf("%v", e)
				}
				got = append(got, at{w.Line, w.Field})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v: %v", got, c.want, err)
			}
			d := newGate(t, newFake(), p, nil).Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "a", Effect: gate.ReadOnly}, Lineage: gate.Known(nil, nil)})
			if !errors.Is(d.Err(), gate.ErrToolNotNamed) {
				t.Errorf("it does not deny: %v", d.Err())
			}
		})
	}
	if _, err := gate.LoadPolicy(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// unjoin are the errors that were joined.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// FuzzParsePolicy: a file is read whole or not at all; what is wrong stands on a
// line of it; what is read can be vetted and builds a gate.
func FuzzParsePolicy(f *testing.F) {
	f.Add(documented(f))
	for _, s := range []string{`{"schema":"hearsay.policy/1","name":"p","version":"1","tools":{"a":{"max_age":"1h"}},"cases":[{"tool":"a","want":"held","rows":[{"truth":"unverified","verified_ago":"2h"}],"sinks":{"/to":"nowhere"}}]}`, "", "{}", "[", `{"schema":"hearsay.policy/1","name":"p","version":"1","declared":true,"tools":{"a":{"never":"no"}}}`, "{\"tools\":{\"a\":{\n\"x\":1}}}", `{"a":"\ud800"}`, "{\"name\":\"\\u202e\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := gate.ParsePolicy(b)
		if err != nil {
			if !reflect.DeepEqual(p, gate.Policy{}) {
				t.Fatalf("half a policy: %+v", p)
			}
			for _, e := range unjoin(err) {
				var w *gate.PolicyError
				if !errors.As(e, &w) || w.Line < 1 || w.Line > 1+bytes.Count(b, []byte("\n")) || strings.ContainsAny(w.Error(), "\n\x1b") {
					t.Fatalf("%q: %v", b, e)
				}
			}
			return
		}
		if _, err := gate.VetPolicy(b); err != nil {
			t.Fatalf("%q: it is read, and cannot be vetted: %v", b, err)
		}
		if _, err := gate.New(newFake(), p, nil); err != nil || p.Name == "" || p.Version == "" {
			t.Fatalf("%q: %+v, %v", b, p, err)
		}
	})
}

func TestAPolicyRegistersPredicates(t *testing.T) {
	p, err := gate.ParsePolicy([]byte(`{"schema":"hearsay.policy/1","name":"p","version":"1","predicates":{
		"billing.iban":{"cardinality":"functional","criticality":"critical","check_every":"48h","sources":["erp","crm"],"kinds":["account"]},
		"likes":{"cardinality":"set_valued"},
		"code":{"exact_subjects":true},"handle":{"identifier":true},"price":{"kinds":["amount"]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range p.Registry() {
		if of.Identifier != (name == "handle" || name == "billing.iban") || of.ExactSubjects != (name == "code") {
			t.Errorf("%s: %+v", name, of)
		}
	}
	iban, likes := p.Registry()["billing.iban"], p.Registry()["likes"]
	if iban.Cardinality != memory.CardinalityFunctional || iban.Criticality != memory.CriticalityCritical || iban.CheckEvery != 48*time.Hour ||
		!slices.Equal(iban.Sources, []string{"erp", "crm"}) || likes.Cardinality != memory.CardinalitySetValued || likes.Sources != nil {
		t.Errorf("%+v, %+v", iban, likes)
	}
	if kinds := p.Kinds(); len(kinds) != 2 || !slices.Equal(kinds["billing.iban"], []gate.Kind{gate.KindAccount}) {
		t.Errorf("kinds: %v", kinds)
	}
	for field, text := range map[string]string{
		"predicates.p.cardinality": `{"cardinality":"unknown"}`,
		"predicates.p.criticality": `{"criticality":"grave"}`,
		"predicates.p.check_every": `{"check_every":"0s"}`,
		"predicates.p.sources":     `{"sources":[]}`,
		"predicates.p.sources.0":   `{"sources":[""]}`,
		"predicates.p.kinds.0":     `{"kinds":["none"]}`,
		"predicates.p.kind":        `{"kind":"account"}`,
		"predicates.p":             `[]`,
		"predicates.":              `x`,
	} {
		of := `"p":` + text
		if text == "x" {
			of = `"":{}`
		}
		_, err := gate.ParsePolicy([]byte(`{"schema":"hearsay.policy/1","name":"p","version":"1","predicates":{` + of + `}}`))
		var wrong *gate.PolicyError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
