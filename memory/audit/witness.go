package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
)

var (
	// ErrRollback is the sentinel of [*RollbackError].
	ErrRollback = errors.New("audit: the store is older than its witness")
	// ErrWitness: what a witness has is damaged, cut, gone, or cannot be written.
	ErrWitness = errors.New("audit: the witness cannot be relied on")
	// ErrWitnessOlder: the witness was put back to an older state than it was seen in.
	// errors.Is(err, ErrWitness) holds too.
	ErrWitnessOlder = errors.New("audit: the witness is older than it was")
	// ErrSuperseded: what was acknowledged is not what the witness has of the same
	// entry. The store has lost the one and written the other.
	ErrSuperseded = errors.New("audit: the witness has another entry of that revision")
)

// RollbackError says that a store is not the one, or not all of the one, that its
// witness saw: an older copy was put back, or its checkpoints were made again.
// errors.Is(err, ErrRollback) and errors.Is(err, memory.ErrTampered) hold.
type RollbackError struct {
	Index, Size                   uint64 // of the store's newest checkpoint
	WitnessedIndex, WitnessedSize uint64
	Reason                        string
}

func (e *RollbackError) Error() string {
	return fmt.Sprintf("audit: the store is at checkpoint %d (size %d), its witness at %d (size %d): %s",
		e.Index, e.Size, e.WitnessedIndex, e.WitnessedSize, e.Reason)
}

// Is reports whether target is [ErrRollback] or [memory.ErrTampered].
func (e *RollbackError) Is(target error) bool {
	return target == ErrRollback || target == memory.ErrTampered
}

// Witness remembers, outside the store, what the store must never lose: the newest
// checkpoint, and the demotions and erasures that were acknowledged. What it is told is
// on disk before it answers. It is worth as much as the distance between it and the
// store: another machine or disk, and nobody who writes both.
//
// It is kept in a file ([OpenWitness]), or by a server that several machines reach
// (package witnesshttp). One witness serves all tenants and namespaces of a store, and
// any number of processes and handles at once. Two stores need one each: where both have
// a tenant of one name, each would be taken for a copy of the other that lost what is in
// it. It holds no content: keys of logs, numbers and digests.
//
// A Witness is safe for concurrent use.
type Witness struct{ backend Backend }

// Backend keeps what a witness was told: a file, or a server that has one. It offers to
// be read and to be added to, and nothing else. It must be safe for concurrent use.
type Backend interface {
	// Identity must name the witness: always the same, and never that of another one.
	Identity() memory.Token
	// Read must return what the witness has.
	Read(ctx context.Context, q Query) (Page, error)
	// Append must make a change durable before it returns nil. The same change again is
	// no other one.
	Append(ctx context.Context, c Change) (Position, error)
	Close() error
}

// Position is how far a witness is. It only grows: a witness that has fewer lines than
// it was seen with, or others, was put back.
type Position struct {
	Lines  uint64 `json:"lines"`  // that were ever written; 0 = nothing was seen yet
	Digest string `json:"digest"` // of those lines, in their order
}

// Query asks a witness for what it has of one tenant and namespace.
type Query struct {
	Known   Position `json:"known"` // that it must not be behind of
	Scope   string   `json:"scope"`
	Entries bool     `json:"entries,omitempty"` // besides the checkpoint
	After   []byte   `json:"after,omitempty"`   // only entries of logs whose key is greater
	Limit   int      `json:"limit,omitempty"`   // of entries; 0 = all
}

// Page is what a witness has.
type Page struct {
	At         Position       `json:"at"`
	Checkpoint *Seen          `json:"checkpoint,omitempty"` // nil = it saw none
	Entries    []Acknowledged `json:"entries,omitempty"`    // by key
	More       bool           `json:"more,omitempty"`       // entries follow
}

// Change is one thing that a witness is told: entries, an entry that makes good for a
// lost one, or a checkpoint.
//
// Entries may come in any order: of each log the newest counts, whoever tells it first.
// The two others name what they take the place of, so that none of two machines takes
// the place of what it has not seen.
type Change struct {
	Known       Position       `json:"known"` // that the witness must not be behind of
	Scope       string         `json:"scope"`
	Acknowledge []Acknowledged `json:"acknowledge,omitempty"`
	Settle      *Settlement    `json:"settle,omitempty"`
	Checkpoint  *Seen          `json:"checkpoint,omitempty"`
	// After is the digest of the checkpoint that Checkpoint follows; "" = none was seen.
	After string `json:"after,omitempty"`
	// Grown is the tree of what was added since: it shows that nothing else changed.
	Grown [][]byte `json:"grown,omitempty"`
	// Accept has the witness go on from Checkpoint, whatever it saw before.
	Accept bool `json:"accept,omitempty"`
}

