package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// sent is a message as it stands on the wire.
type sent struct {
	Role       string  `json:"role"`
	Content    *string `json:"content"`
	Refusal    string  `json:"refusal"`
	Reasoning  string  `json:"reasoning_content"`
	ToolCallID string  `json:"tool_call_id"`
	ToolCalls  []struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Function *struct {
			Name      string  `json:"name"`
			Arguments *string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// strict holds a history to the rules of strict servers: those of OpenAI's for the messages
// and their order, and DeepSeek's, which wants reasoning back with each call once it gave some.
func strict(messages []sent) error {
	waits := map[string]bool{}
	reasons := slices.ContainsFunc(messages, func(m sent) bool { return m.Reasoning != "" })
	for i, m := range messages {
		at := func(format string, args ...any) error {
			return fmt.Errorf("messages[%d]: "+format, append([]any{i}, args...)...)
		}
		if m.Role != "tool" && len(waits) > 0 {
			return at("%d calls have no answer", len(waits))
		}
		switch m.Role {
		case "system", "user":
			if m.Content == nil || strings.TrimSpace(*m.Content) == "" {
				return at("no content")
			}
		case "tool":
			if !waits[m.ToolCallID] {
				return at("an answer to no call %q", m.ToolCallID)
			}
			if delete(waits, m.ToolCallID); m.Content == nil || *m.Content == "" {
				return at("an empty answer")
			}
		case "assistant":
			if (m.Content == nil || *m.Content == "") && len(m.ToolCalls) == 0 {
				return at("content is required unless tool_calls is given")
			}
			if m.Content != nil && *m.Content != "" && strings.TrimSpace(*m.Content) == "" { // Anthropic's
				return at("text content must have more than blanks")
			}
			if m.Content == nil && len(m.ToolCalls) > 0 {
				return at("missing field content") // DeepSeek's, of a member that is left out
			}
			if reasons && m.Reasoning == "" && len(m.ToolCalls) > 0 {
				return at("the reasoning_content must be passed back")
			}
			for j, c := range m.ToolCalls {
				var v any
				switch {
				case c.ID == "" || waits[c.ID]:
					return at("tool_calls[%d]: no id, or one that was used: %q", j, c.ID)
				case c.Type != "function" || c.Function == nil || !namePattern.MatchString(c.Function.Name):
					return at("tool_calls[%d]: type %q, %+v", j, c.Type, c.Function)
				case c.Function.Arguments == nil:
					return at("tool_calls[%d]: function.arguments is required", j)
				case json.Unmarshal([]byte(*c.Function.Arguments), &v) != nil:
					return at("tool_calls[%d]: arguments are no JSON: %q", j, *c.Function.Arguments)
				case strings.Contains(*c.Function.Arguments, `\ud83d"`) || strings.Count(*c.Function.Arguments, `"words"`) > 1: // readers that are stricter than Go's
					return at("tool_calls[%d]: half a character, or a name twice: %q", j, *c.Function.Arguments)
				}
				if _, is := v.(map[string]any); !is {
					return at("tool_calls[%d]: arguments are no object", j)
				}
				waits[c.ID] = true
			}
		default:
			return at("role %q", m.Role)
		}
	}
	if len(waits) > 0 {
		return fmt.Errorf("%d calls have no answer", len(waits))
	}
	return nil
}

// exacting is a server that answers the n-th request with the n-th body, if the history is
// what strict servers take.
func exacting(t *testing.T, stream bool, bodies ...string) *api.Client {
	t.Helper()
	var mu sync.Mutex
	turn := 0
	return serving(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var asked struct {
			Messages []sent `json:"messages"`
			Stream   bool   `json:"stream"`
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, &asked)
		}
		if err == nil {
			err = strict(asked.Messages)
		}
		if err == nil && turn >= len(bodies) {
			err = fmt.Errorf("asked %d times", turn+1)
		}
		if err == nil && asked.Stream != stream {
			err = fmt.Errorf("stream %t", asked.Stream)
		}
		if err != nil {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": err.Error(), "type": "invalid_request_error"}}) //nolint:errcheck // the client sees it
			return
		}
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
		} else {
			w.Header().Set("Content-Type", "application/json")
		}
		io.WriteString(w, bodies[turn]) //nolint:errcheck // the client sees it
		turn++
	})
}

