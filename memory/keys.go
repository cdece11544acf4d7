package memory

import (
	"context"
	"errors"
	"fmt"
)

// Class names a data key: the key under which everything about one set of data
// subjects is sealed. A row made from rows of several subjects is of the class of
// all of them together, so that the erasure of any one makes it unreadable. The
// zero Class is no class.
type Class uint64

// String returns the class in hexadecimal.
func (c Class) String() string { return fmt.Sprintf("%016x", uint64(c)) }

// Keys is the secret material of a store. It is kept outside the store: who has
// a copy of the store alone can neither read what rows say nor change the audit
// unseen. The package memory/keyring has it in files. A Keys must be safe for
// concurrent use, by several processes too.
type Keys interface {
	// Root must return a secret that never changes in the life of a store. What
	// the store is searched and identified by is blinded with keys derived from it.
	Root() [32]byte

	// Audit must return the key that audit entries are authenticated with now, and
	// its id, which is never 0 and never used for another key.
	Audit() (id uint32, key [32]byte)
	// AuditKey must return the key with an id, current or retired.
	AuditKey(id uint32) (key [32]byte, ok bool)

	// Class must return the class of all the subjects of the parents' classes
	// together with subjects, making its data key if it is new; the same set gives
	// the same class. Subjects are opaque non-empty strings, compared byte by byte.
	// No parents and no subjects is a set like any other. A parent that is retired
	// or destroyed must give [ErrErased].
	Class(ctx context.Context, parents []Class, subjects []string) (Class, error)

	// Seal must encrypt and authenticate plaintext under the data key of a class,
	// bound to associated data. [ErrErased] if the key was destroyed, [ErrKey] if
	// there is no such class.
	Seal(ctx context.Context, c Class, plaintext, associated []byte) ([]byte, error)
	// Open must undo Seal. [ErrErased] if the key was destroyed; [ErrKey] if there
	// is no such class, or if the ciphertext is not one of it.
	Open(ctx context.Context, c Class, ciphertext, associated []byte) ([]byte, error)

	// Retire must end the present classes of a subject: from now on no class is
	// made from them, and what is written about the subject is of new ones. It
	// returns them all, ascending; again the same ones until they are destroyed.
	Retire(ctx context.Context, subject string) ([]Class, error)
	// Subject must list the classes of a subject that are not destroyed, ascending.
	Subject(ctx context.Context, subject string) ([]Class, error)
	// Destroy must make the data keys of classes unrecoverable. Destroying one
	// twice is no error.
	Destroy(ctx context.Context, classes ...Class) error
}

// Errors of [Keys].
var (
	// ErrErased: what was asked for was erased, and its data key destroyed.
	ErrErased = errors.New("memory: erased")
	// ErrKey: the keys at hand are not the ones the store was written with.
	ErrKey = errors.New("memory: wrong key")
)

func isErased(err error) bool { return errors.Is(err, ErrErased) }
