package memory_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// revoke revokes the verifier of a source of the tests, since day0.
func (b *bench) revoke(kind memory.RevokedKind, name string) {
	b.Helper()
	_, revision, err := b.Revocations(b.Context())
	if err == nil {
		err = b.Revoke(b.Context(), memory.Revocation{Kind: kind, Name: name, Since: day0, By: "ops", Reason: "it lied"}, revision)
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) walk() memory.RevocationWalk {
	b.Helper()
	w, err := b.WalkRevocations(b.Context(), nil)
	if err != nil || !w.Done {
		b.Fatalf("%+v, %v", w, err)
	}
	return w
}

// verifiedBy puts a row that tools verified.
func (b *bench) verifiedBy(object string, evidence ...memory.Evidence) memory.ID {
	b.Helper()
	c := says("ana", "likes", object)
	c.Cardinality = memory.CardinalitySetValued
	id := b.put(modelDraft(c)).ID
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, evidence...)
	return id
}

func TestWhatWasRevokedIsUnfitAtOnce(t *testing.T) {
	for _, what := range []struct {
		kind memory.RevokedKind
		name string
	}{{memory.RevokedVerifier, "verifier:crm"}, {memory.RevokedSource, "crm"}, {memory.RevokedDocument, "test:crm"}} {
		t.Run(what.kind.String(), func(t *testing.T) {
			b := newBench(t)
			hit := b.verifiedBy("tea", supports(memory.RankTool, "crm"))
			born := b.put(toolDraft(berlin, "crm")).ID
			other := b.verifiedBy("go", supports(memory.RankTool, "erp"))
			both := b.verifiedBy("chess", supports(memory.RankTool, "crm"), supports(memory.RankTool, "erp"))
			user := b.put(userDraft("ana", says("ana", "name", "Ana"))).ID
			if err := b.AddEvidence(t.Context(), user, "w", "r", supports(memory.RankTool, "crm")); err != nil {
				t.Fatal(err)
			}
			before := b.head(hit).Revision
			b.pass(time.Hour)
			b.revoke(what.kind, what.name)
			// Nothing was walked. Another process sees it too.
			b.Store = b.another()
			for _, id := range []memory.ID{hit, born, both} {
				if h := b.head(id); h.State() == memory.StateVerified || h.Rank != 0 || !h.Has(memory.FlagRevoked) {
					t.Errorf("fit: %+v", h)
				}
				if r := b.row(id); r.State() == memory.StateVerified {
					t.Error("read as verified")
				}
			}
			if b.head(hit).Revision != before {
				t.Error("the row moved before the walk")
			}
			for _, id := range []memory.ID{other, user} {
				if h := b.head(id); h.State() != memory.StateVerified || h.Has(memory.FlagRevoked) {
					t.Errorf("unfit: %+v", h)
				}
			}
			if w := b.walk(); w.Rows != 5 || w.Touched != 4 || w.Withdrawn != 2 {
				t.Errorf("%+v", w)
			}
			for id, want := range map[memory.ID]memory.State{hit: memory.StateUnverified, born: memory.StateUnverified, other: memory.StateVerified,
				both: memory.StateVerified, user: memory.StateVerified} { // what the rest verifies stays
				if h := b.head(id); h.State() != want || h.Has(memory.FlagRevoked) {
					t.Errorf("after the walk: %+v", h)
				}
			}
			for _, id := range []memory.ID{hit, born, both} {
				if m, due, err := b.DueMark(t.Context(), id); err != nil || !due || m.At.After(b.Now()) {
					t.Error("not queued again", m, due, err)
				}
			}
			log, err := b.History(t.Context(), hit, false)
			if last := log[len(log)-1]; err != nil || last.Kind != memory.EntryTransition || last.To != "unverified" || last.Actor != "ops" || last.Reason != "revoked: it lied" {
				t.Errorf("%v %+v", err, last)
			}
			if _, err := b.Verify(t.Context(), nil, nil); err != nil {
				t.Error(err)
			}
			list, _, err := b.Revocations(t.Context())
			if err != nil || len(list) != 1 || !list[0].Walked || list[0].Name != what.name || list[0].By != "ops" {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

func TestWhoWasRevokedSaysNothingMore(t *testing.T) {
	for _, walked := range []bool{false, true} {
		t.Run(fmt.Sprintf("walked %v", walked), func(t *testing.T) {
			b := newBench(t)
			id := b.put(modelDraft(berlin)).ID
			stood := b.verifiedBy("tea", supports(memory.RankTool, "crm"))
			b.pass(time.Hour)
			b.revoke(memory.RevokedVerifier, "verifier:crm")
			if walked {
				b.walk()
			}
			later := supports(memory.RankTool, "crm")
			later.At = b.Now()
			for _, who := range []memory.ID{id, stood} {
				_, err := b.move(who, memory.TruthSupported, memory.AuthorityProbe, later)
				wantErr(t, err, memory.ErrRevoked)
			}
			wantErr(t, b.AddEvidence(t.Context(), id, "w", "r", contradicts(memory.RankTool, "crm")), memory.ErrRevoked)
			if r := b.put(toolDraft(says("bob", "city", "Rome"), "crm")); r.State != memory.StateUnverified || !strings.Contains(r.Reason, "revoked") {
				t.Errorf("%+v", r)
			}
			// What it said before it began to lie still counts.
			early := supports(memory.RankTool, "crm")
			early.At = day0.Add(-time.Hour)
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, early)
		})
	}
	t.Run("another source verifies the row anew, with its own rank, before the walk", func(t *testing.T) {
		b := newBench(t)
		id := b.verifiedBy("tea", supports(memory.RankPrimarySource, "crm"))
		b.revoke(memory.RevokedVerifier, "verifier:crm")
		// The row is taken out of the verified state first: the mover looks again.
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "erp"))
		wantErr(t, err, memory.ErrConflict)
		if h := b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "erp")); h.Rank != memory.RankTool {
			t.Error("the rank of what was revoked is left", h.Rank)
		}
		if w := b.walk(); w.Withdrawn != 0 || b.head(id).State() != memory.StateVerified {
			t.Errorf("%+v", w)
		}
	})
	t.Run("nor do its contradictions stand", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "crm"))
		b.revoke(memory.RevokedVerifier, "verifier:crm")
		b.walk()
		if h := b.head(id); h.Truth != memory.TruthUnverified {
			t.Errorf("%s", h.Truth)
		}
		b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "erp"))
	})
	t.Run("a quorum that lost a member is none", func(t *testing.T) {
		b := newBench(t)
		one, two := supports(memory.RankTool, "crm"), supports(memory.RankTool, "erp")
		one.Quorum, two.Quorum = 2, 2
		id := b.verifiedBy("tea", one, two)
		b.revoke(memory.RevokedVerifier, "verifier:crm")
		if b.walk(); b.head(id).State() == memory.StateVerified {
			t.Error("one of two still verifies the row")
		}
	})
	t.Run("nor is one whose member of lower rank was lost, before any walk", func(t *testing.T) {
		b := newBench(t)
		one, two := supports(memory.RankPrimarySource, "doc"), supports(memory.RankTool, "crm")
		one.Quorum, two.Quorum = 2, 2
		id := b.verifiedBy("tea", one, two)
		alone := b.verifiedBy("go", supports(memory.RankPrimarySource, "doc"), supports(memory.RankTool, "crm"))
		if b.head(id).Rank != memory.RankPrimarySource {
			t.Fatal(b.head(id).Rank)
		}
		b.revoke(memory.RevokedVerifier, "verifier:crm")
		if b.head(id).State() == memory.StateVerified || b.row(id).State() == memory.StateVerified {
			t.Error("one of two still verifies the row")
		}
		if b.head(alone).State() != memory.StateVerified {
			t.Error("what a primary source verifies alone needs no tool")
		}
		if b.walk(); b.head(id).State() == memory.StateVerified || b.head(alone).State() != memory.StateVerified {
			t.Error(b.head(id).State(), b.head(alone).State())
		}
	})
	t.Run("one version of a document", func(t *testing.T) {
		b := newBench(t)
		of := func(version string) memory.Evidence {
			e := supports(memory.RankPrimarySource, "doc")
			e.Anchor = memory.Anchor{URI: "https://docs.example/terms", Version: version}
			return e
		}
		bad, good := b.verifiedBy("tea", of("1")), b.verifiedBy("go", of("2"))
		if err := b.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedDocument, Name: "https://docs.example/terms", Version: "1", Since: day0, By: "ops", Reason: "a forgery"}, 1); err != nil {
			t.Fatal(err)
		}
		if b.head(bad).State() == memory.StateVerified || b.head(good).State() != memory.StateVerified {
			t.Error(b.head(bad).State(), b.head(good).State())
		}
	})
}

