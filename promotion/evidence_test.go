package promotion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// vanished is the step of a source whose document is gone.
func vanished() verifiertest.Step {
	return func(_ context.Context, s *verifiertest.Scripted, _ memory.Row) (verifier.Verdict, error) {
		v := s.Verdict(verifier.Gone, "")
		v.Evidence.Relation = memory.RelationContextualizes
		return v, nil
	}
}

func TestWhatVanishedMakesStaleAndRefutesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	doc := ranked("doc", memory.RankPrimarySource, verifiertest.Supports(), vanished())
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(doc))
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
	w.pass(31 * 24 * time.Hour)
	if err := w.store.Reschedule(w.ctx, id, w.clock(), 0, "again"); err != nil {
		t.Fatal(err)
	}
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Kept)
	row := w.row(id)
	if row.Freshness != memory.FreshnessStale || row.Truth != memory.TruthSupported {
		t.Errorf("%s and %s", row.Truth, row.Freshness)
	}
	if at := w.mark(id).At; at.IsZero() || at.After(w.clock().Add(time.Hour)) {
		t.Errorf("it is checked again at %s", at)
	}
	if last := row.Evidence[len(row.Evidence)-1]; last.Relation != memory.RelationContextualizes || last.Source != "doc" {
		t.Errorf("that it is gone is not kept: %+v", last)
	}
	t.Run("and it comes back", func(t *testing.T) {
		w.pass(time.Hour)
		doc.Set(verifiertest.Supports())
		w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
		if f := w.row(id).Freshness; f != memory.FreshnessFresh {
			t.Error(f)
		}
	})
}

func TestADisagreementOfAQuorumIsKeptAndShown(t *testing.T) { // SR-4.8, SR-7.14
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	a, b := verifiertest.New("a", verifiertest.Supports()), verifiertest.New("b", verifiertest.Refutes("Rome"))
	q := verifier.NewQuorum("both", 2, verifier.Member{Name: "a", Rank: a.Rank, Verifier: a}, verifier.Member{Name: "b", Rank: b.Rank, Verifier: b})
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, promotion.Source{Name: "both", Verifier: q, Rank: memory.RankTool})
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Kept)
	var said []string
	for _, e := range w.row(id).Evidence {
		said = append(said, e.Source+" "+e.Relation.String())
	}
	if want := []string{"a supports", "b contradicts"}; !slices.Equal(said, want) {
		t.Errorf("%v, want %v", said, want)
	}
	// One of the two alone, asked by a worker that needs no quorum, is still disputed.
	w.pass(time.Hour)
	w.want(id, memory.StateUnverified, w.check(w.worker(nil, source(a)), id), promotion.Kept)
	w.pass(2 * time.Hour)
	b.Set(verifiertest.Supports())
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
}

// seen puts what a tool said of its own, as a typed field.
func (w *world) seen(tool, object string, change func(*memory.Draft)) memory.Receipt {
	w.t.Helper()
	d := memory.Draft{Content: memory.Content{Subject: "acme", Predicate: "city", Object: object, Cardinality: memory.CardinalitySetValued},
		Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "agent", Tool: tool}, Anchor: "tool:" + tool,
		Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityLow,
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: tool, Verifier: "call", Group: "tool:" + tool,
			Anchor: memory.Anchor{URI: "call:1"}, At: w.clock()}}}
	if change != nil {
		change(&d)
	}
	r, err := w.store.Put(w.ctx, d)
	if err != nil {
		w.t.Fatalf("Put: %v", err)
	}
	return r
}

