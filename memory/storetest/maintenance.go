package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
)

// maintenanceCases ask what an operator's calls must do.
func maintenanceCases() []testCase {
	return []testCase{
		{"restore sets the revision, the data and exactly the terms, whatever was there", askRestore},
		{"restore to revision zero leaves only the log", askRestoreRemoves},
		{"puts go on from a restored revision", askRestoreGoesOn},
		{"a put behind its log never replaces an entry", askRestoredBehindLog},
		{"restore of too much, or of what makes no sense, does nothing", askRestoreRefused},
		{"restore is seen whole or not at all", askRestoreAtomic},
		{"what a caller restores or rewrites with may change after the call", askMaintenanceAliasing},
		{"rewrite replaces and removes entries of one key", askRewrite},
		{"history skips removed entries and pages over them", askRewriteHistory},
		{"a rewrite with an entry that is not there does nothing", askRewriteMissing},
		{"a rewrite of an entry that is not what it was does nothing", askRewriteStale},
		{"one of many who rewrite what they read of a log wins", askRewriteRace},
		{"rewrite of too much, or of what makes no sense, does nothing", askRewriteRefused},
		{"a rewrite is seen whole or not at all", askRewriteAtomic},
		{"logs are listed by prefix, byte by byte", askLogs},
		{"only keys with entries are listed, whatever became of their objects", askLogsOfWhat},
		{"logs page while others append", askLogsWhileInserting},
		{"tenants are listed that have an object or an entry", askTenantsListed},
		{"tenants page while others come", askTenantsWhileInserting},
		{"no maintenance of one tenant reaches another", askMaintenanceOfTenants},
		{"listings out of bounds are refused", askInvalidListings},
		{"compact changes nothing that can be read, beside readers and writers", askCompact},
		{"inspect names the server, the promise, and a way out of each danger", askInspect},
		{"the incarnation stays in plain use", askIncarnation},
		{"maintenance that is cancelled before it begins does nothing", askMaintenanceCancelled},
		{"restore cancelled under way is whole or nothing", askRestoreCancelledDuring},
		{"maintenance after close says that the store is closed", askMaintenanceClosed},
	}
}

// names pages through a listing and checks order and limits on the way.
func (a *asker) names(limit int, list func(after string) ([]string, string, error)) []string {
	a.Helper()
	var all []string
	for after := ""; ; {
		page, next, err := list(after)
		a.ok(err)
		a.true(len(page) <= limit, "%d names, limit is %d", len(page), limit)
		a.true(next == "" || len(page) == limit, "a page of %d names with a cursor, limit is %d", len(page), limit)
		all = append(all, page...)
		if next == "" {
			break
		}
		a.true(len(all) < 100_000, "paging does not end")
		after = next
	}
	for i := 1; i < len(all); i++ {
		if all[i-1] >= all[i] {
			a.Fatalf("%.80q comes before %.80q", all[i-1], all[i])
		}
	}
	return all
}

func (a *asker) logs(prefix string, limit int) []string {
	a.Helper()
	return a.names(limit, func(after string) ([]string, string, error) { return a.d.Logs(a.ctx, a.tenant, prefix, after, limit) })
}

func (a *asker) tenants(limit int) []string {
	a.Helper()
	return a.names(limit, func(after string) ([]string, string, error) { return a.d.Tenants(a.ctx, after, limit) })
}

func (a *asker) listed(what string, got []string, want ...string) {
	a.Helper()
	a.checks.Add(1)
	if !slices.Equal(got, want) { // only then are the texts worth making
		a.Fatalf("%s: listed are %s, want %s", what, short(got), short(want))
	}
}

func restored(key string, revision uint64, data []byte, terms ...memory.Term) memory.Restored {
	return memory.Restored{Object: memory.Object{Key: key, Revision: revision, Data: data}, Terms: terms}
}

func (a *asker) restore(objects ...memory.Restored) {
	a.Helper()
	a.ok(a.d.Restore(a.ctx, a.tenant, objects))
}

func askRestore(a *asker) {
	a.restore(restored("new", 7, data("n"), memory.Term{Name: "t", Sort: 3}))
	a.at("new", 7, data("n"))
	a.log("new")
	a.carriers("t", memory.Hit{Key: "new", Sort: 3})

	entries := []memory.LogEntry{{Revision: 1, Data: data("1")}, {Revision: 2, Data: data("2")}}
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1"), Add: []memory.Term{{Name: "t", Sort: 1}, {Name: "old", Sort: 1}, {Name: "resort", Sort: 1}}})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: data("2")}, memory.Put{Key: "other", Data: data("o"), Add: []memory.Term{{Name: "old", Sort: 5}}})
	for _, revision := range []uint64{2, 9, 1, 1 << 40, 2} { // in place, ahead, back, far ahead, back again
		content := data("at %d", revision)
		a.restore(restored("k", revision, content, memory.Term{Name: "resort", Sort: revision}, memory.Term{Name: "fresh", Sort: math.MaxUint64}))
		a.at("k", revision, content)
		a.log("k", entries...)
		a.carriers("t", memory.Hit{Key: "new", Sort: 3})
		a.carriers("old", memory.Hit{Key: "other", Sort: 5})
		a.carriers("resort", memory.Hit{Key: "k", Sort: revision})
		a.carriers("fresh", memory.Hit{Key: "k", Sort: math.MaxUint64})
	}
	a.restore(restored("k", 3, nil), restored("other", 1, []byte{}, memory.Term{Name: "old", Sort: 1}, memory.Term{Name: "old", Sort: 6}))
	a.at("k", 3, nil)
	a.at("other", 1, []byte{})
	a.carriers("resort")
	a.carriers("fresh")
	a.carriers("old", memory.Hit{Key: "other", Sort: 6})
	a.ok(a.d.Restore(a.ctx, a.tenant, nil))

	keys := lookalikes()
	var all []memory.Restored
	for i, k := range keys {
		all = append(all, restored(k, uint64(i+1), data("%d", i), memory.Term{Name: k, Sort: uint64(i)}))
	}
	a.restore(all...)
	for i, o := range a.get(keys...) {
		a.true(o.Revision == uint64(i+1) && string(o.Data) == fmt.Sprint(i), "%.80q is at %d with %.80q, want its own %d", o.Key, o.Revision, o.Data, i)
		a.carriers(keys[i], memory.Hit{Key: keys[i], Sort: uint64(i)})
	}
}

