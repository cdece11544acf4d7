package promotion

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// DefaultPublish is how often [Serve] says through the store how the sources of a worker are, if nothing changes.
const DefaultPublish = 2 * time.Minute

// leastPublish is how often that may be at most.
const leastPublish = 100 * time.Millisecond

// stateSeen is between two looks at whether a source went down, or came back.
const stateSeen = 5 * time.Second

// publish says through the store, until ctx ends, which sources the worker has and which of them are down. So
// agents label what they write meanwhile, and no worker parks rows that another one covers. Then it takes that
// back. What it says ends after three times the interval, so that nobody goes by a process that has died.
func (c *scope) publish(ctx context.Context) {
	w, every := c.worker, c.every
	process := w.opts.Name + ":" + rand.Text()
	if len(w.states()) == 0 {
		return
	}
	faults, at := 0, time.Time{}
	var said []memory.VerifierState
	repeat(ctx, nil, func() time.Duration {
		pause, states := min(every, stateSeen), w.states()
		if time.Since(at) < every && slices.EqualFunc(states, said, func(a, b memory.VerifierState) bool { return a.Down == b.Down }) {
			return pause
		}
		err := c.say(ctx, process, 3*every, states)
		if err == nil {
			at, said, faults = time.Now(), states, 0
			return pause
		}
		// That the store is not reached is logged elsewhere.
		if _, up := c.state(); up != nil && ctx.Err() == nil {
			faults++
		}
		if faults == 2 {
			w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "agents are not told which verifiers are down", slog.Any("error", err))
		}
		return pause
	})
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := w.store.PublishVerifiers(last, process, 0, nil); err != nil {
		w.opts.Logger.LogAttrs(last, slog.LevelDebug, "what was said of verifiers ends by itself", slog.Any("error", err))
	}
}

func (c *scope) say(ctx context.Context, process string, lease time.Duration, states []memory.VerifierState) error {
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	return c.store().PublishVerifiers(ctx, process, lease, states)
}

// states are those of the sources whose claims others can tell by their predicates.
func (w *Worker) states() (all []memory.VerifierState) {
	for i := range w.sources {
		if s := &w.sources[i]; len(all) < memory.MaxVerifiers && (s.Covers == nil || s.Any || len(s.Predicates) > 0) {
			all = append(all, memory.VerifierState{Name: s.Name, Predicates: s.Predicates, Down: s.state() != verifier.StateClosed, Advisory: s.observes || s.isAdvisory()})
		}
	}
	return all
}

// isAdvisory reports whether no claim waits for the source.
func (s *Source) isAdvisory() bool {
	return s.Advisory || s.Rank == memory.RankModel || s.Rank == memory.RankSecondModel
}
