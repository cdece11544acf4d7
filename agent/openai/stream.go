package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	api "github.com/sashabaranov/go-openai"
)

// Streamer asks a model for an answer in pieces; [*api.Client] is one.
type Streamer interface {
	CreateChatCompletionStream(ctx context.Context, request api.ChatCompletionRequest) (*api.ChatCompletionStream, error)
}

// Limits of an answer that comes in pieces.
const (
	maxCalls    = 1024     // calls in one message
	maxStreamed = 16 << 20 // bytes of text and arguments together
	maxName     = 1 << 10  // bytes of a tool's name
)

// Collect puts an answer together that comes in pieces: recv is the Recv of a
// stream. show, if not nil, is given the text as it comes. No call is complete, and
// none may be carried out, before the answer is: an answer that ends early, whose
// pieces contradict each other or that is too large is [ErrResponse], and no choice
// comes back. A call that may have been cut off before its arguments has "{" for them: they
// are not valid, and the call is refused.
func Collect(recv func() (api.ChatCompletionStreamResponse, error), show func(text string)) (api.ChatCompletionChoice, api.Usage, error) {
	c := collecting{unsure: map[int]bool{}}
	for {
		piece, err := recv()
		if errors.Is(err, io.EOF) {
			return c.choice()
		}
		if err == nil {
			err = c.add(&piece, show)
		} else {
			err = fmt.Errorf("openai: asking the model: %w", err)
		}
		if err != nil {
			return api.ChatCompletionChoice{}, api.Usage{}, err
		}
	}
}

// collecting is an answer so far.
type collecting struct {
	content, refusal, reasoning strings.Builder

	calls     []api.ToolCall
	arguments [][]byte
	at        map[int]int  // where the call with an index is
	unsure    map[int]bool // calls that another piece begins anew: without arguments they may be its start
	size      int
	finish    api.FinishReason
	usage     api.Usage
}

func unusable(text string) error { return fmt.Errorf("%w: %s", ErrResponse, text) }

func (c *collecting) add(piece *api.ChatCompletionStreamResponse, show func(string)) error {
	if piece.Usage != nil {
		c.usage = *piece.Usage
	}
	for i := range piece.Choices {
		choice := &piece.Choices[i]
		d := &choice.Delta
		switch {
		case choice.Index != 0:
			return unusable("a second choice")
		case calls(d.FunctionCall):
			return unusable("a function_call")
		case c.finish != "" && (choice.FinishReason == "" || choice.FinishReason == api.FinishReasonNull) && (d.Content != "" || d.Refusal != "" || d.ReasoningContent != "" || len(d.ToolCalls) > 0):
			return unusable("more after its end")
		}
		c.content.WriteString(d.Content)
		c.refusal.WriteString(d.Refusal)
		c.reasoning.WriteString(d.ReasoningContent)
		c.size += len(d.Content) + len(d.Refusal) + len(d.ReasoningContent)
		for j := range d.ToolCalls {
			if err := c.call(&d.ToolCalls[j]); err != nil {
				return err
			}
		}
		if c.size > maxStreamed {
			return unusable("too long")
		}
		if show != nil && d.Content != "" {
			show(d.Content)
		}
		// Some servers say why it ended with each piece. That it was cut off stands.
		if choice.FinishReason != "" && choice.FinishReason != api.FinishReasonNull && (c.finish == "" || finished(c.finish)) {
			c.finish = choice.FinishReason
		}
	}
	return nil
}

// call adds a piece of a call. The index says which call it is of; without one the id does,
// and without either it is of the last call. Servers differ in the rest: some say id and name
// again with each piece, give another id with each, give a name in pieces, or give all calls
// one index. A piece with a name begins a new call if that of its index has another id, or has
// none, another name and some arguments. Two calls that cannot be told apart come out as one,
// whose arguments are not valid.
func (c *collecting) call(piece *api.ToolCall) error {
	n, known := c.which(piece)
	before := -1 // the call that the piece seems to begin anew
	if known && c.begins(n, piece) {
		before, known = n, false
	}
	if !known {
		if last := len(c.calls) - 1; piece.Index == nil && last >= 0 {
			before = last
		}
		if before >= 0 {
			c.unsure[before] = true
			c.unsure[len(c.calls)] = c.calls[before].Function.Name == piece.Function.Name // or it goes on with it
		}
		if piece.Index == nil && piece.ID == "" && piece.Function.Name == "" || len(c.calls) == maxCalls {
			return unusable("a piece of a call that was not begun, or one call too many")
		}
		n = len(c.calls)
		c.calls, c.arguments = append(c.calls, api.ToolCall{}), append(c.arguments, nil)
		if piece.Index != nil {
			if c.at == nil {
				c.at = map[int]int{}
			}
			c.at[*piece.Index] = n
		}
	}
	whole := &c.calls[n]
	if whole.ID == "" {
		whole.ID = piece.ID
	}
	switch {
	case piece.Type == "" || piece.Type == whole.Type:
	case whole.Type == "":
		whole.Type = piece.Type
	default:
		return unusable("pieces of two calls in one")
	}
	switch {
	case piece.Function.Name == whole.Function.Name:
	case len(whole.Function.Name)+len(piece.Function.Name) > maxName:
		return unusable("a name without an end")
	case len(c.arguments[n]) == 0:
		whole.Function.Name += piece.Function.Name
	case piece.Function.Name != "":
		return unusable("pieces of two calls in one")
	}
	c.size += len(piece.Function.Arguments) + len(piece.ID) + len(piece.Function.Name)
	c.arguments[n] = append(c.arguments[n], piece.Function.Arguments...)
	return nil
}

