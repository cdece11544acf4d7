package audit

import (
	"context"
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
	// Progress, if not nil, hears how much was verified.
	Progress func(logs, entries int)
}

// Report is what was verified.
type Report struct {
	Tenant      string `json:"tenant"` // whose audit it is
	Namespace   string `json:"namespace"`
	Logs        int    `json:"logs"`
	Entries     int    `json:"entries"`
	Erased      int    `json:"erased"` // logs of what was erased; not counted in an export
	Checkpoints int    `json:"checkpoints"`
	Leaves      int    `json:"leaves"`
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

// Verify holds a store against its chains, its checkpoints and its witness. The
// first entry that is not what was written, or is not there, is a
// [*memory.TamperError], a checkpoint a [*CheckpointError], a store that is behind
// its witness a [*RollbackError]; errors.Is(err, memory.ErrTampered) holds for
// each. What is written meanwhile is verified as far as it is there: logs that are
// added are verified too, and if they come faster than they are read that has no
// end. Others may erase and compact too; the store must not be rebuilt meanwhile.
//
// It keeps the leaves of all checkpoints in memory, some 100 bytes each.
func Verify(ctx context.Context, s *memory.Store, o Options) (Report, error) {
	v, err := newVerification(ctx, s.Tenant(), s.Namespace(), o)
	if err != nil {
		return Report{}, err
	}
	for c, err := range s.Checkpoints(ctx, 0) {
		if err != nil {
			return v.Report, err
		}
		if err := v.checkpoint(&c); err != nil {
			return v.Report, err
		}
	}
	if err := v.witnessed(); err != nil {
		return v.Report, err
	}
	read, err := s.Verify(ctx, v.mark, v.seen)
	v.Logs, v.Entries, v.Erased = read.Logs, read.Entries, read.Erased
	if err == nil {
		err = v.end()
	}
	return v.Report, err
}

// verification is what the verification of a store and that of an export share.
type verification struct {
	Report
	Options
	known   known
	place   *position
	last    memory.Checkpoint
	witness *witnessed
	leaves  map[string][]committed // of logs that were not seen yet
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
	return within(ctx, func() (*verification, error) {
		return v, o.Witness.locked(func() error {
			if v.witness = o.Witness.newest[scope]; v.witness != nil {
				v.Witnessed = v.witness.Index
			}
			for key, a := range o.Witness.entries[scope] {
				v.leaves[key] = []committed{{revision: a.Revision, mac: a.MAC}}
				v.Acknowledged++
			}
			return nil
		})
	})
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
	return nil
}

// witnessed asks that the checkpoints go as far as the witness saw them.
func (v *verification) witnessed() error {
	if v.witness != nil && v.last.Index < v.witness.Index {
		return v.witness.rollback(&v.last, "an older copy of the store was put back")
	}
	return nil
}

func (v *verification) mark(log *memory.Log) {
	for _, c := range v.leaves[log.Key] {
		log.Mark(c.revision)
	}
}

func (v *verification) seen(log *memory.Log) error {
	covered := uint64(0)
	for _, c := range v.leaves[log.Key] {
		mac, ok := log.Marked(c.revision)
		switch {
		case !ok:
			return &memory.TamperError{Key: log.Key, Revision: min(c.revision, log.Revision+1), Reason: fmt.Sprintf("%s entry %d, and the log ends at %d: its tail is cut", c.whose(), c.revision, log.Revision)}
		case mac != c.mac:
			return &memory.TamperError{Key: log.Key, Revision: c.revision, Reason: c.whose() + " another entry: it, or one before it, was written again"}
		case c.index > 0:
			covered = max(covered, c.revision)
		}
	}
	delete(v.leaves, log.Key)
	v.Newer += int(log.Revision - covered)
	v.Logs, v.Entries = v.Logs+1, v.Entries+int(log.Revision)
	if v.Progress != nil {
		v.Progress(v.Logs, v.Entries)
	}
	return nil
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
	return &memory.TamperError{Key: gone, Revision: 1, Reason: fmt.Sprintf("%s entry %d, and the log is gone", c.whose(), c.revision)}
}

// Holds says in a line what was verified.
func (r Report) Holds() string {
	s := fmt.Sprintf("the audit holds: %d entries in %d logs (%d erased), %d checkpoints with %d leaves, %d entries newer than the newest checkpoint",
		r.Entries, r.Logs, r.Erased, r.Checkpoints, r.Leaves, r.Newer)
	if r.Checkpoints == 0 {
		s += "; no checkpoint: a row that is missing altogether would not show"
	}
	if !r.Witness {
		return s + "; no witness: an older copy of the whole store would hold too"
	}
	return s + fmt.Sprintf("; the witness saw checkpoint %d and %d acknowledged entries", r.Witnessed, r.Acknowledged)
}
