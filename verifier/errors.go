package verifier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// The ways not to answer, matched with errors.Is.
var (
	// ErrUnavailable is the sentinel of [*UnavailableError]: nobody answered, or
	// nothing that could be understood. Ask again later. It is traffic, not a
	// failure of the row, and never a refutation (SR-2.2).
	ErrUnavailable = errors.New("verifier: unavailable")
	// ErrMisconfigured is the sentinel of [*MisconfiguredError]: asking again
	// changes nothing until a person mends the configuration. The row stays as
	// it is.
	ErrMisconfigured = errors.New("verifier: misconfigured")
	// ErrGone is what an [Ask] returns if what it would answer from has vanished, or is
	// not what was pinned. It is an answer, and the verdict [Gone]: nothing is refuted.
	ErrGone = errors.New("verifier: gone")
	// ErrAnswer is what an [Ask] returns if the source answered, the answer could be read
	// to its end, and it is not of the form that was agreed. It is the verdict [Unclear].
	// What could not be read, or is an error in the source's own words, is
	// [ErrUnavailable].
	ErrAnswer = errors.New("verifier: not an answer")
)

// UnavailableError says which verifier is down and when to ask again.
// errors.Is(err, ErrUnavailable) holds, and errors.Is and errors.As see the
// cause.
type UnavailableError struct {
	Verifier   string
	RetryAfter time.Duration // from when the error was made; 0 = not stated
	Err        error         // the cause
}

// Error names the verifier, the cause and the wait.
func (e *UnavailableError) Error() string {
	text := describe(ErrUnavailable, e.Verifier, e.Err)
	if e.RetryAfter > 0 {
		text += " (retry after " + e.RetryAfter.Round(time.Millisecond).String() + ")"
	}
	return text
}

// Is reports whether target is ErrUnavailable.
func (e *UnavailableError) Is(target error) bool { return target == ErrUnavailable }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// LogValue implements [slog.LogValuer]: the text of Error, without what is in a [*Quote].
func (e *UnavailableError) LogValue() slog.Value {
	short := *e
	short.Err = unquoted(e.Err)
	return slog.StringValue(short.Error())
}

// MisconfiguredError says which verifier cannot work as configured.
// errors.Is(err, ErrMisconfigured) holds.
type MisconfiguredError struct {
	Verifier string
	Err      error // the cause
}

// Error names the verifier and the cause.
func (e *MisconfiguredError) Error() string { return describe(ErrMisconfigured, e.Verifier, e.Err) }

// Is reports whether target is ErrMisconfigured.
func (e *MisconfiguredError) Is(target error) bool { return target == ErrMisconfigured }

// Unwrap returns the cause.
func (e *MisconfiguredError) Unwrap() error { return e.Err }

// LogValue implements [slog.LogValuer]: the text of Error, without what is in a [*Quote].
func (e *MisconfiguredError) LogValue() slog.Value {
	return slog.StringValue(describe(ErrMisconfigured, e.Verifier, unquoted(e.Err)))
}

// Quote is an error with what somebody else said of it, a server in its answer or a
// panic: that may repeat the claim that was asked about. Error has it, for who asked; a
// log does not.
type Quote struct {
	Err  error  // in words of the program's own
	Text string // what was said
}

// Error is both.
func (q *Quote) Error() string { return q.Err.Error() + ": " + q.Text }

// Unwrap returns Err.
func (q *Quote) Unwrap() error { return q.Err }

// unquoted is an error without what is in a Quote.
func unquoted(err error) error {
	var q *Quote
	if errors.As(err, &q) {
		return q.Err
	}
	return err
}

func describe(class error, name string, cause error) string {
	text := class.Error()
	if name != "" {
		text += ": " + name
	}
	// A cause that is of the class already says so: once is enough.
	if cause != nil && cause != class {
		text += ": " + strings.TrimPrefix(cause.Error(), class.Error()+": ")
	}
	return text
}

// RetryAfter reads the Retry-After header: seconds, or an HTTP date judged at
// now. 0 if it is absent, malformed or past.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// classify puts an error into one of the classes of [Verifier]. ctx is the
// caller's: only its own cancellation passes, a cancellation that the source
// made up is an outage. An error of no known class is an outage too: it says
// nothing of the claim, and asking again may help.
func classify(ctx context.Context, name string, err error) error {
	var down *UnavailableError
	var wrong *MisconfiguredError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &wrong):
		return err
	case errors.Is(err, ErrMisconfigured):
		return &MisconfiguredError{Verifier: name, Err: err}
	case errors.As(err, &down) && down.Verifier != "":
		return err
	case errors.As(err, &down):
		return &UnavailableError{Verifier: name, RetryAfter: down.RetryAfter, Err: down.Err}
	default:
		return &UnavailableError{Verifier: name, Err: err}
	}
}

// errPanic is the cause when a verifier did not return.
func errPanic(v any) error {
	return &Quote{errors.New("it panicked"), clip(fmt.Sprint(v))}
}

// clip bounds what came from outside to one field of valid UTF-8.
func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), memory.MaxField)], "")
}
