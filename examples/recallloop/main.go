// Command recallloop plays the recall loop that turned one invention into 808 stored rows,
// against Hearsay and two memories as most agents have one, and shows what became of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/product"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
)

func main() {
	flags := flag.NewFlagSet("recallloop", flag.ExitOnError)
	seed := flags.Uint64("seed", 7, "seed of the order and the wordings")
	_ = flags.Parse(os.Args[1:]) // it exits on an error
	if err := run(context.Background(), *seed); err != nil {
		fmt.Fprintln(os.Stderr, "recallloop:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seed uint64) error {
	loop := []rlab.Scenario{rlab.Loop(time.Hour)}
	played, err := rlab.Run(ctx, rlab.Options{
		Scenarios: loop,
		Entrants:  append(rules.Named("append", "hash-dedup"), product.Entrant(product.Options{})),
		Seeds:     []uint64{seed},
	})
	if err != nil {
		return err
	}
	for _, p := range played {
		err = errors.Join(err, p.Err)
	}
	if err != nil {
		return err
	}
	fmt.Printf("%d writes of one invention: %d in the same words, %d in others\n", rlab.LoopWrites, rlab.LoopSame, rlab.LoopWrites-rlab.LoopSame)
	system := ""
	for _, f := range rlab.Figures(played, loop, rlab.Small, nil) {
		if f.System != system {
			system = f.System
			fmt.Printf("\n%s\n", system)
		}
		if f.Unit == "ms" { // the same run takes another time
			continue
		}
		fmt.Printf("  %-18s %8.4g  of %d\n", f.Name[strings.LastIndex(f.Name, "/")+1:], f.Value, f.N)
	}
	fmt.Printf("\n%s", played[len(played)-1].Refused)
	return nil
}
