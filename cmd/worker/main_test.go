package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the tests, or, in a child process, the real program.
func TestMain(m *testing.M) {
	if os.Getenv("HEARSAY_TEST_AS_PROGRAM") != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}
