package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// Run is one conversation or task of one agent. It is safe for concurrent use.
type Run struct {
	agent     *Agent
	id        string
	principal string
	refused   error // why the principal is no name
	ledger    *ledger
	parent    *Run // of a fork

	mu      sync.Mutex
	closed  bool
	firing  int               // calls that are being made, those of forks included
	held    map[string]bool   // the ids of it and of its forks, of which a call was held
	onHold  []onHold          // calls of it and of its forks that were held, oldest first
	lasting bool              // it was saved, and may go on elsewhere
	oneCall bool              // it is for one call of another run, its sender
	doubts  doubts            // calls of which it is not known how they ended
	idle    chan struct{}     // closed when firing gets to 0; nil = nobody waits for it
	waiting map[string]parked // by hold
	sender  [2]string         // agent and run that a token named
	caller  string            // of a delegate's run: the run whose calls it makes
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
	return r.refused
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
	rows, err := r.rows(ctx, ids)
	if err != nil {
		return "", err
	}
	for i := range rows {
		rows[i] = rows[i].For(r.principal)
	}
	if err := r.enter(ctx, rows); err != nil {
		return "", err
	}
	return recall.Instructed(r.agent.store.Now(), rows...), nil
}

// rows reads rows that are to be shown, held against what they were made from.
func (r *Run) rows(ctx context.Context, ids []memory.ID) ([]memory.Row, error) {
	rows, err := r.agent.store.Get(ctx, ids...)
	if err == nil {
		rows, err = recall.Judge(ctx, r.agent.store, rows)
	}
	if err != nil {
		return nil, fmt.Errorf("agent: reading rows: %w", err)
	}
	return rows, nil
}

