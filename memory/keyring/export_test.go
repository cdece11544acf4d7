package keyring

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Fault runs an operation on a file, or does not.
type Fault = func(op, path string, act func() error) error

func CreateWith(dir string, fault Fault) (*Ring, error) {
	return create(&folder{dir: dir, fault: fault}, nil)
}

func OpenWith(dir string, fault Fault) (*Ring, error) {
	return open(&folder{dir: dir, fault: fault}, nil)
}

// Class is class, for tests.
func (k *Ring) Class(ctx context.Context, parents []memory.KeyID, subjects []string) (memory.KeyID, error) {
	return k.class(ctx, parents, subjects)
}
