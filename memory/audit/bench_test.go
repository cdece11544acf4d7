package audit_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
	"github.com/hearsay-go/hearsay/memory/keyring"
	"github.com/hearsay-go/hearsay/memory/sqlitestore"
)

// large is a store in a file with logs of some entries each.
func large(b *testing.B, logs, entries int) *bench {
	d, err := sqlitestore.Open(b.Context(), filepath.Join(b.TempDir(), "agent.db"), &sqlitestore.Options{Synchronous: sqlitestore.Normal})
	must(b, err)
	s := benchOn(b, d, keyring.Ephemeral())
	b.Cleanup(func() { must(b, s.Close()) })
	for range logs {
		id := s.rows(1)[0]
		if entries > 4 {
			s.echo(id, entries)
			continue
		}
		for i := 1; i < entries; i++ {
			if s.pass(time.Second); i%2 == 1 {
				s.verified(id)
			} else {
				s.demoted(id)
			}
		}
	}
	s.make(s.maker(nil))
	return s
}

func BenchmarkVerify(b *testing.B) {
	for _, size := range []struct{ logs, entries int }{{100, 1000}, {10_000, 4}} {
		b.Run(fmt.Sprintf("%d logs of %d entries", size.logs, size.entries), func(b *testing.B) {
			s := large(b, size.logs, size.entries)
			entries := 0
			for b.Loop() {
				entries += s.holds(s.options(nil)).Entries
			}
			b.ReportMetric(float64(entries)/b.Elapsed().Seconds(), "entries/s")
		})
		b.Run(fmt.Sprintf("export of %d logs of %d entries", size.logs, size.entries), func(b *testing.B) {
			s := large(b, size.logs, size.entries)
			var out bytes.Buffer
			must(b, audit.Export(b.Context(), s.Store, &out))
			entries := 0
			for b.Loop() {
				r, err := audit.VerifyExport(b.Context(), bytes.NewReader(out.Bytes()), s.keys, s.options(nil))
				must(b, err)
				entries += r.Entries
			}
			b.ReportMetric(float64(entries)/b.Elapsed().Seconds(), "entries/s")
			b.ReportMetric(float64(out.Len())/float64(entries/b.N), "B/entry")
		})
	}
}

func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{0, 1, 100, 10_000} {
		b.Run(fmt.Sprintf("%d changed logs of 10000", n), func(b *testing.B) {
			s := large(b, 10_000, 1)
			m := s.maker(nil)
			ids := s.rows(max(n, 1))
			s.make(m)
			for b.Loop() {
				b.StopTimer()
				s.pass(time.Hour)
				for _, id := range ids[:n] {
					s.verifiedOrNot(id)
				}
				b.StartTimer()
				s.make(m)
			}
		})
	}
}

// verifiedOrNot moves a row to where it is not.
func (b *bench) verifiedOrNot(id memory.ID) {
	f, err := b.Fitness(b.Context(), []memory.ID{id})
	must(b, err)
	if f.Heads[0].State() == memory.StateVerified {
		b.demoted(id)
	} else {
		b.verified(id)
	}
}

func BenchmarkAcknowledge(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("%d callers", callers), func(b *testing.B) {
			w, _ := newWitness(b)
			l := w.Ledger("acme", "")
			b.SetParallelism(callers)
			b.RunParallel(func(p *testing.PB) {
				for i := uint64(1); p.Next(); i++ {
					if err := l.Acknowledge(b.Context(), memory.EntryTransition, []memory.Leaf{leaf(fmt.Sprintf("h/%p", p), i, 1)}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
