package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// TestMain runs the tests, or, in a child process, the real program or a server
// for it.
func TestMain(m *testing.M) {
	if os.Getenv("HEARSAY_TEST_AS_PROGRAM") != "" {
		main()
	}
	if os.Getenv("TEST_AS_MCP_SERVER") != "" {
		mcpServer()
	}
	server.Together(8)
	testmain.Run(m)
}

var update = flag.Bool("update", false, "rewrite the golden files")

var epoch = time.Date(2026, 4, 17, 8, 0, 0, 0, time.UTC)

// world is a store in a file, with names for its rows, and the command on it.
type world struct {
	t     *testing.T
	path  string
	store *memory.Store
	now   time.Time
	clock func() time.Time // what commands take for now; nil = some time after now
	ids   map[string]memory.ID
	blk   []string
	env   map[string]string
	typed *string // what a person types, if one sits there
	color bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "agent.db"), now: epoch, ids: map[string]memory.ID{}, env: map[string]string{}}
	store, err := storeurl.Open(t.Context(), "sqlite:"+w.path, &storeurl.Options{Options: memory.Options{Clock: func() time.Time { return w.now }}})
	if err != nil {
		t.Fatal(err)
	}
	w.store = store
	t.Cleanup(func() { w.store.Close() })
	w.env["HEARSAY_STORE"] = "sqlite:" + w.path
	return w
}

// put writes a row a minute after the last one, and keeps its id under a name.
func (w *world) put(name string, d memory.Draft) memory.ID {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	if d.Sensitivity == 0 {
		d.Sensitivity = memory.SensitivityInternal
	}
	if d.Content.Cardinality == 0 {
		d.Content.Cardinality = memory.CardinalityUnknown
	}
	r, err := w.store.Put(w.t.Context(), d)
	if err != nil {
		w.t.Fatalf("put %s: %v", name, err)
	}
	if name != "" {
		w.ids[name] = r.ID
	}
	return r.ID
}

func triple(subject, predicate, object string) memory.Content {
	return memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional}
}

func said(c memory.Content, from ...memory.ID) memory.Draft {
	return memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified, DerivedFrom: from, Run: "run-1",
		Asserter: memory.Asserter{Principal: "ana", Model: "sonnet-4.6", Family: "claude"}}
}

func (w *world) returned(tool string, c memory.Content) memory.Draft {
	return memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: memory.Asserter{Principal: "ana", Tool: tool}, Anchor: tool + "://1",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: tool, Verifier: tool, Group: "tool:" + tool,
			Anchor: memory.Anchor{URI: tool + "://1", Version: "v7"}, At: w.now}}}
}

// apply moves a row as a verifier does.
func (w *world) apply(name string, to memory.AxisValue, relation memory.Relation, rank memory.Rank, source string) {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	f, err := w.store.Fitness(w.t.Context(), []memory.ID{w.ids[name]})
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.store.Apply(w.t.Context(), memory.Transition{Row: w.ids[name], Revision: f.Heads[0].Revision, To: to, Authority: memory.AuthorityProbe,
		Actor: "worker:test", Source: source, Reason: source + " answered", Evidence: []memory.Evidence{{Relation: relation, Rank: rank, Source: source, Verifier: source,
			Group: "tool:" + source, Anchor: memory.Anchor{URI: source + "://2"}, At: w.now}}})
	if err != nil {
		w.t.Fatalf("apply %s: %v", name, err)
	}
}

// decide records a decision of the gate that cites rows as they are now.
func (w *world) decide(tool string, fired bool, names ...string) {
	w.t.Helper()
	w.now = w.now.Add(time.Minute)
	rec := memory.DecisionRecord{Epoch: 1, ID: w.store.NewDecisionID(), Tool: tool, Run: "run-1", Fired: fired}
	for _, n := range names {
		f, err := w.store.Fitness(w.t.Context(), []memory.ID{w.ids[n]})
		if err != nil {
			w.t.Fatal(err)
		}
		rec.Epoch = f.Epoch
		rec.Rows = append(rec.Rows, memory.Cited{Row: w.ids[n], Revision: f.Heads[0].Revision})
	}
	if err := w.store.Record(w.t.Context(), rec); err != nil {
		w.t.Fatal(err)
	}
	w.blk = append(w.blk, rec.ID)
}

