// Package asynqqueue is the queue of package promotion on asynq and Redis.
//
// asynq cannot re-prioritise a task that is queued. So its tasks are anonymous
// tokens that only wake a worker; which row is checked next is decided at that
// moment, by a sorted set:
//
//	hearsay:{<scope>}:waiting   sorted set   row id -> order (hottest first)
//	hearsay:{<scope>}:claimed   sorted set   row id -> end of its lease, ms
//	hearsay:{<scope>}:later     sorted set   row id -> when its verifier may be asked, ms
//	hearsay:{<scope>}:order     hash         row id -> order, while claimed or later
//	asynq:{hearsay-<scope>}:*                asynq's own keys
//
// The scope is the tenant, or tenant.namespace, each in hexadecimal.
//
// A worker renews its claim while it checks the row. One that is not renewed,
// because its worker died, returns when its lease ends, within Options.Lease and a
// pump. A row whose verifier is down is set aside until that may be asked again,
// and holds up no other. All times are by the clock of Redis, so that the clocks of
// workers need not agree. All of it can be wiped: the row store says what is due,
// and a sweep fills it again.
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
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

// Defaults and fixed times.
const (
	DefaultConcurrency = 8
	DefaultLease       = 8 * time.Second // of a claim, renewed three times in each
	pumpEvery          = 250 * time.Millisecond
	tokenTimeout       = 2 * time.Minute
	tokenShare         = 30 * time.Second // a token takes no further row after it, so that its last check has time
	rowsPerToken       = 64
	reapPage           = 1000
	queuesKey          = "asynq:queues"
	maxRetry           = 10 // never 0: asynq archives such a task at once, even if nothing failed
)

// Options of a [Queue]. Every zero field has a usable default.
type Options struct {
	// Tenant and Namespace are the scope of the store whose rows are offered: a queue
	// of another scope sees none of them. Tenant "" = "default".
	Tenant      string
	Namespace   string
	Concurrency int // checks at a time in this process; 0 = 8
	// Lease is how long a row stays with a worker that died; 0 = 8 s.
	Lease time.Duration
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
	scope := hex.EncodeToString([]byte(q.opts.Tenant))
	if q.opts.Namespace != "" {
		scope += "." + hex.EncodeToString([]byte(q.opts.Namespace))
	}
	q.name, q.kind = "hearsay-"+scope, "hearsay:check"
	prefix := "hearsay:{" + scope + "}:"
	q.waiting, q.claimed, q.order, q.later = prefix+"waiting", prefix+"claimed", prefix+"order", prefix+"later"
	return q
}

// Name is the name of asynq's queue.
func (q *Queue) Name() string { return q.name }

// place is the order of an offer: the lowest goes first. Heat decides, then
// confidence; of equals the older id comes first, since a sorted set orders equal
// scores by their members, and ids by age.
func place(o promotion.Offer) float64 {
	return -(math.Round(within(o.Heat, 1e9)*100)*10 + 9*within(o.Confidence, 1))
}

// within puts v into 0..limit; what is no number is 0.
func within(v, limit float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, limit)
}

