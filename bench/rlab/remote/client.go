package remote

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// HTTP is a system that answers at a URL. An error says what is wrong with the URL.
func HTTP(name, address string) (rlab.Entrant, error) {
	base, err := endpoint(address)
	if err != nil {
		return rlab.Entrant{}, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	transport.MaxIdleConnsPerHost = 64 // S3 has 32 sessions at once
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return rlab.Entrant{Name: name, Rule: "whatever answers at " + base, Open: func(ctx context.Context, e rlab.Env) (rlab.System, error) {
		return open(ctx, e, &overHTTP{client, base})
	}}, nil
}

// MCP is a system that is an MCP server: a URL of one, or a command, with its arguments, that
// is started for each play and speaks over its stdin and stdout. What the command says on its
// stderr goes to talk.
func MCP(name, server string, talk io.Writer) (rlab.Entrant, error) {
	entrant := rlab.Entrant{Name: name, Rule: "whatever answers as MCP server " + server}
	if strings.HasPrefix(server, "http://") || strings.HasPrefix(server, "https://") {
		address, err := endpoint(server)
		if err != nil {
			return rlab.Entrant{}, err
		}
		entrant.Open = func(ctx context.Context, e rlab.Env) (rlab.System, error) {
			return dial(ctx, e, &mcp.StreamableClientTransport{Endpoint: address, DisableStandaloneSSE: true})
		}
		return entrant, nil
	}
	command := strings.Fields(server)
	if len(command) == 0 {
		return rlab.Entrant{}, errors.New("want a command or a URL")
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return rlab.Entrant{}, err
	}
	entrant.Open = func(ctx context.Context, e rlab.Env) (rlab.System, error) {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Stderr, cmd.WaitDelay = talk, time.Second
		return dial(ctx, e, &mcp.CommandTransport{Command: cmd, TerminateDuration: closePatience})
	}
	return entrant, nil
}

// endpoint checks a URL, and returns it without a slash at its end.
func endpoint(address string) (string, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil: // which quotes what may be a password
		return "", errors.New("want http://HOST:PORT or https://HOST:PORT with a path at most")
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "", fmt.Errorf("%q: want http://HOST:PORT or https://HOST:PORT with a path at most", u.Redacted())
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// caller makes one call of the protocol.
type caller interface {
	call(ctx context.Context, op string, request, answer any) error
	Close() error
}

// overHTTP calls a server over HTTP.
type overHTTP struct {
	client *http.Client
	base   string
}

func (h *overHTTP) call(ctx context.Context, op string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.base+"/"+op, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err != nil {
		return gone(ctx, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return gone(ctx, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %q", resp.StatusCode, brief(bytes.TrimSpace(text)))
	}
	return decode(text, answer)
}

// Close closes what is idle: all plays share the client.
func (h *overHTTP) Close() error {
	h.client.CloseIdleConnections()
	return nil
}

// overMCP calls the tools of an MCP server.
type overMCP struct{ session *mcp.ClientSession }

func dial(ctx context.Context, e rlab.Env, t mcp.Transport) (rlab.System, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "hearsay-bench", Version: "1"}, nil)
	session, err := client.Connect(ctx, t, nil)
	if err != nil {
		return nil, gone(ctx, err)
	}
	return open(ctx, e, &overMCP{session})
}

func (m *overMCP) call(ctx context.Context, op string, request, answer any) error {
	result, err := m.session.CallTool(ctx, &mcp.CallToolParams{Name: op, Arguments: request})
	var said *jsonrpc.Error
	switch {
	case errors.As(err, &said):
		return fmt.Errorf("error %d: %q", said.Code, brief([]byte(said.Message)))
	case err != nil:
		return gone(ctx, err)
	}
	text := ""
	for _, c := range result.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	switch {
	case result.IsError:
		return fmt.Errorf("the tool failed: %q", brief([]byte(text)))
	case result.StructuredContent != nil:
		structured, err := json.Marshal(result.StructuredContent)
		if err != nil {
			return err
		}
		return decode(structured, answer)
	}
	return decode([]byte(text), answer)
}

// Close ends the session, and a command that was started for it. The play has ended then: how the
// command ends, and what it leaves behind, is no fault.
func (m *overMCP) Close() error {
	err := m.session.Close()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// client is a system behind a caller.
type client struct {
	caller caller
	memory string
	now    func() time.Time
	record *http.Server
	ended  chan struct{} // closed when record has ended
}

// gated is a client whose system decides, and settling one whose system works in the background.
type (
	gated    struct{ *client }
	settling struct{ *client }
	both     struct {
		gated
		worker settling
	}
)

// open makes an empty memory. It closes the caller if that fails.
func open(ctx context.Context, e rlab.Env, by caller) (_ rlab.System, err error) {
	c := &client{caller: by, memory: rand.Text(), now: e.Now, ended: make(chan struct{})}
	opened := false
	defer func() {
		if err != nil {
			err = errors.Join(err, c.end(opened))
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		close(c.ended)
		return nil, err
	}
	// Other programs of the machine do not know the path.
	path := "/" + rand.Text()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
		value, found, err := e.Record.Lookup(r.Context(), r.FormValue("subject"), r.FormValue("predicate"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		reply(w, recordAnswer{value, found})
	})
	c.record = &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() {
		defer close(c.ended)
		c.record.Serve(listener) //nolint:errcheck // it ends with Close
	}()
	var answer openAnswer
	if err := by.call(ctx, opOpen, openRequest{c.memory, e.Now(), e.Speed, e.Budget, "http://" + listener.Addr().String() + path}, &answer); err != nil {
		return nil, err
	}
	opened = true
	if answer.Gate == nil {
		return nil, lacks("gate")
	}
	switch {
	case *answer.Gate && answer.Settles:
		return both{gated{c}, settling{c}}, nil
	case *answer.Gate:
		return gated{c}, nil
	case answer.Settles:
		return settling{c}, nil
	}
	return c, nil
}

// Recall implements [rlab.System].
func (c *client) Recall(ctx context.Context, t rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	return c.memories(ctx, opRecall, recallRequest{c.memory, t, q})
}

// Look implements [rlab.System].
func (c *client) Look(ctx context.Context, ids []string) ([]rlab.Memory, error) {
	if ids == nil {
		ids = []string{} // null is no list
	}
	return c.memories(ctx, opLook, lookRequest{c.memory, c.now(), ids})
}

func (c *client) memories(ctx context.Context, op string, request any) ([]rlab.Memory, error) {
	var answer memoriesAnswer
	if err := c.caller.call(ctx, op, request, &answer); err != nil {
		return nil, err
	}
	return answer.memories()
}

// Write implements [rlab.System].
func (c *client) Write(ctx context.Context, t rlab.Turn, s rlab.Statement) (string, error) {
	if s.Recalled == nil {
		s.Recalled = []string{} // null is no list
	}
	var answer writeAnswer
	if err := c.caller.call(ctx, opWrite, writeRequest{c.memory, t, s}, &answer); err != nil {
		return "", err
	}
	if answer.ID == nil {
		return "", lacks("id")
	}
	return *answer.ID, nil
}

// Decide implements [rlab.Decider].
func (g gated) Decide(ctx context.Context, t rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	if a.Recalled == nil {
		a.Recalled = []string{}
	}
	var answer decideAnswer
	if err := g.caller.call(ctx, opDecide, decideRequest{g.memory, t, a}, &answer); err != nil {
		return rlab.Verdict{}, err
	}
	if answer.Allowed == nil {
		return rlab.Verdict{}, lacks("allowed")
	}
	return rlab.Verdict{Allowed: *answer.Allowed, Held: answer.Held, Told: answer.Told}, nil
}

// Settle implements [rlab.Settler].
func (b both) Settle(ctx context.Context) error { return b.worker.Settle(ctx) }

// Settle implements [rlab.Settler].
func (s settling) Settle(ctx context.Context) error {
	return s.caller.call(ctx, opSettle, settleRequest{s.memory, s.now()}, &struct{}{})
}

// closePatience is how long a server may take to drop a memory, and a command to end after that.
const closePatience = 5 * time.Second

// Close drops the memory.
func (c *client) Close() error { return c.end(true) }

func (c *client) end(opened bool) error {
	var err error
	if opened {
		ctx, cancel := context.WithTimeoutCause(context.Background(), closePatience, fmt.Errorf("%w: no answer within %s", rlab.ErrLate, closePatience))
		defer cancel()
		err = c.caller.call(ctx, opClose, closeRequest{c.memory}, &struct{}{})
	}
	err = errors.Join(err, c.caller.Close())
	if c.record != nil {
		err = errors.Join(err, c.record.Close())
	}
	<-c.ended
	return err
}
