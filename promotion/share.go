package promotion

import (
	"context"
	"iter"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// share is the part of one scope in an admission.
type share struct {
	*admission
	scope  *scope
	source *Source

	// Used by looks alone.
	fault  bool          // the store was not reached
	credit int           // rows that are left of its turn
	better []*Source     // that were preferred at the last look
	listAt time.Time     // when the rows that are due are listed next
	idle   time.Duration // to the next look if there is nothing to do

	// Guarded by the mu of the admission.
	away        bool      // its checks are not made now: they take no room
	gone        bool      // its store is not reached
	next        time.Time // when it is looked at next
	woken       bool      // rows fell due, or a check came to an end, since the look began
	probeAt     time.Time // when it may probe next
	probeErr    error     // of the store, in a probe
	more        bool      // there was no room for all of its rows
	outstanding map[memory.ID]*admitted
	left        map[memory.ID]time.Time // rows that can be neither checked nor parked: left out until then
	handling    map[memory.ID]int       // checks that this process makes now
}

// admitted is a row whose check the queue has.
type admitted struct {
	generation uint64
	enqueued   time.Time // when it was enqueued last
	moved      time.Time // when its task was last known not to be stranded
	late       bool      // another process makes it, or died: it takes no room
}

func (a *admission) add(c *scope, source *Source) *share {
	s := &share{admission: a, scope: c, source: source, idle: lookEvery / 2, outstanding: map[memory.ID]*admitted{}, left: map[memory.ID]time.Time{}, handling: map[memory.ID]int{}}
	a.shares = append(a.shares, s)
	return s
}

// isDue reports whether it is time to look at the share.
func (s *share) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	due := !s.next.After(time.Now()) || !s.fault && (s.more || len(s.outstanding) > 0)
	s.woken = s.woken && !due
	return due
}

// wakes has the share looked at now, or again if it is being looked at. The caller holds mu.
func (s *share) wakes() {
	s.next, s.woken = time.Time{}, true
	s.signal()
}

// after says how long it is to the next look at the share. While there is something to do that
// differs, so that processes do not keep in step.
func (s *share) after(pause time.Duration, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more = more; !s.woken {
		s.next = time.Now().Add(pause + rand.N(lookEvery/2))
	}
}

// logger is that of the scope.
func (s *share) logger() *slog.Logger { return s.scope.worker.opts.Logger }

// tell logs that rows are not enqueued, or that they are again.
func (s *share) tell(ctx context.Context, err error, where ...slog.Attr) {
	where = append(where, slog.String("verifier", s.name))
	if err != nil {
		s.logger().LogAttrs(ctx, slog.LevelWarn, "rows that are due are not enqueued", append(where, slog.Any("error", err))...)
	} else {
		s.logger().LogAttrs(ctx, slog.LevelInfo, "rows that are due are enqueued again", where...)
	}
}

// isGone reports whether the store was not reached at the last look.
func (s *share) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// goes says whether the checks of the share are made now.
func (s *share) goes(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = !now
}

// note notes whether the store of the share was reached, and how long it took to find that it was not: a
// store that hangs holds up others. The first fault of all shares is logged, and the end of the last one.
func (s *share) note(ctx context.Context, err error, took time.Duration) {
	fault := err != nil
	s.mu.Lock()
	s.gone = fault
	s.mu.Unlock()
	if fault {
		s.goes(false)
		s.after(max(afterFault, min(restOfLooks*took, mostIdle)), false)
	}
	if fault == s.fault {
		return
	}
	if s.fault = fault; fault {
		s.faults++
	} else {
		s.faults--
	}
	if s.faults == 0 || fault && s.faults == 1 {
		s.tell(ctx, err, slog.String("namespace", s.scope.store().Namespace()))
	}
}

// look sees which checks have come to an end. due says that rows may be enqueued.
func (s *share) look(ctx context.Context) (due bool, err error) {
	if s.source.state() == verifier.StateOpen {
		s.goes(false)
		s.after(lookEvery/2, false)
		return false, nil
	}
	soon, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	due, until, read, err := s.scope.anyDue(soon)
	if err != nil {
		return false, err
	}
	if read {
		s.note(ctx, nil, 0)
	}
	pause := lookEvery / 2
	if !due {
		pause = time.Until(until)
	}
	if s.source.state() != verifier.StateClosed {
		s.goes(false)
		s.after(pause, false)
		if due {
			return false, s.startProbe(ctx)
		}
		return false, nil
	}
	n, err := s.unfinished(soon)
	if err != nil {
		return false, err
	}
	s.goes(true)
	if n > 0 {
		pause = lookEvery / 2
	}
	s.after(pause, false)
	if better := s.preferred(); !slices.Equal(better, s.better) {
		s.better, s.listAt = better, time.Time{}
	}
	return due && !s.listAt.After(time.Now()), nil
}

