package sqlitestore

import (
	"context"
	"database/sql/driver"
	"math"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// scanBytes is how much a page of Scan holds before it ends early.
const scanBytes = 4 << 20

// Scan lists the log entries of all keys of a tenant that begin with prefix, by key
// and revision, in one statement.
func (d *Driver) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	entries, more, err = d.scan(ctx, tenant, prefix, after, limit)
	if err != nil {
		return nil, false, edge("scan", err)
	}
	return entries, more, nil
}

func (d *Driver) scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, false, err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, false, err
	}
	from := after.From(prefix)
	err = d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		entries, more = make([]memory.Logged, 0, min(limit, 256)), false
		s, err := c.statement(stScan)
		if err != nil {
			return err
		}
		c.bind()
		c.arg(tenant)
		c.blob(from.Key)
		c.arg(int64(min(from.Revision, math.MaxInt64)))
		c.arg(int64(limit + 1)) // one more shows whether there is more
		key, size := "", 0
		err = c.rows(ctx, s, 3, func(row []driver.Value) error {
			k := content(row[0])
			if string(k) != key { // entries of one log share their key
				if key = string(k); !strings.HasPrefix(key, prefix) {
					return errEnough
				}
			}
			if len(entries) == limit || size >= scanBytes {
				more = true
				return errEnough
			}
			e := memory.LogEntry{Revision: uint64(row[1].(int64)), Data: content(row[2])}
			entries = append(entries, memory.Logged{Key: key, LogEntry: e})
			size += len(e.Data)
			return nil
		})
		if err == errEnough {
			err = nil
		}
		return err
	})
	return entries, more, err
}
