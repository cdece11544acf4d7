package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// patience is how long a test waits for what must come.
const patience = 2 * time.Minute

// daemon is the real worker in a process of its own.
type daemon struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	out  testmain.Output // stdout
	done chan struct{}   // closed when stderr ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and renewed with each line
}

// start runs the worker until it listens.
func start(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	d := launch(t, env, args...)
	line := d.wait(`msg=listening addr=`)
	d.addr = "http://" + regexp.MustCompile(`addr=(\S+)`).FindStringSubmatch(line)[1]
	d.wait(`msg=working`)
	return d
}

func launch(t *testing.T, env []string, args ...string) *daemon {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args = append([]string{"-drain", "5m", "-http", "127.0.0.1:0"}, args...) // a test's own -drain comes later and counts
	d := &daemon{t: t, cmd: exec.Command(self, args...), done: make(chan struct{}), more: make(chan struct{})}
	d.cmd.Env = append([]string{"HEARSAY_TEST_AS_PROGRAM=1", testmain.Mark()}, env...)
	d.cmd.Stdout = &d.out
	stderr, err := d.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.done)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			d.mu.Lock()
			d.lines = append(d.lines, lines.Text())
			close(d.more)
			d.more = make(chan struct{})
			d.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil {
			d.cmd.Process.Kill()
			d.end()
		}
	})
	return d
}

func (d *daemon) log() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Join(d.lines, "\n")
}

// wait returns the first log line with a text.
func (d *daemon) wait(text string) string {
	d.t.Helper()
	late := time.After(patience)
	for {
		d.mu.Lock()
		more := d.more
		for _, l := range d.lines {
			if strings.Contains(l, text) {
				d.mu.Unlock()
				return l
			}
		}
		d.mu.Unlock()
		select {
		case <-more:
		case <-d.done:
			d.t.Fatalf("the worker ended and did not log %q\n%s", text, d.log())
		case <-late:
			d.t.Fatalf("the worker did not log %q\n%s", text, d.log())
		}
	}
}

// end waits for the process and returns its exit code.
func (d *daemon) end() int {
	d.t.Helper()
	late := time.AfterFunc(patience, func() { d.cmd.Process.Kill() })
	defer late.Stop()
	<-d.done
	err := d.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Errorf("wait: %v", err)
	}
	return d.cmd.ProcessState.ExitCode()
}

func (d *daemon) stop() int {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatal(err)
	}
	return d.end()
}

func (d *daemon) get(path string) (int, string) {
	d.t.Helper()
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(d.addr + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// eventually asks again and again until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("not in %s: %s", patience, what)
		}
	}
}

// office is a system of record that answers about billing.email, while it is up.
type office struct {
	*httptest.Server
	down  atomic.Bool
	asked atomic.Int64
	blind atomic.Bool
	hold  chan struct{} // if it is not nil, answers wait until it is closed
	held  chan struct{} // gets a value for each answer that waits
}

const (
	right = "pay@acme.example"
	wrong = "ops@acme.example"
)

func newOffice(t *testing.T) *office { return newOfficeThat(t, nil) }

// newOfficeThat waits with each answer until hold is closed.
func newOfficeThat(t *testing.T, hold chan struct{}) *office {
	o := &office{hold: hold, held: make(chan struct{}, 100)}
	o.blind.Store(true)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.asked.Add(1)
		if strings.Contains(r.URL.String(), "pay") || strings.Contains(r.URL.String(), "ops") {
			o.blind.Store(false)
		}
		if o.hold != nil {
			o.held <- struct{}{}
			<-o.hold
		}
		switch {
		case o.down.Load():
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Query().Get("subject") == "acme":
			fmt.Fprintf(w, `{"found":true,"value":%q,"uri":"crm://acme","version":"1"}`, right)
		default:
			io.WriteString(w, `{"found":false}`)
		}
	}))
	t.Cleanup(o.Close)
	return o
}

