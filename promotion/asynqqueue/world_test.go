package asynqqueue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// connect makes a client of a Redis. Each is of a process of its own.
type connect func(t *testing.T) *client

// client is a Redis client that can lose its server.
type client struct {
	redis.UniversalClient
	cut   atomic.Bool
	takes atomic.Int64           // how often an asynq server has asked for a task
	fails atomic.Pointer[string] // the commands of a name; nil = none
}

// lost is how long a command takes that has no answer.
const lost = 200 * time.Millisecond

var errCut = &net.OpError{Op: "read", Err: errors.New("cut")}

// DialHook, ProcessHook and ProcessPipelineHook implement redis.Hook.
func (c *client) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *client) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.cut.Load() {
			time.Sleep(lost) // asynq asks again at once
			cmd.SetErr(errCut)
			return errCut
		}
		if name := c.fails.Load(); name != nil && cmd.Name() == *name {
			cmd.SetErr(errCut)
			return errCut
		}
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" && strings.Contains(fmt.Sprint(cmd.Args()...), "}:paused") {
			c.takes.Add(1)
		}
		return err
	}
}
func (c *client) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if c.cut.Load() {
			time.Sleep(lost)
			return errCut
		}
		return next(ctx, cmds)
	}
}

// with makes a client with options, which waits for each reply as long as that takes and sends nothing twice.
func with(t *testing.T, o redis.Options) *client {
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.MaxRetries = -1, -1, time.Hour, -1
	c := &client{UniversalClient: redis.NewClient(&o)}
	c.AddHook(c)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// inProcess is a Redis inside the process. In a synctest bubble it goes by the time of that.
func inProcess(t *testing.T) connect {
	t.Helper()
	r, err := localredis.Open(t.Context(), "", &localredis.Options{Kind: localredis.InProcess})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(t *testing.T) *client { return with(t, *r.Client.(*redis.Client).Options()) }
}

const databases = 1000

// The redis-server that the tests share, and how many of its databases are taken.
var (
	shared struct {
		sync.Mutex
		*server.RedisServer
	}
	taken atomic.Int64
)

// stopShared ends the server that the tests share.
func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.RedisServer == nil {
		return nil
	}
	return shared.Stop()
}

// database is an empty database of the shared server.
func database(t *testing.T) connect {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.RedisServer == nil {
		s, err := server.Redis(context.Background(), server.RedisOptions{Settings: []string{"appendonly no", fmt.Sprint("databases ", databases)}})
		server.Need(t, err)
		shared.RedisServer = s
	}
	n := taken.Add(1)
	if n == databases {
		t.Fatalf("more than %d databases", databases)
	}
	return at(t, fmt.Sprint(shared.URL(), "/", n))
}

// at is a Redis that a URL names.
func at(t *testing.T, url string) connect {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T) *client { return with(t, *o) }
}

// onEveryRedis runs a test on a Redis in the process and on a real redis-server, in parallel.
func onEveryRedis(t *testing.T, test func(t *testing.T, open connect)) {
	t.Parallel()
	for kind, of := range map[string]func(*testing.T) connect{"in-process": inProcess, "server": database} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, of(t))
		})
	}
}

// inBubble runs a test in a synctest bubble, with a Redis in the process.
func inBubble(t *testing.T, test func(t *testing.T, open connect)) {
	synctest.Test(t, func(t *testing.T) { test(t, inProcess(t)) })
}

// eventually waits until something holds, five minutes at most: with -race beside other load, hundreds of
// rows take more than one.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > 5*time.Minute {
			t.Fatalf("did not come true: %s", what)
		}
	}
}

// world is a store whose rows a source is asked about.
type world struct {
	t     *testing.T
	store *memory.Store
	n     int
}

func newWorld(t *testing.T) *world { return &world{t: t, store: storetest.NewStore(nil)} }

// write writes rows that a model made up.
func (w *world) write(n int) (ids []memory.ID) {
	w.t.Helper()
	for range n {
		w.n++
		r, err := w.store.Put(w.t.Context(), memory.Draft{
			Content: memory.Content{Subject: fmt.Sprint("acme ", w.n), Predicate: "exists", Object: "yes", Cardinality: memory.CardinalityFunctional},
			Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
			Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
		})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func (w *world) verified(ids []memory.ID) bool {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), ids...)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rows {
		if r.State() != memory.StateVerified {
			return false
		}
	}
	return true
}

func (w *world) mark(id memory.ID) memory.Due {
	w.t.Helper()
	marks, err := w.store.DueMarks(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return marks[id]
}

// worker asks a verifier under the name of crm, with so many places.
func (w *world) worker(v verifier.Verifier, places int) *promotion.Worker {
	w.t.Helper()
	worker, err := promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: v, Rank: memory.RankTool, Places: places}}, &promotion.Options{Budget: -1})
	if err != nil {
		w.t.Fatal(err)
	}
	return worker
}

// serve serves the store until the test ends or stop is called.
func (w *world) serve(worker *promotion.Worker, q promotion.CheckQueue) (stop func()) {
	w.t.Helper()
	return testmain.Serve(w.t, func(ctx context.Context) error {
		err := promotion.Serve(ctx, q, promotion.Scope{Worker: worker})
		if errors.Is(err, asynqqueue.ErrGivenBack) {
			return nil
		}
		return err
	})
}

// unhurried is a queue that gives checks as long as a machine under load needs.
type unhurried struct{ *asynqqueue.Queue }

func (q unhurried) Enqueue(ctx context.Context, c promotion.Check, _ time.Duration) (bool, error) {
	return q.Queue.Enqueue(ctx, c, time.Hour)
}

// patient is such a queue, which waits for checks that are under way when it ends.
func patient(c *client) unhurried {
	return unhurried{asynqqueue.New(c, "test", &asynqqueue.Options{ShutdownTimeout: time.Minute})}
}

// tasks are the ids of asynq's tasks, by their state.
func tasks(t *testing.T, c *client, queue string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, list := range []string{"pending", "active"} {
		ids, err := c.LRange(t.Context(), "asynq:{"+queue+"}:"+list, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 0 {
			out[list] = ids
		}
	}
	for _, set := range []string{"scheduled", "retry", "archived", "completed"} {
		ids, err := c.ZRange(t.Context(), "asynq:{"+queue+"}:"+set, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) > 0 {
			out[set] = ids
		}
	}
	return out
}

// empty waits until there is no task left. None is archived on the way.
func empty(t *testing.T, c *client, queue string) {
	t.Helper()
	eventually(t, "no task is left", func() bool {
		left := tasks(t, c, queue)
		if left["archived"] != nil || left["completed"] != nil {
			t.Fatalf("tasks are kept: %v", left)
		}
		return len(left) == 0
	})
}

// retried is asynq's retry count of the only task of a queue that comes back.
func retried(t *testing.T, c *client, queue string) (n int, why string) {
	t.Helper()
	list, err := asynq.NewInspectorFromRedisClient(c).ListRetryTasks(queue)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		return -1, ""
	}
	return list[0].Retried, list[0].LastErr
}

// dies expires the leases of all active tasks, of a worker whose client was cut.
func dies(t *testing.T, c *client, queue string) {
	t.Helper()
	key := "asynq:{" + queue + "}:lease"
	ids, err := c.ZRange(t.Context(), key, 0, -1).Result()
	if err != nil || len(ids) == 0 {
		t.Fatal(ids, err)
	}
	for _, id := range ids {
		if err := c.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: id}).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func supports() verifier.Verifier { return verifiertest.New("crm", verifiertest.Supports()) }
