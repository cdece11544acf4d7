package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
)

// useWithin is when a row has to be read again for its promotion to have been of use.
const useWithin = time.Hour

// crowd is what is simulated: rows that are read by a law, and a verifier that
// answers a few questions a minute.
type crowd struct {
	rows    int
	reads   float64 // a minute
	calls   int     // of the verifier a minute
	minutes int     // that the verifier works; reads go on for an hour after
	seed    uint64
	flood   float64 // reads a minute of one row that nobody can verify, on top
}

// read is one read of a row, and when.
type read struct {
	at  time.Duration
	row int
}

// script is all reads of a crowd in order. Row 0 is read most and row n-1 least: how
// often is Zipf's law with exponent 1.1.
func (c crowd) script() []read {
	rng := rand.New(rand.NewPCG(c.seed, 2))
	// By inversion, since the generator of math/rand takes no such n exactly.
	weights, sum := make([]float64, c.rows), 0.0
	for i := range weights {
		sum += zipf(i + 1)
		weights[i] = sum
	}
	var out []read
	end := time.Duration(c.minutes)*time.Minute + useWithin
	for at := time.Duration(0); ; {
		at += time.Duration(rng.ExpFloat64() / c.reads * float64(time.Minute))
		if at >= end {
			return out
		}
		row, _ := slices.BinarySearch(weights, rng.Float64()*sum)
		out = append(out, read{at, min(row, c.rows-1)})
	}
}

// places says in which order the rows are written: at random.
func (c crowd) places() []int { return rand.New(rand.NewPCG(c.seed, 3)).Perm(c.rows) }

// ran is what came of a simulation.
type ran struct {
	first    []time.Duration // of each row, its first read; negative = never
	verified []time.Duration // when it was verified; negative = never
	useful   int             // promotions of rows that were read within an hour afterwards
	calls    int
	ofFlood  int // questions about the row that is flooded
}

// waits are the times from the first read to the state, of the hot rows: those among
// the top 1 % that were read and verified.
func (r *ran) waits() (out []time.Duration) {
	for row := range len(r.first) / 100 {
		if r.first[row] >= 0 && r.verified[row] >= 0 {
			out = append(out, max(r.verified[row]-r.first[row], 0))
		}
	}
	slices.Sort(out)
	return out
}

func newRan(n int) *ran {
	r := &ran{first: make([]time.Duration, n), verified: make([]time.Duration, n)}
	for i := range n {
		r.first[i], r.verified[i] = -1, -1
	}
	return r
}

func (r *ran) count(script []read) {
	used := map[int]bool{}
	for _, s := range script {
		if at := r.verified[s.row]; at >= 0 && s.at > at && s.at <= at+useWithin && !used[s.row] {
			used[s.row] = true
			r.useful++
		}
	}
}

// chosen simulates a verifier that, each time it is free, takes the row that choose
// says, of those not yet verified; -1 is none.
func (c crowd) chosen(choose func(reads []int, open []bool) int) *ran {
	out, script := newRan(c.rows), c.script()
	reads, open := make([]int, c.rows), make([]bool, c.rows)
	for i := range open {
		open[i] = true
	}
	next := 0
	for slot := range c.calls * c.minutes {
		now := time.Duration(slot+1) * time.Minute / time.Duration(c.calls)
		for ; next < len(script) && script[next].at < now; next++ {
			row := script[next].row
			reads[row]++
			if out.first[row] < 0 {
				out.first[row] = script[next].at
			}
		}
		if row := choose(reads, open); row >= 0 {
			open[row], out.verified[row] = false, now
			out.calls++
		}
	}
	out.count(script)
	return out
}

// ideal takes the row that was read most, of equals the one written first: what
// anybody could do who sees every read at once.
func (c crowd) ideal() *ran {
	place := c.places()
	return c.chosen(func(reads []int, open []bool) int {
		best := -1
		for row := range reads {
			if open[row] && (best < 0 || reads[row] > reads[best] || reads[row] == reads[best] && place[row] < place[best]) {
				best = row
			}
		}
		return best
	})
}

// inOrder takes the rows in one order, whatever is read.
func (c crowd) inOrder(order []int) *ran {
	at := 0
	return c.chosen(func([]int, []bool) int {
		if at >= len(order) {
			return -1
		}
		at++
		return order[at-1]
	})
}

