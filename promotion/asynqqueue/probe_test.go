package asynqqueue_test

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// Many more rows are looked at while the breaker is open than the budget of a tick, which
// all workers share, has questions.
func TestAnOpenBreakerSpendsNoBudget(t *testing.T) {
	t.Parallel()
	const rows, budget, openFor = 300, 5, time.Hour
	cut := func(t *testing.T, client redis.UniversalClient) (w *world, v *verifiertest.Scripted, make func(verifier.Verifier) (*asynqqueue.Queue, *promotion.Worker)) {
		w = newWorld(t)
		for i := range rows {
			w.write(fmt.Sprint("row", i), memory.StateUnverified)
		}
		make = func(v verifier.Verifier) (*asynqqueue.Queue, *promotion.Worker) {
			q := newQueue(client, nil)
			guard := verifier.WithBreaker("crm", v, &verifier.BreakerOptions{Timeout: time.Hour, Failures: 1, FirstOpen: openFor, OpenFor: openFor, MaxConcurrent: 1})
			worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}},
				&promotion.Options{Spending: q, Budget: budget, Tick: 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			return q, worker
		}
		v = verifiertest.New("crm", verifiertest.Down(0))
		return w, v, make
	}
	// All rows are in the backlog, but one about which it asked.
	inBacklog := func(t *testing.T, q *asynqqueue.Queue) bool {
		s := stats(t, q)
		return len(s.Backlogs) == 1 && s.Backlogs[0].Rows >= rows-1 && s.Claimed == 0 && s.Backlogs[0].Alone
	}
	t.Run("so another worker has all of it but what was asked", func(t *testing.T) {
		t.Parallel()
		w, down, make := cut(t, database(t))
		q, sick := make(down)
		w.sweep(q)
		stop := serve(t, q, sick)
		eventually(t, "all rows are in the backlog, and it is closed for one worker alone", func() bool { return inBacklog(t, q) })
		stop()
		up := verifiertest.New("crm", verifiertest.Supports())
		q, healthy := make(up)
		serve(t, q, healthy)
		eventually(t, "the budget is spent, for all", func() bool {
			s := stats(t, q).Backlogs
			return up.Calls() == budget-down.Calls() && len(s) == 1 && !s[0].Alone && s[0].Closed > 0
		})
		if down.Calls() != 1 {
			t.Errorf("%d questions were asked in vain", down.Calls())
		}
	})
	t.Run("so it is there when the verifier is back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // the breaker goes by the clock
			w, v, make := cut(t, inBubble(t))
			q, worker := make(v)
			w.sweep(q)
			work(t, q, worker)
			if !inBacklog(t, q) || v.Calls() != 1 {
				t.Fatalf("%+v after %d questions", stats(t, q), v.Calls())
			}
			v.Set(verifiertest.Supports())
			<-time.After(openFor)
			for range 8 { // the first question is a probe
				<-time.After(250 * time.Millisecond)
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				work(t, q, worker)
			}
			if v.Calls() != budget {
				t.Errorf("asked %d times, want %d", v.Calls(), budget)
			}
		})
	})
}

// Rows that a worker left to the others make no tokens: whoever may ask sees for itself.
func TestRowsThatOneWorkerLeavesAloneWakeTheOthersWithoutTokens(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		sick, agent := newQueue(client, nil), newQueue(client, nil)
		var rows []promotion.Offer
		for i := range 50 {
			rows = append(rows, promotion.Offer{ID: memory.ID(fmt.Sprint("row", i))})
		}
		offer(t, agent, rows...)
		work(t, sick, &refuses{alone: true})
		// The tokens that were made while they waited are gone with a queue that serves nothing.
		stop := serve(t, sick, checker(func(context.Context, memory.ID) (promotion.Result, error) {
			t.Error("it took a row of a backlog that is closed to it")
			return promotion.Result{}, nil
		}))
		eventually(t, "the tokens are spent", func() bool { s := stats(t, agent); return s.Pending+s.Active == 0 })
		stop()
		offer(t, agent, rows...)
		if s := stats(t, agent); s.Pending != 0 || s.Later != 50 {
			t.Errorf("%d tokens wake workers for rows that the only one leaves alone: %+v", s.Pending, s)
		}
		healthy := newQueue(client, &asynqqueue.Options{Concurrency: 2})
		var checks, most, now atomic.Int64
		release := make(chan struct{})
		stop = serve(t, healthy, checker(func(context.Context, memory.ID) (promotion.Result, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			if checks.Add(1) <= 2 {
				<-release
			}
			now.Add(-1)
			return promotion.Result{Status: promotion.Promoted}, nil
		}))
		eventually(t, "two places have each a row", func() bool { return checks.Load() == 2 })
		if s := stats(t, agent); s.Pending+s.Active != 0 || s.Claimed != 2 {
			t.Errorf("%+v", s)
		}
		ended := make(chan struct{})
		go func() { stop(); close(ended) }()
		select {
		case <-ended:
			t.Error("it ended before its checks")
		case <-time.After(100 * time.Millisecond):
		}
		close(release)
		<-ended
		wantRows(t, agent, 0, 0, 48) // no other was taken
		if checks.Load() != 2 {
			t.Errorf("%d checks in two places that were to end", checks.Load())
		}
	})
}

