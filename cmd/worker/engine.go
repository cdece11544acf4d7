package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/roster"
)

// engine is the promotion of one process: verifiers, the queues' Redis, and what
// works on the rows of each namespace.
type engine struct {
	kind      string // of the Redis behind the queues
	verifiers []watched
	spaces    []*space

	redis *localredis.Redis
	drain time.Duration
	sweep time.Duration
}

// space is what works on the rows of one namespace.
type space struct {
	share
	label string // what tells its checks in /readyz from those of others; "" = there are no others

	store     *memory.Store
	queue     *asynqqueue.Queue
	sweeper   *promotion.Sweeper
	checker   *draining
	signing   *signing
	examining *examining
	writes    *writing
	telling   *publishing
	tally     *tally
	log       *slog.Logger
}

// newEngine makes what works on the stores, which are those of c.shares in their order.
func newEngine(ctx context.Context, c *config, stores []*memory.Store, witness *audit.Witness, tracer trace.Tracer, m *meters, log *slog.Logger) (_ *engine, err error) {
	entries, verifiers, err := c.verifiers(m)
	if err != nil {
		return nil, err
	}
	e := &engine{verifiers: verifiers, drain: c.drain, sweep: c.sweep}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := processName(host)
	redis.SetLogger(redisLog{log})
	if e.redis, err = localredis.Open(ctx, c.redis, &localredis.Options{Logger: log}); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	e.kind = string(e.redis.Kind)
	switch policy, err := e.redis.Evicts(ctx); {
	case err != nil:
		log.Warn("the queue's redis does not say whether it evicts keys", "error", err)
	case policy != "":
		e.kind += ", may evict keys: maxmemory-policy " + policy
		log.Warn("the queue's redis may evict keys, and tasks with them; set maxmemory-policy noeviction", "maxmemory_policy", policy)
	}
	if c.checkpoints.key == nil {
		log.Warn("no checkpoints are signed: that a row is missing altogether would go unnoticed; -checkpoint-key")
	} else if witness == nil {
		log.Warn("no witness sees the checkpoints: that the whole store is an older copy would go unnoticed; -witness")
	}
	for i, store := range stores {
		s := &space{share: c.shares[i], store: store, writes: newWriting(store), log: log, tally: m.tally(store.Namespace(), c.named())}
		if len(stores) > 1 {
			s.label = " of namespace " + cmp.Or(store.Namespace(), "(none)")
			s.log = log.With("namespace", store.Namespace())
		}
		if err := e.add(s, c, entries, host, tracer, log); err != nil {
			return nil, err
		}
		if s.signing, err = newSigning(c.checkpoints, store, witness, s.tally.registry, s.log); err != nil {
			return nil, err
		}
		s.examining = newExamining(c, store, witness, s.tally.registry, s.log)
		s.telling = &publishing{store: store, name: name, entries: entries, guards: verifiers, every: c.publish, log: s.log}
	}
	return e, nil
}

// add makes the queue, the worker and the sweep of a namespace. The verifiers are those
// of the process: one that is down is down for all, and is asked at once by all together
// no more than by one.
func (e *engine) add(s *space, c *config, entries []roster.Entry, host string, tracer trace.Tracer, log *slog.Logger) error {
	budget := c.budget
	if budget == 0 {
		budget = -1
	}
	s.queue = asynqqueue.New(e.redis.Client, &asynqqueue.Options{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Concurrency: c.concurrency, Lease: c.lease,
		ShutdownTimeout: max(c.drain, time.Millisecond), Tracer: tracer, Logger: log})
	var sources []promotion.Source
	if len(c.roster.Observe) > 0 { // it asks nobody, so it comes first
		sources = append(sources, promotion.Observed(s.store, c.roster.Observe...))
	}
	for _, e := range entries {
		sources = append(sources, promotion.Source{Name: e.Name, Verifier: e.Verifier, Rank: e.Rank, Covers: e.Covers})
	}
	w, err := promotion.NewWorker(s.store, sources, &promotion.Options{
		Name: "worker:" + host, VerdictLifetime: c.lifetime, Budget: budget, Tick: c.tick, Tracer: tracer, Logger: s.log,
		Observe: s.tally.observe, Spending: s.queue,
	})
	if err != nil {
		return err
	}
	s.checker = &draining{next: w}
	s.sweeper = promotion.NewSweeper(s.store, s.queue, c.sweep, s.log)
	s.tally.registry.MustRegister(s)
	e.spaces = append(e.spaces, s)
	return nil
}

// verifiers makes what the configuration names, each behind its own breaker.
func (c *config) verifiers(m *meters) (entries []roster.Entry, all []watched, err error) {
	entries, err = c.roster.Make(func(name string, v verifier.Verifier, timeout time.Duration) verifier.Verifier {
		guard := m.watch(name, v, &verifier.BreakerOptions{Timeout: timeout, MaxConcurrent: c.concurrency, OpenFor: c.leaveAlone})
		all = append(all, guard)
		return guard
	})
	return entries, all, err
}

