package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/admission"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// Errors of this package. A denial is a [*gate.DeniedError] of package gate.
var (
	// ErrNotBuilt: the agent is a zero Agent; it can do nothing. Use New.
	ErrNotBuilt = errors.New("agent: not built with New")
	// ErrNotTyped: the words are not a verbatim span of what the principal typed
	// in this run (I-13).
	ErrNotTyped = errors.New("agent: not in the principal's typed words")
	// ErrTool: the tool was called, and gave an error or [ErrUnrecorded].
	ErrTool = errors.New("agent: tool failed")
	// ErrUnrecorded: the tool ran, and what came of it could not be recorded. It was done,
	// or may have been, so it must not be repeated; the gate holds the same call until it is
	// known how it ended. [ErrTool] holds too.
	ErrUnrecorded = errors.New("agent: the tool ran, and what came of it could not be recorded")
	// ErrNoAnswer: the tool was called and gave no answer, so that it may have done what
	// it was asked to; [ErrTool] holds too, and the outcome is recorded as unknown. A tool
	// function that does not know how it ended returns or wraps it. Words that are wrapped with
	// it are an input of later calls, like any answer of the tool. The error of a context that
	// ended counts as it.
	ErrNoAnswer = errors.New("no answer, so it may have been done")
	// ErrNotCalled: the tool function did nothing; [ErrTool] holds too. A tool function wraps
	// it that gave up before it began: its error then leaves no doubt, also if the context of
	// the call has ended.
	ErrNotCalled = errors.New("the call was not made")
)

// Store is what an agent needs of a store; [*memory.Store] is one. It has no
// verb that raises trust.
type Store interface {
	recall.Store
	admission.Store
	Get(ctx context.Context, ids ...memory.ID) ([]memory.Row, error)
	Closure(ctx context.Context, ids ...memory.ID) ([]memory.ID, error)
	RecordWrites(ctx context.Context, decision string, writes []memory.OwnWrite) error
	MarkLines(ctx context.Context, contents ...memory.Content) ([]memory.LineMark, error)
	Now() time.Time
	// Cardinality and SaysNothing are what the registry of predicates says.
	Cardinality(predicate string) memory.Cardinality
	SaysNothing(predicate, object string) bool
	RecordOutcome(ctx context.Context, decision string, outcome memory.CallOutcome, note string, answer ...memory.ID) error
	// EndRun must note that a run makes no more calls, so that none of its held ones is
	// approved any more. It may be said more than once.
	EndRun(ctx context.Context, run string) error
	gate.Holds
}

// Decider is the gate; [*gate.Gate] is one.
type Decider interface {
	Decide(ctx context.Context, req gate.Request) gate.Decision
}

// ReadObserver hears which rows were read, to heat them. It must not block, and takes no
// more from ctx than the span of the read.
type ReadObserver interface {
	ObserveReads(ctx context.Context, ids []memory.ID, weight float64)
}

// Model names the model behind an agent and its family: the training prior it
// shares with others. Both are recorded with every row it asserts (SR-1.5).
type Model struct {
	ID     string // "claude-sonnet-4.6"
	Family string // "claude"
}

// Options of an [Agent]. Every zero field has a usable default.
type Options struct {
	// Recall is the policy of Run.Recall; the zero policy gives fit rows only.
	Recall recall.Policy
	// Reads hears of every row read; nil = nobody.
	Reads ReadObserver
	// Down says whether the verifier of a claim is down right now, so that the
	// claim is written unavailable_at_write_time (SR-2.2). nil = where the workers of the
	// store say so ([memory.Store.PublishVerifiers]).
	Down func(memory.Content) bool
	// Tokens carry lineage to other processes and over a restart; nil = none, and
	// what arrives from elsewhere is of unknown lineage.
	Tokens *Tokens
	// Kinds says, by exact predicate, what the objects of rows are values of, for tools
	// with [TypedSinks]: a row clears a sink of a kind that its predicate is registered
	// for, and no other. What is not registered clears none.
	Kinds map[string][]gate.Kind
	// Logger gets denials and faults, without claim text or arguments; nil = none.
	Logger *slog.Logger
}

// Agent is the base type to embed. It is immutable and safe for concurrent use.
// The zero Agent has no tools and refuses everything.
type Agent struct {
	name      string
	model     Model
	store     Store
	gate      Decider
	write     *admission.Writer
	tools     map[string]*Tool
	order     []string
	reads     map[string]string // by predicate, the tool that reads its system of record
	byAPIName map[string]string // names of tools, by their APIName
	about     []string          // subjects that tools speak of by names of their own
	opts      Options
}

