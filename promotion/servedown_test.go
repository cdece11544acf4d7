package promotion_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// flaky is a source that is up or down, or down for some subjects alone. An answer takes 10 ms.
type flaky struct {
	down  atomic.Bool
	fails string // a prefix of subjects; "" = none
	says  verifiertest.Step
	asked atomic.Int64
}

func (f *flaky) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	f.asked.Add(1)
	select {
	case <-time.After(10 * time.Millisecond):
	case <-ctx.Done():
		return verifier.Verdict{}, ctx.Err()
	}
	if f.down.Load() || f.fails != "" && strings.HasPrefix(row.Content.Subject, f.fails) {
		return verifier.Verdict{}, errNoAnswer
	}
	return f.says(ctx, verifiertest.New("crm", f.says), row)
}

// guarded is a source of a name, behind a breaker of its own.
func guarded(name string, rank memory.Rank, v verifier.Verifier) promotion.Source {
	return promotion.Source{Name: name, Rank: rank, Verifier: verifier.WithBreaker(name, v, nil)}
}

// unlimited are options of a worker without a budget.
var unlimited = &promotion.Options{Budget: -1}

// TestAfterALongOutageAFewRowsDoNotWait: what was asked about in the outage is not set aside for as long
// again.
func TestAfterALongOutageAFewRowsDoNotWait(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(3)
		crm := &flaky{says: verifiertest.Supports()}
		crm.down.Store(true)
		s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, crm)), "crm", 8)
		time.Sleep(time.Hour)
		crm.down.Store(false)
		if took := s.within(time.Minute, ids); took > 8*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestRowsThatAlwaysFailHoldUpNoOthers, though they are read most.
func TestRowsThatAlwaysFailHoldUpNoOthers(t *testing.T) {
	inBubble(t, func(s *service) {
		var failing []memory.ID
		reads := map[memory.ID]float64{}
		for i := range 40 {
			id := s.claim(fmt.Sprint("dead ", i), "Oslo", nil)
			failing, reads[id] = append(failing, id), 100
		}
		if _, err := s.store.AddHeat(s.ctx, reads); err != nil {
			t.Fatal(err)
		}
		ids := s.claims(400)
		crm := &flaky{says: verifiertest.Supports(), fails: "dead"}
		s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, crm)), "crm", 8)
		took := s.within(time.Minute, ids) // the questions take half a second
		if n := crm.asked.Load() - int64(len(ids)); took > 3*time.Second || n > 400 {
			t.Errorf("it took %s, and %d questions failed", took, n)
		}
		for _, id := range failing {
			if m := s.mark(id); m.Of("crm").Failures == 0 {
				t.Errorf("%+v", m)
			}
		}
		// As no others are due, the source seems to be down, and is asked as often as one that is.
		time.Sleep(time.Hour)
		before := crm.asked.Load()
		time.Sleep(time.Hour)
		if n := crm.asked.Load() - before; n > 740 {
			t.Errorf("%d questions in an hour", n)
		}
	})
}

// TestTheBestSourceThatCanBeAskedIsAsked: another one if that is down, has answered, or fails to.
func TestTheBestSourceThatCanBeAskedIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		first        func(*flaky)
		asked, other [2]int64 // at least and at most
	}{
		"it is up":           {func(*flaky) {}, [2]int64{200, 200}, [2]int64{0, 0}},
		"it is down":         {func(f *flaky) { f.down.Store(true) }, [2]int64{3, 15}, [2]int64{200, 200}},
		"it cannot say":      {func(f *flaky) { f.says = verifiertest.Unclear() }, [2]int64{200, 200}, [2]int64{200, 200}},
		"it fails for a few": {func(f *flaky) { f.fails = "acme 1" }, [2]int64{200, 230}, [2]int64{100, 120}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				ids := s.claims(200)
				first, other := &flaky{says: verifiertest.Supports()}, &flaky{says: verifiertest.Supports()}
				c.first(first)
				worker := s.worker(unlimited, guarded("crm", memory.RankPrimarySource, first), guarded("erp", memory.RankTool, other))
				s.serveAll(worker)
				if took := s.within(time.Minute, ids); took > 3*time.Second { // one source takes a quarter of a second
					t.Errorf("it took %s", took)
				}
				if n, m := first.asked.Load(), other.asked.Load(); n < c.asked[0] || n > c.asked[1] || m < c.other[0] || m > c.other[1] {
					t.Errorf("%d and %d questions, want %v and %v", n, m, c.asked, c.other)
				}
			})
		})
	}
}

