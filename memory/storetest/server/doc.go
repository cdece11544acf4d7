// Package server starts private servers for tests and benchmarks: each with its
// files in a folder of its own, reachable from this machine only, and gone when it
// is stopped.
package server
