package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// Errors of this package.
var (
	// ErrUnclassified: the server has a tool that no contract is given for.
	ErrUnclassified = errors.New("mcp: tool without a contract")
	// ErrNoTool: a contract is for a tool that the server does not have.
	ErrNoTool = errors.New("mcp: contract without a tool")
	// ErrTools: the server's tools cannot be listed, one of them has no usable name or
	// schema, or what is declared of one is not in its schemas
	// ([agent.DeclarationError]).
	ErrTools = errors.New("mcp: tools of the server")
	// ErrChanged: the tool is not what it was when it was declared, or is gone; see
	// [Proxy.Recheck].
	ErrChanged = fmt.Errorf("mcp: %w: the tool is not what it was when it was declared", agent.ErrNotCalled)
	// ErrUngated: a call of a tool that did not come through a Run.
	ErrUngated = errors.New("mcp: call of a tool past the gate")
)

// maxTools is how many tools a server may list.
const maxTools = 10_000

// Contracts declare, by exact tool name, what each tool of a server is: the
// options of agent.Func and agent.Raw. An entry without options is the worst, an
// irreversible tool whose every argument is a sink.
type Contracts map[string][]agent.Option

// Options say what [Tools] does with a server's tools. The zero value has a usable default.
type Options struct {
	// Server names the server: the same call of another one is another call, and [Pins] know
	// it by this name. "" = the name that it gives itself, which is none for Pins. A contract
	// with [agent.Server] names the server of one tool otherwise.
	Server string
	// Prefix stands before the name of each tool, so that tools of two servers may have one
	// name: "crm_" makes crm_search of search. Policies, blocks and the audit know the tool by
	// the whole name, [Contracts] by the server's own.
	Prefix string
	// Pins hold the tools to what an operator has accepted; nil = they may be others at each
	// start.
	Pins *Pins
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9._/-]{0,32}$`)

// OptionError: a field of [Options] has a value that it cannot have.
type OptionError struct{ Field, Text string }

// Error is one line.
func (e *OptionError) Error() string { return "mcp: Options: " + e.Field + ": " + e.Text }

// Check is an [*OptionError] if a field has a value that it cannot have.
func (o *Options) Check() error {
	if o.Pins != nil && o.Server == "" {
		return &OptionError{"Server", "pins need the name of the server, its command or URL: what it calls itself is its own word"}
	}
	if !prefixForm.MatchString(o.Prefix) {
		return &OptionError{"Prefix", fmt.Sprintf("%q: want at most 32 of A-Z, a-z, 0-9 and ._/-", o.Prefix)}
	}
	return nil
}

// checked returns what options say of a server that was listed.
func (o *Options) checked(session *api.ClientSession) (Options, error) {
	var out Options
	if o != nil {
		out = *o
	}
	if err := out.Check(); err != nil {
		return out, err
	}
	if out.Server == "" {
		out.Server = nameOf(session)
	}
	return out, nil
}

// Tools makes the tools of a server into tools of an agent, in the order the
// server lists them. Each tool needs a contract and each contract a tool, else it
// is [ErrUnclassified] or [ErrNoTool]. The list is taken now, once.
//
// A tool that is not what was pinned is left out. The error is then a [*PinError] that names
// such tools, and the others are returned beside it.
//
// The session should be one of [Dial], or of a client with [OnlyGated] and without
// automatic multi-round-trip requests: the values that such a request asks for
// reach the server without having been seen by the gate.
func Tools(ctx context.Context, session *api.ClientSession, contracts Contracts, o *Options) ([]agent.Tool, error) {
	listed, err := list(ctx, session)
	if err != nil {
		return nil, err
	}
	of, err := o.checked(session)
	if err != nil {
		return nil, err
	}
	report, err := of.Pins.check(of.Server, listed)
	if err != nil {
		return nil, err
	}
	offered, contracts := report.accepted(listed, contracts)
	if missing := undeclared(offered, contracts); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnclassified, missing)
	}
	tools, err := handles(session, &of, nil, offered, contracts, func(context.Context, string) error { return nil })
	if err != nil {
		return nil, err
	}
	if err := of.Pins.keep(ctx, report); err != nil {
		return nil, err
	}
	if len(report.Differences) == 0 {
		return tools, nil
	}
	return tools, &PinError{of.Server, report.Differences}
}

// undeclared are the tools without a contract.
func undeclared(listed []*api.Tool, contracts Contracts) (names []string) {
	for _, t := range listed {
		if _, ok := contracts[t.Name]; !ok {
			names = append(names, t.Name)
		}
	}
	return names
}

// nameOf is the name that a server gives itself.
func nameOf(session *api.ClientSession) string {
	if init := session.InitializeResult(); init != nil && init.ServerInfo != nil && init.ServerInfo.Name != "" {
		return init.ServerInfo.Name
	}
	return "server"
}

func list(ctx context.Context, session *api.ClientSession) ([]*api.Tool, error) {
	if session == nil {
		return nil, fmt.Errorf("%w: no session", ErrTools)
	}
	var listed []*api.Tool
	names := map[string]bool{}
	for t, err := range session.Tools(ctx, nil) {
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrTools, unanswered(ctx, "tools/list", err))
		case t == nil || strings.TrimSpace(t.Name) == "":
			return nil, fmt.Errorf("%w: one without a name", ErrTools)
		case names[t.Name]:
			return nil, fmt.Errorf("%w: %q is listed twice", ErrTools, t.Name)
		case len(listed) == maxTools:
			return nil, fmt.Errorf("%w: more than %d", ErrTools, maxTools)
		}
		listed, names[t.Name] = append(listed, t), true
	}
	return listed, nil
}

// Blocks says that images, audio and blobs in answers reach the model as such, as [Serve] and
// [Proxy] pass them, and not as text: they do not count for agent.AnswerLimit. A proxy has it
// for all its tools. Declare it in the [Contracts] of tools whose agent you serve, and not
// where an adapter gives the model the answer as text. Without it, an answer over the limit is
// shown as its text, in which such a block stands by its kind.
func Blocks() agent.Option { return agent.Media(unread, cut) }

// handles makes tools of a listing, in its order, each with some options before its contract.
// One that has changed since is not called.
func handles(session *api.ClientSession, of *Options, all []agent.Option, listed []*api.Tool, contracts Contracts, changed func(ctx context.Context, name string) error) ([]agent.Tool, error) {
	for name := range contracts {
		if !slices.ContainsFunc(listed, func(t *api.Tool) bool { return t.Name == name }) {
			return nil, fmt.Errorf("%w: %q", ErrNoTool, name)
		}
	}
	out := make([]agent.Tool, 0, len(listed))
	for _, t := range listed {
		tool, err := handle(session, of, all, t, contracts[t.Name], changed)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrTools, t.Name, err)
		}
		out = append(out, tool)
	}
	return out, nil
}

// handle makes a tool of a listed one. What is declared of it is held to the schemas that
// the server gives.
func handle(session *api.ClientSession, of *Options, all []agent.Option, t *api.Tool, declared []agent.Option, changed func(ctx context.Context, name string) error) (agent.Tool, error) {
	arguments, err := schema(t.Name, "argument_schema", t.InputSchema)
	if err != nil {
		return agent.Tool{}, err
	}
	if arguments.Type != "object" {
		return agent.Tool{}, errors.New("argument schema: not of an object")
	}
	options := slices.Concat([]agent.Option{agent.Server(of.Server, t.Name), agent.Media(nil, words)}, all, declared)
	if t.OutputSchema != nil {
		answers, err := schema(t.Name, "output_schema", t.OutputSchema)
		if err != nil {
			return agent.Tool{}, err
		}
		options = slices.Concat([]agent.Option{agent.ServerOutputSchema(answers)}, options)
	}
	tool := agent.Raw(of.Prefix+t.Name, t.Description, arguments, caller(session, t.Name, changed), slices.Concat(options, tighter(t.Annotations))...)
	return tool, tool.Check()
}

// schema is one of a tool's schemas in the form that the agent uses, within its limits.
func schema(tool, field string, given any) (*jsonschema.Schema, error) {
	text, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	s, err := agent.ReadSchema(text)
	if err != nil {
		return nil, &agent.DeclarationError{Tool: tool, Field: field, Text: err.Error()}
	}
	return s, nil
}

// tighter is what annotations add to a contract. They are words of the server:
// they may make a tool graver, never milder. The library does not tell a
// readOnlyHint of false from none, so a tool that is annotated at all and not as
// read-only counts as one that changes something. One that says it reaches an open
// world does, whatever was declared.
func tighter(a *api.ToolAnnotations) (out []agent.Option) {
	if a == nil {
		return nil
	}
	if a.OpenWorldHint != nil && *a.OpenWorldHint {
		out = append(out, agent.BlastRadius(gate.OutsideWorld))
	}
	switch {
	case a.DestructiveHint != nil && *a.DestructiveHint && !a.ReadOnlyHint:
		out = append(out, agent.AtLeast(gate.Irreversible))
	case !a.ReadOnlyHint:
		out = append(out, agent.AtLeast(gate.StateChanging))
	}
	return out
}

// gated marks the context of a call that the gate permitted. Losing it refuses
// the call.
type gated struct{}

// caller reaches a tool of the server. It is called by a Run, on a permit.
func caller(session *api.ClientSession, name string, changed func(context.Context, string) error) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
		if err := changed(ctx, name); err != nil {
			return nil, err
		}
		params := &api.CallToolParams{Name: name, Arguments: args}
		token, err := agent.Token(ctx, callBytes(name, args))
		if err != nil {
			return nil, err
		}
		if token != "" {
			params.Meta = api.Meta{MetaToken: token}
		}
		res, err := session.CallTool(context.WithValue(ctx, gated{}, name), params)
		if err != nil {
			return nil, unknown(err)
		}
		return output(res)
	}
}

// notBegun are the codes of errors by which a server says that it has not begun: of JSON-RPC,
// that a request is none, and of MCP, that something is missing. Any other may come of a
// gateway that lost the answer of the server behind it, or of the library, whose connection
// broke.
var notBegun = []int64{-32700, -32600, -32601, -32602, -32002, -32042}

// unknown marks the error of a call that the server may have carried out all the same.
func unknown(err error) error {
	var answer *jsonrpc.Error
	if errors.Is(err, ErrUngated) || errors.As(err, &answer) && slices.Contains(notBegun, answer.Code) {
		return err
	}
	return fmt.Errorf("%w: %w", agent.ErrNoAnswer, err)
}

// MetaToken is the member of a call's _meta that carries a lineage token.
const MetaToken = "io.github.hearsay-go/lineage"

// callBytes are what the token of a call is bound to: the name of the tool and the
// canonical arguments. Arguments that have no canonical form are not called.
func callBytes(name string, args json.RawMessage) []byte {
	canonical, err := gate.Canonical(args)
	if err != nil {
		canonical = args
	}
	return append([]byte(name+"\n"), canonical...)
}

// OnlyGated is sending middleware for a client (Client.AddSendingMiddleware): a
// call of a tool that no Run made is [ErrUngated] and is not sent. It is a second
// lock behind [Tools], for a program whose code also holds the session. It also keeps the
// client from answering tools/list out of its cache, however long the server says that a
// list is good: what a tool is now is asked for each time.
func OnlyGated() api.Middleware {
	return func(next api.MethodHandler) api.MethodHandler {
		return func(ctx context.Context, method string, req api.Request) (api.Result, error) {
			if method == methodCall {
				params, _ := req.GetParams().(*api.CallToolParams)
				name, _ := ctx.Value(gated{}).(string)
				if params == nil || name == "" || params.Name != name {
					return nil, ErrUngated
				}
			}
			res, err := next(ctx, method, req)
			if listed, is := res.(*api.ListToolsResult); is && listed != nil {
				listed.TTLMs = 0
			}
			return res, err
		}
	}
}

const methodCall = "tools/call"

// Dial connects to a server with a client that reaches tools through a Run only,
// and that offers the server nothing: no sampling, no elicitation, no roots.
// changed, if not nil, hears that the server says its tools have changed.
func Dial(ctx context.Context, transport api.Transport, changed func()) (*api.ClientSession, error) {
	o := &api.ClientOptions{Capabilities: &api.ClientCapabilities{}, MultiRoundTrip: &api.MultiRoundTripOptions{Disabled: true}}
	if changed != nil {
		o.ToolListChangedHandler = func(context.Context, *api.ToolListChangedRequest) { changed() }
	}
	client := api.NewClient(&api.Implementation{Name: "hearsay", Version: "0"}, o)
	client.AddSendingMiddleware(OnlyGated())
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, fmt.Errorf("mcp: connecting to the server: %w", unanswered(ctx, "initialize", err))
	}
	return session, nil
}

// unanswered says which request the server gave no answer to, if that is why: the
// library's error of a context that ended does not.
func unanswered(ctx context.Context, request string, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(err, cause):
		return fmt.Errorf("the server gave no answer to %s: %w", request, err)
	}
	return fmt.Errorf("the server gave no answer to %s: %w: %w", request, cause, err)
}
