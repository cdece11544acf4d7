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

// clocked are workers of one store. Each has a clock that is off by some time.
type clocked struct {
	*world
	base    time.Time
	off     []time.Duration
	stores  []*memory.Store
	workers []*promotion.Worker
}

// newClocked makes n workers, each with a source that is given its clock.
func newClocked(r *rapid.T, n int, lifetime time.Duration, of func(clock func() time.Time) promotion.Source) *clocked {
	c := &clocked{base: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), off: make([]time.Duration, n)}
	driver, keys := storetest.NewMap(), keyring.Ephemeral()
	for i := range n {
		clock := func() time.Time { return c.base.Add(c.off[i]) }
		s, err := memory.New(driver, keys, &memory.Options{Clock: clock})
		if err != nil {
			r.Fatal(err)
		}
		w, err := promotion.NewWorker(s, []promotion.Source{of(clock)}, &promotion.Options{VerdictLifetime: lifetime, Budget: -1})
		if err != nil {
			r.Fatal(err)
		}
		c.stores, c.workers = append(c.stores, s), append(c.workers, w)
	}
	c.world = &world{t: r, ctx: context.Background(), store: c.stores[0]}
	return c
}

// Workers whose clocks disagree, and jump by hours either way between two checks,
// cost each other questions or time, and never a state: one transition, logged once,
// and once the clocks are right again the row is what the source says.
func TestClocksThatDisagreeAndJumpMoveNoStateTwice(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		script := []verifiertest.Step{verifiertest.Unclear(), verifiertest.Down(time.Minute), verifiertest.Supports()}
		crm := verifiertest.New("crm", script[rapid.IntRange(0, 2).Draw(r, "first")])
		c := newClocked(r, 3, time.Hour, func(func() time.Time) promotion.Source { return source(crm) })
		w, off, stores, workers := c.world, c.off, c.stores, c.workers
		id := w.claim("acme", "Oslo", nil)
		promoted := 0
		for range rapid.IntRange(1, 30).Draw(r, "checks") {
			i := rapid.IntRange(0, 2).Draw(r, "worker")
			off[i] = time.Duration(rapid.IntRange(-300, 300).Draw(r, "minutes")) * time.Minute
			crm.Set(script[rapid.IntRange(0, 2).Draw(r, "says")])
			res, err := workers[i].Check(w.ctx, id)
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
			if err := h.Flush(w.ctx); err != nil {
				r.Fatal(err)
			}
			if _, err := workers[1].Check(w.ctx, id); err != nil {
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
		crm := verifiertest.New("crm", verifiertest.Supports())
		c := newClocked(r, 2, time.Second, func(clock func() time.Time) promotion.Source {
			s := source(crm)
			s.Verifier = verifiertest.NoBreaker(dated{crm, clock})
			return s
		})
		w, off, stores, workers := c.world, c.off, c.stores, c.workers
		id := w.claim("acme", "Oslo", nil)
		for range rapid.IntRange(2, 20).Draw(r, "answers") {
			i, says := rapid.IntRange(0, 1).Draw(r, "worker"), rapid.Bool().Draw(r, "supports")
			c.base = c.base.Add(time.Minute)
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
