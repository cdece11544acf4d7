package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"pgregory.net/rapid"
)

// Compare runs long random sequences of operations on a driver and on the
// reference driver of [NewMap], and fails on the first answer that differs. All
// sequences run on one store, each in two tenants of its own whose names look
// alike, so that what earlier ones left behind, and what is done in the other
// tenant, must stay out of sight. A failing sequence is made as short as it gets
// and printed with its seed; -rapid.checks and -rapid.steps ask for more sequences
// and for longer ones.
func Compare(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	reference := NewMap()
	count := counted(t)
	incarnation := d.Incarnation()
	sequence := 0
	rapid.Check(t, func(rt *rapid.T) {
		sequence++
		count.meet(t, d)
		p := &pair{
			T: rt, ctx: t.Context(), drivers: [2]memory.Driver{reference, d}, count: count,
			cursors: map[string][2]string{},
		}
		for _, name := range genTenants.Draw(rt, "tenants") {
			p.tenants = append(p.tenants, fmt.Sprintf(name, sequence))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"apply":    p.in(p.apply),
			"apply ":   p.in(p.apply), // three times as often
			"apply  ":  p.in(p.apply),
			"get":      p.in(p.get),
			"query":    p.in(p.query),
			"history":  p.in(p.history),
			"restore":  p.in(p.restore),
			"rewrite":  p.in(p.rewrite),
			"logs":     p.in(p.logs),
			"scan":     p.in(p.scan),
			"tenants":  p.listTenants,
			"maintain": p.maintain,
		})
		for _, tenant := range p.tenants {
			p.tenant = tenant
			p.everything()
		}
		p.agree("incarnation", d.Incarnation() == incarnation, incarnation, d.Incarnation())
	})
}

// pair asks two drivers the same.
type pair struct {
	*rapid.T
	ctx     context.Context
	tenants []string
	tenant  string           // the one that is asked in now
	drivers [2]memory.Driver // reference, asked
	count   *counter
	cursors map[string][2]string // where a listing without cursor got to
}

var (
	pairKeys  = []string{"a", "A", "a ", "a\x00", "ab", "b", "\xff", "\xc3\xa9", "e\xcc\x81", "0", "{a}", "%"}
	pairTerms = []string{"t", "T", "t\x00", "u", "\xff"}
	pairSorts = []uint64{0, 1, 2, 255, 256, 1 << 32, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}

	// Two names for the tenants of the sequence of a number. Names of two sequences
	// are never the same.
	genTenants = rapid.SampledFrom([][]string{
		{"%d", "%d "}, {"%d", "%d\x00"}, {"%da", "%dA"}, {"%d:a", "%d:"}, {"{%d}", "%d}"}, {"%d/caf\u00e9", "%d/cafe\u0301"},
		{"%d/\xff", "%d/\xfe"}, {"%d%%", "%d_"}, {"%d'", "%d\""}, {"%d/t", "%d/tt"}, {"%d\\", "%d\\\\"},
	})
	genKey    = rapid.SampledFrom(pairKeys)
	genPrefix = rapid.SampledFrom(append([]string{"", "", "", "\xc3", "x", "\xff\xff"}, pairKeys...))
	genTerm   = rapid.SampledFrom(pairTerms)
	genSort   = rapid.SampledFrom(pairSorts)
	// How far from the true revision a check or put is; mostly not at all.
	genOff = rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, math.MaxUint64, 1 << 53})
	// nil is a tombstone, or no entry.
	genData = rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 12), rapid.Just([]byte(nil)), rapid.Just([]byte{}))
)

// in is an action that first chooses a tenant.
func (p *pair) in(action func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		p.tenant = rapid.SampledFrom(p.tenants).Draw(t, "tenant")
		action(t)
	}
}

func (p *pair) agree(what string, same bool, reference, asked any) {
	p.Helper()
	p.count.checks.Add(1)
	if !same {
		p.Fatalf("%s differs\nreference: %+q\ndriver:    %+q", what, reference, asked)
	}
}