// ours runs the real worker and heater over a store whose clock is simulated, and takes the rows in the order
// of the store. Reads are passed on once a second.
func (c crowd) ours(ctx context.Context) (out *ran, err error) {
	defer report.Caught(&err)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	begin := now
	store := storetest.NewStore(&memory.Options{Clock: func() time.Time { return now }})
	defer store.Close()
	ids, rows := make([]memory.ID, c.rows), map[memory.ID]int{}
	order := make([]int, c.rows)
	for row, place := range c.places() {
		order[place] = row
	}
	write := func(name string, i int) memory.ID {
		now = now.Add(time.Microsecond)
		return report.Must(store.Put(ctx, draft(name, i))).ID
	}
	for _, row := range order {
		ids[row] = write("row", row)
		rows[ids[row]] = row
	}
	unclear := memory.ID("")
	if c.flood > 0 {
		unclear = write("a row that nobody can verify", 0)
	}
	out = newRan(c.rows)
	asked := func(_ context.Context, row memory.Row) (verifier.Verdict, error) {
		out.calls++
		if row.ID == unclear {
			out.ofFlood++
			return verifier.Verdict{Outcome: verifier.Unclear}, nil
		}
		return supports(row, now), nil
	}
	worker := report.Must(promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: verifier.Func(asked), Rank: memory.RankTool}}, &promotion.Options{Budget: -1}))
	heater := promotion.NewHeater(store, nil, nil)

	begin, now = now, now.Add(time.Second)
	script, next := c.script(), 0
	free := time.Minute / time.Duration(c.calls) // when the verifier is free
	for second := 1; second <= 60*c.minutes; second++ {
		at := time.Duration(second) * time.Second
		now = begin.Add(at)
		for ; next < len(script) && script[next].at < at; next++ {
			row := script[next].row
			heater.ObserveReads(ctx, []memory.ID{ids[row]}, 1)
			if out.first[row] < 0 {
				out.first[row] = script[next].at
			}
		}
		if c.flood > 0 {
			heater.ObserveReads(ctx, []memory.ID{unclear}, c.flood/60)
		}
		report.Check(heater.Flush(ctx))
		for woken := memory.MaxWoken; woken == memory.MaxWoken; {
			woken, _, err = store.WakeDue(ctx, memory.MaxWoken)
			report.Check(err)
		}
		for free <= at {
			id, due := first(ctx, store)
			if !due {
				break
			}
			calls := out.calls
			res := report.Must(worker.Check(ctx, id))
			if res.Status == promotion.Promoted {
				out.verified[rows[id]] = at
			}
			if out.calls > calls { // nobody was asked about a row that is not due
				free += time.Minute / time.Duration(c.calls)
			}
		}
	}
	out.count(script)
	return out, nil
}

// first is the row that is due and was read most.
func first(ctx context.Context, store *memory.Store) (memory.ID, bool) {
	for mark, err := range store.DueNow(ctx) {
		report.Check(err)
		return mark.ID, true
	}
	return "", false
}

// simulate holds the order of our queue against an ideal one, on the same reads.
func (b *bench) simulate(ctx context.Context, _ string) ([]report.Figure, error) {
	type policy struct {
		name string
		run  func(c crowd) (*ran, error)
	}
	policies := []policy{
		{"ours", func(c crowd) (*ran, error) { return c.ours(ctx) }},
		{"ideal", func(c crowd) (*ran, error) { return c.ideal(), nil }},
		{"write_order", func(c crowd) (*ran, error) {
			order := make([]int, c.rows)
			for row, place := range c.places() {
				order[place] = row
			}
			return c.inOrder(order), nil
		}},
		{"random_order", func(c crowd) (*ran, error) {
			return c.inOrder(rand.New(rand.NewPCG(c.seed, 4)).Perm(c.rows)), nil
		}},
	}
	var figures []report.Figure
	for _, calls := range []int{60, 6} {
		all, useful, perSeed := map[string][]time.Duration{}, map[string][2]int{}, map[string][]float64{}
		for seed := range uint64(b.seeds) {
			for _, p := range policies {
				r, err := p.run(crowd{rows: 10_000, reads: 1000, calls: calls, minutes: 60, seed: b.seed + seed})
				if err != nil {
					return nil, err
				}
				waits := r.waits()
				all[p.name] = append(all[p.name], waits...)
				if len(waits) > 0 {
					perSeed[p.name] = append(perSeed[p.name], quantile(waits, 0.5))
				}
				u := useful[p.name]
				useful[p.name] = [2]int{u[0] + r.calls, u[1] + r.useful}
			}
		}
		at := fmt.Sprintf("zipf/%d_a_minute/", calls)
		for name := range all {
			slices.Sort(all[name])
			slices.Sort(perSeed[name])
		}
		n := len(all["ours"])
		for _, q := range []struct {
			name string
			q    float64
		}{{"p50", 0.5}, {"p99", 0.99}} {
			figures = append(figures, report.Over(at+"hot_first_read_to_verified_"+q.name, "s", quantile(all["ours"], q.q), quantile(all["ideal"], q.q), 1.1, n, b.seed))
			for _, name := range []string{"write_order", "random_order"} {
				if len(all[name]) > 0 {
					figures = append(figures, report.Beside(at+name+"_"+q.name, "s", quantile(all[name], q.q), quantile(all["ideal"], q.q), len(all[name]), b.seed))
				}
			}
		}
		figures = append(figures,
			report.Beside(at+"hot_p50_lowest_of_seeds", "s", perSeed["ours"][0], perSeed["ideal"][0], b.seeds, b.seed),
			report.Beside(at+"hot_p50_highest_of_seeds", "s", perSeed["ours"][len(perSeed["ours"])-1], perSeed["ideal"][len(perSeed["ideal"])-1], b.seeds, b.seed))
		most := map[int]float64{60: 1.7, 6: 1.2}[calls]
		share := func(name string) float64 { return float64(useful[name][0]) / float64(max(useful[name][1], 1)) }
		figures = append(figures, report.AtMost(at+"calls_per_useful_promotion", "calls", share("ours"), most, useful["ours"][1], b.seed),
			report.Beside(at+"calls_per_useful_promotion_in_write_order", "calls", share("write_order"), share("ideal"), useful["write_order"][1], b.seed))
	}
	return figures, nil
}

func quantile(sorted []time.Duration, q float64) float64 {
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)].Seconds()
}
