package transfer

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// ExportOptions of [Export]. The zero value is usable.
type ExportOptions struct {
	// Sign, if set, signs the dump: who trusts its public key keeps the origins.
	Sign ed25519.PrivateKey
	// Progress, if not nil, hears from time to time how far the export is.
	Progress func(Exported)
}

// Exported is what an export wrote.
type Exported struct {
	Rows   int    `json:"rows"`
	Unread int    `json:"unread,omitempty"` // rows of which the dump has the id alone; see [ErrUnread]
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest,omitempty"` // of all of it, once it is done
	Key    string `json:"key,omitempty"`    // that signed it; see KeyID
}

// Export writes every row of a store that is not erased, oldest first, and in any
// case after the rows it was made from. It takes the memory of some hundred rows.
// Rows written meanwhile may or may not be in the dump.
//
// Of a row that nobody can read the dump has the id alone. It is written to its end, and then the
// error is [ErrUnread].
func Export(ctx context.Context, s *memory.Store, w io.Writer, o *ExportOptions) (Exported, error) {
	if o == nil {
		o = &ExportOptions{}
	}
	if o.Sign != nil && len(o.Sign) != ed25519.PrivateKeySize {
		return Exported{}, errors.New("transfer: not an Ed25519 private key")
	}
	x := &exporting{ctx: ctx, s: s, w: bufio.NewWriterSize(w, 1<<20), early: map[memory.ID]bool{}, open: map[memory.ID]bool{}}
	if err := x.run(o); err != nil {
		return x.Exported, err
	}
	if x.Unread > 0 {
		return x.Exported, fmt.Errorf("%w: %d of them", ErrUnread, x.Unread)
	}
	return x.Exported, nil
}

type exporting struct {
	Exported
	ctx  context.Context
	s    *memory.Store
	w    *bufio.Writer
	head sum
	last sum
	// early are rows that are written although their turn has not come: parents
	// that a clock dated after their children. open are the rows that wait for them.
	early, open map[memory.ID]bool
}

func (x *exporting) run(o *ExportOptions) error {
	h, err := encode(header{Schema: Schema, Tenant: x.s.Tenant(), Namespace: x.s.Namespace(), ExportedAt: x.s.Now(), Dump: newDump()})
	if err != nil {
		return err
	}
	line, own := chained(h, nil)
	x.head, x.last = own, own
	if err := x.write(line); err != nil {
		return err
	}
	// Logs of rows are listed by their ids, which is the order of writing.
	const page = 200
	var ids []memory.ID
	flush := func() error {
		err := x.rows(ids)
		if ids = ids[:0]; err == nil && o.Progress != nil {
			o.Progress(x.Exported)
		}
		return err
	}
	for key, err := range x.s.Logs(x.ctx) {
		if err != nil {
			return err
		}
		id, ok := strings.CutPrefix(memory.KeyText(key), "head/")
		if !ok {
			continue
		}
		if ids = append(ids, memory.ID(id)); len(ids) == page {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return x.end(o.Sign)
}

func (x *exporting) write(line []byte) error {
	n, err := x.w.Write(append(line, '\n'))
	x.Bytes += int64(n)
	if err != nil {
		return fmt.Errorf("transfer: cannot write the dump: %w", err)
	}
	return nil
}

// rows writes the rows of ids that are not erased and not written yet.
func (x *exporting) rows(ids []memory.ID) error {
	rows, err := x.read(&ids)
	switch {
	case err == nil:
	case len(ids) == 0: // nothing can be read
		return err
	case !errors.Is(err, memory.ErrErased) && !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrKey):
		return err
	case len(ids) > 1: // which?
		for _, id := range ids {
			if err := x.rows([]memory.ID{id}); err != nil {
				return err
			}
		}
		return nil
	case errors.Is(err, memory.ErrErased): // this moment
		return nil
	default:
		return x.unread(ids[0])
	}
	for i := range rows {
		if x.early[rows[i].ID] { // of a child in this page
			delete(x.early, rows[i].ID)
			continue
		}
		if err := x.row(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

// read reads rows, and takes those out of ids that are erased or were written early.
func (x *exporting) read(ids *[]memory.ID) ([]memory.Row, error) {
	heads, err := x.s.Heads(x.ctx, *ids...)
	if err != nil {
		return nil, err
	}
	want, missing := make([]memory.ID, 0, len(heads)), memory.ID("")
	for i := range heads {
		h := &heads[i]
		switch {
		case x.early[h.ID]:
			delete(x.early, h.ID)
		case h.Revision == 0: // it has a log, or something was made from it
			missing, want = h.ID, append(want, h.ID)
		case !h.Has(memory.FlagErased):
			want = append(want, h.ID)
		}
	}
	if *ids = want; missing != "" {
		return nil, fmt.Errorf("%w: row %s has no head", memory.ErrDamaged, missing)
	}
	return x.s.Get(x.ctx, want...)
}

// unread writes the line of a row that nobody can read. What all rows share can be read.
func (x *exporting) unread(id memory.ID) error {
	if _, err := x.s.Get(x.ctx); err != nil {
		return err
	}
	if x.early[id] {
		delete(x.early, id)
		return nil
	}
	heads, err := x.s.Heads(x.ctx, id)
	if err != nil && !errors.Is(err, memory.ErrDamaged) {
		return err
	}
	held := err != nil || heads[0].Revision == 0 || heads[0].Security != memory.SecurityClean || heads[0].Has(memory.FlagTainted)
	b, err := encode(lostRow{ID: id, Unread: true, Held: held})
	if err != nil {
		return err
	}
	line, own := chained(b, &x.last)
	x.last = own
	x.Unread++
	return x.write(line)
}

func (x *exporting) row(r *memory.Row) error {
	for _, p := range r.DerivedFrom {
		switch {
		case p <= r.ID || x.early[p]:
			continue
		case x.open[p]:
			return fmt.Errorf("%w: row %s is an ancestor of its own", memory.ErrTampered, p)
		}
		x.open[r.ID] = true
		if err := x.rows([]memory.ID{p}); err != nil {
			return err
		}
		x.early[p] = true
	}
	delete(x.open, r.ID)
	w := wire(r)
	b, err := encode(w)
	if err == nil && len(b)+2*member > MaxLine {
		w.Was.Evidence = nil
		b, err = encode(w)
	}
	if err != nil {
		return err
	}
	line, own := chained(b, &x.last)
	x.last = own
	x.Rows++
	return x.write(line)
}

func (x *exporting) end(key ed25519.PrivateKey) error {
	d := digest(x.head, x.last, x.Rows+x.Unread)
	t := trailer{End: end{Rows: x.Rows + x.Unread, Digest: d.String()}}
	if key != nil {
		t.End.Key = KeyID(key.Public().(ed25519.PublicKey))
		t.End.Signature = ed25519.Sign(key, signed(d))
	}
	b, err := encode(t)
	if err != nil {
		return err
	}
	line, _ := chained(b, &x.last)
	if err := x.write(line); err != nil {
		return err
	}
	if err := x.w.Flush(); err != nil {
		return fmt.Errorf("transfer: cannot write the dump: %w", err)
	}
	x.Digest, x.Key = t.End.Digest, t.End.Key
	return nil
}