// Recovers reports whether a change takes the place of what a witness has, as only a
// recovery does.
func (c *Change) Recovers() bool { return c.Settle != nil || c.Accept }

// Settlement says that an entry was lost, and which one makes good for it.
type Settlement struct {
	Lost  Acknowledged `json:"lost"`
	Again Acknowledged `json:"again"`
}

// Acknowledged is an entry that a caller was told is written.
type Acknowledged struct {
	memory.Leaf
	Kind memory.EntryKind
}

// acknowledged is an [Acknowledged] in JSON.
type acknowledged struct {
	Key      []byte           `json:"key"` // may be no UTF-8
	Revision uint64           `json:"revision"`
	MAC      []byte           `json:"mac"`
	Kind     memory.EntryKind `json:"kind"`
}

// MarshalJSON writes the key and the MAC in base64.
func (a Acknowledged) MarshalJSON() ([]byte, error) {
	return json.Marshal(acknowledged{[]byte(a.Key), a.Revision, a.MAC[:], a.Kind})
}

// UnmarshalJSON reads what MarshalJSON writes, and nothing more.
func (a *Acknowledged) UnmarshalJSON(b []byte) error {
	var k acknowledged
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		return err
	}
	if len(k.Key) == 0 || len(k.MAC) != len(a.MAC) {
		return errors.New("an entry has no key, or a MAC of another length")
	}
	*a = Acknowledged{memory.Leaf{Key: string(k.Key), Revision: k.Revision, MAC: [32]byte(k.MAC)}, k.Kind}
	return nil
}

// Seen is the newest checkpoint that a witness saw of an origin.
type Seen struct {
	Origin string   `json:"origin"`
	Index  uint64   `json:"index"`
	Size   uint64   `json:"size"`
	Root   []byte   `json:"root"`
	Tree   [][]byte `json:"tree"` // what the root is made of: a later tree is grown from it
	Note   string   `json:"note"`
}

