package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// Errors of parked calls.
var (
	// ErrClosed: the run was closed; nothing is called in it any more.
	ErrClosed = errors.New("agent: the run is closed")
	// ErrNothingParked: no call of the run waits to be made by itself.
	ErrNothingParked = errors.New("agent: no call is parked")
)

// FiresWhenFree lets a call of the tool that is held be parked: it is made by
// [Run.Resume], or by a server of agent/mcp, once its rows are verified or a person
// approved it, in the same run, decided afresh, for at most the gate's ParkFor. New refuses it for a tool that is
// irreversible or whose effect is not declared; a policy that makes the tool
// irreversible keeps it from being parked.
func FiresWhenFree() Option { return func(t *Tool) { t.parks = true } }

// parked is a call that waits to be made by itself.
type parked struct {
	tool   *Tool
	call   bound
	callID string
	first  string // the hold that it was first parked in
}

// Resumed is what became of a parked call.
type Resumed struct {
	Hold, Tool string
	CallID     string // that the model gave the call
	// Args are the canonical arguments as the model gave them: a handle in them stays
	// one, since the model has not read what it stands for.
	Args   json.RawMessage
	Result Result
	// Err is nil if the call was made and the tool gave no error; a
	// [*gate.DeniedError] if it was not made after all.
	Err error
}

// Text is the result of the call for the model, as [ToolText] gives it.
func (r Resumed) Text() string { return ToolText(r.Result, r.Err) }

// Wait returns when a held call of any run may be tried again, was refused, or
// ended; see [gate.Wait]. It makes no call: the next attempt is decided afresh.
func (r *Run) Wait(ctx context.Context, hold string) (gate.Released, error) {
	if err := r.ready(); err != nil {
		return gate.Released{}, err
	}
	return gate.Wait(ctx, r.agent.store, hold)
}

// Close ends the run and its forks. They make no more calls. A parked call no longer fires
// by itself, and a held call can no longer be approved, unless the run was saved
// ([Run.Save]) and may go on elsewhere. Close returns when the calls under way have ended
// and are recorded. Inside the function of a tool it does not wait, for it would wait for
// itself. It may be called more than once.
func (r *Run) Close() {
	if r.ready() != nil {
		return
	}
	idle := r.shut()
	r.over(context.Background())
	if !insideTool() {
		<-idle
	}
}

// waits notes, in the run and in what it is a fork of, that a call of it was held.
func (r *Run) waits() {
	for of := r; of != nil; of = of.parent {
		of.mu.Lock()
		if of.held == nil {
			of.held = map[string]bool{}
		}
		of.held[r.id] = true
		of.mu.Unlock()
	}
}

// overWithin bounds how long the end of a run is written.
const overWithin = 2 * time.Second

// over notes in the store that the run has ended, if anybody could still wait for it.
func (r *Run) over(ctx context.Context) {
	r.mu.Lock()
	held := r.held
	r.held = nil
	if r.lasting || r.oneCall || r.caller != "" {
		delete(held, r.id)
	}
	r.mu.Unlock()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), overWithin)
	defer cancel()
	for id := range held {
		if err := r.agent.store.EndRun(ctx, id); err != nil { // its holds end by their own time
			r.agent.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "the end of a run not recorded", slog.String("session", id), slog.Any("error", err))
		}
	}
}

// CloseContext is Close, and waits no longer than ctx. What it gives then is the error
// of ctx; the run is closed all the same.
func (r *Run) CloseContext(ctx context.Context) error {
	if err := r.ready(); err != nil {
		return err
	}
	idle := r.shut()
	r.over(ctx)
	if callingIn(ctx) != nil || insideTool() {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// shut closes the run. What it returns is closed when no call is being made.
func (r *Run) shut() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.waiting = true, nil
	if r.idle == nil {
		r.idle = make(chan struct{})
		if r.firing == 0 {
			close(r.idle)
		}
	}
	return r.idle
}

// begin counts a call that is about to be made, in the run and in what it is a fork of,
// and reports whether none of them is closed. With it goes end.
func (r *Run) begin() bool {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.firing++
	}
	r.mu.Unlock()
	if closed {
		return false
	}
	if r.parent != nil && !r.parent.begin() {
		r.done()
		return false
	}
	return true
}

func (r *Run) end() {
	r.done()
	if r.parent != nil {
		r.parent.end()
	}
}

func (r *Run) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firing--; r.firing == 0 && r.idle != nil {
		close(r.idle)
	}
}

