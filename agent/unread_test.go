package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// long is an answer of a number of bytes whose author wants to be heard: at its front,
// in its middle, at its end, and in a field that the tool is the system of record for.
func long(size int) json.RawMessage {
	const front, end = `{"email":"evil@x.example","note":"evil `, ` evil"}`
	half := strings.Repeat("x ", (size-len(front)-len(end)-6)/4)
	body := front + half + " evil " + half + end
	return json.RawMessage(body[:len(front)] + strings.Repeat("y", size-len(body)) + body[len(front):])
}

func longTool(answer func() (json.RawMessage, error), o ...agent.Option) agent.Tool {
	schema := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"customer": {Type: "string"}}}
	return agent.Raw("long", "answers at length", schema, func(context.Context, json.RawMessage) (json.RawMessage, error) { return answer() },
		append([]agent.Option{agent.ReadOnly(), agent.Authoritative("/email", "billing.email", "/customer")}, o...)...)
}

// TestAnAnswerThatIsTooLongIsNotRead: whatever is in it, the run knows that the tool ran
// and how long its answer was, and rests on that as on any text of a stranger's.
func TestAnAnswerThatIsTooLongIsNotRead(t *testing.T) {
	for _, size := range []int{agent.MaxOutput + 1, 32 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			w := newWorld(t)
			run := w.agent(t, longTool(func() (json.RawMessage, error) { return long(size), nil })).Start("ana")
			typed(t, run, "write to ops@acme.example")
			res := mustFire(t, run, "long", lookupIn{"acme"})
			text := agent.ToolText(res, nil)
			if res.Unread != size || !strings.Contains(text, fmt.Sprint(size)) || !strings.Contains(text, fmt.Sprint(agent.MaxOutput)) || len(text) > 300 {
				t.Errorf("%d unread; the model is told %.300q", res.Unread, text)
			}
			if strings.Contains(string(res.Output), "evil") {
				t.Error("what was not read got out")
			}
			for _, r := range w.rows(t) {
				if strings.Contains(r.Content.String(), "evil") || r.State() == memory.StateVerified {
					t.Errorf("recorded: %.200q, %v", r.Content.String(), r.State())
				}
			}
			if len(res.Rows) != 1 || w.row(t, res.Rows[0]).Content.Text != text {
				t.Errorf("the row is not what the model is told: %v", res.Rows)
			}
			if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || d.Outcome != memory.CallDone {
				t.Errorf("recorded as %q, %v", d.Outcome, err)
			}
			mustBlock(t, run, "send_email", mailIn{To: "ops@acme.example"}, gate.ErrUnverified)
		})
	}
}

// TestTheLongestAnswerIsReadWhole: of an answer as long as the limit, all is read.
func TestTheLongestAnswerIsReadWhole(t *testing.T) {
	w := newWorld(t)
	run := w.agent(t, longTool(func() (json.RawMessage, error) { return long(agent.MaxOutput), nil })).Start("ana")
	res := mustFire(t, run, "long", lookupIn{"acme"})
	if res.Unread != 0 || string(res.Output) != `{"email":"evil@x.example"}` || res.Left != agent.MaxOutput-len(res.Output) || len(res.Rows) != 1 {
		t.Errorf("%d unread, %d left out, rows %v, %.100s", res.Unread, res.Left, res.Rows, res.Output)
	}
}

// TestAnErrorThatIsTooLongIsNotRead: nor is a panic, and what kind of error it is counts
// all the same.
func TestAnErrorThatIsTooLongIsNotRead(t *testing.T) {
	evil := "evil " + strings.Repeat("\u200bx", 4<<20)
	for name, c := range map[string]struct {
		fail    func() error
		outcome memory.CallOutcome
	}{
		"an error":       {func() error { return errors.New(evil) }, memory.CallFailed},
		"a panic":        {func() error { panic(evil) }, memory.CallFailed},
		"one cut off":    {func() error { return fmt.Errorf("%s: %w", evil, context.DeadlineExceeded) }, memory.CallUnknown},
		"without answer": {func() error { return fmt.Errorf("%w: %s", agent.ErrNoAnswer, evil) }, memory.CallUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.agent(t, longTool(func() (json.RawMessage, error) { return nil, c.fail() })).Start("ana")
			typed(t, run, "write to ops@acme.example")
			res, err := run.Call(t.Context(), "long", args(lookupIn{"acme"}))
			if !errors.Is(err, agent.ErrTool) {
				t.Fatal(err)
			}
			if text := agent.ToolText(res, err); strings.Contains(text+err.Error(), "evil") || !strings.Contains(text, fmt.Sprint(agent.MaxOutput)) || len(text) > 400 {
				t.Errorf("the model is told %.400q", text)
			}
			for _, r := range w.rows(t) {
				if strings.Contains(r.Content.String(), "evil") {
					t.Errorf("recorded: %.200q", r.Content.String())
				}
			}
			if d, err := w.store.Decision(t.Context(), res.Decision.ID); err != nil || d.Outcome != c.outcome {
				t.Errorf("recorded as %q, %v", d.Outcome, err)
			}
			mustBlock(t, run, "send_email", mailIn{To: "ops@acme.example"}, gate.ErrUnverified)
		})
	}
}
