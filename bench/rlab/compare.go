package rlab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
)

// Outcome is what became of a figure from one run to the next.
type Outcome string

// The outcomes. [Worse], [Failed] and [Gone] are regressions.
const (
	Same   Outcome = "same"   // the intervals overlap
	Better Outcome = "better" // the new interval lies below the old one
	Worse  Outcome = "worse"  // the new interval lies above the old one
	Failed Outcome = "failed" // there was a figure, and the system failed now
	Gone   Outcome = "gone"   // there was a figure, and there is none now
	New    Outcome = "new"    // there was none
	// Changed: the intervals do not overlap, and neither is better: more or fewer calls wait for
	// a person, or are tried.
	Changed Outcome = "changed"
	// Unlike: the figures do not measure the same (form of the bench, scale, public sets), or a
	// run was interrupted.
	// Times are not compared between two kinds of machine, nor with fewer than [TimedSeeds]
	// seeds, since so few say nothing about the spread.
	Unlike Outcome = "not compared"
)

// Regression reports whether the outcome is one.
func (o Outcome) Regression() bool { return o == Worse || o == Failed || o == Gone }

// TimedSeeds is how many seeds a run needs so that its times are compared.
const TimedSeeds = 3

// Change is a figure in two runs.
type Change struct {
	Name    string  `json:"name"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"` // of an outcome that the intervals do not show
	Old     *Figure `json:"old,omitempty"` // nil = there was none
	New     *Figure `json:"new,omitempty"`
}

// Compared reports whether there were two figures to compare, or one that is lost.
func (c *Change) Compared() bool {
	return c.Outcome != Unlike && c.Outcome != New && (c.Outcome != Same || c.Old.Err == "" && c.Old.N > 0)
}

// Compare compares the figures of two runs by their names, in the order of the old ones. A
// figure of the bench is better the lower it is, but for calls for which a person is asked and
// calls that are tried. The interval of a share is its Wilson 95 % interval, that of another
// figure the least and the most of the means of its seeds: of one seed, or where all seeds gave
// the same, any change counts.
func Compare(before, after []Figure) []Change {
	at := map[string]*Figure{}
	for i := range after {
		at[after[i].Name] = &after[i]
	}
	cut := func(f Figure) bool { return f.Interrupted }
	interrupted := slices.ContainsFunc(before, cut) || slices.ContainsFunc(after, cut)
	forms := map[int]bool{}
	for _, f := range after {
		forms[f.Form] = true
	}
	var out []Change
	known := map[string]bool{}
	for i := range before {
		old := &before[i]
		known[old.Name] = true
		outcome, why := compare(old, at[old.Name])
		switch {
		case interrupted:
			outcome, why = Unlike, "a run that was interrupted"
		case outcome == Gone && len(after) > 0 && !forms[old.Form]:
			outcome, why = Unlike, anotherForm
		}
		out = append(out, Change{old.Name, outcome, why, old, at[old.Name]})
	}
	for i := range after {
		if f := &after[i]; !known[f.Name] {
			out = append(out, Change{f.Name, New, "", nil, f})
		}
	}
	return out
}

// neutral says of measures that are neither better nor worse when they change what they are.
var neutral = map[string]string{heldFalse: "calls for which a person is asked", heldTrue: "calls for which a person is asked", tried: "calls of which the agent was shown the value"}

// measure is what a figure is of.
func (f *Figure) measure() string { return f.Name[strings.LastIndexByte(f.Name, '/')+1:] }

// timed reports whether a figure depends on the machine: how long something took, and in the
// scenarios whose clock runs by itself what is no share, or a share of what came in time.
func (f *Figure) timed() bool {
	return slices.Contains([]string{readsMissed, readsEarly, hotMissed}, f.measure()) || f.Unit == milliseconds || (f.Scenario == s6.ID || f.Scenario == s11.ID) && slices.Contains([]string{"s", "minutes", "questions", "questions per claim", "questions per claim of use"}, f.Unit)
}

const anotherForm = "another form of the bench"

