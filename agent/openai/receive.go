package openai

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
)

// received is an assistant message on its way into the conversation. Servers hold the
// history to rules that their own models break, and refuse every later request for it.
type received struct {
	kept    api.ChatCompletionMessage // as it may be sent back
	names   []string                  // of the tools, as the model wrote them
	refused []string                  // of each call: why it is not carried out; "" = it is
}

// Texts for a model whose call cannot be carried out.
const (
	refusedID        = "NOT EXECUTED: this call has the id of another call in the same message. Make the call again, on its own."
	refusedType      = "NOT EXECUTED: only calls of type function are carried out here."
	refusedArguments = "NOT EXECUTED: the arguments are not valid: they are not one JSON object. Make the call again, with one whole JSON object."
)

// noWords stands beside calls without a word: the library leaves out an empty text, and
// DeepSeek's server refuses a message without one.
const noWords = "(calls)"

// noAnswer stands for an answer without a word. A message with nothing in it is refused.
const noAnswer = "(no answer)"

// receive makes a message that any server takes back. Each call has an id of its own, the
// type function, a name of the allowed form and one JSON object as its arguments. There is a
// word beside calls. Of a call that is carried out it changes only two things: empty arguments
// become an empty object, and a missing id is made.
func receive(m api.ChatCompletionMessage) received {
	r := received{kept: m, names: make([]string, len(m.ToolCalls)), refused: make([]string, len(m.ToolCalls))}
	r.kept.Role, r.kept.ToolCallID, r.kept.FunctionCall, r.kept.ToolCalls = api.ChatMessageRoleAssistant, "", nil, nil
	r.kept.MultiContent, r.kept.Content = nil, textOf(m)
	if strings.TrimSpace(r.kept.Content) == "" { // some servers refuse blanks
		r.kept.Content = ""
	}
	if m.Name != agent.APIName(m.Name) {
		r.kept.Name = ""
	}
	seen := map[string]bool{}
	for i, c := range m.ToolCalls {
		kept := api.ToolCall{ID: c.ID, Type: api.ToolTypeFunction, Function: api.FunctionCall{Name: agent.APIName(c.Function.Name), Arguments: c.Function.Arguments}}
		r.names[i] = c.Function.Name
		switch {
		case strings.TrimSpace(c.Function.Arguments) == "":
			kept.Function.Arguments = "{}"
		case !object(c.Function.Arguments):
			kept.Function.Arguments, r.refused[i] = "{}", refusedArguments
		default:
			if err := agent.Ambiguous(json.RawMessage(c.Function.Arguments)); err != nil {
				kept.Function.Arguments, r.refused[i] = "{}", agent.APIText(agent.Result{}, err)
			}
		}
		if c.Type != "" && c.Type != api.ToolTypeFunction {
			r.refused[i] = refusedType
		}
		switch {
		case strings.TrimSpace(c.ID) == "":
			kept.ID = newID()
		case seen[c.ID]:
			kept.ID, r.refused[i] = newID(), refusedID
		}
		seen[c.ID] = true
		r.kept.ToolCalls = append(r.kept.ToolCalls, kept)
	}
	if len(r.kept.ToolCalls) > 0 && r.kept.Content == "" {
		r.kept.Content = noWords
	}
	if len(r.kept.ToolCalls) == 0 && r.kept.Content == "" {
		if r.kept.Content, r.kept.Refusal = m.Refusal, ""; strings.TrimSpace(r.kept.Content) == "" {
			r.kept.Content = noAnswer
		}
	}
	return r
}

// textOf is the text of a message, also of one in parts. Parts of other kinds, such as thoughts,
// the library does not read, and sends back as something that servers refuse.
func textOf(m api.ChatCompletionMessage) string {
	if m.Content != "" {
		return m.Content
	}
	var texts []string
	for _, part := range m.MultiContent {
		if part.Type == api.ChatMessagePartTypeText && part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// newID names a call that its server gave no id.
func newID() string { return idOf(rand.Text()) }

// idOf makes the id of a call from a text: nine letters and digits, since Mistral's servers
// take no other.
func idOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:9]
}

// object reports whether a text is one JSON object and nothing else.
func object(text string) bool {
	return strings.HasPrefix(strings.TrimLeft(text, " \t\r\n"), "{") && utf8.ValidString(text) && json.Valid([]byte(text))
}
