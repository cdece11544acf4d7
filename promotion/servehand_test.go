//go:build !race

// The race detector of Go 1.26 fails itself in bubbles of testing/synctest with many goroutines (golang/go#78156).
// TestSlowStoresAreRaced races the same code.

package promotion_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// servedSlow serves the scopes, which look for rows each second. Checks of the first one come with so many crashes.
func (s *scopes) servedSlow(crashes int, sources ...promotion.Source) *suspicious {
	return s.servedWith(s.each[0].store.Namespace(), crashes, unlimited, sources...)
}

// servedWith is servedSlow with other options. The crashes are of the checks of a namespace; "*" = of all.
func (s *scopes) servedWith(namespace string, crashes int, o *promotion.Options, sources ...promotion.Source) *suspicious {
	var all []promotion.Scope
	for _, c := range s.each {
		all = append(all, promotion.Scope{Worker: c.worker(o, sources...), Sweep: time.Second, ReadsElsewhere: true})
	}
	q := &suspicious{routed: &s.queue, namespace: namespace, elsewhere: s.elsewhere, taken: s.taken, unfound: s.unfound, back: map[string]int{}}
	q.crashes.Store(int64(crashes))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- promotion.Serve(ctx, q, all...) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	return q
}

// slowOf are so many namespaces of one sluggish driver, and after them one of another driver.
func slowOf(t *testing.T, n int) (*scopes, *sluggish) {
	s, slow := &scopes{t: t}, &sluggish{Driver: storetest.NewMap()}
	for i := range n + 1 {
		c := &service{world: &world{t: t, ctx: t.Context()}, t: t, n: 1000 * i}
		d := memory.Driver(slow)
		if i == n {
			d = slow.Driver
		}
		c.store = storetest.On(d, &memory.Options{Namespace: fmt.Sprint("ns-", i)})
		s.each = append(s.each, c)
	}
	return s, slow
}

// suspicious says that workers died while they made the checks of a namespace. It counts the checks that came back.
type suspicious struct {
	*routed
	namespace string // "*" = of all
	crashes   atomic.Int64
	elsewhere string // the namespace whose checks wait in another process, for ever; "" = none
	taken     bool   // that process makes them
	unfound   bool   // it is not known where they are

	mu   sync.Mutex
	back map[string]int // by what their error says
}

func (q *suspicious) Serve(ctx context.Context, source string, places int, h promotion.CheckHandler) error {
	return q.routed.Serve(ctx, source, places, crashed{h, q})
}

func (q *suspicious) Enqueue(ctx context.Context, c promotion.Check, timeout time.Duration) (bool, error) {
	if c.Namespace == q.elsewhere {
		return false, nil
	}
	return q.routed.Enqueue(ctx, c, timeout)
}

func (q *suspicious) Find(ctx context.Context, c promotion.Check) (promotion.Place, error) {
	if c.Namespace == q.elsewhere {
		if q.unfound {
			return promotion.Lost, errQueue
		}
		if q.taken {
			return promotion.Taken, nil
		}
		return promotion.Waiting, nil
	}
	return q.routed.Find(ctx, c)
}

type crashed struct {
	promotion.CheckHandler
	q *suspicious
}

func (h crashed) Handle(ctx context.Context, c promotion.Check, n int) error {
	if c.Namespace == h.q.namespace || h.q.namespace == "*" {
		n = int(h.q.crashes.Load())
	}
	err := h.CheckHandler.Handle(ctx, c, n)
	if err != nil {
		h.q.mu.Lock()
		defer h.q.mu.Unlock()
		h.q.back[err.Error()]++
	}
	return err
}

// cameBack is how many checks came back with an error that says something.
func (q *suspicious) cameBack(saying string) (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for text, of := range q.back {
		if strings.Contains(text, saying) {
			n += of
		}
	}
	return n
}

const isSlow = "store of the row is slow"

