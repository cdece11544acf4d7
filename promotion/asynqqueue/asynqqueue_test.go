package asynqqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// TestEachDueRowIsCheckedOnce, by two processes.
func TestEachDueRowIsCheckedOnce(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		ids := w.write(200)
		crm := verifiertest.New("crm", verifiertest.Supports())
		name := ""
		for range 2 {
			q := patient(open(t))
			name = q.Name("crm")
			w.serve(w.worker(crm, 4), q)
		}
		eventually(t, "all rows are verified", func() bool { return w.verified(ids) })
		empty(t, open(t), name)
		asked := crm.Asked()
		slices.Sort(asked)
		if len(asked) != len(ids) || len(slices.Compact(asked)) != len(ids) {
			t.Errorf("%d questions about %d rows", len(asked), len(ids))
		}
	})
}

// TestTheChecksOfAWorkerThatDiedAreMadeByAnother, and five deaths park the row.
func TestTheChecksOfAWorkerThatDiedAreMadeByAnother(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		for _, deaths := range []int{1, 5} {
			w := newWorld(t)
			id := w.write(1)[0]
			hold := make(chan struct{})
			t.Cleanup(func() { close(hold) })
			var asked atomic.Int64
			stuck := verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
				asked.Add(1)
				<-hold
				return verifier.Verdict{}, errors.New("died")
			})
			watch, deployment := open(t), fmt.Sprint("deaths ", deaths)
			o := &asynqqueue.Options{ShutdownTimeout: time.Millisecond}
			name := asynqqueue.New(watch, deployment, o).Name("crm")
			for n := range deaths {
				c := open(t)
				w.serve(w.worker(stuck, 1), unhurried{asynqqueue.New(c, deployment, o)})
				eventually(t, "the check is under way", func() bool { return asked.Load() == int64(n+1) })
				c.cut.Store(true)
				dies(t, watch, name)
			}
			crm := verifiertest.New("crm", verifiertest.Supports())
			w.serve(w.worker(crm, 1), unhurried{asynqqueue.New(watch, deployment, o)})
			if deaths == 1 {
				eventually(t, "another worker makes the check", func() bool { return w.verified([]memory.ID{id}) })
			} else {
				eventually(t, "the row is parked", func() bool { m := w.mark(id); return m.At.IsZero() && strings.Contains(m.Reason, "5 workers died") })
			}
			empty(t, watch, name)
			if n := crm.Calls(); n != map[int]int{1: 1, 5: 0}[deaths] {
				t.Errorf("%d deaths, then %d questions", deaths, n)
			}
		}
	})
}

// TestACheckThatPanicsCountsACrash, and what it panicked with is told nobody.
func TestACheckThatPanicsCountsACrash(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		id := w.write(1)[0]
		c, log := open(t), &testmain.Output{}
		var asked atomic.Int64
		q := asynqqueue.New(c, "test", &asynqqueue.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		w.serve(w.worker(verifiertest.NoBreaker(verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			asked.Add(1)
			panic("acme 1 exists")
		})), 1), q)
		time.Sleep(500 * time.Millisecond)
		if n, why := retried(t, c, q.Name("crm")); n != 1 || why != "the check panicked" {
			t.Errorf("%d retries: %s", n, why)
		}
		time.Sleep(30 * time.Second)
		if m := w.mark(id); !m.At.IsZero() || asked.Load() != 5 {
			t.Errorf("%d questions, %+v", asked.Load(), m)
		}
		empty(t, c, q.Name("crm"))
		if strings.Count(log.String(), "a check panicked") != 5 || strings.Contains(log.String(), "acme") {
			t.Error(log.String())
		}
	})
}

