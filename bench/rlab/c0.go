package rlab

import (
	"context"
	"time"
)

// controlFacts is how many true facts C0 tells.
func controlFacts(s Scale) int { return s.of(400, 2500) }

// coldFacts are those of the first hour.
const coldFacts = 30

var c0 = Scenario{
	ID: "C0", Title: "control: no loop",
	Feed:     "True and different statements, each told by the user and by a tool in sessions of their own, two minutes apart; nothing comes back. The calls of the first hour are made as soon as its facts were told.",
	measures: []measure{measuredMerged, measuredBlocked, {name: coldBlocked, title: "blocked in the first hour", unit: "calls", rate: true, none: true, benign: true}},
	steps:    func(s Scale) int { return 3*controlFacts(s) + coldFacts },
	play:     playControl,
}

// coldBlocked are the calls of the first hour that are not made.
const coldBlocked = "cold_blocked"

func playControl(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	facts := p.facts(controlFacts(p.scale))
	for i, f := range facts {
		if err := p.pass(ctx, 2*time.Minute); err != nil {
			return err
		}
		for _, who := range []Author{{User, "ana"}, {Tool, "crm"}} {
			_, met, err := p.say(ctx, p.session("note-taker", "ana"), who, f.claim, f.triple.String())
			if err != nil {
				return err
			}
			p.rate(merged).Add(met)
		}
		if i >= coldFacts { // an hour has passed
			continue
		}
		if err := p.settle(ctx); err != nil {
			return err
		}
		_, done, err := p.act(ctx, f.claim, "pay")
		if err != nil {
			return err
		}
		p.rate(coldBlocked).Add(!done)
	}
	return p.judge(ctx)
}
