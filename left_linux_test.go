package hearsay_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

func init() { leave = leaveServers }

// leaveServers starts a Redis, a PostgreSQL and another program, prints their process ids and returns without
// stopping them.
func leaveServers(dir string) error {
	redis := exec.Command("redis-server", "--port", "0", "--unixsocket", filepath.Join(dir, "socket"), "--dir", dir)
	redis.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := redis.Start(); err != nil {
		return err
	}
	marked := exec.Command("sleep", "600") // nothing but its environment tells where it is from
	marked.Dir = "/"
	marked.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := marked.Start(); err != nil {
		return err
	}
	p, err := server.Postgres(context.Background(), "fsync=off")
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(p.Dir(), "postmaster.pid"))
	if err != nil {
		return err
	}
	pid, _, _ := strings.Cut(string(content), "\n")
	fmt.Println(redis.Process.Pid, marked.Process.Pid, pid)
	return nil
}

// TestACheckEndsForWhoReadsAllThatItSays: a caller reads both outputs to their end before it
// asks how the check ended, and meanwhile nobody has reaped it.
func TestACheckEndsForWhoReadsAllThatItSays(t *testing.T) {
	t.Parallel()
	script := exec.CommandContext(t.Context(), "bash", "-c", `. .ci/steps.sh; echo done`)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	script.Stdout, script.Stderr = w, w
	err = script.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(out)
		read <- string(text)
	}()
	select {
	case text := <-read:
		if text != "done\n" {
			t.Errorf("it says %q", text)
		}
	case <-time.After(5 * time.Minute):
		t.Error("its output does not end")
	}
	if err := script.Wait(); err != nil {
		t.Error(err)
	}
}

// TestACheckLeavesNoServerBehind runs scripts that begin as a check does, leave servers
// running, and end in each way. The servers are named and stopped, and the temporary folder
// is gone.
func TestACheckLeavesNoServerBehind(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"redis-server", "pg_ctl"} {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
		if _, err := exec.LookPath(program); err != nil && len(found) == 0 {
			server.Need(t, err)
		}
	}
	for _, c := range []struct {
		name, end string
		unread    bool // nobody reads what it says on stderr
	}{
		{"it passes", "exit 0", false},
		{"it fails", "fail on purpose", false},
		{"it is told to end", "kill -TERM $$; sleep 60", false},
		{"it is interrupted", "kill -INT $$; sleep 60", false},
		{"it is killed", "kill -KILL $$", false},
		{"its process group is killed", "kill -KILL -- -$$", false},
		{"it fails and nobody reads", "fail on purpose", true},
		{"it is killed and nobody reads", "kill -KILL $$", true},
		{"a part of it is killed", `dies() { kill -KILL $BASHPID; }; part one dies; fail "${red[*]}"`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			script := exec.CommandContext(t.Context(), "bash", "-c", `. .ci/steps.sh; grace=1; echo "$TMPDIR"; HEARSAY_TEST_LEAVES=$TMPDIR "$0"; `+c.end, os.Args[0])
			script.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			var said strings.Builder
			script.Stderr = &said
			if c.unread {
				r, w, err := os.Pipe()
				if err != nil {
					t.Fatal(err)
				}
				r.Close()
				defer w.Close()
				script.Stderr = w
			}
			out, err := script.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := script.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			lines.Scan()
			dir := lines.Text()
			lines.Scan()
			pids := strings.Fields(lines.Text())
			err = script.Wait() // the watcher holds stderr open until it has ended
			if len(pids) != 3 || !strings.HasPrefix(dir, "/tmp/") {
				t.Fatalf("folder %q, servers %q (%v)\n%s", dir, pids, err, said.String())
			}
			if err == nil {
				t.Error("the script ended as if nothing was left")
			}
			for _, pid := range pids {
				if !c.unread && !strings.Contains(said.String(), "LEFT BEHIND: process "+pid+": ") {
					t.Errorf("process %s is not named in:\n%s", pid, said.String())
				}
			}
			// A process that got SIGTERM may still be ending; the watcher waits for it.
			for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
				running := 0
				for _, pid := range pids {
					// A zombie has no command line. On a machine whose first process reaps no
					// children, it stays.
					if text, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline")); err == nil && len(text) > 0 {
						running++
					}
				}
				_, err := os.Stat(dir)
				if running == 0 && os.IsNotExist(err) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d servers run, and of %s is said: %v", running, dir, err)
				}
			}
		})
	}
}
