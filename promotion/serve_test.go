package promotion_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// tasks is a queue of checks in memory: first in, first out, and none twice.
type tasks struct {
	mu       sync.Mutex
	state    map[promotion.Check]string // "pending", "active", "retry" or "orphaned"
	pending  []promotion.Check
	crashes  map[promotion.Check]int
	down     bool
	full     bool // it answers, and takes no check
	paused   bool
	look     func(tenant, namespace string) bool
	enqueued []promotion.Check // all that were added
	refused  int               // tasks that came back
	most     int               // tasks at a time
	timeout  time.Duration     // of the newest task
}

func newTasks() *tasks {
	return &tasks{state: map[promotion.Check]string{}, crashes: map[promotion.Check]int{}}
}

var (
	errQueue    = errors.New("the queue is down")
	errNoAnswer = &verifier.UnavailableError{Verifier: "crm", Err: errors.New("no answer")}
)

func (q *tasks) Enqueue(_ context.Context, c promotion.Check, timeout time.Duration) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.down || q.full {
		return false, errQueue
	}
	if q.state[c] != "" {
		return false, nil
	}
	q.state[c], q.pending, q.enqueued, q.timeout = "pending", append(q.pending, c), append(q.enqueued, c), timeout
	q.most = max(q.most, len(q.state))
	return true, nil
}

func (q *tasks) ServeLooks(ctx context.Context, look func(tenant, namespace string) bool) error {
	q.do(func() { q.look = look })
	<-ctx.Done()
	return nil
}

// lookAt asks for a look.
func (q *tasks) lookAt(tenant, namespace string) bool {
	var look func(string, string) bool
	q.do(func() { look = q.look })
	return look(tenant, namespace)
}

func (q *tasks) Paused(context.Context, string) (paused bool, err error) {
	q.do(func() {
		if paused = q.paused; q.down {
			err = errQueue
		}
	})
	return paused, err
}

func (q *tasks) Find(_ context.Context, c promotion.Check) (at promotion.Place, err error) {
	q.do(func() {
		at = map[string]promotion.Place{"": promotion.Lost, "pending": promotion.Waiting, "retry": promotion.Waiting, "active": promotion.Taken, "orphaned": promotion.Stranded}[q.state[c]]
		if q.down {
			err = errQueue
		}
	})
	return at, err
}

