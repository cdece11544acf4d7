package promotion

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/hearsay-go/hearsay/memory"
)

// Check is one question to be asked: one source, about one row, in one round.
type Check struct {
	Tenant     string
	Namespace  string
	Row        memory.ID
	Source     string
	Generation uint64 // of the due mark of the row
}

// CheckQueue passes checks on to workers, each to one; package asynqqueue has one. It may lose
// checks, since the row store says what is due. It must be safe for concurrent use.
type CheckQueue interface {
	// Enqueue adds a check, which may take as long as timeout says. added is false if the queue
	// has the same check already. This may be under way.
	Enqueue(ctx context.Context, c Check, timeout time.Duration) (added bool, err error)
	// Serve takes checks of a source, and handles up to places of them at a time, until ctx ends.
	// It returns when those under way have ended, or were given back.
	Serve(ctx context.Context, source string, places int, h CheckHandler) error
	// Paused reports whether an operator has stopped the checks of a source.
	Paused(ctx context.Context, source string) (bool, error)
	// Find says where a check is.
	Find(ctx context.Context, c Check) (Place, error)
	// ServeLooks calls look when a process asks, until ctx ends, that due rows of a scope be looked for
	// now; see [Looker]. look does not block, and reports whether the scope is served here.
	ServeLooks(ctx context.Context, look func(tenant, namespace string) (served bool)) error
}

// Place is where a check is.
type Place uint8

// The places.
const (
	Lost     Place = iota // the queue does not have it
	Waiting               // a process takes it in its turn
	Taken                 // a process makes it, or died making it and the queue will notice
	Stranded              // the queue has it, and nobody ever takes it
)

// Looker asks the processes that serve a scope to look for due rows now, since there are some. It may
// be lost, since they look by themselves every now and then.
type Looker interface {
	Look(ctx context.Context, tenant, namespace string) error
}

// CheckHandler is what a [CheckQueue] calls.
type CheckHandler interface {
	// Handle makes a check. crashes is how many workers died while they made it. After an error
	// the check comes back in about a second, or when a method ComeBackAfter() time.Duration of it says.
	Handle(ctx context.Context, c Check, crashes int) error
	// Outlived is called when the queue was not reached for so long that it has given a check up.
	// The queue counts a crash then, but this process lives.
	Outlived(ctx context.Context, c Check)
}

// Times and limits of a check that a queue hands out.
const (
	mostInPlace = 2 * time.Second       // that a check waits in its place while its source may not be asked
	stateEvery  = 50 * time.Millisecond // between two looks at a breaker, which cost nothing
	suspected   = 2                     // crashes, from which on a question is asked while no other is
	mostCrashes = 3                     // further crashes in a question about the row, after which it is parked
	mostNote    = time.Second           // for the note that a row is asked about which may crash the process: all others wait
	givenUp     = 5 * time.Second       // for what is written after a check was given up
	unbounded   = 30 * time.Second      // how long an answer of a source takes that does not say
)

// allPlaces is what a question takes of all that a process may ask at a time, if no other is to be asked meanwhile.
const allPlaces = 1 << 20

