package memory

import (
	"context"
	"errors"
	"fmt"
)

// Limits of one [Batch]. A driver must accept a batch up to these caps and
// must refuse a larger one with [ErrTooLarge], writing nothing.
const (
	MaxBatchOps   = 20_000   // checks + puts: a closure of MaxClosure rows and then some
	MaxBatchBytes = 16 << 20 // sum of head, entry, key and term bytes
)

// Driver is what a store must be able to do, and all it must be able to do. It
// knows no rule: keys, tenants, terms and data are opaque bytes, compared and
// ordered byte by byte (memcmp). Every rule lives once, in [Store].
//
// A Driver must be safe for concurrent use. The package memory/storetest is its
// specification: every "must" below is asked there, for every driver.
type Driver interface {
	// Apply is the only write. It must be all or nothing: first every check
	// (the object at Key is at Revision; 0 = absent), then every put. The first
	// stale check or put must give a [*ConflictError] naming its key, with
	// nothing written. A batch over the caps must give [ErrTooLarge]. Any other
	// error means unknown: the batch may have been applied, and the caller finds
	// out by reading History for its own entry.
	Apply(ctx context.Context, tenant string, b Batch) error

	// Get must return one object per key, in the order of keys, duplicates kept,
	// from one snapshot, in one round trip. An absent object has Revision 0 and
	// nil Data. It must never return a part: all or an error.
	Get(ctx context.Context, tenant string, keys []string) ([]Object, error)

	// Query must list the carriers of a term in ascending (Sort, Key) order,
	// starting after q.After. What stays put while a caller pages must be listed
	// exactly once, whatever is inserted meanwhile. next is "" at the end.
	Query(ctx context.Context, tenant string, q Query) (hits []Hit, next string, err error)

	// History must return the log entries of key with Revision > after, in
	// ascending order, at most limit of them. Entries are never changed.
	History(ctx context.Context, tenant, key string, after uint64, limit int) ([]LogEntry, error)

	// Incarnation must return a number that stays the same as long as the driver is
	// sure that what it talks to still holds every batch that was acknowledged, and
	// grows as soon as it is not: the server was restarted or failed over, or is
	// another one. It must not do I/O. When it grows, [Store] makes sure that no
	// acknowledged demotion is missing before it answers again.
	Incarnation() uint64

	// Close releases the store. Every later call must give [ErrClosed].
	Close() error

	Maintenance
}

// Batch is one transaction: all of it happens, or none of it does.
type Batch struct {
	Checks []Check
	Puts   []Put
}

// Check asks that the object at Key is at Revision (0 = absent).
type Check struct {
	Key      string
	Revision uint64
}

// Put moves the object at Key from revision From to From+1. From 0 creates it.
// A key must occur at most once among the puts of a batch.
type Put struct {
	Key    string
	From   uint64
	Data   []byte   // the new head of the object; nil is a tombstone, which keeps its revision
	Entry  []byte   // appended to the log of Key at revision From+1; nil appends nothing
	Add    []Term   // terms that Key carries from now on; an existing one is re-sorted
	Remove []string // terms that Key no longer carries
	// Clear takes away all terms that Key carries, whatever they are, before those of
	// Add: for who does not know them, or has many to remove. Remove has no effect then.
	Clear bool
}

// Term makes Key a carrier of Name. Sort orders the carriers of one term.
type Term struct {
	Name string
	Sort uint64
}

// Object is the current state of a key. Revisions start at 1 and grow by one
// with each put; they are never reused, so (key, revision) names one state.
type Object struct {
	Key      string
	Revision uint64 // 0 = the key was never written
	Data     []byte // nil if absent or a tombstone
}

// LogEntry is one line of the append-only history of a key.
type LogEntry struct {
	Revision uint64
	Data     []byte
}

// Query lists the carriers of Term.
type Query struct {
	Term  string
	After string // cursor from an earlier call; "" = from the start
	From  uint64 // lowest Sort wanted (inclusive)
	To    uint64 // highest Sort wanted (inclusive); 0 = no upper bound
	Limit int    // 1 .. 10,000
}

// Hit is one carrier of a term.
type Hit struct {
	Key  string
	Sort uint64
}

