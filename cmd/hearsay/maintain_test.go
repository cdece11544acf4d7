package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

func TestErasureShowsWhatItTakesAndWantsItsNumber(t *testing.T) {
	w := newWorld(t)
	own := w.put("own", said(triple("eve", "lives in", "canary street 7")))
	w.put("made", said(triple("parcel 1", "goes to", "canary street 7"), own))
	whole := func(what string) {
		t.Helper()
		if r := w.run("row", "list"); strings.Count(r.out, "canary") != 2 {
			t.Fatalf("%s erased something:\n%s", what, r.out)
		}
	}
	dry := w.run("erase", "--subject", "eve", "--request", "R-1", "--dry-run")
	for _, want := range []string{"WHY", "about", "made from such", "canary street 7", "2 rows", "would go"} {
		if !strings.Contains(dry.out, want) {
			t.Errorf("a dry run does not say %q:\n%s", want, dry.out)
		}
	}
	j := w.run("erase", "--subject", "eve", "--request", "R-1", "--dry-run", "-o", "json")
	var listed erasureJSON
	if err := json.Unmarshal([]byte(j.out), &listed); err != nil || len(listed.Would) != 2 || listed.Would[0] != (wouldGoJSON{own, "about"}) {
		t.Errorf("a dry run lists %+v, %v", listed.Would, err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		say  string
	}{
		"a script without the number":  {nil, exitUsage, "--yes 2"},
		"a script with another number": {[]string{"--yes", "3"}, exitChanged, "not 3"},
		"a script with 0":              {[]string{"--yes", "0"}, exitChanged, "not 0"},
		"a number beside a dry run":    {[]string{"--yes", "2", "--dry-run"}, exitUsage, "dry-run"},
		"a number that is none":        {[]string{"--yes", "all"}, exitUsage, "yes"},
	} {
		r := w.run(append([]string{"erase", "--subject", "eve", "--request", "R-1"}, c.args...)...)
		if r.code != c.code || !strings.Contains(r.talk, c.say) {
			t.Errorf("%s: exit %d, want %d and %q\n%s", name, r.code, c.code, c.say, r.talk)
		}
		whole(name)
	}
	for _, c := range []struct {
		typed string
		code  int
	}{{"", exitNo}, {"yes\n", exitNo}, {"1\n", exitNo}, {"2\n", exitDone}} {
		whole("what was typed before " + c.typed)
		w.typed = &c.typed
		if r := w.run("erase", "--subject", "eve", "--request", "R-1"); r.code != c.code || !strings.Contains(r.talk, "Type the number of rows") || !strings.Contains(r.talk, "canary street 7") {
			t.Errorf("%q typed: exit %d, want %d\n%s", c.typed, r.code, c.code, r.talk)
		}
	}
	w.typed = nil
	if r := w.run("row", "list"); strings.Contains(r.out, "canary") {
		t.Error("the number was typed, and the rows are there:", r.out)
	}
	if r := w.run("erase", "--subject", "nobody", "--request", "R-2"); r.code != exitDone {
		t.Errorf("of somebody of whom nothing is held: exit %d\n%s", r.code, r.talk)
	}
}

func TestErase(t *testing.T) {
	w := newWorld(t)
	own := w.put("own", said(triple("eve", "lives in", "canary street 7")))
	w.put("made", said(triple("parcel 1", "goes to", "canary street 7"), own))
	w.put("kept", said(triple("acme", "is in", "Oslo")))
	w.decide("mail", true, "made")
	counts := func(out string) (c erasureJSON) {
		t.Helper()
		if err := json.Unmarshal([]byte(out), &c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	dry := w.run("erase", "--subject", "eve", "--request", "R-1", "--dry-run", "-o", "json")
	if c := counts(dry.out).Certificate; dry.code != 0 || c.Rows != 2 || c.Decisions != 1 || c.Keys == 0 || !c.DryRun {
		t.Fatalf("exit %d\n%s%s", dry.code, dry.out, dry.talk)
	}
	if r := w.run("row", "list"); strings.Count(r.out, "canary") != 2 {
		t.Fatal("a dry run erased", r.out)
	}
	done := w.run("erase", "--subject", "eve", "--request", "R-1", "-o", "json", "--yes", "2")
	if c := counts(done.out); done.code != 0 || c.Certificate.Rows != 2 || c.Certificate.Completed.IsZero() || c.Schema != "hearsay.erasure/1" {
		t.Fatalf("exit %d\n%s%s", done.code, done.out, done.talk)
	}
	if r := w.run("row", "show", string(own)); r.code != exitNotFound || !strings.Contains(r.talk, "erased") {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if r := w.run("row", "list"); strings.Contains(r.out, "canary") || !strings.Contains(r.out, "Oslo") {
		t.Fatal(r.out)
	}
	for name, args := range map[string][]string{"nobody": {"erase"}, "an argument": {"erase", "eve"}} {
		if r := w.run(args...); r.code != exitUsage {
			t.Errorf("%s: exit %d\n%s", name, r.code, r.talk)
		}
	}
	n := 0
	err := filepath.WalkDir(filepath.Dir(w.path), func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		n++
		if strings.Contains(strings.ToLower(string(b)), "canary") {
			t.Errorf("plaintext in %s", path)
		}
		return err
	})
	if err != nil || n < 3 {
		t.Fatal(n, err)
	}
}

func TestStoreIsRebuiltAndCompacted(t *testing.T) {
	w := newWorld(t)
	id := w.put("a", said(triple("acme", "is in", "Oslo")))
	w.apply("a", memory.TruthSupported, memory.RelationSupports, memory.RankTool, "crm")
	for range 100 {
		w.put("", said(triple("acme", "is in", "Oslo")))
	}
	before := w.run("row", "show", string(id)).out
	if r := w.run("store", "rebuild"); r.code != 0 || !strings.Contains(r.out, "rebuilt 1 rows") {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.run("store", "compact"); r.code != 0 || !strings.Contains(r.out, "64 entries of 1 histories packed") {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if after := w.run("row", "show", string(id)).out; after != before {
		t.Fatalf("before\n%s\nafter\n%s", before, after)
	}
	var out maintained
	if r := w.run("store", "rebuild", "-o", "json"); r.code != 0 || json.Unmarshal([]byte(r.out), &out) != nil || out.Schema != "hearsay.rebuild/1" {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

func TestKeyring(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "keys")
	if r := w.run("keyring", "create", dir); r.code != 0 {
		t.Fatal(r.talk)
	}
	if r := w.run("keyring", "create", dir); r.code != exitFailed || !strings.Contains(r.talk, "already") {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	if r := w.run("keyring", "rotate", dir); r.code != 0 || r.out != "audit key 2\n" {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.run("keyring", "rotate", dir+"x"); r.code == 0 || !strings.Contains(r.talk, "no key ring") {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
}

func TestThePastAndRollback(t *testing.T) {
	w := newWorld(t)
	id := w.put("a", said(triple("acme", "is in", "Oslo")))
	before := w.now
	w.apply("a", memory.TruthSupported, memory.RelationSupports, memory.RankTool, "crm")
	if r := w.run("row", "show", string(id)); !strings.Contains(r.out, "✓ verified") {
		t.Fatal(r.out, r.talk)
	}
	at := before.Format("2006-01-02T15:04:05Z07:00")
	for _, args := range [][]string{{"row", "show", string(id), "--at", at}, {"row", "list", "--at", at}} {
		if r := w.run(args...); r.code != 0 || !strings.Contains(r.out, "? unverified") {
			t.Fatalf("%q: exit %d\n%s%s", args, r.code, r.out, r.talk)
		}
	}
	if r := w.run("row", "list", "--at", "1999-01-01T00:00:00Z"); r.code != 0 || r.out != "" {
		t.Fatal(r.out, r.talk)
	}
	if r := w.run("row", "list", "--at", "yesterday"); r.code != exitUsage {
		t.Fatal(r.out, r.talk)
	}
	if r := w.run("row", "rollback", string(id)); r.code != exitUsage {
		t.Fatal(r.out, r.talk)
	}
	if r := w.run("row", "rollback", string(id), "--revision", "1", "--reason", "bad"); r.code != exitChanged {
		t.Fatal(r.out, r.talk)
	}
	if r := w.run("row", "rollback", string(id), "--revision", "2", "--reason", "bad"); r.code != 0 || !strings.Contains(r.out, "displaced no row") {
		t.Fatal(r.out, r.talk)
	}
	if r := w.run("row", "show", string(id)); !strings.Contains(r.out, "superseded") {
		t.Fatal(r.out, r.talk)
	}
}
