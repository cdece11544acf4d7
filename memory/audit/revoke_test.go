package audit_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// A revocation that a restored copy lost is noticed, and the gate stays closed until it
// was made again: nobody but a person with a key can say what it was of.
func TestTheGateStaysClosedUntilALostRevocationIsMadeAgain(t *testing.T) {
	keys, err := keyring.Create(filepath.Join(t.TempDir(), "keys"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &restored{T: t, dir: t.TempDir(), keys: keys}
	if r.witness, err = audit.CreateWitness(filepath.Join(t.TempDir(), "witness")); err != nil {
		t.Fatal(err)
	}
	defer r.witness.Close()
	r.open(true)
	id := r.put(memory.Content{Subject: "acme", Predicate: "email", Object: "a@acme.example", Cardinality: memory.CardinalityFunctional})
	revoke := func() error {
		_, revision, err := r.store.Revocations(t.Context())
		if err != nil {
			return err
		}
		return r.store.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: time.Unix(1, 0), By: "ops", Reason: "it lied"}, revision)
	}
	yesterday := r.copy()
	r.open(true)
	if err := revoke(); err != nil {
		t.Fatal(err)
	}
	_ = r.copy()
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(filepath.Join(r.dir, "a.db") + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, "a.db"), yesterday, 0o600); err != nil {
		t.Fatal(err)
	}
	r.open(true)
	defer func() { r.store.Close() }()
	closed := func(when string) {
		t.Helper()
		if fit, err := r.fit(id); fit || !errors.Is(err, memory.ErrBehind) {
			t.Fatalf("%s: fit %t, %v", when, fit, err)
		}
	}
	closed("after the restore")
	if _, err := r.store.Recover(t.Context(), "op"); !errors.Is(err, memory.ErrBehind) {
		t.Fatal("recovered from a revocation that nobody made again:", err)
	}
	closed("after a recovery that failed")
	// Else a record of another kind would stand in for the one that was lost.
	if err := r.store.Reinstate(t.Context(), memory.RevokedVerifier, "crm", "", memory.Reinstatement{By: "ops", Reason: "it was mended"}, 0); !errors.Is(err, memory.ErrBehind) {
		t.Fatal("reinstated on a store that lost a revocation:", err)
	}
	// It is written; the witness knows another entry of that name, which recovery settles.
	if err := revoke(); !errors.Is(err, memory.ErrUnwitnessed) {
		t.Fatal(err)
	}
	if _, err := r.store.Recover(t.Context(), "op"); err != nil {
		t.Fatal(err)
	}
	if fit, err := r.fit(id); fit || err != nil {
		t.Fatalf("the row is fit: %t, %v", fit, err)
	}
	if w, err := r.store.WalkRevocations(t.Context(), nil); err != nil || w.Withdrawn != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
	if _, err := r.store.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}
