package sqlitestore_test

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// other opens a file as another program would.
func other(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// refused asks that Open gives an error with a sentinel, without driver text, and
// leaves every file of the folder as it was.
func refused(t *testing.T, path string, want error) error {
	t.Helper()
	before := files(t, filepath.Dir(path))
	d, err := sqlitestore.Open(t.Context(), path, nil)
	if err == nil {
		d.Close()
	}
	clean(t, err, want)
	if after := files(t, filepath.Dir(path)); !slices.Equal(before, after) {
		t.Fatalf("refused with %v, but the files were touched:\n%.300q\n%.300q", err, before, after)
	}
	return err
}

func clean(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want one that is %q", err, want)
	}
	for _, w := range []string{"SQL", "sqlite3", "constraint", "SELECT", "INSERT"} {
		if strings.Contains(err.Error(), w) {
			t.Fatalf("error %q has driver text in it (%q)", err, w)
		}
	}
}

func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		content, _ := os.ReadFile(filepath.Join(dir, e.Name()))
		list = append(list, e.Name()+"\n"+string(content))
	}
	return list
}

func put(key string, from uint64, content string) memory.Batch {
	return memory.Batch{Puts: []memory.Put{{Key: key, From: from, Data: []byte(content), Entry: []byte(content), Add: []memory.Term{{Name: "t", Sort: from}}}}}
}

func apply(t *testing.T, d memory.Driver, b memory.Batch) {
	t.Helper()
	if err := d.Apply(t.Context(), "tenant", b); err != nil {
		t.Fatal(err)
	}
}

func revision(t *testing.T, d memory.Driver, key string) uint64 {
	t.Helper()
	objects, err := d.Get(t.Context(), "tenant", []string{key})
	if err != nil {
		t.Fatal(err)
	}
	return objects[0].Revision
}

func TestAFileOfAnotherProgramIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(t *testing.T, path string){
		"a database with tables": func(t *testing.T, path string) {
			db := other(t, path)
			run(t, db, "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')")
			db.Close()
		},
		"a database in WAL mode that is still open": func(t *testing.T, path string) {
			run(t, other(t, path), "PRAGMA journal_mode = WAL", "CREATE TABLE notes (text)", "INSERT INTO notes VALUES ('mine')")
		},
		"a database without tables": func(t *testing.T, path string) {
			db := other(t, path)
			run(t, db, "CREATE TABLE notes (text)", "DROP TABLE notes", "VACUUM")
			db.Close()
		},
		"a database of another application": func(t *testing.T, path string) {
			db := other(t, path)
			run(t, db, "PRAGMA application_id = 1234", "PRAGMA user_version = 1")
			db.Close()
		},
		"a database with our tables but not our mark": func(t *testing.T, path string) {
			open(t, path, nil).Close()
			db := other(t, path)
			run(t, db, "PRAGMA application_id = 0")
			db.Close()
		},
		"a text":          func(t *testing.T, path string) { write(t, path, bytes.Repeat([]byte("Dear diary. "), 1000)) },
		"a short text":    func(t *testing.T, path string) { write(t, path, []byte("x")) },
		"a file of zeros": func(t *testing.T, path string) { write(t, path, make([]byte, 8192)) },
		"a beheaded store": func(t *testing.T, path string) {
			write(t, path, []byte("SQLite format 4\x00"+strings.Repeat("x", 5000)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fresh(t)
			make(t, path)
			refused(t, path, memory.ErrForeign)
		})
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAStoreOfAnotherSchemaIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"a trigger":               "CREATE TRIGGER sly AFTER INSERT ON log BEGIN DELETE FROM log; END",
		"a view":                  "CREATE VIEW sly AS SELECT 1",
		"one more table":          "CREATE TABLE more (x)",
		"one more index":          "CREATE INDEX more ON log (revision)",
		"a table less":            "DROP TABLE log",
		"a table of other making": "ALTER TABLE object ADD COLUMN extra BLOB",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fresh(t)
			d := open(t, path, nil)
			apply(t, d, put("k", 0, "x"))
			d.Close()
			db := other(t, path)
			run(t, db, change)
			db.Close()
			refused(t, path, memory.ErrSchema)
		})
	}
	hidden := func(db *sql.DB) {
		const sly = "CREATE TRIGGER sqlite_sly AFTER INSERT ON log BEGIN DELETE FROM log; END"
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, change := range []string{"PRAGMA writable_schema = ON", "INSERT INTO sqlite_schema VALUES ('trigger', 'sqlite_sly', 'log', 0, '" + sly + "')", "PRAGMA schema_version = 99"} {
			if _, err := c.ExecContext(t.Context(), change); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("a trigger of a reserved name", func(t *testing.T) {
		t.Parallel()
		path := fresh(t)
		open(t, path, nil).Close()
		db := other(t, path)
		hidden(db)
		db.Close()
		refused(t, path, memory.ErrSchema)
	})
	for name, change := range map[string]func(db *sql.DB){
		"a trigger of a reserved name": hidden,
		"a trigger": func(db *sql.DB) {
			run(t, db, "CREATE TRIGGER sly AFTER INSERT ON log BEGIN DELETE FROM log; END")
		},
	} {
		t.Run(name+" that is added while the store is open", func(t *testing.T) {
			t.Parallel()
			path := fresh(t)
			d := open(t, path, nil)
			apply(t, d, put("k", 0, "x"))
			db := other(t, path)
			change(db)
			db.Close()
			for range 2 {
				if err := d.Apply(t.Context(), "tenant", put("k", 1, "y")); !errors.Is(err, memory.ErrSchema) {
					t.Fatalf("it was written to: %v", err)
				}
			}
		})
	}
	t.Run("a later form that is still in the log of the file", func(t *testing.T) {
		t.Parallel()
		path := fresh(t)
		open(t, path, nil).Close()
		db := other(t, path)
		run(t, db, fmt.Sprint("PRAGMA user_version = ", memory.Form+1)) // the open handle keeps it from the file
		_, err := sqlitestore.Open(t.Context(), path, nil)
		clean(t, err, memory.ErrSchema)
		var version int
		if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != memory.Form+1 {
			t.Fatalf("version is %d now (%v)", version, err)
		}
	})
}

func TestAStoreOfAnotherFormIsRefused(t *testing.T) {
	t.Parallel()
	storetest.RunForm(t, func(t *testing.T) (func() (memory.Driver, error), func(int)) {
		path := fresh(t)
		return func() (memory.Driver, error) { return sqlitestore.Open(t.Context(), path, nil) }, func(form int) {
			db := other(t, path)
			run(t, db, fmt.Sprint("PRAGMA user_version = ", form))
			db.Close()
		}
	})
}

func TestAPathThatCannotBeAStoreGivesAClearError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, []byte("x"))
	clean(t, refused(t, dir, memory.ErrStore), memory.ErrStore)
	for path, word := range map[string]string{
		"":                                     "path is empty",
		dir:                                    "not a regular file",
		filepath.Join(dir, "no", "such", "f"):  "no such file or directory",
		filepath.Join(file, "below a file"):    "not a directory",
		filepath.Join(dir, "nul\x00character"): "invalid argument",
	} {
		if runtime.GOOS == "windows" {
			word = ""
		}
		_, err := sqlitestore.Open(t.Context(), path, nil)
		clean(t, err, memory.ErrStore)
		if !strings.Contains(err.Error(), word) {
			t.Errorf("path %q: error is %v, want it to say %q", path, err, word)
		}
	}
	_, err := sqlitestore.Open(t.Context(), filepath.Join(dir, "no", "such"), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v, want one that is fs.ErrNotExist", err)
	}
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []sqlitestore.Options{{ReadConns: -1}, {Synchronous: 2}} {
		path := fresh(t)
		_, err := sqlitestore.Open(t.Context(), path, &o)
		clean(t, err, memory.ErrStore)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: a file was made", o)
		}
	}
}

func TestOpenWithACancelledContextMakesNoFile(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := fresh(t)
	_, err := sqlitestore.Open(ctx, path, nil)
	clean(t, err, context.Canceled)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a file was made")
	}
}

func TestAnyNameOfAFileWorks(t *testing.T) {
	t.Parallel()
	names := []string{"plain", "with space.db", "a+b", "100%", "%41", "a#b", "a&b=c", ":memory:", "file:x", "caf\u00e9", "a;b", "quote'\".db", "-dash"}
	if runtime.GOOS != "windows" {
		names = append(names, "a?mode=memory", "back\\slash", "tab\t", "?", "\xff")
	}
	dir := t.TempDir()
	for i, name := range names {
		d := open(t, filepath.Join(dir, name), nil)
		apply(t, d, put("k", 0, fmt.Sprint(i)))
		d.Close()
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("no file of the name %q: %v", name, err)
		}
	}
	for i, name := range names {
		d := open(t, filepath.Join(dir, name), nil)
		objects, err := d.Get(t.Context(), "tenant", []string{"k"})
		if err != nil || string(objects[0].Data) != fmt.Sprint(i) {
			t.Errorf("%q holds %v (%v)", name, objects, err)
		}
		d.Close()
	}
	if n := len(files(t, dir)); n != len(names) {
		t.Errorf("%d files for %d stores after close", n, len(names))
	}
}

