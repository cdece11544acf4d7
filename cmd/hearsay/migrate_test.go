//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// database is a database of its own on a server.
func database(t *testing.T, p *server.PostgresServer, name string) (owner, app string) {
	t.Helper()
	sh(t, `"$PSQL" -qd "$OWNER" -c "CREATE DATABASE $NAME"`, "PSQL="+p.Program("psql"), "OWNER="+p.URL(), "NAME="+name)
	of := func(url string) string { return strings.Replace(url, "/postgres?", "/"+name+"?", 1) }
	return of(p.URL()), of(p.RuntimeURL("app"))
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	p, err := server.Postgres(t.Context(), "fsync=off")
	server.Need(t, err)
	t.Cleanup(func() { p.Stop(context.WithoutCancel(t.Context())) })
	psql := func(t *testing.T, url, statement string) {
		t.Helper()
		sh(t, `"$PSQL" -qd "$URL" -v ON_ERROR_STOP=1 -c "$STATEMENT"`, "PSQL="+p.Program("psql"), "URL="+url, "STATEMENT="+statement)
	}
	psql(t, p.URL(), "CREATE ROLE app LOGIN")
	keys := filepath.Join(t.TempDir(), "keys")
	if _, err := keyring.Create(keys, nil); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.env["HEARSAY_KEYRING"] = keys
	all := pgstore.Migrations()
	status := func(t *testing.T, url string) (found migrationsJSON) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.ok("migrate", "status", "--store", url, "-o", "json")), &found); err != nil || found.Schema != "hearsay.migrations/1" || len(found.Migrations) != len(all) {
			t.Fatalf("%+v %v", found, err)
		}
		return found
	}
	// refused asks every command that opens the store, and the doctor.
	refused := func(t *testing.T, url, say string) {
		t.Helper()
		for _, args := range [][]string{{"row", "list"}, {"audit", "verify"}, {"store", "compact"}} {
			if r := w.run(append(args, "--store", url)...); r.code != exitFailed || !strings.Contains(r.talk, say) {
				t.Errorf("%q: exit %d, want %q\n%s%s", args, r.code, say, r.out, r.talk)
			}
		}
		if seen, r := w.doctor("--store", url); r.code != exitFailed || seen.of("store").Safe || !strings.Contains(seen.of("store").Found, say) {
			t.Errorf("doctor: exit %d, %+v", r.code, seen.of("store"))
		}
	}

	owner, app := database(t, p, "one")
	t.Run("a database without tables is behind, everywhere, and stays as it is", func(t *testing.T) {
		for _, m := range status(t, owner).Migrations {
			if !m.Applied.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if out := w.ok("migrate", "status", "--store", owner); strings.Count(out, " no\n") != len(all) {
			t.Error(out)
		}
		refused(t, app, "hearsay migrate up")
	})
	t.Run("up makes the tables once, and the role gets what it needs", func(t *testing.T) {
		r := w.run("migrate", "up", "--store", owner, "--role", "app")
		if r.code != exitDone || !strings.Contains(r.talk, plural(len(all), "migration")+" applied") || strings.Contains(r.out, " no\n") || !strings.Contains(r.out, all[0].Name) {
			t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
		}
		if r := w.run("migrate", "up", "--store", owner, "--role", "app", "-o", "json"); r.code != exitDone || !strings.Contains(r.out, `"migrations": []`) {
			t.Fatalf("exit %d\n%s%s", r.code, r.out, r.talk)
		}
		for _, m := range status(t, owner).Migrations {
			if m.Applied.IsZero() || m.Name == "" {
				t.Errorf("%+v", m)
			}
		}
		if r := w.run("row", "list", "--store", app); r.code != exitDone {
			t.Errorf("exit %d\n%s", r.code, r.talk)
		}
		if seen, _ := w.doctor("--store", app); !seen.of("row_security").Safe || !seen.of("owner").Safe || seen.of("clock").Check == "" {
			t.Errorf("unsafe: %q", unsafe(seen))
		}
		w.env["HEARSAY_MAINTENANCE_URL"] = owner
		defer delete(w.env, "HEARSAY_MAINTENANCE_URL")
		if r := w.run("migrate", "status"); r.code != exitDone {
			t.Errorf("by the environment: exit %d\n%s", r.code, r.talk)
		}
	})
	t.Run("what sql prints makes the same tables", func(t *testing.T) {
		owner, app := database(t, p, "two")
		sh(t, `printf '%s' "$TEXT" | "$PSQL" -qd "$URL"`, "PSQL="+p.Program("psql"), "URL="+owner, "TEXT="+w.ok("migrate", "sql", "--role", "app"))
		for _, m := range status(t, owner).Migrations {
			if m.Applied.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		if r := w.run("row", "list", "--store", app); r.code != exitDone {
			t.Errorf("exit %d\n%s", r.code, r.talk)
		}
		for _, from := range []string{"-1", fmt.Sprint(len(all) + 1)} {
			if r := w.run("migrate", "sql", "--from", from); r.code != exitFailed || r.out != "" || !strings.Contains(r.talk, "this program knows 0 to "+fmt.Sprint(len(all))) {
				t.Errorf("from %s: exit %d\n%s%s", from, r.code, r.out, r.talk)
			}
		}
		if out := w.ok("migrate", "sql", "--from", fmt.Sprint(len(all))); strings.Contains(out, "CREATE") {
			t.Errorf("nothing is missing:\n%s", out)
		}
	})
	t.Run("tables in a schema of another name are found by a URL that names it", func(t *testing.T) {
		owner, app := database(t, p, "elsewhere")
		w.ok("migrate", "up", "--store", owner, "--role", "app", "--schema", "team")
		in := func(url string) string {
			if strings.Contains(url, "?") {
				return url + "&schema=team"
			}
			return url + "?schema=team"
		}
		if r := w.run("row", "list", "--store", in(app)); r.code != exitDone {
			t.Errorf("exit %d\n%s", r.code, r.talk)
		}
		for _, m := range status(t, in(owner)).Migrations {
			if m.Applied.IsZero() {
				t.Errorf("%+v", m)
			}
		}
		refused(t, app, "hearsay migrate up")
		if r := w.run("migrate", "up", "--store", in(owner), "--schema", "other"); r.code != exitUnreachable || !strings.Contains(r.talk, "names the schema") {
			t.Errorf("two names: exit %d\n%s", r.code, r.talk)
		}
	})
	t.Run("tables of a later release are ahead", func(t *testing.T) {
		owner, app := database(t, p, "ahead")
		w.ok("migrate", "up", "--store", owner, "--role", "app")
		psql(t, owner, "INSERT INTO hearsay.hearsay_migration (version, name, sha256) VALUES (99, 'later', 'x')")
		refused(t, app, "99")
		if r := w.run("migrate", "up", "--store", owner); r.code != exitFailed {
			t.Errorf("up: exit %d\n%s", r.code, r.talk)
		}
	})
	t.Run("a migration that was altered is refused", func(t *testing.T) {
		owner, app := database(t, p, "altered")
		w.ok("migrate", "up", "--store", owner, "--role", "app")
		psql(t, owner, "UPDATE hearsay.hearsay_migration SET sha256 = 'x' WHERE version = 1")
		refused(t, app, "altered")
	})
	t.Run("a schema of another program is foreign", func(t *testing.T) {
		owner, app := database(t, p, "stranger")
		psql(t, owner, "CREATE SCHEMA hearsay; CREATE TABLE hearsay.object (id int); GRANT USAGE ON SCHEMA hearsay TO app; GRANT SELECT ON ALL TABLES IN SCHEMA hearsay TO app")
		refused(t, app, "not a hearsay store")
		if r := w.run("migrate", "up", "--store", owner); r.code != exitFailed {
			t.Errorf("up: exit %d\n%s", r.code, r.talk)
		}
		sh(t, `"$PSQL" -qtd "$URL" -c "SELECT count(*) FROM pg_tables WHERE schemaname = 'hearsay'" | grep -qx ' *1'`, "PSQL="+p.Program("psql"), "URL="+owner)
	})
	for _, c := range []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"no database", []string{"status"}, exitUsage, "migrate: want --store postgres://"},
		{"a SQLite file", []string{"up", "--store", "sqlite:agent.db"}, exitUsage, "needs no migration"},
		{"an argument", []string{"sql", "1"}, exitUsage, "takes no argument"},
		{"an unknown command", []string{"down"}, exitUsage, "no such command"},
		{"a server that is not there", []string{"status", "--store", "postgres://u:s3cr3t@127.0.0.1:1/db?sslmode=disable"}, exitUnreachable, ""},
		{"a role that is not there", []string{"up", "--store", owner, "--role", "nobody"}, exitUnreachable, ""},
		{"a name of a schema that is none", []string{"status", "--store", owner, "--schema", "a;b"}, exitUnreachable, "schema"},
	} {
		t.Run(fmt.Sprintf("%s ends with exit code %d", c.name, c.code), func(t *testing.T) {
			if r := w.run(append([]string{"migrate"}, c.args...)...); r.code != c.code || !strings.Contains(r.talk, c.say) || strings.Contains(r.talk, "s3cr3t") {
				t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
			}
		})
	}
}
