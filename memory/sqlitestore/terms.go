package sqlitestore

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// An object keeps the terms it carries beside its data, so that the one index of
// terms can be changed from there: a second one, by key, would cost as much again
// for every term of every row.

// encodeTerms writes terms as an object keeps them; no terms are NULL.
func encodeTerms(terms []memory.Term) []byte {
	var b []byte
	for _, t := range terms {
		b = binary.AppendUvarint(b, uint64(len(t.Name)))
		b = append(b, t.Name...)
		b = binary.BigEndian.AppendUint64(b, t.Sort)
	}
	return b
}

// errTerms: what an object carries cannot be read.
var errTerms = fmt.Errorf("%w: the file is damaged: terms of an object", memory.ErrStore)

func decodeTerms(b []byte) ([]memory.Term, error) {
	if len(b) == 0 {
		return nil, nil
	}
	const usual = 1 + 9 + 8 // bytes of a term
	terms := make([]memory.Term, 0, len(b)/usual+1)
	for all := string(b); len(b) > 0; {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)) || len(b) < size+int(n)+8 {
			return nil, errTerms
		}
		end := size + int(n)
		terms = append(terms, memory.Term{Name: all[size:end], Sort: binary.BigEndian.Uint64(b[end:])})
		b, all = b[end+8:], all[end+8:]
	}
	return terms, nil
}

// distinct keeps the last of terms of one name.
func distinct(terms []memory.Term) []memory.Term {
	const few = 64 // looking through them all is faster than a map
	repeats := len(terms) > few
	for i := 1; i < len(terms) && !repeats; i++ {
		repeats = at(terms[:i], terms[i].Name) >= 0
	}
	if !repeats {
		return terms
	}
	places := make(map[string]int, len(terms))
	out := terms[:0:0]
	for _, t := range terms {
		if i, ok := places[t.Name]; ok {
			out[i] = t
			continue
		}
		places[t.Name] = len(out)
		out = append(out, t)
	}
	return out
}

// at is where the term of a name is among a few, or -1.
func at(terms []memory.Term, name string) int {
	return slices.IndexFunc(terms, func(t memory.Term) bool { return t.Name == name })
}

// carrier is a line of the index of terms.
type carrier struct {
	memory.Term
	key string
}

// carry notes terms that key does not carry yet. They are written when the batch is
// through, in the order of the index, many with one statement: most of what a row
// costs is its terms.
func (c *conn) carry(key string, terms []memory.Term) {
	for _, t := range terms {
		c.carriers = append(c.carriers, carrier{t, key})
	}
}

// drop notes a term that key carries no longer.
func (c *conn) drop(key string, t memory.Term) { c.dropped = append(c.dropped, carrier{t, key}) }

// byIndex is the order of the index.
func byIndex(a, b carrier) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Sort, b.Sort), strings.Compare(a.key, b.key))
}

// carrySizes are how many lines one statement writes.
var carrySizes = [...]int{32, 16, 8, 4, 2, 1}

// (A line that is there already is of an object that was lost with no trace: it is the line of
// the new one. OR IGNORE also spares SQLite a journal of every page, to take back half of a
// statement.)
func carryText(n int) string {
	return `INSERT OR IGNORE INTO term (tenant, name, sort, key) VALUES ` + strings.TrimSuffix(strings.Repeat("(?,?,?,?),", n), ",")
}

