package asynqqueue_test

import (
	"context"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// A sweep offers what is due, and a worker checks it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store := storetest.NewStore(nil)
	row, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "billing.email", Object: "pay@acme.example", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	})
	if err != nil {
		panic(err)
	}
	crm := verifier.NewTool("crm", func(context.Context, verifier.Question) (verifier.Answer, error) {
		return verifier.Answer{Found: true, Value: "pay@acme.example", URI: "crm:acme"}, nil
	}, nil)
	results := make(chan promotion.Result, 1)
	worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: verifier.WithBreaker("crm", crm, nil), Rank: memory.RankTool}},
		&promotion.Options{Observe: func(r promotion.Result) { results <- r }})
	if err != nil {
		panic(err)
	}
	redis, err := localredis.Open(ctx, "", &localredis.Options{Kind: localredis.InProcess})
	if err != nil {
		panic(err)
	}
	queue := asynqqueue.New(redis.Client, nil)
	if _, err := promotion.NewSweeper(store, queue, 0, nil).Sweep(ctx); err != nil {
		panic(err)
	}
	ended := make(chan error)
	go func() { ended <- queue.Serve(ctx, worker) }()
	fmt.Println((<-results).Status)
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	rows, err := store.Get(context.Background(), row.ID)
	if err != nil {
		panic(err)
	}
	fmt.Println(rows[0].State())
	redis.Close()
	store.Close()
	// Output:
	// promoted
	// verified
}
