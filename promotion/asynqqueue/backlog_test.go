package asynqqueue_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// refuses refuses every row for an hour, and notes them in order.
type refuses struct {
	alone bool // the breaker is open; else the budget is spent

	mu   sync.Mutex
	seen []memory.ID
}

func (r *refuses) Check(_ context.Context, id memory.ID) (promotion.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, id)
	return promotion.Result{ID: id, Status: promotion.Deferred, RetryAt: time.Now().Add(time.Hour), Behind: []string{"crm"}, Alone: r.alone}, nil
}

func (*refuses) Park(context.Context, memory.ID, string) error { return nil }

func offer(t *testing.T, q *asynqqueue.Queue, rows ...promotion.Offer) {
	t.Helper()
	if err := q.Offer(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
}

func work(t *testing.T, q *asynqqueue.Queue, c asynqqueue.Checker) {
	t.Helper()
	if err := q.Work(t.Context(), c); err != nil {
		t.Fatal(err)
	}
}

// wantClaims claims rows, and wants these in this order.
func wantClaims(t *testing.T, q *asynqqueue.Queue, most int, want ...memory.ID) {
	t.Helper()
	if got, err := q.ClaimMany(t.Context(), most); err != nil || !slices.Equal(got, want) {
		t.Fatalf("claimed %v, want %v (%v)", got, want, err)
	}
}

func wantRows(t *testing.T, q *asynqqueue.Queue, waiting, claimed, later int64) {
	t.Helper()
	if s := stats(t, q); s.Waiting != waiting || s.Claimed != claimed || s.Later != later {
		t.Fatalf("%d waiting, %d claimed, %d later; want %d, %d and %d", s.Waiting, s.Claimed, s.Later, waiting, claimed, later)
	}
}

// The clock of Redis stands at the very moment of a pump.
func TestABacklogThatClosesAtTheMomentOfAPumpIsClosed(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.SetTime(time.UnixMilli(1_800_000_000_000).UTC())
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: -1, MaxRetries: -1})
	defer client.Close()
	const rows = 20
	q := newQueue(client, &asynqqueue.Options{Batch: 1})
	for i := range rows {
		offer(t, q, promotion.Offer{ID: memory.ID(fmt.Sprint("row", i))})
	}
	checks := 0
	work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
		checks++
		return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(-time.Second), Behind: []string{"crm"}}, nil
	}))
	if checks != rows {
		t.Errorf("%d checks of %d rows, in no time at all", checks, rows)
	}
}

