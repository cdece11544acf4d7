package promotion

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// storeWait is how long something has waited for its store. mu is that of the admission.
type storeWait struct {
	mu    *sync.Mutex
	since time.Time // when the wait began; zero = it waits for something else
}

// isLong reports whether the store is slow. The caller holds mu.
func (w *storeWait) isLong(now time.Time) bool {
	return !w.since.IsZero() && now.Sub(w.since) >= slowLook
}

// outside says that something else than the store is waited for, until back is called.
func (w *storeWait) outside() (back func()) {
	w.begins(time.Time{})
	return func() { w.begins(time.Now()) }
}

// begins begins the wait anew; zero = it ends.
func (w *storeWait) begins(since time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = since
}

// hand is a check that this process makes. If it waits for its store for long, that store is slow. While other scopes
// need places of the same source, the checks of slow stores have half of them, and the others go back to the queue.
type hand struct {
	storeWait
	share *share
	row   memory.ID
	end   context.CancelFunc
	long  bool // it has waited for long. Guarded by mu
}

// slowStore is the error of a check that is given back since its store is slow.
type slowStore struct{}

func (slowStore) Error() string { return "the store of the row is slow, and others need the places" }

// ComeBackAfter says when the check comes back. Many checks that come back each second would keep the queue busy.
func (slowStore) ComeBackAfter() time.Duration { return 4*time.Second + rand.N(2*time.Second) }

// handled takes a check in hand. end gives it back. It is nil if the check is to go back at once, since its store is slow.
func (s *share) handled(c Check, end context.CancelFunc) *hand {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slow && s.crowded(now, 1) && !s.tries(now) {
		return nil
	}
	h := &hand{storeWait: storeWait{&s.mu, now}, share: s, row: c.Row, end: end}
	s.hands = append(s.hands, h)
	if s.unwatched {
		s.unwatched = false
		wake(s.watched)
	}
	return h
}

// Times between checks that are made beside the half, to see whether a slow store is fast again.
const (
	tryEvery = 4 * time.Second // of one source
	tryAgain = time.Minute     // of one scope and source
)

// tries reports whether a check is made although the slow stores have their half of the places. The caller holds mu.
func (s *share) tries(now time.Time) bool {
	if len(s.hands) > 0 || now.Sub(s.triedAny) < tryEvery || now.Sub(s.tried) < tryAgain {
		return false
	}
	s.triedAny, s.tried = now, now
	return true
}

// over is called when the check is made no more. ended says that its store has answered.
func (h *hand) over(ended bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop()
	if ended && !h.long && !slices.ContainsFunc(h.share.hands, func(o *hand) bool { return o.long }) {
		h.share.slow, h.share.told = false, false
	}
}

// drop forgets the check. The caller holds mu.
func (h *hand) drop() {
	h.share.hands = slices.DeleteFunc(h.share.hands, func(o *hand) bool { return o == h })
}

// watch sees, until ctx ends, which stores are slow.
func (a *admission) watch(ctx context.Context) {
	repeat(ctx, a.watched, func() time.Duration {
		s, pause := a.relieve(time.Now())
		if s != nil {
			s.scope.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the store is slow: its checks have half of the places while others need some",
				slog.String("namespace", s.scope.store().Namespace()), slog.String("verifier", a.name))
		}
		return pause
	})
}

// relieve gives back checks that have waited for their stores for long, while others need their places. It returns a
// share of which it is to be logged that its store is slow, and how long it is to the next look. It is one a minute, of
// which that was logged longest ago: a store that is slow every now and then hides no other.
func (a *admission) relieve(now time.Time) (tell *share, pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var long []*hand
	a.unwatched = true
	for _, s := range a.shares {
		for _, h := range s.hands {
			if a.unwatched = false; !h.isLong(now) {
				continue
			}
			long = append(long, h)
			h.long, s.slow = true, true
		}
		if s.slow && !s.told && (tell == nil || s.toldAt.Before(tell.toldAt)) {
			tell = s
		}
	}
	if tell != nil && now.Sub(a.slowTold) < outageEvery {
		tell = nil
	}
	if tell != nil {
		tell.told, tell.toldAt, a.slowTold = true, now, now
	}
	for _, h := range long {
		if !a.crowded(now, 0) {
			break
		}
		h.drop()
		h.end()
	}
	if a.unwatched { // a check wakes it
		return tell, mostIdle
	}
	return tell, lookEvery
}

// crowded reports whether checks of slow stores, with so many more of them, have more than half of the places, and
// another scope needs some. The caller holds mu.
func (a *admission) crowded(now time.Time, more int) bool {
	needed := false
	for _, s := range a.shares {
		if s.slow {
			more += len(s.hands)
		} else {
			needed = needed || s.needsPlaces(now)
		}
	}
	return needed && more > max(a.places/2, 1)
}

// needsPlaces reports whether checks of the share wait for a place, or may do so in a moment. The caller holds mu.
func (s *share) needsPlaces(now time.Time) bool {
	if s.away {
		return false
	}
	if now.Sub(s.ended) < busyFor {
		return true
	}
	for id, c := range s.outstanding {
		if !c.late && !s.has(id) {
			return true
		}
	}
	return false
}

// busyFor is for how long a scope may need places again after a check of it has ended. Places that slow stores leave alone
// meanwhile need no check to be given back, whose question would be asked in vain.
const busyFor = 10 * time.Second

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

// alone returns an [asking.enter] of a question that may crash the process: no other is asked meanwhile. It is refused if
// another such question is under way for longer than inPlace lasts. If the store is slow, the others come first.
func (h *hand) alone(ctx, inPlace context.Context) func() (leave func(), err error) {
	suspects, enter := h.share.service.suspects, h.share.service.enter(ctx, allPlaces)
	return func() (func(), error) {
		h.mu.Lock()
		slow := h.share.slow
		h.mu.Unlock()
		if slow && !suspects.TryAcquire(1) || !slow && suspects.Acquire(inPlace, 1) != nil {
			return nil, refusedSuspect
		}
		leave, err := enter()
		if err != nil {
			suspects.Release(1)
			return nil, err
		}
		both := func() { leave(); suspects.Release(1) }
		if h.share.source.isFull() { // of other questions than those of checks; all checks would wait with this one
			both()
			return nil, later{refusedOpen}
		}
		return both, nil
	}
}
