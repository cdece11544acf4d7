package sqlitestore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// Synchronous says when a batch is acknowledged.
type Synchronous uint8

const (
	// Full acknowledges a batch after an fsync: it outlives a loss of power.
	Full Synchronous = iota
	// Normal leaves the fsync to the next checkpoint. A batch outlives the death
	// of the process; a loss of power may take the last ones, never half of one.
	// Not for a store whose demotions must last.
	Normal
)

// Options of [Open]. Every zero field has a usable default.
type Options struct {
	// Synchronous is Full by default.
	Synchronous Synchronous
	// ReadConns is how many reads may run at once; 0 = one for each processor, at
	// least 2 and at most 8. Each holds a cache of up to 8 MB.
	ReadConns int
	// Strict makes Open refuse, with an [*UnsafeError], a store of which Inspect has
	// a finding that is not safe. It reads the whole file.
	Strict bool
}

// applicationID marks the file as ours ("Hrsy"). Its user_version is [memory.Form].
const applicationID = 0x48727379

// schema is every table and index of a store, by name. The file must hold
// exactly these, to the letter: a trigger or a view that somebody put there
// would be a rule that nobody reads.
var schema = map[string]string{
	"tenant": `CREATE TABLE tenant (id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE) STRICT`,
	"object": `CREATE TABLE object (tenant INTEGER NOT NULL, key BLOB NOT NULL, revision INTEGER NOT NULL, data BLOB, terms BLOB, PRIMARY KEY (tenant, key)) WITHOUT ROWID, STRICT`,
	"log":    `CREATE TABLE log (tenant INTEGER NOT NULL, key BLOB NOT NULL, revision INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tenant, key, revision)) WITHOUT ROWID, STRICT`,
	"term":   `CREATE TABLE term (tenant INTEGER NOT NULL, name BLOB NOT NULL, sort BLOB NOT NULL, key BLOB NOT NULL, PRIMARY KEY (tenant, name, sort, key)) WITHOUT ROWID, STRICT`,
}

// Driver is a [memory.Driver] over one SQLite file. It is safe for concurrent
// use.
type Driver struct {
	path            string
	writer, readers *pool
	tenants         sync.Map // name to number, of tenants that are in the file
	closed          atomic.Bool
	done            chan struct{}
}

var _ memory.Driver = (*Driver)(nil)

// Open opens the store in the file at path, and makes it if there is no file or
// an empty one. The folder must exist. A new file can be read by its owner only.
//
// A file of another program gives [memory.ErrForeign] and a store of another
// schema version [memory.ErrSchema]; neither is touched. Anything else that is in
// the way, such as a folder that cannot be written, gives an error that wraps
// [memory.ErrStore] and says what it is.
func Open(ctx context.Context, path string, o *Options) (*Driver, error) {
	d, err := open(ctx, path, o)
	if err != nil {
		return nil, edge("open "+path, err)
	}
	return d, nil
}

