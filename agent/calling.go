package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// calling is the call that a tool is carrying out. It is found in the context of the
// tool's function, so that what the tool starts rests on what the call rests on:
// another agent's run, or a call to another process. Lost from the context, it makes
// no token and [Delegate] is of unknown lineage.
type calling struct {
	run    *Run
	tool   *Tool
	args   json.RawMessage // canonical
	ledger *ledger         // what feeds the call: that of run, and what its handles stand for
	outer  *calling        // the call inside which it is made; nil = none

	mu   sync.Mutex
	runs map[*Run]bool // that the tool has used, its caller included
}

type callingKey struct{}

func callingIn(ctx context.Context) *calling {
	c, _ := ctx.Value(callingKey{}).(*calling)
	return c
}

// nested reports whether a call is asked for inside the very same one: by the function of
// its tool, or in the run of an agent that the function asks.
func nested(ctx context.Context, t *Tool, args json.RawMessage) bool {
	for c := callingIn(ctx); c != nil; c = c.outer {
		if c.tool.name == t.name && bytes.Equal(t.contract.SameCall(c.args), t.contract.SameCall(args)) {
			return true
		}
	}
	return false
}

// readyIn reports what ready does. A run that is used inside a tool function rests on
// all that feeds the call: what the run that called it has read, and what the call's
// handles stand for, which the function got in plain. That holds for the run that
// called it, too.
func (r *Run) readyIn(ctx context.Context) error {
	if err := r.ready(); err != nil {
		return err
	}
	if c := callingIn(ctx); c != nil {
		c.join(r)
	}
	return nil
}

func (c *calling) join(r *Run) {
	c.mu.Lock()
	if c.runs == nil {
		c.runs = map[*Run]bool{}
	}
	c.runs[r] = true
	c.mu.Unlock()
	r.ledger.join(c.ledger)
}

// end brings what other runs read inside the call into the ledger of the caller,
// before the caller sees the answer. It reports whether any run was used inside.
func (c *calling) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.runs {
		c.run.ledger.join(r.ledger)
	}
	return len(c.runs) > 0
}

// join adds the rows of another ledger, and what is unknown of it.
func (l *ledger) join(other *ledger) {
	if l == other {
		return
	}
	other.mu.Lock()
	rows, ancestors, unknown := make([]memory.Row, 0, len(other.served)), make([]memory.ID, 0, len(other.ancestors)), other.unknown
	for i := range other.served {
		rows = append(rows, other.rows[other.served[i].ID])
	}
	for id := range other.ancestors {
		ancestors = append(ancestors, id)
	}
	asked := maps.Clone(other.asked)
	other.mu.Unlock()
	l.carry(rows, ancestors)
	l.mu.Lock()
	maps.Copy(l.asked, asked)
	l.mu.Unlock()
	if unknown != "" {
		l.lose(unknown)
	}
}

// Delegate makes a tool of another agent. fn gets a run of that agent, for the same
// principal and with the principal's words, which rests on all that the calling run
// has read; and what the run reads comes back into the ledger of the calling run,
// before the answer does.
//
// A tool function that starts a run of another agent itself has the same, but for
// the principal's words, as long as it uses the run with the context that it was
// given. With another context the two runs know nothing of each other.
//
// Since the calls of the run are gated themselves, the tool may be declared
// [ReadOnly]; its answer is third-party text all the same. A tool that declares part of
// it to be [Authoritative] or an [Identifier] is [ErrDelegate] when the agent is built:
// what a model says is no record of a system, whatever it was told. Of a tool function
// that uses a run itself, such declarations count for no call in which it did.
func Delegate[In, Out any](name, description string, to *Agent, fn func(ctx context.Context, run *Run, in In) (Out, error), opts ...Option) Tool {
	t := Func(name, description, func(ctx context.Context, in In) (out Out, err error) {
		run := to.Start("")
		if run.ready() != nil {
			return out, ErrNotBuilt
		}
		if by := callingIn(ctx); by != nil {
			run.principal, run.caller = by.run.principal, callerOf(by.run)
			for _, text := range by.run.ledger.words() {
				run.ledger.heard(text)
			}
			by.join(run)
		} else {
			run.ledger.lose("the run that asks is not known")
		}
		return fn(ctx, run, in)
	}, opts...)
	t.delegates = true
	return t
}

// ErrDelegate: a tool that asks another agent declares part of the answer to be more
// than third-party text.
var ErrDelegate = errors.New("agent: a delegate's answer is third-party text")

// sealDelegate refuses what a delegate cannot be.
func (t *Tool) sealDelegate() error {
	if !t.delegates {
		return nil
	}
	for _, f := range t.contract.Output {
		if f.Trust != gate.ThirdParty {
			return fmt.Errorf("%w: tool %q, output field %q", ErrDelegate, t.name, f.Pointer)
		}
	}
	return nil
}

// SendsTo declares that the tool sends its call on to another process, which knows
// itself by this name and reads lineage tokens. [Token] makes one for it.
func SendsTo(audience string) Option { return func(t *Tool) { t.audience = audience } }

// Token is [Run.Token] inside the function of a tool, with the context that the
// function was given, for the audience that the tool declares ([SendsTo]). words are
// the bytes that are sent. "" and no error means that the tool declares none, or that
// no Run called it: what is sent then is of unknown lineage where it arrives.
func Token(ctx context.Context, words []byte) (string, error) {
	c := callingIn(ctx)
	if c == nil || c.tool.audience == "" {
		return "", nil
	}
	return c.run.token(ctx, c.ledger, c.tool.audience, words)
}
