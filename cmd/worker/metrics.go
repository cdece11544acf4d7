package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
)

// meters are the series of the worker, in a registry of their own. Labels come
// from the configuration and from closed sets; none grows with rows or users.
type meters struct {
	registry *prometheus.Registry

	calls    *prometheus.CounterVec
	refusals *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMeters() *meters {
	m := &meters{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hearsay_verifier_calls_total",
			Help: "Questions to a verifier by how they ended: supported, refuted, unclear, gone, unknown, unavailable, misconfigured, canceled."}, []string{"verifier", "outcome"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hearsay_verifier_refusals_total",
			Help: "Questions that were not asked: its breaker was open (open), or too many others were under way (busy)."}, []string{"verifier", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "hearsay_verifier_seconds",
			Help: "How long a question that was asked took to be answered, or given up.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}, []string{"verifier"}),
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hearsay_build_info", Help: "Always 1; the labels say which build this is."}, []string{"version", "go"})
	build.WithLabelValues(version(), runtime.Version()).Set(1)
	m.registry.MustRegister(m.calls, m.refusals, m.seconds, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// tally are the series of the rows of one namespace.
type tally struct {
	registry prometheus.Registerer // for what else is of that namespace

	checks  *prometheus.CounterVec
	lag     prometheus.Histogram
	rows    *prometheus.GaugeVec
	due     *prometheus.GaugeVec
	counted prometheus.Gauge
}

// tally registers the series of a namespace. If the worker serves any by name, all of
// them have the label namespace; to Prometheus an empty label is none.
func (m *meters) tally(namespace string, named bool) *tally {
	t := &tally{
		registry: m.registry,
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "hearsay_promotion_checks_total",
			Help: "Checks of rows by what came of them."}, []string{"result"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "hearsay_promotion_lag_seconds",
			Help: "From the write of a row to its first verification, by the clock of the store.", Buckets: prometheus.ExponentialBuckets(0.1, 4, 12)}),
		rows: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hearsay_rows",
			Help: "Rows by verification state, as of hearsay_rows_counted_timestamp_seconds."}, []string{"state"}),
		due: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "hearsay_rows_due",
			Help: "Rows that want a check now (due), and rows that nobody checks before they are read or retried (parked), as of the same time."}, []string{"state"}),
		counted: prometheus.NewGauge(prometheus.GaugeOpts{Name: "hearsay_rows_counted_timestamp_seconds",
			Help: "When the rows were counted last; 0 = not yet."}),
	}
	if named {
		t.registry = prometheus.WrapRegistererWith(prometheus.Labels{"namespace": namespace}, m.registry)
	}
	t.registry.MustRegister(t.checks, t.lag, t.rows, t.due, t.counted)
	for s := promotion.Promoted; s <= promotion.Renewed; s++ {
		t.checks.WithLabelValues(s.String())
	}
	return t
}

// observe counts what came of a check.
func (t *tally) observe(r promotion.Result) {
	t.checks.WithLabelValues(r.Status.String()).Inc()
	if r.Status == promotion.Promoted && r.Waited > 0 {
		t.lag.Observe(r.Waited.Seconds())
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// watched is a guarded verifier whose calls are counted.
type watched struct {
	*verifier.Guarded
	meters *meters
	last   *atomic.Pointer[answered]
}

// answered is how the newest question ended.
type answered struct {
	outcome string
	at      time.Time
}

// watch guards a verifier and counts its calls; hearsay_verifier_up shows it from
// the start.
func (m *meters) watch(name string, v verifier.Verifier, o *verifier.BreakerOptions) watched {
	w := watched{verifier.WithBreaker(name, v, o), m, &atomic.Pointer[answered]{}}
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "hearsay_verifier_up", Help: "1 if questions to the verifier pass, 0 if its breaker is open.",
		ConstLabels: prometheus.Labels{"verifier": name}}, func() float64 {
		if w.State() == verifier.StateOpen {
			return 0
		}
		return 1
	}))
	for _, outcome := range []string{"supported", "refuted", "unclear", "gone", "unavailable", "misconfigured"} {
		m.calls.WithLabelValues(name, outcome)
	}
	for _, reason := range []string{"open", "busy"} {
		m.refusals.WithLabelValues(name, reason)
	}
	return w
}

