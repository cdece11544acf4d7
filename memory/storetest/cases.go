package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hearsay-go/hearsay/memory"
)

type testCase struct {
	name string
	ask  func(a *asker)
}

func cases() []testCase {
	return append([]testCase{
		{"an object that was never written is absent", askAbsent},
		{"a put creates, and later puts move by one", askRevisions},
		{"keys that look alike are different keys", askIdentity},
		{"tenants that look alike are different and fully apart", askTenants},
		{"terms that look alike are different terms", askTermIdentity},
		{"content of every byte value and up to 1 MiB comes back as it was", askContent},
		{"no data and no bytes are not the same", askEmptyContent},
		{"the caller's bytes may change after a call", askAliasing},
		{"a stale check or put anywhere leaves nothing of a batch", askAtomicity},
		{"the first stale check is named before any stale put", askFirstStale},
		{"checks see the store before the batch", askChecksBefore},
		{"revisions far beyond any real one are stale", askHugeRevisions},
		{"one of 64 writers of one revision wins", askRace},
		{"writers with checks against each other's objects never both win", askWriteSkew},
		{"writers in a ring of checks win as if one came after the other", askRingOfChecks},
		{"a check and a put of the same object never both win", askCheckAgainstPut},
		{"get keeps order and duplicates", askGetOrder},
		{"get of no keys, the empty key and 10,000 keys", askGetSizes},
		{"get never sees half a batch", askSnapshot},
		{"a tombstone keeps its revision and can be put again from it", askTombstone},
		{"the log is append-only, ordered and complete", askLog},
		{"the log pages while it grows", askLogPaging},
		{"a conflict leaves no gap in the log", askLogNoGap},
		{"the log has no gap at any time while many append to it", askLogOfMany},
		{"terms are added, re-sorted and removed", askTerms},
		{"a put that clears takes all terms of its object, and of no other", askClear},
		{"a put that clears leaves no term that comes meanwhile", askClearRace},
		{"carriers are listed by sort, then key, byte by byte", askTermOrder},
		{"ranges of sort are inclusive, and zero is no bound", askRanges},
		{"pages of any size make the same list", askPageSizes},
		{"paging while others insert lists what stays exactly once", askPagingWhileInserting},
		{"a cursor outlives the carrier it stopped at", askCursorOfRemoved},
		{"a batch of as many operations as the cap passes, and one more does not", askOperationCap},
		{"a batch of 16 MiB passes and of one byte more does not", askByteCap},
		{"an empty batch is nothing", askEmptyBatch},
		{"empty and repeated keys are refused", askInvalidBatches},
		{"queries out of bounds are refused", askInvalidQueries},
		{"a cancelled call does nothing", askCancelledBefore},
		{"a call cancelled under way is whole or nothing", askCancelledDuring},
		{"a batch of thousands cancelled at any point is whole or nothing", askLargeCancelledDuring},
		{"after close every call says so", askClosed},
		{"close under load gives whole answers or says so", askCloseUnderLoad},
	}, slices.Concat(maintenanceCases(), scanCases(), listCases())...)
}

func data(format string, args ...any) []byte { return fmt.Appendf(nil, format, args...) }

func askAbsent(a *asker) {
	a.untouched("nothing", "term")
	a.carriers("term")
}

func askRevisions(a *asker) {
	for i := range uint64(50) {
		a.apply(memory.Put{Key: "k", From: i, Data: data("%d", i)})
		a.at("k", i+1, data("%d", i))
	}
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", Data: data("again")}}}), "k")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: 49, Data: data("again")}}}), "k")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: 51, Data: data("again")}}}), "k")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "never", From: 1, Data: data("x")}}}), "never")
	a.at("k", 50, data("49"))
	a.untouched("never")
}

