package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// readsOf lets somebody write two objects that lie in different hashes together, and
// reads them among three thousand others meanwhile: both must be of one moment.
func readsOf(t *testing.T, d *redisstore.Driver, reads int) {
	t.Helper()
	const first, last = "a/object", "z/object"
	keys := []string{first}
	var b memory.Batch
	for i := range 3000 {
		keys = append(keys, fmt.Sprintf("%d/row_%08d", i%100, i))
		b.Puts = append(b.Puts, memory.Put{Key: keys[i+1], Data: make([]byte, 100)})
	}
	keys = append(keys, last)
	apply(t, d, b)
	ctx, stop := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	written := uint64(0)
	writer.Go(func() {
		for ; ctx.Err() == nil; written++ {
			// The caller stops between two batches, never within one.
			if err := d.Apply(t.Context(), "tenant", memory.Batch{Puts: []memory.Put{{Key: first, From: written, Data: []byte("x")}, {Key: last, From: written, Data: []byte("x")}}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	moved := map[uint64]bool{}
	for range reads {
		objects, err := d.Get(t.Context(), "tenant", keys)
		if err != nil {
			t.Error(err)
			break
		}
		one, other := objects[0].Revision, objects[len(objects)-1].Revision
		moved[one] = true
		if one != other {
			t.Errorf("one object is at %d, and the other at %d", one, other)
			break
		}
	}
	stop()
	writer.Wait()
	t.Logf("%d reads of 3,002 objects met %d of %d batches", reads, len(moved), written)
	if len(moved) < 2 {
		t.Error("nothing was written meanwhile")
	}
}

// A large read is sent without a transaction first, and the server says afterwards
// whether it was of one moment. Delete the "watch" and it is not.
func TestALargeReadIsOfOneMoment(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	const reads = 100
	readsOf(t, opened(t, s.URL(), nil), reads)
	again := executed(t, s) - reads
	t.Logf("%d were asked again in a transaction", again)
	if again <= 0 {
		t.Error("no read was asked again")
	}
}

func TestALargeReadOnAClusterIsOfOneMoment(t *testing.T) {
	t.Parallel()
	readsOf(t, open(t, anyCluster(t), fresh()), 50)
}

func TestAUserWhoMayNotWatchReadsInATransaction(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	do(t, s, "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-watch")
	// What was in vain is not tried again with the next sixteen reads.
	const reads, tries = 34, 2
	readsOf(t, opened(t, "redis://blind:pw@"+s.Addr, nil), reads)
	found := regexp.MustCompile(`cmdstat_watch:\S*rejected_calls=(\d+)`).FindStringSubmatch(do(t, s, "INFO", "commandstats"))
	if found == nil || found[1] != strconv.Itoa(tries) {
		t.Errorf("%d large reads were first sent without a transaction so often: %v, want %d", reads, found, tries)
	}
}

// executed is how many transactions a server has run.
func executed(t *testing.T, s *server.RedisServer) int {
	t.Helper()
	found := regexp.MustCompile(`cmdstat_exec:calls=(\d+)`).FindStringSubmatch(do(t, s, "INFO", "commandstats"))
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
