package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
)

// Options of [Verify] and [VerifyExport].
type Options struct {
	// Verifiers verify the checkpoints, those of old keys too; see [Retired]. For a
	// store that has checkpoints there must be some, or the error is [ErrKey].
	Verifiers []note.Verifier
	// Witness, if not nil, is what the store must not be behind.
	Witness *Witness
	// Progress, if not nil, hears now and then how much was verified so far.
	Progress func(Report)
	// Found, if not nil, hears of each thing that is not what was written, and the
	// verification goes on; what it returns ends it. nil: the first one ends it.
	Found func(error) error
	// Pause, if not nil, is called between parts of the work; see [memory.Verifying].
	Pause func(ctx context.Context, read int) error
	// Window is how long after the moment that it bears an entry may still appear in
	// the store; see [MakerOptions]. 0 = one minute.
	Window time.Duration
}

// Report is what was verified.
type Report struct {
	Tenant    string `json:"tenant"` // whose audit it is
	Namespace string `json:"namespace"`
	Logs      int    `json:"logs"`
	Entries   int    `json:"entries"`
	Erased    int    `json:"erased"` // logs of what was erased; not counted in an export
	// Objects were opened, Decisions held against the rows that they cite, and Terms of
	// the index against what the objects carry; none of them is counted in an export.
	Objects     int `json:"objects"`
	Decisions   int `json:"decisions"`
	Terms       int `json:"terms"`
	Found       int `json:"found"` // what is not what was written
	Checkpoints int `json:"checkpoints"`
	Leaves      int `json:"leaves"`
	// Newer entries are not committed to yet: that one of them is missing would show
	// only if the log goes on after it.
	Newer int `json:"newer"`
	// Newest is when the newest checkpoint was made; zero if there is none.
	Newest time.Time `json:"newest,omitzero"`
	// Witness says whether there was one. Without, nothing shows that all of the
	// store is an older copy.
	Witness      bool      `json:"witness"`
	Witnessed    uint64    `json:"witnessed"`    // the newest checkpoint that it saw
	Acknowledged int       `json:"acknowledged"` // entries that it has
	Keys         []KeyUsed `json:"keys,omitempty"`
}

// KeyUsed is a key that signed checkpoints.
type KeyUsed struct {
	Key         string `json:"key"` // name+hash
	First       uint64 `json:"first"`
	Last        uint64 `json:"last"`
	Checkpoints int    `json:"checkpoints"`
}

// Verify holds everything in a store against its chains, its checkpoints and its
// witness; see [memory.Store.VerifyAll]. What is not what was written, or is not there, is
// a [*memory.TamperError], a checkpoint a [*CheckpointError], a store that is behind its
// witness a [*RollbackError]; errors.Is(err, memory.ErrTampered) holds for each. Without
// Options.Found the first of them is returned; with it, [*FoundError] says how many there
// were. What is written meanwhile is verified as far as it is there: logs that are
// added are verified too, and if they come faster than they are read that has no
// end. Others may erase and compact too; the store must not be rebuilt meanwhile.
//
// It keeps the leaves of all checkpoints in memory, some 100 bytes each.
func Verify(ctx context.Context, s *memory.Store, o Options) (Report, error) {
	v, err := newVerification(ctx, s.Tenant(), s.Namespace(), o)
	if err != nil {
		return Report{}, err
	}
	if err := v.store(ctx, s); err != nil {
		return v.Report, err
	}
	if v.Report.Found > 0 {
		return v.Report, &FoundError{Found: v.Report.Found}
	}
	return v.Report, nil
}

// FoundError: so many things are not what was written; Options.Found heard of each.
// errors.Is(err, memory.ErrTampered) holds.
type FoundError struct{ Found int }

func (e *FoundError) Error() string {
	if e.Found == 1 {
		return "audit: one thing is not what was written"
	}
	return fmt.Sprintf("audit: %d things are not what was written", e.Found)
}

// Is reports whether target is [memory.ErrTampered].
func (e *FoundError) Is(target error) bool { return target == memory.ErrTampered }