// insideTool reports whether the caller runs in the function of a tool, of any run: in
// the goroutine that the function was called in.
func insideTool() bool {
	frames := make([]uintptr, 64)
	for skip := 2; ; skip += len(frames) {
		n := runtime.Callers(skip, frames)
		for each := runtime.CallersFrames(frames[:n]); n > 0; {
			f, more := each.Next()
			if f.Function == safelyName {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(frames) {
			return false
		}
	}
}

// safelyName is the function through which every tool is called.
var safelyName = runtime.FuncForPC(reflect.ValueOf(safely).Pointer()).Name()

// park keeps a call that the gate parked, unless the run was closed meanwhile.
func (r *Run) park(hold string, p parked) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended() {
		return
	}
	if p.first == "" { // unless it is the same call as one that has moved on to this hold
		p.first = cmp.Or(r.waiting[hold].first, hold)
	}
	if r.waiting == nil {
		r.waiting = map[string]parked{}
	}
	r.waiting[hold] = p
}

// unpark takes a call out, for the one who makes it.
func (r *Run) unpark(hold string) (parked, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.waiting[hold]
	delete(r.waiting, hold)
	return p, ok && !r.ended()
}

// Parked lists the holds of the calls that wait to be made by themselves.
func (r *Run) Parked() []string { return r.parkedIn("") }

// parkedIn lists the holds of the parked calls; of a hold's only, if one is given.
func (r *Run) parkedIn(hold string) []string {
	if r.ready() != nil || r.isClosed() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]string, 0, len(r.waiting))
	for now, p := range r.waiting {
		if hold == "" || hold == now || hold == p.first {
			out = append(out, now)
		}
	}
	return out
}

// ParkedAs is the hold that a parked call waits in now, by the id of the one that it was
// first parked in. "" means that it is not parked, or is being decided.
func (r *Run) ParkedAs(hold string) string {
	for _, now := range r.parkedIn(hold) {
		return now
	}
	return ""
}

// Unpark takes a parked call out: it is not made by itself any more, and [Run.Resume]
// does not return it. Reports whether it was there; one that is being made already is
// not. The hold stays open for who decides about it, and for an identical call.
func (r *Run) Unpark(hold string) bool {
	found := false
	for _, now := range r.parkedIn(hold) {
		_, mine := r.unpark(now)
		found = found || mine
	}
	return found
}

func (r *Run) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended()
}

// ended is isClosed for who holds the lock. A fork ends with its parent.
func (r *Run) ended() bool { return r.closed || r.parent != nil && r.parent.isClosed() }

// Pauses between two looks at what is parked.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
	askedAgain = time.Minute // between two decisions on a call that waits, though its hold says otherwise
)

// Resume waits until one of the parked calls of the run comes free or ends, makes it
// if it may be made, and returns what became of it. Each parked call is returned
// once, whoever asks. The error is that of ctx, of the store, [ErrClosed] or
// [ErrNothingParked]; what the call gave is in the result.
func (r *Run) Resume(ctx context.Context) (Resumed, error) { return r.ResumeCall(ctx, "") }

// ResumeCall is [Run.Resume] for one parked call, by the id of the hold that it was
// first parked in; if another row keeps it and it waits on in another hold, it is that
// call still. The error is [ErrNothingParked] if it is not parked, or not any more.
func (r *Run) ResumeCall(ctx context.Context, hold string) (Resumed, error) {
	if err := r.readyIn(ctx); err != nil {
		return Resumed{}, err
	}
	// When a call that its hold keeps no more was asked about last: what the run has read since
	// may hold it still.
	stood := map[string]time.Time{}
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		if r.isClosed() {
			return Resumed{}, ErrClosed
		}
		holds := r.parkedIn(hold)
		if len(holds) == 0 {
			return Resumed{}, ErrNothingParked
		}
		for _, now := range holds {
			released, done, err := gate.Look(ctx, r.agent.store, now)
			if err != nil && !errors.Is(err, memory.ErrErased) {
				return Resumed{}, fmt.Errorf("agent: resume: %w", err)
			}
			tried := err == nil && (released.How == gate.HowDenied || released.How == gate.HowPromoted)
			if err == nil && !done || tried && time.Since(stood[now]) < askedAgain {
				continue
			}
			if p, mine := r.unpark(now); mine {
				res, again := r.resume(ctx, now, p)
				if again {
					stood[now] = time.Now()
					continue
				}
				if res.Result.Decision.Fault { // no verdict: it waits on
					r.park(now, p)
					return Resumed{}, cmp.Or(ctx.Err(), fmt.Errorf("agent: resume: %w", res.Err))
				}
				return res, nil
			}
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			return Resumed{}, ctx.Err()
		case <-t.C:
		}
	}
}

// resume makes a parked call. again says that it waits on, for something else.
func (r *Run) resume(ctx context.Context, hold string, p parked) (res Resumed, again bool) {
	res = Resumed{Hold: hold, Tool: p.tool.name, CallID: p.callID, Args: p.call.given}
	res.Result, res.Err = r.decide(ctx, p, hold)
	return res, res.Result.Decision.Parked
}
