package fault

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Load is streams of batches. Each batch moves the counter of its stream and puts
// parts of its own, so that a lost batch and a half one can be told.
type Load struct {
	Tenant  string
	Streams int
	Parts   int // of a batch
	Size    int // of a part
}

// Acknowledged is a batch that a store said it has.
type Acknowledged struct {
	Stream int
	Batch  uint64 // from 0
	At     time.Time
}

func (l Load) counter(stream int) string { return fmt.Sprintf("counter/%d", stream) }

func (l Load) part(stream int, batch uint64, n int) string {
	return fmt.Sprintf("part/%d/%d/%d", stream, batch, n)
}

// content is what no store can make smaller.
func (l Load) content(batch uint64) []byte {
	random := rand.New(rand.NewPCG(batch, 0))
	b := make([]byte, 0, l.Size+8)
	for len(b) < l.Size {
		b = binary.LittleEndian.AppendUint64(b, random.Uint64())
	}
	return b[:l.Size]
}

// Batch is one batch of a stream.
func (l Load) Batch(stream int, batch uint64) memory.Batch {
	b := memory.Batch{Puts: []memory.Put{{
		Key: l.counter(stream), From: batch, Data: fmt.Append(nil, batch), Entry: fmt.Append(nil, batch), Add: []memory.Term{{Name: "counter", Sort: batch}},
	}}}
	for n := range l.Parts {
		b.Puts = append(b.Puts, memory.Put{Key: l.part(stream, batch, n), Data: l.content(batch), Entry: []byte("x"),
			Add: []memory.Term{{Name: fmt.Sprintf("batch/%d/%d", stream, batch), Sort: uint64(n)}}})
	}
	return b
}

// Write writes on all streams, each on from where it stands, until a call gives an
// error or more says that it is enough. It returns what was acknowledged, in order
// for each stream, and the first error of each stream that had one.
func (l Load) Write(ctx context.Context, d memory.Driver, more func(a Acknowledged) bool) (done []Acknowledged, errs []error) {
	var mu sync.Mutex
	var streams sync.WaitGroup
	for stream := range l.Streams {
		streams.Go(func() {
			objects, err := d.Get(ctx, l.Tenant, []string{l.counter(stream)})
			for batch := uint64(0); err == nil; batch++ {
				if batch < objects[0].Revision {
					continue
				}
				if err = d.Apply(ctx, l.Tenant, l.Batch(stream, batch)); err == nil {
					a := Acknowledged{stream, batch, time.Now()}
					mu.Lock()
					done = append(done, a)
					mu.Unlock()
					if !more(a) {
						return
					}
				}
			}
			mu.Lock()
			errs = append(errs, err)
			mu.Unlock()
		})
	}
	streams.Wait()
	return done, errs
}

// Check asks that of every stream a number of whole batches is there, and nothing
// else, and returns how many.
func (l Load) Check(ctx context.Context, d memory.Driver) (there []uint64, err error) {
	for stream := range l.Streams {
		n, err := l.check(ctx, d, stream)
		if err != nil {
			return nil, fmt.Errorf("stream %d: %w", stream, err)
		}
		there = append(there, n)
	}
	return there, nil
}

func (l Load) check(ctx context.Context, d memory.Driver, stream int) (uint64, error) {
	objects, err := d.Get(ctx, l.Tenant, []string{l.counter(stream)})
	if err != nil {
		return 0, err
	}
	written := objects[0].Revision
	entries := uint64(0)
	for {
		log, err := d.History(ctx, l.Tenant, l.counter(stream), entries, memory.MaxQueryLimit)
		if err != nil {
			return 0, err
		}
		if len(log) == 0 {
			break
		}
		entries = log[len(log)-1].Revision
	}
	if entries != written {
		return 0, fmt.Errorf("the log of the counter ends at %d of %d", entries, written)
	}
	const group = 50 // batches
	for from := uint64(0); from < written+2; from += group {
		to := min(from+group, written+2)
		var keys []string
		for batch := from; batch < to; batch++ {
			for n := range l.Parts {
				keys = append(keys, l.part(stream, batch, n))
			}
		}
		objects, err := d.Get(ctx, l.Tenant, keys)
		if err != nil {
			return 0, err
		}
		for batch := from; batch < to; batch++ {
			want := 0
			if batch < written {
				want = l.Parts
			}
			whole := 0
			for _, o := range objects[:l.Parts] {
				if o.Revision == 1 && bytes.Equal(o.Data, l.content(batch)) {
					whole++
				} else if o.Revision != 0 {
					whole = -1
				}
			}
			objects = objects[l.Parts:]
			hits, _, err := d.Query(ctx, l.Tenant, memory.Query{Term: fmt.Sprintf("batch/%d/%d", stream, batch), Limit: 2*l.Parts + 1})
			if err != nil {
				return 0, err
			}
			if whole != want || len(hits) != want {
				return 0, fmt.Errorf("batch %d of %d has %d parts and %d terms, want %d", batch, written, whole, len(hits), want)
			}
		}
	}
	return written, nil
}

// Lost counts what was acknowledged by a moment and is not there, and says when the
// oldest of it was acknowledged.
func Lost(done []Acknowledged, by time.Time, there []uint64) (lost int, oldest time.Time) {
	for _, a := range done {
		if a.At.After(by) || a.Batch < there[a.Stream] {
			continue
		}
		if lost++; oldest.IsZero() || a.At.Before(oldest) {
			oldest = a.At
		}
	}
	return lost, oldest
}
