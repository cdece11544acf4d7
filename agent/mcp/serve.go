package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// Serve gives the tools of a run's agent to an MCP server, and takes the server's
// tools/call over: from now on it reaches the tools of the run and no others,
// whatever else was or will be added to the server. A call that does not fire is a
// result with isError and the gate's text for the model.
//
// All sessions of the server share the run, and so do all requests of a transport
// without sessions. What a client read before, or elsewhere, does not cross the
// transport: unless you know that nothing else feeds it, tell the run so with
// agent.UnknownText before you serve it, and only what reads will be permitted.
func Serve(server *api.Server, run *agent.Run) error {
	if server == nil || run == nil || run.Agent() == nil {
		return agent.ErrNotBuilt
	}
	return serve(server, offers(run.Agent()), func(context.Context, api.Request, *api.CallToolParamsRaw) (*agent.Run, error) { return run, nil })
}

// ServeEach is [Serve] for clients that say what their calls rest on: each call has a
// run of its own, which rests on all that the client had read, as the lineage token in
// the _meta of the call says ([MetaToken]; a client with [Tools] and agent.SendsTo
// sends one). A call without a token that holds is of unknown lineage. The agent needs
// agent.Options.Tokens. principal says whom a request is for, from what the transport
// has authenticated; its error refuses the call.
//
// Nobody holds the run of a call once it is answered, so that a call which is parked
// (agent.FiresWhenFree) is not made by itself: the client calls again. Do not declare
// it for tools that are served so.
func ServeEach(server *api.Server, a *agent.Agent, principal func(api.Request) (string, error)) error {
	if server == nil || a == nil || a.Name() == "" || principal == nil {
		return agent.ErrNotBuilt
	}
	return serve(server, offers(a), each(a, principal))
}

// each starts a run for a call.
func each(a *agent.Agent, principal func(api.Request) (string, error)) runs {
	return func(ctx context.Context, req api.Request, params *api.CallToolParamsRaw) (*agent.Run, error) {
		who, err := principal(req)
		if err != nil {
			return nil, err
		}
		run := a.Start(who)
		token, _ := params.GetMeta()[MetaToken].(string)
		_, err = run.Accept(ctx, token, callBytes(params.Name, params.Arguments))
		return run, err
	}
}

// runs gives the run that a call belongs to.
type runs func(context.Context, api.Request, *api.CallToolParamsRaw) (*agent.Run, error)

// offers are the tools of an agent, for a server to list.
func offers(a *agent.Agent) (offered []*api.Tool) {
	for _, d := range a.Tools() {
		destructive := d.Effect == gate.Irreversible
		offered = append(offered, &api.Tool{Name: d.Name, Description: d.Description, InputSchema: d.Schema,
			Annotations: &api.ToolAnnotations{ReadOnlyHint: d.Effect == gate.ReadOnly, DestructiveHint: &destructive}})
	}
	return offered
}

func serve(server *api.Server, offered []*api.Tool, of runs) error {
	structured := map[string]bool{}
	for _, t := range offered {
		structured[t.Name] = t.OutputSchema != nil
		if err := add(server, t); err != nil {
			return err
		}
	}
	server.AddReceivingMiddleware(func(next api.MethodHandler) api.MethodHandler {
		return func(ctx context.Context, method string, req api.Request) (api.Result, error) {
			if method != methodCall {
				return next(ctx, method, req)
			}
			params, ok := req.GetParams().(*api.CallToolParamsRaw)
			if !ok || params == nil {
				return nil, ErrUngated
			}
			run, err := of(ctx, req, params)
			if err != nil {
				return refusal("NOT EXECUTED: the call was not accepted."), nil
			}
			return answer(ctx, run, params, structured[params.Name]), nil
		}
	})
	return nil
}

// add lists a tool. The library panics on what it cannot list.
func add(server *api.Server, t *api.Tool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %q: %v", ErrTools, t.Name, p)
		}
	}()
	server.AddTool(t, func(context.Context, *api.CallToolRequest) (*api.CallToolResult, error) { return nil, ErrUngated })
	return nil
}

// answer calls a tool through the run.
func answer(ctx context.Context, run *agent.Run, params *api.CallToolParamsRaw, structured bool) *api.CallToolResult {
	if len(params.InputResponses) > 0 || params.RequestState != "" {
		return refusal("NOT EXECUTED: this server asks for no further input.")
	}
	res, err := run.CallWithID(ctx, callID(params), params.Name, json.RawMessage(params.Arguments))
	text := agent.ToolText(res, err)
	if err != nil {
		return refusal(text)
	}
	return result(text, res.Output, structured)
}

// maxCallID is how much of a client's name for its call a decision keeps.
const maxCallID = 64

// callID is what the client names its call, if it names it: the progress token.
func callID(params *api.CallToolParamsRaw) string {
	var id string
	switch token := params.GetProgressToken().(type) {
	case string:
		id = token
	case float64:
		id = strconv.FormatFloat(token, 'f', -1, 64)
	case int64:
		id = strconv.FormatInt(token, 10)
	case int:
		id = strconv.Itoa(token)
	}
	return id[:min(len(id), maxCallID)]
}
