package redisstore

import (
	"context"
	_ "embed"
	"math"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

//go:embed scan.lua
var scanText string

var scanScript = newScript(scanText)

const (
	scanBytes = 4 << 20 // a page ends early once it holds so much
	scanLogs  = 2000    // or so many logs
	moreMark  = "more"  // shorter than any entry
)

// Scan lists the log entries of all keys of a tenant that begin with prefix, by key
// and revision. It asks for the keys first and then for what their logs hold.
func (d *Driver) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	entries, more, err = d.scanLogs(ctx, tenant, prefix, after, limit)
	if err != nil {
		return nil, false, edge(ctx, "scan", err)
	}
	return entries, more, nil
}

func (d *Driver) scanLogs(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, false, err
	}
	defer d.leave()
	if err := memory.CheckPage(limit); err != nil {
		return nil, false, err
	}
	base := d.tenant(tenant)
	place := after.From(prefix)
	for {
		// Two more: the log that the page before ended in may have no more entries, and
		// the last one only shows that there are others.
		most := min(limit, scanLogs) + 2
		from := "[" + place.Key
		if place.Revision == math.MaxUint64 {
			from = "(" + place.Key
		}
		names, err := d.strings(ctx, "zrangebylex", base+kindRegister, from, "+", "limit", 0, most)
		if err != nil {
			return nil, false, err
		}
		others := len(names) == most
		for i, name := range names {
			if !strings.HasPrefix(name, prefix) {
				names, others = names[:i], false
				break
			}
		}
		if len(names) == 0 {
			return nil, false, nil
		}
		if others {
			names = names[:most-1]
		}
		entries, more, err = d.scanNamed(ctx, base, names, place, limit)
		if err != nil || len(entries) > 0 || !others {
			return entries, more || others, err
		}
		place = memory.LogPlace{Key: names[len(names)-1], Revision: math.MaxUint64} // all of these were emptied meanwhile
	}
}

// scanNamed lists what follows a place in some logs.
func (d *Driver) scanNamed(ctx context.Context, base string, names []string, place memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
	first := uint64(0)
	if names[0] == place.Key {
		first = place.Revision + 1
	}
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = base + kindLog + name
	}
	list, err := d.run(ctx, scanScript, false, keys, bytes8(first), limit, scanBytes).StringSlice()
	if err != nil {
		return nil, false, err
	}
	size := 0
	for _, e := range list {
		size += len(e)
	}
	arena := make([]byte, 0, size) // what the entries hold lies in one piece
	entries = make([]memory.Logged, 0, len(list))
	for _, e := range list {
		switch {
		case e == moreMark:
			return entries, true, nil
		case e == "" && len(names) > 0:
			names = names[1:]
		case len(e) < 8 || len(names) == 0:
			return nil, false, errDamaged
		default:
			at := len(arena)
			arena = append(arena, e[8:]...)
			entries = append(entries, memory.Logged{Key: names[0], LogEntry: memory.LogEntry{Revision: number8(e), Data: arena[at:len(arena):len(arena)]}})
		}
	}
	return entries, false, nil
}