// TestAWorkerThatLosesRedisForAWhileHasNotCrashed: its checks begin anew, and none is counted.
func TestAWorkerThatLosesRedisForAWhileHasNotCrashed(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		ids := w.write(3)
		c := open(t)
		q := unhurried{asynqqueue.New(c, "test", nil)}
		var asked atomic.Int64
		w.serve(w.worker(verifiertest.NoBreaker(verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
			if asked.Add(1) > 1 {
				return supports().Verify(ctx, row)
			}
			<-ctx.Done()
			return verifier.Verdict{}, ctx.Err()
		})), 1), q)
		time.Sleep(2 * time.Second)
		before := w.mark(ids[0]).Generation
		c.cut.Store(true)
		time.Sleep(45 * time.Second)
		if m := w.mark(ids[0]); m.Generation == before || m.At.IsZero() {
			t.Errorf("%+v", m)
		}
		c.cut.Store(false)
		time.Sleep(40 * time.Second)
		if !w.verified(ids) || asked.Load() != 4 {
			t.Errorf("%d questions", asked.Load())
		}
		time.Sleep(2 * time.Minute) // until asynq has found the task that was given up
		empty(t, c, q.Name("crm"))
		if asked.Load() != 4 {
			t.Errorf("%d questions", asked.Load())
		}
	})
}

// TestARedisThatIsWipedIsFilledAgain, also while checks are under way.
func TestARedisThatIsWipedIsFilledAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		ids := w.write(100)
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		w.serve(w.worker(verifiertest.New("crm", verifiertest.Slow(time.Second, verifiertest.Supports())), 4), q)
		for range 3 {
			time.Sleep(2500 * time.Millisecond)
			if err := c.FlushDB(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		if !w.verified(ids) {
			t.Error("rows were lost")
		}
		empty(t, c, q.Name("crm"))
	})
}

// TestARedisThatIsAwayLosesNothing.
func TestARedisThatIsAwayLosesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		c := open(t)
		c.cut.Store(true)
		ids := w.write(50)
		q := asynqqueue.New(c, "test", nil)
		w.serve(w.worker(supports(), 4), q)
		time.Sleep(time.Minute)
		c.cut.Store(false)
		time.Sleep(10 * time.Second)
		if !w.verified(ids) {
			t.Error("rows were lost")
		}
		empty(t, c, q.Name("crm"))
	})
}

// away is a store that can be away.
type away struct {
	*memory.Store
	gone atomic.Bool
}

var errAway = errors.New("the row store is away")

func (a *away) Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error) {
	if a.gone.Load() {
		return nil, errAway
	}
	return a.Store.Get(ctx, ids...)
}

// TestAStoreThatIsAwayIsNoCrash: the checks come back.
func TestAStoreThatIsAwayIsNoCrash(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		ids := w.write(1)
		store := &away{Store: w.store}
		store.gone.Store(true)
		var log testmain.Output
		worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: supports(), Rank: memory.RankTool, Places: 4}},
			&promotion.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		w.serve(worker, q)
		for range 20 {
			time.Sleep(time.Second)
			// What a store says may quote the row, and goes to the log.
			if n, why := retried(t, c, q.Name("crm")); n > 0 || n == 0 && why != "the row was not checked; the worker has logged why" {
				t.Errorf("%d crashes: %s", n, why)
			}
		}
		if n := strings.Count(log.String(), errAway.Error()); n != 1 {
			t.Errorf("logged %d times: %s", n, log.String())
		}
		store.gone.Store(false)
		time.Sleep(3 * time.Second)
		if !w.verified(ids) {
			t.Error("the row was lost")
		}
		empty(t, c, q.Name("crm"))
	})
}

// handler is a function that is a CheckHandler.
type handler func(ctx context.Context, c promotion.Check, crashes int) error

func (h handler) Handle(ctx context.Context, c promotion.Check, crashes int) error {
	return h(ctx, c, crashes)
}
func (h handler) Outlived(context.Context, promotion.Check) {}

// serveWith serves a source with a handler until the test ends or stop is called, which says whether checks
// were given back.
func serveWith(t *testing.T, q *asynqqueue.Queue, h handler) (stop func() bool) {
	t.Helper()
	var gaveBack atomic.Bool
	end := testmain.Serve(t, func(ctx context.Context) error {
		err := q.Serve(ctx, "crm", 2, h)
		if errors.Is(err, asynqqueue.ErrGivenBack) {
			gaveBack.Store(true)
			return nil
		}
		return err
	})
	return func() bool {
		end()
		return gaveBack.Load()
	}
}