func openStore(t *testing.T, path string) *memory.Store {
	t.Helper()
	s, err := storeurl.Open(t.Context(), "sqlite:"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *memory.Store, subject, object string) memory.ID {
	t.Helper()
	r, err := s.Put(t.Context(), memory.Draft{
		Content: memory.Content{Subject: subject, Predicate: "billing.email", Object: object, Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "ana", Model: "sonnet-4.6", Family: "claude"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func get(t *testing.T, s *memory.Store, id memory.ID) memory.Row {
	t.Helper()
	rows, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return rows[0]
}

// shortDir is a directory whose name leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// withRedis is the environment in which a redis-server is found. On a machine
// without one the worker runs its queue in process, and in CI that is a failure.
func withRedis(t *testing.T) (env []string, kind string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no redis-server on a CI machine")
		}
		return nil, "in-process"
	}
	return []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}, "child"
}

func TestWorker(t *testing.T) {
	env, kind := withRedis(t)
	for _, c := range []struct {
		kind string
		env  []string
	}{{kind, env}, {"in-process", []string{"TMPDIR=" + t.TempDir()}}} {
		t.Run("with a queue of kind "+c.kind, func(t *testing.T) {
			o := newOffice(t)
			path := filepath.Join(t.TempDir(), "agent.db")
			d := start(t, append(c.env, "CRM_TOKEN="+secret), "-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms",
				"-verifier-http", "crm="+o.URL+"/fact,predicate=billing.email,token_env=CRM_TOKEN")
			if line := d.wait("msg=working"); !strings.Contains(line, "queue="+c.kind) {
				t.Errorf("the queue is of another kind: %s", line)
			}
			s := openStore(t, path)

			good, bad := put(t, s, "acme", right), put(t, s, "acme", wrong)
			eventually(t, "a right row is verified", func() bool { r := get(t, s, good); return r.State() == memory.StateVerified })
			eventually(t, "a wrong row is contradicted", func() bool { return get(t, s, bad).Truth == memory.TruthContradicted })
			if r := get(t, s, good); r.Rank != memory.RankTool || r.Independent() != 1 {
				t.Errorf("rank %s, %d independent", r.Rank, r.Independent())
			}

			o.down.Store(true)
			asked := o.asked.Load()
			other := put(t, s, "acme", right+"x")
			eventually(t, "the source that is down was asked", func() bool { return o.asked.Load() > asked })
			if r := get(t, s, other); r.State() == memory.StateVerified || r.Truth == memory.TruthContradicted {
				t.Errorf("a source that is down made the row %s, %s", r.State(), r.Truth)
			}
			eventually(t, "the breaker opens and shows", func() bool {
				put(t, s, fmt.Sprintf("other %d", o.asked.Load()), right)
				_, body := d.get("/metrics")
				return strings.Contains(body, `hearsay_verifier_up{verifier="crm"} 0`)
			})
			var body string
			eventually(t, "a worker whose verifier is down is ready", func() bool {
				status := 0
				status, body = d.get("/readyz")
				return status == http.StatusOK && strings.Contains(body, `"verifier": "down"`)
			})
			o.down.Store(false)

			if status, body := d.get("/healthz"); status != http.StatusOK || body != "ok\n" {
				t.Errorf("/healthz: %d %q", status, body)
			}
			var answer readiness
			if err := json.Unmarshal([]byte(body), &answer); err != nil || !answer.Ready || len(answer.Checks) != 9 {
				t.Errorf("/readyz: %v %s", err, body)
			}
			for _, name := range []string{"store", "store_writes", "witness", "queue", "schema", "gate_observe", "verifier crm", "checkpoints", "verification"} {
				if !strings.Contains(body, `"name": "`+name+`"`) {
					t.Errorf("/readyz does not name %s: %s", name, body)
				}
			}
			wants := []string{"hearsay_build_info{", `hearsay_rows{state="verified"}`, `hearsay_verifier_calls_total{outcome="supported",verifier="crm"} 1`,
				`hearsay_verifier_calls_total{outcome="refuted",verifier="crm"}`, `hearsay_verifier_calls_total{outcome="unavailable",verifier="crm"}`,
				"hearsay_verifier_seconds_bucket", `hearsay_queue_tasks{state="retry",verifier="crm"} `, "hearsay_due_oldest_seconds", `hearsay_rows_due{state="due"}`, `hearsay_queue_paused{verifier="crm"} 0`, `hearsay_queue_processes{verifier="crm"} 1`, "hearsay_promotion_lag_seconds_count 1", "hearsay_promotion_checks_total{"}
			eventually(t, "/metrics has every series", func() bool {
				_, body = d.get("/metrics")
				return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(body, want) })
			})
			for _, never := range []string{"acme", "mem_", string(good), secret} {
				if strings.Contains(body, never) {
					t.Errorf("%q in /metrics", never)
				}
			}

			if code := d.stop(); code != exitDone {
				t.Errorf("exit %d after SIGTERM\n%s", code, d.log())
			}
			if !o.blind.Load() {
				t.Error("the source was shown the claimed value")
			}
			for _, never := range []string{"acme.example", "billing.email", secret} {
				if strings.Contains(strings.ReplaceAll(d.log(), o.URL, ""), never) {
					t.Errorf("%q in the log\n%s", never, d.log())
				}
			}
		})
	}
}

