package promotion

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// hand is a check that this process makes. If it waits for its store for long, and rows of other scopes wait for
// the same source, it is given back to the queue, unless it is the oldest of its scope.
type hand struct {
	share *share
	row   memory.ID
	end   context.CancelFunc

	// Guarded by the mu of the admission.
	since time.Time   // when it began to wait for the store; zero = it waits for something else
	watch *time.Timer // calls slow
}

// errSlow is the error of a check that is given back since its store is slow.
var errSlow = errors.New("the store of the row is slow, and rows of others wait")

// handled takes a check in hand: the queue has not lost it. end gives it back. It is nil if the store is slow,
// another check of the scope is made, and rows of other scopes wait.
func (s *share) handled(c Check, end context.CancelFunc) *hand {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		is.enqueued, is.moved, is.late = now, now, false
	}
	if len(s.hands) > 0 && now.Before(s.slowUntil) && s.othersWait() {
		return nil
	}
	h := &hand{share: s, row: c.Row, end: end, since: now}
	h.watch = time.AfterFunc(slowLook, h.slow)
	s.hands = append(s.hands, h)
	return h
}

// over is called when the check is made no more.
func (h *hand) over() {
	h.share.mu.Lock()
	defer h.share.mu.Unlock()
	h.since = time.Time{}
	h.watch.Stop()
	h.share.hands = slices.DeleteFunc(h.share.hands, func(o *hand) bool { return o == h })
}

// outside says that the check waits for something else than its store until over is called.
func (h *hand) outside() (over func()) {
	h.wait(time.Time{})
	return func() { h.wait(time.Now()) }
}

func (h *hand) wait(since time.Time) {
	h.share.mu.Lock()
	defer h.share.mu.Unlock()
	if h.since = since; since.IsZero() {
		h.watch.Stop()
	} else {
		h.watch.Reset(slowLook)
	}
}

// slow is called while the check waits for its store for long.
func (h *hand) slow() {
	s := h.share
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if h.since.IsZero() || now.Sub(h.since) < slowLook { // it has gone on
		return
	}
	s.slowUntil = now.Add(slowFor)
	if s.hands[0] != h && s.othersWait() {
		h.end()
		return
	}
	h.watch.Reset(lookEvery)
}

// othersWait reports whether a row of another scope waits for the source. The caller holds mu.
func (s *share) othersWait() bool {
	return slices.ContainsFunc(s.shares, func(o *share) bool {
		if o == s || o.away {
			return false
		}
		for id, c := range o.outstanding {
			if !c.late && !o.has(id) {
				return true
			}
		}
		return false
	})
}

// has reports whether this process makes a check of a row. The caller holds mu.
func (s *share) has(id memory.ID) bool {
	return slices.ContainsFunc(s.hands, func(h *hand) bool { return h.row == id })
}

// closed waits until the breaker of the source is closed. It reports whether it is.
func (h *hand) closed(inPlace context.Context) bool {
	defer h.outside()()
	for h.share.source.state() != verifier.StateClosed {
		if !waits(inPlace, stateEvery) {
			return false
		}
	}
	return true
}

// alone waits until no other check that may crash the process is made. It reports whether that is so; then done
// is to be called.
func (h *hand) alone(inPlace context.Context) (done func(), ok bool) {
	defer h.outside()()
	suspects := h.share.service.suspects
	if suspects.Acquire(inPlace, 1) != nil {
		return nil, false
	}
	return func() { suspects.Release(1) }, true
}

// waits is waits, for something else than the store.
func (h *hand) waits(inPlace context.Context, d time.Duration) bool {
	defer h.outside()()
	return waits(inPlace, d)
}
