package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier"
)

func zipf(rank int) float64 { return math.Pow(float64(rank), -1.1) }

// draft is a trivial claim that a model made. The claims are about few subjects: each
// has a data key of its own, which the keyring puts on disk.
func draft(name string, i int) memory.Draft {
	return memory.Draft{
		Content: memory.Content{Subject: fmt.Sprint("subject ", i%16), Predicate: fmt.Sprint(name, " ", i), Object: "yes", Cardinality: memory.CardinalityUnknown},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, ValueConfidence: 0.5,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	}
}

// fill writes rows, n of them, in a state: many at a time, so that a store over
// memory/coalesce commits them together. It panics with an error; see [report.Caught].
func fill(ctx context.Context, s *memory.Store, name string, n int, state memory.State) []memory.ID {
	return fillWith(ctx, s, n, func(i int) memory.Draft {
		d := draft(name, i)
		d.State = state
		return d
	})
}

// fillWith is fill with other rows.
func fillWith(ctx context.Context, s *memory.Store, n int, row func(i int) memory.Draft) []memory.ID {
	ids := make([]memory.ID, n)
	var next atomic.Int64
	var fault atomic.Pointer[error]
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for fault.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				r, err := s.Put(ctx, row(i))
				if err != nil {
					fault.Store(&err)
					return
				}
				ids[i] = r.ID
			}
		})
	}
	all.Wait()
	if err := fault.Load(); err != nil {
		report.Check(*err)
	}
	return ids
}

// supports is the answer of a tool that knows every row.
func supports(row memory.Row, at time.Time) verifier.Verdict {
	sum := sha256.Sum256([]byte(row.Content.Object))
	return verifier.Verdict{Outcome: verifier.Supported, Observed: row.Content.Object, Evidence: memory.Evidence{
		Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm",
		Anchor: memory.Anchor{URI: "tool:crm", Hash: hex.EncodeToString(sum[:])}, At: at,
	}}
}

// free is a verifier that supports every row and costs nothing.
func free(_ context.Context, row memory.Row) (verifier.Verdict, error) {
	return supports(row, time.Now()), nil
}

// freeAfter is a verifier that supports every row after a while.
func freeAfter(latency time.Duration) verifier.Func {
	return func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
		t := time.NewTimer(latency)
		defer t.Stop()
		select {
		case <-t.C:
			return free(ctx, row)
		case <-ctx.Done():
			return verifier.Verdict{}, ctx.Err()
		}
	}
}

// serve has a worker serve its sources over a Redis until it is stopped.
func serve(ctx context.Context, client redis.UniversalClient, worker *promotion.Worker) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- promotion.Serve(ctx, asynqqueue.New(client, "bench", nil), promotion.Scope{Worker: worker, Sweep: time.Second, ReadsElsewhere: true})
	}()
	return sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
}