// result is what one command line did.
type result struct {
	code      int
	out, talk string
}

// run runs the real command in process, a day after the last write.
func (w *world) run(args ...string) result {
	w.t.Helper()
	return w.after(24*time.Hour, args...)
}

// after runs the command some time after the last write.
func (w *world) after(d time.Duration, args ...string) result {
	w.t.Helper()
	var out, talk bytes.Buffer
	a := &app{out: &out, talk: &talk, getenv: func(k string) string { return w.env[k] }, now: func() time.Time { return w.now.Add(d) }, color: w.color}
	if w.clock != nil {
		a.now = w.clock
	}
	if w.typed != nil {
		a.in, a.asks = strings.NewReader(*w.typed), true
	}
	code := a.run(w.t.Context(), args)
	return result{code, out.String(), talk.String()}
}

// eventually runs something again and again until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for late := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("not in two minutes: %s", what)
		}
	}
}

func (w *world) ok(args ...string) string {
	w.t.Helper()
	r := w.run(args...)
	if r.code != exitDone {
		w.t.Fatalf("%q: exit %d, want 0\n%s", args, r.code, r.talk)
	}
	return r.out
}

// stable replaces ids, which are random, by ones of the same length that tell the
// order of writing.
func (w *world) stable(s string) string {
	replace := func(id string, n int) {
		still := id[:4] + strings.Repeat("0", len(id)-6) + fmt.Sprintf("%02d", n)
		s = strings.ReplaceAll(s, id, still)
		s = strings.ReplaceAll(s, string([]rune(short(memory.ID(id)))[1:]), still[len(still)-10:])
	}
	order := []string{}
	for _, id := range w.ids {
		order = append(order, string(id))
	}
	slices.Sort(order)
	for i, id := range order {
		replace(id, i+1)
	}
	for i, id := range w.blk {
		replace(id, i+1)
	}
	return strings.ReplaceAll(s, w.path, "agent.db")
}

func (w *world) golden(name, got string) {
	w.t.Helper()
	file := filepath.Join("testdata", name+".golden")
	got = w.stable(got)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	if got != string(want) {
		w.t.Errorf("%s is not as expected\n--- want\n%s\n--- got\n%s", file, want, got)
	}
}

// office fills the world with one row of each kind, a lineage and decisions.
func office(t *testing.T) *world {
	w := newWorld(t)
	ctx := t.Context()
	w.put("address", w.returned("crm", triple("acme", "address", "1 Main St")))
	w.put("email", said(triple("acme", "billing.email", "ops@acme.example"), w.ids["address"]))
	w.put("contact", said(memory.Content{Text: "Acme pays by bank transfer"}, w.ids["address"]))
	w.put("plan", said(memory.Content{Text: "Send the March invoice to ops@acme.example"}, w.ids["email"], w.ids["contact"]))
	w.put("down", memory.Draft{Content: triple("acme", "vat", "DE123"), Origin: memory.OriginModelDerived, State: memory.StateUnavailableAtWriteTime,
		Asserter: memory.Asserter{Principal: "ana", Model: "sonnet-4.6", Family: "claude"}})
	w.put("recalled", memory.Draft{Content: memory.Content{Text: "Somebody at Acme likes Vim"}, Origin: memory.OriginRecallReentry, State: memory.StateUnverified,
		Asserter: memory.Asserter{Principal: "ana", Model: "qwen3", Family: "qwen"}})
	w.put("phone", w.returned("crm", triple("acme", "phone", "555-0100")))
	w.put("wrong", said(triple("acme", "owner", "Bob")))
	w.decide("dial", true, "phone")
	w.decide("send_email", false, "plan", "email")
	w.apply("phone", memory.TruthContradicted, memory.RelationContradicts, memory.RankPrimarySource, "register")
	w.apply("wrong", memory.TruthContradicted, memory.RelationContradicts, memory.RankTool, "register")
	for i := range 3 {
		wording := ""
		if i == 2 {
			wording = "Ops at Acme takes the bills"
		}
		w.now = w.now.Add(time.Minute)
		if _, err := w.store.Echo(ctx, w.ids["email"], memory.Asserter{Principal: "ana", Model: "sonnet-4.6", Family: "claude"}, "run-2", wording); err != nil {
			t.Fatal(err)
		}
	}
	w.apply("email", memory.TruthSupported, memory.RelationSupports, memory.RankTool, "ledger")
	if _, err := w.store.AddHeat(ctx, map[memory.ID]float64{w.ids["email"]: 8, w.ids["plan"]: 2}); err != nil {
		t.Fatal(err)
	}
	return w
}

