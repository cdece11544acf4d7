package rlab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options of a run of the bench.
type Options struct {
	Scenarios []Scenario
	Entrants  []Entrant
	Seeds     []uint64
	Scale     Scale
	Data      *Data // in the place of what is generated; nil = none
	// Patience is how long one call of a system may take, all but [Settler.Settle]; 0 = a
	// minute.
	Patience time.Duration
	// Limit is how long one play may take; 0 = four hours.
	Limit time.Duration
	// Progress hears from several goroutines how many of all steps are done; nil = nobody.
	Progress func(done, total int)
	// Logger is for the systems; nil = none.
	Logger *slog.Logger

	mislabel func(label) label // of a test; nil = none
}

// Played is what one scenario measured of one system under one seed.
type Played struct {
	Scenario, System string
	Seed             uint64
	Rates            map[string]Rate
	Values           map[string][]Value
	// Series is how some of the values grew while a claim was said again and again. A play that
	// has the claim more than once has several points of one Said.
	Series map[string][]Point
	// Landed is what became of the statements of the invention of S1, over all its plays.
	Landed Landed
	// Refused is what an agent was told when it first tried a call on a false claim that was
	// not made.
	Refused string
	// NoGate says that the system is no [Decider]: every call that was tried was made.
	NoGate bool
	// Err says why the play did not end; see [Fault]. What it measured until then does not
	// count.
	Err error
}

// Value is one value that was measured.
type Value struct {
	V     float64
	Floor float64 // what it is compared with; 0 = nothing
	N     int     // how many measurements it is made of
}

// Run plays each scenario against each system under each seed, as many at once as there are
// processors. A play that fails ends no other. If ctx ends, the plays that have ended are
// returned beside its error.
func Run(ctx context.Context, o Options) ([]Played, error) {
	if len(o.Scenarios) == 0 || len(o.Entrants) == 0 || len(o.Seeds) == 0 {
		return nil, errors.New("rlab: nothing to play: a run wants scenarios, systems and seeds")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	if o.Limit <= 0 {
		o.Limit = 4 * time.Hour
	}
	total := 0
	for _, s := range o.Scenarios {
		total += s.steps(o.Scale, o.Data) * len(o.Entrants) * len(o.Seeds)
	}
	var done atomic.Int64
	step := func() {
		n := done.Add(1)
		if o.Progress != nil {
			o.Progress(int(n), total)
		}
	}
	// A slot a play keeps the order, whichever ends first.
	slots := make([]*Played, len(o.Scenarios)*len(o.Entrants)*len(o.Seeds))
	var group sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	at := 0
	for _, s := range o.Scenarios {
		for _, e := range o.Entrants {
			for _, seed := range o.Seeds {
				slot := at
				at++
				select {
				case <-ctx.Done():
				case free <- struct{}{}:
				}
				if ctx.Err() != nil {
					continue // nothing waits for the place any more
				}
				group.Go(func() {
					defer func() { <-free }()
					if played := one(ctx, s, e, seed, &o, step); ctx.Err() == nil {
						slots[slot] = &played
					}
				})
			}
		}
	}
	group.Wait()
	var out []Played
	for _, p := range slots {
		if p != nil {
			out = append(out, *p)
		}
	}
	return out, ctx.Err()
}

// one plays one scenario.
func one(ctx context.Context, s Scenario, e Entrant, seed uint64, o *Options, step func()) Played {
	out := Played{Scenario: s.ID, System: e.Name, Seed: seed}
	p := &play{rng: rand.New(rand.NewPCG(seed, 0x726c6162)), mixed: rand.New(rand.NewPCG(seed, 0x6c6f6f6b)), scale: o.Scale, data: o.Data, step: step, rates: map[string]*Rate{}, values: map[string][]Value{}, series: map[string][]Point{}, entrant: e, patience: o.Patience, logger: o.Logger, mislabel: o.mislabel}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Limit, fmt.Errorf("%w: the play has not ended after %s", ErrLate, o.Limit))
	defer cancel()
	err := s.play(ctx, p)
	if err != nil && ctx.Err() != nil { // whichever call it was that heard of it
		err = context.Cause(ctx)
	}
	out.NoGate = p.watched != nil && p.decider == nil
	if out.Err = errors.Join(err, p.close()); out.Err != nil {
		return out
	}
	out.Rates, out.Values, out.Series, out.Landed, out.Refused = map[string]Rate{}, p.values, p.series, p.landed, p.refused
	for name, r := range p.rates {
		out.Rates[name] = *r
	}
	return out
}

// renew gives the play an empty system, clock and system of record.
func (p *play) renew(ctx context.Context) error {
	if err := p.close(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "hearsay-bench-")
	if err != nil {
		return err
	}
	p.dir, p.clock, p.settled, p.record = dir, &clock{now: start}, start, &register{values: map[[2]string]string{}, asked: map[[2]string]int{}}
	p.claims, p.holds, p.taken, p.sessions = nil, map[string]*claim{}, map[string]bool{}, 0
	s, err := timely(ctx, p.patience, func(ctx context.Context) (System, error) {
		return p.entrant.Open(ctx, Env{Now: p.clock.Now, Record: p.record, Dir: dir, Speed: p.speed, Budget: p.budget, Logger: p.logger})
	})
	if err == nil && s == nil {
		err = fmt.Errorf("%w: no system", ErrNonsense)
	}
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	p.watched, p.closed = watch(s, p.patience), false
	if _, works := s.(Settler); works && p.speed > 0 {
		p.clock.run(p.speed)
	}
	return nil
}

// close ends the system and removes its folder.
func (p *play) close() error {
	var err error
	if p.dir == "" {
		return nil
	}
	if p.watched != nil && !p.closed {
		p.closed = true
		err = p.Close()
	}
	err = errors.Join(err, os.RemoveAll(p.dir))
	p.dir = ""
	return err
}

// Seeds are n seeds from the first one on.
func Seeds(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}

// Pace says how far a run is, from how much of it took how long.
func Pace(done, total int, took time.Duration) string {
	if done == 0 || took <= 0 {
		return fmt.Sprintf("0 of %d steps", total)
	}
	rate := float64(done) / took.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%d of %d steps, %.0f a second, %s left", done, total, rate, left)
}
