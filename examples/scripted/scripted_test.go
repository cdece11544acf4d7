package scripted_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	api "github.com/sashabaranov/go-openai"
	"github.com/tmc/langchaingo/llms"
	lcopenai "github.com/tmc/langchaingo/llms/openai"

	"github.com/hearsay-go/hearsay/examples/scripted"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func serve(t *testing.T, s scripted.Script) *scripted.Server {
	t.Helper()
	server, err := scripted.Serve(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

func client(t *testing.T, s *scripted.Server) *api.Client {
	t.Helper()
	config := api.DefaultConfig("none")
	h := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(h.CloseIdleConnections)
	config.BaseURL, config.HTTPClient = s.URL(), h
	return api.NewClientWithConfig(config)
}

func TestTheScriptedModelSpeaksTheWireFormat(t *testing.T) {
	server := serve(t, scripted.Turns(
		scripted.Reply{Text: "let me see", Calls: []scripted.Call{scripted.NewCall("find", map[string]string{"id": "7"}), {ID: "mine", Name: "find", Args: "not json"}}},
		scripted.Say("done"),
	))
	c := client(t, server)
	req := api.ChatCompletionRequest{Model: "any", Messages: []api.ChatCompletionMessage{{Role: "user", Content: "go"}},
		Tools: []api.Tool{{Type: api.ToolTypeFunction, Function: &api.FunctionDefinition{Name: "find"}}}}
	first, err := c.CreateChatCompletion(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	m := first.Choices[0].Message
	if m.Content != "let me see" || len(m.ToolCalls) != 2 || m.ToolCalls[0].ID == "" || m.ToolCalls[1].ID != "mine" ||
		m.ToolCalls[0].Function.Arguments != `{"id":"7"}` || m.ToolCalls[1].Function.Arguments != "not json" {
		t.Errorf("message %+v", m)
	}
	if first.Choices[0].FinishReason != api.FinishReasonToolCalls || first.Usage.TotalTokens == 0 || first.ID == "" {
		t.Errorf("response %+v", first)
	}
	req.Messages = append(req.Messages, m, api.ChatCompletionMessage{Role: "tool", ToolCallID: m.ToolCalls[0].ID, Content: "found"})
	second, err := c.CreateChatCompletion(t.Context(), req)
	if err != nil || second.Choices[0].Message.Content != "done" {
		t.Fatalf("%+v, %v", second, err)
	}
	got := server.Requests()
	if len(got) != 2 || got[1].Turn != 1 || got[1].Last() != "found" || got[1].Messages[1].Calls[0].Name != "find" || got[0].Tools[0] != "find" {
		t.Errorf("requests %+v", got)
	}

	t.Run("a turn beyond the script is an HTTP error", func(t *testing.T) {
		_, err := c.CreateChatCompletion(t.Context(), req)
		var e *api.APIError
		if !errors.As(err, &e) || e.HTTPStatusCode != 500 || !strings.Contains(e.Message, "2 turns") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("streaming is refused", func(t *testing.T) {
		req.Stream = true
		s, err := c.CreateChatCompletionStream(t.Context(), req)
		if err == nil {
			s.Close()
			t.Error("it streamed")
		}
	})
}

func TestLangchaingoCanAskIt(t *testing.T) {
	server := serve(t, func(r scripted.Request) scripted.Reply { return scripted.Say("you said: " + r.Last()) })
	model, err := lcopenai.New(lcopenai.WithBaseURL(server.URL()), lcopenai.WithToken("none"), lcopenai.WithModel("any"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := llms.GenerateFromSinglePrompt(t.Context(), model, "hello")
	if err != nil || got != "you said: hello" {
		t.Errorf("%q, %v", got, err)
	}
}
