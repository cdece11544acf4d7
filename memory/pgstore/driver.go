package pgstore

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// statements are the texts of all statements, with the name of the schema.
type statements struct {
	tenant, apply, get, query, queryLong, history string
	tenants, logs, logsLong, restore, rewrite     string
	objects, carriers                             string
	forget, registered, vacuum                    string
}

// The number of a tenant is looked up by each statement, and a second time for the
// wall: a number that a driver kept could be that of a tenant that was removed. Under
// row-level security the server looks into an index only by plain comparisons of a
// column with what is there already: a function of a column, an OR, or a key that is
// yet to be made is applied to each row that the rest of the condition gives.
func newStatements(schema string) statements {
	number, next := numbers(schema)
	objects, carriers := listTexts(schema)
	return statements{
		objects: objects, carriers: carriers,
		tenant: `SELECT set_config('hearsay.tenant', t.id::text, true) FROM ` + schema + `.tenant t WHERE t.name = $1`,
		apply:  `SELECT ` + schema + `.apply($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26, $27)`,
		get: `SELECT o.key, o.revision, o.data FROM ` + schema + `.object o
			WHERE o.key = ANY (ARRAY (SELECT ` + number + ` || k.key FROM unnest($2::bytea[]) AS k (key)))`,
		query: `SELECT substring(entry, $5::integer), whole FROM ` + schema + `.term WHERE entry > ` + number + ` || $2::bytea AND entry < ` + number + ` || $3::bytea
			ORDER BY entry LIMIT $4`,
		queryLong: `SELECT e.sort, e.key FROM (SELECT substring(entry, $5::integer, 8) AS sort, coalesce(whole, substring(entry, $5::integer + 8)) AS key
			FROM ` + schema + `.term WHERE entry > ` + number + ` || $2::bytea AND entry < ` + number + ` || $3::bytea) e
			WHERE (e.sort, e.key) > ($6::bytea, $7::bytea) ORDER BY e.sort, e.key LIMIT $4`,
		history: `SELECT revision, data FROM ` + schema + `.log WHERE key = ` + number + ` || $2::bytea AND revision > $3 ORDER BY revision LIMIT $4`,
		tenants: `SELECT ` + schema + `.tenants($1, $2)`,
		logs: `SELECT DISTINCT ON (key) substring(key, 5), whole FROM ` + schema + `.log WHERE key > ` + number + ` || $2::bytea
			AND key >= ` + number + ` || $3::bytea AND key < ` + number + ` || $4::bytea
			ORDER BY key LIMIT $5`,
		logsLong: `SELECT DISTINCT k.key, NULL::bytea FROM (SELECT coalesce(whole, substring(key, 5)) AS key FROM ` + schema + `.log
			WHERE key > ` + number + ` AND key < ` + next + `) k
			WHERE k.key > $2 AND k.key >= $3 AND ($4::bytea IS NULL OR k.key < $4) ORDER BY 1 LIMIT $5`,
		restore:    `SELECT ` + schema + `.restore($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		rewrite:    `SELECT ` + schema + `.rewrite($1, $2, $3, $4, $5, $6)`,
		forget:     `SELECT ` + schema + `.forget($1, $2)`,
		registered: `SELECT coalesce(whole, name) FROM ` + schema + `.tenant`,
		vacuum:     `VACUUM (FULL) ` + schema + `.tenant, ` + schema + `.object, ` + schema + `.log, ` + schema + `.term`,
	}
}

// numbers are what the keys of the tenant that $1 names begin with, and what those
// of the next one do.
func numbers(schema string) (number, next string) {
	return `(SELECT int4send(t.id) FROM ` + schema + `.tenant t WHERE t.name = $1)`, `(SELECT int4send(t.id + 1) FROM ` + schema + `.tenant t WHERE t.name = $1)`
}

// ask runs one statement as a tenant, in one round trip and one transaction.
func (d *Driver) ask(ctx context.Context, c *pgx.Conn, tenant, statement string, args []any, row func(rows pgx.Rows) error) error {
	var b pgx.Batch
	b.Queue(d.sql.tenant, fold(tenant))
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

// termName is what the items of one term begin with, and of no other one.
func termName(name string) []byte {
	folded := fold(name)
	return append(binary.AppendUvarint(make([]byte, 0, 2+len(folded)+8), uint64(len(folded))), folded...)
}

// carriers are columns of the index of terms, without the number of the tenant.
type carriers struct{ entry, whole [][]byte }

// add adds the terms of one key; of two of one name the last one stands. It returns
// them as the object keeps them, nil if there are none.
func (t *carriers) add(key string, terms []memory.Term) (kept []byte) {
	folded, long := fold(key), whole(key)
	for _, term := range distinct(terms) {
		item := binary.BigEndian.AppendUint64(termName(term.Name), term.Sort)
		kept = append(kept, item...)
		t.entry = append(t.entry, slices.Concat(item, folded))
		t.whole = append(t.whole, long)
	}
	return kept
}

// distinct keeps the last of terms of one name.
func distinct(terms []memory.Term) []memory.Term {
	if len(terms) < 2 {
		return terms
	}
	at := make(map[string]int, len(terms))
	out := make([]memory.Term, 0, len(terms))
	for _, t := range terms {
		if i, ok := at[t.Name]; ok {
			out[i] = t
			continue
		}
		at[t.Name] = len(out)
		out = append(out, t)
	}
	return out
}

// touched are the names of the terms that a put adds or removes, as the text of an
// array; nil if there are none.
func touched(p memory.Put) *string {
	if len(p.Add)+len(p.Remove) == 0 {
		return nil
	}
	b := []byte{'{'}
	name := func(name string) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(append(b, `"\\x`...), termName(name))
		b = append(b, '"')
	}
	for _, t := range p.Add {
		name(t.Name)
	}
	for _, t := range p.Remove {
		name(t)
	}
	text := string(append(b, '}'))
	return &text
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
	n := len(b.Checks) + len(b.Puts)
	claimed, at := make([][]byte, 0, n), make([]int64, 0, n)
	for _, c := range b.Checks {
		claimed, at = append(claimed, fold(c.Key)), append(at, claim(c.Revision))
	}
	// These columns are nil if there is nothing in them, and the function leaves out
	// a statement.
	var (
		made struct{ key, whole, data, terms [][]byte }
		move struct {
			key, data, terms [][]byte
			from             []int64
			names            []*string
		}
		cleared struct {
			key, data, terms [][]byte
			from             []int64
		}
		entry struct {
			key, whole, data [][]byte
			claim, revision  []int64
		}
		terms carriers
	)
	for _, p := range b.Puts {
		key, from := fold(p.Key), claim(p.From)
		claimed, at = append(claimed, key), append(at, from)
		kept := terms.add(p.Key, p.Add)
		switch {
		case from == 0:
			made.key, made.whole = append(made.key, key), append(made.whole, whole(p.Key))
			made.data, made.terms = append(made.data, p.Data), append(made.terms, kept)
		case p.Clear:
			cleared.key, cleared.from = append(cleared.key, key), append(cleared.from, from)
			cleared.data, cleared.terms = append(cleared.data, p.Data), append(cleared.terms, kept)
		default:
			move.key, move.from, move.data = append(move.key, key), append(move.from, from), append(move.data, p.Data)
			move.names, move.terms = append(move.names, touched(p)), append(move.terms, orEmpty(kept))
		}
		if p.Entry != nil {
			entry.claim, entry.revision = append(entry.claim, int64(len(claimed))), append(entry.revision, from+1)
			entry.key, entry.whole, entry.data = append(entry.key, key), append(entry.whole, whole(p.Key)), append(entry.data, p.Entry)
		}
	}
	var stale int64
	behind := false // look whether there are entries already where the new ones go
	err := d.write(ctx, func(c *pgx.Conn) error {
		err := c.QueryRow(ctx, d.sql.apply, fold(tenant), whole(tenant), ids, exclusive, claimed, at, behind,
			made.key, made.whole, made.data, made.terms, move.key, move.from, move.data, move.names, move.terms,
			cleared.key, cleared.from, cleared.data, cleared.terms,
			entry.claim, entry.key, entry.whole, entry.revision, entry.data, terms.entry, terms.whole).Scan(&stale)
		behind = code(err) == duplicate
		return err
	})
	switch {
	case err != nil || stale == 0:
		return err
	case stale <= int64(len(b.Checks)):
		return &memory.ConflictError{Key: b.Checks[stale-1].Key}
	}
	return &memory.ConflictError{Key: b.Puts[int(stale)-len(b.Checks)-1].Key}
}

