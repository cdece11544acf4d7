//go:build unix

package pgstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// copyFolder makes a folder what another one is, owners included.
func copyFolder(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	err := os.Remove(filepath.Join(to, "postmaster.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// processes are those of the server: the one that the others are children of first.
func processes(t *testing.T, s *server.PostgresServer) []int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(s.Dir(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(content), "\n")
	postmaster, err := strconv.Atoi(first)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("ps", "-o", "pid=", "--ppid", first).Output()
	if err != nil {
		t.Fatal(err)
	}
	pids := []int{postmaster}
	for _, field := range strings.Fields(string(out)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// A loss of power is the folder as it was at the last checkpoint, and the log with
// what was synced by then, with nothing or a part of what was written besides. The
// load fits into one file of the log and is too short for a checkpoint.
func TestALossOfPowerTakesNothingAcknowledgedWithSynchronousCommit(t *testing.T) {
	t.Parallel()
	seed := testmain.Drawn(t)
	moments := 3
	if sample.Full() {
		moments = 40
	}
	for _, mode := range []string{"on", "off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			s := own(t, "synchronous_commit="+mode, "checkpoint_timeout=1h", "autovacuum=off")
			o := &pgstore.Options{Role: "app"}
			migrate(t, s, o)
			d := open(t, s, o)
			defer d.Close()
			load := fault.Load{Tenant: "tenant", Streams: 3, Parts: 3, Size: 200}
			super := connect(t, s, "postgres")
			exec1(t, super, `SELECT pg_switch_wal()`)
			exec1(t, super, `CHECKPOINT`)
			wal := func() (name string) {
				if err := super.QueryRow(t.Context(), `SELECT pg_walfile_name(pg_current_wal_insert_lsn())`).Scan(&name); err != nil {
					t.Fatal(err)
				}
				return name
			}
			name := wal()
			base := filepath.Join(t.TempDir(), "base")
			if err := copyFolder(s.Dir(), base); err != nil {
				t.Fatal(err)
			}
			prune(t, base, name)
			trace, err := fault.Follow(t.Context(), filepath.Join(t.TempDir(), "trace"), true, processes(t, s)...)
			if errors.Is(err, fault.ErrNoTrace) {
				fault.Untraced(t)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			var acknowledged atomic.Int64
			done, errs := load.Write(t.Context(), d, func(fault.Acknowledged) bool {
				time.Sleep(5 * time.Millisecond)
				return acknowledged.Add(1) < 50 || time.Since(began) < time.Second
			})
			events, err := trace.End()
			if err = errors.Join(append(errs, err)...); err != nil {
				t.Fatal(err)
			}
			if now := wal(); now != name {
				t.Fatalf("the log went on from %s to %s: the model does not hold", name, now)
			}
			d.Close()

			after := own(t, "fsync=off") // what it writes itself is not of interest
			if err := after.CrashImmediate(t.Context()); err != nil {
				t.Fatal(err)
			}
			cuts, lost, longest := 0, 0, time.Duration(0)
			for range moments {
				at := done[len(done)/4+random.IntN(len(done)*3/4)].At
				sure, rest := fault.Synced(events, name, at)
				if len(sure) == 0 && mode == "on" {
					t.Fatal("the trace has no write of the log")
				}
				torn := append([]fault.Event{}, rest[:min(len(rest), random.IntN(len(rest)+1))]...)
				if len(torn) > 0 { // the last one in part, by sectors
					last := &torn[len(torn)-1]
					last.Data = last.Data[:len(last.Data)/512*random.IntN(512)/512*512]
				}
				for i, besides := range [][]fault.Event{nil, torn} {
					if i > 0 && len(besides) == 0 {
						continue
					}
					cuts++
					err := copyFolder(base, after.Dir())
					if err == nil {
						err = patch(filepath.Join(after.Dir(), "pg_wal", name), append(sure[:len(sure):len(sure)], besides...))
					}
					if err == nil {
						err = after.Restart(t.Context())
					}
					if err != nil {
						t.Fatalf("the server does not start: %v", err)
					}
					look := open(t, after, o)
					there, err := load.Check(t.Context(), look)
					if err = errors.Join(err, look.Close(), after.CrashImmediate(context.Background())); err != nil {
						t.Fatalf("%d writes of the log: %v", len(sure)+len(besides), err)
					}
					missing, oldest := fault.Lost(done, at, there)
					if missing == 0 {
						continue
					}
					if mode == "on" {
						t.Fatalf("%d acknowledged batches are lost", missing)
					}
					lost, longest = max(lost, missing), max(longest, at.Sub(oldest))
				}
			}
			t.Logf("faults: PostgreSQL, synchronous_commit %s, loss of power: seed %d, %d batches acknowledged, %d cuts: at most %d lost, the oldest acknowledged %v before",
				mode, seed, len(done), cuts, lost, longest.Round(time.Millisecond))
			if cuts == 0 || mode == "off" && lost == 0 {
				t.Error("nothing was shown")
			}
		})
	}
}

// prune takes away what nobody asks for: the templates and the older logs.
func prune(t *testing.T, dir, wal string) {
	t.Helper()
	for _, oid := range []string{"1", "4"} { // template1 and template0, since version 15
		if err := os.RemoveAll(filepath.Join(dir, "base", oid)); err != nil {
			t.Fatal(err)
		}
	}
	logs, err := filepath.Glob(filepath.Join(dir, "pg_wal", strings.Repeat("?", len(wal))))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range logs {
		if filepath.Base(path) != wal {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// patch writes into a file what a trace saw written.
func patch(path string, writes []fault.Event) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	for _, w := range writes {
		if _, writeErr := f.WriteAt(w.Data, w.Offset); writeErr != nil {
			err = errors.Join(err, writeErr)
		}
	}
	return errors.Join(err, f.Close())
}
