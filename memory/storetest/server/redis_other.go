//go:build !linux

package server

import "os/exec"

// redisChild is of use on Linux only; elsewhere Stop ends the child.
func redisChild(*exec.Cmd) (hold func()) { return func() {} }
