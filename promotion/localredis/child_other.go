//go:build !linux

package localredis

import "os/exec"

// dieWithParent is known on Linux only; elsewhere Close ends the child.
func dieWithParent(*exec.Cmd) {}

func keepThread() (unlock func()) { return func() {} }

// lock is known on Linux only; elsewhere two processes must be given two directories.
func lock(string) (unlock func() error, err error) { return func() error { return nil }, nil }

// sweep is known on Linux only: elsewhere nobody can tell which directories are in use.
func sweep(string) {}