// TestAPersonCanReadATask.
func TestAPersonCanReadATask(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "shop {1}", nil)
		const row = memory.ID("mem_00000000000000000000000000")
		check := promotion.Check{Tenant: "acme:1", Namespace: "sales", Row: row, Source: "crm", Generation: 7}
		for n := range 2 {
			if added, err := q.Enqueue(t.Context(), check, 19001*time.Millisecond); added != (n == 0) || err != nil {
				t.Fatal(n, added, err)
			}
		}
		if name := q.Name("crm/eu"); name != "hearsay:shop+=7B1=7D:crm=2Feu" {
			t.Error(name)
		}
		list, err := asynq.NewInspectorFromRedisClient(c).ListPendingTasks(q.Name("crm"))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		got := list[0]
		const want = `{"tenant":"acme:1","namespace":"sales","row":"mem_00000000000000000000000000","source":"crm","generation":7}`
		if got.Type != "hearsay:check" || string(got.Payload) != want || got.ID != "acme=3A1:sales:mem_00000000000000000000000000:crm:7" ||
			got.Timeout != 20*time.Second || got.MaxRetry != 1<<31-1 || got.Retention != 0 || got.Queue != "hearsay:shop+=7B1=7D:crm" {
			t.Errorf("%+v: %s", got, got.Payload)
		}
		seen := make(chan promotion.Check, 1)
		serveWith(t, q, func(_ context.Context, c promotion.Check, crashes int) error {
			if crashes != 0 {
				t.Errorf("%d crashes", crashes)
			}
			seen <- c
			return nil
		})
		if got := <-seen; got != check {
			t.Errorf("%+v", got)
		}
		empty(t, c, q.Name("crm"))
	})
}

// TestATaskThatIsNoCheckIsDeleted, and nobody is asked.
func TestATaskThatIsNoCheckIsDeleted(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c, log := open(t), &testmain.Output{}
		q := asynqqueue.New(c, "test", &asynqqueue.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		client := asynq.NewClientFromRedisClient(c)
		good := `{"row":"mem_00000000000000000000000000","source":"crm"}`
		strange := map[string]string{"": "hearsay:check", "{}": "hearsay:check", `{"row":"mem_1","source":"crm"}`: "hearsay:check", `{"generation":-1}`: "hearsay:check",
			strings.Replace(good, "crm", "erp", 1): "hearsay:check", good: "hearsay:check_all", good + strings.Repeat(" ", 33_000): "hearsay:check"}
		for body, kind := range strange {
			if _, err := client.Enqueue(asynq.NewTask(kind, []byte(body)), asynq.Queue(q.Name("crm"))); err != nil {
				t.Fatal(err)
			}
		}
		serveWith(t, q, func(context.Context, promotion.Check, int) error {
			t.Error("it was handled")
			return nil
		})
		empty(t, c, q.Name("crm"))
		if n := strings.Count(log.String(), "is deleted"); n != len(strange) {
			t.Errorf("%d lines for %d tasks: %s", n, len(strange), log.String())
		}
	})
}

// TestServeLetsChecksEnd when it is told to stop, and gives back those that take too long.
func TestServeLetsChecksEnd(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", &asynqqueue.Options{ShutdownTimeout: time.Second})
		for _, row := range []memory.ID{"mem_00000000000000000000000000", "mem_00000000000000000000000004"} {
			if _, err := q.Enqueue(t.Context(), promotion.Check{Row: row, Source: "crm"}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		begun, end, hang := make(chan struct{}, 2), make(chan struct{}), make(chan struct{})
		t.Cleanup(func() { close(hang) })
		stop := serveWith(t, q, func(_ context.Context, c promotion.Check, _ int) error {
			begun <- struct{}{}
			if strings.HasSuffix(string(c.Row), "4") {
				<-hang
				return nil
			}
			<-end
			return nil
		})
		<-begun
		<-begun
		time.AfterFunc(50*time.Millisecond, func() { close(end) })
		if !stop() {
			t.Error("it is not said that a check was given back")
		}
		left := tasks(t, c, q.Name("crm"))
		if len(left) != 1 || len(left["pending"]) != 1 || !strings.Contains(left["pending"][0], "04:crm") {
			t.Errorf("%v", left)
		}
	})
}

