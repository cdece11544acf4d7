//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/verifier"
)

// hanging is a driver whose server answers nothing as soon as it hangs, whether or not
// its caller has given up.
type hanging struct {
	memory.Driver
	hangs atomic.Bool
	over  chan struct{} // closed when the test ends
}

func (d *hanging) wait() {
	if d.hangs.Load() {
		<-d.over
	}
}

func (d *hanging) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	d.wait()
	return d.Driver.Get(ctx, tenant, keys)
}

func (d *hanging) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	d.wait()
	return d.Driver.Apply(ctx, tenant, b)
}

func (d *hanging) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	d.wait()
	return d.Driver.Query(ctx, tenant, q)
}

func find(checks []check, name string) check {
	if i := slices.IndexFunc(checks, func(c check) bool { return c.Name == name }); i >= 0 {
		return checks[i]
	}
	return check{Detail: "there is no check " + name}
}

// checksOf asks a worker whether it is ready.
func checksOf(t *testing.T, d *daemon) (int, []check) {
	t.Helper()
	status, body := d.get("/readyz")
	var answer readiness
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Ready != (status == http.StatusOK) {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return status, answer.Checks
}

// bubble runs a test of an engine in a synctest bubble.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	t.Setenv("PATH", "") // so that the queue is inside the process
	synctest.Test(t, test)
}

// engineOn is an engine on a store over a driver. Its queue is inside the process.
func engineOn(t *testing.T, d memory.Driver) (*engine, *meters) {
	t.Helper()
	m := newMeters()
	c := &config{shares: []share{{weight: 1}}, concurrency: 1, tick: time.Second, sweep: time.Minute, lifetime: time.Minute}
	e, err := newEngine(t.Context(), c, []*memory.Store{storetest.On(d, nil)}, nil, nil, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return e, m
}

// meeting lets nobody go on before all have come, once it has begun.
type meeting struct {
	begun atomic.Bool
	mu    sync.Mutex
	left  map[string]bool // who has not come yet
	all   chan struct{}   // closed when all have come
}

func (m *meeting) come(ctx context.Context, who string) error {
	if !m.begun.Load() {
		return nil
	}
	m.mu.Lock()
	if m.left[who] {
		delete(m.left, who)
		if len(m.left) == 0 {
			close(m.all)
		}
	}
	m.mu.Unlock()
	select {
	case <-m.all:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// meetingDriver is a driver on which each check of the store meets others.
type meetingDriver struct {
	memory.Driver
	*meeting
}

func (d meetingDriver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if !slices.Equal(keys, []string{"s/probe"}) { // which is read before it is written
		if err := d.come(ctx, "store"); err != nil {
			return nil, err
		}
	}
	return d.Driver.Get(ctx, tenant, keys)
}

func (d meetingDriver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.come(ctx, "store_writes"); err != nil {
		return err
	}
	return d.Driver.Apply(ctx, tenant, b)
}

func (d meetingDriver) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.come(ctx, "witness"); err != nil {
		return nil, "", err
	}
	return d.Driver.Query(ctx, tenant, q)
}

// meetingHook makes the questions of a Redis client meet others.
type meetingHook struct{ *meeting }

func (h meetingHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h meetingHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error { return cmp.Or(h.come(ctx, "queue"), next(ctx, c)) }
}

func (h meetingHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, c []redis.Cmder) error { return cmp.Or(h.come(ctx, "queue"), next(ctx, c)) }
}

// TestTheChecksOfReadinessRunAtOnce: none of them ends before all of them have begun.
func TestTheChecksOfReadinessRunAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := &meeting{left: map[string]bool{"store": true, "store_writes": true, "witness": true, "queue": true}, all: make(chan struct{})}
		e, _ := engineOn(t, meetingDriver{storetest.NewMap(), m})
		defer e.close()
		e.redis.Client.AddHook(meetingHook{m})
		for _, c := range e.ready(t.Context()) {
			if !c.OK {
				t.Fatalf("before any of them waits: %+v", c)
			}
		}
		time.Sleep(writesEvery + 10*time.Millisecond) // until then the last write stands for the next
		m.begun.Store(true)
		for _, c := range e.ready(t.Context()) {
			if !c.OK {
				t.Errorf("%+v", c)
			}
		}
	})
}

// TestAnAnswerIsNotTakenForATimeout, however late it is looked at.
func TestAnAnswerIsNotTakenForATimeout(t *testing.T) {
	for i := range 20_000 {
		if n, err := within(t.Context(), func(context.Context) (int, error) { return i, nil }); n != i || err != nil {
			t.Fatalf("%d of %d: %v", n, i, err)
		}
	}
}

func TestAStoreThatHangsIsNamedAndTheQueueIsNot(t *testing.T) {
	bubble(t, aStoreThatHangs)
}

