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
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// stuck is a decider that takes a minute, whatever its context says.
type stuck struct{ agent.Decider }

func (d stuck) Decide(ctx context.Context, r gate.Request) gate.Decision {
	time.Sleep(time.Minute)
	return d.Decider.Decide(ctx, r)
}

// Close returns, whatever a call that was cut off still does, and a second Close waits for
// nothing.
func TestACloseDoesNotWaitForWhatCannotBeCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, store := newOffice(t), storetest.NewStore(nil)
		p := proxyInMemory(t, o, store, stuck{o.decider(t, store)}, &mcp.ProxyOptions{Contracts: contracts, OnlySource: true})
		server, err := p.Server()
		if err != nil {
			t.Fatal(err)
		}
		client := plain(t, inMemory(t, server))
		answered := make(chan error, 1)
		go func() {
			_, err := client.CallTool(t.Context(), &api.CallToolParams{Name: "search", Arguments: customer{"acme"}})
			answered <- err
		}()
		synctest.Wait()
		start := time.Now()
		if p.Close(); time.Since(start) != 6*time.Second {
			t.Errorf("closed after %s", time.Since(start))
		}
		if p.Close(); time.Since(start) != 6*time.Second {
			t.Errorf("closed again after %s", time.Since(start))
		}
		<-answered
	})
	(*mcp.Proxy)(nil).Close()
	new(mcp.Proxy).Close()
}

// A server whose context ends makes no more calls by itself, and lets those that clients make
// come to their end.
func TestAServerWhoseContextEndsCutsOffNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, o := storetest.NewStore(nil), newOffice(t)
		arrived := make(chan struct{})
		slow := agent.Func("slow", "", func(ctx context.Context, _ struct{}) (string, error) {
			close(arrived)
			select {
			case <-time.After(time.Minute):
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}, agent.ReadOnly())
		a, err := agent.New("desk", agent.Model{ID: "m", Family: "f"}, store, o.decider(t, store), []agent.Tool{slow}, &agent.Options{Tokens: tokens(t, store, "server")})
		if err != nil {
			t.Fatal(err)
		}
		server := api.NewServer(&api.Implementation{Name: "desk", Version: "1"}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		if err := mcp.ServeEach(ctx, server, a, func(api.Request) (string, error) { return "ana", nil }); err != nil {
			t.Fatal(err)
		}
		client := plain(t, inMemory(t, server))
		answered := make(chan string, 1)
		go func() {
			res, err := client.CallTool(t.Context(), &api.CallToolParams{Name: "slow", Arguments: struct{}{}})
			if err != nil {
				answered <- err.Error()
				return
			}
			answered <- res.Content[0].(*api.TextContent).Text
		}()
		<-arrived
		cancel()
		if text := <-answered; text != "done" {
			t.Errorf("%q", text)
		}
	})
}

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
					options := &mcp.ProxyOptions{Contracts: mcp.Contracts{"slow": {agent.ReadOnly()}}, OnlySource: !each}
					if each {
						options.Tokens = tokens(t, store, "server")
					}
					p := proxyInMemory(t, o, store, o.decider(t, store), options)
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
