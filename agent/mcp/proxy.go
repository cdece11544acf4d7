package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/localhttp"
)

// ProxyOptions say what a proxy knows of the server behind it and of the agent
// before it. Every zero field is the strictest.
type ProxyOptions struct {
	// Contracts of the server's tools. One that has none is irreversible.
	Contracts Contracts
	// Principal is whom the agent acts for, in rows and decisions; "" = "mcp".
	Principal string
	// Server names the server: the same call of another one is another call. "" = the name
	// that it gives itself.
	Server string
	// Prefix stands before the name of each tool, as in [Options].
	Prefix string
	// Pins hold the tools to what an operator has accepted, as in [Options]; Server is then
	// needed. What differs is not offered; see [Proxy.Differences].
	Pins *Pins
	// OnlySource says that the agent is given no text but what its user types, what
	// its operator wrote and what this proxy passes: no other server, no memory, no
	// earlier conversation, nor one that was begun before this proxy was made. Only then is the lineage of a call known, and may a
	// state-changing tool fire; the proxy cannot see whether it is true. It also
	// vouches for the descriptions of the server's tools.
	OnlySource bool
	// Tokens read the lineage tokens that calls bring in their _meta ([MetaToken]).
	// Each call then has a run of its own, which rests on what the token says; one
	// without a token that holds is of unknown lineage. It cannot go with OnlySource.
	Tokens *agent.Tokens
	// Kinds are those of the agent, see [agent.Options].
	Kinds map[string][]gate.Kind
	// Logger gets denials and faults, without content; nil = none.
	Logger *slog.Logger
}

// Proxy stands in front of a server and gates its tools, for an agent that is not
// built with this module. All that it has passed to the agent feeds every later
// call. It has one run for its whole life, whatever the transport calls a session:
// that can make a call rest on too much, never on too little. With
// [ProxyOptions.Tokens] the agent itself says what each call rests on.
type Proxy struct {
	run      *agent.Run
	of       runs
	reads    aside
	desk     *desk
	offered  []*api.Tool // by the server's names
	prefix   string      // of the names under which they are offered
	differs  []PinDifference
	unnamed  []string
	upstream string
	session  *api.ClientSession
	was      map[string]string // the tools as they were listed, in JSON, by name

	closing sync.Once
	recheck chan struct{} // holds one token while the tools are listed: one listing at a time

	mu      sync.Mutex
	listed  chan struct{}   // closed when the tools that are being listed anew are known; nil = they are
	changed map[string]bool // since
}

// NewProxy lists the tools of a server and gates them. The session should be one
// of [Dial], and stays the caller's to close.
func NewProxy(ctx context.Context, session *api.ClientSession, store agent.Store, decider agent.Decider, o *ProxyOptions) (*Proxy, error) {
	if o == nil {
		o = &ProxyOptions{}
	}
	if o.Tokens != nil && o.OnlySource {
		return nil, errors.New("mcp: NewProxy: Tokens and OnlySource are two ways to know the lineage")
	}
	listed, err := list(ctx, session)
	if err != nil {
		return nil, err
	}
	of, err := (&Options{Server: o.Server, Prefix: o.Prefix, Pins: o.Pins}).checked(session)
	if err != nil {
		return nil, err
	}
	report, err := of.Pins.check(of.Server, listed)
	if err != nil {
		return nil, err
	}
	offered, contracts := report.accepted(listed, o.Contracts)
	p := &Proxy{prefix: of.Prefix, differs: report.Differences, offered: offered, unnamed: undeclared(offered, contracts), upstream: nameOf(session), session: session, recheck: make(chan struct{}, 1)}
	tools, err := handles(session, &of, []agent.Option{Blocks()}, offered, contracts, p.hasChanged)
	if err != nil {
		return nil, err
	}
	if p.was, err = texted(p.offered); err != nil {
		return nil, err
	}
	// The model behind the proxy is not known, and writes nothing through it.
	a, err := agent.New("mcp-proxy", agent.Model{ID: "unknown", Family: "unknown"}, store, decider, tools, &agent.Options{Logger: o.Logger, Tokens: o.Tokens, Kinds: o.Kinds})
	if err != nil {
		return nil, err
	}
	principal := o.Principal
	if strings.TrimSpace(principal) == "" {
		principal = "mcp"
	}
	if err := of.Pins.keep(ctx, report); err != nil {
		return nil, err
	}
	p.run = a.Start(principal)
	p.of, p.desk, p.reads = one(p.run), newDesk(context.Background()), enters(p.run)
	if o.Tokens != nil {
		read := &readers{}
		p.of, p.reads = each(a, func(api.Request) (string, error) { return principal, nil }, read), read.note
	}
	if !o.OnlySource {
		if _, err := p.run.Input(ctx, agent.UnknownText("what the agent was told past the proxy")); err != nil {
			p.Close()
			return nil, err
		}
	}
	return p, nil
}

// Undeclared names the tools that no contract was given for.
func (p *Proxy) Undeclared() []string { return append([]string(nil), p.unnamed...) }

// Differences are the tools that are not what was pinned, and are not offered.
func (p *Proxy) Differences() []PinDifference { return slices.Clone(p.differs) }

// Run is the run that all calls of the proxy belong to, unless they bring tokens.
func (p *Proxy) Run() *agent.Run { return p.run }

