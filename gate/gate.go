package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

// Store is what the gate reads and records in; [*memory.Store] is one.
type Store interface {
	Fitness(ctx context.Context, ids []memory.ID) (memory.Fitness, error)
	Record(ctx context.Context, r memory.DecisionRecord) error
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	NewDecisionID() string
}

// Mode says whether the gate enforces. The zero value does.
type Mode uint8

// The modes.
const (
	Enforce Mode = iota
	// Observe decides and records as Enforce does, and lets a blocked call fire
	// all the same, except an irreversible one. It is how a team starts.
	Observe
)

// Options of a [Gate].
type Options struct {
	Mode Mode
	// OnBlock hears of the rows that blocked a call, to have them checked first.
	// It must not block. nil = nobody.
	OnBlock func(rows []memory.ID)
	// Logger gets one line a blocked call, without claim text; nil = none.
	Logger *slog.Logger
}

// Gate decides, records and consumes. It is safe for concurrent use.
type Gate struct {
	store  Store
	policy Policy
	opts   Options
}

// New returns a gate over a store and a policy.
func New(store Store, policy Policy, o *Options) (*Gate, error) {
	if store == nil {
		return nil, errors.New("gate: New: no store")
	}
	g := &Gate{store: store, policy: policy}
	if o != nil {
		g.opts = *o
	}
	if g.opts.Logger == nil {
		g.opts.Logger = slog.New(slog.DiscardHandler)
	}
	return g, nil
}

// Mode is the gate's mode.
func (g *Gate) Mode() Mode { return g.opts.Mode }

// redecisions bounds how often a row may move between the reading and the
// recording before the call is denied.
const redecisions = 4

// Decide reads the current state of every row that fed the call, evaluates the
// policy, and records the decision. A permit is consumed by that record: the same
// atom checks that no row moved since it was read (I-7). If one did, Decide
// starts again, and after four times denies. Every fault denies (I-5): store
// down, row missing, deadline, decision not recordable.
func (g *Gate) Decide(ctx context.Context, req Request) Decision {
	ids := slices.Concat(req.Lineage.direct, req.Lineage.ancestors)
	hash := sha256.Sum256(req.Args)
	for range redecisions {
		d, err := g.decide(ctx, &req, ids, hex.EncodeToString(hash[:]))
		if errors.Is(err, memory.ErrConflict) {
			continue
		}
		if err != nil {
			d = g.fault(&req, hex.EncodeToString(hash[:]), err)
		}
		g.tell(ctx, &d)
		return d
	}
	d := g.fault(&req, hex.EncodeToString(hash[:]), errors.New("the rows kept moving"))
	g.tell(ctx, &d)
	return d
}

func (g *Gate) decide(ctx context.Context, req *Request, ids []memory.ID, hash string) (Decision, error) {
	if len(ids) > memory.MaxClosure-1 {
		// More than one batch can check. It is denied without being read.
		d := g.policy.Evaluate(&Request{Contract: req.Contract, CallID: req.CallID, Agent: req.Agent, Run: req.Run, Principal: req.Principal,
			Lineage: Unknown("more rows than can be checked")}, memory.Fitness{})
		d.add(Reason{Code: ClosureTooLarge})
		d.Outcome, d.ID, d.ArgsSHA256 = Deny, g.store.NewDecisionID(), hash
		return d, g.record(ctx, &d, memory.Fitness{})
	}
	f, err := g.store.Fitness(ctx, ids)
	if err != nil {
		return Decision{}, err
	}
	d := g.policy.Evaluate(req, f)
	d.ID, d.ArgsSHA256 = g.store.NewDecisionID(), hash
	if d.Outcome != Permit {
		if g.opts.Mode == Observe && d.Effect != Irreversible && !d.Fault {
			d.Observed = true
		}
		if err := g.explain(ctx, &d); err != nil {
			return Decision{}, err
		}
		if d.Observed {
			d.Outcome = Permit
		}
	}
	return d, g.record(ctx, &d, f)
}

func (g *Gate) record(ctx context.Context, d *Decision, f memory.Fitness) error {
	data, err := json.Marshal(d)
	if err != nil {
		return err
	}
	r := memory.DecisionRecord{ID: d.ID, Tool: d.Tool, Run: d.Run, Fired: d.Outcome == Permit, Epoch: f.Epoch, Data: data}
	r.Rows = make([]memory.Cited, 0, len(f.Heads))
	for i := range f.Heads {
		if f.Heads[i].Revision > 0 {
			r.Rows = append(r.Rows, memory.Cited{Row: f.Heads[i].ID, Revision: f.Heads[i].Revision})
		}
	}
	return g.store.Record(ctx, r)
}

