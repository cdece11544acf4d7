package localredis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/hearsay-go/hearsay/promotion/localredis"
)

// withServer reports whether a redis-server is here. On CI it must be.
func withServer(t *testing.T) bool {
	t.Helper()
	_, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("no redis-server in PATH")
	}
	if err != nil {
		t.Log("no redis-server in PATH: only what needs none is tested")
	}
	return err == nil
}

func open(t *testing.T, url string, o *localredis.Options) *localredis.Redis {
	t.Helper()
	r, err := localredis.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// private is a directory whose path is short enough for a socket.
func private(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func pidOf(t *testing.T, r *localredis.Redis) int {
	t.Helper()
	info, err := r.Client.InfoMap(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(info["Server"]["process_id"])
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestAChildIsPrivateAndGoesWithClose(t *testing.T) {
	if !withServer(t) {
		return
	}
	dir := private(t)
	r := open(t, "", &localredis.Options{Dir: dir})
	if r.Kind != localredis.Child {
		t.Fatalf("found %s", r.Kind)
	}
	for name, want := range map[string]string{"port": "0", "appendonly": "yes", "maxmemory-policy": "noeviction", "dir": dir} {
		got, err := r.Client.ConfigGet(t.Context(), name).Result()
		if err != nil || got[name] != want {
			t.Errorf("%s is %q, want %q: %v", name, got[name], want, err)
		}
	}
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "r.sock"): 0o700} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v: %v", name, info.Mode().Perm(), want, err)
		}
	}
	pid := pidOf(t, r)
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if !gone(pid) {
		t.Errorf("process %d is left", pid)
	}
}

func TestAChildInADirectoryOfItsOwnLeavesNothing(t *testing.T) {
	if !withServer(t) {
		return
	}
	r := open(t, "", &localredis.Options{Kind: localredis.Child})
	got, err := r.Client.ConfigGet(t.Context(), "dir").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(got["dir"]); got["dir"] == "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%q is left: %v", got["dir"], err)
	}
}

func TestWhatAChildHoldsIsThereAgainInTheSameDirectory(t *testing.T) {
	if !withServer(t) {
		return
	}
	o := &localredis.Options{Kind: localredis.Child, Dir: private(t)}
	r := open(t, "", o)
	if err := r.Client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := open(t, "", o).Client.Get(t.Context(), "k").Result(); got != "v" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestADirectoryThatIsNotPrivateIsRefused(t *testing.T) {
	if !withServer(t) {
		return
	}
	public := private(t)
	if err := os.Chmod(public, 0o755); err != nil {
		t.Fatal(err)
	}
	used := private(t)
	first := open(t, "", &localredis.Options{Dir: used})
	for name, dir := range map[string]string{
		"one that others may enter":            public,
		"one that another child uses":          used,
		"one whose path no socket can have":    filepath.Join(private(t), strings.Repeat("d", 90)),
		"one whose path no socket has, nested": filepath.Join(private(t), strings.Repeat("d/", 60)),
	} {
		t.Run(name, func(t *testing.T) {
			for _, kind := range []localredis.Kind{"", localredis.Child} {
				if _, err := localredis.Open(t.Context(), "", &localredis.Options{Dir: dir, Kind: kind}); !errors.Is(err, localredis.ErrDir) {
					t.Errorf("kind %q: %v", kind, err)
				}
			}
		})
	}
	if err := first.Client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("the first child was disturbed: %v", err)
	}
}

// TestHelperHoldsAChild is the process that TestAChildDiesWithItsParent kills.
func TestHelperHoldsAChild(t *testing.T) {
	dir := os.Getenv("LOCALREDIS_HELPER_DIR")
	if dir == "" {
		return
	}
	r := open(t, "", &localredis.Options{Kind: localredis.Child, Dir: dir})
	fmt.Printf("child %d\n", pidOf(t, r))
	io.Copy(io.Discard, os.Stdin) // until killed
}

func TestAChildDiesWithItsParent(t *testing.T) {
	if !withServer(t) {
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperHoldsAChild$")
	cmd.Env = append(os.Environ(), "LOCALREDIS_HELPER_DIR="+private(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscanf(out, "child %d\n", &pid); err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Fatal("no child")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for !gone(pid) && !zombie(pid) {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("process %d outlived its parent", pid)
		}
	}
}

// zombie reports whether a process has ended and waits for whoever adopted it.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && bytes.Contains(stat, []byte(") Z "))
}

func TestWithoutARedisServerTheQueueRunsInTheProcessAndSaysSo(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "redis-server"), []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, why string }{
		"none in PATH":               {t.TempDir(), "no redis-server in PATH"},
		"one that ends at its start": {broken, "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			var log bytes.Buffer
			r := open(t, "", &localredis.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if r.Kind != localredis.InProcess || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), c.why) {
				t.Errorf("%s\n%s", r.Kind, &log)
			}
			if err := r.Client.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			if _, err := localredis.Open(t.Context(), "", &localredis.Options{Kind: localredis.Child}); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("a child that was asked for: %v", err)
			}
		})
	}
}

func TestTimePassesInsideTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := localredis.Open(t.Context(), "", &localredis.Options{Kind: localredis.InProcess})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if err := r.Client.Set(t.Context(), "k", "v", 90*time.Second).Err(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			after time.Duration
			left  int64
		}{{0, 1}, {80 * time.Second, 1}, {15 * time.Second, 0}} {
			time.Sleep(c.after)
			if n, err := r.Client.Exists(t.Context(), "k").Result(); n != c.left || err != nil {
				t.Errorf("after %s more: %d, %v", c.after, n, err)
			}
		}
	})
}

// fake speaks as much of the protocol as Open asks for; without info, not even
// that.
func fake(t *testing.T, info string) (url string) {
	t.Helper()
	s, err := server.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if info != "" {
		if err := errors.Join(
			s.Register("AUTH", func(c *server.Peer, _ string, _ []string) { c.WriteOK() }),
			s.Register("INFO", func(c *server.Peer, _ string, _ []string) { c.WriteBulk(info) }),
		); err != nil {
			t.Fatal(err)
		}
	}
	return "redis://:s3cret@" + s.Addr().String()
}

func TestANamedRedisMustBeNewEnough(t *testing.T) {
	for _, c := range []struct {
		name, info string
		too        bool
		ok         bool
	}{
		{"7.0 is new enough", "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n", false, true},
		{"6.2 is new enough", "# Server\r\nredis_version:6.2.0\r\n", false, true},
		{"10.0 is new enough", "# Server\r\nredis_version:10.0.1\r\n", false, true},
		{"6.0 is too old", "# Server\r\nredis_version:6.0.16\r\n", true, false},
		{"5.9 is too old", "# Server\r\nredis_version:5.9.103\r\n", true, false},
		{"one that says nothing is refused", "# Server\r\n", false, false},
		{"one that repeats the password is refused", "", false, false},
		{"one that talks nonsense is refused", "# Server\r\nredis_version:new\r\n", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := localredis.Open(t.Context(), fake(t, c.info), nil)
			if err == nil {
				defer r.Close()
			}
			if (err == nil) != c.ok || errors.Is(err, localredis.ErrTooOld) != c.too {
				t.Errorf("%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// A server that answers, and not this question, is not said to be silent.
func TestARedisThatDoesNotLetTheUserAskSaysSo(t *testing.T) {
	for _, reply := range []string{"NOPERM User ana has no permissions to run the 'info' command", "ERR unknown command 'INFO'"} {
		s, err := server.NewServer("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		if err := s.Register("INFO", func(c *server.Peer, _ string, _ []string) { c.WriteError(reply) }); err != nil {
			t.Fatal(err)
		}
		if _, err := localredis.Open(t.Context(), "redis://"+s.Addr().String(), nil); err == nil || !strings.Contains(err.Error(), "let it run INFO") || strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v", reply, err)
		}
	}
}

func TestWhatCannotBeOpened(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		url  string
		kind localredis.Kind
	}{
		"a URL that does not parse":   {t.Context(), "redis://:s3cret@host:port", ""},
		"a URL of another scheme":     {t.Context(), "https://:s3cret@127.0.0.1", ""},
		"nobody there":                {t.Context(), "unix://s3cret@" + filepath.Join(t.TempDir(), "none"), ""},
		"a URL, and another kind":     {t.Context(), "redis://:s3cret@127.0.0.1:1", localredis.Child},
		"the kind url without one":    {t.Context(), "", localredis.URL},
		"a kind that does not exist":  {t.Context(), "", "cloud"},
		"a caller who gave up before": {ended, "unix:///none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := localredis.Open(c.ctx, c.url, &localredis.Options{Kind: c.kind})
			if err == nil {
				r.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

func TestANamedRedisIsUsedAndLeftRunning(t *testing.T) {
	if !withServer(t) {
		return
	}
	dir := private(t)
	open(t, "", &localredis.Options{Dir: dir})
	url := "unix://" + filepath.Join(dir, "r.sock")
	for range 2 {
		r, err := localredis.Open(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != localredis.URL {
			t.Errorf("found %s", r.Kind)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A server that may evict keys says by which policy; one of our own evicts none.
func TestAServerThatEvictsKeysSaysSo(t *testing.T) {
	if r := open(t, "", &localredis.Options{Kind: localredis.InProcess}); r.Kind != localredis.InProcess {
		t.Fatal(r.Kind)
	} else if policy, err := r.Evicts(t.Context()); policy != "" || err != nil {
		t.Errorf("in process: %q, %v", policy, err)
	}
	if !withServer(t) {
		return
	}
	dir := private(t)
	own := open(t, "", &localredis.Options{Dir: dir})
	named, err := localredis.Open(t.Context(), "unix://"+filepath.Join(dir, "r.sock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { named.Close() })
	for set, want := range map[string]string{"noeviction": "", "allkeys-lru": "allkeys-lru", "volatile-ttl": "volatile-ttl"} {
		if err := own.Client.ConfigSet(t.Context(), "maxmemory-policy", set).Err(); err != nil {
			t.Fatal(err)
		}
		if policy, err := named.Evicts(t.Context()); policy != want || err != nil {
			t.Errorf("%s: %q, %v", set, policy, err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := named.Evicts(over); err == nil {
		t.Error("a server that was not asked evicts nothing")
	}
}

func ExampleOpen() {
	r, err := localredis.Open(context.Background(), "", &localredis.Options{Kind: localredis.InProcess})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	fmt.Println(r.Kind, r.Client.Ping(context.Background()).Val())
	// Output: in-process PONG
}
