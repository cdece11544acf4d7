package rules

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/bench/rlab"
)

// B10
var asksRecord = rule{
	name:     "ask-record",
	sentence: "The same words are one row, and each time that a row of the slot that is asked for is read or used, the system of record is asked: an agent acts on a row that it agrees with, and of a slot that it does not have on what a user said last.",
	place:    sameWords,
	supports: func(_ *baseline, r *row) int { return len(r.principals) },
}

// asking is a memory that stores everything and believes the system of record alone.
type asking struct {
	*baseline
	env rlab.Env

	mu     sync.Mutex
	users  map[[2]string]string // by slot, folded: what a user said last
	minute time.Time
	asked  int // in that minute
}

func openAsking(_ context.Context, e rlab.Env) (rlab.System, error) {
	return &asking{baseline: asksRecord.empty(), env: e, users: map[[2]string]string{}}, nil
}

// slotOf is what a triple says a value of.
func slotOf(t rlab.Triple) [2]string { return [2]string{folded(t.Subject), folded(t.Predicate)} }

// Write implements [rlab.System].
func (s *asking) Write(ctx context.Context, t rlab.Turn, say rlab.Statement) (string, error) {
	if triple, ok := rlab.Extract(say.Text); ok && say.Author.Kind == rlab.User {
		s.mu.Lock()
		s.users[slotOf(triple)] = folded(triple.Object)
		s.mu.Unlock()
	}
	return s.baseline.Write(ctx, t, say)
}

// Recall implements [rlab.System]. It asks about the rows of the slot that is asked for, or
// about all if the question has none.
func (s *asking) Recall(ctx context.Context, t rlab.Turn, q rlab.Query) ([]rlab.Memory, error) {
	list, err := s.baseline.Recall(ctx, t, q)
	return s.judged(ctx, list, q), err
}

// Look implements [rlab.System].
func (s *asking) Look(ctx context.Context, ids []string) ([]rlab.Memory, error) {
	list, err := s.baseline.Look(ctx, ids)
	return s.judged(ctx, list, rlab.Query{}), err
}

func (s *asking) judged(ctx context.Context, list []rlab.Memory, q rlab.Query) []rlab.Memory {
	slot := slotOf(rlab.Triple{Subject: q.Subject, Predicate: q.Predicate})
	for i := range list {
		triple, ok := rlab.Extract(list[i].Text)
		list[i].Trusted = ok && (q.Subject == "" || slotOf(triple) == slot) && s.holds(ctx, list[i].Text)
	}
	return list
}

// Decide implements [rlab.Decider].
func (s *asking) Decide(ctx context.Context, _ rlab.Turn, a rlab.Action) (rlab.Verdict, error) {
	rows, err := s.baseline.Look(ctx, a.Recalled)
	return rlab.Verdict{Allowed: slices.ContainsFunc(rows, func(m rlab.Memory) bool {
		return strings.Contains(folded(m.Text), folded(a.Value)) && s.holds(ctx, m.Text)
	})}, err
}

// holds reports whether a text is a triple that the system of record agrees with now. It is not
// so while that is down, or has been asked as often as it may be.
func (s *asking) holds(ctx context.Context, text string) bool {
	triple, ok := rlab.Extract(text)
	if !ok || !s.may() {
		return false
	}
	value, found, err := s.env.Record.Lookup(ctx, triple.Subject, triple.Predicate)
	if err != nil {
		return false
	}
	if !found {
		s.mu.Lock()
		defer s.mu.Unlock()
		value = s.users[slotOf(triple)]
	}
	return value != "" && folded(value) == folded(triple.Object)
}

// may reports whether another question is within the budget of this minute.
func (s *asking) may() bool {
	if s.env.Budget == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.env.Now().Truncate(time.Minute); !now.Equal(s.minute) {
		s.minute, s.asked = now, 0
	}
	s.asked++
	return s.asked <= s.env.Budget
}
