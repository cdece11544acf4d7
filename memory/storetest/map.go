package storetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/hearsay-go/hearsay/memory"
)

// NewMap returns a driver that keeps everything in maps under one mutex. It is
// the reference that [Compare] holds other drivers against, short enough to be
// read in one go, and good for tests of what stands on a driver. Its content ends
// with the process.
func NewMap() memory.Driver { return &mapDriver{tenants: map[string]*mapTenant{}} }

type mapDriver struct {
	mu      sync.Mutex
	closed  bool
	tenants map[string]*mapTenant
}

type mapTenant struct {
	objects map[string]memory.Object
	logs    map[string][]memory.LogEntry
	terms   map[string]map[string]uint64 // name, key, sort
}

// enter locks the driver, or says why it may not be used.
func (d *mapDriver) enter(ctx context.Context) error {
	d.mu.Lock()
	err := ctx.Err()
	if d.closed {
		err = memory.ErrClosed
	}
	if err != nil {
		d.mu.Unlock()
	}
	return err
}

func (d *mapDriver) tenant(name string) *mapTenant {
	t := d.tenants[name]
	if t == nil {
		t = &mapTenant{objects: map[string]memory.Object{}, logs: map[string][]memory.LogEntry{}, terms: map[string]map[string]uint64{}}
		d.tenants[name] = t
	}
	return t
}

func (d *mapDriver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := b.Check(); err != nil {
		return err
	}
	t := d.tenant(tenant)
	for _, c := range b.Checks {
		if t.objects[c.Key].Revision != c.Revision {
			return conflict(c.Key)
		}
	}
	for _, p := range b.Puts {
		if t.objects[p.Key].Revision != p.From {
			return conflict(p.Key)
		}
		if _, taken := entryAt(t.logs[p.Key], p.From+1); taken && p.Entry != nil {
			return conflict(p.Key)
		}
	}
	for _, p := range b.Puts {
		t.objects[p.Key] = memory.Object{Key: p.Key, Revision: p.From + 1, Data: bytes.Clone(p.Data)}
		if p.Entry != nil {
			at, _ := entryAt(t.logs[p.Key], p.From+1)
			t.logs[p.Key] = slices.Insert(t.logs[p.Key], at, memory.LogEntry{Revision: p.From + 1, Data: bytes.Clone(p.Entry)})
		}
		if p.Clear {
			t.clear(p.Key)
		}
		for _, name := range p.Remove {
			delete(t.terms[name], p.Key)
		}
		for _, term := range p.Add {
			if t.terms[term.Name] == nil {
				t.terms[term.Name] = map[string]uint64{}
			}
			t.terms[term.Name][p.Key] = term.Sort
		}
	}
	return nil
}

// clear takes all terms from a key.
func (t *mapTenant) clear(key string) {
	for _, carriers := range t.terms {
		delete(carriers, key)
	}
}

// conflict is the error of a stale key, wrapped as the drivers wrap theirs.
func conflict(key string) error {
	return fmt.Errorf("map: %w", &memory.ConflictError{Key: key})
}

// entryAt is where the entry of a revision is in a log, or belongs.
func entryAt(log []memory.LogEntry, revision uint64) (at int, found bool) {
	return slices.BinarySearchFunc(log, revision, func(e memory.LogEntry, r uint64) int { return cmp.Compare(e.Revision, r) })
}

func (d *mapDriver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	t := d.tenant(tenant)
	objects := make([]memory.Object, len(keys))
	for i, k := range keys {
		o := t.objects[k]
		objects[i] = memory.Object{Key: k, Revision: o.Revision, Data: bytes.Clone(o.Data)}
	}
	return objects, nil
}

