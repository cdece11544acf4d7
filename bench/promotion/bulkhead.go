package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// bulkhead has many hot rows of a source that is down, and may be asked again four times
// a second, and colder ones of another: how long those wait, and how many checks are
// in vain.
func (b *bench) bulkhead(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const places, batch, probes = 4, 32, 8
	hot, cold := b.bulkheadRows, b.bulkheadRows/50
	alone := report.Must(besideRefused(ctx, filepath.Join(dir, "alone"), 0, cold, places, batch, 0))
	beside := report.Must(besideRefused(ctx, filepath.Join(dir, "beside"), hot, cold, places, batch, probes))
	return []report.Figure{
		report.Beside("outage/bulkhead_until_all_others_are_promoted", "s", beside.took.Seconds(), alone.took.Seconds(), cold, b.seed),
		report.AtMost("outage/bulkhead_checks_in_vain_a_row_until_then", "checks", float64(beside.vain)/float64(hot), 1.5, hot, b.seed),
		report.AtMost("outage/bulkhead_checks_in_vain_a_probe_after_it", "checks", float64(beside.after)/probes, 4, hot, b.seed),
	}, nil
}

// refused is what besideRefused measures: the time until the cold rows are promoted, checks
// of hot rows until then, and while so many probes of their source failed after it.
type refused struct {
	took        time.Duration
	vain, after int64
}

func besideRefused(ctx context.Context, dir string, hot, cold, places, batch int, probes int64) (f refused, err error) {
	defer report.Caught(&err)
	report.Check(mkdir(dir))
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	var vain, promoted, asked atomic.Int64
	down := verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
		asked.Add(1)
		return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "down", Err: errors.New("down")}
	})
	guard := verifier.WithBreaker("down", down, &verifier.BreakerOptions{MaxConcurrent: places, FirstOpen: 250 * time.Millisecond, OpenFor: 250 * time.Millisecond})
	isHot := func(c memory.Content) bool { return strings.HasPrefix(c.Predicate, "hot") }
	worker := report.Must(promotion.NewWorker(store, []promotion.Source{
		{Name: "down", Verifier: guard, Rank: memory.RankTool, Covers: isHot},
		{Name: "up", Verifier: verifier.Func(free), Rank: memory.RankTool, Covers: func(c memory.Content) bool { return !isHot(c) }},
	}, &promotion.Options{Budget: -1, Observe: func(r promotion.Result) {
		switch r.Status {
		case promotion.Down:
			vain.Add(1)
		case promotion.Promoted:
			promoted.Add(1)
		}
	}}))
	queue := asynqqueue.New(r.Client, &asynqqueue.Options{Concurrency: places, Batch: batch})
	for part := range slices.Chunk(fill(ctx, store, "hot", hot, memory.StateUnverified), 1000) {
		heat := map[memory.ID]float64{}
		for _, id := range part {
			heat[id] = 100
		}
		report.Must(store.AddHeat(ctx, heat))
	}
	fill(ctx, store, "cold", cold, memory.StateUnverified)
	report.Must(promotion.NewSweeper(store, queue, 0, nil).Sweep(ctx))
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	defer func() { // before the client is closed
		stop()
		err = errors.Join(err, <-ended)
	}()
	began := time.Now()
	go func() { ended <- queue.Serve(serving, worker) }()
	report.Check(until(ctx, time.Minute, "the cold rows are promoted", func() (bool, error) { return promoted.Load() == int64(cold), nil }))
	f.took, f.vain = time.Since(began), vain.Load()
	from := asked.Load()
	report.Check(until(ctx, time.Minute, "the source was asked again", func() (bool, error) { return asked.Load() >= from+probes, nil }))
	f.after = vain.Load() - f.vain
	return f, nil
}

// cutOff has a worker that can reach the source, alone and beside one that cannot, and has
// put all rows in its backlog: how long it takes.
func (b *bench) cutOff(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	alone := report.Must(besideCutOff(ctx, filepath.Join(dir, "reached"), b.outageRows, false))
	beside := report.Must(besideCutOff(ctx, filepath.Join(dir, "cut-off"), b.outageRows, true))
	return []report.Figure{
		report.Beside("outage/until_all_are_promoted_beside_a_worker_that_is_cut_off", "s", beside.took.Seconds(), alone.took.Seconds(), b.outageRows, b.seed),
		report.AtMost("outage/checks_of_the_worker_that_is_cut_off", "checks", float64(beside.vain)/float64(b.outageRows), 1.5, b.outageRows, b.seed),
	}, nil
}

func besideCutOff(ctx context.Context, dir string, rows int, beside bool) (f refused, err error) {
	defer report.Caught(&err)
	report.Check(mkdir(dir))
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	serving, stop := context.WithCancel(ctx)
	ended, workers := make(chan error, 2), 0
	defer func() { // before the client is closed
		stop()
		for range workers {
			err = errors.Join(err, <-ended)
		}
	}()
	serve := func(v verifier.Verifier, count *atomic.Int64, status promotion.Status) *asynqqueue.Queue {
		guard := verifier.WithBreaker("crm", v, nil)
		worker := report.Must(promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}},
			&promotion.Options{Budget: -1, Observe: func(r promotion.Result) {
				if r.Status == status {
					count.Add(1)
				}
			}}))
		queue := asynqqueue.New(r.Client, &asynqqueue.Options{Concurrency: 4})
		workers++
		go func() { ended <- queue.Serve(serving, worker) }()
		return queue
	}
	fill(ctx, store, "row", rows, memory.StateUnverified)
	report.Must(promotion.NewSweeper(store, asynqqueue.New(r.Client, nil), 0, nil).Sweep(ctx))
	var vain, promoted atomic.Int64
	if beside {
		queue := serve(verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "crm", Err: errors.New("no route")}
		}), &vain, promotion.Down)
		report.Check(until(ctx, time.Minute, "the rows are in the backlog", func() (bool, error) {
			s, err := queue.Stats(ctx)
			return err == nil && len(s.Backlogs) == 1 && s.Backlogs[0].Rows > int64(rows)*9/10, err
		}))
	}
	began := time.Now()
	serve(verifier.Func(free), &promoted, promotion.Promoted)
	report.Check(until(ctx, time.Minute, "all rows are promoted", func() (bool, error) { return promoted.Load() == int64(rows), nil }))
	f.took, f.vain = time.Since(began), vain.Load()
	return f, nil
}
