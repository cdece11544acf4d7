package memory_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// groupToken stands for the blinding of a store.
func groupToken(folded string) (t memory.Token) {
	copy(t[:], folded)
	return t
}

// TestI4Sufficient is the table of rank × group × lineage × criticality.
func TestI4Sufficient(t *testing.T) {
	claim := memory.Head{ID: "claim", Revision: 1, Claim: memory.Token{1}, Group: groupToken("claude")}
	ancestor := memory.Head{ID: "up", Revision: 1, Claim: memory.Token{2}, Group: groupToken("web")}
	twin := memory.Head{ID: "twin", Revision: 1, Claim: memory.Token{1}, Group: groupToken("claude")}
	stranger := memory.Head{ID: "other", Revision: 1, Claim: memory.Token{3}, Group: groupToken("bob")}
	erased := memory.Head{ID: "gone", Revision: 2, Flags: memory.FlagErased}
	stray := memory.Head{ID: "stray", Revision: 1, Claim: memory.Token{4}, Flags: memory.FlagLineageUnknown}
	lineages := map[string][]memory.Head{"what was erased": {erased}, "what came from nobody knows where": {stray}, "none": nil, "the claim": {claim}, "another row of its identity": {stranger, twin}, "a stranger": {stranger}, "what is not known": {{}}}
	for rank := memory.RankRecall; rank <= memory.RankUser; rank++ {
		for _, group := range []string{"tool:crm", "family:gpt", "family:claude", "family:Claude", "claude", "tool:web", "Tool:web"} {
			for lineage, rests := range lineages {
				for crit := memory.CriticalityLow; crit <= memory.CriticalityCritical; crit++ {
					e := supports(rank, group)
					kin := memory.Kin{Group: groupToken, Claim: claim, Ancestors: []memory.Head{ancestor}, EvidenceLineage: map[string][]memory.Head{e.ID(): rests}}
					kin.Claim.Criticality = crit
					own := group != "tool:crm" && group != "family:gpt"
					fromClaim := lineage != "none" && lineage != "a stranger"
					want := rank >= memory.RankTool && !fromClaim && (!own || rank == memory.RankUser)
					got, err := memory.Sufficient(kin, []memory.Evidence{e})
					if (err == nil) != want || want && got != rank || !want && !errors.Is(err, memory.ErrInsufficient) {
						t.Errorf("rank %s group %s resting on %s, criticality %s: %s, %v; want %v", rank, group, lineage, crit, got, err, want)
					}
					void := e
					void.Void = true
					against := e
					against.Relation = memory.RelationContradicts
					if _, err := memory.Sufficient(kin, []memory.Evidence{void, against}); err == nil {
						t.Errorf("voided or contradicting evidence of rank %s verified", rank)
					}
				}
			}
		}
	}
	model := func(groups ...string) (out []memory.Evidence) {
		for _, g := range groups {
			out = append(out, supports(memory.RankSecondModel, g))
		}
		return out
	}
	for _, tc := range []struct {
		name     string
		crit     memory.Criticality
		evidence []memory.Evidence
		want     memory.Rank
	}{
		{"two other families verify a row of low criticality", 1, model("family:gpt", "family:gemini"), memory.RankSecondModel},
		{"and none above it", 2, model("family:gpt", "family:gemini", "family:llama"), 0},
		{"an unset criticality is critical", 0, model("family:gpt", "family:gemini"), 0},
		{"two models of one family are one", 1, append(model("family:gpt"), supports(memory.RankModel, "family:gpt")), 0},
		{"one family in two spellings is one", 1, model("family:gpt", "family:GPT", "gpt"), 0},
		{"the claim's own family is none of two", 1, model("family:gpt", "family:claude"), 0},
		{"the same evidence twice is one", 1, append(model("family:gpt"), model("family:gpt")...), 0},
		{"a tool does not lift what a primary source denies", 1, []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1"), supports(memory.RankTool, "tool:crm")}, 0},
		{"the source that denied it may take that back", 1, []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1"), supports(memory.RankPrimarySource, "doc:1")}, memory.RankPrimarySource},
		{"a user lifts it", 1, []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1"), supports(memory.RankUser, "user:ana")}, memory.RankUser},
		{"nothing verifies nothing", 1, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kin := memory.Kin{Group: groupToken, Claim: claim, Ancestors: []memory.Head{ancestor}}
			kin.Claim.Criticality = tc.crit
			if got, err := memory.Sufficient(kin, tc.evidence); got != tc.want || (err == nil) != (tc.want != 0) {
				t.Fatalf("%s, %v; want %s", got, err, tc.want)
			}
		})
	}
}

func TestI4ThroughTheStore(t *testing.T) {
	t.Run("evidence that rests on the claim does not count, however far up", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		page := b.put(toolDraft(says("page", "says", "Berlin"), "web", id)).ID
		quote := b.put(modelDraft(says("quote", "says", "Berlin"), page)).ID
		e := supports(memory.RankTool, "tool:crm")
		e.DerivedFrom = []memory.ID{quote}
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, e)
		wantErr(t, err, memory.ErrInsufficient)
	})
	t.Run("evidence that rests on a row that is not there does not count", func(t *testing.T) {
		b := newBench(t)
		e := supports(memory.RankTool, "tool:crm")
		e.DerivedFrom = []memory.ID{"mem_00000000000000000000000000"}
		_, err := b.move(b.put(modelDraft(berlin)).ID, memory.TruthSupported, memory.AuthorityProbe, e)
		wantErr(t, err, memory.ErrInsufficient)
	})
	t.Run("the source of an ancestor does not verify the descendant", func(t *testing.T) {
		b := newBench(t)
		top := b.put(toolDraft(says("page", "says", "Berlin"), "web")).ID
		_, err := b.move(b.put(modelDraft(berlin, top)).ID, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:web"))
		wantErr(t, err, memory.ErrInsufficient)
	})
	t.Run("a tool that was fed the claim is not born verified", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		if r := b.put(toolDraft(berlin, "crm", id)); r.State != memory.StateUnverified || r.Reason == "" {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("nor does it verify the row it was fed with", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		d := toolDraft(berlin, "crm", id)
		d.Anchor = ""
		if r := b.put(d); r.ID != id || r.State != memory.StateUnverified {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("what did not verify a row at its birth does not do so later", func(t *testing.T) {
		b := newBench(t)
		id := b.put(userDraft("mallory", berlin)).ID // no authority over ana
		if s := b.head(id).State(); s != memory.StateUnverified {
			t.Fatal(s)
		}
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe)
		wantErr(t, err, memory.ErrInsufficient)
	})
	t.Run("what was demoted needs new evidence", func(t *testing.T) {
		for _, down := range []func(*bench, memory.ID){
			func(b *bench, id memory.ID) {
				b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
			},
			func(b *bench, id memory.ID) { b.mustMove(id, memory.TruthUnverified, memory.AuthorityPolicy) },
		} {
			b := newBench(t)
			id := b.put(modelDraft(berlin)).ID
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			b.pass(time.Hour)
			down(b, id)
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankModel, "family:gpt"))
			wantErr(t, err, memory.ErrInsufficient)
			again := supports(memory.RankTool, "tool:crm")
			again.At = b.Now()
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, again)
		}
	})
	t.Run("to verify again takes new evidence too", func(t *testing.T) {
		b := newBench(t)
		for _, id := range []memory.ID{b.put(toolDraft(berlin, "crm")).ID, b.put(modelDraft(says("bob", "city", "Rome"))).ID} {
			if b.head(id).State() != memory.StateVerified {
				b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
			}
			for _, e := range [][]memory.Evidence{nil, {supports(memory.RankModel, "family:gpt")}} {
				_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, e...)
				wantErr(t, err, memory.ErrInsufficient)
			}
			b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		}
	})
	t.Run("evidence gathered one by one counts together", func(t *testing.T) {
		b := newBench(t)
		d := modelDraft(berlin)
		d.Criticality = memory.CriticalityLow
		id := b.put(d).ID
		if err := b.AddEvidence(t.Context(), id, "w", "r", supports(memory.RankSecondModel, "family:gpt")); err != nil {
			t.Fatal(err)
		}
		h := b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankSecondModel, "family:gemini"))
		if h.Rank != memory.RankSecondModel || b.row(id).Independent() != 2 {
			t.Fatal(h.Rank)
		}
	})
}

