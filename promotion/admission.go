package promotion

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// Times and limits of an admission.
const (
	rateOver        = 200 * time.Millisecond // what came to an end in it can be outstanding beside what the places hold
	lookEvery       = 250 * time.Millisecond // between two looks at most, while there is something to do; half as long at least
	mostIdle        = 30 * time.Second       // between two looks at most while there is not: each pause is twice as long as the last
	afterFault      = time.Second            // between two looks, if the first of them failed, or the source is paused
	mostLook        = 10 * time.Second       // that a store may take to answer
	mostRows        = 30 * time.Second       // and to read a page of rows, while it lists many
	aliveEvery      = 5 * time.Second        // between two looks at whether the store is reached, while rows are due
	slowLook        = mostInPlace            // after which a store is slow; then a share takes no room, until its look has ended
	enqueueAgain    = 30 * time.Second       // after which a row that is still due is enqueued again
	strandedFor     = 5 * time.Minute        // after which a task that nobody ever takes is given up
	unparkedFor     = 10 * time.Minute       // until a row that can be neither checked nor parked is enqueued again
	reconsiderEvery = 10 * time.Minute       // between two looks for parked rows that a source covers
	restOfLooks     = 20                     // a list that was read in vain is read again after so many times what that took
	mostDrawn       = 10_000                 // rows from which one is drawn to probe with
	mostUncovered   = time.Hour              // after which a row that nobody covers is parked
	slowPage        = time.Second            // after which the next page is a short one
	firstPage       = 16                     // rows that are read at first to see which sources cover them
	parkedPage      = 64                     // rows that are read at a time to see whether nobody covers them
	mostPage        = 512                    // and at most
)

// admission keeps the checks of one source that are to be made next in a queue. It has a share for each
// scope. A share looks for rows by itself, so that a store that hangs holds up no other. The admission
// says how many rows a share may enqueue.
type admission struct {
	service *service
	name    string // of the source
	places  int
	shares  []*share
	asking  *semaphore.Weighted // one share at a time asks whether the source is paused
	watched chan struct{}       // wakes watch

	// Used by the share that asks.
	paused  bool
	askedAt time.Time

	mu        sync.Mutex
	ends      []time.Time // of checks, in the last rateOver
	wanting   []*share    // that have more rows than they may enqueue, in the order of their turns
	probing   *probe      // nil = no share probes the source
	unwatched bool        // no check was made at the last look of watch
	slowTold  time.Time   // when it was last logged that a store is slow
	triedAny  time.Time   // when a check was last made to see whether a slow store is fast again
}

// errUnqueued is the error of a queue that is not reached, or takes no check.
type errUnqueued struct {
	error
	write bool
}

func (e errUnqueued) Unwrap() error { return e.error }

// isPaused asks the queue whether the source is paused, once for all shares that look at about the same time.
func (a *admission) isPaused(ctx context.Context) (bool, error) {
	if err := a.asking.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer a.asking.Release(1)
	if time.Since(a.askedAt) < lookEvery/4 {
		return a.paused, nil
	}
	paused, err := a.service.queue.Paused(ctx, a.name)
	if err != nil {
		return false, errUnqueued{err, false}
	}
	a.paused, a.askedAt = paused, time.Now()
	return paused, nil
}

// wants asks for room for rows of a share. It returns how many the share may enqueue now. Until it leaves, it
// is given more in its turn.
func (a *admission) wants(s *share) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.granted == 0 {
		if !slices.Contains(a.wanting, s) {
			a.wanting = append(a.wanting, s)
		}
		a.allot(s)
	}
	return s.granted
}

// leaves gives back what a share may enqueue: it has no further rows.
func (a *admission) leaves(s *share) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gives := s.granted > 0
	s.granted, s.credit = 0, 0
	a.wanting = slices.DeleteFunc(a.wanting, func(o *share) bool { return o == s })
	if gives {
		a.allot(nil)
	}
}

// allot deals the room that is free to the shares that want it, by deficit round robin: in its turn, each
// gets as many rows as its weight says. The caller holds mu, and need not be woken.
func (a *admission) allot(caller *share) {
	now := time.Now()
	free := a.room() - a.taken(caller)
	for passed := 0; free > 0 && passed < len(a.wanting); {
		s := a.wanting[0]
		if passed++; s == caller || !s.isAside(now) {
			if s.credit == 0 {
				s.credit = s.scope.weight
			}
			n := min(s.credit, free)
			s.granted, s.credit, free, passed = s.granted+n, s.credit-n, free-n, 0
			if s != caller && s.began.IsZero() {
				s.wake()
			}
		}
		if s.credit == 0 || passed > 0 {
			a.wanting = append(a.wanting[1:], s)
		}
	}
}

// room is how many checks may be outstanding. The caller holds mu.
func (a *admission) room() int {
	old := time.Now().Add(-rateOver)
	i, _ := slices.BinarySearchFunc(a.ends, old, time.Time.Compare)
	a.ends = a.ends[i:]
	return 2*a.places + len(a.ends)
}

// taken is how many checks are outstanding, or may be enqueued. Those of a share whose store is slow do not
// count, unless it is the one that asks. The caller holds mu.
func (a *admission) taken(caller *share) (n int) {
	now := time.Now()
	for _, s := range a.shares {
		if s.away || s != caller && s.isAside(now) {
			continue
		}
		n += s.granted
		for _, c := range s.outstanding {
			if !c.late {
				n++
			}
		}
	}
	return n
}

// probe is a share's, of the source.
type probe struct {
	storeWait
	of *admission
}

// startsProbe returns nil if a share probes the source now. Else the caller does, until it calls ends. A share whose
// store is slow does not keep others from it.
func (a *admission) startsProbe() *probe {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probing != nil && !a.probing.isLong(now) {
		return nil
	}
	a.probing = &probe{storeWait{&a.mu, now}, a}
	return a.probing
}

func (p *probe) ends() {
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.of.probing == p {
		p.of.probing = nil
	}
}
