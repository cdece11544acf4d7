package agent

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Delegate makes a tool of another agent. fn gets a run of that agent, for the same
// principal and with the principal's words, which rests on all that the calling run
// has read; and what the run reads comes back into the ledger of the calling run,
// before the answer does.
//
// A tool that starts a run of another agent in any other way hides what it rests on.
// Since the calls of the run are gated themselves, the tool may be declared
// [ReadOnly]; its answer is third-party text all the same.
func Delegate[In, Out any](name, description string, to *Agent, fn func(ctx context.Context, run *Run, in In) (Out, error), opts ...Option) Tool {
	t := Func(name, description, func(ctx context.Context, in In) (out Out, err error) {
		run := to.Start("")
		if run.ready() != nil {
			return out, ErrNotBuilt
		}
		by := callingIn(ctx)
		if by == nil {
			run.ledger.lose("the run that asks is not known")
			return fn(ctx, run, in)
		}
		run.principal = by.run.principal
		run.ledger.join(by.run.ledger, true)
		defer func() { // also if fn panics: what it read may be in the message
			by.run.ledger.join(run.ledger, false)
			by.widened.Store(true)
		}()
		return fn(ctx, run, in)
	}, opts...)
	return t
}

// join adds what is in another ledger, the principal's words only if told to.
func (l *ledger) join(other *ledger, words bool) {
	other.mu.Lock()
	served, typed, unknown := other.served[:len(other.served):len(other.served)], other.typed[:len(other.typed):len(other.typed)], other.unknown
	rows, ancestors := make([]memory.Row, 0, len(served)), make([]memory.ID, 0, len(other.ancestors))
	for i := range served {
		rows = append(rows, other.rows[served[i].ID])
	}
	for id := range other.ancestors {
		ancestors = append(ancestors, id)
	}
	other.mu.Unlock()
	l.read(rows, ancestors)
	if unknown != "" {
		l.lose(unknown)
	}
	if words {
		for _, text := range typed {
			l.heard(text)
		}
	}
}
