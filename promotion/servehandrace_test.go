package promotion_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// shut is a driver whose writes wait until a channel is closed.
type shut struct {
	memory.Driver
	until atomic.Pointer[chan struct{}] // nil = they do not wait
}

func (d *shut) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if until := d.until.Load(); until != nil {
		select {
		case <-*until:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d.Driver.Apply(ctx, tenant, b)
}

// TestSlowStoresAreRaced: checks of a slow store are begun, given back, refused and tried while those of another scope
// are made. It is the one test of slow stores that the race detector sees, so it runs in real time.
func TestSlowStoresAreRaced(t *testing.T) {
	t.Parallel()
	d := &shut{Driver: storetest.NewMap()}
	var each []*service
	var all []promotion.Scope
	crm := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})
	crm.Places = 4
	for i, on := range []memory.Driver{d, d, d.Driver} {
		c := &service{world: &world{t: t, ctx: t.Context()}, t: t, n: 1000 * i}
		c.store = storetest.On(on, &memory.Options{Namespace: fmt.Sprint("ns-", i)})
		each = append(each, c)
		all = append(all, promotion.Scope{Worker: c.worker(unlimited, crm), Sweep: time.Second, ReadsElsewhere: true})
	}
	slow := append(each[0].claims(8), each[1].claims(8)...)
	open := make(chan struct{})
	d.until.Store(&open)
	q := &routed{}
	stop := testmain.Serve(t, func(ctx context.Context) error { return promotion.Serve(ctx, q, all...) })
	for range 10 {
		each[2].claims(2)
		time.Sleep(500 * time.Millisecond)
	}
	if n := q.source("crm").back(); n == 0 {
		t.Error("no check of the slow store came back")
	}
	d.until.Store(nil)
	close(open)
	for began := time.Now(); each[0].verified(slow[:8])+each[1].verified(slow[8:]) < 16; time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("the rows of the slow store are not verified")
		}
	}
	stop()
}
