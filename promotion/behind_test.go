package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// spends has a budget left for some sources, and cannot count others.
type spends struct {
	left      map[string]time.Duration // until a source has some again
	uncounted map[string]bool
}

func (s spends) Spend(_ context.Context, source string, _ int, _ time.Duration) (time.Duration, error) {
	if s.uncounted[source] {
		return 0, errors.New("not reached")
	}
	return s.left[source], nil
}

// A row waits behind a source that would refuse any row now, and behind none if only
// its own question failed.
func TestAResultNamesTheSourceThatRefused(t *testing.T) {
	refuses := func(err error, wait time.Duration) verifiertest.Step {
		return verifiertest.Fails(&verifier.UnavailableError{Verifier: "x", RetryAfter: wait, Err: err})
	}
	for _, c := range []struct {
		name   string
		spends spends
		first  verifiertest.Step // of rank primary source: it is asked first
		second verifiertest.Step
		status promotion.Status
		behind string
		alone  bool
	}{
		{"an open breaker", spends{}, refuses(verifier.ErrOpen, time.Minute), nil, promotion.Down, "first", true},
		{"a budget that is spent", spends{left: map[string]time.Duration{"first": time.Minute}}, verifiertest.Supports(), nil, promotion.Deferred, "first", false},
		{"a question that failed is the row's own", spends{}, verifiertest.Down(0), nil, promotion.Down, "", false},
		{"one that failed, and asks to be left alone, says so for all rows", spends{}, verifiertest.Down(time.Minute), nil, promotion.Down, "first", true},
		{"a bulkhead that is full refuses for one question's time", spends{}, refuses(verifier.ErrBusy, time.Minute), nil, promotion.Down, "", false},
		{"a budget that cannot be counted", spends{uncounted: map[string]bool{"first": true}}, verifiertest.Supports(), nil, promotion.Deferred, "", false},
		{"two that refuse, whoever may be asked first", spends{}, refuses(verifier.ErrOpen, time.Hour), refuses(verifier.ErrOpen, time.Minute), promotion.Down, "first|second", true},
		{"a budget and a breaker", spends{left: map[string]time.Duration{"first": time.Minute}}, verifiertest.Supports(), refuses(verifier.ErrOpen, time.Hour), promotion.Down, "first|second", true},
		{"one that failed may be asked again before the one that refused", spends{}, refuses(verifier.ErrOpen, time.Hour), verifiertest.Down(0), promotion.Down, "", false},
		{"one that asks to be left alone for longer than the one that refused", spends{}, refuses(verifier.ErrOpen, time.Minute), verifiertest.Down(time.Hour), promotion.Down, "first|second", true},
		{"a budget that cannot be counted beside one that refused", spends{uncounted: map[string]bool{"first": true}}, verifiertest.Supports(), refuses(verifier.ErrOpen, time.Hour), promotion.Down, "", false},
		{"one that answered nothing, beside one that refused", spends{}, refuses(verifier.ErrOpen, time.Minute), verifiertest.Unclear(), promotion.Down, "first", true},
		{"one that decided, beside one that refused", spends{}, refuses(verifier.ErrOpen, time.Minute), verifiertest.Supports(), promotion.Promoted, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			sources := []promotion.Source{{Name: "first", Verifier: ranked("first", memory.RankPrimarySource, c.first), Rank: memory.RankPrimarySource}}
			if c.second != nil {
				sources = append(sources, promotion.Source{Name: "second", Verifier: ranked("second", memory.RankTool, c.second), Rank: memory.RankTool})
			}
			worker := w.worker(&promotion.Options{Spending: c.spends}, sources...)
			r := w.check(worker, w.claim("acme", "Bonn", nil))
			if r.Status != c.status || strings.Join(r.Behind, "|") != c.behind || r.Alone != c.alone {
				t.Errorf("%s behind %q, alone %t, want %s behind %q, alone %t", r.Status, r.Behind, r.Alone, c.status, c.behind, c.alone)
			}
			if r.RetryAt.IsZero() != (c.status == promotion.Promoted) {
				t.Errorf("back at %s", r.RetryAt)
			}
		})
	}
}

