package teststore_test

import (
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
)

func TestMain(m *testing.M) { testmain.Run(m, teststore.Stop) }

func TestTwoStoresOfAServerAreApart(t *testing.T) {
	apart, skipped := map[string]bool{}, false
	for _, kind := range teststore.Kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Cleanup(func() { skipped = skipped || t.Skipped() })
			d := teststore.Open(t, kind)
			inspection, err := d.Inspect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			other := teststore.Open(t, kind)
			put := memory.Batch{Puts: []memory.Put{{Key: "k", Data: []byte("x")}}}
			for range 2 { // each finds a store without the object
				if err := d.Apply(t.Context(), "t", put); err != nil {
					t.Error(err)
				}
				d, other = other, d
			}
			for _, d := range []memory.Driver{d, other} {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
			apart[inspection.Server] = true
		})
	}
	if skipped {
		return // a server that is not installed; in CI that is a failure
	}
	if len(apart) != len(teststore.Kinds()) || !slices.Equal(teststore.Durable(), teststore.Kinds()[1:]) {
		t.Errorf("%d kinds of %v were met: %v", len(apart), teststore.Kinds(), apart)
	}
}
