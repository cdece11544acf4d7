package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

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

// afterDenial adds what follows on the steps that end a denial; nothing if another run is to ask.
func (w *whyJSON) afterDenial(left *obstacles) {
	switch {
	case len(w.Steps) > 0 && !slices.ContainsFunc(w.Steps, func(s stepJSON) bool { return !s.apart }):
	case slices.Contains(left.others, gate.AlreadyDone):
		w.step(joinThen, stepJSON{What: "the agent asks again; the same call was done before, so a person has to approve it once more"})
	default:
		w.step(joinThen, stepJSON{What: "the agent asks again: no approval lets this call through"})
	}
}

// mend adds the steps that end what stands in the way of a call. All of them are needed. A row
// says how many calls wait for it.
func (w *whyJSON) mend(ctx context.Context, s *memory.Store, left *obstacles) error {
	if left.denied == "" && slices.Contains(left.others, gate.AlreadyDone) {
		return nil // only an approval lets it be made once more
	}
	if left.unsettled != "" {
		w.step(joinAnd, settleStep(left.unsettled))
	}
	looked, err := faultyOf(ctx, s, left)
	if err != nil {
		return err
	}
	for i := range looked {
		steps := looked.mends(i, s.Now())
		if n := len(steps); n > 0 && steps[n-1].Command != "" { // which frees
			if steps[n-1].Waiting, err = waitingCalls(ctx, s, looked[i].row); err != nil {
				return err
			}
		}
		joins := joinAnd
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

// waitingCalls is how many open calls wait for a row, for other rows beside it too.
func waitingCalls(ctx context.Context, s *memory.Store, row memory.ID) (n int, err error) {
	for h, err := range s.HeldCalls(ctx, memory.HoldFilter{Row: row}) {
		if errors.Is(err, memory.ErrDamaged) {
			continue // approving or verifying frees it no more
		}
		if err != nil {
			return 0, err
		}
		if h.Open(s.Now()) {
			n++
		}
	}
	return n, nil
}

// faultyRow is a row at fault as it is now.
type faultyRow struct {
	*fault
	now    *memory.Row // as it counts for whom the call is made; nil if it cannot be read
	denier memory.ID   // a verified row that says otherwise; "" if there is none
}

type faultyRows []faultyRow

// faultyOf reads the rows at fault.
func faultyOf(ctx context.Context, s *memory.Store, left *obstacles) (faultyRows, error) {
	out := make(faultyRows, len(left.faults))
	for i := range left.faults {
		out[i].fault = &left.faults[i]
		rows, err := s.Get(ctx, left.faults[i].row)
		if unreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		r := rows[0].For(left.principal)
		if out[i].now = &r; out[i].wantsWord() {
			if out[i].denier, err = denierOf(ctx, s, &r, left.principal); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// denierOf is a row that gives the same thing another value than a row does, and that counts as
// verified in calls made for a principal; "" if there is none.
func denierOf(ctx context.Context, s *memory.Store, r *memory.Row, principal string) (memory.ID, error) {
	if !r.Content.Typed() {
		return "", nil
	}
	for other, err := range s.Rows(ctx, memory.Filter{Subject: r.Content.Subject, Predicate: r.Content.Predicate, State: memory.StateVerified}) {
		var one *memory.UnreadableError
		if errors.As(err, &one) {
			continue // what it says is not known
		}
		if err != nil {
			return "", err
		}
		if other = other.For(principal); rivals(r, &other) && other.State() == memory.StateVerified && other.Security == memory.SecurityClean && !past(&other, s.Now()) && !other.NotYetValid(s.Now()) {
			return other.ID, nil
		}
	}
	return "", nil
}

// rivals reports whether two rows give one thing two values, of which one can be right.
func rivals(a, b *memory.Row) bool {
	return a.Content.Typed() && b.Content.Typed() && a.Claim != b.Claim && memory.SameName(a.Content.Subject, b.Content.Subject) && memory.SameName(a.Content.Predicate, b.Content.Predicate) &&
		(a.Content.Cardinality == memory.CardinalityFunctional || b.Content.Cardinality == memory.CardinalityFunctional)
}

// past reports whether a row says what held until some time, which has come.
func past(r *memory.Row, now time.Time) bool {
	return !r.ValidUntil.IsZero() && !now.Before(r.ValidUntil)
}

// wantsWord reports whether the word of a verifier or of a person is what a row lacks.
func (f *faultyRow) wantsWord() bool {
	return !f.ancestor && f.has(gate.UnverifiedInput, gate.VerifierWasDown, gate.ContradictedInput, gate.StaleInput, gate.RankTooLow, gate.ContestedInput)
}

func (f *faultyRow) verified() bool { return f.now.State() == memory.StateVerified }

// denied reports whether a row is known to be wrong: nobody is told to confirm it.
func (f *faultyRow) denied() bool {
	return f.now.Rejection != nil || f.denier != "" && !f.verified()
}

// live reports whether a row may turn out to be right once somebody looks.
func (f *faultyRow) live(now time.Time) bool {
	return f.now != nil && f.wantsWord() && f.now.Quotes == "" && !f.denied() && !past(f.now, now)
}

// disputed names the rows at fault that give one thing several values, of which a row is one;
// none if there are no others.
func (all faultyRows) disputed(i int, now time.Time) (ids []string) {
	r, several := all[i].now, false
	for j := range all {
		f := &all[j]
		if !f.live(now) || !f.now.Content.Typed() || !memory.SameName(r.Content.Subject, f.now.Content.Subject) || !memory.SameName(r.Content.Predicate, f.now.Content.Predicate) {
			continue
		}
		several = several || rivals(r, f.now)
		ids = append(ids, "row "+string(f.row))
	}
	if !several {
		return nil
	}
	return ids
}

// listed joins names: "a, b and c".
func listed(names []string) string {
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// contested is the step about two verified rows that say different things; none if a row
// before this one has it.
func (all faultyRows) contested(i int) []stepJSON {
	f := &all[i]
	if slices.ContainsFunc(all[:i], func(b faultyRow) bool { return b.now != nil && b.denier != "" && b.verified() && rivals(b.now, f.now) }) {
		return nil
	}
	return []stepJSON{{What: "row " + string(f.row) + " and row " + string(f.denier) + " are both verified, and say different things: a person who knows rejects the wrong one (hearsay row reject)"}}
}

// fromTool reports whether a source that can be read speaks, or spoke, for a row.
func fromTool(r *memory.Row) bool {
	return slices.ContainsFunc(r.Evidence, func(e memory.Evidence) bool {
		return e.Relation == memory.RelationSupports && (e.Rank == memory.RankTool || e.Rank == memory.RankPrimarySource)
	})
}

const elsewhere = "the agent asks in a new run that does not rest on it"

// mends are the steps that make a row fit, one after the other. There are none if those of a row
// before it do.
func (all faultyRows) mends(i int, now time.Time) (steps []stepJSON) {
	f := &all[i]
	r, its := f.now, "row "+string(f.row)+" "
	alone := func(what string) []stepJSON { return []stepJSON{{What: what}} }
	apart := func(what string) []stepJSON { return []stepJSON{{What: what, apart: true}} }
	switch {
	case r == nil:
		return apart(its + "cannot be read any more: " + elsewhere)
	case f.has(gate.SensitivityExceeded):
		return alone(its + "is more secret than the tool may be given: " + elsewhere + ", or the tool's ceiling is raised")
	case f.has(gate.RowDamaged, gate.RowMissing):
		return alone(its + "is put right from a backup, or " + elsewhere)
	case f.ancestor:
	case r.Quotes != "":
		return apart(its + "is a quotation, which nobody confirms: the agent asks in a new run that recalls the claim alone")
	case r.Truth == memory.TruthSuperseded && !r.Has(memory.FlagOutdated):
		return apart(its + "was retracted for good: " + elsewhere)
	case past(r, now):
		return apart(its + "said what held until " + moment(r.ValidUntil) + ": the run reads again what holds now, in a run that does not rest on it")
	case f.has(gate.SupersededInput) && !fromTool(r):
		return apart(its + "was superseded: " + elsewhere)
	case !f.wantsWord():
	case r.Rejection != nil:
		return apart(its + "was rejected: " + elsewhere)
	case f.denied():
		return apart("verified row " + string(f.denier) + " says otherwise than row " + string(f.row) + ": " + elsewhere)
	case f.verified() && f.denier != "":
		return all.contested(i)
	default:
		if ids := all.disputed(i, now); len(ids) > 0 {
			if ids[0] != "row "+string(f.row) {
				return nil // that one has the step
			}
			if len(ids) == 2 {
				ids[0] = "both " + ids[0]
			}
			return apart("the run rests on " + listed(ids) + ", of which at most one is right: the agent asks in a new run that reads only the right one")
		}
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
		steps = append(steps, stepJSON{What: its + "says what holds later: the agent asks again then"})
	}
	if f.wantsWord() || len(steps) == 0 {
		step("confirm", "the row is verified, by a worker or by a person who knows")
	}
	return steps
}

// settleStep ends the doubt about the same call that was made before.
func settleStep(made string) stepJSON {
	return stepJSON{What: "a person who has looked says whether the same call was done before", Command: settleCommand(made)}
}
