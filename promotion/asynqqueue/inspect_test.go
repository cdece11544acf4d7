package asynqqueue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
)

// waiting is a handler whose checks wait.
type waiting struct {
	began chan struct{}
	goOn  chan struct{}
}

func (w *waiting) Handle(context.Context, promotion.Check, int) error {
	w.began <- struct{}{}
	<-w.goOn
	return nil
}

func (*waiting) Outlived(context.Context, promotion.Check) {}

// TestAnOperatorSeesAndStopsQueues, and those of one deployment alone.
func TestAnOperatorSeesAndStopsQueues(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		one, two := asynqqueue.New(c, "acme: a=b%\n", &asynqqueue.Options{ShutdownTimeout: time.Minute}), asynqqueue.New(c, "two", nil)
		for _, act := range []func(context.Context) error{one.Pause, one.Resume} {
			if err := act(t.Context()); !errors.Is(err, asynqqueue.ErrNoQueue) {
				t.Errorf("%v", err)
			}
		}
		if all, err := asynqqueue.Every(t.Context(), c); err != nil || len(all) != 0 {
			t.Errorf("%+v, %v", all, err)
		}
		h := &waiting{began: make(chan struct{}, 9), goOn: make(chan struct{})}
		stop := testmain.Serve(t, func(ctx context.Context) error { return one.Serve(ctx, "crm: x", 1, h) })
		stats := func(q *asynqqueue.Queue, sources ...string) []asynqqueue.Stats {
			t.Helper()
			all, err := q.Stats(t.Context(), sources...)
			if err != nil {
				t.Fatal(err)
			}
			return all
		}
		// A queue is known though nothing was ever enqueued, also after Redis was wiped.
		eventually(t, "the process is seen", func() bool { return len(stats(one)) == 1 && stats(one)[0].Processes == 1 })
		enqueue := func(q *asynqqueue.Queue, source string, n int) {
			t.Helper()
			for i := range n {
				id := memory.ID(fmt.Sprintf("mem_%026d", i))
				if added, err := q.Enqueue(t.Context(), promotion.Check{Tenant: "t", Row: id, Source: source, Generation: 1}, time.Hour); err != nil || !added {
					t.Fatal(added, err)
				}
			}
		}
		enqueue(one, "crm: x", 3)
		enqueue(two, "crm", 1)
		enqueue(two, "erp", 2)
		// What is of another program is not counted.
		if _, err := asynq.NewClientFromRedisClient(c).Enqueue(asynq.NewTask("x", nil), asynq.Queue("hearsay:odd")); err != nil {
			t.Fatal(err)
		}
		<-h.began
		want := []asynqqueue.Stats{{Deployment: "acme: a=b%\n", Source: "crm: x", Queue: one.Name("crm: x"), Pending: 2, Active: 1, Processes: 1}}
		if got := stats(one); !slices.Equal(got, want) {
			t.Errorf("%+v, want %+v", got, want)
		}
		if got := stats(two, "erp", "none"); len(got) != 1 || got[0].Pending != 2 || got[0].Processes != 0 {
			t.Errorf("%+v", got)
		}
		if all, err := asynqqueue.Every(t.Context(), c); err != nil || len(all) != 3 {
			t.Errorf("%+v, %v", all, err)
		}
		// A pause ends no check, and lets none begin.
		for range 2 {
			if err := one.Pause(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for source, q := range map[string]*asynqqueue.Queue{"crm: x": one, "crm": two} {
			if paused, err := q.Paused(t.Context(), source); err != nil || paused != (q == one) {
				t.Errorf("%s: %t, %v", source, paused, err)
			}
		}
		close(h.goOn)
		eventually(t, "the check under way has ended", func() bool { return stats(one)[0].Active == 0 })
		takes := c.takes.Load()
		eventually(t, "the server has asked for a task again", func() bool { return c.takes.Load() > takes+2 }) // one may be under way
		if s := stats(one)[0]; s.Pending != 2 || !s.Paused || len(h.began) != 0 {
			t.Errorf("%+v, %d began", s, len(h.began))
		}
		for range 2 {
			if err := one.Resume(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "all are made", func() bool { s := stats(one)[0]; return s.Pending+s.Active == 0 && !s.Paused })
		stop()
		eventually(t, "the process is seen no more", func() bool {
			return !slices.ContainsFunc(stats(one), func(s asynqqueue.Stats) bool { return s.Processes > 0 })
		})
	})
}

// TestChecksOfADeadWorkerAreOrphaned, and those that a person archived are counted.
func TestChecksOfADeadWorkerAreOrphaned(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c, q := open(t), asynqqueue.New(open(t), "test", nil)
		for i := range 2 {
			if _, err := q.Enqueue(t.Context(), promotion.Check{Tenant: "t", Row: memory.ID(fmt.Sprintf("mem_%026d", i)), Source: "crm", Generation: 1}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		h := &waiting{began: make(chan struct{}, 9), goOn: make(chan struct{})}
		served := open(t)
		stop := testmain.Serve(t, func(ctx context.Context) error {
			return asynqqueue.New(served, "test", &asynqqueue.Options{ShutdownTimeout: time.Minute}).Serve(ctx, "crm", 1, h)
		})
		<-h.began
		served.cut.Store(true)
		dies(t, c, q.Name("crm"))
		i := asynq.NewInspectorFromRedisClient(c)
		if n, err := i.ArchiveAllPendingTasks(q.Name("crm")); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if s, err := q.Stats(t.Context()); err != nil || len(s) != 1 || s[0].Orphaned != 1 || s[0].Active != 0 || s[0].Archived != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		served.cut.Store(false)
		close(h.goOn)
		stop()
	})
}

// TestADeploymentIsNamedByWhatItServes.
func TestADeploymentIsNamedByWhatItServes(t *testing.T) {
	a, b := storetest.NewStore(&memory.Options{Tenant: "acme"}), storetest.NewStore(&memory.Options{Tenant: "acme", Namespace: "b"})
	name := asynqqueue.Deployment(a, b)
	if name != asynqqueue.Deployment(b, a) || len(name) != len("acme-01234567") || name[:5] != "acme-" {
		t.Errorf("%q", name)
	}
	seen := map[string]bool{name: true}
	elsewhere := asynqqueue.Deployment(storetest.NewStore(&memory.Options{Tenant: "acme-eu"}))
	for _, other := range []string{asynqqueue.Deployment(a), asynqqueue.Deployment(b), asynqqueue.Deployment(storetest.NewStore(&memory.Options{Tenant: "acme"})), elsewhere} {
		if seen[other] {
			t.Errorf("%q twice", other)
		}
		seen[other] = true
	}
	if !asynqqueue.IsDeployment(name, "acme") || !asynqqueue.IsDeployment(elsewhere, "acme-eu") || asynqqueue.IsDeployment(elsewhere, "acme") || asynqqueue.IsDeployment("acme", "acme") {
		t.Errorf("%q and %q are taken for those of other tenants", name, elsewhere)
	}
}

// TestAQueueIsSeenAfterRedisWasWiped, with its tasks.
func TestAQueueIsSeenAfterRedisWasWiped(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		enqueue := func(row memory.ID) {
			t.Helper()
			if _, err := q.Enqueue(t.Context(), promotion.Check{Tenant: "t", Row: row, Source: "crm", Generation: 1}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		enqueue("mem_00000000000000000000000000")
		h := &waiting{began: make(chan struct{}, 9), goOn: make(chan struct{})}
		stop := testmain.Serve(t, func(ctx context.Context) error { return q.Serve(ctx, "crm", 1, h) })
		<-h.began
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		enqueue("mem_00000000000000000000000004")
		time.Sleep(11 * time.Second)
		if s, err := q.Stats(t.Context()); err != nil || len(s) != 1 || s[0].Pending != 1 || s[0].Processes != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		close(h.goOn)
		<-h.began
		stop()
	})
}

// TestALookReachesWhoServesTheScope: through Redis, unless that is this queue itself.
func TestALookReachesWhoServesTheScope(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		type scope struct{ tenant, namespace string }
		here, there := asynqqueue.New(open(t), "test", nil), asynqqueue.New(open(t), "test", nil)
		c := open(t)
		seen := make(chan scope, 99)
		stop := testmain.Serve(t, func(ctx context.Context) error {
			return here.ServeLooks(ctx, func(tenant, namespace string) bool {
				seen <- scope{tenant, namespace}
				return namespace == "ours"
			})
		})
		const queue = "hearsay:test"
		look := func(q *asynqqueue.Queue, namespace string) {
			t.Helper()
			if err := q.Look(t.Context(), "t: 1", namespace); err != nil {
				t.Fatal(err)
			}
		}
		// One that is asked for by another process goes through Redis.
		for range 3 {
			look(there, "ours")
			if got := <-seen; got != (scope{"t: 1", "ours"}) {
				t.Errorf("%+v", got)
			}
			empty(t, c, queue)
		}
		// The queue of this process asks itself, and nobody else if it serves the scope.
		done, err := c.Get(t.Context(), "asynq:{"+queue+"}:processed").Int()
		if err != nil || done != 3 {
			t.Errorf("%d tasks, %v", done, err)
		}
		look(here, "ours")
		if len(seen) != 1 {
			t.Errorf("%d looks", len(seen))
		}
		<-seen
		look(here, "theirs")
		for range 2 { // itself, and then through Redis
			<-seen
		}
		empty(t, c, queue)
		stop()
		// However often nobody hears it, it is there once.
		for range 3 {
			look(here, "ours")
		}
		if left := tasks(t, c, queue); len(left["pending"]) != 1 || len(seen) != 0 {
			t.Errorf("%v, %d looks", left, len(seen))
		}
	})
}

