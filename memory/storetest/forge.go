package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunForgery asks that whoever can write everything a driver holds, and has no key, makes
// no row fit that is not: whatever object is edited, dropped, or replaced by another one
// or by what it was before. A process that met the store before the edit is not deceived
// at all; one that comes later may meet an authentic head of before, or authentic
// revocations, and nothing else.
func RunForgery(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	w := &forging{t: t, d: d, keys: keyring.Ephemeral(), now: time.Date(2026, 4, 17, 9, 0, 0, 0, time.UTC), then: map[string][]memory.Restored{}}
	w.live()
	edits := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.SampledFrom(w.held).Draw(rt, "object")
		is := w.is[key]
		edit := rapid.SampledFrom([]string{"flip", "cut", "grow", "drop", "tombstone", "other bytes", "other place", "bytes of before", "as before", "raised revision"}).Draw(rt, "edit")
		to := is
		to.Data = bytes.Clone(is.Data)
		switch edit {
		case "flip":
			if len(to.Data) == 0 {
				rt.Skip("it has no byte")
			}
			to.Data[rapid.IntRange(0, len(to.Data)-1).Draw(rt, "byte")] ^= byte(1 << rapid.IntRange(0, 7).Draw(rt, "bit"))
		case "cut":
			to.Data = to.Data[:rapid.IntRange(0, max(len(to.Data)-1, 0)).Draw(rt, "length")]
		case "grow":
			to.Data = append(to.Data, rapid.Byte().Draw(rt, "more"))
		case "drop":
			to = memory.Restored{Object: memory.Object{Key: key}}
		case "tombstone":
			to.Data = nil
		case "other bytes": // of another object at the same revision, if there is one
			to.Data = bytes.Clone(w.is[rapid.SampledFrom(w.held).Draw(rt, "of")].Data)
		case "other place": // what another object is, revision and all
			from := w.is[rapid.SampledFrom(w.held).Draw(rt, "of")]
			to.Data, to.Revision = bytes.Clone(from.Data), from.Revision
		case "bytes of before":
			to.Data = bytes.Clone(rapid.SampledFrom(w.then[key]).Draw(rt, "then").Data)
		case "as before":
			to = rapid.SampledFrom(w.then[key]).Draw(rt, "then")
		case "raised revision":
			to.Revision++
		}
		if to.Revision == is.Revision && bytes.Equal(to.Data, is.Data) {
			rt.Skip("nothing is edited")
		}
		w.set(to)
		defer w.set(is)
		edits[edit]++
		authentic := slices.ContainsFunc(w.then[key], func(o memory.Restored) bool { return o.Revision == to.Revision && bytes.Equal(o.Data, to.Data) })
		for name, s := range map[string]*memory.Store{"who met it before": w.met, "who comes later": w.opened()} {
			f, err := s.Fitness(context.Background(), w.rows)
			if err != nil {
				if !errors.Is(err, memory.ErrDamaged) && !errors.Is(err, memory.ErrBehind) && !errors.Is(err, memory.ErrKey) {
					rt.Fatalf("%s: %s of %s: %v", name, edit, memory.KeyText(key), err)
				}
				continue
			}
			for i, h := range f.Heads {
				rose := h.State() == memory.StateVerified && w.state[i] != memory.StateVerified
				calmed := h.Security == memory.SecurityClean && w.security[i] != memory.SecurityClean
				if (rose || calmed) && (name == "who met it before" || !authentic || key != memory.HeadKey(h.ID) && memory.KeyText(key) != "system/revoked") {
					rt.Fatalf("%s: %s of %s makes row %d %s, %s", name, edit, memory.KeyText(key), i, h.State(), h.Security)
				}
			}
		}
	})
	total := 0
	for _, n := range edits {
		total += n
	}
	if total == 0 || len(w.held) < 20 {
		t.Fatalf("%d edits of %d objects", total, len(w.held))
	}
	t.Logf("forgery: %d edits of %d objects in %d ways", total, len(w.held), len(edits))
}

type forging struct {
	t    *testing.T
	d    memory.Driver
	keys memory.Keys
	now  time.Time
	met  *memory.Store // has met every object

	rows     []memory.ID
	state    []memory.State
	security []memory.Security

	held []string                     // the keys of all objects
	is   map[string]memory.Restored   // as they are
	then map[string][]memory.Restored // and as they were at some moment
}

