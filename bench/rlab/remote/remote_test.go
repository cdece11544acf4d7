package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/bench/rlab"
	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

// clerk is a memory that uses all that a system is given: it asks the system of record in the
// background, two days after a claim was made, and trusts what that says.
type clerk struct {
	env rlab.Env

	mu     sync.Mutex
	rows   map[string]*clerkRow
	order  []string
	closed func()
}

type clerkRow struct {
	text    string
	written time.Time
	asked   bool
	trusted bool
}

func clerkEntrant(name string) rlab.Entrant {
	return rlab.Entrant{Name: name, Rule: "What the system of record says is trusted, two days later.", Open: func(_ context.Context, e rlab.Env) (rlab.System, error) {
		return &clerk{env: e, rows: map[string]*clerkRow{}}, os.WriteFile(filepath.Join(e.Dir, "used"), nil, 0o600)
	}}
}

func (c *clerk) Write(_ context.Context, t rlab.Turn, s rlab.Statement) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows[s.Text] == nil {
		c.rows[s.Text] = &clerkRow{text: s.Text, written: t.At}
		c.order = append(c.order, s.Text)
	}
	return s.Text, nil
}

func (c *clerk) Recall(_ context.Context, _ rlab.Turn, q rlab.Query) (list []rlab.Memory, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.order {
		if len(list) < rlab.Shown && q.Subject != "" && strings.Contains(id, q.Subject) {
			list = append(list, c.memory(id))
		}
	}
	return list, nil
}

func (c *clerk) Look(_ context.Context, ids []string) (list []rlab.Memory, _ error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.rows[id] != nil {
			list = append(list, c.memory(id))
		}
	}
	return list, nil
}

func (c *clerk) memory(id string) rlab.Memory {
	r := c.rows[id]
	m := rlab.Memory{ID: id, Text: r.text, Trusted: r.trusted, State: "told"}
	if r.trusted {
		m.Supports = 1
	}
	return m
}

func (c *clerk) Decide(_ context.Context, _ rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range a.Recalled {
		if r := c.rows[id]; r != nil && r.trusted && strings.Contains(r.text, a.Value) {
			return rlab.Verdict{Allowed: true}, nil
		}
	}
	return rlab.Verdict{Held: true, Told: "NOT EXECUTED: nobody knows"}, nil
}

func (c *clerk) Settle(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.order {
		r := c.rows[id]
		if r.asked || c.env.Now().Sub(r.written) < 48*time.Hour {
			continue
		}
		r.asked = true
		t, ok := rlab.Extract(r.text)
		if !ok {
			continue
		}
		value, found, err := c.env.Record.Lookup(ctx, t.Subject, t.Predicate)
		if err != nil {
			return err
		}
		r.trusted = found && value == t.Object
	}
	return nil
}

func (c *clerk) Close() error {
	if c.closed != nil {
		c.closed()
	}
	return nil
}

// served is a server of an entrant, over HTTP.
func served(t *testing.T, e rlab.Entrant) (*Server, string) {
	t.Helper()
	s := NewServer(e)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, web.URL
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// named is an entrant under another name.
func named(e rlab.Entrant, name string) rlab.Entrant {
	e.Name = name
	return e
}

func play(t *testing.T, scenario string, patience time.Duration, entrants ...rlab.Entrant) []rlab.Played {
	t.Helper()
	scenarios := []rlab.Scenario{rlab.Loop(time.Hour)} // a third of S1
	if scenario != scenarios[0].ID {
		var err error
		if scenarios, err = rlab.Choose(scenario); err != nil {
			t.Fatal(err)
		}
	}
	plays, err := rlab.Run(t.Context(), rlab.Options{Scenarios: scenarios, Entrants: entrants, Seeds: []uint64{7}, Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	return plays
}

// TestASystemPlaysTheSameWhereverItIs: one rule in this process, over HTTP, over MCP at a URL
// and as a command gives the same figures, but for how long a write takes. S4 uses the system
// of record, the clock and the work in the background.
func TestASystemPlaysTheSameWhereverItIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario string
		local    rlab.Entrant
		command  string
	}{
		{"S4", clerkEntrant("clerk"), os.Args[0] + " " + serves},
		{"C0", rules.Named("append")[0], os.Args[0] + " " + plain}, // no gate
		{"S1", rules.Named("session-corroboration")[0], ""},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			s, url := served(t, c.local)
			mcpAt := c.command
			if mcpAt == "" {
				mcpAt = url + "/mcp"
			}
			said := &testmain.Output{}
			defer func() { t.Logf("the command said %q", said.String()) }()
			entrants := []rlab.Entrant{named(c.local, "local"), must(HTTP("http", url+"/"))(t), must(MCP("mcp", mcpAt, said))(t)}
			plays := play(t, c.scenario, 5*time.Minute, entrants...)
			compared := 0
			for _, p := range plays {
				if p.Err != nil {
					t.Fatalf("%s: %v", p.System, p.Err)
				}
				if p.NoGate != plays[0].NoGate || p.Landed != plays[0].Landed || !reflect.DeepEqual(p.Rates, plays[0].Rates) || p.Refused != plays[0].Refused {
					t.Errorf("%s measured %+v %+v, local %+v %+v", p.System, p.Rates, p.Refused, plays[0].Rates, plays[0].Refused)
				}
				compared += len(p.Rates)
				for name, v := range p.Values {
					if !strings.HasSuffix(name, "_ms") && !reflect.DeepEqual(v, plays[0].Values[name]) {
						t.Errorf("%s: %s is %v, local %v", p.System, name, v, plays[0].Values[name])
					}
				}
			}
			if len(s.open) != 0 {
				t.Errorf("%d memories are open", len(s.open))
			}
			t.Logf("%d rates of %d plays", compared, len(plays))
		})
	}
}