func compare(old, now *Figure) (Outcome, string) {
	measured := old.Err == "" && old.N > 0
	switch {
	case now == nil && measured:
		return Gone, "it is not in the new file"
	case now == nil:
		return Same, "there is none in either"
	case old.Form != now.Form:
		return Unlike, anotherForm
	case !slices.Equal(old.Data, now.Data):
		return Unlike, "other public sets"
	case old.Scale != now.Scale:
		return Unlike, "another scale"
	case now.Err != "" && measured:
		return Failed, now.Fault + ": " + now.Err
	case now.N == 0 && measured:
		return Gone, "nothing was measured"
	case !measured && now.Err == "" && now.N > 0:
		return New, ""
	case !measured:
		return Same, "there is none in either"
	case old.timed() && min(len(old.Seeds), len(now.Seeds)) < TimedSeeds:
		return Unlike, fmt.Sprintf("it depends on the machine, and has fewer than %d seeds", TimedSeeds)
	case old.timed() && old.Machine != now.Machine:
		return Unlike, "it depends on the machine, which is another one"
	case (now.Low > old.High || now.High < old.Low) && neutral[old.measure()] != "":
		return Changed, neutral[old.measure()]
	case now.Low > old.High:
		return Worse, ""
	case now.High < old.Low:
		return Better, ""
	}
	return Same, ""
}

// maxFile bounds a file of figures, in bytes.
const maxFile = 64 << 20

// ReadFigures reads what a run printed with -o json. It is an error if a figure has no name or
// there are two of one name.
func ReadFigures(r io.Reader) ([]Figure, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	}
	var figures []Figure
	if err := json.Unmarshal(text, &figures); err != nil {
		return nil, fmt.Errorf("not the output of a run with -o json: %w", err)
	}
	if len(figures) == 0 {
		return nil, errors.New("no figure in it")
	}
	seen := map[string]bool{}
	for i, f := range figures {
		switch {
		case strings.Count(f.Name, "/") != 2:
			return nil, fmt.Errorf("figure %d: name %.80q: want SCENARIO/SYSTEM/MEASURE", i+1, f.Name)
		case seen[f.Name]:
			return nil, fmt.Errorf("figure %d: name %.80q is there twice", i+1, f.Name)
		case f.N < 0 || f.Low > f.High || f.N > 0 && !f.within():
			return nil, fmt.Errorf("figure %d: %.80q: value %v, low %v, high %v, n %d", i+1, f.Name, f.Value, f.Low, f.High, f.N)
		case f.Name != f.Scenario+"/"+f.System+"/"+f.measure():
			return nil, fmt.Errorf("figure %d: %.80q: scenario %.40q, system %.40q", i+1, f.Name, f.Scenario, f.System)
		case (f.Err == "") != (f.Fault == ""):
			return nil, fmt.Errorf("figure %d: %.80q: fault %.40q, error %.40q: want both or none", i+1, f.Name, f.Fault, f.Err)
		}
		seen[f.Name] = true
	}
	return figures, nil
}

// within reports whether the value lies in its interval, but for what a mean is rounded by.
func (f *Figure) within() bool {
	rounded := 1e-9 * max(math.Abs(f.Low), math.Abs(f.High))
	return f.Low-rounded <= f.Value && f.Value <= f.High+rounded
}

// WriteChanges prints a line for each change but those that are the same, and then how many
// there are of each outcome.
func WriteChanges(w io.Writer, changes []Change) error {
	counts := map[Outcome]int{}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, c := range changes {
		counts[c.Outcome]++
		if c.Outcome != Same {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", c.Outcome, shown(c.Name), c.Old.span(), c.New.span(), shown(c.Why))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	var parts []string
	for _, o := range []Outcome{Worse, Failed, Gone, Better, Changed, New, Unlike, Same} {
		if counts[o] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[o], o))
		}
	}
	_, err := fmt.Fprintf(w, "%d figures: %s\n", len(changes), strings.Join(parts, ", "))
	return err
}

// span is a figure with its interval; – for none.
func (f *Figure) span() string {
	if f == nil || f.Err != "" || f.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.4g [%.4g to %.4g]", f.Value, f.Low, f.High)
}
