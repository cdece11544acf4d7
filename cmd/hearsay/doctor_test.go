package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// doctor runs the command with JSON, and checks what holds of every report.
func (w *world) doctor(args ...string) (doctorJSON, result) {
	w.t.Helper()
	r := w.run(append([]string{"doctor", "-o", "json"}, args...)...)
	var seen doctorJSON
	if err := json.Unmarshal([]byte(r.out), &seen); err != nil || seen.Schema != "hearsay.doctor/1" || len(seen.Findings) == 0 {
		w.t.Fatalf("exit %d, %v\n%s%s", r.code, err, r.out, r.talk)
	}
	healthy := true
	names := map[string]bool{}
	for _, f := range seen.Findings {
		healthy = healthy && (f.Safe || f.Skipped)
		if f.Check == "" || f.Found == "" || names[f.Check] || !f.Safe && !f.Skipped && (f.Loss == "" || f.Fix == "") || (f.Safe || f.Skipped) && f.Loss+f.Fix != "" || f.Safe && f.Skipped {
			w.t.Errorf("a finding by halves: %+v", f)
		}
		names[f.Check] = true
	}
	if seen.Healthy != healthy || healthy && r.code != exitDone || !healthy && r.code == exitDone {
		w.t.Errorf("healthy %t, exit %d\n%s%s", seen.Healthy, r.code, r.out, r.talk)
	}
	text := w.run(append([]string{"doctor"}, args...)...)
	if text.code != r.code || strings.Count(text.out, "✗") != len(unsafe(seen)) || strings.Count(text.out, "\n– ") != len(skipped(seen)) || strings.Count(text.out, "to mend it:") != len(unsafe(seen)) {
		w.t.Errorf("the text says something else: exit %d\n%s%s", text.code, text.out, text.talk)
	}
	return seen, r
}

func unsafe(seen doctorJSON) (names []string) {
	for _, f := range seen.Findings {
		if !f.Safe && !f.Skipped {
			names = append(names, f.Check)
		}
	}
	return names
}

func skipped(seen doctorJSON) (names []string) {
	for _, f := range seen.Findings {
		if f.Skipped {
			names = append(names, f.Check)
		}
	}
	return names
}

func (seen doctorJSON) of(check string) findingJSON {
	i := slices.IndexFunc(seen.Findings, func(f findingJSON) bool { return f.Check == check })
	if i < 0 {
		return findingJSON{}
	}
	return seen.Findings[i]
}

// sound is a world that the doctor finds nothing wrong with.
func sound(t *testing.T) (w *world, key string) {
	w = newWorld(t)
	w.put("a", said(triple("acme", "is in", "Oslo")))
	if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["a"], Tries: 1}, memory.ParkedUncovered, "nobody covers it"); err != nil {
		t.Fatal(err)
	}
	apart := filepath.Join(t.TempDir(), "keys")
	if err := os.Rename(w.path+".keys", apart); err != nil {
		t.Fatal(err)
	}
	w.env["HEARSAY_KEYRING"] = apart
	w.env["HEARSAY_WITNESS"] = filepath.Join(t.TempDir(), "witness")
	w.ok("witness", "create", w.env["HEARSAY_WITNESS"])
	key = filepath.Join(t.TempDir(), "audit")
	w.ok("audit", "keygen", "-out", key, "--name", "acme.example/hearsay")
	w.ok("audit", "checkpoint", "--key", key+".key")
	return w, key + ".key"
}

