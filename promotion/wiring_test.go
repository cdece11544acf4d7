package promotion_test

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// counting is a queue that counts budgets, and lets nothing pass while it is shut.
type counting struct {
	routed
	shut  atomic.Bool
	spent atomic.Int64
}

func (c *counting) Spend(context.Context, string, int, time.Duration) (time.Duration, error) {
	if c.shut.Load() {
		return time.Minute, nil
	}
	c.spent.Add(1)
	return 0, nil
}

// TestServeIsAllThatAProgramStarts: checks, budgets over all processes, reads and revocations.
func TestServeIsAllThatAProgramStarts(t *testing.T) {
	inBubble(t, func(s *service) {
		var q counting
		crm := verifiertest.New("crm", verifiertest.Supports())
		options := &promotion.Options{Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
		worker := s.worker(options, promotion.Source{Name: "crm", Verifier: crm, Rank: memory.RankTool})
		reads := promotion.NewHeater(s.store, nil, nil)
		q.shut.Store(true)
		ids := s.claims(3)
		testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &q, promotion.Scope{Worker: worker, Reads: reads})
		})
		time.Sleep(time.Minute)
		if crm.Calls() != 0 {
			t.Errorf("%d questions without a budget", crm.Calls())
		}
		reads.ObserveBlocked(s.ctx, ids[:1])
		time.Sleep(time.Second)
		if heat := s.mark(ids[0]).Heat; heat < 99 {
			t.Errorf("heat %v of a row that a call was blocked over", heat)
		}
		q.shut.Store(false)
		s.within(10*time.Second, ids)
		if q.spent.Load() != 3 {
			t.Errorf("%d questions are counted", q.spent.Load())
		}
		crm.Set(verifiertest.Unclear())
		if err := s.store.Revoke(s.ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: time.Unix(1, 0), By: "ops", Reason: "r"}, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if n := s.verified(ids); n != 0 {
			t.Errorf("%d rows are verified by what was revoked", n)
		}
		if log := s.log.String(); strings.Contains(log, "WARN") {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestServeWarnsOfWhatIsNotWired.
func TestServeWarnsOfWhatIsNotWired(t *testing.T) {
	const budgets, reads, sources = "the queue counts no budgets", "reads are not counted", "there is no source"
	for name, c := range map[string]struct {
		queue   promotion.CheckQueue
		scope   promotion.Scope
		options promotion.Options
		want    []string
	}{
		"everything is":         {queue: &counting{}, scope: promotion.Scope{ReadsElsewhere: true}},
		"a budget of its own":   {queue: &routed{}, scope: promotion.Scope{ReadsElsewhere: true}, options: promotion.Options{Spending: &counting{}}},
		"no budget":             {queue: &routed{}, scope: promotion.Scope{ReadsElsewhere: true}, options: promotion.Options{Budget: -1}},
		"a queue without":       {queue: &routed{}, scope: promotion.Scope{ReadsElsewhere: true}, want: []string{budgets}},
		"no reads":              {queue: &counting{}, want: []string{reads}},
		"no source":             {queue: &counting{}, scope: promotion.Scope{ReadsElsewhere: true}, want: []string{sources}},
		"neither of the two is": {queue: &routed{}, want: []string{budgets, reads}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *service) {
				c.options.Logger = slog.New(slog.NewTextHandler(&s.log, nil))
				c.scope.Worker = s.worker(&c.options, source(verifiertest.New("crm", verifiertest.Supports())))
				if slices.Contains(c.want, sources) {
					c.scope.Worker = s.worker(&c.options)
				}
				stop := testmain.Serve(s.t, func(ctx context.Context) error { return promotion.Serve(ctx, c.queue, c.scope) })
				time.Sleep(time.Minute)
				stop()
				log := s.log.String()
				for _, text := range c.want {
					if !strings.Contains(log, text) {
						t.Errorf("not logged: %s", text)
					}
				}
				if n := strings.Count(log, "\n"); n != len(c.want) {
					t.Errorf("logged: %s", log)
				}
			})
		})
	}
}

