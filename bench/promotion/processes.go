package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/bench/report"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/coalesce"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
	"github.com/hearsay-go/hearsay/verifier"
)

// childVariable makes the program a worker process; its value is a childConfig.
const childVariable = "HEARSAY_BENCH_WORKER"

// childConfig is what a worker process works on.
type childConfig struct {
	Store       string
	Redis       string
	Concurrency int
	Latency     time.Duration // of the verifier
}

func mkdir(dir string) error { return os.MkdirAll(dir, 0o700) }

func openStore(ctx context.Context, url string) (*memory.Store, error) {
	o := &storeurl.Options{Fast: true}
	d, err := storeurl.Driver(ctx, url, o)
	if err != nil {
		return nil, err
	}
	keys, err := storeurl.Keys(ctx, url, o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return memory.New(coalesce.New(d), keys, nil)
}

// child is a worker process. It works until its input ends.
func child(ctx context.Context, text string, in io.Reader, out io.Writer) error {
	var c childConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return err
	}
	store, err := openStore(ctx, c.Store)
	if err != nil {
		return err
	}
	defer store.Close()
	r, err := localredis.Open(ctx, c.Redis, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	guard := verifier.WithBreaker("crm", freeAfter(c.Latency), &verifier.BreakerOptions{MaxConcurrent: c.Concurrency, Timeout: time.Minute + c.Latency})
	worker, err := promotion.NewWorker(store, []promotion.Source{{Name: "crm", Verifier: guard, Rank: memory.RankTool}}, &promotion.Options{Budget: -1})
	if err != nil {
		return err
	}
	stop := serve(ctx, r.Client, worker)
	defer stop()
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	return stop()
}

// process is a worker process of ours.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
}

func startChild(c childConfig) (*process, error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd, in}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("a worker process said %q", line), err, p.kill())
	}
	return p, nil
}

func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed
	return err
}

func (p *process) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }

// yard is a store, a Redis and a queue for worker processes.
type yard struct {
	store *memory.Store
	queue *asynqqueue.Queue
	local *localredis.Redis
	redis *server.RedisServer
	c     childConfig
}

func openYard(ctx context.Context, dir string, concurrency int, latency time.Duration) (y *yard, err error) {
	defer report.Caught(&err)
	report.Check(mkdir(dir))
	y = &yard{redis: report.Must(server.Redis(ctx, server.RedisOptions{Settings: []string{"appendfsync everysec"}}))}
	y.c = childConfig{Store: "sqlite:" + filepath.Join(dir, "agent.db"), Redis: y.redis.URL(), Concurrency: concurrency, Latency: latency}
	y.store = report.Must(openStore(ctx, y.c.Store))
	y.local = report.Must(localredis.Open(ctx, y.c.Redis, nil))
	y.queue = asynqqueue.New(y.local.Client, "bench", nil)
	return y, nil
}

func (y *yard) close() { errors.Join(y.local.Close(), y.store.Close(), y.redis.Stop()) }

// until waits until something holds.
func until(ctx context.Context, within time.Duration, what string, holds func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t := time.NewTicker(10 * time.Millisecond)
	defer t.Stop()
	for {
		ok, err := holds()
		if err != nil || ok {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("not in %s: %s", within, what)
		}
	}
}

func (y *yard) done(ctx context.Context, within time.Duration) error {
	return until(ctx, within, "no row is due", func() (bool, error) {
		_, due, err := y.store.OldestDue(ctx)
		return !due && err == nil, err
	})
}

