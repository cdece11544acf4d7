package localredis

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
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
