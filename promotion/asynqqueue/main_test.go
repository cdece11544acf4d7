package asynqqueue_test

import (
	"flag"
	"testing"

	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"go.uber.org/goleak"
)

// TestMain fixes the seed of the property tests, so that a landing does not depend on
// what they draw. The flag -rapid.seed overrides it: it is parsed after this.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.seed", "20261125"); err != nil {
		panic(err)
	}
	server.Together(8)
	goleak.VerifyTestMain(m)
}
