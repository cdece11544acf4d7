package sqlitestore_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// A loss of power takes what was written and not synced; the death of a process
// does not. So a child writes, and the parent makes the files that the disk would
// have if the power had gone at some moment: the file as it was, and the log of the
// file up to what was synced by then, with nothing, a part, or rubbish of the rest.
// The child writes too little for a checkpoint, so the log only grows.
//
// What was synced when is seen by strace, where there is one. Without it, the
// length of the log when a batch was acknowledged is taken as synced with Full,
// which asks less, and nothing as synced with Normal.
const (
	childLevel   = "SQLITESTORE_TEST_LEVEL"
	powerBatches = 24
	frame        = 24 + 4096 // of the log: a header and a page
)

func powerBatch(n uint64) memory.Batch {
	b := memory.Batch{Puts: []memory.Put{{Key: "counter", From: n, Data: fmt.Append(nil, n), Entry: fmt.Append(nil, n)}}}
	for i := range killParts {
		b.Puts = append(b.Puts, memory.Put{
			Key: fmt.Sprintf("%d/%d", n, i), Data: []byte(strings.Repeat("x", 3000)), Entry: []byte("e"),
			Add: []memory.Term{{Name: fmt.Sprintf("batch/%d", n), Sort: 1}},
		})
	}
	return b
}

// writeForPowerLoss is the child. It ends without closing, so that the log stays.
func writeForPowerLoss(path, level string) int {
	o := sqlitestore.Options{}
	if level == "normal" {
		o.Synchronous = sqlitestore.Normal
	}
	d, err := sqlitestore.Open(context.Background(), path, &o)
	for n := uint64(0); err == nil && n < powerBatches; n++ {
		if err = d.Apply(context.Background(), "tenant", powerBatch(n)); err == nil {
			info, statErr := os.Stat(path + "-wal")
			if err = statErr; err == nil {
				fmt.Printf("acknowledged %d %d\n", n, info.Size())
			}
		}
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// run of a child: what the files were before, the log at the end, and for each
// acknowledged batch how much of the log was synced and how much written.
type powerRun struct {
	file, log       []byte
	synced, written []int
}

func childRun(t *testing.T, level string) powerRun {
	t.Helper()
	path := fresh(t)
	open(t, path, nil).Close()
	r := powerRun{}
	var err error
	if r.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "trace")
	args := []string{os.Args[0]}
	if strace, err := exec.LookPath("strace"); err == nil && exec.Command(strace, "-o", os.DevNull, "true").Run() == nil {
		args = append([]string{strace, "-f", "-y", "-s", "40", "-o", trace, "-e", "trace=fdatasync,fsync,pwrite64,write"}, args...)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childPath+"="+path, childLevel+"="+level)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		var n, size int
		if _, err := fmt.Sscanf(lines.Text(), "acknowledged %d %d", &n, &size); err != nil || n != len(r.written) {
			t.Fatalf("the child says %q", lines.Text())
		}
		r.written = append(r.written, size)
	}
	if r.log, err = os.ReadFile(path + "-wal"); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(r.file) {
		t.Fatalf("there was a checkpoint (%v): the model does not hold", err)
	}
	if len(args) > 1 {
		r.synced = syncedLog(t, trace)
	} else if t.Log("there is no strace here"); level == "full" {
		r.synced = r.written
	} else {
		r.synced = make([]int, len(r.written))
	}
	if len(r.synced) != powerBatches || len(r.written) != powerBatches {
		t.Fatalf("%d batches acknowledged, %d seen", len(r.written), len(r.synced))
	}
	return r
}