// unfinished forgets the checks that have come to an end, whoever made them. It counts the others,
// and enqueues them again if it is time to.
func (s *share) unfinished(ctx context.Context) (n int, err error) {
	ids := s.rows()
	if len(ids) == 0 {
		return 0, nil
	}
	store := s.scope.store()
	marks, err := store.DueMarks(ctx, ids...)
	if err != nil {
		return 0, err
	}
	s.note(ctx, nil, 0)
	now := store.Now()
	for _, id := range ids {
		mark, marked := marks[id]
		c := s.open(id, func(c *admitted) bool {
			return marked && mark.Generation == c.generation && !now.Before(wanted(mark, s.name, now))
		})
		if c == nil {
			continue
		}
		n++
		if err := s.again(ctx, mark, c); err != nil {
			return n, err
		}
	}
	return n, nil
}

// rows are those that are outstanding.
func (s *share) rows() []memory.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.outstanding))
}

// open returns the check of a row. It forgets it if it is not open any more.
func (s *share) open(id memory.ID, isOpen func(*admitted) bool) *admitted {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.outstanding[id]
	if c == nil || isOpen(c) {
		return c
	}
	s.end(id)
	return nil
}

// end forgets a check. The caller holds mu.
func (s *share) end(id memory.ID) {
	delete(s.outstanding, id)
	s.ends = append(s.ends, time.Now())
}

// wanted is when a source can be asked about a row, in the round of the mark: a time that is not after
// now if it is to be asked now. A row that is parked, or not due yet, waits for a mark that
// says otherwise.
func wanted(mark memory.Due, source string, now time.Time) time.Time {
	switch {
	case mark.Generation == 0: // it cannot be read, so that the check parks the row
		return now
	case mark.At.IsZero() || mark.At.After(now):
		return now.Add(mostIdle)
	}
	return mark.Of(source).Until
}

// again looks after a row that is still due after a while. If the queue has lost its check, the row is enqueued
// again. If nobody ever takes it, the row gets another round, and with it another task.
func (s *share) again(ctx context.Context, mark memory.Due, c *admitted) error {
	now := time.Now()
	s.mu.Lock()
	overdue, stranded := now.Sub(c.enqueued) >= enqueueAgain, now.Sub(c.moved) >= strandedFor
	s.mu.Unlock()
	if !overdue {
		return nil
	}
	at, err := s.queue.Find(ctx, s.check(mark))
	if err != nil {
		return errUnqueued{err}
	}
	switch {
	case at == Lost:
		if err := s.enqueue(ctx, mark); err != nil {
			return err
		}
	case at == Stranded && stranded && mark.Generation != 0:
		return s.scope.worker.renewRound(ctx, mark) // the next look finds that it moved
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.enqueued, c.late = now, at == Taken || at == Stranded; at != Stranded {
		c.moved = now
	}
	return nil
}

// handled is called when this process handles a check: the queue has not lost it.
func (s *share) handled(c Check) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handling[c.Row]++
	if is := s.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		is.enqueued, is.moved, is.late = now, now, false
	}
}

// over is called when this process handles a check no more.
func (s *share) over(c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handling[c.Row]--; s.handling[c.Row] == 0 {
		delete(s.handling, c.Row)
	}
}

// done is called when a check of this process has come to an end. Its row may be due again at once.
func (s *share) done(c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		s.end(c.Row)
	}
	if s.next = (time.Time{}); 2*s.taken() <= s.room() {
		s.wakes()
	}
}

// closed waits until the breaker of the source is closed. It reports whether it is.
func (s *share) closed(ctx context.Context, how *asking) bool {
	for s.source.state() != verifier.StateClosed {
		if !how.wait(ctx, stateEvery) {
			return false
		}
	}
	return true
}

// startProbe probes the source beside the looks, if no share of it does now. The error is that of the last probe.
func (s *share) startProbe(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.probeErr; err != nil {
		s.probeErr = nil
		return err
	}
	if s.probing || s.probeAt.After(time.Now()) {
		return nil
	}
	s.probing = true
	s.probes.Go(func() {
		began := time.Now()
		at, err := s.probe(ctx)
		now := time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case at.IsZero(): // it could be asked about no row that is due, which took a while to see
			at = now.Add(max(lookEvery/2, min(restOfLooks*now.Sub(began), mostIdle)))
		case !at.After(now): // it was asked
			s.wakes()
		}
		s.probing, s.probeAt, s.probeErr = false, at, err
	})
	return nil
}

