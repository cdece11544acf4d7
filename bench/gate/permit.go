package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

const rowsPerCall = 20

// policy lets every declared tool run by its contract.
var policy = gate.Policy{Name: "bench", Version: "1", Declared: true}

// request asks for the gravest call there is, on rows that are fit for it.
func request(run string, direct, ancestors []memory.ID) gate.Request {
	return gate.Request{
		Contract: gate.Contract{Tool: "send", Effect: gate.Irreversible, Sinks: []string{"/to"}}, Args: json.RawMessage(`{"to":"ops@acme.example"}`),
		Agent: "bench", Run: run, Principal: "ana", Lineage: gate.Known(direct, ancestors),
		Sinks: []gate.Sink{{Pointer: "/to", Value: "ops@acme.example", Source: gate.SourcePrincipal}},
	}
}

// calls numbers the calls: of two that are equal and cannot be undone, the second
// waits for the outcome of the first.
var calls int

// decide is a decision that must be a permit.
func decide(ctx context.Context, g *gate.Gate, req gate.Request) {
	calls++
	req.Args = fmt.Appendf(nil, `{"n":%d,"to":"ops@acme.example"}`, calls)
	report.Check(g.Decide(ctx, req).Err())
}

const customers, rowsPerCustomer = 50, 40

// fill writes what is known about some customers.
func fill(ctx context.Context, s *memory.Store) (known [][]memory.ID) {
	for c := range customers {
		var ids []memory.ID
		for n := range rowsPerCustomer {
			ids = append(ids, report.Must(s.Put(ctx, stores.Fit(c, c*rowsPerCustomer+n, "crm"))).ID)
		}
		known = append(known, ids)
	}
	return known
}

func headKeys(ids []memory.ID) []string {
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = memory.HeadKey(id)
	}
	return keys
}

// permit times a permit, from reading fitness to the fire intent, beside what it
// cannot do without: one read and one durable write.
func (b *bench) permit(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.store, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	known := fill(ctx, s)
	report.Check(d.Mirror(ctx))
	g := report.Must(gate.New(s, policy, nil))
	random := rand.New(rand.NewPCG(b.seed, 1))
	// A run is about one customer; each side has rows of its own, so that none finds
	// them warm.
	pick := func() (ids []memory.ID) {
		about := known[random.IntN(customers)]
		for _, i := range random.Perm(len(about))[:rowsPerCall] {
			ids = append(ids, about[i])
		}
		return ids
	}
	var (
		whole, half gate.Request
		bare        [2][]string
		halves      []memory.ID
		size, n     int
		reads       int64
		writes      int64
	)
	t := report.Interleave(b.rounds, func() {
		d.Written = d.Written[:0]
		n++
		halves = pick()
		whole, half = request("run_bench", pick(), nil), request("run_bench", halves, nil)
		bare = [2][]string{headKeys(pick()), headKeys(pick())}
	}, func() {
		r, w := d.Calls()
		decide(ctx, g, whole)
		reads, writes = d.Calls()
		if reads -= r; reads != 1 || writes-w != 1 {
			panic(fmt.Errorf("a permit took %d reads and %d writes of the driver, want 1 and 1", reads, writes-w))
		}
		writes -= w
		size = stores.BytesOf(d.Last())
	}, func() {
		report.Must(d.Fetch(ctx, s.Tenant(), bare[0]))
	}, func() {
		report.Check(d.Insert(ctx, fmt.Sprint("permit/", n), bytes.Repeat([]byte{byte(n)}, size)))
	}, func() {
		report.Must(d.Fetch(ctx, s.Tenant(), bare[1]))
		report.Check(d.Backend.Apply(ctx, stores.FloorTenant, d.Last()))
	}, func() {
		f := report.Must(s.Fitness(ctx, halves))
		if v := policy.Evaluate(&half, f); v.Outcome != gate.Permit {
			panic(fmt.Errorf("not permitted: %v", v.Reasons))
		}
	})
	path, read, write, same, judged := t[0], t[1], t[2], t[3], t[4]
	over := func(name string, value, floor, target float64) report.Figure {
		if target == 0 {
			return report.Beside(name, "us", value, floor, b.rounds, b.seed)
		}
		return report.Over(name, "us", value, floor, target, b.rounds, b.seed)
	}
	trips, batch := map[string]float64{"sqlite": 2.2, "redis": 2}, map[string]float64{"sqlite": 1.3}
	figures = []report.Figure{
		report.Exactly("permit/driver_calls", "calls", float64(reads+writes), 2, b.rounds, b.seed),
		over("permit/bare_read_and_write/p50", path.Quantile(0.5), read.Quantile(0.5)+write.Quantile(0.5), trips[b.store]),
		over("permit/bare_read_and_write/p99", path.Quantile(0.99), read.Quantile(0.99)+write.Quantile(0.99), 0),
		over("permit/same_batch/p50", path.Quantile(0.5), same.Quantile(0.5), batch[b.store]),
		over("permit/same_batch/p99", path.Quantile(0.99), same.Quantile(0.99), 0),
		over("permit/bare_read/p50", judged.Quantile(0.5), read.Quantile(0.5), 0),
		report.AtMost("permit/read_and_evaluate/p50", "us", judged.Quantile(0.5), 200, b.rounds, b.seed),
	}
	if b.store == "redis" {
		figures = append(figures,
			report.AtMost("permit/p50", "us", path.Quantile(0.5), 600, b.rounds, b.seed),
			report.AtMost("permit/p99_beyond_a_bare_write", "us", path.Quantile(0.99)-write.Quantile(0.99), 1000, b.rounds, b.seed))
	}

	// The first call about a set of customers that no call was about together also
	// makes the class of its record.
	var mixed gate.Request
	made := b.rounds/10 + max(b.rounds/100, 3)
	r, w := d.Calls()
	first := report.Interleave(b.rounds/10, func() {
		var ids []memory.ID
		for _, c := range random.Perm(customers)[:rowsPerCall] {
			ids = append(ids, known[c][random.IntN(rowsPerCustomer)])
		}
		mixed = request("run_bench", ids, nil)
	}, func() { decide(ctx, g, mixed) })[0]
	reads, writes = d.Calls()
	return append(figures,
		over("permit/new_set_of_20_subjects/p50", first.Quantile(0.5), path.Quantile(0.5), 0),
		report.Figure{Name: "permit/new_set_of_20_subjects/driver_calls", Unit: "calls", Value: float64(reads-r+writes-w) / float64(made), OK: true, N: made, Seed: b.seed}), nil
}

