package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/jackc/pgx/v5"
)

// listPage is how many lines of a listing one statement reads.
const listPage = 1000

// listTexts are the statements of Objects and Carriers. A page of objects ends early as
// in Scan.
func listTexts(schema string) (objects, carriers string) {
	number, _ := numbers(schema)
	return `SELECT key, whole, revision, data, terms FROM (
			SELECT key, whole, revision, data, terms, sum(octet_length(data)) OVER (ORDER BY key ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING) AS before
			FROM (SELECT key, whole, revision, data, terms FROM ` + schema + `.object
				WHERE key >= ` + number + ` || $2::bytea AND key < ` + number + ` || $3::bytea ORDER BY key LIMIT $4) o) page
			WHERE before IS NULL OR before < $5 ORDER BY key`,
		`SELECT entry, whole FROM ` + schema + `.term
			WHERE entry >= ` + number + ` || $2::bytea AND entry < ` + number + ` || $3::bytea ORDER BY entry LIMIT $4`
}

// afterAll comes after every key and entry of a tenant, behind its number.
var afterAll = bytes.Repeat([]byte{0xff}, 3*(maxIndexed+sha256.Size))

func damaged(what string) error {
	return fmt.Errorf("pgstore: %w: %s", memory.ErrDamaged, what)
}

// Objects lists the objects of a tenant whose keys begin with prefix, with the terms
// that are kept beside them, by what the index has of their keys.
func (d *Driver) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
	return func(yield func(memory.Restored, error) bool) {
		from := []byte(prefix[:min(len(prefix), maxIndexed)])
		end := endOf(from)
		for from != nil {
			page, next, err := d.objects(ctx, tenant, from, end)
			if err != nil {
				yield(memory.Restored{}, edge("objects", err))
				return
			}
			for i := range page {
				if !strings.HasPrefix(page[i].Key, prefix) {
					continue
				}
				var err error
				if !page[i].decoded {
					err = damaged("the terms of an object do not decode")
				}
				if !yield(page[i].Restored, err) {
					return
				}
			}
			from = next
		}
	}
}

// endOf is what comes after all that begin with some bytes.
func endOf(prefix []byte) []byte {
	if end := beyond(string(prefix)); end != nil {
		return end
	}
	return afterAll
}

type listed struct {
	memory.Restored
	decoded bool // its terms are what an object carries
}

func (d *Driver) objects(ctx context.Context, tenant string, from, end []byte) (page []listed, next []byte, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	err = d.read(ctx, func(c *pgx.Conn) error {
		page, next = nil, nil
		size := 0
		args := []any{fold(tenant), from, end, int64(listPage) + 1, int64(scanBytes)}
		return d.ask(ctx, c, tenant, d.sql.objects, args, func(rows pgx.Rows) error {
			v := rows.RawValues()
			if len(page) == listPage || size >= scanBytes {
				next = bytes.Clone(v[0][4:])
				return nil
			}
			var o listed
			o.Key, o.Revision, o.Data = unfold(v[0][4:], v[1]), binary.BigEndian.Uint64(v[2]), bytes.Clone(v[3])
			o.Terms, o.decoded = parseTerms(v[4])
			size += len(o.Data)
			page = append(page, o)
			return nil
		})
	})
	return page, next, err
}

// item reads one term as it is kept, and says what follows it.
func item(b []byte) (t memory.Term, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)) || len(b) < size+int(n)+8 {
		return t, nil, false
	}
	name, rest := b[size:size+int(n)], b[size+int(n):]
	return memory.Term{Name: string(name), Sort: binary.BigEndian.Uint64(rest)}, rest[8:], true
}

func parseTerms(b []byte) (terms []memory.Term, ok bool) {
	for len(b) > 0 {
		var t memory.Term
		if t, b, ok = item(b); !ok {
			return terms, false
		}
		terms = append(terms, t)
	}
	return terms, true
}

// Carriers lists the index of terms, in its own order.
func (d *Driver) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
	return func(yield func(memory.Carrier, error) bool) {
		for from := []byte{}; from != nil; {
			var page []indexed
			var err error
			if page, from, err = d.indexed(ctx, tenant, from); err != nil {
				yield(memory.Carrier{}, edge("carriers", err))
				return
			}
			for _, e := range page {
				if !strings.HasPrefix(e.Name, prefix) {
					continue
				}
				var err error
				if !e.decoded {
					err = damaged("a line of the index of terms does not decode")
				}
				if !yield(e.Carrier, err) {
					return
				}
			}
		}
	}
}

type indexed struct {
	memory.Carrier
	decoded bool
}

func (d *Driver) indexed(ctx context.Context, tenant string, from []byte) (page []indexed, next []byte, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	err = d.read(ctx, func(c *pgx.Conn) error {
		page, next = nil, nil
		return d.ask(ctx, c, tenant, d.sql.carriers, []any{fold(tenant), from, afterAll, int64(listPage) + 1}, func(rows pgx.Rows) error {
			v := rows.RawValues()
			if len(page) == listPage {
				next = bytes.Clone(v[0][4:])
				return nil
			}
			var e indexed
			var key []byte
			e.Term, key, e.decoded = item(v[0][4:])
			e.decoded = e.decoded && len(key) > 0
			e.Key = unfold(key, v[1])
			page = append(page, e)
			return nil
		})
	})
	return page, next, err
}