func aStoreThatHangs(t *testing.T) {
	d := &hanging{Driver: storetest.NewMap(), over: make(chan struct{})}
	e, m := engineOn(t, d)
	defer e.close()
	for _, c := range e.ready(t.Context()) {
		if !c.OK {
			t.Errorf("before anything hangs: %+v", c)
		}
	}
	time.Sleep(writesEvery + 10*time.Millisecond) // until then the last write stands for the next
	d.hangs.Store(true)
	checks := e.ready(t.Context()) // it returns while the store hangs
	for _, name := range []string{"store", "store_writes"} {
		if c := find(checks, name); c.OK || !strings.Contains(c.Detail, "no answer within") {
			t.Errorf("%+v", c)
		}
	}
	if c := find(checks, "witness"); c.OK || !strings.Contains(c.Detail, "the store does not answer") {
		t.Errorf("the witness is blamed: %+v", c)
	}
	if c := find(checks, "queue"); !c.OK {
		t.Errorf("the queue is blamed: %+v", c)
	}
	if up := gauged(t, m, "hearsay_queue_up"); up != 1 {
		t.Errorf("/metrics says of the queue %v", up)
	}
	close(d.over)
	d.hangs.Store(false)
	eventually(t, "it is ready again", func() bool {
		return !slices.ContainsFunc(e.ready(t.Context()), func(c check) bool { return !c.OK })
	})
}

