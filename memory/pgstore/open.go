package pgstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of [Open], [Migrate], [Status] and [SQL]. Every zero field has a usable
// default.
type Options struct {
	// Schema is the schema that holds the tables; "hearsay" by default. It is a
	// plain name: a-z, 0-9 and _. A URL may name it instead, as its parameter schema;
	// two names that differ are refused.
	Schema string
	// MaxConns is how many connections a driver may have at once; 0 = 16. A call
	// holds one for as long as it runs.
	MaxConns int
	// Strict makes Open refuse a server or role that is not safe, with an
	// [*UnsafeError] that lists what would be lost.
	Strict bool
	// MaintenanceURL is where the owner of the tables connects to, for
	// [Driver.Compact]. Without it Compact runs as the role of the driver, which
	// has no right to unless it owns the tables.
	MaintenanceURL string
	// Role is the role that [Migrate] grants the rights of an application. It must
	// be there. Without it nothing is granted.
	Role string
}

const (
	defaultSchema   = "hearsay"
	defaultMaxConns = 16
)

func (o *Options) complete() (Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	if options.Schema == "" {
		options.Schema = defaultSchema
	}
	if options.MaxConns < 0 {
		return options, fmt.Errorf("%w: MaxConns is %d", memory.ErrStore, options.MaxConns)
	}
	if options.MaxConns == 0 {
		options.MaxConns = defaultMaxConns
	}
	return options, checkSchema(options.Schema)
}

// at completes the options with what a URL says, and reads the URL.
func (o *Options) at(url string) (Options, *pgxpool.Config, error) {
	options, err := o.complete()
	if err != nil {
		return options, nil, err
	}
	config, named, err := parse(url)
	switch {
	case err != nil || named == "":
		return options, config, err
	case o != nil && o.Schema != "" && o.Schema != named:
		return options, nil, fmt.Errorf("%w: the URL names the schema %q, and the options %q", memory.ErrStore, named, o.Schema)
	}
	options.Schema = named
	return options, config, nil
}

// Driver is a [memory.Driver] over a schema of a PostgreSQL database. It is safe
// for concurrent use.
type Driver struct {
	schema      string // a plain name
	pool        connections
	maintenance *pgx.ConnConfig // of the owner, nil if he is not known
	sql         statements
	closed      atomic.Bool

	incarnation atomic.Uint64
	seen        struct {
		sync.Mutex
		server string // what identify saw last
	}
}

var _ memory.Driver = (*Driver)(nil)

// Open connects to the store at a postgres:// URL. Its parameter schema is that of
// [Options]; all others are those of libpq. The tables must be there: [Migrate] makes
// them.
func Open(ctx context.Context, url string, o *Options) (*Driver, error) {
	d, err := open(ctx, url, o)
	if err != nil {
		return nil, edge("open", err)
	}
	return d, nil
}

func open(ctx context.Context, url string, o *Options) (*Driver, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	options, config, err := o.at(url)
	if err != nil {
		return nil, err
	}
	d := &Driver{schema: options.Schema, sql: newStatements(quote(options.Schema))}
	if options.MaintenanceURL != "" {
		owner, named, err := parse(options.MaintenanceURL)
		if err != nil {
			return nil, err
		}
		if named != "" && named != options.Schema {
			return nil, fmt.Errorf("%w: the store is in the schema %q, and the URL of its owner names %q", memory.ErrStore, options.Schema, named)
		}
		d.maintenance = owner.ConnConfig
	}
	if d.pool, err = d.connections(config, options.MaxConns); err != nil {
		return nil, err
	}
	if err := d.check(ctx, options); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Driver) check(ctx context.Context, options Options) error {
	c, err := d.pool.take(ctx)
	if err != nil {
		return err
	}
	err = d.use(ctx, c, func(c *pgx.Conn) error { return verify(ctx, c, d.schema) })
	if err != nil || !options.Strict {
		return err
	}
	i, err := d.Inspect(ctx)
	if err != nil {
		return err
	}
	if unsafe := i.Unsafe(); len(unsafe) > 0 {
		return &UnsafeError{Findings: unsafe}
	}
	return nil
}

// CheckURL asks whether [Open] can read a URL, without dialling: [memory.ErrStore]
// if not. Files that the URL names, such as certificates, are read.
func CheckURL(url string) error {
	_, _, err := parse(url)
	return err
}

// schemaParameter is the one parameter of a URL that is ours.
const schemaParameter = "schema"

