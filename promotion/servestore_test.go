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

// sluggish is a driver whose reads take a while for each object, or hang.
type sluggish struct {
	memory.Driver
	each       atomic.Int64 // duration of the read of an object
	hangs      atomic.Bool  // reads of objects
	rowsHang   atomic.Bool  // reads of rows, and not of marks
	listsHang  atomic.Bool  // queries
	listsBreak atomic.Bool
	writesHang atomic.Bool
}

func (d *sluggish) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if d.writesHang.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.Driver.Apply(ctx, tenant, b)
}

func (d *sluggish) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if d.hangs.Load() || d.rowsHang.Load() && slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, "\x01h/") }) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-time.After(time.Duration(d.each.Load()) * time.Duration(len(keys))):
		return d.Driver.Get(ctx, tenant, keys)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (d *sluggish) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if d.listsHang.Load() {
		<-ctx.Done()
		return nil, "", ctx.Err()
	}
	if d.listsBreak.Load() {
		return nil, "", errStore
	}
	return d.Driver.Query(ctx, tenant, q)
}

// priced writes claims of another predicate.
func (s *service) priced(n int) (ids []memory.ID) {
	for range n {
		ids = append(ids, s.claim(fmt.Sprint("box ", s.n), "7", func(d *memory.Draft) { d.Content.Predicate = "price" }))
		s.n++
	}
	return ids
}

// heat has some rows read very often.
func (s *service) heat(ids []memory.ID) {
	s.t.Helper()
	reads := map[memory.ID]float64{}
	for _, id := range ids {
		reads[id] = 100
	}
	if _, err := s.store.AddHeat(s.ctx, reads); err != nil {
		s.t.Fatal(err)
	}
}

// of is a Covers.
func of(predicate string) func(memory.Content) bool {
	return func(c memory.Content) bool { return c.Predicate == predicate }
}

// slowScopes are two namespaces of a store, the first of which goes through a driver of its own.
func slowScopes(t *testing.T) (s *scopes, first *sluggish) {
	s = &scopes{t: t}
	first = &sluggish{Driver: storetest.NewMap()}
	for i := range 2 {
		c := &service{world: &world{t: t, ctx: t.Context()}, t: t, n: 1000 * i}
		d := first.Driver
		if i == 0 {
			d = first
		}
		c.store = storetest.On(d, &memory.Options{Namespace: fmt.Sprint("ns-", i)})
		s.each = append(s.each, c)
	}
	return s, first
}

// TestRowsBehindManyOthersAreFound: to see what covers those takes a slow store minutes, and that is no fault.
func TestRowsBehindManyOthersAreFound(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &sluggish{Driver: storetest.NewMap()}
		s.store = storetest.On(d, nil)
		s.heat(s.priced(400))
		ids := s.claims(20)
		d.each.Store(int64(20 * time.Millisecond)) // a row has four objects
		down := &flaky{says: verifiertest.Supports()}
		down.down.Store(true)
		a, b := guarded("down", memory.RankTool, down), guarded("up", memory.RankTool, &flaky{says: verifiertest.Supports()})
		a.Covers, b.Covers = of("price"), of("city")
		stop := testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &routed{}, promotion.Scope{Worker: s.worker(s.logged(), a, b), ReadsElsewhere: true, Uncovered: 1000 * time.Hour})
		})
		time.Sleep(5 * time.Minute)
		d.each.Store(0)
		if n := s.verified(ids); n != len(ids) {
			t.Errorf("%d of %d rows are verified", n, len(ids))
		}
		if log := s.log.String(); strings.Contains(log, "not enqueued") {
			t.Error(log)
		}
		stop()
	})
}

