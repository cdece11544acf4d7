// Package witnesstest is the suite that specifies a witness, whatever keeps it: a file,
// or a server that has one.
package witnesstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// Maker makes a witness that has seen nothing, and returns what opens it: each time as
// another machine would. The test closes what it opened.
type Maker func(t *testing.T) (open func() *audit.Witness)

// Run asks all of a witness.
func Run(t *testing.T, create Maker) {
	for name, ask := range map[string]func(t *testing.T, open func() *audit.Witness){
		"it is known by one identity, however it is reached":                      identity,
		"it remembers the newest entry of each log, in whatever order it is told": newest,
		"another entry of a revision is refused, until it is settled by name":     superseded,
		"what it has is there when it is opened again":                            again,
		"more entries than go into one answer are all read":                       many,
		"entries that several machines tell at once are all there":                atOnce,
		"of two machines that show it checkpoints none is lost":                   together,
		"an older copy of a store is refused, until it is accepted":               older,
		"a demotion on one machine is known to another":                           demoted,
		"nothing is told once the context has ended":                              ended,
	} {
		t.Run(name, func(t *testing.T) { ask(t, create(t)) })
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func opened(t *testing.T, open func() *audit.Witness) *audit.Witness {
	t.Helper()
	w := open()
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// Leaf is the end of a log that no store has.
func Leaf(key string, revision uint64, mac byte) memory.Leaf {
	return memory.Leaf{Key: key, Revision: revision, MAC: [32]byte{mac}}
}

// Acknowledged is all that a witness has of a tenant and namespace.
func Acknowledged(t *testing.T, w memory.Witness) (out []memory.Leaf) {
	t.Helper()
	must(t, w.Acknowledged(t.Context(), func(_ memory.EntryKind, l memory.Leaf) error {
		out = append(out, l)
		return nil
	}))
	return out
}

func same(t *testing.T, what string, got []memory.Leaf, want ...memory.Leaf) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func identity(t *testing.T, open func() *audit.Witness) {
	a, b := opened(t, open), opened(t, open)
	if a.Identity() == (memory.Token{}) || a.Identity() != b.Identity() || a.Ledger("acme", "").Identity() != a.Identity() {
		t.Fatal(a.Identity(), b.Identity())
	}
}

func newest(t *testing.T, open func() *audit.Witness) {
	w := opened(t, open)
	a, side := w.Ledger("acme", ""), w.Ledger("acme", "side")
	tell := func(l *audit.Ledger, leaves ...memory.Leaf) {
		t.Helper()
		must(t, l.Acknowledge(t.Context(), memory.EntryTransition, leaves))
	}
	tell(a, Leaf("h/\xff\x00", 3, 1), Leaf("h/b", 1, 2))
	tell(a, Leaf("h/\xff\x00", 2, 7)) // came late
	tell(a, Leaf("h/b", 5, 3))
	tell(a, Leaf("h/b", 5, 3))
	tell(a)
	must(t, side.Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{Leaf("h/b", 9, 9)}))
	for name, l := range map[string]*audit.Ledger{"in the same handle": a, "in another": opened(t, open).Ledger("acme", "")} {
		same(t, name, Acknowledged(t, l), Leaf("h/b", 5, 3), Leaf("h/\xff\x00", 3, 1))
	}
	same(t, "the other namespace", Acknowledged(t, side), Leaf("h/b", 9, 9))
	same(t, "another tenant", Acknowledged(t, w.Ledger("other", "")))
}

func superseded(t *testing.T, open func() *audit.Witness) {
	l := opened(t, open).Ledger("acme", "")
	lost, again := Leaf("h/a", 7, 1), Leaf("h/a", 3, 2)
	must(t, l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{lost}))
	if err := l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{Leaf("h/a", 7, 2)}); !errors.Is(err, audit.ErrSuperseded) {
		t.Fatal(err)
	}
	if err := l.Settle(t.Context(), memory.EntryTransition, Leaf("h/a", 6, 1), again); !errors.Is(err, audit.ErrSuperseded) {
		t.Fatal("by another name:", err)
	}
	if err := l.Settle(t.Context(), memory.EntryTransition, lost, Leaf("h/b", 3, 2)); !errors.Is(err, memory.ErrInvalid) {
		t.Fatal("by another log:", err)
	}
	for range 2 { // sent twice is settled
		must(t, l.Settle(t.Context(), memory.EntryTransition, lost, again))
	}
	same(t, "settled", Acknowledged(t, l), again)
}

func again(t *testing.T, open func() *audit.Witness) {
	w := open()
	must(t, w.Ledger("", "").Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{Leaf("h/a", 1, 1)}))
	must(t, w.Close())
	must(t, w.Close())
	same(t, "opened again", Acknowledged(t, opened(t, open).Ledger("default", "")), Leaf("h/a", 1, 1))
}

func many(t *testing.T, open func() *audit.Witness) {
	const n = 2500
	var leaves []memory.Leaf
	for i := range n {
		leaves = append(leaves, Leaf(fmt.Sprintf("h/%05d", i), uint64(i+1), byte(i)))
	}
	must(t, opened(t, open).Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, leaves))
	same(t, "read", Acknowledged(t, opened(t, open).Ledger("acme", "")), leaves...)
}