// lookalikes are strings that some store takes for one another: by case, by
// trailing space, by NUL, by Unicode normal form, by collation, as patterns, as
// numbers, by their first bytes.
func lookalikes() []string {
	long := strings.Repeat("k", 64<<10-1)
	list := []string{
		"alice", "Alice", "ALICE", "alice ", " alice", "alice\t", "alice\n", "alice\x00", "alice\x00\x00", "\x00alice", "alice\x00bob", "alice\x00Bob",
		"caf\u00e9", "cafe\u0301", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi", "\u0430lice", "stra\u00dfe", "strasse", "\u0130", "i\u0307", "I", "\u0131",
		"1", "01", "1.0", "1e0", " 1", "0x1", "NULL", "null", "nil", "true",
		"%", "_", "*", "?", "[a]", "a%", "a_", "'", "''", `"`, `\`, `\\`, `\x00`, ";", "--", "{", "}", "{a}", "{}", "a:b", "a:", ":b", "a:b:c", "a/b", "/", "..",
		"\xff", "\xff\xff", "\xfe", "\xc3\x28", "\xef\xbb\xbfalice", "\ufffd", "\xc0\x80", "\u200balice", "alice\u200d",
		long + "a", long + "b", long, "a" + long, "b" + long, long[:255], long[:256], long[:1024], long[:2700], long[:8191], long[:8192], long[:32767], long[:32768],
		strings.Repeat("\x00", 300), strings.Repeat("\xff", 300), strings.Repeat("\u00e9", 300), strings.Repeat("e\u0301", 300),
	}
	for b := range 256 {
		list = append(list, "byte:"+string([]byte{byte(b)}), string([]byte{byte(b), 'x'}))
	}
	return list
}

func askIdentity(a *asker) {
	keys := lookalikes()
	for i, k := range keys {
		a.apply(memory.Put{Key: k, Data: data("%d", i), Entry: data("entry %d", i), Add: []memory.Term{{Name: "all", Sort: 7}}})
	}
	for i, o := range a.get(keys...) {
		a.true(o.Revision == 1 && string(o.Data) == fmt.Sprint(i), "%.80q is at %d with %.80q, want its own %d", o.Key, o.Revision, o.Data, i)
	}
	for i, k := range keys {
		a.log(k, memory.LogEntry{Revision: 1, Data: data("entry %d", i)})
	}
	want := slices.Sorted(slices.Values(keys))
	hits := a.list(memory.Query{Term: "all", Limit: 37})
	a.true(slices.EqualFunc(hits, want, func(h memory.Hit, k string) bool { return h.Key == k && h.Sort == 7 }), "the carriers are not the keys in the order of their bytes")
	for _, k := range keys {
		a.apply(memory.Put{Key: k, From: 1, Remove: []string{"all"}})
	}
	a.carriers("all")
}

func askTenants(a *asker) {
	tenants := append(lookalikes(), "", "a", "A", "a ", "a\x00", "\x00")
	for i, tenant := range tenants {
		a.in(tenant).apply(memory.Put{Key: "k", Data: data("%d", i), Entry: data("e%d", i), Add: []memory.Term{{Name: "t", Sort: uint64(i)}}})
	}
	for i, tenant := range tenants {
		b := a.in(tenant)
		b.at("k", 1, data("%d", i))
		b.log("k", memory.LogEntry{Revision: 1, Data: data("e%d", i)})
		b.carriers("t", memory.Hit{Key: "k", Sort: uint64(i)})
	}
	a.in("a").apply(memory.Put{Key: "k", From: 1, Remove: []string{"t"}})
	for i, tenant := range tenants {
		if tenant != "a" {
			a.in(tenant).at("k", 1, data("%d", i))
			a.in(tenant).carriers("t", memory.Hit{Key: "k", Sort: uint64(i)})
		}
	}
	// A separator between parts must not shift.
	a.in("x").apply(memory.Put{Key: "y:z", Data: data("1"), Add: []memory.Term{{Name: "p", Sort: 1}}})
	a.in("x:y").untouched("z", "p")
	a.in("x\x00y").untouched(":z", "p")
	a.in("elsewhere").untouched("k", "t")
}

func askTermIdentity(a *asker) {
	names := lookalikes()
	for i, name := range names {
		a.apply(memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Add: []memory.Term{{Name: name, Sort: uint64(i)}}})
	}
	for i, name := range names {
		a.carriers(name, memory.Hit{Key: fmt.Sprintf("k%d", i), Sort: uint64(i)})
	}
	a.carriers("al")
}

func askContent(a *asker) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	contents := [][]byte{every, bytes.Repeat([]byte{0}, 1000), bytes.Repeat([]byte{0xff}, 1000), []byte("\x00"), []byte("caf\u00e9\x00\xff"), bytes.Repeat(every, 4096)}
	for size := 1; size <= 1<<20; size *= 2 {
		contents = append(contents, bytes.Repeat([]byte{byte(size >> 3)}, size-1), bytes.Repeat(every, size/256+1)[:size])
	}
	var keys []string
	for i, content := range contents {
		key := fmt.Sprintf("k%d", i)
		keys = append(keys, key)
		a.apply(memory.Put{Key: key, Data: content, Entry: content})
	}
	for i, o := range a.get(keys...) {
		a.true(bytes.Equal(o.Data, contents[i]), "content %d of %d bytes came back as %d other bytes", i, len(contents[i]), len(o.Data))
		log := a.history(keys[i])
		a.true(len(log) == 1 && bytes.Equal(log[0].Data, contents[i]), "entry %d of %d bytes came back otherwise", i, len(contents[i]))
	}
}

func askEmptyContent(a *asker) {
	a.apply(
		memory.Put{Key: "empty", Data: []byte{}, Entry: []byte{}},
		memory.Put{Key: "nil"},
	)
	a.at("empty", 1, []byte{})
	a.at("nil", 1, nil)
	a.log("empty", memory.LogEntry{Revision: 1, Data: []byte{}})
	a.log("nil")
}

func askAliasing(a *asker) {
	content, entry := []byte("content"), []byte("entry")
	a.apply(memory.Put{Key: "k", Data: content, Entry: entry})
	copy(content, "CHANGED")
	copy(entry, "WRONG")
	objects := a.get("k", "k")
	copy(objects[0].Data, "written")
	a.true(string(objects[1].Data) == "content", "two objects of one answer share their bytes")
	for _, e := range a.history("k") {
		copy(e.Data, "wrote")
	}
	a.at("k", 1, []byte("content"))
	a.log("k", memory.LogEntry{Revision: 1, Data: []byte("entry")})
}

func askAtomicity(a *asker) {
	a.apply(
		memory.Put{Key: "there", Data: data("1"), Entry: data("1"), Add: []memory.Term{{Name: "t", Sort: 1}}},
		memory.Put{Key: "other", Data: data("1")},
	)
	whole := memory.Batch{
		Checks: []memory.Check{{Key: "other", Revision: 1}, {Key: "absent", Revision: 0}, {Key: "there", Revision: 1}},
		Puts: []memory.Put{
			{Key: "there", From: 1, Data: data("2"), Entry: data("2"), Add: []memory.Term{{Name: "t", Sort: 9}, {Name: "u", Sort: 1}}},
			{Key: "new1", Data: data("n"), Entry: data("n"), Add: []memory.Term{{Name: "t", Sort: 2}, {Name: "u", Sort: 2}}},
			{Key: "new2", Data: data("n"), Entry: data("n"), Add: []memory.Term{{Name: "t", Sort: 3}}},
			{Key: "other", From: 1, Entry: data("gone"), Add: []memory.Term{{Name: "u", Sort: 0}}},
		},
	}
	nothing := func() {
		a.Helper()
		a.at("there", 1, data("1"))
		a.at("other", 1, data("1"))
		a.log("there", memory.LogEntry{Revision: 1, Data: data("1")})
		a.log("other")
		a.untouched("new1")
		a.untouched("new2")
		a.carriers("t", memory.Hit{Key: "there", Sort: 1})
		a.carriers("u")
	}
	for i := range whole.Checks {
		b := memory.Batch{Checks: slices.Clone(whole.Checks), Puts: whole.Puts}
		b.Checks[i].Revision += 5
		a.conflict(a.d.Apply(a.ctx, a.tenant, b), b.Checks[i].Key)
		nothing()
	}
	for i := range whole.Puts {
		b := memory.Batch{Checks: whole.Checks, Puts: slices.Clone(whole.Puts)}
		b.Puts[i].From += 5
		a.conflict(a.d.Apply(a.ctx, a.tenant, b), b.Puts[i].Key)
		nothing()
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, whole))
	a.at("there", 2, data("2"))
	a.at("other", 2, nil)
	a.log("there", memory.LogEntry{Revision: 1, Data: data("1")}, memory.LogEntry{Revision: 2, Data: data("2")})
	a.log("other", memory.LogEntry{Revision: 2, Data: data("gone")})
	a.carriers("t", memory.Hit{Key: "new1", Sort: 2}, memory.Hit{Key: "new2", Sort: 3}, memory.Hit{Key: "there", Sort: 9})
	a.carriers("u", memory.Hit{Key: "other", Sort: 0}, memory.Hit{Key: "there", Sort: 1}, memory.Hit{Key: "new1", Sort: 2})

	// Late in a long batch.
	long := memory.Batch{}
	for i := range 3000 {
		long.Checks = append(long.Checks, memory.Check{Key: fmt.Sprintf("c%d", i)})
		long.Puts = append(long.Puts, memory.Put{Key: fmt.Sprintf("p%d", i), Data: data("x"), Add: []memory.Term{{Name: "long", Sort: 1}}})
	}
	long.Checks[2999].Revision = 1
	a.conflict(a.d.Apply(a.ctx, a.tenant, long), "c2999")
	long.Checks[2999].Revision = 0
	long.Puts[2998].From = 1
	a.conflict(a.d.Apply(a.ctx, a.tenant, long), "p2998")
	a.carriers("long")
	a.untouched("p0")
}

func askFirstStale(a *asker) {
	for i := range 40 {
		a.apply(memory.Put{Key: fmt.Sprintf("k%02d", i), Data: data("x")})
	}
	var b memory.Batch
	for i := range 40 { // descending, so that a store that sorts is found out
		key := fmt.Sprintf("k%02d", 39-i)
		b.Checks = append(b.Checks, memory.Check{Key: key, Revision: 1})
		b.Puts = append(b.Puts, memory.Put{Key: key, From: 1, Data: data("y")})
	}
	for _, stale := range [][]int{{0}, {39}, {5, 30}, {20, 21, 22}, {0, 39}} {
		c := memory.Batch{Checks: slices.Clone(b.Checks), Puts: slices.Clone(b.Puts)}
		for _, i := range stale {
			c.Checks[i].Revision = 2
		}
		c.Puts[0].From = 7
		c.Puts[1].From = 0
		a.conflict(a.d.Apply(a.ctx, a.tenant, c), b.Checks[stale[0]].Key)
		c = memory.Batch{Checks: b.Checks, Puts: slices.Clone(b.Puts)}
		for n, i := range stale {
			c.Puts[i].From = uint64(n%2) * 5 // absent expected, or too new
		}
		a.conflict(a.d.Apply(a.ctx, a.tenant, c), b.Puts[stale[0]].Key)
	}
	twice := memory.Batch{Checks: []memory.Check{{Key: "k03", Revision: 1}, {Key: "k04", Revision: 1}, {Key: "k03", Revision: 2}, {Key: "k05", Revision: 9}}}
	a.conflict(a.d.Apply(a.ctx, a.tenant, twice), "k03")
	for _, o := range a.get("k00", "k20", "k39") {
		a.true(o.Revision == 1, "%q moved", o.Key)
	}
}

func askChecksBefore(a *asker) {
	a.apply(memory.Put{Key: "a", Data: data("1")})
	same := []memory.Check{{Key: "a", Revision: 1}, {Key: "a", Revision: 1}, {Key: "b"}}
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: same, Puts: []memory.Put{{Key: "a", From: 1, Data: data("2")}, {Key: "b", Data: data("1")}}}))
	a.at("a", 2, data("2"))
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "a", Revision: 3}}, Puts: []memory.Put{{Key: "a", From: 2, Data: data("3")}}}), "a")
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "a", Revision: 2}}}))
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "b", Revision: 0}}}), "b")
}

func askHugeRevisions(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x")})
	for _, r := range []uint64{2, 1 << 31, 1<<31 + 1, 1 << 32, 1<<32 + 1, 1 << 53, 1<<53 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64} {
		for _, key := range []string{"k", "absent"} {
			a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: key, Revision: r}}}), key)
			a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: key, From: r, Data: data("y"), Entry: data("y")}}}), key)
		}
		log, err := a.d.History(a.ctx, a.tenant, "k", r, 10)
		a.ok(err)
		a.true(len(log) == 0, "entries after revision %d", r)
	}
	a.at("k", 1, data("x"))
	a.untouched("absent")
}

// together runs f n times at once and waits.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

func askRace(a *asker) { race(a, func(int) memory.Driver { return a.d }) }

func race(a *asker, handle func(i int) memory.Driver) {
	const writers, rounds = 64, 4
	for round := range uint64(rounds) {
		var wins, losses atomic.Int64
		var winner atomic.Int64
		var odd sync.Map
		together(writers, func(i int) {
			err := handle(i).Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{
				{Key: "k", From: round, Data: data("%d", i), Entry: data("%d", i), Add: []memory.Term{{Name: fmt.Sprintf("winner %d", round), Sort: uint64(i)}}},
				{Key: fmt.Sprintf("mine/%d/%d", round, i), Data: data("x")},
			}})
			switch {
			case err == nil:
				wins.Add(1)
				winner.Store(int64(i))
			case judge(err, memory.ErrConflict) == "":
				losses.Add(1)
			default:
				odd.Store(i, err)
			}
		})
		odd.Range(func(i, err any) bool {
			a.Errorf("writer %v: %v", i, err)
			return true
		})
		a.true(wins.Load() == 1 && losses.Load() == writers-1, "%d writers won and %d lost", wins.Load(), losses.Load())
		won := winner.Load()
		a.at("k", round+1, data("%d", won))
		a.carriers(fmt.Sprintf("winner %d", round), memory.Hit{Key: "k", Sort: uint64(won)})
		for i := range writers {
			revision := a.get(fmt.Sprintf("mine/%d/%d", round, i))[0].Revision
			a.true(revision == 1 == (int64(i) == won), "the other object of writer %d is at %d, the winner is %d", i, revision, won)
		}
	}
	a.true(len(a.history("k")) == rounds, "the log has %d entries of %d", len(a.history("k")), rounds)
}

// askWriteSkew: two writers that each check the object the other one writes, once
// absent and then at a revision, many such pairs beside each other.
func askWriteSkew(a *asker) { writeSkew(a, func(int) memory.Driver { return a.d }) }

func writeSkew(a *asker, handle func(i int) memory.Driver) {
	const pairs, rounds = 8, 12
	for round := range uint64(rounds) {
		group, revision := round/3, round%3
		key := func(i int) string { return fmt.Sprintf("%d/%d", group, i) }
		var errs [2 * pairs]error
		together(len(errs), func(i int) {
			errs[i] = handle(i).Apply(a.ctx, a.tenant, memory.Batch{
				Checks: []memory.Check{{Key: key(i ^ 1), Revision: revision}}, Puts: []memory.Put{{Key: key(i), From: revision, Data: data("x")}},
			})
		})
		for i := 0; i < len(errs); i += 2 {
			a.true((errs[i] == nil) != (errs[i+1] == nil), "round %d: both or none of two writers that check each other won: %v, %v", round, errs[i], errs[i+1])
			loser := i
			if errs[i] == nil {
				loser = i + 1
			}
			a.conflict(errs[loser], key(loser^1))
			a.apply(memory.Put{Key: key(loser), From: revision, Data: data("x")}) // where the next round begins
		}
	}
}

// askRingOfChecks: each of many writers checks the object of the next one. Whoever
// lost, lost to that one; and two neighbours never both win.
func askRingOfChecks(a *asker) {
	const writers, rounds = 12, 8
	for round := range rounds {
		var errs [writers]error
		key := func(i int) string { return fmt.Sprintf("%d/%d", round, i%writers) }
		together(writers, func(i int) {
			errs[i] = a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: key(i + 1)}}, Puts: []memory.Put{{Key: key(i), Data: data("x"), Entry: data("x")}}})
		})
		won := 0
		for i, err := range errs {
			next := errs[(i+1)%writers]
			if err == nil {
				won++
				a.at(key(i), 1, data("x"))
				continue
			}
			a.conflict(err, key(i+1))
			a.true(next == nil, "round %d: writer %d lost to one that did not win", round, i)
			a.untouched(key(i))
		}
		// In a serial order one writer comes last, and found the next one's object: so
		// not all win. One comes first, and so not all lose.
		a.true(won > 0 && won < writers, "round %d: %d of %d writers in a ring won", round, won, writers)
	}
}

// askCheckAgainstPut: one batch only checks an object that another one moves. If
// both win, the check came first; then the mark that the checker left is older
// than the move, which the mover shows by checking that there is no mark.
func askCheckAgainstPut(a *asker) {
	for round := range uint64(40) {
		mark := fmt.Sprintf("mark/%d", round)
		var checker, mover error
		together(2, func(i int) {
			if i == 0 {
				checker = a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k", Revision: round}}, Puts: []memory.Put{{Key: mark, Data: data("x")}}})
			} else {
				mover = a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: mark}}, Puts: []memory.Put{{Key: "k", From: round, Data: data("x")}}})
			}
		})
		a.true((checker == nil) != (mover == nil), "round %d: both or none won: %v, %v", round, checker, mover)
		if mover != nil {
			a.conflict(mover, mark)
			a.apply(memory.Put{Key: "k", From: round, Data: data("x")})
		} else {
			a.conflict(checker, "k")
			a.untouched(mark)
		}
	}
}

func askGetOrder(a *asker) {
	var b memory.Batch
	for i := range 100 {
		b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("k%02d", i), Data: data("%d", i)})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	for _, n := range []int{1, 2, 3, 5, 8, 16, 17, 20, 31, 32, 33, 50, 64, 65, 100, 129, 1000, 1023, 1024, 1025, 3000} {
		keys, want := make([]string, n), make([]int, n)
		for i := range keys {
			want[i] = (i*37 + 11) % 130 // neither ascending nor unique, some absent
			keys[i] = fmt.Sprintf("k%02d", want[i])
		}
		for i, o := range a.get(keys...) {
			if want[i] < 100 {
				a.true(o.Revision == 1 && string(o.Data) == fmt.Sprint(want[i]), "of %d keys, %d is %q at %d with %q", n, i, keys[i], o.Revision, o.Data)
			} else {
				a.true(o.Revision == 0 && o.Data == nil, "of %d keys, absent %d is at %d with %q", n, i, o.Revision, o.Data)
			}
		}
	}
}

func askGetSizes(a *asker) {
	objects, err := a.d.Get(a.ctx, a.tenant, nil)
	a.ok(err)
	a.true(len(objects) == 0, "%d objects for no key", len(objects))
	a.at("", 0, nil)
	a.log("")

	const n = 10_000
	keys := make([]string, n)
	var b memory.Batch
	for i := range keys {
		keys[i] = fmt.Sprintf("%d", (i*7919)%n)
		if i%2 == 0 {
			b.Puts = append(b.Puts, memory.Put{Key: keys[i], Data: data("data of %s", keys[i])})
		}
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	for i, o := range a.get(keys...) {
		if i%2 == 0 {
			a.true(o.Revision == 1 && string(o.Data) == "data of "+keys[i], "object %d is at %d with %.80q", i, o.Revision, o.Data)
		} else {
			a.true(o.Revision == 0 && o.Data == nil, "absent object %d is at %d", i, o.Revision)
		}
	}
}

func askSnapshot(a *asker) {
	const objects, writers, moves = 8, 3, 20
	var keys []string
	for i := range objects {
		keys = append(keys, fmt.Sprintf("k%d", i))
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	step := func() error { // all objects move together, or none does
		for {
			now, err := a.d.Get(ctx, a.tenant, keys)
			if err != nil {
				return err
			}
			var b memory.Batch
			for _, o := range now {
				b.Puts = append(b.Puts, memory.Put{Key: o.Key, From: o.Revision, Data: data("%d", o.Revision+1)})
			}
			if err := a.d.Apply(ctx, a.tenant, b); !errors.Is(err, memory.ErrConflict) {
				return err
			}
		}
	}
	a.ok(step())
	var writing, reading sync.WaitGroup
	var written atomic.Uint64
	done := make(chan struct{})
	errs := make(chan error, writers+2)
	fail := func(err error) {
		errs <- err
		cancel() // the others have nothing to wait for
	}
	for range writers {
		writing.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := step(); err != nil {
					fail(err)
					return
				}
				written.Add(1)
			}
		})
	}
	// The long list is more than a driver reads in one piece. Reading goes on until
	// the objects were seen to move a number of times.
	for _, list := range [][]string{keys, slices.Repeat(keys, 400)} {
		reading.Go(func() {
			for moved, last := 0, uint64(0); moved < moves; {
				got, err := a.d.Get(ctx, a.tenant, list)
				if err != nil {
					fail(err)
					return
				}
				for _, o := range got {
					if o.Revision != got[0].Revision || string(o.Data) != fmt.Sprint(o.Revision) {
						fail(fmt.Errorf("half a batch: %s is at %d with %q, %s at %d", o.Key, o.Revision, o.Data, got[0].Key, got[0].Revision))
						return
					}
				}
				a.checks.Add(1)
				if got[0].Revision != last {
					moved, last = moved+1, got[0].Revision
				}
			}
		})
	}
	reading.Wait()
	close(done)
	writing.Wait()
	close(errs)
	for err := range errs {
		a.ok(err)
	}
	a.at("k0", 1+written.Load(), data("%d", 1+written.Load()))
}

func askTombstone(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("born"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	a.apply(memory.Put{Key: "k", From: 1, Entry: data("erased")})
	a.at("k", 2, nil)
	a.carriers("t", memory.Hit{Key: "k", Sort: 1})
	for _, from := range []uint64{0, 1, 3} {
		a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: from, Data: data("x")}}}), "k")
	}
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k"}}}), "k")
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k", Revision: 2}}}))
	a.apply(memory.Put{Key: "k", From: 2, Remove: []string{"t"}})
	a.at("k", 3, nil)
	a.carriers("t")
	a.apply(memory.Put{Key: "k", From: 3, Data: data("4"), Entry: data("back"), Add: []memory.Term{{Name: "t", Sort: 4}}})
	a.at("k", 4, data("4"))
	a.carriers("t", memory.Hit{Key: "k", Sort: 4})
	a.log("k", memory.LogEntry{Revision: 1, Data: data("born")}, memory.LogEntry{Revision: 2, Data: data("erased")}, memory.LogEntry{Revision: 4, Data: data("back")})

	a.apply(memory.Put{Key: "born dead", Entry: data("never alive")})
	a.at("born dead", 1, nil)
}

func askLog(a *asker) {
	const n = 300
	var want []memory.LogEntry
	for i := range uint64(n) {
		p := memory.Put{Key: "k", From: i, Data: data("%d", i)}
		if i%5 != 3 {
			p.Entry = data("entry of %d", i+1)
			want = append(want, memory.LogEntry{Revision: i + 1, Data: p.Entry})
		}
		a.apply(p, memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Entry: data("of another key")})
	}
	a.log("k", want...)
	for _, limit := range []int{1, 2, 7, 100, 239, 240, 241, memory.MaxQueryLimit} {
		var got []memory.LogEntry
		after := uint64(0)
		for {
			page, err := a.d.History(a.ctx, a.tenant, "k", after, limit)
			a.ok(err)
			a.true(len(page) <= limit, "%d entries, limit is %d", len(page), limit)
			if len(page) == 0 {
				break
			}
			got = append(got, page...)
			after = page[len(page)-1].Revision
		}
		a.true(slices.EqualFunc(got, want, func(x, y memory.LogEntry) bool { return x.Revision == y.Revision && bytes.Equal(x.Data, y.Data) }),
			"pages of %d entries do not make the log", limit)
	}
	page, err := a.d.History(a.ctx, a.tenant, "k", 150, 3)
	a.ok(err)
	a.true(len(page) == 3 && page[0].Revision == 151, "after 150 comes %v", page)
	page, err = a.d.History(a.ctx, a.tenant, "k", n, 3)
	a.ok(err)
	a.true(len(page) == 0, "after the end comes %v", page)
}

func askLogPaging(a *asker) {
	const n = 60
	a.apply(memory.Put{Key: "k", Data: data("0"), Entry: data("1")})
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for i := uint64(1); i < n; i++ {
			if err := a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: i, Data: data("%d", i), Entry: data("%d", i+1)}}}); err != nil {
				failed <- err
				return
			}
		}
	}()
	for after, finished := uint64(0), false; after < n; {
		select {
		case err := <-failed:
			a.ok(err)
			finished = true
		default:
		}
		page, err := a.d.History(a.ctx, a.tenant, "k", after, 4)
		a.ok(err)
		a.true(len(page) > 0 || !finished, "the log ends at %d of %d", after, n)
		for _, e := range page {
			after++
			a.true(e.Revision == after && string(e.Data) == fmt.Sprint(after), "entry %d is %d with %q", after, e.Revision, e.Data)
		}
	}
	a.ok(<-failed)
}

func askLogNoGap(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("1")})
	for range 3 {
		a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", Data: data("lost"), Entry: data("lost")}}}), "k")
	}
	a.apply(memory.Put{Key: "k", From: 1, Data: data("y"), Entry: data("2")})
	a.log("k", memory.LogEntry{Revision: 1, Data: data("1")}, memory.LogEntry{Revision: 2, Data: data("2")})
}

// askLogOfMany: writers take turns by conflict; whoever reads meanwhile sees the
// beginning of the same log.
func askLogOfMany(a *asker) { logOfMany(a, func(int) memory.Driver { return a.d }) }

func logOfMany(a *asker, handle func(i int) memory.Driver) {
	const writers, each = 8, 10
	entry := func(revision uint64, who int) []byte { return data("%d by %d", revision, who) }
	var won [writers]atomic.Int64
	var conflicts atomic.Int64
	var writing sync.WaitGroup
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	errs := make(chan error, writers+1)
	for who := range writers {
		writing.Go(func() {
			for tries := 0; won[who].Load() < each; tries++ {
				now, err := handle(who).Get(ctx, a.tenant, []string{"k"})
				if err == nil {
					from := now[0].Revision
					err = handle(who).Apply(ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: from, Data: entry(from+1, who), Entry: entry(from+1, who)}}})
				}
				switch {
				case err == nil:
					won[who].Add(1)
				case errors.Is(err, memory.ErrConflict) && tries < 100*writers*each: // each is some other writer's success
					conflicts.Add(1)
				default:
					errs <- err
					cancel()
					return
				}
			}
		})
	}
	var over atomic.Bool
	go func() {
		writing.Wait()
		over.Store(true)
	}()
	var last []memory.LogEntry
	for done := false; !done && ctx.Err() == nil; {
		done = over.Load()
		log, err := a.d.History(ctx, a.tenant, "k", 0, memory.MaxQueryLimit)
		if ctx.Err() != nil {
			break
		}
		a.ok(err)
		a.true(len(log) >= len(last), "the log has become shorter")
		for i, e := range log {
			if e.Revision != uint64(i+1) || i < len(last) && !same(e.Data, last[i].Data) {
				a.Fatalf("entry %d of the log is of revision %d with %q", i+1, e.Revision, e.Data)
			}
		}
		last = log
	}
	writing.Wait()
	close(errs)
	for err := range errs {
		a.ok(err)
	}
	a.true(len(last) == writers*each, "the log has %d entries of %d", len(last), writers*each)
	var by [writers]int
	for i, e := range last {
		var revision uint64
		var who int
		_, err := fmt.Sscanf(string(e.Data), "%d by %d", &revision, &who)
		a.true(err == nil && revision == uint64(i+1) && who < writers, "entry %d says %q", i+1, e.Data)
		by[who]++
	}
	for who, n := range by {
		a.true(n == each, "writer %d has %d entries of %d", who, n, each)
	}
	a.at("k", writers*each, last[len(last)-1].Data)
	a.Logf("%d conflicts", conflicts.Load())
}

func askTerms(a *asker) {
	a.apply(memory.Put{Key: "a", Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 5}, {Name: "u", Sort: 1}}})
	a.apply(memory.Put{Key: "b", Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 3}}})
	a.carriers("t", memory.Hit{Key: "b", Sort: 3}, memory.Hit{Key: "a", Sort: 5})
	a.apply(memory.Put{Key: "a", From: 1, Data: data("y")})
	a.carriers("t", memory.Hit{Key: "b", Sort: 3}, memory.Hit{Key: "a", Sort: 5})
	a.apply(memory.Put{Key: "a", From: 2, Data: data("y"), Add: []memory.Term{{Name: "t", Sort: 5}}})
	a.carriers("t", memory.Hit{Key: "b", Sort: 3}, memory.Hit{Key: "a", Sort: 5})
	a.apply(memory.Put{Key: "a", From: 3, Data: data("y"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	a.carriers("t", memory.Hit{Key: "a", Sort: 1}, memory.Hit{Key: "b", Sort: 3})
	a.carriers("u", memory.Hit{Key: "a", Sort: 1})
	a.apply(memory.Put{Key: "a", From: 4, Data: data("y"), Remove: []string{"t", "never carried"}})
	a.carriers("t", memory.Hit{Key: "b", Sort: 3})
	a.carriers("u", memory.Hit{Key: "a", Sort: 1})
	a.apply(memory.Put{Key: "a", From: 5, Data: data("y"), Remove: []string{"u", "u", "t"}})
	a.carriers("u")
	a.apply(memory.Put{Key: "a", From: 6, Data: data("y"), Add: []memory.Term{{Name: "t", Sort: 2}, {Name: "t", Sort: 4}}})
	a.carriers("t", memory.Hit{Key: "b", Sort: 3}, memory.Hit{Key: "a", Sort: 4})
	a.apply(memory.Put{Key: "a", From: 7, Data: data("y"), Add: []memory.Term{{Name: "t", Sort: 2}}, Remove: []string{"t"}})
	a.carriers("t", memory.Hit{Key: "a", Sort: 2}, memory.Hit{Key: "b", Sort: 3})

	// One object with many terms.
	var terms []memory.Term
	for i := range 500 {
		terms = append(terms, memory.Term{Name: fmt.Sprintf("word=%d", i), Sort: uint64(i)})
	}
	a.apply(memory.Put{Key: "many", Data: data("x"), Add: terms})
	for _, i := range []int{0, 250, 499} {
		a.carriers(fmt.Sprintf("word=%d", i), memory.Hit{Key: "many", Sort: uint64(i)})
	}
}

func askClear(a *asker) {
	const many = 150
	var names []string
	var carried []memory.Term
	for i := range many {
		names = append(names, fmt.Sprintf("w%d", i))
		carried = append(carried, memory.Term{Name: names[i], Sort: uint64(i)})
	}
	long := strings.Repeat("long", 100)
	carried = append(carried, memory.Term{Name: long, Sort: math.MaxUint64}, memory.Term{Name: "\x00", Sort: 1}, memory.Term{Name: long + "er", Sort: 2})
	names = append(names, long, "\x00", long+"er")
	carry := func(key string, from uint64) {
		a.apply(memory.Put{Key: key, From: from, Data: data("x"), Add: carried})
	}
	left := func(keys ...string) {
		a.Helper()
		for i, name := range names {
			var want []memory.Hit
			for _, key := range keys {
				want = append(want, memory.Hit{Key: key, Sort: carried[i].Sort})
			}
			a.carriers(name, want...)
		}
	}
	carry("a", 0)
	carry("b", 0)
	carry("a ", 0)
	left("a", "a ", "b")
	// With data and with an entry, and of an object at the first and a later revision.
	a.apply(memory.Put{Key: "b", From: 1, Data: data("y"), Entry: data("y"), Clear: true})
	left("a", "a ")
	a.at("b", 2, data("y"))
	a.log("b", memory.LogEntry{Revision: 2, Data: data("y")})
	// A tombstone; terms come again; two objects in one batch.
	a.apply(memory.Put{Key: "a", From: 1, Clear: true})
	left("a ")
	a.at("a", 2, nil)
	carry("a", 2)
	left("a", "a ")
	a.apply(memory.Put{Key: "a", From: 3, Clear: true}, memory.Put{Key: "a ", From: 1, Data: data("z"), Clear: true})
	left()
	// What is added stays, whether it was carried before or not; Remove changes nothing.
	carry("a", 4)
	a.apply(memory.Put{Key: "a", From: 5, Data: data("x"), Clear: true, Remove: []string{"w1", "w2", "never carried"},
		Add: []memory.Term{{Name: "w0", Sort: 0}, {Name: "w1", Sort: 7}, {Name: "new", Sort: 1}, {Name: "new", Sort: 2}}})
	a.carriers("w0", memory.Hit{Key: "a", Sort: 0})
	a.carriers("w1", memory.Hit{Key: "a", Sort: 7})
	a.carriers("new", memory.Hit{Key: "a", Sort: 2})
	for _, name := range names[2:] {
		a.carriers(name)
	}
	// A new object has nothing to clear; one without terms neither.
	a.apply(memory.Put{Key: "n", Data: data("x"), Clear: true, Add: []memory.Term{{Name: "of n", Sort: 5}}}, memory.Put{Key: "b", From: 2, Clear: true})
	a.carriers("of n", memory.Hit{Key: "n", Sort: 5})
	// Nothing goes with a batch that is refused.
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "a", From: 5, Clear: true}}}), "a")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "a", From: 6, Clear: true}, {Key: "n", From: 3, Clear: true}}}), "n")
	a.conflict(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "absent", From: 1, Clear: true}}}), "absent")
	a.carriers("w1", memory.Hit{Key: "a", Sort: 7})
	// What restore gave an object goes too.
	a.restore(restored("a", 9, data("x"), carried...))
	left("a")
	a.in("other").apply(memory.Put{Key: "a", Data: data("x"), Add: carried})
	a.apply(memory.Put{Key: "a", From: 9, Clear: true})
	left()
	a.carriers("of n", memory.Hit{Key: "n", Sort: 5})
	a.in("other").carriers("w1", memory.Hit{Key: "a", Sort: 1})
}

// While objects are cleared, Restore gives them other terms at the same revision: they
// have those of the one that came last, all or none.
func askClearRace(a *asker) {
	const rounds = 60
	for round := range rounds {
		key := fmt.Sprintf("k%d", round)
		a.apply(memory.Put{Key: key, Data: data("x"), Add: []memory.Term{{Name: "before", Sort: 1}}})
		var both sync.WaitGroup
		var restoring, clearing error
		both.Go(func() {
			restoring = a.d.Restore(a.ctx, a.tenant, []memory.Restored{restored(key, 1, data("y"), memory.Term{Name: "after", Sort: 1})})
		})
		both.Go(func() {
			clearing = a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: key, From: 1, Clear: true}}})
		})
		both.Wait()
		a.ok(restoring)
		a.ok(clearing)
		var hits []memory.Hit
		for _, term := range []string{"before", "after"} {
			for _, h := range a.list(memory.Query{Term: term, Limit: 1000}) {
				if h.Key == key {
					hits = append(hits, h)
					a.true(term == "after", "%q carries what was cleared and restored away", key)
				}
			}
		}
		o := a.get(key)[0]
		a.true((o.Revision == 1) == (len(hits) == 1), "%q is at revision %d and has %d terms", key, o.Revision, len(hits))
	}
}

func askTermOrder(a *asker) {
	sorts := []uint64{0, 1, 255, 256, 1 << 31, 1 << 32, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<63 - 1, 1 << 63, 1<<63 + 1, math.MaxUint64 - 1, math.MaxUint64}
	keys := []string{"\x00", "\x00\x00", "A", "B", "a", "a\x00", "aa", "b", "\x7f", "\x80", "\xc3\xa9", "\xff", "\xff\xff", "10", "9"}
	var want []memory.Hit
	var b memory.Batch
	for i, sort := range sorts {
		for j, key := range keys {
			// Carriers of one sort are different keys, and each key is of one sort.
			h := memory.Hit{Key: fmt.Sprintf("%s|%d", key, (i*7+j)%11), Sort: sort}
			h.Key += fmt.Sprintf("|%d", i)
			want = append(want, h)
			b.Puts = append(b.Puts, memory.Put{Key: h.Key, Data: data("x"), Add: []memory.Term{{Name: "t", Sort: sort}}})
		}
	}
	slices.SortFunc(b.Puts, func(x, y memory.Put) int { return -strings.Compare(x.Key, y.Key) })
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	slices.SortFunc(want, compareHits)
	for _, limit := range []int{1, 2, 15, 16, len(want) - 1, len(want), len(want) + 1} {
		a.true(slices.Equal(a.list(memory.Query{Term: "t", Limit: limit}), want), "with limit %d the list is another", limit)
	}
}

func askRanges(a *asker) {
	sorts := []uint64{0, 1, 2, 10, 1 << 40, 1<<63 - 1, 1 << 63, math.MaxUint64 - 1, math.MaxUint64}
	var all []memory.Hit
	for i, sort := range sorts {
		for _, k := range []string{"a", "b", "\xff"} {
			h := memory.Hit{Key: fmt.Sprintf("%s%d", k, i), Sort: sort}
			all = append(all, h)
			a.apply(memory.Put{Key: h.Key, Data: data("x"), Add: []memory.Term{{Name: "t", Sort: sort}}})
		}
	}
	bounds := append(slices.Clone(sorts), 3, 9, 1<<63-2, math.MaxUint64-2)
	for _, from := range bounds {
		for _, to := range bounds {
			var want []memory.Hit
			for _, h := range all {
				if h.Sort >= from && (to == 0 || h.Sort <= to) {
					want = append(want, h)
				}
			}
			for _, limit := range []int{2, 100} {
				got := a.list(memory.Query{Term: "t", From: from, To: to, Limit: limit})
				a.true(slices.Equal(got, want), "from %d to %d by %d: %v, want %v", from, to, limit, got, want)
			}
		}
	}
}

func askPageSizes(a *asker) {
	const n = 257
	var b memory.Batch
	for i := range n {
		b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: uint64(i % 9)}}})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	whole := a.list(memory.Query{Term: "t", Limit: memory.MaxQueryLimit})
	a.true(len(whole) == n, "%d carriers of %d", len(whole), n)
	for _, limit := range []int{1, 2, 3, 10, 256, 257, 258} {
		a.true(slices.Equal(a.list(memory.Query{Term: "t", Limit: limit}), whole), "pages of %d make another list", limit)
	}
	hits, next, err := a.d.Query(a.ctx, a.tenant, memory.Query{Term: "t", Limit: n})
	a.ok(err)
	a.true(len(hits) == n && next == "", "a page that ends with the last carrier has a cursor")
}

func askPagingWhileInserting(a *asker) {
	const stay = 200
	var want []memory.Hit
	var b memory.Batch
	for i := range stay {
		h := memory.Hit{Key: fmt.Sprintf("stay%03d", i), Sort: uint64(1000 + i/4)}
		want = append(want, h)
		b.Puts = append(b.Puts, memory.Put{Key: h.Key, Data: data("x"), Add: []memory.Term{{Name: "t", Sort: h.Sort}}})
	}
	for i := range 50 {
		b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("moving%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: uint64(1000 + i)}}})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	failed := make(chan error, 1)
	// Two batches may run beside each page: with more, a fast writer would put
	// carriers before a slow reader for ever, and the list would have no end.
	allowed := make(chan struct{}, 2)
	allow := func() {
		for range cap(allowed) {
			select {
			case allowed <- struct{}{}:
			default:
			}
		}
	}
	stop := sync.OnceFunc(func() { close(allowed) })
	defer stop()
	go func() { // inserts, removes and re-sorts all over the range
		defer close(failed)
		for i := uint64(0); ; i++ {
			if _, more := <-allowed; !more {
				return
			}
			p := memory.Put{Key: fmt.Sprintf("moving%d", i%50), From: 1 + i/50, Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 990 + (i*31)%80}}}
			if i%3 == 0 {
				p.Add, p.Remove = nil, []string{"t"}
			}
			q := memory.Put{Key: fmt.Sprintf("new%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 990 + (i*17)%80}}}
			if err := a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{p, q}}); err != nil {
				failed <- err
				return
			}
		}
	}()
	for range 8 {
		var got []memory.Hit
		for _, h := range a.pages(memory.Query{Term: "t", Limit: 7}, allow) {
			if strings.HasPrefix(h.Key, "stay") {
				got = append(got, h)
			}
		}
		a.true(slices.Equal(got, want), "of %d carriers that stayed %d were listed", len(want), len(got))
	}
	stop()
	a.ok(<-failed)
}

func askCursorOfRemoved(a *asker) {
	for i := range 6 {
		a.apply(memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: uint64(i)}}})
	}
	hits, next, err := a.d.Query(a.ctx, a.tenant, memory.Query{Term: "t", Limit: 3})
	a.ok(err)
	a.true(len(hits) == 3 && next != "", "%v with cursor %q", hits, next)
	a.apply(memory.Put{Key: "k2", From: 1, Data: data("x"), Remove: []string{"t"}})
	a.apply(memory.Put{Key: "k1", From: 1, Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 9}}})
	got := a.list(memory.Query{Term: "t", After: next, Limit: 3})
	want := []memory.Hit{{Key: "k3", Sort: 3}, {Key: "k4", Sort: 4}, {Key: "k5", Sort: 5}, {Key: "k1", Sort: 9}}
	a.true(slices.Equal(got, want), "after the cursor come %v, want %v", got, want)
}

func askOperationCap(a *asker) {
	var b memory.Batch
	for i := range memory.MaxBatchOps {
		if i%2 == 0 {
			b.Checks = append(b.Checks, memory.Check{Key: fmt.Sprintf("absent%d", i)})
		} else {
			b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("%d", i), Entry: data("%d", i), Add: []memory.Term{{Name: "t", Sort: uint64(i)}}})
		}
	}
	over := b
	over.Checks = append(slices.Clone(b.Checks), memory.Check{Key: "one more"})
	a.is(a.d.Apply(a.ctx, a.tenant, over), memory.ErrTooLarge)
	a.untouched("k1", "t")
	over = b
	over.Puts = append(slices.Clone(b.Puts), memory.Put{Key: "one more", Data: data("x")})
	a.is(a.d.Apply(a.ctx, a.tenant, over), memory.ErrTooLarge)
	a.untouched("k1", "t")
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	a.true(len(a.list(memory.Query{Term: "t", Limit: 1000})) == memory.MaxBatchOps/2, "not all carriers are there")
	last := memory.MaxBatchOps - 1
	a.at(fmt.Sprintf("k%d", last), 1, data("%d", last))

	checks := memory.Batch{}
	for i := range memory.MaxBatchOps {
		checks.Checks = append(checks.Checks, memory.Check{Key: fmt.Sprintf("k%d", i), Revision: uint64(i % 2)})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, checks))
	checks.Checks[last].Revision = 2
	a.conflict(a.d.Apply(a.ctx, a.tenant, checks), fmt.Sprintf("k%d", last))

	puts := memory.Batch{}
	for i := range memory.MaxBatchOps {
		puts.Puts = append(puts.Puts, memory.Put{Key: fmt.Sprintf("p%d", i), Data: data("x")})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, puts))
	a.at(fmt.Sprintf("p%d", last), 1, data("x"))
}

func askByteCap(a *asker) {
	// Bytes of every kind count: keys of checks and puts, data, entry, terms.
	const fixed = 1000 + 1 + (4 << 20) + (3 << 20) + 1008 + 1000 + 1
	build := func(total int) memory.Batch {
		return memory.Batch{
			Checks: []memory.Check{{Key: strings.Repeat("c", 1000)}},
			Puts: []memory.Put{
				{Key: "k", Data: make([]byte, 4<<20), Entry: make([]byte, 3<<20), Add: []memory.Term{{Name: strings.Repeat("t", 1000), Sort: 1}}, Remove: []string{strings.Repeat("r", 1000)}},
				{Key: "l", Data: make([]byte, total-fixed)},
			},
		}
	}
	a.is(a.d.Apply(a.ctx, a.tenant, build(memory.MaxBatchBytes+1)), memory.ErrTooLarge)
	a.untouched("k", strings.Repeat("t", 1000))
	a.untouched("l")
	a.ok(a.d.Apply(a.ctx, a.tenant, build(memory.MaxBatchBytes)))
	a.true(len(a.get("l")[0].Data) == memory.MaxBatchBytes-fixed, "the data came back shorter")
	a.true(len(a.get("k")[0].Data) == 4<<20, "the data came back shorter")

	a.is(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "m", Data: make([]byte, memory.MaxBatchBytes)}}}), memory.ErrTooLarge)
	a.untouched("m")
}

func askEmptyBatch(a *asker) {
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{}))
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k"}}}))
	a.untouched("k")
}

func askInvalidBatches(a *asker) {
	good := memory.Put{Key: "good", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}}
	for name, b := range map[string]memory.Batch{
		"a put with an empty key":   {Puts: []memory.Put{good, {Data: data("x")}}},
		"a check with an empty key": {Checks: []memory.Check{{}}, Puts: []memory.Put{good}},
		"a key that is put twice":   {Puts: []memory.Put{good, {Key: "x"}, {Key: "x", From: 1}}},
		"an empty term":             {Puts: []memory.Put{good, {Key: "x", Add: []memory.Term{{Name: ""}}}}},
	} {
		a.Log(name)
		a.is(a.d.Apply(a.ctx, a.tenant, b), memory.ErrInvalidBatch)
		a.untouched("good", "t")
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "good"}, {Key: "good"}}, Puts: []memory.Put{good}}))
}

func askInvalidQueries(a *asker) {
	for i := range 3 {
		a.apply(memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	}
	for _, q := range []memory.Query{
		{Term: "", Limit: 1}, {Term: "t"}, {Term: "t", Limit: -1}, {Term: "t", Limit: memory.MaxQueryLimit + 1},
		{Term: "t", Limit: 1, After: "no cursor!"},
	} {
		hits, next, err := a.d.Query(a.ctx, a.tenant, q)
		a.is(err, memory.ErrInvalidBatch)
		a.true(hits == nil && next == "", "%v and cursor %q beside an error", hits, next)
	}
	for _, limit := range []int{0, -1, memory.MaxQueryLimit + 1} {
		log, err := a.d.History(a.ctx, a.tenant, "k0", 0, limit)
		a.is(err, memory.ErrInvalidBatch)
		a.true(log == nil, "entries beside an error")
	}
	a.true(len(a.list(memory.Query{Term: "t", Limit: memory.MaxQueryLimit})) == 3, "the largest limit does not work")
}

func askCancelledBefore(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	cancelled, cancel := context.WithCancel(a.ctx)
	cancel()
	late, cancelLate := context.WithTimeout(a.ctx, 0)
	defer cancelLate()
	for ctx, want := range map[context.Context]error{cancelled: context.Canceled, late: context.DeadlineExceeded} {
		a.is(a.d.Apply(ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "new", Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 2}}}, {Key: "k", From: 1}}}), want)
		objects, err := a.d.Get(ctx, a.tenant, []string{"k"})
		a.is(err, want)
		a.true(objects == nil, "objects beside an error")
		hits, next, err := a.d.Query(ctx, a.tenant, memory.Query{Term: "t", Limit: 1})
		a.is(err, want)
		a.true(hits == nil && next == "", "hits beside an error")
		log, err := a.d.History(ctx, a.tenant, "k", 0, 1)
		a.is(err, want)
		a.true(log == nil, "entries beside an error")
	}
	a.untouched("new", "t")
	a.at("k", 1, data("x"))
}

func askCancelledDuring(a *asker) {
	const rounds, objects = 40, 300
	for round := range rounds {
		var b memory.Batch
		var keys []string
		for i := range objects {
			keys = append(keys, fmt.Sprintf("%d/%d", round, i))
			b.Puts = append(b.Puts, memory.Put{Key: keys[i], Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: fmt.Sprintf("t%d", round), Sort: 1}}})
		}
		ctx, cancel := context.WithCancel(a.ctx)
		begun := make(chan struct{})
		var applied error
		together(2, func(i int) {
			if i == 1 {
				<-begun
				for range round * 20 { // a little later each round
					_ = ctx.Err()
				}
				cancel()
				return
			}
			close(begun)
			applied = a.d.Apply(ctx, a.tenant, b)
		})
		if applied != nil {
			a.is(applied, context.Canceled)
		}
		// A server may still be at work on what the caller gave up: look until nothing
		// moved while the terms were read.
		written, terms := -1, 0
		for before := -2; before != written; {
			before = a.present(keys)
			terms = len(a.list(memory.Query{Term: fmt.Sprintf("t%d", round), Limit: 1000}))
			written = a.present(keys)
		}
		a.true(written == 0 || written == objects, "%d of %d objects of a cancelled batch are there", written, objects)
		a.true(applied != nil || written == objects, "an acknowledged batch is not there")
		a.true(terms == written, "%d objects carry the term, %d are there", terms, written)

		ctx, cancel = context.WithCancel(a.ctx)
		begun = make(chan struct{})
		var got []memory.Object
		var err error
		together(2, func(i int) {
			if i == 1 {
				<-begun
				cancel()
				return
			}
			close(begun)
			got, err = a.d.Get(ctx, a.tenant, slices.Repeat(keys, 10))
		})
		if err != nil {
			a.is(err, context.Canceled)
			a.true(got == nil, "a part beside an error")
		} else {
			a.true(len(got) == objects*10, "a part without an error")
		}
	}
	a.apply(memory.Put{Key: "the store is still well", Data: data("x")})
}

func (a *asker) present(keys []string) (n int) {
	a.Helper()
	for _, o := range a.get(keys...) {
		if o.Revision > 0 {
			n++
		}
	}
	return n
}

func askLargeCancelledDuring(a *asker) {
	const objects, rounds = 3000, 10
	key := func(round, i int) string { return fmt.Sprintf("%d/%d", round, i) }
	cutShort(a, rounds, func(ctx context.Context, round int) error {
		var b memory.Batch
		for i := range objects {
			b.Checks = append(b.Checks, memory.Check{Key: "absent " + key(round, i)})
			b.Puts = append(b.Puts, memory.Put{Key: key(round, i), Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
		}
		return a.d.Apply(ctx, a.tenant, b)
	}, func(round int) (some, all bool) {
		var keys []string
		for i := range objects {
			keys = append(keys, key(round, i))
		}
		n := a.present(keys)
		return n > 0, n == objects
	})
}

// cutShort makes calls whose contexts end at different points under way, by the
// clock and by how often the driver asks them, and looks at what is there then.
func cutShort(a *asker, rounds int, call func(ctx context.Context, round int) error, look func(round int) (some, all bool)) {
	a.Helper()
	began := time.Now()
	a.ok(call(a.ctx, 0))
	long := time.Since(began)
	cut := 0
	for round := 1; round <= rounds; round++ {
		ctx, cancel := context.WithCancel(a.ctx)
		if round%2 == 0 {
			ctx = &fuse{Context: ctx, burn: cancel, left: int64(round / 2)}
		} else {
			time.AfterFunc(long*time.Duration(round)/time.Duration(rounds), cancel)
		}
		err := call(ctx, round)
		cancel()
		if err != nil {
			a.is(err, context.Canceled)
			cut++
		}
		some, all := look(round)
		a.true(some == all, "round %d: a part of what was cancelled is there (%v)", round, err)
		a.true(all || err != nil, "round %d: what was acknowledged is not there", round)
	}
	a.true(cut > 0, "none of %d calls was cut short", rounds)
	a.Logf("%d of %d calls were cut short", cut, rounds)
}

// fuse is a context that is cancelled once its Err or Done was asked for a number of times.
type fuse struct {
	context.Context
	burn context.CancelFunc
	left int64
}

func (f *fuse) Err() error {
	f.ask()
	return f.Context.Err()
}

func (f *fuse) Done() <-chan struct{} {
	f.ask()
	return f.Context.Done()
}

func (f *fuse) ask() {
	if atomic.AddInt64(&f.left, -1) <= 0 {
		f.burn()
	}
}

func askClosed(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	a.ok(a.d.Close())
	for range 2 {
		a.is(a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "k", From: 1, Data: data("x")}}}), memory.ErrClosed)
		a.is(a.d.Apply(a.ctx, a.tenant, memory.Batch{}), memory.ErrClosed)
		objects, err := a.d.Get(a.ctx, a.tenant, []string{"k"})
		a.is(err, memory.ErrClosed)
		a.true(objects == nil, "objects beside an error")
		_, err = a.d.Get(a.ctx, a.tenant, nil)
		a.is(err, memory.ErrClosed)
		_, _, err = a.d.Query(a.ctx, a.tenant, memory.Query{Term: "t", Limit: 1})
		a.is(err, memory.ErrClosed)
		_, err = a.d.History(a.ctx, a.tenant, "k", 0, 1)
		a.is(err, memory.ErrClosed)
		a.is(a.d.Close(), memory.ErrClosed)
	}
}

func askCloseUnderLoad(a *asker) {
	a.apply(memory.Put{Key: "k", Data: data("x")})
	const workers = 8
	running := make(chan struct{}, workers)
	finished := make(chan error, workers)
	closed := make(chan struct{})
	for i := range workers {
		go func() {
			for n, last := uint64(0), false; ; n++ {
				select {
				case <-closed:
					last = true
				default:
				}
				var err error
				if i%2 == 0 {
					_, err = a.d.Get(a.ctx, a.tenant, []string{"k"})
				} else {
					err = a.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: fmt.Sprintf("w%d", i), From: n, Data: data("x")}}})
				}
				if n == 0 {
					running <- struct{}{}
				}
				if err != nil || last {
					finished <- err
					return
				}
			}
		}()
	}
	for range workers {
		<-running
	}
	a.ok(a.d.Close())
	close(closed)
	for range workers {
		a.is(<-finished, memory.ErrClosed)
	}
}