var (
	traceBegin  = regexp.MustCompile(`^(\d+) +(\w+)\(\d+<([^>]*)>`)
	traceWrite  = regexp.MustCompile(`, (\d+), (\d+)(?:\) += | <unfinished)`)
	traceResume = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>.*= 0$`)
)

// syncedLog reads how much of the log was synced when each batch was acknowledged.
func syncedLog(t *testing.T, trace string) (at []int) {
	t.Helper()
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	written, synced := 0, 0
	syncing := map[string]int{} // thread: how much was written when its sync began
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if m := traceResume.FindStringSubmatch(line); m != nil {
			if n, ok := syncing[m[1]]; ok && strings.HasSuffix(m[2], "sync") {
				synced = max(synced, n)
			}
			continue
		}
		m := traceBegin.FindStringSubmatch(line)
		switch {
		case m == nil:
		case m[2] == "write" && strings.Contains(line, `"acknowledged `):
			at = append(at, synced)
		case !strings.HasSuffix(m[3], "-wal"):
			delete(syncing, m[1])
		case m[2] == "pwrite64":
			if w := traceWrite.FindStringSubmatch(line); w != nil {
				size, _ := strconv.Atoi(w[1])
				offset, _ := strconv.Atoi(w[2])
				written = max(written, offset+size)
			}
		case strings.HasSuffix(line, "<unfinished ...>"):
			syncing[m[1]] = written
		case strings.HasSuffix(line, "= 0"):
			synced = max(synced, written)
		}
	}
	return at
}

// restart opens what a disk holds, asks that every batch is whole or not there,
// and returns how many there are.
func restart(t *testing.T, file, log []byte) uint64 {
	t.Helper()
	path := fresh(t)
	write(t, path, file)
	write(t, path+"-wal", log)
	d := open(t, path, &sqlitestore.Options{Synchronous: sqlitestore.Normal}) // what it writes itself is not of interest
	defer d.Close()
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	there := revision(t, d, "counter")
	if entries, err := d.History(t.Context(), "tenant", "counter", 0, 1000); err != nil || uint64(len(entries)) != there {
		t.Fatalf("the log of the counter has %d entries, it is at %d (%v)", len(entries), there, err)
	}
	for n := range uint64(powerBatches) {
		want := 0
		if n < there {
			want = killParts
		}
		hits, _, err := d.Query(t.Context(), "tenant", memory.Query{Term: fmt.Sprintf("batch/%d", n), Limit: 100})
		if err != nil || len(hits) != want {
			t.Fatalf("batch %d of %d has %d parts (%v)", n, there, len(hits), err)
		}
		for _, h := range hits {
			if r := revision(t, d, h.Key); r != 1 {
				t.Fatalf("%s is at %d", h.Key, r)
			}
		}
	}
	return there
}

func TestALossOfPowerTakesNothingAcknowledgedWithFullAndNeverHalfABatch(t *testing.T) {
	t.Parallel()
	seed := testmain.Drawn(t)
	random := rand.New(rand.NewPCG(seed, 0))
	lost, cuts := map[string]uint64{}, 0
	for _, level := range []string{"full", "normal"} {
		r := childRun(t, level)
		for n := range powerBatches {
			acknowledged := uint64(n + 1)
			synced, end := r.synced[n], len(r.log)
			if level == "full" {
				end = min(end, r.written[n]+2*frame)
			}
			logs := [][]byte{r.log[:synced]}
			if synced < end {
				torn := synced + 1 + random.IntN(end-synced)
				whole := synced + (torn-synced)/frame*frame // a frame boundary, if the log has begun
				rubbish := append([]byte{}, r.log[:torn]...)
				for i := synced; i < torn; i++ {
					if (i/512)%2 == 0 { // sectors that did not make it
						rubbish[i] = 0
					}
				}
				logs = append(logs, r.log[:torn], r.log[:whole], rubbish)
			}
			for i, log := range logs {
				cuts++
				there := restart(t, r.file, log)
				if missing := acknowledged - min(acknowledged, there); missing > 0 {
					if level == "full" {
						t.Fatalf("%d batches were acknowledged, %d are there after the power went (cut %d, %d bytes of the log)", acknowledged, there, i, len(log))
					}
					lost[level] = max(lost[level], missing)
				}
			}
		}
	}
	t.Logf("faults: SQLite, loss of power: %d cuts: of %d acknowledged batches Full lost %d, Normal up to %d", cuts, powerBatches, lost["full"], lost["normal"])
	if lost["normal"] == 0 {
		t.Error("Normal lost nothing: the test shows nothing")
	}
}