// TestParkingDelaysNoCheck: to see which rows nobody covers takes a slow store minutes.
func TestParkingDelaysNoCheck(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &sluggish{Driver: storetest.NewMap()}
		s.store = storetest.On(d, nil)
		others := s.priced(700)
		if err := s.store.PublishVerifiers(s.ctx, "another", 24*time.Hour, []memory.VerifierState{{Name: "shop", Predicates: []string{"price"}, Down: true}}); err != nil {
			t.Fatal(err)
		}
		lonely := s.claim("acme", "7", func(d *memory.Draft) { d.Content.Predicate = "size" })
		d.each.Store(int64(10 * time.Millisecond))
		crm := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})
		crm.Predicates = []string{"city"}
		stop := testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &routed{}, promotion.Scope{Worker: s.worker(s.logged(), crm), ReadsElsewhere: true, Uncovered: time.Minute})
		})
		for range 5 {
			time.Sleep(3 * time.Minute)
			s.within(45*time.Second, s.claims(5))
		}
		d.each.Store(0)
		if m := s.mark(lonely); !m.At.IsZero() {
			t.Errorf("%+v", m)
		}
		for _, id := range others {
			if m := s.mark(id); m.At.IsZero() {
				t.Fatalf("a row that others cover is parked: %+v", m)
			}
		}
		if log := s.log.String(); log != "" {
			t.Error(log)
		}
		stop()
	})
}

// TestAStoreThatHangsDelaysNoOtherScope, whatever hangs: checks and lists, or lists alone.
func TestAStoreThatHangsDelaysNoOtherScope(t *testing.T) {
	for name, hang := range map[string]func(*sluggish, bool){
		"lists":      func(d *sluggish, hangs bool) { d.listsHang.Store(hangs) },
		"everything": func(d *sluggish, hangs bool) { d.listsHang.Store(hangs); d.hangs.Store(hangs) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, first := slowScopes(t)
				ids, others := s.each[0].claims(120), s.each[1].claims(700)
				crm := guarded("crm", memory.RankTool, verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
					time.Sleep(time.Second)
					return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
				}))
				s.serve(alike, crm)
				time.Sleep(10 * time.Second)
				hang(first, true)
				time.Sleep(20 * time.Second) // that it hangs is seen, and what is under way ends
				for range 5 {                // eight places make 8 checks a second
					before := s.each[1].verified(others)
					time.Sleep(10 * time.Second)
					if n := s.each[1].verified(others) - before; n < 70 {
						t.Errorf("%d rows in ten seconds", n)
					}
				}
				hang(first, false)
				s.each[0].within(2*time.Minute, ids)
			})
		})
	}
}

// TestAProbeThatHangsHoldsUpNoOtherScope.
func TestAProbeThatHangsHoldsUpNoOtherScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := slowScopes(t)
		s.each[0].claims(30)
		ids := s.each[1].claims(30)
		f := &flaky{says: verifiertest.Supports()}
		f.down.Store(true)
		s.serve(alike, guarded("crm", memory.RankTool, f))
		time.Sleep(time.Minute)
		first.rowsHang.Store(true) // its lists do not, so that it seems to be there
		time.Sleep(20 * time.Second)
		f.down.Store(false)
		s.each[1].within(10*time.Second, ids) // each probe has 65 s, and another scope waits for two
		first.rowsHang.Store(false)
	})
}

// TestAProbeEndsWithItsStore: no other scope waits until the time of the probe is over.
func TestAProbeEndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := slowScopes(t)
		ids := s.each[0].claims(30)
		f := &flaky{says: verifiertest.Supports()}
		f.down.Store(true)
		s.serve(alike, guarded("crm", memory.RankTool, f))
		time.Sleep(time.Minute)
		first.hangs.Store(true)
		first.listsHang.Store(true)
		time.Sleep(10 * time.Second) // the first scope probes, and that hangs
		f.down.Store(false)
		s.each[1].within(40*time.Second, s.each[1].claims(30)) // they are found in 30 s; the probe has 65 s
		first.hangs.Store(false)
		first.listsHang.Store(false)
		s.each[0].within(20*time.Second, ids) // a check of a store that was slow comes back after some five
	})
}

