package openai

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	api "github.com/sashabaranov/go-openai"

	"github.com/hearsay-go/hearsay/agent"
)

var (
	// ErrTurns: the model went on calling tools beyond the limit of turns. Every
	// call it made was answered.
	ErrTurns = errors.New("openai: too many turns")
	// ErrResponse: the server answered with something that is no answer: no choice,
	// or a call in the form that tools have replaced.
	ErrResponse = errors.New("openai: unusable response")
	// ErrRequest: the request template holds what only the chat may set.
	ErrRequest = errors.New("openai: request template")
	// ErrNotRecalled: the text to be shown was not recalled by this run.
	ErrNotRecalled = errors.New("openai: not recalled by this run")
)

// Client asks a model; [*api.Client] is one.
type Client interface {
	CreateChatCompletion(ctx context.Context, request api.ChatCompletionRequest) (api.ChatCompletionResponse, error)
}

// Defaults of [Options].
const (
	DefaultMaxTurns = 10
	DefaultTimeout  = 2 * time.Minute
)

// Options of a [Chat]. Every zero field has a usable default.
type Options struct {
	// System is the operator's prompt. It vouches for nothing and taints nothing.
	System string
	// MaxTurns is how often the model may be asked for one answer; 0 = 10.
	MaxTurns int
	// Timeout bounds each request to the model; 0 = 2 minutes. The library has none
	// of its own.
	Timeout time.Duration
	// Show, if set, asks for answers in pieces and is given their text as it comes.
	// The client must be a [Streamer] too. Calls are carried out once an answer is
	// complete.
	Show func(text string)
	// Request is a template of the requests: temperature, seed and the like. Its
	// model, messages, tools, functions, stream and n are set by the chat and must
	// be unset.
	Request api.ChatCompletionRequest
}

// Chat is one conversation of a run with a model. It is not safe for concurrent
// use.
type Chat struct {
	run      *agent.Run
	client   Client
	request  api.ChatCompletionRequest
	messages []api.ChatCompletionMessage
	turns    int
	timeout  time.Duration
	streamer Streamer
	show     func(text string)
}

// NewChat opens a conversation of a run with a model. The tools offered are those
// of the run's agent, and no others.
func NewChat(run *agent.Run, client Client, model string, o *Options) (*Chat, error) {
	if run == nil || run.Agent() == nil || client == nil || strings.TrimSpace(model) == "" {
		return nil, errors.New("openai: NewChat: a chat needs a run, a client and a model")
	}
	c := &Chat{run: run, client: client, turns: DefaultMaxTurns, timeout: DefaultTimeout}
	if o != nil {
		r := o.Request
		//lint:ignore SA1019 the old way to offer tools is refused
		if r.Model != "" || r.Messages != nil || r.Tools != nil || r.Functions != nil || r.FunctionCall != nil || r.Stream || r.N > 1 {
			return nil, fmt.Errorf("%w: model, messages, tools, functions, stream and n are set by the chat", ErrRequest)
		}
		c.request = r
		if c.show = o.Show; c.show != nil {
			var ok bool
			if c.streamer, ok = client.(Streamer); !ok {
				return nil, errors.New("openai: NewChat: Show needs a client that streams")
			}
		}
		if o.MaxTurns > 0 {
			c.turns = o.MaxTurns
		}
		if o.Timeout > 0 {
			c.timeout = o.Timeout
		}
		if o.System != "" {
			c.messages = append(c.messages, api.ChatCompletionMessage{Role: api.ChatMessageRoleSystem, Content: o.System})
		}
	}
	tools, err := Tools(run.Agent())
	if err != nil {
		return nil, err
	}
	c.request.Model, c.request.Tools = model, tools
	return c, nil
}

// Messages is the conversation so far, as it is sent: answers of the model are as [Answer]
// keeps them. It is a copy.
func (c *Chat) Messages() []api.ChatCompletionMessage { return slices.Clone(c.messages) }

// Show puts what the run recalled before the model, tags and all. Anything else is
// [ErrNotRecalled]: what another run recalled, a text that was changed since, and one
// that the program put together.
func (c *Chat) Show(r agent.Recalled) error {
	if r.Text == "" {
		return nil
	}
	if !r.By(c.run) {
		return ErrNotRecalled
	}
	c.say(r.Text)
	return nil
}

func (c *Chat) say(text string) {
	c.messages = append(c.messages, api.ChatCompletionMessage{Role: api.ChatMessageRoleUser, Content: text})
}

// Reply is what the model said in the end.
type Reply struct {
	// Message is the last message of the model, as received.
	Message api.ChatCompletionMessage
	// Finish is why it ended: "length" is a text cut short.
	Finish api.FinishReason
	// Turns is how often the model was asked, and Usage the sum of the tokens.
	Turns int
	Usage api.Usage
}

