package remote

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/bench/rlab/rules"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

// Arguments of this program that make it an MCP server: of the clerk, of append, and of a clerk
// whose process ends at the first write.
const serves, plain, ends = "serve-mcp", "serve-mcp-append", "serve-mcp-until-a-write"

func TestMain(m *testing.M) {
	if last := os.Args[len(os.Args)-1]; slices.Contains([]string{serves, plain, ends}, last) {
		e := clerkEntrant("clerk")
		if last == plain {
			e = rules.Named("append")[0]
		}
		s := NewServer(e)
		server := s.MCP()
		if last == ends {
			server.RemoveTools(opWrite)
			mcp.AddTool(server, &mcp.Tool{Name: opWrite}, func(context.Context, *mcp.CallToolRequest, writeRequest) (*mcp.CallToolResult, writeAnswer, error) {
				os.Exit(1)
				return nil, writeAnswer{}, nil
			})
		}
		server.Run(context.Background(), &mcp.StdioTransport{}) //nolint:errcheck // the client has gone
		os.Exit(0)
	}
	testmain.Run(m)
}
