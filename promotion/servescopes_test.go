package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// routed is a queue of tasks for each source.
type routed struct {
	mu sync.Mutex
	of map[string]*tasks
}

func (r *routed) source(name string) *tasks {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = map[string]*tasks{}
	}
	if r.of[name] == nil {
		r.of[name] = newTasks()
	}
	return r.of[name]
}

func (r *routed) Enqueue(ctx context.Context, c promotion.Check, timeout time.Duration) (bool, error) {
	return r.source(c.Source).Enqueue(ctx, c, timeout)
}

func (r *routed) Serve(ctx context.Context, source string, places int, h promotion.CheckHandler) error {
	return r.source(source).Serve(ctx, source, places, h)
}

func (r *routed) ServeLooks(ctx context.Context, look func(tenant, namespace string) bool) error {
	return r.source("").ServeLooks(ctx, look)
}

func (r *routed) Find(ctx context.Context, c promotion.Check) (promotion.Place, error) {
	return r.source(c.Source).Find(ctx, c)
}

func (r *routed) Paused(ctx context.Context, source string) (bool, error) {
	return r.source(source).Paused(ctx, source)
}

// counted is a driver that counts the reads of it, and can be down or hang.
type counted struct {
	memory.Driver
	reads *atomic.Int64
	keys  *atomic.Int64 // that are read; nil = they are not counted
	down  *atomic.Bool
	hangs *atomic.Bool // nil = never
}

var errStore = errors.New("the store is down")

// read counts a read, which hangs or fails if the store does.
func (c counted) read(ctx context.Context) error {
	c.reads.Add(1)
	if c.hangs != nil && c.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	if c.down.Load() {
		return errStore
	}
	return nil
}

func (c counted) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if err := c.read(ctx); err != nil {
		return nil, err
	}
	if c.keys != nil {
		c.keys.Add(int64(len(keys)))
	}
	return c.Driver.Get(ctx, tenant, keys)
}

func (c counted) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := c.read(ctx); err != nil {
		return nil, "", err
	}
	return c.Driver.Query(ctx, tenant, q)
}

// scopes are services of namespaces of one driver.
type scopes struct {
	t     *testing.T
	queue routed
	each  []*service
	reads atomic.Int64
	down  atomic.Bool // the first namespace
	hangs atomic.Bool // the first namespace
	log   testmain.Output

	elsewhere string // of suspicious
	unfound   bool   // of suspicious
	taken     bool   // of suspicious
}

func newScopes(t *testing.T, n int) *scopes {
	s := &scopes{t: t}
	d, never := storetest.NewMap(), new(atomic.Bool)
	for i := range n {
		of := counted{Driver: d, reads: &s.reads, down: never}
		if i == 0 {
			of.down, of.hangs = &s.down, &s.hangs
		}
		c := &service{world: &world{t: t, ctx: t.Context()}, t: t}
		c.store = storetest.On(of, &memory.Options{Namespace: fmt.Sprint("ns-", i)})
		s.each = append(s.each, c)
	}
	return s
}

// serve serves all of them, with the sources that make gives, until the test ends.
func (s *scopes) serve(weight func(i int) int, sources ...promotion.Source) {
	var all []promotion.Scope
	for i, c := range s.each {
		all = append(all, promotion.Scope{Worker: c.worker(&promotion.Options{Budget: -1, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}, sources...), Weight: weight(i), ReadsElsewhere: true})
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- promotion.Serve(ctx, &s.queue, all...) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
}

func alike(int) int { return 0 }

// TestAScopeWithManyRowsHoldsUpNoOther.
func TestAScopeWithManyRowsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 21)
		many := s.each[0].claims(2000)
		few := map[*service][]memory.ID{}
		for _, c := range s.each[1:] {
			few[c] = c.claims(10)
		}
		crm := &flaky{says: verifiertest.Supports()}
		s.serve(alike, guarded("crm", memory.RankTool, crm))
		time.Sleep(time.Second) // the 200 questions take 0.25 s, and each has one of many rows beside it
		for c, ids := range few {
			if n := c.verified(ids); n != len(ids) {
				t.Errorf("%d of %d rows are verified", n, len(ids))
			}
		}
		if n := s.each[0].verified(many); n < 300 || n > 700 {
			t.Errorf("%d of %d rows of the other scope", n, len(many))
		}
		if n := s.queue.source("crm").highest(); n > 16+8*20+16 { // twice the places, and what ended in 200 ms
			t.Errorf("%d tasks at a time", n)
		}
		s.each[0].within(10*time.Second, many)
	})
}

