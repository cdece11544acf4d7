package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// bulkhead has few rows of one source behind many that are read more, of a source that is down: how long
// those wait, and how often the other one is asked.
func (b *bench) bulkhead(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const cold = 20
	hot := b.bulkheadRows
	took, asked, err := behindDown(ctx, dir, hot, cold)
	report.Check(err)
	return []report.Figure{
		report.AtMost(fmt.Sprintf("outage/until_%d_rows_behind_%d_are_promoted", cold, hot), "s", took.Seconds(), 2, cold, b.seed),
		report.AtMost("outage/questions_to_the_source_that_is_down", "questions", float64(asked), 16, hot, b.seed),
	}, nil
}

// behindDown is how long the cold rows take, and how often the source of the hot ones is asked until then.
func behindDown(ctx context.Context, dir string, hot, cold int) (took time.Duration, asked int64, err error) {
	defer report.Caught(&err)
	report.Check(mkdir(dir))
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	var promoted, questions atomic.Int64
	down := verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
		questions.Add(1)
		return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "down", Err: errors.New("down")}
	})
	isHot := func(c memory.Content) bool { return strings.HasPrefix(c.Predicate, "hot") }
	worker := report.Must(promotion.NewWorker(store, []promotion.Source{
		{Name: "down", Verifier: verifier.WithBreaker("down", down, nil), Rank: memory.RankTool, Covers: isHot},
		{Name: "up", Verifier: verifier.WithBreaker("up", verifier.Func(free), nil), Rank: memory.RankTool, Covers: func(c memory.Content) bool { return !isHot(c) }},
	}, &promotion.Options{Budget: -1, Observe: func(r promotion.Result) {
		if r.Status == promotion.Promoted {
			promoted.Add(1)
		}
	}}))
	for part := range slices.Chunk(fill(ctx, store, "hot", hot, memory.StateUnverified), 1000) {
		heat := map[memory.ID]float64{}
		for _, id := range part {
			heat[id] = 100
		}
		report.Must(store.AddHeat(ctx, heat))
	}
	fill(ctx, store, "cold", cold, memory.StateUnverified)
	began := time.Now()
	stop := serve(ctx, r.Client, worker)
	defer func() { err = errors.Join(err, stop()) }() // before the client is closed
	report.Check(until(ctx, 10*time.Minute, "the cold rows are promoted", func() (bool, error) { return promoted.Load() == int64(cold), nil }))
	return time.Since(began), questions.Load(), nil
}

// cutOff has a worker that can reach the source, alone and beside one that cannot: how long it takes.
func (b *bench) cutOff(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	alone, _, err := besideCutOff(ctx, filepath.Join(dir, "reached"), b.outageRows, false)
	report.Check(err)
	beside, vain, err := besideCutOff(ctx, filepath.Join(dir, "cut-off"), b.outageRows, true)
	report.Check(err)
	return []report.Figure{
		report.AtLeast("outage/rate_beside_a_worker_that_is_cut_off_over_alone", "times", alone.Seconds()/beside.Seconds(), 0.9, b.outageRows, b.seed),
		report.AtMost("outage/questions_of_the_worker_that_is_cut_off", "questions", float64(vain), 40, b.outageRows, b.seed),
	}, nil
}

func besideCutOff(ctx context.Context, dir string, rows int, beside bool) (took time.Duration, vain int64, err error) {
	defer report.Caught(&err)
	const latency = 10 * time.Millisecond
	report.Check(mkdir(dir))
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	var promoted, questions atomic.Int64
	fill(ctx, store, "row", rows, memory.StateUnverified)
	start := func(v verifier.Func) (stop func() error) {
		return serve(ctx, r.Client, report.Must(promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: verifier.WithBreaker("crm", v, nil), Rank: memory.RankTool}},
			&promotion.Options{Budget: -1, Observe: func(r promotion.Result) {
				if r.Status == promotion.Promoted {
					promoted.Add(1)
				}
			}})))
	}
	if beside {
		stop := start(func(context.Context, memory.Row) (verifier.Verdict, error) {
			questions.Add(1)
			return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "crm", Err: errors.New("no route")}
		})
		defer func() { err = errors.Join(err, stop()) }() // before the client is closed
		report.Check(until(ctx, time.Minute, "it has asked in vain", func() (bool, error) { return questions.Load() > 3, nil }))
	}
	began := time.Now()
	stop := start(freeAfter(latency))
	defer func() { err = errors.Join(err, stop()) }()
	// What the other one has in hand when the rest is done takes a few seconds more.
	most := int64(rows - 2*promotion.DefaultPlaces)
	report.Check(until(ctx, time.Minute, "nearly all rows are promoted", func() (bool, error) { return promoted.Load() >= most, nil }))
	took = time.Since(began)
	report.Check(until(ctx, time.Minute, "all rows are promoted", func() (bool, error) { return promoted.Load() == int64(rows), nil }))
	return took, questions.Load(), nil
}
