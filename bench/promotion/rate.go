package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/coalesce"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

const (
	concurrency = 64 // places of the checks, and of the empty tasks
	rateRounds  = 3
)

// rate is how long a promoted row takes. On Redis it is compared with an empty task of asynq, and with an empty
// task and the same check made without a queue. On SQLite it is compared with the bare driver that writes the
// same batches.
func (b *bench) rate(ctx context.Context, dir string) ([]report.Figure, error) {
	var figures []report.Figure
	for _, mode := range []string{"everysec", "always"} {
		got, err := b.rateOnRedis(ctx, filepath.Join(dir, mode), mode)
		if err != nil {
			return nil, err
		}
		figures = append(figures, got...)
	}
	f, err := b.rateOnSQLite(ctx, filepath.Join(dir, "sqlite"))
	return append(figures, f), err
}

// trips counts what is written to a server after something was read from it.
type trips struct {
	net.Conn
	n       *atomic.Int64
	written bool
}

func (c *trips) Write(p []byte) (int, error) {
	if !c.written {
		c.written = true
		c.n.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *trips) Read(p []byte) (int, error) {
	c.written = false
	return c.Conn.Read(p)
}

func counted(addr string, n *atomic.Int64) *redis.UniversalOptions {
	return &redis.UniversalOptions{Addrs: []string{addr}, Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &trips{Conn: c, n: n}, nil
	}}
}

func (b *bench) rateOnRedis(ctx context.Context, dir, mode string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	s, err := server.Redis(ctx, server.RedisOptions{Settings: []string{"appendfsync " + mode}})
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	var n atomic.Int64
	client := redis.NewUniversalClient(counted(s.Addr, &n))
	defer client.Close()
	driver, err := redisstore.New(ctx, counted(s.Addr, &n), nil)
	if err != nil {
		return nil, err
	}
	store := report.Must(memory.New(coalesce.New(driver), report.Must(keyring.OpenOrCreate(filepath.Join(dir, "keys"), nil)), nil))
	defer store.Close()

	rows := b.rateRows / rateRounds
	var empty, checked, promoted time.Duration
	trip := int64(0)
	for round := range rateRounds {
		empty += report.Must(emptyTasks(ctx, client, rows))
		checked += report.Must(check(ctx, store, fill(ctx, store, fmt.Sprint("checked ", round), rows, memory.StateUnverified)))
		fill(ctx, store, fmt.Sprint("round ", round), rows, memory.StateUnverified)
		before := n.Load()
		promoted += report.Must(promote(ctx, store, client, rows))
		trip += n.Load() - before
		if err := nothingDue(ctx, store); err != nil {
			return nil, err
		}
	}
	all := rows * rateRounds
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(all) }
	return []report.Figure{
		report.Rate("rate/redis_"+mode+"/row_beside_empty_task", "us", us(promoted), us(empty), 0.8, all, b.seed),
		report.Rate("rate/redis_"+mode+"/row_beside_empty_task_and_check", "us", us(promoted), us(empty+checked), 0.8, all, b.seed),
		report.AtMost("rate/redis_"+mode+"/round_trips_a_row", "trips", float64(trip)/float64(all), 12, all, b.seed),
	}, nil
}

// emptyTasks is how long so many tasks take that do nothing.
func emptyTasks(ctx context.Context, client redis.UniversalClient, n int) (took time.Duration, err error) {
	tasks := asynq.NewClientFromRedisClient(client)
	for range n {
		if _, err := tasks.EnqueueContext(ctx, asynq.NewTask("empty", nil), asynq.Queue("empty")); err != nil {
			return 0, err
		}
	}
	over, left := make(chan struct{}), atomic.Int64{}
	left.Store(int64(n))
	tasksServer := asynq.NewServerFromRedisClient(client, asynq.Config{Concurrency: concurrency, Queues: map[string]int{"empty": 1}, LogLevel: asynq.FatalLevel,
		TaskCheckInterval: 20 * time.Millisecond})
	began := time.Now()
	if err := tasksServer.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if left.Add(-1) == 0 {
			close(over)
		}
		return nil
	})); err != nil {
		return 0, err
	}
	defer tasksServer.Shutdown()
	select {
	case <-over:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// newWorker has one source, whose answers cost nothing.
func newWorker(store *memory.Store, observe func(promotion.Result)) (*promotion.Worker, error) {
	return promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: verifier.Func(free), Rank: memory.RankTool, Places: concurrency}},
		&promotion.Options{Budget: -1, Observe: observe})
}

