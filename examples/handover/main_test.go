package main

import (
	"os"
	"testing"

	"github.com/hearsay-go/hearsay/examples/internal/golden"
	"github.com/hearsay-go/hearsay/internal/testmain"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "payer" {
		main() // the second process of the example
		return
	}
	testmain.Run(m)
}

func TestTheExampleTellsItsStory(t *testing.T) { golden.Check(t, main) }
