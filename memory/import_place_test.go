package memory_test

import (
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// TestWhatNobodyVouchesForIsRestrictedUntilSomebodyLooks is LS-14.
func TestWhatNobodyVouchesForIsRestrictedUntilSomebodyLooks(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		b := newBench(t)
		row := func(name string, c memory.Content, there memory.Retrieval) memory.Imported {
			return memory.Imported{Name: name, Draft: modelDraft(c), Retrieval: there}
		}
		receipts, err := b.importing(trusted).Put(t.Context(), []memory.Imported{
			row("plain", says("acme", "city", "Oslo"), 0),
			row("restricted there", says("acme", "city", "Rome"), memory.RetrievalRestricted),
			row("blocked there", says("acme", "city", "Bonn"), memory.RetrievalBlocked),
		}, noCursor)
		if err != nil {
			t.Fatal(err)
		}
		want := []memory.Retrieval{memory.RetrievalRestricted, memory.RetrievalRestricted, memory.RetrievalBlocked}
		marked := []bool{true, false, false}
		if trusted {
			want[0], marked[0] = memory.RetrievalNormal, false
		}
		for i, r := range receipts {
			if h := b.head(r.ID); h.Retrieval != want[i] || h.Has(memory.FlagImported) != marked[i] {
				t.Errorf("trusted %t, row %d is %s, marked %t", trusted, i, h.Retrieval, h.Has(memory.FlagImported))
			}
		}
		if trusted {
			continue
		}
		// Whoever moves it knows why: the mark is gone, and nothing brings it back.
		id := receipts[0].ID
		for _, to := range []memory.Retrieval{memory.RetrievalHidden, memory.RetrievalRestricted} {
			if _, err := b.Apply(t.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: to, Authority: memory.AuthorityUser, Actor: "acme", Source: "user:acme", Reason: "not now"}); err != nil {
				t.Fatal(err)
			}
			if h := b.head(id); h.Has(memory.FlagImported) || h.Retrieval != to {
				t.Errorf("moved to %s it is %s, marked %t", to, h.Retrieval, h.Has(memory.FlagImported))
			}
		}
		if v, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
			t.Errorf("a verification finds %d things: %v", v.Found, err)
		}
		before := b.head(id)
		if _, err := b.Rebuild(t.Context(), "op", nil); err != nil {
			t.Fatal(err)
		}
		if after := b.head(id); after.Retrieval != before.Retrieval || after.Flags != before.Flags || after.StaleAt != before.StaleAt {
			t.Errorf("a rebuild makes %+v of %+v", after, before)
		}
	}
}

func TestAnImportedRowIsAsOldAsItWasThere(t *testing.T) {
	for _, trusted := range []bool{true, false} {
		b := newBench(t)
		now := b.Now()
		receipts, err := b.importing(trusted).Put(t.Context(), []memory.Imported{
			{Name: "old", Draft: modelDraft(says("acme", "city", "Oslo")), WrittenAt: now.Add(-40 * 24 * time.Hour)},
			{Name: "of the future", Draft: modelDraft(says("acme", "city", "Rome")), WrittenAt: now.Add(400 * 24 * time.Hour)},
			{Name: "undated", Draft: modelDraft(says("acme", "city", "Bonn"))},
		}, noCursor)
		if err != nil {
			t.Fatal(err)
		}
		fresh := []memory.Freshness{memory.FreshnessStale, memory.FreshnessFresh, memory.FreshnessFresh}
		for i, r := range receipts {
			h := b.head(r.ID)
			if got := h.FreshnessAt(now); got != fresh[i] || i > 0 && h.StaleAt.After(now.Add(memory.DefaultCheckEvery)) {
				t.Errorf("trusted %t, row %d is %s, stale at %s", trusted, i, got, h.StaleAt)
			}
			if said := b.row(r.ID).SaidAt; (i == 2) != said.IsZero() {
				t.Errorf("row %d was said at %s", i, said)
			}
		}
	}
}