// New builds an agent. It refuses a model without id and family, a tool that is
// not properly declared, and two tools whose names differ by nothing but case.
func New(name string, model Model, store Store, decider Decider, tools []Tool, o *Options) (*Agent, error) {
	switch {
	case strings.TrimSpace(name) == "":
		return nil, errors.New("agent: New: name is empty")
	case memory.CheckName("name", name) != nil:
		return nil, fmt.Errorf("agent: New: %w", memory.CheckName("name", name))
	case strings.TrimSpace(model.ID) == "" || strings.TrimSpace(model.Family) == "":
		return nil, errors.New("agent: New: a model needs an id and a family")
	case store == nil:
		return nil, errors.New("agent: New: no store")
	case decider == nil:
		return nil, errors.New("agent: New: no gate")
	}
	a := &Agent{name: name, model: model, store: store, gate: decider, write: admission.New(store), tools: map[string]*Tool{}, byAPIName: map[string]string{}, reads: map[string]string{}}
	if o != nil {
		a.opts = *o
		a.opts.Kinds = map[string][]gate.Kind{}
		for predicate, of := range o.Kinds {
			if predicate == "" || len(of) == 0 || slices.ContainsFunc(of, func(k gate.Kind) bool { return k.String() == gate.KindNone.String() }) {
				return nil, fmt.Errorf("agent: New: kinds of predicate %q: one is none", predicate)
			}
			a.opts.Kinds[predicate] = slices.Clone(of)
		}
	}
	if a.opts.Logger == nil {
		a.opts.Logger = slog.New(slog.DiscardHandler)
	}
	folded, atServer := map[string]string{}, map[string]string{}
	for _, t := range tools {
		if err := t.seal(); err != nil {
			return nil, err
		}
		if other, taken := folded[strings.ToLower(t.name)]; taken {
			return nil, fmt.Errorf("agent: New: tools %q and %q have one name", other, t.name)
		}
		if at := t.contract.Server + "\x00" + cmp.Or(t.contract.AtServer, t.contract.Tool); t.contract.Server != "" {
			if other, taken := atServer[at]; taken {
				return nil, fmt.Errorf("agent: New: tools %q and %q are one tool of the server %q: name the servers apart", other, t.name, t.contract.Server)
			}
			atServer[at] = t.name
		}
		folded[strings.ToLower(t.name)] = t.name
		t.contract.Sinks, t.contract.Output = slices.Clone(t.contract.Sinks), slices.Clone(t.contract.Output)
		t.contract.Optional, t.contract.Kinds = slices.Clone(t.contract.Optional), maps.Clone(t.contract.Kinds)
		t.contract.Fixed, t.contract.Identity = maps.Clone(t.contract.Fixed), slices.Clone(t.contract.Identity)
		if err := t.registered(store); err != nil {
			return nil, err
		}
		for _, f := range t.contract.Output {
			if f.About != "" && !slices.Contains(a.about, f.About) {
				a.about = append(a.about, f.About)
			}
			if f.Trust.Claims() && a.reads[f.Predicate] == "" {
				a.reads[f.Predicate] = t.name
			}
		}
		a.tools[t.name] = &t
		a.order = append(a.order, t.name)
		a.byAPIName[APIName(t.name)] = t.name
	}
	for _, name := range a.order {
		t := a.tools[name]
		for _, o := range a.tools {
			if t.unnamed && !o.unnamed && t.system == o.system {
				return nil, &DeclarationError{Tool: t.name, Field: "system_of_record", Text: fmt.Sprintf("it is called as the system of %q, and does not say that it is of it: declare SystemOfRecord", o.name)}
			}
		}
	}
	return a, nil
}

// saysNothing reports whether a value vouches for no argument.
func (a *Agent) saysNothing(predicate, object string) bool {
	return a.store.SaysNothing(predicate, object)
}

// Name is the agent's name.
func (a *Agent) Name() string { return a.name }

// Tools lists what the agent's tools are, in the order they were given, for a
// model to choose from. It cannot call them.
func (a *Agent) Tools() []Declaration {
	out := make([]Declaration, 0, len(a.order))
	for _, n := range a.order {
		out = append(out, a.tools[n].declaration())
	}
	return out
}

// Start begins a run for a principal: the person the agent acts for. Its ledger
// is empty and known to be. A principal that nobody can tell from another one
// ([memory.CheckName]) is refused: every call of the run gives the [*memory.FieldError]
// of the field principal. Nobody, "", is a principal who has no word.
func (a *Agent) Start(principal string) *Run {
	r := &Run{agent: a, id: "run_" + strings.ToLower(rand.Text()), principal: principal, ledger: newLedger(a.saysNothing)}
	if principal != "" {
		r.refused = memory.CheckName("principal", principal)
	}
	return r
}
