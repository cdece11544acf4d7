package promotion

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Times and limits of an admission.
const (
	rateOver      = 200 * time.Millisecond // what came to an end in it can be outstanding beside what the places hold
	lookEvery     = 250 * time.Millisecond // between two looks at most, while checks are outstanding; half as long at least
	mostIdle      = 30 * time.Second       // between two looks at most while none are: each pause is twice as long as the last
	afterFault    = time.Second            // between two looks, if the first of them failed
	enqueueAgain  = 30 * time.Second       // after which a row that is still due is enqueued again
	orphanedAfter = 5 * time.Minute        // after which a task that is not handled is given up
	unparkedFor   = 10 * time.Minute       // until a row that can be neither checked nor parked is enqueued again
	maxLeft       = 100_000                // rows remembered that are left out; beyond, all are looked at again
)

// admission keeps the checks of one source that are to be made next in a queue.
type admission struct {
	worker *Worker
	source *Source
	queue  CheckQueue
	places int

	mu          sync.Mutex
	outstanding map[memory.ID]*admitted
	ends        []time.Time             // of checks, in the last rateOver
	freed       chan struct{}           // half of the room is free
	left        map[memory.ID]time.Time // rows that are left out, until then; zero = for good

	wake time.Time // when rows are woken next; used by looks alone
}

// admitted is a row whose check the queue has.
type admitted struct {
	generation uint64
	enqueued   time.Time // when it was enqueued last
	waits      time.Time // since when it waits to be handled
	late       bool      // it was enqueued again, and was there: it takes no room
}

func newAdmission(w *Worker, s *Source, q CheckQueue, places int) *admission {
	return &admission{worker: w, source: s, queue: q, places: places, outstanding: map[memory.ID]*admitted{}, freed: make(chan struct{}, 1), left: map[memory.ID]time.Time{}}
}

// serve looks until ctx ends.
func (a *admission) serve(ctx context.Context) {
	idle, reached := lookEvery/2, true
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-a.freed:
		}
		busy, next, err := a.look(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && reached:
			a.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "rows that are due are not enqueued", slog.String("verifier", a.source.Name), slog.Any("error", err))
		case err == nil && !reached:
			a.worker.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "rows that are due are enqueued again", slog.String("verifier", a.source.Name))
		}
		if reached = err == nil; busy || !reached {
			idle = lookEvery / 2
		} else {
			idle = min(2*idle, mostIdle)
		}
		pause := idle + rand.N(lookEvery/2) // not in step with other processes
		switch {
		case !reached:
			pause = afterFault
		case !next.IsZero():
			pause = min(pause, max(next.Sub(a.worker.store.Now()), lookEvery/2))
		}
		t.Reset(pause)
	}
}

// look sees which checks have come to an end, and enqueues others. busy says that checks are
// outstanding. next is when a row can be asked about that cannot be now; zero = not known.
func (a *admission) look(ctx context.Context) (busy bool, next time.Time, err error) {
	store := a.worker.store
	now := store.Now()
	if !now.Before(a.wake) {
		for woken := memory.MaxWoken; woken == memory.MaxWoken; {
			if woken, a.wake, err = store.WakeDue(ctx, memory.MaxWoken); err != nil {
				return false, next, err
			}
		}
		if most := now.Add(mostIdle); a.wake.IsZero() || a.wake.After(most) {
			a.wake = most // rows may be marked meanwhile
		}
	}
	marks, err := store.DueMarks(ctx, a.rows()...)
	if err != nil {
		return false, next, err
	}
	unfinished := a.unfinished(marks)
	state := a.breaker()
	if state != verifier.StateClosed {
		a.begin(unfinished)
	} else {
		for _, id := range slices.Sorted(maps.Keys(unfinished)) {
			if err := a.again(ctx, marks[id], unfinished[id]); err != nil {
				return true, next, err
			}
		}
	}
	if state == verifier.StateOpen {
		return true, next, nil
	}
	next, err = a.fill(ctx, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.outstanding) > 0, next, err
}

// breaker is the state of the breaker of the source, of this process.
func (a *admission) breaker() verifier.State {
	if b, ok := a.source.Verifier.(interface{ State() verifier.State }); ok {
		return b.State()
	}
	return verifier.StateClosed
}

// rows are those that are outstanding.
func (a *admission) rows() []memory.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]memory.ID, 0, len(a.outstanding))
	for id := range a.outstanding {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// unfinished forgets the checks that have come to an end, whoever made them, and returns the
// others.
func (a *admission) unfinished(marks map[memory.ID]memory.Due) map[memory.ID]*admitted {
	now := a.worker.store.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	left := make(map[memory.ID]*admitted, len(a.outstanding))
	for id, c := range a.outstanding {
		mark, marked := marks[id]
		if !marked || mark.Generation != c.generation || now.Before(wanted(mark, a.source.Name, now)) {
			a.end(id)
			continue
		}
		left[id] = c
	}
	return left
}

// wanted is when a source can be asked about a row, in the round of the mark: a time that is not after
// now if it is to be asked now. A row that is parked, or not due yet, waits for a mark that
// says otherwise.
func wanted(mark memory.Due, source string, now time.Time) time.Time {
	switch {
	case mark.Generation == 0: // it cannot be read, so that the check parks the row
		return now
	case mark.At.IsZero() || mark.At.After(now):
		return now.Add(mostIdle)
	}
	return mark.Of(source).Until
}

// begin begins the waits of checks anew: in an outage they are handled when it is over.
func (a *admission) begin(checks map[memory.ID]*admitted) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range checks {
		c.enqueued, c.waits = now, now
	}
}