// Thousands of the hottest rows are of a source that refuses, and may be asked again
// every few moments; colder ones are of another source.
func TestRowsThatASourceRefusesStarveNoRowOfAnother(t *testing.T) {
	t.Parallel()
	const hot, cold, places, batch, slot = 2000, 200, 2, 8, 200 * time.Millisecond
	for _, c := range []struct {
		name   string
		down   verifiertest.Step
		budget int
	}{
		{"its breaker is open", verifiertest.Down(0), -1},
		{"its budget is spent", verifiertest.Unclear(), 1},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			w := newWorld(t)
			down := verifiertest.New("down", c.down)
			guard := verifier.WithBreaker("down", down, &verifier.BreakerOptions{Timeout: time.Hour, Failures: 1, FirstOpen: slot, OpenFor: slot})
			hots := func(c memory.Content) bool { return strings.HasPrefix(c.Subject, "hot") }
			// Each source has a worker's budget of its own, by its name: that of up is not spent.
			spending := only{source: "down", budget: c.budget, tick: slot}
			worker, err := promotion.NewWorker(w.store, []promotion.Source{
				{Name: "down", Verifier: guard, Covers: hots},
				{Name: "up", Verifier: verifiertest.New("up", verifiertest.Supports()), Covers: func(c memory.Content) bool { return !hots(c) }},
			}, &promotion.Options{Spending: &spending})
			if err != nil {
				t.Fatal(err)
			}
			q := newQueue(inBubble(t), &asynqqueue.Options{Concurrency: places, Batch: batch})
			heat, isHot := map[memory.ID]float64{}, map[memory.ID]bool{}
			for i := range hot {
				id := w.write(fmt.Sprint("hot", i), memory.StateUnverified)
				heat[id], isHot[id] = 100, true
			}
			var colds []memory.ID
			for i := range cold {
				colds = append(colds, w.write(fmt.Sprint("cold", i), memory.StateUnverified))
			}
			w.heat(heat)
			w.sweep(q)
			var checks, promoted atomic.Int64
			began := time.Now()
			serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
				r, err := worker.Check(ctx, id)
				if isHot[id] {
					checks.Add(1)
				} else if r.Status == promotion.Promoted {
					promoted.Add(1)
				}
				return r, err
			}))
			eventually(t, "all rows of the other source are promoted", func() bool { return promoted.Load() == cold })
			if !w.all(memory.StateVerified, colds...) {
				t.Error("they are not verified")
			}
			t.Logf("%s until all of the others were verified; %d checks of rows that are refused", time.Since(began), checks.Load())
			eventually(t, "the one that is down was asked in many of its moments", func() bool { return down.Calls() >= 10 })
			// Each row once. Then of those behind a breaker one in each pump, beside the one
			// that failed and came back; of those behind a budget in each of its moments what
			// is taken before the first refusal, twice where a moment ends meanwhile.
			n := checks.Load() // before the moments are counted, which go on
			most := int64(hot + 2*(int(time.Since(began)/slot)+1))
			if c.budget >= 0 {
				most = int64(hot + 2*places*batch*(int(time.Since(began)/slot)+1))
			}
			if n > most {
				t.Errorf("%d checks of %d rows that are refused, want %d at most", n, hot, most)
			}
		}))
	}
}

// Each worker has a breaker of its own. One that asks in vain, and is told to wait for an
// hour besides, leaves the rows to those that are answered.
func TestAWorkerThatAloneCannotReachAVerifierHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	const rows, places, batch = 400, 2, 8
	for _, c := range []struct {
		name  string
		says  verifiertest.Step
		guard verifier.BreakerOptions
	}{
		{"its breaker is open for long", verifiertest.Down(0), verifier.BreakerOptions{Timeout: time.Hour, Failures: 1, FirstOpen: time.Hour, OpenFor: time.Hour}},
		{"its breaker probes again and again", verifiertest.Down(0), verifier.BreakerOptions{Timeout: time.Hour, Failures: 1, FirstOpen: 300 * time.Millisecond, OpenFor: 300 * time.Millisecond}},
		{"it was told to wait", verifiertest.Down(time.Hour), verifier.BreakerOptions{Timeout: time.Hour, FirstOpen: time.Hour, OpenFor: time.Hour}},
	} {
		t.Run(c.name, bubble(func(t *testing.T) {
			client := inBubble(t)
			w := newWorld(t)
			var ids []memory.ID
			for i := range rows {
				ids = append(ids, w.write(fmt.Sprint("row", i), memory.StateUnverified))
			}
			worker := func(says verifiertest.Step) (*asynqqueue.Queue, *promotion.Worker) {
				q := newQueue(client, &asynqqueue.Options{Concurrency: places, Batch: batch})
				guard := verifier.WithBreaker("crm", verifiertest.New("crm", says), &c.guard)
				worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}}, &promotion.Options{Spending: q, Budget: 1000})
				if err != nil {
					t.Fatal(err)
				}
				return q, worker
			}
			sickQueue, sick := worker(c.says)
			w.sweep(sickQueue)
			var looks atomic.Int64
			met := time.Now()
			stopSick := serve(t, sickQueue, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
				looks.Add(1)
				return sick.Check(ctx, id)
			}))
			eventually(t, "all rows are in the backlog, but some about which it asked itself", func() bool {
				s := stats(t, sickQueue).Backlogs
				return len(s) == 1 && s[0].Alone && s[0].Rows >= rows-places*batch
			})
			began := time.Now()
			healthyQueue, healthy := worker(verifiertest.Supports())
			stopHealthy := serve(t, healthyQueue, healthy)
			eventually(t, c.name+": all rows are verified", func() bool { return w.all(memory.StateVerified, ids...) })
			// Each row once; then in each of its moments one that probes and one that failed
			// before, and more only of those that others failed to take.
			n := looks.Load() // before the moments are counted, which go on
			most := int64(rows + 2*places + 2*(int(time.Since(met)/min(c.guard.OpenFor, 250*time.Millisecond))+1))
			if n > most {
				t.Errorf("%s: it looked at rows %d times, want %d at most", c.name, n, most)
			}
			t.Logf("%s: all are verified %s after the other came, with %d looks of this one", c.name, time.Since(began), looks.Load())
			stopHealthy()
			stopSick()
		}))
	}
}

