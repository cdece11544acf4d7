package rlab

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// The load of S11, simulated. It runs 60 times faster than that. The small one has a fifth of
// the claims, reads and questions of the full one.
const (
	hotLasts = time.Hour
	hotSpeed = 60
	hotLoop  = 808 // times that the loop says its claim
	hotNone  = 10  // the system of record knows nothing of one claim in so many
	hotShare = 100 // one claim in so many is hot
	hotZipf  = 1.1
)

func hotClaims(s Scale) int { return s.of(2_000, 10_000) }
func hotReads(s Scale) int  { return s.of(200, 1_000) } // a minute
func hotBudget(s Scale) int { return s.of(12, 60) }     // questions a minute

const (
	promotedP50 = "promoted_p50_s"   // from the first read of a hot claim until a read finds that an agent may act on it
	promotedP99 = "promoted_p99_s"   // the same
	questions   = "questions"        // to the system of record, for each claim that was read once an agent could act on it
	loopAsked   = "loop_asked"       // questions about the claim of the loop
	readsEarly  = "reads_unverified" // reads of a claim on which nobody may act yet
	hotMissed   = "hot_missed"       // hot claims that no read finds so
	readsMissed = "reads_missed"     // reads that are not made, since those before took the time
)

var s11 = Scenario{
	ID: "S11", Title: "more claims than can be checked",
	Feed: "An agent has written claims. The system of record may be asked about a few of them a minute, and knows nothing of one in ten. For an hour agents read them, a few very often and most hardly ever. Beside that an agent reads a false claim of its own and says it again, 807 times. It runs 60 times faster than that, as S6 does.",
	measures: []measure{{name: promotedP50, title: "promoted p50", unit: "s", target: 60}, {name: promotedP99, title: "p99", unit: "s", target: 360},
		{name: questions, title: "questions", unit: "questions per claim of use", target: 1.6}, {name: loopAsked, title: "about the loop", unit: "questions", target: 1},
		{name: readsEarly, title: "read too early", unit: "reads", rate: true, none: true}, measuredUnsafe, measuredTried, measuredMerged,
		{name: readsMissed, title: "not read in time", unit: "reads", rate: true, none: true, benign: true},
		{name: hotMissed, title: "hot, missed", unit: "claims", rate: true, benign: true}, measuredHeldFalse, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		return hotClaims(s) + hotLoop + int(hotLasts/time.Minute)*hotReads(s) + 1
	},
	play: playBudget,
}

// popular is a claim that agents read, and what they found.
type popular struct {
	fact
	unknown         bool      // the system of record knows nothing of it
	first, promoted time.Time // when it was read first, and first found so that an agent could act on it
}

func playBudget(ctx context.Context, p *play) error {
	p.budget, p.speed = hotBudget(p.scale), hotSpeed
	if err := p.renew(ctx); err != nil {
		return err
	}
	all := make([]popular, hotClaims(p.scale))
	for i, drawn := range p.rng.Perm(len(all)) {
		t := p.slot(i)
		if all[i].unknown = drawn%hotNone == 0; !all[i].unknown {
			p.record.set(t)
		}
		all[i].fact = fact{p.apart(claim{label: label{!all[i].unknown, 1}, query: t.query(), value: t.Object}), t}
		if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Agent, "note-taker"}, all[i].claim, t.String()); err != nil {
			return err
		}
	}
	truth := p.slot(0)
	p.record.set(truth)
	lie := fact{triple: truth}
	lie.triple.Object = p.object()
	lie.claim = p.apart(claim{label: label{origins: 1}, query: truth.query(), value: lie.triple.Object})
	if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Agent, "note-taker"}, lie.claim, lie.triple.String()); err != nil {
		return err
	}
	// How often a claim is read has nothing to do with when it was written.
	order := p.rng.Perm(len(all))
	if err := p.readAll(ctx, all, order, lie); err != nil {
		return err
	}
	p.promotions(all, order)
	p.value(loopAsked, float64(p.record.askedAbout(truth)))
	defer p.timeGate()
	return p.actOnFalse(ctx, lie.claim)
}

// readAll reads claims for an hour, in the rhythm of the load, while the loop goes on.
func (p *play) readAll(ctx context.Context, all []popular, order []int, lie fact) error {
	zipf := rand.NewZipf(p.rng, hotZipf, 1, uint64(len(all)-1))
	n := int(hotLasts/time.Minute) * hotReads(p.scale)
	began, echoes := p.clock.Now(), 1
	for i := range n {
		p.step()
		now := p.clock.Now().Sub(began)
		late := now >= hotLasts // a system that cannot keep up is read less often
		if p.rate(readsMissed).Add(late); late {
			continue
		}
		if early := hotLasts*time.Duration(i)/time.Duration(n) - now; early > 0 {
			if err := p.wait(ctx, early); err != nil {
				return err
			}
		}
		if err := p.meet(ctx, &all[order[zipf.Uint64()]]); err != nil {
			return err
		}
		for ; echoes < hotLoop && echoes*n <= (i+1)*hotLoop; echoes++ {
			if _, err := p.echo(ctx, p.session("looper", "ana"), lie.claim, lie.triple.String()); err != nil {
				return err
			}
		}
	}
	for ; echoes < hotLoop; echoes++ {
		if _, err := p.echo(ctx, p.session("looper", "ana"), lie.claim, lie.triple.String()); err != nil {
			return fmt.Errorf("the last echoes: %w", err)
		}
	}
	return nil
}

// meet reads a claim.
func (p *play) meet(ctx context.Context, c *popular) error {
	asked := p.clock.Now()
	r, err := p.read(ctx, p.session("assistant", "ana"), c.claim)
	if err != nil {
		return err
	}
	now, trusted := p.clock.Now(), false
	for _, m := range r.shown {
		trusted = trusted || p.trusts(m, c.claim)
	}
	p.rate(readsEarly).Add(!trusted)
	if c.first.IsZero() {
		c.first = asked
	}
	if trusted && c.promoted.IsZero() {
		c.promoted = now
	}
	return nil
}

// promotions measures how soon the hot claims could be acted on, and what that took. order has
// the claims that are read most first.
func (p *play) promotions(all []popular, order []int) {
	var took []time.Duration
	for _, at := range order[:len(all)/hotShare] {
		c := &all[at]
		if c.unknown || c.first.IsZero() {
			continue
		}
		p.rate(hotMissed).Add(c.promoted.IsZero())
		if c.promoted.IsZero() {
			took = append(took, hotLasts)
			continue
		}
		took = append(took, c.promoted.Sub(c.first))
	}
	for name, q := range map[string]float64{promotedP50: 0.5, promotedP99: 0.99} {
		p.values[name] = append(p.values[name], Value{V: quantile(took, q) / 1000, N: len(took)})
	}
	useful := 0
	for i := range all {
		if !all[i].promoted.IsZero() {
			useful++
		}
	}
	p.values[questions] = append(p.values[questions], Value{V: float64(p.record.questions()) / float64(max(useful, 1)), N: useful})
}