func askRestoreRemoves(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1"), Add: []memory.Term{{Name: "t", Sort: 1}}}, memory.Put{Key: "stay", Data: data("s"), Add: []memory.Term{{Name: "t", Sort: 2}}})
	a.restore(restored("k", 0, nil), restored("never there", 0, nil))
	a.at("k", 0, nil)
	a.at("never there", 0, nil)
	a.carriers("t", memory.Hit{Key: "stay", Sort: 2})
	a.log("k", memory.LogEntry{Revision: 1, Data: data("1")})
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k"}}}))
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: 1, Data: data("2")}}}), "k")
	a.apply(memory.Put{Key: "k", Data: data("again"), Add: []memory.Term{{Name: "u", Sort: 1}}})
	a.at("k", 1, data("again"))
	a.carriers("t", memory.Hit{Key: "stay", Sort: 2})
}

func askRestoreGoesOn(a *asker) {
	a.restore(restored("k", 41, data("x"), memory.Term{Name: "t", Sort: 1}), restored("dead", 8, nil))
	for _, from := range []uint64{0, 1, 40, 42} {
		a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: from, Data: data("y")}}}), "k")
		a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k", Revision: from}}}), "k")
	}
	a.apply(memory.Put{Key: "k", From: 41, Data: data("42"), Entry: data("42")}, memory.Put{Key: "dead", From: 8, Data: data("9"), Entry: data("9")})
	a.at("k", 42, data("42"))
	a.log("k", memory.LogEntry{Revision: 42, Data: data("42")})
	a.log("dead", memory.LogEntry{Revision: 9, Data: data("9")})
	a.carriers("t", memory.Hit{Key: "k", Sort: 1})
}

// askRestoredBehindLog: an object that is put back to before entries of its log.
// A put that brings an entry of a revision that the log has is stale.
func askRestoredBehindLog(a *asker) {
	for i := range uint64(3) {
		a.apply(memory.Put{Key: "k", From: i, Data: data("%d", i+1), Entry: data("%d", i+1)})
	}
	log := []memory.LogEntry{{Revision: 1, Data: data("1")}, {Revision: 2, Data: data("2")}, {Revision: 3, Data: data("3")}}
	for from := range uint64(3) {
		if from == 0 {
			a.restore(restored("k", 0, nil))
		} else {
			a.restore(restored("k", from, data("back"), memory.Term{Name: "t", Sort: 1}))
		}
		err := a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{
			{Key: "beside", Data: data("x")}, {Key: "k", From: from, Data: data("forged"), Entry: data("forged"), Remove: []string{"t"}},
		}})
		a.conflict(err, "k")
		a.log("k", log...)
		a.untouched("beside")
		a.true(a.get("k")[0].Revision == from, "the stale put moved the object")
	}
	a.apply(memory.Put{Key: "k", From: 2, Data: data("no entry")})
	a.apply(memory.Put{Key: "k", From: 3, Data: data("4"), Entry: data("4")})
	a.log("k", append(log, memory.LogEntry{Revision: 4, Data: data("4")})...)

	// A gap that a rewrite left may be filled, and the order stays.
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 2}}))
	a.restore(restored("k", 1, data("back")))
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: data("second time")})
	a.log("k", log[0], memory.LogEntry{Revision: 2, Data: data("second time")}, log[2], memory.LogEntry{Revision: 4, Data: data("4")})
}

