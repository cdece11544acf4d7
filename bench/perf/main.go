// Command perf measures what the gate and the write path cost, each figure beside
// the bare operation on the same driver in the same run.
//
//	go run ./bench/perf            a table
//	go run ./bench/perf -o json    an array of figures
//	go run ./bench/perf -check     exit status 4 if a target is missed
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hearsay-go/hearsay/bench/recallloop"
	"github.com/hearsay-go/hearsay/bench/report"
)

func main() {
	var (
		out   = flag.String("o", "table", "output: table or json")
		check = flag.Bool("check", false, "exit with status 4 if a target is missed")
		short = flag.Bool("short", false, "fewer rounds and stores of up to 10,000 rows")
		seed  = flag.Uint64("seed", 7, "seed of the demo's wording mix")
	)
	flag.Parse()
	if *out != "table" && *out != "json" {
		fmt.Fprintf(os.Stderr, "perf: -o %q: want table or json\n", *out)
		os.Exit(2)
	}
	figures, err := measure(context.Background(), *short, *seed, os.Stderr)
	if err == nil {
		err = report.Write(os.Stdout, figures, *out == "json")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
	if *check && report.Missed(figures) {
		os.Exit(4)
	}
}

func measure(ctx context.Context, short bool, seed uint64, progress io.Writer) ([]report.Figure, error) {
	dir, err := os.MkdirTemp("", "hearsay-perf-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	rounds, sizes := 2000, []int{1_000, 10_000, 100_000}
	if short {
		rounds, sizes = 300, []int{1_000, 10_000}
	}
	var figures []report.Figure
	steps := []struct {
		name string
		run  func() ([]report.Figure, error)
	}{
		{"Policy.Evaluate", func() ([]report.Figure, error) { return evaluate(rounds) }},
		{"fetch and evaluate, by store size", func() ([]report.Figure, error) { return fetch(ctx, filepath.Join(dir, "size"), sizes, rounds) }},
		{"fetch and evaluate, by lineage depth", func() ([]report.Figure, error) { return depth(ctx, filepath.Join(dir, "depth"), rounds) }},
		{"recorded decision", func() ([]report.Figure, error) { return decision(ctx, filepath.Join(dir, "decision"), rounds) }},
		{"remember a recalled duplicate", func() ([]report.Figure, error) { return remember(ctx, filepath.Join(dir, "remember"), rounds) }},
		{"demo", func() ([]report.Figure, error) {
			res, err := recallloop.Run(ctx, recallloop.Options{Seed: seed, Dir: filepath.Join(dir, "demo")})
			if err != nil {
				return nil, err
			}
			return res.Figures(), nil
		}},
	}
	for _, s := range steps {
		fmt.Fprintf(progress, "%s …\n", s.name)
		got, err := s.run()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		figures = append(figures, got...)
	}
	return figures, nil
}
