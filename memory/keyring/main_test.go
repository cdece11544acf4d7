package keyring_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
)

// childPath, if it is set, is the folder of a ring that this process works on
// until it is killed.
const childPath = "KEYRING_TEST_CHILD"

// childSeed is what the child draws from.
const childSeed = "KEYRING_TEST_SEED"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childPath); dir != "" {
		seed, err := strconv.ParseUint(os.Getenv(childSeed), 10, 64)
		if err == nil {
			err = child(dir, seed)
		}
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	testmain.Run(m)
}