// probe asks the source about one row that is due, drawn by lot: about the most read one questions
// may always fail. It returns when it may be asked next; zero = it could be asked about none of the rows.
func (s *share) probe(ctx context.Context) (next time.Time, err error) {
	listing, cancel := context.WithTimeout(ctx, mostList)
	defer cancel()
	now, some := s.scope.store().Now(), false
	var drawn []memory.Due
	for mark, err := range s.due(listing) {
		if err != nil {
			return next, err
		}
		some = true
		if mark.Generation == 0 || s.isLeft(mark.ID, now) || wanted(mark, s.name, now).After(now) {
			continue
		}
		if drawn = append(drawn, mark); len(drawn) < mostDrawn {
			continue
		}
		if next, err := s.probeOne(ctx, drawn); !next.IsZero() || err != nil {
			return next, err
		}
		drawn = drawn[:0]
	}
	if !some {
		s.scope.isEmpty()
	}
	return s.probeOne(ctx, drawn)
}

// probeOne is probe for some rows.
func (s *share) probeOne(ctx context.Context, marks []memory.Due) (next time.Time, err error) {
	rand.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
	for page := range slices.Chunk(marks, firstPage) {
		covering, err := s.scope.worker.covering(ctx, page)
		if err != nil {
			return next, err
		}
		for _, mark := range page {
			if !slices.Contains(covering[mark.ID], s.source) {
				continue
			}
			res, err := s.ask(ctx, mark.ID, mark.Generation, 1, asking{probe: true})
			switch {
			case isUnreadable(err): // its own check parks it
			case err != nil:
				return next, err
			case res.Calls > 0: // its breaker says when
				return time.Now(), nil
			case !res.RetryAt.IsZero(): // it has no budget now, or is asked about another row
				return res.RetryAt, nil
			}
		}
	}
	return next, nil
}

// ask makes a check that takes n of what all checks of the process may take at a time.
func (s *share) ask(ctx context.Context, id memory.ID, generation uint64, n int64, how asking) (Result, error) {
	if err := s.making.Acquire(ctx, n); err != nil {
		return Result{}, err
	}
	defer s.making.Release(n)
	return s.scope.worker.askSource(ctx, id, s.source, generation, how)
}

// due lists the rows that are due, of the predicates of the source.
func (s *share) due(ctx context.Context) iter.Seq2[memory.Due, error] {
	return s.scope.store().DueNow(ctx, s.source.Predicates...)
}

// list is the rows of a share that can be enqueued now, the most read first.
type list struct {
	pull  func() (memory.Due, error, bool)
	stop  func()
	given int
	ended bool
	err   error
	took  time.Duration

	passed bool      // rows are left to other sources
	next   time.Time // when a row can be asked about that cannot be now; zero = not known
}

// list reads nothing until it is pulled.
func (s *share) list(ctx context.Context) *list {
	l := &list{}
	ctx, cancel := context.WithTimeout(ctx, mostList)
	pull, stop := iter.Pull2(s.candidates(ctx, l))
	l.pull, l.stop = pull, func() {
		stop()
		cancel()
	}
	return l
}

func (l *list) row() (mark memory.Due, ok bool) {
	began := time.Now()
	mark, err, ok := l.pull()
	l.took += time.Since(began)
	if l.err, l.ended = err, !ok || err != nil; !l.ended {
		l.given++
	}
	return mark, !l.ended
}

// candidates lists the rows that the source can be asked about now, and that no preferred source can.
func (s *share) candidates(ctx context.Context, l *list) iter.Seq2[memory.Due, error] {
	return func(yield func(memory.Due, error) bool) {
		now, preferred := s.scope.store().Now(), s.better
		var page, answered []memory.Due
		defer func() {
			if err := s.rest(ctx, answered, now); err != nil && l.err == nil {
				l.err = err
			}
		}()
		size, some := firstPage, false
		// give yields those of the page. more is false if no further row is wanted.
		give := func() (more bool) {
			covering, err := s.scope.worker.covering(ctx, page)
			if err != nil {
				return yield(memory.Due{}, err)
			}
			for _, mark := range page {
				sources, read := covering[mark.ID]
				switch {
				case read && !slices.Contains(sources, s.source):
				case slices.ContainsFunc(sources, func(o *Source) bool { return slices.Contains(preferred, o) && !mark.Of(o.Name).Until.After(now) }):
					l.passed = true
				case !yield(mark, nil):
					return false
				}
			}
			page, size = page[:0], min(2*size, mostPage)
			return true
		}
		for mark, err := range s.due(ctx) {
			if err != nil {
				yield(memory.Due{}, err)
				return
			}
			some = true
			if at := wanted(mark, s.name, now); at.After(now) {
				if l.next.IsZero() || at.Before(l.next) {
					l.next = at
				}
				if said := mark.Of(s.name); said.Failures == 0 && said.Until.After(now) && len(answered) < mostPage && !s.isHandled(mark.ID) {
					answered = append(answered, mark)
				}
				continue
			}
			if s.isOutstanding(mark) || s.isLeft(mark.ID, now) {
				continue
			}
			if page = append(page, mark); len(page) == size && !give() {
				return
			}
		}
		if len(page) > 0 {
			give()
		}
		if !some {
			s.scope.isEmpty()
		}
	}
}

