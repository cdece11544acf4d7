package storetest_test

import (
	"context"
	"iter"
	"strings"

	"github.com/hearsay-go/hearsay/memory"
)

// objectsOf passes what is listed through a function, which says how often each object
// is given.
func objectsOf(m *mutant, d memory.Driver, f func(n int, o *memory.Restored) (times int)) {
	m.objects = func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
		return func(yield func(memory.Restored, error) bool) {
			n := 0
			for o, err := range d.Objects(ctx, tenant, prefix) {
				for range f(n, &o) {
					if !yield(o, err) {
						return
					}
				}
				n++
			}
		}
	}
}

func carriersOf(m *mutant, d memory.Driver, f func(n int, c *memory.Carrier) (times int)) {
	m.carriers = func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
		return func(yield func(memory.Carrier, error) bool) {
			n := 0
			for c, err := range d.Carriers(ctx, tenant, prefix) {
				for range f(n, &c) {
					if !yield(c, err) {
						return
					}
				}
				n++
			}
		}
	}
}

// listMutants have a fault in what lists all objects, or the index of terms.
var listMutants = map[string]func(m *mutant, d memory.Driver){
	"a list of objects without tombstones": func(m *mutant, d memory.Driver) {
		objectsOf(m, d, func(_ int, o *memory.Restored) int { return once(o.Data != nil) })
	},
	"a list of objects without terms": func(m *mutant, d memory.Driver) {
		objectsOf(m, d, func(_ int, o *memory.Restored) int { o.Terms = nil; return 1 })
	},
	"a list of objects that ends after two thousand": func(m *mutant, d memory.Driver) {
		objectsOf(m, d, func(n int, _ *memory.Restored) int { return once(n < 2000) })
	},
	"a list of objects that gives one twice": func(m *mutant, d memory.Driver) {
		objectsOf(m, d, func(n int, _ *memory.Restored) int { return 1 + once(n == 1000) })
	},
	"a list of objects that takes a star for a pattern": func(m *mutant, d memory.Driver) {
		m.objects = func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Restored, error] {
			return d.Objects(ctx, tenant, strings.TrimSuffix(prefix, "*"))
		}
	},
	"an index of another tenant": func(m *mutant, d memory.Driver) {
		m.carriers = func(ctx context.Context, _, prefix string) iter.Seq2[memory.Carrier, error] {
			return d.Carriers(ctx, "tenant", prefix)
		}
	},
	"an index without its sorts": func(m *mutant, d memory.Driver) {
		carriersOf(m, d, func(_ int, c *memory.Carrier) int { c.Sort = 0; return 1 })
	},
	"an index with a thousand carriers of a term": func(m *mutant, d memory.Driver) {
		given := map[string]int{}
		carriersOf(m, d, func(n int, c *memory.Carrier) int {
			if n == 0 {
				clear(given)
			}
			given[c.Name]++
			return once(given[c.Name] <= 1000)
		})
	},
	"an index that is made of what objects carry": func(m *mutant, d memory.Driver) {
		m.carriers = func(ctx context.Context, tenant, prefix string) iter.Seq2[memory.Carrier, error] {
			return func(yield func(memory.Carrier, error) bool) {
				for o, err := range d.Objects(ctx, tenant, prefix) { // the prefix is of terms
					for _, t := range o.Terms {
						if !yield(memory.Carrier{Term: t, Key: o.Key}, err) {
							return
						}
					}
				}
			}
		}
	},
}

func once(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
