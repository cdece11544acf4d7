package agent_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

func TestAPIName(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, want := range map[string]string{
		"search":          "search",
		"crm.get_contact": "crm_get_contact",
		"a/b c":           "a_b_c",
		"é-1":             "_-1",
		"":                "_",
		long:              long,
		long + "x":        long[:55] + "_9537c5fd",
		long + "y":        "",
	} {
		got := agent.APIName(name)
		if want == "" {
			if len(got) != 64 || got == agent.APIName(long+"x") {
				t.Errorf("%q is %q", name, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
	form := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		if got := agent.APIName(name); !form.MatchString(got) || agent.APIName(got) != got {
			t.Fatalf("%q is %q", name, got)
		}
	})
}

func TestTwoToolsWithOneAPINameAreRefused(t *testing.T) {
	w := newWorld(t)
	built := func(names ...string) *agent.Agent {
		var tools []agent.Tool
		for _, name := range names {
			tools = append(tools, agent.Func(name, "", func(context.Context, nothing) (string, error) { return "", nil }))
		}
		a, err := agent.New("a", agent.Model{ID: "m", Family: "f"}, w.store, w.gate, tools, nil)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, pair := range [][]string{{"crm.get", "crm_get"}, {"crm.get", "crm/get"}, {"CRM.get", "crm_get"}, {"日本", "東京"}} {
		if err := built(pair...).CheckAPINames(); !errors.Is(err, agent.ErrAPIName) || !strings.Contains(err.Error(), pair[0]) || !strings.Contains(err.Error(), pair[1]) {
			t.Errorf("%q: %v", pair, err)
		}
	}
	for _, order := range [][]string{{"crm.get", "crm_get"}, {"crm_get", "crm.get"}} { // nobody has asked whether they are two
		if a := built(order...); a.ToolOf("crm_get") != "crm_get" || a.ToolOf("crm.get") != "crm.get" {
			t.Errorf("%q: crm_get is %q", order, a.ToolOf("crm_get"))
		}
	}
	a := built("crm.get", "mail.get", "search")
	if err := a.CheckAPINames(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"crm_get": "crm.get", "crm.get": "crm.get", "mail_get": "mail.get", "search": "search", "else": "else", "": ""} {
		if got := a.ToolOf(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// TestAModelIsToldToCallWhatItCanCall: the tool that checks a row has its name for model APIs.
// The tool that was called keeps its own, and so does the decision.
func TestAModelIsToldToCallWhatItCanCall(t *testing.T) {
	d := gate.Decision{Tool: "mail.send", Outcome: gate.Hold, Reasons: []gate.Reason{{Code: gate.UnverifiedInput}},
		Remedies: []gate.Remedy{{Kind: gate.RemedyCallTool, Tool: "crm.get_contact"}, {Kind: gate.RemedyGoOnWithout}}}
	err := error(&gate.DeniedError{Decision: d})
	if text := agent.APIText(agent.Result{}, err); !strings.Contains(text, "call crm_get_contact.") || !strings.Contains(text, "NOT EXECUTED: mail.send") {
		t.Errorf("%s", text)
	}
	if text := agent.ToolText(agent.Result{}, err); !strings.Contains(text, "call crm.get_contact.") {
		t.Errorf("%s", text)
	}
	failed := fmt.Errorf("%w: it broke: %w", agent.ErrTool, err)
	if agent.APIText(agent.Result{}, failed) != agent.ToolText(agent.Result{}, failed) {
		t.Error("what a tool failed over is told otherwise")
	}
}
