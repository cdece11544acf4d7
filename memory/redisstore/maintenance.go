package redisstore

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

// scan lists what name makes of the keys that match a pattern, on all masters,
// without duplicates.
func (d *Driver) scan(ctx context.Context, pattern string, name func(key string) (string, bool)) (map[string]struct{}, error) {
	var mu sync.Mutex
	found := map[string]struct{}{}
	err := d.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		for cursor := uint64(0); ; {
			keys, next, err := c.Scan(ctx, cursor, pattern, 5000).Result()
			if err != nil {
				return err
			}
			mu.Lock()
			for _, k := range keys {
				if n, ok := name(k); ok {
					found[n] = struct{}{}
				}
			}
			mu.Unlock()
			if next == 0 {
				return nil
			}
			cursor = next
		}
	})
	return found, err
}

// Tenants lists the tenants that have an object or a log entry, but not the one
// without a name, after which no page could begin. Each page looks at the name of
// every key of the database, on every master: about a second for a million. No list of
// tenants is kept beside the keys, for a failover could make the two disagree.
func (d *Driver) Tenants(ctx context.Context, after string, limit int) ([]string, string, error) {
	var tenants []string
	var next string
	err := d.call(ctx, "tenants", func() (err error) {
		tenants, next, err = d.tenants(ctx, after, limit)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return tenants, next, nil
}

func (d *Driver) tenants(ctx context.Context, after string, limit int) ([]string, string, error) {
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	all, err := d.listTenants(ctx, after)
	if err != nil {
		return nil, "", err
	}
	page, next := firstPage(all, limit)
	return page, next, nil
}

func (d *Driver) listTenants(ctx context.Context, after string) ([]string, error) {
	found, err := d.scan(ctx, d.prefix+":{t*}["+kindObject+kindLog+"]?", func(key string) (string, bool) {
		name, _, _ := strings.Cut(key[len(d.prefix)+len(":{t"):], "}")
		tenant, err := hex.DecodeString(name)
		return string(tenant), err == nil && string(tenant) > after
	})
	return slices.Sorted(maps.Keys(found)), err
}

func firstPage(names []string, limit int) (page []string, next string) {
	if len(names) <= limit {
		return names, ""
	}
	return names[:limit:limit], names[limit-1]
}

// Logs lists the keys of a tenant that begin with prefix and have a log entry.
func (d *Driver) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	var keys []string
	var next string
	err := d.call(ctx, "logs", func() (err error) {
		keys, next, err = d.logs(ctx, tenant, prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, next, nil
}

func (d *Driver) logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	from := "[" + prefix
	if after != "" && after >= prefix {
		from = "(" + after
	}
	names, err := d.strings(ctx, "zrangebylex", d.tenant(tenant)+kindRegister, from, upTo(prefix), "limit", 0, limit+1)
	if err != nil {
		return nil, "", err
	}
	page, next := firstPage(names, limit)
	return page, next, nil
}

// Restore sets objects outright, all or none. It reads the objects first, for the
// terms they carry, and begins again if somebody changes these meanwhile.
func (d *Driver) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	return d.call(ctx, "restore", func() error { return d.restore(ctx, tenant, objects) })
}

func (d *Driver) restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	if err := memory.CheckRestored(objects); err != nil {
		return err
	}
	keys := make([]string, len(objects))
	for i, o := range objects {
		if o.Revision == math.MaxUint64 { // the next put needs one more
			return fmt.Errorf("%w: revision %d of key %q", memory.ErrInvalidBatch, o.Revision, o.Key)
		}
		keys[i] = o.Key
	}
	if len(objects) == 0 {
		return nil
	}
	for {
		carried := make([]string, len(keys))
		if _, err := d.get(ctx, tenant, keys, carried); err != nil {
			return err
		}
		b, err := restoring(d.tenant(tenant), objects, carried)
		if err != nil {
			return err
		}
		changed, err := d.write(ctx, restoreScript, b)
		if err != nil || changed == 0 {
			return err
		}
	}
}

// Rewrite replaces or removes log entries of one key that are still what they were, all
// or none.
func (d *Driver) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	return d.call(ctx, "rewrite", func() error { return d.rewrite(ctx, tenant, key, entries) })
}