// digest names what was seen; "" = nothing.
func (c *Seen) digest() string {
	if c == nil {
		return ""
	}
	b, err := json.Marshal(c)
	if err != nil {
		panic("audit: text and numbers always encode: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// valid asks that the tree has the root, and that the origin is of the scope.
func (c *Seen) valid() (scope string, err error) {
	r, err := tree.NewRange(0, c.Size, c.Tree)
	at := len(c.Origin) - scopeLength
	if err != nil || !bytes.Equal(rootOf(r), c.Root) || at < 1 {
		return "", errors.New("its tree does not have its root")
	}
	return c.Origin[at:], nil
}

// grew asks that a tree is the one that was seen, with leaves added whose own tree is
// grown.
func (c *Seen) grew(now *Seen, grown [][]byte) error {
	wrong := fmt.Errorf("%w: a checkpoint that does not follow the one that was seen", memory.ErrInvalid)
	if now.Origin != c.Origin || now.Index <= c.Index || now.Size < c.Size {
		return wrong
	}
	r, err := tree.NewRange(0, c.Size, bytesClones(c.Tree))
	if err != nil {
		return wrong
	}
	added, err := tree.NewRange(c.Size, now.Size, bytesClones(grown))
	if err != nil || r.AppendRange(added, nil) != nil || !bytes.Equal(rootOf(r), now.Root) {
		return wrong
	}
	return nil
}

// bytesClones is a list that may be added to.
func bytesClones(list [][]byte) [][]byte { return append([][]byte(nil), list...) }

// NewWitness is a witness over what keeps it.
func NewWitness(b Backend) *Witness { return &Witness{b} }

// CreateWitness makes the file of a witness that has seen nothing yet, and opens it.
// What is there already is never overwritten. It is for a store that never had one,
// or whose witness is lost for good: a new one knows of no demotion, erasure or
// checkpoint of before, so that an older copy of the store passes for the newest.
func CreateWitness(path string) (*Witness, error) { return witnessOf(createFile(path)) }

// OpenWitness opens the witness in a file. One that is not there, or empty, gives
// [ErrWitness] and is not made ([CreateWitness]): who takes a witness away and puts an
// older copy of its store back is not to be believed. A file that a server has is
// refused: it is reached by the server.
func OpenWitness(path string) (*Witness, error) { return witnessOf(openFile(path, toWrite)) }

// ReadWitness is [OpenWitness] for reading only. A file that a server has may be read.
func ReadWitness(path string) (*Witness, error) { return witnessOf(openFile(path, toRead)) }

func witnessOf(f *WitnessFile, err error) (*Witness, error) {
	if err != nil {
		return nil, err
	}
	return NewWitness(f), nil
}

// Identity names the witness: a store that has it takes no other one for it. It is zero
// for one of an earlier release that is open for reading only.
func (w *Witness) Identity() memory.Token { return w.backend.Identity() }

// Close closes the witness. What waits to be acknowledged is written first.
func (w *Witness) Close() error { return w.backend.Close() }

// See shows the witness the newest checkpoint of a store. It refuses, with a
// [*RollbackError], one that is no extension of what it saw: then nothing is
// written. The signatures must be of the verifiers. What it sees first it believes.
func (w *Witness) See(ctx context.Context, s *memory.Store, verifiers ...note.Verifier) error {
	scope := scopeOf(s.Tenant(), s.Namespace())
	for {
		page, err := w.backend.Read(ctx, Query{Scope: scope})
		if err != nil {
			return err
		}
		was := page.Checkpoint
		now, grown, err := was.extend(ctx, s, scope, verifiers)
		if err != nil || now == nil {
			return err
		}
		_, err = w.backend.Append(ctx, Change{Scope: scope, Checkpoint: now, After: was.digest(), Grown: grown})
		if !errors.Is(err, memory.ErrConflict) { // which says that another process was faster
			return err
		}
	}
}

// Accept makes the newest checkpoint of a store the one that the witness goes on
// from, though it saw a newer one: the operator restored an older copy and knows it.
// Acknowledged demotions and erasures must be there again, or it is
// [memory.ErrBehind]; see [memory.Store.Recover]. All checkpoints of the store are
// verified. What the newer ones committed to is not looked for any more.
func (w *Witness) Accept(ctx context.Context, s *memory.Store, verifiers ...note.Verifier) error {
	lost, err := w.Ledger(s.Tenant(), s.Namespace()).Behind(ctx, s)
	if err != nil {
		return err
	}
	if len(lost) > 0 {
		return fmt.Errorf("%w: %d entries, the first of %s", memory.ErrBehind, len(lost), memory.KeyText(lost[0].Key))
	}
	var none *Seen
	scope := scopeOf(s.Tenant(), s.Namespace())
	now, _, err := none.extend(ctx, s, scope, verifiers)
	if err != nil {
		return err
	}
	if now == nil {
		return fmt.Errorf("%w: the store has no checkpoint to go on from; make one without the witness first", memory.ErrInvalid)
	}
	_, err = w.backend.Append(ctx, Change{Scope: scope, Checkpoint: now, Accept: true})
	return err
}

// extend verifies the checkpoints of the store after the one that was seen, and
// returns the newest, with the tree of what was added since; nil if there is none.
func (c *Seen) extend(ctx context.Context, s *memory.Store, scope string, k known) (now *Seen, grown [][]byte, err error) {
	place := start(scope)
	after := uint64(0)
	if c != nil {
		after = c.Index - 1 // the one that was seen is looked at again
	}
	var last *memory.Checkpoint
	for n, err := range s.Checkpoints(ctx, after) {
		if err != nil {
			return nil, nil, err
		}
		last = &n
		if c != nil && n.Index == c.Index {
			if place, err = c.confirm(&n, scope, k); err != nil {
				return nil, nil, err
			}
			place.since = tree.NewEmptyRange(c.Size)
			continue
		}
		if _, _, err := place.next(k, &n); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case c == nil && last == nil:
		return nil, nil, nil
	case last == nil:
		newest, err := s.LastCheckpoint(ctx)
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, c.rollback(&newest, "an older copy of the store was put back")
	case c != nil && last.Index == c.Index:
		return nil, nil, nil
	}
	if place.since != nil {
		grown = place.since.Hashes()
	}
	return &Seen{Origin: place.origin, Index: place.index, Size: place.tree.End(), Root: rootOf(place.tree), Tree: place.tree.Hashes(), Note: string(last.Note)}, grown, nil
}

func (c *Seen) rollback(n *memory.Checkpoint, reason string) error {
	return &RollbackError{Index: n.Index, Size: n.Size, WitnessedIndex: c.Index, WitnessedSize: c.Size, Reason: reason}
}

// confirm makes sure that a checkpoint of the store is the one that was seen, and
// returns its position, with the tree that the witness itself remembers.
func (c *Seen) confirm(n *memory.Checkpoint, scope string, k known) (*position, error) {
	place, _, err := at(scope, k, n)
	if err != nil {
		return nil, err
	}
	if place.tree.End() != c.Size || !bytes.Equal(rootOf(place.tree), c.Root) || !equalHashes(place.tree.Hashes(), c.Tree) || !sameText(n.Note, c.Note) {
		return nil, c.rollback(n, "the store has another checkpoint of that number: its history was made again")
	}
	return place, nil
}

// sameText compares what two notes say, whoever signed them.
func sameText(a []byte, b string) bool {
	x, _, _ := bytes.Cut(a, []byte("\n\n"))
	y, _, _ := bytes.Cut([]byte(b), []byte("\n\n"))
	return bytes.Equal(x, y)
}

// Ledger is the part of a witness that is about one tenant and namespace.
type Ledger struct {
	w     *Witness
	scope string
}

// Ledger returns the part that is about one tenant and namespace.
func (w *Witness) Ledger(tenant, namespace string) *Ledger {
	return &Ledger{w: w, scope: scopeOf(cmp.Or(tenant, "default"), namespace)}
}

// Identity is that of the witness.
func (l *Ledger) Identity() memory.Token { return l.w.Identity() }

// Checkpoint is the number of the newest checkpoint that the witness saw of the
// tenant and namespace; 0 = none.
func (l *Ledger) Checkpoint(ctx context.Context) (index uint64, err error) {
	page, err := l.w.backend.Read(ctx, Query{Scope: l.scope})
	if err != nil || page.Checkpoint == nil {
		return 0, err
	}
	return page.Checkpoint.Index, nil
}

// Acknowledge makes the last entries of logs durable: once it returns nil, a store
// that does not have them is found out. Of a log the newest entry is remembered;
// it stands for those before it. Another entry of a revision that the witness has
// is refused with [ErrSuperseded].
//
// Calls at the same time share one sync of the disk. A call whose context ends
// while it waits may have been written.
func (l *Ledger) Acknowledge(ctx context.Context, kind memory.EntryKind, leaves []memory.Leaf) error {
	entries := make([]Acknowledged, len(leaves))
	for i := range leaves {
		entries[i] = Acknowledged{leaves[i], kind}
	}
	if err := ctx.Err(); err != nil || len(entries) == 0 {
		return err
	}
	_, err := l.w.backend.Append(ctx, Change{Scope: l.scope, Acknowledge: entries})
	return err
}

// Settle records that an acknowledged entry was lost, and that another one makes
// good for it: from now on that one must be there. If the witness has neither,
// [ErrSuperseded].
func (l *Ledger) Settle(ctx context.Context, kind memory.EntryKind, lost, again memory.Leaf) error {
	if lost.Key != again.Key {
		return fmt.Errorf("%w: an entry of %q cannot make good for one of %q", memory.ErrInvalid, again.Key, lost.Key)
	}
	_, err := l.w.backend.Append(ctx, Change{Scope: l.scope, Settle: &Settlement{Lost: Acknowledged{lost, kind}, Again: Acknowledged{again, kind}}})
	return err
}

// Acknowledged lists the newest acknowledged entry of each log, by key.
func (l *Ledger) Acknowledged(ctx context.Context, yield func(kind memory.EntryKind, entry memory.Leaf) error) error {
	all, err := l.all(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := yield(all[i].Kind, all[i].Leaf); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) all(ctx context.Context) ([]Acknowledged, error) {
	_, entries, err := l.w.read(ctx, l.scope)
	return entries, err
}

// read returns all that the witness has of a scope. What others tell it meanwhile may be
// in it or not.
func (w *Witness) read(ctx context.Context, scope string) (seen *Seen, entries []Acknowledged, err error) {
	q := Query{Scope: scope, Entries: true}
	for first := true; ; first = false {
		page, err := w.backend.Read(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		if first {
			seen = page.Checkpoint
		}
		entries = append(entries, page.Entries...)
		if !page.More || len(page.Entries) == 0 {
			return seen, entries, nil
		}
		q.After = []byte(page.Entries[len(page.Entries)-1].Key)
	}
}

// Behind lists the acknowledged entries that a store does not have: it is an older
// copy, or a fail-over went to a replica that lagged. Of a log that has moved on, it
// reads the entries since; see [memory.Store.Holds].
func (l *Ledger) Behind(ctx context.Context, s *memory.Store) ([]memory.Leaf, error) {
	all, err := l.all(ctx)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	leaves := make([]memory.Leaf, len(all))
	for i := range all {
		leaves[i] = all[i].Leaf
	}
	held, err := s.Holds(ctx, leaves...)
	if err != nil {
		return nil, err
	}
	var out []memory.Leaf
	for i, ok := range held {
		if !ok {
			out = append(out, leaves[i])
		}
	}
	return out, nil
}
