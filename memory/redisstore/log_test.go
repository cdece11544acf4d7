package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
	"github.com/hearsay-go/hearsay/memory/storetest/server"
	"pgregory.net/rapid"
)

// TestALogOfManyPartsIsWhatTheReferenceHas grows logs past the size that lies in one
// piece, and appends, inserts, rewrites and removes all over them.
func TestALogOfManyPartsIsWhatTheReferenceHas(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	d := opened(t, s.URL(), nil)
	reference := storetest.NewMap()
	both := [2]memory.Driver{reference, d}
	ctx := t.Context()
	key, longest, inserted, removed, checks := 0, 0, 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		key++
		name := fmt.Sprintf("%d/", key)
		log := func(after uint64, limit int) []memory.LogEntry {
			var lists [2][]memory.LogEntry
			for i, d := range both {
				var err error
				if lists[i], err = d.History(ctx, "tenant", name, after, limit); err != nil {
					rt.Fatal(err)
				}
			}
			checks++
			longest = max(longest, len(lists[1]))
			for i := range max(len(lists[0]), len(lists[1])) {
				if i >= len(lists[0]) || i >= len(lists[1]) || lists[0][i].Revision != lists[1][i].Revision || !bytes.Equal(lists[0][i].Data, lists[1][i].Data) {
					rt.Fatalf("after %d, %d at most: entry %d of %d and %d differs", after, limit, i, len(lists[0]), len(lists[1]))
				}
			}
			return lists[1]
		}
		agree := func(what string, errs [2]error) bool {
			for _, sentinel := range []error{memory.ErrConflict, memory.ErrInvalidBatch} {
				if errors.Is(errs[0], sentinel) != errors.Is(errs[1], sentinel) {
					rt.Fatalf("%s: %v and %v", what, errs[0], errs[1])
				}
			}
			if (errs[0] == nil) != (errs[1] == nil) {
				rt.Fatalf("%s: %v and %v", what, errs[0], errs[1])
			}
			return errs[0] == nil
		}
		revision := func() uint64 {
			objects, err := d.Get(ctx, "tenant", []string{name})
			if err != nil {
				rt.Fatal(err)
			}
			return objects[0].Revision
		}
		data := func(size int) []byte { return bytes.Repeat([]byte{byte(size), 0, 'd'}, size)[:size] }
		grow := func(n int) {
			for range n {
				from := revision()
				b := memory.Batch{Puts: []memory.Put{{Key: name, From: from, Entry: data(rapid.SampledFrom([]int{0, 1, 100, 250, 700, 2100, 9000}).Draw(rt, "size"))}}}
				before := len(log(from, 1))
				if agree("append", [2]error{both[0].Apply(ctx, "tenant", b), both[1].Apply(ctx, "tenant", b)}) && before > 0 {
					inserted++
				}
			}
		}
		grow(rapid.IntRange(5, 60).Draw(rt, "begin"))
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(*rapid.T) { grow(rapid.IntRange(1, 5).Draw(rt, "n")) },
			"rewrite": func(rt *rapid.T) {
				all := log(0, memory.MaxQueryLimit)
				var list []memory.LogEntry
				for _, e := range all {
					switch rapid.IntRange(0, 5).Draw(rt, "what") {
					case 0:
						list = append(list, memory.LogEntry{Revision: e.Revision})
					case 1:
						list = append(list, memory.LogEntry{Revision: e.Revision, Data: data(rapid.IntRange(0, 400).Draw(rt, "size"))})
					case 2:
						if rapid.IntRange(0, 40).Draw(rt, "absent") == 0 {
							list = append(list, memory.LogEntry{Revision: e.Revision + 1})
						}
					}
				}
				for i := 1; i < len(list); i++ { // an absent one may be one that is there
					if list[i].Revision <= list[i-1].Revision {
						list = append(list[:i], list[i+1:]...)
						i--
					}
				}
				if agree("rewrite", [2]error{storetest.Rewrite(ctx, both[0], "tenant", name, list), storetest.Rewrite(ctx, both[1], "tenant", name, list)}) {
					for _, e := range list {
						if e.Data == nil {
							removed++
						}
					}
				}
			},
			"remove a stretch": func(rt *rapid.T) {
				all := log(0, memory.MaxQueryLimit)
				if len(all) == 0 {
					rt.Skip("the log is empty")
				}
				from := rapid.IntRange(0, len(all)-1).Draw(rt, "from")
				var list []memory.LogEntry
				for _, e := range all[from:rapid.IntRange(from, len(all)).Draw(rt, "to")] {
					list = append(list, memory.LogEntry{Revision: e.Revision})
				}
				removed += len(list)
				agree("remove", [2]error{storetest.Rewrite(ctx, both[0], "tenant", name, list), storetest.Rewrite(ctx, both[1], "tenant", name, list)})
			},
			"put back": func(rt *rapid.T) {
				to := []memory.Restored{{Object: memory.Object{Key: name, Revision: uint64(rapid.IntRange(0, int(revision())+3).Draw(rt, "revision"))}}}
				agree("restore", [2]error{both[0].Restore(ctx, "tenant", to), both[1].Restore(ctx, "tenant", to)})
			},
			"": func(rt *rapid.T) {
				all := log(0, memory.MaxQueryLimit)
				last := uint64(1)
				if len(all) > 0 {
					last = all[len(all)-1].Revision
				}
				log(uint64(rapid.IntRange(0, int(last)).Draw(rt, "after")), rapid.IntRange(1, len(all)+2).Draw(rt, "limit"))
				after := memory.LogPlace{Key: name, Revision: uint64(rapid.IntRange(0, int(last)).Draw(rt, "place"))}
				limit := rapid.IntRange(1, len(all)+2).Draw(rt, "page")
				var pages [2][]memory.Logged
				for i, d := range both {
					more := true
					for place := after; more; {
						page, others, err := d.Scan(ctx, "tenant", name, place, limit)
						if err != nil || len(page) > limit || others && len(page) == 0 {
							rt.Fatalf("%d entries of %d, others %t: %v", len(page), limit, others, err)
						}
						pages[i] = append(pages[i], page...)
						if more = others; more {
							place = page[len(page)-1].Place()
						}
					}
				}
				if !slices.EqualFunc(pages[0], pages[1], func(x, y memory.Logged) bool {
					return x.Key == y.Key && x.Revision == y.Revision && bytes.Equal(x.Data, y.Data)
				}) {
					rt.Fatalf("a scan after %v in pages of %d differs", after, limit)
				}
				var logs [2][]string
				for i, d := range both {
					var err error
					if logs[i], _, err = d.Logs(ctx, "tenant", name, "", 1); err != nil {
						rt.Fatal(err)
					}
				}
				if fmt.Sprint(logs[0]) != fmt.Sprint(logs[1]) {
					rt.Fatalf("logs are %q and %q", logs[0], logs[1])
				}
			},
		})
	})
	t.Logf("%d logs of up to %d entries, %d entries between others, %d removed, %d histories compared", key, longest, inserted, removed, checks)
	if longest < 50 || inserted == 0 || removed == 0 || checks < 1000 {
		t.Fatal("little was shown")
	}
}

