package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Store is what a gate needs of a store; [*memory.Store] is one. It must be safe
// for concurrent use. Record must consume a permit in one transaction (I-7). In it, either
// every cited row is at the cited fitness version, or nothing was taken from any row since the
// record's fence was looked at. Else Record writes nothing and gives an error that is
// [memory.ErrConflict]. Now must be the clock that it holds
// limits of time against.
type Store interface {
	Now() time.Time
	// FitnessFor must read the heads of the rows, and in the same trip the mark of an act,
	// unless act is zero. slot is of the call that is about to be made.
	FitnessFor(ctx context.Context, ids []memory.ID, act, slot memory.Digest) (memory.Fitness, error)
	Record(ctx context.Context, r memory.DecisionRecord) error
	// RecordOutcome must note how a call ended that a record let through, or give
	// [memory.ErrNotFound] if there is no such record.
	RecordOutcome(ctx context.Context, decision string, outcome memory.CallOutcome, note string, answer ...memory.ID) error
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	NewDecisionID() string
	Calls
}

// Speakers is what a [Store] is too whose heads say whose own word moved them;
// [*memory.Store] is one. Of any other nobody's own word counts.
type Speakers interface {
	// Speaker must give the token that heads have for the own word of a principal.
	Speaker(principal string) memory.Token
}

// Lines is what a [Store] is too that knows what calls set in systems of record;
// [*memory.Store] is one. It is asked to explain a block, and decides nothing here.
type Lines interface {
	MarkLines(ctx context.Context, contents ...memory.Content) ([]memory.LineMark, error)
}

// Defaults of [Options].
const (
	DefaultHoldFor = time.Hour
	DefaultTimeout = 5 * time.Second
)

// Options of a [Gate]. Every zero field has a usable default.
type Options struct {
	Mode Mode // Enforce by default
	// OnBlock hears of the rows that a call fell over, so that they are checked
	// soon: a blocked call is the hottest read there is. It must not block; ctx is that of
	// the decision, and may end with it.
	OnBlock func(ctx context.Context, ids []memory.ID)
	// HoldFor is how long a hold may be released; 0 = one hour.
	HoldFor time.Duration
	// ParkFor is how long a parked call may fire by itself; 0 = 15 minutes.
	ParkFor time.Duration
	// Approvals verifies what a person signed to let one held call through; nil: no
	// approval counts.
	Approvals Approvals
	// Unattended says that no word of a user reaches the calls that the gate decides, as
	// behind a proxy: a block then advises nobody to ask for one.
	Unattended bool
	// Timeout bounds one decision; past it the call is denied. 0 = 5 s. Where its record may have
	// been written too late, up to half a second more goes by until that is taken back.
	Timeout time.Duration
	// Logger gets one line a decision, without content of rows or arguments: a
	// permit at DEBUG, a block and its release at INFO, policy_never, lineage_unknown
	// and approval_forged at WARN, undecided at ERROR. nil = none.
	Logger *slog.Logger
}

// Gate decides about tool calls. It is safe for concurrent use. The zero Gate denies
// everything.
type Gate struct {
	store  Store
	policy Policy
	label  string
	rules  memory.Digest // of the policy
	opts   Options
	memo   *memo
}

