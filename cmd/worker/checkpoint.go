package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// signing makes signed checkpoints of the audit beside the checks of rows. A fault
// that may pass is logged and counted each time, and once no look has ended well
// for lateAfter intervals the worker is not ready. A fault for good ends the worker:
// nothing is to be promoted on a store whose audit does not hold.
type signing struct {
	maker *audit.Maker // nil = none are made
	every time.Duration
	log   *slog.Logger
	now   func() time.Time

	failures prometheus.Counter
	index    prometheus.Gauge
	looked   prometheus.Gauge

	mu    sync.Mutex
	since time.Time // of the last look that ended well; of the start, before the first
	at    uint64    // the newest checkpoint
	fault error     // of the last look
	over  bool      // no other look comes
}

const lateAfter = 3 // intervals

// lastPatience is how long the checkpoint at the end may take. Tests take more.
var lastPatience = 10 * time.Second

func newSigning(c checkpointConfig, store *memory.Store, witness *audit.Witness, registry prometheus.Registerer, log *slog.Logger) (*signing, error) {
	s := &signing{every: c.every, log: log, now: time.Now, since: time.Now()}
	if c.key == nil {
		return s, nil
	}
	s.failures = prometheus.NewCounter(prometheus.CounterOpts{Name: "hearsay_checkpoint_failures_total", Help: "Looks for changes of the audit that ended in an error."})
	s.index = prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearsay_checkpoint_index", Help: "The number of the newest signed checkpoint; 0 = none yet."})
	s.looked = prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearsay_checkpoint_looked_timestamp_seconds",
		Help: "When the audit was looked at last, and signed if it had changed; 0 = not yet."})
	registry.MustRegister(s.failures, s.index, s.looked)
	var err error
	s.maker, err = audit.NewMaker(store, c.key, c.origin, &audit.MakerOptions{Verifiers: c.verifiers, Witness: witness, Made: s.made, Report: s.failed})
	return s, err
}

// serve makes checkpoints until ctx ends. It returns the fault that ends it for good.
func (s *signing) serve(ctx context.Context) error {
	if s.maker == nil {
		return nil
	}
	s.log.Info("signing checkpoints", "every", s.every)
	err := s.maker.Serve(ctx, s.every)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("no more checkpoints can be made: %w", err)
	s.failures.Inc()
	s.mu.Lock()
	s.fault, s.over = err, true
	s.mu.Unlock()
	s.log.Error("checkpoints end, and with them the worker", "err", err)
	return err
}

// last commits to what was written since, so that a worker that is stopped leaves
// nothing unsigned. It does nothing after a fault for good, which was said.
func (s *signing) last(ctx context.Context) error {
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if s.maker == nil || over {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lastPatience)
	defer cancel()
	c, err := s.maker.Make(ctx)
	if err != nil {
		return fmt.Errorf("the checkpoint at the end: %w", err)
	}
	s.made(c)
	return nil
}

func (s *signing) made(c memory.Checkpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		s.log.Info("checkpoints are made again", "index", c.Index)
	}
	if c.Index > s.at {
		s.log.Info("checkpoint", "index", c.Index, "size", c.Size, "leaves", len(c.Leaves))
	}
	s.since, s.at, s.fault = s.now(), c.Index, nil
	s.index.Set(float64(c.Index))
	s.looked.SetToCurrentTime()
}

func (s *signing) failed(err error) {
	s.failures.Inc()
	s.log.Error("no checkpoint was made; it is tried again", "err", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = err
}

// ready is the line of /readyz.
func (s *signing) ready(now time.Time) check {
	c := check{Name: "checkpoints", OK: true}
	if s.maker == nil {
		c.Detail = "none are made: no -checkpoint-key"
		return c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Sub(s.since)
	c.Detail = fmt.Sprintf("number %d, looked at %s ago", s.at, age.Round(time.Second))
	if s.fault != nil {
		c.Detail += ": " + s.fault.Error()
	}
	c.OK = !s.over && age <= lateAfter*s.every
	return c
}