func TestALongLogStaysFast(t *testing.T) {
	t.Parallel()
	s := own(t, server.RedisOptions{Settings: []string{"appendfsync no"}})
	d := opened(t, s.URL(), nil)
	const entries = 6000
	for i := range uint64(entries) {
		apply(t, d, memory.Batch{Puts: []memory.Put{{Key: "k", From: i, Entry: bytes.Repeat([]byte{'e'}, 240)}}})
	}
	// What was sent to the log file for each entry does not grow with the log.
	size := 0
	for _, path := range files(t, s.Dir) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += int(info.Size())
	}
	each := size / entries
	t.Logf("%d bytes of append-only file an entry", each)
	if each > 4<<10 {
		t.Fatalf("an entry of 240 bytes cost %d in the file", each)
	}
	page, err := d.History(t.Context(), "tenant", "k", entries-10, 100)
	if err != nil || len(page) != 10 {
		t.Fatalf("%d entries at the end: %v", len(page), err)
	}
	var list []memory.LogEntry
	for i := range uint64(entries) {
		list = append(list, memory.LogEntry{Revision: i + 1, Data: []byte("x")})
	}
	if err := storetest.Rewrite(t.Context(), d, "tenant", "k", list); err != nil {
		t.Fatal(err)
	}
	all, err := d.History(t.Context(), "tenant", "k", 0, memory.MaxQueryLimit)
	if err != nil || len(all) != entries || string(all[entries/2].Data) != "x" || all[entries-1].Revision != entries {
		t.Fatalf("%d entries after all were rewritten: %v", len(all), err)
	}
	if page, err := d.History(t.Context(), "tenant", "k", math.MaxUint64, 1); err != nil || len(page) != 0 {
		t.Fatalf("after the end there is %v (%v)", page, err)
	}
}

