// Package asynqqueue is a queue of checks on asynq and Redis.
//
// A check is one asynq task of type "hearsay:check". Its payload is JSON that a person can read. Each
// source has a queue of its own. The id of a task is made of the scope, the row, the source and the
// generation of the row's due mark. So no check is in the queue twice.
//
// The row store says what is due, and in what order; see [promotion.Serve]. The keys in
// Redis can be deleted at any time.
//
// asynq's retry count of a task is the number of workers that died while they made the check, or
// panicked. Nothing else counts, so a verifier that is down costs no retry. No task is ever archived,
// because asynq would keep its id.
package asynqqueue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

// TaskType is the type of all tasks of this package.
const TaskType = "hearsay:check"

// DefaultShutdownTimeout is that of [Options].
const DefaultShutdownTimeout = 8 * time.Second

const (
	pollEvery      = 50 * time.Millisecond  // while the queue is empty
	forwardEvery   = 500 * time.Millisecond // how often tasks that come back are looked for
	comeBackAfter  = time.Second            // unless the error of the check says something else
	mostPayload    = 32 << 10               // bytes; a tenant and a namespace are at most 1,024 each, which JSON may write in six times that
	janitorSeldom  = time.Hour
	panicStackSize = 4096
	announceEvery  = 10 * time.Second
	lookPollEvery  = 250 * time.Millisecond
	lookTimeout    = 10 * time.Second
)

// Options of a [Queue]. Every zero field has a usable default.
type Options struct {
	// ShutdownTimeout is how long checks may take to end when Serve ends. Those that take longer are
	// given back; 0 = 8 s.
	ShutdownTimeout time.Duration
	// Tracer gets a span of every check that is enqueued, and one of every check that is taken, which is
	// linked to it by a header of the task.
	// nil = none.
	Tracer trace.Tracer
	Logger *slog.Logger // nil = none
}

// Queue is a [promotion.CheckQueue] and a [promotion.Spending]. [New] makes one. It is safe for concurrent use. It does
// not own the Redis client, which must be closed after Serve has returned and not before: asynq 0.26 panics otherwise.
type Queue struct {
	deployment string
	redis      redis.UniversalClient
	client     *asynq.Client
	limiter    *redis_rate.Limiter
	opts       Options

	mu    sync.Mutex
	looks []*func(tenant, namespace string) bool // of ServeLooks under way
	fault error                                  // of the last write to Redis that announces a queue
}

// New returns a queue over a Redis client, of Redis 6.2 or later. The deployment keeps the queues and budgets of
// stores apart that share a Redis database: all processes of one store have the same. [Deployment] makes one of
// the store. New panics if it is empty, or if there is no client.
func New(client redis.UniversalClient, deployment string, o *Options) *Queue {
	if c, is := client.(*redis.Client); client == nil || is && c == nil {
		panic("asynqqueue: New: no Redis client")
	}
	if deployment == "" {
		panic("asynqqueue: New: no deployment")
	}
	q := &Queue{deployment: deployment, redis: client, client: asynq.NewClientFromRedisClient(client), limiter: redis_rate.NewLimiter(client)}
	if o != nil {
		q.opts = *o
	}
	if q.opts.ShutdownTimeout <= 0 {
		q.opts.ShutdownTimeout = DefaultShutdownTimeout
	}
	if q.opts.Tracer == nil {
		q.opts.Tracer = noop.NewTracerProvider().Tracer("")
	}
	if q.opts.Logger == nil {
		q.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return q
}

// Name is the name of asynq's queue for a source.
func (q *Queue) Name(source string) string {
	return "hearsay:" + plain(q.deployment) + ":" + plain(source)
}

// plain keeps letters, digits and "._~-" of a name, and encodes everything else. Names can be joined by
// a colon then, and break no hash tag of Redis.
func plain(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "%", "=") }

// taskID is the id of the task of a check.
func taskID(c promotion.Check) string {
	return strings.Join([]string{plain(c.Tenant), plain(c.Namespace), plain(string(c.Row)), plain(c.Source), strconv.FormatUint(c.Generation, 10)}, ":")
}

