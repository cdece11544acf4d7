package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// After a person rejected old@acme.example for acme, the look-up of "ACME" or "acme." does not make it
// verified again, so that no mail goes out.
func TestARejectedAddressIsMailedUnderNoOtherName(t *testing.T) {
	everything := func(string, string, string) bool { return true }
	policy := gate.Policy{Predicates: map[string]gate.Predicate{"billing.email": {Kinds: []gate.Kind{gate.KindRecipient}}}}
	for _, name := range []string{"acme", "ACME", "acme.", "Acme ", "umbrella"} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, memory.Options{Authority: everything, Predicates: policy.Registry()})
			address := "old@acme.example"
			directory := agent.Func("directory", "looks up a customer, however the name is written", func(_ context.Context, in lookupIn) (lookupOut, error) {
				return lookupOut{Email: address}, nil
			}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer"))
			a := w.agent(t, directory)
			first := a.Start("ana")
			res := mustFire(t, first, "directory", lookupIn{"acme"})
			mustFire(t, first, "send_email", mailIn{To: address})
			row := w.row(t, res.Rows[0])
			if _, err := w.store.Apply(t.Context(), memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Reject: true,
				Actor: "cleo", Source: "user:cleo", Reason: "they moved", Evidence: []memory.Evidence{{Relation: memory.RelationContradicts, Rank: memory.RankUser, Source: "user:cleo",
					Verifier: "confirm", Group: "user:cleo", Anchor: memory.Anchor{URI: "confirm:1"}, At: w.store.Now()}}}); err != nil {
				t.Fatal(err)
			}
			run := a.Start("ana")
			res = mustFire(t, run, "directory", lookupIn{name})
			if state := w.row(t, res.Rows[0]).State(); state == memory.StateVerified {
				t.Errorf("it is %s again", state)
			}
			want := gate.ErrUnverified
			if name == "acme" {
				want = gate.ErrContradicted
			}
			mustBlock(t, run, "send_email", mailIn{To: address}, want)

			// What the directory says next goes out.
			address = "new@acme.example"
			run = a.Start("ana")
			mustFire(t, run, "directory", lookupIn{strings.TrimSpace(name)})
			mustFire(t, run, "send_email", mailIn{To: address})
		})
	}
}

// The second spelling of a name has no verified row of its own, until the predicate is registered as one
// of names that are exact.
func TestASecondSpellingIsThirdPartyUntilDeclared(t *testing.T) {
	for name, exact := range map[string]bool{"undeclared": false, "declared": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, memory.Options{Predicates: map[string]memory.Predicate{"billing.email": {ExactSubjects: exact}}})
			directory := agent.Func("directory", "looks up a customer, however the name is written", func(_ context.Context, in lookupIn) (lookupOut, error) {
				return lookupOut{Email: "ops@acme.example"}, nil
			}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer"))
			a := w.agent(t, directory)
			mustFire(t, a.Start("ana"), "directory", lookupIn{"acme"})
			second := a.Start("ana")
			mustFire(t, second, "directory", lookupIn{"ACME"})
			if exact {
				mustFire(t, second, "send_email", mailIn{To: "ops@acme.example"})
			} else {
				mustBlock(t, second, "send_email", mailIn{To: "ops@acme.example"}, gate.ErrUnverified)
			}
			first := a.Start("ana")
			mustFire(t, first, "directory", lookupIn{"acme"})
			mustFire(t, first, "send_email", mailIn{To: "ops@acme.example"})
		})
	}
}

// What a system says of the principal's own account counts, whoever looked up a name like the principal's before.
func TestThePrincipalsOwnAccountHasNoOtherSpelling(t *testing.T) {
	w := newWorld(t)
	ana := lookupOut{Email: "ana@acme.example"}
	directory := agent.Func("directory", "looks up a customer", func(context.Context, lookupIn) (lookupOut, error) { return ana, nil },
		agent.ReadOnly(), agent.Record("", "account", "/customer"), agent.WrittenByOperator("/email", "/note"), agent.SystemOfRecord("crm"))
	account := agent.Func("account", "the principal's own account", func(context.Context, nothing) (lookupOut, error) { return ana, nil },
		agent.ReadOnly(), agent.Record("", "account"), agent.WrittenByOperator("/email", "/note"), agent.SystemOfRecord("crm"))
	a := w.agent(t, directory, account)
	for _, c := range []struct {
		tool     string
		in       any
		verified bool
	}{{"directory", lookupIn{"Ana"}, true}, {"directory", lookupIn{"ANA"}, false}, {"account", nothing{}, true}} {
		res := mustFire(t, a.Start("ana"), c.tool, c.in)
		if row := w.row(t, res.Rows[0]); (row.State() == memory.StateVerified) != c.verified {
			t.Errorf("%s(%+v): %s is %s", c.tool, c.in, row.Content, row.State())
		}
	}
}
