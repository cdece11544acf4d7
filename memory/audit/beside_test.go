package audit_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/audit"
)

// meddler is a driver beside which something happens after a given number of reads,
// and something else after the next. Its pages are short, so that there are many
// places for it to happen.
type meddler struct {
	memory.Driver
	page  int
	at    int
	reads int
	do    []func()
}

func (m *meddler) read() {
	if m.reads++; m.reads >= m.at && len(m.do) > 0 {
		do := m.do[0]
		m.do = m.do[1:]
		do()
	}
}

func (m *meddler) Get(ctx context.Context, tenant string, keys []string) ([]memory.Object, error) {
	defer m.read()
	return m.Driver.Get(ctx, tenant, keys)
}

func (m *meddler) History(ctx context.Context, tenant, key string, after uint64, limit int) ([]memory.LogEntry, error) {
	defer m.read()
	return m.Driver.History(ctx, tenant, key, after, limit)
}

func (m *meddler) Logs(ctx context.Context, tenant, prefix, after string, limit int) ([]string, string, error) {
	defer m.read()
	return m.Driver.Logs(ctx, tenant, prefix, after, limit)
}

func (m *meddler) Scan(ctx context.Context, tenant, prefix string, after memory.LogPlace, limit int) ([]memory.Logged, bool, error) {
	defer m.read()
	return m.Driver.Scan(ctx, tenant, prefix, after, min(limit, m.page))
}

// TestNothingThatHappensBetweenTwoReadsIsTakenForTampering has something happen after
// the first read of a verification, after the second one, and so on to the last.
func TestNothingThatHappensBetweenTwoReadsIsTakenForTampering(t *testing.T) {
	const long = 150
	pack := func(b *bench, _ []memory.ID) {
		if _, err := b.Compact(b.Context()); err != nil {
			b.Error(err)
		}
	}
	erase := func(b *bench, _ []memory.ID) {
		if c, err := b.Erase(b.Context(), memory.Erasure{Subject: "ana", Actor: "operator"}); err != nil || c.Rows == 0 {
			b.Error(c, err)
		}
	}
	named := func(b *bench, _ []memory.ID) { // the key of these rows stays: their payloads are taken out
		if c, err := b.Erase(b.Context(), memory.Erasure{Subject: "Oslo", Actor: "operator"}); err != nil || c.Rows == 0 {
			b.Error(c, err)
		}
	}
	write := func(b *bench, ids []memory.ID) {
		b.echo(ids[0], 3)
		b.verified(ids[1])
		b.demoted(ids[1])
		b.rows(1)
	}
	type step = func(*bench, []memory.ID)
	all := func(steps ...step) step {
		return func(b *bench, ids []memory.ID) {
			for _, do := range steps {
				do(b, ids)
			}
		}
	}
	grow := func(b *bench, ids []memory.ID) { b.echo(ids[0], 70) }
	cases := []struct {
		name string
		do   []step // each after the read that follows
	}{
		{"rows are written, moved and come back", []step{write}},
		{"rows move at each read", []step{write, write, write, write, write}},
		{"logs are packed", []step{pack}},
		{"logs grow and are packed", []step{all(write, grow, pack, write)}},
		{"logs grow, and then they are packed", []step{all(write, grow), pack}},
		{"a subject is erased", []step{erase}},
		{"rows that name a subject are erased", []step{named}},
		{"rows move, and before that is read they are erased", []step{write, named}},
		{"rows move, and before that is read they are packed and erased", []step{all(write, grow), all(pack, named)}},
		{"rows move, their payloads are taken out, logs are packed", []step{all(write, named, pack)}},
		{"logs are packed, then their payloads are taken out", []step{all(pack, named)}},
		{"logs are packed, and then their payloads are taken out", []step{pack, named}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, kind := range []string{"store", "export"} {
				happened := 0
				for at := 1; ; at++ {
					b := newBench(t)
					ids := b.rows(3)
					for range 12 { // a head's log that is long enough to be packed
						b.verified(ids[1])
						b.demoted(ids[1])
					}
					b.echo(ids[0], long)
					b.make(b.maker(nil))
					m := &meddler{Driver: b.driver, page: 20, at: at}
					for _, do := range c.do {
						m.do = append(m.do, func() {
							happened++
							do(b, ids)
						})
					}
					over := b.open(m, b.keys)
					if kind == "store" {
						r, err := audit.Verify(t.Context(), over, b.options(nil))
						if err != nil || r.Entries < long {
							t.Fatalf("after %d reads: %+v %v", at, r, err)
						}
					} else {
						var out bytes.Buffer
						if err := audit.Export(t.Context(), over, &out); err != nil {
							t.Fatalf("after %d reads: %v", at, err)
						}
						r, err := audit.VerifyExport(t.Context(), &out, b.keys, b.options(nil))
						if err != nil || r.Entries < long {
							t.Fatalf("after %d reads, an export: %+v %v", at, r, err)
						}
					}
					if m.reads < at {
						break
					}
					b.holds(b.options(nil))
				}
				if happened < 8 {
					t.Fatalf("it happened in %d places only", happened)
				}
				t.Logf("%s: it happened after each of %d reads", kind, happened)
			}
		})
	}
}
