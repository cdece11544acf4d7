// Package teststore opens fresh stores of each kind for tests. A server starts when a test
// first asks for a store on it, and serves all tests of the package. TestMain ends with
// testmain.Run(m, teststore.Stop).
package teststore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

// opener opens a fresh store. n is the number of the store, different each time.
type opener func(t testing.TB, n int) (memory.Driver, error)

var (
	kinds   = []string{"map", "sqlite", "redis"}
	openers = map[string]opener{"map": openMap, "sqlite": openSQLite, "redis": openRedis}

	mu     sync.Mutex
	opened int
	redis  *server.RedisServer // nil: not started
	stops  []func() error      // of the servers that were started
)

// Kinds lists the kinds of stores that this system can have: "map" and "sqlite", which need
// no server, "redis", and on Unix "postgres".
func Kinds() []string { return slices.Clone(kinds) }

// Durable lists the kinds whose stores outlive the process: all but "map".
func Durable() []string { return kinds[1:len(kinds):len(kinds)] }

// Open returns a driver on a fresh and empty store of a kind. The caller closes it. The test
// is skipped, or fails where CI is set, if the server of the kind is not installed.
// What is acknowledged outlives the process, but no loss of power.
func Open(t testing.TB, kind string) memory.Driver {
	t.Helper()
	open := openers[kind]
	if open == nil {
		t.Fatalf("there is no store of kind %q", kind)
	}
	mu.Lock()
	defer mu.Unlock()
	opened++
	d, err := open(t, opened)
	server.Need(t, err)
	return d
}

// Each runs a test once on a fresh store of each kind, as a subtest that is named after the
// kind.
func Each(t *testing.T, test func(t *testing.T, d memory.Driver)) {
	t.Helper()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) { test(t, Open(t, kind)) })
	}
}

// Stop ends the servers. The next store of a kind would start a new one.
func Stop() error {
	mu.Lock()
	defer mu.Unlock()
	var errs []error
	for _, stop := range stops {
		errs = append(errs, stop())
	}
	stops, redis = nil, nil
	return errors.Join(errs...)
}

func openMap(testing.TB, int) (memory.Driver, error) { return storetest.NewMap(), nil }

func openSQLite(t testing.TB, _ int) (memory.Driver, error) {
	return sqlitestore.Open(t.Context(), filepath.Join(t.TempDir(), "agent.db"), nil)
}

func openRedis(t testing.TB, n int) (memory.Driver, error) {
	if redis == nil {
		s, err := server.Redis(context.WithoutCancel(t.Context()), server.RedisOptions{Settings: []string{"appendfsync everysec"}})
		if err != nil {
			return nil, err
		}
		redis, stops = s, append(stops, s.Stop)
	}
	return redisstore.Open(t.Context(), redis.URL(), &redisstore.Options{Prefix: fmt.Sprint("store", n)})
}

// TryLock locks a SQLite file as a process that stands still in the middle of a write, until unlock is called. It
// fails if another one has locked it.
func TryLock(ctx context.Context, path string) (unlock func() error, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=rw")
	if err != nil {
		return nil, err
	}
	c, err := db.Conn(ctx)
	if err == nil {
		_, err = c.ExecContext(ctx, "BEGIN IMMEDIATE")
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return func() error { return errors.Join(c.Close(), db.Close()) }, nil
}

// Lock is TryLock of a file that nobody else has locked.
func Lock(t testing.TB, path string) (unlock func()) {
	t.Helper()
	end, err := TryLock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
