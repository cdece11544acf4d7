package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

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
// cannot do without: one read and one durable write. What the run has read is in the
// ledger already; the gate has not read it before. Beside that, the first call of a
// run, which also writes its ledger, and a later one, of which the gate remembers what
// it read.
func (b *bench) permit(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	d, s, err := stores.Open(ctx, b.store, dir, true)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	known := fill(ctx, s)
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
	knows := report.Must(gate.New(s, policy, nil))
	const runs = customers
	var standing [runs]gate.Request // runs that have called before
	for n := range standing {
		standing[n] = request(fmt.Sprint("run_", n), pick(), nil)
		decide(ctx, knows, standing[n])
	}
	report.Check(d.Mirror(ctx))
	var (
		g                   *gate.Gate
		first, later, again gate.Request
		half                gate.Request
		bare                [2][]string
		halves              []memory.ID
		batches             [3]memory.Batch
		calls               [3][2]int64
		n                   int
	)
	counted := func(which int, g *gate.Gate, req gate.Request) {
		r, w := d.Calls()
		decide(ctx, g, req)
		reads, writes := d.Calls()
		calls[which], batches[which] = [2]int64{reads - r, writes - w}, d.Last()
	}
	floor := func(which int) {
		report.Must(d.Fetch(ctx, s.Tenant(), bare[1]))
		report.Check(d.Backend.Apply(ctx, stores.FloorTenant, batches[which]))
	}
	t := report.Interleave(b.rounds, func() {
		d.Written = d.Written[:0]
		n++
		g = report.Must(gate.New(s, policy, nil)) // it has read nothing yet
		halves = pick()
		first, half = request(fmt.Sprint("run_first_", n), pick(), nil), request("run_half", halves, nil)
		later, again = standing[random.IntN(runs)], standing[random.IntN(runs)]
		bare = [2][]string{headKeys(pick()), headKeys(pick())}
	}, func() {
		counted(0, g, later)
	}, func() {
		report.Must(d.Fetch(ctx, s.Tenant(), bare[0]))
	}, func() {
		report.Check(d.Insert(ctx, fmt.Sprint("permit/", n), bytes.Repeat([]byte{byte(n)}, stores.BytesOf(batches[0]))))
	}, func() {
		floor(0)
	}, func() {
		f := report.Must(s.Fitness(ctx, halves))
		if v := policy.Evaluate(&half, f); v.Outcome != gate.Permit {
			panic(fmt.Errorf("not permitted: %v", v.Reasons))
		}
	}, func() {
		counted(1, g, first)
	}, func() {
		floor(1)
	}, func() {
		counted(2, knows, again)
	}, func() {
		report.Check(d.Backend.Apply(ctx, stores.FloorTenant, batches[2]))
	})
	// What was fetched in this call is judged in it: no state is kept between two.
	evaluated := make(report.Sample, b.rounds)
	for i := range evaluated {
		ids := pick()
		fetched, f := request("run_fetched", ids, nil), report.Must(s.Fitness(ctx, ids))
		began := time.Now()
		v := policy.Evaluate(&fetched, f)
		evaluated[i] = time.Since(began)
		if v.Outcome != gate.Permit {
			return nil, fmt.Errorf("not permitted: %v", v.Reasons)
		}
	}
	slices.Sort(evaluated)
	path, read, write, same, judged, whole, wholeSame, repeat, repeatSame := t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]
	for which, want := range [...][2]int64{{1, 1}, {1, 1}, {0, 1}} {
		if calls[which] != want {
			return nil, fmt.Errorf("a permit took %d reads and writes of the driver, want %d", calls[which], want)
		}
	}
	over := func(name string, value, floor, target float64) report.Figure {
		if target == 0 {
			return report.Beside(name, "us", value, floor, b.rounds, b.seed)
		}
		return report.Over(name, "us", value, floor, target, b.rounds, b.seed)
	}
	trips, batch := map[string]float64{"sqlite": 2.2, "redis": 2}, map[string]float64{"sqlite": 1.3}
	bareTrips := func(q float64) float64 { return read.Quantile(q) + write.Quantile(q) }
	figures = []report.Figure{
		report.Exactly("permit/driver_calls", "calls", float64(calls[0][0]+calls[0][1]), 2, b.rounds, b.seed),
		over("permit/bare_read_and_write/p50", path.Quantile(0.5), bareTrips(0.5), trips[b.store]),
		over("permit/bare_read_and_write/p99", path.Quantile(0.99), bareTrips(0.99), 0),
		over("permit/same_batch/p50", path.Quantile(0.5), same.Quantile(0.5), batch[b.store]),
		over("permit/same_batch/p99", path.Quantile(0.99), same.Quantile(0.99), 0),
		over("permit/first_call/bare_read_and_write/p50", whole.Quantile(0.5), bareTrips(0.5), 0),
		over("permit/first_call/same_batch/p50", whole.Quantile(0.5), wholeSame.Quantile(0.5), batch[b.store]),
		report.Exactly("permit/remembered/driver_calls", "calls", float64(calls[2][0]+calls[2][1]), 1, b.rounds, b.seed),
		over("permit/remembered/bare_write/p50", repeat.Quantile(0.5), write.Quantile(0.5), 0),
		over("permit/remembered/same_batch/p50", repeat.Quantile(0.5), repeatSame.Quantile(0.5), 0),
		over("permit/bare_read/p50", judged.Quantile(0.5), read.Quantile(0.5), 0),
		report.AtMost("permit/evaluate_what_was_fetched/p50", "us", evaluated.Quantile(0.5), 1, b.rounds, b.seed),
		report.AtMost("permit/read_and_evaluate/p50", "us", judged.Quantile(0.5), 200, b.rounds, b.seed),
	}
	if b.store == "redis" {
		figures = append(figures,
			report.AtMost("permit/p50", "us", path.Quantile(0.5), 600, b.rounds, b.seed),
			report.AtMost("permit/p50_beyond_a_bare_write", "us", path.Quantile(0.5)-write.Quantile(0.5), 600, b.rounds, b.seed),
			report.AtMost("permit/p99_beyond_a_bare_write", "us", path.Quantile(0.99)-write.Quantile(0.99), 1000, b.rounds, b.seed))
	}

	// The first call about a set of customers that no call was about together also
	// makes the class of its record.
	var mixed gate.Request
	made := b.rounds/10 + max(b.rounds/100, 3)
	r, w := d.Calls()
	fresh := report.Interleave(b.rounds/10, func() {
		var ids []memory.ID
		for _, c := range random.Perm(customers)[:rowsPerCall] {
			ids = append(ids, known[c][random.IntN(rowsPerCustomer)])
		}
		n++
		mixed = request(fmt.Sprint("run_mixed_", n), ids, nil)
	}, func() { decide(ctx, knows, mixed) })[0]
	reads, writes := d.Calls()
	return append(figures,
		over("permit/new_set_of_20_subjects/p50", fresh.Quantile(0.5), whole.Quantile(0.5), 0),
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
	n := max(b.rounds/20, 200_000/b.rows)
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
// call of a run that has read 20 rows, and those of one whose ledger grows by a row a
// call.
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
	var fresh, growing gate.Request
	few, many := request("run_few", known[0][:rowsPerCall], nil), request("run_many", all[:large], nil)
	n := 0
	t := report.Interleave(calls, func() {
		n++
		d.Written = d.Written[:0]
		about := known[random.IntN(customers)]
		fresh = request(fmt.Sprint("run_", n), about[rowsPerCall:], nil)
		growing = request("run_growing", all[:large-calls+n], nil)
	}, func() { decide(ctx, g, fresh) }, func() { decide(ctx, g, few) }, func() { decide(ctx, g, many) }, func() { decide(ctx, g, growing) })
	first := t[0].Quantile(0.5)
	return []report.Figure{
		report.Over("run/200_calls/20_rows", "us", t[1].Quantile(0.5), first, 1.5, calls, b.seed),
		report.Over(fmt.Sprintf("run/200_calls/%d_rows", large), "us", t[2].Quantile(0.5), first, 1.5, calls, b.seed),
		report.Beside(fmt.Sprintf("run/200_calls/growing_to_%d_rows", large), "us", t[3].Quantile(0.5), first, calls, b.seed),
	}, nil
}
