package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// Run is one conversation or task of one agent. It is safe for concurrent use.
type Run struct {
	agent     *Agent
	id        string
	principal string
	ledger    *ledger
	parent    *Run // of a fork

	mu      sync.Mutex
	closed  bool
	waiting map[string]parked // by hold
	sender  [2]string         // agent and run that a token named
}

// ID names the run in rows, decisions and logs.
func (r *Run) ID() string { return r.id }

// Principal is whom the run acts for.
func (r *Run) Principal() string { return r.principal }

// Agent is the agent whose run this is.
func (r *Run) Agent() *Agent { return r.agent }

func (r *Run) ready() error {
	if r == nil || r.agent == nil || r.agent.store == nil || r.ledger == nil {
		return ErrNotBuilt
	}
	return nil
}

// Lineage is what feeds a call made now.
func (r *Run) Lineage() gate.Lineage {
	if r.ready() != nil {
		return gate.Lineage{}
	}
	return r.ledger.snapshot().lineage
}

// receive puts rows into the ledger and returns their tagged lines.
func (r *Run) receive(ctx context.Context, ids ...memory.ID) (string, error) {
	rows, err := r.agent.store.Get(ctx, ids...)
	if err != nil {
		return "", fmt.Errorf("agent: reading rows: %w", err)
	}
	if err := r.enter(ctx, rows); err != nil {
		return "", err
	}
	return recall.Render(r.agent.store.Now(), rows...), nil
}

// enter records that rows reach the context, before the model sees a byte.
func (r *Run) enter(ctx context.Context, rows []memory.Row) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]memory.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	up, err := r.agent.store.Closure(ctx, ids...)
	if err != nil {
		r.ledger.lose("the lineage of a row that was read could not be traced")
		return fmt.Errorf("agent: tracing lineage: %w", err)
	}
	r.ledger.read(rows, up)
	if r.agent.opts.Reads != nil {
		r.agent.opts.Reads.ObserveReads(ctx, ids, 1)
	}
	return nil
}

// Recalled is what a recall found. Text is what the model may be given: every
// line with its tag, and the instruction to distrust what is not verified.
type Recalled struct {
	Text string
	Rows []memory.Row
}

// Recall reads memory under the agent's policy. What is rendered, and only that,
// enters the ledger. Confidence, age and the number of reads decide nothing
// about what a row may do later.
func (r *Run) Recall(ctx context.Context, q recall.Query) (Recalled, error) {
	if err := r.readyIn(ctx); err != nil {
		return Recalled{}, err
	}
	res, err := recall.Recall(ctx, r.agent.store, q, r.agent.opts.Recall)
	if err != nil {
		return Recalled{}, fmt.Errorf("agent: recall: %w", err)
	}
	rows := slices.Concat(res.Context, res.Uncertain, res.Contradictions)
	if err := r.enter(ctx, rows); err != nil {
		return Recalled{}, err
	}
	return Recalled{Text: recall.Prompt(res), Rows: rows}, nil
}

// Note is something the model wants remembered.
type Note struct {
	Content memory.Content
	// Origin is the label the caller gives. It may only lower: whatever it says, a
	// model's note is model_derived or the re-entry of what was recalled.
	Origin memory.Origin
	// Sensitivity of the content; unset = internal, or that of what was read if
	// higher.
	Sensitivity memory.Sensitivity
	Criticality memory.Criticality // unset is treated as critical
	Kind        memory.Kind
	// Confidence orders the queue of checks and promotes nothing (SR-4.1).
	Confidence float64
	Category   string
}

// Remember writes what the model wants remembered. The row is asserted by the
// agent's model and derived from everything the run has read. A note that
// restates a row the run was served collapses onto that row and adds nothing;
// the receipt says so and names the row.
func (r *Run) Remember(ctx context.Context, n Note) (memory.Receipt, error) {
	if err := r.readyIn(ctx); err != nil {
		return memory.Receipt{}, err
	}
	now := r.ledger.snapshot()
	d := memory.Draft{
		Content: n.Content, Origin: n.Origin, State: memory.StateUnverified,
		Asserter:       memory.Asserter{Principal: r.agent.name, Model: r.agent.model.ID, Family: r.agent.model.Family},
		LineageUnknown: now.unknown != "", Sensitivity: n.Sensitivity, Criticality: n.Criticality, Kind: n.Kind,
		ValueConfidence: n.Confidence, Source: "agent", Category: n.Category, Run: r.id,
	}
	if d.Origin == 0 {
		d.Origin = memory.OriginModelDerived
	}
	if d.Sensitivity == 0 {
		d.Sensitivity = memory.SensitivityInternal
	}
	if d.Content.Cardinality == 0 {
		d.Content.Cardinality = memory.CardinalityUnknown
	}
	if r.agent.opts.Down != nil && r.agent.opts.Down(d.Content) {
		d.State = memory.StateUnavailableAtWriteTime
	}
	receipt, err := r.agent.write.Model(ctx, d, now.served)
	if err != nil {
		return memory.Receipt{}, fmt.Errorf("agent: remember: %w", err)
	}
	return receipt, nil
}