// only has a budget for one source.
type only struct {
	source string
	budget int
	tick   time.Duration

	mu    sync.Mutex
	began time.Time
	spent int
}

func (o *only) Spend(_ context.Context, source string, _ int, _ time.Duration) (time.Duration, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if source != o.source || o.budget < 0 {
		return 0, nil
	}
	if now := time.Now(); now.Sub(o.began) >= o.tick {
		o.began, o.spent = now, 0
	}
	if o.spent >= o.budget {
		return time.Until(o.began.Add(o.tick)), nil
	}
	o.spent++
	return 0, nil
}

func (o *only) renew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began = time.Time{}
}

func (o *only) Refund(context.Context, string) error { return nil }

func TestABacklog(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		scopes := 0
		fresh := func(o asynqqueue.Options) *asynqqueue.Queue {
			scopes++
			o.Tenant = fmt.Sprint("tenant", scopes)
			return newQueue(client, &o)
		}
		t.Run("gives the hottest first when it opens, also one that became hot on it", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			offer(t, q, promotion.Offer{ID: "a", Heat: 1}, promotion.Offer{ID: "b", Heat: 9}, promotion.Offer{ID: "c", Heat: 3}, promotion.Offer{ID: "d", Heat: 5})
			work(t, q, &refuses{})
			offer(t, q, promotion.Offer{ID: "a", Heat: 7})
			wantRows(t, q, 0, 0, 4)
			if s := stats(t, q).Backlogs; len(s) != 1 || !slices.Equal(s[0].Verifiers, []string{"crm"}) || s[0].Rows != 4 || s[0].Closed < 59*time.Minute || s[0].Closed > time.Hour+250*time.Millisecond {
				t.Fatalf("%+v", s)
			}
			if n, err := q.Retry(t.Context()); n != 4 || err != nil {
				t.Fatal(n, err)
			}
			wantRows(t, q, 4, 0, 0)
			if s := stats(t, q).Backlogs; len(s) != 1 || s[0].Rows != 4 || s[0].Closed != 0 || s[0].Alone {
				t.Fatalf("%+v", s)
			}
			offer(t, q, promotion.Offer{ID: "e", Heat: 6}, promotion.Offer{ID: "f", Heat: 0}) // these wait
			wantClaims(t, q, 5, "b", "a", "e", "d", "c")
			wantClaims(t, q, 5, "f")
			wantClaims(t, q, 5)
			wantRows(t, q, 0, 6, 0)
		})
		t.Run("opens when its time comes, and wakes a worker", func(t *testing.T) {
			for _, alone := range []bool{false, true} {
				q := fresh(asynqqueue.Options{Concurrency: 1})
				offer(t, q, promotion.Offer{ID: "a"})
				var checks atomic.Int64
				var early atomic.Bool
				back := time.Now().Add(700 * time.Millisecond)
				stop := serve(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
					if checks.Add(1) == 1 {
						return promotion.Result{Status: promotion.Down, RetryAt: back, Behind: []string{"crm"}, Alone: alone}, nil
					}
					early.Store(time.Now().Before(back))
					return promotion.Result{Status: promotion.Promoted}, nil
				}))
				eventually(t, "it was checked again", func() bool { return checks.Load() == 2 })
				eventually(t, "nothing is left", func() bool { s := stats(t, q); return s.Waiting+s.Claimed+s.Later == 0 })
				stop()
				if early.Load() {
					t.Errorf("it opened before its time (alone: %t)", alone)
				}
			}
		})
		t.Run("of an open breaker is closed to the worker that has it, and to no other", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			other := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", scopes)})
			offer(t, q, promotion.Offer{ID: "a", Heat: 1}, promotion.Offer{ID: "b", Heat: 9}, promotion.Offer{ID: "c", Heat: 3})
			work(t, q, &refuses{alone: true})
			wantRows(t, other, 0, 0, 3)
			if s := stats(t, other).Backlogs; len(s) != 1 || s[0].Rows != 3 || !s[0].Alone || s[0].Closed < 59*time.Minute || s[0].Closed > time.Hour+250*time.Millisecond {
				t.Fatalf("%+v", s)
			}
			if n, err := q.Retry(t.Context()); n != 0 || err != nil { // a breaker goes by its own clock
				t.Fatal(n, err)
			}
			wantClaims(t, q, 3)
			wantClaims(t, other, 1, "b")
			offer(t, q, promotion.Offer{ID: "waits"})
			wantClaims(t, q, 3, "waits")
			wantClaims(t, other, 3, "c", "a")
			wantRows(t, q, 0, 4, 0)
		})
		t.Run("of an open breaker is closed to all by a budget that is spent", func(t *testing.T) {
			for _, budgetFirst := range []bool{false, true} {
				q := fresh(asynqqueue.Options{})
				other := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", scopes)})
				offer(t, q, promotion.Offer{ID: "a"})
				work(t, q, &refuses{alone: !budgetFirst})
				offer(t, q, promotion.Offer{ID: "b"})
				work(t, q, &refuses{alone: budgetFirst})
				third := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", scopes)})
				wantClaims(t, third, 2)
				if s := stats(t, other).Backlogs; len(s) != 1 || s[0].Rows != 2 || s[0].Alone || s[0].Closed == 0 {
					t.Fatalf("%+v", s)
				}
				if n, err := other.Retry(t.Context()); n != 2 || err != nil {
					t.Fatal(n, err)
				}
				wantClaims(t, q, 2)
				wantClaims(t, third, 2, "a", "b")
			}
		})
		t.Run("of an open breaker is noted for as long as the last of its workers leaves it alone", func(t *testing.T) {
			q := fresh(asynqqueue.Options{Batch: 1})
			offer(t, q, promotion.Offer{ID: "a", Heat: 2}, promotion.Offer{ID: "b", Heat: 1}, promotion.Offer{ID: "c"})
			waits := map[memory.ID]time.Duration{"a": time.Minute, "b": time.Hour, "c": time.Minute}
			work(t, q, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
				return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(waits[id]), Behind: []string{"crm"}, Alone: true}, nil
			}))
			if s := stats(t, q).Backlogs; len(s) != 1 || s[0].Rows != 3 || s[0].Closed < 59*time.Minute {
				t.Fatalf("%+v", s)
			}
		})
		t.Run("is closed for all by the first refusal for want of budget that one worker meets", func(t *testing.T) {
			q := fresh(asynqqueue.Options{Batch: 1})
			other := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", scopes)})
			var rows []promotion.Offer
			for i := range 50 {
				rows = append(rows, promotion.Offer{ID: memory.ID(fmt.Sprintf("row%02d", i)), Heat: 9})
			}
			offer(t, q, rows...)
			first, second := &refuses{}, &refuses{}
			work(t, q, first)
			if _, err := q.Retry(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantRows(t, other, 50, 0, 0)
			work(t, q, first)
			offer(t, q, promotion.Offer{ID: "waits"})
			work(t, other, second)
			if len(first.seen) != 51 || !slices.Equal(second.seen, []memory.ID{"waits"}) {
				t.Errorf("%d checks by one, %v by the other", len(first.seen), second.seen)
			}
			wantRows(t, other, 0, 0, 51)
		})
		t.Run("gives a row that was claimed from it and lost to those that wait", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			offer(t, q, promotion.Offer{ID: "a", Heat: 1}, promotion.Offer{ID: "b", Heat: 2})
			work(t, q, &refuses{})
			if _, err := q.Retry(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantClaims(t, q, 1, "b")
			endLeases(t, client, q)
			eventually(t, "its lease ended", func() bool {
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				return stats(t, q).Claimed == 0
			})
			wantRows(t, q, 2, 0, 0)
			wantClaims(t, q, 1, "b") // it was lost once, and comes alone
			wantClaims(t, q, 1, "a")
		})
		t.Run("is found again if Redis forgets which there are", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			offer(t, q, promotion.Offer{ID: "a"}, promotion.Offer{ID: "b", Heat: 1})
			work(t, q, &refuses{})
			if err := client.Del(t.Context(), strings.TrimSuffix(q.LostKey(), "lost")+"closed").Err(); err != nil {
				t.Fatal(err)
			}
			offer(t, q, promotion.Offer{ID: "a"}) // as a sweep does
			wantClaims(t, q, 2, "b", "a")
		})
		t.Run("is gone with a Redis that is wiped, and the next offers wait", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			offer(t, q, promotion.Offer{ID: "a"}, promotion.Offer{ID: "b", Heat: 1})
			work(t, q, &refuses{})
			if err := client.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			offer(t, q, promotion.Offer{ID: "a"}, promotion.Offer{ID: "b", Heat: 1})
			wantClaims(t, q, 2, "b", "a")
		})
		t.Run("that is empty leaves no key behind", func(t *testing.T) {
			for _, alone := range []bool{false, true} {
				q := fresh(asynqqueue.Options{})
				offer(t, q, promotion.Offer{ID: "a"})
				answers := false
				c := checker(func(context.Context, memory.ID) (promotion.Result, error) {
					if answers {
						return promotion.Result{Status: promotion.Promoted}, nil
					}
					return promotion.Result{Status: promotion.Down, RetryAt: time.Now(), Behind: []string{"crm"}, Alone: alone}, nil
				})
				work(t, q, c)
				answers = true
				eventually(t, "nothing is left", func() bool {
					work(t, q, c)
					keys, err := client.Keys(t.Context(), strings.TrimSuffix(q.LostKey(), "lost")+"*").Result()
					return len(keys) == 0 && err == nil
				})
			}
		})
		t.Run("takes no row that was set aside before there were backlogs: it comes back to those that wait", func(t *testing.T) {
			q := fresh(asynqqueue.Options{})
			prefix := strings.TrimSuffix(q.LostKey(), "lost")
			if err := client.ZAdd(t.Context(), prefix+"later", redis.Z{Score: 1, Member: "old"}).Err(); err != nil {
				t.Fatal(err)
			}
			if err := client.HSet(t.Context(), prefix+"order", "old", "-5").Err(); err != nil {
				t.Fatal(err)
			}
			offer(t, q, promotion.Offer{ID: "cold"}) // and pumps
			wantClaims(t, q, 2, "old", "cold")
		})
	})
}

