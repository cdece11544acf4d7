package keyring

import (
	"errors"
	"fmt"
)

// Errors of a ring, matched with errors.Is; each comes in a [*FileError].
// A file of another program gives [memory.ErrForeign] and one of a later version
// of this package [memory.ErrSchema]. Whatever is refused is left as it was.
var (
	// ErrNotFound: there is no ring in the folder.
	ErrNotFound = errors.New("no key ring there")
	// ErrExists: there is a ring in the folder, or something else.
	ErrExists = errors.New("something is there already, and keys are never overwritten")
	// ErrExposed: others than the owner may read the folder or a file in it.
	ErrExposed = errors.New("others than its owner may use it")
	// ErrDamaged: a file is not what was written: cut short, altered, of another
	// ring, or gone.
	ErrDamaged = errors.New("damaged, or of another ring")
	// ErrOldForm: an older version of this package wrote the ring, with a file for each
	// key. This version does not read it.
	ErrOldForm = errors.New("an older version wrote the key ring, and this one does not read it")
	// ErrAuditKeys: there is no audit key, or those at hand contradict each other.
	ErrAuditKeys = errors.New("keyring: audit keys")
)

// FileError says which file or folder of a ring is not as it should be.
type FileError struct {
	Path string
	Err  error  // one of the errors of this package or of memory, or an error of the operating system
	Fix  string // what to do, "" if there is no one thing to do
}

func (e *FileError) Error() string {
	if e.Fix == "" {
		return fmt.Sprintf("keyring: %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("keyring: %s: %v: %s", e.Path, e.Err, e.Fix)
}

// Unwrap returns e.Err.
func (e *FileError) Unwrap() error { return e.Err }
