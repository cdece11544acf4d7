package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/internal/sample"
	"github.com/hearsay-go/hearsay/memory"
)

// Run asks the whole contract of a driver. It calls open for each test; open
// must return a fresh and empty store, and Run closes it. Tests run in parallel.
// Run logs how many tests and checks met which store, in one line, and fails if
// none did.
func Run(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	run(t, open, cases())
}

// meanwhile finds, in the name of a case, what else goes on while a call runs. It is what a
// second way to open a store is likeliest to break.
var meanwhile = regexp.MustCompile(`while|beside|half a batch|seen whole|under way|at any point|under load|writers|cancelled|close`)

// RunSample asks a fixed sample of the contract, and with HEARSAY_FULL=1 all of it. It is
// for a second way to open a store of which [Run] asks everything in the first: with one
// connection, or with less durability.
func RunSample(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	var list []testCase
	all := cases()
	for _, i := range sample.Of(len(all), func(i int) string { return meanwhile.FindString(all[i].name) }) {
		list = append(list, all[i])
	}
	run(t, open, list)
}

func run(t *testing.T, open func(t *testing.T) memory.Driver, list []testCase) {
	t.Helper()
	count := counted(t)
	for _, c := range list {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			closeLater(t, d)
			count.meet(t, d)
			c.ask(&asker{T: t, ctx: t.Context(), d: d, tenant: "tenant", checks: &count.checks})
		})
	}
}

// RunDurable asks what must outlive a handle. It calls open for each test; open
// must return a driver on a fresh and empty store and a function that opens one
// more driver on the same store, whether or not the first was closed. RunDurable
// closes them all.
func RunDurable(t *testing.T, open func(t *testing.T) (d memory.Driver, reopen func() memory.Driver)) {
	t.Helper()
	count := counted(t)
	for _, c := range durableCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, reopen := open(t)
			closeLater(t, d)
			count.meet(t, d)
			c.ask(&asker{T: t, ctx: t.Context(), d: d, tenant: "tenant", checks: &count.checks}, func() memory.Driver {
				again := reopen()
				closeLater(t, again)
				return again
			})
		})
	}
}

type counter struct {
	tests, checks atomic.Int64
	once          sync.Once
	server        string // whom the tests met
}

// meet counts a test that is about to ask d.
func (c *counter) meet(t *testing.T, d memory.Driver) {
	c.tests.Add(1)
	c.once.Do(func() {
		found, err := d.Inspect(t.Context())
		if err != nil || found.Server == "" {
			t.Errorf("the store does not say what it is (%v)", err)
		}
		c.server = found.Server
	})
}

// grouped writes a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// counted makes a counter that is logged, and asked for zero, when all tests
// below t are over.
func counted(t *testing.T) *counter {
	c := &counter{}
	t.Cleanup(func() {
		t.Logf("storetest: %s: %s tests, %s checks", c.server, grouped(c.tests.Load()), grouped(c.checks.Load()))
		if c.tests.Load() == 0 || c.checks.Load() == 0 {
			t.Error("storetest: nothing was asked")
		}
	})
	return c
}

func closeLater(t *testing.T, d memory.Driver) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !errors.Is(err, memory.ErrClosed) {
			t.Errorf("close: %v", err)
		}
	})
}

// asker asks one store. Its methods count what they verify.
type asker struct {
	*testing.T
	ctx    context.Context
	d      memory.Driver
	tenant string
	checks *atomic.Int64
}

// on is the same asker before another handle.
func (a *asker) on(d memory.Driver) *asker {
	b := *a
	b.d = d
	return &b
}

// in is the same asker in another tenant.
func (a *asker) in(tenant string) *asker {
	b := *a
	b.tenant = tenant
	return &b
}

func (a *asker) true(ok bool, format string, args ...any) {
	a.Helper()
	a.checks.Add(1)
	if !ok {
		a.Fatalf(format, args...)
	}
}

func (a *asker) ok(err error) {
	a.Helper()
	a.checks.Add(1)
	if err != nil {
		a.Fatal(err)
	}
}

// is asks for an error with a sentinel, and that its text gives no driver away.
func (a *asker) is(err, sentinel error) {
	a.Helper()
	a.checks.Add(1)
	if problem := judge(err, sentinel); problem != "" {
		a.Fatal(problem)
	}
}

// driverWords are in the texts of the libraries and servers below drivers, and of
// the network below those, not in ours.
var driverWords = []string{
	"SQL", "sqlite3", "constraint", "pgx", "pgconn", "pq:", "FATAL:", "duplicate key", "deadlock detected", "could not serialize",
	"redis:", "go-redis", "ERR ", "EVALSHA", "NOSCRIPT", "WRONGTYPE", "READONLY ", "MOVED ", "LOADING ", "BUSY ", "OOM ", "user_script",
	"connection refused", "broken pipe", "connection reset", "i/o timeout", "dial tcp", "use of closed",
}

