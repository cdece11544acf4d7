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
		out   = flag.String("o", "table", "output: table or json")
		check = flag.Bool("check", false, "exit with status 4 if a target is missed")
		short = flag.Bool("short", false, "fewer rounds, and a closure of 1,000 rows")
		seed  = flag.Uint64("seed", 7, "seed of the rows and requests that are drawn")
		only  = flag.String("only", "", "measure one thing: permit, rule, closure or run")
	)
	flag.Parse()
	if *out != "table" && *out != "json" {
		fmt.Fprintf(os.Stderr, "gate: -o %q: want table or json\n", *out)
		os.Exit(2)
	}
	if !stores.Known(*name) {
		fmt.Fprintf(os.Stderr, "gate: -store %q: want sqlite, redis or postgres\n", *name)
		os.Exit(2)
	}
	b := bench{store: *name, rounds: 1000, rows: 10_000, seed: *seed, only: *only, progress: os.Stderr}
	if *short {
		b.rounds, b.rows = 200, 1_000
	}
	figures, err := b.run(context.Background())
	if err == nil {
		err = report.Write(os.Stdout, figures, *out == "json")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(1)
	}
	if *check && report.Missed(figures) {
		os.Exit(4)
	}
}

type bench struct {
	store    string
	rounds   int
	rows     int // of the large closure
	seed     uint64
	only     string
	progress io.Writer
}

func (b *bench) run(ctx context.Context) (figures []report.Figure, err error) {
	dir, err := os.MkdirTemp("", "hearsay-gate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	return report.Run(ctx, dir, b.only, b.progress, []report.Step{
		{Short: "permit", Name: "the permit path", Run: b.permit},
		{Short: "rule", Name: "the rule beside Cedar and Rego", Run: b.rule},
		{Short: "closure", Name: "a large closure", Run: b.closure},
		{Short: "run", Name: "many calls of one run", Run: b.calls},
	})
}
