package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// TestNoCallInOneScopeChangesOrRevealsAnotherOne runs random calls of two scopes on
// one driver and one keyring, and each scope's calls again alone on a driver of its
// own. What a scope was answered must be the same both times: nothing of the other
// one shows, and nothing of it is changed. Every id of the other scope is tried too.
func TestNoCallInOneScopeChangesOrRevealsAnotherOne(t *testing.T) {
	calls := 0
	scopes := []memory.Options{
		{Tenant: "acme"}, {Tenant: "acme "}, {Tenant: "Acme"}, {Tenant: "acme", Namespace: "a"}, {Tenant: "acme", Namespace: "A"},
		{Tenant: "acme", Namespace: "a/h"}, {Tenant: "{acme}"}, {Tenant: "*"}, {Tenant: "acmé"}, {Tenant: "acme\u0301"}, {Tenant: "default"}, {Tenant: "acme", Namespace: "h/"},
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.Permutation(scopes).Draw(t, "scopes")[:2]
		shared, keys := storetest.NewMap(), keyring.Ephemeral()
		var together, alone [2]*actor
		for i := range at {
			together[i] = newActor(t, shared, keys, at[i])
			alone[i] = newActor(t, storetest.NewMap(), keyring.Ephemeral(), at[i])
		}
		for range rapid.IntRange(5, 40).Draw(t, "calls") {
			who := rapid.IntRange(0, 1).Draw(t, "who")
			op, a, b := rapid.SampledFrom(ops).Draw(t, "op"), rapid.IntRange(0, 7).Draw(t, "a"), rapid.IntRange(0, 7).Draw(t, "b")
			got, want := together[who].do(op, a, b), alone[who].do(op, a, b)
			calls++
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q of %+v was answered otherwise beside another scope: %s", op, at[who], diff)
			}
			if foreign := together[1-who].ids; len(foreign) > 0 {
				id := foreign[a%len(foreign)]
				if _, err := together[who].s.Get(context.Background(), id); !errors.Is(err, memory.ErrNotFound) {
					t.Fatalf("%+v sees a row of %+v: %v", at[who], at[1-who], err)
				}
				d := modelDraft(says("x", "is", "y"), id)
				if _, err := together[who].s.Put(context.Background(), d); !errors.Is(err, memory.ErrInvalid) {
					t.Fatalf("%+v makes a row from one of %+v: %v", at[who], at[1-who], err)
				}
			}
		}
		for i := range at {
			if _, err := together[i].s.Verify(context.Background(), nil, nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Logf("%d calls", calls)
	if calls == 0 {
		t.Fatal("nothing was called")
	}
}

var ops = []string{"put", "put", "verify", "contradict", "evidence", "echo", "heat", "record", "list", "search", "history", "due", "erase", "rebuild", "compact", "epoch"}

// actor makes calls of one scope, and names rows by the order they were written in.
type actor struct {
	s   *memory.Store
	ids []memory.ID
	now time.Time
}

func newActor(t *rapid.T, d memory.Driver, k memory.Keys, o memory.Options) *actor {
	a := &actor{now: day0}
	o.Clock = func() time.Time { return a.now }
	s, err := memory.New(d, k, &o)
	if err != nil {
		t.Fatal(err)
	}
	a.s = s
	return a
}

// do makes one call and says what was answered, ids by their number.
func (a *actor) do(op string, x, y int) []string {
	ctx := context.Background()
	a.now = a.now.Add(time.Second)
	var out []string
	name := func(id memory.ID) string {
		for i, known := range a.ids {
			if known == id {
				return fmt.Sprint("row ", i)
			}
		}
		return "a row"
	}
	say := func(v ...any) { out = append(out, fmt.Sprint(v...)) }
	sayErr := func(err error) {
		for _, e := range []error{memory.ErrInvalid, memory.ErrNotFound, memory.ErrConflict, memory.ErrErased, memory.ErrInsufficient, memory.ErrOutranked, memory.ErrIllegalMove, memory.ErrContested} {
			if errors.Is(err, e) {
				say(e)
				return
			}
		}
		say(err)
	}
	if op != "put" && len(a.ids) == 0 {
		return nil
	}
	pick := func(i int) memory.ID { return a.ids[i%len(a.ids)] }
	head := func(id memory.ID) memory.Head {
		f, err := a.s.Fitness(ctx, []memory.ID{id})
		if err != nil {
			sayErr(err)
			return memory.Head{}
		}
		return f.Heads[0]
	}
	row := func(r memory.Row) {
		say(name(r.ID), r.Content, r.State(), r.Revision, len(r.Evidence), r.Echoes.Count, r.Flags)
	}
	switch op {
	case "put":
		d := modelDraft(says(fmt.Sprint("s", x), "is", fmt.Sprint(y)))
		if len(a.ids) > 0 && y%2 == 0 {
			d.DerivedFrom = []memory.ID{pick(y)}
		}
		r, err := a.s.Put(ctx, d)
		if err == nil && r.Disposition == memory.Created {
			a.ids = append(a.ids, r.ID)
		}
		sayErr(err)
		say(name(r.ID), r.State, r.Revision, r.Disposition)
	case "verify", "contradict":
		id, to, e := pick(x), memory.TruthSupported, supports(memory.RankTool, fmt.Sprint("tool:", y))
		if op == "contradict" {
			to, e = memory.TruthContradicted, contradicts(memory.RankPrimarySource, fmt.Sprint("doc:", y))
		}
		h, err := a.s.Apply(ctx, memory.Transition{Row: id, Revision: head(id).Revision, To: to, Authority: memory.AuthorityProbe, Actor: "w", Source: "s", Reason: "r", Evidence: []memory.Evidence{e}})
		sayErr(err)
		say(h.State(), h.Revision)
	case "evidence":
		sayErr(a.s.AddEvidence(ctx, pick(x), "w", "r", says4(memory.RelationContextualizes, memory.RankTool, fmt.Sprint("e", y), "tool:e")))
	case "echo":
		r, err := a.s.Echo(ctx, pick(x), memory.Asserter{Principal: "ana", Model: "m", Family: "f"}, "run", "again")
		sayErr(err)
		say(r.Disposition)
	case "heat":
		_, err := a.s.AddHeat(ctx, map[memory.ID]float64{pick(x): 1})
		sayErr(err)
	case "record":
		id := pick(x)
		sayErr(a.s.Record(ctx, memory.DecisionRecord{ID: a.s.NewDecisionID(), Tool: "t", Run: "r", Fired: y%2 == 0, Epoch: a.epoch(ctx), Rows: []memory.Cited{{Row: id, Revision: head(id).Revision}}}))
		cited, err := a.s.DecisionsCiting(ctx, id)
		sayErr(err)
		say(len(cited))
	case "list":
		for r, err := range a.s.Rows(ctx, memory.Filter{}) {
			sayErr(err)
			row(r)
		}
	case "search":
		rows, err := a.s.Search(ctx, fmt.Sprint("s", x, " is ", y), 5)
		sayErr(err)
		say(len(rows))
	case "history":
		log, err := a.s.History(ctx, pick(x), true)
		sayErr(err)
		for _, e := range log {
			say(e.Kind, e.Revision, e.To, len(e.Evidence), e.Erased)
		}
	case "due":
		for d, err := range a.s.DueRows(ctx, a.now) {
			sayErr(err)
			reason, _, _ := strings.Cut(d.Reason, "mem_") // an id is random
			say(name(d.ID), reason, d.Tries, d.Heat > 0)
		}
	case "erase":
		c, err := a.s.Erase(ctx, memory.Erasure{Subject: fmt.Sprint("s", x), Actor: "dpo"})
		sayErr(err)
		say(c.Rows, c.Decisions, c.Claims)
	case "rebuild":
		done, err := a.s.Rebuild(ctx, "op", nil)
		sayErr(err)
		say(done)
	case "compact":
		done, err := a.s.Compact(ctx)
		sayErr(err)
		say(done.Entries)
	case "epoch":
		sayErr(a.s.BumpEpoch(ctx, "op", "r"))
	}
	return out
}

func (a *actor) epoch(ctx context.Context) uint64 {
	f, _ := a.s.Fitness(ctx, nil)
	return f.Epoch
}
