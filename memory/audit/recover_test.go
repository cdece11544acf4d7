package audit_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
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
	driver  *carrying
	witness *audit.Witness
}

// carrying remembers which terms were ever carried.
type carrying struct {
	memory.Driver
	mu    sync.Mutex
	terms map[string]bool
}

func (d *carrying) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	d.mu.Lock()
	for _, p := range b.Puts {
		for _, term := range p.Add {
			d.terms[term.Name] = true
		}
	}
	d.mu.Unlock()
	return d.Driver.Apply(ctx, tenant, b)
}

// carriers counts what carries a term beside the place of a log among the changes.
func (r *restored) carriers() (found map[string]int) {
	r.Helper()
	found = map[string]int{}
	for term := range r.driver.terms {
		hits, _, err := r.driver.Query(r.Context(), "default", memory.Query{Term: term, Limit: 1000})
		if err != nil {
			r.Fatal(err)
		}
		for _, h := range hits {
			if term != "L" {
				found[h.Key]++
			}
		}
	}
	return found
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
	if r.driver == nil {
		r.driver = &carrying{terms: map[string]bool{}}
	}
	r.driver.Driver = d
	if r.store, err = memory.New(r.driver, r.keys, o); err != nil {
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

// imports has a row imported that another store knows.
func (r *restored) imports(content memory.Content) memory.Receipt {
	r.Helper()
	i, err := r.store.Importing(r.Context(), memory.ImportSource{Name: "elsewhere", Dump: "1", Actor: "op"})
	if err != nil {
		r.Fatal(err)
	}
	d := memory.Draft{Content: content, Origin: memory.OriginFirstHand, State: memory.StateUnverified, Sensitivity: memory.SensitivityInternal,
		Asserter: memory.Asserter{Principal: "bench", Tool: "crm"}}
	out, err := i.Put(r.Context(), []memory.Imported{{Name: "there/1", Draft: d}}, func([]memory.ImportReceipt) []byte { return nil })
	if err != nil || len(out) != 1 {
		r.Fatal(out, err)
	}
	return out[0].Receipt
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
			named := r.put(memory.Content{Subject: "bill 12", Predicate: "was sent to", Object: "eve", Cardinality: memory.CardinalityFunctional})
			gone := []memory.ID{erased, made, named}
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
				if carried := r.carriers(); carried[bodyKey(erased)] < 5 {
					t.Fatalf("%v: nothing to be found by", carried)
				}
				return
			}
			for _, id := range []memory.ID{demoted, kept} {
				if fit, err := r.fit(id); fit || !errors.Is(err, memory.ErrBehind) {
					t.Fatalf("the gate is open: %t, %v", fit, err)
				}
			}
			if err := r.store.Record(t.Context(), memory.DecisionRecord{Epoch: 1, ID: r.store.NewDecisionID(), Tool: "mail", Run: "r", Fired: true, Rows: []memory.Cited{{Row: kept, Revision: 1}}}); !errors.Is(err, memory.ErrBehind) {
				t.Fatalf("a call fired: %v", err)
			}
			if err := r.witness.Accept(t.Context(), r.store); !errors.Is(err, memory.ErrBehind) {
				t.Fatalf("the older copy was accepted as it is: %v", err)
			}
			done, err := r.store.Recover(t.Context(), "operator")
			if err != nil || done.Demoted != 1 || done.Erased != len(gone) {
				t.Fatal(done, err)
			}
			if fit, err := r.fit(demoted); fit || err != nil {
				t.Fatal("the demotion is not back:", err)
			}
			if fit, err := r.fit(kept); !fit {
				t.Fatal("the gate is closed:", err)
			}
			carried := r.carriers()
			for _, id := range gone {
				if _, err := r.store.Get(t.Context(), id); !errors.Is(err, memory.ErrErased) {
					t.Fatal(err)
				}
				// The key of two of them is gone, so nobody can tell what they were found by.
				if n := carried[bodyKey(id)] + carried[memory.HeadKey(id)]; n > 0 {
					t.Errorf("%s still carries %d terms", id, n)
				}
				log, err := r.store.History(t.Context(), id, false)
				if err != nil || len(log) != 2 || !log[0].Erased || log[0].Actor != "" {
					t.Errorf("%+v %v: the key of the third is not", log, err)
				}
			}
			if carried[bodyKey(kept)] < 5 {
				t.Errorf("%v: what was not erased is not found either", carried)
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
			// What is said again is a new row, not one that was erased.
			again := r.put(memory.Content{Subject: "eve", Predicate: "lives in", Object: "Oslo", Cardinality: memory.CardinalityFunctional})
			if fit, err := r.fit(again); !fit || slices.Contains(gone, again) {
				t.Fatalf("said again it is %s, of %v: %v", again, gone, err)
			}
			imported := r.imports(memory.Content{Subject: "parcel 1", Predicate: "goes to", Object: "Oslo", Cardinality: memory.CardinalityFunctional})
			if imported.Disposition != memory.Created || slices.Contains(gone, imported.ID) {
				t.Fatalf("imported it is %+v, of %v", imported, gone)
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

// bodyKey is the key of what a row says.
func bodyKey(id memory.ID) string { return "b" + memory.HeadKey(id)[1:] }

// failingWitness does not confirm.
type failingWitness struct{ memory.Witness }

func (failingWitness) Acknowledge(context.Context, memory.EntryKind, []memory.Leaf) error {
	return errors.New("the disk is full")
}

func (failingWitness) Identity() memory.Token { return memory.Token{1} }

func (failingWitness) Acknowledged(context.Context, func(memory.EntryKind, memory.Leaf) error) error {
	return nil
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

// dumb is a witness that settles nothing.
type dumb struct{ memory.Witness }

func (dumb) Settle(context.Context, memory.EntryKind, memory.Leaf, memory.Leaf) error {
	return errors.New("the disk is full")
}

func TestAProcessThatMetADemotionRecoversTheStoreThatLostIt(t *testing.T) {
	b := newBench(t)
	w, _ := newWitness(t)
	open := func(w memory.Witness) {
		t.Helper()
		var err error
		b.Store, err = memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Witness: w})
		must(t, err)
	}
	ledger := w.Ledger("default", "")
	open(dumb{ledger})
	id := b.rows(2)[0]
	b.verified(id)
	key := memory.HeadKey(id)
	before := []memory.Restored{b.stored(key), b.stored("e/" + key[2:]), b.stored("d/" + key[2:])}
	log := b.log(key)
	back := func() { // the server is the same to the driver
		for _, l := range b.log(key)[len(log):] {
			b.rewrite(key, memory.LogEntry{Revision: l.Revision})
		}
		b.restore(before...)
	}
	closed := func(when string) {
		t.Helper()
		if _, err := b.Fitness(t.Context(), []memory.ID{id}); !errors.Is(err, memory.ErrBehind) {
			t.Fatalf("%s: %v", when, err)
		}
	}
	b.demoted(id)
	back()
	closed("after it was put back")
	if _, err := b.Recover(t.Context(), "operator"); err == nil || errors.Is(err, memory.ErrBehind) {
		t.Fatal("the witness settled nothing:", err)
	}
	back()
	closed("after a recovery that failed")
	open(ledger)
	closed("in another process")
	must(t, b.BumpEpoch(t.Context(), "operator", "it writes all the same"))
	if r, err := b.Recover(t.Context(), "operator"); err != nil || r.Demoted != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	f, err := b.Fitness(t.Context(), []memory.ID{id})
	if err != nil || f.Heads[0].State() == memory.StateVerified {
		t.Fatal("the demotion is not back:", err)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
	t.Run("and meets an older one once more", func(t *testing.T) {
		back()
		closed("after a recovery")
		if r, err := b.Recover(t.Context(), "operator"); err != nil || r.Demoted != 1 {
			t.Fatalf("%+v %v", r, err)
		}
	})
}
