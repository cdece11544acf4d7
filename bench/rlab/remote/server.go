package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// maxOpen is how many memories a server has at once.
const maxOpen = 1000

var (
	errUnknown = errors.New("there is no such memory")
	errTaken   = errors.New("this memory is open already")
	errFull    = fmt.Errorf("%d memories are open", maxOpen)
	errRequest = errors.New("bad request")
)

// Server serves the memories of one entrant, over HTTP ([Server.Handler]) and MCP
// ([Server.MCP]). It is safe for concurrent use. It asks for no login: serve it on a loopback
// address.
type Server struct {
	entrant rlab.Entrant

	mu   sync.Mutex
	open map[string]*memory // nil = it is being made
}

// NewServer returns a server without memories.
func NewServer(e rlab.Entrant) *Server { return &Server{entrant: e, open: map[string]*memory{}} }

// maxSpeed is how much faster than real time a clock may run by itself.
const maxSpeed = 3600

// memory is one that is open.
type memory struct {
	rlab.System
	dir    string
	record *record

	mu    sync.Mutex
	now   time.Time // what it was told last
	told  time.Time // when
	speed int
}

func (m *memory) time() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clock()
}

func (m *memory) clock() time.Time {
	return m.now.Add(time.Since(m.told) * time.Duration(m.speed))
}

// at moves the clock forward.
func (m *memory) at(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now.After(m.clock()) {
		m.now, m.told = now, time.Now()
	}
}

// find returns a memory, whose clock is now at least.
func (s *Server) find(name string, now time.Time) (*memory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.open[name]
	if m == nil {
		return nil, errUnknown
	}
	m.at(now)
	return m, nil
}

func (s *Server) doOpen(ctx context.Context, r openRequest) (out openAnswer, err error) {
	if r.Memory == "" {
		return out, fmt.Errorf("%w: %w", errRequest, errName)
	}
	if r.Speed < 0 || r.Speed > maxSpeed {
		return out, fmt.Errorf("%w: speed %d: want 0 to %d", errRequest, r.Speed, maxSpeed)
	}
	record, err := recordAt(r.Record)
	if err != nil {
		return out, fmt.Errorf("%w: record: %w", errRequest, err)
	}
	s.mu.Lock()
	_, taken := s.open[r.Memory]
	full := len(s.open) >= maxOpen
	if !taken && !full {
		s.open[r.Memory] = nil
	}
	s.mu.Unlock()
	switch {
	case taken:
		return out, errTaken
	case full:
		return out, errFull
	}
	m := &memory{now: r.Now, told: time.Now(), speed: r.Speed, record: record}
	if m.dir, err = os.MkdirTemp("", "hearsay-bench-served-"); err == nil {
		m.System, err = s.entrant.Open(ctx, rlab.Env{Now: m.time, Record: record, Dir: m.dir, Speed: r.Speed, Budget: r.Budget, Logger: slog.New(slog.DiscardHandler)})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		delete(s.open, r.Memory)
		return out, errors.Join(err, os.RemoveAll(m.dir))
	}
	s.open[r.Memory] = m
	_, gate := m.System.(rlab.Decider)
	_, settles := m.System.(rlab.Settler)
	return openAnswer{Gate: &gate, Settles: settles}, nil
}

func (s *Server) doRecall(ctx context.Context, r recallRequest) (out memoriesAnswer, err error) {
	m, err := s.find(r.Memory, r.Turn.At)
	if err != nil {
		return out, err
	}
	return listed(m.Recall(ctx, r.Turn, r.Query))
}

func (s *Server) doLook(ctx context.Context, r lookRequest) (out memoriesAnswer, err error) {
	m, err := s.find(r.Memory, r.Now)
	if err != nil {
		return out, err
	}
	return listed(m.Look(ctx, r.IDs))
}

func listed(list []rlab.Memory, err error) (memoriesAnswer, error) { return of(list), err }

func (s *Server) doWrite(ctx context.Context, r writeRequest) (out writeAnswer, err error) {
	m, err := s.find(r.Memory, r.Turn.At)
	if err != nil {
		return out, err
	}
	id, err := m.Write(ctx, r.Turn, r.Statement)
	return writeAnswer{&id}, err
}

func (s *Server) doDecide(ctx context.Context, r decideRequest) (out decideAnswer, err error) {
	m, err := s.find(r.Memory, r.Turn.At)
	if err != nil {
		return out, err
	}
	d, ok := m.System.(rlab.Decider)
	if !ok {
		return out, fmt.Errorf("%w: this memory is no gate", errRequest)
	}
	v, err := d.Decide(ctx, r.Turn, r.Action)
	return decideAnswer{&v.Allowed, v.Held, v.Told}, err
}

