package promotion_test

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// world is a store with a clock that stands still until it is moved.
type world struct {
	t     tb
	ctx   context.Context
	store *memory.Store
	mu    sync.Mutex
	now   time.Time
}

func newWorld(t tb) *world {
	w := &world{t: t, ctx: context.Background(), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	// Whoever speaks here has a scope over everything: its word counts for everybody.
	w.store = storetest.NewStore(&memory.Options{Clock: w.clock, Authority: func(string, string, string) bool { return true }})
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) worker(o *promotion.Options, sources ...promotion.Source) *promotion.Worker {
	w.t.Helper()
	worker, err := promotion.NewWorker(w.store, sources, o)
	if err != nil {
		w.t.Fatalf("NewWorker: %v", err)
	}
	return worker
}

func source(v *verifiertest.Scripted) promotion.Source {
	return promotion.Source{Name: v.Name, Verifier: verifiertest.NoBreaker(v), Rank: v.Rank}
}

// ranked returns a scripted verifier of a rank.
func ranked(name string, rank memory.Rank, steps ...verifiertest.Step) *verifiertest.Scripted {
	v := verifiertest.New(name, steps...)
	v.Rank = rank
	return v
}

// claim is what a model said, of low criticality if change does not say otherwise.
func (w *world) claim(subject, object string, change func(*memory.Draft)) memory.ID {
	w.t.Helper()
	d := memory.Draft{
		Content: memory.Content{Subject: subject, Predicate: "city", Object: object, Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityLow,
		Asserter: memory.Asserter{Principal: "agent", Model: "m-1", Family: "m"},
	}
	if change != nil {
		change(&d)
	}
	r, err := w.store.Put(w.ctx, d)
	if err != nil {
		w.t.Fatalf("Put: %v", err)
	}
	return r.ID
}

func (w *world) check(worker *promotion.Worker, id memory.ID) promotion.Result {
	w.t.Helper()
	r, err := worker.Check(w.ctx, id)
	if err != nil {
		w.t.Fatalf("Check: %v", err)
	}
	return r
}

func (w *world) row(id memory.ID) memory.Row {
	w.t.Helper()
	rows, err := w.store.Get(w.ctx, id)
	if err != nil {
		w.t.Fatalf("Get: %v", err)
	}
	return rows[0]
}

// mark is the due mark: zero time = parked.
func (w *world) mark(id memory.ID) memory.Due {
	w.t.Helper()
	m, ok, err := w.store.DueMark(w.ctx, id)
	if err != nil || !ok {
		w.t.Fatalf("DueMark: %v %v", ok, err)
	}
	return m
}

// moves are the audit entries after the write that moved or contested the row.
func (w *world) moves(id memory.ID) (out []memory.AuditEntry) {
	w.t.Helper()
	log, err := w.store.History(w.ctx, id, false)
	if err != nil {
		w.t.Fatalf("History: %v", err)
	}
	for _, e := range log {
		if e.Kind != memory.EntryWrite && e.Kind != memory.EntryEvidence {
			out = append(out, e)
		}
	}
	return out
}

func (w *world) want(id memory.ID, state memory.State, r promotion.Result, status promotion.Status) {
	w.t.Helper()
	if got := w.row(id); got.State() != state || r.Status != status {
		w.t.Errorf("the check gave %s and the row is %s, want %s and %s", r.Status, got.State(), status, state)
	}
}

// looks counts how often it was asked to look.
type looks struct{ n atomic.Int64 }

func (l *looks) Look(context.Context, string, string) error {
	l.n.Add(1)
	return nil
}