// TestASlowStoreDelaysNoOtherScope, however many namespaces are in it: its checks would hold all places of the source.
// Nothing of it is lost.
func TestASlowStoreDelaysNoOtherScope(t *testing.T) {
	for name, c := range map[string]struct {
		slow    func(*sluggish, bool)
		crashes int
		within  time.Duration // of which one is the time to find them
	}{
		"a quarter of a second for each object": {func(d *sluggish, is bool) { d.slow(is, 250*time.Millisecond) }, 0, 5 * time.Second},
		"two seconds for each object":           {func(d *sluggish, is bool) { d.slow(is, 2*time.Second) }, 0, 5 * time.Second},
		"reads of rows hang":                    {func(d *sluggish, is bool) { d.rowsHang.Store(is) }, 0, 5 * time.Second},
		"writes hang":                           {func(d *sluggish, is bool) { d.writesHang.Store(is) }, 0, 5 * time.Second},
		"slow, and all checks are suspects":     {func(d *sluggish, is bool) { d.slow(is, time.Second) }, 2, 8 * time.Second},
		"hanging writes of suspects":            {func(d *sluggish, is bool) { d.writesHang.Store(is) }, 2, 8 * time.Second}, // nothing is asked while a second is left to write that one is
	} {
		for _, of := range []struct{ slow, sources int }{{1, 1}, {1, 2}, {16, 1}} {
			t.Run(fmt.Sprintf("%s/%d slow namespaces/%d sources", name, of.slow, of.sources), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := of.slow
					s, d := slowOf(t, n)
					ids := s.each[0].claims(40)
					for _, other := range s.each[1:n] {
						other.claims(20)
					}
					c.slow(d, true)
					var sources []promotion.Source
					for i := range of.sources { // of several, a look reads each row, and waits for the store itself
						sources = append(sources, guarded(fmt.Sprint("crm", i), memory.RankTool, &flaky{says: verifiertest.Supports()}))
					}
					q := s.servedSlow(c.crashes, sources...)
					for range 3 {
						time.Sleep(20 * time.Second)
						s.each[n].within(c.within, s.each[n].claims(5))
					}
					c.slow(d, false)
					s.each[0].within(3*time.Minute, ids)
					if back := q.cameBack(isSlow); strings.Contains(name, "hang") && of.sources == 1 && back == 0 {
						t.Errorf("checks came back: %v", q.back)
					}
				})
			})
		}
	}
}

// TestASuspectOfASlowStoreDelaysNoOtherSuspect for long: a question about it is asked while no other is.
func TestASuspectOfASlowStoreDelaysNoOtherSuspect(t *testing.T) {
	for name, c := range map[string]struct {
		slow   func(*sluggish, bool)
		within time.Duration
	}{
		"a second for each object": {func(d *sluggish, is bool) { d.slow(is, time.Second) }, 8 * time.Second},
		"reads of rows hang":       {func(d *sluggish, is bool) { d.rowsHang.Store(is) }, 8 * time.Second},
		"writes hang":              {func(d *sluggish, is bool) { d.writesHang.Store(is) }, 30 * time.Second}, // so does the note that it is asked about
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, d := slowOf(t, 1)
				s.each[0].claims(60)
				c.slow(d, true)
				q := s.servedWith("*", 2, unlimited, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
				for range 4 {
					time.Sleep(20 * time.Second)
					s.each[1].within(c.within, s.each[1].claims(1))
				}
				if strings.Contains(name, "writes") && q.cameBack("another question is asked") == 0 {
					t.Errorf("checks came back: %v", q.back)
				}
				c.slow(d, false)
			})
		})
	}
}

// TestScopesOfOneSlowStoreUseAllPlaces: none of them waits for the others.
func TestScopesOfOneSlowStoreUseAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := slowOf(t, 2)
		ids, others := s.each[0].claims(32), s.each[1].claims(32)
		d.slow(true, 250*time.Millisecond) // a check takes five seconds
		s.servedSlow(0, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(time.Minute)
		d.slow(false, 0)
		if n := s.each[0].verified(ids) + s.each[1].verified(others); n < 45 { // one after the other, 24
			t.Errorf("%d rows are verified", n)
		}
	})
}