// TestADamagedRowWhoseTaskNobodyTakesHoldsUpNoOther.
func TestADamagedRowWhoseTaskNobodyTakesHoldsUpNoOther(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &rotten{Driver: storetest.NewMap(), keys: map[string]bool{}}
		s.store = storetest.On(d, &memory.Options{Authority: func(string, string, string) bool { return true }})
		bad := s.claims(1)[0]
		s.queue.state[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: bad, Source: "crm", Generation: s.mark(bad).Generation}] = "orphaned"
		d.keys["head/"+string(bad)] = true
		s.serve(s.worker(s.logged(), guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})), "crm", 4)
		s.within(10*time.Second, s.claims(20))
		time.Sleep(10 * time.Minute) // its task is given up, in vain
		for range 5 {
			s.within(40*time.Second, s.claims(20))
			time.Sleep(5 * time.Minute)
		}
		if n := strings.Count(s.log.String(), "\n"); n == 0 || n > 5 {
			t.Errorf("%d lines: %s", n, s.log.String())
		}
	})
}

// TestRowsThatCannotBeParkedFillNoOtherProcess: which of the two found that, the other has to find out.
func TestRowsThatCannotBeParkedFillNoOtherProcess(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &rotten{Driver: storetest.NewMap(), keys: map[string]bool{}}
		s.store = storetest.On(d, &memory.Options{Authority: func(string, string, string) bool { return true }})
		bad := s.claims(100)
		s.heat(bad)
		for _, id := range bad {
			d.keys["head/"+string(id)] = true
		}
		ids := s.claims(20)
		for range 2 {
			s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})), "crm", 4)
		}
		s.within(80*time.Second, ids)
		for range 25 {
			time.Sleep(time.Minute)
			s.within(40*time.Second, s.claims(1))
		}
	})
}

// unwritten is a store that takes no Postpone.
type unwritten struct{ *memory.Store }

func (unwritten) Postpone(context.Context, memory.Due, time.Time, int, string) error { return errStore }

// TestRowsThatCannotBePutOffAreLogged.
func TestRowsThatCannotBePutOffAreLogged(t *testing.T) {
	inBubble(t, func(s *service) {
		for _, id := range s.claims(3) { // the source has answered
			if _, err := s.store.Note(s.ctx, s.mark(id), memory.SourceMark{Source: "crm", Until: s.store.Now().Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}
		worker, err := promotion.NewWorker(unwritten{s.store}, []promotion.Source{guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})}, s.logged())
		if err != nil {
			t.Fatal(err)
		}
		s.serve(worker, "crm", 2)
		time.Sleep(10 * time.Minute)
		if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, errStore.Error()) {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestAHeaterCanBeServedAgain.
func TestAHeaterCanBeServedAgain(t *testing.T) {
	inBubble(t, func(s *service) {
		reads := promotion.NewHeater(s.store, nil, nil)
		worker := s.worker(unlimited, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		for range 2 {
			stop := testmain.Serve(s.t, func(ctx context.Context) error {
				return promotion.Serve(ctx, &routed{}, promotion.Scope{Worker: worker, Reads: reads})
			})
			time.Sleep(10*time.Minute + 7*time.Second)
			ids := s.claims(1)
			reads.ObserveReads(s.ctx, ids, 1)
			if took := s.within(time.Minute, ids); took > time.Second {
				t.Errorf("a row that was read took %s", took)
			}
			stop()
		}
	})
}

// TestAVerdictThatTheStoreRefusesIsAlarming, and delays no other row.
func TestAVerdictThatTheStoreRefusesIsAlarming(t *testing.T) {
	for name, change := range map[string]func(*memory.Evidence){
		"a long source":    func(e *memory.Evidence) { e.Source = strings.Repeat("x", 5000) },
		"no UTF-8":         func(e *memory.Evidence) { e.Source = "crm\xff" },
		"a time far ahead": func(e *memory.Evidence) { e.At = time.Date(30000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"a large quorum":   func(e *memory.Evidence) { e.Quorum = 1000 },
		"no row":           func(e *memory.Evidence) { e.DerivedFrom = []memory.ID{"nonsense"} },
		"a kind":           func(e *memory.Evidence) { e.Kind = 200 },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				bad := s.priced(20)
				s.heat(bad)
				ids := s.claims(5)
				var asked atomic.Int64
				crm := guarded("crm", memory.RankTool, verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
					v, err := verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
					if row.Content.Predicate == "price" {
						asked.Add(1)
						change(&v.Evidence)
					}
					return v, err
				}))
				s.serve(s.worker(s.logged(), crm), "crm", 2)
				s.within(5*time.Second, ids)
				time.Sleep(time.Minute)
				if n, of := s.verified(bad), asked.Load(); n != 0 || of > int64(2*len(bad)) {
					t.Errorf("%d of them are verified, %d questions in a minute", n, of)
				}
				if m := s.mark(bad[0]); m.Of("crm").Failures == 0 || m.Tries != 0 {
					t.Errorf("%+v", m)
				}
				if !strings.Contains(s.log.String(), "cannot be used") {
					t.Errorf("logged: %s", s.log.String())
				}
			})
		})
	}
}

