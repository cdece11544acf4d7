package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/redis/go-redis/v9"
)

// The keys of a tenant are PREFIX:{tHEX}, where HEX is its name in hexadecimal, so
// that no name has a brace and none is empty: a Cluster takes the part in braces to
// choose the master, if there is one. Then comes:
//
//	o0 … ov  hashes of objects, by name
//	l0 … lf  hashes of logs, see log.lua
//	t<name>  the carriers of a term, a sorted set
//	r        the names that have a log, a sorted set
//
// So a tenant is a key for each term and few more, and none of them is too large to
// be moved to another master. Objects whose names begin alike are in four hashes:
// many of them are read in few commands. A term has a key of its own since most terms
// have few carriers, and a small sorted set is much faster than a place in a large
// one.
//
// An object is 8 bytes of revision, a number, the terms it carries, its data. The
// number is twice the bytes of terms, plus one if it has data: one byte, or 255 and
// four. A term is a byte of twice the bytes of its name, plus one if it has the sort
// of the term before it; its name; else 8 bytes of sort. If the name is longer than
// 126 bytes, it is 127 in that byte, and four bytes follow. The members of sorted
// sets have the score 0, so their bytes order them: 8 bytes of sort and the name of
// the object, or a name.
const (
	kindObject   = "o"
	kindLog      = "l"
	kindTerm     = "t"
	kindRegister = "r"

	objectHashes = 32
	logHashes    = 16
	digits       = "0123456789abcdefghijklmnopqrstuv"

	tail = 16 // bytes of a name that are its end: of an id or a digest, as often as not
)

// spread is FNV-1a, with all bits in the lowest ones.
func spread(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	h ^= h >> 16
	return h ^ h>>8
}

// Which of the keys of a kind something is in.

func objectHash(name string) int {
	at := max(0, len(name)-tail)
	return int(spread(name[:at])%8*4 + spread(name[at:])%4)
}

func logHash(name string) int { return int(spread(name) % logHashes) }

// of is the key of a kind.
func of(base, kind string, at int) string { return base + kind + digits[at:at+1] }

// Driver is a [memory.Driver] over Redis. It is safe for concurrent use.
type Driver struct {
	client redis.UniversalClient
	prefix string
	mode   mode
	at     string // the host and port, as its user named it

	incarnation atomic.Uint64
	vain        atomic.Int32 // large reads to come that are sent in a transaction
	mu          sync.Mutex
	seen        map[string]string // the server that answered last at each place
	open        bool              // Open is over: a server that is new is another one

	calls   sync.WaitGroup // that somebody waits for
	running sync.WaitGroup // of them, and of those that were given up
	closing sync.RWMutex   // held for reading while a call is counted
	closed  bool
}

var _ memory.Driver = (*Driver)(nil)

// enter is the door of every call.
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
	d.running.Add(1)
	return nil
}

// call runs a call until it is done or given up. The client looks at the deadline of
// a context only: where a server hangs, it would notice the end of one when the time
// for a reply is over. So what was given up is left to end by itself. It only reads
// what the caller gave, and nobody reads what it still writes.
func (d *Driver) call(ctx context.Context, op string, work func() error) error {
	if err := d.enter(ctx); err != nil {
		return edge(ctx, op, d.at, err)
	}
	defer d.calls.Done()
	if ctx.Done() == nil {
		defer d.running.Done()
		return edge(ctx, op, d.at, work())
	}
	done := make(chan error, 1)
	go func() {
		defer d.running.Done()
		done <- work()
	}()
	select {
	case err := <-done:
		return edge(ctx, op, d.at, err)
	case <-ctx.Done():
		return edge(ctx, op, d.at, ctx.Err())
	}
}

// tenant is what the keys of a tenant begin with.
func (d *Driver) tenant(name string) string {
	return d.prefix + ":{t" + hex.EncodeToString([]byte(name)) + "}"
}

// Apply writes a batch, all of it or nothing. After an error that wraps
// [memory.ErrConflict], [memory.ErrTooLarge], [memory.ErrInvalidBatch] or
// [memory.ErrClosed], or that of a context that was done before the call, nothing
// was written; after any other the batch may have been.
func (d *Driver) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	return d.call(ctx, "apply", func() error { return d.apply(ctx, tenant, b) })
}

