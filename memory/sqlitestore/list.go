package sqlitestore

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// listPage is how many lines of a listing are read with one statement.
const listPage = 1000

// pages yields what page gives, again and again until it says that there is no more. It
// may give the same lines, filled anew. A line that is damaged has its own error, and the
// listing goes on.
func pages[T any](op string, page func() (lines []line[T], more bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for more := true; more; {
			var lines []line[T]
			var err error
			if lines, more, err = page(); err != nil {
				var none T
				yield(none, edge(op, err))
				return
			}
			for _, l := range lines {
				if !yield(l.value, l.damage) {
					return
				}
			}
		}
	}
}

type line[T any] struct {
	value  T
	damage error
}

func damaged(what string) error {
	return fmt.Errorf("sqlitestore: %w: %s", memory.ErrDamaged, what)
}

// Objects lists the objects of a tenant whose keys begin with prefix, by key, with the
// terms that are kept beside them. It reads some thousand at a time, each page as it is
// at that moment.
func (d *Driver) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
	from, page := prefix, make([]line[memory.Restored], 0, listPage)
	return pages("objects", func() (lines []line[memory.Restored], more bool, err error) {
		lines, more, err = d.objects(ctx, tenant, prefix, from, page)
		if n := len(lines); n > 0 {
			from = lines[n-1].value.Key + "\x00" // the next key that there can be
		}
		return lines, more, err
	})
}

func (d *Driver) objects(ctx context.Context, tenant, prefix, from string, page []line[memory.Restored]) (lines []line[memory.Restored], more bool, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, false, err
	}
	err = d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		lines, more = page[:0], false
		s, err := c.statement(stObjects)
		if err != nil {
			return err
		}
		c.bind()
		c.arg(tenant)
		c.blob(from)
		c.arg(int64(listPage + 1)) // one more shows whether there is more
		size := 0
		err = c.rows(ctx, s, 4, func(row []driver.Value) error {
			key := string(content(row[0]))
			if !strings.HasPrefix(key, prefix) {
				return errEnough
			}
			if len(lines) == listPage || size >= scanBytes {
				more = true
				return errEnough
			}
			var l line[memory.Restored]
			l.value.Key, l.value.Revision = key, uint64(row[1].(int64))
			if row[2] != nil {
				l.value.Data = content(row[2])
			}
			if l.value.Terms, err = decodeTerms(content(row[3])); err != nil {
				l.damage = damaged("the terms of an object do not decode")
			}
			size += len(l.value.Data)
			lines = append(lines, l)
			return nil
		})
		if err == errEnough {
			err = nil
		}
		return err
	})
	return lines, more, err
}

// Carriers lists the index of terms, by term, sort and key.
func (d *Driver) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
	after, page := indexed{name: prefix}, make([]line[memory.Carrier], 0, listPage)
	return pages("carriers", func() (lines []line[memory.Carrier], more bool, err error) {
		lines, after, more, err = d.carriers(ctx, tenant, prefix, after, page)
		return lines, more, err
	})
}

// indexed is a line of the index of terms, as it is kept.
type indexed struct{ name, sort, key string }

func (d *Driver) carriers(ctx context.Context, tenant, prefix string, after indexed, page []line[memory.Carrier]) (lines []line[memory.Carrier], last indexed, more bool, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, after, false, err
	}
	err = d.readIn(ctx, tenant, false, func(c *conn, tenant int64) error {
		lines, last, more = page[:0], after, false
		s, err := c.statement(stCarriers)
		if err != nil {
			return err
		}
		c.bind()
		c.arg(tenant)
		c.blob(after.name)
		c.blob(after.sort)
		c.blob(after.key)
		c.arg(int64(listPage + 1))
		var sort []byte // of the line before
		err = c.rows(ctx, s, 3, func(row []driver.Value) error {
			if len(lines) == listPage {
				more = true
				return errEnough
			}
			if name := content(row[0]); string(name) != last.name { // many lines share their name
				if !strings.HasPrefix(string(name), prefix) {
					return errEnough
				}
				last.name = string(name)
			}
			sort, last.key = content(row[1]), string(content(row[2]))
			l := line[memory.Carrier]{value: memory.Carrier{Term: memory.Term{Name: last.name}, Key: last.key}}
			if len(sort) == 8 {
				l.value.Sort = binary.BigEndian.Uint64(sort)
			} else {
				l.damage = damaged("a line of the index of terms has no sort")
			}
			lines = append(lines, l)
			return nil
		})
		last.sort = string(sort)
		if err == errEnough {
			err = nil
		}
		return err
	})
	return lines, last, more, err
}
