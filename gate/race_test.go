package gate_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// racing does something to the store between the reading of a decision and its
// record. With the guard off it consumes whatever was read.
type racing struct {
	*memory.Store
	between   func()
	guardOff  bool
	conflicts atomic.Int64
	fenced    atomic.Int64 // permits that were consumed on what was remembered
	seen      *client      // keeps when it read and when it consumed, if set
}

func (r *racing) FitnessFor(ctx context.Context, ids []memory.ID, act, slot memory.Digest) (f memory.Fitness, err error) {
	call := r.seen.now()
	f, err = r.Store.FitnessFor(ctx, ids, act, slot)
	if err == nil && len(f.Heads) == 1 {
		r.seen.add(call, asked{looked, f.Heads[0].Revision}, reply{fit: f.Heads[0].Retrieval == memory.RetrievalNormal})
	}
	return f, err
}

func (r *racing) Record(ctx context.Context, d memory.DecisionRecord) error {
	if r.between != nil {
		r.between()
	}
	fires, rows, fenced := d.Fired, d.Rows, d.Fence != nil
	if r.guardOff {
		d.Fired, d.Rows = false, nil
	}
	call := r.seen.now()
	err := r.Store.Record(ctx, d)
	conflict := errors.Is(err, memory.ErrConflict)
	if conflict {
		r.conflicts.Add(1)
	}
	if fires && fenced && err == nil {
		r.fenced.Add(1)
	}
	if fires && len(rows) == 1 && (err == nil || conflict) {
		r.seen.add(call, asked{consumed, rows[0].Revision}, reply{refused: conflict})
	}
	return err
}