func TestI13NobodyMintsTheUser(t *testing.T) {
	for _, tc := range []struct {
		principal, subject string
		want               bool
	}{
		{"ana", "ana", true}, {"ana", "bob", false}, {"ana", "Ana", false}, {"Ana", "ana", false},
		{"a\u200bna", "ana", false}, {"ana", "", false}, {"", "", false}, {"\u200b", "", false}, {"аna", "ana", false},
	} {
		if got := memory.OwnSubject(tc.principal, tc.subject, "city"); got != tc.want {
			t.Errorf("OwnSubject(%q, %q) = %v", tc.principal, tc.subject, got)
		}
	}
	b := newBench(t)
	id := b.put(modelDraft(says("bob", "city", "Rome"))).ID
	user := supports(memory.RankUser, "user:bob")
	t.Run("a user without authority verifies nothing", func(t *testing.T) {
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityUser, user) // ana over bob
		wantErr(t, err, memory.ErrNoAuthority)
	})
	t.Run("nor contradicts", func(t *testing.T) {
		_, err := b.move(id, memory.TruthContradicted, memory.AuthorityUser)
		wantErr(t, err, memory.ErrNoAuthority)
	})
	t.Run("a worker does not carry a user's word", func(t *testing.T) {
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, user)
		wantErr(t, err, memory.ErrInvalid)
		wantErr(t, b.AddEvidence(t.Context(), id, "w", "r", user), memory.ErrInvalid)
	})
	t.Run("a user without authority lifts no quarantine and no block", func(t *testing.T) {
		b.mustMove(id, memory.SecurityQuarantined, memory.AuthoritySentinel)
		_, err := b.move(id, memory.SecurityClean, memory.AuthorityUser)
		wantErr(t, err, memory.ErrNoAuthority)
		b.mustMove(id, memory.RetrievalBlocked, memory.AuthorityPolicy)
		_, err = b.move(id, memory.RetrievalHidden, memory.AuthorityUser)
		wantErr(t, err, memory.ErrNoAuthority)
	})
}

