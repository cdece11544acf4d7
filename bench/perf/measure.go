package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

const rowsPerCall = 20

// policy lets every declared tool run by its contract.
var policy = gate.Policy{Name: "perf", Version: "1", Declared: true}

func request(direct, ancestors []memory.ID) *gate.Request {
	return &gate.Request{
		Contract: gate.Contract{Tool: "send", Effect: gate.StateChanging}, Args: json.RawMessage(`{}`),
		Agent: "perf", Run: "run_perf", Principal: "perf", Lineage: gate.Known(direct, ancestors),
	}
}

// open opens a SQLite store in dir; durable = fsync per commit.
func open(ctx context.Context, dir string, durable bool) (*sqlitestore.Driver, *memory.Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	o := &sqlitestore.Options{Synchronous: sqlitestore.Normal}
	if durable {
		o.Synchronous = sqlitestore.Full
	}
	d, err := sqlitestore.Open(ctx, dir+"/perf.db", o)
	if err != nil {
		return nil, nil, err
	}
	keys, err := keyring.OpenOrCreate(dir+"/keys", nil)
	if err != nil {
		return nil, nil, err
	}
	s, err := memory.New(d, keys, nil)
	return d, s, err
}

func fill(ctx context.Context, s *memory.Store, from, to int) ([]memory.ID, error) {
	var ids []memory.ID
	for i := from; i < to; i++ {
		r, err := s.Put(ctx, stores.Fit(i, i, "crm"))
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.ID)
	}
	return ids, nil
}

// evaluate times the pure decision.
func evaluate(rounds int) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "hearsay-perf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	_, s, err := open(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var figures []report.Figure
	ids, err := fill(ctx, s, 0, 1000)
	if err != nil {
		return nil, err
	}
	for _, n := range []int{rowsPerCall, 1000} {
		f, err := s.Fitness(ctx, ids[:n])
		if err != nil {
			return nil, err
		}
		req := request(ids[:n], nil)
		if d := policy.Evaluate(req, f); d.Outcome != gate.Permit {
			return nil, fmt.Errorf("a fit lineage is not permitted: %v", d.Reasons)
		}
		const inner = 100
		per, _ := report.Pair(max(rounds/inner, 10), func() {
			for range inner {
				policy.Evaluate(req, f)
			}
		}, func() {})
		name := fmt.Sprintf("evaluate/%d_rows/ns_per_row", n)
		figures = append(figures, report.AtMost(name, "ns", per*1000/inner/float64(n), 100, rounds, 0))

		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range rounds {
			policy.Evaluate(req, f)
		}
		runtime.ReadMemStats(&after)
		perRow := float64(after.Mallocs-before.Mallocs) / float64(rounds) / float64(n)
		figures = append(figures, report.AtMost(fmt.Sprintf("evaluate/%d_rows/allocs_per_row", n), "allocs", float64(int(perRow*100))/100, 0, rounds, 0))
	}
	return figures, nil
}

// fetchRatio times reading and evaluating 20 rows beside the bare read of as many
// heads. Each side picks rows of its own: reading the same ones in turn would let
// the second find them warm.
func fetchRatio(ctx context.Context, d *sqlitestore.Driver, s *memory.Store, pick func() (direct, ancestors []memory.ID), rounds int) (value, floor float64, err error) {
	type side struct {
		req  *gate.Request
		ids  []memory.ID
		keys []string
	}
	prepare := func() side {
		direct, ancestors := pick()
		x := side{req: request(direct, ancestors), ids: slices.Concat(direct, ancestors)}
		for _, id := range x.ids {
			x.keys = append(x.keys, memory.HeadKey(id))
		}
		return x
	}
	a, b := prepare(), prepare()
	value, floor = report.Pair(rounds, func() {
		f, e := s.Fitness(ctx, a.ids)
		if e != nil {
			err = e
			return
		}
		if dec := policy.Evaluate(a.req, f); dec.Outcome != gate.Permit {
			err = fmt.Errorf("not permitted: %v", dec.Reasons)
		}
	}, func() {
		if _, e := d.Get(ctx, s.Tenant(), b.keys); e != nil {
			err = e
		}
	}, func() { a, b = prepare(), prepare() })
	return value, floor, err
}

