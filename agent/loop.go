package agent

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/hearsay-go/hearsay/gate"
)

// StalledAfter is how often the same call is denied or refused before a loop ends, if no message
// of the model in between made calls without that one: a model that gets the same answer a third
// time asks on until its turns are used up.
const StalledAfter = 3

// ErrStalled: the model repeats a call that is denied or refused. The error is a
// [*StalledError].
var ErrStalled = errors.New("agent: the model repeats a call that is denied")

// Loop follows the calls that a model makes while it works on one thing. Adapters have one
// for each answer that they are asked for; a loop of your own can too. The zero Loop is ready
// for use, by several goroutines.
type Loop struct {
	mu      sync.Mutex
	made    []MadeCall
	denied  map[string]int
	counted map[string]bool // denied since Stalled was asked last
	moved   bool            // a call was made since
	stalled map[string]*StalledError
}

// MadeCall is a call that reached its tool.
type MadeCall struct {
	Tool     string
	Args     json.RawMessage // as the model gave them
	Decision string          // its id
	Text     string          // what the model was told
	Err      error           // of the tool, or of recording what it gave; nil = none
}

// Note notes what a call came to: the result and the error of [Run.Call], or why the adapter
// itself refused it.
func (l *Loop) Note(tool string, args json.RawMessage, res Result, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var denied *gate.DeniedError
	switch {
	case err == nil || errors.Is(err, ErrTool): // first: a tool may fail over a call that was denied
		l.moved = true
		l.made = append(l.made, MadeCall{Tool: tool, Args: slices.Clone(args), Decision: res.Decision.ID, Text: ToolText(res, err), Err: err})
	case errors.As(err, &denied):
		l.notMade(sameDenial(&denied.Decision), &StalledError{Tool: denied.Decision.Tool, Last: denied})
	default: // it did not come to a decision
		sum := sha256.Sum256(args)
		l.notMade(tool+"\x00"+string(sum[:]), &StalledError{Tool: tool, Last: err})
	}
}

// notMade counts a call that was not made under what tells it from others.
func (l *Loop) notMade(key string, stalled *StalledError) {
	if l.denied == nil {
		l.denied = map[string]int{}
	}
	if l.counted == nil {
		l.counted = map[string]bool{}
	}
	if l.counted[key] { // the model has not read the first answer
		return
	}
	l.counted[key] = true
	if l.denied[key]++; l.denied[key] >= StalledAfter {
		if l.stalled == nil {
			l.stalled = map[string]*StalledError{}
		}
		l.stalled[key] = stalled
	}
}

// Reset forgets all calls.
func (l *Loop) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made, l.denied, l.counted, l.moved, l.stalled = nil, nil, nil, false, nil
}

// sameDenial is one for denials of the same call for the same kinds of reasons. Which rows are at
// fault is no part of it: what the model reads beside the call adds some each time. Calls that
// are held because one was done are the same if that was the same one.
func sameDenial(d *gate.Decision) string {
	what, kinds := d.ArgsSHA256, []string{}
	for _, r := range d.Reasons {
		if r.Outcome == gate.Permit {
			continue
		}
		if r.Code == gate.AlreadyDone {
			what = r.Detail
		}
		kinds = append(kinds, string(r.Code))
	}
	slices.Sort(kinds)
	return strings.Join(append([]string{d.Tool, what, d.Outcome.String()}, slices.Compact(kinds)...), "\x00")
}

// Stalled is nil, or the [*StalledError] with which the loop should end. Ask it once for each
// message of the model, when its calls are answered: of the calls in one message that are the
// same one counts.
func (l *Loop) Stalled(run *Run) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.moved { // what was not denied again meanwhile begins anew
		maps.DeleteFunc(l.denied, func(key string, _ int) bool { return !l.counted[key] })
		maps.DeleteFunc(l.stalled, func(key string, _ *StalledError) bool { return !l.counted[key] })
	}
	l.counted, l.moved = nil, false
	for _, key := range slices.Sorted(maps.Keys(l.stalled)) {
		of := l.stalled[key]
		return &StalledError{Tool: of.Tool, Held: run.Held(), Last: of.Last}
	}
	return nil
}

// Made are the calls that reached their tools, in order.
func (l *Loop) Made() []MadeCall {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.made)
}

