package verifier

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/hearsay-go/hearsay/memory"
)

// BreakerOptions are the options of [WithBreaker]. Every zero field has a usable
// default.
type BreakerOptions struct {
	Timeout       time.Duration // for one question, kept also against a verifier that ignores ctx; 0 = 10 s, at most a day
	MaxConcurrent int           // questions at once, hung ones included; 0 = 8
	Failures      int           // outages in a row that open the breaker; 0 = 3
	FirstOpen     time.Duration // how long it stays open before the first probe; 0 = 100 ms
	OpenFor       time.Duration // the longest that it stays open before a probe, each of which doubles that if it fails; 0 = 5 s
	MaxRetryAfter time.Duration // the longest RetryAfter that is obeyed; 0 = 1 h
}

// State is the state of a breaker. The zero value lets nothing pass.
type State uint8

// The states.
const (
	StateOpen     State = iota // nothing passes until RetryAt
	StateHalfOpen              // one question passes; its outcome decides
	StateClosed                // questions pass
)

// String returns the name in lower case.
func (s State) String() string {
	if int(s) < len(states) {
		return states[s]
	}
	return states[StateOpen]
}

var states = [...]string{"open", "half-open", "closed"}

// Causes inside a [*UnavailableError] of a [Guarded], matched with errors.Is.
var (
	// ErrOpen: the breaker is open, or the source asked to be left alone; the
	// verifier was not asked.
	ErrOpen = errors.New("the breaker is open")
	// ErrBusy: all places were taken for as long as one question may last; the
	// verifier was not asked.
	ErrBusy = errors.New("too many questions at once")
)

const (
	mostTimeout = 24 * time.Hour
	probeWait   = 250 * time.Millisecond // how long to wait while another question is the probe
	silent      = time.Second            // without an answer, after which failures in a row open the breaker
)

// Guarded is a Verifier behind a bulkhead, a deadline and a circuit breaker. It
// is safe for concurrent use.
type Guarded struct {
	name    string
	v       Verifier
	o       BreakerOptions
	breaker *gobreaker.CircuitBreaker[Verdict]
	places  chan struct{}

	mu        sync.Mutex
	answered  time.Time     // when v answered last
	openNext  time.Duration // for how long the breaker opens next
	openUntil time.Time     // when the breaker lets a probe pass
	heldUntil time.Time     // until when the source asked to be left alone
}

// WithBreaker guards a verifier (SR-2.3). It panics if name is empty or v is nil.
//
// Verify returns within twice Timeout, whatever v does: at most one Timeout to
// get a place and one to be answered. A question that v never returns from keeps
// its place, so that at most MaxConcurrent goroutines can hang; then every
// further question is [ErrUnavailable] with [ErrBusy].
//
// [ErrUnavailable] and [ErrMisconfigured] count as a failure of v. A cancelled question counts nothing. Failures in a row
// open the breaker only if v has answered nothing for a second: a few rows about which all questions
// fail say nothing of the others.
// A RetryAfter that v reports is obeyed before the next question. An error of no
// known class becomes ErrUnavailable, a panic of v or of its error ErrMisconfigured, and a verdict
// that [Verdict.Check] refuses becomes Unclear.
func WithBreaker(name string, v Verifier, o *BreakerOptions) *Guarded {
	g := &Guarded{name: name, v: v}
	if o != nil {
		g.o = *o
	}
	if strings.TrimSpace(name) == "" {
		panic("verifier: WithBreaker: no name")
	}
	if v == nil {
		panic("verifier: WithBreaker: nothing to guard")
	}
	orDefault(&g.o.Timeout, 10*time.Second)
	g.o.Timeout = min(g.o.Timeout, mostTimeout)
	orDefault(&g.o.MaxConcurrent, 8)
	orDefault(&g.o.Failures, 3)
	orDefault(&g.o.OpenFor, 5*time.Second)
	orDefault(&g.o.FirstOpen, 100*time.Millisecond)
	orDefault(&g.o.MaxRetryAfter, time.Hour)
	g.o.FirstOpen = min(g.o.FirstOpen, g.o.OpenFor)
	g.openNext = g.o.FirstOpen
	g.places = make(chan struct{}, g.o.MaxConcurrent)
	g.breaker = gobreaker.NewCircuitBreaker[Verdict](gobreaker.Settings{
		Name:        name,
		MaxRequests: 1,
		Timeout:     g.o.FirstOpen, // openUntil may be later
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return int64(c.ConsecutiveFailures) >= int64(g.o.Failures) && g.isSilent()
		},
		IsSuccessful: func(err error) bool { return !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrMisconfigured) },
		IsExcluded: func(err error) bool {
			return err != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrMisconfigured)
		},
		OnStateChange: func(_ string, _, to gobreaker.State) {
			g.mu.Lock()
			defer g.mu.Unlock()
			switch to {
			case gobreaker.StateOpen:
				// The breaker is still open at the very end of its period.
				g.openUntil = time.Now().Add(g.openNext + time.Nanosecond)
				g.openNext = min(2*g.openNext, g.o.OpenFor)
			case gobreaker.StateClosed:
				g.openUntil, g.openNext = time.Time{}, g.o.FirstOpen
			}
		},
	})
	return g
}

func orDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

func (g *Guarded) isSilent() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Since(g.answered) >= silent
}

// Name returns the name the guard was made with.
func (g *Guarded) Name() string { return g.name }

// Places is how many questions it lets through at a time.
func (g *Guarded) Places() int { return g.o.MaxConcurrent }

// IsFull reports whether as many questions are under way as may be.
func (g *Guarded) IsFull() bool { return len(g.places) == cap(g.places) }

// Bound is the longest that Verify takes.
func (g *Guarded) Bound() time.Duration { return 2 * g.o.Timeout }

// State returns the state of the breaker: [StateOpen] also while the source asked
// to be left alone.
func (g *Guarded) State() State {
	if g.RetryAt().After(time.Now()) {
		return StateOpen
	}
	switch g.breaker.State() {
	case gobreaker.StateClosed:
		return StateClosed
	case gobreaker.StateHalfOpen:
		return StateHalfOpen
	default:
		return StateOpen
	}
}

// RetryAt returns the earliest moment at which a question may pass: the end of
// the breaker's open period or of the wait that the source asked for, whichever
// is later. It is zero or past if questions pass now. It is meant for choosing
// the delay of a task and for pausing a queue.
func (g *Guarded) RetryAt() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.heldUntil.After(g.openUntil) {
		return g.heldUntil
	}
	return g.openUntil
}

// InFlight returns how many questions v has not returned from, those that were
// given up included.
func (g *Guarded) InFlight() int { return len(g.places) }

// Verify asks v within the limits of the guard; see [WithBreaker].
func (g *Guarded) Verify(ctx context.Context, row memory.Row) (Verdict, error) {
	return g.VerifyIf(ctx, row, func(context.Context) error { return nil })
}

// VerifyIf is Verify on a condition that costs something, a budget say: may is called when
// the question has its place and the breaker lets it pass, and not before. If it returns
// an error, that is returned as it is, v is not asked, and nothing is counted. A panic of
// may is an error.
func (g *Guarded) VerifyIf(ctx context.Context, row memory.Row, may func(context.Context) error) (Verdict, error) {
	if err := ctx.Err(); err != nil {
		return Verdict{}, classify(ctx, g.name, err)
	}
	if err := g.held(); err != nil {
		return Verdict{}, err
	}
	if err := g.enter(ctx); err != nil {
		return Verdict{}, err
	}
	var part func()
	defer func() {
		if part == nil { // v is not asked
			g.leave()
		} else {
			part()
		}
	}()
	// Others may have found it down while this one waited for its place.
	if err := g.held(); err != nil {
		return Verdict{}, err
	}
	verdict, err := g.breaker.Execute(func() (Verdict, error) {
		part = g.pair()
		if err := permitted(ctx, may); err != nil {
			part() // for v, which is not asked
			return Verdict{}, &denied{err}
		}
		return g.ask(ctx, row, part)
	})
	if part == nil { // open after all, or another question is the probe
		wait := time.Until(g.RetryAt())
		if wait <= 0 {
			wait = min(g.o.Timeout, probeWait) // the probe may be decided by then, and to ask again costs nothing
		}
		return Verdict{}, &UnavailableError{Verifier: g.name, RetryAfter: wait, Err: ErrOpen}
	}
	var no *denied
	if errors.As(err, &no) {
		return Verdict{}, no.why
	}
	return verdict, err
}