// New returns a gate over a store, with a copy of the policy. It refuses a policy
// that contradicts itself and a mode that is none.
func New(store Store, policy Policy, o *Options) (*Gate, error) {
	if store == nil {
		return nil, errors.New("gate: New: no store")
	}
	if err := policy.check(); err != nil {
		return nil, err
	}
	g := &Gate{store: store, policy: policy.clone(), label: policy.String(), rules: rulesOf(&policy), memo: &memo{}}
	if o != nil {
		g.opts = *o
	}
	if g.opts.Mode > Observe {
		return nil, fmt.Errorf("gate: New: mode %d is none", uint8(g.opts.Mode))
	}
	if g.opts.HoldFor < 0 || g.opts.ParkFor < 0 || g.opts.Timeout < 0 {
		return nil, errors.New("gate: New: a negative duration")
	}
	if g.opts.HoldFor == 0 {
		g.opts.HoldFor = DefaultHoldFor
	}
	if g.opts.ParkFor == 0 {
		g.opts.ParkFor = DefaultParkFor
	}
	if g.opts.Timeout == 0 {
		g.opts.Timeout = DefaultTimeout
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// Mode is what the gate does with its decisions, for a readiness page.
func (g *Gate) Mode() Mode { return g.opts.Mode }

// A permit whose rows moved before it was consumed is decided anew, first at once and then
// after a pause. It is decided so often at least, and goes on for half of the time that the
// decision has: workers may be verifying its rows one after the other. The other half is
// for recording the denial.
const (
	leastAttempts = 4
	movingPause   = 20 * time.Millisecond // the longest
)

// rest pauses before a permit is decided once more: not at all at first, then for a random
// time that grows to [movingPause]. It reports whether there is time for another attempt.
func rest(ctx context.Context, attempt int, until time.Time) bool {
	if attempt < leastAttempts {
		return true
	}
	if !time.Now().Before(until) {
		return false
	}
	longest := min(movingPause, time.Millisecond<<min(attempt-leastAttempts, 10))
	t := time.NewTimer(rand.N(longest))
	defer t.Stop()
	select {
	case <-ctx.Done(): // the next read says so
	case <-t.C:
	}
	return true
}

// Decide judges a call by the states its rows have now, and records the decision.
// A permit that it returns has been consumed: every row was still at the fitness
// version it was judged on in the transaction that recorded the fire intent (I-7). If a
// row moved in between, the call is judged anew. A call whose rows do not stop moving for
// half of [Options.Timeout], or of the time that ctx leaves, is denied.
//
// It returns no error: whatever goes wrong, a deadline and a record that could
// not be written included, is a denial with Fault set (I-5). A decision that
// blocks says which rows it fell over, how they got there and what would help.
func (g *Gate) Decide(ctx context.Context, req Request) Decision {
	if g == nil || g.store == nil {
		d := Decision{Tool: req.Contract.Tool, Effect: req.Contract.Effect.floor(), BlastRadius: req.Contract.BlastRadius.widest(), Retry: RetryLater}
		d.fail(errors.New("gate: not built with New"))
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.Timeout)
	defer cancel()
	d, f := g.decide(ctx, &req)
	if d.Blocked() || d.Observed {
		g.explain(ctx, &d, &req, f)
		if ids := rowIDs(d.Reasons); g.opts.OnBlock != nil && len(ids) > 0 {
			g.opts.OnBlock(ctx, ids)
		}
	}
	g.log(ctx, &d)
	return d
}

func (g *Gate) log(ctx context.Context, d *Decision) {
	msg := "tool call permitted"
	switch {
	case d.Fault:
		msg = "tool call not decided, so denied"
	case d.Outcome == Hold:
		msg = "tool call held"
	case d.Blocked():
		msg = "tool call denied"
	case d.HoldID != "":
		msg = "tool call released"
	case d.Observed:
		msg = "tool call would be blocked; the gate only observes"
	}
	if level := d.level(); g.opts.Logger.Enabled(ctx, level) {
		g.opts.Logger.LogAttrs(ctx, level, msg, d.LogValue().Group()...)
	}
}

// decide reads, judges and records until a decision stands. ctx has a deadline.
func (g *Gate) decide(ctx context.Context, req *Request) (d Decision, f memory.Fitness) {
	invalid := g.prepare(req)
	req.speaker = memory.Token{}
	if s, ok := g.store.(Speakers); ok && req.Principal != "" {
		req.speaker = s.Speaker(req.Principal)
	}
	deadline, _ := ctx.Deadline()
	until := time.Now().Add(time.Until(deadline) / 2)
	id := g.store.NewDecisionID()
	d, f, err := g.again(ctx, req, id, invalid)
	if err == nil {
		return d, f
	} else if !errors.Is(err, errLook) {
		return g.undecided(ctx, req, invalid, err)
	}
	cause, marked := errMoving, errors.Is(err, memory.ErrConflict) // it may be its own mark
	var lost lostRows
	for attempt := 0; rest(ctx, attempt, until); attempt++ {
		if f, err = g.fitness(ctx, req); err != nil {
			cause = err
			break
		}
		lost.mark(f)
		d = g.judge(req, f, id, invalid)
		step, err := g.stand(ctx, &d, req, f, attempt > 0 || marked)
		if err != nil {
			cause = err
			break
		}
		if err = g.record(ctx, &d, req, f, step, false); err == nil {
			if !d.Blocked() && !d.Observed {
				g.memo.keep(req.Run, req.Lineage.ids(), f)
			}
			return d, f
		}
		switch {
		case lost.more(err, f):
			attempt-- // nothing moved
		case errors.Is(err, memory.ErrExpired):
			cause = errExpired
		case errors.Is(err, memory.ErrConflict):
			cause = errMoving
		default:
			return g.undecided(ctx, req, invalid, fmt.Errorf("gate: the decision could not be recorded: %w", err))
		}
	}
	return g.undecided(ctx, req, invalid, cause)
}

// lostRows are the rows whose keys are missing, by class and by name: nobody can read what
// they say, so that they count as damaged.
type lostRows struct {
	rows    map[memory.ID]bool
	classes map[memory.Class]bool
}

// more hears why a decision could not be recorded. It reports whether that is a row which
// was not known to be lost.
func (l *lostRows) more(err error, f memory.Fitness) bool {
	var one *memory.UnreadableError
	if !errors.As(err, &one) || l.rows[one.Row] {
		return false
	}
	i := slices.IndexFunc(f.Heads, func(h memory.Head) bool { return h.ID == one.Row })
	if i < 0 || f.Heads[i].Has(memory.FlagDamaged) {
		return false
	}
	if l.rows == nil {
		l.rows, l.classes = map[memory.ID]bool{}, map[memory.Class]bool{}
	}
	l.rows[one.Row], l.classes[f.Heads[i].Class] = true, true
	return true
}

// mark puts a damaged head in the place of each lost row, as one that is not what was
// written has.
func (l *lostRows) mark(f memory.Fitness) {
	if len(l.rows) == 0 {
		return
	}
	for i := range f.Heads {
		if h := &f.Heads[i]; h.Revision > 0 && (l.rows[h.ID] || l.classes[h.Class]) {
			*h = memory.Head{ID: h.ID, Flags: memory.FlagDamaged}
		}
	}
}

// errLook says that the rows have to be read.
var errLook = errors.New("gate: the rows have to be read")

// again permits a call on what is remembered of its rows, if nothing was taken from
// any of them since. Nothing else comes from what is remembered: a call that would be
// blocked is judged on its rows as they are now.
func (g *Gate) again(ctx context.Context, req *Request, id string, invalid error) (d Decision, f memory.Fitness, err error) {
	f, ok := g.remembered(ctx, req)
	if !ok {
		return d, f, errLook
	}
	if d = g.judge(req, f, id, invalid); d.Blocked() || d.Observed {
		return d, f, errLook
	}
	step, err := g.stand(ctx, &d, req, f, false)
	if err != nil || d.Blocked() {
		return d, f, errLook
	}
	switch err := g.record(ctx, &d, req, f, step, true); {
	case err == nil:
		return d, f, nil
	case errors.Is(err, memory.ErrConflict), errors.Is(err, memory.ErrExpired), errors.Is(err, memory.ErrErased), isUnreadable(err):
		g.memo.forget(req.Run)
		return d, f, fmt.Errorf("%w: %w", errLook, err)
	default:
		return d, f, fmt.Errorf("gate: the decision could not be recorded: %w", err)
	}
}

// isUnreadable reports whether a row that a decision cites cannot be read.
func isUnreadable(err error) bool {
	var one *memory.UnreadableError
	return errors.As(err, &one)
}

// undecided denies by fault.
func (g *Gate) undecided(ctx context.Context, req *Request, invalid, cause error) (d Decision, f memory.Fitness) {
	// What was judged does not count any more. The denial is recorded if that can
	// be done, by an id of its own: whether the first record was written may not be
	// known.
	d = g.judge(req, f, g.store.NewDecisionID(), invalid)
	d.fail(cause)
	if err := g.record(ctx, &d, req, f, nil, false); err != nil && !errors.Is(cause, err) {
		d.cause = errors.Join(cause, err)
	}
	return d, f
}

// prepare makes the request the gate's own: nobody changes it while it is judged.
func (g *Gate) prepare(req *Request) (invalid error) {
	canonical, err := Canonical(req.Args)
	if err == nil && len(req.Args) > 0 && string(canonical) != string(req.Args) {
		err = &ArgumentError{Rule: "malformed", Text: "not in the canonical form"}
	}
	if err != nil {
		return err
	}
	req.Args = canonical
	if g.policy.Tools[req.Contract.Tool].AllSinks {
		req.Contract.Optional = nil
	}
	if req.Contract.Precision == TypedSinks { // the arguments say what is given, not the caller
		if _, given := req.Contract.GivenSinks(canonical); !given {
			req.Contract.Precision = WholeRun
		}
	}
	req.Sinks = slices.Concat(req.Sinks, unspoken(&req.Contract, canonical, req.Sinks), unspokenTargets(&req.Contract, canonical, req.Sinks))
	return nil
}

// fitness reads the rows in one trip.
func (g *Gate) fitness(ctx context.Context, req *Request) (memory.Fitness, error) {
	if err := ctx.Err(); err != nil {
		return memory.Fitness{}, err
	}
	if req.Lineage.len() > MaxLineage {
		return memory.Fitness{}, nil // Evaluate denies it unseen
	}
	var act, slot memory.Digest
	if t := tighten(&req.Contract, g.policy.Tools[req.Contract.Tool], time.Time{}); t.effect == Irreversible {
		act, slot = actOf(req), slotOf(req)
	}
	return g.store.FitnessFor(ctx, req.Lineage.ids(), act, slot)
}

// judge evaluates and says what the gate adds: names, the mode, how to go on.
func (g *Gate) judge(req *Request, f memory.Fitness, id string, invalid error) Decision {
	d := g.policy.Evaluate(req, f)
	hash := sha256.Sum256(req.Args)
	d.ID, d.Policy, d.ArgsSHA256, d.Schema = id, g.label, hex.EncodeToString(hash[:]), req.Contract.Schema
	d.Loosened = req.Contract.Loosened(g.policy.Tools[req.Contract.Tool])
	if invalid != nil {
		r := Reason{Code: ArgumentsInvalid}
		var a *ArgumentError
		if errors.As(invalid, &a) {
			r.Argument, r.Detail = a.Pointer, a.Rule
		}
		d.add(r)
		order(d.Reasons)
	}
	if d.Blocked() && g.opts.Mode == Observe && d.observable() {
		d.Outcome, d.Observed = Permit, true
	}
	switch {
	case !d.Blocked():
		d.Consumed, d.Epoch = cited(req.Lineage, f), f.Epoch
	case d.Fault:
		d.Retry = RetryLater
	case d.primary().Code == PolicyNever:
		d.Retry = RetryNever
	default:
		d.Retry = RetryNeverAsIs
	}
	return d
}

// observable reports whether the gate, observing, lets fire what it would have
// blocked: only the state of rows spoke against it, and it can be put back.
func (d *Decision) observable() bool {
	if d.Fault || d.Effect == Irreversible {
		return false
	}
	for _, r := range d.Reasons {
		switch r.Code {
		case Undecided, PolicyNever, ToolNotNamed, BlastTooWide, ArgumentsInvalid, ClosureTooLarge, RowMissing, RowDamaged:
			return false
		}
	}
	return true
}

// cited are the rows at the fitness versions they were judged on.
func cited(l Lineage, f memory.Fitness) []memory.Cited {
	var out []memory.Cited
	for i, id := range l.ids() {
		c := memory.Cited{Row: id}
		if i < len(f.Heads) && f.Heads[i].Revision > 0 {
			c = f.Heads[i].Cite()
		}
		out = append(out, c)
	}
	return out
}

// record writes the decision with the rows it cites (LS-22), and consumes it if
// it fires. fenced says that the rows were read before, so that in place of them the
// fence is checked.
func (g *Gate) record(ctx context.Context, d *Decision, req *Request, f memory.Fitness, step *memory.CallStep, fenced bool) error {
	r := memory.DecisionRecord{ID: d.ID, Tool: clip(d.Tool), Run: clip(d.Run), Fired: !d.Blocked(), Epoch: f.Epoch, Call: step}
	if fenced {
		r.Fence = &f.Fence
	}
	for _, c := range cited(req.Lineage, f) {
		if c.Row.Valid() && len(r.Rows) < MaxLineage { // what is no id names no row
			r.Rows = append(r.Rows, c)
		}
	}
	if r.Fired && d.Binding.IsZero() { // nothing stands against it, or it is only observed
		d.Binding = g.binding(slotOf(req), req, f, nil)
	}
	if r.Fired {
		r.Writes, r.Unvouched, r.UnvouchedMore = d.ownWrites(req)
		d.unvouched = len(r.Writes) > 0
	}
	// The rows are cited already, and their content is not explained yet: the record holds
	// none, and no words of a person (a record outlives an erasure of what they are about).
	skeleton := *d
	skeleton.Consumed, skeleton.Words = nil, ""
	data, err := skeleton.MarshalJSON()
	if err != nil {
		return err
	}
	r.Data = data
	err = g.consume(ctx, d, r, f)
	if r.Fired && err != nil && !errors.Is(err, memory.ErrConflict) && !errors.Is(err, memory.ErrExpired) && !errors.Is(err, memory.ErrErased) && !isUnreadable(err) {
		g.unfired(ctx, r.ID)
	}
	return err
}

// maxUnvouched is how many rows are named that a write rests on and that are not fit.
const maxUnvouched = 16

// ownWrites are what a call that fires sets in systems of record, where the values come from
// what is not fit, and the rows at fault: a person approved the call and vouches for no
// row, the gate only observes, or the value is no sink and anything of the run may have given
// it (I-4). Of a call that rests on fit rows it is nothing.
func (d *Decision) ownWrites(req *Request) (writes []memory.OwnWrite, rows []memory.ID, more bool) {
	excused := false
	name := func(id memory.ID) {
		switch {
		case !id.Valid():
			more = true
		case slices.Contains(rows, id):
		case len(rows) < maxUnvouched:
			rows = append(rows, id)
		default:
			more = true
		}
	}
	if d.Approval != nil || d.Observed {
		for i := range d.Reasons {
			if r := &d.Reasons[i]; r.Code.taints() {
				excused = true
				if r.Code != FromNowhere { // what came from nowhere came from no row
					name(r.Row)
				}
			}
		}
	}
	for i := range req.Writes {
		w := &req.Writes[i]
		judged := d.Precision == TypedSinks && slices.ContainsFunc(req.Sinks, func(s Sink) bool { return s.Pointer == w.Pointer })
		if excused || len(d.beside) > 0 && !judged {
			writes = append(writes, w.OwnWrite)
		}
	}
	for _, id := range d.beside {
		name(id)
	}
	if len(writes) == 0 {
		return nil, nil, false
	}
	return writes, rows, more
}

// consume writes the record, within the time that a permit has.
func (g *Gate) consume(ctx context.Context, d *Decision, r memory.DecisionRecord, f memory.Fitness) error {
	if !r.Fired || d.Observed || d.until.IsZero() { // what is observed may have ended already
		return g.store.Record(ctx, r)
	}
	// A row that the clock makes unfit moves no revision: the permit ends with it.
	// The store holds the limit against its clock when it begins to record, and a
	// record that took too long consumes nothing.
	r.NotAfter = d.until
	left := d.until.Sub(f.Now)
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if err := g.store.Record(limited, r); err != nil {
		return err
	}
	if time.Since(start) >= left {
		return errExpired
	}
	return nil
}

// unfiredWithin is how long a record that was too late, or failed, is waited for, so
// that it can be said to have fired nothing.
const unfiredWithin = 500 * time.Millisecond

// unfired notes that a call is not made whose record may have been written, or may be
// yet: who waits for the outcomes of what was let through would wait for it. A record
// that comes later still is one of a call without an outcome, as if its process had died.
func (g *Gate) unfired(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unfiredWithin)
	defer cancel()
	for pause := firstPause; ; pause *= 2 {
		err := g.store.RecordOutcome(ctx, id, memory.CallNotMade, "")
		if err == nil {
			return
		}
		t := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			t.Stop()
			g.opts.Logger.LogAttrs(ctx, slog.LevelWarn, "a call was not made; whether it is recorded as let through is not known", slog.String("block", id), slog.Any("error", err))
			return
		case <-t.C:
		}
	}
}

