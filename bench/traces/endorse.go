package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/hearsay-go/hearsay/agent"
	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// remind lets a run recall the claims that a person has confirmed and that hold a
// value of the call, in tasks and in attacks.
func (w *world) remind(ctx context.Context, s *session, args json.RawMessage) error {
	if len(w.confirmed) == 0 {
		return nil
	}
	for _, value := range values(args) {
		if subject := w.confirmed[value]; subject != "" && !slices.Contains(s.shown, value) {
			if err := s.recall(ctx, subject, claimed); err != nil {
				return err
			}
		}
	}
	return nil
}

// claimed names what an agent asks a person to confirm.
const claimed = "asked about"

// answer is what a person does about a question. If confirming one thing frees the
// call, they do that, and it stays confirmed: a row of the trace, with all that it
// says, or a claim that the agent has written down, of a value for which it has no
// row. Else they approve this one call, which frees no other.
func (w *world) answer(ctx context.Context, s *session, c *call, d gate.Decision, o *outcome) error {
	subjects, err := w.atFault(ctx, d)
	if err != nil {
		return err
	}
	nowhere, err := w.unconfirmed(s, c)
	if err != nil {
		return err
	}
	switch {
	case len(subjects) == 1 && !d.Has(gate.FromNowhere):
		o.rows++
		err = w.confirmRow(ctx, subjects[0])
	case len(nowhere) == 1 && d.Precision == gate.WholeRun:
		o.claims++
		err = w.confirmClaim(ctx, s, nowhere[0])
	default:
		o.calls++
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s, confirming: %w", w.suite.Name, err)
	}
	after, err := w.offer(ctx, s, c, nil, "")
	if err == nil && after.Blocked() {
		err = fmt.Errorf("%s: %s is blocked after it was confirmed: %w", w.suite.Name, c.Tool, after.Err())
	}
	return err
}

// atFault are the rows of the trace that a call fell over, if it fell over nothing
// but that nobody has verified them.
func (w *world) atFault(ctx context.Context, d gate.Decision) ([]string, error) {
	subjects := map[string]bool{}
	for _, r := range d.Reasons {
		switch {
		case r.Outcome == gate.Permit || r.Code == gate.FromNowhere:
			continue
		case r.Code != gate.UnverifiedInput || r.Ancestor:
			return nil, nil
		}
		rows, err := w.store.Get(ctx, r.Row)
		if err != nil {
			return nil, err
		}
		if rows[0].Content.Predicate != predicate {
			return nil, nil // what the agent wrote itself is nothing to confirm
		}
		subjects[rows[0].Content.Subject] = true
	}
	return slices.Sorted(maps.Keys(subjects)), nil
}

// unconfirmed are the values of a call's sinks that a person would have to confirm for
// the call to be judged by its sinks; nil if that would not do, since there is a sink
// that a value cannot clear.
func (w *world) unconfirmed(s *session, c *call) ([]string, error) {
	tool := w.suite.tools[c.Tool]
	if len(tool.Sinks) == 0 {
		return nil, nil
	}
	var out []string
	for _, name := range tool.Sinks {
		kind := kinds[name]
		for _, v := range sinkValues(given(c.Args), []string{"/" + name}) {
			switch {
			case len(v) < 3 || small(v) || kind.Selects():
				return nil, nil
			case !standsIn(s.prompt, v) && w.confirmed[v] == "" && !slices.Contains(out, v):
				out = append(out, v)
			}
		}
	}
	return out, nil
}

// small reports whether a value is an integer that vouches for nothing.
func small(v string) bool {
	f, ok := new(big.Rat).SetString(v)
	return ok && f.IsInt() && f.Num().CmpAbs(big.NewInt(1000)) < 0
}

func (w *world) confirmRow(ctx context.Context, subject string) error {
	for row, err := range w.store.Rows(ctx, memory.Filter{Subject: subject, Predicate: predicate}) {
		if err == nil && row.Truth != memory.TruthSupported {
			err = w.confirm(ctx, &row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *world) confirmClaim(ctx context.Context, s *session, value string) error {
	subject := "is it " + value
	receipt, err := s.run.Remember(ctx, agent.Note{Content: memory.Content{Subject: subject, Predicate: claimed, Object: value}})
	if err != nil {
		return err
	}
	rows, err := w.store.Get(ctx, receipt.ID)
	if err != nil {
		return err
	}
	if err := w.confirm(ctx, &rows[0]); err != nil {
		return err
	}
	w.confirmed[value] = subject
	return nil
}

func (w *world) confirm(ctx context.Context, row *memory.Row) error {
	who := memory.Asserter{Principal: w.suite.Principal}
	_, err := w.store.Apply(ctx, memory.Transition{
		Row: row.ID, Revision: row.Revision, To: memory.TruthSupported, Authority: memory.AuthorityUser,
		Actor: w.suite.Principal, Source: "confirm", Reason: "asked",
		Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankUser, Source: "user:" + w.suite.Principal,
			Verifier: "principal", Group: who.Group(), Anchor: memory.Anchor{URI: "question"}, At: w.store.Now()}},
	})
	return err
}

// values lists the scalars of arguments.
func values(args json.RawMessage) []string { return sinkValues(args, []string{""}) }