// errs compares errors: both nil, or of one sentinel and about one key.
func (p *pair) errs(what string, reference, asked error) bool {
	p.Helper()
	for _, sentinel := range []error{memory.ErrConflict, memory.ErrInvalidBatch, memory.ErrTooLarge} {
		p.agree(what+": "+sentinel.Error(), errors.Is(reference, sentinel) == errors.Is(asked, sentinel), reference, asked)
		if errors.Is(asked, sentinel) {
			if problem := judge(asked, sentinel); problem != "" {
				p.Fatal(problem)
			}
		}
	}
	p.agree(what+": error", (reference == nil) == (asked == nil), reference, asked)
	var x, y *memory.ConflictError
	if errors.As(reference, &x) {
		p.agree(what+": conflict", errors.As(asked, &y) && x.Key == y.Key, reference, asked)
	}
	return reference == nil
}

func (p *pair) revisions(keys []string) []uint64 {
	objects, err := p.drivers[0].Get(p.ctx, p.tenant, keys)
	if err != nil {
		p.Fatal(err)
	}
	var revisions []uint64
	for _, o := range objects {
		revisions = append(revisions, o.Revision)
	}
	return revisions
}

func (p *pair) apply(t *rapid.T) {
	var b memory.Batch
	checks := rapid.SliceOfN(genKey, 0, 4).Draw(t, "checks")
	for i, revision := range p.revisions(checks) {
		b.Checks = append(b.Checks, memory.Check{Key: checks[i], Revision: revision + genOff.Draw(t, "off")})
	}
	puts := rapid.SliceOfNDistinct(genKey, 0, 6, rapid.ID[string]).Draw(t, "puts")
	for i, revision := range p.revisions(puts) {
		put := memory.Put{Key: puts[i], From: revision + genOff.Draw(t, "off"), Data: genData.Draw(t, "data"), Entry: genData.Draw(t, "entry")}
		for _, name := range rapid.SliceOfN(genTerm, 0, 3).Draw(t, "add") {
			put.Add = append(put.Add, memory.Term{Name: name, Sort: genSort.Draw(t, "sort")})
		}
		put.Remove = rapid.SliceOfN(genTerm, 0, 2).Draw(t, "remove")
		put.Clear = rapid.IntRange(0, 4).Draw(t, "clear") == 4
		b.Puts = append(b.Puts, put)
	}
	if rapid.IntRange(0, 30).Draw(t, "spoil") == 30 && len(b.Puts) > 0 {
		b.Puts = append(b.Puts, b.Puts[0])
	}
	p.errs("apply", p.drivers[0].Apply(p.ctx, p.tenant, b), p.drivers[1].Apply(p.ctx, p.tenant, b))
}

func (p *pair) get(t *rapid.T) { p.sameObjects(rapid.SliceOfN(genKey, 0, 40).Draw(t, "keys")) }

func (p *pair) sameObjects(keys []string) {
	x, err1 := p.drivers[0].Get(p.ctx, p.tenant, keys)
	y, err2 := p.drivers[1].Get(p.ctx, p.tenant, keys)
	if p.errs("get", err1, err2) {
		p.agree("get", slices.EqualFunc(x, y, func(x, y memory.Object) bool {
			return x.Key == y.Key && x.Revision == y.Revision && same(x.Data, y.Data)
		}), x, y)
	}
}

// query asks for a page of a term, now and then the one after an earlier page.
func (p *pair) query(t *rapid.T) {
	q := memory.Query{Term: genTerm.Draw(t, "term"), Limit: rapid.IntRange(0, 6).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "range") {
		q.From, q.To = genSort.Draw(t, "from"), genSort.Draw(t, "to")
	}
	p.page(q)
}

func (p *pair) page(q memory.Query) (more bool) {
	what := fmt.Sprintf("query %+q of tenant %q", fmt.Sprintf("%+v", q), p.tenant)
	at := p.cursors[what]
	x, nextX, err1 := p.drivers[0].Query(p.ctx, p.tenant, withCursor(q, at[0]))
	y, nextY, err2 := p.drivers[1].Query(p.ctx, p.tenant, withCursor(q, at[1]))
	if p.errs(what, err1, err2) {
		p.agree(what, slices.Equal(x, y), x, y)
		p.agree("end of "+what, (nextX == "") == (nextY == ""), nextX, nextY)
		p.cursors[what] = [2]string{nextX, nextY}
	}
	return nextX != ""
}