// serveAll has all sources of a worker served until the test ends.
func (s *service) serveAll(worker *promotion.Worker) {
	testmain.Serve(s.t, func(ctx context.Context) error {
		return promotion.Serve(ctx, &routed{}, promotion.Scope{Worker: worker})
	})
}

// slowly is a driver whose queries take a while. It counts them.
type slowly struct {
	memory.Driver
	takes   atomic.Int64
	queries atomic.Int64
}

func (d *slowly) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	d.queries.Add(1)
	time.Sleep(time.Duration(d.takes.Load()))
	return d.Driver.Query(ctx, tenant, q)
}

// TestASourceTakesOverSoon what a better one had in hand for long. Until then it reads the list of that,
// which it does neither always nor seldom.
func TestASourceTakesOverSoon(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &slowly{Driver: storetest.NewMap()}
		s.store = storetest.On(d, nil)
		ids := s.claims(600)
		d.takes.Store(int64(20 * time.Millisecond))
		var down atomic.Bool
		first := verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
			if down.Load() {
				return verifier.Verdict{}, errNoAnswer
			}
			time.Sleep(4 * time.Second)
			return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
		})
		other := &flaky{says: verifiertest.Supports()}
		crm := promotion.Source{Name: "crm", Rank: memory.RankPrimarySource, Places: 1, Verifier: verifier.WithBreaker("crm", first, nil)}
		s.serveAll(s.worker(unlimited, crm, guarded("erp", memory.RankTool, other)))
		time.Sleep(3 * time.Minute)
		before := d.queries.Load()
		time.Sleep(20 * time.Second)
		if n := d.queries.Load() - before; n < 30 || n > 100 || other.asked.Load() > 0 { // each list takes five, and a fifth of a second
			t.Errorf("%d queries, %d questions", n, other.asked.Load())
		}
		d.takes.Store(int64(200 * time.Millisecond)) // and a list is read again after twenty times as long
		time.Sleep(25 * time.Second)
		down.Store(true)
		s.within(15*time.Second, ids)
	})
}

// TestAProbeWithoutABudgetIsNoScan: it waits for the budget, and reads no list until then.
func TestAProbeWithoutABudgetIsNoScan(t *testing.T) {
	for name, most := range map[string]int64{"no budget": 60, "no row": 400} { // a list takes five queries
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				d := &slowly{Driver: storetest.NewMap()}
				s.store = storetest.On(d, nil)
				s.claims(600)
				d.takes.Store(int64(20 * time.Millisecond))
				crm := &flaky{says: verifiertest.Supports()}
				crm.down.Store(true)
				source := guarded("crm", memory.RankTool, crm)
				source.Places = 1
				var budget counting
				s.serveAll(s.worker(&promotion.Options{Spending: &budget}, source))
				time.Sleep(time.Minute) // the breaker is open or half-open
				if name == "no budget" {
					budget.shut.Store(true)
				} else {
					for mark, err := range s.store.DueNow(s.ctx) {
						if err != nil {
							t.Fatal(err)
						}
						if _, err := s.store.Note(s.ctx, mark, memory.SourceMark{Source: "crm", Until: s.store.Now().Add(time.Hour), Failures: 9}); err != nil {
							t.Fatal(err)
						}
					}
				}
				time.Sleep(10 * time.Second)
				before := d.queries.Load()
				time.Sleep(2 * time.Minute)
				if n := d.queries.Load() - before; n == 0 || n > most {
					t.Errorf("%d queries, want %d at most", n, most)
				}
			})
		})
	}
}

// TestASourceThatNobodyServesIsNotPreferred.
func TestASourceThatNobodyServesIsNotPreferred(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(10)
		first, other := &flaky{says: verifiertest.Supports()}, &flaky{says: verifiertest.Supports()}
		worker := s.worker(unlimited, guarded("crm", memory.RankPrimarySource, first), guarded("erp", memory.RankTool, other))
		stop := s.serveOn(newTasks(), worker, "crm", 1)
		synctest.Wait()
		s.serveOn(newTasks(), worker, "erp", 1)
		s.within(5*time.Second, ids)
		stop()
		if n := other.asked.Load(); n != 0 {
			t.Errorf("%d questions to the other one", n)
		}
		s.within(31*time.Second, s.claims(10))
		if n := other.asked.Load(); n != 10 {
			t.Errorf("%d questions to the other one", n)
		}
	})
}

