package asynqqueue_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// claimedKey is the set of claims of the default tenant.
const claimedKey = "hearsay:{64656661756c74}:claimed"

func TestACheckThatTakesLongerThanItsLeaseIsNotStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // its time does not pass while somebody works
		q := newQueue(inBubble(t), &asynqqueue.Options{Lease: 2 * time.Second})
		offer(t, q, promotion.Offer{ID: "acme"})
		checks := 0
		check := checker(func(context.Context, memory.ID) (promotion.Result, error) {
			checks++
			<-time.After(time.Minute)
			return promotion.Result{Status: promotion.Promoted}, nil
		})
		var first sync.WaitGroup
		first.Go(func() { work(t, q, check) })
		for range 300 {
			<-time.After(250 * time.Millisecond)
			if err := q.Pump(t.Context()); err != nil {
				t.Fatal(err)
			}
			work(t, q, check)
		}
		first.Wait()
		if checks != 1 {
			t.Errorf("%d checks", checks)
		}
		wantRows(t, q, 0, 0, 0)
	})
}

func TestAClaimIsRenewedByWhoHoldsIt(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		short, long := newQueue(client, nil), newQueue(client, &asynqqueue.Options{Lease: 3 * time.Hour})
		offer(t, short, promotion.Offer{ID: "acme"})
		renew, err := short.Hold(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		before := client.ZScore(t.Context(), claimedKey, "acme").Val()
		if !renew(long) {
			t.Fatal("the claim is lost")
		}
		after := client.ZScore(t.Context(), claimedKey, "acme").Val()
		if longer := time.Duration(after-before) * time.Millisecond; longer < 2*time.Hour {
			t.Errorf("a claim of an hour that is renewed for three lasts %s longer", longer)
		}
		if !renew(long) {
			t.Error("a claim that was renewed is lost")
		}
		endLeases(t, client, short)
		eventually(t, "somebody else claims the row", func() bool {
			if err := short.Pump(t.Context()); err != nil {
				t.Fatal(err)
			}
			_, ok, err := short.Claim(t.Context())
			return ok && err == nil
		})
		if renew(long) {
			t.Error("the claim of another is renewed")
		}
	})
}

func TestAWorkerThatIsToldToStopEndsItsCheckAndTakesNoOther(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1})
		var ids []memory.ID
		for _, name := range []string{"a", "b", "c"} {
			ids = append(ids, w.write(name, memory.StateUnverified))
		}
		w.sweep(q)
		ctx, cancel := context.WithCancel(t.Context())
		started, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- q.Serve(ctx, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
				close(started) // a second check would panic
				<-goOn
				return w.worker.Check(ctx, id)
			}))
		}()
		<-started
		cancel()
		close(goOn)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if s := stats(t, q); s.Claimed != 0 || s.Waiting != 2 || s.Archived != 0 || !w.all(memory.StateVerified, ids[0]) {
			t.Errorf("%+v", s)
		}
	})
}

func TestAPanicHoldsUpNoRow(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Panics("oops"), verifiertest.Supports())
		id := w.write("acme", memory.StateUnverified)
		q := newQueue(client, nil)
		w.sweep(q)
		serve(t, q, w.worker)
		eventually(t, "the row is verified", func() bool {
			endWaits(t, client, q)
			return w.all(memory.StateVerified, id)
		})
	})
}

// asynq never recovers a task whose lease entry is lost.
func TestTokensThatAsynqTakesForActiveForEverHoldUpNoRow(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 2})
		var ids []memory.ID
		for i := range 10 {
			ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnverified))
		}
		w.sweep(q)
		prefix := "asynq:{" + q.Name() + "}:"
		lost := 0
		for {
			id, err := client.LMove(t.Context(), prefix+"pending", prefix+"active", "RIGHT", "LEFT").Result()
			if err != nil {
				break
			}
			if err := client.HSet(t.Context(), prefix+"t:"+id, "state", "active").Err(); err != nil {
				t.Fatal(err)
			}
			lost++
		}
		if s := stats(t, q); lost != 4 || s.Active != 4 || s.Pending != 0 {
			t.Fatalf("%d lost, %+v", lost, s)
		}
		serve(t, q, w.worker)
		eventually(t, "all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
	})
}