// Serve promotes the rows of some namespaces until ctx ends. It asks the sources of each worker about the
// rows that are due, the most read first. It passes on the reads that [Scope.Reads] counts. Every two sweeps
// it moves the rows that rest on what was revoked, as [Withdraw] does. Sources of several workers that have
// the same name share their places and their queue.
//
// About twice as many checks of a source are in the queue as it has places. As many as came to an end
// in the last 200 ms may be there beside them, and those that another process has made for more than half a
// minute. The other rows stay in the row stores, in their order. Other processes may serve the same scopes over
// the same queue.
//
// A store that is slow or hangs delays the other scopes by a few seconds. A store is slow if a check has waited for it for
// two seconds. While other scopes need places of the same source, checks of slow stores have half of them, and the
// others go back to the queue. One more is made every four seconds, to see whether a slow store is fast again. If the
// source has one place, a check of a slow store may have it for as long as a check may take. A row that may crash the
// process can wait for some 20 s beside a store that takes no writes. A driver that ignores its context keeps the places
// that it has.
//
// A row that several sources cover is enqueued for the one of highest rank that can be asked. This
// is a source that is served here, whose breaker is closed, and that has neither answered about the row
// yet nor failed to a moment ago. If several scopes have rows that are due, each has its turn.
//
// A check whose source may not be asked, since its breaker is open or its budget is spent, waits
// in its place for up to two seconds. Then it goes back to the queue. When the breaker is half-open,
// the source is asked about one row that is due, drawn by lot. If that question fails, nothing is
// noted of the row. A row that crashes its workers is parked after five of them, and so is one that cannot
// be read. While an operator has stopped the checks of a source, it is not asked at all.
//
// Serve says through the store which sources the workers have, and which of them are down; see
// [Scope.Publish]. A row that only [Observed] covers is checked as if that were a source with a queue of its own. A row
// that nothing covers is parked after an hour; see [Scope.Uncovered].
//
// If the queue is a [Spending], it counts the budgets of the workers that have none of their own, so that all
// processes share them. Otherwise each process has its own, and that is logged as a warning. So is a scope
// without Reads, and a worker without a source.
//
// It is an error if there is no queue, if two workers are of one scope, if Reads are those of another store, or
// if the queue cannot be served. Otherwise Serve returns nil after ctx ended, or an error that says that the
// last reads were not counted, or that the queue gave checks back. A store or a queue that is not reached is
// logged, and tried again.
func Serve(ctx context.Context, q CheckQueue, scopes ...Scope) error {
	if q == nil {
		return errors.New("promotion: Serve: no queue")
	}
	places := map[string]int{}
	taken := map[[2]string]bool{}
	for i, c := range scopes {
		switch {
		case c.Worker == nil || c.Worker.store == nil:
			return fmt.Errorf("promotion: Serve: scope %d has no worker of NewWorker", i)
		case c.Reads != nil && c.Reads.store == nil:
			return fmt.Errorf("promotion: Serve: the Reads of scope %d have no store", i)
		case c.Weight < 0 || c.Sweep < 0:
			return fmt.Errorf("promotion: Serve: scope %d has a weight or a sweep below 0", i)
		case c.Publish != 0 && (c.Publish < leastPublish || c.Publish > memory.MaxLease/3):
			return fmt.Errorf("promotion: Serve: scope %d has a Publish of %s, want 0 or %s to %s", i, c.Publish, leastPublish, memory.MaxLease/3)
		}
		at := c.Worker.scope()
		switch {
		case taken[at]:
			return fmt.Errorf("promotion: Serve: two workers of tenant %q, namespace %q", at[0], at[1])
		case c.Reads != nil && ([2]string{c.Reads.store.Tenant(), c.Reads.store.Namespace()} != at || c.Reads.store.Identity() != c.Worker.store.Identity()):
			return fmt.Errorf("promotion: Serve: the Reads of tenant %q, namespace %q are those of another one", at[0], at[1])
		}
		taken[at] = true
		for j := range c.Worker.sources {
			s := &c.Worker.sources[j]
			places[s.Name] = max(places[s.Name], s.places())
		}
	}
	if len(scopes) == 0 {
		return errors.New("promotion: Serve: no scope")
	}
	s := newService(q, scopes)
	for source, n := range places { // all of them are there before the first row is left to a better one
		defer s.source(source, n)()
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range scopes {
		s.beside(ctx, c, group)
	}
	group.Go(func() error { return q.ServeLooks(ctx, s.look) })
	s.serve(ctx, group)
	return group.Wait()
}

// beside serves what goes on beside the checks of a scope. It warns of what is not wired.
func (s *service) beside(ctx context.Context, c Scope, group *errgroup.Group) {
	w := c.Worker
	warn := func(text string) {
		w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, text, slog.String("namespace", w.store.Namespace()))
	}
	if len(w.sources) == 0 {
		warn("there is no source: no row is checked")
	}
	if !w.share(s.queue) {
		warn("the queue counts no budgets: each process asks as many questions as the budget allows")
	}
	until(ctx, group, w.reconsider)
	until(ctx, group, func(ctx context.Context) { Withdraw(ctx, w.store, 2*cmp.Or(c.Sweep, mostIdle), w.opts.Logger) })
	switch {
	case c.Reads != nil:
		looker := c.Reads.looker
		if looker == nil {
			looker = s
		}
		group.Go(func() error { return c.Reads.serve(ctx, looker) })
	case !c.ReadsElsewhere:
		warn("reads are not counted: rows that are read are not checked first, and bring no parked row back")
	}
}

