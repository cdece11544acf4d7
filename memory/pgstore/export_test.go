package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Panic panics in the middle of a call, on a connection that was told a tenant.
func (d *Driver) Panic(ctx context.Context, tenant string) error {
	return d.with(ctx, func(c *pgx.Conn) error {
		return d.ask(ctx, c, tenant, d.sql.get, []any{fold(tenant), [][]byte{[]byte("k")}}, func(pgx.Rows) error { panic("in a call") })
	})
}

// Unset counts the objects that a connection of the driver sees when no statement
// tells it a tenant.
func (d *Driver) Unset(ctx context.Context) (n int, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT count(*) FROM `+quote(d.schema)+`.object`).Scan(&n)
	})
	return n, err
}

// PID is the process of a connection at the server.
func (d *Driver) PID(ctx context.Context) (pid uint32, err error) {
	err = d.with(ctx, func(c *pgx.Conn) error {
		pid = c.PgConn().PID()
		return nil
	})
	return pid, err
}