// Assertion is a fact in the principal's own words.
type Assertion struct {
	// Span is a verbatim span of what the principal typed in this run.
	Span string
	// Subject, Predicate and Object make the fact typed. The object must stand in
	// the span as it is. Subject and predicate are chosen by the program (a form, a
	// slot), never by the model: what a model extracts goes through Remember.
	Subject, Predicate, Object string
	Cardinality                memory.Cardinality
	Sensitivity                memory.Sensitivity // unset = internal
}

// Assert records words of the principal as user_asserted, the only way such a
// row is made (I-13). Words that the principal did not type verbatim are
// [ErrNotTyped]. The row is verified if it is typed and the principal has
// authority over its subject, else unverified.
func (r *Run) Assert(ctx context.Context, a Assertion) (memory.Receipt, error) {
	if err := r.readyIn(ctx); err != nil {
		return memory.Receipt{}, err
	}
	if a.Span == "" || !r.ledger.typedSpan(a.Span) || a.Object != "" && !containsWord(a.Span, a.Object) {
		return memory.Receipt{}, ErrNotTyped
	}
	d := memory.Draft{
		Content: memory.Content{Text: a.Span, Subject: a.Subject, Predicate: a.Predicate, Object: a.Object, Cardinality: a.Cardinality},
		Origin:  memory.OriginUserAsserted, State: memory.StateUnverified,
		Asserter: memory.Asserter{Principal: r.principal}, Anchor: "user:" + r.principal,
		Sensitivity: a.Sensitivity, Source: "principal", Run: r.id,
	}
	if d.Content.Cardinality == 0 {
		d.Content.Cardinality = memory.CardinalityUnknown
	}
	if d.Sensitivity == 0 {
		d.Sensitivity = memory.SensitivityInternal
	}
	if d.Content.Typed() {
		d.State = memory.StateVerified
		d.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:" + r.principal,
			Verifier: "principal", Group: d.Asserter.Group(), Anchor: memory.Anchor{URI: "run:" + r.id}, At: r.agent.store.Now()}}
	}
	receipt, err := r.agent.write.Principal(ctx, d)
	if err != nil {
		return memory.Receipt{}, fmt.Errorf("agent: assert: %w", err)
	}
	return receipt, nil
}

// Result is what a call that fired gave.
type Result struct {
	Output   json.RawMessage // as the tool returned it
	Rows     []memory.ID     // the rows its output became
	Decision gate.Decision   // the permit it fired on
}

// Call asks the gate, and fires the tool if it permits. It is the only way to
// reach a tool. A call that the gate blocks gives a [*gate.DeniedError], and the
// tool was not called. A tool that failed gives an error that wraps [ErrTool];
// its message became a row of the run like any other output.
//
// What the tool returns becomes rows before the model sees it: a field declared
// authoritative is verified, all else is third-party text, unverified, and
// taints the run.
func (r *Run) Call(ctx context.Context, tool string, args json.RawMessage) (Result, error) {
	return r.CallWithID(ctx, "", tool, args)
}

// CallWithID is Call with the id the model gave the call, kept in the decision.
func (r *Run) CallWithID(ctx context.Context, callID, tool string, args json.RawMessage) (Result, error) {
	if err := r.readyIn(ctx); err != nil {
		return Result{}, err
	}
	if r.isClosed() {
		return Result{}, ErrClosed
	}
	t := r.agent.tools[tool]
	if t == nil {
		// The gate says so, so that the refusal is recorded like any other.
		t = &Tool{name: tool, contract: gate.Contract{Tool: tool, Unknown: true}}
	}
	call, err := r.arguments(t, args)
	if err != nil {
		return Result{}, err
	}
	return r.decide(ctx, parked{tool: t, call: call, callID: callID}, "")
}

