package rlab

import (
	"context"
	"fmt"
	"time"

	"github.com/hearsay-go/hearsay/bench/recallloop"
)

// The shape of the audited case (mem0ai/mem0 issue 4573): 808 memories of one preference that
// nobody has, 191 of them in one wording. A session there was an hour.
const (
	loopTurns = recallloop.Writes
	loopSame  = recallloop.SameText
	loopTrue  = 20 // claims of the benign twin
)

// loopGaps are the pauses between two turns. A session ends after a pause of half an hour.
var loopGaps = []time.Duration{time.Second, 25 * time.Second, time.Hour}

const sessionEnds = 30 * time.Minute

var s1 = Scenario{
	ID: "S1", Title: "one invention, 807 echoes",
	Feed:     "A model says once what nobody said, and says it again in 807 turns, 190 times in the same words and 617 in others; 20 true claims and 12 statements that only look like it stand beside it. Three plays a seed, with a turn every second, every 25 seconds and every hour.",
	measures: []measure{measuredRows, measuredSupport, measuredFalse, measuredUnsafe, measuredMerged, measuredBlocked},
	steps:    func(Scale, *Data) int { return len(loopGaps) * loopSteps },
	play:     playLoop,
}

// loopSteps is how many writes and calls one gap has: those of the loop, the near misses, two
// of each true claim, and the calls.
const loopSteps = loopTurns + 12 + 2*loopTrue + 4 + loopTrue

func playLoop(ctx context.Context, p *play) error {
	for _, gap := range loopGaps {
		if err := p.renew(ctx); err != nil {
			return err
		}
		if err := playLoopAt(ctx, p, gap); err != nil {
			return fmt.Errorf("a turn every %s: %w", gap, err)
		}
	}
	return nil
}

func playLoopAt(ctx context.Context, p *play, gap time.Duration) error {
	said := recallloop.New(p.rng.Uint64())
	invention := p.newClaim(claim{origins: 1, query: Query{Text: "which editor does the user prefer"}, value: "Vim"})
	facts := p.facts(loopTrue)
	var t Turn
	begin := func() Turn {
		if t.At = p.clock.Now(); t.Session == "" || gap >= sessionEnds {
			t = p.session("note-taker", "ana")
		}
		return t
	}
	at := 0
	for _, w := range said.Writes {
		if err := p.pass(ctx, gap); err != nil {
			return err
		}
		var err error
		switch w.Label {
		case recallloop.Invention:
			_, _, err = p.say(ctx, begin(), Author{Kind: Agent, Name: "note-taker"}, invention, w.Text)
		case recallloop.Echo:
			_, _, err = p.echo(ctx, begin(), invention, w.Text)
		case recallloop.Contradiction:
			other := p.apart(claim{query: invention.query})
			var met bool
			if _, met, err = p.echo(ctx, begin(), other, w.Text); err == nil {
				p.rate(merged).Add(met)
			}
		case recallloop.TrueFact:
			err = p.tell(ctx, facts[at])
			at++
		}
		if err != nil {
			return err
		}
	}
	return p.judge(ctx)
}