// enter records that rows reach the context, before the model sees a byte.
func (r *Run) enter(ctx context.Context, rows []memory.Row) error {
	if len(rows) == 0 {
		return nil
	}
	rows = slices.Clone(rows)
	for i := range rows {
		rows[i] = rows[i].For(r.principal)
	}
	ids := idsOf(rows)
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

func idsOf(rows []memory.Row) []memory.ID {
	ids := make([]memory.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	return ids
}

// Recalled is what a recall found. Text is what the model may be given: every
// line with its tag, and the instruction to distrust what is not verified.
type Recalled struct {
	Text string
	Rows []memory.Row
	// Outranked are rows that the policy would show, that speak against a fit row and
	// stand lower than it. They are not in Text, and feed no call but one that has a value
	// of theirs which nothing else gave.
	Outranked []memory.Row

	run  *Run
	text string
}

// By reports whether the run recalled this, and the text is as it was then. Of a text
// that some program has changed or put together it is false.
func (r Recalled) By(run *Run) bool { return run != nil && r.run == run && r.Text == r.text }

// Recall reads memory under the agent's policy. What is rendered, and only that,
// enters the ledger: what speaks against a fit row and stands lower is left out. Confidence, age and the number of reads decide nothing
// about what a row may do later.
func (r *Run) Recall(ctx context.Context, q recall.Query) (Recalled, error) {
	if err := r.readyIn(ctx); err != nil {
		return Recalled{}, err
	}
	q.Principal = r.principal
	res, err := recall.Recall(ctx, r.agent.store, q, r.agent.opts.Recall)
	if err != nil {
		return Recalled{}, fmt.Errorf("agent: recall: %w", err)
	}
	res = res.Settled()
	rows := res.Rows()
	if err := r.enter(ctx, rows); err != nil {
		return Recalled{}, err
	}
	r.ledger.outranked(res.Outranked)
	if r.ledger.unfit(idsOf(rows)) {
		r.ledger.ask(r.asks(q))
	}
	text := recall.Prompt(res)
	return Recalled{Text: text, Rows: rows, Outranked: res.Outranked, run: r, text: text}, nil
}

// Note is something the model wants remembered.
type Note struct {
	// Content is a triple, or free text; never both.
	Content memory.Content
	// Quote is the words that a triple was taken from; "" = none. They become a row of
	// their own that quotes the claim: kept, shown apart from it among what is uncertain,
	// and never verified with it.
	Quote string
	// Subjects are the persons that the note is about, besides the subject of its triple.
	Subjects []string
	// Origin is the label the caller gives. It may only lower: whatever it says, a
	// model's note is model_derived or the re-entry of what was recalled.
	Origin memory.Origin
	// Sensitivity of the content; unset = internal, or that of what was read if
	// higher.
	Sensitivity memory.Sensitivity
	Criticality memory.Criticality // unset is treated as critical
	Kind        memory.Kind
	// Layer says how long the note is for; unset = nobody says. No verifier is asked about
	// what is of the working layer.
	Layer memory.Layer
	// Confidence is kept with the row. It orders nothing and promotes nothing (SR-4.1).
	Confidence float64
	Category   string
}

// Remember writes what the model wants remembered. The row is asserted by the
// agent's model and derived from everything the run has read. A note that
// restates a row the run was served collapses onto that row and adds nothing;
// the receipt says so and names the row. A quote is kept all the same. If its row could
// not be written, there is an error beside the receipt of the claim.
func (r *Run) Remember(ctx context.Context, n Note) (memory.Receipt, error) {
	if err := r.readyIn(ctx); err != nil {
		return memory.Receipt{}, err
	}
	now := r.ledger.snapshot()
	d := memory.Draft{
		Content: n.Content, Origin: n.Origin, State: memory.StateUnverified,
		Asserter:       memory.Asserter{Principal: r.agent.name, Model: r.agent.model.ID, Family: r.agent.model.Family},
		LineageUnknown: now.unknown != "", Sensitivity: n.Sensitivity, Criticality: n.Criticality, Kind: n.Kind, Layer: n.Layer,
		ValueConfidence: n.Confidence, Source: "agent", Category: n.Category, Run: r.id, Subjects: n.Subjects,
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
	switch {
	case r.agent.opts.Down == nil:
		d.LabelOutage = true
	case r.agent.opts.Down(d.Content):
		d.State = memory.StateUnavailableAtWriteTime
	}
	var (
		receipt memory.Receipt
		err     error
	)
	if n.Quote == "" {
		receipt, err = r.agent.write.Model(ctx, d, now.served)
	} else {
		receipt, err = r.agent.write.ModelQuoting(ctx, d, n.Quote, now.served)
	}
	if err != nil {
		return receipt, fmt.Errorf("agent: remember: %w", err)
	}
	return receipt, nil
}

// Assertion is a fact in the principal's own words.
type Assertion struct {
	// Span is a verbatim span of what the principal typed in this run.
	Span string
	// Subject, Predicate and Object make the fact typed; the span is then a row that
	// quotes it. The object must stand in the span as it is, in whole words; of a script that
	// writes no blanks it is therefore the whole span. Subject and predicate are chosen by the
	// program (a form, a slot), never by the model: what a model extracts goes through Remember.
	Subject, Predicate, Object string
	Cardinality                memory.Cardinality
	Sensitivity                memory.Sensitivity // unset = internal
}

// Assert records words of the principal as user_asserted, the only way such a
// row is made (I-13). Words that the principal did not type verbatim are
// [ErrNotTyped]. The row is verified if it is typed and the principal has
// authority over its subject, else unverified.
//
// It is unverified too if the words deny something that the triple does not: likes = football
// is no fact because somebody typed that she does not like football. What stands before them
// in their sentence counts, and what stands behind them up to a comma, a semicolon or the end
// of the sentence. A question verifies nothing, whether it has its mark or begins as one in English,
// German or French ("do I …", "bin ich …", "est-ce que …"). A line break ends no sentence; a blank line
// does. Words with characters that nobody sees, but for those of some emoji, count as ones that
// deny. Words of negation are
// known in English and, one by one, in some other languages; no sentence is understood.
func (r *Run) Assert(ctx context.Context, a Assertion) (memory.Receipt, error) {
	if err := r.readyIn(ctx); err != nil {
		return memory.Receipt{}, err
	}
	if a.Span == "" || !r.ledger.typedSpan(a.Span) || a.Object != "" && !containsWord(a.Span, a.Object) {
		return memory.Receipt{}, ErrNotTyped
	}
	d := memory.Draft{
		Content: memory.Content{Subject: a.Subject, Predicate: a.Predicate, Object: a.Object, Cardinality: a.Cardinality},
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
	write := r.agent.write.Principal
	around, asks := r.ledger.around(a.Span, a.Object)
	denied := asks || slices.ContainsFunc(around, func(said string) bool { return admission.Denies(said, d.Content) })
	if d.Content.Typed() {
		write = func(ctx context.Context, d memory.Draft) (memory.Receipt, error) {
			return r.agent.write.PrincipalQuoting(ctx, d, a.Span)
		}
	}
	switch {
	case !d.Content.Typed():
		d.Content.Text = a.Span
	case !denied:
		d.State = memory.StateVerified
		d.Evidence = []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:" + r.principal,
			Verifier: "principal", Group: d.Asserter.Group(), Anchor: memory.Anchor{URI: "run:" + r.id}, At: r.agent.store.Now()}}
	}
	receipt, err := write(ctx, d)
	if err != nil {
		return receipt, fmt.Errorf("agent: assert: %w", err)
	}
	return receipt, nil
}

// Result is what a call that fired gave.
type Result struct {
	// Output is what the tool returned, written anew if declared fields became rows of their
	// own. Of a call that is held because the run has done it before ([gate.AlreadyDone]) it
	// is what the first one returned, as its rows say it now.
	Output   json.RawMessage
	Rows     []memory.ID   // the rows its output became
	Decision gate.Decision // the permit it fired on
	// Unread is the size of an answer that was longer than [MaxOutput]. Nobody is shown a
	// byte of it; the output says so in its place. 0 means that the output is of the answer.
	Unread int
	// Left is how many bytes of the answer are not in Output, because it is longer than the
	// [AnswerLimit] of the tool. [ToolText] says so in a last line. 0 means that none are.
	Left int
	Note string // the last line; "" if nothing is left out
	// Withheld are the handles that stand in the output for what the tool keeps from the
	// model; see [Withheld]. Their rows are not among Rows.
	Withheld []Handle
	// Pending are the rows that arguments of a read-only call repeat and that nobody has
	// verified (SR-5.5). The call may use them; the model is told by [ToolText], and a
	// front end can show them to the person before anything is done with the answer.
	Pending []memory.ID
}

// Call asks the gate, and fires the tool if it permits. It is the only way to
// reach a tool. A call that the gate blocks gives a [*gate.DeniedError], and the
// tool was not called. A tool that failed gives an error that wraps [ErrTool];
// its message became a row of the run like any other output. One that ran, and of
// which nothing could be recorded, gives [ErrUnrecorded]: it did not fail.
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
	told, toldOf := r.doubts.told(t, canonical)
	pending := r.pending(sinks) // before the answer may say otherwise
	d := r.agent.gate.Decide(ctx, gate.Request{
		Contract: t.contract, Args: slices.Clone(canonical), CallID: p.callID,
		Agent: r.agent.name, Run: r.id, Principal: r.principal, Lineage: now.lineage, Sinks: sinks, Choice: r.choice(t), Unseen: unseen, Newer: now.newer, Reads: r.agent.reads, Spoken: r.ledger.spoken(),
		Park: t.parks, Resumes: resumes, SentBy: r.sentBy(), Within: nested(ctx, t, canonical), Told: told, ToldOf: toldOf,
		Writes: r.writes(t, canonical),
	})
	r.decided(&p, &d)
	if err := d.Err(); err != nil {
		if d.Outcome == gate.Hold {
			r.waits()
		}
		if d.Parked {
			r.park(d.HoldID, p)
		}
		return r.blocked(ctx, d), err
	}
	r.answered(ctx, &d)
	if err := ctx.Err(); err != nil { // who asked has gone since the gate was asked
		if outcomeErr := r.agent.store.RecordOutcome(context.WithoutCancel(ctx), d.ID, memory.CallNotMade, ""); outcomeErr != nil {
			err = errors.Join(err, outcomeErr)
		}
		return Result{Decision: d}, fmt.Errorf("agent: %s was not called: %w", t.name, err)
	}
	if !r.begin() { // it was closed since the gate was asked
		err := ErrClosed
		if outcomeErr := r.agent.store.RecordOutcome(context.WithoutCancel(ctx), d.ID, memory.CallNotMade, ""); outcomeErr != nil {
			err = errors.Join(err, outcomeErr)
		}
		return Result{Decision: d}, fmt.Errorf("agent: %s was not called: %w", t.name, err)
	}
	defer r.end()
	if t.call == nil { // a gate that permits what does not exist changes nothing
		return Result{Decision: d}, fmt.Errorf("%w: no tool %q", ErrTool, t.name)
	}
	if len(call.handles) > 0 { // whatever comes back may say what the handle's row says
		t = t.untrusted()
	}
	res, err := r.fire(ctx, t, &call, now, d)
	if d.Effect == gate.ReadOnly {
		res.Pending = pending
	}
	return res, err
}

// blocked is what a blocked call gives. If the same call was done before, it is told what
// that one returned, as far as its rows can still be shown.
func (r *Run) blocked(ctx context.Context, d gate.Decision) Result {
	res := Result{Decision: d}
	if len(d.Answer) == 0 {
		return res
	}
	rows, err := r.rows(ctx, d.Answer)
	if err != nil {
		return res
	}
	rows = slices.DeleteFunc(rows, func(row memory.Row) bool {
		return row.Security != memory.SecurityClean || row.Retrieval != memory.RetrievalNormal
	})
	if len(rows) == 0 || r.enter(ctx, rows) != nil {
		return res
	}
	r.ledger.overtaken(rows)
	lines := make([]string, len(rows))
	for i := range rows {
		lines[i] = rows[i].Content.String()
	}
	res.Output, res.Rows = mustString(strings.Join(lines, "\n")), idsOf(rows)
	return res
}

// answeredReads is what it counts that a source has just said what a row says: as much as a
// blocked call.
const answeredReads = 100

// answered tells whoever orders checks of the rows that wait while a fit row of the run says
// the same. A worker that asks the source itself would verify them; the run's copy moves
// none of them.
func (r *Run) answered(ctx context.Context, d *gate.Decision) {
	if r.agent.opts.Reads == nil {
		return
	}
	var ids []memory.ID
	for _, reason := range d.Reasons {
		if reason.Code == gate.UnverifiedInput && reason.Outcome == gate.Permit {
			ids = append(ids, reason.Row)
		}
	}
	if len(ids) > 0 {
		r.agent.opts.Reads.ObserveReads(ctx, ids, answeredReads)
	}
}

// arguments brings arguments to the canonical form, puts what handles stand for in
// their place, and holds them to the schema.
func (r *Run) arguments(t *Tool, args json.RawMessage) (bound, error) {
	canonical, err := gate.Canonical(args)
	if err != nil {
		return bound{}, err
	}
	call, err := r.bind(t, canonical)
	if err != nil || t.arguments == nil {
		return call, err
	}
	var v any
	if err := json.Unmarshal(call.args, &v); err != nil {
		return bound{}, &gate.ArgumentError{Rule: "malformed", Text: "not JSON"}
	}
	if !t.arguments.affordable(v) {
		return bound{}, &gate.ArgumentError{Rule: "schema", Text: "it would take too long to hold them to the argument schema"}
	}
	if err := t.arguments.resolved.Validate(v); err != nil {
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
	begun := r.doubts.begin()
	asked, markErr := r.mark(ctx, t, args)
	if markErr != nil { // what it says may be older than what is verified meanwhile
		t = t.untrusted()
	}
	calling := &calling{run: r, tool: t, args: args, ledger: call.feeding(r.ledger), outer: callingIn(ctx)}
	output, callErr := safely(context.WithValue(ctx, callingKey{}, calling), t, slices.Clone(args))
	cut := ctx.Err() != nil || noAnswer(callErr)
	if p := (*panicError)(nil); d.Effect != gate.ReadOnly && errors.As(callErr, &p) { // what it had done by then nobody knows
		cut = true
	}
	if calling.end() { // what it gave may be what a run was told: no record of its own
		now, t = r.ledger.snapshot(), t.untrusted()
		now.add(call.rows())
	}
	// The call happened: what follows must be recorded even if ctx ends now.
	ctx = context.WithoutCancel(ctx)
	res := Result{Output: output, Decision: d}
	outcome, note := memory.CallDone, ""
	unread := false // the output is the runtime's word in place of the answer
	if lost := (*unwrittenError)(nil); errors.As(callErr, &lost) {
		callErr, output, unread = nil, mustString(lost.Error()), true
		res.Output = output
	}
	if callErr == nil && len(output) > MaxOutput {
		res.Unread, output, unread = len(output), mustString(tooLong("answer", len(output))), true
	}
	closed := wordless(callErr) ||
		callErr != nil && slices.Contains(d.Loosened, "error_texts") && slices.Contains(t.contract.ErrorTexts, callErr.Error())
	if callErr != nil {
		callErr = short(callErr)
		outcome = memory.CallFailed
		if cut && !errors.Is(callErr, ErrNoAnswer) && !errors.Is(callErr, ErrNotCalled) {
			callErr = fmt.Errorf("%w: %w", ErrNoAnswer, callErr)
		}
		if errors.Is(callErr, ErrNoAnswer) {
			outcome = memory.CallUnknown
		}
		res.Output = nil                        // only the message is recorded, so only the message gets out
		output = mustString(errorLine(callErr)) // the very line that a model is shown
	}
	got, err := r.record(ctx, t, args, output, callErr != nil || unread, closed, now, asked, questions(t, call), d)
	if res.Rows, res.Withheld = got.rows, got.withheld; callErr == nil {
		res.Output, res.Left, res.Note = got.shown, got.left, got.note
	}
	if err != nil || r.ledger.unfit(got.rows) {
		r.ledger.ask(questions(t, call))
	}
	if d.Unvouched() { // one that failed may have made it all the same
		err = errors.Join(err, r.agent.store.RecordWrites(ctx, d.ID, t.made(args, decode(output))))
	}
	kept := err == nil
	if !kept {
		r.ledger.lose("the output of a tool could not be recorded")
		r.agent.opts.Logger.LogAttrs(ctx, slog.LevelError, "tool output not recorded", slog.String("tool", t.name), slog.String("decision", d.ID), slog.Any("error", err))
		note = "output not recorded"
	}
	if outcomeErr := r.agent.store.RecordOutcome(ctx, d.ID, outcome, note, got.rows...); outcomeErr != nil {
		r.agent.opts.Logger.LogAttrs(ctx, slog.LevelError, "outcome of a call not recorded", slog.String("tool", t.name), slog.String("decision", d.ID), slog.Any("error", outcomeErr))
		err = errors.Join(err, outcomeErr)
		outcome = memory.CallUnknown
	}
	r.doubts.ended(t, args, d.ID, outcome == memory.CallUnknown)
	r.doubts.read(r.ledger, got.rows, begun)
	switch {
	case err != nil, errors.Is(callErr, ErrNoAnswer) && d.Effect != gate.ReadOnly:
		return res, &doubtError{tool: t.name, effect: d.Effect, failed: callErr, cause: err, kept: kept}
	case callErr != nil:
		return res, fmt.Errorf("%w: %s: %w", ErrTool, t.name, callErr)
	}
	return res, nil
}

// wordless reports whether an error of a tool is a sentinel as it is: nobody wrote its text but
// this module or Go's, so that there is nothing to record and nothing to rest on.
func wordless(err error) bool {
	return slices.Contains([]error{ErrNoAnswer, ErrNotCalled, context.Canceled, context.DeadlineExceeded}, err)
}

// noAnswer reports whether an error of a tool says nothing of what was done: it was cut off,
// or its connection was, or its process was killed, or what it called gave no answer. An end
// of file may be a connection that was closed before the answer. Of several errors one is
// enough: a tool that tried twice may have been refused once and cut off once.
func noAnswer(err error) bool {
	if err == nil || errors.Is(err, ErrNotCalled) {
		return false
	}
	for _, lost := range []error{ErrUnrecorded, context.Canceled, context.DeadlineExceeded, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, lost) {
			return true
		}
	}
	return lostIn(err)
}

// lostIn reports whether an error, or one that it wraps, is of a connection or a process that
// ended before its answer. errors.As looks at the first of a kind only.
func lostIn(err error) bool {
	switch e := err.(type) {
	case nil:
		return false
	case interface{ Timeout() bool }:
		if e.Timeout() {
			return true
		}
	}
	if e, is := err.(interface{ Exited() bool }); is && !e.Exited() { // exec.ExitError
		return true
	}
	if e, is := err.(*net.OpError); is && e.Op == "read" {
		return true
	}
	if brokenHTTP(err) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return lostIn(e.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), lostIn)
	}
	return false
}