// The moments at which a backlog opens, in time that passes only while nobody works.
func TestABacklogOpensInTime(t *testing.T) {
	t.Parallel()
	t.Run("at the first moment that a refusal names", bubble(func(t *testing.T) {
		for _, alone := range []bool{false, true} {
			for first := range 2 { // of the two refusals, the one that names the first moment
				const soon = 100 * time.Millisecond
				q := newQueue(inBubble(t), &asynqqueue.Options{Batch: 1})
				waits := []time.Duration{time.Hour, time.Hour}
				waits[first] = soon
				offer(t, q, promotion.Offer{ID: "a", Heat: 1}, promotion.Offer{ID: "b"})
				n, began := 0, time.Now()
				work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
					n++
					return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(waits[n-1]), Behind: []string{"crm"}, Alone: alone}, nil
				}))
				if n != len(waits) {
					t.Fatalf("%d checks of %d rows", n, len(waits))
				}
				eventually(t, "both can be taken", func() bool {
					work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
						n++
						return promotion.Result{Status: promotion.Promoted}, nil
					}))
					return n == 4
				})
				if took := time.Since(began); took < soon || took > soon+500*time.Millisecond {
					t.Errorf("both can be taken after %s (alone: %t)", took, alone)
				}
			}
		}
	}))
	t.Run("and is not taken from again and again, whatever moment refusals name", bubble(func(t *testing.T) {
		over := func() time.Time { return time.Now().Add(-time.Second) }
		soon := func() time.Time { return time.Now().Add(time.Millisecond) }
		far := func() time.Time { return time.Now().Add(math.MaxInt64) }
		for _, c := range []struct {
			name  string
			at    func() time.Time
			alone bool
		}{
			{"one that is over", over, false},
			{"this very moment", time.Now, false},
			{"so close that it is over soon", soon, false},
			{"centuries away", far, false},
			{"of an open breaker, one that is over", over, true},
			{"of an open breaker, this very moment", time.Now, true},
			{"of an open breaker, so close that it is over soon", soon, true},
			{"of an open breaker, centuries away", far, true},
		} {
			const rows = 20
			q := newQueue(inBubble(t), &asynqqueue.Options{Batch: 1})
			var all []promotion.Offer
			for i := range rows {
				all = append(all, promotion.Offer{ID: memory.ID(fmt.Sprint("row", i))})
			}
			offer(t, q, all...)
			checks := 0
			work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
				checks++
				return promotion.Result{Status: promotion.Down, RetryAt: c.at(), Behind: []string{"crm"}, Alone: c.alone}, nil
			}))
			// No time passes: each row is looked at once, and one more when the backlog opens.
			if checks < rows || checks > rows+2 {
				t.Errorf("%s: %d checks of %d rows", c.name, checks, rows)
			}
		}
	}))
	t.Run("and is not drawn from while it is closed for all", bubble(func(t *testing.T) {
		q := newQueue(inBubble(t), &asynqqueue.Options{Batch: 1})
		offer(t, q, promotion.Offer{ID: "a"})
		work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
			return promotion.Result{Status: promotion.Down, RetryAt: time.Now(), Behind: []string{"crm"}, Alone: true}, nil
		}))
		offer(t, q, promotion.Offer{ID: "b"})
		work(t, q, &refuses{})
		for range 8 { // it would draw after a pump
			time.Sleep(100 * time.Millisecond)
			if err := q.Pump(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantClaims(t, q, 2)
		}
	}))
}

