package keyring

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"modernc.org/sqlite"
)

// application is what SQLite's application_id is in a file of ours: "HrsK".
const application = 0x4872734b

const (
	// idleFor is how long a file stays open that nobody uses.
	idleFor = 100 * time.Millisecond
	// connections is how many may read the file at once.
	connections = 4
	// scrubPatience is how long a look of another process at the log may hold Scrub up.
	scrubPatience = 10 * time.Second
)

// inFile is the backend of a ring in a SQLite file. It holds the file open while it is
// used and for a moment after, so that nobody has to close it.
type inFile struct {
	disk *folder
	path string
	tx   func(Tx) Tx // in tests; nil = as it is

	mu   sync.Mutex
	file *opened
}

// opened is an open file, with how many use it.
type opened struct {
	db    *sql.DB
	info  fs.FileInfo
	users int
	idle  *time.Timer
	stale bool // another file is in its place
}

func (b *inFile) String() string { return b.disk.dir }
func (b *inFile) Holder() string { return "" }

// take opens the file, or the one that is in its place now.
func (b *inFile) take() (*opened, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := b.disk.stat(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &FileError{Path: b.path, Err: fmt.Errorf("%w: it is gone", ErrDamaged), Fix: "bring the folder back as a whole"}
	}
	if err != nil {
		return nil, err
	}
	if b.file != nil && !os.SameFile(b.file.info, info) {
		b.file.stale = true
		b.release(b.file)
		b.file = nil
	}
	if b.file == nil {
		if info.Size() == 0 {
			return nil, &FileError{Path: b.path, Err: fmt.Errorf("%w: it is empty", ErrDamaged)}
		}
		db, err := b.connect("mode=rw", "_pragma=journal_mode(WAL)")
		if err == nil {
			err = identify(db)
			if err != nil {
				err = errors.Join(err, db.Close())
			}
		}
		if err != nil {
			return nil, b.edge(err)
		}
		b.file = &opened{db: db, info: info}
	}
	b.file.users++
	if b.file.idle != nil {
		b.file.idle.Stop()
	}
	return b.file, nil
}

func (b *inFile) give(f *opened) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f.users--
	b.release(f)
}

// release closes a file that nobody uses: at once if another is in its place, else
// after a moment.
func (b *inFile) release(f *opened) {
	switch {
	case f.users > 0:
	case f.stale:
		_ = f.db.Close()
	case f.idle == nil:
		f.idle = time.AfterFunc(idleFor, func() { b.shut(f) })
	default:
		f.idle.Reset(idleFor)
	}
}

func (b *inFile) shut(f *opened) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if f.users == 0 && b.file == f {
		_ = f.db.Close() // what was committed is on disk
		b.file = nil
	}
}

// Close closes the file, if nobody uses it.
func (b *inFile) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file == nil || b.file.users > 0 {
		return nil
	}
	if b.file.idle != nil {
		b.file.idle.Stop()
	}
	err := b.file.db.Close()
	b.file = nil
	return b.edge(err)
}

