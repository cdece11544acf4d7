package gate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/internal/teststore"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// pair is two processes on one store: one decides, the other one moves rows. What
// one does the other one knows only from the store.
type pair struct {
	decides, moves *memory.Store
	looks          *memory.Store // a third one
	mu             sync.Mutex
	now            time.Time
	still          bool // the clock stands
}

func (p *pair) clock() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.still {
		p.now = p.now.Add(time.Microsecond)
	}
	return p.now
}

func (p *pair) jump(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.now.Add(d)
}

// newPair is over one driver; below sees what the mover writes, if not nil.
func newPair(t testing.TB, d memory.Driver, below func(memory.Driver) memory.Driver) *pair {
	p := &pair{now: clock0}
	keys := keyring.Ephemeral()
	o := &memory.Options{Clock: p.clock, Authority: func(string, string, string) bool { return true }}
	open := func(d memory.Driver) *memory.Store {
		s, err := memory.New(d, keys, o)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	p.decides, p.looks = open(d), open(d)
	if below != nil {
		d = below(d)
	}
	p.moves = open(d)
	t.Cleanup(func() {
		if err := p.decides.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *pair) head(id memory.ID) memory.Head {
	f, err := p.looks.Fitness(context.Background(), []memory.ID{id})
	if err != nil {
		panic(err)
	}
	return f.Heads[0]
}

func (p *pair) apply(id memory.ID, to memory.AxisValue, who memory.Authority, change func(*memory.Transition)) error {
	t := memory.Transition{Row: id, Revision: p.head(id).Revision, To: to, Authority: who, Actor: "ana", Source: "test", Reason: "test"}
	if change != nil {
		change(&t)
	}
	_, err := p.moves.Apply(context.Background(), t)
	if errors.Is(err, memory.ErrIllegalMove) || errors.Is(err, memory.ErrErased) || errors.Is(err, memory.ErrOutranked) { // it is there, or gone, already, or a user said otherwise
		return nil
	}
	return err
}

// fact is what a tool said of a subject: one object at a time.
func (p *pair) fact(subject, predicate string) memory.Draft {
	w := &world{}
	d := w.fromTool(memory.Content{Subject: subject, Predicate: predicate, Object: "x", Cardinality: memory.CardinalityFunctional})
	d.ValidUntil = p.clock().Add(1000 * time.Hour)
	return d
}

func (p *pair) put(d memory.Draft) memory.ID {
	r, err := p.moves.Put(context.Background(), d)
	if err != nil {
		panic(err)
	}
	return r.ID
}

// A move is something that happens to a row.
type move struct {
	do func(p *pair, id memory.ID) error
	// harm: trust was taken away, so that what fired before depends on it. The others
	// that make a row unfit do so by its limits, or by what is not known any more.
	harm bool
}

func user(to memory.AxisValue) move {
	return move{harm: true, do: func(p *pair, id memory.ID) error { return p.apply(id, to, memory.AuthorityUser, nil) }}
}

func evidence(relation memory.Relation, source string, rank memory.Rank) memory.Evidence {
	return memory.Evidence{Relation: relation, Rank: rank, Source: source, Verifier: "test", Group: source, Anchor: memory.Anchor{URI: "test:" + source}, At: clock0}
}

// harms are the kinds of writes that make a fit row unfit.
var harms = map[string]move{
	"contradicted by a user": user(memory.TruthContradicted),
	"evidence revoked": {harm: true, do: func(p *pair, id memory.ID) error {
		return p.apply(id, memory.TruthUnverified, memory.AuthoritySystem, nil)
	}},
	"claim rejected": {harm: true, do: func(p *pair, id memory.ID) error {
		return p.apply(id, memory.TruthContradicted, memory.AuthorityUser, func(t *memory.Transition) { t.Reject = true })
	}},
	"edited: another object takes its place": {harm: true, do: func(p *pair, id memory.ID) error {
		rows, err := p.moves.Get(context.Background(), id)
		if errors.Is(err, memory.ErrErased) {
			return nil
		}
		if err != nil {
			return err
		}
		d := p.fact(rows[0].Content.Subject, rows[0].Content.Predicate)
		d.Content.Object = fmt.Sprint("y", rows[0].Revision, len(rows[0].Evidence))
		_, err = p.moves.Put(context.Background(), d)
		return err
	}},
	"another spelling of the claim contradicted": {harm: true, do: func(p *pair, id memory.ID) error {
		rows, err := p.moves.Get(context.Background(), id)
		if errors.Is(err, memory.ErrErased) {
			return nil
		}
		if err != nil {
			return err
		}
		d := p.fact(rows[0].Content.Subject, rows[0].Content.Predicate)
		d.Content.Object, d.Anchor = rows[0].Content.Object, "tool:elsewhere"
		r, err := p.moves.Put(context.Background(), d)
		if err != nil {
			return err
		}
		return p.apply(r.ID, memory.TruthContradicted, memory.AuthorityUser, nil)
	}},
	"suspected":                   user(memory.SecuritySuspicious),
	"quarantined":                 user(memory.SecurityQuarantined),
	"withdrawn to the restricted": user(memory.RetrievalRestricted),
	"withdrawn to the privileged": {do: user(memory.RetrievalPrivilegedOnly).do},
	"hidden":                      user(memory.RetrievalHidden),
	"blocked":                     user(memory.RetrievalBlocked),
	"contested": {do: func(p *pair, id memory.ID) error {
		err := p.moves.AddEvidence(context.Background(), id, "worker", "disagrees", evidence(memory.RelationContradicts, "erp", memory.RankTool))
		if errors.Is(err, memory.ErrErased) {
			return nil
		}
		return err
	}},
	"expired": {do: func(p *pair, id memory.ID) error {
		return errors.Join(p.apply(id, memory.FreshnessStale, memory.AuthoritySystem, nil), p.apply(id, memory.FreshnessExpired, memory.AuthoritySystem, nil))
	}},
	"rolled back": {harm: true, do: func(p *pair, id memory.ID) error {
		_, err := p.moves.Rollback(context.Background(), memory.Rollback{Row: id, Revision: p.head(id).Revision, Authority: memory.AuthorityUser, Actor: "ana", Reason: "test"})
		if errors.Is(err, memory.ErrIllegalMove) || errors.Is(err, memory.ErrErased) {
			return nil
		}
		return err
	}},
}

// erased is apart from the others: it takes a hundred times as long.
var erased = move{do: func(p *pair, id memory.ID) error {
	rows, err := p.moves.Get(context.Background(), id)
	if errors.Is(err, memory.ErrErased) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = p.moves.Erase(context.Background(), memory.Erasure{Subject: rows[0].Content.Subject, Request: "1", Actor: "dpo"})
	return err
}}

// harmless are the appends that void no permit.
var harmless = map[string]move{
	"read": {do: func(p *pair, id memory.ID) error {
		_, err := p.moves.AddHeat(context.Background(), map[memory.ID]float64{id: 1})
		return err
	}},
	"echoed": {do: func(p *pair, id memory.ID) error {
		_, err := p.moves.Echo(context.Background(), id, memory.Asserter{Principal: "w", Model: "sonnet-4.6", Family: "claude"}, "run", "words")
		return err
	}},
	"corroborated": {do: func(p *pair, id memory.ID) error {
		return p.moves.AddEvidence(context.Background(), id, "worker", "agrees", evidence(memory.RelationSupports, "second", memory.RankSecondModel))
	}},
	"its check put off": {do: func(p *pair, id memory.ID) error {
		return p.moves.Reschedule(context.Background(), id, clock0.Add(time.Hour), 1, "later")
	}},
}

// fitNow is the oracle: whether a row may feed the call of mail at a moment, said
// without the gate's own words.
func fitNow(h memory.Head, now time.Time, maxAge time.Duration) bool {
	ends := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	return h.Revision > 0 && h.Truth == memory.TruthSupported && h.Rank >= memory.RankTool && h.Retrieval == memory.RetrievalNormal &&
		h.Security == memory.SecurityClean && !h.Has(memory.FlagTainted) && !h.Has(memory.FlagContested) && !h.Has(memory.FlagErased) &&
		h.Freshness != memory.FreshnessExpired && !ends(h.ExpiresAt) && !ends(h.ValidUntil) &&
		h.Sensitivity <= memory.SensitivityInternal && (maxAge == 0 || now.Before(h.VerifiedAt.Add(maxAge)))
}

// distrusted reports whether trust was taken from the row, which is not to say that it
// grew old, that somebody disagrees, or that it is for fewer eyes.
func distrusted(h memory.Head) bool {
	return h.Truth != memory.TruthSupported || h.Security != memory.SecurityClean || h.Retrieval != memory.RetrievalNormal && h.Retrieval != memory.RetrievalPrivilegedOnly
}

// steps is a store that stops before each step of a decision, and looks at the rows
// right after a permit was consumed.
type steps struct {
	*memory.Store
	before   func(step string)
	consumed func(r memory.DecisionRecord)
	reads    int
	refused  int // records that conflicted, or came too late
	fenced   int // permits that were consumed on the fence
}

func (s *steps) FitnessFor(ctx context.Context, ids []memory.ID, act, slot memory.Digest) (memory.Fitness, error) {
	if s.before != nil {
		s.before("read")
	}
	s.reads++
	return s.Store.FitnessFor(ctx, ids, act, slot)
}

func (s *steps) Record(ctx context.Context, r memory.DecisionRecord) error {
	if s.before != nil {
		s.before("record")
	}
	err := s.Store.Record(ctx, r)
	switch {
	case errors.Is(err, memory.ErrConflict), errors.Is(err, memory.ErrExpired):
		s.refused++
	case err == nil && r.Fired:
		if r.Fence != nil {
			s.fenced++
		}
		if s.consumed != nil {
			s.consumed(r)
		}
	}
	return err
}

// TestI7NoScheduleFiresOnAnUnfitRow plays schedules: two or three calls of a run, and
// what becomes of its rows before, between and after the steps of each: before the
// rows are read, before the permit is consumed, after it was. No call fires whose rows
// are unfit when its permit is consumed, an acknowledged demotion is followed by none,
// what fired before is a dependent decision of it, and what harms nothing voids nothing.
func TestI7NoScheduleFiresOnAnUnfitRow(t *testing.T) {
	t.Parallel()
	kinds := slices.Sorted(maps.Keys(harms))
	others := slices.Sorted(maps.Keys(harmless))
	const maxAge = 100 * time.Hour
	onMap := 1_000
	if sample.Full() {
		onMap = 10_000
	}
	for _, c := range []struct {
		store     string
		schedules int
	}{{"map", onMap}, {"sqlite", 150}, {"redis", 150}, {"postgres", 100}} {
		t.Run(c.store, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			p := newPair(t, teststore.Open(t, c.store), nil)
			const perStore = 200 // on the map: an erasure looks at every row
			seed := testmain.Drawn(t)
			random := rand.New(rand.NewPCG(seed, 7))
			var fired, blocked, fenced, refused, dependent, calm int
			played := map[string]int{}
			for n := range c.schedules {
				if c.store == "map" && n%perStore == 0 {
					p = newPair(t, storetest.NewMap(), nil)
				}
				ids := []memory.ID{p.put(p.fact(fmt.Sprintf("a%d", n), "mail")), p.put(p.fact(fmt.Sprintf("b%d", n), "mail"))}
				quiet := n%8 == 0
				harmed := map[memory.ID]bool{} // and acknowledged
				depends := map[string]memory.ID{}
				var log []string
				act := func(step string) {
					for random.IntN(3) == 0 {
						row := ids[random.IntN(len(ids))]
						name, m := "", move{}
						switch pick := random.IntN(10); {
						case !quiet && pick == 0:
							name = "the clock passes its age"
							p.jump(time.Duration(random.IntN(3)) * maxAge / 2)
						case !quiet && pick < 6:
							name = kinds[random.IntN(len(kinds))]
							m = harms[name]
						case !quiet && pick == 6:
							name = "restored"
							m = move{do: func(p *pair, id memory.ID) error {
								return errors.Join(p.apply(id, memory.RetrievalNormal, memory.AuthorityUser, nil), p.apply(id, memory.SecurityClean, memory.AuthorityUser, nil),
									p.apply(id, memory.TruthSupported, memory.AuthorityUser, func(t *memory.Transition) {
										e := evidence(memory.RelationSupports, "ana", memory.RankUser)
										e.At = p.clock()
										t.Evidence = []memory.Evidence{e}
									}))
							}}
						case !quiet && pick == 7 && n%50 == 1:
							name, m = "erased", erased
						default:
							name = others[random.IntN(len(others))]
							m = harmless[name]
							if h := p.head(row); h.Has(memory.FlagErased) {
								continue
							}
						}
						log = append(log, fmt.Sprintf("%s before %s of %s", name, step, row[len(row)-4:]))
						played[name]++
						was := p.head(row)
						if m.do != nil {
							if err := m.do(p, row); err != nil {
								t.Fatalf("schedule %d: %v: %v", n, log, err)
							}
						}
						if is := p.head(row); m.harm && is.Revision > was.Revision && distrusted(is) {
							harmed[row] = true
						} else if is.Revision > was.Revision && fitNow(is, p.clock(), 0) {
							delete(harmed, row)
						}
					}
				}
				s := &steps{Store: p.decides, before: act}
				s.consumed = func(r memory.DecisionRecord) {
					for _, id := range ids {
						if h := p.head(id); !fitNow(h, p.clock(), maxAge) {
							t.Errorf("schedule %d: fired on %+v after %v", n, h, log)
						}
						if harmed[id] {
							t.Errorf("schedule %d: fired after an acknowledged demotion: %v", n, log)
						}
						depends[r.ID] = id
					}
				}
				g := newGate(t, s, declared(), nil)
				req := mail(ids...)
				req.Run, req.Contract.MaxAge = fmt.Sprint("ses_", n), maxAge
				for call := range 3 {
					act(fmt.Sprint("call ", call))
					req.Args = another().Args
					if g.Decide(t.Context(), req).Err() == nil {
						fired++
					} else {
						blocked++
					}
					log = append(log, "|")
				}
				if quiet {
					calm++
					if s.reads != 1 || s.refused > 0 || s.fenced != 2 {
						t.Errorf("schedule %d: %d reads, %d refusals, %d on the fence after %v", n, s.reads, s.refused, s.fenced, log)
					}
				}
				fenced += s.fenced
				refused += s.refused
				for _, id := range ids {
					if !harmed[id] || len(depends) == 0 {
						continue
					}
					cited, err := p.moves.DecisionsCiting(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range cited {
						if r.Dependent != r.Fired {
							t.Errorf("schedule %d: decision %s fired %t, dependent %t after %v", n, r.ID, r.Fired, r.Dependent, log)
						}
						if r.Dependent {
							dependent++
						}
					}
				}
			}
			t.Logf("seed %d: %d schedules in %s: %d calls fired, %d of them on what was remembered, %d were blocked; %d records were refused; %d dependent decisions; %d schedules of harmless appends; moves %v",
				seed, c.schedules, time.Since(start).Round(time.Millisecond), fired, fenced, blocked, refused, dependent, calm, played)
			if fired == 0 || fenced == 0 || blocked == 0 || refused == 0 || dependent == 0 || c.store == "map" && len(played) < len(kinds)+len(others)+3 {
				t.Error("the race was not exercised")
			}
		})
	}
}

// unfenced is a driver that forgets to move the fence.
type unfenced struct{ memory.Driver }

func (u unfenced) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	b.Puts = slices.DeleteFunc(slices.Clone(b.Puts), func(p memory.Put) bool { return p.From > 0 && strings.HasPrefix(memory.KeyText(p.Key), "fence/") })
	return u.Driver.Apply(ctx, tenant, b)
}

// TestI7EveryHarmMovesTheFence: after any kind of write that makes a fit row unfit, a
// call that would be permitted on what the gate remembers is blocked. The same with
// the fence left out of that one kind of write fires, so that for each kind it is the
// fence that holds.
func TestI7EveryHarmMovesTheFence(t *testing.T) {
	all := maps.Clone(harms)
	all["erased"] = erased
	for name, m := range all {
		t.Run(name, func(t *testing.T) {
			for _, guarded := range []bool{true, false} {
				below := func(d memory.Driver) memory.Driver { return d }
				if !guarded {
					below = func(d memory.Driver) memory.Driver { return unfenced{d} }
				}
				p := newPair(t, storetest.NewMap(), below)
				row, other := p.put(p.fact("acme", "mail")), p.put(p.fact("other", "mail"))
				s := &steps{Store: p.decides}
				g := newGate(t, s, declared(), nil)
				for call := range 2 {
					if d := g.Decide(t.Context(), another(row, other)); d.Err() != nil {
						t.Fatalf("call %d: %v", call, d.Err())
					}
				}
				if s.reads != 1 || s.fenced != 1 {
					t.Fatalf("%d reads, %d on the fence: nothing was remembered", s.reads, s.fenced)
				}
				if err := m.do(p, row); err != nil {
					t.Fatal(err)
				}
				if h := p.head(row); fitNow(h, p.clock(), 0) {
					t.Fatalf("the row is fit still: %+v", h)
				}
				d := g.Decide(t.Context(), another(row, other))
				switch {
				case guarded && (d.Err() == nil || d.Fault):
					t.Errorf("it fired: %v", d.Err())
				case !guarded && d.Err() != nil:
					if name == "erased" { // the class that the record is sealed under is gone too
						continue
					}
					t.Errorf("without the fence it was blocked all the same, so this shows nothing: %v", d.Err())
				}
			}
		})
	}
}

// drawMoved draws a head and what may have become of it.
func drawMoved(rt *rapid.T) (old, next memory.Head) {
	old = drawHead(rt, "r")
	next = old
	other := drawHead(rt, "r")
	for _, h := range []*memory.Head{&old, &other} {
		for _, at := range []*time.Time{&h.StaleAt, &h.ExpiresAt, &h.ValidUntil} {
			if hours := rapid.IntRange(-1, 6).Draw(rt, "hours"); hours < 4 {
				*at = clock0.Add(time.Duration(hours) * time.Hour)
			} else if hours == 4 {
				*at = time.Time{}
			}
		}
	}
	for i, change := range []func(){
		func() { next.Truth = other.Truth }, func() { next.Retrieval = other.Retrieval }, func() { next.Security = other.Security },
		func() { next.Freshness = other.Freshness }, func() { next.Outage = other.Outage }, func() { next.Sensitivity = other.Sensitivity },
		func() { next.Rank = other.Rank }, func() { next.Flags = other.Flags }, func() { next.VerifiedAt = other.VerifiedAt },
		func() { next.StaleAt = other.StaleAt }, func() { next.ExpiresAt = other.ExpiresAt }, func() { next.ValidUntil = other.ValidUntil },
	} {
		if rapid.IntRange(0, 3).Draw(rt, fmt.Sprint("change ", i)) == 0 {
			change()
		}
	}
	next.Revision++
	return old, next
}

// TestWhatLeavesTheFenceAloneTakesNoPermitAway: whatever was permitted on an older
// head is permitted on the one that [memory.Head.TakesFrom] says takes nothing from
// it. So a permit on what is remembered is one on the rows as they are.
func TestWhatLeavesTheFenceAloneTakesNoPermitAway(t *testing.T) {
	var moved, left, permits int
	try := func(rt *rapid.T) {
		old, next := drawMoved(rt)
		if next.TakesFrom(&old) {
			moved++
			return
		}
		left++
		contract := gate.Contract{Tool: "t", Effect: gate.Effect(rapid.IntRange(0, 3).Draw(rt, "effect")), Ceiling: memory.Sensitivity(rapid.IntRange(0, 4).Draw(rt, "ceiling")),
			MaxAge: time.Duration(rapid.IntRange(0, 3).Draw(rt, "age")) * 30 * time.Minute, Privileged: rapid.Bool().Draw(rt, "privileged")}
		p := declared()
		for _, lineage := range []gate.Lineage{gate.Known([]memory.ID{old.ID}, nil), gate.Known(nil, []memory.ID{old.ID})} {
			req := gate.Request{Contract: contract, Lineage: lineage}
			before := p.Evaluate(&req, memory.Fitness{Heads: []memory.Head{old}, Now: clock0})
			if before.Err() != nil {
				continue
			}
			permits++
			if d := p.Evaluate(&req, memory.Fitness{Heads: []memory.Head{next}, Now: clock0}); d.Err() != nil {
				rt.Fatalf("permitted on %+v\nand not on %+v: %v", old, next, d.Err())
			}
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		for range 50 {
			try(rt)
		}
	})
	t.Logf("%d heads take from the older one, %d do not, %d permits held", moved, left, permits)
	if moved == 0 || permits == 0 {
		t.Error("nothing was tried")
	}
}

// TestALedgerThatGrowsIsReadByItsNewRows: of the rows that were read nothing is read
// again, as long as nothing was taken from any of them.
func TestALedgerThatGrowsIsReadByItsNewRows(t *testing.T) {
	p := newPair(t, storetest.NewMap(), nil)
	counted := &sized{Store: p.decides}
	g := newGate(t, counted, declared(), nil)
	var ids []memory.ID
	decide := func(want error, read ...int) {
		t.Helper()
		counted.sizes = nil
		if d := g.Decide(t.Context(), another(ids...)); !errors.Is(d.Err(), want) || !slices.Equal(counted.sizes, read) {
			t.Errorf("%d rows: read %v, want %v: %v", len(ids), counted.sizes, read, d.Err())
		}
	}
	add := func(n int) {
		for range n {
			ids = append(ids, p.put(p.fact(fmt.Sprint("s", len(ids)), "mail")))
		}
	}
	add(20)
	decide(nil, 20)
	decide(nil)
	add(2)
	decide(nil, 2)
	decide(nil)
	ids = ids[:10]
	decide(nil) // a part of it
	ids = append(ids, p.put(p.fact("new", "mail")))
	slices.Reverse(ids)
	decide(nil, 1)
	if err := p.apply(ids[3], memory.TruthContradicted, memory.AuthorityUser, nil); err != nil {
		t.Fatal(err)
	}
	decide(gate.ErrContradicted, 11) // only permits come from what is remembered
	decide(gate.ErrContradicted, 11)
	ids = slices.Delete(ids, 3, 4)
	decide(nil, 10)
	decide(nil)
	ids = append(ids, id("gone"))
	decide(gate.ErrRowMissing, 1, 10+1)
}

// sized keeps how many rows each read was for.
type sized struct {
	*memory.Store
	sizes []int
}

func (s *sized) FitnessFor(ctx context.Context, ids []memory.ID, act, slot memory.Digest) (memory.Fitness, error) {
	s.sizes = append(s.sizes, len(ids))
	return s.Store.FitnessFor(ctx, ids, act, slot)
}

// TestAClockThatJumps: limits are moments on the store's clock. When it jumps ahead,
// what they end is denied at once, what is remembered included; when it jumps back,
// nothing is wrong with a row, and no limit is moved.
func TestAClockThatJumps(t *testing.T) {
	const maxAge = time.Hour
	ask := func(g *gate.Gate, rows ...memory.ID) gate.Decision {
		req := another(rows...)
		req.Contract.MaxAge = maxAge
		return g.Decide(t.Context(), req)
	}
	t.Run("ahead between two calls", func(t *testing.T) {
		p := newPair(t, storetest.NewMap(), nil)
		row := p.put(p.fact("acme", "mail"))
		g := newGate(t, p.decides, declared(), nil)
		for range 2 {
			if d := ask(g, row); d.Err() != nil {
				t.Fatal(d.Err())
			}
		}
		p.jump(maxAge)
		if d := ask(g, row); !d.Has(gate.StaleInput) || d.Fault {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("ahead between judging and recording", func(t *testing.T) {
		for _, remembered := range []bool{false, true} {
			p := newPair(t, storetest.NewMap(), nil)
			row := p.put(p.fact("acme", "mail"))
			s := &steps{Store: p.decides}
			g := newGate(t, s, declared(), nil)
			if remembered {
				ask(g, row)
			}
			s.before = func(step string) {
				if step == "record" {
					p.jump(maxAge)
					s.before = nil
				}
			}
			if d := ask(g, row); !d.Has(gate.StaleInput) || d.Fault || s.refused != 1 {
				t.Errorf("remembered %t: %v, %d refused", remembered, d.Err(), s.refused)
			}
		}
	})
	t.Run("back", func(t *testing.T) {
		p := newPair(t, storetest.NewMap(), nil)
		row := p.put(p.fact("acme", "mail"))
		s := &steps{Store: p.decides}
		g := newGate(t, s, declared(), nil)
		p.jump(-10 * time.Hour)
		for range 2 {
			if d := ask(g, row); d.Err() != nil {
				t.Fatal(d.Err())
			}
		}
		if err := p.apply(row, memory.TruthContradicted, memory.AuthorityUser, nil); err != nil {
			t.Fatal(err)
		}
		if d := ask(g, row); !d.Has(gate.ContradictedInput) || d.Fault {
			t.Errorf("%v", d.Err())
		}
		other := p.put(p.fact("other", "mail"))
		p.jump(10*time.Hour + maxAge/2) // older than its own clock says, and within the limit of the first
		if d := ask(g, other); !d.Has(gate.StaleInput) || d.Fault {
			t.Errorf("%v", d.Err())
		}
	})
	t.Run("to the very limit, and stands there", func(t *testing.T) {
		for _, remembered := range []bool{false, true} {
			p := newPair(t, storetest.NewMap(), nil)
			row := p.put(p.fact("acme", "mail"))
			g := newGate(t, p.decides, declared(), nil)
			if remembered {
				ask(g, row)
			}
			p.now, p.still = p.head(row).VerifiedAt.Add(maxAge-time.Minute), true
			if d := ask(g, row); d.Err() != nil {
				t.Errorf("remembered %t, a minute before: %v", remembered, d.Err())
			}
			p.now = p.now.Add(time.Minute)
			if d := ask(g, row); !d.Has(gate.StaleInput) || d.Fault {
				t.Errorf("remembered %t: %v", remembered, d.Err())
			}
		}
	})
}

// TestALineageOfAHundredThousandRowsIsDenied unread, says so, and is recorded with as
// many rows as a record can have.
func TestALineageOfAHundredThousandRowsIsDenied(t *testing.T) {
	ids := make([]memory.ID, 100_000)
	for i := range ids {
		ids[i] = id(fmt.Sprintf("%08d", i))
	}
	w := &sized{Store: newWorld(t).Store}
	g := newGate(t, w, declared(), nil)
	for _, l := range []gate.Lineage{gate.Known(ids, nil), gate.Known(ids[:1], ids[1:]), gate.Partial("lost", ids, nil)} {
		req := mail()
		req.Lineage = l
		for _, effect := range []gate.Effect{gate.Irreversible, gate.ReadOnly} {
			req.Contract.Effect = effect
			d := g.Decide(t.Context(), req)
			if !errors.Is(d.Err(), gate.ErrClosureTooLarge) || d.Fault || len(w.sizes) > 0 {
				t.Errorf("%v, read %v", d.Err(), w.sizes)
			}
			if text := d.ToolText(); l.IsKnown() && !strings.Contains(text, "more stored statements than can be checked") {
				t.Errorf("it does not say so: %s", text)
			}
		}
	}
}
