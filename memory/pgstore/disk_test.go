//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// refuses writes until every stream of a load is refused, in plain words.
func refuses(t *testing.T, d memory.Driver, load fault.Load) []fault.Acknowledged {
	t.Helper()
	done, errs := load.Write(t.Context(), d, func(fault.Acknowledged) bool { return true })
	if len(errs) != load.Streams {
		t.Fatalf("%d of %d streams were refused", len(errs), load.Streams)
	}
	for _, err := range errs {
		clean(t, err, memory.ErrStore, "")
	}
	return done
}

// goesOn asks that a store is whole, that it has what was acknowledged, and that it
// takes more.
func goesOn(t *testing.T, d memory.Driver, load fault.Load, done []fault.Acknowledged) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		again, errs := load.Write(t.Context(), d, func(a fault.Acknowledged) bool { return false })
		done = append(done, again...)
		if len(errs) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it takes no batch again: %v", errs[0])
		}
	}
	there, err := load.Check(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	if lost, _ := fault.Lost(done, time.Now(), there); lost > 0 {
		t.Fatalf("%d of %d acknowledged batches are lost", lost, len(done))
	}
}

// ofServer gives a folder to the user that the server runs as.
func ofServer(t *testing.T, s *server.PostgresServer, dir string) {
	t.Helper()
	info, err := os.Stat(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	of := info.Sys().(*syscall.Stat_t)
	if err := errors.Join(os.Chown(dir, int(of.Uid), int(of.Gid)), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	for up := filepath.Dir(dir); up != "/" && len(up) > 1; up = filepath.Dir(up) {
		if info, err := os.Stat(up); err == nil && info.Mode()&0o001 == 0 {
			if err := os.Chmod(up, info.Mode()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A full disk of the tables ends a transaction; one of the log ends the server.
func TestAFullDiskLosesNothingAndTheServerWorksAgainLater(t *testing.T) {
	t.Parallel()
	load := fault.Load{Tenant: "tenant", Streams: 3, Parts: 4, Size: 6000}
	t.Run("of the tables", func(t *testing.T) {
		t.Parallel()
		dir, ok := fault.SmallDisk(t, 12<<20)
		if !ok {
			fails(t, "pwrite64:error=ENOSPC", load)
			return
		}
		s := own(t)
		ofServer(t, s, dir)
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 6<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		// A tablespace wants an empty folder.
		space := filepath.Join(dir, "space")
		if err := os.Mkdir(space, 0o700); err != nil {
			t.Fatal(err)
		}
		ofServer(t, s, space)
		super := connect(t, s, "postgres")
		exec1(t, super, `CREATE TABLESPACE small LOCATION '`+space+`'`)
		exec1(t, super, `GRANT CREATE ON TABLESPACE small TO owner`)
		exec1(t, super, `ALTER ROLE owner SET default_tablespace = 'small'`)
		o := &pgstore.Options{Role: "app"}
		migrate(t, s, o)
		d := open(t, s, o)
		defer d.Close()
		done := refuses(t, d, load)
		if _, err := load.Check(t.Context(), d); err != nil {
			t.Fatalf("what is there cannot be read: %v", err)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		goesOn(t, d, load, done)
		shown(t, "a full disk of the tables", len(done))
	})
	t.Run("of the log", func(t *testing.T) {
		t.Parallel()
		dir, ok := fault.SmallDisk(t, 56<<20) // three files of the log, and no fourth
		if !ok {
			return // as above
		}
		s := own(t, "min_wal_size=32MB", "max_wal_size=32MB", "checkpoint_timeout=1h")
		ofServer(t, s, dir)
		o := &pgstore.Options{Role: "app"}
		migrate(t, s, o)
		if err := s.CrashImmediate(t.Context()); err != nil {
			t.Fatal(err)
		}
		wal, small := filepath.Join(s.Dir(), "pg_wal"), filepath.Join(dir, "wal")
		if err := errors.Join(copyFolder(wal, small), os.RemoveAll(wal), os.Symlink(small, wal)); err != nil {
			t.Fatal(err)
		}
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 20<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		d := open(t, s, o)
		defer d.Close()
		done := refuses(t, d, load)
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		_ = s.CrashImmediate(t.Context()) // it may have ended itself
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		goesOn(t, d, load, done)
		shown(t, "a full disk of the log", len(done))
	})
}

func shown(t *testing.T, what string, acknowledged int) {
	t.Helper()
	t.Logf("faults: PostgreSQL, %s: %d batches acknowledged, then refused; nothing lost, nothing half", what, acknowledged)
	if acknowledged == 0 {
		t.Error("nothing was acknowledged")
	}
}

func TestNothingIsAcknowledgedOnceTheDiskFailsToSync(t *testing.T) {
	t.Parallel()
	fails(t, "fdatasync,fsync:error=EIO", fault.Load{Tenant: "tenant", Streams: 3, Parts: 4, Size: 400})
}

// fails writes, lets system calls of the server fail, asks that nothing is acknowledged
// then, and lets them work again.
func fails(t *testing.T, what string, load fault.Load) {
	t.Helper()
	s := own(t)
	o := &pgstore.Options{Role: "app"}
	migrate(t, s, o)
	d := open(t, s, o)
	defer d.Close()
	var n atomic.Int64
	before, errs := load.Write(t.Context(), d, func(fault.Acknowledged) bool { return n.Add(1) < 100 })
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	trace, err := fault.Fail(t.Context(), filepath.Join(t.TempDir(), "trace"), what, "", processes(t, s)...)
	if errors.Is(err, fault.ErrNoTrace) {
		fault.Untraced(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	done := refuses(t, d, load)
	failed, err := trace.Stop()
	if err != nil || failed == 0 || len(done) > 0 {
		t.Fatalf("%d calls failed, %d batches were acknowledged nevertheless (%v)", failed, len(done), err)
	}
	_ = s.CrashImmediate(context.Background()) // it may have ended itself
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	goesOn(t, d, load, before)
	shown(t, what, len(before))
}
