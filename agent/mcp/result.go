package mcp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	api "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/hearsay-go/hearsay/agent"
)

// output is what a result gives to the run. What is not in it reaches nobody.
func output(res *api.CallToolResult) (json.RawMessage, error) {
	if res == nil {
		return nil, errors.New("the server gave no result")
	}
	if res.NeedsInput() || len(res.InputRequests) > 0 {
		return nil, errors.New("the server asks for more input, which the gate has not seen")
	}
	text, plain := texts(res.Content)
	if res.IsError {
		if b, err := json.Marshal(res.StructuredContent); err == nil && res.StructuredContent != nil && strings.TrimSpace(text) == "" {
			text = string(b)
		}
		if strings.TrimSpace(text) == "" {
			text = "the server says that the tool failed, and nothing more"
		}
		return nil, errors.New(text)
	}
	switch {
	case !plain: // recorded as a whole
		return json.Marshal(whole{res.Content, res.StructuredContent})
	case res.StructuredContent != nil:
		var same any
		if json.Unmarshal([]byte(text), &same) == nil && reflect.DeepEqual(same, res.StructuredContent) {
			return value([]byte(text)) // the library rounds numbers of structured content, not those of a text
		}
		b, err := json.Marshal(res.StructuredContent)
		if err != nil {
			return nil, err
		}
		return value(b)
	}
	if t := strings.TrimSpace(text); (strings.HasPrefix(t, "{") || strings.HasPrefix(t, "[")) && json.Valid([]byte(t)) {
		return value([]byte(t))
	}
	return json.Marshal(text)
}

// value is JSON of a server as an output: a text, if it would be taken for a result with blocks
// that are no text, which it is not.
func value(text []byte) (json.RawMessage, error) {
	var all api.CallToolResult
	if json.Unmarshal(text, &all) == nil {
		if _, plain := texts(all.Content); !plain {
			return json.Marshal(string(text))
		}
	}
	return text, nil
}

// whole is the output of a result that is not only text.
type whole struct {
	Content    []api.Content `json:"content"`
	Structured any           `json:"structuredContent,omitempty"`
}

// texts joins the text blocks, and reports whether there are no others. Of blocks
// of other kinds, an error is told their JSON.
func texts(content []api.Content) (joined string, plain bool) {
	plain = true
	var lines []string
	for _, c := range content {
		switch block := c.(type) {
		case nil:
		case *api.TextContent:
			lines = append(lines, block.Text)
		default:
			plain = false
			b, err := json.Marshal(block)
			if err != nil {
				b = fmt.Appendf(nil, "a block that cannot be shown: %T", block)
			}
			lines = append(lines, string(b))
		}
	}
	return strings.Join(lines, "\n"), plain
}

// result shows an output to a client. All of it comes from the output, so that a
// client sees nothing that is not recorded. Texts lose what imitates the tag of memory;
// structured content is data for the client's program and stays as it is. structured says that the tool
// promised structured content.
func result(text string, out json.RawMessage, structured bool) *api.CallToolResult {
	res := complete()
	if blocks, all := wholeOf(out); blocks {
		res.Content, res.StructuredContent = all.Content, all.StructuredContent
		return res
	}
	res.Content = []api.Content{&api.TextContent{Text: text}}
	if structured && json.Valid(out) {
		res.StructuredContent = out
	}
	return res
}

// blocksOf reports whether an output is that of a result with blocks that are no text, and
// gives it as it is.
func blocksOf(out json.RawMessage) (blocks bool, all api.CallToolResult) {
	if json.Unmarshal(out, &all) != nil {
		return false, all
	}
	same, err := json.Marshal(whole{all.Content, all.StructuredContent})
	_, plain := texts(all.Content)
	return !plain && err == nil && bytes.Equal(same, out), all
}

// wholeOf is blocksOf as a client may see it: no string in its blocks imitates the tag of
// memory, and no tag goes from one block to the next.
func wholeOf(out json.RawMessage) (blocks bool, all api.CallToolResult) {
	if blocks, all = blocksOf(out); !blocks {
		return false, all
	}
	content, err := json.Marshal(whole{Content: all.Content})
	if err != nil {
		return false, all
	}
	var defused api.CallToolResult
	if json.Unmarshal([]byte(forModel(string(content))), &defused) != nil {
		return false, all
	}
	all.Content = defused.Content
	if joined, _ := texts(all.Content); forModel(joined) != joined {
		return false, all // shown as one text
	}
	return true, all
}