// TestAStoreThatTakesNoWritesCostsFewQuestions, however many namespaces are in it: their answers are lost.
func TestAStoreThatTakesNoWritesCostsFewQuestions(t *testing.T) {
	for namespaces, most := range map[int]int{1: 40, 6: 70, 40: 160} { // four places, a check is given up after a minute, and some are tried
		t.Run(fmt.Sprint(namespaces), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, d := slowOf(t, namespaces)
				locked := map[memory.ID]bool{}
				for _, c := range s.each[:namespaces] {
					for _, id := range c.claims(20) {
						locked[id] = true
					}
				}
				d.writesHang.Store(true)
				crm := verifiertest.New("crm", verifiertest.Supports())
				s.servedSlow(0, guarded("crm", memory.RankTool, crm))
				for range 300 {
					time.Sleep(time.Second)
					s.each[namespaces].claims(1)
				}
				inVain := 0
				for _, id := range crm.Asked() {
					if locked[id] {
						inVain++
					}
				}
				if t.Logf("%d questions", inVain); inVain == 0 || inVain > most {
					t.Errorf("%d questions in five minutes", inVain)
				}
				d.writesHang.Store(false)
			})
		})
	}
}

// slowWrites is a driver whose writes take a while.
type slowWrites struct {
	memory.Driver
	each time.Duration
}

func (d *slowWrites) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	select {
	case <-time.After(d.each):
		return d.Driver.Apply(ctx, tenant, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestAStoreWithSlowWritesCostsFewQuestionsTwice.
func TestAStoreWithSlowWritesCostsFewQuestionsTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, slow := slowOf(t, 1)
		d := &slowWrites{Driver: slow.Driver}
		s.each[0].store = storetest.On(d, &memory.Options{Namespace: "ns-0"})
		ids := s.each[0].claims(40)
		d.each = 3 * time.Second
		crm := verifiertest.New("crm", verifiertest.Supports())
		s.servedSlow(0, guarded("crm", memory.RankTool, crm))
		for range 60 {
			time.Sleep(time.Second)
			s.each[1].claims(1)
		}
		n := 0
		for _, id := range crm.Asked() {
			if slices.Contains(ids, id) {
				n++
			}
		}
		if verified := s.each[0].verified(ids); n > verified+10 || verified < 30 {
			t.Errorf("%d questions about the %d rows that are verified", n, verified)
		}
	})
}

// TestASuspectAndAQuorumWaitForNoEachOther: a question that waits to be asked holds no place of a verifier that another
// one needs.
func TestASuspectAndAQuorumWaitForNoEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slowOf(t, 1)
		in := verifiertest.Slow(100*time.Millisecond, verifiertest.Supports())
		says := verifiertest.New("b", in)
		b := verifier.WithBreaker("b", says, &verifier.BreakerOptions{MaxConcurrent: 1})
		a := verifier.WithBreaker("a", verifiertest.New("a", in), nil)
		both := verifier.NewQuorum("q", 2, verifier.Member{Name: "a", Rank: memory.RankPrimarySource, Verifier: a}, verifier.Member{Name: "b", Rank: memory.RankTool, Verifier: b})
		s.each[0].claims(20) // suspects
		s.each[1].priced(200)
		ids := s.each[1].claims(30)
		s.servedSlow(2, promotion.Source{Name: "q", Verifier: both, Rank: memory.RankTool, Predicates: []string{"city"}},
			promotion.Source{Name: "b", Verifier: b, Rank: memory.RankTool, Predicates: []string{"price"}})
		time.Sleep(2 * time.Minute)
		if n, calls := s.each[1].verified(ids), says.Calls(); n < len(ids) || calls < 200 {
			t.Errorf("%d questions, and %d of %d rows are verified", calls, n, len(ids))
		}
	})
}

// spending panics while it is told to.
type spending struct{ panics atomic.Bool }

func (p *spending) Spend(context.Context, string, int, time.Duration) (time.Duration, error) {
	if p.panics.Load() {
		panic("Spend")
	}
	return 0, nil
}

