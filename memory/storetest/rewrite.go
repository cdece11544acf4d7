package storetest

import (
	"context"

	"github.com/hearsay-go/hearsay/memory"
)

// Rewrite changes log entries of one key whatever they hold now, as a test does that
// tampers with a log: it reads the log and has the driver rewrite it from there. The
// driver is asked in any case, and refuses what the log does not have.
func Rewrite(ctx context.Context, d memory.Driver, tenant, key string, entries []memory.LogEntry) error {
	return d.Rewrite(ctx, tenant, key, rewriting(ctx, d, tenant, key, entries))
}

// rewriting is entries with what they hold now, or no bytes if they are not there.
func rewriting(ctx context.Context, d memory.Driver, tenant, key string, entries []memory.LogEntry) []memory.Rewritten {
	was := map[uint64][]byte{}
	for after := uint64(0); ; {
		page, err := d.History(ctx, tenant, key, after, memory.MaxQueryLimit)
		for _, l := range page {
			was[l.Revision], after = l.Data, l.Revision
		}
		if err != nil || len(page) < memory.MaxQueryLimit {
			break
		}
	}
	out := make([]memory.Rewritten, len(entries))
	for i, e := range entries {
		out[i] = memory.Rewritten{LogEntry: e, Was: was[e.Revision]}
		if out[i].Was == nil {
			out[i].Was = []byte{}
		}
	}
	return out
}
