package memory_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// mapDriver is the reference driver with a memory of what was written. before
// and after, if set, run around Apply and may fail it; after an error of after
// the batch was applied all the same.
type mapDriver struct {
	memory.Driver
	mu            sync.Mutex
	terms         []string
	live          map[string]uint64 // revision by tenant and key; tombstones have none
	before, after func(memory.Batch) error
	history       func() error
	race          func()                                                                          // runs once, between what the next Apply read and its commit
	rewrite       func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error // instead of Rewrite, if set
}

func newMapDriver() *mapDriver {
	return &mapDriver{Driver: storetest.NewMap(), live: map[string]uint64{}}
}

func (d *mapDriver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if race := d.race; race != nil {
		d.race = nil
		race()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.before != nil {
		if err := d.before(b); err != nil {
			return err
		}
	}
	if err := d.Driver.Apply(ctx, tenant, b); err != nil {
		return err
	}
	for _, p := range b.Puts {
		for _, term := range p.Add {
			d.terms = append(d.terms, term.Name)
		}
		if d.live[tenant+"\x00"+p.Key] = p.From + 1; p.Data == nil {
			delete(d.live, tenant+"\x00"+p.Key)
		}
	}
	if d.after != nil {
		return d.after(b)
	}
	return nil
}

func (d *mapDriver) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	if d.rewrite != nil {
		return d.rewrite(ctx, tenant, key, entries)
	}
	return d.Driver.Rewrite(ctx, tenant, key, entries)
}

func (d *mapDriver) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if d.history != nil {
		if err := d.history(); err != nil {
			return nil, err
		}
	}
	return d.Driver.History(ctx, tenant, key, after, limit)
}

// revisions is the revision of every object: what a refused write must leave alone.
func (d *mapDriver) revisions() map[string]uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return maps.Clone(d.live)
}

// raw is every key, term, object and entry that was written and is there.
func (d *mapDriver) raw(t testing.TB) (out []string) {
	t.Helper()
	tenants, _, err := d.Tenants(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out = append(out, d.terms...)
	for _, tenant := range tenants {
		for k := range d.live {
			key, ok := strings.CutPrefix(k, tenant+"\x00")
			if !ok {
				continue
			}
			objs, err := d.Driver.Get(t.Context(), tenant, []string{key})
			if err != nil {
				t.Fatal(err)
			}
			log, err := d.Driver.History(t.Context(), tenant, key, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, key, string(objs[0].Data))
			for _, l := range log {
				out = append(out, string(l.Data))
			}
		}
	}
	return out
}

// prefixed counts the live objects whose key has a prefix.
func (d *mapDriver) prefixed(prefix string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for k := range d.live {
		if _, key, _ := strings.Cut(k, "\x00"); strings.HasPrefix(memory.KeyText(key), prefix) {
			n++
		}
	}
	return n
}

var day0 = time.Date(2026, 4, 17, 12, 0, 0, 0, time.UTC)

// bench is a store on a map driver, with a clock that stands until it is moved.
type bench struct {
	testing.TB
	*memory.Store
	driver *mapDriver
	keys   memory.Keys
	scopes func(principal, subject, predicate string) bool
	mu     sync.Mutex
	now    time.Time

	readings int // of the tests of what a source says now
}

func newBench(t testing.TB) *bench { return newBenchOf(t, nil) }

// newBenchOf is one with an authority; nil = everybody speaks for itself.
func newBenchOf(t testing.TB, scopes func(principal, subject, predicate string) bool) *bench {
	b := &bench{TB: t, driver: newMapDriver(), keys: keyring.Ephemeral(), scopes: scopes, now: day0}
	b.Store = b.another()
	return b
}

// everything is a scope over everything.
func everything(string, string, string) bool { return true }

// another is another handle on the same store, which knows nothing yet.
func (b *bench) another() *memory.Store {
	s, err := memory.New(b.driver, b.keys, &memory.Options{Clock: b.clock, Authority: b.scopes})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) clock() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *bench) put(d memory.Draft) memory.Receipt {
	b.Helper()
	r, err := b.Put(b.Context(), d)
	if err != nil {
		b.Fatalf("put %q: %v", d.Content, err)
	}
	return r
}

