//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	neturl "net/url"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/jackc/pgx/v5"
)

// connect is a connection as another program would have it.
func connect(t *testing.T, s *server.PostgresServer, role string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.RuntimeURL(role))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	return c
}

func exec1(t *testing.T, c *pgx.Conn, text string) {
	t.Helper()
	if _, err := c.PgConn().Exec(t.Context(), text).ReadAll(); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// address is a server of the tests.
var address = regexp.MustCompile(`127\.0\.0\.1:[0-9]+|/nowhere/\.s\.PGSQL\.[0-9]+`)

// sqlState is a code of the server.
var sqlState = regexp.MustCompile(`\b[0-9X][0-9X][0-9A-Z]{3}\b`)

// clean asks for an error with a sentinel, without text of the server.
func clean(t *testing.T, err, want error, words string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that is %q", err, want)
	}
	text := address.ReplaceAllString(err.Error(), "") // the server, as its operator names it
	for _, w := range []string{"SQL", "ERROR", "relation", "permission denied", "127.0.0.1", "pgx", sqlState.FindString(text)} {
		if w != "" && strings.Contains(text, w) {
			t.Fatalf("error %q has text of the server in it (%q)", err, w)
		}
	}
	if !strings.Contains(err.Error(), words) {
		t.Fatalf("error %q does not say %q", err, words)
	}
}

func refused(t *testing.T, o *pgstore.Options, want error, words string) {
	t.Helper()
	d, err := pgstore.Open(t.Context(), shared.RuntimeURL("app"), o)
	if err == nil {
		d.Close()
	}
	clean(t, err, want, words)
}

func TestOpenNeverMigrates(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	refused(t, o, memory.ErrSchema, "run `hearsay migrate up`")
	status, err := pgstore.Status(t.Context(), shared.RuntimeURL("owner"), o)
	if err != nil || len(status) != len(pgstore.Migrations()) || !status[0].Applied.IsZero() {
		t.Fatalf("the status is %v (%v)", status, err)
	}
	var made bool
	if err := connect(t, shared, "owner").QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_namespace WHERE nspname = $1`, o.Schema).Scan(&made); err != nil || made {
		t.Fatalf("the schema is there: %t (%v)", made, err)
	}
}

func TestMigrateRunsWhatIsMissingAndNothingTwice(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	for n, want := range []int{len(pgstore.Migrations()), 0, 0} {
		ran, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
		if err != nil || len(ran) != want {
			t.Fatalf("run %d: %d migrations, want %d (%v)", n, len(ran), want, err)
		}
	}
	status, err := pgstore.Status(t.Context(), shared.RuntimeURL("owner"), o)
	if err != nil || status[len(status)-1].Applied.IsZero() {
		t.Fatalf("the status is %v (%v)", status, err)
	}
	open(t, shared, o).Close()
}

func TestManyMigrationsAtOnceAreOne(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	var all sync.WaitGroup
	ran := make([]int, 8)
	for i := range ran {
		all.Go(func() {
			list, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
			if err != nil {
				t.Error(err)
			}
			ran[i] = len(list)
		})
	}
	all.Wait()
	sum := 0
	for _, n := range ran {
		sum += n
	}
	if sum != len(pgstore.Migrations()) {
		t.Fatalf("%v migrations ran", ran)
	}
}

func TestAnAlteredOrNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	for words, change := range map[string]string{
		"it was altered":                    `UPDATE hearsay_migration SET sha256 = repeat('0', 64) WHERE version = 1`,
		"migration 7 has another text here": `UPDATE hearsay_migration SET version = version + 6`,
		"a newer hearsay wrote it":          `INSERT INTO hearsay_migration VALUES (1000, 'later', 'x')`,
		"it is behind":                      `DELETE FROM hearsay_migration`,
	} {
		o := fresh(t)
		migrate(t, shared, o)
		exec1(t, connect(t, shared, "owner"), `SET search_path = `+o.Schema+`; `+change)
		refused(t, o, memory.ErrSchema, words)
		if words == "it is behind" {
			continue
		}
		_, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
		clean(t, err, memory.ErrSchema, words)
		_, err = pgstore.Status(t.Context(), shared.RuntimeURL("owner"), o)
		clean(t, err, memory.ErrSchema, words)
	}
}

func TestAStoreOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	storetest.RunForm(t, func(t *testing.T) (func() (memory.Driver, error), func(int)) {
		o := fresh(t)
		migrate(t, shared, o)
		owner := connect(t, shared, "owner")
		open := func() (memory.Driver, error) { return pgstore.Open(t.Context(), shared.RuntimeURL("app"), o) }
		return open, func(form int) {
			exec1(t, owner, `SET search_path = `+o.Schema+`; DROP TABLE IF EXISTS hearsay_form`)
			if form == 0 {
				return
			}
			exec1(t, owner, fmt.Sprintf(`CREATE TABLE hearsay_form (form integer PRIMARY KEY); INSERT INTO hearsay_form VALUES (%d); GRANT SELECT ON hearsay_form TO app`, form))
			if form == memory.Form {
				return
			}
			_, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
			clean(t, err, memory.ErrSchema, "")
			_, err = pgstore.Status(t.Context(), shared.RuntimeURL("owner"), o)
			clean(t, err, memory.ErrSchema, "")
		}
	})
}

func TestASchemaOfAnotherProgramIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	for _, tables := range []string{`CREATE TABLE notes (text text)`, `CREATE TABLE object (id int)`, `CREATE TABLE hearsay_migration (id int)`, `CREATE VIEW v AS SELECT 1`} {
		o := fresh(t)
		c := connect(t, shared, "owner")
		exec1(t, c, `CREATE SCHEMA `+o.Schema+`; SET search_path = `+o.Schema+`; `+tables)
		refused(t, o, memory.ErrForeign, "")
		_, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
		clean(t, err, memory.ErrForeign, "")
		var n int
		if err := c.QueryRow(t.Context(), `SELECT count(*) FROM pg_class WHERE relnamespace = $1::text::regnamespace`, o.Schema).Scan(&n); err != nil || n != 1 {
			t.Fatalf("%d tables are there (%v)", n, err)
		}
	}
}

func TestARoleWithoutRightsIsToldSo(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	migrate(t, shared, o)
	_, err := pgstore.Open(t.Context(), shared.RuntimeURL("other"), o)
	clean(t, err, memory.ErrStore, "the role lacks a right")
	_, err = pgstore.Migrate(t.Context(), shared.RuntimeURL("app"), fresh(t))
	clean(t, err, memory.ErrStore, "the role lacks a right")
}

func TestTheScriptForPsqlMakesTheSameSchema(t *testing.T) {
	t.Parallel()
	psql, err := exec.LookPath("psql")
	server.Need(t, err)
	o := fresh(t)
	script, err := pgstore.SQL(0, o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), psql, "-X", "-q", shared.RuntimeURL("owner"))
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	d := open(t, shared, o)
	defer d.Close()
	if err := d.Apply(t.Context(), "t", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	if ran, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o); err != nil || len(ran) != 0 {
		t.Fatalf("%d migrations ran after the script (%v)", len(ran), err)
	}
}

func TestNamesThatAreNoPlainNamesAreRefused(t *testing.T) {
	t.Parallel()
	server.Need(t, missing)
	for _, name := range []string{`a"b`, "a b", "$$", "a$$; DROP SCHEMA x; --", "A", "pg_catalog", "information_schema", "a\x00", "é", "1a", "{{schema}}", strings.Repeat("a", 64)} {
		o := &pgstore.Options{Schema: name}
		refused(t, o, memory.ErrStore, "want up to 63")
		if _, err := pgstore.SQL(0, o); !errors.Is(err, memory.ErrStore) {
			t.Fatalf("%q: %v", name, err)
		}
		_, err := pgstore.Migrate(t.Context(), shared.RuntimeURL("owner"), o)
		clean(t, err, memory.ErrStore, "")
	}
	// A word of the language is a plain name, and a role may have any.
	owner := connect(t, shared, "postgres")
	role := fmt.Sprintf(`a"; DROP ROLE app; --%d`, rand.Uint32()) // the server is shared, and has what an earlier run made
	exec1(t, owner, `DROP SCHEMA IF EXISTS "select" CASCADE; CREATE ROLE `+pgx.Identifier{role}.Sanitize())
	o := &pgstore.Options{Schema: "select", Role: role}
	migrate(t, shared, o)
	o.Role = "app"
	migrate(t, shared, o)
	d := open(t, shared, o)
	defer d.Close()
	if err := d.Apply(t.Context(), "t", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
}

