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

var scanScript = newScript(logText, scanText)

const (
	scanBytes = 4 << 20 // a page ends early once it holds so much
	scanLogs  = 2000    // or so many logs
	moreMark  = "more"  // shorter than any piece
)

// Scan lists the log entries of all keys of a tenant that begin with prefix, by key
// and revision. It asks for the keys first and then for what their logs hold.
func (d *Driver) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
	var entries []memory.Logged
	var more bool
	err := d.call(ctx, "scan", func() (err error) {
		entries, more, err = d.scanLogs(ctx, tenant, prefix, after, limit)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	return entries, more, nil
}

func (d *Driver) scanLogs(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (entries []memory.Logged, more bool, err error) {
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
	places := make([]byte, len(names))
	args := make([]any, 4, 4+len(names))
	args[0], args[1], args[2], args[3] = bytes8(first), limit, scanBytes, places
	var keys []string
	var number [logHashes]byte
	for i, name := range names {
		at := logHash(name)
		if number[at] == 0 {
			keys = append(keys, of(base, kindLog, at))
			number[at] = byte(len(keys)) // Lua counts from 1
		}
		places[i] = number[at]
		args = append(args, name)
	}
	list, err := d.run(ctx, scanScript, false, keys, args...).StringSlice()
	if err != nil {
		return nil, false, err
	}
	for _, piece := range list {
		switch {
		case piece == moreMark:
			return entries, true, nil
		case len(names) == 0:
			return nil, false, errDamaged
		case piece == "":
			names = names[1:]
		}
		for s := piece; len(s) > 0; {
			if len(entries) == limit {
				return entries, true, nil
			}
			end, err := recordEnd(s)
			if err != nil {
				return nil, false, err
			}
			entries = append(entries, memory.Logged{Key: names[0], LogEntry: memory.LogEntry{Revision: number8(s[end-8:]), Data: bytesOf(s[4 : end-8])}})
			s = s[end:]
		}
	}
	return entries, false, nil
}
