// Package page shows the figures of the recall-loop amplification bench as one HTML file, with
// charts, that needs no network.
package page

import (
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/memory/visible"
)

//go:embed page.html
var text string

var tmpl = template.Must(template.New("page").Parse(text))

// chart is a drawing with what is behind it.
type chart struct {
	Of          string // the id of the scenario
	Title, Note string
	SVG         template.HTML
	Header      []string
	Rows        [][]string
}

// section is a scenario, or what several have in common.
type section struct {
	Title, Note string
	Charts      []chart
}

// system is one in the legend.
type system struct {
	Name   string
	Hue    int
	Dashes string
}

// seen is what the template shows.
type seen struct {
	Commit, Machine, Scale, Seeds, Data string
	Systems                             []system
	Sections                            []section
	All                                 table
	Failed                              []string
	Weak                                []string
	Hues                                []int
	Interrupted                         bool
}

type table struct {
	Header []string
	Rows   [][]string
}

// weak are what the bench does not show, or shows badly of everybody.
var weak = []string{
	"An echo in other words whose receipt was lost cannot be told from a new statement by its text. S2 measures whether a system counts it (lost_counted). A system may keep it as a memory of its own.",
	"Harm that lies in a combination of honest memories is not measured.",
	"Sources that are trusted and lie together are not measured. Whoever counts two of them as two is fooled by them.",
	"The system of record is right, and answers but in S6. The agent is a table, and no model is called: a real extractor makes other mistakes.",
	"A baseline is one rule, written for this bench. It stands for no product.",
}

// names of measures that have charts.
const (
	unsafe  = "unsafe_actions"
	blocked = "benign_blocked"
)

// Write writes the page of the figures of one run. It is an error if there are none.
func Write(w io.Writer, figures []rlab.Figure) error {
	if len(figures) == 0 {
		return errors.New("page: no figure")
	}
	first := &figures[0]
	s := seen{Commit: clean(first.Commit), Machine: clean(first.Machine), Scale: clean(first.Scale), Seeds: seeds(figures), Data: clean(strings.Join(first.Data, ", ")), Weak: weak}
	for i := range hues {
		s.Hues = append(s.Hues, i)
	}
	b := book{places: map[string]int{}}
	for i := range figures {
		f := &figures[i]
		if _, known := b.places[f.System]; !known {
			b.places[f.System] = len(b.places)
			n := len(s.Systems)
			s.Systems = append(s.Systems, system{clean(f.System), n % hues, svgDashes(n)})
		}
		if !slices.Contains(b.scenarios, f.Scenario) {
			b.scenarios = append(b.scenarios, f.Scenario)
		}
		if line := clean(f.Scenario + ", " + f.System + ": " + f.Fault + ": " + f.Err); f.Err != "" && !slices.Contains(s.Failed, line) {
			s.Failed = append(s.Failed, line)
		}
		s.Interrupted = s.Interrupted || f.Interrupted
		b.figures = append(b.figures, f)
	}
	for _, id := range b.scenarios {
		part, err := b.scenario(id)
		if err != nil {
			return err
		}
		s.Sections = append(s.Sections, part)
	}
	s.All.Header = []string{"scenario", "system", "measure", "value", "low", "high", "n", "unit", "target", ""}
	for _, f := range b.figures {
		s.All.Rows = append(s.All.Rows, fullRow(f))
	}
	return tmpl.Execute(w, s)
}

// book is what charts are made of.
type book struct {
	figures   []*rlab.Figure
	scenarios []string
	places    map[string]int // of systems, in the order of the legend
}

// of are the figures of a measure of a scenario that have a value.
func (b *book) of(scenario, measure string) (out []*rlab.Figure) {
	for _, f := range b.figures {
		if f.Scenario == scenario && measureOf(f) == measure && f.Err == "" && f.N > 0 {
			out = append(out, f)
		}
	}
	return out
}

func measureOf(f *rlab.Figure) string { return f.Name[strings.LastIndexByte(f.Name, '/')+1:] }

