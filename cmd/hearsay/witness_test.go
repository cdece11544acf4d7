package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/visible"
)

func TestAStoreThatHadAWitnessIsReadAndDemotedWithoutIt(t *testing.T) {
	w := office(t)
	path := filepath.Join(t.TempDir(), "witness")
	w.ok("witness", "create", path)
	shown := func() (out witnessJSON) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.ok("witness", "show", "-o", "json")), &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if got := shown(); got.Witness != "" || got.GivenUp {
		t.Fatalf("%+v", got)
	}
	own, err := audit.OpenWitness(path)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	w.env["HEARSAY_WITNESS"] = path
	key := w.key("cleo", "*")
	reject := func(row string) result {
		return w.run("row", "reject", string(w.ids[row]), "--key", key, "--as", "cleo", "--reason", "wrong")
	}
	names := []string{"address", "down"}
	if r := reject(names[0]); r.code != exitDone {
		t.Fatal(r.talk)
	}
	id := own.Identity().String()
	if got := shown(); got.Witness != id || !got.AtHand {
		t.Fatalf("%+v, want %s at hand", got, id)
	}

	delete(w.env, "HEARSAY_WITNESS")
	if r := reject(names[1]); r.code != exitFailed || !strings.Contains(r.talk, "not confirmed by the witness") || !strings.Contains(r.talk, "HEARSAY_WITNESS") || !strings.Contains(r.out, "rejected") {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if out := w.ok("row", "show", string(w.ids[names[1]])); !strings.Contains(out, "rejected") {
		t.Fatal(out)
	}
	w.ok("row", "list")
	w.ok("export")
	for _, args := range [][]string{
		{"erase", "--subject", "nobody"},
		{"mcp", "proxy", "--only-source", "--", "true"},
	} {
		if r := w.run(args...); r.code != exitNo || !strings.Contains(r.talk, "give-up "+id) {
			t.Fatalf("%q: exit %d\n%s", args, r.code, r.talk)
		}
	}
	if seen, _ := w.doctor(); seen.of("witness").Safe || !strings.Contains(seen.of("witness").Found, id) {
		t.Fatalf("%+v", seen.of("witness"))
	}
	w.env["HEARSAY_WITNESS"] = path
	if seen, _ := w.doctor(); !strings.Contains(seen.of("witness").Found, "were not told") {
		t.Fatalf("%+v", seen.of("witness"))
	}
	if got := shown(); got.Told != 1 || got.Untold != 0 {
		t.Fatalf("%+v", got)
	}
	empty := filepath.Join(t.TempDir(), "witness")
	w.ok("witness", "create", empty)
	w.env["HEARSAY_WITNESS"] = empty
	if seen, _ := w.doctor(); !strings.Contains(seen.of("witness").Found, "another one") {
		t.Fatalf("%+v", seen.of("witness"))
	}
	for what, c := range map[string]struct {
		args []string
		code int
	}{
		"no id":          {[]string{"nobody", "--reason", "r"}, exitUsage},
		"no reason":      {[]string{id}, exitUsage},
		"another's name": {[]string{memory.Token{1}.String(), "--reason", "r"}, exitNotFound},
	} {
		if r := w.run(append([]string{"witness", "give-up"}, c.args...)...); r.code != c.code {
			t.Fatalf("%s: exit %d\n%s", what, r.code, r.talk)
		}
	}
	delete(w.env, "HEARSAY_WITNESS")
	w.ok("witness", "give-up", id, "--reason", "its disk burnt")
	if got := shown(); !got.GivenUp || got.Witness != "" {
		t.Fatalf("%+v", got)
	}
	w.ok("erase", "--subject", "nobody")
}

func TestWhatAServerSaysOnStderrDoesNotReachTheTerminalRaw(t *testing.T) {
	w := newWorld(t)
	w.store.Close()
	cmd := w.proxied(filepath.Join(t.TempDir(), "book"), append([]string{"--only-source"}, officeFlags...)...)
	cmd.Env = append(cmd.Env, "TEST_MCP_STDERR=\x1b]0;owned\a\u009b2J\u202egnp\n")
	var talk bytes.Buffer
	cmd.Stderr = &talk
	session := connect(t, child(cmd))
	if _, refused := callTool(t, session, "crm", mcpArguments{Name: "acme"}); refused {
		t.Fatal("refused")
	}
	session.Close()
	if !strings.Contains(talk.String(), "<U+001B>]0;owned<U+0007><U+009B>2J<U+202E>gnp\n") {
		t.Fatalf("%q", talk.String())
	}
	for _, c := range talk.String() {
		if c != '\n' && visible.Hidden(c) {
			t.Fatalf("%U in %q", c, talk.String())
		}
	}
}
