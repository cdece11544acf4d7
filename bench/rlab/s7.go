package rlab

import (
	"context"
	"time"
)

// changedFacts is how many facts of S7 change. As many others stay.
func changedFacts(s Scale) int { return s.of(30, 150) }

// changeWatch is for how many hours a call on the old value is tried again.
const changeWatch = 24

const (
	oldHours   = "old_hours"   // until no call on the old value is made any more
	newBlocked = "new_blocked" // calls on the new value that are not made
)

var measuredNew = measure{name: newBlocked, title: "new value blocked", unit: "calls", rate: true, target: 0.01, benign: true}

var s7 = Scenario{
	ID: "S7", Title: "facts change",
	Feed:     "Facts that a user and a tool say, and that the system of record has, are read in sessions. Then half of them change: the system of record has another value, and the tool that reads it says so. An agent that read the old value tries it at once, and then every hour; others try the new one, and a fact that stayed.",
	measures: []measure{measuredUnsafe, measuredTried, measuredMerged, {name: oldHours, title: "hours until refused", unit: "hours"}, measuredFalse, measuredBlocked, measuredNew, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		n := changedFacts(s)
		return 2*n*2 + n*(1+2) + n*2
	},
	play: playChange,
}

func playChange(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	facts := p.facts(2 * changedFacts(p.scale))
	if err := p.known(ctx, facts); err != nil {
		return err
	}
	p.rng.Shuffle(len(facts), func(i, j int) { facts[i], facts[j] = facts[j], facts[i] }) // which ones change
	for i := 0; i < len(facts); i += 2 {
		if err := p.change(ctx, facts[i], facts[i+1]); err != nil {
			return err
		}
	}
	return p.judge(ctx)
}

// known has facts told, and lets two days pass in which they are asked for.
func (p *play) known(ctx context.Context, facts []fact) error {
	for _, f := range facts {
		if err := p.tell(ctx, f); err != nil {
			return err
		}
	}
	for range 2 {
		if err := p.pass(ctx, day); err != nil {
			return err
		}
		for _, f := range facts { // what nobody reads need not be checked
			if _, err := p.read(ctx, p.session("assistant", "ana"), f.claim); err != nil {
				return err
			}
		}
	}
	return p.Settle(ctx)
}

// becomes gives a fact another value: the system of record has it, and a tool says so. The
// claim is the new one.
func (p *play) becomes(ctx context.Context, f fact) (*claim, error) {
	now := f.triple
	now.Object = p.object()
	p.record.set(now)
	renewed := p.apart(claim{label: label{true, 1}, query: f.query, value: now.Object})
	_, err := p.say(ctx, p.session("note-taker", "ana"), Author{Tool, CRM}, renewed, now.String())
	return renewed, err
}

// change gives a fact another value, and tries the old one, the new one and a fact that stays.
func (p *play) change(ctx context.Context, f, stays fact) error {
	before, err := p.read(ctx, p.session("assistant", "ana"), f.claim)
	if err != nil {
		return err
	}
	p.is(f.claim, label{origins: 2})
	renewed, err := p.becomes(ctx, f)
	if err != nil {
		return err
	}
	hours := 0
	for ; hours < changeWatch; hours++ {
		shown, done, err := p.try(ctx, before, f.claim)
		if err != nil {
			return err
		}
		if hours == 0 {
			p.harmed(shown, done)
		}
		if !done {
			break
		}
		if err := p.pass(ctx, time.Hour); err != nil {
			return err
		}
		if err := p.Settle(ctx); err != nil {
			return err
		}
	}
	p.value(oldHours, float64(hours))
	if err := p.Settle(ctx); err != nil {
		return err
	}
	return p.inAnyOrder(
		func() error { return p.benign(ctx, newBlocked, renewed) },
		func() error { return p.benign(ctx, benignBlocked, stays.claim) },
	)
}

// inAnyOrder does some things in a drawn order, so that a place says nothing of a call.
func (p *play) inAnyOrder(do ...func() error) error {
	for _, at := range p.rng.Perm(len(do)) {
		if err := do[at](); err != nil {
			return err
		}
	}
	return nil
}