// hostile is text that tries to steer a terminal, a reader and a table.
const hostile = "pay\x1b[2J\x1b]0;owned\x07 now\r\n✓ verified  mem_fake\u202egnp.exe\u2066\u200b\u2028 \u009b31m \U000e0041 end"

const hostileName = "\x1b[31mcrm\u202e\nfake"

// shownName is a name as hostile as one may be: nothing in it is hidden.
const shownName = "pay ✓ verified  mem_fake\u2028 now) | end"

func enemy(t *testing.T) *world {
	w := newWorld(t)
	d := said(triple(shownName, shownName, hostile))
	d.Asserter.Model, d.Asserter.Family, d.Run = hostileName, hostileName, hostileName
	w.put("hostile", d)
	w.put("quotation", memory.Quotation(w.ids["hostile"], d, hostile))
	child := said(memory.Content{Text: "made from it " + hostile}, w.ids["hostile"])
	w.put("child", child)
	if _, err := w.store.Echo(t.Context(), w.ids["hostile"], memory.Asserter{Principal: shownName, Model: hostileName, Family: "x"}, hostileName, hostile); err != nil {
		t.Fatal(err)
	}
	if err := w.store.AddEvidence(t.Context(), w.ids["hostile"], hostileName, hostile, memory.Evidence{Relation: memory.RelationContextualizes, Rank: memory.RankTool,
		Source: hostileName, Verifier: hostileName, Group: hostileName, Anchor: memory.Anchor{URI: hostile, Version: hostile}, At: w.now}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["hostile"], Tries: 3}, memory.ParkedUncovered, hostile); err != nil {
		t.Fatal(err)
	}
	w.decide(hostileName, false, "hostile")
	return w
}

var nonces = regexp.MustCompile(`"nonce": "[0-9a-f]+"`)

func TestTables(t *testing.T) {
	w := office(t)
	for name, args := range map[string][]string{
		"list":           {"row", "list"},
		"list_json":      {"row", "list", "-o", "json", "--limit", "2"},
		"show_verified":  {"row", "show", string(w.ids["email"])},
		"show_dependent": {"row", "show", string(w.ids["phone"])},
		"show_json":      {"row", "show", string(w.ids["email"]), "-o", "json"},
		"tree":           {"row", "tree", string(w.ids["plan"])},
		"tree_cut":       {"row", "tree", string(w.ids["plan"]), "--depth", "1"},
		"tree_json":      {"row", "tree", string(w.ids["plan"]), "-o=json", "--depth=1"},
		"audit":          {"audit", "list"},
		"audit_row_json": {"audit", "list", "--row", string(w.ids["wrong"]), "-o", "json"},
		"audit_echoes":   {"audit", "list", "--row", string(w.ids["email"]), "--echoes"},
	} {
		t.Run(name+" prints its golden file", func(t *testing.T) {
			w.t = t
			got := w.ok(args...)
			if strings.HasSuffix(name, "json") {
				got = nonces.ReplaceAllString(got, `"nonce": "…"`)
				if !json.Valid([]byte(got)) {
					t.Errorf("no JSON:\n%s", got)
				}
			}
			w.golden(name, got)
		})
	}
}