func (q *tasks) Serve(ctx context.Context, _ string, places int, h promotion.CheckHandler) error {
	var working sync.WaitGroup
	for range places {
		working.Go(func() {
			for ctx.Err() == nil {
				if c, crashes, ok := q.take(); ok {
					var timeout time.Duration
					q.do(func() { timeout = q.timeout })
					ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
					q.end(c, h.Handle(ctx, c, crashes))
					cancel()
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	working.Wait()
	return nil
}

func (q *tasks) take() (c promotion.Check, crashes int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.down || q.paused || len(q.pending) == 0 {
		return c, 0, false
	}
	c, q.pending = q.pending[0], q.pending[1:]
	if q.state[c] != "pending" {
		return c, 0, false
	}
	q.state[c] = "active"
	return c, q.crashes[c], true
}

func (q *tasks) end(c promotion.Check, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state[c] != "active" { // wiped meanwhile
		return
	}
	if err == nil {
		delete(q.state, c)
		return
	}
	q.state[c] = "retry"
	q.refused++
	after := time.Second
	if says := (interface{ ComeBackAfter() time.Duration })(nil); errors.As(err, &says) {
		after = says.ComeBackAfter()
	}
	time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state[c] == "retry" {
			q.state[c], q.pending = "pending", append(q.pending, c)
		}
	})
}

// do changes the queue.
func (q *tasks) do(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// left is how many tasks there are, added are all that were, back is how many came back, and highest how
// many there were at a time.
func (q *tasks) left() (n int) { q.do(func() { n = len(q.state) }); return n }
func (q *tasks) added() (all []promotion.Check) {
	q.do(func() { all = slices.Clone(q.enqueued) })
	return all
}
func (q *tasks) back() (n int) { q.do(func() { n = q.refused }); return n }
func (q *tasks) active() (n int) {
	q.do(func() {
		for _, state := range q.state {
			if state == "active" {
				n++
			}
		}
	})
	return n
}
func (q *tasks) highest() (n int) { q.do(func() { n = q.most }); return n }

func (q *tasks) wipe() {
	q.do(func() { clear(q.state); q.pending = nil })
}

// service is a world in a synctest bubble, whose time is that of the bubble, with a queue.
type service struct {
	*world
	t     *testing.T
	queue *tasks
	log   testmain.Output
	n     int // claims written
}

// inBubble runs a test with a service.
func inBubble(t *testing.T, test func(s *service)) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{world: &world{t: t, ctx: t.Context()}, t: t, queue: newTasks()}
		s.store = storetest.NewStore(&memory.Options{Authority: func(string, string, string) bool { return true }})
		test(s)
	})
}

// serve has a worker serve a source, until the test ends or stop is called.
func (s *service) serve(worker *promotion.Worker, source string, places int) (stop func()) {
	return s.serveOn(s.queue, worker, source, places)
}

// serveOn is serve with a queue of its own for the source.
func (s *service) serveOn(q *tasks, worker *promotion.Worker, source string, places int) (stop func()) {
	return testmain.Serve(s.t, func(ctx context.Context) error { return worker.ServeSource(ctx, q, source, places) })
}

// logged are options with a log.
func (s *service) logged() *promotion.Options {
	return &promotion.Options{Budget: -1, Logger: slog.New(slog.NewTextHandler(&s.log, nil))}
}

// claims writes claims, and returns their rows.
func (s *service) claims(n int) (ids []memory.ID) {
	for range n {
		ids = append(ids, s.claim(fmt.Sprintf("acme %d", s.n), "Oslo", nil))
		s.n++
	}
	return ids
}

// verified counts rows that are.
func (s *service) verified(ids []memory.ID) (n int) {
	for _, id := range ids {
		if row := s.row(id); row.State() == memory.StateVerified {
			n++
		}
	}
	return n
}

// within waits until all of some rows are verified, for a while at most. It returns how long that took.
func (s *service) within(most time.Duration, ids []memory.ID) time.Duration {
	s.t.Helper()
	began := time.Now()
	for s.verified(ids) < len(ids) {
		if time.Since(began) > most {
			left := 0
			if s.queue != nil {
				left = s.queue.left()
			}
			s.t.Fatalf("%d of %d rows are verified after %s; the queue has %d", s.verified(ids), len(ids), most, left)
		}
		time.Sleep(250 * time.Millisecond)
	}
	return time.Since(began)
}

func slow(d time.Duration, step verifiertest.Step) verifiertest.Step {
	return verifiertest.Slow(d, step)
}

// TestEachDueRowIsAskedAboutOnce, by two workers that share a store and a queue.
func TestEachDueRowIsAskedAboutOnce(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(300)
		crm := verifiertest.New("crm", slow(10*time.Millisecond, verifiertest.Supports()))
		for range 2 {
			s.serve(s.worker(s.logged(), source(crm)), "crm", 4)
		}
		s.within(800*time.Millisecond, ids) // the verifier takes 375 ms; looks that no check wakes take a second
		asked := crm.Asked()
		slices.Sort(asked)
		if len(asked) != len(ids) || len(slices.Compact(asked)) != len(ids) {
			t.Errorf("%d questions about %d rows", len(asked), len(ids))
		}
		time.Sleep(time.Hour)
		if crm.Calls() != len(ids) || s.queue.left() != 0 || s.log.String() != "" {
			t.Errorf("%d questions, %d tasks left, logged: %s", crm.Calls(), s.queue.left(), s.log.String())
		}
	})
}

