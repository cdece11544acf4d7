package storetest

import (
	"fmt"
	"slices"

	"github.com/hearsay-go/hearsay/memory"
)

type durableCase struct {
	name string
	ask  func(a *asker, reopen func() memory.Driver)
}

func durableCases() []durableCase {
	return []durableCase{
		{"everything outlives close", askOutlivesClose},
		{"revisions go on where they were", askRevisionsGoOn},
		{"a second handle sees what the first wrote, at once", askSecondHandle},
		{"of 64 writers on four handles one wins", askRaceOfHandles},
		{"closing one handle leaves the others at work", askCloseOne},
		{"a cursor of one handle works on another", askCursorOfOther},
		{"what was restored and rewritten outlives close", askMaintenanceOutlivesClose},
		{"a second handle sees what the first restored and rewrote, at once", askMaintenanceOfOther},
		{"writers on two handles with checks against each other never both win", askWriteSkewOfHandles},
		{"writers on many handles leave no gap in a log", askLogOfHandles},
		{"compact of one handle leaves another one at work", askCompactBesideHandle},
	}
}

func askOutlivesClose(a *asker, reopen func() memory.Driver) {
	keys := lookalikes()
	var b memory.Batch
	for i, k := range keys {
		b.Puts = append(b.Puts, memory.Put{Key: k, Data: data("%d", i), Entry: data("entry %d", i), Add: []memory.Term{{Name: "t", Sort: uint64(i % 7)}}})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	a.ok(a.d.Apply(a.ctx, "", memory.Batch{Puts: []memory.Put{{Key: "of no tenant", Data: data("x")}}}))
	for i := range 30 { // small ones last, acknowledged one by one
		a.apply(memory.Put{Key: fmt.Sprintf("late%d", i), Data: data("%d", i), Entry: data("%d", i)})
	}
	list := a.list(memory.Query{Term: "t", Limit: 100})
	a.ok(a.d.Close())
	for range 2 {
		again := a.on(reopen())
		for i, o := range again.get(keys...) {
			a.true(o.Revision == 1 && string(o.Data) == fmt.Sprint(i), "%.80q is at %d with %q after reopening", o.Key, o.Revision, o.Data)
			again.log(keys[i], memory.LogEntry{Revision: 1, Data: data("entry %d", i)})
		}
		a.true(slices.Equal(again.list(memory.Query{Term: "t", Limit: 100}), list), "the carriers are others after reopening")
		again.in("").at("of no tenant", 1, data("x"))
		for i := range 30 {
			again.at(fmt.Sprintf("late%d", i), 1, data("%d", i))
		}
		a.ok(again.d.Close())
	}
}

func askRevisionsGoOn(a *asker, reopen func() memory.Driver) {
	a.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1")}, memory.Put{Key: "dead", Data: data("1"), Entry: data("1")})
	a.apply(memory.Put{Key: "k", From: 1, Data: data("2"), Entry: data("2")}, memory.Put{Key: "dead", From: 1, Entry: data("erased")})
	a.ok(a.d.Close())
	again := a.on(reopen())
	again.at("k", 2, data("2"))
	again.at("dead", 2, nil)
	for _, from := range []uint64{0, 1, 3} {
		for _, key := range []string{"k", "dead"} {
			a.conflict(again.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: key, From: from, Data: data("x")}}}), key)
		}
	}
	again.apply(memory.Put{Key: "k", From: 2, Data: data("3"), Entry: data("3")}, memory.Put{Key: "dead", From: 2, Data: data("3"), Entry: data("3")})
	again.log("k", memory.LogEntry{Revision: 1, Data: data("1")}, memory.LogEntry{Revision: 2, Data: data("2")}, memory.LogEntry{Revision: 3, Data: data("3")})
	again.log("dead", memory.LogEntry{Revision: 1, Data: data("1")}, memory.LogEntry{Revision: 2, Data: data("erased")}, memory.LogEntry{Revision: 3, Data: data("3")})
}

