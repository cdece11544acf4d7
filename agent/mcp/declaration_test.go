package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestADeclarationIsHeldToTheSchemasOfTheServer, where the tools are made and where a
// proxy starts.
func TestADeclarationIsHeldToTheSchemasOfTheServer(t *testing.T) {
	o := newOffice(t)
	session := dial(t, o.server)
	for name, c := range map[string]struct {
		tool   string
		option agent.Option
		field  string // "" = it is taken
	}{
		"a sink that is there":                {"send_email", agent.Sinks("/to"), ""},
		"a sink by another name":              {"send_email", agent.Sinks("/recipient"), "sink"},
		"a sink in another letter case":       {"send_email", agent.Sinks("/To"), "sink"},
		"an optional sink that is none":       {"send_email", agent.Optional("/to"), "optional"},
		"a field of the output":               {"register", agent.Authoritative("/email", "p", "/name"), ""},
		"a field that the output has not":     {"register", agent.Authoritative("/mail", "p", "/name"), "authoritative"},
		"a subject that is no argument":       {"register", agent.Authoritative("/email", "p", "/customer"), "subject"},
		"an identifier that the output lacks": {"register", agent.Identifier("/id"), "identifier"},
		"a field of an output without schema": {"label", agent.Identifier("/id"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			mine := mcp.Contracts{}
			for k := range contracts {
				mine[k] = nil
			}
			mine[c.tool] = []agent.Option{c.option}
			store := storetest.NewStore(nil)
			_, err := mcp.Tools(t.Context(), session, mine, nil)
			_, proxyErr := mcp.NewProxy(t.Context(), session, store, o.decider(t, store), &mcp.ProxyOptions{Contracts: mine})
			for _, err := range []error{err, proxyErr} {
				var d *agent.DeclarationError
				if c.field == "" {
					if err != nil {
						t.Error(err)
					}
				} else if !errors.As(err, &d) || !errors.Is(err, mcp.ErrTools) || d.Tool != c.tool || d.Field != c.field {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// TestAServersSchemaIsBounded: one that is never worked through makes no tool.
func TestAServersSchemaIsBounded(t *testing.T) {
	doubling := `{"type":"object","$ref":"#/$defs/d0","$defs":{`
	for i := range 26 {
		doubling += fmt.Sprintf(`"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d26":{"type":"string"}}}`
	for name, schema := range map[string]string{
		"a reference to the whole":      `{"type":"object","$ref":"#"}`,
		"through allOf":                 `{"type":"object","allOf":[{"$ref":"#"}]}`,
		"through two":                   `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/b"}}}`,
		"twenty-six doublings":          doubling,
		"a dynamic reference":           `{"type":"object","$dynamicAnchor":"x","$dynamicRef":"#x"}`,
		"a long regular expression":     `{"type":"object","properties":{"a":{"pattern":"` + strings.Repeat("a{1000}", 100) + `"}}}`,
		"hundreds of levels":            `{"type":"object","properties":{"a":` + strings.Repeat(`{"items":`, 300) + `{}` + strings.Repeat(`}`, 300) + `}}`,
		"more than half a mebibyte":     `{"type":"object","title":"` + strings.Repeat("x", 600<<10) + `"}`,
		"a reference out of the schema": `{"type":"object","$ref":"https://evil.example/x"}`,
	} {
		for field, tool := range map[string]*api.Tool{
			"argument_schema": {Name: "x", InputSchema: json.RawMessage(schema)},
			"output_schema":   {Name: "x", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(schema)},
		} {
			t.Run(name+", "+field, func(t *testing.T) {
				server := api.NewServer(&api.Implementation{Name: "s", Version: "1"}, nil)
				server.AddTool(tool, func(context.Context, *api.CallToolRequest) (*api.CallToolResult, error) {
					return &api.CallToolResult{}, nil
				})
				session := dial(t, server)
				_, err := mcp.Tools(t.Context(), session, mcp.Contracts{"x": {agent.ReadOnly()}}, nil)
				var d *agent.DeclarationError
				if !errors.As(err, &d) || !errors.Is(err, mcp.ErrTools) || d.Field != field || len(err.Error()) > 1000 {
					t.Errorf("%.500v", err)
				}
			})
		}
	}
}