// TestAMendedConfigurationNeedsNoLifetime: when the worker starts anew, most rows were not touched, and the
// others come back at once when a person says so.
func TestAMendedConfigurationNeedsNoLifetime(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(100)
		stop := s.serve(s.worker(s.logged(), guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Misconfigured()))), "crm", 4)
		time.Sleep(10 * time.Minute)
		stop()
		if log := s.log.String(); !strings.Contains(log, "level=ERROR") {
			t.Errorf("logged: %s", log)
		}
		touched := 0
		for _, id := range ids {
			if m := s.mark(id); m.Tries != 0 {
				t.Fatalf("%+v", m)
			} else if m.Of("crm").Failures > 0 {
				touched++
			}
		}
		if touched == 0 || touched > 10 {
			t.Errorf("%d rows are set aside", touched)
		}
		if _, aside, err := promotion.Retry(s.ctx, s.store, "mended", func(memory.Due) bool { return true }); err != nil || aside > 10 {
			t.Errorf("%d, %v", aside, err)
		}
		s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Supports()))), "crm", 4)
		s.within(5*time.Second, ids)
	})
}

// TestASuspectIsToBlameOnlyIfItWasAskedAbout: that is noted before the question, and taken back if the worker lives.
func TestASuspectIsToBlameOnlyIfItWasAskedAbout(t *testing.T) {
	for name, c := range map[string]struct {
		options *promotion.Options
		step    verifiertest.Step
		during  int // crashes that are noted during the question, if there is one
		after   memory.SourceMark
	}{
		"an answer":   {unlimited, verifiertest.Unclear(), 1, memory.SourceMark{}},
		"none":        {unlimited, verifiertest.Down(0), 1, memory.SourceMark{Failures: 1}},
		"no question": {&promotion.Options{Spending: &counting{}}, verifiertest.Unclear(), 0, memory.SourceMark{}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				id := s.claims(1)[0]
				during := 0
				crm := guarded("crm", memory.RankTool, verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
					m := s.mark(id)
					during = m.Of("crm").Crashes
					return c.step(ctx, verifiertest.New("crm", c.step), row)
				}))
				if spending, ok := c.options.Spending.(*counting); ok {
					spending.shut.Store(true)
				}
				s.queue.crashes[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: s.mark(id).Generation}] = 4
				s.serve(s.worker(c.options, crm), "crm", 1)
				time.Sleep(500 * time.Millisecond)
				m := s.mark(id)
				if said := m.Of("crm"); during != c.during || said.Crashes != c.after.Crashes || said.Failures != c.after.Failures {
					t.Errorf("%d during the question; %+v", during, m)
				}
			})
		})
	}
}

