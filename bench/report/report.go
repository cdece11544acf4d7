// Package report is the one output of every bench program: figures, each beside
// the floor that was measured in the same run, as a table or as JSON.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Figure is one measured number. Floor is the bare operation measured in the
// same run, interleaved with it; zero if the figure is not a ratio. OK says
// whether the target was met: the ratio's, if there is a floor, else the value's.
type Figure struct {
	Name   string  `json:"name"`
	Unit   string  `json:"unit"`
	Value  float64 `json:"value"`
	Floor  float64 `json:"floor"`
	Ratio  float64 `json:"ratio"`
	Target float64 `json:"target"`
	OK     bool    `json:"ok"`
	N      int     `json:"n"`
	Seed   uint64  `json:"seed"`
}

// AtMost is a figure whose value must not exceed the target.
func AtMost(name, unit string, value, target float64, n int, seed uint64) Figure {
	return Figure{Name: name, Unit: unit, Value: value, Target: target, OK: value <= target, N: n, Seed: seed}
}

// AtLeast is a figure whose value must not fall short of the target.
func AtLeast(name, unit string, value, target float64, n int, seed uint64) Figure {
	return Figure{Name: name, Unit: unit, Value: value, Target: target, OK: value >= target, N: n, Seed: seed}
}

// Exactly is a figure that must equal the target.
func Exactly(name, unit string, value, target float64, n int, seed uint64) Figure {
	return Figure{Name: name, Unit: unit, Value: value, Target: target, OK: value == target, N: n, Seed: seed}
}

// Over is a figure whose ratio to the floor must not exceed the target.
func Over(name, unit string, value, floor, target float64, n int, seed uint64) Figure {
	f := Figure{Name: name, Unit: unit, Value: value, Floor: floor, Target: target, N: n, Seed: seed}
	if floor > 0 {
		f.Ratio = value / floor
	}
	f.OK = f.Ratio > 0 && f.Ratio <= target
	return f
}

// Rate is a figure whose speed, as a share of the floor's, must reach the target:
// its ratio is the floor's duration over its own.
func Rate(name, unit string, value, floor, target float64, n int, seed uint64) Figure {
	f := Figure{Name: name, Unit: unit, Value: value, Floor: floor, Target: target, N: n, Seed: seed}
	if value > 0 {
		f.Ratio = floor / value
	}
	f.OK = f.Ratio >= target
	return f
}

// Beside is a figure that is shown with its floor and has no target.
func Beside(name, unit string, value, floor float64, n int, seed uint64) Figure {
	f := Figure{Name: name, Unit: unit, Value: value, Floor: floor, OK: value > 0, N: n, Seed: seed}
	if floor > 0 {
		f.Ratio = value / floor
	}
	return f
}

// Write prints the figures: a JSON array if asJSON, else a table.
func Write(w io.Writer, figures []Figure, asJSON bool) error {
	if len(figures) == 0 {
		return fmt.Errorf("report: no figure was measured")
	}
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(figures)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "figure\tvalue\tunit\tfloor\tratio\ttarget\tn\t\t")
	for _, f := range figures {
		verdict := "ok"
		if !f.OK {
			verdict = "MISSED"
		}
		ratio, floor := "", ""
		if f.Floor > 0 {
			ratio, floor = fmt.Sprintf("%.2f", f.Ratio), fmt.Sprintf("%.4g", f.Floor)
		}
		fmt.Fprintf(tw, "%s\t%.4g\t%s\t%s\t%s\t%.4g\t%d\t%s\t\n", f.Name, f.Value, f.Unit, floor, ratio, f.Target, f.N, verdict)
	}
	return tw.Flush()
}

// Missed reports whether any target was missed.
func Missed(figures []Figure) bool {
	return slices.ContainsFunc(figures, func(f Figure) bool { return !f.OK })
}

// Sample is the durations of one operation, shortest first.
type Sample []time.Duration

// Quantile is the duration in microseconds that a share q of the sample stays below:
// 0.5 is the median.
func (s Sample) Quantile(q float64) float64 {
	return float64(s[min(int(q*float64(len(s))), len(s)-1)].Nanoseconds()) / 1e3
}

// Interleave times operations in turn, A B C A B C, n rounds after a warm-up.
// Interleaving keeps a noisy machine from favouring one of them. between, if any,
// runs untimed before each round.
func Interleave(n int, between func(), ops ...func()) []Sample {
	if between == nil {
		between = func() {}
	}
	for range max(n/10, 3) {
		between()
		for _, op := range ops {
			op()
		}
	}
	samples := make([]Sample, len(ops))
	for range n {
		between()
		start := time.Now()
		for i, op := range ops {
			op()
			end := time.Now()
			samples[i] = append(samples[i], end.Sub(start))
			start = end
		}
	}
	for _, s := range samples {
		slices.Sort(s)
	}
	return samples
}

