package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// An agent calls the tools of an MCP server. What each of them does is declared by
// the program, not by the server.
func ExampleTools() {
	ctx, stop := context.WithCancel(context.Background())
	server := api.NewServer(&api.Implementation{Name: "office", Version: "1"}, nil)
	api.AddTool(server, &api.Tool{Name: "register"}, func(_ context.Context, _ *api.CallToolRequest, in customer) (*api.CallToolResult, contact, error) {
		return nil, contact{Email: "pay@" + in.Name + ".example"}, nil
	})
	api.AddTool(server, &api.Tool{Name: "send_email"}, func(_ context.Context, _ *api.CallToolRequest, in mail) (*api.CallToolResult, any, error) {
		fmt.Println("sent to", in.To)
		return nil, nil, nil
	})
	near, far := api.NewInMemoryTransports() // a program of its own: api.CommandTransport
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Run(ctx, near) // until the program stops it
	}()
	defer func() { stop(); <-ended }()

	session, err := mcp.Dial(ctx, far, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	tools, err := mcp.Tools(ctx, session, mcp.Contracts{
		"register":   {agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/name")},
		"send_email": {agent.Irreversible(), agent.Sinks("/to")},
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	store := storetest.NewStore(nil)
	g, err := gate.New(store, gate.Policy{Name: "example", Version: "1", Declared: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := agent.New("billing", agent.Model{ID: "sonnet-4.6", Family: "claude"}, store, g, tools, nil)
	if err != nil {
		log.Fatal(err)
	}
	run := a.Start("ana")
	_, err = run.Call(ctx, "send_email", json.RawMessage(`{"to":"ops@acme.example"}`))
	fmt.Println(err != nil)
	res, err := run.Call(ctx, "register", json.RawMessage(`{"name":"acme"}`))
	fmt.Println(agent.ToolText(res, err))
	_, err = run.Call(ctx, "send_email", json.RawMessage(`{"to":"pay@acme.example"}`))
	fmt.Println(err)
	// Output:
	// true
	// {"email":"pay@acme.example"}
	// sent to pay@acme.example
	// <nil>
}