// Two sources cover all rows: one is down for long, the other knows nothing of the
// hottest, and its budget is spent before it is asked about the others.
func TestRowsThatWaitForOneSourceHoldUpNoneThatAnotherCanBeAskedAbout(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		const hot, cold = 3, 2
		w := newWorld(t)
		hots := map[memory.ID]bool{}
		knows := verifiertest.New("knows", func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
			if hots[row.ID] {
				return verifiertest.Unclear()(ctx, s, row)
			}
			return verifiertest.Supports()(ctx, s, row)
		})
		down := verifiertest.New("down", verifiertest.Fails(&verifier.UnavailableError{Verifier: "down", RetryAfter: 10 * time.Millisecond, Err: verifier.ErrOpen}))
		spending := only{source: "knows", budget: hot, tick: time.Hour}
		worker, err := promotion.NewWorker(w.store, []promotion.Source{
			{Name: "down", Verifier: down, Rank: memory.RankPrimarySource}, {Name: "knows", Verifier: knows, Rank: memory.RankTool},
		}, &promotion.Options{Spending: &spending})
		if err != nil {
			t.Fatal(err)
		}
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1})
		var rows []promotion.Offer
		var colds []memory.ID
		for i := range hot {
			id := w.write(fmt.Sprint("hot", i), memory.StateUnverified)
			hots[id] = true
			rows = append(rows, promotion.Offer{ID: id, Heat: 9})
		}
		for i := range cold {
			colds = append(colds, w.write(fmt.Sprint("cold", i), memory.StateUnverified))
			rows = append(rows, promotion.Offer{ID: colds[i]})
		}
		offer(t, q, rows...)
		eventually(t, "the budget is spent, and all rows wait", func() bool {
			work(t, q, worker)
			var put int64
			for _, s := range stats(t, q).Backlogs {
				put += s.Rows
			}
			return put == hot+cold && knows.Calls() == hot
		})
		spending.renew()
		eventually(t, "the others are verified in the next tick", func() bool {
			work(t, q, worker)
			return w.all(memory.StateVerified, colds...)
		})
	})
}

