package langchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/tmc/langchaingo/tools"

	"github.com/hearsay-go/hearsay/agent"
)

// ErrToolName: two tools have one name, as model APIs take it and as the framework sees it,
// which looks tools up by their name in upper case.
var ErrToolName = errors.New("langchain: tool name")

// Tools gives the tools of the run's agent to langchaingo, in the order the agent
// has them, each by its [agent.APIName]. The description of each ends with what its input looks like.
//
// The input of a tool is one string. A JSON object is the arguments as they are;
// any other text is the tool's one string argument if it has just one argument
// and that is a string, and else the argument "input".
func Tools(run *agent.Run) ([]tools.Tool, error) { return toolsOf(run, nil) }

func toolsOf(run *agent.Run, loop *agent.Loop) ([]tools.Tool, error) {
	if run == nil || run.Agent() == nil {
		return nil, agent.ErrNotBuilt
	}
	if err := run.Agent().CheckAPINames(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToolName, err)
	}
	var out []tools.Tool
	for _, d := range run.Agent().Tools() {
		out = append(out, newTool(run, d, loop))
	}
	return out, nil
}

// tool holds a name and a run. The function behind the name is out of its reach.
type tool struct {
	run         *agent.Run
	name        string
	description string
	argument    string      // where a text that is no object goes
	single      bool        // it is the tool's one argument, a string
	loop        *agent.Loop // nil = nobody asks
}

func newTool(run *agent.Run, d agent.Declaration, loop *agent.Loop) *tool {
	t := &tool{run: run, name: d.Name, argument: "input", loop: loop}
	if name, ok := single(d.Schema); ok {
		t.argument, t.single = name, true
		t.description = fmt.Sprintf("%s Input: the text of %q.", d.Description, name)
	} else {
		t.description = fmt.Sprintf("%s Input: a JSON object by this schema: %s", d.Description, d.Schema)
	}
	return t
}

// single is the name of a schema's only property, if that is a string.
func single(schema json.RawMessage) (string, bool) {
	var s struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil || len(s.Properties) != 1 {
		return "", false
	}
	for name, p := range s.Properties {
		return name, p.Type == "string"
	}
	return "", false
}

func (t *tool) Name() string        { return agent.APIName(t.name) }
func (t *tool) Description() string { return t.description }

// Call asks the run to call the tool. Its error is always nil.
func (t *tool) Call(ctx context.Context, input string) (string, error) {
	args := t.arguments(input)
	res, err := t.run.Call(ctx, t.name, args)
	if t.loop != nil {
		t.loop.Note(t.name, args, res, err)
	}
	return agent.APIText(res, err), nil
}

func (t *tool) arguments(input string) json.RawMessage {
	trimmed := strings.TrimSpace(input)
	if strings.HasPrefix(trimmed, "{") && (!t.single || json.Valid([]byte(trimmed))) || trimmed == "" {
		return json.RawMessage(trimmed) // what is no object after all, the run refuses
	}
	b, err := json.Marshal(map[string]string{t.argument: strings.ToValidUTF8(trimmed, string(unicode.ReplacementChar))})
	if err != nil { // strings always marshal
		return json.RawMessage("!")
	}
	return b
}
