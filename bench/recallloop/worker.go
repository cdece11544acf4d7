package recallloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// running is the promotion side of a replay: worker, sweep and heat on a queue of
// their own.
type running struct {
	reads  *promotion.Heater
	queue  string
	cancel context.CancelFunc
	ended  chan error
	parts  int
	redis  *localredis.Redis
	store  *memory.Store
	sweep  *promotion.Sweeper
}

// startWorker starts it. The system of record knows the facts, and is asked
// blind; it knows nothing about editors.
func startWorker(ctx context.Context, store *memory.Store, facts []Fact, clock *clock, logger *slog.Logger) (*running, error) {
	record := map[[2]string]string{}
	for _, f := range facts {
		record[[2]string{f.Subject, f.Predicate}] = f.Object
	}
	ask := func(_ context.Context, q verifier.Question) (verifier.Answer, error) {
		v, ok := record[[2]string{q.Subject, q.Predicate}]
		return verifier.Answer{Found: ok, Value: v, URI: "record:" + q.Subject}, nil
	}
	source := promotion.Source{Name: "crm", Rank: memory.RankTool, Covers: memory.Content.Typed,
		Verifier: verifier.WithBreaker("crm", verifier.NewTool("crm", ask, &verifier.ToolOptions{Clock: clock.Now}), nil)}
	worker, err := promotion.NewWorker(store, []promotion.Source{source}, &promotion.Options{Budget: -1, Logger: logger})
	if err != nil {
		return nil, err
	}
	redis, err := localredis.Open(ctx, "", &localredis.Options{Logger: logger})
	if err != nil {
		return nil, err
	}
	queue := asynqqueue.New(redis.Client, &asynqqueue.Options{Concurrency: 2, Logger: logger})
	ctx, cancel := context.WithCancel(ctx)
	r := &running{reads: promotion.NewHeater(store, queue, logger), queue: string(redis.Kind), cancel: cancel, ended: make(chan error, 3), redis: redis,
		store: store, sweep: promotion.NewSweeper(store, queue, 500*time.Millisecond, logger)}
	for _, serve := range []func(context.Context) error{
		func(ctx context.Context) error { return queue.Serve(ctx, worker) },
		r.sweep.Serve, r.reads.Serve,
	} {
		r.parts++
		go func() { r.ended <- serve(ctx) }()
	}
	return r, nil
}

// settleWithin bounds how long the worker may take to verify the facts.
const settleWithin = 5 * time.Minute

// settle waits until so many rows are verified.
func (r *running) settle(ctx context.Context, want int) error {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		n := 0
		for _, err := range r.store.Rows(ctx, memory.Filter{State: memory.StateVerified}) {
			if err != nil {
				return err
			}
			n++
		}
		if n >= want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the worker verified %d of %d facts in %s", n, want, settleWithin)
		case <-t.C:
		}
	}
}

func (r *running) stop() error {
	r.cancel()
	var err error
	for range r.parts {
		err = errors.Join(err, <-r.ended)
	}
	return errors.Join(err, r.redis.Close())
}
