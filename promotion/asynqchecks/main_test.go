package asynqchecks_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

func TestMain(m *testing.M) {
	server.Together(16)
	testmain.Run(m, stopShared)
}
