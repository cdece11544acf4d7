package promotion

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/hearsay-go/hearsay/memory"
)

// Scope is a worker of one namespace, and its part of the places.
type Scope struct {
	Worker *Worker
	// Weight is how many rows of this scope are enqueued in its turn, if others have rows that are due
	// as well; 0 = 1.
	Weight int
}

// scope is a scope, and what is known of the rows that are due in it. All of its sources share that.
type scope struct {
	worker *Worker
	weight int

	turns *semaphore.Weighted // one asks the store at a time
	wake  time.Time           // when rows are woken next, by the clock of the store; used by that one

	mu    sync.Mutex
	until time.Time     // until when no row is due, as far as is known
	idle  time.Duration // between two looks at a scope without rows that are due; 0 = it has some
}

func newScope(c Scope) *scope {
	return &scope{worker: c.Worker, weight: max(c.Weight, 1), turns: semaphore.NewWeighted(1), idle: lookEvery / 2}
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
	if err := c.wakeRows(ctx); err != nil {
		return false, until, false, err
	}
	if idle == 0 {
		return true, until, false, nil
	}
	for _, err := range c.store().DueNow(ctx) {
		if err != nil {
			return false, until, false, err
		}
		c.know(time.Time{}, 0)
		return true, until, true, nil
	}
	idle = min(2*idle, mostIdle)
	until = time.Now().Add(min(idle, max(c.wake.Sub(c.store().Now()), lookEvery/2)))
	c.know(until, idle)
	return false, until, true, nil
}

func (c *scope) known() (until time.Time, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.until, c.idle
}

func (c *scope) know(until time.Time, idle time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until, c.idle = until, idle
}

// isEmpty is called by who found no row that is due.
func (c *scope) isEmpty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = max(c.idle, lookEvery/2)
}

// wakeRows puts rows whose time has come on the list of those that are due.
func (c *scope) wakeRows(ctx context.Context) (err error) {
	now := c.store().Now()
	if now.Before(c.wake) {
		return nil
	}
	wake := now
	for woken := memory.MaxWoken; woken == memory.MaxWoken; {
		if woken, wake, err = c.store().WakeDue(ctx, memory.MaxWoken); err != nil {
			return err
		}
	}
	if most := now.Add(mostIdle); wake.IsZero() || wake.After(most) {
		wake = most // rows may be marked meanwhile
	}
	c.wake = wake
	return nil
}