// errDrain: checks were still under way when the time for them was over.
var errDrain = errors.New("not drained in time")

// serve sweeps and checks until ctx ends, then lets the checks under way end. It
// returns nil if they all did.
func (e *engine) serve(ctx context.Context) error {
	var side sync.WaitGroup
	defer side.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var shares []asynqqueue.Share
	for _, s := range e.spaces {
		stop := context.AfterFunc(ctx, s.checker.stop)
		defer stop()
		side.Go(func() { s.sweeper.Serve(ctx) })
		side.Go(func() { s.examining.serve(ctx) })
		side.Go(func() { s.telling.serve(ctx) })
		side.Go(func() { promotion.Withdraw(ctx, s.store, e.sweep, s.log) })
		side.Go(func() { tell(ctx, s.store, tellEvery, s.log) })
		shares = append(shares, asynqqueue.Share{Queue: s.queue, Checker: s.checker, Weight: s.weight})
	}
	if err := asynqqueue.ServeShares(ctx, shares); err != nil {
		return err
	}
	for _, s := range e.spaces {
		if s.checker.busy.Load() > 0 || s.checker.cut.Load() {
			return fmt.Errorf("%w: a check was under way after %s; its row stays due", errDrain, e.drain)
		}
	}
	return nil
}

// sign makes the checkpoints of all namespaces until ctx ends. The first fault for good
// ends it, and calls failed.
func (e *engine) sign(ctx context.Context, failed func(error)) {
	var side sync.WaitGroup
	for _, s := range e.spaces {
		side.Go(func() {
			if err := s.signing.serve(ctx); err != nil {
				failed(err)
			}
		})
	}
	side.Wait()
}

// signLast commits to what was written since the last checkpoints.
func (e *engine) signLast(ctx context.Context) error {
	var errs []error
	for _, s := range e.spaces {
		errs = append(errs, s.signing.last(ctx))
	}
	return errors.Join(errs...)
}

// ready says whether the worker can do its work. A verifier that is down is
// traffic and not a fault of the worker: it is shown and does not count.
func (e *engine) ready(ctx context.Context) (checks []check) {
	each := make([][]check, len(e.spaces))
	var all sync.WaitGroup
	for i, s := range e.spaces {
		all.Go(func() { each[i] = s.ready(ctx, e.kind) })
	}
	all.Wait()
	checks = slices.Concat(each...)
	checks = append(checks, check{Name: "gate_observe", OK: true, Detail: "not applicable: the worker runs no gate"})
	for _, v := range e.verifiers {
		checks = append(checks, v.ready(time.Now()))
	}
	return checks
}

// ready asks everything at once, each within a time of its own: what hangs is named, and
// nothing else for it.
func (s *space) ready(ctx context.Context, kind string) []check {
	var read, written, queued, lost error
	var witness check
	var all sync.WaitGroup
	all.Go(func() {
		_, read = within(ctx, func(ctx context.Context) (memory.Fitness, error) { return s.store.Fitness(ctx, nil) })
	})
	all.Go(func() {
		_, written = within(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.writes.check(ctx) })
	})
	all.Go(func() {
		witness, lost = within(ctx, func(ctx context.Context) (check, error) { return witnessCheck(ctx, s.store), nil })
	})
	all.Go(func() { _, queued = within(ctx, s.queue.Stats) })
	all.Wait()

	reached := check{Name: "store" + s.label, OK: read == nil}
	schema := check{Name: "schema" + s.label, OK: !errors.Is(read, memory.ErrSchema) && !errors.Is(read, memory.ErrForeign), Detail: "checked when the store was opened"}
	writes := check{Name: "store_writes" + s.label, OK: written == nil}
	if lost != nil {
		witness = check{Name: "witness", Detail: lost.Error()}
	}
	if read != nil {
		reached.Detail = read.Error()
		witness = check{Name: "witness", Detail: "not known: the store does not answer"}
	}
	if written != nil {
		writes.Detail = written.Error()
	}
	witness.Name += s.label
	queue := check{Name: "queue" + s.label, OK: queued == nil, Detail: "redis: " + kind}
	switch {
	case s.checker.stopped.Load():
		queue.OK, queue.Detail = false, "draining"
	case queued != nil:
		queue.Detail = queued.Error()
	}
	signed := s.signing.ready(time.Now())
	signed.Name += s.label
	verified := s.examining.ready(time.Now())
	verified.Name += s.label
	return []check{reached, writes, schema, witness, queue, signed, verified}
}

// errHangs: a check did not come back.
var errHangs = fmt.Errorf("no answer within %s", readyTimeout)

