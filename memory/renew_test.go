package memory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// renew asks that a row be renewed on a piece of evidence.
func (b *bench) renew(id memory.ID, who memory.Authority, evidence ...memory.Evidence) (memory.Head, error) {
	b.Helper()
	return b.Renew(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.FreshnessFresh, Authority: who, Actor: "worker:1", Source: "crm", Reason: "it agrees", Evidence: evidence})
}

func TestRenewalIsOfFreshnessAlone(t *testing.T) { // SR-7.5, LS-5
	b := newBenchOf(t, everything)
	id := b.put(userDraft("ana", berlin)).ID
	was := *b.head(id)
	b.pass(40 * 24 * time.Hour)
	if b.head(id).FreshnessAt(b.Now()) != memory.FreshnessStale {
		t.Fatal("it is not stale")
	}
	h, err := b.renew(id, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	if err != nil {
		t.Fatal(err)
	}
	is := *b.head(id)
	if h.Revision != is.Revision || is.FreshnessAt(b.Now()) != memory.FreshnessFresh || !is.StaleAt.Equal(b.Now().Add(memory.DefaultCheckEvery)) || !is.LookedAt().Equal(b.Now()) {
		t.Errorf("%+v", is)
	}
	if is.Truth != was.Truth || is.Rank != was.Rank || !is.VerifiedAt.Equal(was.VerifiedAt) || is.Retrieval != was.Retrieval || is.Security != was.Security || is.Flags != was.Flags {
		t.Errorf("%+v, and it was %+v", is, was)
	}
	log, err := b.History(t.Context(), id, false)
	if last := log[len(log)-1]; err != nil || last.Axis != memory.AxisFreshness || last.From != "stale" || last.To != "fresh" || len(last.Evidence) != 1 {
		t.Errorf("%+v, %v", log, err)
	}
	if v, err := b.VerifyAll(t.Context(), memory.Verifying{}); err != nil || v.Found != 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := b.Rebuild(t.Context(), "test", nil); err != nil || !b.head(id).StaleAt.Equal(is.StaleAt) {
		t.Error(err, b.head(id).StaleAt)
	}
}

func TestWhatIsNotRenewed(t *testing.T) {
	tool := supports(memory.RankTool, "tool:crm")
	for _, tc := range []struct {
		name     string
		draft    memory.Draft
		before   func(b *bench, id memory.ID)
		who      memory.Authority
		evidence []memory.Evidence
		want     error
	}{
		{"a row that nobody verified", modelDraft(berlin), nil, memory.AuthorityProbe, []memory.Evidence{tool}, memory.ErrIllegalMove},
		{"by a model", userDraft("ana", berlin), nil, memory.AuthorityProbe, []memory.Evidence{supports(memory.RankSecondModel, "family:gpt")}, memory.ErrInsufficient},
		{"by its own source", toolDraft(berlin, "crm"), nil, memory.AuthorityProbe, []memory.Evidence{tool}, memory.ErrInsufficient},
		{"by what rests on it", userDraft("ana", berlin), func(b *bench, id memory.ID) { tool.DerivedFrom = []memory.ID{id} }, memory.AuthorityProbe, nil, memory.ErrInsufficient},
		{"by a contradiction", userDraft("ana", berlin), nil, memory.AuthorityProbe, []memory.Evidence{contradicts(memory.RankTool, "tool:crm")}, memory.ErrInsufficient},
		{"while somebody disagrees", userDraft("ana", berlin), func(b *bench, id memory.ID) {
			if err := b.AddEvidence(b.Context(), id, "worker", "test", contradicts(memory.RankTool, "tool:hr")); err != nil {
				b.Fatal(err)
			}
		}, memory.AuthorityProbe, []memory.Evidence{supports(memory.RankTool, "tool:crm")}, memory.ErrInsufficient},
		{"by a user: that is a confirmation", userDraft("ana", berlin), nil, memory.AuthorityUser, []memory.Evidence{tool}, memory.ErrIllegalMove},
		{"by the system", userDraft("ana", berlin), nil, memory.AuthoritySystem, []memory.Evidence{tool}, memory.ErrIllegalMove},
		{"past its last window", userDraft("ana", berlin), func(b *bench, _ memory.ID) { b.pass(359 * 24 * time.Hour) }, memory.AuthorityProbe, []memory.Evidence{supports(memory.RankTool, "tool:crm")}, memory.ErrInsufficient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBenchOf(t, everything)
			id := b.put(tc.draft).ID
			b.pass(24 * time.Hour)
			if tc.before != nil {
				tc.before(b, id)
			}
			evidence := tc.evidence
			if evidence == nil {
				evidence = []memory.Evidence{tool}
			}
			was := *b.head(id)
			if _, err := b.renew(id, tc.who, evidence...); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if is := b.head(id); is.Revision != was.Revision || !is.StaleAt.Equal(was.StaleAt) {
				t.Errorf("it moved to %d, stale at %s", is.Revision, is.StaleAt)
			}
		})
	}
	t.Run("by an answer that something else was verified since", func(t *testing.T) {
		b := newBenchOf(t, everything)
		id := b.put(userDraft("ana", berlin)).ID
		marks, err := b.MarkLines(t.Context(), berlin)
		if err != nil {
			t.Fatal(err)
		}
		other := berlin
		other.Object = "Munich"
		b.put(userDraft("cleo", other))
		_, err = b.Renew(t.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: memory.FreshnessFresh, Authority: memory.AuthorityProbe, Actor: "w", Source: "crm", Reason: "r",
			Evidence: []memory.Evidence{supports(memory.RankTool, "tool:crm")}, Asked: marks[0]})
		if !errors.Is(err, memory.ErrOvertaken) && !errors.Is(err, memory.ErrInsufficient) {
			t.Error(err)
		}
	})
	t.Run("by one that was revoked", func(t *testing.T) {
		b := newBenchOf(t, everything)
		id := b.put(userDraft("ana", berlin)).ID
		b.revoke(memory.RevokedVerifier, "verifier:tool:crm")
		if _, err := b.renew(id, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm")); !errors.Is(err, memory.ErrRevoked) {
			t.Error(err)
		}
	})
}