// which finds the call that a piece is of, if it was begun.
func (c *collecting) which(piece *api.ToolCall) (n int, known bool) {
	switch {
	case piece.Index != nil:
		n, known = c.at[*piece.Index]
	case piece.ID != "":
		n = slices.IndexFunc(c.calls, func(have api.ToolCall) bool { return have.ID == piece.ID })
		known = n >= 0
	case piece.Function.Name == "":
		n, known = len(c.calls)-1, len(c.calls) > 0
	}
	return n, known
}

// begins reports whether a piece with a name is of a new call, though its index is that of an
// earlier one.
func (c *collecting) begins(n int, piece *api.ToolCall) bool {
	have := &c.calls[n]
	switch {
	case piece.Index == nil || piece.Function.Name == "":
		return false
	case piece.ID != "" && have.ID != "":
		return piece.ID != have.ID
	}
	return len(c.arguments[n]) > 0 && piece.Function.Name != have.Function.Name
}

func (c *collecting) choice() (api.ChatCompletionChoice, api.Usage, error) {
	if c.finish == "" {
		return api.ChatCompletionChoice{}, api.Usage{}, unusable("it ended early")
	}
	for i := range c.calls {
		if c.calls[i].Function.Arguments = string(c.arguments[i]); c.unsure[i] && len(c.arguments[i]) == 0 {
			c.calls[i].Function.Arguments = cutOff
		}
	}
	choice := api.ChatCompletionChoice{FinishReason: c.finish, Message: api.ChatCompletionMessage{
		Role: api.ChatMessageRoleAssistant, Content: c.content.String(), Refusal: c.refusal.String(), ReasoningContent: c.reasoning.String(), ToolCalls: c.calls}}
	return whole(choice), c.usage, nil
}

// cutOff stands for the arguments of a call that may not be a whole one: they are not valid, so
// the call is refused.
const cutOff = "{"

// finished reports whether a message that ended for a reason is whole. These are the words of
// the API and those that other servers have for the same. All others may say that the message
// was cut off: length, content_filter, insufficient_system_resource, model_length, abort, …
func finished(why api.FinishReason) bool {
	switch why {
	case "", api.FinishReasonNull, api.FinishReasonStop, api.FinishReasonToolCalls, api.FinishReasonFunctionCall,
		"eos", "eos_token", "end_turn", "stop_sequence", "tool_use":
		return true
	}
	return false
}

// calls reports whether a call of the older form is one. Some servers send an empty one.
func calls(f *api.FunctionCall) bool { return f != nil && *f != (api.FunctionCall{}) }

// whole refuses the last call of a choice that was cut off before its arguments: it is not one
// without arguments.
func whole(choice api.ChatCompletionChoice) api.ChatCompletionChoice {
	if finished(choice.FinishReason) {
		return choice
	}
	if last := len(choice.Message.ToolCalls) - 1; last >= 0 && strings.TrimSpace(choice.Message.ToolCalls[last].Function.Arguments) == "" {
		choice.Message.ToolCalls = slices.Clone(choice.Message.ToolCalls)
		choice.Message.ToolCalls[last].Function.Arguments = cutOff
	}
	return choice
}

// stream asks for an answer in pieces.
func (c *Chat) stream(ctx context.Context, request api.ChatCompletionRequest) (api.ChatCompletionChoice, api.Usage, error) {
	s, err := c.streamer.CreateChatCompletionStream(ctx, request)
	if err != nil {
		return api.ChatCompletionChoice{}, api.Usage{}, fmt.Errorf("openai: asking the model: %w", err)
	}
	defer s.Close()
	return Collect(s.Recv, c.show)
}
