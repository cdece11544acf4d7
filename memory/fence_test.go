package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestTheFenceMovesWithWhatTakesFromARow and with nothing else: a promotion, what a row
// is found by, and what is no input of fitness leave it alone.
func TestTheFenceMovesWithWhatTakesFromARow(t *testing.T) {
	user := memory.AuthorityUser
	for _, tc := range []struct {
		name  string
		moves bool
		do    func(b *bench, verified, pending memory.ID, note func())
	}{
		{"a row is written", false, func(b *bench, _, _ memory.ID, _ func()) { b.put(modelDraft(says("x", "is", "y"))) }},
		{"a claim comes back", false, func(b *bench, verified, _ memory.ID, note func()) { b.put(modelDraft(b.row(verified).Content)) }},
		{"a row is read", false, func(b *bench, verified, _ memory.ID, note func()) {
			if _, err := b.AddHeat(b.Context(), map[memory.ID]float64{verified: 1}); err != nil {
				b.Fatal(err)
			}
		}},
		{"a row is promoted", false, func(b *bench, _, pending memory.ID, _ func()) {
			b.mustMove(pending, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		}},
		{"a row is verified again", false, func(b *bench, verified, _ memory.ID, note func()) {
			b.pass(time.Hour)
			b.mustMove(verified, memory.TruthSupported, user, supports(memory.RankUser, "user:ana"))
		}},
		{"a row is verified again by a clock that went back", true, func(b *bench, verified, _ memory.ID, note func()) {
			b.pass(-time.Hour)
			b.mustMove(verified, memory.TruthSupported, user, supports(memory.RankUser, "user:ana"))
		}},
		{"a row is quarantined", true, func(b *bench, verified, _ memory.ID, note func()) {
			b.mustMove(verified, memory.SecurityQuarantined, memory.AuthoritySentinel)
		}},
		{"a quarantined row is cleared", false, func(b *bench, verified, _ memory.ID, note func()) {
			b.mustMove(verified, memory.SecurityQuarantined, memory.AuthoritySentinel)
			note()
			b.mustMove(verified, memory.SecurityClean, user)
		}},
		{"a row is restricted", true, func(b *bench, verified, _ memory.ID, note func()) {
			b.mustMove(verified, memory.RetrievalRestricted, user)
		}},
		{"a restricted row is shown again", false, func(b *bench, verified, _ memory.ID, note func()) {
			b.mustMove(verified, memory.RetrievalRestricted, user)
			note()
			b.mustMove(verified, memory.RetrievalNormal, user)
		}},
		{"a row is demoted", true, func(b *bench, verified, _ memory.ID, note func()) {
			b.mustMove(verified, memory.TruthContradicted, user)
		}},
		{"an outage is over", false, func(b *bench, _, _ memory.ID, _ func()) {
			d := modelDraft(says("z", "is", "y"))
			d.State = memory.StateUnavailableAtWriteTime
			b.mustMove(b.put(d).ID, memory.OutageResolved, memory.AuthorityProbe)
		}},
		{"permits are voided", false, func(b *bench, _, _ memory.ID, _ func()) {
			if err := b.BumpEpoch(b.Context(), "ops", "test"); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBenchOf(t, everything)
			verified, pending := b.put(toolDraft(berlin, "crm")).ID, b.put(modelDraft(says("bob", "city", "Bergen"))).ID
			var was memory.Fence
			note := func() { was = b.fence() }
			note()
			tc.do(b, verified, pending, note)
			if moved := b.fence() != was; moved != tc.moves {
				t.Errorf("the fence moved: %t", moved)
			}
		})
	}
}

func (b *bench) fence() memory.Fence {
	f, err := b.Fitness(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	return f.Fence
}

// TestARecordStandsOnAFenceThatWasLookedAt, and on no other one: not on the zero
// Fence, not on that of a store which was restarted since, not on one that moved for
// one of its rows; one that moved for another row alone holds.
func TestARecordStandsOnAFenceThatWasLookedAt(t *testing.T) {
	b := newBench(t)
	b.Store = nil
	d := &restarting{Driver: b.driver}
	s, err := memory.New(d, b.keys, &memory.Options{Clock: b.clock})
	if err != nil {
		t.Fatal(err)
	}
	b.Store = s
	next := 0
	put := func() memory.ID {
		next++
		return b.put(toolDraft(says("acme", fmt.Sprint("p", next), "x"), "crm")).ID
	}
	row := put()
	near, far := put(), put()
	for memory.FenceKey(near) != memory.FenceKey(row) {
		near = put()
	}
	for memory.FenceKey(far) == memory.FenceKey(row) {
		far = put()
	}
	epoch := uint64(1)
	record := func(f *memory.Fence) error {
		return b.Record(t.Context(), memory.DecisionRecord{ID: b.NewDecisionID(), Epoch: epoch, Tool: "pay", Run: "r", Fired: true, Rows: []memory.Cited{{Row: row, Revision: 1}}, Fence: f})
	}
	if err := record(&memory.Fence{}); !errors.Is(err, memory.ErrInvalid) {
		t.Errorf("the zero fence: %v", err)
	}
	f := b.fence()
	if err := record(&f); err != nil {
		t.Error(err)
	}
	b.mustMove(far, memory.SecuritySuspicious, memory.AuthoritySentinel)
	if err := record(&f); err != nil {
		t.Errorf("another row's fence moved: %v", err)
	}
	b.mustMove(near, memory.SecuritySuspicious, memory.AuthoritySentinel)
	if err := record(&f); !errors.Is(err, memory.ErrConflict) {
		t.Errorf("its fence moved: %v", err)
	}
	f = b.fence()
	d.n++
	now, err := b.Fitness(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	epoch = now.Epoch // which was bumped, so that it is not what refuses
	if err := record(&f); !errors.Is(err, memory.ErrConflict) {
		t.Errorf("the server was restarted: %v", err)
	}
	if err := record(&now.Fence); err != nil {
		t.Errorf("looked at again: %v", err)
	}
}

// restarting is a driver whose server was restarted n times.
type restarting struct {
	memory.Driver
	n uint64
}

func (r *restarting) Incarnation() uint64 { return r.n }

// TestTwoDemotionsMeetAtOneFence: of two processes that take from rows of one fence at
// once, one is written under the other, looks again, and is done.
func TestTwoDemotionsMeetAtOneFence(t *testing.T) {
	d := &meeting{Driver: storetest.NewMap()}
	keys := newBench(t).keys
	var stores [2]*memory.Store
	for i := range stores {
		s, err := memory.New(d, keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		stores[i] = s
	}
	var ids []memory.ID
	for len(ids) < 40 {
		r, err := stores[0].Put(t.Context(), toolDraft(says("acme", fmt.Sprint("p", len(ids)), "x"), "crm"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	demote := func(s *memory.Store, id memory.ID) {
		if _, err := s.Apply(t.Context(), memory.Transition{Row: id, Revision: 1, To: memory.SecuritySuspicious, Authority: memory.AuthoritySentinel,
			Actor: "w", Source: "test", Reason: "test"}); err != nil {
			t.Error(err)
		}
	}
	for i := range 20 {
		d.before = func() { demote(stores[1], ids[20+i]) }
		demote(stores[0], ids[i])
	}
	moves, seen := uint64(0), map[string]bool{}
	for _, id := range ids {
		if key := memory.FenceKey(id); !seen[key] {
			seen[key] = true
			objs, err := d.Get(t.Context(), "default", []string{key})
			if err != nil {
				t.Fatal(err)
			}
			moves += objs[0].Revision
		}
	}
	t.Logf("%d demotions, %d conflicts at a fence", len(ids), d.conflicts)
	moves -= uint64(len(seen)) // each was made with the store
	if moves != uint64(len(ids)) || d.conflicts == 0 {
		t.Errorf("the fence moved %d times, with %d conflicts", moves, d.conflicts)
	}
}

// meeting is a driver below which something happens before a write that moves a fence.
type meeting struct {
	memory.Driver
	before    func()
	conflicts int
}

func (m *meeting) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	fence := func(key string) bool { return strings.HasPrefix(memory.KeyText(key), "fence/") }
	if before := m.before; before != nil && slices.ContainsFunc(b.Puts, func(p memory.Put) bool { return fence(p.Key) }) {
		m.before = nil
		before()
	}
	err := m.Driver.Apply(ctx, tenant, b)
	if conflict := (*memory.ConflictError)(nil); errors.As(err, &conflict) && fence(conflict.Key) {
		m.conflicts++
	}
	return err
}
