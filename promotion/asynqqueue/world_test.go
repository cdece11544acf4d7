package asynqqueue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// onEveryRedis runs a test on miniredis and on a real redis-server, in parallel.
func onEveryRedis(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Parallel()
	for kind, open := range map[string]func(t *testing.T) redis.UniversalClient{"in-process": inProcess, "server": database} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// inProcess is a Redis inside the process.
func inProcess(t *testing.T) redis.UniversalClient {
	t.Helper()
	r, err := localredis.Open(t.Context(), "", &localredis.Options{Kind: localredis.InProcess})
	if err != nil {
		t.Fatal(err)
	}
	client := asynqqueue.Patient(r.Client)
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return client
}

// databases is how many databases the shared server has.
const databases = 10_000

// The redis-server that the tests share, started when it is first asked for, and how many of
// its databases are taken.
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

// databaseURL is the URL of an empty database of the shared server.
func databaseURL(t *testing.T) string {
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
	return fmt.Sprint(shared.URL(), "/", n)
}

// database is an empty database of the shared server. A test may empty it, and must leave the
// server alone.
func database(t *testing.T) redis.UniversalClient {
	t.Helper()
	r, err := localredis.Open(t.Context(), databaseURL(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := asynqqueue.Patient(r.Client)
	t.Cleanup(func() {
		if err := errors.Join(client.FlushDB(context.Background()).Err(), client.Close(), r.Close()); err != nil {
			t.Error(err)
		}
	})
	return client
}

// inBubble is a Redis inside the process, which goes by the time of a synctest bubble.
func inBubble(t *testing.T) redis.UniversalClient {
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
	return r.Client
}

// bubble is a test in a synctest bubble: its time passes only while nobody works.
func bubble(test func(t *testing.T)) func(t *testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// newQueue is a queue that a machine under load does no harm: no lease ends by itself, and
// no check is cut at the end, where the options do not say otherwise.
func newQueue(client redis.UniversalClient, o *asynqqueue.Options) *asynqqueue.Queue {
	var opts asynqqueue.Options
	if o != nil {
		opts = *o
	}
	if opts.Lease == 0 {
		opts.Lease = time.Hour
	}
	if opts.ShutdownTimeout == 0 {
		opts.ShutdownTimeout = time.Minute // it holds up a test that failed
	}
	return asynqqueue.New(client, &opts)
}

// eventually waits until something holds. It fails after five minutes: with -race beside other
// load, hundreds of rows take more than one.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("did not come true: %s", what)
		}
	}
}

// serve works on a queue until the test ends or stop is called.
func serve(t *testing.T, q *asynqqueue.Queue, c asynqqueue.Checker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Serve(ctx, c) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// world is a store, a verifier, a worker and a log.
type world struct {
	t        *testing.T
	store    *memory.Store
	verifier *verifiertest.Scripted
	worker   *promotion.Worker
	log      *slog.Logger
	lines    *testmain.Output
}

func newWorld(t *testing.T, steps ...verifiertest.Step) *world {
	t.Helper()
	w := &world{t: t, store: storetest.NewStore(nil), verifier: verifiertest.New("crm", steps...), lines: &testmain.Output{}}
	w.log = slog.New(slog.NewTextHandler(w.lines, &slog.HandlerOptions{Level: slog.LevelError}))
	var err error
	w.worker, err = promotion.NewWorker(w.store, []promotion.Source{{Name: "crm", Verifier: w.verifier, Rank: memory.RankTool}},
		&promotion.Options{Budget: -1, Logger: w.log})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// write puts one row that a model made up.
func (w *world) write(object string, state memory.State) memory.ID {
	w.t.Helper()
	r, err := w.store.Put(w.t.Context(), memory.Draft{
		Content: memory.Content{Subject: object, Predicate: "exists", Object: "yes", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: state, Sensitivity: memory.SensitivityInternal, ValueConfidence: 0.5,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.ID
}

func (w *world) heat(reads map[memory.ID]float64) {
	w.t.Helper()
	if _, err := w.store.AddHeat(w.t.Context(), reads); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) state(id memory.ID) memory.State {
	w.t.Helper()
	rows, err := w.store.Get(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rows[0].State()
}

func (w *world) all(state memory.State, ids ...memory.ID) bool {
	for _, id := range ids {
		if w.state(id) != state {
			return false
		}
	}
	return true
}

func (w *world) sweep(q promotion.Queue) int {
	w.t.Helper()
	n, err := promotion.NewSweeper(w.store, q, 0, nil).Sweep(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// trySweep sweeps a queue whose Redis may be gone.
func (w *world) trySweep(q promotion.Queue) {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	if _, err := promotion.NewSweeper(w.store, q, 0, nil).Sweep(ctx); err != nil {
		w.t.Logf("sweep: %v", err)
	}
}

// endLeases ends the leases of all rows that are claimed, as if their time had passed.
func endLeases(t *testing.T, client redis.UniversalClient, q *asynqqueue.Queue) {
	t.Helper()
	if n := endTimes(t, client, q, "claimed"); n == 0 {
		t.Fatal("no row is claimed")
	}
}

// endWaits ends the time for which rows are set aside, and not those in backlogs, as if it
// had passed. All of them come back in one pump.
func endWaits(t *testing.T, client redis.UniversalClient, q *asynqqueue.Queue) {
	t.Helper()
	endTimes(t, client, q, "later")
}

func endTimes(t *testing.T, client redis.UniversalClient, q *asynqqueue.Queue, set string) int {
	t.Helper()
	key := strings.TrimSuffix(q.LostKey(), "lost") + set
	ids, err := client.ZRange(t.Context(), key, 0, -1).Result()
	if err == nil && len(ids) > 0 {
		over := make([]redis.Z, len(ids))
		for i, id := range ids {
			over[i] = redis.Z{Score: 1, Member: id}
		}
		err = client.ZAddXX(t.Context(), key, over...).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(ids)
}

func (w *world) quiet() {
	w.t.Helper()
	if got := w.lines.String(); got != "" {
		w.t.Errorf("logged at level error:\n%s", got)
	}
}

func stats(t *testing.T, q *asynqqueue.Queue) asynqqueue.Stats {
	t.Helper()
	s, err := q.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// checker is a function that is a Checker.
type checker func(ctx context.Context, id memory.ID) (promotion.Result, error)

func (f checker) Check(ctx context.Context, id memory.ID) (promotion.Result, error) {
	return f(ctx, id)
}

func (f checker) Park(context.Context, memory.ID, string) error { return nil }
