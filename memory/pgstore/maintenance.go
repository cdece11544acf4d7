package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// Tenants lists the tenants that have an object or a log entry, in memcmp order,
// but never the tenant of no name.
// It reads the list of names, which any role of the store may, and looks each one
// up as itself.
func (d *Driver) Tenants(ctx context.Context, after string, limit int) (tenants []string, next string, err error) {
	tenants, next, err = d.tenants(ctx, after, limit)
	if err != nil {
		return nil, "", edge("tenants", err)
	}
	return tenants, next, nil
}

func (d *Driver) tenants(ctx context.Context, after string, limit int) ([]string, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	var names []string
	err := d.read(ctx, func(c *pgx.Conn) error {
		var err error
		names, err = column(ctx, c, d.sql.tenants, []byte(after), int64(limit)+1)
		return err
	})
	names, next := page(names, limit)
	return names, next, err
}

// page cuts a list that was read with one more than limit.
func page(names []string, limit int) ([]string, string) {
	if len(names) <= limit {
		return names, ""
	}
	return names[:limit:limit], names[limit-1]
}

// column reads a list of names.
func column(ctx context.Context, c *pgx.Conn, statement string, args ...any) ([]string, error) {
	rows, err := c.Query(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) { return string(row.RawValues()[0]), nil })
}

// Logs lists the keys of a tenant that begin with prefix and have a log entry.
func (d *Driver) Logs(ctx context.Context, tenant, prefix, after string, limit int) (keys []string, next string, err error) {
	keys, next, err = d.logs(ctx, tenant, prefix, after, limit)
	if err != nil {
		return nil, "", edge("logs", err)
	}
	return keys, next, nil
}

func (d *Driver) logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	var keys []string
	list := func(c *pgx.Conn, statement string, end []byte) (long bool, err error) {
		keys = nil
		args := []any{fold(tenant), []byte(after), []byte(prefix), end, int64(limit) + 1}
		err = d.ask(ctx, c, tenant, statement, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			keys = append(keys, unfold(v[0], v[1]))
			long = long || v[1] != nil
			return nil
		})
		return long, err
	}
	err := d.read(ctx, func(c *pgx.Conn) error { // long keys as in Query
		long, err := len(after) > maxIndexed || len(prefix) > maxIndexed, error(nil)
		if end := beyond(prefix); !long {
			if end == nil {
				end = bytes.Repeat([]byte{0xff}, maxIndexed+sha256.Size+1) // after every folded key
			}
			long, err = list(c, d.sql.logs, end)
		}
		if long && err == nil {
			_, err = list(c, d.sql.logsLong, beyond(prefix))
		}
		return err
	})
	keys, next := page(keys, limit)
	return keys, next, err
}

// beyond is the first string after all that begin with prefix, nil if there is none.
func beyond(prefix string) []byte {
	b := []byte(prefix)
	for len(b) > 0 && b[len(b)-1] == 0xff {
		b = b[:len(b)-1]
	}
	if len(b) == 0 {
		return nil
	}
	b[len(b)-1]++
	return b
}

// Restore sets objects outright, all or none. A revision beyond an int64 gives
// [memory.ErrInvalidBatch].
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
	if len(objects) == 0 {
		return nil
	}
	n := len(objects)
	key, long, data, kept := make([][]byte, n), make([][]byte, n), make([][]byte, n), make([][]byte, n)
	revision := make([]int64, n)
	var terms carriers
	for i, o := range objects {
		if o.Revision > math.MaxInt64 {
			return fmt.Errorf("%w: revision %d of key %.80q is beyond what the server counts", memory.ErrInvalidBatch, o.Revision, o.Key)
		}
		key[i], long[i], revision[i], data[i] = fold(o.Key), whole(o.Key), int64(o.Revision), o.Data
		kept[i] = terms.add(o.Key, o.Terms)
	}
	return d.write(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, d.sql.restore, fold(tenant), whole(tenant), d.lock(tenant), key, long, revision, data, kept,
			terms.entry, terms.whole)
		return err
	})
}

