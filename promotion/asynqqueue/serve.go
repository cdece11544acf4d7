package asynqqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// Share is one of several queues that a process serves.
type Share struct {
	Queue   *Queue
	Checker Checker // of the rows of this queue
	// Weight is the part of the process that the queue gets while all have rows
	// waiting: of weights 3 and 1 three quarters of the time of its places, on average, and
	// one quarter, also where the checks of one take longer. A queue that is empty leaves
	// its part to the others. 1 or more.
	Weight int
}

// Serve works on the queue until ctx ends. Then it takes no further row, lets the
// checks under way end, for ShutdownTimeout at most, and returns. It blocks.
// The Redis client is closed after that and not before: asynq 0.26 panics otherwise.
func (q *Queue) Serve(ctx context.Context, c Checker) error {
	return ServeShares(ctx, []Share{{Queue: q, Checker: c, Weight: 1}})
}

// ServeShares works on several queues, of tenants or namespaces, as [Queue.Serve] works
// on one, so that none of them starves another. All must be over the same Redis client.
// Concurrency, ShutdownTimeout and Logger are those of the first queue, for all together.
func ServeShares(ctx context.Context, shares []Share) error {
	byName, err := weigh(shares)
	if err != nil {
		return err
	}
	first := shares[0].Queue
	lasts := tokenShare
	if len(shares) > 1 {
		lasts = tokenTurn
	}
	names := map[string]int{}
	for name := range byName {
		names[name] = 1 // asynq draws a token; whose turn it is then is for turns to say
	}
	all := turns{shares: slices.Collect(maps.Values(byName)), counted: time.Now()}
	server := asynq.NewServerFromRedisClient(first.redis, asynq.Config{
		Concurrency: first.opts.Concurrency, Queues: names, IsFailure: isFailure, RetryDelayFunc: retryDelay,
		TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 500 * time.Millisecond,
		ShutdownTimeout: first.opts.ShutdownTimeout, Logger: quiet{first.opts.Logger}, LogLevel: asynq.WarnLevel,
	})
	places := make(chan struct{}, first.opts.Concurrency)
	// spend works in one place until no rows of any queue wait, or some were taken. Those
	// of own wait: a token said so.
	spend := func(checks context.Context, own *turn) (took int, err error) {
		for ctx.Err() == nil {
			s := all.begin(own)
			if s == nil {
				break
			}
			if took, err = all.give(s, func() (int, error) { return s.Queue.work(checks, ctx.Done(), s.Checker, lasts) }); took > 0 || err != nil {
				return took, err
			}
			own = nil // that its rows wait is known no more
		}
		return 0, nil
	}
	if err := server.Start(asynq.HandlerFunc(func(token context.Context, t *asynq.Task) error {
		name, _ := asynq.GetQueueName(token)
		own, ok := byName[name]
		if !ok || t.Type() != own.Queue.kind { // ServeMux would match by prefix
			return fmt.Errorf("asynqqueue: task of type %q: %w", t.Type(), asynq.SkipRetry)
		}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			_, err := spend(token, own)
			return err
		case <-token.Done():
		case <-ctx.Done():
		}
		return nil
	})); err != nil {
		return fmt.Errorf("asynqqueue: %w", err)
	}
	// Tokens wake whoever is quickest, which may be a process to which the backlog is closed
	// whose rows wait. So each sees for itself after each pump.
	checks, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	var looking sync.WaitGroup
	var failed atomic.Int64 // pumps until the next look, after one that failed
	look := func() {
		if failed.Add(-1) >= 0 {
			return
		}
		failed.Store(0)
		for range all.wait() {
			select {
			case places <- struct{}{}:
			default:
				return
			}
			looking.Go(func() {
				defer func() { <-places }()
				bounded, end := context.WithTimeout(checks, tokenTimeout)
				defer end()
				took, err := 1, error(nil)
				defer func() {
					if recover() != nil || err != nil {
						failed.Store(pumpsAfterFault)
					}
				}()
				for began := time.Now(); took > 0 && err == nil && time.Since(began) < tokenShare; {
					took, err = spend(bounded, nil)
				}
			})
		}
	}
	t := time.NewTimer(0)
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
		look()
		// Not in step with other processes: else the same one would see first each time what
		// came back.
		t.Reset(pumpEvery/2 + rand.N(pumpEvery/2))
		select {
		case <-ctx.Done():
			late := time.After(first.opts.ShutdownTimeout + pumpEvery)
			time.AfterFunc(first.opts.ShutdownTimeout, cut)
			server.Shutdown()
			ended := make(chan struct{})
			go func() {
				looking.Wait()
				close(ended)
			}()
			select {
			case <-ended:
			case <-late: // a check is deaf; its claim runs out
			}
			return nil
		case <-t.C:
		}
	}
}

// turns gives the places of a process to queues: each time to the one that used them
// least for its weight, of those that have rows waiting. Time counts, and not how often
// it was a queue's turn: a turn lasts as long as its last check.
type turns struct {
	mu      sync.Mutex
	shares  []*turn
	counted time.Time     // until when the times are counted
	now     time.Duration // what the one that was taken last had used
}

type turn struct {
	Share
	places int           // that it has now
	used   time.Duration // the time of places that it had, for one unit of weight
}

// begin takes a place for a queue, nil if no rows wait. Those of token wait, if it is not
// nil: it woke the worker.
func (t *turns) begin(token *turn) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count()
	var next *turn
	for _, s := range t.shares {
		waits := s == token || s.Queue.waits.Load() > 0
		switch {
		case !waits && s.places == 0: // what it leaves to the others is not owed to it
			s.used = max(s.used, t.now)
		case waits && !s.Queue.paused.Load() && (next == nil || s.used < next.used):
			next = s
		}
	}
	if next != nil {
		t.now = max(t.now, next.used)
		next.places++
	}
	return next
}

// wait counts the rows that can be taken, as of the last pumps.
func (t *turns) wait() (rows int64) {
	for _, s := range t.shares {
		if !s.Queue.paused.Load() {
			rows += s.Queue.waits.Load()
		}
	}
	return rows
}

// give has a queue work in its place, and takes the place back.
func (t *turns) give(s *turn, work func() (int, error)) (int, error) {
	defer func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.count()
		s.places--
	}()
	return work()
}

func (t *turns) count() {
	now := time.Now()
	for _, s := range t.shares {
		s.used += now.Sub(t.counted) * time.Duration(s.places) / time.Duration(s.Weight)
	}
	t.counted = now
}

// weigh checks shares, and gives them by asynq's names.
func weigh(shares []Share) (byName map[string]*turn, err error) {
	if len(shares) == 0 {
		return nil, errors.New("asynqqueue: shares: no queue to serve")
	}
	byName = map[string]*turn{}
	for i, s := range shares {
		switch {
		case s.Queue == nil || s.Checker == nil:
			return nil, fmt.Errorf("asynqqueue: share %d: no Queue or no Checker", i)
		case s.Weight < 1:
			return nil, fmt.Errorf("asynqqueue: share %d: Weight is %d, want 1 or more", i, s.Weight)
		case s.Queue.redis != shares[0].Queue.redis:
			return nil, fmt.Errorf("asynqqueue: share %d: Queue is over another Redis client", i)
		case byName[s.Queue.name] != nil:
			return nil, fmt.Errorf("asynqqueue: share %d: Queue %s is served already", i, s.Queue.name)
		}
		byName[s.Queue.name] = &turn{Share: s}
	}
	return byName, nil
}
