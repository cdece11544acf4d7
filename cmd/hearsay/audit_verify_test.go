package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// auditor is an office with a checkpoint key, its verifier key, and a witness.
func auditor(t *testing.T) (w *world, at func(string) string) {
	w = office(t)
	dir := t.TempDir()
	at = func(name string) string { return filepath.Join(dir, name) }
	w.file(at("audit.pub"), w.ok("audit", "keygen", "-out", at("audit"), "--name", "acme.example/hearsay"))
	w.ok("witness", "create", at("witness"))
	w.ok("audit", "checkpoint", "--key", at("audit.key"), "--witness", at("witness"))
	return w, at
}

func (w *world) file(path, text string) {
	w.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// reopen opens the store again, after what was done to its file.
func (w *world) reopen() {
	w.t.Helper()
	s, err := storeurl.Open(w.t.Context(), "sqlite:"+w.path, &storeurl.Options{Existing: true, Options: memory.Options{Clock: func() time.Time { return w.now }}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
}

// below opens the file of the store as somebody does who can write it.
func (w *world) below(do func(d memory.Driver)) {
	w.t.Helper()
	d, err := sqlitestore.Open(w.t.Context(), w.path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer d.Close()
	do(d)
}

func (w *world) verified(args ...string) verifyJSON {
	w.t.Helper()
	r := w.run(append([]string{"audit", "verify", "-o", "json"}, args...)...)
	var got verifyJSON
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		w.t.Fatalf("exit %d, %v\n%s", r.code, err, r.talk)
	}
	if got.Schema != "hearsay.audit.verify/1" || got.Holds != (r.code == exitDone) || !got.Holds && r.code != exitTampered {
		w.t.Fatalf("exit %d: %+v", r.code, got)
	}
	return got
}

func TestAuditVerify(t *testing.T) {
	w, at := auditor(t)
	keys := []string{"--checkpoint-keys", at("audit.pub")}
	full := append([]string{"--witness", at("witness")}, keys...)
	t.Run("an audit that holds is counted", func(t *testing.T) {
		w.t = t
		got := w.verified(full...)
		if !got.Holds || got.Report.Logs < 10 || got.Report.Newer != 0 || !got.Report.Witness || got.Report.Witnessed != 1 || len(got.Report.Keys) != 1 {
			t.Fatalf("%+v", got.Report)
		}
		if out := w.ok(append([]string{"audit", "verify"}, full...)...); !strings.Contains(out, "the audit holds") || !strings.Contains(out, "the witness saw checkpoint 1") {
			t.Error(out)
		}
		if out := w.ok(append([]string{"audit", "verify"}, keys...)...); !strings.Contains(out, "no witness") {
			t.Error(out)
		}
	})
	t.Run("without a checkpoint it says what that hides", func(t *testing.T) {
		if out := newWorld(t).ok("audit", "verify"); !strings.Contains(out, "no checkpoint: a row that is missing altogether would not show") {
			t.Error(out)
		}
	})
	t.Run("nothing changed is no checkpoint, and a change is one", func(t *testing.T) {
		w.t = t
		if out := w.ok("audit", "checkpoint", "--key", at("audit.key"), "--quick"); !strings.Contains(out, "nothing changed since checkpoint 1") {
			t.Error(out)
		}
		w.put("new", said(memory.Content{Text: "something new"}))
		var made checkpointJSON
		if err := json.Unmarshal([]byte(w.ok("audit", "checkpoint", "--key", at("audit.key"), "--witness", at("witness"), "-o", "json")), &made); err != nil {
			t.Fatal(err)
		}
		if !made.Made || made.Index != 2 || made.Leaves != 1 || !made.Witnessed || !strings.HasPrefix(made.Note, "acme.example/hearsay/") {
			t.Fatalf("%+v", made)
		}
	})
	t.Run("an export is verified without the store", func(t *testing.T) {
		w.t = t
		w.ok("audit", "export", "-o", at("audit.ndjson"))
		if r := w.run("audit", "export", "-o", at("audit.ndjson")); r.code != exitFailed || !strings.Contains(r.talk, "ever overwritten") {
			t.Fatalf("%+v", r)
		}
		data, err := os.ReadFile(at("audit.ndjson"))
		if err != nil || strings.Contains(string(data), "Acme") {
			t.Fatal("it says what rows say", err)
		}
		if lines := strings.Count(w.ok("audit", "export"), "\n"); lines != strings.Count(string(data), "\n") {
			t.Error(lines, "lines on stdout")
		}
		elsewhere := newWorld(t)
		delete(elsewhere.env, "HEARSAY_STORE")
		args := append([]string{"--from", at("audit.ndjson"), "--keyring", w.path + ".keys"}, full...)
		if got := elsewhere.verified(args...); !got.Holds || got.Report.Checkpoints != 2 {
			t.Fatalf("%+v", got)
		}
		w.verified(append([]string{"--from", at("audit.ndjson")}, full...)...) // the keyring beside the store
		for _, other := range [][]string{{"--tenant", "other"}, {"--namespace", "n"}} {
			if r := elsewhere.run(slices.Concat([]string{"audit", "verify"}, args, other)...); r.code != exitNo || !strings.Contains(r.talk, "of tenant default") || r.out != "" {
				t.Errorf("%q: it passes for the audit of another: exit %d\n%s%s", other, r.code, r.out, r.talk)
			}
		}
		w.file(at("audit.ndjson"), strings.Replace(string(data), `"revision":1,"data":"AQ`, `"revision":1,"data":"AR`, 1))
		if got := elsewhere.verified(args...); got.Holds || got.Line == 0 || got.Key == "" {
			t.Fatalf("%+v", got)
		}
	})
	t.Run("what is not there or not usable is said", func(t *testing.T) {
		w.t = t
		for _, c := range []struct {
			code int
			args []string
		}{
			{exitUsage, []string{"audit", "verify"}}, // checkpoints, and no key
			{exitUsage, []string{"audit", "verify", "--checkpoint-keys", at("none")}},
			{exitUsage, []string{"audit", "verify", "--checkpoint-keys", at("audit.key")}},
			{exitFailed, append([]string{"audit", "verify", "--witness", at("none")}, keys...)},
			{exitNotFound, append([]string{"audit", "verify", "--from", at("none")}, keys...)},
			{exitUsage, []string{"audit", "checkpoint"}},
			{exitUsage, []string{"audit", "checkpoint", "--key", at("audit.pub")}},
			{exitUsage, []string{"audit", "checkpoint", "--key", at("audit.key"), "--origin", "other.example"}},
			{exitUsage, []string{"audit", "keygen"}},
			{exitUsage, []string{"audit", "keygen", "-out", at("x")}},
			{exitUsage, []string{"audit", "keygen", "-out", at("x"), "--name", "a b"}},
			{exitFailed, []string{"audit", "keygen", "-out", at("audit"), "--name", "a"}},
			{exitUnreachable, []string{"audit", "export", "--store", "sqlite:" + at("none.db")}},
		} {
			if r := w.run(c.args...); r.code != c.code || r.out != "" || r.talk == "" {
				t.Errorf("%q: exit %d, want %d\n%s%s", c.args, r.code, c.code, r.out, r.talk)
			}
		}
		if r := w.run("audit", "verify"); !strings.Contains(r.talk, "--checkpoint-keys") {
			t.Errorf("what is missing is not named: %s", r.talk)
		}
		if _, err := os.Stat(at("x.key")); err == nil {
			t.Error("a refused key was written")
		}
		if r := w.run("audit", "verify", "--from", at("audit.ndjson"), "--store", "sqlite:"); r.code != exitUsage && r.code != exitUnreachable {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a changed entry is named, with its exit code", func(t *testing.T) {
		w.t = t
		key := memory.HeadKey(w.ids["email"])
		w.below(func(d memory.Driver) {
			log, err := d.History(t.Context(), "default", key, 0, 10)
			if err != nil || len(log) != 2 {
				t.Fatal(log, err)
			}
			log[1].Data[12] ^= 1
			if err := storetest.Rewrite(t.Context(), d, "default", key, log[1:]); err != nil {
				t.Fatal(err)
			}
		})
		r := w.run(append([]string{"audit", "verify"}, full...)...)
		if want := fmt.Sprintf("head/%s, entry 2", w.ids["email"]); r.code != exitTampered || !strings.Contains(r.talk, want) || r.out != "" {
			t.Fatalf("%+v", r)
		}
		if got := w.verified(full...); got.Key != "head/"+string(w.ids["email"]) || got.Entry != 2 || got.Report != nil {
			t.Fatalf("%+v", got)
		}
	})
}

func TestADamagedRowIsClearedOnceItIsPutRight(t *testing.T) {
	w := office(t)
	row := w.ids["email"]
	key := w.key("ops", "row:*/clear-damage")
	clear := []string{"row", "clear-damage", string(row), "--key", key, "--as", "ops", "--reason", "put back"}
	if r := w.run(clear...); r.code != exitNotFound {
		t.Fatalf("a row that is not damaged: %+v", r)
	}
	if err := w.store.MarkDamaged(t.Context(), "worker", "a byte differs", row); err != nil {
		t.Fatal(err)
	}
	var whole string
	edit := func(data func() string) {
		w.below(func(d memory.Driver) {
			for o, err := range d.Objects(t.Context(), "default", memory.HeadKey(row)) {
				if err != nil {
					t.Fatal(err)
				}
				if whole == "" {
					whole = string(o.Data)
				}
				o.Data = []byte(data())
				if err := d.Restore(t.Context(), "default", []memory.Restored{o}); err != nil {
					t.Fatal(err)
				}
				break
			}
		})
	}
	edit(func() string { return whole[:30] + string(whole[30]^1) + whole[31:] })
	if r := w.run(clear...); r.code != exitTampered {
		t.Fatalf("a row that is not what was written: %+v", r)
	}
	edit(func() string { return whole })
	if r := w.run(append(clear[:len(clear):len(clear)], "--as", "ana")...); r.code == exitDone {
		t.Fatalf("by nobody who may: %+v", r)
	}
	if rows, _, err := w.store.DamagedRows(t.Context()); err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	w.ok(clear...)
	if rows, _, err := w.store.DamagedRows(t.Context()); err != nil || len(rows) != 0 {
		t.Fatal(rows, err)
	}
}

func TestAuditVerifyOfAnOlderCopy(t *testing.T) {
	w, at := auditor(t)
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	yesterday, err := os.ReadFile(w.path)
	if err != nil {
		t.Fatal(err)
	}
	w.reopen()
	w.put("new", said(memory.Content{Text: "something new"}))
	w.ok("audit", "checkpoint", "--key", at("audit.key"), "--witness", at("witness"))
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w.file(w.path, string(yesterday))
	w.reopen()
	keys := []string{"--checkpoint-keys", at("audit.pub")}
	if got := w.verified(keys...); !got.Holds {
		t.Fatalf("without a witness: %+v", got)
	}
	if got := w.verified(append([]string{"--witness", at("witness")}, keys...)...); got.Holds || !got.Rollback || got.Checkpoint != 1 {
		t.Fatalf("%+v", got)
	}
	if r := w.run("audit", "checkpoint", "--key", at("audit.key"), "--witness", at("witness")); r.code != exitTampered || !strings.Contains(r.talk, "older copy") {
		t.Fatalf("%+v", r)
	}

	// Whoever put the old copy there takes the witness away too, or empties it.
	w.env["HEARSAY_WITNESS"] = at("witness")
	for _, what := range []string{"gone", "empty"} {
		if what == "empty" {
			w.file(at("witness"), "")
		} else if err := os.Remove(at("witness")); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{append([]string{"audit", "verify"}, keys...), {"audit", "checkpoint", "--key", at("audit.key")}, {"row", "list"}, {"store", "recover"}} {
			if r := w.run(args...); r.code != exitFailed || !strings.Contains(r.talk, "hearsay witness create") {
				t.Errorf("%s, %q: exit %d\n%s", what, args, r.code, r.talk)
			}
		}
		if seen, _ := w.doctor(); seen.of("witness").Safe {
			t.Errorf("%s: the doctor finds it safe", what)
		}
		if info, err := os.Stat(at("witness")); what == "gone" && err == nil || what == "empty" && (err != nil || info.Size() > 0) {
			t.Fatalf("%s: it was made anew: %v, %v", what, info, err)
		}
	}
	if r := w.run("witness", "create", at("witness")); r.code != exitUsage || !strings.Contains(r.talk, "there already") {
		t.Errorf("over another file: exit %d\n%s", r.code, r.talk)
	}
	if err := os.Remove(at("witness")); err != nil {
		t.Fatal(err)
	}
	w.ok("witness", "create", at("witness"))
	w.ok("audit", "checkpoint", "--key", at("audit.key"))
}

func TestAuditCheckpointKeysAreRotated(t *testing.T) {
	w, at := auditor(t)
	old, err := os.ReadFile(at("audit.pub"))
	if err != nil {
		t.Fatal(err)
	}
	public := w.ok("audit", "keygen", "-out", at("second"), "--name", "acme.example/hearsay")
	w.put("new", said(memory.Content{Text: "something new"}))
	if r := w.run("audit", "checkpoint", "--key", at("second.key")); r.code != exitTampered || !strings.Contains(r.talk, "no key at hand signed it") {
		t.Fatalf("%+v", r)
	}
	w.file(at("audit.pub"), public+strings.TrimSpace(string(old))+" until 1\n")
	w.ok("audit", "checkpoint", "--key", at("second.key"), "--witness", at("witness"), "--checkpoint-keys", at("audit.pub"))
	got := w.verified("--checkpoint-keys", at("audit.pub"), "--witness", at("witness"))
	if !got.Holds || len(got.Report.Keys) != 2 || got.Report.Keys[1].First != 2 {
		t.Fatalf("%+v", got.Report)
	}
	w.now = w.now.Add(48 * time.Hour) // a row is not older than the checkpoint before it
	w.put("newer", said(memory.Content{Text: "something newer"}))
	if r := w.run("audit", "checkpoint", "--key", at("audit.key"), "--checkpoint-keys", at("audit.pub")); r.code == exitDone || !strings.Contains(r.talk, "retired after checkpoint 1") {
		t.Fatalf("%+v", r)
	}
	var none []audit.KeyUsed
	if r := w.verified("--checkpoint-keys", at("audit.pub")).Report; fmt.Sprint(r.Keys) == fmt.Sprint(none) || r.Newer != 1 {
		t.Fatalf("%+v", r)
	}
}

// TestAListOfMovesKeepsWhatItPrints: the newest ones are the same ones, whether or not
// the others were let go on the way.
func TestAListOfMovesKeepsWhatItPrints(t *testing.T) {
	now := time.Now()
	s := storetest.NewStore(&memory.Options{Clock: func() time.Time { return now }})
	defer s.Close()
	for i := range 1500 {
		if i%7 == 0 { // some are of one moment, and some clocks went back
			now = now.Add(time.Duration(i%5-1) * time.Second)
		}
		d := said(memory.Content{Text: fmt.Sprint("row ", i), Cardinality: memory.CardinalityUnknown})
		d.Sensitivity = memory.SensitivityInternal
		if _, err := s.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	all, _, err := moves(t.Context(), s, &auditFilter{}, false, 0)
	if err != nil || len(all) != 1500 {
		t.Fatal(len(all), err)
	}
	for _, limit := range []int{1, 30, 200, 249, 1499, 3000} {
		some, _, err := moves(t.Context(), s, &auditFilter{}, false, limit)
		if err != nil || limit < 250 && len(some) > 2*limit+1000 || len(some) <= limit && len(some) < len(all) {
			t.Fatalf("limit %d: %d entries, %v", limit, len(some), err)
		}
		if diff := cmp.Diff(all[:min(limit, len(all))], some[:min(limit, len(some))]); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
}