// orEmpty is b, and no bytes instead of nil.
func orEmpty(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
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
	folded := foldAll(keys)
	at := make(map[string]int, len(keys)) // where a key is asked for first
	again := make([]int, len(keys))       // and where next, 0 if it is not
	for i := len(keys) - 1; i >= 0; i-- {
		name := keys[i]
		if objects[i].Key = name; len(name) > maxIndexed {
			name = string(folded[i])
		}
		again[i] = at[name]
		at[name] = i
	}
	keep := keeper(len(keys))
	err := d.read(ctx, func(c *pgx.Conn) error {
		for i := range objects {
			objects[i].Revision, objects[i].Data = 0, nil
		}
		return d.ask(ctx, c, tenant, d.sql.get, []any{fold(tenant), folded}, func(rows pgx.Rows) error {
			v := rows.RawValues()
			revision := binary.BigEndian.Uint64(v[1])
			for i, ok := at[string(v[0][4:])]; ok; ok = i > 0 {
				objects[i].Revision, objects[i].Data = revision, keep(v[2])
				i = again[i]
			}
			return nil
		})
	})
	return objects, err
}

// keeper copies data out of replies. That of many objects lies together, some hundred in
// a piece: a decision that asks for thousands keeps or drops them all.
func keeper(objects int) func(data []byte) []byte {
	const many, piece = 256, 64 << 10
	if objects < many {
		return bytes.Clone
	}
	var room []byte
	return func(data []byte) []byte {
		switch {
		case len(data) == 0 || len(data) > piece/4:
			return bytes.Clone(data)
		case len(data) > cap(room)-len(room):
			room = make([]byte, 0, piece)
		}
		from := len(room)
		room = append(room, data...)
		return room[from:len(room):len(room)]
	}
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
	name := termName(q.Term)
	end := beyond(string(name))
	if to < math.MaxUint64 {
		end = binary.BigEndian.AppendUint64(slices.Clip(name), to+1)
	}
	from := binary.BigEndian.AppendUint64(slices.Clip(name), after.Sort)
	content := int32(4 + len(name) + 1) // where the sort begins
	var hits []memory.Hit
	page := func(c *pgx.Conn) (long bool, err error) {
		hits = make([]memory.Hit, 0, min(q.Limit, 256))
		args := []any{fold(tenant), slices.Concat(from, []byte(after.Key)), end, int64(q.Limit) + 1, content} // one more shows whether there is more
		err = d.ask(ctx, c, tenant, d.sql.query, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			hits = append(hits, memory.Hit{Key: unfold(v[0][8:], v[1]), Sort: binary.BigEndian.Uint64(v[0])})
			long = long || v[1] != nil
			return nil
		})
		return long, err
	}
	longPage := func(c *pgx.Conn) error {
		hits = make([]memory.Hit, 0, min(q.Limit, 256))
		args := []any{fold(tenant), from, end, int64(q.Limit) + 1, content, sortKey(after.Sort), []byte(after.Key)}
		return d.ask(ctx, c, tenant, d.sql.queryLong, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			hits = append(hits, memory.Hit{Key: string(v[1]), Sort: binary.BigEndian.Uint64(v[0])})
			return nil
		})
	}
	err := d.read(ctx, func(c *pgx.Conn) error {
		// The index keeps long keys by their digest. A page that meets one is sorted
		// anew by the keys themselves, which takes as long as reading the term does.
		long, err := len(after.Key) > maxIndexed, error(nil)
		if !long {
			long, err = page(c)
		}
		if long && err == nil {
			err = longPage(c)
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
