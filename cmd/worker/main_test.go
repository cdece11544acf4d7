package main

import (
	"os"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// TestMain runs the tests, or, in a child process, the real program.
func TestMain(m *testing.M) {
	if os.Getenv("HEARSAY_TEST_AS_PROGRAM") != "" {
		lastPatience = patience
		main()
	}
	server.Together(8)
	testmain.Run(m)
}