// payload is what a task says.
type payload struct {
	Tenant     string    `json:"tenant"`
	Namespace  string    `json:"namespace,omitempty"`
	Row        memory.ID `json:"row"`
	Source     string    `json:"source"`
	Generation uint64    `json:"generation"`
}

// Enqueue implements [promotion.CheckQueue]. Its span goes along in the headers of the task. The timeout is
// rounded up to whole seconds, as asynq keeps it.
func (q *Queue) Enqueue(ctx context.Context, c promotion.Check, timeout time.Duration) (added bool, err error) {
	body, err := json.Marshal(payload(c))
	if err != nil {
		return false, fmt.Errorf("asynqqueue: %w", err)
	}
	ctx, span := q.opts.Tracer.Start(ctx, "promotion.enqueue", trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(attribute.String("messaging.destination.name", q.Name(c.Source)), attribute.String("hearsay.row", string(c.Row))))
	defer span.End()
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	_, err = q.client.EnqueueContext(ctx, asynq.NewTaskWithHeaders(TaskType, body, headers), asynq.Queue(q.Name(c.Source)), asynq.TaskID(taskID(c)),
		asynq.MaxRetry(math.MaxInt32), asynq.Timeout(max(timeout+time.Second-1, time.Second).Truncate(time.Second)), asynq.Retention(0))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, asynq.ErrTaskIDConflict):
		return false, nil
	}
	span.SetStatus(codes.Error, "not enqueued")
	return false, fmt.Errorf("asynqqueue: %w", err)
}

// LookType is the type of the tasks by which a process asks that due rows of a scope be looked for.
const LookType = "hearsay:look"

// lookPayload is what such a task says.
type lookPayload struct {
	Tenant    string `json:"tenant"`
	Namespace string `json:"namespace,omitempty"`
}

// lookName is the name of asynq's queue for looks.
func (q *Queue) lookName() string { return "hearsay:" + plain(q.deployment) }

// Look implements [promotion.Looker]. If this queue serves the scope itself, nothing goes through Redis.
func (q *Queue) Look(ctx context.Context, tenant, namespace string) error {
	q.mu.Lock()
	looks := slices.Clone(q.looks)
	q.mu.Unlock()
	for _, look := range looks {
		if (*look)(tenant, namespace) {
			return nil
		}
	}
	body, err := json.Marshal(lookPayload{tenant, namespace})
	if err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	id := "look:" + plain(tenant) + ":" + plain(namespace)
	enqueue := func() error {
		_, err := q.client.EnqueueContext(ctx, asynq.NewTask(LookType, body), asynq.Queue(q.lookName()), asynq.TaskID(id),
			asynq.MaxRetry(math.MaxInt32), asynq.Timeout(lookTimeout), asynq.Retention(0))
		return err
	}
	err = enqueue()
	if errors.Is(err, asynq.ErrTaskIDConflict) { // it waits, unless a person has archived it, or it is another task
		inspector := asynq.NewInspectorFromRedisClient(q.redis)
		info, other := inspector.GetTaskInfo(q.lookName(), id)
		switch {
		case other == nil && isLook(info, body):
			_ = inspector.RunTask(q.lookName(), id)
			return nil
		case other != nil && !isMissing(other) && !q.damaged(ctx, q.lookName(), id): // Redis does not answer
			return fmt.Errorf("asynqqueue: %w", other)
		}
		if err = q.remove(ctx, q.lookName(), id); err == nil {
			err = enqueue()
		}
	}
	if err != nil && !errors.Is(err, asynq.ErrTaskIDConflict) { // or another process has enqueued it
		return fmt.Errorf("asynqqueue: %w", err)
	}
	return nil
}

// isLook reports whether a task is one that Look makes.
func isLook(t *asynq.TaskInfo, body []byte) bool {
	return t.Type == LookType && bytes.Equal(t.Payload, body) && t.MaxRetry == math.MaxInt32 && t.Deadline.IsZero() && t.Timeout == lookTimeout && t.Retention == 0
}

