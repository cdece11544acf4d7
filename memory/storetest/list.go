package storetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hearsay-go/hearsay/memory"
)

// listCases ask what the listings of all objects and of the index of terms must do.
func listCases() []testCase {
	return []testCase{
		{"all objects are listed with what they hold and carry, and the index line by line", askList},
		{"a listing has tombstones, what has no log, and nothing of what was removed", askListOfWhat},
		{"a listing of large objects, and of a term with many carriers, is whole", askListOfMuch},
		{"a listing gives what stays put once while others write", askListWhileWriting},
		{"a listing that is left early, or cancelled, holds up nobody", askListLeft},
	}
}

// gathered reads a listing to its end, in the order of compare.
func gathered[T any](list iter.Seq2[T, error], compare func(x, y T) int) (all []T, err error) {
	for v, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	slices.SortFunc(all, compare)
	return all, nil
}

func compareRestored(x, y memory.Restored) int { return strings.Compare(x.Key, y.Key) }

func compareCarriers(x, y memory.Carrier) int {
	return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(x.Sort, y.Sort), strings.Compare(x.Key, y.Key))
}

func objectsOf(ctx context.Context, d memory.Driver, tenant, prefix string) ([]memory.Restored, error) {
	return gathered(d.Objects(ctx, tenant, prefix), compareRestored)
}

func carriersOf(ctx context.Context, d memory.Driver, tenant, prefix string) ([]memory.Carrier, error) {
	return gathered(d.Carriers(ctx, tenant, prefix), compareCarriers)
}

func sameRestored(x, y memory.Restored) bool {
	return x.Key == y.Key && x.Revision == y.Revision && same(x.Data, y.Data) && slices.Equal(inOrder(x.Terms), inOrder(y.Terms))
}

func inOrder(terms []memory.Term) []memory.Term {
	return slices.SortedFunc(slices.Values(terms), func(x, y memory.Term) int { return strings.Compare(x.Name, y.Name) })
}

// objects asks that exactly these are listed, and that the index is what they carry.
func (a *asker) objects(what, prefix string, want ...memory.Restored) {
	a.Helper()
	slices.SortFunc(want, compareRestored)
	got, err := objectsOf(a.ctx, a.d, a.tenant, prefix)
	a.ok(err)
	if a.checks.Add(1); !slices.EqualFunc(got, want, sameRestored) { // only then are the texts worth making
		a.Fatalf("%s: objects are %s, want %s", what, short(got), short(want))
	}
}

func (a *asker) indexed(what, prefix string, want ...memory.Carrier) {
	a.Helper()
	slices.SortFunc(want, compareCarriers)
	got, err := carriersOf(a.ctx, a.d, a.tenant, prefix)
	a.ok(err)
	if a.checks.Add(1); !slices.Equal(got, want) {
		a.Fatalf("%s: the index is %s, want %s", what, short(got), short(want))
	}
}

// lines are the index that objects make.
func lines(objects ...memory.Restored) (want []memory.Carrier) {
	for _, o := range objects {
		for _, t := range o.Terms {
			want = append(want, memory.Carrier{Term: t, Key: o.Key})
		}
	}
	return want
}

