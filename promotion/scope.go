package promotion

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hearsay-go/hearsay/memory"
)

// Scope is a namespace that [Serve] serves: its worker, and its part of the places.
type Scope struct {
	Worker *Worker
	// Reads counts what the agents of this process read and were blocked over. nil is logged as a warning.
	Reads *Heater
	// ReadsElsewhere says that this process has no agents, so that Reads is not missed.
	ReadsElsewhere bool
	// Weight is how many rows of this scope are enqueued in its turn, if others have rows that are due
	// as well; 0 = 1.
	Weight int
	// Sweep is the longest time between two looks for rows that are due, while none is known; 0 = 30 s.
	Sweep time.Duration
	// Uncovered is how long a row that no source of the worker covers stays due, so that another process may
	// have one that does. Then it is parked until it is read or another worker starts, unless a process says
	// that it has one ([memory.Store.PublishVerifiers]). 0 = one hour, negative = it is parked at once.
	Uncovered time.Duration
}

// scope is a scope, and what is known of the rows that are due in it. All of its sources share that.
type scope struct {
	worker    *Worker
	weight    int
	sweep     time.Duration
	uncovered time.Duration

	turns *semaphore.Weighted // one asks the store at a time
	wake  time.Time           // when rows are woken next, by the clock of the store; used by that one
	park  time.Time           // when rows that nobody covers are looked for next; used by that one

	mu     sync.Mutex
	until  time.Time     // until when no row is due, as far as is known
	idle   time.Duration // between two looks at a scope without rows that are due; 0 = it has some
	forgot bool          // somebody knows better
}

func newScope(c Scope) *scope {
	return &scope{worker: c.Worker, weight: max(c.Weight, 1), sweep: cmp.Or(c.Sweep, mostIdle), uncovered: max(cmp.Or(c.Uncovered, mostUncovered), 0),
		turns: semaphore.NewWeighted(1), idle: lookEvery / 2}
}

func (c *scope) store() Store { return c.worker.store }

// anyDue puts rows whose time has come on the list of those that are due, and reports whether there
// is one. If not, the store is not asked again for a while, longer each time. read says that it was.
func (c *scope) anyDue(ctx context.Context) (due bool, until time.Time, read bool, err error) {
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return false, until, false, err
	}
	defer c.turns.Release(1)
	until, idle := c.known()
	if until.After(time.Now()) {
		return false, until, false, nil
	}
	if err := c.wakeRows(ctx, c.forgotten()); err != nil {
		return false, until, false, err
	}
	if idle == 0 {
		return true, until, false, c.parkRows(ctx)
	}
	for _, err := range c.store().DueNow(ctx) {
		if err != nil {
			return false, until, false, err
		}
		c.know(time.Time{}, 0)
		return true, until, true, c.parkRows(ctx)
	}
	idle = min(2*idle, c.sweep)
	until = time.Now().Add(min(idle, max(c.wake.Sub(c.store().Now()), lookEvery/2)))
	c.know(until, idle)
	return false, until, true, nil
}

func (c *scope) known() (until time.Time, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.idle
}

// know keeps what was read, unless somebody knows better meanwhile.
func (c *scope) know(until time.Time, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.forgot {
		c.until, c.idle = until, idle
	}
}

// forget has the store asked at the next look.
func (c *scope) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.idle, c.forgot = time.Time{}, min(c.idle, lookEvery/2), true
}

// forgotten reports whether forget was called since the last time.
func (c *scope) forgotten() (was bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was, c.forgot = c.forgot, false
	return was
}

// isEmpty is called by who found no row that is due.
func (c *scope) isEmpty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = max(c.idle, lookEvery/2)
}

// wakeRows puts rows whose time has come on the list of those that are due, if it is time for that, or at once.
func (c *scope) wakeRows(ctx context.Context, atOnce bool) (err error) {
	now := c.store().Now()
	if now.Before(c.wake) && !atOnce {
		return nil
	}
	wake := now
	for woken := memory.MaxWoken; woken == memory.MaxWoken; {
		if woken, wake, err = c.store().WakeDue(ctx, memory.MaxWoken); err != nil {
			return err
		}
	}
	if most := now.Add(c.sweep); wake.IsZero() || wake.After(most) {
		wake = most // rows may be marked meanwhile
	}
	c.wake = wake
	return nil
}

// parkRows parks the rows that nobody covers, of those that fell due first.
func (c *scope) parkRows(ctx context.Context) error {
	began := time.Now()
	if began.Before(c.park) {
		return nil
	}
	looked := 0
	var page []memory.Due
	for mark, err := range c.store().DueRows(ctx, c.store().Now().Add(-c.uncovered)) {
		if err != nil {
			return err
		}
		page = append(page, mark)
		if looked++; len(page) == mostPage || looked == mostUncoveredLooked {
			if err := c.parkThose(ctx, page); err != nil {
				return err
			}
			page = page[:0]
		}
		if looked == mostUncoveredLooked {
			break
		}
	}
	if err := c.parkThose(ctx, page); err != nil {
		return err
	}
	c.park = time.Now().Add(max(min(c.uncovered, c.sweep), restOfLooks*time.Since(began)))
	return nil
}

// parkThose parks those of some rows that nobody covers.
func (c *scope) parkThose(ctx context.Context, page []memory.Due) error {
	covering, err := c.worker.covering(ctx, page)
	if err != nil {
		return err
	}
	marks := map[memory.ID]memory.Due{}
	for _, mark := range page {
		if sources, read := covering[mark.ID]; read && len(sources) == 0 && mark.Generation != 0 {
			marks[mark.ID] = mark
		}
	}
	rows, err := c.worker.readable(ctx, slices.Collect(maps.Keys(marks)))
	if err != nil || len(rows) == 0 {
		return err
	}
	contents := make([]memory.Content, len(rows))
	for i := range rows {
		contents[i] = rows[i].Content
	}
	elsewhere, err := c.store().Covered(ctx, contents...)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if elsewhere[i] {
			continue
		}
		mark := marks[row.ID]
		if err := c.store().Postpone(ctx, mark, time.Time{}, mark.Tries, uncovered); remarked(err) {
			continue
		} else if err != nil {
			return err
		}
		c.worker.observe(Result{ID: row.ID, Status: Parked})
	}
	return nil
}
