package langchain_test

import (
	"context"
	"fmt"
	"log"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/langchain"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A gated tool gives a denial as an observation, so that the executor goes on.
func ExampleTools() {
	ctx := context.Background()
	store := storetest.NewStore(nil)
	g, err := gate.New(store, gate.Policy{Name: "example", Version: "1", Declared: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := agent.New("billing", agent.Model{ID: "sonnet-4.6", Family: "claude"}, store, g, []agent.Tool{
		agent.Func("send_email", "Sends an e-mail.", func(_ context.Context, in mail) (string, error) { return "sent to " + in.To, nil }),
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	run := a.Start("ana")
	if _, err := run.Input(ctx, agent.Typed("Write to ops@acme.example.")); err != nil {
		log.Fatal(err)
	}
	tools, err := langchain.Tools(run) // for agents.NewOneShotAgent and agents.NewExecutor
	if err != nil {
		log.Fatal(err)
	}
	for _, address := range []string{"evil@x.example", "ops@acme.example"} {
		observation, err := tools[0].Call(ctx, address)
		fmt.Printf("%.34s, %v\n", observation, err)
	}
	// Output:
	// NOT EXECUTED: send_email was not r, <nil>
	// sent to ops@acme.example, <nil>
}
