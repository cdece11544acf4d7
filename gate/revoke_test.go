package gate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A call that the gate has just let fire, on rows that it remembers, is held the moment
// the verifier of one of them is revoked; no row has moved (I-7).
func TestARevocationIsFeltByTheNextDecision(t *testing.T) {
	s := storetest.NewStore(nil)
	by := memory.Asserter{Principal: "ana", Tool: "crm"}
	r, err := s.Put(t.Context(), memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "email", Object: "a@acme.example", Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: by.Group(), At: s.Now()}}})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(t, s, declared(), nil)
	for range 3 {
		if d := g.Decide(t.Context(), another(r.ID)); d.Err() != nil {
			t.Fatal(d.Err())
		}
	}
	if err := s.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedSource, Name: "crm", Since: time.Unix(1, 0), By: "ops", Reason: "it lied"}, 1); err != nil {
		t.Fatal(err)
	}
	for _, walked := range []bool{false, true} {
		d := g.Decide(t.Context(), another(r.ID))
		if !errors.Is(d.Err(), gate.ErrUnverified) || d.Fault {
			t.Fatalf("walked %v: %v", walked, d.Err())
		}
		if said := strings.Contains(d.Err().Error(), "what verified it was revoked"); said == walked {
			t.Errorf("walked %v: %v", walked, d.Err())
		}
		if _, err := s.WalkRevocations(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
}
