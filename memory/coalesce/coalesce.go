// Package coalesce makes one driver call of those that several goroutines make at
// the same moment. A program that works on many rows at once, as a promotion worker
// does, then pays one round trip, and on a file one fsync, for many of them.
//
//	store, err := memory.New(coalesce.New(driver), keys, nil)
//
// Nothing waits for company: a call that finds none under way is made at once, and
// those that come meanwhile are the next one together. Each of them stays a transaction of
// its own: one that conflicts fails alone, and no other with it.
package coalesce

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
)

// What one joint call may hold, so that a server that does one thing at a time is not
// kept from others for long. A single call may be larger; it goes alone.
const (
	maxKeys  = 1000
	maxOps   = 1000
	maxBytes = 1 << 20
)

// Driver joins calls of Get, and calls of Apply. It is safe for concurrent use.
type Driver struct {
	memory.Driver
	reads, writes line

	calls, joint atomic.Int64
}

// New returns a driver that hands joint calls to d, and is closed with it.
func New(d memory.Driver) *Driver {
	out := &Driver{Driver: d}
	out.reads.serve, out.reads.fits = out.read, few
	out.writes.serve, out.writes.fits = out.write, independent
	return out
}

// Calls says how many calls of Get and Apply there were so far, and how many the
// driver below got for them.
func (d *Driver) Calls() (made, below int64) { return d.calls.Load(), d.joint.Load() }

// Get implements [memory.Driver]. All that is read in one joint call is of one
// snapshot, taken after each of the calls began.
func (d *Driver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if ctx.Err() != nil {
		return d.Driver.Get(ctx, tenant, keys)
	}
	c := &call{ctx: ctx, tenant: tenant, keys: keys, done: make(chan struct{})}
	d.calls.Add(1)
	if err := d.reads.join(c); err != nil {
		return nil, err
	}
	return c.objects, c.err
}

// Apply implements [memory.Driver]. Batches go together if none of them puts a key
// that another one puts or checks: then the order of them does not matter. If the
// context ends first, it is not known whether the batch was applied.
func (d *Driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := b.Check(); err != nil || ctx.Err() != nil {
		return d.Driver.Apply(ctx, tenant, b)
	}
	c := &call{ctx: ctx, tenant: tenant, batch: b, done: make(chan struct{})}
	d.calls.Add(1)
	if err := d.writes.join(c); err != nil {
		return err
	}
	return c.err
}

// call is one call, and its outcome once done is closed.
type call struct {
	ctx    context.Context
	tenant string
	keys   []string
	batch  memory.Batch

	done    chan struct{}
	objects []memory.Object
	err     error
}

// line is where calls of one kind wait while one is under way.
type line struct {
	serve func(group []*call)
	fits  func(first *call) func(next *call) bool // says of one after the other whether it goes with those before

	mu      sync.Mutex
	waiting []*call
	busy    bool
}

// join waits until the call was made, or its context ends.
func (l *line) join(c *call) error {
	l.mu.Lock()
	l.waiting = append(l.waiting, c)
	lead := !l.busy
	l.busy = true
	l.mu.Unlock()
	if lead {
		go l.lead()
	}
	select {
	case <-c.done:
		return nil
	case <-c.ctx.Done():
	}
	select {
	case <-c.done: // both came true
		return nil
	default:
		return c.ctx.Err()
	}
}

// lead makes calls until none waits.
func (l *line) lead() {
	for {
		runtime.Gosched() // who is running and about to call joins; where nobody is, nothing waits
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.busy = false
			l.mu.Unlock()
			return
		}
		group, rest := l.waiting[:1:1], l.waiting[:0:0]
		fits := l.fits(group[0])
		for _, c := range l.waiting[1:] {
			// What does not fit keeps its place, and holds up no other.
			if c.tenant == group[0].tenant && fits(c) {
				group = append(group, c)
			} else {
				rest = append(rest, c)
			}
		}
		l.waiting = rest
		l.mu.Unlock()
		l.serve(group)
		for _, c := range group {
			close(c.done)
		}
	}
}

