package promotion_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/promotion"
	"github.com/hearsay-go/hearsay/verifier"
	"github.com/hearsay-go/hearsay/verifier/verifiertest"
)

// Workers whose clocks disagree, and jump by hours either way between two checks,
// cost each other questions or time, and never a state: one transition, logged once,
// and once the clocks are right again the row is what the source says.
func TestClocksThatDisagreeAndJumpMoveNoStateTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		driver, keys := storetest.NewMap(), keyring.Ephemeral()
		var off [3]time.Duration
		var stores [3]*memory.Store
		var workers [3]*promotion.Worker
		script := []verifiertest.Step{verifiertest.Unclear(), verifiertest.Down(time.Minute), verifiertest.Supports()}
		crm := verifiertest.New("crm", script[rapid.IntRange(0, 2).Draw(r, "first")])
		for i := range stores {
			var err error
			if stores[i], err = memory.New(driver, keys, &memory.Options{Clock: func() time.Time { return base.Add(off[i]) }}); err != nil {
				r.Fatal(err)
			}
			if workers[i], err = promotion.NewWorker(stores[i], []promotion.Source{source(crm)}, &promotion.Options{VerdictLifetime: time.Hour, Budget: -1}); err != nil {
				r.Fatal(err)
			}
		}
		ctx := context.Background()
		w := &world{t: r, ctx: ctx, store: stores[0]}
		id := w.claim("acme", "Oslo", nil)
		promoted := 0
		for range rapid.IntRange(1, 30).Draw(r, "checks") {
			i := rapid.IntRange(0, 2).Draw(r, "worker")
			off[i] = time.Duration(rapid.IntRange(-300, 300).Draw(r, "minutes")) * time.Minute
			crm.Set(script[rapid.IntRange(0, 2).Draw(r, "says")])
			res, err := workers[i].Check(ctx, id)
			if err != nil {
				r.Fatalf("check: %v", err)
			}
			if res.Status == promotion.Promoted && w.row(id).Revision == 2 {
				promoted++
			}
		}
		crm.Set(verifiertest.Supports())
		for i := range off { // later than any of them was
			off[i] = 400 * 24 * time.Hour
		}
		for range 3 { // a parked row is brought back by reads
			h := promotion.NewHeater(stores[1], nil, nil)
			h.ObserveReads(t.Context(), []memory.ID{id}, 1)
			if err := h.Flush(ctx); err != nil {
				r.Fatal(err)
			}
			if _, err := workers[1].Check(ctx, id); err != nil {
				r.Fatal(err)
			}
		}
		if row := w.row(id); row.State() != memory.StateVerified {
			r.Errorf("the row is %s, mark %+v", row.State(), w.mark(id))
		}
		transitions := 0
		for _, e := range w.moves(id) {
			if e.Kind == memory.EntryTransition && e.Axis == memory.AxisTruth {
				transitions++
			}
		}
		if transitions != 1 || promoted > 1 {
			r.Errorf("%d transitions, %d promotions: %+v", transitions, promoted, w.moves(id))
		}
	})
}

// What a source says last stands, whatever the clocks of the workers that asked it: it supports and
// refutes in turn, and the answers of some carry times of a day before or after those of others.
func TestWhatASourceSaysLastStandsWhateverTheClocks(t *testing.T) {
	asked, moved := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		base := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		driver, keys := storetest.NewMap(), keyring.Ephemeral()
		var off [2]time.Duration
		var stores [2]*memory.Store
		var workers [2]*promotion.Worker
		crm := verifiertest.New("crm", verifiertest.Supports())
		for i := range stores {
			clock := func() time.Time { return base.Add(off[i]) }
			var err error
			if stores[i], err = memory.New(driver, keys, &memory.Options{Clock: clock}); err != nil {
				r.Fatal(err)
			}
			s := source(crm)
			s.Verifier = verifiertest.NoBreaker(dated{crm, clock})
			if workers[i], err = promotion.NewWorker(stores[i], []promotion.Source{s}, &promotion.Options{VerdictLifetime: time.Second, Budget: -1}); err != nil {
				r.Fatal(err)
			}
		}
		w := &world{t: r, ctx: context.Background(), store: stores[0]}
		id := w.claim("acme", "Oslo", nil)
		for range rapid.IntRange(2, 20).Draw(r, "answers") {
			i, says := rapid.IntRange(0, 1).Draw(r, "worker"), rapid.Bool().Draw(r, "supports")
			base = base.Add(time.Minute)
			off[i] = time.Duration(rapid.IntRange(-24, 24).Draw(r, "hours")) * time.Hour
			step := verifiertest.Refutes("Rome")
			if says {
				step = verifiertest.Supports()
			}
			crm.Set(step)
			if err := stores[i].Reschedule(w.ctx, id, stores[i].Now(), 0, "again"); err != nil {
				r.Fatal(err)
			}
			res, err := workers[i].Check(w.ctx, id)
			if err != nil {
				r.Fatal(err)
			}
			if res.Calls == 0 { // by its clock the last answer has not lapsed
				continue
			}
			asked++
			row := w.row(id)
			if state := row.State(); (state == memory.StateVerified) != says {
				r.Fatalf("it was said last that it is so: %t, and the row is %s (%s)", says, state, res.Status)
			}
			if res.Status == promotion.Promoted || res.Status == promotion.Demoted {
				moved++
			}
		}
	})
	if moved == 0 {
		t.Error("no answer moved a row")
	}
	t.Logf("%d of %d answers moved a row", moved, asked)
}

// dated is a verifier whose evidence bears the time of a clock.
type dated struct {
	*verifiertest.Scripted
	now func() time.Time
}

func (d dated) Verify(ctx context.Context, row memory.Row) (verifier.Verdict, error) {
	v, err := d.Scripted.Verify(ctx, row)
	v.Evidence.At = d.now()
	return v, err
}

// A verifier that says that nothing is known neither refutes nor supports, also in a word that only
// the registry knows.
func TestAnAnswerThatSaysNothingMovesNothing(t *testing.T) {
	for _, c := range []struct {
		says   string
		stands bool
	}{{"N/A", true}, {"none given", true}, {"Rome", false}, {"[]", false}} {
		w := newWorld(t)
		var err error
		if w.store, err = memory.New(storetest.NewMap(), keyring.Ephemeral(), &memory.Options{Clock: w.clock, Predicates: map[string]memory.Predicate{"city": {Placeholders: []string{"none given"}}}}); err != nil {
			t.Fatal(err)
		}
		id := w.claim("acme", "Oslo", nil)
		crm := ranked("crm", memory.RankTool, verifiertest.Supports(), verifiertest.Refutes(c.says))
		worker := w.worker(nil, source(crm))
		w.check(worker, id)
		w.pass(40 * 24 * time.Hour)
		res := w.check(worker, id)
		if row := w.row(id); (row.Truth == memory.TruthSupported) != c.stands || crm.Calls() != 2 {
			t.Errorf("after %q the row is %s, %v, %+v", c.says, row.Truth, row.Flags.Names(), res)
		}
	}
}
