package localredis

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// dieWithParent ends the child when this process is gone, however it went.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}

// keepThread holds the calling goroutine to its thread until the result is called.
func keepThread() (unlock func()) {
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// lock holds a file for this process until the result is called, or it ends.
func lock(path string) (unlock func() error, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("in use by another process"), f.Close())
	}
	return f.Close, nil
}

// unclaimed is how old a directory is before it can be taken for one that was left: its
// owner has locked it long since.
const unclaimed = time.Minute

// sweep removes the temporary directories of children whose process was killed: those of
// this user that nobody holds. What stands in the way of that stands there later too.
func sweep(in string) {
	found, _ := filepath.Glob(filepath.Join(in, temporary+"*"))
	for _, dir := range found {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 || time.Since(info.ModTime()) < unclaimed {
			continue
		}
		if of, ok := info.Sys().(*syscall.Stat_t); !ok || int(of.Uid) != os.Getuid() {
			continue
		}
		if _, err := os.Lstat(filepath.Join(dir, lockName)); err != nil {
			continue // it is of a release that did not lock them
		}
		if free, err := lock(filepath.Join(dir, lockName)); err == nil {
			_ = os.RemoveAll(dir)
			_ = free()
		}
	}
}
