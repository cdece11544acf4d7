package stores

import (
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Fit is the draft of a row that is fit for a call: what an authoritative field of a
// tool returned about a customer. Rows of one lineage come from different sources, or
// they would not be independent of each other.
func Fit(customer, n int, source string, parents ...memory.ID) memory.Draft {
	a := memory.Asserter{Principal: "bench", Tool: source}
	return memory.Draft{
		Content: memory.Content{Subject: fmt.Sprintf("customer-%07d", customer), Predicate: "email",
			Object: fmt.Sprintf("c%07d@customer.example", n), Cardinality: memory.CardinalityUnknown},
		Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: a, DerivedFrom: parents,
		Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: source, Verifier: "bench",
			Group: a.Group(), At: time.Now()}},
	}
}
