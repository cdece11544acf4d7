package gate_test

import (
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
)

func TestADecisionSaysWhatTheDeclarationLoosens(t *testing.T) {
	loose := gate.Contract{Tool: "pay", Effect: gate.Irreversible, Precision: gate.TypedSinks, Corroborate: true, NamedWaived: true,
		Sinks: []string{"/to", "/cc"}, Kinds: map[string]gate.Kind{"/to": gate.KindAccount, "/cc": gate.KindRecipient}, Optional: []string{"/cc"},
		Output: []gate.OutputField{{Pointer: "/iban", Trust: gate.Authoritative}, {Pointer: "/id", Trust: gate.Identifier}, {Pointer: "/note"}}}
	for name, c := range map[string]struct {
		contract gate.Contract
		rule     gate.Rule
		args     string
		want     string
	}{
		"all of it":                        {loose, gate.Rule{}, `{"cc":"a","to":"b"}`, "typed_sinks, corroborated, named_waived, optional /cc, authoritative /iban, identifier /id"},
		"what is declared tight":           {gate.Contract{Tool: "pay", Effect: gate.Irreversible, Sinks: []string{"/to"}, Named: true}, gate.Rule{}, `{"to":"b"}`, ""},
		"a call without what it is judged": {loose, gate.Rule{}, `{"cc":"a"}`, "optional /cc, authoritative /iban, identifier /id"},
		"judged by the whole run":          {loose, gate.Rule{WholeRun: true}, `{"to":"b"}`, "optional /cc, authoritative /iban, identifier /id"},
		"by what the run was shown":        {loose, gate.Rule{Uncorroborated: true}, `{"to":"b"}`, "typed_sinks, named_waived, optional /cc, authoritative /iban, identifier /id"},
		"to be named":                      {loose, gate.Rule{Named: true}, `{"to":"b"}`, "typed_sinks, corroborated, optional /cc, authoritative /iban, identifier /id"},
		"with all sinks":                   {loose, gate.Rule{AllSinks: true}, `{"cc":"a","to":"b"}`, "typed_sinks, corroborated, named_waived, authoritative /iban, identifier /id"},
		"and nothing of it believed":       {loose, gate.Rule{PlainOutput: true}, `{"to":"b"}`, "typed_sinks, corroborated, named_waived, optional /cc"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			g := newGate(t, f, gate.Policy{Name: "p", Tools: map[string]gate.Rule{"pay": c.rule}}, nil)
			d := g.Decide(t.Context(), gate.Request{Contract: c.contract, Args: []byte(c.args), Lineage: gate.Known(nil, nil)})
			if got := strings.Join(d.Loosened, ", "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if len(f.records) != 1 || c.want != "" && !strings.Contains(string(f.records[0].Data), `"loosened":["`+strings.ReplaceAll(c.want, ", ", `","`)+`"]`) {
				t.Errorf("it is not in the record: %s", f.records[0].Data)
			}
			for i := range c.contract.Output {
				field := &c.contract.Output[i]
				if d.Believes(field) != (field.Trust != gate.ThirdParty && !c.rule.PlainOutput) {
					t.Errorf("%s is believed: %t", field.Pointer, d.Believes(field))
				}
			}
		})
	}
}
