package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
)

// ErrToolName: two tools have one name, as the API takes it.
var ErrToolName = errors.New("openai: tool name")

// Tools describes an agent's tools to a model, in the order the agent has them, each by its
// [agent.APIName]: crm.get_contact is crm_get_contact to the model. Two tools that have one
// are [ErrToolName]. They cannot be called with what is returned.
func Tools(a *agent.Agent) ([]api.Tool, error) {
	if err := a.CheckAPINames(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToolName, err)
	}
	declared := a.Tools()
	out := make([]api.Tool, 0, len(declared))
	for _, d := range declared {
		parameters, err := parameters(d.Schema)
		if err != nil {
			return nil, fmt.Errorf("openai: schema of tool %q: %w", d.Name, err)
		}
		out = append(out, api.Tool{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{
			Name: agent.APIName(d.Name), Description: d.Description, Parameters: parameters}})
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

// Answer carries out the tool calls of an assistant message, in order. It returns what is to
// be appended to the conversation: the message as it may be sent back, and one message for
// each call, in the same order, with the output of the tool or why there is none. Nothing
// ends the conversation: a denial, arguments that do not fit, an unknown tool and a failure
// are all text for the model to read. Each call is decided with all that the calls before it
// returned.
//
// What the server sent is made such that strict servers take it back, since they refuse every
// later request else. A call without an id gets one. Empty arguments become an empty object.
// Arguments that are not one JSON object do too, and such a call is not carried out. Nor is a
// call with the id of an earlier one in the message: it may be the same one. A message without
// text and calls becomes "(no answer)". Whatever else came stays, reasoning too: some servers
// want it back. The arguments that are decided on are the bytes that are kept, and the tool
// gets them in the canonical form.
func Answer(ctx context.Context, run *agent.Run, m api.ChatCompletionMessage) []api.ChatCompletionMessage {
	return answer(ctx, run, m, &agent.Loop{})
}

func answer(ctx context.Context, run *agent.Run, m api.ChatCompletionMessage, loop *agent.Loop) []api.ChatCompletionMessage {
	r := receive(m)
	out := []api.ChatCompletionMessage{r.kept}
	for i, c := range r.kept.ToolCalls {
		text := r.refused[i]
		if text != "" {
			loop.Note(r.names[i], json.RawMessage(m.ToolCalls[i].Function.Arguments), agent.Result{}, errors.New(text))
		} else {
			text = call(ctx, run, c.ID, r.names[i], c.Function.Arguments, loop)
		}
		out = append(out, api.ChatCompletionMessage{Role: api.ChatMessageRoleTool, ToolCallID: c.ID, Content: text})
	}
	return out
}

// Resumed is what became of a parked call ([agent.FiresWhenFree]) as two messages to
// append to the conversation. The API takes one answer to each call of a model, and the
// call has had its own: that it waits. So the first message repeats the call under an id that
// is made from that of its hold, and the second answers it. The output of a tool stays in the
// role of a tool, and the model never finds its history changed. What the tool returned is in
// the run's ledger already.
//
// A server that wants its reasoning back wants some in the first message, too: set its
// ReasoningContent if earlier messages of the model have any. [Chat.Resume] does.
func Resumed(r agent.Resumed) []api.ChatCompletionMessage {
	id := idOf(r.Hold)
	return []api.ChatCompletionMessage{
		{Role: api.ChatMessageRoleAssistant, Content: noWords, ToolCalls: []api.ToolCall{{ID: id, Type: api.ToolTypeFunction,
			Function: api.FunctionCall{Name: agent.APIName(r.Tool), Arguments: string(r.Args)}}}},
		{Role: api.ChatMessageRoleTool, ToolCallID: id, Content: agent.APIText(r.Result, r.Err)},
	}
}

// call is the only line to a tool: Run.CallWithID, which asks the gate.
func call(ctx context.Context, run *agent.Run, id, tool, arguments string, loop *agent.Loop) string {
	if a := run.Agent(); a != nil {
		tool = a.ToolOf(tool)
	}
	res, err := run.CallWithID(ctx, id, tool, json.RawMessage(arguments))
	loop.Note(tool, json.RawMessage(arguments), res, err)
	return agent.APIText(res, err)
}