// TestASourceHasABreaker, also if nobody made one, and agents may ask it.
func TestASourceHasABreaker(t *testing.T) {
	inBubble(t, func(s *service) {
		crm, model := verifiertest.New("crm", verifiertest.Hangs()), verifiertest.New("model", verifiertest.Supports())
		worker := s.worker(unlimited,
			promotion.Source{Name: "crm", Verifier: crm, Rank: memory.RankTool, Predicates: []string{"city"}, Places: 3},
			promotion.Source{Name: "erp", Verifier: verifiertest.New("erp", verifiertest.Supports()), Predicates: []string{"price"}},
			promotion.Source{Name: "model", Verifier: model, Rank: memory.RankSecondModel},
			promotion.Observed(s.store, "city"))
		down := func(predicate string) bool {
			return worker.Down(memory.Content{Subject: "acme", Predicate: predicate, Object: "Oslo", Cardinality: memory.CardinalityFunctional})
		}
		if down("city") || down("price") || down("size") {
			t.Error("a source is down before it was asked")
		}
		for _, id := range s.claims(5) {
			began := time.Now()
			if r := s.ask(worker, id, "crm"); r.Status != promotion.Down || time.Since(began) > 11*time.Second {
				t.Errorf("%s after %s", r.Status, time.Since(began))
			}
		}
		if n := crm.Calls(); n != 3 {
			t.Errorf("%d questions to a source that is down", n)
		}
		if !down("city") || down("price") || down("size") {
			t.Error("a source that is down is not, or another one is")
		}
		own := verifier.WithBreaker("crm", crm, &verifier.BreakerOptions{Failures: 1})
		guarded := s.worker(unlimited, promotion.Source{Name: "crm", Verifier: own, Rank: memory.RankTool})
		s.ask(guarded, s.claims(1)[0], "crm")
		if own.State() == verifier.StateClosed {
			t.Error("the worker does not ask by the breaker that it was given")
		}
	})
}

// TestACoversThatPanicsHoldsUpNobody: what it panics at is not covered.
func TestACoversThatPanicsHoldsUpNobody(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(20)
		crm := source(verifiertest.New("crm", verifiertest.Supports()))
		crm.Covers = func(c memory.Content) bool {
			if c.Subject == "acme 7" {
				panic(c.Subject)
			}
			return true
		}
		worker := s.worker(s.logged(), crm)
		testmain.Serve(s.t, func(ctx context.Context) error {
			return promotion.Serve(ctx, &routed{}, promotion.Scope{Worker: worker, ReadsElsewhere: true})
		})
		s.within(10*time.Second, slices.Delete(slices.Clone(ids), 7, 8))
		if log := s.log.String(); s.verified(ids) != 19 || strings.Count(log, "Covers of a source panics") != 1 || strings.Contains(log, "acme") {
			t.Errorf("%d verified, logged: %s", s.verified(ids), log)
		}
	})
}