// TestATaskThatIsNoLookIsDeleted.
func TestATaskThatIsNoLookIsDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		c := open(t)
		client := asynq.NewClientFromRedisClient(c)
		for _, task := range []*asynq.Task{asynq.NewTask("x", nil), asynq.NewTask(asynqqueue.LookType, []byte("{")), asynq.NewTask(asynqqueue.LookType, make([]byte, 5000))} {
			if _, err := client.Enqueue(task, asynq.Queue("hearsay:test"), asynq.MaxRetry(0)); err != nil {
				t.Fatal(err)
			}
		}
		stop := testmain.Serve(t, func(ctx context.Context) error {
			return asynqqueue.New(c, "test", nil).ServeLooks(ctx, func(string, string) bool { t.Error("a look"); return false })
		})
		empty(t, c, "hearsay:test")
		stop()
	})
}

// TestWhereACheckIs, in each state of its task.
func TestWhereACheckIs(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", &asynqqueue.Options{ShutdownTimeout: time.Minute})
		check := promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}
		want := func(what string, want promotion.Place) {
			t.Helper()
			if at, err := q.Find(t.Context(), check); err != nil || at != want {
				t.Errorf("%s: %d, %v, want %d", what, at, err, want)
			}
		}
		want("no queue", promotion.Lost)
		if _, err := q.Enqueue(t.Context(), check, time.Hour); err != nil {
			t.Fatal(err)
		}
		want("pending", promotion.Waiting)
		i := asynq.NewInspectorFromRedisClient(c)
		id := tasks(t, c, q.Name("crm"))["pending"][0]
		if err := i.ArchiveTask(q.Name("crm"), id); err != nil {
			t.Fatal(err)
		}
		want("archived", promotion.Stranded)
		if err := i.RunTask(q.Name("crm"), id); err != nil {
			t.Fatal(err)
		}
		h := &waiting{began: make(chan struct{}, 9), goOn: make(chan struct{})}
		stop := testmain.Serve(t, func(ctx context.Context) error { return q.Serve(ctx, "crm", 1, h) })
		<-h.began
		want("active", promotion.Taken)
		lease := "asynq:{" + q.Name("crm") + "}:lease"
		until, err := c.ZScore(t.Context(), lease, id).Result()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.ZRem(t.Context(), lease, id).Result(); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		want("active without a lease", promotion.Stranded)
		if err := c.ZAdd(t.Context(), lease, redis.Z{Score: until - 3600, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
		want("active, with a lease that nobody took back", promotion.Stranded)
		if err := c.ZAdd(t.Context(), lease, redis.Z{Score: until, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
		close(h.goOn)
		empty(t, c, q.Name("crm"))
		want("done", promotion.Lost)
		stop()
		// A clock that is ahead, or whoever can write to Redis, may put a task off for ever.
		body, err := json.Marshal(asynqqueue.Payload(check))
		if err != nil {
			t.Fatal(err)
		}
		for in, place := range map[time.Duration]promotion.Place{time.Second: promotion.Waiting, time.Hour: promotion.Stranded} {
			if _, err := asynq.NewClientFromRedisClient(c).Enqueue(asynq.NewTask(asynqqueue.TaskType, body), asynq.Queue(q.Name("crm")), asynq.TaskID(id), asynq.ProcessIn(in), asynq.MaxRetry(math.MaxInt32)); err != nil {
				t.Fatal(err)
			}
			want("scheduled in "+in.String(), place)
			if err := i.DeleteTask(q.Name("crm"), id); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestATaskThatIsNotTheCheckOfItsIDIsDeleted: it would come back for ever, in the place of the check.
func TestATaskThatIsNotTheCheckOfItsIDIsDeleted(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		check := promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}
		if _, err := q.Enqueue(t.Context(), check, time.Hour); err != nil {
			t.Fatal(err)
		}
		id, i, name := tasks(t, c, q.Name("crm"))["pending"][0], asynq.NewInspectorFromRedisClient(c), q.Name("crm")
		if err := i.DeleteTask(name, id); err != nil {
			t.Fatal(err)
		}
		body := func(change func(*asynqqueue.Payload)) []byte {
			p := asynqqueue.Payload(check)
			change(&p)
			b, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		same, forever := body(func(*asynqqueue.Payload) {}), asynq.MaxRetry(math.MaxInt32)
		for what, put := range map[string]struct {
			task *asynq.Task
			with []asynq.Option
			at   promotion.Place
		}{
			"the check":               {asynq.NewTask(asynqqueue.TaskType, same), []asynq.Option{forever}, promotion.Waiting},
			"of another namespace":    {asynq.NewTask(asynqqueue.TaskType, body(func(p *asynqqueue.Payload) { p.Namespace = "o" })), []asynq.Option{forever}, promotion.Lost},
			"of another round":        {asynq.NewTask(asynqqueue.TaskType, body(func(p *asynqqueue.Payload) { p.Generation++ })), []asynq.Option{forever}, promotion.Lost},
			"of another source":       {asynq.NewTask(asynqqueue.TaskType, body(func(p *asynqqueue.Payload) { p.Source = "erp" })), []asynq.Option{forever}, promotion.Lost},
			"no check":                {asynq.NewTask(asynqqueue.TaskType, []byte("{")), []asynq.Option{forever}, promotion.Lost},
			"of another type":         {asynq.NewTask("other", same), []asynq.Option{forever}, promotion.Lost},
			"its time is over":        {asynq.NewTask(asynqqueue.TaskType, same), []asynq.Option{forever, asynq.Timeout(time.Hour), asynq.Deadline(time.Now().Add(-time.Hour))}, promotion.Lost},
			"it is archived at once":  {asynq.NewTask(asynqqueue.TaskType, same), []asynq.Option{asynq.MaxRetry(0), asynq.Timeout(time.Hour)}, promotion.Lost},
			"it is kept when done":    {asynq.NewTask(asynqqueue.TaskType, same), []asynq.Option{forever, asynq.Retention(time.Hour)}, promotion.Lost},
			"it has no time to think": {asynq.NewTask(asynqqueue.TaskType, same), []asynq.Option{forever, asynq.Timeout(time.Millisecond)}, promotion.Lost},
		} {
			if _, err := asynq.NewClientFromRedisClient(c).Enqueue(put.task, append(put.with, asynq.Queue(name), asynq.TaskID(id))...); err != nil {
				t.Fatal(what, err)
			}
			if at, err := q.Find(t.Context(), check); err != nil || at != put.at {
				t.Errorf("%s: %d, %v", what, at, err)
			}
			added, err := q.Enqueue(t.Context(), check, time.Hour)
			if err != nil || added != (put.at == promotion.Lost) {
				t.Errorf("%s: %t, %v", what, added, err)
			}
			if err := i.DeleteTask(name, id); err != nil {
				t.Fatal(what, err)
			}
		}
	})
}

// TestWhatAsynqCannotReadIsDeleted: under the id of a check it would keep the row, and all looks for others, from the queue.
func TestWhatAsynqCannotReadIsDeleted(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		check := promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}
		key := "asynq:{" + q.Name("crm") + "}:t:" + asynqqueue.TaskID(check)
		c.SAdd(t.Context(), "asynq:queues", q.Name("crm"))
		for what, put := range map[string]func() error{
			"no message":          func() error { return c.HSet(t.Context(), key, "msg", "\xff\xff", "state", "pending").Err() },
			"no message, active":  func() error { return c.HSet(t.Context(), key, "msg", "\xff\xff", "state", "active").Err() },
			"no state":            func() error { return c.HSet(t.Context(), key, "msg", "").Err() },
			"in an unknown state": func() error { return c.HSet(t.Context(), key, "msg", "", "state", "s").Err() },
			"a text":              func() error { return c.Set(t.Context(), key, "text", 0).Err() },
		} {
			if err := put(); err != nil {
				t.Fatal(what, err)
			}
			if at, err := q.Find(t.Context(), check); err != nil || at != promotion.Lost {
				t.Errorf("%s: %d, %v", what, at, err)
			}
			if added, err := q.Enqueue(t.Context(), check, time.Hour); err != nil || !added {
				t.Errorf("%s: %t, %v", what, added, err)
			}
			if err := c.Del(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
		}
		// A worker that makes the check now has read it before.
		if err := errors.Join(c.HSet(t.Context(), key, "msg", "\xff\xff", "state", "active").Err(),
			c.ZAdd(t.Context(), "asynq:{"+q.Name("crm")+"}:lease", redis.Z{Score: float64(time.Now().Add(20 * time.Second).Unix()), Member: asynqqueue.TaskID(check)}).Err()); err != nil {
			t.Fatal(err)
		}
		if at, err := q.Find(t.Context(), check); err != nil || at != promotion.Taken {
			t.Errorf("with a lease: %d, %v", at, err)
		}
	})
}

// TestATaskInNoListIsStranded: asynq never takes it.
func TestATaskInNoListIsStranded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		check := promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}
		if _, err := q.Enqueue(t.Context(), check, time.Hour); err != nil {
			t.Fatal(err)
		}
		key, id := "asynq:{"+q.Name("crm")+"}:", asynqqueue.TaskID(check)
		want := func(what string, want promotion.Place) {
			t.Helper()
			if at, err := q.Find(t.Context(), check); err != nil || at != want {
				t.Errorf("%s: %d, %v, want %d", what, at, err, want)
			}
		}
		want("pending", promotion.Waiting)
		c.LRem(t.Context(), key+"pending", 0, id)
		want("pending, and in no list", promotion.Stranded)
		c.Set(t.Context(), key+"pending", "text", 0)
		want("pending, and the list is none", promotion.Stranded)
		for _, state := range []string{"retry", "scheduled"} {
			c.HSet(t.Context(), key+"t:"+id, "state", state)
			c.ZAdd(t.Context(), key+state, redis.Z{Score: float64(time.Now().Unix()), Member: id})
			want(state, promotion.Waiting)
			c.ZRem(t.Context(), key+state, id)
			want(state+", and in no set", promotion.Stranded)
		}
	})
}

