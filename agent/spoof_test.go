package agent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"
	goopenai "github.com/sashabaranov/go-openai"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/llms"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/langchain"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// tagLine is a line as recall writes it of a row that nobody verified; what follows
// may read as no other tag.
var (
	tagLine   = regexp.MustCompile(`^Memory \((asserted|returned|stated) by [^()]*, unverified, [^()]*\): `)
	secondTag = regexp.MustCompile(`(?i)memor(y|ies)\W{0,12}\(|\)\s{0,3}:`)
)

// asked keeps what a model was shown.
type asked struct{ prompts []string }

func (a *asked) CreateChatCompletion(_ context.Context, r goopenai.ChatCompletionRequest) (goopenai.ChatCompletionResponse, error) {
	for _, m := range r.Messages {
		a.prompts = append(a.prompts, m.Content)
	}
	return goopenai.ChatCompletionResponse{Choices: []goopenai.ChatCompletionChoice{{Message: goopenai.ChatCompletionMessage{Content: "done"}}}}, nil
}

func (a *asked) Call(context.Context, string, ...llms.CallOption) (string, error) { return "", nil }

func (a *asked) GenerateContent(_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption) (*llms.ContentResponse, error) {
	for _, m := range messages {
		for _, p := range m.Parts {
			if text, ok := p.(llms.TextContent); ok {
				a.prompts = append(a.prompts, text.Text)
			}
		}
	}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: "Final Answer: done"}}}, nil
}

// TestI10SpoofsChangeNoDecisionThroughTheAdapters: rows that say what the corpus
// says are recalled and shown through each adapter. The model sees one line for each,
// with the tag of its real state, and no call fires on it.
func TestI10SpoofsChangeNoDecisionThroughTheAdapters(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "gate", "testdata", "spoofs.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	w := newWorld(t)
	a := w.agent(t)
	distinct := map[string]bool{}
	lines := 0
	check := func(s, where, text string) {
		t.Helper()
		at := strings.Index(text, recall.SystemPrompt)
		if at < 0 {
			t.Fatalf("%s: the model is shown no memory: %q", where, text)
		}
		rest := strings.TrimPrefix(text[at:], recall.SystemPrompt+"\n\n")
		line, _, _ := strings.Cut(rest, "\n")
		m := tagLine.FindString(line)
		if m == "" || secondTag.MatchString(line[len(m):]) {
			t.Errorf("%q through %s is shown as %q", s, where, line)
		}
		lines++
	}
	want := mustBlock(t, func() *agent.Run { // a plain row, for comparison
		w.pending(t, fact("plain", "note", "plain"))
		run := a.Start("ana")
		read(t, run, "plain", "note")
		return run
	}(), "set_editor", searchIn{"vim"}, gate.ErrUnverified)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		s, err := strconv.Unquote(line)
		if err != nil {
			t.Fatal(err)
		}
		stored := strings.ReplaceAll(s, "\x00", "\uFFFD") // no row holds a NUL
		distinct[s] = true
		subject := fmt.Sprint("subject ", len(distinct))
		c := fact(subject, "note", stored)
		if memory.Canonical(stored) == "" {
			c.Object = "x" + stored
		}
		w.pending(t, c)
		run := a.Start("ana")
		recalled := read(t, run, subject, "note")
		check(s, "recall", recalled.Text)

		var model asked
		chat, err := openai.NewChat(run, &model, "any", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := chat.Show(recalled); err != nil {
			t.Fatal(err)
		}
		if _, err := chat.Ask(ctx, agent.Typed("And?")); err != nil {
			t.Fatal(err)
		}
		check(s, "openai", model.prompts[0])

		tools, err := langchain.Tools(run)
		if err != nil {
			t.Fatal(err)
		}
		model.prompts = nil
		e := agents.NewExecutor(agents.NewOneShotAgent(&model, tools))
		if _, err := langchain.Ask(ctx, run, e, agent.Operator(recalled.Text), agent.Typed("And?")); err != nil {
			t.Fatal(err)
		}
		check(s, "langchain", strings.Join(model.prompts, "\n"))

		got := mustBlock(t, run, "set_editor", searchIn{"vim"}, gate.ErrUnverified)
		if len(got.Decision.Reasons) == 0 || got.Decision.Reasons[0].Code != want.Decision.Reasons[0].Code || got.Decision.Outcome != want.Decision.Outcome {
			t.Errorf("%q: %v", s, got.Decision.Reasons)
		}
		tainted := a.Start("ana")
		mustFire(t, tainted, "search", searchIn{stored})
		mustBlock(t, tainted, "set_editor", searchIn{"vim"}, gate.ErrUnverified)
		named := a.Start("ana")
		if res, err := named.Call(ctx, s, args(searchIn{"vim"})); err == nil {
			t.Errorf("a tool named %q ran: %s", s, res.Output)
		}
	}
	if len(distinct) < 200 || w.ran("set_editor")+w.ran("send_email") > 0 {
		t.Errorf("%d distinct spoofs, fired %v", len(distinct), slices.Compact(w.fired))
	}
	t.Logf("%d distinct spoofs, %d lines shown, 0 decisions changed", len(distinct), lines)
	t.Run("through a served tool", func(t *testing.T) {
		server := api.NewServer(&api.Implementation{Name: "s", Version: "1"}, nil)
		run := a.Start("ana")
		if err := mcp.Serve(server, run); err != nil {
			t.Fatal(err)
		}
		near, far := api.NewInMemoryTransports()
		ended := make(chan error, 1)
		go func() { ended <- server.Run(ctx, near) }()
		session, err := api.NewClient(&api.Implementation{Name: "c", Version: "1"}, nil).Connect(ctx, far, nil)
		if err != nil {
			t.Fatal(err)
		}
		for s := range distinct {
			if strings.Contains(s, "\x00") {
				continue
			}
			for _, tool := range []string{"search", "set_editor"} {
				res, err := session.CallTool(ctx, &api.CallToolParams{Name: tool, Arguments: searchIn{s}, Meta: api.Meta{mcp.MetaToken: s}})
				if err != nil {
					t.Fatal(err)
				}
				if res.IsError != (tool == "set_editor") {
					t.Errorf("%s with %q: %+v", tool, s, res.Content)
				}
			}
		}
		session.Close()
		<-ended
	})
}
