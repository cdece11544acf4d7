package rlab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/bench/report"
)

// fig is a figure of one system.
func fig(change ...func(*Figure)) *Figure {
	f := &Figure{Figure: report.Figure{Name: "S1/hearsay/rows", Unit: "rows", Value: 0.5, N: 40}, Low: 0.4, High: 0.6, Seeds: []uint64{1, 2, 3}, Scale: "small", Data: []string{}, Machine: "here"}
	for _, c := range change {
		c(f)
	}
	return f
}

func between(low, high float64) func(*Figure) {
	return func(f *Figure) { f.Low, f.Value, f.High = low, (low+high)/2, high }
}

func named(measure string) func(*Figure) {
	return func(f *Figure) { f.Name = "S1/hearsay/" + measure }
}

func TestCompare(t *testing.T) {
	failed := func(f *Figure) { f.Err, f.Fault, f.N = "it is gone", "no answer", 0 }
	nothing := func(f *Figure) { f.N = 0 }
	time := func(seeds int) func(*Figure) {
		return func(f *Figure) { f.Unit, f.Seeds = "ms", make([]uint64, seeds) }
	}
	repair := func(seeds int) func(*Figure) { // simulated minutes, of a clock that runs by itself
		return func(f *Figure) { f.Scenario, f.Unit, f.Seeds = "S6", "minutes", make([]uint64, seeds) }
	}
	hours := func(f *Figure) { f.Scenario, f.Unit, f.Seeds = "S7", "hours", make([]uint64, 1) }
	for name, c := range map[string]struct {
		old, now *Figure
		want     Outcome
	}{
		"the same":                          {fig(), fig(), Same},
		"intervals that overlap":            {fig(), fig(between(0.59, 0.9)), Same},
		"intervals that touch":              {fig(), fig(between(0.6, 0.9)), Same},
		"above":                             {fig(), fig(between(0.61, 0.9)), Worse},
		"below":                             {fig(), fig(between(0.1, 0.39)), Better},
		"one value, and a higher one":       {fig(between(1, 1)), fig(between(1.01, 1.01)), Worse},
		"zero, and more":                    {fig(between(0, 0)), fig(between(1, 1)), Worse},
		"it failed":                         {fig(), fig(failed), Failed},
		"it failed before":                  {fig(failed), fig(), New},
		"it fails as before":                {fig(failed), fig(failed), Same},
		"it fails, and is gone now":         {fig(failed), nil, Same},
		"it is gone":                        {fig(), nil, Gone},
		"nothing is measured any more":      {fig(), fig(nothing), Gone},
		"nothing was measured before":       {fig(nothing), fig(), New},
		"nothing is measured":               {fig(nothing), fig(nothing), Same},
		"another scale":                     {fig(), fig(func(f *Figure) { f.Scale = "full" }, between(9, 9)), Unlike},
		"another form of the bench":         {fig(), fig(func(f *Figure) { f.Form = 9 }, between(9, 9)), Unlike},
		"repairs of two seeds":              {fig(repair(2)), fig(repair(3), between(9, 9)), Unlike},
		"repairs of three seeds":            {fig(repair(3)), fig(repair(3), between(9, 9)), Worse},
		"hours of one seed":                 {fig(hours), fig(hours, between(9, 9)), Worse},
		"other sets":                        {fig(), fig(func(f *Figure) { f.Data = []string{"nq.json"} }, between(9, 9)), Unlike},
		"another file of that name":         {fig(func(f *Figure) { f.Data = []string{"nq.json a1"} }), fig(func(f *Figure) { f.Data = []string{"nq.json a2"} }, between(9, 9)), Unlike},
		"more people asked":                 {fig(named("held_true")), fig(named("held_true"), between(0.61, 0.9)), Changed},
		"fewer people asked":                {fig(named("held_false")), fig(named("held_false"), between(0.1, 0.39)), Changed},
		"as many people asked":              {fig(named("held_false")), fig(named("held_false"), between(0.5, 0.9)), Same},
		"more is hidden":                    {fig(named("tried")), fig(named("tried"), between(0.1, 0.39)), Changed},
		"nobody is asked any more":          {fig(named("held_false")), nil, Gone},
		"times of three seeds":              {fig(time(3)), fig(time(3), between(9, 9)), Worse},
		"times of two seeds":                {fig(time(3)), fig(time(2), between(9, 9)), Unlike},
		"times of two seeds before":         {fig(time(2)), fig(time(3), between(9, 9)), Unlike},
		"times of another machine":          {fig(time(3)), fig(time(3), between(9, 9), func(f *Figure) { f.Machine = "there" }), Unlike},
		"a share of another machine":        {fig(), fig(between(9, 9), func(f *Figure) { f.Machine = "there" }), Worse},
		"times that fail of one seed alone": {fig(time(1)), fig(time(1), failed), Failed},
	} {
		var after []Figure
		if c.now != nil {
			after = append(after, *c.now)
		}
		got := Compare([]Figure{*c.old}, after)
		if len(got) != 1 || got[0].Outcome != c.want || got[0].Name != c.old.Name || got[0].Outcome.Regression() != (c.want == Worse || c.want == Failed || c.want == Gone) {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
	if got := Compare(nil, []Figure{*fig()}); len(got) != 1 || got[0].Outcome != New || got[0].Outcome.Regression() {
		t.Errorf("%+v", got)
	}
}

// TestAMeasureThatAnotherFormDropped is not compared. One that is gone in the same form is.
func TestAMeasureThatAnotherFormDropped(t *testing.T) {
	old := []Figure{*fig(), *fig(named("dropped"))}
	for form, want := range map[int]Outcome{0: Gone, 9: Unlike} {
		got := Compare(old, []Figure{*fig(func(f *Figure) { f.Form = form })})
		if len(got) != 2 || got[1].Outcome != want {
			t.Errorf("form %d: %+v, want %s", form, got, want)
		}
	}
}

// TestWhatSeedsScatterIsTheirMeans: a figure that is worse by far in one seed is worse, however
// many values it is made of.
func TestWhatSeedsScatterIsTheirMeans(t *testing.T) {
	run := func(bad int) []Figure {
		var hours []Value
		for i := range 30 {
			v := Value{N: 1}
			if i < bad {
				v.V = 24
			}
			hours = append(hours, v)
		}
		return Figures([]Played{{Scenario: "S7", System: "a", Seed: 1, Values: map[string][]Value{oldHours: hours}}}, chosen(t, "S7"), Small, nil)
	}
	for bad, want := range map[int]Outcome{0: Same, 1: Worse, 29: Worse} {
		for _, c := range Compare(run(0), run(bad)) {
			if c.Name == "S7/a/"+oldHours && c.Outcome != want {
				t.Errorf("%d of 30 facts: %+v", bad, c)
			}
		}
	}
}

// TestNothingOfAnInterruptedRunIsCompared, not even what is gone.
func TestNothingOfAnInterruptedRunIsCompared(t *testing.T) {
	cut := fig(func(f *Figure) { f.Interrupted = true }, between(9, 9))
	other := fig(func(f *Figure) { f.Name = "S1/a/other" })
	for _, changes := range [][]Change{Compare([]Figure{*fig(), *other}, []Figure{*cut}), Compare([]Figure{*cut}, []Figure{*fig()})} {
		for _, c := range changes {
			if c.Outcome != Unlike {
				t.Errorf("%+v", c)
			}
		}
	}
}

// TestCompareIsFair: a run beside itself changes nothing, every figure is in exactly one
// change, and worse one way is better the other.
func TestCompareIsFair(t *testing.T) {
	run := rapid.Custom(func(t *rapid.T) (out []Figure) {
		for i := range 6 {
			if rapid.Bool().Draw(t, "there") {
				low := float64(rapid.IntRange(0, 4).Draw(t, "low"))
				out = append(out, *fig(between(low, low+float64(rapid.IntRange(0, 2).Draw(t, "wide"))), func(f *Figure) { f.Name = fmt.Sprintf("S1/a/m%d", i) }))
			}
		}
		return out
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := run.Draw(t, "a"), run.Draw(t, "b")
		for _, c := range Compare(a, a) {
			if c.Outcome != Same {
				t.Fatalf("%+v", c)
			}
		}
		mirror := map[Outcome]Outcome{Worse: Better, Better: Worse, Same: Same, Gone: New, New: Gone}
		back := map[string]Outcome{}
		for _, c := range Compare(b, a) {
			back[c.Name] = c.Outcome
		}
		there := Compare(a, b)
		if len(there) != len(back) {
			t.Fatalf("%d changes and %d back", len(there), len(back))
		}
		for _, c := range there {
			if back[c.Name] != mirror[c.Outcome] {
				t.Fatalf("%s: %s, and back %s", c.Name, c.Outcome, back[c.Name])
			}
		}
	})
}

func TestFiguresAreReadAsTheyWerePrinted(t *testing.T) {
	scenarios, err := Choose("C0")
	if err != nil {
		t.Fatal(err)
	}
	plays, err := Run(t.Context(), Options{Scenarios: scenarios, Entrants: []Entrant{
		entrant("mine", func() System { return &notebook{} }),
		entrant("broken", func() System { return &notebook{fail: func(int) error { return errors.New("\x1b[31mbroken") }} }),
	}, Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	printed := Figures(plays, scenarios, Small, nil)
	text, err := json.Marshal(printed)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadFigures(bytes.NewReader(text))
	if err != nil || len(read) != len(printed) || len(read) == 0 {
		t.Fatal(len(read), err)
	}
	for _, c := range Compare(printed, read) {
		if c.Outcome != Same && !(c.Outcome == Unlike && c.Old.Unit == milliseconds) {
			t.Errorf("%+v", c)
		}
	}
	var out bytes.Buffer
	if err := WriteChanges(&out, Compare(read, nil)); err != nil || !strings.Contains(out.String(), "gone") || strings.ContainsRune(out.String(), '\x1b') {
		t.Errorf("%v\n%s", err, &out)
	}
	for says, text := range map[string]string{
		"not the output": "{}", "no figure": "[]", "want SCENARIO": `[{"name":"rows"}]`, "twice": `[{"name":"a/b/c","scenario":"a","system":"b"},{"name":"a/b/c","scenario":"a","system":"b"}]`, "low 2": `[{"name":"a/b/c","low":2,"high":1}]`, "n -1": `[{"name":"a/b/c","n":-1}]`,
		// Without its interval, or outside of it, a figure would be the same as any other.
		"low 0, high 0": `[{"name":"a/b/c","scenario":"a","system":"b","n":1,"value":0.5}]`, "value 2": `[{"name":"a/b/c","scenario":"a","system":"b","n":1,"value":2,"low":0,"high":1}]`,
		"system \"x\"": `[{"name":"a/b/c","scenario":"a","system":"x"}]`, "want both": `[{"name":"a/b/c","scenario":"a","system":"b","fault":"late"}]`,
		"bytes": strings.Repeat(" ", maxFile+1),
	} {
		if _, err := ReadFigures(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40s: %v, want %q", text, err, says)
		}
	}
}
