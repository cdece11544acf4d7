package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

// The keys of a tenant are PREFIX:{tHEX}, where HEX is its name in hexadecimal, so
// that no name has a brace and none is empty: a Cluster takes the part in braces to
// choose the master, if there is one. Then comes a letter:
//
//	o<key>   an object, a string
//	l<key>   its log, a list
//	t<name>  the carriers of a term, a sorted set
//	r        the keys that have a log, a sorted set
//	n        how many objects there are, a number
//
// An object is 8 bytes of revision, a letter (d has data, t is a tombstone), 4
// bytes of how long its terms are, the terms it carries, its data. A term is 4
// bytes of length, its name, 8 bytes of sort. An entry of a log is 8 bytes of
// revision and its data. The members of sorted sets have the score 0, so their
// bytes order them: 8 bytes of sort and a key, or a key.
const (
	kindObject   = "o"
	kindLog      = "l"
	kindTerm     = "t"
	kindRegister = "r"
	kindCount    = "n"

	headSize = 13
)

// Driver is a [memory.Driver] over Redis. It is safe for concurrent use.
type Driver struct {
	client redis.UniversalClient
	prefix string
	mode   mode

	incarnation atomic.Uint64
	mu          sync.Mutex
	seen        map[string]string // the server that answered last at each place
	open        bool              // Open is over: a server that is new is another one

	calls   sync.WaitGroup
	closing sync.RWMutex // held for reading while a call is counted
	closed  bool
}

var _ memory.Driver = (*Driver)(nil)

// enter is the door of every call; whoever came in calls leave.
func (d *Driver) enter(ctx context.Context) error {
	d.closing.RLock()
	defer d.closing.RUnlock()
	if d.closed {
		return memory.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	d.calls.Add(1)
	return nil
}

func (d *Driver) leave() { d.calls.Done() }

// tenant is what the keys of a tenant begin with.
func (d *Driver) tenant(name string) string {
	return d.prefix + ":{t" + hex.EncodeToString([]byte(name)) + "}"
}

// batch gathers the keys and arguments of a writing script.
type batch struct {
	tenant string
	keys   []string
	number map[string]uint32
	ops    []byte
	args   []any
}

// newBatch begins with keys that a script knows by their place.
func newBatch(tenant string, size int, kinds ...string) *batch {
	b := &batch{
		tenant: tenant,
		keys:   make([]string, 0, len(kinds)+size),
		number: make(map[string]uint32, size),
		ops:    make([]byte, 0, 64*(size+1)),
		args:   make([]any, 2, 2+size),
	}
	for _, kind := range kinds {
		b.keys = append(b.keys, tenant+kind)
	}
	b.args[1] = len(tenant) + 1
	return b
}

// key adds a key to the operations, by its number.
func (b *batch) key(kind, name string) {
	k := b.tenant + kind + name
	n, ok := b.number[k]
	if !ok {
		b.keys = append(b.keys, k)
		n = uint32(len(b.keys))
		b.number[k] = n
	}
	b.count(n)
}

func (b *batch) count(n uint32)   { b.ops = binary.BigEndian.AppendUint32(b.ops, n) }
func (b *batch) number8(n uint64) { b.ops = binary.BigEndian.AppendUint64(b.ops, n) }

func (b *batch) flag(set bool) {
	if set {
		b.ops = append(b.ops, 1)
	} else {
		b.ops = append(b.ops, 0)
	}
}

func (b *batch) text(s string) {
	b.count(uint32(len(s)))
	b.ops = append(b.ops, s...)
}

func (b *batch) content(data []byte) {
	if data != nil {
		b.args = append(b.args, data)
	}
}

func (d *Driver) write(ctx context.Context, s script, b *batch) (int, error) {
	b.args[0] = b.ops
	return answer(d.run(ctx, s, true, b.keys, b.args...))
}

// Apply writes a batch, all of it or nothing. After an error that wraps
// [memory.ErrConflict], [memory.ErrTooLarge], [memory.ErrInvalidBatch] or
// [memory.ErrClosed], or that of a context that was done before the call, nothing
// was written; after any other the batch may have been.
func (d *Driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return edge(ctx, "apply", d.apply(ctx, tenant, b))
}

func (d *Driver) apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	if err := b.Check(); err != nil {
		return err
	}
	if len(b.Checks)+len(b.Puts) == 0 {
		return nil
	}
	w := newBatch(d.tenant(tenant), len(b.Checks)+3*len(b.Puts), kindCount, kindRegister)
	w.count(uint32(len(b.Checks)))
	w.count(uint32(len(b.Puts)))
	for _, c := range b.Checks {
		w.key(kindObject, c.Key)
		w.number8(c.Revision)
	}
	for i := range b.Puts {
		w.put(&b.Puts[i])
	}
	stale, err := d.write(ctx, applyScript, w)
	switch {
	case err != nil:
		return err
	case stale == 0:
		return nil
	case stale <= len(b.Checks):
		return &memory.ConflictError{Key: b.Checks[stale-1].Key}
	default:
		return &memory.ConflictError{Key: b.Puts[stale-1-len(b.Checks)].Key}
	}
}

