package promotion_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// servedSlow serves the scopes, which look for rows each second. Checks of the first one come with so many crashes.
func (s *scopes) servedSlow(crashes int, sources ...promotion.Source) {
	var all []promotion.Scope
	for _, c := range s.each {
		all = append(all, promotion.Scope{Worker: c.worker(unlimited, sources...), Sweep: time.Second, ReadsElsewhere: true})
	}
	q := &suspicious{routed: &s.queue, namespace: s.each[0].store.Namespace(), crashes: crashes}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- promotion.Serve(ctx, q, all...) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

// suspicious says that workers died while they made the checks of a namespace.
type suspicious struct {
	*routed
	namespace string
	crashes   int
}

func (q *suspicious) Serve(ctx context.Context, source string, places int, h promotion.CheckHandler) error {
	return q.routed.Serve(ctx, source, places, crashed{h, q})
}

type crashed struct {
	promotion.CheckHandler
	q *suspicious
}

func (h crashed) Handle(ctx context.Context, c promotion.Check, n int) error {
	if c.Namespace == h.q.namespace {
		n = h.q.crashes
	}
	return h.CheckHandler.Handle(ctx, c, n)
}

// TestASlowStoreDelaysNoOtherScope: its checks would hold all places of the source. Nothing of it is lost.
func TestASlowStoreDelaysNoOtherScope(t *testing.T) {
	for name, c := range map[string]struct {
		slow    func(*sluggish, bool)
		crashes int
		within  time.Duration // of which one is the time to find them
	}{
		"a quarter of a second for each object": {func(d *sluggish, is bool) { d.slow(is, 250*time.Millisecond) }, 0, 3 * time.Second},
		"two seconds for each object":           {func(d *sluggish, is bool) { d.slow(is, 2*time.Second) }, 0, 3 * time.Second},
		"writes hang":                           {func(d *sluggish, is bool) { d.writesHang.Store(is) }, 0, 3 * time.Second},
		"slow, and all checks are suspects":     {func(d *sluggish, is bool) { d.slow(is, time.Second) }, 2, 8 * time.Second},
		"hanging writes of suspects":            {func(d *sluggish, is bool) { d.writesHang.Store(is) }, 2, 8 * time.Second}, // nothing is asked while five seconds are left to write that one is
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, first := slowScopes(t)
				ids := s.each[0].claims(60)
				c.slow(first, true)
				s.servedSlow(c.crashes, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}), guarded("erp", memory.RankTool, &flaky{says: verifiertest.Supports()}))
				for range 3 {
					time.Sleep(20 * time.Second)
					s.each[1].within(c.within, s.each[1].claims(5))
				}
				c.slow(first, false)
				s.each[0].within(3*time.Minute, ids)
			})
		})
	}
}

func (d *sluggish) slow(is bool, each time.Duration) {
	if !is {
		each = 0
	}
	d.each.Store(int64(each))
}

// TestASlowStoreGoesOn while rows of another scope wait all the time: one of its checks is made.
func TestASlowStoreGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := slowScopes(t)
		ids := s.each[0].claims(8)
		others := s.each[1].claims(1500)
		first.slow(true, 250*time.Millisecond)
		s.servedSlow(0, guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Slow(500*time.Millisecond, verifiertest.Supports()))))
		time.Sleep(60 * time.Second)
		first.slow(false, 0)
		if n := s.each[0].verified(ids); n < 5 {
			t.Errorf("%d of 8 rows are verified", n)
		}
		if n := s.each[1].verified(others); n < 700 || n == len(others) { // seven places make 840
			t.Errorf("%d rows of the other scope are verified", n)
		}
	})
}

// TestASlowStoreIsNotHeldBackAlone: while no row of another scope waits, all places are used.
func TestASlowStoreIsNotHeldBackAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := slowScopes(t)
		ids := s.each[0].claims(16)
		first.slow(true, 250*time.Millisecond) // a check waits for several seconds
		s.servedSlow(0, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(25 * time.Second)
		first.slow(false, 0)
		if n := s.each[0].verified(ids); n < 14 { // one after the other they would be five
			t.Errorf("%d of 16 rows are verified", n)
		}
	})
}
