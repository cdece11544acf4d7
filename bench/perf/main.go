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
	"os"

	"github.com/hearsay-go/hearsay/bench/report"
)

func main() {
	short := flag.Bool("short", false, "fewer rounds and stores of up to 10,000 rows")
	report.Main(func(ctx context.Context) ([]report.Figure, error) {
		return report.Folder("", func(dir string) ([]report.Figure, error) { return measure(ctx, dir, *short) })
	})
}

func measure(ctx context.Context, dir string, short bool) ([]report.Figure, error) {
	rounds, sizes := 2000, []int{1_000, 10_000, 100_000}
	if short {
		rounds, sizes = 300, []int{1_000, 10_000}
	}
	type figures = []report.Figure
	return report.Run(ctx, dir, "", os.Stderr, []report.Step{
		{Short: "evaluate", Name: "Policy.Evaluate", Run: func(context.Context, string) (figures, error) { return evaluate(rounds) }},
		{Short: "size", Name: "fetch and evaluate, by store size", Run: func(ctx context.Context, dir string) (figures, error) { return fetch(ctx, dir, sizes, rounds) }},
		{Short: "depth", Name: "fetch and evaluate, by lineage depth", Run: func(ctx context.Context, dir string) (figures, error) { return depth(ctx, dir, rounds) }},
		{Short: "decision", Name: "recorded decision", Run: func(ctx context.Context, dir string) (figures, error) { return decision(ctx, dir, rounds) }},
		{Short: "remember", Name: "remember a recalled duplicate", Run: func(ctx context.Context, dir string) (figures, error) { return remember(ctx, dir, rounds) }},
		{Short: "long", Name: "the longest inputs beside half of them", Run: func(ctx context.Context, dir string) (figures, error) { return long(ctx, dir, rounds) }},
	})
}
