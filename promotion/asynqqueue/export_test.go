package asynqqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
)

// Patient returns another client of the same server. It waits for each reply as long as that
// takes, and sends nothing twice: a script that claims or spends ran the first time too.
func Patient(client redis.UniversalClient) redis.UniversalClient {
	switch c := client.(type) {
	case *redis.Client:
		o := *c.Options()
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout, o.MaxRetries = -1, -1, time.Hour, -1
		return redis.NewClient(&o)
	case *redis.ClusterClient:
		o := *c.Options()
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = -1, -1, time.Hour
		return redis.NewClusterClient(&o)
	}
	panic("neither of one server nor of a Cluster")
}

// Claim takes the hottest row, as a worker does that dies with it.
func (q *Queue) Claim(ctx context.Context) (memory.ID, bool, error) {
	c, err := q.claim(ctx, 1)
	if len(c) == 0 {
		return "", false, err
	}
	return c[0].id, true, err
}

// Hold takes the hottest row. Renew renews the claim as a worker of another queue object
// does, and reports whether it is still held.
func (q *Queue) Hold(ctx context.Context) (renew func(*Queue) (held bool), err error) {
	c, err := q.claim(ctx, 1)
	held := len(c) == 1
	return func(q *Queue) bool {
		q.renew(ctx, c, []context.CancelFunc{func() { held = false }})
		return held
	}, err
}

// Pump does once what Serve does every quarter of a second.
func (q *Queue) Pump(ctx context.Context) error { return q.pump(ctx) }

// Kind is the task type.
func (q *Queue) Kind() string { return q.kind }

// ClaimMany takes the hottest rows, as a worker does that dies with them.
func (q *Queue) ClaimMany(ctx context.Context, most int) (ids []memory.ID, err error) {
	claims, err := q.claim(ctx, most)
	for _, c := range claims {
		ids = append(ids, c.id)
	}
	return ids, err
}

// TraceKey is where the links of rows are kept.
func (q *Queue) TraceKey() string { return q.trace }

// Work spends one token.
func (q *Queue) Work(ctx context.Context, c Checker) error {
	_, err := q.work(ctx, nil, c, tokenShare)
	return err
}

// LostKey is where lost claims are counted.
func (q *Queue) LostKey() string { return q.lost }