// TestAWorkerThatCannotReachItsSourceHoldsUpNoOther.
func TestAWorkerThatCannotReachItsSourceHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(s *service) {
		const places = 8
		ids := s.claims(1000)
		cut, crm := &flaky{says: verifiertest.Supports()}, &flaky{says: verifiertest.Supports()}
		cut.down.Store(true)
		for _, v := range []*flaky{cut, crm} {
			s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, v)), "crm", places)
		}
		time.Sleep(2500 * time.Millisecond) // the questions take 1.25 s
		if n := s.verified(ids); n < len(ids)-2*places {
			t.Errorf("%d of %d rows are verified", n, len(ids))
		}
		s.within(time.Minute, ids) // who takes one of the last tasks is chance: half of them the other one, each three seconds
		if n := cut.asked.Load(); n > 30 {
			t.Errorf("%d questions in vain", n)
		}
	})
}

// TestAProbeIsAboutARowDrawnByLot: the tasks at hand are of rows about which all questions fail.
func TestAProbeIsAboutARowDrawnByLot(t *testing.T) {
	inBubble(t, func(s *service) {
		for i := range 4 { // as many as there is room for
			id := s.claim(fmt.Sprint("dead ", i), "Oslo", nil)
			if _, err := s.store.AddHeat(s.ctx, map[memory.ID]float64{id: 100}); err != nil {
				t.Fatal(err)
			}
		}
		s.claims(36)
		crm := &flaky{says: verifiertest.Supports(), fails: "dead"}
		crm.down.Store(true)
		source := guarded("crm", memory.RankTool, crm)
		s.serve(s.worker(unlimited, source), "crm", 2)
		time.Sleep(10 * time.Second)
		crm.down.Store(false)
		// Each draw finds one that is answered with a probability of 9 in 10.
		for began := time.Now(); source.Verifier.(*verifier.Guarded).State() != verifier.StateClosed; time.Sleep(100 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatal("all probes failed")
			}
		}
	})
}

// TestABudgetIsWaitedForInPlace: checks go on as the budget does, evenly, and few come back.
func TestABudgetIsWaitedForInPlace(t *testing.T) {
	inBubble(t, func(s *service) {
		s.claims(200)
		crm := &flaky{says: verifiertest.Supports()}
		s.serve(s.worker(&promotion.Options{Budget: 20, Tick: 20 * time.Second}, guarded("crm", memory.RankTool, crm)), "crm", 2)
		time.Sleep(time.Second)
		for i := range 60 {
			if n := crm.asked.Load(); n < int64(18+i) || n > int64(22+i) { // 20 at once, and then one a second
				t.Fatalf("%d questions after %d s", n, i+1)
			}
			time.Sleep(time.Second)
		}
		if n := s.queue.back(); n > 40 {
			t.Errorf("%d tasks came back", n)
		}
	})
}

// TestNobodyAsksWhenTheBreakerOpensWhileHeWaitsForTheBudget.
func TestNobodyAsksWhenTheBreakerOpensWhileHeWaitsForTheBudget(t *testing.T) {
	inBubble(t, func(s *service) {
		s.claims(60)
		var guard *verifier.Guarded
		var asked, open atomic.Int64
		crm := verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			if asked.Add(1); guard.State() == verifier.StateOpen {
				open.Add(1)
			}
			return verifier.Verdict{}, errNoAnswer
		})
		guard = verifier.WithBreaker("crm", crm, nil)
		s.serve(s.worker(&promotion.Options{Budget: 2, Tick: 200 * time.Millisecond}, promotion.Source{Name: "crm", Verifier: guard, Rank: memory.RankTool}), "crm", 8)
		time.Sleep(time.Minute)
		if asked.Load() < 10 || open.Load() > 0 {
			t.Errorf("%d questions, %d of them while the breaker was open", asked.Load(), open.Load())
		}
	})
}

