package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// maintenanceMutants have a fault in what an operator calls, or one that needs
// such a call, or many callers at once, to be seen.
var maintenanceMutants = map[string]func(m *mutant, d memory.Driver){
	"a check of an absent key that is not serialised": func(m *mutant, d memory.Driver) {
		looseChecks(m, d, func(c memory.Check) bool { return c.Revision == 0 })
	},
	"a check at a revision that is not serialised": func(m *mutant, d memory.Driver) {
		looseChecks(m, d, func(c memory.Check) bool { return c.Revision > 0 })
	},
	"a batch in two parts that others see": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if len(b.Puts) < 8 || b.Check() != nil {
				return d.Apply(ctx, tenant, b)
			}
			first := memory.Batch{Checks: slices.Clone(b.Checks), Puts: b.Puts[:4]}
			for _, p := range b.Puts[4:] {
				if len(first.Checks)+len(first.Puts) < memory.MaxBatchOps {
					first.Checks = append(first.Checks, memory.Check{Key: p.Key, Revision: p.From})
				}
			}
			if err := d.Apply(ctx, tenant, first); err != nil {
				return err
			}
			pause()
			return d.Apply(ctx, tenant, memory.Batch{Puts: b.Puts[4:]})
		}
	},
	"a get of a key and then of the others": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			if len(keys) < 2 {
				return d.Get(ctx, tenant, keys)
			}
			first, err := d.Get(ctx, tenant, keys[:1])
			if err != nil {
				return nil, err
			}
			pause()
			rest, err := d.Get(ctx, tenant, keys[1:])
			if err != nil {
				return nil, err
			}
			return append(first, rest...), nil
		}
	},
	"half of a batch whose context ends under way": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if len(b.Puts) < 1000 || b.Check() != nil {
				return d.Apply(ctx, tenant, b)
			}
			for part := range slices.Chunk(b.Puts, 500) {
				if err := d.Apply(ctx, tenant, memory.Batch{Checks: b.Checks[:min(len(b.Checks), 1000)], Puts: part}); err != nil {
					return err
				}
			}
			return nil
		}
	},
	"a restore whose context ends under way and leaves half": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			if err := memory.CheckRestored(objects); err != nil || len(objects) < 1000 {
				return d.Restore(ctx, tenant, objects)
			}
			for part := range slices.Chunk(objects, 200) {
				if err := d.Restore(ctx, tenant, part); err != nil {
					return err
				}
			}
			return nil
		}
	},
	"a restore that keeps old terms": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		carried := map[[2]string]map[string]uint64{}
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			err := d.Apply(ctx, tenant, b)
			for _, p := range b.Puts {
				at := [2]string{tenant, p.Key}
				if err == nil && carried[at] == nil {
					carried[at] = map[string]uint64{}
				}
				for _, name := range p.Remove {
					delete(carried[at], name)
				}
				for _, term := range p.Add {
					if err == nil {
						carried[at][term.Name] = term.Sort
					}
				}
			}
			return err
		}
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			mu.Lock()
			defer mu.Unlock()
			objects = slices.Clone(objects)
			for i, o := range objects {
				if o.Revision == 0 {
					continue
				}
				for name, sort := range carried[[2]string{tenant, o.Key}] {
					if !slices.ContainsFunc(o.Terms, func(t memory.Term) bool { return t.Name == name }) {
						objects[i].Terms = append(slices.Clip(objects[i].Terms), memory.Term{Name: name, Sort: sort})
					}
				}
			}
			return d.Restore(ctx, tenant, objects)
		}
	},
	"a restore without terms": func(m *mutant, d memory.Driver) {
		eachRestored(m, d, func(o *memory.Restored) { o.Terms = nil })
	},
	"a restore that begins again at revision one": func(m *mutant, d memory.Driver) {
		eachRestored(m, d, func(o *memory.Restored) { o.Revision = min(o.Revision, 1) })
	},
	"a restore that never goes back": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			objects = slices.Clone(objects)
			for i, o := range objects {
				if now, err := d.Get(ctx, tenant, []string{o.Key}); err == nil && o.Revision > 0 && o.Key != "" {
					objects[i].Revision = max(o.Revision, now[0].Revision)
				}
			}
			return d.Restore(ctx, tenant, objects)
		}
	},
	"a restore that removes by a tombstone": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			if err := memory.CheckRestored(objects); err != nil {
				return err
			}
			objects = slices.Clone(objects)
			for i := range objects {
				objects[i].Revision = max(objects[i].Revision, 1)
			}
			return d.Restore(ctx, tenant, objects)
		}
	},
	"a restore of no bytes as a tombstone": func(m *mutant, d memory.Driver) {
		eachRestored(m, d, func(o *memory.Restored) {
			if len(o.Data) == 0 {
				o.Data = nil
			}
		})
	},
	"a restore that removes the log too": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			err := d.Restore(ctx, tenant, objects)
			for _, o := range objects {
				if err != nil || o.Revision > 0 {
					continue
				}
				log, err := d.History(ctx, tenant, o.Key, 0, memory.MaxQueryLimit)
				for i := range log {
					log[i].Data = nil
				}
				if err == nil && len(log) > 0 {
					_ = storetest.Rewrite(ctx, d, tenant, o.Key, log)
				}
			}
			return err
		}
	},
	"a restore of what fits under the cap": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			if len(objects) > memory.MaxBatchOps {
				if err := d.Restore(ctx, tenant, objects[:memory.MaxBatchOps]); err != nil {
					return err
				}
				return memory.ErrTooLarge
			}
			return d.Restore(ctx, tenant, objects)
		}
	},
	"a restore of any size": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			for part := range slices.Chunk(objects, 5000) {
				if err := d.Restore(ctx, tenant, part); err != nil {
					return err
				}
			}
			return d.Restore(ctx, tenant, nil)
		}
	},
	"a restore in two writes": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			if err := memory.CheckRestored(objects); err != nil || len(objects) < 2 {
				return d.Restore(ctx, tenant, objects)
			}
			half := len(objects) / 2
			if err := d.Restore(ctx, tenant, objects[:half]); err != nil {
				return err
			}
			pause()
			// Cancelled in between it ends whole, so that only who looks meanwhile finds it.
			return d.Restore(context.WithoutCancel(ctx), tenant, objects[half:])
		}
	},
	"a restore that checks no list": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			seen := map[string]bool{}
			objects = slices.DeleteFunc(slices.Clone(objects), func(o memory.Restored) bool {
				twice := seen[o.Key]
				seen[o.Key] = true
				return twice
			})
			return d.Restore(ctx, tenant, objects)
		}
	},
	"entries that are replaced by a later put of their revision": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			for _, p := range b.Puts {
				if p.Entry != nil && p.Key != "" {
					now, err := d.Get(ctx, tenant, []string{p.Key})
					if err == nil && now[0].Revision == p.From {
						_ = storetest.Rewrite(ctx, d, tenant, p.Key, []memory.LogEntry{{Revision: p.From + 1}})
					}
				}
			}
			return d.Apply(ctx, tenant, b)
		}
	},
	"a rewrite that writes before it validates": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			if memory.CheckRewrite(key, entries) != nil || len(entries) == 0 {
				return d.Rewrite(ctx, tenant, key, entries)
			}
			for i := range entries {
				if err := d.Rewrite(ctx, tenant, key, entries[i:i+1]); err != nil {
					return err
				}
			}
			return nil
		}
	},
	"a rewrite entry by entry, each validated": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			log, err := d.History(ctx, tenant, key, 0, memory.MaxQueryLimit)
			if err != nil || memory.CheckRewrite(key, entries) != nil || len(entries) == 0 {
				return d.Rewrite(ctx, tenant, key, entries)
			}
			for _, e := range entries {
				if !slices.ContainsFunc(log, func(l memory.LogEntry) bool { return l.Revision == e.Revision }) {
					return memory.ErrInvalidBatch
				}
			}
			for i := range entries {
				if err := d.Rewrite(ctx, tenant, key, entries[i:i+1]); err != nil {
					return err
				}
				pause()
			}
			return nil
		}
	},
	"a rewrite that passes over what is not there": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			if memory.CheckRewrite(key, entries) != nil || len(entries) == 0 {
				return d.Rewrite(ctx, tenant, key, entries)
			}
			log, err := d.History(ctx, tenant, key, 0, memory.MaxQueryLimit)
			entries = slices.DeleteFunc(slices.Clone(entries), func(e memory.Rewritten) bool {
				return !slices.ContainsFunc(log, func(l memory.LogEntry) bool { return l.Revision == e.Revision })
			})
			if err != nil {
				return err
			}
			return d.Rewrite(ctx, tenant, key, entries)
		}
	},
	"a rewrite whatever the entries were": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			return storetest.Rewrite(ctx, d, tenant, key, bare(entries))
		}
	},
	"a rewrite that looks at the entries before it writes": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			log, err := d.History(ctx, tenant, key, 0, memory.MaxQueryLimit)
			if err != nil {
				return d.Rewrite(ctx, tenant, key, entries)
			}
			for _, e := range entries {
				i := slices.IndexFunc(log, func(l memory.LogEntry) bool { return l.Revision == e.Revision })
				if i < 0 || e.Was == nil || !bytes.Equal(log[i].Data, e.Was) {
					return d.Rewrite(ctx, tenant, key, entries)
				}
			}
			pause()
			return storetest.Rewrite(ctx, d, tenant, key, bare(entries))
		}
	},
	"a rewrite that compares how long the entries are": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			log, err := d.History(ctx, tenant, key, 0, memory.MaxQueryLimit)
			entries = slices.Clone(entries)
			for i := range entries {
				for _, l := range log {
					if e := &entries[i]; err == nil && l.Revision == e.Revision && len(l.Data) == len(e.Was) {
						e.Was = l.Data
					}
				}
			}
			return d.Rewrite(ctx, tenant, key, entries)
		}
	},
	"a rewrite that removes what is empty": func(m *mutant, d memory.Driver) {
		eachRewritten(m, d, func(e *memory.Rewritten) {
			if len(e.Data) == 0 {
				e.Data = nil
			}
		})
	},
	"a rewrite that empties what it should remove": func(m *mutant, d memory.Driver) {
		eachRewritten(m, d, func(e *memory.Rewritten) {
			if e.Data == nil {
				e.Data = []byte{}
			}
		})
	},
	"a rewrite of any size": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			err := d.Rewrite(ctx, tenant, key, entries)
			if len(entries) == 2 && len(entries[1].Data) == memory.MaxBatchBytes {
				err = d.Rewrite(ctx, tenant, key, entries[1:])
			}
			return err
		}
	},
	"a rewrite in any order": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			entries = slices.Clone(entries)
			slices.SortFunc(entries, func(a, b memory.Rewritten) int { return int(a.Revision) - int(b.Revision) })
			return d.Rewrite(ctx, tenant, key, entries)
		}
	},
	"a history that shows removed entries as a short page": func(m *mutant, d memory.Driver) {
		m.history = func(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
			log, err := d.History(ctx, tenant, key, after, limit)
			for i := 1; i < len(log); i++ {
				if log[i].Revision != log[i-1].Revision+1 {
					return log[:i], err
				}
			}
			return log, err
		}
	},
	"logs that forget tombstones": func(m *mutant, d memory.Driver) {
		keptLogs(m, d, func(o memory.Object) bool { return o.Data != nil })
	},
	"logs that lean on objects": func(m *mutant, d memory.Driver) {
		keptLogs(m, d, func(o memory.Object) bool { return o.Revision > 0 })
	},
	"logs by a pattern": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			if before, _, ok := strings.Cut(prefix, "%"); ok {
				prefix = before
			}
			return d.Logs(ctx, tenant, prefix, after, limit)
		}
	},
	"logs up to the last byte of a prefix plus one": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			if strings.HasSuffix(prefix, "\xff") { // it overflows
				return nil, "", memory.CheckPage(limit)
			}
			return d.Logs(ctx, tenant, prefix, after, limit)
		}
	},
	"logs that begin again at the prefix": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			if after < prefix {
				after = prefix
			}
			return d.Logs(ctx, tenant, prefix, after, limit)
		}
	},
	"logs with the cursor in the next page": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			names, next, err := d.Logs(ctx, tenant, prefix, after, limit)
			if len(names) > 1 && next != "" {
				next = names[len(names)-2]
			}
			return names, next, err
		}
	},
	"logs with a cursor at the end": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			names, next, err := d.Logs(ctx, tenant, prefix, after, limit)
			if err == nil && len(names) == limit {
				next = names[limit-1]
			}
			return names, next, err
		}
	},
	"logs of any limit": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			return d.Logs(ctx, tenant, prefix, after, min(max(limit, 1), memory.MaxQueryLimit))
		}
	},
	"logs that remember what was stripped": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		stripped := map[string][]string{}
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			err := d.Rewrite(ctx, tenant, key, entries)
			if log, _ := d.History(ctx, tenant, key, 0, 1); err == nil && len(log) == 0 && len(entries) > 0 {
				mu.Lock()
				stripped[tenant] = append(stripped[tenant], key)
				mu.Unlock()
			}
			return err
		}
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			names, next, err := d.Logs(ctx, tenant, prefix, after, limit)
			mu.Lock()
			defer mu.Unlock()
			for _, k := range stripped[tenant] {
				if err == nil && next == "" && len(names) < limit && k > after && strings.HasPrefix(k, prefix) && !slices.Contains(names, k) {
					names = append(names, k)
				}
			}
			slices.Sort(names)
			return names, next, err
		}
	},
	"logs of every tenant": func(m *mutant, d memory.Driver) {
		m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
			names, next, err := d.Logs(ctx, tenant, prefix, after, limit)
			if err == nil && len(names) == 0 {
				return d.Logs(ctx, "tenant", prefix, after, limit)
			}
			return names, next, err
		}
	},
	"tenants that were only asked": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		asked := map[string]bool{}
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			mu.Lock()
			asked[tenant] = true
			mu.Unlock()
			return d.Get(ctx, tenant, keys)
		}
		m.tenants = func(ctx context.Context, after string, limit int) ([]string, string, error) {
			names, next, err := d.Tenants(ctx, after, limit)
			mu.Lock()
			defer mu.Unlock()
			for name := range asked {
				if err == nil && next == "" && len(names) < limit && name > after && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			return names, next, err
		}
	},
	"tenants of which only the log is left are forgotten": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			err := d.Restore(ctx, tenant, objects)
			if len(objects) == 1 && objects[0].Revision == 0 && err == nil {
				_ = storetest.Rewrite(ctx, d, tenant, objects[0].Key, []memory.LogEntry{{Revision: 1}})
			}
			return err
		}
	},
	"tenants without regard to case": func(m *mutant, d memory.Driver) {
		m.tenants = func(ctx context.Context, after string, limit int) ([]string, string, error) {
			names, next, err := d.Tenants(ctx, after, limit)
			return slices.CompactFunc(names, strings.EqualFold), next, err
		}
	},
	"a restore of all tenants": func(m *mutant, d memory.Driver) {
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			return d.Restore(ctx, strings.TrimRight(tenant, " \x00"), objects)
		}
	},
	"a rewrite of all tenants": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			return d.Rewrite(ctx, strings.ToLower(tenant), key, entries)
		}
	},
	"the restored bytes are the caller's": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		kept := map[string][]byte{}
		m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
			mu.Lock()
			defer mu.Unlock()
			for _, o := range objects {
				kept[tenant+"|"+o.Key] = o.Data
			}
			return d.Restore(ctx, tenant, objects)
		}
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			mu.Lock()
			defer mu.Unlock()
			for i, o := range objects {
				if data, ok := kept[tenant+"|"+o.Key]; ok && bytes.HasPrefix(o.Data, []byte("content")) {
					objects[i].Data = data
				}
			}
			return objects, err
		}
	},
	"a compact that drops tombstones": func(m *mutant, d memory.Driver) {
		m.compact = func(ctx context.Context) error {
			if o, err := d.Get(ctx, "tenant", []string{"dead"}); err == nil && o[0].Data == nil && o[0].Revision > 0 {
				_ = d.Restore(ctx, "tenant", []memory.Restored{{Object: memory.Object{Key: "dead"}}})
			}
			return d.Compact(ctx)
		}
	},
	"a compact after close": func(m *mutant, d memory.Driver) { m.compact = func(context.Context) error { return nil } },
	"an inspection without a promise": func(m *mutant, d memory.Driver) {
		inspected(m, d, func(i *memory.Inspection) { i.Promise = "" })
	},
	"an inspection without a server": func(m *mutant, d memory.Driver) {
		inspected(m, d, func(i *memory.Inspection) { i.Server = " " })
	},
	"a danger without a way out": func(m *mutant, d memory.Driver) {
		inspected(m, d, func(i *memory.Inspection) { i.Findings[0].Fix = "" })
	},
	"a danger that takes nothing": func(m *mutant, d memory.Driver) {
		inspected(m, d, func(i *memory.Inspection) { i.Findings[0].Loss = "" })
	},
	"findings in any order": func(m *mutant, d memory.Driver) {
		var n atomic.Int64
		inspected(m, d, func(i *memory.Inspection) {
			i.Findings = append(i.Findings, memory.Finding{Name: "more", Found: "x", Safe: true})
			if n.Add(1)%2 == 0 {
				slices.Reverse(i.Findings)
			}
		})
	},
	"an inspection after close": func(m *mutant, d memory.Driver) {
		m.inspect = func(context.Context) (memory.Inspection, error) {
			return memory.Inspection{Server: "maps", Promise: "nothing at all, ever", Findings: []memory.Finding{{Name: "a", Found: "b", Safe: true}}}, nil
		}
	},
	"an incarnation that counts batches": func(m *mutant, d memory.Driver) {
		var n atomic.Uint64
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			n.Add(1)
			return d.Apply(ctx, tenant, b)
		}
		m.incarnation = n.Load
	},
	"an incarnation that grows with a cancelled call": func(m *mutant, d memory.Driver) {
		var n atomic.Uint64
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			if err != nil {
				n.Add(1)
			}
			return objects, err
		}
		m.incarnation = n.Load
	},
	"driver text in an error": func(m *mutant, d memory.Driver) {
		m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
			if err := d.Rewrite(ctx, tenant, key, entries); err != nil {
				return fmt.Errorf("%w: ERR user_script:12: no such entry", err)
			}
			return nil
		}
	},
}

