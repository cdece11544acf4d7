package promotion_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// TestAnOperatorStopsTheChecksOfASource: it is not even probed, and no round is given up for that time.
func TestAnOperatorStopsTheChecksOfASource(t *testing.T) {
	for _, down := range []bool{false, true} {
		t.Run(fmt.Sprintf("down %t", down), func(t *testing.T) {
			inBubble(t, func(s *service) {
				ids := s.claims(200)
				crm := &flaky{says: verifiertest.Supports()}
				crm.down.Store(down)
				pause := func(paused bool) { s.queue.do(func() { s.queue.paused = paused }) }
				pause(!down)
				s.serve(s.worker(unlimited, guarded("crm", memory.RankTool, crm)), "crm", 4)
				time.Sleep(time.Minute)
				pause(true)
				time.Sleep(10 * time.Second) // a question that is under way ends
				before, rounds := crm.asked.Load(), map[memory.ID]uint64{}
				if down != (before > 0) {
					t.Errorf("%d questions", before)
				}
				for _, id := range ids {
					rounds[id] = s.mark(id).Generation
				}
				crm.down.Store(false)
				time.Sleep(time.Hour)
				if n := crm.asked.Load() - before; n != 0 || s.verified(ids) != 0 {
					t.Errorf("%d questions while it is paused", n)
				}
				for _, id := range ids {
					if s.mark(id).Generation != rounds[id] {
						t.Errorf("row %s has a new round", id)
					}
				}
				if n := s.queue.left(); n > 8 {
					t.Errorf("%d tasks wait", n)
				}
				pause(false)
				s.within(10*time.Second, ids)
			})
		})
	}
}

// TestRowsThatOnlyToolsSpeakOfAreObserved: no other source covers them, and they come back in time.
func TestRowsThatOnlyToolsSpeakOfAreObserved(t *testing.T) {
	inBubble(t, func(s *service) {
		var q routed
		several := func(d *memory.Draft) { d.Content.Cardinality = memory.CardinalitySetValued }
		seen, unseen := s.claim("acme", "Oslo", several), s.claim("acme", "Rome", several)
		say := func(object string) {
			for _, tool := range []string{"crm", "erp"} {
				s.world.seen(tool, object, func(d *memory.Draft) { d.Evidence[0].At = s.store.Now() })
			}
		}
		say("Oslo")
		wiki := promotion.Source{Name: "wiki", Rank: memory.RankTool, Predicates: []string{"price"}, Verifier: verifiertest.New("wiki", verifiertest.Supports())}
		worker := s.worker(unlimited, promotion.Observed(s.store, "city"), wiki)
		testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &q, promotion.Scope{Worker: worker})
		})
		s.within(10*time.Second, []memory.ID{seen})
		time.Sleep(5 * time.Minute)
		if m := s.mark(unseen); m.At.IsZero() || !m.At.After(s.store.Now()) || m.Tries != 0 {
			t.Errorf("%+v", m)
		}
		say("Rome")
		s.within(promotion.DefaultVerdictLifetime+time.Minute, []memory.ID{unseen})
	})
}

// TestWhatAnotherSourceCoversIsNotObservedAlone: the question comes with it. A process without that source may
// enqueue it to be observed, which does not put the question off.
func TestWhatAnotherSourceCoversIsNotObservedAlone(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(10)
		crm := verifiertest.New("crm", verifiertest.Unclear())
		worker := s.worker(unlimited, promotion.Observed(s.store, "city"), source(crm))
		handlers := make(chan promotion.CheckHandler, 1)
		own := &outlived{newTasks(), func(h promotion.CheckHandler) { handlers <- h }}
		stop := testmain.Serve(s.t, func(ctx context.Context) error { return worker.ServeSource(ctx, own, "auto_observation", 1) })
		h := <-handlers
		for _, id := range ids {
			m := s.mark(id)
			if err := h.Handle(s.ctx, promotion.Check{Tenant: s.store.Tenant(), Row: id, Source: "auto_observation", Generation: m.Generation}, 0); err != nil {
				t.Error(err)
			}
			if now := s.mark(id); now.Generation != m.Generation || now.At != m.At || !now.Of("auto_observation").Until.After(s.store.Now()) {
				t.Errorf("%+v, and then %+v", m, now)
			}
		}
		stop()
		var q routed
		testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &q, promotion.Scope{Worker: worker})
		})
		time.Sleep(10 * time.Second)
		if n := len(q.source("auto_observation").added()) + len(own.added()); n != 0 || crm.Calls() != len(ids) {
			t.Errorf("%d rows are observed, %d questions", n, crm.Calls())
		}
	})
}

