package main

import (
	"testing"

	"github.com/hearsay-go/hearsay/examples/internal/golden"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

func TestTheExampleTellsItsStory(t *testing.T) { golden.Check(t, main) }
