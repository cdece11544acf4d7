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

// stateSeen is between two looks at whether a source went down, or came back.
const stateSeen = time.Second

// publish says through the store, until ctx ends, which sources the worker has and which of them are down, so
// that agents label what they write meanwhile, and no worker parks rows that another one covers. Then it takes
// that back. What it says ends after three times the interval, so that nobody goes by a process that has died.
func (c *scope) publish(ctx context.Context) error {
	w, every := c.worker, c.every
	process := w.opts.Name[:min(len(w.opts.Name), memory.MaxField/2)] + ":" + rand.Text()
	if len(w.states()) == 0 {
		return nil
	}
	t := time.NewTicker(min(every, stateSeen))
	defer t.Stop()
	var said []memory.VerifierState
	for at := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			if err := w.store.PublishVerifiers(last, process, 0, nil); err != nil {
				w.opts.Logger.LogAttrs(last, slog.LevelDebug, "what was said of verifiers ends by itself", slog.Any("error", err))
			}
			return nil
		case <-t.C:
		}
		states := w.states()
		if time.Since(at) < every && slices.EqualFunc(states, said, func(a, b memory.VerifierState) bool { return a.Down == b.Down }) {
			continue
		}
		err := w.store.PublishVerifiers(ctx, process, min(3*every, memory.MaxLease), states)
		if _, up := c.state(); err != nil && up != nil && ctx.Err() == nil && w.first("publish") {
			w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "agents are not told which verifiers are down", slog.Any("error", err))
		}
		if err == nil {
			at, said = time.Now(), states
		}
	}
}

// states are those of the sources whose claims others can tell by their predicates.
func (w *Worker) states() (all []memory.VerifierState) {
	for i := range w.sources {
		if s := &w.sources[i]; len(all) < memory.MaxVerifiers && (s.Covers == nil || len(s.Predicates) > 0) {
			all = append(all, memory.VerifierState{Name: s.Name, Predicates: s.Predicates, Down: s.state() != verifier.StateClosed, Advisory: s.observes || s.isModel()})
		}
	}
	return all
}

// isModel reports whether the source is a model, for which no claim waits.
func (s *Source) isModel() bool {
	return s.Rank == memory.RankModel || s.Rank == memory.RankSecondModel
}
