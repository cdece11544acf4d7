package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/hearsay-go/hearsay/examples/internal/golden"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheExampleTellsItsStory(t *testing.T) { golden.Check(t, main) }