// A permit that was decided before the revocation is not consumed after it, though no
// row has moved (I-7).
func TestI7NoPermitOutlivesARevocation(t *testing.T) {
	b := newBench(t)
	id := b.verifiedBy("tea", supports(memory.RankTool, "crm"))
	f, err := b.Fitness(t.Context(), []memory.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	err = b.Record(t.Context(), memory.DecisionRecord{ID: b.NewDecisionID(), Tool: "pay", Fired: true, Epoch: f.Epoch,
		Rows: []memory.Cited{{Row: id, Revision: f.Heads[0].Revision}}, Data: []byte("{}")})
	wantErr(t, err, memory.ErrConflict)
	// Nor does what was kept by a fence.
	g, err := b.Fitness(t.Context(), []memory.ID{id})
	if err != nil || g.Fence == f.Fence || g.Epoch == f.Epoch {
		t.Fatalf("the fence stands where it stood: %v", err)
	}
	err = b.Record(t.Context(), memory.DecisionRecord{ID: b.NewDecisionID(), Tool: "pay", Fired: true, Epoch: g.Epoch, Fence: &f.Fence,
		Rows: []memory.Cited{{Row: id, Revision: f.Heads[0].Revision}}, Data: []byte("{}")})
	wantErr(t, err, memory.ErrConflict)
}

// A promotion that read before the revocation does not commit after it, when the walk
// has already passed the row.
func TestAPromotionDoesNotSlipPastARevocation(t *testing.T) {
	revokeAndWalk := func(b *bench) { // in another process
		s := b.another()
		if err := s.Revoke(b.Context(), memory.Revocation{Kind: memory.RevokedVerifier, Name: "verifier:crm", Since: day0, By: "ops", Reason: "it lied"}, 1); err != nil {
			b.Error(err)
		}
		if w, err := s.WalkRevocations(b.Context(), nil); err != nil || !w.Done {
			b.Error(w, err)
		}
	}
	for name, act := range map[string]func(*bench, memory.ID) (memory.ID, error){
		"a move": func(b *bench, id memory.ID) (memory.ID, error) {
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "crm"))
			return id, err
		},
		"evidence that is added": func(b *bench, id memory.ID) (memory.ID, error) {
			return id, b.AddEvidence(b.Context(), id, "w", "r", supports(memory.RankTool, "crm"))
		},
		"a row that is born verified": func(b *bench, _ memory.ID) (memory.ID, error) {
			return b.put(toolDraft(berlin, "crm")).ID, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.put(toolDraft(says("bob", "city", "Rome"), "erp"))
			id := b.put(modelDraft(says("eve", "city", "Oslo"))).ID
			b.driver.race = func() { revokeAndWalk(b) }
			id, err := act(b, id)
			if err != nil {
				wantErr(t, err, memory.ErrRevoked)
			}
			if s := b.head(id).State(); s == memory.StateVerified {
				t.Error("verified by who was revoked")
			}
			for _, e := range b.row(id).Evidence {
				if !e.Void {
					t.Errorf("it stands: %+v", e)
				}
			}
		})
	}
}

