package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m, teststore.Stop) }

// world is a store with a clock of its own, a gate that goes by the tools'
// contracts, and a book of the tools that really ran.
type world struct {
	store *memory.Store
	gate  *gate.Gate

	mu    sync.Mutex
	now   time.Time
	fired []string
}

func newWorld(t testing.TB) *world { return newWorldWith(t, memory.Options{}) }

func newWorldWith(t testing.TB, o memory.Options) *world {
	t.Helper()
	w := &world{now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC)}
	o.Clock = func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.now = w.now.Add(time.Millisecond)
		return w.now
	}
	w.store = storetest.NewStore(&o)
	g, err := gate.New(w.store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	w.gate = g
	return w
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) fire(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fired = append(w.fired, name)
}

func (w *world) ran(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, f := range w.fired {
		if f == name {
			n++
		}
	}
	return n
}

type (
	mailIn struct {
		To   string `json:"to"`
		Body string `json:"body,omitempty"`
	}
	nothing  struct{}
	lookupIn struct {
		Customer string `json:"customer"`
	}
	lookupOut struct {
		Email string `json:"email"`
		Note  string `json:"note,omitempty"`
	}
	searchIn struct {
		Words string `json:"words"`
	}
)

// tools are the ones most tests need: a mail that cannot be unsent, a setting
// that can be put back, a search that returns what strangers wrote, and a
// register that is the system of record for billing addresses.
func (w *world) tools() []agent.Tool {
	return []agent.Tool{
		agent.Func("send_email", "sends an e-mail", func(_ context.Context, in mailIn) (nothing, error) {
			w.fire("send_email")
			return nothing{}, nil
		}, agent.Irreversible(), agent.Sinks("/to")),
		agent.Func("set_editor", "sets the default editor", func(_ context.Context, in searchIn) (nothing, error) {
			w.fire("set_editor")
			return nothing{}, nil
		}, agent.StateChanging()),
		agent.Func("search", "searches the web", func(_ context.Context, in searchIn) (string, error) {
			w.fire("search")
			return "a page about " + in.Words, nil
		}, agent.ReadOnly()),
		agent.Func("register", "looks up a customer", func(_ context.Context, in lookupIn) (lookupOut, error) {
			w.fire("register")
			return lookupOut{Email: "ops@" + in.Customer + ".example"}, nil
		}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer")),
	}
}

func (w *world) agent(t testing.TB, extra ...agent.Tool) *agent.Agent {
	t.Helper()
	return w.agentWith(t, "billing", w.gate, append(w.tools(), extra...), &agent.Options{Recall: recall.Policy{Channels: recall.All}})
}

func (w *world) agentWith(t testing.TB, name string, d agent.Decider, tools []agent.Tool, o *agent.Options) *agent.Agent {
	t.Helper()
	a, err := agent.New(name, agent.Model{ID: "sonnet-4.6", Family: "claude"}, w.store, d, tools, o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fact(subject, predicate, object string) memory.Content {
	return memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional}
}

// pending writes a fact that a model made up.
func (w *world) pending(t testing.TB, c memory.Content) memory.ID {
	t.Helper()
	return w.put(t, memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
		Asserter: memory.Asserter{Principal: "writer", Model: "sonnet-4.6", Family: "claude"}})
}

// verified writes a fact that the tool "ledger" is the system of record for.
func (w *world) verified(t testing.TB, c memory.Content) memory.ID {
	t.Helper()
	by := memory.Asserter{Principal: "writer", Tool: "ledger"}
	return w.put(t, memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, Anchor: "tool:ledger",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "ledger", Verifier: "call",
			Group: by.Group(), Anchor: memory.Anchor{URI: "call:seed"}, At: w.store.Now()}}})
}

// quote writes the words that a claim was taken from.
func (w *world) quote(t testing.TB, claim memory.ID, words string) memory.ID {
	t.Helper()
	r := w.row(t, claim)
	return w.put(t, memory.Quotation(claim, memory.Draft{Content: r.Content, Origin: r.Origin, Asserter: r.Asserter, Sensitivity: r.Sensitivity}, words))
}

func (w *world) put(t testing.TB, d memory.Draft) memory.ID {
	t.Helper()
	if d.Content.Cardinality == 0 {
		d.Content.Cardinality = memory.CardinalityUnknown
	}
	if d.Sensitivity == 0 {
		d.Sensitivity = memory.SensitivityInternal
	}
	r, err := w.store.Put(context.Background(), d)
	if err != nil {
		t.Fatal(err)
	}
	return r.ID
}