func TestARelativePathIsTakenFromTheWorkingFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	open(t, "here.db", nil).Close()
	if _, err := os.Stat(filepath.Join(dir, "here.db")); err != nil {
		t.Fatal(err)
	}
}

func TestANewFileIsTheOwnersOnly(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return
	}
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	apply(t, d, put("k", 0, "x"))
	for _, suffix := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(path)+suffix, info.Mode())
		}
	}
}

func TestAnEmptyFileBecomesAStore(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	write(t, path, nil)
	d := open(t, path, nil)
	defer d.Close()
	apply(t, d, put("k", 0, "x"))
}

func TestManyCanMakeOneFileAtOnce(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := fresh(t)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() {
				d, err := sqlitestore.Open(t.Context(), path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer d.Close()
				if err := d.Apply(t.Context(), "tenant", put(fmt.Sprint(i), 0, "x")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		d := open(t, path, nil)
		hits, _, err := d.Query(t.Context(), "tenant", memory.Query{Term: "t", Limit: 100})
		if err != nil || len(hits) != 12 {
			t.Errorf("%d of 12 writes are there (%v)", len(hits), err)
		}
		d.Close()
	}
}

func TestAReaderHoldsUpTheMakingOfAStoreAndDoesNotEndIt(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	write(t, path, nil)
	reader, err := other(t, path).Begin()
	if err != nil {
		t.Fatal(err)
	}
	var n int
	read := "SELECT count(*) FROM sqlite_schema"
	if err := reader.QueryRow(read).Scan(&n); err != nil {
		t.Fatal(err)
	}
	opened, refused := make(chan error, 1), make(chan struct{})
	go func() {
		d, err := sqlitestore.Open(waiting{t.Context(), refused}, path, nil)
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	// A commit that waits lets no new reader in.
	second, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for end := time.Now().Add(time.Minute); second.QueryRow(read).Scan(&n) == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no commit waits")
		}
	}
	select {
	case <-refused: // SQLite has given up once
	case err := <-opened:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the commit was not refused")
	}
	if err := reader.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestAFileWhoseFirstPageIsHalfThereIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	whole := fresh(t)
	open(t, whole, nil).Close()
	data, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	path := fresh(t)
	half := slices.Clone(data)
	clear(half[60:100]) // whose it is
	write(t, path, half)
	write(t, path+"-journal", nil)
	looks := 0
	d, err := sqlitestore.Open(asking{t.Context(), func() { // a look saw what is half there
		if looks++; looks == 2 {
			_ = os.WriteFile(path, data, 0o600)
			_ = os.Remove(path + "-journal")
		}
	}}, path, nil)
	if err != nil || looks != 2 {
		t.Fatalf("after %d looks: %v", looks, err)
	}
	defer d.Close()
	apply(t, d, put("k", 0, "x"))
}

// asking is a context that tells when Open asks it whether to look again.
type asking struct {
	context.Context
	told func()
}

func (a asking) Err() error {
	if pc, _, _, ok := runtime.Caller(1); ok && strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".settled") {
		a.told()
	}
	return a.Context.Err()
}

// waiting is a context that tells whoever listens when a pause asks it for its end.
type waiting struct {
	context.Context
	told chan struct{}
}

func (w waiting) Done() <-chan struct{} {
	if pc, _, _, ok := runtime.Caller(1); ok && strings.HasSuffix(runtime.FuncForPC(pc).Name(), ".pause") {
		select {
		case w.told <- struct{}{}:
		default:
		}
	}
	return w.Context.Done()
}

func TestAWriteWaitsForTheLockOfAnotherAsLongAsItsContextLetsIt(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	apply(t, d, put("k", 0, "x"))
	db := other(t, path)
	run(t, db, "BEGIN IMMEDIATE")

	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	clean(t, d.Apply(ctx, "tenant", put("k", 1, "y")), context.DeadlineExceeded)
	if r := revision(t, d, "k"); r != 1 { // and a read does not wait
		t.Fatalf("revision is %d", r)
	}

	waited := make(chan error, 1)
	go func() { waited <- d.Apply(context.Background(), "tenant", put("k", 1, "z")) }()
	for range 50 { // reads go on meanwhile
		if r := revision(t, d, "k"); r != 1 {
			t.Fatalf("revision is %d", r)
		}
	}
	run(t, db, "ROLLBACK")
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if r := revision(t, d, "k"); r != 2 {
		t.Fatalf("revision is %d", r)
	}
}

