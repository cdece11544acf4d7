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
// sequences run on one store, each in a tenant of its own, so that what earlier
// ones left behind must stay out of sight. A failing sequence is made as short as
// it gets and printed with its seed; -rapid.checks and -rapid.steps ask for more
// sequences and for longer ones.
func Compare(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	reference := NewMap()
	count := counted(t)
	sequence := 0
	rapid.Check(t, func(rt *rapid.T) {
		sequence++
		count.tests.Add(1)
		p := &pair{
			T: rt, ctx: t.Context(), tenant: fmt.Sprintf("sequence %d", sequence),
			drivers: [2]memory.Driver{reference, d}, count: count,
			cursors: map[memory.Query][2]string{},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"apply":   p.apply,
			"apply ":  p.apply, // twice as often
			"get":     p.get,
			"query":   p.query,
			"history": p.history,
		})
		p.everything()
	})
}

// pair asks two drivers the same.
type pair struct {
	*rapid.T
	ctx     context.Context
	tenant  string
	drivers [2]memory.Driver // reference, asked
	count   *counter
	cursors map[memory.Query][2]string // where a query without After got to
}

var (
	pairKeys  = []string{"a", "A", "a ", "a\x00", "ab", "b", "\xff", "\xc3\xa9", "e\xcc\x81", "0", "{a}", "%"}
	pairTerms = []string{"t", "T", "t\x00", "u", "\xff"}
	pairSorts = []uint64{0, 1, 2, 255, 256, 1 << 32, 1<<53 + 1, math.MaxInt64, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}

	genKey  = rapid.SampledFrom(pairKeys)
	genTerm = rapid.SampledFrom(pairTerms)
	genSort = rapid.SampledFrom(pairSorts)
	// How far from the true revision a check or put is; mostly not at all.
	genOff = rapid.SampledFrom([]uint64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, math.MaxUint64, 1 << 53})
	// nil is a tombstone, or no entry.
	genData = rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 12), rapid.Just([]byte(nil)), rapid.Just([]byte{}))
)

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
	at := p.cursors[q]
	x, nextX, err1 := p.drivers[0].Query(p.ctx, p.tenant, withCursor(q, at[0]))
	y, nextY, err2 := p.drivers[1].Query(p.ctx, p.tenant, withCursor(q, at[1]))
	if p.errs("query", err1, err2) {
		p.agree(fmt.Sprintf("query %+v", q), slices.Equal(x, y), x, y)
		p.agree(fmt.Sprintf("end of query %+v", q), (nextX == "") == (nextY == ""), nextX, nextY)
		p.cursors[q] = [2]string{nextX, nextY}
	}
	return nextX != ""
}

func withCursor(q memory.Query, after string) memory.Query {
	q.After = after
	return q
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

// everything compares all that is in the tenant.
func (p *pair) everything() {
	p.sameObjects(pairKeys)
	for _, key := range pairKeys {
		p.sameHistory(key, 0, memory.MaxQueryLimit)
	}
	for _, term := range pairTerms {
		for _, limit := range []int{3, memory.MaxQueryLimit} {
			q := memory.Query{Term: term, Limit: limit}
			delete(p.cursors, q)
			for p.page(q) {
			}
		}
	}
}