func atOnce(t *testing.T, open func() *audit.Witness) {
	const handles, callers, rounds = 3, 4, 10
	var group sync.WaitGroup
	for h := range handles {
		l := opened(t, open).Ledger("acme", "")
		for c := range callers {
			group.Go(func() {
				for r := range rounds {
					// The last log is everybody's: what each tells of it is the same.
					leaves := []memory.Leaf{Leaf(fmt.Sprintf("h/%d.%d", h, c), uint64(r+1), byte(r)), Leaf("h/all", uint64(r+1), byte(r))}
					if err := l.Acknowledge(t.Context(), memory.EntryTransition, leaves); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	group.Wait()
	got := Acknowledged(t, opened(t, open).Ledger("acme", ""))
	if len(got) != handles*callers+1 {
		t.Fatal(len(got))
	}
	for _, l := range got {
		if l.Revision != rounds {
			t.Fatal(l)
		}
	}
}

// signed is a store whose checkpoints a key signs.
type signed struct {
	*memory.Store
	key *audit.Key
	n   int
}

func newSigned(t *testing.T, key *audit.Key) *signed {
	t.Helper()
	s, err := memory.New(storetest.NewMap(), keyring.Ephemeral(), nil)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return &signed{Store: s, key: key}
}

func newKey(t *testing.T) *audit.Key {
	t.Helper()
	key, _, err := audit.NewKey("acme.example/1")
	must(t, err)
	return key
}

// checkpoint writes a row, and has it committed to without a witness.
func (s *signed) checkpoint(t *testing.T) {
	t.Helper()
	s.n++
	_, err := s.Put(t.Context(), draft(fmt.Sprint("customer ", s.n)))
	must(t, err)
	m, err := audit.NewMaker(s.Store, s.key, "acme.example/hearsay", nil)
	must(t, err)
	_, err = m.Make(t.Context())
	must(t, err)
}

func draft(subject string) memory.Draft {
	return memory.Draft{Content: memory.Content{Subject: subject, Predicate: "lives in", Object: "Oslo", Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"},
		Sensitivity: memory.SensitivityInternal}
}

func together(t *testing.T, open func() *audit.Witness) {
	s := newSigned(t, newKey(t))
	a, b := opened(t, open), opened(t, open)
	for n := range uint64(4) {
		s.checkpoint(t)
		var group sync.WaitGroup
		for _, w := range []*audit.Witness{a, b} {
			group.Go(func() {
				if err := w.See(t.Context(), s.Store, s.key.Verifier()); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		if seen, err := b.Ledger("", "").Checkpoint(t.Context()); err != nil || seen != n+1 {
			t.Fatal(seen, err)
		}
	}
	report, err := audit.Verify(t.Context(), s.Store, audit.Options{Witness: opened(t, open), Verifiers: []note.Verifier{s.key.Verifier()}})
	if err != nil || report.Witnessed != 4 {
		t.Fatal(report, err)
	}
}

func older(t *testing.T, open func() *audit.Witness) {
	key := newKey(t)
	was, now := newSigned(t, key), newSigned(t, key)
	now.checkpoint(t)
	now.checkpoint(t)
	was.checkpoint(t)
	w := opened(t, open)
	must(t, w.See(t.Context(), now.Store, key.Verifier()))
	if err := w.See(t.Context(), was.Store, key.Verifier()); !errors.Is(err, audit.ErrRollback) {
		t.Fatal(err)
	}
	must(t, w.Accept(t.Context(), was.Store, key.Verifier()))
	must(t, w.See(t.Context(), was.Store, key.Verifier()))
	if err := opened(t, open).See(t.Context(), now.Store, key.Verifier()); !errors.Is(err, audit.ErrRollback) {
		t.Fatal("the one that was left:", err)
	}
}

func demoted(t *testing.T, open func() *audit.Witness) {
	keys, driver := keyring.Ephemeral(), storetest.NewMap()
	machine := func(d memory.Driver) *memory.Store {
		t.Helper()
		s, err := memory.New(d, keys, &memory.Options{Witness: opened(t, open).Ledger("", "")})
		must(t, err)
		return s
	}
	one, two := machine(driver), machine(driver)
	defer one.Close()
	defer two.Close()
	put, err := one.Put(t.Context(), draft("acme"))
	must(t, err)
	_, err = one.Apply(t.Context(), memory.Transition{Row: put.ID, Revision: 1, To: memory.SecurityQuarantined, Authority: memory.AuthoritySentinel, Actor: "s", Source: "s", Reason: "r"})
	must(t, err)
	told := Acknowledged(t, opened(t, open).Ledger("", ""))
	if len(told) != 1 || told[0].Key != memory.HeadKey(put.ID) {
		t.Fatal("the witness knows", told)
	}
	_, err = two.Fitness(t.Context(), []memory.ID{put.ID})
	must(t, err)
	ledger := opened(t, open).Ledger("", "")
	if lost, err := ledger.Behind(t.Context(), two); err != nil || len(lost) != 0 {
		t.Fatal(lost, err)
	}
	// The second machine comes to talk to a copy of before.
	if lost, err := ledger.Behind(t.Context(), newSigned(t, nil).Store); err != nil || len(lost) != 1 {
		t.Fatal(lost, err)
	}
}

func ended(t *testing.T, open func() *audit.Witness) {
	l := opened(t, open).Ledger("acme", "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Acknowledge(ctx, memory.EntryTransition, []memory.Leaf{Leaf("h/a", 1, 1)}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := l.Acknowledged(ctx, func(memory.EntryKind, memory.Leaf) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	same(t, "told", Acknowledged(t, l))
}