// One row always fails, hottest of all, and is read and swept up again and again.
func TestARowThatAlwaysFailsIsNotTheProbeEachTime(t *testing.T) {
	t.Parallel()
	const openFor = time.Second
	for _, c := range []struct {
		name   string
		bad    verifiertest.Step
		places int
	}{
		{"in one place", verifiertest.Down(0), 1},
		{"and it silences the source", verifiertest.Down(openFor), 1},
		{"in 8 places", verifiertest.Down(0), 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := database(t)
			w, worker, _, poison, others := spoiled(t, client, c.bad, 20, verifier.BreakerOptions{Timeout: time.Hour, Failures: 1, FirstOpen: openFor, OpenFor: openFor})
			q := newQueue(client, &asynqqueue.Options{Concurrency: c.places})
			every := time.NewTicker(openFor / 2)
			defer every.Stop()
			var tries atomic.Int64
			serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
				r, err := worker.Check(ctx, id)
				if id == poison && r.Calls > 0 {
					tries.Add(1)
				}
				return r, err
			}))
			eventually(t, "all others are verified", func() bool {
				select {
				case <-every.C:
					w.sweep(q)
					offer(t, q, promotion.Offer{ID: poison, Heat: 1001})
				default:
				}
				return w.all(memory.StateVerified, others...)
			})
			if n := tries.Load(); n > 8 { // of 20 others one is drawn 19 times of 20
				t.Errorf("the row that always fails was asked about %d times", n)
			}
		})
	}
}

// A row that makes the source ask for an hour's rest silences one worker after the other,
// but not before the other rows were asked about.
func TestARowThatSilencesItsSourceComesLast(t *testing.T) {
	t.Parallel()
	const workers = 4
	client := database(t)
	w := newWorld(t)
	poison := w.write("poison", memory.StateUnverified)
	w.heat(map[memory.ID]float64{poison: 1000})
	var others []memory.ID
	for i := range 40 {
		others = append(others, w.write(fmt.Sprint("row", i), memory.StateUnverified))
	}
	w.sweep(newQueue(client, nil))
	v := verifiertest.New("crm", func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
		if row.ID == poison {
			return verifiertest.Down(time.Hour)(ctx, s, row)
		}
		return verifiertest.Slow(100*time.Millisecond, verifiertest.Supports())(ctx, s, row)
	})
	for range workers {
		worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: verifier.WithBreaker("crm", v, &verifier.BreakerOptions{Timeout: time.Hour}), Rank: memory.RankTool}}, &promotion.Options{Budget: -1})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, newQueue(client, &asynqqueue.Options{Concurrency: 1}), worker)
	}
	eventually(t, "all others are verified", func() bool { return w.all(memory.StateVerified, others...) })
}

// Rows that yield are in the backlog with one that does not. The draw takes that one, as often
// as it is refused; when it is gone, one that yields is drawn.
func TestARowThatYieldsIsDrawnAfterAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(inBubble(t), &asynqqueue.Options{Concurrency: 1, Batch: 1})
		offer(t, q, promotion.Offer{ID: "cold"})
		for i := range 5 {
			offer(t, q, promotion.Offer{ID: memory.ID(fmt.Sprint("bad", i)), Heat: 9})
		}
		looks, answers := map[memory.ID]int{}, false
		check := checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			looks[id]++
			if answers && id == "cold" {
				return promotion.Result{Status: promotion.Promoted}, nil
			}
			r := promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(time.Millisecond), Behind: []string{"crm"}, Alone: true}
			if id != "cold" {
				r.Yield = time.Hour
			}
			return r, nil
		})
		probe := func(times int) {
			for range times {
				time.Sleep(time.Second)
				if err := q.Pump(t.Context()); err != nil {
					t.Fatal(err)
				}
				work(t, q, check)
			}
		}
		work(t, q, check) // all are in the backlog after their first look
		before := maps.Clone(looks)
		probe(20)
		for id, n := range looks {
			if id != "cold" && n != before[id] {
				t.Errorf("%s, which yields, was drawn %d times", id, n-before[id])
			}
		}
		if n := looks["cold"] - before["cold"]; n < 20 {
			t.Errorf("the row that does not yield was drawn %d times of 20", n)
		}
		answers = true
		probe(2)
		bad := 0
		for id, n := range looks {
			if id != "cold" {
				bad += n - before[id]
			}
		}
		if bad == 0 {
			t.Error("no row that yields is drawn when no other is there")
		}
	})
}