func TestD30AutoPromotionIsNarrowAndOff(t *testing.T) { // LS-10, LS-11, LS-13
	text := func(d *memory.Draft) {
		d.Content = memory.Content{Text: "acme is in Oslo", Cardinality: memory.CardinalityUnknown}
		d.State, d.Evidence = memory.StateUnverified, nil
	}
	unverified := func(d *memory.Draft) { d.State, d.Evidence = memory.StateUnverified, nil }
	for _, c := range []struct {
		name string
		lay  func(w *world, id memory.ID)
		want bool
	}{
		{"nothing was seen", func(*world, memory.ID) {}, false},
		{"one tool", func(w *world, _ memory.ID) { w.seen("crm", "Oslo", nil) }, false},
		{"two tools", func(w *world, _ memory.ID) { w.seen("crm", "Oslo", nil); w.seen("erp", "Oslo", nil) }, true},
		{"two tools, one of them of another city", func(w *world, _ memory.ID) { w.seen("crm", "Oslo", nil); w.seen("erp", "Rome", nil) }, false},
		{"two tools, in another spelling", func(w *world, _ memory.ID) { w.seen("crm", "oslo", nil); w.seen("erp", "oslo", nil) }, false},
		{"two tools, with another blank", func(w *world, _ memory.ID) { w.seen("crm", " Oslo", nil); w.seen("erp", " Oslo", nil) }, false},
		{"one tool twice", func(w *world, _ memory.ID) {
			w.seen("crm", "Oslo", nil)
			w.seen("crm", "Oslo", func(d *memory.Draft) { d.Anchor = "elsewhere" })
		}, false},
		{"text of a second one", func(w *world, _ memory.ID) { w.seen("crm", "Oslo", nil); w.seen("web", "Oslo", text) }, false},
		{"a field of a second one that is no system of record", func(w *world, _ memory.ID) {
			w.seen("crm", "Oslo", nil)
			w.seen("web", "Oslo", unverified)
		}, false},
		{"a second one that was fed the claim", func(w *world, id memory.ID) {
			w.seen("crm", "Oslo", nil)
			w.seen("erp", "Oslo", func(d *memory.Draft) { d.DerivedFrom = []memory.ID{id} })
		}, false},
		{"a second one that was quarantined", func(w *world, _ memory.ID) {
			w.seen("crm", "Oslo", nil)
			r := w.seen("erp", "Oslo", nil)
			if _, err := w.store.Apply(w.ctx, memory.Transition{Row: r.ID, Revision: r.Revision, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "s", Source: "s", Reason: "r"}); err != nil {
				w.t.Fatalf("%v", err)
			}
		}, false},
		{"the agent read, succeeded and said so again", func(w *world, id memory.ID) {
			for i := range 20 {
				if _, err := w.store.AddHeat(w.ctx, map[memory.ID]float64{id: float64(i)}); err != nil {
					w.t.Fatalf("%v", err)
				}
				w.claim("acme", "Oslo", func(d *memory.Draft) {
					d.Origin, d.ValueConfidence, d.Content.Cardinality = memory.OriginRecallReentry, 1, memory.CardinalitySetValued
				})
			}
		}, false},
	} {
		for _, on := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, policy on: %v", c.name, on), func(t *testing.T) {
				w := newWorld(t)
				id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.Content.Cardinality = memory.CardinalitySetValued })
				c.lay(w, id)
				observed := promotion.Observed(w.store)
				if on {
					observed = promotion.Observed(w.store, " City ")
				}
				w.check(w.worker(nil, observed), id)
				row := w.row(id)
				if got := row.State() == memory.StateVerified; got != (c.want && on) {
					t.Fatalf("verified: %v", got)
				}
				if !c.want || !on {
					if len(w.moves(id)) != 0 {
						t.Errorf("it moved: %+v", w.moves(id))
					}
					return
				}
				log := w.moves(id)
				if len(log) != 1 || log[0].Authority != memory.AuthorityAutoObservation || len(log[0].Evidence) != 2 {
					t.Errorf("the evidence is not logged: %+v", log)
				}
			})
		}
	}
	t.Run("a tool that is revoked takes it along", func(t *testing.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.Content.Cardinality = memory.CardinalitySetValued })
		w.seen("crm", "Oslo", nil)
		w.seen("erp", "Oslo", nil)
		w.want(id, memory.StateVerified, w.check(w.worker(nil, promotion.Observed(w.store, "city")), id), promotion.Promoted)
		if err := w.store.Revoke(w.ctx, memory.Revocation{Kind: memory.RevokedSource, Name: "erp", Since: w.clock(), By: "ops", Reason: "r"}, 1); err != nil {
			t.Fatal(err)
		}
		if row := w.row(id); row.State() == memory.StateVerified {
			t.Error("still fit")
		}
	})
}

func TestARevokedVerifierIsAnAlarmAndMovesNothing(t *testing.T) {
	w := newWorld(t)
	crm := verifiertest.New("crm", verifiertest.Supports())
	var log bytes.Buffer
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour, Tick: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))}, source(crm))
	if err := w.store.Revoke(w.ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: w.clock(), By: "ops", Reason: "r"}, 1); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		id := w.claim(fmt.Sprint("row", i), "Oslo", nil)
		w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Misconfigured)
		if n := len(w.row(id).Evidence); n != 0 {
			t.Errorf("%d pieces of its evidence were kept", n)
		}
	}
	if n := strings.Count(log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d alarms:\n%s", n, &log)
	}
}

