package asynqqueue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// downInSlots is down until one moment for all rows, four times a second. The moment is in
// the middle between two pumps, so that the rows come back together.
func downInSlots() verifiertest.Step {
	const slot, middle = 250 * time.Millisecond, 125 * time.Millisecond
	return func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
		end := time.Now().Add(-middle).Truncate(slot).Add(slot + middle)
		return verifiertest.Down(time.Until(end))(ctx, s, row)
	}
}

func TestAVerifierThatIsDownForManyCyclesIsTrafficAndNoFailure(t *testing.T) { // SR-7.6
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, downInSlots())
		// One row a token: those of one token are checked at once, in no order.
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1, Logger: w.log})
		var ids []memory.ID
		for i := range 5 {
			ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnavailableAtWriteTime))
		}
		w.heat(map[memory.ID]float64{ids[3]: 500, ids[1]: 40, ids[4]: 3})
		w.sweep(q)
		serve(t, q, w.worker)
		// Each when it came, and then one probes in each slot, drawn by lot.
		eventually(t, "every row was asked about twice, and many probed", func() bool {
			return leastAsked(w.verifier.Asked(), ids) >= 2 && w.verifier.Calls() >= 3*len(ids)
		})

		if !w.all(memory.StateUnavailableAtWriteTime, ids...) {
			t.Error("an outage moved a row")
		}
		inspector := asynq.NewInspectorFromRedisClient(client)
		tokens, err := inspector.ListRetryTasks(q.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tokens {
			if task.Retried != 0 {
				t.Errorf("a retry was counted: %+v", task)
			}
		}
		info, err := inspector.GetQueueInfo(q.Name())
		if err != nil {
			t.Fatal(err)
		}
		if info.Archived != 0 || info.Failed != 0 || info.Size > 8 {
			t.Errorf("%+v", info)
		}
		for _, id := range ids {
			if log, err := w.store.History(t.Context(), id, false); err != nil || len(log) != 1 {
				t.Errorf("the outage left a mark: %+v, %v", log, err)
			}
		}
		w.quiet()

		// All of them wait when it answers again, so that their order shows.
		if err := q.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all rows wait", func() bool { return stats(t, q).Waiting == int64(len(ids)) })
		asked := len(w.verifier.Asked())
		w.verifier.Set(verifiertest.Supports())
		if err := q.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
		var order []memory.ID
		for _, id := range w.verifier.Asked()[asked:] {
			if !slices.Contains(order, id) {
				order = append(order, id)
			}
		}
		hot := []memory.ID{ids[3], ids[1], ids[4]}
		if len(order) == 5 { // one was the probe
			hot = slices.DeleteFunc(hot, func(id memory.ID) bool { return id == order[0] })
			order = order[1:]
		}
		if len(order) != 4 || !slices.Equal(order[:len(hot)], hot) {
			t.Errorf("verified in the order %v after the probe, want first %v", order, hot)
		}
		w.quiet()
	})
}

// leastAsked is how often the row that was asked about least was asked about.
func leastAsked(asked, ids []memory.ID) int {
	count := map[memory.ID]int{}
	for _, id := range asked {
		count[id]++
	}
	least := len(asked)
	for _, id := range ids {
		least = min(least, count[id])
	}
	return least
}

func TestI12AQueueThatWasWipedIsBuiltAgainFromTheStore(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Down(100*time.Millisecond))
		q := newQueue(client, &asynqqueue.Options{Concurrency: 2})
		var ids []memory.ID
		for i := range 20 {
			ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnverified))
		}
		w.sweep(q)
		serve(t, q, w.worker)
		eventually(t, "somebody works", func() bool { return w.verifier.Calls() > 0 })
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if n := w.sweep(q); n != len(ids) {
			t.Fatalf("a sweep offered %d of %d rows", n, len(ids))
		}
		w.verifier.Set(verifiertest.Supports())
		eventually(t, "all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
	})
}

