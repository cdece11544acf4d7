package promotion

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Times and limits of an admission.
const (
	rateOver            = 200 * time.Millisecond // what came to an end in it can be outstanding beside what the places hold
	lookEvery           = 250 * time.Millisecond // between two looks at most, while there is something to do; half as long at least
	mostIdle            = 30 * time.Second       // between two looks at most while there is not: each pause is twice as long as the last
	afterFault          = time.Second            // between two looks, if the first of them failed, or the source is paused
	mostLook            = 10 * time.Second       // that a look waits for a store: it holds up other scopes
	mostList            = 30 * time.Second       // that the list of a scope takes
	enqueueAgain        = 30 * time.Second       // after which a row that is still due is enqueued again
	strandedFor         = 5 * time.Minute        // after which a task that nobody ever takes is given up
	unparkedFor         = 10 * time.Minute       // until a row that can be neither checked nor parked is enqueued again
	restOfLooks         = 20                     // a list that was read in vain is read again after so many times what that took
	mostDrawn           = 10_000                 // rows from which one is drawn to probe with
	mostUncovered       = time.Hour              // after which a row that nobody covers is parked
	mostUncoveredLooked = 10_000                 // rows that are looked at for that, each time
	firstPage           = 16                     // rows that are read at first to see which sources cover them
	mostPage            = 512                    // and at most
)

// admission keeps the checks of one source that are to be made next in a queue. The rows are those of all
// scopes.
type admission struct {
	name    string // of the source
	queue   CheckQueue
	places  int
	making  *semaphore.Weighted
	longest time.Duration // that a source takes to answer
	shares  []*share
	freed   chan struct{} // half of the room is free, or rows are due
	probes  sync.WaitGroup

	// Used by looks alone.
	turn   int  // the share whose turn it is
	faults int  // shares whose store was not reached
	fault  bool // the queue was not reached

	mu      sync.Mutex
	ends    []time.Time // of checks, in the last rateOver
	probing bool        // a share probes the source
}

// errUnqueued is the error of a queue that is not reached.
type errUnqueued struct{ error }

func (e errUnqueued) Unwrap() error { return e.error }

// serve looks until ctx ends.
func (a *admission) serve(ctx context.Context) {
	defer a.probes.Wait()
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-a.freed:
		}
		pause := afterFault
		err := a.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if fault := err != nil; fault != a.fault {
			a.fault = fault
			a.shares[0].tell(ctx, err)
		}
		if err == nil {
			pause = a.pause()
		}
		t.Reset(pause)
	}
}

// pause is how long it is to the next look.
func (a *admission) pause() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := mostIdle
	for _, s := range a.shares {
		pause = min(pause, time.Until(s.next))
	}
	return max(pause, time.Millisecond)
}

// look sees which checks have come to an end, and enqueues others. The error is one of the queue.
func (a *admission) look(ctx context.Context) error {
	if paused, err := a.queue.Paused(ctx, a.name); err != nil || paused {
		a.rest()
		return err
	}
	ready := map[*share]*list{}
	defer func() {
		for _, l := range ready {
			l.stop()
		}
	}()
	first := rand.IntN(len(a.shares)) // if all of them may probe, the one that does is drawn
	for i := range a.shares {
		s := a.shares[(first+i)%len(a.shares)]
		if !s.isDue() {
			continue
		}
		began := time.Now()
		due, err := s.look(ctx)
		if errors.As(err, &errUnqueued{}) || ctx.Err() != nil {
			return err
		}
		switch {
		case err != nil:
			s.note(ctx, err, time.Since(began))
		case due:
			ready[s] = s.list(ctx)
		}
	}
	if err := a.deal(ctx, ready); err != nil {
		return err
	}
	for s, l := range ready {
		s.dealt(ctx, l)
	}
	return ctx.Err()
}

// rest leaves everything as it is for a while. No task is missed for that time.
func (a *admission) rest() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, s := range a.shares {
		s.next = now.Add(afterFault)
		for _, c := range s.outstanding {
			c.enqueued = now
		}
	}
}

// wake has the shares of a scope looked at now.
func (a *admission) wake(c *scope) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.shares {
		if s.scope == c {
			s.wakes()
		}
	}
}

// signal ends the pause between two looks.
func (a *admission) signal() {
	select {
	case a.freed <- struct{}{}:
	default:
	}
}

// deal enqueues rows, as many as there is room for. Each share has its turn after the others, and
// enqueues as many in a turn as its weight says. The next deal goes on where this one ends.
func (a *admission) deal(ctx context.Context, ready map[*share]*list) error {
	left := len(ready)
	for free := a.free(); left > 0 && free > 0; a.turn = (a.turn + 1) % len(a.shares) {
		s := a.shares[a.turn]
		l := ready[s]
		if l == nil || l.ended {
			continue
		}
		if s.credit <= 0 {
			s.credit = s.scope.weight
		}
		for ; s.credit > 0; s.credit-- {
			if free == 0 {
				return nil // its turn is not over
			}
			mark, ok := l.row()
			if !ok {
				left--
				break
			}
			if err := s.admit(ctx, mark); err != nil {
				return err
			}
			free--
		}
		s.credit = 0
	}
	return nil
}

// free is how many further checks may be outstanding.
func (a *admission) free() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room() - a.taken()
}

// room is how many checks may be outstanding. The caller holds mu.
func (a *admission) room() int {
	old := time.Now().Add(-rateOver)
	i, _ := slices.BinarySearchFunc(a.ends, old, time.Time.Compare)
	a.ends = a.ends[i:]
	return 2*a.places + len(a.ends)
}

// taken is how many checks are outstanding. The caller holds mu.
func (a *admission) taken() (n int) {
	for _, s := range a.shares {
		if s.away {
			continue
		}
		for _, c := range s.outstanding {
			if !c.late {
				n++
			}
		}
	}
	return n
}