func askRestoreRefused(a *asker) {
	a.apply(memory.Put{Key: "k0", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	nothing := func() {
		a.Helper()
		a.at("k0", 1, data("x"))
		a.carriers("t", memory.Hit{Key: "k0", Sort: 1})
		a.carriers("r")
		a.untouched("k1")
	}
	good := restored("k0", 5, data("y"), memory.Term{Name: "r", Sort: 1})
	for name, objects := range map[string][]memory.Restored{
		"an empty key":                 {good, restored("", 1, data("x"))},
		"a key twice":                  {good, restored("k1", 1, nil), restored("k1", 2, nil)},
		"an empty term":                {good, restored("k1", 1, data("x"), memory.Term{})},
		"a removed object with data":   {good, restored("k1", 0, data("x"))},
		"a removed object with a term": {good, restored("k1", 0, nil, memory.Term{Name: "t"})},
	} {
		a.Log(name)
		a.is(a.d.Restore(a.ctx, a.tenant, objects), memory.ErrInvalidBatch)
		nothing()
	}
	a.is(a.d.Restore(a.ctx, a.tenant, []memory.Restored{good, restored("k1", 1, make([]byte, memory.MaxBatchBytes))}), memory.ErrTooLarge)
	nothing()
	many := []memory.Restored{good}
	for i := 1; i <= memory.MaxBatchOps; i++ {
		many = append(many, restored(fmt.Sprintf("k%d", i), uint64(i), data("%d", i), memory.Term{Name: "r", Sort: uint64(i)}))
	}
	a.is(a.d.Restore(a.ctx, a.tenant, many), memory.ErrTooLarge)
	nothing()
	a.restore(many[1:]...)
	a.true(len(a.list(memory.Query{Term: "r", Limit: memory.MaxQueryLimit})) == memory.MaxBatchOps, "not all that was restored carries its term")
	a.at("k10000", 10_000, data("10000"))
}

func askRestoreAtomic(a *asker) {
	const objects, rounds = 40, 25
	var keys []string
	for i := range objects {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	set := func(revision uint64) error {
		var list []memory.Restored
		for _, k := range keys {
			list = append(list, restored(k, revision, data("%d", revision)))
		}
		return a.d.Restore(a.ctx, a.tenant, list)
	}
	a.ok(set(1))
	beside(a, rounds, func(round int) error { return set(uint64(round%2 + 1)) }, func() error {
		got, err := a.d.Get(a.ctx, a.tenant, keys)
		for _, o := range got {
			if o.Revision != got[0].Revision || string(o.Data) != fmt.Sprint(o.Revision) {
				return fmt.Errorf("half a restore: %s is at %d with %q, %s at %d", o.Key, o.Revision, o.Data, got[0].Key, got[0].Revision)
			}
		}
		return err
	})
}

// beside runs write for some rounds, and reads again and again until they are over.
// Where a write takes no time, there are more of them, for readers to get a look. All
// yield after each turn: readers of a driver that never waits would otherwise keep the
// writer from a processor for tens of milliseconds a round.
func beside(a *asker, rounds int, write func(round int) error, read func() error) {
	a.Helper()
	var writing, reading sync.WaitGroup
	var over atomic.Bool
	var reads atomic.Int64
	errs := make(chan error, 3)
	for range 2 {
		reading.Go(func() {
			for last := false; !last; reads.Add(1) {
				last = over.Load() // the last one reads what the writer left
				if err := read(); err != nil {
					errs <- err
					return
				}
				a.checks.Add(1)
				runtime.Gosched()
			}
		})
	}
	writing.Go(func() {
		defer over.Store(true)
		for round := 0; round < rounds || reads.Load() < 12 && round < 20*rounds; round++ {
			if err := write(round); err != nil {
				errs <- err
				return
			}
			runtime.Gosched()
		}
	})
	writing.Wait()
	reading.Wait()
	close(errs)
	for err := range errs {
		a.ok(err)
	}
}

func askMaintenanceAliasing(a *asker) {
	content, entry := []byte("content"), []byte("entry")
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})
	a.restore(restored("k", 4, content))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: entry}}))
	copy(content, "CHANGED")
	copy(entry, "WRONG")
	a.at("k", 4, []byte("content"))
	a.log("k", memory.LogEntry{Revision: 1, Data: []byte("entry")})
}

func askRewrite(a *asker) {
	var want []memory.LogEntry
	for i := range uint64(6) {
		a.apply(memory.Put{Key: "k", From: i, Data: data("%d", i), Entry: data("%d", i+1), Add: []memory.Term{{Name: "t", Sort: i}}})
		a.apply(memory.Put{Key: "k2", From: i, Data: data("%d", i), Entry: data("%d", i+1)})
		want = append(want, memory.LogEntry{Revision: i + 1, Data: data("%d", i+1)})
	}
	other := slices.Clone(want)
	long := slices.Repeat([]byte("packed\x00\xff"), 10_000)
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: long}, {Revision: 3, Data: []byte{}}, {Revision: 4}, {Revision: 6, Data: data("last")}}))
	want[0].Data, want[2].Data, want[5].Data = long, []byte{}, data("last")
	want = slices.Delete(want, 3, 4)
	a.log("k", want...)
	a.log("k2", other...)
	a.at("k", 6, data("5"))
	a.carriers("t", memory.Hit{Key: "k", Sort: 5})
	a.apply(memory.Put{Key: "k", From: 6, Data: data("6"), Entry: data("7")})
	want = append(want, memory.LogEntry{Revision: 7, Data: data("7")})
	a.log("k", want...)
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", nil))
	a.log("k", want...)

	// The last entry goes, then all do; appending goes on from the object.
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 7}}))
	a.apply(memory.Put{Key: "k", From: 7, Data: data("7"), Entry: data("8")})
	a.log("k", append(want[:5:5], memory.LogEntry{Revision: 8, Data: data("8")})...)
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1}, {Revision: 2}, {Revision: 3}, {Revision: 5}, {Revision: 6}, {Revision: 8}}))
	a.log("k")
	a.at("k", 8, data("7"))
	a.apply(memory.Put{Key: "k", From: 8, Entry: data("9")})
	a.log("k", memory.LogEntry{Revision: 9, Data: data("9")})
}

func askRewriteHistory(a *asker) {
	const n = 120
	var b, strip []memory.LogEntry
	for i := range uint64(n) {
		a.apply(memory.Put{Key: "k", From: i, Data: data("x"), Entry: data("%d", i+1)})
		if i%7 < 3 {
			strip = append(strip, memory.LogEntry{Revision: i + 1})
		} else {
			b = append(b, memory.LogEntry{Revision: i + 1, Data: data("%d", i+1)})
		}
	}
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", strip))
	for _, limit := range []int{1, 2, 5, len(b) - 1, len(b), n} {
		var got []memory.LogEntry
		for after := uint64(0); ; {
			page, err := a.d.History(a.ctx, a.tenant, "k", after, limit)
			a.ok(err)
			if len(page) == 0 {
				break
			}
			a.true(len(page) == min(limit, len(b)-len(got)), "a page of %d entries, limit is %d", len(page), limit)
			got = append(got, page...)
			after = page[len(page)-1].Revision
		}
		a.true(slices.EqualFunc(got, b, func(x, y memory.LogEntry) bool { return x.Revision == y.Revision && same(x.Data, y.Data) }),
			"pages of %d entries do not make what is left of the log", limit)
	}
}

