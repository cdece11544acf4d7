package promotion

import (
	"cmp"
	"context"
	"errors"
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
	woken  chan struct{}

	// Used by looks alone.
	better []*Source     // that were preferred at the last look
	listAt time.Time     // when the rows that are due are listed next
	idle   time.Duration // to the next look if there is nothing to do

	// Guarded by the mu of the service.
	failed    bool // that its store was not reached is noted
	unreached bool // that it did not reach the queue is noted
	unwritten bool // that the queue took no check of it is noted

	// Guarded by the mu of the admission.
	began       time.Time // when the look under way began; zero = there is none
	away        bool      // its checks are not made now: they take no room
	granted     int       // rows that it may enqueue
	credit      int       // rows that are left of its turn
	outstanding map[memory.ID]*admitted
	left        map[memory.ID]time.Time // rows that could be neither checked nor parked: left out until then
	hands       []*hand                 // checks that this process makes now
	ended       time.Time               // when the last of its checks came to an end
	slow        bool                    // a check has waited for the store for long, and none has ended sooner since
	told        bool                    // that it is slow now was logged
	toldAt      time.Time               // when it was last logged that it is slow
	tried       time.Time               // when a check was last made to see whether the slow store is fast again
}

// admitted is a row whose check the queue has.
type admitted struct {
	generation uint64
	enqueued   time.Time // when it was enqueued last
	moved      time.Time // when its task was last known not to be stranded
	late       bool      // another process makes it, or died: it takes no room
}

func (a *admission) add(c *scope, source *Source) *share {
	s := &share{admission: a, scope: c, source: source, woken: make(chan struct{}, 1), idle: lookEvery / 2,
		outstanding: map[memory.ID]*admitted{}, left: map[memory.ID]time.Time{}}
	a.shares, c.shares = append(a.shares, s), append(c.shares, s)
	return s
}

func (s *share) wake() { wake(s.woken) }

// serve looks until ctx ends.
func (s *share) serve(ctx context.Context) {
	repeat(ctx, s.woken, func() time.Duration {
		s.looks(time.Now())
		pause, err := s.look(ctx)
		if ctx.Err() != nil {
			return 0
		}
		if s.note(ctx, err); err != nil {
			s.leaves(s)
			pause = afterFault
		}
		if s.looks(time.Time{}) > 0 { // that was given too late for this look
			pause = time.Millisecond
		}
		return pause
	})
}

// looks notes when a look began; zero = it has ended. It returns how many rows the share may enqueue.
func (s *share) looks(began time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = began
	return s.granted
}

// isAside reports whether the share takes no room: its store is slow, or a look has gone on for long. The caller holds mu.
func (s *share) isAside(now time.Time) bool {
	return s.slow || !s.began.IsZero() && now.Sub(s.began) > slowLook
}

// note notes whether the store and the queue were reached.
func (s *share) note(ctx context.Context, err error) {
	where := []slog.Attr{slog.String("namespace", s.scope.store().Namespace()), slog.String("verifier", s.name)}
	var queues errUnqueued
	switch {
	case !errors.As(err, &queues):
		s.service.note(ctx, &s.service.stores, &s.failed, err, s.scope.worker, where...)
	case queues.write:
		s.service.note(ctx, &s.service.writes, &s.unwritten, err, s.scope.worker, where[1:]...)
	default:
		s.service.note(ctx, &s.service.queues, &s.unreached, err, s.scope.worker, where[1:]...)
	}
}

// soon is a pause while there is something to do. It differs, so that processes do not keep in step.
func soon() time.Duration { return lookEvery/2 + rand.N(lookEvery/2) }

