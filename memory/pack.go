package memory

import (
	"bytes"
	"compress/flate"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
)

// A log that has grown long is packed: runs of its entries are compressed into the
// place of the last of each run. Nothing is dropped, so every answer and the chain
// stay as they were (C12-5.7).

const (
	packMark    = 2 // a record begins with recordMark
	packEntries = 64
	// packTail is how many entries at the end of a log are left as they are.
	packTail  = 8
	packBytes = 4 << 20
	maxPack   = 2 * packBytes
)

// pack makes one entry of many.
func pack(run []LogEntry) (LogEntry, error) {
	var b bytes.Buffer
	b.WriteByte(packMark)
	z, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		return LogEntry{}, err
	}
	var head []byte
	for _, l := range run {
		head = binary.AppendUvarint(head[:0], l.Revision)
		head = binary.AppendUvarint(head, uint64(len(l.Data)))
		if _, err := z.Write(head); err != nil {
			return LogEntry{}, err
		}
		if _, err := z.Write(l.Data); err != nil {
			return LogEntry{}, err
		}
	}
	if err := z.Close(); err != nil {
		return LogEntry{}, err
	}
	return LogEntry{Revision: run[len(run)-1].Revision, Data: b.Bytes()}, nil
}

func packed(l LogEntry) bool { return len(l.Data) > 0 && l.Data[0] == packMark }

// expand yields the entries that a stored entry stands for: itself, or those that
// were packed into it.
func expand(l LogEntry) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		if !packed(l) {
			yield(l, nil)
			return
		}
		all, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(l.Data[1:])), maxPack))
		d := decoder{b: all}
		last := uint64(0)
		for err == nil && len(d.b) > 0 {
			one := LogEntry{Revision: d.num()}
			one.Data = d.take(d.num())
			if d.bad || one.Revision <= last || packed(one) {
				break
			}
			last = one.Revision
			if !yield(one, nil) {
				return
			}
		}
		if err != nil || d.bad || len(d.b) > 0 || last != l.Revision {
			yield(LogEntry{}, errWire)
		}
	}
}

// stored reads the log of one key as it is stored, page by page.
func (s *Store) stored(ctx context.Context, key string, after uint64) iter.Seq2[LogEntry, error] {
	const page = 1000
	return func(yield func(LogEntry, error) bool) {
		for {
			log, err := s.driver.History(ctx, s.scope.tenant, key, after, page)
			if err != nil {
				yield(LogEntry{}, err)
				return
			}
			for _, l := range log {
				after = l.Revision
				if !yield(l, nil) {
					return
				}
			}
			if len(log) < page {
				return
			}
		}
	}
}

// entries reads the entries of one key after a revision, packed ones too, and holds each
// against the one before it. What is not what was written there is [ErrDamaged].
func (s *Store) entries(ctx context.Context, key string, after uint64) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		log := Log{Key: key}
		for l, err := range s.unpacked(ctx, key, max(after, 1)-1) {
			switch {
			case err != nil:
			case log.Revision == 0 && after > 0: // the one before the first that is wanted
				var r record
				if _, err = r.decode(l.Data); err == nil && l.Revision != after {
					err = errWire
				}
				if err == nil {
					log.Revision, log.MAC, log.sequence = l.Revision, r.mac, r.sequence
					continue
				}
				err = &TamperError{key, l.Revision, "the entry before it is missing, or does not decode"}
			default:
				err = s.auditor.next(&log, l)
			}
			if errors.Is(err, ErrTampered) {
				err = fmt.Errorf("%w: %w", ErrDamaged, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// unpacked reads the entries of one key after a revision, for who verifies them.
func (s *Store) unpacked(ctx context.Context, key string, after uint64) iter.Seq2[LogEntry, error] {
	return func(yield func(LogEntry, error) bool) {
		for l, err := range s.stored(ctx, key, after) {
			if err != nil {
				yield(LogEntry{}, err)
				return
			}
			for one, err := range expand(l) {
				if err != nil {
					yield(LogEntry{}, fmt.Errorf("%w: packed entry %d of %s", ErrStore, l.Revision, KeyText(key)))
					return
				}
				if one.Revision <= after { // given already, and packed since
					continue
				}
				after = one.Revision
				if !yield(one, nil) {
					return
				}
			}
		}
	}
}

// Compaction is what [Store.Compact] did.
type Compaction struct {
	Logs    int `json:"logs"`    // that were packed
	Entries int `json:"entries"` // that were packed into fewer
	Before  int `json:"before"`  // bytes of those entries
	After   int `json:"after"`   // and of what they were packed into
}

// Compact packs the old entries of long logs, and then has the driver give back
// and overwrite what was deleted. Every answer stays what it was. It may take
// long; interrupted, it is simply run again.
func (s *Store) Compact(ctx context.Context) (Compaction, error) {
	var c Compaction
	if _, err := s.admit(ctx); err != nil {
		return c, err
	}
	for key, err := range s.Logs(ctx) {
		if err != nil {
			return c, err
		}
		if err := s.compactLog(ctx, key, &c); err != nil {
			return c, err
		}
	}
	return c, s.driver.Compact(ctx)
}

func (s *Store) compactLog(ctx context.Context, key string, c *Compaction) error {
	before := c.Entries
	_, err := retry(ctx, func() (struct{}, error) { return struct{}{}, s.packLog(ctx, key, c) })
	if err == nil && c.Entries > before {
		c.Logs++
	}
	return err
}

// packLog packs the runs of one log that are long enough.
func (s *Store) packLog(ctx context.Context, key string, c *Compaction) error {
	var (
		run    []LogEntry
		size   int
		change []Rewritten
	)
	flush := func() error {
		if len(run) < 2 {
			return nil
		}
		p, err := pack(run)
		if err != nil {
			return err
		}
		for _, l := range run {
			change = append(change, Rewritten{LogEntry{Revision: l.Revision}, l.Data})
		}
		change[len(run)-1].Data = p.Data
		// One rewrite a run: a run is all that must change together. If an erasure took a
		// payload out of it meanwhile, it is read again.
		if err := s.driver.Rewrite(ctx, s.scope.tenant, key, change); err != nil {
			return err
		}
		c.Entries, c.Before, c.After = c.Entries+len(run), c.Before+size, c.After+len(p.Data)
		run, size, change = nil, 0, nil
		return nil
	}
	var tail []LogEntry // not packed yet, and not to be if nothing follows
	for l, err := range s.stored(ctx, key, 0) {
		if err != nil {
			return err
		}
		if packed(l) {
			run, size, tail = nil, 0, nil
			continue
		}
		if tail = append(tail, l); len(tail) <= packTail {
			continue
		}
		l, tail = tail[0], tail[1:]
		if size+len(l.Data) > packBytes {
			if err := flush(); err != nil {
				return err
			}
			run, size = nil, 0 // a single entry that large stays as it is
		}
		run, size = append(run, l), size+len(l.Data)
		if len(run) == packEntries {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return nil
}
