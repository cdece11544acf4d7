package keyring

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Token stands for one generation of one data subject, and the scope that the subject
// is of. It is blinded: without the ring nobody can tell whose it is.
type Token [tokenSize]byte

// Backend is where the records of a ring are kept. The rules are those of [Ring]; a
// backend keeps bytes, and gives transactions. The package ringtest holds what one
// must do. It must be safe for concurrent use.
type Backend interface {
	// Do must run work in one transaction, which is durable when Do returns nil, and
	// undone when work or Do fails. No error may hold a password.
	Do(ctx context.Context, how Mode, work func(Tx) error) error
	// Scrub must take out of the backend's own files what transactions before it
	// deleted, as far as it can.
	Scrub(ctx context.Context) error
	// Holder must name this machine to the others that share the ring; "" if none can.
	Holder() string
	// Findings must say for an operator what of the place itself is safe and what not.
	Findings(ctx context.Context) []memory.Finding
	// Close must give up connections. A later call may open new ones.
	Close() error
	// String must name the place, without a password.
	String() string
}

// Mode is what a transaction of a [Backend] is for.
type Mode int

const (
	// Read changes nothing, and sees one moment.
	Read Mode = iota
	// Add adds entries. Several may run at once; none runs beside one of mode Alone.
	Add
	// Alone may change anything, and runs beside no other that changes something.
	Alone
)

// Tx is a transaction of a [Backend]. What it gives and takes is the caller's.
type Tx interface {
	// State must give the ring's state; false if there is none.
	State() (State, bool, error)
	// SetState must put the state in the place of the one there is.
	SetState(State) error
	// Find must give those of the entries with these ids that there are.
	Find(ids ...memory.KeyID) ([]Entry, error)
	// Of must give the entries of these tokens, in any order.
	Of(tokens ...Token) ([]Entry, error)
	// Insert must add entries. One whose id or token has an entry is left out.
	Insert(entries ...Entry) error
	// Update must put entries in the place of those with the same ids.
	Update(entries ...Entry) error
	// Scan must give up to limit entries that are not destroyed, with ids greater than
	// after, ascending.
	Scan(after memory.KeyID, limit int) ([]Entry, error)
	// Count must count the entries that are not destroyed and those that are.
	Count() (live, destroyed int, err error)
	// Holders must list the machines that share the ring, by name.
	Holders() ([]Holder, error)
	// Hold must put a machine in the place of the one with its name, and Release take
	// one out.
	Hold(Holder) error
	Release(name string) error
}

// State is what a ring is, besides its entries. All but ID, Revision, Epoch and Version
// is sealed.
type State struct {
	ID       [16]byte // random, of this ring
	Revision int64    // grows with each change but an Insert
	Epoch    int64    // of the inner key; grows
	Version  string   // of the wrapping key that Inner is wrapped under
	Inner    []byte   // the key that everything else is sealed under
	Root     []byte
	Audit    []byte
	Watch    []byte // the witnesses of the store
	Dropped  int64  // the last epoch in which a data key was destroyed
}

// Entry is one data key.
type Entry struct {
	ID      memory.KeyID
	Of      Token // zero: not known
	Retired bool
	Sealed  []byte // nil: destroyed
	Epoch   int64  // in which it was destroyed; 0 = it was not, or before there were any
	Version string // of the wrapping key, in that epoch
}

// Holder is a machine that shares a ring.
type Holder struct {
	Name  string
	Epoch int64 // the first one whose key it can unwrap
	Seen  int64 // when that was said, Unix seconds
}