// Text is the content of the message, or its refusal.
func (r Reply) Text() string {
	if text := textOf(r.Message); text != "" {
		return text
	}
	return r.Message.Refusal
}

// Ask says something to the model and lets it work until it calls no more tools.
// What is said are segments, so that the run knows who speaks: agent.Typed for
// the words of the principal, agent.Quoted for what they pasted, agent.FromRun
// for another agent's conclusion. History of another conversation is
// agent.UnknownText.
//
// An error of the server ends Ask; the conversation stays as it was when the
// server was last asked, and Ask without segments goes on from there. If calls were made by
// then, the error is an [*agent.CallsError] that has them.
//
// A model that repeats a call which is denied or refused ends it too, with
// [*agent.StalledError], which lists the run's held calls. Every call has been answered.
func (c *Chat) Ask(ctx context.Context, segments ...agent.Segment) (Reply, error) {
	texts, err := c.run.Input(ctx, segments...)
	if err != nil {
		return Reply{}, err
	}
	for _, text := range texts {
		if strings.TrimSpace(text) != "" { // servers refuse a message without words
			c.say(text)
		}
	}
	return c.work(ctx, &agent.Loop{})
}

// Resume waits until one of the run's parked calls comes free or ends, as
// [agent.Run.Resume] does and with its errors, shows the model what became of it, as
// [Resumed] does, and lets it work as Ask does. It is called between two Asks; bound
// the wait with ctx. If the server fails after the wait, the result stays in the
// conversation, and Ask without segments goes on from there.
func (c *Chat) Resume(ctx context.Context) (Reply, error) {
	r, err := c.run.Resume(ctx)
	if err != nil {
		return Reply{}, err
	}
	shown := Resumed(r)
	if c.reasons() {
		shown[0].ReasoningContent = "The call that waited has ended."
	}
	c.messages = append(c.messages, shown...)
	loop := &agent.Loop{}
	loop.Note(r.Tool, r.Args, r.Result, r.Err)
	if err := loop.Stalled(c.run); err != nil { // the model reads it, so that a denial counts
		return Reply{}, loop.Wrap(err)
	}
	return c.work(ctx, loop)
}

// noReasoning stands for reasoning that a server left out of a call, and wants back all the
// same: the library leaves out what is empty.
const noReasoning = "(none)"

// reasons reports whether the model has given reasoning in this conversation.
func (c *Chat) reasons() bool {
	return slices.ContainsFunc(c.messages, func(m api.ChatCompletionMessage) bool { return m.ReasoningContent != "" })
}

// work asks the model until it calls no more tools.
func (c *Chat) work(ctx context.Context, loop *agent.Loop) (Reply, error) {
	var reply Reply
	for reply.Turns < c.turns {
		choice, usage, err := c.complete(ctx)
		if err != nil {
			return reply, loop.Wrap(err)
		}
		reply.Turns++
		reply.Message, reply.Finish = choice.Message, choice.FinishReason
		reply.Usage.PromptTokens += usage.PromptTokens
		reply.Usage.CompletionTokens += usage.CompletionTokens
		reply.Usage.TotalTokens += usage.TotalTokens
		if m := &choice.Message; len(m.ToolCalls) > 0 && m.ReasoningContent == "" && c.reasons() {
			m.ReasoningContent = noReasoning
		}
		c.messages = append(c.messages, answer(ctx, c.run, choice.Message, loop)...)
		if len(choice.Message.ToolCalls) == 0 {
			return reply, nil
		}
		if err := loop.Stalled(c.run); err != nil {
			return reply, loop.Wrap(err)
		}
	}
	return reply, loop.Wrap(fmt.Errorf("%w: %d", ErrTurns, c.turns))
}

func (c *Chat) complete(ctx context.Context) (api.ChatCompletionChoice, api.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request := c.request
	request.Messages = slices.Clone(c.messages)
	if c.streamer != nil {
		return c.stream(ctx, request)
	}
	response, err := c.client.CreateChatCompletion(ctx, request)
	switch {
	case err != nil:
		return api.ChatCompletionChoice{}, api.Usage{}, fmt.Errorf("openai: asking the model: %w", err)
	case len(response.Choices) == 0: // measured: a 200 with an error in it gives no error and no choice
		return api.ChatCompletionChoice{}, api.Usage{}, fmt.Errorf("%w: no choice", ErrResponse)
	case slices.ContainsFunc(response.Choices[1:], func(c api.ChatCompletionChoice) bool { return len(c.Message.ToolCalls) > 0 }):
		return api.ChatCompletionChoice{}, api.Usage{}, fmt.Errorf("%w: calls in a second choice", ErrResponse)
	case calls(response.Choices[0].Message.FunctionCall):
		return api.ChatCompletionChoice{}, api.Usage{}, fmt.Errorf("%w: a function_call", ErrResponse)
	}
	return whole(response.Choices[0]), response.Usage, nil
}