// TestTheMostReadRowsAreAskedAboutFirst, and the queue stays short.
func TestTheMostReadRowsAreAskedAboutFirst(t *testing.T) {
	inBubble(t, func(s *service) {
		const places = 2
		ids := s.claims(60)
		reads := map[memory.ID]float64{}
		for i, id := range ids {
			reads[id] = float64(i + 1)
		}
		if _, err := s.store.AddHeat(s.ctx, reads); err != nil {
			t.Fatal(err)
		}
		crm := verifiertest.New("crm", slow(time.Second, verifiertest.Supports()))
		s.serve(s.worker(nil, source(crm)), "crm", places)
		time.Sleep(10500 * time.Millisecond)
		// Now the last row becomes the most read one.
		if _, err := s.store.AddHeat(s.ctx, map[memory.ID]float64{ids[0]: 1000}); err != nil {
			t.Fatal(err)
		}
		before := crm.Calls()
		s.within(time.Minute, ids)
		asked := crm.Asked()
		for at, id := range asked {
			if hotter := len(ids) - 1 - slices.Index(ids, id); id != ids[0] && (at-hotter > 2*places+places || hotter-at > 2*places+places) {
				t.Errorf("question %d is about the row of place %d", at, hotter)
			}
		}
		if at := slices.Index(asked, ids[0]) - before; at > 2*places+places {
			t.Errorf("a row that is read most is asked about after %d others", at)
		}
		// A check that has come to an end makes room a moment before its task is gone.
		if s.queue.highest() > 2*places+2*places {
			t.Errorf("%d tasks at a time", s.queue.highest())
		}
	})
}

// TestAQueueThatIsWipedIsFilledAgain.
func TestAQueueThatIsWipedIsFilledAgain(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(100)
		crm := verifiertest.New("crm", slow(time.Second, verifiertest.Supports()))
		s.serve(s.worker(nil, source(crm)), "crm", 4)
		for range 3 {
			time.Sleep(2500 * time.Millisecond)
			s.queue.wipe()
		}
		// Rows that were lost are enqueued again after half a minute; all others need no wait.
		s.within(2*time.Minute, ids)
		asked := crm.Asked()
		slices.Sort(asked)
		if len(slices.Compact(asked)) != len(ids) {
			t.Error("rows were not asked about")
		}
	})
}

// TestATaskThatNobodyEverTakesIsGivenUp after five minutes, and the row is asked about once.
func TestATaskThatNobodyEverTakesIsGivenUp(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(2) // as many as one place has room for
		crm := verifiertest.New("crm", verifiertest.Supports())
		for _, id := range ids {
			s.queue.state[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: s.mark(id).Generation}] = "orphaned"
		}
		s.serve(s.worker(s.logged(), source(crm)), "crm", 1)
		time.Sleep(4*time.Minute + 30*time.Second)
		if n := s.verified(ids); n != 0 {
			t.Fatal("who asked?")
		}
		others := s.claims(20)
		s.within(20*time.Second, others) // the orphans hold up nobody
		if n := s.verified(ids); n != 0 {
			t.Fatal("who asked?")
		}
		s.within(2*time.Minute, ids)
		if n := len(crm.Asked()); n != 22 {
			t.Errorf("%d questions", n)
		}
		if log := s.log.String(); strings.Count(log, "nobody takes") != len(ids) {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestATaskThatAnotherProcessMakesIsNotGivenUp, however long that takes, and holds up no other row. It may be one
// that crashes each process in turn, whose crashes the queue counts.
func TestATaskThatAnotherProcessMakesIsNotGivenUp(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(2) // as many as one place has room for
		round := map[memory.ID]uint64{}
		for _, id := range ids {
			round[id] = s.mark(id).Generation
			s.queue.state[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: round[id]}] = "active"
		}
		s.serve(s.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), "crm", 1)
		s.within(40*time.Second, s.claims(20))
		for _, paused := range []bool{true, false} {
			s.queue.do(func() { s.queue.paused = paused })
			time.Sleep(time.Hour)
		}
		for id, before := range round {
			if now := s.mark(id).Generation; now != before {
				t.Errorf("the task of %s was given up", id)
			}
		}
		s.queue.wipe()
		s.within(time.Minute, ids)
	})
}

// TestTheQueueIsShortWhileAnswersTakeLong: what has waited for long is still there, and takes room.
func TestTheQueueIsShortWhileAnswersTakeLong(t *testing.T) {
	inBubble(t, func(s *service) {
		const places = 2
		ids := s.claims(24)
		s.serve(s.worker(nil, source(verifiertest.New("crm", slow(50*time.Second, verifiertest.Supports())))), "crm", places)
		time.Sleep(45 * time.Second) // the first two are asked about for longer than 30 s
		if n := s.queue.highest(); n != 2*places {
			t.Errorf("%d tasks, and none has ended", n)
		}
		s.within(30*time.Minute, ids)
		// What ended in 200 ms makes room for more, a moment before its task is gone.
		if n := s.queue.highest(); n > 2*places+2*places {
			t.Errorf("%d tasks at a time", n)
		}
	})
}

