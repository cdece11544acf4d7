package agent

import (
	"context"
	"fmt"
	"slices"
)

// Save gives the state of a run, to go on with it later or in another process
// ([Agent.Resume]): its lineage, the principal's typed words, and the run whose calls it
// makes if it is that of a [Delegate] or [Run.ForSender], signed. history is
// the conversation as the program keeps it, in bytes that will be the same then; the
// state is good for that history only. Keep the state like the history: it can be
// read by who has it, and changed by nobody.
//
// Handles, the bond of a fork with its parent and parked calls are not in it. A later
// call with a handle of before is refused as an argument that is not valid.
func (r *Run) Save(ctx context.Context, history []byte) (string, error) {
	if err := r.readyIn(ctx); err != nil {
		return "", err
	}
	t := r.agent.opts.Tokens
	if t == nil {
		return "", ErrNoTokens
	}
	c := r.claims(kindState, r.ledger)
	c.audience, c.principal, c.typed = t.o.Audience, r.principal, r.ledger.words()
	c.asked, c.caller = r.ledger.askedWords(), r.sentBy()
	if !plainName(r.principal) {
		return "", fmt.Errorf("%w: the principal is no name of 1 to 255 visible characters", ErrTokens)
	}
	r.mu.Lock()
	r.lasting = true
	r.mu.Unlock()
	return t.issue(ctx, c, history)
}

// Resume goes on with a run that was saved. principal is who the front end says is
// there now. The run has the lineage it was saved with and its id, and the history may
// be shown to the model again.
//
// A state is good once, for its agent, principal and history. With one that is
// missing, altered, expired, used before, or of another agent, principal, history,
// store or epoch, the run is a new one and its lineage is unknown: what changes
// something is blocked. Lineage says why.
func (a *Agent) Resume(ctx context.Context, principal, state string, history []byte) *Run {
	r := a.Start(principal)
	if r.ready() != nil {
		return r
	}
	c, err := a.opts.Tokens.open(ctx, kindState, state, history)
	if err == nil && (c.agent != a.name || c.model != a.model.ID || c.family != a.model.Family || c.principal != principal) {
		err = refusedRun
	}
	if err != nil {
		r.refuse(ctx, err)
		return r
	}
	if r.rest(ctx, &c, r.ledger.read) {
		r.id, r.caller = c.run, c.caller
		for _, text := range c.typed {
			r.ledger.heard(text)
		}
		r.ledger.askedBefore(c.asked)
	}
	return r
}

// words are what the principal typed, in order.
func (l *ledger) words() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.typed)
}
