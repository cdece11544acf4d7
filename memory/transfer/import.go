package transfer

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// Options of [Import].
type Options struct {
	// Actor is who imports; required. The audit names it.
	Actor string
	// Trust, if set, asks that the dump is signed with the key that belongs to it, and
	// keeps origins then. The signature is at the end, so that the dump is read twice:
	// the reader has to be an [io.Seeker]. What changed between the two readings is not
	// taken.
	Trust ed25519.PublicKey
	// Legacy reads lines without a header, of any program: a text, or a subject, a
	// predicate and an object, and perhaps source, category, model and created_at. What
	// a line says of its own truth is information, and other members are left out.
	Legacy bool
	// Source names what ids are unique in. "" = the tenant and namespace that the
	// header names, or "legacy".
	Source string
	// Sensitivity is of the rows of a legacy dump; 0 = secret.
	Sensitivity memory.Sensitivity
	// Batch is how many rows are written at once; 0 = 1,000.
	Batch int
	// Progress, if not nil, hears after each batch how far the import is.
	Progress func(Report)
	// Rejected, if not nil, hears of each line that is rejected.
	Rejected func(*LineError)
}

// Report is what an import did, in all its runs on one dump.
type Report struct {
	Source    string `json:"source"`
	Signer    string `json:"signer,omitempty"` // the trusted key that signed the dump; see KeyID
	Lines     int    `json:"lines"`
	Bytes     int64  `json:"bytes"`
	Rows      int    `json:"rows"`      // written
	Collapsed int    `json:"collapsed"` // whose claim was here
	Known     int    `json:"known"`     // that were here themselves
	Rejected  int    `json:"rejected"`
	Breaks    int    `json:"breaks"`   // of the chain: places where lines are missing, changed or in another order
	Complete  bool   `json:"complete"` // it has its trailer, the chain holds, and no row is missing
	Resumed   int    `json:"resumed"`  // the line after which this run went on; 0 = it began at the first
}

// Import writes the rows of a dump into a store. A line that cannot be taken is
// rejected alone. An error ends it: what was acknowledged stays, the report says how far
// that is, and the same call goes on from there. It takes the memory of one batch, and of a signed dump that of a
// hash for each hundred lines.
func Import(ctx context.Context, s *memory.Store, r io.Reader, o Options) (Report, error) {
	i := &importing{ctx: ctx, s: s, o: o, lost: map[string]bool{}}
	if o.Batch <= 0 {
		i.o.Batch = 1000
	}
	if o.Sensitivity == 0 {
		i.o.Sensitivity = memory.SensitivitySecret
	}
	i.seek, _ = r.(io.Seeker)
	if i.seek != nil {
		if at, err := i.seek.Seek(0, io.SeekCurrent); err == nil {
			i.start = at
		} else {
			i.seek = nil // a pipe
		}
	}
	i.r = r
	if err := i.run(); err != nil {
		i.kept.Source, i.kept.Signer = i.Source, i.Signer
		return i.kept, err
	}
	return i.Report, nil
}

// importing is one import.
type importing struct {
	Report
	kept  Report // as of the last batch that was acknowledged
	ctx   context.Context
	s     *memory.Store
	o     Options
	r     io.Reader
	seek  io.Seeker // nil if r cannot go back
	start int64
	in    *bufio.Reader
	read  hash.Hash // of all bytes before the next line
	to    *memory.Importing

	head  sum
	last  sum // of the chain
	count int // lines of rows
	ended bool

	// Where the chain of a dump was whose signature was verified; nil if none was.
	signed map[sum]bool
	paced  pace

	batch   []memory.Imported
	numbers []int // of their lines
	size    int
	since   int // lines since the last batch

	// Rows that were rejected, by id. What is made from one lands with unknown
	// lineage, and under suspicion if it is true: the row was, or is not known not to have been.
	// unsure: there were more, or one whose id cannot be read.
	lost   map[string]bool
	unsure bool
}

// maxLost bounds how many rejected rows are known by id.
const maxLost = 1000

// cursor is what is kept of an import with each batch: all that the next line's fate
// depends on.
type cursor struct {
	Report
	Read   string          `json:"read"` // SHA-256 of the bytes so far
	Last   string          `json:"last"`
	Count  int             `json:"count"`
	Ended  bool            `json:"ended"`
	Lost   map[string]bool `json:"lost"`
	Unsure bool            `json:"unsure"`
}

func (i *importing) rewind() error {
	if i.in != nil {
		if i.seek == nil {
			return ErrChanged
		}
		if _, err := i.seek.Seek(i.start, io.SeekStart); err != nil {
			return fmt.Errorf("transfer: cannot read the dump again: %w", err)
		}
	}
	i.Report = Report{Source: i.Source, Signer: i.Signer}
	i.in, i.read = bufio.NewReaderSize(i.r, 256<<10), sha256.New()
	i.count, i.ended, i.unsure = 0, false, false
	i.paced = pace{}
	clear(i.lost)
	return nil
}