func TestOffersThatAreNoNumbersAreOrderedAsNothing(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, nil)
		odd, warm := w.write("odd", memory.StateUnverified), w.write("warm", memory.StateUnverified)
		nan, inf := zero/zero, 1/zero
		for _, o := range []promotion.Offer{{ID: odd, Heat: nan, Confidence: nan}, {ID: odd, Heat: -inf, Confidence: -inf}, {ID: odd, Heat: -5, Confidence: -1}} {
			if err := q.Offer(t.Context(), []promotion.Offer{o, {ID: warm, Heat: 0.01}}); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []memory.ID{warm, odd} {
			if got, ok, err := q.Claim(t.Context()); got != want || !ok || err != nil {
				t.Errorf("%v %v %v, want %v", got, ok, err, want)
			}
		}
		if err := q.Offer(t.Context(), []promotion.Offer{{ID: "mem_00000000000000000000000000", Heat: inf, Confidence: inf}}); err != nil {
			t.Error(err)
		}
	})
}

var zero float64

// killed are the options of TestARowComesBackAfterAKill.
var killed = &asynqqueue.Options{Lease: 2 * time.Second}

// TestHelperWorker is the process that TestARowComesBackAfterAKill
// kills: it claims a row and never gives it back.
func TestHelperWorker(t *testing.T) {
	url := os.Getenv("ASYNQQUEUE_HELPER_REDIS")
	if url == "" {
		return
	}
	r, err := localredis.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	q := newQueue(r.Client, killed)
	if err := q.Serve(t.Context(), checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
		fmt.Println("checking", id)
		io.Copy(io.Discard, os.Stdin) // until killed
		return promotion.Result{}, nil
	})); err != nil {
		t.Error(err)
	}
}

// asynq alone needs up to two minutes for it. How long it takes with the default lease is a
// figure of bench/promotion.
func TestARowComesBackAfterAKill(t *testing.T) {
	t.Parallel()
	url := databaseURL(t)
	r, err := localredis.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	w := newWorld(t, verifiertest.Supports())
	id := w.write("acme", memory.StateUnverified)
	q := newQueue(r.Client, killed)
	w.sweep(q)

	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperWorker$")
	cmd.Env = append(os.Environ(), "ASYNQQUEUE_HELPER_REDIS="+url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "checking "+string(id)) {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	serve(t, q, w.worker)
	eventually(t, "the row is verified", func() bool { return w.all(memory.StateVerified, id) })
	tasks, err := asynq.NewInspectorFromRedisClient(r.Client).GetQueueInfo(q.Name())
	if err != nil || tasks.Archived != 0 || tasks.Retry != 0 {
		t.Errorf("%+v, %v", tasks, err)
	}
}

func TestARowStoreThatDoesNotAnswerCostsNoTokenARetry(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Logger: w.log})
		id := w.write("acme", memory.StateUnverified)
		w.sweep(q)
		tried, answers := make(chan struct{}, 99), make(chan struct{})
		serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
			tried <- struct{}{}
			select {
			case <-answers:
				return w.worker.Check(ctx, id)
			default:
				return promotion.Result{}, memory.ErrStore
			}
		}))
		eventually(t, "it is tried three times", func() bool {
			endWaits(t, client, q)
			return len(tried) >= 3
		})
		var tokens []*asynq.TaskInfo
		eventually(t, "a token waits", func() bool { // between two tries it does, during one it does not
			endWaits(t, client, q)
			var err error
			tokens, err = asynq.NewInspectorFromRedisClient(client).ListRetryTasks(q.Name())
			return err == nil && len(tokens) > 0
		})
		for _, task := range tokens {
			if task.Retried != 0 {
				t.Errorf("a retry was counted: %+v", task)
			}
		}
		close(answers)
		eventually(t, "the row is verified", func() bool {
			endWaits(t, client, q)
			return w.all(memory.StateVerified, id)
		})
		if s := stats(t, q); s.Archived != 0 {
			t.Errorf("%+v", s)
		}
		w.quiet()
	})
}