// Rewrite replaces the data of log entries of one key that are still what they were,
// all or none, and removes those without data.
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
	revision, was, data := make([]int64, len(entries)), make([][]byte, len(entries)), make([][]byte, len(entries))
	for i, e := range entries {
		revision[i], was[i], data[i] = claim(e.Revision), e.Was, e.Data
	}
	var same bool
	err := d.write(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, d.sql.rewrite, fold(tenant), d.lock(tenant, key, "log"), fold(key), revision, was, data).Scan(&same)
	})
	if err == nil && !same {
		return &memory.ConflictError{Key: key}
	}
	return err
}

// compactPause is how long an old snapshot is left to end before the tables are
// written once more.
const compactPause = time.Second

// Compact writes the tables anew without what was deleted or replaced (VACUUM
// FULL) and has the server write a checkpoint, as far as the role may ask for one.
// It needs the owner of the tables: Options.MaintenanceURL, or a driver that runs
// as the owner; otherwise it gives a [*RightError]. Each table is locked while it
// is written, and takes its size again on the disk meanwhile.
//
// Afterwards, what no object, term or entry holds is in no file of the tables,
// their indexes or the statistics of the planner. It is still, as it was written,
//   - in the write-ahead log, until the server reuses or removes its segments, and
//     in whatever archive, standby or backup was made from it,
//   - in backups and dumps,
//   - in the server's log, if it is set to log statements with their parameters,
//   - on free blocks of the disk, for who reads the disk itself.
//
// So an erasure rests on the key of the data being destroyed, and Compact is what
// comes after it. A transaction or replication slot that is older than the call
// keeps what was removed since visible; Compact waits for it as long as ctx lets
// it, and then gives [memory.ErrStore].
func (d *Driver) Compact(ctx context.Context) error { return edge("compact", d.compact(ctx)) }

func (d *Driver) compact(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	if d.maintenance == nil {
		return d.with(ctx, func(c *pgx.Conn) error { return d.compactOn(ctx, c) })
	}
	c, err := pgx.ConnectConfig(ctx, d.maintenance)
	if err != nil {
		return given(ctx, err)
	}
	defer end(c)
	return given(ctx, d.compactOn(ctx, c))
}

func (d *Driver) compactOn(ctx context.Context, c *pgx.Conn) error {
	// VACUUM of a table of somebody else is no error, but nothing.
	var mayVacuum bool
	err := c.QueryRow(ctx, `SELECT count(*) = 4 FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
		AND relname IN ('tenant', 'object', 'log', 'term') AND pg_has_role(relowner, 'USAGE')`, quote(d.schema)).Scan(&mayVacuum)
	if err != nil {
		return err
	}
	if !mayVacuum {
		return &RightError{Need: "only the owner of the tables may compact them (set MaintenanceURL)"}
	}
	names, err := column(ctx, c, d.sql.registered)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := c.Exec(ctx, d.sql.forget, fold(name), d.lock(name)); err != nil {
			return err
		}
	}
	// Row versions that were removed by an older transaction than this one are to
	// go. A table that was written anew says from which transaction on it may hold
	// any: VACUUM keeps those that an older snapshot still sees.
	var mark string
	if err := c.QueryRow(ctx, `SELECT pg_current_xact_id()::text`).Scan(&mark); err != nil {
		return err
	}
	for clean := false; ; {
		if _, err := c.Exec(ctx, d.sql.vacuum); err != nil {
			return err
		}
		err := c.QueryRow(ctx, `SELECT bool_and(age(relfrozenxid) <= age($2::text::xid8::xid)) FROM pg_class
			WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND relname IN ('tenant', 'object', 'log', 'term')`, quote(d.schema), mark).Scan(&clean)
		if err != nil {
			return err
		}
		if clean {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: an old transaction or replication slot still sees what was removed: %w", memory.ErrStore, ctx.Err())
		case <-time.After(compactPause):
		}
	}
	for _, statement := range []string{`CHECKPOINT`, `SELECT pg_switch_wal()`} {
		if _, err := c.Exec(ctx, statement); err != nil && code(err) != "42501" {
			return errors.Join(err, ctx.Err())
		}
	}
	return nil
}
