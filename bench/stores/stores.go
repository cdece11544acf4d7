// Package stores opens the stores that the bench programs measure, each with the bare
// driver or server below it, so that every figure has its floor from the same run.
package stores

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// Backend is a store that is measured, and what is below it.
type Backend interface {
	memory.Driver
	// Fetch reads the data of objects that the driver wrote, with nothing but the
	// client library: one statement, or one multi-key read.
	Fetch(ctx context.Context, tenant string, keys []string) (bytes int, err error)
	// Insert writes one value of so many bytes durably, as the store's mode is.
	Insert(ctx context.Context, key string, value []byte) error
	// Bulk writes many values in one go, the fastest way the library has.
	Bulk(ctx context.Context, keys []string, values [][]byte) error
	// Size is what the store takes on disk or in memory, in bytes.
	Size(ctx context.Context) (int64, error)
	// Files are the raw files of the store.
	Files() []string
}

// opener opens a fresh store in a folder. durable asks that what is acknowledged
// is on disk.
type opener func(ctx context.Context, dir string, durable bool) (Backend, error)

var backends = map[string]opener{"sqlite": openSQLite}

type sqlite struct {
	*sqlitestore.Driver
	path string
	raw  *sql.DB
	get  map[int]*sql.Stmt
	put  *sql.Stmt
}

func openSQLite(ctx context.Context, dir string, durable bool) (Backend, error) {
	o, level := &sqlitestore.Options{}, "FULL"
	if !durable {
		o.Synchronous, level = sqlitestore.Normal, "NORMAL"
	}
	path := filepath.Join(dir, "store.db")
	d, err := sqlitestore.Open(ctx, path, o)
	if err != nil {
		return nil, err
	}
	// The floor has a file of its own for writes, with the same settings.
	raw, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "floor.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous("+level+")&_pragma=fullfsync(ON)&_pragma=secure_delete(ON)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	raw.SetMaxOpenConns(1)
	if _, err := raw.ExecContext(ctx, `CREATE TABLE value (key BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID`); err != nil {
		return nil, err
	}
	put, err := raw.PrepareContext(ctx, `INSERT INTO value VALUES (?, ?)`)
	if err != nil {
		return nil, err
	}
	s := &sqlite{Driver: d, path: path, raw: raw, put: put, get: map[int]*sql.Stmt{}}
	// A sync takes half as long again while the log of the file still grows. It has
	// been checkpointed once after this, as that of the store was long before anything is timed.
	for i := range 1000 {
		if err := s.Insert(ctx, fmt.Sprint("steady/", i), make([]byte, 4096)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqlite) Close() error {
	s.raw.Close()
	return s.Driver.Close()
}

// Fetch reads through a connection of its own to the store's file.
func (s *sqlite) Fetch(ctx context.Context, tenant string, keys []string) (int, error) {
	stmt := s.get[len(keys)]
	if stmt == nil {
		db, err := sql.Open("sqlite", "file:"+s.path+"?mode=ro&_pragma=query_only(ON)&_pragma=cache_size(-8192)")
		if err != nil {
			return 0, err
		}
		db.SetMaxOpenConns(1)
		marks := strings.TrimSuffix(strings.Repeat("?,", len(keys)), ",")
		if stmt, err = db.PrepareContext(ctx, `SELECT key, revision, data FROM object WHERE tenant = (SELECT id FROM tenant WHERE name = ?) AND key IN (`+marks+`)`); err != nil {
			return 0, err
		}
		s.get[len(keys)] = stmt
	}
	args := make([]any, 0, len(keys)+1)
	args = append(args, []byte(tenant))
	for _, k := range keys {
		args = append(args, []byte(k))
	}
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var key, data []byte
		var revision int64
		if err := rows.Scan(&key, &revision, &data); err != nil {
			return 0, err
		}
		n += len(data)
	}
	return n, rows.Err()
}

func (s *sqlite) Insert(ctx context.Context, key string, value []byte) error {
	_, err := s.put.ExecContext(ctx, []byte(key), value)
	return err
}

func (s *sqlite) Bulk(ctx context.Context, keys []string, values [][]byte) error {
	tx, err := s.raw.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	put := tx.StmtContext(ctx, s.put)
	for i := range keys {
		if _, err := put.ExecContext(ctx, []byte(keys[i]), values[i]); err != nil {
			return fmt.Errorf("%w (%w)", err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (s *sqlite) Size(ctx context.Context) (int64, error) {
	if err := s.Compact(ctx); err != nil {
		return 0, err
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (s *sqlite) Files() (list []string) {
	_ = filepath.WalkDir(filepath.Dir(s.path), func(path string, e fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(path), "store.db") && e.Type().IsRegular() {
			list = append(list, path)
		}
		return nil
	})
	return list
}