func askRewriteMissing(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1")})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2")}) // no entry
	a.apply(memory.Put{Key: "k", From: 2, Data: data("3"), Entry: data("3")})
	a.apply(memory.Put{Key: "K", Data: data("1"), Entry: data("1")})
	log := []memory.LogEntry{{Revision: 1, Data: data("1")}, {Revision: 3, Data: data("3")}}
	for _, entries := range [][]memory.LogEntry{
		{{Revision: 2, Data: data("x")}},
		{{Revision: 1, Data: data("x")}, {Revision: 2, Data: data("x")}, {Revision: 3, Data: data("x")}},
		{{Revision: 1, Data: data("x")}, {Revision: 3}, {Revision: 4, Data: data("x")}},
		{{Revision: 1}, {Revision: 3}, {Revision: 4}},
		{{Revision: 1, Data: data("x")}, {Revision: math.MaxUint64, Data: data("x")}},
		{{Revision: 1, Data: data("x")}, {Revision: 1<<32 + 3, Data: data("x")}},
	} {
		a.conflict(Rewrite(a.ctx, a.d, a.tenant, "k", entries), "k")
		a.log("k", log...)
	}
	a.conflict(Rewrite(a.ctx, a.d, a.tenant, "absent", []memory.LogEntry{{Revision: 1, Data: data("x")}}), "absent")
	a.conflict(Rewrite(a.ctx, a.d, a.tenant, "absent", []memory.LogEntry{{Revision: 1}}), "absent")
	a.untouched("absent")
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1}}))
	a.conflict(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: data("back")}, {Revision: 3, Data: data("x")}}), "k")
	a.log("k", log[1])
	a.log("K", log[0])
	a.at("k", 3, data("3"))
}

func askRewriteStale(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("first")})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: []byte{}})
	a.apply(memory.Put{Key: "k", From: 2, Data: data("3"), Entry: data("third\x00\xff")})
	a.apply(memory.Put{Key: "k2", Data: data("1"), Entry: data("other")})
	log := []memory.LogEntry{{Revision: 1, Data: data("first")}, {Revision: 2, Data: []byte{}}, {Revision: 3, Data: data("third\x00\xff")}}
	change := func(revision uint64, was []byte, to ...byte) memory.Rewritten {
		return memory.Rewritten{LogEntry: memory.LogEntry{Revision: revision, Data: to}, Was: was}
	}
	for _, was := range [][]byte{nil, {}, data("firs"), data("first "), data("First"), data("first\x00"), data("third\x00\xff"), data("other")} {
		for _, to := range [][]byte{nil, {}, data("x"), data("first")} { // removed, emptied, replaced, left
			a.conflict(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, was, to...)}), "k")
			// Nor is anything done before or behind it.
			a.conflict(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, was, to...), change(2, []byte{}, 'x'), change(3, data("third\x00\xff"))}), "k")
		}
		a.log("k", log...)
	}
	a.conflict(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, data("first"), 'x'), change(2, nil, 'x')}), "k")
	a.conflict(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, data("first"), 'x'), change(2, []byte{}), change(3, data("third\x00"))}), "k")
	a.log("k", log...)
	a.ok(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, data("first"), 'x'), change(2, []byte{}, 'y'), change(3, data("third\x00\xff"), 'z')}))
	a.conflict(a.d.Rewrite(a.ctx, a.tenant, "k", []memory.Rewritten{change(1, data("first"), 'w')}), "k")
	a.log("k", memory.LogEntry{Revision: 1, Data: data("x")}, memory.LogEntry{Revision: 2, Data: data("y")}, memory.LogEntry{Revision: 3, Data: data("z")})
	a.log("k2", memory.LogEntry{Revision: 1, Data: data("other")})
	a.at("k", 3, data("3"))
}

// Each of many callers counts one up in two entries. Were one of them to write what it
// made of what another one has replaced, a count would be lost.
func askRewriteRace(a *asker) {
	const callers, each = 8, 10
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: []byte{0}})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: []byte{0}})
	var all sync.WaitGroup
	errs := make(chan error, callers)
	for range callers {
		all.Go(func() {
			for done := 0; done < each; {
				log, err := a.d.History(a.ctx, a.tenant, "k", 0, 10)
				runtime.Gosched() // the others read the same
				if err == nil {
					var up []memory.Rewritten
					for _, l := range log {
						up = append(up, memory.Rewritten{LogEntry: memory.LogEntry{Revision: l.Revision, Data: []byte{l.Data[0] + 1}}, Was: l.Data})
					}
					err = a.d.Rewrite(a.ctx, a.tenant, "k", up)
				}
				switch {
				case err == nil:
					done++
				case !errors.Is(err, memory.ErrConflict):
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	for err := range errs {
		a.ok(err)
	}
	a.log("k", memory.LogEntry{Revision: 1, Data: []byte{callers * each}}, memory.LogEntry{Revision: 2, Data: []byte{callers * each}})
}

func askRewriteRefused(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1")})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: data("2")})
	log := []memory.LogEntry{{Revision: 1, Data: data("1")}, {Revision: 2, Data: data("2")}}
	many := make([]memory.LogEntry, memory.MaxBatchOps+1)
	for i := range many {
		many[i] = memory.LogEntry{Revision: uint64(i + 1), Data: data("x")}
	}
	for _, ask := range []struct {
		key     string
		entries []memory.LogEntry
		want    error
	}{
		{"", []memory.LogEntry{{Revision: 1, Data: data("x")}}, memory.ErrInvalidBatch},
		{"k", []memory.LogEntry{{Revision: 0, Data: data("x")}}, memory.ErrInvalidBatch},
		{"k", []memory.LogEntry{{Revision: 2, Data: data("x")}, {Revision: 1, Data: data("x")}}, memory.ErrInvalidBatch},
		{"k", []memory.LogEntry{{Revision: 1, Data: data("x")}, {Revision: 1, Data: data("y")}}, memory.ErrInvalidBatch},
		{"k", many, memory.ErrTooLarge},
		{"k", []memory.LogEntry{{Revision: 1, Data: data("x")}, {Revision: 2, Data: make([]byte, memory.MaxBatchBytes)}}, memory.ErrTooLarge},
	} {
		a.is(Rewrite(a.ctx, a.d, a.tenant, ask.key, ask.entries), ask.want)
		a.log("k", log...)
	}
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: make([]byte, memory.MaxBatchBytes-1)}, {Revision: 2, Data: data("x")}}))
	got := a.history("k")
	a.true(len(got) == 2 && len(got[0].Data) == memory.MaxBatchBytes-1 && string(got[1].Data) == "x", "a rewrite at the cap was not done")
}

