package redisstore_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

const log1 = ".1.incr.aof" // how the name of the growing log ends

// info is one line of what the server says of itself.
func info(t *testing.T, s *server.RedisServer, section, name string) string {
	t.Helper()
	for line := range strings.Lines(do(t, s, "INFO", section)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	t.Fatalf("INFO has no %s", name)
	return ""
}

// A loss of power is the files with what was synced by then, with nothing or a part of
// what was written besides; that is asked of random moments of a load, for both modes
// of appendfsync. Without strace the file as it was when a batch was acknowledged is
// taken as synced with always, which asks less, and everysec is not asked.
func TestALossOfPowerTakesNothingAcknowledgedWithAlwaysAndSecondsWithEverysec(t *testing.T) {
	t.Parallel()
	seed := testmain.Drawn(t)
	moments, span := 6, 2200*time.Millisecond
	if sample.Full() {
		moments, span = 60, 20*time.Second
	}
	for _, mode := range []string{"always", "everysec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			s := own(t, server.RedisOptions{Settings: []string{"appendfsync " + mode, "auto-aof-rewrite-percentage 0"}})
			d := opened(t, s.URL(), nil)
			load := fault.Load{Tenant: "tenant", Streams: 4, Parts: 4, Size: 400}
			file := ""
			for _, path := range files(t, s.Dir) {
				if strings.HasSuffix(path, log1) {
					file = path
				}
			}
			size := func() int {
				f, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				return int(f.Size())
			}
			pid, err := strconv.Atoi(info(t, s, "server", "process_id"))
			if err != nil {
				t.Fatal(err)
			}
			trace, err := fault.Follow(t.Context(), filepath.Join(t.TempDir(), "trace"), false, pid)
			switch {
			case errors.Is(err, fault.ErrNoTrace) && mode == "everysec":
				fault.Untraced(t)
				return
			case err != nil && !errors.Is(err, fault.ErrNoTrace):
				t.Fatal(err)
			}
			before := size()
			sizes := map[time.Time]int{}
			began, least := time.Now(), int64(10*moments)
			var acknowledged atomic.Int64
			done, errs := load.Write(t.Context(), d, func(a fault.Acknowledged) bool {
				if trace == nil {
					sizes[a.At] = size()
				}
				time.Sleep(4 * time.Millisecond) // so that there is less to look through
				return acknowledged.Add(1) < least || time.Since(began) < span
			})
			if len(errs) > 0 {
				t.Fatal(errs[0])
			}
			var events []fault.Event
			if trace != nil {
				if events, err = trace.End(); err != nil {
					t.Fatal(err)
				}
			}
			s.Kill9()
			log, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}

			after := own(t, server.RedisOptions{})
			after.Kill9()
			cuts, lost, most, longest := 0, 0, 0.0, time.Duration(0)
			for range moments {
				at := done[len(done)/2+random.IntN(len(done)-len(done)/2)].At
				synced := before
				if trace == nil {
					synced = sizes[at]
				}
				sure, rest := fault.Synced(events, log1, at)
				for _, e := range sure {
					synced += e.Size
				}
				written := synced
				for _, e := range rest {
					written += e.Size
				}
				written = min(written, len(log))
				ends := []int{synced}
				if written > synced {
					ends = append(ends, synced+random.IntN(written-synced)) // torn, as often as not
				}
				for _, end := range ends {
					cuts++
					if err := errors.Join(os.RemoveAll(filepath.Join(after.Dir, "appendonlydir")), os.CopyFS(filepath.Join(after.Dir, "appendonlydir"), os.DirFS(filepath.Dir(file))),
						os.WriteFile(filepath.Join(after.Dir, "appendonlydir", filepath.Base(file)), log[:end], 0o600), after.Start(t.Context())); err != nil {
						t.Fatalf("the server does not start on %d of %d bytes: %v", end, len(log), err)
					}
					look := open(t, after.URL(), nil)
					there, err := load.Check(t.Context(), look)
					if err = errors.Join(err, look.Close()); err != nil {
						t.Fatalf("cut at %d of %d bytes: %v", end, len(log), err)
					}
					after.Kill9()
					missing, oldest := fault.Lost(done, at, there)
					if missing == 0 {
						continue
					}
					if mode == "always" {
						t.Fatalf("%d acknowledged batches are lost (seed %d)", missing, seed)
					}
					lost, most, longest = max(lost, missing), max(most, float64(missing)/float64(missing+int(total(there)))), max(longest, at.Sub(oldest))
				}
			}
			t.Logf("faults: Redis, appendfsync %s, loss of power: seed %d, %d batches acknowledged, %d cuts: at most %d lost (%.0f%%), the oldest acknowledged %v before",
				mode, seed, len(done), cuts, lost, 100*most, longest.Round(time.Millisecond))
			switch {
			case cuts == 0:
				t.Error("nothing was shown")
			case mode == "everysec" && lost == 0:
				t.Error("everysec lost nothing: the model does not bite")
			}
		})
	}
}

func total(counts []uint64) (n uint64) {
	for _, c := range counts {
		n += c
	}
	return n
}
