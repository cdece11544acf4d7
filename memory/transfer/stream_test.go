package transfer_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// long is how many lines a long dump has.
var long = 100_000

var million = flag.Bool("million", false, "import 1,000,000 lines into SQLite")

// sink is a driver that forgets what it is given but what is of the whole store, so that
// what grows is the importer.
type sink struct {
	memory.Driver
	system map[string]memory.Object
	rows   int
}

func (d *sink) Apply(_ context.Context, _ string, b memory.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	for _, p := range b.Puts {
		switch {
		case strings.HasPrefix(p.Key, "s/"):
			d.system[p.Key] = memory.Object{Key: p.Key, Revision: p.From + 1, Data: p.Data}
		case strings.HasPrefix(p.Key, "h/"):
			d.rows++
		}
	}
	return nil
}

func (d *sink) Get(_ context.Context, _ string, keys []string) ([]memory.Object, error) {
	out := make([]memory.Object, len(keys))
	for i, k := range keys {
		out[i] = d.system[k]
		out[i].Key = k
	}
	return out, nil
}

// line is a row of the size that rows have.
func line(i int) string {
	return fmt.Sprintf(template, i, i%1000, i, i/100)
}

var template = strings.NewReplacer(string(id(0)), "mem_%025d0", `"claim 0"`, `"customer %d said on the phone that order %d of last month had not arrived and should be sent again to the office in Hamburg"`,
	`"security"`, `"run":"run-%d","security"`).Replace(object(0, nil))

// heap is how much of it is live at most, at the moments that are looked at.
type heap struct{ floor, peak uint64 }

func (h *heap) look() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if h.floor == 0 {
		h.floor = m.HeapAlloc
	}
	h.peak = max(h.peak, m.HeapAlloc)
}

func (h *heap) grown() uint64 { return (h.peak - h.floor) >> 20 }

func TestALongDumpTakesTheMemoryOfABatch(t *testing.T) {
	const ceiling = 48 // MiB
	n := long
	d := &sink{Driver: storetest.NewMap(), system: map[string]memory.Object{}}
	s := storetest.On(d, nil)
	h := &heap{}
	h.look()
	calls, last := 0, 0
	start := time.Now()
	r, err := transfer.Import(t.Context(), s, transfer.Stream(header, n, line), transfer.Options{Actor: "op", Progress: func(r transfer.Report) {
		if r.Lines < last || r.Bytes == 0 {
			t.Errorf("%+v", r)
		}
		last = r.Lines
		if calls++; calls%50 == 0 {
			h.look()
		}
	}})
	if err != nil || r.Rows != n || d.rows != n || r.Rejected != 0 || calls < n/1000 {
		t.Fatalf("%+v %v, %d rows, %d calls", r, err, d.rows, calls)
	}
	if h.grown() > ceiling {
		t.Fatalf("the heap grew by %d MiB", h.grown())
	}
	t.Logf("%d lines, %d MiB in %s, heap + %d MiB", r.Lines, r.Bytes>>20, time.Since(start).Round(time.Millisecond), h.grown())
}

// TestAMillionLinesGoIntoSQLite runs with -million: it takes minutes, and some GB.
func TestAMillionLinesGoIntoSQLite(t *testing.T) {
	n := 2_000
	if *million {
		n = 1_000_000
	}
	s := openSQLite(t)
	h := &heap{}
	h.look()
	calls := 0
	start := time.Now()
	r, err := transfer.Import(t.Context(), s, transfer.Stream(header, n, line), transfer.Options{Actor: "op", Progress: func(r transfer.Report) {
		if calls++; calls%50 == 0 {
			h.look()
			t.Logf("%d lines, %s, heap + %d MiB", r.Lines, time.Since(start).Round(time.Second), h.grown())
		}
	}})
	if err != nil || r.Rows != n {
		t.Fatalf("%+v %v", r, err)
	}
	if h.look(); h.grown() > 96 {
		t.Fatalf("the heap grew by %d MiB", h.grown())
	}
	t.Logf("%d lines in %s", n, time.Since(start).Round(time.Millisecond))
	f, err := os.Create(filepath.Join(t.TempDir(), "dump"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	start = time.Now()
	x, err := transfer.Export(t.Context(), s, f, nil)
	if err != nil || x.Rows != n {
		t.Fatal(x, err)
	}
	if h.look(); h.grown() > 96 {
		t.Fatalf("the heap grew by %d MiB", h.grown())
	}
	t.Logf("%d rows, %d MiB out in %s", x.Rows, x.Bytes>>20, time.Since(start).Round(time.Millisecond))
}

func openSQLite(t testing.TB) *memory.Store {
	t.Helper()
	d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.On(d, nil)
	t.Cleanup(func() { s.Close() })
	return s
}

// taped notes what is applied.
type taped struct {
	memory.Driver
	tape []memory.Batch
}

func (d *taped) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	d.tape = append(d.tape, b)
	return d.Driver.Apply(ctx, tenant, b)
}

// BenchmarkImport imports into SQLite, and then has a second SQLite apply the very
// same bytes: the bulk path of the driver with nothing before it.
func BenchmarkImport(b *testing.B) {
	const n = 5_000
	var dump bytes.Buffer
	if _, err := dump.ReadFrom(transfer.Stream(header, n, line)); err != nil {
		b.Fatal(err)
	}
	var imported, bare time.Duration
	for b.Loop() {
		open := func() *taped {
			d, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "agent.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			return &taped{Driver: d}
		}
		d := open()
		s := storetest.On(d, nil)
		start := time.Now()
		r, err := transfer.Import(b.Context(), s, bytes.NewReader(dump.Bytes()), transfer.Options{Actor: "op"})
		imported += time.Since(start)
		if err != nil || r.Rows != n {
			b.Fatal(r, err)
		}
		s.Close()
		second := open()
		start = time.Now()
		for _, batch := range d.tape {
			if err := second.Driver.Apply(b.Context(), "default", batch); err != nil {
				b.Fatal(err)
			}
		}
		bare += time.Since(start)
		second.Close()
	}
	b.ReportMetric(float64(n*b.N)/imported.Seconds(), "rows/s")
	b.ReportMetric(float64(n*b.N)/bare.Seconds(), "bare-rows/s")
	b.ReportMetric(bare.Seconds()/imported.Seconds(), "of-bare")
}
