// Package command is the command line of the bench: hearsay bench run, and go run ./bench.
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/page"
	"github.com/hearsay-go/hearsay/bench/rlab/product"
	"github.com/hearsay-go/hearsay/bench/rlab/remote"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/memory/visible"
)

var (
	// ErrUsage marks an error as one of the command line.
	ErrUsage = errors.New("usage")
	// ErrMissed: --check was given, and a target is missed.
	ErrMissed = errors.New("a target is missed")
	// ErrFailed: a system failed in a scenario. The others were played to the end.
	ErrFailed = errors.New("a system failed")
	// ErrInterrupted: the run was interrupted. What had ended was printed.
	ErrInterrupted = errors.New("interrupted")
)

// Main is the program of a bench that plays more systems beside those of this module. args are
// the arguments of the command line. It returns the exit status: 0, 1 for a system
// that failed or an interruption, 2 for a wrong command line, 4 for a missed target (-check).
func Main(args []string, more ...rlab.Entrant) int {
	run := Run{More: more}
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	run.Flags(fs)
	fs.StringVar(&run.Output, "o", "table", "output: table or json")
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // and said
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := fmt.Errorf("%w: what is %q?", ErrUsage, fs.Arg(0))
	if fs.NArg() == 0 {
		err = run.Run(ctx, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, ErrUsage):
		return 2
	case errors.Is(err, ErrMissed):
		return 4
	}
	return 1
}

// Run are the flags of a run.
type Run struct {
	// More are systems beside those of this module, each under a name of its own.
	More []rlab.Entrant

	Scenarios, Systems, Scale string
	Output                    string // table or json
	Store, Redis, Data        string
	Seed                      uint64
	Seeds                     int
	Patience, Limit           time.Duration
	Check                     bool
	Report                    string // file for the page of the run; "" = none
	// HTTP and MCP are systems outside the program, each NAME=WHERE; see package remote. They
	// are played beside those that Systems names.
	HTTP, MCP []string
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
	fs.DurationVar(&r.Patience, "patience", time.Minute, "how long one call of a system may take; longer is reported as late")
	fs.DurationVar(&r.Limit, "limit", 4*time.Hour, "how long one play of a scenario may take")
	fs.BoolVar(&r.Check, "check", false, "exit with status 4 if a target is missed")
	fs.StringVar(&r.Report, "report", "", "write a page with charts into this `FILE` too")
	each := func(list *[]string) func(string) error {
		return func(s string) error { *list = append(*list, s); return nil }
	}
	fs.Func("http", "`NAME=URL` of a memory that answers over HTTP (docs/bench.md says how); play it too; may be repeated", each(&r.HTTP))
	fs.Func("mcp", "`NAME=COMMAND` or NAME=URL of a memory that is an MCP server; play it too; may be repeated", each(&r.MCP))
}

