package asynqqueue_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// TestTheRowOfABlockedCallIsCheckedNext goes all the way: a call falls over the
// coldest of many rows, the gate tells whoever listens, the row goes to the head of
// the queue, a worker verifies it, and the same call is made.
func TestTheRowOfABlockedCallIsCheckedNext(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, client redis.UniversalClient) {
		w := newWorld(t, verifiertest.Supports())
		q := newQueue(client, nil)
		reads := map[memory.ID]float64{}
		for i := range 30 {
			reads[w.write(fmt.Sprint("read", i), memory.StateUnverified)] = float64(3 + i)
		}
		cold := w.write("cold", memory.StateUnverified)
		w.heat(reads)
		w.sweep(q)
		heater := promotion.NewHeater(w.store, q, nil)
		g, err := gate.New(w.store, gate.Policy{Name: "p", Declared: true}, &gate.Options{OnBlock: heater.ObserveBlocked})
		if err != nil {
			t.Fatal(err)
		}
		req := gate.Request{Contract: gate.Contract{Tool: "book", Effect: gate.StateChanging}, Agent: "a", Run: "r", Principal: "ana", Lineage: gate.Known([]memory.ID{cold}, nil)}
		held := g.Decide(t.Context(), req)
		if held.Outcome != gate.Hold || len(held.Rows) != 1 || held.Rows[0].ID != cold {
			t.Fatalf("%+v", held)
		}
		if err := heater.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		next, ok, err := q.Claim(t.Context())
		if err != nil || !ok || next != cold {
			t.Fatalf("the next row is %s, want %s (%v, %v)", next, cold, ok, err)
		}
		if r, err := w.worker.Check(t.Context(), next); err != nil || r.Status != promotion.Promoted {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err := gate.Wait(t.Context(), w.store, held.HoldID); err != nil || r.How != gate.HowPromoted {
			t.Errorf("%+v, %v", r, err)
		}
		if d := g.Decide(t.Context(), req); d.Blocked() || d.HoldID != held.HoldID || d.Approval != nil {
			t.Errorf("%v", d.Err())
		}
	})
}