// pace says after which lines of a dump its chain is remembered. Each hash of the chain
// covers all lines before it: where it is what it was as the signature was verified,
// so are they. Rows of a signed dump are written there only.
type pace struct{ lines, bytes int }

const (
	paceLines = 100
	paceBytes = 256 << 10
)

func (p *pace) after(line []byte) bool {
	p.lines, p.bytes = p.lines+1, p.bytes+len(line)
	if p.lines < paceLines && p.bytes < paceBytes {
		return false
	}
	*p = pace{}
	return true
}

var errSwapped = fmt.Errorf("%w: the dump was changed while it was read", ErrSignature)

// line reads the next line, without its end. A line that is too long is read past,
// and comes back as nil.
func (i *importing) line() (line []byte, err error) {
	long := false
	for {
		part, err := i.in.ReadSlice('\n')
		i.read.Write(part)
		i.Bytes += int64(len(part))
		if len(line)+len(part) > MaxLine+1 {
			long, line = true, nil
		}
		if !long {
			line = append(line, part...)
		}
		switch {
		case err == nil:
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (len(line) > 0 || long):
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("transfer: cannot read the dump: %w", err)
		}
		i.Lines++
		if long {
			return nil, nil
		}
		if n := len(line); line[n-1] == '\n' {
			line = line[:n-1]
		}
		return line, nil
	}
}

func (i *importing) run() error {
	if i.o.Trust != nil {
		if err := i.authenticate(); err != nil {
			return err
		}
	}
	if err := i.open(); err != nil {
		return err
	}
	if err := i.resume(); err != nil {
		return err
	}
	for {
		line, err := i.line()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		i.since++
		err = i.take(line)
		if errors.Is(err, ErrSignature) {
			return err
		}
		if err != nil {
			i.reject(i.Lines, err)
		}
		if i.signed != nil {
			if !i.paced.after(line) {
				continue
			}
			if !i.signed[i.last] {
				return errSwapped
			}
		}
		if len(i.batch) >= i.o.Batch || i.size >= 4<<20 || i.since >= 20*i.o.Batch {
			if err := i.flush(); err != nil {
				return err
			}
		}
	}
	if i.signed != nil && !(i.ended && i.signed[i.last]) {
		return errSwapped
	}
	if err := i.flush(); err != nil {
		return err
	}
	i.Complete = i.Complete && i.Breaks == 0 || i.o.Legacy
	return i.to.Finish(i.ctx)
}

// open reads the header, and opens the import in the store.
func (i *importing) open() error {
	if err := i.rewind(); err != nil {
		return err
	}
	if i.o.Legacy {
		return i.openLegacy()
	}
	line, err := i.line()
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrFormat)
	}
	if err != nil {
		return err
	}
	h, err := i.header(line)
	if err != nil {
		return err
	}
	i.Source = i.o.Source
	if i.Source == "" {
		i.Source = h.Tenant + "/" + h.Namespace
	}
	name := i.Source
	if i.Signer != "" {
		name += " " + i.Signer
	}
	i.to, err = i.s.Importing(i.ctx, memory.ImportSource{Name: name, Dump: i.head.String(), Actor: i.o.Actor, Trusted: i.Signer != ""})
	return err
}

func (i *importing) header(line []byte) (header, error) {
	var probe struct {
		Schema string `json:"schema"`
	}
	if json.Unmarshal(line, &probe) != nil || !strings.HasPrefix(probe.Schema, "hearsay.rows/") {
		return header{}, fmt.Errorf("%w: its first line is no header of one", ErrFormat)
	}
	if probe.Schema != Schema {
		return header{}, fmt.Errorf("%w: this program reads %s", ErrVersion, Schema)
	}
	own, ok := verify(line)
	if !ok {
		return header{}, fmt.Errorf("%w: its header was changed", ErrFormat)
	}
	var h header
	if err := strict(line, &h); err != nil {
		return header{}, fmt.Errorf("%w: %w", ErrFormat, rejected(1, err))
	}
	i.head, i.last = own, own
	return h, nil
}

