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
//	hearsay:{<scope>}:behind:<verifiers>  sorted set   row id -> order: the verifiers' backlog
//	hearsay:{<scope>}:behind    hash         row id -> verifiers, while in their backlog
//	hearsay:{<scope>}:closed    hash         verifiers -> until when their backlog is closed for
//	                                         all, ms; negative: one worker leaves it alone
//	hearsay:{<scope>}:lost      hash         row id -> claims since it was last given back
//	hearsay:{<scope>}:yields    hash         row id -> until when all others go before it, ms
//	hearsay:{<scope>}:trace     hash         row id -> spans that wanted it, until it is done
//	hearsay:{<scope>}:spent     hash         verifier -> questions of this tick, and its end
//	asynq:{hearsay-<scope>}:*                asynq's own keys
//
// The scope is the tenant, or tenant.namespace, each in hexadecimal. So are the verifiers
// of backlogs, with points between: all that refused a row, which is one as a rule.
//
// A worker renews its claims while it checks the rows. The claim of a worker that died
// ends with its lease, and its row waits again, within Options.Lease and a pump. A row
// whose worker died twice is checked while no other such row is. After five times it is
// parked in the row store, with the reason.
//
// A row about which a question failed is set aside for a while. A row that a verifier
// refused goes into the backlog of that verifier. A verifier refuses a row when its
// breaker is open, its budget is spent, or it asked to be left alone. The backlog is then
// closed until the verifier may be asked again. A shared budget closes it for all workers.
// A breaker closes it for its own process, and so does a wait that the verifier asked for.
// A worker takes the hottest row of those that wait and of all backlogs that are open to
// it. So each row is looked at in vain once when it comes. When a budget is renewed, as many
// rows are looked at as are checked at once. No row holds up a row of another verifier, and
// a worker that alone cannot reach a verifier leaves the rows to the others. A row that two
// verifiers refused is in a backlog of both, apart from those that one refused.
//
// When the breaker of a worker is half-open, the worker takes one row of the backlog in
// each pump at most, until the verifier answers about one. That row is drawn by lot. A row
// about which questions fail again, while others are answered, yields for a while: it is
// taken after all others, and alone. Else the hottest row, if a verifier can never answer
// about it, would keep it from being asked about any other.
//
// All times are by the clock of Redis, so that the clocks of workers need not agree.
// All of it can be wiped: the row store says what is due, and a sweep fills it again.
//
// A token claims one row at first, and twice as many each time as long as checks are
// quick, up to Options.Batch: they are checked at once, so that a store over
// memory/coalesce commits them together. While checks are slow it takes one row at a
// time, and always the hottest.
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
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

// Defaults and fixed times.
const (
	DefaultConcurrency = 8
	DefaultLease       = 8 * time.Second // of a claim, renewed three times in each
	pumpEvery          = 250 * time.Millisecond
	tokenTimeout       = 2 * time.Minute
	pumpsAfterFault    = 6                // until a process looks for rows without a token, when that failed
	tokenShare         = 30 * time.Second // a token takes no further row after it, so that its last check has time
	tokenTurn          = pumpEvery / 2    // the same, where several queues share a process
	rowsPerToken       = 1024
	reapPage           = 1000
	DefaultBatch       = 32
	quickBatch         = 50 * time.Millisecond  // a batch that took less is followed by a larger one
	slowBatch          = 200 * time.Millisecond // one that took more, by a smaller one
	aloneAfter         = 2                      // lost claims, after which no other such row is checked beside
	maxLost            = 5                      // lost claims or faults, after which the row is parked
	beyondParking      = 10 * time.Minute       // until a row that cannot be parked either is tried again
	queuesKey          = "asynq:queues"
	maxRetry           = 10 // never 0: asynq archives such a task at once, even if nothing failed
)

// Options of a [Queue]. Every zero field has a usable default.
type Options struct {
	// Tenant and Namespace are the scope of the store whose rows are offered: a queue
	// of another scope sees none of them. Tenant "" = "default".
	Tenant      string
	Namespace   string
	Concurrency int // tokens worked on at a time in this process; 0 = 8
	// Batch is how many rows a token checks at once at most, while that takes a few
	// milliseconds; 0 = 32, 1 = always the one hottest row.
	Batch int
	// Lease is how long a row stays with a worker that died; 0 = 8 s.
	Lease time.Duration
	// ShutdownTimeout is how long checks may take to end when Serve ends; 0 = 8 s.
	ShutdownTimeout time.Duration
	// Tracer gets a span of every offer that a span asked for, and of every row that is
	// taken, linked to that offer and to the last read of the row; the links pass through
	// Redis. What a sweep finds has no links. nil = none.
	Tracer trace.Tracer
	Logger *slog.Logger // nil = none
}

