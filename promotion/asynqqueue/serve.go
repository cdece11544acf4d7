package asynqqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"
)

// Share is one of several queues that a process serves.
type Share struct {
	Queue   *Queue
	Checker Checker // of the rows of this queue
	// Weight is the part of the process that the queue gets while all have rows
	// waiting: of weights 3 and 1 three quarters of the time, on average, and one quarter.
	// A queue that is empty leaves its part to the others. 1 or more.
	Weight int
}

// Serve works on the queue until ctx ends. Then it takes no further row, lets the
// checks under way end, for ShutdownTimeout at most, and returns. It blocks.
func (q *Queue) Serve(ctx context.Context, c Checker) error {
	return ServeShares(ctx, []Share{{Queue: q, Checker: c, Weight: 1}})
}

// ServeShares works on several queues, of tenants or namespaces, as [Queue.Serve] works
// on one, so that none of them starves another. All must be over the same Redis client.
// Concurrency, ShutdownTimeout and Logger are those of the first queue, for all together.
func ServeShares(ctx context.Context, shares []Share) error {
	byName, weights, err := weigh(shares)
	if err != nil {
		return err
	}
	first := shares[0].Queue
	turn := tokenShare
	if len(shares) > 1 {
		turn = tokenTurn
	}
	server := asynq.NewServerFromRedisClient(first.redis, asynq.Config{
		Concurrency: first.opts.Concurrency, Queues: weights, IsFailure: isFailure, RetryDelayFunc: retryDelay,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 500 * time.Millisecond,
		ShutdownTimeout: first.opts.ShutdownTimeout, Logger: quiet{first.opts.Logger}, LogLevel: asynq.WarnLevel,
	})
	if err := server.Start(asynq.HandlerFunc(func(token context.Context, t *asynq.Task) error {
		name, _ := asynq.GetQueueName(token)
		s, ok := byName[name]
		if !ok || t.Type() != s.Queue.kind { // ServeMux would match by prefix
			return fmt.Errorf("asynqqueue: task of type %q: %w", t.Type(), asynq.SkipRetry)
		}
		return s.Queue.work(token, ctx.Done(), s.Checker, turn)
	})); err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	t := time.NewTicker(pumpEvery)
	defer t.Stop()
	reached := true
	for {
		var errs []error
		for _, s := range shares {
			errs = append(errs, s.Queue.pump(ctx))
		}
		err := errors.Join(errs...)
		switch {
		case ctx.Err() != nil:
		case err != nil && reached: // said once, not four times a second
			first.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "queue is not reached", slog.Any("error", err))
		case err == nil && !reached:
			first.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "queue is reached again")
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

// weigh checks shares, and gives them to asynq's names.
func weigh(shares []Share) (byName map[string]Share, weights map[string]int, err error) {
	if len(shares) == 0 {
		return nil, nil, errors.New("asynqqueue: shares: no queue to serve")
	}
	byName, weights = map[string]Share{}, map[string]int{}
	for i, s := range shares {
		switch {
		case s.Queue == nil || s.Checker == nil:
			return nil, nil, fmt.Errorf("asynqqueue: share %d: no Queue or no Checker", i)
		case s.Weight < 1:
			return nil, nil, fmt.Errorf("asynqqueue: share %d: Weight is %d, want 1 or more", i, s.Weight)
		case s.Queue.redis != shares[0].Queue.redis:
			return nil, nil, fmt.Errorf("asynqqueue: share %d: Queue is over another Redis client", i)
		case weights[s.Queue.name] > 0:
			return nil, nil, fmt.Errorf("asynqqueue: share %d: Queue %s is served already", i, s.Queue.name)
		}
		byName[s.Queue.name], weights[s.Queue.name] = s, s.Weight
	}
	return byName, weights, nil
}