// TestAWorkerIsNotIdleWhileRowsAreDue: a check that ends wakes who fills the queue.
func TestAWorkerIsNotIdleWhileRowsAreDue(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(50)
		s.serve(s.worker(nil, source(verifiertest.New("crm", slow(10*time.Millisecond, verifiertest.Supports())))), "crm", 1)
		time.Sleep(700 * time.Millisecond) // the questions take 500, and looks that no check wakes come every 125 to 250
		if n := s.verified(ids); n != len(ids) {
			t.Errorf("%d of %d rows are verified", n, len(ids))
		}
	})
}

// TestAQueueThatIsDownLosesNothing: the rows stay where they are, and one line is logged.
func TestAQueueThatIsDownLosesNothing(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(50)
		s.queue.down = true
		crm := verifiertest.New("crm", verifiertest.Supports())
		s.serve(s.worker(s.logged(), source(crm)), "crm", 4)
		time.Sleep(10 * time.Minute)
		if crm.Calls() != 0 || strings.Count(s.log.String(), "\n") != 1 || !strings.Contains(s.log.String(), "not enqueued") {
			t.Errorf("%d questions, logged: %s", crm.Calls(), s.log.String())
		}
		s.queue.do(func() { s.queue.down = false })
		s.within(5*time.Second, ids)
		if !strings.Contains(s.log.String(), "enqueued again") {
			t.Errorf("logged: %s", s.log.String())
		}
	})
}

// TestAVerifierThatIsDownMovesNothing: few questions are asked, tasks wait in their places, and
// all rows are checked when it is back.
func TestAVerifierThatIsDownMovesNothing(t *testing.T) {
	inBubble(t, func(s *service) {
		const outage = 10 * time.Minute
		ids := s.claims(60)
		var down atomic.Bool
		var asked atomic.Int64
		down.Store(true)
		crm := verifier.WithBreaker("crm", verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
			if asked.Add(1); down.Load() {
				return verifier.Verdict{}, errNoAnswer
			}
			return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
		}), nil)
		s.serve(s.worker(&promotion.Options{Budget: -1}, promotion.Source{Name: "crm", Verifier: crm, Rank: memory.RankTool}), "crm", 4)
		round := map[memory.ID]uint64{}
		for _, id := range ids {
			round[id] = s.mark(id).Generation
		}
		time.Sleep(outage)
		if s.verified(ids) != 0 || s.queue.highest() > 16 {
			t.Errorf("%d rows are verified, %d tasks at a time", s.verified(ids), s.queue.highest())
		}
		if most := 4 * int(outage/(2*time.Second)); s.queue.back() > most { // each waits so long in its place
			t.Errorf("%d tasks came back, want %d at most", s.queue.back(), most)
		}
		if n := asked.Load(); n < 100 || n > 130 { // at first one of each place, then after 0.1, 0.2, 0.4, ... and 5 s
			t.Errorf("%d questions", n)
		}
		aside := 0
		for _, id := range ids {
			m := s.mark(id)
			if m.Tries != 0 || m.At.IsZero() || m.Generation != round[id] || m.Of("crm").Failures > 2 {
				t.Fatalf("%+v", m)
			}
			aside += m.Of("crm").Failures
		}
		if aside > 8 { // a probe in vain says nothing about its row
			t.Errorf("%d failures are noted", aside)
		}
		down.Store(false)
		if took := s.within(30*time.Second, ids); took > 8*time.Second {
			t.Errorf("it took %s after the outage", took)
		}
	})
}