// TestTheSpanOfATaskIsLinkedToThatOfItsEnqueuing.
func TestTheSpanOfATaskIsLinkedToThatOfItsEnqueuing(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		spans := tracetest.NewSpanRecorder()
		tracer := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")
		c := open(t)
		q := asynqqueue.New(c, "test", &asynqqueue.Options{Tracer: tracer})
		if _, err := q.Enqueue(t.Context(), promotion.Check{Row: "mem_00000000000000000000000000", Source: "crm"}, time.Minute); err != nil {
			t.Fatal(err)
		}
		from := spans.Ended()[0]
		if from.Name() != "promotion.enqueue" {
			t.Error(from.Name())
		}
		serveWith(t, q, func(context.Context, promotion.Check, int) error { return nil })
		empty(t, c, q.Name("crm"))
		linked := 0
		for _, s := range spans.Ended() {
			if s.Name() == "promotion.process" && len(s.Links()) == 1 && s.Links()[0].SpanContext.SpanID() == from.SpanContext().SpanID() && s.Parent().TraceID() != from.SpanContext().TraceID() {
				linked++
			}
		}
		if linked != 1 {
			t.Errorf("%d of %d spans are linked", linked, len(spans.Ended()))
		}
	})
}

// TestTheQueueNeedsNoMemoryCommand, which several managed services refuse, and no key of its own.
func TestTheQueueNeedsNoMemoryCommand(t *testing.T) {
	t.Parallel()
	s, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendonly no", `rename-command MEMORY ""`}})
	server.Need(t, err)
	t.Cleanup(func() { s.Stop() })
	c := at(t, s.URL())(t)
	if err := c.Do(t.Context(), "MEMORY", "DOCTOR").Err(); err == nil {
		t.Fatal("it has the command")
	}
	w := newWorld(t)
	ids := w.write(20)
	q := patient(c)
	stop := w.serve(w.worker(supports(), 2), q)
	eventually(t, "all rows are verified", func() bool { return w.verified(ids) })
	empty(t, c, q.Name("crm"))
	if _, err := q.Stats(t.Context(), "crm"); err != nil {
		t.Error(err)
	}
	if _, err := asynqqueue.Every(t.Context(), c); err != nil {
		t.Error(err)
	}
	if err := errors.Join(q.Pause(t.Context()), q.Resume(t.Context()), q.Look(t.Context(), "other", "")); err != nil {
		t.Error(err)
	}
	stop()
	if _, err := q.Spend(t.Context(), "crm", 10, time.Minute); err != nil {
		t.Error(err)
	}
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) == 0 {
		t.Fatal(keys, err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, "asynq:") && !strings.HasPrefix(key, "rate:") {
			t.Errorf("key %s", key)
		}
	}
}

// TestTheQueueRunsOnACluster, and follows a master that Sentinel changes.
func TestTheQueueRunsOnACluster(t *testing.T) {
	t.Parallel()
	g, err := server.RedisCluster(t.Context(), 3, 0, server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { g.Stop() })
	everywhere(t, g.URL(), func() error { return nil })
}

func TestTheQueueFollowsAMasterThatSentinelChanges(t *testing.T) {
	t.Parallel()
	g, err := server.RedisSentinel(t.Context(), 1, server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { g.Stop() })
	everywhere(t, g.URL(), func() error { return g.FailOver(t.Context(), 0) })
}

// everywhere promotes rows of sources with strange names over a Redis, before and after a fault.
func everywhere(t *testing.T, url string, fault func() error) {
	t.Helper()
	r, err := localredis.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, deployment := range []string{"a", "a {b} c", "}{"} { // of several slots
		w := newWorld(t)
		q := asynqqueue.New(r.Client, deployment, &asynqqueue.Options{ShutdownTimeout: time.Minute})
		ids := w.write(10)
		w.serve(w.worker(supports(), 2), q)
		eventually(t, "all rows are verified", func() bool { return w.verified(ids) })
		if err := fault(); err != nil {
			t.Fatal(err)
		}
		fault = func() error { return nil }
		more := w.write(10)
		eventually(t, "all rows are verified again", func() bool { return w.verified(more) })
	}
}

var _ promotion.Spending = (*asynqqueue.Queue)(nil)

