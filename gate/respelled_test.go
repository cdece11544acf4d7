package gate_test

import (
	"encoding/json"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
)

// What a tool's decoder takes for an optional sink is not left out, however its name is
// spelled: the declaration then narrows nothing.
func TestAnOptionalSinkOfAnotherSpellingIsNotLeftOut(t *testing.T) {
	c := gate.Contract{Tool: "mail", Effect: gate.Irreversible, Sinks: []string{"/to", "/cc", "/more/0/bcc"}, Optional: []string{"/cc", "/more/0/bcc"}}
	for args, narrows := range map[string]bool{
		`{"to":"a"}`:                            true,
		`{"cc":null,"to":"a"}`:                  true,
		`{"cc":"b","to":"a"}`:                   true,
		`{"body":"CC","to":"a"}`:                true,
		`{"more":[{"cc":"x"}],"to":"a"}`:        true,
		`{"CC":"b","to":"a"}`:                   false,
		`{"Cc":"b","to":"a"}`:                   false,
		`{"CC":null,"to":"a"}`:                  false,
		`{"more":[{"BCC":"x"}],"to":"a"}`:       false,
		`{"MORE":[{"bcc":"x"}],"to":"a"}`:       false,
		`{"more":[{"body":"x"}],"to":"a"}`:      true,
		`{"mo\u0072e":[{"b\u0063C":1}],"to":1}`: false,
	} {
		if _, ok := c.GivenSinks(json.RawMessage(args)); ok != narrows {
			t.Errorf("%s: it narrows: %t", args, ok)
		}
	}
}
