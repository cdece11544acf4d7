// Package scripted serves a scripted model over real HTTP on the loopback, in
// the OpenAI wire format (POST /v1/chat/completions), so that the examples run
// offline and through the same clients that a real model would be asked with.
//
// It streams nothing and has one model, of any name. It is for examples and
// tests: what it answers is a Go function.
package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Message is one message of a request, with its text parts joined.
type Message struct {
	Role       string // system, user, assistant or tool
	Text       string
	ToolCallID string // of a message with role tool
	Calls      []Call // of a message with role assistant
}

// Call is a tool call: of the script if the model makes it, of the history if
// the client sends it back.
type Call struct {
	ID   string // in a reply, "" = one is made up
	Name string
	Args string // as the model wrote them: JSON, or not
}

// Request is what the client asked.
type Request struct {
	Turn     int // 0 for the first request that the server answers
	Model    string
	Messages []Message
	Tools    []string // names of the tools offered
}

// Last is the text of the last message.
func (r Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	return r.Messages[len(r.Messages)-1].Text
}

// Reply is what the model says: text, or tool calls, or both. A Status other than
// 0 is an HTTP error with Text as its message.
type Reply struct {
	Text   string
	Calls  []Call
	Status int
}

// Script answers a request. It must be safe for concurrent use if the server is
// asked concurrently.
type Script func(Request) Reply

// Say is a reply of text alone.
func Say(text string) Reply { return Reply{Text: text} }

// Do is a reply of one tool call; args is marshalled to JSON.
func Do(name string, args any) Reply { return Reply{Calls: []Call{NewCall(name, args)}} }

// NewCall is a tool call with args marshalled to JSON. It panics if they cannot be.
func NewCall(name string, args any) Call {
	b, err := json.Marshal(args)
	if err != nil {
		panic("scripted: " + err.Error())
	}
	return Call{Name: name, Args: string(b)}
}

// Turns answers the n-th request with the n-th reply, and any further one with
// an HTTP error.
func Turns(replies ...Reply) Script {
	return func(r Request) Reply {
		if r.Turn >= len(replies) {
			return Reply{Status: http.StatusInternalServerError, Text: fmt.Sprintf("the script has %d turns and was asked for one more", len(replies))}
		}
		return replies[r.Turn]
	}
}

// Server is a scripted model that listens. It is safe for concurrent use.
type Server struct {
	script Script
	http   *http.Server
	url    string
	done   chan struct{}

	mu       sync.Mutex
	requests []Request
}

// Serve starts a model on a free port of 127.0.0.1, in a goroutine that ends with
// Close.
func Serve(script Script) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("scripted: %w", err)
	}
	s := &Server{script: script, url: "http://" + l.Addr().String() + "/v1", done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		s.http.Serve(l) // gives ErrServerClosed; a client sees any other error itself
	}()
	return s, nil
}

// URL is the base URL for a client, with the path /v1.
func (s *Server) URL() string { return s.url }

// Requests are the requests answered so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Close stops the server and waits for its goroutine.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	return err
}

// maxRequest is far above what an example sends.
const maxRequest = 16 << 20

func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	var in wireRequest
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err == nil && in.Stream {
		err = fmt.Errorf("this model does not stream")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	req := in.request()
	s.mu.Lock()
	req.Turn = len(s.requests)
	s.requests = append(s.requests, req)
	s.mu.Unlock()

	reply := s.script(req)
	if reply.Status != 0 {
		fail(w, reply.Status, reply.Text)
		return
	}
	respond(w, http.StatusOK, reply.wire(req, len(body)))
}

func fail(w http.ResponseWriter, status int, text string) {
	respond(w, status, map[string]any{"error": map[string]any{"message": text, "type": "scripted_error"}})
}

func respond(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}

type wireRequest struct {
	Model    string        `json:"model"`
	Stream   bool          `json:"stream"`
	Messages []wireMessage `json:"messages"`
	Tools    []struct {
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
	} `json:"tools"`
}

type wireMessage struct {
	Role       string      `json:"role"`
	Content    wireContent `json:"content"`
	ToolCallID string      `json:"tool_call_id,omitempty"`
	ToolCalls  []wireCall  `json:"tool_calls,omitempty"`
}

type wireCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// wireContent is a string, null, or a list of parts of which the text ones count.
type wireContent string

func (c *wireContent) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		var parts []struct {
			Text string `json:"text"`
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		var texts []string
		for _, p := range parts {
			texts = append(texts, p.Text)
		}
		*c = wireContent(strings.Join(texts, "\n"))
		return nil
	}
	return json.Unmarshal(b, (*string)(c))
}

func (in wireRequest) request() Request {
	r := Request{Model: in.Model}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	for _, m := range in.Messages {
		msg := Message{Role: m.Role, Text: string(m.Content), ToolCallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			msg.Calls = append(msg.Calls, Call{ID: c.ID, Name: c.Function.Name, Args: c.Function.Arguments})
		}
		r.Messages = append(r.Messages, msg)
	}
	return r
}

// wire gives a reply the form of the API. Tokens are counted as words of four bytes.
func (reply Reply) wire(req Request, sent int) any {
	type choice struct {
		Index        int    `json:"index"`
		Message      any    `json:"message"`
		FinishReason string `json:"finish_reason"`
	}
	message := map[string]any{"role": "assistant", "content": reply.Text}
	finish, said := "stop", len(reply.Text)
	if len(reply.Calls) > 0 {
		finish = "tool_calls"
		calls := make([]wireCall, len(reply.Calls))
		for i, c := range reply.Calls {
			calls[i].ID, calls[i].Type = c.ID, "function"
			if c.ID == "" {
				calls[i].ID = fmt.Sprintf("call_%d_%d", req.Turn, i)
			}
			calls[i].Function.Name, calls[i].Function.Arguments = c.Name, c.Args
			said += len(c.Name) + len(c.Args)
		}
		message["tool_calls"] = calls
		if reply.Text == "" {
			message["content"] = nil
		}
	}
	return map[string]any{
		"id": fmt.Sprintf("chatcmpl-%d", req.Turn), "object": "chat.completion", "created": 0, "model": req.Model,
		"choices": []choice{{Message: message, FinishReason: finish}},
		"usage":   map[string]int{"prompt_tokens": sent / 4, "completion_tokens": said / 4, "total_tokens": sent/4 + said/4},
	}
}
