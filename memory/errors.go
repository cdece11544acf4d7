package memory

import (
	"errors"
	"fmt"
)

// Sentinel errors of [Store], matched with errors.Is.
var (
	// ErrInvalid is the sentinel of [*FieldError]: bad input, nothing written.
	ErrInvalid = errors.New("memory: invalid")
	// ErrNotFound: no such row in this tenant.
	ErrNotFound = errors.New("memory: row not found")
	// ErrIllegalMove: the transition is not in the table of legal moves, or its
	// authority may not make it.
	ErrIllegalMove = errors.New("memory: illegal move")
	// ErrInsufficient: the evidence does not suffice or is not independent (I-4).
	ErrInsufficient = errors.New("memory: insufficient evidence")
	// ErrRejected: a user contradicted this claim; only a user of equal or higher
	// authority may verify it again.
	ErrRejected = errors.New("memory: the claim was rejected by a user")
	// ErrContested: a verified row of the same or a higher rank says otherwise; the
	// evidence was kept and the contradiction shows, and no state moved.
	ErrContested = errors.New("memory: contested")
	// ErrOutranked: what verified the row outranks what speaks against it.
	ErrOutranked = errors.New("memory: outranked")
	// ErrOvertaken: since the source was asked, another value of the same subject and
	// predicate was verified. The answer may be older than that one: ask again.
	ErrOvertaken = errors.New("memory: overtaken")
	// ErrNoAuthority: this principal may not speak for this subject and
	// predicate (I-13).
	ErrNoAuthority = errors.New("memory: no authority over this subject")
	// ErrExpired: a time limit of a permit passed before it was consumed.
	ErrExpired = errors.New("memory: the permit expired")
	// ErrClosureTooLarge: a lineage has more than [MaxClosure] rows.
	ErrClosureTooLarge = errors.New("memory: closure too large")
	// ErrDamaged: a stored object does not decode, or a part of a row is missing. It is
	// an [ErrStore] that asking again does not mend.
	ErrDamaged = fmt.Errorf("%w: damaged", ErrStore)
)

// FieldError says which field of the input broke which rule. Nothing was
// written. errors.Is(err, ErrInvalid) holds.
type FieldError struct {
	Field string // the field, as in the JSON form: "asserter.family"
	Rule  string // a stable word: "required", "unknown_value", "too_long", …
	Text  string // for people
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("memory: %s: %s (%s)", e.Field, e.Text, e.Rule)
}

// Is reports whether target is [ErrInvalid].
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }

func invalid(field, rule, format string, args ...any) *FieldError {
	return &FieldError{Field: field, Rule: rule, Text: fmt.Sprintf(format, args...)}
}

// IllegalMoveError names a move that the table of legal moves does not have.
// errors.Is(err, ErrIllegalMove) holds.
type IllegalMoveError struct {
	Axis      Axis
	From, To  string
	Authority Authority
}

func (e *IllegalMoveError) Error() string {
	return fmt.Sprintf("memory: %s may not move %s from %s to %s", e.Authority, e.Axis, e.From, e.To)
}

// Is reports whether target is [ErrIllegalMove].
func (e *IllegalMoveError) Is(target error) bool { return target == ErrIllegalMove }
