package langchain

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/hearsay-go/hearsay/agent"
)

// Gate wraps a framework agent so that an executor gets the tools of the run and
// no others from it. A tool that the inner agent was built with, and that the
// run's agent does not have, is not a valid tool to the executor. If the model repeats a
// call that is denied, the plan is an [*agent.StalledError], which ends the executor.
func Gate(run *agent.Run, inner agents.Agent) (agents.Agent, error) {
	g, err := gate(run, inner, &agent.Loop{})
	if err != nil {
		return nil, err
	}
	g.begins = true
	return g, nil
}

func gate(run *agent.Run, inner agents.Agent, loop *agent.Loop) (*gated, error) {
	if inner == nil {
		return nil, errors.New("langchain: Gate: no agent")
	}
	only, err := toolsOf(run, loop)
	if err != nil {
		return nil, err
	}
	return &gated{inner: inner, tools: only, run: run, loop: loop}, nil
}

type gated struct {
	inner  agents.Agent
	tools  []tools.Tool
	run    *agent.Run
	loop   *agent.Loop
	begins bool // an executor that begins has another loop
}

func (g *gated) GetTools() []tools.Tool  { return append([]tools.Tool(nil), g.tools...) }
func (g *gated) GetInputKeys() []string  { return g.inner.GetInputKeys() }
func (g *gated) GetOutputKeys() []string { return g.inner.GetOutputKeys() }

func (g *gated) Plan(ctx context.Context, steps []schema.AgentStep, inputs map[string]string, o ...chains.ChainCallOption) ([]schema.AgentAction, *schema.AgentFinish, error) {
	if g.begins && len(steps) == 0 {
		g.loop.Reset()
	}
	if err := g.loop.Stalled(g.run); err != nil {
		return nil, nil, g.loop.Wrap(err)
	}
	actions, finish, err := g.inner.Plan(ctx, steps, inputs, o...)
	return actions, finish, g.loop.Wrap(err)
}

// Ask runs an executor for a run: the segments are what it is asked, and its
// answer is what comes back. The executor itself is not changed; it runs with its
// agent wrapped by [Gate] and its memory by [Memory].
//
// An error of the executor loses the steps: the model will not be told what was done. If
// calls were made by then, the error is an [*agent.CallsError] that has them. The run knows
// them too: asked for the same call of an irreversible tool again, it holds that, and tells
// the model when it was done (gate.AlreadyDone).
func Ask(ctx context.Context, run *agent.Run, e *agents.Executor, segments ...agent.Segment) (string, error) {
	if err := usable(e); err != nil {
		return "", err
	}
	texts, err := run.Input(ctx, segments...)
	if err != nil {
		return "", err
	}
	return ask(ctx, run, e, strings.Join(texts, "\n\n"), &agent.Loop{})
}

// Resume waits until one of the run's parked calls ([agent.FiresWhenFree]) comes free
// or ends, as agent.Run.Resume does and with its errors, and runs the executor on what
// became of it. A framework tool has no call id: the text names the tool and the id of
// the hold, which the observation that it waits has named before. The executor's memory
// is what reminds the model of the task. What the tool returned is in the run's ledger.
// If the executor fails after the wait, the first result says what became of the call.
func Resume(ctx context.Context, run *agent.Run, e *agents.Executor) (agent.Resumed, string, error) {
	if err := usable(e); err != nil {
		return agent.Resumed{}, "", err
	}
	r, err := run.Resume(ctx)
	if err != nil {
		return agent.Resumed{}, "", err
	}
	loop := &agent.Loop{}
	loop.Note(r.Tool, r.Args, r.Result, r.Err)
	answer, err := ask(ctx, run, e, "The call of "+r.Tool+" that was waiting ("+r.Hold+") has ended. Its result:\n\n"+agent.APIText(r.Result, r.Err), loop)
	return r, answer, err
}

func usable(e *agents.Executor) error {
	if e == nil || e.Memory == nil {
		return errors.New("langchain: no executor, or one that agents.NewExecutor did not make")
	}
	return nil
}

// ask runs an executor on text whose rows the run has.
func ask(ctx context.Context, run *agent.Run, e *agents.Executor, text string, loop *agent.Loop) (string, error) {
	inner, err := gate(run, e.Agent, loop)
	if err != nil {
		return "", err
	}
	mine := *e
	mine.Agent = inner
	if m, ok := mine.Memory.(*memory); !ok || m.run != run {
		mine.Memory = Memory(run, mine.Memory)
	}
	answer, err := chains.Run(ctx, &mine, text)
	if err != nil && !errors.Is(err, agent.ErrStalled) {
		if stalled := loop.Stalled(run); stalled != nil { // in its last iteration
			err = stalled
		}
	}
	return answer, loop.Wrap(err)
}

// Memory wraps a conversation memory of the framework for one run. What the
// memory holds that this run did not put there (an earlier conversation, another
// agent's) is text of unknown origin when it is loaded, and makes the lineage of
// the run unknown: a state-changing tool is then blocked.
//
// To go on with a conversation, keep the run and the wrapped memory together.
// Like the memories of the framework it is not safe for concurrent use.
func Memory(run *agent.Run, inner schema.Memory) schema.Memory {
	return &memory{run: run, inner: inner}
}

type memory struct {
	run   *agent.Run
	inner schema.Memory
	own   [sha256.Size]byte // digest of what the memory gave after this run's last save
	saved bool              // there is such a digest
}

func (m *memory) GetMemoryKey(ctx context.Context) string      { return m.inner.GetMemoryKey(ctx) }
func (m *memory) MemoryVariables(ctx context.Context) []string { return m.inner.MemoryVariables(ctx) }

func (m *memory) LoadMemoryVariables(ctx context.Context, inputs map[string]any) (map[string]any, error) {
	loaded, err := m.inner.LoadMemoryVariables(ctx, inputs)
	if err != nil {
		return nil, err
	}
	// The memory may keep the map and go on writing into it: what is judged is what is shown.
	loaded = maps.Clone(loaded)
	if !blank(loaded) && !m.its(loaded) {
		if _, err := m.run.Input(ctx, agent.UnknownText(fmt.Sprint(loaded))); err != nil {
			return nil, err
		}
	}
	return loaded, nil
}

// its reports whether a memory holds just what it held after this run's last save.
func (m *memory) its(loaded map[string]any) bool {
	sum, ok := digest(loaded)
	return ok && m.saved && sum == m.own
}

func (m *memory) SaveContext(ctx context.Context, inputs, outputs map[string]any) error {
	// What others put there since the last look is not to be taken for this run's.
	if _, err := m.LoadMemoryVariables(ctx, inputs); err != nil {
		return err
	}
	m.saved = false
	if err := m.inner.SaveContext(ctx, inputs, outputs); err != nil {
		return err
	}
	own, err := m.inner.LoadMemoryVariables(ctx, inputs)
	if err != nil {
		return err
	}
	m.own, m.saved = digest(own)
	return nil
}

func (m *memory) Clear(ctx context.Context) error {
	m.saved = false
	return m.inner.Clear(ctx)
}

// blank reports whether a memory holds nothing.
func blank(loaded map[string]any) bool {
	for _, v := range loaded {
		if r := reflect.ValueOf(v); r.IsValid() && !r.IsZero() && !(r.Kind() == reflect.Slice && r.Len() == 0) {
			return false
		}
	}
	return true
}