// TestAProbeWithoutABudgetIsGivenUp, and the source is asked when there is one.
func TestAProbeWithoutABudgetIsGivenUp(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(10)
		crm := &flaky{says: verifiertest.Supports()}
		crm.down.Store(true)
		source := guarded("crm", memory.RankTool, crm)
		s.serve(s.worker(&promotion.Options{Budget: 4, Tick: 4 * time.Hour}, source), "crm", 4)
		time.Sleep(10 * time.Minute)
		crm.down.Store(false)
		if n := crm.asked.Load(); n != 4 || source.Verifier.(*verifier.Guarded).State() != verifier.StateHalfOpen {
			t.Fatalf("%d questions, %s", n, source.Verifier.(*verifier.Guarded).State())
		}
		time.Sleep(50*time.Minute - 10*time.Second)
		if n := crm.asked.Load(); n != 4 {
			t.Errorf("%d questions", n)
		}
		time.Sleep(20 * time.Second)
		if n := s.verified(ids); n != 1 {
			t.Errorf("%d rows are verified", n)
		}
	})
}

// TestWhoWaitsEndsAtOnce when it is to end: for a breaker, and for a budget.
func TestWhoWaitsEndsAtOnce(t *testing.T) {
	for _, budget := range []int{-1, 1} {
		inBubble(t, func(s *service) {
			s.claims(20)
			crm := &flaky{says: verifiertest.Supports()}
			crm.down.Store(budget < 0)
			stop := s.serve(s.worker(&promotion.Options{Budget: budget, Tick: time.Hour}, guarded("crm", memory.RankTool, crm)), "crm", 4)
			time.Sleep(10*time.Second + 123*time.Millisecond)
			began := time.Now()
			stop()
			if took := time.Since(began); took > 50*time.Millisecond {
				t.Errorf("budget %d: it took %s", budget, took)
			}
		})
	}
}

