package transfer

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// Errors that refuse a dump as a whole; nothing was written.
var (
	// ErrFormat: it is no dump of rows, or its header was changed.
	ErrFormat = errors.New("transfer: not a dump of rows")
	// ErrVersion: it is a dump of another version of the schema.
	ErrVersion = errors.New("transfer: a dump of another schema version")
	// ErrSignature: it bears no signature of the trusted key over all of its lines.
	ErrSignature = errors.New("transfer: the signature does not hold")
	// ErrChanged: what was imported of it before is not what it begins with, and it
	// cannot be read again from its beginning.
	ErrChanged = errors.New("transfer: not the dump whose import was begun")
)

// ErrUnread: rows of the store are damaged, or their key is missing. The dump is whole but for
// what these say: it has their ids, and whether they were under suspicion. An import gives what was
// made from them an unknown lineage. [memory.Store.Rebuild] may make them readable again.
var ErrUnread = errors.New("transfer: rows could not be read")

// LineError says why a line was rejected. It names no content. errors.Is(err,
// memory.ErrInvalid) holds.
type LineError struct {
	Line  int    `json:"line"`  // from 1
	Field string `json:"field"` // as in the line: "asserter.family"; "line" is all of it
	Rule  string `json:"rule"`  // a stable word: "hash", "unknown_field", "too_long", …
}

// Error is one line.
func (e *LineError) Error() string {
	return fmt.Sprintf("line %d: %s: %s", e.Line, e.Field, e.Rule)
}

// Is reports whether target is [memory.ErrInvalid].
func (e *LineError) Is(target error) bool { return target == memory.ErrInvalid }

// wholeLine is the field of what is wrong with a line as a whole.
const wholeLine = "line"

func bad(field, rule string) *memory.FieldError {
	return &memory.FieldError{Field: field, Rule: rule, Text: "the line is rejected"}
}

// rejected makes of an error what may be said of it. The name of a field that is no
// name could be anything, and is left out.
func rejected(line int, err error) *LineError {
	e := &LineError{Line: line, Field: wholeLine, Rule: "refused"}
	var field *memory.FieldError
	switch {
	case errors.As(err, &field):
		e.Rule = field.Rule
		if field.Field != "" && strings.Trim(field.Field, "abcdefghijklmnopqrstuvwxyz_.") == "" {
			e.Field = field.Field
		}
	case errors.Is(err, memory.ErrErased):
		e.Field, e.Rule = "id", "erased"
	case errors.Is(err, memory.ErrClosureTooLarge):
		e.Field, e.Rule = "derived_from", "closure_too_large"
	case errors.Is(err, memory.ErrTooLarge):
		e.Rule = "too_large"
	}
	return e
}