// A row that kills whoever checks it: five claims of it were made and lost.
func TestARowThatTakesItsWorkersAlongIsParkedAndNoOtherWithIt(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Logger: w.log})
		poison := w.write("poison", memory.StateUnverified)
		w.heat(map[memory.ID]float64{poison: 100})
		var others []memory.ID
		for i := range 8 {
			others = append(others, w.write(fmt.Sprint("row", i), memory.StateUnverified))
		}
		w.sweep(q)
		for death := range 5 {
			eventually(t, "it is claimed again", func() bool {
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				claims, err := q.ClaimMany(t.Context(), 4)
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(claims, poison) && death > 0 && len(claims) > 1 {
					t.Errorf("after %d deaths it was claimed beside %v", death, claims)
				}
				if len(claims) > 0 {
					endLeases(t, client, q) // of workers that died
				}
				return slices.Contains(claims, poison)
			})
		}
		serve(t, q, sparing{w.worker, poison, t})
		eventually(t, "it is parked", func() bool {
			mark, ok, err := w.store.DueMark(t.Context(), poison)
			return err == nil && ok && mark.At.IsZero() && strings.HasPrefix(mark.Reason, "stuck: 5 checks began")
		})
		eventually(t, "all others are verified", func() bool { return w.all(memory.StateVerified, others...) })
		heater := promotion.NewHeater(w.store, q, nil)
		heater.ObserveBlocked(t.Context(), []memory.ID{poison})
		if err := heater.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s := stats(t, q); s.Waiting != 0 {
			t.Errorf("a read brought it back: %+v", s)
		}
		if n, err := promotion.Unpark(t.Context(), w.store, "mended", func(memory.Due) bool { return true }); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		w.quiet()
	})
}

// sparing checks all rows but one, which nobody may check any more.
type sparing struct {
	*promotion.Worker
	never memory.ID
	t     *testing.T
}

func (c sparing) Check(ctx context.Context, id memory.ID) (promotion.Result, error) {
	if id == c.never {
		c.t.Error("it was checked once more")
	}
	return c.Worker.Check(ctx, id)
}

func TestARowWhoseCheckAlwaysFailsIsParked(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Panics("oops"))
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Logger: w.log})
		id := w.write("poison", memory.StateUnverified)
		w.sweep(q)
		serve(t, q, w.worker)
		eventually(t, "it is parked", func() bool {
			retry(t, q)
			mark, ok, err := w.store.DueMark(t.Context(), id)
			return err == nil && ok && mark.At.IsZero()
		})
		if n := w.verifier.Calls(); n != 5 {
			t.Errorf("it was tried %d times", n)
		}
	})
}

// A damaged row is no store that does not answer: it is parked, and one that cannot be
// even that is left alone for a while.
func TestADamagedRowIsNotTriedForEver(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Logger: w.log})
		cut, worse := w.write("cut", memory.StateUnverified), w.write("worse", memory.StateUnverified)
		w.sweep(q)
		tried := map[memory.ID]*atomic.Int64{cut: {}, worse: {}}
		given := make(chan struct{}, 99)
		store := damaged{Worker: w.worker, tried: tried, given: given, worse: worse}
		eventually(t, "each was tried five times", func() bool {
			work(t, q, store)
			if tried[cut].Load() >= 5 && tried[worse].Load() >= 5 {
				return true
			}
			retry(t, q)
			return false
		})
		retry(t, q)
		eventually(t, "the one is parked, and the other was to be", func() bool {
			work(t, q, store)
			mark, ok, err := w.store.DueMark(t.Context(), cut)
			return err == nil && ok && mark.At.IsZero() && len(given) > 0
		})
		<-given
		eventually(t, "the other waits", func() bool { s := stats(t, q); return s.Later == 1 && s.Waiting+s.Claimed == 0 })
		for id, n := range tried {
			if n.Load() != 5 {
				t.Errorf("%s was tried %d times", id, n.Load())
			}
		}
		if n := len(given); n > 0 {
			t.Errorf("parking was tried %d times more", n)
		}
	})
}