// scale is how much faster two worker processes are where the verifier is what takes
// the time.
func (b *bench) scale(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const latency, places = 60 * time.Millisecond, 4
	took := map[int]time.Duration{}
	for _, processes := range []int{1, 2} {
		y := report.Must(openYard(ctx, filepath.Join(dir, fmt.Sprint(processes)), places, latency))
		defer y.close()
		var all []*process
		for range processes {
			all = append(all, report.Must(startChild(y.c)))
		}
		report.Check(until(ctx, time.Minute, "the queue is served", func() (bool, error) {
			s, err := y.queue.Stats(ctx)
			return len(s) == 1 && s[0].Processes == processes, err
		}))
		report.Check(y.queue.Pause(ctx))
		fill(ctx, y.store, "row", b.scaleRows, memory.StateUnverified)
		report.Check(y.queue.Resume(ctx))
		report.Check(until(ctx, time.Minute, "checks are made", func() (bool, error) {
			s, err := y.queue.Stats(ctx)
			return len(s) == 1 && s[0].Active > 0, err
		}))
		began := time.Now()
		report.Check(y.done(ctx, 10*time.Minute))
		took[processes] = time.Since(began)
		for _, p := range all {
			report.Check(p.stop())
		}
	}
	return []report.Figure{
		report.AtLeast("scale/rate_of_two_processes_over_one", "times", took[1].Seconds()/took[2].Seconds(), 1.6, b.scaleRows, b.seed),
		report.Over("scale/time_of_one_beside_rows_over_capacity", "s", took[1].Seconds(), float64(b.scaleRows)*latency.Seconds()/places, 1.5, b.scaleRows, b.seed),
	}, nil
}

// kill is how long it takes until the rows of a worker that was killed are checked. asynq looks once a
// minute for tasks whose lease of 30 s has expired.
func (b *bench) kill(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	const rows = 8
	rounds := min(b.seeds, 3)
	worst := 0.0
	for i := range rounds {
		y := report.Must(openYard(ctx, filepath.Join(dir, fmt.Sprint(i)), rows, time.Hour))
		defer y.close()
		fill(ctx, y.store, "row", rows, memory.StateUnverified)
		victim := report.Must(startChild(y.c))
		report.Check(until(ctx, time.Minute, "all rows are being checked", func() (bool, error) {
			s, err := y.queue.Stats(ctx)
			return len(s) == 1 && s[0].Active == rows, err
		}))
		y.c.Latency = time.Millisecond
		heir := report.Must(startChild(y.c))
		began := time.Now()
		report.Check(victim.kill())
		report.Check(y.done(ctx, 5*time.Minute))
		worst = max(worst, time.Since(began).Seconds())
		report.Check(heir.stop())
	}
	return []report.Figure{report.AtMost("kill/longest_redelivery", "s", worst, 125, rounds*rows, b.seed)}, nil
}

// memory is what a worker process takes at most, while very many rows are due.
func (b *bench) memory(ctx context.Context, dir string) (figures []report.Figure, err error) {
	defer report.Caught(&err)
	most := map[int]float64{}
	few := 1000
	for _, rows := range []int{few, b.memoryRows} {
		y := report.Must(openYard(ctx, filepath.Join(dir, fmt.Sprint(rows)), 4, 50*time.Millisecond))
		defer y.close()
		fill(ctx, y.store, "row", rows, memory.StateUnverified)
		p := report.Must(startChild(y.c))
		for range 100 { // it works
			if p.cmd.ProcessState != nil {
				return nil, errors.New("the worker process ended")
			}
			time.Sleep(100 * time.Millisecond)
		}
		most[rows] = report.Must(highWater(p.cmd.Process.Pid))
		report.Check(p.kill())
	}
	return []report.Figure{
		report.AtMost(fmt.Sprintf("memory/worker_with_%d_rows_due", b.memoryRows), "MB", most[b.memoryRows], 150, b.memoryRows, b.seed),
		report.Beside("memory/beside_1000_rows_due", "MB", most[b.memoryRows], most[few], b.memoryRows, b.seed),
	}, nil
}

// highWater is the most memory that a process had, in MB.
func highWater(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		kb := 0
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kb); n == 1 {
			return float64(kb) / 1024, nil
		}
	}
	return 0, errors.New("the system does not say what a process takes")
}