// handled is called when this process handles a check: the queue has not lost it.
func (a *admission) handled(c Check) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if is := a.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		is.enqueued, is.waits = now, now
	}
}

// done is called when a check of this process has come to an end.
func (a *admission) done(c Check) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if is := a.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		a.end(c.Row)
	}
	if 2*a.taken() <= a.room() {
		select {
		case a.freed <- struct{}{}:
		default:
		}
	}
}

// end forgets a check. The caller holds mu.
func (a *admission) end(id memory.ID) {
	delete(a.outstanding, id)
	a.ends = append(a.ends, time.Now())
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
	for _, c := range a.outstanding {
		if !c.late {
			n++
		}
	}
	return n
}

// again enqueues a row that is still due after a while again: the queue may have lost it. If the
// queue still has it and nobody handles it, its task may be one that nobody ever takes.
func (a *admission) again(ctx context.Context, mark memory.Due, c *admitted) error {
	now := time.Now()
	a.mu.Lock()
	enqueued, waits := now.Sub(c.enqueued), now.Sub(c.waits)
	a.mu.Unlock()
	switch {
	case enqueued < enqueueAgain:
		return nil
	case waits >= orphanedAfter && c.generation != 0:
		return a.worker.renewRound(ctx, mark) // the next look finds that it moved
	}
	added, err := a.enqueue(ctx, mark)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.enqueued, c.late = now, !added; added {
		c.waits = now
	}
	return nil
}

func (a *admission) enqueue(ctx context.Context, mark memory.Due) (added bool, err error) {
	return a.queue.Enqueue(ctx, Check{a.worker.store.Tenant(), a.worker.store.Namespace(), mark.ID, a.source.Name, mark.Generation})
}

// fill enqueues the most read rows that the source can be asked about, as many as there is room
// for. next is as for look.
func (a *admission) fill(ctx context.Context, now time.Time) (next time.Time, err error) {
	next = a.wake
	free := a.free()
	if free <= 0 {
		return next, nil
	}
	var page []memory.Due
	for mark, err := range a.worker.store.DueNow(ctx) {
		if err != nil {
			return next, err
		}
		if at := wanted(mark, a.source.Name, now); at.After(now) {
			if at.Before(next) {
				next = at
			}
			continue
		}
		if a.passes(mark, now) {
			continue
		}
		if page = append(page, mark); len(page) < free {
			continue
		}
		n, err := a.admit(ctx, page)
		if free, page = free-n, nil; err != nil || free <= 0 {
			return next, err
		}
	}
	_, err = a.admit(ctx, page)
	return next, err
}

// free is how many further checks may be outstanding.
func (a *admission) free() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.room() - a.taken()
}

// passes reports whether a row is passed over: the check of this round is outstanding, or the row is
// left out.
func (a *admission) passes(mark memory.Due, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.outstanding[mark.ID]
	until, left := a.left[mark.ID]
	return c != nil && c.generation == mark.Generation || left && (until.IsZero() || until.After(now))
}

// leave leaves a row out until a moment; zero = for good.
func (a *admission) leave(id memory.ID, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.left) >= maxLeft {
		clear(a.left)
	}
	a.left[id] = until
}

// admit enqueues checks of the rows that the source covers, and says how many these are. If the queue
// has one already, another process was first.
func (a *admission) admit(ctx context.Context, marks []memory.Due) (n int, err error) {
	covered, err := a.covered(ctx, marks)
	if err != nil {
		return 0, err
	}
	for _, mark := range covered {
		now := time.Now()
		a.mu.Lock()
		a.outstanding[mark.ID] = &admitted{generation: mark.Generation, enqueued: now, waits: now}
		a.mu.Unlock()
		if _, err := a.enqueue(ctx, mark); err != nil {
			a.mu.Lock()
			delete(a.outstanding, mark.ID) // if it was added all the same, it is found then
			a.mu.Unlock()
			return len(covered), err
		}
	}
	return len(covered), nil
}

// covered are the rows that the source covers. A row that cannot be read is one of them: its
// check says what becomes of it.
func (a *admission) covered(ctx context.Context, marks []memory.Due) (covered []memory.Due, err error) {
	if a.source.Covers == nil || len(marks) == 0 {
		return marks, nil
	}
	ids := make([]memory.ID, len(marks))
	for i, m := range marks {
		ids[i] = m.ID
	}
	rows, err := a.worker.store.Get(ctx, ids...)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil && len(marks) > 1: // one of them is gone, or cannot be read
		for i := range marks {
			one, err := a.covered(ctx, marks[i:i+1])
			if err != nil {
				return nil, err
			}
			covered = append(covered, one...)
		}
		return covered, nil
	case errors.Is(err, memory.ErrNotFound), errors.Is(err, memory.ErrErased), errors.Is(err, memory.ErrDamaged), errors.Is(err, memory.ErrKey):
		return marks, nil
	case err != nil:
		return nil, err
	}
	for i, row := range rows {
		if a.source.covers(&row) {
			covered = append(covered, marks[i])
			continue
		}
		a.leave(row.ID, time.Time{})
	}
	return covered, nil
}