// named is a URL with one more parameter.
func named(t *testing.T, url, schema string) string {
	t.Helper()
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("schema", schema)
	u.RawQuery = q.Encode()
	return u.String()
}

func TestAURLNamesTheSchema(t *testing.T) {
	t.Parallel()
	o := fresh(t)
	schema := o.Schema
	owner, app := named(t, shared.RuntimeURL("owner"), schema), named(t, shared.RuntimeURL("app"), schema)
	if _, err := pgstore.Migrate(t.Context(), owner, &pgstore.Options{Role: "app"}); err != nil {
		t.Fatal(err)
	}
	list, err := pgstore.Status(t.Context(), owner, &pgstore.Options{Schema: schema})
	if err != nil || list[0].Applied.IsZero() {
		t.Fatalf("%+v, %v", list, err)
	}
	d, err := pgstore.Open(t.Context(), app, &pgstore.Options{MaintenanceURL: owner})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Apply(t.Context(), "t", put("k", 0, "x")); err != nil {
		t.Fatal(err)
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	same := open(t, shared, o) // by its options
	defer same.Close()
	if got, err := same.Get(t.Context(), "t", []string{"k"}); err != nil || got[0].Revision != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, other := range []string{"hearsay", "", "a;b", "pg_catalog", "A"} {
		_, err := pgstore.Open(t.Context(), named(t, shared.RuntimeURL("app"), other), o)
		clean(t, err, memory.ErrStore, "schema")
		_, err = pgstore.Open(t.Context(), app, &pgstore.Options{MaintenanceURL: named(t, shared.RuntimeURL("owner"), other)})
		clean(t, err, memory.ErrStore, "schema")
		_, err = pgstore.Migrate(t.Context(), owner, &pgstore.Options{Schema: other + "x"})
		clean(t, err, memory.ErrStore, "schema")
	}
	for _, bad := range []string{"", "a;b", "A"} {
		if err := pgstore.CheckURL(named(t, app, bad)); !errors.Is(err, memory.ErrStore) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAStoreCanBeMadeAgainWhereverItWasInterrupted(t *testing.T) {
	t.Parallel()
	s := own(t, "fsync=off") // no power is lost here
	url, err := neturl.Parse(s.RuntimeURL("owner"))
	if err != nil {
		t.Fatal(err)
	}
	options := func(name string) *pgstore.Options { return &pgstore.Options{Schema: name, Role: "app"} }
	fault.Makings(t, fault.Making{
		Addr: url.Host,
		Make: func(ctx context.Context, addr, name string) error {
			to := *url
			to.Host = addr
			_, err := pgstore.Migrate(ctx, to.String(), options(name))
			return err
		},
		Open: func(ctx context.Context, name string) (memory.Driver, error) {
			return pgstore.Open(ctx, s.RuntimeURL("app"), options(name))
		},
	})
}
