package hearsay_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

// leave ends a child that TestACheckLeavesNoServerBehind started; nil where there is no such
// test.
var leave func(dir string) error

func TestMain(m *testing.M) {
	if dir := os.Getenv("HEARSAY_TEST_LEAVES"); dir != "" && leave != nil {
		if err := leave(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testmain.Run(m)
}