// Sentinel errors of every driver. A driver translates its own faults at its
// edge; no SQL state and no driver text leaves it except behind [ErrStore].
var (
	// ErrConflict is the sentinel of [*ConflictError].
	ErrConflict = errors.New("memory: conflict: the object is at another revision")
	// ErrTooLarge: a batch is over the caps; nothing was written.
	ErrTooLarge = errors.New("memory: batch too large")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("memory: store is closed")
	// ErrStore: the driver failed. For Apply it means unknown: the batch may
	// have been applied.
	ErrStore = errors.New("memory: store failed")
	// ErrFull: there is no room left, in memory or on the disk of the store. What only
	// reads goes on. errors.Is(err, ErrStore) holds.
	ErrFull = fmt.Errorf("%w: there is no room left", ErrStore)
	// ErrForeign: the file or database belongs to another program.
	ErrForeign = errors.New("memory: not a hearsay store")
	// ErrSchema: another version wrote the store, or what is in it; see [FormError].
	ErrSchema = errors.New("memory: the store is of another version")
	// ErrInvalidBatch: a batch or query breaks the contract (empty or repeated
	// key, limit out of range); nothing was written.
	ErrInvalidBatch = errors.New("memory: invalid batch or query")
)

// Form is the number of the form in which this version stores: the tables or keys of a
// driver, and what stands in them. It grows with every change that another version would
// misread. A driver writes it when it makes a store, and Open refuses a store of another
// form with a [*FormError]. A [Store] writes it into each scope, too.
const Form = 13

// FormError says that a store is of another form than [Form]. It is left as it is: this
// version reads no other form, and there is no migration. errors.Is(err, ErrSchema) holds.
type FormError struct {
	Found int // in the store; 0 = a version wrote it that knew no number
}

func (e *FormError) Error() string {
	if e.Found > Form {
		return fmt.Sprintf("memory: the store is of form %d and this version reads form %d only: use the newer version that wrote it", e.Found, Form)
	}
	return fmt.Sprintf("memory: the store is of form %d and this version reads form %d only: use the version that wrote it, or make a new store with a new keyring", e.Found, Form)
}

// Is reports whether target is [ErrSchema].
func (e *FormError) Is(target error) bool { return target == ErrSchema }

// CheckForm returns a [*FormError] if found, which a driver read, is not [Form].
func CheckForm(found int) error {
	if found == Form {
		return nil
	}
	return &FormError{Found: found}
}

// ConflictError names the first key of a batch that was not at the revision the
// batch asked for. errors.Is(err, ErrConflict) holds.
type ConflictError struct{ Key string }

func (e *ConflictError) Error() string { return fmt.Sprintf("memory: conflict on %q", e.Key) }

// Is reports whether target is [ErrConflict].
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Check validates a batch against the contract: caps, empty or repeated keys.
// Drivers call it first, so that all of them refuse alike.
func (b Batch) Check() error {
	if len(b.Checks)+len(b.Puts) > MaxBatchOps {
		return fmt.Errorf("%w: %d operations, at most %d", ErrTooLarge, len(b.Checks)+len(b.Puts), MaxBatchOps)
	}
	size := 0
	for _, c := range b.Checks {
		if c.Key == "" {
			return fmt.Errorf("%w: check with an empty key", ErrInvalidBatch)
		}
		size += len(c.Key)
	}
	seen := make(map[string]struct{}, len(b.Puts))
	for _, p := range b.Puts {
		if p.Key == "" {
			return fmt.Errorf("%w: put with an empty key", ErrInvalidBatch)
		}
		if _, twice := seen[p.Key]; twice {
			return fmt.Errorf("%w: key %q is put twice", ErrInvalidBatch, p.Key)
		}
		seen[p.Key] = struct{}{}
		size += len(p.Key) + len(p.Data) + len(p.Entry)
		for _, t := range p.Add {
			if t.Name == "" {
				return fmt.Errorf("%w: key %q carries an empty term", ErrInvalidBatch, p.Key)
			}
			size += len(t.Name) + 8
		}
		for _, t := range p.Remove {
			size += len(t)
		}
	}
	if size > MaxBatchBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, MaxBatchBytes)
	}
	return nil
}

// MaxQueryLimit is the most hits one [Driver.Query] or entries one
// [Driver.History] call may ask for.
const MaxQueryLimit = 10_000

// Check validates a query against the contract.
func (q Query) Check() error {
	if q.Term == "" {
		return fmt.Errorf("%w: query without a term", ErrInvalidBatch)
	}
	if q.Limit < 1 || q.Limit > MaxQueryLimit {
		return fmt.Errorf("%w: limit %d, want 1 to %d", ErrInvalidBatch, q.Limit, MaxQueryLimit)
	}
	return nil
}
