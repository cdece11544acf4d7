package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	api "github.com/sashabaranov/go-openai"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/agent/openai"
)

// delta is one piece of an answer, as it stands on the wire.
func delta(fields, finish string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{%s},"finish_reason":%s}]}`, fields, finish)
}

// bare is a piece of a call without an index.
func bare(id, name, arguments string) string {
	return delta(fmt.Sprintf(`"tool_calls":[{"id":%q,"type":"function","function":{"name":%q,"arguments":%q}}]`, id, name, arguments), "null")
}

func piece(index int, id, name, arguments string) string {
	head := ""
	if id != "" {
		head = fmt.Sprintf(`"id":%q,"type":"function",`, id)
	}
	return delta(fmt.Sprintf(`"tool_calls":[{"index":%d,%s"function":{"name":%q,"arguments":%q}}]`, index, head, name, arguments), "null")
}

// streams is a server that answers the n-th request with the n-th list of pieces.
func streams(t testing.TB, answers ...[]string) *api.Client {
	t.Helper()
	turn := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		var asked api.ChatCompletionRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !asked.Stream || turn >= len(answers) {
			t.Errorf("asked %+v, %v", asked, err)
			return
		}
		for _, line := range answers[turn] {
			fmt.Fprintf(w, "data: %s\n\n", line)
		}
		turn++
	}))
	h := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() { h.CloseIdleConnections(); server.Close() })
	config := api.DefaultConfig("none")
	config.BaseURL, config.HTTPClient = server.URL, h
	return api.NewClientWithConfig(config)
}

const stop, calls = `"stop"`, `"tool_calls"`

// TestACallThatComesInPieces: it is carried out once, when the answer is complete,
// through the gate, and answered like any other.
func TestACallThatComesInPieces(t *testing.T) {
	done := []string{delta(`"content":"do"`, "null"), delta(`"content":"ne"`, stop), "[DONE]"}
	for name, c := range map[string]struct {
		pieces  []string
		fired   []string
		answers []string // id, and how the answer begins
	}{
		"one call, letter by letter": {[]string{piece(0, "1", "search", ""), piece(0, "", "", `{"wor`), piece(0, "", "", `ds":"x"}`), delta("", calls)},
			[]string{"search"}, []string{"1 x"}},
		"two calls, their pieces mixed": {[]string{piece(0, "1", "search", `{"words":`), piece(1, "2", "search", `{"wor`), piece(0, "", "", `"a"}`), piece(1, "", "", `ds":"b"}`), delta("", calls)},
			[]string{"search", "search"}, []string{"1 a", "2 b"}},
		"a call that is blocked beside one that is not": {[]string{piece(0, "1", "send_email", `{"to":"evil@x.example"}`), piece(1, "2", "search", `{"words":"b"}`), delta("", calls)},
			[]string{"search"}, []string{"1 NOT EXECUTED: send_email", "2 b"}},
		"two calls with one id":             {[]string{piece(0, "1", "search", `{"words":"a"}`), piece(1, "1", "search", `{"words":"b"}`), delta("", calls)}, []string{"search"}, []string{"1 a", ""}},
		"an unknown tool":                   {[]string{piece(0, "1", "rm_rf", `{}`), delta("", calls)}, nil, []string{"1 NOT EXECUTED: rm_rf"}},
		"a server that repeats id and name": {[]string{piece(0, "1", "search", `{"words":`), piece(0, "1", "search", `"a"}`), delta("", calls)}, []string{"search"}, []string{"1 a"}},
		"a whole call without an index":     {[]string{delta(`"tool_calls":[{"id":"1","type":"function","function":{"name":"search","arguments":"{\"words\":\"a\"}"}}]`, calls)}, []string{"search"}, []string{"1 a"}},
		"pieces without an index, told apart by their ids": {[]string{bare("1", "search", ""), bare("2", "search", `{"words":`), bare("1", "search", `{"words":"a"}`), bare("2", "", `"b"}`), delta("", calls)},
			[]string{"search", "search"}, []string{"1 a", "2 b"}},
		"two whole calls with one id and no index": {[]string{bare("1", "search", `{"words":"a"}`), bare("1", "search", `{"words":"b"}`), delta("", calls)},
			nil, []string{"1 NOT EXECUTED: the arguments are not valid"}},
		"another id with each piece": {[]string{piece(0, "1", "search", ""), piece(0, "2", "search", `{"words":"a"}`), delta("", calls)},
			[]string{"search"}, []string{"1 NOT EXECUTED: the arguments are not valid", "2 a"}},
		"another id with each piece, and no index": {[]string{bare("1", "search", ""), bare("2", "search", `{"words":"a"}`), delta("", calls)},
			[]string{"search"}, []string{"1 NOT EXECUTED: the arguments are not valid", "2 a"}},
		"another id with each piece, of a tool that wants no arguments": {[]string{piece(0, "1", "object", ""), piece(0, "2", "object", `{"b":1}`), delta("", calls)},
			[]string{"object"}, []string{"1 NOT EXECUTED: the arguments are not valid", "2 {"}},
		"the same without an index": {[]string{bare("1", "object", ""), bare("2", "object", `{"b":1}`), delta("", calls)},
			[]string{"object"}, []string{"1 NOT EXECUTED: the arguments are not valid", "2 {"}},
		"cut off behind the name":           {[]string{piece(0, "1", "search", `{"words":"a"}`), piece(1, "2", "object", ""), delta("", `"length"`)}, []string{"search"}, []string{"1 a", "2 NOT EXECUTED: the arguments are not valid"}},
		"stopped by a filter":               {[]string{piece(0, "2", "object", " "), delta("", `"content_filter"`)}, nil, []string{"2 NOT EXECUTED: the arguments are not valid"}},
		"without arguments":                 {[]string{piece(0, "1", "object", ""), delta("", calls)}, []string{"object"}, []string{"1 {"}},
		"arguments that were cut short":     {[]string{piece(0, "1", "search", `{"words":"a`), delta("", `"length"`)}, nil, []string{"1 NOT EXECUTED: the arguments are not valid"}},
		"a name twice, in different pieces": {[]string{piece(0, "1", "search", `{"words":"a",`), piece(0, "", "", `"words":"b"}`), delta("", calls)}, nil, []string{"1 NOT EXECUTED: the arguments are not valid"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run := w.agent.Start("ana")
			var shown strings.Builder
			chat, err := openai.NewChat(run, streams(t, append(c.pieces, "[DONE]"), done), "any", &openai.Options{Show: func(text string) {
				if len(w.fired) == 0 && len(c.fired) > 0 {
					t.Error("text of the second answer before the first one's calls")
				}
				shown.WriteString(text)
			}})
			if err != nil {
				t.Fatal(err)
			}
			reply, err := chat.Ask(t.Context(), agent.Typed("Look."))
			if err != nil || reply.Text() != "done" || shown.String() != "done" {
				t.Fatalf("%+v, %v, shown %q", reply, err, shown.String())
			}
			if !slices.Equal(w.fired, c.fired) {
				t.Errorf("ran %v", w.fired)
			}
			var answers []api.ChatCompletionMessage
			for _, m := range chat.Messages() {
				if m.Role == "tool" {
					answers = append(answers, m)
				}
			}
			if len(answers) != len(c.answers) {
				t.Fatalf("%d answers", len(answers))
			}
			for i, a := range answers {
				if got := a.ToolCallID + " " + a.Content; c.answers[i] == "" && !made.MatchString(a.ToolCallID) || !strings.HasPrefix(got, c.answers[i]) {
					t.Errorf("answer %q, want %q", got, c.answers[i])
				}
			}
		})
	}
}

