package asynqqueue_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	server.Together(8)
	goleak.VerifyTestMain(m)
}