// TestServeSaysWhichSourcesThereAre, so that another worker parks no rows of one that is down, and agents know
// that it is.
func TestServeSaysWhichSourcesThereAre(t *testing.T) {
	inBubble(t, func(s *service) {
		f := &flaky{says: verifiertest.Supports()}
		f.down.Store(true)
		shop, crm := guarded("shop", memory.RankTool, f), guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()})
		shop.Predicates, crm.Predicates = []string{"price"}, []string{"city"}
		ids := s.priced(5)
		lonely := s.claim("acme", "7", func(d *memory.Draft) { d.Content.Predicate = "size" })
		content := s.row(ids[0]).Content
		down := func() bool {
			is, err := s.store.VerifiersDown(s.ctx, content)
			if err != nil {
				t.Fatal(err)
			}
			return is
		}
		var stops []func()
		for _, c := range []promotion.Source{shop, crm} {
			scope := promotion.Scope{Worker: s.worker(unlimited, c), ReadsElsewhere: true, Uncovered: time.Minute}
			stops = append(stops, testmain.Serve(s.t, func(ctx context.Context) error { return promotion.Serve(ctx, &routed{}, scope) }))
		}
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if m := s.mark(id); m.At.IsZero() {
				t.Fatalf("%+v", m)
			}
		}
		if m := s.mark(lonely); !m.At.IsZero() || !down() {
			t.Errorf("%+v, down: %t", m, down())
		}
		f.down.Store(false)
		s.within(10*time.Second, ids)
		if time.Sleep(6 * time.Second); down() {
			t.Error("it is said to be down")
		}
		f.down.Store(true)
		s.priced(5)
		if time.Sleep(30 * time.Second); !down() {
			t.Error("it is not said to be down")
		}
		stops[0]()
		if known, err := s.store.Covered(s.ctx, content); err != nil || slices.Contains(known, true) || down() {
			t.Errorf("what has ended is said to be there: %v, %v", known, err)
		}
	})
}

// TestALongListTakesNoRoomFromOtherScopes: the rows of one are behind many others, which take a while to read.
func TestALongListTakesNoRoomFromOtherScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, first := slowScopes(t)
		s.each[0].heat(s.each[0].priced(400))
		ids := s.each[0].claims(100)
		first.each.Store(int64(50 * time.Millisecond))
		f := &flaky{says: verifiertest.Supports()}
		f.down.Store(true)
		down, up := guarded("down", memory.RankTool, f), guarded("up", memory.RankTool, verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
			time.Sleep(time.Second)
			return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
		}))
		down.Covers, up.Covers = of("price"), of("city")
		s.serve(alike, down, up)
		time.Sleep(5 * time.Second)
		others := s.each[1].claims(400)
		time.Sleep(31 * time.Second) // they are found within half a minute, as nobody looks for them
		before := s.each[1].verified(others)
		time.Sleep(10 * time.Second)
		if n := s.each[1].verified(others) - before; n < 75 { // eight places make 80 checks
			t.Errorf("%d rows in ten seconds while the others were listed", n)
		}
		first.each.Store(0)
		if n := s.each[0].verified(ids); n != 0 {
			t.Errorf("the list was at its end already, and %d rows are verified", n)
		}
		s.each[0].within(2*time.Minute, ids)
		if n := s.queue.source("up").highest(); n > 60 {
			t.Errorf("%d tasks at a time", n)
		}
	})
}

