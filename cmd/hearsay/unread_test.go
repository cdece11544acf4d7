package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
)

// TestARowThatNobodyCanReadBlocksNobody: an erasure and an export go on past a damaged row, say so,
// and end with exit code 4.
func TestARowThatNobodyCanReadBlocksNobody(t *testing.T) {
	w := newWorld(t)
	w.put("eve", said(triple("eve", "lives in", "canary street 7")))
	lost := w.put("lost", said(triple("acme", "is in", "Oslo")))
	w.put("made", said(triple("acme", "is in", "Norway"), lost))
	w.spoil("body/" + string(lost))
	file := filepath.Join(t.TempDir(), "rows")
	if r := w.run("export", "-o", file); r.code != exitNo || !strings.Contains(r.talk, "2 rows,") || !strings.Contains(r.talk, "1 row could not be read") {
		t.Errorf("export: %+v", r)
	}
	dump, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(dump), `{"id":"`+string(lost)+`","unread":true`) || strings.Contains(string(dump), "Oslo") {
		t.Errorf("the dump: %s, %v", dump, err)
	}
	if r := w.run("verifier", "list"); r.code != exitDone || !strings.Contains(r.talk, "1 row cannot be read") {
		t.Errorf("verifier list: %+v", r)
	}
	if r := w.run("erase", "--subject", "eve", "--request", "R-1", "--yes", "7"); r.code != exitChanged || !strings.Contains(r.talk, "1 row cannot be read: whether they name") {
		t.Errorf("nobody is told before: %+v", r)
	}
	for _, args := range [][]string{{"--dry-run"}, {"--yes", "1"}} {
		r := w.run(append([]string{"erase", "--subject", "eve", "--request", "R-1"}, args...)...)
		if r.code != exitNo || !strings.Contains(r.out, "1 rows and 0 decisions") || !strings.Contains(r.talk, "1 row cannot be read") {
			t.Errorf("erase %v: %+v", args, r)
		}
	}
	r := w.run("erase", "--subject", "eve", "--request", "R-1", "--yes", "0", "-o", "json")
	var said erasureJSON
	if err := json.Unmarshal([]byte(r.out), &said); err != nil || said.Certificate.Unread != 1 || said.Certificate.Rows != 0 || r.code != exitNo {
		t.Errorf("again: %+v, %v", r, err)
	}
	if r := w.run("doctor"); !strings.Contains(r.out, "1 of 1 erasures left rows that nobody could read") {
		t.Errorf("doctor: %+v", r)
	}
	// A row under a key of the subject goes, though nobody can read it.
	if r := w.run("erase", "--subject", "acme", "--request", "R-2", "--yes", "2"); r.code != exitDone || !strings.Contains(r.out, "2 rows") {
		t.Errorf("erase acme: %+v", r)
	}
	if r := w.run("row", "list"); r.code != exitDone {
		t.Errorf("row list: %+v", r)
	}
}

// spoil flips a bit of an object in the file.
func (w *world) spoil(name string) {
	w.t.Helper()
	n := 0
	w.below(func(d memory.Driver) {
		for o, err := range d.Objects(w.t.Context(), "default", "") {
			if err != nil {
				w.t.Fatal(err)
			}
			if memory.KeyText(o.Key) != name {
				continue
			}
			o.Data = slices.Clone(o.Data)
			o.Data[len(o.Data)-1] ^= 1
			if err := d.Restore(w.t.Context(), "default", []memory.Restored{o}); err != nil {
				w.t.Fatal(err)
			}
			n++
			break
		}
	})
	if n == 0 {
		w.t.Fatal("no object ", name)
	}
}