// together is a context that ends when those of all members have ended.
func together(group []*call) (ctx context.Context, free func()) {
	if len(group) == 1 {
		return group[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(group[0].ctx))
	left := atomic.Int64{}
	left.Store(int64(len(group)))
	var stops []func() bool
	for _, c := range group {
		stops = append(stops, context.AfterFunc(c.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		}))
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

func (d *Driver) read(group []*call) {
	ctx, free := together(group)
	defer free()
	var keys []string
	if len(group) == 1 {
		keys = group[0].keys
	} else {
		for _, c := range group {
			keys = append(keys, c.keys...)
		}
	}
	d.joint.Add(1)
	objects, err := d.Driver.Get(ctx, group[0].tenant, keys)
	for _, c := range group {
		if c.err = err; err == nil {
			n := len(c.keys)
			c.objects, objects = objects[:n:n], objects[n:]
		}
	}
}

// write applies a group in one batch. If something in it is stale, nothing was
// written: those that name it are asked alone, and the others go together again.
func (d *Driver) write(group []*call) {
	for len(group) > 1 {
		err := d.apply(group)
		var conflict *memory.ConflictError
		if !errors.As(err, &conflict) {
			for _, c := range group {
				c.err = err
			}
			return
		}
		var rest []*call
		for _, c := range group {
			if names(c.batch, conflict.Key) {
				c.err = d.apply([]*call{c})
			} else {
				rest = append(rest, c)
			}
		}
		if len(rest) == len(group) { // a conflict on a key that nobody named; the driver is asked by each
			break
		}
		group = rest
	}
	for _, c := range group {
		c.err = d.apply([]*call{c})
	}
}

func (d *Driver) apply(group []*call) error {
	ctx, free := together(group)
	defer free()
	b := group[0].batch
	if len(group) > 1 {
		b = memory.Batch{}
		for _, c := range group {
			b.Checks = append(b.Checks, c.batch.Checks...)
			b.Puts = append(b.Puts, c.batch.Puts...)
		}
	}
	d.joint.Add(1)
	return d.Driver.Apply(ctx, group[0].tenant, b)
}

func names(b memory.Batch, key string) bool {
	return slices.ContainsFunc(b.Checks, func(c memory.Check) bool { return c.Key == key }) ||
		slices.ContainsFunc(b.Puts, func(p memory.Put) bool { return p.Key == key })
}

// few lets reads go together up to a number of keys.
func few(first *call) func(*call) bool {
	n := len(first.keys)
	return func(c *call) bool {
		if n+len(c.keys) > maxKeys {
			return false
		}
		n += len(c.keys)
		return true
	}
}

// independent lets batches go together while nobody puts what another one puts or
// checks, and all of it is small.
func independent(first *call) func(*call) bool {
	var puts, checks map[string]bool // made when somebody else comes
	ops, bytes := size(first.batch)
	add := func(b memory.Batch) {
		for _, p := range b.Puts {
			puts[p.Key] = true
		}
		for _, k := range b.Checks {
			checks[k.Key] = true
		}
	}
	return func(c *call) bool {
		if puts == nil {
			puts, checks = make(map[string]bool, 64), make(map[string]bool, 64)
			add(first.batch)
		}
		o, b := size(c.batch)
		if ops+o > maxOps || bytes+b > maxBytes ||
			slices.ContainsFunc(c.batch.Puts, func(p memory.Put) bool { return puts[p.Key] || checks[p.Key] }) ||
			slices.ContainsFunc(c.batch.Checks, func(k memory.Check) bool { return puts[k.Key] }) {
			return false
		}
		ops, bytes = ops+o, bytes+b
		add(c.batch)
		return true
	}
}

func size(b memory.Batch) (ops, bytes int) {
	for _, p := range b.Puts {
		bytes += len(p.Key) + len(p.Data) + len(p.Entry)
		for _, t := range p.Add {
			bytes += len(t.Name)
		}
	}
	return len(b.Checks) + len(b.Puts), bytes
}
