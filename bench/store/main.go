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
		short = flag.Bool("short", false, "fewer rounds, stores of up to 4,000 rows")
		full  = flag.Bool("full", false, "stores of up to a million rows")
		dir   = flag.String("dir", "", "where files go; a temporary folder if empty")
		seed  = flag.Uint64("seed", 7, "seed of what is tampered with")
		only  = flag.String("only", "", "measure one thing: size, fast, import, bytes, crowd, audit or erase")
	)
	report.Main(func(ctx context.Context) ([]report.Figure, error) {
		if !stores.Known(*name) {
			return nil, fmt.Errorf("%w: -store %q: want sqlite, redis or postgres", report.ErrUsage, *name)
		}
		b := bench{name: *name, rounds: 1000, sizes: []int{1_000, 10_000, 100_000}, derived: 10_000, audited: 10_000, crowd: 100_000, seed: *seed, only: *only, progress: os.Stderr}
		switch {
		case *short:
			b.rounds, b.sizes, b.derived, b.audited, b.crowd = 200, []int{1_000, 4_000}, 2_000, 1_000, 2_000
		case *full:
			b.sizes, b.audited = append(b.sizes, 1_000_000), 100_000
		}
		return b.run(ctx, *dir)
	})
}

type bench struct {
	name     string
	rounds   int
	sizes    []int
	derived  int // rows that are erased
	audited  int // rows that are verified
	crowd    int // unfit rows beside a fit one
	seed     uint64
	only     string
	progress io.Writer
}

func (b *bench) run(ctx context.Context, dir string) ([]report.Figure, error) {
	return report.Folder(dir, func(dir string) ([]report.Figure, error) {
		return report.Run(ctx, dir, b.only, b.progress, []report.Step{
			{Short: "size", Name: "reads and writes by size", Run: b.bySize},
			{Short: "fast", Name: "writes without fsync", Run: b.fast},
			{Short: "import", Name: "import", Run: b.imports},
			{Short: "bytes", Name: "bytes of a row", Run: b.bytes},
			{Short: "crowd", Name: "recall among unfit rows", Run: b.amongUnfit},
			{Short: "audit", Name: "audit", Run: b.audit},
			{Short: "erase", Name: "erasure", Run: b.erasure},
		})
	})
}