// openLegacy knows a dump without a header by its first line.
func (i *importing) openLegacy() error {
	first, err := i.line()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it is empty", ErrFormat)
	}
	var probe struct {
		Schema string `json:"schema"`
	}
	if json.Unmarshal(first, &probe) == nil && strings.HasPrefix(probe.Schema, "hearsay.") {
		return fmt.Errorf("%w: it has a header, and is no legacy dump", ErrFormat)
	}
	if i.Source = i.o.Source; i.Source == "" {
		i.Source = "legacy"
	}
	i.to, err = i.s.Importing(i.ctx, memory.ImportSource{Name: "legacy " + i.Source, Dump: hashed(first).String(), Actor: i.o.Actor})
	if err != nil {
		return err
	}
	// The first line is a row: it is read again.
	rest := i.in
	i.in = nil
	if first == nil { // it is too long, and a stream has no way back to it: it is rejected either way
		first = []byte("too long")
	}
	if i.seek == nil {
		i.r = io.MultiReader(strings.NewReader(string(first)+"\n"), rest)
	} else if _, err := i.seek.Seek(i.start, io.SeekStart); err != nil {
		return fmt.Errorf("transfer: cannot read the dump again: %w", err)
	}
	return i.rewind()
}

// resume goes to where the last run was acknowledged, if what it read is what is
// read now.
func (i *importing) resume() error {
	kept := i.to.Cursor()
	if kept == nil {
		return nil
	}
	var c cursor
	if err := json.Unmarshal(kept, &c); err != nil {
		return fmt.Errorf("transfer: the cursor of the import does not decode: %w", err)
	}
	n, err := io.CopyN(i.read, i.in, c.Bytes-i.Bytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("transfer: cannot read the dump: %w", err)
	}
	i.Bytes += n
	last, err := hex.DecodeString(c.Last)
	if err != nil || len(last) != len(sum{}) || hex.EncodeToString(i.read.Sum(nil)) != c.Read || i.signed != nil && !i.signed[sum(last)] {
		if err := i.rewind(); err != nil || i.o.Legacy {
			return err
		}
		_, err := i.line() // the header
		i.last = i.head
		return err
	}
	signer, source := i.Signer, i.Source
	i.Report = c.Report
	i.Signer, i.Source, i.Resumed = signer, source, c.Lines
	i.kept = i.Report
	i.last = sum(last)
	i.count, i.ended, i.unsure = c.Count, c.Ended, c.Unsure
	maps.Copy(i.lost, c.Lost)
	return nil
}

// reject counts a line out.
func (i *importing) reject(line int, err error) {
	i.Rejected++
	if i.o.Rejected != nil {
		i.o.Rejected(rejected(line, err))
	}
}

// lose notes that a row is not there: by its id, if it has one. held says that what was made from
// it is under suspicion.
func (i *importing) lose(id string, held bool) {
	_, known := i.lost[id]
	switch {
	case !memory.ID(id).Valid(), len(i.lost) >= maxLost && !known:
		i.unsure = true
	default:
		i.lost[id] = i.lost[id] || held
	}
}

// lack notes what is known of a row whose parents were rejected.
func (i *importing) lack(m *memory.Imported) {
	m.Lacking = i.unsure
	for _, p := range append([]string{m.Quotes}, m.DerivedFrom...) {
		held, lost := i.lost[p]
		if m.Lacking = m.Lacking || lost; held {
			m.Security, m.Flags = max(m.Security, memory.SecuritySuspicious), m.Flags|memory.FlagTainted
		}
	}
}

// take takes one line. An error rejects it.
func (i *importing) take(line []byte) error {
	if i.o.Legacy {
		return i.takeLegacy(line)
	}
	own, ok := verify(line)
	switch {
	case i.signed != nil && (i.ended || !ok || !follows(line, i.last)):
		return errSwapped
	case i.ended:
		return bad(wholeLine, "trailing_data")
	case line == nil:
		i.count++
		i.unsure = true
		return bad(wholeLine, "too_long")
	case !ok:
		i.count++
		i.unsure = true // its id may be what was changed
		return bad("hash", "hash")
	}
	if !follows(line, i.last) {
		i.Breaks++
	}
	prev := i.last
	i.last = own
	if isEnd(line) {
		return i.end(line, prev)
	}
	i.count++
	m, err := parse(line)
	if err != nil {
		i.lose(peek(line))
		return err
	}
	i.add(m, len(line))
	return nil
}

// follows reports whether a line names prev as the hash of the line before it.
func follows(line []byte, prev sum) bool {
	cut := len(line) - 2*member - 1
	return cut > 0 && string(line[cut:cut+member]) == `,"prev":"`+prev.String()+`"`
}

func isEnd(line []byte) bool { return strings.HasPrefix(string(line[:min(8, len(line))]), `{"end":`) }

// peek is the id of a line that was rejected, if one can be read, and whether the line says that
// the row was quarantined or under suspicion.
func peek(line []byte) (id string, held bool) {
	var w struct {
		ID       string `json:"id"`
		Security any    `json:"security"`
		Tainted  any    `json:"tainted"`
		Unread   bool   `json:"unread"`
		Held     bool   `json:"held"`
	}
	if json.Unmarshal(line, &w) != nil {
		return "", true
	}
	if w.Unread {
		return w.ID, w.Held
	}
	return w.ID, w.Security != memory.SecurityClean.String() || w.Tainted != nil && w.Tainted != false
}

