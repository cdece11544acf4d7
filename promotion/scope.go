package promotion

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

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
	// Publish is how often the store is told which sources the worker has, and which of them are down
	// ([memory.Store.PublishVerifiers]). What is said ends after three times that, which is at most
	// [memory.MaxLease]. 0 = [DefaultPublish].
	Publish time.Duration
}

// scope is a scope that is served.
type scope struct {
	service   *service
	worker    *Worker
	weight    int
	sweep     time.Duration
	uncovered time.Duration
	every     time.Duration // to say how the sources are
	shares    []*share
	woken     chan struct{}

	// Used by looks alone.
	fallsDue time.Time     // when further rows fall due, by the clock of the store
	idle     time.Duration // to the next look if no row is due

	mu      sync.Mutex
	asked   bool               // rows may have fallen due before fallsDue
	due     bool               // rows are due, as far as is known
	reached bool               // the store was, at the last look
	up      context.Context    // ends when the store hangs
	end     context.CancelFunc // ends up
	failed  bool               // of service.note
}

func newScope(s *service, c Scope) *scope {
	n := &scope{service: s, worker: c.Worker, weight: max(c.Weight, 1), sweep: cmp.Or(c.Sweep, mostIdle), uncovered: max(cmp.Or(c.Uncovered, mostUncovered), 0),
		every: cmp.Or(c.Publish, DefaultPublish), woken: make(chan struct{}, 1), idle: lookEvery / 2, asked: true}
	n.up, n.end = context.WithCancel(context.Background())
	n.reached = true // as far as is known
	return n
}

func (c *scope) store() Store { return c.worker.store }

// wake ends a pause, or the next one.
func wake(woken chan struct{}) {
	select {
	case woken <- struct{}{}:
	default:
	}
}

// repeat calls do until ctx ends: at once, and then whenever the pause that do returned is over, or woken ends it.
func repeat(ctx context.Context, woken <-chan struct{}, do func() (pause time.Duration)) {
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-woken:
		}
		if ctx.Err() != nil {
			return
		}
		t.Reset(do())
	}
}

// serve sees, until ctx ends, whether the store is reached and whether rows are due.
func (c *scope) serve(ctx context.Context) {
	repeat(ctx, c.woken, func() time.Duration { return c.look(ctx) })
}

// look returns how long it is to the next look.
func (c *scope) look(ctx context.Context) time.Duration {
	c.mu.Lock()
	asked := c.asked
	c.asked = false
	c.mu.Unlock()
	due, err := c.anyDue(ctx, asked)
	if ctx.Err() != nil {
		return mostIdle
	}
	c.know(due, asked, err)
	c.service.note(ctx, &c.service.stores, &c.failed, err, c.worker, slog.String("namespace", c.store().Namespace()))
	switch now := c.store().Now(); {
	case err != nil:
		c.ask() // nobody knows what fell due meanwhile
		return afterFault
	case due:
		c.idle = lookEvery / 2
		return min(aliveEvery, max(c.fallsDue.Sub(now), time.Millisecond))
	default:
		if asked {
			c.idle = lookEvery / 2
		}
		c.idle = min(2*c.idle, c.sweep)
		return min(c.idle, max(c.fallsDue.Sub(now), lookEvery/2)) + rand.N(lookEvery/2)
	}
}

// anyDue puts rows whose time has come on the list of those that are due, and reports whether there is one.
func (c *scope) anyDue(ctx context.Context, asked bool) (due bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	if now := c.store().Now(); asked || !now.Before(c.fallsDue) {
		woken, next, err := c.store().WakeDue(ctx, memory.MaxWoken)
		if err != nil {
			return false, err
		}
		if c.fallsDue = now.Add(c.sweep); !next.IsZero() && next.Before(c.fallsDue) { // rows may be marked meanwhile
			c.fallsDue = next
		}
		if woken == memory.MaxWoken { // there may be more
			c.fallsDue = now
		}
	}
	for _, err := range c.store().DueNow(ctx) {
		return err == nil, err
	}
	return false, nil
}

// know keeps what was seen, and wakes the shares if there is something to do for them. Checks under way are
// ended if the store hangs: they would keep their places.
func (c *scope) know(due, asked bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.due && c.reached
	c.due, c.reached = due, err == nil
	if errors.Is(err, context.DeadlineExceeded) {
		c.end()
	}
	if c.reached && c.up.Err() != nil {
		c.up, c.end = context.WithCancel(context.Background())
	}
	if err == nil && due && (asked || !was) {
		for _, s := range c.shares {
			s.wake()
		}
	}
}

// state reports whether rows are due, as far as is known. up ends when the store hangs; nil = it is not reached.
func (c *scope) state() (due bool, up context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reached {
		return c.due, nil
	}
	return c.due, c.up
}

// ask has the store asked at the next look for rows whose time has come.
func (c *scope) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = true
}

// isEmpty is called by who found no row that is due.
func (c *scope) isEmpty() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due {
		c.due = false
		wake(c.woken)
	}
}

// park parks, until ctx ends, the rows that nobody covers.
func (c *scope) park(ctx context.Context) {
	repeat(ctx, nil, func() time.Duration {
		began := time.Now()
		if due, up := c.state(); due && up != nil {
			if err := c.parkRows(ctx); err != nil && ctx.Err() == nil && c.worker.first("park") {
				c.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "rows that no verifier covers are not parked", slog.Any("error", err))
			}
		}
		return max(min(c.uncovered, c.sweep), lookEvery, restOfLooks*time.Since(began))
	})
}

// parkRows parks the rows that nobody covers, of those that have been due for long enough.
func (c *scope) parkRows(ctx context.Context) error {
	ctx, goesOn, cancel := whileItGoesOn(ctx)
	defer cancel()
	var page []memory.Due
	for mark, err := range c.store().DueRows(ctx, c.store().Now().Add(-c.uncovered)) {
		if err != nil {
			return err
		}
		goesOn()
		if page = append(page, mark); len(page) == parkedPage {
			if err := c.parkThose(ctx, page); err != nil {
				return cmp.Or(context.Cause(ctx), err)
			}
			page = page[:0]
		}
	}
	return c.parkThose(ctx, page)
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
		if err := c.worker.park(ctx, marks[row.ID], memory.ParkedUncovered, uncovered); err != nil && !isUnreadable(err) {
			return err
		}
	}
	return nil
}