func fetch(ctx context.Context, dir string, sizes []int, rounds int) ([]report.Figure, error) {
	d, s, err := open(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var (
		figures []report.Figure
		ratios  []float64
		ids     []memory.ID
		rng     = rand.New(rand.NewPCG(1, 2))
	)
	for _, size := range sizes {
		more, err := fill(ctx, s, len(ids), size)
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
		pick := func() ([]memory.ID, []memory.ID) {
			out := make([]memory.ID, 0, rowsPerCall)
			for _, i := range rng.Perm(min(size, 50_000))[:rowsPerCall] {
				out = append(out, ids[i*size/min(size, 50_000)])
			}
			return out, nil
		}
		picks := make([][]memory.ID, rounds)
		for i := range picks {
			picks[i], _ = pick()
		}
		at := 0
		value, floor, err := fetchRatio(ctx, d, s, func() ([]memory.ID, []memory.ID) { at++; return picks[at%len(picks)], nil }, rounds)
		if err != nil {
			return nil, err
		}
		f := report.Over(fmt.Sprintf("fetch_evaluate/%d_rows_in_store", size), "us", value, floor, 1.3, rounds, 1)
		figures, ratios = append(figures, f), append(ratios, f.Ratio)
	}
	return append(figures, report.AtMost("fetch_evaluate/flat_by_size", "±", report.Spread(ratios), 0.25, rounds, 1)), nil
}

// depth keeps the number of heads at 20 and deepens the lineage they form.
func depth(ctx context.Context, dir string, rounds int) ([]report.Figure, error) {
	d, s, err := open(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var (
		figures []report.Figure
		ratios  []float64
		serial  int
	)
	for _, deep := range []int{1, 2, 4, 8} {
		var direct, ancestors []memory.ID
		for len(direct)+len(ancestors) < rowsPerCall {
			var parents []memory.ID
			for level := range min(deep, rowsPerCall-len(direct)-len(ancestors)) {
				serial++
				r, err := s.Put(ctx, stores.Fit(1_000_000+serial, 1_000_000+serial, fmt.Sprintf("source-%d", level), parents...))
				if err != nil {
					return nil, err
				}
				if level > 0 {
					ancestors = append(ancestors, parents...)
				}
				parents = []memory.ID{r.ID}
			}
			direct = append(direct, parents...)
		}
		value, floor, err := fetchRatio(ctx, d, s, func() ([]memory.ID, []memory.ID) { return direct, ancestors }, rounds)
		if err != nil {
			return nil, err
		}
		f := report.Over(fmt.Sprintf("fetch_evaluate/depth_%d", deep), "us", value, floor, 1.3, rounds, 1)
		figures, ratios = append(figures, f), append(ratios, f.Ratio)
	}
	return append(figures, report.AtMost("fetch_evaluate/flat_by_depth", "±", report.Spread(ratios), 0.25, rounds, 1)), nil
}

// decision times a recorded decision beside a bare batch that reads the same
// heads, checks the same revisions and writes as many bytes and index rows.
func decision(ctx context.Context, dir string, rounds int) ([]report.Figure, error) {
	d, s, err := open(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ids, err := fill(ctx, s, 0, 1000)
	if err != nil {
		return nil, err
	}
	ids = ids[:rowsPerCall]
	g, err := gate.New(s, policy, nil)
	if err != nil {
		return nil, err
	}
	req := request(ids, nil)
	first := g.Decide(ctx, *req)
	if first.Outcome != gate.Permit {
		return nil, fmt.Errorf("not permitted: %v", first.Reasons)
	}
	written, err := d.Get(ctx, s.Tenant(), []string{memory.DecisionKey(first.ID)})
	if err != nil {
		return nil, err
	}
	log, err := d.History(ctx, s.Tenant(), memory.DecisionKey(first.ID), 0, 1)
	if err != nil || len(log) != 1 {
		return nil, fmt.Errorf("the decision left %d log entries: %w", len(log), err)
	}
	keys := make([]string, 0, len(ids)+1)
	for _, id := range ids {
		keys = append(keys, memory.HeadKey(id))
	}
	keys = append(keys, "sys/epoch")
	serial, asked := 0, 0
	value, floor := report.Pair(rounds/2, func() {
		asked++ // the same call again would be held: nobody says how the one before ended
		req.Args = json.RawMessage(fmt.Sprintf(`{"n":%d}`, asked))
		if dec := g.Decide(ctx, *req); dec.Outcome != gate.Permit {
			err = fmt.Errorf("not permitted: %v", dec.Reasons)
		}
	}, func() {
		serial++
		objs, e := d.Get(ctx, s.Tenant(), keys)
		if e != nil {
			err = e
			return
		}
		at := ^uint64(time.Now().UnixMicro())
		id := fmt.Sprintf("floor/blk_%026d", serial)
		b := memory.Batch{Puts: []memory.Put{{Key: id, Data: written[0].Data, Entry: log[0].Data,
			Add: []memory.Term{{Name: "floor", Sort: at}, {Name: "floor=run_perf", Sort: at}}}}}
		for i, o := range objs {
			b.Checks = append(b.Checks, memory.Check{Key: keys[i], Revision: o.Revision})
			if i < len(ids) {
				b.Puts[0].Add = append(b.Puts[0].Add, memory.Term{Name: "floor=" + string(ids[i]), Sort: at})
			}
		}
		if e := d.Apply(ctx, s.Tenant(), b); e != nil {
			err = e
		}
	})
	if err != nil {
		return nil, err
	}
	return []report.Figure{report.Over("decide_record_consume/20_rows", "us", value, floor, 1.5, rounds/2, 1)}, nil
}

// remember times a recalled duplicate through the whole write path beside one
// indexed read and one write.
func remember(ctx context.Context, dir string, rounds int) ([]report.Figure, error) {
	d, s, err := open(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := fill(ctx, s, 0, 1000); err != nil {
		return nil, err
	}
	g, err := gate.New(s, policy, nil)
	if err != nil {
		return nil, err
	}
	a, err := agent.New("perf", agent.Model{ID: "scripted", Family: "scripted"}, s, g, nil, &agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		return nil, err
	}
	claim := memory.Content{Text: "User prefers Vim", Cardinality: memory.CardinalityUnknown}
	first, err := a.Start("perf").Remember(ctx, agent.Note{Content: claim})
	if err != nil {
		return nil, err
	}
	rows, err := s.Get(ctx, first.ID)
	if err != nil {
		return nil, err
	}
	if err := d.Apply(ctx, s.Tenant(), memory.Batch{Puts: []memory.Put{{Key: "floor/echo", Data: []byte("{}")}}}); err != nil {
		return nil, err
	}
	var figures []report.Figure
	for _, c := range []struct{ name, text string }{{"same_words", "User prefers Vim"}, {"reworded", "Vim is the user's preferred editor"}} {
		run := a.Start("perf")
		if _, err := run.Recall(ctx, recall.Query{Text: "which editor does the user prefer: Vim"}); err != nil {
			return nil, err
		}
		note := agent.Note{Content: memory.Content{Text: c.text, Cardinality: memory.CardinalityUnknown}}
		r, err := run.Remember(ctx, note)
		if err != nil {
			return nil, err
		}
		if r.ID != first.ID || r.Disposition != memory.Collapsed {
			return nil, fmt.Errorf("%q did not collapse: %+v", c.text, r)
		}
		echo := memory.EchoKey(rows[0].Claim)
		objs, err := d.Get(ctx, s.Tenant(), []string{echo})
		if err != nil {
			return nil, err
		}
		log, err := d.History(ctx, s.Tenant(), echo, objs[0].Revision-1, 1)
		if err != nil || len(log) != 1 {
			return nil, fmt.Errorf("the echo left %d log entries: %w", len(log), err)
		}
		value, floor := report.Pair(rounds/2, func() {
			if _, e := run.Remember(ctx, note); e != nil {
				err = e
			}
		}, func() {
			at, e := d.Get(ctx, s.Tenant(), []string{"floor/echo"})
			if e != nil {
				err = e
				return
			}
			b := memory.Batch{Puts: []memory.Put{{Key: "floor/echo", From: at[0].Revision, Data: objs[0].Data, Entry: log[0].Data}}}
			if e := d.Apply(ctx, s.Tenant(), b); e != nil {
				err = e
			}
		})
		if err != nil {
			return nil, err
		}
		figures = append(figures, report.Over("remember_duplicate/"+c.name, "us", value, floor, 1.5, rounds/2, 1))
	}
	return figures, nil
}
