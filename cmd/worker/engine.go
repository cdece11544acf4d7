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

// engine is the promotion of one process: verifiers, queues, and what works on the rows of each
// namespace.
type engine struct {
	kind      string // of the Redis behind the queues
	verifiers []watched
	sources   []string // the names of what rows are checked by
	spaces    []*space

	redis      *localredis.Redis
	deployment string // of the queues
	queue      *asynqqueue.Queue
	drain      time.Duration
	sweep      time.Duration
	publish    time.Duration
	stopped    atomic.Bool // it drains
}

// space is what works on the rows of one namespace.
type space struct {
	share
	label string // what tells its checks in /readyz from those of others; "" = there are no others

	store     *memory.Store
	worker    *promotion.Worker
	signing   *signing
	examining *examining
	writes    *writing
	tally     *tally
	log       *slog.Logger
}

// newEngine makes what works on the stores, which are those of c.shares in their order.
func newEngine(ctx context.Context, c *config, stores []*memory.Store, witness *audit.Witness, tracer trace.Tracer, m *meters, log *slog.Logger) (_ *engine, err error) {
	entries, verifiers, err := c.verifiers(m)
	if err != nil {
		return nil, err
	}
	e := &engine{verifiers: verifiers, drain: c.drain, sweep: c.sweep, publish: c.publish}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
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
	e.deployment = cmp.Or(c.deployment, asynqqueue.Deployment(stores[0], stores[1:]...))
	e.queue = asynqqueue.New(e.redis.Client, e.deployment, &asynqqueue.Options{ShutdownTimeout: max(c.drain, time.Millisecond), Tracer: tracer, Logger: log})
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
	}
	m.registry.MustRegister(e)
	return e, nil
}

// add makes the worker of a namespace. The verifiers are those of the process: one that is down is down
// for all namespaces, and is asked at once by all together no more than by one.
func (e *engine) add(s *space, c *config, entries []roster.Entry, host string, tracer trace.Tracer, log *slog.Logger) error {
	budget := c.budget
	if budget == 0 {
		budget = -1
	}
	var sources []promotion.Source
	if len(c.roster.Observe) > 0 { // it asks nobody, so it comes first
		sources = append(sources, promotion.Observed(s.store, c.roster.Observe...))
	}
	for _, e := range entries {
		sources = append(sources, promotion.Source{Name: e.Name, Verifier: e.Verifier, Rank: e.Rank, Predicates: e.Predicates, Covers: e.Covers,
			Any: true, Advisory: e.Need == 0})
	}
	e.sources = nil // each namespace has the same
	for _, s := range sources {
		e.sources = append(e.sources, s.Name)
	}
	var err error
	s.worker, err = promotion.NewWorker(s.store, sources, &promotion.Options{
		Name: "worker:" + host, VerdictLifetime: c.lifetime, Budget: budget, Tick: c.tick, Tracer: tracer, Logger: s.log,
		Observe: s.tally.observe,
	})
	if err != nil {
		return err
	}
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

// mostUncovered is how long a row that no verifier of this worker covers waits for another worker. All
// workers say which verifiers they have, so that it need not be long.
const mostUncovered = time.Minute

// errDrain: checks were still under way when the time for them was over.
var errDrain = errors.New("not drained in time")

// serve checks rows until ctx ends, then lets the checks under way end. It returns nil if they all did.
func (e *engine) serve(ctx context.Context) error {
	var side sync.WaitGroup
	defer side.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { e.stopped.Store(true) })()
	var scopes []promotion.Scope
	for _, s := range e.spaces {
		side.Go(func() { s.examining.serve(ctx) })
		side.Go(func() { tell(ctx, s.store, tellEvery, s.log) })
		scopes = append(scopes, promotion.Scope{Worker: s.worker, Weight: s.weight, Sweep: e.sweep, ReadsElsewhere: true, Publish: e.publish, Uncovered: max(mostUncovered, 3*e.publish)})
	}
	err := promotion.Serve(ctx, e.queue, scopes...)
	if errors.Is(err, asynqqueue.ErrGivenBack) {
		return fmt.Errorf("%w: a check was under way after %s; its row stays due", errDrain, e.drain)
	}
	return err
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
	var queued check
	all.Go(func() { queued = e.queueReady(ctx) })
	for i, s := range e.spaces {
		all.Go(func() { each[i] = s.ready(ctx) })
	}
	all.Wait()
	checks = append(slices.Concat(each...), queued)
	checks = append(checks, check{Name: "gate_observe", OK: true, Detail: "not applicable: the worker runs no gate"})
	for _, v := range e.verifiers {
		checks = append(checks, v.ready(time.Now()))
	}
	return checks
}

