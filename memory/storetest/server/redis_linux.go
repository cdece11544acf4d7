package server

import (
	"os/exec"
	"runtime"
	"syscall"
)

// redisChild makes a child end when this process does, however it went. What it
// returns is called by the goroutine that starts the child, which must then stay
// until the child is gone: the kernel goes by the thread.
func redisChild(cmd *exec.Cmd) (hold func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return runtime.LockOSThread
}
