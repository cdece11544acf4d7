package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

func TestVerifiers(t *testing.T) {
	t.Run("list shows who said what", func(t *testing.T) {
		w := office(t)
		w.golden("verifiers", w.ok("verifier", "list"))
		w.golden("verifiers_json", w.ok("verifier", "list", "-o", "json"))
	})
	t.Run("revoke takes the rows away and names what depended on them", func(t *testing.T) {
		w := office(t)
		key := w.key("ops", "verifier:*/revoke")
		w.decide("post", true, "address")
		w.golden("revoke", w.ok("verifier", "revoke", "crm", "--since", "2026-04-17T08:00:00Z", "--key", key, "--as", "ops", "--reason", "a wrong copy was restored"))
		if r := w.row("address"); r.State() != memory.StateUnverified {
			t.Error(r.State())
		}
		if r := w.row("email"); r.State() != memory.StateVerified {
			t.Error("another verifier's row was taken away")
		}
		r := w.run("verifier", "list")
		if !strings.Contains(r.out, "2026-04-17 08:00:00") || !strings.Contains(r.talk, "verifier crm is revoked since 2026-04-17 08:00:00, by ops: a wrong copy was restored (every row was looked at)") {
			t.Errorf("%s\n%s", r.out, r.talk)
		}
		if out := w.ok("audit", "list", "--row", string(w.ids["address"])); !strings.Contains(out, "a wrong copy was restored") {
			t.Errorf("not in the audit:\n%s", out)
		}
		var walk revokedJSON
		if err := json.Unmarshal([]byte(w.ok("verifier", "walk", "-o", "json")), &walk); err != nil || !walk.Walk.Done || len(walk.Lost) != 0 {
			t.Errorf("%+v, %v", walk, err)
		}
		w.ok("audit", "verify")
	})
	t.Run("revoke says that nobody of the name has given evidence", func(t *testing.T) {
		w := office(t)
		key := w.key("ops", "verifier:*/revoke", "source:*/revoke", "document:*/revoke")
		if err := w.store.AddEvidence(t.Context(), w.ids["email"], "agent", "the tool said so", memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankTool,
			Source: "erp", Verifier: "call", Group: "tool:erp", At: w.now}); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, kind, say string
		}{
			{"crn", "verifier", `No evidence names verifier "crn". hearsay verifier list`},
			{"erp", "verifier", `No evidence names verifier "erp". Some names source "erp": revoke that with --kind source.`},
			{"crm", "verifier", ""},
			{"erp", "source", ""},
			{"call", "verifier", ""},
			{"https://example.com/1", "document", `No evidence names document "https://example.com/1".`},
			{" call", "verifier", `No evidence names verifier " call".`},
		} {
			r := w.run("verifier", "revoke", c.name, "--kind", c.kind, "--since", "2026-04-17T08:00:00Z", "--key", key, "--as", "ops", "--reason", "it lied")
			if r.code != exitDone || strings.Contains(r.talk, "No evidence") != (c.say != "") || !strings.Contains(r.talk, c.say) {
				t.Errorf("%s %s: %+v", c.kind, c.name, r)
			}
		}
	})
	t.Run("revoke as JSON", func(t *testing.T) {
		w := office(t)
		key := w.key("ops", "source:*/revoke")
		w.decide("post", true, "email")
		w.golden("revoke_json", w.ok("verifier", "revoke", "ledger", "--kind", "source", "--since", "2026-04-17T08:00:00Z", "--key", key, "--as", "ops", "--reason", "its clock was wrong", "-o", "json"))
	})
	t.Run("reinstate hears what is said from then on, and moves no row", func(t *testing.T) {
		w := office(t)
		key := w.key("ops", "verifier:*/revoke")
		signed := func(verb string, more ...string) []string {
			return append([]string{"verifier", verb, "crm", "--key", key, "--as", "ops"}, more...)
		}
		if r := w.run(signed("reinstate", "--reason", "the right copy is back")...); r.code != exitNotFound || !strings.Contains(r.talk, "verifier crm is not revoked") {
			t.Errorf("what was never revoked: %+v", r)
		}
		w.ok(signed("revoke", "--since", "2026-04-17T08:00:00Z", "--reason", "a wrong copy was restored")...)
		out := w.ok(signed("reinstate", "--reason", "the right copy is back")...)
		if !strings.Contains(out, "verifier crm, from ") || !strings.Contains(out, "what it said since 2026-04-17 08:00:00 counts no more") {
			t.Error(out)
		}
		if r := w.row("address"); r.State() != memory.StateUnverified {
			t.Errorf("the row came back: %s", r.State())
		}
		r := w.run("verifier", "list")
		if r.code != exitDone || !strings.Contains(r.talk, "verifier crm was revoked since 2026-04-17 08:00:00, by ops: a wrong copy was restored; it is heard again in what it says since ") || strings.Contains(r.out, "2026-04-17 08:00:00") {
			t.Errorf("%+v", r)
		}
		if r := w.run(signed("reinstate", "--reason", "once more")...); r.code != exitNotFound {
			t.Errorf("again: %+v", r)
		}
		w.ok(signed("revoke", "--since", "2026-04-17T08:00:00Z", "--reason", "wrong again")...)
		var ended reinstatedJSON
		if err := json.Unmarshal([]byte(w.ok(signed("reinstate", "--reason", "and back", "-o", "json")...)), &ended); err != nil || ended.Schema != "hearsay.reinstated/1" || len(ended.Revocations) != 1 || ended.Revocations[0].Reinstated.Reason != "and back" || ended.Revocations[0].Reason != "wrong again" {
			t.Errorf("%+v, %v", ended, err)
		}
		w.ok("audit", "verify")
	})
	t.Run("list of an empty store", func(t *testing.T) {
		if r := newWorld(t).run("verifier", "list"); r.code != exitDone || r.out != "" || r.talk != "nobody has given evidence\n" {
			t.Errorf("%+v", r)
		}
	})
}