func TestARevocationIsWellFormedAndCountsOnce(t *testing.T) {
	good := memory.Revocation{Kind: memory.RevokedVerifier, Name: "crm", Since: day0, By: "ops", Reason: "it lied"}
	for field, spoil := range map[string]func(*memory.Revocation){
		"kind":    func(r *memory.Revocation) { r.Kind = 0 },
		"name":    func(r *memory.Revocation) { r.Name = " " },
		"by":      func(r *memory.Revocation) { r.By = "" },
		"reason":  func(r *memory.Revocation) { r.Reason = "" },
		"since":   func(r *memory.Revocation) { r.Since = time.Time{} },
		"version": func(r *memory.Revocation) { r.Version = "1" },
	} {
		b, r := newBench(t), good
		spoil(&r)
		var f *memory.FieldError
		if err := b.Revoke(t.Context(), r, 0); !errors.As(err, &f) || f.Field != field {
			t.Errorf("%s: %v", field, err)
		}
		if list, revision, err := b.Revocations(t.Context()); len(list) != 0 || revision != 1 || err != nil {
			t.Errorf("%s: something was written: %v %v", field, list, err)
		}
	}
	b := newBench(t)
	if _, _, err := b.Revocations(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Revoke(t.Context(), good, 1); err != nil {
		t.Fatal(err)
	}
	wantErr(t, b.Revoke(t.Context(), good, 1), memory.ErrConflict)
	wantErr(t, b.Revoke(t.Context(), good, 2), memory.ErrInvalid)
}

// The walk is cut at every page, by a fault or by another revocation, and goes on.
func TestTheWalkGoesOnWhereItWas(t *testing.T) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 450 {
		ids = append(ids, b.verifiedBy(fmt.Sprint("thing", i), supports(memory.RankTool, []string{"crm", "erp", "hr"}[i%3])))
	}
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	cut := errors.New("cut")
	var pages []int
	for page := 0; ; page++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		seen := 0
		w, err := b.WalkRevocations(ctx, func(w memory.RevocationWalk) {
			if seen++; seen == 2 { // one page is noted, the next one is lost
				cancel(cut)
				b.driver.before = func(memory.Batch) error { return cut }
			}
		})
		b.driver.before = nil
		cancel(nil)
		pages = append(pages, w.Rows)
		if err == nil {
			if !w.Done || w.Withdrawn > 150 {
				t.Fatalf("%+v", w)
			}
			break
		}
		if page == 0 {
			b.revoke(memory.RevokedVerifier, "verifier:erp") // begins anew, for both
		}
		if page > 20 {
			t.Fatal("it does not end")
		}
	}
	if len(pages) < 3 {
		t.Errorf("it was not cut: %v", pages)
	}
	for i, id := range ids {
		if got, want := b.head(id).State() == memory.StateVerified, i%3 == 2; got != want {
			t.Fatalf("row %d: verified %v", i, got)
		}
	}
	list, _, err := b.Revocations(t.Context())
	if err != nil || slices.ContainsFunc(list, func(r memory.Revocation) bool { return !r.Walked }) {
		t.Fatalf("%+v, %v", list, err)
	}
}