func (d *mapDriver) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.mu.Unlock()
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	after := memory.Hit{Sort: q.From} // keys are not empty, so this comes before every carrier at From
	if q.After != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil || len(b) <= 8 {
			return nil, "", fmt.Errorf("%w: the cursor is not one of this store", memory.ErrInvalidBatch)
		}
		if h := (memory.Hit{Sort: binary.BigEndian.Uint64(b), Key: string(b[8:])}); compareHits(h, after) > 0 {
			after = h
		}
	}
	to := q.To
	if to == 0 {
		to = math.MaxUint64
	}
	hits := []memory.Hit{}
	for key, sort := range d.tenant(tenant).terms[q.Term] {
		if h := (memory.Hit{Key: key, Sort: sort}); compareHits(h, after) > 0 && sort <= to {
			hits = append(hits, h)
		}
	}
	slices.SortFunc(hits, compareHits)
	if len(hits) <= q.Limit {
		return hits, "", nil
	}
	last := hits[q.Limit-1]
	return hits[:q.Limit:q.Limit], base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, last.Sort), last.Key...)), nil
}

func compareHits(a, b memory.Hit) int {
	return cmp.Or(cmp.Compare(a.Sort, b.Sort), cmp.Compare(a.Key, b.Key))
}

func (d *mapDriver) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	if limit < 1 || limit > memory.MaxQueryLimit {
		return nil, fmt.Errorf("%w: limit %d", memory.ErrInvalidBatch, limit)
	}
	var entries []memory.LogEntry
	for _, e := range d.tenant(tenant).logs[key] {
		if e.Revision > after && len(entries) < limit {
			entries = append(entries, memory.LogEntry{Revision: e.Revision, Data: bytes.Clone(e.Data)})
		}
	}
	return entries, nil
}

func (d *mapDriver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return memory.ErrClosed
	}
	d.closed = true
	return nil
}

func (d *mapDriver) Incarnation() uint64 { return 0 }

func (d *mapDriver) Tenants(ctx context.Context, after string, limit int) ([]string, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.mu.Unlock()
	var names []string
	for name, t := range d.tenants {
		if len(t.objects)+len(t.logs) > 0 {
			names = append(names, name)
		}
	}
	return page(names, "", after, limit)
}

func (d *mapDriver) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.mu.Unlock()
	var keys []string
	for key := range d.tenant(tenant).logs {
		keys = append(keys, key)
	}
	return page(keys, prefix, after, limit)
}

func (d *mapDriver) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
	if err := d.enter(ctx); err != nil {
		return nil, false, err
	}
	defer d.mu.Unlock()
	if err := memory.CheckPage(limit); err != nil {
		return nil, false, err
	}
	logs := d.tenant(tenant).logs
	var entries []memory.Logged
	size := 0
	for _, key := range slices.Sorted(maps.Keys(logs)) {
		if key < after.Key || !strings.HasPrefix(key, prefix) {
			continue
		}
		for _, e := range logs[key] {
			if key == after.Key && e.Revision <= after.Revision {
				continue
			}
			if len(entries) == limit || size >= memory.MaxBatchBytes {
				return entries, true, nil
			}
			size += len(e.Data)
			entries = append(entries, memory.Logged{Key: key, LogEntry: memory.LogEntry{Revision: e.Revision, Data: bytes.Clone(e.Data)}})
		}
	}
	return entries, false, nil
}

func (d *mapDriver) Objects(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
	return func(yield func(memory.Restored, error) bool) {
		keys, err := d.sorted(ctx, tenant, prefix, func(t *mapTenant) iter.Seq[string] { return maps.Keys(t.objects) })
		for _, key := range keys {
			var o memory.Restored
			if o, err = d.object(ctx, tenant, key); err != nil {
				break
			}
			if o.Revision > 0 && !yield(o, nil) {
				return
			}
		}
		if err != nil {
			yield(memory.Restored{}, err)
		}
	}
}

// sorted are those names of a tenant that begin with prefix.
func (d *mapDriver) sorted(ctx context.Context, tenant, prefix string, names func(*mapTenant) iter.Seq[string]) ([]string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	list := slices.Sorted(names(d.tenant(tenant)))
	return slices.DeleteFunc(list, func(n string) bool { return !strings.HasPrefix(n, prefix) }), nil
}