// TestScopesHaveTheirWeight.
func TestScopesHaveTheirWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		heavy, light := s.each[0].claims(2000), s.each[1].claims(2000)
		s.serve(func(i int) int { return 3 - 2*i }, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(2 * time.Second)
		if n, m := s.each[0].verified(heavy), s.each[1].verified(light); n < 1000 || n < 5*m/2 || n > 7*m/2 {
			t.Errorf("%d and %d rows, want three times as many", n, m)
		}
	})
}

// TestScopesWithNothingToDoCostLittle: 1,000 cost at most 100 reads a second, however many sources they have.
func TestScopesWithNothingToDoCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		s := newScopes(t, n)
		crm := &flaky{says: verifiertest.Supports()}
		for _, c := range s.each {
			c.claims(1)
		}
		s.serve(alike, guarded("a", memory.RankTool, crm), guarded("b", memory.RankTool, crm), guarded("c", memory.RankTool, crm))
		time.Sleep(5 * time.Minute)
		before := s.reads.Load()
		const minutes = 10
		time.Sleep(minutes * time.Minute)
		if reads, most := s.reads.Load()-before, int64(minutes*60*100*n/1000); reads == 0 || reads > most {
			t.Errorf("%d reads, want %d at most", reads, most)
		}
		// And what is written is found all the same.
		s.each[n-1].within(31*time.Second, s.each[n-1].claims(1))
	})
}

// TestAStoreThatIsDownHoldsUpNoOtherScope, and is logged once.
func TestAStoreThatIsDownHoldsUpNoOtherScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 3)
		ids := s.each[0].claims(20)
		other := s.each[1].claims(100)
		s.down.Store(true)
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		s.each[1].within(2*time.Second, other)
		time.Sleep(5 * time.Minute)
		if log := s.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "not enqueued") || !strings.Contains(log, "not moved") || !strings.Contains(log, "ns-0") {
			t.Errorf("logged: %s", log)
		}
		s.down.Store(false)
		s.each[0].within(3*time.Second, ids)
		if log := s.log.String(); strings.Count(log, "\n") != 3 || !strings.Contains(log, "enqueued again") {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestAStoreThatHangsHoldsTheOnlyPlaceForAWhile, until it is seen that it hangs.
func TestAStoreThatHangsHoldsTheOnlyPlaceForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		ids := s.each[0].claims(20)
		ids = append(ids, s.each[0].claims(30)...)
		others := s.each[1].claims(500)
		crm := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})
		crm.Places = 1
		s.serve(alike, crm)
		time.Sleep(time.Second) // some of its checks are in the queue
		s.hangs.Store(true)
		s.each[1].within(30*time.Second, others) // the questions take 5 s
		s.hangs.Store(false)
		s.each[0].within(time.Minute, ids)
	})
}

// TestChecksOfAStoreThatIsDownTakeNoRoom: those that are outstanding when it goes down.
func TestChecksOfAStoreThatIsDownTakeNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		s.each[0].claims(600)
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(100 * time.Millisecond)
		s.down.Store(true)
		time.Sleep(10 * time.Second)
		s.each[1].within(40*time.Second, s.each[1].claims(50))
	})
}

