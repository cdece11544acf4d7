package audit

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/visible"
)

// exportSchema is the form of an export.
const exportSchema = "hearsay.audit.export/1"

// The lines of an export, in this order: a header, the checkpoints, then for each
// log, by key, its entries and its object, and the end. Each is an object of JSON
// with exactly one member.
type exportLine struct {
	Header     *exportHeader     `json:"header,omitempty"`
	Checkpoint *exportCheckpoint `json:"checkpoint,omitempty"`
	Entry      *exportEntry      `json:"entry,omitempty"`
	Object     *exportEntry      `json:"object,omitempty"`
	End        *exportEnd        `json:"end,omitempty"`
}

type exportHeader struct {
	Schema    string    `json:"schema"`
	Tenant    string    `json:"tenant"`
	Namespace string    `json:"namespace"`
	At        time.Time `json:"at"`
}

type exportCheckpoint struct {
	Index  uint64          `json:"index"`
	Size   uint64          `json:"size"`
	Until  memory.Sequence `json:"until"`
	Leaves []exportLeaf    `json:"leaves"`
	State  []byte          `json:"state"`
	Note   string          `json:"note"`
}

type exportLeaf struct {
	Key      []byte `json:"key"`
	Revision uint64 `json:"revision"`
	MAC      []byte `json:"mac"`
}

// exportEntry is a log entry, or the object that a log is the history of, as it is
// stored.
type exportEntry struct {
	Key      []byte `json:"key"` // may be no UTF-8
	Revision uint64 `json:"revision"`
	Data     []byte `json:"data"`
}

type exportEnd struct {
	Checkpoints int    `json:"checkpoints"`
	Logs        int    `json:"logs"`
	Entries     int    `json:"entries"` // lines; a packed entry is one
	Digest      []byte `json:"sha256"`  // of all lines before
}

const (
	// MaxExportLine is the longest line of an export: a checkpoint with all the
	// leaves it can have, or the largest entry a batch can hold.
	MaxExportLine = 32 << 20
)

// ErrExport is the sentinel of [*ExportError].
var ErrExport = errors.New("audit: the export does not hold")

// ExportError names the first line of an export that does not hold. It wraps what
// is wrong with it: a [*memory.TamperError] names the entry.
// errors.Is(err, ErrExport) holds.
type ExportError struct {
	Line int
	Err  error
}

func (e *ExportError) Error() string { return fmt.Sprintf("audit: line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *ExportError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrExport].
func (e *ExportError) Is(target error) bool { return target == ErrExport }

// exporter writes lines and keeps count.
type exporter struct {
	w      *bufio.Writer
	digest hash.Hash
	end    exportEnd
}

func (x *exporter) line(l *exportLine) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	b = append(visible.JSON(b), '\n')
	if len(b) > MaxExportLine {
		return fmt.Errorf("%w: a line of %d bytes", memory.ErrTooLarge, len(b))
	}
	x.digest.Write(b)
	_, err = x.w.Write(b)
	return err
}

// Export writes all logs of the scope of a store, as they are stored, with their
// objects and with the checkpoints, one line of JSON each. What the entries say of
// persons stays sealed: [VerifyExport] needs the audit keys and no data key.
//
// It needs little memory, however large the store is. Others may write, erase and
// compact meanwhile; the store must not be rebuilt meanwhile.
func Export(ctx context.Context, s *memory.Store, w io.Writer) error {
	x := &exporter{w: bufio.NewWriterSize(w, 64<<10), digest: sha256.New()}
	if err := x.line(&exportLine{Header: &exportHeader{Schema: exportSchema, Tenant: s.Tenant(), Namespace: s.Namespace(), At: s.Now()}}); err != nil {
		return err
	}
	// The checkpoints first: what they commit to, the logs that are read later have.
	for c, err := range s.Checkpoints(ctx, 0) {
		if err != nil {
			return err
		}
		out := &exportCheckpoint{Index: c.Index, Size: c.Size, Until: c.Until, State: c.State, Note: string(c.Note), Leaves: make([]exportLeaf, len(c.Leaves))}
		for i := range c.Leaves {
			out.Leaves[i] = exportLeaf{[]byte(c.Leaves[i].Key), c.Leaves[i].Revision, c.Leaves[i].MAC[:]}
		}
		if err := x.line(&exportLine{Checkpoint: out}); err != nil {
			return err
		}
		x.end.Checkpoints++
	}
	err := s.Walk(ctx, memory.Walker{
		Entry: func(key string, l memory.LogEntry) error {
			x.end.Entries++
			return x.line(&exportLine{Entry: &exportEntry{[]byte(key), l.Revision, l.Data}})
		},
		End: func(key string, beside []memory.Object) error {
			x.end.Logs++
			return x.line(&exportLine{Object: &exportEntry{[]byte(key), beside[0].Revision, beside[0].Data}})
		},
	})
	if err != nil {
		return err
	}
	x.end.Digest = x.digest.Sum(nil)
	if err := x.line(&exportLine{End: &x.end}); err != nil {
		return err
	}
	return x.w.Flush()
}

// VerifyExport verifies what [Export] wrote, without the store: the chains, the
// objects, the checkpoints, the witness if there is one, and that nothing was
// added, changed or cut off. keys are those of the store, of which only the audit
// keys and the root are used. The first thing that does not hold is an
// [*ExportError]; [*memory.TamperError], [*CheckpointError] and [*RollbackError] are
// in it as with [Verify]. Whose audit it is, the report says: an export of another
// tenant or namespace of the same keys holds too, so who asks for one compares that.
func VerifyExport(ctx context.Context, r io.Reader, keys memory.Keys, o Options) (Report, error) {
	in := &importer{r: bufio.NewReaderSize(r, 64<<10), digest: sha256.New(), options: o, keys: keys}
	for {
		if err := ctx.Err(); err != nil {
			return in.report(), err
		}
		text, err := readLine(in.r, MaxExportLine)
		in.line++
		switch {
		case err == io.EOF && len(text) == 0 && in.done:
			return in.report(), nil
		case err == io.EOF:
			return in.report(), in.fault(errors.New("the export ends here: its tail is cut"))
		case errors.Is(err, errLineTooLong):
			return in.report(), in.fault(err)
		case err != nil:
			return in.report(), err
		}
		if err := in.take(ctx, text); ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return in.report(), err
		} else if err != nil {
			return in.report(), in.fault(err)
		}
	}
}