// within runs a check for as long as one may take. One that goes on all the same is left
// to end by itself, and nobody hears of it.
func within[T any](ctx context.Context, look func(context.Context) (T, error)) (T, error) {
	type found struct {
		what T
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	done := make(chan found, 1)
	go func() {
		defer cancel()
		what, err := look(ctx)
		done <- found{what, err}
	}()
	var f found
	select {
	case f = <-done:
	case <-ctx.Done():
		f.err = ctx.Err()
	}
	if errors.Is(f.err, context.DeadlineExceeded) {
		f.err = errHangs
	}
	return f.what, f.err
}

// writing shows that a store takes writes. However often it is asked, one write is under
// way, and one is made in a while.
type writing struct {
	store *memory.Store
	turn  chan struct{} // holds one; whoever has it writes
	last  time.Time     // of the last write that was done
	err   error
}

// writesEvery is how long what a write showed is believed.
const writesEvery = time.Second

func newWriting(s *memory.Store) *writing {
	w := &writing{store: s, turn: make(chan struct{}, 1)}
	w.turn <- struct{}{}
	return w
}

func (w *writing) check(ctx context.Context) error {
	select {
	case <-w.turn:
		defer func() { w.turn <- struct{}{} }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if time.Since(w.last) > writesEvery {
		w.err = w.store.CheckWrites(ctx)
		w.last = time.Now()
	}
	return w.err
}

// witnessCheck says whether the witness of a store is at hand, if it has one.
func witnessCheck(ctx context.Context, s *memory.Store) check {
	c := check{Name: "witness", OK: true}
	w, err := s.Witnessing(ctx)
	switch {
	case err != nil:
		c.OK, c.Detail = false, err.Error()
	case w.AtHand && w.Untold > 0:
		c.Detail = fmt.Sprintf("at hand; %d changes wait to be told to it", w.Untold)
	case w.AtHand:
		c.Detail = "at hand"
	case w.ID != (memory.Token{}):
		c.OK, c.Detail = false, (&memory.WitnessError{Want: w.ID}).Error()
	case w.GivenUp:
		c.Detail = "none; the one that there was was given up"
	default:
		c.Detail = "none"
	}
	return c
}

// tellEvery is how long what was taken away where the witness was not at hand waits for
// a worker that has it.
const tellEvery = 30 * time.Second

// tell tells the witness now and then what was taken away while it was not at hand,
// until ctx ends.
func tell(ctx context.Context, s *memory.Store, every time.Duration, log *slog.Logger) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		told, err := s.TellWitness(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			log.Warn("the witness was not told of what was taken away while it was not at hand", "err", err)
		case told > 0:
			log.Info("the witness was told of what was taken away while it was not at hand", "entries", told)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (e *engine) close() error {
	if e.redis == nil {
		return nil
	}
	return e.redis.Close()
}

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
func (s *space) Describe(ch chan<- *prometheus.Desc) {
	ch <- queueSize
	ch <- queueOldest
	ch <- queueUp
	ch <- queuePaused
	ch <- queueWorkers
}

// Collect implements prometheus.Collector: the facts of the moment. A store that hangs
// takes no time from the queue.
func (s *space) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	var (
		oldest     float64 // seconds
		q          asynqqueue.Stats
		noDue, err error
		all        sync.WaitGroup
	)
	all.Go(func() {
		oldest, noDue = within(context.Background(), func(ctx context.Context) (float64, error) {
			due, ok, err := s.store.OldestDue(ctx)
			if !ok {
				return 0, err
			}
			return max(s.store.Now().Sub(due.At).Seconds(), 0), nil
		})
	})
	all.Go(func() { q, err = within(context.Background(), s.queue.Stats) })
	all.Wait()
	if noDue == nil {
		gauge(queueOldest, oldest, "rows")
	}
	if err != nil {
		gauge(queueUp, 0)
		return
	}
	gauge(queueUp, 1)
	paused := 0.0
	if q.Paused {
		paused = 1
	}
	gauge(queuePaused, paused)
	gauge(queueWorkers, float64(q.Workers))
	gauge(queueOldest, q.Latency.Seconds(), "tokens")
	gauge(queueSize, float64(q.Waiting), "rows", "waiting")
	gauge(queueSize, float64(q.Claimed), "rows", "claimed")
	gauge(queueSize, float64(q.Later), "rows", "later")
	gauge(queueSize, float64(q.Pending), "tokens", "pending")
	gauge(queueSize, float64(q.Active), "tokens", "active")
	gauge(queueSize, float64(q.Retry), "tokens", "retry")
	gauge(queueSize, float64(q.Archived), "tokens", "archived")
}

// redisLog hands the lines of the Redis client to slog, at debug: that the queue
// is not reached is said by the queue.
type redisLog struct{ log *slog.Logger }

// Printf implements the logger of go-redis.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis", "line", fmt.Sprintf(format, args...))
}
