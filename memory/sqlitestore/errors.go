package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/hearsay-go/hearsay/memory"
	"modernc.org/sqlite"
)

// Primary result codes of SQLite that are told apart here.
const (
	codeBusy       = 5
	codeLocked     = 6
	codeNoMemory   = 7
	codeReadOnly   = 8
	codeIO         = 10
	codeCorrupt    = 11
	codeFull       = 13
	codeCantOpen   = 14
	codeConstraint = 19
	codeNotADB     = 26
)

var faults = map[int]string{
	codeBusy:     "the file is locked",
	codeLocked:   "the file is locked",
	codeNoMemory: "out of memory",
	codeReadOnly: "the file or its folder cannot be written",
	codeIO:       "the disk reported an error",
	codeCorrupt:  "the file is damaged",
	codeFull:     "the disk is full",
	codeCantOpen: "the file or a file beside it cannot be opened",
	codeNotADB:   "the file is damaged",
}

// primary is the primary result code of a driver error, 0 of any other error.
func primary(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func busy(err error) bool {
	code := primary(err)
	return code == codeBusy || code == codeLocked
}

// edge translates an error on its way out. What is a sentinel or a context error
// stays what it is; a driver error becomes ErrStore with words of our own, and
// its text, which may hold statements and data, ends here.
func edge(op string, err error) error {
	var conflict *memory.ConflictError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &conflict):
		return fmt.Errorf("sqlitestore: %s: %w", op, conflict)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, memory.ErrClosed), errors.Is(err, memory.ErrTooLarge), errors.Is(err, memory.ErrInvalidBatch),
		errors.Is(err, memory.ErrForeign), errors.Is(err, memory.ErrSchema), errors.Is(err, memory.ErrStore):
		return fmt.Errorf("sqlitestore: %s: %w", op, err)
	}
	code := primary(err)
	if code == codeFull {
		return fmt.Errorf("sqlitestore: %s: %w: %s", op, memory.ErrFull, faults[code])
	}
	if words, ok := faults[code]; ok {
		return fmt.Errorf("sqlitestore: %s: %w: %s", op, memory.ErrStore, words)
	}
	return fmt.Errorf("sqlitestore: %s: %w (code %d)", op, memory.ErrStore, code)
}
