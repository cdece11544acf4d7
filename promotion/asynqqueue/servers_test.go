package asynqqueue_test

import (
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// everywhere promotes rows over a Redis that a URL names, before and after a fault.
func everywhere(t *testing.T, url string, fault func() error) {
	t.Helper()
	r, err := localredis.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	w := newWorld(t, verifiertest.Supports())
	q := asynqqueue.New(r.Client, &asynqqueue.Options{Concurrency: 2})
	serve(t, q, w.worker)
	write := func(name string) (ids []memory.ID) {
		for i := range 20 {
			ids = append(ids, w.write(fmt.Sprint(name, i), memory.StateUnverified))
		}
		return ids
	}
	verified := func(ids []memory.ID) func() bool {
		return func() bool {
			w.trySweep(q) // which fails while nobody is there
			return w.all(memory.StateVerified, ids...)
		}
	}
	eventually(t, "all rows are verified", verified(write("before")))
	if err := fault(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all rows are verified again", verified(write("after")))
}

func TestTheQueueRunsOnACluster(t *testing.T) {
	t.Parallel()
	g, err := server.RedisCluster(t.Context(), 3, 0, server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { g.Stop() })
	everywhere(t, g.URL(), func() error { return nil })

	// The names of backlogs are made in scripts: they are where the other keys are.
	r, err := localredis.Open(t.Context(), g.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	client := asynqqueue.Patient(r.Client)
	t.Cleanup(func() { client.Close(); r.Close() })
	for i := range 4 { // of several slots
		q := newQueue(client, &asynqqueue.Options{Tenant: fmt.Sprint("tenant", i)})
		offer(t, q, promotion.Offer{ID: "a"}, promotion.Offer{ID: "b", Heat: 1})
		work(t, q, &refuses{})
		offer(t, q, promotion.Offer{ID: "a", Heat: 2})
		wantRows(t, q, 0, 0, 2)
		if n, err := q.Retry(t.Context()); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		wantClaims(t, q, 3, "a", "b")
	}
}

func TestTheQueueFollowsAMasterThatSentinelChanges(t *testing.T) {
	t.Parallel()
	g, err := server.RedisSentinel(t.Context(), 1, server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { g.Stop() })
	everywhere(t, g.URL(), func() error { return g.FailOver(t.Context(), 0) })
}
