package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// draft is a row of a claim of about 200 bytes, as a tool returned it.
func draft(i int, parents ...memory.ID) memory.Draft {
	by := memory.Asserter{Principal: "bench", Tool: "crm"}
	return memory.Draft{
		Content: memory.Content{Subject: fmt.Sprint("customer-", max(i, -i)%customers), Predicate: "note", Object: fmt.Sprint("note ", i, ": ", claim(i)), Cardinality: memory.CardinalityUnknown},
		Origin:  memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, DerivedFrom: parents, Sensitivity: memory.SensitivityInternal,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "bench", Group: by.Group(), At: time.Now()}},
	}
}

const customers = 500

// subjects writes a row about each customer, so that a put that is timed makes no
// data key: that costs once a subject, and is a figure of its own.
func subjects(ctx context.Context, s *memory.Store) {
	for i := range customers {
		report.Must(s.Put(ctx, draft(-1-i)))
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

const rowsPerCall = 20

func (b *bench) bySize(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.name, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	subjects(ctx, s)
	var ids []memory.ID
	var getRatios, putRatios, sameRatios []float64
	random := rand.New(rand.NewPCG(b.seed, 2))
	next := 0
	for _, size := range b.sizes {
		for len(ids) < size {
			more, err := fill(ctx, s, next, min(1000, size-len(ids)))
			report.Check(err)
			ids = append(ids, more...)
			next += len(more)
			report.Check(d.Mirror(ctx))
			if len(ids)/20_000 > (len(ids)-len(more))/20_000 {
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
			report.Check(err)
			for i := range f.Heads {
				f.Heads[i].Ancestors()
			}
		}, func() { report.Must(d.Fetch(ctx, s.Tenant(), keys)) }, func() {
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
		putRatios, sameRatios = append(putRatios, got[0].Ratio), append(sameRatios, got[1].Ratio)
	}
	if len(b.sizes) > 1 {
		figures = append(figures,
			report.AtMost("get/20_heads/flat", "±", report.Spread(getRatios), 0.25, b.rounds, b.seed),
			report.AtMost("put/flat", "±", report.Spread(putRatios), 0.25, b.rounds, b.seed),
			report.AtMost("put/same_objects/flat", "±", report.Spread(sameRatios), 0.25, b.rounds, b.seed))
	}
	return figures, nil
}

// fill puts n rows, several at a time: what is timed is written one by one.
func fill(ctx context.Context, s *memory.Store, from, n int) ([]memory.ID, error) {
	const writers = 16
	ids, failed := make([]memory.ID, n), make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && failed[w] == nil; i += writers {
				var r memory.Receipt
				r, failed[w] = s.Put(ctx, draft(from+i))
				ids[i] = r.ID
			}
		})
	}
	wg.Wait()
	return ids, errors.Join(failed...)
}

// puts times writing a row beside a bare insert of as many bytes, and beside the
// driver writing the same objects, entries and terms.
func (b *bench) puts(ctx context.Context, d *stores.Recorder, s *memory.Store, next *int, name string, target float64) (figures []report.Figure, written []memory.ID, err error) {
	defer report.Caught(&err)
	n := max(b.rounds/4, 50)
	size := 0
	put := func() {
		written = append(written, report.Must(s.Put(ctx, draft(*next))).ID)
		*next++
		size = stores.BytesOf(d.Last())
	}
	put()
	report.Check(d.Mirror(ctx))
	floors := 0
	value, floor := report.Pair(n, put, func() {
		floors++
		report.Check(d.Insert(ctx, fmt.Sprintf("%s/%d", name, floors), bytes.Repeat([]byte{byte(floors)}, size)))
	})
	// Throughput of the store over that of the floor.
	figures = append(figures, report.Rate("put/bare_insert/"+name, "us", value, floor, target, n, b.seed))
	report.Check(d.Mirror(ctx))
	value, floor = report.Pair(n, put, func() {
		report.Check(d.Backend.Apply(ctx, stores.FloorTenant, d.Last()))
		d.Written = d.Written[:0]
	})
	figures = append(figures, report.Rate("put/same_objects/"+name, "us", value, floor, 0.8, n, b.seed))
	return figures, written, nil
}

func (b *bench) fast(ctx context.Context, dir string) (figures []report.Figure, err error) {
	d, s, err := stores.Open(ctx, b.name, dir, false)
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
	defer report.Caught(&err)
	n := max(b.rounds*5, 2000)
	var dump bytes.Buffer
	func() {
		at := filepath.Join(dir, "from")
		report.Check(os.MkdirAll(at, 0o755))
		_, s, err := stores.Open(ctx, b.name, at, false)
		report.Check(err)
		defer s.Close()
		for i := range n {
			report.Must(s.Put(ctx, draft(i)))
		}
		report.Must(transfer.Export(ctx, s, &dump, nil))
	}()
	at := filepath.Join(dir, "to")
	report.Check(os.MkdirAll(at, 0o755))
	d, s, err := stores.Open(ctx, b.name, at, true)
	report.Check(err)
	defer s.Close()
	subjects(ctx, s)
	report.Check(d.Mirror(ctx))
	start := time.Now()
	report.Must(transfer.Import(ctx, s, bytes.NewReader(dump.Bytes()), transfer.Options{Actor: "bench"}))
	value := float64(time.Since(start).Microseconds()) / float64(n)
	var keys []string
	var values [][]byte
	start = time.Now()
	for _, batch := range d.Written {
		report.Check(d.Backend.Apply(ctx, stores.FloorTenant, batch))
		keys, values = append(keys, fmt.Sprint("bulk", len(keys))), append(values, bytes.Repeat([]byte{1}, stores.BytesOf(batch)))
	}
	same := float64(time.Since(start).Microseconds()) / float64(n)
	start = time.Now()
	report.Check(d.Bulk(ctx, keys, values))
	bulk := float64(time.Since(start).Microseconds()) / float64(n)
	return []report.Figure{
		report.Rate("import/same_batches", "us", value, same, 0.5, n, b.seed),
		{Name: "import/bulk_of_as_many_bytes", Unit: "us", Value: value, Floor: bulk, Ratio: bulk / value, OK: true, N: n, Seed: b.seed},
	}, nil
}

// bytes is the size of a row with a claim of 200 bytes and three transitions. The
// full text is apart: rows of one word are measured beside, and the difference of
// the terms is taken off.
func (b *bench) bytes(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	n := max(b.rounds, 500)
	measure := func(name, text string) float64 {
		at := filepath.Join(dir, name)
		report.Check(os.MkdirAll(at, 0o755))
		d, s, err := stores.Open(ctx, b.name, at, false)
		report.Check(err)
		defer s.Close()
		var before int64
		for i := range n + 1 {
			if i == 1 { // what is made once is there: tables, and what the server keeps of each command
				before = report.Must(d.Size(ctx))
			}
			content := memory.Content{Text: claim(i) + " " + claim(-i)[:44], Cardinality: memory.CardinalityUnknown}
			if text == "one word" {
				content.Text = strings.ReplaceAll(content.Text, " ", "")
			}
			r := report.Must(s.Put(ctx, memory.Draft{Content: content, Origin: memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
				Asserter: memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}}))
			revision := r.Revision
			for k, to := range []memory.AxisValue{memory.TruthSupported, memory.TruthUnverified, memory.TruthSupported} {
				t := memory.Transition{Row: r.ID, Revision: revision, To: to, Authority: memory.AuthorityProbe, Actor: "worker:host-1", Source: "crm", Reason: "the crm says so"}
				if k != 1 {
					t.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: "tool:crm",
						Anchor: memory.Anchor{URI: fmt.Sprint("crm:customer/", i), Version: fmt.Sprint(k)}, At: time.Now()}}
				}
				revision = report.Must(s.Apply(ctx, t)).Revision
			}
		}
		return float64(report.Must(d.Size(ctx))-before) / float64(n)
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

