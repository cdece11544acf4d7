package keyring_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

// childPath, if it is set, is the folder of a ring that this process works on
// until it is killed.
const childPath = "KEYRING_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childPath); dir != "" {
		if err := child(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	testmain.Run(m)
}