func askRewriteAtomic(a *asker) {
	const entries, rounds = 30, 25
	for i := range uint64(entries) {
		a.apply(memory.Put{Key: "k", From: i, Data: data("x"), Entry: data("start")})
	}
	beside(a, rounds, func(round int) error {
		var list []memory.LogEntry
		for i := range uint64(entries) {
			list = append(list, memory.LogEntry{Revision: i + 1, Data: data("%d", round)})
		}
		return Rewrite(a.ctx, a.d, a.tenant, "k", list)
	}, func() error {
		got, err := a.d.History(a.ctx, a.tenant, "k", 0, entries)
		if err == nil && len(got) != entries {
			err = fmt.Errorf("%d entries of %d", len(got), entries)
		}
		for _, e := range got {
			if string(e.Data) != string(got[0].Data) {
				err = fmt.Errorf("half a rewrite: entry %d is %q, entry 1 is %q", e.Revision, e.Data, got[0].Data)
			}
		}
		return err
	})
}

func askLogs(a *asker) {
	keys := append(lookalikes(), "head/a", "head/b", "head/", "head", "head0", "heae", "head\xff", "head\xff\xff/x")
	var b memory.Batch
	for _, k := range keys {
		b.Puts = append(b.Puts, memory.Put{Key: k, Data: data("x"), Entry: data("x")})
	}
	slices.SortFunc(b.Puts, func(x, y memory.Put) int { return -strings.Compare(x.Key, y.Key) })
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	slices.Sort(keys)
	begin := func(prefix, after string) (want []string) {
		for _, k := range keys {
			if strings.HasPrefix(k, prefix) && k > after {
				want = append(want, k)
			}
		}
		return want
	}
	for _, limit := range []int{1, 7, len(keys) - 1, len(keys), len(keys) + 1, memory.MaxQueryLimit} {
		a.listed(fmt.Sprintf("pages of %d", limit), a.logs("", limit), keys...)
	}
	prefixes := append(slices.Clone(keys), "head/", "hea", "c", "caf", "cafe", "caf\xc3", "kkk", "byte:", "byte", "alic", "a%", "%l%", "[a-z]", "^a", "a.", ".*", "\xff\xff\xff", "no such")
	for _, prefix := range prefixes {
		a.listed(fmt.Sprintf("prefix %.40q", prefix), a.logs(prefix, 100), begin(prefix, "")...)
	}
	for _, prefix := range []string{"", "head", "head/", "byte:", "alice", "\xff", "%"} {
		for _, after := range []string{"\x00", "a", "alice", "alice\x00", "b", "byte:\x7f", "head", "head/", "head/a", "head/aa", "head0", "i", "\xfe", "\xff", "\xff\xff", "\xff\xff\xff"} {
			got, _, err := a.d.Logs(a.ctx, a.tenant, prefix, after, memory.MaxQueryLimit)
			a.ok(err)
			a.listed(fmt.Sprintf("prefix %q after %q", prefix, after), got, begin(prefix, after)...)
		}
	}
}

func askLogsOfWhat(a *asker) {
	a.apply(
		memory.Put{Key: "log/alive", Data: data("x"), Entry: data("x")},
		memory.Put{Key: "log/dead", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/born dead", Entry: data("x")},
		memory.Put{Key: "log/lost", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/empty entry", Data: data("x"), Entry: []byte{}},
		memory.Put{Key: "log/late", Data: data("x")},
		memory.Put{Key: "log/silent", Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "log/stripped", Data: data("x"), Entry: data("x")},
	)
	a.apply(memory.Put{Key: "log/dead", From: 1, Remove: []string{"t"}}, memory.Put{Key: "log/late", From: 1, Data: data("y"), Entry: data("y")})
	a.restore(restored("log/lost", 0, nil), restored("log/never written", 5, data("x")))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "log/stripped", []memory.LogEntry{{Revision: 1}}))
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "log/refused", Data: data("x"), Entry: data("x")}, {Key: "log/alive", From: 7}}}), "log/alive")
	a.listed("logs", a.logs("log/", 3), "log/alive", "log/born dead", "log/dead", "log/empty entry", "log/late", "log/lost")
	for _, limit := range []int{2, 6, 7} {
		page, next, err := a.d.Logs(a.ctx, a.tenant, "log/", "", limit)
		a.ok(err)
		a.true(len(page) == min(limit, 6) && (next == "") == (limit >= 6), "a page of %d of 6 names ends with the cursor %q", len(page), next)
	}
	a.apply(memory.Put{Key: "log/stripped", From: 1, Data: data("x"), Entry: data("x")})
	a.listed("logs", a.logs("log/s", 3), "log/stripped")
	a.listed("logs of another tenant", a.in("elsewhere").logs("", 10))
}

