package coalesce_test

import (
	"context"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/coalesce"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func Example() {
	driver := coalesce.New(storetest.NewMap()) // or that of any store
	store, err := memory.New(driver, keyring.Ephemeral(), nil)
	if err != nil {
		panic(err)
	}
	defer store.Close()
	r, err := store.Put(context.Background(), memory.Draft{
		Content: memory.Content{Text: "the office moved", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
		Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	})
	fmt.Println(r.State, err)
	// Output: unverified <nil>
}