// TestAnActiveTaskThatNobodyEndsIsStranded: it has no lease, or one that ends when nobody waits for it any more.
func TestAnActiveTaskThatNobodyEndsIsStranded(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		check := promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}
		name, id := q.Name("crm"), asynqqueue.TaskID(check)
		for what, put := range map[string]struct {
			kind  string
			lease time.Duration // from now; 0 = none
			at    promotion.Place
		}{
			"a check under way":        {asynqqueue.TaskType, time.Minute, promotion.Taken},
			"whose lease has ended":    {asynqqueue.TaskType, -time.Hour, promotion.Stranded},
			"with a lease for a year":  {asynqqueue.TaskType, 365 * 24 * time.Hour, promotion.Stranded},
			"without a lease":          {asynqqueue.TaskType, 0, promotion.Stranded},
			"another task":             {"other", time.Minute, promotion.Taken},
			"another, without a lease": {"other", 0, promotion.Stranded},
		} {
			if _, err := asynq.NewClientFromRedisClient(c).Enqueue(asynq.NewTask(put.kind, []byte("{}")), asynq.Queue(name), asynq.TaskID(id), asynq.MaxRetry(math.MaxInt32)); err != nil {
				t.Fatal(what, err)
			}
			c.LRem(t.Context(), "asynq:{"+name+"}:pending", 0, id)
			c.RPush(t.Context(), "asynq:{"+name+"}:active", id)
			c.HSet(t.Context(), "asynq:{"+name+"}:t:"+id, "state", "active")
			if put.lease != 0 {
				c.ZAdd(t.Context(), "asynq:{"+name+"}:lease", redis.Z{Score: float64(time.Now().Add(put.lease).Unix()), Member: id})
			}
			if at, err := q.Find(t.Context(), check); err != nil || at != put.at {
				t.Errorf("%s: %d, %v", what, at, err)
			}
			c.LRem(t.Context(), "asynq:{"+name+"}:active", 0, id)
			c.ZRem(t.Context(), "asynq:{"+name+"}:lease", id)
			c.Del(t.Context(), "asynq:{"+name+"}:t:"+id)
		}
	})
}

