package sqlitestore

import (
	"context"
	"database/sql/driver"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/hearsay-go/hearsay/memory"
)

// enter is the door of every call.
func (d *Driver) enter(ctx context.Context) error {
	if d.closed.Load() {
		return memory.ErrClosed
	}
	return ctx.Err()
}

// write runs work in a transaction, on a file whose schema is what this program made.
func (d *Driver) write(ctx context.Context, work func(c *conn) error) error {
	return d.change(ctx, func(c *conn) error {
		if err := c.sameSchema(ctx); err != nil {
			return err
		}
		return work(c)
	})
}

func (d *Driver) change(ctx context.Context, work func(c *conn) error) error {
	c, err := d.writer.take(ctx)
	if err != nil {
		return err
	}
	lost, err := c.transaction(ctx, stBeginWrite, func() error { return work(c) })
	d.writer.give(c, lost)
	return err
}

// read runs work on a reader. What work reads in one statement is one snapshot;
// several statements ask for a transaction. Work may run again, from its start.
func (d *Driver) read(ctx context.Context, transaction bool, work func(c *conn) error) error {
	c, err := d.readers.take(ctx)
	if err != nil {
		return err
	}
	lost := false
	err = patiently(ctx, c.done, func() error {
		if !transaction {
			return work(c)
		}
		var err error
		lost, err = c.transaction(ctx, stBeginRead, func() error { return work(c) })
		return err
	})
	d.readers.give(c, lost)
	return err
}

// Apply writes a batch, all of it or nothing. After an error that wraps
// [memory.ErrConflict], [memory.ErrTooLarge], [memory.ErrInvalidBatch],
// [memory.ErrClosed] or the error of ctx, nothing was written; after
// [memory.ErrStore] the batch may have been.
func (d *Driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return edge("apply", d.apply(ctx, tenant, b))
}

func (d *Driver) apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	if len(b.Checks)+len(b.Puts) == 0 {
		return nil
	}
	return d.writeIn(ctx, tenant, len(b.Puts) > 0, func(c *conn, tenant int64) error {
		if err := c.check(ctx, tenant, b.Checks); err != nil {
			return err
		}
		for i := range b.Puts {
			if i%64 == 63 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.put(tenant, &b.Puts[i]); err != nil {
				return err
			}
		}
		return c.writeCarriers(ctx, tenant)
	})
}

func (c *conn) check(ctx context.Context, tenant int64, checks []memory.Check) error {
	if len(checks) == 0 {
		return nil
	}
	objects := make([]memory.Object, len(checks))
	for i := range checks {
		objects[i].Key = checks[i].Key
	}
	if err := c.lookup(ctx, tenant, objects, false); err != nil {
		return err
	}
	for i := range checks {
		if objects[i].Revision != checks[i].Revision {
			return &memory.ConflictError{Key: checks[i].Key}
		}
	}
	return nil
}

// put writes one put. The write is its own check: it changes no row when the
// object is at another revision.
func (c *conn) put(tenant int64, p *memory.Put) error {
	var (
		changed int64
		err     error
	)
	if p.From == 0 {
		terms := distinct(p.Add)
		c.carry(p.Key, terms)
		c.bind()
		c.arg(tenant)
		c.blob(p.Key)
		c.arg(p.Data)
		c.arg(encodeTerms(terms))
		changed, err = c.exec(stCreate)
	} else {
		var terms []memory.Term
		move := stMove
		if p.Clear || len(p.Add)+len(p.Remove) > 0 {
			move = stMoveTerms
			if terms, err = c.recarry(tenant, p); err != nil {
				return err
			}
		}
		c.bind()
		c.arg(int64(p.From + 1))
		c.arg(p.Data)
		if move == stMoveTerms {
			c.arg(encodeTerms(terms))
		}
		c.arg(tenant)
		c.blob(p.Key)
		c.arg(int64(p.From))
		changed, err = c.exec(move)
	}
	if err != nil {
		return err
	}
	if changed == 0 {
		return &memory.ConflictError{Key: p.Key}
	}
	if p.Entry != nil {
		c.bind()
		c.arg(tenant)
		c.blob(p.Key)
		c.arg(int64(p.From + 1))
		c.arg(p.Entry)
		if _, err := c.exec(stAppend); primary(err) == codeConstraint {
			// Restore put the object back behind its log. An entry is never replaced.
			return &memory.ConflictError{Key: p.Key}
		} else if err != nil {
			return err
		}
	}
	return nil
}

// sort adds a sort value: eight bytes, big-endian, so that bytes order as numbers.
func (c *conn) sort(v uint64) {
	from := len(c.arena)
	c.arena = binary.BigEndian.AppendUint64(c.arena, v)
	c.arg(c.arena[from:len(c.arena):len(c.arena)])
}

// Get returns one object per key, in the order of keys, from one snapshot. A
// missing object has revision 0; a tombstone has a revision and nil data.
func (d *Driver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objects, err := d.get(ctx, tenant, keys)
	if err != nil {
		return nil, edge("get", err)
	}
	return objects, nil
}

func (d *Driver) get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	objects := make([]memory.Object, len(keys))
	if len(keys) == 0 {
		return objects, nil
	}
	for i, k := range keys {
		objects[i].Key = k
	}
	err := d.readIn(ctx, tenant, len(keys) > maxLookup, func(c *conn, tenant int64) error { return c.lookup(ctx, tenant, objects, true) })
	return objects, err
}