// LostError says that the store lacks the end of what it had acknowledged: of a log, or
// of its checkpoints. A fail-over to a server that lagged does that, and an older copy
// that is put back, and so does who cuts it; nothing tells one from the other. What was
// taken away since is done again by recovery; see [Ledger.Behind]. It wraps the
// [*memory.TamperError] or [*RollbackError] that says what is not there.
// errors.Is(err, ErrLost) and errors.Is(err, memory.ErrTampered) hold.
type LostError struct{ What error }

func (e *LostError) Error() string { return e.What.Error() }

// Unwrap returns what is not there.
func (e *LostError) Unwrap() error { return e.What }

// Is reports whether target is [ErrLost].
func (e *LostError) Is(target error) bool { return target == ErrLost }

// ErrLost is the sentinel of [*LostError].
var ErrLost = errors.New("audit: the store lacks what it had acknowledged")

// found tells of something that is not what was written.
func (v *verification) found(err error) error {
	if v.Options.Found == nil || !errors.Is(err, memory.ErrTampered) {
		return err
	}
	v.Report.Found++
	return v.Options.Found(err)
}

func (v *verification) store(ctx context.Context, s *memory.Store) error {
	whole := true
	for c, err := range s.Checkpoints(ctx, 0) {
		if err == nil {
			err = v.checkpoint(&c)
		}
		if err != nil { // those after it stand on it
			whole = false
			if err := v.found(err); err != nil {
				return err
			}
			break
		}
	}
	if whole {
		if err := v.witnessed(); err != nil {
			if err := v.found(err); err != nil {
				return err
			}
		}
	}
	v.whole = whole
	read, err := s.VerifyAll(ctx, memory.Verifying{Begin: v.mark, Seen: v.seen, Found: v.Options.Found, Pause: v.Pause, Progress: v.sofar, Window: v.Window})
	v.sofar(read)
	v.Report.Found += read.Found
	if err != nil {
		return err
	}
	for err := v.end(); err != nil; err = v.end() {
		if err := v.found(err); err != nil {
			return err
		}
	}
	return nil
}

// verification is what the verification of a store and that of an export share.
type verification struct {
	Report
	Options
	known   known
	place   *position
	last    memory.Checkpoint
	witness *Seen
	leaves  map[string][]committed // of logs that were not seen yet
	now     []committed            // of the log that is read
	whole   bool                   // all checkpoints hold
	until   memory.Sequence        // how far the newest checkpoint looked, but for the window
}

// committed is that a log once had an entry.
type committed struct {
	revision uint64
	mac      [32]byte
	index    uint64 // of the checkpoint; 0 = the witness says so
}

func newVerification(ctx context.Context, tenant, namespace string, o Options) (*verification, error) {
	scope := scopeOf(tenant, namespace)
	v := &verification{Report: Report{Tenant: tenant, Namespace: namespace}, Options: o, known: o.Verifiers, place: start(scope), leaves: map[string][]committed{}}
	if o.Witness == nil {
		return v, nil
	}
	// Before anything of the store is read: it may only be ahead of this.
	v.Report.Witness = true
	seen, entries, err := o.Witness.read(ctx, scope)
	if err != nil {
		return v, err
	}
	if v.witness = seen; seen != nil {
		v.Witnessed = seen.Index
	}
	for i := range entries {
		a := &entries[i]
		v.leaves[a.Key] = []committed{{revision: a.Revision, mac: a.MAC}}
		v.Acknowledged++
	}
	return v, nil
}

func (v *verification) checkpoint(c *memory.Checkpoint) error {
	_, key, err := v.place.next(v.known, c)
	if err != nil {
		return err
	}
	if w := v.witness; w != nil && c.Index == w.Index && !sameText(c.Note, w.Note) {
		return w.rollback(c, "the store has another checkpoint of that number: its history was made again")
	}
	v.Checkpoints++
	v.Leaves += len(c.Leaves)
	v.Newest = c.Until.Time()
	for i := range c.Leaves {
		l := &c.Leaves[i]
		v.leaves[l.Key] = append(v.leaves[l.Key], committed{l.Revision, l.MAC, c.Index})
	}
	if n := len(v.Keys); n == 0 || v.Keys[n-1].Key != key {
		v.Keys = append(v.Keys, KeyUsed{Key: key, First: c.Index})
	}
	used := &v.Keys[len(v.Keys)-1]
	used.Last, used.Checkpoints = c.Index, used.Checkpoints+1
	v.last = memory.Checkpoint{Index: c.Index, Size: c.Size}
	v.until = memory.SequenceAt(c.Until.Time().Add(-cmp.Or(max(v.Window, 0), time.Minute)))
	return nil
}