// check is how long it takes to check rows without a queue, as many at a time as a queue would.
func check(ctx context.Context, store *memory.Store, ids []memory.ID) (time.Duration, error) {
	worker, err := newWorker(store, nil)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(concurrency)
	for _, id := range ids {
		g.Go(func() error {
			r, err := worker.Check(ctx, id)
			if err == nil && r.Status != promotion.Promoted {
				err = fmt.Errorf("a row is %s after its check", r.Status)
			}
			return err
		})
	}
	err = g.Wait()
	return time.Since(began), err
}

// promote is how long it takes until so many due rows are verified.
func promote(ctx context.Context, store *memory.Store, client redis.UniversalClient, n int) (time.Duration, error) {
	over, left := make(chan struct{}), atomic.Int64{}
	left.Store(int64(n))
	worker, err := newWorker(store, func(r promotion.Result) {
		if r.Status == promotion.Promoted && left.Add(-1) == 0 {
			close(over)
		}
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	stop := serve(ctx, client, worker)
	took, late := time.Duration(0), time.NewTimer(10*time.Minute)
	defer late.Stop()
	select {
	case <-over:
		took = time.Since(began)
	case <-late.C:
		err = errors.New("not all rows were verified in ten minutes")
	case <-ctx.Done():
		err = ctx.Err()
	}
	return took, errors.Join(err, stop())
}

// nothingDue reports an error if a row wants a check.
func nothingDue(ctx context.Context, s *memory.Store) error {
	_, due, err := s.OldestDue(ctx)
	if due {
		err = errors.New("a row is still due")
	}
	return err
}

// applied has the recorder keep what was applied, and not what was stale.
type applied struct {
	stores.Backend
	recorder *stores.Recorder
	mu       sync.Mutex
}

// Apply keeps a batch that was applied.
func (a *applied) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.Backend.Apply(ctx, tenant, b)
	if err == nil {
		a.recorder.Written = append(a.recorder.Written, b)
	}
	return err
}

func (b *bench) rateOnSQLite(ctx context.Context, dir string) (f report.Figure, err error) {
	defer report.Caught(&err)
	report.Check(mkdir(dir))
	backend, err := stores.OpenBackend(ctx, "sqlite", dir, true)
	if err != nil {
		return f, err
	}
	recorder := &stores.Recorder{Backend: backend}
	store := report.Must(memory.New(coalesce.New(&applied{Backend: backend, recorder: recorder}), report.Must(keyring.OpenOrCreate(filepath.Join(dir, "keys"), nil)), nil))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	rows := b.rateRows / rateRounds
	var promoted, bare time.Duration
	for round := range rateRounds {
		fill(ctx, store, fmt.Sprint("round ", round), rows, memory.StateUnverified)
		report.Check(recorder.Mirror(ctx))
		promoted += report.Must(promote(ctx, store, r.Client, rows))
		began := time.Now()
		for _, batch := range recorder.Written {
			report.Check(recorder.Backend.Apply(ctx, stores.FloorTenant, batch))
		}
		bare += time.Since(began)
		recorder.Written = nil
	}
	all := rows * rateRounds
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(all) }
	return report.Rate("rate/sqlite/row_beside_the_same_batches", "us", us(promoted), us(bare), 0.5, all, b.seed), nil
}
