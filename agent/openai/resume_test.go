package openai_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// booking is an agent with a tool whose held calls are made by themselves, and a row
// that nobody has verified.
func booking(ctx context.Context, booked func(room string) (string, error)) (*memory.Store, *agent.Agent, memory.ID, error) {
	store := storetest.NewStore(nil)
	g, err := gate.New(store, gate.Policy{Name: "example", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		return nil, nil, "", err
	}
	a, err := agent.New("desk", agent.Model{ID: "sonnet-4.6", Family: "claude"}, store, g, []agent.Tool{
		agent.Func("book", "books a room", func(_ context.Context, in words) (string, error) { return booked(in.Words) },
			agent.StateChanging(), agent.FiresWhenFree()),
	}, &agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		return nil, nil, "", err
	}
	row, err := store.Put(ctx, memory.Draft{
		Content: memory.Content{Subject: "acme", Predicate: "room", Object: "Blue", Cardinality: memory.CardinalityFunctional},
		Origin:  memory.OriginModelDerived, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "x", Model: "sonnet-4.6", Family: "claude"}})
	return store, a, row.ID, err
}

// verify moves a row to verified, as a promotion worker does.
func verify(ctx context.Context, store *memory.Store, id memory.ID) error {
	rows, err := store.Get(ctx, id)
	if err != nil {
		return err
	}
	_, err = store.Apply(ctx, memory.Transition{Row: id, Revision: rows[0].Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
		Actor: "worker", Source: "crm", Reason: "it agrees", Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool,
			Source: "crm", Verifier: "crm", Group: "tool:crm", Anchor: memory.Anchor{URI: "crm://1"}, At: store.Now()}}})
	return err
}

// TestTheResultOfAParkedCallReachesTheModel: a parked call is answered at once, and its
// result comes later, in messages that the API takes: one answer to every call.
func TestTheResultOfAParkedCallReachesTheModel(t *testing.T) {
	for name, c := range map[string]struct {
		fails bool
		want  string
	}{
		"a call that was made":                {false, "booked Blue"},
		"a call that was made and went wrong": {true, "FAILED: "},
	} {
		t.Run(name, func(t *testing.T) {
			made := 0
			store, a, row, err := booking(t.Context(), func(room string) (string, error) {
				if made++; c.fails {
					return "", errors.New("no such room")
				}
				return "booked " + room, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			server, client := serve(t, scripted.Turns(scripted.Do("book", words{"Blue"}), scripted.Say("It waits."), scripted.Say("Done.")))
			run, chat := knowing(t, a, client)
			if _, err := chat.Resume(t.Context()); !errors.Is(err, agent.ErrNothingParked) {
				t.Errorf("before: %v", err)
			}
			reply, err := chat.Ask(t.Context(), agent.Typed("Book our room."))
			if err != nil || reply.Text() != "It waits." || made != 0 || !strings.Contains(server.Requests()[1].Last(), "made by itself once the statement is verified") {
				t.Fatalf("%+v, %v, made %d times", reply, err, made)
			}
			if err := verify(t.Context(), store, row); err != nil {
				t.Fatal(err)
			}
			before := len(run.Lineage().Direct())
			if reply, err = chat.Resume(t.Context()); err != nil || reply.Text() != "Done." || made != 1 {
				t.Fatalf("%+v, %v, made %d times", reply, err, made)
			}
			if len(run.Lineage().Direct()) <= before {
				t.Error("the result is not in the lineage of the run")
			}
			sent := server.Requests()[2].Messages
			if got := sent[len(sent)-1]; got.Role != "tool" || !strings.HasPrefix(got.Text, c.want) {
				t.Errorf("the model was shown %+v", got)
			}
			var asked, answered []string
			for _, m := range chat.Messages() {
				for _, call := range m.ToolCalls {
					asked = append(asked, call.ID)
					if call.Function.Name != "book" || call.Function.Arguments != `{"words":"Blue"}` || call.Type != api.ToolTypeFunction {
						t.Errorf("%+v", call)
					}
				}
				if m.Role == api.ChatMessageRoleTool {
					answered = append(answered, m.ToolCallID)
				}
			}
			if len(asked) != 2 || asked[0] == asked[1] || !slices.Equal(asked, answered) {
				t.Errorf("calls %q, answers %q", asked, answered)
			}
			if _, err := chat.Resume(t.Context()); !errors.Is(err, agent.ErrNothingParked) {
				t.Errorf("after: %v", err)
			}
		})
	}
}

// A call waits for a row, the row is verified, and the model hears how it went.
func ExampleChat_Resume() {
	ctx := context.Background()
	model, err := scripted.Serve(scripted.Turns(
		scripted.Do("book", words{"Blue"}), scripted.Say("The booking waits."), scripted.Say("Booked."),
	))
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	config := api.DefaultConfig("no key")
	config.BaseURL = model.URL()
	store, a, row, err := booking(ctx, func(room string) (string, error) { return "booked " + room, nil })
	if err != nil {
		log.Fatal(err)
	}
	run := a.Start("ana")
	defer run.Close()
	chat, err := openai.NewChat(run, api.NewClientWithConfig(config), "any", nil)
	if err != nil {
		log.Fatal(err)
	}
	recalled, err := run.Recall(ctx, recall.Query{Subject: "acme", Predicate: "room"})
	if err != nil {
		log.Fatal(err)
	}
	if err := chat.Show(recalled); err != nil {
		log.Fatal(err)
	}
	reply, err := chat.Ask(ctx, agent.Typed("Book our room."))
	fmt.Println(reply.Text(), err)
	if err := verify(ctx, store, row); err != nil { // a worker does this
		log.Fatal(err)
	}
	reply, err = chat.Resume(ctx)
	fmt.Println(reply.Text(), err)
	// Output:
	// The booking waits. <nil>
	// Booked. <nil>
}

// knowing is a conversation that was shown which room is acme's.
func knowing(t *testing.T, a *agent.Agent, client openai.Client) (*agent.Run, *openai.Chat) {
	t.Helper()
	run := a.Start("ana")
	chat, err := openai.NewChat(run, client, "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	recalled, err := run.Recall(t.Context(), recall.Query{Subject: "acme", Predicate: "room"})
	if err == nil {
		err = chat.Show(recalled)
	}
	if err != nil {
		t.Fatal(err)
	}
	return run, chat
}

// TestADenialOfAParkedCallCounts: the model has read it, so that two more of the same end the
// loop.
func TestADenialOfAParkedCallCounts(t *testing.T) {
	store, a, _, err := booking(t.Context(), func(string) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	book := scripted.Do("book", words{"Blue"})
	server, client := serve(t, scripted.Turns(book, scripted.Say("It waits."), book, book, book))
	run, chat := knowing(t, a, client)
	if _, err := chat.Ask(t.Context(), agent.Typed("Book our room.")); err != nil {
		t.Fatal(err)
	}
	held := run.Held()
	if _, err := store.MoveHold(t.Context(), memory.HoldMove{Hold: held[0].Hold, To: memory.HoldRejected, Actor: "cleo", Reason: "the room is taken"}); err != nil {
		t.Fatal(err)
	}
	if _, err := chat.Resume(t.Context()); !errors.Is(err, agent.ErrStalled) || len(server.Requests()) != 4 {
		t.Errorf("%v after %d requests", err, len(server.Requests()))
	}
}
