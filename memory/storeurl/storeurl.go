// Package storeurl opens the store that a URL names: one line for programs that
// take their store from a flag or the environment.
//
//	store, err := storeurl.Open(ctx, "sqlite:agent.db", nil)
//
// The schemes are
//
//	sqlite:PATH               one file; its keyring is the folder PATH.keys if no other is named
//	redis://, rediss://       see memory/redisstore
//	postgres://               see memory/pgstore; hearsay migrate up makes the tables, in the
//	                          schema hearsay or the one that ?schema=NAME names
//
// It links all drivers. A program with a store of one kind can do without it: open
// the driver, open a keyring, and call memory.New.
package storeurl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/keyring/pgring"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// Options of [Open]. Every zero field has a usable default.
type Options struct {
	memory.Options

	// Keys are the store's keys. nil opens the keyring that Keyring names.
	Keys memory.Keys
	// Keyring is a folder, or postgres://… for a keyring that several machines share;
	// "" = the folder PATH.keys for sqlite:PATH. A server has no default: its keys belong
	// to no machine.
	Keyring string
	// Wrapping is the key that the keyring is wrapped under; nil = the file in its folder.
	// A keyring in PostgreSQL needs one.
	Wrapping keyring.Wrapping
	// AuditKeys are the audit keys if they are not in the keyring's folder; see
	// [keyring.ParseAuditKeys]. Keys wins over them.
	AuditKeys []keyring.AuditKey
	// Existing asks that the store and its keyring are there already. Without it a
	// SQLite file and the keyring are made if they are missing.
	Existing bool
	// Unwitnessed opens a store whose witness is not at hand, to read it and to take
	// trust away: its gate stays closed. Without it that is [memory.ErrWitnessMissing].
	Unwitnessed bool
	// Strict refuses a store whose settings would lose what was acknowledged.
	Strict bool
	// MaintenanceURL is where the owner of a PostgreSQL store's tables connects to,
	// for compaction.
	MaintenanceURL string
	// Fast leaves the fsync of a SQLite file to its next checkpoint: for replays and
	// benchmarks. It excludes Strict.
	Fast bool
	// Waiting is called while the store is being opened and does not answer, or another process has locked it: after
	// five seconds, and then each minute. It is not called after the store is open. nil = nobody is told.
	Waiting func(waited time.Duration)
}

// When Waiting is called.
const (
	firstWaiting = 5 * time.Second
	nextWaiting  = time.Minute
)

// waits calls Waiting in time, until stop is called.
func (o *Options) waits() (stop func()) {
	if o.Waiting == nil {
		return func() {}
	}
	began, opened := time.Now(), make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		for t := time.NewTimer(firstWaiting); ; t.Reset(nextWaiting) {
			select {
			case <-t.C:
				o.Waiting(time.Since(began))
			case <-opened:
				t.Stop()
				return
			}
		}
	})
	return func() { close(opened); telling.Wait() }
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
// never holds the URL, which may hold a password. Of a store that was written with a
// keyring, none is made in the place of one that is not there: [memory.ErrKey]. A store
// that has a witness is opened with that one in the options, or not at all unless
// Unwitnessed says so: [memory.ErrWitnessMissing]. A store whose first object is damaged is opened
// with Unwitnessed alone, for [memory.Store.Rebuild] to make that again; else [memory.ErrDamaged].
func Open(ctx context.Context, url string, o *Options) (*memory.Store, error) {
	if o == nil {
		o = &Options{}
	}
	d, keys, err := Parts(ctx, url, o, o.Namespace)
	if err != nil {
		return nil, err
	}
	s, err := memory.New(d, keys, &o.Options)
	if err == nil && !o.Unwitnessed {
		if err = s.Attend(ctx); errors.Is(err, memory.ErrKey) { // each call says so
			err = nil
		}
	}
	if err != nil {
		err = errors.Join(err, d.Close())
		if ring, ok := keys.(io.Closer); ok && o.Keys == nil {
			err = errors.Join(err, ring.Close())
		}
		return nil, err
	}
	return s, nil
}

// Parts opens the driver and the keys that [Open] makes a store of, for a program that
// opens several namespaces of a tenant over one driver. No keyring is made if one of
// those namespaces was written with another. The caller closes both: keys that are an
// [io.Closer] may hold connections.
func Parts(ctx context.Context, url string, o *Options, namespaces ...string) (memory.Driver, memory.Keys, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := Driver(ctx, url, o)
	if err != nil {
		return nil, nil, err
	}
	keys, err := keysOf(ctx, d, url, o, namespaces)
	if err != nil {
		return nil, nil, errors.Join(err, d.Close())
	}
	return d, keys, nil
}

