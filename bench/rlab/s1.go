package rlab

import (
	"context"
	"fmt"
	"time"
)

// loopTrue is how many true claims the benign twin has, and loopEchoes how often an agent says
// one of them again.
const (
	loopTrue   = 20
	loopEchoes = 80
)

// loopGaps are the pauses between two turns. A session of the audited case was an hour.
var loopGaps = []time.Duration{time.Second, 25 * time.Second, time.Hour}

// nearMerged are near misses that landed on the memory of another claim.
const nearMerged = "near_misses_merged"

// sessionEnds is the pause after which a session ends.
const sessionEnds = 30 * time.Minute

var s1 = loopOf("Three plays a seed, with a turn every second, every 25 seconds and every hour.", loopGaps...)

// Loop is S1 with one pause between its turns in the place of three.
func Loop(pause time.Duration) Scenario {
	return loopOf(fmt.Sprintf("There is a turn every %s.", pause), pause)
}

func loopOf(pauses string, gaps ...time.Duration) Scenario {
	return Scenario{
		ID: "S1", Title: "one invention, 807 echoes",
		Feed:     "A model says once what nobody said, and says it again in 807 turns, 190 times in the same words and 617 in others; 20 true claims, which it says again 80 times in other words, and 12 statements that only look like the invention stand beside it. " + pauses,
		measures: []measure{measuredRows, measuredSupport, measuredFalse, measuredUnsafe, measuredTried, {name: nearMerged, title: "near misses merged", unit: "statements", rate: true}, measuredMerged, measuredBlocked, measuredFree, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
		// The statements of the invention, the near misses, two of each true claim, and the calls.
		steps: func(Scale, *Data) int {
			return len(gaps) * (LoopWrites + len(nearMisses) + 2*loopTrue + loopEchoes + 1 + loopTrue)
		},
		play: func(ctx context.Context, p *play) error {
			for _, gap := range gaps {
				if err := p.renew(ctx); err != nil {
					return err
				}
				if err := playLoop(ctx, p, gap); err != nil {
					return fmt.Errorf("a turn every %s: %w", gap, err)
				}
			}
			return nil
		},
	}
}

func playLoop(ctx context.Context, p *play, gap time.Duration) error {
	lie := p.newClaim(claim{label: label{origins: 1}, query: Query{Text: "which editor does the user prefer"}, value: "Vim"})
	facts := p.facts(loopTrue)
	for _, c := range p.askFreely(claimsOf(facts)) {
		c.blocked = freeBlocked
	}
	land := landing{of: &p.landed, seen: map[string]bool{}}
	var t Turn
	begin := func() Turn {
		if t.At = p.clock.Now(); t.Session == "" || gap >= sessionEnds {
			t = p.session("note-taker", "ana")
		}
		return t
	}
	told := 0
	for _, turn := range p.loop() {
		if err := p.pass(ctx, gap); err != nil {
			return err
		}
		var id string
		var err error
		switch turn.kind {
		case invention:
			if id, err = p.say(ctx, begin(), Author{Kind: Agent, Name: "note-taker"}, lie, turn.text); err == nil {
				land.add(id, turn.text)
			}
		case echo:
			if id, err = p.echo(ctx, begin(), lie, turn.text); err == nil {
				land.add(id, turn.text)
			}
		case nearMiss:
			near := p.apart(claim{query: lie.query})
			if id, err = p.echo(ctx, begin(), near, turn.text); err == nil {
				p.rate(nearMerged).Add(p.holds[id] != near)
			}
		case trueFact:
			err = p.tell(ctx, facts[told])
			told++
		case trueEcho:
			f := facts[p.rng.IntN(told)]
			_, err = p.echo(ctx, begin(), f.claim, pick(p, f.triple.wordings()[1:]))
		}
		if err != nil {
			return err
		}
		if n := land.n; (turn.kind == invention || turn.kind == echo) && (watchedAt(n) || n == LoopWrites) {
			if err := p.grow(ctx, n, lie); err != nil {
				return err
			}
		}
	}
	return p.judge(ctx)
}
