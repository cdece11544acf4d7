package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hearsay-go/hearsay/memory"
)

// FromToken is words that came from another process, with the lineage token that
// came with them: what [Run.Token] gave there for just these words. They become a
// row, asserted by the model that made them and derived from all that it had read.
// With a token that is missing or does not hold they are text of unknown origin.
func FromToken(token, words string) Segment {
	return Segment{kind: segmentToken, token: token, text: words}
}

// Token signs, for another process, what words of this run were made from: all that
// the run has read so far. The token goes beside the words, and is good for them
// only, once, at the audience named. A run of unknown lineage gets a token that says
// so. Without [Options.Tokens] it is [ErrNoTokens].
func (r *Run) Token(ctx context.Context, audience string, words []byte) (string, error) {
	if err := r.readyIn(ctx); err != nil {
		return "", err
	}
	return r.token(ctx, r.ledger, audience, words)
}

// token signs that words were made from all that is in a ledger.
func (r *Run) token(ctx context.Context, from *ledger, audience string, words []byte) (string, error) {
	if !plainName(audience) {
		return "", fmt.Errorf("%w: audience: not a name of 1 to 255 visible characters", ErrTokens)
	}
	c := r.claims(kindWords, from)
	c.audience = audience
	return r.agent.opts.Tokens.issue(ctx, c, words)
}

// claims are what a token says of this run, by a ledger of it.
func (r *Run) claims(kind tokenKind, from *ledger) claims {
	now := from.snapshot()
	return claims{kind: kind, agent: r.agent.name, model: r.agent.model.ID, family: r.agent.model.Family, run: r.id,
		unknown: now.unknown != "", why: clean(now.unknown, maxWhy), direct: now.direct, ancestors: now.lineage.Ancestors()}
}

// Accept takes the lineage of a call that came from another process: the token that
// came with it, and the bytes that the token was made for. From now on all that the
// sender had read feeds this run. Reports whether the token holds; if not, the
// lineage of this run is unknown.
//
// It is for a call whose content this program passes to tools. Words that a model
// will see enter by [FromToken].
func (r *Run) Accept(ctx context.Context, token string, call []byte) (known bool, err error) {
	if err := r.readyIn(ctx); err != nil {
		return false, err
	}
	c, ok := r.admit(ctx, token, call, r.ledger.read) // who reads the answer has read the rows
	if ok {
		r.mu.Lock()
		r.sender = [2]string{c.agent, c.run}
		r.mu.Unlock()
	}
	return ok && r.Lineage().IsKnown(), nil
}

// Sender is the agent, and its run, whose call the run accepted last ([Run.Accept]), as
// the token says that held; "" if none did.
func (r *Run) Sender() (agent, run string) {
	if r.ready() != nil {
		return "", ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sender[0], r.sender[1]
}

// ForSender says that the run is for one call of the run that its token names
// ([Run.Accept]), as of a server that starts a run for each call. The same call of that run
// is then the same call, in whichever run it arrives. Without a token that held it does
// nothing.
func (r *Run) ForSender() {
	if r.ready() != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.oneCall = true
}

// sentBy names the run that the calls of this one are of; "" if they are its own.
func (r *Run) sentBy() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.oneCall || r.sender == [2]string{} {
		return r.caller
	}
	return fmt.Sprintf("%q %q", r.sender[0], r.sender[1])
}

// callerOf names the run whose calls the runs make that it asks ([Delegate]).
func callerOf(r *Run) string {
	if by := r.sentBy(); by != "" {
		return by
	}
	return fmt.Sprintf("%q %q", r.agent.name, r.id)
}

// entering puts rows and their ancestors into a ledger: [ledger.read] or [ledger.carry].
type entering func(rows []memory.Row, ancestors []memory.ID)

// admit takes a token, or loses the lineage.
func (r *Run) admit(ctx context.Context, token string, words []byte, enter entering) (*claims, bool) {
	c, err := r.agent.opts.Tokens.open(ctx, kindWords, token, words)
	if err != nil {
		r.refuse(ctx, err)
		return nil, false
	}
	return &c, r.rest(ctx, &c, enter)
}

// rest makes the run rest on what a token says.
func (r *Run) rest(ctx context.Context, c *claims, enter entering) bool {
	if c == nil {
		r.refuse(ctx, refusedMissing)
		return false
	}
	if c.unknown {
		r.ledger.lose("unknown where it came from: " + c.why)
	}
	rows, err := r.agent.store.Get(ctx, c.direct...)
	if err != nil {
		r.refuse(ctx, fmt.Errorf("%w: %w", refusedRow, err))
		return false
	}
	for i := range rows {
		rows[i] = rows[i].For(r.principal)
	}
	enter(rows, c.ancestors)
	if r.agent.opts.Reads != nil && len(rows) > 0 {
		r.agent.opts.Reads.ObserveReads(ctx, c.direct, 1)
	}
	return true
}

// refuse loses the lineage and says why.
func (r *Run) refuse(ctx context.Context, err error) {
	why := refusedStoreDown
	errors.As(err, &why)
	r.ledger.lose(why.Error())
	r.agent.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "lineage token refused", slog.String("run", r.id), slog.String("why", string(why)))
}

// relayed writes down words that another process sent, as what they are: asserted by
// its model, derived from all that it had read.
func (r *Run) relayed(ctx context.Context, c *claims, text string, level memory.Sensitivity) (string, error) {
	now := r.ledger.snapshot()
	receipt, err := r.agent.write.Model(ctx, memory.Draft{
		Content: memory.Content{Text: text, Cardinality: memory.CardinalityUnknown},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified,
		Asserter:       memory.Asserter{Principal: c.agent, Model: c.model, Family: c.family},
		LineageUnknown: now.unknown != "", Sensitivity: level, Source: "agent", Run: r.id,
	}, now.served)
	if err != nil {
		return "", fmt.Errorf("agent: words from another process: %w", err)
	}
	return r.handed(ctx, receipt.ID)
}