// keysOf opens the keyring of a store, and makes it if the store has none yet: new keys
// for one that was written with others read nothing, and stand in the way of those.
func keysOf(ctx context.Context, d memory.Driver, url string, o *Options, namespaces []string) (memory.Keys, error) {
	there := *o
	there.Existing = true
	keys, err := Keys(ctx, url, &there)
	if o.Existing || !errors.Is(err, keyring.ErrNotFound) {
		return keys, err
	}
	for _, namespace := range namespaces {
		s, unfit := memory.New(d, keyring.Ephemeral(), &memory.Options{Tenant: o.Tenant, Namespace: namespace})
		if unfit == nil {
			_, unfit = s.LastCheckpoint(ctx)
		}
		if errors.Is(unfit, memory.ErrKey) {
			return nil, fmt.Errorf("%w; %w", unfit, err)
		}
		if unfit != nil {
			return nil, unfit
		}
	}
	return Keys(ctx, url, o)
}

// Keys opens the keyring that belongs to a URL. One in PostgreSQL is made by hearsay
// keyring create alone: [keyring.ErrNotFound] if there is none.
func Keys(ctx context.Context, url string, o *Options) (memory.Keys, error) {
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
	options := &keyring.Options{AuditKeys: o.AuditKeys, Wrapping: o.Wrapping}
	if IsServer(dir) {
		ring, err := OpenKeyring(ctx, dir, options)
		if err != nil {
			return nil, err
		}
		return ring, nil
	}
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		options.StorePath = path
	}
	if o.Existing {
		return keyring.Open(dir, options)
	}
	return keyring.OpenOrCreate(dir, options)
}

// IsServer reports whether what names a keyring names one in PostgreSQL.
func IsServer(place string) bool {
	return strings.HasPrefix(place, "postgres://") || strings.HasPrefix(place, "postgresql://")
}

// OpenKeyring opens the keyring in a folder, or at a postgres:// URL.
func OpenKeyring(ctx context.Context, place string, o *keyring.Options) (*keyring.Ring, error) {
	if !IsServer(place) {
		return keyring.Open(place, o)
	}
	if o == nil || o.Wrapping == nil {
		return nil, fmt.Errorf("%w: one in PostgreSQL needs its wrapping key (HEARSAY_WRAPPING_KEY)", ErrNoKeyring)
	}
	return pgring.Open(ctx, place, &pgring.Options{Options: *o})
}

// CreateKeyring makes a keyring of new keys in a folder, or at a postgres:// URL whose
// role may make tables; there the role that programs connect as is given what it needs.
func CreateKeyring(ctx context.Context, place string, o *keyring.Options, role string) (*keyring.Ring, error) {
	if !IsServer(place) {
		return keyring.Create(place, o)
	}
	if o == nil || o.Wrapping == nil {
		return nil, fmt.Errorf("%w: one in PostgreSQL needs its wrapping key (HEARSAY_WRAPPING_KEY)", ErrNoKeyring)
	}
	return pgring.Create(ctx, place, &pgring.Options{Options: *o, Role: role})
}

// Check asks whether a URL has the form of one that names a store, without opening
// anything: [ErrURL] if not. The error says which part of the URL it is, and never
// what is in it.
func Check(url string) error {
	scheme, rest, _ := strings.Cut(url, ":")
	switch scheme {
	case "sqlite":
		switch {
		case rest == "":
			return fmt.Errorf("%w: sqlite: needs a path, as in sqlite:agent.db", ErrURL)
		case strings.HasPrefix(rest, "//") && !strings.HasPrefix(rest, "///"):
			return fmt.Errorf("%w: sqlite: takes a path and no host, as in sqlite:agent.db or sqlite:/var/lib/agent.db", ErrURL)
		case strings.ContainsRune(rest, 0):
			return fmt.Errorf("%w: the path of sqlite: has a NUL in it", ErrURL)
		}
		return nil
	case "postgres", "postgresql":
		if !strings.HasPrefix(rest, "//") {
			return fmt.Errorf("%w: want %s://USER@HOST/DATABASE", ErrURL, scheme)
		}
		return checkServer(url, pgstore.CheckURL)
	case "redis", "rediss":
		if !strings.HasPrefix(rest, "//") {
			return fmt.Errorf("%w: want %s://HOST:PORT", ErrURL, scheme)
		}
		return checkServer(url, redisstore.CheckURL)
	}
	return fmt.Errorf("%w: want sqlite:PATH, redis://…, rediss://… or postgres://…", ErrURL)
}