func (d *Driver) rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	if err := memory.CheckRewrite(key, entries); err != nil {
		return err
	}
	if len(entries) == 0 {
		return nil
	}
	base := d.tenant(tenant)
	args := make([]any, 0, 1+3*len(entries))
	args = append(args, key)
	for _, e := range entries {
		if e.Was == nil { // no entry's data
			return &memory.ConflictError{Key: key}
		}
		if e.Data != nil {
			args = append(args, bytes8(e.Revision)+"d", e.Was, e.Data)
		} else {
			args = append(args, bytes8(e.Revision)+"t", e.Was, "")
		}
	}
	changed, err := answer(d.run(ctx, rewriteScript, true, []string{of(base, kindLog, logHash(key)), base + kindRegister}, args...))
	if err != nil {
		return err
	}
	if changed > 0 {
		return &memory.ConflictError{Key: key}
	}
	return nil
}

// Compact has every master write its files anew, from what it holds now, and waits
// until that is done: the append-only file, if there is one, and the snapshot. The
// servers need room for a second copy for a while. Calls go on meanwhile.
//
// It is about the files of the masters. Replicas rewrite theirs in their own time;
// what a disk keeps of files that are gone, and backups, are out of its reach. On
// a server that keeps nothing on disk there is nothing to do. An error means that
// the bytes may still be there.
func (d *Driver) Compact(ctx context.Context) error {
	return d.call(ctx, "compact", func() error { return d.compact(ctx) })
}

func (d *Driver) compact(ctx context.Context) error {
	return d.masters(ctx, func(ctx context.Context, c *redis.Client) error {
		state, err := persistence(ctx, c)
		if err != nil {
			return err
		}
		aof := state["aof_enabled"] == "1"
		if aof {
			if err := background(ctx, c, "bgrewriteaof", "aof_last_bgrewrite_status"); err != nil {
				return err
			}
		}
		// A snapshot may be left from an earlier time even if none is made now: of this
		// process, or the one that it was started from.
		if !aof {
			save, err := c.ConfigGet(ctx, "save").Result()
			if err == nil && save["save"] == "" && state["rdb_saves"] == "0" && state["rdb_last_load_keys_loaded"] == "0" {
				return nil
			}
			if err != nil && code(err) == "" {
				return err
			}
		}
		return background(ctx, c, "bgsave", "rdb_last_bgsave_status")
	})
}

func persistence(ctx context.Context, c *redis.Client) (map[string]string, error) {
	text, err := c.Info(ctx, "persistence").Result()
	state := map[string]string{}
	parseInfo(state, text)
	return state, err
}

// background starts a job of the server and waits until it is over. One that runs
// already began before what is to be gone was gone, so it is waited for and another
// is started.
func background(ctx context.Context, c *redis.Client, job, status string) error {
	wait := func() (map[string]string, error) {
		for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
			state, err := persistence(ctx, c)
			if err != nil || state["aof_rewrite_in_progress"] != "1" && state["aof_rewrite_scheduled"] != "1" && state["rdb_bgsave_in_progress"] != "1" {
				return state, err
			}
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return nil, ctx.Err()
			case <-timer.C:
			}
		}
	}
	for {
		err := c.Process(ctx, once{redis.NewCmd(ctx, job)})
		if err == nil {
			break
		}
		// "already in progress", "another child process is active"
		if code(err) != "ERR" || !strings.Contains(err.Error(), "progress") && !strings.Contains(err.Error(), "child") {
			return err
		}
		if _, err := wait(); err != nil {
			return err
		}
	}
	state, err := wait()
	if err == nil && state[status] != "ok" {
		err = fmt.Errorf("%w: the server could not write its files anew", memory.ErrStore)
	}
	return err
}