// TestAPanicOfSpendingTakesNoPermit: a quorum asks for each member whether it may be asked.
func TestAPanicOfSpendingTakesNoPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slowOf(t, 1)
		member := func(name string) verifier.Member {
			return verifier.Member{Name: name, Rank: memory.RankTool, Verifier: verifier.WithBreaker(name, &flaky{says: verifiertest.Supports()}, nil)}
		}
		budget := &spending{}
		budget.panics.Store(true)
		q := s.servedWith("ns-0", 0, &promotion.Options{Spending: budget}, promotion.Source{Name: "q", Verifier: verifier.NewQuorum("q", 1, member("a"), member("b")), Rank: memory.RankTool})
		s.each[0].claims(1)
		time.Sleep(5 * time.Second)
		budget.panics.Store(false)
		time.Sleep(5 * time.Minute)
		q.crashes.Store(2) // a suspect needs all permits
		s.each[0].within(time.Minute, s.each[0].claims(1))
	})
}

// TestACheckThatWaitsForItsSourceDoesNotCallItsStoreSlow: it waits for two seconds, and its store takes half a second more.
func TestACheckThatWaitsForItsSourceDoesNotCallItsStoreSlow(t *testing.T) {
	for name, c := range map[string]struct {
		options promotion.Options
		flaps   bool
		refused string
	}{
		"its budget is spent":          {promotion.Options{Budget: 1, Tick: time.Minute}, false, "budget"},
		"its breaker opens and closes": {promotion.Options{Budget: -1}, true, ""},
		"its answer takes a while":     {promotion.Options{Budget: -1}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, d := slowOf(t, 1)
				s.elsewhere = "ns-1" // it is busy, and its checks do not wait here
				s.each[0].claims(16)
				s.each[1].claims(5)
				d.slow(true, 20*time.Millisecond) // a check takes half a second
				f := &flaky{says: verifiertest.Supports()}
				if !c.flaps {
					f.says = verifiertest.Slow(5*time.Second, verifiertest.Supports())
				}
				q := s.servedWith("ns-0", 0, &c.options, guarded("crm", memory.RankTool, f))
				for range 60 {
					time.Sleep(1700 * time.Millisecond)
					if f.down.Store(c.flaps && !f.down.Load()); c.flaps && s.queue.source("crm").left() < 8 {
						s.each[0].claims(4) // more at a time take a list too long
					}
				}
				if n := q.cameBack(isSlow); n > 0 || c.refused != "" && q.cameBack(c.refused) == 0 || f.asked.Load() == 0 {
					t.Errorf("%d questions; checks came back: %v", f.asked.Load(), q.back)
				}
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

// TestASlowStoreGoesOn while rows of another scope wait all the time: its checks have half of the places.
func TestASlowStoreGoesOn(t *testing.T) {
	for places, want := range map[int][2]int{8: {5, 400}, 1: {1, 25}} {
		synctest.Test(t, func(t *testing.T) {
			s, d := slowOf(t, 1)
			ids := s.each[0].claims(8)
			others := s.each[1].claims(1500)
			d.slow(true, 250*time.Millisecond)
			crm := guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Slow(500*time.Millisecond, verifiertest.Supports())))
			crm.Places = places
			s.servedSlow(0, crm)
			time.Sleep(60 * time.Second)
			d.slow(false, 0)
			if n, m := s.each[0].verified(ids), s.each[1].verified(others); n < want[0] || m < want[1] || m == len(others) { // four places make 480
				t.Errorf("%d places: %d of 8 rows are verified, and %d of the other scope", places, n, m)
			}
		})
	}
}

// TestHalfOfTheChecksOfASlowStoreGoOn when another scope needs places.
func TestHalfOfTheChecksOfASlowStoreGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := slowOf(t, 1)
		ids := s.each[0].claims(8)
		d.rowsHang.Store(true)
		q := s.servedSlow(0, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(5 * time.Second)
		if n := q.cameBack(""); n > 0 {
			t.Errorf("%d checks came back while nobody needed a place", n)
		}
		s.each[1].within(2*time.Second, s.each[1].claims(5))
		if n := s.queue.source("crm").active(); n != 4 || q.cameBack(isSlow) == 0 {
			t.Errorf("%d checks go on; others came back: %v", n, q.back)
		}
		d.rowsHang.Store(false)
		s.each[0].within(2*time.Minute, ids)
	})
}

