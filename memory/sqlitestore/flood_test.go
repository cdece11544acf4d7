package sqlitestore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestAVerifiedRowIsRecalledAmongManyUnverifiedOnes(t *testing.T) {
	flood := 3_000 // unverified rows that match as well as the verified one
	if sample.Full() {
		flood = 100_000
	}
	d := open(t, fresh(t), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	s := storetest.On(d, nil)
	put := func(d memory.Draft) memory.ID {
		t.Helper()
		d.Content.Subject, d.Content.Predicate, d.Content.Cardinality = "acme", "billing email", memory.CardinalityUnknown
		d.Sensitivity = memory.SensitivityInternal
		r, err := s.Put(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	verified := put(memory.Draft{Content: memory.Content{Object: "pay@acme.example"}, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana", Tool: "crm"},
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: "tool:crm", Anchor: memory.Anchor{URI: "call:1"}, At: time.Now()}}})
	for i := range flood {
		put(memory.Draft{Content: memory.Content{Object: fmt.Sprintf("evil%d@x.example", i)}, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
			Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}})
	}
	for _, q := range []recall.Query{{Text: "what is the billing email of acme"}, {Subject: "acme", Predicate: "billing email"}} {
		for _, p := range []recall.Policy{{}, {Channels: recall.All}} {
			began := time.Now()
			r, err := recall.Recall(t.Context(), s, q, p)
			took := time.Since(began)
			if err != nil || !slices.ContainsFunc(r.Context, func(r memory.Row) bool { return r.ID == verified }) || !r.Truncated {
				t.Errorf("%+v: %d rows, truncated %t, %v", q, len(r.Context), r.Truncated, err)
			}
			t.Logf("among %d others, %+v, all channels %t: %s", flood, q, p.Channels == recall.All, took.Round(100*time.Microsecond))
		}
	}
}
