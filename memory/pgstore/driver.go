package pgstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// statements are the texts of all statements, with the name of the schema.
type statements struct {
	apply, get, query, queryLong, history     string
	tenants, logs, logsLong, restore, rewrite string
	forget, registered, vacuum                string
}

// Under row-level security the server looks into an index only by plain comparisons
// of a column with a parameter: a function of the parameter, or an OR, is applied to
// each row that the rest of the condition gives.
func newStatements(schema string) statements {
	return statements{
		apply: `SELECT ` + schema + `.apply($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)`,
		get: `SELECT k.n, o.revision, o.data FROM unnest($2::bytea[]) WITH ORDINALITY AS k (key, n)
			CROSS JOIN LATERAL (SELECT o.revision, o.data FROM ` + schema + `.object o WHERE o.tenant = $1 AND o.key = k.key LIMIT 1) o`,
		query: `SELECT sort, key, whole FROM ` + schema + `.term WHERE tenant = $1 AND name = $2
			AND (sort, key) > ($3, $4::bytea) AND sort <= $5 ORDER BY sort, key LIMIT $6`,
		queryLong: `SELECT sort, key, whole FROM ` + schema + `.term WHERE tenant = $1 AND name = $2
			AND (sort, coalesce(whole, key)) > ($3, $4::bytea) AND sort <= $5 ORDER BY sort, coalesce(whole, key) LIMIT $6`,
		history: `SELECT revision, data FROM ` + schema + `.log WHERE tenant = $1 AND key = $2 AND revision > $3 ORDER BY revision LIMIT $4`,
		tenants: `SELECT ` + schema + `.tenants($1, $2)`,
		logs: `SELECT DISTINCT ON (key) key, whole FROM ` + schema + `.log WHERE tenant = $1
			AND key > $2 AND key >= $3 AND key < $4 ORDER BY key LIMIT $5`,
		logsLong: `SELECT DISTINCT coalesce(whole, key), NULL::bytea FROM ` + schema + `.log WHERE tenant = $1
			AND coalesce(whole, key) > $2 AND coalesce(whole, key) >= $3 AND ($4::bytea IS NULL OR coalesce(whole, key) < $4) ORDER BY 1 LIMIT $5`,
		restore:    `SELECT ` + schema + `.restore($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		rewrite:    `SELECT ` + schema + `.rewrite($1, $2, $3, $4, $5)`,
		forget:     `SELECT ` + schema + `.forget($1, $2)`,
		registered: `SELECT coalesce(whole, tenant) FROM ` + schema + `.tenant`,
		vacuum:     `VACUUM (FULL) ` + schema + `.tenant, ` + schema + `.object, ` + schema + `.log, ` + schema + `.term`,
	}
}

const setTenant = `SELECT set_config('hearsay.tenant', $1, true)`

// ask runs one statement as a tenant, in one round trip and one transaction.
func (d *Driver) ask(ctx context.Context, c *pgx.Conn, tenant, statement string, args []any, row func(rows pgx.Rows) error) error {
	return d.askWith(ctx, c, setTenant, tenant, statement, args, row)
}

// askWith is ask with other settings for the transaction than the tenant alone.
func (d *Driver) askWith(ctx context.Context, c *pgx.Conn, set, tenant, statement string, args []any, row func(rows pgx.Rows) error) error {
	var b pgx.Batch
	b.Queue(set, setting(tenant))
	b.Queue(statement, args...)
	results := c.SendBatch(ctx, &b)
	_, err := results.Exec()
	if err == nil {
		var rows pgx.Rows
		rows, err = results.Query()
		if err == nil {
			for err == nil && rows.Next() {
				err = row(rows)
			}
			rows.Close()
			if err == nil {
				err = rows.Err()
			}
		}
	}
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	return err
}

// maxLocks is how many keys of a batch are locked one by one; the table of locks
// of a server of default settings has room for some 6,400. A larger batch locks
// its tenant.
const maxLocks = 128

// locks are the advisory locks of a batch, in the order in which they are taken.
//
// What a batch rests on must not change before it is committed: that an object is
// at a revision, and that one is absent. There is no row to lock for the latter,
// and two batches that each check the key that the other one creates would both
// win. So the locks are on keys, not on rows: shared for a check, exclusive for a
// put, each on the number that the key hashes to, in ascending order, so that
// nobody waits in a circle. They write nothing, where a row lock writes the row,
// and every permit of a tenant may check the same row. Before them comes the lock
// of the tenant, shared; a batch of many keys and Restore take that one alone, and
// exclusively.
//
// The puts compare the revision once more as they write, so they hold against a
// writer that takes no locks as well.
func (d *Driver) locks(tenant string, b memory.Batch) (ids []int64, exclusive []bool) {
	if len(b.Puts) == 0 { // one statement looks at one instant
		return []int64{}, []bool{}
	}
	if len(b.Checks)+len(b.Puts) > maxLocks {
		return []int64{d.lock(tenant)}, []bool{true}
	}
	modes := make(map[int64]bool, len(b.Checks)+len(b.Puts))
	for _, c := range b.Checks {
		modes[d.lock(tenant, c.Key)] = false
	}
	for _, p := range b.Puts {
		modes[d.lock(tenant, p.Key)] = true
	}
	for id := range modes {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	ids = append([]int64{d.lock(tenant)}, ids...)
	exclusive = make([]bool, len(ids))
	for i, id := range ids[1:] {
		exclusive[i+1] = modes[id]
	}
	return ids, exclusive
}

// claim is a revision as the server counts them. It knows none beyond an int64, so
// no object is at one: -1 is always stale.
func claim(revision uint64) int64 {
	if revision >= math.MaxInt64 {
		return -1
	}
	return int64(revision)
}

func sortKey(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// carriers are columns of terms.
type carriers struct{ key, whole, name, sort [][]byte }

// add adds the terms of one key; of two that are alike the last one stands.
func (t *carriers) add(key string, terms []memory.Term) (names map[string]uint64) {
	if len(terms) == 0 {
		return nil
	}
	names = make(map[string]uint64, len(terms))
	for _, term := range terms {
		names[term.Name] = term.Sort
	}
	folded, long := fold(key), whole(key)
	for name, sort := range names {
		t.key = append(t.key, folded)
		t.whole = append(t.whole, long)
		t.name = append(t.name, fold(name))
		t.sort = append(t.sort, sortKey(sort))
	}
	return names
}

// Apply writes a batch, all of it or nothing, in one round trip. After an error
// that wraps [memory.ErrConflict], [memory.ErrTooLarge], [memory.ErrInvalidBatch]
// or [memory.ErrClosed] nothing was written; after any other, the error of ctx
// among them, the batch may have been.
func (d *Driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return edge("apply", d.apply(ctx, tenant, b))
}

func (d *Driver) apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	if len(b.Checks)+len(b.Puts) == 0 {
		return nil
	}
	ids, exclusive := d.locks(tenant, b)
	checkKey, checkRevision := make([][]byte, len(b.Checks)), make([]int64, len(b.Checks))
	for i, c := range b.Checks {
		checkKey[i], checkRevision[i] = fold(c.Key), claim(c.Revision)
	}
	n := len(b.Puts)
	key, long, data := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	from := make([]int64, n)
	var entryPut, entryRevision []int64 // these and the following are nil if there are none, and the function skips a statement
	var entryKey, entryLong, entryData, goneKey, goneName [][]byte
	var terms carriers
	for i, p := range b.Puts {
		key[i], long[i], from[i], data[i] = fold(p.Key), whole(p.Key), claim(p.From), p.Data
		if p.Entry != nil {
			entryPut, entryRevision = append(entryPut, int64(i+1)), append(entryRevision, from[i]+1)
			entryKey, entryLong, entryData = append(entryKey, key[i]), append(entryLong, long[i]), append(entryData, p.Entry)
		}
		added := terms.add(p.Key, p.Add)
		for _, name := range p.Remove {
			if _, again := added[name]; !again {
				goneKey, goneName = append(goneKey, key[i]), append(goneName, fold(name))
			}
		}
	}
	var stale int64
	err := d.write(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, d.sql.apply, fold(tenant), whole(tenant), ids, exclusive, checkKey, checkRevision,
			key, long, from, data,
			entryPut, entryKey, entryLong, entryRevision, entryData, goneKey, goneName, terms.key, terms.whole, terms.name, terms.sort).Scan(&stale)
	})
	switch {
	case err != nil || stale == 0:
		return err
	case stale <= int64(len(b.Checks)):
		return &memory.ConflictError{Key: b.Checks[stale-1].Key}
	}
	return &memory.ConflictError{Key: b.Puts[int(stale)-len(b.Checks)-1].Key}
}

// Get returns one object per key, in the order of keys, from one snapshot and in
// one round trip. A missing object has revision 0; a tombstone has a revision and
// nil data.
func (d *Driver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objects, err := d.get(ctx, tenant, keys)
	if err != nil {
		return nil, edge("get", err)
	}
	return objects, nil
}

func (d *Driver) get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	objects := make([]memory.Object, len(keys))
	if len(keys) == 0 {
		return objects, nil
	}
	folded := make([][]byte, len(keys))
	for i, k := range keys {
		folded[i] = fold(k)
	}
	err := d.read(ctx, func(c *pgx.Conn) error {
		for i, k := range keys {
			objects[i] = memory.Object{Key: k}
		}
		return d.ask(ctx, c, tenant, d.sql.get, []any{fold(tenant), folded}, func(rows pgx.Rows) error {
			var n, revision int64
			var data []byte
			if err := rows.Scan(&n, &revision, &data); err != nil {
				return err
			}
			objects[n-1].Revision, objects[n-1].Data = uint64(revision), data
			return nil
		})
	})
	return objects, err
}

// Query lists the carriers of a term in ascending (sort, key) order. A cursor
// that did not come from Query gives [memory.ErrInvalidBatch].
func (d *Driver) Query(ctx context.Context, tenant string, q memory.Query) (hits []memory.Hit, next string, err error) {
	hits, next, err = d.query(ctx, tenant, q)
	if err != nil {
		return nil, "", edge("query", err)
	}
	return hits, next, nil
}

func (d *Driver) query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	after := memory.Hit{Sort: q.From}
	if q.After != "" {
		h, err := parseCursor(q.After)
		if err != nil {
			return nil, "", err
		}
		if h.Sort >= q.From {
			after = h
		}
	}
	to := q.To
	if to == 0 {
		to = math.MaxUint64
	}
	var hits []memory.Hit
	page := func(c *pgx.Conn, statement string) (long bool, err error) {
		hits = make([]memory.Hit, 0, min(q.Limit, 256))
		args := []any{fold(tenant), fold(q.Term), sortKey(after.Sort), []byte(after.Key), sortKey(to), int64(q.Limit) + 1} // one more shows whether there is more
		err = d.ask(ctx, c, tenant, statement, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			hits = append(hits, memory.Hit{Key: unfold(v[1], v[2]), Sort: binary.BigEndian.Uint64(v[0])})
			long = long || v[2] != nil
			return nil
		})
		return long, err
	}
	err := d.read(ctx, func(c *pgx.Conn) error {
		// The index keeps long keys by their digest. A page that meets one is sorted
		// anew by the keys themselves, which takes as long as reading the term does.
		long, err := len(after.Key) > maxIndexed, error(nil)
		if !long {
			long, err = page(c, d.sql.query)
		}
		if long && err == nil {
			_, err = page(c, d.sql.queryLong)
		}
		return err
	})
	if err != nil {
		return nil, "", err
	}
	if len(hits) <= q.Limit {
		return hits, "", nil
	}
	hits = hits[:q.Limit]
	return hits, cursor(hits[q.Limit-1]), nil
}

// cursor names the last hit of a page, in characters that survive any transport.
func cursor(h memory.Hit) string {
	return base64.RawURLEncoding.EncodeToString(append(sortKey(h.Sort), h.Key...))
}

func parseCursor(s string) (memory.Hit, error) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) <= 8 {
		return memory.Hit{}, fmt.Errorf("%w: the cursor is not one of this store", memory.ErrInvalidBatch)
	}
	return memory.Hit{Sort: binary.BigEndian.Uint64(b), Key: string(b[8:])}, nil
}

// History returns the log entries of key after a revision, oldest first.
func (d *Driver) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	entries, err := d.history(ctx, tenant, key, after, limit)
	if err != nil {
		return nil, edge("history", err)
	}
	return entries, nil
}

func (d *Driver) history(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, err
	}
	if after >= math.MaxInt64 {
		return nil, nil
	}
	var entries []memory.LogEntry
	err := d.read(ctx, func(c *pgx.Conn) error {
		entries = nil
		return d.ask(ctx, c, tenant, d.sql.history, []any{fold(tenant), fold(key), int64(after), int64(limit)}, func(rows pgx.Rows) error {
			var revision int64
			var data []byte
			if err := rows.Scan(&revision, &data); err != nil {
				return err
			}
			entries = append(entries, memory.LogEntry{Revision: uint64(revision), Data: data})
			return nil
		})
	})
	return entries, err
}
