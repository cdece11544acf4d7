package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// engine is the promotion of one process: verifiers, worker, queue and sweep.
type engine struct {
	kind      string // of the Redis behind the queue
	verifiers []watched

	store   *memory.Store
	redis   *localredis.Redis
	queue   *asynqqueue.Queue
	sweeper *promotion.Sweeper
	checker *draining
	drain   time.Duration
	sweep   time.Duration
	log     *slog.Logger
}

func newEngine(ctx context.Context, c *config, store *memory.Store, m *meters, log *slog.Logger) (e *engine, err error) {
	sources, verifiers, err := c.verifiers(store, m)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	budget := c.budget
	if budget == 0 {
		budget = -1
	}
	for _, s := range []promotion.Status{promotion.Promoted, promotion.Demoted, promotion.Kept, promotion.Unclear, promotion.Down,
		promotion.Deferred, promotion.NotDue, promotion.Parked, promotion.Moved, promotion.Misconfigured} {
		m.checks.WithLabelValues(s.String())
	}
	redis.SetLogger(redisLog{log})
	r, err := localredis.Open(ctx, c.redis, &localredis.Options{Logger: log})
	if err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	queue := asynqqueue.New(r.Client, &asynqqueue.Options{Tenant: store.Tenant(), Namespace: store.Namespace(), Concurrency: c.concurrency, Lease: c.lease, ShutdownTimeout: max(c.drain, time.Millisecond), Logger: log})
	w, err := promotion.NewWorker(store, sources, &promotion.Options{
		Name: "worker:" + host, VerdictLifetime: c.lifetime, Budget: budget, Tick: c.tick, Logger: log,
		Observe: m.observe, Spending: queue,
	})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	e = &engine{kind: string(r.Kind), verifiers: verifiers, store: store, redis: r, queue: queue, drain: c.drain, checker: &draining{next: w}, sweep: c.sweep, log: log}
	e.sweeper = promotion.NewSweeper(store, queue, c.sweep, log)
	m.registry.MustRegister(e)
	return e, nil
}

// verifiers makes what the configuration names, each behind its own breaker.
func (c *config) verifiers(store *memory.Store, m *meters) (sources []promotion.Source, all []watched, err error) {
	entries, err := c.roster.Make(func(name string, v verifier.Verifier, timeout time.Duration) verifier.Verifier {
		guard := m.watch(name, v, &verifier.BreakerOptions{Timeout: timeout, MaxConcurrent: c.concurrency, OpenFor: c.leaveAlone})
		all = append(all, guard)
		return guard
	})
	if err != nil {
		return nil, nil, err
	}
	if len(c.roster.Observe) > 0 { // it asks nobody, so it comes first
		sources = append(sources, promotion.Observed(store, c.roster.Observe...))
	}
	for _, e := range entries {
		sources = append(sources, promotion.Source{Name: e.Name, Verifier: e.Verifier, Rank: e.Rank, Covers: e.Covers})
	}
	return sources, all, nil
}

// errDrain: checks were still under way when the time for them was over.
var errDrain = errors.New("not drained in time")

// serve sweeps and checks until ctx ends, then lets the checks under way end. It
// returns nil if they all did.
func (e *engine) serve(ctx context.Context) error {
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, e.checker.stop)
	defer stop()
	sweeping.Go(func() { e.sweeper.Serve(ctx) })
	sweeping.Go(func() { promotion.Withdraw(ctx, e.store, e.sweep, e.log) })
	if err := e.queue.Serve(ctx, e.checker); err != nil {
		return err
	}
	if e.checker.busy.Load() > 0 || e.checker.cut.Load() {
		return fmt.Errorf("%w: a check was under way after %s; its row stays due", errDrain, e.drain)
	}
	return nil
}

func (e *engine) ready(ctx context.Context) check {
	if e.checker.stopped.Load() {
		return check{Name: "queue", Detail: "draining"}
	}
	if _, err := e.queue.Stats(ctx); err != nil {
		return check{Name: "queue", Detail: err.Error()}
	}
	return check{Name: "queue", OK: true, Detail: "redis: " + e.kind}
}

