package keyring_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory/keyring"
)

// A ring that moves from its file to the environment opens with the one key or with the
// other, whichever operation it is interrupted at, and with the new one once it has moved.
func TestARingThatMovesToAnotherWrappingKeyOpensWithOneOfThem(t *testing.T) {
	cut := errors.New("cut short")
	moved, stayed := 0, 0
	for at := 1; ; at++ {
		for _, done := range []bool{false, true} {
			dir := filepath.Join(t.TempDir(), "keys")
			made, err := keyring.Create(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			id, err := made.Key(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			sealed, err := made.Seal(t.Context(), id, []byte("about ann"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := made.Close(); err != nil {
				t.Fatal(err)
			}
			to, err := keyring.ParseWrapping("1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
			if err != nil {
				t.Fatal(err)
			}
			n, armed := 0, false
			k, err := keyring.OpenWith(dir, func(_, _ string, act func() error) error {
				if !armed {
					return act()
				}
				if n++; n < at {
					return act()
				}
				if n == at && done {
					return errors.Join(act(), cut)
				}
				return cut
			})
			if err != nil {
				t.Fatal(err)
			}
			armed = true
			rewrapped := k.Rewrap(t.Context(), to)
			armed = false
			_ = k.Close()
			opens := 0
			for i, o := range []*keyring.Options{nil, {Wrapping: to}} {
				again, err := keyring.Open(dir, o)
				if errors.Is(err, keyring.ErrWrapping) {
					continue
				}
				if err != nil {
					t.Fatalf("operation %d: %v", at, err)
				}
				if got, err := again.Open(t.Context(), id, sealed, nil); err != nil || string(got) != "about ann" {
					t.Fatalf("operation %d: %q %v", at, got, err)
				}
				if opens++; i == 0 {
					stayed++
				} else {
					moved++
				}
				if err := again.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if opens != 1 {
				t.Fatalf("operation %d: the ring opens with %d of the two keys", at, opens)
			}
			if n < at {
				if rewrapped != nil || moved < 2 || stayed < 2 {
					t.Fatalf("%v: moved %d times, stayed %d times", rewrapped, moved, stayed)
				}
				t.Logf("%d operations: moved %d times, stayed %d times", n, moved, stayed)
				return
			}
		}
	}
}
