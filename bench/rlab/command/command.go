// Package command is the command line of the bench: hearsay bench run, and go run ./bench.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/product"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
)

var (
	// ErrUsage marks an error as one of the command line.
	ErrUsage = errors.New("usage")
	// ErrMissed: --check was given, and a target is missed.
	ErrMissed = errors.New("a target is missed")
	// ErrInterrupted: the run was interrupted. What had ended was printed.
	ErrInterrupted = errors.New("interrupted")
)

// Run are the flags of a run.
type Run struct {
	Scenarios, Systems, Scale string
	Output                    string // table or json
	Store, Redis, Data        string
	Seed                      uint64
	Seeds                     int
	Check                     bool
}

// Flags declares the flags, all but the one that says the output ([Run.Output]).
func (r *Run) Flags(fs *flag.FlagSet) {
	fs.StringVar(&r.Scenarios, "scenario", "", "ids of scenarios, apart by commas; without it, all")
	fs.StringVar(&r.Systems, "systems", "", "names of systems, apart by commas; without it, all")
	fs.Uint64Var(&r.Seed, "seed", 1, "the first seed")
	fs.IntVar(&r.Seeds, "seeds", 1, "how many seeds, each one more than the last")
	fs.StringVar(&r.Scale, "scale", "small", "small or full")
	fs.StringVar(&r.Data, "data", "", "folder of public sets, in the place of generated claims (docs/bench.md says where they are from)")
	fs.StringVar(&r.Store, "store", "", "URL of the store that hearsay is played on; without it, a SQLite file for each play")
	fs.StringVar(&r.Redis, "redis", "", "URL of the Redis that hearsay's queue is on; without it, one for each play")
	fs.BoolVar(&r.Check, "check", false, "exit with status 4 if a target is missed")
}

// entrants are the systems that the bench has.
func (r *Run) entrants() []rlab.Entrant {
	return append([]rlab.Entrant{product.Entrant(product.Options{Store: r.Store, Redis: r.Redis})}, rules.All()...)
}

// chosen are the systems that the flags name.
func (r *Run) chosen() ([]rlab.Entrant, error) {
	all := r.entrants()
	if r.Systems == "" {
		return all, nil
	}
	var out []rlab.Entrant
	for name := range strings.SplitSeq(r.Systems, ",") {
		at := slices.IndexFunc(all, func(e rlab.Entrant) bool { return e.Name == strings.TrimSpace(name) })
		if at < 0 {
			var have []string
			for _, e := range all {
				have = append(have, e.Name)
			}
			return nil, fmt.Errorf("%w: --systems: no system %q; there are %s", ErrUsage, name, strings.Join(have, ", "))
		}
		out = append(out, all[at])
	}
	return out, nil
}

// maxSeeds is how many seeds one run may have.
const maxSeeds = 10_000

// Run plays, and prints figures to out and progress to talk. What had ended when ctx ended is
// printed too.
func (r *Run) Run(ctx context.Context, out, talk io.Writer) error {
	scale, err := rlab.ParseScale(r.Scale)
	if err != nil {
		return fmt.Errorf("%w: --scale: %w", ErrUsage, err)
	}
	scenarios, err := rlab.Choose(r.Scenarios)
	if err != nil {
		return fmt.Errorf("%w: --scenario: %w", ErrUsage, err)
	}
	entrants, err := r.chosen()
	if err != nil {
		return err
	}
	switch {
	case r.Seeds < 1 || r.Seeds > maxSeeds:
		return fmt.Errorf("%w: --seeds %d: want 1 to %d", ErrUsage, r.Seeds, maxSeeds)
	case r.Output != "table" && r.Output != "json":
		return fmt.Errorf("%w: -o %q: want table or json", ErrUsage, r.Output)
	}
	var data *rlab.Data
	if r.Data != "" {
		if data, err = rlab.ReadData(r.Data); err != nil {
			return fmt.Errorf("%w: --data: %w", ErrUsage, err)
		}
		for _, f := range data.Files {
			as := "not as published"
			if f.Published {
				as = "as published"
			}
			fmt.Fprintf(talk, "%s: %d %s, sha256 %s, %s\n", f.Name, f.Of, f.Unit, f.SHA256, as)
		}
	}
	said := progress{to: talk, began: time.Now()}
	plays, err := rlab.Run(ctx, rlab.Options{Scenarios: scenarios, Entrants: entrants, Seeds: rlab.Seeds(r.Seed, r.Seeds), Scale: scale, Data: data, Progress: said.hear})
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !interrupted {
		return err
	}
	for _, p := range plays {
		if p.Err != nil {
			fmt.Fprintf(talk, "%s, %s, seed %d: failed: %v\n", p.Scenario, p.System, p.Seed, p.Err)
		}
	}
	if interrupted {
		fmt.Fprintf(talk, "interrupted: %d of %d plays have ended\n", len(plays), len(scenarios)*len(entrants)*r.Seeds)
		if len(plays) == 0 {
			return ErrInterrupted
		}
	}
	figures := rlab.Figures(plays, scenarios, scale, data)
	if err := write(out, figures, scenarios, r.Output); err != nil {
		return err
	}
	switch {
	case interrupted:
		return ErrInterrupted
	case r.Check && slices.ContainsFunc(figures, func(f rlab.Figure) bool { return !f.OK }):
		return ErrMissed
	}
	return nil
}

func write(out io.Writer, figures []rlab.Figure, scenarios []rlab.Scenario, format string) error {
	if format == "table" {
		return rlab.WriteTable(out, figures, scenarios)
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(figures)
}

// progress says how far a run is, at most once in two seconds.
type progress struct {
	to    io.Writer
	began time.Time

	mu   sync.Mutex
	last time.Time
}

const progressEvery = 2 * time.Second

func (p *progress) hear(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.last.IsZero() {
		p.last = p.began
	}
	if now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	fmt.Fprintln(p.to, rlab.Pace(done, total, now.Sub(p.began)))
}
