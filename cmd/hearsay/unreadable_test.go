package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory/keyring"
)

// A keyring that lacks the key of one subject hides the rows of that subject and no
// other, and the exit code says that not all is there.
func TestAKeyThatIsMissingHidesNoOtherRow(t *testing.T) {
	w := newWorld(t)
	w.put("a", said(triple("acme", "is in", "Oslo")))
	old := filepath.Join(t.TempDir(), "old")
	if err := keyring.Backup(w.path+".keys", old, nil); err != nil {
		t.Fatal(err)
	}
	w.put("b", said(triple("bob", "is in", "Bergen")))
	w.put("c", said(triple("acme", "is called", "Acme Ltd")))
	for _, command := range [][]string{{"row", "list"}, {"audit", "list"}} {
		r := w.run(append(command, "--keyring", old)...)
		if r.code != exitNo || !strings.Contains(r.talk, "1 row") || !strings.Contains(r.talk, "keyring") {
			t.Errorf("%q: exit code %d: %s", command, r.code, r.talk)
		}
		if command[0] == "row" && (!strings.Contains(r.out, "Oslo") || !strings.Contains(r.out, "Acme Ltd") || strings.Contains(r.out, "Bergen")) {
			t.Errorf("%q lists:\n%s", command, r.out)
		}
	}
	if r := w.run("row", "show", string(w.ids["b"]), "--keyring", old); r.code != exitNo {
		t.Errorf("row show: exit code %d: %s", r.code, r.talk)
	}
	w.ok("row", "list")
}
