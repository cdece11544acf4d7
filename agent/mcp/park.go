package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// MetaHold is the member of a held answer's _meta that names its hold, for the
// client's program: what `hearsay call` and gate.Wait know the call by.
const MetaHold = "io.github.hearsay-go/hold"

const (
	// patience is how long a call waits for the parked one before it is answered that
	// it waits: less than clients commonly wait for an answer.
	patience = 45 * time.Second
	// heartbeat is how often a client that wants progress hears that its call waits.
	heartbeat = 10 * time.Second
	// keepFor is how long a result waits for somebody to ask for it.
	keepFor = gate.DefaultParkFor
	// maxParked is how many parked calls and results one server keeps, and maxKept how
	// many bytes of arguments and outputs there are in them before no more are kept.
	maxParked = 1024
	maxKept   = 64 << 20
	// again is the pause before another attempt if the store fails while a call is parked.
	again = time.Second
)

// desk keeps the parked calls of a server (agent.FiresWhenFree), each under what makes
// it this call: who asks, the tool, the canonical arguments. A call that is kept is
// made once, by the desk; the same call, made again, waits for its result or gets it.
type desk struct {
	life  context.Context // when it ends, nothing is made by itself any more
	end   context.CancelFunc
	group sync.WaitGroup
	work  context.Context // when it ends, no call goes on
	cut   context.CancelFunc
	over  sync.Map // the HTTP requests under way, by the id in their header: their contexts

	mu        sync.Mutex
	calls     map[callKey]*kept
	size      int           // of all that is kept
	answering int           // calls that were accepted and have no answer yet
	shut      bool          // no call is accepted any more
	idle      chan struct{} // closed when shut is set and every accepted call has its answer
}

// callKey stands for who asks, the tool and the canonical arguments. The zero key is of
// a call that is the same as no other.
type callKey [sha256.Size]byte

func keyOf(from asker, params *api.CallToolParamsRaw) callKey {
	if from.name == "" {
		return callKey{}
	}
	return sha256.Sum256(append([]byte(from.name+"\n"), callBytes(params.Name, params.Arguments)...))
}

// kept is a parked call, or what became of it.
type kept struct {
	run      *agent.Run
	hold     string    // that it was first parked in
	until    time.Time // when it is given up if the store fails until then
	withdraw context.CancelFunc
	waits    int // calls that wait for it
	size     int // of its arguments, and of its output

	done  chan struct{} // closed when what follows is set
	ended time.Time
	res   agent.Resumed
	err   error // it was not made
}

func newDesk(ctx context.Context) *desk {
	life, end := context.WithCancel(ctx)
	work, cut := context.WithCancel(context.WithoutCancel(ctx))
	return &desk{life: life, end: end, work: work, cut: cut, calls: map[callKey]*kept{}, idle: make(chan struct{})}
}

// close takes back what is parked, and accepts no call from now on. It returns when no
// parked call is being made.
func (d *desk) close() {
	d.turnAway()
	d.group.Wait()
}

// turnAway is close without the wait.
func (d *desk) turnAway() {
	d.mu.Lock() // what is not kept yet will not be
	defer d.mu.Unlock()
	if d.end(); !d.shut {
		d.shut = true
		d.rest()
	}
}

// begin accepts a call, unless the desk is closed. With it goes answered.
func (d *desk) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.shut {
		d.answering++
	}
	return !d.shut
}

func (d *desk) answered() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answering--
	d.rest()
}

// rest closes idle if the last call of a closed desk has its answer.
func (d *desk) rest() {
	if d.shut && d.answering == 0 {
		close(d.idle)
	}
}

// keep makes a call that was parked once it is free. It returns what is kept under the
// key, which is another one's hold if that was parked at the same time; nil if there is
// no room, or who asked has gone: then it is not parked any more.
func (d *desk) keep(ctx context.Context, key callKey, run *agent.Run, decision *gate.Decision, size int) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.calls[key]; k != nil {
		if k.run != run || !k.ended.IsZero() {
			run.Unpark(decision.HoldID)
		}
		return k
	}
	gone := ctx.Err() != nil || d.life.Err() != nil || run.ParkedAs(decision.HoldID) == ""
	if gone || key == (callKey{}) || len(d.calls) >= maxParked || d.size+size > maxKept {
		run.Unpark(decision.HoldID)
		return nil
	}
	// It outlives the request that parked it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &kept{run: run, hold: decision.HoldID, until: time.Now().Add(decision.ExpiresAt.Sub(decision.At) + time.Minute),
		withdraw: cancel, size: size, done: make(chan struct{})}
	d.calls[key], d.size = k, d.size+size
	stop := context.AfterFunc(d.life, cancel)
	d.group.Go(func() {
		defer stop()
		defer cancel()
		res, err := k.make(ctx)
		run.Unpark(k.hold) // also what an identical call has parked since
		d.mu.Lock()
		defer d.mu.Unlock()
		// A denial is for those who wait for it now: who asks later is decided afresh. That a
		// call no longer waits is kept for who believes that it does.
		decision := &res.Result.Decision
		if k.res, k.err, k.ended = res, err, time.Now(); err != nil || decision.Blocked() && !decision.Has(gate.HoldEnded) {
			d.drop(key)
		} else {
			k.size += len(res.Result.Output)
			d.size += len(res.Result.Output)
		}
		close(k.done)
	})
	return k
}

