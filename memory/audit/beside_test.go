package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// meddler is a driver beside which something happens after a given number of reads,
// and something else after the next. Its pages are short, so that there are many
// places for it to happen.
type meddler struct {
	memory.Driver
	page int
	at   int

	mu    sync.Mutex
	reads int
	do    []func()
}

func (m *meddler) read() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reads++; m.reads >= m.at && len(m.do) > 0 {
		do := m.do[0]
		m.do = m.do[1:]
		do()
	}
}

func (m *meddler) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	defer m.read()
	return m.Driver.Get(ctx, tenant, keys)
}

func (m *meddler) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	defer m.read()
	return m.Driver.History(ctx, tenant, key, after, limit)
}

func (m *meddler) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	defer m.read()
	return m.Driver.Logs(ctx, tenant, prefix, after, limit)
}

func (m *meddler) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
	defer m.read()
	return m.Driver.Scan(ctx, tenant, prefix, after, min(limit, m.page))
}

// TestNothingThatHappensBetweenTwoReadsIsTakenForTampering has something happen after
// the first read of a verification, after the second one, and so on to the last.
func TestNothingThatHappensBetweenTwoReadsIsTakenForTampering(t *testing.T) {
	const long = 110
	stride := 1
	if slow {
		stride = 5
	}
	pack := func(b *bench, _ []memory.ID) {
		if _, err := b.Compact(b.Context()); err != nil {
			b.Error(err)
		}
	}
	erase := func(b *bench, _ []memory.ID) {
		if c, err := b.Erase(b.Context(), memory.Erasure{Subject: "ana", Actor: "operator"}); err != nil || c.Rows == 0 {
			b.Error(c, err)
		}
	}
	named := func(b *bench, _ []memory.ID) { // the key of these rows stays: their payloads are taken out
		if c, err := b.Erase(b.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil || c.Rows == 0 {
			b.Error(c, err)
		}
	}
	write := func(b *bench, ids []memory.ID) {
		b.echo(ids[0], 3)
		b.verified(ids[1])
		b.demoted(ids[1])
		b.rows(1)
	}
	type step = func(*bench, []memory.ID)
	all := func(steps ...step) step {
		return func(b *bench, ids []memory.ID) {
			for _, do := range steps {
				do(b, ids)
			}
		}
	}
	grow := func(b *bench, ids []memory.ID) { b.echo(ids[0], 70) }
	cases := []struct {
		name string
		do   []step // each after the read that follows
	}{
		{"rows are written, moved and come back", []step{write}},
		{"rows move at each read", []step{write, write, write, write, write}},
		{"logs are packed", []step{pack}},
		{"logs grow and are packed", []step{all(write, grow, pack, write)}},
		{"logs grow, and then they are packed", []step{all(write, grow), pack}},
		{"a subject is erased", []step{erase}},
		{"rows that name a subject are erased", []step{named}},
		{"rows move, and before that is read they are erased", []step{write, named}},
		{"rows move, and before that is read they are packed and erased", []step{all(write, grow), all(pack, named)}},
		{"rows move, their payloads are taken out, logs are packed", []step{all(write, named, pack)}},
		{"logs are packed, then their payloads are taken out", []step{all(pack, named)}},
		{"logs are packed, and then their payloads are taken out", []step{pack, named}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, kind := range []string{"store", "export"} {
				happened := 0
				for at := 1; ; at += stride {
					b := newBench(t)
					ids := b.rows(3)
					for range 40 { // a head's log that is long enough to be packed
						b.verified(ids[1])
						b.demoted(ids[1])
					}
					b.echo(ids[0], long)
					b.make(b.maker(nil))
					m := &meddler{Driver: b.driver, page: 30, at: at}
					for _, do := range c.do {
						m.do = append(m.do, func() {
							happened++
							do(b, ids)
						})
					}
					over := b.open(m, b.keys)
					if kind == "store" {
						r, err := audit.Verify(t.Context(), over, b.options(nil))
						if err != nil || r.Entries < long {
							t.Fatalf("after %d reads: %+v %v", at, r, err)
						}
					} else {
						var out bytes.Buffer
						if err := audit.Export(t.Context(), over, &out); err != nil {
							t.Fatalf("after %d reads: %v", at, err)
						}
						r, err := audit.VerifyExport(t.Context(), &out, b.keys, b.options(nil))
						if err != nil || r.Entries < long {
							t.Fatalf("after %d reads, an export: %+v %v", at, r, err)
						}
					}
					if m.reads < at {
						break
					}
					b.holds(b.options(nil))
				}
				if happened < 3 {
					t.Fatalf("it happened in %d places only", happened)
				}
				t.Logf("%s: it happened in %d places", kind, happened)
			}
		})
	}
}