func askSecondHandle(a *asker, reopen func() memory.Driver) {
	handles := []*asker{a, a.on(reopen()), a.on(reopen())}
	for i := range uint64(60) {
		handles[i%3].apply(memory.Put{Key: "k", From: i, Data: data("%d", i), Entry: data("%d", i), Add: []memory.Term{{Name: "t", Sort: i}}})
		for _, h := range handles {
			h.at("k", i+1, data("%d", i))
			h.carriers("t", memory.Hit{Key: "k", Sort: i})
		}
	}
	for _, h := range handles {
		a.true(len(h.history("k")) == 60, "the log is not whole on every handle")
		a.conflict(h.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k", Revision: 59}}}), "k")
	}
}

func askRaceOfHandles(a *asker, reopen func() memory.Driver) {
	handles := []memory.Driver{a.d, reopen(), reopen(), reopen()}
	race(a, func(i int) memory.Driver { return handles[i%4] })
}

func askCloseOne(a *asker, reopen func() memory.Driver) {
	other := a.on(reopen())
	a.apply(memory.Put{Key: "k", Data: data("1")})
	other.at("k", 1, data("1"))
	a.ok(a.d.Close())
	other.apply(memory.Put{Key: "k", From: 1, Data: data("2")})
	third := a.on(reopen())
	third.at("k", 2, data("2"))
	a.ok(other.d.Close())
	third.apply(memory.Put{Key: "k", From: 2, Data: data("3")})
	third.at("k", 3, data("3"))
}

func askCursorOfOther(a *asker, reopen func() memory.Driver) {
	for i := range 5 {
		a.apply(memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	}
	_, next, err := a.d.Query(a.ctx, a.tenant, memory.Query{Term: "t", Limit: 2})
	a.ok(err)
	a.ok(a.d.Close())
	got := a.on(reopen()).list(memory.Query{Term: "t", After: next, Limit: 10})
	a.true(slices.Equal(got, []memory.Hit{{Key: "k2", Sort: 1}, {Key: "k3", Sort: 1}, {Key: "k4", Sort: 1}}), "after the cursor come %v", got)
}

func askMaintenanceOutlivesClose(a *asker, reopen func() memory.Driver) {
	for i := range uint64(4) {
		a.apply(
			memory.Put{Key: "k", From: i, Data: data("%d", i), Entry: data("%d", i+1), Add: []memory.Term{{Name: "t", Sort: i}}},
			memory.Put{Key: "lost", From: i, Data: data("%d", i), Entry: data("%d", i+1), Add: []memory.Term{{Name: "t", Sort: i}}},
			memory.Put{Key: "stripped", From: i, Data: data("%d", i), Entry: data("%d", i+1)},
		)
	}
	a.restore(restored("k", 9, data("restored"), memory.Term{Name: "u", Sort: 1}), restored("lost", 0, nil), restored("new", 3, nil, memory.Term{Name: "u", Sort: 2}))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "k", []memory.LogEntry{{Revision: 1}, {Revision: 2, Data: data("rewritten")}, {Revision: 3, Data: []byte{}}}))
	a.ok(Rewrite(a.ctx, a.d, a.tenant, "stripped", []memory.LogEntry{{Revision: 1}, {Revision: 2}, {Revision: 3}, {Revision: 4}}))
	a.in("gone").apply(memory.Put{Key: "k", Data: data("x")})
	a.in("gone").restore(restored("k", 0, nil))
	still := func(b *asker) {
		b.Helper()
		b.at("k", 9, data("restored"))
		b.at("lost", 0, nil)
		b.at("new", 3, nil)
		b.carriers("t")
		b.carriers("u", memory.Hit{Key: "k", Sort: 1}, memory.Hit{Key: "new", Sort: 2})
		b.log("k", memory.LogEntry{Revision: 2, Data: data("rewritten")}, memory.LogEntry{Revision: 3, Data: []byte{}}, memory.LogEntry{Revision: 4, Data: data("4")})
		b.log("stripped")
		b.listed("logs", b.logs("", 1), "k", "lost")
		b.scanned("entries", b.scan("k", memory.LogPlace{}, 2), memory.Logged{Key: "k", LogEntry: memory.LogEntry{Revision: 2, Data: data("rewritten")}},
			memory.Logged{Key: "k", LogEntry: memory.LogEntry{Revision: 3, Data: []byte{}}}, memory.Logged{Key: "k", LogEntry: memory.LogEntry{Revision: 4, Data: data("4")}})
		b.listed("tenants", b.tenants(1), b.tenant)
	}
	still(a)
	a.ok(a.d.Close())
	again := a.on(reopen())
	still(again)
	a.ok(again.d.Compact(a.ctx))
	a.ok(again.d.Close())
	again = a.on(reopen())
	still(again)
	again.apply(memory.Put{Key: "k", From: 9, Data: data("10"), Entry: data("10")}, memory.Put{Key: "lost", Data: data("again")}, memory.Put{Key: "stripped", From: 4, Entry: data("5")})
	again.log("stripped", memory.LogEntry{Revision: 5, Data: data("5")})
	a.conflict(again.d.Apply(a.ctx, a.tenant, memory.Batch{Puts: []memory.Put{{Key: "lost", From: 1, Entry: data("forged")}}}), "lost")
}