// TestAStoreThatIsSlowNoMoreHasAllPlaces, however slow it was.
func TestAStoreThatIsSlowNoMoreHasAllPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := slowOf(t, 1)
		ids := s.each[0].claims(60)
		d.slow(true, 250*time.Millisecond)
		s.servedSlow(0, guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Slow(500*time.Millisecond, verifiertest.Supports()))))
		others := func(seconds int) (verified int) {
			before := s.each[0].verified(ids)
			for range seconds {
				s.each[1].claims(1)
				time.Sleep(time.Second)
			}
			return s.each[0].verified(ids) - before
		}
		slow := others(60)
		d.slow(false, 0)
		ids = append(ids, s.each[0].claims(1200)...)
		others(35)                                 // a list that began is read on, and the next one comes after a pause
		if n := others(20); n < 240 || slow == 0 { // eight places make 320, half of them 160
			t.Errorf("%d rows in 60 s, then %d in 20 s", slow, n)
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

// TestAStoreThatWasSlowForAMomentIsServedBesideSlowOnes: a check of it is tried now and then.
func TestAStoreThatWasSlowForAMomentIsServedBesideSlowOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, hang := slowOf(t, 17)
		was := &sluggish{Driver: hang.Driver}
		s.each[16].store = storetest.On(was, &memory.Options{Namespace: "ns-16"})
		for _, c := range s.each[:17] {
			c.claims(16)
		}
		hang.writesHang.Store(true)
		was.writesHang.Store(true)
		s.servedSlow(0, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		seconds := func(n int, until func() bool) (took int) {
			for ; took < n && !until(); took++ {
				s.each[17].claims(1)
				time.Sleep(time.Second)
			}
			return took
		}
		seconds(60, func() bool { return false })
		was.writesHang.Store(false)
		ids := s.each[16].claims(5)
		took := seconds(150, func() bool { return s.each[16].verified(ids) == len(ids) })
		if t.Logf("%d s", took); took == 150 {
			t.Errorf("%d of %d rows are verified after %d s", s.each[16].verified(ids), len(ids), took)
		}
		hang.writesHang.Store(false)
	})
}

// TestRowsThatTakeLongToListMakeNoStoreSlow: its checks are made in all places.
func TestRowsThatTakeLongToListMakeNoStoreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := slowOf(t, 1)
		ids := s.each[0].claims(300)
		d.slow(true, 20*time.Millisecond) // a check takes half a second, and the list many
		two := []promotion.Source{guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}), guarded("erp", memory.RankTool, &flaky{says: verifiertest.Supports()})}
		q := s.servedSlow(0, two...)
		for range 30 {
			time.Sleep(time.Second)
			s.each[1].claims(1)
		}
		d.slow(false, 0)
		if n := s.each[0].verified(ids); n < 20 || q.cameBack(isSlow) > 0 {
			t.Errorf("%d rows are verified; checks came back: %v", n, q.back)
		}
	})
}

// TestScopesThatWaitForNoPlaceNeedNone: another process makes their checks, their store is away, or they have one already.
func TestScopesThatWaitForNoPlaceNeedNone(t *testing.T) {
	for _, how := range []string{"made elsewhere", "away", "asked about for long"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, d := slowOf(t, 1)
				asked, away := how == "asked about for long", how == "away"
				if s.taken = !away; !asked {
					s.elsewhere = "ns-1"
				}
				other := &sluggish{Driver: d.Driver}
				s.each[1].store = storetest.On(other, &memory.Options{Namespace: "ns-1"})
				s.each[1].claims(1)
				if s.each[0].claims(7); !asked {
					s.each[0].claims(9)
				}
				d.writesHang.Store(true)
				q := s.servedSlow(0, guarded("crm", memory.RankTool, verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
					if row.Content.Subject == "acme 1000" { // of the other scope
						time.Sleep(9 * time.Second)
						return verifier.Verdict{}, errNoAnswer
					}
					return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
				})))
				time.Sleep(5 * time.Second)
				if n := s.queue.source("crm").active(); !asked && (n != 4 || q.cameBack(isSlow) == 0) {
					t.Errorf("%d checks are made while others may need places", n)
				}
				if asked {
					if n := s.queue.source("crm").active(); n != 8 || q.cameBack(isSlow) > 0 {
						t.Errorf("%d checks are made, and none waits; others came back: %v", n, q.back)
					}
				}
				other.listsHang.Store(away)
				other.hangs.Store(away)
				time.Sleep(50 * time.Second)
				if n := s.queue.source("crm").active(); !asked && n != 8 {
					t.Errorf("%d checks are made", n)
				}
				d.writesHang.Store(false)
				other.listsHang.Store(false)
				other.hangs.Store(false)
			})
		})
	}
}

