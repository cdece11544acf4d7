package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
)

func TestAStoreThatHadAWitnessDoesNotGoOnWithoutIt(t *testing.T) {
	fault.Unwitnessed(t, storetest.NewMap())
}

func TestAWitnessIsKnownByItsIdentity(t *testing.T) {
	w, path := newWitness(t)
	if w.Identity() == (memory.Token{}) {
		t.Fatal("it has none")
	}
	if again := openWitness(t, path); again.Identity() != w.Identity() {
		t.Fatal("opened again it is another one")
	}
	t.Run("one of an earlier release gets one when it is opened to be written", func(t *testing.T) {
		old := filepath.Join(t.TempDir(), "witness")
		must(t, os.WriteFile(old, []byte("832c9b93 {\"hearsay_witness\":1}\n"), 0o600))
		first, err := audit.OpenWitness(old)
		must(t, err)
		defer first.Close()
		if first.Identity() == (memory.Token{}) || openWitness(t, old).Identity() != first.Identity() {
			t.Fatal("it has none that lasts")
		}
	})
	t.Run("another one that is put in its place is refused while it is open", func(t *testing.T) {
		other, otherPath := newWitness(t)
		must(t, other.Close())
		must(t, os.Rename(otherPath, path))
		if err := w.Ledger("default", "").Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/a", 1, 1)}); err == nil {
			t.Fatal("it was told")
		}
	})
}