func TestReadinessWritesOnceInAWhileHoweverOftenItIsAsked(t *testing.T) {
	d := storetest.NewMap()
	w := newWriting(storetest.On(d, nil))
	for range 500 {
		if err := w.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	objs, err := d.Get(t.Context(), "default", []string{"s/probe"})
	if err != nil || objs[0].Revision == 0 || objs[0].Revision > 5 {
		t.Errorf("it was asked 500 times and has written %d times: %v", objs[0].Revision, err)
	}
}

// down is a verifier that can be taken away.
type down struct{ gone bool }

func (d *down) Verify(context.Context, memory.Row) (verifier.Verdict, error) {
	if d.gone {
		return verifier.Verdict{}, &verifier.UnavailableError{Verifier: "crm", Err: errors.New("connection refused")}
	}
	return verifier.Verdict{Outcome: verifier.Unclear, Detail: "nobody knows"}, nil
}

// counted is the value of a series with one label value.
func counted(t *testing.T, m *meters, name, label string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, series := range f.GetMetric() {
			for _, l := range series.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					return series.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

// gauged is the value of a gauge without labels.
func gauged(t *testing.T, m *meters, name string) float64 {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestRefusalsOfTheBreakerAreNoQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeters()
		v := &down{}
		w := m.watch("crm", v, &verifier.BreakerOptions{Failures: 3, FirstOpen: time.Hour, OpenFor: time.Hour})
		if c := w.ready(time.Now()); !c.OK || c.Verifier != "unasked" || c.Detail != "not asked yet" {
			t.Errorf("before anybody asked: %+v", c)
		}
		if _, err := w.Verify(t.Context(), memory.Row{}); err != nil {
			t.Fatal(err)
		}
		if c := w.ready(time.Now()); !c.OK || c.Verifier != "answers" || !strings.Contains(c.Detail, "breaker closed") {
			t.Errorf("after an answer: %+v", c)
		}
		time.Sleep(time.Second) // a breaker opens after a second without an answer
		v.gone = true
		for range 12 {
			if _, err := w.Verify(t.Context(), memory.Row{}); !errors.Is(err, verifier.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		if asked := counted(t, m, "hearsay_verifier_calls_total", "unavailable"); asked != 3 {
			t.Errorf("3 questions were asked, and %v are counted", asked)
		}
		if kept := counted(t, m, "hearsay_verifier_refusals_total", "open"); kept != 9 {
			t.Errorf("9 were kept back, and %v are counted", kept)
		}
		if c := w.ready(time.Now()); !c.OK || c.Verifier != "down" || !strings.Contains(c.Detail, "breaker open") || !strings.Contains(c.Detail, "unavailable") {
			t.Errorf("when it is down: %+v", c)
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := w.Verify(over, memory.Row{}); err == nil {
			t.Error("a question of nobody was answered")
		}
		if n := counted(t, m, "hearsay_verifier_calls_total", "canceled"); n != 0 {
			t.Errorf("a question that was not asked is counted %v times", n)
		}
	})
}

func TestAStrictWorkerRefusesKeysBesideItsStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	s := openStore(t, path)
	put(t, s, "acme", "a@b.example")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	d := launch(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+path, "-strict")
	if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "-strict: keys.apart_from_store") || !strings.Contains(d.log(), "to mend it") {
		t.Errorf("exit %d\n%s", code, d.log())
	}
	apart := filepath.Join(t.TempDir(), "keys")
	if err := os.Rename(path+".keys", apart); err != nil {
		t.Fatal(err)
	}
	d = start(t, []string{"TMPDIR=" + shortDir(t)}, "-store", "sqlite:"+path, "-keyring", apart, "-strict")
	if code := d.stop(); code != exitDone {
		t.Errorf("with the keys apart: exit %d\n%s", code, d.log())
	}
}

// TestReadinessFindsAStoreThatTakesNoWrites: of each form, and a strict worker does not
// start on one.
func TestReadinessFindsAStoreThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	keysIn := func(t *testing.T) string {
		t.Helper()
		keys := filepath.Join(t.TempDir(), "keys")
		if _, err := keyring.Create(keys, nil); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	ask := func(t *testing.T, url, keys, say string, stop, resume func(t *testing.T)) {
		t.Helper()
		env := []string{"TMPDIR=" + shortDir(t)}
		args := []string{"-store", url, "-keyring", keys, "-verify-every", "0"}
		d := start(t, env, args...)
		eventually(t, "it is ready", func() bool {
			status, checks := checksOf(t, d)
			return status == http.StatusOK && find(checks, "store_writes").OK
		})
		stop(t)
		eventually(t, "it is not ready, says why, and blames nothing else", func() bool {
			status, checks := checksOf(t, d)
			c := find(checks, "store_writes")
			return status == http.StatusServiceUnavailable && !c.OK && strings.Contains(c.Detail, say) && find(checks, "queue").OK && find(checks, "store").OK
		})
		strict := launch(t, env, append(args, "-strict")...)
		if code := strict.end(); code != exitFailed || !strings.Contains(strict.log(), "takes no writes") || !strings.Contains(strict.log(), say) {
			t.Errorf("strictly it starts on it: exit %d\n%s", code, strict.log())
		}
		resume(t)
		eventually(t, "it is ready again", func() bool { status, _ := checksOf(t, d); return status == http.StatusOK })
		if code := d.stop(); code != exitDone {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	}
	t.Run("PostgreSQL that only reads", func(t *testing.T) {
		p, err := server.Postgres(t.Context())
		server.Need(t, err)
		t.Cleanup(func() { p.Stop(context.WithoutCancel(t.Context())) })
		psql := func(t *testing.T, statements ...string) {
			t.Helper()
			args := []string{"-qd", p.URL(), "-v", "ON_ERROR_STOP=1"}
			for _, s := range statements {
				args = append(args, "-c", s)
			}
			if out, err := exec.CommandContext(t.Context(), p.Program("psql"), args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", statements, err, out)
			}
		}
		psql(t, "CREATE ROLE app LOGIN")
		if _, err := pgstore.Migrate(t.Context(), p.URL(), &pgstore.Options{Role: "app"}); err != nil {
			t.Fatal(err)
		}
		only := func(value string) func(*testing.T) {
			return func(t *testing.T) {
				psql(t, "ALTER SYSTEM SET default_transaction_read_only = "+value, "SELECT pg_reload_conf()")
			}
		}
		ask(t, p.RuntimeURL("app"), keysIn(t), "the server takes no writes", only("on"), only("off"))
	})
	t.Run("Redis without memory", func(t *testing.T) {
		r, err := server.Redis(t.Context(), server.RedisOptions{})
		server.Need(t, err)
		t.Cleanup(func() { r.Stop() })
		limit := func(bytes int) func(*testing.T) {
			return func(t *testing.T) {
				t.Helper()
				if _, err := r.Do(t.Context(), "CONFIG", "SET", "maxmemory", fmt.Sprint(bytes)); err != nil {
					t.Fatal(err)
				}
			}
		}
		ask(t, r.URL(), keysIn(t), "out of memory", limit(1), limit(0))
	})
}

// A worker on a queue whose Redis may evict keys says so, when it starts and whenever it is
// asked.
func TestAWorkerSaysThatItsQueueMayLoseTasks(t *testing.T) {
	for policy, says := range map[string]bool{"noeviction": false, "allkeys-lru": true} {
		r, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"maxmemory-policy " + policy}})
		server.Need(t, err)
		t.Cleanup(func() { r.Stop() })
		var talk strings.Builder
		c := &config{redis: r.URL(), shares: []share{{weight: 1}}, concurrency: 1, tick: time.Second, sweep: time.Minute, lifetime: time.Minute}
		e, err := newEngine(t.Context(), c, []*memory.Store{storetest.NewStore(nil)}, nil, nil, newMeters(), slog.New(slog.NewTextHandler(&talk, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(talk.String(), "maxmemory_policy="+policy); said != says {
			t.Errorf("%s: it said\n%s", policy, &talk)
		}
		var detail string
		eventually(t, "the queue answers", func() bool {
			detail = e.queueReady(t.Context()).Detail
			return !strings.Contains(detail, "no answer")
		})
		if strings.Contains(detail, "may evict keys") != says {
			t.Errorf("%s: %q", policy, detail)
		}
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}
}