// parse reads a URL, and the schema that it names, if any. What is wrong with one is
// not told: it holds a password.
func parse(url string) (pool *pgxpool.Config, schema string, err error) {
	if pool, err = pgxpool.ParseConfig(url); err != nil {
		return nil, "", fmt.Errorf("%w: the URL of the database is not one", memory.ErrStore)
	}
	config := pool.ConnConfig
	schema, named := config.RuntimeParams[schemaParameter]
	if named && checkSchema(schema) != nil {
		return nil, "", fmt.Errorf("%w: the schema that the URL names is no plain name of up to 63 of a-z, 0-9 and _", memory.ErrStore)
	}
	delete(config.RuntimeParams, schemaParameter) // it is none of the server's
	// Every table and index is asked for by name and has an index for what is asked.
	// Plans must not hang on statistics, of which there are none (they would hold
	// copies of what is erased), nor on how large a table was when it was planned.
	for name, value := range map[string]string{
		"application_name": "hearsay", "search_path": "pg_catalog", "jit": "off", "plan_cache_mode": "force_generic_plan",
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off", "enable_material": "off",
		"default_transaction_isolation": "read committed", "bytea_output": "hex", "row_security": "on",
		// A call that was given up is cancelled, and a server that was not yet at it when
		// it heard so takes no notice: it stops because nobody is there for the answer.
		"client_connection_check_interval": "500ms",
	} {
		config.RuntimeParams[name] = value
	}
	config.OnNotice = func(c *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" {
			c.CustomData()[warned] = true
		}
	}
	return pool, schema, nil
}

// identify refuses a standby, and notices that a connection leads to another
// server than the last one did, or to the same after a restart. The time of the
// last reset of a statistic tells a server that recovered from the crash of one of
// its processes, which keeps its start time.
func (d *Driver) identify(ctx context.Context, c *pgx.Conn) error {
	var standby bool
	var server, system string
	err := c.QueryRow(ctx, `SELECT pg_is_in_recovery(), concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
		(SELECT extract(epoch FROM stats_reset) FROM pg_stat_bgwriter),
		CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END)`).Scan(&standby, &server)
	if err != nil {
		return err
	}
	if standby {
		return fmt.Errorf("%w: the server is a standby", memory.ErrStore)
	}
	err = c.QueryRow(ctx, `SELECT system_identifier::text FROM pg_control_system()`).Scan(&system)
	if err != nil && code(err) != "42501" { // the start time tells two servers apart as well
		return err
	}
	server = system + " " + server
	d.seen.Lock()
	defer d.seen.Unlock()
	if d.seen.server != "" && d.seen.server != server {
		d.incarnation.Add(1)
	}
	d.seen.server = server
	return nil
}

// Incarnation grows when a new connection leads to another server than the last
// one did, to another timeline, or to a server that was restarted meanwhile.
func (d *Driver) Incarnation() uint64 { return d.incarnation.Load() }

// Close closes the connections once the calls that are under way are done. Calls
// that wait for a connection and every later call give [memory.ErrClosed].
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		return edge("close", memory.ErrClosed)
	}
	d.pool.drain()
	return nil
}

// enter is the door of every call.
func (d *Driver) enter(ctx context.Context) error {
	if d.closed.Load() {
		return memory.ErrClosed
	}
	return ctx.Err()
}

// with runs work on a connection, again if the server undid it because of what
// ran beside it.
func (d *Driver) with(ctx context.Context, work func(c *pgx.Conn) error) error {
	const attempts = 10
	for n := 1; ; n++ {
		c, err := d.pool.take(ctx)
		if err != nil {
			return given(ctx, err)
		}
		err = d.use(ctx, c, work)
		if n == attempts || !transient(err) || ctx.Err() != nil {
			return given(ctx, err)
		}
	}
}

// warned marks a connection on which the server gave a warning.
const warned = "warned"

// write is with for what must be durable when it succeeds. A commit that waits for
// a synchronous standby and is cancelled, by us or by an administrator, succeeds
// with a warning: it is done on the primary alone, so it is unknown.
func (d *Driver) write(ctx context.Context, work func(c *pgx.Conn) error) error {
	return d.with(ctx, func(c *pgx.Conn) error {
		delete(c.PgConn().CustomData(), warned)
		if err := work(c); err != nil {
			return err
		}
		if ctx.Err() == nil && c.PgConn().CustomData()[warned] != nil {
			return fmt.Errorf("%w: no standby confirmed it", memory.ErrStore)
		}
		return ctx.Err()
	})
}

// use runs work on a connection and gives it back, whatever becomes of work: a
// connection with a statement under way is closed.
func (d *Driver) use(ctx context.Context, c *pgxpool.Conn, work func(c *pgx.Conn) error) (err error) {
	defer func() { d.pool.give(ctx, c, err) }()
	return work(c.Conn())
}

// read is with for what may be asked again on a new connection: one that was idle
// may have been closed by the server.
func (d *Driver) read(ctx context.Context, work func(c *pgx.Conn) error) error {
	err := d.with(ctx, work)
	if gone := code(err) == "" || strings.HasPrefix(code(err), "57P"); err != nil && gone && ctx.Err() == nil && !errors.Is(err, memory.ErrClosed) {
		err = d.with(ctx, work)
	}
	return err
}

// given is an error of ours, or that of ctx if the call was given up, or else one
// of the server.
func given(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, memory.ErrClosed) && !errors.Is(err, memory.ErrStore) {
		return ctx.Err()
	}
	return err
}
