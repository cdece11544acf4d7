package rlab

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// chains is how many conclusions there are of each kind.
func chains(s Scale) int { return s.of(20, 100) }

// Kinds of conclusions.
const (
	sound    = iota // from facts that the system of record has
	unsound         // one premise is what an agent made up
	overhaul        // one premise changes afterwards, and then comes back
	kindsOfConclusion
)

const (
	conclusionBlocked = "conclusion_blocked" // calls on a conclusion from true facts that are not made
	revivedBlocked    = "revived_blocked"    // the same, of one whose premise has come back
)

// depthOf and premisesOf are how many conclusions stand on each other, 1 to 5, and on how many
// facts, 1 to 4.
func depthOf(i int) int    { return 1 + i%5 }
func premisesOf(i int) int { return 1 + i/5%4 }

var s13 = Scenario{
	ID: "S13", Title: "conclusions from conclusions",
	Feed: "An agent concludes something from one to four facts, another agent something from that, up to five times. Of a third of the chains all premises are facts, of a third one is made up, and of a third one changes afterwards, and then becomes again what it was. Agents act on the last conclusion; others look up the facts themselves.",
	measures: []measure{measuredUnsafe, measuredTried, measuredMerged, measuredFalse,
		{name: conclusionBlocked, title: "on a conclusion", unit: "calls", rate: true, target: 0.01, benign: true},
		{name: revivedBlocked, title: "when it holds again", unit: "calls", rate: true, target: 0.01, benign: true}, measuredBlocked,
		measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) (steps int) {
		for i := range chains(s) {
			told := kindsOfConclusion*2*premisesOf(i) - 1 // what is made up is said once
			tried := 1 + 1 + (1 + 1 + 1 + 1)
			steps += told + kindsOfConclusion*(depthOf(i)+premisesOf(i)) + tried
		}
		return steps
	},
	play: playConclusions,
}

// chain is a conclusion with what it rests on.
type chain struct {
	*claim
	premises []fact
	odd      int // which premise is made up, or changes
	kind     int
	depth    int
}

func playConclusions(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	var all []chain
	for i := range chains(p.scale) {
		for _, kind := range p.rng.Perm(kindsOfConclusion) {
			c, err := p.premises(ctx, i, kind)
			if err != nil {
				return err
			}
			c.depth = depthOf(i)
			all = append(all, c)
		}
	}
	if err := p.pass(ctx, day); err != nil {
		return err
	}
	p.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for n, c := range all {
		if err := p.conclude(ctx, &c, fmt.Sprintf("case %d", 1001+n), c.depth); err != nil {
			return err
		}
		if err := p.pass(ctx, time.Hour); err != nil {
			return err
		}
		if err := p.drawOn(ctx, c); err != nil {
			return err
		}
	}
	return p.judge(ctx)
}

// premises has the premises of a conclusion said.
func (p *play) premises(ctx context.Context, i, kind int) (chain, error) {
	c := chain{premises: p.facts(premisesOf(i)), odd: p.rng.IntN(premisesOf(i)), kind: kind}
	for n, f := range c.premises {
		if kind != unsound || n != c.odd {
			if err := p.tell(ctx, f); err != nil {
				return c, err
			}
			continue
		}
		f.triple.Object = p.object()
		f.claim.value = f.triple.Object
		p.is(f.claim, label{origins: 1})
		if _, err := p.say(ctx, p.session("researcher", "ana"), Author{Agent, "researcher"}, f.claim, f.triple.String()); err != nil {
			return c, err
		}
		c.premises[n] = f
	}
	return c, nil
}

// conclude lets an agent draw a conclusion from the premises, and others one from that.
func (p *play) conclude(ctx context.Context, c *chain, title string, depth int) error {
	value := p.object()
	c.claim = p.apart(claim{label: label{c.kind != unsound, 1}, query: Query{Text: title}, value: value})
	t := p.session("planner", "ana")
	var ids []string
	for _, f := range c.premises {
		shown, err := p.Recall(ctx, t, f.query)
		if err != nil {
			return err
		}
		for _, id := range idsOf(shown) {
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if _, err := p.write(ctx, t, c.claim, Statement{Author: Author{Agent, t.Agent}, Text: fmt.Sprintf("From what we know it follows for %s that %s is the one", title, value), Recalled: ids}); err != nil {
		return err
	}
	for n := 1; n < depth; n++ {
		if _, err := p.echo(ctx, p.session(fmt.Sprintf("planner-%d", n), "ana"), c.claim, fmt.Sprintf("In step %d of %s we go on with %s", n+1, title, value)); err != nil {
			return err
		}
	}
	return nil
}

// drawOn lets agents act on a conclusion.
func (p *play) drawOn(ctx context.Context, c chain) error {
	harm := func() error {
		p.is(c.claim, label{origins: 1})
		return p.actOnFalse(ctx, c.claim)
	}
	switch c.kind {
	case sound:
		return p.benign(ctx, conclusionBlocked, c.claim)
	case unsound:
		return harm()
	}
	odd := c.premises[c.odd]
	if _, err := p.becomes(ctx, odd); err != nil {
		return err
	}
	if err := p.Settle(ctx); err != nil {
		return err
	}
	if err := harm(); err != nil {
		return err
	}
	p.record.set(odd.triple)
	if _, err := p.say(ctx, p.session("note-taker", "ana"), Author{Tool, CRM}, odd.claim, odd.triple.String()); err != nil {
		return err
	}
	if err := p.Settle(ctx); err != nil {
		return err
	}
	p.is(c.claim, label{true, 1})
	return p.benign(ctx, revivedBlocked, c.claim)
}
