package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
)

func page(t *testing.T, figures []rlab.Figure) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, figures); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func fig(name string, change ...func(*rlab.Figure)) rlab.Figure {
	parts := strings.SplitN(name, "/", 3)
	f := rlab.Figure{Figure: report.Figure{Name: name, Unit: "calls", Value: 0.5, N: 40, OK: true}, Scenario: parts[0], System: parts[1], Low: 0.4, High: 0.6, Seeds: []uint64{1}, Scale: "small", Commit: "abc", Machine: "here"}
	for _, c := range change {
		c(&f)
	}
	return f
}

// drawings are the SVG elements of a page. Each is well-formed XML.
func drawings(t *testing.T, html string) []string {
	t.Helper()
	all := regexp.MustCompile(`(?s)<svg role="img".*?</svg>`).FindAllString(html, -1)
	for _, s := range all {
		d := xml.NewDecoder(strings.NewReader(s))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in %.200s", err, s)
			}
		}
	}
	return all
}

// TestThePageOfARun has a chart for each kind of figure, with a table behind each, and every
// figure in the table of all.
func TestThePageOfARun(t *testing.T) {
	scenarios, err := rlab.Choose("C0,S1,S4,S7")
	if err != nil {
		t.Fatal(err)
	}
	broken := rlab.Entrant{Name: "broken", Open: rules.Named("append")[0].Open}
	plays, err := rlab.Run(t.Context(), rlab.Options{Scenarios: scenarios, Entrants: rules.Named("append", "session-corroboration"), Seeds: []uint64{1}})
	if err != nil {
		t.Fatal(err)
	}
	plays = append(plays, rlab.Played{Scenario: "S1", System: broken.Name, Seed: 1, Err: fmt.Errorf("%w: it is gone", rlab.ErrNoAnswer)})
	figures := rlab.Figures(plays, scenarios, rlab.Small, nil)
	html := page(t, figures)
	for _, want := range []string{"<h3>Growth</h3>", "<h3>Corroboration</h3>", "<h3>Unsafe against benign blocked</h3>", "<h3>Decisions</h3>", "<h3>Writes</h3>", "<h3>A fact that changed</h3>", "said 808 times", "said 351 times", "S1, broken: no answer: seed 1: no answer: it is gone", "What this does not show"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	svgs := drawings(t, html)
	if tables := strings.Count(html, "<details><summary>Table: "); len(svgs) != tables || len(svgs) < 9 {
		t.Errorf("%d charts and %d tables behind them", len(svgs), tables)
	}
	if rows := strings.Count(html[strings.Index(html, "<h2>All figures</h2>"):], "<tr>"); rows != len(figures)+1 {
		t.Errorf("%d rows of %d figures", rows-1, len(figures))
	}
	grown := false
	for _, f := range figures {
		if f.Name == "S1/append/rows_per_claim" {
			grown = len(f.Series) > 10 && f.Series[0] == rlab.Point{Said: 1, Value: 1} && f.Series[len(f.Series)-1] == rlab.Point{Said: 808, Value: 808}
		}
	}
	if !grown {
		t.Error("the memories of append do not grow from 1 to 808")
	}
	if page(t, figures) != html {
		t.Error("the same figures make another page")
	}
	// Half of the facts of S7 that changed are refused under their new value: 30 of 90 calls.
	if !strings.Contains(html, "<td>session-corroboration</td><td>1 (0.9398 to 1)</td><td>60</td><td>0.3333 (") {
		t.Error("the benign twins are not the sum of their measures")
	}
	const interrupted = "The run was interrupted"
	if strings.Contains(html, interrupted) {
		t.Error("a whole run is said to be interrupted")
	}
	figures[0].Interrupted = true
	if !strings.Contains(page(t, figures), interrupted) {
		t.Error("an interrupted run is said to be whole")
	}
	t.Logf("%d charts, %d figures, %d bytes", len(svgs), len(figures), len(html))
}

// TestThePageNeedsNothingElse: it asks no network, runs no script, and has no colour of its own
// in a drawing.
func TestThePageNeedsNothingElse(t *testing.T) {
	grows := func(f *rlab.Figure) { f.Series = []rlab.Point{{Said: 1, Value: 1}, {Said: 8, Value: 0}} }
	html := page(t, []rlab.Figure{fig("S1/a/rows_per_claim", grows), fig("S1/a/unsafe_actions"), fig("S1/a/benign_blocked"), fig("S1/a/asked"), fig("S1/a/gate_p50_ms")})
	for _, s := range drawings(t, html) {
		if at := regexp.MustCompile(`#[0-9a-fA-F]{6}|font-family|width="[^"]*pt"`).FindString(s); at != "" {
			t.Errorf("a drawing has %s", at)
		}
	}
	rest := regexp.MustCompile(`http://www\.w3\.org/(2000/svg|1999/xlink)`).ReplaceAllString(html, "")
	for _, no := range []string{"<script", "http://", "https://", "src=", "@import", "url("} {
		if strings.Contains(rest, no) {
			t.Errorf("the page has %q", no)
		}
	}
	if !strings.Contains(html, `content="default-src 'none'; style-src 'unsafe-inline'"`) {
		t.Error("the page has no policy")
	}
}

// TestATextOfASystemIsText: whatever a file of figures says stays text.
func TestATextOfASystemIsText(t *testing.T) {
	const evil = "</text><script>alert(1)</script>\x1b[31m\u202e\"'"
	change := func(f *rlab.Figure) {
		f.System, f.Unit, f.Commit, f.Machine, f.Scale, f.Data = evil, evil, evil, evil, evil, []string{evil}
	}
	fails := func(f *rlab.Figure) { change(f); f.Err, f.Fault = evil, evil }
	grows := func(f *rlab.Figure) { f.Series = []rlab.Point{{Said: 1, Value: 1}} }
	html := page(t, []rlab.Figure{fig("S1/a/unsafe_actions", change), fig("S1/a/rows_per_claim", change, grows), fig(evil+"/a/merged", change), fig("S1/b/merged", fails), fig("S1/a/gate_p50_ms", change)})
	drawings(t, html)
	if strings.Contains(html, "<script") || strings.ContainsAny(html, "\x1b\u202e") || !strings.Contains(html, "&lt;script&gt;") {
		t.Error(html)
	}
}

// TestOddValuesAreDrawn: no figure of a file keeps the page from being made.
func TestOddValuesAreDrawn(t *testing.T) {
	for name, f := range map[string]rlab.Figure{
		"zero":           fig("S1/a/gate_p50_ms", func(f *rlab.Figure) { f.Low, f.Value, f.High = 0, 0, 0 }),
		"below zero":     fig("S1/a/gate_p50_ms", func(f *rlab.Figure) { f.Low, f.Value, f.High = -1, -1, -1 }),
		"huge":           fig("S1/a/asked", func(f *rlab.Figure) { f.Low, f.Value, f.High = 1, 1e300, 1e300 }),
		"huge time":      fig("S1/a/gate_p50_ms", func(f *rlab.Figure) { f.Low, f.Value, f.High = 1, 1e300, 1e300 }),
		"tiny":           fig("S1/a/gate_p50_ms", func(f *rlab.Figure) { f.Low, f.Value, f.High = 1e-300, 1e-300, 1e-300 }),
		"a long name":    fig("S1/" + strings.Repeat("long ", 100) + "/unsafe_actions"),
		"growth of none": fig("S1/a/rows_per_claim", func(f *rlab.Figure) { f.Series = []rlab.Point{{Said: -1, Value: -5}, {Said: 0, Value: 0}} }),
		"huge growth":    fig("S1/a/rows_per_claim", func(f *rlab.Figure) { f.Series = []rlab.Point{{Said: math.MaxInt, Value: 1e300}} }),
		"no seeds":       fig("S9/a/unsafe_actions", func(f *rlab.Figure) { f.Seeds = nil }),
		"no figure":      fig("S1/a/unsafe_actions", func(f *rlab.Figure) { f.N = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			html := page(t, []rlab.Figure{f})
			drawings(t, html)
			if len(html) > 1<<20 {
				t.Errorf("%d bytes", len(html))
			}
		})
	}
	if err := Write(io.Discard, nil); err == nil {
		t.Error("a page of nothing")
	}
}