// Recheck lists the server's tools anew, for when the server says that they have changed
// (see [Dial]). A tool that is gone, or is not what it was when the proxy was made, is
// not run from then on, nor is a parked call of it: what was declared, and what its users
// read, was of another tool. Recheck names those tools, in the order they were listed. A call
// that begins meanwhile waits until the tools are listed, or its context ends. If the tools
// cannot be listed, none is run until they can.
func (p *Proxy) Recheck(ctx context.Context) (changed []string, err error) {
	if p == nil || p.run == nil {
		return nil, errors.New("mcp: a zero Proxy; make one with NewProxy")
	}
	p.recheck <- struct{}{}
	defer func() { <-p.recheck }()
	known := make(chan struct{})
	p.mu.Lock()
	p.listed = known // a call that begins now waits to hear which tools are others
	p.mu.Unlock()
	now := map[string]string{}
	listed, err := list(ctx, p.session)
	if err == nil {
		now, err = texted(listed)
	}
	since := map[string]bool{}
	for _, t := range p.offered {
		if now[t.Name] != p.was[t.Name] {
			changed, since[t.Name] = append(changed, t.Name), true
		}
	}
	p.mu.Lock()
	p.changed, p.listed = since, nil
	p.mu.Unlock()
	close(known)
	return changed, err
}

// hasChanged is [ErrChanged] of a tool that is not what it was. Of one of which it is not
// known until ctx ends it is the error of ctx.
func (p *Proxy) hasChanged(ctx context.Context, name string) error {
	for {
		p.mu.Lock()
		known, changed := p.listed, p.changed[name]
		p.mu.Unlock()
		switch {
		case known == nil && changed:
			return ErrChanged
		case known == nil:
			return nil
		}
		select {
		case <-known:
		case <-ctx.Done():
			return fmt.Errorf("mcp: %w: the server lists its tools: %w", agent.ErrNotCalled, ctx.Err())
		}
	}
}

// texted are tools in JSON, by name.
func texted(listed []*api.Tool) (map[string]string, error) {
	out := map[string]string{}
	for _, t := range listed {
		text, err := json.Marshal(t)
		if err != nil {
			return nil, fmt.Errorf("%w: %q: %w", ErrTools, t.Name, err)
		}
		out[t.Name] = string(text)
	}
	return out, nil
}

// Close ends the proxy's run and takes back the calls that wait to be made by
// themselves (agent.FiresWhenFree; see [Serve]). One of those that is being made is cut
// off. Close waits up to five seconds for the calls of clients that are being made, and then
// cuts off the others; their answers can still be sent when it returns. A call that comes
// later is refused. It may be called more than once, and returns when the proxy is closed.
func (p *Proxy) Close() {
	if p != nil && p.run != nil {
		p.closing.Do(p.close)
	}
}

func (p *Proxy) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin)
	defer cancel()
	now, stop := context.WithCancel(ctx)
	stop()
	p.desk.turnAway()           // before the run: who waits is told that the server ends
	_ = p.run.CloseContext(now) // it is closed, whatever is being made
	p.desk.close()
	_ = p.run.CloseContext(ctx) // a server that does not answer keeps nobody here
	select {
	case <-p.desk.idle: // calls with tokens have runs of their own
		return
	case <-ctx.Done():
		p.desk.cut()
	}
	late := time.NewTimer(cutWithin)
	defer late.Stop()
	select {
	case <-p.desk.idle:
	case <-late.C:
	}
}

// closeWithin is how long a proxy that is closed waits for the calls that are being made.
const closeWithin = 5 * time.Second

// cutWithin is how long it waits for those that were cut off.
const cutWithin = time.Second

// Server makes an MCP server that passes the list of tools as it was when the
// proxy was made, and gates every call. It may be called more than once, for a
// transport that wants a server each session. Resources, prompts and the server's
// instructions are not passed.
func (p *Proxy) Server() (*api.Server, error) {
	if p == nil || p.run == nil {
		return nil, errors.New("mcp: a zero Proxy; make one with NewProxy")
	}
	server := api.NewServer(&api.Implementation{Name: p.upstream, Title: "gated by hearsay", Version: "0"},
		&api.ServerOptions{Capabilities: &api.ServerCapabilities{Tools: &api.ToolCapabilities{}}})
	offered := make([]*api.Tool, len(p.offered))
	for i, t := range p.offered {
		named := *t
		named.Name = p.prefix + t.Name
		offered[i] = &named
	}
	if err := serve(server, offered, p.of, p.desk, p.reads); err != nil {
		return nil, err
	}
	return server, nil
}

// Handler serves the proxy over streamable HTTP. Requests to a local address that
// name another host are refused, and so are those of other web sites; it has no
// authentication of its own. All clients share the proxy's one run. A client whose
// connection breaks while its call waits for a parked one has cancelled that call.
func (p *Proxy) Handler(logger *slog.Logger) http.Handler {
	handler := api.NewStreamableHTTPHandler(func(*http.Request) *api.Server {
		server, err := p.Server()
		if err != nil {
			return nil // refuses the request
		}
		return server
	}, &api.StreamableHTTPOptions{Logger: logger, SessionTimeout: sessionTimeout})
	return localhttp.Guard{Remote: true}.Handler(p.desk.tracked(handler))
}

// sessionTimeout is how long the transport keeps a session that asks nothing.
const sessionTimeout = time.Hour
