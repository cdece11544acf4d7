package audit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/audit/witnesstest"
)

// leafOf is where a log ends now.
func (b *bench) leafOf(key string) memory.Leaf {
	b.Helper()
	for l, err := range b.Changed(b.Context(), 0) {
		if err != nil {
			b.Fatal(err)
		}
		if l.Key == key {
			return l
		}
	}
	b.Fatal("no such log")
	return memory.Leaf{}
}

func leaf(key string, revision uint64, mac byte) memory.Leaf {
	return memory.Leaf{Key: key, Revision: revision, MAC: [32]byte{mac}}
}

func acknowledged(t *testing.T, l *audit.Ledger) (out []memory.Leaf) {
	t.Helper()
	must(t, l.Acknowledged(t.Context(), func(_ memory.EntryKind, entry memory.Leaf) error {
		out = append(out, entry)
		return nil
	}))
	return out
}

func TestWhatWasAcknowledgedAndLostIsFound(t *testing.T) {
	b := newBench(t)
	w, _ := newWitness(t)
	l := w.Ledger(b.Tenant(), b.Namespace())
	ids := b.rows(4)
	b.verified(ids[0])
	b.verified(ids[1])
	b.verified(ids[2])
	b.make(b.maker(nil))
	key := memory.HeadKey(ids[1])
	evidence := "e/" + key[2:]
	before, list := b.stored(key), b.stored(evidence)
	for _, id := range ids[:3] {
		b.demoted(id)
		must(t, l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{b.leafOf(memory.HeadKey(id))}))
	}
	b.verified(ids[2]) // the store may go on
	if lost, err := l.Behind(t.Context(), b.Store); err != nil || len(lost) != 0 {
		t.Fatal(lost, err)
	}
	if r := b.holds(b.options(w)); r.Acknowledged != 3 {
		t.Fatalf("%+v", r)
	}
	// A replica that lagged takes over: the last demotion of a row is gone.
	demotion := b.leafOf(key)
	b.rewrite(key, memory.LogEntry{Revision: demotion.Revision})
	b.restore(before, list) // the list before the demotion voided its support
	if _, err := b.Verify(t.Context(), nil, nil); err != nil {
		t.Fatal("the chains alone show it:", err)
	}
	b.holds(b.options(nil))
	lost, err := l.Behind(t.Context(), b.Store)
	if err != nil || !slices.Equal(lost, []memory.Leaf{demotion}) {
		t.Fatal(lost, err)
	}
	if found := b.tampered("a lost demotion", b.options(w)); found.Key != key || found.Revision != demotion.Revision {
		t.Fatal(found)
	}
	b.again()
	t.Run("and is settled by another that makes good for it", func(t *testing.T) {
		again := leaf(key, demotion.Revision, 9)
		if err := l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{again}); !errors.Is(err, audit.ErrSuperseded) {
			t.Fatal(err)
		}
		if err := l.Settle(t.Context(), memory.EntryTransition, leaf(key, 99, 1), again); !errors.Is(err, audit.ErrSuperseded) {
			t.Fatal(err)
		}
		for range 2 { // sent twice is settled
			must(t, l.Settle(t.Context(), memory.EntryTransition, demotion, b.leafOf(key)))
		}
		if lost, err := l.Behind(t.Context(), b.Store); err != nil || len(lost) != 0 {
			t.Fatal(lost, err)
		}
	})
	t.Run("a log that is gone", func(t *testing.T) {
		must(t, l.Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{leaf("h/none", 3, 1)}))
		if lost, err := l.Behind(t.Context(), b.Store); err != nil || len(lost) != 1 {
			t.Fatal(lost, err)
		}
		b.tampered("a lost log", b.options(w))
	})
	t.Run("another entry in the place of one that the store moved on from", func(t *testing.T) {
		must(t, l.Settle(t.Context(), memory.EntryErase, leaf("h/none", 3, 1), leaf("h/none", 3, 1)))
		good := b.leafOf(memory.HeadKey(ids[2]))
		other := leaf(good.Key, good.Revision-1, 5)
		was := acknowledged(t, l)
		i := slices.IndexFunc(was, func(l memory.Leaf) bool { return l.Key == good.Key })
		must(t, l.Settle(t.Context(), memory.EntryTransition, was[i], other))
		lost, err := l.Behind(t.Context(), b.Store)
		if err != nil || !slices.Contains(lost, other) {
			t.Fatal(lost, err)
		}
	})
}

