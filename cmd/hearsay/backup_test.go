//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"github.com/hearsay-go/hearsay/memory/storeurl"
)

// copied is a store that is backed up and restored as docs/stores.md says.
type copied struct {
	name, url string
	save      func(t *testing.T) // makes the backup; programs may be running
	restore   func(t *testing.T) // puts it back; no program is running
}

// sh runs one command as an operator would, in the shell.
func sh(t *testing.T, command string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", command)
	cmd.Env = append(os.Environ(), env...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, talk.String())
	}
	return out.String()
}

func sqliteCopies(t *testing.T) []copied {
	var all []copied
	for _, c := range []struct{ name, save, restore string }{
		{"SQLite, VACUUM INTO", `umask 077; sqlite3 "$DB" "VACUUM INTO '$BACKUP/agent.db'"`, `rm -f "$DB-wal" "$DB-shm"; cp "$BACKUP/agent.db" "$DB"`},
		{"SQLite, the online backup", `umask 077; sqlite3 "$DB" ".backup '$BACKUP/agent.db'"`, `rm -f "$DB-wal" "$DB-shm"; cp "$BACKUP/agent.db" "$DB"`},
		{"SQLite, a copy with its log", `cp -p "$DB" "$DB-wal" "$BACKUP"`, `rm -f "$DB-wal" "$DB-shm"; cp -p "$BACKUP/agent.db" "$BACKUP/agent.db-wal" "$(dirname "$DB")"`},
	} {
		db := filepath.Join(t.TempDir(), "agent.db")
		env := []string{"DB=" + db, "BACKUP=" + t.TempDir()}
		all = append(all, copied{c.name, "sqlite:" + db, func(t *testing.T) { sh(t, c.save, env...) }, func(t *testing.T) { sh(t, c.restore, env...) }})
	}
	return all
}

