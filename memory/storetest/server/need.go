package server

import (
	"errors"
	"os"
	"os/exec"
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
