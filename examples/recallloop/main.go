// Command recallloop replays the recall loop that turned one invention into 808
// stored rows, and shows what became of it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/hearsay-go/hearsay/bench/recallloop"
)

func main() {
	flags := flag.NewFlagSet("recallloop", flag.ExitOnError)
	seed := flags.Uint64("seed", 7, "seed of the order and the wording mix")
	_ = flags.Parse(os.Args[1:]) // it exits on an error
	res, err := recallloop.Run(context.Background(), recallloop.Options{Seed: *seed})
	if err != nil {
		fmt.Fprintln(os.Stderr, "recallloop:", err)
		os.Exit(1)
	}
	fmt.Printf("%d writes of one invention: %d in the same words, %d reworded\n\n", res.Writes, res.SameWording, res.Reworded)
	for _, s := range res.Stores {
		fmt.Printf("%-11s rows %3d  of them reworded %3d  counted as support %3d  belief %-10s  call %s\n",
			s.Name, s.Rows, s.Derived, s.Supports, s.Belief, s.Call)
	}
	fmt.Printf("\nthe row: %s, recalled %d times, %d independent sources\n", res.Row.State(), res.Row.Echoes.Count, res.Row.Independent())
	fmt.Printf("near-miss contradictions merged: %d of %d\n", res.Contradictions.Merged, res.Contradictions.Total)
	fmt.Printf("true facts usable: %d of %d\n\n%s", res.TrueFacts.Usable, res.TrueFacts.Total, res.Block.ToolText())
}