func (d *Driver) apply(ctx context.Context, tenant string, b memory.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if len(b.Checks)+len(b.Puts) == 0 {
		return nil
	}
	var stale int
	for again := true; again; again = stale < 0 {
		known, err := d.known(ctx, tenant, b.Puts)
		if err != nil {
			return err
		}
		if stale, err = d.write(ctx, applyScript, applying(d.tenant(tenant), &b, known)); err != nil {
			return err
		}
	}
	switch {
	case stale == 0:
		return nil
	case stale <= len(b.Checks):
		return &memory.ConflictError{Key: b.Checks[stale-1].Key}
	default:
		return &memory.ConflictError{Key: b.Puts[stale-1-len(b.Checks)].Key}
	}
}

// known are the names of the terms that the objects carry which are to carry none any
// more. A script names each key that it touches before it runs.
func (d *Driver) known(ctx context.Context, tenant string, puts []memory.Put) (map[string][]string, error) {
	var keys []string
	for i := range puts {
		if p := &puts[i]; p.Clear && p.From > 0 {
			keys = append(keys, p.Key)
		}
	}
	if len(keys) == 0 {
		return nil, nil
	}
	carried := make([]string, len(keys))
	if _, err := d.get(ctx, tenant, keys, carried); err != nil {
		return nil, err
	}
	names := make(map[string][]string, len(keys))
	for i, key := range keys {
		terms, err := parseTerms(carried[i])
		if err != nil {
			return nil, err
		}
		for _, t := range terms {
			names[key] = append(names[key], t.Name)
		}
	}
	return names, nil
}

var errDamaged = fmt.Errorf("%w: a key of the store holds what is not of the store", memory.ErrStore)