// retry brings back the rows that are set aside until a lease has passed.
func retry(t *testing.T, q *asynqqueue.Queue) {
	t.Helper()
	if _, err := q.Retry(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// damaged is a worker over a store that cannot read any row, and write nothing of one.
type damaged struct {
	*promotion.Worker
	tried map[memory.ID]*atomic.Int64
	given chan struct{}
	worse memory.ID
}

func (d damaged) Check(_ context.Context, id memory.ID) (promotion.Result, error) {
	d.tried[id].Add(1)
	return promotion.Result{}, fmt.Errorf("%w: evidence", memory.ErrDamaged)
}

func (d damaged) Park(ctx context.Context, id memory.ID, reason string) error {
	if id == d.worse {
		d.given <- struct{}{}
		return fmt.Errorf("%w: head", memory.ErrDamaged)
	}
	return d.Worker.Park(ctx, id, reason)
}

func TestATokenTakesMoreRowsWhileChecksAreQuickAndOneWhileTheyAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a check lasts exactly as long as it says
		q := newQueue(inBubble(t), &asynqqueue.Options{Batch: 8})
		const rows, quick = 60, 44 // of equal heat, in the order of their ids
		for i := range rows {
			offer(t, q, promotion.Offer{ID: memory.ID(fmt.Sprintf("row%02d", i))})
		}
		var mu sync.Mutex
		var batches []int // how many checks began at one moment
		var last time.Time
		work(t, q, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			mu.Lock()
			if now := time.Now(); !now.Equal(last) {
				batches, last = append(batches, 0), now
			}
			batches[len(batches)-1]++
			mu.Unlock()
			lasts := time.Millisecond
			if string(id) >= fmt.Sprintf("row%02d", quick) {
				lasts = 220 * time.Millisecond
			}
			<-time.After(lasts)
			return promotion.Result{Status: promotion.Promoted}, nil
		}))
		// Five rows of the last batch of eight are quick, and it lasts as long as the others.
		if want := []int{1, 2, 4, 8, 8, 8, 8, 8, 4, 2, 1, 1, 1, 1, 1, 1, 1}; !slices.Equal(batches, want) {
			t.Errorf("checked in batches of %v, want %v", batches, want)
		}
	})
}

func TestARowThatWasLostOnceIsClaimedBesideNoOther(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t)
		q := newQueue(client, nil)
		lost, hotter, colder := w.write("lost", memory.StateUnverified), w.write("hotter", memory.StateUnverified), w.write("colder", memory.StateUnverified)
		claim := func(q *asynqqueue.Queue, want ...memory.ID) {
			t.Helper()
			var got []memory.ID
			eventually(t, "something is claimed", func() bool {
				err := q.Pump(t.Context())
				if err == nil {
					got, err = q.ClaimMany(t.Context(), 4)
				}
				if err != nil {
					t.Fatal(err)
				}
				return len(got) > 0
			})
			if !slices.Equal(got, want) {
				t.Errorf("claimed %v, want %v", got, want)
			}
		}
		if err := q.Offer(t.Context(), []promotion.Offer{{ID: lost, Heat: 5}}); err != nil {
			t.Fatal(err)
		}
		claim(q, lost)
		endLeases(t, client, q)
		eventually(t, "it waits again", func() bool { return q.Pump(t.Context()) == nil && stats(t, q).Waiting == 1 })
		if err := q.Offer(t.Context(), []promotion.Offer{{ID: hotter, Heat: 9}, {ID: colder}}); err != nil {
			t.Fatal(err)
		}
		claim(q, hotter)
		claim(q, lost)
		claim(q, colder)
	})
}