// Query lists the carriers of a term in ascending (sort, key) order. A cursor
// that did not come from Query gives [memory.ErrInvalidBatch].
func (d *Driver) Query(ctx context.Context, tenant string, q memory.Query) (hits []memory.Hit, next string, err error) {
	hits, next, err = d.query(ctx, tenant, q)
	if err != nil {
		return nil, "", edge("query", err)
	}
	return hits, next, nil
}

func (d *Driver) query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	from, key := q.From, ""
	if q.After != "" {
		sort, after, err := parseCursor(q.After)
		if err != nil {
			return nil, "", err
		}
		if sort >= from {
			from, key = sort, after
		}
	}
	to := q.To
	if to == 0 {
		to = math.MaxUint64
	}
	var hits []memory.Hit
	err := d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		hits = make([]memory.Hit, 0, min(q.Limit, 256))
		s, err := c.statement(stQuery)
		if err != nil {
			return err
		}
		c.bind()
		c.arg(tenant)
		c.blob(q.Term)
		c.sort(from)
		c.blob(key)
		c.sort(to)
		c.arg(int64(q.Limit + 1)) // one more shows whether there is more
		return c.rows(ctx, s, 2, func(row []driver.Value) error {
			hits = append(hits, memory.Hit{Key: string(row[1].([]byte)), Sort: binary.BigEndian.Uint64(row[0].([]byte))})
			return nil
		})
	})
	if err != nil {
		return nil, "", err
	}
	if len(hits) <= q.Limit {
		return hits, "", nil
	}
	hits = hits[:q.Limit]
	return hits, cursor(hits[q.Limit-1]), nil
}

// cursor names the last hit of a page, in characters that survive any transport.
func cursor(h memory.Hit) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, 8+len(h.Key)), h.Sort)
	return base64.RawURLEncoding.EncodeToString(append(b, h.Key...))
}

func parseCursor(s string) (sort uint64, key string, err error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) <= 8 {
		return 0, "", fmt.Errorf("%w: the cursor is not one of this store", memory.ErrInvalidBatch)
	}
	return binary.BigEndian.Uint64(b), string(b[8:]), nil
}

// History returns the log entries of key after a revision, oldest first.
func (d *Driver) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	entries, err := d.history(ctx, tenant, key, after, limit)
	if err != nil {
		return nil, edge("history", err)
	}
	return entries, nil
}

func (d *Driver) history(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	if limit < 1 || limit > memory.MaxQueryLimit {
		return nil, fmt.Errorf("%w: limit %d, want 1 to %d", memory.ErrInvalidBatch, limit, memory.MaxQueryLimit)
	}
	if after > math.MaxInt64 {
		return nil, nil
	}
	var entries []memory.LogEntry
	err := d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		entries = nil
		s, err := c.statement(stHistory)
		if err != nil {
			return err
		}
		c.bind()
		c.arg(tenant)
		c.blob(key)
		c.arg(int64(after))
		c.arg(int64(limit))
		return c.rows(ctx, s, 2, func(row []driver.Value) error {
			entries = append(entries, memory.LogEntry{Revision: uint64(row[0].(int64)), Data: content(row[1])})
			return nil
		})
	})
	return entries, err
}

// Check reads the whole file and verifies it: its structure, that each log entry
// belongs to an object, that no log is ahead of its object, and that the index of
// terms is what the objects carry. It
// takes as long as reading the file does. A damaged file gives an error that
// wraps [memory.ErrStore]. What Restore put back behind its log, or removed from
// beside it, is found here too.
func (d *Driver) Check(ctx context.Context) error {
	return edge("check", d.verify(ctx))
}

func (d *Driver) verify(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	return d.read(ctx, true, func(c *conn) error {
		err := c.once(ctx, "PRAGMA integrity_check(1)", 1, func(row []driver.Value) error {
			if row[0] != "ok" {
				return fmt.Errorf("%w: the file is damaged", memory.ErrStore)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, ask := range []struct{ count, words string }{
			{`SELECT count(*) FROM log LEFT JOIN object USING (tenant, key) WHERE object.revision IS NULL OR log.revision NOT BETWEEN 1 AND object.revision`,
				"log entries belong to no revision of an object"},
			{`SELECT count(*) FROM term LEFT JOIN object USING (tenant, key) WHERE object.revision IS NULL OR length(term.sort) <> 8`,
				"terms belong to no object"},
			{`SELECT count(*) FROM object WHERE revision < 1`, "objects have no revision"},
			{`SELECT (SELECT count(*) FROM object LEFT JOIN tenant ON tenant.id = object.tenant WHERE tenant.id IS NULL)
				+ (SELECT count(*) FROM log LEFT JOIN tenant ON tenant.id = log.tenant WHERE tenant.id IS NULL)`, "objects or entries belong to no tenant"},
		} {
			n, err := c.number(ctx, ask.count)
			if err != nil {
				return err
			}
			if n > 0 {
				return fmt.Errorf("%w: the file is damaged: %d %s", memory.ErrStore, n, ask.words)
			}
		}
		return c.verifyTerms(ctx)
	})
}

// Close closes the file once the calls that are under way are done. Calls that
// still wait for a connection or for another's lock, and every later call, another
// Close among them, give [memory.ErrClosed].
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return edge("close", memory.ErrClosed)
	}
	close(d.done)
	// The writer goes last: it can move the log into the file, readers cannot.
	return edge("close", errors.Join(d.readers.drain(), d.writer.drain()))
}
