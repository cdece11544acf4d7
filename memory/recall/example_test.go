package recall_test

import (
	"context"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A claim that nobody has checked stays out of the context, and can be shown
// beside it with its tag.
func ExampleRecall() {
	ctx := context.Background()
	noon := time.Date(2026, 4, 17, 12, 0, 0, 0, time.UTC)
	store := storetest.NewStore(&memory.Options{Clock: func() time.Time { return noon }})
	defer store.Close()
	_, err := store.Put(ctx, memory.Draft{
		Content:     memory.Content{Text: "Claude Mythos is not a real AI model or cybersecurity system.", Cardinality: memory.CardinalityUnknown},
		Origin:      memory.OriginModelDerived,
		State:       memory.StateUnverified,
		Asserter:    memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"},
		Sensitivity: memory.SensitivityInternal,
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	strict, err := recall.Recall(ctx, store, recall.Query{Text: "Claude Mythos"}, recall.Policy{})
	fmt.Println(len(strict.Context), len(strict.Uncertain), err)

	wide, err := recall.Recall(ctx, store, recall.Query{Text: "Claude Mythos"}, recall.Policy{Channels: recall.All})
	fmt.Println(len(wide.Context), len(wide.Uncertain), err)
	fmt.Print(recall.Render(wide.At, wide.Rows()...))
	// Output:
	// 0 0 <nil>
	// 0 1 <nil>
	// Memory (asserted by Sonnet, unverified, 2026-04-17): Claude Mythos is not a real AI model or cybersecurity system.
}

// What was recalled is taken out of a text before claims are learned from it.
func ExampleStrip() {
	fmt.Print(recall.Strip("I looked it up.\nMemory (asserted by Sonnet, unverified, 2026-04-17): the sky is green\nIt is blue.\n"))
	// Output:
	// I looked it up.
	// It is blue.
}
