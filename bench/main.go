// Command bench plays the recall-loop amplification bench; hearsay bench run is the same.
//
//	go run ./bench                        all scenarios and systems
//	go run ./bench -scenario S1 -seeds 5  one scenario under five seeds
//	go run ./bench -o json                an array of figures
//	go run ./bench -check                 exit status 4 if a target is missed
//
// docs/bench.md says what is played and measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hearsay-go/hearsay/bench/rlab/command"
)

func main() {
	var run command.Run
	run.Flags(flag.CommandLine)
	flag.StringVar(&run.Output, "o", "table", "output: table or json")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := fmt.Errorf("%w: what is %q?", command.ErrUsage, flag.Arg(0))
	if flag.NArg() == 0 {
		err = run.Run(ctx, os.Stdout, os.Stderr)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	switch {
	case err == nil:
	case errors.Is(err, command.ErrUsage):
		os.Exit(2)
	case errors.Is(err, command.ErrMissed):
		os.Exit(4)
	default:
		os.Exit(1)
	}
}