// DefaultPlaces is how many checks of a source are made at a time if nothing says otherwise.
const DefaultPlaces = 8

// places is how many checks of a source are made at a time.
func (s *Source) places() int {
	if s.Places > 0 {
		return min(s.Places, allPlaces)
	}
	if b, ok := s.Verifier.(interface{ Places() int }); ok && b.Places() > 0 {
		return min(b.Places(), allPlaces)
	}
	return DefaultPlaces
}

func (w *Worker) scope() [2]string { return [2]string{w.store.Tenant(), w.store.Namespace()} }

// service is what the sources that are served together have in common.
type service struct {
	queue      CheckQueue
	scopes     []*scope
	admissions []*admission
	handlers   []*handler
	making     *semaphore.Weighted // questions under way
	suspects   *semaphore.Weighted // questions under way, or next, that may crash the process
	longest    time.Duration       // that a source takes to answer

	mu                     sync.Mutex
	stores, queues, writes outage // of stores and queues that are not reached, and of queues that take no checks
}

// outage is what several find at about the same time. It is guarded by the mu of the service.
type outage struct {
	faults int // how many find it
	logged time.Time
	told   bool // its end is to be logged
}

// outageEvery is the time between two lines about outages of one kind, at least.
const outageEvery = time.Minute

func newService(q CheckQueue, scopes []Scope) *service {
	s := &service{queue: q, making: semaphore.NewWeighted(allPlaces), suspects: semaphore.NewWeighted(1)}
	for _, c := range scopes {
		s.scopes = append(s.scopes, newScope(s, c))
		for i := range c.Worker.sources {
			s.longest = max(s.longest, c.Worker.sources[i].bound())
		}
	}
	return s
}

// source adds a source. stop is to be called when it is not served any more.
func (s *service) source(name string, places int) (stop func()) {
	a := &admission{service: s, name: name, places: places, asking: semaphore.NewWeighted(1), watched: make(chan struct{}, 1)}
	h := &handler{source: name, places: places, shares: map[[2]string]*share{}}
	s.admissions, s.handlers = append(s.admissions, a), append(s.handlers, h)
	var workers []*Worker
	for _, c := range s.scopes {
		at := slices.IndexFunc(c.worker.sources, func(s Source) bool { return s.Name == name })
		if at < 0 {
			continue
		}
		c.worker.serves(name, 1)
		workers = append(workers, c.worker)
		h.shares[c.worker.scope()] = a.add(c, &c.worker.sources[at])
	}
	return func() {
		for _, w := range workers {
			w.serves(name, -1)
		}
	}
}

// serve serves the sources that were added, until ctx ends.
func (s *service) serve(ctx context.Context, group *errgroup.Group) {
	for _, c := range s.scopes {
		until(ctx, group, c.serve)
		until(ctx, group, c.park)
		until(ctx, group, c.publish)
	}
	for i, a := range s.admissions {
		until(ctx, group, a.watch)
		for _, share := range a.shares {
			until(ctx, group, share.serve)
		}
		h := s.handlers[i]
		h.serving = ctx
		group.Go(func() error { return s.queue.Serve(ctx, h.source, h.places, h) })
	}
}

// until runs what goes on until ctx ends.
func until(ctx context.Context, group *errgroup.Group, f func(context.Context)) {
	group.Go(func() error {
		f(ctx)
		return nil
	})
}

