package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestBenchRun(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		args []string
		code int
		out  string
		talk string
	}{
		"a scenario":              {[]string{"bench", "run", "--scenario", "C0", "--systems", "append"}, exitDone, "C0  control: no loop", ""},
		"an unknown scenario":     {[]string{"bench", "run", "--scenario", "S99"}, exitUsage, "", "no scenario"},
		"an argument too many":    {[]string{"bench", "run", "S1"}, exitUsage, "", "takes no argument"},
		"a system twice":          {[]string{"bench", "run", "--http", "append=http://127.0.0.1:1"}, exitUsage, "", "two systems"},
		"a system nowhere":        {[]string{"bench", "run", "--http", "mine"}, exitUsage, "", "NAME=WHERE"},
		"a system at no URL":      {[]string{"bench", "run", "--http", "mine=127.0.0.1:1"}, exitUsage, "", "want http://"},
		"a system of no program":  {[]string{"bench", "run", "--mcp", "mine=/no/such/program"}, exitUsage, "", "--mcp mine"},
		"a system without a name": {[]string{"bench", "run", "--mcp", "=cat"}, exitUsage, "", "name"},
		"served to all":           {[]string{"bench", "serve-example", "--listen", "0.0.0.0:0"}, exitUsage, "", "local address"},
		"served anywhere":         {[]string{"bench", "serve-example", "--listen", ""}, exitUsage, "", "local address"},
		"served under no name":    {[]string{"bench", "serve-example", "--system", "mem0"}, exitUsage, "", "want one of"},
		"no command":              {[]string{"bench"}, exitUsage, "", "run"},
		"what it is and measures": {[]string{"bench", "run", "--help"}, exitDone, "--seeds", ""},
	} {
		if r := w.run(c.args...); r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(r.talk, c.talk) {
			t.Errorf("%s: exit %d\n%s\n%s", name, r.code, r.out, r.talk)
		}
	}
}

