package storetest

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

// scanCases ask what a listing of all log entries must do.
func scanCases() []testCase {
	return []testCase{
		{"scan lists all entries by key and revision, from any place and of any prefix", askScan},
		{"scan lists what is in logs, whatever became of objects and terms", askScanOfWhat},
		{"scan ends a page of large entries early, and never without one", askScanOfMuch},
		{"scan pages while others append and rewrite", askScanWhileInserting},
		{"the entries of a scan are the caller's, each its own", askScanAliasing},
	}
}

// scan pages through all entries and checks limits on the way.
func (a *asker) scan(prefix string, after memory.LogPlace, limit int) []memory.Logged {
	a.Helper()
	var all []memory.Logged
	for {
		page, more, err := a.d.Scan(a.ctx, a.tenant, prefix, after, limit)
		a.ok(err)
		a.true(len(page) <= limit, "%d entries, limit is %d", len(page), limit)
		all = append(all, page...)
		if !more {
			return all
		}
		a.true(len(page) > 0, "a page without entries, and more are said to follow")
		a.true(len(all) < 100_000, "paging does not end")
		after = page[len(page)-1].Place()
	}
}

func sameEntry(x, y memory.Logged) bool {
	return x.Key == y.Key && x.Revision == y.Revision && same(x.Data, y.Data)
}

func (a *asker) scanned(what string, got []memory.Logged, want ...memory.Logged) {
	a.Helper()
	a.checks.Add(1)
	if slices.EqualFunc(got, want, sameEntry) { // only if not are the texts worth making
		return
	}
	for i := range min(len(got), len(want)) {
		if !sameEntry(got[i], want[i]) {
			a.Fatalf("%s: entry %d of the list is %d of %.80q with %.80q, want %d of %.80q with %.80q", what, i,
				got[i].Revision, got[i].Key, got[i].Data, want[i].Revision, want[i].Key, want[i].Data)
		}
	}
	a.Fatalf("%s: %d entries are listed, want %d", what, len(got), len(want))
}

func compareLogged(x, y memory.Logged) int {
	return cmp.Or(strings.Compare(x.Key, y.Key), cmp.Compare(x.Revision, y.Revision))
}

func askScan(a *asker) {
	a.scanned("of nothing", a.scan("", memory.LogPlace{}, 10))
	keys := append(lookalikes(), "head/a", "head/b", "head/", "head", "head0", "heae", "head\xff", "head\xff\xff/x")
	var all []memory.Logged
	for revision := range uint64(3) {
		var b memory.Batch
		for i, k := range keys {
			p := memory.Put{Key: k, From: revision, Data: data("x")}
			if i%3 >= int(revision) || i%5 == 0 { // logs of one to three entries
				p.Entry = data("%d of %d", revision+1, i)
				all = append(all, memory.Logged{Key: k, LogEntry: memory.LogEntry{Revision: revision + 1, Data: p.Entry}})
			}
			b.Puts = append(b.Puts, p)
		}
		slices.SortFunc(b.Puts, func(x, y memory.Put) int { return -strings.Compare(x.Key, y.Key) })
		a.ok(a.d.Apply(a.ctx, a.tenant, b))
	}
	slices.SortFunc(all, compareLogged)
	begin := func(prefix string, after memory.LogPlace) (want []memory.Logged) {
		for _, e := range all {
			if strings.HasPrefix(e.Key, prefix) && (e.Key > after.Key || e.Key == after.Key && e.Revision > after.Revision) {
				want = append(want, e)
			}
		}
		return want
	}
	for _, limit := range []int{7, len(all) - 1, len(all), len(all) + 1, memory.MaxQueryLimit} {
		a.scanned(fmt.Sprintf("pages of %d", limit), a.scan("", memory.LogPlace{}, limit), all...)
	}
	a.scanned("pages of 1", a.scan("byte:", memory.LogPlace{}, 1), begin("byte:", memory.LogPlace{})...)
	for _, prefix := range append(slices.Clone(keys[:40]), "head/", "hea", "c", "caf", "cafe", "caf\xc3", "kkk", "byte:", "byte", "alic", "a%", "%l%", "[a-z]", "^a", ".*", "\xff\xff\xff", "no such") {
		a.scanned(fmt.Sprintf("prefix %.40q", prefix), a.scan(prefix, memory.LogPlace{}, 100), begin(prefix, memory.LogPlace{})...)
	}
	for _, prefix := range []string{"", "head", "head/", "byte:", "alice", "\xff", "%"} {
		for _, key := range []string{"\x00", "alice", "alice\x00", "byte:\x7f", "head", "head/", "head/a", "head/aa", "head0", "\xff", "\xff\xff\xff"} {
			for _, revision := range []uint64{0, 1, 3, math.MaxUint64} {
				after := memory.LogPlace{Key: key, Revision: revision}
				a.scanned(fmt.Sprintf("prefix %q after %v", prefix, after), a.scan(prefix, after, memory.MaxQueryLimit), begin(prefix, after)...)
			}
		}
	}
	a.scanned("after a revision of no key", a.scan("", memory.LogPlace{Revision: 2}, 1000), all...)
}

