package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// The example of the seed: a claim that comes back collapses onto its row.
func ExampleStore_Put() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	home := memory.Content{Subject: "user", Predicate: "home_city", Object: "Berlin", Cardinality: memory.CardinalityFunctional}
	first, err := store.Put(ctx, memory.Draft{
		Content: home, Origin: memory.OriginUserAsserted, State: memory.StateVerified,
		Asserter: memory.Asserter{Principal: "user"}, Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user", Verifier: "chat", Group: "user:user", At: time.Now()}},
	})
	fmt.Println(first.Disposition, first.State, err)

	again, err := store.Put(ctx, memory.Draft{
		Content: home, Origin: memory.OriginRecallReentry, State: memory.StateUnverified,
		Asserter: memory.Asserter{Principal: "user", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal,
	})
	fmt.Println(again.Disposition, again.ID == first.ID, err)
	// Output:
	// created verified <nil>
	// collapsed true <nil>
}

// A promotion takes evidence that is independent of who made the claim.
func ExampleStore_Apply() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()
	row, err := store.Put(ctx, memory.Draft{
		Content:  memory.Content{Subject: "ana", Predicate: "city", Object: "Berlin", Cardinality: memory.CardinalityFunctional},
		Origin:   memory.OriginModelDerived,
		State:    memory.StateUnverified,
		Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	promote := memory.Transition{Row: row.ID, Revision: row.Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
		Actor: "worker:1", Source: "crm", Reason: "checked",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankModel, Source: "opus", Verifier: "opus", Group: "family:claude", At: time.Now()}}}
	_, err = store.Apply(ctx, promote)
	fmt.Println(errors.Is(err, memory.ErrInsufficient))

	promote.Evidence[0].Rank, promote.Evidence[0].Group = memory.RankTool, "tool:crm"
	head, err := store.Apply(ctx, promote)
	fmt.Println(head.State(), head.Rank, err)
	// Output:
	// true
	// verified tool <nil>
}

// A draft in JSON has no default origin or state.
func ExampleDecodeDraft() {
	_, err := memory.DecodeDraft([]byte(`{"content":{"text":"the sky is green"},"origin":{"type":"ModelDerived"},
		"asserter":{"principal":"ana","model":"Sonnet","family":"claude"},"sensitivity":"public"}`))
	fmt.Println(err)
	// Output:
	// memory: state: choose one of ["unverified" "unavailable_at_write_time" "verified"] (required)
}
