// Package storeurl opens the store that a URL names: one line for programs that
// take their store from a flag or the environment.
//
//	store, err := storeurl.Open(ctx, "sqlite:agent.db", nil)
//
// The schemes are
//
//	sqlite:PATH               one file; its keyring is the folder PATH.keys if no other is named
//	redis://, rediss://       see memory/redisstore
//	postgres://               see memory/pgstore; hearsay migrate up makes the tables
//
// It links all drivers. A program with a store of one kind can do without it: open
// the driver, open a keyring, and call memory.New.
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// Options of [Open]. Every zero field has a usable default.
type Options struct {
	memory.Options

	// Keys are the store's keys. nil opens the keyring in the folder Keyring.
	Keys memory.Keys
	// Keyring is a folder; "" = PATH.keys for sqlite:PATH. A server has no default:
	// its keys belong to no machine.
	Keyring string
	// Existing asks that the store and its keyring are there already. Without it a
	// SQLite file and the keyring are made if they are missing.
	Existing bool
	// Strict refuses a store whose settings would lose what was acknowledged.
	Strict bool
	// MaintenanceURL is where the owner of a PostgreSQL store's tables connects to,
	// for compaction.
	MaintenanceURL string
	// Fast leaves the fsync of a SQLite file to its next checkpoint: for replays and
	// benchmarks. It excludes Strict.
	Fast bool
}

// Errors of [Open], besides those of drivers and keyrings.
var (
	// ErrURL: the URL names no store.
	ErrURL = errors.New("storeurl: not a store")
	// ErrMissing: there is no store, and none was to be made.
	ErrMissing = errors.New("storeurl: no store")
	// ErrNoKeyring: a server's store needs a keyring by name.
	ErrNoKeyring = errors.New("storeurl: no keyring")
)

// Open opens the store of a URL with its keys. The caller closes it. An error
// never holds the URL, which may hold a password.
func Open(ctx context.Context, url string, o *Options) (*memory.Store, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := Driver(ctx, url, o)
	if err != nil {
		return nil, err
	}
	keys, err := Keys(url, o)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	s, err := memory.New(d, keys, &o.Options)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return s, nil
}

// Keys opens the keyring that belongs to a URL.
func Keys(url string, o *Options) (memory.Keys, error) {
	if o == nil {
		o = &Options{}
	}
	if o.Keys != nil {
		return o.Keys, nil
	}
	dir := o.Keyring
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok && dir == "" && path != "" {
		dir = path + ".keys"
	}
	if dir == "" {
		return nil, fmt.Errorf("%w: name the folder of the store's keys", ErrNoKeyring)
	}
	options := &keyring.Options{}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		options.StorePath = path
	}
	if o.Existing {
		return keyring.Open(dir, options)
	}
	return keyring.OpenOrCreate(dir, options)
}

// Check asks whether a URL has the form of one that names a store, without opening
// anything: [ErrURL] if not.
func Check(url string) error {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		if rest == "" {
			return fmt.Errorf("%w: sqlite: needs a path, as in sqlite:agent.db", ErrURL)
		}
		return nil
	case "postgres", "postgresql":
		if !strings.HasPrefix(rest, "//") {
			return fmt.Errorf("%w: want postgres://USER@HOST/DATABASE", ErrURL)
		}
		return nil
	case "redis", "rediss":
		if !strings.HasPrefix(rest, "//") {
			return fmt.Errorf("%w: want %s://HOST:PORT", ErrURL, scheme)
		}
		return nil
	}
	return fmt.Errorf("%w: want sqlite:PATH, redis://…, rediss://… or postgres://…", ErrURL)
}

// Redacted is a URL as it may be shown and logged: without user and password.
func Redacted(url string) string {
	u, err := neturl.Parse(url)
	if err != nil || u.Opaque != "" || u.Host == "" {
		if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
			return "sqlite:" + path
		}
		return "(not a store)"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Driver opens the driver of a URL, without keys.
func Driver(ctx context.Context, url string, o *Options) (memory.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	if err := Check(url); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return openSQLite(ctx, path, o)
	}
	if strings.HasPrefix(url, "redis") {
		return redisstore.Open(ctx, url, &redisstore.Options{Strict: o.Strict})
	}
	return pgstore.Open(ctx, url, &pgstore.Options{Strict: o.Strict, MaintenanceURL: o.MaintenanceURL})
}

func openSQLite(ctx context.Context, path string, o *Options) (memory.Driver, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Existing:
		return nil, fmt.Errorf("%w at %s", ErrMissing, path)
	case err == nil && info.IsDir():
		return nil, fmt.Errorf("%w: sqlite:%s is a folder, not a file", ErrURL, path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", memory.ErrStore, err)
	}
	options := &sqlitestore.Options{Strict: o.Strict}
	if o.Fast {
		options.Synchronous = sqlitestore.Normal
	}
	return sqlitestore.Open(ctx, path, options)
}