// TestATaskThatIsNotTheLookOfItsIDIsReplaced: it would be made never, or at another time.
func TestATaskThatIsNotTheLookOfItsIDIsReplaced(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		const queue, id, body = "hearsay:test", "look:t:n", `{"tenant":"t","namespace":"n"}`
		forever, in := asynq.MaxRetry(math.MaxInt32), asynq.Timeout(10*time.Second)
		for what, put := range map[string]struct {
			task *asynq.Task
			with []asynq.Option
		}{
			"the look":             {asynq.NewTask(asynqqueue.LookType, []byte(body)), []asynq.Option{forever, in, asynq.Retention(0)}},
			"its time is over":     {asynq.NewTask(asynqqueue.LookType, []byte(body)), []asynq.Option{forever, in, asynq.Deadline(time.Now().Add(-time.Hour))}},
			"of another namespace": {asynq.NewTask(asynqqueue.LookType, []byte(`{"tenant":"t"}`)), []asynq.Option{forever, in}},
			"of another type":      {asynq.NewTask("other", []byte(body)), []asynq.Option{forever, in}},
			"it is kept when done": {asynq.NewTask(asynqqueue.LookType, []byte(body)), []asynq.Option{forever, in, asynq.Retention(time.Hour)}},
			"it is archived soon":  {asynq.NewTask(asynqqueue.LookType, []byte(body)), []asynq.Option{asynq.MaxRetry(0), in}},
		} {
			if _, err := asynq.NewClientFromRedisClient(c).Enqueue(put.task, append(put.with, asynq.Queue(queue), asynq.TaskID(id), asynq.ProcessIn(time.Hour))...); err != nil {
				t.Fatal(what, err)
			}
			if err := q.Look(t.Context(), "t", "n"); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			i := asynq.NewInspectorFromRedisClient(c)
			info, err := i.GetTaskInfo(queue, id)
			if err != nil {
				t.Fatal(what, err)
			}
			if info.State != asynq.TaskStatePending || info.Type != asynqqueue.LookType || string(info.Payload) != body || !info.Deadline.IsZero() || info.Retention != 0 || info.MaxRetry != math.MaxInt32 {
				t.Errorf("%s: %+v", what, info)
			}
			if err := i.DeleteTask(queue, id); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestALookThatWasArchivedIsMade when the next one is asked for.
func TestALookThatWasArchivedIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		if err := q.Look(t.Context(), "acme", "sales"); err != nil {
			t.Fatal(err)
		}
		if n, err := asynq.NewInspectorFromRedisClient(c).ArchiveAllPendingTasks("hearsay:test"); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if err := q.Look(t.Context(), "acme", "sales"); err != nil {
			t.Fatal(err)
		}
		seen := make(chan string, 9)
		stop := testmain.Serve(t, func(ctx context.Context) error {
			return q.ServeLooks(ctx, func(tenant, namespace string) bool { seen <- tenant + "/" + namespace; return true })
		})
		if got := <-seen; got != "acme/sales" {
			t.Error(got)
		}
		empty(t, c, "hearsay:test")
		stop()
	})
}

