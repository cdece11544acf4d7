package gate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
)

func TestTheDocumentedPolicyIsWithoutAFinding(t *testing.T) {
	found, err := gate.VetPolicy(documented(t))
	if err != nil || len(found) > 0 {
		t.Errorf("%v %v", found, err)
	}
}

// TestVetPolicy: each mistake is found where it stands, and nothing besides.
func TestVetPolicy(t *testing.T) {
	const (
		fires   = `{"tool": "pay", "effect": "irreversible", "rows": [{}], "want": "permitted"}`
		holds   = `{"tool": "pay", "effect": "irreversible", "rows": [{"truth": "unverified"}], "want": "held"}`
		typed   = `{"tool": "pay", "effect": "irreversible", "kinds": {"/to": "account"}, "named_waived": true, "rows": [{"truth": "unverified"}], "sinks": {"/to": "principal"}, "want": "held"}`
		vouched = `{"tool": "pay", "effect": "irreversible", "kinds": {"/to": "account"}, "named_waived": true, "corroborate": true, "rows": [{"truth": "unverified"}, {}], "sinks": {"/to": "corroborated 1"}, "want": "held"}`
	)
	file := func(tools, verifies string, cases ...string) string {
		return fmt.Sprintf("{\"schema\": \"hearsay.policy/1\", \"name\": \"p\", \"version\": \"1\",\n\"tools\": {%s},\n\"verifies\": {%s},\n\"cases\": [\n%s]}", tools, verifies, strings.Join(cases, ",\n"))
	}
	for name, c := range map[string]struct {
		text string
		want []string // "line field: a part of the text"
	}{
		"a rule with both cases":                      {file(`"pay": {}`, "", fires, holds), nil},
		"a rule that nobody tried":                    {file(`"pay": {}`, ""), []string{"2 tools.pay: lets fire", "2 tools.pay: blocks"}},
		"a rule that is seen to permit only":          {file(`"pay": {}`, "", fires), []string{"2 tools.pay: blocks"}},
		"a rule that is seen to block only":           {file(`"pay": {}`, "", holds), []string{"2 tools.pay: lets fire"}},
		"a rule that is the wrong way round":          {file(`"pay": {"never": "trusted"}`, "", fires, holds), []string{"5 cases.0: want permitted, and it is denied (policy_never)", "6 cases.1: want held, and it is denied"}},
		"never needs no case that fires":              {file(`"pay": {"never": "no"}`, "", `{"tool": "pay", "effect": "irreversible", "want": "denied"}`), nil},
		"never that is tried with what is held":       {file(`"pay": {"never": "no"}`, "", `{"tool": "pay", "effect": "irreversible", "rows": [{"truth": "contradicted"}], "want": "denied"}`), []string{"2 tools.pay.never: comes out otherwise"}},
		"an effect that tries to lift":                {file(`"pay": {"effect": "read_only"}`, "", fires, holds), []string{"2 tools.pay.effect: comes out otherwise"}},
		"a case that believes the lift":               {file(`"pay": {"effect": "read_only"}`, "", fires, holds, `{"tool": "pay", "effect": "irreversible", "rows": [{"truth": "unverified"}], "want": "permitted"}`), []string{"2 tools.pay.effect: comes out otherwise", "7 cases.2: want permitted, and it is held (unverified_input)"}},
		"an age that nobody tried":                    {file(`"pay": {"max_age": "1h"}`, "", fires, holds), []string{"2 tools.pay.max_age: comes out otherwise"}},
		"an age that is tried":                        {file(`"pay": {"max_age": "1h"}`, "", fires, `{"tool": "pay", "effect": "irreversible", "rows": [{"verified_ago": "2h"}], "want": "held"}`), nil},
		"an age that is longer than the tool's":       {file(`"pay": {"max_age": "9h"}`, "", fires, `{"tool": "pay", "effect": "irreversible", "max_age": "1h", "rows": [{"verified_ago": "2h"}], "want": "held"}`), []string{"2 tools.pay.max_age: comes out otherwise"}},
		"a ceiling above the tool's":                  {file(`"pay": {"ceiling": "secret"}`, "", fires, `{"tool": "pay", "effect": "irreversible", "rows": [{"sensitivity": "secret"}], "want": "denied"}`), []string{"2 tools.pay.ceiling: comes out otherwise"}},
		"from nowhere on what is irreversible":        {file(`"pay": {"from_nowhere": true}`, "", fires, `{"tool": "pay", "effect": "irreversible", "sinks": {"/to": "nowhere"}, "want": "held"}`), []string{"2 tools.pay.from_nowhere: comes out otherwise"}},
		"from nowhere on what can be undone":          {file(`"pay": {"from_nowhere": true}`, "", `{"tool": "pay", "effect": "state_changing", "sinks": {"/to": "principal"}, "want": "permitted"}`, `{"tool": "pay", "effect": "state_changing", "sinks": {"/to": "nowhere"}, "want": "held"}`), nil},
		"a write that nobody classified":              {file(`"pay": {}`, "", fires, holds, `{"tool": "pay", "rows": [{"truth": "unverified"}], "want": "held"}`), []string{"7 cases.2.effect: counts as irreversible"}},
		"a case of a tool that is not named":          {file(`"pay": {}`, "", fires, holds, `{"tool": "Pay", "effect": "irreversible", "rows": [{}], "want": "permitted"}`), []string{"7 cases.2: tool_not_named"}},
		"rules that have each other's tool":           {file(`"car": {}, "room": {"never": "full"}`, "", `{"tool": "car", "effect": "state_changing", "want": "denied"}`, `{"tool": "room", "effect": "state_changing", "want": "permitted"}`), []string{"2 tools.car: blocks", "5 cases.0: want denied, and it is permitted", "6 cases.1: want permitted, and it is denied"}},
		"tools that look alike":                       {file(`"pay": {"never": "no"}, "Pay": {"never": "no"}`, "", `{"tool": "pay", "effect": "irreversible", "want": "denied"}`, `{"tool": "Pay", "effect": "irreversible", "want": "denied"}`), []string{"2 tools.Pay: letter case"}},
		"a verifying tool that the policy forbids":    {file(`"pay": {"never": "no"}`, `"a.b": "pay"`, `{"tool": "pay", "effect": "irreversible", "want": "denied"}`), []string{"3 verifies.a.b: never allows pay"}},
		"a verifying tool that nobody named":          {file(`"pay": {}`, `"a.b": "crm"`, fires, holds), []string{"3 verifies.a.b: does not name crm"}},
		"whole run on typed sinks":                    {file(`"pay": {"precision": "run"}`, "", fires, typed), nil},
		"whole run on a tool that has no typed sinks": {file(`"pay": {"precision": "run"}`, "", fires, holds), []string{"2 tools.pay.precision: comes out otherwise"}},
		"a case that believes typed sinks":            {file(`"pay": {"precision": "run"}`, "", fires, typed, strings.Replace(typed, "held", "permitted", 1)), []string{"7 cases.2: want permitted, and it is held (unverified_input)"}},
		"no corroboration where there is some":        {file(`"pay": {"corroboration": false}`, "", fires, vouched), nil},
		"no corroboration where there is none":        {file(`"pay": {"corroboration": false}`, "", fires, strings.Replace(vouched, `"corroborate": true, `, "", 1)), []string{"2 tools.pay.corroboration: comes out otherwise"}},
		"no sink left out where one may be":           {file(`"pay": {"optional_sinks": false}`, "", fires, strings.Replace(typed, `{"/to": "account"}`, `{"/to": "account", "/cc": "recipient"}, "optional": ["/cc"]`, 1)), nil},
		"no sink left out where none may be":          {file(`"pay": {"optional_sinks": false}`, "", fires, holds), []string{"2 tools.pay.optional_sinks: comes out otherwise"}},
		"a tool that must be named":                   {file(`"pay": {"named": true}`, "", `{"tool": "pay", "effect": "irreversible", "chosen_by": "principal", "want": "permitted"}`, `{"tool": "pay", "effect": "irreversible", "want": "held"}`), nil},
		"a tool that asks for it itself":              {file(`"pay": {"named": true}`, "", `{"tool": "pay", "effect": "irreversible", "named": true, "chosen_by": "principal", "want": "permitted"}`, `{"tool": "pay", "effect": "irreversible", "named": true, "want": "held"}`), []string{"2 tools.pay.named: comes out otherwise"}},
		"an endorsed row that names the tool":         {file(`"pay": {"named": true}`, "", `{"tool": "pay", "effect": "irreversible", "rows": [{"rank": "user"}], "chosen_by": "row 0", "want": "permitted"}`, `{"tool": "pay", "effect": "irreversible", "rows": [{}], "chosen_by": "row 0", "want": "held"}`), nil},
		"a radius that is tried":                      {file(`"pay": {"max_blast_radius": "principal"}`, "", `{"tool": "pay", "effect": "state_changing", "blast_radius": "one_object", "want": "permitted"}`, `{"tool": "pay", "effect": "state_changing", "want": "held"}`), nil},
		"a radius that nobody tried":                  {file(`"pay": {"max_blast_radius": "principal"}`, "", strings.Replace(fires, `"effect"`, `"blast_radius": "one_object", "effect"`, 1), strings.Replace(holds, `"effect"`, `"blast_radius": "principal", "effect"`, 1)), []string{"2 tools.pay.max_blast_radius: comes out otherwise"}},
		"a verifying tool that the policy lets read":  {file(`"pay": {}`, `"a.b": "pay"`, fires, holds), nil},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := gate.VetPolicy([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			ok := len(found) == len(c.want)
			for i, w := range c.want {
				at, part, _ := strings.Cut(w, ": ")
				ok = ok && i < len(found) && fmt.Sprintf("%d %s", found[i].Line, found[i].Field) == at && strings.Contains(found[i].Text, part)
			}
			if !ok {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}

// TestCasesOfAPolicyAreReadStrictly: a case that is misspelt is refused with its
// place, since one that is dropped would vouch for a rule.
func TestCasesOfAPolicyAreReadStrictly(t *testing.T) {
	for bad, field := range map[string]string{
		`{}`:                            "cases",
		`[1]`:                           "cases.0",
		`[{"tool": "a"}]`:               "cases.0.want",
		`[{"want": "held"}]`:            "cases.0.tool",
		`[{"tool": "a", "want": "ok"}]`: "cases.0.want",
		`[{"tool": "a", "want": "held", "row": []}]`:                                          "cases.0.row",
		`[{"tool": "a", "want": "held", "effect": "none"}]`:                                   "cases.0.effect",
		`[{"tool": "a", "want": "held", "rows": {}}]`:                                         "cases.0.rows",
		`[{"tool": "a", "want": "held", "rows": [{}, {"state": "verified"}]}]`:                "cases.0.rows.1.state",
		`[{"tool": "a", "want": "held", "rows": [{"truth": "true"}]}]`:                        "cases.0.rows.0.truth",
		`[{"tool": "a", "want": "held", "rows": [{"verified_ago": "-1h"}]}]`:                  "cases.0.rows.0.verified_ago",
		`[{"tool": "a", "want": "held", "sinks": {"to": "principal"}}]`:                       "cases.0.sinks.to",
		`[{"tool": "a", "want": "held", "sinks": {"/to": "row"}}]`:                            "cases.0.sinks./to",
		`[{"tool": "a", "want": "held", "sinks": {"/to": "row 0"}}]`:                          "cases.0.sinks./to",
		`[{"tool": "a", "want": "held", "rows": [{}], "sinks": {"/to": "row x"}}]`:            "cases.0.sinks./to",
		`[{"tool": "a", "want": "held", "rows": [{}], "sinks": {"/to": "principal 0"}}]`:      "cases.0.sinks./to",
		`[{"tool": "a", "want": "held", "rows": [{}], "chosen_by": "row -1"}]`:                "cases.0.chosen_by",
		`[{"tool": "a", "want": "held", "effect": "irreversible", "kinds": {"/to": "text"}}]`: "cases.0.kinds./to",
		`[{"tool": "a", "want": "held", "effect": "irreversible", "kinds": {}}]`:              "cases.0.kinds",
		`[{"tool": "a", "want": "held", "effect": "irreversible", "corroborate": true}]`:      "cases.0.kinds",
		`[{"tool": "a", "want": "held", "named": "yes"}]`:                                     "cases.0.named",
	} {
		text := "{\"schema\": \"hearsay.policy/1\", \"name\": \"p\", \"version\": \"1\",\n\"cases\": " + bad + "}"
		_, err := gate.VetPolicy([]byte(text))
		fields := []string{}
		for _, e := range unjoin(err) {
			var w *gate.PolicyError
			if errors.As(e, &w) && w.Line == 2 {
				fields = append(fields, w.Field)
			}
		}
		if !slices.Equal(fields, []string{field}) {
			t.Errorf("%s: %v", bad, err)
		}
		if _, err := gate.ParsePolicy([]byte(text)); err == nil {
			t.Errorf("%s: ParsePolicy reads it", bad)
		}
	}
}

// TestVetPolicyTriesALimitForAllTools: one that no case comes up against is found.
func TestVetPolicyTriesALimitForAllTools(t *testing.T) {
	for reach, want := range map[string]int{"one_object": 0, "principal": 1} {
		text := `{"schema": "hearsay.policy/1", "name": "p", "version": "1", "declared": true, "max_blast_radius": "` + reach + `", "cases": [
{"tool": "tidy", "effect": "state_changing", "blast_radius": "principal", "want": "` + map[int]string{0: "held", 1: "permitted"}[want] + `"}]}`
		found, err := gate.VetPolicy([]byte(text))
		if err != nil || len(found) != want || want == 1 && (found[0].Field != "max_blast_radius" || found[0].Line != 1) {
			t.Errorf("%s: %v, %v", reach, found, err)
		}
	}
}