// again opens the store with the keys that the environment names.
func (w *world) again() {
	w.t.Helper()
	if err := w.store.Close(); err != nil && !errors.Is(err, memory.ErrClosed) {
		w.t.Fatal(err)
	}
	s, err := storeurl.Open(w.t.Context(), "sqlite:"+w.path, &storeurl.Options{Keyring: w.env["HEARSAY_KEYRING"], Options: memory.Options{Clock: func() time.Time { return w.now }}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
}

func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(to, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o600)
		if e.IsDir() {
			mode = 0o700
		}
		return os.Chmod(path, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDoctorFindsNothingWrong(t *testing.T) {
	w, _ := sound(t)
	seen, r := w.doctor()
	if r.code != exitDone || len(unsafe(seen)) > 0 || r.talk != "" {
		t.Fatalf("exit %d, %q\n%s%s", r.code, unsafe(seen), r.out, r.talk)
	}
	for _, name := range []string{"store", "synchronous", "quick_check", "keys.folder", "keys.apart_from_store", "keys.audit", "keys fit the store", "keys.complete",
		"erasures", "entries of the future", "store has what the witness saw", "checkpoints", "rows due", "witness", "queue", "worker"} {
		if seen.of(name).Check == "" {
			t.Errorf("nothing is said of %s", name)
		}
	}
}

func TestDoctorSaysWhatDeclarationsLoosen(t *testing.T) {
	w := newWorld(t)
	w.ask(gate.ReadOnly, "lookup", `{}`)
	if seen, _ := w.doctor(); seen.of("declarations").Found != "of the tools of the last 1 call, none loosens anything" {
		t.Errorf("%q", seen.of("declarations").Found)
	}
	g, err := gate.New(w.store, gate.Policy{Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	g.Decide(t.Context(), gate.Request{Contract: gate.Contract{Tool: "send", Effect: gate.Irreversible, Sinks: []string{"/to", "/cc"}, Optional: []string{"/cc"},
		Output: []gate.OutputField{{Pointer: "/id", Trust: gate.Identifier}}}, Lineage: gate.Known(nil, nil)})
	if seen, _ := w.doctor(); seen.of("declarations").Found != "of the tools of the last 2 calls, send: optional /cc, identifier /id" {
		t.Errorf("%q", seen.of("declarations").Found)
	}
}

// TestDoctorFinds spoils one thing after the other of a sound store.
func TestDoctorFinds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, w *world, key string) (args []string)
		check string // the one that is unsafe
		say   string
		code  int
	}{
		{"that others can read the file", func(t *testing.T, w *world, _ string) []string {
			if err := os.Chmod(w.path, 0o644); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "permissions", "0644", exitNo},
		{"a keyring beside the store", func(t *testing.T, w *world, _ string) []string {
			if err := os.Rename(w.env["HEARSAY_KEYRING"], w.path+".keys"); err != nil {
				t.Fatal(err)
			}
			delete(w.env, "HEARSAY_KEYRING")
			return nil
		}, "keys.apart_from_store", "store in", exitNo},
		{"a keyring that others can read", func(t *testing.T, w *world, _ string) []string {
			if err := os.Chmod(filepath.Join(w.env["HEARSAY_KEYRING"], "ring.db"), 0o644); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "keys.folder", "0644", exitNo},
		{"no keyring", func(t *testing.T, w *world, _ string) []string {
			return []string{"--keyring", filepath.Join(t.TempDir(), "none")}
		}, "keys.folder", "no key ring", exitNo},
		{"another keyring", func(t *testing.T, w *world, _ string) []string {
			other := filepath.Join(t.TempDir(), "other")
			if r := w.run("keyring", "create", other); r.code != exitDone {
				t.Fatal(r.talk)
			}
			if r := w.run("row", "list", "--keyring", other); r.code != exitNo || !strings.Contains(r.talk, "HEARSAY_KEYRING") {
				t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
			}
			return []string{"--keyring", other}
		}, "keys fit the store", "no", exitNo},
		{"a keyring that is an older copy than the store", func(t *testing.T, w *world, key string) []string {
			old := filepath.Join(t.TempDir(), "old")
			copyFolder(t, w.env["HEARSAY_KEYRING"], old)
			w.again()
			w.put("b", said(triple("bob", "is in", "Bergen")))
			if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["b"], Tries: 1}, memory.ParkedUncovered, "nobody covers it"); err != nil {
				t.Fatal(err)
			}
			w.ok("audit", "checkpoint", "--key", key)
			return []string{"--keyring", old}
		}, "keys.complete", "a key that the keyring has not", exitNo},
		{"that an older copy of the keyring brought back what was erased", func(t *testing.T, w *world, key string) []string {
			old := filepath.Join(t.TempDir(), "old")
			copyFolder(t, w.env["HEARSAY_KEYRING"], old)
			w.ok("erase", "--subject", "acme", "--request", "R-1", "--yes", "1")
			w.ok("audit", "checkpoint", "--key", key)
			if seen, _ := w.doctor(); !seen.Healthy || seen.of("keys.destroyed").Check == "" {
				t.Fatalf("after an erasure: %q", unsafe(seen))
			}
			w.env["HEARSAY_KEYRING"] = old
			return nil
		}, "keys.destroyed", "again", exitNo},
		{"no witness", func(_ *testing.T, w *world, _ string) []string {
			delete(w.env, "HEARSAY_WITNESS")
			return nil
		}, "witness", "none", exitNo},
		{"a witness that was taken away", func(t *testing.T, w *world, _ string) []string {
			if err := os.Remove(w.env["HEARSAY_WITNESS"]); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "witness", "is not there", exitNo},
		{"a witness that is damaged", func(t *testing.T, w *world, _ string) []string {
			if err := os.WriteFile(w.env["HEARSAY_WITNESS"], []byte("x\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "witness", "damaged", exitNo},
		{"a witness that anybody can write", func(t *testing.T, w *world, _ string) []string {
			if err := os.Chmod(w.env["HEARSAY_WITNESS"], 0o622); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "witness", "others than the owner can write", exitNo},
		{"a witness in the folder of the store", func(t *testing.T, w *world, _ string) []string {
			beside := filepath.Join(filepath.Dir(w.path), "witness")
			if err := os.Rename(w.env["HEARSAY_WITNESS"], beside); err != nil {
				t.Fatal(err)
			}
			w.env["HEARSAY_WITNESS"] = beside
			return nil
		}, "witness", "in the folder of the store", exitNo},
		{"a store that is older than its witness", func(t *testing.T, w *world, key string) []string {
			w.store.Close()
			old, err := os.ReadFile(w.path)
			if err != nil {
				t.Fatal(err)
			}
			w.again()
			w.put("b", said(triple("acme", "is by", "Oslo")))
			w.store.Close()
			w.ok("audit", "checkpoint", "--key", key)
			if err := os.WriteFile(w.path, old, 0o600); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "store has what the witness saw", "it saw checkpoint 2, and the store is at 1", exitNo},
		{"that nothing is signed", func(t *testing.T, w *world, _ string) []string {
			o := &storeurl.Options{Keyring: w.env["HEARSAY_KEYRING"], Options: memory.Options{Tenant: "other"}}
			o.Clock = func() time.Time { return w.now }
			if seen, _ := w.doctor("--tenant", "other"); !seen.Healthy {
				t.Errorf("of a tenant without a row: %q", unsafe(seen))
			}
			s, err := storeurl.Open(t.Context(), "sqlite:"+w.path, o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			if err := w.store.Close(); err != nil {
				t.Fatal(err)
			}
			w.store = s
			w.put("b", said(triple("acme", "is by", "Oslo")))
			if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["b"], Tries: 1}, memory.ParkedUncovered, "nobody covers it"); err != nil {
				t.Fatal(err)
			}
			return []string{"--tenant", "other"}
		}, "checkpoints", "none", exitNo},
		{"that entries wait too long for a checkpoint", func(t *testing.T, w *world, _ string) []string {
			w.again()
			w.now = w.now.Add(48 * time.Hour) // the doctor looks a day later
			w.put("b", said(triple("acme", "is by", "Oslo")))
			if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["b"], Tries: 1}, memory.ParkedUncovered, "nobody covers it"); err != nil {
				t.Fatal(err)
			}
			return nil
		}, "checkpoints", "waited for longer than 1h", exitNo},
		{"rows that wait for a check", func(t *testing.T, w *world, key string) []string {
			w.again()
			w.put("b", said(triple("acme", "is by", "Oslo")))
			w.ok("audit", "checkpoint", "--key", key)
			return nil
		}, "rows due", "1 row", exitNo},
		{"an erasure that did not end", func(t *testing.T, w *world, key string) []string {
			w.again()
			over, cancel := context.WithCancel(t.Context())
			_, err := w.store.Erase(over, memory.Erasure{Subject: "acme", Actor: "ana", Progress: func(int) { cancel() }})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			w.ok("audit", "checkpoint", "--key", key)
			return nil
		}, "erasures", "1 unfinished", exitNo},
		{"an entry of the future", func(t *testing.T, w *world, key string) []string {
			w.again()
			was := w.now
			w.now = was.Add(96 * time.Hour)
			w.put("b", said(triple("acme", "is by", "Oslo")))
			if err := w.store.Park(t.Context(), memory.Due{ID: w.ids["b"], Tries: 1}, memory.ParkedUncovered, "nobody covers it"); err != nil {
				t.Fatal(err)
			}
			w.ok("audit", "checkpoint", "--key", key)
			w.now = was
			return nil
		}, "entries of the future", "later than now", exitNo},
		{"a queue that does not answer", func(*testing.T, *world, string) []string {
			return []string{"-redis", "redis://:s3cr3t@127.0.0.1:1"}
		}, "queue", "", exitNo},
		{"a worker that does not answer", func(*testing.T, *world, string) []string {
			return []string{"-worker", "http://127.0.0.1:1"}
		}, "worker", "does not answer", exitNo},
		{"an address that is none", func(_ *testing.T, w *world, _ string) []string {
			w.env["HEARSAY_WORKER"] = "localhost:8787"
			return nil
		}, "worker", "want http://", exitNo},
		{"a store that is not there", func(t *testing.T, w *world, _ string) []string {
			return []string{"--store", "sqlite:" + w.path + "x"}
		}, "store", "no store at", exitUnreachable},
		{"a file of another program", func(t *testing.T, w *world, _ string) []string {
			path := filepath.Join(t.TempDir(), "text")
			if err := os.WriteFile(path, []byte(strings.Repeat("a text, and no store\n", 100)), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--store", "sqlite:" + path}
		}, "store", "not a hearsay store", exitFailed},
		{"a URL that is none", func(*testing.T, *world, string) []string {
			return []string{"--store", "redis://:s3cr3t@h:port"}
		}, "store", "the host or the port", exitUsage},
		{"a server that is not there", func(*testing.T, *world, string) []string {
			return []string{"--store", "postgres://u:s3cr3t@127.0.0.1:1/db?sslmode=disable"}
		}, "store", "postgres://127.0.0.1:1/db", exitUnreachable},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, key := sound(t)
			args := c.spoil(t, w, key)
			seen, r := w.doctor(args...)
			if got := unsafe(seen); !slices.Equal(got, []string{c.check}) || !strings.Contains(seen.of(c.check).Found, c.say) || r.code != c.code {
				t.Errorf("exit %d, unsafe %q: %q\n%s", r.code, got, seen.of(c.check).Found, r.talk)
			}
			if strings.Contains(r.out+r.talk, "s3cr3t") {
				t.Error("a password is shown")
			}
		})
	}
}

func TestDoctorAsksTheWorkerAndTheQueue(t *testing.T) {
	answer := func(t *testing.T, change func(*workerReady)) string {
		ready := workerReady{Ready: true, Version: version(), Now: epoch.Add(24*time.Hour + time.Minute)}
		change(&ready)
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("%s was asked for", r.URL.Path)
			}
			if !ready.Ready {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			json.NewEncoder(w).Encode(ready)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for _, c := range []struct {
		name   string
		change func(*workerReady)
		unsafe []string
		say    string
	}{
		{"a worker that is ready is safe", func(*workerReady) {}, nil, "ready"},
		{"a worker that is not ready is not, and why is said", func(r *workerReady) {
			r.Ready = false
			json.Unmarshal([]byte(`[{"name":"checkpoints","ok":false,"detail":"looked at 3h ago"},{"name":"store","ok":true}]`), &r.Checks)
		}, []string{"worker"}, "checkpoints: looked at 3h ago"},
		{"a worker whose only verifier refuses connections is not", func(r *workerReady) {
			json.Unmarshal([]byte(`[{"name":"store","ok":true},{"name":"verifier crm","ok":true,"verifier":"down","detail":"breaker open; the newest question ended 3s ago: unavailable"}]`), &r.Checks)
		}, []string{"worker verifiers"}, "ready"},
		{"a worker whose verifiers answer is safe", func(r *workerReady) {
			json.Unmarshal([]byte(`[{"name":"verifier crm","ok":true,"verifier":"answers","detail":"breaker closed"}]`), &r.Checks)
		}, nil, "ready"},
		{"a worker of another version is not", func(r *workerReady) { r.Version = "v9.9.9" }, []string{"worker version"}, "ready"},
		{"a worker whose clock is off is not", func(r *workerReady) { r.Now = r.Now.Add(time.Minute) }, []string{"worker clock"}, "ready"},
		{"what is no worker is not", func(r *workerReady) { r.Now = time.Time{} }, []string{"worker"}, "no worker of this release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, _ := sound(t)
			seen, _ := w.doctor("-worker", answer(t, c.change))
			if got := unsafe(seen); !slices.Equal(got, c.unsafe) || !strings.Contains(seen.of("worker").Found, c.say) {
				t.Errorf("unsafe %q: %+v", got, seen.of("worker"))
			}
		})
	}

	t.Run("what was not looked at is no tick", func(t *testing.T) {
		w, _ := sound(t)
		seen, r := w.doctor()
		if got := skipped(seen); !slices.Equal(got, []string{"queue", "worker"}) || r.code != exitDone {
			t.Errorf("skipped %q, exit %d", got, r.code)
		}
		seen, r = w.doctor("-worker", answer(t, func(r *workerReady) {
			json.Unmarshal([]byte(`[{"name":"verifier crm","ok":true,"verifier":"unasked","detail":"not asked yet"}]`), &r.Checks)
		}))
		if got := skipped(seen); !slices.Equal(got, []string{"queue", "worker verifiers"}) || r.code != exitDone || !strings.Contains(seen.of("worker verifiers").Found, "not asked yet: crm") {
			t.Errorf("skipped %q, exit %d: %+v", got, r.code, seen.of("worker verifiers"))
		}
		if text := w.ok("doctor"); strings.Contains(text, "✓ queue") || strings.Contains(text, "✓ worker") || !strings.Contains(text, "– queue: not looked at") {
			t.Error(text)
		}
	})

	r, err := server.Redis(t.Context(), server.RedisOptions{})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	w, _ := sound(t)
	// A queue that answers late, or a worker whose last word is old, changes what is found
	// until the next look.
	find := func(args ...string) (seen doctorJSON) {
		t.Helper()
		if r := w.run(append([]string{"doctor", "-o", "json"}, args...)...); json.Unmarshal([]byte(r.out), &seen) != nil {
			t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
		}
		return seen
	}
	t.Run("a queue that nobody serves is unsafe", func(t *testing.T) {
		eventually(t, "the doctor sees no worker", func() bool {
			seen := find("-redis", r.URL())
			return slices.Equal(unsafe(seen), []string{"queue"}) && strings.Contains(seen.of("queue").Found, "no worker of tenant")
		})
		if seen, _ := w.doctor("-redis", r.URL()); !slices.Equal(unsafe(seen), []string{"queue"}) {
			t.Errorf("%+v", seen.of("queue"))
		}
	})
	t.Run("a queue that may lose tasks is unsafe", func(t *testing.T) {
		set := func(policy string) {
			if _, err := r.Do(t.Context(), "CONFIG", "SET", "maxmemory-policy", policy); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "a queue that keeps its keys is safe", func() bool { return find("-redis", r.URL()).of("queue keeps keys").Safe })
		set("allkeys-lru")
		defer set("noeviction")
		var seen doctorJSON
		var run result
		eventually(t, "the doctor sees what the queue does with its keys", func() bool {
			seen, run = w.doctor("-redis", r.URL())
			return strings.Contains(seen.of("queue keeps keys").Found, "allkeys-lru")
		})
		if f := seen.of("queue keeps keys"); f.Safe || !strings.Contains(f.Found, "allkeys-lru") || f.Loss == "" || f.Fix == "" || run.code != exitNo {
			t.Errorf("exit %d, %+v", run.code, f)
		}
	})
	t.Run("a queue that a worker serves is safe, for its tenant", func(t *testing.T) {
		local, err := localredis.Open(t.Context(), r.URL(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer local.Close()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- asynqqueue.New(local.Client, asynqqueue.Deployment(w.store), &asynqqueue.Options{ShutdownTimeout: time.Millisecond}).Serve(ctx, "crm", 1, nothing{})
		}()
		w.env["HEARSAY_REDIS"] = r.URL()
		eventually(t, "the doctor sees the worker", func() bool {
			f := find().of("queue")
			return f.Safe && strings.Contains(f.Found, "crm of "+asynqqueue.Deployment(w.store)+" is served by 1 worker,")
		})
		w.ok("queue", "pause")
		if f := find().of("queue"); f.Safe || !strings.Contains(f.Found, "paused") || !strings.Contains(f.Fix, "hearsay queue resume") {
			t.Errorf("%+v", f)
		}
		w.ok("queue", "resume")
		for deployment, safe := range map[string]bool{"other": false, asynqqueue.Deployment(w.store): true} {
			if f := find("-deployment", deployment).of("queue"); f.Safe != safe {
				t.Errorf("of deployment %s: %+v", deployment, f)
			}
		}
		if seen, _ := w.doctor("--tenant", "other"); seen.of("queue").Safe {
			t.Errorf("of another tenant: %+v", seen.of("queue"))
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// nothing handles checks, and checks nothing.
type nothing struct{}

func (nothing) Handle(context.Context, promotion.Check, int) error { return nil }
func (nothing) Outlived(context.Context, promotion.Check)          {}

func TestDoctorOfServers(t *testing.T) {
	r, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendfsync everysec"}})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	keys := filepath.Join(t.TempDir(), "keys")
	if _, err := keyring.Create(keys, nil); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.clock = time.Now
	if _, res := w.doctor("--store", r.URL(), "--keyring", keys); res.code != exitUnreachable {
		t.Errorf("exit %d\n%s", res.code, res.out)
	}
	if n, err := r.Do(t.Context(), "DBSIZE"); err != nil || fmt.Sprint(n) != "0" {
		t.Errorf("looking at a Redis without a store left %v keys (%v)", n, err)
	}
	made, err := storeurl.Open(t.Context(), r.URL(), &storeurl.Options{Keyring: keys})
	if err != nil {
		t.Fatal(err)
	}
	made.Close()
	seen, res := w.doctor("--store", r.URL(), "--keyring", keys)
	if res.code != exitNo || seen.of("appendfsync").Safe || !seen.of("clock").Safe || seen.of("clock").Check == "" || !strings.HasPrefix(seen.Server, "Redis") {
		t.Errorf("exit %d, %q\n%s", res.code, unsafe(seen), res.out)
	}
	if !seen.of("store takes writes").Safe {
		t.Errorf("%+v", seen.of("store takes writes"))
	}
	if _, err := r.Do(t.Context(), "CONFIG", "SET", "maxmemory", "1"); err != nil {
		t.Fatal(err)
	}
	if full, _ := w.doctor("--store", r.URL(), "--keyring", keys); full.of("store takes writes").Safe || !strings.Contains(full.of("store takes writes").Found, "out of memory") {
		t.Errorf("of a server without memory: %+v", full.of("store takes writes"))
	}
	if _, err := r.Do(t.Context(), "CONFIG", "SET", "maxmemory", "0"); err != nil {
		t.Fatal(err)
	}
	w.clock = func() time.Time { return time.Now().Add(-90 * time.Minute) }
	seen, _ = w.doctor("--store", r.URL(), "--keyring", keys)
	if f := seen.of("clock"); f.Safe || !strings.Contains(f.Found, "is 1h") {
		t.Errorf("%+v", f)
	}
	if seen, _ := w.doctor("--store", r.URL()); seen.of("keys.folder").Safe || !strings.Contains(seen.of("keys.folder").Found, "no keyring") {
		t.Errorf("%q", unsafe(seen))
	}
	for mark, say := range map[string]string{"hearsay redisstore 99": "form 99", "something": "not a hearsay store"} {
		if _, err := r.Do(t.Context(), "SET", "hearsay:store", mark); err != nil {
			t.Fatal(err)
		}
		if res := w.run("row", "list", "--store", r.URL(), "--keyring", keys); res.code != exitFailed || !strings.Contains(res.talk, say) {
			t.Errorf("exit %d\n%s%s", res.code, res.out, res.talk)
		}
		if seen, res := w.doctor("--store", r.URL(), "--keyring", keys); res.code != exitFailed || !strings.Contains(seen.of("store").Found, say) {
			t.Errorf("exit %d, %+v", res.code, seen.of("store"))
		}
	}
	t.Log(fmt.Sprint(len(seen.Findings), " findings of a Redis"))
}