func TestListFilters(t *testing.T) {
	w := office(t)
	count := func(args ...string) int {
		t.Helper()
		var got rowsOut
		if err := json.Unmarshal([]byte(w.ok(append([]string{"row", "list", "-o", "json"}, args...)...)), &got); err != nil {
			t.Fatal(err)
		}
		return len(got.Rows)
	}
	for _, c := range []struct {
		want int
		args []string
	}{
		{8, nil},
		{2, []string{"--state", "verified"}},
		{1, []string{"--state", "unavailable_at_write_time"}},
		{5, []string{"--subject", "Acme "}},
		{1, []string{"--subject", "Acme", "--predicate", "vat"}},
		{1, []string{"--predicate", "vat"}},
		{0, []string{"--subject", "nobody"}},
		{1, []string{"--model", "qwen3"}},
		{0, []string{"--model", "qwen3", "--state", "verified"}},
		{3, []string{"--limit", "3"}},
		{8, []string{"-limit=0"}},
	} {
		t.Run(fmt.Sprintf("%q lists %d rows", c.args, c.want), func(t *testing.T) {
			if got := count(c.args...); got != c.want {
				t.Errorf("%d rows, want %d", got, c.want)
			}
		})
	}
	t.Run("a limit says that there is more, on stderr and in JSON", func(t *testing.T) {
		if r := w.run("row", "list", "--limit", "3"); !strings.Contains(r.talk, "the newest 3 rows") || strings.Contains(r.out, "newest") {
			t.Errorf("stdout %q\nstderr %q", r.out, r.talk)
		}
		if out := w.ok("row", "list", "--limit", "3", "-o", "json"); !strings.Contains(out, `"more": true`) {
			t.Error(out)
		}
	})
	t.Run("nothing found is said on stderr and is no error", func(t *testing.T) {
		if r := w.run("row", "list", "--subject", "nobody"); r.code != 0 || r.out != "" || r.talk != "no rows\n" {
			t.Errorf("%+v", r)
		}
	})
}

type rowsOut struct {
	Schema string           `json:"schema"`
	Rows   []map[string]any `json:"rows"`
	More   bool             `json:"more"`
}

func TestIDs(t *testing.T) {
	w := office(t)
	id := string(w.ids["plan"])
	same := w.ok("row", "tree", id)
	for _, arg := range []string{id[len(id)-10:], "…" + id[len(id)-10:], "mem_" + id[4:len(id)-1], id[4 : len(id)-3], "mem_…" + id[len(id)-8:], short(w.ids["plan"])} {
		t.Run("the row answers to "+w.stable(arg), func(t *testing.T) {
			if got := w.ok("row", "tree", arg); got != same {
				t.Errorf("another row: %s", got)
			}
		})
	}
	for _, c := range []struct {
		name, arg string
		code      int
		say       string
	}{
		{"a part that no row has is not found", "vvvvvvvvvv", exitNotFound, "no row"},
		{"an id that no row has is not found", "mem_" + strings.Repeat("v", 25) + "s", exitNotFound, "not found"},
		{"a part that several rows have is a usage error that names them", id[4:8], exitUsage, "may be any of mem_"},
		{"a part that is too short is a usage error", "abc", exitUsage, "at least 4"},
		{"a part with other characters is a usage error", "mem_\x1b[2J", exitUsage, "is no row id"},
		{"an empty part is a usage error", "", exitUsage, "is no row id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.run("row", "show", c.arg)
			if r.code != c.code || !strings.Contains(r.talk, c.say) || r.out != "" || strings.Contains(r.talk, "\x1b") {
				t.Errorf("exit %d, want %d\n%s%s", r.code, c.code, r.out, r.talk)
			}
		})
	}
}

