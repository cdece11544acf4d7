package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/hearsay-go/hearsay/examples/internal/golden"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "payer" {
		main() // the second process of the example
		return
	}
	goleak.VerifyTestMain(m)
}

func TestTheExampleTellsItsStory(t *testing.T) { golden.Check(t, main) }
