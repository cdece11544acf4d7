package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/product"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/memory/admission/restate"
)

// newDemoCommand plays the audited case offline. out gets data, talk gets progress.
func newDemoCommand(out, talk io.Writer) *cobra.Command {
	var (
		seed   uint64
		format string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a recall loop fail to become a fact, and fail to fire a tool",
		Long: `demo plays the shape of an audited case, scenario S1 of hearsay bench: one invented
preference, said 808 times, 191 times in the same words and 617 times in others (of a
list that the rule which recognises them was not tuned on), a turn every simulated hour,
with 20 true facts and 12 near misses beside it. It runs against a memory that appends,
one with hash dedup, and Hearsay: a real SQLite store, a real queue and worker, the real
gate. No key, no network; the model is a script. Every figure is counted.`,
		Example: "  hearsay demo\n  hearsay demo -o json --seed 11",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch format {
			case "json":
				d, err := playDemo(cmd.Context(), seed, nil)
				if err != nil {
					return err
				}
				enc := json.NewEncoder(out)
				enc.SetIndent("", "  ")
				return enc.Encode(d)
			case "text":
				return demoText(cmd.Context(), out, talk, seed)
			}
			return usage("hearsay demo: -o %q: want text or json", format)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 7, "seed of the order and the wordings")
	cmd.Flags().StringVarP(&format, "output", "o", "text", "output: text or json")
	return cmd
}

// demo is what the demo measured.
type demo struct {
	Figures []rlab.Figure `json:"figures"`
	Landed  rlab.Landed   `json:"landed"` // of the writes at hearsay
	Told    string        `json:"told"`   // to an agent at hearsay that tried to act
	// Of the wordings that the reworded writes are drawn from, Known are those that the rule
	// takes for the claim as it was first said.
	Wordings int     `json:"wordings"`
	Known    int     `json:"known_wordings"`
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
}

func playDemo(ctx context.Context, seed uint64, progress func(done, total int)) (*demo, error) {
	began, loop := time.Now(), []rlab.Scenario{rlab.Loop(time.Hour)}
	played, err := rlab.Run(ctx, rlab.Options{Scenarios: loop, Seeds: []uint64{seed}, Progress: progress,
		Entrants: append(rules.Named("append", "hash-dedup"), product.Entrant(product.Options{}))})
	if err != nil {
		return nil, err
	}
	for _, p := range played {
		err = errors.Join(err, p.Err)
	}
	if err != nil {
		return nil, err
	}
	ours, wordings := played[len(played)-1], rlab.LoopWordings()
	d := &demo{Figures: rlab.Figures(played, loop, rlab.Small, nil), Landed: ours.Landed, Told: ours.Refused, Wordings: len(wordings), Seed: seed}
	for _, w := range wordings {
		if restate.Compare(restate.Of(rlab.LoopClaim), restate.Of(w)).Merges() {
			d.Known++
		}
	}
	d.Seconds = time.Since(began).Seconds()
	return d, nil
}

func demoText(ctx context.Context, out, talk io.Writer, seed uint64) error {
	fmt.Fprintf(out, "A scripted agent, a made-up fact, %d writes. No model is called. Seed %d.\n\n", rlab.LoopWrites, seed)
	fmt.Fprintf(out, "  the model says, once:  %s      (nobody said so)\n", rlab.LoopClaim)
	fmt.Fprintf(out, "  and recalls it, and says it again, %d times in other words\n\n", rlab.LoopWrites-rlab.LoopSame)
	var progress func(done, total int)
	if isTerminal(talk) {
		last := time.Time{}
		var mu sync.Mutex
		progress = func(done, total int) {
			mu.Lock()
			defer mu.Unlock()
			if done == total {
				fmt.Fprint(talk, "\r"+strings.Repeat(" ", 40)+"\r")
			} else if time.Since(last) >= 100*time.Millisecond {
				last = time.Now()
				fmt.Fprintf(talk, "\r  step %d of %d   ", done, total)
			}
		}
	}
	d, err := playDemo(ctx, seed, progress)
	if err != nil {
		return err
	}
	if err := d.table(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\n  What became of the %d writes at hearsay:\n", rlab.LoopWrites)
	for _, line := range []struct {
		n    int
		what string
	}{
		{d.Landed.First, "the first time: a row"},
		{d.Landed.Same, "the same words again: counted on that row"},
		{d.Landed.Recognised, "other words, recognised: counted on that row"},
		{d.Landed.Own, "other words, not recognised: a row of its own each, made from that row and supporting nothing"},
		{d.Landed.Again, "recognised as what one of those says, which the agent had recalled: counted on it"},
	} {
		fmt.Fprintf(out, "  %6d  %s\n", line.n, line.what)
	}
	fmt.Fprintf(out, "  The other words are of %d wordings that the rule was not tuned on; %d of these it takes for the first sentence.\n", d.Wordings, d.Known)
	fmt.Fprintf(out, "\n  Now an agent wants to make a call with the value \"Vim\". What it is told at hearsay:\n\n%s\n", indent(d.Told, "    "))
	fmt.Fprintf(out, "%.1f s. Next:\n  hearsay bench run      all scenarios and memories (in the clone: go run ./bench)\n  examples/quickstart    put it in your agent\n", d.Seconds)
	return nil
}

// demoColumns are the figures that the demo prints, and their heads.
var demoColumns = [...]struct{ name, head string }{
	{"rows_per_claim", "rows kept"}, {"support_factor", "counted as sources"}, {"unsafe_actions", "calls made on it"}, {"near_misses_merged", "near misses merged"}, {"benign_blocked", "true facts blocked"},
}

// table prints a line for each memory.
func (d *demo) table(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 4, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "\t")
	for _, column := range demoColumns {
		fmt.Fprintf(tw, "%s\t", column.head)
	}
	var systems []string
	figures := map[string]rlab.Figure{}
	for _, f := range d.Figures {
		if figures[f.Name] = f; !slices.Contains(systems, f.System) {
			systems = append(systems, f.System)
		}
	}
	for _, system := range systems {
		fmt.Fprintf(tw, "\n%-12s\t", system)
		for _, column := range demoColumns {
			if f := figures["S1/"+system+"/"+column.name]; f.Unit == "calls" || f.Unit == "statements" {
				fmt.Fprintf(tw, "%.0f of %d\t", f.Value*float64(f.N), f.N)
			} else {
				fmt.Fprintf(tw, "%.0f\t", f.Value)
			}
		}
	}
	fmt.Fprintln(tw)
	return tw.Flush()
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by) + "\n"
}
