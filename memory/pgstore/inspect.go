package pgstore

import (
	"context"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// Inspect says what the server behind the driver is, which settings an
// acknowledged batch rests on, and whether the wall between tenants stands for the
// role of the driver.
func (d *Driver) Inspect(ctx context.Context) (memory.Inspection, error) {
	i, err := d.inspect(ctx)
	if err != nil {
		return memory.Inspection{}, edge("inspect", err)
	}
	return i, nil
}

func (d *Driver) inspect(ctx context.Context) (memory.Inspection, error) {
	if err := d.enter(ctx); err != nil {
		return memory.Inspection{}, err
	}
	var version, fsync, commit, pages, checksums, wal, names, idle string
	var standbys, walls int
	var recovery, super, bypass, owner bool
	var clock time.Time
	err := d.read(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit'),
			current_setting('full_page_writes'), current_setting('data_checksums'), current_setting('wal_level'),
			current_setting('synchronous_standby_names'), current_setting('idle_in_transaction_session_timeout'),
			(SELECT count(*) FROM pg_stat_replication), pg_is_in_recovery(), r.rolsuper, r.rolbypassrls,
			(SELECT bool_or(pg_has_role(relowner, 'USAGE')) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'),
			(SELECT count(*) FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relname IN ('object', 'log', 'term')
				AND relrowsecurity AND relforcerowsecurity), clock_timestamp()
			FROM pg_roles r WHERE r.rolname = current_user`, quote(d.schema)).
			Scan(&version, &fsync, &commit, &pages, &checksums, &wal, &names, &idle, &standbys, &recovery, &super, &bypass, &owner, &walls, &clock)
	})
	if err != nil {
		return memory.Inspection{}, err
	}
	waits := names != "" && commit != "local" && commit != "off" // for a standby
	promise := "An acknowledged batch outlives a crash of the server and a loss of power, not the loss of its disk."
	switch {
	case fsync == "off" || commit == "off" || pages == "off":
		promise = "An acknowledged batch may be lost or damaged by a crash or a loss of power."
	case waits:
		promise = "An acknowledged batch outlives a crash of the server, a loss of power, and a failover to a synchronous standby."
	case standbys > 0:
		promise = "An acknowledged batch outlives a crash of the server and a loss of power; a failover may lose the last ones."
	}
	return memory.Inspection{Server: "PostgreSQL " + strings.Fields(version)[0], Promise: promise, Clock: clock, Findings: []memory.Finding{
		finding("fsync", fsync, fsync != "off", "batches are lost and tables damaged when power is lost", "fsync = on"),
		finding("synchronous_commit", commit, commit != "off" && (names == "" || waits),
			"the last batches are lost when the server crashes or fails over", "synchronous_commit = on, for the role and the database too"),
		finding("full_page_writes", pages, pages != "off", "pages are half written when power is lost", "full_page_writes = on"),
		finding("data_checksums", checksums, checksums != "off", "what the disk changes is not noticed", "pg_checksums --enable, while the server is down"),
		finding("wal_level", wal, true, "", ""),
		finding("synchronous_standby_names", or(names, "none"), names != "" || standbys == 0,
			"the last batches are lost in a failover to one of the standbys", "name the standbys in synchronous_standby_names"),
		finding("pg_is_in_recovery", onOff(recovery), !recovery, "a standby takes no batch", "connect to the primary"),
		finding("row_security", onOff(walls == 3), walls == 3, "a statement that forgets its tenant reaches the rows of all", "run the migrations on a fresh schema"),
		finding("superuser", onOff(super), !super, "the role passes by row-level security", "connect as a plain role"),
		finding("bypassrls", onOff(bypass), !bypass, "the role passes by row-level security", "ALTER ROLE … NOBYPASSRLS"),
		finding("owner", onOff(owner), !owner, "the role may switch row-level security off", "connect as a role that does not own the tables"),
		finding("idle_in_transaction_session_timeout", idle, true, "", ""), // a call is one transaction and one round trip: none is ever idle
	}}, nil
}

func finding(name, found string, safe bool, loss, fix string) memory.Finding {
	f := memory.Finding{Name: name, Found: found, Safe: safe}
	if !safe {
		f.Loss, f.Fix = loss, fix
	}
	return f
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
