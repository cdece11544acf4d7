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
	"path/filepath"

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
		out   = flag.String("o", "table", "output: table or json")
		check = flag.Bool("check", false, "exit with status 4 if a target is missed")
		short = flag.Bool("short", false, "fewer rows and seeds")
		dir   = flag.String("dir", "", "where files go; a temporary folder if empty")
		seed  = flag.Uint64("seed", 7, "the first seed of simulations and deliveries")
		only  = flag.String("only", "", "measure one thing: rate, scale, zipf, outage, kill, again or memory")
	)
	flag.Parse()
	if *out != "table" && *out != "json" {
		fmt.Fprintf(os.Stderr, "promotion: -o %q: want table or json\n", *out)
		os.Exit(2)
	}
	b := bench{seed: *seed, only: *only, progress: os.Stderr, seeds: 20, rateRows: 10_000, scaleRows: 6000, outageRows: 10_000, againRows: 333_334, memoryRows: 1_000_000}
	if *short {
		b.seeds, b.rateRows, b.scaleRows, b.outageRows, b.againRows, b.memoryRows = 1, 6000, 400, 1000, 2000, 10_000
	}
	figures, err := b.run(context.Background(), *dir)
	if err == nil {
		err = report.Write(os.Stdout, figures, *out == "json")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "promotion:", err)
		os.Exit(1)
	}
	if *check && report.Missed(figures) {
		os.Exit(4)
	}
}

type bench struct {
	seed     uint64
	only     string
	progress io.Writer

	seeds, rateRows, scaleRows, outageRows, againRows, memoryRows int
}

func (b *bench) run(ctx context.Context, dir string) (figures []report.Figure, err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hearsay-promotion-"); err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
	}
	for _, step := range []struct {
		short, name string
		run         func(context.Context, string) ([]report.Figure, error)
	}{
		{"rate", "rows a second, beside empty tasks and bare batches", b.rate},
		{"scale", "two worker processes beside one", b.scale},
		{"zipf", "the order of checks beside an ideal one", b.simulate},
		{"outage", "a verifier that is down", b.outage},
		{"kill", "a worker that is killed", b.kill},
		{"again", "deliveries again and again", b.again},
		{"memory", "memory of a worker", b.memory},
	} {
		if b.only != "" && b.only != step.short {
			continue
		}
		fmt.Fprintf(b.progress, "%s …\n", step.name)
		at := filepath.Join(dir, step.short)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
		got, err := step.run(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		figures = append(figures, got...)
	}
	if len(figures) == 0 {
		return nil, fmt.Errorf("-only %q: want rate, scale, zipf, outage, kill, again or memory", b.only)
	}
	return figures, nil
}
