package fault

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// errFault is what a call gives that a plan fails.
var errFault = fmt.Errorf("%w: the wire broke", memory.ErrStore)

// call is one call of a driver, keys or a witness.
type call struct {
	name    string
	durable bool // it may change what outlives the process
}

// plan counts the calls of one operation, and lets one of them go wrong.
type plan struct {
	mu    sync.Mutex
	armed bool
	calls []call
	fired bool

	at    int                             // the call that goes wrong, of those that write or of the others; -1 = none
	write bool                            // of which
	after bool                            // it is done, and its reply is lost
	fault func(ctx context.Context) error // what happens there
	wrote func()                          // after each call that writes; nil = nothing
	real  bool                            // the driver's Compact is run, and not only counted
}

// made counts the calls that write, or the others.
func (p *plan) made(durable bool) (n int) {
	for _, c := range p.calls {
		if c.durable == durable {
			n++
		}
	}
	return n
}

func (p *plan) do(ctx context.Context, name string, durable bool, act func() error) error {
	p.mu.Lock()
	if !p.armed {
		p.mu.Unlock()
		return act()
	}
	n := p.made(durable)
	p.calls = append(p.calls, call{name, durable})
	hit := n == p.at && durable == p.write
	p.fired = p.fired || hit
	p.mu.Unlock()
	if hit && !p.after {
		return p.fault(ctx)
	}
	err := act()
	if durable && p.wrote != nil {
		p.wrote()
	}
	if hit {
		return p.fault(ctx)
	}
	return err
}

// driver is a driver whose calls a plan counts.
type driver struct {
	memory.Driver
	p *plan
}

func (d driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return d.p.do(ctx, "apply", true, func() error { return d.Driver.Apply(ctx, tenant, b) })
}

func (d driver) Get(ctx context.Context, tenant string, keys []string) (objects []memory.Object, err error) {
	err = d.p.do(ctx, "get", false, func() error {
		objects, err = d.Driver.Get(ctx, tenant, keys)
		return err
	})
	return objects, err
}

func (d driver) Query(ctx context.Context, tenant string, q memory.Query) (hits []memory.Hit, next string, err error) {
	err = d.p.do(ctx, "query", false, func() error {
		hits, next, err = d.Driver.Query(ctx, tenant, q)
		return err
	})
	return hits, next, err
}

func (d driver) History(ctx context.Context, tenant, key string, after uint64, limit int) (log []memory.LogEntry, err error) {
	err = d.p.do(ctx, "history", false, func() error {
		log, err = d.Driver.History(ctx, tenant, key, after, limit)
		return err
	})
	return log, err
}

func (d driver) Logs(ctx context.Context, tenant, prefix, after string, limit int) (keys []string, next string, err error) {
	err = d.p.do(ctx, "logs", false, func() error {
		keys, next, err = d.Driver.Logs(ctx, tenant, prefix, after, limit)
		return err
	})
	return keys, next, err
}

func (d driver) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	return d.p.do(ctx, "restore", true, func() error { return d.Driver.Restore(ctx, tenant, objects) })
}

func (d driver) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	return d.p.do(ctx, "rewrite", true, func() error { return d.Driver.Rewrite(ctx, tenant, key, entries) })
}

// Compact is of the whole store, not of a tenant: it is run where it is what goes
// wrong, and where nothing does.
func (d driver) Compact(ctx context.Context) error {
	return d.p.do(ctx, "compact", true, func() error {
		if !d.p.real {
			return ctx.Err()
		}
		return d.Driver.Compact(ctx)
	})
}

// keys are keys whose calls a plan counts.
type keys struct {
	memory.Keys
	p *plan
}

func (k keys) Key(ctx context.Context, subject string) (id memory.KeyID, err error) {
	err = k.p.do(ctx, "key", true, func() error {
		id, err = k.Keys.Key(ctx, subject)
		return err
	})
	return id, err
}

func (k keys) Seal(ctx context.Context, id memory.KeyID, plaintext, associated []byte) (sealed []byte, err error) {
	err = k.p.do(ctx, "seal", false, func() error {
		sealed, err = k.Keys.Seal(ctx, id, plaintext, associated)
		return err
	})
	return sealed, err
}

func (k keys) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) (plain []byte, err error) {
	err = k.p.do(ctx, "open", false, func() error {
		plain, err = k.Keys.Open(ctx, id, ciphertext, associated)
		return err
	})
	return plain, err
}

func (k keys) Retire(ctx context.Context, subject string) (list []memory.KeyID, err error) {
	err = k.p.do(ctx, "retire", true, func() error {
		list, err = k.Keys.Retire(ctx, subject)
		return err
	})
	return list, err
}

func (k keys) Subject(ctx context.Context, subject string) (list []memory.KeyID, err error) {
	err = k.p.do(ctx, "subject", false, func() error {
		list, err = k.Keys.Subject(ctx, subject)
		return err
	})
	return list, err
}

func (k keys) Prepare(ctx context.Context, subjects ...string) (ids []memory.KeyID, err error) {
	err = k.p.do(ctx, "prepare", true, func() error {
		ids, err = k.Keys.Prepare(ctx, subjects...)
		return err
	})
	return ids, err
}

func (k keys) Destroy(ctx context.Context, list ...memory.KeyID) (d memory.Destruction, err error) {
	err = k.p.do(ctx, "destroy", true, func() error {
		d, err = k.Keys.Destroy(ctx, list...)
		return err
	})
	return d, err
}

// witness is a witness whose calls a plan counts.
type witness struct {
	memory.Witness
	p *plan
}

func (w witness) Acknowledge(ctx context.Context, kind memory.EntryKind, leaves []memory.Leaf) error {
	return w.p.do(ctx, "acknowledge", true, func() error { return w.Witness.Acknowledge(ctx, kind, leaves) })
}

func (w witness) Settle(ctx context.Context, kind memory.EntryKind, lost, again memory.Leaf) error {
	return w.p.do(ctx, "settle", true, func() error { return w.Witness.Settle(ctx, kind, lost, again) })
}

func (w witness) Behind(ctx context.Context, s *memory.Store) (lost []memory.Leaf, err error) {
	err = w.p.do(ctx, "behind", false, func() error {
		lost, err = w.Witness.Behind(ctx, s)
		return err
	})
	return lost, err
}

// late is a context whose deadline comes when it is told to, and not before: a call
// that hangs hangs on any machine, and for no longer than it takes to show.
type late struct {
	context.Context
	over chan struct{}
	once *sync.Once
}

func newLate(parent context.Context) late { return late{parent, make(chan struct{}), &sync.Once{}} }

func (c late) pass() { c.once.Do(func() { close(c.over) }) }

func (c late) Done() <-chan struct{} { return c.over }

func (c late) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c late) Err() error {
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}