// A budget that workers do not share is one worker's own, as its breaker is.
func TestARefusalForABudgetOfItsOwnIsOfTheWorkerAlone(t *testing.T) {
	w := newWorld(t)
	worker := w.worker(&promotion.Options{Budget: 1, Tick: time.Hour}, promotion.Source{Name: "crm", Verifier: verifiertest.New("crm", verifiertest.Unclear())})
	w.check(worker, w.claim("acme", "Bonn", nil))
	if r := w.check(worker, w.claim("initech", "Rome", nil)); r.Status != promotion.Deferred || !slices.Equal(r.Behind, []string{"crm"}) || !r.Alone {
		t.Errorf("%+v", r)
	}
}

// A row yields if a question about it fails again although others were answered meanwhile,
// each time for longer; and if a source asks for a long rest because of it.
func TestARowYieldsIfItsQuestionsFailAndThoseOfOthersDoNot(t *testing.T) {
	refuses := func(err error) verifiertest.Step {
		return verifiertest.Fails(&verifier.UnavailableError{Verifier: "x", RetryAfter: time.Minute, Err: err})
	}
	w := newWorld(t)
	v := verifiertest.New("crm", verifiertest.Down(0))
	worker := w.worker(&promotion.Options{Budget: -1}, promotion.Source{Name: "crm", Verifier: v, Rank: memory.RankTool})
	row, other := w.claim("acme", "Bonn", nil), w.claim("initech", "Rome", nil)
	down, answers := verifiertest.Down(0), verifiertest.Unclear()
	for i, c := range []struct {
		name string
		id   memory.ID
		says verifiertest.Step
		want time.Duration
	}{
		{"it fails", row, down, 0},
		{"it fails again, as all may", row, down, 0},
		{"another fails", other, down, 0},
		{"it fails again", row, down, 0},
		{"another is answered", other, answers, 0},
		{"the breaker is open", row, refuses(verifier.ErrOpen), 0},
		{"all places are taken", row, refuses(verifier.ErrBusy), 0},
		{"it fails though another was answered", row, down, 30 * time.Second},
		{"it fails again, and nobody was answered since", row, down, 30 * time.Second},
		{"another is answered", other, answers, 0},
		{"it fails again", row, down, time.Minute},
		{"it is answered", row, answers, 0},
		{"it fails after it was answered", row, down, 0},
		{"the source limits its rate", row, verifiertest.Down(29 * time.Second), 0},
		{"the source asks for an hour's rest", other, verifiertest.Down(time.Hour), time.Hour},
	} {
		v.Set(c.says)
		if r := w.check(worker, c.id); r.Yield != c.want {
			t.Errorf("%d: %s: for %s, want %s", i, c.name, r.Yield, c.want)
		}
		w.pass(24 * time.Hour) // no answer stands
	}
	var last time.Duration
	for i := range 12 {
		v.Set(answers)
		w.check(worker, w.claim(fmt.Sprint("umbrella", i), "Oslo", nil))
		v.Set(down)
		last = w.check(worker, row).Yield
		w.pass(24 * time.Hour)
	}
	if last != time.Hour {
		t.Errorf("for %s in the end, want an hour", last)
	}
}

// purse counts what is taken from a budget.
type purse struct{ spent int }

func (p *purse) Spend(context.Context, string, int, time.Duration) (time.Duration, error) {
	p.spent++
	return 0, nil
}

func TestABudgetIsSpentWhenTheQuestionIsAsked(t *testing.T) {
	guarded := func(s verifiertest.Step) verifier.Verifier {
		return verifier.WithBreaker("crm", verifiertest.New("crm", s), &verifier.BreakerOptions{Failures: 1})
	}
	for _, c := range []struct {
		name string
		v    verifier.Verifier
		want int // after two checks
	}{
		{"a breaker that opens", guarded(verifiertest.Down(0)), 1},
		{"a breaker that stays closed", guarded(verifiertest.Unclear()), 2},
		{"a verifier without one", verifiertest.New("crm", verifiertest.Down(0)), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, p := newWorld(t), &purse{}
			worker := w.worker(&promotion.Options{Spending: p}, promotion.Source{Name: "crm", Verifier: c.v, Rank: memory.RankTool})
			w.check(worker, w.claim("acme", "Bonn", nil))
			w.check(worker, w.claim("initech", "Rome", nil))
			if p.spent != c.want {
				t.Errorf("%d, want %d", p.spent, c.want)
			}
		})
	}
}
