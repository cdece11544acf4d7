package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// scanBytes is how much a page of Scan holds before it ends early.
const scanBytes = 4 << 20

var errEnough = errors.New("enough")

// scanTexts are the statements of Scan: by the index, and by the keys themselves,
// as in Query. The server ends a page early: it sends what comes before so many
// bytes, the entry that goes beyond, and one more, which shows that there is more.
func scanTexts(schema string) (folded, whole string) {
	page := func(from string) string {
		return `SELECT key, whole, revision, data FROM (
			SELECT place, key, whole, revision, data, sum(octet_length(data)) OVER (ORDER BY place, revision ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before
			FROM (` + from + ` ORDER BY place, revision LIMIT $5) log) page
			WHERE before IS NULL OR before < $6 ORDER BY place, revision`
	}
	number, next := numbers(schema)
	return page(`SELECT key AS place, substring(key, 5) AS key, whole, revision, data FROM ` + schema + `.log
			WHERE (key, revision) > (` + number + ` || $2::bytea, $3) AND key < ` + number + ` || $4::bytea`),
		page(`SELECT place, place AS key, NULL::bytea AS whole, revision, data FROM (
				SELECT coalesce(whole, substring(key, 5)) AS place, revision, data FROM ` + schema + `.log WHERE key > ` + number + ` AND key < ` + next + `) log
			WHERE (place, revision) > ($2::bytea, $3) AND ($4::bytea IS NULL OR place < $4)`)
}

// Scan lists the log entries of all keys of a tenant that begin with prefix, by key
// and revision, in one statement. A page with a key that the index holds by its
// digest is sorted anew, which takes as long as reading all logs does.
func (d *Driver) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	entries, more, err = d.scan(ctx, tenant, prefix, after, limit)
	if err != nil {
		return nil, false, edge("scan", err)
	}
	return entries, more, nil
}

func (d *Driver) scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, false, err
	}
	if err := memory.CheckPage(limit); err != nil {
		return nil, false, err
	}
	folded, long := scanTexts(quote(d.schema))
	from := after.From(prefix)
	list := func(c *pgx.Conn, statement string, end []byte) (met bool, err error) {
		entries, more = nil, false
		arena := []byte{} // what the entries of a page hold lies in few pieces
		key, size := "", 0
		args := []any{fold(tenant), []byte(from.Key), int64(min(from.Revision, math.MaxInt64)), end, int64(limit) + 1, int64(scanBytes)}
		err = d.ask(ctx, c, tenant, statement, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			if v[1] != nil {
				met = true
			}
			if len(entries) == limit || size >= scanBytes {
				more = true
				return errEnough
			}
			name := v[0]
			if v[1] != nil {
				name = v[1]
			}
			if string(name) != key { // entries of one log share their key
				key = string(name)
			}
			if len(v[3]) > cap(arena)-len(arena) {
				arena = make([]byte, 0, max(len(v[3]), 64<<10))
			}
			at := len(arena)
			arena = append(arena, v[3]...)
			e := memory.LogEntry{Revision: binary.BigEndian.Uint64(v[2]), Data: arena[at:len(arena):len(arena)]}
			entries = append(entries, memory.Logged{Key: key, LogEntry: e})
			size += len(e.Data)
			return nil
		})
		if err == errEnough {
			err = nil
		}
		return met, err
	}
	err = d.read(ctx, func(c *pgx.Conn) error { // long keys as in Query
		met, err := len(from.Key) > maxIndexed, error(nil)
		if end := beyond(prefix); !met {
			if end == nil {
				end = bytes.Repeat([]byte{0xff}, maxIndexed+sha256.Size+1) // after every folded key
			}
			met, err = list(c, folded, end)
		}
		if met && err == nil {
			_, err = list(c, long, beyond(prefix))
		}
		return err
	})
	return entries, more, err
}