func (e *engine) close() error { return e.redis.Close() }

// draining hands checks on until it is stopped. Then rows go back to the queue
// unasked: a token works on many rows, and a drain waits for one at most.
type draining struct {
	next    asynqqueue.Checker
	stopped atomic.Bool
	busy    atomic.Int64
	cut     atomic.Bool // a check was cut off by the end of the drain
}

func (d *draining) stop() { d.stopped.Store(true) }

// Check implements asynqqueue.Checker.
func (d *draining) Check(ctx context.Context, id memory.ID) (promotion.Result, error) {
	d.busy.Add(1)
	defer d.busy.Add(-1)
	if d.stopped.Load() {
		return promotion.Result{ID: id, Status: promotion.Deferred, RetryAt: time.Now()}, nil
	}
	r, err := d.next.Check(ctx, id)
	if err != nil && ctx.Err() != nil && d.stopped.Load() {
		d.cut.Store(true)
	}
	return r, err
}

// Park implements asynqqueue.Checker.
func (d *draining) Park(ctx context.Context, id memory.ID, reason string) error {
	return d.next.Park(ctx, id, reason)
}

var (
	queueSize = prometheus.NewDesc("hearsay_queue_size",
		"What is in the queue. Of rows: waiting, claimed, later. Of tokens, which wake workers: pending, active, retry, archived.", []string{"queue", "state"}, nil)
	queueOldest = prometheus.NewDesc("hearsay_queue_oldest_seconds",
		"How long the oldest has waited: of rows, since it fell due, by the row store; of tokens, since it was put in.", []string{"queue"}, nil)
	queuePaused  = prometheus.NewDesc("hearsay_queue_paused", "1 if no worker takes a row until hearsay queue resume.", nil, nil)
	queueWorkers = prometheus.NewDesc("hearsay_queue_workers", "Processes that serve the queue, as of their last heartbeat.", nil, nil)
	queueUp      = prometheus.NewDesc("hearsay_queue_up", "1 if the queue answers.", nil, nil)
)

// Describe implements prometheus.Collector.
func (e *engine) Describe(ch chan<- *prometheus.Desc) {
	ch <- queueSize
	ch <- queueOldest
	ch <- queueUp
	ch <- queuePaused
	ch <- queueWorkers
}

// Collect implements prometheus.Collector: the facts of the moment.
func (e *engine) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	now := e.store.Now()
	if due, _, err := e.store.DueRows(ctx, now, "", 1); err == nil {
		oldest := 0.0
		if len(due) > 0 {
			oldest = max(now.Sub(due[0].At).Seconds(), 0)
		}
		gauge(queueOldest, oldest, "rows")
	}
	s, err := e.queue.Stats(ctx)
	if err != nil {
		gauge(queueUp, 0)
		return
	}
	gauge(queueUp, 1)
	paused := 0.0
	if s.Paused {
		paused = 1
	}
	gauge(queuePaused, paused)
	gauge(queueWorkers, float64(s.Workers))
	gauge(queueOldest, s.Latency.Seconds(), "tokens")
	gauge(queueSize, float64(s.Waiting), "rows", "waiting")
	gauge(queueSize, float64(s.Claimed), "rows", "claimed")
	gauge(queueSize, float64(s.Later), "rows", "later")
	gauge(queueSize, float64(s.Pending), "tokens", "pending")
	gauge(queueSize, float64(s.Active), "tokens", "active")
	gauge(queueSize, float64(s.Retry), "tokens", "retry")
	gauge(queueSize, float64(s.Archived), "tokens", "archived")
}

// redisLog hands the lines of the Redis client to slog, at debug: that the queue
// is not reached is said by the queue.
type redisLog struct{ log *slog.Logger }

// Printf implements the logger of go-redis.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis", "line", fmt.Sprintf(format, args...))
}
