package rlab

import (
	"context"
	"time"
)

// staleFacts is how many facts change between a read and a call, staleRounds how often each.
func staleFacts(s Scale) int { return s.of(20, 100) }

const staleRounds = 10

// besideBlocked are calls on a fact that stays, by an agent that has read one that changed too,
// that are not made.
const besideBlocked = "beside_blocked"

var s10 = Scenario{
	ID: "S10", Title: "the value changed between the read and the call",
	Feed:     "An agent reads a fact and a second one. Then the first changes: the system of record has another value, and the tool that reads it says so, in another session. The agent makes its calls a second later with the values that it has read. Another agent, which read only the second fact, makes a call on it, and a third reads the new value and makes a call on that. Each fact changes again and again.",
	measures: []measure{measuredUnsafe, measuredTried, measuredMerged, measuredBlocked, {name: besideBlocked, title: "beside one that changed", unit: "calls", rate: true, target: 0.01, benign: true}, measuredNew, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		return 2*staleFacts(s)*2 + staleFacts(s)*staleRounds*2
	},
	play: playStale,
}

func playStale(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	n := staleFacts(p.scale)
	facts := p.facts(2 * n)
	if err := p.known(ctx, facts); err != nil {
		return err
	}
	for range staleRounds {
		for i := range n {
			f, stays := &facts[i], facts[n+i]
			if err := p.stale(ctx, f, stays); err != nil {
				return err
			}
		}
	}
	p.timeGate()
	return nil
}

// stale reads a fact, changes it, and calls with what was read. The fact is the new one then.
func (p *play) stale(ctx context.Context, f *fact, stays fact) error {
	before, err := p.read(ctx, p.session("assistant", "ana"), f.claim)
	if err != nil {
		return err
	}
	beside, err := p.read(ctx, before.turn, stays.claim)
	if err != nil {
		return err
	}
	apart, err := p.read(ctx, p.session("assistant", "ana"), stays.claim)
	if err != nil {
		return err
	}
	renewed, err := p.becomes(ctx, *f)
	if err != nil {
		return err
	}
	if err := p.pass(ctx, time.Second); err != nil {
		return err
	}
	with := func(rate string, r reading) error {
		_, done, err := p.try(ctx, r, stays.claim)
		p.rate(rate).Add(!done)
		return err
	}
	err = p.inAnyOrder(
		func() error { return p.harm(ctx, before, f.claim) },
		func() error { return with(besideBlocked, beside) },
		func() error { return with(benignBlocked, apart) },
		func() error { return p.benign(ctx, newBlocked, renewed) },
	)
	f.claim = renewed
	return err
}