// A script is all or nothing on one hash tag. Arguments are checked before the
// first write, since Redis does not roll back. Times are milliseconds by the clock
// of Redis.
const redisNow = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

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

	// claimScript returns the row and the end of its lease, which is the claim's
	// fencing token.
	claimScript = redis.NewScript(redisNow + `
local top = redis.call('ZPOPMIN', KEYS[1])
if #top == 0 then return false end
local lease = string.format('%.0f', now + ARGV[1])
redis.call('ZADD', KEYS[2], lease, top[1])
redis.call('HSET', KEYS[3], top[1], top[2])
return {top[1], lease}`)

	// renewScript returns the new end of a lease, or nothing if the claim is lost.
	renewScript = redis.NewScript(redisNow + `
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not lease or tonumber(lease) ~= tonumber(ARGV[2]) then return false end
lease = string.format('%.0f', now + ARGV[3])
redis.call('ZADD', KEYS[2], lease, ARGV[1])
return lease`)

	// releaseScript gives a claim up if it is still the one made with this lease:
	// the row is done with, or waits again, or is set aside for a while. Whole pumps,
	// so that rows that come back together do so in their order.
	releaseScript = redis.NewScript(redisNow + `
local lease = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not lease or tonumber(lease) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[2], ARGV[1])
if ARGV[3] == 'later' then
  local at = math.ceil((now + ARGV[4]) / ARGV[5]) * ARGV[5]
  redis.call('ZADD', KEYS[4], string.format('%.0f', at), ARGV[1])
  return 1
end
local order = redis.call('HGET', KEYS[3], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
if ARGV[3] == 'back' then redis.call('ZADD', KEYS[1], order or '0', ARGV[1]) end
return 1`)

	reapScript = redis.NewScript(redisNow + `
local n = 0
for _, from in ipairs({KEYS[2], KEYS[4]}) do
  local late = redis.call('ZRANGEBYSCORE', from, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
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

// claim is one row that this process works on.
type claim struct {
	id    memory.ID
	lease string // its end, by the clock of Redis; the fencing token of renew and release; "" = lost
}

// claim takes the hottest row; ok is false if none waits.
func (q *Queue) claim(ctx context.Context) (c claim, ok bool, err error) {
	v, err := claimScript.Run(ctx, q.redis, q.keys(), q.opts.Lease.Milliseconds()).StringSlice()
	if errors.Is(err, redis.Nil) {
		return claim{}, false, nil
	}
	if err != nil {
		return claim{}, false, fmt.Errorf("asynqqueue: claim: %w", err)
	}
	return claim{id: memory.ID(v[0]), lease: v[1]}, true, nil
}

// renewed runs f while the claim is renewed. Its ctx ends when the claim is lost:
// then somebody else has the row. Neither an end of ctx nor a lost claim stops an f
// that is deaf to them; the claim of such a one runs out.
func (q *Queue) renewed(ctx context.Context, c *claim, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel() // also when f panics
	renewing.Go(func() {
		t := time.NewTicker(q.opts.Lease / 3)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			lease, err := renewScript.Run(ctx, q.redis, q.keys(), string(c.id), c.lease, q.opts.Lease.Milliseconds()).Text()
			switch {
			case err == nil:
				c.lease = lease
			case errors.Is(err, redis.Nil):
				c.lease = ""
				cancel()
				return
			}
		}
	})
	f(ctx)
}

// ending is what becomes of a claim.
type ending string

const (
	done  ending = "done"
	back  ending = "back"  // it waits again
	later ending = "later" // it is set aside until a time
)

func (q *Queue) release(ctx context.Context, c claim, e ending, at time.Time) error {
	wait := max(time.Until(at), 0).Milliseconds()
	if err := releaseScript.Run(ctx, q.redis, q.keys(), string(c.id), c.lease, string(e), wait, pumpEvery.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("asynqqueue: release: %w", err)
	}
	return nil
}

// pump returns the claims of workers that died and the rows whose time has come,
// and tops tokens up to what is waiting, or to twice what this process can work on
// at a time.
func (q *Queue) pump(ctx context.Context) error {
	for {
		n, err := reapScript.Run(ctx, q.redis, q.keys(), reapPage).Int()
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

// isFailure: only a panic is one. Tokens are anonymous and hold no row, so that
// giving one up mends nothing; a Redis or a row store that does not answer, a lease
// that ended and a worker that was told to end are waited for.
func isFailure(err error) bool { return asynq.IsPanicError(err) }

// retryDelay does not grow: asynq's count stays 0 for what is no failure. A
// little jitter keeps tokens from coming back all at once.
func retryDelay(int, error, *asynq.Task) time.Duration {
	return time.Second + time.Duration(rand.Int64N(int64(time.Second)))
}

// Serve works on the queue until ctx ends. Then it takes no further row, lets the
// checks under way end, for ShutdownTimeout at most, and returns. It blocks.
func (q *Queue) Serve(ctx context.Context, c Checker) error {
	server := asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency: q.opts.Concurrency, Queues: map[string]int{q.name: 1}, IsFailure: isFailure, RetryDelayFunc: retryDelay,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 500 * time.Millisecond,
		ShutdownTimeout: q.opts.ShutdownTimeout, Logger: quiet{q.opts.Logger}, LogLevel: asynq.WarnLevel,
	})
	if err := server.Start(asynq.HandlerFunc(func(token context.Context, t *asynq.Task) error {
		if t.Type() != q.kind { // ServeMux would match by prefix
			return fmt.Errorf("asynqqueue: task of type %q: %w", t.Type(), asynq.SkipRetry)
		}
		return q.work(token, ctx.Done(), c)
	})); err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	t := time.NewTicker(pumpEvery)
	defer t.Stop()
	reached := true
	for {
		err := q.pump(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && reached: // said once, not four times a second
			q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "queue is not reached", slog.Any("error", err))
		case err == nil && !reached:
			q.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "queue is reached again")
		}
		reached = err == nil
		select {
		case <-ctx.Done():
			server.Shutdown()
			return nil
		case <-t.C:
		}
	}
}

// work spends one token: it checks the hottest rows, one after the other, until
// nothing waits, the token has done its share, or the worker is told to stop. A
// verifier that is down is no failure: its row is set aside, and the next one is
// taken (SR-7.6).
func (q *Queue) work(ctx context.Context, stop <-chan struct{}, checker Checker) error {
	began := time.Now()
	for range rowsPerToken {
		select {
		case <-stop:
			return nil
		default:
		}
		if ctx.Err() != nil || time.Since(began) > tokenShare {
			return ctx.Err()
		}
		c, ok, err := q.claim(ctx)
		if err != nil || !ok {
			return err
		}
		var res promotion.Result
		q.renewed(ctx, &c, func(ctx context.Context) { res, err = checker.Check(ctx, c.id) })
		if c.lease == "" {
			continue
		}
		end := done
		switch {
		case err != nil && ctx.Err() != nil:
			end = back
		case err != nil: // a row that cannot be checked holds up no other either
			end, res.RetryAt = later, time.Now().Add(q.opts.Lease)
			q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "row could not be checked", slog.String("row", string(c.id)), slog.Any("error", err))
		case res.Status == promotion.Down, res.Status == promotion.Deferred:
			end = later
		}
		// If this fails, the lease ends by itself.
		if err := errors.Join(err, q.release(context.WithoutCancel(ctx), c, end, res.RetryAt)); err != nil {
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
	Retry    int // tokens that met a row store that did not answer
	Archived int // tokens asynq gave up; no row is lost with them
	Latency  time.Duration
	Workers  int // processes that serve the queue, as of their last heartbeat
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
	servers, err := q.inspector.Servers()
	if err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	for _, server := range servers {
		if _, serves := server.Queues[q.name]; serves && server.Status == "active" {
			s.Workers++
		}
	}
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
