package storetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// A suite that passes everything is worth nothing. Each mutant is the reference
// driver with one fault that a real store had or could have; the suite must find
// it. It runs in a child, where it may fail.
const mutantVariable = "STORETEST_MUTANT"

// mutant is a driver whose methods may be replaced.
type mutant struct {
	memory.Driver
	apply   func(ctx context.Context, tenant string, b memory.Batch) error
	get     func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error)
	query   func(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error)
	history func(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error)
	close   func() error

	// These stay with the driver if they are nil.
	incarnation func() uint64
	tenants     func(ctx context.Context, after string, limit int) ([]string, string, error)
	logs        func(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error)
	scan        func(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error)
	objects     func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error]
	carriers    func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error]
	restore     func(ctx context.Context, tenant string, objects []memory.Restored) error
	rewrite     func(ctx context.Context, tenant, key string, entries []memory.Rewritten) error
	compact     func(ctx context.Context) error
	inspect     func(ctx context.Context) (memory.Inspection, error)
}

func (m *mutant) Incarnation() uint64 {
	if m.incarnation == nil {
		return m.Driver.Incarnation()
	}
	return m.incarnation()
}

func (m *mutant) Tenants(ctx context.Context, after string, limit int) ([]string, string, error) {
	if m.tenants == nil {
		return m.Driver.Tenants(ctx, after, limit)
	}
	return m.tenants(ctx, after, limit)
}

func (m *mutant) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	if m.logs == nil {
		return m.Driver.Logs(ctx, tenant, prefix, after, limit)
	}
	return m.logs(ctx, tenant, prefix, after, limit)
}

func (m *mutant) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
	if m.scan == nil {
		return m.Driver.Scan(ctx, tenant, prefix, after, limit)
	}
	return m.scan(ctx, tenant, prefix, after, limit)
}

func (m *mutant) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
	if m.objects == nil {
		return m.Driver.Objects(ctx, tenant, prefix)
	}
	return m.objects(ctx, tenant, prefix)
}

func (m *mutant) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
	if m.carriers == nil {
		return m.Driver.Carriers(ctx, tenant, prefix)
	}
	return m.carriers(ctx, tenant, prefix)
}

func (m *mutant) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	if m.restore == nil {
		return m.Driver.Restore(ctx, tenant, objects)
	}
	return m.restore(ctx, tenant, objects)
}

func (m *mutant) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	if m.rewrite == nil {
		return m.Driver.Rewrite(ctx, tenant, key, entries)
	}
	return m.rewrite(ctx, tenant, key, entries)
}

func (m *mutant) Compact(ctx context.Context) error {
	if m.compact == nil {
		return m.Driver.Compact(ctx)
	}
	return m.compact(ctx)
}

func (m *mutant) Inspect(ctx context.Context) (memory.Inspection, error) {
	if m.inspect == nil {
		return m.Driver.Inspect(ctx)
	}
	return m.inspect(ctx)
}

func (m *mutant) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return m.apply(ctx, tenant, b)
}

func (m *mutant) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	return m.get(ctx, tenant, keys)
}

func (m *mutant) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	return m.query(ctx, tenant, q)
}

func (m *mutant) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	return m.history(ctx, tenant, key, after, limit)
}

func (m *mutant) Close() error { return m.close() }

// rekey passes every key through a function on its way in.
func rekey(m *mutant, d memory.Driver, f func(string) string) {
	m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
		b.Checks, b.Puts = slices.Clone(b.Checks), slices.Clone(b.Puts)
		for i := range b.Checks {
			b.Checks[i].Key = f(b.Checks[i].Key)
		}
		for i := range b.Puts {
			b.Puts[i].Key = f(b.Puts[i].Key)
		}
		return d.Apply(ctx, tenant, b)
	}
	m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
		mapped := make([]string, len(keys))
		for i, k := range keys {
			mapped[i] = f(k)
		}
		objects, err := d.Get(ctx, tenant, mapped)
		for i := range objects {
			objects[i].Key = keys[i]
		}
		return objects, err
	}
	m.history = func(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
		return d.History(ctx, tenant, f(key), after, limit)
	}
}

func eachCleared(m *mutant, d memory.Driver, change func(*memory.Put)) {
	m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
		b.Puts = slices.Clone(b.Puts)
		for i := range b.Puts {
			if b.Puts[i].Clear {
				change(&b.Puts[i])
			}
		}
		return d.Apply(ctx, tenant, b)
	}
}