func askLogsWhileInserting(a *asker) {
	const stay = 60
	var want []string
	var b memory.Batch
	for i := range stay {
		want = append(want, fmt.Sprintf("%03d/stay", i))
		b.Puts = append(b.Puts, memory.Put{Key: want[i], Data: data("x"), Entry: data("x")})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	beside(a, 40, func(round int) error {
		return a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{
			{Key: fmt.Sprintf("%03d/new %d", round*7%stay, round), Data: data("x"), Entry: data("x")},
			{Key: want[round%stay], From: uint64(1 + round/stay), Data: data("y"), Entry: data("y")},
		}})
	}, func() error {
		return pagesOf(want, "/stay", func(after string) ([]string, string, error) { return a.d.Logs(a.ctx, a.tenant, "0", after, 7) })
	})
}

// pagesOf pages through a listing whose names with some ending stay put, and says
// if not each of them was listed once.
func pagesOf(want []string, ending string, list func(after string) ([]string, string, error)) error {
	var got []string
	for after := ""; ; {
		page, next, err := list(after)
		if err != nil {
			return err
		}
		for _, name := range page {
			if strings.HasSuffix(name, ending) {
				got = append(got, name)
			}
		}
		if next == "" {
			break
		}
		after = next
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("of %d names that stayed %d were listed", len(want), len(got))
	}
	return nil
}

func askTenantsListed(a *asker) {
	a.listed("no tenant", a.tenants(10))
	names := lookalikes()
	for i, name := range names {
		b := a.in(name)
		switch i % 4 { // an object, a log whose object is lost, a tombstone, what was restored
		case 0:
			b.apply(memory.Put{Key: "k", Data: data("x")})
		case 1:
			b.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})
			b.restore(restored("k", 0, nil))
		case 2:
			b.apply(memory.Put{Key: "k"})
		case 3:
			b.restore(restored("k", 3, data("x")))
		}
		if i == 40 { // with all names, pages of one would carry the long ones hundreds of times
			a.listed("pages of 1", a.tenants(1), slices.Sorted(slices.Values(names[:i+1]))...)
		}
	}
	// These have nothing: asked only, refused, emptied.
	a.in("asked").untouched("k", "t")
	a.in("asked").listed("logs", a.in("asked").logs("", 10))
	a.ok(a.d.Apply(a.ctx, "nothing", memory.Batch{Checks: []memory.Check{{Key: "k"}}}))
	a.conflict(a.d.Apply(a.ctx, "refused", memory.Batch{Puts: []memory.Put{{Key: "new", Data: data("x"), Entry: data("x")}, {Key: "k", From: 1}}}), "k")
	a.ok(a.d.Restore(a.ctx, "nothing", []memory.Restored{restored("k", 0, nil)}))
	a.ok(Rewrite(a.ctx, a.d, "nothing", "k", nil))
	emptied := a.in("emptied")
	emptied.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	emptied.restore(restored("k", 0, nil))
	a.ok(Rewrite(a.ctx, a.d, "emptied", "k", []memory.LogEntry{{Revision: 1}}))
	emptied.untouched("k", "t")

	// Nor is the tenant of no name ever listed: a cursor could not name it.
	a.in("").apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})

	slices.Sort(names)
	_, next, err := a.d.Tenants(a.ctx, "", len(names))
	a.ok(err)
	a.true(next == "", "a page that ends with the last tenant has a cursor")
	for _, limit := range []int{10, len(names) - 1, len(names), len(names) + 1, memory.MaxQueryLimit} {
		a.listed(fmt.Sprintf("pages of %d", limit), a.tenants(limit), names...)
	}
	for _, after := range []string{"\x00", "Alice", "alice", "alicf", "caf\u00e9", "no such", "\xff", "\xff\xff\xff"} {
		got, _, err := a.d.Tenants(a.ctx, after, memory.MaxQueryLimit)
		a.ok(err)
		from := len(names)
		if i := slices.IndexFunc(names, func(n string) bool { return n > after }); i >= 0 {
			from = i
		}
		a.listed(fmt.Sprintf("after %q", after), got, names[from:]...)
	}
}

func askTenantsWhileInserting(a *asker) {
	const stay = 40
	var want []string
	for i := range stay {
		want = append(want, fmt.Sprintf("%03d/stay", i))
		a.in(want[i]).apply(memory.Put{Key: "k", Data: data("x")})
	}
	beside(a, 40, func(round int) error {
		return a.d.Apply(a.ctx, fmt.Sprintf("%03d/new %d", round*7%stay, round), memory.Batch{Puts: []memory.Put{{Key: "k", Data: data("x"), Entry: data("x")}}})
	}, func() error {
		return pagesOf(want, "/stay", func(after string) ([]string, string, error) { return a.d.Tenants(a.ctx, after, 7) })
	})
}