// remote are the systems outside the program. What they say on their stderr goes to talk.
func (r *Run) remote(talk io.Writer) (out []rlab.Entrant, err error) {
	add := func(flag, value string, entrant func(name, at string) (rlab.Entrant, error)) error {
		name, at, ok := strings.Cut(value, "=")
		if !ok {
			return fmt.Errorf("%w: --%s %q: want NAME=WHERE", ErrUsage, flag, value)
		}
		e, err := entrant(name, at)
		if err != nil {
			return fmt.Errorf("%w: --%s %s: %w", ErrUsage, flag, name, err)
		}
		if err := nameable(name); err != nil {
			return fmt.Errorf("%w: --%s: %w", ErrUsage, flag, err)
		}
		out = append(out, e)
		return nil
	}
	for _, v := range r.HTTP {
		if err := add("http", v, remote.HTTP); err != nil {
			return nil, err
		}
	}
	for _, v := range r.MCP {
		if err := add("mcp", v, func(name, at string) (rlab.Entrant, error) { return remote.MCP(name, at, talk) }); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// named are the systems that flags can name, those of the caller first.
func (r *Run) named() []rlab.Entrant {
	return slices.Concat(r.More, []rlab.Entrant{product.Entrant(product.Options{Store: r.Store, Redis: r.Redis})}, rules.All())
}

// maxName is the most letters that the name of a system has.
const maxName = 40

// nameable is an error for a name that would be taken apart, or that looks like another one.
func nameable(name string) error {
	for _, r := range name {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.+@: ", r) {
			return fmt.Errorf("name %q: want letters and digits of ASCII, any of -_.+@: and blanks", name)
		}
	}
	if strings.TrimSpace(name) != name || name == "" || len(name) > maxName {
		return fmt.Errorf("name %q: want 1 to %d letters without blanks at its ends", name, maxName)
	}
	return nil
}

// distinct is an error if a system cannot be told from another one.
func distinct(all []rlab.Entrant) error {
	seen := map[string]bool{}
	for i, e := range all {
		switch err := nameable(e.Name); {
		case err != nil:
			return fmt.Errorf("system %d: %w", i+1, err)
		case seen[strings.ToLower(e.Name)]:
			return fmt.Errorf("two systems are named %q", e.Name)
		case e.Open == nil:
			return fmt.Errorf("system %q: Open is nil", e.Name)
		}
		seen[strings.ToLower(e.Name)] = true
	}
	return nil
}

// chosen are the systems that the flags name.
func (r *Run) chosen() ([]rlab.Entrant, error) {
	all := r.named()
	if r.Systems == "" {
		return all, nil
	}
	var out []rlab.Entrant
	seen := map[string]bool{}
	for name := range strings.SplitSeq(r.Systems, ",") {
		at := slices.IndexFunc(all, func(e rlab.Entrant) bool { return e.Name == strings.TrimSpace(name) })
		if at < 0 {
			var have []string
			for _, e := range all {
				have = append(have, e.Name)
			}
			return nil, fmt.Errorf("%w: --systems: no system %q; there are %s", ErrUsage, name, strings.Join(have, ", "))
		}
		if seen[all[at].Name] {
			return nil, fmt.Errorf("%w: --systems: %s is named twice", ErrUsage, all[at].Name)
		}
		seen[all[at].Name] = true
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
	talk = &together{w: talk}
	beside, err := r.remote(visible.Writer(talk))
	if err != nil {
		return err
	}
	if err := distinct(r.named()); err != nil {
		return err
	}
	if err := distinct(slices.Concat(r.named(), beside)); err != nil {
		return fmt.Errorf("%w: --http, --mcp: %w", ErrUsage, err)
	}
	entrants, err := r.chosen()
	if err != nil {
		return err
	}
	entrants = slices.Concat(beside, entrants)
	switch {
	case r.Seeds < 1 || r.Seeds > maxSeeds:
		return fmt.Errorf("%w: --seeds %d: want 1 to %d", ErrUsage, r.Seeds, maxSeeds)
	case r.Seed > math.MaxUint64-uint64(r.Seeds-1):
		return fmt.Errorf("%w: --seed %d, --seeds %d: the last seed is more than %d", ErrUsage, r.Seed, r.Seeds, uint64(math.MaxUint64))
	case r.Patience <= 0 || r.Limit <= 0:
		return fmt.Errorf("%w: --patience %s, --limit %s: want more than 0", ErrUsage, r.Patience, r.Limit)
	case r.Output != "table" && r.Output != "json":
		return fmt.Errorf("%w: -o %q: want table or json", ErrUsage, r.Output)
	}
	var data *rlab.Data
	if r.Data != "" {
		if data, err = rlab.ReadData(r.Data, scenarios); err != nil {
			return fmt.Errorf("%w: --data: %w", ErrUsage, err)
		}
		if len(data.Files) == 0 {
			fmt.Fprintln(talk, "no scenario that is played takes anything of a public set")
		}
		for _, f := range data.Files {
			as := "of no known SHA-256"
			if f.Published {
				as = "as published"
			}
			fmt.Fprintf(talk, "%s: %d %s, sha256 %s, %s\n", f.Name, f.Of, f.Unit, f.SHA256, as)
		}
	}
	if r.Report != "" { // before hours of plays
		file, err := os.OpenFile(r.Report, os.O_WRONLY|os.O_CREATE, 0o644)
		if err == nil {
			err = file.Close()
		}
		if err != nil {
			return fmt.Errorf("%w: --report: %w", ErrUsage, err)
		}
	}
	said := progress{to: talk, began: time.Now()}
	plays, err := rlab.Run(ctx, rlab.Options{Scenarios: scenarios, Entrants: entrants, Seeds: rlab.Seeds(r.Seed, r.Seeds), Scale: scale, Data: data, Patience: r.Patience, Limit: r.Limit, Progress: said.hear})
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !interrupted {
		return err
	}
	for _, p := range plays {
		if p.Err != nil {
			fmt.Fprintf(talk, "%s, %s, seed %d: failed: %s\n", p.Scenario, p.System, p.Seed, visible.Text(p.Err.Error()))
		}
	}
	if interrupted {
		fmt.Fprintf(talk, "interrupted: %d of %d plays have ended\n", len(plays), len(scenarios)*len(entrants)*r.Seeds)
		if len(plays) == 0 {
			return ErrInterrupted
		}
	}
	figures := rlab.Figures(plays, scenarios, scale, data)
	for i := range figures {
		figures[i].Interrupted = interrupted
	}
	// If the one cannot be written, the other is.
	if err := errors.Join(r.draw(figures), write(out, figures, scenarios, r.Output)); err != nil {
		return err
	}
	switch {
	case interrupted:
		return ErrInterrupted
	case r.Check && slices.ContainsFunc(figures, func(f rlab.Figure) bool { return !f.OK }):
		return ErrMissed
	case slices.ContainsFunc(plays, func(p rlab.Played) bool { return p.Err != nil }):
		return ErrFailed
	}
	return nil
}

// draw writes the page.
func (r *Run) draw(figures []rlab.Figure) error {
	if r.Report == "" {
		return nil
	}
	var text bytes.Buffer
	if err := page.Write(&text, figures); err != nil {
		return err
	}
	if err := os.WriteFile(r.Report, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--report: %w", err)
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

// together is a writer for the run and the programs that it starts.
type together struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements [io.Writer].
func (t *together) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.w.Write(p)
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
