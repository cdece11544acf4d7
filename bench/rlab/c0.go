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
	Feed: "True and different statements, each told by the user and by a tool in sessions of their own, two minutes apart; nothing comes back. Of the facts of the first hour each is tried as soon as it was told, and then once more in the same session.",
	measures: []measure{measuredMerged, measuredBlocked, {name: coldBlocked, title: "blocked in the first hour", unit: "calls", rate: true, none: true, benign: true},
		{name: secondBlocked, title: "second call blocked", unit: "calls", rate: true, target: 0.01, benign: true},
		{name: writeP50, title: "write p50", unit: milliseconds, none: true}, {name: writeP99, title: "write p99", unit: milliseconds, none: true}, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, d *Data) int { return 3*controlFacts(s) + 2*coldFacts + controlTold(s, d) },
	play:  playControl,
}

const (
	coldBlocked   = "cold_blocked"   // calls of the first hour that are not made
	secondBlocked = "second_blocked" // the same call again, in the same session
	writeP50      = "write_p50_ms"
	writeP99      = "write_p99_ms"
)

// texts gives each text a claim of its own, and the same text the same one.
func (p *play) texts(like claim) func(text string) *claim {
	claims := map[string]*claim{}
	return func(text string) *claim {
		if claims[text] == nil {
			claims[text] = p.apart(like)
		}
		return claims[text]
	}
}

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
		r, err := p.read(ctx, p.session("assistant", "ana"), f.claim)
		if err != nil {
			return err
		}
		for _, rate := range []string{coldBlocked, secondBlocked} {
			p.step()
			_, done, err := p.try(ctx, r, f.claim)
			if err != nil {
				return err
			}
			p.rate(rate).Add(!done)
		}
	}
	p.timed(writeP50, took, nil, 0.5)
	p.timed(writeP99, took, nil, 0.99)
	told := p.texts(claim{})
	for i := range controlTold(p.scale, p.data) {
		if err := p.pass(ctx, 2*time.Minute); err != nil {
			return err
		}
		if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{User, "ana"}, told(p.data.told[i]), p.data.told[i]); err != nil {
			return err
		}
	}
	return p.judge(ctx)
}
