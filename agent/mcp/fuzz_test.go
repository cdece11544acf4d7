package mcp_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/mcp"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// wire is what a client writes; what the server says goes nowhere.
type wire struct{ io.Reader }

func (wire) Close() error                { return nil }
func (wire) Write(b []byte) (int, error) { return len(b), nil }

// FuzzFrames: whatever a client writes, the server does not panic, and no tool that
// changes something runs, since the run is of unknown lineage.
func FuzzFrames(f *testing.F) {
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}` + "\n" +
		`{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"
	for _, s := range []string{
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"label","arguments":{}}}` + "\n",
		hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"label","arguments":{"a":1,"a":2},"_meta":{"io.github.hearsay-go/lineage":"hl1.AAAA"}}}` + "\n",
		hello + `[{"jsonrpc":"2.0","id":2,"method":"tools/call"},{"jsonrpc":"2.0","id":2,"method":"tools/list"}]` + "\n",
		hello + `{"jsonrpc":"2.0","id":null,"method":"tools/call","params":[]}` + "\n", `{"jsonrpc":`, "\x00\n", "[]\n", hello + hello,
		hello + `{"jsonrpc":"2.0","id":2,"method":"TOOLS/CALL","params":{"name":"LABEL","arguments":null,"_meta":7}}` + "\n",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, frames string) {
		if len(frames) > 1<<16 {
			return
		}
		store := storetest.NewStore(nil)
		g, err := gate.New(store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New("a", agent.Model{ID: "m", Family: "m"}, store, g, []agent.Tool{
			agent.Raw("label", "", &jsonschema.Schema{Type: "object"}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
				t.Error("a tool ran")
				return nil, nil
			}, agent.StateChanging()),
		}, &agent.Options{Tokens: tokens(t, store, "server")})
		if err != nil {
			t.Fatal(err)
		}
		server := api.NewServer(&api.Implementation{Name: "s", Version: "1"}, nil)
		if err := mcp.ServeEach(t.Context(), server, a, func(api.Request) (string, error) { return "ana", nil }); err != nil {
			t.Fatal(err)
		}
		end := wire{strings.NewReader(frames)}
		server.Run(t.Context(), &api.IOTransport{Reader: end, Writer: end}) //nolint:errcheck // what it thinks of the client
	})
}
