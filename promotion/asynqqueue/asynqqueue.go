// Package asynqqueue is the queue of package promotion on asynq and Redis.
//
// asynq cannot re-prioritise a task that is queued. So its tasks are anonymous
// tokens that only wake a worker; which row is checked next is decided at that
// moment, by a sorted set:
//
//	hearsay:{<tenant>}:waiting   sorted set   row id -> order (hottest first)
//	hearsay:{<tenant>}:claimed   sorted set   row id -> end of its lease, ms
//	hearsay:{<tenant>}:later     sorted set   row id -> when its verifier may be asked, ms
//	hearsay:{<tenant>}:order     hash         row id -> order, while claimed or later
//	asynq:{hearsay-<tenant>}:*                asynq's own keys
//
// A row that is claimed and not given back, because its worker died, returns when
// its lease ends, within Options.Lease and a pump. A row whose verifier is down is set
// aside until that may be asked again, and holds up no other. All of it can be
// wiped: the row store says what is due, and a sweep fills it again.
package asynqqueue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

// Defaults and fixed times.
const (
	DefaultConcurrency = 8
	DefaultLease       = 8 * time.Second // of a claim; a check that takes longer overlaps, which is safe
	pumpEvery          = 250 * time.Millisecond
	tokenTimeout       = 2 * time.Minute
	rowsPerToken       = 64
	reapPage           = 1000
	queuesKey          = "asynq:queues"
	maxRetry           = 10 // never 0: asynq archives such a task at once, even if nothing failed
)

// Options of a [Queue]. Every zero field has a usable default.
type Options struct {
	Tenant      string        // "" = "default"
	Concurrency int           // checks at a time in this process; 0 = 8
	Lease       time.Duration // 0 = 8 s
	// ShutdownTimeout is how long checks may take to end when Serve ends; 0 = 8 s.
	ShutdownTimeout time.Duration
	Logger          *slog.Logger // nil = none
}

// Checker checks one row; [*promotion.Worker] is one.
type Checker interface {
	Check(ctx context.Context, id memory.ID) (promotion.Result, error)
}

// Queue is a promotion.Queue. It is safe for concurrent use. It does not own the
// Redis client.
type Queue struct {
	redis     redis.UniversalClient
	tokens    *asynq.Client
	inspector *asynq.Inspector
	opts      Options
	name      string // asynq's queue
	kind      string // asynq's task type
	waiting   string
	claimed   string
	order     string
	later     string
}

// New returns a queue over a Redis client.
func New(client redis.UniversalClient, o *Options) *Queue {
	q := &Queue{redis: client, tokens: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client)}
	if o != nil {
		q.opts = *o
	}
	if q.opts.Tenant == "" {
		q.opts.Tenant = "default"
	}
	if q.opts.Concurrency <= 0 {
		q.opts.Concurrency = DefaultConcurrency
	}
	if q.opts.Lease <= 0 {
		q.opts.Lease = DefaultLease
	}
	if q.opts.ShutdownTimeout <= 0 {
		q.opts.ShutdownTimeout = 8 * time.Second
	}
	if q.opts.Logger == nil {
		q.opts.Logger = slog.New(slog.DiscardHandler)
	}
	// Hexadecimal, so that no tenant can name another's keys or break a hash tag.
	tenant := hex.EncodeToString([]byte(q.opts.Tenant))
	q.name, q.kind = "hearsay-"+tenant, "hearsay:check"
	prefix := "hearsay:{" + tenant + "}:"
	q.waiting, q.claimed, q.order, q.later = prefix+"waiting", prefix+"claimed", prefix+"order", prefix+"later"
	return q
}

// Name is the name of asynq's queue.
func (q *Queue) Name() string { return q.name }

// place is the order of an offer: the lowest goes first. Heat decides, then
// confidence; of equals the older id comes first, since a sorted set orders equal
// scores by their members, and ids by age.
func place(o promotion.Offer) float64 {
	heat := math.Min(math.Max(o.Heat, 0), 1e9)
	return -(math.Round(heat*100)*10 + 9*math.Min(math.Max(o.Confidence, 0), 1))
}

