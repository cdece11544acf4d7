package langchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tmc/langchaingo/tools"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// ErrToolName: two tools have one name, as the framework sees it: it looks tools
// up by their name in upper case.
var ErrToolName = errors.New("langchain: tool name")

// Tools gives the tools of the run's agent to langchaingo, in the order the agent
// has them. The description of each ends with what its input looks like.
//
// The input of a tool is one string. A JSON object is the arguments as they are;
// any other text is the tool's one string argument if it has just one argument
// and that is a string, and else the argument "input".
func Tools(run *agent.Run) ([]tools.Tool, error) {
	if run == nil || run.Agent() == nil {
		return nil, agent.ErrNotBuilt
	}
	upper := map[string]string{}
	var out []tools.Tool
	for _, d := range run.Agent().Tools() {
		u := strings.ToUpper(d.Name)
		if other, taken := upper[u]; taken {
			return nil, fmt.Errorf("%w: %q and %q are both %s", ErrToolName, other, d.Name, u)
		}
		upper[u] = d.Name
		out = append(out, newTool(run, d))
	}
	return out, nil
}

// tool holds a name and a run. The function behind the name is out of its reach.
type tool struct {
	run         *agent.Run
	name        string
	description string
	argument    string // where a text that is no object goes
	single      bool   // it is the tool's one argument, a string
}

func newTool(run *agent.Run, d agent.Declaration) *tool {
	t := &tool{run: run, name: d.Name, argument: "input"}
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

func (t *tool) Name() string        { return t.name }
func (t *tool) Description() string { return t.description }

// Call asks the run to call the tool. Its error is always nil.
func (t *tool) Call(ctx context.Context, input string) (string, error) {
	res, err := t.run.Call(ctx, t.name, t.arguments(input))
	var (
		denied    *gate.DeniedError
		arguments *gate.ArgumentError
	)
	switch {
	case err == nil:
		return output(res.Output), nil
	case errors.As(err, &denied):
		return denied.ToolText(), nil
	case errors.As(err, &arguments):
		return "NOT EXECUTED: the input is not valid: " + line(arguments.Error()) + "\nCorrect it and call again.", nil
	case errors.Is(err, agent.ErrTool):
		return "FAILED: " + line(err.Error()), nil
	default:
		return "NOT EXECUTED: " + line(err.Error()), nil
	}
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

// output is the text of a tool's output for the model, never empty.
func output(b json.RawMessage) string {
	text := strings.ToValidUTF8(string(b), string(unicode.ReplacementChar))
	var s string
	if json.Unmarshal(b, &s) == nil { // a string, or null
		text = s
	}
	if strings.TrimSpace(text) == "" {
		return "(empty)"
	}
	return text
}

// maxLine is the most bytes of an error that a model is shown.
const maxLine = 2000

// line puts an error's text on one short line of visible characters.
func line(s string) string {
	s = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, string(unicode.ReplacementChar)))), " ")
	if len(s) <= maxLine {
		return s
	}
	cut := maxLine
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