func (b *batch) put(p *memory.Put) {
	add := distinct(p.Add)
	remove := removed(p.Remove, add)
	b.key(kindObject, p.Key)
	b.number8(p.From)
	b.number8(p.From + 1)
	b.flag(p.Data != nil)
	b.flag(p.Entry != nil)
	if p.Entry != nil {
		b.key(kindLog, p.Key)
	} else {
		b.count(0)
	}
	b.count(uint32(len(remove)))
	b.count(uint32(len(add)))
	if len(remove)+len(add) > 0 {
		for _, name := range remove {
			b.key(kindTerm, name)
			b.text(name)
		}
		for i := range add {
			b.key(kindTerm, add[i].Name)
		}
		b.count(uint32(termsSize(add)))
		b.ops = appendTerms(b.ops, add)
	}
	b.content(p.Data)
	b.content(p.Entry)
}

// distinct keeps the last of terms of one name.
func distinct(terms []memory.Term) []memory.Term {
	if len(terms) < 2 {
		return terms
	}
	at := make(map[string]int, len(terms))
	out := make([]memory.Term, 0, len(terms))
	for _, t := range terms {
		if i, ok := at[t.Name]; ok {
			out[i] = t
			continue
		}
		at[t.Name] = len(out)
		out = append(out, t)
	}
	return out
}

// removed are the names that go for good: a term that is removed and added stays.
func removed(names []string, add []memory.Term) []string {
	if len(names) == 0 {
		return nil
	}
	done := make(map[string]struct{}, len(names)+len(add))
	for _, t := range add {
		done[t.Name] = struct{}{}
	}
	out := make([]string, 0, len(names))
	for _, name := range names {
		if _, ok := done[name]; !ok {
			done[name] = struct{}{}
			out = append(out, name)
		}
	}
	return out
}

func termsSize(terms []memory.Term) int {
	size := 0
	for i := range terms {
		size += 4 + len(terms[i].Name) + 8
	}
	return size
}

// appendTerms writes terms as an object keeps them.
func appendTerms(to []byte, terms []memory.Term) []byte {
	for i := range terms {
		to = binary.BigEndian.AppendUint32(to, uint32(len(terms[i].Name)))
		to = append(to, terms[i].Name...)
		to = binary.BigEndian.AppendUint64(to, terms[i].Sort)
	}
	return to
}

func parseTerms(s string) ([]memory.Term, error) {
	var terms []memory.Term
	for len(s) > 0 {
		n := 0
		if len(s) >= 12 {
			n = int(number4(s))
		}
		if len(s) < 12+n {
			return nil, errDamaged
		}
		terms = append(terms, memory.Term{Name: s[4 : 4+n], Sort: number8(s[4+n:])})
		s = s[12+n:]
	}
	return terms, nil
}

var errDamaged = fmt.Errorf("%w: a key of the store holds what is not of the store", memory.ErrStore)

func number4(s string) uint32 {
	return uint32(s[0])<<24 | uint32(s[1])<<16 | uint32(s[2])<<8 | uint32(s[3])
}

func number8(s string) uint64 { return uint64(number4(s))<<32 | uint64(number4(s[4:])) }

func bytes8(n uint64) string { return string(binary.BigEndian.AppendUint64(nil, n)) }

// parseObject reads the value of an object's key into o, and returns its terms.
func parseObject(value string, o *memory.Object) (terms string, err error) {
	if len(value) < headSize || len(value)-headSize < int(number4(value[9:])) {
		return "", errDamaged
	}
	end := headSize + int(number4(value[9:]))
	o.Revision = number8(value)
	if value[8] == 'd' {
		o.Data = []byte(value[end:])
	}
	return value[headSize:end], nil
}

// Get returns one object per key, in the order of keys, from one snapshot. A
// missing object has revision 0; a tombstone has a revision and nil data.
func (d *Driver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	objects, err := d.get(ctx, tenant, keys, nil)
	if err != nil {
		return nil, edge(ctx, "get", err)
	}
	return objects, nil
}

