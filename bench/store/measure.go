package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// recorder keeps what the store writes through it, so that the floor can write the
// very same.
type recorder struct {
	backend
	written []memory.Batch // and not mirrored yet
}

func (r *recorder) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	r.written = append(r.written, b)
	return r.backend.Apply(ctx, tenant, b)
}

// last is what was written last.
func (r *recorder) last() memory.Batch { return r.written[len(r.written)-1] }

// floorTenant holds, in the same store, what the driver alone was given: the same
// objects, entries and terms in the same order. So its index is as large as the one
// of the tenant that is measured.
const floorTenant = "floor"

// mirror writes to the floor what was written since the last time, in large batches.
func (r *recorder) mirror(ctx context.Context) {
	var all memory.Batch
	seen := map[string]bool{}
	flush := func() {
		check(r.backend.Apply(ctx, floorTenant, all))
		all.Puts = all.Puts[:0]
		clear(seen)
	}
	for _, b := range r.written {
		if len(all.Puts) > 5000 || slices.ContainsFunc(b.Puts, func(p memory.Put) bool { return seen[p.Key] }) {
			flush()
		}
		for _, p := range b.Puts {
			seen[p.Key] = true
		}
		all.Puts = append(all.Puts, b.Puts...)
	}
	flush()
	r.written = r.written[:0]
}

// bytesOf is what a batch holds: data, entries, and its keys and terms.
func bytesOf(b memory.Batch) int {
	n := 0
	for _, p := range b.Puts {
		n += len(p.Key) + len(p.Data) + len(p.Entry)
		for _, t := range p.Add {
			n += len(t.Name) + 8
		}
	}
	return n
}

func open(ctx context.Context, o opener, dir string, durable bool) (*recorder, *memory.Store, error) {
	d, err := o(ctx, dir, durable)
	if err != nil {
		return nil, nil, err
	}
	keys, err := keyring.OpenOrCreate(filepath.Join(dir, "keys"), nil)
	if err != nil {
		return nil, nil, err
	}
	r := &recorder{backend: d}
	s, err := memory.New(r, keys, nil)
	return r, s, err
}

// draft is a row of a claim of about 200 bytes, as a tool returned it.
func draft(i int, parents ...memory.ID) memory.Draft {
	by := memory.Asserter{Principal: "bench", Tool: "crm"}
	return memory.Draft{
		Content: memory.Content{Text: claim(i), Subject: fmt.Sprint("customer-", max(i, -i)%customers), Predicate: "note", Object: fmt.Sprint("note ", i), Cardinality: memory.CardinalityUnknown},
		Origin:  memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, DerivedFrom: parents, Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "bench", Group: by.Group(), At: time.Now()}},
	}
}

const customers = 500

// subjects writes a row about each customer, so that a put that is timed makes no
// data key: that costs once a subject, and is a figure of its own.
func subjects(ctx context.Context, s *memory.Store) {
	for i := range customers {
		must(s.Put(ctx, draft(-1-i)))
	}
}

const syllables = "ba ce di fo gu ha je ki lo mu na pe ri so tu va we xi yo zu"

