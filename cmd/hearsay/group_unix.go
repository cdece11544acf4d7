//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// ownGroup keeps the signals of a terminal from a child: the proxy ends it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
