package stores

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// Recorder keeps what a store writes through it, so that the floor can write the
// very same, and counts the calls. Writes may be concurrent if they touch no object
// in common; what reads Written must not be beside them.
type Recorder struct {
	Backend
	Written []memory.Batch // and not mirrored yet
	mu      sync.Mutex     // of Written, among writes
	reads   atomic.Int64
	writes  atomic.Int64
}

// Calls is how often the store asked the driver for something, and how often it
// wrote, so far.
func (r *Recorder) Calls() (reads, writes int64) { return r.reads.Load(), r.writes.Load() }

// Get counts a read.
func (r *Recorder) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	r.reads.Add(1)
	return r.Backend.Get(ctx, tenant, keys)
}

// Query counts a read.
func (r *Recorder) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	r.reads.Add(1)
	return r.Backend.Query(ctx, tenant, q)
}

// History counts a read.
func (r *Recorder) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	r.reads.Add(1)
	return r.Backend.History(ctx, tenant, key, after, limit)
}

// Apply counts a write and keeps the batch if it was written.
func (r *Recorder) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	r.writes.Add(1)
	if err := r.Backend.Apply(ctx, tenant, b); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Written = append(r.Written, b)
	return nil
}

// Last is what was written last.
func (r *Recorder) Last() memory.Batch { return r.Written[len(r.Written)-1] }

// FloorTenant holds, in the same store, what the driver alone was given: the same
// objects, entries and terms in the same order. So its index is as large as the one
// of the tenant that is measured.
const FloorTenant = "floor"

// Mirror writes to the floor what was written since the last time, in large batches.
func (r *Recorder) Mirror(ctx context.Context) error {
	var all memory.Batch
	seen := map[string]bool{}
	flush := func() error {
		err := r.Backend.Apply(ctx, FloorTenant, all)
		all.Puts = all.Puts[:0]
		clear(seen)
		return err
	}
	for _, b := range r.Written {
		if len(all.Puts) > 5000 || slices.ContainsFunc(b.Puts, func(p memory.Put) bool { return seen[p.Key] }) {
			if err := flush(); err != nil {
				return err
			}
		}
		for _, p := range b.Puts {
			seen[p.Key] = true
		}
		all.Puts = append(all.Puts, b.Puts...)
	}
	r.Written = r.Written[:0]
	return flush()
}

// BytesOf is what a batch holds: data, entries, and its keys and terms.
func BytesOf(b memory.Batch) int {
	n := 0
	for _, p := range b.Puts {
		n += len(p.Key) + len(p.Data) + len(p.Entry)
		for _, t := range p.Add {
			n += len(t.Name) + 8
		}
	}
	return n
}

// Known reports whether there is a store of this name: sqlite, redis or postgres.
func Known(name string) bool { return backends[name] != nil }

// OpenBackend opens a fresh store whose files are in a folder, and the server that it
// needs; Close ends both. durable asks that what is acknowledged is on disk.
func OpenBackend(ctx context.Context, name, dir string, durable bool) (Backend, error) {
	open := backends[name]
	if open == nil {
		return nil, fmt.Errorf("no store %q", name)
	}
	return open(ctx, dir, durable)
}

// Open opens a fresh store whose files and keys are in a folder. durable asks that
// what is acknowledged is on disk.
func Open(ctx context.Context, name, dir string, durable bool) (*Recorder, *memory.Store, error) {
	d, err := OpenBackend(ctx, name, dir, durable)
	if err != nil {
		return nil, nil, err
	}
	keys, err := keyring.OpenOrCreate(filepath.Join(dir, "keys"), nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", err, d.Close())
	}
	r := &Recorder{Backend: d}
	s, err := memory.New(r, keys, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%w (%w)", err, d.Close())
	}
	return r, s, nil
}