// The hottest rows belong to a source that is down; the colder one does not wait
// for it, and neither does one that is written later.
func TestAVerifierThatIsDownHoldsUpNoRowOfAnother(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		down, up := verifiertest.New("down", verifiertest.Down(time.Hour)), verifiertest.New("up", verifiertest.Supports())
		worker, err := promotion.NewWorker(w.store, []promotion.Source{
			{Name: "down", Verifier: down, Covers: func(c memory.Content) bool { return c.Subject != "cold" && c.Subject != "late" }},
			{Name: "up", Verifier: up, Covers: func(c memory.Content) bool { return c.Subject == "cold" || c.Subject == "late" }},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue(client, &asynqqueue.Options{Concurrency: 2})
		hot := map[memory.ID]float64{}
		for i := range 10 {
			hot[w.write(fmt.Sprint("hot", i), memory.StateUnverified)] = 100
		}
		cold := w.write("cold", memory.StateUnverified)
		w.heat(hot)
		w.sweep(q)
		serve(t, q, worker)
		eventually(t, "the colder row is verified", func() bool { return w.all(memory.StateVerified, cold) })
		late := w.write("late", memory.StateUnverified)
		w.sweep(q)
		eventually(t, "the later row is verified", func() bool { return w.all(memory.StateVerified, late) })
		if n := down.Calls(); n > len(hot) {
			t.Errorf("the source that is down for an hour was asked %d times about %d rows", n, len(hot))
		}
	})
}

func TestAWipedQueueGetsNoMoreTokensThanBefore(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, &asynqqueue.Options{Concurrency: 2})
		for i := range 20 {
			w.write(fmt.Sprint("row", i), memory.StateUnverified)
		}
		w.sweep(q)
		if err := client.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		w.sweep(q)
		for range 20 {
			if err := q.Pump(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		tokens, err := client.LLen(t.Context(), "asynq:{"+q.Name()+"}:pending").Result()
		if s := stats(t, q); tokens != 4 || s.Pending != 4 || err != nil {
			t.Errorf("%d tokens, %+v, %v", tokens, s, err)
		}
	})
}

func TestARowThatCannotBeCheckedHoldsUpNoOther(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1})
		poison := w.write("poison", memory.StateUnverified)
		w.heat(map[memory.ID]float64{poison: 1000})
		var others []memory.ID
		for i := range 5 {
			others = append(others, w.write(fmt.Sprint("row", i), memory.StateUnverified))
		}
		w.sweep(q)
		tried := make(chan struct{}, 99)
		serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
			if id == poison {
				tried <- struct{}{}
				return promotion.Result{}, memory.ErrStore
			}
			return w.worker.Check(ctx, id)
		}))
		eventually(t, "all others are verified", func() bool { return w.all(memory.StateVerified, others...) })
		eventually(t, "it is tried again", func() bool {
			endWaits(t, client, q)
			return len(tried) >= 2
		})
	})
}

// A row that is set aside is read meanwhile: it comes back in its new place.
func TestARowThatIsSetAsideTakesItsNewPlaceWhenItComesBack(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1})
		hot, cold := w.write("hot", memory.StateUnverified), w.write("cold", memory.StateUnverified)
		order := make(chan memory.ID, 99)
		if err := q.Offer(t.Context(), []promotion.Offer{{ID: hot, Heat: 9}, {ID: cold}}); err != nil {
			t.Fatal(err)
		}
		serve(t, q, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			order <- id
			if len(order) <= 2 {
				return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(time.Hour)}, nil
			}
			return promotion.Result{Status: promotion.Promoted}, nil
		}))
		eventually(t, "both are set aside", func() bool { return stats(t, q).Later == 2 })
		if s := stats(t, q); s.Waiting != 0 || s.Claimed != 0 || s.Retry != 0 {
			t.Errorf("%+v", s)
		}
		if err := q.Offer(t.Context(), []promotion.Offer{{ID: cold, Heat: 800}}); err != nil {
			t.Fatal(err)
		}
		if s := stats(t, q); s.Waiting != 0 || s.Later != 2 {
			t.Errorf("a read calls no verifier that is down: %+v", s)
		}
		endWaits(t, client, q)
		eventually(t, "both are checked again", func() bool { return len(order) == 4 })
		for i, want := range []memory.ID{hot, cold, cold, hot} {
			if got := <-order; got != want {
				t.Errorf("check %d was of %s, want %s", i, got, want)
			}
		}
	})
}