func askList(a *asker) {
	a.objects("of nothing", "")
	a.indexed("of nothing", "")
	const longest = 512 // of a name of a term that is listed as it is
	var all []memory.Restored
	for i, k := range lookalikes() {
		o := restored(k, 1, data("%d", i), memory.Term{Name: "all", Sort: 7}, memory.Term{Name: k[:min(len(k), longest)], Sort: uint64(i) << 40})
		a.apply(memory.Put{Key: k, Data: o.Data, Add: o.Terms})
		all = append(all, o)
	}
	a.objects("all", "", all...)
	a.indexed("all", "", lines(all...)...)
	for _, prefix := range []string{"a", "alice", "byte:", "k", "kkk", "\xff", "\xff\xff", "%", "*", "?", "[a]", `\`, "{", strings.Repeat("k", 300), "no such"} {
		some := slices.DeleteFunc(slices.Clone(all), func(o memory.Restored) bool { return !strings.HasPrefix(o.Key, prefix) })
		a.objects(fmt.Sprintf("prefix %.40q", prefix), prefix, some...)
		under := slices.DeleteFunc(lines(all...), func(c memory.Carrier) bool { return !strings.HasPrefix(c.Name, prefix) })
		a.indexed(fmt.Sprintf("prefix %.40q", prefix), prefix, under...)
	}
	a.in("elsewhere").objects("another tenant", "")
	a.in("elsewhere").indexed("another tenant", "")
}

func askListOfWhat(a *asker) {
	a.apply(
		memory.Put{Key: "alive", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}, {Name: "gone", Sort: 1}}},
		memory.Put{Key: "dead", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 2}}},
		memory.Put{Key: "born dead", Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 3}}},
		memory.Put{Key: "empty", Data: []byte{}},
		memory.Put{Key: "removed", Data: data("x"), Entry: data("x"), Add: []memory.Term{{Name: "t", Sort: 4}}},
	)
	a.apply(
		memory.Put{Key: "alive", From: 1, Data: data("y"), Entry: data("y"), Add: []memory.Term{{Name: "t", Sort: 9}}, Remove: []string{"gone"}},
		memory.Put{Key: "dead", From: 1, Clear: true, Add: []memory.Term{{Name: "u", Sort: 1}}},
	)
	a.restore(restored("removed", 0, nil), restored("restored", 1<<40, data("z"), memory.Term{Name: "t", Sort: 5}, memory.Term{Name: "u", Sort: 5}))
	want := []memory.Restored{
		restored("alive", 2, data("y"), memory.Term{Name: "t", Sort: 9}),
		restored("dead", 2, nil, memory.Term{Name: "u", Sort: 1}),
		restored("born dead", 1, nil, memory.Term{Name: "t", Sort: 3}),
		restored("empty", 1, []byte{}),
		restored("restored", 1<<40, data("z"), memory.Term{Name: "t", Sort: 5}, memory.Term{Name: "u", Sort: 5}),
	}
	a.objects("what is there", "", want...)
	a.indexed("what is there", "", lines(want...)...)
}

func askListOfMuch(a *asker) {
	var all []memory.Restored
	for i := range 6 {
		o := restored(fmt.Sprintf("large/%d", i), 1, bytes.Repeat([]byte{byte(i)}, 3<<20), memory.Term{Name: "large", Sort: uint64(i)})
		a.apply(memory.Put{Key: o.Key, Data: o.Data, Add: o.Terms})
		all = append(all, o)
	}
	whole := restored("larger", 1, bytes.Repeat([]byte("x"), memory.MaxBatchBytes-1000))
	a.apply(memory.Put{Key: whole.Key, Data: whole.Data})
	all = append(all, whole)
	var b memory.Batch
	for i := range 4500 {
		o := restored(fmt.Sprintf("many/%d", i), 1, data("%d", i), memory.Term{Name: "many", Sort: uint64(i / 7)}, memory.Term{Name: fmt.Sprintf("one of %05d", i), Sort: uint64(10_000 - i)})
		b.Puts = append(b.Puts, memory.Put{Key: o.Key, Data: o.Data, Add: o.Terms})
		all = append(all, o)
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	a.objects("many and large", "", all...)
	a.indexed("many and large", "", lines(all...)...)
}

func askListWhileWriting(a *asker) {
	var stay []memory.Restored
	for i := range 60 {
		o := restored(fmt.Sprintf("%03d/stay", i), 1, data("%d", i), memory.Term{Name: "t", Sort: uint64(i)}, memory.Term{Name: fmt.Sprintf("t%d", i), Sort: 1})
		a.apply(memory.Put{Key: o.Key, Data: o.Data, Add: o.Terms})
		stay = append(stay, o)
	}
	var at atomic.Int64
	beside(a, 40, func(round int) error {
		defer at.Add(1)
		var b memory.Batch
		for i := range 20 {
			b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("%03d/new %d", i*3, round), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: uint64(i * 3)}, {Name: fmt.Sprintf("t%dx%d", i, round), Sort: 1}}})
		}
		return a.d.Apply(a.ctx, a.tenant, b)
	}, func() error {
		objects, err := objectsOf(a.ctx, a.d, a.tenant, "")
		if err != nil {
			return err
		}
		objects = slices.DeleteFunc(objects, func(o memory.Restored) bool { return !strings.HasSuffix(o.Key, "/stay") })
		if !slices.EqualFunc(objects, stay, sameRestored) {
			return fmt.Errorf("of %d objects that stayed %d were listed, or others than were there", len(stay), len(objects))
		}
		index, err := carriersOf(a.ctx, a.d, a.tenant, "")
		if err != nil {
			return err
		}
		index = slices.DeleteFunc(index, func(c memory.Carrier) bool { return !strings.HasSuffix(c.Key, "/stay") })
		want := lines(stay...)
		slices.SortFunc(want, compareCarriers)
		if !slices.Equal(index, want) {
			return fmt.Errorf("of %d lines that stayed %d were listed, or others than were there", len(want), len(index))
		}
		return nil
	})
	a.true(at.Load() >= 40, "the writer was over after %d rounds", at.Load())
}

func askListLeft(a *asker) {
	var b memory.Batch
	for i := range 3000 {
		b.Puts = append(b.Puts, memory.Put{Key: fmt.Sprintf("k%d", i), Data: data("x"), Add: []memory.Term{{Name: "t", Sort: 1}, {Name: fmt.Sprint("t", i), Sort: 1}}})
	}
	a.ok(a.d.Apply(a.ctx, a.tenant, b))
	for range 50 { // more than there are connections
		for _, err := range a.d.Objects(a.ctx, a.tenant, "") {
			a.ok(err)
			break
		}
		for _, err := range a.d.Carriers(a.ctx, a.tenant, "") {
			a.ok(err)
			break
		}
	}
	var written string // a store may list in any order
	for o, err := range a.d.Objects(a.ctx, a.tenant, "k") {
		a.ok(err)
		written = o.Key
		a.apply(memory.Put{Key: written, From: 1, Data: data("y")}) // from within
		break
	}
	a.at(written, 2, data("y"))
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	var last error
	n := 0
	for _, err := range a.d.Objects(ctx, a.tenant, "") {
		if last = err; n == 10 {
			cancel()
		}
		n++
	}
	a.true(n <= 3000 && (last == nil || errors.Is(last, context.Canceled)), "a cancelled listing gave %d objects and %v", n, last)
	other := "k2999"
	if written == other {
		other = "k0"
	}
	a.at(other, 1, data("x"))
}
