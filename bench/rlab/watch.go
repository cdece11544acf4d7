package rlab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// What a system did wrong when a play did not end. An error that is none of these is the
// system's own: it said that it failed.
var (
	// ErrNonsense: the system panicked, or gave an answer that [System] does not allow.
	ErrNonsense = errors.New("nonsense")
	// ErrLate: the system did not answer in time.
	ErrLate = errors.New("late")
	// ErrNoAnswer: the system is not there. An adapter of a system outside the program
	// returns it.
	ErrNoAnswer = errors.New("no answer")
)

// Limits of an answer.
const (
	maxID   = 1 << 10 // bytes
	maxText = 64 << 10

	maxSupports = 1_000_000_000
)

// unwind is how long a call may take to return after its context has ended. A call that takes
// longer is left behind.
const unwind = 5 * time.Second

// watched is a system whose answers are checked. After one that is nonsense, late or missing,
// it is not called again: every call returns that error.
type watched struct {
	system   System
	decider  Decider // nil = no gate
	patience time.Duration
	broken   atomic.Pointer[error]
}

func watch(s System, patience time.Duration) *watched {
	w := &watched{system: s, patience: patience}
	w.decider, _ = s.(Decider)
	return w
}

// fault is the error of a system that is not called any more; nil = it is.
func (w *watched) fault() error {
	if err := w.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// within calls a system and waits for its answer, as long as patience says; 0 = as long as ctx.
// The answer is checked.
func within[T any](ctx context.Context, w *watched, op string, patience time.Duration, call func(context.Context) (T, error), check func(T) error) (T, error) {
	var none T
	if err := w.fault(); err != nil {
		return none, err
	}
	if err := context.Cause(ctx); err != nil { // a system need not listen to ctx
		return none, fmt.Errorf("%s: %w", op, err)
	}
	answer, err := timely(ctx, patience, call)
	if err == nil {
		if err = check(answer); err != nil {
			err = fmt.Errorf("%w: %w", ErrNonsense, err)
		}
	}
	if err == nil {
		return answer, nil
	}
	err = fmt.Errorf("%s: %w", op, err)
	if errors.Is(err, ErrNonsense) || errors.Is(err, ErrLate) || errors.Is(err, ErrNoAnswer) {
		w.broken.CompareAndSwap(nil, &err)
	}
	return none, err
}

// timely makes a call, and returns when it has returned or its time is over. A panic of the
// call is an error.
func timely[T any](ctx context.Context, patience time.Duration, call func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if patience > 0 {
		limited, cancel = context.WithTimeoutCause(ctx, patience, fmt.Errorf("%w: no answer within %s", ErrLate, patience))
	}
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a.err = fmt.Errorf("%w: panic: %v", ErrNonsense, r)
			}
			answered <- a
		}()
		a.value, a.err = call(limited)
	}()
	var a answer
	select {
	case a = <-answered:
	case <-limited.Done():
		left := time.NewTimer(unwind)
		defer left.Stop()
		select {
		case a = <-answered: // too late
			drop(a.value)
		case <-left.C:
			go func() { drop((<-answered).value) }()
		}
		var none T
		return none, context.Cause(limited)
	}
	if a.err != nil && limited.Err() != nil {
		a.err = context.Cause(limited)
	}
	return a.value, a.err
}

// drop closes an answer that came too late.
func drop(answer any) {
	if c, closes := answer.(io.Closer); closes {
		c.Close() //nolint:errcheck // the play has failed
	}
}

// Recall implements [System].
func (w *watched) Recall(ctx context.Context, t Turn, q Query) ([]Memory, error) {
	return within(ctx, w, "recall", w.patience, func(ctx context.Context) ([]Memory, error) { return w.system.Recall(ctx, t, q) }, func(list []Memory) error {
		if len(list) > Shown {
			return fmt.Errorf("%d memories, more than %d", len(list), Shown)
		}
		return checkMemories(list)
	})
}

// Write implements [System].
func (w *watched) Write(ctx context.Context, t Turn, s Statement) (string, error) {
	s.Recalled = slices.Clone(s.Recalled) // a call that is left behind may still read it
	return within(ctx, w, "write", w.patience, func(ctx context.Context) (string, error) { return w.system.Write(ctx, t, s) }, checkID)
}

// Look implements [System].
func (w *watched) Look(ctx context.Context, ids []string) ([]Memory, error) {
	ids = slices.Clone(ids)
	return within(ctx, w, "look", w.patience, func(ctx context.Context) ([]Memory, error) { return w.system.Look(ctx, ids) }, func(list []Memory) error {
		for _, m := range list {
			if !slices.Contains(ids, m.ID) {
				return fmt.Errorf("memory %.40q was not asked for", m.ID)
			}
		}
		return checkMemories(list)
	})
}

// Decide implements [Decider]. A system that is none allows everything.
func (w *watched) Decide(ctx context.Context, t Turn, a Action) (Verdict, error) {
	if w.decider == nil {
		return Verdict{Allowed: true}, w.fault()
	}
	a.Recalled = slices.Clone(a.Recalled)
	return within(ctx, w, "decide", w.patience, func(ctx context.Context) (Verdict, error) { return w.decider.Decide(ctx, t, a) }, func(v Verdict) error {
		if v.Allowed && v.Held {
			return errors.New("held: the call is allowed")
		}
		return checkText("told", v.Told)
	})
}

// Settle implements [Settler]. It may take as long as the play.
func (w *watched) Settle(ctx context.Context) error {
	s, works := w.system.(Settler)
	if !works {
		return w.fault()
	}
	_, err := within(ctx, w, "settle", 0, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.Settle(ctx) }, func(struct{}) error { return nil })
	return err
}

// closeLimit is how long a system may take to close, also after an interruption. One that hangs is
// waited for as long as any call that is late.
const closeLimit = 15 * time.Second

// Close ends the system, also one that is not called any more.
func (w *watched) Close() error {
	c, closes := w.system.(io.Closer)
	if !closes {
		return nil
	}
	_, err := timely(context.Background(), closeLimit, func(context.Context) (struct{}, error) { return struct{}{}, c.Close() })
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func checkMemories(list []Memory) error {
	seen := map[string]bool{}
	for i := range list {
		m := &list[i]
		switch err := errors.Join(checkID(m.ID), checkText("text", m.Text), checkText("state", m.State)); {
		case err != nil:
			return err
		case seen[m.ID]:
			return fmt.Errorf("memory %.40q is there twice", m.ID)
		case m.Supports < 0 || m.Supports > maxSupports:
			return fmt.Errorf("supports: %d: want 0 to %d", m.Supports, maxSupports)
		}
		seen[m.ID] = true
	}
	return nil
}

func checkID(id string) error {
	switch {
	case strings.TrimSpace(id) == "":
		return errors.New("id: empty")
	case len(id) > maxID:
		return fmt.Errorf("id: %d bytes, more than %d", len(id), maxID)
	case !utf8.ValidString(id):
		return errors.New("id: not UTF-8")
	}
	return nil
}

func checkText(field, text string) error {
	switch {
	case len(text) > maxText:
		return fmt.Errorf("%s: %d bytes, more than %d", field, len(text), maxText)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s: not UTF-8", field)
	}
	return nil
}

// Fault names what a system did wrong: "nonsense", "late", "no answer", or "error" for an error
// of its own; "" for nil.
func Fault(err error) string {
	if err == nil {
		return ""
	}
	for _, fault := range []error{ErrNonsense, ErrLate, ErrNoAnswer} {
		if errors.Is(err, fault) {
			return fault.Error()
		}
	}
	return "error"
}