// TestABudgetThatIsSpentMovesNothing: checks wait for it, and none is given up.
func TestABudgetThatIsSpentMovesNothing(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(12)
		before := map[memory.ID]memory.Due{}
		for _, id := range ids {
			before[id] = s.mark(id)
		}
		crm := verifiertest.New("crm", verifiertest.Supports())
		s.serve(s.worker(&promotion.Options{Budget: 1, Tick: 20 * time.Minute}, source(crm)), "crm", 2)
		time.Sleep(time.Hour - time.Minute)
		if n := s.verified(ids); n != 3 || crm.Calls() != 3 {
			t.Errorf("%d rows are verified, %d questions", n, crm.Calls())
		}
		for _, id := range ids {
			if row := s.row(id); row.State() != memory.StateVerified && !reflect.DeepEqual(s.mark(id), before[id]) {
				t.Errorf("%+v became %+v", before[id], s.mark(id))
			}
		}
	})
}

// TestAWorkerWithTheWrongKeysParksNothing: no row is to blame.
func TestAWorkerWithTheWrongKeysParksNothing(t *testing.T) {
	inBubble(t, func(s *service) {
		d := storetest.NewMap()
		s.store = storetest.On(d, nil)
		ids := s.claims(3)
		worker, err := promotion.NewWorker(storetest.On(d, nil), []promotion.Source{source(verifiertest.New("crm", verifiertest.Supports()))}, s.logged())
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if _, err := s.queue.Enqueue(s.ctx, promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: s.mark(id).Generation}, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		stop := s.serve(worker, "crm", 2)
		time.Sleep(time.Minute)
		stop()
		for _, id := range ids {
			if m := s.mark(id); m.At.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if s.queue.back() == 0 || !strings.Contains(s.log.String(), "not enqueued") {
			t.Errorf("%d tasks came back, logged: %s", s.queue.back(), s.log.String())
		}
	})
}

// TestARowWhoseQuestionFailedIsAskedAboutAgainInTime, though nothing else is due.
func TestARowWhoseQuestionFailedIsAskedAboutAgainInTime(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(1)
		crm := verifiertest.New("crm", verifiertest.Down(0), verifiertest.Down(0), verifiertest.Down(0), verifiertest.Supports())
		s.serve(s.worker(nil, source(crm)), "crm", 1)
		if took := s.within(time.Minute, ids); took < 7*time.Second || took > 9*time.Second { // 1 + 2 + 4
			t.Errorf("it took %s", took)
		}
		if n := len(s.queue.added()); n != 4 {
			t.Errorf("%d tasks for four questions", n)
		}
	})
}

// TestARowThatFallsDueIsWoken.
func TestARowThatFallsDueIsWoken(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(1)
		const later = 10*time.Minute + 15*time.Second // no multiple of the pause between two looks
		if err := s.store.Reschedule(s.ctx, ids[0], s.store.Now().Add(later), 0, "later"); err != nil {
			t.Fatal(err)
		}
		s.serve(s.worker(nil, source(verifiertest.New("crm", verifiertest.Supports()))), "crm", 1)
		time.Sleep(later - time.Second)
		if s.verified(ids) != 0 {
			t.Fatal("too early")
		}
		s.within(3*time.Second, ids)
		// What is written while nothing is due is found within half a minute.
		time.Sleep(time.Hour)
		s.within(31*time.Second, s.claims(1))
	})
}

// TestACheckOfARoundThatIsOverAsksNobody.
func TestACheckOfARoundThatIsOverAsksNobody(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(1)
		if err := s.store.Reschedule(s.ctx, ids[0], s.store.Now().Add(time.Hour), 0, "later"); err != nil {
			t.Fatal(err)
		}
		crm := verifiertest.New("crm", verifiertest.Supports())
		for _, c := range []promotion.Check{
			{Row: ids[0], Generation: s.mark(ids[0]).Generation - 1},
			{Row: ids[0], Generation: s.mark(ids[0]).Generation},
			{Row: "mem_00000000000000000000000000", Generation: 1},
			{Row: ids[0], Generation: s.mark(ids[0]).Generation - 1, Tenant: "another"},
		} {
			if c.Source = "crm"; c.Tenant == "" {
				c.Tenant, c.Namespace = s.store.Tenant(), s.store.Namespace()
			}
			if _, err := s.queue.Enqueue(s.ctx, c, time.Minute); err != nil {
				t.Fatal(err)
			}
		}
		s.serve(s.worker(nil, source(crm)), "crm", 1)
		time.Sleep(30 * time.Second)
		if crm.Calls() != 0 || s.queue.left() != 1 { // that of another store comes back, for who has that
			t.Errorf("%d questions, %d tasks", crm.Calls(), s.queue.left())
		}
	})
}

