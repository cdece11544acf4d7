package localredis_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/promotion/localredis"
)

func temporaries(t *testing.T, in string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(in, "hearsay-redis-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestHelperHoldsATemporaryChild is the process that the test below kills.
func TestHelperHoldsATemporaryChild(t *testing.T) {
	if os.Getenv("LOCALREDIS_HELPER_TEMPORARY") == "" {
		return
	}
	open(t, "", &localredis.Options{Kind: localredis.Child})
	os.Stdout.WriteString("there\n")
	io.Copy(io.Discard, os.Stdin) // until killed
}

func TestTheDirectoryOfAKilledProcessGoesWhenTheNextOneStarts(t *testing.T) {
	if !withServer(t) {
		return
	}
	in := private(t)
	t.Setenv("TMPDIR", in)
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperHoldsATemporaryChild$")
	cmd.Env = append(os.Environ(), "LOCALREDIS_HELPER_TEMPORARY=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 6); !func() bool { n, err := out.Read(b); return err == nil && bytes.HasPrefix(b[:n], []byte("there")) }() {
		t.Fatal("no child")
	}
	used := temporaries(t, in)
	if len(used) != 1 {
		t.Fatalf("%q", used)
	}
	long := time.Now().Add(-time.Hour)
	old := func(dir string) {
		t.Helper()
		if err := os.Chtimes(dir, long, long); err != nil {
			t.Fatal(err)
		}
	}
	old(used[0])
	second := open(t, "", &localredis.Options{Kind: localredis.Child})
	if _, err := os.Stat(used[0]); err != nil {
		t.Fatalf("the directory of a process that lives was taken away: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	old(used[0])

	// What is not of a child, or of who knows whom, stays.
	others := filepath.Join(in, "hearsay-redis-unlocked")
	target := filepath.Join(in, "elsewhere")
	for _, dir := range []string{others, target} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		old(dir)
	}
	if err := os.WriteFile(filepath.Join(target, "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old(target)
	link := filepath.Join(in, "hearsay-redis-link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	open(t, "", &localredis.Options{Kind: localredis.Child})
	left := temporaries(t, in)
	if len(left) != 4 { // of both that live, the unlocked one and the link
		t.Errorf("there are %q", left)
	}
	for _, dir := range left {
		if strings.HasPrefix(dir, used[0]) {
			t.Errorf("%s is left", dir)
		}
	}
	if _, err := os.Stat(filepath.Join(target, "lock")); err != nil {
		t.Errorf("what a link leads to was touched: %v", err)
	}
	if err := second.Client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("a child that lives was disturbed: %v", err)
	}
}