// fault is the decision when none could be made or recorded.
func (g *Gate) fault(req *Request, hash string, err error) Decision {
	detail := "the store failed"
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		detail = "the deadline passed"
	case errors.Is(err, context.Canceled):
		detail = "cancelled"
	case errors.Is(err, memory.ErrClosed):
		detail = "the store is closed"
	}
	effect := g.policy.terms(&req.Contract, g.policy.Tools[req.Contract.Tool]).effect
	return Decision{ID: g.store.NewDecisionID(), Fault: true, Reasons: []Reason{{Code: Undecided, Detail: detail}}, Tool: req.Contract.Tool,
		Effect: effect, CallID: req.CallID, ArgsSHA256: hash, Policy: g.policy.Name + "@" + g.policy.Version,
		Agent: req.Agent, Run: req.Run, Principal: req.Principal}
}

// tell logs a blocked call and heats its rows.
func (g *Gate) tell(ctx context.Context, d *Decision) {
	if d.Outcome == Permit && !d.Observed {
		return
	}
	level, msg := slog.LevelInfo, "tool call blocked"
	switch {
	case d.Fault:
		level = slog.LevelError
	case d.Final(), slices.ContainsFunc(d.Reasons, func(r Reason) bool { return r.Code == LineageUnknown }):
		level = slog.LevelWarn
	}
	if d.Observed {
		msg = "tool call would be blocked"
	}
	g.opts.Logger.LogAttrs(ctx, level, msg, slog.Any("decision", *d))
	if g.opts.OnBlock != nil && len(d.Rows) > 0 {
		ids := make([]memory.ID, 0, len(d.Rows))
		for i := range d.Rows {
			ids = append(ids, d.Rows[i].ID)
		}
		g.opts.OnBlock(ids)
	}
}

// maxExplained bounds the rows a block describes.
const maxExplained = 8

// explain reads the rows that stand against a call and the chains behind them.
// It runs only for calls that are blocked.
func (g *Gate) explain(ctx context.Context, d *Decision) error {
	var ids []memory.ID
	for _, r := range d.Reasons {
		if r.Row != "" && r.Code != RowMissing && !slices.Contains(ids, r.Row) && len(ids) < maxExplained {
			ids = append(ids, r.Row)
		}
	}
	rows, err := g.store.Get(ctx, ids...)
	if err != nil {
		return err
	}
	for i := range rows {
		chain, err := g.chain(ctx, &rows[i])
		if err != nil {
			return err
		}
		d.Rows = append(d.Rows, atFault(&rows[i], chain))
	}
	d.Remedies = g.remedies(d, rows)
	return nil
}

func atFault(r *memory.Row, chain []memory.ID) RowAtFault {
	f := RowAtFault{ID: r.ID, Revision: r.Revision, State: r.State(), Claim: r.Content.String(), At: r.CreatedAt,
		Independent: r.Independent(), Echoes: r.Echoes.Count, Chain: chain}
	switch {
	case r.Asserter.Model != "":
		f.SaidBy, f.Kind = r.Asserter.Model, "model"
	case r.Asserter.Tool != "":
		f.SaidBy, f.Kind = r.Asserter.Tool, "tool"
	default:
		f.SaidBy, f.Kind = r.Asserter.Principal, "user"
	}
	return f
}

// maxChain bounds how far back a block shows where a row came from.
const maxChain = 32

// chain follows the deepest parents from a row to what it was first made from.
func (g *Gate) chain(ctx context.Context, row *memory.Row) ([]memory.ID, error) {
	chain := []memory.ID{row.ID}
	for at := row; len(at.DerivedFrom) > 0 && len(chain) < maxChain; {
		parents, err := g.store.Get(ctx, at.DerivedFrom[:min(len(at.DerivedFrom), maxExplained)]...)
		if err != nil {
			return nil, err
		}
		worst := &parents[0]
		for i := range parents {
			p := &parents[i]
			unfit, worse := p.State() != memory.StateVerified, worst.State() != memory.StateVerified
			if unfit && !worse || unfit == worse && p.Depth > worst.Depth {
				worst = p
			}
		}
		chain = append(chain, worst.ID)
		at = worst
	}
	return chain, nil
}

func (g *Gate) remedies(d *Decision, rows []memory.Row) (out []Remedy) {
	if d.Final() {
		return nil
	}
	for i := range rows {
		r := &rows[i]
		if r.State() == memory.StateVerified {
			continue
		}
		if tool := g.policy.Verifies[r.Content.Predicate]; tool != "" && r.Content.Typed() && tool != d.Tool {
			out = append(out, Remedy{Kind: "call_tool", Tool: tool, Row: r.ID})
		} else if r.State() == memory.StateUnavailableAtWriteTime {
			out = append(out, Remedy{Kind: "wait", Row: r.ID})
		}
		out = append(out, Remedy{Kind: "ask_user", Row: r.ID, Question: "Is it right that " + safeText(r.Content.String(), 160) + "?"},
			Remedy{Kind: "confirm_row", Row: r.ID, By: "person"})
		break // one row at a time; the others follow when this one is mended
	}
	for _, r := range d.Reasons {
		if r.Code == FromNowhere {
			out = append(out, Remedy{Kind: "ask_user", Question: "What should " + safeText(r.Argument, 60) + " be?"})
			break
		}
	}
	return append(out, Remedy{Kind: "go_on_without"})
}