// The worker that was told of an alarm asks a verifier that was reinstated as before, once
// the answer that was refused no longer stands.
func TestAReinstatedVerifierVerifiesAgain(t *testing.T) {
	w := newWorld(t)
	tool := verifier.NewTool("crm", func(context.Context, verifier.Question) (verifier.Answer, error) {
		return verifier.Answer{Found: true, Value: "Oslo"}, nil
	}, &verifier.ToolOptions{Clock: w.clock})
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, promotion.Source{Name: "crm", Verifier: tool, Rank: memory.RankTool})
	id := w.claim("acme", "Oslo", nil)
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
	w.pass(time.Hour)
	if err := w.store.Revoke(w.ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: w.clock().Add(-2 * time.Hour), By: "ops", Reason: "r"}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.WalkRevocations(w.ctx, nil); err != nil {
		t.Fatal(err)
	}
	w.pass(2 * time.Hour)
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Misconfigured)
	_, revision, err := w.store.Revocations(w.ctx)
	if err == nil {
		err = w.store.Reinstate(w.ctx, memory.RevokedVerifier, "crm", "", memory.Reinstatement{By: "ops", Reason: "r"}, revision)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.NotDue)
	w.pass(2 * time.Hour)
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
}

// nobody is a budget that nothing may be taken from.
type nobody struct{ asked []string }

func (n *nobody) Spend(_ context.Context, source string, _ int, tick time.Duration) (time.Duration, error) {
	n.asked = append(n.asked, source)
	return tick, nil
}

// To look at rows side by side asks nobody, and needs no budget of questions.
func TestObservingSpendsNoBudget(t *testing.T) {
	w, spent := newWorld(t), &nobody{}
	crm := verifiertest.New("crm", verifiertest.Supports())
	id := w.claim("acme", "Oslo", nil)
	r := w.check(w.worker(&promotion.Options{Spending: spent}, promotion.Observed(w.store, "city"), source(crm)), id)
	if r.Status != promotion.Deferred || r.Calls != 0 || !slices.Equal(spent.asked, []string{"crm"}) || crm.Calls() > 0 {
		t.Errorf("%+v, and the budgets of %q were asked", r, spent.asked)
	}
	if r := w.check(w.worker(&promotion.Options{Spending: spent}, promotion.Observed(w.store, "city")), id); r.Status == promotion.Deferred || r.Calls != 0 {
		t.Errorf("%+v", r)
	}
}

// What whoever revoked did not finish, a worker does.
func TestAWorkerMovesTheRowsOfARevocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		w.want(id, memory.StateVerified, w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), id), promotion.Promoted)
		before := w.row(id).Revision
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		done := make(chan struct{})
		go func() {
			defer close(done)
			promotion.Withdraw(ctx, w.store, time.Minute, slog.New(slog.NewTextHandler(&log, nil)))
		}()
		synctest.Wait()
		if err := w.store.Revoke(w.ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: time.Unix(1, 0), By: "ops", Reason: "r"}, 1); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		row := w.row(id)
		list, _, err := w.store.Revocations(w.ctx)
		if err != nil || !list[0].Walked || row.Revision == before || row.State() == memory.StateVerified || row.Has(memory.FlagRevoked) {
			t.Errorf("%+v, %v, %+v", list, err, row.Head)
		}
		cancel()
		<-done
		if strings.Count(log.String(), "withdrawn=1") != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("it is said once:\n%s", &log)
		}
	})
}

// endless is a store with a row that keeps a walk of ten minutes from its end.
type endless struct{ walks int }

func (e *endless) WalkRevocations(ctx context.Context, _ func(memory.RevocationWalk)) (memory.RevocationWalk, error) {
	e.walks++
	select {
	case <-time.After(10 * time.Minute):
	case <-ctx.Done():
	}
	return memory.RevocationWalk{}, memory.ErrDamaged
}

// A walk that does not end leaves the store to others for most of the time.
func TestAWalkThatDoesNotEndIsNotAllThatAWorkerDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour)
		defer cancel()
		var e endless
		promotion.Withdraw(ctx, &e, time.Minute, nil)
		if e.walks < 10 || e.walks > 13 {
			t.Errorf("%d walks of ten minutes in ten hours", e.walks)
		}
	})
}

// However sources change their minds: no verdict moves a row more than once, and a
// verdict that only repeats moves nothing.
func TestNoOscillation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		a, b, doc := verifiertest.New("a"), verifiertest.New("b"), ranked("doc", memory.RankPrimarySource)
		all := []*verifiertest.Scripted{a, b, doc}
		says := rapid.SampledFrom([]verifiertest.Step{verifiertest.Supports(), verifiertest.Refutes("Rome"), verifiertest.Unclear(), vanished()})
		for range rapid.IntRange(1, 15).Draw(t, "verdicts") {
			s := rapid.SampledFrom(all).Draw(t, "source")
			s.Set(says.Draw(t, "says"))
			before := moved(w, id)
			w.pass(40 * 24 * time.Hour)
			w.check(w.worker(nil, source(s)), id)
			if n := moved(w, id) - before; n > 1 {
				t.Fatalf("one verdict moved the row %d times", n)
			}
		}
		// Nobody changes his mind any more: the row comes to rest.
		for _, s := range all {
			w.pass(40 * 24 * time.Hour)
			w.check(w.worker(nil, source(s)), id)
		}
		before := moved(w, id)
		for range 3 {
			for _, s := range all {
				w.pass(40 * 24 * time.Hour)
				w.check(w.worker(nil, source(s)), id)
			}
		}
		if n := moved(w, id) - before; n > 0 {
			t.Fatalf("%d moves, and nobody said anything new", n)
		}
	})
}