func TestAStreamThatIsNoAnswerIsAnError(t *testing.T) {
	search := piece(0, "1", "search", `{"words":"a"}`)
	for name, pieces := range map[string][]string{
		"it ends before it is finished":                 {search},
		"nothing":                                       {},
		"a function call":                               {delta(`"function_call":{"name":"search","arguments":"{}"}`, `"function_call"`)},
		"a second choice":                               {search, `{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":"stop"}]}`},
		"a piece of a call that was not begun":          {delta(`"tool_calls":[{"function":{"arguments":"{}"}}]`, calls)},
		"an index that gets another name":               {search, piece(0, "1", "send_email", ``), delta("", calls)},
		"an id without an index that gets another name": {bare("1", "search", `{"words":"a"}`), bare("1", "send_email", `{}`), delta("", calls)},
		"calls after its end":                           {delta(`"content":"x"`, stop), search},
		"a name without an end":                         append(slices.Repeat([]string{piece(0, "", strings.Repeat("x", 100), ""), piece(0, "", strings.Repeat("y", 100), "")}, 6), delta("", calls)),
		"no JSON":                                       {`{"choices":`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			chat, err := openai.NewChat(w.agent.Start("ana"), streams(t, append(pieces, "[DONE]")), "any", &openai.Options{Show: func(string) {}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := chat.Ask(t.Context(), agent.Typed("x")); err == nil || name != "no JSON" && !errors.Is(err, openai.ErrResponse) || len(w.fired) != 0 {
				t.Errorf("%v, ran %v", err, w.fired)
			}
			if got := chat.Messages(); len(got) != 1 {
				t.Errorf("the conversation grew: %+v", got)
			}
		})
	}
	t.Run("too long", func(t *testing.T) {
		part := api.ChatCompletionStreamResponse{Choices: []api.ChatCompletionStreamChoice{{Delta: api.ChatCompletionStreamChoiceDelta{Content: strings.Repeat("x", 1<<20)}}}}
		n := 0
		_, _, err := openai.Collect(func() (api.ChatCompletionStreamResponse, error) { n++; return part, nil }, nil)
		if !errors.Is(err, openai.ErrResponse) || n > 20 {
			t.Errorf("%d pieces, %v", n, err)
		}
	})
	t.Run("a client that does not stream", func(t *testing.T) {
		w := newWorld(t)
		if _, err := openai.NewChat(w.agent.Start("ana"), &answers{}, "any", &openai.Options{Show: func(string) {}}); err == nil {
			t.Error("no error")
		}
	})
}

// TestAStreamSaysWhatTheWholeSays: cut anywhere and mixed, it is the same answer.
func TestAStreamSaysWhatTheWholeSays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		want := api.ChatCompletionMessage{Role: "assistant", Content: rapid.StringN(0, 12, -1).Draw(rt, "content")}
		type cut struct {
			index int
			text  string
		}
		var rest []cut
		var pieces []api.ChatCompletionStreamResponse
		add := func(d api.ChatCompletionStreamChoiceDelta) {
			pieces = append(pieces, api.ChatCompletionStreamResponse{Choices: []api.ChatCompletionStreamChoice{{Delta: d}}})
		}
		for i := range rapid.IntRange(0, 4).Draw(rt, "calls") {
			c := api.ToolCall{ID: fmt.Sprint("c", i), Type: "function", Function: api.FunctionCall{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "name")}}
			begin := c
			begin.Index = &i
			add(api.ChatCompletionStreamChoiceDelta{ToolCalls: []api.ToolCall{begin}})
			for range rapid.IntRange(0, 3).Draw(rt, "cuts") {
				text := rapid.StringN(0, 5, -1).Draw(rt, "text")
				c.Function.Arguments += text
				rest = append(rest, cut{i, text})
			}
			want.ToolCalls = append(want.ToolCalls, c)
		}
		for len(rest) > 0 { // any call may go on next, each in its order
			i := rapid.IntRange(0, len(rest)-1).Draw(rt, "next")
			i = slices.IndexFunc(rest, func(c cut) bool { return c.index == rest[i].index })
			n := rest[i].index
			add(api.ChatCompletionStreamChoiceDelta{ToolCalls: []api.ToolCall{{Index: &n, Function: api.FunctionCall{Arguments: rest[i].text}}}})
			rest = slices.Delete(rest, i, i+1)
		}
		for _, r := range want.Content {
			add(api.ChatCompletionStreamChoiceDelta{Content: string(r)})
		}
		pieces = append(pieces, api.ChatCompletionStreamResponse{Choices: []api.ChatCompletionStreamChoice{{FinishReason: "stop"}}})
		got, _, err := openai.Collect(recv(pieces), nil)
		if err != nil {
			rt.Fatal(err)
		}
		a, _ := json.Marshal(got.Message)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			rt.Fatalf("got %s, want %s", a, b)
		}
	})
}

