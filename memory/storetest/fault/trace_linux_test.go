package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// TestATraceOfAProcessWhoseMainThreadHasEndedStops: strace 6.1 does not end on SIGINT
// while it traces such a process.
func TestATraceOfAProcessWhoseMainThreadHasEndedStops(t *testing.T) {
	runtime.LockOSThread() // the child ends with the thread that started it
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), endsMainThread+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	trace, err := Follow(t.Context(), filepath.Join(t.TempDir(), "trace"), false, child.Process.Pid)
	if errors.Is(err, ErrNoTrace) {
		Untraced(t)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
	for late := time.Now().Add(time.Minute); alive(child.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the main thread does not end")
		}
	}
	if _, err := trace.Stop(); err != nil {
		t.Fatal(err)
	}
}

// endsMainThread is set for a process whose main thread is to end alone.
const endsMainThread = "HEARSAY_TEST_ENDS_MAIN_THREAD"

func init() {
	if os.Getenv(endsMainThread) == "" {
		return
	}
	runtime.LockOSThread() // init runs on the main thread; the runtime has others
	_, _ = os.Stdin.Read(make([]byte, 1))
	_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT, 0, 0, 0)
}