func askScanOfWhat(a *asker) {
	a.apply(
		memory.Put{Key: "log/alive", Data: data("x"), Entry: data("alive")},
		memory.Put{Key: "log/born dead", Entry: data("born dead"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/dead", Data: data("x"), Entry: data("dead"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/empty", Data: data("x"), Entry: []byte{}},
		memory.Put{Key: "log/late", Data: data("x")},
		memory.Put{Key: "log/lost", Data: data("x"), Entry: data("lost"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/silent", Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/stripped", Data: data("x"), Entry: data("x")},
	)
	a.apply(memory.Put{Key: "log/dead", From: 1, Remove: []string{"t"}}, memory.Put{Key: "log/late", From: 1, Data: data("y"), Entry: data("late")})
	for i := range uint64(5) {
		a.apply(memory.Put{Key: "log/packed", From: i, Data: data("x"), Entry: data("%d", i+1)})
	}
	a.restore(restored("log/lost", 0, nil), restored("log/never written", 5, data("x")), restored("log/alive", 9, nil))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "log/stripped", []memory.LogEntry{{Revision: 1}}))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "log/packed", []memory.LogEntry{{Revision: 1}, {Revision: 3, Data: data("1 to 3")}, {Revision: 5, Data: []byte{}}}))
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "log/refused", Data: data("x"), Entry: data("x")}, {Key: "log/alive", From: 7}}}), "log/alive")
	entry := func(key string, revision uint64, content []byte) memory.Logged {
		return memory.Logged{Key: "log/" + key, LogEntry: memory.LogEntry{Revision: revision, Data: content}}
	}
	want := []memory.Logged{
		entry("alive", 1, data("alive")), entry("born dead", 1, data("born dead")), entry("dead", 1, data("dead")), entry("empty", 1, []byte{}),
		entry("late", 2, data("late")), entry("lost", 1, data("lost")),
		entry("packed", 2, data("2")), entry("packed", 3, data("1 to 3")), entry("packed", 4, data("4")), entry("packed", 5, []byte{}),
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		a.scanned(fmt.Sprintf("pages of %d", limit), a.scan("log/", memory.LogPlace{}, limit), want...)
		page, more, err := a.d.Scan(a.ctx, a.tenant, "log/", memory.LogPlace{}, limit)
		a.ok(err)
		a.true(len(page) == min(limit, len(want)) && more == (limit < len(want)), "a page of %d of %d small entries, and it says of more: %t", len(page), len(want), more)
	}
	// Revisions as large as they get.
	a.restore(restored("log/far", 1<<40, data("x")))
	a.apply(memory.Put{Key: "log/far", From: 1 << 40, Data: data("x"), Entry: data("far")})
	a.scanned("a large revision", a.scan("log/f", memory.LogPlace{Key: "log/far", Revision: 1 << 40}, 5), entry("far", 1<<40+1, data("far")))
	a.scanned("after it", a.scan("log/f", memory.LogPlace{Key: "log/far", Revision: 1<<40 + 1}, 5))
	a.scanned("another tenant", a.in("elsewhere").scan("", memory.LogPlace{}, 10))
}