// witnessed asks that the checkpoints go as far as the witness saw them.
func (v *verification) witnessed() error {
	if v.witness != nil && v.last.Index < v.witness.Index {
		return &LostError{v.witness.rollback(&v.last, "a fail-over lost what was newest, or an older copy of the store was put back")}
	}
	return nil
}

func (v *verification) mark(log *memory.Log) {
	v.now = v.leaves[log.Key]
	delete(v.leaves, log.Key)
	for _, c := range v.now {
		log.Mark(c.revision)
		if c.index > 0 {
			log.Cover(c.revision)
		}
	}
}

func (v *verification) seen(log *memory.Log) error {
	covered := uint64(0)
	for _, c := range v.now {
		mac, ok := log.Marked(c.revision)
		switch {
		case !ok:
			return &LostError{&memory.TamperError{Key: log.Key, Revision: min(c.revision, log.Revision+1), Reason: fmt.Sprintf("%s entry %d, and the log ends at %d: its end is lost, or was cut", c.whose(), c.revision, log.Revision)}}
		case mac != c.mac:
			return &memory.TamperError{Key: log.Key, Revision: c.revision, Reason: c.whose() + " another entry: it, or one before it, was written again"}
		case c.index > 0:
			covered = max(covered, c.revision)
		}
	}
	if revision, at, ok := log.Uncovered(); ok && v.whole && v.last.Index > 0 && at < v.until {
		return &memory.TamperError{Key: log.Key, Revision: revision, Reason: fmt.Sprintf("checkpoint %d looked further than it, and no checkpoint commits to it: it was kept from them", v.last.Index)}
	}
	v.Newer += int(log.Revision - covered)
	return nil
}

// sofar takes over what was read, and tells of it.
func (v *verification) sofar(read memory.Verification) {
	v.Logs, v.Entries, v.Erased = read.Logs, read.Entries, read.Erased
	v.Objects, v.Decisions, v.Terms = read.Objects, read.Decisions, read.Terms
	if v.Progress != nil {
		v.Progress(v.Report)
	}
}

func (c *committed) whose() string {
	if c.index == 0 {
		return "the witness was told of"
	}
	return fmt.Sprintf("checkpoint %d committed to", c.index)
}

// end asks that no log is left that should have been seen.
func (v *verification) end() error {
	gone := ""
	for key := range v.leaves {
		if gone == "" || key < gone {
			gone = key
		}
	}
	if gone == "" {
		return nil
	}
	c := v.leaves[gone][0]
	delete(v.leaves, gone)
	return &LostError{&memory.TamperError{Key: gone, Revision: 1, Reason: fmt.Sprintf("%s entry %d, and the log is gone", c.whose(), c.revision)}}
}

// Holds says in a line what was verified.
func (r Report) Holds() string {
	s := fmt.Sprintf("the audit holds: %d entries in %d logs (%d erased), %d checkpoints with %d leaves, %d entries newer than the newest checkpoint",
		r.Entries, r.Logs, r.Erased, r.Checkpoints, r.Leaves, r.Newer)
	if r.Objects > 0 {
		s += fmt.Sprintf("; %d objects, %d decisions and %d lines of the index are what the logs say", r.Objects, r.Decisions, r.Terms)
	}
	if r.Checkpoints == 0 {
		s += "; no checkpoint: a row that is missing altogether would not show"
	}
	if !r.Witness {
		return s + "; no witness: an older copy of the whole store would hold too"
	}
	return s + fmt.Sprintf("; the witness saw checkpoint %d and %d acknowledged entries", r.Witnessed, r.Acknowledged)
}