// writeCarriers writes what drop and carry noted.
func (c *conn) writeCarriers(ctx context.Context, tenant int64) error {
	slices.SortFunc(c.dropped, byIndex)
	for i, d := range c.dropped {
		if i%64 == 63 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.term(stDrop, tenant, d.key, d.Term); err != nil {
			return err
		}
	}
	list := c.carriers
	slices.SortFunc(list, byIndex)
	for i, size := range carrySizes {
		for ; len(list) >= size; list = list[size:] {
			if err := ctx.Err(); err != nil {
				return err
			}
			s, err := c.prepare(&c.carries[i], func() string { return carryText(size) })
			if err != nil {
				return err
			}
			c.bind()
			for j := range list[:size] {
				c.arg(tenant)
				c.blob(list[j].Name)
				c.sort(list[j].Sort)
				c.blob(list[j].key)
			}
			if _, err := s.ExecContext(context.Background(), c.args); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *conn) term(id int, tenant int64, key string, t memory.Term) error {
	c.bind()
	c.arg(tenant)
	c.blob(t.Name)
	c.sort(t.Sort)
	c.blob(key)
	_, err := c.exec(id)
	return err
}

// carried are the terms of an object.
func (c *conn) carried(tenant int64, key string) (terms []memory.Term, err error) {
	s, err := c.statement(stTerms)
	if err != nil {
		return nil, err
	}
	c.bind()
	c.arg(tenant)
	c.blob(key)
	err = c.rows(context.Background(), s, 1, func(row []driver.Value) error {
		terms, err = decodeTerms(content(row[0]))
		return err
	})
	return terms, err
}

// dropAll deletes every line of the index that leads to a key. It reads the whole index: it is
// for an object that no longer says which they are.
func (c *conn) dropAll(tenant int64, key string) error {
	c.bind()
	c.arg(tenant)
	c.blob(key)
	_, err := c.exec(stDropAll)
	return err
}

// recarry is what an object carries after a put, and notes what changes by it. The put
// may turn out to be stale: then nothing of it is written.
func (c *conn) recarry(tenant int64, p *memory.Put) ([]memory.Term, error) {
	terms, err := c.carried(tenant, p.Key)
	if err != nil {
		return nil, err
	}
	kept := terms[:0]
	for _, t := range terms {
		if p.Clear || slices.Contains(p.Remove, t.Name) {
			c.drop(p.Key, t)
			continue
		}
		kept = append(kept, t)
	}
	for _, t := range distinct(p.Add) {
		i := at(kept, t.Name)
		if i >= 0 {
			if kept[i].Sort == t.Sort {
				continue
			}
			c.drop(p.Key, kept[i])
			kept[i] = t
		} else {
			kept = append(kept, t)
		}
		c.carry(p.Key, []memory.Term{t})
	}
	return kept, nil
}

// verifyTerms asks that the index of terms is what the objects carry.
func (c *conn) verifyTerms(ctx context.Context) error {
	carried := int64(0)
	damaged := fmt.Errorf("%w: the file is damaged: the index of terms is not what the objects carry", memory.ErrStore)
	s, err := c.raw.Prepare(`SELECT count(*) FROM term WHERE tenant = ? AND name = ? AND sort = ? AND key = ?`)
	if err != nil {
		return err
	}
	defer s.Close()
	err = c.once(ctx, `SELECT tenant, key, terms FROM object WHERE terms IS NOT NULL`, 3, func(row []driver.Value) error {
		tenant, key := row[0].(int64), content(row[1])
		terms, err := decodeTerms(content(row[2]))
		if err != nil {
			return err
		}
		for _, t := range terms {
			args := []driver.NamedValue{{Ordinal: 1, Value: tenant}, {Ordinal: 2, Value: []byte(t.Name)},
				{Ordinal: 3, Value: binary.BigEndian.AppendUint64(nil, t.Sort)}, {Ordinal: 4, Value: key}}
			rows, err := s.(statement).QueryContext(ctx, args)
			if err != nil {
				return err
			}
			found := []driver.Value{nil}
			err = rows.Next(found)
			if closeErr := rows.Close(); err == nil {
				err = closeErr
			}
			if err != nil {
				return err
			}
			if found[0] != int64(1) {
				return damaged
			}
			carried++
		}
		return nil
	})
	if err != nil {
		return err
	}
	n, err := c.number(ctx, `SELECT count(*) FROM term`)
	if err == nil && n != carried {
		err = damaged
	}
	return err
}

// number is the number of a tenant in this file; 0 if it has none.
func (d *Driver) number(c *conn, tenant string) (int64, error) {
	if id, ok := d.tenants.Load(tenant); ok {
		return id.(int64), nil
	}
	s, err := c.statement(stTenant)
	if err != nil {
		return 0, err
	}
	var id int64
	c.bind()
	c.blob(tenant)
	err = c.rows(context.Background(), s, 1, func(row []driver.Value) error {
		id = row[0].(int64)
		return nil
	})
	return id, err
}

// readIn is read for one tenant. The number of one that nobody wrote to is 0.
func (d *Driver) readIn(ctx context.Context, tenant string, transaction bool, work func(c *conn, tenant int64) error) error {
	return d.read(ctx, transaction, func(c *conn) error {
		id, err := d.number(c, tenant)
		if err != nil {
			return err
		}
		if id > 0 {
			d.tenants.Store(tenant, id) // a tenant keeps its number
		}
		return work(c, id)
	})
}

// writeIn is write for one tenant, which gets a number if it has none and needs it.
func (d *Driver) writeIn(ctx context.Context, tenant string, needed bool, work func(c *conn, tenant int64) error) error {
	return d.write(ctx, func(c *conn) error {
		id, err := d.number(c, tenant)
		if err == nil && id == 0 && needed {
			c.bind()
			c.blob(tenant)
			if _, err = c.exec(stNewTenant); err == nil {
				id, err = d.number(c, tenant)
			}
		}
		if err != nil {
			return err
		}
		return work(c, id)
	})
}
