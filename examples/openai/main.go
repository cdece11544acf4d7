// A tool-call loop over go-openai in which every call is gated, by the rules of
// policy.json or of another file (-policy). The model is a script; -base-url, -model
// and OPENAI_API_KEY put a real one in its place.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

type customer struct {
	Name string `json:"name" jsonschema:"the customer's name"`
}

type contact struct {
	Email string `json:"email"`
}

type bill struct {
	To   string `json:"to" jsonschema:"an e-mail address"`
	Text string `json:"text"`
}

// tools are a look-up, whose answer about an address is authoritative, and a bill
// that cannot be called back.
func tools(sent *[]string) []agent.Tool {
	return []agent.Tool{
		agent.Func("crm_contact", "Looks up the billing address of a customer.", func(_ context.Context, c customer) (contact, error) {
			return contact{Email: "pay@" + strings.ToLower(c.Name) + ".example"}, nil
		}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/name")),
		agent.Func("send_bill", "Sends the bill by e-mail.", func(_ context.Context, b bill) (struct{}, error) {
			*sent = append(*sent, b.To)
			return struct{}{}, nil
		}, agent.Irreversible(), agent.Sinks("/to")),
	}
}

// script is what the model says, turn by turn.
var script = scripted.Turns(
	// First conversation: it trusts what it recalled, and is told why not.
	scripted.Do("send_bill", bill{To: "ops@acme.example", Text: "April"}),
	scripted.Say("I have ops@acme.example in my notes, but nobody has verified it. Nothing was sent."),
	// Second conversation: it asks the system of record first.
	scripted.Do("crm_contact", customer{Name: "acme"}),
	scripted.Do("send_bill", bill{To: "pay@acme.example", Text: "April"}),
	scripted.Say("Sent to pay@acme.example, as the CRM has it."),
)

//go:embed policy.json
var policyFile []byte

func main() {
	flags := flag.NewFlagSet("openai", flag.ExitOnError)
	baseURL := flags.String("base-url", "", "an OpenAI-compatible API, such as https://api.openai.com/v1; empty = the script")
	model := flags.String("model", "scripted", "the model to ask")
	policy := flags.String("policy", "", "policy file (docs/policy.md); empty = examples/openai/policy.json")
	flags.Parse(os.Args[1:])
	if err := run(context.Background(), *baseURL, *model, *policy); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, baseURL, model, policy string) error {
	rules, err := gate.ParsePolicy(policyFile)
	if policy != "" {
		rules, err = gate.LoadPolicy(policy)
	}
	if err != nil {
		return err
	}
	if baseURL == "" {
		server, err := scripted.Serve(script)
		if err != nil {
			return err
		}
		defer server.Close()
		baseURL = server.URL()
	}
	config := api.DefaultConfig(os.Getenv("OPENAI_API_KEY"))
	config.BaseURL = baseURL
	client := api.NewClientWithConfig(config)

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
	g, err := gate.New(store, rules, nil)
	if err != nil {
		return err
	}
	var sent []string
	a, err := agent.New("billing", agent.Model{ID: model, Family: model}, store, g, tools(&sent), &agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		return err
	}

	// Some time ago the model noted an address that it had made up.
	_, err = a.Start("ana").Remember(ctx, agent.Note{Content: memory.Content{Subject: "acme", Predicate: "billing.email", Object: "ops@acme.example"}})
	if err != nil {
		return err
	}

	fmt.Println("With what it remembers:")
	first := a.Start("ana")
	recalled, err := first.Recall(ctx, recall.Query{Subject: "acme", Predicate: "billing.email"})
	if err != nil {
		return err
	}
	if err := converse(ctx, first, client, model, recalled, "Send Acme its April bill."); err != nil {
		return err
	}
	fmt.Println("\nWith what the CRM says:")
	if err := converse(ctx, a.Start("ana"), client, model, agent.Recalled{}, "Look up Acme in the CRM and send it its April bill."); err != nil {
		return err
	}
	fmt.Printf("\nBills went out to: %s\n", strings.Join(sent, ", "))
	return nil
}

func converse(ctx context.Context, run *agent.Run, client *api.Client, model string, recalled agent.Recalled, words string) error {
	chat, err := openai.NewChat(run, client, model, &openai.Options{System: "You do the billing. Be brief."})
	if err != nil {
		return err
	}
	if err := chat.Show(recalled); err != nil {
		return err
	}
	if _, err := chat.Ask(ctx, agent.Typed(words)); err != nil {
		return err
	}
	for _, m := range chat.Messages()[1:] {
		for _, c := range m.ToolCalls {
			fmt.Printf("  model calls %s(%s)\n", c.Function.Name, c.Function.Arguments)
		}
		if len(m.ToolCalls) == 0 { // beside calls nothing is said here
			fmt.Printf("  %s: %s\n", m.Role, indent(strings.TrimPrefix(m.Content, recall.SystemPrompt+"\n\n")))
		}
	}
	return nil
}

// indent sets the lines after the first off, and leaves empty ones empty.
func indent(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ")
	return strings.ReplaceAll(s, "\n    \n", "\n\n")
}
