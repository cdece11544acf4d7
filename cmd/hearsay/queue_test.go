package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// halting is a checker that says when it began, and waits.
type halting struct {
	nothing
	began chan memory.ID
	goOn  chan struct{}
}

func (h halting) Check(ctx context.Context, id memory.ID) (promotion.Result, error) {
	h.began <- id
	<-h.goOn
	return h.nothing.Check(ctx, id)
}

// refusing is a checker whose verifier, of a name that breaks lines, may not be asked.
type refusing struct {
	nothing
	alone bool // its breaker is open
}

func (r refusing) Check(_ context.Context, id memory.ID) (promotion.Result, error) {
	return promotion.Result{ID: id, Status: promotion.Down, RetryAt: time.Now().Add(time.Hour), Behind: []string{"crm\nrm -rf"}, Alone: r.alone}, nil
}

func TestQueue(t *testing.T) {
	t.Parallel()
	r, err := server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendfsync everysec"}})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	w := newWorld(t)
	w.env["HEARSAY_REDIS"] = r.URL()
	for _, name := range []string{"a", "b", "c"} {
		w.put(name, said(triple(name, "is in", "Oslo")))
	}
	status := func(args ...string) (q queueJSON) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.ok(append(args, "-o", "json")...)), &q); err != nil || q.Schema != "hearsay.queue/1" || q.Tenant != "default" {
			t.Fatalf("%+v, %v", q, err)
		}
		return q
	}
	if s := status("queue", "status"); s.Workers != 0 || s.Rows != (queueRows{}) || s.Store == nil || s.Store.Due != 3 || s.Store.Parked != 0 {
		t.Fatalf("%+v, %+v", s, s.Store)
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
	if err := worker.Park(t.Context(), w.ids["b"], "5 checks began and none ended\nrm -rf"); err != nil {
		t.Fatal(err)
	}
	out := w.ok("queue", "status")
	for _, want := range []string{"1 due, 2 parked", string(w.ids["a"]), "no verifier covers this claim", "stuck: 5 checks began", "running"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "\nrm") {
		t.Errorf("a reason broke the line:\n%s", out)
	}
	if s := status("queue", "status"); len(s.Store.Rows) != 2 || s.Store.Parked != 2 || s.Store.Due != 1 {
		t.Errorf("%+v", s.Store)
	}

	// Paused, no worker takes what is retried; resumed, one does.
	if s := status("queue", "pause"); !s.Paused {
		t.Errorf("%+v", s)
	}
	w.ok("queue", "pause") // twice is once
	local, err := localredis.Open(t.Context(), r.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { local.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	ended, checker := make(chan error, 1), halting{began: make(chan memory.ID, 9), goOn: make(chan struct{})}
	go func() {
		ended <- asynqqueue.New(local.Client, &asynqqueue.Options{Concurrency: 1, Batch: 1}).Serve(ctx, checker)
	}()
	if out := w.ok("queue", "retry", string(w.ids["b"])); out != "1 parked rows and 0 that were set aside are back\n" {
		t.Error(out)
	}
	if out := w.ok("queue", "retry"); out != "1 parked rows and 0 that were set aside are back\n" {
		t.Error(out)
	}
	if s := status("queue", "status"); !s.Paused || s.Rows.Waiting != 3 || s.Rows.Claimed != 0 || s.Store.Due != 3 || s.Store.Parked != 0 || len(checker.began) != 0 {
		t.Errorf("%+v, %+v, %d began", s, s.Store, len(checker.began))
	}
	if s := status("queue", "resume"); s.Paused {
		t.Errorf("%+v", s)
	}
	first := <-checker.began

	// A drain waits for the check that is under way, and gives up in time. It knows what it
	// waits for even if its time is over at once.
	for _, within := range []string{"1ns", "1200ms"} {
		if res := w.run("queue", "drain", "--within", within); res.code != exitFailed || !strings.Contains(res.talk, "1 rows are still being checked") {
			t.Errorf("within %s: exit %d\n%s%s", within, res.code, res.out, res.talk)
		}
	}
	close(checker.goOn)
	if s := status("queue", "drain"); !s.Paused || s.Rows.Claimed != 0 || s.Rows.Waiting < 1 {
		t.Errorf("%+v", s)
	}
	if n := len(checker.began); n > 1 {
		t.Errorf("%d rows were taken while the queue was paused", n)
	}
	w.ok("queue", "resume")
	seen := map[memory.ID]bool{first: true}
	for len(seen) < 3 {
		seen[<-checker.began] = true
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	// Of what a verifier refuses one sees which verifier that is, for how long, and whether
	// that is for all workers.
	refused := asynqqueue.New(local.Client, &asynqqueue.Options{Concurrency: 1})
	if err := refused.Offer(t.Context(), []promotion.Offer{{ID: w.ids["a"]}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { ended <- refused.Serve(ctx, refusing{}) }()
	behind := func(rows int64, alone bool) {
		t.Helper()
		late := time.After(time.Minute)
		var q queueJSON
		for q = status("queue", "status"); len(q.Backlogs) == 0 || q.Backlogs[0].ClosedSeconds == 0 || q.Rows.Waiting+q.Rows.Claimed > 0; q = status("queue", "status") {
			select {
			case <-late:
				t.Fatalf("nothing is refused: %+v", q)
			case <-time.After(10 * time.Millisecond):
			}
		}
		if got := q.Backlogs[0]; q.Rows.Later != rows || len(got.Verifiers) != 1 || got.Verifiers[0] != "crm\nrm -rf" || got.Rows != rows || got.ClosedSeconds <= 0 || got.ClosedSeconds > 3600.25 || got.Alone != alone {
			t.Errorf("%+v", q)
		}
		if out := w.ok("queue", "status"); !strings.Contains(out, "behind crm") || !strings.Contains(out, fmt.Sprint(rows, " rows")) || strings.Contains(out, "\nrm") || strings.Contains(out, "each worker by itself") != alone {
			t.Error(out)
		}
	}
	behind(1, false)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := w.ok("queue", "retry"); out != "0 parked rows and 1 that were set aside are back\n" {
		t.Error(out)
	}
	if out := w.ok("queue", "status"); !strings.Contains(out, "may be asked") {
		t.Error(out)
	}
	ctx, cancel = context.WithCancel(t.Context())
	go func() { ended <- refused.Serve(ctx, refusing{alone: true}) }()
	behind(3, true) // retry offered what else is due
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if out := w.ok("queue", "retry"); out != "0 parked rows and 0 that were set aside are back\n" {
		t.Error(out)
	}

	if s := status("queue", "status", "--tenant", "default"); s.Queue != "hearsay-64656661756c74" {
		t.Errorf("%+v", s)
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
