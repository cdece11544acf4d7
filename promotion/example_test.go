package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// A model says where a customer is. The worker asks the system of record, without
// telling it the claim, and what that says decides. Asking again at once buys nothing.
func ExampleNewWorker() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	defer store.Close()

	crm := verifier.NewTool("crm", func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		return verifier.Answer{Found: true, Value: "Oslo", URI: "crm:" + q.Subject}, nil
	}, nil)
	worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: crm, Rank: memory.RankTool}},
		&promotion.Options{VerdictLifetime: time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}

	receipt, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "city", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("written", receipt.State)
	for range 2 {
		result, err := worker.Check(ctx, receipt.ID)
		fmt.Println(result.Status, result.Calls, err)
	}
	rows, err := store.Get(ctx, receipt.ID)
	fmt.Println(rows[0].Truth, rows[0].Rank, rows[0].Evidence[0].Source, err)
	// Output:
	// written unverified
	// promoted 1 <nil>
	// not_due 0 <nil>
	// supported tool crm <nil>
}

// Two namespaces of one store share a verifier: its breaker is around it once, and its places, its queue and its
// budget are shared as well.
func ExampleServe_namespaces() {
	ctx, stop := context.WithCancel(context.Background())
	redis, err := localredis.Open(ctx, "", &localredis.Options{Kind: localredis.InProcess}) // or a redis.UniversalClient
	if err != nil {
		log.Fatal(err)
	}
	crm := verifier.WithBreaker("crm", verifier.NewTool("crm", func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		return verifier.Answer{Found: true, Value: "Oslo", URI: "crm:" + q.Subject}, nil
	}, nil), nil)

	var scopes []promotion.Scope
	driver := storetest.NewMap()
	support, billing := storetest.On(driver, &memory.Options{Namespace: "support"}), storetest.On(driver, &memory.Options{Namespace: "billing"}) // or storeurl.Open
	queue := asynqqueue.New(redis.Client, asynqqueue.Deployment(support, billing), &asynqqueue.Options{Logger: slog.Default()})
	promoted := make(chan string)
	for _, store := range []*memory.Store{support, billing} {
		worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: crm, Rank: memory.RankTool}},
			&promotion.Options{Logger: slog.Default(), Observe: func(promotion.Result) { promoted <- store.Namespace() }})
		if err != nil {
			log.Fatal(err)
		}
		scopes = append(scopes, promotion.Scope{Worker: worker, Reads: promotion.NewHeater(store, queue, slog.Default())})
		if _, err := store.Put(ctx, memory.Draft{
			Content: memory.Content{Subject: "acme", Predicate: "city", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
			Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
			Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
		}); err != nil {
			log.Fatal(err)
		}
	}
	served := make(chan error)
	go func() { served <- promotion.Serve(ctx, queue, scopes...) }()
	fmt.Println("promoted in", <-promoted)
	fmt.Println("promoted in", <-promoted)
	stop()
	fmt.Println(<-served)
	if err := errors.Join(redis.Close(), driver.Close()); err != nil { // Redis after Serve has returned
		log.Fatal(err)
	}
	// Unordered output:
	// promoted in support
	// promoted in billing
	// <nil>
}

// A program promotes what its agents remember: it asks the system of record about the rows that they read
// most. The heater goes to gate.Options{OnBlock: reads.ObserveBlocked} and to
// agent.Options{Reads: reads, Down: worker.Down}.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	store := storetest.NewStore(nil)                                                        // or storeurl.Open
	redis, err := localredis.Open(ctx, "", &localredis.Options{Kind: localredis.InProcess}) // or a redis.UniversalClient
	if err != nil {
		log.Fatal(err)
	}
	crm := verifier.NewTool("crm", func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		return verifier.Answer{Found: true, Value: "Oslo", URI: "crm:" + q.Subject}, nil
	}, nil)

	queue := asynqqueue.New(redis.Client, asynqqueue.Deployment(store), nil)
	worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: crm, Rank: memory.RankTool}},
		&promotion.Options{Observe: func(r promotion.Result) { fmt.Println(r.Status); stop() }})
	if err != nil {
		log.Fatal(err)
	}
	reads := promotion.NewHeater(store, queue, nil)
	if _, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "city", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	}); err != nil {
		log.Fatal(err)
	}
	err = promotion.Serve(ctx, queue, promotion.Scope{Worker: worker, Reads: reads})
	fmt.Println("served until it was told to stop:", err)
	if err := errors.Join(redis.Close(), store.Close()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// promoted
	// served until it was told to stop: <nil>
}
