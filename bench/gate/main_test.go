package main

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// TestTheRuleIsThatOfCedarAndRego: the three name the same rows for drawn requests, and
// the program prints what each of them costs, with the targets. How fast this machine
// is, is no matter.
func TestTheRuleIsThatOfCedarAndRego(t *testing.T) {
	b := bench{store: "sqlite", rounds: 20, seed: 7, only: "rule", progress: io.Discard}
	figures, err := b.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := report.Write(&out, figures, true); err != nil {
		t.Fatal(err)
	}
	var printed []report.Figure
	if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	got := map[string]report.Figure{}
	for _, f := range printed {
		got[f.Name] = f
	}
	for name, want := range map[string]struct {
		target float64
		ratio  bool
	}{
		"evaluate/20_rows/p50":                    {1, false},
		"evaluate/20_rows/cedar":                  {10, true},
		"evaluate/20_rows/rego":                   {10, true},
		"evaluate/same_answers_as_cedar_and_rego": {500, false},
	} {
		f, ok := got[name]
		if !ok || f.Target != want.target || (f.Floor > 0) != want.ratio || (f.Ratio > 0) != want.ratio || f.Value <= 0 || f.Unit == "" || f.N == 0 {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
