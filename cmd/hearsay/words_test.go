package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/memory/transfer"
)

// TestAnAuditOfAStoreThatLostItsEndSpeaksOfRecovery: a fail-over to a server that lagged
// leaves a store as an older copy of it does. Nobody need have done that.
func TestAnAuditOfAStoreThatLostItsEndSpeaksOfRecovery(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	w.env["HEARSAY_STORE"], w.env["HEARSAY_WITNESS"] = "sqlite:"+w.path, filepath.Join(dir, "witness")
	w.ok("witness", "create", w.env["HEARSAY_WITNESS"])
	open := func() {
		t.Helper()
		w.store.Close()
		ledger, err := audit.OpenWitness(w.env["HEARSAY_WITNESS"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		w.store, err = storeurl.Open(t.Context(), "sqlite:"+w.path, &storeurl.Options{Options: memory.Options{Witness: ledger.Ledger("default", ""), Clock: func() time.Time { return w.now }}})
		if err != nil {
			t.Fatal(err)
		}
	}
	open()
	w.put("true", w.returned("crm", triple("acme", "is in", "Oslo")))
	w.put("kept", w.returned("crm", triple("carol", "is in", "Bergen")))
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(w.path + "*")
	if err != nil {
		t.Fatal(err)
	}
	old := map[string][]byte{}
	for _, name := range files {
		if info, err := os.Stat(name); err == nil && !info.IsDir() {
			if old[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	open()
	w.apply("true", memory.TruthContradicted, memory.RelationContradicts, memory.RankPrimarySource, "register")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	for name, b := range old {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}

	r := w.run("audit", "verify")
	if r.code != exitTampered || !strings.Contains(r.talk, "hearsay store recover") || strings.Contains(r.talk, "who changed it") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	var said verifyJSON
	r = w.run("audit", "verify", "-o", "json")
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || said.Holds || !said.Lost || said.Found != len(said.Findings) {
		t.Errorf("%v %+v", err, said)
	}
	for _, f := range said.Findings {
		if !f.Lost {
			t.Errorf("%+v is no loss", f)
		}
	}
	if r := w.run("store", "recover"); r.code != exitDone || !strings.HasPrefix(r.out, "1 demotions") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.run("audit", "verify"); r.code != exitDone {
		t.Errorf("after the recovery: exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

// cutOff ends a context once so many bytes were read.
type cutOff struct {
	io.Reader
	left   int
	cancel context.CancelFunc
}

func (c *cutOff) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p[:min(len(p), 4096)])
	if c.left -= n; c.left <= 0 {
		c.cancel()
	}
	return n, err
}

func TestAnInterruptedImportSaysWhatIsKept(t *testing.T) {
	t.Parallel()
	var dump strings.Builder
	const lines = 5000
	for i := range lines {
		fmt.Fprintf(&dump, `{"subject":"s%d","predicate":"p","object":"o%d"}`+"\n", i, i)
	}
	for _, share := range []int{10, 50, 90} {
		w := newWorld(t)
		var out, talk bytes.Buffer
		a := &app{out: &out, talk: &talk, getenv: func(string) string { return "" }, now: func() time.Time { return w.now }}
		ctx, cancel := context.WithCancel(t.Context())
		err := a.importFrom(ctx, w.store, &cutOff{strings.NewReader(dump.String()), dump.Len() * share / 100, cancel}, transfer.Options{Actor: "op", Legacy: true}, asTable)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v\n%s", err, talk.String())
		}
		rows := 0
		for _, err := range w.store.Rows(t.Context(), memory.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			rows++
		}
		want := fmt.Sprintf("interrupted; all up to line %d is kept (%d rows written)", rows, rows)
		if rows == 0 {
			want = "interrupted before a batch of lines was kept"
		}
		if rows == lines || !strings.Contains(talk.String(), want) {
			t.Errorf("at %d %% there are %d rows, and it says %q", share, rows, talk.String())
		}
		talk.Reset()
		if err := a.importFrom(t.Context(), w.store, strings.NewReader(dump.String()), transfer.Options{Actor: "op", Legacy: true}, asTable); err != nil || !strings.Contains(out.String(), fmt.Sprintf("%d, all unverified", lines)) {
			t.Errorf("the same import again: %v\n%s", err, out.String())
		}
	}
}

func TestAValueThatAFlagDoesNotTakeIsAnsweredInWords(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ args, want string }{
		{"row list --limit abc", `hearsay row list: --limit "abc": want a whole number`},
		{"audit list --limit 1.5", `--limit "1.5": want a whole number`},
		{"demo --seed -1", `--seed "-1": want a whole number, 0 or more`},
		{"doctor --max-wait soon", `--max-wait "soon": want a duration, as in 90s, 10m or 24h`},
		{"import --legacy=perhaps x", `--legacy "perhaps": want true or false`},
		{"row list -o xml", "want table or json"},
	} {
		r := w.run(strings.Fields(c.args)...)
		if r.code != exitUsage || !strings.Contains(r.talk, c.want) || strings.Contains(r.talk, "strconv") || strings.Contains(r.talk, "time:") {
			t.Errorf("%s: exit %d, %s", c.args, r.code, r.talk)
		}
	}
}

func TestNoAdviceIsWhatWasJustDone(t *testing.T) {
	w := newWorld(t)
	missing := filepath.Join(t.TempDir(), "none", "witness")
	if r := w.run("witness", "create", missing); r.code != exitUsage || !strings.Contains(r.talk, "there is no folder "+filepath.Dir(missing)) || strings.Contains(r.talk, "witness create FILE") {
		t.Errorf("witness create: exit %d\n%s", r.code, r.talk)
	}
	under := filepath.Join(w.path, "witness") // a file is no folder
	if r := w.run("witness", "create", under); r.code == exitDone || strings.Contains(r.talk, "witness create FILE") {
		t.Errorf("witness create: exit %d\n%s", r.code, r.talk)
	}
}

// TestWhatIsSaidToAnOperatorNamesNoGoFunction: an operator has commands.
func TestWhatIsSaidToAnOperatorNamesNoGoFunction(t *testing.T) {
	w := newWorld(t)
	gone := filepath.Join(t.TempDir(), "gone")
	for _, args := range [][]string{
		{"row", "list", "--store", "sqlite:" + w.path, "--keyring", gone},
		{"doctor", "--store", "sqlite:" + w.path, "--keyring", gone},
		{"keyring", "rotate", gone},
		{"export", "--store", "sqlite:" + w.path, "--keyring", gone},
	} {
		r := w.run(args...)
		for _, name := range []string{"OpenOrCreate", "keyring.Open", "keyring.Create", "(Create", "memory.New"} {
			if r.code == exitDone || strings.Contains(r.out+r.talk, name) {
				t.Errorf("%q: exit %d names %s\n%s%s", args, r.code, name, r.out, r.talk)
			}
		}
	}
}

// TestTwoFormatsHaveTwoNames: a listing is no dump, and its origins are spelled as in the
// text.
func TestTwoFormatsHaveTwoNames(t *testing.T) {
	w := office(t)
	var header, list struct {
		Schema string `json:"schema"`
		Rows   []struct {
			Origin string `json:"origin"`
		} `json:"rows"`
	}
	first, _, _ := strings.Cut(w.ok("export"), "\n")
	if err := json.Unmarshal([]byte(first), &header); err != nil {
		t.Fatal(err)
	}
	out := w.ok("row", "list", "-o", "json")
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list.Rows) == 0 {
		t.Fatal(err, out)
	}
	if header.Schema == list.Schema || header.Schema != transfer.Schema {
		t.Errorf("the dump is %s, the listing %s", header.Schema, list.Schema)
	}
	for _, r := range list.Rows {
		if _, err := memory.ParseOrigin(r.Origin); err != nil {
			t.Errorf("origin %q: %v", r.Origin, err)
		}
	}
	file := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := w.run("import", file); r.code != exitUsage {
		t.Errorf("a listing is taken for a dump: exit %d\n%s", r.code, r.talk)
	}
}

func TestKeysBesideAStoreAreIgnoredByGit(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"*.db", "*.db.keys/", "*.db-wal", "*.db-shm"} {
		if !strings.Contains("\n"+string(b), "\n"+line+"\n") {
			t.Errorf("no line %q in .gitignore", line)
		}
	}
}
