//go:build unix

package main

import (
	"context"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// TestWorkerOnServers: rows of a store on a server are checked, and a worker does
// not start on tables that are not this release's.
func TestWorkerOnServers(t *testing.T) {
	t.Parallel()
	r, err := server.Redis(t.Context(), server.RedisOptions{Password: secret})
	server.Need(t, err)
	t.Cleanup(func() { r.Stop() })
	p, err := server.Postgres(t.Context())
	server.Need(t, err)
	t.Cleanup(func() { p.Stop(context.WithoutCancel(t.Context())) })
	psql := func(t *testing.T, statement string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), p.Program("psql"), "-qd", p.URL(), "-v", "ON_ERROR_STOP=1", "-c", statement).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", statement, err, out)
		}
	}
	psql(t, "CREATE ROLE app LOGIN")
	keys := filepath.Join(t.TempDir(), "keys")
	if _, err := keyring.Create(keys, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(t *testing.T, say string, args ...string) {
		t.Helper()
		d := launch(t, nil, append([]string{"-store", p.RuntimeURL("app"), "-keyring", keys}, args...)...)
		if code := d.end(); code != exitFailed || !strings.Contains(d.log(), say) {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	}
	t.Run("tables that are not made are refused", func(t *testing.T) { refused(t, "hearsay migrate up") })
	migrate := func(t *testing.T) {
		t.Helper()
		if _, err := pgstore.Migrate(t.Context(), p.URL(), &pgstore.Options{Role: "app"}); err != nil {
			t.Fatal(err)
		}
	}
	migrate(t)
	t.Run("a server without a keyring by name is refused", func(t *testing.T) {
		d := launch(t, nil, "-store", p.RuntimeURL("app"))
		if code := d.end(); code != exitUsage || !strings.Contains(d.log(), "-keyring is missing") {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	})

	worked := 0
	for _, c := range []struct{ name, url string }{{"Redis", r.URL()}, {"PostgreSQL", p.RuntimeURL("app")}} {
		t.Run("rows in "+c.name+" are checked, and its password is not logged", func(t *testing.T) {
			o := newOffice(t)
			keys := filepath.Join(t.TempDir(), "keys") // a keyring is of one store
			if _, err := keyring.Create(keys, nil); err != nil {
				t.Fatal(err)
			}
			d := start(t, []string{"TMPDIR=" + shortDir(t), "HEARSAY_KEYRING=" + keys, "HEARSAY_STRICT=true"}, "-store", c.url, "-redis", r.URL(),
				"-budget", "0", "-sweep-every", "200ms", "-verifier-http", "crm="+o.URL+",predicate=billing.email")
			s, err := storeurl.Open(t.Context(), c.url, &storeurl.Options{Keyring: keys})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			good, bad := put(t, s, "acme", right), put(t, s, "acme", wrong)
			eventually(t, "a right row is verified", func() bool { row := get(t, s, good); return row.State() == memory.StateVerified })
			eventually(t, "a wrong row is contradicted", func() bool { return get(t, s, bad).Truth == memory.TruthContradicted })
			eventually(t, "it is ready", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })
			if code := d.stop(); code != exitDone || strings.Contains(d.log(), secret) {
				t.Errorf("exit %d\n%s", code, d.log())
			}
			worked++
		})
	}
	if worked != 2 {
		t.Errorf("a worker worked on %d servers", worked)
	}

	t.Run("tables of a later release are refused", func(t *testing.T) {
		psql(t, "INSERT INTO hearsay.hearsay_migration (version, name, sha256) VALUES (99, 'later', 'x')")
		refused(t, "version 99")
	})
	t.Run("a schema of another program is refused", func(t *testing.T) {
		psql(t, "DROP SCHEMA hearsay CASCADE")
		psql(t, "CREATE SCHEMA hearsay")
		psql(t, "CREATE TABLE hearsay.object (id int)")
		psql(t, "GRANT USAGE ON SCHEMA hearsay TO app")
		refused(t, "not a hearsay store")
		psql(t, "DROP SCHEMA hearsay CASCADE")
	})
	for _, c := range []struct{ name, mark, say string }{
		{"a later release", "hearsay redisstore 99", "form 99"}, {"another program", "something", "not a hearsay store"}, {"nobody who says so", "", "not a hearsay store"},
	} {
		t.Run("keys in Redis of "+c.name+" are refused", func(t *testing.T) {
			was, err := r.Do(t.Context(), "GET", "hearsay:store")
			if err != nil || was == "" {
				t.Fatalf("%q %v", was, err)
			}
			change := []string{"SET", "hearsay:store", c.mark}
			if c.mark == "" {
				change = []string{"DEL", "hearsay:store"}
			}
			if _, err := r.Do(t.Context(), change...); err != nil {
				t.Fatal(err)
			}
			d := launch(t, nil, "-store", r.URL(), "-keyring", keys)
			if code := d.end(); code != exitFailed || !strings.Contains(d.log(), c.say) {
				t.Errorf("exit %d\n%s", code, d.log())
			}
			if _, err := r.Do(t.Context(), "SET", "hearsay:store", was); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("strictly, a server that would lose what it acknowledged is refused", func(t *testing.T) {
		migrate(t)
		psql(t, "ALTER ROLE app SET synchronous_commit = off")
		refused(t, "synchronous_commit", "-strict")
		if _, err := r.Do(t.Context(), "CONFIG", "SET", "appendfsync", "no"); err != nil {
			t.Fatal(err)
		}
		d := launch(t, nil, "-store", r.URL(), "-keyring", keys, "-strict")
		if code := d.end(); code != exitFailed || !strings.Contains(d.log(), "appendfsync") {
			t.Errorf("exit %d\n%s", code, d.log())
		}
	})
}

// TestTheConnectionsToTheKeyringEndWithTheStores: a worker that ends, or that refuses to
// start, leaves no connection to the server of its keyring.
func TestTheConnectionsToTheKeyringEndWithTheStores(t *testing.T) {
	t.Parallel()
	p, err := server.Postgres(t.Context())
	server.Need(t, err)
	t.Cleanup(func() { p.Stop(context.WithoutCancel(t.Context())) })
	wrapping, err := keyring.CreateWrappingFile(filepath.Join(t.TempDir(), "wrap"))
	if err != nil {
		t.Fatal(err)
	}
	ring, err := storeurl.CreateKeyring(t.Context(), p.URL(), &keyring.Options{Wrapping: wrapping}, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
	connections := func(t *testing.T) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), p.Program("psql"), "-qAtd", p.URL(), "-c",
			"SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hearsay keyring'").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	none := func(t *testing.T) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the server ends a session a moment later
			n := connections(t)
			if n == "0" {
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("%s connections are left", n)
			}
		}
	}
	none(t)
	c := &config{store: "sqlite:" + filepath.Join(t.TempDir(), "agent.db"), keyring: p.URL(), wrapping: wrapping, shares: []share{{}}}
	stores, d, err := open(t.Context(), c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stores[0].Put(t.Context(), memory.Draft{Content: memory.Content{Text: "a note", Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
		State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, Sensitivity: memory.SensitivityInternal}); err != nil {
		t.Fatal(err)
	}
	if n := connections(t); n == "0" {
		t.Fatal("the stores have no connection to the keyring: nothing is shown")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	none(t)

	other := &storeurl.Options{Keyring: p.URL(), Wrapping: wrapping, Options: memory.Options{Namespace: "no\x00name"}}
	if _, err := storeurl.Open(t.Context(), c.store, other); err == nil {
		t.Fatal("a namespace that is none was taken")
	}
	none(t)
}
