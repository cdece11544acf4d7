package fault

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// Unwitnessed asks that a store which was once used with a witness does not act without
// it: nothing fires, nothing is erased, what is taken away takes effect and is told
// later; and that neither who writes the store, nor an empty witness in the place of the
// one that there was, changes that. It closes the driver.
func Unwitnessed(t *testing.T, d memory.Driver) {
	t.Helper()
	defer d.Close()
	ctx := t.Context()
	dir := t.TempDir()
	path := filepath.Join(dir, "witness")
	w, err := audit.CreateWitness(path)
	must(t, err)
	defer w.Close()
	const tenant = "unwitnessed"
	ringDir := filepath.Join(dir, "keys")
	_, err = keyring.Create(ringDir, nil)
	must(t, err)
	// Each is a process of its own: nothing is remembered but in the files and the store.
	process := func(witness *audit.Witness) *overtaken {
		t.Helper()
		ring, err := keyring.Open(ringDir, nil)
		must(t, err)
		o := &memory.Options{Tenant: tenant, Authority: func(string, string, string) bool { return true }}
		if witness != nil {
			o.Witness = witness.Ledger(tenant, "")
		}
		s := &overtaken{}
		s.Store, err = memory.New(d, ring, o)
		must(t, err)
		s.gate, err = gate.New(s.Store, gate.Policy{Name: "prod", Version: "1", Declared: true}, &gate.Options{Timeout: time.Hour})
		must(t, err)
		return s
	}
	put := func(s *overtaken, subject string) memory.ID {
		t.Helper()
		r, err := s.Put(ctx, byTool(says(subject, "email", "a@b.example")))
		must(t, err)
		return r.ID
	}
	first := process(w)
	good, bad, wrong := put(first, "acme"), put(first, "bolt"), put(first, "corp")
	if n, why := first.fired(ctx, []memory.ID{good, bad, wrong}); n != 3 {
		t.Fatalf("with the witness %d of 3 calls fire: %v", n, why)
	}
	if is, err := first.Witnessing(ctx); err != nil || !is.AtHand || is.ID != w.Identity() {
		t.Fatalf("%+v %v: the store does not know its witness", is, err)
	}
	shut := func(s *overtaken, when string) {
		t.Helper()
		var known *memory.WitnessError
		if err := s.Attend(ctx); !errors.As(err, &known) || !errors.Is(err, memory.ErrWitnessMissing) {
			t.Fatalf("%s, it is attended: %v", when, err)
		}
		if n, _ := s.fired(ctx, []memory.ID{good}); n > 0 {
			t.Fatalf("%s, a call fires", when)
		}
		if _, err := s.Fitness(ctx, []memory.ID{good}); !errors.Is(err, memory.ErrWitnessMissing) {
			t.Fatalf("%s, rows are fit: %v", when, err)
		}
		err := s.Record(ctx, memory.DecisionRecord{ID: s.NewDecisionID(), Tool: "mail", Run: "r", Fired: true, Rows: []memory.Cited{{Row: good, Revision: 1}}})
		if !errors.Is(err, memory.ErrWitnessMissing) {
			t.Fatalf("%s, a call is recorded as fired: %v", when, err)
		}
		if _, err := s.Erase(ctx, memory.Erasure{Subject: "acme", Request: "R-1", Actor: "dpo"}); !errors.Is(err, memory.ErrWitnessMissing) {
			t.Fatalf("%s, something is erased: %v", when, err)
		}
		if rows, err := s.Get(ctx, good, bad); err != nil || len(rows) != 2 {
			t.Fatalf("%s, nothing can be read: %v", when, err)
		}
	}
	shut(process(nil), "without the witness")

	operator := process(nil)
	_, err = operator.Apply(ctx, memory.Transition{Row: bad, Revision: 1, To: memory.TruthContradicted, Reject: true, Authority: memory.AuthorityUser, Actor: "cleo", Source: "form", Reason: "wrong"})
	if !errors.Is(err, memory.ErrUnwitnessed) || !errors.Is(err, memory.ErrWitnessMissing) {
		t.Fatalf("a demotion without the witness is acknowledged: %v", err)
	}
	_, err = operator.Apply(ctx, memory.Transition{Row: wrong, Revision: 1, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "s", Source: "s", Reason: "r"})
	if !errors.Is(err, memory.ErrUnwitnessed) {
		t.Fatalf("a quarantine without the witness is acknowledged: %v", err)
	}
	_, revision, err := operator.Revocations(ctx)
	must(t, err)
	err = operator.Revoke(ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "nobody", Since: operator.Now(), By: "cleo", Reason: "it lied"}, revision)
	if !errors.Is(err, memory.ErrUnwitnessed) {
		t.Fatalf("a revocation without the witness is acknowledged: %v", err)
	}
	if rows, err := operator.Get(ctx, bad, wrong); err != nil || rows[0].State() == memory.StateVerified || rows[1].Security != memory.SecurityQuarantined {
		t.Fatalf("it did not take effect: %v", err)
	}
	_, err = process(nil).Rebuild(ctx, "op", nil)
	must(t, err)
	_, err = process(nil).Verify(ctx, nil, nil)
	must(t, err)
	// Who writes the store takes its own word away: the keys count.
	objs, err := d.Get(ctx, tenant, []string{"s/witness"})
	must(t, err)
	if objs[0].Revision == 0 {
		t.Fatal("the store says nothing of its witness")
	}
	must(t, d.Apply(ctx, tenant, memory.Batch{Puts: []memory.Put{{Key: "s/witness", From: objs[0].Revision, Clear: true}}}))
	shut(process(nil), "with the store's own word taken away")
	empty, err := audit.CreateWitness(filepath.Join(dir, "empty"))
	must(t, err)
	defer empty.Close()
	shut(process(empty), "with an empty witness in its place")

	if is, err := process(nil).Witnessing(ctx); err != nil || is.Untold != 3 || is.AtHand {
		t.Fatalf("%+v %v: want 3 changes that the witness was not told of", is, err)
	}
	again := process(w)
	if n, why := again.fired(ctx, []memory.ID{good, bad, wrong}); n != 1 {
		t.Fatalf("with the witness again %d calls fire, want that on the row that nothing happened to: %v", n, why)
	}
	told := map[string]bool{}
	must(t, w.Ledger(tenant, "").Acknowledged(ctx, func(_ memory.EntryKind, l memory.Leaf) error { told[l.Key] = true; return nil }))
	if !told[memory.HeadKey(bad)] || !told[memory.HeadKey(wrong)] || !told["s/revoked"] {
		t.Fatalf("the witness was not told: %v", len(told))
	}
	if is, err := again.Witnessing(ctx); err != nil || is.Untold != 0 {
		t.Fatalf("%+v %v", is, err)
	}

	if err := process(nil).GiveUpWitness(ctx, empty.Identity(), "op", "the wrong one"); !errors.Is(err, memory.ErrNotFound) {
		t.Fatalf("another one was given up: %v", err)
	}
	must(t, process(nil).GiveUpWitness(ctx, w.Identity(), "op", "its disk burnt"))
	if n, why := process(nil).fired(ctx, []memory.ID{good}); n != 1 {
		t.Fatalf("after it was given up %d calls fire: %v", n, why)
	}
	shut(process(w), "with the witness that was given up")
	if n, why := process(empty).fired(ctx, []memory.ID{good}); n != 1 {
		t.Fatalf("with a new witness %d calls fire: %v", n, why)
	}
	shut(process(nil), "without the new witness")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