func TestHostileContentIsOneVisibleLine(t *testing.T) {
	w := enemy(t)
	id := string(w.ids["hostile"])
	for _, args := range [][]string{
		{"row", "list"}, {"row", "show", id}, {"row", "tree", string(w.ids["child"])}, {"audit", "list", "--echoes"}, {"audit", "list", "--row", id},
	} {
		for _, format := range []string{"table", "json"} {
			t.Run(strings.Join(args[:2], " ")+" as "+format+" shows nothing a terminal obeys", func(t *testing.T) {
				out := w.ok(append(args, "-o", format)...)
				for _, c := range out {
					if c != '\n' && c != ' ' && visible.Hidden(c) {
						t.Fatalf("%U in the output:\n%q", c, out)
					}
				}
				for line := range strings.Lines(out) {
					if strings.HasPrefix(line, "✓ verified") {
						t.Errorf("the claim forged a line: %q", line)
					}
				}
			})
		}
	}
	t.Run("a table shows the codes, so that an operator sees them", func(t *testing.T) {
		if out := w.ok("row", "list"); !strings.Contains(out, "<U+001B>") || !strings.Contains(out, "<U+202E>") {
			t.Error(out)
		}
	})
	t.Run("JSON gives back the very same text", func(t *testing.T) {
		var got rowsOut
		if err := json.Unmarshal([]byte(w.ok("row", "list", "-o", "json")), &got); err != nil {
			t.Fatal(err)
		}
		text := got.Rows[2]["content"].(map[string]any)["object"].(string)
		if want := strings.ToValidUTF8(hostile, "\uFFFD"); text != want {
			t.Errorf("%q, want %q", text, want)
		}
	})
	t.Run("every table has one line for a row", func(t *testing.T) {
		if n := strings.Count(w.ok("row", "list"), "\n"); n != 4 {
			t.Errorf("%d lines, want 4", n)
		}
	})
}

func TestStore(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	if err := os.WriteFile(foreign, []byte("this is no store of ours, it is a text"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.db")
	for _, c := range []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"no store is a usage error", nil, exitUsage, "HEARSAY_STORE"},
		{"another scheme is a usage error", []string{"-store", "mysql://x"}, exitUsage, "sqlite:PATH"},
		{"a bare path is a usage error", []string{"-store", "agent.db"}, exitUsage, "sqlite:PATH"},
		{"no path is a usage error", []string{"-store", "sqlite:"}, exitUsage, "needs a path"},
		{"a folder is a usage error", []string{"-store", "sqlite:" + dir}, exitUsage, "folder"},
		{"a missing file cannot be reached", []string{"-store", "sqlite:" + missing}, exitUnreachable, "no store at"},
		{"a file of another program fails", []string{"-store", "sqlite:" + foreign}, exitFailed, "not a hearsay store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &world{t: t, now: epoch, env: map[string]string{}}
			r := w.run(append([]string{"row", "list"}, c.args...)...)
			if r.code != c.code || !strings.Contains(r.talk, c.say) || r.out != "" {
				t.Errorf("exit %d, want %d\n%s%s", r.code, c.code, r.out, r.talk)
			}
		})
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("looking at a store made one")
	}
	t.Run("the flag wins over the environment", func(t *testing.T) {
		w := office(t)
		w.env["HEARSAY_STORE"] = "sqlite:" + missing
		w.ok("row", "list", "-store", "sqlite:"+w.path)
	})
	t.Run("another tenant sees nothing", func(t *testing.T) {
		w := office(t)
		if r := w.run("row", "list", "-tenant", "other"); r.code != 0 || r.out != "" {
			t.Errorf("%+v", r)
		}
	})
}

func TestUsage(t *testing.T) {
	w := office(t)
	for _, args := range [][]string{
		{}, {"bogus"}, {"row"}, {"row", "bogus"}, {"row", "list", "extra"}, {"row", "list", "--bogus"}, {"row", "list", "--limit", "x"}, {"row", "list", "--limit", "-1"},
		{"row", "list", "--state", "Verified"}, {"row", "list", "-o", "yaml"}, {"row", "show"}, {"row", "show", "a", "b"}, {"row", "tree", "abcd", "--depth", "-1"},
		{"audit"}, {"audit", "list", "--limit", "-1"}, {"audit", "bogus"}, {"version", "x"}, {"row", "list", "--store"}, {"demo", "x"}, {"keygen", "x"},
	} {
		t.Run(fmt.Sprintf("%q is a usage error", args), func(t *testing.T) {
			r := w.run(args...)
			if r.code != exitUsage || r.out != "" || !strings.Contains(r.talk, "hearsay") {
				t.Errorf("exit %d\nstdout %q\nstderr %q", r.code, r.out, r.talk)
			}
		})
	}
}