// A row that yields is checked with no other beside it: it would open the breaker for them.
func TestARowThatYieldsIsCheckedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(inBubble(t), &asynqqueue.Options{Concurrency: 1})
		bad := memory.ID("bad")
		offer(t, q, promotion.Offer{ID: bad, Heat: 9})
		work(t, q, checker(func(context.Context, memory.ID) (promotion.Result, error) {
			return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(time.Millisecond), Yield: time.Hour}, nil
		}))
		time.Sleep(time.Second)
		rows := []promotion.Offer{{ID: bad, Heat: 9}}
		for i := range 5 {
			rows = append(rows, promotion.Offer{ID: memory.ID(fmt.Sprint("row", i))})
		}
		offer(t, q, rows...)
		wantClaims(t, q, 32, "row0", "row1", "row2", "row3", "row4")
		wantClaims(t, q, 32, bad)
	})
}

// Which row probes is drawn by lot: a cold one does too, while nobody is answered.
func TestTheProbeIsDrawnByLot(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		q := newQueue(client, &asynqqueue.Options{Concurrency: 1})
		offer(t, q, promotion.Offer{ID: "hot", Heat: 9}, promotion.Offer{ID: "cold"})
		var hot, cold, answered atomic.Int64
		var answers atomic.Bool
		serve(t, q, checker(func(_ context.Context, id memory.ID) (promotion.Result, error) {
			if answers.Load() {
				answered.Add(1)
				return promotion.Result{Status: promotion.Promoted}, nil
			}
			map[memory.ID]*atomic.Int64{"hot": &hot, "cold": &cold}[id].Add(1)
			return promotion.Result{Status: promotion.Down, RetryAt: time.Now().Add(time.Millisecond), Behind: []string{"crm"}, Alone: true}, nil
		}))
		eventually(t, "both were the probe", func() bool { return hot.Load() > 1 && cold.Load() > 1 })
		answers.Store(true)
		eventually(t, "both are done", func() bool { return answered.Load() == 2 })
	})
}

// A probe may last, and others of its verifier may be all that waits; one place is used for
// it at most, and when the verifier says that it can never answer, its rows get no start.
func TestAProbeHoldsUpNoRowOfAnotherVerifier(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		const rows, places = 30, 2
		q := newQueue(client, &asynqqueue.Options{Concurrency: places})
		release := make(chan struct{})
		taken := make(chan struct{}) // closed when the rows that come after the probe may end
		var open, misconfigured atomic.Bool
		first := make(chan struct{}) // closed when the hottest row is checked
		var probes, bads, goods atomic.Int64
		var looked sync.Map // the rows that were checked before the backlog opened
		serve(t, q, checker(func(ctx context.Context, id memory.ID) (promotion.Result, error) {
			switch {
			case id[0] == 'g':
				if goods.Add(1) == 6 {
					close(first)
				}
				return promotion.Result{Status: promotion.Promoted}, nil
			case misconfigured.Load():
				n := bads.Add(1)
				if n > 2 {
					<-taken
				}
				if n > rows/2 { // if these came first, they would hold both places
					select {
					case <-first:
					case <-ctx.Done():
					}
				}
				return promotion.Result{Status: promotion.Misconfigured}, nil
			case open.Load():
				probes.Add(1)
				<-release
				return promotion.Result{Status: promotion.Misconfigured}, nil
			}
			looked.Store(id, true)
			return promotion.Result{Status: promotion.Down, RetryAt: time.Now(), Behind: []string{"bad"}, Alone: true}, nil
		}))
		for i := range rows {
			offer(t, q, promotion.Offer{ID: memory.ID(fmt.Sprint("bad", i))})
		}
		// A row that was checked once comes back only as a probe. So when all were checked, the
		// one that may be at work is the probe, and the other place is free.
		eventually(t, "all stand in the backlog", func() bool {
			n := 0
			looked.Range(func(any, any) bool { n++; return true })
			s := stats(t, q).Backlogs
			return n == rows && len(s) == 1 && s[0].Rows >= rows-1
		})
		open.Store(true)
		eventually(t, "it probes", func() bool { return probes.Load() > 0 })
		for i := range 5 { // for longer than a pump
			offer(t, q, promotion.Offer{ID: memory.ID(fmt.Sprint("good", i)), Heat: 9})
			eventually(t, "a row of another verifier is checked", func() bool { return goods.Load() == int64(i+1) })
			<-time.After(100 * time.Millisecond)
		}
		if n := probes.Load(); n != 1 {
			t.Errorf("%d probes at once", n)
		}
		misconfigured.Store(true)
		close(release)
		eventually(t, "its rows are taken", func() bool { return bads.Load() > 2 })
		offer(t, q, promotion.Offer{ID: "good", Heat: 9})
		close(taken)
		eventually(t, "the hottest row is checked, and not after all of a verifier that cannot answer", func() bool { return goods.Load() == 6 })
	})
}