func redisCopies(t *testing.T) []copied {
	start := func() *server.RedisServer {
		r, err := server.Redis(t.Context(), server.RedisOptions{})
		server.Need(t, err)
		t.Cleanup(func() { r.Stop() })
		return r
	}
	do := func(t *testing.T, r *server.RedisServer, args ...string) string {
		t.Helper()
		out, err := r.Do(t.Context(), args...)
		if err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out
	}
	// idle waits until a rewrite or a snapshot that is under way is done.
	idle := func(t *testing.T, r *server.RedisServer) {
		t.Helper()
		for late := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			p := do(t, r, "INFO", "persistence")
			if strings.Contains(p, "aof_rewrite_in_progress:0") && strings.Contains(p, "aof_rewrite_scheduled:0") && strings.Contains(p, "rdb_bgsave_in_progress:0") {
				return
			}
			if time.Now().After(late) {
				t.Fatal("the server does not become idle")
			}
		}
	}
	restart := func(t *testing.T, r *server.RedisServer) {
		t.Helper()
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	aof, rdb := start(), start()
	aofEnv, rdbEnv := []string{"DIR=" + aof.Dir, "BACKUP=" + t.TempDir()}, []string{"DIR=" + rdb.Dir, "BACKUP=" + t.TempDir()}
	return []copied{
		{"Redis, its append-only files", aof.URL(), func(t *testing.T) {
			do(t, aof, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
			idle(t, aof)
			sh(t, `cp -a "$DIR/appendonlydir" "$BACKUP"`, aofEnv...)
			do(t, aof, "CONFIG", "SET", "auto-aof-rewrite-percentage", "100")
		}, func(t *testing.T) {
			aof.Shutdown()
			sh(t, `rm -r "$DIR/appendonlydir"; cp -a "$BACKUP/appendonlydir" "$DIR"`, aofEnv...)
			restart(t, aof)
		}},
		{"Redis, its snapshot", rdb.URL(), func(t *testing.T) {
			do(t, rdb, "BGSAVE")
			idle(t, rdb)
			sh(t, `cp -p "$DIR/dump.rdb" "$BACKUP"`, rdbEnv...)
		}, func(t *testing.T) {
			rdb.Shutdown()
			// With appendonly yes and no append-only file the server starts empty.
			sh(t, `rm -r "$DIR/appendonlydir"; cp -p "$BACKUP/dump.rdb" "$DIR"; sed -i 's/^appendonly yes$/appendonly no/' "$DIR/redis.conf"`, rdbEnv...)
			restart(t, rdb)
			do(t, rdb, "CONFIG", "SET", "appendonly", "yes")
			idle(t, rdb)
			rdb.Shutdown()
			sh(t, `sed -i 's/^appendonly no$/appendonly yes/' "$DIR/redis.conf"`, rdbEnv...)
			restart(t, rdb)
		}},
	}
}

func postgresCopies(t *testing.T) (all []copied, owner string) {
	p, err := server.Postgres(t.Context(), "fsync=off")
	server.Need(t, err)
	t.Cleanup(func() { p.Stop(context.WithoutCancel(t.Context())) })
	sh(t, `"$PSQL" -qd "$OWNER" -c "CREATE ROLE app LOGIN"`, "PSQL="+p.Program("psql"), "OWNER="+p.URL())
	if _, err := pgstore.Migrate(t.Context(), p.URL(), &pgstore.Options{Role: "app"}); err != nil {
		t.Fatal(err)
	}
	env := []string{"PATH=" + filepath.Dir(p.Program("psql")) + ":" + os.Getenv("PATH"), "OWNER=" + p.URL(), "DATA=" + p.Dir(), "BACKUP=" + t.TempDir()}
	return []copied{
		{"PostgreSQL, pg_dump", p.RuntimeURL("app"),
			func(t *testing.T) {
				sh(t, `umask 077; pg_dump --schema=hearsay -Fc -f "$BACKUP/dump" "$OWNER"`, env...)
			},
			func(t *testing.T) {
				sh(t, `psql -qd "$OWNER" -c "SET client_min_messages = warning" -c "DROP SCHEMA hearsay CASCADE"; pg_restore --single-transaction -d "$OWNER" "$BACKUP/dump"`, env...)
			}},
		{"PostgreSQL, a base backup", p.RuntimeURL("app"),
			func(t *testing.T) {
				sh(t, `umask 077; pg_basebackup -d "$OWNER" -X stream -c fast -D "$BACKUP/base"`, env...)
			},
			func(t *testing.T) {
				if err := p.CrashImmediate(t.Context()); err != nil {
					t.Fatal(err)
				}
				sh(t, `who=$(stat -c %u:%g "$DATA"); rm -r "$DATA"; cp -a "$BACKUP/base" "$DATA"; chown -R "$who" "$DATA"`, env...)
				if err := p.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}},
	}, p.URL()
}

// TestBackupAndRestore backs each store up, goes on, and puts the copy back: with a
// witness what was lost is known and made good for, and the audit holds after it.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("sqlite3")
	server.Need(t, err)
	postgres, owner := postgresCopies(t)
	stores := 0
	for _, c := range append(append(sqliteCopies(t), redisCopies(t)...), postgres...) {
		t.Run(c.name, func(t *testing.T) {
			testRestore(t, c, owner)
			stores++
		})
	}
	if stores != 7 {
		t.Errorf("%d ways to back up were run, want 7", stores)
	}
	t.Logf("%d ways to back up and restore", stores)
}