// TestARowThatNobodyCoversIsParked after a while, unless another process says that it has a source for it.
func TestARowThatNobodyCoversIsParked(t *testing.T) {
	const patience = 5 * time.Minute
	for name, c := range map[string]struct {
		said   []memory.VerifierState
		parked bool
	}{
		"nobody says so":       {nil, true},
		"a source of others":   {[]memory.VerifierState{{Name: "hr", Predicates: []string{"salary"}}}, true},
		"a source of its own":  {[]memory.VerifierState{{Name: "shop", Predicates: []string{"price"}, Down: true}}, false},
		"a model, of anything": {[]memory.VerifierState{{Name: "model", Advisory: true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				var priced []memory.ID
				for i := range 600 {
					priced = append(priced, s.claim(fmt.Sprint("box ", i), "7", func(d *memory.Draft) { d.Content.Predicate = "price" }))
				}
				held := s.claims(20) // of a source that answers nothing
				if c.said != nil {
					if err := s.store.PublishVerifiers(s.ctx, "another", time.Hour, c.said); err != nil {
						t.Fatal(err)
					}
				}
				crm := &flaky{says: verifiertest.Supports()}
				crm.down.Store(true)
				covers := guarded("crm", memory.RankTool, crm)
				covers.Covers = func(c memory.Content) bool { return c.Predicate == "city" }
				var q routed
				testmain.Serve(s.t, func(ctx context.Context) error {
					return promotion.Serve(ctx, &q, promotion.Scope{Worker: s.worker(unlimited, covers), Uncovered: patience})
				})
				parked := func(ids []memory.ID) (n int) {
					for _, id := range ids {
						if m := s.mark(id); m.At.IsZero() {
							if n++; m.Reason != "no verifier covers this claim" {
								t.Errorf("%+v", m)
							}
						}
					}
					return n
				}
				time.Sleep(patience - time.Second)
				if n := parked(priced); n != 0 {
					t.Errorf("%d rows are parked too soon", n)
				}
				time.Sleep(time.Minute)
				want := 0
				if c.parked {
					want = len(priced)
				}
				if n, of := parked(priced), parked(held); n != want || of != 0 {
					t.Errorf("%d rows are parked, want %d, and %d of those that are covered", n, want, of)
				}
			})
		})
	}
}

// TestServeTakesUpWhatNobodyCovered.
func TestServeTakesUpWhatNobodyCovered(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(3)
		nobody := s.worker(nil)
		for _, id := range ids {
			s.want(id, memory.StateUnverified, s.check(nobody, id), promotion.Parked)
		}
		s.serveAll(s.worker(unlimited, source(verifiertest.New("crm", verifiertest.Supports()))))
		s.within(time.Minute, ids)
	})
}

// TestServeLeavesWhatItCannotCheckParked.
func TestServeLeavesWhatItCannotCheckParked(t *testing.T) {
	inBubble(t, func(s *service) {
		ids, nobody := s.claims(30), s.worker(nil)
		before := map[memory.ID]uint64{}
		for _, id := range ids {
			s.check(nobody, id)
			before[id] = s.mark(id).Generation
		}
		crm := source(verifiertest.New("crm", verifiertest.Supports()))
		crm.Predicates = []string{"price"}
		s.serveAll(s.worker(unlimited, crm))
		time.Sleep(10 * time.Minute)
		for _, id := range ids {
			if m := s.mark(id); m.Generation != before[id] || !m.At.IsZero() {
				t.Fatalf("%+v", m)
			}
		}
	})
}