func TestWorkerKilledAndStartedAgainLosesNothing(t *testing.T) {
	o := newOffice(t)
	path := filepath.Join(t.TempDir(), "agent.db")
	args := []string{"-store", "sqlite:" + path, "-budget", "0", "-sweep-every", "200ms", "-verifier-http", "crm=" + o.URL + ",predicate=billing.email"}
	env := []string{"TMPDIR=" + t.TempDir()}
	s := openStore(t, path)
	d := start(t, env, args...)
	id := put(t, s, "acme", right)
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.end()
	d = start(t, env, args...)
	eventually(t, "the row is verified after a restart", func() bool { r := get(t, s, id); return r.State() == memory.StateVerified })
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d\n%s", code, d.log())
	}
}

func TestDrain(t *testing.T) {
	begin := func(t *testing.T, drain string) (*office, *daemon, *memory.Store, memory.ID) {
		o := newOfficeThat(t, make(chan struct{}))
		path := filepath.Join(t.TempDir(), "agent.db")
		d := start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms", "-drain", drain, "-concurrency", "1",
			"-verifier-http", "crm="+o.URL+",predicate=billing.email,timeout=5m")
		s := openStore(t, path)
		id := put(t, s, "acme", right)
		<-o.held
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		return o, d, s, id
	}
	t.Run("a check under way ends and counts, and no other begins", func(t *testing.T) {
		o, d, s, id := begin(t, "5m")
		later := put(t, s, "acme corp", right)
		eventually(t, "it is not ready while it drains", func() bool {
			status, body := d.get("/readyz")
			return status == http.StatusServiceUnavailable && strings.Contains(body, "draining")
		})
		close(o.hold)
		if code := d.end(); code != exitDone || !strings.Contains(d.log(), "msg=drained") {
			t.Errorf("exit %d\n%s", code, d.log())
		}
		if r := get(t, s, id); r.State() != memory.StateVerified {
			t.Errorf("the row that was asked about is %s", r.State())
		}
		if r := get(t, s, later); r.State() != memory.StateUnverified || o.asked.Load() != 1 {
			t.Errorf("the later row is %s, %d questions", r.State(), o.asked.Load())
		}
	})
	t.Run("a check that does not end is given up, loudly, and its row stays as it was", func(t *testing.T) {
		o, d, s, id := begin(t, "300ms")
		if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "not drained in time") {
			t.Errorf("exit %d\n%s", code, d.log())
		}
		close(o.hold)
		r := get(t, s, id)
		if _, due, err := s.DueMark(t.Context(), id); r.State() != memory.StateUnverified || !due || err != nil {
			t.Errorf("%s, due %t, %v", r.State(), due, err)
		}
	})
}

func TestWorkerOnANamedRedis(t *testing.T) {
	t.Parallel()
	if _, kind := withRedis(t); kind != "child" {
		t.Log("no redis-server on this machine: an in-process queue was tested elsewhere")
		return
	}
	dir := shortDir(t)
	r, err := localredis.Open(t.Context(), "", &localredis.Options{Kind: localredis.Child, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o := newOffice(t)
	path := filepath.Join(t.TempDir(), "agent.db")
	d := start(t, []string{"HEARSAY_REDIS=unix://" + filepath.Join(dir, "r.sock")}, "-store", "sqlite:"+path, "-budget", "0", "-sweep-every", "200ms",
		"-verifier-http", "crm="+o.URL+",predicate=billing.email")
	if line := d.wait("msg=working"); !strings.Contains(line, "queue=url") {
		t.Errorf("the queue is of another kind: %s", line)
	}
	s := openStore(t, path)
	id := put(t, s, "acme", right)
	eventually(t, "the row is verified", func() bool { r := get(t, s, id); return r.State() == memory.StateVerified })
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a Redis that is gone makes the worker unready, and /metrics still answers", func() bool {
		status, body := d.get("/readyz")
		_, metrics := d.get("/metrics")
		return status == http.StatusServiceUnavailable && strings.Contains(body, `"name": "store",
      "ok": true`) && strings.Contains(metrics, "hearsay_queue_up 0")
	})
	if status, _ := d.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d", status)
	}
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d\n%s", code, d.log())
	}
}

func TestWorkerAsksASecondModel(t *testing.T) {
	asked := make(chan *http.Request, 100)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Clone(r.Context())
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer model.Close()
	path := filepath.Join(t.TempDir(), "agent.db")
	d := start(t, []string{"TMPDIR=" + shortDir(t), "HEARSAY_MODEL_KEY=" + secret, "HEARSAY_MODEL_FAMILY=qwen", "HEARSAY_STORE=sqlite:" + path},
		"-model-base-url", model.URL+"/v1", "-model", "qwen3", "-sweep-every", "200ms")
	put(t, openStore(t, path), "acme", right)
	if r := <-asked; r.Header.Get("Authorization") != "Bearer "+secret || r.URL.Path != "/v1/chat/completions" {
		t.Errorf("%s %v", r.URL, r.Header)
	}
	eventually(t, "the outage is counted", func() bool {
		_, body := d.get("/metrics")
		return strings.Contains(body, `hearsay_verifier_calls_total{outcome="unavailable",verifier="model:qwen3"}`) && strings.Contains(body, `hearsay_promotion_checks_total{result="down"}`)
	})
	if code := d.stop(); code != exitDone || strings.Contains(d.log(), secret) {
		t.Errorf("exit %d\n%s", code, d.log())
	}
}

