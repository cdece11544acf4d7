package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
)

var (
	// ErrRollback is the sentinel of [*RollbackError].
	ErrRollback = errors.New("audit: the store is older than its witness")
	// ErrWitness: the file of a witness is damaged, cut, gone, or cannot be written.
	ErrWitness = errors.New("audit: the witness cannot be relied on")
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

// Witness is a file outside the store that remembers what the store must never
// lose: the newest checkpoint, and the demotions and erasures that were
// acknowledged. What it is told is on disk before it answers. It is worth as much
// as the distance between it and the store: another machine or disk, and nobody
// who writes both.
//
// One file serves all tenants and namespaces of a store, and any number of processes
// and handles at once. Two stores need a file each: where both have a tenant of one
// name, each would be taken for a copy of the other that lost what is in it. It is
// appended to, one line at a time, and made small again when most of it is of no
// more use; a line that a crash left half written is dropped. It holds no content:
// keys of logs, numbers and digests.
//
// A Witness is safe for concurrent use.
type Witness struct {
	path     string
	readOnly bool

	io      sync.Mutex // of the file, and of what follows
	file    *os.File
	end     int64 // of what was read
	floor   int64 // size after the last compaction
	lines   int
	broken  error
	newest  map[string]*witnessed               // by scope
	entries map[string]map[string]*Acknowledged // by scope and key

	mu      sync.Mutex
	waiting []*waiting // to be written by whoever holds io next
}

// Acknowledged is an entry that a caller was told is written.
type Acknowledged struct {
	memory.Leaf
	Kind memory.EntryKind
}

// witnessed is the newest checkpoint that was seen of an origin.
type witnessed struct {
	Origin string   `json:"origin"`
	Index  uint64   `json:"index"`
	Size   uint64   `json:"size"`
	Root   []byte   `json:"root"`
	Tree   [][]byte `json:"tree"` // what the root is made of: a later tree is grown from it
	Note   string   `json:"note"`
}

type kept struct {
	Scope    string           `json:"scope"`
	Key      []byte           `json:"key"` // may be no UTF-8
	Revision uint64           `json:"revision"`
	MAC      []byte           `json:"mac"`
	Kind     memory.EntryKind `json:"kind"`
}

// line is a line of the file, after its checksum. One append is one line, so that
// a crash leaves all of it or a line without an end.
type line struct {
	Version      int        `json:"hearsay_witness,omitempty"` // of the first line
	Checkpoint   *witnessed `json:"checkpoint,omitempty"`
	Acknowledged []kept     `json:"acknowledged,omitempty"`
}

const (
	witnessVersion = 1
	maxWitnessLine = 4 << 20
	compactFrom    = 1 << 20
	perLine        = 2000 // entries
)

// CreateWitness makes the file of a witness that has seen nothing yet, and opens it.
// What is there already is never overwritten. It is for a store that never had one,
// or whose witness is lost for good: a new one knows of no demotion, erasure or
// checkpoint of before, so that an older copy of the store passes for the newest.
func CreateWitness(path string) (*Witness, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, witnessFault("%w", err)
	}
	w := &Witness{path: path}
	if w.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, witnessFault("%w", err)
	}
	w.forget()
	if err := w.begin(); err != nil {
		return nil, errors.Join(err, w.file.Close(), os.Remove(path))
	}
	return w, nil
}

// begin writes the first line. A file without one was emptied, and is no witness.
func (w *Witness) begin() error {
	if err := lock(w.file, false); err != nil {
		return witnessFault("lock: %w", err)
	}
	defer unlock(w.file)
	if err := w.append(&line{Version: witnessVersion}); err != nil {
		return err
	}
	if err := syncFolderOf(w.path); err != nil {
		return witnessFault("%w", err)
	}
	return nil
}

// OpenWitness opens the witness in a file. One that is not there, or empty, gives
// [ErrWitness] and is not made ([CreateWitness]): who takes a witness away and puts an
// older copy of its store back is not to be believed.
func OpenWitness(path string) (*Witness, error) { return openWitness(path, os.O_RDWR) }

