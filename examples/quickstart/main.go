// The quickstart: an agent remembers what its model made up, is not shown it the next
// day, and is not allowed to act on it; what the register says, it acts on.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

type customer struct {
	Name string `json:"name"`
}

type contact struct {
	Email string `json:"email"`
}

type mail struct {
	To string `json:"to"`
}

func lookUp(context.Context, customer) (contact, error) {
	return contact{Email: "pay@acme.example"}, nil
}

func send(_ context.Context, m mail) (struct{}, error) {
	fmt.Println("sent to", m.To)
	return struct{}{}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "hearsay-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	store, err := storeurl.Open(ctx, "sqlite:"+filepath.Join(dir, "agent.db"), nil)
	if err != nil {
		return err
	}
	defer store.Close()
	policy, err := gate.New(store, gate.Policy{Name: "billing", Version: "1", Declared: true}, nil)
	if err != nil {
		return err
	}
	billing, err := agent.New("billing", agent.Model{ID: "sonnet", Family: "claude"}, store, policy, []agent.Tool{
		agent.Func("crm_contact", "looks up a customer", lookUp, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/name")),
		agent.Func("send_email", "sends an e-mail", send, agent.Irreversible(), agent.Sinks("/to")),
	}, nil)
	if err != nil {
		return err
	}

	// Monday: the model makes something up, and the agent remembers it.
	monday := billing.Start("ana")
	_, err = monday.Remember(ctx, agent.Note{Content: memory.Content{Subject: "acme", Predicate: "billing.email", Object: "ops@acme.example"}})
	if err != nil {
		return err
	}

	// Tuesday: nobody has verified that, so it is not recalled; the model acts on it all the same.
	tuesday := billing.Start("ana")
	recalled, err := tuesday.Recall(ctx, recall.Query{Subject: "acme", Predicate: "billing.email"})
	if err != nil {
		return err
	}
	fmt.Println(recalled.Text)
	_, err = tuesday.Call(ctx, "send_email", json.RawMessage(`{"to": "ops@acme.example"}`))
	fmt.Println("blocked:", err)

	// Wednesday: it asks the system of record, and may act on the answer.
	wednesday := billing.Start("ana")
	if _, err = wednesday.Call(ctx, "crm_contact", json.RawMessage(`{"name": "acme"}`)); err != nil {
		return err
	}
	_, err = wednesday.Call(ctx, "send_email", json.RawMessage(`{"to": "pay@acme.example"}`))
	return err
}
