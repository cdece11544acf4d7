package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// What is sealed for a subject opens until her keys are destroyed, and what is
// written about her afterwards is of new ones.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	keys, err := keyring.OpenOrCreate(filepath.Join(dir, "agent.keys"), nil)
	if err != nil {
		panic(err)
	}
	ann, err := keys.Key(ctx, "ann")
	if err != nil {
		panic(err)
	}
	sealed, err := keys.Seal(ctx, ann, []byte("Ann is allergic to nuts"), []byte("row 1"))
	if err != nil {
		panic(err)
	}
	text, err := keys.Open(ctx, ann, sealed, []byte("row 1"))
	fmt.Printf("%s, %v\n", text, err)

	retired, err := keys.Retire(ctx, "ann")
	if err != nil {
		panic(err)
	}
	if _, err := keys.Destroy(ctx, retired...); err != nil {
		panic(err)
	}
	_, err = keys.Open(ctx, ann, sealed, []byte("row 1"))
	fmt.Println(errors.Is(err, memory.ErrErased))
	anew, err := keys.Key(ctx, "ann")
	fmt.Println(anew != ann, err)
	// Output:
	// Ann is allergic to nuts, <nil>
	// true
	// true <nil>
}