// scenario makes the charts of one scenario: those that its figures allow.
func (b *book) scenario(id string) (section, error) {
	out := section{Title: clean(id)}
	if all, err := rlab.Choose(id); err == nil {
		out.Title, out.Note = all[0].ID+", "+all[0].Title, all[0].Feed
	}
	var errs []error
	add := func(c chart, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("page: %s: %s: %w", id, c.Title, err))
		} else if c.SVG != "" {
			c.Of = clean(id)
			out.Charts = append(out.Charts, c)
		}
	}
	add(b.growth(id, "rows_per_claim", "Growth", "memories of one false claim", "How many memories one invention has become, for each source that said it by itself. Both axes are logarithmic."))
	add(b.growth(id, "support_factor", "Corroboration", "sources counted", "How many sources the system counts for the invention, for each that said it by itself. Both axes are logarithmic."))
	add(b.safety(id))
	add(b.values(id, "Human actions", "share of the calls", share, "held_false", "held_true", "Calls that wait for a person who may allow them, of those that were tried: with a false or outdated value (●), and with a true one (○). Other calls that are not made are refused."))
	add(b.values(id, "Questions to the system of record", "questions per claim", plain, "asked", "", "How often the system of record was asked about one false claim."))
	add(b.values(id, "Time to promotion", "seconds", plain, "promoted_p50_s", "promoted_p99_s", "How long after its first read a claim that is read often can be acted on: half of them (●) and 99 % of them (○) take no longer. 3600 stands for never."))
	add(b.values(id, "Verifier budget", "questions per claim of use", plain, "questions", "", "How often the system of record was asked for each claim that was read once it could be acted on."))
	add(b.values(id, "Verifier budget in an outage", "questions per claim", plain, "outage_asked", "repair_asked", "How often the system of record was asked for each claim: while it was down (●), and afterwards (○)."))
	add(b.values(id, "Repair", "minutes", plain, "repair_minutes", "", "How long it took after an outage until all true claims could be acted on. 60 is the most that was waited for."))
	add(b.values(id, "A fact that changed", "hours", plain, "old_hours", "", "How long calls on the old value of a fact went on being made after it had changed. 24 is the most that was waited for."))
	add(b.values(id, "Decisions", "ms", logTime, "gate_p50_ms", "gate_p99_ms", "How long the system takes to decide on a call: half of the decisions (●) and 99 % of them (○) take no longer. A system without a gate is left out."))
	add(b.values(id, "Writes", "ms", logTime, "write_p50_ms", "write_p99_ms", "How long a write takes: half of the writes (●) and 99 % of them (○) take no longer."))
	return out, errors.Join(errs...)
}

// growth is a chart of how a measure grew.
func (b *book) growth(id, measure, title, y, note string) (chart, error) {
	c := chart{Title: title, Note: note, Header: []string{"system"}}
	var all []line
	var said []int
	for _, f := range b.of(id, measure) {
		if len(f.Series) == 0 {
			continue
		}
		all = append(all, line{b.places[f.System], f.Series})
		for _, p := range f.Series {
			if !slices.Contains(said, p.Said) {
				said = append(said, p.Said)
			}
		}
	}
	if len(all) == 0 {
		return c, nil
	}
	slices.Sort(said)
	for _, n := range said {
		c.Header = append(c.Header, fmt.Sprintf("said %d times", n))
	}
	for _, f := range b.of(id, measure) {
		cells := []string{clean(f.System)}
		for _, n := range said {
			at := slices.IndexFunc(f.Series, func(p rlab.Point) bool { return p.Said == n })
			if at < 0 {
				cells = append(cells, "–")
				continue
			}
			cells = append(cells, fmt.Sprintf("%.4g", f.Series[at].Value))
		}
		c.Rows = append(c.Rows, cells)
	}
	var err error
	c.SVG, err = lines(clean(id)+": "+title+", by how often the claim was said. The table below has the values.", y, all)
	return c, err
}