// importer verifies an export line by line.
type importer struct {
	r       *bufio.Reader
	digest  hash.Hash
	options Options
	keys    memory.Keys
	line    int
	count   exportEnd
	logs    bool // the checkpoints are behind us
	done    bool

	v       *verification
	auditor *memory.Auditor
	log     *memory.Log // whose object is still to come
	key     string      // of the last log
}

func (in *importer) fault(err error) error { return &ExportError{Line: in.line, Err: err} }

func (in *importer) report() Report {
	if in.v == nil {
		return Report{}
	}
	return in.v.Report
}

// take verifies one line. A line has one form: what the exporter would write.
func (in *importer) take(ctx context.Context, text []byte) error {
	var l exportLine
	if err := json.Unmarshal(text, &l); err != nil {
		return errors.New("it is no line of an export")
	}
	again, err := json.Marshal(&l)
	if err != nil || !bytes.Equal(visible.JSON(again), text) && !bytes.Equal(again, text) { // an earlier release escaped less
		return errors.New("it is no line of an export, or not in its one form")
	}
	switch {
	case in.done:
		err = errors.New("it follows the end")
	case in.v == nil && l.Header != nil:
		err = in.header(ctx, l.Header)
	case in.v == nil:
		err = errors.New("an export begins with its header")
	case l.Checkpoint != nil && !in.logs:
		err = in.checkpoint(l.Checkpoint)
	case l.Entry != nil:
		err = in.entry(l.Entry)
	case l.Object != nil:
		err = in.object(l.Object)
	case l.End != nil:
		err = in.end(l.End)
	default:
		err = errors.New("it is out of place")
	}
	in.digest.Write(text)
	in.digest.Write([]byte{'\n'})
	return err
}

func (in *importer) header(ctx context.Context, h *exportHeader) (err error) {
	if h.Schema != exportSchema {
		return fmt.Errorf("%w: the export has schema %q, this program %q", memory.ErrSchema, h.Schema, exportSchema)
	}
	in.v, err = newVerification(ctx, h.Tenant, h.Namespace, in.options)
	in.auditor = memory.NewAuditor(in.keys, h.Tenant, h.Namespace)
	return err
}

func (in *importer) checkpoint(c *exportCheckpoint) error {
	out := memory.Checkpoint{Index: c.Index, Size: c.Size, Until: c.Until, State: c.State, Note: []byte(c.Note), Leaves: make([]memory.Leaf, len(c.Leaves))}
	for i, l := range c.Leaves {
		out.Leaves[i] = memory.Leaf{Key: string(l.Key), Revision: l.Revision}
		if len(l.MAC) != sha256.Size {
			return errors.New("a MAC has not its length")
		}
		copy(out.Leaves[i].MAC[:], l.MAC)
	}
	in.count.Checkpoints++
	return in.v.checkpoint(&out)
}

// begin ends the checkpoints.
func (in *importer) begin() error {
	if in.logs {
		return nil
	}
	in.logs = true
	return in.v.witnessed()
}

func (in *importer) entry(e *exportEntry) error {
	if err := in.begin(); err != nil {
		return err
	}
	key := string(e.Key)
	if in.log == nil {
		if key <= in.key {
			return &memory.TamperError{Key: key, Revision: e.Revision, Reason: "the log is out of place, or is there twice"}
		}
		in.log, in.key = &memory.Log{Key: key}, key
		in.v.mark(in.log)
	}
	if key != in.log.Key {
		return &memory.TamperError{Key: in.log.Key, Revision: in.log.Revision, Reason: "the object of the log does not follow its last entry"}
	}
	in.count.Entries++
	return in.auditor.Next(in.log, memory.LogEntry{Revision: e.Revision, Data: e.Data})
}

func (in *importer) object(o *exportEntry) error {
	if in.log == nil || in.log.Key != string(o.Key) {
		return &memory.TamperError{Key: string(o.Key), Revision: o.Revision, Reason: "the object does not follow the entries of its log"}
	}
	log := in.log
	in.log = nil
	in.count.Logs++
	if err := in.auditor.End(log, memory.Object{Key: log.Key, Revision: o.Revision, Data: o.Data}); err != nil {
		return err
	}
	if err := in.v.seen(log); err != nil {
		return err
	}
	in.v.sofar(memory.Verification{Logs: in.v.Logs + 1, Entries: in.v.Entries + int(log.Revision)})
	return nil
}

func (in *importer) end(e *exportEnd) error {
	if err := in.begin(); err != nil {
		return err
	}
	if in.log != nil {
		return &memory.TamperError{Key: in.log.Key, Revision: in.log.Revision, Reason: "the object of the log does not follow its last entry"}
	}
	if err := in.v.end(); err != nil {
		return err
	}
	in.count.Digest = in.digest.Sum(nil)
	if e.Checkpoints != in.count.Checkpoints || e.Logs != in.count.Logs || e.Entries != in.count.Entries || !bytes.Equal(e.Digest, in.count.Digest) {
		return errors.New("the lines before it are not those that it counts")
	}
	in.done = true
	return nil
}