var mutants = map[string]func(m *mutant, d memory.Driver){
	"keys without regard to case": func(m *mutant, d memory.Driver) { rekey(m, d, strings.ToLower) },
	"keys without trailing space": func(m *mutant, d memory.Driver) {
		rekey(m, d, func(k string) string { return strings.TrimRight(k, " ") })
	},
	"keys that end at NUL": func(m *mutant, d memory.Driver) {
		rekey(m, d, func(k string) string { return strings.SplitN(k+"x", "\x00", 2)[0] })
	},
	"keys made valid UTF-8": func(m *mutant, d memory.Driver) {
		rekey(m, d, func(k string) string { return strings.ToValidUTF8(k, "\ufffd") })
	},
	"keys cut at 64,000 bytes": func(m *mutant, d memory.Driver) { rekey(m, d, func(k string) string { return k[:min(len(k), 64000)] }) },
	"tenants without regard to case": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			return d.Apply(ctx, strings.ToLower(tenant), b)
		}
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			return d.Get(ctx, strings.ToLower(tenant), keys)
		}
	},
	"tenants joined to keys by a colon": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			b.Puts = slices.Clone(b.Puts)
			for i := range b.Puts {
				b.Puts[i].Key = tenant + ":" + b.Puts[i].Key
			}
			return d.Apply(ctx, "", b)
		}
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			joined := make([]string, len(keys))
			for i, k := range keys {
				joined[i] = tenant + ":" + k
			}
			objects, err := d.Get(ctx, "", joined)
			for i := range objects {
				objects[i].Key = keys[i]
			}
			return objects, err
		}
	},
	"puts before checks": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(ctx, tenant, memory.Batch{Puts: b.Puts}); err != nil {
				return err
			}
			return d.Apply(ctx, tenant, memory.Batch{Checks: b.Checks})
		}
	},
	"a batch put by put": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := b.Check(); err != nil {
				return err
			}
			err := d.Apply(ctx, tenant, memory.Batch{Checks: b.Checks})
			for i := 0; i < len(b.Puts) && err == nil; i++ {
				err = d.Apply(ctx, tenant, memory.Batch{Puts: b.Puts[i : i+1]})
			}
			return err
		}
	},
	"checks that are read before the write": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(ctx, tenant, memory.Batch{Checks: b.Checks}); err != nil {
				return err
			}
			return d.Apply(ctx, tenant, memory.Batch{Puts: b.Puts})
		}
	},
	"checks in the order of keys": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			b.Checks = slices.SortedFunc(slices.Values(b.Checks), func(x, y memory.Check) int { return strings.Compare(x.Key, y.Key) })
			return d.Apply(ctx, tenant, b)
		}
	},
	"a conflict without a key": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(ctx, tenant, b); !errors.Is(err, memory.ErrConflict) {
				return err
			}
			return memory.ErrConflict
		}
	},
	"revisions of 32 bits": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			b.Checks = slices.Clone(b.Checks)
			for i := range b.Checks {
				b.Checks[i].Revision &= 1<<32 - 1
			}
			return d.Apply(ctx, tenant, b)
		}
	},
	"driver text in a conflict": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(ctx, tenant, b); err != nil {
				return fmt.Errorf("UNIQUE constraint failed: %w", err)
			}
			return nil
		}
	},
	"no caps": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(ctx, tenant, b); !errors.Is(err, memory.ErrTooLarge) {
				return err
			}
			return nil
		}
	},
	"a cancelled batch is written": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			if err := d.Apply(context.WithoutCancel(ctx), tenant, b); err != nil {
				return err
			}
			return ctx.Err()
		}
	},
	"get without duplicates": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			return d.Get(ctx, tenant, slices.Compact(slices.Sorted(slices.Values(keys))))
		}
	},
	"get key by key": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			all := []memory.Object{}
			if len(keys) == 0 {
				return d.Get(ctx, tenant, keys)
			}
			for part := range slices.Chunk(keys, 4) {
				objects, err := d.Get(ctx, tenant, part)
				if err != nil {
					return nil, err
				}
				all = append(all, objects...)
			}
			return all, nil
		}
	},
	"get of at most 9,000 keys": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			return d.Get(ctx, tenant, keys[:min(len(keys), 9000)])
		}
	},
	"a tombstone is absent": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			for i := range objects {
				if objects[i].Data == nil {
					objects[i].Revision = 0
				}
			}
			return objects, err
		}
	},
	"no bytes are nil": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			for i := range objects {
				if len(objects[i].Data) == 0 {
					objects[i].Data = nil
				}
			}
			return objects, err
		}
	},
	"content as text": func(m *mutant, d memory.Driver) {
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			for i := range objects {
				if objects[i].Data != nil {
					objects[i].Data = bytes.ToValidUTF8(objects[i].Data, nil)
				}
			}
			return objects, err
		}
	},
	"sort as a signed number": func(m *mutant, d memory.Driver) { resort(m, d, func(s uint64) uint64 { return s ^ 1<<63 }) },
	"sort as a float": func(m *mutant, d memory.Driver) {
		resort(m, d, func(s uint64) uint64 {
			if s > 1<<53 {
				return s &^ 1
			}
			return s
		})
	},
	"pages by offset": func(m *mutant, d memory.Driver) {
		m.query = func(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
			offset := 0
			if q.After != "" {
				if _, err := fmt.Sscanf(q.After, "%d", &offset); err != nil {
					return nil, "", memory.ErrInvalidBatch
				}
			}
			all, _, err := d.Query(ctx, tenant, memory.Query{Term: q.Term, From: q.From, To: q.To, Limit: memory.MaxQueryLimit})
			if err != nil || q.Check() != nil {
				return nil, "", errors.Join(err, q.Check())
			}
			all = all[min(offset, len(all)):]
			if len(all) <= q.Limit {
				return all, "", nil
			}
			return all[:q.Limit], fmt.Sprint(offset + q.Limit), nil
		}
	},
	"pages by sort alone": func(m *mutant, d memory.Driver) {
		m.query = func(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
			hits, next, err := d.Query(ctx, tenant, q)
			if len(hits) > 1 && q.After != "" && hits[0].Sort == hits[1].Sort {
				hits = hits[1:]
			}
			return hits, next, err
		}
	},
	"an upper bound that is not inclusive": func(m *mutant, d memory.Driver) {
		m.query = func(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
			if q.To > 1 {
				q.To--
			}
			return d.Query(ctx, tenant, q)
		}
	},
	"a cursor at the end": func(m *mutant, d memory.Driver) {
		m.query = func(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
			hits, next, err := d.Query(ctx, tenant, q)
			if err == nil && next == "" && len(hits) == q.Limit {
				next = "more?"
			}
			return hits, next, err
		}
	},
	"removed terms that stay": func(m *mutant, d memory.Driver) {
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			b.Puts = slices.Clone(b.Puts)
			for i := range b.Puts {
				b.Puts[i].Remove = nil
			}
			return d.Apply(ctx, tenant, b)
		}
	},
	"a clear that leaves all": func(m *mutant, d memory.Driver) {
		eachCleared(m, d, func(p *memory.Put) { p.Clear = false })
	},
	"a clear that takes what the put adds": func(m *mutant, d memory.Driver) {
		eachCleared(m, d, func(p *memory.Put) { p.Add = nil })
	},
	"a clear with a tombstone only": func(m *mutant, d memory.Driver) {
		eachCleared(m, d, func(p *memory.Put) { p.Clear = p.Data == nil })
	},
	"a clear of what the put names": func(m *mutant, d memory.Driver) {
		eachCleared(m, d, func(p *memory.Put) { p.Clear = len(p.Remove) == 0 })
	},
	"a log of the last 100 entries": func(m *mutant, d memory.Driver) {
		m.history = func(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
			all, err := d.History(ctx, tenant, key, 0, memory.MaxQueryLimit)
			if err != nil || limit < 1 || limit > memory.MaxQueryLimit {
				return d.History(ctx, tenant, key, after, limit)
			}
			for len(all) > 0 && (len(all) > 100 || all[0].Revision <= after) {
				all = all[1:]
			}
			return all[:min(len(all), limit)], nil
		}
	},
	"a log newest first": func(m *mutant, d memory.Driver) {
		m.history = func(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
			log, err := d.History(ctx, tenant, key, after, limit)
			slices.Reverse(log)
			return log, err
		}
	},
	"the caller's bytes are kept": func(m *mutant, d memory.Driver) {
		var mu sync.Mutex
		kept := map[string][]byte{}
		m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
			err := d.Apply(ctx, tenant, b)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				for _, p := range b.Puts {
					kept[tenant+"|"+p.Key] = p.Data
				}
			}
			return err
		}
		m.get = func(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
			objects, err := d.Get(ctx, tenant, keys)
			mu.Lock()
			defer mu.Unlock()
			for i := range objects {
				if data, ok := kept[tenant+"|"+objects[i].Key]; ok && bytes.HasPrefix(objects[i].Data, []byte("content")) {
					objects[i].Data = data
				}
			}
			return objects, err
		}
	},
	"open after close": func(m *mutant, d memory.Driver) { m.close = func() error { return nil } },
	"close twice": func(m *mutant, d memory.Driver) {
		m.close = func() error {
			if err := d.Close(); !errors.Is(err, memory.ErrClosed) {
				return err
			}
			return nil
		}
	},
}

