// Command promotion measures the promotion subsystem: what it costs beside an empty
// asynq task and a bare store, how near its order is to an ideal one, and what is left
// of outages, kills and repetitions.
//
//	go run ./bench/promotion            a table
//	go run ./bench/promotion -o json    an array of figures
//	go run ./bench/promotion -check     exit status 4 if a target is missed
//	go run ./bench/promotion -short     less than a minute
//
// It starts redis-servers and worker processes of its own. Without -short it writes
// about two million rows, which takes half an hour and a few gigabytes in -dir.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/hearsay-go/hearsay/bench/report"
)

func main() {
	if os.Getenv(childVariable) != "" {
		if err := child(context.Background(), os.Getenv(childVariable), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "promotion:", err)
			os.Exit(1)
		}
		return
	}
	var (
		short = flag.Bool("short", false, "fewer rows and seeds")
		dir   = flag.String("dir", "", "where files go; a temporary folder if empty")
		seed  = flag.Uint64("seed", 7, "the first seed of simulations and deliveries")
		only  = flag.String("only", "", "measure one thing: rate, scale, zipf, outage, kill, again or memory")
	)
	report.Main(func(ctx context.Context) ([]report.Figure, error) {
		b := bench{seed: *seed, only: *only, progress: os.Stderr, seeds: 20, rateRows: 10_000, scaleRows: 6000, outageRows: 10_000, bulkheadRows: 1_000_000, againRows: 333_334, memoryRows: 1_000_000}
		if *short {
			b.seeds, b.rateRows, b.scaleRows, b.outageRows, b.bulkheadRows, b.againRows, b.memoryRows = 1, 6000, 400, 1000, 10_000, 2000, 10_000
		}
		return b.run(ctx, *dir)
	})
}

type bench struct {
	seed     uint64
	only     string
	progress io.Writer

	seeds, rateRows, scaleRows, outageRows, bulkheadRows, againRows, memoryRows int
}

func (b *bench) run(ctx context.Context, dir string) ([]report.Figure, error) {
	return report.Folder(dir, func(dir string) ([]report.Figure, error) {
		return report.Run(ctx, dir, b.only, b.progress, []report.Step{
			{Short: "rate", Name: "rows a second, beside empty tasks and bare batches", Run: b.rate},
			{Short: "scale", Name: "two worker processes beside one", Run: b.scale},
			{Short: "zipf", Name: "the order of checks beside an ideal one", Run: b.simulate},
			{Short: "outage", Name: "a verifier that is down", Run: b.outage},
			{Short: "outage", Name: "rows of a verifier that is down, before those of another", Run: b.bulkhead},
			{Short: "outage", Name: "a worker that alone cannot reach a verifier", Run: b.cutOff},
			{Short: "kill", Name: "a worker that is killed", Run: b.kill},
			{Short: "again", Name: "deliveries again and again", Run: b.again},
			{Short: "memory", Name: "memory of a worker", Run: b.memory},
		})
	})
}
