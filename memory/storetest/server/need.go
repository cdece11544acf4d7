package server

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"strconv"
)

// Need ends a test that has no server: a test is skipped where the program is not
// installed, and fails for any other reason and wherever the variable CI is set. tb
// is a [testing.TB].
func Need(tb interface {
	Helper()
	Skip(args ...any)
	Fatal(args ...any)
}, err error) {
	tb.Helper()
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "":
		tb.Skip(err)
	default:
		tb.Fatal(err)
	}
}

// Together lets n parallel tests of a package run at a time, however few processors
// there are, unless the flag -parallel says otherwise: tests of servers wait for most
// of their time. It is called first in TestMain, and parses the flags.
func Together(n int) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if said {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // not in a test
	}
}
