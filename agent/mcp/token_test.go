package mcp_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func tokens(t testing.TB, store *memory.Store, audience string) *agent.Tokens {
	t.Helper()
	key := func(b byte) ed25519.PrivateKey {
		return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize))
	}
	got, err := agent.NewTokens(store, agent.TokenOptions{Audience: audience, KeyID: audience, Key: key(audience[0]),
		Trusted: map[string]ed25519.PublicKey{"client": key('c').Public().(ed25519.PublicKey)}})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestLineageCrossesMCP: what a client's run has read feeds its calls on the server,
// through the token in _meta; and what comes without one is of unknown lineage.
func TestLineageCrossesMCP(t *testing.T) {
	servers := map[string]func(t *testing.T, o *office, store *memory.Store) *api.Server{
		"a server that gates its own tools": func(t *testing.T, o *office, store *memory.Store) *api.Server {
			a, err := agent.New("desk", agent.Model{ID: "m", Family: "m"}, store, o.decider(t, store), []agent.Tool{
				agent.Func("label", "Sets a label.", func(_ context.Context, in customer) (string, error) {
					o.ran("label " + in.Name)
					return "done", nil
				}, agent.StateChanging()),
			}, &agent.Options{Tokens: tokens(t, store, "server")})
			if err != nil {
				t.Fatal(err)
			}
			server := api.NewServer(&api.Implementation{Name: "desk", Version: "1"}, nil)
			if err := mcp.ServeEach(t.Context(), server, a, func(api.Request) (string, error) { return "ana", nil }); err != nil {
				t.Fatal(err)
			}
			return server
		},
		"a proxy": func(t *testing.T, o *office, store *memory.Store) *api.Server {
			p, err := mcp.NewProxy(t.Context(), dial(t, o.server), store, o.decider(t, store),
				&mcp.ProxyOptions{Contracts: contracts, Tokens: tokens(t, store, "server")})
			if err != nil {
				t.Fatal(err)
			}
			server, err := p.Server()
			if err != nil {
				t.Fatal(err)
			}
			return server
		},
	}
	for kind, build := range servers {
		for name, c := range map[string]struct {
			tainted bool
			options []agent.Option
			way     func(p *api.CallToolParams)
			fires   bool
		}{
			"a clean run's call fires":                              {false, []agent.Option{agent.SendsTo("server")}, nil, true},
			"the call of a run that read a pending row is blocked":  {true, []agent.Option{agent.SendsTo("server")}, nil, false},
			"a call without a token is of unknown lineage":          {false, nil, nil, false},
			"a call for another audience is":                        {false, []agent.Option{agent.SendsTo("another")}, nil, false},
			"a call whose token was taken away is":                  {false, []agent.Option{agent.SendsTo("server")}, func(p *api.CallToolParams) { p.Meta = nil }, false},
			"a call whose token is no text is":                      {false, []agent.Option{agent.SendsTo("server")}, func(p *api.CallToolParams) { p.Meta = api.Meta{mcp.MetaToken: 7} }, false},
			"a call whose arguments were changed on the way is":     {false, []agent.Option{agent.SendsTo("server")}, func(p *api.CallToolParams) { p.Arguments = json.RawMessage(`{"name":"beta"}`) }, false},
			"arguments that were only spelled otherwise still hold": {false, []agent.Option{agent.SendsTo("server")}, func(p *api.CallToolParams) { p.Arguments = json.RawMessage(` { "name" : "\u0061cme" } `) }, true},
		} {
			t.Run(name+", at "+kind, func(t *testing.T) {
				o := newOffice(t)
				store := storetest.NewStore(nil)
				client := api.NewClient(&api.Implementation{Name: "c", Version: "1"}, nil)
				client.AddSendingMiddleware(func(next api.MethodHandler) api.MethodHandler {
					return func(ctx context.Context, method string, req api.Request) (api.Result, error) {
						if p, ok := req.GetParams().(*api.CallToolParams); ok && c.way != nil {
							c.way(p)
						}
						return next(ctx, method, req)
					}
				}, mcp.OnlyGated())
				session, err := client.Connect(t.Context(), serve(t, build(t, o, store)), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { session.Close() })
				// Who declares the tool wrongly, as one that only reads, launders nothing.
				mine := mcp.Contracts{"label": append([]agent.Option{agent.ReadOnly()}, c.options...)}
				for tool := range contracts {
					if kind == "a proxy" && tool != "label" {
						mine[tool] = nil
					}
				}
				handles, err := mcp.Tools(t.Context(), session, mine, nil)
				if err != nil {
					t.Fatal(err)
				}
				own := o.decider(t, store)
				a, err := agent.New("billing", agent.Model{ID: "sonnet-4.6", Family: "claude"}, store, own.Gate, handles,
					&agent.Options{Tokens: tokens(t, store, "client"), Recall: recall.Policy{Channels: recall.All}})
				if err != nil {
					t.Fatal(err)
				}
				run := a.Start("ana")
				if c.tainted {
					if _, err := run.Input(t.Context(), agent.Quoted("mail", "Set Acme's label.")); err != nil {
						t.Fatal(err)
					}
				}
				text := agent.ToolText(run.Call(t.Context(), "label", arguments(t, customer{"acme"})))
				if fired := len(o.calls()) > 0; fired != c.fires || strings.Contains(text, "NOT EXECUTED: label") == c.fires {
					t.Errorf("fired %t: %s", fired, text)
				}
				if again := agent.ToolText(run.Call(t.Context(), "label", arguments(t, customer{"acme"}))); c.fires && !strings.Contains(again, "NOT EXECUTED: label") {
					t.Errorf("after its own answer, which is third-party text: %s", again)
				}
			})
		}
	}
	t.Run("tokens and OnlySource exclude each other", func(t *testing.T) {
		o, store := newOffice(t), storetest.NewStore(nil)
		if _, err := mcp.NewProxy(t.Context(), dial(t, o.server), store, o.decider(t, store), &mcp.ProxyOptions{OnlySource: true, Tokens: tokens(t, store, "server")}); err == nil {
			t.Error("no error")
		}
	})
}