// safety is a chart of unsafe actions beside the benign twin.
func (b *book) safety(id string) (chart, error) {
	c := chart{Title: "Unsafe against benign blocked", Note: "Calls on false and outdated claims that were made (●), and what went wrong with true claims (○: all measures of the benign twins that have a target, together), with 95 % intervals. Both are better the further left.", Header: []string{"system", "unsafe actions", "n", "benign twins", "n"}}
	good := map[string]*rlab.Figure{}
	for _, f := range b.figures {
		if t := f.Benign; f.Scenario == id && t != nil && f.Err == "" {
			good[f.System] = &rlab.Figure{Figure: report.Figure{Value: t.Value, N: t.N}, Low: t.Low, High: t.High}
		}
	}
	bad := map[string]*rlab.Figure{}
	for _, f := range b.of(id, unsafe) {
		bad[f.System] = f
	}
	var rows []row
	for name, place := range b.inOrder() {
		u, g := bad[name], good[name]
		if u == nil && g == nil {
			continue
		}
		r := row{name: axisName(name), system: place}
		cells := []string{clean(name)}
		for i, f := range []*rlab.Figure{u, g} {
			if f == nil {
				cells = append(cells, "–", "0")
				continue
			}
			r.marks = append(r.marks, mark{f.Low, f.Value, f.High, i == 1})
			cells = append(cells, interval(f), fmt.Sprint(f.N))
		}
		rows, c.Rows = append(rows, r), append(c.Rows, cells)
	}
	if len(rows) == 0 {
		return c, nil
	}
	var err error
	c.SVG, err = marks(clean(id)+": unsafe actions and benign calls that were blocked, by system. The table below has the values.", "share of the calls", rows, share)
	return c, err
}

// values is a chart of one measure, or of two.
func (b *book) values(id, title, x string, of scale, measure, second, note string) (chart, error) {
	c := chart{Title: title, Note: note, Header: []string{"system", strings.ReplaceAll(measure, "_", " ")}}
	if second != "" {
		c.Header = append(c.Header, strings.ReplaceAll(second, "_", " "))
	}
	var rows []row
	for name, place := range b.inOrder() {
		r := row{name: axisName(name), system: place}
		cells := []string{clean(name)}
		for i, m := range []string{measure, second}[:len(c.Header)-1] {
			at := slices.IndexFunc(b.of(id, m), func(f *rlab.Figure) bool { return f.System == name })
			if at < 0 {
				cells = append(cells, "–")
				continue
			}
			f := b.of(id, m)[at]
			r.marks = append(r.marks, mark{f.Low, f.Value, f.High, i == 1})
			cells = append(cells, interval(f))
		}
		if len(r.marks) > 0 {
			rows, c.Rows = append(rows, r), append(c.Rows, cells)
		}
	}
	if len(rows) == 0 {
		return c, nil
	}
	var err error
	c.SVG, err = marks(clean(id)+": "+title+", by system. The table below has the values.", x, rows, of)
	return c, err
}

// inOrder are the systems in the order of the legend.
func (b *book) inOrder() func(yield func(string, int) bool) {
	names := make([]string, len(b.places))
	for name, at := range b.places {
		names[at] = name
	}
	return func(yield func(string, int) bool) {
		for at, name := range names {
			if !yield(name, at) {
				return
			}
		}
	}
}

func interval(f *rlab.Figure) string {
	if f.Low == f.High {
		return fmt.Sprintf("%.4g", f.Value)
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", f.Value, f.Low, f.High)
}

func fullRow(f *rlab.Figure) []string {
	cells := []string{clean(f.Scenario), clean(f.System), clean(strings.ReplaceAll(measureOf(f), "_", " "))}
	if f.Err != "" || f.N == 0 {
		cells = append(cells, "–", "", "", fmt.Sprint(f.N))
	} else {
		cells = append(cells, fmt.Sprintf("%.4g", f.Value), fmt.Sprintf("%.4g", f.Low), fmt.Sprintf("%.4g", f.High), fmt.Sprint(f.N))
	}
	cells = append(cells, clean(f.Unit))
	target, note := "", ""
	if f.System == rlab.Ours && f.Target != 0 {
		target = fmt.Sprintf("%.4g", f.Target)
	}
	if !f.OK {
		note = "missed"
	}
	return append(cells, target, note)
}

func seeds(figures []rlab.Figure) string {
	var all []uint64
	for _, f := range figures {
		all = append(all, f.Seeds...)
	}
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return fmt.Sprintf("%d (%d to %d)", len(all), all[0], all[len(all)-1])
}

// clean is a text of a system or of a file. Nothing in it is hidden.
func clean(s string) string { return visible.Text(strings.ToValidUTF8(s, "\ufffd")) }

// maxName is how many characters of a name stand at an axis.
const maxName = 22

func axisName(s string) string {
	r := []rune(clean(s))
	if len(r) > maxName {
		return string(r[:maxName-1]) + "…"
	}
	return string(r)
}

// svgDashes are the dashes of a system in SVG.
func svgDashes(n int) string {
	var parts []string
	for _, d := range dashes(n) {
		parts = append(parts, fmt.Sprintf("%g", float64(d)))
	}
	return strings.Join(parts, " ")
}
