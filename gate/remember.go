package gate

import (
	"context"
	"sync"

	"github.com/hearsay-go/hearsay/memory"
)

// memo keeps, by run, the heads that its last permits were judged on, and where the
// demotion fence of the store stood when they were read. As long as the fence stands
// there nothing was taken from any of them: whatever they permit, their rows as they
// are now permit too. Whether it stands there still is asked in the transaction that consumes
// the permit, and nowhere else; so what is kept here may be as old as it likes.
type memo struct {
	mu    sync.Mutex
	runs  map[string]*reading
	heads int
}

// memoHeads is how many heads are kept: some 25 MB at most.
const memoHeads = 1 << 16

// reading is what was read of the rows of a run. It is immutable.
type reading struct {
	ids []memory.ID
	memory.Fitness
	at map[memory.ID]int // where in Heads
}

// of returns what is kept of a run, or nil.
func (m *memo) of(run string) *reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runs[run]
}

// keep adds what was read to what is kept of a run. Of two readings between which
// something was taken from a row only the later one is kept; of a store without a
// fence nothing is.
func (m *memo) keep(run string, ids []memory.ID, f memory.Fitness) {
	if f.Fence == (memory.Fence{}) || len(ids) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.runs[run]
	r := &reading{Fitness: f, at: make(map[memory.ID]int, len(ids))}
	r.Heads = make([]memory.Head, 0, len(ids))
	for i, id := range ids {
		r.add(id, f.Heads[i].WithoutLineage())
	}
	if old != nil {
		m.heads -= len(old.Heads)
		if old.Fence == f.Fence && old.Epoch == f.Epoch && len(old.Heads)+len(ids) <= MaxLineage {
			for i, id := range old.ids {
				r.add(id, old.Heads[i])
			}
		}
	}
	if m.heads += len(r.Heads); m.heads > memoHeads || m.runs == nil {
		m.runs, m.heads = map[string]*reading{}, len(r.Heads)
	}
	m.runs[run] = r
}

func (r *reading) add(id memory.ID, h memory.Head) {
	if _, ok := r.at[id]; !ok {
		r.at[id] = len(r.ids)
		r.ids, r.Heads = append(r.ids, id), append(r.Heads, h)
	}
}

func (m *memo) forget(run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[run]; r != nil {
		m.heads -= len(r.Heads)
		delete(m.runs, run)
	}
}

// known are the heads of rows in their order, and those of the rows that were not read.
func (r *reading) known(ids []memory.ID) (heads []memory.Head, missing []memory.ID) {
	if len(ids) <= len(r.ids) {
		same := true
		for i := range ids {
			if same = ids[i] == r.ids[i]; !same {
				break
			}
		}
		if same {
			return r.Heads[:len(ids):len(ids)], nil
		}
	}
	heads = make([]memory.Head, len(ids))
	for i, id := range ids {
		if at, ok := r.at[id]; ok {
			heads[i] = r.Heads[at]
		} else {
			missing = append(missing, id)
		}
	}
	return heads, missing
}

// remembered is the fitness of the rows of a request as far as it is known without
// reading them again. If the run has read a few more since, those are read. ok is
// false if it is not known, or known not to hold any more.
func (g *Gate) remembered(ctx context.Context, req *Request) (f memory.Fitness, ok bool) {
	r := g.memo.of(req.Run)
	if r == nil || req.Lineage.len() > MaxLineage || ctx.Err() != nil {
		return f, false
	}
	ids := req.Lineage.ids()
	heads, missing := r.known(ids)
	switch {
	case len(missing) > len(ids)/2:
		return f, false // it is another lineage
	case len(missing) > 0:
		fresh, err := g.store.FitnessFor(ctx, missing, memory.Digest{}, memory.Digest{})
		if err != nil || len(fresh.Heads) != len(missing) {
			return f, false // whoever reads all of them hears of it
		}
		if fresh.Fence != r.Fence || fresh.Epoch != r.Epoch {
			g.memo.forget(req.Run)
			return f, false
		}
		for i, j := 0, 0; j < len(missing); i++ {
			if ids[i] == missing[j] {
				heads[i] = fresh.Heads[j]
				j++
			}
		}
		g.memo.keep(req.Run, ids, memory.Fitness{Heads: heads, Epoch: r.Epoch, Fence: r.Fence})
	}
	return memory.Fitness{Heads: heads, Epoch: r.Epoch, Fence: r.Fence, Now: g.store.Now()}, true
}