// Checker checks rows, many at once, or parks one that cannot be checked;
// [*promotion.Worker] is one.
type Checker interface {
	Check(ctx context.Context, id memory.ID) (promotion.Result, error)
	Park(ctx context.Context, id memory.ID, reason string) error
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
	lost      string
	trace     string
	spent     string
	yields    string
	closed    string
	behind    string       // and with ":" and a verifier, the backlog of that
	paused    atomic.Bool  // as of the last pump
	waits     atomic.Int64 // rows that it can take, the same; 0 = none was found since

	// closing is held to close a backlog for this process and put a row into it, and for reading
	// to claim rows by the backlogs that are not closed.
	closing sync.RWMutex

	mu     sync.Mutex
	avoids map[string]time.Time // backlogs that this process closed for itself; from when on it draws from them
}

// New returns a queue over a Redis client.
func New(client redis.UniversalClient, o *Options) *Queue {
	q := &Queue{redis: client, tokens: asynq.NewClientFromRedisClient(client), inspector: asynq.NewInspectorFromRedisClient(client), avoids: map[string]time.Time{}}
	if o != nil {
		q.opts = *o
	}
	if q.opts.Tenant == "" {
		q.opts.Tenant = "default"
	}
	if q.opts.Concurrency <= 0 {
		q.opts.Concurrency = DefaultConcurrency
	}
	if q.opts.Batch <= 0 {
		q.opts.Batch = DefaultBatch
	}
	if q.opts.Lease <= 0 {
		q.opts.Lease = DefaultLease
	}
	if q.opts.ShutdownTimeout <= 0 {
		q.opts.ShutdownTimeout = 8 * time.Second
	}
	if q.opts.Tracer == nil {
		q.opts.Tracer = noop.NewTracerProvider().Tracer("")
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
	q.waiting, q.claimed, q.order, q.later, q.lost, q.trace, q.spent = prefix+"waiting", prefix+"claimed", prefix+"order", prefix+"later", prefix+"lost", prefix+"trace", prefix+"spent"
	q.closed, q.behind, q.yields = prefix+"closed", prefix+"behind", prefix+"yields"
	return q
}

// Name is the name of asynq's queue.
func (q *Queue) Name() string { return q.name }

// A script is all or nothing on one hash tag. Arguments are checked before the
// first write, since Redis does not roll back. Times are milliseconds by the clock
// of Redis. A backlog is in KEYS[7] as long as it has rows.
const redisNow = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
`

var (
	offerScript = redis.NewScript(redisNow + yielding + `
local inBacklog, some = redis.call('EXISTS', KEYS[8]) == 1, redis.call('EXISTS', KEYS[9]) == 1
for i = 1, #ARGV, 3 do
  local order = ARGV[i+1]
  if some then
    if yielding(ARGV[i]) > now then order = afterAll(order) end
  end
  local backlog = inBacklog and redis.call('HGET', KEYS[8], ARGV[i])
  if backlog then redis.call('HSETNX', KEYS[7], backlog, '0') end -- one that is not listed is open
  if ARGV[i+2] ~= '' then redis.call('HSET', KEYS[6], ARGV[i], ARGV[i+2]) end
  if redis.call('ZSCORE', KEYS[2], ARGV[i]) or redis.call('ZSCORE', KEYS[4], ARGV[i]) then
    redis.call('HSET', KEYS[3], ARGV[i], order)
  else
    redis.call('ZADD', backlog and KEYS[8] .. ':' .. backlog or KEYS[1], order, ARGV[i])
  end
end
return 0`)

	// claimScript returns of each row its id, how often a claim of it was lost before,
	// the end of its lease, which is the claim's fencing token, and its trace. A row that was lost
	// before comes alone, and one that was lost often not while another such is claimed. A
	// row that yields comes alone too: it would open the breaker for those beside it.
	// It takes nothing from the backlogs from ARGV[4] on.
	claimScript = redis.NewScript(redisNow + avoids + `
local want, alone = tonumber(ARGV[2]), tonumber(ARGV[3])
local avoid = avoids(4)
local lease = string.format('%.0f', now + ARGV[1])
local got, skipped, suspect = {}, {}, nil

-- Of the backlogs that are open to it, each with the row that is its first.
local backlogs, closed = {}, redis.call('HGETALL', KEYS[7])
local function first(key)
  local top = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return top[1], tonumber(top[2] or '0')
end
for i = 1, #closed, 2 do
  if tonumber(closed[i+1]) <= now and not avoid[closed[i]] then
    local backlog = {source = closed[i], key = KEYS[8] .. ':' .. closed[i]}
    backlog.id, backlog.order = first(backlog.key)
    backlogs[#backlogs+1] = backlog
  end
end
local function pop()
  local id, order, best = nil, 0, nil
  if #backlogs > 0 then id, order = first(KEYS[1]) end
  for _, s in ipairs(backlogs) do
    if s.id and (not id or s.order < order or s.order == order and s.id < id) then
      id, order, best = s.id, s.order, s
    end
  end
  if not best then return redis.call('ZPOPMIN', KEYS[1]), KEYS[1] end
  local top = redis.call('ZPOPMIN', best.key)
  best.id, best.order = first(best.key)
  return top, best.key
end

while #got < 4 * want and #skipped < 300 do
  local top, from = pop()
  if #top == 0 then break end
  local lost = tonumber(redis.call('HGET', KEYS[5], top[1]) or '0')
  if lost >= alone and suspect == nil then
    suspect = false
    for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
      if tonumber(redis.call('HGET', KEYS[5], id) or '0') > alone then suspect = true break end
    end
  end
  local single = lost > 0 or tonumber(top[2]) > 0
  if single and #got > 0 then
    redis.call('ZADD', from, top[2], top[1])
    break
  elseif lost >= alone and suspect then
    skipped[#skipped+1] = from
    skipped[#skipped+1] = top[2]
    skipped[#skipped+1] = top[1]
  else
    if from ~= KEYS[1] then redis.call('HDEL', KEYS[8], top[1]) end
    redis.call('ZADD', KEYS[2], lease, top[1])
    redis.call('HSET', KEYS[3], top[1], top[2])
    redis.call('HINCRBY', KEYS[5], top[1], 1)
    got[#got+1] = top[1]
    got[#got+1] = tostring(lost)
    got[#got+1] = lease
    got[#got+1] = redis.call('HGET', KEYS[6], top[1]) or ''
    if single then break end
  end
end
for i = 1, #skipped, 3 do
  local from, order, id = skipped[i], skipped[i+1], skipped[i+2]
  if #skipped < 300 then
    redis.call('ZADD', from, order, id)
  else -- so many hide what is behind them: they step aside until the next pump
    redis.call('HDEL', KEYS[8], id)
    redis.call('ZADD', KEYS[4], string.format('%.0f', now), id)
    redis.call('HSET', KEYS[3], id, order)
  end
end
for _, s in ipairs(backlogs) do
  if not s.id and redis.call('EXISTS', s.key) == 0 then redis.call('HDEL', KEYS[7], s.source) end
end
return got`)

	// drawScript returns the same of one row that is drawn by lot from a backlog, if that is
	// not closed for all. Rows that yield are last in the backlog, and are drawn when no others
	// are there. ARGV[3] is the lot, from 0 to less than 1: Redis seeds each script the same.
	drawScript = redis.NewScript(redisNow + `
local closed, key = redis.call('HGET', KEYS[7], ARGV[2]), KEYS[8] .. ':' .. ARGV[2]
if not closed or tonumber(closed) > now then return {} end
local rows = redis.call('ZCOUNT', key, '-inf', 0)
if rows == 0 then rows = redis.call('ZCARD', key) end
local place = math.floor(rows * tonumber(ARGV[3]))
local id = redis.call('ZRANGE', key, place, place)[1]
if not id then return {} end
local lease = string.format('%.0f', now + ARGV[1])
redis.call('HSET', KEYS[3], id, redis.call('ZSCORE', key, id))
redis.call('ZREM', key, id)
redis.call('HDEL', KEYS[8], id)
redis.call('ZADD', KEYS[2], lease, id)
redis.call('HINCRBY', KEYS[5], id, 1)
if redis.call('EXISTS', key) == 0 then redis.call('HDEL', KEYS[7], ARGV[2]) end
return {id, '0', lease, redis.call('HGET', KEYS[6], id) or ''}`)

	// renewScript takes ids and their leases, and returns the new end of each lease, or
	// nothing where the claim is lost.
	renewScript = redis.NewScript(redisNow + `
local out, till = {}, string.format('%.0f', now + ARGV[1])
for i = 2, #ARGV, 2 do
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if lease and tonumber(lease) == tonumber(ARGV[i+1]) then
    redis.call('ZADD', KEYS[2], till, ARGV[i])
    out[#out+1] = till
  else
    out[#out+1] = ''
  end
end
return out`)

	// releaseScript gives claims up that are still the ones made with these leases: the
	// row is done with, or waits again, or is set aside for a while, or put in a backlog.
	// Whole pumps, so that rows that are set aside come back together in their order, and
	// a backlog does not open and close faster, whatever moments refusals name. A
	// backlog is closed until the first moment that a refusal names: later ones may
	// be of a budget that is given back. One that a worker closed for itself is open;
	// until when is noted for people, and only the last such moment.
	releaseScript = redis.NewScript(redisNow + yielding + `
local some = redis.call('EXISTS', KEYS[9]) == 1
for i = 2, #ARGV, 6 do
  local id, ending = ARGV[i], ARGV[i+2]
  local lease = redis.call('ZSCORE', KEYS[2], id)
  if lease and tonumber(lease) == tonumber(ARGV[i+1]) then
    redis.call('ZREM', KEYS[2], id)
    if ending ~= 'failed' then redis.call('HDEL', KEYS[5], id) end
    -- Later than now, also at the very moment of a pump: a backlog that closes until now is open.
    local at = math.ceil((now + math.max(tonumber(ARGV[i+3]), 1)) / ARGV[1]) * ARGV[1]
    local order = redis.call('HGET', KEYS[3], id) or '0'
    if ARGV[i+5] ~= '0' then
      redis.call('HSET', KEYS[9], id, string.format('%.0f', math.max(yielding(id), now + ARGV[i+5])))
      order, some = afterAll(order), true
    end
    if ending == 'later' or ending == 'failed' then
      redis.call('ZADD', KEYS[4], string.format('%.0f', at), id)
      redis.call('HSET', KEYS[3], id, order)
    else
      redis.call('HDEL', KEYS[3], id)
      if ending == 'back' then
        redis.call('ZADD', KEYS[1], order, id)
      elseif ending == 'behind' or ending == 'alone' then
        local source = ARGV[i+4]
        redis.call('ZADD', KEYS[8] .. ':' .. source, order, id)
        redis.call('HSET', KEYS[8], id, source)
        local closed = tonumber(redis.call('HGET', KEYS[7], source) or '0')
        if ending == 'alone' then
          if closed <= now and at >= -closed then
            redis.call('HSET', KEYS[7], source, string.format('%.0f', -at))
          end
        elseif closed <= now or tonumber(ARGV[i+3]) > 0 and at < closed then
          redis.call('HSET', KEYS[7], source, string.format('%.0f', at))
        end
      else
        redis.call('HDEL', KEYS[6], id)
        if some then redis.call('HDEL', KEYS[9], id) end
      end
    end
  end
end
return 0`)

	// retryScript brings back what is set aside, and opens backlogs that are closed for all.
	// Rows that yield take their place when they are offered again.
	retryScript = redis.NewScript(redisNow + `
redis.call('DEL', KEYS[9])
local all = redis.call('ZRANGE', KEYS[4], 0, -1)
for _, id in ipairs(all) do
  redis.call('ZADD', KEYS[1], redis.call('HGET', KEYS[3], id) or '0', id)
  redis.call('HDEL', KEYS[3], id)
end
redis.call('DEL', KEYS[4])
local n, closed = #all, redis.call('HGETALL', KEYS[7])
for i = 1, #closed, 2 do
  if tonumber(closed[i+1]) > now then
    n = n + redis.call('ZCARD', KEYS[8] .. ':' .. closed[i])
    redis.call('HSET', KEYS[7], closed[i], '0')
  end
end
return n`)

	// countScript returns how many rows can be taken, are claimed, and have to wait. Of each
	// backlog it returns the verifier, the rows and for how long it is closed. A last value is
	// '1' if it is closed for one worker alone, and '0' if for all.
	countScript = redis.NewScript(redisNow + `
local open, shut, closed, backlogs = 0, 0, redis.call('HGETALL', KEYS[7]), {}
for i = 1, #closed, 2 do
  local n, at = redis.call('ZCARD', KEYS[8] .. ':' .. closed[i]), tonumber(closed[i+1])
  local left = math.max(math.abs(at) - now, 0)
  if left == 0 then open = open + n else shut = shut + n end
  backlogs[#backlogs+1] = closed[i]
  backlogs[#backlogs+1] = tostring(n)
  backlogs[#backlogs+1] = string.format('%.0f', left)
  backlogs[#backlogs+1] = left > 0 and at < 0 and '1' or '0'
end
local out = {redis.call('ZCARD', KEYS[1]) + open, redis.call('ZCARD', KEYS[2]), redis.call('ZCARD', KEYS[4]) + shut}
for i = 1, #out do out[i] = tostring(out[i]) end
for _, v in ipairs(backlogs) do out[#out+1] = v end
return out`)

	// reapScript returns how many rows came back, of a page; how many this worker can take
	// then, which does not take those in the backlogs from ARGV[2] on; and how many all can.
	reapScript = redis.NewScript(redisNow + avoids + `
local n, avoid = 0, avoids(2)
for _, from in ipairs({KEYS[2], KEYS[4]}) do
  local late = redis.call('ZRANGEBYSCORE', from, '-inf', string.format('%.0f', now), 'LIMIT', 0, ARGV[1])
  for _, id in ipairs(late) do
    redis.call('ZREM', from, id)
    redis.call('ZADD', KEYS[1], redis.call('HGET', KEYS[3], id) or '0', id)
    redis.call('HDEL', KEYS[3], id)
  end
  n = math.max(n, #late)
end
local can, closed = redis.call('ZCARD', KEYS[1]), redis.call('HGETALL', KEYS[7])
local all = can
for i = 1, #closed, 2 do
  local at, rows = tonumber(closed[i+1]), redis.call('ZCARD', KEYS[8] .. ':' .. closed[i])
  if at <= now and not avoid[closed[i]] then can = can + rows end
  if math.abs(at) <= now then all = all + rows end
end
return {n, can, all}`)
)

// yielding says until when a row lets all others go first; afterAll is its order then, as no
// offer orders it.
const yielding = `
local function yielding(id) return tonumber(redis.call('HGET', KEYS[9], id) or '0') end
local function afterAll(order)
  if tonumber(order) > 0 then return order end
  return string.format('%.17g', order + 1e13)
end
`

// avoids makes a set of the arguments from one on.
const avoids = `
local function avoids(from)
  local set = {}
  for i = from, #ARGV do set[ARGV[i]] = true end
  return set
end
`

func (q *Queue) keys() []string {
	return []string{q.waiting, q.claimed, q.order, q.later, q.lost, q.trace, q.closed, q.behind, q.yields}
}

// Offer puts rows into the waiting set, or moves them in it, in the order of
// [promotion.Offer.Order] and of their ids, by which a sorted set orders equals; a row on
// a backlog takes its new place there, and rows that are being checked or set aside stay
// so, and take the new order when they come back. Then it wakes workers.
func (q *Queue) Offer(ctx context.Context, rows []promotion.Offer) error {
	const chunk = 500
	ctx, end := q.offering(ctx, rows)
	defer end()
	for len(rows) > 0 {
		n := min(len(rows), chunk)
		args := make([]any, 0, 3*n)
		for _, o := range rows[:n] {
			args = append(args, string(o.ID), strconv.FormatFloat(o.Order(), 'f', -1, 64), q.traced(ctx, o.Reader))
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
	lost  int    // claims that were not given back since it was last
	trace string // spans that wanted it
	lease string // its end, by the clock of Redis; the fencing token of renew and release; "" = lost
	drawn string // the backlog that it was drawn from, to see whether its verifiers answer; "" = it was not
}

// claim takes the hottest rows, at most so many; none if none waits. Before all others it
// takes one from a backlog that this process closed for itself, if its time has come.
func (q *Queue) claim(ctx context.Context, most int) ([]claim, error) {
	if backlog, ok := q.draws(); ok {
		v, err := drawScript.Run(ctx, q.redis, q.keys(), q.opts.Lease.Milliseconds(), backlog, rand.Float64()).StringSlice()
		if err != nil {
			q.drew(backlog, promotion.Result{})
			return nil, fmt.Errorf("asynqqueue: draw: %w", err)
		}
		if len(v) == 4 {
			return []claim{{id: memory.ID(v[0]), lease: v[2], trace: v[3], drawn: backlog}}, nil
		}
		q.drew(backlog, promotion.Result{})
	}
	q.closing.RLock() // else it would take a row from a backlog that is closed meanwhile
	v, err := claimScript.Run(ctx, q.redis, q.keys(), q.avoided(time.Time{}, q.opts.Lease.Milliseconds(), most, aloneAfter)...).StringSlice()
	q.closing.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("asynqqueue: claim: %w", err)
	}
	var out []claim
	for ; len(v) >= 4; v = v[4:] {
		lost, _ := strconv.Atoi(v[1]) // the script wrote a number
		out = append(out, claim{id: memory.ID(v[0]), lost: lost, lease: v[2], trace: v[3]})
	}
	return out, nil
}

// outcome is what became of the check of one row.
type outcome struct {
	result promotion.Result
	err    error
}

// check checks claimed rows at once, and renews the claims meanwhile. The ctx of a
// check ends when its claim is lost: then somebody else has the row. Neither an end of
// ctx nor a lost claim stops a check that is deaf to them; the claim of such a one
// runs out.
func (q *Queue) check(ctx context.Context, claims []claim, checker Checker) []outcome {
	out := make([]outcome, len(claims))
	var checking, renewing sync.WaitGroup
	lose := make([]context.CancelFunc, len(claims))
	for i := range claims {
		checked, cancel := context.WithCancel(ctx)
		lose[i] = cancel
		checked, end := q.taken(checked, claims[i])
		id := claims[i].id
		checking.Go(func() {
			defer func() { end(out[i].err) }()
			defer func() {
				if p := recover(); p != nil { // what the panic says may quote the row
					out[i].err = fmt.Errorf("%w: %T", errPanic, p)
				}
			}()
			out[i].result, out[i].err = checker.Check(checked, id)
		})
	}
	over := make(chan struct{})
	renewing.Go(func() {
		t := time.NewTicker(q.opts.Lease / 3)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-t.C:
				q.renew(ctx, claims, lose)
			}
		}
	})
	checking.Wait()
	close(over)
	renewing.Wait()
	for _, cancel := range lose {
		cancel()
	}
	return out
}

// errPanic: a check panicked.
var errPanic = errors.New("the check panicked")

// renew renews claims. A Redis that does not answer takes none away.
func (q *Queue) renew(ctx context.Context, claims []claim, lose []context.CancelFunc) {
	args := []any{q.opts.Lease.Milliseconds()}
	var held []int
	for i, c := range claims {
		if c.lease != "" {
			args, held = append(args, string(c.id), c.lease), append(held, i)
		}
	}
	if len(held) == 0 {
		return
	}
	leases, err := renewScript.Run(ctx, q.redis, q.keys(), args...).StringSlice()
	if err != nil || len(leases) != len(held) {
		return
	}
	for n, i := range held {
		if claims[i].lease = leases[n]; leases[n] == "" {
			lose[i]()
		}
	}
}

// ending is what becomes of a claim.
type ending string

const (
	done   ending = "done"
	back   ending = "back"   // it waits again
	later  ending = "later"  // it is set aside until a time
	failed ending = "failed" // the same, and the claim counts as lost
	behind ending = "behind" // it is in a backlog, which is closed until a time
	alone  ending = "alone"  // the same, and the backlog is closed for this process alone
)

// released is a claim that is given up, and how.
type released struct {
	claim
	ending
	at      time.Time     // of all but done and back
	backlog string        // of behind and alone
	yield   time.Duration // for how long all others go before it
}

func (q *Queue) release(ctx context.Context, claims []released) error {
	args := []any{pumpEvery.Milliseconds()}
	if slices.ContainsFunc(claims, func(c released) bool { return c.ending == alone }) {
		q.closing.Lock()
		defer q.closing.Unlock()
	}
	for _, c := range claims {
		if c.ending == alone {
			q.avoid(c.backlog, c.at)
		}
		if c.lease != "" {
			wait := int64(0)
			if left := time.Until(c.at); left > 0 {
				wait = left.Milliseconds() + 1 // not before it
			}
			args = append(args, string(c.id), c.lease, string(c.ending), wait, c.backlog, c.yield.Milliseconds())
		}
	}
	if len(args) == 1 {
		return nil
	}
	if err := releaseScript.Run(ctx, q.redis, q.keys(), args...).Err(); err != nil {
		return fmt.Errorf("asynqqueue: release: %w", err)
	}
	return nil
}

// avoid closes a backlog for this process, by the rules of releaseScript: until the first
// moment that a refusal names, but no shorter than a pump, and for whole pumps.
func (q *Queue) avoid(backlog string, at time.Time) {
	now := time.Now()
	wait := min(at.Sub(now), math.MaxInt64-pumpEvery)
	until := now.Add((max(wait, 1) + pumpEvery - 1).Truncate(pumpEvery))
	q.mu.Lock()
	defer q.mu.Unlock()
	if closed := q.avoids[backlog]; !closed.After(now) || wait > 0 && until.Before(closed) {
		q.avoids[backlog] = until
	}
}

// avoided appends to the arguments of a script the backlogs that this process closed for
// itself, for longer than until after.
func (q *Queue) avoided(after time.Time, args ...any) []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	for backlog, until := range q.avoids {
		if until.After(after) {
			args = append(args, backlog)
		}
	}
	return args
}

// draws returns a backlog that this process closed for itself, if it is time to see whether
// its verifiers answer. Nobody else does so before [Queue.drew].
func (q *Queue) draws() (backlog string, ok bool) {
	now := time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	for backlog, until := range q.avoids {
		if !until.After(now) {
			q.avoids[backlog] = now.Add(tokenTimeout) // all checks are over then
			return backlog, true
		}
	}
	return "", false
}

// drew takes note of what came of a row that was drawn; the zero Result is of a fault, or of
// a backlog with none.
func (q *Queue) drew(drawn string, r promotion.Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	refused := backlog(r.Behind)
	switch {
	case r.Status == promotion.NotDue, r.Status == promotion.Moved, r.Status == promotion.Parked: // nobody was asked
		q.avoids[drawn] = time.Now()
	case refused == drawn && r.Alone: // release says until when
		q.avoids[drawn] = time.Now()
	case r.Status == 0, r.Status == promotion.Down && refused == "":
		q.avoids[drawn] = time.Now().Add(pumpEvery)
	default: // its verifiers answer, or one of them, or their budget is spent
		delete(q.avoids, drawn)
	}
}

// backlog is the name in Redis of the backlog of some verifiers: each in hexadecimal, since any
// character may be in their names.
func backlog(verifiers []string) string {
	names := make([]string, len(verifiers))
	for i, v := range verifiers {
		names[i] = hex.EncodeToString([]byte(v))
	}
	return strings.Join(names, ".")
}

// onBacklog is the inverse of backlog.
func onBacklog(backlog string) (verifiers []string, err error) {
	for name := range strings.SplitSeq(backlog, ".") {
		v, err := hex.DecodeString(name)
		if err != nil {
			return nil, err
		}
		verifiers = append(verifiers, string(v))
	}
	return verifiers, nil
}

// pump returns the claims of workers that died and the rows whose time has come,
// and tops tokens up to what can be taken, or to twice what this process can work on
// at a time.
func (q *Queue) pump(ctx context.Context) error {
	waiting := int64(0) // for all
	for came := int64(reapPage); came >= reapPage; {
		n, err := reapScript.Run(ctx, q.redis, q.keys(), q.avoided(time.Now(), reapPage)...).Int64Slice()
		if err != nil {
			return fmt.Errorf("asynqqueue: reap: %w", err)
		}
		came, waiting = n[0], n[2]
		q.waits.Store(n[1])
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
	q.paused.Store(info.Paused)
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

// work spends one token: it checks the hottest rows until none can be taken, the token has
// done its share, the queue is paused, or the worker is told to stop. A verifier that is
// down is no failure: its row is put aside, and the next one is taken (SR-7.6).
// It says how many rows it took.
func (q *Queue) work(ctx context.Context, stop <-chan struct{}, checker Checker, share time.Duration) (taken int, err error) {
	began, batch := time.Now(), 1
	for taken < rowsPerToken {
		select {
		case <-stop:
			return taken, nil
		default:
		}
		if ctx.Err() != nil || time.Since(began) > share || q.paused.Load() {
			return taken, ctx.Err()
		}
		claims, err := q.claim(ctx, batch)
		if err != nil || len(claims) == 0 {
			q.waits.Store(0)
			return taken, err
		}
		taken += len(claims)
		start := time.Now()
		ends, fault := q.settle(ctx, claims, checker)
		// If this fails, the leases end by themselves.
		if err := errors.Join(fault, q.release(context.WithoutCancel(ctx), ends)); err != nil {
			return taken, err
		}
		switch took := time.Since(start); {
		case took < quickBatch:
			batch = min(2*batch, q.opts.Batch)
		case took > slowBatch:
			batch = max(batch/2, 1)
		}
	}
	return taken, nil
}

// settle checks rows, and says what becomes of each. A row whose claim was lost too
// often is parked instead: it takes its worker along, or cannot be checked.
func (q *Queue) settle(ctx context.Context, claims []claim, checker Checker) (ends []released, fault error) {
	if c := claims[0]; c.lost >= maxLost { // such a one comes alone
		reason := fmt.Sprintf("%d checks began and none ended: the worker died, its lease was lost, or the row cannot be checked", c.lost)
		q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "row is parked", slog.String("namespace", q.opts.Namespace), slog.String("row", string(c.id)), slog.String("why", reason))
		switch err := checker.Park(ctx, c.id, reason); {
		case err == nil, errors.Is(err, memory.ErrNotFound), errors.Is(err, memory.ErrErased):
		case beside(err):
			return []released{{claim: c, ending: failed, at: time.Now().Add(q.opts.Lease)}}, err
		default: // its mark cannot be written either; it is checked anew then, and not parked for what was
			return []released{{claim: c, ending: later, at: time.Now().Add(beyondParking)}}, nil
		}
		return []released{{claim: c, ending: done}}, nil
	}
	outcomes := q.check(ctx, claims, checker)
	for i, o := range outcomes {
		r := released{claim: claims[i], ending: done, at: o.result.RetryAt, backlog: backlog(o.result.Behind), yield: o.result.Yield}
		if r.drawn != "" {
			q.drew(r.drawn, o.result)
		}
		switch {
		case r.lease == "":
		case o.err != nil && ctx.Err() != nil:
			r.ending = back
		case o.err != nil: // a row that cannot be checked holds up no other either
			r.ending, r.at = failed, time.Now().Add(q.opts.Lease)
			if beside(o.err) { // the token waits for it
				r.ending, fault = later, o.err
			}
			q.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "row could not be checked", slog.String("namespace", q.opts.Namespace), slog.String("row", string(r.id)), slog.Any("error", o.err))
		case o.result.Status != promotion.Down && o.result.Status != promotion.Deferred:
		case r.backlog != "" && o.result.Alone:
			r.ending = alone
		case r.backlog != "":
			r.ending = behind
		default:
			r.ending = later
		}
		ends = append(ends, r)
	}
	return ends, fault
}

// beside reports whether an error is of what all checks need, the store, its keys or its
// witness, and says nothing of the row: it is waited for, and counts against no row.
func beside(err error) bool {
	var system syscall.Errno // of a folder of keys that cannot be read, say
	switch {
	case errors.Is(err, memory.ErrDamaged), errors.Is(err, memory.ErrKey):
		return false
	case errors.Is(err, memory.ErrStore), errors.Is(err, memory.ErrBehind), errors.Is(err, memory.ErrUnwitnessed), errors.Is(err, memory.ErrWitnessMissing),
		errors.Is(err, context.DeadlineExceeded):
		return true
	}
	return errors.As(err, &system)
}

// Stats are the facts of the queue, from Redis and asynq's own inspector.
type Stats struct {
	Waiting  int64 // rows that want a check, and can be taken
	Claimed  int64 // rows being checked
	Later    int64 // rows put aside: their verifier is down, or its budget is spent
	Pending  int   // tokens
	Active   int
	Retry    int // tokens that met a row store that did not answer
	Archived int // tokens asynq gave up; no row is lost with them
	Latency  time.Duration
	Workers  int  // processes that serve the queue, as of their last heartbeat
	Paused   bool // no row is taken; see [Queue.Pause]
	// Backlogs are those with rows in them, by the names of the verifiers. Waiting counts the
	// rows of backlogs that are open to all workers. Later counts those of the others, also if
	// only one worker leaves a backlog alone.
	Backlogs []Backlog
}

// Backlog is where the rows stand that a verifier refused: its budget was spent, or its
// breaker open.
type Backlog struct {
	Verifiers []string // all that refused the rows: one as a rule; see [promotion.Result.Behind]
	Rows      int64
	Closed    time.Duration // for how long none of them is taken still; 0 = it is open
	// Alone says that it is closed for one worker at least, and not for all: the breaker
	// of that one is open, and others may be taking rows.
	Alone bool
}

// count counts the rows.
func (q *Queue) count(ctx context.Context) (Stats, error) {
	var s Stats
	counts, err := countScript.Run(ctx, q.redis, q.keys()).StringSlice()
	if err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(counts[i], 10, 64) // the script wrote a number
		return n
	}
	s.Waiting, s.Claimed, s.Later = number(0), number(1), number(2)
	for i := 3; i+3 < len(counts); i += 4 {
		verifiers, err := onBacklog(counts[i])
		if rows := number(i + 1); err == nil && rows > 0 {
			s.Backlogs = append(s.Backlogs, Backlog{Verifiers: verifiers, Rows: rows,
				Closed: time.Duration(number(i+2)) * time.Millisecond, Alone: counts[i+3] == "1"})
		}
	}
	slices.SortFunc(s.Backlogs, func(a, b Backlog) int { return slices.Compare(a.Verifiers, b.Verifiers) })
	return s, nil
}

// Stats reads the facts of the queue.
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	s, err := q.count(ctx)
	if err != nil {
		return s, err
	}
	info, err := q.info()
	if err != nil {
		return s, fmt.Errorf("asynqqueue: stats: %w", err)
	}
	s.Pending, s.Active, s.Retry, s.Archived, s.Latency, s.Paused = info.Pending, info.Active, info.Retry, info.Archived, info.Latency, info.Paused
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

// Pause stops all workers from taking rows, within a pump; checks under way end. It
// is kept in Redis, and does nothing to what is there.
func (q *Queue) Pause(ctx context.Context) error {
	// asynq tells only in words that the queue is paused already, or not.
	if info, err := q.info(); err != nil || info.Paused {
		return wrapped("pause", err)
	}
	if err := q.redis.SAdd(ctx, queuesKey, q.name).Err(); err != nil {
		return wrapped("pause", err)
	}
	return wrapped("pause", q.inspector.PauseQueue(q.name))
}

// Resume ends a pause.
func (q *Queue) Resume(context.Context) error {
	if info, err := q.info(); err != nil || !info.Paused {
		return wrapped("resume", err)
	}
	return wrapped("resume", q.inspector.UnpauseQueue(q.name))
}

// Retry brings back at once what was put aside, and wakes workers: rows whose question
// failed, those behind a budget that is spent (their backlog closes again if it still is),
// and tokens that asynq would try again later. Rows behind an open breaker come back by
// the clock of the worker that has it. Tokens that asynq gave up are deleted; no row goes
// with them. It says how many rows came back.
func (q *Queue) Retry(ctx context.Context) (rows int, err error) {
	if rows, err = retryScript.Run(ctx, q.redis, q.keys()).Int(); err != nil {
		return 0, wrapped("retry", err)
	}
	if info, err := q.info(); err != nil || info.Queue == "" {
		return rows, errors.Join(wrapped("retry", err), q.pump(ctx))
	}
	_, err = q.inspector.RunAllRetryTasks(q.name)
	_, err2 := q.inspector.DeleteAllArchivedTasks(q.name)
	return rows, errors.Join(wrapped("retry", err), wrapped("retry", err2), q.pump(ctx))
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("asynqqueue: %s: %w", what, err)
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
