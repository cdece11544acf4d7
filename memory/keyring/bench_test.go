package keyring_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

func benchRing(b *testing.B) (*keyring.Ring, memory.KeyID) {
	b.Helper()
	k, err := keyring.Create(filepath.Join(b.TempDir(), "keys"), nil)
	if err != nil {
		b.Fatal(err)
	}
	c, err := k.Key(b.Context(), "ann")
	if err != nil {
		b.Fatal(err)
	}
	return k, c
}

var row = bytes.Repeat([]byte("x"), 300)

func BenchmarkSeal300Bytes(b *testing.B) {
	k, c := benchRing(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Seal(b.Context(), c, row, []byte("row 1")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen300Bytes(b *testing.B) {
	k, c := benchRing(b)
	sealed, err := k.Seal(b.Context(), c, row, []byte("row 1"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Open(b.Context(), c, sealed, []byte("row 1")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkKnownKey(b *testing.B) {
	k, _ := benchRing(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := k.Key(b.Context(), "ann"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewKey(b *testing.B) {
	k, _ := benchRing(b)
	n := 0
	for b.Loop() {
		n++
		if _, err := k.Key(b.Context(), fmt.Sprint("subject ", n)); err != nil {
			b.Fatal(err)
		}
	}
}

// The subject is one among a thousand.
func BenchmarkRetireAndDestroyAmongAThousandKeys(b *testing.B) {
	k, _ := benchRing(b)
	for n := range 1000 {
		if _, err := k.Key(b.Context(), fmt.Sprint("subject ", n)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := k.Key(b.Context(), "bob"); err != nil {
			b.Fatal(err)
		}
		keys, err := k.Retire(b.Context(), "bob")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := k.Destroy(b.Context(), keys...); err != nil {
			b.Fatal(err)
		}
	}
}

// The process has used none of the keys.
func BenchmarkSubjectAmongTenThousandUnusedKeys(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "keys")
	k, err := keyring.Create(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	for n := range 10_000 {
		if _, err := k.Key(b.Context(), fmt.Sprint("subject ", n)); err != nil {
			b.Fatal(err)
		}
	}
	if k, err = keyring.Open(dir, nil); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if list, err := k.Subject(b.Context(), "subject 77"); err != nil || len(list) != 1 {
			b.Fatal(list, err)
		}
	}
}