// claim is about 150 bytes of words, other ones for each i.
func claim(i int) string {
	parts := strings.Fields(syllables)
	r := rand.New(rand.NewPCG(uint64(i), 1))
	var b strings.Builder
	for b.Len() < 150 {
		for range 3 {
			b.WriteString(parts[r.IntN(len(parts))])
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// caught turns a panic of must into an error.
func caught(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(error)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

func check(err error) { must(0, err) }

const rowsPerCall = 20

func (b *bench) bySize(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer caught(&err)
	d, s, err := open(ctx, b.open, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	subjects(ctx, s)
	var ids []memory.ID
	var getRatios, putRatios []float64
	random := rand.New(rand.NewPCG(b.seed, 2))
	next := 0
	for _, size := range b.sizes {
		for len(ids) < size {
			ids = append(ids, must(s.Put(ctx, draft(next))).ID)
			next++
			if len(d.written) == 1000 {
				d.mirror(ctx)
			}
			if len(ids)%20_000 == 0 {
				fmt.Fprintf(b.progress, "  %d rows\n", len(ids))
			}
		}
		// Get of 20 heads: other rows on each side, so that neither finds them warm.
		pick := func() (rows []memory.ID, keys []string) {
			for range rowsPerCall {
				id := ids[random.IntN(len(ids))]
				rows, keys = append(rows, id), append(keys, memory.HeadKey(id))
			}
			return rows, keys
		}
		var rows []memory.ID
		var keys []string
		value, floor := report.Pair(b.rounds, func() {
			f, err := s.Fitness(ctx, rows)
			check(err)
			for i := range f.Heads {
				f.Heads[i].Ancestors()
			}
		}, func() { must(d.fetch(ctx, s.Tenant(), keys)) }, func() {
			rows, _ = pick()
			_, keys = pick()
		})
		f := report.Over(fmt.Sprintf("get/20_heads/%d_rows", size), "us", value, floor, 1.3, b.rounds, b.seed)
		figures, getRatios = append(figures, f), append(getRatios, f.Ratio)

		got, same, err := b.puts(ctx, d, s, &next, fmt.Sprintf("full_sync/%d_rows", size), 0.4)
		if err != nil {
			return nil, err
		}
		ids = append(ids, same...)
		figures = append(figures, got...)
		putRatios = append(putRatios, got[0].Ratio)
	}
	if len(b.sizes) > 1 {
		figures = append(figures,
			report.AtMost("get/20_heads/flat", "±", report.Spread(getRatios), 0.25, b.rounds, b.seed),
			report.AtMost("put/flat", "±", report.Spread(putRatios), 0.25, b.rounds, b.seed))
	}
	return figures, nil
}

// puts times writing a row beside a bare insert of as many bytes, and beside the
// driver writing the same objects, entries and terms.
func (b *bench) puts(ctx context.Context, d *recorder, s *memory.Store, next *int, name string, target float64) (figures []report.Figure, written []memory.ID, err error) {
	defer caught(&err)
	n := max(b.rounds/4, 50)
	size := 0
	put := func() {
		written = append(written, must(s.Put(ctx, draft(*next))).ID)
		*next++
		size = bytesOf(d.last())
	}
	put()
	d.mirror(ctx)
	floors := 0
	value, floor := report.Pair(n, put, func() {
		floors++
		check(d.insert(ctx, fmt.Sprintf("%s/%d", name, floors), bytes.Repeat([]byte{byte(floors)}, size)))
	})
	// Throughput of the store over that of the floor.
	figures = append(figures, atLeast("put/bare_insert/"+name, value, floor, target, n, b.seed))
	d.mirror(ctx)
	value, floor = report.Pair(n, put, func() {
		check(d.backend.Apply(ctx, floorTenant, d.last()))
		d.written = d.written[:0]
	})
	figures = append(figures, atLeast("put/same_objects/"+name, value, floor, 0.8, n, b.seed))
	return figures, written, nil
}

// atLeast is a figure whose ratio, of throughputs, must reach a target.
func atLeast(name string, value, floor, target float64, n int, seed uint64) report.Figure {
	f := report.Figure{Name: name, Unit: "us", Value: value, Floor: floor, Target: target, N: n, Seed: seed}
	if value > 0 {
		f.Ratio = floor / value
	}
	f.OK = f.Ratio >= target
	return f
}

func (b *bench) fast(ctx context.Context, dir string) (figures []report.Figure, err error) {
	d, s, err := open(ctx, b.open, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	subjects(ctx, s)
	next := 0
	figures, _, err = b.puts(ctx, d, s, &next, "no_sync", 0.18)
	return figures, err
}

// imports times an import of rows beside the driver writing the very batches that
// the import made, and beside the library's own bulk path for as many bytes.
func (b *bench) imports(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer caught(&err)
	n := max(b.rounds*5, 2000)
	var dump bytes.Buffer
	func() {
		at := filepath.Join(dir, "from")
		check(os.MkdirAll(at, 0o755))
		_, s, err := open(ctx, b.open, at, false)
		check(err)
		defer s.Close()
		for i := range n {
			must(s.Put(ctx, draft(i)))
		}
		must(transfer.Export(ctx, s, &dump, nil))
	}()
	at := filepath.Join(dir, "to")
	check(os.MkdirAll(at, 0o755))
	d, s, err := open(ctx, b.open, at, true)
	check(err)
	defer s.Close()
	subjects(ctx, s)
	d.mirror(ctx)
	start := time.Now()
	must(transfer.Import(ctx, s, bytes.NewReader(dump.Bytes()), transfer.Options{Actor: "bench"}))
	value := float64(time.Since(start).Microseconds()) / float64(n)
	var keys []string
	var values [][]byte
	start = time.Now()
	for _, batch := range d.written {
		check(d.backend.Apply(ctx, floorTenant, batch))
		keys, values = append(keys, fmt.Sprint("bulk", len(keys))), append(values, bytes.Repeat([]byte{1}, bytesOf(batch)))
	}
	same := float64(time.Since(start).Microseconds()) / float64(n)
	start = time.Now()
	check(d.bulk(ctx, keys, values))
	bulk := float64(time.Since(start).Microseconds()) / float64(n)
	return []report.Figure{
		atLeast("import/same_batches", value, same, 0.5, n, b.seed),
		{Name: "import/bulk_of_as_many_bytes", Unit: "us", Value: value, Floor: bulk, Ratio: bulk / value, OK: true, N: n, Seed: b.seed},
	}, nil
}

// bytes is the size of a row with a claim of 200 bytes and three transitions. The
// full text is apart: rows of one word are measured beside, and the difference of
// the terms is taken off.
func (b *bench) bytes(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer caught(&err)
	n := max(b.rounds, 500)
	measure := func(name, text string) float64 {
		at := filepath.Join(dir, name)
		check(os.MkdirAll(at, 0o755))
		d, s, err := open(ctx, b.open, at, false)
		check(err)
		defer s.Close()
		before := must(d.size(ctx))
		for i := range n {
			content := memory.Content{Text: claim(i) + " " + claim(-i)[:44], Cardinality: memory.CardinalityUnknown}
			if text == "one word" {
				content.Text = strings.ReplaceAll(content.Text, " ", "")
			}
			r := must(s.Put(ctx, memory.Draft{Content: content, Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
				Asserter: memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}}))
			revision := r.Revision
			for k, to := range []memory.AxisValue{memory.TruthSupported, memory.TruthUnverified, memory.TruthSupported} {
				t := memory.Transition{Row: r.ID, Revision: revision, To: to, Authority: memory.AuthorityProbe, Actor: "worker:host-1", Source: "crm", Reason: "the crm says so"}
				if k != 1 {
					t.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm",
						Anchor: memory.Anchor{URI: fmt.Sprint("crm:customer/", i), Version: fmt.Sprint(k)}, At: time.Now()}}
				}
				revision = must(s.Apply(ctx, t)).Revision
			}
		}
		return float64(must(d.size(ctx))-before) / float64(n)
	}
	apart, whole := measure("apart", "one word"), measure("whole", "")
	target := 2500.0
	if b.name == "redis" {
		target = 3500
	}
	return []report.Figure{
		report.AtMost("bytes/row_with_three_transitions", "B", apart, target, n, b.seed),
		{Name: "bytes/full_text_of_it", Unit: "B", Value: whole - apart, OK: true, N: n, Seed: b.seed},
	}, nil
}

func (b *bench) audit(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer caught(&err)
	_, s, err := open(ctx, b.open, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// Rows of four entries, and one claim that came back a thousand times.
	n := max(b.rounds, 500)
	for i := range n {
		r := must(s.Put(ctx, draft(i)))
		revision := r.Revision
		for _, to := range []memory.AxisValue{memory.TruthUnverified, memory.SecuritySuspicious, memory.SecurityQuarantined} {
			who := memory.AuthoritySentinel
			if to == memory.AxisValue(memory.TruthUnverified) {
				who = memory.AuthorityProbe
			}
			revision = must(s.Apply(ctx, memory.Transition{Row: r.ID, Revision: revision, To: to, Authority: who, Actor: "bench", Source: "bench", Reason: "bench"})).Revision
		}
	}
	for range 1000 {
		d := draft(0)
		d.Origin, d.State, d.Evidence, d.Anchor = memory.OriginModelDerived, memory.StateUnverified, nil, ""
		d.Asserter = memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}
		must(s.Put(ctx, d))
	}
	var best float64
	var v memory.Verification
	for range 3 {
		start := time.Now()
		v = must(s.Verify(ctx, nil, nil))
		best = max(best, float64(v.Entries)/time.Since(start).Seconds())
	}
	f := report.Figure{Name: "audit/verify", Unit: "entries/s", Value: best, Target: 300_000, OK: best >= 300_000, N: v.Entries, Seed: b.seed}
	return []report.Figure{f}, nil
}

// erasure times the erasure of a subject with many rows that were made of hers, and
// looks for a canary in the raw files afterwards.
func (b *bench) erasure(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer caught(&err)
	d, s, err := open(ctx, b.open, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const canary = "canaryhumberside"
	own := draft(0)
	own.Content = memory.Content{Subject: canary, Predicate: "lives in", Object: canary + " street 7", Cardinality: memory.CardinalityUnknown}
	up := must(s.Put(ctx, own)).ID
	ids := []memory.ID{up}
	for i := range b.derived {
		r := draft(i+1, ids[max(0, len(ids)-1-i%50)])
		r.Origin, r.State, r.Evidence = memory.OriginModelDerived, memory.StateUnverified, nil
		r.Asserter = memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}
		r.Content.Text += " " + canary
		ids = append(ids, must(s.Put(ctx, r)).ID)
		d.written = nil
	}
	start := time.Now()
	done := must(s.Erase(ctx, memory.Erasure{Subject: canary, Request: "bench", Actor: "bench"}))
	took := time.Since(start).Seconds()
	if done.Rows != len(ids) {
		return nil, fmt.Errorf("%d rows erased of %d", done.Rows, len(ids))
	}
	found, read := 0, 0
	for _, path := range d.files() {
		raw := must(os.ReadFile(path))
		read += len(raw)
		found += strings.Count(strings.ToLower(string(raw)), canary) * len(canary)
	}
	if read == 0 {
		return nil, fmt.Errorf("no raw file was read")
	}
	return []report.Figure{
		report.AtMost(fmt.Sprintf("erase/%d_derived_rows", b.derived), "s", took, 3, 1, b.seed),
		report.Exactly("erase/canary_bytes_in_raw_files", "B", float64(found), 0, read, b.seed),
	}, nil
}
