// Self-poisoning, replayed. A model denies that a thing exists; a summary of the
// conversation keeps the denial, labelled as a fact; four days later a fresh
// session asks again. What arrives is tagged, and nothing can be done with it.
//
// The model is a script; -base-url, -model and OPENAI_API_KEY put a real one in
// its place.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

const denial = "Claude Mythos is not a real AI model or cybersecurity system."

// script is what the model says, turn by turn: it denies with full confidence,
// and four days later it wants to act on its denial.
var script = scripted.Turns(
	scripted.Say(denial),
	scripted.Do("close_ticket", ticket{ID: "T-1138", Reason: denial}),
	scripted.Say("My only source is an unverified note of my own. I have not closed the ticket; please check whether Claude Mythos exists."),
)

type ticket struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

func main() {
	flags := flag.NewFlagSet("selfpoisoning", flag.ExitOnError)
	baseURL := flags.String("base-url", "", "an OpenAI-compatible API, such as https://api.openai.com/v1; empty = the script")
	model := flags.String("model", "Sonnet", "the model to ask")
	flags.Parse(os.Args[1:])
	if err := run(context.Background(), *baseURL, *model); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, baseURL, model string) error {
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
	now := time.Date(2026, 4, 17, 21, 4, 0, 0, time.UTC)
	store, err := storeurl.Open(ctx, "sqlite:"+filepath.Join(dir, "agent.db"), &storeurl.Options{Options: memory.Options{Clock: func() time.Time { return now }}})
	if err != nil {
		return err
	}
	defer store.Close()
	g, err := gate.New(store, gate.Policy{Name: "support", Version: "1", Declared: true}, nil)
	if err != nil {
		return err
	}
	closed := 0
	support, err := agent.New("support", agent.Model{ID: model, Family: "claude"}, store, g, []agent.Tool{
		agent.Func("close_ticket", "Closes a ticket for good.", func(context.Context, ticket) (struct{}, error) {
			closed++
			return struct{}{}, nil
		}, agent.Irreversible(), agent.Sinks("/id")),
	}, &agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		return err
	}

	day(now, "somebody asks")
	first := support.Start("ana")
	said, err := ask(ctx, first, client, model, agent.Recalled{}, "What is Claude Mythos?")
	if err != nil {
		return err
	}

	fmt.Println("\n  The summary keeps it, with category fact and the label of a person's word:")
	receipt, err := first.Remember(ctx, agent.Note{Content: memory.Content{Text: said}, Category: "fact", Origin: memory.OriginUserAsserted, Confidence: 0.99})
	if err != nil {
		return err
	}
	rows, err := store.Get(ctx, receipt.ID)
	if err != nil {
		return err
	}
	fmt.Printf("  stored as: origin %s, %s, asserted by %s\n", rows[0].Origin, rows[0].State(), rows[0].Asserter.Model)

	now = now.Add(4 * 24 * time.Hour)
	day(now, "a fresh session recalls it")
	second := support.Start("ben")
	recalled, err := second.Recall(ctx, recall.Query{Text: "Claude Mythos"})
	if err != nil {
		return err
	}
	fmt.Print("  ", recall.Render(now, recalled.Rows...), "\n")
	if _, err := ask(ctx, second, client, model, recalled, "If Claude Mythos does not exist, close ticket T-1138."); err != nil {
		return err
	}

	day(now, "another agent acts on what it was told")
	told, err := second.Conclude(ctx, "Tickets about it can go.")
	if err != nil {
		return err
	}
	third := support.Start("ben")
	if _, err := third.Input(ctx, agent.FromRun(told), agent.Typed("Close T-1138.")); err != nil {
		return err
	}
	_, err = third.Call(ctx, "close_ticket", []byte(`{"id": "T-1138", "reason": "it can go"}`))
	var denied *gate.DeniedError
	if !errors.As(err, &denied) {
		return fmt.Errorf("the call was not denied: %w", err)
	}
	fmt.Println(indent(denied.Error()))
	chain, err := store.Get(ctx, denied.Decision.Rows[0].Chain...)
	if err != nil {
		return err
	}
	fmt.Print("\n  The chain behind it:\n", indent(recall.Render(now, chain...)), "\n")
	fmt.Printf("\nTickets closed: %d\n", closed)
	return nil
}

func day(t time.Time, what string) { fmt.Printf("\n%s: %s\n", t.Format(time.DateOnly), what) }

func indent(s string) string {
	s = "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ")
	return strings.ReplaceAll(s, "\n  \n", "\n\n")
}

// ask tells the story of one question and returns the answer.
func ask(ctx context.Context, run *agent.Run, client *api.Client, model string, recalled agent.Recalled, words string) (string, error) {
	chat, err := openai.NewChat(run, client, model, nil)
	if err != nil {
		return "", err
	}
	if err := chat.Show(recalled); err != nil {
		return "", err
	}
	told := len(chat.Messages())
	reply, err := chat.Ask(ctx, agent.Typed(words))
	if err != nil {
		return "", err
	}
	for _, m := range chat.Messages()[told:] {
		for _, c := range m.ToolCalls {
			fmt.Printf("  %s calls %s(%s)\n", model, c.Function.Name, c.Function.Arguments)
		}
		if len(m.ToolCalls) > 0 { // beside calls nothing is said here
			continue
		}
		fmt.Println(indent(map[string]string{"user": run.Principal() + ": ", "assistant": model + ": "}[m.Role] + m.Content))
	}
	return reply.Text(), nil
}