// ready is the line of /readyz. A breaker that was never tried is not said to be closed.
func (w watched) ready(now time.Time) check {
	c := check{Name: "verifier " + w.Name(), OK: true, Verifier: "unasked", Detail: "not asked yet"}
	last := w.last.Load()
	if last == nil {
		return c
	}
	c.Verifier = "answers"
	if state := w.State(); state == verifier.StateOpen || last.outcome == "unavailable" || last.outcome == "misconfigured" {
		c.Verifier = "down"
	}
	c.Detail = fmt.Sprintf("breaker %s; the newest question ended %s ago: %s", w.State(), now.Sub(last.at).Round(time.Second), last.outcome)
	return c
}

// VerifyIf asks, and counts what came of it: a question if it was asked, a refusal if the
// guard kept it back, and nothing if may or the end of ctx did.
func (w watched) VerifyIf(ctx context.Context, row memory.Row, may func(context.Context) error) (verifier.Verdict, error) {
	var asked time.Time
	v, err := w.Guarded.VerifyIf(ctx, row, func(ctx context.Context) error {
		err := may(ctx)
		if err == nil {
			asked = time.Now()
		}
		return err
	})
	switch {
	case !asked.IsZero():
		outcome := outcomeOf(v, err)
		w.meters.seconds.WithLabelValues(w.Name()).Observe(time.Since(asked).Seconds())
		w.meters.calls.WithLabelValues(w.Name(), outcome).Inc()
		if outcome != "canceled" {
			w.last.Store(&answered{outcome, time.Now()})
		}
	case errors.Is(err, verifier.ErrOpen):
		w.meters.refusals.WithLabelValues(w.Name(), "open").Inc()
	case errors.Is(err, verifier.ErrBusy):
		w.meters.refusals.WithLabelValues(w.Name(), "busy").Inc()
	}
	return v, err
}

// Verify is VerifyIf without a condition.
func (w watched) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	return w.VerifyIf(ctx, row, func(context.Context) error { return nil })
}

func outcomeOf(v verifier.Verdict, err error) string {
	switch {
	case err == nil:
		return v.Outcome.String()
	case errors.Is(err, verifier.ErrMisconfigured):
		return "misconfigured"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "unavailable"
	}
}

// count counts the rows by state, again and again until ctx ends. The store has
// no counter, so the rows are read: the pause between two counts is at least
// twenty times what the last one took.
func (t *tally) count(ctx context.Context, s *memory.Store, least time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		start := time.Now()
		t.countOnce(ctx, s)
		timer.Reset(max(least, 20*time.Since(start)))
	}
}

func (t *tally) countOnce(ctx context.Context, s *memory.Store) {
	n := map[memory.State]int{memory.StateUnverified: 0, memory.StateUnavailableAtWriteTime: 0, memory.StateVerified: 0}
	for r, err := range s.Rows(ctx, memory.Filter{}) {
		if err != nil {
			return // the last count stays, and its timestamp says how old it is
		}
		n[r.State()]++
	}
	due, parked := 0, 0
	for _, err := range s.DueRows(ctx, s.Now()) {
		if err != nil {
			return
		}
		due++
	}
	for _, err := range s.ParkedRows(ctx) {
		if err != nil {
			return
		}
		parked++
	}
	for state, rows := range n {
		t.rows.WithLabelValues(state.String()).Set(float64(rows))
	}
	t.due.WithLabelValues("due").Set(float64(due))
	t.due.WithLabelValues("parked").Set(float64(parked))
	t.counted.SetToCurrentTime()
}
