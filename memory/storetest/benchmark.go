package storetest

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// Benchmark measures a driver: reads among 10,000 objects of 300 bytes with
// time-ordered keys, a page of a log, a put, and a batch like the one that moves a
// row. It calls open once for each benchmark; open must return a fresh and empty
// store.
func Benchmark(b *testing.B, open func(b *testing.B) memory.Driver) {
	const tenant, objects = "tenant", 10_000
	random := rand.New(rand.NewPCG(1, 2))
	key := func(i int) string { return fmt.Sprintf("head/row_%016x%016x", i, uint64(i)*0x9e3779b97f4a7c15) }
	fill := func(b *testing.B, n int) memory.Driver {
		b.Helper()
		d := open(b)
		b.Cleanup(func() {
			if err := d.Close(); err != nil && !errors.Is(err, memory.ErrClosed) {
				b.Error(err)
			}
		})
		for from := 0; from < n; from += 1000 {
			var batch memory.Batch
			for i := from; i < min(from+1000, n); i++ {
				content := make([]byte, 300)
				for j := range content {
					content[j] = byte(random.Uint32())
				}
				batch.Puts = append(batch.Puts, memory.Put{Key: key(i), Data: content, Add: []memory.Term{{Name: "row", Sort: math.MaxUint64 - uint64(i)}}})
			}
			if err := d.Apply(b.Context(), tenant, batch); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportAllocs()
		return d
	}
	get := func(b *testing.B, d memory.Driver, r *rand.Rand, n int) error {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = key(r.IntN(objects))
		}
		got, err := d.Get(b.Context(), tenant, keys)
		if err == nil && (len(got) != n || got[0].Revision != 1 || len(got[n-1].Data) != 300) {
			err = errors.New("the answer is wrong")
		}
		return err
	}
	for _, n := range []int{1, 20, 1000} {
		b.Run(fmt.Sprintf("Get%d", n), func(b *testing.B) {
			d := fill(b, objects)
			for b.Loop() {
				if err := get(b, d, random, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Get20Parallel", func(b *testing.B) {
		d := fill(b, objects)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			r := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for pb.Next() {
				if err := get(b, d, r, 20); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
	b.Run("Query50", func(b *testing.B) {
		d := fill(b, objects)
		for b.Loop() {
			hits, next, err := d.Query(b.Context(), tenant, memory.Query{Term: "row", From: random.Uint64N(objects / 2), Limit: 50})
			if err != nil || len(hits) != 50 || next == "" {
				b.Fatalf("%d hits: %v", len(hits), err)
			}
		}
	})
	b.Run("History50", func(b *testing.B) {
		d := fill(b, 0)
		const entries = 500
		for i := range uint64(entries) {
			if err := d.Apply(b.Context(), tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: i, Entry: make([]byte, 400)}}}); err != nil {
				b.Fatal(err)
			}
		}
		for b.Loop() {
			log, err := d.History(b.Context(), tenant, "k", random.Uint64N(entries-50), 50)
			if err != nil || len(log) != 50 {
				b.Fatalf("%d entries: %v", len(log), err)
			}
		}
	})
	b.Run("Put", func(b *testing.B) {
		d := fill(b, objects)
		content := make([]byte, 500)
		for i := objects; b.Loop(); i++ {
			if err := d.Apply(b.Context(), tenant, memory.Batch{Puts: []memory.Put{{Key: key(i), Data: content}}}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Transition", func(b *testing.B) { // a head, its log entry, four terms, three checks, a due mark
		d := fill(b, objects)
		head, entry := make([]byte, 300), make([]byte, 400)
		for i := uint64(0); b.Loop(); i++ {
			row, from := int(i%objects), 1+i/objects
			err := d.Apply(b.Context(), tenant, memory.Batch{
				Checks: []memory.Check{{Key: "sys/epoch"}, {Key: "claim/1"}, {Key: "ident/1"}},
				Puts: []memory.Put{
					{Key: key(row), From: from, Data: head, Entry: entry, Remove: []string{fmt.Sprintf("state=%d", i/objects)}, Add: []memory.Term{
						{Name: fmt.Sprintf("state=%d", i/objects+1), Sort: i}, {Name: "row", Sort: math.MaxUint64 - i}, {Name: "verified", Sort: i},
					}},
					{Key: "due/" + key(row), From: from - 1, Add: []memory.Term{{Name: "due", Sort: i}}},
				},
			})
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Check1000", func(b *testing.B) {
		d := fill(b, objects)
		var batch memory.Batch
		for i := range 1000 {
			batch.Checks = append(batch.Checks, memory.Check{Key: key(i * 10), Revision: 1})
		}
		for b.Loop() {
			if err := d.Apply(b.Context(), tenant, batch); err != nil {
				b.Fatal(err)
			}
		}
	})
}