// parts are those of a server's URL, as they are written.
type parts struct{ scheme, user, hosts, path, query string }

// split takes a URL apart without decoding anything. ok is false if what is a
// password and what is not cannot be told: one that is not percent-encoded may
// hold any of the marks.
func split(url string) (p parts, ok bool) {
	scheme, rest, found := strings.Cut(url, "://")
	if !found {
		return parts{}, false
	}
	p.scheme = scheme
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	at := strings.LastIndex(authority, "@") + 1
	p.user, p.hosts = authority[:at], authority[at:]
	p.path, p.query, _ = strings.Cut(rest, "?")
	for host := range strings.SplitSeq(p.hosts, ",") {
		if !isHost(host) {
			return p, false
		}
	}
	return p, !strings.ContainsAny(rest, "@#")
}

// isHost reports whether a text is a host with or without a port, as far as can be
// told without asking anybody. "" is one: that of this machine.
func isHost(s string) bool {
	name, port := s, ""
	if i := strings.LastIndex(s, ":"); i > strings.LastIndex(s, "]") {
		name, port = s[:i], s[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		_, err := netip.ParseAddr(inner)
		return ok && err == nil
	}
	for _, r := range name {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' || r == '_') {
			return false
		}
	}
	return name != "" || port == ""
}

// checkServer asks the driver, and if it refuses finds the part that it refuses.
func checkServer(url string, check func(string) error) error {
	p, ok := split(url)
	if !ok {
		return fmt.Errorf("%w: the host or the port is not one; in a user or password write / ? # @ and : as %%2F %%3F %%23 %%40 and %%3A", ErrURL)
	}
	if check(url) == nil {
		return nil
	}
	bad := func(user, path, query string) bool {
		if query != "" {
			query = "?" + query
		}
		return check(p.scheme+"://"+user+p.hosts+path+query) != nil
	}
	// What needs a partner is given one: several hosts of Redis say what they are of.
	for _, with := range []string{"", "cluster=true", "master=m"} {
		if bad("", "", with) {
			continue
		}
		switch {
		case bad(p.user, "", with):
			return fmt.Errorf("%w: the user or password is not percent-encoded", ErrURL)
		case bad("", p.path, with):
			return fmt.Errorf("%w: the database is not one", ErrURL)
		}
		for parameter := range strings.SplitSeq(p.query, "&") {
			name, _, _ := strings.Cut(parameter, "=")
			if parameter == "" {
				continue
			}
			if !isParameter(name) || bad("", "", parameter) && bad("", "", with+"&"+parameter) {
				return fmt.Errorf("%w: the parameter %s is not known, or its value is none for it", ErrURL, p.show(name))
			}
		}
		break
	}
	if strings.Contains(p.hosts, ",") {
		return fmt.Errorf("%w: the hosts and the parameters do not fit together: of several Redis servers, say cluster=true or master=NAME", ErrURL)
	}
	return fmt.Errorf("%w: the host and the parameters do not fit together", ErrURL)
}

// isParameter reports whether a text can be the name of a parameter, and not a
// piece of something that was not meant to be shown.
func isParameter(name string) bool {
	return name != "" && len(name) <= 32 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// show is the name of a parameter for an error. Next to a password it may be the
// rest of one with an & in it.
func (p parts) show(name string) string {
	if isParameter(name) && !strings.Contains(p.query, "password") {
		return name
	}
	return "(not shown)"
}

// Redacted is a URL as it may be shown and logged: without user, password and
// parameters. Of a URL that does not tell what is a password, only the scheme is
// left.
func Redacted(url string) string {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return "sqlite:" + path
	}
	p, ok := split(url)
	switch {
	case p.scheme == "" || strings.Trim(p.scheme, "abcdefghijklmnopqrstuvwxyz") != "":
		return "(not a store)"
	case !ok:
		return p.scheme + "://…"
	}
	return p.scheme + "://" + p.hosts + p.path
}

// Driver opens the driver of a URL, without keys.
func Driver(ctx context.Context, url string, o *Options) (memory.Driver, error) {
	if o == nil {
		o = &Options{}
	}
	if err := Check(url); err != nil {
		return nil, err
	}
	defer o.waits()()
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		return openSQLite(ctx, path, o)
	}
	if strings.HasPrefix(url, "redis") {
		d, err := redisstore.Open(ctx, url, &redisstore.Options{Strict: o.Strict, Existing: o.Existing})
		if errors.Is(err, redisstore.ErrMissing) {
			return nil, fmt.Errorf("%w at %s", ErrMissing, Redacted(url))
		}
		if err != nil {
			return nil, err
		}
		return d, nil
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
