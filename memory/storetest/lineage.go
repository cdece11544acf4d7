package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hearsay-go/hearsay/memory"
	"github.com/hearsay-go/hearsay/memory/keyring"
)

// RunLineage builds a lineage about as large as one may be, on a driver, and asks that
// it is answered whole: inline up to [memory.MaxInlineClosure] rows, traced beyond
// that with the same answer, and beyond [memory.MaxClosure] refused, with nothing
// written.
func RunLineage(t *testing.T, open func(t *testing.T) memory.Driver) {
	t.Helper()
	d := open(t)
	closeLater(t, d)
	s, err := memory.New(d, keyring.Ephemeral(), &memory.Options{Tenant: "lineage"})
	if err != nil {
		t.Fatal(err)
	}
	const (
		fan    = 250 // below MaxInlineClosure
		groups = memory.MaxClosure / fan
	)
	draft := func(i int, from ...memory.ID) memory.Draft {
		return memory.Draft{Content: memory.Content{Text: fmt.Sprint("claim ", i), Cardinality: memory.CardinalityUnknown}, Origin: memory.OriginModelDerived,
			State: memory.StateUnverified, Asserter: memory.Asserter{Principal: "ana", Model: "sonnet", Family: "claude"}, DerivedFrom: from,
			Sensitivity: memory.SensitivityInternal}
	}
	put := func(d memory.Draft) memory.ID {
		t.Helper()
		r, err := s.Put(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	in, err := s.Importing(t.Context(), memory.ImportSource{Name: "lineage", Dump: "roots", Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	var roots, middle []memory.ID
	for from := 0; from < groups*fan; from += 1000 {
		rows := make([]memory.Imported, min(1000, groups*fan-from))
		for i := range rows {
			rows[i] = memory.Imported{Name: fmt.Sprint(from + i), Draft: draft(from + i)}
		}
		got, err := in.Put(t.Context(), rows, func([]memory.ImportReceipt) []byte { return []byte{1} })
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			roots = append(roots, r.ID)
		}
	}
	for g := range groups {
		middle = append(middle, put(draft(-1-g, roots[g*fan:(g+1)*fan]...)))
	}
	if h := heads(t, s, middle[0])[0]; h.Has(memory.FlagTraced) {
		t.Fatalf("a lineage of %d rows is not inline", fan)
	}

	// One group fewer than all, with the rows between, is below the limit.
	top := put(draft(-1000, middle[1:]...))
	want := slices.Concat(middle[1:], roots[fan:])
	if len(want) > memory.MaxClosure || !heads(t, s, top)[0].Has(memory.FlagTraced) {
		t.Fatalf("%d rows, %+v", len(want), heads(t, s, top))
	}
	start := time.Now()
	got, err := s.Closure(t.Context(), top)
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Fatalf("%d of %d rows", len(got), len(want))
	}

	rows := func() (n int) {
		for after := ""; ; {
			keys, next, err := d.Logs(t.Context(), "lineage", "", after, 5000)
			if err != nil {
				t.Fatal(err)
			}
			if n += len(keys); next == "" {
				return n
			}
			after = next
		}
	}
	before := rows()
	if _, err := s.Put(t.Context(), draft(-2000, middle...)); !errors.Is(err, memory.ErrClosureTooLarge) {
		t.Fatalf("a lineage of more than %d rows: %v", memory.MaxClosure, err)
	}
	if _, err := s.Put(t.Context(), draft(-2001, top, middle[0])); !errors.Is(err, memory.ErrClosureTooLarge) {
		t.Fatalf("a lineage that is traced to more than %d rows: %v", memory.MaxClosure, err)
	}
	if after := rows(); after != before {
		t.Fatalf("a refused row left %d logs", after-before)
	}
	t.Logf("a lineage of %d rows in %s", len(want), took.Round(time.Millisecond))
}

func heads(t *testing.T, s *memory.Store, ids ...memory.ID) []memory.Head {
	t.Helper()
	f, err := s.Fitness(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	return f.Heads
}
