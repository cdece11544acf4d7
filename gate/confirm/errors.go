package confirm

import "errors"

// Why a statement is refused; sentinels of [*RefusedError], matched with errors.Is.
// Nothing was written.
var (
	// ErrStatement: it is not a well-formed statement.
	ErrStatement = errors.New("confirm: not a statement")
	// ErrKey: there is no usable key.
	ErrKey = errors.New("confirm: no key")
	// ErrUnknownKey: no key is configured for the principal.
	ErrUnknownKey = errors.New("confirm: unknown key")
	// ErrForged: the signature is not of the principal for exactly this statement.
	ErrForged = errors.New("confirm: forged")
	// ErrExpired: it has ended, or ends too far ahead.
	ErrExpired = errors.New("confirm: expired")
	// ErrTenant: it was signed for another tenant, or for another of its namespaces.
	ErrTenant = errors.New("confirm: of another tenant")
	// ErrContent: the row holds other content than the principal saw.
	ErrContent = errors.New("confirm: of other content")
	// ErrStale: the row has moved since the principal saw it. A statement that was
	// used is stale.
	ErrStale = errors.New("confirm: stale")
	// ErrScope: the key does not reach this subject and predicate.
	ErrScope = errors.New("confirm: out of the key's scope")
	// ErrUsed: the call was made; what approved it is spent.
	ErrUsed = errors.New("confirm: used")
	// ErrDecided: somebody else decided about the call.
	ErrDecided = errors.New("confirm: decided already")
	// ErrRunEnded: the run that asked for the call has ended, so an approval frees nothing.
	ErrRunEnded = errors.New("confirm: the run has ended")
	// ErrEarly: the call may still be at work, so nobody can say yet that it was not done.
	ErrEarly = errors.New("confirm: too early")
	// ErrReplayed: the statement was applied before, and what it did was taken back.
	ErrReplayed = errors.New("confirm: replayed")
	// ErrHalf: the contradiction stands, and the correction was not written.
	ErrHalf = errors.New("confirm: contradicted, but not corrected")
)

// RefusedError says why a statement was refused. It unwraps to one of the
// sentinels and to the store's error, if one stood behind it.
type RefusedError struct {
	Kind  error  // one of the sentinels
	Field string // of the statement; "" = the whole
	Text  string // for people
	cause error
}

// Error is one line.
func (e *RefusedError) Error() string {
	s := e.Kind.Error() + ": "
	if e.Field != "" {
		s += e.Field + ": "
	}
	return s + e.Text
}

// Unwrap returns the sentinel and the cause.
func (e *RefusedError) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

func refuse(kind error, field, text string) *RefusedError {
	return &RefusedError{Kind: kind, Field: field, Text: text}
}
