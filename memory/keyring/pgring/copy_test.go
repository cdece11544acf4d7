//go:build unix

package pgring_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/keyring/pgring"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/jackc/pgx/v5"
)

var tables = []string{"ring", "data_key", "holder"}

func connect(t *testing.T, url string) (*pgx.Conn, string) {
	t.Helper()
	config := must(pgx.ParseConfig(url))(t)
	schema := config.RuntimeParams["schema"]
	delete(config.RuntimeParams, "schema")
	c := must(pgx.ConnectConfig(t.Context(), config))(t)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c, schema
}

// keep copies the tables aside, as a backup does.
func keep(t *testing.T, url string) string {
	t.Helper()
	c, schema := connect(t, url)
	for _, table := range tables {
		if _, err := c.Exec(t.Context(), `CREATE TABLE `+schema+`.kept_`+table+` AS TABLE `+schema+`.`+table); err != nil {
			t.Fatal(err)
		}
	}
	return schema
}

// bring puts the copies in the place of what is there.
func bring(t *testing.T, url, schema string) {
	t.Helper()
	c, _ := connect(t, url)
	for _, table := range tables {
		if _, err := c.Exec(t.Context(), `DELETE FROM `+schema+`.`+table+`; INSERT INTO `+schema+`.`+table+` SELECT * FROM `+schema+`.kept_`+table); err != nil {
			t.Fatal(err)
		}
	}
}

// A base backup from before an erasure, and the log up to after it, hold the sealed key of
// the erased subject. A server started on the backup gives the ring of then, which opens
// with the wrapping key of then, and not with what its file has now.
func TestABaseBackupWithItsLogOpensWithNothingAfterAnErasure(t *testing.T) {
	t.Parallel()
	p, err := server.Postgres(t.Context(), "wal_level=replica", "max_wal_senders=4")
	server.Need(t, err)
	t.Cleanup(func() { _ = p.Stop(context.WithoutCancel(t.Context())) })
	url := p.URL()
	m := first(t, url)
	k := m.open(t, url)
	id := must(k.Key(t.Context(), "canary"))(t)
	message := must(k.Seal(t.Context(), id, []byte("about the canary"), nil))(t)
	c, schema := connect(t, url)
	if schema == "" {
		schema = "hearsay_keys"
	}
	var record []byte
	if err := c.QueryRow(t.Context(), `SELECT sealed FROM `+schema+`.data_key WHERE sealed IS NOT NULL ORDER BY length(sealed) LIMIT 1`).Scan(&record); err != nil || len(record) == 0 {
		t.Fatal(record, err)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if out, err := exec.CommandContext(t.Context(), p.Program("pg_basebackup"), "-d", url, "-D", backup, "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	old := machine{"first", filepath.Join(t.TempDir(), "wrap")}
	if err := os.WriteFile(old.wrap, must(os.ReadFile(m.wrap))(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := must(k.Destroy(t.Context(), id))(t); d.Pending != "" || d.Version != "1" {
		t.Fatalf("%+v", d)
	}
	if _, err := c.Exec(t.Context(), `SELECT pg_switch_wal()`); err != nil {
		t.Fatal(err)
	}
	held := func(dir string) (files int) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return nil // it went while the server works
			}
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, record) {
				files++
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	if n, log := held(backup), held(filepath.Join(p.Dir(), "pg_wal")); n == 0 || log == 0 {
		t.Fatalf("the sealed key is in %d files of the backup and %d of the log: nothing is shown", n, log)
	}

	// The backup takes the place of the server's files, with all of the log.
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	_ = c.Close(t.Context())
	q, err := server.Postgres(t.Context(), "wal_level=replica")
	server.Need(t, err)
	t.Cleanup(func() { _ = q.Stop(context.WithoutCancel(t.Context())) })
	if err := q.CrashImmediate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"rm -rf " + q.Dir() + "/*", "cp -a " + backup + "/. " + q.Dir(), "chown -R --reference=" + filepath.Dir(q.Dir()) + " " + q.Dir(), "chmod 700 " + q.Dir()} {
		if out, err := exec.CommandContext(t.Context(), "sh", "-c", step).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", step, err, out)
		}
	}
	if err := q.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pgring.Open(t.Context(), q.URL(), m.options(t)); !errors.Is(err, keyring.ErrWrapping) || !strings.Contains(err.Error(), "destroyed") {
		t.Fatalf("the backup opens with the wrapping key of now: %v", err)
	}
	then := old.open(t, q.URL()) // that it is the version alone which is missing
	if got, err := then.Open(t.Context(), id, message, nil); err != nil || string(got) != "about the canary" {
		t.Fatalf("%q %v", got, err)
	}
}
