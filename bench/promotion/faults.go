package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// outage writes rows while the verifier is down, refusing and hanging by turns, and
// looks at what is left of it when the verifier is back.
func (b *bench) outage(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const latency, places = 20 * time.Millisecond, 4
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	r := report.Must(localredis.Open(ctx, "", nil))
	defer r.Close()
	var down atomic.Bool
	var calls, after atomic.Int64
	flaky := verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
		n := calls.Add(1)
		if down.Load() {
			if n%2 == 0 {
				<-ctx.Done()
			}
			return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "crm", Err: errors.New("down")}
		}
		after.Add(1)
		return freeAfter(latency)(ctx, row)
	})
	guard := verifier.WithBreaker("crm", flaky, &verifier.BreakerOptions{MaxConcurrent: places, Timeout: 500 * time.Millisecond, FirstOpen: 250 * time.Millisecond, OpenFor: 250 * time.Millisecond})
	worker := report.Must(promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}}, &promotion.Options{Budget: -1}))
	stop := serve(ctx, r.Client, worker)
	defer stop()

	down.Store(true)
	ids := fill(ctx, store, "row", b.outageRows, memory.StateUnavailableAtWriteTime)
	hours := time.NewTimer(2 * time.Second) // the rest of the hour, in which nobody writes
	<-hours.C
	verified := 0
	rows := report.Must(get(ctx, store, ids))
	for i := range rows {
		if rows[i].State() != memory.StateUnavailableAtWriteTime {
			verified++
		}
	}
	down.Store(false)
	began := time.Now()
	report.Check(until(ctx, 10*time.Minute, "no row is due", func() (bool, error) {
		_, due, err := store.OldestDue(ctx)
		return !due && err == nil, err
	}))
	drained := time.Since(began).Seconds()
	report.Check(stop())
	lost := 0
	rows = report.Must(get(ctx, store, ids))
	for i := range rows {
		if rows[i].State() != memory.StateVerified || rows[i].Outage != memory.OutageResolved {
			lost++
		}
	}
	n := b.outageRows
	return []report.Figure{
		report.Exactly("outage/rows_not_verified_after_it", "rows", float64(lost), 0, n, b.seed),
		report.Exactly("outage/rows_that_moved_in_it", "rows", float64(verified), 0, n, b.seed),
		report.AtMost("outage/calls_a_row_after_it", "calls", float64(after.Load())/float64(n), 1.1, n, b.seed),
		report.Over("outage/drain_beside_rows_over_capacity", "s", drained, float64(n)*latency.Seconds()/places, 1.2, n, b.seed),
	}, nil
}

// get reads many rows.
func get(ctx context.Context, s *memory.Store, ids []memory.ID) (rows []memory.Row, err error) {
	for part := range slices.Chunk(ids, 500) {
		got, err := s.Get(ctx, part...)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

// again delivers each row one to five times, in random order, to three workers at
// once: what counts is that each has one effect and one entry.
func (b *bench) again(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	store := report.Must(openStore(ctx, "sqlite:"+filepath.Join(dir, "agent.db")))
	defer store.Close()
	ids := fill(ctx, store, "row", b.againRows, memory.StateUnverified)
	rng := rand.New(rand.NewPCG(b.seed, 5))
	var deliveries []memory.ID
	for _, id := range ids {
		for range 1 + rng.IntN(5) {
			deliveries = append(deliveries, id)
		}
	}
	rng.Shuffle(len(deliveries), func(i, j int) { deliveries[i], deliveries[j] = deliveries[j], deliveries[i] })
	var next atomic.Int64
	var all sync.WaitGroup
	var fault atomic.Pointer[error]
	for range 3 {
		worker := report.Must(promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: verifier.Func(free), Rank: memory.RankTool}}, &promotion.Options{Budget: -1}))
		for range 8 {
			all.Go(func() {
				for {
					i := int(next.Add(1)) - 1
					if i >= len(deliveries) || fault.Load() != nil {
						return
					}
					if _, err := worker.Check(ctx, deliveries[i]); err != nil {
						fault.Store(&err)
					}
				}
			})
		}
	}
	all.Wait()
	if err := fault.Load(); err != nil {
		return nil, *err
	}
	wrong := 0
	for _, id := range ids {
		log := report.Must(store.History(ctx, id, false))
		if len(log) != 2 || log[1].Kind != memory.EntryTransition || log[1].To != memory.TruthSupported.String() {
			wrong++
		}
	}
	return []report.Figure{report.Exactly("again/rows_without_exactly_one_effect", "rows", float64(wrong), 0, len(deliveries), b.seed)}, nil
}