// look sees which checks have come to an end, and enqueues others. It returns how long it is to the next look.
func (s *share) look(ctx context.Context) (pause time.Duration, err error) {
	due, up := s.scope.state()
	state := s.source.state()
	open := s.rows()
	if up == nil || !due && len(open) == 0 || state == verifier.StateOpen {
		if s.rests(up == nil || state == verifier.StateOpen); state == verifier.StateOpen {
			return soon(), nil
		}
		return mostIdle, nil // the scope wakes it
	}
	paused, err := s.isPaused(ctx)
	if err != nil || paused {
		if s.holds(time.Now()); err == nil {
			s.forgets()
		}
		return afterFault, err
	}
	if state != verifier.StateClosed {
		if s.rests(true); !due {
			return soon(), nil
		}
		return s.probe(ctx, up)
	}
	s.goes(true)
	n, err := s.unfinished(ctx, open)
	if err != nil {
		return 0, err
	}
	s.service.note(ctx, &s.service.queues, &s.unreached, nil, s.scope.worker, slog.String("verifier", s.name))
	better := s.preferred()
	if !slices.Equal(better, s.better) {
		s.better, s.listAt = better, time.Time{}
	}
	if !due || s.listAt.After(time.Now()) {
		if s.rests(false); n > 0 || due {
			return soon(), nil
		}
		return mostIdle, nil
	}
	return s.fill(ctx)
}

// goes says whether the checks of the share are made now.
func (s *share) goes(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = !now
}

// rests gives back what the share may enqueue. away says that its checks are not made now.
func (s *share) rests(away bool) {
	s.goes(!away)
	s.leaves(s)
	s.forgets()
}

// forgets takes back that the share does not reach the queue: it enqueues nothing, and sees no outage end.
func (s *share) forgets() {
	s.service.forget(&s.service.queues, &s.unreached)
	s.service.forget(&s.service.writes, &s.unwritten)
}

