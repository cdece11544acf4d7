// Package verifiertest has a verifier that does as it is told, for tests of what
// happens when a real one is down, slow, hanging, flapping, wrong or lying
// (SR-2.3).
package verifiertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/verifier"
)

// Step answers one question. s is the verifier that was asked.
type Step func(ctx context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error)

// Scripted is a Verifier that follows a script. It is safe for concurrent use;
// set Rank and Group before the first question.
type Scripted struct {
	Name  string
	Rank  memory.Rank // of its evidence; New sets RankTool
	Group string      // of its evidence; New sets "tool:" and the name

	mu    sync.Mutex
	steps []Step
	next  int
	asked []memory.ID
}

// New returns a verifier that takes the steps one by one, a step for each
// question, and then repeats the last. Without steps it is down.
func New(name string, steps ...Step) *Scripted {
	return &Scripted{Name: name, Rank: memory.RankTool, Group: "tool:" + name, steps: slices.Clone(steps)}
}

// Set replaces the script: the next question takes the first of these steps.
func (s *Scripted) Set(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps, s.next = slices.Clone(steps), 0
}

// Calls returns how many questions were asked.
func (s *Scripted) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// Asked returns the rows that were asked about, in order.
func (s *Scripted) Asked() []memory.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Verify takes the next step of the script.
func (s *Scripted) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	s.mu.Lock()
	s.asked = append(s.asked, row.ID)
	step := Down(0)
	if len(s.steps) > 0 {
		step = s.steps[min(s.next, len(s.steps)-1)]
		s.next++
	}
	s.mu.Unlock()
	return step(ctx, s, row)
}

// Verdict returns a verdict that decides, with complete evidence of this
// verifier that rests on the observed value.
func (s *Scripted) Verdict(o verifier.Outcome, observed string) verifier.Verdict {
	relation := memory.RelationSupports
	if o == verifier.Refuted {
		relation = memory.RelationContradicts
	}
	sum := sha256.Sum256([]byte(observed))
	return verifier.Verdict{Outcome: o, Observed: observed, Detail: "scripted", Evidence: memory.Evidence{
		Relation: relation, Rank: s.Rank, Source: s.Name, Verifier: s.Name, Group: s.Group,
		Anchor: memory.Anchor{URI: "tool:" + s.Name, Hash: hex.EncodeToString(sum[:])},
		At:     time.Now().UTC().Round(0),
	}}
}

// Supports says the same as the claim. Asked about a false claim, it is a lying
// verifier.
func Supports() Step {
	return func(_ context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		return s.Verdict(verifier.Supported, row.Content.Object), nil
	}
}

// Refutes says that the source has another value. Asked about a true claim, it
// is a lying verifier.
func Refutes(observed string) Step {
	return func(_ context.Context, s *Scripted, _ memory.Row) (verifier.Verdict, error) {
		return s.Verdict(verifier.Refuted, observed), nil
	}
}

// Truth supports a claim whose object is the value and refutes any other.
func Truth(value string) Step {
	return func(_ context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		if memory.Canonical(row.Content.Object) == memory.Canonical(value) {
			return s.Verdict(verifier.Supported, value), nil
		}
		return s.Verdict(verifier.Refuted, value), nil
	}
}

// Lies does the reverse of what a step says: it supports what that refutes and
// refutes what it supports.
func Lies(step Step) Step {
	return func(ctx context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		v, err := step(ctx, s, row)
		switch v.Outcome {
		case verifier.Supported:
			return s.Verdict(verifier.Refuted, "not "+row.Content.Object), err
		case verifier.Refuted:
			return s.Verdict(verifier.Supported, row.Content.Object), err
		}
		return v, err
	}
}

// Unclear answers without deciding anything.
func Unclear() Step {
	return func(context.Context, *Scripted, memory.Row) (verifier.Verdict, error) {
		return verifier.Verdict{Outcome: verifier.Unclear, Detail: "scripted"}, nil
	}
}

// Malformed claims support and shows no evidence for it.
func Malformed() Step {
	return func(context.Context, *Scripted, memory.Row) (verifier.Verdict, error) {
		return verifier.Verdict{Outcome: verifier.Supported}, nil
	}
}

// Down is an outage; retryAfter 0 states no time.
func Down(retryAfter time.Duration) Step {
	return func(_ context.Context, s *Scripted, _ memory.Row) (verifier.Verdict, error) {
		return verifier.Verdict{}, &verifier.UnavailableError{
			Verifier: s.Name, RetryAfter: retryAfter, Err: errors.New("scripted outage"),
		}
	}
}

// Misconfigured cannot ever answer.
func Misconfigured() Step {
	return func(_ context.Context, s *Scripted, _ memory.Row) (verifier.Verdict, error) {
		return verifier.Verdict{}, &verifier.MisconfiguredError{Verifier: s.Name, Err: errors.New("scripted wrong key")}
	}
}

// Fails returns an error of no known class.
func Fails(err error) Step {
	return func(context.Context, *Scripted, memory.Row) (verifier.Verdict, error) {
		return verifier.Verdict{}, err
	}
}

// Slow takes the step after d, and gives up when ctx ends.
func Slow(d time.Duration, step Step) Step {
	return func(ctx context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return step(ctx, s, row)
		case <-ctx.Done():
			return verifier.Verdict{}, ctx.Err()
		}
	}
}

// Hangs answers nothing until ctx ends.
func Hangs() Step {
	return func(ctx context.Context, _ *Scripted, _ memory.Row) (verifier.Verdict, error) {
		<-ctx.Done()
		return verifier.Verdict{}, ctx.Err()
	}
}

// Stuck ignores ctx and answers nothing until release is closed; then it takes
// the step.
func Stuck(release <-chan struct{}, step Step) Step {
	return func(ctx context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		<-release
		return step(ctx, s, row)
	}
}

// Panics panics with v.
func Panics(v any) Step {
	return func(context.Context, *Scripted, memory.Row) (verifier.Verdict, error) { panic(v) }
}

// Flaps takes the steps in turn, for ever.
func Flaps(steps ...Step) Step {
	var mu sync.Mutex
	next := 0
	return func(ctx context.Context, s *Scripted, row memory.Row) (verifier.Verdict, error) {
		mu.Lock()
		step := steps[next%len(steps)]
		next++
		mu.Unlock()
		return step(ctx, s, row)
	}
}