// closure times the judging of a lineage eight rows deep beside the bare query of
// the same heads.
func (b *bench) closure(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.store, dir, false)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	// Trees of 250 rows: one that was read, above it seven layers.
	layers := [...]int{33, 36, 36, 36, 36, 36, 36, 1}
	var direct []memory.ID
	for n := 0; n < b.rows; d.Written = nil {
		var above []memory.ID
		for depth, wide := range layers {
			var layer []memory.ID
			for i := range wide {
				var parents []memory.ID
				switch {
				case wide == 1:
					parents = above
				case depth > 0:
					parents = []memory.ID{above[i%len(above)]}
				}
				layer = append(layer, report.Must(s.Put(ctx, stores.Fit(n/25, n, fmt.Sprint("source-", depth), parents...))).ID)
				n++
			}
			above = layer
		}
		direct = append(direct, above...)
	}
	up := report.Must(s.Closure(ctx, direct...))
	if len(direct)+len(up) != b.rows {
		return nil, fmt.Errorf("a lineage of %d rows, want %d", len(direct)+len(up), b.rows)
	}
	heads := report.Must(s.Fitness(ctx, direct)).Heads
	for i := range heads {
		if want := uint32(len(layers) - 1); heads[i].Depth != want {
			return nil, fmt.Errorf("depth %d, want %d", heads[i].Depth, want)
		}
	}
	req := request("run_bench", direct, up)
	ids := append(append([]memory.ID{}, direct...), up...)
	keys := headKeys(ids)
	n := max(b.rounds/20, 20)
	t := report.Interleave(n, nil, func() {
		f := report.Must(s.Fitness(ctx, ids))
		if v := policy.Evaluate(&req, f); v.Outcome != gate.Permit {
			panic(fmt.Errorf("not permitted: %v", v.Reasons))
		}
	}, func() {
		report.Must(d.Fetch(ctx, s.Tenant(), keys))
	}, func() {
		report.Must(s.Closure(ctx, direct...))
	})
	name := fmt.Sprintf("closure/%d_rows_depth_8", b.rows)
	return []report.Figure{
		report.Over(name+"/read_and_evaluate", "us", t[0].Quantile(0.5), t[1].Quantile(0.5), 1.3, n, b.seed),
		report.Over(name+"/trace", "us", t[2].Quantile(0.5), t[1].Quantile(0.5), 1.3, n, b.seed),
	}, nil
}

// calls times the later calls of runs whose ledgers no longer grow beside the first
// call of a run that has read 20 rows.
func (b *bench) calls(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.store, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	known := fill(ctx, s)
	g := report.Must(gate.New(s, policy, nil))
	random := rand.New(rand.NewPCG(b.seed, 3))
	const calls = 200
	const large = 1000
	var all []memory.ID
	for _, ids := range known {
		all = append(all, ids...)
	}
	var fresh gate.Request
	few, many := request("run_few", known[0][:rowsPerCall], nil), request("run_many", all[:large], nil)
	n := 0
	t := report.Interleave(calls, func() {
		n++
		d.Written = d.Written[:0]
		about := known[random.IntN(customers)]
		fresh = request(fmt.Sprint("run_", n), about[rowsPerCall:], nil)
	}, func() { decide(ctx, g, fresh) }, func() { decide(ctx, g, few) }, func() { decide(ctx, g, many) })
	return []report.Figure{
		report.Over("run/200_calls/20_rows", "us", t[1].Quantile(0.5), t[0].Quantile(0.5), 1.5, calls, b.seed),
		report.Over(fmt.Sprintf("run/200_calls/%d_rows", large), "us", t[2].Quantile(0.5), t[0].Quantile(0.5), 1.5, calls, b.seed),
	}, nil
}
