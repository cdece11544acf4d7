// Command store measures what a store costs beside the bare driver or server
// below it, each figure with its floor from the same run.
//
//	go run ./bench/store -store sqlite            a table
//	go run ./bench/store -store sqlite -o json    an array of figures
//	go run ./bench/store -store sqlite -check     exit status 4 if a target is missed
//	go run ./bench/store -store sqlite -full      stores of up to a million rows; minutes, and gigabytes in -dir
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
		short = flag.Bool("short", false, "fewer rounds, stores of up to 10,000 rows")
		full  = flag.Bool("full", false, "stores of up to a million rows")
		dir   = flag.String("dir", "", "where files go; a temporary folder if empty")
		seed  = flag.Uint64("seed", 7, "seed of what is tampered with")
		only  = flag.String("only", "", "measure one thing: size, fast, import, bytes, audit or erase")
	)
	flag.Parse()
	if *out != "table" && *out != "json" {
		fmt.Fprintf(os.Stderr, "store: -o %q: want table or json\n", *out)
		os.Exit(2)
	}
	if !stores.Known(*name) {
		fmt.Fprintf(os.Stderr, "store: -store %q: want sqlite, redis or postgres\n", *name)
		os.Exit(2)
	}
	b := bench{name: *name, rounds: 1000, sizes: []int{1_000, 10_000, 100_000}, derived: 10_000, seed: *seed, only: *only, progress: os.Stderr}
	switch {
	case *short:
		b.rounds, b.sizes, b.derived = 200, []int{1_000, 10_000}, 2_000
	case *full:
		b.sizes = append(b.sizes, 1_000_000)
	}
	figures, err := b.run(context.Background(), *dir)
	if err == nil {
		err = report.Write(os.Stdout, figures, *out == "json")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
	if *check && report.Missed(figures) {
		os.Exit(4)
	}
}

type bench struct {
	name     string
	rounds   int
	sizes    []int
	derived  int
	seed     uint64
	only     string
	progress io.Writer
}

func (b *bench) run(ctx context.Context, dir string) (figures []report.Figure, err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hearsay-store-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	return report.Run(ctx, dir, b.only, b.progress, []report.Step{
		{Short: "size", Name: "reads and writes by size", Run: b.bySize},
		{Short: "fast", Name: "writes without fsync", Run: b.fast},
		{Short: "import", Name: "import", Run: b.imports},
		{Short: "bytes", Name: "bytes of a row", Run: b.bytes},
		{Short: "audit", Name: "audit", Run: b.audit},
		{Short: "erase", Name: "erasure", Run: b.erasure},
	})
}
