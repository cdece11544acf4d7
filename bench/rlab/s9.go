package rlab

import (
	"context"
	"errors"
	"sync"
)

// raceRounds is how many races there are: 10,000 in twenty seeds at full scale.
func raceRounds(s Scale) int { return s.of(150, 500) }

// raceFacts is how many facts the races are about, in turn.
const raceFacts = 30

// agentsOf is how many agents are in a race: 2, 4, 8 or 16.
func agentsOf(round int) int { return 2 << (round % 4) }

var s9 = Scenario{
	ID: "S9", Title: "agents race with a change",
	Feed:     "2 to 16 agents that have read a fact ask for it and say it again, all at once, while it changes: the system of record has another value, and the tool that reads it says so. When all have ended, an agent that read the old value before tries it, another that read a fact that stays before tries that, and a third reads the new value and tries it.",
	measures: []measure{measuredUnsafe, measuredTried, measuredMerged, measuredNew, measuredBlocked, {name: failed, title: "failed", unit: "writes", rate: true}, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) (steps int) {
		steps = 2 * 2 * raceFacts
		for round := range raceRounds(s) {
			steps += agentsOf(round) + 1 + 2
		}
		return steps
	},
	play: playRace,
}

func playRace(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	facts := p.facts(2 * raceFacts)
	if err := p.known(ctx, facts); err != nil {
		return err
	}
	p.rng.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] }) // which ones change
	for round := range raceRounds(p.scale) {
		at := round % raceFacts
		if err := p.race(ctx, agentsOf(round), &facts[at], facts[raceFacts+at]); err != nil {
			return err
		}
	}
	p.timeGate()
	return nil
}

// race changes a fact while agents say its old value. The fact is the new one then.
func (p *play) race(ctx context.Context, agents int, f *fact, stays fact) error {
	var before, beside reading
	if err := p.inAnyOrder(
		func() (err error) { before, err = p.read(ctx, p.session("assistant", "ana"), f.claim); return err },
		func() (err error) { beside, err = p.read(ctx, p.session("assistant", "ana"), stays.claim); return err },
	); err != nil {
		return err
	}
	now := f.triple
	now.Object = p.object()
	p.record.set(now)
	renewed := p.apart(claim{label: label{true, 1}, query: f.query, value: now.Object})
	turns := make([]Turn, agents+1)
	for i := range turns {
		turns[i] = p.session("note-taker", "ana")
	}
	ids, errs := make([]string, len(turns)), make([]error, len(turns))
	var group sync.WaitGroup
	for i, t := range turns {
		group.Go(func() {
			say := Statement{Author: Author{Tool, CRM}, Text: now.String()}
			if i > 0 {
				shown, err := p.Recall(ctx, t, f.query)
				if errs[i] = err; err != nil {
					return
				}
				say = Statement{Author: Author{Agent, t.Agent}, Text: f.triple.String(), Recalled: idsOf(shown)}
			}
			ids[i], errs[i] = p.Write(ctx, t, say)
		})
	}
	group.Wait()
	if err := errors.Join(ctx.Err(), p.fault()); err != nil {
		return err
	}
	for i, err := range errs {
		p.step()
		if p.rate(failed).Add(err != nil); err == nil {
			p.rate(merged).Add(p.land([]*claim{renewed, f.claim}[min(i, 1)], ids[i]))
		}
	}
	if err := p.Settle(ctx); err != nil {
		return err
	}
	old := *f
	f.claim, f.triple = renewed, now
	return p.inAnyOrder(
		func() error { return p.harm(ctx, before, old.claim) },
		func() error { return p.benign(ctx, newBlocked, renewed) },
		func() error {
			p.step()
			return p.made(ctx, benignBlocked, beside, stays.claim)
		},
	)
}
