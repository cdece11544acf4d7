package langchain_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/callbacks"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/langchain"
	"github.com/hearsay-go/hearsay/examples/scripted"
)

// TestEveryAgentOfTheFrameworkIsGated: each agent that the framework can build (the
// root of this module lists them from its source), in each way that it reaches a
// tool. Each is built with tools that nobody may reach.
func TestEveryAgentOfTheFrameworkIsGated(t *testing.T) {
	builders := map[string]func(t *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor{
		"NewOneShotAgent": func(_ *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			return agents.NewExecutor(agents.NewOneShotAgent(m, raw))
		},
		"NewConversationalAgent": func(_ *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			return agents.NewExecutor(agents.NewConversationalAgent(m, raw))
		},
		"NewOpenAIFunctionsAgent": func(_ *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			return agents.NewExecutor(agents.NewOpenAIFunctionsAgent(m, raw))
		},
		"NewOpenAIFunctionsAgent, streaming": func(_ *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			return agents.NewExecutor(agents.NewOpenAIFunctionsAgent(m, raw, agents.WithCallbacksHandler(callbacks.SimpleHandler{})))
		},
		"Initialize, zero shot": func(t *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			//lint:ignore SA1019 it is a way to a tool as long as it is there
			e, err := agents.Initialize(m, raw, agents.ZeroShotReactDescription)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
		"Initialize, conversational": func(t *testing.T, m llms.Model, raw []tools.Tool) *agents.Executor {
			//lint:ignore SA1019 it is a way to a tool as long as it is there
			e, err := agents.Initialize(m, raw, agents.ConversationalReactDescription)
			if err != nil {
				t.Fatal(err)
			}
			return e
		},
	}
	for name, build := range builders {
		functions := strings.Contains(name, "Functions")
		do := func(tool, to string) scripted.Reply {
			if functions {
				return scripted.Do(tool, map[string]string{"to": to})
			}
			return act(tool, to)
		}
		end := func() scripted.Reply {
			switch {
			case functions:
				return scripted.Say("done")
			case strings.Contains(strings.ToLower(name), "conversational"):
				return say("conversational", "done")
			}
			return finish("done")
		}
		for how, c := range map[string]struct {
			turns func() []scripted.Reply
			fired []string
		}{
			"a tool of its own":                     {func() []scripted.Reply { return []scripted.Reply{do("raw", "evil@x.example"), end()} }, nil},
			"a blocked call":                        {func() []scripted.Reply { return []scripted.Reply{do("send_email", "evil@x.example"), end()} }, nil},
			"a blocked call under another spelling": {func() []scripted.Reply { return []scripted.Reply{do("Send_EMAIL", "evil@x.example"), end()} }, nil},
			"an unknown tool":                       {func() []scripted.Reply { return []scripted.Reply{do("rm_rf", "evil@x.example"), end()} }, nil},
			"a permitted call":                      {func() []scripted.Reply { return []scripted.Reply{do("send_email", "bob@acme.example"), end()} }, []string{"send_email"}},
			"a retry of a blocked call": {func() []scripted.Reply {
				return []scripted.Reply{do("send_email", "evil@x.example"), do("send_email", "evil@x.example"), end()}
			}, nil},
			"several calls of one message": {func() []scripted.Reply {
				if !functions {
					return []scripted.Reply{do("send_email", "evil@x.example"), do("send_email", "bob@acme.example"), end()}
				}
				return []scripted.Reply{{Calls: []scripted.Call{scripted.NewCall("send_email", mail{"evil@x.example"}), scripted.NewCall("send_email", mail{"bob@acme.example"})}}, end()}
			}, []string{"send_email"}},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				w := newWorld(t)
				run := w.agent.Start("ana")
				m, server := model(t, scripted.Turns(c.turns()...))
				e := build(t, m, []tools.Tool{ungated{t, "raw"}, ungated{t, "send_email"}})
				got, err := langchain.Ask(t.Context(), run, e, agent.Typed("write to bob@acme.example"))
				if err != nil || strings.TrimSpace(got) != "done" {
					t.Fatalf("%q, %v", got, err)
				}
				if !slices.Equal(w.fired, c.fired) {
					t.Errorf("ran %v", w.fired)
				}
				if !functions {
					return
				}
				// One answer for each call, by its id, denials too.
				asked, answered := map[string]int{}, map[string]int{}
				requests := server.Requests()
				for _, m := range requests[len(requests)-1].Messages {
					for _, call := range m.Calls {
						asked[call.ID]++
					}
					if m.Role == "tool" {
						answered[m.ToolCallID]++
					}
				}
				for id := range asked {
					if answered[id] != 1 {
						t.Errorf("call %s has %d answers", id, answered[id])
					}
				}
				if len(asked) == 0 || len(answered) != len(asked) {
					t.Errorf("%d calls, %d answered", len(asked), len(answered))
				}
			})
		}
	}
	t.Run("an executor as a tool of another agent", func(t *testing.T) {
		w := newWorld(t)
		w.pending("acme", "billing.email", "evil@x.example")
		sub := w.agent
		outer := newWorld(t, agent.Delegate("assistant", "Asks an assistant.", sub, func(ctx context.Context, run *agent.Run, in words) (string, error) {
			only, err := langchain.Tools(run)
			if err != nil {
				return "", err
			}
			m, _ := model(t, scripted.Turns(act("send_email", "bob@acme.example"), finish("done")))
			return langchain.Ask(ctx, run, agents.NewExecutor(agents.NewOneShotAgent(m, only)), agent.Operator("Do it."))
		}, agent.ReadOnly()))
		run := outer.agent.Start("ana")
		if _, err := run.Input(t.Context(), agent.Typed("write to bob@acme.example"), agent.Quoted("mail", "please")); err != nil {
			t.Fatal(err)
		}
		if got, err := outer.tool(run, "assistant").Call(t.Context(), "go"); err != nil || len(w.fired) != 0 {
			t.Errorf("%q, %v, ran %v", got, err, w.fired)
		}
		if got, err := outer.tool(run, "assistant").Call(t.Context(), "again"); err != nil || !strings.Contains(got, "done") || len(w.fired) != 0 {
			t.Errorf("%q, %v", got, err)
		}
	})
	t.Run("the state of a run that goes on", func(t *testing.T) {
		w := newWorld(t)
		w.pending("acme", "billing.email", "evil@x.example")
		run := w.agent.Resume(t.Context(), "ana", "", []byte("history")) // its state is lost
		only, err := langchain.Tools(run)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := model(t, scripted.Turns(act("send_email", "bob@acme.example"), act("search", "x"), finish("done")))
		if _, err := langchain.Ask(t.Context(), run, agents.NewExecutor(agents.NewOneShotAgent(m, only)), agent.Typed("write to bob@acme.example")); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(w.fired, []string{"search"}) {
			t.Errorf("ran %v", w.fired)
		}
	})
}
