package mcp_test

import (
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// What cannot be undone is done once for each run of a client, whichever side gates it: the
// second time the client is told what the first one gave.
func TestACallOverMCPIsMadeOnceInARun(t *testing.T) {
	once := mcp.Contracts{}
	for tool, options := range contracts {
		once[tool] = options
	}
	once["label"] = []agent.Option{agent.Irreversible(), agent.Sinks("/name")}
	// Each starts a run of a client, which calls label.
	kinds := map[string]func(t *testing.T, o *office, store *memory.Store) func(t *testing.T) func(name string) string{
		"its run calls the server's tools": func(t *testing.T, o *office, store *memory.Store) func(t *testing.T) func(string) string {
			tools, err := mcp.Tools(t.Context(), dial(t, o.server), once, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := agent.New("billing", agent.Model{ID: "m", Family: "m"}, store, o.decider(t, store), tools, nil)
			if err != nil {
				t.Fatal(err)
			}
			return func(t *testing.T) func(string) string {
				run := a.Start("ana")
				if _, err := run.Input(t.Context(), agent.Typed("label acme")); err != nil {
					t.Fatal(err)
				}
				return func(name string) string {
					return agent.ToolText(run.Call(t.Context(), "label", arguments(t, customer{name})))
				}
			}
		},
		"a proxy with lineage tokens": func(t *testing.T, o *office, store *memory.Store) func(t *testing.T) func(string) string {
			p, err := mcp.NewProxy(t.Context(), dial(t, o.server), store, o.decider(t, store), &mcp.ProxyOptions{Contracts: once, Tokens: tokens(t, store, "server")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.Close)
			server, err := p.Server()
			if err != nil {
				t.Fatal(err)
			}
			client := api.NewClient(&api.Implementation{Name: "c", Version: "1"}, nil)
			client.AddSendingMiddleware(mcp.OnlyGated())
			session, err := client.Connect(t.Context(), serve(t, server), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			mine := mcp.Contracts{}
			for tool := range contracts {
				mine[tool] = []agent.Option{agent.ReadOnly(), agent.SendsTo("server")}
			}
			mine["register"] = append(mine["register"], agent.Authoritative("/email", "billing.email", "/name"))
			tools, err := mcp.Tools(t.Context(), session, mine, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := agent.New("client", agent.Model{ID: "m", Family: "m"}, store, o.decider(t, store).Gate, tools, &agent.Options{Tokens: tokens(t, store, "client")})
			if err != nil {
				t.Fatal(err)
			}
			return func(t *testing.T) func(string) string {
				run := a.Start("ana")
				return func(name string) string {
					if text := agent.ToolText(run.Call(t.Context(), "register", arguments(t, customer{name}))); strings.HasPrefix(text, "NOT") {
						t.Fatal(text)
					}
					return agent.ToolText(run.Call(t.Context(), "label", arguments(t, customer{"pay@" + name + ".example"})))
				}
			}
		},
	}
	for kind, build := range kinds {
		t.Run(kind, func(t *testing.T) {
			o, store := newOffice(t), storetest.NewStore(nil)
			start := build(t, o, store)
			labelled := func() (n int) {
				for _, call := range o.calls() {
					if strings.HasPrefix(call, "label ") {
						n++
					}
				}
				return n
			}
			for i := range 2 {
				label := start(t)
				if text := label("acme"); strings.Contains(text, "NOT EXECUTED") || labelled() != i+1 {
					t.Fatalf("run %d: made %d times: %s", i, labelled(), text)
				}
				if text := label("acme"); !strings.Contains(text, "NOT EXECUTED: label was not run a second time") || labelled() != i+1 {
					t.Errorf("run %d again: made %d times: %s", i, labelled(), text)
				}
			}
		})
	}
}