func open(ctx context.Context, path string, o *Options) (*Driver, error) {
	var options Options
	if o != nil {
		options = *o
	}
	switch {
	case path == "":
		return nil, fmt.Errorf("%w: the path is empty", memory.ErrStore)
	case options.Synchronous > Normal:
		return nil, fmt.Errorf("%w: unknown value %d of Synchronous", memory.ErrStore, options.Synchronous)
	case options.ReadConns < 0:
		return nil, fmt.Errorf("%w: ReadConns is %d", memory.ErrStore, options.ReadConns)
	case options.ReadConns == 0:
		options.ReadConns = min(max(runtime.GOMAXPROCS(0), 2), 8)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", memory.ErrStore, err)
	}
	size, err := create(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", memory.ErrStore, err)
	}
	// The file is looked at in a mode that neither locks nor writes nor recovers.
	// It is SQLite that reads it: were it opened and closed here, the locks that
	// another handle of this process holds on it would go (POSIX).
	// (A process that was killed while it moved the log into the file leaves a first
	// page that promises more pages than there are; writable_schema, of no effect
	// otherwise here, makes SQLite read it nevertheless.)
	empty, err := settled(ctx, path, size)
	if err != nil {
		return nil, err
	}
	// A journal beside a file of ours is what a crash left while the file was made.
	if _, err := os.Stat(path + "-journal"); empty || err == nil {
		if err := initialise(ctx, dsn(path, "mode=rw", pragma("busy_timeout", "25"), pragma("synchronous", "FULL"))); err != nil {
			return nil, err
		}
	}

	common := []string{"mode=rw", "_dqs=0", pragma("busy_timeout", "25"), pragma("trusted_schema", "OFF"), pragma("cache_size", "-8192")}
	level := "FULL"
	if options.Synchronous == Normal {
		level = "NORMAL"
	}
	// secure_delete costs a transition about 0 to 5 % (Full, Normal: 0.26, 0.14 ms): it
	// zeroes cells on pages that are written anyway. Without it, what was erased would
	// lie in the file until Compact.
	// A row touches some forty pages, most of them pages of the index of terms that the
	// next rows touch too: a log of up to 32 MB gathers them, and what it holds is kept.
	write := append(common[:len(common):len(common)], "_txlock=immediate", pragma("journal_mode", "WAL"), pragma("synchronous", level),
		pragma("fullfsync", "ON"), pragma("checkpoint_fullfsync", "ON"), pragma("journal_size_limit", "67108864"), pragma("secure_delete", "ON"),
		pragma("cache_size", "-65536"), pragma("wal_autocheckpoint", "8000"))
	read := append(common[:len(common):len(common)], pragma("query_only", "ON"))

	done := make(chan struct{})
	d := &Driver{path: path, done: done, writer: newPool(dsn(path, write...), 1, done), readers: newPool(dsn(path, read...), options.ReadConns, done)}
	// Now with locks, and through the log of the file: what was seen above may
	// have been old. A transaction that may write shows that the file can be.
	err = d.change(ctx, func(c *conn) error {
		if empty, err := c.identity(ctx, objectCount); err != nil {
			return err
		} else if empty {
			return memory.ErrForeign
		}
		return c.sameSchema(ctx)
	})
	if err == nil && options.Strict {
		err = d.strict(ctx)
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

func (d *Driver) strict(ctx context.Context) error {
	found, err := d.inspect(ctx)
	if err != nil {
		return err
	}
	if unsafe := found.Unsafe(); len(unsafe) > 0 {
		return &UnsafeError{Findings: unsafe}
	}
	return nil
}

// making keeps the short life of a descriptor of our own apart from the handles
// of this process that are opened meanwhile.
var making sync.Mutex

// create makes an empty file, for its owner only, if there is none, and returns
// the size of the file that is there now.
func create(path string) (size int64, err error) {
	making.Lock()
	defer making.Unlock()
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return 0, &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	case err == nil:
		return info.Size(), nil
	case !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return 0, nil // another process was faster
	}
	if err != nil {
		return 0, err
	}
	return 0, f.Close()
}

func pragma(name, value string) string { return "_pragma=" + name + "(" + value + ")" }

func dsn(path string, params ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a volume name
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&")
}

// identify asks whose file it is.
func identify(ctx context.Context, dsn string) (empty bool, err error) {
	c, err := connect(ctx, nil, dsn)
	if err != nil {
		return false, err
	}
	empty, err = c.identity(ctx, "PRAGMA page_count")
	if closeErr := c.close(); err == nil {
		err = closeErr
	}
	return empty, err
}

// settled is identify for a file that somebody else may be making right now. A look
// without locks may see a first page that is half there, which is nobody's: then it
// looks again, as long as there is a journal, up to a quarter of a second, and once
// more when there is none.
func settled(ctx context.Context, path string, size int64) (empty bool, err error) {
	quiet := 0
	for try := 0; ; try++ {
		empty, err = identify(ctx, dsn(path, "mode=ro", "immutable=1", pragma("writable_schema", "ON")))
		if err == nil && empty && size > 0 { // SQLite takes a file of one byte for an empty one
			err = memory.ErrForeign
		}
		if err == nil || ctx.Err() != nil || try == 25 {
			return empty, err
		}
		if _, none := os.Stat(path + "-journal"); none != nil {
			if quiet++; quiet == 2 {
				return empty, err
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// initialise makes the tables in an empty file, unless somebody else just did.
// It runs before the file is in WAL mode, so that a file that has tables at all
// says in its first page whose they are.
func initialise(ctx context.Context, dsn string) error {
	c, err := connect(ctx, nil, dsn)
	if err != nil {
		return err
	}
	_, err = c.transaction(ctx, stBeginWrite, func() error {
		empty, err := c.identity(ctx, objectCount)
		if err != nil || !empty {
			return err
		}
		statements := []string{
			fmt.Sprintf("PRAGMA application_id = %d", applicationID),
			fmt.Sprintf("PRAGMA user_version = %d", memory.Form),
			schema["tenant"], schema["object"], schema["log"], schema["term"],
		}
		for _, s := range statements {
			if err := c.once(ctx, s, 0, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if closeErr := c.close(); err == nil {
		err = closeErr
	}
	return err
}

// once runs a statement that is not worth keeping.
func (c *conn) once(ctx context.Context, text string, width int, yield func(row []driver.Value) error) error {
	s, err := c.raw.Prepare(text)
	if err != nil {
		return err
	}
	defer s.Close()
	c.bind()
	if yield == nil {
		_, err := s.(statement).ExecContext(ctx, nil)
		return err
	}
	return c.rows(ctx, s.(statement), width, yield)
}

func (c *conn) number(ctx context.Context, text string) (n int64, err error) {
	err = c.once(ctx, text, 1, func(row []driver.Value) error {
		n = row[0].(int64)
		return nil
	})
	return n, err
}

// objectCount counts tables and the like. (A write transaction begins by giving
// an empty file its first page, so pages say nothing inside one.)
const objectCount = "SELECT count(*) FROM sqlite_schema"

// identity tells an empty file, one of ours, and one of somebody else apart. A
// file without marks is empty if what it counts is zero.
func (c *conn) identity(ctx context.Context, counting string) (empty bool, err error) {
	id, err := c.number(ctx, "PRAGMA application_id")
	if err != nil {
		if primary(err) == codeNotADB {
			return false, memory.ErrForeign
		}
		return false, err
	}
	version, err := c.number(ctx, "PRAGMA user_version")
	if err != nil {
		return false, err
	}
	switch {
	case id == applicationID:
		return false, memory.CheckForm(int(version))
	case id != 0 || version != 0:
		return false, memory.ErrForeign
	}
	count, err := c.number(ctx, counting)
	if err != nil {
		return false, err
	}
	if count > 0 {
		return false, memory.ErrForeign
	}
	return true, nil
}

// sameSchema verifies the schema unless it is as it was when that was done last: a
// trigger that somebody adds to the file would take back what is written.
func (c *conn) sameSchema(ctx context.Context) error {
	s, err := c.statement(stSchema)
	if err != nil {
		return err
	}
	var version int64
	c.bind()
	if err := c.rows(ctx, s, 1, func(row []driver.Value) error {
		version, _ = row[0].(int64)
		return nil
	}); err != nil {
		return err
	}
	if c.schema != nil && *c.schema == version {
		return nil
	}
	if err := c.verifySchema(ctx); err != nil {
		return err
	}
	c.schema = &version
	return nil
}

func (c *conn) verifySchema(ctx context.Context) error {
	seen := 0
	err := c.once(ctx, `SELECT name, sql, type FROM sqlite_schema`, 3, func(row []driver.Value) error {
		name, _ := row[0].(string)
		text, _ := row[1].(string)
		switch kind, _ := row[2].(string); {
		case kind == "index" && row[1] == nil: // SQLite's own, of a key
			return nil
		case kind == "table" && (name == "sqlite_sequence" || strings.HasPrefix(name, "sqlite_stat")): // and of itself
			return nil
		}
		if want, ok := schema[name]; !ok || text != want {
			return fmt.Errorf("%w: %q is not as it was made", memory.ErrSchema, name)
		}
		seen++
		return nil
	})
	if err == nil && seen != len(schema) {
		return fmt.Errorf("%w: %d of %d tables and indexes are there", memory.ErrSchema, seen, len(schema))
	}
	return err
}
