package keyring_test

import (
	"testing"

	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/keyring/ringtest"
)

func TestARingInAFolderDoesWhatEveryRingDoes(t *testing.T) {
	t.Parallel()
	ringtest.Run(t, func(t *testing.T) ringtest.Opener {
		dir := fresh(t)
		create(t, dir)
		return func() (*keyring.Ring, error) { return keyring.Open(dir, &keyring.Options{Cache: 8}) }
	})
}

func TestAnEphemeralRingDoesWhatEveryRingDoes(t *testing.T) {
	t.Parallel()
	ringtest.Run(t, func(t *testing.T) ringtest.Opener {
		k := keyring.Ephemeral()
		return func() (*keyring.Ring, error) { return k, nil }
	})
}
