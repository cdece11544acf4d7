package asynqqueue_test

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func TestARowThatIsSweptUpBecomesVerified(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, nil)
		id := w.write("acme", memory.StateUnverified)
		serve(t, q, w.worker)
		w.sweep(q)
		eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) })
		eventually(t, "the queue is empty", func() bool { s := stats(t, q); return s.Waiting+s.Claimed == 0 && s.Pending+s.Active == 0 })
		w.quiet()
	})
}

func TestAHotRowOvertakesColderOnesThatWereQueuedBefore(t *testing.T) { // SR-7.12
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1})
		offer := func(rows ...promotion.Offer) {
			t.Helper()
			if err := q.Offer(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
		}
		var ids []memory.ID
		for _, name := range []string{"first", "old", "young", "sure", "warm", "late"} {
			ids = append(ids, w.write(name, memory.StateUnverified))
		}
		first, old, young, sure, warm, late := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5]
		started, goOn, order := make(chan memory.ID), make(chan struct{}), make(chan memory.ID, 9)
		offer(promotion.Offer{ID: first})
		serve(t, q, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			order <- id
			if id == first {
				started <- id
				<-goOn
			}
			return promotion.Result{ID: id, Status: promotion.Promoted}, nil
		}))
		<-started // the worker is busy; all others wait
		offer(promotion.Offer{ID: young}, promotion.Offer{ID: old}, promotion.Offer{ID: sure, Confidence: 0.9}, promotion.Offer{ID: warm, Heat: 2}, promotion.Offer{ID: late})
		offer(promotion.Offer{ID: late, Heat: 800})
		close(goOn)
		var got []memory.ID
		for range ids {
			got = append(got, <-order)
		}
		// Heat, then confidence, then age.
		if want := []memory.ID{first, late, warm, sure, old, young}; !slices.Equal(got, want) {
			t.Errorf("checked %v, want %v", got, want)
		}
	})
}

func TestAClaimWhoseWorkerDiedComesBackWhenItsLeaseEnds(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		id := w.write("acme", memory.StateUnverified)
		q := newQueue(client, nil)
		w.sweep(q)
		if got, ok, err := q.Claim(t.Context()); got != id || !ok || err != nil {
			t.Fatalf("%v %v %v", got, ok, err)
		}
		w.sweep(q) // a claimed row is not offered twice
		if s := stats(t, q); s.Waiting != 0 || s.Claimed != 1 {
			t.Fatalf("%+v", s)
		}
		endLeases(t, client, q)
		serve(t, q, w.worker)
		eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) })
	})
}

// Two checks of one row overlap: both ask, both are answered, both move the row.
// The first is of a worker that lost touch with Redis and goes on.
func TestI6ACheckThatOutlivesItsLeaseStillGivesOneTransition(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		release := make(chan struct{})
		w := newWorld(t, verifiertest.Stuck(release, verifiertest.Supports()))
		id := w.write("acme", memory.StateUnverified)
		q := newQueue(client, &asynqqueue.Options{Concurrency: 4})
		w.sweep(q)
		results := make(chan promotion.Status, 99)
		check := checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
			r, err := w.worker.Check(ctx, id)
			results <- r.Status
			return r, err
		})
		if got, ok, err := q.Claim(t.Context()); got != id || !ok || err != nil {
			t.Fatalf("%v %v %v", got, ok, err)
		}
		endLeases(t, client, q)
		var lost sync.WaitGroup
		lost.Go(func() { check(context.Background(), id) })
		stop := serve(t, q, check)
		eventually(t, "two checks overlap", func() bool { return w.verifier.Calls() >= 2 })
		close(release)
		eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) })
		eventually(t, "all checks ended", func() bool { return len(results) >= 2 && stats(t, q).Claimed == 0 })
		stop()
		lost.Wait()
		history, err := w.store.History(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		if len(history) != 2 || history[1].Kind != memory.EntryTransition {
			t.Errorf("want the write and one transition: %+v", history)
		}
		promoted := 0
		for range len(results) { // not closed: asynq lets a handler outlive its server
			if <-results == promotion.Promoted {
				promoted++
			}
		}
		if promoted != 1 {
			t.Errorf("%d checks promoted the row", promoted)
		}
	})
}