// TestProcessesShareTheBudgetOfASource: all of it at once, and then one question after the other.
func TestProcessesShareTheBudgetOfASource(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		const budget = 5
		a, b := asynqqueue.New(open(t), "test", nil), asynqqueue.New(open(t), "test", nil)
		other := asynqqueue.New(open(t), "other", nil)
		spend := func(q *asynqqueue.Queue, source string) time.Duration {
			t.Helper()
			wait, err := q.Spend(t.Context(), source, budget, time.Hour)
			if err != nil || wait < 0 || wait > time.Hour/budget {
				t.Fatal(wait, err)
			}
			return wait
		}
		for i := range budget {
			if wait := spend([]*asynqqueue.Queue{a, b}[i%2], "crm"); wait != 0 {
				t.Fatalf("question %d waits %s", i, wait)
			}
		}
		for range 3 { // a refusal takes nothing
			if wait := spend(b, "crm"); wait < time.Hour/budget-10*time.Minute {
				t.Fatalf("it waits %s", wait)
			}
		}
		if spend(a, "erp") != 0 || spend(other, "crm") != 0 {
			t.Error("sources and deployments have no budgets of their own")
		}
	})
}

// TestABudgetIsEvenOverProcesses.
func TestABudgetIsEvenOverProcesses(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		w := newWorld(t)
		w.write(100)
		crm := verifiertest.New("crm", verifiertest.Supports())
		for range 2 {
			q := asynqqueue.New(open(t), "test", nil)
			worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: crm, Rank: memory.RankTool, Places: 2}}, &promotion.Options{Budget: 10, Tick: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			w.serve(worker, q)
		}
		time.Sleep(time.Second)
		for i := range 30 {
			if n := crm.Calls(); n < 8+i || n > 12+i { // 10 at once, and then one a second
				t.Fatalf("%d questions after %d s", n, i+1)
			}
			time.Sleep(time.Second)
		}
	})
}

// TestABudgetThatCannotBeCountedLetsNobodyAsk.
func TestABudgetThatCannotBeCountedLetsNobodyAsk(t *testing.T) {
	w := newWorld(t)
	id := w.write(1)[0]
	crm := verifiertest.New("crm", verifiertest.Supports())
	c := with(t, redis.Options{Addr: "127.0.0.1:1", DialTimeout: 100 * time.Millisecond, DialerRetries: 1})
	worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: crm, Rank: memory.RankTool}}, &promotion.Options{Budget: 10, Spending: asynqqueue.New(c, "test", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := worker.CheckSource(t.Context(), id, "crm", w.mark(id).Generation); err != nil || r.Status != promotion.Deferred || r.RetryAt.IsZero() || crm.Calls() != 0 {
		t.Errorf("%+v %v after %d questions", r, err, crm.Calls())
	}
}

// TestTwoChecksHaveTwoTasks.
func TestTwoChecksHaveTwoTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("ab:={}%+ 1")))
		draw := rapid.Custom(func(t *rapid.T) promotion.Check {
			return promotion.Check{Tenant: text.Draw(t, "tenant"), Namespace: text.Draw(t, "namespace"), Row: memory.ID(text.Draw(t, "row")), Source: text.Draw(t, "source"), Generation: rapid.Uint64Range(0, 3).Draw(t, "generation")}
		})
		a, b := draw.Draw(t, "a"), draw.Draw(t, "b")
		one, other := asynqqueue.TaskID(a), asynqqueue.TaskID(b)
		if (one == other) != (a == b) {
			t.Errorf("%q and %q", one, other)
		}
		if strings.ContainsAny(one, "{} ") {
			t.Errorf("%q breaks a hash tag", one)
		}
	})
}

// FuzzATask: what is taken for a check is the check of its own payload.
func FuzzATask(f *testing.F) {
	f.Add("hearsay:check", []byte(`{"tenant":"a","row":"mem_00000000000000000000000000","source":"crm","generation":7}`))
	f.Add("hearsay:check", []byte(`{"row":"mem_1"}`))
	f.Add("hearsay:checks", []byte("{}"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		c, err := asynqqueue.CheckOf(asynq.NewTask(kind, body), "crm")
		if err != nil {
			return
		}
		if kind != asynqqueue.TaskType || !c.Row.Valid() || c.Source != "crm" {
			t.Fatalf("%q, %+v", kind, c)
		}
		again, err := json.Marshal(asynqqueue.Payload(c))
		if err != nil {
			t.Fatal(err)
		}
		// Escapes may make it too long.
		if back, err := asynqqueue.CheckOf(asynq.NewTask(kind, again), "crm"); err == nil && back != c {
			t.Fatalf("%+v became %+v", c, back)
		}
	})
}

var _ redis.Hook = (*client)(nil)