// TestI7NoPermitStandsOnAStaleReading: whatever happens to rows between reading
// and consuming, a permit that comes back was consumed on rows that were fit in
// that very transaction.
func TestI7NoPermitStandsOnAStaleReading(t *testing.T) {
	ctx := t.Context()
	harms := map[string]memory.AxisValue{
		"contradicted": memory.TruthContradicted, "unverified": memory.TruthUnverified, "quarantined": memory.SecurityQuarantined,
		"blocked": memory.RetrievalBlocked, "restricted": memory.RetrievalRestricted,
	}
	moves := []string{"contradicted", "unverified", "quarantined", "blocked", "restricted", "echo", "read", "epoch", "nothing"}
	var decisions, permits, hit, baseline int
	play := func(rt *rapid.T, guardOff bool, plan []string, targets []int) (d gate.Decision, unfit bool, conflicts int) {
		w := newWorld(t)
		var ids []memory.ID
		for i := range 3 {
			ids = append(ids, w.put(t, w.fromTool(triple("acme", fmt.Sprintf("p%d", i), "x"))))
		}
		s := &racing{Store: w.Store, guardOff: guardOff}
		turn := 0
		s.between = func() {
			if turn >= len(plan) {
				return
			}
			move, row := plan[turn], ids[targets[turn]]
			turn++
			rows, err := w.Get(ctx, row)
			if err != nil {
				rt.Fatal(err)
			}
			switch to, harm := harms[move]; {
			case harm:
				_, err = w.Apply(ctx, memory.Transition{Row: row, Revision: rows[0].Revision, To: to, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "race"})
				if errors.Is(err, memory.ErrIllegalMove) { // it is there already
					err = nil
				}
			case move == "echo":
				_, err = w.Put(ctx, w.fromModel(rows[0].Content))
			case move == "read":
				_, err = w.AddHeat(ctx, map[memory.ID]float64{row: 1})
			case move == "epoch":
				err = w.BumpEpoch(ctx, "ops", "fail-over")
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		d = newGate(t, s, declared(), nil).Decide(ctx, mail(ids...))
		// Nothing happens after the record, so the rows are now what they were in it.
		fit, err := w.Fitness(ctx, ids)
		if err != nil {
			rt.Fatal(err)
		}
		if d.Err() == nil && !guardOff && d.Epoch != fit.Epoch {
			rt.Fatalf("consumed in epoch %d, and it is %d", d.Epoch, fit.Epoch)
		}
		for i := range fit.Heads {
			h := &fit.Heads[i]
			unfit = unfit || h.Truth != memory.TruthSupported || h.Security != memory.SecurityClean || h.Retrieval != memory.RetrievalNormal
			if d.Err() == nil && !guardOff && h.Revision != d.Consumed[i].Revision {
				rt.Fatalf("%s was consumed at %d and is at %d", h.ID, d.Consumed[i].Revision, h.Revision)
			}
		}
		return d, unfit, int(s.conflicts.Load())
	}
	rapid.Check(t, func(rt *rapid.T) {
		plan := rapid.SliceOfN(rapid.SampledFrom(moves), 0, 6).Draw(rt, "moves")
		targets := rapid.SliceOfN(rapid.IntRange(0, 2), len(plan), len(plan)).Draw(rt, "rows")
		decisions++
		d, unfit, conflicts := play(rt, false, plan, targets)
		if d.Err() == nil {
			permits++
			if unfit {
				rt.Fatalf("a permit on unfit rows after %v", plan)
			}
		}
		if conflicts > 0 {
			hit++
		}
		if d, unfit, _ := play(rt, true, plan, targets); d.Err() == nil && unfit {
			baseline++
		}
	})
	t.Logf("%d decisions, %d permits, 0 on unfit rows; the race was hit in %d; with the guard off %d permits were on unfit rows", decisions, permits, hit, baseline)
	if permits == 0 || hit == 0 || baseline == 0 {
		t.Error("the race was not exercised")
	}
}

// ordered is a driver that keeps the order in which batches were committed.
type ordered struct {
	memory.Driver
	mu   sync.Mutex
	puts []memory.Put
}

func (o *ordered) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	o.mu.Lock() // one at a time, so that the order is the order
	defer o.mu.Unlock()
	err := o.Driver.Apply(ctx, tenant, b)
	if err == nil {
		o.puts = append(o.puts, b.Puts...)
	}
	return err
}

// TestI7UnderConcurrency lets deciders and a demoter loose on one store, and then
// reads the order of commits: no fire intent comes after the demotion of a row it
// cites at an older fitness version. It runs on every driver there is.
func TestI7UnderConcurrency(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) memory.Driver{
		"map": func(*testing.T) memory.Driver { return storetest.NewMap() },
		"sqlite": func(t *testing.T) memory.Driver {
			d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "race.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
	} {
		t.Run(name, func(t *testing.T) {
			const rounds, deciders = 30, 4
			fired, blocked, late := 0, 0, 0
			order := &ordered{Driver: open(t)}
			p := newPair(t, order, nil)
			w := &world{Store: p.moves}
			counted := &racing{Store: p.decides}
			g := newGate(t, counted, declared(), nil)
			for round := range rounds {
				row := w.put(t, w.fromTool(triple("acme", fmt.Sprintf("p%d", round), "x")))
				var group sync.WaitGroup
				results := make([]gate.Decision, deciders*3)
				decided := make(chan struct{}, deciders*3) // in odd rounds the demotion meets what is remembered
				for i := range deciders {
					group.Go(func() {
						for j := range 3 {
							results[3*i+j] = g.Decide(t.Context(), another(row))
							decided <- struct{}{}
						}
					})
				}
				group.Go(func() {
					if round%2 == 1 {
						<-decided
					}
					if _, err := w.Apply(t.Context(), memory.Transition{Row: row, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "race"}); err != nil {
						t.Error(err)
					}
				})
				group.Wait()
				fires := map[string]bool{}
				for _, d := range results {
					if d.Err() == nil {
						fired++
						fires["decision/"+d.ID] = true
					} else {
						blocked++
					}
				}
				demoted := false
				for _, p := range order.puts {
					demoted = demoted || p.Key == memory.HeadKey(row) && p.From == 1
					if fires[memory.KeyText(p.Key)] && demoted {
						late++
					}
				}
				order.puts = nil
			}
			t.Logf("%d fired, %d of them on what was remembered, %d blocked, %d fired after the demotion", fired, counted.fenced.Load(), blocked, late)
			if late > 0 || blocked == 0 || counted.fenced.Load() == 0 {
				t.Errorf("%d calls fired on a demoted row, %d were blocked", late, blocked)
			}
		})
	}
}

// TestADemotionAfterTheFireIsADependentDecision: what fired before is found by
// what it cites.
func TestADemotionAfterTheFireIsADependentDecision(t *testing.T) {
	w := newWorld(t)
	row := w.put(t, w.fromTool(triple("acme", "billing.email", "ops@acme.example")))
	d := newGate(t, w, declared(), nil).Decide(t.Context(), another(row))
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	if _, err := w.Apply(t.Context(), memory.Transition{Row: row, Revision: 1, To: memory.TruthContradicted, Authority: memory.AuthorityUser, Actor: "ana", Source: "test", Reason: "wrong"}); err != nil {
		t.Fatal(err)
	}
	if after := newGate(t, w, declared(), nil).Decide(t.Context(), another(row)); !errors.Is(after.Err(), gate.ErrContradicted) {
		t.Errorf("%v", after.Err())
	}
	cited, err := w.DecisionsCiting(t.Context(), row)
	if err != nil || len(cited) != 2 || cited[1].ID != d.ID || !cited[1].Dependent || cited[0].Dependent {
		t.Errorf("cited %+v, %v", cited, err)
	}
}

// TestADamagedRowIsDenied: a row that a verification found changed is denied as what it
// is, and its siblings are not.
func TestADamagedRowIsDenied(t *testing.T) {
	w := newWorld(t)
	damaged, whole := w.put(t, w.fromTool(triple("acme", "city", "Berlin"))), w.put(t, w.fromTool(triple("acme", "street", "Main St")))
	if err := w.MarkDamaged(t.Context(), "worker", "a byte differs", damaged); err != nil {
		t.Fatal(err)
	}
	d := newGate(t, w, declared(), nil).Decide(t.Context(), another(damaged))
	if !errors.Is(d.Err(), gate.ErrRowDamaged) || errors.Is(d.Err(), gate.ErrRowMissing) || d.Outcome != gate.Deny || d.Fault {
		t.Errorf("%s %v", d.Outcome, d.Reasons)
	}
	checkToolText(t, d.ToolText())
	if d := newGate(t, w, declared(), nil).Decide(t.Context(), another(whole)); d.Blocked() {
		t.Errorf("a row that is whole: %v", d.Reasons)
	}
}

// lacking are keys of which some are missing, as in a keyring that lost records.
type lacking struct {
	memory.Keys
	mu    sync.Mutex
	made  map[string]memory.KeyID // by subject
	lost  map[memory.KeyID]bool
	asked int
}

func (k *lacking) Key(ctx context.Context, subject string) (memory.KeyID, error) {
	id, err := k.Keys.Key(ctx, subject)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made[subject] = id
	return id, err
}

func (k *lacking) Open(ctx context.Context, id memory.KeyID, ciphertext, associated []byte) ([]byte, error) {
	k.mu.Lock()
	k.asked++
	lost := k.lost[id]
	k.mu.Unlock()
	if lost {
		return nil, fmt.Errorf("key %s: %w", id, memory.ErrKey)
	}
	return k.Keys.Open(ctx, id, ciphertext, associated)
}

// lose takes the keys of subjects away.
func (k *lacking) lose(names ...string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for subject, id := range k.made {
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(subject, name) }) {
			k.lost[id] = true
		}
	}
}

