package asynqqueue

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Claim takes the hottest row, as a worker does that dies with it.
func (q *Queue) Claim(ctx context.Context) (memory.ID, bool, error) {
	c, err := q.claim(ctx, 1)
	if len(c) == 0 {
		return "", false, err
	}
	return c[0].id, true, err
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
