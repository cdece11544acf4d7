package audit_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/internal/testmain"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestMain(m *testing.M) { testmain.Run(m) }

var day0 = time.Date(2026, 4, 17, 8, 0, 0, 0, time.UTC)

const origin = "acme.example/hearsay"

// bench is a store, what is below it, and a key to sign its checkpoints with.
type bench struct {
	*memory.Store
	testing.TB
	driver memory.Driver
	keys   memory.Keys
	key    *audit.Key

	mu  sync.Mutex
	now time.Time
}

func newBench(t testing.TB) *bench { return benchOn(t, storetest.NewMap(), keyring.Ephemeral()) }

func benchOn(t testing.TB, d memory.Driver, k memory.Keys) *bench {
	t.Helper()
	b := &bench{TB: t, driver: d, keys: k, now: day0}
	b.Store = b.open(d, k)
	b.key = newKey(t, "acme.example/1")
	return b
}

// open opens a store with the clock of the bench.
func (b *bench) open(d memory.Driver, k memory.Keys) *memory.Store {
	b.Helper()
	s, err := memory.New(d, k, &memory.Options{Clock: b.clock})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func newKey(t testing.TB, name string) *audit.Key {
	t.Helper()
	k, _, err := audit.NewKey(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
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

func says(subject, predicate, object string) memory.Draft {
	return memory.Draft{Content: memory.Content{Subject: subject, Predicate: predicate, Object: object, Cardinality: memory.CardinalityFunctional},
		Origin: memory.OriginModelDerived, State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"},
		Sensitivity: memory.SensitivityInternal}
}

func (b *bench) put(d memory.Draft) memory.ID {
	b.Helper()
	r, err := b.Put(b.Context(), d)
	if err != nil {
		b.Fatal(err)
	}
	return r.ID
}

// rows writes rows a second apart.
func (b *bench) rows(n int) (ids []memory.ID) {
	b.Helper()
	for i := range n {
		b.pass(time.Second)
		ids = append(ids, b.put(says(fmt.Sprint("customer ", b.Now().UnixMicro(), i), "lives in", "Oslo")))
	}
	return ids
}

// verified moves a row to verified, demoted takes it back.
func (b *bench) verified(id memory.ID) {
	b.Helper()
	b.pass(time.Second)
	b.move(id, memory.TruthSupported, memory.Evidence{Relation: memory.RelationSupports, Rank: memory.RankTool, Source: "crm", Verifier: "crm",
		Group: fmt.Sprint("tool:crm", b.Now().UnixMicro()), Anchor: memory.Anchor{URI: "crm://1"}, At: b.Now()})
}

func (b *bench) demoted(id memory.ID) {
	b.Helper()
	b.pass(time.Second)
	b.move(id, memory.TruthUnverified)
}

func (b *bench) move(id memory.ID, to memory.AxisValue, evidence ...memory.Evidence) {
	b.Helper()
	f, err := b.Fitness(b.Context(), []memory.ID{id})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := b.Apply(b.Context(), memory.Transition{Row: id, Revision: f.Heads[0].Revision, To: to, Authority: memory.AuthorityProbe, Actor: "worker:1", Source: "crm",
		Reason: "asked", Evidence: evidence}); err != nil {
		b.Fatal(err)
	}
}

// echo has a claim come back n times, and returns the key of its log.
func (b *bench) echo(id memory.ID, n int) string {
	b.Helper()
	for range n {
		b.pass(time.Second)
		if _, err := b.Echo(b.Context(), id, memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, "run-1", ""); err != nil {
			b.Fatal(err)
		}
	}
	f, err := b.Fitness(b.Context(), []memory.ID{id})
	if err != nil {
		b.Fatal(err)
	}
	return memory.EchoKey(f.Heads[0].Claim)
}

func (b *bench) logs() (keys []string) {
	b.Helper()
	for k, err := range b.Logs(b.Context()) {
		if err != nil {
			b.Fatal(err)
		}
		keys = append(keys, k)
	}
	return keys
}

func (b *bench) log(key string) []memory.LogEntry {
	b.Helper()
	log, err := b.driver.History(b.Context(), b.Tenant(), key, 0, memory.MaxQueryLimit)
	if err != nil {
		b.Fatal(err)
	}
	return log
}

func (b *bench) object(key string) memory.Object {
	b.Helper()
	objs, err := b.driver.Get(b.Context(), b.Tenant(), []string{key})
	if err != nil {
		b.Fatal(err)
	}
	return objs[0]
}

// stored is an object with the terms that it is found by; one without a revision if
// there is none.
func (b *bench) stored(key string) memory.Restored {
	b.Helper()
	for o, err := range b.driver.Objects(b.Context(), b.Tenant(), key) {
		if err != nil {
			b.Fatal(err)
		}
		if o.Key == key {
			return o
		}
	}
	return memory.Restored{Object: memory.Object{Key: key}}
}

// everything is all objects by key.
func (b *bench) everything() map[string]memory.Restored {
	b.Helper()
	all := map[string]memory.Restored{}
	for o, err := range b.driver.Objects(b.Context(), b.Tenant(), "") {
		if err != nil {
			b.Fatal(err)
		}
		all[o.Key] = o
	}
	return all
}

// drop takes an object away with its log.
func (b *bench) drop(key string) {
	b.Helper()
	for _, l := range b.log(key) {
		b.rewrite(key, memory.LogEntry{Revision: l.Revision})
	}
	b.restore(memory.Restored{Object: memory.Object{Key: key}})
}

// again is a store that met nothing yet, as another process has it.
func (b *bench) again() {
	b.Helper()
	b.Store = b.open(b.driver, b.keys)
}

// rewrite changes entries of a log as somebody would who can write the store.
func (b *bench) rewrite(key string, entries ...memory.LogEntry) {
	b.Helper()
	if err := storetest.Rewrite(b.Context(), b.driver, b.Tenant(), key, entries); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) restore(objects ...memory.Restored) {
	b.Helper()
	if err := b.driver.Restore(b.Context(), b.Tenant(), objects); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) maker(o *audit.MakerOptions) *audit.Maker {
	b.Helper()
	m, err := audit.NewMaker(b.Store, b.key, origin, o)
	if err != nil {
		b.Fatal(err)
	}
	return m
}

func (b *bench) make(m *audit.Maker) memory.Checkpoint {
	b.Helper()
	c, err := m.Make(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bench) options(w *audit.Witness) audit.Options {
	return audit.Options{Verifiers: []note.Verifier{b.key.Verifier()}, Witness: w}
}

func (b *bench) holds(o audit.Options) audit.Report {
	b.Helper()
	r, err := audit.Verify(b.Context(), b.Store, o)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// tampered verifies a store that was tampered with.
func (b *bench) tampered(what string, o audit.Options) *memory.TamperError {
	b.Helper()
	_, err := audit.Verify(b.Context(), b.Store, o)
	var found *memory.TamperError
	if !errors.As(err, &found) || !errors.Is(err, memory.ErrTampered) {
		b.Fatalf("%s: %v", what, err)
	}
	return found
}

func newWitness(t testing.TB) (*audit.Witness, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "witness")
	w, err := audit.CreateWitness(path)
	return closing(t, w, err), path
}

func openWitness(t testing.TB, path string) *audit.Witness {
	t.Helper()
	w, err := audit.OpenWitness(path)
	return closing(t, w, err)
}

// closing closes a witness at the end of a test.
func closing(t testing.TB, w *audit.Witness, err error) *audit.Witness {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func TestACheckpointCommitsToWhatChanged(t *testing.T) {
	b := newBench(t)
	m := b.maker(nil)
	if c := b.make(m); c.Index != 0 || len(b.logs()) != 0 {
		t.Fatal("a checkpoint of nothing", c)
	}
	ids := b.rows(5)
	b.pass(time.Hour)
	first := b.make(m)
	if first.Index != 1 || int(first.Size) != len(b.logs()) || len(first.Leaves) != len(b.logs()) {
		t.Fatal(first)
	}
	if again := b.make(m); again.Index != 1 {
		t.Fatal("a checkpoint although nothing changed")
	}
	b.verified(ids[2])
	second := b.make(m)
	if second.Index != 2 || len(second.Leaves) != 1 || second.Leaves[0].Key != memory.HeadKey(ids[2]) || second.Leaves[0].Revision != 2 {
		t.Fatal(second)
	}
	report := b.holds(b.options(nil))
	if report.Checkpoints != 2 || report.Leaves != int(second.Size) || report.Newer != 0 || report.Logs != len(b.logs()) || report.Witness ||
		len(report.Keys) != 1 || report.Keys[0].Last != 2 {
		t.Fatalf("%+v", report)
	}
	b.verified(ids[3])
	if report := b.holds(b.options(nil)); report.Newer != 1 {
		t.Fatalf("%+v", report)
	}
	t.Logf("%s", first.Note)
}

// A write bears the moment of the machine that makes it, whose clock may be behind.
func TestWhatBecameVisibleLateIsCommittedTo(t *testing.T) {
	b := newBench(t)
	m := b.maker(&audit.MakerOptions{Window: 10 * time.Second})
	b.rows(1)
	b.pass(time.Minute)
	b.make(m)
	late := func(by time.Duration) string {
		b.pass(-by)
		r, err := b.open(b.driver, b.keys).Put(t.Context(), says(fmt.Sprint("late by ", by), "is", "late"))
		if err != nil {
			t.Fatal(err)
		}
		b.pass(by)
		return memory.HeadKey(r.ID)
	}
	has := func(c memory.Checkpoint, key string) bool {
		return slices.ContainsFunc(c.Leaves, func(l memory.Leaf) bool { return l.Key == key })
	}
	within := late(9 * time.Second)
	if c := b.make(m); c.Index != 2 || !has(c, within) || len(c.Leaves) != 1 {
		t.Fatal(c.Leaves)
	}
	if c := b.make(m); c.Index != 2 {
		t.Fatal("committed to it twice")
	}
	after := late(30 * time.Second)
	if c := b.make(m); has(c, after) {
		t.Fatal("the window is longer than it is")
	}
	if r := b.holds(b.options(nil)); r.Newer != 1 {
		t.Fatalf("%+v", r)
	}
	c, err := m.Sweep(t.Context())
	if err != nil || !has(c, after) || len(c.Leaves) != 1 {
		t.Fatal(c.Leaves, err)
	}
	// An entry from the future is listed every time, and committed to once.
	future := late(-1000 * time.Hour)
	if c := b.make(m); c.Index != 4 || !has(c, future) {
		t.Fatal(c.Leaves)
	}
	for i := range 3 {
		b.rows(1)
		if c := b.make(m); int(c.Index) != 5+i || len(c.Leaves) != 1 {
			t.Fatal(c.Index, c.Leaves)
		}
	}
	b.holds(b.options(nil))
}

func TestAMakerWhoseClockIsAheadHidesNothing(t *testing.T) {
	b := newBench(t)
	b.rows(2)
	b.pass(24 * time.Hour)
	m := b.maker(nil)
	b.make(m)
	b.pass(-24 * time.Hour)
	b.rows(1)
	b.pass(time.Hour) // longer than the window
	if c := b.make(m); c.Index != 2 || len(c.Leaves) != 1 || !c.Until.Time().Before(b.Now().Add(time.Second)) {
		t.Fatal(c)
	}
	if c := b.make(m); c.Index != 2 {
		t.Fatal(c)
	}
	b.pass(30 * time.Hour)
	b.make(m)
	b.pass(-30 * time.Hour)
	b.rows(1)
	if c := b.make(m); len(c.Leaves) != 1 {
		t.Fatal(c)
	}
	b.holds(b.options(nil))
}

func TestALargeChangeIsSeveralCheckpoints(t *testing.T) {
	b := newBench(t)
	m := b.maker(nil)
	audit.SetChunk(m, 7)
	b.rows(18) // and two logs that every store has
	if c := b.make(m); c.Index != 3 || c.Size != 20 {
		t.Fatal(c.Index, c.Size)
	}
	if c := b.make(m); c.Index != 3 {
		t.Fatal("committed twice")
	}
	b.rows(1)
	if c := b.make(m); c.Index != 4 || len(c.Leaves) != 1 {
		t.Fatal(c)
	}
	b.rows(14) // of which nothing is left over
	if c := b.make(m); c.Index != 7 || c.Size != 35 || len(c.Leaves) != 0 {
		t.Fatal(c.Index, c.Size)
	}
	b.rows(1)
	if c := b.make(m); c.Index != 8 || len(c.Leaves) != 1 {
		t.Fatal(c)
	}
	if r := b.holds(b.options(nil)); r.Newer != 0 || r.Checkpoints != 8 {
		t.Fatalf("%+v", r)
	}
	t.Run("and goes on after a crash between them", func(t *testing.T) {
		b.rows(20)
		ctx, cancel := context.WithCancel(t.Context())
		crashing := benchOn(t, &crash{Driver: b.driver, after: 1, cancel: cancel}, b.keys)
		crashing.key, crashing.now = b.key, b.now
		cm := crashing.maker(nil)
		audit.SetChunk(cm, 7)
		if _, err := cm.Make(ctx); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if c := b.make(m); c.Size != 56 {
			t.Fatal(c.Size)
		}
		b.holds(b.options(nil))
	})
}

// crash lets so many checkpoints be written, and then ends the context.
type crash struct {
	memory.Driver
	after  int
	cancel func()
}

func (d *crash) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.Driver.Apply(ctx, tenant, b); err != nil {
		return err
	}
	if d.after--; d.after == 0 {
		d.cancel()
	}
	return nil
}