// A move of truth makes a row fresh that the clock had made stale, and says so (LS-5).
func TestATruthMoveSaysThatItEndsStaleness(t *testing.T) {
	b := newBench(t)
	id := b.put(toolDraft(berlin, "crm")).ID
	b.pass(10 * 24 * time.Hour)
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
	b.pass(60 * 24 * time.Hour)
	again := supports(memory.RankTool, "tool:crm")
	again.At = b.Now()
	b.mustMove(id, memory.TruthSupported, memory.AuthorityProbe, again)
	log, err := b.History(t.Context(), id, false)
	if err != nil || len(log) != 3 || strings.Contains(log[1].Reason, "clock") || !strings.Contains(log[2].Reason, "it was stale by the clock") {
		t.Errorf("%+v, %v", log, err)
	}
}

// A row that was noted to be stale is fresh again when its own source says it again.
func TestASourceThatSaysItAgainMakesAStaleRowFresh(t *testing.T) {
	b := newBench(t)
	id := b.put(toolDraft(berlin, "crm")).ID
	b.pass(31 * 24 * time.Hour)
	b.mustMove(id, memory.FreshnessStale, memory.AuthoritySystem)
	d := toolDraft(berlin, "crm")
	d.Evidence[0].At = b.Now()
	if r := b.put(d); r.ID != id || r.Disposition != memory.Reaffirmed {
		t.Fatalf("%+v", r)
	}
	if h := b.head(id); h.FreshnessAt(b.Now()) != memory.FreshnessFresh || h.Revision != 4 {
		t.Errorf("%s at %d", h.FreshnessAt(b.Now()), h.Revision)
	}
}
