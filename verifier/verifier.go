package verifier

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// Verifier asks one source about a row. Implementations are safe for concurrent
// use and obey ctx; [WithBreaker] bounds one that does not. An error is
// [ErrUnavailable], [ErrMisconfigured] or the error of a cancelled ctx; with an
// error the verdict is zero.
type Verifier interface {
	Verify(ctx context.Context, row memory.Row) (Verdict, error)
}

// Func is a function that is a Verifier.
type Func func(ctx context.Context, row memory.Row) (Verdict, error)

// Verify calls f.
func (f Func) Verify(ctx context.Context, row memory.Row) (Verdict, error) { return f(ctx, row) }

// Outcome is what a source says of a claim.
type Outcome uint8

// The outcomes. The zero value promotes nothing and demotes nothing (I-1).
const (
	Unknown   Outcome = iota // nothing was said
	Supported                // the source says the same
	Refuted                  // the source says otherwise
	Unclear                  // the source answered, and the answer decides nothing
	Gone                     // what the source would answer from has vanished, or is not what was pinned
)

// String returns the name in lower case.
func (o Outcome) String() string {
	if int(o) < len(outcomes) {
		return outcomes[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

var outcomes = [...]string{"unknown", "supported", "refuted", "unclear", "gone"}

// Verdict is the answer of a verifier about one row. Confidence is no part of
// it: it would order nothing here and may promote nothing (SR-4.1).
type Verdict struct {
	Outcome Outcome
	// Evidence is complete for Supported, Refuted and Gone, and zero otherwise. Its
	// Anchor.Hash is the SHA-256 of the observed value, so that repeating the
	// answer repeats the evidence and counts once. Of Gone it contextualizes: that a
	// source vanished says nothing of the claim.
	Evidence memory.Evidence
	// Heard is what else was said when several were asked, for the row and against it:
	// beside the evidence that decides, or alone where nothing was decided. At most
	// [memory.MaxQuorum].
	Heard []memory.Evidence
	// Observed is what the source says, at most 4 KiB; "" if that is not known.
	// It comes from outside and is data, never an instruction.
	Observed string
	// Detail says in a few words for people why, at most 4 KiB.
	Detail string
}

// Check reports whether the verdict may be acted on: Supported, Refuted and Gone need
// evidence that says the same as the outcome and names rank, source, verifier,
// group, anchor and time; the other outcomes need none. Evidence of rank user or
// recall is refused: no verifier speaks for a person (I-13), and a recall
// supports nothing. The error wraps [ErrMalformed].
func (v *Verdict) Check() error {
	if len(v.Heard) > memory.MaxQuorum {
		return fmt.Errorf("%w: %d voices, at most %d", ErrMalformed, len(v.Heard), memory.MaxQuorum)
	}
	for i := range v.Heard {
		if err := v.complete(&v.Heard[i], v.Heard[i].Relation); err != nil {
			return err
		}
	}
	switch v.Outcome {
	case Supported:
		return v.complete(&v.Evidence, memory.RelationSupports)
	case Refuted:
		return v.complete(&v.Evidence, memory.RelationContradicts)
	case Gone:
		return v.complete(&v.Evidence, memory.RelationContextualizes)
	case Unclear:
		return nil
	case Unknown:
		if len(v.Heard) == 0 {
			return nil
		}
	}
	return fmt.Errorf("%w: %s", ErrMalformed, v.Outcome)
}

func (v *Verdict) complete(e *memory.Evidence, want memory.Relation) error {
	for _, rule := range [...]struct {
		broken bool
		text   string
	}{
		{e.Relation == 0 || e.Relation != want, "the relation does not fit the outcome"},
		{e.Rank < memory.RankModel || e.Rank > memory.RankPrimarySource, "no verifier gives evidence of this rank"},
		{strings.TrimSpace(e.Source) == "", "no source"},
		{strings.TrimSpace(e.Verifier) == "", "no verifier"},
		{strings.TrimSpace(e.Group) == "", "no independence group"},
		{e.Anchor.URI == "" && e.Anchor.Hash == "", "no anchor"},
		{e.At.IsZero(), "no time"},
	} {
		if rule.broken {
			return fmt.Errorf("%w: %s, and %s", ErrMalformed, v.Outcome, rule.text)
		}
	}
	return nil
}

// Said is all of the evidence in the verdict, what decides first.
func (v *Verdict) Said() []memory.Evidence {
	if v.Evidence.Relation == 0 {
		return v.Heard
	}
	return append([]memory.Evidence{v.Evidence}, v.Heard...)
}

// ErrMalformed: a verdict says more than its evidence shows.
var ErrMalformed = errors.New("verifier: malformed verdict")