// ServeLooks implements [promotion.CheckQueue].
func (q *Queue) ServeLooks(ctx context.Context, look func(tenant, namespace string) bool) error {
	q.mu.Lock()
	q.looks = append(q.looks, &look)
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.looks = slices.DeleteFunc(q.looks, func(l *func(string, string) bool) bool { return l == &look })
	}()
	server := q.server(q.lookName(), asynq.Config{Concurrency: 1, TaskCheckInterval: lookPollEvery})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var p lookPayload
		if t.Type() != LookType || len(t.Payload()) > mostPayload || json.Unmarshal(t.Payload(), &p) != nil {
			return asynq.RevokeTask
		}
		look(p.Tenant, p.Namespace)
		return nil
	}))
	if err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// server is an asynq server of one queue.
func (q *Queue) server(name string, c asynq.Config) *asynq.Server {
	c.Queues, c.IsFailure, c.ShutdownTimeout = map[string]int{name: 1}, isFailure, q.opts.ShutdownTimeout
	c.RetryDelayFunc = func(_ int, err error, _ *asynq.Task) time.Duration {
		var says interface{ ComeBackAfter() time.Duration }
		if errors.As(err, &says) {
			return says.ComeBackAfter()
		}
		return comeBackAfter
	}
	c.DelayedTaskCheckInterval, c.JanitorInterval = forwardEvery, janitorSeldom
	c.Logger, c.LogLevel = quiet{q.opts.Logger}, asynq.WarnLevel
	return asynq.NewServerFromRedisClient(q.redis, c)
}

// Spend implements [promotion.Spending], for all processes that share the deployment and the Redis. It
// takes one round trip. Redis keeps one key for each source, which expires when the whole budget is
// free again.
func (q *Queue) Spend(ctx context.Context, source string, budget int, tick time.Duration) (wait time.Duration, err error) {
	r, err := q.limiter.Allow(ctx, q.Name(source), redis_rate.Limit{Rate: budget, Burst: budget, Period: tick})
	switch {
	case err != nil:
		return 0, fmt.Errorf("asynqqueue: %w", err)
	case r.Allowed > 0:
		return 0, nil
	}
	return max(r.RetryAfter, time.Millisecond), nil
}

// errPanicked is the error of a check that panicked. What it panicked with may quote the row.
var errPanicked = errors.New("the check panicked")

// isFailure reports whether a task counts a crash.
func isFailure(err error) bool {
	return errors.Is(err, errPanicked) || errors.Is(err, asynq.ErrLeaseExpired)
}

// ErrGivenBack is the error of Serve if checks were still under way when it ended. They come back to the queue.
var ErrGivenBack = errors.New("checks were given back")

// Serve implements [promotion.CheckQueue]. A task that is none of this package is deleted, and logged.
func (q *Queue) Serve(ctx context.Context, source string, places int, h promotion.CheckHandler) error {
	var busy atomic.Int64
	var cut atomic.Bool
	server := q.server(q.Name(source), asynq.Config{
		Concurrency: places, TaskCheckInterval: pollEvery,
		ErrorHandler: asynq.ErrorHandlerFunc(func(ctx context.Context, t *asynq.Task, err error) {
			if !errors.Is(err, asynq.ErrLeaseExpired) {
				return
			}
			if c, err := check(t, source); err == nil {
				h.Outlived(ctx, c)
			}
		}),
	})
	err := server.Start(asynq.HandlerFunc(func(task context.Context, t *asynq.Task) error {
		busy.Add(1)
		defer busy.Add(-1)
		err := q.handle(task, t, source, h)
		if errors.Is(task.Err(), context.Canceled) && ctx.Err() != nil {
			cut.Store(true)
		}
		return err
	}))
	if err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	q.announce(ctx, source)
	server.Shutdown()
	if busy.Load() > 0 || cut.Load() {
		return fmt.Errorf("asynqqueue: source %q: %w", source, ErrGivenBack)
	}
	return nil
}

