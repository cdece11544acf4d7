package redisstore_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/redis/go-redis/v9"
)

// BenchmarkBare is what the server and the client take for reads and writes like
// those of Get20 and Transition, without a store: what the driver is held against.
func BenchmarkBare(b *testing.B) {
	s := own(b, server.RedisOptions{Settings: []string{"appendfsync everysec"}})
	c := redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, ContextTimeoutEnabled: true})
	b.Cleanup(func() { c.Close() })
	const objects = 10_000
	key := func(i int) string { return fmt.Sprintf("object:head/row_%016x%016x", i, i) }
	for i := range objects {
		if err := c.Set(b.Context(), key(i), make([]byte, 350), 0).Err(); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("MGet20", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			keys := make([]string, 20)
			for i := range keys {
				keys[i] = key(rand.IntN(objects))
			}
			if err := c.MGet(b.Context(), keys...).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Transition", func(b *testing.B) {
		b.ReportAllocs()
		script := redis.NewScript(`
			for i = 1, 5 do redis.call('GETRANGE', KEYS[i], 0, 7) end
			redis.call('SET', KEYS[4], ARGV[1])
			redis.call('SET', KEYS[5], ARGV[1])
			redis.call('RPUSH', KEYS[6], ARGV[1])
			for i = 7, 9 do redis.call('ZREM', KEYS[i], ARGV[2]) end
			for i = 7, 10 do redis.call('ZADD', KEYS[i], 0, ARGV[3]) end
			return 0`)
		data := make([]byte, 400)
		for i := 0; b.Loop(); i++ {
			keys := []string{"sys/epoch", "claim/1", "ident/1", key(i % objects), "due" + key(i%objects), "log" + key(i%objects), "a", "b", "c", "d"}
			if err := script.Run(b.Context(), c, keys, data, key(i-1), key(i)).Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
