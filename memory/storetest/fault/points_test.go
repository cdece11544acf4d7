package fault

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/storetest"
)

// kept is a driver that outlives its handles.
type kept struct{ memory.Driver }

func (kept) Close() error { return nil }

// lossy acknowledges one batch in many that it has not written.
type lossy struct {
	memory.Driver
	n *atomic.Int64
}

func (d lossy) Apply(ctx context.Context, tenant string, b memory.Batch) error {
	if d.n.Add(1)%200 == 0 {
		return nil
	}
	return d.Driver.Apply(ctx, tenant, b)
}

// forgetful loses the terms of what it restores.
type forgetful struct{ memory.Driver }

func (d forgetful) Restore(ctx context.Context, tenant string, objects []memory.Restored) error {
	for i := range objects {
		objects[i].Terms = objects[i].Terms[:min(1, len(objects[i].Terms))]
	}
	return d.Driver.Restore(ctx, tenant, objects)
}

// keeping never changes an entry of a log.
type keeping struct{ memory.Driver }

func (keeping) Rewrite(context.Context, string, string, []memory.Rewritten) error { return nil }

func TestPointsFindWhatADriverDoesWrong(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(memory.Driver) memory.Driver
		want string // in the error
	}{
		{"nothing is wrong", func(d memory.Driver) memory.Driver { return d }, ""},
		{"acknowledged batches are lost", func(d memory.Driver) memory.Driver { return lossy{d, &atomic.Int64{}} }, ":"},
		{"what is restored loses its terms", func(d memory.Driver) memory.Driver { return forgetful{d} }, "a rebuild"},
		{"what is erased stays in the log", func(d memory.Driver) memory.Driver { return keeping{d} }, "an erasure"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			drivers := map[string]memory.Driver{}
			p, err := perform(t, Store{
				Fresh: func(*testing.T) string {
					name := strings.Repeat("x", len(drivers)+1)
					drivers[name] = kept{c.make(storetest.NewMap())}
					return name
				},
				Open: func(_ context.Context, name string) (memory.Driver, error) { return drivers[name], nil },
			}, every, breaks, hangs)
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("error is %v, want one with %q", err, c.want)
			case c.want == "" && (p.calls == 0 || p.played[breaks] != p.calls+p.writes):
				t.Fatalf("%+v", p)
			}
			t.Logf("%d runs: %.200v", p.played[breaks]+p.played[hangs], err)
		})
	}
}

// every chooses all of n cases.
func every(n int, _ func(i int) string) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}