func judge(err, sentinel error) string {
	if !errors.Is(err, sentinel) {
		return fmt.Sprintf("error is %v, want one that is %q", err, sentinel)
	}
	for _, w := range driverWords {
		if strings.Contains(err.Error(), w) {
			return fmt.Sprintf("error %q has driver text in it (%q)", err, w)
		}
	}
	return ""
}

// short prints the beginning of a list.
func short(list any) string {
	text := fmt.Sprintf("%+q", list)
	if len(text) > 400 {
		text = text[:400] + "…"
	}
	return text
}

func (a *asker) conflict(err error, key string) {
	a.Helper()
	a.is(err, memory.ErrConflict)
	var conflict *memory.ConflictError
	a.true(errors.As(err, &conflict), "error %v is no *memory.ConflictError", err)
	a.true(conflict.Key == key, "the conflict names %q, want %q", conflict.Key, key)
}

func (a *asker) apply(puts ...memory.Put) {
	a.Helper()
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: puts}))
}

func (a *asker) get(keys ...string) []memory.Object {
	a.Helper()
	objects, err := a.d.Get(a.ctx, a.tenant, keys)
	a.ok(err)
	a.true(len(objects) == len(keys), "%d objects for %d keys", len(objects), len(keys))
	for i, o := range objects {
		if o.Key != keys[i] {
			a.Fatalf("object %d has key %.80q, asked was %.80q", i, o.Key, keys[i])
		}
	}
	return objects
}

// at asks that key is at a revision with some data (nil = none).
func (a *asker) at(key string, revision uint64, data []byte) {
	a.Helper()
	o := a.get(key)[0]
	a.true(o.Revision == revision, "%.80q is at revision %d, want %d", key, o.Revision, revision)
	a.true(same(o.Data, data), "%.80q holds %.80q (nil: %t), want %.80q (nil: %t)", key, o.Data, o.Data == nil, data, data == nil)
}

// same tells nil from no bytes.
func same(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) }

// list pages through a term and checks order and limits on the way.
func (a *asker) list(q memory.Query) []memory.Hit {
	a.Helper()
	return a.pages(q, func() {})
}

// pages is list with something done before each page.
func (a *asker) pages(q memory.Query, before func()) []memory.Hit {
	a.Helper()
	var all []memory.Hit
	for {
		before()
		hits, next, err := a.d.Query(a.ctx, a.tenant, q)
		a.ok(err)
		a.true(len(hits) <= q.Limit, "%d hits, limit is %d", len(hits), q.Limit)
		a.true(next == "" || len(hits) == q.Limit, "a page of %d hits with a cursor, limit is %d", len(hits), q.Limit)
		all = append(all, hits...)
		if next == "" {
			break
		}
		a.true(len(all) < 100_000, "paging does not end")
		q.After = next
	}
	a.true(slices.IsSortedFunc(all, compareHits), "the carriers are not in (sort, key) order: %s", short(all))
	return all
}

func (a *asker) carriers(term string, want ...memory.Hit) {
	a.Helper()
	got := a.list(memory.Query{Term: term, Limit: 100})
	a.true(slices.Equal(got, want), "the carriers of %.80q are %s, want %s", term, short(got), short(want))
}

func (a *asker) history(key string) []memory.LogEntry {
	a.Helper()
	var all []memory.LogEntry
	for after := uint64(0); ; {
		page, err := a.d.History(a.ctx, a.tenant, key, after, 100)
		a.ok(err)
		all = append(all, page...)
		if len(page) < 100 {
			return all
		}
		after = page[len(page)-1].Revision
	}
}

func (a *asker) log(key string, want ...memory.LogEntry) {
	a.Helper()
	got := a.history(key)
	a.true(slices.EqualFunc(got, want, func(x, y memory.LogEntry) bool { return x.Revision == y.Revision && same(x.Data, y.Data) }),
		"the log of %.80q is %s, want %s", key, short(got), short(want))
}

// untouched asks that nothing was ever written to a key.
func (a *asker) untouched(key string, terms ...string) {
	a.Helper()
	a.at(key, 0, nil)
	a.log(key)
	for _, term := range terms {
		for _, h := range a.list(memory.Query{Term: term, Limit: 1000}) {
			a.true(h.Key != key, "%.80q carries %.80q", key, term)
		}
	}
}