func permitted(ctx context.Context, may func(context.Context) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = errPanic(p)
		}
	}()
	return may(ctx)
}

// denied is the error of a condition on its way past the breaker, which is to see none of
// its causes.
type denied struct{ why error }

func (d *denied) Error() string { return d.why.Error() }

func (g *Guarded) held() error {
	if wait := time.Until(g.RetryAt()); wait > 0 {
		return &UnavailableError{Verifier: g.name, RetryAfter: wait, Err: ErrOpen}
	}
	return nil
}

// enter takes a place, and waits for one no longer than a question may last.
func (g *Guarded) enter(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
		return nil
	default:
	}
	full := time.NewTimer(g.o.Timeout)
	defer full.Stop()
	select {
	case g.places <- struct{}{}:
		return nil
	case <-full.C:
		return &UnavailableError{Verifier: g.name, RetryAfter: g.o.Timeout, Err: ErrBusy}
	case <-ctx.Done():
		return classify(ctx, g.name, ctx.Err())
	}
}

func (g *Guarded) leave() { <-g.places }

// pair returns what the two who use a place call when they are done with it: v,
// when it returns, and its caller, when the breaker has counted the outcome. The
// second call gives the place back, so that nobody who waited for it asks a
// verifier that was just found down.
func (g *Guarded) pair() func() {
	var done atomic.Int32
	return func() {
		if done.Add(1) == 2 {
			g.leave()
		}
	}
}

// ask runs one question in a goroutine of its own, and calls part when v returns,
// which may be long after ask does.
func (g *Guarded) ask(ctx context.Context, row memory.Row, part func()) (Verdict, error) {
	type reply struct {
		verdict Verdict
		err     error
	}
	asking, cancel := context.WithTimeout(ctx, g.o.Timeout)
	defer cancel()
	replies := make(chan reply, 1)
	go func() {
		// v may panic, or end the goroutine without returning.
		r := reply{err: &MisconfiguredError{Verifier: g.name, Err: errors.New("it ended without an answer")}}
		defer func() {
			if p := recover(); p != nil {
				r = reply{err: &MisconfiguredError{Verifier: g.name, Err: errPanic(p)}}
			}
			part()
			replies <- r
		}()
		verdict, err := g.v.Verify(asking, row)
		if err != nil { // its methods may panic
			err = classify(ctx, g.name, err)
			_, _, _ = err.Error(), errors.Is(err, ErrUnavailable), errors.As(err, new(*Quote))
		}
		r = reply{verdict, err}
	}()
	var r reply
	select {
	case r = <-replies:
	case <-asking.Done():
		r.err = asking.Err()
	}
	if r.err != nil {
		err := classify(ctx, g.name, r.err)
		return Verdict{}, g.note(err)
	}
	g.hear()
	if err := r.verdict.Check(); err != nil {
		return unclear(err.Error()), nil
	}
	r.verdict.Observed, r.verdict.Detail = clip(r.verdict.Observed), clip(r.verdict.Detail)
	return r.verdict, nil
}

// hear notes that v has answered.
func (g *Guarded) hear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.answered = time.Now()
}

// note remembers for how long the source asked to be left alone. A longer wait than is
// obeyed is not handed on either: whoever asked would set the row aside for it.
func (g *Guarded) note(err error) error {
	var down *UnavailableError
	if !errors.As(err, &down) || down.RetryAfter <= 0 {
		return err
	}
	if down.RetryAfter > g.o.MaxRetryAfter {
		short := *down
		short.RetryAfter = g.o.MaxRetryAfter
		down, err = &short, &short
	}
	until := time.Now().Add(down.RetryAfter)
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.heldUntil) {
		g.heldUntil = until
	}
	return err
}