func (s *Server) doSettle(ctx context.Context, r settleRequest) (struct{}, error) {
	m, err := s.find(r.Memory, r.Now)
	if err != nil {
		return struct{}{}, err
	}
	if settler, ok := m.System.(rlab.Settler); ok {
		err = settler.Settle(ctx)
	}
	return struct{}{}, err
}

func (s *Server) doClose(_ context.Context, r closeRequest) (struct{}, error) {
	s.mu.Lock()
	m := s.open[r.Memory]
	if m != nil {
		delete(s.open, r.Memory)
	}
	s.mu.Unlock()
	if m == nil {
		return struct{}{}, errUnknown
	}
	return struct{}{}, m.end()
}

func (m *memory) end() error {
	var err error
	if c, ok := m.System.(io.Closer); ok {
		err = c.Close()
	}
	m.record.client.CloseIdleConnections()
	return errors.Join(err, os.RemoveAll(m.dir))
}

// Close ends all memories.
func (s *Server) Close() error {
	s.mu.Lock()
	all := s.open
	s.open = map[string]*memory{}
	s.mu.Unlock()
	var errs []error
	for _, m := range all {
		if m != nil {
			errs = append(errs, m.end())
		}
	}
	return errors.Join(errs...)
}

// Handler is the server over HTTP; at /mcp it speaks MCP over streamable HTTP.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	server := s.MCP()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	post(mux, opOpen, s.doOpen)
	post(mux, opRecall, s.doRecall)
	post(mux, opWrite, s.doWrite)
	post(mux, opLook, s.doLook)
	post(mux, opDecide, s.doDecide)
	post(mux, opSettle, s.doSettle)
	post(mux, opClose, s.doClose)
	return mux
}

func post[In, Out any](mux *http.ServeMux, op string, do func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST /"+op, func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxAnswer)).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, err := do(r.Context(), in)
		switch {
		case err == nil:
			reply(w, out)
		case errors.Is(err, errRequest):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case errors.Is(err, errUnknown):
			http.Error(w, err.Error(), http.StatusNotFound)
		case errors.Is(err, errTaken), errors.Is(err, errFull):
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

func reply(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(answer) //nolint:errcheck // who asked has gone
}

// MCP is the server as one of MCP, with a tool for each operation.
func (s *Server) MCP() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "hearsay-bench-" + s.entrant.Name, Version: "1"}, nil)
	tool(server, opOpen, "Makes an empty memory.", s.doOpen)
	tool(server, opRecall, "Returns the memories that an agent is shown, best first.", s.doRecall)
	tool(server, opWrite, "Stores a statement, and returns the id of the memory that holds it.", s.doWrite)
	tool(server, opLook, "Returns memories as they are now.", s.doLook)
	tool(server, opDecide, "Says whether an agent may make a call.", s.doDecide)
	tool(server, opSettle, "Returns when nothing is left to do in the background.", s.doSettle)
	tool(server, opClose, "Drops a memory.", s.doClose)
	return server
}

func tool[In, Out any](server *mcp.Server, op, description string, do func(context.Context, In) (Out, error)) {
	mcp.AddTool(server, &mcp.Tool{Name: op, Description: description}, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := do(ctx, in)
		return nil, out, err
	})
}

// record is the system of record of a bench, over HTTP.
type record struct {
	client *http.Client
	url    *url.URL
}

// recordAt is the system of record at a URL. It is on a loopback address, so that who opens a
// memory has the server ask nobody else.
func recordAt(address string) (*record, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err != nil || !ip.IsLoopback() || u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("%q: want http on a loopback address", address)
	}
	return &record{&http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}, u}, nil
}

// Lookup implements [rlab.Record].
func (r *record) Lookup(ctx context.Context, subject, predicate string) (string, bool, error) {
	u := *r.url
	u.RawQuery = url.Values{"subject": {subject}, "predicate": {predicate}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", false, err
	}
	resp, err := r.client.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	var answer recordAnswer
	if resp.StatusCode != http.StatusOK {
		return "", false, fmt.Errorf("record: status %d", resp.StatusCode)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer); err != nil {
		return "", false, fmt.Errorf("record: %w", err)
	}
	return answer.Value, answer.Found, nil
}