// A script is all or nothing on one hash tag. Arguments are checked before the
// first write, since Redis does not roll back.
var (
	offerScript = redis.NewScript(`
for i = 1, #ARGV, 2 do
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) or redis.call('ZSCORE', KEYS[4], ARGV[i]) then
    redis.call('HSET', KEYS[3], ARGV[i], ARGV[i+1])
  else
    redis.call('ZADD', KEYS[1], ARGV[i+1], ARGV[i])
  end
end
return redis.call('ZCARD', KEYS[1])`)

	claimScript = redis.NewScript(`
local top = redis.call('ZPOPMIN', KEYS[1])
if #top == 0 then return false end
redis.call('ZADD', KEYS[2], ARGV[1], top[1])
redis.call('HSET', KEYS[3], top[1], top[2])
return top[1]`)

	// releaseScript gives a claim up if it is still the one made with this lease:
	// the row is done with, or waits again, or is set aside until a time.
	releaseScript = redis.NewScript(`
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not lease or tonumber(lease) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[3] == 'later' then
  redis.call('ZADD', KEYS[4], ARGV[4], ARGV[1])
  return 1
end
local order = redis.call('HGET', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
if ARGV[3] == 'back' then redis.call('ZADD', KEYS[1], order or '0', ARGV[1]) end
return 1`)

	reapScript = redis.NewScript(`
local n = 0
for _, from in ipairs({KEYS[2], KEYS[4]}) do
  local late = redis.call('ZRANGEBYSCORE', from, '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
  for _, id in ipairs(late) do
    redis.call('ZREM', from, id)
    redis.call('ZADD', KEYS[1], redis.call('HGET', KEYS[3], id) or '0', id)
    redis.call('HDEL', KEYS[3], id)
  end
  n = math.max(n, #late)
end
return n`)
)

func (q *Queue) keys() []string { return []string{q.waiting, q.claimed, q.order, q.later} }

// Offer puts rows into the waiting set, or moves them in it; rows that are being
// checked or set aside stay there, and take the new order when they come back.
// Then it wakes workers.
func (q *Queue) Offer(ctx context.Context, rows []promotion.Offer) error {
	const chunk = 500
	for len(rows) > 0 {
		n := min(len(rows), chunk)
		args := make([]any, 0, 2*n)
		for _, o := range rows[:n] {
			args = append(args, string(o.ID), strconv.FormatFloat(place(o), 'f', -1, 64))
		}
		if err := offerScript.Run(ctx, q.redis, q.keys(), args...).Err(); err != nil {
			return fmt.Errorf("asynqqueue: offer: %w", err)
		}
		rows = rows[n:]
	}
	return q.pump(ctx)
}

// claim takes the hottest row. The lease is also the fencing token of release.
func (q *Queue) claim(ctx context.Context) (id memory.ID, lease string, ok bool, err error) {
	lease = strconv.FormatInt(time.Now().Add(q.opts.Lease).UnixMilli(), 10)
	v, err := claimScript.Run(ctx, q.redis, q.keys(), lease).Text()
	if errors.Is(err, redis.Nil) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("asynqqueue: claim: %w", err)
	}
	return memory.ID(v), lease, true, nil
}

// ending is what becomes of a claim.
type ending string

const (
	done  ending = "done"
	back  ending = "back"  // it waits again
	later ending = "later" // it is set aside until a time
)

func (q *Queue) release(ctx context.Context, id memory.ID, lease string, e ending, at time.Time) error {
	// Whole pumps, so that rows that come back together do so in their order.
	slot := at.Add(pumpEvery - 1).Truncate(pumpEvery)
	if err := releaseScript.Run(ctx, q.redis, q.keys(), string(id), lease, string(e), slot.UnixMilli()).Err(); err != nil {
		return fmt.Errorf("asynqqueue: release: %w", err)
	}
	return nil
}

// pump returns the claims of workers that died and the rows whose time has come,
// and tops tokens up to what is waiting, or to twice what this process can work on
// at a time.
func (q *Queue) pump(ctx context.Context) error {
	now := time.Now().UnixMilli()
	for {
		n, err := reapScript.Run(ctx, q.redis, q.keys(), now, reapPage).Int()
		if err != nil {
			return fmt.Errorf("asynqqueue: reap: %w", err)
		}
		if n < reapPage {
			break
		}
	}
	waiting, err := q.redis.ZCard(ctx, q.waiting).Result()
	if err != nil {
		return fmt.Errorf("asynqqueue: pump: %w", err)
	}
	// asynq's client says once in its life that the queue exists; a Redis that was
	// wiped has forgotten it, and its tokens would not be counted.
	if err := q.redis.SAdd(ctx, queuesKey, q.name).Err(); err != nil {
		return fmt.Errorf("asynqqueue: pump: %w", err)
	}
	info, err := q.info()
	if err != nil {
		return fmt.Errorf("asynqqueue: pump: %w", err)
	}
	have := info.Pending + info.Retry + info.Scheduled
	for want := min(int(waiting), 2*q.opts.Concurrency) - have; want > 0; want-- {
		task := asynq.NewTask(q.kind, nil, asynq.Queue(q.name), asynq.MaxRetry(maxRetry), asynq.Timeout(tokenTimeout))
		if _, err := q.tokens.EnqueueContext(ctx, task); err != nil {
			return fmt.Errorf("asynqqueue: token: %w", err)
		}
	}
	return nil
}