func TestARejectionAttachesToTheClaim(t *testing.T) {
	reject := func(b *bench, id memory.ID) {
		t.Helper()
		if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.TruthContradicted,
			Authority: memory.AuthorityUser, Actor: "ana", Source: "ana", Reason: "wrong", Reject: true}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it attaches in one move to what a tool contradicted before", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		b.mustMove(id, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankTool, "tool:crm"))
		before := b.head(id).Revision
		reject(b, id)
		if row := b.row(id); row.Rejection == nil || row.Truth != memory.TruthContradicted || row.Revision != before+1 {
			t.Errorf("rejection %v, truth %s, revision %d after %d", row.Rejection, row.Truth, row.Revision, before)
		}
	})
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	second := b.put(toolDraft(berlin, "erp")).ID // another row of the claim, at another anchor
	reject(b, id)
	t.Run("it demotes the claim's other verified rows in the same transaction", func(t *testing.T) {
		if s := b.head(second).State(); s != memory.StateUnverified {
			t.Fatal(s)
		}
	})
	t.Run("it voids what was said before", func(t *testing.T) {
		for _, e := range append(b.row(id).Evidence, b.row(second).Evidence...) {
			if e.Relation == memory.RelationSupports && !e.Void {
				t.Fatalf("%+v", e)
			}
		}
	})
	t.Run("no tool or primary source verifies it again", func(t *testing.T) {
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe)
		wantErr(t, err, memory.ErrRejected)
		for _, rank := range []memory.Rank{memory.RankTool, memory.RankPrimarySource} {
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(rank, "doc:1"))
			wantErr(t, err, memory.ErrRejected)
		}
	})
	t.Run("respelling does not escape it", func(t *testing.T) {
		for i, c := range []memory.Content{says("ana", "City", " berlin "), says("ana", "city", "Ber\u200blin"), says("ana", "city", "Berlin\x7f")} {
			r := b.put(toolDraft(c, fmt.Sprint("t", i)))
			row := b.row(r.ID)
			if r.State != memory.StateUnverified || row.Rejection == nil {
				t.Fatalf("%q: %+v", c, r)
			}
		}
	})
	t.Run("a user lifts it with a word, not with a tool's", func(t *testing.T) {
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankTool, "tool:new"))
		wantErr(t, err, memory.ErrRejected)
		b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
		if b.row(id).Rejection != nil {
			t.Fatal("the rejection stands")
		}
	})
}

