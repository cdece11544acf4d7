package recall

import (
	"context"
	"errors"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

// Lineage is what [Judge] asks of a store; a [*memory.Store] is one.
type Lineage interface {
	// Closures returns the strict ancestors of each row, in the order of the rows.
	Closures(ctx context.Context, ids ...memory.ID) ([]memory.Ancestry, error)
	// Fitness returns the current heads of rows, in their order.
	Fitness(ctx context.Context, ids []memory.ID) (memory.Fitness, error)
}

// judged is how many ancestors are read in one trip.
const judged = 5000

// Judge holds rows that are about to be shown against their ancestors, as the gate
// does: a row made from one that is held ([memory.Head.Held]) gets FlagTainted in the
// copy it returns, so that it is in no channel and its words are withheld. What cannot
// be traced is tainted too. On error nothing is returned.
func Judge(ctx context.Context, store Lineage, rows []memory.Row) ([]memory.Row, error) {
	above, lost := make([][]memory.ID, len(rows)), make([]bool, len(rows))
	var far []memory.ID // rows whose heads do not list what is above them
	var at []int
	for i := range rows {
		ids, inline := rows[i].Ancestors()
		if above[i] = ids; !inline {
			far, at = append(far, rows[i].ID), append(at, i)
		}
	}
	if len(far) > 0 {
		up, err := store.Closures(ctx, far...)
		if err != nil {
			return nil, err
		}
		for n, i := range at {
			if n >= len(up) { // nobody knows what is above it
				lost[i] = true
				continue
			}
			above[i] = up[n].IDs
			switch err := up[n].Err; {
			case errors.Is(err, memory.ErrClosureTooLarge), errors.Is(err, memory.ErrDamaged):
				lost[i] = true
			case err != nil:
				return nil, err
			}
		}
	}
	held := map[memory.ID]bool{} // of every ancestor, once it is known
	var ask []memory.ID
	for _, ids := range above {
		for _, id := range ids {
			if _, have := held[id]; !have {
				held[id] = true
				ask = append(ask, id)
			}
		}
	}
	for part := range slices.Chunk(ask, judged) {
		f, err := store.Fitness(ctx, part)
		if err != nil {
			return nil, err
		}
		for i, id := range part {
			if i < len(f.Heads) && f.Heads[i].ID == id && f.Heads[i].Revision != 0 {
				held[id] = f.Heads[i].Held()
			}
		}
	}
	out := slices.Clone(rows)
	for i := range out {
		if lost[i] || slices.ContainsFunc(above[i], func(id memory.ID) bool { return held[id] }) {
			out[i].Flags |= memory.FlagTainted
		}
	}
	return out, nil
}