// pause lets others in where a faulty driver leaves a gap.
func pause() { time.Sleep(20 * time.Microsecond) }

// looseChecks looks at some checks before the batch, and not with it.
func looseChecks(m *mutant, d memory.Driver, which func(memory.Check) bool) {
	m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
		if b.Check() != nil {
			return d.Apply(ctx, tenant, b)
		}
		var loose, kept []memory.Check
		for _, c := range b.Checks {
			if which(c) {
				loose = append(loose, c)
			} else {
				kept = append(kept, c)
			}
		}
		for _, c := range loose {
			now, err := d.Get(ctx, tenant, []string{c.Key})
			if err != nil {
				return err
			}
			if now[0].Revision != c.Revision {
				return d.Apply(ctx, tenant, b) // it says which one is stale
			}
		}
		pause()
		return d.Apply(ctx, tenant, memory.Batch{Checks: kept, Puts: b.Puts})
	}
}

func eachRestored(m *mutant, d memory.Driver, change func(*memory.Restored)) {
	m.restore = func(ctx context.Context, tenant string, objects []memory.Restored) error {
		objects = slices.Clone(objects)
		for i := range objects {
			change(&objects[i])
		}
		return d.Restore(ctx, tenant, objects)
	}
}

func bare(entries []memory.Rewritten) []memory.LogEntry {
	out := make([]memory.LogEntry, len(entries))
	for i, e := range entries {
		out[i] = e.LogEntry
	}
	return out
}