func askMaintenanceOfOther(a *asker, reopen func() memory.Driver) {
	other := a.on(reopen())
	a.apply(memory.Put{Key: "k", Data: data("x"), Entry: data("0")})
	for i := uint64(1); i <= 30; i++ {
		from, to := a, other
		if i%2 == 0 {
			from, to = other, a
		}
		from.restore(restored("k", 10*i, data("%d", i), memory.Term{Name: "t", Sort: i}))
		from.ok(Rewrite(a.ctx, from.d, a.tenant, "k", []memory.LogEntry{{Revision: 1, Data: data("%d", i)}}))
		from.in(fmt.Sprintf("tenant %02d", i)).apply(memory.Put{Key: "k"})
		to.at("k", 10*i, data("%d", i))
		to.carriers("t", memory.Hit{Key: "k", Sort: i})
		to.log("k", memory.LogEntry{Revision: 1, Data: data("%d", i)})
		to.listed("logs", to.logs("", 1), "k")
		to.scanned("entries", to.scan("", memory.LogPlace{}, 1), memory.Logged{Key: "k", LogEntry: memory.LogEntry{Revision: 1, Data: data("%d", i)}})
		a.true(len(to.tenants(7)) == int(i+1), "the other handle does not see every tenant")
		a.conflict(to.d.Apply(a.ctx, a.tenant, memory.Batch{Checks: []memory.Check{{Key: "k", Revision: 10*i - 10}}}), "k")
	}
}

func askWriteSkewOfHandles(a *asker, reopen func() memory.Driver) {
	handles := []memory.Driver{a.d, reopen()}
	writeSkew(a, func(i int) memory.Driver { return handles[i%2] })
}

func askLogOfHandles(a *asker, reopen func() memory.Driver) {
	handles := []memory.Driver{a.d, reopen(), reopen()}
	logOfMany(a, func(i int) memory.Driver { return handles[i%3] })
}

func askCompactBesideHandle(a *asker, reopen func() memory.Driver) {
	other := a.on(reopen())
	other.apply(memory.Put{Key: "k", Data: data("1"), Entry: data("1"), Add: []memory.Term{{Name: "t", Sort: 1}}})
	for i := uint64(1); i < 5; i++ {
		a.ok(a.d.Compact(a.ctx))
		other.at("k", i, data("%d", i))
		other.apply(memory.Put{Key: "k", From: i, Data: data("%d", i+1), Entry: data("%d", i+1)})
		a.at("k", i+1, data("%d", i+1))
		a.carriers("t", memory.Hit{Key: "k", Sort: 1})
		a.true(len(a.history("k")) == int(i+1), "the log is not whole after Compact")
	}
}