// TestATaskThatAsynqCannotReadHarmsItsQueueAlone: all queues can be paused, and others be looked at.
func TestATaskThatAsynqCannotReadHarmsItsQueueAlone(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open connect) {
		c := open(t)
		one, two := asynqqueue.New(c, "one", nil), asynqqueue.New(c, "two", nil)
		for _, q := range []*asynqqueue.Queue{one, two} {
			if _, err := q.Enqueue(t.Context(), promotion.Check{Row: "mem_00000000000000000000000000", Source: "crm"}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		key := "asynq:{" + one.Name("crm") + "}:"
		if err := errors.Join(c.HSet(t.Context(), key+"t:bad", "msg", "garbage", "state", "active").Err(), c.LPush(t.Context(), key+"active", "bad").Err(),
			c.ZAdd(t.Context(), key+"lease", redis.Z{Score: 1, Member: "bad"}).Err()); err != nil {
			t.Fatal(err)
		}
		if _, err := one.Stats(t.Context()); err == nil || !strings.Contains(err.Error(), one.Name("crm")) {
			t.Errorf("%v", err)
		}
		if s, err := two.Stats(t.Context()); err != nil || len(s) != 1 || s[0].Pending != 1 {
			t.Errorf("%+v, %v", s, err)
		}
		if err := one.Pause(t.Context()); err != nil {
			t.Error(err)
		}
		if is, err := one.Paused(t.Context(), "crm"); err != nil || !is {
			t.Errorf("%t, %v", is, err)
		}
	})
}

