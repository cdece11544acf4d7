package agent

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// Fork begins a run for a part of the task, such as reading what a stranger wrote. It
// starts with the whole ledger of its parent, with the principal's words and with the
// parent's handles; what it reads from then on is in its own ledger only. Its way back
// is [Run.Join].
func (r *Run) Fork() (*Run, error) {
	if err := r.ready(); err != nil {
		return nil, err
	}
	return &Run{agent: r.agent, id: "run_" + strings.ToLower(rand.Text()), principal: r.principal, ledger: r.ledger.fork(), parent: r}, nil
}

// Join writes down what a fork found out, as [Run.Remember] does, and gives its parent
// a handle for it. The row is derived from all that the fork has read, and it is not
// fit until somebody else has verified it; the note's text does not reach the parent.
// A note that collapses onto a row the fork was served gives a handle that still
// carries the whole ledger of the fork (I-8). A fork may be joined more than once.
func (r *Run) Join(ctx context.Context, n Note) (Handle, error) {
	if err := r.readyIn(ctx); err != nil {
		return Handle{}, err
	}
	if r.parent == nil {
		return Handle{}, ErrNotForked
	}
	receipt, err := r.Remember(ctx, n)
	if err != nil {
		return Handle{}, err
	}
	now := r.ledger.snapshot() // after the write: what was read meanwhile counts too
	from := []memory.ID{receipt.ID}
	if receipt.Disposition != memory.Created {
		for _, id := range now.direct {
			if id != receipt.ID {
				from = append(from, id)
			}
		}
	}
	rows, err := r.agent.store.Get(ctx, from...)
	if err != nil {
		return Handle{}, fmt.Errorf("agent: reading rows: %w", err)
	}
	return r.parent.refer(ctx, referred{rows: rows, unknown: now.unknown, words: r.ledger.askedWords()})
}