func TestOpenWaitsForTheLockOfAnotherAsLongAsItsContextLetsIt(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	open(t, path, nil).Close()
	db := other(t, path)
	run(t, db, "BEGIN IMMEDIATE")
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	_, err := sqlitestore.Open(ctx, path, nil)
	clean(t, err, context.DeadlineExceeded)
	run(t, db, "ROLLBACK")
	open(t, path, nil).Close()
}

func TestADamagedFileIsAnErrorWithoutDriverText(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	var b memory.Batch
	for i := range 1000 {
		b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprint(i), Data: bytes.Repeat([]byte("secret"), 50), Entry: []byte("e"), Add: []memory.Term{{Name: "t", Sort: uint64(i)}}})
	}
	apply(t, d, b)
	if err := d.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.Close()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := 5 * 4096; at < len(content); at++ { // the schema and the roots stay
		content[at] = 0xA5
	}
	write(t, path, content)

	d = open(t, path, nil)
	defer d.Close()
	clean(t, d.Check(t.Context()), memory.ErrStore)
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint(i))
	}
	objects, err := d.Get(t.Context(), "tenant", keys)
	clean(t, err, memory.ErrStore)
	if objects != nil {
		t.Error("a part beside an error")
	}
	_, _, err = d.Query(t.Context(), "tenant", memory.Query{Term: "t", Limit: 1000})
	clean(t, err, memory.ErrStore)
	clean(t, d.Apply(t.Context(), "tenant", put("5", 1, "x")), memory.ErrStore)
	if !strings.Contains(err.Error(), "the file is damaged") {
		t.Errorf("error is %v, want it to say that the file is damaged", err)
	}
}

func TestCheckFindsWhatBelongsToNoObject(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"an orphaned entry":     "DELETE FROM object WHERE key = x'6b'",
		"an entry ahead of it":  "UPDATE log SET revision = 9",
		"a term without object": "UPDATE term SET key = x'00'",
		"a short sort":          "UPDATE term SET sort = x'00'",
		"no revision":           "UPDATE object SET revision = 0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := fresh(t)
			d := open(t, path, nil)
			defer d.Close()
			apply(t, d, put("k", 0, "x"))
			if err := d.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			run(t, other(t, path), change)
			clean(t, d.Check(t.Context()), memory.ErrStore)
		})
	}
}

func TestCheckOfAClosedStoreOrWithACancelledContextSaysSo(t *testing.T) {
	t.Parallel()
	d := open(t, fresh(t), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	clean(t, d.Check(ctx), context.Canceled)
	d.Close()
	clean(t, d.Check(t.Context()), memory.ErrClosed)
}

func TestCloseEndsTheWaitForLocks(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	run(t, other(t, path), "BEGIN IMMEDIATE")
	const writers = 3 // one has the writer and waits for the lock, the others wait for the writer
	waiting := make(chan error, writers)
	for i := range writers {
		go func() { waiting <- d.Apply(context.Background(), "tenant", put(fmt.Sprint(i), 0, "x")) }()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	clean(t, d.Apply(ctx, "tenant", put("late", 0, "x")), context.DeadlineExceeded)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for range writers {
		clean(t, <-waiting, memory.ErrClosed)
	}
}

func TestTwoProcessesCanWriteOneFile(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childPath+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	theirs, lines := 0, bufio.NewScanner(out)
	for i := range uint64(40) { // each of ours beside one of theirs
		apply(t, d, put("ours", i, "x"))
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), "acknowledged ") {
			t.Fatalf("the child says %q", lines.Text())
		}
		theirs++
		objects, err := d.Get(t.Context(), killTenant, []string{"counter/0", "counter/1", "counter/2"})
		if err != nil {
			t.Fatal(err)
		}
		if seen := objects[0].Revision + objects[1].Revision + objects[2].Revision; seen < uint64(theirs) {
			t.Fatalf("%d of their batches can be seen, they have %d", seen, theirs)
		}
	}
	if r := revision(t, d, "ours"); r != 40 {
		t.Fatalf("ours is at %d", r)
	}
}

// A checkpoint writes the first page first. Whoever is killed right after leaves a
// file that promises more pages than it has; the rest is in its log.
func TestAFileLeftInTheMiddleOfACheckpointOpens(t *testing.T) {
	t.Parallel()
	path := fresh(t)
	d := open(t, path, nil)
	defer d.Close()
	apply(t, d, put("k", 0, strings.Repeat("x", 100_000)))
	left := fresh(t)
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix == "" {
			content[30], content[31] = 1, 0 // 256 pages
		}
		write(t, left+suffix, content)
	}
	again := open(t, left, nil)
	defer again.Close()
	if r := revision(t, again, "k"); r != 1 {
		t.Fatalf("revision is %d", r)
	}
	if err := again.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
}
