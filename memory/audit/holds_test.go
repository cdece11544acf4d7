package audit_test

import (
	"errors"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

func TestAStoreHoldsWhatItStandsOn(t *testing.T) {
	// Each case does something to a store after a row was demoted, and says whether the
	// demotion is still there.
	erase := func(b *bench) {
		if c, err := b.Erase(b.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil || c.Rows == 0 {
			b.Fatal(c, err)
		}
	}
	pack := func(b *bench) {
		if c, err := b.Compact(b.Context()); err != nil || c.Entries == 0 {
			b.Fatal(c, err)
		}
	}
	moves := func(b *bench, id memory.ID, n int) {
		for range n {
			b.verified(id)
			b.demoted(id)
		}
	}
	// back puts the row back to before its last n entries, as an older copy has it.
	back := func(b *bench, id memory.ID, n int) {
		key := memory.HeadKey(id)
		log := b.log(key)
		var gone []memory.LogEntry
		for _, l := range log[len(log)-n:] {
			gone = append(gone, memory.LogEntry{Revision: l.Revision})
		}
		b.rewrite(key, gone...)
	}
	type kept struct {
		objects []memory.Restored
		entries int
	}
	keep := func(b *bench, id memory.ID) kept { // head and evidence as they are now
		var k kept
		for _, place := range []string{"h/", "e/"} {
			k.objects = append(k.objects, memory.Restored{Object: b.object(place + memory.HeadKey(id)[2:])})
		}
		k.entries = len(b.log(memory.HeadKey(id)))
		return k
	}
	for _, c := range []struct {
		name     string
		do       func(b *bench, id memory.ID, before kept)
		held     bool
		tampered bool
	}{
		{"nothing happened since", func(*bench, memory.ID, kept) {}, true, false},
		{"the row moved on", func(b *bench, id memory.ID, _ kept) { moves(b, id, 3) }, true, false},
		{"the log was packed since", func(b *bench, id memory.ID, _ kept) { moves(b, id, 40); pack(b) }, true, false},
		{"the row was erased since", func(b *bench, id memory.ID, _ kept) { moves(b, id, 2); erase(b) }, true, false},
		{"packed and erased since", func(b *bench, id memory.ID, _ kept) { moves(b, id, 40); pack(b); erase(b) }, true, false},
		{"an older copy of the row was put back", func(b *bench, id memory.ID, k kept) {
			back(b, id, 1)
			b.restore(k.objects...)
		}, false, false},
		{"an older copy was put back, and the row moved on", func(b *bench, id memory.ID, k kept) {
			back(b, id, 1)
			b.restore(k.objects...)
			b.again() // whoever met it newer writes nothing on it
			b.demoted(id)
		}, false, false},
		{"an older copy was put back, and the row moved on further", func(b *bench, id memory.ID, k kept) {
			back(b, id, 1)
			b.restore(k.objects...)
			b.again() // whoever met it newer writes nothing on it
			b.demoted(id)
			moves(b, id, 2)
		}, false, false},
		{"the object is gone", func(b *bench, id memory.ID, k kept) {
			b.restore(memory.Restored{Object: memory.Object{Key: memory.HeadKey(id)}})
		}, false, false},
		{"an entry since is gone", func(b *bench, id memory.ID, k kept) {
			moves(b, id, 3)
			b.rewrite(memory.HeadKey(id), memory.LogEntry{Revision: uint64(k.entries + 3)})
		}, false, true},
		{"the entry itself is gone", func(b *bench, id memory.ID, k kept) {
			moves(b, id, 3)
			b.rewrite(memory.HeadKey(id), memory.LogEntry{Revision: uint64(k.entries + 1)})
		}, false, true},
		{"the entry itself was changed", func(b *bench, id memory.ID, k kept) {
			moves(b, id, 3)
			l := b.log(memory.HeadKey(id))[k.entries]
			l.Data[9] ^= 1
			b.rewrite(memory.HeadKey(id), l)
		}, false, true},
		{"the last entry is gone", func(b *bench, id memory.ID, k kept) {
			moves(b, id, 3)
			back(b, id, 1)
		}, false, true},
		{"the object is one of another log", func(b *bench, id memory.ID, k kept) {
			moves(b, id, 3)
			o := b.object(memory.HeadKey(id))
			o.Data[15] ^= 1
			b.restore(memory.Restored{Object: o})
		}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			id := b.rows(3)[1]
			b.verified(id)
			before := keep(b, id)
			b.demoted(id)
			leaf := b.leafOf(memory.HeadKey(id))
			c.do(b, id, before)
			held, err := b.Holds(t.Context(), leaf)
			switch {
			case errors.Is(err, memory.ErrTampered) != c.tampered:
				t.Fatal(held, err)
			case c.tampered:
			case err != nil || len(held) != 1 || held[0] != c.held:
				t.Fatal(held, err)
			}
		})
	}
	t.Run("many at once, of which some are not there, for few reads", func(t *testing.T) {
		const n = 1500
		b := newBench(t)
		ids := b.rows(n)
		var leaves []memory.Leaf
		for l, err := range b.Changed(t.Context(), 0) {
			must(t, err)
			leaves = append(leaves, l)
		}
		if len(leaves) != n+2 { // and two logs that every store has
			t.Fatal(len(leaves))
		}
		for _, id := range ids[:5] {
			b.verified(id)
		}
		leaves[7].Revision = 9
		leaves[8].MAC[3] ^= 1
		leaves[9].Key = memory.HeadKey("mem_00000000000000000000000000")
		leaves[10] = memory.Leaf{Key: leaves[10].Key}
		m := &meddler{Driver: b.driver}
		held, err := b.open(m, b.keys).Holds(t.Context(), leaves...)
		must(t, err)
		for i, ok := range held {
			if ok == (i >= 7 && i <= 10) {
				t.Fatalf("leaf %d of %d is held: %t", i, n, ok)
			}
		}
		if len(held) != len(leaves) || m.reads > 10 {
			t.Fatalf("%d answers, after %d reads", len(held), m.reads)
		}
		t.Logf("%d leaves after %d reads", n, m.reads)
	})
	t.Run("none, and of a store with other keys", func(t *testing.T) {
		b := newBench(t)
		if held, err := b.Holds(t.Context()); err != nil || len(held) != 0 {
			t.Fatal(held, err)
		}
		b.rows(1)
		other := newBench(t)
		if _, err := other.open(b.driver, other.keys).Holds(t.Context(), memory.Leaf{Key: "h/x", Revision: 1}); !errors.Is(err, memory.ErrKey) {
			t.Fatal(err)
		}
	})
}