// announce keeps the queue of a source in asynq's list of queues, until ctx ends. asynq itself adds it
// when a process enqueues its first task, and never again, so that its tools would not show it after Redis
// was wiped.
func (q *Queue) announce(ctx context.Context, source string) {
	t := time.NewTicker(announceEvery)
	defer t.Stop()
	for {
		if err := q.redis.SAdd(ctx, "asynq:queues", q.Name(source)).Err(); ctx.Err() == nil {
			q.note(ctx, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// note notes whether Redis takes writes.
func (q *Queue) note(ctx context.Context, err error) {
	q.mu.Lock()
	was := q.fault
	q.fault = err
	q.mu.Unlock()
	switch {
	case err != nil && was == nil:
		q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the queue's redis takes no writes", slog.Any("error", err))
	case err == nil && was != nil:
		q.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "the queue's redis takes writes again")
	}
}

// Writable returns the error of the last write to Redis that Serve makes every ten seconds; nil = it was taken.
func (q *Queue) Writable() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fault
}

// handle makes the check of a task.
func (q *Queue) handle(ctx context.Context, t *asynq.Task, source string, h promotion.CheckHandler) (err error) {
	c, err := check(t, source)
	if err != nil {
		q.opts.Logger.LogAttrs(ctx, slog.LevelError, "a task that is no check is deleted", slog.Any("error", err))
		return asynq.RevokeTask
	}
	crashes, _ := asynq.GetRetryCount(ctx)
	var links []trace.Link
	from := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(t.Headers()))
	if span := trace.SpanContextFromContext(from); span.IsValid() {
		links = append(links, trace.Link{SpanContext: span})
	}
	// The wait may be long, so the check is a trace of its own.
	ctx, span := q.opts.Tracer.Start(ctx, "promotion.process", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("messaging.destination.name", q.Name(c.Source)), attribute.String("hearsay.row", string(c.Row)), attribute.Int("hearsay.crashes", crashes)))
	defer span.End()
	defer func() {
		if p := recover(); p != nil {
			stack := debug.Stack()
			q.opts.Logger.LogAttrs(ctx, slog.LevelError, "a check panicked", slog.String("row", string(c.Row)), slog.String("verifier", c.Source),
				slog.String("stack", string(stack[:min(len(stack), panicStackSize)])))
			err = errPanicked
		}
		if err != nil { // its text may quote the row
			span.SetStatus(codes.Error, "not checked")
		}
	}()
	return h.Handle(ctx, c, crashes)
}

// check reads a task of the queue of a source. Whoever can write to Redis can write one.
func check(t *asynq.Task, source string) (promotion.Check, error) {
	if kind := t.Type(); kind != TaskType {
		return promotion.Check{}, fmt.Errorf("asynqqueue: a task of type %q", kind[:min(len(kind), 64)])
	}
	if len(t.Payload()) > mostPayload {
		return promotion.Check{}, fmt.Errorf("asynqqueue: a payload of %d bytes", len(t.Payload()))
	}
	var p payload
	if err := json.Unmarshal(t.Payload(), &p); err != nil {
		return promotion.Check{}, fmt.Errorf("asynqqueue: payload: %w", err)
	}
	if !p.Row.Valid() {
		return promotion.Check{}, errors.New("asynqqueue: payload: row is no id")
	}
	if p.Source != source {
		return promotion.Check{}, errors.New("asynqqueue: payload: it is for another source")
	}
	return promotion.Check(p), nil
}

// quiet hands asynq's lines to slog, at debug: what matters is logged by this package.
type quiet struct{ logger *slog.Logger }

func (l quiet) line(args []any) { l.logger.Debug("asynq", slog.String("line", fmt.Sprint(args...))) }

// Debug, Info, Warn, Error and Fatal implement asynq.Logger.
func (l quiet) Debug(args ...any) { l.line(args) }
func (l quiet) Info(args ...any)  { l.line(args) }
func (l quiet) Warn(args ...any)  { l.line(args) }
func (l quiet) Error(args ...any) { l.line(args) }
func (l quiet) Fatal(args ...any) { l.line(args) }