// An answer without calls may be cut short too.
func TestATextThatIsCutShortIsAnAnswer(t *testing.T) {
	pieces := []api.ChatCompletionStreamResponse{{Choices: []api.ChatCompletionStreamChoice{{Delta: api.ChatCompletionStreamChoiceDelta{Content: "and th"}, FinishReason: api.FinishReasonLength}}}}
	got, _, err := openai.Collect(recv(pieces), nil)
	if err != nil || got.Message.Content != "and th" || got.FinishReason != api.FinishReasonLength {
		t.Errorf("%+v, %v", got, err)
	}
}

func recv(pieces []api.ChatCompletionStreamResponse) func() (api.ChatCompletionStreamResponse, error) {
	return func() (p api.ChatCompletionStreamResponse, err error) {
		if len(pieces) == 0 {
			return p, io.EOF
		}
		p, pieces = pieces[0], pieces[1:]
		return p, nil
	}
}

// FuzzCollect: whatever pieces come, there is an error or an answer with all bytes of arguments
// that the pieces had, and no others but "{" of a call that was cut off.
func FuzzCollect(f *testing.F) {
	for _, s := range []string{piece(0, "1", "search", `{"a":1}`) + "\n" + delta("", calls), delta(`"content":"x"`, stop), "{}", `{"choices":[{"index":-1}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":-5,"id":"x"}]},"finish_reason":"stop"}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"x"}]},"finish_reason":"length"}]}`,
		bare("1", "search", "{") + "\n" + bare("1", "", "}") + "\n" + delta("", calls)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		var pieces []api.ChatCompletionStreamResponse
		arguments := 0
		for line := range strings.Lines(lines) {
			var p api.ChatCompletionStreamResponse
			if json.Unmarshal([]byte(line), &p) != nil {
				continue
			}
			for _, c := range p.Choices {
				for _, call := range c.Delta.ToolCalls {
					arguments += len(call.Function.Arguments)
				}
			}
			pieces = append(pieces, p)
		}
		got, _, err := openai.Collect(recv(pieces), nil)
		if err != nil {
			if !errors.Is(err, openai.ErrResponse) || got.Message.ToolCalls != nil {
				t.Fatalf("%v with %+v", err, got)
			}
			return
		}
		n, cut := 0, 0
		for _, c := range got.Message.ToolCalls {
			if n += len(c.Function.Arguments); c.Function.Arguments == "{" {
				cut++ // it may stand for none that came
			}
		}
		if n < arguments || n > arguments+cut {
			t.Fatalf("%d bytes of arguments, %d came", n, arguments)
		}
	})
}