// TestARedisThatIsFullIsSaidSo: the queue seems to be there, and takes no checks.
func TestARedisThatIsFullIsSaidSo(t *testing.T) {
	t.Parallel()
	s, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendonly no", "maxmemory-policy noeviction"}})
	server.Need(t, err)
	t.Cleanup(func() { s.Stop() })
	c, log := at(t, s.URL())(t), &testmain.Output{}
	q := asynqqueue.New(c, "test", &asynqqueue.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	full := func(bytes string) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
			t.Fatal(err)
		}
	}
	full("1")
	stop := serveWith(t, q, func(context.Context, promotion.Check, int) error { return nil })
	eventually(t, "the queue takes no writes", func() bool { return q.Writable() != nil && strings.Contains(log.String(), "takes no writes") })
	full("0")
	eventually(t, "it takes them again", func() bool { return q.Writable() == nil && strings.Contains(log.String(), "takes writes again") })
	stop()
}

// TestALookIsNotDeletedSinceRedisDoesNotAnswer.
func TestALookIsNotDeletedSinceRedisDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, open connect) {
		c := open(t)
		q := asynqqueue.New(c, "test", nil)
		if err := q.Look(t.Context(), "acme", "sales"); err != nil {
			t.Fatal(err)
		}
		exists := "sismember" // with which asynq asks whether there is such a queue
		c.fails.Store(&exists)
		if err := q.Look(t.Context(), "acme", "sales"); !errors.Is(err, errCut) {
			t.Errorf("%v", err)
		}
		c.fails.Store(nil)
		if err := q.Look(t.Context(), "acme", "sales"); err != nil {
			t.Error(err)
		}
		if left := tasks(t, c, "hearsay:test"); len(left["pending"]) != 1 {
			t.Errorf("%v", left)
		}
	})
}

