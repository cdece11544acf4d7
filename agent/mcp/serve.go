package mcp

import (
	"context"
	"encoding/json"
	"errors"
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
// agent.UnknownText before you serve it, and only what reads will be permitted. What it
// reads of the same server as a resource, a prompt or a completion becomes a row of the run,
// as what a stranger wrote, before the client is shown it.
//
// A held call of a tool with agent.FiresWhenFree is answered at once; the answer names
// its hold, in the text and as [MetaHold]. Until the run is closed or the hold ends the
// server makes the call once its rows are verified. The same call made again waits for
// that, and the result is its answer; a client that cancels while it waits takes the
// parked call back. A result that nobody asks for is kept for a quarter of an hour. Leave
// agent.Run.Resume to the server then.
func Serve(server *api.Server, run *agent.Run) error {
	if server == nil || run == nil || run.Agent() == nil {
		return agent.ErrNotBuilt
	}
	return serve(server, offers(run.Agent()), one(run), newDesk(context.Background()), enters(run))
}

// ServeEach is [Serve] for clients that say what their calls rest on: each call has a
// run of its own, which rests on all that the client had read, as the lineage token in
// the _meta of the call says ([MetaToken]; a client with [Tools] and agent.SendsTo
// sends one). A call without a token that holds is of unknown lineage. The agent needs
// agent.Options.Tokens. principal says whom a request is for, from what the transport
// has authenticated; its error refuses the call. Once a session has read a resource, a
// prompt or a completion of the same server, its calls are of unknown lineage, since its
// tokens do not know of that. Without sessions all clients of the server are one.
//
// A call is parked as with [Serve], in the run of its own, which rests on what its
// client had read when it made it. The same call made again, with a token of the same
// run of the client, waits for it or gets its result, whatever the client has read in
// between: that the call is made depends on none of it. The server does not hear that
// the client's run was closed: the parked call stands until its time is over, somebody
// who waits for it cancels, or ctx ends. Nothing is made by itself after that.
func ServeEach(ctx context.Context, server *api.Server, a *agent.Agent, principal func(api.Request) (string, error)) error {
	if server == nil || a == nil || a.Name() == "" || principal == nil {
		return agent.ErrNotBuilt
	}
	read := &readers{}
	return serve(server, offers(a), each(a, principal, read), newDesk(ctx), read.note)
}

// one is a run that all calls belong to.
func one(run *agent.Run) runs {
	return func(context.Context, api.Request, *api.CallToolParamsRaw) (asker, error) {
		return asker{run, "one run"}, nil
	}
}

// each starts a run for a call.
func each(a *agent.Agent, principal func(api.Request) (string, error), read *readers) runs {
	return func(ctx context.Context, req api.Request, params *api.CallToolParamsRaw) (asker, error) {
		who, err := principal(req)
		if err != nil {
			return asker{}, err
		}
		c := asker{run: a.Start(who)}
		token, _ := params.GetMeta()[MetaToken].(string)
		// Whose call it is must be known of one that was cancelled, too.
		known, err := c.run.Accept(context.WithoutCancel(ctx), token, callBytes(params.Name, params.Arguments))
		if known {
			c.run.ForSender()
			from, run := c.run.Sender()
			c.name = fmt.Sprintf("%q %q %q", who, from, run)
		}
		if err == nil && read.has(req) {
			_, err = c.run.Input(ctx, agent.UnknownText("what the client has read besides tools"))
		}
		return c, err
	}
}

// asker is the run that a call belongs to, and what tells who asks from others who
// might make the same call; "" if that is not known.
type asker struct {
	run  *agent.Run
	name string
}

// runs says whose a call is.
type runs func(context.Context, api.Request, *api.CallToolParamsRaw) (asker, error)

// offers are the tools of an agent, for a server to list.
func offers(a *agent.Agent) (offered []*api.Tool) {
	for _, d := range a.Tools() {
		destructive := d.Effect == gate.Irreversible
		offered = append(offered, &api.Tool{Name: d.Name, Description: d.Description, InputSchema: d.Schema,
			Annotations: &api.ToolAnnotations{ReadOnlyHint: d.Effect == gate.ReadOnly, DestructiveHint: &destructive}})
	}
	return offered
}

func serve(server *api.Server, offered []*api.Tool, of runs, d *desk, reads aside) error {
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
				return reads.pass(ctx, method, req, next)
			}
			params, ok := req.GetParams().(*api.CallToolParamsRaw)
			if !ok || params == nil {
				return nil, ErrUngated
			}
			if !d.begin() {
				return refusal(ending), nil
			}
			defer d.answered()
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(d.work, cancel)()
			from, err := of(ctx, req, params)
			if err != nil {
				return refusal("NOT EXECUTED: the call was not accepted."), nil
			}
			return d.answer(ctx, req, from, params, structured[params.Name]), nil
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

// answer attaches a call to the parked one that it is the same as, or calls the tool
// through the run.
func (d *desk) answer(ctx context.Context, req api.Request, from asker, params *api.CallToolParamsRaw, structured bool) *api.CallToolResult {
	if len(params.InputResponses) > 0 || params.RequestState != "" {
		return refusal("NOT EXECUTED: this server asks for no further input.")
	}
	key := keyOf(from, params)
	hears, stop := d.hearing(ctx, req)
	defer stop()
	if k := d.attach(key); k != nil {
		if res := d.wait(hears, req, key, k, structured); res != nil {
			return res
		}
	}
	res, err := from.run.CallWithID(ctx, callID(params), params.Name, json.RawMessage(params.Arguments))
	if errors.Is(err, agent.ErrClosed) && !errors.Is(err, agent.ErrTool) && d.life.Err() != nil {
		return refusal(ending) // it was on its way when the desk closed
	}
	decision := res.Decision
	if !decision.Parked {
		return shown(res, err, structured)
	}
	switch k := d.keep(hears, key, from.run, &decision, len(params.Arguments)); {
	case k == nil: // it is held, and no more
		decision.Parked = false
		return held(decision.HoldID, decision.ToolText())
	case k.hold != decision.HoldID:
		return k.waiting()
	}
	return held(decision.HoldID, decision.ToolText()+"\n"+sameCall)
}

// shown is what a call came to, for a client.
func shown(res agent.Result, err error, structured bool) *api.CallToolResult {
	text := agent.ToolText(res, err)
	if err != nil {
		return refusal(text)
	}
	if res.Unread == 0 && res.Left == 0 {
		return noted(result(text, res.Output, structured), res)
	}
	if structured { // there is none, or not all of it, and only an error may do without
		return refusal(text)
	}
	if blocks, _ := wholeOf(res.Output); blocks {
		return noted(result(text, res.Output, false), res)
	}
	whole := complete()
	whole.Content = []api.Content{&api.TextContent{Text: text}}
	return whole
}

// noted adds what the system says of a call to a result whose blocks are those of the tool. A
// text says so itself.
func noted(out *api.CallToolResult, res agent.Result) *api.CallToolResult {
	notes := agent.Notes(res)
	if blocks, _ := wholeOf(res.Output); blocks && notes != "" {
		out.Content = append(out.Content, &api.TextContent{Text: notes})
	}
	return out
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