func (w *forging) opened() *memory.Store {
	s, err := memory.New(w.d, w.keys, &memory.Options{Clock: func() time.Time { return w.now }})
	if err != nil {
		panic(err)
	}
	return s
}

func (w *forging) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *forging) set(o memory.Restored) {
	w.ok(w.d.Restore(context.Background(), w.met.Tenant(), []memory.Restored{o}))
}

// look keeps how every object is now.
func (w *forging) look() {
	w.t.Helper()
	w.is, w.held = map[string]memory.Restored{}, nil
	for o, err := range w.d.Objects(w.t.Context(), w.met.Tenant(), "") {
		w.ok(err)
		w.is[o.Key] = o
		w.held = append(w.held, o.Key)
		was := w.then[o.Key]
		if n := len(was); n == 0 || was[n-1].Revision != o.Revision {
			w.then[o.Key] = append(was, o)
		}
	}
	slices.Sort(w.held)
}

// live writes rows of every state, and looks after each step.
func (w *forging) live() {
	w.t.Helper()
	w.met = w.opened()
	ctx, s := w.t.Context(), w.met
	put := func(predicate string, from ...memory.ID) memory.ID {
		w.t.Helper()
		r, err := s.Put(ctx, memory.Draft{Content: memory.Content{Subject: "acme", Predicate: predicate, Object: "x", Cardinality: memory.CardinalityFunctional},
			Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "desk", Model: "m", Family: "f"},
			Sensitivity: memory.SensitivityInternal, DerivedFrom: from})
		w.ok(err)
		w.look()
		return r.ID
	}
	move := func(id memory.ID, to memory.AxisValue, a memory.Authority, e ...memory.Evidence) {
		w.t.Helper()
		f, err := s.Fitness(ctx, []memory.ID{id})
		w.ok(err)
		_, err = s.Apply(ctx, memory.Transition{Row: id, Revision: f.Heads[0].Revision, To: to, Authority: a, Actor: "w", Source: "test", Reason: "test", Evidence: e})
		w.ok(err)
		w.look()
	}
	says := func(r memory.Relation, rank memory.Rank, group string) memory.Evidence {
		return memory.Evidence{Relation: r, Rank: rank, Source: group, Verifier: "verifier:" + group, Group: group, Anchor: memory.Anchor{URI: group}, At: w.now}
	}
	crm, register := says(memory.RelationSupports, memory.RankTool, "crm"), says(memory.RelationContradicts, memory.RankPrimarySource, "register")
	noted := put("noted")
	verified := put("verified")
	move(verified, memory.TruthSupported, memory.AuthorityProbe, crm)
	demoted := put("demoted")
	move(demoted, memory.TruthSupported, memory.AuthorityProbe, crm)
	move(demoted, memory.TruthContradicted, memory.AuthorityProbe, register)
	suspect := put("suspect", verified)
	move(suspect, memory.SecurityQuarantined, memory.AuthoritySentinel)
	revoked := put("revoked")
	move(revoked, memory.TruthSupported, memory.AuthorityProbe, says(memory.RelationSupports, memory.RankTool, "liar"))
	_, revision, err := s.Revocations(ctx)
	w.ok(err)
	w.ok(s.Revoke(ctx, memory.Revocation{Kind: memory.RevokedVerifier, Name: "verifier:liar", Since: w.now.Add(-time.Hour), By: "ops", Reason: "it lied"}, revision))
	w.look()
	w.rows = []memory.ID{noted, verified, demoted, suspect, revoked}
	f, err := s.Fitness(ctx, w.rows)
	w.ok(err)
	w.ok(s.Record(ctx, memory.DecisionRecord{ID: s.NewDecisionID(), Tool: "pay", Run: "r", Fired: true, Epoch: f.Epoch, Data: []byte("{}"),
		Rows: []memory.Cited{{Row: verified, Revision: f.Heads[1].Revision}}}))
	w.look()
	for _, h := range f.Heads {
		w.state, w.security = append(w.state, h.State()), append(w.security, h.Security)
	}
	if got := fmt.Sprint(w.state); got != "[unverified verified unverified unverified unverified]" {
		w.t.Fatal(got)
	}
	_, err = s.Get(ctx, w.rows[:4]...) // and has met the contents
	w.ok(err)
}
