package storetest

import (
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// NewStore returns a store over [NewMap], with keys that end with the process:
// for tests and examples of what stands on a store. It panics if the options are
// malformed.
func NewStore(o *memory.Options) *memory.Store { return On(NewMap(), o) }

// On is NewStore over another driver.
func On(d memory.Driver, o *memory.Options) *memory.Store {
	s, err := memory.New(d, keyring.Ephemeral(), o)
	if err != nil {
		panic("storetest: " + err.Error())
	}
	return s
}
