package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/hearsay-go/hearsay/memory"
)

// WitnessFile is the file of a witness. It is appended to, one line at a time, and made
// small again when most of it is of no more use; a line that a crash left half written
// is dropped. Any number of processes and handles may have it open at once, unless one
// of them serves it to others ([ServeWitness]).
//
// A WitnessFile is safe for concurrent use.
type WitnessFile struct {
	path     string
	readOnly bool
	id       memory.Token // never changes once it is known
	served   *os.File     // locked while this one alone may write; nil = others may
	counted  bool         // it was served once, so that somebody knows how many lines it had

	io      sync.Mutex // of the file, and of what follows
	file    *os.File
	end     int64 // of what was read
	floor   int64 // size after the last compaction
	lines   int
	named   bool // the file that was read says who it is
	broken  error
	newest  map[string]*Seen                    // by scope
	entries map[string]map[string]*Acknowledged // by scope and key
	order   map[string][]string                 // keys of entries, by scope; made when they are asked for
	folded  Position                            // lines that a compaction took the place of
	digests [][sha256.Size]byte                 // after each line of the file, if it is served

	mu      sync.Mutex
	waiting []*waiting // to be written by whoever holds io next
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
	Version      int       `json:"hearsay_witness,omitempty"` // of the first line
	ID           []byte    `json:"id,omitempty"`              // of the witness, of the first line too; one of an earlier release has it later
	Folded       *Position `json:"folded,omitempty"`          // of the first line: what a compaction took the place of, if it was ever served
	Checkpoint   *Seen     `json:"checkpoint,omitempty"`
	Acknowledged []kept    `json:"acknowledged,omitempty"`
}

const (
	witnessVersion = 1
	maxWitnessLine = 4 << 20
	compactFrom    = 1 << 20
	perLine        = 2000 // entries
)

func createFile(path string) (*WitnessFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, witnessFault("%w", err)
	}
	w := &WitnessFile{path: path}
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
func (w *WitnessFile) begin() error {
	if err := lock(w.file, false); err != nil {
		return witnessFault("lock: %w", err)
	}
	defer unlock(w.file)
	if err := w.append(newIdentity()); err != nil {
		return err
	}
	if err := syncFolderOf(w.path); err != nil {
		return witnessFault("%w", err)
	}
	return nil
}

// newIdentity is a line that says who a witness is.
func newIdentity() *line {
	id := make([]byte, len(memory.Token{}))
	_, _ = rand.Read(id) // never fails
	return &line{Version: witnessVersion, ID: id}
}

// Identity names the witness: a store that has it takes no other one for it. It is zero
// for one of an earlier release that is open for reading only.
func (w *WitnessFile) Identity() memory.Token { return w.id }

// access is what a file is opened for.
type access int

const (
	toRead access = iota
	toWrite
	toServe // and nobody else writes
)

// ServeWitness opens the file of a witness for the one program that others reach it by.
// While it is open nobody else opens the file to write it. Whoever had it open before and
// writes it, or puts another in its place, breaks it: it answers nothing any more.
func ServeWitness(path string) (*WitnessFile, error) { return openFile(path, toServe) }

func openFile(path string, to access) (_ *WitnessFile, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, witnessFault("%w", err)
	}
	w := &WitnessFile{path: path, readOnly: to == toRead}
	if w.file, err = os.OpenFile(path, w.flag(), 0); err != nil {
		return nil, witnessFault("%w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.file.Close())
			if w.served != nil {
				err = errors.Join(err, w.served.Close())
			}
		}
	}()
	if to != toRead {
		if w.served, w.counted, err = claim(path, to == toServe); err != nil {
			return nil, err
		}
	}
	w.forget()
	identify := func() error {
		if w.id != (memory.Token{}) || w.readOnly {
			return nil
		}
		return w.append(newIdentity()) // an earlier release made it
	}
	if err := w.locked(identify); err != nil {
		return nil, err
	}
	return w, nil
}

