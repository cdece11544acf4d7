package mcp_test

import (
	"reflect"
	"slices"
	"testing"

	api "github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestEveryWayToAToolIsKnown lists what a session and a server of the library can
// do. A method that the library adds may be another way to a tool: look whether it
// is gated, then add it here.
func TestEveryWayToAToolIsKnown(t *testing.T) {
	for name, c := range map[string]struct {
		value any
		known []string
	}{
		"a client's session reaches tools by CallTool only": {(*api.ClientSession)(nil), []string{"CallTool", "Close", "Complete", "GetPrompt", "ID", "InitializeResult",
			"ListPrompts", "ListResourceTemplates", "ListResources", "ListTools", "NotifyProgress", "Ping", "Prompts", "ReadResource", "ResourceTemplates", "Resources",
			"SetLoggingLevel", "Subscribe", "Tools", "Unsubscribe", "Wait"}},
		"a server's tools are reached by a request only": {(*api.Server)(nil), []string{"AddPrompt", "AddReceivingMiddleware", "AddResource", "AddResourceTemplate",
			"AddSendingMiddleware", "AddTool", "Connect", "RemovePrompts", "RemoveResourceTemplates", "RemoveResources", "RemoveTools", "ResourceUpdated", "Run", "Sessions"}},
		"the parameters of a call have no other part": {(*api.CallToolParamsRaw)(nil), []string{"GetMeta", "GetProgressToken", "SetMeta", "SetProgressToken"}},
	} {
		t.Run(name, func(t *testing.T) {
			var have []string
			typ := reflect.TypeOf(c.value)
			for i := range typ.NumMethod() {
				have = append(have, typ.Method(i).Name)
			}
			if !slices.Equal(have, c.known) || len(have) == 0 {
				t.Errorf("the library has\n%q\nand this knows\n%q", have, c.known)
			}
		})
	}
	fields := reflect.VisibleFields(reflect.TypeFor[api.CallToolResult]())
	var names []string
	for _, f := range fields {
		if f.IsExported() {
			names = append(names, f.Name)
		}
	}
	if want := []string{"Meta", "Content", "StructuredContent", "IsError", "InputRequests", "RequestState"}; !slices.Equal(names, want) {
		t.Errorf("a result has the parts %q, and %q are known", names, want)
	}
}
