package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunFlood asks, on a driver, that a row which may be relied on is found however many
// others match as well; that it is so in every state that a row comes to, in the transaction in
// which it comes to it; and that a verification and a rebuild know it.
func RunFlood(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	now := time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)
	s, err := memory.New(d, keyring.Ephemeral(), &memory.Options{Tenant: "flood", Clock: func() time.Time { now = now.Add(time.Millisecond); return now },
		Authority: func(p, about, _ string) bool { return p == "cleo" || p == about }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	evidence := memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: "tool:crm", Anchor: memory.Anchor{URI: "call:1"}, At: now}
	put := func(d memory.Draft) memory.ID {
		t.Helper()
		d.Sensitivity = memory.SensitivityInternal
		r, err := s.Put(ctx, d)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	says := func(object string) memory.Content {
		return memory.Content{Subject: "acme", Predicate: "billing email", Object: object, Cardinality: memory.CardinalityUnknown}
	}
	note := func(object string) memory.ID {
		return put(memory.Draft{Content: says(object), Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}})
	}
	verified := put(memory.Draft{Content: says("pay@acme.example"), Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana", Tool: "crm"}, Evidence: []memory.Evidence{evidence}})
	waits := note("office@acme.example")
	own := put(memory.Draft{Content: memory.Content{Subject: "ana", Predicate: "billing email", Object: "ana@acme.example", Cardinality: memory.CardinalityUnknown},
		Origin: memory.OriginUserAsserted, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana"},
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:ana", Verifier: "user", Group: "user:ana", At: now}}})
	const flood = 260
	for i := range flood {
		note(fmt.Sprintf("evil%d@acme.example", i))
	}

	found := func(l memory.Lookup, id memory.ID) bool {
		t.Helper()
		rows, more, err := s.Find(ctx, l)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			t.Errorf("%+v: of %d rows, and that is said to be all", l, len(rows))
		}
		return slices.ContainsFunc(rows, func(r memory.Row) bool { return r.ID == id })
	}
	words := memory.Lookup{Text: "acme billing email"}
	line := memory.Lookup{Subject: "acme", Predicate: "billing email", Limit: 100}
	holds := func(when string, id memory.ID, want bool) {
		t.Helper()
		for _, l := range []memory.Lookup{words, line} {
			if found(l, id) != want {
				t.Errorf("%s: by %+v it is found: %t", when, l, !want)
			}
		}
	}
	apply := func(id memory.ID, to memory.AxisValue, evidence ...memory.Evidence) {
		t.Helper()
		rows, err := s.Get(ctx, id)
		if err == nil {
			who, actor := memory.AuthorityUser, "cleo"
			if len(evidence) > 0 {
				who, actor = memory.AuthorityProbe, "worker"
			}
			_, err = s.Apply(ctx, memory.Transition{Row: id, Revision: rows[0].Revision, To: to, Authority: who, Actor: actor, Source: "test", Reason: "test", Evidence: evidence})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	audited := func(when string, want bool) {
		t.Helper()
		if v, err := s.VerifyAll(ctx, memory.Verifying{Found: func(error) error { return nil }}); err != nil || (v.Found == 0) != want {
			t.Errorf("%s: %d findings, %v", when, v.Found, err)
		}
	}

	holds("verified", verified, true)
	holds("not verified", waits, false)
	apply(waits, memory.TruthSupported, evidence)
	holds("promoted", waits, true)
	apply(waits, memory.TruthUnverified)
	holds("demoted", waits, false)
	for _, to := range []memory.AxisValue{memory.SecurityQuarantined, memory.SecurityClean, memory.RetrievalRestricted, memory.RetrievalNormal, memory.RetrievalPrivilegedOnly} {
		apply(verified, to)
		holds(to.String(), verified, to != memory.SecurityQuarantined && to != memory.RetrievalRestricted)
	}
	words.Principal = "bob"
	if found(words, own) {
		t.Error("the own word of one is found before others for another")
	}
	if words.Principal = "ana"; !found(words, own) {
		t.Error("the own word of one is not found for that one")
	}
	audited("after all of this", true)

	drop := func() {
		t.Helper()
		for o, err := range d.Objects(ctx, s.Tenant(), memory.HeadKey(verified)) {
			if err != nil {
				t.Fatal(err)
			}
			o.Terms = slices.DeleteFunc(o.Terms, func(term memory.Term) bool { return strings.HasPrefix(term.Name, "f") })
			if err := d.Restore(ctx, s.Tenant(), []memory.Restored{o}); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop()
	audited("with the terms of a verified row taken away", false)
	if _, err := s.Rebuild(ctx, "test", nil); err != nil {
		t.Fatal(err)
	}
	holds("rebuilt", verified, true)
	audited("rebuilt", true)
	if _, err := s.Erase(ctx, memory.Erasure{Subject: "acme", Request: "test", Actor: "test"}); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := s.Find(ctx, memory.Lookup{Text: "acme billing"}); err != nil || slices.ContainsFunc(rows, func(r memory.Row) bool { return r.ID == verified }) {
		t.Errorf("erased, and found: %v", err)
	}
	audited("erased", true)
}