// unread is how many bytes of an output no model reads as text: those of blocks that [result]
// shows as such, and the escapes of texts.
func unread(out json.RawMessage) (size int) {
	blocks, all := wholeOf(out)
	if !blocks {
		return 0
	}
	for _, c := range all.Content {
		switch block := c.(type) {
		case *api.TextContent:
			size += quoted(block.Text) - len(block.Text)
		case *api.ImageContent:
			size += base64.StdEncoding.EncodedLen(len(block.Data))
		case *api.AudioContent:
			size += base64.StdEncoding.EncodedLen(len(block.Data))
		case *api.EmbeddedResource:
			if block.Resource != nil && !readAsText(block.Resource.MIMEType) {
				size += base64.StdEncoding.EncodedLen(len(block.Resource.Blob))
			}
		}
	}
	return size
}

// readAsText reports whether a client may give the model a blob of a media type as text. A
// picture, a sound, a film or a PDF it gives as such, or not at all.
func readAsText(media string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(media)), "/")
	return !slices.Contains([]string{"image", "audio", "video"}, kind) && !strings.HasPrefix(strings.ToLower(media), "application/pdf")
}

// cut leaves the pictures of an output and as much of its text as no more than limit bytes of
// it count; nil of one that is only text, or in which something else is too long.
func cut(out json.RawMessage, limit int) json.RawMessage {
	if whole, _ := wholeOf(out); !whole {
		return nil
	}
	_, all := blocksOf(out)
	if all.StructuredContent != nil {
		return nil
	}
	short := whole{Content: slices.Clone(all.Content)}
	for i, c := range short.Content {
		if text, is := c.(*api.TextContent); is {
			short.Content[i] = withText(text, "")
		}
	}
	frame, err := json.Marshal(short)
	if err != nil {
		return nil
	}
	left := limit - (len(frame) - unread(frame))
	if left < 0 {
		return nil
	}
	for i, c := range all.Content {
		if text, is := c.(*api.TextContent); is {
			some := startOf(text.Text, left)
			if short.Content[i], left = withText(text, some), left-len(some); some != text.Text {
				left = 0 // what follows is left out
			}
		}
	}
	b, err := json.Marshal(short)
	if again, _ := wholeOf(b); err != nil || !again {
		return nil
	}
	return b
}

// words is as much of the text of an output as has no more than limit bytes, for a model that
// is given text only. A block that is no text stands there by its kind. nil of an output that
// has no other blocks, or structured content beside them.
func words(out json.RawMessage, limit int) json.RawMessage {
	mixed, all := blocksOf(out)
	if !mixed || all.StructuredContent != nil {
		return nil
	}
	lines := make([]string, 0, len(all.Content))
	for _, c := range all.Content {
		switch block := c.(type) {
		case *api.TextContent:
			lines = append(lines, block.Text)
		case *api.ImageContent:
			lines = append(lines, "(an image, which is not shown)")
		case *api.AudioContent:
			lines = append(lines, "(a sound, which is not shown)")
		case *api.EmbeddedResource:
			if block.Resource != nil && block.Resource.Text != "" {
				lines = append(lines, block.Resource.Text)
			} else {
				lines = append(lines, "(a file, which is not shown)")
			}
		default:
			b, err := json.Marshal(block)
			if err != nil {
				return nil
			}
			lines = append(lines, string(b))
		}
	}
	b, err := json.Marshal(startOf(strings.Join(lines, "\n"), limit))
	if err != nil {
		return nil
	}
	return b
}

// withText is a text block with another text.
func withText(block *api.TextContent, text string) *api.TextContent {
	changed := *block
	changed.Text = text
	return &changed
}

// startOf is as much of the start of a text as has no more than size bytes.
func startOf(text string, size int) string {
	if len(text) <= size {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// quoted is how many bytes a text has in JSON, without its quotes.
func quoted(text string) int {
	b, err := json.Marshal(text)
	if err != nil {
		return math.MaxInt
	}
	return len(b) - len(`""`)
}

// forModel is a text of a tool as a model may see it.
func forModel(text string) string {
	b, err := json.Marshal(text)
	if err != nil || strings.TrimSpace(text) == "" {
		return text
	}
	return agent.ToolText(agent.Result{Output: b}, nil)
}

// refusal is a call that did not fire, or failed, as a result for the model: an
// error of the protocol would not reach it.
func refusal(text string) *api.CallToolResult {
	res := complete()
	res.Content, res.IsError = []api.Content{&api.TextContent{Text: text}}, true
	return res
}

// complete is an empty result that says it is one. The library sets that for its
// own handlers only.
func complete() *api.CallToolResult {
	var res api.CallToolResult
	if err := json.Unmarshal([]byte(`{"content":[],"resultType":"complete"}`), &res); err != nil {
		return &api.CallToolResult{} // what is not said is complete, too
	}
	return &res
}
