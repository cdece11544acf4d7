package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/bench/recallloop"
)

// newDemoCommand replays the audited case offline. out gets data, talk gets
// progress.
func newDemoCommand(out, talk io.Writer) *cobra.Command {
	var (
		seed   uint64
		format string
	)
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch a recall loop fail to become a fact, and fail to fire a tool",
		Long: `demo replays the shape of an audited case: one invented preference, written 808
times in 32 simulated days, 191 times in the same words and 617 times in others
(drawn from a list that the rule which recognises them was not tuned on), with 20
true facts and a few near-miss contradictions beside it. It runs against an append
store, a store with hash dedup, and Hearsay: a real SQLite store, a real queue and
worker, the real gate. No key, no network; the model is a script. Every figure is
counted.`,
		Example: "  hearsay demo\n  hearsay demo -o json --seed 11",
		Args:    args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts := recallloop.Options{Seed: seed}
			switch format {
			case "json":
				res, err := recallloop.Run(cmd.Context(), opts)
				if err != nil {
					return err
				}
				enc := json.NewEncoder(out)
				enc.SetIndent("", "  ")
				return enc.Encode(res)
			case "text":
				return demoText(cmd, out, talk, opts)
			}
			return usage("hearsay demo: -o %q: want text or json", format)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 7, "seed of the order and the wording mix")
	cmd.Flags().StringVarP(&format, "output", "o", "text", "output: text or json")
	return cmd
}

func demoText(cmd *cobra.Command, out, talk io.Writer, opts recallloop.Options) error {
	fmt.Fprintf(out, "A scripted agent, a made-up fact, %d writes. No model is called. Seed %d.\n\n", recallloop.Writes, opts.Seed)
	fmt.Fprintf(out, "  day 1   the model says, once:  %s      (nobody said so)\n\n", recallloop.Claim)
	if isTerminal(talk) {
		last := time.Time{}
		opts.Progress = func(done, total int, stores []recallloop.StoreResult) {
			if done < total && time.Since(last) < 100*time.Millisecond {
				return
			}
			last = time.Now()
			fmt.Fprintf(talk, "\r  write %d/%d   rows kept:", done, total)
			for _, s := range stores {
				fmt.Fprintf(talk, "  %s %d", s.Name, s.Rows)
			}
			fmt.Fprint(talk, "   ")
			if done == total {
				fmt.Fprint(talk, "\r"+strings.Repeat(" ", 78)+"\r")
			}
		}
	}
	res, err := recallloop.Run(cmd.Context(), opts)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-22s%10s%12s%22s   %s\n", "", "rows kept", "reworded", "counted as support", "what the agent believes")
	for _, s := range res.Stores {
		belief := s.Belief
		if s.Name != "hearsay" {
			belief = fmt.Sprintf("%q  %s  %s", "certain", bar(1), s.Belief)
		} else {
			belief += "  " + bar(0)
		}
		fmt.Fprintf(out, "  %-20s%10d%12d%22d   %s\n", storeTitle(s.Name), s.Rows, s.Derived, s.Supports, belief)
	}
	f := res.Fate
	fmt.Fprintf(out, "\n  What became of the %d writes at hearsay:\n", res.Writes)
	for _, line := range []struct {
		n    int
		what string
	}{
		{f.First, "the first time: a row"},
		{f.Same, "the same words again: counted on that row"},
		{f.Recognised, "other words, recognised: counted on that row"},
		{f.OwnRow, "other words, not recognised: a row of its own each, made from that row and supporting nothing"},
		{f.Again, "recognised as what one of those says, which the agent had recalled: counted on it"},
	} {
		fmt.Fprintf(out, "  %6d  %s\n", line.n, line.what)
	}
	fmt.Fprintf(out, "  The %d reworded ones are drawn from %d wordings that the rule was not tuned on; %d of these it takes for the first sentence.\n",
		res.Reworded, res.Wordings, res.KnownWordings)
	fmt.Fprintf(out, "\n  %d simulated days; queue: %s; %.1f s\n", recallloop.Days, res.Queue, res.Seconds)
	fmt.Fprintf(out, "\n  Now the agent wants to act on it:   set_default_editor(user=7, editor=\"Vim\")\n")
	for _, s := range res.Stores {
		verdict := s.Call
		if s.Call == "blocked" {
			verdict = "NOT EXECUTED"
		}
		fmt.Fprintf(out, "  %-20s%s\n", storeTitle(s.Name), verdict)
	}
	fmt.Fprintf(out, "\n  What the agent is told:\n%s\n", indent(res.Block.ToolText(), "    "))
	fmt.Fprintf(out, "  ✗ set_default_editor\n  └── ? %s  %s   %s\n", res.Row.ID, res.Row.Content.String(), res.Row.State())
	fmt.Fprintf(out, "      ├── ~ %s, %s   its only origin\n", res.Row.Asserter.Model, res.Row.CreatedAt.Format("2 Jan 2006"))
	fmt.Fprintf(out, "      └── ~ %d recalls, %d of them reworded   echoes: they add nothing\n\n", res.Row.Echoes.Count, res.Row.Echoes.Reworded)
	fmt.Fprintf(out, "  %d near-miss contradictions in the same run: %d merged, %d rows.\n", res.Contradictions.Total, res.Contradictions.Merged, res.Contradictions.Total-res.Contradictions.Merged)
	fmt.Fprintf(out, "  %d true facts in the same run, verified by the worker from a system of record: %d usable, %d wrongly blocked.\n",
		res.TrueFacts.Total, res.TrueFacts.Usable, res.TrueFacts.Blocked)
	fmt.Fprintf(out, "  Rows in the store: %d = %d of the claim + %d contradictions + %d facts.\n\n",
		res.StoredRows, f.First+f.OwnRow, res.Contradictions.Total-res.Contradictions.Merged, res.TrueFacts.Total)
	fmt.Fprintln(out, "Next:  go run ./examples/quickstart   put it in your agent\n       go run ./bench/perf            what it costs")
	return nil
}

func storeTitle(name string) string {
	return map[string]string{"append": "append store", "hash-dedup": "same, hash dedup", "hearsay": "hearsay"}[name]
}

func bar(share float64) string {
	const width = 20
	full := int(share * width)
	return strings.Repeat("█", full) + strings.Repeat("·", width-full)
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by) + "\n"
}
