package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// halting is a handler of checks that says when it began, and waits.
type halting struct {
	nothing
	began chan memory.ID
	goOn  chan struct{}
}

func (h halting) Handle(_ context.Context, c promotion.Check, _ int) error {
	h.began <- c.Row
	<-h.goOn
	return nil
}

// taking counts how often an asynq server has asked for a task.
type taking struct{ n atomic.Int64 }

// DialHook, ProcessHook and ProcessPipelineHook implement redis.Hook.
func (*taking) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*taking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (k *taking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := fmt.Sprint(cmd.Args()...); cmd.Name() == "evalsha" && strings.Contains(args, "}:paused") {
			k.n.Add(1)
		}
		return err
	}
}

func (w *world) mark(name string) memory.Due {
	w.t.Helper()
	marks, err := w.store.DueMarks(w.t.Context(), w.ids[name])
	if err != nil {
		w.t.Fatal(err)
	}
	return marks[w.ids[name]]
}

func TestQueue(t *testing.T) {
	t.Parallel()
	r, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendfsync everysec"}})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	local, err := localredis.Open(t.Context(), r.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	w := newWorld(t)
	w.env["HEARSAY_REDIS"] = r.URL()
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, said(triple(name, "is in", "Oslo")))
	}
	status := func(args ...string) (q queueJSON) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.ok(append(args, "-o", "json")...)), &q); err != nil || q.Schema != "hearsay.queue/1" {
			t.Fatalf("%+v, %v", q, err)
		}
		return q
	}
	only := func(args ...string) queueOf {
		t.Helper()
		q := status(args...)
		if len(q.Queues) != 1 {
			t.Fatalf("%+v", q)
		}
		return q.Queues[0]
	}
	if s := status("queue", "status"); len(s.Queues) != 0 || s.Store == nil || s.Store.Due != 3 || s.Store.Parked != 0 {
		t.Fatalf("%+v, %+v", s, s.Store)
	}
	for _, what := range []string{"pause", "resume", "drain"} {
		if res := w.run("queue", what); res.code != exitNo || !strings.Contains(res.talk, "no worker has served a queue") {
			t.Errorf("%s: exit %d\n%s", what, res.code, res.talk)
		}
	}

	// Two rows were parked: one since nobody covers it, one since it took workers along.
	worker, err := promotion.NewWorker(w.store, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(24 * time.Hour) // what a command takes for now
	if res, err := worker.Check(t.Context(), w.ids["a"]); err != nil || res.Status != promotion.Parked {
		t.Fatal(res, err)
	}
	if err := worker.Park(t.Context(), w.ids["b"], "5 workers died while they checked it\nrm -rf"); err != nil {
		t.Fatal(err)
	}
	// The third is set aside for a verifier, whose name breaks lines.
	const crm = "crm\nrm -rf"
	mark := w.mark("c")
	if _, err := w.store.Note(t.Context(), mark, memory.SourceMark{Source: crm, Failures: 3, Until: w.now.Add(72 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	out := w.ok("queue", "status")
	for _, want := range []string{`namespace "": 1 due, 2 parked`, string(w.ids["a"]), "no verifier covers this claim", "stuck: 5 workers died", "1 set aside for crm"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if s := status("queue", "status"); len(s.Store.Rows) != 2 || s.Store.Parked != 2 || s.Store.Due != 1 || s.Store.SetAside[crm] != 1 {
		t.Errorf("%+v", s.Store)
	}

	// Paused, no worker takes a check; resumed, one does.
	var takes taking
	local.Client.AddHook(&takes)
	q := asynqqueue.New(local.Client, "one", &asynqqueue.Options{ShutdownTimeout: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	ended, checks := make(chan error, 1), halting{began: make(chan memory.ID, 9), goOn: make(chan struct{})}
	go func() { ended <- q.Serve(ctx, crm, 1, checks) }()
	eventually(t, "the worker is seen", func() bool { return len(status("queue", "status").Queues) == 1 })
	if s := only("queue", "pause"); !s.Paused || s.Processes != 1 || s.Deployment != "one" || s.Verifier != crm || s.Queue != q.Name(crm) {
		t.Errorf("%+v", s)
	}
	w.ok("queue", "pause") // twice is once
	for _, name := range []string{"a", "b", "c"} {
		if added, err := q.Enqueue(t.Context(), promotion.Check{Tenant: "default", Row: w.ids[name], Source: crm, Generation: 1}, time.Hour); err != nil || !added {
			t.Fatal(added, err)
		}
	}
	had := takes.n.Load()
	eventually(t, "the server has asked for a task again", func() bool { return takes.n.Load() > had+2 }) // one may be under way
	if s := only("queue", "status"); !s.Paused || s.Pending != 3 || s.Active != 0 || len(checks.began) != 0 {
		t.Errorf("%+v, %d began", s, len(checks.began))
	}
	if out := w.ok("queue", "status"); !strings.Contains(out, "crm") || !strings.Contains(out, "paused") || strings.Contains(out, "\nrm") {
		t.Error(out)
	}
	if s := only("queue", "resume"); s.Paused {
		t.Errorf("%+v", s)
	}
	first := <-checks.began

	// A drain waits for the check that is under way, and gives up in time.
	for _, within := range []string{"1ns", "1200ms"} {
		if res := w.run("queue", "drain", "--within", within); res.code != exitFailed || !strings.Contains(res.talk, "1 check under way") {
			t.Errorf("within %s: exit %d\n%s%s", within, res.code, res.out, res.talk)
		}
	}
	close(checks.goOn)
	if s := only("queue", "drain"); !s.Paused || s.Active != 0 || s.Pending != 2 {
		t.Errorf("%+v", s)
	}
	if n := len(checks.began); n > 0 {
		t.Errorf("%d checks were taken while the queue was paused", n)
	}
	w.ok("queue", "resume")
	seen := []memory.ID{first, <-checks.began, <-checks.began}
	if slices.Sort(seen); len(slices.Compact(seen)) != 3 {
		t.Errorf("%v", seen)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// What is done to the queues is done to those of one deployment.
	two := asynqqueue.New(local.Client, "two", nil)
	if _, err := two.Enqueue(t.Context(), promotion.Check{Tenant: "default", Row: first, Source: "erp", Generation: 1}, time.Hour); err != nil {
		t.Fatal(err)
	}
	if res := w.run("queue", "pause"); res.code != exitUsage || !strings.Contains(res.talk, "one, two") {
		t.Errorf("exit %d\n%s", res.code, res.talk)
	}
	if s := only("queue", "pause", "--deployment", "two"); !s.Paused || s.Verifier != "erp" || s.Processes != 0 {
		t.Errorf("%+v", s)
	}
	for _, s := range status("queue", "status").Queues {
		if s.Paused != (s.Deployment == "two") {
			t.Errorf("%+v", s)
		}
	}

	// What is parked or set aside comes back, without a Redis.
	delete(w.env, "HEARSAY_REDIS")
	if out := w.ok("queue", "retry", string(w.ids["b"])); out != "1 parked row and 0 that were set aside are back\n" {
		t.Error(out)
	}
	if out := w.ok("queue", "retry"); out != "1 parked row and 1 that were set aside are back\n" {
		t.Error(out)
	}
	if out := w.ok("queue", "retry", "-o", "json"); !strings.Contains(out, `"parked": 0`) || !strings.Contains(out, `"set_aside": 0`) {
		t.Error(out)
	}
	if now := w.mark("c"); now.Generation != mark.Generation || now.At != mark.At || now.Of(crm).Failures != 0 || now.Of(crm).Until.After(w.now.Add(48*time.Hour)) {
		t.Errorf("%+v", now)
	}
	w.env["HEARSAY_REDIS"] = r.URL()
	if s := status("queue", "status"); s.Store.Due != 3 || s.Store.Parked != 0 || len(s.Store.SetAside) != 0 {
		t.Errorf("%+v", s.Store)
	}
	delete(w.env, "HEARSAY_STORE")
	if s := status("queue", "status"); s.Store != nil {
		t.Errorf("%+v", s.Store)
	}
	for name, c := range map[string]struct {
		code int
		args []string
	}{
		"retry without a store": {exitUsage, []string{"queue", "retry"}},
		"an argument too many":  {exitUsage, []string{"queue", "pause", "now"}},
		"no such command":       {exitUsage, []string{"queue", "start"}},
		"no URL":                {exitUsage, []string{"queue", "status", "--redis", "http://s3cret@q"}},
		"nobody there":          {exitUnreachable, []string{"queue", "status", "--redis", "redis://:s3cret@127.0.0.1:1"}},
		"no such deployment":    {exitNo, []string{"queue", "pause", "--deployment", "three"}},
	} {
		if res := w.run(c.args...); res.code != c.code || strings.Contains(res.talk, "s3cret") {
			t.Errorf("%s: exit %d, want %d\n%s", name, res.code, c.code, res.talk)
		}
	}
	delete(w.env, "HEARSAY_REDIS")
	if res := w.run("queue", "status"); res.code != exitUsage || !strings.Contains(res.talk, "HEARSAY_REDIS") {
		t.Errorf("exit %d\n%s", res.code, res.talk)
	}
}