// TestASuspectWaitsForNoPlaceOfItsSource: all other questions would wait with it.
func TestASuspectWaitsForNoPlaceOfItsSource(t *testing.T) {
	for _, member := range []bool{false, true} {
		t.Run(fmt.Sprintf("of a quorum %t", member), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := slowOf(t, 1)
				s.each[0].claims(5)
				entered, leave := make(chan struct{}, 99), make(chan struct{})
				full := verifier.WithBreaker("full", verifier.Func(func(ctx context.Context, _ memory.Row) (verifier.Verdict, error) {
					entered <- struct{}{}
					<-leave
					return verifier.Verdict{}, ctx.Err()
				}), &verifier.BreakerOptions{MaxConcurrent: 1, Timeout: 10 * time.Second})
				go full.Verify(t.Context(), memory.Row{}) // an agent asks
				<-entered
				var of verifier.Verifier = full
				if member {
					of = verifier.NewQuorum("q", 1, verifier.Member{Name: "full", Rank: memory.RankTool, Verifier: full})
				}
				asked := promotion.Source{Name: "full", Rank: memory.RankTool, Verifier: of, Predicates: []string{"city"}, Places: 2}
				other := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})
				other.Predicates = []string{"price"}
				q := s.servedSlow(2, asked, other)
				time.Sleep(4 * time.Second)
				for range 4 {
					s.each[1].within(3*time.Second, s.each[1].priced(5))
				}
				time.Sleep(time.Minute)
				// Each of the five comes back now and then: while it is seen to, no other question is asked.
				if back := q.cameBack("places are taken"); back == 0 || back > 100 || len(entered) > 0 {
					t.Errorf("checks came back: %v; %d questions", q.back, len(entered))
				}
				close(leave)
			})
		})
	}
}

// TestEachSlowStoreIsLogged, one a minute, and again after it was fast.
func TestEachSlowStoreIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := slowOf(t, 3)
		for _, c := range s.each[:3] {
			c.claims(40)
		}
		d.writesHang.Store(true)
		s.servedWith("", 0, &promotion.Options{Budget: -1, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		told := func(want int) {
			t.Helper()
			if n := strings.Count(s.log.String(), "the store is slow"); n != want {
				t.Errorf("%d lines, want %d: %s", n, want, s.log.String())
			}
		}
		time.Sleep(30 * time.Second)
		told(1)
		time.Sleep(4 * time.Minute)
		told(3)
		for i := range 3 {
			if !strings.Contains(s.log.String(), fmt.Sprint("namespace=ns-", i)) {
				t.Errorf("ns-%d is not logged", i)
			}
		}
		d.writesHang.Store(false)
		time.Sleep(3 * time.Minute)
		for _, c := range s.each[:3] {
			c.claims(40)
		}
		d.writesHang.Store(true)
		time.Sleep(30 * time.Second)
		told(4)
		d.writesHang.Store(false)
	})
}

// TestAQueueThatDoesNotSayWhereACheckIsIsDown, although it answers other questions.
func TestAQueueThatDoesNotSayWhereACheckIsIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := slowOf(t, 1)
		s.elsewhere, s.unfound = "ns-1", true
		s.each[1].claims(1)
		s.servedWith("", 0, &promotion.Options{Budget: -1, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(10 * time.Minute)
		if log := s.log.String(); strings.Count(log, "not enqueued") != 1 || strings.Contains(log, "enqueued again") {
			t.Error(log)
		}
	})
}