func askScanOfMuch(a *asker) {
	const n, size = 10, 2 << 20
	var want []memory.Logged
	for i := range uint64(n) {
		key, revision := "one", i
		if i >= n/2 {
			key, revision = fmt.Sprintf("one of many %02d", i), 0
		}
		e := memory.Logged{Key: key, LogEntry: memory.LogEntry{Revision: revision + 1, Data: bytes.Repeat([]byte{byte(i)}, size)}}
		a.apply(memory.Put{Key: key, From: revision, Entry: e.Data})
		want = append(want, e)
	}
	page, more, err := a.d.Scan(a.ctx, a.tenant, "", memory.LogPlace{}, memory.MaxQueryLimit)
	a.ok(err)
	a.true(len(page) > 0 && len(page)*size <= memory.MaxBatchBytes+size && more, "a page has %d entries of 2 MiB, and says of more: %t", len(page), more)
	a.scanned("large entries", a.scan("", memory.LogPlace{}, memory.MaxQueryLimit), want...)
	whole := bytes.Repeat([]byte("x"), memory.MaxBatchBytes-10)
	a.apply(memory.Put{Key: "two", Entry: whole})
	a.apply(memory.Put{Key: "two", From: 1, Entry: data("small")})
	got := a.scan("tw", memory.LogPlace{}, 5)
	a.true(len(got) == 2 && bytes.Equal(got[0].Data, whole) && string(got[1].Data) == "small", "%d of two entries are listed, the first of which is as large as they get", len(got))
}

func askScanWhileInserting(a *asker) {
	const stay, rounds = 40, 40
	var want []memory.Logged
	var b memory.Batch
	for i := range stay {
		e := memory.Logged{Key: fmt.Sprintf("%03d/stay", i), LogEntry: memory.LogEntry{Revision: 1, Data: data("%d", i)}}
		b.Puts = append(b.Puts, memory.Put{Key: e.Key, Data: data("x"), Entry: e.Data})
		want = append(want, e)
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	var at atomic.Int64
	beside(a, rounds, func(round int) error {
		defer at.Add(1)
		// New logs between the others, and entries that come and go again behind theirs.
		key := want[round*7%stay].Key
		err := a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{
			{Key: fmt.Sprintf("%03d/new %d", round*7%stay, round), Data: data("x"), Entry: data("x")},
			{Key: key, From: uint64(1 + round/stay), Data: data("y"), Entry: data("y")},
		}})
		if err == nil && round%2 == 0 {
			err = Rewrite(a.ctx, a.d, a.tenant, key, []memory.LogEntry{{Revision: uint64(2 + round/stay)}})
		}
		if err != nil {
			at.Store(rounds) // nobody waits for a further one
		}
		return err
	}, func() error {
		var got []memory.Logged
		for after, more := (memory.LogPlace{}), true; more; {
			var page []memory.Logged
			var err error
			if page, more, err = a.d.Scan(a.ctx, a.tenant, "0", after, 7); err != nil {
				return err
			}
			for wrote := at.Load(); at.Load() == wrote && wrote < rounds; { // a write between two pages
				time.Sleep(10 * time.Microsecond)
			}
			for _, e := range page {
				if prior := (memory.Logged{Key: after.Key, LogEntry: memory.LogEntry{Revision: after.Revision}}); compareLogged(prior, e) >= 0 {
					return fmt.Errorf("entry %d of %q is listed after %v", e.Revision, e.Key, after)
				}
				if after = e.Place(); e.Revision == 1 && strings.HasSuffix(e.Key, "/stay") {
					got = append(got, e)
				}
			}
		}
		if !slices.EqualFunc(got, want, sameEntry) {
			return fmt.Errorf("of %d entries that stayed %d were listed, or others than were there", len(want), len(got))
		}
		return nil
	})
	a.true(at.Load() >= rounds, "the writer was over after %d rounds", at.Load())
}

func askScanAliasing(a *asker) {
	var want []memory.Logged
	for i := range 6 {
		e := memory.Logged{Key: fmt.Sprint("k", i/2), LogEntry: memory.LogEntry{Revision: uint64(i%2 + 1), Data: data("entry %d", i)}}
		a.apply(memory.Put{Key: e.Key, From: uint64(i % 2), Entry: e.Data})
		want = append(want, e)
	}
	got := a.scan("", memory.LogPlace{}, 10)
	for i := range got {
		_ = append(got[i].Data, "reaches into the next one"...)
	}
	a.scanned("after appending to each", got, want...)
	for i := range got {
		copy(got[i].Data, "CHANGED")
	}
	a.scanned("after changing each", a.scan("", memory.LogPlace{}, 10), want...)
}