// TestARowThatCrashesItsWorkersIsParked after five, and from the second on no other check is made
// meanwhile.
func TestARowThatCrashesItsWorkersIsParked(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(40)
		var mu sync.Mutex
		now, beside := 0, map[memory.ID]int{}
		crm := verifier.Func(func(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
			mu.Lock()
			now++
			beside[row.ID] = max(beside[row.ID], now)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			beside[row.ID] = max(beside[row.ID], now)
			now--
			mu.Unlock()
			return verifiertest.New("crm", verifiertest.Supports()).Verify(ctx, row)
		})
		// The queue counts also the checks that only waited when a worker died. A row itself is to blame only
		// if it was asked about.
		for i, crashes := range [][2]int{{1, 0}, {2, 0}, {9, 2}, {2, 3}, {2, 5}} {
			id := ids[10+i]
			s.queue.crashes[promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: id, Source: "crm", Generation: s.mark(id).Generation}] = crashes[0]
			if crashes[1] == 0 {
				continue
			}
			if _, err := s.store.Note(s.ctx, s.mark(id), memory.SourceMark{Source: "crm", Until: s.store.Now(), Crashes: crashes[1]}); err != nil {
				t.Fatal(err)
			}
		}
		stale := promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: ids[15], Source: "crm", Generation: s.mark(ids[15]).Generation - 1}
		s.queue.crashes[stale] = 9
		if _, err := s.queue.Enqueue(s.ctx, stale, time.Minute); err != nil {
			t.Fatal(err)
		}
		s.serve(s.worker(nil, promotion.Source{Name: "crm", Verifier: crm, Rank: memory.RankTool}), "crm", 4)
		s.within(time.Minute, slices.Concat(ids[:13], ids[15:]))
		if beside[ids[10]] < 2 || beside[ids[11]] != 1 || beside[ids[12]] != 1 || beside[ids[13]] != 0 || beside[ids[14]] != 0 {
			t.Errorf("so many checks were made beside that of a row, itself included: %v", []int{beside[ids[10]], beside[ids[11]], beside[ids[12]], beside[ids[13]], beside[ids[14]]})
		}
		for i, n := range []int{5, 7} {
			if m := s.mark(ids[13+i]); !m.At.IsZero() || !strings.Contains(m.Reason, fmt.Sprintf("%d workers died", n)) {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestACheckThatWasGivenUpIsNoCrash: it is of a round that is over then.
func TestACheckThatWasGivenUpIsNoCrash(t *testing.T) {
	inBubble(t, func(s *service) {
		ids := s.claims(1)
		q := &outlived{tasks: s.queue}
		worker := s.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
		ctx, stop := context.WithCancel(s.ctx)
		defer stop()
		before := s.mark(ids[0]).Generation
		q.then = func(h promotion.CheckHandler) {
			c := promotion.Check{Tenant: s.store.Tenant(), Namespace: s.store.Namespace(), Row: ids[0], Source: "crm", Generation: before}
			gone, cancel := context.WithCancel(s.ctx)
			cancel()
			h.Outlived(gone, c)
			if m := s.mark(ids[0]); m.Generation == before || m.At.After(s.store.Now()) {
				t.Errorf("%+v", m)
			}
			now := s.mark(ids[0]).Generation
			h.Outlived(gone, c)
			if s.mark(ids[0]).Generation != now {
				t.Error("a check of a round that is over began another")
			}
			stop()
		}
		if err := worker.ServeSource(ctx, q, "crm", 1); err != nil {
			t.Error(err)
		}
	})
}

// outlived is a queue that does something with its handler, and nothing else.
type outlived struct {
	*tasks
	then func(promotion.CheckHandler)
}

func (q *outlived) Serve(ctx context.Context, _ string, _ int, h promotion.CheckHandler) error {
	q.then(h)
	<-ctx.Done()
	return nil
}

// TestRowsThatTheSourceDoesNotCoverAreLeftAlone, and hold up no others.
func TestRowsThatTheSourceDoesNotCoverAreLeftAlone(t *testing.T) {
	inBubble(t, func(s *service) {
		var priced []memory.ID
		for i := range 100 {
			priced = append(priced, s.claim(fmt.Sprint("box ", i), "7", func(d *memory.Draft) { d.Content.Predicate = "price" }))
		}
		ids := s.claims(20)
		before := s.mark(priced[0])
		crm := verifiertest.New("crm", verifiertest.Supports())
		covers := source(crm)
		covers.Covers = func(c memory.Content) bool { return c.Predicate == "city" }
		s.serve(s.worker(nil, covers), "crm", 2)
		s.within(10*time.Second, ids)
		time.Sleep(time.Minute)
		if after := s.mark(priced[0]); crm.Calls() != len(ids) || after.Generation != before.Generation || after.At != before.At {
			t.Errorf("%d questions, %+v", crm.Calls(), after)
		}
		for _, c := range s.queue.added() { // a row that was checked during a look may be there twice
			if !slices.Contains(ids, c.Row) {
				t.Errorf("a task about row %s", c.Row)
			}
		}
	})
}

// TestAQueueThatCannotBeServedEndsTheSource.
func TestAQueueThatCannotBeServedEndsTheSource(t *testing.T) {
	w := newWorld(t)
	worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
	if err := worker.ServeSource(t.Context(), unserved{newTasks()}, "crm", 1); !errors.Is(err, errQueue) {
		t.Errorf("%v", err)
	}
}

// unserved is a queue that cannot be served.
type unserved struct{ *tasks }

func (unserved) Serve(context.Context, string, int, promotion.CheckHandler) error { return errQueue }

// rotten is a driver of which some objects are cut.
type rotten struct {
	memory.Driver
	mu   sync.Mutex
	keys map[string]bool
}

func (r *rotten) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := r.Driver.Get(ctx, tenant, keys)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range objs {
		if r.keys[memory.KeyText(objs[i].Key)] && objs[i].Data != nil {
			objs[i].Data = objs[i].Data[:3]
		}
	}
	return objs, err
}

// TestARowThatCannotBeReadIsParked, and one that cannot even be parked is left alone for ten
// minutes. Neither holds up others.
func TestARowThatCannotBeReadIsParked(t *testing.T) {
	inBubble(t, func(s *service) {
		d := &rotten{Driver: storetest.NewMap(), keys: map[string]bool{}}
		s.store = storetest.On(d, &memory.Options{Authority: func(string, string, string) bool { return true }})
		for i := range 5 {
			s.claim(fmt.Sprint("box ", i), "7", func(d *memory.Draft) { d.Content.Predicate = "price" })
		}
		ids := s.claims(20)
		mark, body, head := ids[0], ids[1], ids[2]
		for key := range map[string]bool{"due/" + string(mark): true, "body/" + string(body): true, "head/" + string(head): true} {
			d.keys[key] = true
		}
		crm := source(verifiertest.New("crm", verifiertest.Supports()))
		crm.Covers = func(c memory.Content) bool { return c.Predicate == "city" } // so that rows are read before they are enqueued
		s.serve(s.worker(s.logged(), crm), "crm", 2)
		s.within(10*time.Second, ids[3:])
		time.Sleep(25 * time.Minute)
		d.mu.Lock()
		clear(d.keys)
		d.mu.Unlock()
		for _, id := range []memory.ID{mark, body} {
			if m := s.mark(id); !m.At.IsZero() || !strings.Contains(m.Reason, "it cannot be read") {
				t.Errorf("%+v", m)
			}
		}
		if n := strings.Count(s.log.String(), "neither checked nor parked"); n != 3 {
			t.Errorf("it was tried %d times: %s", n, s.log.String())
		}
		s.within(11*time.Minute, []memory.ID{head})
		asked := map[memory.ID]bool{}
		for _, c := range s.queue.added() {
			asked[c.Row] = true
		}
		if len(asked) != len(ids) {
			t.Errorf("checks of %d rows, of which the source covers %d", len(asked), len(ids))
		}
		if n := s.queue.left(); n != 0 {
			t.Errorf("%d tasks are left", n)
		}
	})
}
