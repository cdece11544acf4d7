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
// those wait, and how often the other one is asked. The sources either name their predicates, or only know a
// claim that they cover when they see it.
func (b *bench) bulkhead(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const cold, unnamed = 20, 10_000
	for _, how := range []string{"unnamed", "named"} {
		hot := unnamed
		if how == "named" {
			hot = b.bulkheadRows
		}
		took, asked, err := behindDown(ctx, filepath.Join(dir, how), hot, cold, how == "named")
		report.Check(err)
		figures = append(figures,
			report.AtMost(fmt.Sprintf("outage/until_%d_rows_behind_%d_of_%s_predicates_are_promoted", cold, hot, how), "s", took.Seconds(), 2, cold, b.seed),
			report.AtMost(fmt.Sprintf("outage/questions_to_the_source_of_%s_predicates_that_is_down", how), "questions", float64(asked), 16, hot, b.seed))
	}
	return figures, nil
}

// kinds are the predicates of the rows of one source.
func kinds(name string) (all []string) {
	const predicates = 100
	for i := range predicates {
		all = append(all, fmt.Sprint(name, " ", i))
	}
	return all
}

// behindDown is how long the cold rows take, and how often the source of the hot ones is asked until then.
func behindDown(ctx context.Context, dir string, hot, cold int, named bool) (took time.Duration, asked int64, err error) {
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
	source := func(name, of string, v verifier.Verifier) promotion.Source {
		s := promotion.Source{Name: name, Verifier: v, Rank: memory.RankTool, Covers: func(c memory.Content) bool { return strings.HasPrefix(c.Predicate, of) }}
		if named {
			s.Predicates = kinds(of)
		}
		return s
	}
	worker := report.Must(promotion.NewWorker(store, []promotion.Source{source("down", "hot", down), source("up", "cold", verifier.Func(free))},
		&promotion.Options{Budget: -1, Observe: func(r promotion.Result) {
			if r.Status == promotion.Promoted {
				promoted.Add(1)
			}
		}}))
	write := func(name string, n int) []memory.ID {
		all := kinds(name)
		return fillWith(ctx, store, n, func(i int) memory.Draft {
			d := draft(name, i)
			d.Content.Predicate, d.Content.Object = all[i%len(all)], fmt.Sprint("yes ", i)
			return d
		})
	}
	for part := range slices.Chunk(write("hot", hot), 1000) {
		heat := map[memory.ID]float64{}
		for _, id := range part {
			heat[id] = 100
		}
		report.Must(store.AddHeat(ctx, heat))
	}
	write("cold", cold)
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