// A verifier is down in every way by turns, behind its guard: refused, broken off,
// hanging, slow and then down, and asking to be left alone. Writes go on meanwhile.
func TestEveryKindOfOutageMovesNoRowAndEndsWithoutAHerd(t *testing.T) { // SR-2.3, SR-7.6
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		const places, rows = 2, 40
		var now, most, after atomic.Int64
		counted := func(step verifiertest.Step) verifiertest.Step {
			return func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
				n := now.Add(1)
				defer now.Add(-1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				return step(ctx, s, row)
			}
		}
		// One that hangs has a limit of its own, so that none cuts a question that is answered.
		hangs := verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Hangs()), &verifier.BreakerOptions{Timeout: 50 * time.Millisecond, Failures: math.MaxInt})
		ways := []verifiertest.Step{verifiertest.Down(0), verifiertest.Fails(io.ErrUnexpectedEOF),
			func(ctx context.Context, _ *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
				return hangs.Verify(ctx, row)
			},
			verifiertest.Slow(20*time.Millisecond, verifiertest.Down(0)), verifiertest.Down(50 * time.Millisecond)}
		var asked atomic.Int64
		w := newWorld(t, counted(func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
			return ways[int(asked.Add(1))%len(ways)](ctx, s, row)
		}))
		guard := verifier.WithBreaker("crm", w.verifier, &verifier.BreakerOptions{Timeout: time.Hour, MaxConcurrent: places, Failures: 2, FirstOpen: 50 * time.Millisecond, OpenFor: 50 * time.Millisecond})
		worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}}, &promotion.Options{Budget: -1, Logger: w.log})
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue(client, &asynqqueue.Options{Concurrency: 4, Logger: w.log})
		serve(t, q, worker)
		var ids []memory.ID
		for i := range rows {
			ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnavailableAtWriteTime))
			w.sweep(q)
		}
		eventually(t, "it was down in every way", func() bool { return asked.Load() >= int64(2*len(ways)) })
		if !w.all(memory.StateUnavailableAtWriteTime, ids...) {
			t.Error("an outage moved a row")
		}
		w.verifier.Set(counted(func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
			after.Add(1)
			return verifiertest.Supports()(ctx, s, row)
		}))
		eventually(t, "all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
		if n := most.Load(); n > places {
			t.Errorf("%d questions at once, of %d places", n, places)
		}
		if n := after.Load(); n > rows*11/10 {
			t.Errorf("%d questions about %d rows after the outage", n, rows)
		}
		for _, id := range ids {
			got, err := w.store.Get(t.Context(), id)
			if err != nil || got[0].Outage != memory.OutageResolved {
				t.Errorf("the end of the outage is not on the row: %+v, %v", got, err)
			}
		}
		tokens, err := asynq.NewInspectorFromRedisClient(client).ListRetryTasks(q.Name())
		if s := stats(t, q); s.Archived != 0 || len(tokens) != 0 || err != nil {
			t.Errorf("%+v, %d tokens wait, %v", s, len(tokens), err)
		}
		w.quiet()
	})
}

func TestAVerifierThatHangsHoldsUpNoWrite(t *testing.T) { // SR-2.3
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		release := make(chan struct{})
		w := newWorld(t, verifiertest.Stuck(release, verifiertest.Supports()))
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1, Logger: w.log})
		ids := []memory.ID{w.write("first", memory.StateUnverified)}
		w.sweep(q)
		serve(t, q, w.worker)
		eventually(t, "the verifier hangs", func() bool { return w.verifier.Calls() == 1 })
		for i := range 40 {
			ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnavailableAtWriteTime))
			w.sweep(q)
		}
		if w.verifier.Calls() != 1 || w.all(memory.StateVerified, ids[0]) {
			t.Error("the verifier answered meanwhile, so this shows nothing")
		}
		close(release)
		eventually(t, "all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
		w.quiet()
	})
}