// A store that is rebuilt has its revocations, and one whose revocation was lost does
// not open its gate.
// TestADamagedRowHoldsUpNoWalk, and the walk is not over while there is one: nobody
// would ask any more what it rests on.
func TestADamagedRowHoldsUpNoWalk(t *testing.T) {
	d := &cutting{Driver: storetest.NewMap(), kept: map[string]bool{}}
	s, err := memory.New(d, keyring.Ephemeral(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var ids []memory.ID
	for i := range 3 {
		r, err := s.Put(t.Context(), toolDraft(says("ana", fmt.Sprint("city", i), "Oslo"), "crm"))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	if err := s.Revoke(t.Context(), memory.Revocation{Kind: memory.RevokedVerifier, Name: "verifier:crm", Since: day0.Add(-time.Hour), By: "ops", Reason: "it lied"}, 1); err != nil {
		t.Fatal(err)
	}
	d.id = ids[1]
	if _, err := s.Get(t.Context(), ids[1]); err != nil {
		t.Fatal(err)
	}
	for key := range d.kept {
		if strings.HasPrefix(memory.KeyText(key), "evidence/") {
			d.cut = key
		}
	}
	for range 2 {
		w, err := s.WalkRevocations(t.Context(), nil)
		if !errors.Is(err, memory.ErrDamaged) || w.Done || w.Damaged != 1 || w.Rows != 3 {
			t.Fatalf("%+v, %v", w, err)
		}
		f, err := s.Fitness(t.Context(), []memory.ID{ids[0], ids[2]})
		if err != nil || f.Heads[0].Truth == memory.TruthSupported || f.Heads[1].Truth == memory.TruthSupported || f.Heads[0].Revision != 2 || f.Heads[1].Revision != 2 {
			t.Errorf("%+v, %v", f.Heads, err)
		}
		if f, err := s.Fitness(t.Context(), ids); err == nil && f.Heads[1].State() == memory.StateVerified {
			t.Errorf("fit: %+v", f.Heads[1])
		}
	}
	d.cut = ""
	if w, err := s.WalkRevocations(t.Context(), nil); err != nil || !w.Done || w.Withdrawn != 1 {
		t.Errorf("%+v, %v", w, err)
	}
}

func TestARevocationIsNeverLost(t *testing.T) {
	b := newBench(t)
	id := b.verifiedBy("tea", supports(memory.RankTool, "crm"))
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	before, _, err := b.Revocations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Rebuild(t.Context(), "op", nil); err != nil {
		t.Fatal(err)
	}
	b.Store = b.another()
	after, _, err := b.Revocations(t.Context())
	if err != nil || !slices.Equal(before, after) || b.head(id).State() == memory.StateVerified {
		t.Fatal(after, err)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal(err)
	}
}

// Whoever verifies, revokes and walks in whatever order: no row is fit whose rank rests
// on what was revoked, and the audit holds.
func TestNothingRevokedIsEverFit(t *testing.T) {
	names := []string{"crm", "erp", "hr"}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t)
		var ids []memory.ID
		revoked := map[string]bool{}
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				c := says("ana", "likes", fmt.Sprint("thing", len(ids)))
				c.Cardinality = memory.CardinalitySetValued
				ids = append(ids, b.put(modelDraft(c)).ID)
			},
			"verify": func(rt *rapid.T) {
				if len(ids) == 0 {
					rt.Skip("nothing is written")
				}
				b.pass(time.Second)
				e := supports(memory.RankTool, rapid.SampledFrom(names).Draw(rt, "by"))
				e.At = b.Now()
				b.move(rapid.SampledFrom(ids).Draw(rt, "row"), memory.TruthSupported, memory.AuthorityProbe, e) // refused or not
			},
			"revoke": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "name")
				if !revoked[name] {
					revoked[name] = true
					b.revoke(memory.RevokedVerifier, "verifier:"+name)
				}
			},
			"walk": func(*rapid.T) { b.walk() },
			"": func(rt *rapid.T) {
				for _, id := range ids {
					if b.head(id).State() != memory.StateVerified {
						continue
					}
					stands := false
					for _, e := range b.row(id).Evidence {
						stands = stands || !e.Void && !revoked[e.Source]
					}
					if !stands {
						rt.Fatalf("%s is fit on %+v", id, b.row(id).Evidence)
					}
				}
			},
		})
		if _, err := b.Verify(b.Context(), nil, nil); err != nil {
			rt.Fatal(err)
		}
	})
}

// Readers, promotions and the walk at once: after the acknowledgement nobody reads a row
// that rests on the verifier as fit.
func TestNobodyReadsPastARevocation(t *testing.T) {
	b := newBench(t)
	var ids []memory.ID
	for i := range 60 {
		ids = append(ids, b.verifiedBy(fmt.Sprint("thing", i), supports(memory.RankTool, "crm")))
	}
	var all sync.WaitGroup
	stop := make(chan struct{})
	b.revoke(memory.RevokedVerifier, "verifier:crm")
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				f, err := b.Fitness(context.Background(), ids)
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range f.Heads {
					if h.State() == memory.StateVerified {
						t.Error("read as fit")
						return
					}
				}
			}
		})
	}
	b.walk()
	close(stop)
	all.Wait()
}
