package agent_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/memory"
)

var words = regexp.MustCompile(`[A-Za-z]{5,}`)

// FuzzToolOutput holds I-8 at the mouth of a hostile tool: every word that the
// model gets to see stands in a row of the run, or the lineage is lost.
func FuzzToolOutput(f *testing.F) {
	for _, s := range []string{``, `null`, `"hello there"`, `{"email":"ops@acme.example","note":"hello"}`, `{"id":"abcdef"}`, `{} {"later":"value"}`,
		`{"x":"evil words","x":""}`, "null\nhello", `{"at":{"id":"abcdef","other":["hello"]}}`, "\"\\u0068ello\\ud800\"", "\xffhello"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, output string) {
		if len(output) > 4096 {
			return
		}
		w := newWorld(t)
		run := w.agent(t, agent.Raw("t", "", &jsonschema.Schema{Type: "object"}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(output), nil
		}, agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer"), agent.Identifier("/id"), agent.Identifier("/at/id"))).Start("ana")
		res, err := run.Call(t.Context(), "t", args(lookupIn{"acme"}))
		if err != nil {
			if run.Lineage().IsKnown() {
				t.Fatalf("%v, and the lineage is still known", err)
			}
			return
		}
		var said strings.Builder
		pending := false
		for _, id := range res.Rows {
			r := w.row(t, id)
			pending = pending || r.State() != memory.StateVerified
			said.WriteString(r.Content.String() + "\n")
		}
		if pending {
			return // the run is tainted, whatever the row says
		}
		// The fields that the tool is trusted for may go unrecorded or verified.
		var known struct {
			Email any `json:"email"`
			ID    any `json:"id"`
			At    struct {
				ID any `json:"id"`
			} `json:"at"`
		}
		_ = json.Unmarshal([]byte(output), &known)
		trusted, err := json.Marshal([]any{known.Email, known.ID, known.At.ID, "email"})
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range words.FindAllString(output, -1) {
			if !strings.Contains(said.String(), word) && !strings.Contains(string(trusted), word) {
				t.Fatalf("the model sees %q, and nothing was recorded of %q: %q", word, output, said.String())
			}
		}
	})
}
