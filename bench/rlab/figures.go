package rlab

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// Figure is a figure of the bench: of one scenario and one system, over all seeds.
type Figure struct {
	report.Figure
	Scenario string `json:"scenario"`
	System   string `json:"system"`
	// Form is the [Form] of the bench that made the figure.
	Form int `json:"form"`
	// Low and High are the Wilson 95 % interval of a share, or the least and the most of the
	// means of the seeds of another figure.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Benign is the benign twin of a figure of an attack.
	Benign  *Benign  `json:"benign,omitempty"`
	Seeds   []uint64 `json:"seeds"`
	Scale   string   `json:"scale"`
	Data    []string `json:"data"` // the files that took the place of what is generated
	Commit  string   `json:"commit"`
	Machine string   `json:"machine"`
	// NoTarget says that there is no target: OK says then that the system did not fail.
	NoTarget bool `json:"no_target,omitempty"`
	// NoGate says that every call which was tried was made: the system does not decide.
	NoGate bool `json:"no_gate,omitempty"`
	// Err says why there is no figure: the system failed in this scenario. Fault is its kind
	// ([Fault]).
	Err   string `json:"error,omitempty"`
	Fault string `json:"fault,omitempty"`
	// Series is how the value grew, in the mean over all plays.
	Series []Point `json:"series,omitempty"`
	// Interrupted says that the run did not end: some plays are missing.
	Interrupted bool `json:"interrupted,omitempty"`

	rate *Rate
}

// Form numbers what is played and measured. Whoever changes a scenario or a measure raises it, so
// that [Compare] does not compare what is not the same.
const Form = 4

// Benign is the share of the benign twins of a scenario that went wrong.
type Benign struct {
	Name  string  `json:"name"` // the measures that it is the sum of, apart by "+"
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	N     int     `json:"n"`
}

// Ours is the name of the system that has targets.
const Ours = "hearsay"

// Figures are the figures of plays. scenarios are those that were played, and data is what
// they were played with; nil = nothing.
func Figures(plays []Played, scenarios []Scenario, scale Scale, data *Data) []Figure {
	commit, machine, files := Commit(), Machine(), []string{}
	if data != nil {
		for _, f := range data.Files {
			files = append(files, f.Name+" "+f.SHA256)
		}
	}
	var out []Figure
	for _, s := range scenarios {
		for _, system := range systemsOf(plays, s.ID) {
			of := slices.DeleteFunc(slices.Clone(plays), func(p Played) bool { return p.Scenario != s.ID || p.System != system })
			seeds, errs := []uint64{}, []error{}
			rates, values, series := map[string]Rate{}, map[string][]Value{}, map[string][]Point{}
			fault, noGate := "", false
			for _, p := range of {
				fault, noGate = cmp.Or(fault, Fault(p.Err)), noGate || p.NoGate
				if seeds = append(seeds, p.Seed); p.Err != nil {
					errs = append(errs, fmt.Errorf("seed %d: %w", p.Seed, p.Err))
				}
				for name, r := range p.Rates {
					sum := rates[name]
					rates[name] = Rate{sum.K + r.K, sum.N + r.N}
				}
				for name, v := range p.Values {
					values[name] = append(values[name], meanOf(v))
				}
				for name, s := range p.Series {
					series[name] = append(series[name], s...)
				}
			}
			benign := twin(s.measures, rates)
			for _, m := range s.measures {
				f := Figure{Form: Form, Scenario: s.ID, System: system, Seeds: seeds, Scale: scale.String(), Data: files, Commit: commit, Machine: machine}
				f.Name, f.Unit, f.Seed = s.ID+"/"+system+"/"+m.name, m.unit, seeds[0]
				if f.NoGate = noGate; len(errs) > 0 {
					f.Fault, f.Err = fault, said(errors.Join(errs...))
				}
				if m.rate {
					r := rates[m.name]
					f.rate, f.Value, f.N = &r, r.Value(), r.N
					f.Low, f.High = r.Wilson()
				} else if v := values[m.name]; len(v) > 0 {
					f.average(v)
				}
				f.Series = mean(series[m.name])
				if !m.benign {
					f.Benign = benign
				}
				f.OK, f.NoTarget = f.Err == "", system != Ours || m.none
				if !f.NoTarget {
					f.Target = m.target
					f.OK = f.OK && f.N > 0 && f.measured(m) <= m.target
					if m.name == unsafe { // of calls that nobody tried it shows nothing
						f.OK = f.OK && rates[tried].K > 0
					}
				}
				out = append(out, f)
			}
		}
	}
	return out
}

// twin is the share of calls and statements of the benign twins that have a target which went
// wrong, all together; nil = there are none.
func twin(measures []measure, rates map[string]Rate) *Benign {
	var names []string
	var sum Rate
	for _, m := range measures {
		if r := rates[m.name]; m.benign && m.rate && !m.none && r.N > 0 {
			names, sum = append(names, m.name), Rate{sum.K + r.K, sum.N + r.N}
		}
	}
	if names == nil {
		return nil
	}
	low, high := sum.Wilson()
	return &Benign{strings.Join(names, "+"), sum.Value(), low, high, sum.N}
}

// maxSaid is how many bytes of an error are shown.
const maxSaid = 500

// said is an error in one line. A system may say what it likes in it.
func said(err error) string { return shown(err.Error()) }

