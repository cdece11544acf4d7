package pgstore_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// TestWhyAServerIsNotReachedReadsAsWhatItIs: each text names the server as its operator
// did, and says which of the ways not to get there it was.
func TestWhyAServerIsNotReachedReadsAsWhatItIs(t *testing.T) {
	t.Parallel()
	s, err := server.Postgres(t.Context())
	server.Need(t, err)
	t.Cleanup(func() { s.Stop(context.WithoutCancel(t.Context())) })
	conn := connect(t, s, "postgres")
	exec1(t, conn, `CREATE ROLE locked LOGIN PASSWORD 'secret'; CREATE ROLE outside LOGIN`)
	// Those two have to show a password, or TLS.
	hba := filepath.Join(s.Dir(), "pg_hba.conf")
	if conf, err := os.ReadFile(hba); err != nil {
		t.Fatal(err)
	} else if err := os.WriteFile(hba, append([]byte("host all locked 127.0.0.1/32 scram-sha-256\nhostssl all outside 127.0.0.1/32 trust\nhost all outside 127.0.0.1/32 reject\n"), conf...), 0o600); err != nil {
		t.Fatal(err)
	}
	exec1(t, conn, `SELECT pg_reload_conf()`)
	url := s.RuntimeURL("locked")
	_, rest, _ := strings.Cut(url, "@")
	at, _, _ := strings.Cut(rest, "/")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()

	for name, c := range map[string]struct{ url, want, at string }{
		"a port that is closed":             {"postgres://u@" + closed.Addr().String() + "/db", "refused the connection: nothing listens there", closed.Addr().String()},
		"a host that there is not":          {"postgres://u@nowhere.invalid:5432/db", "nowhere.invalid:5432", "nowhere.invalid:5432"},
		"a socket that there is not":        {"postgres:///db?host=/nowhere", "there is no socket", "/nowhere/.s.PGSQL.5432"},
		"a wrong password":                  {"postgres://locked:wrong@" + at + "/postgres", "does not know the user or the password", at},
		"a user that is not let in":         {"postgres://outside@" + at + "/postgres?sslmode=disable", "does not let this user in", at},
		"a database that there is not":      {"postgres://postgres@" + at + "/nothere", `has no database "nothere"`, at},
		"TLS with a server that has none":   {"postgres://postgres@" + at + "/postgres?sslmode=require", "does not speak TLS", at},
		"several servers, none of them up":  {"postgres://u@127.0.0.1:1,127.0.0.1:2/db", "refused the connection", "127.0.0.1:1, 127.0.0.1:2"},
		"a user that there is not, trusted": {"postgres://nobodyatall@" + at + "/postgres", "does not let this user in", at},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := pgstore.Open(t.Context(), c.url, nil)
			if err == nil {
				d.Close()
			}
			clean(t, err, memory.ErrStore, c.want)
			if text := err.Error(); !strings.Contains(text, c.at) || strings.Contains(text, "secret") || strings.Contains(text, "wrong") {
				t.Errorf("it reads %q, want the name %s and no password", text, c.at)
			}
		})
	}
}

func TestAServerThatOnlyReadsSaysSo(t *testing.T) {
	t.Parallel()
	s, err := server.Postgres(t.Context())
	server.Need(t, err)
	t.Cleanup(func() { s.Stop(context.WithoutCancel(t.Context())) })
	exec1(t, connect(t, s, "postgres"), `CREATE ROLE app LOGIN`)
	if _, err := pgstore.Migrate(t.Context(), s.URL(), &pgstore.Options{Role: "app"}); err != nil {
		t.Fatal(err)
	}
	d, err := pgstore.Open(t.Context(), s.RuntimeURL("app"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if out, err := exec.CommandContext(t.Context(), s.Program("psql"), "-qd", s.URL(), "-v", "ON_ERROR_STOP=1", "-c", "ALTER SYSTEM SET default_transaction_read_only = on", "-c", "SELECT pg_reload_conf()").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for n := range uint64(2000) { // until its processes have heard of it
		if err = d.Apply(t.Context(), "tenant", memory.Batch{Puts: []memory.Put{{Key: "k", From: n, Data: []byte("x")}}}); err != nil {
			break
		}
	}
	clean(t, err, memory.ErrStore, "the server takes no writes")
	if _, err := d.Get(t.Context(), "tenant", []string{"k"}); err != nil {
		t.Errorf("a read: %v", err)
	}
}