// Get returns one object per key, in the order of keys, from one snapshot. A
// missing object has revision 0; a tombstone has a revision and nil data.
func (d *Driver) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	var objects []memory.Object
	err := d.call(ctx, "get", func() (err error) {
		objects, err = d.get(ctx, tenant, keys, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return objects, nil
}

// get reads objects, and their terms if there is a place for them.
func (d *Driver) get(ctx context.Context, tenant string, keys, terms []string) ([]memory.Object, error) {
	objects := make([]memory.Object, len(keys))
	if len(keys) == 0 {
		return objects, nil
	}
	values, place, err := d.fields(ctx, d.tenant(tenant), keys)
	if err != nil {
		return nil, err
	}
	for i, at := range place {
		objects[i].Key = keys[i]
		value, ok := values[at].(string)
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

// fields reads the fields of objects, from one moment, and says where among them each
// one is.
func (d *Driver) fields(ctx context.Context, base string, keys []string) (found []any, place []int, err error) {
	r := newReads(len(keys))
	for _, k := range keys {
		r.object(k)
	}
	names := r.sort()
	cmds := make([]*redis.SliceCmd, 0, len(r.count))
	for at, n := range r.count {
		if n == 0 {
			continue
		}
		args := make([]any, 2, 2+n)
		args[0], args[1] = "hmget", of(base, kindObject, at)
		cmd := redis.NewSliceCmd(ctx, append(args, names[:n]...)...)
		cmd.SetFirstKeyPos(1)
		cmds, names = append(cmds, cmd), names[n:]
	}
	switch {
	case len(cmds) == 1:
		err = d.client.Process(ctx, cmds[0])
	case len(keys) >= many && d.untouched(ctx, cmds):
	default:
		_, err = d.client.TxPipelined(ctx, func(p redis.Pipeliner) error { return queue(ctx, p, cmds) })
		if code(err) == "EXECABORT" {
			err = d.withoutRoom(ctx, cmds)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	found = make([]any, 0, len(keys))
	for _, cmd := range cmds {
		found = append(found, cmd.Val()...)
	}
	if len(found) != len(keys) {
		return nil, nil, errDamaged
	}
	return found, r.place, nil
}

func queue[C redis.Cmder](ctx context.Context, p redis.Pipeliner, cmds []C) error {
	for _, cmd := range cmds {
		if err := p.Process(ctx, cmd); err != nil {
			return err
		}
	}
	return nil
}

// many fields are first read without a transaction, but so many times not after one
// of these reads was in vain.
const many, patience = 256, 16

// untouched is watched where that is worth trying.
func (d *Driver) untouched(ctx context.Context, cmds []*redis.SliceCmd) bool {
	if d.vain.Load() > 0 {
		d.vain.Add(-1)
		return false
	}
	if d.watched(ctx, cmds) != nil {
		d.vain.Store(patience)
		return false
	}
	return true
}

// withoutRoom reads where a transaction was refused: a server that is out of memory
// queues nothing for one, not even reads. It is watched as long as that was in vain, which
// where nobody can write it hardly is.
func (d *Driver) withoutRoom(ctx context.Context, cmds []*redis.SliceCmd) (err error) {
	const attempts = 32
	for range attempts {
		if err = d.watched(ctx, cmds); err == nil || !errors.Is(err, redis.Nil) {
			return err
		}
	}
	return fmt.Errorf("%w: the server is out of memory, and what is read is written all the time", memory.ErrFull)
}

// watched sends reads of hashes one after the other, and asks behind them, in the same
// round trip, whether anything was written to one of the hashes meanwhile. If so, or if
// anything else fails, it returns an error, and they are to be read again in a
// transaction. There the server answers nothing before it has read everything, and the
// client waits; here the one reads the answers while the other looks for the next.
func (d *Driver) watched(ctx context.Context, cmds []*redis.SliceCmd) error {
	keys := make([]any, 1, 1+len(cmds))
	keys[0] = "watch"
	for _, cmd := range cmds {
		keys = append(keys, cmd.Args()[1])
	}
	var master *redis.Client
	switch c := d.client.(type) {
	case *redis.Client:
		master = c
	case *redis.ClusterClient: // the hashes of a tenant are on one
		var err error
		if master, err = c.MasterForKey(ctx, keys[1].(string)); err != nil {
			return err
		}
	}
	_, err := master.Pipelined(ctx, func(p redis.Pipeliner) error {
		all := make([]redis.Cmder, 0, len(cmds)+3)
		all = append(all, redis.NewStatusCmd(ctx, keys...))
		for _, cmd := range cmds {
			all = append(all, cmd)
		}
		all = append(all, redis.NewStatusCmd(ctx, "multi"), redis.NewSliceCmd(ctx, "exec"))
		return queue(ctx, p, all)
	})
	return err
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
func (d *Driver) Query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
	var hits []memory.Hit
	var next string
	err := d.call(ctx, "query", func() (err error) {
		hits, next, err = d.query(ctx, tenant, q)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return hits, next, nil
}

func (d *Driver) query(ctx context.Context, tenant string, q memory.Query) ([]memory.Hit, string, error) {
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
	var entries []memory.LogEntry
	err := d.call(ctx, "history", func() (err error) {
		entries, err = d.history(ctx, tenant, key, after, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

func (d *Driver) history(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	if limit < 1 || limit > memory.MaxQueryLimit {
		return nil, fmt.Errorf("%w: limit %d, want 1 to %d", memory.ErrInvalidBatch, limit, memory.MaxQueryLimit)
	}
	if after == math.MaxUint64 || key == "" {
		return nil, nil
	}
	hash := of(d.tenant(tenant), kindLog, logHash(key))
	cmd := redis.NewStringCmd(ctx, "hget", hash, logField(key))
	cmd.SetFirstKeyPos(1)
	switch err := d.client.Process(ctx, cmd); {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	case cmd.Val() == "":
		return nil, errDamaged
	}
	pieces := []string{cmd.Val()[1:]}
	if cmd.Val()[0] != 's' { // there is more
		var err error
		if pieces, err = d.run(ctx, historyScript, false, []string{hash}, key, bytes8(after+1), limit).StringSlice(); err != nil {
			return nil, err
		}
	}
	return parseLog(pieces, after, limit)
}

// Close ends the connections once the calls under way are done; one that was given up
// ends with its connection. Every later call, another Close among them, gives
// [memory.ErrClosed].
func (d *Driver) Close() error {
	ctx := context.Background()
	d.closing.Lock()
	again := d.closed
	d.closed = true
	d.closing.Unlock()
	if again {
		return edge(ctx, "close", d.at, memory.ErrClosed)
	}
	d.calls.Wait()
	err := d.client.Close()
	d.running.Wait()
	return edge(ctx, "close", d.at, err)
}