// TestAQueueThatIsDownLeavesNothingBehind: the lists that were begun end.
func TestAQueueThatIsDownLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 4)
		q := s.queue.source("crm")
		lost := s.each[0].claims(2)
		for _, id := range lost {
			q.state[promotion.Check{Tenant: s.each[0].store.Tenant(), Namespace: "ns-0", Row: id, Source: "crm", Generation: s.each[0].mark(id).Generation}] = "orphaned"
		}
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(40 * time.Second)
		q.do(func() { q.down = true })
		for _, c := range s.each[1:] {
			c.claims(2)
		}
		time.Sleep(2 * time.Minute) // what goes on after the end of the test fails it
	})
}

// unwoken is a store that once cannot wake rows.
type unwoken struct {
	*memory.Store
	fails atomic.Bool
}

func (f *unwoken) WakeDue(ctx context.Context, limit int) (int, time.Time, error) {
	n, next, err := f.Store.WakeDue(ctx, limit)
	if err == nil && f.fails.CompareAndSwap(true, false) {
		return 0, f.Now().Add(7 * 24 * time.Hour), errStore
	}
	return n, next, err
}

// TestRowsAreWokenAfterAFault.
func TestRowsAreWokenAfterAFault(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(1)
		if err := s.store.Reschedule(s.ctx, ids[0], s.store.Now().Add(time.Minute), 0, "later"); err != nil {
			t.Fatal(err)
		}
		store := &unwoken{Store: s.store}
		store.fails.Store(true)
		worker, err := promotion.NewWorker(store, []promotion.Source{source(verifiertest.New("crm", verifiertest.Supports()))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s.serve(worker, "crm", 1)
		s.within(63*time.Second, ids)
	})
}

// TestScopesProbeASourceTogether: a source that is down is not asked by each of them.
func TestScopesProbeASourceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 20)
		ids := map[*service][]memory.ID{}
		for _, c := range s.each {
			ids[c] = c.claims(5)
		}
		crm := &flaky{says: verifiertest.Supports()}
		crm.down.Store(true)
		s.serve(alike, guarded("crm", memory.RankTool, crm))
		time.Sleep(10 * time.Minute)
		if n := crm.asked.Load(); n < 100 || n > 140 {
			t.Errorf("%d questions in ten minutes", n)
		}
		crm.down.Store(false)
		time.Sleep(8 * time.Second)
		for c, ids := range ids {
			if n := c.verified(ids); n != len(ids) {
				t.Errorf("%d of %d rows are verified", n, len(ids))
			}
		}
	})
}

// TestFewScopesLookForARowToProbeWith, however long the answer to a probe takes.
func TestFewScopesLookForARowToProbeWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 40)
		for _, c := range s.each {
			c.claims(3)
		}
		s.serve(alike, guarded("crm", memory.RankTool, verifiertest.New("crm", slow(9*time.Second, verifiertest.Down(0)))))
		time.Sleep(time.Minute)
		s.reads.Store(0)
		time.Sleep(2 * time.Minute)
		if n := s.reads.Load(); n > 6_000 { // if each scope looked for a row, 80,000
			t.Errorf("%d reads of the store in two minutes", n)
		}
	})
}

// TestTheTasksOfAScopeThatNobodyServesComeBack.
func TestTheTasksOfAScopeThatNobodyServesComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		ids := s.each[1].claims(1)
		crm := &flaky{says: verifiertest.Supports()}
		q := s.queue.source("crm")
		if _, err := q.Enqueue(t.Context(), promotion.Check{Tenant: s.each[1].store.Tenant(), Namespace: "ns-1", Row: ids[0], Source: "crm", Generation: s.each[1].mark(ids[0]).Generation}, time.Minute); err != nil {
			t.Fatal(err)
		}
		s.each = s.each[:1]
		s.serve(alike, guarded("crm", memory.RankTool, crm))
		time.Sleep(time.Minute)
		if crm.asked.Load() != 0 || q.left() != 1 {
			t.Errorf("%d questions, %d tasks", crm.asked.Load(), q.left())
		}
	})
}

