package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	// maxParked is how many parked calls and results one server keeps.
	maxParked = 1024
)

// desk keeps the parked calls of a server (agent.FiresWhenFree), each under what makes
// it this call: who asks, the tool, the canonical arguments. A call that is kept is
// made once, by the desk; the same call, made again, waits for its result or gets it.
type desk struct {
	life  context.Context // when it ends, nothing is made by itself any more
	group sync.WaitGroup

	mu    sync.Mutex
	calls map[string]*kept
}

// kept is a parked call, or what became of it.
type kept struct {
	hold     string
	withdraw context.CancelFunc
	waits    int // calls that wait for it

	done  chan struct{} // closed when what follows is set
	ended time.Time
	res   agent.Resumed
	err   error // it was not made
}

func newDesk(life context.Context) *desk { return &desk{life: life, calls: map[string]*kept{}} }

// keep makes a call that was parked in a hold once it is free. Reports whether there
// was room for it.
func (d *desk) keep(ctx context.Context, key string, run *agent.Run, hold string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calls[key] != nil { // the same call, parked by two requests at once
		return true
	}
	if len(d.calls) >= maxParked || d.life.Err() != nil {
		run.Unpark(hold)
		return false
	}
	// It outlives the request that parked it.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	k := &kept{hold: hold, withdraw: cancel, done: make(chan struct{})}
	d.calls[key] = k
	stop := context.AfterFunc(d.life, cancel)
	d.group.Go(func() {
		defer stop()
		defer cancel()
		res, err := run.ResumeCall(ctx, hold)
		if err == nil && ctx.Err() != nil && res.Err != nil && !errors.Is(res.Err, agent.ErrTool) {
			err = ctx.Err() // withdrawn while it was decided
		}
		if err != nil {
			run.Unpark(hold)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if k.res, k.err, k.ended = res, err, time.Now(); err != nil {
			delete(d.calls, key)
		}
		close(k.done)
	})
	return true
}

// attach finds the parked call that a call is the same as, and counts it as one that
// waits; nil if there is none.
func (d *desk) attach(key string) *kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.calls, func(_ string, k *kept) bool { return !k.ended.IsZero() && time.Since(k.ended) > keepFor })
	k := d.calls[key]
	if k != nil {
		k.waits++
	}
	return k
}

// leave takes back attach. The parked call of a client that cancels is withdrawn,
// unless another one waits for it. A result that was given is not given again.
func (d *desk) leave(key string, k *kept, cancelled, given bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.waits--; cancelled && k.waits == 0 {
		k.withdraw()
	}
	if given && d.calls[key] == k {
		delete(d.calls, key)
	}
}

// wait answers a call that attached to a parked one. nil means that the parked one was
// withdrawn and not made, so that the call has to go its own way.
func (d *desk) wait(ctx context.Context, req api.Request, key string, k *kept, structured bool) *api.CallToolResult {
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
			case errors.Is(k.err, agent.ErrNothingParked):
				return refusal("NOT EXECUTED by this call: it does not wait here any more (" + k.hold + "). It was made by another one, or taken back. If it is still wanted, call it anew.")
			}
			return nil
		case <-ctx.Done():
			d.leave(key, k, true, false)
			return refusal("NOT EXECUTED: cancelled.")
		case <-enough.C:
			d.leave(key, k, false, false)
			res := refusal("NOT EXECUTED: the call is still waiting (" + k.hold + "), and nothing was changed. It is made by itself once the statement is verified. Make exactly the same call again to wait for it.")
			res.Meta = api.Meta{MetaHold: k.hold}
			return res
		case <-beat.C:
			progress(ctx, req, k.hold, time.Since(start))
		}
	}
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
