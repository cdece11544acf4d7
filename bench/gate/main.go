// Command gate measures what a permit costs beside the bare store below it, and what
// its rule costs beside the same rule in Cedar and in Rego.
//
//	go run ./bench/gate -store sqlite            a table
//	go run ./bench/gate -store redis -o json     an array of figures
//	go run ./bench/gate -store postgres -check   exit status 4 if a target is missed
//
// A redis or postgres store is a private server that the program starts, with what
// is acknowledged on disk.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/stores"
)

func main() {
	var (
		name  = flag.String("store", "sqlite", "which store: sqlite, redis or postgres")
		short = flag.Bool("short", false, "fewer rounds, and a closure of 1,000 rows")
		seed  = flag.Uint64("seed", 7, "seed of the rows and requests that are drawn")
		only  = flag.String("only", "", "measure one thing: permit, rule, closure or run")
	)
	report.Main(func(ctx context.Context) ([]report.Figure, error) {
		if !stores.Known(*name) {
			return nil, fmt.Errorf("%w: -store %q: want sqlite, redis or postgres", report.ErrUsage, *name)
		}
		b := bench{store: *name, rounds: 1000, rows: 10_000, seed: *seed, only: *only, progress: os.Stderr}
		if *short {
			b.rounds, b.rows = 200, 1_000
		}
		return b.run(ctx)
	})
}

type bench struct {
	store    string
	rounds   int
	rows     int // of the large closure
	seed     uint64
	only     string
	progress io.Writer
}

func (b *bench) run(ctx context.Context) ([]report.Figure, error) {
	return report.Folder("", func(dir string) ([]report.Figure, error) {
		return report.Run(ctx, dir, b.only, b.progress, []report.Step{
			{Short: "permit", Name: "the permit path", Run: b.permit},
			{Short: "rule", Name: "the rule beside Cedar and Rego", Run: b.rule},
			{Short: "closure", Name: "a large closure", Run: b.closure},
			{Short: "run", Name: "many calls of one run", Run: b.calls},
		})
	})
}
