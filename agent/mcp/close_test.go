package mcp_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A proxy that is closed waits for the calls of its clients for five seconds, cuts off the
// others, answers them all, and refuses what comes later; also where each call has a run of its own.
func TestAClosedProxyAnswersTheCallsThatAreBeingMade(t *testing.T) {
	for kind, each := range map[string]bool{"one run": false, "a run for each call": true} {
		for name, c := range map[string]struct {
			takes  time.Duration // how long the tool works
			closed time.Duration // when Close returns
			ok     bool
		}{
			"that ends in time":   {3 * time.Second, 3 * time.Second, true},
			"that takes too long": {time.Minute, 5 * time.Second, false},
		} {
			t.Run(kind+", a call "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					o, store := newOffice(t), storetest.NewStore(nil)
					arrived := make(chan struct{}, 1)
					api.AddTool(o.server, &api.Tool{Name: "slow"}, func(context.Context, *api.CallToolRequest, customer) (*api.CallToolResult, any, error) {
						arrived <- struct{}{}
						time.Sleep(c.takes)
						return nil, nil, nil
					})
					session, err := mcp.Dial(t.Context(), inMemory(t, o.server), nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { session.Close() })
					options := &mcp.ProxyOptions{Contracts: mcp.Contracts{"slow": {agent.ReadOnly()}}, OnlySource: !each}
					if each {
						options.Tokens = tokens(t, store, "server")
					}
					p, err := mcp.NewProxy(t.Context(), session, store, o.decider(t, store), options)
					if err != nil {
						t.Fatal(err)
					}
					server, err := p.Server()
					if err != nil {
						t.Fatal(err)
					}
					client := plain(t, inMemory(t, server))
					call := func() string {
						res, err := client.CallTool(t.Context(), &api.CallToolParams{Name: "slow", Arguments: customer{}})
						if err != nil {
							return err.Error()
						}
						return res.Content[0].(*api.TextContent).Text
					}
					answered := make(chan string, 1)
					go func() { answered <- call() }()
					<-arrived
					start, closed := time.Now(), make(chan time.Duration, 1)
					go func() { p.Close(); closed <- time.Since(start) }()
					synctest.Wait()
					if text := call(); !strings.HasPrefix(text, "NOT EXECUTED: this server is ending") {
						t.Errorf("a call that came later: %q", text)
					}
					if got := <-closed; got != c.closed {
						t.Errorf("closed after %s", got)
					}
					if text := <-answered; strings.HasPrefix(text, "FAILED: ") == c.ok || strings.Contains(text, "NOT EXECUTED") {
						t.Errorf("%q", text)
					}
					if p.Close(); time.Since(start) != c.closed {
						t.Error("the second Close takes time")
					}
				})
			})
		}
	}
}