// claim takes the lock of who serves a witness, beside its file, or makes sure that
// nobody has it. counted says that it was served once.
func claim(path string, serve bool) (lock *os.File, counted bool, err error) {
	flag := os.O_RDWR
	if serve {
		flag |= os.O_CREATE
	}
	f, err := os.OpenFile(path+".served", flag, 0o600)
	switch {
	case !serve && errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, witnessFault("%w", err)
	}
	if err := tryLock(f, !serve); err != nil {
		return nil, false, errors.Join(witnessFault("%s is served by another program: name that one's URL in place of the file", path), f.Close())
	}
	if serve {
		return f, true, nil
	}
	return nil, true, f.Close()
}

// flag is how the file is opened.
func (w *WitnessFile) flag() int {
	if w.readOnly {
		return os.O_RDONLY
	}
	return os.O_RDWR
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
func (w *WitnessFile) Close() error {
	w.io.Lock()
	defer w.io.Unlock()
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	if w.served != nil {
		err = errors.Join(err, w.served.Close())
	}
	w.file = nil
	w.broken = witnessFault("it is closed")
	return err
}

func (w *WitnessFile) forget() {
	w.end, w.floor, w.lines, w.named = 0, 0, 0, false
	w.newest, w.entries, w.order = map[string]*Seen{}, map[string]map[string]*Acknowledged{}, map[string][]string{}
	w.folded, w.digests = Position{}, nil
}

// locked runs work while no other process writes, on the newest state of the file.
// The caller does not hold io.
func (w *WitnessFile) locked(work func() error) error {
	w.io.Lock()
	defer w.io.Unlock()
	return w.exclusively(work)
}

// within runs work, and waits for it as long as ctx lets it: a lock that another process
// holds, and a disk that does not answer, know of no context. What nobody waits for any
// more ends by itself.
func within[T any](ctx context.Context, work func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil { // the select below could choose a result
		var none T
		return none, err
	}
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

func (w *WitnessFile) exclusively(work func() error) error {
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
		if w.served != nil {
			w.broken = witnessFault("another file was put in the place of %s while it was served", w.path)
			return w.broken
		}
		// Another process compacted it: the name has a new file.
		f, err := os.OpenFile(w.path, w.flag(), 0)
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
	if w.id != (memory.Token{}) && !w.named {
		return witnessFault("another one was put in the place of %s", w.path)
	}
	return work()
}

func (w *WitnessFile) same() (bool, error) {
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
func (w *WitnessFile) refresh() error {
	info, err := w.file.Stat()
	if err != nil {
		return witnessFault("%w", err)
	}
	switch {
	case info.Size() == w.end:
		return nil
	case w.served != nil && w.end > 0:
		w.broken = witnessFault("another program changed %s while it was served: it had %d bytes, and has %d", w.path, w.end, info.Size())
		return w.broken
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
		w.count(text)
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
func (w *WitnessFile) take(text []byte) error {
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
	if len(l.ID) > 0 {
		if len(l.ID) != len(w.id) || memory.Token(l.ID) == (memory.Token{}) || w.id != (memory.Token{}) && memory.Token(l.ID) != w.id {
			return errors.New("it is of another witness")
		}
		if w.named = true; w.id == (memory.Token{}) {
			w.id = memory.Token(l.ID)
		}
	}
	if l.Folded != nil {
		w.folded, w.counted = *l.Folded, true
	}
	if c := l.Checkpoint; c != nil {
		scope, err := c.valid()
		if err != nil {
			return err
		}
		w.newest[scope] = c
	}
	for _, k := range l.Acknowledged {
		a := &Acknowledged{Leaf: memory.Leaf{Key: string(k.Key), Revision: k.Revision}, Kind: k.Kind}
		if copy(a.MAC[:], k.MAC) != len(a.MAC) {
			return errors.New("a MAC is too short")
		}
		if w.entries[k.Scope] == nil {
			w.entries[k.Scope] = map[string]*Acknowledged{}
		}
		if w.entries[k.Scope][a.Key] == nil {
			delete(w.order, k.Scope)
		}
		w.entries[k.Scope][a.Key] = a
	}
	return nil
}

// append writes a line and takes it. If the disk may have it or not, the witness is
// broken until it is opened again: what the kernel forgot after a failed sync is
// not to be had by another one.
func (w *WitnessFile) append(l *line) error {
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
	w.count(b[:len(b)-1])
	if w.end < compactFrom || w.end < 4*w.floor {
		return nil
	}
	if err := w.compact(); err != nil {
		w.floor = w.end // the line is written; some other time
	}
	return w.broken
}

// compact writes what is known to a new file, and gives it the name of the old one.
func (w *WitnessFile) compact() (err error) {
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
	small := WitnessFile{served: w.served}
	write := func(l line) error {
		b, err := l.encode()
		if err != nil {
			return err
		}
		size, lines = size+int64(len(b)), lines+1
		small.count(b[:len(b)-1])
		_, err = f.Write(b)
		return err
	}
	first := line{Version: witnessVersion, ID: w.id[:]}
	switch at := w.position(); {
	case w.served != nil:
		first.Folded = &at
	case w.counted:
		first.Folded = &Position{Lines: w.folded.Lines + uint64(w.lines)}
	}
	if first.Folded != nil {
		small.folded = *first.Folded
	}
	if err := write(first); err != nil {
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
	w.folded, w.digests = small.folded, small.digests
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

// count takes a line into the position.
func (w *WitnessFile) count(text []byte) {
	if w.served == nil {
		return
	}
	h := sha256.New()
	if n := len(w.digests); n > 0 {
		h.Write(w.digests[n-1][:])
	}
	h.Write(text)
	w.digests = append(w.digests, [sha256.Size]byte(h.Sum(nil)))
}

// position is how far the file is, if it is served.
func (w *WitnessFile) position() Position {
	n := len(w.digests)
	if n == 0 {
		return Position{}
	}
	return Position{Lines: w.folded.Lines + uint64(n), Digest: hex.EncodeToString(w.digests[n-1][:])}
}

// holds asks that a position is one that the file has gone through. What a compaction
// took the place of is only counted.
func (w *WitnessFile) holds(p Position) error {
	if p.Lines == 0 || w.served == nil {
		return nil
	}
	now := w.position()
	if p.Lines > now.Lines {
		return fmt.Errorf("%w: %w", ErrWitness, fmt.Errorf("%w: it was seen with %d lines, and has %d", ErrWitnessOlder, p.Lines, now.Lines))
	}
	if p.Lines <= w.folded.Lines {
		return nil
	}
	if d := w.digests[p.Lines-w.folded.Lines-1]; hex.EncodeToString(d[:]) != p.Digest {
		return fmt.Errorf("%w: %w", ErrWitness, fmt.Errorf("%w: its line %d is not the one that was seen", ErrWitnessOlder, p.Lines))
	}
	return nil
}

func (a *Acknowledged) kept(scope string) kept {
	return kept{Scope: scope, Key: []byte(a.Key), Revision: a.Revision, MAC: a.MAC[:], Kind: a.Kind}
}

// Read returns what the file has.
func (w *WitnessFile) Read(ctx context.Context, q Query) (Page, error) {
	return within(ctx, func() (p Page, err error) {
		err = w.locked(func() error {
			if err := w.holds(q.Known); err != nil {
				return err
			}
			p = Page{At: w.position(), Checkpoint: w.newest[q.Scope]}
			if !q.Entries {
				return nil
			}
			keys := w.keys(q.Scope)
			from, found := slices.BinarySearch(keys, string(q.After))
			if found {
				from++
			}
			keys = keys[from:]
			if q.Limit > 0 && q.Limit < len(keys) {
				keys, p.More = keys[:q.Limit], true
			}
			for _, key := range keys {
				p.Entries = append(p.Entries, *w.entries[q.Scope][key])
			}
			return nil
		})
		return p, err
	})
}

// keys are those of the entries of a scope, in order.
func (w *WitnessFile) keys(scope string) []string {
	if w.order[scope] == nil {
		w.order[scope] = sorted(w.entries[scope])
	}
	return w.order[scope]
}

// Append has a change on disk before it returns nil. Entries that are told at the same
// time share one sync of the disk. A call whose context ends may have been written.
func (w *WitnessFile) Append(ctx context.Context, c Change) (Position, error) {
	a := &waiting{scope: c.Scope, known: c.Known}
	switch {
	case c.Checkpoint != nil && c.Settle == nil && len(c.Acknowledge) == 0:
		return within(ctx, func() (at Position, err error) {
			err = w.locked(func() error {
				if err := w.holds(c.Known); err != nil {
					return err
				}
				err := w.see(&c)
				at = w.position()
				return err
			})
			return at, err
		})
	case c.Accept || c.After != "" || len(c.Grown) > 0 || c.Checkpoint != nil, c.Settle == nil == (len(c.Acknowledge) == 0):
		return Position{}, fmt.Errorf("%w: a change is either entries, a settlement or a checkpoint", memory.ErrInvalid)
	case c.Settle != nil && c.Settle.Lost.Key != c.Settle.Again.Key:
		return Position{}, fmt.Errorf("%w: an entry cannot make good for one of another log", memory.ErrInvalid)
	case c.Settle != nil:
		a.entries, a.settles = []Acknowledged{c.Settle.Again}, &c.Settle.Lost.Leaf
	default:
		a.entries = c.Acknowledge
	}
	err := w.write(ctx, a)
	if err != nil {
		return Position{}, err
	}
	return a.at, nil
}

// see takes a checkpoint. The caller holds io and the lock.
func (w *WitnessFile) see(c *Change) error {
	have := w.newest[c.Scope]
	scope, err := c.Checkpoint.valid()
	switch {
	case err != nil || scope != c.Scope:
		return fmt.Errorf("%w: a checkpoint of another scope, or whose tree does not have its root", memory.ErrInvalid)
	case have.digest() == c.Checkpoint.digest():
		return nil
	case !c.Accept && have.digest() != c.After:
		return fmt.Errorf("%w: another checkpoint was seen meanwhile", memory.ErrConflict)
	case !c.Accept && have != nil:
		if err := have.grew(c.Checkpoint, c.Grown); err != nil {
			return err
		}
	}
	return w.append(&line{Checkpoint: c.Checkpoint})
}

// waiting is an acknowledgement that is not written yet.
type waiting struct {
	scope   string
	known   Position
	entries []Acknowledged
	settles *memory.Leaf // what the entry takes the place of
	done    chan struct{}
	at      Position
	err     error
}

// write has an acknowledgement written, with those of other calls that came since the
// last one began to write.
func (w *WitnessFile) write(ctx context.Context, a *waiting) error {
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
func (w *WitnessFile) group() {
	w.io.Lock()
	defer w.io.Unlock()
	w.mu.Lock()
	group := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	var at Position
	err := w.exclusively(func() error {
		var all []kept
		pending := map[string]*Acknowledged{}
		for _, a := range group {
			if a.err = w.holds(a.known); a.err == nil {
				a.err = w.admit(a, pending)
			}
			if a.err != nil {
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
		at = w.position()
		return nil
	})
	for _, a := range group {
		a.at = at
		if a.err == nil {
			a.err = err
		}
		close(a.done)
	}
}

// admit says whether entries may be acknowledged, and notes in pending those that
// are newer than what is known.
func (w *WitnessFile) admit(a *waiting, pending map[string]*Acknowledged) error {
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
