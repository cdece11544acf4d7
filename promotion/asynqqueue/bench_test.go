package asynqqueue_test

import (
	"context"
	"fmt"
	"os/exec"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// BenchmarkQueue is what a row costs between its offer and the end of a check
// that takes no time.
func BenchmarkQueue(b *testing.B) {
	for _, kind := range []localredis.Kind{localredis.InProcess, localredis.Child} {
		if _, err := exec.LookPath("redis-server"); kind == localredis.Child && err != nil {
			continue
		}
		b.Run(string(kind), func(b *testing.B) {
			r, err := localredis.Open(b.Context(), "", &localredis.Options{Kind: kind})
			if err != nil {
				b.Fatal(err)
			}
			defer r.Close()
			q := asynqqueue.New(r.Client, nil)
			rows := make([]promotion.Offer, b.N)
			for i := range rows {
				rows[i] = promotion.Offer{ID: memory.ID(fmt.Sprintf("mem_%025d0", i)), Heat: float64(i % 100)}
			}
			done := make(chan struct{}, b.N)
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			b.ResetTimer()
			if err := q.Offer(ctx, rows); err != nil {
				b.Fatal(err)
			}
			go func() {
				ended <- q.Serve(ctx, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
					done <- struct{}{}
					return promotion.Result{ID: id, Status: promotion.Promoted}, nil
				}))
			}()
			for range b.N {
				<-done
			}
			b.StopTimer()
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}
