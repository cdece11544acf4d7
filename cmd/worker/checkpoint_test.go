package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// signer is a checkpoint key in a file, as hearsay audit keygen makes it.
func signer(t *testing.T) (path string, key *audit.Key) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "audit.key")
	key, err := audit.WriteKey(path, "acme.example/hearsay")
	if err != nil {
		t.Fatal(err)
	}
	return path, key
}

// metric is the value of a series without labels; -1 if it is not there.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	_, body := d.get("/metrics")
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return v
}

// newWitness is the file of a witness that has seen nothing yet.
func newWitness(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "witness")
	w, err := audit.CreateWitness(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// verified holds a store against its checkpoints and its witness.
func verified(t *testing.T, s *memory.Store, key *audit.Key, witness string) (audit.Report, error) {
	t.Helper()
	w, err := audit.ReadWitness(witness)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return audit.Verify(t.Context(), s, audit.Options{Verifiers: []note.Verifier{key.Verifier()}, Witness: w})
}

func TestCheckpointsOfAServersStore(t *testing.T) {
	t.Parallel()
	r, err := server.Redis(t.Context(), server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	queue, err := server.Redis(t.Context(), server.RedisOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { queue.Stop() })
	dir := t.TempDir()
	keys, witness := filepath.Join(dir, "keys"), newWitness(t)
	if _, err := keyring.Create(keys, nil); err != nil {
		t.Fatal(err)
	}
	file, key := signer(t)
	d := start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", r.URL(), "-keyring", keys, "-redis", queue.URL(), "-witness", witness, "-strict",
		"-checkpoint-key", file, "-checkpoint-every", "200ms")
	s, err := storeurl.Open(t.Context(), r.URL(), &storeurl.Options{Keyring: keys, Unwitnessed: true}) // the worker has the witness
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()

	put(t, s, "acme", right)
	eventually(t, "a checkpoint is signed", func() bool { return d.metric("hearsay_checkpoint_index") >= 1 })
	d.wait("msg=checkpoint index=1")
	if report, err := verified(t, s, key, witness); err != nil || report.Checkpoints == 0 || report.Witnessed == 0 {
		t.Errorf("%+v %v", report, err)
	}
	eventually(t, "/readyz says when the audit was looked at", func() bool {
		status, body := d.get("/readyz")
		return status == http.StatusOK && strings.Contains(body, `"name": "checkpoints"`) && strings.Contains(body, "looked at")
	})

	r.Kill9()
	d.wait("no checkpoint was made; it is tried again")
	eventually(t, "the fault shows in /readyz", func() bool {
		status, body := d.get("/readyz")
		line := body[strings.Index(body, `"checkpoints"`):]
		return status == http.StatusServiceUnavailable && strings.Contains(line[:strings.Index(line, "}")], `"ok": false`)
	})
	failures := d.metric("hearsay_checkpoint_failures_total")
	if failures < 1 {
		t.Errorf("%v failures counted", failures)
	}
	if err := r.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.wait("checkpoints are made again")
	eventually(t, "it is ready again", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })

	was := d.metric("hearsay_checkpoint_index")
	put(t, s, "other", right)
	eventually(t, "the next checkpoint is signed", func() bool { return d.metric("hearsay_checkpoint_index") > was })
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d\n%s", code, d.log())
	}
	report, err := verified(t, s, key, witness)
	if err != nil || report.Newer != 0 || report.Checkpoints < 2 || report.Acknowledged != 0 {
		t.Errorf("%+v %v", report, err)
	}
	t.Logf("%d checkpoints, %v failures while the server was gone", report.Checkpoints, failures)
}

func TestCheckpointAtTheEnd(t *testing.T) {
	path, witness := filepath.Join(t.TempDir(), "agent.db"), newWitness(t)
	file, key := signer(t)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := openStore(t, path)
	put(t, s, "acme", right)
	d := start(t, []string{"TMPDIR=" + shortDir(t), "HEARSAY_CHECKPOINT_SECRET=" + string(text), "HEARSAY_WITNESS=" + witness}, "-store", "sqlite:"+path, "-checkpoint-every", "1h")
	eventually(t, "the first look is signed", func() bool { return d.metric("hearsay_checkpoint_index") == 1 })
	put(t, s, "other", right)
	if code := d.stop(); code != exitDone {
		t.Fatalf("exit %d\n%s", code, d.log())
	}
	if report, err := verified(t, s, key, witness); err != nil || report.Checkpoints != 2 || report.Newer != 0 {
		t.Errorf("%+v %v", report, err)
	}
	if strings.Contains(d.log(), "PRIVATE") {
		t.Error("the key is in the log")
	}
}

