package promotion_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

func TestSourcesThatDisagreeVerifyNothing(t *testing.T) { // SR-7.14
	for _, c := range []struct {
		name            string
		refutes, agrees memory.Rank
		state           memory.State
	}{
		{"two tools", memory.RankTool, memory.RankTool, memory.StateUnverified},
		{"two primary sources", memory.RankPrimarySource, memory.RankPrimarySource, memory.StateUnverified},
		{"a primary source and a tool that agrees", memory.RankPrimarySource, memory.RankTool, memory.StateUnverified},
		{"a tool and a primary source that agrees", memory.RankTool, memory.RankPrimarySource, memory.StateVerified},
		{"a model and a tool that agrees", memory.RankSecondModel, memory.RankTool, memory.StateVerified},
	} {
		for _, first := range []string{"no", "yes"} {
			t.Run(c.name+", first "+first, func(t *testing.T) {
				w := newWorld(t)
				id := w.claim("acme", "Oslo", nil)
				no, yes := ranked("no", c.refutes, verifiertest.Refutes("Rome")), ranked("yes", c.agrees, verifiertest.Supports())
				one, two := source(no), source(yes)
				if first == "yes" {
					one, two = two, one
				}
				// Each is asked by a worker of its own, so that both are heard.
				for _, s := range []promotion.Source{one, two} {
					w.check(w.worker(nil, s), id)
					w.pass(40 * 24 * time.Hour)
				}
				row := w.row(id)
				state := c.state
				if first == "yes" && c.refutes == c.agrees {
					// What was verified stays so, contested: a permit of an irreversible tool is held.
					state = memory.StateVerified
					if !row.Has(memory.FlagContested) {
						t.Error("the contradiction does not show")
					}
				}
				if row.State() != state {
					t.Errorf("%s, want %s", row.State(), state)
				}
				said := map[memory.Relation]bool{}
				for _, e := range row.Evidence {
					said[e.Relation] = true
				}
				if !said[memory.RelationContradicts] || !said[memory.RelationSupports] {
					t.Errorf("both words are recorded: %+v", row.Evidence)
				}
			})
		}
	}
	t.Run("a source that takes its contradiction back disputes nothing", func(t *testing.T) {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		a := verifiertest.New("a", verifiertest.Refutes("Rome"), verifiertest.Supports())
		worker := w.worker(nil, source(a))
		w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Demoted)
		w.pass(time.Hour)
		w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
	})
}

func TestASourceThatAnsweredIsNotAskedAgainWhileAnotherIsDown(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
	crm, model := verifiertest.New("crm", verifiertest.Down(time.Second)), ranked("model", memory.RankSecondModel, verifiertest.Supports())
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(crm), source(model))
	for range 5 {
		worker = w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(crm), source(model)) // any worker knows
		r := w.check(worker, id)
		w.want(id, memory.StateUnverified, r, promotion.Down) // somebody answered: the outage of the write is over
		if r.RetryAt.IsZero() || w.mark(id).At.After(w.clock()) {
			t.Fatalf("the check does not come back: %+v, %+v", r, w.mark(id))
		}
		w.pass(20 * time.Second) // until the row is set aside no more
	}
	if crm.Calls() != 5 || model.Calls() != 1 {
		t.Errorf("asked %d and %d times", crm.Calls(), model.Calls())
	}
	crm.Set(verifiertest.Supports())
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
	if model.Calls() != 1 {
		t.Errorf("the model was asked %d times", model.Calls())
	}
}

func TestADemotedRowIsCheckedAtOnceButNotByTheSourceThatJustSpoke(t *testing.T) { // SR-7.7
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm, other := verifiertest.New("crm", verifiertest.Refutes("Rome")), ranked("model", memory.RankSecondModel, verifiertest.Unclear())
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(crm), source(other))
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Demoted)
	if m := w.mark(id); m.At.After(w.clock()) || !strings.HasPrefix(m.Reason, "demoted") {
		t.Fatalf("a demoted row is due at once: %+v", m)
	}
	for range 10 {
		worker = w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(crm), source(other)) // any worker knows
		w.check(worker, id)
	}
	if crm.Calls() != 1 || other.Calls() != 1 {
		t.Errorf("asked %d and %d times", crm.Calls(), other.Calls())
	}
	w.pass(time.Hour)
	w.check(worker, id)
	if crm.Calls() != 2 {
		t.Errorf("asked %d times after the verdict ended", crm.Calls())
	}
}

