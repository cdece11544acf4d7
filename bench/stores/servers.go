//go:build unix

package stores

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/pgstore"
	"github.com/hearsay-go/hearsay/memory/redisstore"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
)

func init() {
	backends["redis"], backends["postgres"] = openRedis, openPostgres
}

// redisBackend is a private redis-server; the floor writes to the same one.
type redisBackend struct {
	memory.Driver
	server *server.RedisServer
	raw    *redis.Client
}

func openRedis(ctx context.Context, _ string, durable bool) (Backend, error) {
	o := server.RedisOptions{}
	if !durable {
		o.Settings = []string{"appendfsync everysec"}
	}
	s, err := server.Redis(ctx, o)
	if err != nil {
		return nil, err
	}
	d, err := redisstore.Open(ctx, s.URL(), nil)
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	ro, err := redis.ParseURL(s.URL())
	if err != nil {
		return nil, errors.Join(err, d.Close(), s.Stop())
	}
	return &redisBackend{Driver: d, server: s, raw: redis.NewClient(ro)}, nil
}

func (r *redisBackend) Close() error {
	return errors.Join(r.raw.Close(), r.Driver.Close(), r.server.Stop())
}

// Fetch reads the fields that the driver wrote, those of one hash in one command,
// all commands at once. The layout is that of memory/redisstore.
func (r *redisBackend) Fetch(ctx context.Context, tenant string, keys []string) (int, error) {
	const hashes = 32
	var fields [hashes][]string
	for _, k := range keys {
		end := max(0, len(k)-16)
		at := spread(k[:end])%8*4 + spread(k[end:])%4
		fields[at] = append(fields[at], k)
	}
	base := "hearsay:{t" + hex.EncodeToString([]byte(tenant)) + "}o"
	replies, err := r.raw.Pipelined(ctx, func(p redis.Pipeliner) error {
		for at, names := range fields {
			if len(names) > 0 {
				p.HMGet(ctx, base+strconv.FormatInt(int64(at), hashes), names...)
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, reply := range replies {
		for _, v := range reply.(*redis.SliceCmd).Val() {
			s, ok := v.(string)
			if !ok {
				return 0, errors.New("the floor reads other keys than the store writes")
			}
			n += len(s)
		}
	}
	return n, nil
}

func (r *redisBackend) Insert(ctx context.Context, key string, value []byte) error {
	return r.raw.Set(ctx, "floor:"+key, value, 0).Err()
}

func (r *redisBackend) Bulk(ctx context.Context, keys []string, values [][]byte) error {
	pairs := make([]any, 0, 2*len(keys))
	for i := range keys {
		pairs = append(pairs, "floor:"+keys[i], values[i])
	}
	return r.raw.MSet(ctx, pairs...).Err()
}

// Size is what the data set takes in memory. The server counts the table of keys and
// the header of each as overhead; here they are part of it, for they grow with it. It
// is asked twice, for it keeps some 24 KB of statistics of each command that it was
// ever sent, and counts them as data.
func (r *redisBackend) Size(ctx context.Context) (int64, error) {
	var stats any
	for range 2 {
		var err error
		if stats, err = r.raw.Do(ctx, "MEMORY", "STATS").Result(); err != nil {
			return 0, err
		}
	}
	list := pairs(stats)
	data, ok1 := list["dataset.bytes"].(int64)
	keys, ok2 := pairs(list["db.0"])["overhead.hashtable.main"].(int64)
	if !ok1 || list["db.0"] != nil && !ok2 {
		return 0, errors.New("redis does not say what its data takes")
	}
	return data + keys, nil
}

// spread is how memory/redisstore chooses among hashes.
func spread(s string) uint32 {
	h := fnv.New32a()
	io.WriteString(h, s)
	n := h.Sum32()
	n ^= n >> 16
	return n ^ n>>8
}

// pairs is a reply of names and values, as a map.
func pairs(reply any) map[string]any {
	out := map[string]any{}
	switch list := reply.(type) {
	case []any:
		for i := 0; i+1 < len(list); i += 2 {
			out[fmt.Sprint(list[i])] = list[i+1]
		}
	case map[any]any:
		for k, v := range list {
			out[fmt.Sprint(k)] = v
		}
	}
	return out
}

func (r *redisBackend) Files() []string { return filesBelow(r.server.Dir) }

func filesBelow(dir string) (list []string) {
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			list = append(list, path)
		}
		return nil
	})
	return list
}

// postgres is a private server; the floor has a table of its own.
type postgres struct {
	memory.Driver
	server *server.PostgresServer
	raw    *pgx.Conn
	marks  map[string][]byte
}

func openPostgres(ctx context.Context, _ string, durable bool) (Backend, error) {
	var settings []string
	if !durable {
		settings = []string{"synchronous_commit=off"}
	}
	s, err := server.Postgres(ctx, settings...)
	if err != nil {
		return nil, err
	}
	b := &postgres{server: s, marks: map[string][]byte{}}
	fail := func(err error) (Backend, error) { return nil, errors.Join(err, b.Close()) }
	if b.raw, err = pgx.Connect(ctx, s.URL()); err != nil {
		return fail(err)
	}
	if _, err = b.raw.Exec(ctx, `CREATE ROLE app LOGIN`); err != nil {
		return fail(err)
	}
	if _, err = b.raw.Exec(ctx, `CREATE TABLE value (key bytea PRIMARY KEY, data bytea)`); err != nil {
		return fail(err)
	}
	if _, err = pgstore.Migrate(ctx, s.URL(), &pgstore.Options{Role: "app"}); err != nil {
		return fail(err)
	}
	d, err := pgstore.Open(ctx, s.RuntimeURL("app"), &pgstore.Options{MaintenanceURL: s.URL()})
	if err != nil {
		return fail(err)
	}
	b.Driver = d
	return b, nil
}

func (p *postgres) Close() error {
	ctx := context.Background()
	var errs []error
	if p.Driver != nil {
		errs = append(errs, p.Driver.Close())
	}
	if p.raw != nil {
		errs = append(errs, p.raw.Close(ctx))
	}
	return errors.Join(append(errs, p.server.Stop(ctx))...)
}

func (p *postgres) Fetch(ctx context.Context, tenant string, keys []string) (int, error) {
	if p.marks[tenant] == nil { // what the keys of a tenant begin with
		var mark []byte
		if err := p.raw.QueryRow(ctx, `SELECT int4send(id) FROM hearsay.tenant WHERE name = $1`, []byte(tenant)).Scan(&mark); err != nil {
			return 0, err
		}
		p.marks[tenant] = mark
	}
	names := make([][]byte, len(keys))
	for i, k := range keys {
		names[i] = append(slices.Clip(p.marks[tenant]), k...)
	}
	rows, err := p.raw.Query(ctx, `SELECT key, revision, data FROM hearsay.object WHERE key = ANY ($1)`, names)
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
	if n == 0 {
		return 0, fmt.Errorf("the floor reads other keys than the store writes")
	}
	return n, rows.Err()
}

func (p *postgres) Insert(ctx context.Context, key string, value []byte) error {
	_, err := p.raw.Exec(ctx, `INSERT INTO value VALUES ($1, $2)`, []byte(key), value)
	return err
}

func (p *postgres) Bulk(ctx context.Context, keys []string, values [][]byte) error {
	_, err := p.raw.CopyFrom(ctx, pgx.Identifier{"value"}, []string{"key", "data"}, pgx.CopyFromSlice(len(keys), func(i int) ([]any, error) {
		return []any{[]byte(keys[i]), values[i]}, nil
	}))
	return err
}

func (p *postgres) Size(ctx context.Context) (n int64, err error) {
	if err := p.Compact(ctx); err != nil {
		return 0, err
	}
	err = p.raw.QueryRow(ctx, `SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE s.nspname = 'hearsay' AND c.relkind = 'r'`).Scan(&n)
	return n, err
}

// Files are those of the tables, without the log, which keeps ciphertext and tokens
// until the server recycles it.
func (p *postgres) Files() (list []string) {
	for _, path := range filesBelow(p.server.Dir()) {
		if strings.Contains(path, string(os.PathSeparator)+"base"+string(os.PathSeparator)) {
			list = append(list, path)
		}
	}
	return list
}
