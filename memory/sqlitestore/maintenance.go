package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"

	"github.com/hearsay-go/hearsay/memory"
)

// Incarnation is 0 for ever: an open handle is on one file, and a file that was
// renamed or removed is still that file to the handle. A loss of power takes the
// handle with it.
func (d *Driver) Incarnation() uint64 { return 0 }

// Tenants lists the tenants that have an object or a log entry.
func (d *Driver) Tenants(ctx context.Context, after string, limit int) (tenants []string, next string, err error) {
	tenants, next, err = d.names(ctx, "", limit, stTenants, func(c *conn, _ int64) {
		c.blob(after)
	})
	return tenants, next, edge("tenants", err)
}

// Logs lists the keys of a tenant that begin with prefix and have a log entry.
func (d *Driver) Logs(ctx context.Context, tenant, prefix, after string, limit int) (keys []string, next string, err error) {
	keys, next, err = d.names(ctx, tenant, limit, stLogs, func(c *conn, id int64) {
		c.arg(id)
		c.blob(after)
		c.blob(prefix)
		c.arg(id)
		for range 2 {
			c.arg(int64(len(prefix)))
			c.blob(prefix)
		}
	})
	return keys, next, edge("logs", err)
}

// names runs a statement that lists names in order, and takes one page of them.
func (d *Driver) names(ctx context.Context, tenant string, limit, id int, bind func(c *conn, tenant int64)) (names []string, next string, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	err = d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		names = nil
		s, err := c.statement(id)
		if err != nil {
			return err
		}
		c.bind()
		bind(c, tenant)
		c.arg(int64(limit + 1)) // one more shows whether there is more
		return c.rows(ctx, s, 1, func(row []driver.Value) error {
			names = append(names, string(row[0].([]byte)))
			return nil
		})
	})
	if err != nil {
		return nil, "", err
	}
	if len(names) <= limit {
		return names, "", nil
	}
	return names[:limit], names[limit-1], nil
}

// Restore sets objects outright, in one transaction.
func (d *Driver) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	return edge("restore", d.restore(ctx, tenant, objects))
}

func (d *Driver) restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	if err := memory.CheckRestored(objects); err != nil {
		return err
	}
	for i := range objects {
		if objects[i].Revision >= math.MaxInt64 { // the column is signed, and the next put needs one more
			return fmt.Errorf("%w: revision %d of key %q", memory.ErrInvalidBatch, objects[i].Revision, objects[i].Key)
		}
	}
	if len(objects) == 0 {
		return nil
	}
	return d.writeIn(ctx, tenant, true, func(c *conn, tenant int64) error {
		for i := range objects {
			if i%64 == 63 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := c.restore(tenant, &objects[i]); err != nil {
				return err
			}
		}
		return c.writeCarriers(ctx, tenant)
	})
}

func (c *conn) restore(tenant int64, o *memory.Restored) error {
	terms, err := c.carried(tenant, o.Key)
	if errors.Is(err, errTerms) {
		terms, err = nil, c.dropAll(tenant, o.Key)
	}
	if err != nil {
		return err
	}
	for _, t := range terms {
		c.drop(o.Key, t)
	}
	c.bind()
	c.arg(tenant)
	c.blob(o.Key)
	if o.Revision == 0 {
		_, err := c.exec(stForget)
		return err
	}
	terms = distinct(o.Terms)
	c.arg(int64(o.Revision))
	c.arg(o.Data)
	c.arg(encodeTerms(terms))
	if _, err := c.exec(stSet); err != nil {
		return err
	}
	c.carry(o.Key, terms)
	return nil
}

// Rewrite replaces or removes log entries of one key that are still what they were, in
// one transaction.
func (d *Driver) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	return edge("rewrite", d.rewrite(ctx, tenant, key, entries))
}

func (d *Driver) rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	if err := memory.CheckRewrite(key, entries); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	return d.writeIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		for i, e := range entries {
			if i%64 == 63 && ctx.Err() != nil {
				return ctx.Err()
			}
			changed, err := int64(0), error(nil)
			if e.Revision <= math.MaxInt64 {
				changed, err = c.rewrite(tenant, key, e)
			}
			if err != nil {
				return err
			}
			if changed == 0 {
				return &memory.ConflictError{Key: key}
			}
		}
		return nil
	})
}

func (c *conn) rewrite(tenant int64, key string, e memory.Rewritten) (changed int64, err error) {
	c.bind()
	id := stStrike
	if e.Data != nil {
		c.arg(e.Data)
		id = stReplace
	}
	c.arg(tenant)
	c.blob(key)
	c.arg(int64(e.Revision))
	c.arg(e.Was) // NULL is no entry's data
	return c.exec(id)
}

// Compact rewrites the file from what is in it and empties the log of the file,
// so that bytes that were deleted or replaced are in neither. It needs free space
// for two copies of the store for a while, one of them where the system keeps
// temporary files. Writes wait for it; it waits for reads and for the writes of
// other handles, as long as ctx lets it.
//
// It is about the files. What a disk or a file system keeps of blocks that a file
// gave up, and copies that were made of the files, are out of its reach.
func (d *Driver) Compact(ctx context.Context) error {
	return edge("compact", d.compact(ctx))
}

func (d *Driver) compact(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	c, err := d.writer.take(ctx)
	if err != nil {
		return err
	}
	// First with an empty log, so that it is not two copies long in the end.
	err = c.emptyLog(ctx)
	if err == nil {
		err = patiently(ctx, c.done, func() error { return c.once(ctx, "VACUUM", 0, nil) })
	}
	if err == nil {
		err = c.emptyLog(ctx)
	}
	d.writer.give(c, false)
	if ctx.Err() != nil && err != nil {
		return ctx.Err() // an interrupted statement says so in words of its own
	}
	return err
}

var errLogInUse = errors.New("somebody reads from the log")

// emptyLog moves the log of the file into the file and leaves it empty. It waits
// for whoever still reads from it.
func (c *conn) emptyLog(ctx context.Context) error {
	for {
		err := patiently(ctx, c.done, func() error {
			return c.once(ctx, "PRAGMA wal_checkpoint(TRUNCATE)", 3, func(row []driver.Value) error {
				if row[0] != int64(0) {
					return errLogInUse
				}
				return nil
			})
		})
		if err != errLogInUse {
			return err
		}
		if err := pause(ctx, c.done); err != nil {
			return err
		}
	}
}
