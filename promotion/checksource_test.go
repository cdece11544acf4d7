package promotion_test

import (
	"context"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// ask is a check of one source in the round that the mark of the row says.
func (w *world) ask(worker *promotion.Worker, id memory.ID, source string) promotion.Result {
	w.t.Helper()
	return w.askIn(worker, id, source, w.mark(id).Generation)
}

func (w *world) askIn(worker *promotion.Worker, id memory.ID, source string, generation uint64) promotion.Result {
	w.t.Helper()
	r, err := worker.CheckSource(w.ctx, id, source, generation)
	if err != nil || r.ID != id {
		w.t.Fatalf("CheckSource: %+v, %v", r, err)
	}
	return r
}

// TestACheckOfOneSource decides as a check of all does, and asks no other source.
func TestACheckOfOneSource(t *testing.T) {
	for name, c := range map[string]struct {
		step   verifiertest.Step
		status promotion.Status
		state  memory.State
	}{
		"it agrees":       {verifiertest.Supports(), promotion.Promoted, memory.StateVerified},
		"it refutes":      {verifiertest.Refutes("Rome"), promotion.Demoted, memory.StateUnverified},
		"it does not say": {verifiertest.Unclear(), promotion.Unclear, memory.StateUnverified},
		"it is down":      {verifiertest.Down(time.Minute), promotion.Down, memory.StateUnverified},
		"it is misused":   {verifiertest.Misconfigured(), promotion.Misconfigured, memory.StateUnverified},
	} {
		w := newWorld(t)
		id := w.claim("acme", "Oslo", nil)
		crm, other := verifiertest.New("crm", c.step), verifiertest.New("other", verifiertest.Supports())
		worker := w.worker(nil, source(crm), source(other))
		round := w.mark(id).Generation
		w.want(id, c.state, w.ask(worker, id, "crm"), c.status)
		if crm.Calls() != 1 || other.Calls() != 0 {
			t.Errorf("%s: asked %d and %d times", name, crm.Calls(), other.Calls())
		}
		// The same task comes once more, in the same round, and then in the round that the mark has now.
		for _, generation := range []uint64{round, w.mark(id).Generation} {
			w.want(id, c.state, w.askIn(worker, id, "crm", generation), promotion.NotDue)
		}
		if crm.Calls() != 1 {
			t.Errorf("%s: asked again", name)
		}
	}
}

// TestAQuestionThatFailsSetsTheRowAside for that source alone, ever longer, until it answers.
func TestAQuestionThatFailsSetsTheRowAside(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm, other := verifiertest.New("crm", verifiertest.Down(0)), verifiertest.New("other", verifiertest.Unclear())
	options := &promotion.Options{Budget: -1, VerdictLifetime: 24 * time.Hour}
	round := w.mark(id)
	for i, seconds := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 3600, 3600} {
		worker := w.worker(options, source(crm), source(other)) // any worker knows
		w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.Down)
		w.pass(seconds*time.Second - time.Millisecond)
		w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.NotDue)
		if crm.Calls() != i+1 {
			t.Fatalf("%d questions after %d failures", crm.Calls(), i+1)
		}
		w.pass(time.Millisecond)
	}
	if now := w.mark(id); now.Generation != round.Generation || now.At != round.At || now.Tries != 0 {
		t.Errorf("an outage moved the mark: %+v, and then %+v", round, now)
	}
	worker := w.worker(options, source(crm), source(other))
	w.want(id, memory.StateUnverified, w.ask(worker, id, "other"), promotion.Unclear)
	crm.Set(verifiertest.Unclear())
	w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.Unclear)
	// All have answered: the next round is a day later.
	if now := w.mark(id); now.Generation == round.Generation || now.Tries != 1 || now.At != w.clock().Add(24*time.Hour) {
		t.Fatalf("%+v", now)
	}
	w.pass(24 * time.Hour)
	crm.Set(verifiertest.Down(0))
	w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.Down)
	if m := w.mark(id); m.Of("crm") != (memory.SourceMark{Source: "crm", Until: w.clock().Add(time.Second), Failures: 1}) {
		t.Errorf("an answer did not end the failures: %+v", m.Of("crm"))
	}
}

