//go:build !linux

package localredis

import "os/exec"

// dieWithParent is known on Linux only; elsewhere Close ends the child.
func dieWithParent(*exec.Cmd) {}

func keepThread() (unlock func()) { return func() {} }