// TestI9WhatIsSaidAgainstAClaimIsSaidAgainstAllItsRows: a source that contradicted one
// row stands against a row of the same claim that is verified, or written as verified,
// later; rank decides, as for a row itself (SR-7.14).
func TestI9WhatIsSaidAgainstAClaimIsSaidAgainstAllItsRows(t *testing.T) {
	respelled := says("ana", "city", "Ber\u200blin")
	unchecked := toolDraft(respelled, "erp")
	unchecked.State, unchecked.Evidence = memory.StateUnverified, nil
	for name, c := range map[string]struct {
		since  func(b *bench, first memory.ID) // after the contradiction
		verify func(b *bench) (memory.Receipt, error)
		want   memory.State
	}{
		"a tool does not verify another row": {nil, func(b *bench) (memory.Receipt, error) {
			r := b.put(unchecked)
			_, err := b.move(r.ID, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
			wantErr(t, err, memory.ErrInsufficient)
			return memory.Receipt{ID: r.ID, State: b.head(r.ID).State()}, nil
		}, memory.StateUnverified},
		"nor is one born verified": {nil, func(b *bench) (memory.Receipt, error) {
			return b.put(toolDraft(respelled, "erp")), nil
		}, memory.StateUnverified},
		"nor after a rebuild": {func(b *bench, _ memory.ID) {
			if _, err := b.Rebuild(t.Context(), "ana", nil); err != nil {
				t.Fatal(err)
			}
		}, func(b *bench) (memory.Receipt, error) { return b.put(toolDraft(respelled, "erp")), nil }, memory.StateUnverified},
		"a higher rank does": {nil, func(b *bench) (memory.Receipt, error) {
			r := b.put(unchecked)
			b.mustMove(r.ID, memory.TruthSupported, memory.AuthorityUser, supports(memory.RankUser, "user:ana"))
			return memory.Receipt{ID: r.ID, State: b.head(r.ID).State()}, nil
		}, memory.StateVerified},
		"and so does anybody once the source takes it back": {func(b *bench, first memory.ID) {
			b.mustMove(first, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1"))
		}, func(b *bench) (memory.Receipt, error) { return b.put(toolDraft(respelled, "erp")), nil }, memory.StateVerified},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			first := b.put(toolDraft(berlin, "crm")).ID
			b.mustMove(first, memory.TruthContradicted, memory.AuthorityProbe, contradicts(memory.RankPrimarySource, "doc:1"))
			if c.since != nil {
				c.since(b, first)
			}
			if r, err := c.verify(b); err != nil || b.head(r.ID).State() != c.want {
				t.Errorf("%+v: %s, %v", r, b.head(r.ID).State(), err)
			}
		})
	}
}