// streamError is net/http's error of a stream of HTTP/2 that was reset. Its own type is not
// exported, and is set into one with the same fields.
type streamError struct {
	StreamID, Code uint32
	Cause          error
}

func (streamError) Error() string { return "a stream was reset" }

// refusedStream is REFUSED_STREAM: the server has not begun (RFC 9113, 8.7).
const refusedStream = 7

// brokenHTTP reports whether an error is one of net/http's of a connection that ended after the
// request was sent, or may have. Most of them have no type.
func brokenHTTP(err error) bool {
	var reset streamError
	if e, is := err.(interface{ As(any) bool }); is && e.As(&reset) {
		return reset.Code != refusedStream
	}
	text := err.Error()
	return slices.ContainsFunc([]string{
		"http2: server sent GOAWAY", "http2: client connection", "http2: response body closed", "http: server closed idle connection",
		"net/http: HTTP/1.x transport connection broken", "net/http: timeout", "stream error: stream ID",
	}, func(known string) bool { return strings.HasPrefix(text, known) }) && !strings.Contains(text, "REFUSED_STREAM")
}

// safely turns a panic of a tool into its error.
func safely(ctx context.Context, t *Tool, args json.RawMessage) (out json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, &panicError{p}
		}
	}()
	return t.call(ctx, args)
}

// panicError is of a tool that panicked with a value.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// Unwrap returns the value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}
