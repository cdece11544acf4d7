package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// ErrToolName: a tool's name cannot be sent; the API takes letters, digits, "_"
// and "-", at most 64 of them.
var ErrToolName = errors.New("openai: tool name")

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// Tools describes an agent's tools to a model, in the order the agent has them.
// They cannot be called with what is returned. A name that the API would not take
// is [ErrToolName]; none is rewritten, so that a decision, its text for the model
// and the policy speak of one name.
func Tools(a *agent.Agent) ([]api.Tool, error) {
	declared := a.Tools()
	out := make([]api.Tool, 0, len(declared))
	for _, d := range declared {
		if !toolName.MatchString(d.Name) {
			return nil, fmt.Errorf("%w: %q", ErrToolName, d.Name)
		}
		parameters, err := parameters(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("openai: schema of tool %q: %w", d.Name, err)
		}
		out = append(out, api.Tool{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{
			Name: d.Name, Description: d.Description, Parameters: parameters}})
	}
	return out, nil
}

// parameters is a schema with the member "properties", which the API wants even
// of a tool without arguments.
func parameters(schema json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(schema, &members); err != nil {
		return nil, err
	}
	if _, has := members["properties"]; has {
		return schema, nil
	}
	members["properties"] = json.RawMessage(`{}`)
	return json.Marshal(members)
}

// Answer carries out the tool calls of one assistant message, in order, and
// returns one message for each, in the same order: the output of the tool, or
// why there is none. Nothing ends the conversation: a denial, arguments that do
// not fit, an unknown tool and a failure are all text for the model to read.
//
// A call with the id of an earlier one in the same message is not carried out,
// since its answer could be taken for the other's. Each call is decided with all
// that the calls before it returned.
func Answer(ctx context.Context, run *agent.Run, calls []api.ToolCall) []api.ChatCompletionMessage {
	answered := make(map[string]bool, len(calls))
	out := make([]api.ChatCompletionMessage, len(calls))
	for i, c := range calls {
		out[i] = api.ChatCompletionMessage{Role: api.ChatMessageRoleTool, ToolCallID: c.ID}
		switch {
		case answered[c.ID]:
			out[i].Content = "NOT EXECUTED: this call has the id of another call in the same message. Make the call again, on its own."
		case c.Type != "" && c.Type != api.ToolTypeFunction:
			out[i].Content = "NOT EXECUTED: only calls of type function are carried out here."
		default:
			out[i].Content = call(ctx, run, c)
		}
		answered[c.ID] = true
	}
	return out
}

// call is the only line to a tool: Run.CallWithID, which asks the gate.
func call(ctx context.Context, run *agent.Run, c api.ToolCall) string {
	res, err := run.CallWithID(ctx, c.ID, c.Function.Name, json.RawMessage(c.Function.Arguments))
	var (
		denied    *gate.DeniedError
		arguments *gate.ArgumentError
	)
	switch {
	case err == nil:
		return output(res.Output)
	case errors.As(err, &denied):
		return denied.ToolText()
	case errors.As(err, &arguments):
		return "NOT EXECUTED: the arguments are not valid: " + line(arguments.Error()) + "\nCorrect them and call again."
	case errors.Is(err, agent.ErrTool):
		return "FAILED: " + line(err.Error())
	default:
		return "NOT EXECUTED: " + line(err.Error())
	}
}

// output is the text of a tool's output. It is never empty: the library leaves
// an empty content out of the message, and the API refuses that.
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
