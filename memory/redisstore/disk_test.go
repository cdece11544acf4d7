package redisstore_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
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
		clean(t, err, memory.ErrStore)
	}
	return done
}

// goesOn asks that a store is whole, that it has what was acknowledged, and that it
// takes more.
func goesOn(t *testing.T, d memory.Driver, load fault.Load, done []fault.Acknowledged) {
	t.Helper()
	var more []fault.Acknowledged
	eventually(t, "it takes batches again", func() bool {
		again, errs := load.Write(t.Context(), d, func(a fault.Acknowledged) bool { return false })
		more = append(more, again...)
		return len(errs) == 0
	})
	there, err := load.Check(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	all := append(done, more...)
	if lost, _ := fault.Lost(all, all[len(all)-1].At, there); lost > 0 {
		t.Fatalf("%d of %d acknowledged batches are lost", lost, len(all))
	}
}

// With always the server ends itself when it cannot write its log; with everysec it
// refuses writes until it can.
func TestAFullDiskLosesNothingAndTheServerWorksAgainLater(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"always", "everysec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			settings := []string{"appendfsync " + mode, "auto-aof-rewrite-percentage 0"}
			load := fault.Load{Tenant: "tenant", Streams: 3, Parts: 4, Size: 4000}
			dir, small := fault.SmallDisk(t, 6<<20)
			ballast := filepath.Join(dir, "ballast")
			if small {
				if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
					t.Fatal(err)
				}
				settings = append(settings, "dir "+dir)
			}
			s := own(t, server.RedisOptions{Settings: settings})
			d := opened(t, s.URL(), nil)
			room := func() error { return os.Remove(ballast) }
			var done []fault.Acknowledged
			if !small { // the disk says that it is full
				n := atomic.Int64{}
				done, _ = load.Write(t.Context(), d, func(fault.Acknowledged) bool { return n.Add(1) < 100 })
				trace := failing(t, s, "write:error=ENOSPC")
				if trace == nil {
					return
				}
				room = func() error { _, err := trace.Stop(); return err }
			}
			done = append(done, refuses(t, d, load)...)
			if mode == "everysec" {
				if _, err := load.Check(t.Context(), d); err != nil {
					t.Fatalf("what is there cannot be read: %v", err)
				}
			}
			if err := room(); err != nil {
				t.Fatal(err)
			}
			if mode == "always" {
				s.Kill9() // if it is not gone
				if err := s.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			goesOn(t, d, load, done)
			t.Logf("faults: Redis, appendfsync %s, a full disk: %d batches acknowledged, then refused; nothing lost, nothing half", mode, len(done))
			if len(done) == 0 {
				t.Error("nothing was acknowledged")
			}
		})
	}
}

// failing has system calls on the log fail from now on; nil if that cannot be done here.
func failing(t *testing.T, s *server.RedisServer, what string) *fault.Trace {
	t.Helper()
	pid, err := strconv.Atoi(info(t, s, "server", "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	file := ""
	for _, path := range files(t, s.Dir) {
		if strings.HasSuffix(path, log1) {
			file = path
		}
	}
	trace, err := fault.Fail(t.Context(), filepath.Join(t.TempDir(), "trace"), what, file, pid)
	if errors.Is(err, fault.ErrNoTrace) {
		fault.Untraced(t)
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

func TestNothingIsAcknowledgedOnceTheDiskFailsToSync(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"auto-aof-rewrite-percentage 0"}})
	d := opened(t, s.URL(), nil)
	load := fault.Load{Tenant: "tenant", Streams: 3, Parts: 4, Size: 400}
	n := atomic.Int64{}
	before, errs := load.Write(t.Context(), d, func(fault.Acknowledged) bool { return n.Add(1) < 100 })
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	trace := failing(t, s, "fdatasync,fsync:error=EIO")
	if trace == nil {
		return
	}
	done := refuses(t, d, load)
	failed, err := trace.Stop()
	if err != nil || failed == 0 || len(done) > 0 {
		t.Fatalf("%d syncs failed, %d batches were acknowledged nevertheless (%v)", failed, len(done), err)
	}
	s.Kill9() // it has ended itself
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	goesOn(t, d, load, before)
	t.Logf("faults: Redis, a sync that fails: %d batches acknowledged before, none after", len(before))
}
