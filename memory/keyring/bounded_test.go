package keyring_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// heap is what is live after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// use makes and uses the keys of subjects.
func use(tb testing.TB, k *keyring.Ring, from, to int) {
	tb.Helper()
	for at := from; at < to; at += 1000 {
		var names []string
		for n := at; n < min(at+1000, to); n++ {
			names = append(names, fmt.Sprint("subject ", n))
		}
		ids, err := k.Prepare(tb.Context(), names...)
		if err != nil {
			tb.Fatal(err)
		}
		for _, id := range ids {
			if _, err := k.Seal(tb.Context(), id, []byte("text"), nil); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func TestWhatARingKeepsInMemoryDoesNotGrowWithItsSubjects(t *testing.T) {
	t.Parallel()
	const cache = 500
	dir := fresh(t)
	create(t, dir)
	k := must(keyring.Open(dir, &keyring.Options{Cache: cache}))(t)
	use(t, k, 0, 4000)
	if keys, subjects := keyring.Cached(k); keys != cache || subjects != cache {
		t.Fatalf("%d keys and %d subjects are in memory, want %d of each", keys, subjects, cache)
	}
	var first memory.KeyID = key(t, k, "subject 1") // which is in memory no more
	opens(t, k, first, seal(t, k, first, "text"), "text")
}

func BenchmarkAMillionSubjects(b *testing.B) {
	for b.Loop() {
		dir := b.TempDir() + "/keys"
		k, err := keyring.Create(dir, nil)
		if err != nil {
			b.Fatal(err)
		}
		use(b, k, 0, 100_000)
		before := heap()
		use(b, k, 100_000, 1_000_000)
		b.ReportMetric(float64(before)/(1<<20), "MB-at-100k")
		b.ReportMetric(float64(heap())/(1<<20), "MB-at-1M")
		runtime.KeepAlive(k)
	}
}