// TestEveryCommandHasHelpWithAnExample asks every command for help, however it is
// spelled, and looks for a word on each flag.
func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	w := newWorld(t)
	root := (&app{getenv: func(string) string { return "" }}).root()
	commands, flags := 0, 0
	var visit func(c *cobra.Command, path []string)
	visit = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			visit(sub, append(path[:len(path):len(path)], sub.Name()))
		}
		if len(path) > 0 && (path[0] == "help" || path[0] == "completion") {
			return // of cobra
		}
		commands++
		if c.Short == "" || c.Example == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%q: short %q, example %q", path, c.Short, c.Example)
		}
		for _, help := range []string{"-h", "--help", "-help"} {
			r := w.run(append(path, help)...)
			if r.code != exitDone || !strings.Contains(r.out, "Usage:") || len(path) > 0 && path[0] != "completion" && !strings.Contains(r.out, "\n  hearsay ") || r.talk != "" || strings.Contains(r.out, "\x1b") {
				t.Errorf("%q %s: exit %d\n%s", path, help, r.code, r.talk)
			}
			for line := range strings.Lines(r.out) {
				if cells(strings.TrimRight(line, "\n")) > 250 {
					t.Errorf("%q: a line of %d characters", path, cells(line))
				}
			}
		}
		usages := c.Flags().FlagUsages()
		for line := range strings.Lines(usages) {
			if fields := strings.Fields(line); len(fields) > 0 && strings.HasPrefix(fields[0], "-") {
				if flags++; len(fields) < 3 {
					t.Errorf("%q: nothing is said of %s", path, line)
				}
			}
		}
		if r := w.run(append(path, "--no-such-flag")...); r.code != exitUsage {
			t.Errorf("%q --no-such-flag: exit %d", path, r.code)
		}
	}
	visit(root, nil)
	if commands < 30 || flags < 60 {
		t.Errorf("%d commands and %d flags were looked at", commands, flags)
	}
	t.Logf("%d commands, %d flags", commands, flags)
}

func TestColor(t *testing.T) {
	w := office(t)
	if out := w.ok("row", "list"); strings.Contains(out, "\x1b") {
		t.Error("color in a pipe")
	}
	w.color = true
	painted := w.ok("row", "list")
	if !strings.Contains(painted, green+"✓ verified"+plain) {
		t.Errorf("no color:\n%s", painted)
	}
	for _, code := range []string{green, yellow, red, dim, plain} {
		painted = strings.ReplaceAll(painted, code, "")
	}
	w.color = false
	if painted != w.ok("row", "list") {
		t.Error("color moved the columns")
	}
}

func TestOneDash(t *testing.T) {
	a := &app{out: &bytes.Buffer{}, talk: &bytes.Buffer{}}
	for _, c := range []struct{ in, want string }{
		{"row list -store x", "row list --store x"},
		{"row list -store=x -limit 3", "row list --store=x --limit 3"},
		{"row list --store -limit", "row list --store -limit"},
		{"row list -o json -state verified", "row list -o json --state verified"},
		{"row list -o -store", "row list -o -store"},
		{"audit list -echoes -row x", "audit list --echoes --row x"},
		{"row show -- -store", "row show -- -store"},
		{"row show -ojson -h", "row show -ojson -h"},
		{"-help", "--help"},
	} {
		t.Run(c.in+" is read as "+c.want, func(t *testing.T) {
			if got := strings.Join(oneDash(a.root(), strings.Fields(c.in)), " "); got != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestCancelledCommandFails(t *testing.T) {
	w := office(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, talk bytes.Buffer
	a := &app{out: &out, talk: &talk, getenv: func(k string) string { return w.env[k] }, now: time.Now}
	if code := a.run(ctx, []string{"audit", "list"}); code != exitFailed || out.Len() > 0 {
		t.Errorf("exit %d, %s", code, out.String())
	}
}
