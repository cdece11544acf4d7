package agent_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/agent"
)

// A part of what the principal typed is not what the principal typed.
func TestAPartOfATypedNameIsNotTyped(t *testing.T) {
	for typedText, c := range map[string]struct {
		to    string
		fires bool
	}{
		"write to bob@acme.example":                    {"bob@acme.example", true},
		"write to bob@acme.example, please":            {"bob@acme.example", true},
		"write to (bob@acme.example)":                  {"bob@acme.example", true},
		"write to \"bob@acme.example\"":                {"bob@acme.example", true},
		"write to Bob <bob@acme.example>!":             {"bob@acme.example", true},
		"is it bob@acme.example? Yes.":                 {"bob@acme.example", true},
		"write to x!bob@acme.example":                  {"bob@acme.example", false},
		"write to x*bob@acme.example":                  {"bob@acme.example", false},
		"copy to /data/old(1)/tmp":                     {"/data/old", false},
		"copy to /data/a*/tmp":                         {"/data/a", false},
		"copy to /data/old;v2":                         {"/data/old", false},
		"copy to /data/old—2025":                       {"/data/old", false},
		"copy to /data/old\u20102025":                  {"/data/old", false},
		"copy to /data/old\u200b.bak":                  {"/data/old", false},
		"copy to /data/old|x":                          {"/data/old", false},
		"copy to /data/old and then to /data/old/tmp/": {"/data/old", true},
	} {
		t.Run(typedText, func(t *testing.T) {
			w := newWorld(t)
			run := mailbox(t, w, &agent.Options{}).Start("ana")
			typed(t, run, typedText)
			mustFire(t, run, "find", readIn{"newest"})
			if _, err := run.Call(t.Context(), "send", args(sendIn{To: c.to})); (err == nil) != c.fires {
				t.Errorf("%s: %v", c.to, err)
			}
		})
	}
}
