package redisstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

const (
	listPage  = 1000 // carriers of one term that are read at once
	listTerms = 200  // terms that are read in one trip
	listCount = 500  // fields of a hash that are asked for in one trip
)

func damaged(what string) error {
	return fmt.Errorf("redisstore: %w: %s", memory.ErrDamaged, what)
}

// Objects lists the objects of a tenant whose keys begin with prefix, with the terms
// that are kept beside them, in no order.
func (d *Driver) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
	return func(yield func(memory.Restored, error) bool) {
		for at := range objectHashes {
			if !d.hash(ctx, of(d.tenant(tenant), kindObject, at), prefix, yield) {
				return
			}
		}
	}
}

// hash lists one hash of objects. The server may give a field twice.
func (d *Driver) hash(ctx context.Context, key, prefix string, yield func(memory.Restored, error) bool) (goOn bool) {
	given := map[string]struct{}{}
	for cursor, more := uint64(0), true; more; {
		var fields []string
		err := d.call(ctx, "objects", func() (err error) {
			fields, cursor, err = d.client.HScan(ctx, key, cursor, "*", listCount).Result()
			return err
		})
		if err != nil {
			yield(memory.Restored{}, err)
			return false
		}
		for pair := range slices.Chunk(fields, 2) {
			name := pair[0]
			if _, twice := given[name]; twice || len(pair) < 2 || !strings.HasPrefix(name, prefix) {
				continue
			}
			given[name] = struct{}{}
			o, err := parseRestored(name, pair[1])
			if !yield(o, err) {
				return false
			}
		}
		more = cursor != 0
	}
	return true
}

func parseRestored(name, value string) (o memory.Restored, err error) {
	o.Key = name
	terms, err := parseObject(value, &o.Object)
	if err == nil {
		o.Terms, err = parseTerms(terms)
	}
	if err != nil {
		err = damaged("an object does not decode")
	}
	return o, err
}

// Carriers lists the index of terms, by term. It looks at the name of every key of the
// database first.
func (d *Driver) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
	return func(yield func(memory.Carrier, error) bool) {
		base := d.tenant(tenant) + kindTerm
		var names []string
		err := d.call(ctx, "carriers", func() error {
			found, err := d.scan(ctx, base+"*", func(key string) (string, bool) {
				name, ok := strings.CutPrefix(key, base)
				return name, ok && strings.HasPrefix(name, prefix)
			})
			names = slices.Sorted(maps.Keys(found))
			return err
		})
		if err != nil {
			yield(memory.Carrier{}, err)
			return
		}
		for some := range slices.Chunk(names, listTerms) {
			if !d.carriers(ctx, base, some, yield) {
				return
			}
		}
	}
}

// carriers lists some terms, and those with many carriers one by one.
func (d *Driver) carriers(ctx context.Context, base string, names []string, yield func(memory.Carrier, error) bool) (goOn bool) {
	cmds := make([]*redis.ZSliceCmd, len(names))
	err := d.call(ctx, "carriers", func() error {
		_, err := d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				cmds[i] = p.ZRangeWithScores(ctx, base+name, 0, listPage)
			}
			return nil
		})
		if code(err) == "WRONGTYPE" { // one of them; each is asked
			err = nil
		}
		return err
	})
	if err != nil {
		yield(memory.Carrier{}, err)
		return false
	}
	for i, name := range names {
		found, err := cmds[i].Result()
		switch {
		case err != nil:
			if !yield(memory.Carrier{Term: memory.Term{Name: name}}, damaged("a term is no sorted set")) {
				return false
			}
			continue
		case len(found) > listPage:
			if !d.term(ctx, base, name, yield) {
				return false
			}
			continue
		}
		for _, m := range found {
			member, _ := m.Member.(string)
			if c, err := parseMember(name, member, m.Score); !yield(c, err) {
				return false
			}
		}
	}
	return true
}

// term lists a term with many carriers. Their order is that of their bytes only as long
// as all of them have the score 0.
func (d *Driver) term(ctx context.Context, base, name string, yield func(memory.Carrier, error) bool) (goOn bool) {
	var scored int64
	for from := "-"; from != ""; {
		var members []string
		err := d.call(ctx, "carriers", func() (err error) {
			members, err = d.strings(ctx, "zrangebylex", base+name, from, "+", "limit", 0, listPage)
			return err
		})
		if err != nil {
			yield(memory.Carrier{}, err)
			return false
		}
		for _, m := range members {
			if c, err := parseMember(name, m, 0); !yield(c, err) {
				return false
			}
		}
		if from = ""; len(members) == listPage {
			from = "(" + members[listPage-1]
		}
	}
	err := d.call(ctx, "carriers", func() error {
		cmds, err := d.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ZCount(ctx, base+name, "-inf", "(0")
			p.ZCount(ctx, base+name, "(0", "+inf")
			return nil
		})
		if err == nil {
			scored = cmds[0].(*redis.IntCmd).Val() + cmds[1].(*redis.IntCmd).Val()
		}
		return err
	})
	switch {
	case err != nil && !errors.Is(err, memory.ErrStore):
		yield(memory.Carrier{}, err)
		return false
	case err != nil || scored > 0:
		return yield(memory.Carrier{Term: memory.Term{Name: name}}, damaged("a carrier of a term is out of its order"))
	}
	return true
}

func parseMember(name, member string, score float64) (memory.Carrier, error) {
	c := memory.Carrier{Term: memory.Term{Name: name}}
	if len(member) <= 8 {
		return c, damaged("a carrier of a term does not decode")
	}
	c.Sort, c.Key = number8(member), member[8:]
	if score != 0 {
		return c, damaged("a carrier of a term is out of its order")
	}
	return c, nil
}