// spoiled is a worker of one verifier to which the hottest row is poison, and a queue in
// which that row and colder ones wait.
func spoiled(t *testing.T, client redis.UniversalClient, bad verifiertest.Step, colder int, o verifier.BreakerOptions) (w *world, worker *promotion.Worker, q *asynqqueue.Queue, poison memory.ID, others []memory.ID) {
	t.Helper()
	w = newWorld(t)
	poison = w.write("poison", memory.StateUnverified)
	w.heat(map[memory.ID]float64{poison: 1000})
	guard := verifier.WithBreaker("crm", verifiertest.New("crm", func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
		if row.ID == poison {
			return bad(ctx, s, row)
		}
		return verifiertest.Supports()(ctx, s, row)
	}), &o)
	worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}}, &promotion.Options{Budget: -1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range colder {
		others = append(others, w.write(fmt.Sprint("row", i), memory.StateUnverified))
	}
	q = newQueue(client, &asynqqueue.Options{Concurrency: 1, Batch: 1})
	w.sweep(q)
	return w, worker, q, poison, others
}

// One row that is never answered in time is its own trouble.
func TestARowThatAlwaysTimesOutClosesNoBacklog(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w, worker, q, poison, others := spoiled(t, client, verifiertest.Hangs(), 20, verifier.BreakerOptions{Timeout: 20 * time.Millisecond, Failures: 1000})
		var tries, behind atomic.Int64
		serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
			r, err := worker.Check(ctx, id)
			if id == poison {
				tries.Add(1)
			}
			if r.Behind != nil {
				behind.Add(1)
			}
			return r, err
		}))
		eventually(t, "all others are verified", func() bool { return w.all(memory.StateVerified, others...) })
		eventually(t, "it is tried again", func() bool { return tries.Load() >= 2 })
		if n := behind.Load(); n != 0 {
			t.Errorf("%d rows were to wait behind the source", n)
		}
	})
}

