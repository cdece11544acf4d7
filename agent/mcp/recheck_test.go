package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A call that waits for a server to list its tools was not made if its context ends: it leaves
// no doubt, so that the same call may be made later.
func TestACallThatWaitsForTheToolsIsNotInDoubt(t *testing.T) {
	o, store := newOffice(t), storetest.NewStore(nil)
	asked, answer := make(chan struct{}), make(chan struct{})
	slow := false
	o.server.AddReceivingMiddleware(func(next api.MethodHandler) api.MethodHandler {
		return func(ctx context.Context, method string, req api.Request) (api.Result, error) {
			if method == "tools/list" && slow {
				close(asked)
				<-answer
			}
			return next(ctx, method, req)
		}
	})
	p, err := mcp.NewProxy(t.Context(), dial(t, o.server), store, o.decider(t, store), &mcp.ProxyOptions{OnlySource: true, Contracts: contracts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if _, err := p.Run().Input(t.Context(), agent.Typed("Write to pay@acme.example.")); err != nil {
		t.Fatal(err)
	}
	slow = true
	listed := make(chan error, 1)
	go func() {
		_, err := p.Recheck(t.Context())
		listed <- err
	}()
	<-asked
	ctx, cancel := context.WithCancel(t.Context())
	args, called := json.RawMessage(`{"to":"pay@acme.example"}`), make(chan error, 1)
	go func() {
		_, err := p.Run().Call(ctx, "send_email", args)
		called <- err
	}()
	for d, err := store.Decisions(t.Context()); len(d) == 0; d, err = store.Decisions(t.Context()) { // it was let through, and waits
		if err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-called; !errors.Is(err, agent.ErrNotCalled) || errors.Is(err, agent.ErrNoAnswer) || !strings.HasPrefix(agent.ToolText(agent.Result{}, err), "FAILED: ") {
		t.Errorf("%v", err)
	}
	close(answer)
	if err := <-listed; err != nil {
		t.Fatal(err)
	}
	var denied *gate.DeniedError // what the failed call said is a row that nobody has verified
	if _, err := p.Run().Call(t.Context(), "send_email", args); !errors.As(err, &denied) || denied.Decision.Has(gate.OutcomeUnknown) || len(o.calls()) != 0 {
		t.Errorf("%v, %q", err, o.calls())
	}
}