// What all checks need fails them all, and says nothing of a row: none is parked for it,
// however long it lasts.
func TestWhatIsNoFaultOfARowCountsAgainstNone(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"a folder of keys that cannot be read": fmt.Errorf("open body: the data key: %w", &fs.PathError{Op: "open", Path: "keys", Err: syscall.EIO}),
		"a witness that does not confirm":      fmt.Errorf("%w: no space", memory.ErrUnwitnessed),
		"a store whose witness is not at hand": fmt.Errorf("witness: %w", memory.ErrWitnessMissing),
		"a store that is behind its witness":   fmt.Errorf("%w: 1 entry", memory.ErrBehind),
		"a deadline":                           fmt.Errorf("read: %w", context.DeadlineExceeded),
		"a store that fails":                   fmt.Errorf("%w: the wire broke", memory.ErrStore),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := inProcess(t)
			w := newWorld(t, verifiertest.Supports())
			q := newQueue(client, &asynqqueue.Options{Lease: 10 * time.Millisecond})
			id := w.write("acme", memory.StateUnverified)
			w.sweep(q)
			tried := 0
			faulty := checker(func(context.Context, memory.ID) (promotion.Result, error) {
				tried++
				return promotion.Result{}, err
			})
			eventually(t, "it is tried more often than a row of its own fault", func() bool {
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				before := tried
				if got := q.Work(t.Context(), faulty); tried > before && !errors.Is(got, err) {
					t.Fatalf("the token does not wait: %v", got)
				}
				return tried > 6
			})
			eventually(t, "the row is verified", func() bool {
				if err := errors.Join(q.Pump(t.Context()), q.Work(t.Context(), w.worker)); err != nil {
					t.Fatal(err)
				}
				return w.all(memory.StateVerified, id)
			})
		})
	}
}

// keyless is a worker whose keys are gone for a while: it can read no row, and park none.
type keyless struct {
	*promotion.Worker
	parked int
}

func (*keyless) Check(context.Context, memory.ID) (promotion.Result, error) {
	return promotion.Result{}, memory.ErrKey
}

func (k *keyless) Park(context.Context, memory.ID, string) error {
	k.parked++
	return memory.ErrKey
}

// A row that could not be parked is checked once more, and not parked when it can be.
func TestARowThatCouldNotBeParkedIsCheckedOnceMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, verifiertest.Supports())
	q := newQueue(inProcess(t), &asynqqueue.Options{Lease: 10 * time.Millisecond})
	id := w.write("acme", memory.StateUnverified)
	w.sweep(q)
	gone := &keyless{Worker: w.worker}
	eventually(t, "the queue tried to park it", func() bool {
		if err := errors.Join(q.Pump(t.Context()), q.Work(t.Context(), gone)); err != nil {
			t.Fatal(err)
		}
		return gone.parked > 0
	})
	if s := stats(t, q); s.Later != 1 || s.Waiting+s.Claimed > 0 {
		t.Errorf("%+v", s)
	}
	if n, err := q.Retry(t.Context()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := q.Work(t.Context(), w.worker); err != nil || !w.all(memory.StateVerified, id) {
		t.Errorf("%s, %v", w.state(id), err)
	}
}

// Of the rows that took a worker along, however many and hot, one is checked at a time;
// the others are not.
func TestManyRowsThatWereLostHideNoOther(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		q := newQueue(client, &asynqqueue.Options{Lease: time.Minute})
		offers := []promotion.Offer{{ID: "cold"}}
		for i := range 250 {
			id := memory.ID(fmt.Sprintf("lost%03d", i))
			offers = append(offers, promotion.Offer{ID: id, Heat: 100})
			if err := client.HSet(t.Context(), q.LostKey(), string(id), 2).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := q.Offer(t.Context(), offers); err != nil {
			t.Fatal(err)
		}
		var got []memory.ID
		for range 5 {
			ids, err := q.ClaimMany(t.Context(), 4)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, ids...)
		}
		if want := []memory.ID{"lost000", "cold"}; !slices.Equal(got, want) {
			t.Errorf("claimed %v, want %v", got, want)
		}
		if s := stats(t, q); s.Waiting+s.Later != 249 || s.Claimed != 2 {
			t.Errorf("%+v", s)
		}
	})
}