// shown is a text of a system, or of a file, in one line.
func shown(text string) string {
	text = visible.Text(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\n", "; "))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}

// meanOf is the mean of the values of one play, of one or more.
func meanOf(values []Value) (mean Value) {
	for _, v := range values {
		mean.V, mean.Floor, mean.N = mean.V+v.V, mean.Floor+v.Floor, mean.N+v.N
	}
	n := float64(max(len(values), 1)) // 25 ones have the mean 1
	mean.V, mean.Floor = mean.V/n, mean.Floor/n
	return mean
}

// average makes a figure of the values of seeds: their mean, the least and the most.
func (f *Figure) average(values []Value) {
	mean := meanOf(values)
	f.Value, f.Floor, f.N = mean.V, mean.Floor, mean.N
	f.Low, f.High = values[0].V, values[0].V
	for _, v := range values {
		f.Low, f.High = min(f.Low, v.V), max(f.High, v.V)
	}
	if f.Floor > 0 {
		f.Ratio = f.Value / f.Floor
	}
}

// mean is the mean of all points of one Said, in their order.
func mean(points []Point) []Point {
	sums, counts := map[int]float64{}, map[int]int{}
	for _, p := range points {
		sums[p.Said] += p.Value
		counts[p.Said]++
	}
	var out []Point
	for _, said := range slices.Sorted(maps.Keys(sums)) {
		out = append(out, Point{said, sums[said] / float64(counts[said])})
	}
	return out
}

// measured is what the target is about.
func (f *Figure) measured(m measure) float64 {
	if m.ratio {
		return f.Ratio
	}
	return f.Value
}

// systemsOf are the systems that were played, in order.
func systemsOf(plays []Played, scenario string) (names []string) {
	for _, p := range plays {
		if p.Scenario == scenario && !slices.Contains(names, p.System) {
			names = append(names, p.System)
		}
	}
	return names
}

// WriteTable prints figures as a table for each scenario: an attack and its benign twin stand
// in one row.
func WriteTable(w io.Writer, figures []Figure, scenarios []Scenario) error {
	for _, s := range scenarios {
		fmt.Fprintf(w, "%s  %s\n", s.ID, s.Title)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprint(tw, "  system")
		quiet := map[string]bool{}
		for _, m := range s.measures {
			if quiet[m.name] = m.quiet; !m.quiet {
				fmt.Fprintf(tw, "\t%s", m.title)
			}
		}
		fmt.Fprintln(tw)
		var seeds []uint64
		rows := map[string][]Figure{}
		var order []string
		for _, f := range figures {
			if f.Scenario != s.ID {
				continue
			}
			if seeds = f.Seeds; rows[f.System] == nil {
				order = append(order, f.System)
			}
			rows[f.System] = append(rows[f.System], f)
		}
		for _, system := range order {
			fmt.Fprintf(tw, "  %s", system)
			switch f := rows[system][0]; {
			case f.Err != "":
				fmt.Fprintf(tw, "\tfailed, %s: %s\n", f.Fault, f.Err)
				continue
			case f.NoGate:
				fmt.Fprint(tw, " (no gate)")
			}
			for _, f := range rows[system] {
				if _, name, _ := strings.Cut(strings.TrimPrefix(f.Name, s.ID+"/"), "/"); !quiet[name] {
					fmt.Fprintf(tw, "\t%s", f.cell())
				}
			}
			fmt.Fprintln(tw)
		}
		if err := tw.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(w, "  seeds: %s\n\n", cmp.Or(span(seeds), "none"))
	}
	if slices.ContainsFunc(figures, func(f Figure) bool { return f.Interrupted }) {
		fmt.Fprintln(w, "The run was interrupted: some plays are missing.")
	}
	_, err := fmt.Fprintf(w, "k/n [Wilson 95 %%]; mean (least to most). ! misses the target. Commit %s, %s.\n", Commit(), Machine())
	return err
}

func span(seeds []uint64) string {
	if len(seeds) == 0 {
		return ""
	}
	if len(seeds) == 1 {
		return fmt.Sprint(seeds[0])
	}
	return fmt.Sprintf("%d to %d", slices.Min(seeds), slices.Max(seeds))
}

// cell is a figure in a table.
func (f *Figure) cell() string {
	text := "–"
	switch {
	case f.N == 0:
	case f.rate != nil:
		text = f.rate.String()
	case f.Low == f.High:
		text = fmt.Sprintf("%.4g", f.Value)
	default:
		text = fmt.Sprintf("%.4g (%.4g to %.4g)", f.Value, f.Low, f.High)
	}
	if f.Floor > 0 {
		text += fmt.Sprintf(" %.2g×", f.Ratio)
	}
	if !f.OK {
		text += " !"
	}
	return text
}

// module is the module that this package is part of.
const module = "github.com/hearsay-go/hearsay"

// Commit is the commit of this module that the program was built from, as far as the build
// says; with "+dirty" behind it if files had been changed since. Of a program of another module
// it is the version of this one, or "unknown" if a folder takes its place.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		switch {
		case m.Path != module:
		case m.Replace != nil: // by a folder, which has no version
			return "unknown"
		default:
			return m.Version
		}
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+dirty"
		}
	}
	return commit + changed
}

// Machine says what the program runs on.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
}