// clip keeps a name storable.
func clip(s string) string {
	if len(s) > memory.MaxField {
		s = s[:memory.MaxField]
	}
	return s
}

// fail makes a decision a denial by fault. What it would have consumed it does
// not.
func (d *Decision) fail(cause error) {
	d.Outcome, d.Fault, d.Observed, d.cause = Deny, true, false, cause
	d.Consumed, d.Epoch, d.Binding, d.ExpiresAt, d.Retry = nil, 0, memory.Digest{}, time.Time{}, RetryLater
	d.HoldID, d.Approval, d.Parked = "", nil, false
	d.Reasons = slices.DeleteFunc(d.Reasons, func(r Reason) bool { return r.Code == Undecided })
	d.Reasons = append(d.Reasons, Reason{Code: Undecided, Detail: fault(cause)})
	order(d.Reasons)
}

// fault says a fault in words that hold nothing of the store's own text.
func fault(cause error) string {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return "the deadline passed"
	case errors.Is(cause, context.Canceled):
		return "cancelled"
	case errors.Is(cause, errMoving):
		return "its rows kept changing"
	case errors.Is(cause, memory.ErrExpired), errors.Is(cause, errExpired):
		return "a row expired while it was recorded"
	case errors.Is(cause, memory.ErrClosed):
		return "the store is closed"
	}
	return "the store failed"
}

var (
	errMoving  = errors.New("gate: the rows kept changing while they were judged")
	errExpired = errors.New("gate: a row expired while the permit was consumed")
)

// rowIDs are the rows that reasons are about and that block, each once, in order.
func rowIDs(reasons []Reason) []memory.ID {
	var out []memory.ID
	seen := map[memory.ID]bool{}
	for _, r := range reasons {
		if r.Row != "" && r.Outcome != Permit && !seen[r.Row] {
			seen[r.Row] = true
			out = append(out, r.Row)
		}
	}
	return out
}
