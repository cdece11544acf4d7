package audit_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

func TestEveryChangeOfALogIsFound(t *testing.T) {
	t.Parallel()
	n := 1000
	if slow {
		n = 100
	}
	b := newBench(t)
	id := b.rows(1)[0]
	var objects []memory.Restored // the object after each entry
	key := ""
	for len(objects) < n {
		key = b.echo(id, 1)
		objects = append(objects, b.stored(key))
	}
	entries := b.log(key)
	b.pass(time.Hour)
	b.make(b.maker(nil))
	o := b.options(nil)
	b.holds(o)
	names := func(what string, revision int) {
		b.Helper()
		found := b.tampered(what, o)
		if found.Key != key || found.Revision != uint64(revision) {
			b.Fatalf("%s: names entry %d of %s, want entry %d", what, found.Revision, found.Key, revision)
		}
	}
	run := func(what string, test func(t *testing.T)) {
		t.Run(what, func(t *testing.T) {
			b.TB = t
			test(t)
		})
		b.TB = t
	}
	run("a bit of any entry", func(t *testing.T) {
		count := 0
		for _, i := range sample.Of(n, nil) {
			l := entries[i]
			for _, offset := range []int{0, len(l.Data) / 2, len(l.Data) - 1} {
				bad := bytes.Clone(l.Data)
				bad[offset] ^= 1 << (i % 8)
				b.rewrite(key, memory.LogEntry{Revision: l.Revision, Data: bad})
				names(fmt.Sprintf("entry %d, byte %d", l.Revision, offset), i+1)
				count++
			}
			b.rewrite(key, l)
		}
		t.Logf("%d bits flipped, each found", count)
	})
	run("any two neighbours swapped", func(t *testing.T) {
		swaps := sample.Of(n-1, nil)
		for _, i := range swaps {
			x, y := entries[i], entries[i+1]
			b.rewrite(key, memory.LogEntry{Revision: x.Revision, Data: y.Data}, memory.LogEntry{Revision: y.Revision, Data: x.Data})
			names("a swap", i+1)
			b.rewrite(key, x, y)
		}
		t.Logf("%d swaps, each found", len(swaps))
	})
	b.holds(o)
	now := objects[n-1]
	run("any entry missing", func(t *testing.T) {
		deletions := sample.Of(n-1, nil)
		for _, i := range deletions {
			b.rewrite(key, memory.LogEntry{Revision: entries[i].Revision})
			names("a deletion", i+2)
			b.append(key, entries[i])
			b.restore(now)
		}
		t.Logf("%d deletions, each found", len(deletions))
	})
	b.holds(o)
	run("any tail cut, and the object with it", func(t *testing.T) {
		cuts := sample.Of(n, nil)
		left := n
		for _, i := range slices.Backward(cuts) { // i entries are left
			for ; left > i; left-- {
				b.rewrite(key, memory.LogEntry{Revision: entries[left-1].Revision})
			}
			b.restore(now)
			if i == 0 {
				names("all of it", 1) // nothing but the object is left
				b.restore(memory.Restored{Object: memory.Object{Key: key}})
				names("not even the object", 1)
				break
			}
			names("a cut", n)
			b.restore(objects[i-1])
			if _, err := b.Verify(t.Context(), nil, nil); err != nil {
				t.Fatalf("the chains alone show a cut at %d: %v", i, err)
			}
			names("a cut, with the object put back to what it was then", i+1)
		}
		t.Logf("%d cuts, each found; those with the object put back, by the checkpoint only", len(cuts))
	})
}