func askMaintenanceOfTenants(a *asker) {
	tenants := []string{"", "a", "A", "a ", "a\x00", "\x00", "{}", "{a}", "a:b", "a:", ":", "caf\u00e9", "cafe\u0301", "\xff", "%", strings.Repeat("t", 64<<10)}
	entry := memory.LogEntry{Revision: 1, Data: data("entry")}
	for _, tenant := range tenants {
		a.in(tenant).apply(memory.Put{Key: "k", Data: data("object"), Entry: entry.Data, Add: []memory.Term{{Name: "t", Sort: 1}}})
	}
	for i, tenant := range tenants {
		b := a.in(tenant)
		b.restore(restored("k", 9, data("restored"), memory.Term{Name: "u", Sort: 2}), restored("only here", 1, nil, memory.Term{Name: "u", Sort: 3}))
		b.ok(Rewrite(a.ctx, b.d, tenant, "k", []memory.LogEntry{{Revision: 1, Data: data("rewritten")}}))
		for j, other := range tenants {
			c := a.in(other)
			c.listed("logs", c.logs("", 5), "k")
			e := memory.Logged{Key: "k", LogEntry: memory.LogEntry{Revision: 1, Data: data("rewritten")}}
			if j > i {
				e.Data = entry.Data
			}
			c.scanned("entries", c.scan("", memory.LogPlace{}, 5), e)
			if j <= i {
				c.at("k", 9, data("restored"))
				c.at("only here", 1, nil)
				c.log("k", memory.LogEntry{Revision: 1, Data: data("rewritten")})
				c.carriers("t")
				c.carriers("u", memory.Hit{Key: "k", Sort: 2}, memory.Hit{Key: "only here", Sort: 3})
			} else {
				c.at("k", 1, data("object"))
				c.at("only here", 0, nil)
				c.log("k", entry)
				c.carriers("t", memory.Hit{Key: "k", Sort: 1})
				c.carriers("u")
			}
		}
	}
	for i, tenant := range tenants[:8] { // away again, one by one
		b := a.in(tenant)
		b.restore(restored("k", 0, nil), restored("only here", 0, nil))
		b.ok(Rewrite(a.ctx, b.d, tenant, "k", []memory.LogEntry{{Revision: 1}}))
		b.carriers("u")
		for _, other := range tenants[i+1:] {
			c := a.in(other)
			c.at("k", 9, data("restored"))
			c.log("k", memory.LogEntry{Revision: 1, Data: data("rewritten")})
			c.carriers("u", memory.Hit{Key: "k", Sort: 2}, memory.Hit{Key: "only here", Sort: 3})
		}
	}
	a.listed("tenants", a.tenants(3), slices.Sorted(slices.Values(tenants[8:]))...)
}

func askInvalidListings(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})
	for _, limit := range []int{0, -1, math.MinInt, memory.MaxQueryLimit + 1, math.MaxInt} {
		names, next, err := a.d.Logs(a.ctx, a.tenant, "", "", limit)
		a.is(err, memory.ErrInvalidBatch)
		a.true(names == nil && next == "", "logs beside an error")
		names, next, err = a.d.Tenants(a.ctx, "", limit)
		a.is(err, memory.ErrInvalidBatch)
		a.true(names == nil && next == "", "tenants beside an error")
		entries, more, err := a.d.Scan(a.ctx, a.tenant, "", memory.LogPlace{}, limit)
		a.is(err, memory.ErrInvalidBatch)
		a.true(entries == nil && !more, "entries beside an error")
	}
}

func askCompact(a *asker) {
	a.ok(a.d.Compact(a.ctx)) // of nothing
	terms := []memory.Term{{Name: "t", Sort: math.MaxUint64}}
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1"), Add: terms}, memory.Put{Key: "dead", Data: data("1"), Entry: data("1"), Add: terms})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: data("2")}, memory.Put{Key: "dead", From: 1, Entry: []byte{}}, memory.Put{Key: "empty", Data: []byte{}})
	a.restore(restored("lost", 5, nil))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1}}))
	a.in("other").apply(memory.Put{Key: "k", Entry: data("x")})
	still := func() {
		a.Helper()
		a.at("k", 2, data("2"))
		a.at("dead", 2, nil)
		a.at("empty", 1, []byte{})
		a.at("lost", 5, nil)
		a.log("k", memory.LogEntry{Revision: 2, Data: data("2")})
		a.log("dead", memory.LogEntry{Revision: 1, Data: data("1")}, memory.LogEntry{Revision: 2, Data: []byte{}})
		a.carriers("t", memory.Hit{Key: "dead", Sort: math.MaxUint64}, memory.Hit{Key: "k", Sort: math.MaxUint64})
		a.listed("logs", a.logs("", 5), "dead", "k")
		a.listed("tenants", a.tenants(5), "other", "tenant")
		a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "dead", Data: data("x")}}}), "dead")
	}
	for range 2 {
		a.ok(a.d.Compact(a.ctx))
		still()
	}
	// New objects are written until there are enough; then the last one is only read.
	const enough = 200
	var begun, written atomic.Uint64
	beside(a, 3, func(int) error { return a.d.Compact(a.ctx) }, func() error {
		i := begun.Add(1)
		key := func() string { return fmt.Sprintf("beside %d", i) }
		if i > enough {
			i = written.Load() // not 0: there are fewer writers than objects
		} else if err := a.d.Apply(a.ctx, "other", memory.Batch{Puts: []memory.Put{{Key: key(), Data: data("%d", i), Entry: data("%d", i)}}}); err != nil {
			return err
		}
		got, err := a.d.Get(a.ctx, "other", []string{key()})
		if err == nil && (got[0].Revision != 1 || string(got[0].Data) != fmt.Sprint(i)) {
			err = fmt.Errorf("%s is at %d with %q", key(), got[0].Revision, got[0].Data)
		}
		written.Store(i)
		return err
	})
	still()
	other, n := a.in("other"), min(begun.Load(), enough)
	for i := range n {
		other.at(fmt.Sprintf("beside %d", i+1), 1, data("%d", i+1))
	}
	a.true(len(other.logs("beside ", 100)) == int(n), "not every log is there after Compact")
}