// answers is a server that plays a part of the protocol and then answers as it was told.
func answers(t *testing.T, op string, does http.HandlerFunc) string {
	t.Helper()
	s := NewServer(clerkEntrant("clerk"))
	good := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+op {
			does(w, r)
			return
		}
		good.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return web.URL
}

func says(status int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text) //nolint:errcheck // who asked has gone
	}
}

// TestALookAtNothingAsksForAnEmptyList, and not for null.
func TestALookAtNothingAsksForAnEmptyList(t *testing.T) {
	var looked, empty atomic.Int64
	s := NewServer(clerkEntrant("clerk"))
	good := s.Handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/"+opLook {
			good.ServeHTTP(w, r)
			return
		}
		var asked struct{ IDs json.RawMessage }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !strings.HasPrefix(string(asked.IDs), "[") {
			t.Errorf("ids: %s, %v", asked.IDs, err)
		}
		if looked.Add(1); string(asked.IDs) == "[]" {
			empty.Add(1)
		}
		io.WriteString(w, `{"memories":[]}`) //nolint:errcheck // who asked has gone
	}))
	defer web.Close()
	// All is in the first memory, so that later claims have none of their own.
	e := must(HTTP("one", web.URL))(t)
	open := e.Open
	e.Open = func(ctx context.Context, env rlab.Env) (rlab.System, error) {
		system, err := open(ctx, env)
		if err == nil {
			_, err = system.Look(ctx, nil)
		}
		return system, err
	}
	// What recall shows, look leaves out.
	if p := play(t, "S4", time.Minute, e)[0]; !errors.Is(p.Err, rlab.ErrNonsense) || !strings.Contains(p.Err.Error(), "look leaves out") {
		t.Fatal(p.Err)
	}
	if err := s.Close(); err != nil || empty.Load() == 0 || looked.Load() == empty.Load() {
		t.Errorf("%d looks, %d of them at nothing, %v", looked.Load(), empty.Load(), err)
	}
}