// isFailure: a worker that lost its lease, or was told to end, did not fail.
func isFailure(err error) bool {
	return !errors.Is(err, asynq.ErrLeaseExpired) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded)
}

// retryDelay does not grow: asynq's count stays 0 for what is no failure. A
// little jitter keeps tokens from coming back all at once.
func retryDelay(int, error, *asynq.Task) time.Duration {
	return time.Second + time.Duration(rand.Int64N(int64(time.Second)))
}

// Serve works on the queue until ctx ends, then lets running checks end. It blocks.
func (q *Queue) Serve(ctx context.Context, c Checker) error {
	server := asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency: q.opts.Concurrency, Queues: map[string]int{q.name: 1}, IsFailure: isFailure, RetryDelayFunc: retryDelay,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 500 * time.Millisecond,
		ShutdownTimeout: q.opts.ShutdownTimeout, Logger: quiet{q.opts.Logger}, LogLevel: asynq.WarnLevel,
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		if t.Type() != q.kind { // ServeMux would match by prefix
			return fmt.Errorf("asynqqueue: task of type %q: %w", t.Type(), asynq.SkipRetry)
		}
		return q.work(ctx, c)
	})); err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	t := time.NewTicker(pumpEvery)
	defer t.Stop()
	for {
		if err := q.pump(ctx); err != nil && ctx.Err() == nil {
			q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "queue is not reached", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
			server.Shutdown()
			return nil
		case <-t.C:
		}
	}
}

// work spends one token: it checks the hottest rows, one after the other, until
// nothing waits or the token has done its share. A verifier that is down is no
// failure: its row is set aside, and the next one is taken (SR-7.6).
func (q *Queue) work(ctx context.Context, c Checker) error {
	for range rowsPerToken {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		id, lease, ok, err := q.claim(ctx)
		if err != nil || !ok {
			return err
		}
		res, err := c.Check(ctx, id)
		end := done
		switch {
		case err != nil && ctx.Err() != nil:
			end = back
		case err != nil: // a row that cannot be checked holds up no other either
			end, res.RetryAt = later, time.Now().Add(q.opts.Lease)
		case res.Status == promotion.Down, res.Status == promotion.Deferred:
			end = later
		}
		// If this fails, the lease ends by itself.
		if err := errors.Join(err, q.release(context.WithoutCancel(ctx), id, lease, end, res.RetryAt)); err != nil {
			return err
		}
	}
	return nil
}

// Stats are the facts of the queue, from Redis and asynq's own inspector.
type Stats struct {
	Waiting  int64 // rows that want a check
	Claimed  int64 // rows being checked
	Later    int64 // rows set aside: their verifier is down, or its budget is spent
	Pending  int   // tokens
	Active   int
	Retry    int // tokens that failed, for the row store did
	Archived int // tokens asynq gave up; no row is lost with them
	Latency  time.Duration
}

// Stats reads the facts of the queue.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	var err error
	if s.Waiting, err = q.redis.ZCard(ctx, q.waiting).Result(); err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	if s.Claimed, err = q.redis.ZCard(ctx, q.claimed).Result(); err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	if s.Later, err = q.redis.ZCard(ctx, q.later).Result(); err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	info, err := q.info()
	if err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	s.Pending, s.Active, s.Retry, s.Archived, s.Latency = info.Pending, info.Active, info.Retry, info.Archived, info.Latency
	return s, nil
}

// info asks asynq about its queue, which does not exist before its first token.
func (q *Queue) info() (*asynq.QueueInfo, error) {
	names, err := q.inspector.Queues()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, q.name) {
		return &asynq.QueueInfo{}, nil
	}
	return q.inspector.GetQueueInfo(q.name)
}

// quiet hands asynq's lines to slog, at debug: what matters is said by the worker.
type quiet struct{ logger *slog.Logger }

func (l quiet) line(args []any) {
	l.logger.Debug("asynq", slog.String("line", fmt.Sprint(args...)))
}

// Debug, Info, Warn, Error and Fatal implement asynq.Logger.
func (l quiet) Debug(args ...any) { l.line(args) }
func (l quiet) Info(args ...any)  { l.line(args) }
func (l quiet) Warn(args ...any)  { l.line(args) }
func (l quiet) Error(args ...any) { l.line(args) }
func (l quiet) Fatal(args ...any) { l.line(args) }