func withCursor(q memory.Query, after string) memory.Query {
	q.After = after
	return q
}

// names asks both drivers for one page of names; more than once, for the one after.
func (p *pair) names(what string, after string, list func(d memory.Driver, after string) ([]string, string, error)) (more bool) {
	at, ok := p.cursors[what]
	if !ok || at[0] == "" {
		at = [2]string{after, after}
	}
	x, nextX, err1 := list(p.drivers[0], at[0])
	y, nextY, err2 := list(p.drivers[1], at[1])
	if p.errs(what, err1, err2) {
		p.agree(what, slices.Equal(x, y), x, y)
		p.agree("end of "+what, (nextX == "") == (nextY == ""), nextX, nextY)
		p.cursors[what] = [2]string{nextX, nextY}
	}
	return nextX != ""
}

func (p *pair) logs(t *rapid.T) {
	prefix, after := genPrefix.Draw(t, "prefix"), genPrefix.Draw(t, "after")
	p.sameLogs(prefix, after, rapid.IntRange(0, 5).Draw(t, "limit"))
}

func (p *pair) sameLogs(prefix, after string, limit int) (more bool) {
	return p.names(fmt.Sprintf("logs of %q that begin with %q after %q by %d", p.tenant, prefix, after, limit), after, func(d memory.Driver, after string) ([]string, string, error) {
		return d.Logs(p.ctx, p.tenant, prefix, after, limit)
	})
}

func (p *pair) listTenants(t *rapid.T) {
	after, limit := "", rapid.IntRange(0, 5).Draw(t, "limit")
	if rapid.Bool().Draw(t, "later") {
		after = rapid.SampledFrom(p.tenants).Draw(t, "after")
	}
	p.names(fmt.Sprintf("tenants after %q by %d", after, limit), after, func(d memory.Driver, after string) ([]string, string, error) { return d.Tenants(p.ctx, after, limit) })
}

func (p *pair) restore(t *rapid.T) {
	var objects []memory.Restored
	keys := rapid.SliceOfNDistinct(genKey, 0, 5, rapid.ID[string]).Draw(t, "keys")
	for i, now := range p.revisions(keys) {
		o := memory.Restored{Object: memory.Object{Key: keys[i]}}
		// Mostly to where it is or near there, now and then away altogether.
		switch rapid.IntRange(0, 5).Draw(t, "to") {
		case 0:
		case 1:
			o.Revision = uint64(rapid.IntRange(1, 4).Draw(t, "revision"))
		case 2:
			o.Revision = now + 1<<33
		default:
			o.Revision = now + uint64(rapid.IntRange(0, 2).Draw(t, "ahead"))
		}
		if o.Revision > 0 || rapid.IntRange(0, 9).Draw(t, "spoil") == 9 {
			o.Data = genData.Draw(t, "data")
			for _, name := range rapid.SliceOfN(genTerm, 0, 3).Draw(t, "terms") {
				o.Terms = append(o.Terms, memory.Term{Name: name, Sort: genSort.Draw(t, "sort")})
			}
		}
		objects = append(objects, o)
	}
	p.errs("restore", p.drivers[0].Restore(p.ctx, p.tenant, objects), p.drivers[1].Restore(p.ctx, p.tenant, objects))
}

func (p *pair) rewrite(t *rapid.T) {
	key := genKey.Draw(t, "key")
	log, err := p.drivers[0].History(p.ctx, p.tenant, key, 0, memory.MaxQueryLimit)
	if err != nil {
		p.Fatal(err)
	}
	var entries []memory.Rewritten
	for _, e := range log {
		if !rapid.Bool().Draw(t, "this") {
			continue
		}
		if rapid.IntRange(0, 19).Draw(t, "stale") == 19 {
			e.Data = genData.Draw(t, "was")
		}
		entries = append(entries, memory.Rewritten{LogEntry: memory.LogEntry{Revision: e.Revision, Data: genData.Draw(t, "data")}, Was: e.Data})
	}
	if rapid.IntRange(0, 9).Draw(t, "spoil") == 9 {
		absent := memory.LogEntry{Revision: uint64(rapid.IntRange(0, 9).Draw(t, "revision")), Data: genData.Draw(t, "data")}
		entries = append(entries, memory.Rewritten{LogEntry: absent, Was: genData.Draw(t, "was")})
	}
	p.errs("rewrite", p.drivers[0].Rewrite(p.ctx, p.tenant, key, entries), p.drivers[1].Rewrite(p.ctx, p.tenant, key, entries))
}

