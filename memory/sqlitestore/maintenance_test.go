package sqlitestore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// holding lists the files of a store that have some bytes in them.
func holding(t *testing.T, path, canary string) (names []string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if bytes.Contains(content, []byte(canary)) {
			names = append(names, "store.db"+suffix)
		}
	}
	return names
}

func TestAfterCompactNoFileHoldsWhatWasErased(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	// Long ones, so that some lie on overflow pages, and short ones.
	erased := map[string]string{
		"an object": "canary-of-an-object-", "a large object": "canary-of-a-large-object-", "a term": "canary-of-a-term-",
		"an entry": "canary-of-an-entry-", "a removed entry": "canary-of-a-removed-entry-", "a restored object": "canary-of-a-restored-object-",
	}
	const kept = "this-stays-for-ever"
	apply(t, d, memory.Batch{Puts: []memory.Put{
		{Key: "k", Data: []byte(erased["an object"]), Entry: []byte(erased["an entry"]), Add: []memory.Term{{Name: erased["a term"], Sort: 1}}},
		{Key: "large", Data: []byte(strings.Repeat(erased["a large object"], 5000)), Entry: []byte(erased["a removed entry"])},
		{Key: "restored", Data: []byte(erased["a restored object"])},
		{Key: "kept", Data: []byte(kept), Entry: []byte(kept)},
	}})
	for i := range 50 { // neighbours that make pages split and merge
		apply(t, d, put(strings.Repeat("n", i+1), 0, strings.Repeat("x", 500)))
	}
	for what, canary := range erased {
		if len(holding(t, path, canary)) == 0 {
			t.Errorf("%s is in no file before it is erased", what)
		}
	}
	apply(t, d, memory.Batch{Puts: []memory.Put{
		{Key: "k", From: 1, Entry: []byte("erased"), Remove: []string{erased["a term"]}},
		{Key: "large", From: 1},
	}})
	for _, err := range []error{
		storetest.Rewrite(t.Context(), d, "tenant", "k", []memory.LogEntry{{Revision: 1, Data: []byte("stripped")}}),
		storetest.Rewrite(t.Context(), d, "tenant", "large", []memory.LogEntry{{Revision: 1}}),
		d.Restore(t.Context(), "tenant", []memory.Restored{{Object: memory.Object{Key: "restored"}}}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, canary := range erased {
		if len(holding(t, path, canary)) == 0 {
			t.Errorf("%s is gone before Compact: the test shows nothing", what)
		}
	}
	if err := d.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, canary := range erased {
		if names := holding(t, path, canary); len(names) > 0 {
			t.Errorf("%s is still in %v", what, names)
		}
	}
	if len(holding(t, path, kept)) == 0 {
		t.Error("what nobody erased is gone")
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
	if r := revision(t, d, "kept"); r != 1 {
		t.Errorf("what nobody touched is at %d", r)
	}
	apply(t, d, put("k", 2, "and on it goes"))
}

// The reader holds the log of the file, so that it cannot be emptied.
func TestCompactWaitsForAReaderAsLongAsItsContextLetsIt(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	apply(t, d, put("k", 0, "x"))
	db := other(t, path)
	run(t, db, "BEGIN")
	var n int
	if err := db.QueryRow("SELECT count(*) FROM object").Scan(&n); err != nil {
		t.Fatal(err)
	}
	apply(t, d, put("k", 1, "y"))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	clean(t, d.Compact(ctx), context.DeadlineExceeded)
	compacted := make(chan error, 1)
	go func() { compacted <- d.Compact(context.Background()) }()
	run(t, db, "COMMIT")
	if err := <-compacted; err != nil {
		t.Fatal(err)
	}
	if r := revision(t, d, "k"); r != 2 {
		t.Fatalf("revision is %d", r)
	}
}

func TestStrictOpensASafeStoreAndNamesWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	found, err := d.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", found)
	d.Close()
	d, err = sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Strict: true})
	if unsafe := found.Unsafe(); len(unsafe) == 0 { // a test folder may be in memory
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	_, err = sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Strict: true, Synchronous: sqlitestore.Normal})
	var unsafe *sqlitestore.UnsafeError
	if !errors.As(err, &unsafe) || unsafe.Findings[0].Name != "synchronous" || unsafe.Findings[0].Found != "NORMAL" {
		t.Fatalf("error is %v, want one that names synchronous", err)
	}
	clean(t, err, memory.ErrStore)
	if runtime.GOOS == "windows" { // it has no such modes
		return
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = sqlitestore.Open(t.Context(), path, &sqlitestore.Options{Strict: true})
	if !errors.As(err, &unsafe) || unsafe.Findings[0].Name != "permissions" || unsafe.Findings[0].Found != "0644" {
		t.Fatalf("error is %v, want one that names permissions", err)
	}
}

func TestInspectFindsADamagedFile(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	var b memory.Batch
	for i := range 1000 {
		b.Puts = append(b.Puts, memory.Put{Key: strings.Repeat("k", i+1), Data: []byte("secret")})
	}
	apply(t, d, b)
	d.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 6 * 4096; at < len(content); at++ {
		content[at] = 0xA5
	}
	write(t, path, content)
	d = open(t, path, nil)
	defer d.Close()
	found, err := d.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := found.Findings[len(found.Findings)-1]
	if last.Name != "quick_check" || last.Safe || last.Found != "damaged" {
		t.Errorf("the damage is not found: %+v", last)
	}
}
