package promotion

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

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

// CheckQueue passes checks on to workers, each to one; package asynqchecks has one. It may lose
// checks, since the row store says what is due. It must be safe for concurrent use.
type CheckQueue interface {
	// Enqueue adds a check. added is false if the queue has the same check already, also one
	// that is under way.
	Enqueue(ctx context.Context, c Check) (added bool, err error)
	// Serve takes checks of a source, and handles up to places of them at a time, until ctx ends.
	// It returns when those under way have ended, or were given back.
	Serve(ctx context.Context, source string, places int, h CheckHandler) error
}

// CheckHandler is what a [CheckQueue] calls.
type CheckHandler interface {
	// Handle makes a check. crashes is how many workers died while they made it. After an error
	// the check comes back in about a second.
	Handle(ctx context.Context, c Check, crashes int) error
	// Outlived is called when the queue has given a check up since it was not reached for long,
	// though this process lives: the crash that it counts is none.
	Outlived(ctx context.Context, c Check)
}

// Times and limits of [Worker.ServeSource].
const (
	mostInPlace = 2 * time.Second // that a check waits in its place while its source may not be asked
	suspected   = 2               // crashes, from which on a check is made while no other is
	mostCrashes = 5               // crashes, after which the row is parked
	givenUp     = 5 * time.Second // for what is written after a check was given up
)

// allPlaces is what a check takes of the worker that is made while no other is.
const allPlaces = 1 << 20

// ServeSource has one source of the worker asked about the rows that are due, the most read
// first, until ctx ends. It keeps about twice as many checks in the queue as it has places, or as
// many as come to an end in 200 ms if that is more. The rest stay in the row store, in their order.
// Other processes may serve the same source over the same store and queue.
//
// A check whose source may not be asked, since its breaker is open or its budget is spent, waits
// in its place for up to two seconds, and then goes back to the queue. A row whose checks have
// crashed five workers is parked, and so is one that cannot be read.
//
// It is an error if the worker has no source of that name, or the queue cannot be served.
// Otherwise ServeSource returns nil after ctx ended. A store or a queue that is not reached is
// logged, and tried again.
func (w *Worker) ServeSource(ctx context.Context, q CheckQueue, source string, places int) error {
	at := slices.IndexFunc(w.sources, func(s Source) bool { return s.Name == source && !s.observes })
	switch {
	case at < 0:
		return fmt.Errorf("promotion: ServeSource: no source %q", source)
	case places < 1 || places > allPlaces:
		return fmt.Errorf("promotion: ServeSource: places: %d is not between 1 and %d", places, allPlaces)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := &service{worker: w, admission: newAdmission(w, &w.sources[at], q, places), stopped: ctx.Done()}
	served := make(chan error, 1)
	go func() {
		defer stop()
		served <- q.Serve(ctx, source, places, s)
	}()
	s.admission.serve(ctx)
	return <-served
}

// service handles the checks of one source.
type service struct {
	worker    *Worker
	admission *admission
	stopped   <-chan struct{} // closed when no check is to wait any more
}

var errForeign = errors.New("the check is of another store")

// refusal says why a check goes back to the queue.
type refusal struct{ why Status }

func (r *refusal) Error() string {
	if r.why == Deferred {
		return "not asked: the budget of the verifier is spent"
	}
	return "not asked: the breaker of the verifier is open"
}

// Handle implements CheckHandler.
func (s *service) Handle(ctx context.Context, c Check, crashes int) error {
	if c.Source != s.admission.source.Name || c.Tenant != s.worker.store.Tenant() || c.Namespace != s.worker.store.Namespace() {
		return errForeign
	}
	s.admission.handled(c)
	if err := s.handle(ctx, c, crashes); err != nil {
		return err
	}
	s.admission.done(c)
	return nil
}

func (s *service) handle(ctx context.Context, c Check, crashes int) error {
	if crashes >= mostCrashes {
		return s.park(ctx, c, fmt.Sprintf("%d workers died while they checked it", crashes))
	}
	for began := time.Now(); ; {
		res, err := s.check(ctx, c, crashes)
		switch {
		case isUnreadable(err):
			return s.park(ctx, c, "it cannot be read: "+err.Error())
		case err != nil:
			return err
		case res.RetryAt.IsZero() || res.Calls > 0: // it was asked, or need not be
			return nil
		}
		left := mostInPlace - time.Since(began)
		if left <= 0 {
			return &refusal{res.Status}
		}
		t := time.NewTimer(min(max(time.Until(res.RetryAt), time.Millisecond), left))
		select {
		case <-t.C:
			continue
		case <-ctx.Done():
		case <-s.stopped:
		}
		t.Stop()
		return &refusal{res.Status}
	}
}

// isUnreadable reports whether an error is of a row that cannot be read. With the wrong keys none can
// be read, and none can be parked.
func isUnreadable(err error) bool {
	return errors.Is(err, memory.ErrDamaged) || errors.Is(err, memory.ErrKey)
}

// park parks a row, unless it has been marked anew since. If its mark cannot be written, the row
// is left out for a while.
func (s *service) park(ctx context.Context, c Check, reason string) error {
	marks, err := s.worker.store.DueMarks(ctx, c.Row)
	if err != nil || marks[c.Row].Generation != c.Generation {
		return err
	}
	if err = s.worker.Park(ctx, c.Row, reason); isUnreadable(err) {
		s.worker.opts.Logger.LogAttrs(ctx, slog.LevelError, "a row can be neither checked nor parked", slog.String("row", string(c.Row)), slog.Any("error", err))
		s.admission.leave(c.Row, s.worker.store.Now().Add(unparkedFor))
		return nil
	}
	return err
}

// check makes a check, while no other is made if it may crash the process.
func (s *service) check(ctx context.Context, c Check, crashes int) (Result, error) {
	n := int64(1)
	if crashes >= suspected {
		n = allPlaces
	}
	if err := s.worker.making.Acquire(ctx, n); err != nil {
		return Result{}, err
	}
	defer s.worker.making.Release(n)
	return s.worker.CheckSource(ctx, c.Row, c.Source, c.Generation)
}

// Outlived implements CheckHandler.
func (s *service) Outlived(ctx context.Context, c Check) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givenUp)
	defer cancel()
	marks, err := s.worker.store.DueMarks(ctx, c.Row)
	if mark := marks[c.Row]; err == nil && mark.Generation == c.Generation {
		err = s.worker.renewRound(ctx, mark)
	}
	if err != nil { // a crash too many is counted then
		s.worker.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a check that was given up is counted as a crash", slog.String("row", string(c.Row)), slog.Any("error", err))
	}
}

// renewRound begins a new round of a row that is due, so that it is enqueued anew: no task of
// the round before asks about it any more.
func (w *Worker) renewRound(ctx context.Context, mark memory.Due) error {
	if mark.At.IsZero() || mark.At.After(w.store.Now()) {
		return nil
	}
	if err := w.store.Postpone(ctx, mark, mark.At, mark.Tries, mark.Reason); !remarked(err) {
		return err
	}
	return nil
}
