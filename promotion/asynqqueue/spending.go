package asynqqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// spendScript counts one question in the tick of a source, which begins with its first question, by
// the clock of Redis. It returns 0, or the rest of a tick whose budget is spent.
var spendScript = redis.NewScript(redisNow + `
local name, budget, tick = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local n = tonumber(redis.call('HGET', KEYS[1], 'n:' .. name) or '0')
local till = tonumber(redis.call('HGET', KEYS[1], 'till:' .. name) or '0')
if now >= till or till > now + tick then
  n, till = 0, now + tick
end
if n >= budget then return till - now end
redis.call('HSET', KEYS[1], 'n:' .. name, n + 1, 'till:' .. name, string.format('%.0f', till))
return 0`)

// Spend implements [promotion.Spending] for all workers of the scope: they share the
// budget of a verifier by its name, in one round trip a question, and a worker that starts
// anew gets no new one. A Redis that was wiped has forgotten this tick's.
func (q *Queue) Spend(ctx context.Context, source string, budget int, tick time.Duration) (time.Duration, error) {
	ms, err := spendScript.Run(ctx, q.redis, []string{q.spent}, source, budget, max(tick.Milliseconds(), 1)).Int64()
	return time.Duration(ms) * time.Millisecond, wrapped("spend", err)
}