// TestBenchServesAnExample over HTTP, where a run plays it, until it is interrupted.
func TestBenchServesAnExample(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	talk := &testmain.Output{}
	a := &app{out: io.Discard, talk: talk, getenv: func(string) string { return "" }, now: time.Now}
	ended := make(chan int, 1)
	go func() { ended <- a.run(ctx, []string{"bench", "serve-example", "--listen", "127.0.0.1:0"}) }()
	at := regexp.MustCompile(`on (http://[0-9.:]+),`)
	eventually(t, "it listens", func() bool { return at.MatchString(talk.String()) })
	url := at.FindStringSubmatch(talk.String())[1]
	w := newWorld(t)
	r := w.run("bench", "run", "--scenario", "C0", "--systems", "append", "--http", "mine="+url, "--mcp", "other="+url+"/mcp")
	if r.code != exitDone || !strings.Contains(r.out, "mine (no gate)") || !strings.Contains(r.out, "other (no gate)") || strings.Contains(r.out, "failed") {
		t.Errorf("exit %d\n%s\n%s", r.code, r.out, r.talk)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/close", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "evil.example"
	if resp, err := http.DefaultClient.Do(request); err != nil || resp.StatusCode != http.StatusForbidden {
		t.Error(resp, err)
	} else {
		resp.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if code := <-ended; code != exitDone {
		t.Errorf("exit %d\n%s", code, talk.String())
	}
	a.in = strings.NewReader("") // a client that has gone
	if code := a.run(t.Context(), []string{"bench", "serve-example", "--stdio"}); code != exitDone {
		t.Errorf("exit %d\n%s", code, talk.String())
	}
}

// TestBenchCompare: the exit status says whether anything is worse.
func TestBenchCompare(t *testing.T) {
	w := newWorld(t)
	write := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	figure := func(low, high float64) string {
		return fmt.Sprintf(`[{"name":"S1/a/rows","scenario":"S1","system":"a","unit":"rows","n":5,"value":%v,"low":%v,"high":%v,"seeds":[1]}]`, low, low, high)
	}
	good, bad, none := write("good", figure(0, 1)), write("bad", figure(2, 3)), write("none", "[]")
	failed := write("failed", strings.Replace(figure(0, 0), `"n":5`, `"n":0,"error":"it is gone","fault":"no answer"`, 1))
	larger, cut := write("larger", strings.Replace(figure(2, 3), `"n":5`, `"scale":"full","n":5`, 1)), write("cut", strings.Replace(figure(2, 3), `"n":5`, `"interrupted":true,"n":5`, 1))
	for name, c := range map[string]struct {
		args []string
		code int
		out  string
		talk string
	}{
		"worse":                {[]string{good, bad}, exitNo, "worse  S1/a/rows  0 [0 to 1]  2 [2 to 3]", "1 of 1 figures are worse"},
		"worse, for a program": {[]string{"-o", "json", good, bad}, exitNo, `"outcome": "worse"`, "1 of 1"},
		"better":               {[]string{bad, good}, exitDone, "1 figures: 1 better", ""},
		"the same":             {[]string{good, good}, exitDone, "1 figures: 1 same", ""},
		"no file":              {[]string{good, "/no/such/file"}, exitUsage, "", "no such file"},
		"no figures":           {[]string{none, good}, exitUsage, "", "no figure"},
		"another scale":        {[]string{good, larger}, exitUsage, "another scale", "no figure of"},
		"interrupted":          {[]string{good, cut}, exitUsage, "interrupted", "no figure of"},
		"failed in both":       {[]string{failed, failed}, exitUsage, "1 figures: 1 same", "no figure of"},
		"one file":             {[]string{good}, exitUsage, "", "want OLD NEW"},
		"another output":       {[]string{"-o", "xml", good, good}, exitUsage, "", "table or json"},
	} {
		if r := w.run(append([]string{"bench", "compare"}, c.args...)...); r.code != c.code || !strings.Contains(r.out, c.out) || !strings.Contains(r.talk, c.talk) {
			t.Errorf("%s: exit %d\n%s\n%s", name, r.code, r.out, r.talk)
		}
	}
}

// TestBenchReport: the page of a run is that of its file.
func TestBenchReport(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	html, file := filepath.Join(dir, "report.html"), filepath.Join(dir, "run.json")
	r := w.run("bench", "run", "--scenario", "C0", "--systems", "append", "-o", "json", "--report", html)
	if r.code != exitDone {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if err := os.WriteFile(file, []byte(r.out), 0o600); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	if out := w.ok("bench", "report", file); out != string(page) || !strings.Contains(out, "<svg role=") {
		t.Errorf("%d bytes, and %d of the run", len(out), len(page))
	}
	for says, args := range map[string][]string{"no such file": {"bench", "report", filepath.Join(dir, "none")}, "want FILE": {"bench", "report"}, "not the output": {"bench", "report", html}} {
		if r := w.run(args...); r.code != exitUsage || !strings.Contains(r.talk, says) {
			t.Errorf("%s: exit %d\n%s", says, r.code, r.talk)
		}
	}
	if r := w.run("bench", "run", "--scenario", "C0", "--systems", "append", "--report", filepath.Join(dir, "no", "folder")); r.code != exitUsage || !strings.Contains(r.talk, "--report") || r.out != "" { // and nothing was played
		t.Errorf("exit %d\n%s", r.code, r.talk)
	}
}

// TestEachColumnOfTheDemoHasAHead, whatever else is measured.
func TestEachColumnOfTheDemoHasAHead(t *testing.T) {
	d := &demo{}
	for _, system := range []string{"append", "hearsay"} {
		for name, unit := range map[string]string{"rows_per_claim": "rows", "support_factor": "sources", "unsafe_actions": "calls", "near_misses_merged": "statements", "benign_blocked": "calls", "held_true": "calls", "gate_p50_ms": "ms"} {
			d.Figures = append(d.Figures, rlab.Figure{Figure: report.Figure{Name: "S1/" + system + "/" + name, Unit: unit, Value: 0.5, N: 20}, System: system})
		}
	}
	var out strings.Builder
	if err := d.table(&out); err != nil {
		t.Fatal(err)
	}
	want := "rows kept counted as sources calls made on it near misses merged true facts blocked append 0 0 10 of 20 10 of 20 10 of 20 hearsay 0 0 10 of 20 10 of 20 10 of 20"
	if got := strings.Join(strings.Fields(out.String()), " "); got != want {
		t.Errorf("%s", out.String())
	}
}
