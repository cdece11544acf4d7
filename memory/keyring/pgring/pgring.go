package pgring

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	defaultSchema = "hearsay_keys"
	// connections is how many a process has at once, and idleFor how long one stays open
	// that nobody uses.
	connections = 8
	idleFor     = time.Minute
)

// Options of [Open] and [Create]. Wrapping is required, all else has a usable default.
type Options struct {
	keyring.Options
	// Machine names this machine to the others that share the ring: it must be another
	// on each, and the same from one start to the next. "" = the name of the host, and the
	// path of the wrapping key's file if it is in one.
	Machine string
	// Role, for [Create], is granted what a program needs. It must be there.
	Role string
}

// Open opens the ring at a postgres:// URL. Its parameter schema names the schema,
// hearsay_keys if it is not given. [keyring.ErrNotFound] if there is none: [Create]
// makes one. A server that cannot be reached, or refuses, gives [memory.ErrStore]. No
// error holds the URL. The caller closes the ring.
func Open(ctx context.Context, url string, o *Options) (*keyring.Ring, error) {
	d, options, err := at(url, o)
	if err != nil {
		return nil, err
	}
	r, err := keyring.OpenOn(ctx, d, &options.Options)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

// Create makes schema and tables as the role of the URL, where there are none, and a ring
// of new keys in them: [keyring.ErrExists] if there is one.
func Create(ctx context.Context, url string, o *Options) (*keyring.Ring, error) {
	d, options, err := at(url, o)
	if err != nil {
		return nil, err
	}
	var r *keyring.Ring
	if err = d.lay(ctx, options.Role); err == nil {
		r, err = keyring.CreateOn(ctx, d, &options.Options)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return r, nil
}

// CheckURL asks whether [Open] can read a URL, without dialling: [memory.ErrStore] if
// not.
func CheckURL(url string) error {
	_, _, err := parse(url)
	return err
}

// database is the backend of a ring.
type database struct {
	config  *pgx.ConnConfig
	schema  string
	machine string

	mu sync.Mutex
	db *sql.DB
}

func parse(url string) (config *pgx.ConnConfig, schema string, err error) {
	config, err = pgx.ParseConfig(url)
	if err != nil {
		return nil, "", fmt.Errorf("pgring: %w: the URL of the keyring's database is not one", memory.ErrStore)
	}
	schema = defaultSchema
	if named, ok := config.RuntimeParams["schema"]; ok {
		schema = named
		delete(config.RuntimeParams, "schema")
	}
	if schema == "" || len(schema) > 63 || strings.Trim(schema, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return nil, "", fmt.Errorf("pgring: %w: the schema that the URL names is no plain name of up to 63 of a-z, 0-9 and _", memory.ErrStore)
	}
	config.RuntimeParams["application_name"] = "hearsay keyring"
	config.RuntimeParams["search_path"] = `"` + schema + `"`
	return config, schema, nil
}

func at(url string, o *Options) (*database, Options, error) {
	var options Options
	if o != nil {
		options = *o
	}
	config, schema, err := parse(url)
	if err != nil {
		return nil, options, err
	}
	d := &database{config: config, schema: schema, machine: options.Machine}
	if d.machine == "" {
		if d.machine, err = os.Hostname(); err != nil || d.machine == "" {
			return nil, options, fmt.Errorf("pgring: the host has no name: give one (Options.Machine)")
		}
		if place, ok := options.Wrapping.(fmt.Stringer); ok {
			d.machine += ":" + place.String()
		}
	}
	return d, options, nil
}

// String names the server, the database and the schema.
func (d *database) String() string {
	return fmt.Sprintf("postgres://%s:%d/%s?schema=%s", d.config.Host, d.config.Port, d.config.Database, d.schema)
}

func (d *database) Holder() string { return d.machine }

// Scrub has nothing to do: what the server keeps of an old record opens with nothing.
func (d *database) Scrub(context.Context) error { return nil }

func (d *database) connected() *sql.DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.db == nil {
		d.db = stdlib.OpenDB(*d.config)
		d.db.SetMaxOpenConns(connections)
		d.db.SetMaxIdleConns(connections)
		d.db.SetConnMaxIdleTime(idleFor)
	}
	return d.db
}

// Close closes the connections.
func (d *database) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.db == nil {
		return nil
	}
	err := d.db.Close()
	d.db = nil
	return err
}

// The lock of a transaction: those that add run beside each other, one that changes
// something else beside none.
var locks = map[keyring.Mode]string{
	keyring.Add:   `LOCK TABLE ring IN ROW SHARE MODE`,
	keyring.Alone: `LOCK TABLE ring IN EXCLUSIVE MODE`,
}