// TestSR44RivalsSettleByRank is the matrix of incumbent × newcomer on one
// functional predicate, with confidence always against the outcome.
func TestSR44RivalsSettleByRank(t *testing.T) {
	ranks := []memory.Rank{memory.RankSecondModel, memory.RankTool, memory.RankPrimarySource, memory.RankUser}
	verify := func(b *bench, object string, rank memory.Rank, confidence float64) (memory.ID, error) {
		d := modelDraft(says("ana", "city", object))
		d.Criticality, d.ValueConfidence = memory.CriticalityLow, confidence
		id := b.put(d).ID
		who, evidence := memory.AuthorityProbe, []memory.Evidence{supports(rank, "src:"+object)}
		switch rank {
		case memory.RankSecondModel:
			evidence = append(evidence, supports(rank, "src:second"+object))
		case memory.RankUser:
			who = memory.AuthorityUser
		}
		_, err := b.move(id, memory.TruthSupported, who, evidence...)
		return id, err
	}
	for _, old := range ranks {
		for _, young := range ranks {
			t.Run(fmt.Sprintf("%s against a verified %s", young, old), func(t *testing.T) {
				b := newBenchOf(t, everything)
				confidence := map[bool]float64{true: 0, false: 1}[young > old]
				incumbent, err := verify(b, "Berlin", old, 1-confidence)
				if err != nil {
					t.Fatal(err)
				}
				newcomer, err := verify(b, "Munich", young, confidence)
				was, is := b.head(incumbent), b.head(newcomer)
				switch {
				case young > old:
					if err != nil || is.State() != memory.StateVerified || was.Truth != memory.TruthContradicted || is.Has(memory.FlagContested) {
						t.Fatalf("%v %+v %+v", err, was, is)
					}
					if mark, due, err := b.DueMark(t.Context(), incumbent); err != nil || !due || mark.At.After(b.Now()) {
						t.Fatal("the demoted row was not queued (SR-2.5)")
					}
				case young == old:
					if err != nil || is.State() != memory.StateVerified || was.State() != memory.StateVerified || !is.Has(memory.FlagContested) || !was.Has(memory.FlagContested) {
						t.Fatalf("%v %+v %+v", err, was, is)
					}
				default:
					wantErr(t, err, memory.ErrContested)
					if is.State() == memory.StateVerified || was.State() != memory.StateVerified || !is.Has(memory.FlagContested) || was.Has(memory.FlagContested) != (young >= memory.RankTool) {
						t.Fatalf("%+v %+v", was, is)
					}
				}
			})
		}
	}
	t.Run("a newcomer that beats one rival and not the other demotes neither", func(t *testing.T) {
		b := newBenchOf(t, everything)
		open := func(object string) memory.Content {
			return memory.Content{Subject: "ana", Predicate: "city", Object: object, Cardinality: memory.CardinalityUnknown}
		}
		low, high := b.put(toolDraft(open("Berlin"), "crm")).ID, b.put(userDraft("ana", open("Rome"))).ID
		mid := b.put(modelDraft(says("ana", "city", "Munich"))).ID
		_, err := b.move(mid, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1"))
		wantErr(t, err, memory.ErrContested)
		if b.head(low).State() != memory.StateVerified || b.head(high).State() != memory.StateVerified || b.head(mid).State() == memory.StateVerified {
			t.Fatal(b.head(low).State(), b.head(high).State(), b.head(mid).State())
		}
	})
	t.Run("a rival verified between the reading and the writing is seen", func(t *testing.T) {
		b := newBenchOf(t, everything)
		one, two := b.put(modelDraft(berlin)).ID, b.put(modelDraft(says("ana", "city", "Munich"))).ID
		b.driver.race = func() {
			b.mustMove(two, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
		}
		b.mustMove(one, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		if !b.head(one).Has(memory.FlagContested) || !b.head(two).Has(memory.FlagContested) {
			t.Fatal("two verified rivals stand uncontested")
		}
	})
	t.Run("a user's row that a lower source disputes stands contested", func(t *testing.T) {
		b := newBenchOf(t, everything)
		low, err := verify(b, "Berlin", memory.RankTool, 0)
		if err != nil {
			t.Fatal(err)
		}
		// A user's row beside it, of an object that the tool row does not know.
		d := userDraft("ana", memory.Content{Subject: "ana", Predicate: "city", Object: "Rome", Cardinality: memory.CardinalityFunctional})
		high := b.put(d).ID
		again := supports(memory.RankPrimarySource, "doc:9")
		if s := b.head(low).State(); s != memory.StateUnverified {
			t.Fatal("a user outranks a tool", s)
		}
		mid := b.put(modelDraft(says("ana", "city", "Munich"))).ID
		_, err = b.move(mid, memory.TruthSupported, memory.AuthorityProbe, again)
		wantErr(t, err, memory.ErrContested)
		if b.head(high).State() != memory.StateVerified || !b.head(high).Has(memory.FlagContested) {
			t.Fatal("X-41: the user's row stands, contested")
		}
	})
	t.Run("the same source with a newer word makes history of its older one", func(t *testing.T) {
		b := newBenchOf(t, everything)
		a := b.put(toolDraft(berlin, "crm")).ID
		d := toolDraft(says("ana", "city", "Munich"), "crm")
		c := b.put(d).ID
		if b.outdated(a); b.head(c).State() != memory.StateVerified || b.head(c).Has(memory.FlagContested) {
			t.Fatal(b.head(c).State(), b.head(c).Flags.Names())
		}
	})
	t.Run("one asserter is not one source", func(t *testing.T) {
		b := newBenchOf(t, everything) // both rows are by one model; a tool and another tool verified them
		a := b.put(modelDraft(berlin)).ID
		c := b.put(modelDraft(says("ana", "city", "Munich"))).ID
		b.mustMove(a, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		b.mustMove(c, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:erp"))
		if b.head(a).State() != memory.StateVerified || !b.head(a).Has(memory.FlagContested) || !b.head(c).Has(memory.FlagContested) {
			t.Fatal("equal rank stands contested")
		}
	})
	t.Run("an undeclared cardinality is no way round", func(t *testing.T) {
		b := newBenchOf(t, everything)
		a := b.put(toolDraft(berlin, "crm")).ID
		d := toolDraft(says("ana", "city", "Munich"), "erp")
		d.Content.Cardinality = memory.CardinalityUnknown
		c := b.put(d).ID
		if !b.head(a).Has(memory.FlagContested) || !b.head(c).Has(memory.FlagContested) {
			t.Fatal("two cities of one person stand uncontested")
		}
	})
	t.Run("many objects of a set are no rivals", func(t *testing.T) {
		b := newBenchOf(t, everything)
		for _, o := range []string{"go", "tea"} {
			c := says("ana", "likes", o)
			c.Cardinality = memory.CardinalitySetValued
			if h := b.head(b.put(toolDraft(c, "crm")).ID); h.State() != memory.StateVerified || h.Has(memory.FlagContested) {
				t.Fatalf("%+v", h)
			}
		}
	})
	t.Run("rivals verified at once see each other", func(t *testing.T) {
		b := newBenchOf(t, everything)
		var wg sync.WaitGroup
		ids := make([]memory.ID, 8)
		for i := range ids {
			ids[i] = b.put(modelDraft(says("ana", "city", fmt.Sprint("city", i)))).ID
		}
		for i, id := range ids {
			wg.Go(func() {
				h := b.head(id)
				for {
					_, err := b.Apply(t.Context(), memory.Transition{Row: id, Revision: h.Revision, To: memory.TruthSupported, Authority: memory.AuthorityProbe,
						Actor: "w", Source: "s", Reason: "r", Evidence: []memory.Evidence{supports(memory.RankTool, fmt.Sprint("tool:", i))}})
					if err == nil {
						return
					}
					if h = b.head(id); !errors.Is(err, memory.ErrConflict) {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			if !b.head(id).Has(memory.FlagContested) {
				t.Fatal("a verified rival stands uncontested")
			}
		}
	})
}

func TestDemotionTakesAHigherWord(t *testing.T) {
	for _, tc := range []struct {
		name     string
		verified memory.Rank
		who      memory.Authority
		evidence []memory.Evidence
		want     error
	}{
		{"a primary source demotes a tool", memory.RankTool, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1")}, nil},
		{"the tool that verified it takes it back", memory.RankTool, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankTool, "src:a")}, nil},
		{"another tool does not demote it", memory.RankTool, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankTool, "tool:x")}, memory.ErrOutranked},
		{"a model does not demote a tool", memory.RankTool, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankSecondModel, "family:gpt")}, memory.ErrOutranked},
		{"no evidence demotes nothing", memory.RankTool, memory.AuthorityProbe, nil, memory.ErrOutranked},
		{"no source demotes a user", memory.RankUser, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankPrimarySource, "doc:1")}, memory.ErrOutranked},
		{"nor does a sentinel", memory.RankUser, memory.AuthoritySentinel, nil, memory.ErrOutranked},
		{"a user demotes a user", memory.RankUser, memory.AuthorityUser, nil, nil},
		{"a user demotes a primary source", memory.RankPrimarySource, memory.AuthorityUser, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			id := b.put(modelDraft(berlin)).ID
			who := memory.AuthorityProbe
			if tc.verified == memory.RankUser {
				who = memory.AuthorityUser
			}
			b.mustMove(id, memory.TruthSupported, who, supports(tc.verified, "src:a"))
			_, err := b.move(id, memory.TruthContradicted, tc.who, tc.evidence...)
			if !errors.Is(err, tc.want) || (b.head(id).State() == memory.StateVerified) != (tc.want != nil) {
				t.Fatalf("%v, %s", err, b.head(id).State())
			}
		})
	}
	t.Run("a user's word does not end because a source fell silent", func(t *testing.T) {
		b := newBench(t)
		id := b.put(userDraft("ana", berlin)).ID
		for _, who := range []memory.Authority{memory.AuthorityProbe, memory.AuthorityPolicy, memory.AuthoritySystem} {
			_, err := b.move(id, memory.TruthUnverified, who)
			wantErr(t, err, memory.ErrOutranked)
		}
	})
	t.Run("evidence that contests, is taken back and comes again, contests again", func(t *testing.T) {
		b := newBench(t)
		id := b.put(userDraft("ana", berlin)).ID
		at := func(e memory.Evidence) memory.Evidence { b.pass(time.Hour); e.At = b.Now(); return e }
		add := func(e memory.Evidence) {
			if err := b.AddEvidence(t.Context(), id, "w", "r", at(e)); err != nil {
				t.Fatal(err)
			}
		}
		add(contradicts(memory.RankTool, "tool:crm"))
		if !b.head(id).Has(memory.FlagContested) {
			t.Fatal("X-41: a tool against a user contests")
		}
		add(supports(memory.RankTool, "tool:crm"))
		b.mustMove(id, memory.TruthSupported, memory.AuthorityUser, at(supports(memory.RankUser, "user:ana")))
		if b.head(id).Has(memory.FlagContested) {
			t.Fatal("the user settled it")
		}
		add(contradicts(memory.RankTool, "tool:crm"))
		if !b.head(id).Has(memory.FlagContested) {
			t.Fatal("the second contradiction was taken for the first")
		}
	})
}

func TestSourcesOfOneRankThatDisagreeVerifyNothing(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	if err := b.AddEvidence(b.Context(), id, "worker:1", "erp says otherwise", contradicts(memory.RankTool, "tool:erp")); err != nil {
		t.Fatal(err)
	}
	_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	wantErr(t, err, memory.ErrInsufficient)
	if s := b.head(id).State(); s != memory.StateUnverified {
		t.Fatalf("SR-7.14: the row is %s", s)
	}
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1"))
}

func TestSupportOfALowerRankRenewsNothing(t *testing.T) {
	for _, tc := range []struct {
		name           string
		verified, says memory.Rank
		renews         bool
	}{
		{"a tool does not renew what a primary source verified", memory.RankPrimarySource, memory.RankTool, false},
		{"nor what a user verified", memory.RankUser, memory.RankTool, false},
		{"another primary source does", memory.RankPrimarySource, memory.RankPrimarySource, true},
		{"a primary source renews what a tool verified, and raises it", memory.RankTool, memory.RankPrimarySource, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBenchOf(t, everything)
			id := b.put(modelDraft(berlin)).ID
			who := memory.AuthorityProbe
			if tc.verified == memory.RankUser {
				who = memory.AuthorityUser
			}
			before := b.mustMove(id, memory.TruthSupported, who, supports(tc.verified, "src:a"))
			b.pass(time.Hour)
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe, supports(tc.says, "src:b"))
			if after := b.head(id); (err == nil) != tc.renews || tc.renews != after.StaleAt.After(before.StaleAt) || after.Rank != max(tc.verified, after.Rank) {
				t.Fatalf("%v: stale at %s, before %s, rank %s", err, after.StaleAt, before.StaleAt, after.Rank)
			}
			if !tc.renews {
				wantErr(t, err, memory.ErrInsufficient)
			}
		})
	}
}