// resort passes every sort of an added term through a function.
func resort(m *mutant, d memory.Driver, f func(uint64) uint64) {
	m.apply = func(ctx context.Context, tenant string, b memory.Batch) error {
		b.Puts = slices.Clone(b.Puts)
		for i := range b.Puts {
			b.Puts[i].Add = slices.Clone(b.Puts[i].Add)
			for j := range b.Puts[i].Add {
				b.Puts[i].Add[j].Sort = f(b.Puts[i].Add[j].Sort)
			}
		}
		return d.Apply(ctx, tenant, b)
	}
}

// TestChildRunsAMutant is the child of the test below; on its own it asks the
// driver without a fault.
func TestChildRunsAMutant(t *testing.T) {
	for _, list := range []map[string]func(m *mutant, d memory.Driver){maintenanceMutants, scanMutants, listMutants} {
		maps.Copy(mutants, list)
	}
	change := mutants[os.Getenv(mutantVariable)]
	open := func(t *testing.T) memory.Driver {
		t.Cleanup(func() {
			if change != nil && t.Failed() { // one is enough
				fmt.Println("found by", t.Name())
				os.Exit(1)
			}
		})
		d := storetest.NewMap()
		m := &mutant{Driver: d, apply: d.Apply, get: d.Get, query: d.Query, history: d.History, close: d.Close}
		if change != nil {
			change(m, d)
		}
		return m
	}
	storetest.Run(t, open)
}