// Look implements [Looker].
func (s *service) Look(_ context.Context, tenant, namespace string) error {
	s.look(tenant, namespace)
	return nil
}

// look looks for rows of a scope now.
func (s *service) look(tenant, namespace string) (served bool) {
	for _, c := range s.scopes {
		if c.worker.scope() == [2]string{tenant, namespace} {
			c.ask()
			wake(c.woken)
			return true
		}
	}
	return false
}

// note notes whether somebody reaches a store, or the queue. An outage is logged, and its end. If it comes again within a
// minute, it is logged once that has passed.
func (s *service) note(ctx context.Context, o *outage, failed *bool, err error, w *Worker, where ...slog.Attr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := err != nil
	if is != *failed {
		*failed = is
		if o.faults++; !is {
			o.faults -= 2
		}
	}
	switch now := time.Now(); {
	case is && !o.told && (o.logged.IsZero() || now.Sub(o.logged) >= outageEvery):
		o.logged, o.told = now, true
		w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "rows that are due are not enqueued", append(where, slog.Any("error", err))...)
	case o.faults == 0 && o.told:
		o.told = false
		w.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "rows that are due are enqueued again", where...)
	}
}

// forget is note of somebody who looks no more, and does not know whether the outage is over. The next who does tells.
func (s *service) forget(o *outage, failed *bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *failed {
		*failed = false
		o.faults--
	}
}

// serves counts how often a source is served.
func (w *Worker) serves(source string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.served[source] += n
}

// handler handles the checks of one source.
type handler struct {
	source  string
	places  int
	shares  map[[2]string]*share // by scope
	serving context.Context      // when it ends, no check waits any more
}

var (
	errForeign   = errors.New("the check is of another store")
	errGone      = errors.New("the store of the row is not reached")
	errUnchecked = errors.New("the row was not checked; the worker has logged why")
)

// refusal says why a check goes back to the queue.
type refusal string

func (r refusal) Error() string { return "not asked: " + string(r) }

// The refusals.
const (
	refusedOpen    refusal = "the breaker of the verifier is open, or all of its places are taken"
	refusedBudget  refusal = "the budget of the verifier is spent"
	refusedSuspect refusal = "another question is asked that may crash the process"
)

// later is a refusal that lasts: a check that comes back each second would have all others wait for it in vain.
type later struct{ refusal }

func (l later) Unwrap() error { return l.refusal }

// ComeBackAfter says when the check comes back.
func (later) ComeBackAfter() time.Duration { return slowStore{}.ComeBackAfter() }

// enter returns an [asking.enter] that takes n of what the questions of a process share.
func (s *service) enter(ctx context.Context, n int64) func() (leave func(), err error) {
	return func() (func(), error) {
		if err := s.making.Acquire(ctx, n); err != nil {
			return nil, err
		}
		return func() { s.making.Release(n) }, nil
	}
}

// share is that of a check; nil = it is of another store.
func (h *handler) share(c Check) *share {
	if c.Source != h.source {
		return nil
	}
	return h.shares[[2]string{c.Tenant, c.Namespace}]
}

// Handle implements CheckHandler.
func (h *handler) Handle(ctx context.Context, c Check, crashes int) error {
	s := h.share(c)
	if s == nil {
		return errForeign
	}
	_, up := s.scope.state()
	if up == nil { // each place would wait for it
		return errGone
	}
	taken := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	ended := false
	hand := s.handled(c, cancel)
	if hand == nil {
		return slowStore{}
	}
	defer func() { // a check may panic
		if hand.over(ended); ended {
			s.done(c)
		}
	}()
	err := h.handle(ctx, hand, c, crashes)
	switch ended = err == nil; {
	case ended || errors.As(err, new(refusal)):
		return err
	case up.Err() != nil:
		return errGone
	case ctx.Err() != nil && taken.Err() == nil:
		return slowStore{}
	}
	if w := s.scope.worker; ctx.Err() == nil && h.serving.Err() == nil && w.first("check") {
		w.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "checks come back to the queue", slog.String("row", string(c.Row)), slog.String("verifier", c.Source), slog.Any("error", err))
	}
	return errUnchecked // its text may quote the row
}

