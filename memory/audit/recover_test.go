package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// restored is a store whose file is put back to yesterday's copy, with a witness
// that is not.
type restored struct {
	*testing.T
	dir     string
	keys    memory.Keys
	store   *memory.Store
	witness *audit.Witness
}

func (r *restored) open(witnessed bool) {
	r.Helper()
	d, err := sqlitestore.Open(r.Context(), filepath.Join(r.dir, "a.db"), nil)
	if err != nil {
		r.Fatal(err)
	}
	o := &memory.Options{Authority: func(string, string, string) bool { return true }}
	if witnessed {
		o.Witness = r.witness.Ledger("default", "")
	}
	if r.store, err = memory.New(d, r.keys, o); err != nil {
		r.Fatal(err)
	}
}

// copy closes the store and returns what its file holds.
func (r *restored) copy() []byte {
	r.Helper()
	if err := r.store.Close(); err != nil {
		r.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(r.dir, "a.db"))
	if err != nil {
		r.Fatal(err)
	}
	return b
}

func (r *restored) put(content memory.Content, from ...memory.ID) memory.ID {
	r.Helper()
	by := memory.Asserter{Principal: "bench", Tool: "crm"}
	w, err := r.store.Put(r.Context(), memory.Draft{Content: content, Origin: memory.OriginFirstHand, State: memory.StateVerified, Asserter: by, DerivedFrom: from,
		Sensitivity: memory.SensitivityInternal, Evidence: []memory.Evidence{{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm", Group: by.Group(), At: time.Now()}}})
	if err != nil {
		r.Fatal(err)
	}
	return w.ID
}

func (r *restored) fit(id memory.ID) (bool, error) {
	f, err := r.store.Fitness(r.Context(), []memory.ID{id})
	return err == nil && f.Heads[0].State() == memory.StateVerified, err
}

func TestTheGateStaysClosedUntilAcknowledgedDemotionsAndErasuresAreBack(t *testing.T) {
	for _, witnessed := range []bool{false, true} {
		name := "with a witness"
		if !witnessed {
			name = "without one, the baseline: the demotion is undone and nobody notices"
		}
		t.Run(name, func(t *testing.T) {
			keys, err := keyring.Create(filepath.Join(t.TempDir(), "keys"), nil)
			if err != nil {
				t.Fatal(err)
			}
			r := &restored{T: t, dir: t.TempDir(), keys: keys}
			if r.witness, err = audit.CreateWitness(filepath.Join(t.TempDir(), "witness")); err != nil {
				t.Fatal(err)
			}
			defer r.witness.Close()
			r.open(witnessed)
			demoted := r.put(memory.Content{Subject: "acme", Predicate: "email", Object: "a@acme.example", Cardinality: memory.CardinalityFunctional})
			erased := r.put(memory.Content{Subject: "eve", Predicate: "lives in", Object: "Oslo", Cardinality: memory.CardinalityFunctional})
			made := r.put(memory.Content{Subject: "parcel 1", Predicate: "goes to", Object: "Oslo", Cardinality: memory.CardinalityFunctional}, erased)
			kept := r.put(memory.Content{Subject: "bolt", Predicate: "email", Object: "b@bolt.example", Cardinality: memory.CardinalityFunctional})
			yesterday := r.copy()

			r.open(witnessed)
			if _, err := r.store.Apply(t.Context(), memory.Transition{Row: demoted, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana", Source: "form", Reason: "wrong", Reject: true}); err != nil {
				t.Fatal(err)
			}
			if _, err := r.store.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-1", Actor: "dpo"}); err != nil {
				t.Fatal(err)
			}
			_ = r.copy()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Remove(filepath.Join(r.dir, "a.db") + suffix); err != nil && suffix == "" {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile(filepath.Join(r.dir, "a.db"), yesterday, 0o600); err != nil {
				t.Fatal(err)
			}

			r.open(witnessed)
			defer func() { r.store.Close() }()
			if !witnessed {
				if fit, err := r.fit(demoted); !fit {
					t.Fatal("the baseline does not show the danger:", err)
				}
				// Even so, what was erased cannot be read: its key is gone.
				if _, err := r.store.Get(t.Context(), erased); !errors.Is(err, memory.ErrErased) {
					t.Fatal(err)
				}
				if _, err := r.store.Get(t.Context(), made); !errors.Is(err, memory.ErrErased) {
					t.Fatal(err)
				}
				return
			}
			for _, id := range []memory.ID{demoted, kept} {
				if fit, err := r.fit(id); fit || !errors.Is(err, memory.ErrBehind) {
					t.Fatalf("the gate is open: %t, %v", fit, err)
				}
			}
			if err := r.store.Record(t.Context(), memory.DecisionRecord{ID: r.store.NewDecisionID(), Tool: "mail", Run: "r", Fired: true, Rows: []memory.Cited{{Row: kept, Revision: 1}}}); !errors.Is(err, memory.ErrBehind) {
				t.Fatalf("a call fired: %v", err)
			}
			if err := r.witness.Accept(t.Context(), r.store); !errors.Is(err, memory.ErrBehind) {
				t.Fatalf("the older copy was accepted as it is: %v", err)
			}
			done, err := r.store.Recover(t.Context(), "operator")
			if err != nil || done.Demoted != 1 || done.Erased != 2 {
				t.Fatal(done, err)
			}
			if fit, err := r.fit(demoted); fit || err != nil {
				t.Fatal("the demotion is not back:", err)
			}
			if fit, err := r.fit(kept); !fit {
				t.Fatal("the gate is closed:", err)
			}
			for _, id := range []memory.ID{erased, made} {
				if _, err := r.store.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
					t.Fatal(err)
				}
			}
			if _, err := r.store.Verify(t.Context(), nil, nil); err != nil {
				t.Fatal(err)
			}
			if again, err := r.store.Recover(t.Context(), "operator"); err != nil || again != (memory.Recovered{}) {
				t.Fatal(again, err)
			}
			if err := r.witness.Accept(t.Context(), r.store); !errors.Is(err, memory.ErrInvalid) {
				t.Fatalf("a store without a checkpoint was accepted: %v", err)
			}
			// The record of the erasure is back, so that it can be made again.
			for range 2 {
				if _, err := r.store.Erase(t.Context(), memory.Erasure{Subject: "eve", Request: "R-2", Actor: "dpo"}); err != nil {
					t.Fatal(err)
				}
			}
			n := 0
			for e, err := range r.store.Erasures(t.Context()) {
				if n++; err != nil || e.Open || e.Completed.IsZero() || e.Subject.String() != r.store.SubjectDigest("eve") {
					t.Fatalf("%+v %v", e, err)
				}
			}
			if n != 1 {
				t.Fatalf("%d records of erasures", n)
			}
		})
	}
}

// failingWitness does not confirm.
type failingWitness struct{ memory.Witness }

func (failingWitness) Acknowledge(context.Context, memory.EntryKind, []memory.Leaf) error {
	return errors.New("the disk is full")
}

func (failingWitness) Behind(context.Context, *memory.Store) ([]memory.Leaf, error) { return nil, nil }

func TestADemotionThatTheWitnessDidNotConfirmIsNotAcknowledged(t *testing.T) {
	r := &restored{T: t}
	r.store = storetest.NewStore(&memory.Options{Witness: failingWitness{}})
	id := r.put(memory.Content{Subject: "acme", Predicate: "email", Object: "a@acme.example", Cardinality: memory.CardinalityFunctional})
	_, err := r.store.Apply(t.Context(), memory.Transition{Row: id, Revision: 1, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "s", Source: "s", Reason: "r"})
	if !errors.Is(err, memory.ErrUnwitnessed) {
		t.Fatal(err)
	}
	if f, err := r.store.Fitness(t.Context(), []memory.ID{id}); err != nil || f.Heads[0].Security != memory.SecurityQuarantined {
		t.Fatal("it must hold all the same:", err)
	}
}
