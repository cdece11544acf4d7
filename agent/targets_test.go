package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
)

// TestManyTargetsAreLookedUp: the addresses in the longest text, in a run of many rows.
func TestManyTargetsAreLookedUp(t *testing.T) {
	w := newWorld(t)
	type post struct {
		To   string `json:"to"`
		Body string `json:"body"`
	}
	run := w.agent(t, agent.Func("post", "sends a letter", func(context.Context, post) (nothing, error) { return nothing{}, nil },
		agent.StateChanging(), agent.TypedSink(gate.KindRecipient, "/to"), agent.TypedSinks())).Start("ana")
	typed(t, run, "write to ops@acme.example")
	for i := range 300 {
		mustFire(t, run, "register", lookupIn{fmt.Sprint("w", i)})
	}
	mustFire(t, run, "search", searchIn{"acme"})
	var body strings.Builder
	for i := 0; body.Len() < gate.MaxArguments-100; i++ {
		fmt.Fprintf(&body, "a%d@x.example ", i)
	}
	mustBlock(t, run, "post", post{"ops@acme.example", body.String()}, gate.ErrUnverified)
}