func testRestore(t *testing.T, c copied, owner string) {
	dir := t.TempDir()
	keys, witness, key, pub := filepath.Join(dir, "keys"), filepath.Join(dir, "witness"), filepath.Join(dir, "audit"), filepath.Join(dir, "audit.pub")
	w := &world{t: t, now: time.Now().UTC().Truncate(time.Microsecond).Add(-48 * time.Hour), ids: map[string]memory.ID{},
		env: map[string]string{"HEARSAY_STORE": c.url, "HEARSAY_KEYRING": keys, "HEARSAY_WITNESS": witness, "HEARSAY_TENANT": strconv.Itoa(os.Getpid()) + c.name}}
	if strings.HasPrefix(c.url, "postgres") {
		w.env["HEARSAY_MAINTENANCE_URL"] = owner
	}
	if _, err := keyring.Create(keys, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(pub, []byte(w.ok("audit", "keygen", "-out", key, "--name", "acme.example/hearsay")), 0o600); err != nil {
		t.Fatal(err)
	}
	w.ok("witness", "create", witness)
	open := func() {
		t.Helper()
		ledger, err := audit.OpenWitness(witness)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		w.store, err = storeurl.Open(t.Context(), c.url, &storeurl.Options{Keyring: w.env["HEARSAY_KEYRING"], MaintenanceURL: w.env["HEARSAY_MAINTENANCE_URL"],
			Options: memory.Options{Tenant: w.env["HEARSAY_TENANT"], Clock: func() time.Time { return w.now }, Witness: ledger.Ledger(w.env["HEARSAY_TENANT"], "")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.store.Close() })
	}
	sign := func() { w.ok("audit", "checkpoint", "--key", key+".key", "--checkpoint-keys", pub) }
	holds := func(step string) {
		t.Helper()
		if r := w.run("audit", "verify", "--checkpoint-keys", pub); r.code != exitDone || !strings.Contains(r.out, "the audit holds") {
			t.Fatalf("%s: exit %d\n%s%s", step, r.code, r.out, r.talk)
		}
	}

	// What the backup has.
	open()
	w.put("demoted", w.returned("crm", triple("acme", "is in", "Oslo")))
	w.put("erased", w.returned("crm", triple("eve", "lives in", "canary street 7")))
	w.put("kept", w.returned("crm", triple("carol", "is in", "Bergen")))
	sign()
	c.save(t)
	oldKeys := filepath.Join(dir, "old-keys")
	copyFolder(t, keys, oldKeys)

	// What it has not, and what was acknowledged.
	w.apply("demoted", memory.TruthContradicted, memory.RelationContradicts, memory.RankPrimarySource, "register")
	w.put("newer", w.returned("crm", triple("dora", "is in", "Bodø")))
	w.ok("erase", "--subject", "eve", "--request", "R-1", "--yes", "1")
	sign()
	holds("before the restore")
	// An older keyring does not bring back what the store itself has erased, and it
	// is known.
	w.env["HEARSAY_KEYRING"] = oldKeys
	seen, _ := w.doctor()
	if f := seen.of("keys.destroyed"); f.Safe || f.Check == "" {
		t.Errorf("doctor, with the older keyring: %+v", f)
	}
	if r := w.run("row", "show", string(w.ids["erased"])); r.code != exitNotFound || strings.Contains(r.out, "canary") {
		t.Errorf("the store as it is now, with the older keyring: exit %d\n%s", r.code, r.out)
	}
	w.env["HEARSAY_KEYRING"] = keys
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	c.restore(t)
	open()

	// The chains and the checkpoints of the copy hold by themselves.
	delete(w.env, "HEARSAY_WITNESS")
	holds("after the restore, without the witness")
	w.env["HEARSAY_WITNESS"] = witness

	// With the witness it is known, everywhere.
	if r := w.run("audit", "verify", "--checkpoint-keys", pub); r.code != exitTampered || !strings.Contains(r.talk, "its witness") || !strings.Contains(r.talk, "hearsay store recover") || strings.Contains(r.talk, "who changed it") {
		t.Fatalf("audit verify: exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if _, err := w.store.Fitness(t.Context(), []memory.ID{w.ids["demoted"]}); !errors.Is(err, memory.ErrBehind) {
		t.Fatalf("the gate is open on an older copy: %v", err)
	}
	seen, _ = w.doctor()
	if f := seen.of("store has what the witness saw"); f.Safe || !strings.Contains(f.Fix, "store recover") {
		t.Fatalf("doctor: %+v", f)
	}
	if r := w.run("audit", "checkpoint", "--key", key+".key"); r.code != exitTampered {
		t.Fatalf("an older copy was signed: exit %d\n%s%s", r.code, r.out, r.talk)
	}

	// Recovery brings the demotion and the erasure back.
	r := w.run("store", "recover")
	if r.code != exitDone || !strings.HasPrefix(r.out, "1 demotions and 1 erasures are back") || !strings.Contains(r.talk, "--accept-older") {
		t.Fatalf("recover: exit %d\n%s%s", r.code, r.out, r.talk)
	}
	fit, err := w.store.Fitness(t.Context(), []memory.ID{w.ids["demoted"], w.ids["erased"], w.ids["kept"]})
	if err != nil || fit.Heads[0].State() == memory.StateVerified || fit.Heads[2].State() != memory.StateVerified {
		t.Fatalf("after the recovery: %+v %v", fit.Heads, err)
	}
	if r := w.run("row", "show", string(w.ids["erased"])); r.code != exitNotFound || strings.Contains(r.out, "canary") {
		t.Fatalf("what was erased: exit %d\n%s%s", r.code, r.out, r.talk)
	}
	if r := w.run("row", "show", string(w.ids["newer"])); r.code != exitNotFound {
		t.Fatalf("what was written since the backup: exit %d\n%s%s", r.code, r.out, r.talk)
	}

	// Checkpoints go on once somebody takes the responsibility for the older copy.
	if r := w.run("store", "recover", "--accept-older", "--checkpoint-keys", pub); r.code != exitDone {
		t.Fatalf("accept: exit %d\n%s%s", r.code, r.out, r.talk)
	}
	sign()
	holds("after the recovery, with the witness")
	w.ok("erase", "--subject", "eve", "--request", "R-1 again", "--yes", "0")
	sign()
	holds("after it was erased again")
	seen, _ = w.doctor()
	for _, name := range []string{"store", "keys fit the store", "keys.complete", "erasures", "keys.destroyed", "store has what the witness saw", "checkpoints", "entries of the future"} {
		if f := seen.of(name); !f.Safe {
			t.Errorf("doctor, in the end: %+v", f)
		}
	}

	// An older keyring opens what the older copy holds of the erased: an erasure does
	// not reach either.
	w.env["HEARSAY_KEYRING"] = oldKeys
	w.store.Close()
	c.restore(t)
	if r := w.run("row", "show", string(w.ids["erased"])); r.code != exitDone || !strings.Contains(r.out, "canary") {
		t.Errorf("older store and older keyring: docs/stores.md says that they bring back what was erased: exit %d\n%s%s", r.code, r.out, r.talk)
	}
}

// TestAuditKeysOfTheEnvironment: a keyring that is made with them has none, and
// nothing is written or verified without.
func TestAuditKeysOfTheEnvironment(t *testing.T) {
	w := newWorld(t)
	const one, two = "1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "2:HxwdHhsaGRgXFhUUExIREA8ODQwLCgkIBwYFBAMCAQA="
	w.env["HEARSAY_AUDIT_KEYS"], w.env["HEARSAY_KEYRING"] = one, filepath.Join(t.TempDir(), "keys")
	w.env["HEARSAY_STORE"] = "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
	if r := w.run("keyring", "create", w.env["HEARSAY_KEYRING"]); r.code != exitDone {
		t.Fatal(r.talk)
	}
	write := func(subject string) {
		t.Helper()
		keys, err := keyring.ParseAuditKeys(w.env["HEARSAY_AUDIT_KEYS"])
		if err != nil {
			t.Fatal(err)
		}
		s, err := storeurl.Open(t.Context(), w.env["HEARSAY_STORE"], &storeurl.Options{Keyring: w.env["HEARSAY_KEYRING"], AuditKeys: keys})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		w.store = s
		w.put("", said(triple(subject, "is in", "Oslo")))
	}
	write("acme")
	w.env["HEARSAY_AUDIT_KEYS"] = two + "," + one
	write("bolt")
	export := filepath.Join(t.TempDir(), "audit.ndjson")
	w.ok("audit", "verify")
	w.ok("audit", "export", "-o", export)
	w.ok("audit", "verify", "--from", export)
	if r := w.run("keyring", "rotate", w.env["HEARSAY_KEYRING"]); r.code != exitUsage || !strings.Contains(r.talk, "put a new one in front") {
		t.Errorf("rotate: exit %d\n%s%s", r.code, r.out, r.talk)
	}
	for _, c := range []struct{ name, keys string }{{"none", ""}, {"no old one", two}, {"others under the same ids", strings.ReplaceAll(two+","+one, "A", "B")}, {"a text that is none", "1:AAAA"}} {
		t.Run("with "+c.name+" the audit is not verified", func(t *testing.T) {
			w.t, w.env["HEARSAY_AUDIT_KEYS"] = t, c.keys
			if r := w.run("audit", "verify"); r.code == exitDone || strings.Contains(r.talk, "AAAA") {
				t.Errorf("exit %d\n%s%s", r.code, r.out, r.talk)
			}
		})
	}
}

// TestAKeyringIsBackedUpByACopy: the copy opens the store; one that is missing is
// not made again; without it nothing is read.
func TestAKeyringIsBackedUpByACopy(t *testing.T) {
	w, _ := sound(t)
	keys, backup := w.env["HEARSAY_KEYRING"], filepath.Join(t.TempDir(), "backup")
	sh(t, `cp -a "$KEYS" "$BACKUP"`, "KEYS="+keys, "BACKUP="+backup)
	before := w.ok("row", "show", string(w.ids["a"]))
	if err := os.RemoveAll(keys); err != nil {
		t.Fatal(err)
	}
	if r := w.run("row", "show", string(w.ids["a"])); r.code == exitDone {
		t.Fatal("a row was read without the keys")
	}
	if _, err := os.Stat(keys); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("a command made a keyring")
	}
	sh(t, `cp -a "$BACKUP" "$KEYS"`, "KEYS="+keys, "BACKUP="+backup)
	if after := w.ok("row", "show", string(w.ids["a"])); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	if info, err := os.Stat(keys); err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Getuid()) {
		t.Errorf("%v %v", info, err)
	}
	if seen, _ := w.doctor(); !seen.Healthy {
		t.Errorf("unsafe: %q", unsafe(seen))
	}
}