// Pair is [Interleave] of two operations; it returns their median durations in
// microseconds.
func Pair(n int, a, b func(), between ...func()) (medianA, medianB float64) {
	s := Interleave(n, func() {
		for _, f := range between {
			f()
		}
	}, a, b)
	return s[0].Quantile(0.5), s[1].Quantile(0.5)
}

// Must unwraps what an operation that is timed gave. It panics with the error, which
// [Caught] turns into the error of the measurement.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Check is Must of what gives an error only.
func Check(err error) {
	if err != nil {
		panic(err)
	}
}

// Caught, deferred, turns a panic of [Must] or [Check] into an error.
func Caught(err *error) {
	if r := recover(); r != nil {
		e, ok := r.(error)
		if !ok {
			panic(r)
		}
		*err = e
	}
}

// Spread is how far the largest of some ratios stands from the smallest, as the
// half-width around their middle: 0.25 means ±25 %.
func Spread(ratios []float64) float64 {
	lo, hi := slices.Min(ratios), slices.Max(ratios)
	mid := (lo + hi) / 2
	return math.Abs(hi-mid) / mid
}

// Step is one thing that a program measures.
type Step struct {
	Short string // as -only names it
	Name  string
	// Run measures, with files in a folder of its own.
	Run func(ctx context.Context, dir string) ([]Figure, error)
}

// Run takes the steps in order, or the one that only names ("" = all), each in a
// folder of its own below dir, and tells progress which one it is at.
func Run(ctx context.Context, dir, only string, progress io.Writer, steps []Step) (figures []Figure, err error) {
	var names []string
	for _, step := range steps {
		names = append(names, step.Short)
		if only != "" && only != step.Short {
			continue
		}
		fmt.Fprintf(progress, "%s …\n", step.Name)
		at := filepath.Join(dir, step.Short)
		if err := os.MkdirAll(at, 0o755); err != nil {
			return nil, err
		}
		got, err := step.Run(ctx, at)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", step.Name, err)
		}
		figures = append(figures, got...)
	}
	if only != "" && !slices.Contains(names, only) {
		return nil, fmt.Errorf("%w: -only %q: want one of %s", ErrUsage, only, strings.Join(names, ", "))
	}
	return figures, nil
}

// ErrUsage marks an error as one of the command line.
var ErrUsage = errors.New("usage")

// Main is all that the main function of a bench program does: it adds the flags -o and
// -check to those that were declared, parses them, measures, prints, and exits. The
// status is 0, 1 after a fault, 2 after a command line that makes no sense
// ([ErrUsage]), and 4 if -check was given and a target is missed.
func Main(measure func(ctx context.Context) ([]Figure, error)) {
	out := flag.String("o", "table", "output: table or json")
	check := flag.Bool("check", false, "exit with status 4 if a target is missed")
	own := ownFlags(flag.CommandLine)
	_ = own.Parse(os.Args[1:]) // which exits on an error
	var figures []Figure
	err := fmt.Errorf("%w: -o %q: want table or json", ErrUsage, *out)
	switch {
	case own.NArg() > 0:
		err = fmt.Errorf("%w: what is %q?", ErrUsage, own.Arg(0))
	case *out == "table" || *out == "json":
		figures, err = measure(context.Background())
	}
	if err == nil {
		err = Write(os.Stdout, figures, *out == "json")
	}
	switch {
	case errors.Is(err, ErrUsage):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	case *check && Missed(figures):
		os.Exit(4)
	}
}

// ownFlags are the flags of a program without those that a library declared beside them:
// the name of one of these begins with the library's, and a point.
func ownFlags(all *flag.FlagSet) *flag.FlagSet {
	own := flag.NewFlagSet(all.Name(), flag.ExitOnError)
	all.VisitAll(func(f *flag.Flag) {
		if !strings.Contains(f.Name, ".") {
			own.Var(f.Value, f.Name, f.Usage)
		}
	})
	return own
}

// Folder calls measure with a folder: dir, or a temporary one if that is empty.
func Folder(dir string, measure func(dir string) ([]Figure, error)) (figures []Figure, err error) {
	if dir == "" {
		if dir, err = os.MkdirTemp("", "hearsay-bench-"); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	return measure(dir)
}
