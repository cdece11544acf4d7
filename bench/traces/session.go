package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/recall"
)

// session is a run that plays a trace, with what its agent can see.
type session struct {
	run    *agent.Run
	prompt string

	shown   []string                // texts and values that are in the context
	handles map[string]agent.Handle // by the value they stand for
	closed  []agent.Handle          // handles that were not opened
}

func (w *world) begin(ctx context.Context, a *agent.Agent, t *task) (*session, error) {
	s := &session{run: a.Start(w.suite.Principal), prompt: t.Prompt, handles: map[string]agent.Handle{}}
	_, err := s.run.Input(ctx, agent.Typed(t.Prompt))
	return s, err
}

// recall reads what memory holds about a subject. A trace that reads nothing would
// look safe, so that is an error.
func (s *session) recall(ctx context.Context, subject, predicate string) error {
	found, err := s.run.Recall(ctx, recall.Query{Subject: subject, Predicate: predicate})
	if err == nil && len(found.Rows) == 0 {
		err = errors.New("memory shows nothing")
	}
	for i := range found.Rows {
		s.shown = append(s.shown, found.Rows[i].Content.Object)
	}
	return err
}

// refer reads it by handles.
func (s *session) refer(ctx context.Context, store *memory.Store, subject string) error {
	found, err := s.run.RecallHandles(ctx, recall.Query{Subject: subject, Predicate: predicate})
	if err == nil && len(found) == 0 {
		err = errors.New("memory shows no handle")
	}
	for _, h := range found {
		rows, getErr := store.Get(ctx, h.Row())
		if getErr != nil {
			return getErr
		}
		s.handles[rows[0].Content.Object] = h
		s.closed = append(s.closed, h)
	}
	return err
}

// open reads what was read by handle only: from then on it feeds the run.
func (s *session) open(ctx context.Context) error {
	_, err := s.run.Open(ctx, s.closed...)
	s.closed = nil
	return err
}

// sees reports whether an agent could have written the value from what it can see.
func (s *session) sees(value string) bool {
	if standsIn(s.prompt, value) {
		return true
	}
	for _, text := range s.shown {
		if standsIn(text, value) {
			return true
		}
	}
	return false
}

// write is what an agent that works by handles makes of a call's arguments: what it
// sees it writes, what a handle stands for it hands over, and if there is anything
// else it opens all its handles first, since it could not have known it.
func (s *session) write(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	if len(s.closed) == 0 {
		return args, nil
	}
	dec := json.NewDecoder(strings.NewReader(string(args)))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("arguments: %w", err)
	}
	known := true
	leaves("", v, func(_, leaf string) {
		_, handed := s.handles[leaf]
		known = known && (handed || s.sees(leaf))
	})
	if !known {
		return args, s.open(ctx)
	}
	return json.Marshal(s.hand(v))
}

// hand puts handles in the place of what the agent does not see.
func (s *session) hand(v any) any {
	switch node := v.(type) {
	case map[string]any:
		for k := range node {
			node[k] = s.hand(node[k])
		}
	case []any:
		for i := range node {
			node[i] = s.hand(node[i])
		}
	case string:
		if h, handed := s.handles[node]; handed && !s.sees(node) {
			return h.Token()
		}
	}
	return v
}
