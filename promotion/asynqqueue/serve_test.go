package asynqqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
)

// TestQueuesShareAProcess floods two tenants' queues: the heavy one does not starve the
// light one, and what the heavy one leaves the light one gets. Then the process ends, and no
// check and no claim is left behind. TestATurnIsGivenByTheTimeOfPlaces shows the parts.
func TestQueuesShareAProcess(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		const rows, enough = 1000, 900
		var busy, taken atomic.Int64
		var counts [2]atomic.Int64
		light := make(chan struct{}) // closed when a row of the light queue was checked
		once := sync.OnceFunc(func() { close(light) })
		var shares []asynqqueue.Share
		for i, tenant := range []string{"heavy", "light"} {
			q := newQueue(client, &asynqqueue.Options{Tenant: tenant, Concurrency: 4, Batch: 1})
			offers := make([]promotion.Offer, rows)
			for n := range offers {
				offers[n] = promotion.Offer{ID: memory.ID(fmt.Sprint(tenant, n))}
			}
			if err := q.Offer(t.Context(), offers); err != nil {
				t.Fatal(err)
			}
			shares = append(shares, asynqqueue.Share{Queue: q, Weight: []int{6, 1}[i], Checker: checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
				busy.Add(1)
				defer busy.Add(-1)
				if !strings.HasPrefix(string(id), tenant) {
					taken.Add(1)
				}
				select {
				case <-time.After(5 * time.Millisecond): // what a verifier takes
				case <-ctx.Done():
				}
				switch n := counts[i].Add(1); {
				case i == 1:
					once()
				case n > enough:
					<-light
				}
				return promotion.Result{ID: id, Status: promotion.Promoted}, nil
			})})
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- asynqqueue.ServeShares(ctx, shares) }()
		stop := sync.OnceValue(func() error { cancel(); return <-ended })
		t.Cleanup(func() { stop() }) // before the client is closed
		eventually(t, "the heavy queue is empty", func() bool { return counts[0].Load() == rows })
		left := counts[1].Load()
		eventually(t, "the light one gets what the heavy one leaves", func() bool { return counts[1].Load() > left+100 || counts[1].Load() == rows })
		if err := stop(); err != nil || busy.Load() != 0 || taken.Load() != 0 {
			t.Errorf("%v, %d checks under way, %d rows by the checker of another", err, busy.Load(), taken.Load())
		}
		for i, s := range shares {
			if st := stats(t, s.Queue); st.Claimed != 0 || st.Waiting+counts[i].Load() != rows {
				t.Errorf("%d claimed, %d waiting and %d checked of %d", st.Claimed, st.Waiting, counts[i].Load(), rows)
			}
		}
	})
}

func TestSharesThatCannotBeServedAreRefused(t *testing.T) {
	client, other := inProcess(t), inProcess(t)
	never := checker(func(context.Context, memory.ID) (promotion.Result, error) { panic("asked") })
	q := newQueue(client, nil)
	good := asynqqueue.Share{Queue: q, Checker: never, Weight: 1}
	for _, c := range []struct {
		name   string
		shares []asynqqueue.Share
		say    string
	}{
		{"no queue", nil, "no queue"},
		{"a share without a queue", []asynqqueue.Share{{Checker: never, Weight: 1}}, "no Queue"},
		{"a share without a checker", []asynqqueue.Share{{Queue: q, Weight: 1}}, "no Checker"},
		{"a share without a weight", []asynqqueue.Share{{Queue: q, Checker: never}}, "Weight"},
		{"a negative weight", []asynqqueue.Share{{Queue: q, Checker: never, Weight: -1}}, "Weight"},
		{"one queue twice", []asynqqueue.Share{good, good}, "already"},
		{"queues of two servers", []asynqqueue.Share{good, {Queue: newQueue(other, &asynqqueue.Options{Tenant: "b"}), Checker: never, Weight: 1}}, "another Redis"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			if err := asynqqueue.ServeShares(t.Context(), c.shares); err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v", err)
			}
		})
	}
}