// TestWhatIsParkedOrSetAsideIsBroughtBack: all of it, or what is wanted.
func TestWhatIsParkedOrSetAsideIsBroughtBack(t *testing.T) {
	inBubble(t, func(s *service) {
		s.store = storetest.NewStore(nil)
		ids := s.claims(6)
		parked, aside, answered := ids[:2], ids[2:4], ids[4]
		worker := s.worker(nil)
		for _, id := range parked {
			if err := worker.Park(s.ctx, id, "it crashed"); err != nil {
				t.Fatal(err)
			}
		}
		later := s.store.Now().Add(time.Hour)
		for _, id := range aside {
			for _, name := range []string{"crm", "erp"} {
				if _, err := s.store.Note(s.ctx, s.mark(id), memory.SourceMark{Source: name, Until: later, Failures: 9}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := s.store.Note(s.ctx, s.mark(answered), memory.SourceMark{Source: "crm", Until: later}); err != nil {
			t.Fatal(err)
		}
		want := func(id memory.ID, both bool) func(memory.Due) bool {
			return func(d memory.Due) bool { return both || d.ID == id }
		}
		for i, only := range []memory.ID{parked[0], aside[0]} {
			if p, a, err := promotion.Retry(s.ctx, s.store, "why", want(only, false)); err != nil || p != 1-i || a != i {
				t.Errorf("%d parked, %d aside, %v", p, a, err)
			}
		}
		if p, a, err := promotion.Retry(s.ctx, s.store, "why", want("", true)); err != nil || p != 1 || a != 1 {
			t.Errorf("%d parked, %d aside, %v", p, a, err)
		}
		for _, id := range ids[:4] {
			m := s.mark(id)
			if m.At.IsZero() || m.At.After(s.store.Now()) || m.Of("crm").Failures != 0 || m.Of("erp").Until.After(s.store.Now()) {
				t.Errorf("%+v", m)
			}
		}
		if m := s.mark(answered); !m.Of("crm").Until.Equal(later) { // an answer stands
			t.Errorf("%+v", m)
		}
	})
}

// TestALookEndsThePause of a scope that has had no due rows for long, for all of its sources.
func TestALookEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 3)
		var q *tasks
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(10*time.Minute + 7*time.Second)
		q = s.queue.source("")
		c := s.each[1]
		for round, look := range []bool{true, false, true} {
			ids := c.claims(3)
			h := promotion.NewHeater(c.store, looker{q}, nil)
			h.ObserveReads(t.Context(), ids, 1)
			before := time.Now()
			if look {
				if err := h.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for c.verified(ids) < len(ids) && time.Since(before) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(before); look != (took < 100*time.Millisecond) {
				t.Errorf("round %d: it took %s", round, took)
			}
			time.Sleep(5*time.Minute + 20*time.Second)
		}
		if q.lookAt("another", "ns-1") || q.lookAt(c.store.Tenant(), "ns-9") || !q.lookAt(c.store.Tenant(), "ns-0") {
			t.Error("who serves it?")
		}
	})
}

// TestALookFindsARowWhoseTimeHasCome since rows were last woken.
func TestALookFindsARowWhoseTimeHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScopes(t, 1)
		s.serve(alike, guarded("crm", memory.RankTool, &flaky{says: verifiertest.Supports()}))
		time.Sleep(10 * time.Minute)
		c := s.each[0]
		ids := c.claims(1)
		if err := c.store.Reschedule(t.Context(), ids[0], c.store.Now().Add(200*time.Millisecond), 0, "later"); err != nil {
			t.Fatal(err)
		}
		s.queue.source("").lookAt(c.store.Tenant(), c.store.Namespace())
		time.Sleep(300 * time.Millisecond)
		s.queue.source("").lookAt(c.store.Tenant(), c.store.Namespace())
		time.Sleep(100 * time.Millisecond)
		if c.verified(ids) != 1 {
			t.Error("the row is not verified")
		}
	})
}

// looker passes looks on to who serves a queue.
type looker struct{ q *tasks }

func (l looker) Look(_ context.Context, tenant, namespace string) error {
	l.q.lookAt(tenant, namespace)
	return nil
}

// TestARowIsNotDueWhileTheVerdictsStand: one that was demoted, and one that is marked again. While a source has not
// answered about it, it is.
func TestARowIsNotDueWhileTheVerdictsStand(t *testing.T) {
	inBubble(t, func(s *service) {
		var q routed
		ids := s.claims(600)
		refutes := verifiertest.New("crm", verifiertest.Refutes("Rome"))
		crm := promotion.Source{Name: "crm", Rank: memory.RankTool, Verifier: refutes}
		erp := guarded("erp", memory.RankSecondModel, &flaky{says: verifiertest.Unclear()})
		pause := func(paused bool) { q.source("erp").do(func() { q.source("erp").paused = paused }) }
		pause(true)
		erp.Covers = func(c memory.Content) bool { return c.Subject == "acme 7" }
		testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &q, promotion.Scope{Worker: s.worker(unlimited, crm, erp)})
		})
		want := func(what string) {
			t.Helper()
			for i, id := range ids {
				m := s.mark(id)
				until := m.Of("crm").Until
				switch due := !m.At.After(s.store.Now()); {
				case until.IsZero() || due != (i == 7) || m.At.IsZero():
					t.Fatalf("%s: row %d: %+v", what, i, m)
				case !due && (!m.At.Equal(until) || m.Reason != "the verdicts still stand"):
					t.Fatalf("%s: row %d comes back at %s, want %s", what, i, m.At, until)
				}
			}
		}
		time.Sleep(time.Minute)
		want("demoted")
		for _, id := range ids {
			if err := s.store.Reschedule(s.ctx, id, s.store.Now(), 0, "again"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		want("marked again")
		pause(false)
		time.Sleep(time.Minute)
		if _, due, err := s.store.OldestDue(s.ctx); err != nil || due || refutes.Calls() != len(ids) {
			t.Errorf("a row is due: %t, %v; %d questions", due, err, refutes.Calls())
		}
	})
}