func TestATaskOfAnotherTypeIsNotHandledThoughItsNameBeginsAlike(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, nil)
		other := asynq.NewTask(q.Kind()+"_everything", nil)
		if _, err := asynq.NewClientFromRedisClient(client).EnqueueContext(t.Context(), other, asynq.Queue(q.Name()), asynq.MaxRetry(5)); err != nil {
			t.Fatal(err)
		}
		serve(t, q, w.worker)
		eventually(t, "it is put away", func() bool { return stats(t, q).Archived == 1 })
	})
}

func TestATokenThatAsynqArchivedBlocksNoRow(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, nil)
		id := w.write("acme", memory.StateUnverified)
		w.sweep(q)
		n, err := asynq.NewInspectorFromRedisClient(client).ArchiveAllPendingTasks(q.Name())
		if n != 1 || err != nil {
			t.Fatal(n, err)
		}
		serve(t, q, w.worker)
		eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) })
		if s := stats(t, q); s.Archived != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestTokensAreFewAnonymousAndNeverWithoutARetry(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, &asynqqueue.Options{Concurrency: 3})
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			w.write(name, memory.StateUnverified)
		}
		for range 3 {
			w.sweep(q)
		}
		tokens, err := asynq.NewInspectorFromRedisClient(client).ListPendingTasks(q.Name())
		if err != nil {
			t.Fatal(err)
		}
		if len(tokens) != 6 { // twice the concurrency
			t.Errorf("%d tokens for 10 rows", len(tokens))
		}
		for _, task := range tokens {
			if task.MaxRetry < 1 || len(task.Payload) > 0 || task.Type != q.Kind() || task.Timeout < time.Second {
				t.Errorf("%+v", task)
			}
		}
		if s := stats(t, q); s.Waiting != 10 {
			t.Errorf("%+v", s)
		}
	})
}

func TestScopesAreApart(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		ana := newQueue(client, &asynqqueue.Options{Tenant: "ana", Namespace: "team"})
		id := w.write("acme", memory.StateUnverified)
		if err := ana.Offer(t.Context(), []promotion.Offer{{ID: id}}); err != nil {
			t.Fatal(err)
		}
		others := [][2]string{{"ana", ""}, {"ana", "Team"}, {"ana", "team "}, {"ana.team", ""}, {"anateam", ""}, {"an", "ateam"}, {"team", "ana"}, {"", "team"}}
		for _, name := range []string{"", "default", "Ana", "ana ", "ana}:waiting", "{ana}", "616e61", "616e61.7465616d"} {
			others = append(others, [2]string{name, "team"}, [2]string{name, ""})
		}
		for _, o := range others {
			other := newQueue(client, &asynqqueue.Options{Tenant: o[0], Namespace: o[1]})
			if got, ok, err := other.Claim(t.Context()); ok || err != nil {
				t.Errorf("%q took %q: %v", o, got, err)
			}
			if s := stats(t, other); !reflect.DeepEqual(s, asynqqueue.Stats{}) {
				t.Errorf("%q sees %+v", o, s)
			}
		}
		checked := make(chan memory.ID, 9)
		note := checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			checked <- id
			return promotion.Result{Status: promotion.Promoted}, nil
		})
		serve(t, newQueue(client, &asynqqueue.Options{Tenant: "bob"}), note)
		serve(t, ana, note)
		if got := <-checked; got != id {
			t.Errorf("checked %q", got)
		}
		eventually(t, "nothing is left", func() bool { return stats(t, ana).Waiting+stats(t, ana).Claimed == 0 })
		if len(checked) != 0 {
			t.Error("the row was checked twice")
		}
	})
}