// A row that yields lets all others go first, also if it is read meanwhile or swept up;
// among such rows heat decides.
func TestRowsThatYieldLetAllOthersGoFirst(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		for tenant, read := range []bool{false, true} {
			q := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", tenant), Batch: 1})
			offer(t, q, promotion.Offer{ID: "a", Heat: 9}, promotion.Offer{ID: "b", Heat: 5}, promotion.Offer{ID: "c", Heat: 3}, promotion.Offer{ID: "d", Heat: 2}, promotion.Offer{ID: "e"})
			yields := map[memory.ID]time.Duration{"a": time.Hour, "b": time.Minute, "d": time.Hour}
			checks := checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
				r := promotion.Result{ID: id, Status: promotion.Down, RetryAt: time.Now().Add(time.Millisecond), Yield: yields[id]}
				if id == "d" {
					r.Behind, r.Alone = []string{"crm"}, true
				}
				return r, nil
			})
			waiting := func() bool {
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				return stats(t, q).Waiting == 5
			}
			for range 3 {
				work(t, q, checks)
				eventually(t, "all have come back", waiting)
			}
			if read {
				offer(t, q, promotion.Offer{ID: "b", Heat: 40}, promotion.Offer{ID: "d", Heat: 50})
			}
			var got []memory.ID
			eventually(t, "all are taken", func() bool {
				ids, err := q.ClaimMany(t.Context(), 5)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ids...)
				return len(got) == 5
			})
			got = slices.DeleteFunc(got, func(id memory.ID) bool { return id == "d" && !read }) // it is drawn
			want := []memory.ID{"c", "e", "a", "b"}
			if read {
				want = []memory.ID{"c", "e", "b", "a"}
				got = slices.DeleteFunc(got, func(id memory.ID) bool { return id == "d" })
			}
			if !slices.Equal(got, want) {
				t.Errorf("taken in the order %v, want %v (read meanwhile: %t)", got, want, read)
			}
		}
	})
}
