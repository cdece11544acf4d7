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

// spends has a budget left for some sources.
type spends struct {
	left map[string]time.Duration // until a source has some again
}

func (s spends) Spend(_ context.Context, source string, _ int, _ time.Duration) (time.Duration, error) {
	return s.left[source], nil
}
