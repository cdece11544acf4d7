package promotion_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

const days = 24 * time.Hour

// says gives a value for the claim, and supports it.
func says(value string) verifiertest.Step {
	return func(_ context.Context, s *verifiertest.Scripted, _ memory.Row) (verifier.Verdict, error) {
		return s.Verdict(verifier.Supported, value), nil
	}
}

// A source that agrees lets what a person said be fresh for longer, and touches nothing
// else of it (SR-7.5, LS-5).
func TestASourceThatAgreesRenewsAUsersWord(t *testing.T) {
	w := newWorld(t)
	id := w.said("ana", "Oslo")
	said := w.row(id)
	crm := verifiertest.New("crm", verifiertest.Supports())
	worker := w.worker(nil, source(crm))
	for range 4 {
		w.pass(31 * days)
		r := w.check(worker, id)
		w.want(id, memory.StateVerified, r, promotion.Renewed)
		now := w.row(id)
		if now.Rank != memory.RankUser || !now.VerifiedAt.Equal(said.VerifiedAt) || now.FreshnessAt(w.clock()) != memory.FreshnessFresh || !now.StaleAt.Equal(w.clock().Add(30*days)) {
			t.Fatalf("rank %s, verified at %s, %s, stale at %s", now.Rank, now.VerifiedAt, now.FreshnessAt(w.clock()), now.StaleAt)
		}
		if mark := w.mark(id); !mark.At.Equal(now.StaleAt) {
			t.Errorf("due at %s, and stale at %s", mark.At, now.StaleAt)
		}
	}
	if n := len(w.row(id).Evidence); n != 2 { // what is said again counts once
		t.Errorf("%d pieces of evidence", n)
	}
}

// Others renew a person's word for a year of 30 days at most; then the person looks again.
func TestAUsersWordIsNotRenewedForEver(t *testing.T) {
	w := newWorld(t)
	id := w.said("ana", "Oslo")
	last := w.row(id).VerifiedAt.Add(360 * days)
	worker := w.worker(nil, source(verifiertest.New("crm", verifiertest.Supports())))
	for range 35 {
		w.pass(10 * days)
		w.check(worker, id)
		if row := w.row(id); row.ExpiresAt.After(last) {
			t.Fatalf("it expires at %s", row.ExpiresAt)
		}
	}
	if row := w.row(id); row.FreshnessAt(last.Add(-time.Second)) != memory.FreshnessStale || row.FreshnessAt(last) != memory.FreshnessExpired || row.State() != memory.StateVerified {
		t.Errorf("%s before, %s after", row.FreshnessAt(last.Add(-time.Second)), row.FreshnessAt(last))
	}
}

func TestWhatDoesNotRenewAUsersWord(t *testing.T) {
	for name, c := range map[string]struct {
		source *verifiertest.Scripted
		before func(w *world, id memory.ID)
	}{
		"another spelling": {verifiertest.New("crm", says("OSLO")), nil},
		"no value at all":  {verifiertest.New("crm", says("")), nil},
		"a second model":   {ranked("gpt", memory.RankSecondModel, verifiertest.Supports()), nil},
		"whoever said it": {func() *verifiertest.Scripted {
			v := verifiertest.New("crm", verifiertest.Supports())
			v.Group = "user:ana"
			return v
		}(), nil},
		"while one disagrees": {verifiertest.New("crm", verifiertest.Supports()), func(w *world, id memory.ID) {
			e := memory.Evidence{Relation: memory.RelationContradicts, Rank: memory.RankTool, Source: "hr", Verifier: "hr", Group: "tool:hr", Anchor: memory.Anchor{URI: "hr:1"}, At: w.clock()}
			if err := w.store.AddEvidence(w.ctx, id, "worker", "test", e); err != nil {
				w.t.Fatalf("%v", err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.said("ana", "Oslo")
			if c.before != nil {
				c.before(w, id)
			}
			stale := w.row(id).StaleAt
			w.pass(31 * days)
			r := w.check(w.worker(nil, source(c.source)), id)
			w.want(id, memory.StateVerified, r, promotion.Kept)
			if row := w.row(id); !row.StaleAt.Equal(stale) || row.Rank != memory.RankUser {
				t.Errorf("stale at %s, rank %s", row.StaleAt, row.Rank)
			}
		})
	}
}

// That the clock made a row stale is in its history once a worker looked, and so is what
// made it fresh again.
func TestWhatTheClockMadeOfARowIsInItsHistory(t *testing.T) { // LS-5, LS-8
	w := newWorld(t)
	crm := verifiertest.New("crm", verifiertest.Supports())
	id := w.claim("ana", "Oslo", nil)
	worker := w.worker(nil, source(crm))
	w.check(worker, id)
	w.pass(31 * days)
	w.check(worker, id)
	w.pass(100 * days)
	crm.Set(verifiertest.Down(0))
	w.check(worker, id)
	var got []string
	for _, e := range w.moves(id) {
		if e.Axis == memory.AxisFreshness {
			got = append(got, e.From+">"+e.To+" by "+e.Authority.String())
		}
	}
	want := "fresh>stale by system, stale>fresh by probe, fresh>stale by system, stale>expired by system"
	if strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	n := len(w.moves(id))
	w.check(worker, id)
	if len(w.moves(id)) != n {
		t.Error("the same event is there twice")
	}
}