// Wrap is the error that ended the loop, with the calls that were made before it: a
// [*CallsError] if there are any. An error that has them already stays as it is.
func (l *Loop) Wrap(err error) error {
	made := l.Made()
	if have := (*CallsError)(nil); err == nil || len(made) == 0 || errors.As(err, &have) && len(have.Calls) == len(made) {
		return err
	}
	return &CallsError{Calls: made, cause: err}
}

// CallsError is an error that ended a loop after calls were made. The model may never have
// been told of them: whoever begins again should say so, or go on with the same run, which
// knows them.
type CallsError struct {
	Calls []MadeCall // in order
	cause error
}

// Error is one line: the cause, and the names of the tools.
func (e *CallsError) Error() string {
	const most = 10
	var names []string
	for _, c := range e.Calls[:min(len(e.Calls), most)] {
		names = append(names, c.Tool)
	}
	if more := len(e.Calls) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%v (after calls that were made: %s)", e.cause, strings.Join(names, ", "))
}

// Unwrap returns the cause.
func (e *CallsError) Unwrap() error { return e.cause }

// StalledError ends a loop in which the model repeats a call that is denied or refused. It
// wraps [ErrStalled] and the last refusal.
type StalledError struct {
	Tool string
	Held []HeldCall // of the run, oldest first; none if what is denied is not held
	Last error      // a [*gate.DeniedError]; of arguments that do not fit, a [*gate.ArgumentError]; or the adapter's own
}

// Error is one line.
func (e *StalledError) Error() string {
	text := fmt.Sprintf("%v: %s, %d times", ErrStalled, clean(errorLine(errors.New(e.Tool)), 64), StalledAfter)
	for i, h := range e.Held {
		if i == 3 {
			return fmt.Sprintf("%s, and %d more", text, len(e.Held)-i)
		}
		if i == 0 {
			text += "; held: "
		} else {
			text += ", "
		}
		text += h.Hold
	}
	return text
}

// Unwrap returns [ErrStalled] and the last refusal.
func (e *StalledError) Unwrap() []error { return []error{ErrStalled, e.Last} }

// HeldCall is a call that a gate held.
type HeldCall struct {
	Hold   string // its id: hearsay call show
	Tool   string
	CallID string          // that the model gave it
	Args   json.RawMessage // canonical, as the model gave them: a handle stays one
	Parked bool            // it is made by itself once it is free
	Codes  []gate.Code     // why
}

// maxHeld is how many held calls a run remembers; older ones are forgotten.
const maxHeld = 1000

// Held are the calls of the run, and of its forks, that were held when they were last made,
// oldest first, at most 1,000. Whether somebody has approved one since, and which have
// expired, the store knows ([Run.Wait]). It is safe for concurrent use.
func (r *Run) Held() []HeldCall {
	if r.ready() != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]HeldCall, 0, len(r.onHold))
	for _, h := range r.onHold {
		h.HeldCall.Args = slices.Clone(h.HeldCall.Args)
		out = append(out, h.HeldCall)
	}
	return out
}

// onHold is a held call and what tells it from others.
type onHold struct {
	HeldCall
	run, key string
}

// decided remembers a call that was held, and forgets it once the same one was let through or
// is denied for good.
func (r *Run) decided(p *parked, d *gate.Decision) {
	key := p.tool.name + "\x00" + string(p.call.args)
	for of := r; of != nil; of = of.parent {
		of.mu.Lock()
		of.onHold = slices.DeleteFunc(of.onHold, func(h onHold) bool { return h.run == r.id && h.key == key })
		if d.Outcome == gate.Hold {
			held := HeldCall{Hold: d.HoldID, Tool: p.tool.name, CallID: p.callID, Args: slices.Clone(p.call.given), Parked: d.Parked}
			for _, reason := range d.Reasons {
				if reason.Outcome == gate.Hold && !slices.Contains(held.Codes, reason.Code) {
					held.Codes = append(held.Codes, reason.Code)
				}
			}
			of.onHold = append(of.onHold, onHold{held, r.id, key})
			of.onHold = of.onHold[max(0, len(of.onHold)-maxHeld):]
		}
		of.mu.Unlock()
	}
}
