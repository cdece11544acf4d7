package sqlitestore_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
)

const (
	killTenant  = "tenant"
	killStreams = 3
	killParts   = 5
)

func part(stream int, batch, n uint64) string { return fmt.Sprintf("%d/%d/%d", stream, batch, n) }

// killBatch is one batch of a stream: it moves a counter and writes parts of its
// own, large enough for checkpoints to happen often.
func killBatch(stream int, batch uint64) memory.Batch {
	b := memory.Batch{Puts: []memory.Put{{
		Key: fmt.Sprintf("counter/%d", stream), From: batch, Data: fmt.Append(nil, batch), Entry: fmt.Append(nil, batch),
		Add: []memory.Term{{Name: "counter", Sort: batch}},
	}}}
	for n := range uint64(killParts) {
		b.Puts = append(b.Puts, memory.Put{
			Key: part(stream, batch, n), Data: bytes.Repeat([]byte{byte(batch)}, 20_000), Entry: []byte("x"),
			Add: []memory.Term{{Name: fmt.Sprintf("batch/%d/%d", stream, batch), Sort: n}},
		})
	}
	return b
}

// writeUntilKilled is the child: it goes on with every stream where it stands and
// prints each batch once it is acknowledged.
func writeUntilKilled(path string) int {
	ctx := context.Background()
	d, err := sqlitestore.Open(ctx, path, nil)
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	var print sync.Mutex
	var streams sync.WaitGroup
	for stream := range killStreams {
		streams.Go(func() {
			objects, err := d.Get(ctx, killTenant, []string{fmt.Sprintf("counter/%d", stream)})
			for batch := uint64(0); err == nil; batch++ {
				if batch < objects[0].Revision {
					continue
				}
				err = d.Apply(ctx, killTenant, killBatch(stream, batch))
				print.Lock()
				if err == nil {
					fmt.Println("acknowledged", stream, batch)
				} else {
					fmt.Println("error", err)
				}
				print.Unlock()
			}
		})
	}
	streams.Wait()
	return 1
}

func TestAKilledProcessLosesNothingAcknowledgedAndLeavesNoHalfBatch(t *testing.T) {
	t.Parallel()
	const rounds = 8
	seed := testmain.Drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	path := fresh(t)
	open(t, path, nil).Close()
	var acknowledged [killStreams]uint64 // how many batches of each stream
	total := 0
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childPath+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wait, spin := 1+random.IntN(60), random.IntN(20_000)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var stream int
			var batch uint64
			if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d %d", &stream, &batch); err != nil {
				t.Fatalf("the child says %q", lines.Text())
			}
			acknowledged[stream] = max(acknowledged[stream], batch+1)
			total++
			if wait--; wait == 0 {
				for range spin {
					runtime.Gosched()
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		checkStreams(t, round, path, acknowledged)
	}
	if total < rounds {
		t.Fatalf("only %d batches were acknowledged", total)
	}
	t.Logf("%d rounds, %d batches acknowledged", rounds, total)
}

func checkStreams(t *testing.T, round int, path string, acknowledged [killStreams]uint64) {
	t.Helper()
	d := open(t, path, nil)
	defer d.Close()
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for stream, acknowledged := range acknowledged {
		counter := fmt.Sprintf("counter/%d", stream)
		objects, err := d.Get(t.Context(), killTenant, []string{counter})
		if err != nil {
			t.Fatal(err)
		}
		written := objects[0].Revision
		if written < acknowledged || written > acknowledged+uint64(round+1) {
			t.Fatalf("round %d: %d batches of stream %d are there, %d were acknowledged", round, written, stream, acknowledged)
		}
		log, err := d.History(t.Context(), killTenant, counter, 0, memory.MaxQueryLimit)
		if err != nil || uint64(len(log)) != written {
			t.Fatalf("round %d: the log of stream %d has %d entries of %d (%v)", round, stream, len(log), written, err)
		}
		for batch := range written + 2 {
			var keys []string
			for n := range uint64(killParts) {
				keys = append(keys, part(stream, batch, n))
			}
			objects, err := d.Get(t.Context(), killTenant, keys)
			if err != nil {
				t.Fatal(err)
			}
			hits, _, err := d.Query(t.Context(), killTenant, memory.Query{Term: fmt.Sprintf("batch/%d/%d", stream, batch), Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			there := 0
			for _, o := range objects {
				if o.Revision == 1 && bytes.Equal(o.Data, bytes.Repeat([]byte{byte(batch)}, 20_000)) {
					there++
				}
			}
			want := 0
			if batch < written {
				want = killParts
			}
			if there != want || len(hits) != want {
				t.Fatalf("round %d: batch %d of stream %d (of %d) has %d parts and %d terms", round, batch, stream, written, there, len(hits))
			}
		}
	}
}

// openForKill is the child of the test below. It ends without closing.
func openForKill(path string) int {
	runtime.LockOSThread() // strace counts by thread
	if _, err := sqlitestore.Open(context.Background(), path, nil); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// A process is killed at each system call by which a new file is made, before the call
// is done.
func TestAFileCanBeMadeWhereverTheProcessBeforeWasKilled(t *testing.T) {
	t.Parallel()
	strace, err := exec.LookPath("strace")
	if err != nil || exec.Command(strace, "-o", os.DevNull, "true").Run() != nil {
		fault.Untraced(t)
		return
	}
	var kills atomic.Int64
	var calls sync.WaitGroup
	for _, call := range []string{"openat", "pwrite64", "write", "fsync", "fdatasync", "ftruncate", "unlink", "unlinkat", "rename", "link"} {
		calls.Go(func() {
			for n := 1; ; n++ {
				path := filepath.Join(t.TempDir(), "store.db")
				cmd := exec.Command(strace, "-f", "-o", os.DevNull, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=SIGKILL:when=%d", call, n), os.Args[0])
				cmd.Env = append(os.Environ(), childPath+"="+path, childLevel+"=open")
				out, err := cmd.CombinedOutput()
				if err == nil {
					return // it was made with fewer calls
				}
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Exited() {
					t.Errorf("%s %d: the child was not killed: %v: %s", call, n, err, out)
					return
				}
				kills.Add(1)
				d, err := sqlitestore.Open(t.Context(), path, nil)
				if err == nil {
					err = errors.Join(d.Apply(t.Context(), killTenant, killBatch(0, 0)), d.Check(t.Context()), d.Close())
				}
				if err != nil {
					t.Errorf("%s %d: %v", call, n, err)
					return
				}
			}
		})
	}
	calls.Wait()
	t.Logf("faults: SQLite, making a file: killed at %d system calls, and the file made each time", kills.Load())
	if kills.Load() < 10 {
		t.Error("nothing was shown")
	}
}