// TestASuspectHoldsUpNobodyWhileItWaits for a budget: no other check is made beside its question alone.
func TestASuspectHoldsUpNobodyWhileItWaits(t *testing.T) {
	inBubble(t, func(s *service) {
		suspect := s.claims(1)[0]
		var ids []memory.ID
		for i := range 100 {
			ids = append(ids, s.claim(fmt.Sprint("box ", i), "7", func(d *memory.Draft) { d.Content.Predicate = "price" }))
		}
		crm, erp := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}), guarded("erp", memory.RankTool, &flaky{says: verifiertest.Supports()})
		crm.Predicates, erp.Predicates, erp.Places = []string{"city"}, []string{"price"}, 1
		q := &routed{}
		q.source("crm").crashes[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: suspect, Source: "crm", Generation: s.mark(suspect).Generation}] = 2
		worker := s.worker(&promotion.Options{Spending: spends{left: map[string]time.Duration{"crm": time.Minute}}}, crm, erp)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- promotion.Serve(ctx, q, promotion.Scope{Worker: worker}) }()
		s.within(1500*time.Millisecond, ids) // the questions take one second
		time.Sleep(5 * time.Second)
		if q.source("crm").back() < 2 {
			t.Error("the suspect did not come back")
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestWhatIsNoVerdictIsNotAskedForAgainAtOnce.
func TestWhatIsNoVerdictIsNotAskedForAgainAtOnce(t *testing.T) {
	inBubble(t, func(s *service) {
		s.claims(1)
		var asked atomic.Int64
		crm := verifier.Func(func(context.Context, memory.Row) (verifier.Verdict, error) {
			asked.Add(1)
			return verifier.Verdict{}, nil
		})
		s.serve(s.worker(unlimited, promotion.Source{Name: "crm", Verifier: crm, Rank: memory.RankTool}), "crm", 1)
		time.Sleep(time.Hour)
		if n := asked.Load(); n < 5 || n > 13 { // after 1, 2, 4, ... seconds
			t.Errorf("%d questions", n)
		}
	})
}

// TestTasksOfRoundsThatAreOverEndInAnOutage: nothing is asked for them.
func TestTasksOfRoundsThatAreOverEndInAnOutage(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(20)
		crm := &flaky{says: verifiertest.Supports()}
		crm.down.Store(true)
		s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, crm)), "crm", 4)
		time.Sleep(time.Minute)
		if n := s.queue.left(); n == 0 {
			t.Fatalf("%d tasks", n)
		}
		for _, id := range ids { // by another process, say
			if err := s.store.Reschedule(s.ctx, id, s.store.Now().Add(time.Hour), 0, "later"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(20 * time.Second)
		if n := s.queue.left(); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}

// TestATaskMayTakeAsLongAsItsSource, and its waits.
func TestATaskMayTakeAsLongAsItsSource(t *testing.T) {
	for want, v := range map[time.Duration]verifier.Verifier{
		95 * time.Second: verifiertest.NoBreaker(verifiertest.New("crm", verifiertest.Supports())),
		65 * time.Second: verifiertest.New("crm", verifiertest.Supports()), // a breaker of the worker's own
		23 * time.Second: verifier.WithBreaker("crm", verifiertest.New("crm", verifiertest.Supports()), &verifier.BreakerOptions{Timeout: 3 * time.Second}),
	} {
		inBubble(t, func(s *service) {
			ids := s.claims(1)
			s.serve(s.worker(nil, promotion.Source{Name: "crm", Verifier: v, Rank: memory.RankTool}), "crm", 1)
			s.within(time.Second, ids)
			if got := s.queue.timeout; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// TestASourceOfPredicatesReadsNoOtherRows.
func TestASourceOfPredicatesReadsNoOtherRows(t *testing.T) {
	inBubble(t, func(s *service) {
		const foreign = 3000
		var reads, keys atomic.Int64
		s.store = storetest.On(counted{Driver: storetest.NewMap(), reads: &reads, keys: &keys, down: new(atomic.Bool)}, nil)
		heat := map[memory.ID]float64{}
		for i := range foreign {
			id := s.claim(fmt.Sprint("box ", i), "7", func(d *memory.Draft) { d.Content.Predicate = "price" })
			heat[id] = 10
		}
		if _, err := s.store.AddHeat(s.ctx, heat); err != nil {
			t.Fatal(err)
		}
		ids := s.claims(20)
		crm := verifiertest.New("crm", verifiertest.Supports())
		covers := source(crm)
		covers.Predicates = []string{"  City "}
		covers.Covers = func(c memory.Content) bool { return c.Subject != "acme 0" }
		before := keys.Load()
		s.serve(s.worker(nil, covers), "crm", 2)
		time.Sleep(5 * time.Second)
		if n := keys.Load() - before; n > foreign/2 {
			t.Errorf("%d objects are read", n)
		}
		if n := s.verified(ids); n != 19 || crm.Calls() != 19 {
			t.Errorf("%d rows are verified, %d questions", n, crm.Calls())
		}
	})
}

// TestASourceHasNoEmptyPredicate.
func TestASourceHasNoEmptyPredicate(t *testing.T) {
	w := newWorld(t)
	crm := verifiertest.New("crm", verifiertest.Supports())
	s := source(crm)
	for _, p := range []string{"", " ", "p\x00", "p\xff", strings.Repeat("p", memory.MaxField+1)} {
		s.Predicates = []string{"city", p}
		if _, err := promotion.NewWorker(w.store, []promotion.Source{s}, nil); err == nil || !strings.Contains(err.Error(), "a predicate is") {
			t.Error(err)
		}
	}
	s.Predicates = []string{"price"}
	worker, id := w.worker(nil, s), w.claim("acme", "Oslo", nil)
	w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.NotDue)
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Parked)
	if crm.Calls() != 0 {
		t.Errorf("%d questions", crm.Calls())
	}
}

// TestAWorkersOwnBudgetIsEven: all of it at once, and then one question after the other.
func TestAWorkersOwnBudgetIsEven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		crm, erp := verifiertest.New("crm", verifiertest.Unclear()), verifiertest.New("erp", verifiertest.Unclear())
		worker := w.worker(&promotion.Options{Budget: 5, Tick: 10 * time.Second}, source(crm), source(erp))
		ask := func(name string, want promotion.Status) {
			t.Helper()
			if r := w.ask(worker, w.claim(fmt.Sprint(name, time.Now()), "Oslo", nil), name); r.Status != want {
				t.Fatalf("%+v, want %s", r, want)
			}
		}
		var statuses []promotion.Status
		for i := range 7 {
			r := w.ask(worker, w.claim(fmt.Sprint("acme ", i), "Oslo", nil), "crm")
			statuses = append(statuses, r.Status)
			if wait := time.Until(r.RetryAt); r.Status == promotion.Deferred && (wait < 1990*time.Millisecond || wait > 2*time.Second) {
				t.Errorf("it waits %s", wait)
			}
		}
		want := append(slices.Repeat([]promotion.Status{promotion.Unclear}, 5), promotion.Deferred, promotion.Deferred)
		if !slices.Equal(statuses, want) {
			t.Fatal(statuses)
		}
		ask("erp", promotion.Unclear) // each source has its own
		for range 3 {
			time.Sleep(2*time.Second - time.Millisecond)
			ask("crm", promotion.Deferred) // which takes nothing
			time.Sleep(time.Millisecond)
			ask("crm", promotion.Unclear)
		}
	})
}
