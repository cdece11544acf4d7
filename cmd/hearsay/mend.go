package main

import (
	"context"
	"errors"
	"slices"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// How a step of [whyJSON] joins those before it.
const (
	joinThen = "then"
	joinAnd  = "and"
	joinOr   = "or"
)

// step adds a step.
func (w *whyJSON) step(joins string, s stepJSON) {
	if s.Joins = joins; len(w.Steps) == 0 {
		s.Joins = ""
	}
	w.Steps = append(w.Steps, s)
}

// askAgainDenied follows on the steps that end a denial.
var askAgainDenied = stepJSON{What: "the agent asks again: no approval lets this call through"}

// mend adds the steps that end what stands in the way of a call. All of them are needed. A row
// says how many calls wait for it.
func (w *whyJSON) mend(ctx context.Context, s *memory.Store, left *obstacles) error {
	if left.denied == "" && slices.Contains(left.others, gate.AlreadyDone) {
		return nil // only an approval lets it be made once more
	}
	if left.unsettled != "" {
		w.step(joinAnd, settleStep(left.unsettled))
	}
	var before []memory.Content
	for i := range left.faults {
		f := &left.faults[i]
		rows, err := s.Get(ctx, f.row)
		if err != nil && !unreadable(err) {
			return err
		}
		var r *memory.Row
		if err == nil {
			r = &rows[0]
		}
		steps := mends(r, f)
		last := &steps[len(steps)-1] // which frees
		for other, err := range s.HeldCalls(ctx, memory.HoldFilter{Row: f.row}) {
			if last.Command == "" {
				break
			}
			if errors.Is(err, memory.ErrDamaged) {
				continue // approving or verifying frees it no more
			}
			if err != nil {
				return err
			}
			if other.Open(s.Now()) {
				last.Frees++
			}
		}
		joins := joinAnd
		if r != nil {
			if slices.ContainsFunc(before, func(c memory.Content) bool { return rivals(&c, &r.Content) }) {
				joins = joinOr // not both are right
			}
			before = append(before, r.Content)
		}
		for _, step := range steps {
			w.step(joins, step)
			joins = joinThen
		}
	}
	for _, code := range left.others {
		switch code {
		case gate.OutcomeUnknown, gate.AlreadyDone:
		case gate.FromNowhere:
			w.step(joinAnd, stepJSON{What: "the run reads the value" + left.at(code) + " in a verified row, or its principal types it"})
		case gate.ToolNotChosen:
			w.step(joinAnd, stepJSON{What: "the principal types the name of the tool"})
		default:
			w.step(joinAnd, stepJSON{What: "a person does what docs/why-blocked.md says of " + string(code)})
		}
	}
	return nil
}

// rivals reports whether two claims give one thing two values, of which one can be right.
func rivals(a, b *memory.Content) bool {
	return a.Typed() && b.Typed() && a.Cardinality == memory.CardinalityFunctional && b.Cardinality == memory.CardinalityFunctional &&
		a.Subject == b.Subject && a.Predicate == b.Predicate && a.Object != b.Object
}

// mends are the steps that make a row fit, one after the other; there is at least one. The row
// is nil if it cannot be read.
func mends(r *memory.Row, f *fault) (steps []stepJSON) {
	const elsewhere = "the agent asks in a run that does not rest on it"
	alone := func(what string) []stepJSON {
		return []stepJSON{{What: "row " + string(f.row) + " " + what}}
	}
	switch {
	case r == nil:
		return alone("cannot be read any more: " + elsewhere)
	case f.has(gate.SensitivityExceeded):
		return alone("is more secret than the tool may be given: " + elsewhere + ", or the tool's ceiling is raised")
	case f.has(gate.RowDamaged, gate.RowMissing):
		return alone("is put right from a backup, or " + elsewhere)
	case r.Quotes != "" && !f.ancestor:
		return alone("is a quotation, which nobody confirms: the agent asks in a new run that recalls the claim alone")
	case r.Truth == memory.TruthSuperseded && !r.Has(memory.FlagOutdated) && !f.ancestor:
		return alone("was retracted for good: " + elsewhere)
	}
	step := func(verb, what string) {
		steps = append(steps, stepJSON{What: what, Command: "hearsay row " + verb + " " + string(f.row) + " --shown-sha256 DIGITS --key FILE --as NAME --reason TEXT"})
	}
	if r.Security == memory.SecurityMalicious {
		step("acquit", "a person says that the row is no attack")
	}
	if f.has(gate.QuarantinedInput) {
		step("release", "a person reviews the row, and releases it")
	}
	if f.has(gate.NotRetrievable) {
		step("expose", "a person lets the row be acted on")
	}
	if f.has(gate.SupersededInput) {
		steps = append(steps, stepJSON{What: "the run reads again what its source says now, and goes by that"})
	}
	if f.has(gate.NotYetValid) {
		steps = append(steps, stepJSON{What: "row " + string(f.row) + " says what holds later: the agent asks again then"})
	}
	if f.has(gate.UnverifiedInput, gate.VerifierWasDown, gate.ContradictedInput, gate.StaleInput, gate.RankTooLow, gate.ContestedInput) || len(steps) == 0 {
		step("confirm", "the row is verified, by a worker or by a person who knows")
	}
	return steps
}

// settleStep ends the doubt about the same call that was made before.
func settleStep(made string) stepJSON {
	return stepJSON{What: "a person who has looked says whether the same call was done before", Command: settleCommand(made)}
}
