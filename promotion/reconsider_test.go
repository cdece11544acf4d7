package promotion_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func TestAWorkerThatStartsTakesUpWhatNobodyCovered(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "pay@acme.example", nil)
	w.want(id, memory.StateUnverified, w.check(w.worker(nil), id), promotion.Parked)

	q := &offers{}
	sweeper := promotion.NewSweeper(w.store, q, 0, nil)
	if n, err := sweeper.Sweep(w.ctx); n != 0 || err != nil {
		t.Fatalf("a sweep offered %d parked rows: %v", n, err)
	}
	if n, err := sweeper.Reconsider(w.ctx); n != 1 || err != nil {
		t.Fatalf("reconsidered %d rows: %v", n, err)
	}
	if n, err := sweeper.Sweep(w.ctx); n != 1 || err != nil {
		t.Fatalf("offered %d rows: %v", n, err)
	}
	crm := ranked("crm", memory.RankTool, verifiertest.Supports())
	w.want(id, memory.StateVerified, w.check(w.worker(nil, source(crm)), id), promotion.Promoted)
}

func TestWithoutAQueueReadsAreCountedInTheStore(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "pay@acme.example", nil)
	h := promotion.NewHeater(w.store, nil, nil)
	h.ObserveReads(w.ctx, []memory.ID{id}, 3)
	if err := h.Flush(w.ctx); err != nil {
		t.Fatal(err)
	}
	if heat := w.mark(id).Heat; heat != 3 {
		t.Errorf("the heat is %v, want 3", heat)
	}
}