// ReadWitness is [OpenWitness] for reading only.
func ReadWitness(path string) (*Witness, error) { return openWitness(path, os.O_RDONLY) }

func openWitness(path string, flag int) (*Witness, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, witnessFault("%w", err)
	}
	w := &Witness{path: path, readOnly: flag == os.O_RDONLY}
	if w.file, err = os.OpenFile(path, flag, 0); err != nil {
		return nil, witnessFault("%w", err)
	}
	w.forget()
	if err := w.locked(func() error { return nil }); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

func witnessFault(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrWitness, fmt.Errorf(format, args...))
}

// syncFolderOf has the name of a file on disk.
func syncFolderOf(path string) error {
	if runtime.GOOS == "windows" { // a folder cannot be synced there
		return nil
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Close closes the file. What waits to be acknowledged is written first.
func (w *Witness) Close() error {
	w.io.Lock()
	defer w.io.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	w.broken = witnessFault("it is closed")
	return err
}

func (w *Witness) forget() {
	w.end, w.floor, w.lines = 0, 0, 0
	w.newest, w.entries = map[string]*witnessed{}, map[string]map[string]*Acknowledged{}
}

// locked runs work while no other process writes, on the newest state of the file.
// The caller does not hold io.
func (w *Witness) locked(work func() error) error {
	w.io.Lock()
	defer w.io.Unlock()
	return w.exclusively(work)
}

// within runs work, and waits for it as long as ctx lets it: a lock that another process
// holds, and a disk that does not answer, know of no context. What nobody waits for any
// more ends by itself.
func within[T any](ctx context.Context, work func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := work()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (w *Witness) exclusively(work func() error) error {
	if w.broken != nil {
		return w.broken
	}
	for {
		if err := lock(w.file, w.readOnly); err != nil {
			return witnessFault("lock: %w", err)
		}
		same, err := w.same()
		if err == nil && same {
			break
		}
		unlock(w.file)
		if err != nil {
			return err
		}
		// Another process compacted it: the name has a new file.
		flag := os.O_RDWR
		if w.readOnly {
			flag = os.O_RDONLY
		}
		f, err := os.OpenFile(w.path, flag, 0)
		if err != nil {
			return witnessFault("%w", err)
		}
		_ = w.file.Close()
		w.file = f
		w.forget()
	}
	defer func() { unlock(w.file) }() // the file of now: a compaction locks its own
	if err := w.refresh(); err != nil {
		return err
	}
	if w.lines == 0 {
		return witnessFault("%s is empty", w.path)
	}
	return work()
}

func (w *Witness) same() (bool, error) {
	have, err := w.file.Stat()
	if err != nil {
		return false, witnessFault("%w", err)
	}
	named, err := os.Stat(w.path)
	if err != nil { // made anew, it would say that nothing was ever seen
		return false, witnessFault("it was taken away: %w", err)
	}
	return os.SameFile(have, named), nil
}

// refresh reads what others wrote.
func (w *Witness) refresh() error {
	info, err := w.file.Stat()
	if err != nil {
		return witnessFault("%w", err)
	}
	switch {
	case info.Size() == w.end:
		return nil
	case info.Size() < w.end:
		return witnessFault("it was cut from %d to %d bytes", w.end, info.Size())
	}
	r := bufio.NewReaderSize(io.NewSectionReader(w.file, w.end, info.Size()-w.end), 64<<10)
	for {
		text, err := readLine(r, maxWitnessLine)
		switch {
		case err == io.EOF && len(text) == 0:
			return nil
		case err == io.EOF:
			// A crash left it half written. Nobody was told that it is there.
			if w.readOnly {
				return nil
			}
			if err := w.file.Truncate(w.end); err != nil {
				return witnessFault("%w", err)
			}
			return nil
		case err != nil:
			return witnessFault("line %d: %w", w.lines+1, err)
		}
		if err := w.take(text); err != nil {
			return witnessFault("line %d is damaged: %w", w.lines+1, err)
		}
		w.end += int64(len(text)) + 1
		w.lines++
	}
}

var errLineTooLong = errors.New("the line is too long")

// readLine reads a line without its end. A line without an end comes with io.EOF.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(out)+len(part) > limit {
			return nil, errLineTooLong
		}
		out = append(out, part...)
		switch {
		case err == nil:
			return out[:len(out)-1], nil
		case err != bufio.ErrBufferFull:
			return out, err
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (l *line) encode() ([]byte, error) {
	b, err := json.Marshal(l)
	if err != nil {
		return nil, witnessFault("%w", err)
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.Checksum(b, castagnoli), b), nil
}

// take reads a line into what is known.
func (w *Witness) take(text []byte) error {
	if len(text) < 9 || fmt.Sprintf("%08x ", crc32.Checksum(text[9:], castagnoli)) != string(text[:9]) {
		return errors.New("its checksum does not hold")
	}
	var l line
	d := json.NewDecoder(bytes.NewReader(text[9:]))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return err
	}
	if l.Version > witnessVersion {
		return errors.New("it is of a later release")
	}
	if c := l.Checkpoint; c != nil {
		r, err := tree.NewRange(0, c.Size, c.Tree)
		at := len(c.Origin) - scopeLength
		if err != nil || !bytes.Equal(rootOf(r), c.Root) || at < 1 {
			return errors.New("its tree does not have its root")
		}
		w.newest[c.Origin[at:]] = c
	}
	for _, k := range l.Acknowledged {
		a := &Acknowledged{Leaf: memory.Leaf{Key: string(k.Key), Revision: k.Revision}, Kind: k.Kind}
		if copy(a.MAC[:], k.MAC) != len(a.MAC) {
			return errors.New("a MAC is too short")
		}
		if w.entries[k.Scope] == nil {
			w.entries[k.Scope] = map[string]*Acknowledged{}
		}
		w.entries[k.Scope][a.Key] = a
	}
	return nil
}

// append writes a line and takes it. If the disk may have it or not, the witness is
// broken until it is opened again: what the kernel forgot after a failed sync is
// not to be had by another one.
func (w *Witness) append(l *line) error {
	if w.readOnly {
		return witnessFault("it is open for reading")
	}
	b, err := l.encode()
	if err != nil {
		return err
	}
	if len(b) > maxWitnessLine {
		return witnessFault("%w", errLineTooLong)
	}
	if _, err := w.file.WriteAt(b, w.end); err != nil {
		if cut := w.file.Truncate(w.end); cut != nil {
			w.broken = witnessFault("%w", errors.Join(err, cut))
		}
		return witnessFault("%w", err)
	}
	if err := w.file.Sync(); err != nil {
		w.broken = witnessFault("%w", err)
		return w.broken
	}
	if err := w.take(b[:len(b)-1]); err != nil {
		w.broken = witnessFault("what was written does not read: %w", err)
		return w.broken
	}
	w.end += int64(len(b))
	w.lines++
	if w.end < compactFrom || w.end < 4*w.floor {
		return nil
	}
	if err := w.compact(); err != nil {
		w.floor = w.end // the line is written; some other time
	}
	return w.broken
}

// compact writes what is known to a new file, and gives it the name of the old one.
func (w *Witness) compact() (err error) {
	path := w.path + ".new"
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return witnessFault("%w", err)
	}
	defer func() {
		if err != nil && w.file != f {
			_ = f.Close()
			_ = os.Remove(path)
		}
	}()
	size, lines := int64(0), 0
	write := func(l line) error {
		b, err := l.encode()
		if err == nil {
			_, err = f.Write(b)
		}
		size, lines = size+int64(len(b)), lines+1
		return err
	}
	if err := write(line{Version: witnessVersion}); err != nil {
		return witnessFault("%w", err)
	}
	for _, origin := range sorted(w.newest) {
		if err := write(line{Checkpoint: w.newest[origin]}); err != nil {
			return witnessFault("%w", err)
		}
	}
	for _, scope := range sorted(w.entries) {
		for keys := range slices.Chunk(sorted(w.entries[scope]), perLine) {
			var l line
			for _, key := range keys {
				l.Acknowledged = append(l.Acknowledged, w.entries[scope][key].kept(scope))
			}
			if err := write(l); err != nil {
				return witnessFault("%w", err)
			}
		}
	}
	if err := f.Sync(); err != nil {
		return witnessFault("%w", err)
	}
	// Whoever finds it under the name of the old one waits: more lines may follow.
	if err := lock(f, false); err != nil {
		return witnessFault("lock: %w", err)
	}
	if err := os.Rename(path, w.path); err != nil {
		return witnessFault("%w", err)
	}
	old := w.file
	w.file, w.end, w.floor, w.lines = f, size, size, lines
	_ = old.Close() // nothing in it is needed any more
	if err := syncFolderOf(w.path); err != nil {
		w.broken = witnessFault("%w", err) // after a crash the name may have the old file again
	}
	return nil
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (a *Acknowledged) kept(scope string) kept {
	return kept{Scope: scope, Key: []byte(a.Key), Revision: a.Revision, MAC: a.MAC[:], Kind: a.Kind}
}

// See shows the witness the newest checkpoint of a store. It refuses, with a
// [*RollbackError], one that is no extension of what it saw: then nothing is
// written. The signatures must be of the verifiers. What it sees first it believes.
func (w *Witness) See(ctx context.Context, s *memory.Store, verifiers ...note.Verifier) error {
	scope := scopeOf(s.Tenant(), s.Namespace())
	for {
		was, err := within(ctx, func() (was *witnessed, err error) {
			err = w.locked(func() error { was = w.newest[scope]; return nil })
			return was, err
		})
		if err != nil {
			return err
		}
		now, err := was.extend(ctx, s, scope, verifiers)
		if err != nil || now == nil {
			return err
		}
		seen, err := within(ctx, func() (seen bool, err error) {
			err = w.locked(func() error {
				if w.newest[scope] != was { // another process was faster
					return nil
				}
				seen = true
				return w.append(&line{Checkpoint: now})
			})
			return seen, err
		})
		if err != nil || seen {
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
	var none *witnessed
	now, err := none.extend(ctx, s, scopeOf(s.Tenant(), s.Namespace()), verifiers)
	if err != nil {
		return err
	}
	if now == nil {
		return fmt.Errorf("%w: the store has no checkpoint to go on from; make one without the witness first", memory.ErrInvalid)
	}
	_, err = within(ctx, func() (struct{}, error) {
		return struct{}{}, w.locked(func() error { return w.append(&line{Checkpoint: now}) })
	})
	return err
}

// extend verifies the checkpoints of the store after the one that was seen, and
// returns the newest; nil if there is none.
func (c *witnessed) extend(ctx context.Context, s *memory.Store, scope string, k known) (*witnessed, error) {
	place := start(scope)
	after := uint64(0)
	if c != nil {
		after = c.Index - 1 // the one that was seen is looked at again
	}
	var last *memory.Checkpoint
	for n, err := range s.Checkpoints(ctx, after) {
		if err != nil {
			return nil, err
		}
		last = &n
		if c != nil && n.Index == c.Index {
			if place, err = c.confirm(&n, scope, k); err != nil {
				return nil, err
			}
			continue
		}
		if _, _, err := place.next(k, &n); err != nil {
			return nil, err
		}
	}
	switch {
	case c == nil && last == nil:
		return nil, nil
	case last == nil:
		newest, err := s.LastCheckpoint(ctx)
		if err != nil {
			return nil, err
		}
		return nil, c.rollback(&newest, "an older copy of the store was put back")
	case c != nil && last.Index == c.Index:
		return nil, nil
	}
	return &witnessed{Origin: place.origin, Index: place.index, Size: place.tree.End(), Root: rootOf(place.tree), Tree: place.tree.Hashes(), Note: string(last.Note)}, nil
}

func (c *witnessed) rollback(n *memory.Checkpoint, reason string) error {
	return &RollbackError{Index: n.Index, Size: n.Size, WitnessedIndex: c.Index, WitnessedSize: c.Size, Reason: reason}
}

// confirm makes sure that a checkpoint of the store is the one that was seen, and
// returns its position, with the tree that the witness itself remembers.
func (c *witnessed) confirm(n *memory.Checkpoint, scope string, k known) (*position, error) {
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

// waiting is an acknowledgement that is not written yet.
type waiting struct {
	scope   string
	entries []Acknowledged
	settles *memory.Leaf // what the entry takes the place of
	done    chan struct{}
	err     error
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

// Checkpoint is the number of the newest checkpoint that the witness saw of the
// tenant and namespace; 0 = none.
func (l *Ledger) Checkpoint() (index uint64, err error) {
	err = l.w.locked(func() error {
		if c := l.w.newest[l.scope]; c != nil {
			index = c.Index
		}
		return nil
	})
	return index, err
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
	return l.w.write(ctx, &waiting{scope: l.scope, entries: entries})
}

// Settle records that an acknowledged entry was lost, and that another one makes
// good for it: from now on that one must be there. If the witness has neither,
// [ErrSuperseded].
func (l *Ledger) Settle(ctx context.Context, kind memory.EntryKind, lost, again memory.Leaf) error {
	if lost.Key != again.Key {
		return fmt.Errorf("%w: an entry of %q cannot make good for one of %q", memory.ErrInvalid, again.Key, lost.Key)
	}
	return l.w.write(ctx, &waiting{scope: l.scope, entries: []Acknowledged{{again, kind}}, settles: &lost})
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
	return within(ctx, func() (out []Acknowledged, err error) {
		err = l.w.locked(func() error {
			for _, key := range sorted(l.w.entries[l.scope]) {
				out = append(out, *l.w.entries[l.scope][key])
			}
			return nil
		})
		return out, err
	})
}

// write has an acknowledgement written, with those of other calls that came since the
// last one began to write.
func (w *Witness) write(ctx context.Context, a *waiting) error {
	if err := ctx.Err(); err != nil || len(a.entries) == 0 {
		return err
	}
	a.done = make(chan struct{})
	w.mu.Lock()
	w.waiting = append(w.waiting, a)
	first := len(w.waiting) == 1
	w.mu.Unlock()
	if first {
		go w.group()
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// group writes the acknowledgements that wait.
func (w *Witness) group() {
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	group := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	err := w.exclusively(func() error {
		var all []kept
		pending := map[string]*Acknowledged{}
		for _, a := range group {
			if a.err = w.admit(a, pending); a.err != nil {
				continue
			}
			for i := range a.entries {
				if e := &a.entries[i]; pending[a.scope+e.Key] == e {
					all = append(all, e.kept(a.scope))
				}
			}
		}
		for part := range slices.Chunk(all, perLine) {
			if err := w.append(&line{Acknowledged: part}); err != nil {
				return err
			}
		}
		return nil
	})
	for _, a := range group {
		if a.err == nil {
			a.err = err
		}
		close(a.done)
	}
}

// admit says whether entries may be acknowledged, and notes in pending those that
// are newer than what is known.
func (w *Witness) admit(a *waiting, pending map[string]*Acknowledged) error {
	newer := map[string]*Acknowledged{}
	for i := range a.entries {
		e := &a.entries[i]
		have := cmp.Or(newer[a.scope+e.Key], pending[a.scope+e.Key], w.entries[a.scope][e.Key])
		switch {
		case have == nil && a.settles == nil:
		case have != nil && e.Revision == have.Revision && e.MAC == have.MAC:
			continue
		case a.settles != nil:
			if have == nil || have.Leaf != *a.settles {
				return fmt.Errorf("%w: entry %d of %s", ErrSuperseded, e.Revision, memory.KeyText(e.Key))
			}
		case e.Revision < have.Revision:
			continue
		case e.Revision == have.Revision:
			return fmt.Errorf("%w: entry %d of %s", ErrSuperseded, e.Revision, memory.KeyText(e.Key))
		}
		newer[a.scope+e.Key] = e
	}
	for key, e := range newer {
		pending[key] = e
	}
	return nil
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