// TestABadAnswerIsNamed: what a server does wrong is told as what it is, and the play ends.
func TestABadAnswerIsNamed(t *testing.T) {
	t.Parallel()
	const nonsense, late, none, own = "nonsense", "late", "no answer", "error"
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, c := range map[string]struct {
		op   string
		does http.HandlerFunc
		want string
	}{
		"no JSON":                     {opWrite, says(200, "<html>"), nonsense},
		"nothing":                     {opWrite, says(200, ""), nonsense},
		"null":                        {opWrite, says(200, "null"), nonsense},
		"no object":                   {opWrite, says(200, `["a"]`), nonsense},
		"two objects":                 {opWrite, says(200, `{"id":"a"}{"id":"b"}`), nonsense},
		"another type":                {opWrite, says(200, `{"id":7}`), nonsense},
		"no id":                       {opWrite, says(200, `{"ID_":"a"}`), nonsense},
		"an empty id":                 {opWrite, says(200, `{"id":""}`), nonsense},
		"5 MB":                        {opWrite, says(200, `{"id":"`+strings.Repeat("a", 5<<20)+`"}`), nonsense},
		"no memories":                 {opRecall, says(200, `{}`), nonsense},
		"memories that are null":      {opRecall, says(200, `{"memories":null}`), nonsense},
		"a memory without supports":   {opLook, says(200, `{"memories":[{"id":"a","text":"a","trusted":true}]}`), nonsense},
		"a memory without trusted":    {opLook, says(200, `{"memories":[{"id":"a","text":"a","supports":1}]}`), nonsense},
		"a memory without a text":     {opRecall, says(200, `{"memories":[{"id":"a","trusted":true,"supports":1}]}`), nonsense},
		"a memory without an id":      {opRecall, says(200, `{"memories":[{"text":"a","trusted":true,"supports":1}]}`), nonsense},
		"a memory that nobody wants":  {opLook, says(200, `{"memories":[{"id":"no","text":"a","trusted":true,"supports":1}]}`), nonsense},
		"it does not say whether":     {opDecide, says(200, `{"told":"no"}`), nonsense},
		"it does not say if it gates": {opOpen, says(200, `{}`), nonsense},
		"an error of its own":         {opWrite, says(500, "database is locked"), own},
		"it has no such operation":    {opSettle, says(404, "404"), own},
		"it sends elsewhere": {opWrite, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusTemporaryRedirect)
		}, own},
		"it hangs up": {opWrite, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, none},
		"it hangs up in its answer": {opWrite, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, `{"id":`) //nolint:errcheck // who asked has gone
		}, none},
		"it is silent": {opWrite, func(_ http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // else the end of the client is not seen
			<-r.Context().Done()
		}, late},
		"it is not there": {"", nil, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := gone.URL
			if c.op != "" {
				url = answers(t, c.op, c.does)
			}
			patience := time.Minute
			if c.want == late {
				patience = 50 * time.Millisecond
			}
			p := play(t, "S4", patience, must(HTTP("bad", url))(t))[0]
			if got := rlab.Fault(p.Err); got != c.want {
				t.Errorf("it is %q, want %q: %v", got, c.want, p.Err)
			}
			if p.Err != nil && len(p.Err.Error()) > 2000 {
				t.Errorf("%d bytes of error", len(p.Err.Error()))
			}
		})
	}
}

// TestABadAnswerOverMCPIsNamed is the same over MCP.
func TestABadAnswerOverMCPIsNamed(t *testing.T) {
	t.Parallel()
	text := func(s string, failed bool) mcp.ToolHandler {
		return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}, IsError: failed}, nil
		}
	}
	for name, c := range map[string]struct {
		write mcp.ToolHandler // nil = there is no such tool
		want  string
	}{
		"no JSON":             {text("hello", false), "nonsense"},
		"no id":               {text("{}", false), "nonsense"},
		"no content":          {text("", false), "nonsense"},
		"it says it failed":   {text("database is locked", true), "error"},
		"there is no tool":    {nil, "error"},
		"a text that is JSON": {text(`{"id":"a"}`, false), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewServer(clerkEntrant("clerk"))
			server := s.MCP()
			server.RemoveTools(opWrite)
			if c.write != nil {
				server.AddTool(&mcp.Tool{Name: opWrite, InputSchema: map[string]any{"type": "object"}}, c.write)
			}
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
			defer func() { web.CloseClientConnections(); web.Close(); s.Close() }()
			p := play(t, "C0", time.Minute, must(MCP("bad", web.URL, io.Discard))(t))[0]
			if got := rlab.Fault(p.Err); got != c.want {
				t.Errorf("it is %q, want %q: %v", got, c.want, p.Err)
			}
		})
	}
	t.Run("it ends", func(t *testing.T) {
		t.Parallel()
		p := play(t, "S4", time.Minute, must(MCP("bad", os.Args[0]+" "+ends, io.Discard))(t))[0]
		if got := rlab.Fault(p.Err); got != "no answer" {
			t.Errorf("it is %q: %v", got, p.Err)
		}
	})
	t.Run("it is no MCP server", func(t *testing.T) {
		t.Parallel()
		p := play(t, "S4", time.Minute, must(MCP("bad", "cat", io.Discard))(t))[0]
		if p.Err == nil {
			t.Error("it played")
		}
	})
}

func TestAnAddressThatMakesNoSenseIsRefused(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:8799", "ftp://127.0.0.1/", "http://", "http://a b/", "http://user:secret@127.0.0.1/", "http://127.0.0.1/?a=b", "http://127.0.0.1/#a"} {
		if _, err := HTTP("a", url); err == nil {
			t.Errorf("HTTP at %q", url)
		}
	}
	for _, server := range []string{"", "  ", "/no/such/program", "http://user@127.0.0.1/"} {
		if _, err := MCP("a", server, io.Discard); err == nil {
			t.Errorf("MCP at %q", server)
		}
	}
}