func (w *world) row(t testing.TB, id memory.ID) *memory.Row {
	t.Helper()
	rows, err := w.store.Get(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return &rows[0]
}

func (w *world) rows(t testing.TB) []memory.Row {
	t.Helper()
	var out []memory.Row
	for r, err := range w.store.Rows(context.Background(), memory.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func read(t testing.TB, run *agent.Run, subject, predicate string) agent.Recalled {
	t.Helper()
	r, err := run.Recall(context.Background(), recall.Query{Subject: subject, Predicate: predicate})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 {
		t.Fatalf("nothing recalled of %s %s", subject, predicate)
	}
	return r
}

func typed(t testing.TB, run *agent.Run, text string) {
	t.Helper()
	input(t, run, agent.Typed(text))
}

func input(t testing.TB, run *agent.Run, s ...agent.Segment) []string {
	t.Helper()
	out, err := run.Input(context.Background(), s...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func args(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// mustFire and mustBlock are the two ways a call ends.
func mustFire(t testing.TB, run *agent.Run, tool string, a any) agent.Result {
	t.Helper()
	res, err := run.Call(context.Background(), tool, args(a))
	if err != nil {
		t.Fatalf("%s did not run: %v", tool, err)
	}
	return res
}

func mustBlock(t testing.TB, run *agent.Run, tool string, a any, reason error) *gate.DeniedError {
	t.Helper()
	_, err := run.Call(context.Background(), tool, args(a))
	var denied *gate.DeniedError
	if !errors.As(err, &denied) || !errors.Is(err, gate.ErrDenied) {
		t.Fatalf("%s was not blocked: %v", tool, err)
	}
	if reason != nil && !errors.Is(err, reason) {
		t.Fatalf("%s was blocked for another reason than %v: %v", tool, reason, err)
	}
	return denied
}

func TestI1ZeroValuesAreTheSafeOnes(t *testing.T) {
	ctx := t.Context()
	t.Run("a zero agent does nothing", func(t *testing.T) {
		var a agent.Agent
		if len(a.Tools()) != 0 || a.Name() != "" {
			t.Error("it has something")
		}
		for name, run := range map[string]*agent.Run{"of a zero agent": a.Start("ana"), "zero": {}, "nil": nil} {
			for what, err := range map[string]error{
				"call": second(run.Call(ctx, "send_email", nil)), "recall": second(run.Recall(ctx, recall.Query{Text: "x"})),
				"remember": second(run.Remember(ctx, agent.Note{Content: memory.Content{Text: "x"}})), "input": second(run.Input(ctx, agent.Typed("x"))),
				"assert": second(run.Assert(ctx, agent.Assertion{Span: "x"})), "conclude": second(run.Conclude(ctx, "x")),
			} {
				if !errors.Is(err, agent.ErrNotBuilt) {
					t.Errorf("a %s run: %s gives %v", name, what, err)
				}
			}
			if run.Lineage().IsKnown() {
				t.Errorf("a %s run claims to know its lineage", name)
			}
		}
	})
	t.Run("a zero tool is refused", func(t *testing.T) {
		w := newWorld(t)
		if _, err := agent.New("a", agent.Model{ID: "m", Family: "f"}, w.store, w.gate, []agent.Tool{{}}, nil); err == nil {
			t.Error("New took it")
		}
	})
	t.Run("an undeclared tool is irreversible and its output taints", func(t *testing.T) {
		w := newWorld(t)
		a := w.agentWith(t, "a", w.gate, []agent.Tool{agent.Func("bare", "", func(context.Context, searchIn) (string, error) {
			w.fire("bare")
			return "something", nil
		})}, &agent.Options{Recall: recall.Policy{Channels: recall.All}})
		if e := a.Tools()[0].Effect; e != gate.Irreversible {
			t.Errorf("effect %s", e)
		}
		run := a.Start("ana")
		mustBlock(t, run, "bare", searchIn{"invented words"}, gate.ErrFromNowhere) // every argument is a sink
		typed(t, run, "do it with invented words")
		mustFire(t, run, "bare", searchIn{"invented words"})
		mustBlock(t, run, "bare", searchIn{"invented words"}, gate.ErrUnverified)
		if w.ran("bare") != 1 {
			t.Errorf("it ran %d times", w.ran("bare"))
		}
	})
	t.Run("a zero segment makes the lineage unknown, and unknown blocks", func(t *testing.T) {
		for name, s := range map[string]agent.Segment{"zero": {}, "unknown text": agent.UnknownText("x"), "zero handoff": agent.FromRun(agent.Handoff{})} {
			w := newWorld(t)
			run := w.agent(t).Start("ana")
			typed(t, run, "write to ops@acme.example")
			if !run.Lineage().IsKnown() {
				t.Fatal("a fresh run does not know its lineage")
			}
			input(t, run, s)
			if run.Lineage().IsKnown() {
				t.Errorf("%s: the lineage is still known", name)
			}
			mustBlock(t, run, "send_email", mailIn{To: "ops@acme.example"}, gate.ErrLineageUnknown)
			mustBlock(t, run, "set_editor", searchIn{"vim"}, gate.ErrLineageUnknown)
			mustFire(t, run, "search", searchIn{"weather"}) // reading stays allowed (SR-6.2)
			if w.ran("send_email")+w.ran("set_editor") != 0 {
				t.Errorf("%s: a tool ran", name)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestNewRefusesWhatIsNotDeclared(t *testing.T) {
	w := newWorld(t)
	fn := func(context.Context, searchIn) (string, error) { return "", nil }
	ok, model := agent.Func("t", "", fn), agent.Model{ID: "m", Family: "f"}
	for name, build := range map[string]func() (*agent.Agent, error){
		"no name": func() (*agent.Agent, error) { return agent.New(" ", model, w.store, w.gate, nil, nil) },
		"no model": func() (*agent.Agent, error) {
			return agent.New("a", agent.Model{Family: "f"}, w.store, w.gate, nil, nil)
		},
		"no family": func() (*agent.Agent, error) { return agent.New("a", agent.Model{ID: "m"}, w.store, w.gate, nil, nil) },
		"no store":  func() (*agent.Agent, error) { return agent.New("a", model, nil, w.gate, nil, nil) },
		"no gate":   func() (*agent.Agent, error) { return agent.New("a", model, w.store, nil, nil, nil) },
		"one name":  func() (*agent.Agent, error) { return agent.New("a", model, w.store, w.gate, []agent.Tool{ok, ok}, nil) },
		"names by case": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("Send", "", fn), agent.Func("sEND", "", fn)}, nil)
		},
		"a tool without a name": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("", "", fn)}, nil)
		},
		"a tool without a function": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Raw("t", "", nil, nil)}, nil)
		},
		"a tool without a schema": func() (*agent.Agent, error) {
			raw := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Raw("t", "", nil, raw)}, nil)
		},
		"arguments that are no struct": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("t", "", func(context.Context, chan int) (string, error) { return "", nil })}, nil)
		},
		"a sink that is no pointer": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("t", "", fn, agent.Sinks("to"))}, nil)
		},
		"an authoritative field without predicate": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("t", "", fn, agent.Authoritative("/x", "", "/y"))}, nil)
		},
		"an authoritative field without subject": func() (*agent.Agent, error) {
			return agent.New("a", model, w.store, w.gate, []agent.Tool{agent.Func("t", "", fn, agent.Authoritative("/x", "p", ""))}, nil)
		},
	} {
		if a, err := build(); err == nil || a != nil {
			t.Errorf("%s: New gives %v, %v", name, a, err)
		}
	}
}