// TestASourceHasAName that a due mark can take.
func TestASourceHasAName(t *testing.T) {
	w := newWorld(t)
	for name, ok := range map[string]bool{"": false, " \t": false, strings.Repeat("n", 257): false, strings.Repeat("n", 256): true, "c r m": true, "c\x00m": false, "c\xff": false} {
		if _, err := promotion.NewWorker(w.store, []promotion.Source{{Name: name, Verifier: verifiertest.New("crm", verifiertest.Supports())}}, nil); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestAWorkerHasAName that the store takes with what a process adds to it.
func TestAWorkerHasAName(t *testing.T) {
	w := newWorld(t)
	for name, ok := range map[string]bool{"": true, " ": false, "w\x00": false, "w\xff": false, strings.Repeat("n", 2049): false, strings.Repeat("n", 2046) + "é": true} {
		worker, err := promotion.NewWorker(w.store, []promotion.Source{source(verifiertest.New("crm", verifiertest.Supports()))}, &promotion.Options{Name: name})
		if (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil {
			continue
		}
		id := w.claim(fmt.Sprint("acme ", len(name)), "Oslo", nil)
		w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
	}
}

// TestWhatAWorkerRefuses says in its error what is wrong.
func TestWhatAWorkerRefuses(t *testing.T) {
	w := newWorld(t)
	for want, change := range map[string]func(*promotion.Source, *promotion.Options){
		"no verifier":            func(s *promotion.Source, _ *promotion.Options) { s.Verifier = nil },
		"with rank user":         func(s *promotion.Source, _ *promotion.Options) { s.Rank = memory.RankUser },
		"with rank recall":       func(s *promotion.Source, _ *promotion.Options) { s.Rank = memory.RankRecall },
		"with rank rank(7)":      func(s *promotion.Source, _ *promotion.Options) { s.Rank = memory.RankUser + 1 },
		"Places is -1":           func(s *promotion.Source, _ *promotion.Options) { s.Places = -1 },
		"Options.Tick":           func(_ *promotion.Source, o *promotion.Options) { o.Tick = -1 },
		"VerdictLifetime":        func(_ *promotion.Source, o *promotion.Options) { o.VerdictLifetime = -1 },
		`"auto_observation" has`: func(s *promotion.Source, _ *promotion.Options) { *s = promotion.Observed(nil, "city") },
	} {
		s, o := source(verifiertest.New("crm", verifiertest.Supports())), promotion.Options{}
		if _, err := promotion.NewWorker(w.store, []promotion.Source{s}, &o); err != nil {
			t.Fatal(err)
		}
		change(&s, &o)
		if _, err := promotion.NewWorker(w.store, []promotion.Source{s}, &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// panics is a quorum, as it were, with a member that panics: it has a breaker, and is not guarded.
type panics struct{ state verifier.State }

func (p *panics) State() verifier.State                                      { return p.state }
func (*panics) Verify(context.Context, memory.Row) (verifier.Verdict, error) { panic("Oslo") }

// TestAPanicOfTheProgramsOwnIsNoCrash: neither in a probe of a verifier that nothing guards, nor of Observe.
func TestAPanicOfTheProgramsOwnIsNoCrash(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(3)
		o := &promotion.Options{Budget: -1, Observe: func(promotion.Result) { panic("Oslo") }, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
		erp := source(verifiertest.New("erp", verifiertest.Slow(time.Second, verifiertest.Supports()))) // crm is probed meanwhile
		erp.Name = "erp"
		s.serveAll(s.worker(o, promotion.Source{Name: "crm", Verifier: &panics{verifier.StateHalfOpen}, Rank: memory.RankTool}, erp))
		s.within(time.Minute, ids)
		if text := s.log.String(); !strings.Contains(text, "Observe panics") || !strings.Contains(text, "it panicked") || strings.Contains(text, "Oslo") {
			t.Error(text)
		}
	})
}

// unseen is a store in which nobody sees rows side by side.
type unseen struct{}

func (unseen) Rows(context.Context, memory.Filter) iter.Seq2[memory.Row, error] {
	return func(yield func(memory.Row, error) bool) { yield(memory.Row{}, errStore) }
}

// TestWhatObservesFailsForItself: its failure is not that of the source that is asked.
func TestWhatObservesFailsForItself(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm := source(verifiertest.New("crm", verifiertest.Unclear()))
	r := w.ask(w.worker(nil, promotion.Observed(unseen{}, "city"), crm), id, "crm")
	w.want(id, memory.StateUnverified, r, promotion.Unclear)
	if m := w.mark(id); m.Tries != 1 || !m.At.After(w.clock()) || !r.RetryAt.IsZero() {
		t.Errorf("%+v, %+v", r, m)
	}
}
