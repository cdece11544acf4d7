package memory

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Leaf commits to a log as it was once: this many entries, the last with this MAC,
// which stands for all of them.
type Leaf struct {
	Key      string
	Revision uint64
	MAC      [sha256.Size]byte
}

// Checkpoint is a signed statement about all logs of the scope: the leaves since
// the one before, appended to a Merkle tree over all leaves ever, and a note that
// signs the tree. Package memory/audit makes and verifies it; here it is kept.
type Checkpoint struct {
	Index  uint64 // 1, 2, …
	Size   uint64 // of the tree, these leaves included
	Until  Sequence
	Leaves []Leaf
	State  []byte // of the maker, to go on from
	Note   []byte
}

const (
	termLog = "L"
	// MaxLeaves is how many leaves one checkpoint can have.
	MaxLeaves = 50_000
)

// Changed lists the logs that have an entry at or after a sequence, in the order
// of their last entries: what a checkpoint has to commit to. Since 0 it lists all logs,
// by their keys, and leans on no index: what was taken out of that is listed too.
func (s *Store) Changed(ctx context.Context, since Sequence) iter.Seq2[Leaf, error] {
	return func(yield func(Leaf, error) bool) {
		if _, err := s.admit(ctx); err != nil {
			yield(Leaf{}, err)
			return
		}
		if since == 0 {
			s.allLogs(ctx, yield)
			return
		}
		for after := ""; ; {
			hits, next, err := s.query(ctx, Query{Term: termLog, After: after, From: uint64(since), Limit: 1000})
			if err != nil {
				yield(Leaf{}, err)
				return
			}
			keys := make([]string, len(hits))
			for i := range hits {
				keys[i] = hits[i].Key
			}
			objs, err := s.get(ctx, keys...)
			if err != nil {
				yield(Leaf{}, err)
				return
			}
			for i, o := range objs {
				var l link
				if _, err := l.decode(o.Data); err != nil {
					yield(Leaf{}, fmt.Errorf("%w: %s", ErrStore, KeyText(keys[i])))
					return
				}
				if !yield(Leaf{Key: o.Key, Revision: o.Revision, MAC: l.mac}, nil) {
					return
				}
			}
			if after = next; after == "" {
				return
			}
		}
	}
}

// allLogs lists where each log ends. One without its object ends nowhere, and a
// verification finds it.
func (s *Store) allLogs(ctx context.Context, yield func(Leaf, error) bool) {
	var keys []string
	flush := func() bool {
		objs, err := s.get(ctx, keys...)
		if err != nil {
			yield(Leaf{}, err)
			return false
		}
		keys = keys[:0]
		for _, o := range objs {
			if o.Revision == 0 {
				continue
			}
			var l link
			if _, err := l.decode(o.Data); err != nil {
				yield(Leaf{}, fmt.Errorf("%w: %s", ErrStore, KeyText(o.Key)))
				return false
			}
			if !yield(Leaf{Key: o.Key, Revision: o.Revision, MAC: l.mac}, nil) {
				return false
			}
		}
		return true
	}
	for key, err := range s.Logs(ctx) {
		if err != nil {
			yield(Leaf{}, err)
			return
		}
		if keys = append(keys, key); len(keys) == 1000 && !flush() {
			return
		}
	}
	if len(keys) > 0 {
		flush()
	}
}

// PutCheckpoint keeps a checkpoint. Its index must follow the last one's: of two
// makers at once, one gets [ErrConflict].
func (s *Store) PutCheckpoint(ctx context.Context, c Checkpoint) error {
	if len(c.Leaves) > MaxLeaves {
		return fmt.Errorf("%w: %d leaves, at most %d", ErrTooLarge, len(c.Leaves), MaxLeaves)
	}
	if c.Index == 0 {
		return invalid("index", "out_of_range", "checkpoints begin with 1")
	}
	e := encoder{}
	e.num(c.Size)
	e.num(uint64(c.Until))
	e.str(string(c.State))
	e.str(string(c.Note))
	e.num(uint64(len(c.Leaves)))
	for i := range c.Leaves {
		e.str(c.Leaves[i].Key)
		e.num(c.Leaves[i].Revision)
		e.b = append(e.b, c.Leaves[i].MAC[:]...)
	}
	last := binary.BigEndian.AppendUint64(nil, c.Index)
	err := s.write(ctx, Batch{Puts: []Put{{Key: checkpointAt(c.Index), Data: e.b}, {Key: checkpointHead, From: c.Index - 1, Data: last}}})
	if err == nil || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrClosed) {
		return err
	}
	// Sent twice, or applied without a reply: it is there if it is the same.
	if kept, again := s.checkpoint(ctx, c.Index); again == nil && string(kept.Note) == string(c.Note) {
		return nil
	}
	return err
}

func checkpointAt(index uint64) string { return checkptKey.named(fmt.Sprintf("%016x", index)) }

// LastCheckpoint returns the newest checkpoint. There being none gives the zero
// value and no error.
func (s *Store) LastCheckpoint(ctx context.Context) (Checkpoint, error) {
	head, err := s.ofCheckpoints(ctx, checkpointHead, 0)
	if err != nil || head.Revision == 0 {
		return Checkpoint{}, err
	}
	return s.checkpoint(ctx, head.Revision)
}

// Checkpoints lists the checkpoints after an index, oldest first.
func (s *Store) Checkpoints(ctx context.Context, after uint64) iter.Seq2[Checkpoint, error] {
	return func(yield func(Checkpoint, error) bool) {
		head, err := s.ofCheckpoints(ctx, checkpointHead, 0)
		if err != nil {
			yield(Checkpoint{}, err)
			return
		}
		for i := after + 1; i <= head.Revision; i++ {
			c, err := s.checkpoint(ctx, i)
			if !yield(c, err) || err != nil {
				return
			}
		}
	}
}

// ofCheckpoints reads an object that the audit stands on: that it is not what was
// written is a [*TamperError].
func (s *Store) ofCheckpoints(ctx context.Context, key string, revision uint64) (Object, error) {
	objs, err := s.get(ctx, key)
	var damaged *DamagedError
	switch {
	case errors.As(err, &damaged) && slices.Contains(damaged.Keys, key):
		return Object{}, &TamperError{key, revision, "the object is not what was written"}
	case err != nil:
		return Object{}, err
	}
	return objs[0], nil
}

func (s *Store) checkpoint(ctx context.Context, index uint64) (Checkpoint, error) {
	key := checkpointAt(index)
	o, err := s.ofCheckpoints(ctx, key, index)
	if err != nil {
		return Checkpoint{}, err
	}
	d := decoder{b: o.Data}
	c := Checkpoint{Index: index, Size: d.num(), Until: Sequence(d.num()), State: []byte(d.str()), Note: []byte(d.str())}
	n := d.num()
	if o.Data == nil || n > uint64(len(d.b)) {
		return Checkpoint{}, &TamperError{key, index, "the checkpoint is gone or was changed"}
	}
	c.Leaves = make([]Leaf, n)
	for i := range c.Leaves {
		c.Leaves[i].Key, c.Leaves[i].Revision = d.str(), d.num()
		copy(c.Leaves[i].MAC[:], d.take(sha256.Size))
	}
	if d.end() != nil {
		return Checkpoint{}, &TamperError{key, index, "the checkpoint is gone or was changed"}
	}
	return c, nil
}
