package sqlitestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/fault"
)

func TestAFileThatMayNotGrowLosesNothingAndWorksAgainLater(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t), nil)
	defer d.Close()
	// The limit is one of a connection, and a failed write may take a new one.
	limit := func() error { return d.LimitPages(t.Context(), 300) }
	fillUp(t, d, limit, func() error { return d.LimitPages(t.Context(), 1_000_000) })
}

func TestAFullDiskLosesNothingAndTheStoreWorksAgainLater(t *testing.T) {
	t.Parallel()
	dir, ok := fault.SmallDisk(t, 3<<20)
	if !ok {
		return
	}
	ballast := filepath.Join(dir, "ballast")
	write(t, ballast, make([]byte, 1<<20))
	d := open(t, filepath.Join(dir, "store.db"), nil)
	defer d.Close()
	fillUp(t, d, func() error { return nil }, func() error { return os.Remove(ballast) })
}

func TestAFileInMemoryIsUnsafe(t *testing.T) {
	t.Parallel()
	dir, ok := fault.SmallDisk(t, 3<<20)
	if !ok {
		return
	}
	if f := sqlitestore.Place(dir); f.Safe || f.Found != "tmpfs" {
		t.Errorf("the finding is %+v", f)
	}
	_, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "store.db"), &sqlitestore.Options{Strict: true})
	var unsafe *sqlitestore.UnsafeError
	if !errors.As(err, &unsafe) || len(unsafe.Findings) != 1 || unsafe.Findings[0].Found != "tmpfs" {
		t.Errorf("error is %v, want one that names the file system", err)
	}
}

// fillUp writes until there is no more space, asks that every batch is whole or
// not there, makes room, and goes on. It calls limit before each write.
func fillUp(t *testing.T, d *sqlitestore.Driver, limit, makeRoom func() error) {
	t.Helper()
	limited := func() {
		t.Helper()
		if err := limit(); err != nil {
			t.Fatal(err)
		}
	}
	const parts = 5
	content := bytes.Repeat([]byte("x"), 8000)
	batch := func(n int) (b memory.Batch, keys []string) {
		for i := range parts {
			keys = append(keys, fmt.Sprintf("%d/%d", n, i))
			b.Puts = append(b.Puts, memory.Put{Key: keys[i], Data: content, Entry: []byte("e"), Add: []memory.Term{{Name: fmt.Sprint(n), Sort: 1}}})
		}
		return b, keys
	}
	whole := func(n int, want bool) {
		t.Helper()
		_, keys := batch(n)
		objects, err := d.Get(t.Context(), "tenant", keys)
		if err != nil {
			t.Fatal(err)
		}
		hits, _, err := d.Query(t.Context(), "tenant", memory.Query{Term: fmt.Sprint(n), Limit: 100})
		if err != nil || len(hits) != parts && want || len(hits) > 0 && !want {
			t.Fatalf("batch %d has %d terms (%v)", n, len(hits), err)
		}
		for _, o := range objects {
			if (o.Revision == 1 && bytes.Equal(o.Data, content)) != want {
				t.Fatalf("%s of batch %d is at %d", o.Key, n, o.Revision)
			}
		}
	}
	written, refused := 0, 0
	for refused < 3 { // it stays full
		b, _ := batch(written)
		limited()
		switch err := d.Apply(t.Context(), "tenant", b); {
		case err == nil && written < 1000 && refused == 0:
			written++
		case err == nil:
			t.Fatalf("the disk is not full after %d batches", written)
		default:
			clean(t, err, memory.ErrFull)
			refused++
		}
	}
	if written == 0 {
		t.Fatal("nothing fits at all")
	}
	t.Logf("full after %d batches", written)
	big := make([]byte, 4<<20)
	limited()
	clean(t, d.Restore(t.Context(), "tenant", []memory.Restored{
		{Object: memory.Object{Key: "0/0", Revision: 5, Data: []byte("x")}}, {Object: memory.Object{Key: "new", Revision: 1, Data: big}},
	}), memory.ErrStore)
	limited()
	clean(t, storetest.Rewrite(t.Context(), d, "tenant", "0/0", []memory.LogEntry{{Revision: 1, Data: big}}), memory.ErrStore)
	if log, err := d.History(t.Context(), "tenant", "0/0", 0, 10); err != nil || len(log) != 1 || string(log[0].Data) != "e" {
		t.Fatalf("the log has %d entries, or another one (%v)", len(log), err)
	}
	for n := range written {
		whole(n, true)
	}
	whole(written, false)
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := makeRoom(); err != nil {
		t.Fatal(err)
	}
	b, _ := batch(written)
	apply(t, d, b)
	for n := range written + 1 {
		whole(n, true)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