// queueReady says whether the queue answers.
func (e *engine) queueReady(ctx context.Context) check {
	stats, err := within(ctx, e.stats)
	err = cmp.Or(err, e.queue.Writable())
	c := check{Name: "queue", OK: err == nil, Detail: "redis: " + e.kind}
	switch {
	case e.stopped.Load():
		c.OK, c.Detail = false, "draining"
	case err != nil:
		c.Detail = err.Error()
	case slices.ContainsFunc(stats, func(s asynqqueue.Stats) bool { return s.Paused }):
		c.Detail += "; paused until hearsay queue resume"
	}
	return c
}

// stats are the facts of the queues that this process serves.
func (e *engine) stats(ctx context.Context) ([]asynqqueue.Stats, error) {
	return e.queue.Stats(ctx, e.sources...)
}

// ready asks everything at once, each within a time of its own: what hangs is named, and
// nothing else for it.
func (s *space) ready(ctx context.Context) []check {
	var read, written, lost error
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
	signed := s.signing.ready(time.Now())
	signed.Name += s.label
	verified := s.examining.ready(time.Now())
	verified.Name += s.label
	return []check{reached, writes, schema, witness, signed, verified}
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
	defer cancel() // after the answer was looked at
	done := make(chan found, 1)
	go func() {
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

var (
	queueTasks = prometheus.NewDesc("hearsay_queue_tasks",
		"Checks in the queue of a verifier: pending, active (under way), orphaned (their worker died), retry (they come back within about a second), archived (by hand).", []string{"verifier", "state"}, nil)
	queuePaused    = prometheus.NewDesc("hearsay_queue_paused", "1 if no worker takes checks of the verifier until hearsay queue resume.", []string{"verifier"}, nil)
	queueProcesses = prometheus.NewDesc("hearsay_queue_processes", "Processes that serve the queue of a verifier, as of their last heartbeat.", []string{"verifier"}, nil)
	queueUp        = prometheus.NewDesc("hearsay_queue_up", "1 if the queue answers.", nil, nil)
	dueOldest      = prometheus.NewDesc("hearsay_due_oldest_seconds", "How long ago the oldest row fell due that is still due; 0 = none is.", nil, nil)
)

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// Describe implements prometheus.Collector.
func (e *engine) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{queueTasks, queuePaused, queueProcesses, queueUp} {
		ch <- d
	}
}

// Collect implements prometheus.Collector: the facts of the moment.
func (e *engine) Collect(ch chan<- prometheus.Metric) {
	stats, err := within(context.Background(), e.stats)
	if err != nil {
		gauge(ch, queueUp, 0)
		return
	}
	gauge(ch, queueUp, 1)
	for _, s := range stats {
		paused := 0.0
		if s.Paused {
			paused = 1
		}
		gauge(ch, queuePaused, paused, s.Source)
		gauge(ch, queueProcesses, float64(s.Processes), s.Source)
		for state, n := range map[string]int{"pending": s.Pending, "active": s.Active, "orphaned": s.Orphaned, "retry": s.Retry, "archived": s.Archived} {
			gauge(ch, queueTasks, float64(n), s.Source, state)
		}
	}
}

// Describe implements prometheus.Collector.
func (s *space) Describe(ch chan<- *prometheus.Desc) { ch <- dueOldest }

// Collect implements prometheus.Collector.
func (s *space) Collect(ch chan<- prometheus.Metric) {
	oldest, err := within(context.Background(), func(ctx context.Context) (float64, error) {
		due, ok, err := s.store.OldestDue(ctx)
		if !ok {
			return 0, err
		}
		return max(s.store.Now().Sub(due.At).Seconds(), 0), nil
	})
	if err == nil {
		gauge(ch, dueOldest, oldest)
	}
}

// redisLog hands the lines of the Redis client to slog, at debug: that the queue
// is not reached is said by the queue.
type redisLog struct{ log *slog.Logger }

// Printf implements the logger of go-redis.
func (l redisLog) Printf(ctx context.Context, format string, args ...any) {
	l.log.DebugContext(ctx, "redis", "line", fmt.Sprintf(format, args...))
}