// TestAQueueThatIsAwayIsLoggedOnce, whatever scopes without due rows look at meanwhile.
func TestAQueueThatIsAwayIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 3)
		q := s.queue.source("crm")
		q.down = true
		ids := s.each[0].claims(20)
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(10 * time.Minute)
		if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, errQueue.Error()) {
			t.Errorf("logged: %s", log)
		}
		q.do(func() { q.down = false })
		s.each[0].within(5*time.Second, ids)
		if log := s.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "enqueued again") {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestAQueueThatTakesNoChecksIsLoggedOnce: it answers, as a Redis that is full does.
func TestAQueueThatTakesNoChecksIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 3)
		q := s.queue.source("crm")
		q.full = true
		var ids [][]memory.ID
		for _, c := range s.each {
			ids = append(ids, c.claims(20))
		}
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(10 * time.Minute)
		if log := s.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, errQueue.Error()) {
			t.Errorf("logged: %s", log)
		}
		q.do(func() { q.full = false })
		for i, c := range s.each {
			c.within(5*time.Second, ids[i])
		}
		if log := s.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "enqueued again") {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestWhatIsSaidOfASource depends on what others can tell of it.
func TestWhatIsSaidOfASource(t *testing.T) {
	for name, c := range map[string]struct {
		change        func(*promotion.Source)
		covered, down bool
	}{
		"of all claims":          {func(*promotion.Source) {}, true, true},
		"of a predicate":         {func(s *promotion.Source) { s.Predicates = []string{"city"} }, true, true},
		"of another":             {func(s *promotion.Source) { s.Predicates = []string{"price"} }, false, false},
		"of some of a predicate": {func(s *promotion.Source) { s.Predicates, s.Covers = []string{"city"}, of("city") }, true, true},
		"of nobody knows what":   {func(s *promotion.Source) { s.Covers = of("city") }, false, false},
		"of any predicate":       {func(s *promotion.Source) { s.Covers, s.Any = of("city"), true }, true, true},
		"advisory":               {func(s *promotion.Source) { s.Advisory = true }, true, false},
		"a model":                {func(s *promotion.Source) { s.Rank = memory.RankSecondModel }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				f := &flaky{says: verifiertest.Supports()}
				f.down.Store(true)
				crm := guarded("crm", memory.RankTool, f)
				c.change(&crm)
				content := s.row(s.claims(5)[0]).Content
				s.priced(5)
				s.serveAll(s.worker(unlimited, crm))
				time.Sleep(time.Minute)
				covered, err := s.store.Covered(s.ctx, content)
				if err != nil {
					t.Fatal(err)
				}
				down, err := s.store.VerifiersDown(s.ctx, content)
				if err != nil {
					t.Fatal(err)
				}
				if covered[0] != c.covered || down != c.down {
					t.Errorf("covered %t, down %t", covered[0], down)
				}
			})
		})
	}
}

// TestAFaultOfTheStoreIsNoCrash: what was noted before the question is taken back.
func TestAFaultOfTheStoreIsNoCrash(t *testing.T) {
	inBubble(t, func(s *service) {
		id := s.claims(1)[0]
		worker, err := promotion.NewWorker(unwritten{s.store}, []promotion.Source{guarded("crm", memory.RankTool, verifiertest.New("crm", verifiertest.Unclear()))}, s.logged())
		if err != nil {
			t.Fatal(err)
		}
		s.queue.crashes[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: s.mark(id).Generation}] = 2
		s.serve(worker, "crm", 1)
		time.Sleep(10 * time.Second)
		if m := s.mark(id); m.Of("crm").Crashes != 0 || s.queue.back() < 5 {
			t.Errorf("%+v after %d checks", m, s.queue.back())
		}
	})
}

// TestAnOutageThatComesAgainIsLoggedOnceAMinute, and in any case if it stays. Those of two kinds are told apart.
func TestAnOutageThatComesAgainIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		q := s.queue.source("crm")
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(time.Second)
		begun, ended := 0, 0 // lines
		passes := func(d time.Duration, change func(), wantBegun, wantEnded int) {
			t.Helper()
			q.do(change)
			for range int(d / time.Second) {
				s.each[0].claims(1)
				s.queue.source("").lookAt(s.each[0].store.Tenant(), "ns-0")
				time.Sleep(time.Second)
			}
			begun, ended = begun+wantBegun, ended+wantEnded
			if n, m := strings.Count(s.log.String(), "not enqueued"), strings.Count(s.log.String(), "enqueued again"); n != begun || m != ended {
				t.Fatalf("logged %d and %d times, want %d and %d: %s", n, m, begun, ended, s.log.String())
			}
		}
		down, up := func() { q.down = true }, func() { q.down, q.full = false, false }
		passes(5*time.Second, down, 1, 0)
		passes(5*time.Second, up, 0, 1)
		for range 4 { // within a minute
			passes(5*time.Second, down, 0, 0)
			passes(5*time.Second, up, 0, 0)
		}
		passes(30*time.Second, up, 0, 0)
		passes(5*time.Second, down, 1, 0)
		passes(5*time.Second, up, 0, 1)
		passes(10*time.Second, down, 0, 0)
		passes(10*time.Second, func() { q.down, q.full = false, true }, 1, 0) // another kind
		passes(time.Minute, down, 1, 0)                                       // it stays, and checks are not tried
		passes(10*time.Second, up, 0, 2)
	})
}