func TestEvidenceOfAQuorumCountsTogetherOrNotAtAll(t *testing.T) {
	of := func(k int, rank memory.Rank, group string) memory.Evidence {
		e := supports(rank, group)
		e.Quorum = k
		return e
	}
	claim := memory.Head{ID: "claim", Revision: 1, Claim: memory.Token{1}, Group: groupToken("claude")}
	for _, tc := range []struct {
		name     string
		evidence []memory.Evidence
		want     memory.Rank
	}{
		{"one of two is too few", []memory.Evidence{of(2, memory.RankTool, "tool:a")}, 0},
		{"two of two", []memory.Evidence{of(2, memory.RankTool, "tool:a"), of(2, memory.RankTool, "tool:b")}, memory.RankTool},
		{"one group in two spellings is one", []memory.Evidence{of(2, memory.RankTool, "tool:a"), of(2, memory.RankTool, "TOOL:A")}, 0},
		{"a member of the claim's own group is none", []memory.Evidence{of(2, memory.RankTool, "tool:a"), of(2, memory.RankTool, "claude")}, 0},
		{"two of three are too few", []memory.Evidence{of(3, memory.RankTool, "tool:a"), of(3, memory.RankPrimarySource, "doc:b")}, 0},
		{"the rank is the highest among them", []memory.Evidence{of(2, memory.RankTool, "tool:a"), of(2, memory.RankPrimarySource, "doc:b")}, memory.RankPrimarySource},
		{"a model is no member", []memory.Evidence{of(2, memory.RankTool, "tool:a"), supports(memory.RankSecondModel, "family:gpt")}, 0},
		{"a source that needs no quorum suffices alone", []memory.Evidence{of(3, memory.RankPrimarySource, "doc:b"), supports(memory.RankTool, "tool:a")}, memory.RankTool},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := memory.Sufficient(memory.Kin{Group: groupToken, Claim: claim}, tc.evidence)
			if got != tc.want || (err == nil) != (tc.want != 0) {
				t.Fatalf("%s, %v; want %s", got, err, tc.want)
			}
		})
	}
	t.Run("it is stored with the evidence", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		one, two := of(2, memory.RankTool, "tool:a"), of(2, memory.RankTool, "tool:b")
		if err := b.AddEvidence(t.Context(), id, "w", "r", one); err != nil {
			t.Fatal(err)
		}
		_, err := b.move(id, memory.TruthSupported, memory.AuthorityProbe)
		wantErr(t, err, memory.ErrInsufficient)
		b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, two)
		for _, e := range b.row(id).Evidence {
			if e.Quorum != 2 || e.Void {
				t.Fatalf("%+v", e)
			}
		}
	})
	for name, bad := range map[string]memory.Evidence{"below zero": of(-1, memory.RankTool, "tool:a"), "above the limit": of(memory.MaxQuorum+1, memory.RankTool, "tool:a"), "of a user": of(2, memory.RankUser, "user:ana")} {
		t.Run(name+" is refused", func(t *testing.T) {
			b := newBench(t)
			err := b.AddEvidence(t.Context(), b.put(modelDraft(berlin)).ID, "w", "r", bad)
			var field *memory.FieldError
			if !errors.As(err, &field) || field.Field != "evidence.quorum" {
				t.Fatal(err)
			}
		})
	}
}