// maintain does what changes nothing, rarely, since some stores take long over it.
func (p *pair) maintain(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "really") < 9 {
		return
	}
	for _, d := range p.drivers {
		if err := d.Compact(p.ctx); err != nil {
			p.Fatal(err)
		}
		if _, err := d.Inspect(p.ctx); err != nil {
			p.Fatal(err)
		}
	}
}

func (p *pair) history(t *rapid.T) {
	p.sameHistory(genKey.Draw(t, "key"), uint64(rapid.IntRange(0, 20).Draw(t, "after")), rapid.IntRange(0, 5).Draw(t, "limit"))
}

func (p *pair) sameHistory(key string, after uint64, limit int) {
	x, err1 := p.drivers[0].History(p.ctx, p.tenant, key, after, limit)
	y, err2 := p.drivers[1].History(p.ctx, p.tenant, key, after, limit)
	if p.errs("history", err1, err2) {
		p.agree("history", slices.EqualFunc(x, y, func(x, y memory.LogEntry) bool { return x.Revision == y.Revision && same(x.Data, y.Data) }), x, y)
	}
}

func (p *pair) scan(t *rapid.T) {
	after := memory.LogPlace{Key: genPrefix.Draw(t, "after"), Revision: uint64(rapid.IntRange(0, 5).Draw(t, "revision"))}
	p.sameScan(genPrefix.Draw(t, "prefix"), after, rapid.IntRange(0, 5).Draw(t, "limit"))
}

// sameScan asks both drivers for one page, and returns the place after it.
func (p *pair) sameScan(prefix string, after memory.LogPlace, limit int) (next memory.LogPlace, more bool) {
	what := fmt.Sprintf("scan of %q of what begins with %q after %v by %d", p.tenant, prefix, after, limit)
	x, moreX, err1 := p.drivers[0].Scan(p.ctx, p.tenant, prefix, after, limit)
	y, moreY, err2 := p.drivers[1].Scan(p.ctx, p.tenant, prefix, after, limit)
	if !p.errs(what, err1, err2) {
		return after, false
	}
	p.agree(what, slices.EqualFunc(x, y, sameEntry), x, y)
	p.agree("end of "+what, moreX == moreY, moreX, moreY)
	if len(x) > 0 {
		after = x[len(x)-1].Place()
	}
	return after, moreX
}

// sameLists asks both drivers for all objects and the index of terms.
func (p *pair) sameLists(prefix string) {
	x, err1 := objectsOf(p.ctx, p.drivers[0], p.tenant, prefix)
	y, err2 := objectsOf(p.ctx, p.drivers[1], p.tenant, prefix)
	if p.errs("objects", err1, err2) {
		p.agree("objects", slices.EqualFunc(x, y, sameRestored), x, y)
	}
	cx, err1 := carriersOf(p.ctx, p.drivers[0], p.tenant, prefix)
	cy, err2 := carriersOf(p.ctx, p.drivers[1], p.tenant, prefix)
	if p.errs("carriers", err1, err2) {
		p.agree("carriers", slices.Equal(cx, cy), cx, cy)
	}
}

// everything compares all that is in the tenant.
func (p *pair) everything() {
	clear(p.cursors)
	p.sameObjects(pairKeys)
	for _, key := range pairKeys {
		p.sameHistory(key, 0, memory.MaxQueryLimit)
	}
	for _, term := range pairTerms {
		for _, limit := range []int{3, memory.MaxQueryLimit} {
			for p.page(memory.Query{Term: term, Limit: limit}) {
			}
		}
	}
	for _, prefix := range []string{"", "a"} {
		for p.sameLogs(prefix, "", 3) {
		}
	}
	for _, prefix := range []string{"", "a"} {
		p.sameLists(prefix)
	}
	for after, more := (memory.LogPlace{}), true; more; {
		after, more = p.sameScan("", after, 4)
	}
}
