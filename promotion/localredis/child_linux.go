package localredis

import (
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
