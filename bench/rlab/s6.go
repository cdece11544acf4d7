package rlab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// outageClaims is how many claims are written while the system of record is down.
func outageClaims(s Scale) int { return s.of(200, 1000) }

// outageTrue of ten claims are true.
const outageTrue = 7

// The outage, simulated. It runs 60 times faster than that: waits of workers and breakers are
// real ones.
const (
	outageSpeed  = 60
	outageLasts  = 30 * time.Minute
	outageFlaps  = 10 * time.Minute // it is up and down by turns
	outageFlap   = time.Minute
	outageErrs   = 10 * time.Minute // one question in ten fails
	outageRepair = time.Hour        // after the outage, at most
	outageQuiet  = 10 * time.Minute // after the last change
	outageLook   = 30 * time.Second
)

const (
	downTrusted   = "down_trusted"   // claims that an agent may act on while nobody could check them
	outageAsked   = "outage_asked"   // questions to the system of record while it was down, for each claim
	repairAsked   = "repair_asked"   // and afterwards
	repairMinutes = "repair_minutes" // until all true claims can be acted on
	lookAsked     = "look_asked"     // questions while the bench looked, of a system that works in no background
)

var s6 = Scenario{
	ID: "S6", Title: "the system of record is down",
	Feed: "An agent writes claims, seven in ten of them true, while the system of record is down for half an hour. Then it is up and down by turns for ten minutes, and then one question in ten fails. It runs 60 times faster than that, and breakers and budgets of a system with it. The clock of a system that works in no background does not wait.",
	measures: []measure{{name: lost, title: "lost", unit: "statements", rate: true}, {name: downTrusted, title: "trusted while down", unit: "claims", rate: true}, measuredFalse, measuredUnsafe, measuredTried, measuredMerged,
		{name: outageAsked, title: "asked while down", unit: "questions per claim", target: 1}, {name: repairAsked, title: "asked then", unit: "questions per claim", target: 1.1},
		{name: lookAsked, title: "asked when looked at", unit: "questions per claim", none: true},
		{name: repairMinutes, title: "minutes to repair", unit: "minutes", target: 10}, measuredBlocked, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		n := outageClaims(s)
		return 2 * n
	},
	play: playOutage,
}

// errDown is what a system of record that is down says.
var errDown = errors.New("the system of record is down")

func playOutage(ctx context.Context, p *play) error {
	p.speed = outageSpeed
	if err := p.renew(ctx); err != nil {
		return err
	}
	p.record.fail(func(int) bool { return true })
	n := outageClaims(p.scale)
	claims, order := make([]*claim, n), p.rng.Perm(n) // where a claim stands says nothing of its label
	for i := range claims {
		if err := p.wait(ctx, outageLasts/time.Duration(n)); err != nil {
			return err
		}
		t := p.slot(i)
		p.record.set(t)
		is := label{order[i]%10 < outageTrue, 1}
		if !is.true {
			t.Object = p.object()
		}
		claims[i] = p.newClaim(claim{label: is, query: t.query(), value: t.Object})
		if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Agent, "note-taker"}, claims[i], t.String()); err != nil {
			return err
		}
	}
	found, err := p.look(ctx)
	if err != nil {
		return err
	}
	before := p.record.questions()
	p.value(outageAsked, float64(before)/float64(n))
	for _, c := range claims {
		p.rate(lost).Add(!slices.ContainsFunc(c.of(found), func(m Memory) bool { return has(m.Text, c.value) }))
		p.rate(downTrusted).Add(slices.ContainsFunc(c.of(found), func(m Memory) bool { return p.trusts(m, c) }))
	}
	if err := p.repair(ctx, claims); err != nil {
		return err
	}
	p.value(repairAsked, float64(p.record.questions()-before)/float64(n))
	p.record.fail(nil)
	if err := p.judge(ctx); err != nil {
		return err
	}
	p.value(lookAsked, float64(p.record.askedInLooks())/float64(n))
	return nil
}

// repair lets the system of record come back, and notes how long it takes until the true claims
// are trusted.
func (p *play) repair(ctx context.Context, claims []*claim) error {
	began, trusted := p.clock.Now(), 0
	repaired, changed, at := time.Duration(-1), time.Duration(0), time.Duration(0)
	// How long it is looked at does not depend on what is true.
	for at < outageRepair && (at < outageFlaps+outageErrs || at-changed < outageQuiet) {
		down, errs := at < outageFlaps && at/outageFlap%2 == 1, at >= outageFlaps
		p.record.fail(func(n int) bool { return down || errs && n%10 == 9 })
		if err := p.wait(ctx, outageLook); err != nil {
			return err
		}
		now := p.clock.Now().Sub(began)
		found, err := p.look(ctx)
		if err != nil {
			return err
		}
		missing, count := false, 0
		for _, c := range claims {
			trusts := slices.ContainsFunc(c.of(found), func(m Memory) bool { return p.trusts(m, c) })
			if missing = missing || c.true && !trusts; trusts {
				count++
			}
		}
		if count != trusted {
			trusted, changed = count, now
		}
		if repaired < 0 && !missing {
			repaired = now
		}
		at = p.clock.Now().Sub(began)
	}
	if repaired < 0 {
		repaired = outageRepair
	}
	p.value(repairMinutes, min(repaired, outageRepair).Minutes())
	return nil
}

// wait lets time pass that the system waits for: real time, at the speed of the play.
func (p *play) wait(ctx context.Context, d time.Duration) error {
	if _, works := p.system.(Settler); works {
		t := time.NewTimer(d / time.Duration(p.speed))
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting: %w", context.Cause(ctx))
		}
		return nil
	}
	return p.pass(ctx, d)
}