// rest puts off those of some rows about which all sources have answered.
func (s *share) rest(ctx context.Context, marks []memory.Due, now time.Time) error {
	covering, err := s.scope.worker.covering(ctx, marks)
	if err != nil {
		return err
	}
	for _, mark := range marks {
		if err := s.scope.worker.rest(ctx, mark, covering[mark.ID], now); err != nil && !isUnreadable(err) {
			return err
		}
	}
	return nil
}

// preferred are the sources of higher rank that can be asked instead.
func (s *share) preferred() (better []*Source) {
	w := s.scope.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.sources {
		o := &w.sources[i]
		switch {
		case o == s.source:
			return better
		case w.served[o.Name] > 0 && o.state() == verifier.StateClosed:
			better = append(better, o)
		}
	}
	return better
}

// isOutstanding reports whether the check of the round of a mark is outstanding, or this process makes one
// of a round before. An answer moves the row first, and is noted in the new mark then.
func (s *share) isOutstanding(mark memory.Due) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.outstanding[mark.ID]
	return c != nil && c.generation == mark.Generation || s.handling[mark.ID] > 0
}

// isHandled reports whether this process makes a check of a row.
func (s *share) isHandled(id memory.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.handling[id] > 0
}

// isLeft reports whether a row is left out.
func (s *share) isLeft(id memory.ID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[id].After(now)
}

// leave leaves a row out until a moment.
func (s *share) leave(id memory.ID, now, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.left, func(_ memory.ID, until time.Time) bool { return !until.After(now) })
	s.left[id] = until
}

// admit enqueues the check of a row. If the queue has it already, another process was first.
func (s *share) admit(ctx context.Context, mark memory.Due) error {
	now := time.Now()
	s.mu.Lock()
	s.outstanding[mark.ID] = &admitted{generation: mark.Generation, enqueued: now, moved: now}
	s.mu.Unlock()
	err := s.enqueue(ctx, mark)
	if err != nil {
		s.mu.Lock()
		delete(s.outstanding, mark.ID) // if it was added all the same, it is found then
		s.mu.Unlock()
	}
	return err
}

// check is the check of the round of a mark.
func (s *share) check(mark memory.Due) Check {
	store := s.scope.store()
	return Check{store.Tenant(), store.Namespace(), mark.ID, s.name, mark.Generation}
}

func (s *share) enqueue(ctx context.Context, mark memory.Due) error {
	if _, err := s.queue.Enqueue(ctx, s.check(mark), s.timeout()); err != nil {
		return errUnqueued{err}
	}
	return nil
}

// timeout is how long a check may take: twice what it waits in its place, what the source takes, and while
// others wait for a check that is made alone, what that takes and what it waits for.
func (s *share) timeout() time.Duration {
	return 2*mostInPlace + s.source.bound() + 2*s.longest
}

// dealt says when the share is looked at next, after some of its rows were enqueued.
func (s *share) dealt(ctx context.Context, l *list) {
	if l.err != nil || l.ended || l.given > 0 { // it was read
		s.note(ctx, l.err, l.took)
	}
	if l.err != nil {
		return
	}
	if !l.ended { // there was no room for more
		s.idle = lookEvery / 2
		s.after(lookEvery/2, true)
		return
	}
	if l.given == 0 { // it was read in vain, which may have taken long
		s.listAt = time.Now().Add(min(restOfLooks*l.took, mostIdle))
	}
	store := s.scope.store()
	pause := mostIdle
	if !l.next.IsZero() {
		pause = max(l.next.Sub(store.Now()), lookEvery/2)
	}
	if l.given > 0 || l.passed || len(s.rows()) > 0 {
		s.idle = lookEvery / 2
	} else {
		s.idle = min(2*s.idle, s.scope.sweep)
	}
	s.after(min(pause, s.idle), false)
}