func (h *handler) handle(ctx context.Context, hand *hand, c Check, crashes int) error {
	s := hand.share
	starting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.serving, cancel)()
	inPlace, cancel := context.WithTimeout(starting, mostInPlace)
	defer cancel()
	how := asking{queued: true, inPlace: inPlace, enter: s.service.enter(starting, 1), outside: hand.outside}
	if crashes >= suspected { // it may crash the process: nothing else is asked meanwhile, and it waits for no budget
		how = asking{queued: true, suspect: true, enter: hand.alone(starting, inPlace), outside: hand.outside}
		// asynq counts a crash also of checks that only waited in the process that died.
		marks, err := s.scope.store().DueMarks(ctx, c.Row)
		if err != nil {
			return err
		}
		mark := marks[c.Row]
		if n := mark.Of(c.Source).Crashes; n >= mostCrashes {
			return s.park(ctx, c, fmt.Sprintf("%d workers died while they checked it", suspected+n))
		}
	}
	refused := refusedOpen
	for hand.closed(inPlace) {
		res, err := s.scope.worker.askSource(ctx, c.Row, s.source, c.Generation, how)
		switch {
		case isUnreadable(err):
			return s.park(ctx, c, "it cannot be read: "+err.Error())
		case err != nil:
			return err
		case res.RetryAt.IsZero() || res.Calls > 0: // it was asked, or need not be
			return nil
		}
		if refused = refusedOpen; res.Status == Deferred {
			refused = refusedBudget
		}
		if !waits(inPlace, time.Until(res.RetryAt)) {
			break
		}
	}
	// Somebody else may have made the check, and its source may not be asked for long.
	marks, err := s.scope.store().DueMarks(ctx, c.Row)
	switch mark := marks[c.Row]; {
	case err != nil:
		return err
	case mark.Generation != c.Generation:
		return nil
	}
	return refused
}

// isUnreadable reports whether an error is of a row that cannot be read. With the wrong keys none can
// be read, and none can be parked.
func isUnreadable(err error) bool {
	return errors.Is(err, memory.ErrDamaged) || errors.Is(err, memory.ErrKey)
}

// park parks a row, unless it has been marked anew since. If its mark cannot be written, the row
// is left out for a while.
func (s *share) park(ctx context.Context, c Check, reason string) error {
	marks, err := s.scope.store().DueMarks(ctx, c.Row)
	mark, marked := marks[c.Row]
	if err != nil || !marked || mark.Generation != c.Generation {
		return err
	}
	if err = s.scope.worker.park(ctx, mark, memory.ParkedStuck, stuck+reason); isUnreadable(err) {
		s.leave(ctx, c.Row, err)
		return nil
	}
	return err
}

// Outlived implements CheckHandler.
func (h *handler) Outlived(ctx context.Context, c Check) {
	s := h.share(c)
	if s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givenUp)
	defer cancel()
	marks, err := s.scope.store().DueMarks(ctx, c.Row)
	if mark := marks[c.Row]; err == nil && mark.Generation == c.Generation {
		_, err = s.scope.worker.renewRound(ctx, mark)
	}
	if err != nil { // a crash too many is counted then
		s.scope.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a check that was given up is counted as a crash", slog.String("row", string(c.Row)), slog.Any("error", err))
	}
}

// renewRound begins a new round of a row that is due, so that it is enqueued anew: no task of
// the round before asks about it any more. It reports whether it did: the row may be due no more, or
// have a new mark already.
func (w *Worker) renewRound(ctx context.Context, mark memory.Due) (renewed bool, err error) {
	if mark.At.IsZero() || mark.At.After(w.store.Now()) {
		return false, nil
	}
	if err = w.store.Postpone(ctx, mark, mark.At, mark.Tries, mark.Reason); remarked(err) {
		return false, nil
	}
	return err == nil, err
}