func TestWorkersTogether(t *testing.T) {
	o := newOffice(t)
	path := filepath.Join(t.TempDir(), "agent.db")
	args := []string{"-store", "sqlite:" + path, "-budget", "0", "-sweep-every", "200ms", "-verifier-http", "crm=" + o.URL + ",predicate=billing.email"}
	s := openStore(t, path)
	one, two := start(t, []string{"TMPDIR=" + t.TempDir()}, args...), start(t, []string{"TMPDIR=" + t.TempDir()}, args...)
	id := put(t, s, "acme", right)
	eventually(t, "the row is verified", func() bool { r := get(t, s, id); return r.State() == memory.StateVerified })
	for _, d := range []*daemon{one, two} {
		if code := d.stop(); code != exitDone {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	}
	moves := 0
	history, err := s.History(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range history {
		if e.Kind == memory.EntryTransition && e.To == memory.TruthSupported.String() {
			moves++
		}
	}
	if moves != 1 {
		t.Errorf("two workers moved the row %d times", moves)
	}
}

func TestWorkerOfANamespace(t *testing.T) {
	o := newOffice(t)
	path := filepath.Join(t.TempDir(), "agent.db")
	all := openStore(t, path)
	team, err := storeurl.Open(t.Context(), "sqlite:"+path, &storeurl.Options{Options: memory.Options{Namespace: "team"}})
	if err != nil {
		t.Fatal(err)
	}
	defer team.Close()
	elsewhere, here := put(t, all, "acme", right), put(t, team, "acme", right)
	d := start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+path, "-namespace", "team", "-budget", "0", "-sweep-every", "200ms",
		"-verifier-http", "crm="+o.URL+",predicate=billing.email")
	if line := d.wait("msg=serving"); !strings.Contains(line, "namespace=team") {
		t.Errorf("the log does not say which: %s", line)
	}
	eventually(t, "a row of the namespace is verified", func() bool { row := get(t, team, here); return row.State() == memory.StateVerified })
	if code := d.stop(); code != exitDone {
		t.Errorf("exit %d\n%s", code, d.log())
	}
	if row := get(t, all, elsewhere); row.Revision != 1 || row.State() != memory.StateUnverified {
		t.Errorf("a row of another namespace is %s at revision %d", row.State(), row.Revision)
	}
}

func TestWorkerThatCannotStartFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "foreign.db")
	if err := os.WriteFile(foreign, []byte("a text, and no store"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"half a configuration", []string{"-model", "m"}, exitUsage, "-store is missing"},
		{"a file of another program", []string{"-store", "sqlite:" + foreign}, exitFailed, "not a hearsay store"},
		{"a folder that is not there", []string{"-store", "sqlite:" + filepath.Join(dir, "none", "x.db")}, exitFailed, "no such file"},
		{"a Redis that is not there", []string{"-store", "sqlite:" + filepath.Join(dir, "x.db"), "-redis", "redis://:" + secret + "@127.0.0.1:1/0"}, exitFailed, "refused"},
	} {
		t.Run(fmt.Sprintf("%s ends with exit code %d", c.name, c.code), func(t *testing.T) {
			d := launch(t, nil, c.args...)
			if code := d.end(); code != c.code || !strings.Contains(d.log(), c.say) || strings.Contains(d.log(), secret) {
				t.Errorf("exit %d\n%s", code, d.log())
			}
		})
	}
}

func TestLogFormat(t *testing.T) {
	var talk bytes.Buffer
	logger(&config{logFormat: "json"}, &talk).Info("hello", "n", 1)
	var line map[string]any
	if err := json.Unmarshal(talk.Bytes(), &line); err != nil || line["msg"] != "hello" {
		t.Errorf("%v %s", err, talk.String())
	}
}

// TestAWorkerThatWaitsForItsStoreSaysSo: another process may have locked it. It can be stopped.
func TestAWorkerThatWaitsForItsStoreSaysSo(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.db")
	openStore(t, path)
	defer teststore.Lock(t, path)()
	d := launch(t, nil, "-store", "sqlite:"+path)
	if line := d.wait("waiting for the store"); !strings.Contains(line, path) {
		t.Error(line)
	}
	if code := d.stop(); code != exitDone || !strings.Contains(d.log(), "drained") {
		t.Errorf("exit %d\n%s", code, d.log())
	}
}