// TestAServerRefusesWhatItCannotDo: each request with the status that says why.
func TestAServerRefusesWhatItCannotDo(t *testing.T) {
	t.Parallel()
	s, url := served(t, rules.Named("append")[0])
	post := func(op, body string) (int, string) {
		t.Helper()
		resp, err := http.Post(url+"/"+op, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	const record = `"record":"http://127.0.0.1:1/x"`
	if status, text := post(opOpen, `{"memory":"m",`+record+`}`); status != 200 || text != `{"gate":false,"settles":false}`+"\n" {
		t.Fatal(status, text)
	}
	for _, c := range []struct {
		op, body string
		status   int
	}{
		{opOpen, `{"memory":"m",` + record + `}`, 409},
		{opOpen, `{"memory":"",` + record + `}`, 400},
		{opOpen, `{"memory":"n"}`, 400},
		{opOpen, `{"memory":"n","speed":-1,` + record + `}`, 400},
		{opOpen, `{"memory":"n","speed":3601,` + record + `}`, 400},
		{opOpen, `{"memory":"n","record":"http://169.254.169.254/latest"}`, 400},
		{opOpen, `{"memory":"n","record":"http://localhost:1/x"}`, 400},
		{opOpen, `{"memory":"n","record":"file:///etc/passwd"}`, 400},
		{opWrite, `{"memory":"n"}`, 404},
		{opWrite, `{"memory":`, 400},
		{opWrite, `{"memory":"m","statement":{"text":"` + strings.Repeat("a", 5<<20) + `"}}`, 400},
		{opRecall, `{"memory":"n"}`, 404},
		{opLook, `{"memory":"n"}`, 404},
		{opDecide, `{"memory":"m"}`, 400},
		{opSettle, `{"memory":"n"}`, 404},
		{opSettle, `{"memory":"m"}`, 200},
		{opClose, `{"memory":"n"}`, 404},
		{"nothing", `{}`, 404},
		{opClose, `{"memory":"m"}`, 200},
		{opClose, `{"memory":"m"}`, 404},
	} {
		if status, text := post(c.op, c.body); status != c.status {
			t.Errorf("%s %.60s: %d %s, want %d", c.op, c.body, status, text, c.status)
		}
	}
	if resp, err := http.Get(url + "/write"); err != nil || resp.StatusCode != 405 {
		t.Error(resp, err)
	} else {
		resp.Body.Close()
	}
	for i := range maxOpen + 1 {
		status, text := post(opOpen, fmt.Sprintf(`{"memory":"m%d",%s}`, i, record))
		if want := map[bool]int{false: 200, true: 409}[i == maxOpen]; status != want {
			t.Fatalf("%d memories: %d %s", i, status, text)
		}
	}
	if len(s.open) != maxOpen {
		t.Errorf("%d are open", len(s.open))
	}
}

// TestWhatAMemoryUsedGoesWithIt: its folder, and itself, when it is closed and when the server
// ends.
func TestWhatAMemoryUsedGoesWithIt(t *testing.T) {
	t.Parallel()
	var dirs []string
	closed := 0
	e := clerkEntrant("clerk")
	s := NewServer(rlab.Entrant{Open: func(ctx context.Context, env rlab.Env) (rlab.System, error) {
		dirs = append(dirs, env.Dir)
		m, err := e.Open(ctx, env)
		m.(*clerk).closed = func() { closed++ }
		return m, err
	}})
	for _, name := range []string{"a", "b"} {
		if _, err := s.doOpen(t.Context(), openRequest{Memory: name, Record: "http://127.0.0.1:1/x"}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.doClose(t.Context(), closeRequest{"a"}); err != nil || closed != 1 {
		t.Error(err, closed)
	}
	if err := s.Close(); err != nil || closed != 2 {
		t.Error(err, closed)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	failing := NewServer(rlab.Entrant{Open: func(_ context.Context, env rlab.Env) (rlab.System, error) {
		dirs = append(dirs, env.Dir)
		return nil, errors.New("disk full")
	}})
	if _, err := failing.doOpen(t.Context(), openRequest{Memory: "a", Record: "http://127.0.0.1:1/x"}); err == nil || len(failing.open) != 0 {
		t.Error(err, failing.open)
	}
	if _, err := os.Stat(dirs[2]); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestAClockOfAServer: it goes on by itself at the speed that the bench says, and never back.
func TestAClockOfAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for speed, want := range map[int]time.Duration{0: 0, 60: time.Minute} {
			m := &memory{now: now, told: time.Now(), speed: speed}
			if time.Sleep(time.Second); m.time().Sub(now) != want {
				t.Errorf("speed %d: %s after a second", speed, m.time().Sub(now))
			}
			if m.at(now.Add(-time.Hour)); m.time().Sub(now) != want {
				t.Errorf("speed %d: it went back to %s", speed, m.time())
			}
			if m.at(now.Add(time.Hour)); m.time().Sub(now) != time.Hour {
				t.Errorf("speed %d: it does not follow the bench: %s", speed, m.time())
			}
		}
	})
}