func TestAnAnswerThatLostARaceIsAskedForAgain(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm := verifiertest.New("crm", func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
		if _, err := w.store.Apply(ctx, memory.Transition{Row: id, Revision: row.Revision, To: memory.SecuritySuspicious,
			Authority: memory.AuthoritySentinel, Actor: "sentinel", Source: "scan", Reason: "looks odd"}); err != nil {
			t.Error(err)
		}
		return verifiertest.Supports()(ctx, s, row)
	}, verifiertest.Supports())
	worker := w.worker(nil, source(crm))
	w.want(id, memory.StateUnverified, w.check(worker, id), promotion.Moved)
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
}

// A user contradicts while the sources are being asked: the row is due at once,
// and the end of the check does not put that off.
func TestACheckDoesNotPutOffWhatSomebodyElseMarked(t *testing.T) {
	w := newWorld(t)
	id := w.claim("ana", "Oslo", nil)
	crm := verifiertest.New("crm", func(ctx context.Context, _ *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
		w.pass(time.Second)
		_, err := w.store.Apply(ctx, memory.Transition{Row: id, Revision: row.Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser,
			Actor: "ana", Source: "user:ana", Reason: "I moved", Reject: true})
		return verifier.Verdict{Outcome: verifier.Unclear}, err
	})
	w.check(w.worker(nil, source(crm)), id)
	if m := w.mark(id); !m.At.Equal(w.clock()) || m.Tries != 0 {
		t.Errorf("%+v at %s", m, w.clock())
	}
}

func TestWhatAnOpenBreakerRefusesCostsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		crm := verifiertest.New("crm", verifiertest.Down(0))
		guard := verifier.WithBreaker("crm", crm, &verifier.BreakerOptions{Failures: 1, FirstOpen: 10 * time.Second, OpenFor: 10 * time.Second})
		worker := w.worker(&promotion.Options{Budget: 3, Tick: time.Hour}, promotion.Source{Name: "crm", Verifier: guard})
		var ids []memory.ID
		for i := range 50 {
			ids = append(ids, w.claim(fmt.Sprint("row", i), "Oslo", nil))
		}
		calls := 0
		for i, id := range ids {
			r := w.check(worker, id)
			calls += r.Calls
			if r.Status != promotion.Down || i > 0 && r.RetryAt.Before(time.Now().Add(9*time.Second)) {
				t.Fatalf("%+v", r)
			}
		}
		if calls != 1 || crm.Calls() != 1 {
			t.Errorf("%d calls, %d asked", calls, crm.Calls())
		}
		crm.Set(verifiertest.Supports())
		<-time.After(11 * time.Second)
		w.pass(11 * time.Second)
		w.want(ids[0], memory.StateVerified, w.check(worker, ids[0]), promotion.Promoted)
		w.want(ids[1], memory.StateVerified, w.check(worker, ids[1]), promotion.Promoted)
		w.want(ids[2], memory.StateUnverified, w.check(worker, ids[2]), promotion.Deferred)
	})
}

