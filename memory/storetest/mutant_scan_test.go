package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/hearsay-go/hearsay/memory"
)

type scanner = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error)

// scanMutants have a fault in what lists all log entries.
var scanMutants = map[string]func(m *mutant, d memory.Driver){
	"a scan that leans on objects": func(m *mutant, d memory.Driver) {
		scanOf(m, d, func(o memory.Object) bool { return o.Revision > 0 })
	},
	"a scan that passes over tombstones": func(m *mutant, d memory.Driver) {
		scanOf(m, d, func(o memory.Object) bool { return o.Data != nil || o.Revision == 0 })
	},
	"a scan that begins the log again at each page": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, memory.LogPlace{Key: after.Key}, limit)
			if len(entries) > 0 && entries[len(entries)-1].Place() == after { // and does not stay there for ever
				return d.Scan(ctx, tenant, prefix, after, limit)
			}
			return entries, more, err
		}
	},
	"a scan that drops the rest of a log at the end of a page": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if after.Key != "" {
				after.Revision = 1<<64 - 1
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan after an int64": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if int64(after.Revision) < 0 {
				after.Revision = 0
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan after 32 bits of a revision": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			after.Revision &= 1<<32 - 1
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan that gives the entry at its place again": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if after.Revision > 0 && limit > 1 {
				after.Revision--
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan that leaves out a log that is exactly at its place": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if after.Key != "" && after.Revision == 0 {
				after.Revision = 1<<64 - 1
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan by revision and then by key": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			slices.SortStableFunc(entries, func(x, y memory.Logged) int { return cmp.Compare(x.Revision, y.Revision) })
			return entries
		})
	},
	"a scan without regard to case": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			slices.SortStableFunc(entries, func(x, y memory.Logged) int {
				return strings.Compare(strings.ToLower(x.Key), strings.ToLower(y.Key))
			})
			return entries
		})
	},
	"a scan that says of more at the end": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
			return entries, more || err == nil && len(entries) == limit, err
		}
	},
	"a scan that ends with a page that was cut short": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
			return entries, more && len(entries) == limit, err
		}
	},
	"a scan of any limit": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			return d.Scan(ctx, tenant, prefix, after, min(max(limit, 1), memory.MaxQueryLimit))
		}
	},
	"a scan past its limit": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if memory.CheckPage(limit) == nil && limit < memory.MaxQueryLimit {
				limit++
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan of any size": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) (all []memory.Logged, more bool, err error) {
			for more = true; more; {
				var page []memory.Logged
				if page, more, err = d.Scan(ctx, tenant, prefix, after, limit-len(all)); err != nil {
					return nil, false, err
				}
				if all = append(all, page...); len(all) == limit || len(page) == 0 {
					break
				}
				after = all[len(all)-1].Place()
			}
			return all, more, err
		}
	},
	"a scan whose large entries fit on no page": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			if len(entries) > 0 && len(entries[0].Data) >= memory.MaxBatchBytes-10 {
				return nil
			}
			return entries
		})
	},
	"a scan by a pattern": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if before, _, ok := strings.Cut(prefix, "%"); ok {
				prefix = before
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan up to the last byte of a prefix plus one": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if strings.HasSuffix(prefix, "\xff") { // it overflows
				return nil, false, memory.CheckPage(limit)
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan that begins again at the prefix": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			if after.Key < prefix {
				after.Key = prefix // and at the revision that was meant for another key
			}
			return d.Scan(ctx, tenant, prefix, after, limit)
		}
	},
	"a scan without a prefix": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			return d.Scan(ctx, tenant, "", after.From(prefix), limit)
		}
	},
	"a scan of every tenant": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
			if err == nil && len(entries) == 0 && tenant != "tenant" {
				return d.Scan(ctx, "tenant", prefix, after, limit)
			}
			return entries, more, err
		}
	},
	"a scan of tenants without regard to case": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			return d.Scan(ctx, strings.ToLower(tenant), prefix, after, limit)
		}
	},
	"a scan whose entries of no bytes are nil": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			for i := range entries {
				if len(entries[i].Data) == 0 {
					entries[i].Data = nil
				}
			}
			return entries
		})
	},
	"a scan that leaves out entries of no bytes": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			return slices.DeleteFunc(entries, func(e memory.Logged) bool { return len(e.Data) == 0 })
		})
	},
	"a scan whose entries reach into each other": func(m *mutant, d memory.Driver) {
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			var all []byte
			for _, e := range entries {
				all = append(all, e.Data...)
			}
			at := 0
			for i := range entries {
				n := len(entries[i].Data)
				if n > 0 {
					entries[i].Data = all[at : at+n]
				}
				at += n
			}
			return entries
		})
	},
	"a scan that gives its own bytes": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		kept := map[memory.LogPlace][]byte{}
		scanned(m, d, func(entries []memory.Logged) []memory.Logged {
			mu.Lock()
			defer mu.Unlock()
			for i := range entries {
				if !strings.HasPrefix(string(entries[i].Data), "entry ") {
					continue
				}
				if data, ok := kept[entries[i].Place()]; ok {
					entries[i].Data = data
				}
				kept[entries[i].Place()] = entries[i].Data
			}
			return entries
		})
	},
	"a scan by offset": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		offsets := map[memory.LogPlace]int{}
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			offset, ok := offsets[after]
			if !ok || limit != 7 || prefix != "0" {
				offset = 0
				if prefix != "0" || after.Key != "" {
					return d.Scan(ctx, tenant, prefix, after, limit)
				}
			}
			all, _, err := d.Scan(ctx, tenant, prefix, memory.LogPlace{}, memory.MaxQueryLimit)
			if err != nil {
				return nil, false, err
			}
			page := all[min(offset, len(all)):min(offset+limit, len(all))]
			if len(page) > 0 {
				offsets[page[len(page)-1].Place()] = offset + len(page)
			}
			return page, offset+len(page) < len(all), nil
		}
	},
	"a scan that remembers what was removed": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		removed := map[string][]memory.Logged{}
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			err := d.Rewrite(ctx, tenant, key, entries)
			mu.Lock()
			defer mu.Unlock()
			for _, e := range entries {
				if err == nil && e.Data == nil {
					removed[tenant] = append(removed[tenant], memory.Logged{Key: key, LogEntry: memory.LogEntry{Revision: e.Revision, Data: []byte{}}})
				}
			}
			return err
		}
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
			mu.Lock()
			defer mu.Unlock()
			if err == nil && !more && after.Key == "" {
				for _, e := range removed[tenant] {
					if strings.HasPrefix(e.Key, prefix) && len(entries) < limit {
						entries = append(entries, e)
					}
				}
			}
			return entries, more, err
		}
	},
	"a scan after close": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
			if err == memory.ErrClosed {
				return nil, false, nil
			}
			return entries, more, err
		}
	},
	"a scan that nobody can cancel": func(m *mutant, d memory.Driver) {
		m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
			return d.Scan(context.WithoutCancel(ctx), tenant, prefix, after, limit)
		}
	},
}

// scanned passes every page through a function.
func scanned(m *mutant, d memory.Driver, change func([]memory.Logged) []memory.Logged) {
	m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
		entries, more, err := d.Scan(ctx, tenant, prefix, after, limit)
		return change(entries), more, err
	}
}

// scanOf lists only logs beside objects of some kind.
func scanOf(m *mutant, d memory.Driver, keep func(memory.Object) bool) {
	var inner scanner = d.Scan
	m.scan = func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
		for {
			entries, more, err := inner(ctx, tenant, prefix, after, limit)
			if err != nil || len(entries) == 0 {
				return entries, more, err
			}
			keys := make([]string, len(entries))
			for i := range entries {
				keys[i] = entries[i].Key
			}
			objects, err := d.Get(ctx, tenant, keys)
			if err != nil {
				return nil, false, err
			}
			after = entries[len(entries)-1].Place()
			var kept []memory.Logged
			for i, o := range objects {
				if keep(o) {
					kept = append(kept, entries[i])
				}
			}
			if len(kept) > 0 || !more {
				return kept, more, nil
			}
		}
	}
}