// TestServeRefuses what it cannot serve.
func TestServeRefuses(t *testing.T) {
	w := newWorld(t)
	worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
	blind, other := w.worker(nil), storetest.On(storetest.NewMap(), &memory.Options{Namespace: "other"})
	for want, scopes := range map[string][]promotion.Scope{
		"no scope":          {},
		"another one":       {{Worker: worker, Reads: promotion.NewHeater(other, nil, nil)}},
		"no worker":         {{}},
		"of NewWorker":      {{Worker: &promotion.Worker{}}},
		"have no store":     {{Worker: worker, Reads: &promotion.Heater{}}},
		"a weight or":       {{Worker: worker, Weight: -1}},
		"a sweep below 0":   {{Worker: worker, Sweep: -1}},
		"a Publish of -1ns": {{Worker: worker, Publish: -1}},
		"a Publish of 1ns":  {{Worker: worker, Publish: 1}},
		"a Publish of 8h0m": {{Worker: worker, Publish: memory.MaxLease/3 + 1}},
		"two workers":       {{Worker: worker}, {Worker: blind}},
	} {
		if err := promotion.Serve(t.Context(), &routed{}, scopes...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := promotion.Serve(t.Context(), nil, promotion.Scope{Worker: worker}); err == nil || !strings.Contains(err.Error(), "no queue") {
		t.Errorf("%v", err)
	}
	if err := promotion.Serve(t.Context(), unserved{newTasks()}, promotion.Scope{Worker: worker}); !errors.Is(err, errQueue) {
		t.Errorf("%v", err)
	}
}

// TestASourceHasAsManyPlacesAsItsBreaker, if it does not say otherwise.
func TestASourceHasAsManyPlacesAsItsBreaker(t *testing.T) {
	v := verifiertest.New("crm", verifiertest.Supports())
	breaker := verifier.WithBreaker("crm", v, &verifier.BreakerOptions{MaxConcurrent: 3})
	member := func(v verifier.Verifier) verifier.Member {
		return verifier.Member{Name: "crm", Rank: memory.RankTool, Verifier: v}
	}
	for name, c := range map[string]struct {
		v    verifier.Verifier
		own  int
		want int
	}{
		"none":            {v, 0, promotion.DefaultPlaces},
		"a breaker":       {breaker, 0, 3},
		"its own":         {breaker, 5, 5},
		"a quorum":        {verifier.NewQuorum("both", 1, member(breaker), member(v), member(verifier.WithBreaker("erp", v, nil))), 0, 3},
		"a quorum of one": {verifier.NewQuorum("bare", 1, member(v)), 0, promotion.DefaultPlaces},
	} {
		w, q := newWorld(t), &placed{places: make(chan int, 1)}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- promotion.Serve(ctx, q, promotion.Scope{Worker: w.worker(nil, promotion.Source{Name: "crm", Verifier: c.v, Rank: memory.RankTool, Places: c.own})})
		}()
		if got := <-q.places; got != c.want {
			t.Errorf("%s: %d places, want %d", name, got, c.want)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// placed is a queue that tells its places, and has no tasks.
type placed struct {
	places chan int
}

func (q *placed) Enqueue(context.Context, promotion.Check, time.Duration) (bool, error) {
	return false, nil
}
func (q *placed) ServeLooks(ctx context.Context, _ func(string, string) bool) error {
	<-ctx.Done()
	return nil
}
func (q *placed) Find(context.Context, promotion.Check) (promotion.Place, error) {
	return promotion.Waiting, nil
}

func (q *placed) Paused(context.Context, string) (bool, error) { return false, nil }
func (q *placed) Serve(ctx context.Context, _ string, places int, _ promotion.CheckHandler) error {
	q.places <- places
	<-ctx.Done()
	return nil
}