func TestAnOutageIsSaidOnceAndAWrongKeyIsAnAlarm(t *testing.T) { // SR-7.8
	for _, c := range []struct {
		name   string
		step   verifiertest.Step
		status promotion.Status
		line   string
	}{
		{"an outage is no error", verifiertest.Down(0), promotion.Down, "level=INFO msg=\"verifier is down\""},
		{"an error of no known class is an outage", verifiertest.Fails(errors.New("EOF")), promotion.Down, "level=INFO msg=\"verifier is down\""},
		{"a timeout that is not the caller's is an outage", verifiertest.Fails(context.DeadlineExceeded), promotion.Down, "level=INFO msg=\"verifier is down\""},
		{"places that are taken are no outage", verifiertest.Fails(verifier.ErrBusy), promotion.Down, "level=INFO msg=\"verifier is busy"},
		{"a wrong key is an error", verifiertest.Misconfigured(), promotion.Misconfigured, "level=ERROR msg=\"verifier cannot be used\""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var log bytes.Buffer
				worker := w.worker(&promotion.Options{Tick: time.Minute, Logger: slog.New(slog.NewTextHandler(&log, nil))}, source(verifiertest.New("crm", c.step)))
				for tick := 1; tick <= 3; tick++ {
					for i := range 20 {
						id := w.claim(fmt.Sprint("row", tick, "-", i), "Oslo", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
						w.want(id, memory.StateUnavailableAtWriteTime, w.check(worker, id), c.status)
					}
					if n := strings.Count(log.String(), c.line); n != tick || strings.Count(log.String(), "\n") != n {
						t.Fatalf("in %d ticks:\n%s", tick, &log)
					}
					<-time.After(time.Minute)
				}
			})
		})
	}
}

// TestAWrongKeyIsNoAnswer: the row is set aside, as after each question that fails.
func TestAWrongKeyIsNoAnswer(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.State = memory.StateUnavailableAtWriteTime })
	wrong, down := verifiertest.New("wrong", verifiertest.Misconfigured()), verifiertest.New("down", verifiertest.Down(0))
	worker := w.worker(&promotion.Options{VerdictLifetime: time.Hour}, source(wrong), source(down))
	for range 5 {
		w.want(id, memory.StateUnavailableAtWriteTime, w.check(worker, id), promotion.Down)
		w.pass(20 * time.Second) // until the row is set aside no more
	}
	if m := w.mark(id); wrong.Calls() != 5 || down.Calls() != 5 || m.Of("wrong").Failures != 5 || m.Tries != 0 {
		t.Errorf("%d and %d calls, %+v", wrong.Calls(), down.Calls(), m)
	}
	down.Set(verifiertest.Supports())
	w.want(id, memory.StateVerified, w.check(worker, id), promotion.Promoted)
}

func TestAReadThatWeighsNothingCountsNothing(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	q := &looks{}
	heater := promotion.NewHeater(w.store, q, nil)
	for _, weight := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64} {
		heater.ObserveReads(w.ctx, []memory.ID{id}, weight)
	}
	if err := heater.Flush(w.ctx); err != nil {
		t.Fatal(err)
	}
	if n := q.n.Load(); n != 0 || w.mark(id).Heat != 0 {
		t.Errorf("%d looks, heat %v", n, w.mark(id).Heat)
	}
}

// What a process wrote before it died is listed.
func TestI12ACrashBetweenTheWriteAndTheQueueLosesNothing(t *testing.T) {
	w := newWorld(t)
	written := w.claim("acme", "Oslo", nil)
	demoted := w.claim("bela", "Oslo", nil)
	w.check(w.worker(nil, source(verifiertest.New("crm", verifiertest.Refutes("Rome")))), demoted) // moved, and nobody told the queue
	listed := map[memory.ID]bool{}
	for mark, err := range w.store.DueNow(w.ctx) {
		if err != nil {
			t.Fatal(err)
		}
		listed[mark.ID] = true
	}
	if !listed[written] || !listed[demoted] || len(listed) != 2 {
		t.Errorf("%v", listed)
	}
}

// A row that nobody covers is read in a loop: it is brought back once in a while,
// and not with every read.
func TestReadsBringAParkedRowBackOnceInAWhile(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	nobody := w.worker(nil)
	q := &looks{}
	heater := promotion.NewHeater(w.store, q, nil)
	read := func() {
		t.Helper()
		heater.ObserveBlocked(w.ctx, []memory.ID{id})
		if err := heater.Flush(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.check(nobody, id)
	}
	w.want(id, memory.StateUnverified, w.check(nobody, id), promotion.Parked)
	for range 808 {
		read()
	}
	if n := q.n.Load(); n != 1 {
		t.Errorf("808 reads brought it back %d times", n)
	}
	w.pass(10 * time.Minute)
	read()
	if n := q.n.Load(); n != 2 {
		t.Errorf("brought back %d times", n)
	}
}
