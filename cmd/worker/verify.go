package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// examining verifies all that is stored, again and again, beside the checks of rows: a
// share each minute, all of it within an interval. Rows that it finds changed are
// recorded as damaged, so that no process lets a call fire on them, and the worker is
// not ready until a verification finds nothing.
type examining struct {
	store   *memory.Store
	options audit.Options
	every   time.Duration // 0 = never
	log     *slog.Logger
	now     func() time.Time
	wait    func(context.Context, time.Duration) error

	found    prometheus.Gauge
	ended    prometheus.Gauge
	failures prometheus.Counter

	mu    sync.Mutex
	last  time.Time // of the last one that ended; zero before the first
	total int       // entries and objects of it
	bad   int       // what it found
	first string    // and the first thing
	fault error     // why the last one did not end
}

const (
	// leastShare is what is read in a minute at least: a worker that is often started
	// anew comes to the end of a store of some million entries all the same.
	leastShare = 50_000
	// againAfter is how long after a verification that did not end another one begins.
	againAfter = time.Minute
)

func newExamining(c *config, store *memory.Store, witness *audit.Witness, registry prometheus.Registerer, log *slog.Logger) *examining {
	x := &examining{store: store, every: c.verifyEvery, log: log, now: time.Now, wait: pause,
		options: audit.Options{Verifiers: c.checkpoints.verifiers, Witness: witness},
		found:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearsay_verify_found", Help: "What the last verification found that is not what was written."}),
		ended: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearsay_verify_ended_timestamp_seconds",
			Help: "When all that is stored was verified last; 0 = not yet."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "hearsay_verify_failures_total", Help: "Verifications that did not come to an end."})}
	registry.MustRegister(x.found, x.ended, x.failures)
	return x
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// serve verifies until ctx ends.
func (x *examining) serve(ctx context.Context) {
	for x.every > 0 && ctx.Err() == nil {
		begun := x.now()
		err := x.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			x.failures.Inc()
			x.log.Error("the store could not be verified; it is tried again", "err", err)
			x.mu.Lock()
			x.fault = err
			x.mu.Unlock()
			err = x.wait(ctx, min(againAfter, x.every))
		default:
			err = x.wait(ctx, max(x.every-x.now().Sub(begun), 0))
		}
		if err != nil {
			return
		}
	}
}

// share is how much is read in a minute: all of it in half of the interval.
func (x *examining) share() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return max(leastShare, 2*x.total*int(time.Minute)/int(max(x.every, time.Minute)))
}

// once verifies all that is stored, and records which rows are damaged.
func (x *examining) once(ctx context.Context) error {
	share, read, begun := x.share(), 0, x.now()
	count, first := 0, ""
	var rows []memory.ID
	o := x.options
	o.Pause = func(ctx context.Context, n int) error {
		read = n
		due := time.Duration(n) * time.Minute / time.Duration(share)
		if ahead := due - x.now().Sub(begun); ahead > time.Second {
			return x.wait(ctx, ahead)
		}
		return ctx.Err()
	}
	o.Found = func(err error) error {
		if count++; count == 1 {
			first = err.Error()
		}
		const named = 20 // the others are counted
		if count <= named {
			x.log.Error("what is stored is not what was written", "found", err)
		}
		var at *memory.TamperError
		if errors.As(err, &at) {
			if id := memory.RowOfKey(at.Key); id != "" && len(rows) < memory.MaxDamaged {
				rows = append(rows, id)
			}
		}
		return nil
	}
	var err error
	if len(o.Verifiers) > 0 {
		_, err = audit.Verify(ctx, x.store, o)
	} else { // who has no keys of checkpoints cannot verify them
		_, err = x.store.VerifyAll(ctx, memory.Verifying{Found: o.Found, Pause: o.Pause})
	}
	var found *audit.FoundError
	if err != nil && !errors.As(err, &found) {
		return err
	}
	if len(rows) > 0 {
		if err := x.store.MarkDamaged(ctx, "worker", "a verification found it changed", rows...); err != nil {
			return fmt.Errorf("%d damaged rows could not be recorded: %w", len(rows), err)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.total, x.bad, x.first, x.fault = x.now(), read, count, first, nil
	x.found.Set(float64(count))
	x.ended.Set(float64(x.last.Unix()))
	return nil
}

// ready is the line of /readyz.
func (x *examining) ready(now time.Time) check {
	c := check{Name: "verification", OK: true}
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.every <= 0:
		c.Detail = "none in the background: -verify-every 0"
	case x.bad > 0:
		c.OK = false
		c.Detail = fmt.Sprintf("%d things are not what was written, %s ago; the first: %s; hearsay audit verify names them all", x.bad, now.Sub(x.last).Round(time.Second), x.first)
	case x.last.IsZero():
		c.Detail = "the first one is under way"
	default:
		c.Detail = fmt.Sprintf("held %s ago", now.Sub(x.last).Round(time.Second))
	}
	if x.fault != nil {
		c.Detail += "; the last one did not end: " + x.fault.Error()
	}
	return c
}