// TestAnOutageEndsWithoutWhoHasNothingToDo: a scope that could not enqueue its rows, and has none any more, never sees the end.
func TestAnOutageEndsWithoutWhoHasNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 2)
		q, had := s.queue.source("crm"), s.each[0]
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(time.Second)
		q.do(func() { q.full = true })
		ids := had.claims(2)
		time.Sleep(30 * time.Second)
		for _, id := range ids {
			if err := had.store.Park(t.Context(), had.mark(id), memory.ParkedAsked, "enough"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(30 * time.Second)
		q.do(func() { q.full = false })
		s.each[1].within(time.Minute, s.each[1].claims(2))
		if log := s.log.String(); strings.Count(log, "not enqueued") != 1 || strings.Count(log, "enqueued again") != 1 {
			t.Error(log)
		}
	})
}

// TestAPausedSourceHoldsNoOutageOpen: others see its end, and the next one.
func TestAPausedSourceHoldsNoOutageOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 1)
		s.each[0].claims(1)
		s.each[0].priced(1)
		crm, erp := guarded("crm", memory.RankTool, &flaky{says: verifiertest.Unclear()}), guarded("erp", memory.RankTool, &flaky{says: verifiertest.Unclear()})
		crm.Predicates, erp.Predicates = []string{"city"}, []string{"price"}
		s.serve(alike, crm, erp)
		is := func(down, paused bool) {
			s.queue.source("crm").do(func() { s.queue.source("crm").down, s.queue.source("crm").paused = down, paused })
			s.queue.source("erp").do(func() { s.queue.source("erp").down = down })
			s.each[0].claims(1)
			s.each[0].priced(1)
			time.Sleep(2 * time.Minute)
		}
		is(true, false)
		is(false, true)
		is(true, true)
		is(false, true)
		if log := s.log.String(); strings.Count(log, "not enqueued") != 2 || strings.Count(log, "enqueued again") != 2 {
			t.Error(log)
		}
	})
}

// TestAStoreThatTakesLongForEachCallIsChecked.
func TestAStoreThatTakesLongForEachCallIsChecked(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &slowCalls{Driver: storetest.NewMap()}
		s.store = storetest.On(d, nil)
		ids := s.claims(60)
		d.each.Store(int64(1500 * time.Millisecond))
		s.serveAll(s.worker(s.logged(), guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}), guarded("erp", memory.RankTool, &flaky{says: verifiertest.Supports()})))
		time.Sleep(55 * time.Second)
		d.each.Store(0)
		if n := s.verified(ids); n < 4 {
			t.Errorf("%d rows are verified; logged: %s", n, s.log.String())
		}
		if log := s.log.String(); strings.Contains(log, "does not answer") {
			t.Error(log)
		}
	})
}

// slowCalls is a driver each of whose calls takes a while.
type slowCalls struct {
	memory.Driver
	each atomic.Int64
}

func (d *slowCalls) waits(ctx context.Context) error {
	select {
	case <-time.After(time.Duration(d.each.Load())):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *slowCalls) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if err := d.waits(ctx); err != nil {
		return nil, err
	}
	return d.Driver.Get(ctx, tenant, keys)
}

func (d *slowCalls) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.waits(ctx); err != nil {
		return nil, "", err
	}
	return d.Driver.Query(ctx, tenant, q)
}

func (d *slowCalls) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.waits(ctx); err != nil {
		return err
	}
	return d.Driver.Apply(ctx, tenant, b)
}
