package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
)

// run is a run with these arguments.
func run(t *testing.T, ctx context.Context, args ...string) (out, talk string, err error) {
	t.Helper()
	var r Run
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	r.Flags(fs)
	fs.StringVar(&r.Output, "o", "table", "")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var o, e bytes.Buffer
	err = r.Run(ctx, &o, &e)
	return o.String(), e.String(), err
}

func TestACommandLineThatMakesNoSenseIsRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"--scenario": {"-scenario", "S99"},
		"--systems":  {"-systems", "mem0"},
		"--scale":    {"-scale", "huge"},
		"--seeds 0":  {"-seeds", "0"},
		"S1 is":      {"-scenario", "S1,s1"},
		"append is":  {"-systems", "append,append"},
		"--seeds -1": {"-seeds", "-1"},
		"-o":         {"-o", "xml"},
		"--patience": {"-patience", "0s"},
		"--limit":    {"-limit", "-1s"},
		"--data":     {"-data", t.TempDir()},
		"last seed":  {"-seed", "18446744073709551615", "-seeds", "2"},
		"--report":   {"-report", t.TempDir()},
	} {
		if out, _, err := run(t, t.Context(), args...); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), says) || out != "" {
			t.Errorf("%q: %v, printed %q", args, err, out)
		}
	}
}

// TestASystemOfTheCallerIsPlayed, under a name of its own.
func TestASystemOfTheCallerIsPlayed(t *testing.T) {
	mine := rules.Named("append")[0]
	mine.Name = "mine"
	if code := Main([]string{"-scenario", "C0", "-systems", "mine"}, mine); code != 0 {
		t.Errorf("exit status %d", code)
	}
	for args, code := range map[string]int{"-h": 0, "-nothing": 2, "S1": 2, "-systems=mem0": 2} {
		if got := Main([]string{args}, mine); got != code {
			t.Errorf("%s: exit status %d", args, got)
		}
	}
	for says, more := range map[string][]rlab.Entrant{
		"two systems": {mine, mine}, `"hearsay"`: {{Name: "hearsay", Open: mine.Open}}, "name": {{Open: mine.Open}}, "letters and digits": {{Name: "a/b", Open: mine.Open}}, "of ASCII": {{Name: "hear\u200bsay", Open: mine.Open}}, `named "hearsay"`: {{Name: "HEARSAY", Open: mine.Open}}, "any of": {{Name: "a (no gate)", Open: mine.Open}}, "1 to 40": {{Name: strings.Repeat("a", 41), Open: mine.Open}}, "Open": {{Name: "a"}},
	} {
		r := Run{More: more, Scale: "small", Output: "table", Seeds: 1, Patience: 1, Limit: 1}
		var out bytes.Buffer
		if err := r.Run(t.Context(), &out, &out); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestFiguresAndTable(t *testing.T) {
	args := []string{"-scenario", "C0,S1", "-systems", "append,confidence", "-seeds", "2"}
	out, talk, err := run(t, t.Context(), append(args, "-o", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	var figures []rlab.Figure
	if err := json.Unmarshal([]byte(out), &figures); err != nil || len(figures) < 2*8 || strings.Contains(talk, "failed") {
		t.Fatalf("%d figures, %v, said %q", len(figures), err, talk)
	}
	for _, f := range figures {
		if f.N == 0 && !(f.NoGate && strings.Contains(f.Name, "/gate_p")) || len(f.Seeds) != 2 {
			t.Errorf("%+v", f)
		}
		// What a memory without a gate is for: it acts on what it was told.
		if strings.HasSuffix(f.Name, "/unsafe_actions") && f.Value != 1 || strings.HasSuffix(f.Name, "/benign_blocked") && f.Value != 0 {
			t.Errorf("%s is %v", f.Name, f.Value)
		}
	}
	again, _, err := run(t, t.Context(), append(args, "-o", "json")...)
	var second []rlab.Figure
	if err != nil || json.Unmarshal([]byte(again), &second) != nil || len(second) != len(figures) {
		t.Fatalf("%v, %d figures and then %d", err, len(figures), len(second))
	}
	for i := range second {
		if second[i].Unit != "ms" && !reflect.DeepEqual(second[i], figures[i]) {
			t.Errorf("the same seeds give %+v and then %+v", figures[i], second[i])
		}
	}
	table, _, err := run(t, t.Context(), append(args, "-seeds", "1")...)
	if err != nil || strings.Count(table, "append") != 2 || !strings.Contains(table, "3/3") || !strings.Contains(table, "Commit ") {
		t.Errorf("%v\n%s", err, table)
	}
}

// TestASystemThatFailsFailsTheRun, after the others were played.
func TestASystemThatFailsFailsTheRun(t *testing.T) {
	gone := "gone=http://127.0.0.1:1"
	out, talk, err := run(t, t.Context(), "-scenario", "C0", "-systems", "append", "-http", gone)
	if !errors.Is(err, ErrFailed) || !strings.Contains(out, "failed, no answer") || !strings.Contains(out, "append (no gate)") || !strings.Contains(talk, "gone, seed 1: failed") {
		t.Errorf("%v\n%s\n%s", err, out, talk)
	}
	if _, _, err := run(t, t.Context(), "-scenario", "C0", "-systems", "append", "-http", gone, "-check"); !errors.Is(err, ErrMissed) {
		t.Errorf("%v", err)
	}
	if code := Main([]string{"-scenario", "C0", "-systems", "append", "-http", gone}); code != 1 {
		t.Errorf("exit status %d", code)
	}
}

func TestAnInterruptedRunSaysSo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out, talk, err := run(t, ctx, "-systems", "append"); !errors.Is(err, ErrInterrupted) || out != "" || !strings.Contains(talk, fmt.Sprintf("interrupted: 0 of %d plays", len(rlab.Scenarios()))) {
		t.Errorf("%v, %q, %q", err, out, talk)
	}
}

// TestFiguresOfAnInterruptedRunSaySo interrupts a run when its last play begins. As many plays
// run at once as there are processors, so at least one has ended by then.
func TestFiguresOfAnInterruptedRunSaySo(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		mine, seeds := rules.Named("append")[0], runtime.GOMAXPROCS(0)+1
		var opened atomic.Int32
		open := mine.Open
		mine.Name = "mine"
		mine.Open = func(ctx context.Context, e rlab.Env) (rlab.System, error) {
			if opened.Add(1) == int32(seeds) && interrupted {
				cancel()
			}
			return open(ctx, e)
		}
		r := Run{More: []rlab.Entrant{mine}, Scenarios: "C0", Systems: "mine", Scale: "small", Output: "json", Seeds: seeds, Seed: 1, Patience: time.Minute, Limit: time.Hour}
		var out, talk bytes.Buffer
		err := r.Run(ctx, &out, &talk)
		var figures []rlab.Figure
		if errors.Is(err, ErrInterrupted) != interrupted || json.Unmarshal(out.Bytes(), &figures) != nil || len(figures) == 0 {
			t.Fatalf("interrupted %t: %v, %d figures, said %q", interrupted, err, len(figures), talk.String())
		}
		var table bytes.Buffer
		if err := write(&table, figures, rlab.Scenarios()[:1], "table"); err != nil || strings.Contains(table.String(), "The run was interrupted") != interrupted {
			t.Errorf("interrupted %t: %v\n%s", interrupted, err, table.String())
		}
		for _, f := range figures {
			if f.Interrupted != interrupted {
				t.Errorf("interrupted %t: %+v", interrupted, f)
			}
		}
	}
}