// TestWhatIsRefusedIsNoQuestion: nothing is set aside, and the mark stays as it is.
func TestWhatIsRefusedIsNoQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		options *promotion.Options
	}{
		"an open breaker":   {verifier.ErrOpen, nil},
		"a full bulkhead":   {verifier.ErrBusy, nil},
		"a budget is spent": {nil, &promotion.Options{Budget: 1}},
	} {
		w := newWorld(t)
		first, id := w.claim("first", "Oslo", nil), w.claim("acme", "Oslo", nil)
		crm := verifiertest.New("crm", verifiertest.Unclear())
		if c.err != nil {
			crm.Set(verifiertest.Fails(c.err))
		}
		worker := w.worker(c.options, source(crm))
		if c.err == nil {
			w.ask(worker, first, "crm")
		}
		before := w.mark(id)
		if r := w.ask(worker, id, "crm"); r.Status != promotion.Down && r.Status != promotion.Deferred || r.RetryAt.IsZero() {
			t.Errorf("%s: %+v", name, r)
		}
		if now := w.mark(id); now.Generation != before.Generation || len(now.Sources) > 0 {
			t.Errorf("%s: %+v", name, now)
		}
	}
}

// TestACheckOfASourceThatDoesNotCoverTheRow leaves the row alone.
func TestACheckOfASourceThatDoesNotCoverTheRow(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	crm := verifiertest.New("crm", verifiertest.Supports())
	s := source(crm)
	s.Covers = func(c memory.Content) bool { return c.Predicate == "price" }
	worker, before := w.worker(nil, s), w.mark(id)
	w.want(id, memory.StateUnverified, w.ask(worker, id, "crm"), promotion.NotDue)
	if now := w.mark(id); crm.Calls() != 0 || now.At != before.At || now.Generation != before.Generation {
		t.Errorf("asked %d times, %+v", crm.Calls(), now)
	}
	if _, err := worker.CheckSource(w.ctx, id, "erp", before.Generation); err == nil {
		t.Error("a source that the worker has not is no error")
	}
}

// TestTheLastAnswerEndsTheRound, also if two sources answer at the same time.
func TestTheLastAnswerEndsTheRound(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", nil)
	both := make(chan struct{})
	meet := func(verdict verifiertest.Step) verifiertest.Step {
		return func(ctx context.Context, s *verifiertest.Scripted, row memory.Row) (verifier.Verdict, error) {
			select {
			case both <- struct{}{}:
			case <-both:
			}
			return verdict(ctx, s, row)
		}
	}
	a, b := verifiertest.New("a", meet(verifiertest.Unclear())), verifiertest.New("b", meet(verifiertest.Unclear()))
	worker, round := w.worker(nil, source(a), source(b)), w.mark(id)
	ended := make(chan promotion.Result)
	for _, name := range []string{"a", "b"} {
		go func() { ended <- w.askIn(worker, id, name, round.Generation) }()
	}
	for range 2 {
		if r := <-ended; r.Status != promotion.Unclear {
			t.Errorf("%+v", r)
		}
	}
	if now := w.mark(id); now.Tries != 1 || now.Generation == round.Generation || now.At != w.clock().Add(promotion.DefaultVerdictLifetime) {
		t.Errorf("%+v", now)
	}
}

// TestWhatIsObservedIsSeenBeforeTheQuestion: nobody is asked then.
func TestWhatIsObservedIsSeenBeforeTheQuestion(t *testing.T) {
	w := newWorld(t)
	id := w.claim("acme", "Oslo", func(d *memory.Draft) { d.Content.Cardinality = memory.CardinalitySetValued })
	w.seen("crm", "Oslo", nil)
	w.seen("erp", "Oslo", nil)
	wiki := verifiertest.New("wiki", verifiertest.Unclear())
	worker := w.worker(nil, promotion.Observed(w.store, "city"), source(wiki))
	w.want(id, memory.StateVerified, w.ask(worker, id, "wiki"), promotion.Promoted)
	if wiki.Calls() != 0 {
		t.Errorf("%d questions", wiki.Calls())
	}
}
