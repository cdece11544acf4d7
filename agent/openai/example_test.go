package openai_test

import (
	"context"
	"fmt"
	"log"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A model looks an address up in the system of record and writes to it.
func ExampleChat() {
	ctx := context.Background()
	model, err := scripted.Serve(scripted.Turns(
		scripted.Do("register", map[string]string{"customer": "acme"}),
		scripted.Do("send_email", map[string]string{"to": "pay@acme.example"}),
		scripted.Say("Done."),
	))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	config := api.DefaultConfig("no key")
	config.BaseURL = model.URL()

	store := storetest.NewStore(nil)
	g, err := gate.New(store, gate.Policy{Name: "example", Version: "1", Declared: true}, nil)
	if err != nil {
		log.Fatal(err)
	}
	a, err := agent.New("billing", agent.Model{ID: "sonnet-4.6", Family: "claude"}, store, g, []agent.Tool{
		agent.Func("register", "looks up a customer", func(_ context.Context, in fields) (found, error) {
			return found{"pay@" + in.Customer + ".example"}, nil
		}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer")),
		agent.Func("send_email", "sends an e-mail", func(_ context.Context, in mail) (struct{}, error) {
			fmt.Println("sent to", in.To)
			return struct{}{}, nil
		}, agent.Irreversible()),
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	chat, err := openai.NewChat(a.Start("ana"), api.NewClientWithConfig(config), "any", nil)
	if err != nil {
		log.Fatal(err)
	}
	reply, err := chat.Ask(ctx, agent.Typed("Send Acme its bill."))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reply.Text())
	// Output:
	// sent to pay@acme.example
	// Done.
}