func TestAFileIsAWitness(t *testing.T) {
	witnesstest.Run(t, func(t *testing.T) func() *audit.Witness {
		w, path := newWitness(t)
		must(t, w.Close())
		return func() *audit.Witness {
			t.Helper()
			w, err := audit.OpenWitness(path)
			must(t, err)
			return w
		}
	})
}

func TestAWitnessOutlivesCrashesAndShowsDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "witness")
	w, err := audit.CreateWitness(path)
	must(t, err)
	l := w.Ledger("acme", "")
	for i := range 5 {
		must(t, l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf(fmt.Sprint("h/", i), 1, byte(i))}))
	}
	must(t, w.Close())
	must(t, w.Close())
	if err := l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/9", 1, 1)}); !errors.Is(err, audit.ErrWitness) {
		t.Fatal("closed:", err)
	}
	whole, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(whole, []byte("\n"))[:6] // the first says what the file is
	last := len(whole) - len(lines[5])
	t.Run("a last line that is half written is dropped, wherever it ends", func(t *testing.T) {
		for cut := last; cut < len(whole); cut++ {
			must(t, os.WriteFile(path, whole[:cut], 0o600))
			r, err := audit.ReadWitness(path)
			must(t, err)
			if got := acknowledged(t, r.Ledger("acme", "")); len(got) != 4 {
				t.Fatal(cut, len(got))
			}
			if err := r.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/9", 1, 1)}); !errors.Is(err, audit.ErrWitness) {
				t.Fatal("a reader wrote:", err)
			}
			must(t, r.Close())
			w, err := audit.OpenWitness(path)
			must(t, err)
			must(t, w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/4", 1, 4)}))
			must(t, w.Close())
			if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
				t.Fatalf("cut at %d: %q", cut, now)
			}
		}
	})
	t.Run("any bit that flips is found", func(t *testing.T) {
		for i := range whole {
			bad := bytes.Clone(whole)
			bad[i] ^= 2
			must(t, os.WriteFile(path, bad, 0o600))
			r, err := audit.ReadWitness(path)
			if err == nil {
				if got := acknowledged(t, r.Ledger("acme", "")); i < len(whole)-1 || len(got) != 4 {
					t.Fatal("byte", i)
				}
				must(t, r.Close()) // the end of the last line: it is half written
				continue
			}
			if !errors.Is(err, audit.ErrWitness) {
				t.Fatal(err)
			}
		}
	})
	t.Run("a file that is cut, taken away or not there", func(t *testing.T) {
		must(t, os.WriteFile(path, whole, 0o600))
		w, err := audit.OpenWitness(path)
		must(t, err)
		defer w.Close()
		must(t, os.Truncate(path, int64(last)))
		if err := w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/9", 1, 1)}); !errors.Is(err, audit.ErrWitness) {
			t.Fatal("cut:", err)
		}
		must(t, os.Remove(path))
		if err := w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{leaf("h/9", 1, 1)}); !errors.Is(err, audit.ErrWitness) {
			t.Fatal("taken away:", err)
		}
		if _, err := audit.ReadWitness(path); !errors.Is(err, audit.ErrWitness) {
			t.Fatal("not there:", err)
		}
	})
	t.Run("one that is gone or was emptied is not made anew unasked, not even under an open handle", func(t *testing.T) {
		wanted := []memory.Leaf{leaf("h/9", 1, 1)}
		must(t, os.WriteFile(path, whole, 0o600))
		w, err := audit.OpenWitness(path)
		must(t, err)
		defer w.Close()
		must(t, os.Remove(path))
		if _, err := audit.OpenWitness(path); !errors.Is(err, audit.ErrWitness) || !errors.Is(err, fs.ErrNotExist) {
			t.Fatal("gone:", err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal("opening it made it:", err)
		}
		for _, left := range [][]byte{nil, lines[0][:len(lines[0])-1]} {
			must(t, os.WriteFile(path, left, 0o600))
			for name, open := range map[string]func(string) (*audit.Witness, error){"read": audit.ReadWitness, "open": audit.OpenWitness, "create": audit.CreateWitness} {
				if _, err := open(path); !errors.Is(err, audit.ErrWitness) {
					t.Fatalf("emptied, %s: %v", name, err)
				}
			}
			if err := w.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryTransition, wanted); !errors.Is(err, audit.ErrWitness) {
				t.Fatal("emptied under an open handle:", err)
			}
		}
		must(t, os.WriteFile(path, whole, 0o600))
		if _, err := audit.CreateWitness(path); !errors.Is(err, audit.ErrWitness) || !errors.Is(err, fs.ErrExist) {
			t.Fatal("over another one:", err)
		}
		if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, whole) {
			t.Fatalf("it was changed: %q, %v", now, err)
		}
	})
	t.Run("one of a later release is refused", func(t *testing.T) {
		text := `{"hearsay_witness":2}`
		must(t, os.WriteFile(path, fmt.Appendf(nil, "%08x %s\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)), text), 0o600))
		if _, err := audit.OpenWitness(path); !errors.Is(err, audit.ErrWitness) || !strings.Contains(err.Error(), "later release") {
			t.Fatal(err)
		}
	})
}

func TestManyHandlesShareAWitnessThroughItsCompactions(t *testing.T) {
	_, path := newWitness(t)
	const handles, callers, rounds = 3, 8, 300
	var wg sync.WaitGroup
	for h := range handles {
		l := openWitness(t, path).Ledger("acme", "")
		for c := range callers {
			wg.Go(func() {
				for r := range rounds {
					leaves := []memory.Leaf{leaf(fmt.Sprintf("h/%d.%d", h, c), uint64(r+1), byte(r)), leaf(fmt.Sprintf("h/%d", h), uint64(r+1), byte(r))}
					if err := l.Acknowledge(t.Context(), memory.EntryTransition, leaves); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	got := acknowledged(t, openWitness(t, path).Ledger("acme", ""))
	if len(got) != handles*callers+handles {
		t.Fatal(len(got))
	}
	for _, l := range got {
		if l.Revision != rounds {
			t.Fatal(l)
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	left, err := filepath.Glob(path + ".*")
	must(t, err)
	if info.Size() > 3<<20 || len(left) > 0 {
		t.Fatal(info.Size(), left)
	}
	t.Logf("%d acknowledgements, %d bytes", handles*callers*rounds, info.Size())
}

func TestAWitnessIsMadeSmallAgain(t *testing.T) {
	b := newBench(t)
	w, path := newWitness(t)
	other := openWitness(t, path)
	b.rows(1)
	b.make(b.maker(&audit.MakerOptions{Witness: w}))
	l := w.Ledger("acme", "")
	const keys, rounds = 3000, 10
	for r := range rounds {
		var leaves []memory.Leaf
		for i := range keys {
			leaves = append(leaves, leaf(fmt.Sprint("h/", i), uint64(r+1), byte(i)))
		}
		must(t, l.Acknowledge(t.Context(), memory.EntryTransition, leaves))
		if r == rounds/2 { // a handle whose file has gone from under it
			must(t, other.Ledger("acme", "").Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{leaf("h/other", 1, 1)}))
		}
	}
	info, err := os.Stat(path)
	must(t, err)
	line := int64(130) // at least, for each entry
	if written := keys * rounds * line; info.Size() > written/2 {
		t.Fatalf("%d bytes of %d are left", info.Size(), written)
	}
	for _, l := range []*audit.Ledger{l, other.Ledger("acme", ""), openWitness(t, path).Ledger("acme", "")} {
		got := acknowledged(t, l)
		if len(got) != keys+1 {
			t.Fatal(len(got))
		}
		for _, e := range got {
			if e.Revision != rounds && e.Key != "h/other" {
				t.Fatal(e)
			}
		}
	}
	if r := b.holds(b.options(other)); r.Witnessed != 1 {
		t.Fatalf("%+v", r)
	}
}

func TestACrashBetweenStoreAndWitness(t *testing.T) {
	t.Run("the store has the checkpoint, the witness does not: it is shown to it later", func(t *testing.T) {
		b := newBench(t)
		w, _ := newWitness(t)
		b.rows(3)
		b.make(b.maker(&audit.MakerOptions{Witness: w}))
		b.rows(3)
		b.make(b.maker(nil)) // and dies before it tells
		if r := b.holds(b.options(w)); r.Witnessed != 1 || r.Checkpoints != 2 {
			t.Fatalf("%+v", r)
		}
		b.make(b.maker(&audit.MakerOptions{Witness: w})) // nothing new to commit to
		if r := b.holds(b.options(w)); r.Witnessed != 2 {
			t.Fatalf("%+v", r)
		}
	})
	t.Run("the witness has it, the store lost it: that is a rollback", func(t *testing.T) {
		b := newBench(t)
		w, _ := newWitness(t)
		m := b.maker(&audit.MakerOptions{Witness: w})
		b.rows(3)
		b.make(m)
		head := b.stored("s/checkpoint")
		b.rows(3)
		b.make(m)
		b.restore(head, memory.Restored{Object: memory.Object{Key: "p/0000000000000002"}})
		if _, err := m.Make(t.Context()); !errors.Is(err, memory.ErrBehind) {
			t.Fatal("a maker that met it newer:", err)
		}
		b.again()
		b.holds(b.options(nil))
		if _, err := audit.Verify(t.Context(), b.Store, b.options(w)); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
		if _, err := b.maker(&audit.MakerOptions{Witness: w}).Make(t.Context()); !errors.Is(err, audit.ErrRollback) {
			t.Fatal(err)
		}
	})
	t.Run("an entry is acknowledged only once it is on the disk of the witness", func(t *testing.T) {
		b := newBench(t)
		w, path := newWitness(t)
		id := b.rows(1)[0]
		b.verified(id)
		l := w.Ledger(b.Tenant(), b.Namespace())
		b.demoted(id) // and dies before it tells the witness: nobody was told
		if lost, err := l.Behind(t.Context(), b.Store); err != nil || len(lost) != 0 {
			t.Fatal(lost, err)
		}
		must(t, l.Acknowledge(t.Context(), memory.EntryTransition, []memory.Leaf{b.leafOf(memory.HeadKey(id))}))
		if got := acknowledged(t, openWitness(t, path).Ledger(b.Tenant(), b.Namespace())); len(got) != 1 {
			t.Fatal(got)
		}
	})
}

func TestServeGoesOnAfterFaultsAndEndsWithItsContext(t *testing.T) {
	b := newBench(t)
	d := &failing{Driver: b.driver, err: memory.ErrStore}
	s := b.open(d, b.keys)
	b.rows(3)
	faults := make(chan error, 100)
	m, err := audit.NewMaker(s, b.key, origin, &audit.MakerOptions{Report: func(err error) {
		select {
		case faults <- err:
		default:
		}
	}})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- m.Serve(ctx, time.Millisecond) }()
	if err := <-faults; !errors.Is(err, memory.ErrStore) {
		t.Error(err)
	}
	d.set(nil)
	for {
		c, err := b.LastCheckpoint(t.Context())
		if err != nil || c.Index == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := m.Serve(t.Context(), 0); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
}

// failing is a driver that cannot be reached.
type failing struct {
	memory.Driver
	mu  sync.Mutex
	err error
}

func (d *failing) set(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *failing) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return nil, d.err
	}
	return d.Driver.Get(ctx, tenant, keys)
}

func TestKeysOfCheckpointsAreReadAndWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.key")
	k, err := audit.WriteKey(path, "acme.example/1")
	must(t, err)
	if _, err := audit.WriteKey(path, "acme.example/1"); !errors.Is(err, os.ErrExist) || !errors.Is(err, audit.ErrKey) {
		t.Fatal("overwrote a key:", err)
	}
	again, err := audit.ReadKey(path)
	must(t, err)
	if again.Public() != k.Public() || again.Name() != "acme.example/1" {
		t.Fatal(again.Public())
	}
	text, err := os.ReadFile(path)
	must(t, err)
	t.Setenv("AUDIT_KEY", string(text))
	if k, err := audit.KeyFromEnv("AUDIT_KEY"); err != nil || k.Public() != again.Public() {
		t.Fatal(err)
	}
	list, err := audit.ParseVerifiers("# ours\n" + k.Public() + "\n\n" + newKey(t, "old").Public() + " until 7\n")
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	must(t, os.Chmod(path, 0o644))
	for name, try := range map[string]func() error{
		"a file that others can read": func() error { _, err := audit.ReadKey(path); return err },
		"no file":                     func() error { _, err := audit.ReadKey(path + ".none"); return err },
		"no variable":                 func() error { _, err := audit.KeyFromEnv("AUDIT_KEY_NONE"); return err },
		"a public key for a private":  func() error { _, err := audit.ParseKey(k.Public()); return err },
		"a private key for a public":  func() error { _, err := audit.ParseVerifiers(string(text)); return err },
		"a key that is cut":           func() error { _, err := audit.ParseKey(string(text[:len(text)-9])); return err },
		"no verifiers":                func() error { _, err := audit.ParseVerifiers("# none\n"); return err },
		"a key that is retired in another line": func() error {
			_, err := audit.ParseVerifiers(k.Public() + "\n" + k.Public() + " until 7\n")
			return err
		},
		"half a retirement":         func() error { _, err := audit.ParseVerifiers(k.Public() + " until"); return err },
		"a retirement at no number": func() error { _, err := audit.ParseVerifiers(k.Public() + " until x"); return err },
		"a name with blanks":        func() error { _, _, err := audit.NewKey("a b"); return err },
		"no file of verifiers":      func() error { _, err := audit.ReadVerifiers(path + ".none"); return err },
		"a maker without its verifier": func() error {
			b := newBench(t)
			_, err := audit.NewMaker(b.Store, b.key.Signer, origin, nil)
			return err
		},
	} {
		if err := try(); !errors.Is(err, audit.ErrKey) || bytes.Contains([]byte(err.Error()), bytes.TrimSpace(text)[30:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b := newBench(t)
	if _, err := audit.NewMaker(b.Store, b.key, "a b", nil); !errors.Is(err, memory.ErrInvalid) {
		t.Error(err)
	}
	b.rows(1)
	b.make(b.maker(nil))
	if m, err := audit.NewMaker(b.Store, b.key, "other.example", nil); err != nil {
		t.Error(err)
	} else if _, err := m.Make(t.Context()); !errors.Is(err, memory.ErrInvalid) {
		t.Error("the origin changed:", err)
	}
}

// TestACompactedWitnessStaysLocked: of many entries that one call tells, some line makes
// the file small again, and the others go to the new one. Another process that finds the
// new file must wait for them.
func TestACompactedWitnessStaysLocked(t *testing.T) {
	w, path := newWitness(t)
	other := openWitness(t, path).Ledger("", "")
	ctx, cancel := context.WithCancel(t.Context())
	told := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			if err := other.Acknowledge(t.Context(), memory.EntryErase, []memory.Leaf{leaf(fmt.Sprintf("x/%05d", n), 1, 1)}); err != nil {
				t.Error(err)
				break
			}
		}
		told <- n
	}()
	many := make([]memory.Leaf, 0, 20_000) // one line is 2,000 of them
	for i := range cap(many) {
		many = append(many, leaf(fmt.Sprintf("h/%05d", i), 1, 1))
	}
	if err := w.Ledger("", "").Acknowledge(t.Context(), memory.EntryErase, many); err != nil {
		t.Error(err)
	}
	cancel()
	n := <-told
	if have := acknowledged(t, openWitness(t, path).Ledger("", "")); len(have) != len(many)+n {
		t.Errorf("%d entries were acknowledged, and %d are there", len(many)+n, len(have))
	}
}