// Do runs work in a transaction.
func (d *database) Do(ctx context.Context, how keyring.Mode, work func(keyring.Tx) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	if how == keyring.Read {
		options = &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	}
	tx, err := d.connected().BeginTx(ctx, options)
	if err != nil {
		return d.edge(ctx, err)
	}
	if lock, ok := locks[how]; ok {
		if _, err := tx.ExecContext(ctx, lock); err != nil {
			_ = tx.Rollback()
			return d.edge(ctx, err)
		}
	}
	if err := work(keyring.Statements(ctx, tx)); err != nil {
		_ = tx.Rollback() // the connection is given up with it, if it fails
		return d.edge(ctx, err)
	}
	if how == keyring.Read {
		_ = tx.Rollback()
		return nil
	}
	return d.edge(ctx, tx.Commit())
}

// lay makes the schema and the tables, where there are none.
func (d *database) lay(ctx context.Context, role string) error {
	tx, err := d.connected().BeginTx(ctx, nil)
	if err != nil {
		return d.edge(ctx, err)
	}
	defer func() { _ = tx.Rollback() }()
	var there bool
	if err := tx.QueryRowContext(ctx, `SELECT to_regclass($1) IS NOT NULL`, d.schema+".ring").Scan(&there); err != nil {
		return d.edge(ctx, err)
	}
	if there {
		return nil
	}
	list := append([]string{`CREATE SCHEMA IF NOT EXISTS ` + d.schema}, keyring.Schema("BYTEA")...)
	if role != "" {
		name := pgx.Identifier{role}.Sanitize()
		list = append(list, `GRANT USAGE ON SCHEMA `+d.schema+` TO `+name, `GRANT SELECT, INSERT, UPDATE, DELETE ON ring, data_key, holder TO `+name)
	}
	for _, text := range list {
		if _, err := tx.ExecContext(ctx, text); err != nil {
			return d.edge(ctx, err)
		}
	}
	return d.edge(ctx, tx.Commit())
}

// faults are words for codes and classes of codes of the server.
var faults = map[string]string{
	"08":    "the connection failed",
	"25006": "the server takes no writes",
	"28":    "the server refused the login",
	"3D000": "there is no database of that name",
	"42501": "the role lacks a right: name it when the ring is made (hearsay keyring create --role)",
	"53100": "the disk is full",
	"53":    "the server is out of memory, locks or connections",
	"57014": "the server cancelled the statement",
	"57P":   "the server is shutting down or starting up",
}

// edge says of an error of the server what it is, and never where its password is. Errors
// of the ring's rules are left as they are.
func (d *database) edge(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("keyring: %s: %w", d, ctx.Err())
	}
	var (
		server  *pgconn.PgError
		connect *pgconn.ConnectError
	)
	switch {
	case errors.As(err, &server):
		c := server.Code
		if c == "42P01" || c == "3F000" {
			return &keyring.FileError{Path: d.String(), Err: keyring.ErrNotFound, Fix: "make one (hearsay keyring create); if there was one, bring it back: without its keys the store says nothing"}
		}
		text := "the server refused the statement"
		for _, n := range []int{2, 3, 5} {
			if words, ok := faults[c[:min(n, len(c))]]; ok {
				text = words
			}
		}
		return &keyring.FileError{Path: d.String(), Err: fmt.Errorf("%w: %s (%s)", memory.ErrStore, text, c)}
	case errors.As(err, &connect):
		return &keyring.FileError{Path: d.String(), Err: fmt.Errorf("%w: the server cannot be reached", memory.ErrStore)}
	case pgconn.SafeToRetry(err), errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone), pgconn.Timeout(err):
		return &keyring.FileError{Path: d.String(), Err: fmt.Errorf("%w: the connection was lost", memory.ErrStore)}
	}
	return err
}

// Findings looks at the server's promise to keep what it acknowledged.
func (d *database) Findings(ctx context.Context) []memory.Finding {
	f := memory.Finding{Name: "keys.folder", Found: d.String(), Safe: true}
	var fsync, commit string
	err := d.connected().QueryRowContext(ctx, `SELECT current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&fsync, &commit)
	switch {
	case err != nil:
		f.Found, f.Safe, f.Loss, f.Fix = d.edge(ctx, err).Error(), false, "unknown", "mend what is said above, and look again"
	case fsync != "on" || commit == "off":
		f.Found += fmt.Sprintf(", fsync %s, synchronous_commit %s", fsync, commit)
		f.Safe = false
		f.Loss = "the data keys of the last new subjects, and with them what was written about them"
		f.Fix = "ALTER SYSTEM SET fsync = on; ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf()"
	default:
		f.Found += ", fsync " + fsync + ", synchronous_commit " + commit
	}
	return []memory.Finding{f}
}