// later is an error that says when its check comes back.
type later struct{ after time.Duration }

func (later) Error() string                  { return "later" }
func (l later) ComeBackAfter() time.Duration { return l.after }

// TestACheckComesBackWhenItsErrorSays, and in about a second if it does not.
func TestACheckComesBackWhenItsErrorSays(t *testing.T) {
	for says, within := range map[error][2]time.Duration{
		errors.New("no"):                        {time.Second, 2 * time.Second},
		fmt.Errorf("x: %w", later{time.Minute}): {time.Minute, 61 * time.Second},
	} {
		inBubble(t, func(t *testing.T, open connect) {
			q := asynqqueue.New(open(t), "test", nil)
			if _, err := q.Enqueue(t.Context(), promotion.Check{Tenant: "t", Row: "mem_00000000000000000000000000", Source: "crm", Generation: 1}, time.Hour); err != nil {
				t.Fatal(err)
			}
			at := make(chan time.Time, 9)
			stop := serveWith(t, q, func(context.Context, promotion.Check, int) error {
				if at <- time.Now(); len(at) > 1 {
					return nil
				}
				return says
			})
			time.Sleep(2 * time.Minute)
			if first := <-at; len(at) != 1 {
				t.Errorf("%v: it was made %d times", says, 1+len(at))
			} else if after := (<-at).Sub(first); after < within[0]-time.Second/2 || after > within[1]+time.Second {
				t.Errorf("%v: it came back after %s", says, after)
			}
			stop()
		})
	}
}
