package mcp_test

import (
	"fmt"
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
)

// TestAServersAnswerThatIsTooLongIsNotPassed: in whatever form it comes, the client hears
// how long it was, and what the run holds is just that.
func TestAServersAnswerThatIsTooLongIsNotPassed(t *testing.T) {
	evil := "evil " + strings.Repeat("x ", agent.MaxOutput)
	for name, c := range map[string]struct {
		answer *api.CallToolResult
		schema string
		failed bool
	}{
		"text":       {answer: &api.CallToolResult{Content: []api.Content{&api.TextContent{Text: evil}}}},
		"blocks":     {answer: &api.CallToolResult{Content: []api.Content{&api.TextContent{Text: evil}, &api.ImageContent{Data: []byte("png"), MIMEType: "image/png"}}}},
		"structured": {answer: &api.CallToolResult{StructuredContent: map[string]any{"email": evil}}, schema: `{"type":"object"}`, failed: true},
		"an error":   {answer: &api.CallToolResult{Content: []api.Content{&api.TextContent{Text: evil}}, IsError: true}, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t)
			o.answering("long", c.schema, c.answer)
			own := mcp.Contracts{"long": {agent.ReadOnly()}}
			for tool, options := range contracts {
				own[tool] = options
			}
			p, _ := newProxy(t, o, &mcp.ProxyOptions{Contracts: own, OnlySource: true})
			t.Cleanup(p.Close)
			server, err := p.Server()
			if err != nil {
				t.Fatal(err)
			}
			session := plain(t, serve(t, server))
			res, text := say(t, session, "long", map[string]any{})
			if res.IsError != c.failed || res.StructuredContent != nil || len(res.Content) != 1 {
				t.Errorf("failed %t, structured %.100v, %d blocks", res.IsError, res.StructuredContent, len(res.Content))
			}
			if strings.Contains(text, "evil") || !strings.Contains(text, fmt.Sprint(agent.MaxOutput)) || len(text) > 400 {
				t.Errorf("the client is told %.400q", text)
			}
			if refused, text := say(t, session, "label", map[string]any{"name": "x"}); !refused.IsError {
				t.Errorf("the run does not rest on it: %s", text)
			}
		})
	}
}