func (b *inFile) connect(params ...string) (*sql.DB, error) {
	params = append([]string{"_pragma=busy_timeout(5)", "_pragma=synchronous(FULL)", "_pragma=secure_delete(ON)", "_pragma=temp_store(MEMORY)", "_txlock=immediate"}, params...)
	path := filepath.ToSlash(b.path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // of a drive
	}
	connector, err := sqlite.NewConnector("file://" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&"))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// identify refuses a file of another program or version.
func identify(db *sql.DB) error {
	var app, version int64
	err := patiently(background, func() error {
		return db.QueryRow(`SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version)`).Scan(&app, &version)
	})
	switch {
	case err != nil:
		return err
	case app != application:
		return memory.ErrForeign
	case version > SchemaVersion:
		return memory.ErrSchema
	case version != SchemaVersion:
		return ErrDamaged
	}
	return nil
}

// found makes the file, with the tables in it.
func (b *inFile) found() error {
	err := b.disk.write(b.path, nil)
	if err != nil {
		return err
	}
	return b.disk.do("found", b.path, func() (err error) {
		db, err := b.connect("mode=rw")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		for _, text := range append([]string{
			fmt.Sprintf(`PRAGMA application_id = %d`, application), fmt.Sprintf(`PRAGMA user_version = %d`, SchemaVersion),
		}, Schema("BLOB")...) {
			if _, err := db.Exec(text); err != nil {
				return err
			}
		}
		return nil
	})
}

// Do runs work in a transaction. One that changes something waits for the one before
// it, of whichever process.
func (b *inFile) Do(ctx context.Context, how Mode, work func(Tx) error) (err error) {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("keyring: %w", err)
	}
	f, err := b.take()
	if err != nil {
		return err
	}
	defer b.give(f)
	var tx *sql.Tx
	err = b.disk.do("begin", b.path, func() error {
		return patiently(ctx, func() (err error) {
			tx, err = f.db.BeginTx(background, &sql.TxOptions{ReadOnly: how == Read})
			return err
		})
	})
	if err != nil {
		if tx != nil {
			_ = tx.Rollback()
		}
		return b.edge(err)
	}
	t := Statements(background, tx)
	if b.tx != nil {
		t = b.tx(t)
	}
	if err = work(t); err != nil {
		_ = tx.Rollback() // the connection is given up with it, if it fails
		return b.edge(err)
	}
	if how == Read {
		return b.edge(tx.Rollback())
	}
	if err = b.disk.do("commit", b.path, tx.Commit); err != nil {
		_ = tx.Rollback()
	}
	return b.edge(err)
}

// Scrub copies the log into the file and empties it: what was deleted was overwritten in
// the file (secure_delete), and the log held it still.
func (b *inFile) Scrub(ctx context.Context) error {
	f, err := b.take()
	if err != nil {
		return err
	}
	defer b.give(f)
	ctx, cancel := context.WithTimeout(ctx, scrubPatience)
	defer cancel()
	err = b.disk.do("scrub", b.path, func() error {
		return patiently(ctx, func() error {
			var held, pages, copied int
			if err := f.db.QueryRow(`PRAGMA wal_checkpoint(TRUNCATE)`).Scan(&held, &pages, &copied); err != nil {
				return err
			}
			if held != 0 {
				return errHeld
			}
			return nil
		})
	})
	return b.edge(err)
}

// errHeld: another connection reads the log.
var errHeld = errors.New("another process reads the file")

// patiently repeats what finds the file locked, until it does not or the context ends.
func patiently(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil || code(err) != codeBusy && code(err) != codeLocked && !errors.Is(err, errHeld) {
			return err
		}
		timer := time.NewTimer(time.Millisecond)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
	}
}

// Codes of SQLite.
const (
	codeBusy    = 5
	codeLocked  = 6
	codeFull    = 13
	codeCorrupt = 11
	codeCannot  = 14
	codeRead    = 8
	codeNotDB   = 26
	codeIO      = 10
)

func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

// edge says of an error which file it is about.
func (b *inFile) edge(err error) error {
	var file *FileError
	switch {
	case err == nil, errors.As(err, &file):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("keyring: %s: %w", b.path, err)
	}
	switch code(err) {
	case codeNotDB:
		err = memory.ErrForeign
	case codeCorrupt:
		err = ErrDamaged
	case codeFull:
		err = errors.New("the disk is full")
	case codeRead, codeCannot:
		err = fmt.Errorf("%w: it cannot be written to", fs.ErrPermission)
	case codeIO:
		err = fmt.Errorf("the disk reported an error: %w", err)
	case 0:
		if !ofFile(err) {
			return err
		}
	}
	return &FileError{Path: b.path, Err: err}
}

// ofFile reports whether an error is about the file and not about what was asked.
func ofFile(err error) bool {
	for _, of := range [...]error{ErrDamaged, ErrNotFound, memory.ErrForeign, memory.ErrSchema} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// Findings looks at the folder and its file.
func (b *inFile) Findings(context.Context) []memory.Finding {
	f := memory.Finding{Name: "keys.folder", Found: b.disk.dir + ", for its owner only", Safe: true}
	err := b.disk.private(b.disk.dir, "700")
	if err == nil {
		err = b.disk.private(b.path, "600")
	}
	if err != nil {
		f.Found, f.Safe = err.Error(), false
		f.Loss = "whoever reads the keys reads the store, and writes audit entries that verify"
		f.Fix = "put the folder right, and rotate the audit key"
		var file *FileError
		if errors.As(err, &file) && file.Fix != "" {
			f.Fix = file.Fix + ", and rotate the audit key"
		}
	} else if runtime.GOOS == "windows" {
		f.Found = b.disk.dir + ", access lists not looked at"
	}
	return []memory.Finding{f}
}