func TestAFaultOfTheAuditEndsTheWorker(t *testing.T) {
	copied := func(t *testing.T, from, to string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, path, witness string)
		say   string
	}{
		{"an older copy of the store that was put back", func(t *testing.T, path, _ string) {
			copied(t, path+".old", path)
		}, "its witness"},
		{"a witness that is damaged", func(t *testing.T, _, witness string) {
			if err := os.WriteFile(witness, []byte("nothing was ever seen\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "witness"},
		{"a witness that is gone", func(t *testing.T, _, witness string) {
			if err := os.Remove(witness); err != nil {
				t.Fatal(err)
			}
		}, "witness create"},
		{"another origin", func(t *testing.T, _, _ string) {
			t.Setenv("HEARSAY_CHECKPOINT_ORIGIN", "other.example/hearsay")
		}, "origin"},
	} {
		t.Run(c.name+" ends it, loudly", func(t *testing.T) {
			path, witness := filepath.Join(t.TempDir(), "agent.db"), newWitness(t)
			file, _ := signer(t)
			args := []string{"-store", "sqlite:" + path, "-checkpoint-key", file, "-witness", witness}
			env := func() []string {
				return []string{"TMPDIR=" + shortDir(t), "HEARSAY_CHECKPOINT_ORIGIN=" + os.Getenv("HEARSAY_CHECKPOINT_ORIGIN")}
			}
			write := func(subject string) {
				s, err := storeurl.Open(t.Context(), "sqlite:"+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				put(t, s, subject, right)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			write("acme")
			copied(t, path, path+".old")
			if d := start(t, env(), args...); d.stop() != exitDone {
				t.Fatal(d.log())
			}
			c.spoil(t, path, witness)
			d := launch(t, env(), args...)
			if code := d.end(); code != exitFailed || !strings.Contains(d.log(), c.say) || !strings.Contains(d.log(), "level=ERROR") {
				t.Errorf("exit %d\n%s", code, d.log())
			}
		})
	}
	t.Run("a witness that is taken away while it works ends it, loudly", func(t *testing.T) {
		path, witness := filepath.Join(t.TempDir(), "agent.db"), newWitness(t)
		file, _ := signer(t)
		put(t, openStore(t, path), "acme", right)
		d := start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+path, "-checkpoint-key", file, "-witness", witness, "-checkpoint-every", "100ms")
		eventually(t, "a checkpoint is signed", func() bool { return d.metric("hearsay_checkpoint_index") == 1 })
		if err := os.Remove(witness); err != nil {
			t.Fatal(err)
		}
		if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "taken away") {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	})
}

func TestCheckpointSettings(t *testing.T) {
	file, key := signer(t)
	_, other := signer(t)
	open := filepath.Join(t.TempDir(), "open.key")
	if err := os.WriteFile(open, []byte(secret), 0o644); err != nil {
		t.Fatal(err)
	}
	verifiers := func(keys ...*audit.Key) string {
		path := filepath.Join(t.TempDir(), "audit.pub")
		text := ""
		for _, k := range keys {
			text += k.Public() + "\n"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name string
		args []string
		env  func(string) string
		say  string
	}{
		{"a key file that is not there", []string{"-checkpoint-key", file + "x"}, env(), "-checkpoint-key"},
		{"a key that others can read", []string{"-checkpoint-key", open}, env(), "chmod 600"},
		{"a secret that is none", nil, env("HEARSAY_CHECKPOINT_SECRET", secret), "-checkpoint-key"},
		{"a key by file and by environment", []string{"-checkpoint-key", file}, env("HEARSAY_CHECKPOINT_SECRET", secret), "want one of them"},
		{"an origin without a key", []string{"-checkpoint-origin", "a"}, env(), "nothing signs"},
		{"verifier keys without a key", nil, env("HEARSAY_CHECKPOINT_KEYS", "audit.pub"), "nothing signs"},
		{"verifier keys without that of the key", []string{"-checkpoint-key", file, "-checkpoint-keys", verifiers(other)}, env(), "is not in it"},
		{"a file of verifier keys that is not there", []string{"-checkpoint-key", file, "-checkpoint-keys", "none"}, env(), "-checkpoint-keys"},
		{"audit keys that are none", nil, env("HEARSAY_AUDIT_KEYS", "1:"+secret), "HEARSAY_AUDIT_KEYS"},
		{"no pause between two looks", []string{"-checkpoint-key", file, "-checkpoint-every", "0s"}, env(), "-checkpoint-every"},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			var talk strings.Builder
			if code := run(t.Context(), append([]string{"-store", "sqlite:x.db"}, c.args...), c.env, &talk, &talk); code != exitUsage || !strings.Contains(talk.String(), c.say) {
				t.Errorf("exit %d: %s", code, talk.String())
			}
			if strings.Contains(talk.String(), secret) {
				t.Errorf("a secret was printed: %s", talk.String())
			}
		})
	}
	t.Run("an old key is known beside the new one", func(t *testing.T) {
		c, err := parse([]string{"-store", "sqlite:x", "-checkpoint-key", file, "-checkpoint-keys", verifiers(other, key)}, env(), nil)
		if err != nil || len(c.checkpoints.verifiers) != 2 || c.checkpoints.origin != key.Name() || c.checkpoints.every != defaultCheckpoint {
			t.Errorf("%+v %v", c, err)
		}
	})
	t.Run("without a key the worker says that nothing is signed", func(t *testing.T) {
		d := start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+filepath.Join(t.TempDir(), "agent.db"))
		_, body := d.get("/readyz")
		if !strings.Contains(body, "none are made") || d.metric("hearsay_checkpoint_index") != -1 {
			t.Error(body)
		}
		if code := d.stop(); code != exitDone || !strings.Contains(d.log(), "no checkpoints are signed") {
			t.Error(fmt.Sprint(code), d.log())
		}
	})
}