// EmbeddedAgent is how an application makes its own agent type.
type EmbeddedAgent struct {
	*agent.Agent
	extra int
}

func TestSR65ABareEmbeddingIsGated(t *testing.T) {
	w := newWorld(t)
	w.pending(t, fact("acme", "billing.email", "evil@x.example"))
	mine := EmbeddedAgent{Agent: w.agent(t), extra: 1}
	copied := struct{ agent.Agent }{*mine.Agent}
	for name, run := range map[string]*agent.Run{"embedded": mine.Start("ana"), "copied": copied.Start("ana")} {
		t.Run(name, func(t *testing.T) {
			read(t, run, "acme", "billing.email")
			denied := mustBlock(t, run, "send_email", mailIn{To: "evil@x.example"}, gate.ErrUnverified)
			if !strings.HasPrefix(denied.ToolText(), "NOT EXECUTED") {
				t.Errorf("text for the model: %s", denied.ToolText())
			}
		})
	}
	if w.ran("send_email") != 0 {
		t.Error("an ungated call reached the tool")
	}
}

func TestAnAgentIsSealed(t *testing.T) {
	w := newWorld(t)
	tools := w.tools()
	a := w.agentWith(t, "a", w.gate, tools, nil)
	tools[0] = agent.Tool{}
	if names := names(a); !slices.Equal(names, []string{"send_email", "set_editor", "search", "register"}) {
		t.Errorf("tools %v", names)
	}
	d := a.Tools()
	d[0].Name, d[0].Schema[0] = "other", 'x'
	if again := a.Tools()[0]; again.Name != "send_email" || !json.Valid(again.Schema) {
		t.Error("a declaration reaches into the agent")
	}
}

func names(a *agent.Agent) (out []string) {
	for _, d := range a.Tools() {
		out = append(out, d.Name)
	}
	return out
}