// serving is a client of a server.
func serving(t *testing.T, answer http.HandlerFunc) *api.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	h := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() { h.CloseIdleConnections(); server.Close() })
	config := api.DefaultConfig("none")
	config.BaseURL, config.HTTPClient = server.URL, h
	return api.NewClientWithConfig(config)
}

// whole is a response with one message.
func whole(fields string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant",%s},"finish_reason":"stop"}]}`, fields)
}

// pieces is a response in pieces.
func pieces(deltas ...string) string {
	var b strings.Builder
	for _, d := range append(deltas, delta("", calls), "[DONE]") {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// function is a call on the wire.
func function(head, name, arguments string) string {
	if arguments != "" {
		arguments = `,"arguments":` + arguments
	}
	return fmt.Sprintf(`{%s"function":{"name":%q%s}}`, head, name, arguments)
}

// After an odd answer of a server the conversation goes on: the history is one that strict
// servers take, and the call is carried out, or the model is told what was wrong with it.
func TestAnOddAnswerDoesNotEndTheConversation(t *testing.T) {
	const id = `"id":"c1","type":"function",`
	one := func(call string) string { return whole(`"content":null,"tool_calls":[` + call + `]`) }
	for name, c := range map[string]struct {
		body   string
		stream bool
		fired  []string
		says   []string // of the answers to the calls, how each begins
		keeps  string   // of the reasoning
	}{
		"arguments of a tool without parameters are left out": {body: one(function(id, "object", "")), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"they are empty":                         {body: one(function(id, "object", `""`)), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"they are blanks":                        {body: one(function(id, "object", `" \n"`)), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"they are cut short":                     {body: one(function(id, "search", `"{\"words\":\"x"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they are two objects":                   {body: one(function(id, "search", `"{\"words\":\"a\"}{\"words\":\"b\"}"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they are a list":                        {body: one(function(id, "search", `"[\"a\"]"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they are null":                          {body: one(function(id, "object", `"null"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they are a dialect of another language": {body: one(function(id, "search", `"{'words': 'x'}"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they have a name twice":                 {body: one(function(id, "search", `"{\"words\":\"a\",\"words\":\"b\"}"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they have half a character":             {body: one(function(id, "search", `"{\"words\":\"\\ud83d\"}"`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"they have blanks around them":           {body: one(function(id, "search", `" {\"words\":\"x\"}\n"`)), fired: []string{"search"}, says: []string{"x"}},
		"no id among parallel calls": {body: one(function(id, "search", `"{\"words\":\"a\"}"`) + "," + function(`"type":"function",`, "search", `"{\"words\":\"b\"}"`)),
			fired: []string{"search", "search"}, says: []string{"a", "b"}},
		"no ids at all": {body: one(function("", "search", `"{\"words\":\"a\"}"`) + "," + function(`"id":"",`, "search", `"{\"words\":\"b\"}"`) + "," + function(`"id":" ",`, "object", "")),
			fired: []string{"search", "search", "object"}, says: []string{"a", "b", `{"a":1}`}},
		"one id twice": {body: one(function(id, "search", `"{\"words\":\"a\"}"`) + "," + function(id, "search", `"{\"words\":\"b\"}"`)),
			fired: []string{"search"}, says: []string{"a", "NOT EXECUTED: this call has the id of another"}},
		"neither id nor name":               {body: one(function("", "", `"{}"`)), says: []string{"NOT EXECUTED: the tool was not run"}},
		"a name that the API does not take": {body: one(function(id, "crm.get contact", `"{}"`)), says: []string{`NOT EXECUTED: "crm.get contact"`}},
		"a name without an end":             {body: one(function(id, strings.Repeat("x", 200), `"{}"`)), says: []string{"NOT EXECUTED: xxx"}},
		"no type":                           {body: one(function(`"id":"c1",`, "object", "")), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"another type":                      {body: one(function(`"id":"c1","type":"custom",`, "object", "")), says: []string{"NOT EXECUTED: only calls of type function"}},
		"no words and no call":              {body: whole(`"content":""`)},
		"blanks and no call":                {body: whole(`"content":" \n"`)},
		"blanks and a call":                 {body: whole(`"content":"\n\n","tool_calls":[` + function(id, "object", "") + `]`), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"an empty call of the older form":   {body: whole(`"content":"done","function_call":{}`)},
		"a null and no call":                {body: whole(`"content":null`)},
		"text in parts":                     {body: whole(`"content":[{"type":"text","text":"done"}]`)},
		"thoughts in parts":                 {body: whole(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"done"}]`)},
		"thoughts and nothing else":         {body: whole(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]`)},
		"thoughts and a call":               {body: whole(`"content":[{"type":"thinking","thinking":[]}],"tool_calls":[` + function(id, "object", "") + `]`), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"a refusal and no words":            {body: whole(`"content":null,"refusal":"I will not."`)},
		"reasoning that is wanted back":     {body: whole(`"content":"","reasoning_content":"let me see","tool_calls":[` + function(id, "object", "") + `]`), fired: []string{"object"}, says: []string{`{"a":1}`}, keeps: "let me see"},

		"an empty call of the older form, in pieces": {stream: true, body: pieces(delta(`"content":"done","function_call":{}`, "null"))},
		"why it ended with each piece": {stream: true, body: pieces(delta(`"content":"let me see"`, stop), strings.Replace(piece(0, "1", "object", ""), `"finish_reason":null`, `"finish_reason":"stop"`, 1)),
			fired: []string{"object"}, says: []string{`{"a":1}`}},
		"the start of a call that is begun anew": {stream: true, body: pieces(piece(0, "1", "object", ""), piece(0, "2", "object", `{"b":`), piece(0, "3", "object", `1}`), piece(0, "4", "object", "")),
			says: slices.Repeat([]string{"NOT EXECUTED: the arguments are not valid"}, 4)},
		"reasoning in pieces": {stream: true, body: pieces(delta(`"reasoning_content":"let "`, "null"), delta(`"reasoning_content":"me see"`, "null"), piece(0, "1", "object", "")),
			fired: []string{"object"}, says: []string{`{"a":1}`}, keeps: "let me see"},
		"pieces without arguments":  {stream: true, body: pieces(piece(0, "1", "object", "")), fired: []string{"object"}, says: []string{`{"a":1}`}},
		"an index without an id":    {stream: true, body: pieces(piece(0, "", "search", `{"wor`), piece(0, "", "", `ds":"x"}`)), fired: []string{"search"}, says: []string{"x"}},
		"two of them":               {stream: true, body: pieces(piece(0, "", "search", `{"words":"a"}`), piece(1, "", "object", "")), fired: []string{"search", "object"}, says: []string{"a", `{"a":1}`}},
		"an id that comes later":    {stream: true, body: pieces(piece(0, "", "search", ""), piece(0, "c7", "", `{"words":"x"}`)), fired: []string{"search"}, says: []string{"x"}},
		"a name in pieces":          {stream: true, body: pieces(piece(0, "1", "sea", ""), piece(0, "", "rch", ""), piece(0, "", "", `{"words":"x"}`)), fired: []string{"search"}, says: []string{"x"}},
		"an id that changes":        {stream: true, body: pieces(piece(0, "1", "search", `{"wor`), piece(0, "2", "", `ds":"`), piece(0, "3", "", `x"}`)), fired: []string{"search"}, says: []string{"x"}},
		"all calls have one index":  {stream: true, body: pieces(piece(0, "1", "search", `{"words":"a"}`), piece(0, "2", "search", `{"words":"b"}`)), fired: []string{"search", "search"}, says: []string{"a", "b"}},
		"and no ids":                {stream: true, body: pieces(piece(0, "", "search", `{"words":"a"}`), piece(0, "", "object", `{}`)), fired: []string{"search", "object"}, says: []string{"a", `{"a":1}`}},
		"and one name":              {stream: true, body: pieces(piece(0, "", "search", `{"words":"a"}`), piece(0, "", "search", `{"words":"b"}`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"a second object behind it": {stream: true, body: pieces(piece(0, "1", "search", `{"words":"a"}`), piece(0, "2", "", `{}`)), says: []string{"NOT EXECUTED: the arguments are not valid"}},
		"an index and nothing else": {stream: true, body: pieces(piece(3, "", "", `{}`)), says: []string{"NOT EXECUTED: the tool was not run"}},
		"neither index nor id": {stream: true, body: pieces(delta(`"tool_calls":[{"function":{"name":"search","arguments":"{\"wor"}}]`, "null"), delta(`"tool_calls":[{"function":{"arguments":"ds\":\"x\"}"}}]`, "null")),
			fired: []string{"search"}, says: []string{"x"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			fields := `"content":"done"`
			if c.keeps != "" { // such a server reasons each time
				fields += `,"reasoning_content":"so it is"`
			}
			done := whole(fields)
			o := &openai.Options{}
			if c.stream {
				done = pieces(delta(fields, "null"))
				o.Show = func(string) {}
			}
			bodies := []string{c.body, done, done}
			if len(c.says) == 0 {
				bodies = []string{c.body, done}
			}
			chat, err := openai.NewChat(w.agent.Start("ana"), exacting(t, c.stream, bodies...), "any", o)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{"done", "done"} {
				reply, err := chat.Ask(t.Context(), agent.Typed("Look."))
				if err != nil {
					t.Fatalf("Ask %d: %v", i, err)
				}
				if i == 0 && len(c.says) == 0 {
					continue // it was the answer
				}
				if reply.Text() != want {
					t.Errorf("Ask %d: %q", i, reply.Text())
				}
			}
			if !slices.Equal(w.fired, c.fired) {
				t.Errorf("ran %v", w.fired)
			}
			var said []string
			kept := ""
			for _, m := range chat.Messages() {
				if m.Role == "tool" {
					said = append(said, m.Content)
				} else if len(m.ToolCalls) > 0 {
					kept = m.ReasoningContent
				}
			}
			if len(said) != len(c.says) || kept != c.keeps {
				t.Fatalf("%d answers: %q; reasoning %q", len(said), said, kept)
			}
			for i := range said {
				if !strings.HasPrefix(said[i], c.says[i]) {
					t.Errorf("answer %d is %q, want %q", i, said[i], c.says[i])
				}
			}
		})
	}
}

// The bytes that are kept of a call are those that the gate decides on, in the canonical form.
func TestTheArgumentsThatAreKeptAreThoseThatTheToolGets(t *testing.T) {
	for given, want := range map[string]struct{ kept, got string }{
		"":                                   {"{}", "{}"},
		" \n":                                {"{}", "{}"},
		"{}":                                 {"{}", "{}"},
		"{\"a\":\"\xff\"}":                   {"{}", ""}, // it would be sent as another text
		" {\"b\": 1.0, \"a\":\"\\u0061\"}\n": {" {\"b\": 1.0, \"a\":\"\\u0061\"}\n", `{"a":"a","b":1}`},
	} {
		var got string
		echo := agent.Raw("echo", "Echoes.", &jsonschema.Schema{Type: "object"}, func(_ context.Context, b json.RawMessage) (json.RawMessage, error) {
			got = string(b)
			return b, nil
		}, agent.ReadOnly())
		store := storetest.NewStore(nil)
		g, err := gate.New(store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		a, err := agent.New("billing", agent.Model{ID: "m", Family: "f"}, store, g, []agent.Tool{echo}, nil)
		if err != nil {
			t.Fatal(err)
		}
		run := a.Start("ana")
		out := openai.Answer(t.Context(), run, api.ChatCompletionMessage{ToolCalls: []api.ToolCall{call("1", "echo", given)}})
		if want.got == "" {
			if got != "" || out[0].ToolCalls[0].Function.Arguments != want.kept || !strings.HasPrefix(out[1].Content, "NOT EXECUTED") {
				t.Errorf("%q: %+v; the tool got %q", given, out, got)
			}
			continue
		}
		if len(out) != 2 || out[0].ToolCalls[0].Function.Arguments != want.kept || got != want.got {
			t.Errorf("%q: %+v; the tool got %q", given, out, got)
		}
	}
}

// What a parked call came to is taken by a server that wants its reasoning back.
func TestAResumedCallIsTakenByAStrictServer(t *testing.T) {
	store, a, row, err := booking(t.Context(), func(room string) (string, error) { return "booked " + room, nil })
	if err != nil {
		t.Fatal(err)
	}
	book := `"content":null,"reasoning_content":"hm","tool_calls":[` + function(`"id":"c1","type":"function",`, "book", `"{\"words\":\"Blue\"}"`) + `]`
	client := exacting(t, false, whole(book), whole(`"content":"It waits."`), whole(`"content":"Done."`), whole(`"content":"Yes."`))
	_, chat := knowing(t, a, client)
	if reply, err := chat.Ask(t.Context(), agent.Typed("Book it.")); err != nil || reply.Text() != "It waits." {
		t.Fatalf("%+v, %v", reply, err)
	}
	if err := verify(t.Context(), store, row); err != nil {
		t.Fatal(err)
	}
	if reply, err := chat.Resume(t.Context()); err != nil || reply.Text() != "Done." {
		t.Fatalf("%+v, %v", reply, err)
	}
	if reply, err := chat.Ask(t.Context(), agent.Typed("Is it done?")); err != nil || reply.Text() != "Yes." {
		t.Errorf("%+v, %v", reply, err)
	}
}

// FuzzAnswer: whatever a server sends, what is kept of it is a history that strict servers take.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"content":null}`, `{"tool_calls":[{"function":{"name":"x","arguments":"{"}}]}`, `{"tool_calls":[{"id":"a"},{"id":"a"},{}],"content":"x"}`,
		`{"content":"","refusal":"no"}`, `{"tool_calls":[{"id":"","type":"custom","function":{"name":"ä.b","arguments":"[1]"}}]}`, "{\"content\":\"\\udc00\"}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		var m api.ChatCompletionMessage
		if json.Unmarshal([]byte(message), &m) != nil || len(m.MultiContent) > 0 {
			return
		}
		out := openai.Answer(t.Context(), &agent.Run{}, m)
		b, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		var history []sent
		if err := json.Unmarshal(b, &history); err != nil {
			t.Fatal(err)
		}
		if err := strict(history); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		for _, c := range out[0].ToolCalls {
			if !made.MatchString(c.ID) && !slices.ContainsFunc(m.ToolCalls, func(of api.ToolCall) bool { return of.ID == c.ID }) {
				t.Errorf("the id %q was made", c.ID)
			}
		}
	})
}

// made are ids as the adapter makes them: those that Mistral's servers take.
var made = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// TestAResumedCallHasAnIDThatServersTake.
func TestAResumedCallHasAnIDThatServersTake(t *testing.T) {
	ids := map[string]bool{}
	for _, hold := range []string{"hld_01JABCDEFGHJKMNPQRSTVWXYZ0", "hld_01JABCDEFGHJKMNPQRSTVWXYZ1"} {
		m := openai.Resumed(agent.Resumed{Hold: hold, Tool: "book", Args: json.RawMessage(`{}`)})
		id := m[0].ToolCalls[0].ID
		if !made.MatchString(id) || m[1].ToolCallID != id || ids[id] || openai.Resumed(agent.Resumed{Hold: hold})[1].ToolCallID != id {
			t.Errorf("%s: %q, %q", hold, id, m[1].ToolCallID)
		}
		ids[id] = true
	}
}

// A tool has a name that the API does not take: the model is offered another one, calls by
// either, and the gate, its text and the record have the tool's own.
func TestAToolHasTheNameThatTheAPITakes(t *testing.T) {
	for _, called := range []string{"crm_get_contact", "crm.get_contact"} {
		w := newWorld(t)
		g, err := gate.New(w.store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		var ran []string
		fn := func(name string) func(context.Context, words) (string, error) {
			return func(_ context.Context, in words) (string, error) { ran = append(ran, name); return in.Words, nil }
		}
		a, err := agent.New("desk", agent.Model{ID: "m", Family: "f"}, w.store, g, []agent.Tool{agent.Func("crm.get_contact", "", fn("crm"), agent.ReadOnly()), agent.Func("mail.send", "", fn("mail"))}, nil)
		if err != nil {
			t.Fatal(err)
		}
		tools, err := openai.Tools(a)
		if err != nil || tools[0].Function.Name != "crm_get_contact" || tools[1].Function.Name != "mail_send" {
			t.Fatalf("%+v, %v", tools, err)
		}
		const id = `"id":"%s","type":"function",`
		client := exacting(t, false, whole(`"content":null,"tool_calls":[`+function(fmt.Sprintf(id, "c1"), called, `"{\"words\":\"x\"}"`)+`]`),
			whole(`"content":null,"tool_calls":[`+function(fmt.Sprintf(id, "c2"), "mail_send", `"{\"words\":\"x\"}"`)+`]`), whole(`"content":"done"`))
		chat, err := openai.NewChat(a.Start("ana"), client, "any", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chat.Ask(t.Context(), agent.Typed("find acme")); err != nil {
			t.Fatal(err)
		}
		var names, said []string
		for _, m := range chat.Messages() {
			for _, c := range m.ToolCalls {
				names = append(names, c.Function.Name)
			}
			if m.Role == "tool" {
				said = append(said, m.Content)
			}
		}
		if !slices.Equal(ran, []string{"crm"}) || !slices.Equal(names, []string{"crm_get_contact", "mail_send"}) || said[0] != "x" || !strings.HasPrefix(said[1], "NOT EXECUTED: mail.send") {
			t.Errorf("%s: ran %q; kept %q; said %q", called, ran, names, said)
		}
		decisions, err := w.store.Decisions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var decided []string
		for i := range decisions {
			decided = append(decided, decisions[i].Tool)
		}
		if slices.Sort(decided); !slices.Equal(decided, []string{"crm.get_contact", "mail.send"}) {
			t.Errorf("decided about %q", decided)
		}
	}
}

// A denied call names the tool to call first as the model can call it.
func TestADenialNamesAToolAsTheModelCallsIt(t *testing.T) {
	w := newWorld(t)
	w.pending(memory.Content{Subject: "acme", Predicate: "billing.email", Object: "ops@evil.example"})
	g, err := gate.New(w.store, gate.Policy{Name: "test", Version: "1", Declared: true, Verifies: map[string]string{"billing.email": "crm.get"}}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	fn := func(_ context.Context, in words) (string, error) { return in.Words, nil }
	a, err := agent.New("desk", agent.Model{ID: "m", Family: "f"}, w.store, g, []agent.Tool{agent.Func("crm.get", "", fn, agent.ReadOnly()), agent.Func("mail.send", "", fn, agent.Irreversible())},
		&agent.Options{Recall: recall.Policy{Channels: recall.All}})
	if err != nil {
		t.Fatal(err)
	}
	run := a.Start("ana")
	if _, err := run.Recall(t.Context(), recall.Query{Subject: "acme", Predicate: "billing.email"}); err != nil {
		t.Fatal(err)
	}
	said := answer(t.Context(), run, []api.ToolCall{call("1", "mail_send", `{"words":"ops@evil.example"}`)})[0].Content
	_, err = run.Call(t.Context(), "mail.send", json.RawMessage(`{"words":"ops@evil.example"}`))
	later := openai.Resumed(agent.Resumed{Hold: "hld_1", Tool: "mail.send", Args: json.RawMessage(`{}`), Err: err})[1].Content
	for name, text := range map[string]string{"the answer": said, "the answer that comes later": later} {
		if !strings.Contains(text, "call crm_get") || strings.Contains(text, "crm.get") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// A text in parts is a text.
func TestATextInPartsIsAText(t *testing.T) {
	client := exacting(t, false, whole(`"content":[{"type":"thinking","thinking":[]},{"type":"text","text":"one"},{"type":"text","text":"two"}]`))
	chat, err := openai.NewChat(newWorld(t).agent.Start("ana"), client, "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := chat.Ask(t.Context(), agent.Typed("Look."))
	last := chat.Messages()[len(chat.Messages())-1]
	if err != nil || reply.Text() != "one\ntwo" || last.Content != "one\ntwo" || last.MultiContent != nil {
		t.Errorf("%q, %v, %+v", reply.Text(), err, last)
	}
}

// TestALongAnswerDoesNotEndTheConversation: a tool answers 5.6 MB, and the server takes no
// request of more than 256 KiB.
func TestALongAnswerDoesNotEndTheConversation(t *testing.T) {
	w, turn, largest := newWorld(t), 0, 0
	client := serving(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if largest = max(largest, len(body)); err != nil || len(body) > 256<<10 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := whole(`"content":"done"`)
		if turn++; turn == 1 {
			answer = whole(`"content":null,"tool_calls":[` + function(`"id":"c1","type":"function",`, "log", `"{}"`) + `]`)
		}
		io.WriteString(w, answer) //nolint:errcheck // the client sees it
	})
	log := agent.Func("log", "reads the log", func(context.Context, struct{}) (string, error) {
		return strings.Repeat("0123456789 line\n", 350_000), nil
	}, agent.ReadOnly())
	g, err := gate.New(w.store, gate.Policy{Name: "test", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New("desk", agent.Model{ID: "m", Family: "f"}, w.store, g, []agent.Tool{log}, nil)
	if err != nil {
		t.Fatal(err)
	}
	chat, err := openai.NewChat(a.Start("ana"), client, "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"read the log", "and now?", "and then?"} {
		if _, err := chat.Ask(t.Context(), agent.Typed(words)); err != nil {
			t.Fatalf("%s: %v", words, err)
		}
	}
	if largest < agent.DefaultAnswerLimit {
		t.Errorf("the largest request has %d bytes", largest)
	}
}

// TestAnInputWithoutWordsDoesNotEndTheConversation: servers refuse a message without words.
func TestAnInputWithoutWordsDoesNotEndTheConversation(t *testing.T) {
	chat, err := openai.NewChat(newWorld(t).agent.Start("ana"), exacting(t, false, whole(`"content":"yes?"`), whole(`"content":"done"`)), "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []agent.Segment{agent.Typed(" \n"), agent.Typed("hi")} {
		if _, err := chat.Ask(t.Context(), agent.Typed(""), said); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(chat.Messages()); n != 3 {
		t.Errorf("%d messages: %+v", n, chat.Messages())
	}
}

// TestACallWithoutArgumentsRunsIfItsMessageIsWhole: whatever the server says why it ended.
func TestACallWithoutArgumentsRunsIfItsMessageIsWhole(t *testing.T) {
	for reason, runs := range map[string]bool{"stop": true, "tool_calls": true, "": true, "eos_token": true, "length": false, "insufficient_system_resource": false, "model_length": false, "abort": false} {
		w := newWorld(t)
		body := strings.Replace(whole(`"content":null,"tool_calls":[`+function(`"id":"c1","type":"function",`, "object", "")+`]`), `"finish_reason":"stop"`, fmt.Sprintf(`"finish_reason":%q`, reason), 1)
		chat, err := openai.NewChat(w.agent.Start("ana"), exacting(t, false, body, whole(`"content":"done"`)), "any", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chat.Ask(t.Context(), agent.Typed("Look.")); err != nil || (len(w.fired) == 1) != runs {
			t.Errorf("%q: ran %q, %v", reason, w.fired, err)
		}
	}
	// In pieces, that it was cut off stands whatever is said later.
	w := newWorld(t)
	chat, err := openai.NewChat(w.agent.Start("ana"), streams(t, []string{strings.Replace(piece(0, "1", "object", ""), `"finish_reason":null`, `"finish_reason":"length"`, 1), delta("", stop), "[DONE]"}, []string{delta(`"content":"done"`, stop), "[DONE]"}), "any", &openai.Options{Show: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chat.Ask(t.Context(), agent.Typed("Look.")); err != nil || len(w.fired) > 0 {
		t.Errorf("ran %q, %v", w.fired, err)
	}
}

// TestReasoningThatIsLeftOutOnceDoesNotEndTheConversation: a server wants it with each call once
// it gave some.
func TestReasoningThatIsLeftOutOnceDoesNotEndTheConversation(t *testing.T) {
	call := function(`"id":"c1","type":"function",`, "object", "")
	w := newWorld(t)
	chat, err := openai.NewChat(w.agent.Start("ana"), exacting(t, false,
		whole(`"content":"","reasoning_content":"let me see","tool_calls":[`+call+`]`), whole(`"content":"","reasoning_content":"","tool_calls":[`+call+`]`), whole(`"content":"done","reasoning_content":"so it is"`)), "any", nil)
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := chat.Ask(t.Context(), agent.Typed("Look.")); err != nil || reply.Text() != "done" || len(w.fired) != 2 {
		t.Errorf("%q, %v, ran %q", reply.Text(), err, w.fired)
	}
}

// TestCallsInASecondChoiceAreNotDropped.
func TestCallsInASecondChoiceAreNotDropped(t *testing.T) {
	body := `{"choices":[{"index":0,"message":{"role":"assistant","content":"let me"},"finish_reason":"stop"},{"index":1,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}]}`
	for rest, refused := range map[string]bool{`null,"tool_calls":[` + function(`"id":"c1","type":"function",`, "object", "") + `]`: true, `"or this"`: false} {
		w := newWorld(t)
		chat, err := openai.NewChat(w.agent.Start("ana"), exacting(t, false, fmt.Sprintf(body, rest)), "any", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := chat.Ask(t.Context(), agent.Typed("Look.")); errors.Is(err, openai.ErrResponse) != refused || err != nil && !refused || len(w.fired) > 0 {
			t.Errorf("%s: %v, ran %q", rest, err, w.fired)
		}
	}
}