// moved counts the moves of truth in a row's history.
func moved(w *world, id memory.ID) (n int) {
	for _, e := range w.moves(id) {
		if e.Axis == memory.AxisTruth && e.Kind == memory.EntryTransition {
			n++
		}
	}
	return n
}

// A sweep, reads and a user race for one row, a thousand times: each of them may try,
// one transition is made, and it is logged once (SR-7.9, SR-7.10).
func TestI6ThreeTriggersRaceForOneTransition(t *testing.T) {
	const rounds = 1000
	w := newWorld(t)
	heater := promotion.NewHeater(w.store, nil, nil)
	byUser, byTool := 0, 0
	for round := range rounds {
		id := w.claim("ana", fmt.Sprint("city", round), func(d *memory.Draft) { d.Content.Cardinality = memory.CardinalitySetValued })
		start := make(chan struct{})
		var all sync.WaitGroup
		var user atomic.Bool
		work := func(trigger func() error) {
			worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
			all.Go(func() {
				<-start
				if err := trigger(); err != nil {
					t.Error(err)
				}
				if _, err := worker.Check(w.ctx, id); err != nil {
					t.Error(err)
				}
			})
		}
		work(func() error { _, _, err := w.store.WakeDue(w.ctx, memory.MaxWoken); return err })
		work(func() error { heater.ObserveReads(w.ctx, []memory.ID{id}, 1); return heater.Flush(w.ctx) })
		all.Go(func() {
			row := w.row(id)
			<-start
			_, err := w.store.Apply(w.ctx, memory.Transition{Row: id, Revision: row.Revision, To: memory.TruthSupported, Authority: memory.AuthorityUser,
				Actor: "ana", Source: "confirm", Reason: "I live there", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser,
					Source: "user:ana", Verifier: "confirm", Group: "user:ana", Anchor: memory.Anchor{URI: fmt.Sprint("confirm:", round)}, At: w.clock()}}})
			if err != nil && !errors.Is(err, memory.ErrConflict) {
				t.Error(err)
			}
			user.Store(err == nil)
		})
		close(start)
		all.Wait()
		row, transitions := w.row(id), 0
		for _, e := range w.moves(id) {
			if e.Kind == memory.EntryTransition && e.Axis == memory.AxisTruth {
				transitions++
			}
		}
		if row.State() != memory.StateVerified || transitions != 1 {
			t.Fatalf("round %d: %s after %d transitions: %+v", round, row.State(), transitions, w.moves(id))
		}
		if user.Load() {
			byUser++
		} else {
			byTool++
		}
		if user.Load() && row.Rank != memory.RankUser {
			t.Fatalf("round %d: the user won, and the rank is %s", round, row.Rank)
		}
	}
	t.Logf("%d rounds: the user came first in %d, a source in %d", rounds, byUser, byTool)
}

// TestAVerifierThatReadsBackWhatACallSetSupportsNothing: not at once, and not when a weaker
// source agrees later.
func TestAVerifierThatReadsBackWhatACallSetSupportsNothing(t *testing.T) { // I-4
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	row := w.row(id)
	f, err := w.store.Fitness(w.ctx, []memory.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.store.Record(w.ctx, memory.DecisionRecord{ID: w.store.NewDecisionID(), Tool: "update", Run: "run", Fired: true, Epoch: f.Epoch, Data: []byte(`{}`),
		Rows: []memory.Cited{f.Heads[0].Cite()}, Unvouched: []memory.ID{id}, Writes: []memory.OwnWrite{{Subject: "acme", Predicate: row.Content.Predicate, Value: "oslo"}}}); err != nil {
		t.Fatal(err)
	}
	crm := verifiertest.New("crm", verifiertest.Supports())
	w.want(id, memory.StateUnverified, w.check(w.worker(nil, source(crm)), id), promotion.Kept)
	kept := w.row(id).Evidence
	if len(kept) == 0 {
		t.Error("what it said is not kept")
	}
	for _, e := range kept {
		if e.Relation == memory.RelationSupports {
			t.Errorf("%s supports the row", e.Source)
		}
	}
}
