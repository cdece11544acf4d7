package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// Principals of one namespace share a memory, as the README says. A namespace each separates
// them.
func TestANamespaceSeparatesPrincipals(t *testing.T) {
	for name, c := range map[string]struct {
		other  string // the namespace of the second principal
		shared bool
	}{
		"one namespace": {"ana", true},
		"two":           {"bob", false},
	} {
		t.Run(name, func(t *testing.T) {
			d, keys := storetest.NewMap(), keyring.Ephemeral()
			start := func(namespace, principal string) *agent.Run {
				s, err := memory.New(d, keys, &memory.Options{Namespace: namespace})
				if err != nil {
					t.Fatal(err)
				}
				g, err := gate.New(s, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				pay := agent.Func("payroll", "reads a salary", func(context.Context, searchIn) (string, error) { return "5000", nil },
					agent.ReadOnly(), agent.Authoritative("", "salary", "/words"))
				a, err := agent.New("hr", agent.Model{ID: "m", Family: "f"}, s, g, []agent.Tool{pay}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return a.Start(principal)
			}
			mustFire(t, start("ana", "ana"), "payroll", searchIn{"ana"})
			got, err := start(c.other, "bob").Recall(t.Context(), recall.Query{Subject: "ana", Predicate: "salary"})
			if err != nil {
				t.Fatal(err)
			}
			if shared := strings.Contains(got.Text, "5000") && strings.Contains(got.Text, "verified"); shared != c.shared {
				t.Errorf("bob is shown: %q", got.Text)
			}
		})
	}
}
