package main

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// With a wrapping key whose versions an operator makes and destroys, an erasure is
// pending until the version that covered it is taken out, and says each time what to do.
func TestAnErasureIsPendingUntilTheWrappingVersionIsDestroyed(t *testing.T) {
	w := newWorld(t)
	version := func(name string, b byte) string {
		return name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32))
	}
	w.env["HEARSAY_KEYRING"] = filepath.Join(t.TempDir(), "keys")
	w.env["HEARSAY_STORE"] = "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
	w.env["HEARSAY_WRAPPING_KEY"] = version("1", 1)
	w.ok("keyring", "create", w.env["HEARSAY_KEYRING"])
	if _, err := os.Stat(filepath.Join(w.env["HEARSAY_KEYRING"], "wrap")); err == nil {
		t.Fatal("the wrapping key is in the folder too")
	}
	open := func() *memory.Store {
		wrapping, err := keyring.ParseWrapping(w.env["HEARSAY_WRAPPING_KEY"])
		if err != nil {
			t.Fatal(err)
		}
		s, err := storeurl.Open(t.Context(), w.env["HEARSAY_STORE"], &storeurl.Options{Keyring: w.env["HEARSAY_KEYRING"], Wrapping: wrapping})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	w.store.Close()
	w.store = open()
	w.put("a", said(triple("acme", "is in", "Oslo")))
	w.put("b", said(triple("bob", "is in", "Bergen")))
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	erase := []string{"erase", "--subject", "acme", "--request", "R-1", "--yes", "1"}
	pending := func(words string) {
		t.Helper()
		r := w.run(erase...)
		if r.code != exitNo || !strings.Contains(r.talk, "pending") || !strings.Contains(r.talk, words) {
			t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
		}
		if out := w.ok("row", "list"); strings.Contains(out, "Oslo") || !strings.Contains(out, "Bergen") {
			t.Fatal(out)
		}
	}
	pending("no newer version than 1")
	w.env["HEARSAY_WRAPPING_KEY"] = version("2", 2) + "," + version("1", 1)
	pending("version 1 of the wrapping key is still at hand")
	w.env["HEARSAY_WRAPPING_KEY"] = version("2", 2)
	if out := w.ok(erase...); !strings.Contains(out, "version 1 of the wrapping key was found destroyed at") {
		t.Fatal(out)
	}
	w.env["HEARSAY_WRAPPING_KEY"] = version("1", 1)
	if r := w.run("row", "list"); r.code == exitDone || strings.Contains(r.talk, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))) {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
}

// A keyring moves from the file in its folder to another file, and from there to the
// environment. The key of before is named each time.
func TestAKeyringMovesToAnotherWrappingKey(t *testing.T) {
	w := newWorld(t)
	dir, file := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "wrap")
	w.env["HEARSAY_KEYRING"], w.env["HEARSAY_STORE"] = dir, "sqlite:"+filepath.Join(t.TempDir(), "agent.db")
	w.ok("keyring", "create", dir)
	if r := w.run("keyring", "rewrap", dir); r.code != exitUsage || !strings.Contains(r.talk, "HEARSAY_NEW_WRAPPING_KEY") {
		t.Fatalf("exit %d\n%s", r.code, r.talk)
	}
	before := filepath.Join(dir, "wrap")
	for _, to := range []string{"file:" + file, "1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))} {
		w.env["HEARSAY_NEW_WRAPPING_KEY"] = to
		r := w.run("keyring", "rewrap", dir)
		if r.code != exitDone || !strings.Contains(r.talk, before) || !strings.Contains(r.talk, "no longer needed") {
			t.Fatalf("exit %d\n%s", r.code, r.talk)
		}
		if r := w.run("keyring", "rotate", dir); r.code == exitDone {
			t.Fatal("the key of before opens the keyring")
		}
		w.env["HEARSAY_WRAPPING_KEY"] = to
		w.ok("keyring", "rotate", dir)
		if r := w.run("keyring", "rewrap", dir); r.code == exitDone || !strings.Contains(r.talk, "already") {
			t.Fatalf("exit %d\n%s", r.code, r.talk)
		}
		before = file
	}
}
