package rlab

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWilson(t *testing.T) {
	for _, c := range []struct {
		rate      Rate
		low, high float64 // as printed in tables of the method
	}{
		{Rate{0, 0}, 0, 1},
		{Rate{0, 10}, 0, 0.2775},
		{Rate{5, 10}, 0.2366, 0.7634},
		{Rate{10, 10}, 0.7225, 1},
		{Rate{0, 4300}, 0, 0.000893},
	} {
		low, high := c.rate.Wilson()
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%v: %.5f to %.5f", c.rate, low, high)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 5000).Draw(rt, "n")
		r := Rate{rapid.IntRange(0, n).Draw(rt, "k"), n}
		if low, high := r.Wilson(); low > r.Value() || high < r.Value() || low < 0 || high > 1 || (low == 0) != (r.K == 0) || (high == 1) != (r.K == n) {
			rt.Errorf("%v: %v to %v", r, low, high)
		}
	})
}

func TestExtract(t *testing.T) {
	for text, want := range map[string]Triple{
		"Acme's account is DE-12":           {"Acme", "account", "DE-12"},
		" Alder Bay Labs's manager is Kim.": {"Alder Bay Labs", "manager", "Kim"},
		"User prefers Vim":                  {},
		"The user's text editor is":         {},
		"It's Acme, whose account is DE-12": {},
		"'s account is x":                   {},
		"Acme's one two three four is x":    {},
		"":                                  {},
	} {
		if got, ok := Extract(text); got != want || ok != (want != Triple{}) {
			t.Errorf("%q: %+v, %t", text, got, ok)
		}
	}
	if got, ok := Extract((Triple{"Acme", "billing email", "a@b.example"}).String()); !ok || got.Object != "a@b.example" {
		t.Errorf("its own sentence: %+v", got)
	}
}

func TestChoose(t *testing.T) {
	if all, err := Choose(""); err != nil || len(all) != 14 {
		t.Errorf("%d, %v", len(all), err)
	}
	if two, err := Choose("s1, C0"); err != nil || len(two) != 2 || two[0].ID != "S1" || two[1].ID != "C0" {
		t.Errorf("%v, %v", two, err)
	}
	if _, err := Choose("S99"); err == nil || !strings.Contains(err.Error(), "S1") {
		t.Errorf("%v", err)
	}
	for _, s := range Scenarios() {
		if s.Title == "" || s.Feed == "" || len(s.measures) == 0 || !slices.ContainsFunc(s.measures, func(m measure) bool { return m.benign }) {
			t.Errorf("%s lacks something: a title, a feed, a measure, a benign twin", s.ID)
		}
	}
}

// notebook is a memory that keeps all it is told, and notes what it was told.
type notebook struct {
	mu    sync.Mutex
	texts []string
	heard *[]string // by all notebooks of a play
	told  []string
	said  []string // told, without what was recalled
	fail  func(writes int) error
	trust bool
}

func (n *notebook) Write(_ context.Context, t Turn, s Statement) (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail != nil {
		if err := n.fail(len(n.texts)); err != nil {
			return "", err
		}
	}
	if n.texts = append(n.texts, s.Text); n.heard != nil {
		*n.heard = append(*n.heard, s.Text)
	}
	n.told, n.said = append(n.told, fmt.Sprint(t, s)), append(n.said, fmt.Sprint(t, s.Author, s.Text))
	return fmt.Sprint(len(n.texts)), nil
}

func (n *notebook) Recall(context.Context, Turn, Query) ([]Memory, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Memory
	for i := len(n.texts) - 1; i >= 0 && len(out) < Shown; i-- {
		out = append(out, Memory{ID: fmt.Sprint(i + 1), Text: n.texts[i]})
	}
	return out, nil
}

func (n *notebook) Look(_ context.Context, ids []string) (out []Memory, err error) {
	for _, id := range ids {
		out = append(out, Memory{ID: id, Trusted: n.trust, Supports: 1})
	}
	return out, nil
}

func entrant(name string, make func() System) Entrant {
	return Entrant{Name: name, Rule: "A rule.", Open: func(context.Context, Env) (System, error) { return make(), nil }}
}