func (i *importing) add(m memory.Imported, size int) {
	i.lack(&m)
	for _, one := range split(m) {
		i.batch, i.numbers = append(i.batch, one), append(i.numbers, i.Lines)
	}
	i.size += size
}

// end takes the trailer.
func (i *importing) end(line []byte, last sum) error {
	i.ended = true
	var t trailer
	if err := strict(line, &t); err != nil {
		return err
	}
	if t.End.Digest != digest(i.head, last, t.End.Rows).String() {
		return bad("end.digest", "hash")
	}
	i.Complete = t.End.Rows == i.count
	return nil
}

// flush writes the batch, and with it the cursor.
func (i *importing) flush() error {
	if i.since == 0 {
		return nil
	}
	receipts, err := i.to.Put(i.ctx, i.batch, func(receipts []memory.ImportReceipt) []byte {
		after := *i
		after.lost = maps.Clone(i.lost)
		after.o.Rejected = nil
		after.tally(receipts)
		return after.cursor()
	})
	if err != nil {
		return err
	}
	i.tally(receipts)
	i.kept = i.Report
	i.batch, i.numbers, i.size, i.since = i.batch[:0], i.numbers[:0], 0, 0
	if i.o.Progress != nil {
		i.o.Progress(i.Report)
	}
	return nil
}

// tally counts what became of the batch.
func (i *importing) tally(receipts []memory.ImportReceipt) {
	for j, r := range receipts {
		switch {
		case r.Err != nil:
			i.reject(i.numbers[j], r.Err)
			m := &i.batch[j]
			i.lose(m.Name, m.Security > memory.SecurityClean || m.Flags&memory.FlagTainted != 0)
		case r.Known:
			i.Known++
		case r.Disposition == memory.Created:
			i.Rows++
		default:
			i.Collapsed++
		}
	}
}

func (i *importing) cursor() []byte {
	b, _ := json.Marshal(cursor{ // numbers and strings: it cannot fail
		Report: i.Report, Read: hex.EncodeToString(i.read.Sum(nil)), Last: i.last.String(), Count: i.count, Ended: i.ended,
		Lost: i.lost, Unsure: i.unsure})
	return b
}

// takeLegacy takes a line of another program.
func (i *importing) takeLegacy(line []byte) error {
	if line == nil {
		return bad(wholeLine, "too_long")
	}
	if len(strings.TrimSpace(string(line))) == 0 {
		return nil
	}
	m, err := parseLegacy(line, i.o)
	if err != nil {
		return err
	}
	i.add(m, len(line))
	return nil
}

// authenticate reads the dump once and asks that all of it is under a signature of
// the trusted key.
func (i *importing) authenticate() error {
	if len(i.o.Trust) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: the trusted key is no Ed25519 public key", ErrSignature)
	}
	if i.o.Legacy {
		return fmt.Errorf("%w: a legacy dump has none", ErrSignature)
	}
	if i.seek == nil {
		return fmt.Errorf("%w: a stream cannot be read twice; import a file", ErrSignature)
	}
	if err := i.rewind(); err != nil {
		return err
	}
	line, err := i.line()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if _, err := i.header(line); err != nil {
		return err
	}
	places := map[sum]bool{}
	var paced pace
	for rows := 0; ; rows++ {
		line, err := i.line()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: the trailer is missing", ErrSignature)
		}
		if err != nil {
			return err
		}
		own, ok := verify(line)
		if !ok || !follows(line, i.last) {
			return fmt.Errorf("%w: line %d is not what was signed", ErrSignature, i.Lines)
		}
		if !isEnd(line) {
			if i.last = own; paced.after(line) {
				places[own] = true
			}
			continue
		}
		places[own] = true
		var t trailer
		if err := strict(line, &t); err != nil {
			return fmt.Errorf("%w: %w", ErrSignature, rejected(i.Lines, err))
		}
		d := digest(i.head, i.last, rows)
		switch {
		case t.End.Digest != d.String():
			return fmt.Errorf("%w: the digest is of other lines", ErrSignature)
		case !ed25519.Verify(i.o.Trust, signed(d), t.End.Signature):
			return fmt.Errorf("%w: it is not of the key %s", ErrSignature, KeyID(i.o.Trust))
		}
		if _, err := i.line(); !errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: lines follow the trailer", ErrSignature)
		}
		i.Signer, i.signed = KeyID(i.o.Trust), places
		return nil
	}
}