func TestARevocationIsRefused(t *testing.T) {
	w := office(t)
	ops, ana := w.key("ops", "verifier:*/revoke"), w.key("ana", "acme")
	args := func(more ...string) []string {
		return append([]string{"verifier", "revoke", "crm", "--reason", "it lied"}, more...)
	}
	const since = "2026-04-17T08:00:00Z"
	for _, c := range []struct {
		name string
		args []string
		code int
		talk string
	}{
		{"without a moment", args("--key", ops, "--as", "ops"), exitUsage, "--since is missing"},
		{"with a moment that is none", args("--key", ops, "--as", "ops", "--since", "yesterday"), exitUsage, "--since \"yesterday\""},
		{"without a key", args("--as", "ops", "--since", since), exitUsage, "--key FILE is missing: only a person with a trusted key may revoke it"},
		{"of a kind that is none", args("--key", ops, "--as", "ops", "--since", since, "--kind", "tool"), exitUsage, "--kind \"tool\""},
		{"by a key without a scope", args("--key", ana, "--as", "ana", "--since", since), exitNo, "verifier:crm/revoke"},
		{"by a key of somebody else", args("--key", ana, "--as", "ops", "--since", since), exitNo, "forged"},
		{"of a version of a verifier", args("--key", ops, "--as", "ops", "--since", since, "--version", "1"), exitUsage, "version"},
		{"without a name", []string{"verifier", "revoke"}, exitUsage, "want NAME"},
		{"reinstated without a key", []string{"verifier", "reinstate", "crm", "--as", "ops", "--reason", "r"}, exitUsage, "only a person with a trusted key may reinstate it"},
		{"reinstated without a reason", []string{"verifier", "reinstate", "crm", "--as", "ops", "--key", ops}, exitUsage, "--reason"},
		{"reinstated of a kind that is none", []string{"verifier", "reinstate", "crm", "--kind", "tool", "--as", "ops", "--key", ops, "--reason", "r"}, exitUsage, "--kind \"tool\""},
		{"reinstated by a key without a scope", []string{"verifier", "reinstate", "crm", "--as", "ana", "--key", ana, "--reason", "r"}, exitNo, "verifier:crm/revoke"},
		{"reinstated without a name", []string{"verifier", "reinstate"}, exitUsage, "want NAME"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if r := w.run(c.args...); r.code != c.code || !strings.Contains(r.talk, c.talk) {
				t.Errorf("exit %d: %s", r.code, r.talk)
			}
		})
	}
	if list, _, err := w.store.Revocations(t.Context()); len(list) != 0 || err != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if r := w.row("address"); r.State() != memory.StateVerified {
		t.Error("a refused revocation did something")
	}
}