func askInspect(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x")})
	first, err := a.d.Inspect(a.ctx)
	a.ok(err)
	a.true(strings.TrimSpace(first.Server) != "", "the server has no name")
	a.true(len(strings.Fields(first.Promise)) > 2, "the promise is no sentence: %q", first.Promise)
	a.true(len(first.Findings) > 0, "nothing was looked at")
	names := map[string]bool{}
	for _, f := range first.Findings {
		a.true(f.Name != "" && f.Found != "", "a finding without name or value: %+v", f)
		a.true(!names[f.Name], "two findings are called %q", f.Name)
		names[f.Name] = true
		a.true(f.Safe || f.Loss != "" && f.Fix != "", "%q is not safe, and nobody says what is lost or what to do: %+v", f.Name, f)
	}
	again, err := a.d.Inspect(a.ctx)
	a.ok(err)
	a.true(again.Server == first.Server && again.Promise == first.Promise, "the second answer is of %q, which promises %q", again.Server, again.Promise)
	a.true(slices.EqualFunc(again.Findings, first.Findings, func(x, y memory.Finding) bool { return x.Name == y.Name }), "the findings come in another order")
	a.at("k", 1, data("x"))
}

func askIncarnation(a *asker) {
	first := a.d.Incarnation()
	stays := func(after string) {
		a.Helper()
		now := a.d.Incarnation()
		a.true(now == first, "after %s the incarnation is %d, it was %d", after, now, first)
	}
	stays("nothing")
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	stays("a write")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k"}}}), "k")
	stays("a conflict")
	a.is(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{}}}), memory.ErrInvalidBatch)
	stays("an invalid batch")
	a.at("k", 1, data("1"))
	a.carriers("t", memory.Hit{Key: "k", Sort: 1})
	a.log("k", memory.LogEntry{Revision: 1, Data: data("1")})
	stays("reads")
	cancelled, cancel := context.WithCancel(a.ctx)
	cancel()
	_, err := a.d.Get(cancelled, a.tenant, []string{"k"})
	a.is(err, context.Canceled)
	stays("a cancelled read")
	a.restore(restored("k", 3, data("3")))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1}}))
	a.listed("logs", a.logs("", 1))
	a.listed("tenants", a.tenants(1), a.tenant)
	a.ok(a.d.Compact(a.ctx))
	_, err = a.d.Inspect(a.ctx)
	a.ok(err)
	stays("maintenance")
	together(16, func(i int) {
		for n := range uint64(20) {
			if err := a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: fmt.Sprint(i), From: n}}}); err != nil {
				a.Error(err)
			}
			if a.d.Incarnation() != first {
				a.Errorf("the incarnation is %d beside writers, it was %d", a.d.Incarnation(), first)
				return
			}
		}
	})
	stays("many writers")
	a.ok(a.d.Close())
	a.d.Incarnation() // does not panic; what it says is of no use any more
}

// refusals calls every method of maintenance, also with nothing to do, and asks
// for an error and for nothing beside it.
func (a *asker) refusals(ctx context.Context, want error) {
	a.Helper()
	names, next, err := a.d.Tenants(ctx, "", 1)
	a.is(err, want)
	a.true(names == nil && next == "", "tenants beside an error")
	names, next, err = a.d.Logs(ctx, a.tenant, "", "", 1)
	a.is(err, want)
	a.true(names == nil && next == "", "logs beside an error")
	entries, more, err := a.d.Scan(ctx, a.tenant, "", memory.LogPlace{}, 1)
	a.is(err, want)
	a.true(entries == nil && !more, "entries beside an error")
	objects, err := objectsOf(ctx, a.d, a.tenant, "")
	a.is(err, want)
	a.true(objects == nil, "objects beside an error")
	index, err := carriersOf(ctx, a.d, a.tenant, "")
	a.is(err, want)
	a.true(index == nil, "an index beside an error")
	a.is(a.d.Restore(ctx, a.tenant, []memory.Restored{restored("k", 7, data("y"))}), want)
	a.is(a.d.Restore(ctx, a.tenant, nil), want)
	a.is(Rewrite(ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: data("y")}}), want)
	a.is(Rewrite(ctx, a.d, a.tenant, "k", nil), want)
	a.is(a.d.Compact(ctx), want)
	found, err := a.d.Inspect(ctx)
	a.is(err, want)
	a.true(found.Server == "" && found.Promise == "" && found.Findings == nil, "an inspection beside an error")
}

func askMaintenanceCancelled(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})
	cancelled, cancel := context.WithCancel(a.ctx)
	cancel()
	a.refusals(cancelled, context.Canceled)
	late, cancelLate := context.WithTimeout(a.ctx, 0)
	defer cancelLate()
	a.refusals(late, context.DeadlineExceeded)
	a.at("k", 1, data("x"))
	a.log("k", memory.LogEntry{Revision: 1, Data: data("x")})
}

func askRestoreCancelledDuring(a *asker) {
	const objects, rounds = 2000, 8
	var keys []string
	for i := range objects {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	cutShort(a, rounds, func(ctx context.Context, round int) error {
		var list []memory.Restored
		for _, k := range keys {
			list = append(list, restored(k, uint64(round+1), data("x")))
		}
		return a.d.Restore(ctx, a.tenant, list)
	}, func(round int) (some, all bool) {
		all = true
		for _, o := range a.get(keys...) {
			some = some || o.Revision == uint64(round+1)
			all = all && o.Revision == uint64(round+1)
		}
		return some, all
	})
}

func askMaintenanceClosed(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x")})
	a.ok(a.d.Close())
	for range 2 {
		a.refusals(a.ctx, memory.ErrClosed)
		a.d.Incarnation()
	}
	cancelled, cancel := context.WithCancel(a.ctx)
	cancel()
	err := a.d.Compact(cancelled)
	a.true(errors.Is(err, memory.ErrClosed) || errors.Is(err, context.Canceled), "error is %v", err)
}