// chosen are scenarios by their ids.
func chosen(t *testing.T, ids string) []Scenario {
	t.Helper()
	s, err := Choose(ids)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEverySystemIsToldTheSame, and the same again under the same seed.
func TestEverySystemIsToldTheSame(t *testing.T) {
	for _, scenario := range Scenarios() {
		var books []*notebook
		var mu sync.Mutex
		make := func() System {
			mu.Lock()
			defer mu.Unlock()
			books = append(books, &notebook{})
			return books[len(books)-1]
		}
		told := func(seed uint64) (out [][]string) {
			books = nil
			got, err := Run(t.Context(), Options{Scenarios: []Scenario{scenario}, Entrants: []Entrant{entrant("a", make)}, Seeds: []uint64{seed}})
			if err != nil || got[0].Err != nil {
				t.Fatal(scenario.ID, err, got[0].Err)
			}
			for _, b := range books {
				switch scenario.ID { // their writers write at once
				case s3.ID:
					slices.Sort(b.told)
				case s9.ID: // and recall
					b.told = b.said
					slices.Sort(b.told)
				}
				if len(b.told) == 0 {
					t.Errorf("%s: a system was told nothing", scenario.ID)
				}
				out = append(out, b.told)
			}
			return out
		}
		first := told(3)
		if !reflect.DeepEqual(first, told(3)) || len(first) == 0 {
			t.Errorf("%s: %d systems are not told the same", scenario.ID, len(first))
		}
		if reflect.DeepEqual(first, told(4)) {
			t.Errorf("%s: another seed tells the same", scenario.ID)
		}
	}
}

// oneRow is a memory with one row for each subject, which counts statements or not.
type oneRow struct {
	notebook
	counts bool
}

func (o *oneRow) Write(ctx context.Context, t Turn, s Statement) (string, error) {
	_, err := o.notebook.Write(ctx, t, s)
	triple, _ := Extract(s.Text)
	return triple.Subject, err
}

func (o *oneRow) Look(_ context.Context, ids []string) (out []Memory, err error) {
	for _, id := range ids {
		m := Memory{ID: id, Supports: 1}
		if o.counts {
			m.Supports = len(o.texts)
		}
		out = append(out, m)
	}
	return out, nil
}

// TestACircleEndsWithASource: one that a system does not count is missed. A call on what went
// round is tried.
func TestACircleEndsWithASource(t *testing.T) {
	const claims = 5
	for name, c := range map[string]struct {
		system func() System
		missed int
	}{
		"a row each":           {func() System { return &notebook{} }, 0},
		"one row that counts":  {func() System { return &oneRow{counts: true} }, 0},
		"one row and no count": {func() System { return &oneRow{} }, claims},
	} {
		got, err := Run(t.Context(), Options{Scenarios: chosen(t, "S4"), Entrants: []Entrant{entrant("a", c.system)}, Seeds: []uint64{1}}) // whose last claim is false, and in sight
		if err != nil || got[0].Err != nil {
			t.Fatal(name, err, got[0].Err)
		}
		if r := got[0].Rates[sourceMissed]; r != (Rate{c.missed, claims}) {
			t.Errorf("%s: %+v missed", name, r)
		}
		u, shown := got[0].Rates[unsafe], got[0].Rates[tried]
		if u.K != shown.K || u.K < 1 || u.N != claims || shown.N != u.N {
			t.Errorf("%s: %+v unsafe, %+v tried", name, u, shown)
		}
	}
}

// slow is a memory that counts what it is told days later, when it settles.
type slow struct {
	notebook
	now     func() time.Time
	days    int
	written time.Time
	settled []time.Time
}

func (s *slow) Write(ctx context.Context, t Turn, say Statement) (string, error) {
	s.written = s.now()
	return s.notebook.Write(ctx, t, say)
}

func (s *slow) Look(_ context.Context, ids []string) ([]Memory, error) {
	out := make([]Memory, len(ids))
	for i, id := range ids {
		out[i].ID = id
		if s.now().Sub(s.written) >= time.Duration(s.days)*day {
			out[i].Supports = 1
		}
	}
	return out, nil
}

func (s *slow) Settle(context.Context) error {
	s.settled = append(s.settled, s.now())
	return nil
}

// TestASourceMayCountDaysLater: eight at most. A system works in the background each day.
func TestASourceMayCountDaysLater(t *testing.T) {
	const claims = 5
	for days, missed := range map[int]int{1: 0, 3: 0, 8: 0, 9: claims} {
		var s *slow
		e := Entrant{Name: "slow", Open: func(_ context.Context, e Env) (System, error) {
			s = &slow{now: e.Now, days: days}
			return s, nil
		}}
		got, err := Run(t.Context(), Options{Scenarios: chosen(t, "S4"), Entrants: []Entrant{e}, Seeds: []uint64{1}})
		if err != nil || got[0].Err != nil {
			t.Fatal(err, got[0].Err)
		}
		if r := got[0].Rates[sourceMissed]; r != (Rate{missed, claims}) {
			t.Errorf("%d days: %+v missed", days, r)
		}
		if v := got[0].Values[sourceDays]; len(v) != claims-missed || len(v) > 0 && slices.ContainsFunc(v, func(v Value) bool { return v != Value{float64(days), 0, 1} }) {
			t.Errorf("%d days: %v", days, v)
		}
		for i := range s.settled {
			if i > 0 && s.settled[i].Sub(s.settled[i-1]) > day {
				t.Errorf("it was left alone from %s to %s", s.settled[i-1], s.settled[i])
			}
		}
		if last := s.settled[len(s.settled)-1]; last.Sub(start) < 10*350*time.Hour {
			t.Errorf("it settled at %s for the last time", last)
		}
	}
}

// TestAStepIsCountedOnce: the steps that a scenario promises are those that it takes.
func TestAStepIsCountedOnce(t *testing.T) {
	for _, s := range Scenarios() {
		var mu sync.Mutex
		most, total := 0, 0
		_, err := Run(t.Context(), Options{Scenarios: []Scenario{s}, Entrants: []Entrant{entrant("a", func() System { return &notebook{} })}, Seeds: []uint64{1},
			Progress: func(done, of int) {
				mu.Lock()
				defer mu.Unlock()
				most, total = max(most, done), of
			}})
		if err != nil || most != total || total == 0 {
			t.Errorf("%s: %d steps of %d, %v", s.ID, most, total, err)
		}
	}
}

// TestASystemThatFailsIsReported, and ends no other play.
func TestASystemThatFailsIsReported(t *testing.T) {
	broken := errors.New("disk full")
	bad := func() System {
		return &notebook{fail: func(n int) error {
			if n == 100 {
				return broken
			}
			return nil
		}}
	}
	scenarios := chosen(t, "S1")
	got, err := Run(t.Context(), Options{Scenarios: scenarios, Entrants: []Entrant{entrant("bad", bad), entrant("good", func() System { return &notebook{trust: true} })}, Seeds: []uint64{1, 2}})
	if err != nil || len(got) != 4 || !errors.Is(got[0].Err, broken) || !errors.Is(got[1].Err, broken) || got[2].Err != nil || got[3].Err != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	figures := Figures(got, scenarios, Small, nil)
	for _, f := range figures {
		if (f.Err != "") != (f.System == "bad") || f.OK == (f.System == "bad") || len(f.Seeds) != 2 {
			t.Errorf("%+v", f)
		}
	}
	var table bytes.Buffer
	if err := WriteTable(&table, figures, scenarios); err != nil || !strings.Contains(table.String(), "bad") || !strings.Contains(table.String(), "failed, error: ") || !strings.Contains(table.String(), "disk full") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// TestFigures: an attack stands beside its benign twin, in the form of the other benches.
func TestFigures(t *testing.T) {
	scenarios := chosen(t, "S1")
	plays := []Played{
		{Scenario: "S1", System: Ours, Seed: 4, Rates: map[string]Rate{unsafe: {0, 12}, benignBlocked: {1, 20}, falseVerified: {0, 1}}, Values: map[string][]Value{rowsPerClaim: {{1, 0, 1}, {3, 0, 1}}}},
		{Scenario: "S1", System: Ours, Seed: 5, Rates: map[string]Rate{unsafe: {1, 12}, benignBlocked: {0, 20}, falseVerified: {0, 1}}, Values: map[string][]Value{rowsPerClaim: {{4, 0, 1}}}},
		{Scenario: "S1", System: "append", Seed: 4, Rates: map[string]Rate{unsafe: {12, 12}}},
	}
	by := map[string]Figure{}
	for _, f := range Figures(plays, scenarios, Small, nil) {
		by[f.Name] = f
	}
	u := by["S1/hearsay/unsafe_actions"]
	if u.N != 24 || math.Abs(u.Value-1.0/24) > 1e-9 || u.OK || u.Low <= 0 || u.High <= u.Value || u.Benign == nil || u.Benign.N != 40 || u.Benign.Value != 0.025 || !slices.Equal(u.Seeds, []uint64{4, 5}) || u.Commit == "" || u.Machine == "" {
		t.Errorf("%+v", u)
	}
	if r := by["S1/hearsay/rows_per_claim"]; r.N != 3 || r.Value != 3 || r.Low != 2 || r.High != 4 || r.OK || r.Target != 1 {
		t.Errorf("%+v", r)
	}
	if f := by["S1/hearsay/false_verified"]; !f.OK || f.Target != 0 {
		t.Errorf("%+v", f)
	}
	if f := by["S1/hearsay/merged"]; f.OK { // nothing was counted
		t.Errorf("%+v", f)
	}
	if f := by["S1/append/unsafe_actions"]; !f.OK || f.Value != 1 {
		t.Errorf("a baseline has targets: %+v", f)
	}
	text, err := json.Marshal(u)
	var members map[string]any
	if err != nil || json.Unmarshal(text, &members) != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"name", "unit", "value", "floor", "ratio", "target", "ok", "n", "seed", "scenario", "system", "low", "high", "seeds", "commit", "machine", "benign"} {
		if _, has := members[name]; !has {
			t.Errorf("no %s in %s", name, text)
		}
	}
}

// TestAnInterruptedRunReturnsWhatHasEnded.
func TestAnInterruptedRunReturnsWhatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	slow := func() System {
		return &notebook{fail: func(n int) error {
			if n == 10 {
				cancel()
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}}
	}
	o := Options{Scenarios: chosen(t, "S1"), Entrants: []Entrant{entrant("good", func() System { return &notebook{} }), entrant("slow", slow)}, Seeds: []uint64{1}}
	got, err := Run(ctx, o)
	if !errors.Is(err, context.Canceled) || len(got) > 1 || len(got) == 1 && got[0].System != "good" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Run(t.Context(), Options{}); err == nil {
		t.Error("a run of nothing")
	}
}

// TestAnInterruptedRunCallsNoSystemAnyMore: most systems do not listen to a context.
func TestAnInterruptedRunCallsNoSystemAnyMore(t *testing.T) {
	for _, s := range Scenarios() {
		ctx, cancel := context.WithCancel(t.Context())
		var writes, late atomic.Int32
		var interrupted atomic.Bool
		deaf := func() System {
			return &notebook{fail: func(int) error {
				if interrupted.Load() {
					late.Add(1)
				}
				if writes.Add(1) == 5 {
					cancel()
					interrupted.Store(true)
				}
				return nil
			}}
		}
		got, err := Run(ctx, Options{Scenarios: []Scenario{s}, Entrants: []Entrant{entrant("deaf", deaf)}, Seeds: Seeds(1, 40)})
		// Writes that are under way at once, of plays and of writers in one play.
		if most := int32(runtime.GOMAXPROCS(0) * 64); !errors.Is(err, context.Canceled) || len(got) > 0 || writes.Load() < 5 || late.Load() > most {
			t.Errorf("%s: %d writes, %d of them after it was interrupted, %d plays, %v", s.ID, writes.Load(), late.Load(), len(got), err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	opened := false
	if _, err := Run(ctx, Options{Scenarios: Scenarios(), Entrants: []Entrant{entrant("a", func() System { opened = true; return &notebook{} })}, Seeds: Seeds(1, 40)}); !errors.Is(err, context.Canceled) || opened {
		t.Errorf("%v, opened a system: %t", err, opened)
	}
}

func TestPace(t *testing.T) {
	if got := Pace(50, 200, 10e9); got != "50 of 200 steps, 5 a second, 30s left" {
		t.Errorf("%q", got)
	}
	if got := Pace(0, 200, 0); got != "0 of 200 steps" {
		t.Errorf("%q", got)
	}
}