// TestARowWhoseKeyIsMissingIsDenied: nobody can read what such a row says, nor show on
// what a call fired. It is denied as damaged, and its siblings are not.
func TestARowWhoseKeyIsMissingIsDenied(t *testing.T) { synctest.Test(t, aRowWhoseKeyIsMissingIsDenied) }

func aRowWhoseKeyIsMissingIsDenied(t *testing.T) {
	d, keys := storetest.NewMap(), &lacking{Keys: keyring.Ephemeral(), made: map[string]memory.KeyID{}, lost: map[memory.KeyID]bool{}}
	open := func() *world {
		w := &world{}
		s, err := memory.New(d, keys, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.Store = s
		return w
	}
	w := open()
	var lost []memory.ID
	subjects := []string{"ann", "bob", "cid", "dan", "eve", "fay", "gus"}
	for _, name := range subjects {
		lost = append(lost, w.put(t, w.fromTool(triple(name, "city", "Berlin"))), w.put(t, w.fromTool(triple(name, "street", "Main St"))))
	}
	whole := w.put(t, w.fromTool(triple("acme", "city", "Berlin")))
	ledger := append(slices.Clone(lost), whole)
	g := newGate(t, w, declared(), nil)
	if d := g.Decide(t.Context(), another(ledger...)); d.Blocked() {
		t.Fatal(d.Reasons)
	}
	keys.lose(subjects...)

	w = open() // nothing is remembered
	g = newGate(t, w, declared(), nil)
	for what, rows := range map[string][]memory.ID{"one": lost[:1], "all, and one that is whole": ledger} {
		began := time.Now()
		d := g.Decide(t.Context(), another(rows...))
		if !errors.Is(d.Err(), gate.ErrRowDamaged) || d.Outcome != gate.Deny || d.Fault {
			t.Fatalf("%s: %s %v (%v)", what, d.Outcome, d.Reasons, d.Err())
		}
		if waited := time.Since(began); waited > 0 {
			t.Errorf("%s: it waited %s", what, waited)
		}
		for _, r := range d.Reasons {
			if r.Row == whole {
				t.Errorf("%s: %+v", what, r)
			}
		}
		checkToolText(t, d.ToolText())
		if kept, err := w.Decision(t.Context(), d.ID); err != nil || kept.Fired {
			t.Errorf("%s: the record: %+v %v", what, kept, err)
		}
	}
	if d := g.Decide(t.Context(), another(whole)); d.Blocked() {
		t.Errorf("a row that is whole: %v", d.Reasons)
	}
	asked := keys.asked
	if d := g.Decide(t.Context(), another(whole)); d.Blocked() || keys.asked != asked {
		t.Errorf("a row that was cited before: %v, and %d keys were asked", d.Reasons, keys.asked-asked)
	}
}

// TestWhatIsNoIDFiresNothing: a lineage of such names is of rows that are missing,
// on a real store too.
func TestWhatIsNoIDFiresNothing(t *testing.T) {
	w := newWorld(t)
	for _, id := range []memory.ID{"", "x", "mem_", "mem_!"} {
		if d := newGate(t, w, declared(), nil).Decide(t.Context(), another(id)); !errors.Is(d.Err(), gate.ErrRowMissing) || d.Fault {
			t.Errorf("%q: %v", id, d.Err())
		}
	}
}

// TestTheChainLeadsToTheRoot: a block says how the row came to be, over several
// hops, on a real store.
func TestTheChainLeadsToTheRoot(t *testing.T) {
	w := newWorld(t)
	root := w.put(t, w.fromModel(memory.Content{Text: "a page says so", Cardinality: memory.CardinalityUnknown}))
	good := w.put(t, w.fromTool(triple("acme", "city", "Berlin")))
	middle := w.put(t, w.fromModel(memory.Content{Text: "so it is", Cardinality: memory.CardinalityUnknown}, good, root))
	last := w.put(t, w.fromModel(memory.Content{Text: "thus pay", Cardinality: memory.CardinalityUnknown}, middle))
	up, err := w.Closure(t.Context(), last)
	if err != nil {
		t.Fatal(err)
	}
	req := mail()
	req.Lineage = gate.Known([]memory.ID{last}, up)
	d := newGate(t, w, declared(), nil).Decide(t.Context(), req)
	var names []string
	for _, id := range d.Rows[0].Chain {
		names = append(names, map[memory.ID]string{root: "root", middle: "middle", last: "last", good: "good"}[id])
	}
	if got := strings.Join(names, " "); got != "last middle root" || len(d.Rows) != 1 {
		t.Errorf("chain %s, rows %d", got, len(d.Rows))
	}
}