// amongUnfit times the recall of a verified row among many that nobody verified, which have the
// same words and are about the same subject. Its floor is the same recall of the row alone. That
// the row is not found is an error.
func (b *bench) amongUnfit(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	_, s, err := stores.Open(ctx, b.name, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	fact := func(object string) memory.Content {
		return memory.Content{Subject: "acme", Predicate: "billing contact", Object: object, Cardinality: memory.CardinalityUnknown}
	}
	known := draft(0)
	known.Content = fact("pay@acme.example")
	verified := report.Must(s.Put(ctx, known)).ID
	queries := []struct {
		name  string
		query recall.Query
	}{{"by_text", recall.Query{Text: "billing contact of acme"}}, {"by_subject", recall.Query{Subject: "acme", Predicate: "billing contact"}}}
	rounds := max(b.rounds/10, 20)
	median := func(q recall.Query, truncated bool) float64 {
		took := report.Interleave(rounds, nil, func() {
			r := report.Must(recall.Recall(ctx, s, q, recall.Policy{}))
			if len(r.Context) != 1 || r.Context[0].ID != verified || r.Truncated != truncated {
				report.Check(fmt.Errorf("%+v finds %d rows, truncated %t", q, len(r.Context), r.Truncated))
			}
		})
		return took[0].Quantile(0.5)
	}
	var floors []float64
	for _, q := range queries {
		floors = append(floors, median(q.query, false))
	}
	for from := 0; from < b.crowd; from += 1000 {
		n := min(1000, b.crowd-from)
		failed := make([]error, 16)
		var wg sync.WaitGroup
		for w := range failed {
			wg.Go(func() {
				for i := w; i < n && failed[w] == nil; i += len(failed) {
					_, failed[w] = s.Put(ctx, memory.Draft{Content: fact(fmt.Sprintf("evil%d@acme.example", from+i)), Origin: memory.OriginModelDerived, State: memory.StateUnverified,
						Sensitivity: memory.SensitivityInternal, Asserter: memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}})
				}
			})
		}
		wg.Wait()
		report.Check(errors.Join(failed...))
		if from%20_000 == 19_000 {
			fmt.Fprintf(b.progress, "  %d rows\n", from+n)
		}
	}
	for i, q := range queries {
		figures = append(figures, report.Beside(fmt.Sprintf("recall/%s/among_%d_unfit", q.name, b.crowd), "us", median(q.query, true), floors[i], rounds, b.seed))
	}
	return figures, nil
}