func eachRewritten(m *mutant, d memory.Driver, change func(*memory.Rewritten)) {
	m.rewrite = func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
		entries = slices.Clone(entries)
		for i := range entries {
			change(&entries[i])
		}
		return d.Rewrite(ctx, tenant, key, entries)
	}
}

// keptLogs lists only logs beside objects of some kind.
func keptLogs(m *mutant, d memory.Driver, keep func(memory.Object) bool) {
	m.logs = func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
		all, _, err := d.Logs(ctx, tenant, prefix, after, memory.MaxQueryLimit)
		if err != nil || memory.CheckPage(limit) != nil {
			return d.Logs(ctx, tenant, prefix, after, limit)
		}
		objects, err := d.Get(ctx, tenant, all)
		if err != nil {
			return nil, "", err
		}
		var names []string
		for _, o := range objects {
			if keep(o) {
				names = append(names, o.Key)
			}
		}
		if len(names) <= limit {
			return names, "", nil
		}
		return names[:limit], names[limit-1], nil
	}
}

func inspected(m *mutant, d memory.Driver, change func(*memory.Inspection)) {
	m.inspect = func(ctx context.Context) (memory.Inspection, error) {
		found, err := d.Inspect(ctx)
		if err == nil {
			change(&found)
		}
		return found, err
	}
}
