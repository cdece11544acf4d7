package rlab

import (
	"context"
	"time"
)

// controlFacts is how many true facts C0 tells.
func controlFacts(s Scale) int { return s.of(400, 2500) }

// controlTold is how many statements of the data it tells beside them.
func controlTold(s Scale, d *Data) int {
	if d == nil {
		return 0
	}
	return min(len(d.told), s.of(400, len(d.told)))
}

// coldFacts are those of the first hour.
const coldFacts = 30

var c0 = Scenario{
	ID: "C0", sets: []string{"locomo"}, Title: "control: no loop",
	Feed: "True and different statements, each told by the user and by a tool in sessions of their own, two minutes apart; nothing comes back. The calls of the first hour are made as soon as its facts were told.",
	measures: []measure{measuredMerged, measuredBlocked, {name: coldBlocked, title: "blocked in the first hour", unit: "calls", rate: true, none: true, benign: true},
		{name: writeP50, title: "write p50", unit: milliseconds, none: true}, {name: writeP99, title: "write p99", unit: milliseconds, none: true}, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, d *Data) int { return 3*controlFacts(s) + coldFacts + controlTold(s, d) },
	play:  playControl,
}

const (
	coldBlocked = "cold_blocked" // calls of the first hour that are not made
	writeP50    = "write_p50_ms"
	writeP99    = "write_p99_ms"
)

func playControl(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	facts := p.facts(controlFacts(p.scale))
	var took []time.Duration
	for i, f := range facts {
		if err := p.pass(ctx, 2*time.Minute); err != nil {
			return err
		}
		for _, who := range []Author{{User, "ana"}, {Tool, CRM}} {
			began := time.Now()
			if _, err := p.say(ctx, p.session("note-taker", "ana"), who, f.claim, f.triple.String()); err != nil {
				return err
			}
			took = append(took, time.Since(began))
		}
		if i >= coldFacts { // an hour has passed
			continue
		}
		if err := p.Settle(ctx); err != nil {
			return err
		}
		_, done, err := p.act(ctx, f.claim, "pay")
		if err != nil {
			return err
		}
		p.rate(coldBlocked).Add(!done)
	}
	p.timed(writeP50, took, nil, 0.5)
	p.timed(writeP99, took, nil, 0.99)
	for i := range controlTold(p.scale, p.data) {
		if err := p.pass(ctx, 2*time.Minute); err != nil {
			return err
		}
		if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{User, "ana"}, p.apart(claim{}), p.data.told[i]); err != nil {
			return err
		}
	}
	return p.judge(ctx)
}
