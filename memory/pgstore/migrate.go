package pgstore

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

//go:embed migrations/*.sql
var files embed.FS

// Migration is one step of the schema. Steps only ever go forward.
type Migration struct {
	Version int    // 1, 2, 3, …
	Name    string // "store"
	SHA256  string // of Text, in hex
	Text    string // with {{schema}} where the name of the schema goes, and {{form}} for [memory.Form]
}

// MigrationStatus is a migration and when it was applied.
type MigrationStatus struct {
	Migration
	Applied time.Time // zero: not yet
}

// Migrations returns every migration of this program, in order.
func Migrations() []Migration {
	names, err := fs.Glob(files, "migrations/*.sql") // sorted
	if err != nil {
		panic(err) // the pattern is constant
	}
	var list []Migration
	for _, path := range names {
		text, err := files.ReadFile(path)
		if err != nil {
			panic(err) // it is embedded
		}
		number, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(path, "migrations/"), ".sql"), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != len(list)+1 {
			panic("pgstore: the migrations are not numbered 001, 002, …: " + path)
		}
		list = append(list, Migration{Version: version, Name: name, SHA256: fmt.Sprintf("%x", sha256.Sum256(text)), Text: string(text)})
	}
	return list
}

// bootstrap makes the table that records migrations.
func bootstrap(schema string) string {
	return `CREATE SCHEMA IF NOT EXISTS ` + quote(schema) + `;
CREATE TABLE IF NOT EXISTS ` + quote(schema) + `.hearsay_migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
`
}

// statements are the text of one step, without its transaction.
func (m Migration) statements(schema string) string {
	return fmt.Sprintf("%sINSERT INTO %s.hearsay_migration (version, name, sha256) VALUES (%d, '%s', '%s');\n",
		strings.NewReplacer("{{schema}}", quote(schema), "{{form}}", strconv.Itoa(memory.Form)).Replace(m.Text), quote(schema), m.Version, m.Name, m.SHA256)
}

// grants are the text that gives a role what [Open] and the driver need.
func grants(schema, role string) string {
	s, r := quote(schema), quote(role)
	return `GRANT USAGE ON SCHEMA ` + s + ` TO ` + r + `;
GRANT SELECT ON ` + s + `.hearsay_migration, ` + s + `.hearsay_form TO ` + r + `;
GRANT SELECT, INSERT ON ` + s + `.tenant TO ` + r + `;
GRANT SELECT, INSERT, UPDATE, DELETE ON ` + s + `.object, ` + s + `.log, ` + s + `.term TO ` + r + `;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ` + s + ` TO ` + r + `;
`
}

// SQL returns what [Migrate] runs on a schema that is at a version (0 = a database
// without one), as a script for psql. Each migration is a transaction. A version that
// this program does not know gives [memory.ErrSchema].
func SQL(version int, o *Options) (string, error) {
	options, err := o.complete()
	if newest := len(Migrations()); err == nil && (version < 0 || version > newest) {
		err = fmt.Errorf("%w: version %d, this program knows 0 to %d", memory.ErrSchema, version, newest)
	}
	if err != nil {
		return "", edge("migrations", err)
	}
	var b strings.Builder
	b.WriteString("\\set ON_ERROR_STOP on\n")
	if version == 0 {
		b.WriteString("BEGIN;\n" + bootstrap(options.Schema) + "COMMIT;\n")
	}
	for _, m := range Migrations() {
		if m.Version > version {
			b.WriteString("BEGIN;\n" + m.statements(options.Schema) + "COMMIT;\n")
		}
	}
	if options.Role != "" {
		b.WriteString(grants(options.Schema, options.Role))
	}
	return b.String(), nil
}

// Migrate brings the schema to the newest version, as the role of the URL, which
// owns the tables from then on, and returns the migrations that it ran. It makes
// the schema if it is not there. Two that run at once do so one after the other.
// With Options.Role it grants that role what an application needs, each time anew.
func Migrate(ctx context.Context, url string, o *Options) ([]Migration, error) {
	var ran []Migration
	err := migrating(ctx, url, o, func(c *pgx.Conn, options Options) error {
		// The lock is that of the session, which ends with this call.
		if _, err := c.Exec(ctx, `SELECT pg_advisory_lock($1)`, (&Driver{schema: options.Schema}).lock("", "migrate")); err != nil {
			return err
		}
		applied, err := history(ctx, c, options.Schema)
		if err != nil {
			return err
		}
		if err := compare(applied, false); err != nil {
			return err
		}
		if err := run(ctx, c, bootstrap(options.Schema)); err != nil {
			return err
		}
		for _, m := range Migrations()[len(applied):] {
			if err := run(ctx, c, m.statements(options.Schema)); err != nil {
				return err
			}
			ran = append(ran, m)
		}
		if options.Role == "" {
			return nil
		}
		return run(ctx, c, grants(options.Schema, options.Role))
	})
	return ran, edge("migrate", err)
}