// get reads objects, and their terms if there is a place for them.
func (d *Driver) get(ctx context.Context, tenant string, keys, terms []string) ([]memory.Object, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	objects := make([]memory.Object, len(keys))
	if len(keys) == 0 {
		return objects, nil
	}
	// The keys are parts of one long string.
	base := d.tenant(tenant) + kindObject
	size := len(keys) * len(base)
	for _, k := range keys {
		size += len(k)
	}
	var all strings.Builder
	all.Grow(size)
	args := make([]any, 1+len(keys))
	args[0] = "mget"
	for i, k := range keys {
		from := all.Len()
		all.WriteString(base)
		all.WriteString(k)
		args[i+1] = all.String()[from:]
	}
	cmd := redis.NewSliceCmd(ctx, args...)
	cmd.SetFirstKeyPos(1)
	if err := d.client.Process(ctx, cmd); err != nil {
		return nil, err
	}
	values := cmd.Val()
	if len(values) != len(keys) {
		return nil, errDamaged
	}
	for i, v := range values {
		objects[i].Key = keys[i]
		value, ok := v.(string)
		if !ok || keys[i] == "" { // the empty key has no object
			continue
		}
		carried, err := parseObject(value, &objects[i])
		if err != nil {
			return nil, err
		}
		if terms != nil {
			terms[i] = carried
		}
	}
	return objects, nil
}

// strings runs a command that returns strings.
func (d *Driver) strings(ctx context.Context, args ...any) ([]string, error) {
	cmd := redis.NewStringSliceCmd(ctx, args...)
	cmd.SetFirstKeyPos(1)
	err := d.client.Process(ctx, cmd)
	return cmd.Val(), err
}

// Query lists the carriers of a term in ascending (sort, key) order. A cursor
// that did not come from Query gives [memory.ErrInvalidBatch].
func (d *Driver) Query(ctx context.Context, tenant string, q memory.Query) (hits []memory.Hit, next string, err error) {
	hits, next, err = d.query(ctx, tenant, q)
	if err != nil {
		return nil, "", edge(ctx, "query", err)
	}
	return hits, next, nil
}

func (d *Driver) query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	if err := d.enter(ctx); err != nil {
		return nil, "", err
	}
	defer d.leave()
	if err := q.Check(); err != nil {
		return nil, "", err
	}
	from := "[" + bytes8(q.From)
	if q.After != "" {
		after, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil || len(after) <= 8 {
			return nil, "", fmt.Errorf("%w: the cursor is not one of this store", memory.ErrInvalidBatch)
		}
		if binary.BigEndian.Uint64(after) >= q.From {
			from = "(" + string(after)
		}
	}
	to := "+"
	if q.To != 0 && q.To != math.MaxUint64 {
		to = "(" + bytes8(q.To+1)
	}
	// One more than wanted shows whether there is more.
	members, err := d.strings(ctx, "zrangebylex", d.tenant(tenant)+kindTerm+q.Term, from, to, "limit", 0, q.Limit+1)
	if err != nil {
		return nil, "", err
	}
	more := len(members) > q.Limit
	members = members[:min(len(members), q.Limit)]
	hits := make([]memory.Hit, len(members))
	for i, m := range members {
		if len(m) <= 8 {
			return nil, "", errDamaged
		}
		hits[i] = memory.Hit{Key: m[8:], Sort: number8(m)}
	}
	if !more {
		return hits, "", nil
	}
	return hits, base64.RawURLEncoding.EncodeToString([]byte(members[len(members)-1])), nil
}

// History returns the log entries of key after a revision, oldest first.
func (d *Driver) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	entries, err := d.history(ctx, tenant, key, after, limit)
	if err != nil {
		return nil, edge(ctx, "history", err)
	}
	return entries, nil
}

func (d *Driver) history(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if limit < 1 || limit > memory.MaxQueryLimit {
		return nil, fmt.Errorf("%w: limit %d, want 1 to %d", memory.ErrInvalidBatch, limit, memory.MaxQueryLimit)
	}
	if after == math.MaxUint64 || key == "" {
		return nil, nil
	}
	log := d.tenant(tenant) + kindLog + key
	var list []string
	var err error
	if after == 0 {
		list, err = d.strings(ctx, "lrange", log, 0, limit-1)
	} else {
		list, err = d.run(ctx, historyScript, false, []string{log}, bytes8(after+1), limit).StringSlice()
	}
	if err != nil {
		return nil, err
	}
	entries := make([]memory.LogEntry, len(list))
	for i, e := range list {
		if len(e) < 8 {
			return nil, errDamaged
		}
		entries[i] = memory.LogEntry{Revision: number8(e), Data: []byte(e[8:])}
	}
	return entries, nil
}

// Close ends the connections once the calls under way are done. Every later call,
// another Close among them, gives [memory.ErrClosed].
func (d *Driver) Close() error {
	ctx := context.Background()
	d.closing.Lock()
	again := d.closed
	d.closed = true
	d.closing.Unlock()
	if again {
		return edge(ctx, "close", memory.ErrClosed)
	}
	d.calls.Wait()
	return edge(ctx, "close", d.client.Close())
}