// TestNothingThatIsErasedComesBackWithPacking has an erasure of rows whose key stays
// happen between any two reads of a compaction, and the other way round.
func TestNothingThatIsErasedComesBackWithPacking(t *testing.T) {
	for _, packs := range []bool{true, false} {
		happened := 0
		for at := 1; ; at++ {
			b := newBench(t)
			ids := b.rows(3)
			for range 40 {
				b.verified(ids[1])
				b.demoted(ids[1])
			}
			b.echo(ids[0], 150)
			pack := func(s *memory.Store) {
				if _, err := s.Compact(t.Context()); err != nil {
					t.Errorf("after %d reads: %v", at, err)
				}
			}
			erase := func(s *memory.Store) {
				if c, err := s.Erase(t.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil || c.Rows != len(ids) {
					t.Errorf("after %d reads: %+v %v", at, c, err)
				}
			}
			m := &meddler{Driver: b.driver, page: 20, at: at}
			over := b.open(m, b.keys)
			first, then := pack, erase
			if !packs {
				first, then = erase, pack
			}
			m.do = []func(){func() {
				happened++
				then(b.Store)
			}}
			first(over)
			if m.reads < at {
				break
			}
			if r := b.holds(b.options(nil)); r.Erased < 4 || r.Entries < 150 {
				t.Fatalf("after %d reads: %+v", at, r)
			}
			for _, id := range ids {
				entries, err := b.History(t.Context(), id, false)
				must(t, err)
				for _, e := range entries {
					if !e.Erased && e.Kind != memory.EntryErase {
						t.Fatalf("after %d reads: entry %d of %s says why again: %q", at, e.Revision, id, e.Reason)
					}
				}
				if len(entries) < 2 {
					t.Fatalf("%d entries of %s", len(entries), id)
				}
			}
			if t.Failed() {
				return
			}
		}
		if happened < 4 {
			t.Fatalf("it happened in %d places only", happened)
		}
		t.Logf("packing first: %t: the other happened after each of %d reads", packs, happened)
	}
}

// TestAClaimThatComesBackWhileItIsErasedKeepsItsPayloads has a claim be written and come
// back between any two reads of the erasure of its row, whose data key stays. What was
// written since the erasure is no part of it.
func TestAClaimThatComesBackWhileItIsErasedKeepsItsPayloads(t *testing.T) {
	happened := 0
	for at := 1; ; at++ {
		b := newBench(t)
		d := says("customer 1", "lives in", "Oslo")
		b.echo(b.put(d), 2)
		m := &meddler{Driver: b.driver, page: 20, at: at}
		over := b.open(m, b.keys)
		m.do = []func(){func() {
			happened++
			for range 3 {
				if _, err := b.Put(t.Context(), d); err != nil && !errors.Is(err, memory.ErrErased) {
					t.Errorf("after %d reads: %v", at, err)
				}
			}
		}}
		if _, err := over.Erase(t.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil && !errors.Is(err, memory.ErrConflict) {
			t.Fatalf("after %d reads: %v", at, err)
		}
		if m.reads < at {
			break
		}
		if _, err := audit.Verify(t.Context(), b.Store, b.options(nil)); err != nil {
			t.Fatalf("after %d reads: %v", at, err)
		}
		if _, err := audit.VerifyExport(t.Context(), strings.NewReader(b.export()), b.keys, b.options(nil)); err != nil {
			t.Fatalf("after %d reads, an export: %v", at, err)
		}
	}
	if happened < 4 {
		t.Fatalf("it happened in %d places only", happened)
	}
	t.Logf("it happened in %d places", happened)
}

func TestEverythingHoldsWhileOthersWriteEraseAndPack(t *testing.T) {
	rounds := 12
	if slow {
		rounds = 4
	}
	b := newBench(t)
	over := b.open(&meddler{Driver: b.driver, page: 25}, b.keys) // many short pages
	ids := b.rows(4)
	b.echo(ids[0], 200)
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	var written, erased, packed atomic.Int64
	until := func(n *atomic.Int64, work func(i int) error) {
		others.Go(func() {
			for i := 0; i < 400 && ctx.Err() == nil; i++ { // without an end what is verified might grow faster than it is
				b.pass(time.Millisecond)
				if err := work(i); err != nil {
					t.Error(err)
					return
				}
				n.Add(1)
			}
		})
	}
	by := memory.Asserter{Principal: "ana", Model: "Sonnet", Family: "claude"}
	for writer := range 2 {
		until(&written, func(i int) error {
			d := says(fmt.Sprint("writer ", writer), "wrote", fmt.Sprint(i%50))
			d.Content.Subject, d.Subjects = fmt.Sprint("guest ", i%7), []string{fmt.Sprint("guest ", i%7)}
			if i%3 == 0 {
				d.Content.Object += fmt.Sprint(" of visitor ", i%5)
			}
			_, err := b.Put(t.Context(), d)
			if err == nil || errors.Is(err, memory.ErrErased) {
				_, err = b.Echo(t.Context(), ids[i%4], by, "run-1", "")
			}
			return err
		})
	}
	until(&erased, func(i int) error {
		subject := fmt.Sprint("guest ", i%7)
		if i%2 == 0 {
			subject = fmt.Sprint("visitor ", i%5) // only named: payloads are taken out
		}
		_, err := b.Erase(t.Context(), memory.Erasure{Subject: subject, Actor: "operator"})
		if errors.Is(err, memory.ErrConflict) {
			return nil // rows were written meanwhile
		}
		return err
	})
	until(&packed, func(int) error {
		_, err := b.Compact(t.Context())
		return err
	})
	entries := 0
	for range rounds {
		r, err := audit.Verify(t.Context(), over, b.options(nil))
		if err != nil {
			t.Error(err)
			break
		}
		var out bytes.Buffer
		must(t, audit.Export(t.Context(), over, &out))
		again, err := audit.VerifyExport(t.Context(), &out, b.keys, b.options(nil))
		if err != nil || again.Entries < r.Entries {
			t.Error(r, again, err)
			break
		}
		entries += r.Entries + again.Entries
	}
	stop()
	others.Wait()
	if r := b.holds(b.options(nil)); r.Entries == 0 || written.Load() == 0 || erased.Load() == 0 || packed.Load() == 0 {
		t.Fatal(r, written.Load(), erased.Load(), packed.Load())
	}
	t.Logf("%d entries verified beside %d writes, %d erasures and %d compactions", entries, written.Load(), erased.Load(), packed.Load())
}

func TestAClaimThatWasErasedComesBackAsANewOne(t *testing.T) {
	b := newBench(t)
	back := func() {
		id := b.put(says("customer 1", "lives in", "Oslo"))
		for i := range 3 {
			if again := b.put(says("customer 1", "lives in", "Oslo")); again != id {
				t.Fatalf("the claim is %s, and when it comes back %s", id, again)
			}
			r, err := b.Get(t.Context(), id)
			if err != nil || len(r) != 1 || r[0].Echoes.Count != i+1 {
				t.Fatalf("it came back %d times, and %+v says otherwise (%v)", i+1, r, err)
			}
		}
		b.holds(b.options(nil))
	}
	back()
	for range 2 {
		if c, err := b.Erase(t.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil || c.Rows != 1 || c.Claims != 1 {
			t.Fatal(c, err)
		}
		b.holds(b.options(nil))
		back()
	}
	if _, err := b.Rebuild(t.Context(), "operator", nil); err != nil {
		t.Fatal(err)
	}
	if r := b.holds(b.options(nil)); r.Erased != 4 { // two heads, the claim, the record of the erasure
		t.Fatalf("%+v", r)
	}
}
