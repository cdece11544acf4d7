package promotion_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
)

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
