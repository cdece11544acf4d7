package fault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A loss of power takes what was written and not synced; the death of a process does
// not. So a trace of a server says what was written and synced when, and a test makes
// the files that the disk would have if the power had gone at some moment.

// Trace is a strace that follows a server.
type Trace struct {
	cmd  *exec.Cmd
	file string
	pids []int
}

// ErrNoTrace: nothing can be traced here.
var ErrNoTrace = errors.New("fault: no strace, or it may not follow other processes")

// Untraced fails a test in CI, since nothing can be traced. Elsewhere it logs that the test
// shows nothing.
func Untraced(t *testing.T) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatalf("faults: %v", ErrNoTrace)
	}
	t.Logf("faults: %s shows nothing: %v", t.Name(), ErrNoTrace)
}

// Follow traces what processes, and those that they make, write and sync, from when
// it returns until [Trace.End]. The file is for what it notes meanwhile. If content
// is set, the bytes that are written are noted too.
func Follow(ctx context.Context, file string, content bool, pids ...int) (*Trace, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return nil, ErrNoTrace
	}
	size := "0"
	if content {
		size = "1000000"
	}
	return follow(ctx, path, file, pids, "-y", "-ttt", "-T", "-xx", "-s", size, "-e", "trace=write,pwrite64,fsync,fdatasync")
}

// Fail makes system calls of processes, and of those that they make, fail, from when
// it returns until [Trace.Stop]. What is as strace injects it: "fdatasync:error=EIO". If
// path is not "", only calls on that file fail.
func Fail(ctx context.Context, file, what, path string, pids ...int) (*Trace, error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return nil, ErrNoTrace
	}
	args := []string{"-e", "inject=" + what}
	if path != "" {
		args = append(args, "-P", path)
	}
	return follow(ctx, strace, file, pids, args...)
}

func follow(ctx context.Context, strace, file string, pids []int, args ...string) (*Trace, error) {
	args = append(args, "-f", "-o", file)
	for _, pid := range pids {
		args = append(args, "-p", strconv.Itoa(pid))
	}
	t := &Trace{cmd: exec.CommandContext(ctx, strace, args...), file: file, pids: pids}
	said, err := t.cmd.StderrPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	attached := 0
	lines := bufio.NewScanner(said)
	for attached < len(pids) && lines.Scan() {
		if strings.Contains(lines.Text(), " attached") {
			attached++
		}
	}
	if attached < len(pids) {
		_ = t.cmd.Wait() // it says why in words of its own
		return nil, ErrNoTrace
	}
	go func() {
		for lines.Scan() { // threads and processes that it meets later
		}
	}()
	return t, nil
}

// Event is a write or a sync of a file.
type Event struct {
	Began, Ended time.Time
	Path         string
	Sync         bool
	Size         int    // of a write
	Offset       int64  // of a write; -1 = at the end
	Data         []byte // of a write, if it was asked for
}

var (
	traced = regexp.MustCompile(`^(\d+) +(\d+)\.(\d{6}) (.*)$`)
	took   = regexp.MustCompile(` <(\d+)\.(\d{6})>$`)
	called = regexp.MustCompile(`^(write|pwrite64|fsync|fdatasync)\(\d+<((?:\\x[0-9a-f]{2})*)>(?:, "((?:\\x[0-9a-f]{2})*)"(?:\.\.\.)?, (\d+)(?:, (\d+))?)?\) += (-?\d+)`)
)

// Stop lets go of the processes, and returns how often a call was made to fail.
//
// SIGINT ends strace, except that strace 6.1 waits for ever on a traced process whose
// main thread has ended. Once all traced processes are like that, Stop kills strace.
// The file is whole all the same, because strace writes each line before it lets the
// traced thread go on. Stop returns an error if strace runs for another minute.
func (t *Trace) Stop() (failed int, err error) {
	_ = t.cmd.Process.Signal(syscall.SIGINT) // an error means that it has ended
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = t.cmd.Wait() // an interrupt is how it ends
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	guard := time.After(time.Minute)
	for running := true; running; {
		select {
		case <-ended:
			running = false
		case <-tick.C:
			if !slices.ContainsFunc(t.pids, alive) {
				_ = t.cmd.Process.Kill()
			}
		case <-guard:
			_ = t.cmd.Process.Kill()
			err = fmt.Errorf("strace does not let go of %v", t.pids)
		}
	}
	text, readErr := os.ReadFile(t.file)
	return strings.Count(string(text), "(INJECTED)"), errors.Join(err, readErr)
}

// alive says whether the main thread of a process runs.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // the name of the program, in parentheses, comes before it
	return !bytes.HasPrefix(state, []byte(" Z"))
}

// End lets go of the processes and returns what succeeded, in the order in which it
// ended.
func (t *Trace) End() ([]Event, error) {
	if _, err := t.Stop(); err != nil {
		return nil, err
	}
	f, err := os.Open(t.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	type begun struct {
		at   time.Time
		text string
	}
	open := map[string]begun{} // by thread
	var events []Event
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		m := traced.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		seconds, _ := strconv.ParseInt(m[2], 10, 64)
		micros, _ := strconv.ParseInt(m[3], 10, 64)
		at := time.UnixMicro(seconds*1_000_000 + micros)
		began, text := at, m[4]
		if part, ok := strings.CutSuffix(text, " <unfinished ...>"); ok {
			open[m[1]] = begun{at, part}
			continue
		}
		ended := at
		if strings.HasPrefix(text, "<... ") {
			_, rest, _ := strings.Cut(text, " resumed>")
			began, text = open[m[1]].at, open[m[1]].text+rest
		} else if d := took.FindStringSubmatch(text); d != nil {
			s, _ := strconv.ParseInt(d[1], 10, 64)
			us, _ := strconv.ParseInt(d[2], 10, 64)
			ended = at.Add(time.Duration(s*1_000_000+us) * time.Microsecond)
		}
		c := called.FindStringSubmatch(text)
		if c == nil || strings.HasPrefix(c[6], "-") {
			continue
		}
		e := Event{Began: began, Ended: ended, Path: string(plain(c[2])), Sync: strings.HasSuffix(c[1], "sync"), Offset: -1}
		if !e.Sync {
			e.Size, _ = strconv.Atoi(c[6])
			if c[5] != "" {
				e.Offset, _ = strconv.ParseInt(c[5], 10, 64)
			}
			e.Data = plain(c[3])
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

// plain is what was written as \x00 and so on.
func plain(text string) []byte {
	b, _ := hex.DecodeString(strings.ReplaceAll(text, `\x`, "")) // it matched
	return b
}

// Synced are the writes to a file that a sync which ended by a moment had seen whole,
// and rest those that had begun by then besides. The file is known by how its path
// ends.
func Synced(events []Event, path string, by time.Time) (synced, rest []Event) {
	var last time.Time // the beginning of the last sync that ended
	for _, e := range events {
		if e.Sync && strings.HasSuffix(e.Path, path) && !e.Ended.After(by) && e.Began.After(last) {
			last = e.Began
		}
	}
	for _, e := range events {
		switch {
		case e.Sync || !strings.HasSuffix(e.Path, path) || e.Began.After(by):
		case !e.Ended.After(last):
			synced = append(synced, e)
		default:
			rest = append(rest, e)
		}
	}
	return synced, rest
}
