package gate_test

import (
	"fmt"
	"testing"

	"github.com/hearsay-go/hearsay/gate"
	"github.com/hearsay-go/hearsay/memory"
)

// permitted is a request of n direct rows that are fit and as many ancestors.
func permitted(n int) (gate.Policy, gate.Request, memory.Fitness) {
	p := declared()
	p.Tools = map[string]gate.Rule{"send_email": {}}
	f := memory.Fitness{Now: clock0}
	var direct, ancestors []memory.ID
	for i := range n {
		direct = append(direct, id(fmt.Sprintf("%08d", i)))
		ancestors = append(ancestors, id(fmt.Sprintf("%08d", n+i)))
	}
	for _, list := range [][]memory.ID{direct, ancestors} {
		for _, rid := range list {
			h := verified("x")
			h.ID = rid
			f.Heads = append(f.Heads, h)
		}
	}
	req := mail()
	req.Lineage = gate.Known(direct, ancestors)
	return p, req, f
}

func TestAPermitCostsNoAllocation(t *testing.T) {
	for _, n := range []int{0, 1, 100, 1000} {
		p, req, f := permitted(n)
		var d gate.Decision
		if allocs := testing.AllocsPerRun(100, func() { d = p.Evaluate(&req, f) }); allocs != 0 {
			t.Errorf("%d rows: %v allocations", 2*n, allocs)
		}
		if d.Err() != nil {
			t.Fatal(d.Err())
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("rows=%d", 2*n), func(b *testing.B) {
			p, req, f := permitted(n)
			b.ReportAllocs()
			for b.Loop() {
				if d := p.Evaluate(&req, f); d.Outcome != gate.Permit {
					b.Fatal(d.Err())
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*n), "ns/row")
		})
	}
	b.Run("blocked, rows=200", func(b *testing.B) {
		p, req, f := permitted(100)
		for i := range f.Heads {
			f.Heads[i].Truth = memory.TruthUnverified
		}
		b.ReportAllocs()
		for b.Loop() {
			if d := p.Evaluate(&req, f); d.Outcome == gate.Permit {
				b.Fatal("permitted")
			}
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("map store, rows=%d", n), func(b *testing.B) {
			w := newWorld(b)
			var ids []memory.ID
			for i := range n {
				ids = append(ids, w.put(b, w.fromTool(triple("acme", fmt.Sprintf("p%d", i), "x"))))
			}
			g := newGate(b, w, declared(), nil)
			req := mail(ids...)
			b.ReportAllocs()
			for b.Loop() {
				if d := g.Decide(b.Context(), apart(req)); d.Err() != nil {
					b.Fatal(d.Err())
				}
			}
		})
	}
}
