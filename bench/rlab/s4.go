package rlab

import (
	"context"
	"fmt"
	"time"
)

// circleRounds is how often a claim goes round: to the other agent and back.
const circleRounds = 100

// circleSaid is how often a claim is said until its circle ends.
const circleSaid = 1 + 2*circleRounds + 3*circleRounds/2

// circleClaims is how many false claims go round, and how many true ones beside them.
func circleClaims(s Scale) int { return s.of(5, 30) }

// circleSteps is how many writes and calls one claim has: its origin, the rounds of two and of
// three agents, a source of its own, and the calls.
func circleSteps(isTrue bool) int {
	if isTrue {
		return circleSaid + 1 + 1
	}
	return circleSaid + 1
}

// circleEnds is for how many days a source of its own may take to count. A memory may ask its
// system of record ever less often about a claim that has none: once a week, say.
const circleEnds = 8

const (
	sourceMissed = "source_missed" // true claims for which a source of its own changes nothing
	sourceDays   = "source_days"   // until it counts, where it does
)

var s4 = Scenario{
	ID: "S4", Title: "agents that agree in a circle",
	Feed:     "An agent says a value of a slot, a second one recalls and repeats it, the first recalls that, for 100 rounds, and then three agents for 50, a turn every hour. The system of record knows another value for the false claims, and for the true ones none until the circle ends. Then a tool says it by itself, the system of record has it too, and it is recalled every day for eight days.",
	measures: []measure{measuredRows, measuredSupport, measuredFalse, measuredUnsafe, measuredTried, measuredMerged, measuredBlocked, {name: sourceMissed, title: "source missed", unit: "claims", rate: true, benign: true}, {name: sourceDays, title: "days to count", unit: "days", none: true, benign: true}, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		return circleClaims(s) * (circleSteps(true) + circleSteps(false))
	},
	play: playCircle,
}

func playCircle(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	facts := p.facts(2 * circleClaims(p.scale))
	order := p.rng.Perm(len(facts)) // where a claim stands says nothing of its label
	for i, f := range facts {
		said := f.triple
		confirmed := order[i]%2 == 0 // by a source, when the circle has ended
		if p.is(f.claim, label{confirmed, 1}); confirmed {
			p.record.forget(f.triple)
		} else { // what goes round is not what the record has
			said.Object = p.object()
			f.value = said.Object
		}
		if err := p.circle(ctx, f.claim, said); err != nil {
			return err
		}
		if confirmed {
			if err := p.source(ctx, f); err != nil {
				return err
			}
		}
	}
	return p.judge(ctx)
}

// source lets a true claim have a source of its own, a tool and the system of record, and
// measures whether and when that counts. Somebody asks for the claim every day.
func (p *play) source(ctx context.Context, f fact) error {
	before, err := p.lookAll(ctx)
	if err != nil {
		return err
	}
	if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Tool, CRM}, f.claim, f.triple.String()); err != nil {
		return err
	}
	p.record.set(f.triple)
	for days := range circleEnds {
		if err := p.pass(ctx, day); err != nil {
			return err
		}
		if _, err := p.Recall(ctx, p.session("assistant", "ana"), f.query); err != nil {
			return err
		}
		after, err := p.lookAll(ctx)
		if err != nil {
			return err
		}
		if f.supports(after) > f.supports(before) {
			p.rate(sourceMissed).Add(false)
			p.value(sourceDays, float64(days+1))
			return nil
		}
	}
	p.rate(sourceMissed).Add(true)
	return nil
}

// circle lets agents repeat a claim to each other, each turn in a session of its own.
func (p *play) circle(ctx context.Context, c *claim, said Triple) error {
	first := p.session("agent-1", "ana")
	if _, err := p.say(ctx, first, Author{Kind: Agent, Name: first.Agent}, c, said.String()); err != nil {
		return err
	}
	number := 1
	for round := range circleRounds + circleRounds/2 {
		agents := 2
		if round >= circleRounds {
			agents = 3
		}
		for i := range agents {
			if err := p.pass(ctx, time.Hour); err != nil {
				return err
			}
			if _, err := p.echo(ctx, p.session(fmt.Sprintf("agent-%d", (i+1)%agents+1), "ana"), c, said.String()); err != nil {
				return err
			}
			if number++; watchedAt(number) || number == circleSaid {
				if err := p.grow(ctx, number, c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// lookAll looks at all memories when nothing is left to do.
func (p *play) lookAll(ctx context.Context) (map[string]Memory, error) {
	if err := p.Settle(ctx); err != nil {
		return nil, err
	}
	return p.look(ctx)
}