// audit times a verification of rows that say 150 bytes, and of rows that say a fact in
// a few words, as calls cite them.
func (b *bench) audit(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, of := range []struct {
		name  string
		draft func(i int) memory.Draft
	}{
		{"audit/verify", func(i int) memory.Draft { return draft(i) }},
		{"audit/verify_facts", func(i int) memory.Draft { return stores.Fit(i%customers, i, "crm") }},
	} {
		at := filepath.Join(dir, strings.TrimPrefix(of.name, "audit/"))
		report.Check(os.MkdirAll(at, 0o755))
		got, err := b.verification(ctx, at, of.name, of.draft)
		if err != nil {
			return nil, err
		}
		figures = append(figures, got...)
	}
	return figures, nil
}

// verification times the whole of it on one core: what rows say is opened and held
// against their logs, decisions against rows, and the index of terms against the objects.
// Its floor reads the same entries, objects and lines, and computes one HMAC of the bytes
// of each.
func (b *bench) verification(ctx context.Context, dir, name string, draft func(i int) memory.Draft) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.name, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// Rows of four entries, of which each fifth was cited by a call that fired.
	for i := range b.audited {
		r := report.Must(s.Put(ctx, draft(i)))
		revision := r.Revision
		if i%5 == 0 {
			f := report.Must(s.Fitness(ctx, []memory.ID{r.ID}))
			report.Check(s.Record(ctx, memory.DecisionRecord{ID: s.NewDecisionID(), Tool: "mail", Run: fmt.Sprint("run ", i%100), Fired: true, Epoch: f.Epoch,
				Rows: []memory.Cited{f.Heads[0].Cite()}, Data: []byte(`{"to":"Oslo"}`)}))
		}
		for _, to := range []memory.AxisValue{memory.TruthUnverified, memory.SecuritySuspicious, memory.SecurityQuarantined} {
			who := memory.AuthoritySentinel
			if to == memory.AxisValue(memory.TruthUnverified) {
				who = memory.AuthorityProbe
			}
			revision = report.Must(s.Apply(ctx, memory.Transition{Row: r.ID, Revision: revision, To: to, Authority: who, Actor: "bench", Source: "bench", Reason: "bench"})).Revision
		}
		if d.Written = d.Written[:0]; i%20_000 == 19_999 {
			fmt.Fprintf(b.progress, "  %d rows\n", i+1)
		}
	}
	v := report.Must(s.Verify(ctx, nil, nil))
	if v.Decisions != (b.audited+4)/5 || v.Terms == 0 || v.Objects < 4*b.audited {
		return nil, fmt.Errorf("not all was verified: %+v", v)
	}
	mac := hmac.New(sha256.New, make([]byte, sha256.Size))
	var sum []byte
	hashed := func(data []byte) {
		mac.Reset()
		mac.Write(data)
		sum = mac.Sum(sum[:0])
	}
	scan := func(each func(data []byte)) {
		for after, more := (memory.LogPlace{}), true; more; {
			var page []memory.Logged
			var err error
			page, more, err = d.Scan(ctx, s.Tenant(), "", after, 2000)
			report.Check(err)
			for i := range page {
				each(page[i].Data)
			}
			after = page[len(page)-1].Place()
		}
	}
	objects := func(each func(data []byte)) {
		for o, err := range d.Objects(ctx, s.Tenant(), "") {
			report.Check(err)
			each(o.Data)
		}
	}
	lines := func() {
		for _, err := range d.Carriers(ctx, s.Tenant(), "") {
			report.Check(err)
		}
	}
	rounds := min(max(b.rounds/50, 5), 1+100_000/b.audited)
	value, floor := report.Pair(rounds, func() { report.Must(s.Verify(ctx, nil, nil)) }, func() {
		scan(hashed)
		objects(hashed)
		lines()
	})
	nothing := func([]byte) {}
	entries, objs := report.Pair(rounds, func() { scan(nothing) }, func() { objects(nothing) })
	index, _ := report.Pair(rounds, lines, func() {})
	per := func(us float64) float64 { return us / float64(v.Entries) }
	part := func(of string, us float64) report.Figure {
		return report.Figure{Name: name + "/" + of, Unit: "us", Value: per(value), Floor: per(us), Ratio: value / us, OK: true, N: rounds, Seed: b.seed}
	}
	rate := 1e6 / per(value)
	return []report.Figure{
		{Name: name, Unit: "entries/s", Value: rate, Floor: 1e6 / per(floor), Ratio: floor / value, Target: 150_000, OK: rate >= 150_000, N: v.Entries, Seed: b.seed},
		part("bare_read_and_hmac_of_everything", floor),
		part("bare_read_of_entries", entries),
		part("bare_read_of_objects", objs),
		part("bare_read_of_index_lines", index),
		{Name: name + "/index_lines_per_entry", Unit: "lines", Value: float64(v.Terms) / float64(v.Entries), OK: true, N: v.Terms, Seed: b.seed},
	}, nil
}