// run runs statements in a transaction.
func run(ctx context.Context, c *pgx.Conn, text string) error {
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll()
		return err
	})
}

// Status lists every migration of this program and when it was applied. It gives
// the errors of [Open], but none for a schema that is behind or not there.
func Status(ctx context.Context, url string, o *Options) ([]MigrationStatus, error) {
	var list []MigrationStatus
	err := migrating(ctx, url, o, func(c *pgx.Conn, options Options) error {
		applied, err := history(ctx, c, options.Schema)
		if err != nil {
			return err
		}
		if err := compare(applied, false); err != nil {
			return err
		}
		for i, m := range Migrations() {
			s := MigrationStatus{Migration: m}
			if i < len(applied) {
				s.Applied = applied[i].Applied
			}
			list = append(list, s)
		}
		return nil
	})
	return list, edge("status", err)
}

func migrating(ctx context.Context, url string, o *Options, work func(c *pgx.Conn, options Options) error) error {
	options, config, err := o.at(url)
	if err != nil {
		return err
	}
	c, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return given(ctx, err)
	}
	defer end(c)
	return given(ctx, work(c, options))
}

// verify asks whether a schema is what this program works with.
func verify(ctx context.Context, c *pgx.Conn, schema string) error {
	applied, err := history(ctx, c, schema)
	if err != nil {
		return err
	}
	return compare(applied, true)
}

// history reads which migrations a schema has. A schema with tables but without a
// record of ours belongs to somebody else. One of another form gives a [*memory.FormError].
func history(ctx context.Context, c *pgx.Conn, schema string) ([]MigrationStatus, error) {
	var tables, columns, forms int
	err := c.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace WHERE n.nspname = $1),
		(SELECT count(*) FROM pg_attribute a JOIN pg_class k ON k.oid = a.attrelid JOIN pg_namespace n ON n.oid = k.relnamespace
			WHERE n.nspname = $1 AND k.relname = 'hearsay_migration' AND a.attname IN ('version', 'name', 'sha256', 'applied_at')),
		(SELECT count(*) FROM pg_class k JOIN pg_namespace n ON n.oid = k.relnamespace WHERE n.nspname = $1 AND k.relname = 'hearsay_form')`, schema).
		Scan(&tables, &columns, &forms)
	switch {
	case err != nil:
		return nil, err
	case tables == 0:
		return nil, nil
	case columns != 4:
		return nil, fmt.Errorf("%w: the schema %q holds tables of another program", memory.ErrForeign, schema)
	}
	rows, err := c.Query(ctx, `SELECT version, name, sha256, applied_at FROM `+quote(schema)+`.hearsay_migration ORDER BY version`)
	if err != nil {
		return nil, err
	}
	applied, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s MigrationStatus, err error) {
		err = row.Scan(&s.Version, &s.Name, &s.SHA256, &s.Applied)
		return s, err
	})
	if err != nil || len(applied) == 0 { // nothing is made yet
		return applied, err
	}
	form := 0
	if forms > 0 {
		err = c.QueryRow(ctx, `SELECT coalesce(max(form), 0) FROM `+quote(schema)+`.hearsay_form`).Scan(&form)
	}
	if err == nil {
		err = memory.CheckForm(form)
	}
	return applied, err
}

// compare holds what was applied against the migrations of this program.
func compare(applied []MigrationStatus, complete bool) error {
	known := Migrations()
	for i, a := range applied {
		switch {
		case i >= len(known):
			return fmt.Errorf("%w: a newer hearsay wrote it (version %d, this program knows %d)", memory.ErrSchema, applied[len(applied)-1].Version, len(known))
		case a.Version != known[i].Version || a.Name != known[i].Name || a.SHA256 != known[i].SHA256:
			return fmt.Errorf("%w: it was altered, or an unreleased hearsay made it: migration %d has another text here", memory.ErrSchema, a.Version)
		}
	}
	if complete && len(applied) < len(known) {
		return fmt.Errorf("%w: it is behind (version %d of %d): run `hearsay migrate up`", memory.ErrSchema, len(applied), len(known))
	}
	return nil
}