// What was only seen side by side, and asked of nobody, takes two groups of tools.
func TestD30AutoObservationTakesTwoGroupsOfTools(t *testing.T) {
	for _, tc := range []struct {
		name     string
		evidence []memory.Evidence
		want     bool
	}{
		{"one tool", []memory.Evidence{supports(memory.RankTool, "tool:a")}, false},
		{"one primary source", []memory.Evidence{supports(memory.RankPrimarySource, "doc:a")}, false},
		{"two models", []memory.Evidence{supports(memory.RankSecondModel, "family:a"), supports(memory.RankSecondModel, "family:b")}, false},
		{"a tool and a model", []memory.Evidence{supports(memory.RankTool, "tool:a"), supports(memory.RankSecondModel, "family:b")}, false},
		{"a tool twice", []memory.Evidence{supports(memory.RankTool, "tool:a"), says4(memory.RelationSupports, memory.RankTool, "other", "tool:a")}, false},
		{"two tools", []memory.Evidence{supports(memory.RankTool, "tool:a"), supports(memory.RankTool, "tool:b")}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			d := modelDraft(berlin)
			d.Criticality = memory.CriticalityLow
			id := b.put(d).ID
			_, err := b.move(id, memory.TruthSupported, memory.AuthorityAutoObservation, tc.evidence...)
			if (err == nil) != tc.want || (b.head(id).State() == memory.StateVerified) != tc.want {
				t.Fatalf("%v, %s", err, b.head(id).State())
			}
		})
	}
}

func TestHeatIsACountOfReads(t *testing.T) {
	b := newBench(t)
	id := b.put(modelDraft(berlin)).ID
	for _, reads := range []map[memory.ID]float64{{id: math.NaN()}, {id: math.Inf(1)}, {id: -1}, {"mem_x": 1}} {
		_, err := b.AddHeat(b.Context(), reads)
		wantErr(t, err, memory.ErrInvalid)
	}
}
