package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/internal/proxy"
	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/promotion/asynqqueue"
	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// plant is a store, a Redis behind a proxy, a source, and three worker processes.
type plant struct {
	t       *testing.T
	rng     *rand.Rand
	store   *memory.Store
	path    string // of its file
	redis   *server.RedisServer
	proxy   *proxy.Proxy
	local   *localredis.Redis // past the proxy
	args    []string
	workers []*daemon
	drawMu  sync.Mutex
	draw    *rand.Rand   // of the source
	slow    atomic.Int64 // the most that an answer of the source takes, in ms
	down    atomic.Bool
	holds   sync.Map // subject -> *hold
}

// hold is what the source does about one subject: it says that it is asked, and answers
// when it is told to.
type hold struct{ asked, answer chan struct{} }

// takes is how long an answer of the source takes.
func (p *plant) takes() time.Duration {
	p.drawMu.Lock()
	defer p.drawMu.Unlock()
	return time.Duration(p.draw.Int64N(p.slow.Load()+1)) * time.Millisecond
}

func newPlant(t *testing.T, workers int) *plant {
	t.Helper()
	p := &plant{t: t}
	seed := testmain.Drawn(t)
	p.rng, p.draw = rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	var err error
	p.redis, err = server.Redis(t.Context(), server.RedisOptions{Settings: []string{"appendfsync everysec"}})
	server.Need(t, err)
	t.Cleanup(func() { p.redis.Stop() })
	p.proxy = proxy.New(t, p.redis.Addr)
	if p.local, err = localredis.Open(t.Context(), p.redis.URL(), nil); err != nil {
		t.Fatal(err)
	}
	redis.SetLogger(redisLog{logger(&config{logFormat: "text"}, io.Discard)})
	t.Cleanup(func() { p.local.Close() })
	source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := p.holds.Load(r.URL.Query().Get("subject")); ok {
			h := h.(*hold)
			select {
			case h.asked <- struct{}{}:
			default: // it was asked before
			}
			select {
			case <-h.answer:
			case <-r.Context().Done():
				return
			}
		}
		time.Sleep(p.takes()) // a source takes its time
		if p.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"found":true,"value":"right","uri":"crm://%s","version":"1"}`, r.URL.Query().Get("subject"))
	}))
	t.Cleanup(source.Close)
	p.path = filepath.Join(t.TempDir(), "agent.db")
	p.store = openStore(t, p.path)
	p.args = []string{"-store", "sqlite:" + p.path, "-redis", "redis://" + p.proxy.Addr, "-budget", "0", "-sweep-every", "400ms", "-leave-alone", "1s",
		"-concurrency", "4", "-verifier-http", "crm=" + source.URL + ",predicate=billing.email,timeout=5m"}
	for range workers {
		p.workers = append(p.workers, start(t, []string{"TMPDIR=" + t.TempDir()}, p.args...))
	}
	return p
}

// put writes rows, half of them wrong, and returns what has to become of each.
func (p *plant) put(name string, n int) map[memory.ID]memory.Truth {
	p.t.Helper()
	want := map[memory.ID]memory.Truth{}
	for i := range n {
		if i%2 == 0 {
			want[put(p.t, p.store, fmt.Sprint(name, i), "right")] = memory.TruthSupported
		} else {
			want[put(p.t, p.store, fmt.Sprint(name, i), "wrong")] = memory.TruthContradicted
		}
	}
	return want
}

// settled waits until every row is what it has to be, and holds it against its
// history: one transition, logged once, and nothing else moved it.
func (p *plant) settled(what string, want map[memory.ID]memory.Truth) {
	p.t.Helper()
	began := time.Now()
	helped := false
	help := func() { // what a worker that was not heard of has in hand is taken over in two minutes, or now
		if !helped && time.Since(began) > 3*time.Second {
			helped = true
			p.takeOver(func() {})
		}
	}
	eventually(p.t, what+": every row is what it has to be", func() bool {
		help()
		for id, truth := range want {
			if get(p.t, p.store, id).Truth != truth {
				return false
			}
		}
		return true
	})
	took := time.Since(began)
	for id, truth := range want {
		log, err := p.store.History(p.t.Context(), id, false)
		if err != nil {
			p.t.Fatal(err)
		}
		if len(log) != 2 || log[1].Kind != memory.EntryTransition || log[1].To != truth.String() || log[1].Revision != 2 {
			p.t.Errorf("%s: %s is %s, and its history says %+v", what, id, truth, log)
		}
	}
	eventually(p.t, what+": the queue is whole and empty", func() bool {
		help()
		all, err := asynqqueue.Every(p.t.Context(), p.local.Client)
		return err == nil && !slices.ContainsFunc(all, func(s asynqqueue.Stats) bool { return s.Pending+s.Active+s.Orphaned+s.Retry+s.Archived > 0 })
	})
	if took > 5*time.Second && testing.Verbose() {
		for _, d := range p.workers {
			p.t.Log(d.log())
		}
	}
	p.t.Logf("%s: %d rows, %s", what, len(want), took.Round(time.Millisecond))
}

// restart puts a new worker in the place of one that ended.
func (p *plant) restart(i int) {
	p.t.Helper()
	p.workers[i] = start(p.t, []string{"TMPDIR=" + p.t.TempDir()}, p.args...)
}

func (p *plant) signal(s syscall.Signal, pid int) {
	p.t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		p.t.Fatal(err)
	}
}

// stopUnlocked stops a worker that holds no lock of the store's file or of its keyring's: nobody else could go on.
func (p *plant) stopUnlocked(pid int) {
	p.t.Helper()
	for late := time.Now().Add(patience); ; p.pause(20 * time.Millisecond) {
		p.signal(syscall.SIGSTOP, pid)
		eventually(p.t, "the worker stands still", func() bool { return standsStill(p.t, pid) })
		err := errors.Join(p.unlocked(p.path), p.unlocked(filepath.Join(p.path+".keys", "ring.db")))
		if err == nil {
			return
		}
		if p.signal(syscall.SIGCONT, pid); time.Now().After(late) {
			p.t.Fatal(err)
		}
	}
}

// standsStill reports whether all threads of a process are stopped. One stops first, and then the others.
func standsStill(t *testing.T, pid int) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		return true // it is not known
	}
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatal(pid, len(threads), err)
	}
	return !slices.ContainsFunc(threads, func(path string) bool {
		stat, err := os.ReadFile(path) // "17 (worker) T ..."
		_, state, _ := strings.Cut(string(stat), ") ")
		return err == nil && !strings.HasPrefix(state, "T")
	})
}

func (p *plant) unlocked(path string) error {
	unlock, err := teststore.TryLock(p.t.Context(), path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return unlock()
}

func (p *plant) redisPid() int {
	p.t.Helper()
	info, err := p.redis.Do(p.t.Context(), "INFO", "server")
	if err != nil {
		p.t.Fatal(err)
	}
	pid := 0
	for line := range strings.Lines(info) {
		fmt.Sscanf(line, "process_id:%d", &pid)
	}
	return pid
}

// pause lets some random time pass, so that the fault strikes anywhere.
func (p *plant) pause(most time.Duration) { time.Sleep(time.Duration(p.rng.Int64N(int64(most)))) }

// queueName is asynq's name of the queue.
func (p *plant) queueName() string {
	return asynqqueue.New(p.local.Client, asynqqueue.Deployment(p.store), nil).Name("crm")
}

// expire ends the leases of all checks that are under way: as if their workers had not been heard of
// for half a minute. The next worker that starts takes the checks over.
func (p *plant) expire() {
	p.t.Helper()
	key := "asynq:{" + p.queueName() + "}:lease"
	ids, err := p.local.Client.ZRange(p.t.Context(), key, 0, -1).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, id := range ids {
		if err := p.local.Client.ZAddXX(p.t.Context(), key, redis.Z{Score: 1, Member: id}).Err(); err != nil {
			p.t.Fatal(err)
		}
	}
}

// takeOver has another worker take over the checks that are under way, and do something meanwhile.
func (p *plant) takeOver(meanwhile func()) {
	p.t.Helper()
	p.expire()
	another := start(p.t, []string{"TMPDIR=" + p.t.TempDir()}, p.args...)
	meanwhile()
	if code := another.stop(); code != exitDone {
		p.t.Errorf("exit %d\n%s", code, another.log())
	}
}

// rowsAround is how many rows are under way when a fault strikes.
const rowsAround = 60

type fault struct {
	name   string
	strike func(p *plant)
}

var faultList = []fault{
	{"a worker is killed", func(p *plant) {
		i := p.rng.IntN(len(p.workers))
		p.workers[i].cmd.Process.Kill()
		p.workers[i].end()
		p.expire()
		p.restart(i)
	}},
	{"all workers are killed", func(p *plant) {
		for i := range p.workers {
			p.workers[i].cmd.Process.Kill()
			p.workers[i].end()
		}
		p.expire()
		for i := range p.workers {
			p.restart(i)
		}
	}},
	{"Redis is killed and comes back with its file", func(p *plant) {
		p.redis.Kill9()
		p.pause(500 * time.Millisecond)
		if err := p.redis.Start(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
	}},
	{"Redis is wiped", func(p *plant) {
		if err := p.local.Client.FlushAll(p.t.Context()).Err(); err != nil {
			p.t.Fatal(err)
		}
	}},
	{"Redis stops, and goes on", func(p *plant) {
		pid := p.redisPid()
		p.signal(syscall.SIGSTOP, pid)
		time.Sleep(1500*time.Millisecond + time.Duration(p.rng.Int64N(int64(500*time.Millisecond))))
		p.signal(syscall.SIGCONT, pid)
	}},
	{"the connections to Redis are cut", func(p *plant) {
		for range 3 {
			p.proxy.Lead("")
			p.pause(300 * time.Millisecond)
			p.proxy.Lead(p.redis.Addr)
			p.pause(300 * time.Millisecond)
		}
	}},
	{"answers of Redis get lost", func(p *plant) { // so that what was done is not known
		some := p.proxy.Lost() + 3
		p.proxy.LoseReplies(5)
		eventually(p.t, "some answers are lost", func() bool { return p.proxy.Lost() >= some })
		p.proxy.LoseReplies(0)
	}},
	{"a worker stops for longer than its lease, and goes on", func(p *plant) {
		pid := p.workers[p.rng.IntN(len(p.workers))].cmd.Process.Pid
		p.stopUnlocked(pid)
		p.takeOver(func() {
			p.signal(syscall.SIGCONT, pid)
			p.pause(300 * time.Millisecond)
		})
	}},
	{"the source takes seconds", func(p *plant) {
		p.slow.Store(2500)
		p.pause(time.Second)
		p.slow.Store(150)
	}},
	{"the source is down", func(p *plant) {
		p.down.Store(true)
		time.Sleep(time.Second)
		p.down.Store(false)
	}},
	{"checks are delivered again and again", func(p *plant) {
		client := asynq.NewClientFromRedisClient(p.local.Client)
		sent := 0
		for mark, err := range p.store.DueNow(p.t.Context()) {
			if err != nil {
				p.t.Fatal(err)
			}
			what := fmt.Sprintf(`{"tenant":"default","row":%q,"source":"crm","generation":%d}`, mark.ID, mark.Generation)
			for range 3 {
				if _, err := client.EnqueueContext(p.t.Context(), asynq.NewTask(asynqqueue.TaskType, []byte(what)), asynq.Queue(p.queueName()), asynq.MaxRetry(1000)); err != nil {
					p.t.Fatal(err)
				}
			}
			sent++
		}
		p.t.Logf("%d checks were delivered three times more", sent)
	}},
}

// Real worker processes, a real redis-server, and a fault in the middle of the work:
// afterwards every row is what its history justifies, and the queue is whole (I-6,
// I-12).
func TestFaultsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	p := newPlant(t, 3)
	p.slow.Store(150)
	for round, i := range p.rng.Perm(len(faultList)) {
		f := faultList[i]
		want := p.put(fmt.Sprintf("round %d row ", round), rowsAround)
		var reads sync.WaitGroup
		reads.Go(func() { // the second trigger
			h := promotion.NewHeater(p.store, nil, nil)
			for id := range want {
				h.ObserveReads(p.t.Context(), []memory.ID{id}, 1)
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				h.Flush(ctx) // while Redis is away, reads are lost, and nothing else
				cancel()
			}
		})
		p.pause(300 * time.Millisecond)
		f.strike(p)
		reads.Wait()
		p.settled(f.name, want)
	}
	const made = 2 // the first epoch, and that nothing is revoked
	want := made + len(faultList)*rowsAround*2
	if v, err := p.store.Verify(t.Context(), nil, nil); err != nil || v.Entries != want {
		t.Errorf("the audit: %+v, %v; want %d entries", v, err, want)
	}
	for _, d := range p.workers {
		if strings.Contains(d.log(), "level=ERROR") {
			t.Errorf("a fault was logged at error level:\n%s", d.log())
		}
		if code := d.stop(); code != exitDone {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	}
	for parked, err := range p.store.ParkedRows(t.Context()) {
		t.Errorf("parked: %+v, %v", parked, err)
	}
}

// Sweeps and reads of three processes and a user meet on one row. About a third of the
// rows the user speaks after a worker has moved the row. About another third the user
// speaks while the source is asked. About the rest they race.
func TestI6ThreeTriggersOfThreeProcessesGiveOneTransition(t *testing.T) { // SR-7.10
	t.Parallel()
	p := newPlant(t, 3)
	p.slow.Store(3)
	won := map[string]int{}
	races := 120
	if sample.Full() {
		races *= 10
	}
	for begin := 0; begin < races; begin += 40 {
		var ids []memory.ID
		asked := map[string]*hold{}
		for i := range min(40, races-begin) {
			if i%3 == 1 {
				user := fmt.Sprint("user ", begin+i)
				asked[user] = &hold{asked: make(chan struct{}, 1), answer: make(chan struct{})}
				p.holds.Store(user, asked[user])
			}
			r, err := p.store.Put(t.Context(), memory.Draft{
				Content: memory.Content{Subject: fmt.Sprint("user ", begin+i), Predicate: "billing.email", Object: "right", Cardinality: memory.CardinalityFunctional},
				Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
				Asserter: memory.Asserter{Principal: "agent", Model: "sonnet-4.6", Family: "claude"},
			})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		var all sync.WaitGroup
		all.Go(func() {
			h := promotion.NewHeater(p.store, nil, nil)
			for _, id := range ids {
				h.ObserveReads(p.t.Context(), []memory.ID{id}, 1)
				if err := h.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
		for i, id := range ids {
			user, wait := fmt.Sprint("user ", begin+i), time.Duration(p.rng.Int64N(int64(150*time.Millisecond)))
			all.Go(func() {
				switch i % 3 {
				case 0:
					for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
						if rows, err := p.store.Get(t.Context(), id); err == nil && rows[0].Truth == memory.TruthSupported {
							break
						}
					}
				case 1:
					h := asked[user]
					select {
					case <-h.asked:
					case <-time.After(patience):
						t.Errorf("nobody asked about %s", user)
					}
					defer close(h.answer)
				default:
					time.Sleep(wait)
				}
				_, err := p.store.Apply(context.Background(), memory.Transition{Row: id, Revision: 1, To: memory.TruthSupported, Authority: memory.AuthorityUser,
					Actor: user, Source: "user:" + user, Reason: "yes", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser,
						Source: "user:" + user, Verifier: "statement", Group: "user:" + user, Anchor: memory.Anchor{URI: "statement:1"}, At: time.Now()}}})
				if err != nil && !strings.Contains(err.Error(), "conflict") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		eventually(t, "every row is verified", func() bool {
			return !slices.ContainsFunc(ids, func(id memory.ID) bool { return get(t, p.store, id).Truth != memory.TruthSupported })
		})
		for i, id := range ids {
			log, err := p.store.History(t.Context(), id, false)
			if err == nil && len(log) == 3 && strings.HasPrefix(log[1].Actor, "user ") && log[2].Kind == memory.EntryReaffirm && strings.HasPrefix(log[2].Actor, "worker:") {
				log = log[:2] // the source agrees with the user's own word: no other state
			}
			if err != nil || len(log) != 2 || log[1].Kind != memory.EntryTransition {
				t.Fatalf("want the write and one transition: %+v, %v", log, err)
			}
			actor, _, _ := strings.Cut(log[1].Actor, ":")
			actor, _, _ = strings.Cut(actor, " ")
			won[actor]++
			if i%3 == 0 && actor != "worker" || i%3 == 1 && actor != "user" {
				t.Errorf("%s came first to row %d", actor, begin+i)
			}
		}
	}
	t.Logf("who came first: %v", won)
	for _, d := range p.workers {
		if code := d.stop(); code != exitDone {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	}
}