// holds leaves everything as it is for a while: no task is missed for that time.
func (s *share) holds(now time.Time) {
	s.leaves(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.outstanding {
		c.enqueued, c.moved = now, now
	}
}

// fill enqueues the most read rows, as many as there is room for.
func (s *share) fill(ctx context.Context) (pause time.Duration, err error) {
	l := s.list(ctx)
	defer l.stop()
	for n := s.wants(s); n > 0; n = s.wants(s) {
		for ; n > 0; n-- {
			mark, ok := l.row()
			if !ok {
				s.leaves(s)
				l.stop()
				if err := errors.Join(l.err, s.rest(ctx, l.answered)); err != nil {
					return 0, err
				}
				return s.listed(l), nil
			}
			if err := s.admit(ctx, mark); err != nil {
				return 0, err
			}
		}
	}
	s.idle = lookEvery / 2
	return soon(), nil // there is no room for more
}

// unfinished forgets the checks that have come to an end, whoever made them. It counts the others,
// and enqueues them again if it is time to.
func (s *share) unfinished(ctx context.Context, ids []memory.ID) (n int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	store := s.scope.store()
	marks, err := store.DueMarks(ctx, ids...)
	if err != nil {
		return 0, err
	}
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
		switch err := s.again(ctx, mark, c); {
		case isUnreadable(err):
			s.leave(ctx, id, err)
		case err != nil:
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
	s.ended = time.Now()
	s.ends = append(s.ends, s.ended)
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
	if s.has(mark.ID) { // by this process
		c.enqueued, c.moved, c.late = now, now, false
	}
	overdue, stranded := now.Sub(c.enqueued) >= enqueueAgain, now.Sub(c.moved) >= strandedFor
	s.mu.Unlock()
	if !overdue {
		return nil
	}
	at, err := s.service.queue.Find(ctx, s.check(mark))
	if err != nil {
		return errUnqueued{err, false}
	}
	switch {
	case at == Lost: // or another process has checked it, and can neither read nor park it
		if _, err := s.scope.store().Get(ctx, mark.ID); err != nil && !remarked(err) {
			return err
		}
		if err := s.enqueue(ctx, mark); err != nil {
			return err
		}
	case at == Stranded && stranded && mark.Generation != 0:
		renewed, err := s.scope.worker.renewRound(ctx, mark) // the next look finds that it moved
		if renewed {
			s.scope.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the queue has a check that nobody takes: it is enqueued anew",
				slog.String("row", string(mark.ID)), slog.String("verifier", s.name))
		}
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.enqueued, c.late = now, at == Taken || at == Stranded; at != Stranded {
		c.moved = now
	}
	return nil
}

// done is called when a check of this process has come to an end. Its row may be due again at once.
func (s *share) done(c Check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.outstanding[c.Row]; is != nil && is.generation == c.Generation {
		s.end(c.Row)
	}
	if 2*s.taken(nil) <= s.room() {
		s.allot(nil)
		s.wake()
	}
}

// probe probes the source, if no other share does now. It returns how long it is to the next look.
func (s *share) probe(ctx, up context.Context) (pause time.Duration, err error) {
	p := s.startsProbe()
	if p == nil {
		return soon(), nil
	}
	defer p.ends()
	began := time.Now()
	probing, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	defer context.AfterFunc(up, cancel)()
	at, err := s.draw(probing, p)
	took := time.Since(began)
	if probing.Err() != nil && ctx.Err() == nil { // other shares have their turn
		at, err = time.Time{}, nil
	}
	switch {
	case s.source.state() == verifier.StateClosed:
		s.scope.worker.opts.Logger.LogAttrs(ctx, slog.LevelInfo, "verifier answers again", slog.String("verifier", s.name))
		return time.Millisecond, err
	case at.IsZero(): // it could be asked about no row that is due, which took a while to see
		return max(soon(), min(restOfLooks*took, mostIdle)), err
	}
	return max(time.Until(at), soon()), err
}

// draw asks the source about one row that is due, drawn by lot: about the most read one questions
// may always fail. It returns when it may be asked next; zero = it could be asked about none of the rows.
func (s *share) draw(ctx context.Context, p *probe) (next time.Time, err error) {
	now, some, began := s.scope.store().Now(), false, time.Now()
	var drawn []memory.Due
	for mark, err := range s.due(ctx) {
		if err != nil {
			return next, err
		}
		some = true
		if mark.Generation == 0 || s.isLeft(mark.ID) || wanted(mark, s.name, now).After(now) {
			continue
		}
		if drawn = append(drawn, mark); len(drawn) < mostDrawn && time.Since(began) < mostLook {
			continue
		}
		if next, err := s.probeOne(ctx, p, drawn); !next.IsZero() || err != nil {
			return next, err
		}
		drawn, began = drawn[:0], time.Now()
	}
	if !some {
		s.foundNone()
	}
	return s.probeOne(ctx, p, drawn)
}

// foundNone is called if no row is due of those that the source can be asked about.
func (s *share) foundNone() {
	if len(s.source.Predicates) == 0 {
		s.scope.isEmpty()
	}
}

// probeOne is probe for some rows.
func (s *share) probeOne(ctx context.Context, p *probe, marks []memory.Due) (next time.Time, err error) {
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
			res, err := s.scope.worker.askSource(ctx, mark.ID, s.source, mark.Generation, asking{probe: true, enter: s.service.enter(ctx, 1), outside: p.outside})
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

// due lists the rows that are due, of the predicates of the source.
func (s *share) due(ctx context.Context) iter.Seq2[memory.Due, error] {
	return s.scope.store().DueNow(ctx, s.source.Predicates...)
}

// list is the rows of a share that can be enqueued now, the most read first.
type list struct {
	pull  func() (memory.Due, error, bool)
	stop  func()
	given int
	err   error
	took  time.Duration

	passed   bool         // rows are left to other sources
	next     time.Time    // when a row can be asked about that cannot be now; zero = not known
	answered []memory.Due // rows about which the source has answered
}

// errHangs is the error of a store that does not answer.
var errHangs = errors.New("the store does not answer")

// whileItGoesOn returns a context that ends when goesOn was not called for as long as a store may take.
func whileItGoesOn(ctx context.Context) (goingOn context.Context, goesOn, cancel func()) {
	goingOn, end := context.WithCancelCause(ctx)
	t := time.AfterFunc(mostRows, func() { end(errHangs) })
	return goingOn, func() { t.Reset(mostRows) }, func() {
		t.Stop()
		end(nil)
	}
}

// list reads nothing until it is pulled.
func (s *share) list(ctx context.Context) *list {
	l := &list{}
	pull, stop := iter.Pull2(s.candidates(ctx, l))
	l.pull, l.stop = pull, stop
	return l
}

func (l *list) row() (mark memory.Due, ok bool) {
	began := time.Now()
	mark, err, ok := l.pull()
	l.took += time.Since(began)
	if l.err = err; !ok || err != nil {
		return mark, false
	}
	l.given++
	return mark, true
}

// candidates lists the rows that the source can be asked about now, and that no preferred source can.
func (s *share) candidates(ctx context.Context, l *list) iter.Seq2[memory.Due, error] {
	return func(yield func(memory.Due, error) bool) {
		ctx, goesOn, cancel := whileItGoesOn(ctx)
		defer cancel()
		now, preferred := s.scope.store().Now(), s.better
		var page []memory.Due
		size, some := firstPage, false
		// give yields those of the page. more is false if no further row is wanted.
		give := func() (more bool) {
			began := time.Now()
			covering, err := s.scope.worker.covering(ctx, page)
			if err != nil {
				return yield(memory.Due{}, cmp.Or(context.Cause(ctx), err))
			}
			if size = min(2*size, mostPage); time.Since(began) > slowPage {
				size = firstPage
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
				goesOn()
			}
			page = page[:0]
			return true
		}
		for mark, err := range s.due(ctx) {
			if err != nil {
				yield(memory.Due{}, cmp.Or(context.Cause(ctx), err))
				return
			}
			goesOn()
			some = true
			if at := wanted(mark, s.name, now); at.After(now) {
				if l.next.IsZero() || at.Before(l.next) {
					l.next = at
				}
				if said := mark.Of(s.name); said.Failures == 0 && said.Until.After(now) && len(l.answered) < mostPage && !s.isHandled(mark.ID) {
					l.answered = append(l.answered, mark)
				}
				continue
			}
			if s.isOutstanding(mark) || s.isLeft(mark.ID) {
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
			s.foundNone()
		}
	}
}

// rest puts off those of some rows about which all sources have answered.
func (s *share) rest(ctx context.Context, marks []memory.Due) error {
	now := s.scope.store().Now()
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
	return c != nil && c.generation == mark.Generation || s.has(mark.ID)
}

// isHandled reports whether this process makes a check of a row.
func (s *share) isHandled(id memory.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has(id)
}

// isLeft reports whether a row is left out.
func (s *share) isLeft(id memory.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[id].After(time.Now())
}

// leave leaves out for a while a row that can be neither checked nor parked.
func (s *share) leave(ctx context.Context, id memory.ID, err error) {
	s.scope.worker.opts.Logger.LogAttrs(ctx, slog.LevelError, "a row can be neither checked nor parked", slog.String("row", string(id)), slog.Any("error", err))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(s.left, func(_ memory.ID, until time.Time) bool { return now.Sub(until) > unparkedFor })
	s.left[id] = now.Add(unparkedFor)
	if s.outstanding[id] != nil {
		s.end(id)
	}
}

// admit enqueues the check of a row. If the queue has it already, another process was first.
func (s *share) admit(ctx context.Context, mark memory.Due) error {
	now := time.Now()
	s.mu.Lock()
	// The process that finds again that a row can be neither checked nor parked may be another one.
	_, late := s.left[mark.ID]
	s.outstanding[mark.ID] = &admitted{generation: mark.Generation, enqueued: now, moved: now, late: late}
	s.granted--
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
	if _, err := s.service.queue.Enqueue(ctx, s.check(mark), s.timeout()); err != nil {
		return errUnqueued{err, true}
	}
	s.service.note(ctx, &s.service.writes, &s.unwritten, nil, s.scope.worker, slog.String("verifier", s.name))
	return nil
}

// timeout is how long a check may take: twice what it waits in its place, what the source takes, the note that it is
// asked, and while others wait for a question that is asked alone, what that takes and what it waits for.
func (s *share) timeout() time.Duration {
	return 2*mostInPlace + s.source.bound() + mostNote + 2*s.service.longest
}

// listed returns how long it is to the next look, after all rows were listed.
func (s *share) listed(l *list) time.Duration {
	if l.given == 0 { // it was read in vain, which may have taken long
		s.listAt = time.Now().Add(min(restOfLooks*l.took, mostIdle))
	}
	pause := mostIdle
	if !l.next.IsZero() {
		pause = max(l.next.Sub(s.scope.store().Now()), lookEvery/2)
	}
	if l.given > 0 || l.passed || len(s.rows()) > 0 {
		s.idle = lookEvery / 2
	} else {
		s.idle = min(2*s.idle, s.scope.sweep)
	}
	return min(pause, s.idle) + rand.N(lookEvery/2)
}