// erasure times the erasure of a subject with many rows that were made of hers, and
// looks for a canary in the raw files afterwards.
func (b *bench) erasure(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.name, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const canary = "canaryhumberside"
	own := draft(0)
	own.Content = memory.Content{Subject: canary, Predicate: "lives in", Object: canary + " street 7", Cardinality: memory.CardinalityUnknown}
	up := report.Must(s.Put(ctx, own)).ID
	ids := []memory.ID{up}
	for i := range b.derived {
		r := draft(i+1, ids[max(0, len(ids)-1-i%50)])
		r.Origin, r.State, r.Evidence = memory.OriginModelDerived, memory.StateUnverified, nil
		r.Asserter = memory.Asserter{Principal: "bench", Model: "sonnet", Family: "claude"}
		r.Content.Object += " " + canary
		ids = append(ids, report.Must(s.Put(ctx, r)).ID)
		d.Written = nil
	}
	start := time.Now()
	done := report.Must(s.Erase(ctx, memory.Erasure{Subject: canary, Request: "bench", Actor: "bench"}))
	took := time.Since(start).Seconds()
	if done.Rows != len(ids) {
		return nil, fmt.Errorf("%d rows erased of %d", done.Rows, len(ids))
	}
	found, read := 0, 0
	for _, path := range d.Files() {
		raw := report.Must(os.ReadFile(path))
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