// drop forgets what is kept under a key.
func (d *desk) drop(key callKey) {
	d.size -= d.calls[key].size
	delete(d.calls, key)
}

// make makes the call once it is free. A store that fails for a while does not take it
// back. An error means that it was not made.
func (k *kept) make(ctx context.Context) (agent.Resumed, error) {
	for {
		res, err := k.run.ResumeCall(ctx, k.hold)
		if err == nil && ctx.Err() != nil && res.Err != nil && !errors.Is(res.Err, agent.ErrTool) {
			err = ctx.Err() // withdrawn while it was decided
		}
		if err == nil {
			return res, nil
		}
		if k.run.ParkedAs(k.hold) == "" || ctx.Err() != nil || time.Now().After(k.until) {
			return res, err
		}
		t := time.NewTimer(again)
		select {
		case <-ctx.Done():
			t.Stop()
		case <-t.C:
		}
	}
}

// id is the hold that the call waits in.
func (k *kept) id() string { return cmp.Or(k.run.ParkedAs(k.hold), k.hold) }

// attach finds the parked call that a call is the same as, and counts it as one that
// waits; nil if there is none.
func (d *desk) attach(key callKey) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	for old, k := range d.calls {
		if !k.ended.IsZero() && time.Since(k.ended) > keepFor {
			d.drop(old)
		}
	}
	k := d.calls[key]
	if k != nil {
		k.waits++
	}
	return k
}

// leave takes back attach. The parked call of a client that cancels is withdrawn,
// unless another one waits for it. A result that was given is not given again.
func (d *desk) leave(key callKey, k *kept, cancelled, given bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.waits--; cancelled && k.waits == 0 {
		k.withdraw()
	}
	if given && d.calls[key] == k {
		d.drop(key)
	}
}

// wait answers a call that attached to a parked one. nil means that the parked one was
// withdrawn and not made, so that the call has to go its own way.
func (d *desk) wait(ctx context.Context, req api.Request, key callKey, k *kept, structured bool) *api.CallToolResult {
	start := time.Now()
	enough := time.NewTimer(patience)
	defer enough.Stop()
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-k.done:
			if ctx.Err() != nil { // nobody hears it: it is kept for who asks again
				d.leave(key, k, true, false)
				return refusal("NOT EXECUTED: cancelled.")
			}
			d.leave(key, k, false, true)
			switch {
			case k.err == nil:
				return shown(k.res.Result, k.res.Err, structured)
			case d.life.Err() != nil:
				return refusal(ending)
			case errors.Is(k.err, agent.ErrNothingParked):
				return refusal("NOT EXECUTED by this call: it does not wait here any more (" + k.hold + "). It was made by another one, or taken back. If it is still wanted, call it anew.")
			}
			return nil
		case <-ctx.Done():
			d.leave(key, k, true, false)
			return refusal("NOT EXECUTED: cancelled.")
		case <-enough.C:
			d.leave(key, k, false, false)
			return k.waiting()
		case <-beat.C:
			progress(ctx, req, k.id(), time.Since(start))
		}
	}
}

// ending is what a client is told whose call is not made because the server ends.
const ending = "NOT EXECUTED: this server is ending, and no longer makes the call. If the call is still wanted, make it when the server runs again."

// sameCall is what a client is told of a call that is parked.
const sameCall = "Make exactly the same call again to wait for it and get its result."

// waiting is the answer that the call waits.
func (k *kept) waiting() *api.CallToolResult {
	return held(k.id(), "NOT EXECUTED: the call is still waiting ("+k.id()+"), and nothing was changed. It is made by itself once the statement is verified. "+sameCall)
}

// held is an answer that names a hold.
func held(hold, text string) *api.CallToolResult {
	res := refusal(text)
	res.Meta = api.Meta{MetaHold: hold}
	return res
}

// requestHeader holds the id of an HTTP request, which [Proxy.Handler] sets: the
// transport gives the header to a call, and not the context of the request.
const requestHeader = "Hearsay-Request"

// tracked lets calls hear when the HTTP request that brought them has ended.
func (d *desk) tracked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()
		r.Header.Set(requestHeader, id)
		d.over.Store(id, r.Context())
		defer d.over.Delete(id)
		next.ServeHTTP(w, r)
	})
}

// hearing is the context of who waits for the answer to a call: it ends with the call,
// and with the HTTP request that brought it.
func (d *desk) hearing(ctx context.Context, req api.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	id := ""
	if req != nil && req.GetExtra() != nil {
		id = req.GetExtra().Header.Get(requestHeader)
	}
	if id == "" {
		return ctx, cancel
	}
	over, underWay := d.over.Load(id)
	if !underWay {
		cancel()
		return ctx, cancel
	}
	stop := context.AfterFunc(over.(context.Context), cancel)
	return ctx, func() { stop(); cancel() }
}

// progress tells a client that asked for it that its call waits.
func progress(ctx context.Context, req api.Request, hold string, since time.Duration) {
	params, _ := req.GetParams().(*api.CallToolParamsRaw)
	session, _ := req.GetSession().(*api.ServerSession)
	if params == nil || session == nil || params.GetProgressToken() == nil {
		return
	}
	// One that does not arrive changes nothing.
	_ = session.NotifyProgress(ctx, &api.ProgressNotificationParams{ProgressToken: params.GetProgressToken(),
		Progress: since.Seconds(), Message: fmt.Sprintf("the call is waiting (%s)", hold)})
}
