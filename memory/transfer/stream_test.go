package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// sink is a driver that forgets what it is given but what is of the whole store, so that
// what grows is the importer.
type sink struct {
	memory.Driver
	system map[string]memory.Object
	rows   int
	apply  func()
}

func (d *sink) Apply(_ context.Context, _ string, b memory.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if d.apply != nil {
		d.apply()
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

// metered counts the bytes that are read.
type metered struct {
	io.Reader
	n int
}

func (m *metered) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	m.n += n
	return n, err
}

// What an import holds is what it has read and not yet applied.
func TestAnImportReadsABatchAhead(t *testing.T) {
	const n, ceiling = 20_000, 5 << 20 // the bytes of a batch, and what is buffered
	in := &metered{Reader: transfer.Stream(header, n, line)}
	ahead, before := 0, 0
	d := &sink{Driver: storetest.NewMap(), system: map[string]memory.Object{}, apply: func() {
		ahead = max(ahead, in.n-before)
		before = in.n
	}}
	calls, last := 0, 0
	r, err := transfer.Import(t.Context(), storetest.On(d, nil), in, transfer.Options{Actor: "op", Progress: func(r transfer.Report) {
		if r.Lines < last || r.Bytes == 0 {
			t.Errorf("%+v", r)
		}
		last = r.Lines
		calls++
	}})
	if err != nil || r.Rows != n || d.rows != n || r.Rejected != 0 || calls < n/1000 {
		t.Fatalf("%+v %v, %d rows, %d calls", r, err, d.rows, calls)
	}
	if ahead == 0 || ahead > ceiling {
		t.Fatalf("%d of %d bytes were read between two batches", ahead, in.n)
	}
	t.Logf("%d lines, %d MiB, %d kiB at most between two batches", r.Lines, r.Bytes>>20, ahead>>10)
}

// source counts the rows that are fetched.
type source struct {
	memory.Driver
	fetched map[string]bool
}

func (d *source) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	for _, k := range keys {
		if strings.HasPrefix(k, "h/") {
			d.fetched[k] = true
		}
	}
	return d.Driver.Get(ctx, tenant, keys)
}

// lines counts the lines that are written.
type lines int

func (n *lines) Write(b []byte) (int, error) {
	*n += lines(bytes.Count(b, []byte("\n")))
	return len(b), nil
}

func TestAnExportWritesWhatItFetches(t *testing.T) {
	const ceiling = 3_000 // a page, and what a buffer of a MiB holds
	n := 6_000
	if sample.Full() {
		n = 100_000
	}
	d := &source{Driver: sqlite(t), fetched: map[string]bool{}}
	s := storetest.On(d, nil)
	defer s.Close()
	if r, err := transfer.Import(t.Context(), s, transfer.Stream(header, n, line), transfer.Options{Actor: "op"}); err != nil || r.Rows != n {
		t.Fatalf("%+v %v", r, err)
	}
	d.fetched = map[string]bool{}
	var out lines
	ahead := 0
	x, err := transfer.Export(t.Context(), s, writer(func(b []byte) (int, error) {
		ahead = max(ahead, len(d.fetched)-int(out))
		return out.Write(b)
	}), nil)
	if err != nil || x.Rows != n || len(d.fetched) < n || int(out) < n {
		t.Fatalf("%+v %v; %d rows fetched, %d lines", x, err, len(d.fetched), out)
	}
	if ahead == 0 || ahead > ceiling {
		t.Fatalf("%d of %d rows were fetched and not written", ahead, n)
	}
	t.Logf("%d rows, %d at most fetched and not written", n, ahead)
}

type writer func(b []byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// BenchmarkALongDump measures how much the heap grows in an import of 100,000 lines.
func BenchmarkALongDump(b *testing.B) {
	const n = 100_000
	for b.Loop() {
		d := &sink{Driver: storetest.NewMap(), system: map[string]memory.Object{}}
		h := &heap{}
		h.look()
		calls := 0
		r, err := transfer.Import(b.Context(), storetest.On(d, nil), transfer.Stream(header, n, line), transfer.Options{Actor: "op", Progress: func(transfer.Report) {
			if calls++; calls%50 == 0 {
				h.look()
			}
		}})
		if err != nil || r.Rows != n {
			b.Fatal(r, err)
		}
		b.ReportMetric(float64(h.grown()), "MiB-grown")
	}
}

func sqlite(t testing.TB) memory.Driver {
	t.Helper()
	d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
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
