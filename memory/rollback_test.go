package memory_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

func TestRollback(t *testing.T) {
	roll := func(b *bench, id memory.ID) (memory.RolledBack, error) {
		return b.Rollback(b.Context(), memory.Rollback{Row: id, Revision: b.head(id).Revision, Authority: memory.AuthorityPolicy, Actor: "operator", Reason: "a bad import"})
	}
	// A tool's row is displaced by a primary source.
	displaced := func(t *testing.T) (b *bench, old, bad memory.ID) {
		b = newBench(t)
		old = b.put(modelDraft(says("acme", "email", "old@acme.example"))).ID
		b.mustMove(old, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankTool, "tool:crm"))
		b.pass(time.Minute)
		bad = b.put(modelDraft(says("acme", "email", "bad@acme.example"))).ID
		b.mustMove(bad, memory.TruthSupported, memory.AuthorityProbe, supports(memory.RankPrimarySource, "doc:1"))
		if s := b.head(old).Truth; s != memory.TruthContradicted {
			t.Fatal(s)
		}
		b.pass(time.Minute)
		return b, old, bad
	}
	t.Run("with a predecessor, which comes back unverified and due", func(t *testing.T) {
		b, old, bad := displaced(t)
		done, err := roll(b, bad)
		if err != nil || done.Restored != old || done.Retracted.Truth != memory.TruthSuperseded || done.String() != "ROLLED_BACK_WITH_REACTIVATION("+string(old)+")" {
			t.Fatal(done, err)
		}
		if h := b.head(old); h.State() != memory.StateUnverified || h.Truth != memory.TruthUnverified {
			t.Fatalf("a rollback verified it: %+v", h)
		}
		if mark, due, err := b.DueMark(t.Context(), old); err != nil || !due || mark.At.After(b.Now()) {
			t.Fatal(mark, due, err)
		}
		log, err := b.History(t.Context(), old, false)
		last := log[len(log)-1]
		if err != nil || last.Kind != memory.EntryRollback || !strings.Contains(last.Reason, "reactivated after rollback of "+string(bad)) {
			t.Fatal(last, err)
		}
		if _, due, _ := b.DueMark(t.Context(), bad); due {
			t.Fatal("what was retracted is still to be checked")
		}
		if _, err := b.Verify(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("without one", func(t *testing.T) {
		b := newBench(t)
		id := b.put(modelDraft(berlin)).ID
		done, err := roll(b, id)
		if err != nil || done.String() != "ROLLED_BACK_NO_PREDECESSOR" || b.head(id).Truth != memory.TruthSuperseded {
			t.Fatal(done, err)
		}
	})
	t.Run("a predecessor that moved since, or that a user rejected, stays", func(t *testing.T) {
		b, old, bad := displaced(t)
		b.mustMove(old, memory.TruthUnverified, memory.AuthorityProbe)
		if done, err := roll(b, bad); err != nil || done.Restored != "" {
			t.Fatal(done, err)
		}
		b, old, bad = displaced(t)
		mine := b.put(userDraft("acme", says("acme", "email", "old@acme.example")))
		if _, err := b.Apply(b.Context(), memory.Transition{Row: mine.ID, Revision: b.head(mine.ID).Revision, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "acme", Source: "s", Reason: "r", Reject: true}); err != nil {
			t.Fatal(err)
		}
		if done, err := roll(b, bad); err != nil || done.Restored == old {
			t.Fatal(done, err)
		}
	})
	t.Run("of another version, twice, by nobody with authority, of an erased or unknown row", func(t *testing.T) {
		b, _, bad := displaced(t)
		ask := memory.Rollback{Row: bad, Revision: 1, Authority: memory.AuthorityPolicy, Actor: "operator", Reason: "r"}
		_, err := b.Rollback(t.Context(), ask)
		wantErr(t, err, memory.ErrConflict)
		ask.Revision, ask.Authority, ask.Actor = b.head(bad).Revision, memory.AuthorityUser, "mallory"
		_, err = b.Rollback(t.Context(), ask)
		wantErr(t, err, memory.ErrNoAuthority)
		ask.Authority = memory.AuthorityProbe
		_, err = b.Rollback(t.Context(), ask)
		wantErr(t, err, memory.ErrIllegalMove)
		ask.Authority, ask.Reason = memory.AuthorityPolicy, ""
		_, err = b.Rollback(t.Context(), ask)
		wantErr(t, err, memory.ErrInvalid)
		if _, err := roll(b, bad); err != nil {
			t.Fatal(err)
		}
		_, err = roll(b, bad)
		wantErr(t, err, memory.ErrIllegalMove)
		if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "acme", Actor: "dpo"}); err != nil {
			t.Fatal(err)
		}
		_, err = roll(b, bad)
		wantErr(t, err, memory.ErrErased)
		ask.Row, ask.Reason = "mem_00000000000000000000000000", "r"
		if _, err = b.Rollback(t.Context(), ask); !errors.Is(err, memory.ErrNotFound) {
			t.Fatal(err)
		}
	})
}
