package asynqqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

var _ promotion.Spending = (*asynqqueue.Queue)(nil)

// sharing is a worker that counts with others, and the queue it counts in.
func (w *world) sharing(client redis.UniversalClient, budget int, tick time.Duration) (*asynqqueue.Queue, *promotion.Worker) {
	w.t.Helper()
	q := newQueue(client, nil)
	worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: w.verifier, Rank: memory.RankTool}},
		&promotion.Options{Budget: budget, Tick: tick, Spending: q})
	if err != nil {
		w.t.Fatal(err)
	}
	return q, worker
}

// counted counts checks.
type counted struct {
	*promotion.Worker
	checks atomic.Int64
}

func (c *counted) Check(ctx context.Context, id memory.ID) (promotion.Result, error) {
	c.checks.Add(1)
	return c.Worker.Check(ctx, id)
}

func TestWorkersShareTheBudgetOfAVerifier(t *testing.T) {
	t.Parallel()
	t.Run("two workers ask as much in a tick as one may", func(t *testing.T) {
		onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
			const budget, rows = 5, 20
			w := newWorld(t, verifiertest.Supports())
			for i := range rows {
				w.write(fmt.Sprint("row", i), memory.StateUnverified)
			}
			var last *asynqqueue.Queue
			for range 2 {
				q, worker := w.sharing(client, budget, time.Hour)
				last = q
				serve(t, q, worker)
			}
			w.sweep(last)
			eventually(t, "the budget is spent and the others wait", func() bool {
				s := stats(t, last)
				return s.Waiting+s.Later == rows-budget && s.Claimed == 0
			})
			if n := w.verifier.Calls(); n != budget {
				t.Errorf("%d questions in one tick, want %d", n, budget)
			}
		})
	})
	t.Run("what is left is asked in the next ticks", func(t *testing.T) {
		onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
			w := newWorld(t, verifiertest.Supports())
			var ids []memory.ID
			for i := range 12 {
				ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnverified))
			}
			var last *asynqqueue.Queue
			for range 2 {
				q, worker := w.sharing(client, 4, 300*time.Millisecond)
				last = q
				serve(t, q, worker)
			}
			w.sweep(last)
			eventually(t, "all are verified", func() bool { return w.all(memory.StateVerified, ids...) })
		})
	})
	t.Run("and no more than one budget in each", bubble(func(t *testing.T) {
		const rows, budget, tick = 12, 4, 10 * time.Second
		client := inBubble(t)
		w := newWorld(t, verifiertest.Supports())
		for i := range rows {
			w.write(fmt.Sprint("row", i), memory.StateUnverified)
		}
		var last *asynqqueue.Queue
		for range 2 {
			q, worker := w.sharing(client, budget, tick)
			last = q
			serve(t, q, worker)
		}
		w.sweep(last)
		for asked := budget; asked <= rows; asked += budget {
			time.Sleep(tick * 9 / 10)
			if n := w.verifier.Calls(); n != asked {
				t.Fatalf("%d questions, want %d", n, asked)
			}
			time.Sleep(tick / 10)
		}
	}))
	t.Run("sources and scopes have budgets of their own", func(t *testing.T) {
		client := inProcess(t)
		q, other := newQueue(client, nil), newQueue(client, &asynqqueue.Options{Tenant: "other"})
		spend := func(q *asynqqueue.Queue, source string, free bool) {
			t.Helper()
			wait, err := q.Spend(t.Context(), source, 1, time.Hour)
			if err != nil || (wait == 0) != free || wait < 0 || wait > time.Hour {
				t.Fatalf("%s %v, want free %t", wait, err, free)
			}
		}
		spend(q, "crm", true)
		spend(q, "crm", false)
		spend(q, "erp", true)
		spend(other, "crm", true)
	})
	t.Run("a budget that cannot be counted lets nobody ask, and the row comes back", func(t *testing.T) {
		w := newWorld(t, verifiertest.Supports())
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialTimeout: 100 * time.Millisecond, DialerRetries: 1})
		defer client.Close()
		_, worker := w.sharing(client, 5, time.Hour)
		r, err := worker.Check(t.Context(), w.write("x", memory.StateUnverified))
		if err != nil || r.Status != promotion.Deferred || r.RetryAt.IsZero() || w.verifier.Calls() != 0 {
			t.Errorf("%+v %v after %d questions", r, err, w.verifier.Calls())
		}
	})
	t.Run("of a backlog far beyond it each row is looked at once, and the hottest comes first when it is renewed", func(t *testing.T) {
		onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
			// The budget is that of the rows which are checked at once: what is claimed first gets it.
			const places, batch, rows, tick = 1, 8, 400, time.Hour // one place: what is claimed first asks first
			const budget = places * batch
			w := newWorld(t, verifiertest.Supports())
			for i := range rows {
				w.write(fmt.Sprint("row", i), memory.StateUnverified)
			}
			_, worker := w.sharing(client, budget, tick)
			q := newQueue(client, &asynqqueue.Options{Concurrency: places, Batch: batch})
			c := &counted{Worker: worker}
			serve(t, q, c)
			w.sweep(q)
			eventually(t, "the budget is spent and nothing can be taken any more", func() bool {
				s := stats(t, q)
				return w.verifier.Calls() == budget && s.Waiting+s.Claimed == 0 && s.Later == rows-budget
			})
			if n := c.checks.Load(); n != rows {
				t.Errorf("%d checks of %d rows", n, rows)
			}
			hot := w.write("hot", memory.StateUnverified)
			if err := q.Offer(t.Context(), []promotion.Offer{{ID: hot, Heat: 50}}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is refused too", func() bool { return stats(t, q).Later == rows-budget+1 })
			spent, err := client.Keys(t.Context(), "hearsay:*:spent").Result()
			if err != nil || len(spent) != 1 {
				t.Fatal(spent, err)
			}
			if err := client.Del(t.Context(), spent...).Err(); err != nil { // the next tick
				t.Fatal(err)
			}
			if _, err := q.Retry(t.Context()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the hot row is verified in the next tick", func() bool { return w.all(memory.StateVerified, hot) })
			eventually(t, "the budget of that is spent too", func() bool {
				return w.verifier.Calls() == 2*budget && stats(t, q).Waiting+stats(t, q).Claimed == 0
			})
			if asked := w.verifier.Asked(); !slices.Contains(asked[budget:min(budget+places*batch, len(asked))], hot) {
				t.Errorf("the hot row %s is none of the first of the tick: %v", hot, asked)
			}
			// One look at each row, and once as many as are taken before the first refusal.
			if n := c.checks.Load(); n > rows+1+budget+places*batch {
				t.Errorf("%d checks of %d rows for %d questions", n, rows+1, w.verifier.Calls())
			}
		})
	})
}
