package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

func TestRowsLeaveAndEnterAStore(t *testing.T) {
	from := office(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	line := from.ok("keygen", "-out", at("ops"), "--principal", "ops")
	public := strings.Fields(line)[1]
	if r := from.run("export", "-o", at("rows"), "--sign", at("ops.key")); r.code != exitDone || r.out != "" || !strings.Contains(r.talk, "8 rows") || !strings.Contains(r.talk, "signed with ed25519:") {
		t.Fatalf("%+v", r)
	}
	if info, err := os.Stat(at("rows")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	if r := from.run("export", "-o", at("rows")); r.code != exitFailed || !strings.Contains(r.talk, "ever overwritten") {
		t.Fatalf("%+v", r)
	}

	to := newWorld(t)
	if err := to.store.BumpEpoch(t.Context(), "ops", "the store is there"); err != nil {
		t.Fatal(err)
	}
	var got importJSON
	read := func(args ...string) {
		t.Helper()
		got = importJSON{}
		if err := json.Unmarshal([]byte(to.ok(append([]string{"import", "-o", "json"}, args...)...)), &got); err != nil {
			t.Fatal(err)
		}
	}
	if read(at("rows"), "--trust", public); got.Schema != "hearsay.import/1" || got.Rows != 8 || !got.Complete || got.Signer == "" {
		t.Fatalf("%+v", got)
	}
	if read(at("rows"), "--trust", public); got.Rows != 0 || got.Known != 8 {
		t.Fatalf("%+v", got)
	}
	origins := map[memory.Origin]int{}
	for r, err := range to.store.Rows(t.Context(), memory.Filter{}) {
		if err != nil || r.State() != memory.StateUnverified {
			t.Fatal(r, err)
		}
		origins[r.Origin]++
	}
	if origins[memory.OriginFirstHand] != 2 {
		t.Fatal(origins)
	}
	if out := to.ok("audit", "list", "--limit", "1"); !strings.Contains(out, "imported as mem_") {
		t.Error(out)
	}
	text := to.ok("import", at("rows"))
	if !strings.Contains(text, "nothing is first hand") || !strings.Contains(text, "collapsed") {
		t.Error(text)
	}

	other := strings.Fields(from.ok("keygen", "-out", at("other"), "--principal", "ops"))[1]
	if r := to.run("import", at("rows"), "--trust", other); r.code != exitNo || !strings.Contains(r.talk, "signature") {
		t.Errorf("%+v", r)
	}
}

func TestRejectedLinesAreNamedByNumberAndNotByContent(t *testing.T) {
	from := office(t)
	dump := strings.Split(from.ok("export"), "\n")
	dump[3] = strings.Replace(dump[3], "Acme", "Emca", 1)
	file := filepath.Join(t.TempDir(), "rows")
	if err := os.WriteFile(file, []byte(strings.Join(dump, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	to := newWorld(t)
	if err := to.store.BumpEpoch(t.Context(), "ops", "the store is there"); err != nil {
		t.Fatal(err)
	}
	r := to.run("import", file)
	if r.code != exitPartly || !strings.Contains(r.talk, "line 4: hash: hash\n") || !strings.Contains(r.talk, "1 line rejected") || strings.Contains(r.talk, "bank") {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(file, []byte(`{"text":"Ana's pin is 1234"}`+"\n"+`{"Ana's pin":1234}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := to.run("import", "--legacy", file); r.code != exitPartly || !strings.Contains(r.talk, "line 2: content: required\n") || strings.Contains(r.talk, "1234") {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		want int
		args []string
	}{
		{exitUsage, []string{"import"}},
		{exitUsage, []string{"import", file}},
		{exitNotFound, []string{"import", file + "x"}},
		{exitUsage, []string{"import", file, "--trust", "x"}},
		{exitUsage, []string{"import", file, "--legacy", "--sensitivity", "none"}},
		{exitNo, []string{"import", file, "--trust", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "--legacy"}},
		{exitUsage, []string{"export", "rows"}},
	} {
		if r := to.run(c.args...); r.code != c.want {
			t.Errorf("%q: exit %d, want %d\n%s", c.args, r.code, c.want, r.talk)
		}
	}
}
