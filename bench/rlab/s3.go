package rlab

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

const (
	burstWriters = 32
	burstTrue    = 50 // one write in so many is a true fact
	burstReal    = 10 // one in so many says a true claim again
	burstAgain   = 10 // one in so many is sent again, by a client that gave up on it too early
	burstCalm    = 16 // before it, one session makes one write to so many of the burst
)

// burstSteps is how many writes n statements are.
func burstSteps(n int) int { return n + n/burstAgain }

// burstWrites is how many writes the burst has, those that are sent again apart.
func burstWrites(s Scale) int { return s.of(3_200, 10_240) }

const (
	asked  = "asked"  // questions to the system of record about the claim of the burst
	failed = "failed" // writes that failed
	lost   = "lost"   // true statements that are not there afterwards
	twice  = "twice"  // true statements that were sent again and have two memories
)

var s3 = Scenario{
	ID: "S3", Title: "a burst of one claim",
	Feed: "32 sessions of an agent that were shown a false claim and a true one say the false one again all at once, and every tenth time the true one, with true statements of the user in between; one write in ten is sent a second time, by a client that took it for lost.",
	measures: []measure{measuredRows, measuredSupport, {name: asked, title: "asked", unit: "questions per claim", target: 1}, {name: lookAsked, title: "asked when looked at", unit: "questions", none: true},
		measuredFalse, measuredUnsafe, measuredTried, measuredMerged, {name: failed, title: "failed", unit: "writes", rate: true},
		{name: writeP50, title: "write p50", unit: milliseconds, ratio: true, none: true}, {name: writeP99, title: "write p99", unit: milliseconds, ratio: true, target: 2},
		measuredBlocked, {name: lost, title: "lost", unit: "statements", rate: true, benign: true}, {name: twice, title: "kept twice", unit: "statements", rate: true, benign: true}, measuredHeldFalse, measuredHeldTrue, measuredGate50, measuredGate99},
	steps: func(s Scale, _ *Data) int {
		n := burstWrites(s)
		calm := n / burstCalm
		return 1 + 2 + burstSteps(calm) + burstSteps(n) + 1 + 1 + calm/burstTrue + n/burstTrue
	},
	play: playBurst,
}

// sent is a write of the burst.
type sent struct {
	claim *claim
	ids   []string // that it landed on, two if it was sent again
	errs  []error
	took  []time.Duration
}

func playBurst(ctx context.Context, p *play) error {
	if err := p.renew(ctx); err != nil {
		return err
	}
	n := burstWrites(p.scale)
	r := p.rumours(1)[0]
	lie := p.newClaim(claim{label: label{origins: 1}, query: r.truth.query(), value: r.value})
	said := r.truth
	said.Object = r.value
	p.record.set(r.truth)
	real := p.facts(1)[0]
	if err := p.inAnyOrder(
		func() error { return p.tell(ctx, real) },
		func() error {
			_, err := p.say(ctx, p.session("note-taker", "ana"), Author{Agent, "note-taker"}, lie, said.String())
			return err
		},
	); err != nil {
		return err
	}
	alone, err := p.burst(ctx, 1, n/burstCalm, real, fact{lie, said})
	if err != nil {
		return err
	}
	p.clock.pass(time.Second)
	all, err := p.burst(ctx, burstWriters, n, real, fact{lie, said})
	if err != nil {
		return err
	}
	took, floor := durations(all), durations(alone)
	all = append(alone, all...)
	for _, s := range all {
		for _, err := range s.errs {
			p.rate(failed).Add(err != nil)
		}
		for _, id := range s.ids {
			p.rate(merged).Add(p.land(s.claim, id))
		}
	}
	p.timed(writeP50, took, floor, 0.5)
	p.timed(writeP99, took, floor, 0.99)
	if err := p.judge(ctx); err != nil {
		return err
	}
	p.value(asked, float64(p.record.askedAbout(r.truth)))
	p.value(lookAsked, float64(p.record.askedInLooks()))
	return p.judgeSent(ctx, all, lie, real.claim)
}

// burst has writers make n writes at once, each in a session that was shown two claims, a true
// and a false one. The outcomes are in the order of the writes.
func (p *play) burst(ctx context.Context, sessions, n int, real, lie fact) ([]sent, error) {
	type writer struct {
		turn  Turn
		shown []string
	}
	facts, writers := p.facts(n/burstTrue), make([]writer, sessions)
	for i := range writers {
		writers[i].turn = p.session("note-taker", "ana")
		both := []fact{lie, real}
		for _, at := range p.rng.Perm(len(both)) {
			shown, err := p.Recall(ctx, writers[i].turn, both[at].query)
			if err != nil {
				return nil, err
			}
			for _, id := range idsOf(shown) {
				if !slices.Contains(writers[i].shown, id) {
					writers[i].shown = append(writers[i].shown, id)
				}
			}
		}
	}
	all := make([]sent, n)
	var group sync.WaitGroup
	for i, w := range writers {
		group.Go(func() {
			for k := 0; i+k*len(writers) < n && ctx.Err() == nil && p.fault() == nil; k++ {
				at := i + k*len(writers)
				f, by := lie, Author{Agent, w.turn.Agent}
				switch {
				case at%burstTrue == burstTrue-1:
					f, by = facts[at/burstTrue], Author{User, "ana"}
				case at%burstReal == burstReal/2:
					f = real
				}
				all[at] = p.send(ctx, w.turn, f.claim, Statement{Author: by, Text: f.triple.String(), Recalled: w.shown}, k%burstAgain == 0)
			}
		})
	}
	group.Wait()
	return all, errors.Join(ctx.Err(), p.fault())
}

// send writes a statement, twice if its client gives up on the first too early. It is safe for
// use by several goroutines.
func (p *play) send(ctx context.Context, t Turn, c *claim, s Statement, again bool) sent {
	out := sent{claim: c}
	times := 1
	if again {
		times = 2
	}
	for range times {
		began := time.Now()
		id, err := p.Write(ctx, t, s)
		out.took = append(out.took, time.Since(began))
		p.step()
		if out.errs = append(out.errs, err); err == nil {
			out.ids = append(out.ids, id)
		}
	}
	return out
}

func durations(all []sent) (out []time.Duration) {
	for _, s := range all {
		out = append(out, s.took...)
	}
	return out
}

// judgeSent measures which true statements of the user are there, each once.
func (p *play) judgeSent(ctx context.Context, all []sent, agents ...*claim) error {
	all = slices.DeleteFunc(slices.Clone(all), func(s sent) bool { return slices.Contains(agents, s.claim) })
	found, err := p.look(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		p.rate(lost).Add(!slices.ContainsFunc(s.claim.of(found), func(m Memory) bool { return has(m.Text, s.claim.value) }))
		if len(s.errs) > 1 {
			p.rate(twice).Add(len(s.ids) > 1 && s.ids[0] != s.ids[1])
		}
	}
	return nil
}