func TestWhatALargeObjectCarriesIsReadWithoutItsData(t *testing.T) {
	t.Parallel()
	d := opened(t, shared(t).URL(), fresh())
	ctx := t.Context()
	const objects = 150
	for _, size := range []int{8_000, 9_000, 300_000} {
		terms := []memory.Term{{Name: "a", Sort: 1}, {Name: strings.Repeat("b", 300), Sort: 1}, {Name: fmt.Sprint("of", size), Sort: 2}}
		var create, move, bury memory.Batch
		for i := range objects / (1 + size/10_000) {
			key := fmt.Sprintf("%d/%d", size, i)
			create.Puts = append(create.Puts, memory.Put{Key: key, Data: bytes.Repeat([]byte{'x'}, size), Add: terms})
			move.Puts = append(move.Puts, memory.Put{Key: key, From: 1, Data: []byte("y"), Remove: []string{"a"}, Add: []memory.Term{{Name: terms[1].Name, Sort: 3}}})
			bury.Puts = append(bury.Puts, memory.Put{Key: key, From: 2, Remove: []string{terms[1].Name}})
		}
		carriers := func(term string) (sorts []uint64) {
			hits, _, err := d.Query(ctx, "tenant", memory.Query{Term: term, Limit: 10_000})
			if err != nil {
				t.Fatal(err)
			}
			for _, h := range hits {
				if strings.HasPrefix(h.Key, fmt.Sprint(size, "/")) {
					sorts = append(sorts, h.Sort)
				}
			}
			return sorts
		}
		all := func(sort uint64) []uint64 { return slices.Repeat([]uint64{sort}, len(create.Puts)) }
		apply(t, d, create)
		var again []memory.Restored // as they are, over data that no script keeps
		for _, p := range create.Puts {
			again = append(again, memory.Restored{Object: memory.Object{Key: p.Key, Revision: 1, Data: p.Data}, Terms: terms})
		}
		if err := d.Restore(ctx, "tenant", again); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(carriers("a"), all(1)) || !slices.Equal(carriers(terms[1].Name), all(1)) {
			t.Fatalf("objects of %d bytes carry %v", size, carriers("a"))
		}
		apply(t, d, move)
		if len(carriers("a")) != 0 || !slices.Equal(carriers(terms[1].Name), all(3)) || !slices.Equal(carriers(terms[2].Name), all(2)) {
			t.Fatalf("moved objects of %d bytes carry %v", size, carriers(terms[1].Name))
		}
		apply(t, d, bury)
		if len(carriers(terms[1].Name)) != 0 || !slices.Equal(carriers(terms[2].Name), all(2)) || revision(t, d, create.Puts[0].Key) != 3 {
			t.Fatalf("buried objects of %d bytes carry %v", size, carriers(terms[1].Name))
		}
	}
}
