package gate

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
)

// lineages is a store that has rows to climb.
type lineages struct {
	Store
	rows map[memory.ID]memory.Row
	read int
}

func (l *lineages) Get(_ context.Context, ids ...memory.ID) ([]memory.Row, error) {
	out := make([]memory.Row, len(ids))
	for i, id := range ids {
		out[i] = l.rows[id]
	}
	l.read += len(ids)
	return out, nil
}

// TestAClimbEndsWhereTheWayIsKnown: what is told of the rows at fault is the same as if all rows
// above them had been read, and the way to a root that nobody verified is the shortest.
func TestAClimbEndsWhereTheWayIsKnown(t *testing.T) {
	spared := 0
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "rows")
		ids := make([]memory.ID, n)
		l := &lineages{rows: map[memory.ID]memory.Row{}}
		for i := range ids {
			ids[i] = memory.ID(fmt.Sprintf("mem_%025d0", i))
			var r memory.Row
			r.ID, r.Revision = ids[i], 1
			if rapid.IntRange(0, 2).Draw(t, "verified") > 0 {
				r.Truth = memory.TruthSupported
			}
			if i > 0 && rapid.IntRange(0, 3).Draw(t, "made") > 0 {
				r.DerivedFrom = slices.Compact(slices.Sorted(slices.Values(rapid.SliceOfN(rapid.SampledFrom(ids[:i]), 1, 4).Draw(t, "parents"))))
			}
			l.rows[ids[i]] = r
		}
		all := map[memory.ID]*memory.Row{}
		for id, r := range l.rows {
			all[id] = &r
		}
		direct := rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 3, rapid.ID).Draw(t, "direct")
		var at []RowAtFault
		for _, id := range rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 4, rapid.ID).Draw(t, "at fault") {
			at = append(at, RowAtFault{ID: id, Ancestor: !slices.Contains(direct, id)})
		}
		g := &Gate{store: l}
		rows := g.climb(t.Context(), at, direct, nil)
		for _, r := range at {
			got, want := r, r
			got.describeFrom(rows, direct, false)
			want.describeFrom(all, direct, false)
			if len(got.Chain) != len(want.Chain) || len(got.Chain) > 0 && got.Chain[0] != want.Chain[0] && !r.Ancestor {
				t.Fatalf("the way of %s is %v, want %v", r.ID, got.Chain, want.Chain)
			}
			if end := len(got.Chain) - 1; end >= 0 && all[got.Chain[end]].Truth != all[want.Chain[end]].Truth {
				t.Fatalf("the way of %s ends at %v, want %v", r.ID, got.Chain, want.Chain)
			}
		}
		reach := map[memory.ID]bool{}
		queue := slices.Clone(direct)
		for _, r := range at {
			if !r.Ancestor {
				queue = append(queue, r.ID)
			}
		}
		for len(queue) > 0 {
			id := queue[0]
			if queue = queue[1:]; !reach[id] {
				reach[id] = true
				queue = append(queue, l.rows[id].DerivedFrom...)
			}
		}
		if l.read < len(reach) {
			spared++
		}
	})
	if spared == 0 {
		t.Error("no climb ended early")
	}
}

// TestTheShortestWayIsTold: the way from the inputs of a call to an ancestor at fault is the shortest
// from any of them, and not the first one's.
func TestTheShortestWayIsTold(t *testing.T) {
	id := func(n int) memory.ID { return memory.ID(fmt.Sprintf("mem_%025d0", n)) }
	const fault, first, second = 0, 3, 4
	l, all := &lineages{rows: map[memory.ID]memory.Row{}}, map[memory.ID]*memory.Row{}
	for n, from := range map[int][]memory.ID{fault: nil, 1: {id(fault)}, 2: {id(1)}, first: {id(2)}, second: {id(fault)}} {
		var r memory.Row
		r.ID, r.Revision, r.DerivedFrom = id(n), 1, from
		l.rows[r.ID], all[r.ID] = r, &r
	}
	direct, at := []memory.ID{id(first), id(second)}, RowAtFault{ID: id(fault), Ancestor: true}
	for name, rows := range map[string]map[memory.ID]*memory.Row{
		"as far as it climbs": (&Gate{store: l}).climb(t.Context(), []RowAtFault{at}, direct, nil),
		"all rows":            all,
	} {
		r := at
		if r.describeFrom(rows, direct, false); !slices.Equal(r.Chain, []memory.ID{id(second), id(fault)}) {
			t.Errorf("%s: the way is %v", name, r.Chain)
		}
	}
}