// append puts an entry that was deleted back into a log.
func (b *bench) append(key string, l memory.LogEntry) {
	b.Helper()
	before := memory.Object{Key: key, Revision: l.Revision - 1}
	if l.Revision > 1 {
		before.Data = []byte{}
	}
	b.restore(memory.Restored{Object: before})
	if err := b.driver.Apply(b.Context(), b.Tenant(), memory.Batch{Puts: []memory.Put{{Key: key, From: l.Revision - 1, Data: []byte{}, Entry: l.Data}}}); err != nil {
		b.Fatal(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAHistoryThatWasWrittenAgainWithTheAuditKeyIsFound(t *testing.T) {
	// Whoever has the keys writes a row in the place of another one, all of it.
	b := newBench(t)
	b.rows(2)
	before := b.everything()
	key := memory.HeadKey(b.rows(1)[0])
	b.make(b.maker(nil))
	for k := range b.everything() {
		if _, ok := before[k]; !ok && k[:2] != "p/" && k != "s/checkpoint" {
			b.drop(k)
		}
	}
	b.again()
	b.rows(1)
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal("the chains alone show it:", err)
	}
	if found := b.tampered("a row in the place of another", b.options(nil)); found.Key != key || !strings.Contains(found.Reason, "gone") {
		t.Fatal(found)
	}
	t.Run("in the same place", func(t *testing.T) {
		b := newBench(t)
		id := b.rows(1)[0]
		key := b.echo(id, 3)
		before := b.stored(key)
		b.echo(id, 3)
		b.make(b.maker(nil))
		for revision := uint64(4); revision <= 6; revision++ {
			b.rewrite(key, memory.LogEntry{Revision: revision})
		}
		b.restore(before)
		b.again()
		b.echo(id, 4)
		if _, err := b.Verify(t.Context(), nil, nil); err != nil {
			t.Fatal("the chains alone show it:", err)
		}
		if found := b.tampered("another end", b.options(nil)); found.Key != key || found.Revision != 6 || !strings.Contains(found.Reason, "written again") {
			t.Fatal(found)
		}
	})
}

func TestADroppedRowIsFound(t *testing.T) {
	b := newBench(t)
	b.rows(7)
	before := b.everything()
	id := b.rows(1)[0]
	b.verified(id)
	after := b.everything()
	b.rows(12)
	b.make(b.maker(nil))
	head := memory.HeadKey(id)
	for key := range after {
		if _, ok := before[key]; !ok { // all that was written for it
			b.drop(key)
		}
	}
	if _, err := b.Get(t.Context(), id); !errors.Is(err, memory.ErrBehind) {
		t.Fatal("to a process that met it, it was never there:", err)
	}
	b.again()
	if _, err := b.Get(t.Context(), id); !errors.Is(err, memory.ErrNotFound) {
		t.Fatal("it is still there", err)
	}
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal("the chains alone show it:", err)
	}
	if found := b.tampered("a dropped row", b.options(nil)); found.Key != head || !strings.Contains(found.Reason, "gone") {
		t.Fatal(found)
	}
}

func TestACheckpointThatWasChangedIsFound(t *testing.T) {
	b := newBench(t)
	m := b.maker(nil)
	for range 4 {
		b.rows(3)
		b.make(m)
	}
	at := func(i int) string { return fmt.Sprintf("p/%016x", i) }
	fault := func(what string, index uint64) {
		t.Helper()
		_, err := audit.Verify(t.Context(), b.Store, b.options(nil))
		var found *audit.CheckpointError
		var undecodable *memory.TamperError
		switch {
		case !errors.Is(err, memory.ErrTampered):
		case errors.As(err, &found) && found.Index == index:
			return
		case errors.As(err, &undecodable) && undecodable.Revision == index:
			return
		}
		t.Fatalf("%s: %v, want checkpoint %d", what, err, index)
	}
	good := b.object(at(2))
	for i := range good.Data {
		for _, bit := range []byte{1, 0x80} {
			bad := good
			bad.Data = bytes.Clone(good.Data)
			bad.Data[i] ^= bit
			b.restore(memory.Restored{Object: bad})
			fault(fmt.Sprintf("byte %d", i), 2)
		}
	}
	b.restore(memory.Restored{Object: memory.Object{Key: at(2)}})
	fault("gone", 2)
	swapped := b.object(at(3))
	swapped.Key = at(2)
	b.restore(memory.Restored{Object: swapped})
	fault("another's place", 2)
	b.restore(memory.Restored{Object: good})
	b.holds(b.options(nil))
	t.Run("of a stranger", func(t *testing.T) {
		key := b.key
		b.key = newKey(t, "acme.example/1") // of the same name
		b.rows(1)
		b.make(b.stranger())
		b.key = key
		fault("a stranger's", 5)
		if _, err := m.Make(t.Context()); !errors.Is(err, memory.ErrTampered) {
			t.Fatal("a maker went on from it:", err)
		}
		if _, err := audit.Verify(t.Context(), b.Store, audit.Options{}); !errors.Is(err, audit.ErrKey) || !strings.Contains(err.Error(), "verifier") {
			t.Fatal("without a verifier:", err)
		}
	})
	t.Run("of another store", func(t *testing.T) {
		b, other := newBench(t), newBench(t)
		s, err := memory.New(other.driver, other.keys, &memory.Options{Namespace: "other", Clock: other.clock})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Put(t.Context(), says("a", "is", "b")); err != nil {
			t.Fatal(err)
		}
		m, err := audit.NewMaker(s, b.key, origin, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.Make(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.PutCheckpoint(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if _, err := audit.Verify(t.Context(), b.Store, b.options(nil)); err == nil || !strings.Contains(err.Error(), "another tenant") {
			t.Fatal(err)
		}
	})
}

// stranger is a maker that goes on after checkpoints which it takes on trust.
func (b *bench) stranger() *audit.Maker {
	b.Helper()
	m, err := audit.NewMaker(b.Store, b.key, origin, &audit.MakerOptions{Verifiers: []note.Verifier{b.key.Verifier(), trusting(b)}})
	if err != nil {
		b.Fatal(err)
	}
	return m
}

// trusting finds every signature of the checkpoints so far good.
func trusting(b *bench) note.Verifier {
	c, err := b.LastCheckpoint(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	_, err = note.Open(c.Note, note.VerifierList())
	var unverified *note.UnverifiedNoteError
	if !errors.As(err, &unverified) {
		b.Fatal(err)
	}
	sig := unverified.Note.UnverifiedSigs[0]
	return gullible{sig.Name, sig.Hash}
}

type gullible struct {
	name string
	hash uint32
}

func (g gullible) Name() string            { return g.name }
func (g gullible) KeyHash() uint32         { return g.hash }
func (g gullible) Verify(_, _ []byte) bool { return true }

func TestAnOlderCopyOfTheStoreIsFoundByItsWitness(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	open := func() memory.Driver {
		d, err := sqlitestore.Open(t.Context(), path, nil)
		must(t, err)
		return d
	}
	b := benchOn(t, open(), keyring.Ephemeral())
	w, file := newWitness(t)
	m := b.maker(&audit.MakerOptions{Witness: w})
	ids := b.rows(10)
	b.verified(ids[3])
	b.make(m)
	must(t, b.Close())
	yesterday, err := os.ReadFile(path)
	must(t, err)

	b.driver = open()
	b.Store = b.open(b.driver, b.keys)
	m = b.maker(&audit.MakerOptions{Witness: w})
	b.pass(24 * time.Hour)
	b.demoted(ids[3])
	b.rows(2)
	b.make(m)
	if r := b.holds(b.options(w)); !r.Witness || r.Witnessed != 2 {
		t.Fatalf("%+v", r)
	}
	must(t, b.Close())

	must(t, os.WriteFile(path, yesterday, 0o600))
	b.driver = open()
	b.Store = b.open(b.driver, b.keys)
	defer b.Close()
	if f, err := b.Fitness(t.Context(), ids[3:4]); err != nil || f.Heads[0].State() != memory.StateVerified {
		t.Fatal("the demotion is still there:", err)
	}
	t.Logf("without a witness: %s", b.holds(b.options(nil)).Holds())
	_, err = audit.Verify(t.Context(), b.Store, b.options(w))
	var behind *audit.RollbackError
	if !errors.As(err, &behind) || !errors.Is(err, audit.ErrRollback) || behind.Index != 1 || behind.WitnessedIndex != 2 {
		t.Fatal(err)
	}
	t.Logf("with it: %v", err)
	t.Run("and gets no checkpoint", func(t *testing.T) {
		b.rows(30)
		m := b.maker(&audit.MakerOptions{Witness: w})
		if _, err := m.Make(t.Context()); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
		if err := m.Serve(t.Context(), time.Millisecond); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
		if c, err := b.LastCheckpoint(t.Context()); err != nil || c.Index != 1 {
			t.Fatal(c.Index, err)
		}
	})
	t.Run("and so is a copy that went on alone", func(t *testing.T) {
		m := b.maker(nil)
		for range 3 {
			b.rows(1)
			b.make(m)
		}
		b.holds(b.options(nil))
		_, err := audit.Verify(t.Context(), b.Store, b.options(w))
		if !errors.Is(err, audit.ErrRollback) || !strings.Contains(err.Error(), "made again") {
			t.Fatal(err)
		}
		if err := w.See(t.Context(), b.Store, b.key.Verifier()); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
	})
	t.Run("by a reader of the witness in another process too", func(t *testing.T) {
		r, err := audit.ReadWitness(file)
		must(t, err)
		defer r.Close()
		if _, err := audit.Verify(t.Context(), b.Store, b.options(r)); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
	})
}

// rotating are keys of which the current audit key is changed.
type rotating struct {
	memory.Keys
	mu   sync.Mutex
	id   uint32
	lost map[uint32]bool
}

func (k *rotating) Audit() (uint32, [32]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, _ := k.keyOf(k.id)
	return k.id, key
}

func (k *rotating) AuditKey(id uint32) ([32]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keyOf(id)
}

func (k *rotating) keyOf(id uint32) ([32]byte, bool) {
	key := k.Root()
	key[0] ^= byte(id)
	return key, id > 0 && id <= k.id && !k.lost[id]
}

func TestKeysAreRotated(t *testing.T) {
	keys := &rotating{Keys: keyring.Ephemeral(), id: 1, lost: map[uint32]bool{}}
	b := benchOn(t, storetest.NewMap(), keys)
	id := b.rows(1)[0]
	w, _ := newWitness(t)
	var signers []*audit.Key
	var verifiers []note.Verifier
	for i := range 4 {
		for range 5 {
			b.verified(id)
			b.demoted(id)
		}
		b.key = newKey(t, "acme.example/1")
		signers, verifiers = append(signers, b.key), append(verifiers, b.key.Verifier())
		b.make(b.maker(&audit.MakerOptions{Verifiers: verifiers, Witness: w}))
		verifiers[i] = audit.Retired(verifiers[i], uint64(i+1))
		keys.mu.Lock()
		keys.id++
		keys.mu.Unlock()
	}
	o := audit.Options{Verifiers: verifiers, Witness: w}
	r := b.holds(o)
	if len(r.Keys) != 4 || r.Keys[2].First != 3 || r.Keys[2].Last != 3 || r.Newer != 0 {
		t.Fatalf("%+v", r)
	}
	t.Run("a missing audit key is said to be missing", func(t *testing.T) {
		keys.lost[2] = true
		defer delete(keys.lost, 2)
		if found := b.tampered("a lost key", o); !strings.Contains(found.Reason, "audit key 2 is not at hand") {
			t.Fatal(found)
		}
	})
	t.Run("a wrong audit key is found", func(t *testing.T) {
		s := b.open(b.driver, &wrongAudit{keys, 2})
		if _, err := audit.Verify(t.Context(), s, o); !errors.Is(err, memory.ErrTampered) || !strings.Contains(err.Error(), "checkpoint/0000000000000002") {
			t.Fatal(err)
		}
		if _, err := s.Verify(t.Context(), nil, nil); !errors.Is(err, memory.ErrTampered) || !strings.Contains(err.Error(), "MAC") {
			t.Fatal(err)
		}
		s = b.open(b.driver, &wrongAudit{keys, 1}) // with which the store was made
		if _, err := audit.Verify(t.Context(), s, o); !errors.Is(err, memory.ErrDamaged) {
			t.Fatal(err)
		}
		s = b.open(b.driver, keyring.Ephemeral())
		if _, err := audit.Verify(t.Context(), s, o); !errors.Is(err, memory.ErrKey) {
			t.Fatal(err)
		}
	})
	t.Run("a retired checkpoint key signs nothing new", func(t *testing.T) {
		b.rows(1)
		good := b.key
		b.key = signers[1]
		if _, err := b.maker(&audit.MakerOptions{Verifiers: verifiers}).Make(t.Context()); !errors.Is(err, audit.ErrUnsound) || !strings.Contains(err.Error(), "retired") {
			t.Fatal(err)
		}
		unretired := []note.Verifier{signers[0].Verifier(), signers[1].Verifier(), signers[2].Verifier(), signers[3].Verifier()}
		b.make(b.maker(&audit.MakerOptions{Verifiers: unretired}))
		b.key = good
		_, err := audit.Verify(t.Context(), b.Store, o)
		var found *audit.CheckpointError
		if !errors.As(err, &found) || found.Index != 5 || !strings.Contains(found.Reason, "retired after checkpoint 2") {
			t.Fatal(err)
		}
		if err := w.See(t.Context(), b.Store, verifiers...); !errors.As(err, &found) {
			t.Fatal("the witness believed it:", err)
		}
	})
}

// wrongAudit has another key in the place of one.
type wrongAudit struct {
	memory.Keys
	wrong uint32
}

func (k *wrongAudit) AuditKey(id uint32) ([32]byte, bool) {
	if id == k.wrong {
		return [32]byte{1}, true
	}
	return k.Keys.AuditKey(id)
}

func TestOfTwoMakersOneWins(t *testing.T) {
	b := newBench(t)
	w, _ := newWitness(t)
	const makers, rounds = 4, 20
	for range rounds {
		b.rows(3)
		before, err := b.LastCheckpoint(t.Context())
		must(t, err)
		var wg sync.WaitGroup
		for range makers {
			m := b.maker(&audit.MakerOptions{Witness: w})
			wg.Go(func() {
				c, err := m.Make(t.Context())
				if err != nil || c.Index != before.Index+1 {
					t.Error(c.Index, err)
				}
			})
		}
		wg.Wait()
	}
	if r := b.holds(b.options(w)); r.Checkpoints != rounds || r.Leaves != 3*rounds+2 || r.Witnessed != rounds {
		t.Fatalf("%+v", r)
	}
}

func TestEverythingHoldsWhileOthersWrite(t *testing.T) {
	d, err := sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	must(t, err)
	b := benchOn(t, d, keyring.Ephemeral())
	defer b.Close()
	w, _ := newWitness(t)
	ids := b.rows(10)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var written atomic.Int64
	for i := range 2 {
		wg.Go(func() {
			for n := 0; n < 150 && ctx.Err() == nil; n++ { // one that never stops might be faster than the verification
				b.pass(time.Millisecond)
				_, err := b.Echo(t.Context(), ids[(n+i)%10], memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}, "run-1", "")
				if err == nil {
					_, err = b.Put(t.Context(), says(fmt.Sprint("writer ", i), "wrote", fmt.Sprint(n)))
				}
				if err != nil {
					t.Error(err)
					return
				}
				written.Add(2)
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 2 {
		m := b.maker(&audit.MakerOptions{Witness: w})
		wg.Go(func() {
			if err := m.Serve(ctx, 5*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		o := b.options(w)
		if _, err := audit.Verify(t.Context(), b.Store, o); err != nil {
			t.Error(err)
		}
		o.Witness = nil // it goes on while the export is read
		if _, err := audit.VerifyExport(t.Context(), strings.NewReader(b.export()), b.keys, o); err != nil {
			t.Error(err)
		}
	}
	stop()
	wg.Wait()
	c := b.make(b.maker(&audit.MakerOptions{Witness: w}))
	r := b.holds(b.options(w))
	if r.Newer != 0 || uint64(r.Checkpoints) != c.Index {
		t.Fatalf("%+v", r)
	}
	t.Logf("%d writes, %d checkpoints, %d leaves", written.Load(), r.Checkpoints, r.Leaves)
}

// flip is a driver over memory that fails: it hands out other bytes than are there.
type flip struct {
	memory.Driver
	get   func(o *memory.Object)
	apply func(p *memory.Put)
}

func (d *flip) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objs, err := d.Driver.Get(ctx, tenant, keys)
	for i := range objs {
		d.get(&objs[i])
	}
	return objs, err
}

func (d *flip) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	for i := range b.Puts {
		d.apply(&b.Puts[i])
	}
	return d.Driver.Apply(ctx, tenant, b)
}

// badSigner signs another text than it was given.
type badSigner struct{ *audit.Key }

func (s badSigner) Sign(text []byte) ([]byte, error) {
	bad := bytes.Clone(text)
	bad[len(bad)/2] ^= 1
	return s.Key.Sign(bad)
}

func TestABitThatFlipsOnTheWayIsNotSigned(t *testing.T) {
	for _, c := range []struct {
		name    string
		corrupt func(d *flip)
		signed  bool
		want    error
	}{
		{"when the leaves are read first", func(d *flip) { d.get = heads(0) }, false, memory.ErrDamaged},
		{"when they are read again", func(d *flip) { d.get = heads(1) }, false, memory.ErrDamaged},
		{"when the checkpoint is stored", func(d *flip) {
			d.apply = func(p *memory.Put) {
				if strings.HasPrefix(p.Key, "p/") {
					p.Data = bytes.Clone(p.Data)
					p.Data[len(p.Data)-5] ^= 1
				}
			}
		}, true, audit.ErrUnsound},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &flip{Driver: storetest.NewMap(), get: func(*memory.Object) {}, apply: func(*memory.Put) {}}
			b := benchOn(t, d, keyring.Ephemeral())
			b.rows(4)
			c.corrupt(d)
			_, err := b.maker(nil).Make(t.Context())
			if !errors.Is(err, c.want) {
				t.Fatal(err)
			}
			if head := b.object("s/checkpoint"); c.signed != (head.Revision > 0) {
				t.Fatal(head.Revision)
			}
			if last, err := b.LastCheckpoint(t.Context()); last.Index > 0 || c.signed != errors.Is(err, memory.ErrTampered) {
				t.Fatal(last.Index, err)
			}
		})
	}
	t.Run("when it is signed", func(t *testing.T) {
		b := newBench(t)
		b.rows(4)
		m, err := audit.NewMaker(b.Store, badSigner{b.key}, origin, &audit.MakerOptions{Verifiers: []note.Verifier{b.key.Verifier()}})
		must(t, err)
		if _, err := m.Make(t.Context()); !errors.Is(err, audit.ErrUnsound) {
			t.Fatal(err)
		}
		if last, err := b.LastCheckpoint(t.Context()); err != nil || last.Index > 0 {
			t.Fatal(last.Index, err)
		}
	})
}

// heads flips a bit of a MAC in the n-th read of a head.
func heads(n int) func(*memory.Object) {
	reads := 0
	return func(o *memory.Object) {
		if !strings.HasPrefix(o.Key, "h/") {
			return
		}
		if reads/4 == n {
			o.Data = bytes.Clone(o.Data)
			o.Data[20] ^= 4
		}
		reads++
	}
}

// export is an export of the store.
func (b *bench) export() string {
	b.Helper()
	var out strings.Builder
	if err := audit.Export(b.Context(), b.Store, &out); err != nil {
		b.Fatal(err)
	}
	return out.String()
}

// stripped is an entry whose payload was taken away by somebody without keys: nothing
// that its MAC covers changes.
func stripped(l memory.LogEntry) memory.LogEntry {
	at := 30 // what every entry begins with
	for range 2 {
		_, n := binary.Uvarint(l.Data[at:])
		at += n
	}
	state, n := binary.Uvarint(l.Data[at:])
	at += n + int(state) + 16
	l.Data = append(append(bytes.Clone(l.Data[:at]), 0), l.Data[len(l.Data)-32:]...)
	return l
}

// TestAnErasureExcusesWhatWasThereBeforeIt: the claim of an erased row comes back, and
// what its log then says is not to be taken away on the word of the old erasure.
func TestAnErasureExcusesWhatWasThereBeforeIt(t *testing.T) {
	b := newBench(t)
	said := says("Eve Doe", "lives in", "Oslo")
	key := b.echo(b.put(said), 2)
	if _, err := b.Erase(t.Context(), memory.Erasure{Subject: "Eve Doe", Request: "1", Actor: "dpo"}); err != nil {
		t.Fatal(err)
	}
	b.pass(time.Second)
	if again := b.echo(b.put(said), 2); again != key {
		t.Fatal("it is another claim")
	}
	b.holds(b.options(nil))
	log := b.log(key)
	for i, l := range log {
		gone := stripped(l)
		if i < 2 { // of before
			if !bytes.Equal(gone.Data, l.Data) {
				t.Fatalf("entry %d still has its payload", l.Revision)
			}
			continue
		}
		b.rewrite(key, gone)
		if found := b.tampered("a payload is gone", b.options(nil)); found.Key != key || found.Revision != l.Revision {
			t.Fatalf("it names entry %d of %s, want %d", found.Revision, found.Key, l.Revision)
		}
		b.rewrite(key, l)
	}
	if len(log) != 5 {
		t.Fatalf("%d entries", len(log))
	}
}