// object is the whole state of an object.
func (d *mapDriver) object(ctx context.Context, tenant, key string) (memory.Restored, error) {
	if err := d.enter(ctx); err != nil {
		return memory.Restored{}, err
	}
	defer d.mu.Unlock()
	t := d.tenant(tenant)
	o := t.objects[key]
	found := memory.Restored{Object: memory.Object{Key: key, Revision: o.Revision, Data: bytes.Clone(o.Data)}}
	for name, carriers := range t.terms {
		if sort, carried := carriers[key]; carried {
			found.Terms = append(found.Terms, memory.Term{Name: name, Sort: sort})
		}
	}
	return found, nil
}

func (d *mapDriver) Carriers(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
	return func(yield func(memory.Carrier, error) bool) {
		names, err := d.sorted(ctx, tenant, prefix, func(t *mapTenant) iter.Seq[string] { return maps.Keys(t.terms) })
		for _, name := range names {
			var hits map[string]uint64
			if hits, err = d.carriers(ctx, tenant, name); err != nil {
				break
			}
			for key, sort := range hits {
				if !yield(memory.Carrier{Term: memory.Term{Name: name, Sort: sort}, Key: key}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(memory.Carrier{}, err)
		}
	}
}

func (d *mapDriver) carriers(ctx context.Context, tenant, name string) (map[string]uint64, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.mu.Unlock()
	return maps.Clone(d.tenant(tenant).terms[name]), nil
}

// page is one page of the names that begin with prefix. The cursor is the last name.
func page(names []string, prefix, after string, limit int) ([]string, string, error) {
	if err := memory.CheckPage(limit); err != nil {
		return nil, "", err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return n <= after || !strings.HasPrefix(n, prefix) })
	slices.Sort(names)
	if len(names) <= limit {
		return names, "", nil
	}
	return names[:limit:limit], names[limit-1], nil
}

func (d *mapDriver) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := memory.CheckRestored(objects); err != nil {
		return err
	}
	t := d.tenant(tenant)
	for _, o := range objects {
		t.clear(o.Key)
		delete(t.objects, o.Key)
		if o.Revision == 0 {
			continue
		}
		t.objects[o.Key] = memory.Object{Key: o.Key, Revision: o.Revision, Data: bytes.Clone(o.Data)}
		for _, term := range o.Terms {
			if t.terms[term.Name] == nil {
				t.terms[term.Name] = map[string]uint64{}
			}
			t.terms[term.Name][o.Key] = term.Sort
		}
	}
	return nil
}

func (d *mapDriver) Rewrite(ctx context.Context, tenant, key string, entries []memory.Rewritten) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.mu.Unlock()
	if err := memory.CheckRewrite(key, entries); err != nil {
		return err
	}
	t := d.tenant(tenant)
	log := slices.Clone(t.logs[key])
	for _, e := range entries {
		at, found := entryAt(log, e.Revision)
		switch {
		case !found || e.Was == nil || !bytes.Equal(log[at].Data, e.Was):
			return conflict(key)
		case e.Data == nil:
			log = slices.Delete(log, at, at+1)
		default:
			log[at].Data = bytes.Clone(e.Data)
		}
	}
	t.logs[key] = log
	if len(log) == 0 { // a log without entries is none
		delete(t.logs, key)
	}
	return nil
}

func (d *mapDriver) Compact(ctx context.Context) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.mu.Unlock()
	return nil
}

func (d *mapDriver) Inspect(ctx context.Context) (memory.Inspection, error) {
	if err := d.enter(ctx); err != nil {
		return memory.Inspection{}, err
	}
	d.mu.Unlock()
	return memory.Inspection{Server: "maps in this process", Promise: "nothing outlives the process", Findings: []memory.Finding{
		{Name: "storage", Found: "process memory", Loss: "everything, when the process ends", Fix: "open a store that writes to a file or a server"},
	}}, nil
}