// decide asks the gate about a call with canonical arguments, and makes it if it may.
// resumes is the hold that the call was parked in, if it was.
func (r *Run) decide(ctx context.Context, p parked, resumes string) (Result, error) {
	t, call := p.tool, p.call
	canonical := call.args
	now, sinks, unseen := r.inputs(ctx, t, &call)
	d := r.agent.gate.Decide(ctx, gate.Request{
		Contract: t.contract, Args: slices.Clone(canonical), CallID: p.callID,
		Agent: r.agent.name, Run: r.id, Principal: r.principal, Lineage: now.lineage, Sinks: sinks, Choice: r.choice(t), Unseen: unseen,
		Park: t.parks, Resumes: resumes,
	})
	if err := d.Err(); err != nil {
		if d.Parked {
			r.park(d.HoldID, p)
		}
		return Result{Decision: d}, err
	}
	if err := ctx.Err(); err != nil { // who asked has gone since the gate was asked
		if outcomeErr := r.agent.store.RecordOutcome(context.WithoutCancel(ctx), d.ID, memory.OutcomeNotFired); outcomeErr != nil {
			err = errors.Join(err, outcomeErr)
		}
		return Result{Decision: d}, fmt.Errorf("agent: %s was not called: %w", t.name, err)
	}
	if t.call == nil { // a gate that permits what does not exist changes nothing
		return Result{Decision: d}, fmt.Errorf("%w: no tool %q", ErrTool, t.name)
	}
	if len(call.handles) > 0 { // whatever comes back may say what the handle's row says
		t = t.untrusted()
	}
	return r.fire(ctx, t, &call, now, d)
}

// arguments brings arguments to the canonical form, puts what handles stand for in
// their place, and holds them to the schema.
func (r *Run) arguments(t *Tool, args json.RawMessage) (bound, error) {
	canonical, err := gate.Canonical(args)
	if err != nil {
		return bound{}, err
	}
	call, err := r.bind(t, canonical)
	if err != nil || t.resolved == nil {
		return call, err
	}
	var v any
	if err := json.Unmarshal(call.args, &v); err != nil {
		return bound{}, &gate.ArgumentError{Rule: "malformed", Text: "not JSON"}
	}
	if err := t.resolved.Validate(v); err != nil {
		text := clean(err.Error(), 300)
		if len(call.handles) > 0 { // it may quote a row that the model has not read
			text = "what handles stand for does not fit the argument schema, or another argument does not"
		}
		return bound{}, &gate.ArgumentError{Rule: "schema", Text: text}
	}
	return call, nil
}

// fire calls the tool and records how it ended.
func (r *Run) fire(ctx context.Context, t *Tool, call *bound, now snapshot, d gate.Decision) (Result, error) {
	args := call.args
	calling := &calling{run: r, tool: t, ledger: call.feeding(r.ledger)}
	output, callErr := safely(context.WithValue(ctx, callingKey{}, calling), t, slices.Clone(args))
	if calling.end() {
		now = r.ledger.snapshot()
		now.add(call.rows())
	}
	// The call happened: what follows must be recorded even if ctx ends now.
	ctx = context.WithoutCancel(ctx)
	res := Result{Output: output, Decision: d}
	outcome := "fired"
	if callErr != nil {
		outcome = "failed"
		if cut := errors.Is(callErr, context.DeadlineExceeded) || errors.Is(callErr, context.Canceled); cut && !errors.Is(callErr, ErrNoAnswer) {
			callErr = fmt.Errorf("%w: %w", ErrNoAnswer, callErr)
		}
		if errors.Is(callErr, ErrNoAnswer) {
			outcome = memory.OutcomeUnknown
		}
		res.Output = nil // only the message is recorded, so only the message gets out
		output = mustString(clean(callErr.Error(), 2000))
	}
	rows, err := r.record(ctx, t, args, output, callErr != nil, now, d)
	res.Rows = rows
	if err != nil {
		r.ledger.lose("the output of a tool could not be recorded")
		r.agent.opts.Logger.LogAttrs(ctx, slog.LevelError, "tool output not recorded", slog.String("tool", t.name), slog.String("decision", d.ID), slog.Any("error", err))
		outcome += ", output not recorded"
	}
	if outcomeErr := r.agent.store.RecordOutcome(ctx, d.ID, outcome); outcomeErr != nil {
		r.agent.opts.Logger.LogAttrs(ctx, slog.LevelError, "outcome of a call not recorded", slog.String("tool", t.name), slog.String("decision", d.ID), slog.Any("error", outcomeErr))
		err = errors.Join(err, outcomeErr)
	}
	switch {
	case callErr != nil:
		return res, fmt.Errorf("%w: %s: %w", ErrTool, t.name, callErr)
	case err != nil:
		return res, fmt.Errorf("%w: %s ran, and its output could not be recorded: %w", ErrTool, t.name, err)
	}
	return res, nil
}

// safely turns a panic of a tool into its error.
func safely(ctx context.Context, t *Tool, args json.RawMessage) (out json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("panic: %v", p)
		}
	}()
	return t.call(ctx, args)
}