// storeOn opens a store that has read nothing yet.
func storeOn(t testing.TB, d memory.Driver, keys memory.Keys) *memory.Store {
	t.Helper()
	s, err := memory.New(d, keys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// putMany writes n claims of a model, each about a subject of its own.
func (b *bench) putMany(n int) (ids []memory.ID) {
	b.Helper()
	for i := range n {
		ids = append(ids, b.put(modelDraft(says(fmt.Sprint("s", i), "is", "b"))).ID)
	}
	return ids
}

func (b *bench) head(id memory.ID) *memory.Head {
	b.Helper()
	f, err := b.Fitness(b.Context(), []memory.ID{id})
	if err != nil {
		b.Fatal(err)
	}
	return &f.Heads[0]
}

func (b *bench) row(id memory.ID) *memory.Row {
	b.Helper()
	rows, err := b.Get(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	return &rows[0]
}

// move applies a transition at the current revision.
func (b *bench) move(id memory.ID, to memory.AxisValue, who memory.Authority, evidence ...memory.Evidence) (memory.Head, error) {
	b.Helper()
	actor := "worker:1"
	if who == memory.AuthorityUser {
		actor = "ana"
	}
	return b.Apply(b.Context(), memory.Transition{Row: id, Revision: b.head(id).Revision, To: to, Authority: who, Actor: actor, Source: "test", Reason: "test", Evidence: evidence})
}

func (b *bench) mustMove(id memory.ID, to memory.AxisValue, who memory.Authority, evidence ...memory.Evidence) memory.Head {
	b.Helper()
	h, err := b.move(id, to, who, evidence...)
	if err != nil {
		b.Fatalf("move to %s: %v", to, err)
	}
	return h
}

func (b *bench) rows(f memory.Filter) (out []memory.Row) {
	b.Helper()
	for r, err := range b.Rows(b.Context(), f) {
		if err != nil {
			b.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func says(subject, predicate, object string) memory.Content {
	return memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional}
}

func modelDraft(c memory.Content, from ...memory.ID) memory.Draft {
	return memory.Draft{Content: c, Origin: memory.OriginModelDerived, State: memory.StateUnverified,
		Asserter:    memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"},
		DerivedFrom: from, Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityMedium}
}

func toolDraft(c memory.Content, tool string, from ...memory.ID) memory.Draft {
	d := memory.Draft{Content: c, Origin: memory.OriginFirstHand, State: memory.StateVerified,
		Asserter:    memory.Asserter{Principal: "ana", Tool: tool},
		DerivedFrom: from, Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityMedium, Anchor: "tool:" + tool}
	d.Evidence = []memory.Evidence{says4(memory.RelationSupports, memory.RankTool, tool, "tool:"+tool)}
	return d
}

func userDraft(principal string, c memory.Content) memory.Draft {
	d := memory.Draft{Content: c, Origin: memory.OriginUserAsserted, State: memory.StateVerified,
		Asserter: memory.Asserter{Principal: principal}, Sensitivity: memory.SensitivityInternal, Criticality: memory.CriticalityMedium}
	d.Evidence = []memory.Evidence{says4(memory.RelationSupports, memory.RankUser, "user:"+principal, "user:"+principal)}
	return d
}

// says4 is a piece of evidence by relation, rank, source and group.
func says4(rel memory.Relation, rank memory.Rank, source, group string) memory.Evidence {
	return memory.Evidence{Relation: rel, Rank: rank, Source: source, Verifier: "verifier:" + source, Group: group,
		Anchor: memory.Anchor{URI: "test:" + source}, At: day0}
}

func supports(rank memory.Rank, group string) memory.Evidence {
	return says4(memory.RelationSupports, rank, group, group)
}

func contradicts(rank memory.Rank, group string) memory.Evidence {
	return says4(memory.RelationContradicts, rank, group, group)
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

// termsOf are the terms that an object carries.
func termsOf(tb testing.TB, d memory.Driver, tenant, key string) []memory.Term {
	tb.Helper()
	for o, err := range d.Objects(tb.Context(), tenant, key) {
		if err != nil {
			tb.Fatal(err)
		}
		if o.Key == key {
			return o.Terms
		}
	}
	return nil
}