func TestTheSuiteFindsEveryFaultyDriver(t *testing.T) {
	if os.Getenv(mutantVariable) != "" {
		return
	}
	found := 0
	kinds := map[string]string{} // by name
	for kind, list := range map[string]map[string]func(m *mutant, d memory.Driver){"maintenance": maintenanceMutants, "scan": scanMutants, "list": listMutants} {
		maps.Copy(mutants, list)
		for name := range list {
			kinds[name] = kind
		}
	}
	run := func(name string, flags ...string) ([]byte, error) {
		cmd := exec.Command(os.Args[0], append(flags, "-test.run=^TestChildRunsAMutant$", "-test.timeout=10m", "-test.parallel=100")...)
		cmd.Env = append(os.Environ(), mutantVariable+"="+name)
		return cmd.CombinedOutput()
	}
	names := slices.Sorted(maps.Keys(mutants))
	tried := sample.Of(len(names), func(i int) string { return kinds[names[i]] })
	for _, i := range tried {
		name := names[i]
		// Most are found by a case that takes no time: the others are asked after those.
		out, err := run(name, "-test.skip=/(while|beside|half_a_batch|seen_whole|MiB|under_way|at_any_point|under_load|writers|cap_passes)")
		if err == nil {
			out, err = run(name)
		}
		_, by, said := strings.Cut(string(out), "found by TestChildRunsAMutant/")
		var exit *exec.ExitError
		switch {
		case err == nil:
			t.Errorf("a driver with %s passes", name)
		case !errors.As(err, &exit) || !said || strings.Contains(string(out), "panic:"):
			t.Errorf("a driver with %s was not found, but: %v\n%s", name, err, out)
		default:
			t.Logf("%s: found by %s", name, by)
			found++
		}
	}
	t.Logf("%d of %d faulty drivers found; there are %d", found, len(tried), len(mutants))
	if found == 0 {
		t.Error("no faulty driver was found")
	}
}
