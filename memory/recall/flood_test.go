package recall_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A flood of newer claims that nobody verified hides none that somebody did.
func TestAFloodHidesNoVerifiedRow(t *testing.T) {
	s := storetest.NewStore(nil)
	put := func(object string, state memory.State) memory.ID {
		d := memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "billing email", Object: object, Cardinality: memory.CardinalityUnknown},
			Origin: memory.OriginModelDerived, State: state, Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal}
		if state == memory.StateVerified {
			d.Origin, d.Asserter = memory.OriginFirstHand, memory.Asserter{Principal: "ana", Tool: "crm"}
			d.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "call", Group: "tool:crm", Anchor: memory.Anchor{URI: "call:1"}, At: time.Now()}}
		}
		r, err := s.Put(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	verified := put("pay@acme.example", memory.StateVerified)
	for i := range 1100 {
		put(fmt.Sprintf("evil%d@x.example", i), memory.StateUnverified)
	}
	for name, q := range map[string]recall.Query{"by its line": {Subject: "acme", Predicate: "billing email"}, "by its words": {Text: "acme billing email"}} {
		r, err := recall.Recall(t.Context(), s, q, recall.Policy{})
		if err != nil || len(r.Context) != 1 || r.Context[0].ID != verified || !r.Truncated {
			t.Errorf("%s: %d rows, truncated %t, %v", name, len(r.Context), r.Truncated, err)
		}
	}
}
