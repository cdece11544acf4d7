package memory

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// KeyID names the data key of one data subject. The zero KeyID is no key.
type KeyID uint64

// String returns the id in hexadecimal.
func (k KeyID) String() string { return fmt.Sprintf("%016x", uint64(k)) }

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

	// Key must return the id of the present data key of a subject, making the key
	// durable before it does if it is new. A subject is an opaque non-empty string,
	// compared byte by byte.
	Key(ctx context.Context, subject string) (KeyID, error)

	// Prepare must do what Key does for many subjects at once, in the time of one or
	// two. The id of one that Key refuses is 0.
	Prepare(ctx context.Context, subjects ...string) ([]KeyID, error)

	// Seal must encrypt and authenticate plaintext under a data key, bound to
	// associated data. [ErrErased] if the key was destroyed, [ErrKey] if there is no
	// such key.
	Seal(ctx context.Context, k KeyID, plaintext, associated []byte) ([]byte, error)
	// Open must undo Seal. [ErrErased] if the key was destroyed; [ErrKey] if there is
	// no such key, or if the ciphertext is not one of it.
	Open(ctx context.Context, k KeyID, ciphertext, associated []byte) ([]byte, error)

	// Retire must end the present key of a subject: what is written about the subject
	// from now on is under a new one. It returns the keys that were ended and are not
	// destroyed, ascending; again the same ones until they are destroyed.
	Retire(ctx context.Context, subject string) ([]KeyID, error)
	// Subject must list the keys of a subject that are not destroyed, ascending.
	Subject(ctx context.Context, subject string) ([]KeyID, error)
	// Destroy must make data keys unrecoverable. Destroying one twice is no error, and
	// says anew how far it is.
	Destroy(ctx context.Context, keys ...KeyID) (Destruction, error)

	// Witnesses must list what SetWitness recorded, oldest first: the ids of
	// witnesses, and the zero Token where one was given up. The last one counts.
	Witnesses(ctx context.Context) ([]Token, error)
	// SetWitness must make durable, and for good, that a witness follows on the first
	// n records; the zero Token gives one up. [ErrConflict] if there are not n.
	SetWitness(ctx context.Context, n int, id Token) error
}

// Destruction says how far data keys are destroyed: nothing opens under them any more,
// and with an old copy of the keys nobody does either, unless it is pending.
type Destruction struct {
	Version string    // of the wrapping key that covered them
	At      time.Time // when that was found destroyed; of no meaning while it is pending
	Pending string    // who still has it and what to do, for an operator; "" = nobody
}

// Errors of [Keys].
var (
	// ErrErased: what was asked for was erased, and its data key destroyed.
	ErrErased = errors.New("memory: erased")
	// ErrKey: the keys at hand are not the ones the store was written with.
	ErrKey = errors.New("memory: wrong key")
)

func isErased(err error) bool { return errors.Is(err, ErrErased) }
